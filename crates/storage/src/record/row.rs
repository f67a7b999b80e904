//! A row in memory: a tuple, followed by the contents that do not lie in the tuple.
//!
//! ```text
//! | tuple, as on the medium except for the words of out-of-line columns | content | content | … |
//! ```
//!
//! An engine reads a row by copying the tuple in ([`Row::begin_fill`]) and, for tables that have
//! out-of-line columns only, each content ([`Row::set_outline`]). It writes one by storing contents
//! and then the tuple with the words replaced. The buffer is reused, so that reading rows in a loop
//! allocates nothing.

use super::error::{RecordError, Result};
use super::layout::{Field, LENGTH_BYTES, Place, TupleLayout, slice, with_content, word};
use super::value::{Value, ValueRef};
use std::sync::Arc;

/// A row of one table; reusable.
#[derive(Debug)]
pub struct Row {
    layout: Arc<TupleLayout>,
    /// The tuple, then contents.
    buffer: Vec<u8>,
    /// A bit for each column that has been set since the last `clear`.
    assigned: Columns,
}

/// A set of columns; for up to 64 of them without memory of its own.
#[derive(Debug)]
struct Columns {
    first: u64,
    more: Box<[u64]>,
}

impl Columns {
    fn none_of(columns: usize) -> Self {
        Self {
            first: 0,
            more: vec![0; columns.saturating_sub(1) / 64].into(),
        }
    }

    /// Sets or unsets all of them.
    #[inline]
    fn fill(&mut self, word: u64) {
        self.first = word;
        if !self.more.is_empty() {
            self.more.fill(word);
        }
    }

    #[inline]
    fn insert(&mut self, column: usize) {
        let bit = 1 << (column % 64);
        match column / 64 {
            0 => self.first |= bit,
            word => self.more[word - 1] |= bit,
        }
    }

    #[inline]
    fn contains(&self, column: usize) -> bool {
        let word = match column / 64 {
            0 => self.first,
            word => self.more[word - 1],
        };
        word >> (column % 64) & 1 == 1
    }

    fn bytes(&self) -> usize {
        (1 + self.more.len()) * size_of::<u64>()
    }
}

impl Clone for Columns {
    fn clone(&self) -> Self {
        Self {
            first: self.first,
            more: self.more.clone(),
        }
    }

    fn clone_from(&mut self, source: &Self) {
        self.first = source.first;
        self.more.clone_from(&source.more);
    }
}

impl Clone for Row {
    fn clone(&self) -> Self {
        Self {
            layout: Arc::clone(&self.layout),
            buffer: self.buffer.clone(),
            assigned: self.assigned.clone(),
        }
    }

    /// Allocates nothing, and leaves the count of the shared format alone, if both rows are of one
    /// table.
    fn clone_from(&mut self, source: &Self) {
        if !Arc::ptr_eq(&self.layout, &source.layout) {
            self.layout = Arc::clone(&source.layout);
        }
        self.buffer.clone_from(&source.buffer);
        self.assigned.clone_from(&source.assigned);
    }
}

impl Row {
    /// Bytes of memory that its values take.
    pub fn bytes(&self) -> usize {
        self.buffer.len() + self.assigned.bytes()
    }

    /// A row in which nothing is set.
    pub fn new(layout: Arc<TupleLayout>) -> Self {
        let assigned = Columns::none_of(layout.fields().len());
        let mut row = Self {
            buffer: vec![0; layout.tuple_bytes()],
            layout,
            assigned,
        };
        row.clear();
        row
    }

    /// The tuple format.
    pub fn layout(&self) -> &Arc<TupleLayout> {
        &self.layout
    }

    /// Unsets all columns; nullable ones become NULL.
    pub fn clear(&mut self) {
        self.buffer.truncate(self.layout.tuple_bytes());
        self.layout.reset(&mut self.buffer);
        self.assigned.fill(0);
    }

