//! Shares of rows for which conditions are true, from the statistics of ANALYZE.
//!
//! Without statistics, and for values that are not known before the plan runs, a share is that of
//! the form of the condition: PostgreSQL's, which have done for decades, except that of patterns.
//! Conditions count as independent of each other, except both ends of a range of one column.

use super::access::{column_of, keys_of};
use super::expression::Expr;
use super::node::{ComputedIndex, Node, Source};
use crate::types::function::{Body, Volatility};
use crate::types::random::Random;
use crate::types::{CallContext, Context, Datum, Kind, NoHost, NoNames, Settings, cast, storage};
use indelible::{ColumnStatistics, TableStatistics, Value};
use std::ops::Deref;
use std::sync::Arc;

/// Shares of conditions about which nothing is known, by their forms.
const EQUAL: f64 = 0.005;
const COMPARED: f64 = 1.0 / 3.0;
const BETWEEN: f64 = 0.005;
const ALIKE: f64 = 0.05;
const OTHER: f64 = 1.0 / 4.0;
/// Elements of an array that is not known before the plan runs.
const ELEMENTS: f64 = 10.0;
/// Rows of a table whose number is not known.
const ROWS: f64 = 1000.0;
/// The least share of a condition: samples do not show what is rarer.
const LEAST: f64 = 1e-6;

/// The statistics of a column of a table.
pub(super) struct Known {
    table: Arc<TableStatistics>,
    column: usize,
}

impl Deref for Known {
    type Target = ColumnStatistics;

    fn deref(&self) -> &ColumnStatistics {
        &self.table.columns[self.column]
    }
}

/// The statistics of a column of a table.
fn statistics_of(source: &Source, column: usize) -> Option<Known> {
    let table = source.table.known_statistics()?;
    (column < table.columns.len()).then_some(Known { table, column })
}

/// The share of the rows that an index of a part has.
pub(super) fn share_of_index(source: &Source, computed: &ComputedIndex) -> f64 {
    let mut keys = computed.keys.iter().filter(|key| key.is_never_null);
    let known = keys
        .next()
        .and_then(|key| statistics_of(source, key.column));
    known.map_or_else(
        || share_of(&Expr::all(computed.part.clone()), source),
        |known| 1.0 - known.nulls,
    )
}

/// The number of a table's rows.
pub(super) fn rows_of(source: &Source) -> f64 {
    let count = source.table.row_count();
    count.map_or(ROWS, |count| count.rows as f64)
}

/// The share of the rows that have one value of a column, if all values are as frequent.
pub(super) fn share_of_value(source: &Source, column: usize) -> f64 {
    if let Some(known) = statistics_of(source, column) {
        return average(&known);
    }
    let rows = rows_of(source).max(1.0);
    // The columns of a key have so many values together as there are rows; nothing says how many
    // of them each one has.
    let of_key = |columns: &[usize]| rows.powf(-1.0 / columns.len() as f64);
    let mut most: Option<f64> = None;
    for (columns, is_unique) in keys_of(source) {
        match columns.as_slice() {
            [one] if *one == column && is_unique => return 1.0 / rows,
            columns if columns.len() > 1 && columns.contains(&column) => {
                most = Some(most.unwrap_or(0.0).max(of_key(columns)));
            }
            _ => {}
        }
    }
    match source.column_type(column).kind {
        Kind::Bool => 0.5,
        _ => most.unwrap_or(EQUAL.max(1.0 / rows)),
    }
}

/// About the number of elements of an array.
pub(super) fn elements_of(array: &Expr) -> f64 {
    match array {
        Expr::Array(elements, _) => elements.len() as f64,
        Expr::Constant(Datum::Array(array), _) => array.elements.len() as f64,
        _ => ELEMENTS,
    }
}

