//! Values as text: what CSV files hold and people read.
//!
//! Every value but NULL prints to a text that reads back, with its type, as an equal value. NULL
//! prints as `NULL`; whether an empty CSV field means NULL or the empty text is for the importer to
//! say. Bytes are `\x` and hexadecimal digits.

use super::Decimal;
use super::calendar::{Date, Timestamp};
use super::types::DataType;
use super::value::{Uuid, Value, ValueRef};
use std::fmt;

/// A text that is no value of the wanted type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no value of type {expected}{hint}")]
pub struct ParseError {
    /// The type wanted.
    pub expected: DataType,
    /// The text, cut off after 60 characters.
    pub text: String,
    /// How such values are written, or the limit that is exceeded.
    pub hint: String,
}

impl Value {
    /// Reads a value of the given type. It fits the type exactly: integers are in range, decimals
    /// have the column's scale, texts their limit.
    pub fn parse(data_type: DataType, text: &str) -> Result<Self, ParseError> {
        let trimmed = text.trim();
        let parsed = match data_type {
            DataType::Bool => parse_bool(trimmed).map(Self::Bool),
            DataType::Int16 => trimmed.parse().ok().map(Self::Int16),
            DataType::Int32 => trimmed.parse().ok().map(Self::Int32),
            DataType::Int64 => trimmed.parse().ok().map(Self::Int64),
            DataType::Float64 => parse_float(trimmed).map(Self::Float64),
            DataType::Decimal { .. } => Decimal::parse(trimmed).map(Self::Decimal),
            DataType::Char { .. } | DataType::Varchar { .. } | DataType::Text => {
                Some(Self::Text(text.to_owned()))
            }
            DataType::Bytes { .. } | DataType::Sortable { .. } => {
                parse_bytes(trimmed).map(Self::Bytes)
            }
            DataType::Date => Date::parse(trimmed).map(Self::Date),
            DataType::Timestamp => Timestamp::parse(trimmed).map(Self::Timestamp),
            DataType::Uuid => Uuid::parse(trimmed).map(Self::Uuid),
        };
        let refused = || ParseError {
            expected: data_type,
            text: text.chars().take(60).collect(),
            hint: hint(data_type),
        };
        let value = parsed.ok_or_else(refused)?;
        let fitted = value.as_ref().fit(data_type).map_err(|_| refused())?;
        Ok(fitted.to_value())
    }
}

/// Reads a number. One that is too large or too small for the type is none: it would become
/// infinite or zero.
fn parse_float(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    let digits = text.split(['e', 'E']).next().unwrap_or_default();
    let has =
        |range: std::ops::RangeInclusive<u8>| digits.bytes().any(|byte| range.contains(&byte));
    let is_other = number.is_infinite() && has(b'0'..=b'9') || number == 0.0 && has(b'1'..=b'9');
    (!is_other).then_some(number)
}

impl Uuid {
    /// Reads `6ba7b810-9dad-11d1-80b4-00c04fd430c8`; the dashes may be missing.
    pub fn parse(text: &str) -> Option<Self> {
        let dashes: Vec<usize> = text.match_indices('-').map(|(at, _)| at).collect();
        if !dashes.is_empty() && dashes != [8, 13, 18, 23] {
            return None;
        }
        let digits: String = text.chars().filter(|letter| *letter != '-').collect();
        unhex(&digits)?.try_into().ok().map(Self)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, byte) in self.0.iter().enumerate() {
            if matches!(position, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Display for ValueRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Bool(value) => value.fmt(f),
            Self::Int16(value) => value.fmt(f),
            Self::Int32(value) => value.fmt(f),
            Self::Int64(value) => value.fmt(f),
            Self::Float64(value) => value.fmt(f),
            Self::Decimal(value) => value.fmt(f),
            Self::Text(value) => f.write_str(value),
            Self::Bytes(value) => {
                f.write_str("\\x")?;
                value.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Date(value) => value.fmt(f),
            Self::Timestamp(value) => value.fmt(f),
            Self::Uuid(value) => value.fmt(f),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "t" | "yes" | "y" | "1" => Some(true),
        "false" | "f" | "no" | "n" | "0" => Some(false),
        _ => None,
    }
}

fn parse_bytes(text: &str) -> Option<Vec<u8>> {
    unhex(text.strip_prefix("\\x")?)
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |letter: u8| char::from(letter).to_digit(16).map(|digit| digit as u8);
    pairs
        .iter()
        .map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?))
        .collect()
}

