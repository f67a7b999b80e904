//! Functions of numbers.
//!
//! One entry a type, as in PostgreSQL: integers stay integers, numeric stays exact. A result
//! outside of the type, or an argument outside of the domain, is an error.

use super::super::array::Array;
use super::super::cast::{integer, out_of_range};
use super::super::datum::{Datum, compare_floats};
use super::super::kind::Kind::{
    AnyCompatible, AnyCompatibleArray, Float4, Float8, Int2, Int4, Int8, Numeric, Void,
};
use super::super::numeric::Numeric as Number;
use super::super::numeric::division_by_zero;
use super::super::random::Random;
use super::Function;
use crate::error::{Result, SqlError, SqlState};
use std::cmp::Ordering;

/// A result that is infinite although the arguments are not.
pub fn overflow() -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        "value out of range: overflow",
    )
}

/// A result that is 0 although it is not.
pub fn underflow() -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        "value out of range: underflow",
    )
}

fn bad_input() -> SqlError {
    SqlError::new(
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        "input is out of range",
    )
}

/// The square root.
pub fn square_root(x: f64) -> Result<f64> {
    if x < 0.0 {
        return Err(SqlError::new(
            SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
            "cannot take square root of a negative number",
        ));
    }
    Ok(x.sqrt())
}

/// x to the power of y.
pub fn power(x: f64, y: f64) -> Result<f64> {
    let bad = |text: &str| {
        Err(SqlError::new(
            SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
            text,
        ))
    };
    if x == 0.0 && y < 0.0 {
        return bad("zero raised to a negative power is undefined");
    }
    if x < 0.0 && y.is_finite() && y.fract() != 0.0 {
        return bad("a negative number raised to a non-integer power yields a complex result");
    }
    let result = x.powf(y);
    let is_finite = x.is_finite() && y.is_finite();
    match () {
        () if result.is_infinite() && is_finite => Err(overflow()),
        () if result == 0.0 && is_finite && x != 0.0 => Err(underflow()),
        () => Ok(result),
    }
}

fn exponential(x: f64) -> Result<f64> {
    let result = x.exp();
    match () {
        () if result.is_infinite() && x.is_finite() => Err(overflow()),
        () if result == 0.0 && x.is_finite() => Err(underflow()),
        () => Ok(result),
    }
}

fn logarithm(x: f64, compute: fn(f64) -> f64) -> Result<f64> {
    let bad = |text: &str| Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOG, text));
    match () {
        () if x == 0.0 => bad("cannot take logarithm of zero"),
        () if x < 0.0 => bad("cannot take logarithm of a negative number"),
        () => Ok(compute(x)),
    }
}

/// A function of angles, which infinities have no value of.
fn angle(a: &[Datum], compute: fn(f64) -> f64) -> Result<Datum> {
    let x = a[0].float8()?;
    if x.is_infinite() {
        return Err(bad_input());
    }
    Ok(Datum::Float8(compute(x)))
}

/// A function whose argument must lie within bounds.
fn within(a: &[Datum], low: f64, high: f64, compute: fn(f64) -> f64) -> Result<Datum> {
    let x = a[0].float8()?;
    if x < low || x > high {
        return Err(bad_input());
    }
    Ok(Datum::Float8(compute(x)))
}

fn float(a: &[Datum], compute: fn(f64) -> f64) -> Result<Datum> {
    Ok(Datum::Float8(compute(a[0].float8()?)))
}

/// A function of finite numbers that may leave the range.
fn checked(a: &[Datum], compute: fn(f64) -> f64) -> Result<Datum> {
    let x = a[0].float8()?;
    let result = compute(x);
    if result.is_infinite() && x.is_finite() {
        return Err(overflow());
    }
    Ok(Datum::Float8(result))
}

fn sign(x: f64) -> f64 {
    match () {
        () if x > 0.0 => 1.0,
        () if x < 0.0 => -1.0,
        () => 0.0,
    }
}

/// Trigonometry in degrees, exact where the results are: at multiples of 30 and 45.
mod degrees {
    const RADIANS: f64 = std::f64::consts::PI / 180.0;

    fn sine_to_30(x: f64) -> f64 {
        ((x * RADIANS).sin() / (30.0 * RADIANS).sin()) / 2.0
    }

