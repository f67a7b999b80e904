//! `to_date` and `to_timestamp`: moments of texts, by a template.
//!
//! The text is read part by part into [`Given`]; separators match any separator, and a number has
//! the digits of its word where another one follows. Then the fields make a date and a time.

use super::super::context::CallContext;
use super::super::datetime::calendar::{
    DATE_END, DATE_MIN, EPOCH_JULIAN_DAY, HOUR, MINUTE, SECOND, date_of, days_of, is_leap,
    is_valid, iso_year_start, month_days, timestamp_of, timestamp_out_of_range,
};
use super::super::datetime::convert::rounded;
use super::super::datetime::zone;
use super::super::datum::Datum;
use super::super::kind::Kind::{Date, Text, Timestamptz};
use super::super::text_io::is_space;
use super::Function;
use super::moment_form::{Letters, MONTHS, Pattern, WEEKDAYS, parts};
use super::number_form::roman_digits;
use crate::error::{Result, SqlError, SqlState};

/// Hours of the largest offset of a zone.
const ZONE_HOURS_MAX: i64 = 15;

/// The fields that a text has given; those that it has not given are 0.
#[derive(Default)]
struct Given {
    year: i64,
    /// Digits of the year's word.
    year_digits: usize,
    century: i64,
    month: i64,
    day: i64,
    year_day: i64,
    week: i64,
    month_week: i64,
    /// From Sunday as 1.
    weekday: i64,
    julian: i64,
    hour: i64,
    minute: i64,
    second: i64,
    millis: i64,
    micros: i64,
    /// Digits after the seconds, if their word tells them.
    fraction_digits: Option<u8>,
    seconds_of_day: i64,
    is_pm: i64,
    is_bc: i64,
    has_twelve_hours: bool,
    zone_hours: i64,
    zone_minutes: i64,
    zone_sign: i64,
    calendar: Option<Calendar>,
}

/// The calendar of the words that a template has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calendar {
    Gregorian,
    IsoWeek,
}

impl Calendar {
    fn of(word: &str) -> Option<Self> {
        match word {
            "IDDD" | "ID" | "IW" | "IYYY" | "IYY" | "IY" | "I" => Some(Self::IsoWeek),
            "DDD" | "DD" | "D" | "MM" | "MONTH" | "MON" | "RM" | "WW" | "W" | "Y,YYY" | "YYYY"
            | "YYY" | "YY" | "Y" => Some(Self::Gregorian),
            _ => None,
        }
    }
}

/// A word of the template where it is read.
#[derive(Clone, Copy)]
struct Word {
    name: &'static str,
    letters: Letters,
    /// Whether a number ends after the digits of the word.
    is_bounded: bool,
}

struct Scanner<'t> {
    whole: &'t str,
    /// The rest of it.
    text: &'t str,
    given: Given,
    /// `FX`: blanks are not passed over, and each separator is one character.
    is_exact: bool,
    /// Characters that were passed over beyond those of the template.
    surplus: i64,
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
}

fn overflow(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

impl Word {
    fn shown(self) -> String {
        self.letters.spell(self.name)
    }

    fn refused(self, text: &str) -> SqlError {
        invalid(format!("invalid value \"{text}\" for \"{}\"", self.shown()))
    }

    fn out_of_range(self) -> SqlError {
        let shown = self.shown();
        overflow(format!(
            "value for \"{shown}\" in source string is out of range"
        ))
        .detail(format!(
            "Value must be in the range {} to {}.",
            i32::MIN,
            i32::MAX
        ))
    }

    /// Gives a field its value, unless it has another one.
    fn set(self, field: &mut i64, value: i64) -> Result<()> {
        if *field != 0 && *field != value {
            let shown = self.shown();
            return Err(invalid(format!(
                "conflicting values for \"{shown}\" field in formatting string"
            ))
            .detail("This value contradicts a previous setting for the same field type."));
        }
        *field = value;
        Ok(())
    }

    /// The digits of the number that the word stands for.
    fn digits(self) -> usize {
        match self.name {
            "HH24" | "HH12" | "HH" | "TZH" | "TZM" => 2,
            "MS" | "IDDD" => 3,
            "US" => 6,
            "ID" => 1,
            "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                usize::from(self.name.as_bytes()[2] - b'0')
            }
            word => word.len(),
        }
    }
}

