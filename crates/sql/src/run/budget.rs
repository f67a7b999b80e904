//! Memory of a statement: every operator that keeps rows takes their bytes from one budget.
//!
//! An operator that can write rows to files does so when the budget is used up; the others fail
//! with the name of the setting.

use crate::error::{Result, SqlError, SqlState};
use crate::types::Datum;

/// Bytes that a statement may keep, and those that it keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    limit_bytes: u64,
    used_bytes: u64,
}

/// `work_mem` where no setting is known.
const DEFAULT_BYTES: u64 = 64 << 20;

impl Default for Budget {
    fn default() -> Self {
        Self::new(DEFAULT_BYTES)
    }
}

impl Budget {
    pub(crate) fn new(limit_bytes: u64) -> Self {
        Self {
            limit_bytes,
            used_bytes: 0,
        }
    }

    /// Takes the bytes of a row that is kept; fails if they are used up.
    pub(crate) fn take(&mut self, row: &[Datum]) -> Result<()> {
        if self.try_take(row) {
            return Ok(());
        }
        let limit = self.limit_bytes;
        Err(SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
            .detail(format!(
                "The statement keeps more than `work_mem` ({limit} bytes) of rows."
            ))
            .hint("Raise `work_mem`, or let the statement keep fewer rows."))
    }

    /// Takes the bytes of a row, unless they are used up.
    pub(crate) fn try_take(&mut self, row: &[Datum]) -> bool {
        let bytes = bytes_of(row);
        let fits = self.used_bytes + bytes <= self.limit_bytes;
        if fits {
            self.used_bytes += bytes;
        }
        fits
    }

    /// Gives bytes back.
    pub(crate) fn release(&mut self, bytes: u64) {
        self.used_bytes = self.used_bytes.saturating_sub(bytes);
    }
}

/// About the memory of a row.
pub(crate) fn bytes_of(row: &[Datum]) -> u64 {
    let contents = row.iter().map(|datum| match datum {
        Datum::Text(text) | Datum::Bpchar(text) | Datum::Json(text) => text.len() + 16,
        Datum::Bytea(bytes) => bytes.len() + 16,
        _ => 0,
    });
    (size_of::<Vec<Datum>>() + size_of_val(row) + contents.sum::<usize>()) as u64
}
