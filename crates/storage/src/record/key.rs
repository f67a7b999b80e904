//! Keys: words whose integer order is the order of the values.
//!
//! Every key of an index has the same number of words ([`KeyShape`]), 1 to 32, computed from the
//! declared types; comparing two keys is comparing slices of integers. The bytes in them (see
//! `key_word`) are, column by column:
//!
//! | type | bytes |
//! |---|---|
//! | nullable columns first | 0 for NULL (then nothing), else 1 |
//! | integers, dates, timestamps, decimals | as they are with the sign flipped |
//! | float64 | sign flipped if positive, all bits if negative; -0.0 as 0.0, one NaN, last |
//! | char(n) | n bytes padded with blanks |
//! | varchar, text | each byte plus one, ended by 0; exact keys: escaped and ended by 0 |
//! | bytes | groups of eight |
//! | sortable(n) | as they are, padded with zeros |
//! | bool, uuid | as they are |
//!
//! Keys are exact or truncated by the rule of their table ([`KeyRule`]). Exact ones have room for
//! 119 bytes of a text and for 104 of unlimited bytes, and refuse longer contents. In truncated
//! ones a content of variable length has at most 64 bytes of room (`Rooms`). One that needs more is
//! *cut*: its first bytes (room less 17), 255, which no whole text or bytes have there, and 16
//! bytes of a keyed hash of all of it (SipHash-2-4). So keys are as unique as contents. Contents
//! that are cut after the same bytes are in the order of their hashes; so the ends of ranges are
//! widened to all contents with those first bytes, and the rows are compared
//! ([`KeyEncoder::range_bound`], [`KeyEncoder::compare_row`]).
//!
//! A key of the primary index is the primary key. A key of a secondary index is its columns and
//! then the primary key's other columns, which make it unique; in a unique index these are left out
//! (zeros) unless a column is NULL, because NULLs are distinct.

use super::checksum::weight;
use super::error::{RecordError, Result};
use super::key_shape::{KeyShape, MAX_KEY_WORDS, Rooms, whole_bytes};
use super::key_word::{WordReader, WordWriter, escaped_bytes, grouped_bytes, whole_groups};
use super::row::Row;
use super::schema::{Column, IndexDef, KeyRule, TableDef};
use super::types::DataType;
use super::value::{AsValue, Uuid, Value, ValueRef, float_from_order, float_order};
use super::{Date, Decimal, Timestamp};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::cmp::Ordering;
use std::hash::Hasher;
use std::ops::Deref;

/// Words of a [`KeyBuf`] that need no allocation; with its other fields it fills a cache line.
const SHORT_WORDS: usize = 6;
/// The byte before the hash of a content that is cut.
const CUT: u8 = 255;
/// Bytes of the hash of a content that is cut.
const HASH_BYTES: usize = 16;

const SIGN: u64 = 1 << 63;

/// A key: a buffer of words, usable again and again.
#[derive(Clone, Debug, Default)]
pub struct KeyBuf {
    short: [u64; SHORT_WORDS],
    /// Used when there are more words than `short` has.
    long: Option<Box<[u64; MAX_KEY_WORDS]>>,
    words: u32,
}

impl KeyBuf {
    /// An empty key.
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy of the words of a key.
    ///
    /// # Panics
    /// If there are more than 32.
    pub fn from_words(words: &[u64]) -> Self {
        let mut key = Self::new();
        key.assign(words);
        key
    }

    /// Becomes a copy of the words of a key.
    ///
    /// # Panics
    /// If there are more than 32.
    pub fn assign(&mut self, words: &[u64]) {
        self.resized(words.len()).copy_from_slice(words);
    }

    /// The key as words to be overwritten; what they hold is arbitrary.
    ///
    /// # Panics
    /// If `words` is above 32.
    pub fn resized(&mut self, words: usize) -> &mut [u64] {
        assert!(
            words <= MAX_KEY_WORDS,
            "a key has at most {MAX_KEY_WORDS} words"
        );
        self.words = words as u32;
        if words <= SHORT_WORDS {
            return &mut self.short[..words];
        }
        &mut self
            .long
            .get_or_insert_with(|| Box::new([0; MAX_KEY_WORDS]))[..words]
    }
}

