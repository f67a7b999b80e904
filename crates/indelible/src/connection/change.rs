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
    /// The columns in which two rows may differ.
    pub(crate) columns: ColumnSet,
}

impl Change {
    /// Bytes of memory that the rows and the key take.
    pub(crate) fn bytes(&self) -> u64 {
        let rows = [&self.before, &self.after].into_iter().flatten();
        (rows.map(|row| row.bytes()).sum::<usize>() + size_of::<Self>()) as u64
    }
}

/// Columns of a table; those from number 63 on are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnSet(u64);

impl ColumnSet {
    /// All columns.
    pub(crate) const ALL: Self = Self(u64::MAX);

    /// The columns of a set of changes.
    pub(crate) fn of(changes: &Changes) -> Self {
        Self(changes.columns().fold(0, |set, column| set | bit(column)))
    }

    fn has(self, column: usize) -> bool {
        self.0 & bit(column) != 0
    }
}

fn bit(column: usize) -> u64 {
    1 << column.min(63)
}

/// Adds the columns of a set in which two rows of a table differ.
pub(crate) fn add_difference(
    changes: &mut Changes,
    columns: ColumnSet,
    before: &Row,
    after: &Row,
) -> Result<()> {
    let count = before.layout().fields().len();
    for column in (0..count).filter(|column| columns.has(*column)) {
        let new = after.get(column);
        if before.get(column) != new {
            changes.set(column, new)?;
        }
    }
    Ok(())
}
