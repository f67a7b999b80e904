//! Values in columns of the database: the storage type of each SQL type, and the way there and
//! back.
//!
//! | SQL | column | content |
//! |---|---|---|
//! | boolean, integers, double precision, uuid, bytea | the same | |
//! | real | float64 | |
//! | date | date | from 1970; the ends of the range are the infinities |
//! | timestamps | timestamp | the same; none after 294247-01-10 fits |
//! | time, numbers of the catalogue | int64 | |
//! | numeric(p, s), p up to 38 | decimal(p, s) | |
//! | other numeric, interval, timetz | sortable | bytes in the order of the values, see `order` |
//! | char(n) | varchar(4n) | without the blanks at its end |
//! | varchar(n), name | varchar(4n), text where that is over 1,024 | |
//! | text, json | text | |
//! | jsonb, arrays, rows | bytes | `json::binary`, PostgreSQL's binary form |
//! | enum | int32 | the place of the label |
//!
//! Reading gives back exactly the value that was written, display scale of numbers and the parts
//! of intervals included. So equal values may differ as bytes: [`has_exact_keys`] says for which
//! types, and [`canonical`] gives the form that all equal values share.

use super::binary_io;
use super::context::Context;
use super::datetime::calendar::{
    DATE_INFINITY, DATE_NEGATIVE_INFINITY, DAY, INFINITY, NEGATIVE_INFINITY, UNIX_EPOCH_DAYS,
    timestamp_out_of_range,
};
use super::datum::{Datum, Timetz, without_blanks};
use super::interval::Interval;
use super::json::Json;
use super::kind::{Kind, Type};
use super::numeric::{Class, Numeric, SCALE_MAX, ten_to};
use crate::error::{Result, SqlError, SqlState};
use indelible::{DataType, Date, Decimal, Timestamp, Uuid, Value, ValueRef};
use num_bigint::{BigInt, Sign};
use std::sync::Arc;

/// Bytes of the longest content that is stored as a text with a limit.
const LIMITED_BYTES_MAX: usize = 1024;
/// Digits of a number that fits a decimal column.
const DECIMAL_DIGITS_MAX: u16 = 38;
/// Bytes of the longest number: sign, exponent, two digits a byte, end and scale.
const NUMERIC_BYTES_MAX: u32 = 80_000;
const INTERVAL_BYTES: u32 = 24;
const TIMETZ_BYTES: u32 = 12;
/// Microseconds from 1970-01-01 to 2000-01-01.
const EPOCH_MICROS: i64 = UNIX_EPOCH_DAYS * DAY;
const EPOCH_DAYS: i32 = UNIX_EPOCH_DAYS as i32;
/// The last moment that a column holds: 294247-01-10 04:00:54.775806. It counts from 1970, and the
/// number after it is infinity.
const LAST_MOMENT: i64 = INFINITY - 1 - EPOCH_MICROS;

/// The storage type of a column.
pub fn column_type(of: Type) -> Result<DataType> {
    Ok(match of.kind {
        Kind::Bool => DataType::Bool,
        Kind::Int2 => DataType::Int16,
        Kind::Int4 | Kind::Enum(_) => DataType::Int32,
        Kind::Int8 | Kind::Time => DataType::Int64,
        Kind::Float4 | Kind::Float8 => DataType::Float64,
        Kind::Numeric => match decimal(of) {
            Some((precision, scale)) => DataType::Decimal { precision, scale },
            None => DataType::Sortable {
                max: NUMERIC_BYTES_MAX,
            },
        },
        Kind::Interval => DataType::Sortable {
            max: INTERVAL_BYTES,
        },
        Kind::Timetz => DataType::Sortable { max: TIMETZ_BYTES },
        Kind::Bpchar | Kind::Varchar => match of.length() {
            Some(length) if length * 4 <= LIMITED_BYTES_MAX => DataType::Varchar {
                max: (length * 4) as u32,
            },
            _ => DataType::Text,
        },
        Kind::Name => DataType::Varchar { max: 64 },
        Kind::Char => DataType::Varchar { max: 4 },
        Kind::Text | Kind::Json | Kind::NodeTree | Kind::Refcursor | Kind::Unknown => {
            DataType::Text
        }
        kind if kind.is_geometric() => DataType::Text,
        Kind::Bytea | Kind::Jsonb => DataType::Bytes { max: None },
        Kind::Date => DataType::Date,
        Kind::Timestamp | Kind::Timestamptz => DataType::Timestamp,
        Kind::Uuid => DataType::Uuid,
        Kind::Composite(_) => DataType::Bytes { max: None },
        kind if kind.element().is_some() => DataType::Bytes { max: None },
        kind if kind.is_object_number() => DataType::Int64,
        kind => {
            return Err(SqlError::unsupported(
                format!("a column of type {kind}"),
                "Use a column for each of its fields, or jsonb.",
            ));
        }
    })
}

