//! Functions of dates, times and intervals.
//!
//! Those that read the clock give the transaction's moment or the statement's, so two calls in one
//! transaction agree; only `clock_timestamp` goes on.

use super::super::context::CallContext;
use super::super::datetime::arithmetic::{
    add, add_zoned, age, bin, from_unix_seconds, justify, justify_days, justify_hours, make_date,
    make_time,
};
use super::super::datetime::calendar::{
    DAY, MINUTE, SECOND, checked_date, is_finite, is_finite_date, is_valid, timestamp_of,
    timestamp_out_of_range,
};
use super::super::datetime::convert::{local_to_utc, utc_to_local};
use super::super::datetime::fields::{
    date_part, extract, truncate, truncate_interval, truncate_zoned,
};
use super::super::datetime::parse::numeric_zone;
use super::super::datetime::zone;
use super::super::datum::{Datum, Timetz};
use super::super::interval::{Interval as Span, out_of_range};
use super::super::kind::Kind::{
    self, Bool, Date, Float8, Int4, Interval, Numeric, Text, Time, Timestamp, Timestamptz,
    Timetz as Timetz_,
};
use super::Function;
use crate::error::{Result, SqlError, SqlState};
use jiff::tz::TimeZone;
use std::cmp::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds from 1970-01-01 to 2000-01-01.
const EPOCH_SECONDS: i64 = 946_684_800;

/// Now, in microseconds since 2000-01-01 UTC.
pub fn clock() -> i64 {
    let micros = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
        // Clocks before 1970 are wrong; the epoch is as good as any.
        Err(_) => 0,
    };
    micros - EPOCH_SECONDS * SECOND
}

fn extracted(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    let found = extract(a[0].str()?, &a[1], &context.context)?;
    Ok(found.map_or(Datum::Null, Datum::Numeric))
}

fn part(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    let found = date_part(a[0].str()?, &a[1], &context.context)?;
    Ok(found.map_or(Datum::Null, Datum::Float8))
}

/// A zone of an argument: one of the database, or microseconds east of Greenwich.
enum Zone {
    Named(TimeZone),
    Offset(i64),
    /// An abbreviation whose offset depends on the moment.
    Changing(String),
}

impl Zone {
    /// Microseconds east of Greenwich at a moment.
    fn at(&self, utc: i64) -> i64 {
        match self {
            Self::Named(zone) => i64::from(zone::offset_at(zone, utc)) * SECOND,
            Self::Changing(name) => {
                let zone = zone::lookup_at(name, utc);
                zone.map_or(0, |zone| i64::from(zone::offset_at(&zone, utc)) * SECOND)
            }
            Self::Offset(micros) => *micros,
        }
    }
}

/// The zone that an argument gives by its name or its distance.
fn any_zone(datum: &Datum) -> Result<Zone> {
    match datum {
        Datum::Interval(offset) => {
            if offset.months != 0 || offset.days != 0 {
                let mut shown = String::new();
                super::super::interval::print(
                    &mut shown,
                    *offset,
                    super::super::context::IntervalStyle::Postgres,
                );
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("interval time zone \"{shown}\" must not include months or days"),
                ));
            }
            Ok(Zone::Offset(offset.micros / SECOND * SECOND))
        }
        name if zone::is_changing(name.str()?) => {
            name.str().map(|name| Zone::Changing(name.to_owned()))
        }
        name => zone_of(name).map(Zone::Named),
    }
}

/// The zone of a name.
fn zone_of(name: &Datum) -> Result<TimeZone> {
    zone::find(name.str()?)
}