/// Whether a number ends after the digits of its word, as another one may follow right after it.
fn is_bounded(part: &Pattern, next: Option<&Pattern>) -> bool {
    const NAMES: &[&str] = &[
        "A.M.", "P.M.", "AM", "PM", "B.C.", "A.D.", "BC", "AD", "DAY", "DY", "MONTH", "MON", "RM",
        "TZH", "TZ", "OF", "FX",
    ];
    let has_end = matches!(
        part,
        Pattern::Field {
            is_short: false,
            ordinal: None,
            ..
        }
    );
    has_end
        && match next {
            Some(Pattern::Field { word, .. }) => !NAMES.contains(word),
            Some(Pattern::Literal(text)) => text.starts_with(|c: char| c.is_ascii_digit()),
            Some(Pattern::Separator(_)) | None => false,
        }
}

impl<'t> Scanner<'t> {
    fn scan(text: &'t str, template: &str) -> Result<Given> {
        let mut scanner = Scanner {
            whole: text,
            text,
            given: Given::default(),
            is_exact: false,
            surplus: 0,
        };
        let parts = parts(template);
        for (place, part) in parts.iter().enumerate() {
            if scanner.text.is_empty() {
                break;
            }
            if place == 0 && !matches!(part, Pattern::Field { word: "FX", .. }) {
                scanner.blanks();
            }
            match part {
                Pattern::Separator(_) => scanner.separator(),
                Pattern::Literal(literal) => scanner.letters(literal.chars().count()),
                Pattern::Field { word: "FX", .. } => scanner.is_exact = true,
                Pattern::Field {
                    word,
                    letters,
                    ordinal,
                    ..
                } => {
                    scanner.blanks();
                    let is_number = scanner.field(Word {
                        name: word,
                        letters: *letters,
                        is_bounded: is_bounded(part, parts.get(place + 1)),
                    })?;
                    if is_number && ordinal.is_some() {
                        scanner.pass(2);
                    }
                    scanner.surplus = 0;
                    scanner.blanks();
                }
            }
        }
        Ok(scanner.given)
    }

    /// Passes over so many characters.
    fn pass(&mut self, count: usize) {
        let mut rest = self.text.chars();
        rest.by_ref().take(count).for_each(drop);
        self.text = rest.as_str();
    }

    fn blanks(&mut self) {
        if !self.is_exact {
            let rest = self.text.trim_start_matches(is_space);
            self.surplus += (self.text.len() - rest.len()) as i64;
            self.text = rest;
        }
    }

    /// Any separator stands for any other, and for none.
    fn separator(&mut self) {
        let is_separator = |c: char| is_space(c) || c.is_ascii_punctuation();
        if self.is_exact {
            self.pass(1);
        } else if self.text.starts_with(is_separator) {
            self.text = &self.text[1..];
        } else {
            self.surplus -= 1;
        }
    }

    /// Any characters stand for those of the template.
    fn letters(&mut self, count: usize) {
        for _ in 0..count {
            if self.surplus > 0 && !self.is_exact {
                self.surplus -= 1;
            } else {
                self.pass(1);
            }
        }
    }

    /// The sign of a zone, which may have been taken for a separator.
    fn zone_sign(&mut self) -> i64 {
        let is_negative = if self.text.starts_with(['+', '-', ' ']) {
            let is_negative = self.text.starts_with('-');
            self.text = &self.text[1..];
            is_negative
        } else {
            let before = &self.whole[..self.whole.len() - self.text.len()];
            self.surplus > 0 && before.ends_with('-')
        };
        if is_negative { -1 } else { 1 }
    }

    /// A number with its sign, and how many characters it had.
    fn number(&mut self, word: Word) -> Result<(i64, usize)> {
        self.text = self.text.trim_start_matches(is_space);
        let digits = word.digits();
        let cut = &self.text[..self.text.floor_char_boundary(digits)];
        if word.is_bounded && self.text.len() < digits {
            let left = self.text.len();
            let shown = word.shown();
            return Err(invalid(format!(
                "source string too short for \"{shown}\" formatting field"
            ))
            .detail(format!(
                "Field requires {digits} characters, but only {left} remain."
            ))
            .hint(NOT_FIXED));
        }
        let source = if word.is_bounded { cut } else { self.text };
        let sign = usize::from(source.starts_with(['-', '+']));
        let digit = |byte: &u8| byte.is_ascii_digit();
        let count = source[sign..].bytes().take_while(digit).count();
        if count == 0 {
            return Err(word.refused(cut).detail("Value must be an integer."));
        }
        let length = sign + count;
        if word.is_bounded && length < digits {
            let detail =
                format!("Field requires {digits} characters, but only {length} could be parsed.");
            return Err(word.refused(cut).detail(detail).hint(NOT_FIXED));
        }
        let number = source[..length].parse::<i32>();
        let number = number.map_err(|_| word.out_of_range())?;
        self.text = &self.text[length..];
        Ok((i64::from(number), length))
    }

