//! An update: some columns of a row and their new values, encoded once.
//!
//! Each change is kept as what an engine has to write: the new bytes of the field in the tuple, or
//! the new content of an out-of-line column; and masks for the words of NULL bits. The engine turns
//! these into stores of whole words with [`Changes::spans`] (which parts of the tuple) and
//! [`Changes::overlay`] (what they become), which is also what its checksum needs. Setting a column
//! again replaces its change.

use super::error::Result;
use super::layout::{Place, TupleLayout, decode, slice, with_content};
use super::row::{Row, check, image, store};
use super::value::ValueRef;
use std::ops::Range;
use std::sync::Arc;

/// Columns to be changed, with their new values; reusable.
#[derive(Clone, Debug)]
pub struct Changes {
    layout: Arc<TupleLayout>,
    entries: Vec<Entry>,
    /// Field images and contents.
    bytes: Vec<u8>,
}

/// One column's change.
#[derive(Clone, Debug)]
struct Entry {
    column: usize,
    is_null: bool,
    /// Its image or content in `bytes`.
    range: Range<usize>,
}

/// The write for one changed column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch<'c> {
    /// These bytes at this offset of the tuple.
    Field {
        /// The column.
        column: usize,
        /// In the tuple, bytes.
        offset: usize,
        /// The whole field.
        bytes: &'c [u8],
    },
    /// A new block for this content and its location in the word at this offset; the old block is
    /// free afterwards.
    OutOfLine {
        /// The column.
        column: usize,
        /// Of the word in the tuple, bytes; a multiple of 8.
        offset: usize,
        /// The content; empty also for NULL, which needs no block: the word becomes 0.
        content: &'c [u8],
    },
}

/// New bits of one word of NULL bits: `word & !clear | set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NullChange {
    /// Of the word in the tuple, bytes.
    pub offset: usize,
    /// Columns that become NULL.
    pub set: u64,
    /// Columns that get a value.
    pub clear: u64,
}

impl Changes {
    /// No changes to rows of this layout.
    pub fn new(layout: Arc<TupleLayout>) -> Self {
        Self {
            layout,
            entries: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// The tuple format.
    pub fn layout(&self) -> &Arc<TupleLayout> {
        &self.layout
    }

    /// Forgets all changes.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes.clear();
    }

    /// Whether nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Changes a column, which must be able to hold the value without loss.
    pub fn set<'v>(&mut self, column: usize, value: impl Into<ValueRef<'v>>) -> Result<()> {
        let value = value.into();
        let field = self.layout.field(column)?;
        let fitted = check(&self.layout, field, value)?;
        let start = self.bytes.len();
        with_content(field.data_type, fitted, |content| match field.place {
            Place::OutOfLine { .. } => self.bytes.extend_from_slice(content),
            place => {
                self.bytes.resize(start + place.bytes() as usize, 0);
                store(place, fitted.is_null(), content, &mut self.bytes[start..]);
            }
        });
        let entry = Entry {
            column,
            is_null: fitted.is_null(),
            range: start..self.bytes.len(),
        };
        match self.entries.iter_mut().find(|entry| entry.column == column) {
            Some(earlier) => *earlier = entry,
            None => self.entries.push(entry),
        }
        Ok(())
    }

    /// The changed columns.
    pub fn columns(&self) -> impl Iterator<Item = usize> {
        self.entries.iter().map(|entry| entry.column)
    }

