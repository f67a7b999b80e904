//! Texts of dates, times and intervals taken apart into tokens, and the words among them.
//!
//! Tokens are those of PostgreSQL: a run of digits is a number, with colons a time, with hyphens,
//! slashes or points a date; letters are a word; a sign with digits is a zone or a signed number.
//! Other punctuation is ignored.

/// A part of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Token<'t> {
    /// Digits, perhaps with a point.
    Number(&'t str),
    /// Digits, letters and separators.
    Date(&'t str),
    /// Digits and colons.
    Time(&'t str),
    /// A sign and digits.
    Signed(&'t str),
    /// Letters, in lower case.
    Word(String),
}

/// The most tokens of a text.
const TOKENS_MAX: usize = 25;

/// The tokens of a text, unless a sign stands alone or there are too many.
pub fn split(text: &str) -> Option<Vec<Token<'_>>> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if tokens.len() > TOKENS_MAX {
            return None;
        }
        if byte.is_ascii_whitespace() || byte == 0x0b {
            at += 1;
        } else if byte.is_ascii_digit() {
            let (token, end) = number(text, at);
            tokens.push(token);
            at = end;
        } else if byte == b'.' {
            let end = run(bytes, at + 1, |byte| byte.is_ascii_digit());
            tokens.push(Token::Number(&text[at..end]));
            at = end;
        } else if byte.is_ascii_alphabetic() || byte >= 0x80 {
            let (token, end) = word(text, at);
            tokens.push(token);
            at = end;
        } else if byte == b'+' || byte == b'-' {
            let start = run(bytes, at + 1, |byte| byte.is_ascii_whitespace());
            let next = bytes.get(start).copied()?;
            if next.is_ascii_digit() || next == b'.' {
                let is_part =
                    |byte: u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b'-');
                let end = run(bytes, start, is_part);
                // Blanks after the sign are rare enough that such a text is refused with them.
                if start != at + 1 {
                    return None;
                }
                tokens.push(Token::Signed(&text[at..end]));
                at = end;
            } else if next.is_ascii_alphabetic() {
                let end = run(bytes, start, |byte| byte.is_ascii_alphabetic());
                let sign = char::from(byte);
                tokens.push(Token::Word(format!(
                    "{sign}{}",
                    text[start..end].to_ascii_lowercase()
                )));
                at = end;
            } else {
                return None;
            }
        } else if byte.is_ascii_punctuation() {
            at += 1;
        } else {
            return None;
        }
    }
    Some(tokens)
}

/// The end of the bytes from `start` that fulfil the condition.
fn run(bytes: &[u8], start: usize, is_part: impl Fn(u8) -> bool) -> usize {
    let rest = bytes.get(start..).unwrap_or(&[]);
    start + rest.iter().take_while(|byte| is_part(**byte)).count()
}

fn number(text: &str, start: usize) -> (Token<'_>, usize) {
    let bytes = text.as_bytes();
    let at = |place: usize| bytes.get(place).copied().unwrap_or(0);
    let is_digit = |byte: u8| byte.is_ascii_digit();
    let end = run(bytes, start, is_digit);
    match at(end) {
        b':' => {
            let end = run(bytes, end, |byte| {
                is_digit(byte) || matches!(byte, b':' | b'.')
            });
            (Token::Time(&text[start..end]), end)
        }
        delimiter @ (b'-' | b'/' | b'.') => {
            if !is_digit(at(end + 1)) {
                let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == delimiter;
                let stop = run(bytes, end + 1, is_part);
                if delimiter == b'.' && stop == end + 1 {
                    return (Token::Number(&text[start..stop]), stop);
                }
                return (Token::Date(&text[start..stop]), stop);
            }
            let second = run(bytes, end + 1, is_digit);
            if at(second) == delimiter {
                let is_part = |byte: u8| is_digit(byte) || byte == delimiter;
                let stop = run(bytes, second, is_part);
                return (Token::Date(&text[start..stop]), stop);
            }
            let token = match delimiter {
                b'.' => Token::Number(&text[start..second]),
                _ => Token::Date(&text[start..second]),
            };
            (token, second)
        }
        _ => (Token::Number(&text[start..end]), end),
    }
}

