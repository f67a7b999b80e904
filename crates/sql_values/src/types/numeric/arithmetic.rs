//! The four operations, remainders and rounding.
//!
//! Scales of results are PostgreSQL's: the larger one for sums and remainders, the sum for
//! products, and for quotients at least 16 significant digits ([`div_scale`]).

use super::text::overflow;
use super::{Class, Numeric, SCALE_MAX, WEIGHT_DIGITS_MAX, digit_count, rescaled, ten_to};
use crate::error::{Result, SqlError, SqlState};
use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;

/// Significant digits that quotients and functions have at least.
pub(super) const SIGNIFICANT_DIGITS_MIN: i64 = 16;
/// Digits after the point that quotients and functions have at most.
pub(super) const DISPLAY_SCALE_MAX: i64 = 1000;

/// The error of a division by zero.
pub fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

/// Rounds halves away from zero.
fn divided(units: &BigInt, divisor: &BigInt) -> BigInt {
    let quotient = units / divisor;
    let rest = units - &quotient * divisor;
    if rest.magnitude() * 2_u32 < *divisor.magnitude() {
        return quotient;
    }
    let is_negative = (units.sign() == Sign::Minus) != (divisor.sign() == Sign::Minus);
    quotient + if is_negative { -1 } else { 1 }
}

/// As [`divided`], of numbers that fit 128 bits.
fn divided_small(units: i128, divisor: i128) -> i128 {
    let (quotient, rest) = match (i64::try_from(units), i64::try_from(divisor)) {
        // One word is divided in a fraction of the time of two.
        (Ok(units), Ok(divisor)) if divisor != -1 => {
            (i128::from(units / divisor), i128::from(units % divisor))
        }
        _ => (units / divisor, units % divisor),
    };
    if rest.unsigned_abs() < divisor.unsigned_abs() - rest.unsigned_abs() {
        return quotient;
    }
    quotient + if (units < 0) == (divisor < 0) { 1 } else { -1 }
}

impl Numeric {
    /// The number, if it is not larger than a number may be.
    fn checked(self) -> Result<Self> {
        match &self.0 {
            super::Repr::Big(big) => {
                // Each bit is less than 0.302 digits; counting them exactly takes longer.
                let digits_max = big.units.bits() * 302 / 1000 + 1;
                if digits_max > WEIGHT_DIGITS_MAX
                    && digit_count(&big.units) > WEIGHT_DIGITS_MAX + u64::from(big.scale)
                {
                    return Err(overflow());
                }
                Ok(self)
            }
            _ => Ok(self),
        }
    }

    /// The number with the opposite sign.
    #[must_use]
    pub fn negated(&self) -> Self {
        if let Some((units, scale)) = self.small()
            && let Some(units) = units.checked_neg()
        {
            return Self::new(units, scale);
        }
        match self.class() {
            Class::NaN => Self::NAN,
            Class::Infinity => Self::NEGATIVE_INFINITY,
            Class::NegativeInfinity => Self::INFINITY,
            Class::Finite(units, scale) => Self::from_big(-units, scale),
        }
    }

    /// The number without its sign.
    #[must_use]
    pub fn abs(&self) -> Self {
        if self.signum() < 0 {
            self.negated()
        } else {
            self.clone()
        }
    }

    /// The sum.
    pub fn add(&self, other: &Self) -> Result<Self> {
        if let (Some((a, a_scale)), Some((b, b_scale))) = (self.small(), other.small()) {
            let scale = a_scale.max(b_scale);
            let sum = rescaled(a, scale - a_scale)
                .zip(rescaled(b, scale - b_scale))
                .and_then(|(a, b)| a.checked_add(b));
            if let Some(units) = sum {
                return Ok(Self::new(units, scale));
            }
        }
        match (self.class(), other.class()) {
            (Class::Finite(a, a_scale), Class::Finite(b, b_scale)) => {
                let scale = a_scale.max(b_scale);
                let a = a * ten_to(u32::from(scale - a_scale));
                let b = b * ten_to(u32::from(scale - b_scale));
                Self::from_big(a + b, scale).checked()
            }
            (Class::NaN, _) | (_, Class::NaN) => Ok(Self::NAN),
            (Class::Infinity, Class::NegativeInfinity)
            | (Class::NegativeInfinity, Class::Infinity) => Ok(Self::NAN),
            (Class::Infinity, _) | (_, Class::Infinity) => Ok(Self::INFINITY),
            _ => Ok(Self::NEGATIVE_INFINITY),
        }
    }

