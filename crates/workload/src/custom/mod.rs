//! Workloads of any shape: chosen tuple sizes, mix and skew, or a trace of another database.
//!
//! A workload is tables of one shape each, loaded rows, and one list of transactions for one
//! partition that is run once, from its beginning. It is made before the clock starts and is the
//! same for every method.
//!
//! | module | job |
//! |---|---|
//! | `options` | mix, skew, sizes: the parameters of a generated list |
//! | `generate` | the list of chosen shares |
//! | `replay` | the list of a trace, on fewer rows than the traced database had |
//! | `drive` | load, run, check |
//! | `error` | how a run fails |
//!
//! Invariants: an operation's outcome (found, not found) is known from the list, and after a run
//! every row has the content that the list gives it ([`Custom::check`]).

mod drive;
mod error;
mod generate;
mod options;
mod replay;
#[cfg(test)]
mod tests;

pub use drive::{Custom, Runner};
pub use error::CustomError;
pub use options::{CustomMix, CustomOptions, CustomSkew};
pub use replay::Replay;

/// Keys between two loaded rows, where rows are inserted.
const GAP: i64 = 1 << 24;
/// The key of a loaded row.
fn key_of(row: u64) -> i64 {
    row.cast_signed() * GAP
}

/// Most operations of a list, so that each insertion has a key of its own between two loaded rows.
const OPERATIONS_MAX: usize = 1 << 23;

/// A table of the workload: a key of 8 bytes, and columns of text of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableShape {
    /// Columns beside the key.
    pub columns: u32,
    /// Bytes of each of them.
    pub column_bytes: u32,
    /// Rows that are loaded.
    pub rows: u64,
}

impl TableShape {
    /// Bytes of a row's values.
    pub fn row_bytes(&self) -> u64 {
        8 + u64::from(self.columns) * u64::from(self.column_bytes)
    }
}

/// One operation of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The primary key.
    pub key: i64,
    /// Position of the table.
    pub table: u16,
    /// The kind of operation.
    pub kind: Kind,
    /// Columns that an update rewrites, rows that a scan visits at most.
    pub count: u32,
    /// Whether the transaction ends with it.
    pub ends_transaction: bool,
}

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Copies a row that is there.
    Get,
    /// Looks for a row that is not there.
    Miss,
    /// Rewrites columns of a row that is there.
    Update,
    /// Inserts a row that is not there.
    Insert,
    /// Deletes a row that is there.
    Delete,
    /// Visits rows from a key on.
    Scan,
}
