//! Values: one cell of a row, owned or borrowed.
//!
//! A [`ValueRef`] borrows its text and bytes from the row that it was read from, so reading
//! allocates nothing. Values have a total order, the same as that of their keys: NULL first, then
//! within a type by value; -0.0 equals 0.0 and NaN is the greatest float. Integers of all widths
//! compare by value.

use super::Decimal;
use super::calendar::{Date, Timestamp};
use super::error::RecordError;
use super::types::{DataType, VALUE_BYTES_MAX};
use std::cmp::Ordering;

/// A universally unique identifier: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

/// One cell, borrowed.
#[derive(Clone, Copy, Debug)]
pub enum ValueRef<'a> {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// 16-bit integer.
    Int16(i16),
    /// 32-bit integer.
    Int32(i32),
    /// 64-bit integer.
    Int64(i64),
    /// Binary floating point.
    Float64(f64),
    /// Exact decimal.
    Decimal(Decimal),
    /// Text of `char`, `varchar` and `text` columns.
    Text(&'a str),
    /// Bytes; also what is read from a text column whose bytes are damaged and no longer UTF-8.
    Bytes(&'a [u8]),
    /// A day.
    Date(Date),
    /// A point in time.
    Timestamp(Timestamp),
    /// 16 bytes.
    Uuid(Uuid),
}

/// One cell, owned.
#[derive(Clone, Debug)]
pub enum Value {
    /// No value.
    Null,
    /// True or false.
    Bool(bool),
    /// 16-bit integer.
    Int16(i16),
    /// 32-bit integer.
    Int32(i32),
    /// 64-bit integer.
    Int64(i64),
    /// Binary floating point.
    Float64(f64),
    /// Exact decimal.
    Decimal(Decimal),
    /// Text of `char`, `varchar` and `text` columns.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A day.
    Date(Date),
    /// A point in time.
    Timestamp(Timestamp),
    /// 16 bytes.
    Uuid(Uuid),
}

/// A conversion to a borrowed value, for owned and borrowed values alike.
pub trait AsValue {
    /// The value, borrowed.
    fn as_value(&self) -> ValueRef<'_>;
}

impl AsValue for Value {
    fn as_value(&self) -> ValueRef<'_> {
        self.as_ref()
    }
}

impl AsValue for ValueRef<'_> {
    fn as_value(&self) -> ValueRef<'_> {
        *self
    }
}

impl Value {
    /// The same value, borrowed.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Bool(value) => ValueRef::Bool(*value),
            Self::Int16(value) => ValueRef::Int16(*value),
            Self::Int32(value) => ValueRef::Int32(*value),
            Self::Int64(value) => ValueRef::Int64(*value),
            Self::Float64(value) => ValueRef::Float64(*value),
            Self::Decimal(value) => ValueRef::Decimal(*value),
            Self::Text(value) => ValueRef::Text(value),
            Self::Bytes(value) => ValueRef::Bytes(value),
            Self::Date(value) => ValueRef::Date(*value),
            Self::Timestamp(value) => ValueRef::Timestamp(*value),
            Self::Uuid(value) => ValueRef::Uuid(*value),
        }
    }

    /// Whether there is no value.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

