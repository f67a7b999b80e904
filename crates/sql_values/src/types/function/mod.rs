//! Functions of values, and how functions of all sorts are found.
//!
//! Each file has a table of functions of one subject; [`Functions`] looks names up in all of them.

pub mod array;
pub mod array_assign;
mod bytes;
mod digest;
mod general;
pub(super) mod geometry;
pub mod json;
mod json_make;
mod json_record;
mod keyword;
pub mod like;
pub mod math;
pub mod moment;
mod moment_form;
mod moment_read;
pub mod monitor;
mod normal;
mod number_form;
mod number_template;
pub mod pattern;
mod regexp;
mod series;
pub mod session;
pub mod string;
mod support;

pub use super::signature::{Body, Function, Pair, Rows, Scalar, SetFunction, Volatility};
pub(crate) use bytes::from_base64;
pub use bytes::to_base64;

use super::aggregate;
use super::kind::Kind;
use super::overload::{self, Resolved};
use crate::error::Result;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Functions by their names.
#[derive(Debug)]
pub struct Functions {
    by_name: HashMap<&'static str, Vec<&'static Function>>,
}

/// The tables of this module, by their subjects.
const TABLES: &[&[Function]] = &[
    super::window::FUNCTIONS,
    math::EXACT,
    math::FLOATING,
    string::FUNCTIONS,
    normal::FUNCTIONS,
    regexp::FUNCTIONS,
    json::FUNCTIONS,
    json_make::FUNCTIONS,
    json_record::FUNCTIONS,
    keyword::FUNCTIONS,
    array::FUNCTIONS,
    series::FUNCTIONS,
    bytes::FUNCTIONS,
    general::FUNCTIONS,
    moment::FIELDS,
    moment::OVERLAPS,
    moment::CLOCK,
    moment::FUNCTIONS,
    moment_form::FUNCTIONS,
    moment_read::FUNCTIONS,
    number_form::FUNCTIONS,
    support::FUNCTIONS,
    geometry::FUNCTIONS,
];

static BUILT_IN: LazyLock<Functions> = LazyLock::new(|| Functions::with(&[]));

impl Functions {
    /// The functions of this module.
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// The functions of this module and others.
    pub fn with(others: &[&'static [Function]]) -> Self {
        let mut by_name: HashMap<&'static str, Vec<&'static Function>> = HashMap::new();
        let tables = TABLES.iter().chain(aggregate::TABLES).chain(others);
        for function in tables.copied().flatten() {
            by_name.entry(function.name).or_default().push(function);
        }
        Self { by_name }
    }

    /// The functions of a name.
    pub fn named(&self, name: &str) -> &[&'static Function] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// The function of a name on texts of the collation `C`, where that is another one.
    pub fn of_c(name: &str) -> Option<&'static Function> {
        string::OF_C.iter().find(|function| function.name == name)
    }

    /// All functions.
    pub fn all(&self) -> impl Iterator<Item = &'static Function> {
        self.by_name.values().flatten().copied()
    }

    /// The function for a call. `is_variadic` says that its last argument is marked with VARIADIC.
    pub fn resolve(&self, name: &str, given: &[Kind], is_variadic: bool) -> Result<Resolved> {
        overload::function(name, self.named(name), given, is_variadic)
    }
}
