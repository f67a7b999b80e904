//! Statistics of tables and their columns, for those who plan queries.
//!
//! They are estimates of the moment at which they were made, and change with the next analysis
//! alone.

use storage::record::Value;

/// Statistics of a table, as of its last [`Database::analyze`](crate::Database::analyze).
#[derive(Clone, Debug, PartialEq)]
pub struct TableStatistics {
    /// Rows that the table had.
    pub rows: u64,
    /// Rows that were looked at.
    pub sampled: u64,
    /// Statistics of each column, in the order of the definition.
    pub columns: Vec<ColumnStatistics>,
}

/// Statistics of a column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnStatistics {
    /// Share of the rows that have NULL.
    pub nulls: f64,
    /// Number of different values in the table, estimated.
    pub distinct: f64,
    /// The most common values, at most 50, each with the share of the rows that have it; the most
    /// frequent first.
    pub common: Vec<(Value, f64)>,
    /// The other values in ascending order, at most 100: about as many rows lie between any two
    /// neighbours.
    pub bounds: Vec<Value>,
}