/// Precision and scale of a type that fits a decimal column.
fn decimal(of: Type) -> Option<(u8, u8)> {
    let (precision, scale) = of.precision()?;
    let scale = u16::try_from(scale).ok()?;
    (precision <= DECIMAL_DIGITS_MAX && scale <= precision)
        .then_some((precision as u8, scale as u8))
}

/// Whether keys of the type are in the order of its values, and equal exactly where the values
/// are. Where not, an index needs [`canonical`] values, or cannot help at all.
pub fn has_exact_keys(of: Type) -> bool {
    match of.kind {
        Kind::Numeric => decimal(of).is_some(),
        Kind::Interval | Kind::Jsonb | Kind::Json | Kind::Composite(_) => false,
        kind => kind.element().is_none() && !kind.is_geometric(),
    }
}

/// Whether equal values have equal keys. `1` and `1.0` have not inside of `jsonb` and of arrays.
pub fn has_equal_keys(of: Type) -> bool {
    use Kind::{Bpchar, Composite, Float4, Float8, Interval, Jsonb, Numeric, Timetz};
    let is_plain = |kind| !matches!(kind, Jsonb | Composite(_));
    let is_in_one_form =
        |kind| !matches!(kind, Bpchar | Float4 | Float8 | Interval | Numeric | Timetz);
    let element = of.kind.element();
    is_plain(of.kind) && element.is_none_or(|kind| is_plain(kind) && is_in_one_form(kind))
}

/// Whether [`canonical`] values of the type are read as all values that are equal to them were
/// written.
pub fn keys_keep_form(of: Type) -> bool {
    match of.kind {
        Kind::Numeric => of.precision().is_some(),
        kind => kind != Kind::Interval,
    }
}

/// The form that all values equal to this one share, for keys. Only numbers and intervals have
/// several.
pub fn canonical(datum: &Datum) -> Datum {
    match datum {
        Datum::Numeric(number) => Datum::Numeric(number.trimmed()),
        Datum::Interval(interval) => {
            let span = interval.span();
            let micros = span % i128::from(DAY);
            let days = span / i128::from(DAY);
            let (months, days) = (days / 30, days % 30);
            Datum::Interval(Interval::new(months as i32, days as i32, micros as i64))
        }
        other => other.clone(),
    }
}

/// The value for a column.
pub fn store(datum: &Datum, of: Type, context: &Context<'_>) -> Result<Value> {
    if let Some(value) = lend(datum, of)? {
        return Ok(value.to_value());
    }
    Ok(match datum {
        Datum::Numeric(number) => Value::Bytes(order::numeric(number)),
        Datum::Timetz(time) => Value::Bytes(order::timetz(*time)),
        Datum::Interval(interval) => Value::Bytes(order::interval(*interval)),
        Datum::Jsonb(json) => Value::Bytes(json.to_bytes()),
        Datum::Array(_) | Datum::Record(_) => {
            let mut bytes = Vec::new();
            binary_io::print(&mut bytes, datum, of.kind, context)?;
            Value::Bytes(bytes)
        }
        _ => return Err(SqlError::internal(format!("{of} is not stored"))),
    })
}