    /// The difference.
    pub fn subtract(&self, other: &Self) -> Result<Self> {
        self.add(&other.negated())
    }

    /// The product.
    pub fn multiply(&self, other: &Self) -> Result<Self> {
        if let (Some((a, a_scale)), Some((b, b_scale))) = (self.small(), other.small())
            && let Some(units) = a.checked_mul(b)
            && a_scale + b_scale <= SCALE_MAX
        {
            return Ok(Self::new(units, a_scale + b_scale));
        }
        match (self.class(), other.class()) {
            (Class::Finite(a, a_scale), Class::Finite(b, b_scale)) => {
                let scale = u32::from(a_scale) + u32::from(b_scale);
                let mut units = a * b;
                if let Some(more) = scale.checked_sub(u32::from(SCALE_MAX)) {
                    units = divided(&units, &ten_to(more));
                }
                Self::from_big(units, scale.min(u32::from(SCALE_MAX)) as u16).checked()
            }
            (Class::NaN, _) | (_, Class::NaN) => Ok(Self::NAN),
            _ => Ok(match self.signum() * other.signum() {
                0 => Self::NAN,
                1 => Self::INFINITY,
                _ => Self::NEGATIVE_INFINITY,
            }),
        }
    }

    /// The quotient, with the scale that [`div_scale`] selects.
    pub fn divide(&self, other: &Self) -> Result<Self> {
        match self.division_of_specials(other)? {
            Some(special) => Ok(special),
            None => self.divide_to(other, div_scale(self, other)),
        }
    }

    /// The quotient with the given scale.
    pub fn divide_to(&self, other: &Self, scale: u16) -> Result<Self> {
        if let (Some((a, a_scale)), Some((b, b_scale))) = (self.small(), other.small())
            && b != 0
            && a != i128::MIN
            && let Some(more) = (scale + b_scale).checked_sub(a_scale)
            && let Some(units) = rescaled(a, more)
        {
            return Ok(Self::new(divided_small(units, b), scale));
        }
        let (Some((a, a_scale)), Some((b, b_scale))) = (self.parts(), other.parts()) else {
            return Ok(Self::NAN);
        };
        if b.sign() == Sign::NoSign {
            return Err(division_by_zero());
        }
        let more = i64::from(scale) + i64::from(b_scale) - i64::from(a_scale);
        let units = if more >= 0 {
            divided(&(a * ten_to(more as u32)), &b)
        } else {
            divided(&a, &(b * ten_to((-more) as u32)))
        };
        Self::from_big(units, scale).checked()
    }

    /// The quotient without its fraction.
    pub fn divide_whole(&self, other: &Self) -> Result<Self> {
        if let Some(special) = self.division_of_specials(other)? {
            return Ok(special);
        }
        let (a, b, _) = self.aligned(other);
        if b.sign() == Sign::NoSign {
            return Err(division_by_zero());
        }
        Ok(Self::from_big(a / b, 0))
    }

    /// The remainder, with the sign of the dividend.
    pub fn remainder(&self, other: &Self) -> Result<Self> {
        if self.is_nan() || other.is_nan() {
            return Ok(Self::NAN);
        }
        if other.is_zero() {
            return Err(division_by_zero());
        }
        if self.is_infinite() {
            return Ok(Self::NAN);
        }
        if other.is_infinite() {
            return Ok(self.clone());
        }
        let (a, b, scale) = self.aligned(other);
        Ok(Self::from_big(a % b, scale))
    }

