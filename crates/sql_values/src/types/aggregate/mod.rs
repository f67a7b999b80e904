//! Aggregates: values that are computed from all rows of a group.
//!
//! The executor treats DISTINCT, ORDER BY and FILTER, and leaves out rows with NULLs where the
//! function is strict; an [`Accumulator`] sees the rest in order.

mod collect;
mod ordered;
mod statistics;
mod total;

use super::context::CallContext;
use super::datum::Datum;
use super::function::{Body, Function};
use super::kind::Kind;
use crate::error::Result;

/// The running state of a group.
pub trait Accumulator: Send {
    /// Takes the arguments of a row.
    fn add(&mut self, context: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()>;

    /// The value of the rows so far; more may follow.
    fn value(&self, context: &mut CallContext<'_>) -> Result<Datum>;

    /// Bytes of memory that it holds beyond itself.
    fn memory_bytes(&self) -> usize {
        0
    }
}

/// The code of an aggregate.
#[derive(Clone, Copy, Debug)]
pub struct Aggregate {
    /// A state without rows.
    pub start: fn() -> Box<dyn Accumulator>,
    /// Whether a state has all values of its group.
    pub keeps_rows: bool,
}

/// An aggregate that leaves out rows with NULLs.
const fn aggregate(
    name: &'static str,
    arguments: &'static [Kind],
    result: Kind,
    start: fn() -> Box<dyn Accumulator>,
) -> Function {
    let keeps_rows = false;
    let body = Body::Aggregate(Aggregate { start, keeps_rows });
    Function::with_body(name, arguments, result, body)
}

/// An aggregate that keeps the values of its group.
const fn keeping(
    name: &'static str,
    arguments: &'static [Kind],
    result: Kind,
    start: fn() -> Box<dyn Accumulator>,
) -> Function {
    let keeps_rows = true;
    let body = Body::Aggregate(Aggregate { start, keeps_rows });
    Function::with_body(name, arguments, result, body)
}

/// The tables of aggregates.
pub(super) const TABLES: &[&[Function]] = &[
    total::EXTREMES,
    total::BITS,
    total::FUNCTIONS,
    statistics::MEASURES,
    statistics::RELATIONS,
    statistics::FUNCTIONS,
    collect::FUNCTIONS,
    ordered::FUNCTIONS,
];
