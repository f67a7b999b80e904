//! The value of an expression for a row.
//!
//! NULL is unknown in the three-valued logic: `AND` and `OR` look at all of their parts before they
//! give it. Functions that are strict are not called with NULL.

use super::{Row, Run, subquery};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Call, Expr, Let};
use crate::state::HostCall;
use crate::types::array::{Array, Dimension};
use crate::types::cast;
use crate::types::function::Body;
use crate::types::{CallContext, Context, Datum, Kind, Record, Type};
use std::sync::Arc;

/// The value of an expression for a row.
pub(crate) fn evaluate(expression: &Expr, row: &[Datum], run: &mut Run<'_>) -> Result<Datum> {
    match expression {
        Expr::Constant(value, _) => Ok(value.clone()),
        Expr::Column(at, _) => row.get(*at).cloned().ok_or_else(|| missing("column", *at)),
        Expr::Outer(level, at, _) => outer(*level, *at, run),
        Expr::Parameter(number, _) => {
            let value = run.state.parameters.get(*number).cloned();
            value.ok_or_else(|| missing("parameter", *number))
        }
        Expr::Call(call) => call_function(call, row, run),
        Expr::Cast(operand, target, how) => {
            let value = evaluate(operand, row, run)?;
            cast::cast(
                value,
                operand.kind(),
                *target,
                *how,
                &run.environment.context(),
            )
        }
        Expr::And(parts) => junction(parts, false, row, run),
        Expr::Or(parts) => junction(parts, true, row, run),
        Expr::Not(operand) => Ok(match evaluate(operand, row, run)? {
            Datum::Bool(value) => Datum::Bool(!value),
            _ => Datum::Null,
        }),
        Expr::IsNull(operand, negated) => {
            let value = evaluate(operand, row, run)?;
            Ok(Datum::Bool(is_null(&value, *negated)))
        }
        Expr::IsTruth(operand, wanted, negated) => {
            let value = match evaluate(operand, row, run)? {
                Datum::Bool(value) => Some(value),
                _ => None,
            };
            Ok(Datum::Bool((value == *wanted) != *negated))
        }
        Expr::IsDistinct(pair, negated) => {
            let (one, other) = (evaluate(&pair.0, row, run)?, evaluate(&pair.1, row, run)?);
            Ok(Datum::Bool((one != other) != *negated))
        }
        Expr::Case(branches, otherwise) => {
            for (condition, result) in branches {
                if is_true(condition, row, run)? {
                    return evaluate(result, row, run);
                }
            }
            evaluate(otherwise, row, run)
        }
        Expr::Coalesce(parts) => first_not_null(parts, row, run),
        Expr::Extreme(parts, greatest) => extreme(parts, *greatest, row, run),
        Expr::Quantified(test) => super::quantified::evaluate_test(test, row, run),
        Expr::Array(elements, data_type) => array(elements, *data_type, row, run),
        Expr::Row(fields, shape) => Ok(Datum::Record(Arc::new(Record {
            shape: Arc::clone(shape),
            fields: all(fields, row, run)?,
        }))),
        Expr::Field(operand, at, _) => Ok(match evaluate(operand, row, run)? {
            Datum::Record(record) => record.fields.get(*at).cloned().unwrap_or(Datum::Null),
            _ => Datum::Null,
        }),
        Expr::Subquery(subquery) => subquery::value(subquery, row, run),
        Expr::Let(one) => after_value(one, row, run),
        Expr::LetValue(number, _) => {
            let value = run.state.values.get(number).cloned();
            value.ok_or_else(|| missing("value", *number))
        }
        Expr::Pending(..) => Err(missing("aggregate", 0)),
    }
}

/// Whether a condition is true for a row; unknown is not.
pub(crate) fn is_true(condition: &Expr, row: &[Datum], run: &mut Run<'_>) -> Result<bool> {
    Ok(matches!(evaluate(condition, row, run)?, Datum::Bool(true)))
}

