//! PostgreSQL's `numeric`: an exact decimal number of any size with a display scale.
//!
//! A number is an integer of units, each 10 to the power of minus its scale. Up to 38 digits the
//! units are an `i128`; beyond that, a shared [`BigInt`]. There are NaN and the two infinities
//! too. NaN equals NaN and is greater than all others.
//!
//! Numbers with other scales may be equal: `1.0 = 1.00`. The scale is part of what is printed, and
//! PostgreSQL's rules say which scale each result has; the functions that follow them name them.

mod arithmetic;
mod power;
mod text;

pub use arithmetic::{div_scale, division_by_zero};
pub use power::root;

use num_bigint::{BigInt, BigUint, Sign};
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The most digits after the point that a number may have.
pub const SCALE_MAX: u16 = 16_383;
/// The most digits before the point that a number may have.
pub const WEIGHT_DIGITS_MAX: u64 = 131_072;

/// An exact decimal number.
#[derive(Clone, Debug)]
pub struct Numeric(Repr);

#[derive(Clone, Debug)]
enum Repr {
    /// The halves of an `i128`, which would need an alignment of 16 bytes.
    Small {
        high: i64,
        low: u64,
        scale: u16,
    },
    Big(Arc<Big>),
    NaN,
    Infinity,
    NegativeInfinity,
}

#[derive(Debug)]
struct Big {
    units: BigInt,
    scale: u16,
}

/// The kinds of numbers, for code that treats each on its own.
#[derive(Clone, Debug)]
pub enum Class {
    /// A number with its units and scale.
    Finite(BigInt, u16),
    /// Not a number.
    NaN,
    /// Greater than all numbers.
    Infinity,
    /// Less than all numbers.
    NegativeInfinity,
}

impl Numeric {
    /// Not a number.
    pub const NAN: Self = Self(Repr::NaN);
    /// Greater than all numbers.
    pub const INFINITY: Self = Self(Repr::Infinity);
    /// Less than all numbers.
    pub const NEGATIVE_INFINITY: Self = Self(Repr::NegativeInfinity);
    /// 0.
    pub const ZERO: Self = Self::new(0, 0);

    /// `units` divided by 10 to the power of `scale`.
    pub const fn new(units: i128, scale: u16) -> Self {
        Self(Repr::Small {
            high: (units >> 64) as i64,
            low: units as u64,
            scale,
        })
    }

    /// `units` of any size divided by 10 to the power of `scale`.
    pub fn from_big(units: BigInt, scale: u16) -> Self {
        match i128::try_from(&units) {
            Ok(units) => Self::new(units, scale),
            Err(_) => Self(Repr::Big(Arc::new(Big { units, scale }))),
        }
    }

    /// Units and scale, where they are small.
    pub fn small(&self) -> Option<(i128, u16)> {
        match self.0 {
            Repr::Small { high, low, scale } => Some((join(high, low), scale)),
            _ => None,
        }
    }

    /// Units and scale of a number that is neither NaN nor infinite.
    pub fn parts(&self) -> Option<(BigInt, u16)> {
        match &self.0 {
            Repr::Small { high, low, scale } => Some((BigInt::from(join(*high, *low)), *scale)),
            Repr::Big(big) => Some((big.units.clone(), big.scale)),
            _ => None,
        }
    }

    /// Whether it is a number, and how it stands among those that are none.
    pub fn class(&self) -> Class {
        match &self.0 {
            Repr::NaN => Class::NaN,
            Repr::Infinity => Class::Infinity,
            Repr::NegativeInfinity => Class::NegativeInfinity,
            _ => {
                let (units, scale) = self.parts().expect("the other classes are above");
                Class::Finite(units, scale)
            }
        }
    }

    /// Whether it is NaN.
    pub fn is_nan(&self) -> bool {
        matches!(self.0, Repr::NaN)
    }

    /// Whether it is one of the infinities.
    pub fn is_infinite(&self) -> bool {
        matches!(self.0, Repr::Infinity | Repr::NegativeInfinity)
    }

    /// Digits after the point; none for NaN and the infinities.
    pub fn scale(&self) -> Option<u16> {
        match &self.0 {
            Repr::Small { scale, .. } => Some(*scale),
            Repr::Big(big) => Some(big.scale),
            _ => None,
        }
    }

    /// -1, 0 or 1; NaN counts as positive.
    pub fn signum(&self) -> i32 {
        match &self.0 {
            Repr::Small { high, low, .. } => join(*high, *low).signum() as i32,
            Repr::Big(big) => match big.units.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
            Repr::NaN | Repr::Infinity => 1,
            Repr::NegativeInfinity => -1,
        }
    }

    /// Whether it is 0.
    pub fn is_zero(&self) -> bool {
        self.signum() == 0
    }

