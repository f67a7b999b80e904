//! Conditions that follow from others, as far as their forms and their constants tell.
//!
//! ```text
//! a AND b            implies  b, and b with its sides exchanged
//! x = 5              implies  x > 3, x IS NOT NULL
//! x IN (1, 2)        implies  x IN (1, 2, 3), x < 9
//! flag = true        implies  flag
//! ```
//!
//! A condition implies another one if each row for which it is true makes the other one true. One
//! that is not seen costs a plan, and a wrong one costs rows, so what is not certain is not said.

use super::expression::{Expr, Quantified};
use super::nulls::refuses_nulls;
use crate::types::operator::commutator;
use crate::types::{Datum, Kind};
use std::slice::from_ref;

/// Whether a condition is true for each row for which all of some others are.
pub fn implies(given: &[Expr], wanted: &Expr) -> bool {
    match wanted {
        Expr::And(parts) => parts.iter().all(|part| implies(given, part)),
        Expr::Or(parts) if parts.iter().any(|part| implies(given, part)) => true,
        wanted => given.iter().any(|one| follows(one, wanted)),
    }
}

/// Whether a condition follows from another one.
fn follows(given: &Expr, wanted: &Expr) -> bool {
    if is_alike(given, wanted) {
        return true;
    }
    match given {
        Expr::And(parts) => return parts.iter().any(|part| follows(part, wanted)),
        Expr::Or(parts) => return parts.iter().all(|part| implies(from_ref(part), wanted)),
        _ => {}
    }
    // A row is not NULL in this sense if none of its fields is.
    if let Expr::IsNull(operand, true) = wanted
        && !matches!(operand.kind(), Kind::Record | Kind::Composite(_))
    {
        return refuses_nulls(given, &|part| part.is_same(operand));
    }
    let (Some((one, known)), Some((other, asked))) = (Known::of(given), Known::of(wanted)) else {
        return false;
    };
    one.is_same(other) && known.kind == asked.kind && known.values.are_within(&asked.values)
}

/// Whether two conditions are true for the same rows.
pub(super) fn is_alike(one: &Expr, other: &Expr) -> bool {
    let (operand, is_true) = truth(one);
    let (other_operand, other_is_true) = truth(other);
    let is_same = operand.is_same(other_operand) || is_exchanged(operand, other_operand);
    is_true == other_is_true && is_same
}

/// The operand whose truth, or else falsehood, makes a condition true.
fn truth(condition: &Expr) -> (&Expr, bool) {
    match condition {
        Expr::Not(operand) => (operand, false),
        Expr::IsTruth(operand, Some(wanted), false) => (operand, *wanted),
        Expr::Call(call) if call.is_equality() => match &call.arguments[..] {
            [operand, Expr::Constant(Datum::Bool(wanted), _)]
            | [Expr::Constant(Datum::Bool(wanted), _), operand] => (operand, *wanted),
            _ => (condition, true),
        },
        _ => (condition, true),
    }
}

/// Whether a comparison is another one with its sides exchanged.
fn is_exchanged(one: &Expr, other: &Expr) -> bool {
    let (Expr::Call(one), Expr::Call(other)) = (one, other) else {
        return false;
    };
    let ([left, right], [other_left, other_right]) = (&one.arguments[..], &other.arguments[..])
    else {
        return false;
    };
    one.is_operator
        && other.is_operator
        && commutator(one.function.name) == Some(other.function.name)
        && left.is_same(other_right)
        && right.is_same(other_left)
}

/// A comparison of an operand with constants of a kind.
struct Known<'e> {
    kind: Kind,
    values: Values<'e>,
}

