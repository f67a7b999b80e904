//! Operators of dates, times and intervals.
//!
//! Months are added before days, and days before the time of day, in the session's zone where the
//! moment has one. A result outside of the type's range is an error.

use super::super::context::CallContext;
use super::super::datetime::arithmetic::{add, add_zoned, difference, divide, multiply};
use super::super::datetime::calendar::{
    DATE_INFINITY, DATE_NEGATIVE_INFINITY, DAY, SECOND, checked_date, is_finite_date, is_valid,
    timestamp_of, timestamp_out_of_range,
};
use super::super::datetime::convert::date_to_timestamp;
use super::super::datum::{Datum, Timetz};
use super::super::function::Function;
use super::super::interval::Interval as Span;
use super::super::kind::Kind::{
    Date, Float8, Int4, Interval, Time, Timestamp, Timestamptz, Timetz as Timetz_,
};
use crate::error::{Result, SqlError, SqlState};

fn date_add(days: i32, more: i64) -> Result<Datum> {
    if !is_finite_date(days) {
        return Ok(Datum::Date(days));
    }
    checked_date(i64::from(days) + more).map(Datum::Date)
}

fn date_interval(days: i32, span: Span) -> Result<Datum> {
    add(date_to_timestamp(days)?, span).map(Datum::Timestamp)
}

fn time_interval(micros: i64, span: Span) -> Datum {
    Datum::Time((micros + span.micros % DAY).rem_euclid(DAY))
}

fn timetz_interval(time: Timetz, span: Span) -> Datum {
    Datum::Timetz(Timetz {
        micros: (time.micros + span.micros % DAY).rem_euclid(DAY),
        ..time
    })
}

fn date_time(days: i32, micros: i64) -> Result<Datum> {
    let midnight = date_to_timestamp(days)?;
    if !is_finite_date(days) {
        return Ok(Datum::Timestamp(midnight));
    }
    timestamp_of(i64::from(days), micros)
        .map(Datum::Timestamp)
        .ok_or_else(timestamp_out_of_range)
}

fn date_timetz(days: i32, time: Timetz) -> Result<Datum> {
    let midnight = date_to_timestamp(days)?;
    if !is_finite_date(days) {
        return Ok(Datum::Timestamptz(midnight));
    }
    let utc = midnight + time.micros + i64::from(time.zone) * SECOND;
    if is_valid(utc) {
        Ok(Datum::Timestamptz(utc))
    } else {
        Err(timestamp_out_of_range())
    }
}

fn zoned(context: &CallContext<'_>, utc: i64, span: Span) -> Result<Datum> {
    add_zoned(utc, span, &context.context.settings.zone).map(Datum::Timestamptz)
}

fn date_difference(later: i32, earlier: i32) -> Result<Datum> {
    let is_infinite = |days: i32| matches!(days, DATE_INFINITY | DATE_NEGATIVE_INFINITY);
    if is_infinite(later) || is_infinite(earlier) {
        return Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            "cannot subtract infinite dates",
        ));
    }
    Ok(Datum::Int4(later - earlier))
}

fn span(datum: &Datum) -> Result<Span> {
    datum.interval()
}

fn minus(datum: &Datum) -> Result<Span> {
    datum.interval()?.negated()
}

