//! Values of SQLite, and the columns that take them.
//!
//! A column of SQLite holds values of any type, whatever its declaration says. Ours get the type
//! that the declaration means by SQLite's rules of affinity, or that its words mean where these say
//! more (`BOOLEAN`, `DATE`). A value that does not fit is a bad one and never converted silently.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A character whose bytes differ from the first one on: C3 A9, E9 00 or 00 E9.
const ENCODING_MARK: u32 = 0xE9;

/// A value of SQLite.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SqliteValue {
    Null,
    Integer(i64),
    Real(f64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

/// The expression that prints a column in the form which [`SqliteValue::read`] reads: a letter for
/// the type, and digits, so no content can be taken for a separator. Digits of texts are in the
/// encoding of the file, which the character before each text tells.
pub(super) fn printed(column: &str) -> String {
    let text = printed_text(column);
    format!(
        "CASE typeof({column}) WHEN 'null' THEN 'n' WHEN 'integer' THEN 'i' || {column} \
         WHEN 'real' THEN 'r' || printf('%!.17g', {column}) WHEN 'text' THEN {text} \
         ELSE 'b' || hex({column}) END"
    )
}

/// The same for an expression that is a text.
pub(super) fn printed_text(expression: &str) -> String {
    format!("'t' || hex(char({ENCODING_MARK}) || {expression})")
}

impl SqliteValue {
    /// Reads a printed value; none if it is not one.
    pub(super) fn read(field: &str) -> Option<Self> {
        let mut characters = field.chars();
        let kind = characters.next()?;
        let rest = characters.as_str();
        Some(match kind {
            'n' => Self::Null,
            'i' => Self::Integer(rest.parse().ok()?),
            'r' => Self::Real(rest.parse().ok()?),
            't' => Self::Text(match bytes_of(rest)?.as_slice() {
                [0xC3, 0xA9, text @ ..] => text.to_vec(),
                [0xE9, 0x00, text @ ..] => of_utf16(text, u16::from_le_bytes)?,
                [0x00, 0xE9, text @ ..] => of_utf16(text, u16::from_be_bytes)?,
                _ => return None,
            }),
            'b' => Self::Blob(bytes_of(rest)?),
            _ => return None,
        })
    }

    /// The value of a literal of SQL, such as that of a default; none for any other expression.
    pub(super) fn of_literal(text: &str) -> Option<Self> {
        let text = text.trim();
        let quoted = |quote: char| {
            let content = text.strip_prefix(quote)?.strip_suffix(quote)?;
            let doubled = String::from_iter([quote, quote]);
            let single = content.replace(&doubled, "");
            (!single.contains(quote))
                .then(|| Self::Text(content.replace(&doubled, &quote.to_string()).into_bytes()))
        };
        match text.to_ascii_lowercase().as_str() {
            "null" => return Some(Self::Null),
            "true" => return Some(Self::Integer(1)),
            "false" => return Some(Self::Integer(0)),
            lower if lower.starts_with("x'") => {
                return bytes_of(text[2..].strip_suffix('\'')?).map(Self::Blob);
            }
            _ => {}
        }
        let number = text.strip_prefix('+').unwrap_or(text);
        let is_number = number.starts_with(|first: char| "-.0123456789".contains(first));
        match number.parse() {
            Ok(integer) => Some(Self::Integer(integer)),
            Err(_) if is_number => number.parse().ok().map(Self::Real),
            Err(_) => quoted('\'').or_else(|| quoted('"')),
        }
    }

    /// The value in words, for messages; long ones are cut.
    pub(super) fn in_words(&self) -> String {
        match self {
            Self::Null => "NULL".to_owned(),
            Self::Integer(number) => format!("the integer {number}"),
            Self::Real(number) => format!("the number {number:?}"),
            Self::Text(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                let end = text.floor_char_boundary(40);
                let more = if end < text.len() { "..." } else { "" };
                format!("the text `{}{more}`", &text[..end])
            }
            Self::Blob(bytes) => format!("a blob of {} bytes", bytes.len()),
        }
    }
}

/// A text of UTF-16 as UTF-8; a unit that is no character becomes a byte that is none either, so
/// that the text is reported.
fn of_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<Vec<u8>> {
    let (units, rest) = bytes.as_chunks::<2>();
    let mut text = Vec::new();
    for character in char::decode_utf16(units.iter().copied().map(unit)) {
        match character {
            Ok(character) => text.extend(character.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(_) => text.push(0xFF),
        }
    }
    rest.is_empty().then_some(text)
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs
        .map(|pair| if pair.len() == 2 { byte(pair) } else { None })
        .collect()
}

/// The type of a column of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ColumnType {
    Integer,
    Double,
    Numeric,
    Text,
    Bytes,
    Boolean,
    Date,
    Time,
    Timestamp,
    /// The type that the user has named, which the database checks.
    Given(String),
}

impl ColumnType {
    /// The type of a declaration; none if it says nothing.
    pub(super) fn of_declaration(declared: &str) -> Option<Self> {
        let words = declared.to_ascii_uppercase();
        let has = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
        Some(match words.split(['(', ' ']).next().unwrap_or_default() {
            "" => return None,
            _ if has(&["INT"]) => Self::Integer,
            "JSON" | "UUID" => Self::Text,
            _ if has(&["CHAR", "CLOB", "TEXT"]) => Self::Text,
            _ if has(&["BLOB"]) => Self::Bytes,
            _ if has(&["REAL", "FLOA", "DOUB"]) => Self::Double,
            "BOOL" | "BOOLEAN" => Self::Boolean,
            "DATE" => Self::Date,
            "TIME" => Self::Time,
            "DATETIME" | "TIMESTAMP" => Self::Timestamp,
            _ => Self::Numeric,
        })
    }

    /// The type for a column whose values have these types of SQLite.
    pub(super) fn of_content(types: &BTreeSet<String>) -> Self {
        let only = |allowed: &[&str]| types.iter().all(|one| allowed.contains(&one.as_str()));
        match () {
            () if types.is_empty() => Self::Text,
            () if only(&["integer"]) => Self::Integer,
            () if only(&["real"]) => Self::Double,
            () if only(&["integer", "real"]) => Self::Numeric,
            () if only(&["blob"]) => Self::Bytes,
            () => Self::Text,
        }
    }

    /// Its name in SQL.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Integer => "bigint",
            Self::Double => "double precision",
            Self::Numeric => "numeric",
            Self::Text => "text",
            Self::Bytes => "bytea",
            Self::Boolean => "boolean",
            Self::Date => "date",
            Self::Time => "time",
            Self::Timestamp => "timestamp",
            Self::Given(name) => name,
        }
    }

    /// The text of a value for a column of this type; none for NULL, and if it does not fit.
    pub(super) fn text_of(&self, value: &SqliteValue) -> Option<String> {
        use SqliteValue::{Blob, Integer, Real, Text};
        let text = match value {
            Text(bytes) => Some(String::from_utf8(bytes.clone()).ok()?),
            _ => None,
        };
        if text.as_ref().is_some_and(|text| text.contains('\0')) {
            return None;
        }
        Some(match (self, value) {
            (Self::Integer | Self::Double | Self::Numeric | Self::Given(_), Integer(number)) => {
                number.to_string()
            }
            (Self::Double | Self::Numeric | Self::Given(_), Real(number)) => match number {
                number if number.is_infinite() && *number > 0.0 => "Infinity".to_owned(),
                number if number.is_infinite() => "-Infinity".to_owned(),
                number => format!("{number:?}"),
            },
            (Self::Text | Self::Given(_), Text(_)) => text?,
            // A column without a type may have values of several.
            (Self::Text, Integer(number)) => number.to_string(),
            (Self::Text, Real(number)) => format!("{number:?}"),
            (Self::Bytes | Self::Given(_), Blob(bytes)) => {
                let mut text = "\\x".to_owned();
                for byte in bytes {
                    let _ = write!(text, "{byte:02x}");
                }
                text
            }
            (Self::Boolean, Integer(0)) => "f".to_owned(),
            (Self::Boolean, Integer(1)) => "t".to_owned(),
            (Self::Date, Text(_)) => text.filter(|text| is_date(text))?,
            (Self::Time, Text(_)) => text.filter(|text| is_time(text))?,
            (Self::Timestamp, Text(_)) => moment(&text?)?,
            _ => return None,
        })
    }

    /// The text of a default's value, which SQLite converts by the column's affinity.
    pub(super) fn text_of_default(&self, value: &SqliteValue) -> Option<String> {
        if let SqliteValue::Text(bytes) = value
            && matches!(self, Self::Integer | Self::Double | Self::Numeric)
        {
            let number = SqliteValue::of_literal(std::str::from_utf8(bytes).ok()?)?;
            return self.text_of(&number);
        }
        self.text_of(value)
    }
}