    fn cosine_to_60(x: f64) -> f64 {
        1.0 - ((1.0 - (x * RADIANS).cos()) / (1.0 - (60.0 * RADIANS).cos())) / 2.0
    }

    fn sine_to_90(x: f64) -> f64 {
        if x <= 30.0 {
            sine_to_30(x)
        } else {
            cosine_to_60(90.0 - x)
        }
    }

    fn cosine_to_90(x: f64) -> f64 {
        if x <= 60.0 {
            cosine_to_60(x)
        } else {
            sine_to_30(90.0 - x)
        }
    }

    /// The angle within a right angle, and the signs of its sine and cosine.
    fn reduced(x: f64) -> (f64, f64, f64) {
        let mut x = x % 360.0;
        let mut sine = 1.0;
        let mut cosine = 1.0;
        if x < 0.0 {
            x = -x;
            sine = -1.0;
        }
        if x > 180.0 {
            x = 360.0 - x;
            sine = -sine;
        }
        if x > 90.0 {
            x = 180.0 - x;
            cosine = -1.0;
        }
        (x, sine, cosine)
    }

    pub(super) fn sine(x: f64) -> f64 {
        let (x, sign, _) = reduced(x);
        sign * sine_to_90(x)
    }

    pub(super) fn cosine(x: f64) -> f64 {
        let (x, _, sign) = reduced(x);
        sign * cosine_to_90(x)
    }

    pub(super) fn tangent(x: f64) -> f64 {
        let (x, sine, cosine) = reduced(x);
        let at_45 = sine_to_90(45.0) / cosine_to_90(45.0);
        let result = sine * cosine * (sine_to_90(x) / cosine_to_90(x)) / at_45;
        // A zero has no sign.
        if result == 0.0 { 0.0 } else { result }
    }

    pub(super) fn cotangent(x: f64) -> f64 {
        let (x, sine, cosine) = reduced(x);
        let at_45 = cosine_to_90(45.0) / sine_to_90(45.0);
        let result = sine * cosine * (cosine_to_90(x) / sine_to_90(x)) / at_45;
        if result == 0.0 { 0.0 } else { result }
    }

    pub(super) fn arc_sine(x: f64) -> f64 {
        let positive = |x: f64| {
            if x <= 0.5 {
                x.asin() / 0.5_f64.asin() * 30.0
            } else {
                90.0 - x.acos() / 0.5_f64.acos() * 60.0
            }
        };
        if x >= 0.0 { positive(x) } else { -positive(-x) }
    }

    pub(super) fn arc_cosine(x: f64) -> f64 {
        let positive = |x: f64| {
            if x <= 0.5 {
                90.0 - x.asin() / 0.5_f64.asin() * 30.0
            } else {
                x.acos() / 0.5_f64.acos() * 60.0
            }
        };
        if x >= 0.0 {
            positive(x)
        } else {
            90.0 + arc_sine(-x)
        }
    }

    pub(super) fn arc_tangent(x: f64) -> f64 {
        x.atan() / 1.0_f64.atan() * 45.0
    }

    pub(super) fn arc_tangent_of(y: f64, x: f64) -> f64 {
        y.atan2(x) / 1.0_f64.atan() * 45.0
    }
}

fn greatest_divisor(a: i64, b: i64) -> Option<i64> {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).ok()
}

fn least_multiple(a: i64, b: i64) -> Option<i64> {
    if a == 0 || b == 0 {
        return Some(0);
    }
    let divisor = greatest_divisor(a, b)?;
    (a / divisor).checked_mul(b)?.checked_abs()
}

fn numeric_divisor(a: &Number, b: &Number) -> Result<Number> {
    if a.is_nan() || b.is_nan() || a.is_infinite() || b.is_infinite() {
        return Ok(Number::NAN);
    }
    let scale = a.scale().max(b.scale()).unwrap_or(0);
    let (mut a, mut b) = (a.abs(), b.abs());
    while !b.is_zero() {
        let rest = a.remainder(&b)?;
        (a, b) = (b, rest);
    }
    Ok(a.round(i32::from(scale)))
}

fn numeric_multiple(a: &Number, b: &Number) -> Result<Number> {
    if a.is_nan() || b.is_nan() || a.is_infinite() || b.is_infinite() {
        return Ok(Number::NAN);
    }
    let scale = i32::from(a.scale().max(b.scale()).unwrap_or(0));
    if a.is_zero() || b.is_zero() {
        return Ok(Number::ZERO.round(scale));
    }
    let divisor = numeric_divisor(a, b)?;
    Ok(a.divide_whole(&divisor)?.multiply(b)?.abs().round(scale))
}

