//! The layout of a tuple: the place of each column of a row.
//!
//! ```text
//! | checksum | NULL bits, if a column is nullable | 8-byte fields | 4 | 2 | 1 | padding to 8 |
//! ```
//!
//! The first word is reserved for the engine's checksum. NULL bits count nullable columns only; a
//! set bit means NULL, and the field of a NULL is zero. Fields are sorted by alignment, then in the
//! order of the columns, so there are no holes.
//!
//! With [`LayoutKind::Together`], contents of up to 128 bytes lie in the tuple; with
//! [`LayoutKind::Separate`] those of up to 8. Longer ones lie elsewhere (see `variable`) and have a
//! word in the tuple: 0 for NULL and for empty content, else on the medium the offset of the block,
//! and in a [`Row`](super::Row) `offset in its buffer << 32 | length`. A tuple of more than 8 KiB
//! puts its longest fields elsewhere too, so that with 1024 columns it still fits a block.

use super::error::RecordError;
use super::schema::TableDef;
use super::types::DataType;
use super::value::{Uuid, ValueRef};
use super::{Date, Decimal, Timestamp};

/// Choice of the contents that lie in the tuple's own block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayoutKind {
    /// Contents of up to 128 bytes: a read touches one block, an update rewrites the field.
    Together,
    /// Contents of up to 8 bytes: a read touches one block for each field, an update switches one
    /// word.
    Separate,
}

impl LayoutKind {
    /// The most content bytes that lie in the tuple.
    fn inline_bytes_max(self) -> u32 {
        match self {
            Self::Together => 128,
            Self::Separate => 8,
        }
    }
}

/// Bytes of the word for the checksum.
const CHECKSUM_BYTES: u32 = 8;
/// Above this, the longest fields are put elsewhere.
const TUPLE_BYTES_MAX: u32 = 8192;
/// Bytes of the length before an inline content.
pub(super) const LENGTH_BYTES: u32 = 2;

/// Place of a column in the tuple. Offsets and lengths are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A value of fixed size.
    Fixed {
        /// In the tuple.
        offset: u32,
        /// Of the value.
        bytes: u32,
    },
    /// A length of two bytes and room for the content.
    Inline {
        /// In the tuple; even.
        offset: u32,
        /// The most content bytes.
        capacity: u32,
    },
    /// A word that points to the content.
    OutOfLine {
        /// In the tuple; a multiple of 8.
        offset: u32,
    },
}

impl Place {
    /// Bytes in the tuple.
    pub fn bytes(self) -> u32 {
        match self {
            Self::Fixed { bytes, .. } => bytes,
            Self::Inline { capacity, .. } => LENGTH_BYTES + capacity,
            Self::OutOfLine { .. } => 8,
        }
    }

    /// Its offset in the tuple.
    pub fn offset(self) -> u32 {
        match self {
            Self::Fixed { offset, .. }
            | Self::Inline { offset, .. }
            | Self::OutOfLine { offset } => offset,
        }
    }

    fn alignment(self) -> u32 {
        match self {
            Self::Fixed { bytes, .. } => 1 << bytes.trailing_zeros().min(3),
            Self::Inline { .. } => 2,
            Self::OutOfLine { .. } => 8,
        }
    }

    fn at(self, offset: u32) -> Self {
        match self {
            Self::Fixed { bytes, .. } => Self::Fixed { offset, bytes },
            Self::Inline { capacity, .. } => Self::Inline { offset, capacity },
            Self::OutOfLine { .. } => Self::OutOfLine { offset },
        }
    }
}

/// A column and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The column's name.
    pub name: Box<str>,
    /// Type of its values.
    pub data_type: DataType,
    /// The position of its NULL bit, if it is nullable: bit `n % 64` of NULL word `n / 64`.
    pub null_bit: Option<u32>,
    /// Its place in the tuple.
    pub place: Place,
}

/// The tuple format of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TupleLayout {
    table: Box<str>,
    kind: LayoutKind,
    fields: Box<[Field]>,
    /// Positions of the columns whose contents lie elsewhere.
    out_of_line: Box<[usize]>,
    null_words: u32,
    nullable_columns: u32,
    tuple_bytes: u32,
}

impl TupleLayout {
    /// The layout of a valid table. It depends on nothing but the columns and the kind, and must
    /// not change between versions.
    pub fn new(table: &TableDef, kind: LayoutKind) -> Self {
        let nullable_columns = table
            .columns
            .iter()
            .filter(|column| column.nullable)
            .count() as u32;
        let null_words = nullable_columns.div_ceil(64);
        let head_bytes = CHECKSUM_BYTES + null_words * 8;
        let mut places: Vec<Place> = table
            .columns
            .iter()
            .map(|column| own_place(column.data_type, kind))
            .collect();
        put_longest_elsewhere(&mut places, head_bytes);
        let tuple_bytes = assign_offsets(&mut places, head_bytes);
        let mut null_bits = 0..;
        let fields: Box<[Field]> = table
            .columns
            .iter()
            .zip(&places)
            .map(|(column, place)| Field {
                name: column.name.as_str().into(),
                data_type: column.data_type,
                null_bit: if column.nullable {
                    null_bits.next()
                } else {
                    None
                },
                place: *place,
            })
            .collect();
        let is_outline =
            |position: &usize| matches!(fields[*position].place, Place::OutOfLine { .. });
        let out_of_line = (0..fields.len()).filter(is_outline).collect();
        let table = table.name.as_str().into();
        Self {
            table,
            kind,
            fields,
            out_of_line,
            null_words,
            nullable_columns,
            tuple_bytes,
        }
    }

