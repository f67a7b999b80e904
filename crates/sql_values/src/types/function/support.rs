//! Functions below operators and aggregates, which statements may call too.
//!
//! The states of aggregates over pairs and single numbers are arrays of sums, of the differences
//! from the mean (Youngs and Cramer, 1971).

use super::super::array::Array;
use super::super::datum::Datum;
use super::super::kind::Kind::{self, Bool, Bytea, Float8};
use super::Function;
use crate::error::{Result, SqlError, SqlState};
use std::sync::Arc;

const STATE: Kind = Kind::Array(&Float8);
/// Numbers of a state: a count, a sum, and a sum of squares.
const SINGLE: usize = 3;
/// Numbers of a state over pairs: a count, both sums, both sums of squares, the sum of products.
const PAIR: usize = 6;

/// The table.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::scalar("booleq", &[Bool, Bool], Bool, |_, a| {
        Ok(Datum::Bool(a[0] == a[1]))
    }),
    Function::scalar("boolne", &[Bool, Bool], Bool, |_, a| {
        Ok(Datum::Bool(a[0] != a[1]))
    }),
    Function::scalar("booland_statefunc", &[Bool, Bool], Bool, |_, a| {
        Ok(Datum::Bool(a.iter().all(|one| *one == Datum::Bool(true))))
    }),
    Function::scalar("boolor_statefunc", &[Bool, Bool], Bool, |_, a| {
        Ok(Datum::Bool(a.contains(&Datum::Bool(true))))
    }),
    Function::scalar("float8send", &[Float8], Bytea, |_, a| {
        Ok(Datum::bytes(&number(&a[0])?.to_be_bytes()[..]))
    }),
    Function::scalar("float8_accum", &[STATE, Float8], STATE, |_, a| {
        let [count, sum, squares] = state::<SINGLE>("float8_accum", &a[0])?;
        let (count, value) = (count + 1.0, number(&a[1])?);
        let sum = sum + value;
        let apart = value * count - sum;
        let squares = squares + scaled(apart * apart, count);
        Ok(held(&[count, sum, squares]))
    }),
    Function::scalar("float8_combine", &[STATE, STATE], STATE, |_, a| {
        let one = state::<SINGLE>("float8_combine", &a[0])?;
        let other = state::<SINGLE>("float8_combine", &a[1])?;
        if one[0] == 0.0 || other[0] == 0.0 {
            return Ok(held(if one[0] == 0.0 { &other } else { &one }));
        }
        let count = one[0] + other[0];
        let apart = one[1] / one[0] - other[1] / other[0];
        let squares = one[2] + other[2] + one[0] * other[0] * apart * apart / count;
        Ok(held(&[count, one[1] + other[1], squares]))
    }),
    Function::scalar(
        "float8_regr_accum",
        &[STATE, Float8, Float8],
        STATE,
        |_, a| {
            let before = state::<PAIR>("float8_regr_accum", &a[0])?;
            let [count, sum_x, squares_x, sum_y, squares_y, products] = before;
            let (y, x) = (number(&a[1])?, number(&a[2])?);
            let (count, sum_x, sum_y) = (count + 1.0, sum_x + x, sum_y + y);
            let (apart_x, apart_y) = (x * count - sum_x, y * count - sum_y);
            Ok(held(&[
                count,
                sum_x,
                squares_x + scaled(apart_x * apart_x, count),
                sum_y,
                squares_y + scaled(apart_y * apart_y, count),
                products + scaled(apart_x * apart_y, count),
            ]))
        },
    ),
    Function::scalar("float8_regr_combine", &[STATE, STATE], STATE, |_, a| {
        let one = state::<PAIR>("float8_regr_combine", &a[0])?;
        let other = state::<PAIR>("float8_regr_combine", &a[1])?;
        if one[0] == 0.0 || other[0] == 0.0 {
            return Ok(held(if one[0] == 0.0 { &other } else { &one }));
        }
        let count = one[0] + other[0];
        let apart_x = one[1] / one[0] - other[1] / other[0];
        let apart_y = one[3] / one[0] - other[3] / other[0];
        let both =
            |at: usize, a: f64, b: f64| one[at] + other[at] + one[0] * other[0] * a * b / count;
        Ok(held(&[
            count,
            one[1] + other[1],
            both(2, apart_x, apart_x),
            one[3] + other[3],
            both(4, apart_y, apart_y),
            both(5, apart_x, apart_y),
        ]))
    }),
];

/// The share of the last of so many values in a sum of products.
fn scaled(product: f64, count: f64) -> f64 {
    if count > 1.0 {
        product / (count * (count - 1.0))
    } else {
        0.0
    }
}

fn number(datum: &Datum) -> Result<f64> {
    match datum {
        Datum::Float8(value) => Ok(*value),
        _ => Err(SqlError::internal("a number of type double precision")),
    }
}

fn state<const N: usize>(name: &str, datum: &Datum) -> Result<[f64; N]> {
    let numbers = datum.array()?.elements.iter().map(number);
    let numbers = numbers.collect::<Result<Vec<_>>>().unwrap_or_default();
    numbers.try_into().map_err(|_| {
        let message = format!("{name}: expected {N}-element float8 array");
        SqlError::new(SqlState::INTERNAL_ERROR, message)
    })
}

fn held(numbers: &[f64]) -> Datum {
    let elements = numbers.iter().copied().map(Datum::Float8);
    Datum::Array(Arc::new(Array::new(Float8, elements.collect())))
}
