//! Orders of rows by keys that are expressions.
//!
//! NULL is placed by the key's own option; the order of all other values is that of their types.

use super::{Row, Run, evaluate};
use crate::error::Result;
use crate::plan::SortKey;
use crate::types::Datum;
use std::cmp::Ordering;

/// The values of an order's keys for a row.
pub(super) fn keys_of(keys: &[SortKey], row: &[Datum], run: &mut Run<'_>) -> Result<Row> {
    let keys = keys.iter().map(|key| evaluate(&key.expression, row, run));
    keys.collect()
}

/// The order of two rows by the values of their keys.
pub(super) fn compare(keys: &[SortKey], one: &[Datum], other: &[Datum]) -> Ordering {
    for (key, (one, other)) in keys.iter().zip(one.iter().zip(other)) {
        let order = match (one.is_null(), other.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if key.nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if key.nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if key.descends => other.cmp(one),
            (false, false) => one.cmp(other),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}