fn word(text: &str, start: usize) -> (Token<'_>, usize) {
    let bytes = text.as_bytes();
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte >= 0x80;
    let end = run(bytes, start, is_letter);
    let next = bytes.get(end).copied().unwrap_or(0);
    let lower = text[start..end].to_ascii_lowercase();
    let goes_on = match next {
        b'-' | b'/' | b'.' => true,
        // A zone such as UTC+3, but not a word of its own before a number.
        b'+' | b'0'..=b'9' => !is_known(&lower) && lower.len() >= 3,
        _ => false,
    };
    if !goes_on {
        return (Token::Word(lower), end);
    }
    let is_part = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'/' | b'_' | b'.' | b':')
    };
    let stop = run(bytes, end, is_part);
    (Token::Date(&text[start..stop]), stop)
}

/// Whether the word has a meaning in dates and times.
fn is_known(word: &str) -> bool {
    month(word).is_some()
        || is_weekday(word)
        || matches!(word, "am" | "pm" | "bc" | "ad" | "bce" | "ce")
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

const WEEKDAYS: [&str; 7] = [
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
];

/// The month of a name or its abbreviation, from 1.
pub fn month(word: &str) -> Option<i64> {
    let is_name = |name: &str| {
        name == word || name[..3] == *word || (word == "sept" && name.starts_with("sept"))
    };
    MONTHS
        .iter()
        .position(|name| is_name(name))
        .map(|place| place as i64 + 1)
}

/// Whether it is a day of the week, which says nothing that the date does not.
pub fn is_weekday(word: &str) -> bool {
    let short = ["tues", "weds", "thur", "thurs"];
    short.contains(&word)
        || WEEKDAYS
            .iter()
            .any(|name| *name == word || name[..3] == *word)
}

/// A unit of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// 1000 years.
    Millennium,
    /// 100 years.
    Century,
    /// 10 years.
    Decade,
    /// A year.
    Year,
    /// Three months.
    Quarter,
    /// A month.
    Month,
    /// Seven days.
    Week,
    /// A day.
    Day,
    /// An hour.
    Hour,
    /// A minute.
    Minute,
    /// A second.
    Second,
    /// A thousandth of a second.
    Millisecond,
    /// A millionth of a second.
    Microsecond,
}

/// The unit of a word.
pub fn unit(word: &str) -> Option<Unit> {
    Some(match word {
        "millennium" | "millenniums" | "millennia" | "mil" | "mils" => Unit::Millennium,
        "century" | "centuries" | "c" | "cent" => Unit::Century,
        "decade" | "decades" | "dec" | "decs" => Unit::Decade,
        "year" | "years" | "y" | "yr" | "yrs" => Unit::Year,
        "quarter" | "qtr" => Unit::Quarter,
        "month" | "months" | "mon" | "mons" => Unit::Month,
        "week" | "weeks" | "w" => Unit::Week,
        "day" | "days" | "d" => Unit::Day,
        "hour" | "hours" | "h" | "hr" | "hrs" => Unit::Hour,
        "minute" | "minutes" | "m" | "min" | "mins" => Unit::Minute,
        "second" | "seconds" | "s" | "sec" | "secs" => Unit::Second,
        "millisecond" | "milliseconds" | "millisecon" | "ms" | "msec" | "msecs" | "msecond"
        | "mseconds" => Unit::Millisecond,
        "microsecond" | "microseconds" | "microsecon" | "us" | "usec" | "usecs" | "usecond"
        | "useconds" => Unit::Microsecond,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fall_into_their_tokens() {
        let tokens = split("Mon Feb 10 17:32:01.4 1997 -08").expect("all of it is known");
        assert_eq!(
            tokens,
            [
                Token::Word("mon".into()),
                Token::Word("feb".into()),
                Token::Number("10"),
                Token::Time("17:32:01.4"),
                Token::Number("1997"),
                Token::Signed("-08"),
            ]
        );
        assert_eq!(
            split("1999-01-08T04:05Z"),
            Some(vec![
                Token::Date("1999-01-08"),
                Token::Word("t".into()),
                Token::Time("04:05"),
                Token::Word("z".into()),
            ])
        );
        assert_eq!(split("-"), None);
    }
}
