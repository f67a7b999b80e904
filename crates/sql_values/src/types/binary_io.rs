//! Values in PostgreSQL's binary forms, both ways: what drivers send and read, and the content of
//! arrays in columns. Numbers are big-endian.
//!
//! A value that is read was written by somebody else: lengths and counts are checked before they
//! are believed.

use super::array::{Array, Dimension, check_dimensions};
use super::context::Context;
use super::datetime::calendar::{self, DAY};
use super::datum::{Datum, Record, RecordShape, Timetz};
use super::geometry;
use super::interval::Interval;
use super::json::Json;
use super::kind::Kind;
use super::numeric::{Class, Numeric, SCALE_MAX, ten_to};
use super::{size, text_io};
use crate::error::{Result, SqlError, SqlState};
use num_bigint::{BigInt, Sign};
use std::sync::Arc;

/// The base of the digits of a number.
const NUMERIC_BASE: u32 = 10_000;
const NUMERIC_POSITIVE: u16 = 0x0000;
const NUMERIC_NEGATIVE: u16 = 0x4000;
const NUMERIC_NAN: u16 = 0xc000;
const NUMERIC_INFINITY: u16 = 0xd000;
const NUMERIC_NEGATIVE_INFINITY: u16 = 0xf000;
/// Farthest from UTC that a zone is, in seconds, exclusive.
const ZONE_END: i32 = 16 * 3600;
/// The deepest nesting of rows and arrays.
const DEPTH_MAX: usize = 200;
/// The first byte of `jsonb`.
const JSONB_VERSION: u8 = 1;

/// Appends the bytes of a value that is not NULL.
pub fn print(out: &mut Vec<u8>, datum: &Datum, kind: Kind, context: &Context<'_>) -> Result<()> {
    match datum {
        Datum::Null => {}
        Datum::Bool(value) => out.push(u8::from(*value)),
        Datum::Int2(value) => out.extend(value.to_be_bytes()),
        Datum::Int4(value) | Datum::Date(value) => out.extend(value.to_be_bytes()),
        Datum::Int8(value)
        | Datum::Time(value)
        | Datum::Timestamp(value)
        | Datum::Timestamptz(value) => out.extend(value.to_be_bytes()),
        Datum::Float4(value) => out.extend(value.to_be_bytes()),
        Datum::Float8(value) => out.extend(value.to_be_bytes()),
        Datum::Numeric(number) => print_numeric(out, number),
        Datum::Text(text) if kind == Kind::Char => {
            out.push(text.chars().next().map_or(0, |byte| byte as u8));
        }
        Datum::Text(text) if kind.is_geometric() => geometry::print_binary(out, kind, text)?,
        Datum::Text(text) | Datum::Bpchar(text) | Datum::Json(text) => {
            out.extend(text.as_bytes());
        }
        Datum::Bytea(text) => out.extend(&text[..]),
        Datum::Timetz(time) => {
            out.extend(time.micros.to_be_bytes());
            out.extend(time.zone.to_be_bytes());
        }
        Datum::Interval(interval) => {
            out.extend(interval.micros.to_be_bytes());
            out.extend(interval.days.to_be_bytes());
            out.extend(interval.months.to_be_bytes());
        }
        Datum::Uuid(bytes) => out.extend(bytes),
        Datum::Jsonb(json) => {
            out.push(JSONB_VERSION);
            out.extend(json.to_string().as_bytes());
        }
        Datum::Array(array) => print_array(out, array, context)?,
        Datum::Record(record) => print_record(out, record, context)?,
        Datum::Enum(label) => out.extend(label.label.as_bytes()),
        Datum::Oid(number) => {
            debug_assert!(kind.is_object_number() || kind == Kind::Oid);
            out.extend(number.to_be_bytes());
        }
        Datum::Tid(place) => {
            out.extend(((place >> 16) as u32).to_be_bytes());
            out.extend((*place as u16).to_be_bytes());
        }
    }
    Ok(())
}