    /// Sets a column, which must be able to hold the value without loss.
    pub fn set<'v>(&mut self, column: usize, value: impl Into<ValueRef<'v>>) -> Result<()> {
        let value = value.into();
        let Self {
            layout,
            buffer,
            assigned,
        } = self;
        let field = layout.field(column)?;
        let fitted = check(layout, field, value)?;
        with_content(field.data_type, fitted, |content| match field.place {
            Place::OutOfLine { offset } => {
                set_outline_word(layout, buffer, offset as usize, content.len())?;
                buffer.extend_from_slice(content);
                Ok(())
            }
            place => {
                let image = &mut buffer[place.offset() as usize..][..place.bytes() as usize];
                store(place, fitted.is_null(), content, image);
                Ok(())
            }
        })?;
        field.set_null(buffer, fitted.is_null());
        assigned.insert(column);
        Ok(())
    }

    /// Sets a column to what [`Changes`](super::Changes) have stored for it.
    pub(super) fn set_stored(&mut self, column: usize, is_null: bool, stored: &[u8]) -> Result<()> {
        let Self {
            layout,
            buffer,
            assigned,
        } = self;
        let field = layout.field(column)?;
        if let Place::OutOfLine { offset } = field.place {
            set_outline_word(layout, buffer, offset as usize, stored.len())?;
            buffer.extend_from_slice(stored);
        } else {
            let start = field.place.offset() as usize;
            buffer[start..start + stored.len()].copy_from_slice(stored);
        }
        field.set_null(buffer, is_null);
        assigned.insert(column);
        Ok(())
    }

    /// The value of a column; NULL for a position that the table does not have.
    #[inline]
    pub fn get(&self, column: usize) -> ValueRef<'_> {
        self.layout
            .value(self.tuple_bytes(), column, |word| self.content(word))
    }

    /// All values, in the order of the columns.
    pub fn values(&self) -> impl Iterator<Item = ValueRef<'_>> {
        (0..self.layout.fields().len()).map(|column| self.get(column))
    }

    /// All values, owned.
    pub fn to_values(&self) -> Vec<Value> {
        self.values().map(ValueRef::to_value).collect()
    }

    /// Whether every column that must have a value has been set; otherwise the first one that has
    /// not.
    pub fn check_complete(&self) -> Result<()> {
        for (column, field) in self.layout.fields().iter().enumerate() {
            if field.null_bit.is_none() && !self.assigned.contains(column) {
                return Err(not_null(&self.layout, field));
            }
        }
        Ok(())
    }

    /// Whether all values are values of their types, which only damage of the medium can change.
    pub fn check_values(&self) -> Result<()> {
        for (column, field) in self.layout.fields().iter().enumerate() {
            let value = self.get(column);
            if value.fit(field.data_type).is_err() {
                return Err(RecordError::Damaged {
                    table: self.layout.table().to_owned(),
                    column: field.name.to_string(),
                    detail: format!("{} bytes are no {}", value.type_name(), field.data_type),
                });
            }
        }
        Ok(())
    }

    /// The tuple; its out-of-line words are this row's own.
    #[inline]
    pub fn tuple_bytes(&self) -> &[u8] {
        &self.buffer[..self.layout.tuple_bytes()]
    }

    /// The tuple, for an engine that changes it.
    #[inline]
    pub fn tuple_bytes_mut(&mut self) -> &mut [u8] {
        let bytes = self.layout.tuple_bytes();
        &mut self.buffer[..bytes]
    }

    /// Drops all contents and returns the tuple, to be overwritten with one from the medium. Then
    /// each out-of-line column whose word is not 0 must be given its content with
    /// [`Row::set_outline`] or [`Row::reserve_outline`].
    #[inline]
    pub fn begin_fill(&mut self) -> &mut [u8] {
        self.buffer.truncate(self.layout.tuple_bytes());
        self.assigned.fill(u64::MAX);
        &mut self.buffer
    }

    /// The word of an out-of-line column: 0 if it is NULL or empty. `None` for other columns.
    #[inline]
    pub fn outline_word(&self, column: usize) -> Option<u64> {
        self.layout
            .outline_offset(column)
            .map(|offset| word(&self.buffer, offset as u32))
    }

    /// The content of an out-of-line column; `None` if it is NULL or no out-of-line column. Empty
    /// content has no block on the medium.
    #[inline]
    pub fn outline(&self, column: usize) -> Option<&[u8]> {
        let word = self.outline_word(column)?;
        if self.layout.is_null(&self.buffer, column) {
            return None;
        }
        Some(self.content(word).unwrap_or(&[]))
    }

    /// Gives an out-of-line column its content.
    pub fn set_outline(&mut self, column: usize, content: &[u8]) -> Result<()> {
        let offset = self.place_of_outline(column)?;
        set_outline_word(&self.layout, &mut self.buffer, offset, content.len())?;
        self.buffer.extend_from_slice(content);
        Ok(())
    }

    /// Makes room for the content of an out-of-line column, which the caller overwrites.
    pub fn reserve_outline(&mut self, column: usize, content_bytes: usize) -> Result<&mut [u8]> {
        let offset = self.place_of_outline(column)?;
        set_outline_word(&self.layout, &mut self.buffer, offset, content_bytes)?;
        let start = self.buffer.len();
        self.buffer.resize(start + content_bytes, 0);
        Ok(&mut self.buffer[start..])
    }

    fn place_of_outline(&self, column: usize) -> Result<usize> {
        self.layout.outline_offset(column).ok_or_else(|| {
            let table = self.layout.table().to_owned();
            RecordError::NoSuchColumn {
                table,
                position: column,
            }
        })
    }

    /// Appends the row as one run of bytes that [`Row::read_image`] takes back: the tuple, then the
    /// contents of its out-of-line columns, whose words say where in the image they lie. The
    /// checksum word is 0.
    pub fn write_image(&self, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.extend_from_slice(self.tuple_bytes());
        bytes[start..start + 8].fill(0);
        for &column in self.layout.out_of_line() {
            let (Some(offset), Some(old)) = (
                self.layout.outline_offset(column),
                self.outline_word(column),
            ) else {
                continue;
            };
            let content = self.content(old).unwrap_or(&[]);
            let new = if content.is_empty() {
                0
            } else {
                ((bytes.len() - start) as u64) << 32 | content.len() as u64
            };
            bytes[start + offset..start + offset + 8].copy_from_slice(&new.to_le_bytes());
            bytes.extend_from_slice(content);
        }
    }

    /// Becomes the row of an image; false, and no row of any use, if the image is too short for
    /// this table.
    #[inline]
    pub fn read_image(&mut self, image: &[u8]) -> bool {
        self.buffer.clear();
        self.buffer.extend_from_slice(image);
        self.assigned.fill(u64::MAX);
        let is_whole = image.len() >= self.layout.tuple_bytes();
        if !is_whole {
            self.buffer.resize(self.layout.tuple_bytes(), 0);
        }
        is_whole
    }

    fn content(&self, word: u64) -> Option<&[u8]> {
        let start = (word >> 32) as usize;
        let length = word as u32 as usize;
        self.buffer.get(start..start.checked_add(length)?)
    }
}

