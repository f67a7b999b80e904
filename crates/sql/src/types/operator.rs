//! Operators: functions with one or two arguments that are written between or before them.

use super::function::Function;
use super::kind::Kind;
use super::overload::{self, Resolved};
use crate::error::Result;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The tables of this module.
const TABLES: &[&[Function]] = &[];

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
