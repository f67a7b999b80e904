//! Conversions between the types of dates and times, and their limits of precision.
//!
//! Infinite values stay infinite where the target has them; a moment outside of the target's range
//! is an error, never another moment.

use super::super::context::Context;
use super::super::datum::{Datum, Timetz};
use super::super::interval::{DAY_MICROS, Interval};
use super::super::kind::{Kind, Type};
use super::calendar::{
    DATE_INFINITY, DATE_NEGATIVE_INFINITY, DAY, INFINITY, NEGATIVE_INFINITY, SECOND, is_finite,
    is_valid, timestamp_out_of_range,
};
use super::zone;
use crate::error::Result;

/// The value as another kind of date or time, where both are one.
pub fn moments(datum: &Datum, to: Kind, context: &Context<'_>) -> Result<Option<Datum>> {
    let session = &context.settings.zone;
    Ok(Some(match (datum, to) {
        (Datum::Date(days), Kind::Timestamp) => Datum::Timestamp(date_to_timestamp(*days)?),
        (Datum::Date(days), Kind::Timestamptz) => {
            Datum::Timestamptz(local_to_utc(date_to_timestamp(*days)?, session)?)
        }
        (Datum::Timestamp(local), Kind::Timestamptz) => {
            Datum::Timestamptz(local_to_utc(*local, session)?)
        }
        (Datum::Timestamptz(utc), Kind::Timestamp) => {
            Datum::Timestamp(utc_to_local(*utc, session)?)
        }
        (Datum::Timestamp(local), Kind::Date) => Datum::Date(timestamp_to_date(*local)),
        (Datum::Timestamptz(utc), Kind::Date) => {
            Datum::Date(timestamp_to_date(utc_to_local(*utc, session)?))
        }
        (Datum::Timestamp(local), Kind::Time) => {
            if is_finite(*local) {
                Datum::Time(local.rem_euclid(DAY))
            } else {
                Datum::Null
            }
        }
        (Datum::Timestamptz(utc), Kind::Time) => {
            if is_finite(*utc) {
                Datum::Time(utc_to_local(*utc, session)?.rem_euclid(DAY))
            } else {
                Datum::Null
            }
        }
        (Datum::Timestamptz(utc), Kind::Timetz) => {
            if is_finite(*utc) {
                Datum::Timetz(Timetz {
                    micros: utc_to_local(*utc, session)?.rem_euclid(DAY),
                    zone: -zone::offset_at(session, *utc),
                })
            } else {
                Datum::Null
            }
        }
        (Datum::Time(micros), Kind::Interval) => Datum::Interval(Interval::new(0, 0, *micros)),
        (Datum::Interval(interval), Kind::Time) => {
            Datum::Time(interval.micros.rem_euclid(DAY_MICROS))
        }
        (Datum::Timetz(time), Kind::Time) => Datum::Time(time.micros),
        (Datum::Time(micros), Kind::Timetz) => Datum::Timetz(Timetz {
            micros: *micros,
            zone: -today_offset(*micros, context),
        }),
        _ => return Ok(None),
    }))
}

/// Seconds east of Greenwich at a time of the transaction's day.
pub fn today_offset(micros: i64, context: &Context<'_>) -> i32 {
    let session = &context.settings.zone;
    let today = zone::to_local(session, context.transaction_start).div_euclid(DAY);
    zone::offset_of_local(session, today * DAY + micros)
}

/// Midnight of a date.
pub fn date_to_timestamp(days: i32) -> Result<i64> {
    match days {
        DATE_INFINITY => Ok(INFINITY),
        DATE_NEGATIVE_INFINITY => Ok(NEGATIVE_INFINITY),
        _ => {
            let timestamp = i64::from(days).checked_mul(DAY);
            timestamp
                .filter(|timestamp| is_valid(*timestamp))
                .ok_or_else(|| {
                    crate::error::SqlError::new(
                        crate::error::SqlState::DATETIME_FIELD_OVERFLOW,
                        "date out of range for timestamp",
                    )
                })
        }
    }
}

