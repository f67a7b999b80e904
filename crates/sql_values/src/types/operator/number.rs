//! Operators of numbers. Results outside their type are errors, as is division by zero.
//!
//! There is one entry for each pair of types that PostgreSQL has one for; other pairs are converted
//! first.

use super::super::cast::{integer, narrow, out_of_range};
use super::super::datum::Datum;
use super::super::function::Function;
use super::super::function::math;
use super::super::kind::Kind::{self, Float4, Float8, Int2, Int4, Int8, Numeric};
use super::super::numeric::division_by_zero;
use crate::error::Result;

/// An operation of two integers, with the kind of the result.
fn whole(
    a: &Datum,
    b: &Datum,
    kind: Kind,
    operation: fn(i64, i64) -> Option<i64>,
) -> Result<Datum> {
    let result = operation(a.int()?, b.int()?);
    integer(result.ok_or_else(|| out_of_range(&kind.name()))?, kind)
}

fn divided(
    a: &Datum,
    b: &Datum,
    kind: Kind,
    operation: fn(i64, i64) -> Option<i64>,
) -> Result<Datum> {
    if b.int()? == 0 {
        return Err(division_by_zero());
    }
    whole(a, b, kind, operation)
}

fn one(a: &[Datum], kind: Kind, operation: fn(i64) -> Option<i64>) -> Result<Datum> {
    let result = operation(a[0].int()?);
    integer(result.ok_or_else(|| out_of_range(&kind.name()))?, kind)
}

/// Bits move within the width of the type, by the distance within that width.
fn shifted(a: &[Datum], is_left: bool) -> Result<Datum> {
    let distance = a[1].int()? as u32;
    Ok(match &a[0] {
        // A 16-bit number moves as one of 32 bits, whose lower half is kept.
        Datum::Int2(value) if is_left => {
            Datum::Int2(i32::from(*value).wrapping_shl(distance) as i16)
        }
        Datum::Int2(value) => Datum::Int2(i32::from(*value).wrapping_shr(distance) as i16),
        Datum::Int4(value) if is_left => Datum::Int4(value.wrapping_shl(distance)),
        Datum::Int4(value) => Datum::Int4(value.wrapping_shr(distance)),
        other if is_left => Datum::Int8(other.int()?.wrapping_shl(distance)),
        other => Datum::Int8(other.int()?.wrapping_shr(distance)),
    })
}

/// A number of either floating point type.
fn float(datum: &Datum) -> Result<f64> {
    match datum {
        Datum::Float4(value) => Ok(f64::from(*value)),
        other => other.float8(),
    }
}

#[derive(Clone, Copy)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
}

fn floating(a: &[Datum], operation: Operation) -> Result<Datum> {
    let (x, y) = (float(&a[0])?, float(&a[1])?);
    let result = match operation {
        Operation::Add => x + y,
        Operation::Subtract => x - y,
        Operation::Multiply => x * y,
        Operation::Divide if y == 0.0 && !x.is_nan() => return Err(division_by_zero()),
        Operation::Divide => x / y,
    };
    if result.is_infinite() && !x.is_infinite() && !y.is_infinite() {
        return Err(math::overflow());
    }
    let may_vanish = match operation {
        Operation::Add | Operation::Subtract => false,
        Operation::Multiply => x != 0.0 && y != 0.0,
        Operation::Divide => x != 0.0 && !y.is_infinite(),
    };
    if result == 0.0 && may_vanish {
        return Err(math::underflow());
    }
    match (&a[0], &a[1]) {
        // The product of two 32-bit numbers is exact in 64 bits, so rounding once is right.
        (Datum::Float4(_), Datum::Float4(_)) if result.is_finite() => {
            narrow(result).map(Datum::Float4)
        }
        (Datum::Float4(_), Datum::Float4(_)) => Ok(Datum::Float4(result as f32)),
        _ => Ok(Datum::Float8(result)),
    }
}

macro_rules! integers {
    ($($left:ident $right:ident $result:ident),* $(,)?) => {
        &[
            $(
                Function::pair("+", &[$left, $right], $result, |a, b| {
                    whole(a, b, $result, i64::checked_add)
                }),
                Function::pair("-", &[$left, $right], $result, |a, b| {
                    whole(a, b, $result, i64::checked_sub)
                }),
                Function::pair("*", &[$left, $right], $result, |a, b| {
                    whole(a, b, $result, i64::checked_mul)
                }),
                Function::pair("/", &[$left, $right], $result, |a, b| {
                    divided(a, b, $result, i64::checked_div)
                }),
            )*
        ]
    };
}