/// Numbers of fixed widths with separators between them.
fn numbers<const N: usize>(text: &str, separator: char, widths: [usize; N]) -> Option<[u32; N]> {
    let mut found = [0; N];
    let mut parts = text.split(separator);
    for (number, width) in found.iter_mut().zip(widths) {
        let part = parts.next()?;
        let is_number = part.len() == width && part.bytes().all(|one| one.is_ascii_digit());
        *number = part.parse().ok().filter(|_| is_number)?;
    }
    parts.next().is_none().then_some(found)
}

/// `YYYY-MM-DD`, a day that there is.
fn is_date(text: &str) -> bool {
    let Some([year, month, day]) = numbers(text, '-', [4, 2, 2]) else {
        return false;
    };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    year > 0 && (1..=days).contains(&day)
}

/// `HH:MM`, `HH:MM:SS` or `HH:MM:SS.SSS`.
fn is_time(text: &str) -> bool {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_fraction = (1..=6).contains(&fraction.len())
        && fraction.bytes().all(|one| one.is_ascii_digit())
        && (clock.len() == 8 || clock.len() == text.len());
    let parts = numbers(clock, ':', [2, 2, 2]);
    let parts = parts.or_else(|| numbers(clock, ':', [2, 2]).map(|[h, m]| [h, m, 0]));
    parts.is_some_and(|[hour, minute, second]| hour < 24 && minute < 60 && second < 60)
        && is_fraction
}