/// The day of a moment.
pub fn timestamp_to_date(timestamp: i64) -> i32 {
    match timestamp {
        INFINITY => DATE_INFINITY,
        NEGATIVE_INFINITY => DATE_NEGATIVE_INFINITY,
        _ => timestamp.div_euclid(DAY) as i32,
    }
}

/// The moment of a local time.
pub fn local_to_utc(local: i64, zone: &jiff::tz::TimeZone) -> Result<i64> {
    if !is_finite(local) {
        return Ok(local);
    }
    let utc = zone::to_utc(zone, local);
    if is_valid(utc) {
        Ok(utc)
    } else {
        Err(timestamp_out_of_range())
    }
}

/// The local time of a moment.
pub fn utc_to_local(utc: i64, zone: &jiff::tz::TimeZone) -> Result<i64> {
    if !is_finite(utc) {
        return Ok(utc);
    }
    let local = zone::to_local(zone, utc);
    if is_valid(local) {
        Ok(local)
    } else {
        Err(timestamp_out_of_range())
    }
}

/// The value with as many digits after the seconds, and the fields, that its type has.
pub fn fit_time(datum: Datum, to: Type) -> Result<Datum> {
    let digits = to.digits().unwrap_or(6);
    Ok(match datum {
        Datum::Time(micros) => Datum::Time(rounded(micros, digits)),
        Datum::Timetz(time) => Datum::Timetz(Timetz {
            micros: rounded(time.micros, digits),
            ..time
        }),
        Datum::Timestamp(micros) => Datum::Timestamp(rounded_moment(micros, digits)?),
        Datum::Timestamptz(micros) => Datum::Timestamptz(rounded_moment(micros, digits)?),
        Datum::Interval(interval) => Datum::Interval(fit_interval(interval, to)),
        other => other,
    })
}

fn rounded_moment(micros: i64, digits: u8) -> Result<i64> {
    if !is_finite(micros) {
        return Ok(micros);
    }
    let rounded = rounded(micros, digits);
    if is_valid(rounded) {
        Ok(rounded)
    } else {
        Err(timestamp_out_of_range())
    }
}

/// Halves go away from zero.
pub fn rounded(micros: i64, digits: u8) -> i64 {
    if digits >= 6 {
        return micros;
    }
    let unit = 10_i64.pow(u32::from(6 - digits));
    let rest = micros % unit;
    let kept = micros - rest;
    if rest.abs() * 2 >= unit {
        kept + unit * rest.signum()
    } else {
        kept
    }
}

/// Fields below the mask of the type are cut off.
fn fit_interval(interval: Interval, to: Type) -> Interval {
    const YEAR: i32 = 1 << 2;
    const MONTH: i32 = 1 << 1;
    const DAY_BIT: i32 = 1 << 3;
    const HOUR_BIT: i32 = 1 << 10;
    const MINUTE_BIT: i32 = 1 << 11;
    let mut result = interval;
    if let Some(fields) = to.interval_fields() {
        // The least field decides: the ones above it stay.
        if fields & (MONTH | DAY_BIT | HOUR_BIT | MINUTE_BIT | (1 << 12)) == 0 {
            debug_assert_eq!(fields, YEAR);
            return Interval::new(interval.months / 12 * 12, 0, 0);
        }
        if fields < DAY_BIT {
            return Interval::new(interval.months, 0, 0);
        }
        if fields < HOUR_BIT {
            return Interval::new(interval.months, interval.days, 0);
        }
        if fields < MINUTE_BIT {
            result.micros -= result.micros % (3600 * SECOND);
        } else if fields < 1 << 12 {
            result.micros -= result.micros % (60 * SECOND);
        }
    }
    if let Some(digits) = to.digits() {
        result.micros = rounded(result.micros, digits);
    }
    result
}
