//! Sets of rows that `IN` looks its value up in, in place of a comparison with each of them.
//!
//! Rows without NULL are found by their hash. One with NULL is equal to none, but it is unknown
//! whether it is where all other values are equal. A test has a set only if it does nothing but
//! compare values by their content: a date and a timestamp may be equal and have two hashes.

use super::Row;
use crate::plan::{Call, Expr};
use crate::types::Datum;
use crate::types::function::Body;
use sql_rows::{BuildRowHasher, Share, bytes_of};
use std::cmp::Ordering;
use std::collections::HashSet;

/// Different rows.
pub(super) struct KeySet {
    whole: HashSet<Row, BuildRowHasher>,
    /// Those with NULL.
    partial: HashSet<Row, BuildRowHasher>,
    /// The memory of the rows.
    share: Share,
}

impl KeySet {
    /// A set without rows.
    pub(super) fn new(share: Share) -> Self {
        Self {
            whole: HashSet::default(),
            partial: HashSet::default(),
            share,
        }
    }

    /// Adds a row; false if there is no room for it.
    pub(super) fn insert(&mut self, row: Row) -> bool {
        let rows = match row.iter().any(Datum::is_null) {
            true => &mut self.partial,
            false => &mut self.whole,
        };
        if rows.contains(&row) {
            return true;
        }
        let has_room = self.share.try_take(bytes_of(&row));
        if has_room {
            rows.insert(row);
        }
        has_room
    }

    /// Whether a row is equal to one of them for `ANY` with `=`, and different from all of them for
    /// `ALL` with `<>`.
    pub(super) fn test(&self, row: &[Datum], is_all: bool) -> Datum {
        let has_null = row.iter().any(Datum::is_null);
        if !has_null && self.whole.contains(row) {
            return Datum::Bool(!is_all);
        }
        let may_be_equal = |other: &Row| {
            let mut pairs = row.iter().zip(other);
            pairs.all(|(one, other)| one.is_null() || other.is_null() || one == other)
        };
        let is_unknown = self.partial.iter().any(may_be_equal)
            || has_null && self.whole.iter().any(may_be_equal);
        match is_unknown {
            true => Datum::Null,
            false => Datum::Bool(is_all),
        }
    }
}

/// The values that a test compares: those before its list or query, and those in it. None if it
/// does more than `ANY` with `=` or `ALL` with `<>`. The first `width` columns are those before it.
pub(super) fn compared(
    condition: &Expr,
    is_all: bool,
    width: usize,
) -> Option<Vec<(&Expr, &Expr)>> {
    let (condition, is_opposite) = match condition {
        Expr::Not(inner) if is_all => (&**inner, false),
        condition => (condition, is_all),
    };
    match condition {
        Expr::And(parts) if !is_opposite => parts
            .iter()
            .map(|part| pair(part, is_opposite, width))
            .collect(),
        condition => pair(condition, is_opposite, width).map(|pair| vec![pair]),
    }
}

fn pair(condition: &Expr, is_opposite: bool, width: usize) -> Option<(&Expr, &Expr)> {
    let Expr::Call(call) = condition else {
        return None;
    };
    let [one, other] = &call.arguments[..] else {
        return None;
    };
    if !tells_equal(call, is_opposite) {
        return None;
    }
    match (column(one)? < width, column(other)? < width) {
        (true, false) => Some((one, other)),
        (false, true) => Some((other, one)),
        _ => None,
    }
}

/// Whether a call compares contents, which have one hash where they are equal, by `=` or `<>`.
fn tells_equal(call: &Call, is_opposite: bool) -> bool {
    let Body::Comparison(holds) = call.function.body else {
        return false;
    };
    let orders = [Ordering::Less, Ordering::Equal, Ordering::Greater];
    orders.map(holds) == orders.map(|order| order.is_eq() != is_opposite)
}

/// The column that an expression is, perhaps converted.
fn column(mut expression: &Expr) -> Option<usize> {
    while let Expr::Cast(operand, ..) = expression {
        expression = operand;
    }
    match expression {
        Expr::Column(at, _) => Some(*at),
        _ => None,
    }
}
