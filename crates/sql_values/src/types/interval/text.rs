//! Intervals as text.
//!
//! Texts are read from their end, so that a unit comes before its number, in the forms of
//! PostgreSQL (`1 year -2 days 03:04`), of the standard (`1-2 3 4:05`) and of ISO 8601
//! (`P1Y2DT3H`). Fractions of a unit spill into the smaller ones: months have 30 days.

use super::super::context::{Context, IntervalStyle};
use super::super::datetime::calendar::{HOUR, MINUTE, SECOND};
use super::super::datetime::print::fraction;
use super::super::datetime::tokens::{Token, Unit, split, unit};
use super::super::kind::INTERVAL_ALL_FIELDS;
use super::super::text_io::append;
use super::{DAY_MICROS, Interval, MONTH_DAYS};
use crate::error::{Result, SqlError, SqlState};

/// The reason that a text is no interval.
enum Fault {
    Format,
    Range,
}

/// The interval of a text.
pub fn parse(text: &str, context: &Context<'_>) -> Result<Interval> {
    parse_with_fields(text, INTERVAL_ALL_FIELDS, context)
}

/// The interval of a text whose type has the fields of the mask: a number without a unit counts
/// the last of them.
pub fn parse_with_fields(text: &str, fields: i32, context: &Context<'_>) -> Result<Interval> {
    let standard = context.settings.interval_style == IntervalStyle::SqlStandard;
    let result = read(text, fields, standard).or_else(|fault| match fault {
        Fault::Format => read_iso(text),
        Fault::Range => Err(fault),
    });
    result.map_err(|fault| match fault {
        Fault::Format => SqlError::new(
            SqlState::INVALID_DATETIME_FORMAT,
            format!("invalid input syntax for type interval: \"{text}\""),
        ),
        Fault::Range => SqlError::new(
            SqlState::INTERVAL_FIELD_OVERFLOW,
            format!("interval field value out of range: \"{text}\""),
        ),
    })
}

/// The running sum of the fields.
#[derive(Default)]
struct Sum {
    years: i64,
    months: i64,
    days: i64,
    micros: i64,
}

impl Sum {
    fn add(&mut self, unit: Unit, value: i64, rest: f64) -> Result<(), Fault> {
        match unit {
            Unit::Microsecond => self.micros_of(value, 1, rest),
            Unit::Millisecond => self.micros_of(value, 1000, rest),
            Unit::Second => self.micros_of(value, SECOND, rest),
            Unit::Minute => self.micros_of(value, MINUTE, rest),
            Unit::Hour => self.micros_of(value, HOUR, rest),
            Unit::Day => {
                add(&mut self.days, value, 1)?;
                self.micros_of(0, DAY_MICROS, rest)
            }
            Unit::Week => {
                add(&mut self.days, value, 7)?;
                self.days_of(rest, 7.0)
            }
            Unit::Month => {
                add(&mut self.months, value, 1)?;
                self.days_of(rest, MONTH_DAYS as f64)
            }
            Unit::Quarter => {
                add(&mut self.months, value, 3)?;
                self.days_of(rest, 3.0 * MONTH_DAYS as f64)
            }
            Unit::Year => self.years_of(value, 1, rest),
            Unit::Decade => self.years_of(value, 10, rest),
            Unit::Century => self.years_of(value, 100, rest),
            Unit::Millennium => self.years_of(value, 1000, rest),
        }
    }

    fn micros_of(&mut self, value: i64, unit: i64, rest: f64) -> Result<(), Fault> {
        add(&mut self.micros, value, unit)?;
        add(
            &mut self.micros,
            (rest * unit as f64).round_ties_even() as i64,
            1,
        )
    }

    fn days_of(&mut self, rest: f64, unit: f64) -> Result<(), Fault> {
        let days = rest * unit;
        add(&mut self.days, days.trunc() as i64, 1)?;
        self.micros_of(0, DAY_MICROS, days.fract())
    }

    fn years_of(&mut self, value: i64, unit: i64, rest: f64) -> Result<(), Fault> {
        add(&mut self.years, value, unit)?;
        let months = (rest * 12.0 * unit as f64).round_ties_even();
        add(&mut self.months, months as i64, 1)
    }

    fn negate(&mut self) {
        self.years = -self.years;
        self.months = -self.months;
        self.days = -self.days;
        self.micros = self.micros.wrapping_neg();
    }

    fn interval(&self) -> Result<Interval, Fault> {
        let months = self
            .years
            .checked_mul(12)
            .and_then(|months| months.checked_add(self.months))
            .and_then(|months| i32::try_from(months).ok());
        let days = i32::try_from(self.days).ok();
        match months.zip(days) {
            Some((months, days)) => Ok(Interval::new(months, days, self.micros)),
            None => Err(Fault::Range),
        }
    }
}

