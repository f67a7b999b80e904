//! Conditions that are not true where some of their parts are NULL.
//!
//! They make outer joins inner ones, and let an index serve that has no rows with NULL. Functions
//! that are strict hand NULL on; what tests for NULL, or has branches, may do something else.

use super::expression::Expr;

/// Whether a condition is not true if some of its parts are NULL.
pub(super) fn refuses_nulls(condition: &Expr, is_null: &dyn Fn(&Expr) -> bool) -> bool {
    match condition {
        Expr::And(parts) => parts.iter().any(|part| refuses_nulls(part, is_null)),
        Expr::Or(parts) => parts.iter().all(|part| refuses_nulls(part, is_null)),
        Expr::IsNull(operand, true) => becomes_null(operand, is_null),
        // A test of all elements is true of none.
        Expr::Quantified(test) if !test.is_all => {
            let is_strict = matches!(&test.condition, Expr::Call(call) if call.function.is_strict);
            is_strict && becomes_null(&test.left, is_null)
        }
        other => becomes_null(other, is_null),
    }
}

/// Whether an expression is NULL if some of its parts are.
fn becomes_null(expression: &Expr, is_null: &dyn Fn(&Expr) -> bool) -> bool {
    match expression {
        part if is_null(part) => true,
        Expr::Cast(operand, ..) | Expr::Not(operand) => becomes_null(operand, is_null),
        Expr::Call(call) => {
            let mut arguments = call.arguments.iter();
            call.function.is_strict && arguments.any(|one| becomes_null(one, is_null))
        }
        _ => false,
    }
}