    /// Units of two finite numbers at their larger scale.
    fn aligned(&self, other: &Self) -> (BigInt, BigInt, u16) {
        let (a, a_scale) = self.parts().unwrap_or_default();
        let (b, b_scale) = other.parts().unwrap_or_default();
        let scale = a_scale.max(b_scale);
        (
            a * ten_to(u32::from(scale - a_scale)),
            b * ten_to(u32::from(scale - b_scale)),
            scale,
        )
    }

    /// The quotient where one of the two is no number or infinite.
    fn division_of_specials(&self, other: &Self) -> Result<Option<Self>> {
        if self.is_nan() || other.is_nan() {
            return Ok(Some(Self::NAN));
        }
        Ok(match (self.is_infinite(), other.is_infinite()) {
            (true, true) => Some(Self::NAN),
            (true, false) => match self.signum() * other.signum() {
                0 => return Err(division_by_zero()),
                1 => Some(Self::INFINITY),
                _ => Some(Self::NEGATIVE_INFINITY),
            },
            (false, true) => Some(Self::ZERO),
            (false, false) => None,
        })
    }

    /// Rounded to `scale` digits after the point, or before it where that is negative; halves go
    /// away from zero.
    #[must_use]
    pub fn round(&self, scale: i32) -> Self {
        if let Some((units, old)) = self.small()
            && let Ok(new) = u16::try_from(scale)
            && new <= old
        {
            return match 10_i128.checked_pow(u32::from(old - new)) {
                Some(1) => self.clone(),
                Some(divisor) => Self::new(divided_small(units, divisor), new),
                None => Self::new(0, new),
            };
        }
        self.rescale(scale, divided)
    }

    /// Cut to `scale` digits after the point, or before it where that is negative.
    #[must_use]
    pub fn truncate(&self, scale: i32) -> Self {
        self.rescale(scale, |units, divisor| units / divisor)
    }

    fn rescale(&self, scale: i32, divide: impl Fn(&BigInt, &BigInt) -> BigInt) -> Self {
        let Some((units, old)) = self.parts() else {
            return self.clone();
        };
        let scale = scale.clamp(-(WEIGHT_DIGITS_MAX as i32) - 1, i32::from(SCALE_MAX));
        let new = scale.max(0) as u16;
        let less = i32::from(old) - scale;
        if less <= 0 {
            return Self::from_big(units * ten_to(less.unsigned_abs()), new);
        }
        let kept = divide(&units, &ten_to(less as u32));
        Self::from_big(kept * ten_to((i32::from(new) - scale) as u32), new)
    }

    /// The largest integer that is not greater.
    #[must_use]
    pub fn floor(&self) -> Self {
        let whole = self.truncate(0);
        match self.cmp(&whole) {
            Ordering::Less => whole.subtract(&Self::from(1)).unwrap_or(whole),
            _ => whole,
        }
    }

    /// The smallest integer that is not less.
    #[must_use]
    pub fn ceil(&self) -> Self {
        self.negated().floor().negated()
    }

    /// Whether it has no fraction.
    pub fn is_whole(&self) -> bool {
        !self.is_nan() && (self.is_infinite() || *self == self.truncate(0))
    }
}

/// The weight of the first digit to the base of 10,000 and that digit, as PostgreSQL keeps them.
pub(super) fn leading(number: &Numeric) -> (i64, f64) {
    if number.is_zero() {
        return (0, 0.0);
    }
    if let Some((units, scale)) = number.small() {
        let units = units.unsigned_abs();
        let digits = units.ilog10() + 1;
        let (weight, wanted) = first_group(i64::from(digits), scale);
        let first = match digits.checked_sub(wanted) {
            Some(more) => units / 10_u128.pow(more),
            None => units * 10_u128.pow(wanted - digits),
        };
        return (weight, first as f64);
    }
    let Some((units, scale)) = number.parts() else {
        return (0, 0.0);
    };
    let digits = units.magnitude().to_str_radix(10);
    let (weight, wanted) = first_group(digits.len() as i64, scale);
    (weight, digits[..wanted as usize].parse().unwrap_or(0.0))
}