    /// The table's name.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Choice of the contents that lie in the tuple.
    pub fn kind(&self) -> LayoutKind {
        self.kind
    }

    /// Bytes of a tuple, a multiple of 8.
    #[inline]
    pub fn tuple_bytes(&self) -> usize {
        self.tuple_bytes as usize
    }

    /// The columns with their places, in the order of the table.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Positions of the columns whose contents lie elsewhere.
    #[inline]
    pub fn out_of_line(&self) -> &[usize] {
        &self.out_of_line
    }

    /// Number of words of NULL bits after the checksum word.
    pub fn null_words(&self) -> usize {
        self.null_words as usize
    }

    /// Offset in the tuple of an out-of-line column's word, in bytes; `None` for other columns.
    #[inline]
    pub fn outline_offset(&self, column: usize) -> Option<usize> {
        match self.fields.get(column)?.place {
            Place::OutOfLine { offset } => Some(offset as usize),
            _ => None,
        }
    }

    /// The column at this position.
    pub(super) fn field(&self, column: usize) -> Result<&Field, RecordError> {
        self.fields
            .get(column)
            .ok_or_else(|| RecordError::NoSuchColumn {
                table: self.table.to_string(),
                position: column,
            })
    }

    /// Whether a column is NULL in these tuple bytes; false for a column that is not nullable or
    /// not there.
    #[inline]
    pub fn is_null(&self, tuple: &[u8], column: usize) -> bool {
        self.fields
            .get(column)
            .is_some_and(|field| field.is_null(tuple))
    }

    /// The value of a column in tuple bytes. For an out-of-line column that is not NULL, `content`
    /// is given its word of the tuple (never 0) and returns the content, or `None` if there is
    /// none, which reads as empty.
    #[inline]
    pub fn value<'t>(
        &self,
        tuple: &'t [u8],
        column: usize,
        content: impl FnOnce(u64) -> Option<&'t [u8]>,
    ) -> ValueRef<'t> {
        let Some(field) = self.fields.get(column) else {
            return ValueRef::Null;
        };
        if field.is_null(tuple) {
            return ValueRef::Null;
        }
        let bytes = match field.place {
            Place::Fixed { offset, bytes } => slice(tuple, offset, bytes),
            Place::Inline { offset, capacity } => slice(
                tuple,
                offset + LENGTH_BYTES,
                inline_length(tuple, offset).min(capacity),
            ),
            Place::OutOfLine { offset } => match word(tuple, offset) {
                0 => &[],
                pointer => content(pointer).unwrap_or(&[]),
            },
        };
        decode(field.data_type, bytes)
    }

    /// Makes tuple bytes those of a row in which nothing is set: nullable columns are NULL.
    pub(super) fn reset(&self, tuple: &mut [u8]) {
        tuple.fill(0);
        let mut bits = self.nullable_columns;
        let null_words = tuple.iter_mut().skip(CHECKSUM_BYTES as usize);
        for byte in null_words.take(self.null_words as usize * 8) {
            *byte = ((1_u16 << bits.min(8)) - 1) as u8;
            bits -= bits.min(8);
        }
    }
}

impl Field {
    /// Whether the column is NULL in these tuple bytes.
    #[inline]
    pub(super) fn is_null(&self, tuple: &[u8]) -> bool {
        self.null_bit.is_some_and(|bit| {
            let byte = tuple.get((CHECKSUM_BYTES + bit / 8) as usize);
            byte.is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
        })
    }

    /// Sets or clears the column's NULL bit in these tuple bytes.
    #[inline]
    pub(super) fn set_null(&self, tuple: &mut [u8], is_null: bool) {
        if let Some(bit) = self.null_bit {
            let byte = &mut tuple[(CHECKSUM_BYTES + bit / 8) as usize];
            *byte = *byte & !(1 << (bit % 8)) | u8::from(is_null) << (bit % 8);
        }
    }

    /// Offset in the tuple of the word with the column's NULL bit, in bytes, and the bit in it.
    pub(super) fn null_mask(&self) -> Option<(u32, u64)> {
        self.null_bit
            .map(|bit| (CHECKSUM_BYTES + bit / 64 * 8, 1 << (bit % 64)))
    }
}

/// The place of a column by its own size; the offset comes later.
fn own_place(data_type: DataType, kind: LayoutKind) -> Place {
    let limit = kind.inline_bytes_max();
    match data_type.fixed_bytes() {
        Some(bytes) if bytes <= limit => Place::Fixed { offset: 0, bytes },
        None if data_type.bytes_max() <= limit => Place::Inline {
            offset: 0,
            capacity: data_type.bytes_max().next_multiple_of(2),
        },
        _ => Place::OutOfLine { offset: 0 },
    }
}