fn add(sum: &mut i64, value: i64, unit: i64) -> Result<(), Fault> {
    let product = value.checked_mul(unit);
    *sum = product
        .and_then(|product| sum.checked_add(product))
        .ok_or(Fault::Range)?;
    Ok(())
}

fn read(text: &str, fields: i32, is_standard: bool) -> Result<Interval, Fault> {
    let tokens = split(text).ok_or(Fault::Format)?;
    let mut sum = Sum::default();
    let mut seen: Vec<Unit> = Vec::new();
    let mut next: Option<Unit> = None;
    let mut is_ago = false;
    // In the standard's style one sign at the start counts for all fields.
    let signs = tokens
        .iter()
        .filter(|token| matches!(token, Token::Signed(_)))
        .count();
    let one_sign = is_standard
        && signs == 1
        && matches!(tokens.first(), Some(Token::Signed(text)) if text.starts_with('-'));
    for (place, token) in tokens.iter().enumerate().rev() {
        match token {
            Token::Word(word) if word == "ago" && place + 1 == tokens.len() => is_ago = true,
            Token::Word(word) if word == "@" => {}
            Token::Word(word) => next = Some(unit(word).ok_or(Fault::Format)?),
            Token::Time(text) => {
                once(&mut seen, Unit::Hour)?;
                once(&mut seen, Unit::Minute)?;
                once(&mut seen, Unit::Second)?;
                let micros = clock(text, fields)?;
                add(&mut sum.micros, if one_sign { -micros } else { micros }, 1)?;
                next = Some(Unit::Day);
            }
            Token::Signed(text) if text.contains(':') => {
                once(&mut seen, Unit::Hour)?;
                once(&mut seen, Unit::Minute)?;
                once(&mut seen, Unit::Second)?;
                let micros = clock(&text[1..], fields)?;
                let is_negative = text.starts_with('-');
                add(
                    &mut sum.micros,
                    if is_negative { -micros } else { micros },
                    1,
                )?;
                next = Some(Unit::Day);
            }
            Token::Number(text) | Token::Signed(text) | Token::Date(text) => {
                let of = next.unwrap_or_else(|| rightmost(fields));
                let (of, value, rest) = quantity(text, of)?;
                let sign = if one_sign && place > 0 { -1 } else { 1 };
                once(&mut seen, of)?;
                sum.add(of, value * sign, rest * sign as f64)?;
                next = None;
                // Numbers before this one need units, unless the type says them.
                if fields != INTERVAL_ALL_FIELDS {
                    next = None;
                }
            }
        }
    }
    if seen.is_empty() {
        return Err(Fault::Format);
    }
    if is_ago {
        sum.negate();
    }
    sum.interval()
}

/// Fields may stand once each.
fn once(seen: &mut Vec<Unit>, unit: Unit) -> Result<(), Fault> {
    if seen.contains(&unit) {
        return Err(Fault::Format);
    }
    seen.push(unit);
    Ok(())
}

/// The unit of a number that has none.
fn rightmost(fields: i32) -> Unit {
    const BITS: [(i32, Unit); 6] = [
        (1 << 12, Unit::Second),
        (1 << 11, Unit::Minute),
        (1 << 10, Unit::Hour),
        (1 << 3, Unit::Day),
        (1 << 1, Unit::Month),
        (1 << 2, Unit::Year),
    ];
    if fields == INTERVAL_ALL_FIELDS {
        return Unit::Second;
    }
    let found = BITS.iter().find(|(bit, _)| fields & bit != 0);
    found.map_or(Unit::Second, |(_, unit)| *unit)
}

/// A number, or years and months with a hyphen between them.
fn quantity(text: &str, of: Unit) -> Result<(Unit, i64, f64), Fault> {
    let is_negative = text.starts_with('-');
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if is_negative { -1 } else { 1 };
    if let Some((years, months)) = body.split_once('-') {
        let (years, months) = (int(years)?, int(months)?);
        if months >= 12 {
            return Err(Fault::Range);
        }
        let total = years
            .checked_mul(12)
            .and_then(|total| total.checked_add(months));
        return Ok((Unit::Month, sign * total.ok_or(Fault::Range)?, 0.0));
    }
    let (whole, rest) = body.split_at(body.find('.').unwrap_or(body.len()));
    let value = if whole.is_empty() { 0 } else { int(whole)? };
    let rest = match rest {
        "" | "." => 0.0,
        _ => rest.parse::<f64>().map_err(|_| Fault::Format)?,
    };
    Ok((of, sign * value, sign as f64 * rest))
}

fn int(text: &str) -> Result<i64, Fault> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::Format);
    }
    text.parse().map_err(|_| Fault::Range)
}