impl PartialEq for Row {
    /// Whether the values are equal, wherever they lie.
    fn eq(&self, other: &Self) -> bool {
        self.layout == other.layout && self.values().eq(other.values())
    }
}

/// Points the word of an out-of-line column to a content of `content_bytes` bytes at the end of the
/// buffer.
#[inline]
fn set_outline_word(
    layout: &TupleLayout,
    buffer: &mut [u8],
    offset: usize,
    content_bytes: usize,
) -> Result<()> {
    let start = buffer.len();
    let end = start + content_bytes;
    if u32::try_from(end).is_err() {
        return Err(RecordError::RowTooLong {
            table: layout.table().to_owned(),
            limit_bytes: u32::MAX.into(),
            found_bytes: end as u64,
        });
    }
    let word = if content_bytes == 0 {
        0
    } else {
        (start as u64) << 32 | content_bytes as u64
    };
    buffer[offset..offset + 8].copy_from_slice(&word.to_le_bytes());
    Ok(())
}

/// The value as the column's own type, or why it cannot be stored there.
#[inline]
pub(super) fn check<'v>(
    layout: &TupleLayout,
    field: &Field,
    value: ValueRef<'v>,
) -> Result<ValueRef<'v>> {
    let fitted = value
        .fit(field.data_type)
        .map_err(|misfit| misfit.at(layout.table(), &field.name, field.data_type, value))?;
    if fitted.is_null() && field.null_bit.is_none() {
        return Err(not_null(layout, field));
    }
    Ok(fitted)
}

#[cold]
fn not_null(layout: &TupleLayout, field: &Field) -> RecordError {
    RecordError::NotNull {
        table: layout.table().to_owned(),
        column: field.name.to_string(),
    }
}

/// Writes content into all bytes of a fixed or inline field; NULL is zeros.
#[inline]
pub(super) fn store(place: Place, is_null: bool, content: &[u8], image: &mut [u8]) {
    let start = match place {
        Place::Inline { .. } => {
            image[..LENGTH_BYTES as usize].copy_from_slice(&(content.len() as u16).to_le_bytes());
            LENGTH_BYTES as usize
        }
        _ => 0,
    };
    let end = start + content.len();
    image[start..end].copy_from_slice(content);
    // Only `char` has a content shorter than its fixed place.
    let filler = if start == 0 && !is_null { b' ' } else { 0 };
    image[end..].fill(filler);
}

/// Bytes of a fixed or inline field in a tuple.
pub(super) fn image(tuple: &[u8], place: Place) -> &[u8] {
    slice(tuple, place.offset(), place.bytes())
}
