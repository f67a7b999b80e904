//! `extract`, `date_part` and `date_trunc`.
//!
//! Both read the fields of a moment in the session's zone where it has one. Results of `extract`
//! are numeric and exact, those of `date_part` are float8.

use super::super::context::Context;
use super::super::datum::Datum;
use super::super::interval::Interval;
use super::super::kind::Kind;
use super::super::numeric::Numeric;
use super::calendar::{
    DAY, EPOCH_JULIAN_DAY, Fields, HOUR, INFINITY, MINUTE, SECOND, UNIX_EPOCH_DAYS, date_of,
    days_of, fields_of, fields_of_time, is_finite, is_finite_date, iso_week,
    timestamp_out_of_range, weekday, year_day,
};
use super::convert::date_to_timestamp;
use super::tokens::{Unit, unit};
use super::zone;
use crate::error::{Result, SqlError, SqlState};
use jiff::tz::TimeZone;

/// A field that `extract` knows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Unit(Unit),
    IsoYear,
    Julian,
    Weekday,
    IsoWeekday,
    YearDay,
    Epoch,
    Zone,
    ZoneHour,
    ZoneMinute,
}

fn field(name: &str) -> Option<Field> {
    Some(match name {
        "isoyear" => Field::IsoYear,
        "julian" | "jd" | "j" => Field::Julian,
        "dow" => Field::Weekday,
        "isodow" => Field::IsoWeekday,
        "doy" => Field::YearDay,
        "epoch" => Field::Epoch,
        "timezone" => Field::Zone,
        "timezone_hour" | "timezone_h" => Field::ZoneHour,
        "timezone_minute" | "timezone_m" => Field::ZoneMinute,
        _ => Field::Unit(unit(name)?),
    })
}

fn unsupported(name: &str, kind: Kind) -> SqlError {
    SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        format!("unit \"{name}\" not supported for type {kind}"),
    )
}

fn unrecognized(name: &str, kind: Kind) -> SqlError {
    SqlError::new(
        SqlState::INVALID_PARAMETER_VALUE,
        format!("unit \"{name}\" not recognized for type {kind}"),
    )
}

fn number(value: i64) -> Numeric {
    Numeric::from(value)
}

/// `micros` with so many digits after the point.
fn fraction(micros: i64, digits: u16) -> Numeric {
    Numeric::new(i128::from(micros), digits)
}

/// The field of a value, or none where an infinite value has none.
pub fn extract(name: &str, datum: &Datum, context: &Context<'_>) -> Result<Option<Numeric>> {
    let name = name.to_ascii_lowercase();
    let kind = datum.kind();
    let field = field(&name).ok_or_else(|| unrecognized(&name, kind))?;
    let found = match datum {
        Datum::Date(days) if is_finite_date(*days) => of_date(field, i64::from(*days)),
        Datum::Date(days) => {
            if of_date(field, 0).is_none() {
                return Err(unsupported(&name, kind));
            }
            return Ok(of_infinity(field, *days > 0));
        }
        Datum::Timestamp(micros) | Datum::Timestamptz(micros) if !is_finite(*micros) => {
            let is_zoned = matches!(datum, Datum::Timestamptz(_));
            if of_moment(field, 0, is_zoned.then_some(&context.settings.zone)).is_none() {
                return Err(unsupported(&name, kind));
            }
            return Ok(of_infinity(field, *micros == INFINITY));
        }
        Datum::Timestamp(micros) => of_moment(field, *micros, None),
        Datum::Timestamptz(micros) => of_moment(field, *micros, Some(&context.settings.zone)),
        Datum::Time(micros) => of_time(field, *micros, None),
        Datum::Timetz(time) => of_time(field, time.micros, Some(-time.zone)),
        Datum::Interval(interval) => of_interval(field, *interval),
        other => {
            return Err(SqlError::internal(format!(
                "{} has no fields",
                other.kind()
            )));
        }
    };
    found.map(Some).ok_or_else(|| unsupported(&name, kind))
}

/// Fields that grow without end are infinite; others have no value.
fn of_infinity(field: Field, is_positive: bool) -> Option<Numeric> {
    let grows = matches!(
        field,
        Field::Unit(Unit::Year | Unit::Decade | Unit::Century | Unit::Millennium)
            | Field::IsoYear
            | Field::Julian
            | Field::Epoch
    );
    grows.then_some(if is_positive {
        Numeric::INFINITY
    } else {
        Numeric::NEGATIVE_INFINITY
    })
}