fn at_zone(a: &[Datum]) -> Result<Datum> {
    match &a[1] {
        Datum::Timestamp(moment) if !is_finite(*moment) => return Ok(Datum::Timestamptz(*moment)),
        Datum::Timestamptz(moment) if !is_finite(*moment) => return Ok(Datum::Timestamp(*moment)),
        _ => {}
    }
    let shifted = |moment: i64, micros: i64| {
        let sum = moment.checked_add(micros).filter(|sum| is_valid(*sum));
        sum.ok_or_else(timestamp_out_of_range)
    };
    match (&a[1], any_zone(&a[0])?) {
        (Datum::Timestamp(local), Zone::Named(zone)) => {
            local_to_utc(*local, &zone).map(Datum::Timestamptz)
        }
        (Datum::Timestamp(local), Zone::Changing(name)) => {
            let zone = zone::lookup_local(&name, *local);
            let zone = zone.ok_or_else(timestamp_out_of_range)?;
            local_to_utc(*local, &zone).map(Datum::Timestamptz)
        }
        (Datum::Timestamp(local), Zone::Offset(micros)) => {
            shifted(*local, -micros).map(Datum::Timestamptz)
        }
        (other, zone) => {
            let utc = other.timestamp()?;
            shifted(utc, zone.at(utc)).map(Datum::Timestamp)
        }
    }
}

fn time_at_zone(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    let offset = any_zone(&a[0])?.at(context.context.transaction_start);
    let time = a[1].timetz()?;
    let utc = time.micros + i64::from(time.zone) * SECOND;
    let out_of_range = || {
        SqlError::new(
            SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE,
            "time zone displacement out of range",
        )
    };
    Ok(Datum::Timetz(Timetz {
        micros: (utc + offset % DAY).rem_euclid(DAY),
        zone: i32::try_from(-offset / SECOND).map_err(|_| out_of_range())?,
    }))
}

/// Midnight of the transaction's day.
fn today(context: &CallContext<'_>) -> i64 {
    let session = &context.context.settings.zone;
    let local = zone::to_local(session, context.context.transaction_start);
    local.div_euclid(DAY) * DAY
}

fn local_now(context: &CallContext<'_>) -> i64 {
    zone::to_local(
        &context.context.settings.zone,
        context.context.transaction_start,
    )
}

/// Whether two spans of time, each given by its ends, have a moment in common.
fn overlaps(ends: [&Datum; 4]) -> Datum {
    let ordered = |start: &Datum, end: &Datum| match (start.is_null(), end.is_null()) {
        (true, true) => None,
        (true, false) => Some((end.clone(), Datum::Null)),
        (false, false) if start > end => Some((end.clone(), start.clone())),
        _ => Some((start.clone(), end.clone())),
    };
    let Some((first, second)) = ordered(ends[0], ends[1]).zip(ordered(ends[2], ends[3])) else {
        return Datum::Null;
    };
    let (early, late) = match first.0.compare(&second.0) {
        Ordering::Equal => {
            let is_known = !first.1.is_null() && !second.1.is_null();
            return if is_known {
                Datum::Bool(true)
            } else {
                Datum::Null
            };
        }
        Ordering::Less => (first, second),
        Ordering::Greater => (second, first),
    };
    if early.1.is_null() {
        return Datum::Null;
    }
    if late.0 >= early.1 && late.1.is_null() {
        return Datum::Null;
    }
    Datum::Bool(late.0 < early.1)
}

/// The end of a span that is given by its length.
fn end_of(context: &CallContext<'_>, start: &Datum, end: &Datum) -> Result<Datum> {
    let Datum::Interval(span) = end else {
        return Ok(end.clone());
    };
    Ok(match start {
        Datum::Timestamp(local) => Datum::Timestamp(add(*local, *span)?),
        Datum::Timestamptz(utc) => {
            Datum::Timestamptz(add_zoned(*utc, *span, &context.context.settings.zone)?)
        }
        Datum::Time(micros) => Datum::Time((micros + span.micros % DAY).rem_euclid(DAY)),
        _ => Datum::Null,
    })
}

