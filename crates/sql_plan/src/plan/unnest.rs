//! Tests of queries become joins: `EXISTS` and `IN` are semi-joins, `NOT EXISTS` is an anti-join.
//!
//! Conditions of the inner query that read the row around it become those of the join, so its
//! rows can be kept in a table of hashes. If these are few, they look the outer rows up by their
//! index instead, each of their keys once.

use super::estimate::{GAIN, cost_of, estimate};
use super::expression::{Expr, Subquery, SubqueryTest};
use super::improve::{keep, push};
use super::join_order::types_of;
use super::method::{equality, with_method};
use super::node::{Distinct, Filter, Join, JoinKind, JoinMethod, Limit, Node, Project};
use super::side::{Side, side};
use crate::types::Datum;
use std::sync::Arc;

/// A semi- or anti-join in the place of `EXISTS`, `IN` or their opposites; or the condition back.
pub(super) fn unnest(node: Node, condition: Expr) -> (Node, Option<Expr>) {
    let (kind, subquery) = match &condition {
        Expr::Subquery(subquery) => (JoinKind::Semi, Arc::clone(subquery)),
        Expr::Not(inner) => match &**inner {
            Expr::Subquery(subquery) => (JoinKind::Anti, Arc::clone(subquery)),
            _ => return (node, Some(condition)),
        },
        _ => return (node, Some(condition)),
    };
    let width = node.width();
    let inner = match &subquery.test {
        SubqueryTest::Exists => tested_rows(&subquery).and_then(|inner| exists(inner, width)),
        // NOT IN is unknown where a value is NULL, which no anti-join says.
        SubqueryTest::Any(_) if kind == JoinKind::Semi => any(&subquery, width),
        _ => None,
    };
    let Some((right, join_condition)) = inner else {
        return (node, Some(condition));
    };
    let join = Join {
        kind,
        left: node,
        right: push(right, Vec::new()),
        condition: Some(join_condition),
        method: JoinMethod::Loop,
    };
    let by_keys = keys_first(&join);
    let joined = with_method(join, push);
    let cheaper = by_keys.filter(|(_, cost)| cost * GAIN < cost_of_left(&joined));
    (cheaper.map_or(joined, |(node, _)| node), None)
}

/// A semi-join with the different keys of the right rows on its left, each of which looks up rows
/// by an index, and its cost; none without such an index.
fn keys_first(join: &Join) -> Option<(Node, f64)> {
    if join.kind != JoinKind::Semi || !matches!(join.left, Node::Scan(_)) {
        return None;
    }
    let types = types_of(&join.left)?;
    let conditions = join.condition.clone()?.conjuncts();
    let (width, count) = (types.len(), conditions.len());
    let (mut keys, mut equalities) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for condition in conditions {
        let (_, key) = equality(&condition, width)?;
        let Expr::Call(mut call) = condition else {
            return None;
        };
        for operand in &mut call.arguments {
            match side(operand, width) {
                Side::Left => operand.shift(0, count as isize),
                _ => *operand = Expr::Column(keys.len(), key.data_type()),
            }
        }
        keys.push(key);
        equalities.push(Expr::Call(call));
    }
    let input = Project {
        input: join.right.clone(),
        expressions: keys,
        has_sets: false,
    };
    let left = Distinct {
        input: input.into(),
        on: None,
    };
    let looked_up = with_method(
        Join {
            kind: JoinKind::Inner,
            left: left.into(),
            right: join.left.clone(),
            condition: Some(Expr::all(equalities)),
            method: JoinMethod::Loop,
        },
        push,
    );
    let Node::Join(found) = &looked_up else {
        return None;
    };
    if !matches!(found.method, JoinMethod::Lateral) {
        return None;
    }
    let cost = cost_of(&looked_up);
    let columns = types.into_iter().enumerate();
    let project = Project {
        input: looked_up,
        expressions: columns
            .map(|(at, data_type)| Expr::Column(count + at, data_type))
            .collect(),
        has_sets: false,
    };
    Some((project.into(), cost))
}

/// About the cost of a semi-join, in rows that are looked at. A table of hashes does not count, as
/// further runs of the join find it there.
fn cost_of_left(joined: &Node) -> f64 {
    match joined {
        Node::Join(join) if !matches!(join.method, JoinMethod::Lateral) => {
            cost_of(&join.left) + estimate(&join.left)
        }
        other => cost_of(other),
    }
}

