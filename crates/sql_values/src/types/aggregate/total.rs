//! `count`, `sum`, `avg`, `min`, `max`, and the logical ones.
//!
//! Sums are exact: of integers in a wider type, of numeric in numeric. The state of a group has a
//! fixed size, whatever the number of its rows.

use super::super::context::CallContext;
use super::super::datum::Datum;
use super::super::function::Function;
use super::super::interval::Interval as Span;
use super::super::kind::Kind::{
    Any, AnyArray, AnyEnum, Bool, Bpchar, Date, Float4, Float8, Int2, Int4, Int8, Interval,
    Numeric, Oid, Text, Tid, Time, Timestamp, Timestamptz, Timetz,
};
use super::super::numeric::Numeric as Number;
use super::{Accumulator, aggregate};
use crate::error::Result;
use std::cmp::Ordering;

#[derive(Default)]
struct Count(i64);

impl Accumulator for Count {
    fn add(&mut self, _: &mut CallContext<'_>, _: &[Datum]) -> Result<()> {
        self.0 += 1;
        Ok(())
    }

    fn remove(&mut self, _: &mut CallContext<'_>, _: &[Datum]) -> Result<bool> {
        self.0 -= 1;
        Ok(true)
    }

    fn value(&self, _: &mut CallContext<'_>) -> Result<Datum> {
        Ok(Datum::Int8(self.0))
    }
}

/// The form of a total.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `bigint`, for the sum of short integers.
    Integer,
    /// `numeric`, for the sum of long ones.
    Numeric,
    /// `numeric`, divided by the count.
    Average,
}

/// The sum of integers, which 128 bits hold for any number of rows.
struct IntegerSum {
    sum: i128,
    count: i64,
    form: Form,
}

impl IntegerSum {
    fn start(form: Form) -> Box<dyn Accumulator> {
        Box::new(Self {
            sum: 0,
            count: 0,
            form,
        })
    }
}