impl Deref for KeyBuf {
    type Target = [u64];

    #[inline]
    fn deref(&self) -> &[u64] {
        let words = self.words as usize;
        if words <= SHORT_WORDS {
            return &self.short[..words];
        }
        self.long.as_ref().map_or(&[], |long| &long[..words])
    }
}

impl PartialEq for KeyBuf {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for KeyBuf {}

impl PartialOrd for KeyBuf {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KeyBuf {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

/// A hash of the words of a key. Filters in files depend on it.
#[inline]
pub fn key_hash(key: &[u64]) -> u64 {
    let mut sum = 0x9e37_79b9_7f4a_7c15_u64;
    for &word in key {
        sum = (sum ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        sum ^= sum >> 32;
    }
    sum.wrapping_mul(0xc4ce_b9fe_1a85_ec53) ^ sum >> 29
}

/// One column of a key.
#[derive(Clone, Debug)]
struct KeyPart {
    position: usize,
    column: Column,
    /// Encoded bytes that the column may take, without the NULL marker.
    room_bytes: usize,
    /// Whether contents may need more than the room, and are cut.
    is_limited: bool,
}

/// When the columns after the index's own belong to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suffix {
    Always,
    IfNull,
}

/// Makes the keys of one index.
#[derive(Clone, Debug)]
pub struct KeyEncoder {
    table: Box<str>,
    parts: Box<[KeyPart]>,
    positions: Box<[usize]>,
    own_columns: usize,
    suffix: Suffix,
    shape: KeyShape,
    /// The key is one int64 that is never NULL, so it is one word.
    is_single_int64: bool,
    rule: KeyRule,
}

impl KeyEncoder {
    /// The encoder of the primary key of a valid table.
    pub fn primary(table: &TableDef) -> Self {
        Self::new(
            table,
            table.primary_key.clone(),
            table.primary_key.len(),
            Suffix::Always,
            &table.primary_key,
        )
    }

    /// The encoder of a secondary index of a valid table.
    pub fn secondary(table: &TableDef, index: &IndexDef) -> Self {
        let suffix = if index.unique {
            Suffix::IfNull
        } else {
            Suffix::Always
        };
        Self::new(
            table,
            table.secondary_columns(index),
            index.columns.len(),
            suffix,
            &KeyShape::secondary_columns(table, index),
        )
    }

    fn new(
        table: &TableDef,
        positions: Vec<usize>,
        own_columns: usize,
        suffix: Suffix,
        in_keys: &[usize],
    ) -> Self {
        let rooms = Rooms::new(table, in_keys);
        let parts: Box<[KeyPart]> = positions
            .iter()
            .map(|position| {
                let column = table.columns[*position].clone();
                let room_bytes = rooms.of(column.data_type);
                KeyPart {
                    position: *position,
                    is_limited: !rooms.is_exact && room_bytes < whole_bytes(column.data_type),
                    column,
                    room_bytes,
                }
            })
            .collect();
        let is_single_int64 = matches!(&*parts, [part] if part.column.data_type == DataType::Int64
            && !part.column.nullable);
        Self {
            table: table.name.as_str().into(),
            parts,
            positions: positions.into(),
            own_columns,
            suffix,
            shape: KeyShape {
                words: KeyShape::encoded_bytes(table, in_keys).div_ceil(8),
            },
            is_single_int64,
            rule: table.keys,
        }
    }

    /// Number of words of the keys.
    pub fn shape(&self) -> KeyShape {
        self.shape
    }

    /// Positions of the columns that may be in a key: the index's own, then what makes it unique.
    pub fn columns(&self) -> &[usize] {
        &self.positions
    }

    /// How many of [`KeyEncoder::columns`] are the index's own.
    pub fn own_columns(&self) -> usize {
        self.own_columns
    }

    /// Whether a key depends on the column at this position.
    pub fn uses_column(&self, position: usize) -> bool {
        self.positions.contains(&position)
    }

    /// The bytes by which keys order contents of the column at this position, where they do not
    /// have all of each: rows whose contents share so many, and have more, are in no order in it.
    pub fn ordered_bytes(&self, position: usize) -> Option<usize> {
        let part = self.parts.iter().find(|part| part.position == position);
        let part = part.filter(|part| part.is_limited);
        part.map(KeyPart::kept_bytes)
    }

