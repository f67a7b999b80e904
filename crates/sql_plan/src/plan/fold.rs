//! Constants that are converted or put into an array once, when the plan is made, and not for each
//! row.
//!
//! Only conversions between numbers: those of texts depend on settings and on the moment. One that
//! fails stays as it is, because perhaps no row needs it.

use super::expression::Expr;
use super::node::Node;
use crate::types::array::Array;
use crate::types::{Context, Datum, Kind, NoNames, Settings, Type, cast};
use std::sync::Arc;

/// Converts the constants in the expressions of a node and its inputs.
pub(super) fn fold(node: &mut Node) {
    let walked = node.walk(0, &mut |part, _| {
        fold_part(part);
        Ok(true)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
}

/// Converts the constants in an expression.
pub(super) fn fold_expression(expression: &mut Expr) {
    let walked = expression.walk(0, &mut |part, _| {
        fold_part(part);
        Ok(true)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
}

fn fold_part(part: &mut Expr) {
    if let Expr::Array(elements, data_type) = part {
        elements.iter_mut().for_each(fold_part);
        if let Some(array) = array_of(elements, *data_type) {
            *part = array;
        }
        return;
    }
    if let Some(constant) = converted(part) {
        *part = constant;
    }
}

/// The constant that a conversion of another one makes.
fn converted(expression: &Expr) -> Option<Expr> {
    let Expr::Cast(operand, target, how) = expression else {
        return None;
    };
    let Expr::Constant(value, from) = &**operand else {
        return None;
    };
    if !is_number(from.kind) || !is_number(target.kind) {
        return None;
    }
    let context = Context {
        settings: &Settings::default(),
        names: &NoNames,
        transaction_start: 0,
        statement_start: 0,
    };
    let value = cast::cast(value.clone(), from.kind, *target, *how, &context);
    Some(Expr::Constant(value.ok()?, *target))
}

/// The constant that is an array of constants.
fn array_of(elements: &[Expr], data_type: Type) -> Option<Expr> {
    let values = elements.iter().map(|element| match element {
        Expr::Constant(value, of) if !of.kind.is_array() => Some(value.clone()),
        _ => None,
    });
    let array = Array::new(data_type.kind.element()?, values.collect::<Option<_>>()?);
    Some(Expr::Constant(Datum::Array(Arc::new(array)), data_type))
}

/// Whether values of a kind are numbers.
pub(super) fn is_number(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Int2 | Kind::Int4 | Kind::Int8 | Kind::Float4 | Kind::Float8 | Kind::Numeric
    )
}
