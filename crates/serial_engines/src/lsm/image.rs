//! Images of rows with some columns changed, made from the old image and the changes directly.
//!
//! An update that writes a whole row needs no row in between: the old tuple is copied, the changed
//! fields are laid over it, and only contents that do not change are fetched from the old image. So
//! bytes that are overwritten anyway are not read.
//!
//! The result is that of `Row::write_image` for the changed row, except that the contents of
//! changed columns stand before the others; a reader takes either order, because the words of the
//! tuple say where contents lie.

use crate::lsm::entry::EntryKind;
use crate::lsm::pointer;
use pmem::PmemError;
use storage::Result;
use storage::record::{Changes, Patch, RecordError, Row, TupleLayout};

/// Bytes that a delta takes for each column in addition to its value, about.
const COLUMN_BYTES: usize = 8;
/// Bytes of changed fields that are written over those of an entry, at most: beyond, a new entry is
/// one stream.
const OVERWRITE_BYTES_MAX: usize = 256;

/// About the bytes of a delta with these changes.
pub(crate) fn changed_bytes(changes: &Changes) -> usize {
    let content = |patch| match patch {
        Patch::Field { bytes, .. } => bytes.len(),
        Patch::OutOfLine { content, .. } => content.len(),
    };
    changes
        .patches()
        .map(|patch| content(patch) + COLUMN_BYTES)
        .sum()
}

/// About the bytes of a row's image.
pub(crate) fn row_bytes(row: &Row) -> usize {
    let out_of_line = row.layout().out_of_line().iter();
    let contents = out_of_line.map(|&column| row.outline(column).map_or(0, <[u8]>::len));
    row.layout().tuple_bytes() + contents.sum::<usize>()
}

/// Appends the image of a row with changes made to it.
pub(crate) fn push_changed_row(row: &Row, changes: &Changes, bytes: &mut Vec<u8>) -> Result<()> {
    let content = |column, _| Some(row.outline(column).unwrap_or(&[]));
    push(row.layout(), row.tuple_bytes(), content, changes, bytes)
}

/// Appends the image `old` of a row with changes made to it. Fails if it is no image of such a row.
pub(crate) fn push_changed_image(
    old: &[u8],
    layout: &TupleLayout,
    changes: &Changes,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    let Some(tuple) = old.get(..layout.tuple_bytes()) else {
        return Err(damaged("it is shorter than a tuple"));
    };
    let content = |_, word: u64| {
        let (start, length) = ((word >> 32) as usize, word as u32 as usize);
        old.get(start..start.checked_add(length)?)
    };
    push(layout, tuple, content, changes, bytes)
}

/// Makes the whole entry, header included, of a row with the image `old` and a few changed fields
/// laid over it, which may then be written over the old entry. False, and no effect, if the changes
/// are many or have contents outside of the tuple.
pub(crate) fn overwrite(
    old: &[u8],
    layout: &TupleLayout,
    changes: &Changes,
    entry: &mut Vec<u8>,
) -> bool {
    let (changed_bytes, tuple_bytes) = (changed_bytes(changes), layout.tuple_bytes());
    let mut patches = changes.patches();
    if changed_bytes > OVERWRITE_BYTES_MAX
        || changed_bytes * 2 > old.len()
        || old.len() < tuple_bytes
        || patches.any(|patch| matches!(patch, Patch::OutOfLine { .. }))
    {
        return false;
    }
    entry.clear();
    entry.resize(pointer::HEADER_BYTES, 0);
    entry.extend_from_slice(old);
    let (header, image) = entry.split_at_mut(pointer::HEADER_BYTES);
    changes.overlay(0, &mut image[..tuple_bytes], |_| 0);
    header.copy_from_slice(&pointer::header(EntryKind::Row, image).to_le_bytes());
    true
}

