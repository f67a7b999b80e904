//! Distances between values, for the frames of windows that are counted in them (`RANGE`).
//!
//! A value is compared with the one that lies an offset before or after another. That one may be
//! outside of its type: it is then beyond all values, never a value that has wrapped around.

use super::datetime::arithmetic::{add, add_zoned};
use super::datetime::convert::date_to_timestamp;
use super::datum::{Datum, compare_floats};
use super::interval::Interval;
use super::kind::Kind;
use super::numeric::Numeric;
use crate::error::{Result, SqlError, SqlState};
use jiff::tz::TimeZone;
use std::cmp::Ordering;

/// The kinds of offsets that a key may have; none if it has no distances.
pub fn offset_kinds(key: Kind) -> &'static [Kind] {
    match key {
        Kind::Int2 | Kind::Int4 => &[Kind::Int8, Kind::Int4, Kind::Int2],
        Kind::Int8 => &[Kind::Int8],
        Kind::Float4 | Kind::Float8 => &[Kind::Float8],
        Kind::Numeric => &[Kind::Numeric],
        Kind::Date | Kind::Timestamp | Kind::Timestamptz => &[Kind::Interval],
        Kind::Time | Kind::Timetz | Kind::Interval => &[Kind::Interval],
        _ => &[],
    }
}

/// The order of a value and the one that lies an offset before or after a base. Where no place
/// can be told, as an infinity after the infinity before all, it is the value's.
pub fn compare_at(
    value: &Datum,
    (base, offset): (&Datum, &Datum),
    is_before: bool,
    zone: &TimeZone,
) -> Result<Ordering> {
    Ok(match (value, base) {
        (Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_), _) => {
            let (base, offset) = (i128::from(base.int()?), i128::from(offset.int()?));
            let end = base + signed(offset, is_before)?;
            i128::from(value.int()?).cmp(&end)
        }
        (Datum::Float4(value), Datum::Float4(base)) => {
            let pair = (f64::from(*value), f64::from(*base));
            floats(pair, offset.float8()?, is_before)?
        }
        (Datum::Float8(value), Datum::Float8(base)) => {
            floats((*value, *base), offset.float8()?, is_before)?
        }
        (Datum::Numeric(value), Datum::Numeric(base)) => {
            numerics((value, base), offset.numeric()?, is_before)?
        }
        (Datum::Date(value), Datum::Date(base)) => {
            let end = add(date_to_timestamp(*base)?, span(offset, is_before)?)?;
            date_to_timestamp(*value)?.cmp(&end)
        }
        (Datum::Timestamp(value), Datum::Timestamp(base)) => {
            value.cmp(&add(*base, span(offset, is_before)?)?)
        }
        (Datum::Timestamptz(value), Datum::Timestamptz(base)) => {
            value.cmp(&add_zoned(*base, span(offset, is_before)?, zone)?)
        }
        (Datum::Interval(value), Datum::Interval(base)) => {
            value.cmp(&base.plus(span(offset, is_before)?)?)
        }
        (Datum::Time(value), Datum::Time(base)) => {
            let end = i128::from(*base) + time(offset, is_before)?;
            i128::from(*value).cmp(&end)
        }
        (Datum::Timetz(value), Datum::Timetz(base)) => {
            let utc =
                |time: &super::Timetz| i128::from(time.micros) + i128::from(time.zone) * 1_000_000;
            let end = utc(base) + time(offset, is_before)?;
            (utc(value), value.zone).cmp(&(end, base.zone))
        }
        _ => return Err(SqlError::internal("a key has no distances")),
    })
}

fn negative() -> SqlError {
    SqlError::new(
        SqlState::INVALID_PRECEDING_OR_FOLLOWING_SIZE,
        "invalid preceding or following size in window function",
    )
}

fn signed(offset: i128, is_before: bool) -> Result<i128> {
    match offset {
        ..0 => Err(negative()),
        _ if is_before => Ok(-offset),
        _ => Ok(offset),
    }
}

/// Days and months of an offset do not count for times of the day.
fn time(offset: &Datum, is_before: bool) -> Result<i128> {
    signed(i128::from(offset.interval()?.micros), is_before)
}

fn span(offset: &Datum, is_before: bool) -> Result<Interval> {
    let span = offset.interval()?;
    match span.span() {
        ..0 => Err(negative()),
        _ if is_before => span.negated(),
        _ => Ok(span),
    }
}

fn floats((value, base): (f64, f64), offset: f64, is_before: bool) -> Result<Ordering> {
    if offset.is_nan() || offset < 0.0 {
        return Err(negative());
    }
    let end = if is_before {
        base - offset
    } else {
        base + offset
    };
    if end.is_nan() && !base.is_nan() {
        return Ok(value.is_nan().cmp(&false));
    }
    Ok(compare_floats(value, end))
}

fn numerics(
    (value, base): (&Numeric, &Numeric),
    offset: &Numeric,
    is_before: bool,
) -> Result<Ordering> {
    if offset.is_nan() || offset.signum() < 0 {
        return Err(negative());
    }
    let end = if is_before {
        base.subtract(offset)?
    } else {
        base.add(offset)?
    };
    if end.is_nan() && !base.is_nan() {
        return Ok(value.is_nan().cmp(&false));
    }
    Ok(value.cmp(&end))
}
