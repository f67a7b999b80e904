//! Descriptions of functions: names, arguments, results, and what runs them.
//!
//! A [`Function`] is a row of a static table: name, kinds of its arguments and of its result, and
//! the code. Aggregates and window functions stand in the same tables, as they share names and the
//! rules of the choice with all others.

use super::context::CallContext;
use super::datum::Datum;
use super::kind::Kind;
use crate::error::Result;
use std::cmp::Ordering;

/// The running state of a group.
pub trait Accumulator: Send {
    /// Takes the arguments of a row.
    fn add(&mut self, context: &mut CallContext<'_>, arguments: &[Datum]) -> Result<()>;

    /// Takes the arguments of a row out again that it has been given. False if it cannot: a state
    /// must be made of the other rows then.
    fn remove(&mut self, _context: &mut CallContext<'_>, _arguments: &[Datum]) -> Result<bool> {
        Ok(false)
    }

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

/// A window function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowFunction {
    /// The number of the row in its partition.
    RowNumber,
    /// The number of the first of the row's peers.
    Rank,
    /// The number of the row's group of peers.
    DenseRank,
    /// `(rank - 1) / (rows - 1)`.
    PercentRank,
    /// Rows up to the last peer, as a share of all.
    CumeDist,
    /// The number of the row's bucket.
    Ntile,
    /// A value of an earlier row.
    Lag,
    /// A value of a later row.
    Lead,
    /// A value of the first row of the frame.
    FirstValue,
    /// A value of the last row of the frame.
    LastValue,
    /// A value of the row of the frame with a number.
    NthValue,
}

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

    /// The function, whose results depend on the arguments only.
    #[must_use]
    pub const fn immutable(mut self) -> Self {
        self.volatility = Volatility::Immutable;
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