    /// The place of the name at the front of the text.
    fn one_of(&mut self, word: Word, names: &[&str]) -> Result<i64> {
        let is_here = |name: &&str| {
            let here = self.text.get(..name.len());
            here.is_some_and(|here| here.eq_ignore_ascii_case(name))
        };
        let Some(place) = names.iter().position(is_here) else {
            let blank = self.text.find(|c: char| c.is_ascii_whitespace());
            let shown = &self.text[..blank.unwrap_or(self.text.len())];
            return Err(word.refused(shown).detail(
                "The given value did not match any of the allowed values for this field.",
            ));
        };
        self.text = &self.text[names[place].len()..];
        Ok(place as i64)
    }

    /// Digits after the point: fewer than `most` have zeros after them.
    fn fraction(&mut self, word: Word, most: usize) -> Result<()> {
        let (value, length) = self.number(word)?;
        let field = if most == 3 {
            &mut self.given.millis
        } else {
            &mut self.given.micros
        };
        word.set(field, value)?;
        *field *= 10_i64.pow(most.saturating_sub(length) as u32);
        Ok(())
    }

    /// Reads a field, and says whether it is a number.
    fn field(&mut self, word: Word) -> Result<bool> {
        if let Some(calendar) = Calendar::of(word.name) {
            let known = *self.given.calendar.get_or_insert(calendar);
            if known != calendar {
                let hint = "Do not mix Gregorian and ISO week date conventions in a formatting \
                            template.";
                return Err(invalid("invalid combination of date conventions").hint(hint));
            }
        }
        if self.name(word)? {
            return Ok(false);
        }
        match word.name {
            "Y,YYY" => self.year_with_comma(word)?,
            "YYYY" | "YYY" | "YY" | "Y" | "IYYY" | "IYY" | "IY" | "I" => self.year(word)?,
            "MS" => self.fraction(word, 3)?,
            "US" => self.fraction(word, 6)?,
            "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                self.given.fraction_digits = Some(word.digits() as u8);
                self.fraction(word, 6)?;
            }
            "ID" => {
                let (day, _) = self.number(word)?;
                word.set(&mut self.given.weekday, day)?;
                self.given.weekday = if day >= 7 { 1 } else { day + 1 };
            }
            _ => {
                let (number, _) = self.number(word)?;
                if let Some(field) = self.given.number(word.name) {
                    word.set(field, number)?;
                }
            }
        }
        Ok(true)
    }

    /// Reads a field that has no digits, or is no number; false if it is another one.
    fn name(&mut self, word: Word) -> Result<bool> {
        match word.name {
            "AM" | "PM" => self.half_day(word, &["AM", "PM"])?,
            "A.M." | "P.M." => self.half_day(word, &["A.M.", "P.M."])?,
            "BC" | "AD" => self.era(word, &["AD", "BC"])?,
            "B.C." | "A.D." => self.era(word, &["A.D.", "B.C."])?,
            "MONTH" | "MON" => {
                let month = self.one_of(word, &names_of(&MONTHS, word.name == "MON"))?;
                word.set(&mut self.given.month, month + 1)?;
            }
            "DAY" | "DY" => {
                let day = self.one_of(word, &names_of(&WEEKDAYS, word.name == "DY"))?;
                word.set(&mut self.given.weekday, day)?;
                self.given.weekday = day + 1;
            }
            "RM" => {
                // The longest one that fits counts.
                let months: Vec<String> = (1..=12).rev().map(roman_digits).collect();
                let months: Vec<&str> = months.iter().map(String::as_str).collect();
                let place = self.one_of(word, &months)?;
                word.set(&mut self.given.month, 12 - place)?;
            }
            "TZH" => {
                self.given.zone_sign = self.zone_sign();
                let (hours, _) = self.number(word)?;
                word.set(&mut self.given.zone_hours, hours)?;
            }
            "TZM" => {
                if self.given.zone_sign == 0 {
                    self.given.zone_sign = 1;
                }
                let (minutes, _) = self.number(word)?;
                word.set(&mut self.given.zone_minutes, minutes)?;
            }
            "TZ" | "OF" => {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!(
                        "formatting field \"{}\" is only supported in to_char",
                        word.shown()
                    ),
                ));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn half_day(&mut self, word: Word, names: &[&str]) -> Result<()> {
        let half = self.one_of(word, names)?;
        self.given.has_twelve_hours = true;
        word.set(&mut self.given.is_pm, half)
    }

    fn era(&mut self, word: Word, names: &[&str]) -> Result<()> {
        let era = self.one_of(word, names)?;
        word.set(&mut self.given.is_bc, era)
    }

    fn year(&mut self, word: Word) -> Result<()> {
        let (year, length) = self.number(word)?;
        word.set(&mut self.given.year, year)?;
        self.given.year_digits = word.name.len();
        if self.given.year_digits < 4 && length < 4 {
            self.given.year = full_year(year);
        }
        Ok(())
    }

    fn year_with_comma(&mut self, word: Word) -> Result<()> {
        let bad = || invalid("invalid input string for \"Y,YYY\"");
        let (thousands, rest) = self.text.split_once(',').ok_or_else(bad)?;
        let thousands: i64 = thousands.parse::<i32>().map_err(|_| bad())?.into();
        let count = rest.bytes().take(3).take_while(u8::is_ascii_digit).count();
        let years: i64 = rest[..count].parse::<i32>().map_err(|_| bad())?.into();
        let year = i32::try_from(thousands * 1000 + years).map_err(|_| word.out_of_range())?;
        word.set(&mut self.given.year, year.into())?;
        self.given.year_digits = 4;
        self.text = &rest[count..];
        Ok(())
    }
}

