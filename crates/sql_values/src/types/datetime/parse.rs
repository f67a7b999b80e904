//! Dates and times of their texts, in all the forms that PostgreSQL reads.
//!
//! The text's tokens are read in turn; each fills fields, by its form, by the words before it and
//! by the fields that are filled already. `DateStyle` decides between day and month. Fields that
//! were filled twice, or not at all, make the text invalid.

use super::super::context::{Context, DateOrder};
use super::super::datum::{Datum, Timetz};
use super::super::kind::Kind;
use super::calendar::{
    self, DATE_END, DATE_INFINITY, DATE_MIN, DATE_NEGATIVE_INFINITY, DAY, EPOCH_JULIAN_DAY, HOUR,
    INFINITY, MINUTE, NEGATIVE_INFINITY, SECOND, UNIX_EPOCH_DAYS, days_of, is_valid, timestamp_of,
    timestamp_out_of_range,
};
use super::convert::today_offset;
use super::tokens::{Token, is_weekday, month, split};
use super::zone;
use crate::error::{Result, SqlError, SqlState};
use jiff::tz::TimeZone;

/// Seconds that a zone may be away from Greenwich.
const ZONE_SECONDS_MAX: i32 = 15 * 3600 + 59 * 60 + 59;

/// The reason that a text is no date or time.
enum Fault {
    Format,
    Range,
    /// Perhaps day and month are the other way round.
    Order,
    Zone,
    UnknownZone(String),
    Other(Box<SqlError>),
}

/// A moment that a word names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Special {
    Now,
    Epoch,
    Infinity,
    NegativeInfinity,
}

/// The zone that a text names.
enum Zone {
    Offset(i32),
    Named(TimeZone),
    /// An abbreviation whose offset depends on the moment.
    Changing(String),
}

/// The fields that the tokens have filled.
#[derive(Default)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    year_day: Option<i64>,
    /// Days since 2000-01-01, from a Julian day.
    days: Option<i64>,
    time: Option<i64>,
    zone: Option<Zone>,
    special: Option<Special>,
    /// Years of one or two digits are of this or the last century.
    is_short_year: bool,
    has_month_name: bool,
    is_bc: Option<bool>,
    is_pm: Option<bool>,
}

/// The value of a text.
pub fn parse(kind: Kind, text: &str, context: &Context<'_>) -> Result<Datum> {
    let result = read(kind, text, context).and_then(|parts| finish(kind, &parts, context));
    result.map_err(|fault| match fault {
        Fault::Format => SqlError::new(
            SqlState::INVALID_DATETIME_FORMAT,
            format!(
                "invalid input syntax for type {}: \"{text}\"",
                shown_name(kind)
            ),
        ),
        Fault::Range | Fault::Order => {
            let error = SqlError::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                format!("date/time field value out of range: \"{text}\""),
            );
            match fault {
                Fault::Order => error.hint("Perhaps you need a different \"datestyle\" setting."),
                _ => error,
            }
        }
        Fault::Zone => SqlError::new(
            SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE,
            format!("time zone displacement out of range: \"{text}\""),
        ),
        Fault::UnknownZone(name) => SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("time zone \"{name}\" not recognized"),
        ),
        Fault::Other(error) => match error.message.as_str() {
            "timestamp out of range" | "date out of range" => {
                let what = error.message.split(' ').next().unwrap_or("timestamp");
                SqlError::new(error.state, format!("{what} out of range: \"{text}\""))
            }
            _ => *error,
        },
    })
}

/// The name of the type in messages.
fn shown_name(kind: Kind) -> String {
    match kind {
        Kind::Time | Kind::Timestamp => kind.catalogue_name(),
        _ => kind.name(),
    }
}

fn read(kind: Kind, text: &str, context: &Context<'_>) -> Result<Fields, Fault> {
    let tokens = split(text).ok_or(Fault::Format)?;
    if tokens.is_empty() {
        return Err(Fault::Format);
    }
    let mut reader = Reader {
        parts: Fields::default(),
        order: context.settings.date_order,
        context,
        is_time: matches!(kind, Kind::Time | Kind::Timetz),
        after_julian: false,
        after_t: false,
    };
    for token in &tokens {
        reader.token(token)?;
    }
    if reader.after_julian {
        return Err(Fault::Format);
    }
    Ok(reader.parts)
}

