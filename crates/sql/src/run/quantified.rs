//! `ANY` and `ALL` over the elements of an array.
//!
//! An element that decides ends the comparison; NULL among the others makes the result unknown.

use super::evaluate::operand;
use super::{Run, evaluate};
use crate::error::Result;
use crate::plan::{Expr, Quantified};
use crate::types::Datum;
use crate::types::function::Body;
use std::cmp::Ordering;

/// The value of a comparison with the elements of an array.
pub(super) fn evaluate_test(test: &Quantified, row: &[Datum], run: &mut Run<'_>) -> Result<Datum> {
    let (mut left_place, mut array_place) = (Datum::Null, Datum::Null);
    let left = operand(&test.left, row, &mut left_place, run)?;
    let Datum::Array(array) = operand(&test.array, row, &mut array_place, run)? else {
        return Ok(Datum::Null);
    };
    if let Some(holds) = comparison(&test.condition) {
        return Ok(compared(left, &array.elements, test.is_all, holds));
    }
    let left = left.clone();
    let mut pair = vec![left, Datum::Null];
    let mut unknown = false;
    for element in &array.elements {
        pair[1] = element.clone();
        match evaluate(&test.condition, &pair, run)? {
            Datum::Bool(is_true) if is_true != test.is_all => {
                return Ok(Datum::Bool(!test.is_all));
            }
            Datum::Bool(_) => {}
            _ => unknown = true,
        }
    }
    Ok(if unknown {
        Datum::Null
    } else {
        Datum::Bool(test.is_all)
    })
}

/// The test of a condition that does nothing but compare the value with the element.
fn comparison(condition: &Expr) -> Option<fn(Ordering) -> bool> {
    let Expr::Call(call) = condition else {
        return None;
    };
    match (call.function.body, &call.arguments[..]) {
        (Body::Comparison(holds), [Expr::Column(0, _), Expr::Column(1, _)]) => Some(holds),
        _ => None,
    }
}

fn compared(left: &Datum, elements: &[Datum], is_all: bool, holds: fn(Ordering) -> bool) -> Datum {
    let mut unknown = false;
    for element in elements {
        if left.is_null() || element.is_null() {
            unknown = true;
        } else if holds(left.compare(element)) != is_all {
            return Datum::Bool(!is_all);
        }
    }
    if unknown {
        Datum::Null
    } else {
        Datum::Bool(is_all)
    }
}
