//! Equalities that follow from others: a column that equals another one equals its value too.
//!
//! ```text
//! a = b AND a = 1        ->  a = 1 AND b = 1
//! a LEFT JOIN b ON a = b WHERE a = 1   reads only rows of b with b = 1
//! ```
//!
//! So each input of a join is found by the values that are known of any of them.

use super::access::column_of;
use super::expression::Expr;
use crate::types::Kind;

/// A column with a value that it equals, and the condition that says so.
struct Fixed {
    column: usize,
    value: Expr,
    condition: Expr,
}

/// Conditions in which each column equals the value that its equals have; equalities of columns
/// that have one value are left out.
pub(super) fn closed(mut conditions: Vec<Expr>) -> Vec<Expr> {
    let (fixed, given) = fixed_by(conditions.iter());
    if fixed.is_empty() {
        return conditions;
    }
    let value_of = |column| fixed.iter().find(|one| one.column == column);
    conditions.retain(|condition| {
        let values = pair(condition).map(|(one, other)| (value_of(one), value_of(other)));
        !matches!(values, Some((Some(one), Some(other))) if one.value.is_same(&other.value))
    });
    let new = fixed.into_iter().skip(given);
    conditions.extend(new.map(|one| one.condition));
    conditions
}

/// The conditions that follow.
pub(super) fn following<'e>(
    conditions: impl Iterator<Item = &'e Expr> + Clone,
) -> impl Iterator<Item = Expr> {
    let (fixed, given) = fixed_by(conditions);
    fixed.into_iter().skip(given).map(|one| one.condition)
}

/// The columns with values, first those whose conditions are given, and the number of these.
fn fixed_by<'e>(conditions: impl Iterator<Item = &'e Expr> + Clone) -> (Vec<Fixed>, usize) {
    let pairs: Vec<(usize, usize)> = conditions.clone().filter_map(pair).collect();
    let mut fixed: Vec<Fixed> = match pairs.is_empty() {
        true => Vec::new(),
        false => conditions.filter_map(value).collect(),
    };
    let given = fixed.len();
    let mut at = 0;
    while let Some(known) = fixed.get(at) {
        let own = known.column;
        let others = pairs.iter().filter_map(|&(one, other)| match own {
            _ if own == one => Some(other),
            _ if own == other => Some(one),
            _ => None,
        });
        let mut new: Vec<Fixed> = Vec::new();
        for column in others {
            let mut all = fixed.iter().chain(&new);
            if all.all(|one| one.column != column) {
                let mut condition = known.condition.clone();
                condition.renumber(&mut |at| if at == own { column } else { at });
                let value = known.value.clone();
                new.push(Fixed {
                    column,
                    value,
                    condition,
                });
            }
        }
        fixed.append(&mut new);
        at += 1;
    }
    (fixed, given)
}

/// The operands of an equality.
fn operands(condition: &Expr) -> Option<(&Expr, &Expr)> {
    match condition {
        Expr::Call(call) if call.is_equality() => match &call.arguments[..] {
            [one, other] => Some((one, other)),
            _ => None,
        },
        _ => None,
    }
}

/// The columns of one kind that an equality is of.
fn pair(condition: &Expr) -> Option<(usize, usize)> {
    let (one, other) = operands(condition)?;
    let columns = column_of(one).zip(column_of(other))?;
    let (kind, other) = (kind_of(one)?, kind_of(other)?);
    (kind == other && columns.0 != columns.1).then_some(columns)
}

/// The column of an equality with a value that reads no row.
fn value(condition: &Expr) -> Option<Fixed> {
    let (one, other) = operands(condition)?;
    let (column, value) = match (column_of(one), column_of(other)) {
        (Some(column), None) => (column, other),
        (None, Some(column)) => (column, one),
        _ => return None,
    };
    let is_fixed = !value.reads_row() && !Expr::has_volatile(value) && !Expr::has_query(value);
    is_fixed.then(|| Fixed {
        column,
        value: value.clone(),
        condition: condition.clone(),
    })
}

/// The kind of the column in an operand.
fn kind_of(operand: &Expr) -> Option<Kind> {
    match operand {
        Expr::Column(_, data_type) => Some(data_type.kind),
        Expr::Cast(operand, ..) => kind_of(operand),
        _ => None,
    }
}
