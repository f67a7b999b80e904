//! The errors of a run.
//!
//! An option that cannot be used is found before anything is loaded; a wrong row, or one too many
//! or too few, by the check after the run.

use indelible::Error;

/// An error of a run.
#[derive(Debug, thiserror::Error)]
pub enum CustomError {
    /// The database refused. Its own error says what to do.
    #[error(transparent)]
    Database(#[from] Error),
    /// An option has a value that cannot be used.
    #[error("--{option}: {problem}")]
    Option {
        /// The option.
        option: &'static str,
        /// The fault, and the value to use instead.
        problem: String,
    },
    /// A row is there that must not be, or is not there that must be.
    #[error("table {table}: {found} rows are there and {expected} must be")]
    Rows {
        /// Position of the table.
        table: usize,
        /// Rows of the list.
        expected: u64,
        /// Rows of the database.
        found: u64,
    },
    /// A row differs from the list's.
    #[error("table {table}, key {key}: column {column} is wrong")]
    Wrong {
        /// Position of the table.
        table: usize,
        /// The primary key.
        key: i64,
        /// Position of the column, the key not counted.
        column: u32,
    },
}
