//! Roots, powers, exponentials and logarithms.
//!
//! All are computed with integers of a fixed number of digits, more than the result shows, and
//! rounded once. Scales of results are PostgreSQL's: at least 16 significant digits by an estimate
//! of the result's size, which is why the estimates here follow its own.

use super::arithmetic::{SIGNIFICANT_DIGITS_MIN, bounded_scale, division_by_zero, leading};
use super::text::overflow;
use super::{Class, Numeric, SCALE_MAX, digit_count, ten_to};
use crate::error::{Result, SqlError, SqlState};
use num_bigint::{BigInt, Sign};
use std::f64::consts::{LN_10, LOG10_E};

/// Digits that a computation has beyond those of its result.
const GUARD_DIGITS: u32 = 12;
/// Decimal digits before or after the point beyond which no exponential is computed.
const RESULT_DIGITS_MAX: f64 = 2000.0;

impl Numeric {
    /// The square root.
    pub fn sqrt(&self) -> Result<Self> {
        let negative = || {
            SqlError::new(
                SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                "cannot take square root of a negative number",
            )
        };
        match self.class() {
            Class::NaN | Class::Infinity => Ok(self.clone()),
            Class::NegativeInfinity => Err(negative()),
            Class::Finite(..) if self.signum() < 0 => Err(negative()),
            Class::Finite(..) => {
                let (weight, _) = leading(self);
                let root_weight = if weight >= 0 {
                    weight * 4 / 2 + 1
                } else {
                    1 - (-weight * 4) / 2
                };
                let scale = SIGNIFICANT_DIGITS_MIN - root_weight;
                Ok(root(self, bounded_scale(scale, &[self])))
            }
        }
    }

    /// e to the power of the number.
    pub fn exp(&self) -> Result<Self> {
        match self.class() {
            Class::NaN | Class::Infinity => Ok(self.clone()),
            Class::NegativeInfinity => Ok(Self::ZERO),
            Class::Finite(..) => {
                let weight = (self.to_f64() * LOG10_E).clamp(-RESULT_DIGITS_MAX, RESULT_DIGITS_MAX);
                let scale = SIGNIFICANT_DIGITS_MIN - weight as i64;
                exponential(self, bounded_scale(scale, &[self]))
            }
        }
    }

    /// The natural logarithm.
    pub fn ln(&self) -> Result<Self> {
        positive(self)?;
        if self.is_nan() || self.is_infinite() {
            return Ok(self.clone());
        }
        let scale = SIGNIFICANT_DIGITS_MIN - ln_weight(self);
        Ok(logarithm(self, bounded_scale(scale, &[self])))
    }

    /// The logarithm to a base.
    pub fn log(&self, base: &Self) -> Result<Self> {
        if self.is_nan() || base.is_nan() {
            return Ok(Self::NAN);
        }
        positive(base)?;
        positive(self)?;
        match (base.is_infinite(), self.is_infinite()) {
            (true, true) => return Ok(Self::NAN),
            (true, false) => return Ok(Self::ZERO),
            (false, true) => return Ok(Self::INFINITY),
            (false, false) => {}
        }
        let base_weight = ln_weight(base);
        let own_weight = ln_weight(self);
        let result_weight = own_weight - base_weight;
        let scale = bounded_scale(SIGNIFICANT_DIGITS_MIN - result_weight, &[base, self]);
        let of_base = i64::from(scale) + result_weight - base_weight + 8;
        let of_self = i64::from(scale) + result_weight - own_weight + 8;
        let limit = i64::from(SCALE_MAX);
        let dividend = logarithm(self, of_self.clamp(0, limit) as u16);
        let divisor = logarithm(base, of_base.clamp(0, limit) as u16);
        dividend.divide_to(&divisor, scale)
    }

    /// The number to a power.
    pub fn power(&self, exponent: &Self) -> Result<Self> {
        if let Some(special) = self.power_of_specials(exponent)? {
            return Ok(special);
        }
        if exponent.is_whole()
            && let Some(whole) = exponent
                .to_i64()
                .and_then(|whole| i32::try_from(whole).ok())
        {
            return self.whole_power(whole, exponent);
        }
        if self.is_zero() {
            return Ok(Self::new(0, SIGNIFICANT_DIGITS_MIN as u16));
        }
        // The exponent is whole here where the base is negative.
        let is_odd = exponent.remainder(&Self::from(2))?.signum() != 0;
        let is_negative = self.signum() < 0 && is_odd;
        let base = self.abs();
        let weight = ln_weight(&base);
        let rough_scale = (8 - weight).clamp(0, i64::from(SCALE_MAX)) as u16;
        let rough = logarithm(&base, rough_scale).multiply(exponent)?.to_f64();
        if rough.abs() > RESULT_DIGITS_MAX * 3.01 {
            if rough > 0.0 {
                return Err(overflow());
            }
            return Ok(Self::new(0, 1000));
        }
        let digits = rough * LOG10_E;
        let scale = SIGNIFICANT_DIGITS_MIN - digits as i64;
        let scale = bounded_scale(scale, &[self, exponent]);
        let own_scale = i64::from(scale) + digits as i64 - weight + 8;
        let own_scale = own_scale.clamp(0, i64::from(SCALE_MAX)) as u16;
        let result = exponential(&logarithm(&base, own_scale).multiply(exponent)?, scale)?;
        Ok(if is_negative {
            result.negated()
        } else {
            result
        })
    }