fn overlapping(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    let first = end_of(context, &a[0], &a[1])?;
    let second = end_of(context, &a[2], &a[3])?;
    Ok(overlaps([&a[0], &first, &a[2], &second]))
}

fn make_interval(a: &[Datum]) -> Result<Datum> {
    let field = |place: usize| a.get(place).map_or(Ok(0), Datum::int);
    let months = field(0)? * 12 + field(1)?;
    let days = field(2)? * 7 + field(3)?;
    let seconds = a.get(6).map_or(Ok(0.0), Datum::float8)?;
    let rest = (seconds * 1e6).round_ties_even();
    if !seconds.is_finite() || rest.abs() >= 9.2e18 {
        return Err(out_of_range());
    }
    let micros = (field(4)? * 60 + field(5)?) * MINUTE;
    let micros = micros.checked_add(rest as i64).ok_or_else(out_of_range)?;
    let parts = i32::try_from(months).ok().zip(i32::try_from(days).ok());
    let (months, days) = parts.ok_or_else(out_of_range)?;
    Ok(Datum::Interval(Span::new(months, days, micros)))
}

fn make_timestamp(a: &[Datum]) -> Result<i64> {
    let days = make_date(a[0].int4()?, a[1].int4()?, a[2].int4()?)?;
    let time = make_time(a[3].int4()?, a[4].int4()?, a[5].float8()?)?;
    timestamp_of(days, time).ok_or_else(timestamp_out_of_range)
}

fn make_timestamptz(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    let local = make_timestamp(a)?;
    let zone = match a.get(6) {
        Some(name) => match (numeric_zone(name.str()?)?, name.str()?) {
            (Some(seconds), _) => zone::fixed(seconds).ok_or_else(timestamp_out_of_range)?,
            (None, text) if text.starts_with(|c: char| c.is_ascii_digit()) => {
                let message =
                    format!("invalid input syntax for type numeric time zone: \"{text}\"");
                let hint = "Numeric time zones must have \"-\" or \"+\" as first character.";
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).hint(hint));
            }
            (None, text) if zone::is_changing(text) => {
                zone::lookup_local(text, local).ok_or_else(timestamp_out_of_range)?
            }
            (None, _) => zone_of(name)?,
        },
        None => context.context.settings.zone.clone(),
    };
    local_to_utc(local, &zone).map(Datum::Timestamptz)
}

fn time_of_day(context: &CallContext<'_>) -> Result<Datum> {
    let settings = super::super::context::Settings {
        date_style: super::super::context::DateStyle::Postgres,
        ..context.context.settings.clone()
    };
    let own = super::super::Context {
        settings: &settings,
        ..context.context
    };
    let now = Datum::Timestamptz(clock());
    super::super::text_io::print(&now, Timestamptz, &own).map(Datum::text)
}

/// `extract`, `date_part` of one kind.
macro_rules! fields {
    ($($kind:ident $volatility:ident),*) => {
        &[$(
            Function::scalar("extract", &[Text, $kind], Numeric, |context, a| extracted(context, a))
                .$volatility(),
            Function::scalar("date_part", &[Text, $kind], Float8, |context, a| part(context, a))
                .$volatility(),
        )*]
    };
}

/// Fields of all kinds; those of a moment depend on the zone of the session.
pub(super) const FIELDS: &[Function] = fields![
    Date immutable, Time immutable, Timetz_ immutable, Timestamp immutable, Timestamptz stable,
    Interval immutable
];

macro_rules! spans {
    ($($start:ident $first:ident $second:ident),*) => {
        &[$(
            Function::scalar("overlaps", &[$start, $first, $start, $second], Bool, |context, a| {
                overlapping(context, a)
            })
            .nullable()
            .stable(),
        )*]
    };
}