const NOT_FIXED: &str = "If your source string is not fixed-width, try using the \"FM\" modifier.";

/// Names, or their first three letters.
fn names_of<'n>(names: &[&'n str], is_short: bool) -> Vec<&'n str> {
    let cut = |name: &&'n str| if is_short { &name[..3] } else { *name };
    names.iter().map(cut).collect()
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
    /// The field of a word that is a number and nothing else. A quarter says nothing that a date
    /// needs.
    fn number(&mut self, word: &str) -> Option<&mut i64> {
        Some(match word {
            "HH24" => &mut self.hour,
            "HH12" | "HH" => {
                self.has_twelve_hours = true;
                &mut self.hour
            }
            "MI" => &mut self.minute,
            "SS" => &mut self.second,
            "SSSS" | "SSSSS" => &mut self.seconds_of_day,
            "CC" => &mut self.century,
            "MM" => &mut self.month,
            "DD" => &mut self.day,
            "DDD" | "IDDD" => &mut self.year_day,
            "D" => &mut self.weekday,
            "WW" | "IW" => &mut self.week,
            "W" => &mut self.month_week,
            "J" => &mut self.julian,
            _ => return None,
        })
    }

    fn out_of_range(text: &str) -> SqlError {
        overflow(format!("date/time field value out of range: \"{text}\""))
    }

    /// The year that is given, where 0 is 1 BC; none without one.
    fn full_year(&self) -> Option<i64> {
        let century = match self.is_bc {
            0 => self.century,
            _ => -self.century,
        };
        match (self.year, self.century) {
            (0, 0) => None,
            // A century begins with its year 1, and one BC ends with it.
            (0, _) if century >= 0 => Some((century - 1) * 100 + 1),
            (0, _) => Some(century * 100 + 1),
            (year, given) if given != 0 && self.year_digits <= 2 => {
                Some(match (year % 100, century) {
                    (0, 0..) => century * 100,
                    (0, _) => century * 100 + 1,
                    (year, 0..) => (century - 1) * 100 + year,
                    (year, _) => (century + 1) * 100 - year + 1,
                })
            }
            (year, _) => {
                let year = if self.is_bc == 0 { year } else { -year };
                Some(if year < 0 { year + 1 } else { year })
            }
        }
    }

    /// Days since 2000-01-01.
    fn days(&self, text: &str) -> Result<i64> {
        let is_iso = self.calendar == Some(Calendar::IsoWeek);
        let given = self.full_year();
        // Without a year it is 1 BC.
        let (mut year, mut month, mut day) = (given.unwrap_or(0), 1, 1);
        if self.julian != 0 {
            (year, month, day) = date_of(self.julian - EPOCH_JULIAN_DAY);
        }
        let mut year_day = self.year_day;
        if self.week != 0 && is_iso {
            let weekday = if self.weekday == 0 {
                0
            } else {
                (self.weekday + 5) % 7
            };
            let start = iso_year_start(year) + (self.week - 1) * 7;
            (year, month, day) = date_of(start + weekday);
        } else if self.week != 0 {
            year_day = (self.week - 1) * 7 + 1;
        }
        let own_day = match self.month_week {
            0 => self.day,
            week => (week - 1) * 7 + 1,
        };
        day = if own_day == 0 { day } else { own_day };
        month = if self.month == 0 { month } else { self.month };
        if year_day != 0 && (month <= 1 || day <= 1) {
            if year == 0 && self.is_bc == 0 {
                let message = "cannot calculate day of year without year information";
                return Err(invalid(message));
            }
            if is_iso {
                return Ok(iso_year_start(year) + year_day - 1);
            }
            if !(1..=if is_leap(year) { 366 } else { 365 }).contains(&year_day) {
                return Err(Self::out_of_range(text));
            }
            let (_, found_month, found_day) = date_of(days_of(year, 1, 1) + year_day - 1);
            month = if month <= 1 { found_month } else { month };
            day = if day <= 1 { found_day } else { day };
        }
        // Without a year the days of the month are not known.
        let has_year = given.is_some() || self.julian != 0;
        let last = if has_year {
            month_days(year, month)
        } else {
            31
        };
        if !(1..=12).contains(&month) || !(1..=last).contains(&day) {
            return Err(Self::out_of_range(text));
        }
        Ok(days_of(year, month, day))
    }

    /// Microseconds since midnight.
    fn time(&self, text: &str) -> Result<i64> {
        let or = |given: i64, other: i64| if given == 0 { other } else { given };
        let mut hour = or(self.hour, self.seconds_of_day / 3600);
        let minute = or(self.minute, self.seconds_of_day / 60 % 60);
        let second = or(self.second, self.seconds_of_day % 60);
        if self.has_twelve_hours {
            if !(1..=12).contains(&hour) {
                let message = format!("hour \"{hour}\" is invalid for the 12-hour clock");
                let hint = "Use the 24-hour clock, or give an hour between 1 and 12.";
                return Err(invalid(message).hint(hint));
            }
            hour = hour % 12 + 12 * self.is_pm;
        }
        let micros = self.millis * 1000 + self.micros;
        let fits = (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second)
            && (0..SECOND).contains(&micros);
        if !fits {
            return Err(Self::out_of_range(text));
        }
        Ok(hour * HOUR + minute * MINUTE + second * SECOND + micros)
    }

    /// Microseconds east of Greenwich, if there is a zone.
    fn zone(&self, text: &str) -> Result<Option<i64>> {
        if self.zone_sign == 0 {
            return Ok(None);
        }
        let (hours, minutes) = (self.zone_hours, self.zone_minutes);
        if !(0..=ZONE_HOURS_MAX).contains(&hours) || !(0..60).contains(&minutes) {
            let message = format!("time zone displacement out of range: \"{text}\"");
            let state = SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE;
            return Err(SqlError::new(state, message));
        }
        Ok(Some(self.zone_sign * (hours * HOUR + minutes * MINUTE)))
    }
}

