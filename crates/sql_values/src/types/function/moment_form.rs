//! `to_char` of dates, times and intervals.
//!
//! A template is read into parts first, which `moment_read` shares. Names of months and days are
//! English, as in the locale C.

use super::super::context::CallContext;
use super::super::datetime::calendar::{
    Fields, HOUR, MINUTE, SECOND, days_of, fields_of, is_finite, iso_week, iso_year_start, weekday,
    year_day,
};
use super::super::datetime::zone;
use super::super::datum::Datum;
use super::super::interval::Interval as Span;
use super::super::kind::Kind::{Interval, Text, Timestamp, Timestamptz};
use super::super::text_io::{append, is_space};
use super::Function;
use super::number_form::{ordinal_ending, roman_digits};
use crate::error::{Result, SqlError, SqlState};

/// The words of templates; of two that fit the first one counts. `FX` says nothing here.
const WORDS: &[&str] = &[
    "SSSSS", "SSSS", "Y,YYY", "YYYY", "YYY", "YY", "Y", "IYYY", "IYY", "IY", "IDDD", "ID", "IW",
    "I", "HH24", "HH12", "HH", "MONTH", "MON", "MM", "MI", "MS", "SS", "US", "FF1", "FF2", "FF3",
    "FF4", "FF5", "FF6", "FX", "A.M.", "P.M.", "AM", "PM", "B.C.", "A.D.", "BC", "AD", "DAY",
    "DDD", "DD", "DY", "D", "WW", "W", "CC", "J", "Q", "RM", "TZH", "TZM", "TZ", "OF",
];

/// Words that may begin with a capital and go on in small letters.
const CAPITALIZED: &[&str] = &["MONTH", "MON", "DAY", "DY"];

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(super) const WEEKDAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// How the letters of a word are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Letters {
    Upper,
    Capital,
    Lower,
}

impl Letters {
    /// The letters in which a word stands here, if it does. A word in other letters is none.
    fn of(word: &str, here: &str) -> Option<Self> {
        if here == word {
            return Some(Self::Upper);
        }
        let has_capitals = here.bytes().any(|byte| byte.is_ascii_uppercase());
        if !has_capitals && here.eq_ignore_ascii_case(word) {
            return Some(Self::Lower);
        }
        let is_capital = CAPITALIZED.contains(&word) && here == Self::Capital.spell(word);
        is_capital.then_some(Self::Capital)
    }

