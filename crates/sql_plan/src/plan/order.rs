//! Orders that an index has: a sort over such rows is left out, and `min` and `max` read one row.
//!
//! The keys of an index are in the order of its values where they hold these exactly and no row
//! that is wanted has NULL there. An index beside the primary key finds its rows one by one, so it
//! gives an order only to a statement that wants few of them and tests no more conditions, or that
//! looks up a range of it anyway.

use super::access::{columns_of, is_ordered};
use super::computed::{computed, is_never_null, seen, seen_by};
use super::estimate::LOOK_UP;
use super::expression::Expr;
use super::node::{
    Access, Aggregate, JoinKind, JoinMethod, KeyRange, Limit, Node, Scan, SortKey, Source,
};
use super::selectivity::rows_of;
use crate::types::{Datum, Kind};
use std::sync::Arc;

/// Rows of a table for which either way will do.
const SMALL: f64 = 1000.0;

/// Lets indexes give orders, in all parts of a plan.
pub(super) fn use_orders(node: &mut Node) {
    if let Node::Sort(sort) = node {
        let sort = Arc::make_mut(sort);
        let wanted = sort.wanted.as_ref().map(|wanted| match wanted {
            Expr::Constant(Datum::Int8(rows), _) => *rows as f64,
            // Few, as nobody asks for all of them like that.
            _ => 1.0,
        });
        if give_order(&mut sort.input, &sort.keys, wanted) {
            *node = std::mem::replace(&mut sort.input, Node::nothing());
        }
    } else if let Node::Aggregate(aggregate) = node {
        read_end(Arc::make_mut(aggregate));
    }
    let visited = node.inputs(&mut |input, _| {
        use_orders(input);
        Ok(())
    });
    debug_assert!(visited.is_ok(), "the visitor does not fail");
}

/// `min` or `max` of all rows is that of the first one in the order.
fn read_end(aggregate: &mut Aggregate) {
    let [call] = aggregate.calls.as_slice() else {
        return;
    };
    let descends = match call.function.function.name {
        "min" => false,
        "max" => true,
        _ => return,
    };
    let [argument] = call.arguments.as_slice() else {
        return;
    };
    if !aggregate.keys.is_empty() || call.filter.is_some() || is_read_once(&aggregate.input) {
        return;
    }
    let key = SortKey {
        expression: argument.clone(),
        descends,
        nulls_first: descends,
    };
    if give_order(&mut aggregate.input, &[key], Some(1.0)) {
        let input = std::mem::replace(&mut aggregate.input, Node::nothing());
        let one = Expr::Constant(Datum::Int8(1), Kind::Int8.plain());
        aggregate.input = Limit {
            input,
            count: Some(one),
            offset: None,
            ties: None,
        }
        .into();
    }
}

/// Whether a scan finds one row at most.
fn is_read_once(node: &Node) -> bool {
    matches!(node, Node::Scan(scan) if super::access::is_unique(scan))
}

/// Makes a node give its rows in an order, so many of them if not all are wanted; false, and
/// nothing has changed, if it cannot.
fn give_order(node: &mut Node, keys: &[SortKey], wanted: Option<f64>) -> bool {
    match node {
        Node::Scan(scan) => match ordered(scan, keys, wanted) {
            Some(access) => {
                Arc::make_mut(scan).access = access;
                true
            }
            None => false,
        },
        Node::Filter(plan) => give_order(&mut Arc::make_mut(plan).input, keys, wanted),
        Node::Project(plan) if !plan.has_sets => {
            let below = keys.iter().map(|key| match &key.expression {
                Expr::Column(at, _) => plan.expressions.get(*at).map(|expression| SortKey {
                    expression: expression.clone(),
                    ..key.clone()
                }),
                _ => None,
            });
            let below: Option<Vec<SortKey>> = below.collect();
            below.is_some_and(|keys| give_order(&mut Arc::make_mut(plan).input, &keys, wanted))
        }
        Node::Join(join) => {
            // Look-ups read the left rows one after the other; a table of hashes that is too large
            // puts them into files.
            let keeps_order = !matches!(join.kind, JoinKind::Right | JoinKind::Full);
            let width = join.left.width();
            let is_left = |key: &SortKey| key.expression.columns_are_below(width);
            let is_one_pass = matches!(join.method, JoinMethod::Lateral);
            let is_fit = keeps_order && is_one_pass && keys.iter().all(is_left);
            is_fit && give_order(&mut Arc::make_mut(join).left, keys, wanted)
        }
        _ => false,
    }
}

/// The way to the rows of a scan that has the order.
fn ordered(scan: &Scan, keys: &[SortKey], wanted: Option<f64>) -> Option<Access> {
    let source = &scan.source;
    let backward = keys.first()?.descends;
    if keys.iter().any(|key| key.descends != backward) {
        return None;
    }
    let conditions = scan
        .condition
        .clone()
        .map_or_else(Vec::new, Expr::conjuncts);
    match &scan.access {
        Access::All { .. } if has_order(source, (None, 0), keys, &conditions) => {
            Some(Access::All { backward })
        }
        Access::All { .. } if wanted.is_some_and(|rows| is_few(rows, source)) => {
            let mut indexes = source.table.definition().indexes.into_iter();
            let is_fit = |name: &str| {
                gives_all(source, name, &conditions)
                    && has_order(source, (Some(name), 0), keys, &conditions)
            };
            let index = indexes.find(|index| is_fit(&index.name))?.name;
            Some(Access::Range(KeyRange {
                prefix: Vec::new(),
                low: None,
                high: None,
                skips_null: computed(source, Some(&index)).is_some_and(|one| !one.part.is_empty()),
                index: Some(index),
                backward,
            }))
        }
        Access::Range(range) => {
            let index = (range.index.as_deref(), range.prefix.len());
            has_order(source, index, keys, &conditions).then(|| {
                Access::Range(KeyRange {
                    backward,
                    ..range.clone()
                })
            })
        }
        _ => None,
    }
}

/// Whether looking up so many rows costs less than reading all of a table.
fn is_few(rows: f64, source: &Source) -> bool {
    rows * LOOK_UP <= rows_of(source).max(SMALL)
}

/// Whether the rows that an index has are those for which conditions are true.
fn gives_all(source: &Source, index: &str, conditions: &[Expr]) -> bool {
    let computed = computed(source, Some(index));
    let ensures = |condition| computed.is_some_and(|one| one.ensures(condition));
    conditions.iter().all(ensures) && seen(source, Some(index), conditions).is_some()
}

/// Whether the columns of an index after some of them are the keys of an order, and have values
/// whose order is that of the index.
fn has_order(
    source: &Source,
    (index, skipped): (Option<&str>, usize),
    keys: &[SortKey],
    conditions: &[Expr],
) -> bool {
    let columns = columns_of(source, index);
    let columns = columns.get(skipped..).unwrap_or_default();
    let is_exact = |column: usize| {
        let kind = source.column_type(column).kind;
        let is_text = matches!(kind, Kind::Text | Kind::Varchar | Kind::Bpchar | Kind::Name);
        is_ordered(source.column_type(column))
            && !is_text
            && is_never_null(source, (index, column), conditions)
    };
    let is_key = |(key, column): (&SortKey, &usize)| {
        let seen = seen_by(source, index, &key.expression);
        matches!(&*seen, Expr::Column(at, _) if at == column) && is_exact(*column)
    };
    keys.len() <= columns.len() && keys.iter().zip(columns).all(is_key)
}
