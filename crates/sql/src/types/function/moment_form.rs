//! `to_char` of dates, times and intervals, `to_date` and `to_timestamp`.
//!
//! A template is read into parts once; writing and reading go through the same parts. Names of
//! months and days are English, as in the locale C.

use super::super::context::CallContext;
use super::super::datetime::calendar::{
    Fields, HOUR, MINUTE, SECOND, checked_date, days_of, fields_of, is_finite,
    iso_week, iso_year_start, month_days, timestamp_of, timestamp_out_of_range, weekday, year_day,
};
use super::super::datetime::zone;
use super::super::datum::Datum;
use super::super::interval::Interval as Span;
use super::super::kind::Kind::{Date, Interval, Text, Timestamp, Timestamptz};
use super::super::text_io::append;
use super::Function;
use super::number_form::{ordinal_ending, quoted, roman_digits};
use crate::error::{Result, SqlError, SqlState};

/// The words of templates; of two that fit the first one counts.
const WORDS: &[&str] = &[
    "SSSSS", "SSSS", "Y,YYY", "YYYY", "YYY", "YY", "Y", "IYYY", "IYY", "IY", "IDDD", "ID", "IW",
    "I", "HH24", "HH12", "HH", "MONTH", "MON", "MM", "MI", "MS", "SS", "US", "FF1", "FF2", "FF3",
    "FF4", "FF5", "FF6", "A.M.", "P.M.", "AM", "PM", "B.C.", "A.D.", "BC", "AD", "DAY", "DDD",
    "DD", "DY", "D", "WW", "W", "CC", "J", "Q", "RM", "TZH", "TZM", "TZ", "OF",
];

const MONTHS: [&str; 12] = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
];

const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// How the letters of a word are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Letters {
    Upper,
    Capital,
    Lower,
}

impl Letters {
    fn of(word: &str) -> Self {
        let mut letters = word.chars().filter(char::is_ascii_alphabetic);
        match (letters.next(), letters.next()) {
            (Some(first), _) if first.is_ascii_lowercase() => Self::Lower,
            (_, Some(second)) if second.is_ascii_lowercase() => Self::Capital,
            _ => Self::Upper,
        }
    }

    fn apply(self, text: &str) -> String {
        match self {
            Self::Upper => text.to_uppercase(),
            Self::Capital => text.to_owned(),
            Self::Lower => text.to_lowercase(),
        }
    }
}

enum Part {
    Field {
        word: &'static str,
        letters: Letters,
        /// `FM`: without blanks and zeros.
        is_short: bool,
        /// `TH` or `th` behind a number.
        ordinal: Option<bool>,
    },
    Literal(String),
}

fn parts(template: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = template;
    let mut is_short = false;
    while let Some(first) = rest.chars().next() {
        let starts = |word: &str| {
            rest.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
        };
        if starts("FM") {
            is_short = true;
            rest = &rest[2..];
            continue;
        }
        if starts("FX") || starts("TM") {
            rest = &rest[2..];
            continue;
        }
        if let Some(word) = WORDS.iter().copied().find(|word| starts(word)) {
            let letters = Letters::of(&rest[..word.len()]);
            rest = &rest[word.len()..];
            let ordinal = rest.get(..2).filter(|end| end.eq_ignore_ascii_case("TH"));
            let ordinal = ordinal.map(|end| end.starts_with('T'));
            rest = if ordinal.is_some() { &rest[2..] } else { rest };
            parts.push(Part::Field {
                word,
                letters,
                is_short,
                ordinal,
            });
            is_short = false;
            continue;
        }
        let (literal, after) = match first {
            '"' => quoted(&rest[1..]),
            '\\' if rest.len() > 1 => {
                let escaped = rest[1..].chars().next().unwrap_or('\\');
                (escaped.to_string(), &rest[1 + escaped.len_utf8()..])
            }
            other => (other.to_string(), &rest[other.len_utf8()..]),
        };
        parts.push(Part::Literal(literal));
        rest = after;
    }
    parts
}

/// A moment or a span, as templates see it.
struct Shown {
    fields: Fields,
    /// Days since 2000-01-01; none of a span.
    days: Option<i64>,
    /// Abbreviation and seconds east of Greenwich.
    zone: Option<(String, i32)>,
}

fn no_date() -> SqlError {
    SqlError::new(
        SqlState::INVALID_DATETIME_FORMAT,
        "invalid format specification for an interval value",
    )
    .hint("Intervals are not tied to specific calendar dates.")
}

impl Shown {
    fn print(&self, template: &str) -> Result<Datum> {
        let mut out = String::new();
        for part in parts(template) {
            match part {
                Part::Literal(text) => out.push_str(&text),
                Part::Field {
                    word,
                    letters,
                    is_short,
                    ordinal,
                } => self.field(&mut out, word, letters, is_short, ordinal)?,
            }
        }
        Ok(Datum::text(out))
    }