/// Microseconds of `hh:mm:ss`; `mm:ss` where the type has no hours or the seconds a fraction.
fn clock(text: &str, fields: i32) -> Result<i64, Fault> {
    const MINUTE_TO_SECOND: i32 = (1 << 11) | (1 << 12);
    let parts: Vec<&str> = text.split(':').collect();
    let seconds = |text: &str| -> Result<(i64, i64), Fault> {
        let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
        let micros = match rest {
            "" | "." => 0,
            _ => {
                let fraction: f64 = rest.parse().map_err(|_| Fault::Format)?;
                (fraction * 1e6).round_ties_even() as i64
            }
        };
        Ok((int(whole)?, micros))
    };
    let (hours, minutes, (seconds, micros)) = match parts.as_slice() {
        [a, b] if fields == MINUTE_TO_SECOND || b.contains('.') => (0, int(a)?, seconds(b)?),
        [a, b] => (int(a)?, int(b)?, (0, 0)),
        [a, b, c] => (int(a)?, int(b)?, seconds(c)?),
        _ => return Err(Fault::Format),
    };
    if minutes > 59 || seconds > 60 || micros > SECOND {
        return Err(Fault::Range);
    }
    let mut total = micros;
    add(&mut total, seconds, SECOND)?;
    add(&mut total, minutes, MINUTE)?;
    add(&mut total, hours, HOUR)?;
    Ok(total)
}

/// `P1Y2M3W4DT5H6M7S`, or `P0001-02-03T04:05:06`.
fn read_iso(text: &str) -> Result<Interval, Fault> {
    let body = text.strip_prefix('P').ok_or(Fault::Format)?;
    let mut sum = Sum::default();
    let mut rest = body;
    let mut in_time = false;
    let mut any = false;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('T') {
            in_time = true;
            rest = after;
            continue;
        }
        let end = rest
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+')))
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let letter = after.chars().next();
        if matches!(letter, None | Some('T' | ':')) {
            return alternative_iso(body);
        }
        let number: f64 = number.parse().map_err(|_| Fault::Format)?;
        let unit = match (letter, in_time) {
            (Some('Y'), false) => Unit::Year,
            (Some('M'), false) => Unit::Month,
            (Some('W'), false) => Unit::Week,
            (Some('D'), false) => Unit::Day,
            (Some('H'), true) => Unit::Hour,
            (Some('M'), true) => Unit::Minute,
            (Some('S'), true) => Unit::Second,
            _ => return Err(Fault::Format),
        };
        if number.abs() > 9.2e18 {
            return Err(Fault::Range);
        }
        sum.add(unit, number.trunc() as i64, number.fract())?;
        any = true;
        rest = &after[1..];
    }
    if any {
        sum.interval()
    } else {
        Err(Fault::Format)
    }
}

fn alternative_iso(body: &str) -> Result<Interval, Fault> {
    let (date, time) = body.split_once('T').unwrap_or((body, ""));
    let mut sum = Sum::default();
    let units = [Unit::Year, Unit::Month, Unit::Day];
    if !date.is_empty() {
        for (text, unit) in date.split('-').zip(units) {
            let (unit, value, rest) = quantity(text, unit)?;
            sum.add(unit, value, rest)?;
        }
    }
    let units = [Unit::Hour, Unit::Minute, Unit::Second];
    if !time.is_empty() {
        for (text, unit) in time.split(':').zip(units) {
            let (unit, value, rest) = quantity(text, unit)?;
            sum.add(unit, value, rest)?;
        }
    }
    sum.interval()
}

/// An interval taken apart, all with its sign.
struct Parts {
    years: i64,
    months: i64,
    days: i64,
    hours: i64,
    minutes: i64,
    seconds: i64,
    micros: i64,
}

impl From<Interval> for Parts {
    fn from(interval: Interval) -> Self {
        Self {
            years: i64::from(interval.months / 12),
            months: i64::from(interval.months % 12),
            days: i64::from(interval.days),
            hours: interval.micros / HOUR,
            minutes: interval.micros / MINUTE % 60,
            seconds: interval.micros / SECOND % 60,
            micros: interval.micros % SECOND,
        }
    }
}

/// Appends the text of an interval.
pub fn print(out: &mut String, interval: Interval, style: IntervalStyle) {
    let parts = Parts::from(interval);
    match style {
        IntervalStyle::Postgres => print_postgres(out, interval, &parts),
        IntervalStyle::PostgresVerbose => print_verbose(out, interval, &parts),
        IntervalStyle::SqlStandard => print_standard(out, interval, &parts),
        IntervalStyle::Iso8601 => print_iso(out, &parts),
    }
}