/// The weight of the first digit to the base of 10,000 of a number with so many decimal digits,
/// and how many of these are in it.
fn first_group(digits: i64, scale: u16) -> (i64, u32) {
    let exponent = digits - i64::from(scale) - 1;
    let weight = exponent.div_euclid(4);
    (weight, (exponent - weight * 4 + 1) as u32)
}

/// The scale of a quotient: at least 16 significant digits, and the scales of both numbers.
pub fn div_scale(dividend: &Numeric, divisor: &Numeric) -> u16 {
    let (weight, first) = leading(dividend);
    let (divisor_weight, divisor_first) = leading(divisor);
    let mut quotient_weight = weight - divisor_weight;
    if first <= divisor_first {
        quotient_weight -= 1;
    }
    let scale = SIGNIFICANT_DIGITS_MIN - quotient_weight * 4;
    bounded_scale(scale, &[dividend, divisor])
}

/// The scale within PostgreSQL's limits, and not less than those of the numbers.
pub(super) fn bounded_scale(scale: i64, numbers: &[&Numeric]) -> u16 {
    let least = numbers
        .iter()
        .filter_map(|number| number.scale())
        .max()
        .map_or(0, i64::from);
    scale.max(least).clamp(0, DISPLAY_SCALE_MAX) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers on both sides of the limits of one word and of two.
    fn numbers() -> Vec<Numeric> {
        let mut units = vec![
            0,
            1,
            5,
            9,
            10,
            99,
            12_345,
            10_000,
            123_456_789,
            i128::from(i64::MAX),
        ];
        units.extend([1_i128 << 64, 10_i128.pow(30) + 7, 10_i128.pow(37)]);
        let both = units.into_iter().flat_map(|units| [units, -units]);
        both.flat_map(|units| [0, 1, 2, 5, 12].map(|scale| Numeric::new(units, scale)))
            .collect()
    }

    #[test]
    fn short_numbers_are_divided_and_rounded_as_long_ones() {
        for a in numbers() {
            let (a_units, a_scale) = a.parts().unwrap();
            for scale in 0..14 {
                let less = i64::from(a_scale) - scale;
                let (up, down) = (ten_to((-less).max(0) as u32), ten_to(less.max(0) as u32));
                let wanted = Numeric::from_big(divided(&(&a_units * up), &down), scale as u16);
                let rounded = a.round(scale as i32);
                assert_eq!(rounded.to_string(), wanted.to_string(), "{a} to {scale}");
            }
            for b in numbers().into_iter().filter(|b| !b.is_zero()) {
                let (b_units, b_scale) = b.parts().unwrap();
                for scale in [0_u16, 3, 16] {
                    let up = ten_to(u32::from(scale) + u32::from(b_scale));
                    let down = &b_units * ten_to(u32::from(a_scale));
                    let wanted = Numeric::from_big(divided(&(&a_units * up), &down), scale);
                    let quotient = a.divide_to(&b, scale).unwrap();
                    assert_eq!(quotient.to_string(), wanted.to_string(), "{a} / {b}");
                }
            }
        }
    }

    #[test]
    fn equal_numbers_have_one_hash_and_one_first_group() {
        let hash = |number: &Numeric| {
            let mut state = std::hash::DefaultHasher::new();
            std::hash::Hash::hash(number, &mut state);
            std::hash::Hasher::finish(&state)
        };
        for a in numbers() {
            let (units, scale) = a.parts().unwrap();
            let longer = Numeric::from_big(units * ten_to(20), scale + 20);
            assert_eq!(a, longer);
            assert_eq!(hash(&a), hash(&longer), "{a}");
            assert_eq!(leading(&a), leading(&longer), "{a}");
        }
    }
}
