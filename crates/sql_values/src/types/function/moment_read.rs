//! `to_date` and `to_timestamp`: moments of texts, by a template.
//!
//! The text is read part by part into [`Given`]; separators match any separator, and a number ends
//! after the digits of its word where another one follows. Then the fields make a date and a time.

use super::super::context::CallContext;
use super::super::datetime::calendar::{
    HOUR, MINUTE, SECOND, checked_date, days_of, iso_year_start, month_days, timestamp_of,
    timestamp_out_of_range,
};
use super::super::datetime::zone;
use super::super::datum::Datum;
use super::super::kind::Kind::{Date, Text, Timestamptz};
use super::Function;
use super::moment_form::{MONTHS, Pattern, WEEKDAYS, parts};
use super::number_form::roman_digits;
use crate::error::{Result, SqlError, SqlState};

/// The fields that a text has given.
#[derive(Default)]
struct Given {
    year: Option<i64>,
    iso_year: Option<i64>,
    century: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    year_day: Option<i64>,
    week: Option<i64>,
    iso_week: Option<i64>,
    weekday: Option<i64>,
    julian: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    seconds_of_day: Option<i64>,
    is_pm: Option<bool>,
    is_bc: bool,
    has_twelve_hours: bool,
    zone_hours: Option<i64>,
    zone_minutes: i64,
    zone_sign: i64,
}

struct Scanner<'t> {
    text: &'t str,
    given: Given,
}

fn invalid_value(text: &str, word: &str) -> SqlError {
    SqlError::new(
        SqlState::INVALID_DATETIME_FORMAT,
        format!("invalid value \"{text}\" for \"{word}\""),
    )
}

impl<'t> Scanner<'t> {
    fn scan(text: &'t str, template: &str) -> Result<Given> {
        let mut scanner = Scanner {
            text,
            given: Given {
                zone_sign: 1,
                ..Given::default()
            },
        };
        let parts = parts(template);
        for (place, part) in parts.iter().enumerate() {
            match part {
                Pattern::Literal(literal) => scanner.skip(literal),
                Pattern::Field {
                    word,
                    ordinal,
                    is_short,
                    ..
                } => {
                    scanner.blanks();
                    if scanner.text.is_empty() {
                        break;
                    }
                    // A number before another number ends after the digits of its word.
                    let next = parts.get(place + 1);
                    let is_bounded = !is_short && matches!(next, Some(Pattern::Field { .. }));
                    scanner.field(word, is_bounded)?;
                    if ordinal.is_some() {
                        scanner.text = scanner.text.get(2..).unwrap_or("");
                    }
                }
            }
        }
        Ok(scanner.given)
    }

    fn blanks(&mut self) {
        self.text = self.text.trim_start();
    }

    /// Passes over a separator, or so many characters. Separators are of ASCII.
    fn skip(&mut self, literal: &str) {
        for expected in literal.chars() {
            if expected.is_ascii_whitespace() {
                self.blanks();
                continue;
            }
            if expected.is_ascii_punctuation() {
                // Any separator stands for any other.
                self.blanks();
                let is_separator = |c: char| c.is_ascii_punctuation() && !matches!(c, '+' | '-');
                let found = self.text.starts_with(is_separator) || self.text.starts_with(expected);
                self.text = if found { &self.text[1..] } else { self.text };
                continue;
            }
            let mut rest = self.text.chars();
            rest.next();
            self.text = rest.as_str();
        }
    }

    /// A number of at most so many digits, or of any where no digits follow.
    fn number(&mut self, word: &str, digits: usize, is_bounded: bool) -> Result<i64> {
        let sign = usize::from(self.text.starts_with(['-', '+']));
        let most = if is_bounded {
            digits + sign
        } else {
            usize::MAX
        };
        let count = self.text[sign..]
            .bytes()
            .take_while(u8::is_ascii_digit)
            .count();
        let end = (sign + count).min(most);
        if count == 0 {
            let shown: String = self.text.chars().take(digits).collect();
            return Err(invalid_value(&shown, word).detail("Value must be an integer."));
        }
        let (number, rest) = self.text.split_at(end);
        self.text = rest;
        number.parse().map_err(|_| {
            SqlError::new(
                SqlState::DATETIME_FIELD_OVERFLOW,
                format!("value for \"{word}\" in source string is out of range"),
            )
        })
    }

    /// The place of the name at the front of the text.
    fn one_of(&mut self, word: &str, names: &[&str], length: Option<usize>) -> Result<i64> {
        let lower = self.text.to_ascii_lowercase();
        let found = names.iter().position(|name| {
            let name = &name[..length.unwrap_or(name.len())];
            lower.starts_with(&name.to_ascii_lowercase())
        });
        let Some(place) = found else {
            let shown: String = self.text.chars().take(word.len()).collect();
            return Err(invalid_value(&shown, word).detail(
                "The given value did not match any of the allowed values for this field.",
            ));
        };
        self.text = &self.text[length.unwrap_or(names[place].len())..];
        Ok(place as i64)
    }

