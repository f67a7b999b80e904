//! Data types and their SQL names.
//!
//! A type prints as the name that reads back as the same type: `decimal(12,2)`, `varchar(100)`. The
//! usual SQL synonyms (`integer`, `bigint`, `numeric`, `double precision`, …) are understood as
//! well. Lengths are bytes of UTF-8, not characters, because bytes are what a tuple has room for.

use super::decimal::DIGITS_MAX;
use std::fmt;
use std::str::FromStr;

/// The most bytes of one value.
pub(crate) const VALUE_BYTES_MAX: u32 = 1 << 24;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataType {
    /// True or false; 1 byte.
    Bool,
    /// 16-bit signed integer.
    Int16,
    /// 32-bit signed integer.
    Int32,
    /// 64-bit signed integer.
    Int64,
    /// 64-bit binary floating point; -0.0 equals 0.0 and NaN sorts last.
    Float64,
    /// Exact number; 8 bytes up to 18 digits, 16 bytes up to 38.
    Decimal {
        /// All digits, 1 to 38.
        precision: u8,
        /// Digits after the point, at most `precision`.
        scale: u8,
    },
    /// Text of exactly `length` bytes; shorter values are padded with blanks, and blanks at the end
    /// do not count.
    Char {
        /// Bytes.
        length: u32,
    },
    /// Text of at most `max` bytes.
    Varchar {
        /// Bytes.
        max: u32,
    },
    /// Text of at most 16 MiB.
    Text,
    /// Bytes, at most `max`, or at most 16 MiB.
    Bytes {
        /// Bytes.
        max: Option<u32>,
    },
    /// Bytes that sort as they stand, at most `max`; zeros at the end do not count. Made for values
    /// that are encoded so that the order of the bytes is theirs, such as numbers of any size.
    Sortable {
        /// Bytes.
        max: u32,
    },
    /// Days since 1970-01-01; 4 bytes.
    Date,
    /// Microseconds since 1970-01-01 UTC; 8 bytes.
    Timestamp,
    /// 16 bytes, compared as such.
    Uuid,
}

/// A text that names no data type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TypeNameError {
    /// There is no type of this name, or not with so many parameters.
    #[error(
        "`{0}` is no data type; there are bool, int16, int32, int64, float64, decimal(p,s), char(n), varchar(n), text, bytes, bytes(n), sortable(n), date, timestamp, uuid"
    )]
    Unknown(String),
    /// The parameters of the type are not within their limits.
    #[error("`{0}` is no data type: {1}")]
    Parameters(String, String),
}

impl DataType {
    /// Whether the parameters are within their limits; otherwise the reason.
    pub(crate) fn check(self) -> Result<(), String> {
        let bytes_within = |bytes: u32| {
            if (1..=VALUE_BYTES_MAX).contains(&bytes) {
                Ok(())
            } else {
                Err(format!("the length must be 1 to {VALUE_BYTES_MAX} bytes"))
            }
        };
        match self {
            Self::Decimal { precision, scale } => {
                if !(1..=DIGITS_MAX).contains(&precision) {
                    return Err(format!("the precision must be 1 to {DIGITS_MAX}"));
                }
                if scale > precision {
                    return Err("the scale must not exceed the precision".into());
                }
                Ok(())
            }
            Self::Char { length } => bytes_within(length),
            Self::Varchar { max } | Self::Bytes { max: Some(max) } | Self::Sortable { max } => {
                bytes_within(max)
            }
            _ => Ok(()),
        }
    }

    /// Bytes of a value of fixed size; `None` for types whose values differ in size.
    pub fn fixed_bytes(self) -> Option<u32> {
        match self {
            Self::Bool => Some(1),
            Self::Int16 => Some(2),
            Self::Int32 | Self::Date => Some(4),
            Self::Int64 | Self::Float64 | Self::Timestamp => Some(8),
            Self::Decimal { precision, .. } => Some(if precision <= 18 { 8 } else { 16 }),
            Self::Uuid => Some(16),
            Self::Char { length } => Some(length),
            Self::Varchar { .. } | Self::Text | Self::Bytes { .. } | Self::Sortable { .. } => None,
        }
    }

