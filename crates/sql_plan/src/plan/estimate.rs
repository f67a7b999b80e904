//! Estimates of numbers of rows, from the counts of tables and the forms of conditions.
//!
//! They only have to be right by a factor of ten: they choose between methods whose costs differ
//! by more.

use super::access;
use super::expression::Expr;
use super::node::{Access, Join, JoinKind, JoinMethod, Node, Scan};
use super::selectivity::{known_of, share_of};
use crate::types::Datum;

/// About the number of a node's rows.
pub(super) fn estimate(node: &Node) -> f64 {
    match node {
        Node::Scan(scan) => {
            let rows = scan
                .source
                .table
                .row_count()
                .map_or(1000.0, |count| count.rows as f64);
            let found = match &scan.access {
                Access::All { .. } => rows,
                Access::Range(_) if access::is_unique(scan) => 1.0,
                Access::Range(range) if range.prefix.is_empty() => rows / 4.0,
                Access::Range(range) => of_prefix(scan, range.index.as_deref(), rows),
                Access::Keys { keys, .. } => keys.len() as f64,
                Access::Elements { .. } => 10.0,
            };
            match &scan.condition {
                Some(condition) => (found * share_of(condition, &scan.source)).max(1.0),
                None => found,
            }
        }
        Node::System(system) if system.key.is_some() => 10.0,
        Node::Values(values) => values.rows.len() as f64,
        Node::Filter(filter) => (estimate(&filter.input) / 4.0).max(1.0),
        Node::Project(project) => estimate(&project.input),
        Node::Sort(sort) => estimate(&sort.input),
        Node::Distinct(distinct) => estimate(&distinct.input),
        Node::Window(window) => estimate(&window.input),
        Node::Lock(lock) => estimate(&lock.input),
        Node::Counted(counted) => estimate(&counted.input),
        Node::Aggregate(aggregate) if aggregate.keys.is_empty() => 1.0,
        Node::Aggregate(aggregate) => (estimate(&aggregate.input) / 10.0).max(1.0),
        Node::Limit(limit) => match &limit.count {
            Some(Expr::Constant(Datum::Int8(rows), _)) => *rows as f64,
            _ => estimate(&limit.input),
        },
        Node::Join(join) => of_join(join),
        Node::SetOperation(operation) => estimate(&operation.left) + estimate(&operation.right),
        Node::Shared(shared) => estimate(&shared.node),
        Node::Modify(modify) => estimate(&modify.input),
        Node::System(_) | Node::Functions(_) | Node::Recursive(_) | Node::Working(_) => 1000.0,
    }
}

/// Rows that have a value of the first column of an index.
fn of_prefix(scan: &Scan, index: Option<&str>, rows: f64) -> f64 {
    let definition = scan.source.table.definition();
    let first = match index {
        None => scan.source.key.first(),
        Some(name) => definition
            .index(name)
            .and_then(|index| index.columns.first()),
    };
    let whole = first.and_then(|&first| different(&scan.clone().into(), first));
    (rows / whole.unwrap_or(100.0)).max(1.0)
}

/// The number of different values that a node's column has, where it is one of a table.
pub(super) fn different(node: &Node, column: usize) -> Option<f64> {
    known_of(node, column).map(|known| known.distinct.max(1.0))
}

fn of_join(join: &Join) -> f64 {
    let (left, right) = (estimate(&join.left), estimate(&join.right));
    let JoinMethod::Hash {
        left: keys,
        right: others,
    } = &join.method
    else {
        return match join.kind {
            JoinKind::Semi | JoinKind::Anti => left,
            _ => left.max(right),
        };
    };
    // Each value of the side with more of them has its partners on the other.
    let mut pairs = left * right;
    let mut is_known = false;
    for (one, other) in keys.iter().zip(others) {
        let values = |node: &Node, key: &Expr, rows: f64| match key {
            Expr::Column(at, _) => different(node, *at).map(|values| values.min(rows)),
            _ => None,
        };
        let one = values(&join.left, one, left);
        let other = values(&join.right, other, right);
        if let Some(most) = one.into_iter().chain(other).reduce(f64::max) {
            pairs /= most;
            is_known = true;
        }
    }
    match join.kind {
        JoinKind::Semi => left.min(if is_known { pairs } else { left }).max(1.0),
        JoinKind::Anti => left,
        _ if !is_known => left.max(right),
        JoinKind::Inner => pairs.max(1.0),
        JoinKind::Left => pairs.max(left),
        JoinKind::Right => pairs.max(right),
        JoinKind::Full => pairs.max(left + right),
    }
}
