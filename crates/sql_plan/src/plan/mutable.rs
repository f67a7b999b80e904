//! Parts of expressions whose values may depend on more than the row: on settings, on the moment,
//! or on objects of the catalogue.
//!
//! Functions say that of themselves. A conversion depends on settings if it reads or prints a date,
//! a moment or the name of an object, or if it goes between times with a zone and times without.

use super::expression::Expr;
use crate::types::Kind;
use crate::types::function::{Function, Volatility};
use crate::types::operator::resolve;

impl Expr {
    /// Whether it may have another value for the same row.
    pub fn is_mutable(&self) -> bool {
        self.any(|part, _| is_mutable(part))
    }
}

/// Whether a part of an expression may have another value for the same row.
fn is_mutable(part: &Expr) -> bool {
    match part {
        // A text joined with a value is joined with the text of the value.
        Expr::Call(call) if call.is_operator && call.function.name == "||" => {
            let mut values = call.arguments.iter();
            call.function.volatility != Volatility::Immutable
                && values.any(|value| is_mutable_cast(value.kind(), Kind::Text))
        }
        Expr::Call(call) => is_unsteady(call.function),
        Expr::Cast(value, to, _) => is_mutable_cast(value.kind(), to.kind),
        // The comparison stands beside the two sides, which are parts.
        Expr::IsDistinct(pair, _) => {
            let kinds = [pair.0.kind(), pair.1.kind()];
            resolve("=", &kinds).is_ok_and(|found| is_unsteady(found.function))
        }
        Expr::Quantified(test) => test.condition.is_mutable(),
        _ => false,
    }
}

fn is_unsteady(function: &Function) -> bool {
    function.volatility != Volatility::Immutable
}

/// Whether a conversion depends on settings, or on objects of the catalogue.
fn is_mutable_cast(from: Kind, to: Kind) -> bool {
    use Kind::{Date, Text, Time, Timestamp, Timestamptz, Timetz, Unknown, Varchar};
    if let (true, Some(from), Some(to)) = (to.is_array(), from.element(), to.element()) {
        return is_mutable_cast(from, to);
    }
    match (from, to) {
        // A literal is read when the expression is defined.
        _ if from == to || from == Unknown => false,
        (Date | Timestamp, Timestamptz) | (Time, Timetz) => true,
        (Timestamptz, Date | Time | Timestamp | Timetz) => true,
        (Text | Varchar, Kind::Regclass) => true,
        _ if crate::types::cast::table_context(from, to).is_some() => false,
        // A row becomes one of another type field by field, without texts.
        (Kind::Record | Kind::Composite(_), Kind::Record | Kind::Composite(_)) => false,
        _ => prints_by_settings(from) || reads_by_settings(to),
    }
}

/// Whether the text of a value depends on settings or on the catalogue.
fn prints_by_settings(kind: Kind) -> bool {
    let is_name = kind.is_object_number() && !matches!(kind, Kind::Oid | Kind::Xid | Kind::Cid);
    let is_moment = matches!(
        kind,
        Kind::Date | Kind::Timestamp | Kind::Timestamptz | Kind::Interval
    );
    let is_made = matches!(kind, Kind::Record | Kind::Composite(_) | Kind::Enum(_));
    is_name || is_moment || is_made || kind.is_array()
}

/// Whether the value of a text depends on settings or on the catalogue.
fn reads_by_settings(kind: Kind) -> bool {
    prints_by_settings(kind) || matches!(kind, Kind::Time | Kind::Timetz)
}
