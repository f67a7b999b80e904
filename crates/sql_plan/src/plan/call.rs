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
pub struct Call {
    /// The function that was chosen.
    pub function: &'static Function,
    /// The arguments, already converted to its types.
    pub arguments: Vec<Expr>,
    /// Types of the arguments.
    pub argument_types: Arc<[Type]>,
    /// Type of the result.
    pub data_type: Type,
    /// Whether it is written as an operator.
    pub is_operator: bool,
}

impl Call {
    /// Whether it is the operator `=`.
    pub fn is_equality(&self) -> bool {
        self.is_operator && self.function.name == "="
    }

    /// Whether the same arguments give the same result within a statement.
    pub fn is_stable(&self) -> bool {
        self.function.volatility != Volatility::Volatile
    }
}

/// An aggregate that the binder has chosen.
#[derive(Clone, Debug)]
pub struct AggregateFunction {
    /// Its entry among all functions.
    pub function: &'static Function,
    /// The steps of its state.
    pub aggregate: Aggregate,
    /// Types of the arguments.
    pub argument_types: Arc<[Type]>,
}