fn put_longest_elsewhere(places: &mut [Place], head_bytes: u32) {
    let mut total_bytes = head_bytes + places.iter().map(|place| place.bytes()).sum::<u32>();
    let mut by_length: Vec<usize> = (0..places.len()).collect();
    by_length.sort_by_key(|position| std::cmp::Reverse(places[*position].bytes()));
    for position in by_length {
        let bytes = places[position].bytes();
        if total_bytes <= TUPLE_BYTES_MAX || bytes <= 8 {
            return;
        }
        places[position] = Place::OutOfLine { offset: 0 };
        total_bytes -= bytes - 8;
    }
}

/// Gives each place its offset, the largest alignment first; returns the bytes of the tuple.
fn assign_offsets(places: &mut [Place], head_bytes: u32) -> u32 {
    let mut offset = head_bytes;
    for alignment in [8, 4, 2, 1] {
        for place in places
            .iter_mut()
            .filter(|place| place.alignment() == alignment)
        {
            *place = place.at(offset);
            offset += place.bytes();
        }
    }
    offset.next_multiple_of(8)
}

/// Bytes of a tuple, or nothing where the tuple is too short.
#[inline]
pub(super) fn slice(tuple: &[u8], offset: u32, bytes: u32) -> &[u8] {
    tuple
        .get(offset as usize..(offset + bytes) as usize)
        .unwrap_or(&[])
}

/// A word of a tuple, or 0 where the tuple is too short.
#[inline]
pub(super) fn word(tuple: &[u8], offset: u32) -> u64 {
    slice(tuple, offset, 8)
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn inline_length(tuple: &[u8], offset: u32) -> u32 {
    let bytes = slice(tuple, offset, LENGTH_BYTES).first_chunk();
    bytes.map_or(0, |bytes| u32::from(u16::from_le_bytes(*bytes)))
}

/// A value from its bytes. Missing bytes read as zeros; text that is not UTF-8 is returned as
/// bytes.
#[inline]
pub(super) fn decode(data_type: DataType, bytes: &[u8]) -> ValueRef<'_> {
    match data_type {
        DataType::Bool => ValueRef::Bool(bytes.first().is_some_and(|byte| *byte != 0)),
        DataType::Int16 => ValueRef::Int16(i16::from_le_bytes(array(bytes))),
        DataType::Int32 => ValueRef::Int32(i32::from_le_bytes(array(bytes))),
        DataType::Date => ValueRef::Date(Date(i32::from_le_bytes(array(bytes)))),
        DataType::Int64 => ValueRef::Int64(i64::from_le_bytes(array(bytes))),
        DataType::Timestamp => ValueRef::Timestamp(Timestamp(i64::from_le_bytes(array(bytes)))),
        DataType::Float64 => ValueRef::Float64(f64::from_le_bytes(array(bytes))),
        DataType::Decimal { precision, scale } if precision <= 18 => {
            ValueRef::Decimal(Decimal::new(i64::from_le_bytes(array(bytes)).into(), scale))
        }
        DataType::Decimal { scale, .. } => {
            ValueRef::Decimal(Decimal::new(i128::from_le_bytes(array(bytes)), scale))
        }
        DataType::Uuid => ValueRef::Uuid(Uuid(array(bytes))),
        DataType::Bytes { .. } | DataType::Sortable { .. } => ValueRef::Bytes(bytes),
        DataType::Varchar { .. } | DataType::Text => text(bytes),
        DataType::Char { .. } => {
            let blanks = bytes.iter().rev().take_while(|byte| **byte == b' ').count();
            text(&bytes[..bytes.len() - blanks])
        }
    }
}

fn text(bytes: &[u8]) -> ValueRef<'_> {
    std::str::from_utf8(bytes).map_or(ValueRef::Bytes(bytes), ValueRef::Text)
}

#[inline]
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

/// Calls `store` with the bytes of a value that fits its type; blanks at the end of `char` are left
/// to the caller.
#[inline]
pub(super) fn with_content<R>(
    data_type: DataType,
    value: ValueRef<'_>,
    store: impl FnOnce(&[u8]) -> R,
) -> R {
    match value {
        ValueRef::Null => store(&[]),
        ValueRef::Bool(value) => store(&[u8::from(value)]),
        ValueRef::Int16(value) => store(&value.to_le_bytes()),
        ValueRef::Int32(value) | ValueRef::Date(Date(value)) => store(&value.to_le_bytes()),
        ValueRef::Int64(value) | ValueRef::Timestamp(Timestamp(value)) => {
            store(&value.to_le_bytes())
        }
        ValueRef::Float64(value) => store(&value.to_le_bytes()),
        ValueRef::Decimal(value) if data_type.fixed_bytes() == Some(8) => {
            store(&(value.units() as i64).to_le_bytes())
        }
        ValueRef::Decimal(value) => store(&value.units().to_le_bytes()),
        ValueRef::Text(value) => store(value.as_bytes()),
        ValueRef::Bytes(value) => store(value),
        ValueRef::Uuid(value) => store(&value.0),
    }
}