fn of_date(field: Field, days: i64) -> Option<Numeric> {
    match field {
        Field::Julian => Some(number(days + EPOCH_JULIAN_DAY)),
        Field::Epoch => Some(number((days + UNIX_EPOCH_DAYS) * 86_400)),
        Field::Unit(
            Unit::Hour | Unit::Minute | Unit::Second | Unit::Millisecond | Unit::Microsecond,
        ) => None,
        _ => of_calendar(field, days),
    }
}

/// Fields of the calendar.
fn of_calendar(field: Field, days: i64) -> Option<Numeric> {
    let (year, month, day) = date_of(days);
    // Years before 1 are shown as negative years BC, without a year 0.
    let shown = if year > 0 { year } else { year - 1 };
    let count = |unit: i64| {
        if year > 0 {
            (year + unit - 1) / unit
        } else {
            -((unit - year) / unit)
        }
    };
    Some(number(match field {
        Field::Unit(Unit::Day) => day,
        Field::Unit(Unit::Week) => iso_week(days).1,
        Field::Unit(Unit::Month) => month,
        Field::Unit(Unit::Quarter) => (month - 1) / 3 + 1,
        Field::Unit(Unit::Year) => shown,
        Field::Unit(Unit::Decade) => year.div_euclid(10),
        Field::Unit(Unit::Century) => count(100),
        Field::Unit(Unit::Millennium) => count(1000),
        Field::IsoYear => {
            let (year, _) = iso_week(days);
            if year > 0 { year } else { year - 1 }
        }
        Field::Weekday => weekday(days),
        Field::IsoWeekday => (weekday(days) + 6) % 7 + 1,
        Field::YearDay => year_day(days),
        _ => return None,
    }))
}

/// Fields of the clock.
fn of_clock(field: Field, time: &Fields) -> Option<Numeric> {
    let seconds = time.second * SECOND + time.micros;
    Some(match field {
        Field::Unit(Unit::Hour) => number(time.hour),
        Field::Unit(Unit::Minute) => number(time.minute),
        Field::Unit(Unit::Second) => fraction(seconds, 6),
        Field::Unit(Unit::Millisecond) => fraction(seconds, 3),
        Field::Unit(Unit::Microsecond) => number(seconds),
        _ => return None,
    })
}

fn of_offset(field: Field, seconds: i32) -> Option<Numeric> {
    let seconds = i64::from(seconds);
    Some(number(match field {
        Field::Zone => seconds,
        Field::ZoneHour => seconds / 3600,
        Field::ZoneMinute => seconds / 60 % 60,
        _ => return None,
    }))
}

fn of_moment(field: Field, micros: i64, zone: Option<&TimeZone>) -> Option<Numeric> {
    let local = zone.map_or(micros, |zone| zone::to_local(zone, micros));
    let days = local.div_euclid(DAY);
    let offset = zone.map(|zone| zone::offset_at(zone, micros));
    match field {
        Field::Epoch => {
            let since = i128::from(micros) + i128::from(UNIX_EPOCH_DAYS * DAY);
            Some(Numeric::new(since, 6))
        }
        Field::Julian => {
            let whole = number(days + EPOCH_JULIAN_DAY);
            let rest = number(local.rem_euclid(DAY)).divide(&number(DAY)).ok()?;
            whole.add(&rest).ok()
        }
        _ => of_clock(field, &fields_of(local))
            .or_else(|| of_calendar(field, days))
            .or_else(|| of_offset(field, offset?)),
    }
}

fn of_time(field: Field, micros: i64, offset: Option<i32>) -> Option<Numeric> {
    match field {
        Field::Epoch => {
            let utc = micros - i64::from(offset.unwrap_or(0)) * SECOND;
            Some(fraction(utc, 6))
        }
        _ => of_clock(field, &fields_of_time(micros)).or_else(|| of_offset(field, offset?)),
    }
}

fn of_interval(field: Field, interval: Interval) -> Option<Numeric> {
    let years = i64::from(interval.months / 12);
    let months = i64::from(interval.months % 12);
    let Field::Unit(unit) = field else {
        return match field {
            Field::Epoch => {
                // A year has 365.25 days here, and the rest of the months 30 each.
                let days = i128::from(years) * 36_525 + i128::from(months) * 3000;
                let days = days + i128::from(interval.days) * 100;
                let micros = days * i128::from(DAY / 100) + i128::from(interval.micros);
                Some(Numeric::new(micros, 6))
            }
            _ => None,
        };
    };
    let seconds = interval.micros % MINUTE;
    Some(match unit {
        Unit::Microsecond => number(seconds),
        Unit::Millisecond => fraction(seconds, 3),
        Unit::Second => fraction(seconds, 6),
        Unit::Minute => number(interval.micros / MINUTE % 60),
        Unit::Hour => number(interval.micros / HOUR),
        Unit::Day => number(i64::from(interval.days)),
        Unit::Month => number(months),
        Unit::Quarter => number(months / 3 + 1),
        Unit::Year => number(years),
        Unit::Decade => number(years / 10),
        Unit::Century => number(years / 100),
        Unit::Millennium => number(years / 1000),
        Unit::Week => return None,
    })
}

