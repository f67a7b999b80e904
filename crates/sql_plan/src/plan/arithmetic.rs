//! Expressions over whole columns: arithmetic of numbers, where nothing can go wrong.
//!
//! A result that would be an error, a NULL or an expression of any other form gives no column. The
//! batch is computed row by row then, so each error is the one that a row has, in the order of the
//! rows.

use super::expression::{Call, Expr};
use crate::types::{Datum, Kind};
use sql_rows::{ColumnValues, Columns};
use std::borrow::Cow;

/// The column of an expression, if all of its values can be computed at once.
pub fn column_of_rows(
    expression: &Expr,
    input: &Columns,
    parameters: &[Datum],
) -> Option<ColumnValues> {
    let rows = input.len();
    match (operand(expression, input, parameters)?, expression.kind()) {
        (Operand::Column(column), _) => Some(column.into_owned()),
        (Operand::Whole(value), Kind::Int8) => Some(ColumnValues::Int8(vec![value; rows])),
        (Operand::Whole(value), Kind::Int4) => {
            let value = i32::try_from(value).ok()?;
            Some(ColumnValues::Int4(vec![value; rows]))
        }
        (Operand::Real(value), Kind::Float8) => Some(ColumnValues::Float8(vec![value; rows])),
        _ => None,
    }
}

/// Values of an expression: one for each row, or the same for all.
enum Operand<'c> {
    Column(Cow<'c, ColumnValues>),
    Whole(i64),
    Real(f64),
}

impl<'c> Operand<'c> {
    fn of_value(value: &Datum) -> Option<Self> {
        Some(match value {
            Datum::Int2(value) => Self::Whole((*value).into()),
            Datum::Int4(value) => Self::Whole((*value).into()),
            Datum::Int8(value) => Self::Whole(*value),
            Datum::Float8(value) => Self::Real(*value),
            _ => return None,
        })
    }

    fn of_column(column: ColumnValues) -> Self {
        Self::Column(Cow::Owned(column))
    }

    /// Integers for so many rows.
    fn whole(&self, rows: usize) -> Option<Cow<'_, [i64]>> {
        Some(match self {
            Self::Whole(value) => Cow::Owned(vec![*value; rows]),
            Self::Column(column) => match &**column {
                ColumnValues::Int8(values) => Cow::Borrowed(values),
                ColumnValues::Int4(values) => {
                    Cow::Owned(values.iter().map(|value| i64::from(*value)).collect())
                }
                _ => return None,
            },
            Self::Real(_) => return None,
        })
    }

    /// Floating point numbers for so many rows.
    fn real(&self, rows: usize) -> Option<Cow<'_, [f64]>> {
        Some(match self {
            Self::Real(value) => Cow::Owned(vec![*value; rows]),
            Self::Column(column) => match &**column {
                ColumnValues::Float8(values) => Cow::Borrowed(values),
                _ => return None,
            },
            Self::Whole(_) => return None,
        })
    }

    /// The values as those of another kind, where each of them is one.
    fn cast(self, rows: usize, to: Kind) -> Option<Operand<'c>> {
        let is_same = match (&self, to) {
            (Self::Column(column), _) => matches!(
                (&**column, to),
                (ColumnValues::Int4(_), Kind::Int4)
                    | (ColumnValues::Int8(_), Kind::Int8)
                    | (ColumnValues::Float8(_), Kind::Float8)
            ),
            (Self::Whole(_), Kind::Int8) | (Self::Real(_), Kind::Float8) => true,
            _ => false,
        };
        if is_same {
            return Some(self);
        }
        match (&self, to) {
            (Self::Whole(value), Kind::Float8) => Some(Self::Real(*value as f64)),
            (_, Kind::Float8) => {
                let values = self.whole(rows)?;
                let values = values.iter().map(|value| *value as f64).collect();
                Some(Self::of_column(ColumnValues::Float8(values)))
            }
            (Self::Column(_), Kind::Int8) => {
                let values = self.whole(rows)?.into_owned();
                Some(Self::of_column(ColumnValues::Int8(values)))
            }
            _ => None,
        }
    }
}

fn operand<'c>(expression: &Expr, input: &'c Columns, parameters: &[Datum]) -> Option<Operand<'c>> {
    match expression {
        Expr::Column(at, _) => {
            let column = input.columns().get(*at)?;
            Some(Operand::Column(Cow::Borrowed(column)))
        }
        Expr::Constant(value, _) => Operand::of_value(value),
        Expr::Parameter(number, _) => Operand::of_value(parameters.get(*number)?),
        Expr::Cast(inner, to, _) => operand(inner, input, parameters)?.cast(input.len(), to.kind),
        Expr::Call(call) if call.is_operator => {
            let [left, right] = &call.arguments[..] else {
                return None;
            };
            let left = operand(left, input, parameters)?;
            let right = operand(right, input, parameters)?;
            calculated(call, (&left, &right), input.len()).map(Operand::of_column)
        }
        _ => None,
    }
}

/// The results of an operator.
fn calculated(
    call: &Call,
    (left, right): (&Operand<'_>, &Operand<'_>),
    rows: usize,
) -> Option<ColumnValues> {
    let name = call.function.name;
    match (call.function.arguments, call.data_type.kind) {
        ([Kind::Float8, Kind::Float8], Kind::Float8) => {
            let pair = (&*left.real(rows)?, &*right.real(rows)?);
            let values = match name {
                "+" => real(pair, |x, y| x + y, |_, _| false),
                "-" => real(pair, |x, y| x - y, |_, _| false),
                "*" => real(pair, |x, y| x * y, |x, y| x != 0.0 && y != 0.0),
                _ => None,
            };
            values.map(ColumnValues::Float8)
        }
        ([Kind::Int2 | Kind::Int4 | Kind::Int8, _], kind @ (Kind::Int4 | Kind::Int8)) => {
            let pair = (&*left.whole(rows)?, &*right.whole(rows)?);
            let values = match name {
                "+" => whole(pair, i64::overflowing_add),
                "-" => whole(pair, i64::overflowing_sub),
                "*" => whole(pair, i64::overflowing_mul),
                _ => None,
            }?;
            if kind == Kind::Int8 {
                return Some(ColumnValues::Int8(values));
            }
            let values = values.into_iter().map(|value| i32::try_from(value).ok());
            values.collect::<Option<_>>().map(ColumnValues::Int4)
        }
        _ => None,
    }
}

/// The results of an operation of integers, if none of them overflows.
fn whole(
    (left, right): (&[i64], &[i64]),
    operation: impl Fn(i64, i64) -> (i64, bool),
) -> Option<Vec<i64>> {
    let mut overflows = false;
    let pairs = left.iter().zip(right);
    let values = pairs.map(|(x, y)| {
        let (value, is_over) = operation(*x, *y);
        overflows |= is_over;
        value
    });
    let values = values.collect();
    (!overflows).then_some(values)
}

/// The results of an operation of floating point numbers, if all are finite and none has vanished.
fn real(
    (left, right): (&[f64], &[f64]),
    operation: impl Fn(f64, f64) -> f64,
    may_vanish: impl Fn(f64, f64) -> bool,
) -> Option<Vec<f64>> {
    let mut fails = false;
    let pairs = left.iter().zip(right);
    let values = pairs.map(|(x, y)| {
        let value = operation(*x, *y);
        fails |= !value.is_finite() | (value == 0.0 && may_vanish(*x, *y));
        value
    });
    let values = values.collect();
    (!fails).then_some(values)
}
