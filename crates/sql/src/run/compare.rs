//! Orders of rows by keys that are expressions.
//!
//! A key that is a column is read where it stands; the values of others are added at the end of the
//! row while it is sorted.

use super::{Row, Run, evaluate};
use crate::error::Result;
use crate::plan::{Expr, SortKey};
use crate::types::Datum;
use sql_rows::Order;
use std::cmp::Ordering;
use std::sync::Arc;

/// The columns by which rows of a width are sorted, some of which are computed.
pub(super) fn order_of(keys: &[SortKey], width: usize) -> Arc<[Order]> {
    let mut computed = width..;
    let columns = keys.iter().map(|key| Order {
        column: match key.expression {
            Expr::Column(at, _) => at,
            _ => computed.next().unwrap_or_default(),
        },
        descends: key.descends,
        nulls_first: key.nulls_first,
    });
    columns.collect()
}

/// Adds the values of the keys that are computed to a row.
pub(super) fn add_computed(keys: &[SortKey], row: &mut Row, run: &mut Run<'_>) -> Result<()> {
    for key in keys {
        if !matches!(key.expression, Expr::Column(..)) {
            let value = evaluate(&key.expression, row, run)?;
            row.push(value);
        }
    }
    Ok(())
}

/// The values of an order's keys for a row.
pub(super) fn keys_of(keys: &[SortKey], row: &[Datum], run: &mut Run<'_>) -> Result<Row> {
    let keys = keys.iter().map(|key| evaluate(&key.expression, row, run));
    keys.collect()
}

/// The order of two rows by the values of their keys.
pub(super) fn compare(keys: &[SortKey], one: &[Datum], other: &[Datum]) -> Ordering {
    let pairs = keys.iter().zip(one.iter().zip(other));
    let mut orders = pairs.map(|(key, (one, other))| {
        let order = Order {
            column: 0,
            descends: key.descends,
            nulls_first: key.nulls_first,
        };
        order.compare(one, other)
    });
    orders
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}
