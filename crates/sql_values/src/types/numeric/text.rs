//! Numbers as text, and the limits of a column's type.
//!
//! Texts are those of PostgreSQL's `numeric_in`: digits with a point and an exponent, `NaN`, and
//! `Infinity` or `inf` with a sign.

use super::{Class, Numeric, SCALE_MAX, WEIGHT_DIGITS_MAX, digit_count, ten_to};
use crate::error::{Result, SqlError, SqlState};
use num_bigint::BigInt;
use std::fmt::{self, Display};

impl Numeric {
    /// The number of a text.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = || {
            SqlError::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                format!("invalid input syntax for type numeric: \"{text}\""),
            )
        };
        let trimmed = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
        let (is_negative, body) = match trimmed.as_bytes().first() {
            Some(b'-') => (true, &trimmed[1..]),
            Some(b'+') => (false, &trimmed[1..]),
            _ => (false, trimmed),
        };
        match body.to_ascii_lowercase().as_str() {
            "infinity" | "inf" if is_negative => return Ok(Self::NEGATIVE_INFINITY),
            "infinity" | "inf" => return Ok(Self::INFINITY),
            "nan" if body.len() == trimmed.len() => return Ok(Self::NAN),
            _ => {}
        }
        let (mantissa, exponent) = match body.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent).ok_or_else(bad)?),
            None => (body, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = [whole, fraction].concat();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(bad());
        }
        let units = match digits.parse::<i128>() {
            Ok(units) => BigInt::from(units),
            Err(_) => digits.parse::<BigInt>().map_err(|_| bad())?,
        };
        let units = if is_negative { -units } else { units };
        Self::with_exponent(units, fraction.len() as i64 - exponent)
    }

    /// `units` divided by 10 to the power of `scale`, which may be negative.
    fn with_exponent(units: BigInt, scale: i64) -> Result<Self> {
        if units == BigInt::ZERO {
            return Ok(Self::new(0, scale.clamp(0, i64::from(SCALE_MAX)) as u16));
        }
        if digit_count(&units) as i64 - scale > WEIGHT_DIGITS_MAX as i64 {
            return Err(overflow());
        }
        match u16::try_from(scale) {
            Ok(scale) if scale <= SCALE_MAX => Ok(Self::from_big(units, scale)),
            Ok(_) => Err(overflow()),
            Err(_) if scale < 0 => Ok(Self::from_big(units * ten_to((-scale) as u32), 0)),
            Err(_) => Err(overflow()),
        }
    }

    /// The number as a column of the given precision and scale holds it.
    pub fn fitted(&self, precision: u16, scale: i16) -> Result<Self> {
        let overflow = |detail: String| {
            let error = SqlError::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                "numeric field overflow",
            );
            Err(error.detail(format!(
                "A field with precision {precision}, scale {scale} {detail}"
            )))
        };
        if self.is_infinite() {
            return overflow("cannot hold an infinite value.".to_owned());
        }
        let rounded = self.round(i32::from(scale));
        let Class::Finite(units, stored_scale) = rounded.class() else {
            return Ok(rounded);
        };
        let whole_digits = digit_count(&units) as i64 - i64::from(stored_scale);
        let limit = i64::from(precision) - i64::from(scale);
        if units != BigInt::ZERO && whole_digits > limit {
            let power = match limit {
                0 => "1".to_owned(),
                _ => format!("10^{limit}"),
            };
            return overflow(format!(
                "must round to an absolute value less than {power}."
            ));
        }
        Ok(rounded)
    }
}

/// An exponent; beyond the limits of all numbers they are all the same.
fn parse_exponent(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(match text.parse::<i64>() {
        Ok(exponent) => exponent.clamp(-1_000_000, 1_000_000),
        Err(_) if text.starts_with('-') => -1_000_000,
        Err(_) => 1_000_000,
    })
}

/// A result that no number can hold.
pub(super) fn overflow() -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        "value overflows numeric format",
    )
}

impl Display for Numeric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (digits, scale) = match self.small() {
            Some((units, scale)) => (units.unsigned_abs().to_string(), scale),
            None => match self.class() {
                Class::NaN => return formatter.write_str("NaN"),
                Class::Infinity => return formatter.write_str("Infinity"),
                Class::NegativeInfinity => return formatter.write_str("-Infinity"),
                Class::Finite(units, scale) => (units.magnitude().to_str_radix(10), scale),
            },
        };
        if self.signum() < 0 {
            formatter.write_str("-")?;
        }
        let scale = usize::from(scale);
        if scale == 0 {
            return formatter.write_str(&digits);
        }
        match digits.len().checked_sub(scale) {
            Some(0) | None => write!(formatter, "0.{digits:0>scale$}"),
            Some(point) => write!(formatter, "{}.{}", &digits[..point], &digits[point..]),
        }
    }
}