fn hint(data_type: DataType) -> String {
    match data_type {
        DataType::Bool => "; write true or false".into(),
        DataType::Int16 => format!("; it must be {} to {}", i16::MIN, i16::MAX),
        DataType::Int32 => format!("; it must be {} to {}", i32::MIN, i32::MAX),
        DataType::Int64 => format!("; it must be {} to {}", i64::MIN, i64::MAX),
        DataType::Float64 => "; write a number like 1.5 or 1e9".into(),
        DataType::Decimal { precision, scale } => {
            format!("; write at most {precision} digits, {scale} of them behind the point")
        }
        DataType::Char { .. } | DataType::Varchar { .. } | DataType::Text => {
            format!("; the limit is {} bytes", data_type.bytes_max())
        }
        DataType::Bytes { .. } | DataType::Sortable { .. } => {
            format!(
                "; write \\x and hexadecimal digits of at most {} bytes",
                data_type.bytes_max()
            )
        }
        DataType::Date => "; write a date like 2026-11-21".into(),
        DataType::Timestamp => "; write a timestamp like 2026-11-21 05:19:14.5".into(),
        DataType::Uuid => "; write it like 6ba7b810-9dad-11d1-80b4-00c04fd430c8".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that was too large became infinite, and one that was too small became zero.
    #[test]
    fn numbers_that_no_float_is_near_are_refused() {
        let parse = |text| Value::parse(DataType::Float64, text);
        for text in ["1e999", "-1e999", "1e-999", "0.01e-400"] {
            assert!(parse(text).is_err(), "{text}");
        }
        for text in [
            "inf",
            "-infinity",
            "NaN",
            "0",
            "-0.0",
            "0e9",
            "1e308",
            "5e-324",
        ] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn values_read_back() {
        for (name, text) in [
            ("bool", "true"),
            ("int16", "-32768"),
            ("int64", "9223372036854775807"),
            ("float64", "0.1"),
            ("float64", "NaN"),
            ("decimal(12,2)", "-1234567890.12"),
            ("char(3)", "ab"),
            ("text", " blanks stay "),
            ("bytes", "\\x00ff10"),
            ("sortable(4)", "\\x00ff10"),
            ("date", "2026-11-21"),
            ("timestamp", "2026-11-21 05:19:14.000001"),
            ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
        ] {
            let value = Value::parse(name.parse().unwrap(), text).unwrap();
            assert_eq!(value.to_string(), text, "{name}");
        }
    }

    #[test]
    fn errors_say_what_is_expected() {
        let refused = |name: &str, text| {
            Value::parse(name.parse().unwrap(), text)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            refused("int16", "32768"),
            "`32768` is no value of type int16; it must be -32768 to 32767"
        );
        assert_eq!(
            refused("decimal(4,2)", "1.234"),
            "`1.234` is no value of type decimal(4,2); write at most 4 digits, 2 of them behind the point"
        );
        assert_eq!(
            refused("varchar(2)", "abc"),
            "`abc` is no value of type varchar(2); the limit is 2 bytes"
        );
        for (name, text) in [
            ("bytes", "00"),
            ("bytes", "\\x0"),
            ("bytes", "\\x+1"),
            ("uuid", "6ba7b810"),
            ("date", "today"),
        ] {
            assert!(
                Value::parse(name.parse().unwrap(), text).is_err(),
                "{name} {text}"
            );
        }
    }
}