impl Accumulator for IntegerSum {
    fn add(&mut self, _: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()> {
        self.sum += i128::from(arguments[0].int()?);
        self.count += 1;
        Ok(())
    }

    fn remove(&mut self, _: &mut CallContext<'_>, arguments: &[Datum]) -> Result<bool> {
        self.sum -= i128::from(arguments[0].int()?);
        self.count -= 1;
        Ok(true)
    }

    fn value(&self, _: &mut CallContext<'_>) -> Result<Datum> {
        if self.count == 0 {
            return Ok(Datum::Null);
        }
        let sum = Number::new(self.sum, 0);
        match self.form {
            Form::Integer => match i64::try_from(self.sum) {
                Ok(sum) => Ok(Datum::Int8(sum)),
                Err(_) => Err(super::super::cast::out_of_range("bigint")),
            },
            Form::Numeric => Ok(Datum::Numeric(sum)),
            Form::Average => sum.divide(&Number::from(self.count)).map(Datum::Numeric),
        }
    }
}

struct NumericSum {
    sum: Number,
    count: i64,
    /// The numbers whose scale is that of the sum.
    of_scale: i64,
    is_average: bool,
}

impl NumericSum {
    fn start(is_average: bool) -> Box<dyn Accumulator> {
        Box::new(Self {
            sum: Number::ZERO,
            count: 0,
            of_scale: 0,
            is_average,
        })
    }
}

impl Accumulator for NumericSum {
    fn add(&mut self, _: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()> {
        let number = arguments[0].numeric()?;
        let before = self.sum.scale();
        self.sum = self.sum.add(number)?;
        self.count += 1;
        if self.sum.scale() != before {
            self.of_scale = 0;
        }
        self.of_scale += i64::from(number.scale() == self.sum.scale());
        Ok(())
    }

    /// Without the last number of its scale the sum would have another one.
    fn remove(&mut self, _: &mut CallContext<'_>, arguments: &[Datum]) -> Result<bool> {
        let number = arguments[0].numeric()?;
        let is_finite = self.sum.scale().is_some() && number.scale().is_some();
        let has_scale = number.scale() == self.sum.scale();
        if !is_finite || (has_scale && self.of_scale == 1 && number.scale() != Some(0)) {
            return Ok(false);
        }
        self.sum = self.sum.subtract(number)?;
        self.count -= 1;
        self.of_scale -= i64::from(has_scale);
        Ok(true)
    }

    fn value(&self, _: &mut CallContext<'_>) -> Result<Datum> {
        match (self.count, self.is_average) {
            (0, _) => Ok(Datum::Null),
            (_, false) => Ok(Datum::Numeric(self.sum.clone())),
            (count, true) => self.sum.divide(&Number::from(count)).map(Datum::Numeric),
        }
    }
}

struct IntervalSum {
    sum: Span,
    count: i64,
    is_average: bool,
}

impl IntervalSum {
    fn start(is_average: bool) -> Box<dyn Accumulator> {
        Box::new(Self {
            sum: Span::default(),
            count: 0,
            is_average,
        })
    }
}

impl Accumulator for IntervalSum {
    fn add(&mut self, _: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()> {
        self.sum = self.sum.plus(arguments[0].interval()?)?;
        self.count += 1;
        Ok(())
    }

    fn remove(&mut self, _: &mut CallContext<'_>, arguments: &[Datum]) -> Result<bool> {
        self.sum = self.sum.minus(arguments[0].interval()?)?;
        self.count -= 1;
        Ok(true)
    }

    fn value(&self, _: &mut CallContext<'_>) -> Result<Datum> {
        match (self.count, self.is_average) {
            (0, _) => Ok(Datum::Null),
            (_, false) => Ok(Datum::Interval(self.sum)),
            (count, true) => {
                let share = super::super::datetime::arithmetic::divide(self.sum, count as f64);
                share.map(Datum::Interval)
            }
        }
    }
}

/// The sum of `real`s, which is rounded to one at each step.
struct ShortFloatSum {
    sum: Option<f32>,
}

impl Accumulator for ShortFloatSum {
    fn add(&mut self, _: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()> {
        let value = arguments[0].float4()?;
        let sum = self.sum.map_or(value, |sum| sum + value);
        let was_finite = value.is_finite() && self.sum.is_none_or(f32::is_finite);
        if sum.is_infinite() && was_finite {
            return Err(super::super::function::math::overflow());
        }
        self.sum = Some(sum);
        Ok(())
    }

    fn value(&self, _: &mut CallContext<'_>) -> Result<Datum> {
        Ok(self.sum.map_or(Datum::Null, Datum::Float4))
    }
}

struct Extreme {
    best: Datum,
    wanted: Ordering,
}

impl Extreme {
    fn start(wanted: Ordering) -> Box<dyn Accumulator> {
        Box::new(Self {
            best: Datum::Null,
            wanted,
        })
    }
}

impl Accumulator for Extreme {
    fn add(&mut self, _: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()> {
        // Of equal values the last one stays.
        if self.best.is_null() || self.best.compare(&arguments[0]) != self.wanted {
            self.best = arguments[0].clone();
        }
        Ok(())
    }

    fn value(&self, _: &mut CallContext<'_>) -> Result<Datum> {
        Ok(self.best.clone())
    }
}

/// `bool_and` and `bool_or`: the value that decides, if it is there.
struct Logical {
    deciding: bool,
    /// How many values decide, and how many there are.
    decide: u64,
    count: u64,
}

impl Logical {
    fn start(deciding: bool) -> Box<dyn Accumulator> {
        Box::new(Self {
            deciding,
            decide: 0,
            count: 0,
        })
    }
}

impl Accumulator for Logical {
    fn add(&mut self, _: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()> {
        self.decide += u64::from(arguments[0].bool()? == self.deciding);
        self.count += 1;
        Ok(())
    }

    fn remove(&mut self, _: &mut CallContext<'_>, arguments: &[Datum]) -> Result<bool> {
        self.decide -= u64::from(arguments[0].bool()? == self.deciding);
        self.count -= 1;
        Ok(true)
    }

    fn value(&self, _: &mut CallContext<'_>) -> Result<Datum> {
        Ok(match (self.count, self.decide) {
            (0, _) => Datum::Null,
            (_, 0) => Datum::Bool(!self.deciding),
            _ => Datum::Bool(self.deciding),
        })
    }
}

/// `bit_and`, `bit_or` and `bit_xor`.
struct Bits {
    value: Option<Datum>,
    combine: fn(i64, i64) -> i64,
}

impl Bits {
    fn start(combine: fn(i64, i64) -> i64) -> Box<dyn Accumulator> {
        Box::new(Self {
            value: None,
            combine,
        })
    }
}

impl Accumulator for Bits {
    fn add(&mut self, _: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()> {
        let next = &arguments[0];
        self.value = Some(match &self.value {
            None => next.clone(),
            Some(value) => {
                let bits = (self.combine)(value.int()?, next.int()?);
                super::super::cast::integer(bits, next.kind())?
            }
        });
        Ok(())
    }

    fn value(&self, _: &mut CallContext<'_>) -> Result<Datum> {
        Ok(self.value.clone().unwrap_or(Datum::Null))
    }
}

macro_rules! extremes {
    ($($kind:ident),*) => {
        &[$(
            aggregate("min", &[$kind], $kind, || Extreme::start(Ordering::Less)),
            aggregate("max", &[$kind], $kind, || Extreme::start(Ordering::Greater)),
        )*]
    };
}

macro_rules! bits {
    ($($kind:ident),*) => {
        &[$(
            aggregate("bit_and", &[$kind], $kind, || Bits::start(|a, b| a & b)),
            aggregate("bit_or", &[$kind], $kind, || Bits::start(|a, b| a | b)),
            aggregate("bit_xor", &[$kind], $kind, || Bits::start(|a, b| a ^ b)),
        )*]
    };
}

/// `min` and `max`.
pub(super) const EXTREMES: &[Function] = extremes![
    Int2,
    Int4,
    Int8,
    Oid,
    Tid,
    Float4,
    Float8,
    Numeric,
    Text,
    Bpchar,
    Date,
    Time,
    Timetz,
    Timestamp,
    Timestamptz,
    Interval,
    AnyArray,
    AnyEnum
];

/// Aggregates of bits.
pub(super) const BITS: &[Function] = bits![Int2, Int4, Int8];

/// The others.
pub(super) const FUNCTIONS: &[Function] = &[
    aggregate("count", &[], Int8, || Box::new(Count::default())),
    aggregate("count", &[Any], Int8, || Box::new(Count::default())),
    aggregate("sum", &[Int2], Int8, || IntegerSum::start(Form::Integer)),
    aggregate("sum", &[Int4], Int8, || IntegerSum::start(Form::Integer)),
    aggregate("sum", &[Int8], Numeric, || IntegerSum::start(Form::Numeric)),
    aggregate("sum", &[Numeric], Numeric, || NumericSum::start(false)),
    aggregate("sum", &[Float4], Float4, || {
        Box::new(ShortFloatSum { sum: None })
    }),
    aggregate("sum", &[Interval], Interval, || IntervalSum::start(false)),
    aggregate("avg", &[Int2], Numeric, || IntegerSum::start(Form::Average)),
    aggregate("avg", &[Int4], Numeric, || IntegerSum::start(Form::Average)),
    aggregate("avg", &[Int8], Numeric, || IntegerSum::start(Form::Average)),
    aggregate("avg", &[Numeric], Numeric, || NumericSum::start(true)),
    aggregate("avg", &[Interval], Interval, || IntervalSum::start(true)),
    aggregate("bool_and", &[Bool], Bool, || Logical::start(false)),
    aggregate("every", &[Bool], Bool, || Logical::start(false)),
    aggregate("bool_or", &[Bool], Bool, || Logical::start(true)),
];