/// The statistics of a node's column, where it is one of a table.
pub(super) fn known_of(node: &Node, column: usize) -> Option<Known> {
    match node {
        Node::Scan(scan) => statistics_of(&scan.source, column),
        Node::Filter(plan) => known_of(&plan.input, column),
        Node::Sort(plan) => known_of(&plan.input, column),
        Node::Counted(plan) => known_of(&plan.input, column),
        Node::Project(plan) => match plan.expressions.get(column)? {
            Expr::Column(at, _) => known_of(&plan.input, *at),
            _ => None,
        },
        Node::Aggregate(plan) => match plan.keys.get(column)? {
            Expr::Column(at, _) => known_of(&plan.input, *at),
            _ => None,
        },
        Node::Join(join) => match column.checked_sub(join.left.width()) {
            Some(at) => known_of(&join.right, at),
            None => known_of(&join.left, column),
        },
        _ => None,
    }
}

/// The part of a column's values between two ends, each as the share of the rows below it.
struct Range {
    column: usize,
    low: f64,
    high: f64,
}

/// The share of a table's rows for which a condition is true.
pub(super) fn share_of(condition: &Expr, source: &Source) -> f64 {
    let parts = match condition {
        Expr::And(parts) => parts.as_slice(),
        other => std::slice::from_ref(other),
    };
    let (mut share, mut ranges, mut ends) = (1.0, Vec::<Range>::new(), Vec::new());
    for part in parts {
        match end_of_range(part, source) {
            None => {
                let end = compared(part);
                share *= match end {
                    // The other end of a range.
                    Some(end) if ends.contains(&end) => BETWEEN / COMPARED,
                    _ => share_of_part(part, source),
                };
                ends.extend(end);
            }
            Some(range) => match ranges.iter_mut().find(|one| one.column == range.column) {
                None => ranges.push(range),
                Some(one) => {
                    one.low = one.low.max(range.low);
                    one.high = one.high.min(range.high);
                }
            },
        }
    }
    let of_ranges = ranges.iter().map(|range| range.high - range.low);
    (share * of_ranges.map(|share| share.max(LEAST)).product::<f64>()).clamp(LEAST, 1.0)
}

fn share_of_part(part: &Expr, source: &Source) -> f64 {
    match part {
        Expr::And(_) => share_of(part, source),
        Expr::Or(parts) => {
            let none = parts.iter().map(|part| 1.0 - share_of(part, source));
            1.0 - none.product::<f64>()
        }
        Expr::Not(part) => 1.0 - share_of(part, source),
        Expr::IsNull(operand, is_negated) => match (&**operand, is_negated) {
            (Expr::Column(at, _), false) => share_of_null(source, *at),
            (Expr::Column(at, _), true) => 1.0 - share_of_null(source, *at),
            _ => OTHER,
        },
        Expr::Quantified(test) if !test.is_all => {
            let one = column_of(&test.left).map_or(EQUAL, |at| share_of_value(source, at));
            (one * elements_of(&test.array)).min(1.0)
        }
        Expr::Call(call) if call.is_operator => match call.function.name {
            "=" => equal(&call.arguments, source),
            "<>" => 1.0 - equal(&call.arguments, source),
            "<" | "<=" | ">" | ">=" => COMPARED,
            "~~" | "~~*" => ALIKE,
            "!~~" | "!~~*" => 1.0 - ALIKE,
            _ => OTHER,
        },
        _ => OTHER,
    }
}

/// The share of rows with NULL in a column.
pub(super) fn share_of_null(source: &Source, column: usize) -> f64 {
    statistics_of(source, column).map_or(OTHER, |column| column.nulls)
}

/// The share of one value of a column, if all are as frequent.
fn average(column: &ColumnStatistics) -> f64 {
    (1.0 - column.nulls) / column.distinct.max(1.0)
}

fn equal(arguments: &[Expr], source: &Source) -> f64 {
    let [one, other] = arguments else {
        return EQUAL;
    };
    let (at, value) = match (column_of(one), column_of(other)) {
        (Some(at), _) => (at, other),
        (_, Some(at)) => (at, one),
        _ => return EQUAL,
    };
    let known = statistics_of(source, at).zip(stored(value, source, at));
    let Some((column, value)) = known else {
        return share_of_value(source, at);
    };
    if let Some((_, share)) = column.common.iter().find(|(common, _)| *common == value) {
        return *share;
    }
    let rest = column.distinct - column.common.len() as f64;
    if rest < 1.0 {
        return LEAST;
    }
    rest_of(&column) / rest
}