    /// The new value of a column, if it is changed.
    pub fn value(&self, column: usize) -> Option<ValueRef<'_>> {
        let entry = self.entries.iter().find(|entry| entry.column == column)?;
        if entry.is_null {
            return Some(ValueRef::Null);
        }
        let bytes = &self.bytes[entry.range.clone()];
        let field = self.layout.field(column).ok()?;
        Some(match field.place {
            Place::Inline { .. } => {
                let length = bytes
                    .first_chunk()
                    .map_or(0, |length| u16::from_le_bytes(*length));
                decode(field.data_type, slice(bytes, 2, length.into()))
            }
            _ => decode(field.data_type, bytes),
        })
    }

    /// The writes, column by column.
    pub fn patches(&self) -> impl Iterator<Item = Patch<'_>> {
        self.entries.iter().map(|entry| {
            let column = entry.column;
            let bytes = &self.bytes[entry.range.clone()];
            let place = self.layout.fields()[column].place;
            let offset = place.offset() as usize;
            match place {
                Place::OutOfLine { .. } => Patch::OutOfLine {
                    column,
                    offset,
                    content: bytes,
                },
                _ => Patch::Field {
                    column,
                    offset,
                    bytes,
                },
            }
        })
    }

    /// The NULL bits to write: one entry for each changed nullable column, so a word may occur
    /// several times.
    pub fn null_changes(&self) -> impl Iterator<Item = NullChange> {
        self.entries.iter().filter_map(|entry| {
            let (offset, mask) = self.layout.fields()[entry.column].null_mask()?;
            let (set, clear) = if entry.is_null { (mask, 0) } else { (0, mask) };
            Some(NullChange {
                offset: offset as usize,
                set,
                clear,
            })
        })
    }

    /// The byte ranges of the tuple that may change, out-of-line words and NULL bits included:
    /// whole words, ascending, disjoint and not adjacent. `spans` is cleared first.
    pub fn spans(&self, spans: &mut Vec<Range<usize>>) {
        spans.clear();
        for entry in &self.entries {
            let field = &self.layout.fields()[entry.column];
            let start = field.place.offset() as usize;
            let end = start + field.place.bytes() as usize;
            spans.push(start / 8 * 8..end.next_multiple_of(8));
        }
        spans.extend(
            self.null_changes()
                .map(|change| change.offset..change.offset + 8),
        );
        spans.sort_unstable_by_key(|span| span.start);
        spans.dedup_by(|next, earlier| {
            let touches = next.start <= earlier.end;
            if touches {
                earlier.end = earlier.end.max(next.end);
            }
            touches
        });
    }

    /// Applies what concerns a range of the tuple to its old bytes, which begin at `offset` and
    /// contain each changed field whole or not at all, as [`Changes::spans`] has them. `pointer`
    /// gives the new word of an out-of-line column that has content.
    pub fn overlay(&self, offset: usize, bytes: &mut [u8], mut pointer: impl FnMut(usize) -> u64) {
        let mut put = |at: usize, new: &[u8]| {
            let place = at
                .checked_sub(offset)
                .and_then(|start| bytes.get_mut(start..start + new.len()));
            if let Some(place) = place {
                place.copy_from_slice(new);
            }
        };
        for patch in self.patches() {
            match patch {
                Patch::Field { offset, bytes, .. } => put(offset, bytes),
                Patch::OutOfLine {
                    offset,
                    content: [],
                    ..
                } => put(offset, &[0; 8]),
                Patch::OutOfLine { column, offset, .. } => {
                    put(offset, &pointer(column).to_le_bytes());
                }
            }
        }
        for change in self.null_changes() {
            let start = change.offset.checked_sub(offset);
            let place = start.and_then(|start| bytes.get_mut(start..start + 8));
            if let Some((word, _)) = place.and_then(|place| place.split_first_chunk_mut::<8>()) {
                *word = (u64::from_le_bytes(*word) & !change.clear | change.set).to_le_bytes();
            }
        }
    }

    /// Makes the changes to a row of the same layout.
    pub fn apply(&self, row: &mut Row) -> Result<()> {
        for entry in &self.entries {
            let stored = &self.bytes[entry.range.clone()];
            row.set_stored(entry.column, entry.is_null, stored)?;
        }
        Ok(())
    }

    /// Adds to `news`, changes of rows of the same layout, those changes that a row does not have
    /// yet. Its out-of-line contents are in it.
    pub fn add_news_for(&self, row: &Row, news: &mut Self) {
        for entry in self.entries.iter().filter(|entry| !self.has(entry, row)) {
            let start = news.bytes.len();
            let stored = &self.bytes[entry.range.clone()];
            news.bytes.extend_from_slice(stored);
            news.entries.push(Entry {
                range: start..news.bytes.len(),
                ..*entry
            });
        }
    }

    /// Whether a row, whose out-of-line contents are in it, already has all the new values.
    pub fn is_noop(&self, row: &Row) -> bool {
        self.entries.iter().all(|entry| self.has(entry, row))
    }

    /// Whether a row has the new value of a change.
    fn has(&self, entry: &Entry, row: &Row) -> bool {
        let field = &self.layout.fields()[entry.column];
        let new = &self.bytes[entry.range.clone()];
        let is_null = field.is_null(row.tuple_bytes());
        is_null == entry.is_null
            && match field.place {
                Place::OutOfLine { .. } => is_null || row.outline(entry.column) == Some(new),
                place => image(row.tuple_bytes(), place) == new,
            }
    }
}