fn read_timestamp(context: &CallContext<'_>, a: &[Datum]) -> Result<Datum> {
    let text = a[0].str()?;
    let given = Scanner::scan(text, a[1].str()?)?;
    let (days, time, zone) = (given.days(text)?, given.time(text)?, given.zone(text)?);
    let local = timestamp_of(days, time).ok_or_else(timestamp_out_of_range)?;
    let utc = match zone {
        Some(zone) => local - zone,
        None => zone::to_utc(&context.context.settings.zone, local),
    };
    let utc = given
        .fraction_digits
        .map_or(utc, |digits| rounded(utc, digits));
    if !is_valid(utc) {
        return Err(timestamp_out_of_range());
    }
    Ok(Datum::Timestamptz(utc))
}

fn read_date(a: &[Datum]) -> Result<Datum> {
    let text = a[0].str()?;
    let given = Scanner::scan(text, a[1].str()?)?;
    let days = given.days(text)?;
    given.time(text)?;
    given.zone(text)?;
    if !(i64::from(DATE_MIN)..i64::from(DATE_END)).contains(&days) {
        return Err(overflow(format!("date out of range: \"{text}\"")));
    }
    Ok(Datum::Date(days as i32))
}

/// The table.
pub(super) const FUNCTIONS: &[Function] = &[
    Function::scalar("to_timestamp", &[Text, Text], Timestamptz, |context, a| {
        read_timestamp(context, a)
    })
    .stable(),
    Function::scalar("to_date", &[Text, Text], Date, |_, a| read_date(a)).stable(),
];