/// Whether a column can have a value that is equal to this one.
pub fn holds(datum: &Datum, of: Type) -> bool {
    match datum {
        Datum::Int2(number) => holds_integer(i64::from(*number), of.kind),
        Datum::Int4(number) => holds_integer(i64::from(*number), of.kind),
        Datum::Int8(number) => holds_integer(*number, of.kind),
        Datum::Numeric(number) => match decimal(of) {
            Some((precision, scale)) => {
                let rounded = number.round(i32::from(scale));
                rounded == *number && fits(&rounded, precision)
            }
            None => true,
        },
        Datum::Text(text) => within(text, of).len() == text.len(),
        Datum::Bpchar(text) => {
            let text = without_blanks(text);
            within(text, of).len() == text.len()
        }
        Datum::Timestamp(micros) | Datum::Timestamptz(micros) => {
            *micros <= LAST_MOMENT || *micros == INFINITY
        }
        _ => true,
    }
}

/// The value next to one that a column cannot hold: no other value of the column lies between both.
pub fn nearest(datum: &Datum, of: Type) -> Datum {
    let clamped = |number: i64| match of.kind {
        Kind::Int2 => number.clamp(i64::from(i16::MIN), i64::from(i16::MAX)),
        Kind::Int4 => number.clamp(i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => number,
    };
    match datum {
        Datum::Int2(number) => Datum::Int8(clamped(i64::from(*number))),
        Datum::Int4(number) => Datum::Int8(clamped(i64::from(*number))),
        Datum::Int8(number) => Datum::Int8(clamped(*number)),
        Datum::Numeric(number) => Datum::Numeric(match decimal(of) {
            Some((precision, scale)) => {
                let rounded = number.round(i32::from(scale));
                let end = 10_i128.pow(u32::from(precision)) - 1;
                match fits(&rounded, precision) {
                    true => rounded,
                    false if *number < Numeric::ZERO => Numeric::new(-end, scale.into()),
                    false => Numeric::new(end, scale.into()),
                }
            }
            None => number.clone(),
        }),
        Datum::Text(text) => Datum::text(within(text, of)),
        Datum::Bpchar(text) => Datum::Bpchar(within(text, of).into()),
        Datum::Timestamp(_) if !holds(datum, of) => Datum::Timestamp(LAST_MOMENT),
        Datum::Timestamptz(_) if !holds(datum, of) => Datum::Timestamptz(LAST_MOMENT),
        other => other.clone(),
    }
}

fn holds_integer(number: i64, kind: Kind) -> bool {
    match kind {
        Kind::Int2 => i16::try_from(number).is_ok(),
        Kind::Int4 => i32::try_from(number).is_ok(),
        _ => true,
    }
}

/// Whether a number has no more digits than a decimal column; NaN and infinities have.
fn fits(number: &Numeric, precision: u8) -> bool {
    let units = number.small().map(|(units, _)| units.unsigned_abs());
    units.is_some_and(|units| units < 10_u128.pow(u32::from(precision)))
}

/// The beginning of a text as long as a column may have it.
fn within(text: &str, of: Type) -> &str {
    let end = match (of.length(), of.kind) {
        (Some(length), _) if length < text.len() => {
            let end = text.char_indices().nth(length);
            end.map_or(text.len(), |(at, _)| at)
        }
        (_, Kind::Name) => text.floor_char_boundary(63),
        (_, Kind::Char) => text.floor_char_boundary(4),
        _ => text.len(),
    };
    &text[..end]
}

/// The value for a column, with the content of the datum; none if its bytes must be made first.
pub fn lend(datum: &Datum, of: Type) -> Result<Option<ValueRef<'_>>> {
    Ok(Some(match datum {
        Datum::Null => ValueRef::Null,
        Datum::Bool(value) => ValueRef::Bool(*value),
        Datum::Int2(value) => ValueRef::Int16(*value),
        Datum::Int4(value) => ValueRef::Int32(*value),
        Datum::Int8(value) | Datum::Time(value) => ValueRef::Int64(*value),
        Datum::Float4(value) => ValueRef::Float64(f64::from(*value)),
        Datum::Float8(value) => ValueRef::Float64(*value),
        Datum::Numeric(number) => match decimal(of) {
            Some((_, scale)) => ValueRef::Decimal(store_decimal(number, scale, of)?),
            None => return Ok(None),
        },
        Datum::Text(held) | Datum::Json(held) => ValueRef::Text(held),
        Datum::Bpchar(held) => ValueRef::Text(without_blanks(held)),
        Datum::Bytea(held) => ValueRef::Bytes(held),
        Datum::Date(days) => ValueRef::Date(Date(match *days {
            DATE_INFINITY | DATE_NEGATIVE_INFINITY => *days,
            days => days.saturating_add(EPOCH_DAYS),
        })),
        Datum::Timestamp(micros) | Datum::Timestamptz(micros) => {
            ValueRef::Timestamp(Timestamp(store_moment(*micros)?))
        }
        Datum::Uuid(bytes) => ValueRef::Uuid(Uuid(*bytes)),
        Datum::Enum(label) => ValueRef::Int32(label.place),
        Datum::Oid(number) => ValueRef::Int64(i64::from(*number)),
        _ => return Ok(None),
    }))
}

