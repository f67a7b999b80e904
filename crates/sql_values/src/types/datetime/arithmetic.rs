//! Sums, differences and ages.
//!
//! An interval is added part by part: months to the calendar (a day that the month lacks becomes
//! its last one), then days, then microseconds. With a zone, months and days go by its clocks.

use super::super::interval::{self, DAY_MICROS, Interval, MONTH_DAYS};
use super::calendar::{
    DAY, HOUR, MINUTE, days_of, fields_of, is_finite, is_valid, month_days, timestamp_out_of_range,
};
use super::zone;
use crate::error::{Result, SqlError, SqlState};
use jiff::tz::TimeZone;

/// A local time and an interval later.
pub fn add(timestamp: i64, interval: Interval) -> Result<i64> {
    if !is_finite(timestamp) {
        return Ok(timestamp);
    }
    let moved = add_days(timestamp, interval)?;
    let sum = moved
        .checked_add(interval.micros)
        .filter(|sum| is_valid(*sum));
    sum.ok_or_else(timestamp_out_of_range)
}

/// A moment and an interval later, by the clocks of a zone.
pub fn add_zoned(utc: i64, interval: Interval, zone: &TimeZone) -> Result<i64> {
    if !is_finite(utc) {
        return Ok(utc);
    }
    let moved = if interval.months == 0 && interval.days == 0 {
        utc
    } else {
        zone::to_utc(zone, add_days(zone::to_local(zone, utc), interval)?)
    };
    let sum = moved
        .checked_add(interval.micros)
        .filter(|sum| is_valid(*sum));
    sum.ok_or_else(timestamp_out_of_range)
}

/// Moves by months, then by days.
fn add_days(timestamp: i64, interval: Interval) -> Result<i64> {
    let mut days = timestamp.div_euclid(DAY);
    let time = timestamp.rem_euclid(DAY);
    if interval.months != 0 {
        let (year, month, day) = super::calendar::date_of(days);
        let months = year * 12 + month - 1 + i64::from(interval.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        days = days_of(year, month, day.min(month_days(year, month)));
    }
    days += i64::from(interval.days);
    let moved = days
        .checked_mul(DAY)
        .and_then(|micros| micros.checked_add(time));
    moved
        .filter(|moved| is_valid(*moved))
        .ok_or_else(timestamp_out_of_range)
}

/// The days and microseconds between two moments.
pub fn difference(later: i64, earlier: i64) -> Result<Interval> {
    if !is_finite(later) || !is_finite(earlier) {
        return Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            "cannot subtract infinite timestamps",
        ));
    }
    let micros = later
        .checked_sub(earlier)
        .ok_or_else(interval::out_of_range)?;
    Ok(Interval::new(0, (micros / DAY) as i32, micros % DAY))
}

/// The years, months, days and times between two local times.
pub fn age(later: i64, earlier: i64) -> Result<Interval> {
    if !is_finite(later) || !is_finite(earlier) {
        return Err(timestamp_out_of_range());
    }
    let is_negative = later < earlier;
    let (high, low) = if is_negative {
        (fields_of(earlier), fields_of(later))
    } else {
        (fields_of(later), fields_of(earlier))
    };
    let mut time = high.time() - low.time();
    let mut days = high.day - low.day;
    let mut months = (high.year - low.year) * 12 + high.month - low.month;
    if time < 0 {
        time += DAY;
        days -= 1;
    }
    // Days are borrowed from the month of the earlier time.
    while days < 0 {
        days += month_days(low.year, low.month);
        months -= 1;
    }
    let age = Interval::new(months as i32, days as i32, time);
    if is_negative { age.negated() } else { Ok(age) }
}

/// Rounds to microseconds, so that fractions of months and days become whole where they were.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round_ties_even() / 1e6
}

/// The number, if a part of an interval can hold it.
fn fits(value: f64, limit: f64) -> Result<f64> {
    if value.is_nan() || value.abs() >= limit {
        return Err(interval::out_of_range());
    }
    Ok(value)
}

/// The interval times a number; fractions of months and days go to the smaller parts.
pub fn multiply(span: Interval, factor: f64) -> Result<Interval> {
    let exact_months = f64::from(span.months) * factor;
    let months = fits(exact_months, 2_147_483_648.0)?.trunc();
    let exact_days = f64::from(span.days) * factor;
    let mut days = fits(exact_days, 2_147_483_648.0)?.trunc();
    let rest_days = rounded((exact_months - months) * MONTH_DAYS as f64);
    let mut seconds = rounded((exact_days - days + rest_days.fract()) * 86_400.0);
    if seconds.abs() >= 86_400.0 {
        let whole = (seconds / 86_400.0).trunc();
        days += whole;
        seconds -= whole * 86_400.0;
    }
    days += rest_days.trunc();
    let micros = (span.micros as f64 * factor + seconds * 1e6).round_ties_even();
    let micros = fits(micros, 9_223_372_036_854_775_808.0)?;
    Ok(Interval::new(months as i32, days as i32, micros as i64))
}

/// The interval divided by a number.
pub fn divide(span: Interval, divisor: f64) -> Result<Interval> {
    if divisor == 0.0 {
        return Err(SqlError::new(
            SqlState::DIVISION_BY_ZERO,
            "division by zero",
        ));
    }
    let months = fits(f64::from(span.months) / divisor, 2_147_483_648.0)?.trunc();
    let mut days = fits(f64::from(span.days) / divisor, 2_147_483_648.0)?.trunc();
    let rest_days = rounded((f64::from(span.months) / divisor - months) * MONTH_DAYS as f64);
    let mut seconds =
        rounded((f64::from(span.days) / divisor - days + rest_days.fract()) * 86_400.0);
    if seconds.abs() >= 86_400.0 {
        let whole = (seconds / 86_400.0).trunc();
        days += whole;
        seconds -= whole * 86_400.0;
    }
    days += rest_days.trunc();
    let micros = (span.micros as f64 / divisor + seconds * 1e6).round_ties_even();
    let micros = fits(micros, 9_223_372_036_854_775_808.0)?;
    Ok(Interval::new(months as i32, days as i32, micros as i64))
}