    /// Whether keys have all of each column.
    pub fn is_all_exact(&self) -> bool {
        !self.parts.iter().any(|part| part.is_limited)
    }

    /// The number of the row's contents that are cut in its key.
    pub fn cut_contents(&self, row: &Row) -> usize {
        let has_null = |part: &KeyPart| row.get(part.position).is_null();
        let (own, rest) = self.parts.split_at(self.own_columns);
        let has_rest = self.suffix == Suffix::Always || own.iter().any(has_null);
        let is_cut = |part: &&KeyPart| {
            let content = row.get(part.position).as_bytes();
            part.is_limited
                && content.is_some_and(|content| part.bytes_of(content) > part.room_bytes)
        };
        let rest = if has_rest { rest } else { &[] };
        own.iter().chain(rest).filter(is_cut).count()
    }

    /// The column that is the whole key, if it is an int64 that is never NULL.
    pub fn single_int64(&self) -> Option<usize> {
        self.is_single_int64.then(|| self.parts[0].position)
    }

    /// The key whose only column is this one.
    #[inline]
    pub const fn int64_word(number: i64) -> u64 {
        number.cast_unsigned() ^ SIGN
    }

    /// The key of a row.
    pub fn encode_row(&self, row: &Row, key: &mut KeyBuf) -> Result<()> {
        self.encode_with(|position| row.get(position), key)
    }

    /// The key of a row whose columns are given by position.
    pub fn encode_with<'v>(
        &self,
        mut field: impl FnMut(usize) -> ValueRef<'v>,
        key: &mut KeyBuf,
    ) -> Result<()> {
        if self.is_single_int64
            && let ValueRef::Int64(number) = field(self.parts[0].position)
        {
            key.resized(1)[0] = Self::int64_word(number);
            return Ok(());
        }
        let mut writer = WordWriter::new(key.resized(self.shape.words));
        let (own, rest) = self.parts.split_at(self.own_columns);
        let mut has_null = false;
        for part in own {
            has_null |= self.put(part, field(part.position), &mut writer)?;
        }
        if self.suffix == Suffix::Always || has_null {
            for part in rest {
                self.put(part, field(part.position), &mut writer)?;
            }
        }
        writer.finish(0);
        Ok(())
    }

    /// The key with these column values, in the order of [`KeyEncoder::columns`]: all of them, or
    /// only the index's own where that is already a key (the primary key, a unique index without
    /// NULL among the values).
    pub fn encode_values<V: AsValue>(&self, values: &[V], key: &mut KeyBuf) -> Result<()> {
        if self.is_single_int64
            && let [value] = values
            && let ValueRef::Int64(number) = value.as_value()
        {
            key.resized(1)[0] = Self::int64_word(number);
            return Ok(());
        }
        let has_null = values
            .iter()
            .take(self.own_columns)
            .any(|value| value.as_value().is_null());
        let needed = if self.suffix == Suffix::Always || has_null {
            self.parts.len()
        } else {
            self.own_columns
        };
        let is_complete = values.len() == needed || values.len() == self.parts.len();
        if !is_complete {
            return Err(self.wrong_columns(needed, values.len()));
        }
        self.encode_prefix(&values[..needed], 0, key)
    }

    /// The least key that begins with these column values (none: the least key at all). Inclusive.
    pub fn lower_bound<V: AsValue>(&self, prefix: &[V], key: &mut KeyBuf) -> Result<()> {
        self.encode_prefix(prefix, 0, key)
    }

    /// At or above the greatest key that begins with these column values (none: the greatest key at
    /// all), and below all others. Inclusive.
    pub fn upper_bound<V: AsValue>(&self, prefix: &[V], key: &mut KeyBuf) -> Result<()> {
        self.encode_prefix(prefix, u8::MAX, key)
    }