/// `OVERLAPS` of ends and of lengths.
pub(super) const OVERLAPS: &[Function] = spans![
    Timestamp Timestamp Timestamp, Timestamp Timestamp Interval, Timestamp Interval Timestamp,
    Timestamp Interval Interval, Timestamptz Timestamptz Timestamptz,
    Timestamptz Timestamptz Interval, Timestamptz Interval Timestamptz,
    Timestamptz Interval Interval, Time Time Time, Time Time Interval, Time Interval Time,
    Time Interval Interval, Timetz_ Timetz_ Timetz_
];

/// The clock; the names without parentheses are functions here too.
pub(super) const CLOCK: &[Function] = &[
    now("now"),
    now("transaction_timestamp"),
    now("current_timestamp"),
    Function::scalar("statement_timestamp", &[], Timestamptz, |context, _| {
        Ok(Datum::Timestamptz(context.context.statement_start))
    })
    .stable(),
    Function::scalar("clock_timestamp", &[], Timestamptz, |_, _| {
        Ok(Datum::Timestamptz(clock()))
    })
    .volatile(),
    Function::scalar("timeofday", &[], Text, |context, _| time_of_day(context)).volatile(),
    Function::scalar("current_date", &[], Date, |context, _| {
        Ok(Datum::Date((today(context) / DAY) as i32))
    })
    .stable(),
    Function::scalar("localtimestamp", &[], Timestamp, |context, _| {
        Ok(Datum::Timestamp(local_now(context)))
    })
    .stable(),
    Function::scalar("localtime", &[], Time, |context, _| {
        Ok(Datum::Time(local_now(context).rem_euclid(DAY)))
    })
    .stable(),
    Function::scalar("current_time", &[], Timetz_, |context, _| {
        let session = &context.context.settings.zone;
        Ok(Datum::Timetz(Timetz {
            micros: local_now(context).rem_euclid(DAY),
            zone: -zone::offset_at(session, context.context.transaction_start),
        }))
    })
    .stable(),
];

const fn now(name: &'static str) -> Function {
    Function::scalar(name, &[], Timestamptz, |context, _| {
        Ok(Datum::Timestamptz(context.context.transaction_start))
    })
    .stable()
}

const fn zoned(arguments: &'static [Kind], result: Kind) -> Function {
    Function::scalar("timezone", arguments, result, |_, a| at_zone(a))
}