/// The values for which a comparison is true.
enum Values<'e> {
    Among(Vec<&'e Datum>),
    /// The ones above an end, which may be one of them.
    Above(&'e Datum, bool),
    Below(&'e Datum, bool),
    AllBut(&'e Datum),
}

impl<'e> Known<'e> {
    /// The operand of a comparison with constants, and the values for which it is true.
    fn of(condition: &'e Expr) -> Option<(&'e Expr, Self)> {
        if let Expr::Quantified(test) = condition {
            return elements(test);
        }
        let Expr::Call(call) = condition else {
            return None;
        };
        let ([left, right], true) = (&call.arguments[..], call.is_operator) else {
            return None;
        };
        let (operand, name, constant) = match (left, right) {
            (operand, Expr::Constant(..)) => (operand, call.function.name, right),
            (Expr::Constant(..), operand) => (operand, commutator(call.function.name)?, left),
            _ => return None,
        };
        let Expr::Constant(value, data_type) = constant else {
            return None;
        };
        let values = match name {
            "=" => Values::Among(vec![value]),
            "<>" => Values::AllBut(value),
            ">" | ">=" => Values::Above(value, name == ">="),
            "<" | "<=" => Values::Below(value, name == "<="),
            _ => return None,
        };
        let kind = ordered_kind(data_type.kind).filter(|_| !value.is_null())?;
        (ordered_kind(operand.kind()) == Some(kind)).then_some((operand, Self { kind, values }))
    }
}

/// The operand that equals one of the elements of a constant array.
fn elements(test: &Quantified) -> Option<(&Expr, Known<'_>)> {
    let Expr::Call(call) = &test.condition else {
        return None;
    };
    let is_plain = matches!(call.arguments[..], [Expr::Column(0, _), Expr::Column(1, _)]);
    if test.is_all || !call.is_equality() || !is_plain {
        return None;
    }
    let values: Vec<&Datum> = match &test.array {
        Expr::Constant(Datum::Array(array), _) => array.elements.iter().collect(),
        Expr::Array(parts, _) => {
            let values = parts.iter().map(|part| match part {
                Expr::Constant(value, _) => Some(value),
                _ => None,
            });
            values.collect::<Option<_>>()?
        }
        _ => return None,
    };
    let kind = ordered_kind(test.array.kind().element()?)?;
    let values = values.into_iter().filter(|value| !value.is_null());
    let values = Values::Among(values.collect());
    (ordered_kind(test.left.kind()) == Some(kind)).then_some((&test.left, Known { kind, values }))
}

/// The kind whose values are compared with those of a kind, where their order is that of the
/// operators.
fn ordered_kind(kind: Kind) -> Option<Kind> {
    use Kind::{
        Bool, Date, Enum, Int2, Int4, Int8, Numeric, Text, Time, Timestamp, Timestamptz, Uuid,
    };
    match kind {
        Int2 | Int4 | Int8 => Some(Int8),
        Bool | Date | Enum(_) | Numeric | Text | Time | Timestamp | Timestamptz | Uuid => {
            Some(kind)
        }
        _ => None,
    }
}

impl Values<'_> {
    /// Whether all of these values are among others.
    fn are_within(&self, others: &Self) -> bool {
        match (self, others) {
            (Self::Among(values), others) => values.iter().all(|value| others.have(value)),
            (Self::Above(end, is_in), Self::Above(other, is_in_other)) => {
                let order = end.compare(other);
                order.is_gt() || (order.is_eq() && (*is_in_other || !is_in))
            }
            (Self::Below(end, is_in), Self::Below(other, is_in_other)) => {
                let order = end.compare(other);
                order.is_lt() || (order.is_eq() && (*is_in_other || !is_in))
            }
            (Self::Above(..) | Self::Below(..), Self::AllBut(value)) => !self.have(value),
            (Self::AllBut(one), Self::AllBut(other)) => one == other,
            _ => false,
        }
    }

    fn have(&self, value: &Datum) -> bool {
        match self {
            Self::Among(values) => values.contains(&value),
            Self::Above(end, is_in) => {
                let order = value.compare(end);
                order.is_gt() || (order.is_eq() && *is_in)
            }
            Self::Below(end, is_in) => {
                let order = value.compare(end);
                order.is_lt() || (order.is_eq() && *is_in)
            }
            Self::AllBut(other) => value != *other,
        }
    }
}