/// Whether [`lend`] has all values of the type.
pub fn is_lent(of: Type) -> bool {
    match of.kind {
        Kind::Numeric => decimal(of).is_some(),
        Kind::Timetz | Kind::Interval | Kind::Jsonb => false,
        kind => kind.element().is_none(),
    }
}

/// The decimal column has neither NaN nor infinities.
fn store_decimal(number: &Numeric, scale: u8, of: Type) -> Result<Decimal> {
    let fitted = number.round(i32::from(scale));
    match fitted.small() {
        Some((units, scale)) => Ok(Decimal::new(units, scale as u8)),
        None => Err(SqlError::unsupported(
            format!("{number} in a column of type {of}"),
            "Use a column of type numeric, without a precision.",
        )),
    }
}

fn store_moment(micros: i64) -> Result<i64> {
    match micros {
        INFINITY | NEGATIVE_INFINITY => Ok(micros),
        ..=LAST_MOMENT => Ok(micros + EPOCH_MICROS),
        _ => Err(timestamp_out_of_range()),
    }
}

/// The value of a column.
pub fn load(value: ValueRef<'_>, of: Type, context: &Context<'_>) -> Result<Datum> {
    Ok(match (value, of.kind) {
        (ValueRef::Null, _) => Datum::Null,
        (ValueRef::Bool(value), _) => Datum::Bool(value),
        (ValueRef::Int16(value), _) => Datum::Int2(value),
        (ValueRef::Int32(place), Kind::Enum(oid)) => {
            let labels = context.names.enum_labels(oid);
            let found = labels.into_iter().find(|label| label.place == place);
            Datum::Enum(found.ok_or_else(|| damaged(of))?)
        }
        (ValueRef::Int32(value), _) => Datum::Int4(value),
        (ValueRef::Int64(value), Kind::Time) => Datum::Time(value),
        (ValueRef::Int64(value), kind) if kind.is_object_number() => Datum::Oid(value as u32),
        (ValueRef::Int64(value), _) => Datum::Int8(value),
        (ValueRef::Float64(value), Kind::Float4) => Datum::Float4(value as f32),
        (ValueRef::Float64(value), _) => Datum::Float8(value),
        (ValueRef::Decimal(value), _) => {
            Datum::Numeric(Numeric::new(value.units(), u16::from(value.scale())))
        }
        (ValueRef::Text(held), Kind::Bpchar) => Datum::Bpchar(padded(held, of)),
        (ValueRef::Text(held), Kind::Json) => Datum::Json(held.into()),
        (ValueRef::Text(held), _) => Datum::text(held),
        (ValueRef::Date(Date(days)), _) => Datum::Date(match days {
            DATE_INFINITY | DATE_NEGATIVE_INFINITY => days,
            days => days.saturating_sub(EPOCH_DAYS),
        }),
        (ValueRef::Timestamp(Timestamp(micros)), kind) => {
            let micros = match micros {
                INFINITY | NEGATIVE_INFINITY => micros,
                _ => micros.saturating_sub(EPOCH_MICROS),
            };
            match kind {
                Kind::Timestamptz => Datum::Timestamptz(micros),
                _ => Datum::Timestamp(micros),
            }
        }
        (ValueRef::Uuid(Uuid(bytes)), _) => Datum::Uuid(bytes),
        (ValueRef::Bytes(bytes), kind) => load_bytes(bytes, kind, of, context)?,
    })
}

