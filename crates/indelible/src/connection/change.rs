//! The change of one row, as write sets and before images have it.
//!
//! Rows are shared and never change, so a write set and an image of the same row take memory once.

use crate::table::Table;
use std::sync::Arc;
use storage::record::{Changes, KeyBuf, Row};

/// A row at some moment; none if it was not there.
pub(crate) type Version = Option<Arc<Row>>;

/// Where an update has moved a row, if it has.
#[derive(Clone, Debug)]
pub(crate) enum Move {
    /// It was changed where it is, inserted or deleted.
    None,
    /// To another primary key of its table: the row there.
    Within(Arc<Row>),
    /// To another table.
    Elsewhere,
}

/// The effect of one operation on one row. The primary key is the same before and after.
pub(crate) struct Change {
    pub(crate) table: Table,
    /// The primary key.
    pub(crate) key: KeyBuf,
    pub(crate) before: Version,
    pub(crate) after: Version,
    /// What an update changes for the engine, if a connection has made it.
    pub(crate) update: Option<Changes>,
    /// For a row that is gone under this key.
    pub(crate) moved: Move,
}

impl Change {
    /// Bytes of memory that the rows and the key take.
    pub(crate) fn bytes(&self) -> u64 {
        let rows = [&self.before, &self.after].into_iter().flatten();
        (rows.map(|row| row.bytes()).sum::<usize>() + size_of::<Self>()) as u64
    }
}