/// An expression, after the value that it reads.
fn after_value(one: &Let, row: &[Datum], run: &mut Run<'_>) -> Result<Datum> {
    let value = evaluate(&one.value, row, run)?;
    run.state.values.insert(one.number, value);
    evaluate(&one.body, row, run)
}

/// The values of several expressions.
pub(super) fn all(expressions: &[Expr], row: &[Datum], run: &mut Run<'_>) -> Result<Row> {
    let values = expressions
        .iter()
        .map(|expression| evaluate(expression, row, run));
    values.collect()
}

#[cold]
fn missing(kind: &str, number: usize) -> SqlError {
    SqlError::internal(format!("the plan has no {kind} {number}"))
}

fn outer(level: usize, at: usize, run: &Run<'_>) -> Result<Datum> {
    let rows = &run.state.outer;
    let row = rows
        .len()
        .checked_sub(level)
        .and_then(|depth| rows.get(depth));
    let value = row.and_then(|row| row.get(at)).cloned();
    value.ok_or_else(|| missing("outer column", at))
}

/// `AND` and `OR`: one part that decides, else unknown if a part is.
fn junction(parts: &[Expr], deciding: bool, row: &[Datum], run: &mut Run<'_>) -> Result<Datum> {
    let mut unknown = false;
    for part in parts {
        match evaluate(part, row, run)? {
            Datum::Bool(value) if value == deciding => return Ok(Datum::Bool(deciding)),
            Datum::Bool(_) => {}
            _ => unknown = true,
        }
    }
    Ok(if unknown {
        Datum::Null
    } else {
        Datum::Bool(!deciding)
    })
}

/// `IS NULL` is true for a row of NULLs, `IS NOT NULL` for one without any.
fn is_null(value: &Datum, negated: bool) -> bool {
    match value {
        Datum::Record(record) => record.fields.iter().all(|field| field.is_null() != negated),
        value => value.is_null() != negated,
    }
}

fn first_not_null(parts: &[Expr], row: &[Datum], run: &mut Run<'_>) -> Result<Datum> {
    for part in parts {
        let value = evaluate(part, row, run)?;
        if !value.is_null() {
            return Ok(value);
        }
    }
    Ok(Datum::Null)
}

/// The greatest or least value that is not NULL.
fn extreme(parts: &[Expr], greatest: bool, row: &[Datum], run: &mut Run<'_>) -> Result<Datum> {
    let mut best = Datum::Null;
    for part in parts {
        let value = evaluate(part, row, run)?;
        if value.is_null() {
            continue;
        }
        if best.is_null() || (value > best) == greatest && value != best {
            best = value;
        }
    }
    Ok(best)
}

/// An array of elements, or of arrays of one shape, which make another dimension.
fn array(elements: &[Expr], data_type: Type, row: &[Datum], run: &mut Run<'_>) -> Result<Datum> {
    let values = all(elements, row, run)?;
    let element = data_type.kind.element().unwrap_or(Kind::Text);
    let is_nested = elements
        .first()
        .is_some_and(|first| first.data_type().kind.is_array());
    if !is_nested {
        return Ok(Datum::Array(Arc::new(Array::new(element, values))));
    }
    nest(element, &values)
}

/// An array of arrays, which must have one shape.
fn nest(element: Kind, values: &[Datum]) -> Result<Datum> {
    let mut shape: Option<Vec<Dimension>> = None;
    let mut elements = Vec::new();
    for value in values {
        let dimensions = match value {
            Datum::Array(array) => {
                elements.extend(array.elements.iter().cloned());
                array.dimensions.clone()
            }
            _ => Vec::new(),
        };
        if shape.get_or_insert_with(|| dimensions.clone()) != &dimensions {
            let message =
                "multidimensional arrays must have array expressions with matching dimensions";
            return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
        }
    }
    let inner = shape.unwrap_or_default();
    let nested = Array::nested(element, (values.len(), &inner), elements)?;
    Ok(Datum::Array(Arc::new(nested)))
}