fn factorial(n: i64) -> Result<Datum> {
    if n < 0 {
        return Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "factorial of a negative number is undefined",
        ));
    }
    if n > 32_177 {
        return Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            "value overflows numeric format",
        ));
    }
    let mut product = num_bigint::BigInt::from(1);
    for factor in 2..=n {
        product *= factor;
    }
    Ok(Datum::Numeric(Number::from_big(product, 0)))
}

fn bad_bucket(text: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION, text)
}

fn bucket_count(datum: &Datum) -> Result<i64> {
    match datum.int()? {
        count if count <= 0 => Err(bad_bucket("count must be greater than zero")),
        count => Ok(count),
    }
}

fn width_bucket(a: &[Datum]) -> Result<Datum> {
    let (x, low, high) = (a[0].float8()?, a[1].float8()?, a[2].float8()?);
    let count = bucket_count(&a[3])?;
    if x.is_nan() || low.is_nan() || high.is_nan() {
        return Err(bad_bucket(
            "operand, lower bound, and upper bound cannot be NaN",
        ));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(bad_bucket("lower and upper bounds must be finite"));
    }
    if compare_floats(low, high).is_eq() {
        return Err(bad_bucket("lower bound cannot equal upper bound"));
    }
    let (is_before, is_after) = if low < high {
        (x < low, x >= high)
    } else {
        (x > low, x <= high)
    };
    let bucket = match (is_before, is_after) {
        (true, _) => 0,
        (_, true) => count + 1,
        _ => {
            let place = count as f64 * (x - low) / (high - low);
            if place.is_finite() {
                (place + 1.0) as i64
            } else {
                // Halves of a range that is too wide do not overflow.
                let share = (x / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0);
                ((share * count as f64) as i64 + 1).min(count)
            }
        }
    };
    integer(bucket, Int4)
}

fn numeric_width_bucket(a: &[Datum]) -> Result<Datum> {
    let (x, low, high) = (a[0].numeric()?, a[1].numeric()?, a[2].numeric()?);
    let count = bucket_count(&a[3])?;
    if x.is_nan() || low.is_nan() || high.is_nan() {
        return Err(bad_bucket(
            "operand, lower bound, and upper bound cannot be NaN",
        ));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(bad_bucket("lower and upper bounds must be finite"));
    }
    let (is_before, is_after) = match low.cmp(high) {
        Ordering::Equal => return Err(bad_bucket("lower bound cannot equal upper bound")),
        Ordering::Less => (x < low, x >= high),
        Ordering::Greater => (x > low, x <= high),
    };
    let bucket = match (is_before, is_after) {
        (true, _) => 0,
        (_, true) => count + 1,
        _ => {
            let share = x.subtract(low)?.multiply(&Number::from(count))?;
            let quotient = share.divide(&high.subtract(low)?)?;
            quotient.floor().to_i64().unwrap_or(0) + 1
        }
    };
    integer(bucket, Int4)
}

/// The number of thresholds that are not greater.
fn bucket_of_array(operand: &Datum, thresholds: &Array) -> Result<Datum> {
    if thresholds.dimensions.len() > 1 {
        return Err(SqlError::new(
            SqlState::ARRAY_SUBSCRIPT_ERROR,
            "thresholds must be one-dimensional array",
        ));
    }
    if thresholds.elements.iter().any(Datum::is_null) {
        return Err(SqlError::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            "thresholds array must not contain NULLs",
        ));
    }
    let below = thresholds
        .elements
        .partition_point(|threshold| threshold <= operand);
    integer(below as i64, Int4)
}

fn set_seed(random: &mut Random, seed: f64) -> Result<Datum> {
    if compare_floats(seed, 1.0) == Ordering::Greater || seed < -1.0 {
        let mut shown = String::new();
        super::super::text_io::print_general(&mut shown, seed, 6);
        return Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("setseed parameter {shown} is out of allowed range [-1,1]"),
        ));
    }
    *random = Random::with_seed(seed);
    Ok(Datum::text(""))
}