impl<'a> ValueRef<'a> {
    /// The same value, owned; allocates for text and bytes.
    pub fn to_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Int16(value) => Value::Int16(value),
            Self::Int32(value) => Value::Int32(value),
            Self::Int64(value) => Value::Int64(value),
            Self::Float64(value) => Value::Float64(value),
            Self::Decimal(value) => Value::Decimal(value),
            Self::Text(value) => Value::Text(value.to_owned()),
            Self::Bytes(value) => Value::Bytes(value.to_owned()),
            Self::Date(value) => Value::Date(value),
            Self::Timestamp(value) => Value::Timestamp(value),
            Self::Uuid(value) => Value::Uuid(value),
        }
    }

    /// Whether there is no value.
    pub fn is_null(self) -> bool {
        matches!(self, Self::Null)
    }

    /// The integer, if it is one of any width.
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Self::Int16(value) => Some(value.into()),
            Self::Int32(value) => Some(value.into()),
            Self::Int64(value) => Some(value),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_str(self) -> Option<&'a str> {
        match self {
            Self::Text(value) => Some(value),
            _ => None,
        }
    }

    /// The bytes of a text or of bytes.
    pub fn as_bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Text(value) => Some(value.as_bytes()),
            Self::Bytes(value) => Some(value),
            _ => None,
        }
    }

    /// The number, if it is a float.
    pub fn as_f64(self) -> Option<f64> {
        match self {
            Self::Float64(value) => Some(value),
            _ => None,
        }
    }

    /// The name of the value's type, for messages.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int16(_) => "int16",
            Self::Int32(_) => "int32",
            Self::Int64(_) => "int64",
            Self::Float64(_) => "float64",
            Self::Decimal(_) => "decimal",
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytes",
            Self::Date(_) => "date",
            Self::Timestamp(_) => "timestamp",
            Self::Uuid(_) => "uuid",
        }
    }

    /// The group of comparable values, and the order of the groups.
    fn rank(self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Bool(_) => 1,
            Self::Int16(_) | Self::Int32(_) | Self::Int64(_) => 2,
            Self::Float64(_) => 3,
            Self::Decimal(_) => 4,
            Self::Text(_) => 5,
            Self::Bytes(_) => 6,
            Self::Date(_) => 7,
            Self::Timestamp(_) => 8,
            Self::Uuid(_) => 9,
        }
    }

    /// The value as exactly the type's own variant and scale, if it can be expressed in it without
    /// loss. NULL fits always.
    #[inline]
    pub(crate) fn fit(self, data_type: DataType) -> Result<Self, Misfit> {
        // Each variant is made anew: copying one whole reads across what was just stored, and waits
        // for it.
        Ok(match (data_type, self) {
            (DataType::Int64, Self::Int64(number)) => Self::Int64(number),
            (_, Self::Null) => Self::Null,
            (DataType::Bool, Self::Bool(value)) => Self::Bool(value),
            (DataType::Float64, Self::Float64(number)) => Self::Float64(number),
            (DataType::Date, Self::Date(date)) => Self::Date(date),
            (DataType::Timestamp, Self::Timestamp(time)) => Self::Timestamp(time),
            (DataType::Uuid, Self::Uuid(uuid)) => Self::Uuid(uuid),
            (DataType::Int32, Self::Int32(number)) => Self::Int32(number),
            (DataType::Int16, Self::Int16(number)) => Self::Int16(number),
            (DataType::Char { length }, Self::Text(text)) => {
                let text = text.trim_end_matches(' ');
                within(text.len(), length)?;
                Self::Text(text)
            }
            (DataType::Varchar { .. } | DataType::Text, Self::Text(text)) => {
                within(text.len(), data_type.bytes_max())?;
                Self::Text(text)
            }
            (DataType::Bytes { .. }, Self::Bytes(bytes)) => {
                within(bytes.len(), data_type.bytes_max())?;
                Self::Bytes(bytes)
            }
            (DataType::Sortable { max }, Self::Bytes(bytes)) => {
                let zeros = bytes.iter().rev().take_while(|byte| **byte == 0).count();
                let bytes = &bytes[..bytes.len() - zeros];
                within(bytes.len(), max)?;
                Self::Bytes(bytes)
            }
            (DataType::Int64, other) => Self::Int64(other.as_i64().ok_or(Misfit::WrongType)?),
            (DataType::Int32, other) => {
                let number = other.as_i64().ok_or(Misfit::WrongType)?;
                Self::Int32(i32::try_from(number).map_err(|_| Misfit::OutOfRange)?)
            }
            (DataType::Int16, other) => {
                let number = other.as_i64().ok_or(Misfit::WrongType)?;
                Self::Int16(i16::try_from(number).map_err(|_| Misfit::OutOfRange)?)
            }
            (DataType::Decimal { precision, scale }, other) => {
                let number = match other {
                    Self::Decimal(number) => number,
                    _ => Decimal::from(other.as_i64().ok_or(Misfit::WrongType)?),
                };
                let number = number.rescaled(scale).ok_or(Misfit::OutOfRange)?;
                if !number.has_digits_within(precision) {
                    return Err(Misfit::OutOfRange);
                }
                Self::Decimal(number)
            }
            _ => return Err(Misfit::WrongType),
        })
    }
}

/// Why a value does not fit a type; the caller adds the names of table and column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    WrongType,
    OutOfRange,
    TooLong {
        limit_bytes: u32,
        found_bytes: usize,
    },
}

impl Misfit {
    /// The error for a person.
    #[cold]
    pub(crate) fn at(
        self,
        table: &str,
        column: &str,
        data_type: DataType,
        value: ValueRef<'_>,
    ) -> RecordError {
        let (table, column) = (table.to_owned(), column.to_owned());
        match self {
            Self::WrongType => RecordError::WrongType {
                table,
                column,
                expected: data_type,
                found: value.type_name(),
            },
            Self::OutOfRange => RecordError::OutOfRange {
                table,
                column,
                expected: data_type,
                found: value.to_string(),
            },
            Self::TooLong {
                limit_bytes,
                found_bytes,
            } => RecordError::TooLong {
                table,
                column,
                limit_bytes: limit_bytes.into(),
                found_bytes: found_bytes as u64,
            },
        }
    }
}

#[inline]
fn within(found_bytes: usize, limit_bytes: u32) -> Result<(), Misfit> {
    debug_assert!(
        limit_bytes <= VALUE_BYTES_MAX,
        "types are checked when a table is defined"
    );
    if found_bytes <= limit_bytes as usize {
        Ok(())
    } else {
        Err(Misfit::TooLong {
            limit_bytes,
            found_bytes,
        })
    }
}