/// The arguments of a call; none if it is strict and one of them is NULL.
pub(super) fn arguments_of(call: &Call, row: &[Datum], run: &mut Run<'_>) -> Result<Option<Row>> {
    let mut arguments = Vec::with_capacity(call.arguments.len());
    for argument in &call.arguments {
        let value = evaluate(argument, row, run)?;
        if value.is_null() && call.function.is_strict {
            return Ok(None);
        }
        arguments.push(value);
    }
    Ok(Some(arguments))
}

/// The value of an expression: where it stands, or in a place that the caller lends.
pub(super) fn operand<'v>(
    expression: &'v Expr,
    row: &'v [Datum],
    place: &'v mut Datum,
    run: &mut Run<'_>,
) -> Result<&'v Datum> {
    match expression {
        Expr::Constant(value, _) => Ok(value),
        Expr::Column(at, _) => row.get(*at).ok_or_else(|| missing("column", *at)),
        _ => {
            *place = evaluate(expression, row, run)?;
            Ok(place)
        }
    }
}

/// The result of a strict function of two values.
fn with_operands(
    one: &Expr,
    other: &Expr,
    row: &[Datum],
    run: &mut Run<'_>,
    function: impl FnOnce(&Datum, &Datum) -> Result<Datum>,
) -> Result<Datum> {
    let (mut one_place, mut other_place) = (Datum::Null, Datum::Null);
    let one = operand(one, row, &mut one_place, run)?;
    if one.is_null() {
        return Ok(Datum::Null);
    }
    match operand(other, row, &mut other_place, run)? {
        Datum::Null => Ok(Datum::Null),
        other => function(one, other),
    }
}

/// Most arguments that are kept on the stack.
const ARGUMENTS_MAX: usize = 4;

fn call_function(call: &Call, row: &[Datum], run: &mut Run<'_>) -> Result<Datum> {
    if let [one, other] = &call.arguments[..] {
        match call.function.body {
            Body::Comparison(holds) => {
                let compare =
                    |one: &Datum, other: &Datum| Ok(Datum::Bool(holds(one.compare(other))));
                return with_operands(one, other, row, run, compare);
            }
            Body::Pair(function) => return with_operands(one, other, row, run, function),
            _ => {}
        }
    }
    if call.arguments.len() > ARGUMENTS_MAX {
        return match arguments_of(call, row, run)? {
            Some(arguments) => call_with(call, &arguments, run),
            None => Ok(Datum::Null),
        };
    }
    let mut arguments = [const { Datum::Null }; ARGUMENTS_MAX];
    for (place, argument) in arguments.iter_mut().zip(&call.arguments) {
        *place = evaluate(argument, row, run)?;
        if place.is_null() && call.function.is_strict {
            return Ok(Datum::Null);
        }
    }
    call_with(call, &arguments[..call.arguments.len()], run)
}

fn call_with(call: &Call, arguments: &[Datum], run: &mut Run<'_>) -> Result<Datum> {
    let body = call.function.body;
    with_call_context(call, run, |context| match body {
        Body::Scalar(function) => function(context, arguments),
        Body::Host(name) => context.host.call(&context.context, name, arguments),
        _ => Err(SqlError::internal(format!(
            "function {} gives no value",
            call.function.name
        ))),
    })
}

/// Calls `body` with the surroundings of a call.
pub(super) fn with_call_context<R>(
    call: &Call,
    run: &mut Run<'_>,
    body: impl FnOnce(&mut CallContext<'_>) -> R,
) -> R {
    with_types(&call.argument_types, call.data_type, run, body)
}

/// Calls `body` with the surroundings of a call with these types.
pub(super) fn with_types<R>(
    argument_types: &[Type],
    result_type: Type,
    run: &mut Run<'_>,
    body: impl FnOnce(&mut CallContext<'_>) -> R,
) -> R {
    let environment = &mut *run.environment;
    let mut host = HostCall {
        connection: &mut *run.connection,
        session: &mut environment.host,
        names: &environment.names,
    };
    body(&mut CallContext {
        context: Context {
            settings: &environment.settings,
            names: &environment.names,
            transaction_start: environment.transaction_start,
            statement_start: environment.statement_start,
        },
        argument_types,
        result_type,
        random: &mut environment.random,
        host: &mut host,
    })
}
