//! Columns of Arrow that grow row by row: a validity bitmap, and the buffers of the values.
//!
//! | SQL | format of Arrow |
//! |---|---|
//! | boolean, smallint, integer, bigint | `b`, `s`, `i`, `l` |
//! | real, double precision | `f`, `g` |
//! | numeric(p, s) up to 38 digits | `d:p,s`; any other numeric is a text |
//! | date, time | `tdD`, `ttu` |
//! | timestamp, timestamptz | `tsu:`, `tsu:UTC`; the infinities are NULL |
//! | interval | `tin` |
//! | bytea, uuid, numbers of the catalogue | `z`, `w:16`, `I` |
//! | texts, and all other types as SQL prints them | `u` |

use super::TEXT_BYTES_MAX;
use sql::types::datetime::calendar::{DAY, UNIX_EPOCH_DAYS, is_finite, is_finite_date};
use sql::types::{Context, Datum, Interval, Kind, Numeric, Type, text_io};
use sql::{SqlError, SqlState};
use std::cmp::Ordering;
use std::ffi::c_void;

const EPOCH_MICROS: i64 = UNIX_EPOCH_DAYS * DAY;
const EPOCH_DAYS: i32 = UNIX_EPOCH_DAYS as i32;

/// An interval, as Arrow keeps it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Span {
    months: i32,
    days: i32,
    nanos: i64,
}

