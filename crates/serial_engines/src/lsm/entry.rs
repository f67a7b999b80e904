//! Content of a run of a log-structured table for one key: a whole row, changed columns, or a
//! tombstone.
//!
//! | kind | bytes | meaning |
//! |---|---|---|
//! | row | the image of [`Row::write_image`] | the row, whatever older runs say |
//! | delta | { column u32, value as [`encode_value`] writes it }*, | these columns; |
//! | | each column once | the rest is in older runs |
//! | tombstone | none | there is no row, whatever older runs say |
//!
//! A reader takes entries from the newest run to the oldest until one is no delta, then applies the
//! deltas from the oldest to the newest. A merge does the same with two entries and keeps one.

use storage::log::redo::ImageError;
use storage::record::{Changes, Reader, Row, decode_value, encode_value};

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A whole row.
    Row,
    /// Changed columns.
    Delta,
    /// The row is gone.
    Tombstone,
}

impl EntryKind {
    /// Stable number for pointers and files, of two bits.
    pub fn code(self) -> u8 {
        match self {
            Self::Row => 0,
            Self::Delta => 1,
            Self::Tombstone => 2,
        }
    }

    /// The kind with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Row),
            1 => Some(Self::Delta),
            2 => Some(Self::Tombstone),
            _ => None,
        }
    }
}

/// Appends the bytes of a delta.
pub fn write_delta(changes: &Changes, bytes: &mut Vec<u8>) {
    for column in changes.columns() {
        if let Some(value) = changes.value(column) {
            bytes.extend_from_slice(&(column as u32).to_le_bytes());
            encode_value(value, bytes);
        }
    }
}

/// Makes a delta's changes to a row.
pub fn apply_delta(delta: &[u8], row: &mut Row) -> Result<(), ImageError> {
    let mut reader = Reader::new(delta);
    while reader.remaining() > 0 {
        let column = reader.number("a column of a delta")?;
        row.set(column as usize, decode_value(&mut reader)?)?;
    }
    Ok(())
}

/// Appends one delta with the changes of `older` and then those of `newer`.
pub fn merge_deltas(older: &[u8], newer: &[u8], bytes: &mut Vec<u8>) -> Result<(), ImageError> {
    let newest = columns(newer)?;
    for (column, range) in columns(older)? {
        if newest.iter().all(|(changed, _)| *changed != column) {
            bytes.extend_from_slice(&older[range]);
        }
    }
    bytes.extend_from_slice(newer);
    Ok(())
}

/// Each column of a delta, and the range of its bytes.
fn columns(delta: &[u8]) -> Result<Vec<(u32, std::ops::Range<usize>)>, ImageError> {
    let mut reader = Reader::new(delta);
    let mut found = Vec::new();
    while reader.remaining() > 0 {
        let start = delta.len() - reader.remaining();
        let column = reader.number("a column of a delta")?;
        decode_value(&mut reader)?;
        found.push((column, start..delta.len() - reader.remaining()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use storage::record::{
        Column, DataType, LayoutKind, TableDef, TableId, TupleLayout, Value, ValueRef,
    };

    fn layout(kind: LayoutKind) -> Arc<TupleLayout> {
        let columns = vec![
            Column::new("id", DataType::Int64),
            Column::new("name", DataType::Varchar { max: 40 }).nullable(),
            Column::new("note", DataType::Text).nullable(),
        ];
        let def = TableDef::new(TableId(1), "t", columns, vec![0]);
        Arc::new(TupleLayout::new(&def, kind))
    }

    fn row(layout: &Arc<TupleLayout>) -> Row {
        let mut row = Row::new(Arc::clone(layout));
        row.set(0, 7_i64).unwrap();
        row.set(1, "first").unwrap();
        row.set(1, "a name that is set twice").unwrap();
        row.set(2, "a note").unwrap();
        row
    }

    #[test]
    fn an_image_is_read_back_in_both_layouts() {
        for kind in [LayoutKind::Together, LayoutKind::Separate] {
            let layout = layout(kind);
            let row = row(&layout);
            let mut image = Vec::new();
            row.write_image(&mut image);
            let mut found = Row::new(Arc::clone(&layout));
            assert!(found.read_image(&image));
            assert_eq!(found, row);
            let mut again = Vec::new();
            found.write_image(&mut again);
            assert_eq!(again, image, "nothing superfluous is in an image");
            assert!(!found.read_image(&image[..8]));
        }
    }

    #[test]
    fn merged_deltas_do_what_both_do_in_order() {
        for kind in [LayoutKind::Together, LayoutKind::Separate] {
            let layout = layout(kind);
            let (mut first, mut second) = (
                Changes::new(Arc::clone(&layout)),
                Changes::new(Arc::clone(&layout)),
            );
            first.set(1, "one").unwrap();
            first.set(2, "two").unwrap();
            second.set(2, ValueRef::Null).unwrap();
            let (mut older, mut newer, mut merged) = (Vec::new(), Vec::new(), Vec::new());
            write_delta(&first, &mut older);
            write_delta(&second, &mut newer);
            merge_deltas(&older, &newer, &mut merged).unwrap();
            let (mut expected, mut found) = (row(&layout), row(&layout));
            apply_delta(&older, &mut expected).unwrap();
            apply_delta(&newer, &mut expected).unwrap();
            apply_delta(&merged, &mut found).unwrap();
            assert_eq!(found, expected);
            assert_eq!(found.get(1).to_value(), Value::Text("one".into()));
            assert!(merged.len() < older.len() + newer.len());
        }
    }
}