fn load_bytes(bytes: &[u8], kind: Kind, of: Type, context: &Context<'_>) -> Result<Datum> {
    let loaded = match kind {
        // A key has no zeros at its end; the type tells how many there were.
        Kind::Numeric => order::read_numeric(bytes).map(|number| {
            Datum::Numeric(match of.precision() {
                Some((_, scale)) => number.round(i32::from(scale.max(0))),
                None => number,
            })
        }),
        Kind::Interval => order::read_interval(bytes).map(Datum::Interval),
        Kind::Timetz => order::read_timetz(bytes).map(Datum::Timetz),
        Kind::Jsonb => Json::from_bytes(bytes).map(|json| Datum::Jsonb(Arc::new(json))),
        Kind::Bytea => Some(Datum::bytes(bytes)),
        _ if kind.element().is_some() || matches!(kind, Kind::Composite(_)) => {
            return binary_io::parse_stored(kind, bytes, context);
        }
        _ => None,
    };
    loaded.ok_or_else(|| damaged(of))
}

fn damaged(of: Type) -> SqlError {
    SqlError::new(
        SqlState::DATA_CORRUPTED,
        format!("a stored value of type {of} is damaged"),
    )
}

/// The content of `char(n)` with its blanks.
fn padded(content: &str, of: Type) -> Arc<str> {
    let length = of.length().unwrap_or(0);
    let missing = length.saturating_sub(content.chars().count());
    if missing == 0 {
        return content.into();
    }
    format!("{content}{}", " ".repeat(missing)).into()
}

/// Values as bytes that sort as they do.
///
/// | bytes | number |
/// |---|---|
/// | 1 | class: -infinity, negative, 0, positive, infinity, NaN |
/// | 3 | exponent to the base of 100, inverted where negative |
/// | n | digits to that base, each plus one; 101 less each where negative |
/// | 1 | end: 0, or 102 where negative |
/// | 2 | scale |
///
/// Zeros at the end of a sortable column do not count, so that readers put them back.
mod order {
    use super::{BigInt, Class, DAY, Interval, Numeric, SCALE_MAX, Sign, Timetz, ten_to};

    const NEGATIVE_INFINITY: u8 = 1;
    const NEGATIVE: u8 = 2;
    const ZERO: u8 = 3;
    const POSITIVE: u8 = 4;
    const INFINITY: u8 = 5;
    const NAN: u8 = 6;
    /// Added to exponents so that they are positive.
    const BIAS: i64 = 1 << 20;
    const NEGATIVE_END: u8 = 102;

    pub(super) fn numeric(number: &Numeric) -> Vec<u8> {
        let (units, scale) = match number.class() {
            Class::Finite(units, scale) => (units, scale),
            Class::NaN => return vec![NAN],
            Class::Infinity => return vec![INFINITY],
            Class::NegativeInfinity => return vec![NEGATIVE_INFINITY],
        };
        let mut bytes = Vec::new();
        match units.sign() {
            Sign::NoSign => bytes.push(ZERO),
            sign => {
                let is_negative = sign == Sign::Minus;
                // An even scale makes whole digits to the base of 100.
                let even = u32::from(scale) + u32::from(scale % 2);
                let scaled = units.magnitude() * ten_to(even - u32::from(scale)).magnitude();
                let mut digits = scaled.to_radix_be(100);
                let exponent = digits.len() as i64 - i64::from(even / 2) + BIAS;
                while digits.last() == Some(&0) {
                    digits.pop();
                }
                bytes.push(if is_negative { NEGATIVE } else { POSITIVE });
                let exponent = (exponent as u32).to_be_bytes();
                bytes.extend(exponent[1..].iter().map(|byte| invert(*byte, is_negative)));
                let digit = |digit: u8| if is_negative { 100 - digit } else { digit + 1 };
                bytes.extend(digits.into_iter().map(digit));
                bytes.push(if is_negative { NEGATIVE_END } else { 0 });
            }
        }
        bytes.extend(scale.to_be_bytes());
        bytes
    }

    fn invert(byte: u8, is_inverted: bool) -> u8 {
        if is_inverted { !byte } else { byte }
    }

