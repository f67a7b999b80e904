//! Constants that are converted once, when the plan is made, and not for each row.
//!
//! Only conversions between numbers: those of texts depend on settings and on the moment. One that
//! fails stays as it is, because perhaps no row needs it.

use super::expression::Expr;
use super::node::Node;
use crate::types::{Context, Kind, NoNames, Settings, cast};

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

/// Whether values of a kind are numbers.
pub(super) fn is_number(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Int2 | Kind::Int4 | Kind::Int8 | Kind::Float4 | Kind::Float8 | Kind::Numeric
    )
}
