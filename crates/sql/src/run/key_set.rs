//! Tests that look a value up in a set of rows, in place of a comparison with each of them.
//!
//! A test has a set only if it does nothing but compare values by their content: a date and a
//! timestamp may be equal and have two hashes.

use crate::plan::{Call, Expr};
use crate::types::function::Body;
use std::cmp::Ordering;

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