/// The values of a column; a NULL has a place too.
enum Values {
    Bits(Vec<u8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U32(Vec<u32>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    I128(Vec<i128>),
    Spans(Vec<Span>),
    /// Sixteen bytes each.
    Fixed(Vec<u8>),
    /// Ends of the values, after a zero, and their bytes.
    Long(Vec<i32>, Vec<u8>),
}

impl Values {
    fn of(data_type: Type) -> Self {
        match data_type.kind {
            Kind::Bool => Self::Bits(Vec::new()),
            Kind::Int2 => Self::I16(Vec::new()),
            Kind::Int4 | Kind::Date => Self::I32(Vec::new()),
            Kind::Int8 | Kind::Time | Kind::Timestamp | Kind::Timestamptz => Self::I64(Vec::new()),
            Kind::Oid => Self::U32(Vec::new()),
            Kind::Float4 => Self::F32(Vec::new()),
            Kind::Float8 => Self::F64(Vec::new()),
            Kind::Numeric if decimal(data_type).is_some() => Self::I128(Vec::new()),
            Kind::Interval => Self::Spans(Vec::new()),
            Kind::Uuid => Self::Fixed(Vec::new()),
            _ => Self::Long(vec![0], Vec::new()),
        }
    }
}

/// The format of a type in Arrow's C data interface.
pub(super) fn format(of: Type) -> String {
    let plain = match of.kind {
        Kind::Bool => "b",
        Kind::Int2 => "s",
        Kind::Int4 => "i",
        Kind::Int8 => "l",
        Kind::Oid => "I",
        Kind::Float4 => "f",
        Kind::Float8 => "g",
        Kind::Numeric => {
            let decimal = decimal(of).map(|(precision, scale)| format!("d:{precision},{scale}"));
            return decimal.unwrap_or_else(|| "u".to_owned());
        }
        Kind::Date => "tdD",
        Kind::Time => "ttu",
        Kind::Timestamp => "tsu:",
        Kind::Timestamptz => "tsu:UTC",
        Kind::Interval => "tin",
        Kind::Bytea => "z",
        Kind::Uuid => "w:16",
        _ => "u",
    };
    plain.to_owned()
}

/// Precision and scale of numbers that fit into 128 bits.
fn decimal(of: Type) -> Option<(u16, u16)> {
    let (precision, scale) = of.precision()?;
    let scale = u16::try_from(scale).ok()?;
    ((1..=38).contains(&precision) && scale <= precision).then_some((precision, scale))
}

/// A column that grows.
pub(super) struct Column {
    of: Type,
    scale: u16,
    length: usize,
    nulls: usize,
    valid: Vec<u8>,
    values: Values,
}

impl Column {
    pub(super) fn new(of: Type) -> Self {
        Self {
            of,
            scale: decimal(of).map_or(0, |(_, scale)| scale),
            length: 0,
            nulls: 0,
            valid: Vec::new(),
            values: Values::of(of),
        }
    }

    /// An empty column of the same type, and this one for a batch.
    pub(super) fn take(&mut self) -> Self {
        let empty = Self::new(self.of);
        std::mem::replace(self, empty)
    }

    pub(super) fn length(&self) -> i64 {
        self.length.cast_signed() as i64
    }

    pub(super) fn nulls(&self) -> i64 {
        self.nulls.cast_signed() as i64
    }

    /// Bytes that a value may have besides its place; those of a whole batch where they are known
    /// only when it is printed.
    pub(super) fn weight(&self, value: &Datum) -> usize {
        match (&self.values, value) {
            (Values::Long(..), Datum::Text(text) | Datum::Bpchar(text) | Datum::Json(text)) => {
                text.len()
            }
            (Values::Long(..), Datum::Bytea(bytes)) => bytes.len(),
            (Values::Long(..), Datum::Array(_) | Datum::Record(_) | Datum::Jsonb(_)) => {
                TEXT_BYTES_MAX
            }
            (Values::Long(..), Datum::Numeric(number)) if number.small().is_none() => {
                TEXT_BYTES_MAX
            }
            _ => 0,
        }
    }

    /// Adds a value; the bytes that it has besides its place.
    pub(super) fn push(&mut self, value: &Datum, context: &Context<'_>) -> Result<usize, SqlError> {
        let bytes = match &mut self.values {
            Values::Long(..) => return self.push_long(value, context),
            Values::Bits(bits) => {
                let value = value.bool().ok();
                push_bit(bits, self.length, value == Some(true));
                value.is_some()
            }
            Values::I16(values) => place(
                values,
                value.int().ok().and_then(|value| value.try_into().ok()),
            ),
            Values::I32(values) if self.of.kind == Kind::Date => {
                let days = value.date().ok().filter(|days| is_finite_date(*days));
                place(values, days.and_then(|days| days.checked_add(EPOCH_DAYS)))
            }
            Values::I32(values) => place(
                values,
                value.int().ok().and_then(|value| value.try_into().ok()),
            ),
            Values::I64(values) => place(values, integer(value, self.of.kind)),
            Values::U32(values) => match value {
                Datum::Oid(number) => place(values, Some(*number)),
                _ => place(values, None),
            },
            Values::F32(values) => place(values, value.float4().ok()),
            Values::F64(values) => match value {
                Datum::Float8(number) => place(values, Some(*number)),
                _ => place(values, None),
            },
            Values::I128(values) => {
                let number = value.numeric().ok().map(|number| units(number, self.scale));
                place(values, number.transpose()?)
            }
            Values::Spans(values) => place(values, value.interval().ok().map(span).transpose()?),
            Values::Fixed(values) => {
                let uuid = match value {
                    Datum::Uuid(bytes) => Some(bytes),
                    _ => None,
                };
                values.extend_from_slice(uuid.unwrap_or(&[0; 16]));
                uuid.is_some()
            }
        };
        self.note(bytes);
        Ok(0)
    }

    /// Adds the bytes of a value.
    fn push_long(&mut self, value: &Datum, context: &Context<'_>) -> Result<usize, SqlError> {
        let Values::Long(ends, bytes) = &mut self.values else {
            return Ok(0);
        };
        let before = bytes.len();
        match value {
            Datum::Null => {}
            Datum::Text(text) => bytes.extend_from_slice(text.as_bytes()),
            Datum::Bytea(octets) => bytes.extend_from_slice(octets),
            other => {
                let text = text_io::print(other, self.of.kind, context)?;
                bytes.extend_from_slice(text.as_bytes());
            }
        }
        let added = bytes.len() - before;
        let end = i32::try_from(bytes.len()).map_err(|_| {
            let message = "a batch has more than 2 GiB of texts; select fewer or shorter ones";
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
        })?;
        ends.push(end);
        self.note(!value.is_null());
        Ok(added)
    }

    /// Notes whether the value that was added is one.
    fn note(&mut self, is_valid: bool) {
        push_bit(&mut self.valid, self.length, is_valid);
        self.nulls += usize::from(!is_valid);
        self.length += 1;
    }

    /// Addresses of the buffers, in the order of the interface. They are valid while the column
    /// lives and does not grow.
    pub(super) fn buffers(&self) -> Vec<*const c_void> {
        let valid = if self.nulls == 0 {
            std::ptr::null()
        } else {
            address(&self.valid)
        };
        let first = match &self.values {
            Values::Bits(values) | Values::Fixed(values) => address(values),
            Values::I16(values) => address(values),
            Values::I32(values) => address(values),
            Values::I64(values) => address(values),
            Values::U32(values) => address(values),
            Values::F32(values) => address(values),
            Values::F64(values) => address(values),
            Values::I128(values) => address(values),
            Values::Spans(values) => address(values),
            Values::Long(ends, bytes) => return vec![valid, address(ends), address(bytes)],
        };
        vec![valid, first]
    }
}

fn address<T>(values: &[T]) -> *const c_void {
    values.as_ptr().cast()
}

/// Adds a value, or a place for none; whether it is one.
fn place<T: Default>(values: &mut Vec<T>, value: Option<T>) -> bool {
    let is_valid = value.is_some();
    values.push(value.unwrap_or_default());
    is_valid
}

fn push_bit(bits: &mut Vec<u8>, at: usize, is_set: bool) {
    if at.is_multiple_of(8) {
        bits.push(0);
    }
    if let Some(last) = bits.last_mut() {
        *last |= u8::from(is_set) << (at % 8);
    }
}

/// Values that Arrow keeps as integers of 64 bits.
fn integer(value: &Datum, kind: Kind) -> Option<i64> {
    match kind {
        Kind::Time => value.time().ok(),
        Kind::Timestamp | Kind::Timestamptz => {
            let micros = value.timestamp().ok().filter(|micros| is_finite(*micros));
            micros.and_then(|micros| micros.checked_add(EPOCH_MICROS))
        }
        _ => value.int().ok(),
    }
}

/// An interval, whose time Arrow counts in nanoseconds.
fn span(of: Interval) -> Result<Span, SqlError> {
    let nanos = of.micros.checked_mul(1000).ok_or_else(|| {
        let message = "an interval is outside of the range of Arrow's type; select it as text";
        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
    });
    Ok(Span {
        months: of.months,
        days: of.days,
        nanos: nanos?,
    })
}

/// A number in units of the scale.
fn units(number: &Numeric, scale: u16) -> Result<i128, SqlError> {
    let units = number
        .small()
        .and_then(|(units, own)| match own.cmp(&scale) {
            Ordering::Greater => None,
            _ => units.checked_mul(10_i128.checked_pow(u32::from(scale - own))?),
        });
    units.ok_or_else(|| {
        let message =
            format!("the number {number} is none of its column's type in Arrow; select it as text");
        SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message)
    })
}