    /// The most bytes of a value.
    pub fn bytes_max(self) -> u32 {
        match self {
            Self::Varchar { max } | Self::Bytes { max: Some(max) } | Self::Sortable { max } => max,
            Self::Text | Self::Bytes { max: None } => VALUE_BYTES_MAX,
            fixed => fixed.fixed_bytes().unwrap_or(VALUE_BYTES_MAX),
        }
    }

    /// Whether the type is one of the integers.
    pub fn is_integer(self) -> bool {
        matches!(self, Self::Int16 | Self::Int32 | Self::Int64)
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Int16 => f.write_str("int16"),
            Self::Int32 => f.write_str("int32"),
            Self::Int64 => f.write_str("int64"),
            Self::Float64 => f.write_str("float64"),
            Self::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            Self::Char { length } => write!(f, "char({length})"),
            Self::Varchar { max } => write!(f, "varchar({max})"),
            Self::Text => f.write_str("text"),
            Self::Bytes { max: Some(max) } => write!(f, "bytes({max})"),
            Self::Bytes { max: None } => f.write_str("bytes"),
            Self::Sortable { max } => write!(f, "sortable({max})"),
            Self::Date => f.write_str("date"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Uuid => f.write_str("uuid"),
        }
    }
}

impl FromStr for DataType {
    type Err = TypeNameError;

    fn from_str(text: &str) -> Result<Self, TypeNameError> {
        let unknown = || TypeNameError::Unknown(text.to_owned());
        let lower = text.trim().to_ascii_lowercase();
        let (name, parameters) = match lower.split_once('(') {
            Some((name, rest)) => {
                let inside = rest.strip_suffix(')').ok_or_else(unknown)?;
                let numbers: Result<Vec<u32>, _> = inside
                    .split(',')
                    .map(|number| number.trim().parse())
                    .collect();
                (name.trim_end(), numbers.map_err(|_| unknown())?)
            }
            None => (lower.as_str(), Vec::new()),
        };
        let data_type = named(name, &parameters).ok_or_else(unknown)?;
        data_type
            .check()
            .map_err(|reason| TypeNameError::Parameters(text.to_owned(), reason))?;
        Ok(data_type)
    }
}

fn named(name: &str, parameters: &[u32]) -> Option<DataType> {
    Some(match (name, parameters) {
        ("bool" | "boolean", []) => DataType::Bool,
        ("int16" | "smallint", []) => DataType::Int16,
        ("int32" | "int" | "integer", []) => DataType::Int32,
        ("int64" | "bigint", []) => DataType::Int64,
        ("float64" | "double" | "double precision", []) => DataType::Float64,
        ("decimal" | "numeric", &[precision]) => DataType::Decimal {
            precision: u8::try_from(precision).ok()?,
            scale: 0,
        },
        ("decimal" | "numeric", &[precision, scale]) => DataType::Decimal {
            precision: u8::try_from(precision).ok()?,
            scale: u8::try_from(scale).ok()?,
        },
        ("char" | "character", &[length]) => DataType::Char { length },
        ("varchar" | "character varying", &[max]) => DataType::Varchar { max },
        ("text", []) => DataType::Text,
        ("bytes" | "bytea" | "blob", []) => DataType::Bytes { max: None },
        ("bytes" | "varbinary", &[max]) => DataType::Bytes { max: Some(max) },
        ("sortable", &[max]) => DataType::Sortable { max },
        ("date", []) => DataType::Date,
        ("timestamp", []) => DataType::Timestamp,
        ("uuid", []) => DataType::Uuid,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for name in [
            "bool",
            "int16",
            "int32",
            "int64",
            "float64",
            "decimal(12,2)",
            "char(7)",
            "varchar(100)",
            "text",
            "bytes",
            "bytes(16)",
            "sortable(20)",
            "date",
            "timestamp",
            "uuid",
        ] {
            assert_eq!(name.parse::<DataType>().unwrap().to_string(), name);
        }
        assert_eq!(
            " NUMERIC ( 12 , 2 ) ".parse(),
            Ok(DataType::Decimal {
                precision: 12,
                scale: 2
            })
        );
        assert_eq!("double precision".parse(), Ok(DataType::Float64));
    }

    #[test]
    fn bad_names_are_refused() {
        for name in [
            "",
            "strng",
            "char",
            "varchar(0)",
            "decimal(39,0)",
            "decimal(2,3)",
            "char(1",
            "int(4)",
            "decimal(300)",
        ] {
            assert!(name.parse::<DataType>().is_err(), "{name}");
        }
    }
}
