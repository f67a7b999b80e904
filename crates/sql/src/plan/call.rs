//! Calls of functions, operators and casts, as the binder has chosen them.
//!
//! A call has the types of its arguments with it, because functions that take any type look at
//! them, and its result type, which the choice of the function has decided.

use super::expression::Expr;
use crate::types::Type;
use crate::types::aggregate::Aggregate;
use crate::types::function::{Function, Volatility};
use std::sync::Arc;

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) function: &'static Function,
    pub(crate) arguments: Vec<Expr>,
    pub(crate) argument_types: Arc<[Type]>,
    pub(crate) data_type: Type,
    /// Whether it is written as an operator.
    pub(crate) is_operator: bool,
}

impl Call {
    /// Whether it is the operator `=`.
    pub(crate) fn is_equality(&self) -> bool {
        self.is_operator && self.function.name == "="
    }

    /// Whether the same arguments give the same result within a statement.
    pub(crate) fn is_stable(&self) -> bool {
        self.function.volatility != Volatility::Volatile
    }
}

/// An aggregate that the binder has chosen.
#[derive(Clone, Debug)]
pub(crate) struct AggregateFunction {
    pub(crate) function: &'static Function,
    pub(crate) aggregate: Aggregate,
    pub(crate) argument_types: Arc<[Type]>,
}
