//! Operators: functions with one or two arguments that are written between or before them.
//!
//! | module | operators of |
//! |---|---|
//! | `comparison` | all types that have an order |
//! | `number` | integers, floating point numbers, `numeric` |
//! | `moment` | dates, times and intervals |
//! | `text` | texts and bytes: joining and patterns |
//! | `container` | JSON and arrays |

mod comparison;
mod container;
mod moment;
mod number;
pub mod text;

use super::function::Function;
use super::kind::Kind;
use super::overload::{self, Resolved};
use crate::error::Result;
use std::collections::HashMap;
use std::sync::LazyLock;

const TABLES: &[&[Function]] = &[
    comparison::EQUAL,
    comparison::NOT_EQUAL,
    comparison::LESS,
    comparison::LESS_OR_EQUAL,
    comparison::GREATER,
    comparison::GREATER_OR_EQUAL,
    comparison::TRANSACTIONS,
    number::INTEGERS,
    number::ALIKE,
    number::FLOATS,
    number::OPERATORS,
    moment::OPERATORS,
    text::PATTERNS,
    text::OPERATORS,
    container::OPERATORS,
    super::function::geometry::OPERATORS,
];

static OPERATORS: LazyLock<HashMap<&'static str, Vec<&'static Function>>> = LazyLock::new(|| {
    let mut by_name: HashMap<&'static str, Vec<&'static Function>> = HashMap::new();
    for operator in TABLES.iter().copied().flatten() {
        by_name.entry(operator.name).or_default().push(operator);
    }
    by_name
});

/// The operator for the kinds of its arguments: one for a prefix operator, else two.
pub fn resolve(name: &str, given: &[Kind]) -> Result<Resolved> {
    let candidates = OPERATORS.get(name).map_or(&[][..], Vec::as_slice);
    overload::operator(name, candidates, given)
}

/// All operators.
pub fn all() -> impl Iterator<Item = &'static Function> {
    OPERATORS.values().flatten().copied()
}

/// The operator that is true exactly where this one is false.
pub fn negator(name: &str) -> Option<&'static str> {
    Some(match name {
        "=" => "<>",
        "<>" => "=",
        "<" => ">=",
        "<=" => ">",
        ">" => "<=",
        ">=" => "<",
        "~~" => "!~~",
        "!~~" => "~~",
        "~~*" => "!~~*",
        "!~~*" => "~~*",
        "~" => "!~",
        "!~" => "~",
        "~*" => "!~*",
        "!~*" => "~*",
        _ => return None,
    })
}

/// The operator that gives the same with its arguments exchanged.
pub fn commutator(name: &str) -> Option<&'static str> {
    Some(match name {
        "=" => "=",
        "<>" => "<>",
        "<" => ">",
        "<=" => ">=",
        ">" => "<",
        ">=" => "<=",
        "+" => "+",
        "*" => "*",
        "&" => "&",
        "|" => "|",
        "#" => "#",
        "&&" => "&&",
        "@>" => "<@",
        "<@" => "@>",
        _ => return None,
    })
}