/// A float in an order of integers: -0.0 as 0.0, any NaN last.
pub(crate) fn float_order(value: f64) -> u64 {
    let canonical = if value.is_nan() {
        f64::NAN.abs()
    } else if value == 0.0 {
        0.0
    } else {
        value
    };
    let bits = canonical.to_bits();
    if bits >> 63 == 1 {
        !bits
    } else {
        bits | 1 << 63
    }
}

/// The float of [`float_order`].
pub(crate) fn float_from_order(order: u64) -> f64 {
    f64::from_bits(if order >> 63 == 1 {
        order & !(1 << 63)
    } else {
        !order
    })
}

impl Ord for ValueRef<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (*self, *other) {
            (Self::Bool(left), Self::Bool(right)) => left.cmp(&right),
            (Self::Float64(left), Self::Float64(right)) => {
                float_order(left).cmp(&float_order(right))
            }
            (Self::Decimal(left), Self::Decimal(right)) => left.cmp(&right),
            (Self::Text(left), Self::Text(right)) => left.cmp(right),
            (Self::Bytes(left), Self::Bytes(right)) => left.cmp(right),
            (Self::Date(left), Self::Date(right)) => left.cmp(&right),
            (Self::Timestamp(left), Self::Timestamp(right)) => left.cmp(&right),
            (Self::Uuid(left), Self::Uuid(right)) => left.cmp(&right),
            (left, right) => match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => left.cmp(&right),
                _ => left.rank().cmp(&right.rank()),
            },
        }
    }
}

impl PartialOrd for ValueRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ValueRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            // Most comparisons; content of another length need not be read.
            (Self::Int64(left), Self::Int64(right)) => left == right,
            (Self::Text(left), Self::Text(right)) => left == right,
            (Self::Bytes(left), Self::Bytes(right)) => left == right,
            (left, right) => left.cmp(&right).is_eq(),
        }
    }
}

impl Eq for ValueRef<'_> {}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_ref().cmp(&other.as_ref())
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Value {}

macro_rules! conversions {
    ($($from:ty => $variant:ident),* $(,)?) => {$(
        impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$variant(value)
            }
        }
        impl From<$from> for ValueRef<'_> {
            fn from(value: $from) -> Self {
                Self::$variant(value)
            }
        }
    )*};
}
conversions!(
    bool => Bool,
    i16 => Int16,
    i32 => Int32,
    i64 => Int64,
    f64 => Float64,
    Decimal => Decimal,
    Date => Date,
    Timestamp => Timestamp,
    Uuid => Uuid,
);

impl<'a> From<&'a str> for ValueRef<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a [u8]> for ValueRef<'a> {
    fn from(value: &'a [u8]) -> Self {
        Self::Bytes(value)
    }
}

impl<'a> From<&'a Value> for ValueRef<'a> {
    fn from(value: &'a Value) -> Self {
        value.as_ref()
    }
}

impl<'a, T: Into<ValueRef<'a>>> From<Option<T>> for ValueRef<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Self {
        Self::Bytes(value)
    }
}

impl From<&[u8]> for Value {
    fn from(value: &[u8]) -> Self {
        Self::Bytes(value.to_owned())
    }
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Self {
        value.to_value()
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_totally_ordered() {
        let ordered = [
            f64::NEG_INFINITY,
            -1.0,
            -f64::MIN_POSITIVE,
            0.0,
            1e-300,
            1.0,
            f64::INFINITY,
            f64::NAN,
        ];
        for pair in ordered.windows(2) {
            assert!(ValueRef::Float64(pair[0]) < ValueRef::Float64(pair[1]));
        }
        assert_eq!(ValueRef::Float64(-0.0), ValueRef::Float64(0.0));
        assert_eq!(ValueRef::Float64(-f64::NAN), ValueRef::Float64(f64::NAN));
    }

    #[test]
    fn values_fit_without_loss_or_not_at_all() {
        assert_eq!(
            ValueRef::Int64(7).fit(DataType::Int16),
            Ok(ValueRef::Int16(7))
        );
        assert_eq!(
            ValueRef::Int64(70_000).fit(DataType::Int16),
            Err(Misfit::OutOfRange)
        );
        assert_eq!(
            ValueRef::Text("7").fit(DataType::Int16),
            Err(Misfit::WrongType)
        );
        assert_eq!(
            ValueRef::Int64(1).fit(DataType::Float64),
            Err(Misfit::WrongType)
        );
        let price = DataType::Decimal {
            precision: 4,
            scale: 2,
        };
        assert_eq!(
            ValueRef::Int32(12).fit(price),
            Ok(ValueRef::Decimal(Decimal::new(1200, 2)))
        );
        assert_eq!(ValueRef::Int32(100).fit(price), Err(Misfit::OutOfRange));
        assert_eq!(
            ValueRef::Text("ab  ").fit(DataType::Char { length: 2 }),
            Ok(ValueRef::Text("ab"))
        );
        let long = ValueRef::Text("abc").fit(DataType::Varchar { max: 2 });
        assert_eq!(
            long,
            Err(Misfit::TooLong {
                limit_bytes: 2,
                found_bytes: 3
            })
        );
    }
}
