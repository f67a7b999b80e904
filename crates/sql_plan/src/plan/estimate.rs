//! Estimates of numbers of rows, from the counts of tables and the forms of conditions.
//!
//! They only have to be right by a factor of ten: they choose between methods whose costs differ
//! by more.

use super::access;
use super::expression::Expr;
use super::node::{Access, Node};
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
                Access::Range(_) => (rows / 100.0).max(1.0),
                Access::Keys { keys, .. } => keys.len() as f64,
                Access::Elements { .. } => 10.0,
            };
            if scan.condition.is_some() {
                (found / 4.0).max(1.0)
            } else {
                found
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
        Node::Join(join) => estimate(&join.left).max(estimate(&join.right)),
        Node::SetOperation(operation) => estimate(&operation.left) + estimate(&operation.right),
        Node::Shared(shared) => estimate(&shared.node),
        Node::Modify(modify) => estimate(&modify.input),
        Node::System(_) | Node::Functions(_) | Node::Recursive(_) | Node::Working(_) => 1000.0,
    }
}