/// Seconds, years and the like as a floating point number, for `date_part`.
pub fn date_part(name: &str, datum: &Datum, context: &Context<'_>) -> Result<Option<f64>> {
    // PostgreSQL computes the parts of dates as those of timestamps.
    let moment = match datum {
        Datum::Date(days) => Datum::Timestamp(date_to_timestamp(*days)?),
        other => other.clone(),
    };
    Ok(extract(name, &moment, context)?.map(|number| number.to_f64()))
}

/// A local time with all below the unit cut off.
pub fn truncate(name: &str, local: i64, kind: Kind) -> Result<i64> {
    if !is_finite(local) {
        return Ok(local);
    }
    let name = name.to_ascii_lowercase();
    let unit = match field(&name) {
        Some(Field::Unit(unit)) => unit,
        Some(_) => return Err(unsupported(&name, kind)),
        None => return Err(unrecognized(&name, kind)),
    };
    let days = local.div_euclid(DAY);
    let (year, month, _) = date_of(days);
    let start = |year: i64| days_of(year, 1, 1) * DAY;
    // Centuries begin with the year 1, decades with the year 0.
    let first_of = |unit: i64| start((year - 1).div_euclid(unit) * unit + 1);
    let truncated = match unit {
        Unit::Microsecond => local,
        Unit::Millisecond => local - local.rem_euclid(1000),
        Unit::Second => local - local.rem_euclid(SECOND),
        Unit::Minute => local - local.rem_euclid(MINUTE),
        Unit::Hour => local - local.rem_euclid(HOUR),
        Unit::Day => days * DAY,
        Unit::Week => (days - (weekday(days) + 6) % 7) * DAY,
        Unit::Month => days_of(year, month, 1) * DAY,
        Unit::Quarter => days_of(year, (month - 1) / 3 * 3 + 1, 1) * DAY,
        Unit::Year => start(year),
        Unit::Decade => start(year.div_euclid(10) * 10),
        Unit::Century => first_of(100),
        Unit::Millennium => first_of(1000),
    };
    if super::calendar::is_valid(truncated) {
        Ok(truncated)
    } else {
        Err(timestamp_out_of_range())
    }
}

/// A moment with all below the unit cut off by the clocks of a zone.
pub fn truncate_zoned(name: &str, utc: i64, zone: &TimeZone) -> Result<i64> {
    let local = if is_finite(utc) {
        zone::to_local(zone, utc)
    } else {
        utc
    };
    let truncated = truncate(name, local, Kind::Timestamptz)?;
    if !is_finite(truncated) {
        return Ok(truncated);
    }
    // Within a day the offset stays, so that the two hours of one name remain apart.
    let name = name.to_ascii_lowercase();
    let is_within_day = matches!(
        unit(&name),
        Some(Unit::Microsecond | Unit::Millisecond | Unit::Second | Unit::Minute | Unit::Hour)
    );
    if is_within_day {
        return Ok(utc - (local - truncated));
    }
    Ok(zone::to_utc(zone, truncated))
}

/// An interval with all below the unit cut off.
pub fn truncate_interval(name: &str, interval: Interval) -> Result<Interval> {
    let lower = name.to_ascii_lowercase();
    let unit = match field(&lower) {
        Some(Field::Unit(unit)) => unit,
        Some(_) => return Err(unsupported(&lower, Kind::Interval)),
        None => return Err(unrecognized(&lower, Kind::Interval)),
    };
    let Interval {
        months,
        days,
        micros,
    } = interval;
    let months_of = |unit: i32| Interval::new(months / unit * unit, 0, 0);
    let micros_of = |unit: i64| Interval::new(months, days, micros / unit * unit);
    Ok(match unit {
        Unit::Microsecond => interval,
        Unit::Millisecond => micros_of(1000),
        Unit::Second => micros_of(SECOND),
        Unit::Minute => micros_of(MINUTE),
        Unit::Hour => micros_of(HOUR),
        Unit::Day => Interval::new(months, days, 0),
        Unit::Week => {
            return Err(
                unsupported(&lower, Kind::Interval).detail("Months usually have fractional weeks.")
            );
        }
        Unit::Month => months_of(1),
        Unit::Quarter => months_of(3),
        Unit::Year => months_of(12),
        Unit::Decade => months_of(120),
        Unit::Century => months_of(1200),
        Unit::Millennium => months_of(12_000),
    })
}