/// `content` gives the old content of a column, whose word in the old tuple is not 0.
fn push<'o>(
    layout: &TupleLayout,
    tuple: &[u8],
    content: impl Fn(usize, u64) -> Option<&'o [u8]>,
    changes: &Changes,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    let start = bytes.len();
    bytes.extend_from_slice(tuple);
    bytes[start..start + 8].fill(0);
    let contents = || {
        changes.patches().filter_map(|patch| match patch {
            Patch::OutOfLine { content, .. } if !content.is_empty() => Some(content),
            _ => None,
        })
    };
    let (mut place, mut next) = (tuple.len(), contents());
    changes.overlay(0, &mut bytes[start..], |_| {
        let length = next.next().map_or(0, <[u8]>::len);
        place += length;
        word_of(place - length, length)
    });
    contents().for_each(|content| bytes.extend_from_slice(content));
    let touched = Changed::new(changes);
    for &column in layout.out_of_line() {
        let Some(offset) = layout
            .outline_offset(column)
            .filter(|_| !touched.has(column))
        else {
            continue;
        };
        let place = start + offset..start + offset + 8;
        let old = bytes[place.clone()].first_chunk();
        let old = old.map_or(0, |word| u64::from_le_bytes(*word));
        if old == 0 {
            continue;
        }
        let Some(content) = content(column, old) else {
            return Err(damaged("a content leaves it"));
        };
        let new = if content.is_empty() {
            0
        } else {
            word_of(bytes.len() - start, content.len())
        };
        bytes[place].copy_from_slice(&new.to_le_bytes());
        bytes.extend_from_slice(content);
    }
    if u32::try_from(bytes.len() - start).is_err() {
        return Err(RecordError::RowTooLong {
            table: layout.table().to_owned(),
            limit_bytes: u32::MAX.into(),
            found_bytes: (bytes.len() - start) as u64,
        }
        .into());
    }
    Ok(())
}

/// The word of a content in the tuple.
fn word_of(place: usize, length: usize) -> u64 {
    (place as u64) << 32 | length as u64
}

/// The changed columns, with a fast test for the first ones.
struct Changed<'c> {
    first: u64,
    changes: &'c Changes,
}

impl<'c> Changed<'c> {
    fn new(changes: &'c Changes) -> Self {
        let columns = changes.columns().filter(|column| *column < 64);
        Self {
            first: columns.fold(0, |first, column| first | 1 << column),
            changes,
        }
    }

    fn has(&self, column: usize) -> bool {
        match column {
            0..64 => self.first >> column & 1 == 1,
            _ => self.changes.columns().any(|changed| changed == column),
        }
    }
}

#[cold]
fn damaged(detail: &str) -> storage::StorageError {
    PmemError::corrupted("image of a row", 0, detail).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use storage::record::{Column, DataType, LayoutKind, TableDef, TableId, ValueRef};

    fn layout(kind: LayoutKind) -> Arc<TupleLayout> {
        let mut columns = vec![
            Column::new("id", DataType::Int64),
            Column::new("name", DataType::Varchar { max: 40 }).nullable(),
        ];
        for number in 0..70 {
            columns.push(Column::new(format!("note{number}"), DataType::Text).nullable());
        }
        let def = TableDef::new(TableId(1), "t", columns, vec![0]);
        Arc::new(TupleLayout::new(&def, kind))
    }

    fn row(layout: &Arc<TupleLayout>) -> Row {
        let mut row = Row::new(Arc::clone(layout));
        row.set(0, 7_i64).unwrap();
        row.set(1, "first").unwrap();
        row.set(2, "a note").unwrap();
        row.set(3, "").unwrap();
        row.set(71, "the last one").unwrap();
        row
    }

    #[test]
    fn a_changed_image_is_that_of_the_changed_row() {
        for kind in [LayoutKind::Together, LayoutKind::Separate] {
            let layout = layout(kind);
            let old = row(&layout);
            let mut image = Vec::new();
            old.write_image(&mut image);
            let texts = ["longer than what was there before", "", "short"];
            for (number, text) in (0..27_usize).zip(texts.into_iter().cycle()) {
                let mut changes = Changes::new(Arc::clone(&layout));
                for column in [1, 2, 3, 4, 70, 71] {
                    match (number + column) % 4 {
                        0 => changes.set(column, ValueRef::Null).unwrap(),
                        1 => changes.set(column, text).unwrap(),
                        _ => {}
                    }
                }
                let mut expected = old.clone();
                changes.apply(&mut expected).unwrap();
                for from_row in [false, true] {
                    let mut bytes = vec![9; 8];
                    if from_row {
                        push_changed_row(&old, &changes, &mut bytes).unwrap();
                    } else {
                        push_changed_image(&image, &layout, &changes, &mut bytes).unwrap();
                    }
                    let mut found = Row::new(Arc::clone(&layout));
                    assert!(found.read_image(&bytes[8..]));
                    assert_eq!(found, expected, "{kind:?} {number}");
                    assert_eq!(bytes.len() - 8, row_bytes(&expected), "no waste");
                }
            }
        }
    }

    #[test]
    fn an_image_that_is_cut_off_is_refused() {
        let layout = layout(LayoutKind::Separate);
        let (mut image, mut bytes) = (Vec::new(), Vec::new());
        row(&layout).write_image(&mut image);
        let mut changes = Changes::new(Arc::clone(&layout));
        changes.set(2, "x").unwrap();
        for length in [0, layout.tuple_bytes() - 1, image.len() - 1] {
            let cut = push_changed_image(&image[..length], &layout, &changes, &mut bytes);
            assert!(cut.is_err(), "{length}");
        }
    }
}