/// The share of the rows whose values are not among the common ones.
fn rest_of(column: &ColumnStatistics) -> f64 {
    let common: f64 = column.common.iter().map(|(_, share)| share).sum();
    (1.0 - column.nulls - common).max(0.0)
}

/// The column of which a condition leaves the values on one side of another value.
fn compared(part: &Expr) -> Option<usize> {
    let Expr::Call(call) = part else {
        return None;
    };
    let ([one, other], true) = (&call.arguments[..], call.is_operator) else {
        return None;
    };
    let is_end = matches!(call.function.name, "<" | "<=" | ">" | ">=");
    column_of(one)
        .or_else(|| column_of(other))
        .filter(|_| is_end)
}

/// The part of a column that a comparison with a known value leaves.
fn end_of_range(part: &Expr, source: &Source) -> Option<Range> {
    let Expr::Call(call) = part else {
        return None;
    };
    let ([one, other], true) = (&call.arguments[..], call.is_operator) else {
        return None;
    };
    let (at, value, is_left) = match (column_of(one), column_of(other)) {
        (Some(at), _) => (at, other, true),
        (_, Some(at)) => (at, one, false),
        _ => return None,
    };
    let is_below = match call.function.name {
        "<" | "<=" => is_left,
        ">" | ">=" => !is_left,
        _ => return None,
    };
    let column = statistics_of(source, at)?;
    let value = stored(value, source, at)?;
    let common = column.common.iter().filter(|(common, _)| *common < value);
    let common: f64 = common.map(|(_, share)| share).sum();
    let bounds = column.bounds.len();
    let below = column.bounds.partition_point(|bound| *bound < value);
    let rest = rest_of(&column) * below as f64 / bounds.max(1) as f64;
    let below = (common + rest).min(1.0);
    let (low, high) = if is_below {
        (0.0, below)
    } else {
        (below, 1.0 - column.nulls)
    };
    Some(Range {
        column: at,
        low,
        high: high.max(low),
    })
}

/// The value of an expression in the form that a column stores, where both can be told.
fn stored(expression: &Expr, source: &Source, column: usize) -> Option<Value> {
    let data_type = source.column_type(column);
    let value = match (constant(expression)?, data_type.kind) {
        (Datum::Timestamp(micros), Kind::Date) => {
            Datum::Date(i32::try_from(micros.div_euclid(86_400_000_000)).ok()?)
        }
        (value, _) => value,
    };
    Some(storage::lend(&value, data_type).ok()??.to_value())
}

/// The value of an expression that is the same whatever the row and the session.
fn constant(expression: &Expr) -> Option<Datum> {
    let context = Context {
        settings: &Settings::default(),
        names: &NoNames,
        transaction_start: 0,
        statement_start: 0,
    };
    match expression {
        Expr::Constant(value, _) => Some(value.clone()),
        Expr::Cast(operand, target, how) => {
            let value = constant(operand)?;
            cast::cast(value, operand.kind(), *target, *how, &context).ok()
        }
        Expr::Call(call) if call.function.volatility == Volatility::Immutable => {
            let arguments: Vec<Datum> =
                call.arguments.iter().map(constant).collect::<Option<_>>()?;
            if arguments.iter().any(Datum::is_null) {
                return None;
            }
            let function = match call.function.body {
                Body::Scalar(function) => function,
                Body::Pair(function) => {
                    return function(arguments.first()?, arguments.get(1)?).ok();
                }
                _ => return None,
            };
            let mut context = CallContext {
                context,
                argument_types: &call.argument_types,
                result_type: call.data_type,
                random: &mut Random::default(),
                host: &mut NoHost,
            };
            function(&mut context, &arguments).ok()
        }
        _ => None,
    }
}