    /// One end of a range, inclusive: the least key that begins with these values (`fill` 0) or the
    /// greatest (255), where both ends have the same first `equal` values. If the order of keys
    /// around this end is not that of the values, all keys there are included; then it is true, and
    /// the rows of the range must be compared ([`KeyEncoder::compare_row`]).
    pub fn range_bound<V: AsValue>(
        &self,
        values: &[V],
        equal: usize,
        fill: u8,
        key: &mut KeyBuf,
    ) -> Result<bool> {
        self.encode_prefix(values, fill, key)?;
        let written = self.written(values);
        let mut later = self.parts.iter().zip(written).enumerate().skip(equal);
        // Rows that tie before the first content that may be cut are in the order of that one.
        let uncertain = later.find_map(|(at, (part, value))| {
            let content = part.fitted(value.as_value()).as_bytes()?;
            let is_uncertain = part.is_limited && content.len() > part.kept_bytes();
            is_uncertain.then_some((at, part, content))
        });
        let Some((at, part, content)) = uncertain else {
            return Ok(false);
        };
        let mut writer = WordWriter::new(key.resized(self.shape.words));
        for (part, value) in self.parts.iter().zip(&written[..at]) {
            self.put(part, value.as_value(), &mut writer)?;
        }
        if part.column.nullable {
            writer.put(1, 1);
        }
        part.put_beginning(content, &mut writer);
        writer.finish(fill);
        Ok(true)
    }

    /// Compares the row's columns with values in the order of [`KeyEncoder::columns`], as a key
    /// that had all of each content would.
    pub fn compare_row<V: AsValue>(&self, row: &Row, values: &[V]) -> Ordering {
        self.parts
            .iter()
            .zip(self.written(values))
            .map(|(part, value)| part.order(row.get(part.position), part.fitted(value.as_value())))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// Those of the values that are in a key that begins with them.
    fn written<'v, V: AsValue>(&self, prefix: &'v [V]) -> &'v [V] {
        let own_prefix = &prefix[..prefix.len().min(self.own_columns)];
        let has_suffix = self.suffix == Suffix::Always
            || own_prefix.iter().any(|value| value.as_value().is_null());
        if has_suffix { prefix } else { own_prefix }
    }

    fn encode_prefix<V: AsValue>(&self, prefix: &[V], fill: u8, key: &mut KeyBuf) -> Result<()> {
        if prefix.len() > self.parts.len() {
            return Err(self.wrong_columns(self.parts.len(), prefix.len()));
        }
        let mut writer = WordWriter::new(key.resized(self.shape.words));
        for (part, value) in self.parts.iter().zip(self.written(prefix)) {
            self.put(part, value.as_value(), &mut writer)?;
        }
        writer.finish(fill);
        Ok(())
    }

    /// The column values of a key, in the order of [`KeyEncoder::columns`]; a unique index's key
    /// without NULL has only its own. An error for a key with a content that is cut, and for any
    /// whose `sortable` column may be.
    pub fn decode(&self, key: &[u64]) -> Result<Vec<Value>> {
        let damaged = |column: &str, detail: &str| RecordError::Damaged {
            table: self.table.to_string(),
            column: column.to_owned(),
            detail: detail.to_owned(),
        };
        if key.len() != self.shape.words {
            let detail = format!("{} words instead of {}", key.len(), self.shape.words);
            return Err(damaged("key", &detail));
        }
        let mut reader = WordReader::new(key);
        let mut values = Vec::with_capacity(self.parts.len());
        for (place, part) in self.parts.iter().enumerate() {
            let is_suffix = place >= self.own_columns;
            if is_suffix && self.suffix == Suffix::IfNull && !values.iter().any(Value::is_null) {
                break;
            }
            let value = take(part, self.rule, &mut reader);
            values.push(value.ok_or_else(|| damaged(&part.column.name, "no value in the key"))?);
        }
        if !reader.rest_is_zero() {
            return Err(damaged("key", "bytes behind the last column"));
        }
        Ok(values)
    }

