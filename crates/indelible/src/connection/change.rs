//! The change of one row, as write sets and before images have it.
//!
//! Rows are shared and never change, so a write set and an image of the same row take memory once.

use crate::error::Result;
use crate::table::Table;
use std::sync::Arc;
use storage::record::{Changes, KeyBuf, Row};

/// A row at some moment; none if it was not there.
pub(crate) type Version = Option<Arc<Row>>;

/// The effect of one operation on one row. The primary key is the same before and after.
pub(crate) struct Change {
    pub(crate) table: Table,
    /// The primary key.
    pub(crate) key: KeyBuf,
    pub(crate) before: Version,
    pub(crate) after: Version,
}

impl Change {
    /// Bytes of memory that the rows and the key take.
    pub(crate) fn bytes(&self) -> u64 {
        let rows = [&self.before, &self.after].into_iter().flatten();
        (rows.map(|row| row.bytes()).sum::<usize>() + size_of::<Self>()) as u64
    }
}

/// The columns in which two rows of a table differ.
pub(crate) fn difference(table: &Table, before: &Row, after: &Row) -> Result<Changes> {
    let mut changes = table.changes();
    for (column, (old, new)) in before.values().zip(after.values()).enumerate() {
        if old != new {
            changes.set(column, new)?;
        }
    }
    Ok(changes)
}