/// The table.
pub(super) const OPERATORS: &[Function] = &[
    Function::scalar("+", &[Date, Int4], Date, |_, a| {
        date_add(a[0].date()?, a[1].int()?)
    }),
    Function::scalar("+", &[Int4, Date], Date, |_, a| {
        date_add(a[1].date()?, a[0].int()?)
    }),
    Function::scalar("-", &[Date, Int4], Date, |_, a| {
        date_add(a[0].date()?, -a[1].int()?)
    }),
    Function::scalar("-", &[Date, Date], Int4, |_, a| {
        date_difference(a[0].date()?, a[1].date()?)
    }),
    Function::scalar("+", &[Date, Time], Timestamp, |_, a| {
        date_time(a[0].date()?, a[1].time()?)
    }),
    Function::scalar("+", &[Time, Date], Timestamp, |_, a| {
        date_time(a[1].date()?, a[0].time()?)
    }),
    Function::scalar("+", &[Date, Timetz_], Timestamptz, |_, a| {
        date_timetz(a[0].date()?, a[1].timetz()?)
    }),
    Function::scalar("+", &[Timetz_, Date], Timestamptz, |_, a| {
        date_timetz(a[1].date()?, a[0].timetz()?)
    }),
    Function::scalar("+", &[Date, Interval], Timestamp, |_, a| {
        date_interval(a[0].date()?, span(&a[1])?)
    }),
    Function::scalar("+", &[Interval, Date], Timestamp, |_, a| {
        date_interval(a[1].date()?, span(&a[0])?)
    }),
    Function::scalar("-", &[Date, Interval], Timestamp, |_, a| {
        date_interval(a[0].date()?, minus(&a[1])?)
    }),
    Function::scalar("+", &[Time, Interval], Time, |_, a| {
        Ok(time_interval(a[0].time()?, span(&a[1])?))
    }),
    Function::scalar("+", &[Interval, Time], Time, |_, a| {
        Ok(time_interval(a[1].time()?, span(&a[0])?))
    }),
    Function::scalar("-", &[Time, Interval], Time, |_, a| {
        Ok(time_interval(a[0].time()?, minus(&a[1])?))
    }),
    Function::scalar("-", &[Time, Time], Interval, |_, a| {
        Ok(Datum::Interval(Span::new(
            0,
            0,
            a[0].time()? - a[1].time()?,
        )))
    }),
    Function::scalar("+", &[Timetz_, Interval], Timetz_, |_, a| {
        Ok(timetz_interval(a[0].timetz()?, span(&a[1])?))
    }),
    Function::scalar("+", &[Interval, Timetz_], Timetz_, |_, a| {
        Ok(timetz_interval(a[1].timetz()?, span(&a[0])?))
    }),
    Function::scalar("-", &[Timetz_, Interval], Timetz_, |_, a| {
        Ok(timetz_interval(a[0].timetz()?, minus(&a[1])?))
    }),
    Function::scalar("+", &[Timestamp, Interval], Timestamp, |_, a| {
        add(a[0].timestamp()?, span(&a[1])?).map(Datum::Timestamp)
    }),
    Function::scalar("+", &[Interval, Timestamp], Timestamp, |_, a| {
        add(a[1].timestamp()?, span(&a[0])?).map(Datum::Timestamp)
    }),
    Function::scalar("-", &[Timestamp, Interval], Timestamp, |_, a| {
        add(a[0].timestamp()?, minus(&a[1])?).map(Datum::Timestamp)
    }),
    Function::scalar("+", &[Timestamptz, Interval], Timestamptz, |context, a| {
        zoned(context, a[0].timestamp()?, span(&a[1])?)
    })
    .stable(),
    Function::scalar("+", &[Interval, Timestamptz], Timestamptz, |context, a| {
        zoned(context, a[1].timestamp()?, span(&a[0])?)
    })
    .stable(),
    Function::scalar("-", &[Timestamptz, Interval], Timestamptz, |context, a| {
        zoned(context, a[0].timestamp()?, minus(&a[1])?)
    })
    .stable(),
    Function::scalar("-", &[Timestamp, Timestamp], Interval, |_, a| {
        difference(a[0].timestamp()?, a[1].timestamp()?).map(Datum::Interval)
    }),
    Function::scalar("-", &[Timestamptz, Timestamptz], Interval, |_, a| {
        difference(a[0].timestamp()?, a[1].timestamp()?).map(Datum::Interval)
    }),
    Function::scalar("+", &[Interval, Interval], Interval, |_, a| {
        span(&a[0])?.plus(span(&a[1])?).map(Datum::Interval)
    }),
    Function::scalar("-", &[Interval, Interval], Interval, |_, a| {
        span(&a[0])?.minus(span(&a[1])?).map(Datum::Interval)
    }),
    Function::scalar("-", &[Interval], Interval, |_, a| {
        minus(&a[0]).map(Datum::Interval)
    }),
    Function::scalar("*", &[Interval, Float8], Interval, |_, a| {
        multiply(span(&a[0])?, a[1].float8()?).map(Datum::Interval)
    }),
    Function::scalar("*", &[Float8, Interval], Interval, |_, a| {
        multiply(span(&a[1])?, a[0].float8()?).map(Datum::Interval)
    }),
    Function::scalar("/", &[Interval, Float8], Interval, |_, a| {
        divide(span(&a[0])?, a[1].float8()?).map(Datum::Interval)
    }),
];