fn print_numeric(out: &mut Vec<u8>, number: &Numeric) {
    let (units, scale) = match number.class() {
        Class::Finite(units, scale) => (units, scale),
        special => {
            let sign = match special {
                Class::Infinity => NUMERIC_INFINITY,
                Class::NegativeInfinity => NUMERIC_NEGATIVE_INFINITY,
                _ => NUMERIC_NAN,
            };
            for half in [0, 0, sign, 0] {
                out.extend(half.to_be_bytes());
            }
            return;
        }
    };
    let is_negative = units.sign() == Sign::Minus;
    let after = scale.div_ceil(4);
    let mut digits = Vec::new();
    let mut rest = units.magnitude() * ten_to(u32::from(after * 4 - scale)).magnitude();
    while rest.bits() > 0 {
        let digit = &rest % NUMERIC_BASE;
        digits.push(u16::try_from(&digit).unwrap_or(0));
        rest /= NUMERIC_BASE;
    }
    let weight = digits.len() as i32 - i32::from(after) - 1;
    digits.reverse();
    while digits.last() == Some(&0) {
        digits.pop();
    }
    let weight = if digits.is_empty() { 0 } else { weight };
    let sign = if is_negative {
        NUMERIC_NEGATIVE
    } else {
        NUMERIC_POSITIVE
    };
    out.extend((digits.len() as u16).to_be_bytes());
    out.extend((weight as i16).to_be_bytes());
    out.extend(sign.to_be_bytes());
    out.extend(scale.to_be_bytes());
    for digit in digits {
        out.extend(digit.to_be_bytes());
    }
}

/// Appends a length and the bytes of a value, or -1.
fn print_sized(out: &mut Vec<u8>, datum: &Datum, kind: Kind, context: &Context<'_>) -> Result<()> {
    if datum.is_null() {
        out.extend((-1_i32).to_be_bytes());
        return Ok(());
    }
    let place = out.len();
    out.extend([0; 4]);
    print(out, datum, kind, context)?;
    size::check(out.len())?;
    let length = (out.len() - place - 4) as i32;
    out[place..place + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn print_array(out: &mut Vec<u8>, array: &Array, context: &Context<'_>) -> Result<()> {
    let has_nulls = array.elements.iter().any(Datum::is_null);
    out.extend((array.dimensions.len() as i32).to_be_bytes());
    out.extend(i32::from(has_nulls).to_be_bytes());
    out.extend(array.element.oid().to_be_bytes());
    for dimension in &array.dimensions {
        out.extend((dimension.length as i32).to_be_bytes());
        out.extend(dimension.lower.to_be_bytes());
    }
    for element in &array.elements {
        print_sized(out, element, array.element, context)?;
    }
    Ok(())
}

fn print_record(out: &mut Vec<u8>, record: &Record, context: &Context<'_>) -> Result<()> {
    out.extend((record.fields.len() as i32).to_be_bytes());
    for (place, field) in record.fields.iter().enumerate() {
        let kind = record
            .shape
            .types
            .get(place)
            .map_or(field.kind(), |one| one.kind);
        out.extend(kind.oid().to_be_bytes());
        print_sized(out, field, kind, context)?;
    }
    Ok(())
}

/// Bytes that are no value of the kind.
fn bad(what: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, what)
}

/// Bytes that are read from the front.
struct Bytes<'b> {
    rest: &'b [u8],
    origin: Origin,
    /// Values around this one.
    depth: usize,
}

/// The writer of the bytes of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Client,
    /// This program. What it has accepted once it can read; and rows may be shorter than their
    /// type, which has further columns since.
    Column,
}

