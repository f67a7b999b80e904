//! Traces: the operations of a running database's transactions, in a file from which another method
//! can be measured.
//!
//! A recorder notes each operation of each committed transaction: its table, a hash of its key, and
//! sizes. It notes no name, no value and no key: the hash is salted with a number that is in no
//! file. So equal keys can be recognised, and nothing else of the content can be read from a trace.
//! docs/advise.md says what a replay preserves and what it loses.
//!
//! | module | job |
//! |---|---|
//! | `format` | the bytes of the file, and what is wrong with those of another one |
//! | `notes` | from sessions to the recording |
//! | `record` | from the recording to the file |
//! | `read` | from the file to operations |
//!
//! Always true: a transaction is whole in the trace or not there at all; a file whose recording did
//! not end is refused.

mod format;
mod notes;
mod read;
mod record;
#[cfg(test)]
mod tests;

pub(crate) use notes::RowsSeen;
pub use read::Trace;
pub(crate) use record::{Note, Recording};

/// A table of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceTable {
    /// Columns, those of the primary key included.
    pub columns: u32,
    /// Bytes of a row as declared; for columns whose values differ in size, at most 64 each, until
    /// inserted rows show their sizes.
    pub declared_bytes: u64,
    /// Secondary indexes when the recording ended.
    pub indexes: u32,
}

/// One operation of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceOperation {
    /// Position in [`Trace::tables`].
    pub table: u32,
    /// Stands for the primary key: equal keys have equal numbers. For a scan, the key of the first
    /// row that it visited.
    pub key: u64,
    /// The operation, with its sizes.
    pub action: TraceAction,
    /// Whether the transaction ends with it.
    pub ends_transaction: bool,
}

/// Kind of an operation, with its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceAction {
    /// A look-up by primary key.
    Get {
        /// Bytes of the row's values; `None` if there was no row.
        row_bytes: Option<u32>,
    },
    /// New values for some columns of a row.
    Update {
        /// Number of columns.
        columns: u32,
        /// Bytes of their new values.
        bytes: u32,
    },
    /// A new row.
    Insert {
        /// Bytes of its values.
        row_bytes: u32,
        /// Whether its key is above those of all insertions before it.
        appends: bool,
    },
    /// A row is deleted.
    Delete,
    /// Visits of rows in the order of the primary key or of a secondary index.
    Scan {
        /// Number of rows.
        rows: u32,
    },
}

/// Totals of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceSummary {
    /// Committed transactions, those that only read included.
    pub transactions: u64,
    /// Their operations.
    pub operations: u64,
}