    pub(super) fn read_numeric(bytes: &[u8]) -> Option<Numeric> {
        let mut rest = bytes.iter().copied();
        let mut next = || rest.next().unwrap_or(0);
        let class = next();
        let is_negative = match class {
            NAN => return Some(Numeric::NAN),
            INFINITY => return Some(Numeric::INFINITY),
            NEGATIVE_INFINITY => return Some(Numeric::NEGATIVE_INFINITY),
            ZERO => return Some(Numeric::new(0, u16::from_be_bytes([next(), next()]))),
            NEGATIVE | POSITIVE => class == NEGATIVE,
            _ => return None,
        };
        let exponent = [0, next(), next(), next()].map(|byte| invert(byte, is_negative));
        let exponent = i64::from(u32::from_be_bytes(exponent) & 0x00ff_ffff) - BIAS;
        let mut digits = Vec::new();
        loop {
            match (next(), is_negative) {
                (0, false) | (NEGATIVE_END, true) => break,
                (digit @ 1..=100, false) => digits.push(digit - 1),
                (digit @ 1..=100, true) => digits.push(100 - digit),
                _ => return None,
            }
        }
        let scale = u16::from_be_bytes([next(), next()]);
        let units = BigInt::from_radix_be(Sign::Plus, &digits, 100)?;
        // The last digit stands for 100 to the power of `exponent` less their number.
        let power = (exponent - digits.len() as i64) * 2 + i64::from(scale);
        if scale > SCALE_MAX || power.abs() > 300_000 {
            return None;
        }
        let units = if power >= 0 {
            units * ten_to(power as u32)
        } else {
            units / ten_to((-power) as u32)
        };
        Some(Numeric::from_big(
            if is_negative { -units } else { units },
            scale,
        ))
    }