impl<'b> Bytes<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8]> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(SqlError::new(
                SqlState::PROTOCOL_VIOLATION,
                "insufficient data left in message",
            )),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = self.take(N)?;
        Ok(taken.try_into().expect("so many bytes were taken"))
    }

    fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn i64(&mut self) -> Result<i64> {
        self.array().map(i64::from_be_bytes)
    }

    fn text(&mut self) -> Result<&'b str> {
        let bytes = std::mem::take(&mut self.rest);
        let error = || {
            let invalid = std::str::from_utf8(bytes).err();
            let at = invalid.map_or(0, |error| error.valid_up_to());
            let shown = bytes[at..]
                .iter()
                .take(3)
                .map(|byte| format!("0x{byte:02x}"));
            SqlError::new(
                SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                format!(
                    "invalid byte sequence for encoding \"UTF8\": {}",
                    shown.collect::<Vec<_>>().join(" ")
                ),
            )
        };
        std::str::from_utf8(bytes).map_err(|_| error())
    }
}

/// The value of the bytes that a client sends.
pub fn parse(kind: Kind, bytes: &[u8], context: &Context<'_>) -> Result<Datum> {
    parse_whole(kind, bytes, (Origin::Client, 0), context)
}

/// The value of the bytes in a column.
pub fn parse_stored(kind: Kind, bytes: &[u8], context: &Context<'_>) -> Result<Datum> {
    parse_whole(kind, bytes, (Origin::Column, 0), context)
}

fn parse_whole(
    kind: Kind,
    bytes: &[u8],
    (origin, depth): (Origin, usize),
    context: &Context<'_>,
) -> Result<Datum> {
    if depth > DEPTH_MAX {
        let message = "stack depth limit exceeded";
        return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
    }
    let mut bytes = Bytes {
        rest: bytes,
        origin,
        depth,
    };
    let datum = parse_from(kind, &mut bytes, context)?;
    if bytes.rest.is_empty() {
        Ok(datum)
    } else {
        Err(bad("incorrect binary data format"))
    }
}

fn parse_from(kind: Kind, bytes: &mut Bytes<'_>, context: &Context<'_>) -> Result<Datum> {
    Ok(match kind {
        Kind::Bool => Datum::Bool(bytes.array::<1>()? != [0]),
        Kind::Int2 => Datum::Int2(bytes.array().map(i16::from_be_bytes)?),
        Kind::Int4 => Datum::Int4(bytes.i32()?),
        Kind::Int8 => Datum::Int8(bytes.i64()?),
        Kind::Float4 => Datum::Float4(bytes.array().map(f32::from_be_bytes)?),
        Kind::Float8 => Datum::Float8(bytes.array().map(f64::from_be_bytes)?),
        Kind::Numeric => Datum::Numeric(parse_numeric(bytes)?),
        Kind::Bytea => Datum::bytes(std::mem::take(&mut bytes.rest)),
        Kind::Date => Datum::Date(parse_date(bytes)?),
        Kind::Time => Datum::Time(parse_time(bytes)?),
        Kind::Timetz => Datum::Timetz(Timetz {
            micros: parse_time(bytes)?,
            zone: parse_zone(bytes)?,
        }),
        Kind::Timestamp => Datum::Timestamp(parse_moment(bytes)?),
        Kind::Timestamptz => Datum::Timestamptz(parse_moment(bytes)?),
        Kind::Interval => {
            let micros = bytes.i64()?;
            let days = bytes.i32()?;
            Datum::Interval(Interval::new(bytes.i32()?, days, micros))
        }
        Kind::Uuid => Datum::Uuid(bytes.array()?),
        Kind::Char => match bytes.array()? {
            [0] => Datum::text(""),
            [byte] => Datum::text(char::from(byte).to_string()),
        },
        _ if kind.is_geometric() => {
            let value = geometry::parse_binary(kind, std::mem::take(&mut bytes.rest));
            value
                .map(Datum::text)
                .ok_or_else(|| bad("incorrect binary data format"))?
        }
        Kind::Jsonb => {
            let [version] = bytes.array()?;
            if version != JSONB_VERSION {
                return Err(bad(&format!("unsupported jsonb version number {version}")));
            }
            Datum::Jsonb(Arc::new(Json::parse(bytes.text()?)?))
        }
        Kind::Tid => {
            let block = bytes.array().map(u32::from_be_bytes)?;
            Datum::Tid((u64::from(block) << 16) | u64::from(bytes.u16()?))
        }
        Kind::Array(_)
        | Kind::EnumArray(_)
        | Kind::CompositeArray(_)
        | Kind::Int2Vector
        | Kind::OidVector => parse_array(kind, bytes, context)?,
        Kind::Record | Kind::Composite(_) => parse_record(kind, bytes, context)?,
        _ if kind.is_object_number() => Datum::Oid(bytes.array().map(u32::from_be_bytes)?),
        _ => {
            let text = bytes.text()?;
            return text_io::parse(kind, text, context);
        }
    })
}