    /// Writes one column; true if it is NULL.
    fn put(
        &self,
        part: &KeyPart,
        value: ValueRef<'_>,
        writer: &mut WordWriter<'_>,
    ) -> Result<bool> {
        let column = &part.column;
        let fitted = value
            .fit(column.data_type)
            .map_err(|misfit| misfit.at(&self.table, &column.name, column.data_type, value))?;
        if column.nullable {
            writer.put(u64::from(!fitted.is_null()), 1);
        }
        match fitted {
            ValueRef::Null if column.nullable => return Ok(true),
            ValueRef::Null => {
                return Err(RecordError::NotNull {
                    table: self.table.to_string(),
                    column: column.name.clone(),
                });
            }
            ValueRef::Bool(value) => writer.put(u64::from(value), 1),
            ValueRef::Int16(value) => writer.put(u64::from(value.cast_unsigned() ^ (1 << 15)), 2),
            ValueRef::Int32(value) | ValueRef::Date(Date(value)) => {
                writer.put(u64::from(value.cast_unsigned() ^ (1 << 31)), 4);
            }
            ValueRef::Int64(value) | ValueRef::Timestamp(Timestamp(value)) => {
                writer.put(value.cast_unsigned() ^ SIGN, 8);
            }
            ValueRef::Float64(value) => writer.put(float_order(value), 8),
            ValueRef::Decimal(value) if part.room_bytes == 8 => {
                writer.put(value.units().cast_unsigned() as u64 ^ SIGN, 8);
            }
            ValueRef::Decimal(value) => {
                writer.put((value.units() >> 64).cast_unsigned() as u64 ^ SIGN, 8);
                writer.put(value.units().cast_unsigned() as u64, 8);
            }
            ValueRef::Uuid(Uuid(bytes)) => {
                let number = u128::from_be_bytes(bytes);
                writer.put((number >> 64) as u64, 8);
                writer.put(number as u64, 8);
            }
            ValueRef::Text(text) => self.put_text(part, text.as_bytes(), writer)?,
            ValueRef::Bytes(bytes) => self.put_bytes(part, bytes, writer)?,
        }
        Ok(false)
    }

    fn put_text(&self, part: &KeyPart, text: &[u8], writer: &mut WordWriter<'_>) -> Result<()> {
        if let DataType::Char { length } = part.column.data_type {
            writer.put_padded(text, length as usize, b' ');
            return Ok(());
        }
        match self.rule {
            KeyRule::Exact => {
                self.check_room(part, escaped_bytes(text))?;
                writer.put_escaped_text(text);
            }
            KeyRule::Truncated { .. } if text.len() < part.room_bytes => writer.put_text(text),
            KeyRule::Truncated { hash_key } => part.put_cut(text, hash_key, writer),
        }
        Ok(())
    }

    fn put_bytes(&self, part: &KeyPart, bytes: &[u8], writer: &mut WordWriter<'_>) -> Result<()> {
        let found_bytes = part.bytes_of(bytes);
        if found_bytes > part.room_bytes {
            let KeyRule::Truncated { hash_key } = self.rule else {
                return self.check_room(part, found_bytes);
            };
            part.put_cut(bytes, hash_key, writer);
        } else if let DataType::Sortable { .. } = part.column.data_type {
            writer.put_padded(bytes, part.room_bytes, 0);
        } else {
            writer.put_bytes(bytes);
        }
        Ok(())
    }

    fn check_room(&self, part: &KeyPart, found_bytes: usize) -> Result<()> {
        if found_bytes <= part.room_bytes {
            return Ok(());
        }
        Err(RecordError::KeyTooLong {
            table: self.table.to_string(),
            column: part.column.name.clone(),
            limit_bytes: part.room_bytes as u64,
            found_bytes: found_bytes as u64,
        })
    }

    #[cold]
    fn wrong_columns(&self, expected: usize, found: usize) -> RecordError {
        RecordError::KeyColumns {
            table: self.table.to_string(),
            expected,
            found,
        }
    }
}

/// A hash of a key, stable across versions because it decides the partition of rows.
pub(crate) fn stable_hash(key: &[u64]) -> u64 {
    key.iter().zip(1..).fold(0, |hash: u64, (word, position)| {
        (hash ^ word).wrapping_mul(weight(position)).rotate_left(29) ^ hash >> 32
    })
}

impl KeyPart {
    /// Encoded bytes of a content of variable length that is not cut.
    fn bytes_of(&self, content: &[u8]) -> usize {
        match self.column.data_type {
            DataType::Bytes { .. } => grouped_bytes(content.len()),
            DataType::Sortable { .. } => content.len(),
            _ => content.len() + 1,
        }
    }

    /// Bytes of a content that its key has if it is cut.
    fn kept_bytes(&self) -> usize {
        let kept = self.room_bytes - HASH_BYTES;
        match self.column.data_type {
            DataType::Bytes { .. } => whole_groups(kept),
            _ => kept - 1,
        }
    }