    pub(super) fn interval(interval: Interval) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(24);
        bytes.extend(((interval.span() as u128) ^ (1 << 127)).to_be_bytes());
        bytes.extend(signed(interval.months));
        bytes.extend(signed(interval.days));
        bytes
    }

    pub(super) fn read_interval(bytes: &[u8]) -> Option<Interval> {
        let bytes: [u8; 24] = filled(bytes)?;
        let span = u128::from_be_bytes(bytes[..16].try_into().ok()?) ^ (1 << 127);
        let months = unsigned(bytes[16..20].try_into().ok()?);
        let days = unsigned(bytes[20..].try_into().ok()?);
        let of_days = i128::from(i64::from(months) * 30 + i64::from(days)) * i128::from(DAY);
        let micros = i64::try_from(span as i128 - of_days).ok()?;
        Some(Interval::new(months, days, micros))
    }

    pub(super) fn timetz(time: Timetz) -> Vec<u8> {
        let utc = time.micros + i64::from(time.zone) * 1_000_000;
        let mut bytes = Vec::with_capacity(12);
        bytes.extend(((utc as u64) ^ (1 << 63)).to_be_bytes());
        bytes.extend(signed(time.zone));
        bytes
    }

    pub(super) fn read_timetz(bytes: &[u8]) -> Option<Timetz> {
        let bytes: [u8; 12] = filled(bytes)?;
        let utc = u64::from_be_bytes(bytes[..8].try_into().ok()?) ^ (1 << 63);
        let zone = unsigned(bytes[8..].try_into().ok()?);
        let micros = (utc as i64).checked_sub(i64::from(zone) * 1_000_000)?;
        Some(Timetz { micros, zone })
    }

    fn signed(value: i32) -> [u8; 4] {
        ((value as u32) ^ (1 << 31)).to_be_bytes()
    }

    fn unsigned(bytes: [u8; 4]) -> i32 {
        (u32::from_be_bytes(bytes) ^ (1 << 31)) as i32
    }

    /// The bytes with the zeros at their end that do not count.
    fn filled<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
        let mut all = [0; N];
        all.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::super::array::{Array, Dimension};
    use super::super::{NoNames, Settings};
    use super::*;

    fn numbers() -> Vec<Numeric> {
        let texts = [
            "-Infinity",
            "-1e50",
            "-101",
            "-100",
            "-99.99",
            "-1.5",
            "-1",
            "-0.01",
            "-1e-20",
            "0",
            "1e-20",
            "0.009",
            "0.01",
            "0.1",
            "1",
            "1.5",
            "1.55",
            "9.99",
            "10",
            "99.99",
            "100",
            "101",
            "123456789012345678901234567890123456789012345",
            "1e60",
            "Infinity",
            "NaN",
        ];
        texts
            .iter()
            .map(|text| Numeric::parse(text).expect(text))
            .collect()
    }

    #[test]
    fn bytes_of_numbers_sort_as_the_numbers_do() {
        let numbers = numbers();
        for pair in numbers.windows(2) {
            assert!(
                order::numeric(&pair[0]) < order::numeric(&pair[1]),
                "{pair:?}"
            );
        }
        for number in &numbers {
            let read = order::read_numeric(&order::numeric(number)).expect("its own bytes");
            assert_eq!(
                (read.to_string(), read.scale()),
                (number.to_string(), number.scale())
            );
        }
    }

    fn context(settings: &Settings) -> Context<'_> {
        Context {
            settings,
            names: &NoNames,
            transaction_start: 0,
            statement_start: 0,
        }
    }

    #[test]
    fn values_come_back_as_they_were() {
        let settings = Settings::default();
        let context = context(&settings);
        let cases = [
            (Kind::Numeric.plain(), "1.500"),
            (Type::numeric(10, 2), "-12.30"),
            (Kind::Interval.plain(), "1 mon -30 days +00:00:01"),
            (Kind::Timetz.plain(), "04:05:06.789+02"),
            (Kind::Timestamptz.plain(), "infinity"),
            (Kind::Timestamp.plain(), "1969-12-31 23:59:59.999999"),
            (Kind::Timestamp.plain(), "294247-01-10 04:00:54.775806"),
            (Kind::Date.plain(), "-infinity"),
            (Kind::Date.plain(), "4713-01-01 BC"),
            (Type::text(Kind::Bpchar, 5), "ab   "),
            (Kind::Float4.plain(), "0.1"),
            (
                Kind::Jsonb.plain(),
                "{\"a\": [1, 2.50, null, \"x\"], \"bc\": {}}",
            ),
            (
                Kind::Array(&Kind::Int4).plain(),
                "[0:1][2:3]={{1,NULL},{3,4}}",
            ),
            (Kind::Uuid.plain(), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
        ];
        for (of, text) in cases {
            let datum = super::super::text_io::parse(of.kind, text, &context).expect(text);
            let stored = store(&datum, of, &context).expect(text);
            let loaded = load(stored.as_ref(), of, &context).expect(text);
            let printed = super::super::text_io::print(&loaded, of.kind, &context);
            assert_eq!(printed.expect(text), text);
        }
    }

    #[test]
    fn moments_after_the_last_are_no_values_of_a_column() {
        for micros in [LAST_MOMENT + 1, INFINITY - 1] {
            let late = Datum::Timestamp(micros);
            let of = Kind::Timestamp.plain();
            assert!(!holds(&late, of));
            assert_eq!(nearest(&late, of), Datum::Timestamp(LAST_MOMENT));
            let error = lend(&late, of).expect_err("it is too late");
            assert_eq!(error.state, SqlState::DATETIME_FIELD_OVERFLOW);
        }
        assert!(holds(
            &Datum::Timestamptz(INFINITY),
            Kind::Timestamptz.plain()
        ));
    }

    /// An earlier build has stored arrays that none makes now.
    #[test]
    fn arrays_beyond_the_limits_are_read() {
        let settings = Settings::default();
        let context = context(&settings);
        let one = |lower| Dimension { length: 1, lower };
        for dimensions in [vec![one(1); 7], vec![one(i32::MAX)]] {
            let array = Datum::Array(Arc::new(Array {
                element: Kind::Int4,
                dimensions,
                elements: vec![Datum::Int4(5)],
            }));
            let of = Kind::Array(&Kind::Int4).plain();
            let stored = store(&array, of, &context).expect("its bytes");
            assert_eq!(load(stored.as_ref(), of, &context), Ok(array));
            let Value::Bytes(bytes) = stored else {
                panic!("an array is kept as bytes");
            };
            let error = binary_io::parse(of.kind, &bytes, &context).expect_err("of a client");
            assert_eq!(error.state, SqlState::PROGRAM_LIMIT_EXCEEDED);
        }
    }
}