    fn whole_power(&self, exponent: i32, shown: &Self) -> Result<Self> {
        let digits = if self.is_zero() {
            0.0
        } else {
            f64::from(exponent) * log10(self)
        };
        if digits > 131_072.0 {
            return Err(overflow());
        }
        // PostgreSQL 15 does not look at the size of the result where the exponent is whole.
        let scale = bounded_scale(SIGNIFICANT_DIGITS_MIN, &[self, shown]);
        if digits + 1.0 < -f64::from(scale) {
            return Ok(Self::new(0, scale));
        }
        if self.is_zero() && exponent < 0 {
            return Err(division_by_zero());
        }
        let (units, own_scale) = self.parts().unwrap_or_default();
        let count = exponent.unsigned_abs();
        if u64::from(count) * digit_count(&units) <= 4000 {
            let power = Self(super::Repr::Big(std::sync::Arc::new(super::Big {
                units: units.pow(count),
                scale: 0,
            })));
            return scaled_power(
                &power,
                u64::from(own_scale) * u64::from(count),
                exponent,
                scale,
            );
        }
        rounded_power(self, exponent, scale)
    }

    fn power_of_specials(&self, exponent: &Self) -> Result<Option<Self>> {
        let one = Self::from(1);
        let bad = |text: &str| {
            Err(SqlError::new(
                SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
                text,
            ))
        };
        if self.is_nan() || exponent.is_nan() {
            let is_one = exponent.is_zero() || (!self.is_nan() && *self == one);
            return Ok(Some(if is_one { one } else { Self::NAN }));
        }
        if self.is_zero() && exponent.signum() < 0 {
            return bad("zero raised to a negative power is undefined");
        }
        if self.signum() < 0 && !exponent.is_whole() {
            return bad("a negative number raised to a non-integer power yields a complex result");
        }
        if !self.is_infinite() && !exponent.is_infinite() {
            return Ok(None);
        }
        if *self == one || exponent.is_zero() {
            return Ok(Some(one));
        }
        if exponent.is_infinite() {
            let grows = (self.abs() > one) == (exponent.signum() > 0);
            let is_minus_one = self.abs() == one;
            return Ok(Some(match (is_minus_one, grows && !self.is_zero()) {
                (true, _) => one,
                (false, true) => Self::INFINITY,
                (false, false) => Self::ZERO,
            }));
        }
        if exponent.signum() < 0 {
            return Ok(Some(Self::ZERO));
        }
        let is_odd = exponent.remainder(&Self::from(2))?.signum() != 0;
        let is_negative = self.signum() < 0 && is_odd;
        Ok(Some(if is_negative {
            Self::NEGATIVE_INFINITY
        } else {
            Self::INFINITY
        }))
    }
}

/// The power whose units without their scale are exact.
fn scaled_power(power: &Numeric, power_scale: u64, exponent: i32, scale: u16) -> Result<Numeric> {
    let (units, _) = power.parts().unwrap_or_default();
    let one = ten_to(power_scale as u32);
    let (dividend, divisor) = if exponent < 0 {
        (one, units)
    } else {
        (units, one)
    };
    Numeric::from_big(dividend, 0).divide_to(&Numeric::from_big(divisor, 0), scale)
}

/// The power by squaring, with as many digits as its result shows.
fn rounded_power(base: &Numeric, exponent: i32, scale: u16) -> Result<Numeric> {
    let digits = f64::from(exponent) * log10(base);
    let significant = (f64::from(scale) + digits).max(1.0) as i64 + 20;
    let keep = |number: Numeric| -> Numeric {
        let (weight, _) = leading(&number);
        let keep_scale = (significant - weight * 4).clamp(0, i64::from(SCALE_MAX)) as i32;
        match number.scale() {
            Some(scale) if i32::from(scale) > keep_scale => number.round(keep_scale),
            _ => number,
        }
    };
    let mut rest = exponent.unsigned_abs();
    let mut square = base.clone();
    let mut result = Numeric::from(1);
    while rest > 0 {
        if rest & 1 == 1 {
            result = keep(result.multiply(&square)?);
        }
        rest >>= 1;
        if rest > 0 {
            square = keep(square.multiply(&square)?);
        }
    }
    if exponent < 0 {
        return Numeric::from(1).divide_to(&result, scale);
    }
    Ok(result.round(i32::from(scale)))
}