    /// A word of templates in these letters.
    pub(super) fn spell(self, word: &str) -> String {
        match self {
            Self::Upper => word.to_owned(),
            Self::Capital => word[..1].to_owned() + &word[1..].to_ascii_lowercase(),
            Self::Lower => word.to_ascii_lowercase(),
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

/// A part of a template.
pub(super) enum Pattern {
    Field {
        word: &'static str,
        letters: Letters,
        /// `FM`: without blanks and zeros.
        is_short: bool,
        /// `TH` or `th` behind a number.
        ordinal: Option<bool>,
    },
    /// Characters in quotes, or a letter that is no word.
    Literal(String),
    /// A blank or a punctuation mark.
    Separator(char),
}

/// The text after a word in capitals, or after the same in small letters.
pub(super) fn after_word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let here = text.get(..word.len())?;
    let is_word = matches!(
        Letters::of(word, here),
        Some(Letters::Upper | Letters::Lower)
    );
    is_word.then(|| &text[word.len()..])
}

/// The parts of a template.
pub(super) fn parts(template: &str) -> Vec<Pattern> {
    let mut parts = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        // A prefix counts for the word right after it.
        let short = after_word(rest, "FM");
        let prefixed = short.or_else(|| after_word(rest, "TM"));
        rest = prefixed.unwrap_or(rest);
        let found = WORDS.iter().copied().find_map(|word| {
            let here = rest.get(..word.len())?;
            Some((word, Letters::of(word, here)?))
        });
        if let Some((word, letters)) = found {
            rest = &rest[word.len()..];
            let ordinal = after_word(rest, "TH").map(|_| rest.starts_with('T'));
            if ordinal.is_some() || rest.starts_with("SP") {
                rest = &rest[2..];
            }
            parts.push(Pattern::Field {
                word,
                letters,
                // Names in the language of the locale have no blanks after them.
                is_short: short.is_some() || (prefixed.is_some() && CAPITALIZED.contains(&word)),
                ordinal,
            });
        } else if let Some((literal, after)) = literal(rest) {
            let mark = literal.chars().next().filter(|_| !rest.starts_with('"'));
            let mark = mark.filter(|mark| is_space(*mark) || mark.is_ascii_punctuation());
            if !literal.is_empty() {
                parts.push(mark.map_or(Pattern::Literal(literal), Pattern::Separator));
            }
            rest = after;
        }
    }
    parts
}

/// The text at the front of a template that stands for itself, and what follows. A backslash
/// outside of quotes is one, except before a quote.
pub(super) fn literal(rest: &str) -> Option<(String, &str)> {
    if let Some(rest) = rest.strip_prefix('"') {
        return Some(quoted(rest));
    }
    let is_escape = rest.starts_with("\\\"");
    let rest = if is_escape { &rest[1..] } else { rest };
    let first = rest.chars().next()?;
    Some((first.to_string(), &rest[first.len_utf8()..]))
}

/// The text up to the next quote, in which a backslash escapes.
fn quoted(rest: &str) -> (String, &str) {
    let mut out = String::new();
    let mut characters = rest.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (out, &rest[at + 1..]),
            '\\' => out.push(characters.next().map_or('\\', |(_, escaped)| escaped)),
            other => out.push(other),
        }
    }
    (out, "")
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
                Pattern::Literal(text) => out.push_str(&text),
                Pattern::Separator(mark) => out.push(mark),
                Pattern::Field {
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
            // The sign takes a place of its own, but not in days and weeks.
            let sign = usize::from(value < 0 && width > 0 && !matches!(word, "DD" | "DDD" | "WW"));
            append(out, format_args!("{value:0width$}", width = width + sign));
            if let Some(is_upper) = ordinal {
                let ending = ordinal_ending(value.unsigned_abs());
                out.push_str(&if is_upper {
                    ending.to_uppercase()
                } else {
                    ending.to_owned()
                });
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
        let twelve = if fields.hour % 12 == 0 {
            12
        } else {
            fields.hour % 12
        };
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
                None => (
                    (fields.year * 360 + fields.month * 30 + fields.day - 1) / 7 + 1,
                    2,
                ),
            },
            "IW" => (iso_week(self.day()?).1, 2),
            "W" => ((fields.day - 1) / 7 + 1, 1),
            "CC" => match self.days {
                None => (fields.year / 100, 2),
                Some(_) if fields.year > 0 => ((fields.year - 1) / 100 + 1, 2),
                Some(_) => (fields.year / 100 - 1, 2),
            },
            "J" => (
                days_of(fields.year, fields.month, fields.day) + 2_451_545,
                0,
            ),
            "Q" if fields.month == 0 => return Ok(None),
            "Q" => ((fields.month - 1) / 3 + 1, 1),
            _ => return Ok(None),
        }))
    }

    /// The month that is shown in Roman digits. Those of a span before zero count from its end,
    /// and whole years show their last month, or the first one before zero.
    fn roman_month(&self) -> Option<usize> {
        let month = match (self.fields.month, self.fields.year) {
            (0, 0) => return None,
            (0, year) if year < 0 => 1,
            (0, _) => 12,
            (month, _) if month < 0 => 13 + month,
            (month, _) => month,
        };
        usize::try_from(month).ok()
    }

    /// The text of a word and its width.
    fn name(&self, word: &str) -> Result<(String, usize)> {
        let fields = &self.fields;
        let month = || {
            MONTHS
                .get((fields.month - 1) as usize)
                .copied()
                .unwrap_or("")
        };
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
                let (bc, ad) = if word.contains('.') {
                    ("B.C.", "A.D.")
                } else {
                    ("BC", "AD")
                };
                if fields.year <= 0 { bc } else { ad }.to_owned()
            }
            "Y,YYY" => {
                let year = if fields.year > 0 {
                    fields.year
                } else {
                    1 - fields.year
                };
                format!("{},{:03}", year / 1000, year % 1000)
            }
            "RM" => match self.roman_month() {
                Some(month) => return Ok((roman_digits(month), 4)),
                None => String::new(),
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
            (
                zone::to_local(session, *utc),
                Some((name, zone::offset_at(session, *utc))),
            )
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

/// The table.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::scalar("to_char", &[Timestamp, Text], Text, |context, a| {
        show_timestamp(context, a)
    })
    .stable(),
    Function::scalar("to_char", &[Timestamptz, Text], Text, |context, a| {
        show_timestamp(context, a)
    })
    .stable(),
    Function::scalar("to_char", &[Interval, Text], Text, |_, a| {
        show_interval(a[0].interval()?, a[1].str()?)
    })
    .stable(),
];
