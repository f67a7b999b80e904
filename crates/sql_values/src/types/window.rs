//! The window functions that are no aggregates: their names and the kinds of their results. The
//! executor computes them from the rows of a partition.
//!
//! Aggregates can be called over a window too; they are not listed here.

pub use super::signature::WindowFunction;

use super::kind::Kind::{self, AnyCompatible, AnyElement, Float8, Int4, Int8};
use super::signature::{Body, Function};

const fn window(
    name: &'static str,
    arguments: &'static [Kind],
    result: Kind,
    function: WindowFunction,
) -> Function {
    Function::with_body(name, arguments, result, Body::Window(function))
}

/// The table of window functions.
pub(super) const FUNCTIONS: &[Function] = &[
    window("row_number", &[], Int8, WindowFunction::RowNumber),
    window("rank", &[], Int8, WindowFunction::Rank),
    window("dense_rank", &[], Int8, WindowFunction::DenseRank),
    window("percent_rank", &[], Float8, WindowFunction::PercentRank),
    window("cume_dist", &[], Float8, WindowFunction::CumeDist),
    window("ntile", &[Int4], Int4, WindowFunction::Ntile),
    window("lag", &[AnyElement], AnyElement, WindowFunction::Lag),
    window("lag", &[AnyElement, Int4], AnyElement, WindowFunction::Lag),
    window(
        "lag",
        &[AnyCompatible, Int4, AnyCompatible],
        AnyCompatible,
        WindowFunction::Lag,
    ),
    window("lead", &[AnyElement], AnyElement, WindowFunction::Lead),
    window(
        "lead",
        &[AnyElement, Int4],
        AnyElement,
        WindowFunction::Lead,
    ),
    window(
        "lead",
        &[AnyCompatible, Int4, AnyCompatible],
        AnyCompatible,
        WindowFunction::Lead,
    ),
    window(
        "first_value",
        &[AnyElement],
        AnyElement,
        WindowFunction::FirstValue,
    ),
    window(
        "last_value",
        &[AnyElement],
        AnyElement,
        WindowFunction::LastValue,
    ),
    window(
        "nth_value",
        &[AnyElement, Int4],
        AnyElement,
        WindowFunction::NthValue,
    ),
];