struct Reader<'c> {
    parts: Fields,
    order: DateOrder,
    context: &'c Context<'c>,
    is_time: bool,
    after_julian: bool,
    after_t: bool,
}

impl Reader<'_> {
    fn token(&mut self, token: &Token<'_>) -> Result<(), Fault> {
        match token {
            Token::Date(text) => self.date(text),
            Token::Time(text) => {
                self.after_t = false;
                let time = parse_time(text)?;
                set(&mut self.parts.time, time)
            }
            Token::Signed(text) => {
                let offset = parse_offset(text)?;
                set(&mut self.parts.zone, Zone::Offset(offset))
            }
            Token::Number(text) => self.number(text),
            Token::Word(word) => self.word(word),
        }
    }

    fn has_date(&self) -> bool {
        self.parts.days.is_some() || (self.parts.month.is_some() && self.parts.day.is_some())
    }

    fn date(&mut self, text: &str) -> Result<(), Fault> {
        let starts_with_digit = text.starts_with(|c: char| c.is_ascii_digit());
        if self.after_t || (self.has_date() && starts_with_digit) {
            // A run-together time with its zone: 040506-08.
            let at = text.find('-').ok_or(Fault::Format)?;
            self.after_t = false;
            self.run_together(&text[..at])?;
            let offset = parse_offset(&text[at..])?;
            return set(&mut self.parts.zone, Zone::Offset(offset));
        }
        if self.after_julian {
            let at = text.find('-').ok_or(Fault::Format)?;
            self.number(&text[..at])?;
            let offset = parse_offset(&text[at..])?;
            return set(&mut self.parts.zone, Zone::Offset(offset));
        }
        if !starts_with_digit && (self.has_date() || self.is_time) {
            let found = zone::lookup(text);
            let found = found.ok_or_else(|| Fault::UnknownZone(text.to_lowercase()))?;
            return set(&mut self.parts.zone, Zone::Named(found));
        }
        if self.parts.year.is_some() || self.has_date() {
            return Err(Fault::Format);
        }
        self.date_fields(text)
    }

    fn date_fields(&mut self, text: &str) -> Result<(), Fault> {
        let fields: Vec<&str> = split_fields(text).collect();
        if fields.len() > 3 {
            return Err(Fault::Format);
        }
        // A month by name tells which number is which.
        for field in &fields {
            if field.starts_with(|c: char| c.is_ascii_alphabetic()) {
                let found = month(&field.to_ascii_lowercase()).ok_or(Fault::Format)?;
                self.parts.has_month_name = true;
                set(&mut self.parts.month, found)?;
            }
        }
        for field in &fields {
            if field.starts_with(|c: char| c.is_ascii_digit()) {
                self.field(field)?;
            }
        }
        let parts = &self.parts;
        let is_whole = parts.days.is_some()
            || parts.year_day.is_some()
            || (parts.year.is_some() && parts.month.is_some() && parts.day.is_some());
        if is_whole { Ok(()) } else { Err(Fault::Format) }
    }

    fn number(&mut self, text: &str) -> Result<(), Fault> {
        if std::mem::take(&mut self.after_julian) {
            return self.julian(text);
        }
        let point = text.find('.');
        let whole = point.unwrap_or(text.len());
        if self.after_t {
            self.after_t = false;
            return self.run_together(text);
        }
        let nothing_of_date =
            self.parts.year.is_none() && self.parts.month.is_none() && self.parts.day.is_none();
        if self.is_time && nothing_of_date && self.parts.time.is_none() && whole > 2 {
            return self.run_together(text);
        }
        if point.is_some() && nothing_of_date && self.parts.days.is_none() && !self.is_time {
            return self.date_fields(text);
        }
        if point.is_some() && whole > 2 {
            return self.run_together(text);
        }
        if whole >= 6 && (nothing_of_date || self.parts.time.is_none()) {
            return self.date_or_time(text);
        }
        self.field(text)
    }

    /// Days since 4714-11-24 BC, with a fraction for the time.
    fn julian(&mut self, text: &str) -> Result<(), Fault> {
        let number: f64 = text.parse().map_err(|_| Fault::Format)?;
        if number >= f64::from(i32::MAX) {
            return Err(Fault::Range);
        }
        let whole = number.trunc();
        set(&mut self.parts.days, whole as i64 - EPOCH_JULIAN_DAY)?;
        if text.contains('.') {
            let micros = ((number - whole) * DAY as f64).round_ties_even() as i64;
            set(&mut self.parts.time, micros)?;
        }
        Ok(())
    }

    /// A number of six digits or more: `yymmdd`, or `hhmmss` once the date is there.
    fn date_or_time(&mut self, text: &str) -> Result<(), Fault> {
        let parts = &mut self.parts;
        let has_date = parts.days.is_some()
            || (parts.year.is_some() && parts.month.is_some() && parts.day.is_some());
        if has_date || text.contains('.') {
            return self.run_together(text);
        }
        let (rest, day) = text.split_at(text.len() - 2);
        let (year, month) = rest.split_at(rest.len() - 2);
        parts.is_short_year = year.len() == 2;
        set(&mut parts.year, int(year)?)?;
        set(&mut parts.month, int(month)?)?;
        set(&mut parts.day, int(day)?)
    }

    /// A time without colons: `hhmmss`, `hhmm`, with a fraction of the seconds.
    fn run_together(&mut self, text: &str) -> Result<(), Fault> {
        let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
        let micros = parse_fraction(fraction)?;
        if !whole.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Fault::Format);
        }
        let (hour, minute, second) = match whole.len() {
            6 => (&whole[..2], &whole[2..4], &whole[4..]),
            4 => (&whole[..2], &whole[2..4], "0"),
            _ => return Err(Fault::Format),
        };
        let time = time_of(int(hour)?, int(minute)?, int(second)?, micros)?;
        set(&mut self.parts.time, time)
    }

    /// One field of a date, by the fields that are there.
    fn field(&mut self, text: &str) -> Result<(), Fault> {
        let length = text.len();
        if text.contains('.') {
            return self.run_together(text);
        }
        let value = int(text)?;
        let parts = &mut self.parts;
        if length == 3
            && parts.year.is_some()
            && parts.month.is_none()
            && (1..=366).contains(&value)
        {
            return set(&mut parts.year_day, value);
        }
        let is_year = length >= 3 || self.order == DateOrder::Ymd;
        match (
            parts.year.is_some(),
            parts.month.is_some(),
            parts.day.is_some(),
        ) {
            (false, false, false) if is_year => self.year(value, length),
            (false, false, false) if self.order == DateOrder::Dmy => set(&mut parts.day, value),
            (false, false, false) => set(&mut parts.month, value),
            (true, false, false) => set(&mut parts.month, value),
            (false, true, false) if parts.has_month_name && is_year => self.year(value, length),
            (false, true, false) => set(&mut parts.day, value),
            (true, true, false) if parts.has_month_name && length >= 3 && parts.is_short_year => {
                parts.day = parts.year;
                parts.year = Some(value);
                parts.is_short_year = false;
                Ok(())
            }
            (true, true, false) => set(&mut parts.day, value),
            (false, false, true) => set(&mut parts.month, value),
            (false, true, true) => self.year(value, length),
            (true, true, true) => self.run_together(text),
            (true, false, true) => Err(Fault::Format),
        }
    }

    fn year(&mut self, value: i64, length: usize) -> Result<(), Fault> {
        self.parts.is_short_year = length <= 2;
        set(&mut self.parts.year, value)
    }

    fn word(&mut self, word: &str) -> Result<(), Fault> {
        let parts = &mut self.parts;
        if let Some(found) = month(word) {
            // The number that was taken for the month is the day.
            if parts.month.is_some() && !parts.has_month_name && parts.day.is_none() {
                parts.day = parts.month.take();
            }
            parts.has_month_name = true;
            return set(&mut parts.month, found);
        }
        match word {
            "now" => set(&mut parts.special, Special::Now),
            "epoch" => set(&mut parts.special, Special::Epoch),
            "infinity" => set(&mut parts.special, Special::Infinity),
            "-infinity" => set(&mut parts.special, Special::NegativeInfinity),
            "today" => self.day_from_today(0),
            "yesterday" => self.day_from_today(-1),
            "tomorrow" => self.day_from_today(1),
            "allballs" => {
                set(&mut parts.time, 0)?;
                set(&mut parts.zone, Zone::Offset(0))
            }
            "am" | "a.m." => set(&mut parts.is_pm, false),
            "pm" | "p.m." => set(&mut parts.is_pm, true),
            "bc" | "bce" => set(&mut parts.is_bc, true),
            "ad" | "ce" => set(&mut parts.is_bc, false),
            "on" | "at" => Ok(()),
            "j" | "jd" | "julian" => {
                self.after_julian = true;
                Ok(())
            }
            "t" => {
                self.after_t = true;
                Ok(())
            }
            "dst" => match &mut parts.zone {
                Some(Zone::Offset(offset)) => {
                    *offset += 3600;
                    Ok(())
                }
                _ => Err(Fault::Format),
            },
            _ if is_weekday(word) => Ok(()),
            _ => self.zone_word(word),
        }
    }

    fn zone_word(&mut self, word: &str) -> Result<(), Fault> {
        let found = match zone::abbreviation(word) {
            Some(_) if zone::is_changing(word) => Zone::Changing(word.to_owned()),
            Some((seconds, _)) => Zone::Offset(seconds),
            None => Zone::Named(zone::lookup(word).ok_or(Fault::Format)?),
        };
        set(&mut self.parts.zone, found)
    }

    fn day_from_today(&mut self, offset: i64) -> Result<(), Fault> {
        let local = zone::to_local(&self.context.settings.zone, self.context.transaction_start);
        set(&mut self.parts.days, local.div_euclid(DAY) + offset)?;
        if self.parts.time.is_none() && self.is_time {
            self.parts.time = Some(0);
        }
        Ok(())
    }
}