    fn field(
        &self,
        out: &mut String,
        word: &str,
        letters: Letters,
        is_short: bool,
        ordinal: Option<bool>,
    ) -> Result<()> {
        if let Some((value, width)) = self.number(word)? {
            let width = if is_short { 0 } else { width };
            // The sign takes a place of its own, but not in days.
            let sign = usize::from(value < 0 && width > 0 && word != "DD");
            append(out, format_args!("{value:0width$}", width = width + sign));
            if let Some(is_upper) = ordinal {
                let ending = ordinal_ending(value.unsigned_abs());
                out.push_str(&if is_upper { ending.to_uppercase() } else { ending.to_owned() });
            }
            return Ok(());
        }
        let (text, width) = self.name(word)?;
        let text = letters.apply(&text);
        let width = if is_short { 0 } else { width };
        append(out, format_args!("{text:<width$}"));
        Ok(())
    }

    fn day(&self) -> Result<i64> {
        self.days.ok_or_else(no_date)
    }

    /// The number of a word and its digits, where it is one.
    fn number(&self, word: &str) -> Result<Option<(i64, usize)>> {
        let fields = &self.fields;
        // Years before 1 are shown as years BC; a span has years of any sign.
        let shown = |year: i64| match self.days {
            Some(_) if year <= 0 => 1 - year,
            _ => year,
        };
        let year = shown(fields.year);
        let twelve = if fields.hour % 12 == 0 { 12 } else { fields.hour % 12 };
        let seconds = fields.hour * 3600 + fields.minute * 60 + fields.second;
        Ok(Some(match word {
            "HH24" => (fields.hour, 2),
            "HH12" | "HH" => (twelve, 2),
            "MI" => (fields.minute, 2),
            "SS" => (fields.second, 2),
            "MS" => (fields.micros / 1000, 3),
            "US" => (fields.micros, 6),
            "FF1" => (fields.micros / 100_000, 1),
            "FF2" => (fields.micros / 10_000, 2),
            "FF3" => (fields.micros / 1000, 3),
            "FF4" => (fields.micros / 100, 4),
            "FF5" => (fields.micros / 10, 5),
            "FF6" => (fields.micros, 6),
            "SSSS" | "SSSSS" => (seconds, 0),
            "YYYY" => (year, 4),
            "YYY" => (year % 1000, 3),
            "YY" => (year % 100, 2),
            "Y" => (year % 10, 1),
            "IYYY" => (shown(iso_week(self.day()?).0), 4),
            "IYY" => (shown(iso_week(self.day()?).0) % 1000, 3),
            "IY" => (shown(iso_week(self.day()?).0) % 100, 2),
            "I" => (shown(iso_week(self.day()?).0) % 10, 1),
            "MM" => (fields.month, 2),
            "DD" => (fields.day, 2),
            "DDD" => match self.days {
                Some(days) => (year_day(days), 3),
                None => (fields.year * 360 + fields.month * 30 + fields.day, 3),
            },
            "IDDD" => {
                let days = self.day()?;
                (days - iso_year_start(iso_week(days).0) + 1, 3)
            }
            "D" => (weekday(self.day()?) + 1, 1),
            "ID" => ((weekday(self.day()?) + 6) % 7 + 1, 1),
            "WW" => match self.days {
                Some(days) => ((year_day(days) - 1) / 7 + 1, 2),
                None => ((fields.year * 360 + fields.month * 30 + fields.day - 1) / 7 + 1, 2),
            },
            "IW" => (iso_week(self.day()?).1, 2),
            "W" => ((fields.day - 1) / 7 + 1, 1),
            "CC" => match self.days {
                None => (fields.year / 100, 2),
                Some(_) if fields.year > 0 => ((fields.year - 1) / 100 + 1, 2),
                Some(_) => (fields.year / 100 - 1, 2),
            },
            "J" => (days_of(fields.year, fields.month, fields.day) + 2_451_545, 0),
            "Q" if fields.month == 0 => return Ok(None),
            "Q" => ((fields.month - 1) / 3 + 1, 1),
            _ => return Ok(None),
        }))
    }