/// The logarithm to the base of 10, roughly.
fn log10(number: &Numeric) -> f64 {
    let (units, scale) = number.parts().unwrap_or_default();
    let digits = units.magnitude().to_str_radix(10);
    let head = &digits[..digits.len().min(16)];
    let first: f64 = head.parse().unwrap_or(1.0);
    first.log10() + (digits.len() - head.len()) as f64 - f64::from(scale)
}

fn positive(number: &Numeric) -> Result<()> {
    let bad = |text: &str| Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOG, text));
    match number.signum() {
        0 => bad("cannot take logarithm of zero"),
        -1 => bad("cannot take logarithm of a negative number"),
        _ => Ok(()),
    }
}

/// The place of the first digit of a logarithm, by PostgreSQL's estimate.
fn ln_weight(number: &Numeric) -> i64 {
    let one = Numeric::from(1);
    if *number >= Numeric::new(9, 1) && *number <= Numeric::new(11, 1) {
        let Ok(rest) = number.subtract(&one) else {
            return 0;
        };
        if rest.is_zero() {
            return 0;
        }
        let (weight, first) = leading(&rest);
        return weight * 4 + first.log10() as i64;
    }
    (log10(number) * LN_10).abs().log10() as i64
}

/// The square root rounded to a scale.
pub fn root(number: &Numeric, scale: u16) -> Numeric {
    let (units, own_scale) = number.parts().unwrap_or_default();
    // One digit more than shown tells which way to round, as a root is never a half exactly.
    let wanted = 2 * (u32::from(scale) + 1);
    let own_scale = u32::from(own_scale);
    let scaled = if wanted >= own_scale {
        units * ten_to(wanted - own_scale)
    } else {
        units / ten_to(own_scale - wanted)
    };
    Numeric::from_big(scaled.sqrt(), scale + 1).round(i32::from(scale))
}

/// e to the power of a number, rounded to a scale.
fn exponential(number: &Numeric, scale: u16) -> Result<Numeric> {
    let rough = number.to_f64();
    if rough.abs() >= RESULT_DIGITS_MAX * 3.0 {
        if rough > 0.0 {
            return Err(overflow());
        }
        return Ok(Numeric::new(0, scale));
    }
    // The number is halved until the series is short; squaring undoes it and loses digits.
    let halvings = rough.abs().max(1.0).log2().ceil() as u32 + 8;
    let whole_digits = (rough * LOG10_E).max(0.0) as u32 + 1;
    let digits = u32::from(scale) + whole_digits + GUARD_DIGITS + halvings;
    let one = ten_to(digits);
    let (units, own_scale) = number.parts().unwrap_or_default();
    let mut x = units * &one / ten_to(u32::from(own_scale));
    x >>= halvings as usize;
    let mut sum = one.clone();
    let mut term = one.clone();
    let mut step = 1_u32;
    loop {
        term = &term * &x / &one / step;
        if term.sign() == Sign::NoSign || term == BigInt::from(-1) {
            break;
        }
        sum += &term;
        step += 1;
    }
    for _ in 0..halvings {
        sum = &sum * &sum / &one;
    }
    rounded(sum, digits, scale)
}

/// The natural logarithm of a positive number, rounded to a scale.
fn logarithm(number: &Numeric, scale: u16) -> Numeric {
    let (units, own_scale) = number.parts().unwrap_or_default();
    let digits = u32::from(scale) + GUARD_DIGITS + 20;
    // number = mantissa * 2^k with the mantissa between 2/3 and 4/3.
    let rough = log10(number) / std::f64::consts::LOG10_2;
    let k = (rough + 0.415).floor() as i64;
    let one = ten_to(digits);
    let mut mantissa = units * &one;
    if k >= 0 {
        mantissa >>= k as usize;
    } else {
        mantissa <<= (-k) as usize;
    }
    mantissa /= ten_to(u32::from(own_scale));
    // ln m = 2 artanh((m - 1) / (m + 1)); ln 2 likewise, at 1/3.
    let of_mantissa = artanh(&((&mantissa - &one) * &one / (&mantissa + &one)), &one) * 2;
    let of_two = artanh(&(&one / 3), &one) * 2;
    rounded(of_mantissa + of_two * k, digits, scale).unwrap_or(Numeric::ZERO)
}

/// The area hyperbolic tangent of a small number by its series.
fn artanh(x: &BigInt, one: &BigInt) -> BigInt {
    let square = x * x / one;
    let mut power = x.clone();
    let mut sum = x.clone();
    let mut step = 1_u32;
    loop {
        power = &power * &square / one;
        step += 2;
        let term = &power / step;
        if term.sign() == Sign::NoSign {
            return sum;
        }
        sum += term;
    }
}

/// A number of so many digits after the point, rounded to a scale.
fn rounded(units: BigInt, digits: u32, scale: u16) -> Result<Numeric> {
    let number = Numeric::from_big(units, 0);
    number.divide_to(&Numeric::from_big(ten_to(digits), 0), scale)
}