/// Fills a field once.
fn set<T>(field: &mut Option<T>, value: T) -> Result<(), Fault> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(Fault::Format),
    }
}

fn int(text: &str) -> Result<i64, Fault> {
    match text.parse::<i64>() {
        Ok(value) if value <= i64::from(i32::MAX) => Ok(value),
        Ok(_) => Err(Fault::Range),
        Err(_) => Err(Fault::Format),
    }
}

/// Runs of digits or of letters.
fn split_fields(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_digits = rest.starts_with(|c: char| c.is_ascii_digit());
        let belongs = |c: char| {
            if is_digits {
                c.is_ascii_digit()
            } else {
                c.is_ascii_alphabetic()
            }
        };
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        let (field, after) = rest.split_at(end);
        rest = after;
        (!field.is_empty()).then_some(field)
    })
}

/// Microseconds of a fraction with its point.
fn parse_fraction(text: &str) -> Result<i64, Fault> {
    if text.is_empty() || text == "." {
        return Ok(0);
    }
    let fraction: f64 = text.parse().map_err(|_| Fault::Format)?;
    Ok((fraction * 1e6).round_ties_even() as i64)
}

/// `hh:mm`, `hh:mm:ss` or `mm:ss.ffffff`.
fn parse_time(text: &str) -> Result<i64, Fault> {
    let fields: Vec<&str> = text.split(':').collect();
    match fields.as_slice() {
        [minute, second] if second.contains('.') => {
            let (second, fraction) = second.split_at(second.find('.').unwrap_or(0));
            time_of(0, int(minute)?, int(second)?, parse_fraction(fraction)?)
        }
        [hour, minute] => time_of(int(hour)?, int(minute)?, 0, 0),
        [hour, minute, second] => {
            let (second, fraction) = second.split_at(second.find('.').unwrap_or(second.len()));
            time_of(
                int(hour)?,
                int(minute)?,
                int(second)?,
                parse_fraction(fraction)?,
            )
        }
        _ => Err(Fault::Format),
    }
}

