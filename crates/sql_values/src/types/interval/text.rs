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

/// The smallest number of 64 bits, without its sign.
const SMALLEST: &str = "9223372036854775808";
/// Digits of a date, and of a time, without signs between their fields.
const DATE_DIGITS: usize = 8;
const TIME_DIGITS: usize = 6;

/// The reason that a text is no interval.
enum Fault {
    Format,
    Range,
    /// Each field is right, and all of them together are too long.
    Length,
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
        Fault::Range | Fault::Length => Err(fault),
    });
    result.map_err(|fault| match fault {
        Fault::Format => SqlError::new(
            SqlState::INVALID_DATETIME_FORMAT,
            format!("invalid input syntax for type interval: \"{text}\""),
        ),
        Fault::Length => super::out_of_range(),
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

    fn negate(&mut self) -> Result<(), Fault> {
        for field in [
            &mut self.years,
            &mut self.months,
            &mut self.days,
            &mut self.micros,
        ] {
            *field = field.checked_neg().ok_or(Fault::Range)?;
        }
        Ok(())
    }

    fn interval(&self) -> Result<Interval, Fault> {
        let field = |value| i32::try_from(value).map_err(|_| Fault::Range);
        let (years, months, days) = (field(self.years)?, field(self.months)?, field(self.days)?);
        let months = i64::from(years) * 12 + i64::from(months);
        let months = i32::try_from(months).map_err(|_| Fault::Length)?;
        Ok(Interval::new(months, days, self.micros))
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
                fractions(&mut seen)?;
                let micros = clock(text, fields)?;
                add(&mut sum.micros, if one_sign { -micros } else { micros }, 1)?;
                next = Some(Unit::Day);
            }
            Token::Signed(text) if text.contains(':') => {
                once(&mut seen, Unit::Hour)?;
                once(&mut seen, Unit::Minute)?;
                once(&mut seen, Unit::Second)?;
                fractions(&mut seen)?;
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
                if of == Unit::Second && rest != 0.0 {
                    fractions(&mut seen)?;
                }
                sum.add(of, value * sign, rest * sign as f64)?;
                // A number before hours counts days; others need units, unless the type has them.
                next = (of == Unit::Hour).then_some(Unit::Day);
            }
        }
    }
    if seen.is_empty() {
        return Err(Fault::Format);
    }
    if is_ago {
        sum.negate()?;
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

/// Seconds with a fraction leave no room for smaller units.
fn fractions(seen: &mut Vec<Unit>) -> Result<(), Fault> {
    once(seen, Unit::Millisecond)?;
    once(seen, Unit::Microsecond)
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
    let value = match whole {
        "" => 0,
        // The smallest number has no opposite.
        SMALLEST if is_negative => i64::MIN,
        _ => sign * int(whole)?,
    };
    let rest = match rest {
        "" | "." => 0.0,
        _ => rest.parse::<f64>().map_err(|_| Fault::Format)?,
    };
    Ok((of, value, sign as f64 * rest))
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

/// `P1Y2M3W4DT5H6M7S`, or `P0001-02-03T04:05:06`, or one of them for the date and the other for
/// the time.
fn read_iso(text: &str) -> Result<Interval, Fault> {
    let body = text.strip_prefix('P').ok_or(Fault::Format)?;
    let (date, time) = body.split_once('T').unwrap_or((body, ""));
    if date.is_empty() && time.is_empty() {
        return Err(Fault::Format);
    }
    let mut sum = Sum::default();
    let has_letters =
        |text: &str| text.contains(|c: char| c.is_ascii_alphabetic() && !matches!(c, 'e' | 'E'));
    if has_letters(date) {
        designated(date, date_letter, &mut sum)?;
    } else {
        let units = [Unit::Year, Unit::Month, Unit::Day];
        listed(date, ('-', DATE_DIGITS), units, &mut sum)?;
    }
    if has_letters(time) {
        designated(time, time_letter, &mut sum)?;
    } else {
        let units = [Unit::Hour, Unit::Minute, Unit::Second];
        listed(time, (':', TIME_DIGITS), units, &mut sum)?;
    }
    sum.interval()
}

fn date_letter(letter: char) -> Option<Unit> {
    Some(match letter {
        'Y' => Unit::Year,
        'M' => Unit::Month,
        'W' => Unit::Week,
        'D' => Unit::Day,
        _ => return None,
    })
}

fn time_letter(letter: char) -> Option<Unit> {
    Some(match letter {
        'H' => Unit::Hour,
        'M' => Unit::Minute,
        'S' => Unit::Second,
        _ => return None,
    })
}

/// Numbers with a letter after each.
fn designated(text: &str, unit: fn(char) -> Option<Unit>, sum: &mut Sum) -> Result<(), Fault> {
    let mut rest = text;
    while !rest.is_empty() {
        let is_letter = |c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E'));
        let end = rest.find(is_letter).ok_or(Fault::Format)?;
        let (number, after) = rest.split_at(end);
        let letter = after.chars().next().ok_or(Fault::Format)?;
        let number: f64 = number.parse().map_err(|_| Fault::Format)?;
        let unit = unit(letter).ok_or(Fault::Format)?;
        if number.abs() > 9.2e18 {
            return Err(Fault::Range);
        }
        sum.add(unit, number.trunc() as i64, number.fract())?;
        rest = &after[letter.len_utf8()..];
    }
    Ok(())
}

/// Numbers of the units in their order: with a sign between them, or of two digits each after the
/// first if so many digits stand there.
fn listed(
    text: &str,
    (between, digits): (char, usize),
    units: [Unit; 3],
    sum: &mut Sum,
) -> Result<(), Fault> {
    if text.is_empty() {
        return Ok(());
    }
    let is_packed = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = if is_packed {
        let (first, rest) = text.split_at(digits - 4);
        let (second, third) = rest.split_at(2);
        vec![first, second, third]
    } else {
        text.split(between).collect()
    };
    if parts.len() > units.len() {
        return Err(Fault::Format);
    }
    for (text, unit) in parts.into_iter().zip(units) {
        let (unit, value, rest) = quantity(text, unit)?;
        sum.add(unit, value, rest)?;
    }
    Ok(())
}

/// An interval taken apart, all with its sign.
struct Fields {
    years: i64,
    months: i64,
    days: i64,
    hours: i64,
    minutes: i64,
    seconds: i64,
    micros: i64,
}

impl From<Interval> for Fields {
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
    let parts = Fields::from(interval);
    match style {
        IntervalStyle::Postgres => print_postgres(out, interval, &parts),
        IntervalStyle::PostgresVerbose => print_verbose(out, interval, &parts),
        IntervalStyle::SqlStandard => print_standard(out, interval, &parts),
        IntervalStyle::Iso8601 => print_iso(out, &parts),
    }
}

fn print_postgres(out: &mut String, interval: Interval, parts: &Fields) {
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

fn print_verbose(out: &mut String, interval: Interval, parts: &Fields) {
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

fn print_standard(out: &mut String, interval: Interval, parts: &Fields) {
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

fn print_iso(out: &mut String, parts: &Fields) {
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