    /// Writes the beginning that a content shares with all that are cut after the same bytes.
    fn put_beginning(&self, content: &[u8], writer: &mut WordWriter<'_>) {
        let kept = &content[..self.kept_bytes()];
        match self.column.data_type {
            DataType::Bytes { .. } => writer.put_beginning_of_bytes(kept),
            DataType::Sortable { .. } => writer.put_padded(kept, kept.len(), 0),
            _ => writer.put_beginning_of_text(kept),
        }
    }

    /// A value as the column has it.
    fn fitted<'v>(&self, value: ValueRef<'v>) -> ValueRef<'v> {
        value.fit(self.column.data_type).unwrap_or(value)
    }

    /// Compares two values that the column may have.
    fn order(&self, left: ValueRef<'_>, right: ValueRef<'_>) -> Ordering {
        match (self.column.data_type, left, right) {
            (DataType::Char { length }, ValueRef::Text(left), ValueRef::Text(right)) => {
                let padded = |text: &str| format!("{text:length$}", length = length as usize);
                padded(left).cmp(&padded(right))
            }
            _ => left.cmp(&right),
        }
    }

    #[cold]
    fn put_cut(&self, content: &[u8], hash_key: u128, writer: &mut WordWriter<'_>) {
        let mut hasher = SipHasher24::new_with_key(&hash_key.to_le_bytes());
        hasher.write(content);
        let hash = hasher.finish128();
        self.put_beginning(content, writer);
        writer.put(u64::from(CUT), 1);
        writer.put(hash.h1, 8);
        writer.put(hash.h2, 8);
    }
}

/// Reads one column; `None` if the bytes are no encoding of its type.
fn take(part: &KeyPart, rule: KeyRule, reader: &mut WordReader<'_>) -> Option<Value> {
    if part.column.nullable {
        match reader.byte()? {
            0 => return Some(Value::Null),
            1 => {}
            _ => return None,
        }
    }
    let text = |bytes| String::from_utf8(bytes).ok().map(Value::Text);
    Some(match part.column.data_type {
        DataType::Bool => Value::Bool(match reader.byte()? {
            0 => false,
            1 => true,
            _ => return None,
        }),
        DataType::Int16 => Value::Int16((reader.take(2)? as u16 ^ (1 << 15)).cast_signed()),
        DataType::Int32 => Value::Int32((reader.take(4)? as u32 ^ (1 << 31)).cast_signed()),
        DataType::Date => Value::Date(Date((reader.take(4)? as u32 ^ (1 << 31)).cast_signed())),
        DataType::Int64 => Value::Int64((reader.take(8)? ^ SIGN).cast_signed()),
        DataType::Timestamp => Value::Timestamp(Timestamp((reader.take(8)? ^ SIGN).cast_signed())),
        DataType::Float64 => Value::Float64(float_from_order(reader.take(8)?)),
        DataType::Decimal { scale, .. } if part.room_bytes == 8 => {
            let units = (reader.take(8)? ^ SIGN).cast_signed();
            Value::Decimal(Decimal::new(units.into(), scale))
        }
        DataType::Decimal { scale, .. } => {
            let high = (reader.take(8)? ^ SIGN).cast_signed();
            let units = i128::from(high) << 64 | i128::from(reader.take(8)?);
            Value::Decimal(Decimal::new(units, scale))
        }
        DataType::Uuid => {
            let number = u128::from(reader.take(8)?) << 64 | u128::from(reader.take(8)?);
            Value::Uuid(Uuid(number.to_be_bytes()))
        }
        DataType::Char { length } => text(reader.padded(length as usize, b' ')?)?,
        DataType::Varchar { .. } | DataType::Text if rule == KeyRule::Exact => {
            text(reader.escaped_text()?)?
        }
        DataType::Varchar { .. } | DataType::Text => text(reader.text()?)?,
        DataType::Bytes { .. } => Value::Bytes(reader.bytes()?),
        DataType::Sortable { .. } if part.is_limited => return None,
        DataType::Sortable { .. } => Value::Bytes(reader.padded(part.room_bytes, 0)?),
    })
}