/// A day, or a day and a time, in UTC if a zone is there.
fn moment(text: &str) -> Option<String> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let parts = text.split_once([' ', 'T']);
    let is_it = match parts {
        Some((day, time)) => is_date(day) && is_time(time),
        None => is_date(text),
    };
    is_it.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(content: &str) -> SqliteValue {
        SqliteValue::Text(content.as_bytes().to_vec())
    }

    #[test]
    fn declarations_have_the_affinity_of_sqlite() {
        for (declared, name) in [
            ("INTEGER", "bigint"),
            ("unsigned big int", "bigint"),
            ("VARCHAR(20)", "text"),
            ("nchar(5)", "text"),
            ("BLOB", "bytea"),
            ("double precision", "double precision"),
            ("FLOAT", "double precision"),
            ("DECIMAL(10,2)", "numeric"),
            ("boolean", "boolean"),
            ("DATE", "date"),
            ("datetime", "timestamp"),
            // The rules look for INT first, wherever it is.
            ("FLOATING POINT", "bigint"),
            ("anything", "numeric"),
        ] {
            let found = ColumnType::of_declaration(declared).expect(declared);
            assert_eq!(found.name(), name, "{declared}");
        }
        assert_eq!(ColumnType::of_declaration(""), None);
    }

    #[test]
    fn literals_are_values_and_expressions_are_none() {
        for (literal, value) in [
            ("NULL", SqliteValue::Null),
            ("-5", SqliteValue::Integer(-5)),
            ("+7", SqliteValue::Integer(7)),
            ("1.5e2", SqliteValue::Real(150.0)),
            ("'it''s'", text("it's")),
            ("\"word\"", text("word")),
            ("x'00FF'", SqliteValue::Blob(vec![0, 255])),
            ("TRUE", SqliteValue::Integer(1)),
        ] {
            assert_eq!(SqliteValue::of_literal(literal), Some(value), "{literal}");
        }
        for other in [
            "CURRENT_TIMESTAMP",
            "1 + 1",
            "'a' || 'b'",
            "inf",
            "x'0'",
            "",
        ] {
            assert_eq!(SqliteValue::of_literal(other), None, "{other}");
        }
    }

    #[test]
    fn a_value_that_does_not_fit_is_none() {
        let long = SqliteValue::Real(0.1);
        assert_eq!(ColumnType::Double.text_of(&long).as_deref(), Some("0.1"));
        for (of, value) in [
            (ColumnType::Integer, text("12")),
            (ColumnType::Integer, SqliteValue::Real(1.0)),
            (ColumnType::Text, SqliteValue::Blob(vec![65])),
            (ColumnType::Text, text("a\0b")),
            (ColumnType::Text, SqliteValue::Text(vec![0xff])),
            (ColumnType::Bytes, text("a")),
            (ColumnType::Boolean, SqliteValue::Integer(2)),
            (ColumnType::Date, text("2023-02-29")),
            (ColumnType::Date, SqliteValue::Integer(5)),
            (ColumnType::Time, text("24:00")),
            (ColumnType::Time, text("10:00.5")),
            (ColumnType::Timestamp, text("2023-01-01 10:00+02:00")),
        ] {
            assert_eq!(of.text_of(&value), None, "{of:?} {value:?}");
        }
        let moments = ["2024-02-29", "2024-02-29T23:59:59.123Z", "2024-02-29 10:00"];
        for moment in moments {
            assert!(ColumnType::Timestamp.text_of(&text(moment)).is_some());
        }
        assert_eq!(
            ColumnType::Numeric.text_of_default(&text("5")).as_deref(),
            Some("5")
        );
    }
}
