//! Aggregates over ordered values: `percentile_cont`, `percentile_disc` and `mode`.
//!
//! The executor hands the values over in the order of `WITHIN GROUP`, each with the direct
//! arguments before it; these are the same for all values of a group.

use super::super::array::Array;
use super::super::context::CallContext;
use super::super::datetime::arithmetic::multiply;
use super::super::datum::Datum;
use super::super::function::Function;
use super::super::kind::Kind::{self, AnyArray, AnyElement, Float8, Interval};
use super::{Accumulator, keeping};
use crate::error::{Result, SqlError, SqlState};
use std::sync::Arc;

const FRACTIONS: Kind = Kind::Array(&Float8);

/// Values in their order, with the fractions that are asked for.
struct Percentile {
    fractions: Datum,
    values: Vec<Datum>,
    /// Whether a value between two of them is made of both.
    is_continuous: bool,
}

impl Percentile {
    fn start(is_continuous: bool) -> Box<dyn Accumulator> {
        Box::new(Self {
            fractions: Datum::Null,
            values: Vec::new(),
            is_continuous,
        })
    }

    fn at(&self, fraction: &Datum) -> Result<Datum> {
        if fraction.is_null() {
            return Ok(Datum::Null);
        }
        let fraction = fraction.float8()?;
        if !(0.0..=1.0).contains(&fraction) {
            let message = format!("percentile value {fraction} is not between 0 and 1");
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
        }
        if self.values.is_empty() {
            return Ok(Datum::Null);
        }
        let count = self.values.len() as f64;
        if !self.is_continuous {
            let place = ((fraction * count).ceil() as usize).max(1);
            return Ok(self.values[place - 1].clone());
        }
        let place = fraction * (count - 1.0);
        let (low, high) = (
            &self.values[place.floor() as usize],
            &self.values[place.ceil() as usize],
        );
        let share = place - place.floor();
        if share == 0.0 {
            return Ok(low.clone());
        }
        match (low, high) {
            (Datum::Float8(low), Datum::Float8(high)) => {
                Ok(Datum::Float8(low + (high - low) * share))
            }
            (Datum::Interval(low), Datum::Interval(high)) => {
                let part = multiply(high.minus(*low)?, share)?;
                low.plus(part).map(Datum::Interval)
            }
            _ => Ok(low.clone()),
        }
    }
}

impl Accumulator for Percentile {
    fn add(&mut self, _: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()> {
        if self.fractions.is_null() {
            self.fractions = arguments[0].clone();
        }
        if !arguments[1].is_null() {
            self.values.push(arguments[1].clone());
        }
        Ok(())
    }

    fn value(&self, context: &mut CallContext<'_>) -> Result<Datum> {
        let Datum::Array(fractions) = &self.fractions else {
            return self.at(&self.fractions);
        };
        if self.values.is_empty() {
            return Ok(Datum::Null);
        }
        let elements = fractions.elements.iter().map(|fraction| self.at(fraction));
        Ok(Datum::Array(Arc::new(Array {
            element: context.result_type.kind.element().unwrap_or(Float8),
            dimensions: fractions.dimensions.clone(),
            elements: elements.collect::<Result<_>>()?,
        })))
    }

    fn memory_bytes(&self) -> usize {
        self.values.capacity() * size_of::<Datum>()
    }
}

/// The value that occurs most often; of several the first one.
#[derive(Default)]
struct Mode {
    /// The last value, and how often it has occurred.
    run: Option<(Datum, u64)>,
    best: Option<(Datum, u64)>,
}

impl Accumulator for Mode {
    fn add(&mut self, _: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()> {
        let value = &arguments[0];
        if value.is_null() {
            return Ok(());
        }
        let run = match self.run.take() {
            Some((last, count)) if last == *value => (last, count + 1),
            _ => (value.clone(), 1),
        };
        if self.best.as_ref().is_none_or(|(_, count)| run.1 > *count) {
            self.best = Some(run.clone());
        }
        self.run = Some(run);
        Ok(())
    }

    fn value(&self, _: &mut CallContext<'_>) -> Result<Datum> {
        Ok(self
            .best
            .as_ref()
            .map_or(Datum::Null, |(value, _)| value.clone()))
    }
}

fn continuous() -> Box<dyn Accumulator> {
    Percentile::start(true)
}

fn discrete() -> Box<dyn Accumulator> {
    Percentile::start(false)
}

pub(super) const FUNCTIONS: &[Function] = &[
    keeping("percentile_cont", &[Float8, Float8], Float8, continuous).nullable(),
    keeping("percentile_cont", &[Float8, Interval], Interval, continuous).nullable(),
    keeping(
        "percentile_cont",
        &[FRACTIONS, Float8],
        FRACTIONS,
        continuous,
    )
    .nullable(),
    keeping(
        "percentile_cont",
        &[FRACTIONS, Interval],
        Kind::Array(&Interval),
        continuous,
    )
    .nullable(),
    keeping(
        "percentile_disc",
        &[Float8, AnyElement],
        AnyElement,
        discrete,
    )
    .nullable(),
    keeping(
        "percentile_disc",
        &[FRACTIONS, AnyElement],
        AnyArray,
        discrete,
    )
    .nullable(),
    keeping("mode", &[AnyElement], AnyElement, || Box::<Mode>::default()).nullable(),
];