/// The others.
pub(super) const FUNCTIONS: &[Function] = &[
    zoned(&[Text, Timestamp], Timestamptz),
    zoned(&[Text, Timestamptz], Timestamp),
    zoned(&[Interval, Timestamp], Timestamptz),
    zoned(&[Interval, Timestamptz], Timestamp),
    Function::scalar("timezone", &[Text, Timetz_], Timetz_, |context, a| {
        time_at_zone(context, a)
    })
    .stable(),
    Function::scalar("timezone", &[Interval, Timetz_], Timetz_, |context, a| {
        time_at_zone(context, a)
    })
    .stable(),
    Function::scalar("date_trunc", &[Text, Timestamp], Timestamp, |_, a| {
        truncate(a[0].str()?, a[1].timestamp()?, Timestamp).map(Datum::Timestamp)
    }),
    Function::scalar(
        "date_trunc",
        &[Text, Timestamptz],
        Timestamptz,
        |context, a| {
            let zone = &context.context.settings.zone;
            truncate_zoned(a[0].str()?, a[1].timestamp()?, zone).map(Datum::Timestamptz)
        },
    )
    .stable(),
    Function::scalar(
        "date_trunc",
        &[Text, Timestamptz, Text],
        Timestamptz,
        |_, a| {
            if !is_finite(a[1].timestamp()?) {
                return Ok(a[1].clone());
            }
            let zone = zone_of(&a[2])?;
            truncate_zoned(a[0].str()?, a[1].timestamp()?, &zone).map(Datum::Timestamptz)
        },
    )
    .stable(),
    Function::scalar("date_trunc", &[Text, Interval], Interval, |_, a| {
        truncate_interval(a[0].str()?, a[1].interval()?).map(Datum::Interval)
    }),
    Function::scalar(
        "date_bin",
        &[Interval, Timestamp, Timestamp],
        Timestamp,
        |_, a| bin(a[0].interval()?, a[1].timestamp()?, a[2].timestamp()?).map(Datum::Timestamp),
    ),
    Function::scalar(
        "date_bin",
        &[Interval, Timestamptz, Timestamptz],
        Timestamptz,
        |_, a| bin(a[0].interval()?, a[1].timestamp()?, a[2].timestamp()?).map(Datum::Timestamptz),
    ),
    Function::scalar("age", &[Timestamp, Timestamp], Interval, |_, a| {
        age(a[0].timestamp()?, a[1].timestamp()?).map(Datum::Interval)
    }),
    Function::scalar(
        "age",
        &[Timestamptz, Timestamptz],
        Interval,
        |context, a| {
            let zone = &context.context.settings.zone;
            let local = |datum: &Datum| utc_to_local(datum.timestamp()?, zone);
            age(local(&a[0])?, local(&a[1])?).map(Datum::Interval)
        },
    )
    .stable(),
    Function::scalar("age", &[Timestamp], Interval, |context, a| {
        age(today(context), a[0].timestamp()?).map(Datum::Interval)
    })
    .stable(),
    Function::scalar("age", &[Timestamptz], Interval, |context, a| {
        let local = utc_to_local(a[0].timestamp()?, &context.context.settings.zone)?;
        age(today(context), local).map(Datum::Interval)
    })
    .stable(),
    Function::scalar("isfinite", &[Date], Bool, |_, a| {
        Ok(Datum::Bool(is_finite_date(a[0].date()?)))
    }),
    Function::scalar("isfinite", &[Timestamp], Bool, |_, a| {
        Ok(Datum::Bool(is_finite(a[0].timestamp()?)))
    }),
    Function::scalar("isfinite", &[Timestamptz], Bool, |_, a| {
        Ok(Datum::Bool(is_finite(a[0].timestamp()?)))
    }),
    Function::scalar("isfinite", &[Interval], Bool, |_, _| Ok(Datum::Bool(true))),
    Function::scalar("justify_hours", &[Interval], Interval, |_, a| {
        justify_hours(a[0].interval()?).map(Datum::Interval)
    }),
    Function::scalar("justify_days", &[Interval], Interval, |_, a| {
        justify_days(a[0].interval()?).map(Datum::Interval)
    }),
    Function::scalar("justify_interval", &[Interval], Interval, |_, a| {
        justify(a[0].interval()?).map(Datum::Interval)
    }),
    Function::scalar("make_date", &[Int4, Int4, Int4], Date, |_, a| {
        let days = make_date(a[0].int4()?, a[1].int4()?, a[2].int4()?)?;
        checked_date(days).map(Datum::Date)
    }),
    Function::scalar("make_time", &[Int4, Int4, Float8], Time, |_, a| {
        make_time(a[0].int4()?, a[1].int4()?, a[2].float8()?).map(Datum::Time)
    }),
    Function::scalar(
        "make_timestamp",
        &[Int4, Int4, Int4, Int4, Int4, Float8],
        Timestamp,
        |_, a| make_timestamp(a).map(Datum::Timestamp),
    ),
    Function::scalar(
        "make_timestamptz",
        &[Int4, Int4, Int4, Int4, Int4, Float8, Text],
        Timestamptz,
        |context, a| make_timestamptz(context, a),
    )
    .stable()
    .defaults(1),
    Function::scalar(
        "make_interval",
        &[Int4, Int4, Int4, Int4, Int4, Int4, Float8],
        Interval,
        |_, a| make_interval(a),
    )
    .defaults(7),
    Function::scalar("to_timestamp", &[Float8], Timestamptz, |_, a| {
        from_unix_seconds(a[0].float8()?).map(Datum::Timestamptz)
    }),
];
