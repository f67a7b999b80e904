//! Columns of rows that the workloads read: plain numbers, texts and flags.
//!
//! The types are known from the schema. A damaged row may lack a value all the same; then it reads
//! as nothing, and the conditions find it.

use indelible::{Row, ValueRef};

/// An integer column; 0 where a damaged row has none.
#[inline]
pub(crate) fn integer(row: &Row, column: usize) -> i64 {
    row.get(column).as_i64().unwrap_or(0)
}

/// A text column; empty where a damaged row has none.
#[inline]
pub(crate) fn text(row: &Row, column: usize) -> &str {
    row.get(column).as_str().unwrap_or("")
}

/// A flag; false where a damaged row has none.
#[inline]
pub(crate) fn flag(row: &Row, column: usize) -> bool {
    matches!(row.get(column), ValueRef::Bool(true))
}