    fn fraction(&mut self, word: &str, digits: usize) -> Result<i64> {
        let count = self
            .text
            .bytes()
            .take_while(u8::is_ascii_digit)
            .count()
            .min(digits);
        if count == 0 {
            return self.number(word, digits, true);
        }
        let (number, rest) = self.text.split_at(count);
        self.text = rest;
        let value: i64 = number.parse().unwrap_or(0);
        Ok(value * 10_i64.pow((6 - count) as u32))
    }

    fn field(&mut self, word: &'static str, is_bounded: bool) -> Result<()> {
        match word {
            "HH24" => self.given.hour = self.number(word, 2, is_bounded)?,
            "HH12" | "HH" => {
                self.given.hour = self.number(word, 2, is_bounded)?;
                self.given.has_twelve_hours = true;
            }
            "MI" => self.given.minute = self.number(word, 2, is_bounded)?,
            "SS" => self.given.second = self.number(word, 2, is_bounded)?,
            "MS" => self.given.micros += self.fraction(word, 3)?,
            "US" | "FF6" => self.given.micros += self.fraction(word, 6)?,
            "FF1" | "FF2" | "FF3" | "FF4" | "FF5" => {
                let digits = usize::from(word.as_bytes()[2] - b'0');
                self.given.micros += self.fraction(word, digits)?;
            }
            "SSSS" | "SSSSS" => {
                self.given.seconds_of_day = Some(self.number(word, 5, is_bounded)?);
            }
            "AM" | "PM" => self.given.is_pm = Some(self.one_of(word, &["AM", "PM"], None)? == 1),
            "A.M." | "P.M." => {
                self.given.is_pm = Some(self.one_of(word, &["A.M.", "P.M."], None)? == 1);
            }
            "BC" | "AD" => self.given.is_bc = self.one_of(word, &["AD", "BC"], None)? == 1,
            "B.C." | "A.D." => {
                self.given.is_bc = self.one_of(word, &["A.D.", "B.C."], None)? == 1;
            }
            "TZH" => {
                self.given.zone_sign = if self.text.starts_with('-') { -1 } else { 1 };
                self.given.zone_hours = Some(self.number(word, 2, true)?.abs());
            }
            "TZM" => self.given.zone_minutes = self.number(word, 2, true)?,
            "TZ" | "OF" => {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!("formatting field \"{word}\" is only supported in to_char"),
                ));
            }
            _ => return self.date_field(word, is_bounded),
        }
        Ok(())
    }

    fn date_field(&mut self, word: &'static str, is_bounded: bool) -> Result<()> {
        match word {
            "YYYY" | "YYY" | "YY" | "Y" => {
                let year = self.number(word, word.len(), is_bounded)?;
                self.given.year = Some(if word.len() < 4 {
                    full_year(year)
                } else {
                    year
                });
            }
            "Y,YYY" => {
                let thousands = self.number(word, 1, false)?;
                self.text = self.text.strip_prefix(',').unwrap_or(self.text);
                self.given.year = Some(thousands * 1000 + self.number(word, 3, true)?);
            }
            "IYYY" | "IYY" | "IY" | "I" => {
                let year = self.number(word, word.len(), is_bounded)?;
                self.given.iso_year = Some(if word.len() < 4 {
                    full_year(year)
                } else {
                    year
                });
            }
            "CC" => self.given.century = Some(self.number(word, 2, is_bounded)?),
            "MM" => self.given.month = Some(self.number(word, 2, is_bounded)?),
            "MONTH" => self.given.month = Some(self.one_of(word, &MONTHS, None)? + 1),
            "MON" => self.given.month = Some(self.one_of(word, &MONTHS, Some(3))? + 1),
            "RM" => {
                let lower = self.text.to_ascii_uppercase();
                let digits: String = lower.chars().take_while(|c| "IVX".contains(*c)).collect();
                let month = (1..=12).find(|month| roman_digits(*month) == digits);
                let month = month.ok_or_else(|| invalid_value(&digits, word))?;
                self.text = &self.text[digits.len()..];
                self.given.month = Some(month as i64);
            }
            "DD" => self.given.day = Some(self.number(word, 2, is_bounded)?),
            "DDD" | "IDDD" => self.given.year_day = Some(self.number(word, 3, is_bounded)?),
            "DAY" => self.given.weekday = Some(self.one_of(word, &WEEKDAYS, None)? + 1),
            "DY" => self.given.weekday = Some(self.one_of(word, &WEEKDAYS, Some(3))? + 1),
            "D" => self.given.weekday = Some(self.number(word, 1, is_bounded)?),
            "ID" => self.given.weekday = Some(self.number(word, 1, is_bounded)? % 7 + 1),
            "WW" => self.given.week = Some(self.number(word, 2, is_bounded)?),
            "IW" => self.given.iso_week = Some(self.number(word, 2, is_bounded)?),
            "W" => {
                let week = self.number(word, 1, is_bounded)?;
                self.given.day = Some((week - 1) * 7 + 1);
            }
            "J" => self.given.julian = Some(self.number(word, 7, is_bounded)?),
            // A quarter says nothing that a date needs.
            _ => {
                self.number(word, 1, is_bounded)?;
            }
        }
        Ok(())
    }
}