/// Whole days of the microseconds become days; parts of unlike signs are balanced.
pub fn justify_hours(span: Interval) -> Result<Interval> {
    let days = i64::from(span.days) + span.micros / DAY_MICROS;
    let mut micros = span.micros % DAY_MICROS;
    let mut days = i32::try_from(days).map_err(|_| interval::out_of_range())?;
    if days > 0 && micros < 0 {
        micros += DAY_MICROS;
        days -= 1;
    } else if days < 0 && micros > 0 {
        micros -= DAY_MICROS;
        days += 1;
    }
    Ok(Interval::new(span.months, days, micros))
}

/// Whole months of 30 days become months; parts of unlike signs are balanced.
pub fn justify_days(span: Interval) -> Result<Interval> {
    let month = MONTH_DAYS as i32;
    let months = span.months.checked_add(span.days / month);
    let mut months = months.ok_or_else(interval::out_of_range)?;
    let mut days = span.days % month;
    if months > 0 && days < 0 {
        days += month;
        months -= 1;
    } else if months < 0 && days > 0 {
        days -= month;
        months += 1;
    }
    Ok(Interval::new(months, days, span.micros))
}

/// Both, and all parts of one sign.
pub fn justify(span: Interval) -> Result<Interval> {
    let total = span.span();
    let day = i128::from(DAY_MICROS);
    let month = day * i128::from(MONTH_DAYS);
    let months = i32::try_from(total / month).map_err(|_| interval::out_of_range())?;
    let days = (total % month / day) as i32;
    Ok(Interval::new(months, days, (total % day) as i64))
}

/// The start of the stride that a moment is in, counted from the origin.
pub fn bin(stride: Interval, source: i64, origin: i64) -> Result<i64> {
    if !is_finite(source) {
        return Ok(source);
    }
    let bad = |state: SqlState, text: &str| Err(SqlError::new(state, text));
    if !is_finite(origin) {
        return bad(SqlState::DATETIME_FIELD_OVERFLOW, "origin out of range");
    }
    if stride.months != 0 {
        return bad(
            SqlState::FEATURE_NOT_SUPPORTED,
            "timestamps cannot be binned into intervals containing months or years",
        );
    }
    let length = i64::try_from(stride.span()).map_err(|_| interval::out_of_range())?;
    if length <= 0 {
        return bad(
            SqlState::DATETIME_FIELD_OVERFLOW,
            "stride must be greater than zero",
        );
    }
    let offset = source
        .checked_sub(origin)
        .ok_or_else(interval::out_of_range)?;
    let start = i128::from(origin) + i128::from(offset.div_euclid(length)) * i128::from(length);
    match i64::try_from(start) {
        Ok(start) if is_valid(start) => Ok(start),
        _ => Err(timestamp_out_of_range()),
    }
}

/// The moment of a day and a time, as the `make_` functions take them.
pub fn make_date(year: i32, month: i32, day: i32) -> Result<i64> {
    let (year, month, day) = (i64::from(year), i64::from(month), i64::from(day));
    // Negative years are years BC.
    let astronomical = if year < 0 { year + 1 } else { year };
    let is_valid = year != 0
        && (1..=12).contains(&month)
        && day >= 1
        && day <= month_days(astronomical, month);
    if !is_valid {
        return Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date field value out of range: {astronomical}-{month:02}-{day:02}"),
        ));
    }
    let days = days_of(astronomical, month, day);
    super::calendar::checked_date(days)
        .map(i64::from)
        .map_err(|error| {
            SqlError::new(
                error.state,
                format!("date out of range: {astronomical}-{month:02}-{day:02}"),
            )
        })
}

/// Microseconds since midnight, as the `make_` functions take them.
pub fn make_time(hour: i32, minute: i32, second: f64) -> Result<i64> {
    let micros = (second * 1e6).round_ties_even();
    let is_valid =
        (0..=24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60e6).contains(&micros);
    if is_valid {
        let time = i64::from(hour) * HOUR + i64::from(minute) * MINUTE + micros as i64;
        if time <= DAY {
            return Ok(time);
        }
    }
    Err(SqlError::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!(
            "time field value out of range: {hour}:{minute:02}:{}",
            shown_seconds(second)
        ),
    ))
}

/// Seconds as PostgreSQL's message has them.
fn shown_seconds(second: f64) -> String {
    let mut text = String::new();
    super::super::text_io::print_general(&mut text, second, 6);
    format!("{text:0>2}")
}

/// The moment of seconds since 1970-01-01 UTC.
pub fn from_unix_seconds(seconds: f64) -> Result<i64> {
    if seconds.is_nan() {
        return Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            "timestamp cannot be NaN",
        ));
    }
    if seconds.is_infinite() {
        return Ok(if seconds > 0.0 {
            super::calendar::INFINITY
        } else {
            super::calendar::NEGATIVE_INFINITY
        });
    }
    let epoch = (super::calendar::UNIX_EPOCH_DAYS * 86_400) as f64;
    let micros = ((seconds - epoch) * 1e6).round_ties_even();
    if micros.abs() < 9.3e18 && is_valid(micros as i64) {
        return Ok(micros as i64);
    }
    let mut shown = String::new();
    super::super::text_io::print_general(&mut shown, seconds, 6);
    Err(SqlError::new(
        SqlState::DATETIME_FIELD_OVERFLOW,
        format!("timestamp out of range: \"{shown}\""),
    ))
}