fn absolute(a: &[Datum]) -> Result<Datum> {
    let kind = a[0].kind();
    let value = a[0]
        .int()?
        .checked_abs()
        .ok_or_else(|| out_of_range(&kind.name()))?;
    integer(value, kind)
}

fn remainder(a: &[Datum]) -> Result<Datum> {
    match a[1].int()? {
        0 => Err(division_by_zero()),
        divisor => integer(a[0].int()?.wrapping_rem(divisor), a[0].kind()),
    }
}

fn pair(a: &[Datum], compute: fn(i64, i64) -> Option<i64>) -> Result<Datum> {
    let kind = a[0].kind();
    let result = compute(a[0].int()?, a[1].int()?);
    integer(result.ok_or_else(|| out_of_range(&kind.name()))?, kind)
}

fn numeric(a: &[Datum], compute: fn(&Number) -> Result<Number>) -> Result<Datum> {
    compute(a[0].numeric()?).map(Datum::Numeric)
}

fn numerics(a: &[Datum], compute: fn(&Number, &Number) -> Result<Number>) -> Result<Datum> {
    compute(a[0].numeric()?, a[1].numeric()?).map(Datum::Numeric)
}

/// Digits after the point that the value needs.
fn least_scale(a: &[Datum]) -> Result<Datum> {
    let scale = a[0].numeric()?.trimmed().scale();
    Ok(scale.map_or(Datum::Null, |scale| Datum::Int4(i32::from(scale))))
}

/// The table of functions of integers and `numeric`.
pub(super) const EXACT: &[Function] = &[
    Function::scalar("abs", &[Int2], Int2, |_, a| absolute(a)),
    Function::scalar("abs", &[Int4], Int4, |_, a| absolute(a)),
    Function::scalar("abs", &[Int8], Int8, |_, a| absolute(a)),
    Function::scalar("abs", &[Numeric], Numeric, |_, a| {
        numeric(a, |x| Ok(x.abs()))
    }),
    Function::scalar("mod", &[Int2, Int2], Int2, |_, a| remainder(a)),
    Function::scalar("mod", &[Int4, Int4], Int4, |_, a| remainder(a)),
    Function::scalar("mod", &[Int8, Int8], Int8, |_, a| remainder(a)),
    Function::scalar("mod", &[Numeric, Numeric], Numeric, |_, a| {
        numerics(a, Number::remainder)
    }),
    Function::scalar("div", &[Numeric, Numeric], Numeric, |_, a| {
        numerics(a, Number::divide_whole)
    }),
    Function::scalar("gcd", &[Int4, Int4], Int4, |_, a| pair(a, greatest_divisor)),
    Function::scalar("gcd", &[Int8, Int8], Int8, |_, a| pair(a, greatest_divisor)),
    Function::scalar("gcd", &[Numeric, Numeric], Numeric, |_, a| {
        numerics(a, numeric_divisor)
    }),
    Function::scalar("lcm", &[Int4, Int4], Int4, |_, a| pair(a, least_multiple)),
    Function::scalar("lcm", &[Int8, Int8], Int8, |_, a| pair(a, least_multiple)),
    Function::scalar("lcm", &[Numeric, Numeric], Numeric, |_, a| {
        numerics(a, numeric_multiple)
    }),
    Function::scalar("factorial", &[Int8], Numeric, |_, a| factorial(a[0].int()?)),
    Function::scalar("ceil", &[Numeric], Numeric, |_, a| {
        numeric(a, |x| Ok(x.ceil()))
    }),
    Function::scalar("ceiling", &[Numeric], Numeric, |_, a| {
        numeric(a, |x| Ok(x.ceil()))
    }),
    Function::scalar("floor", &[Numeric], Numeric, |_, a| {
        numeric(a, |x| Ok(x.floor()))
    }),
    Function::scalar("round", &[Numeric], Numeric, |_, a| {
        numeric(a, |x| Ok(x.round(0)))
    }),
    Function::scalar("round", &[Numeric, Int4], Numeric, |_, a| {
        Ok(Datum::Numeric(a[0].numeric()?.round(a[1].int4()?)))
    }),
    Function::scalar("trunc", &[Numeric], Numeric, |_, a| {
        numeric(a, |x| Ok(x.truncate(0)))
    }),
    Function::scalar("trunc", &[Numeric, Int4], Numeric, |_, a| {
        Ok(Datum::Numeric(a[0].numeric()?.truncate(a[1].int4()?)))
    }),
    Function::scalar("sign", &[Numeric], Numeric, |_, a| {
        numeric(a, |x| {
            if x.is_nan() {
                Ok(Number::NAN)
            } else {
                Ok(Number::from(i64::from(x.signum())))
            }
        })
    }),
    Function::scalar("sqrt", &[Numeric], Numeric, |_, a| numeric(a, Number::sqrt)),
    Function::scalar("exp", &[Numeric], Numeric, |_, a| numeric(a, Number::exp)),
    Function::scalar("ln", &[Numeric], Numeric, |_, a| numeric(a, Number::ln)),
    Function::scalar("log", &[Numeric], Numeric, |_, a| {
        numeric(a, |x| x.log(&Number::from(10)))
    }),
    Function::scalar("log10", &[Numeric], Numeric, |_, a| {
        numeric(a, |x| x.log(&Number::from(10)))
    }),
    Function::scalar("log", &[Numeric, Numeric], Numeric, |_, a| {
        numerics(a, |base, x| x.log(base))
    }),
    Function::scalar("power", &[Numeric, Numeric], Numeric, |_, a| {
        numerics(a, Number::power)
    }),
    Function::scalar("pow", &[Numeric, Numeric], Numeric, |_, a| {
        numerics(a, Number::power)
    }),
    Function::scalar("scale", &[Numeric], Int4, |_, a| {
        let scale = a[0].numeric()?.scale();
        Ok(scale.map_or(Datum::Null, |scale| Datum::Int4(i32::from(scale))))
    }),
    Function::scalar("min_scale", &[Numeric], Int4, |_, a| least_scale(a)),
    Function::scalar("trim_scale", &[Numeric], Numeric, |_, a| {
        numeric(a, |x| Ok(x.trimmed()))
    }),
    Function::scalar(
        "width_bucket",
        &[Numeric, Numeric, Numeric, Int4],
        Int4,
        |_, a| numeric_width_bucket(a),
    ),
    Function::scalar(
        "width_bucket",
        &[Float8, Float8, Float8, Int4],
        Int4,
        |_, a| width_bucket(a),
    ),
    Function::scalar(
        "width_bucket",
        &[AnyCompatible, AnyCompatibleArray],
        Int4,
        |_, a| bucket_of_array(&a[0], a[1].array()?),
    ),
];

