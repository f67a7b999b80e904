//! `generate_series`: rows that are made one at a time.
//!
//! The end is inclusive, the step may be negative but not zero, and a series that has no end ends
//! with the type's range. Nothing is kept between two rows but the next value.

use super::super::datetime::arithmetic::{add, add_zoned};
use super::super::datum::Datum;
use super::super::interval::Interval as Span;
use super::super::kind::Kind::{Int4, Int8, Interval, Numeric, Timestamp, Timestamptz};
use super::super::numeric::Numeric as Number;
use super::{Function, Rows};
use crate::error::{Result, SqlError, SqlState};

fn bad(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// From the first number to the last in steps; a step that overflows ends it.
fn integers(a: &[Datum], make: fn(i64) -> Datum, limits: (i64, i64)) -> Result<Rows> {
    let (first, last) = (a[0].int()?, a[1].int()?);
    let step = a.get(2).map_or(Ok(1), Datum::int)?;
    if step == 0 {
        return Err(bad("step size cannot equal zero"));
    }
    let is_within = move |value: &i64| {
        if step > 0 {
            *value <= last
        } else {
            *value >= last
        }
    };
    let begin = Some(first).filter(is_within);
    let numbers = std::iter::successors(begin, move |value| {
        let next = value.checked_add(step)?;
        (next >= limits.0 && next <= limits.1 && is_within(&next)).then_some(next)
    });
    Ok(Box::new(numbers.map(move |value| Ok(make(value)))))
}

fn numerics(a: &[Datum]) -> Result<Rows> {
    let (first, last) = (a[0].numeric()?.clone(), a[1].numeric()?.clone());
    let step = match a.get(2) {
        Some(step) => step.numeric()?.clone(),
        None => Number::from(1),
    };
    for (number, name) in [
        (&first, "start value"),
        (&last, "stop value"),
        (&step, "step size"),
    ] {
        if number.is_nan() {
            return Err(bad(&format!("{name} cannot be NaN")));
        }
        if number.is_infinite() {
            return Err(bad(&format!("{name} cannot be infinity")));
        }
    }
    if step.is_zero() {
        return Err(bad("step size cannot equal zero"));
    }
    let mut next = Some(first);
    Ok(Box::new(std::iter::from_fn(move || {
        let value = next.take()?;
        let is_within = if step.signum() > 0 {
            value <= last
        } else {
            value >= last
        };
        if !is_within {
            return None;
        }
        next = value.add(&step).ok();
        Some(Ok(Datum::Numeric(value)))
    })))
}

/// Moments in steps, by the function that adds one.
fn moments(
    a: &[Datum],
    make: fn(i64) -> Datum,
    add: impl Fn(i64, Span) -> Result<i64> + Send + 'static,
) -> Result<Rows> {
    let (first, last) = (a[0].timestamp()?, a[1].timestamp()?);
    let step = a[2].interval()?;
    let zero = Span::default();
    if step == zero {
        return Err(bad("step size cannot equal zero"));
    }
    let is_forward = step > zero;
    let mut next = Some(Ok(first));
    Ok(Box::new(std::iter::from_fn(move || {
        let value = match next.take()? {
            Ok(value) => value,
            Err(error) => return Some(Err(error)),
        };
        let is_within = if is_forward {
            value <= last
        } else {
            value >= last
        };
        if !is_within {
            return None;
        }
        next = Some(add(value, step));
        Some(Ok(make(value)))
    })))
}

/// The table.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::set("generate_series", &[Int4, Int4, Int4], Int4, |_, a| {
        let limits = (i64::from(i32::MIN), i64::from(i32::MAX));
        integers(a, |value| Datum::Int4(value as i32), limits)
    })
    .defaults(1),
    Function::set("generate_series", &[Int8, Int8, Int8], Int8, |_, a| {
        integers(a, Datum::Int8, (i64::MIN, i64::MAX))
    })
    .defaults(1),
    Function::set(
        "generate_series",
        &[Numeric, Numeric, Numeric],
        Numeric,
        |_, a| numerics(a),
    )
    .defaults(1),
    Function::set(
        "generate_series",
        &[Timestamp, Timestamp, Interval],
        Timestamp,
        |_, a| moments(a, Datum::Timestamp, add),
    ),
    Function::set(
        "generate_series",
        &[Timestamptz, Timestamptz, Interval],
        Timestamptz,
        |context, a| {
            let zone = context.context.settings.zone.clone();
            moments(a, Datum::Timestamptz, move |utc, step| {
                add_zoned(utc, step, &zone)
            })
        },
    )
    .stable(),
];