fn parse_time(bytes: &mut Bytes<'_>) -> Result<i64> {
    let micros = bytes.i64()?;
    if (0..=DAY).contains(&micros) {
        Ok(micros)
    } else {
        Err(SqlError::new(
            SqlState::DATETIME_FIELD_OVERFLOW,
            "time out of range",
        ))
    }
}

fn parse_date(bytes: &mut Bytes<'_>) -> Result<i32> {
    let days = bytes.i32()?;
    if bytes.origin == Origin::Client && calendar::is_finite_date(days) {
        calendar::checked_date(days.into())
    } else {
        Ok(days)
    }
}

fn parse_moment(bytes: &mut Bytes<'_>) -> Result<i64> {
    let micros = bytes.i64()?;
    let is_checked = bytes.origin == Origin::Client && calendar::is_finite(micros);
    if is_checked && !calendar::is_valid(micros) {
        return Err(calendar::timestamp_out_of_range());
    }
    Ok(micros)
}

fn parse_zone(bytes: &mut Bytes<'_>) -> Result<i32> {
    let seconds = bytes.i32()?;
    if (1 - ZONE_END..ZONE_END).contains(&seconds) {
        Ok(seconds)
    } else {
        Err(SqlError::new(
            SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE,
            "time zone displacement out of range",
        ))
    }
}

fn parse_numeric(bytes: &mut Bytes<'_>) -> Result<Numeric> {
    let count = bytes.u16()?;
    let weight = i64::from(bytes.u16()? as i16);
    let sign = bytes.u16()?;
    let scale = bytes.u16()?;
    match sign {
        NUMERIC_NAN => return Ok(Numeric::NAN),
        NUMERIC_INFINITY => return Ok(Numeric::INFINITY),
        NUMERIC_NEGATIVE_INFINITY => return Ok(Numeric::NEGATIVE_INFINITY),
        NUMERIC_POSITIVE | NUMERIC_NEGATIVE => {}
        _ => return Err(bad("invalid sign in external \"numeric\" value")),
    }
    if scale > SCALE_MAX {
        return Err(bad("invalid scale in external \"numeric\" value"));
    }
    let mut units = BigInt::ZERO;
    for _ in 0..count {
        let digit = bytes.u16()?;
        if u32::from(digit) >= NUMERIC_BASE {
            return Err(bad("invalid digit in external \"numeric\" value"));
        }
        units = units * NUMERIC_BASE + digit;
    }
    if sign == NUMERIC_NEGATIVE {
        units = -units;
    }
    // Digits beyond the scale are cut, as PostgreSQL does.
    let after = (i64::from(count) - weight - 1) * 4;
    let more = i64::from(scale) - after;
    let units = if more >= 0 {
        units * ten_to(more as u32)
    } else {
        units / ten_to((-more) as u32)
    };
    Ok(Numeric::from_big(units, scale))
}

fn parse_sized(kind: Kind, bytes: &mut Bytes<'_>, context: &Context<'_>) -> Result<Datum> {
    let length = bytes.i32()?;
    match usize::try_from(length) {
        Ok(length) => {
            let inner = (bytes.origin, bytes.depth + 1);
            parse_whole(kind, bytes.take(length)?, inner, context)
        }
        Err(_) if length == -1 => Ok(Datum::Null),
        Err(_) => Err(bad("insufficient data left in message")),
    }
}

