//! Exact decimal numbers.
//!
//! A [`Decimal`] is an integer number of units and the number of digits after the point. Two
//! decimals are equal when their values are, whatever their scales: 1.5 = 1.50. Nothing here
//! rounds; what does not fit is refused. The integer lies in two words, so that a value with a
//! decimal in it stays 8-byte aligned and small.

use std::cmp::Ordering;
use std::fmt;

/// The most digits of a decimal.
pub(crate) const DIGITS_MAX: u8 = 38;

/// An exact decimal number: `units` divided by ten to the power of `scale`.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    high: i64,
    low: u64,
    scale: u8,
}

impl Decimal {
    /// The number `units / 10^scale`; a scale above 38 is taken as 38.
    pub fn new(units: i128, scale: u8) -> Self {
        Self {
            high: (units >> 64) as i64,
            low: units.cast_unsigned() as u64,
            scale: scale.min(DIGITS_MAX),
        }
    }

    /// The integer that `10^scale` divides.
    pub fn units(self) -> i128 {
        i128::from(self.high) << 64 | i128::from(self.low)
    }

    /// Digits after the point.
    pub fn scale(self) -> u8 {
        self.scale
    }

    /// The same number with another scale, or `None` if digits would be lost or the units overflow.
    pub fn rescaled(self, scale: u8) -> Option<Self> {
        if scale == self.scale {
            return Some(self);
        }
        let units = self.units();
        if scale > self.scale {
            let factor = power_of_ten(scale - self.scale)?;
            return units
                .checked_mul(factor)
                .map(|units| Self::new(units, scale));
        }
        let divisor = power_of_ten(self.scale - scale)?;
        (units % divisor == 0).then(|| Self::new(units / divisor, scale))
    }

    /// Reads `-12.345`; the scale is the number of digits after the point. `None` if it is no such
    /// number.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, digits) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.len() > usize::from(DIGITS_MAX) {
            return None;
        }
        let mut units: i128 = 0;
        for digit in whole.bytes().chain(fraction.bytes()) {
            if !digit.is_ascii_digit() {
                return None;
            }
            units = units
                .checked_mul(10)?
                .checked_add(i128::from(digit - b'0'))?;
        }
        Some(Self::new(
            if negative { -units } else { units },
            fraction.len() as u8,
        ))
    }

    /// Whether the units need no more than `precision` digits.
    pub(crate) fn has_digits_within(self, precision: u8) -> bool {
        power_of_ten(precision)
            .is_some_and(|limit| self.units().unsigned_abs() < limit.unsigned_abs())
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        if self.scale == other.scale {
            return self.units().cmp(&other.units());
        }
        let split = |number: &Self| {
            let divisor = power_of_ten(number.scale).expect("10^38 fits into 128 bits");
            (
                number.units().div_euclid(divisor),
                number.units().rem_euclid(divisor),
                number.scale,
            )
        };
        let ((left, left_rest, left_scale), (right, right_rest, right_scale)) =
            (split(self), split(other));
        // The rests are below 10^scale, so scaling the one with fewer digits up to the other stays
        // below 10^38.
        let scale = left_scale.max(right_scale);
        let widen =
            |rest: i128, from: u8| rest * power_of_ten(scale - from).expect("at most 10^38");
        left.cmp(&right)
            .then_with(|| widen(left_rest, left_scale).cmp(&widen(right_rest, right_scale)))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = self.units();
        let sign = if units < 0 { "-" } else { "" };
        let scale = usize::from(self.scale);
        let digits = format!("{:0width$}", units.unsigned_abs(), width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let point = if scale == 0 { "" } else { "." };
        write!(f, "{sign}{whole}{point}{fraction}")
    }
}

impl From<i64> for Decimal {
    fn from(number: i64) -> Self {
        Self::new(i128::from(number), 0)
    }
}

/// Ten to the power of `exponent`, up to 38.
fn power_of_ten(exponent: u8) -> Option<i128> {
    10_i128.checked_pow(u32::from(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_prints() {
        for text in [
            "0",
            "-1",
            "12.34",
            "-0.05",
            "99999999999999999999999999999999999999",
            "0.00",
        ] {
            assert_eq!(Decimal::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Decimal::parse("+.5").unwrap().to_string(), "0.5");
        for text in [
            "",
            "-",
            ".",
            "1e5",
            "1.2.3",
            "1_0",
            "999999999999999999999999999999999999999999",
        ] {
            assert!(Decimal::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn compares_by_value() {
        let number = |text| Decimal::parse(text).unwrap();
        assert_eq!(number("1.5"), number("1.500"));
        assert!(number("-1.5") < number("-1.49"));
        assert!(number("99999999999999999999999999999999999999") > number("0.1"));
        assert!(number("0.00000000000000000000000000000000000001") > number("0"));
    }

    #[test]
    fn rescales_exactly_or_not_at_all() {
        let number = Decimal::parse("1.50").unwrap();
        assert_eq!(number.rescaled(1).unwrap().to_string(), "1.5");
        assert!(number.rescaled(0).is_none());
        assert!(Decimal::new(i128::MAX, 0).rescaled(1).is_none());
    }
}