fn time_of(hour: i64, minute: i64, second: i64, micros: i64) -> Result<i64, Fault> {
    if minute > 59 || second > 60 || hour > 24 {
        return Err(Fault::Range);
    }
    let time = hour * HOUR + minute * MINUTE + second * SECOND + micros;
    if time > DAY {
        Err(Fault::Range)
    } else {
        Ok(time)
    }
}

/// Seconds east of Greenwich of a zone that is written as a number; none if it is a name.
pub fn numeric_zone(text: &str) -> Result<Option<i32>> {
    let digits = text.strip_prefix(['+', '-']);
    if !digits.is_some_and(|rest| rest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b':'))) {
        return Ok(None);
    }
    match parse_offset(text) {
        Ok(seconds) => Ok(Some(seconds)),
        Err(Fault::Format) => Ok(None),
        Err(_) => {
            let message = format!("numeric time zone \"{text}\" out of range");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

/// Seconds east of Greenwich of `+hh`, `+hhmm`, `+hh:mm` or `+hh:mm:ss`.
fn parse_offset(text: &str) -> Result<i32, Fault> {
    let is_negative = text.starts_with('-');
    let body = &text[1..];
    let fields: Vec<&str> = body.split(':').collect();
    let (hours, minutes, seconds) = match fields.as_slice() {
        [digits] if digits.len() > 4 => {
            let (rest, seconds) = digits.split_at(digits.len() - 2);
            let (hours, minutes) = rest.split_at(rest.len() - 2);
            (int(hours)?, int(minutes)?, int(seconds)?)
        }
        [digits] if digits.len() > 2 => {
            let (hours, minutes) = digits.split_at(digits.len() - 2);
            (int(hours)?, int(minutes)?, 0)
        }
        [hours] => (int(hours)?, 0, 0),
        [hours, minutes] => (int(hours)?, int(minutes)?, 0),
        [hours, minutes, seconds] => (int(hours)?, int(minutes)?, int(seconds)?),
        _ => return Err(Fault::Format),
    };
    let total = hours * 3600 + minutes * 60 + seconds;
    if hours > 15 || minutes > 59 || seconds > 59 || total > i64::from(ZONE_SECONDS_MAX) {
        return Err(Fault::Zone);
    }
    let total = total as i32;
    Ok(if is_negative { -total } else { total })
}

impl Fields {
    /// Days since 2000-01-01, if the text has a date.
    fn date(&self) -> Result<Option<i64>, Fault> {
        if let Some(days) = self.days {
            return Ok(Some(days));
        }
        let Some(mut year) = self.year else {
            return match (self.month, self.day) {
                (None, None) => Ok(None),
                _ => Err(Fault::Format),
            };
        };
        match self.is_bc {
            Some(true) if year > 0 => year = 1 - year,
            Some(true) => return Err(Fault::Range),
            _ if self.is_short_year => year += if year < 70 { 2000 } else { 1900 },
            _ if year <= 0 => return Err(Fault::Range),
            _ => {}
        }
        if let Some(day) = self.year_day {
            return Ok(Some(days_of(year, 1, 1) + day - 1));
        }
        let (Some(month), Some(day)) = (self.month, self.day) else {
            return Err(Fault::Format);
        };
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return Err(Fault::Order);
        }
        if day > calendar::month_days(year, month) {
            return Err(Fault::Range);
        }
        Ok(Some(days_of(year, month, day)))
    }

    /// Microseconds since midnight, if the text has a time.
    fn time_of_day(&self) -> Result<Option<i64>, Fault> {
        let Some(time) = self.time else {
            return if self.is_pm.is_some() {
                Err(Fault::Format)
            } else {
                Ok(None)
            };
        };
        let hour = time / HOUR;
        Ok(Some(match self.is_pm {
            Some(_) if hour > 12 => return Err(Fault::Range),
            Some(false) if hour == 12 => time - 12 * HOUR,
            Some(true) if hour != 12 => time + 12 * HOUR,
            _ => time,
        }))
    }
}

fn finish(kind: Kind, parts: &Fields, context: &Context<'_>) -> Result<Datum, Fault> {
    match kind {
        Kind::Time | Kind::Timetz => finish_time(kind, parts, context),
        Kind::Date => finish_date(parts, context),
        _ => finish_timestamp(kind, parts, context),
    }
}

fn finish_date(parts: &Fields, context: &Context<'_>) -> Result<Datum, Fault> {
    let today = || {
        let local = zone::to_local(&context.settings.zone, context.transaction_start);
        local.div_euclid(DAY)
    };
    let days = match parts.special {
        Some(Special::Infinity) => return Ok(Datum::Date(DATE_INFINITY)),
        Some(Special::NegativeInfinity) => return Ok(Datum::Date(DATE_NEGATIVE_INFINITY)),
        Some(Special::Epoch) => -UNIX_EPOCH_DAYS,
        Some(Special::Now) => today(),
        None => parts.date()?.ok_or(Fault::Format)?,
    };
    parts.time_of_day()?;
    if (i64::from(DATE_MIN)..i64::from(DATE_END)).contains(&days) {
        Ok(Datum::Date(days as i32))
    } else {
        Err(Fault::Other(Box::new(calendar::date_out_of_range())))
    }
}

fn finish_timestamp(kind: Kind, parts: &Fields, context: &Context<'_>) -> Result<Datum, Fault> {
    let is_zoned = kind == Kind::Timestamptz;
    let make = |micros: i64| {
        if is_zoned {
            Datum::Timestamptz(micros)
        } else {
            Datum::Timestamp(micros)
        }
    };
    let session = &context.settings.zone;
    match parts.special {
        Some(Special::Infinity) => return Ok(make(INFINITY)),
        Some(Special::NegativeInfinity) => return Ok(make(NEGATIVE_INFINITY)),
        Some(Special::Epoch) => return Ok(make(-UNIX_EPOCH_DAYS * DAY)),
        Some(Special::Now) if is_zoned => return Ok(make(context.transaction_start)),
        Some(Special::Now) => {
            return Ok(make(zone::to_local(session, context.transaction_start)));
        }
        None => {}
    }
    let out_of_range = || Fault::Other(Box::new(timestamp_out_of_range()));
    let days = parts.date()?.ok_or(Fault::Format)?;
    let time = parts.time_of_day()?.unwrap_or(0);
    if !is_zoned {
        return timestamp_of(days, time).map(make).ok_or_else(out_of_range);
    }
    let local = days
        .checked_mul(DAY)
        .and_then(|micros| micros.checked_add(time));
    let local = local.ok_or_else(out_of_range)?;
    let utc = match &parts.zone {
        Some(Zone::Offset(seconds)) => local.saturating_sub(i64::from(*seconds) * SECOND),
        Some(Zone::Named(zone)) => zone::to_utc(zone, local),
        Some(Zone::Changing(name)) => {
            let zone = zone::lookup_local(name, local).ok_or(Fault::Format)?;
            zone::to_utc(&zone, local)
        }
        None => zone::to_utc(session, local),
    };
    if is_valid(utc) {
        Ok(make(utc))
    } else {
        Err(out_of_range())
    }
}

fn finish_time(kind: Kind, parts: &Fields, context: &Context<'_>) -> Result<Datum, Fault> {
    let session = &context.settings.zone;
    let (time, now_offset) = match parts.special {
        Some(Special::Now) => {
            let local = zone::to_local(session, context.transaction_start);
            let offset = zone::offset_at(session, context.transaction_start);
            (local.rem_euclid(DAY), Some(offset))
        }
        Some(_) => return Err(Fault::Format),
        None => (parts.time_of_day()?.ok_or(Fault::Format)?, None),
    };
    let date = parts.date()?;
    let offset = match &parts.zone {
        Some(Zone::Offset(seconds)) => *seconds,
        // A zone with summer time has no offset without a date.
        Some(Zone::Named(zone)) => match (date, zone.to_fixed_offset()) {
            (Some(days), _) => zone::offset_of_local(zone, days * DAY + time),
            (None, Ok(offset)) => offset.seconds(),
            (None, Err(_)) => return Err(Fault::Format),
        },
        Some(Zone::Changing(name)) => {
            let today = context.transaction_start.div_euclid(DAY);
            let local = date.unwrap_or(today) * DAY + time;
            let zone = zone::lookup_local(name, local).ok_or(Fault::Format)?;
            zone::offset_of_local(&zone, local)
        }
        None => match (date, now_offset) {
            (_, Some(offset)) => offset,
            (Some(days), None) => zone::offset_of_local(session, days * DAY + time),
            (None, None) => today_offset(time, context),
        },
    };
    Ok(match kind {
        Kind::Time => Datum::Time(time),
        _ => Datum::Timetz(Timetz {
            micros: time,
            zone: -offset,
        }),
    })
}

/// The local time of an ISO text, for tests.
#[cfg(test)]
pub(super) fn timestamp_text(text: &str) -> i64 {
    let settings = super::super::Settings::default();
    let context = Context {
        settings: &settings,
        names: &super::super::NoNames,
        transaction_start: 0,
        statement_start: 0,
    };
    match parse(Kind::Timestamp, text, &context) {
        Ok(Datum::Timestamp(micros)) => micros,
        other => panic!("{text}: {other:?}"),
    }
}