fn parse_array(kind: Kind, bytes: &mut Bytes<'_>, context: &Context<'_>) -> Result<Datum> {
    let wanted = kind.element().unwrap_or(kind);
    let count = bytes.i32()?;
    let count = usize::try_from(count)
        .map_err(|_| bad(&format!("invalid number of dimensions: {count}")))?;
    let is_stored = bytes.origin == Origin::Column;
    // An earlier build has accepted more dimensions and greater bounds. Each takes eight bytes.
    if !is_stored || count > bytes.rest.len() / 8 {
        check_dimensions(count)?;
    }
    if !matches!(bytes.i32()?, 0 | 1) && !is_stored {
        return Err(bad("invalid array flags"));
    }
    let oid = bytes.array().map(u32::from_be_bytes)?;
    if oid != wanted.oid() {
        return Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "binary data has array element type {oid} instead of expected {} ({wanted})",
                wanted.oid()
            ),
        ));
    }
    let mut dimensions = Vec::with_capacity(count);
    let mut total = usize::from(count > 0);
    for _ in 0..count {
        let length = usize::try_from(bytes.i32()?).map_err(|_| bad("invalid array dimension"))?;
        let lower = bytes.i32()?;
        let dimension = if is_stored {
            Dimension { length, lower }
        } else {
            Dimension::new(length, lower)?
        };
        total = total
            .checked_mul(length)
            .ok_or_else(|| bad("invalid array dimension"))?;
        dimensions.push(dimension);
    }
    // Each element has a length of four bytes at least.
    if total > bytes.rest.len() / 4 {
        return Err(bad("insufficient data left in message"));
    }
    let elements = (0..total).map(|_| parse_sized(wanted, bytes, context));
    let elements = elements.collect::<Result<Vec<_>>>()?;
    Ok(Datum::Array(Arc::new(Array {
        element: wanted,
        dimensions: if total == 0 && kind.is_array() {
            Vec::new()
        } else {
            dimensions
        },
        elements,
    })))
}

fn parse_record(kind: Kind, bytes: &mut Bytes<'_>, context: &Context<'_>) -> Result<Datum> {
    let known = match kind {
        Kind::Composite(oid) => context.names.row_shape(oid),
        _ => None,
    };
    let is_stored = bytes.origin == Origin::Column;
    if known.is_none() && !is_stored {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "input of anonymous composite types is not implemented",
        ));
    }
    let count = bytes.i32()?;
    let read = usize::try_from(count).unwrap_or(0);
    if let Some(known) = &known {
        let expected = known.types.len();
        if read > expected || (read < expected && !is_stored) {
            return Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!("wrong number of columns: {count}, expected {expected}"),
            ));
        }
    }
    let mut fields = Vec::new();
    let mut found = RecordShape::default();
    for place in 1..=read {
        let oid = bytes.array().map(u32::from_be_bytes)?;
        let kind = match &known {
            Some(known) => expected_field(known.types[place - 1].kind, oid, place)?,
            None => Kind::from_oid(oid)
                .ok_or_else(|| bad(&format!("type with OID {oid} does not exist")))?,
        };
        fields.push(parse_sized(kind, bytes, context)?);
        if known.is_none() {
            found.names.push(format!("f{place}").into());
            found.types.push(kind.plain());
        }
    }
    let shape = known.unwrap_or_else(|| Arc::new(found));
    // A stored row may be from before its type had further columns.
    fields.resize(shape.types.len(), Datum::Null);
    Ok(Datum::Record(Arc::new(Record { shape, fields })))
}

/// The kind of a field, if the bytes are of it.
fn expected_field(kind: Kind, oid: u32, place: usize) -> Result<Kind> {
    if kind.oid() == oid {
        return Ok(kind);
    }
    let expected = kind.oid();
    Err(SqlError::new(
        SqlState::DATATYPE_MISMATCH,
        format!(
            "binary data has type {oid} instead of expected {expected} in record column {place}"
        ),
    ))
}
