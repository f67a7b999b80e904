//! Functions: their signatures, and how they are found.
//!
//! A [`Function`] is a row of a static table: name, kinds of its arguments and of its result, and
//! the code. Aggregates and window functions stand in the same tables, as they share names and the
//! rules of the choice with all others. [`Functions`] looks them up.

pub mod array;
pub mod array_assign;
mod bytes;
mod digest;
mod general;
pub(super) mod geometry;
pub mod json;
mod json_make;
mod keyword;
pub mod math;
pub mod moment;
mod moment_form;
mod moment_read;
mod number_form;
pub mod pattern;
mod regexp;
mod series;
pub mod string;
mod support;

pub use bytes::to_base64;

use super::aggregate::{self, Aggregate};
use super::context::CallContext;
use super::datum::Datum;
use super::kind::Kind;
use super::overload::{self, Resolved};
use super::window::WindowFunction;
use crate::error::Result;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The code of a function of one value.
pub type Scalar = fn(&mut CallContext<'_>, &[Datum]) -> Result<Datum>;
/// The code of a function of two values that needs nothing else.
pub type Pair = fn(&Datum, &Datum) -> Result<Datum>;
/// The rows of a function that returns a set.
pub type Rows = Box<dyn Iterator<Item = Result<Datum>> + Send>;
/// The code of a function that returns a set.
pub type SetFunction = fn(&mut CallContext<'_>, &[Datum]) -> Result<Rows>;

/// How a function is run.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// Arguments in, a value out.
    Scalar(Scalar),
    /// Whether an order of two values is among those that are wanted.
    Comparison(fn(Ordering) -> bool),
    /// Two arguments in, a value out, whatever the surroundings.
    Pair(Pair),
    /// Arguments in, rows out.
    Set(SetFunction),
    /// The session runs it, by this name.
    Host(&'static str),
    /// The session runs it, by this name; the result is an array of the rows.
    HostSet(&'static str),
    /// All rows of a group in, a value out.
    Aggregate(Aggregate),
    /// A value for each row, from the rows around it.
    Window(WindowFunction),
}

/// When the same arguments give the same result.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Volatility {
    /// Always.
    Immutable,
    /// Within a statement.
    Stable,
    /// Never for sure.
    Volatile,
}

/// A function or operator.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// The kinds of its arguments.
    pub arguments: &'static [Kind],
    /// The kind of its result, or of each row of it.
    pub result: Kind,
    /// Columns of its rows, where it has several.
    pub columns: &'static [(&'static str, Kind)],
    /// Whether NULL in any argument makes the result NULL without a call.
    pub is_strict: bool,
    /// Whether the last argument is an array that takes the rest of the arguments; `any` there
    /// takes them as they are.
    pub is_variadic: bool,
    /// So many arguments at the end may be left out; the function sees fewer of them.
    pub default_count: usize,
    /// When results repeat.
    pub volatility: Volatility,
    /// The code.
    pub body: Body,
}

impl Function {
    /// A function of one value.
    pub const fn scalar(
        name: &'static str,
        arguments: &'static [Kind],
        result: Kind,
        call: Scalar,
    ) -> Self {
        Self::with_body(name, arguments, result, Body::Scalar(call))
    }

    /// A function of two values that needs nothing else.
    pub const fn pair(
        name: &'static str,
        arguments: &'static [Kind],
        result: Kind,
        call: Pair,
    ) -> Self {
        Self::with_body(name, arguments, result, Body::Pair(call))
    }

    /// A function that returns a set.
    pub const fn set(
        name: &'static str,
        arguments: &'static [Kind],
        result: Kind,
        call: SetFunction,
    ) -> Self {
        Self::with_body(name, arguments, result, Body::Set(call))
    }

    /// A function that the session runs; its results never repeat for sure.
    pub const fn host(name: &'static str, arguments: &'static [Kind], result: Kind) -> Self {
        Self::with_body(name, arguments, result, Body::Host(name)).volatile()
    }

    /// A function with any body: immutable and strict.
    pub const fn with_body(
        name: &'static str,
        arguments: &'static [Kind],
        result: Kind,
        body: Body,
    ) -> Self {
        Self {
            name,
            arguments,
            result,
            columns: &[],
            is_strict: true,
            is_variadic: false,
            default_count: 0,
            volatility: Volatility::Immutable,
            body,
        }
    }

    /// The function, called with NULLs too.
    #[must_use]
    pub const fn nullable(mut self) -> Self {
        self.is_strict = false;
        self
    }

    /// The function, with results that repeat within a statement only.
    #[must_use]
    pub const fn stable(mut self) -> Self {
        self.volatility = Volatility::Stable;
        self
    }

    /// The function, with results that never repeat for sure.
    #[must_use]
    pub const fn volatile(mut self) -> Self {
        self.volatility = Volatility::Volatile;
        self
    }

    /// The function, whose last argument takes the rest of them.
    #[must_use]
    pub const fn variadic(mut self) -> Self {
        self.is_variadic = true;
        self
    }

    /// The function, of whose arguments so many may be left out.
    #[must_use]
    pub const fn defaults(mut self, count: usize) -> Self {
        self.default_count = count;
        self
    }

    /// The function, whose rows have these columns.
    #[must_use]
    pub const fn columns(mut self, columns: &'static [(&'static str, Kind)]) -> Self {
        self.columns = columns;
        self
    }

    /// Whether it returns a set.
    pub fn returns_set(&self) -> bool {
        matches!(self.body, Body::Set(_) | Body::HostSet(_))
    }
}

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
    regexp::FUNCTIONS,
    json::FUNCTIONS,
    json_make::FUNCTIONS,
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