/// The table of functions of floating point numbers.
pub(super) const FLOATING: &[Function] = &[
    Function::scalar("abs", &[Float4], Float4, |_, a| {
        Ok(Datum::Float4(a[0].float4()?.abs()))
    }),
    Function::scalar("abs", &[Float8], Float8, |_, a| float(a, f64::abs)),
    Function::scalar("ceil", &[Float8], Float8, |_, a| float(a, f64::ceil)),
    Function::scalar("ceiling", &[Float8], Float8, |_, a| float(a, f64::ceil)),
    Function::scalar("floor", &[Float8], Float8, |_, a| float(a, f64::floor)),
    Function::scalar("round", &[Float8], Float8, |_, a| {
        float(a, f64::round_ties_even)
    }),
    Function::scalar("trunc", &[Float8], Float8, |_, a| float(a, f64::trunc)),
    Function::scalar("sign", &[Float8], Float8, |_, a| float(a, sign)),
    Function::scalar("sqrt", &[Float8], Float8, |_, a| {
        square_root(a[0].float8()?).map(Datum::Float8)
    }),
    Function::scalar("cbrt", &[Float8], Float8, |_, a| float(a, f64::cbrt)),
    Function::scalar("exp", &[Float8], Float8, |_, a| {
        exponential(a[0].float8()?).map(Datum::Float8)
    }),
    Function::scalar("ln", &[Float8], Float8, |_, a| {
        logarithm(a[0].float8()?, f64::ln).map(Datum::Float8)
    }),
    Function::scalar("log", &[Float8], Float8, |_, a| {
        logarithm(a[0].float8()?, f64::log10).map(Datum::Float8)
    }),
    Function::scalar("log10", &[Float8], Float8, |_, a| {
        logarithm(a[0].float8()?, f64::log10).map(Datum::Float8)
    }),
    Function::scalar("power", &[Float8, Float8], Float8, |_, a| {
        power(a[0].float8()?, a[1].float8()?).map(Datum::Float8)
    }),
    Function::scalar("pow", &[Float8, Float8], Float8, |_, a| {
        power(a[0].float8()?, a[1].float8()?).map(Datum::Float8)
    }),
    Function::scalar("pi", &[], Float8, |_, _| {
        Ok(Datum::Float8(std::f64::consts::PI))
    }),
    Function::scalar("degrees", &[Float8], Float8, |_, a| {
        checked(a, |x| x / (std::f64::consts::PI / 180.0))
    }),
    Function::scalar("radians", &[Float8], Float8, |_, a| {
        float(a, |x| x * (std::f64::consts::PI / 180.0))
    }),
    Function::scalar("sin", &[Float8], Float8, |_, a| angle(a, f64::sin)),
    Function::scalar("cos", &[Float8], Float8, |_, a| angle(a, f64::cos)),
    Function::scalar("tan", &[Float8], Float8, |_, a| angle(a, f64::tan)),
    Function::scalar("cot", &[Float8], Float8, |_, a| angle(a, |x| 1.0 / x.tan())),
    Function::scalar("asin", &[Float8], Float8, |_, a| {
        within(a, -1.0, 1.0, f64::asin)
    }),
    Function::scalar("acos", &[Float8], Float8, |_, a| {
        within(a, -1.0, 1.0, f64::acos)
    }),
    Function::scalar("atan", &[Float8], Float8, |_, a| float(a, f64::atan)),
    Function::scalar("atan2", &[Float8, Float8], Float8, |_, a| {
        Ok(Datum::Float8(a[0].float8()?.atan2(a[1].float8()?)))
    }),
    Function::scalar("sinh", &[Float8], Float8, |_, a| float(a, f64::sinh)),
    Function::scalar("cosh", &[Float8], Float8, |_, a| float(a, f64::cosh)),
    Function::scalar("tanh", &[Float8], Float8, |_, a| float(a, f64::tanh)),
    Function::scalar("asinh", &[Float8], Float8, |_, a| float(a, f64::asinh)),
    Function::scalar("acosh", &[Float8], Float8, |_, a| {
        within(a, 1.0, f64::INFINITY, f64::acosh)
    }),
    Function::scalar("atanh", &[Float8], Float8, |_, a| {
        within(a, -1.0, 1.0, f64::atanh)
    }),
    Function::scalar("sind", &[Float8], Float8, |_, a| angle(a, degrees::sine)),
    Function::scalar("cosd", &[Float8], Float8, |_, a| angle(a, degrees::cosine)),
    Function::scalar("tand", &[Float8], Float8, |_, a| angle(a, degrees::tangent)),
    Function::scalar("cotd", &[Float8], Float8, |_, a| {
        angle(a, degrees::cotangent)
    }),
    Function::scalar("asind", &[Float8], Float8, |_, a| {
        within(a, -1.0, 1.0, degrees::arc_sine)
    }),
    Function::scalar("acosd", &[Float8], Float8, |_, a| {
        within(a, -1.0, 1.0, degrees::arc_cosine)
    }),
    Function::scalar("atand", &[Float8], Float8, |_, a| {
        float(a, degrees::arc_tangent)
    }),
    Function::scalar("atan2d", &[Float8, Float8], Float8, |_, a| {
        Ok(Datum::Float8(degrees::arc_tangent_of(
            a[0].float8()?,
            a[1].float8()?,
        )))
    }),
    Function::scalar("random", &[], Float8, |context, _| {
        Ok(Datum::Float8(context.random.next_float()))
    })
    .volatile(),
    Function::scalar("setseed", &[Float8], Void, |context, a| {
        set_seed(context.random, a[0].float8()?)
    })
    .volatile(),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The difference of the bounds overflowed, and all values were in the first bucket.
    #[test]
    fn buckets_of_very_wide_ranges_are_right() {
        for (x, low, high, bucket) in [
            (0.0, -1e308, 1e308, 6),
            (0.0, 1e308, -1e308, 6),
            (-9.9e307, -1e308, 1e308, 1),
            (9.9e307, -1e308, 1e308, 10),
            (1e308, -1e308, 1e308, 11),
        ] {
            let arguments = [x, low, high].map(Datum::Float8);
            let arguments = [&arguments[..], &[Datum::Int4(10)]].concat();
            assert_eq!(width_bucket(&arguments).unwrap(), Datum::Int4(bucket));
        }
    }
}