    /// The text of a word and its width.
    fn name(&self, word: &str) -> Result<(String, usize)> {
        let fields = &self.fields;
        let month = || MONTHS.get((fields.month - 1) as usize).copied().unwrap_or("");
        let is_noon = fields.hour % 24 >= 12;
        let text = match word {
            "MONTH" | "MON" if self.days.is_none() => return Err(no_date()),
            "MONTH" => return Ok((month().to_owned(), 9)),
            "MON" => month()[..3].to_owned(),
            "DAY" => return Ok((WEEKDAYS[weekday(self.day()?) as usize].to_owned(), 9)),
            "DY" => WEEKDAYS[weekday(self.day()?) as usize][..3].to_owned(),
            "AM" | "PM" => if is_noon { "PM" } else { "AM" }.to_owned(),
            "A.M." | "P.M." => if is_noon { "P.M." } else { "A.M." }.to_owned(),
            "BC" | "AD" | "B.C." | "A.D." => {
                self.day()?;
                let (bc, ad) = if word.contains('.') { ("B.C.", "A.D.") } else { ("BC", "AD") };
                if fields.year <= 0 { bc } else { ad }.to_owned()
            }
            "Y,YYY" => {
                let year = if fields.year > 0 { fields.year } else { 1 - fields.year };
                format!("{},{:03}", year / 1000, year % 1000)
            }
            "RM" => match usize::try_from(fields.month) {
                Ok(month) if month > 0 => return Ok((roman_digits(month), 4)),
                _ => String::new(),
            },
            "TZ" => match (&self.zone, self.days) {
                (Some((name, _)), _) => name.clone(),
                (None, Some(_)) => String::new(),
                (None, None) => return Err(no_date()),
            },
            "TZH" | "TZM" | "OF" => {
                self.day()?;
                let seconds = self.zone.as_ref().map_or(0, |(_, seconds)| *seconds);
                let sign = if seconds < 0 { '-' } else { '+' };
                let (hours, minutes) = (seconds.abs() / 3600, seconds.abs() / 60 % 60);
                match word {
                    "TZH" => format!("{sign}{hours:02}"),
                    "TZM" => format!("{minutes:02}"),
                    _ if minutes != 0 => format!("{sign}{hours:02}:{minutes:02}"),
                    _ => format!("{sign}{hours:02}"),
                }
            }
            _ => String::new(),
        };
        Ok((text, 0))
    }
}

fn show_timestamp(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    let micros = a[0].timestamp()?;
    let template = a[1].str()?;
    if template.is_empty() || !is_finite(micros) {
        return Ok(Datum::Null);
    }
    let session = &context.context.settings.zone;
    let (local, zone) = match &a[0] {
        Datum::Timestamptz(utc) => {
            let name = zone::abbreviation_at(session, *utc);
            (zone::to_local(session, *utc), Some((name, zone::offset_at(session, *utc))))
        }
        _ => (micros, None),
    };
    let fields = fields_of(local);
    Shown {
        fields,
        days: Some(fields.days()),
        zone,
    }
    .print(template)
}

fn show_interval(span: Span, template: &str) -> Result<Datum> {
    if template.is_empty() {
        return Ok(Datum::Null);
    }
    let fields = Fields {
        year: i64::from(span.months / 12),
        month: i64::from(span.months % 12),
        day: i64::from(span.days),
        hour: span.micros / HOUR,
        minute: span.micros / MINUTE % 60,
        second: span.micros / SECOND % 60,
        micros: span.micros % SECOND,
    };
    Shown {
        fields,
        days: None,
        zone: None,
    }
    .print(template)
}

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
                Part::Literal(literal) => scanner.skip(literal),
                Part::Field {
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
                    let is_bounded = !is_short && matches!(next, Some(Part::Field { .. }));
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

    /// Passes over a separator, or so many characters.
    fn skip(&mut self, literal: &str) {
        for expected in literal.chars() {
            if expected.is_whitespace() {
                self.blanks();
                continue;
            }
            if !expected.is_alphanumeric() {
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
        let most = if is_bounded { digits + sign } else { usize::MAX };
        let count = self.text[sign..].bytes().take_while(u8::is_ascii_digit).count();
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
        match found {
            Some(place) => {
                self.text = &self.text[length.unwrap_or(names[place].len())..];
                Ok(place as i64)
            }
            None => {
                let shown: String = self.text.chars().take(word.len()).collect();
                Err(invalid_value(&shown, word)
                    .detail("The given value did not match any of the allowed values for this field."))
            }
        }
    }

    fn fraction(&mut self, word: &str, digits: usize) -> Result<i64> {
        let count = self.text.bytes().take_while(u8::is_ascii_digit).count().min(digits);
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
                self.given.year = Some(if word.len() < 4 { full_year(year) } else { year });
            }
            "Y,YYY" => {
                let thousands = self.number(word, 1, false)?;
                self.text = self.text.strip_prefix(',').unwrap_or(self.text);
                self.given.year = Some(thousands * 1000 + self.number(word, 3, true)?);
            }
            "IYYY" | "IYY" | "IY" | "I" => {
                let year = self.number(word, word.len(), is_bounded)?;
                self.given.iso_year = Some(if word.len() < 4 { full_year(year) } else { year });
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
    Function::scalar("to_char", &[Timestamp, Text], Text, |context, a| show_timestamp(context, a))
        .stable(),
    Function::scalar("to_char", &[Timestamptz, Text], Text, |context, a| {
        show_timestamp(context, a)
    })
    .stable(),
    Function::scalar("to_char", &[Interval, Text], Text, |_, a| {
        show_interval(a[0].interval()?, a[1].str()?)
    })
    .stable(),
    Function::scalar("to_timestamp", &[Text, Text], Timestamptz, |context, a| {
        read_timestamp(context, a)
    })
    .stable(),
    Function::scalar("to_date", &[Text, Text], Date, |_, a| read_date(a)).stable(),
];