/// The rows that `EXISTS` asks for, with their conditions.
fn tested_rows(subquery: &Subquery) -> Option<Filter> {
    let mut node = subquery.node.clone();
    loop {
        node = match node {
            // The values that are selected do not matter, as long as there is a row for each one.
            Node::Project(project) if !project.has_sets => Arc::unwrap_or_clone(project).input,
            Node::Sort(sort) => Arc::unwrap_or_clone(sort).input,
            Node::Distinct(distinct) => Arc::unwrap_or_clone(distinct).input,
            Node::Limit(limit) if keeps_a_row(&limit) => Arc::unwrap_or_clone(limit).input,
            // Each row is in a group.
            Node::Aggregate(aggregate)
                if !aggregate.keys.is_empty() && aggregate.calls.is_empty() =>
            {
                Arc::unwrap_or_clone(aggregate).input
            }
            Node::Filter(filter) => return Some(Arc::unwrap_or_clone(filter)),
            _ => return None,
        }
    }
}

/// The rows of `EXISTS` without the conditions that read the row, and those conditions over both.
fn exists(filter: Filter, width: usize) -> Option<(Node, Expr)> {
    let Filter { input, condition } = filter;
    let (up, stay): (Vec<Expr>, Vec<Expr>) = condition
        .conjuncts()
        .into_iter()
        .partition(|one| reads_level(one, 1));
    if up.is_empty() || up.iter().any(Expr::has_query) {
        return None;
    }
    let inner = freed(keep(input, stay))?;
    let up = up.into_iter().map(|condition| lifted(condition, width));
    Some((inner, Expr::all(up.collect())))
}

/// Whether a limit leaves a row for certain, if there is one.
fn keeps_a_row(limit: &Limit) -> bool {
    let keeps = match &limit.count {
        None => true,
        Some(Expr::Constant(Datum::Int8(rows), _)) => *rows > 0,
        Some(Expr::Constant(Datum::Null, _)) => limit.ties.is_none(),
        Some(_) => false,
    };
    keeps && limit.offset.is_none()
}

/// A part of a query as a part of the query around it; none if it reads the row there.
pub(super) fn freed(mut node: Node) -> Option<Node> {
    let mut is_free = true;
    let walked = node.walk(1, &mut |part, depth| {
        match part {
            Expr::Outer(level, ..) if *level == depth => is_free = false,
            Expr::Outer(level, ..) if *level > depth => *level -= 1,
            _ => {}
        }
        Ok(is_free)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
    is_free.then_some(node)
}

/// Whether an expression reads the outer row of a level.
pub(super) fn reads_level(expression: &Expr, wanted: usize) -> bool {
    expression.any(|part, depth| matches!(part, Expr::Outer(level, ..) if *level == depth + wanted))
}

/// A condition of an inner query over the row around it, followed by its own.
pub(super) fn lifted(mut condition: Expr, width: usize) -> Expr {
    let walked = condition.walk(0, &mut |part, _| {
        match part {
            Expr::Column(at, _) => *at += width,
            Expr::Outer(1, at, data_type) => {
                *part = Expr::Column(*at, *data_type);
                return Ok(false);
            }
            Expr::Outer(level, ..) => *level -= 1,
            _ => {}
        }
        Ok(true)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
    condition
}

/// The rows of `IN`, and its comparison over both rows.
fn any(subquery: &Subquery, width: usize) -> Option<(Node, Expr)> {
    let SubqueryTest::Any(test) = &subquery.test else {
        return None;
    };
    if subquery.is_correlated && reads_row(&subquery.node) {
        return None;
    }
    if test.left.iter().any(Expr::has_query) {
        return None;
    }
    let mut node = subquery.node.clone();
    let walked = node.walk(1, &mut |part, depth| {
        if let Expr::Outer(level, ..) = part
            && *level > depth
        {
            *level -= 1;
        }
        Ok(true)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
    let count = test.left.len();
    let mut condition = (*test.condition).clone();
    let walked = condition.walk(0, &mut |part, _| {
        if let Expr::Column(at, _) = part {
            if *at < count {
                *part = test.left[*at].clone();
            } else {
                *at = *at + width - count;
            }
            return Ok(false);
        }
        Ok(true)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
    Some(unprojected(node, condition, width))
}

/// Rows without a list of their columns around them, which would hide the index of a table, and the
/// condition over them. The columns follow others of a width.
fn unprojected(mut node: Node, mut condition: Expr, width: usize) -> (Node, Expr) {
    let is_column = |one: &Expr| matches!(one, Expr::Column(..));
    while let Node::Project(project) = &node
        && !project.has_sets
        && project.expressions.iter().all(is_column)
    {
        let walked = condition.walk(0, &mut |part, _| {
            if let Expr::Column(at, _) = part
                && let Some(own) = at.checked_sub(width)
                && let Some(Expr::Column(below, _)) = project.expressions.get(own)
            {
                *at = width + below;
            }
            Ok(true)
        });
        debug_assert!(walked.is_ok(), "the visitor does not fail");
        node = project.input.clone();
    }
    (node, condition)
}

/// Whether a query reads the row around it.
fn reads_row(node: &Node) -> bool {
    let mut reads = false;
    let walked = node.clone().walk(1, &mut |part, depth| {
        reads |= matches!(part, Expr::Outer(level, ..) if *level == depth);
        Ok(!reads)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
    reads
}