    /// The same number without zeros at its end.
    #[must_use]
    pub fn trimmed(&self) -> Self {
        if let Some((units, scale)) = self.small() {
            let (units, scale) = trim(units, scale);
            return Self::new(units, scale);
        }
        let Some((mut units, mut scale)) = self.parts() else {
            return self.clone();
        };
        let ten = BigInt::from(10);
        while scale > 0 && (&units % &ten).sign() == Sign::NoSign {
            units /= &ten;
            scale -= 1;
        }
        Self::from_big(units, scale)
    }

    /// The nearest floating point number.
    pub fn to_f64(&self) -> f64 {
        match self.0 {
            Repr::NaN => f64::NAN,
            Repr::Infinity => f64::INFINITY,
            Repr::NegativeInfinity => f64::NEG_INFINITY,
            _ => self.to_string().parse().expect("its digits are a number"),
        }
    }

    /// The number of a floating point value, to its `digits` significant digits.
    pub fn from_f64(value: f64, digits: usize) -> Self {
        if value.is_nan() {
            return Self::NAN;
        }
        if value.is_infinite() {
            return if value > 0.0 {
                Self::INFINITY
            } else {
                Self::NEGATIVE_INFINITY
            };
        }
        let text = format!("{value:.*e}", digits - 1);
        let number = Self::parse(&text).expect("a floating point number is a number");
        number.trimmed()
    }

    /// The nearest integer, halves away from zero, where it fits.
    pub fn to_i64(&self) -> Option<i64> {
        let rounded = self.round(0);
        match rounded.small() {
            Some((units, _)) => i64::try_from(units).ok(),
            None => None,
        }
    }
}

/// Units and scale without zeros at their end.
fn trim(units: i128, mut scale: u16) -> (i128, u16) {
    // Nearly all numbers fit one word, which is divided in a tenth of the time.
    if let Ok(mut short) = i64::try_from(units) {
        while scale > 0 && short % 10 == 0 {
            short /= 10;
            scale -= 1;
        }
        return (i128::from(short), scale);
    }
    let mut units = units;
    while scale > 0 && units % 10 == 0 {
        units /= 10;
        scale -= 1;
    }
    (units, scale)
}

fn join(high: i64, low: u64) -> i128 {
    (i128::from(high) << 64) | i128::from(low)
}

/// 10 to the power of `exponent`.
pub fn ten_to(exponent: u32) -> BigInt {
    match 10_i128.checked_pow(exponent) {
        Some(power) => BigInt::from(power),
        None => BigInt::from(BigUint::from(10_u32).pow(exponent)),
    }
}

/// Decimal digits of a positive number; 0 has none.
pub fn digit_count(units: &BigInt) -> u64 {
    match units.sign() {
        Sign::NoSign => 0,
        _ => match i128::try_from(units) {
            Ok(small) => u64::from(small.unsigned_abs().ilog10()) + 1,
            Err(_) => units.magnitude().to_str_radix(10).len() as u64,
        },
    }
}

impl From<i64> for Numeric {
    fn from(value: i64) -> Self {
        Self::new(i128::from(value), 0)
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Numeric {}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Numeric {
    fn cmp(&self, other: &Self) -> Ordering {
        if let (Some((a, a_scale)), Some((b, b_scale))) = (self.small(), other.small()) {
            let aligned = match a_scale.cmp(&b_scale) {
                Ordering::Equal => Some((a, b)),
                Ordering::Less => rescaled(a, b_scale - a_scale).map(|a| (a, b)),
                Ordering::Greater => rescaled(b, a_scale - b_scale).map(|b| (a, b)),
            };
            if let Some((a, b)) = aligned {
                return a.cmp(&b);
            }
        }
        match (self.class(), other.class()) {
            (Class::Finite(a, a_scale), Class::Finite(b, b_scale)) => {
                let scale = a_scale.max(b_scale);
                let a = a * ten_to(u32::from(scale - a_scale));
                let b = b * ten_to(u32::from(scale - b_scale));
                a.cmp(&b)
            }
            (a, b) => rank(&a).cmp(&rank(&b)),
        }
    }
}

fn rank(class: &Class) -> u8 {
    match class {
        Class::NegativeInfinity => 0,
        Class::Finite(..) => 1,
        Class::Infinity => 2,
        Class::NaN => 3,
    }
}

/// `units` with so many more digits after the point, where they fit.
fn rescaled(units: i128, more: u16) -> Option<i128> {
    units.checked_mul(10_i128.checked_pow(u32::from(more))?)
}

impl Hash for Numeric {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // A larger number is never equal to one that is small without its zeros.
        if let Some((units, scale)) = self.trimmed().small() {
            state.write_u64(units as u64);
            state.write_u64((units >> 64) as u64 ^ (u64::from(scale) << 48));
            return;
        }
        match self.trimmed().class() {
            Class::Finite(units, scale) => {
                units.hash(state);
                scale.hash(state);
            }
            other => rank(&other).hash(state),
        }
    }
}