macro_rules! alike {
    ($($kind:ident),*) => {
        &[
            $(
                Function::pair("%", &[$kind, $kind], $kind, |a, b| {
                    divided(a, b, $kind, |x, y| Some(x.wrapping_rem(y)))
                }),
                Function::pair("&", &[$kind, $kind], $kind, |a, b| {
                    whole(a, b, $kind, |x, y| Some(x & y))
                }),
                Function::pair("|", &[$kind, $kind], $kind, |a, b| {
                    whole(a, b, $kind, |x, y| Some(x | y))
                }),
                Function::pair("#", &[$kind, $kind], $kind, |a, b| {
                    whole(a, b, $kind, |x, y| Some(x ^ y))
                }),
                Function::scalar("<<", &[$kind, Int4], $kind, |_, a| shifted(a, true)),
                Function::scalar(">>", &[$kind, Int4], $kind, |_, a| shifted(a, false)),
                Function::scalar("~", &[$kind], $kind, |_, a| one(a, $kind, |x| Some(!x))),
                Function::scalar("-", &[$kind], $kind, |_, a| one(a, $kind, i64::checked_neg)),
                Function::scalar("+", &[$kind], $kind, |_, a| Ok(a[0].clone())),
                Function::scalar("@", &[$kind], $kind, |_, a| one(a, $kind, i64::checked_abs)),
            )*
        ]
    };
}

macro_rules! floats {
    ($($left:ident $right:ident $result:ident),* $(,)?) => {
        &[
            $(
                Function::scalar("+", &[$left, $right], $result, |_, a| floating(a, Operation::Add)),
                Function::scalar("-", &[$left, $right], $result, |_, a| {
                    floating(a, Operation::Subtract)
                }),
                Function::scalar("*", &[$left, $right], $result, |_, a| {
                    floating(a, Operation::Multiply)
                }),
                Function::scalar("/", &[$left, $right], $result, |_, a| {
                    floating(a, Operation::Divide)
                }),
            )*
        ]
    };
}

/// `+`, `-`, `*` and `/` of integers.
pub(super) const INTEGERS: &[Function] = integers![
    Int2 Int2 Int2, Int2 Int4 Int4, Int2 Int8 Int8, Int4 Int2 Int4, Int4 Int4 Int4, Int4 Int8 Int8,
    Int8 Int2 Int8, Int8 Int4 Int8, Int8 Int8 Int8,
];

/// Operators of integers of one width.
pub(super) const ALIKE: &[Function] = alike![Int2, Int4, Int8];

/// `+`, `-`, `*` and `/` of floating point numbers.
pub(super) const FLOATS: &[Function] = floats![
    Float4 Float4 Float4, Float4 Float8 Float8, Float8 Float4 Float8, Float8 Float8 Float8,
];

/// All others.
pub(super) const OPERATORS: &[Function] = &[
    Function::scalar("-", &[Float4], Float4, |_, a| {
        Ok(Datum::Float4(-a[0].float4()?))
    }),
    Function::scalar("-", &[Float8], Float8, |_, a| {
        Ok(Datum::Float8(-a[0].float8()?))
    }),
    Function::scalar("+", &[Float4], Float4, |_, a| Ok(a[0].clone())),
    Function::scalar("+", &[Float8], Float8, |_, a| Ok(a[0].clone())),
    Function::scalar("@", &[Float4], Float4, |_, a| {
        Ok(Datum::Float4(a[0].float4()?.abs()))
    }),
    Function::scalar("@", &[Float8], Float8, |_, a| {
        Ok(Datum::Float8(a[0].float8()?.abs()))
    }),
    Function::scalar("^", &[Float8, Float8], Float8, |_, a| {
        math::power(a[0].float8()?, a[1].float8()?).map(Datum::Float8)
    }),
    Function::scalar("|/", &[Float8], Float8, |_, a| {
        math::square_root(a[0].float8()?).map(Datum::Float8)
    }),
    Function::scalar("||/", &[Float8], Float8, |_, a| {
        Ok(Datum::Float8(a[0].float8()?.cbrt()))
    }),
    Function::pair("+", &[Numeric, Numeric], Numeric, |a, b| {
        a.numeric()?.add(b.numeric()?).map(Datum::Numeric)
    }),
    Function::pair("-", &[Numeric, Numeric], Numeric, |a, b| {
        a.numeric()?.subtract(b.numeric()?).map(Datum::Numeric)
    }),
    Function::pair("*", &[Numeric, Numeric], Numeric, |a, b| {
        a.numeric()?.multiply(b.numeric()?).map(Datum::Numeric)
    }),
    Function::pair("/", &[Numeric, Numeric], Numeric, |a, b| {
        a.numeric()?.divide(b.numeric()?).map(Datum::Numeric)
    }),
    Function::pair("%", &[Numeric, Numeric], Numeric, |a, b| {
        a.numeric()?.remainder(b.numeric()?).map(Datum::Numeric)
    }),
    Function::pair("^", &[Numeric, Numeric], Numeric, |a, b| {
        a.numeric()?.power(b.numeric()?).map(Datum::Numeric)
    }),
    Function::scalar("-", &[Numeric], Numeric, |_, a| {
        Ok(Datum::Numeric(a[0].numeric()?.negated()))
    }),
    Function::scalar("+", &[Numeric], Numeric, |_, a| Ok(a[0].clone())),
    Function::scalar("@", &[Numeric], Numeric, |_, a| {
        Ok(Datum::Numeric(a[0].numeric()?.abs()))
    }),
];