fn print_postgres(out: &mut String, interval: Interval, parts: &Parts) {
    let start = out.len();
    let mut after_negative = false;
    for (value, unit) in [
        (parts.years, "year"),
        (parts.months, "mon"),
        (parts.days, "day"),
    ] {
        if value == 0 {
            continue;
        }
        let gap = if out.len() > start { " " } else { "" };
        let plus = if after_negative && value > 0 { "+" } else { "" };
        let plural = if value == 1 { "" } else { "s" };
        append(out, format_args!("{gap}{plus}{value} {unit}{plural}"));
        after_negative = value < 0;
    }
    if out.len() == start || interval.micros != 0 {
        let gap = if out.len() > start { " " } else { "" };
        let sign = match () {
            () if interval.micros < 0 => "-",
            () if after_negative => "+",
            () => "",
        };
        append(
            out,
            format_args!(
                "{gap}{sign}{:02}:{:02}:{:02}",
                parts.hours.abs(),
                parts.minutes.abs(),
                parts.seconds.abs()
            ),
        );
        fraction(out, parts.micros);
    }
}

fn print_verbose(out: &mut String, interval: Interval, parts: &Parts) {
    out.push('@');
    let start = out.len();
    let mut is_ago = None;
    let units = [
        (parts.years, "year"),
        (parts.months, "mon"),
        (parts.days, "day"),
        (parts.hours, "hour"),
        (parts.minutes, "min"),
    ];
    for (value, unit) in units {
        if value == 0 {
            continue;
        }
        // The first field decides about "ago"; the others have a sign where they differ.
        let ago = *is_ago.get_or_insert(value < 0);
        let shown = if ago { -value } else { value };
        let plural = if shown == 1 { "" } else { "s" };
        append(out, format_args!(" {shown} {unit}{plural}"));
    }
    if interval.micros % MINUTE != 0 {
        let is_negative = interval.micros < 0;
        let ago = *is_ago.get_or_insert(is_negative);
        let sign = if is_negative == ago { "" } else { "-" };
        append(out, format_args!(" {sign}{}", parts.seconds.abs()));
        fraction(out, parts.micros);
        let is_one = parts.seconds.abs() == 1 && parts.micros == 0;
        out.push_str(if is_one { " sec" } else { " secs" });
    }
    if out.len() == start {
        out.push_str(" 0");
    }
    if is_ago == Some(true) {
        out.push_str(" ago");
    }
}

fn print_standard(out: &mut String, interval: Interval, parts: &Parts) {
    let signs = [i64::from(interval.months), parts.days, interval.micros];
    let has_negative = signs.iter().any(|value| *value < 0);
    let has_positive = signs.iter().any(|value| *value > 0);
    let has_months = interval.months != 0;
    let has_days = interval.days != 0 || interval.micros != 0;
    let clock = |out: &mut String| {
        let (hours, minutes) = (parts.hours.abs(), parts.minutes.abs());
        append(
            out,
            format_args!("{hours}:{minutes:02}:{:02}", parts.seconds.abs()),
        );
        fraction(out, parts.micros);
    };
    if !has_negative && !has_positive {
        out.push('0');
    } else if (has_negative && has_positive) || (has_months && has_days) {
        let sign = |value: i64| if value < 0 { '-' } else { '+' };
        append(
            out,
            format_args!(
                "{}{}-{} {}{} {}",
                sign(i64::from(interval.months)),
                parts.years.abs(),
                parts.months.abs(),
                sign(parts.days),
                parts.days.abs(),
                sign(interval.micros)
            ),
        );
        clock(out);
    } else {
        if has_negative {
            out.push('-');
        }
        if has_months {
            append(
                out,
                format_args!("{}-{}", parts.years.abs(), parts.months.abs()),
            );
        } else if parts.days != 0 {
            append(out, format_args!("{} ", parts.days.abs()));
            clock(out);
        } else {
            clock(out);
        }
    }
}

fn print_iso(out: &mut String, parts: &Parts) {
    let start = out.len();
    out.push('P');
    for (value, letter) in [(parts.years, 'Y'), (parts.months, 'M'), (parts.days, 'D')] {
        if value != 0 {
            append(out, format_args!("{value}{letter}"));
        }
    }
    let has_seconds = parts.seconds != 0 || parts.micros != 0;
    if parts.hours != 0 || parts.minutes != 0 || has_seconds {
        out.push('T');
        for (value, letter) in [(parts.hours, 'H'), (parts.minutes, 'M')] {
            if value != 0 {
                append(out, format_args!("{value}{letter}"));
            }
        }
        if has_seconds {
            let is_negative = parts.seconds < 0 || parts.micros < 0;
            let sign = if is_negative { "-" } else { "" };
            append(out, format_args!("{sign}{}", parts.seconds.abs()));
            fraction(out, parts.micros);
            out.push('S');
        }
    }
    if out.len() == start + 1 {
        out.push_str("T0S");
    }
}
