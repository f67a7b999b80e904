//! `ANY` and `ALL` over the elements of an array.
//!
//! An element that decides ends the comparison; NULL among the others makes the result unknown.

use super::{Run, evaluate};
use crate::error::Result;
use crate::plan::Quantified;
use crate::types::Datum;

/// The value of a comparison with the elements of an array.
pub(super) fn evaluate_test(test: &Quantified, row: &[Datum], run: &mut Run<'_>) -> Result<Datum> {
    let left = evaluate(&test.left, row, run)?;
    let Datum::Array(array) = evaluate(&test.array, row, run)? else {
        return Ok(Datum::Null);
    };
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
