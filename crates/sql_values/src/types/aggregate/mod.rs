//! Aggregates: values that are computed from all rows of a group.
//!
//! The executor treats DISTINCT, ORDER BY and FILTER, and leaves out rows with NULLs where the
//! function is strict; an [`Accumulator`] sees the rest in order.

mod collect;
mod ordered;
mod statistics;
mod total;

pub use super::signature::{Accumulator, Aggregate};
pub use collect::array_of;

use super::kind::Kind;
use super::signature::{Body, Function};

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