/// Years of fewer than four digits are near 2020.
fn full_year(year: i64) -> i64 {
    match year {
        70..100 => year + 1900,
        ..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}

impl Given {
    fn out_of_range(text: &str) -> SqlError {
        SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            format!("date/time field value out of range: \"{text}\""),
        )
    }

    /// Days since 2000-01-01.
    fn days(&self, text: &str) -> Result<i64> {
        if let Some(julian) = self.julian {
            return Ok(julian - 2_451_545);
        }
        if let Some(year) = self.iso_year {
            let start = iso_year_start(year);
            if let Some(day) = self.year_day {
                return Ok(start + day - 1);
            }
            let weekday = self.weekday.map_or(0, |day| (day + 5) % 7);
            return Ok(start + (self.iso_week.unwrap_or(1) - 1) * 7 + weekday);
        }
        let mut year = match (self.year, self.century) {
            (Some(year), _) => year,
            (None, Some(century)) => (century - 1) * 100 + 1,
            // Without a year it is 1 BC.
            (None, None) => 0,
        };
        if self.year.is_some() && (self.is_bc || year < 0) {
            year = 1 - year.abs();
        }
        if let Some(day) = self.year_day {
            return Ok(days_of(year, 1, 1) + day - 1);
        }
        if let Some(week) = self.week {
            return Ok(days_of(year, 1, 1) + (week - 1) * 7);
        }
        let month = self.month.unwrap_or(1);
        let day = self.day.unwrap_or(1);
        if !(1..=12).contains(&month) || day < 1 || day > month_days(year, month) {
            return Err(Self::out_of_range(text));
        }
        Ok(days_of(year, month, day))
    }

    /// Microseconds since midnight.
    fn time(&self, text: &str) -> Result<i64> {
        if let Some(seconds) = self.seconds_of_day {
            if seconds >= 86_400 {
                return Err(Self::out_of_range(text));
            }
            return Ok(seconds * SECOND + self.micros);
        }
        let mut hour = self.hour;
        if self.has_twelve_hours {
            if !(1..=12).contains(&hour) {
                return Err(SqlError::new(
                    SqlState::INVALID_DATETIME_FORMAT,
                    format!("hour \"{hour}\" is invalid for the 12-hour clock"),
                )
                .hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            match self.is_pm {
                Some(true) if hour < 12 => hour += 12,
                Some(false) if hour == 12 => hour = 0,
                _ => {}
            }
        }
        let fits = (0..24).contains(&hour)
            && (0..60).contains(&self.minute)
            && (0..60).contains(&self.second);
        if !fits {
            return Err(Self::out_of_range(text));
        }
        Ok(hour * HOUR + self.minute * MINUTE + self.second * SECOND + self.micros)
    }
}

fn read_timestamp(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    let text = a[0].str()?;
    let given = Scanner::scan(text, a[1].str()?)?;
    let local = timestamp_of(given.days(text)?, given.time(text)?);
    let local = local.ok_or_else(timestamp_out_of_range)?;
    let utc = match given.zone_hours {
        Some(hours) => local - given.zone_sign * (hours * 60 + given.zone_minutes) * MINUTE,
        None => zone::to_utc(&context.context.settings.zone, local),
    };
    Ok(Datum::Timestamptz(utc))
}

fn read_date(a: &[Datum]) -> Result<Datum> {
    let text = a[0].str()?;
    let given = Scanner::scan(text, a[1].str()?)?;
    given.time(text)?;
    checked_date(given.days(text)?).map(Datum::Date)
}

/// The table.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::scalar("to_timestamp", &[Text, Text], Timestamptz, |context, a| {
        read_timestamp(context, a)
    })
    .stable(),
    Function::scalar("to_date", &[Text, Text], Date, |_, a| read_date(a)).stable(),
];
