//! Dates and timestamps of the proleptic Gregorian calendar.
//!
//! A [`Date`] counts days and a [`Timestamp`] counts microseconds since 1970-01-01 UTC; leap
//! seconds do not exist. Years are written with at least four digits, and those before year 0 with
//! a minus sign. Every value of both types prints to a text that reads back as the same value.

use std::fmt;

const MICROS_PER_DAY: i64 = 86_400_000_000;

/// Days since 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(pub i32);

/// Microseconds since 1970-01-01 00:00 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Date {
    /// The day of a calendar date; `None` if there is no such day or it is out of range.
    pub fn from_calendar(year: i64, month: u32, day: u32) -> Option<Self> {
        i32::try_from(days_from_calendar(year, month, day)?)
            .ok()
            .map(Self)
    }

    /// Reads `2026-11-21`.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let mut parts = rest.splitn(3, '-');
        let year = digits(parts.next()?, 4, 7)?;
        let month = digits(parts.next()?, 1, 2)?;
        let day = digits(parts.next()?, 1, 2)?;
        Self::from_calendar(
            if negative { -year } else { year },
            u32::try_from(month).ok()?,
            u32::try_from(day).ok()?,
        )
    }
}

impl Timestamp {
    /// Reads `2026-11-21 05:19:14.123456`; the time, its seconds and their fraction may be missing,
    /// `T` may stand for the blank, and `Z` or an offset like `+02:00` may follow the time.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, time) = match text.find([' ', 'T']) {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let day_micros = i128::from(Date::parse(date)?.0) * i128::from(MICROS_PER_DAY);
        let time_micros = time.map_or(Some(0), time_micros)?;
        i64::try_from(day_micros + i128::from(time_micros))
            .ok()
            .map(Self)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_day(f, i64::from(self.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print_day(f, self.0.div_euclid(MICROS_PER_DAY))?;
        let micros = self.0.rem_euclid(MICROS_PER_DAY);
        let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
        write!(
            f,
            " {:02}:{:02}:{:02}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        )?;
        if fraction == 0 {
            Ok(())
        } else {
            write!(f, ".{fraction:06}")
        }
    }
}

fn print_day(f: &mut fmt::Formatter<'_>, days: i64) -> fmt::Result {
    let (year, month, day) = calendar_from_days(days);
    let sign = if year < 0 { "-" } else { "" };
    write!(f, "{sign}{:04}-{month:02}-{day:02}", year.abs())
}

/// Microseconds of `05:19[:14[.123456]][Z|+02:00]`, in UTC.
fn time_micros(text: &str) -> Option<i64> {
    let (clock, offset_minutes) = match text.find(['Z', '+', '-']) {
        Some(at) if text[at..].starts_with('Z') => {
            if &text[at..] != "Z" {
                return None;
            }
            (&text[..at], 0)
        }
        Some(at) => {
            let (hours, minutes) = text[at + 1..]
                .split_once(':')
                .unwrap_or((&text[at + 1..], "00"));
            let (hours, minutes) = (digits(hours, 2, 2)?, digits(minutes, 2, 2)?);
            if hours > 18 || minutes > 59 {
                return None;
            }
            let offset = hours * 60 + minutes;
            (
                &text[..at],
                if text.as_bytes()[at] == b'-' {
                    -offset
                } else {
                    offset
                },
            )
        }
        None => (text, 0),
    };
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = clock.splitn(3, ':');
    let hours = digits(parts.next()?, 1, 2)?;
    let minutes = digits(parts.next()?, 2, 2)?;
    let seconds = parts.next().map_or(Some(0), |part| digits(part, 2, 2))?;
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let fraction_micros = digits(fraction, 1, 6)? * 10_i64.pow(6 - fraction.len() as u32);
    let minutes_utc = hours * 60 + minutes - offset_minutes;
    Some((minutes_utc * 60 + seconds) * 1_000_000 + fraction_micros)
}

/// A number of `least` to `most` decimal digits and nothing else.
fn digits(text: &str, least: usize, most: usize) -> Option<i64> {
    let well_formed =
        (least..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if well_formed { text.parse().ok() } else { None }
}

/// Days since 1970-01-01. Years are counted from March, so that the leap day is the last one.
fn days_from_calendar(year: i64, month: u32, day: u32) -> Option<i64> {
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    let march_year = if month <= 2 { year - 1 } else { year };
    let march_month = i64::from((month + 9) % 12);
    let era = march_year.div_euclid(400);
    let year_of_era = march_year.rem_euclid(400);
    let day_of_year = (153 * march_month + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

fn calendar_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

fn days_in_month(year: i64, month: u32) -> u32 {
    let leap = year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        assert_eq!(Date::parse("1970-01-01"), Some(Date(0)));
        assert_eq!(Date::parse("2000-02-29"), Some(Date(11_016)));
        assert_eq!(Date::parse("1969-12-31"), Some(Date(-1)));
        for text in [
            "2001-02-29",
            "1900-02-29",
            "2000-13-01",
            "2000-00-01",
            "2000-1",
            "x",
            "",
            "20-1-1",
        ] {
            assert_eq!(Date::parse(text), None, "{text}");
        }
    }

    #[test]
    fn extremes_print_and_read_back() {
        for days in [i32::MIN, -719_529, -719_528, -1, 0, 1, 2_932_897, i32::MAX] {
            assert_eq!(Date::parse(&Date(days).to_string()), Some(Date(days)));
        }
        for micros in [i64::MIN, -1, 0, 1, 999_999, 1_000_000, i64::MAX] {
            let printed = Timestamp(micros).to_string();
            assert_eq!(
                Timestamp::parse(&printed),
                Some(Timestamp(micros)),
                "{printed}"
            );
        }
    }

    #[test]
    fn timestamps_in_many_spellings() {
        let expected = Timestamp::parse("2026-11-21 05:19:14").unwrap();
        for text in [
            "2026-11-21T05:19:14Z",
            "2026-11-21 07:19:14+02",
            "2026-11-20T23:49:14.000-05:30",
        ] {
            assert_eq!(Timestamp::parse(text), Some(expected), "{text}");
        }
        for text in [
            "2026-11-21 05:19:14Z02",
            "2026-11-21 05:19:14Z+02",
            "2026-11-21 24:00:00",
            "2026-11-21 1",
            "2026-11-21 05:19:14.1234567",
            "now",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }
}
