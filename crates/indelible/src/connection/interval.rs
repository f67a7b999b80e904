//! Intervals of an index that a serializable transaction has read.
//!
//! An interval covers keys that are there and keys that are not, so a row that somebody inserts
//! into it counts as a change of what was read. The bounds are keys of the index, both included. A
//! read of one row is an interval of one key.

use super::change::Version;
use crate::error::Result;
use crate::table::{Index, Table};
use storage::record::KeyBuf;

/// Keys of one index, both ends included.
pub(super) struct Interval {
    pub(super) table: Table,
    /// The secondary index; none for the primary key.
    pub(super) index: Option<Index>,
    pub(super) low: KeyBuf,
    pub(super) high: KeyBuf,
}

impl Interval {
    /// Whether the key of a row is inside, in the interval's index.
    pub(super) fn holds(&self, version: &Version) -> Result<bool> {
        let Some(row) = version else {
            return Ok(false);
        };
        let encoder = match &self.index {
            Some(index) => index.encoder(),
            None => &self.table.entry.shape.primary,
        };
        let mut key = KeyBuf::new();
        encoder.encode_row(row, &mut key)?;
        Ok(self.low <= key && key <= self.high)
    }
}
