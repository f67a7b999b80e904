//! `ANY` and `ALL` over the elements of an array.
//!
//! An element that decides ends the comparison; NULL among the others makes the result unknown. A
//! longer list that is the same for all rows is a set, where the comparison is one of equality.

use super::evaluate::operand;
use super::key_set::compared;
use super::{Run, evaluate};
use crate::error::Result;
use crate::plan::{Call, Expr, Quantified};
use crate::types::Datum;
use crate::types::array::Array;
use crate::types::function::Body;
use sql_rows::KeySet;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::slice;
use std::sync::Arc;

/// Elements from which on a list is a set.
const ELEMENTS_MIN: usize = 9;

/// Lists that were compared, by the places of the array and of the operator.
pub(super) type Lists = HashMap<(usize, usize), List>;

pub(super) struct List {
    /// Kept, so that no other array comes to its place.
    array: Arc<Array>,
    keys: Keys,
}

enum Keys {
    /// The first row that is compared may be the last one.
    NotCollected,
    /// They do not fit into memory.
    TooMany,
    All(KeySet),
}

/// The value of a comparison with the elements of an array.
pub(super) fn evaluate_test(test: &Quantified, row: &[Datum], run: &mut Run<'_>) -> Result<Datum> {
    let (mut left_place, mut array_place) = (Datum::Null, Datum::Null);
    let left = operand(&test.left, row, &mut left_place, run)?;
    let Datum::Array(array) = operand(&test.array, row, &mut array_place, run)? else {
        return Ok(Datum::Null);
    };
    if array.elements.len() >= ELEMENTS_MIN
        && is_fixed(&test.array)
        && let Some(result) = looked_up(test, left, array, run)?
    {
        return Ok(result);
    }
    if let Some(holds) = comparison(&test.condition) {
        return Ok(compared_in_order(left, &array.elements, test.is_all, holds));
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

/// Whether an array is the same one for all rows.
fn is_fixed(array: &Expr) -> bool {
    match array {
        Expr::Constant(..) | Expr::Parameter(..) => true,
        Expr::Subquery(query) => !query.is_correlated,
        _ => false,
    }
}

/// The value of a test that looks the value up in a set; none if there is no set.
fn looked_up(
    test: &Quantified,
    left: &Datum,
    array: &Arc<Array>,
    run: &mut Run<'_>,
) -> Result<Option<Datum>> {
    let Expr::Call(call) = &test.condition else {
        return Ok(None);
    };
    let Some(&[(own, element)]) = compared(&test.condition, test.is_all, 1).as_deref() else {
        return Ok(None);
    };
    let own = evaluate(own, slice::from_ref(left), run)?;
    Ok(keys_of(call, array, element, run)?
        .map(|keys| keys.test(slice::from_ref(&own), test.is_all)))
}

/// The elements as the operator compares them; none if there is no set of them, or not yet.
fn keys_of<'r>(
    call: &Call,
    array: &Arc<Array>,
    element: &Expr,
    run: &'r mut Run<'_>,
) -> Result<Option<&'r KeySet>> {
    let place = (
        Arc::as_ptr(array).addr(),
        std::ptr::from_ref(call.function).addr(),
    );
    match run.state.lists.get(&place).map(|list| &list.keys) {
        None => {
            // Those that nobody else has are over: a scan that begins again computes another one.
            let lists = &mut run.state.lists;
            lists.retain(|_, list| Arc::strong_count(&list.array) > 1);
            let list = List {
                array: Arc::clone(array),
                keys: Keys::NotCollected,
            };
            lists.insert(place, list);
        }
        Some(Keys::NotCollected) => {
            let keys = collect(array, element, run)?;
            if let Some(list) = run.state.lists.get_mut(&place) {
                list.keys = keys;
            }
        }
        Some(_) => {}
    }
    Ok(match run.state.lists.get(&place).map(|list| &list.keys) {
        Some(Keys::All(keys)) => Some(keys),
        _ => None,
    })
}

fn collect(array: &Array, element: &Expr, run: &mut Run<'_>) -> Result<Keys> {
    let mut keys = KeySet::new(run.state.memory.share());
    let mut pair = [Datum::Null, Datum::Null];
    for value in &array.elements {
        pair[1] = value.clone();
        if !keys.insert(vec![evaluate(element, &pair, run)?]) {
            return Ok(Keys::TooMany);
        }
    }
    Ok(Keys::All(keys))
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

fn compared_in_order(
    left: &Datum,
    elements: &[Datum],
    is_all: bool,
    holds: fn(Ordering) -> bool,
) -> Datum {
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
