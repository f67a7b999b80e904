//! Tests of queries become joins: `EXISTS` and `IN` are semi-joins, `NOT EXISTS` is an anti-join.
//!
//! Conditions of the inner query that read the row around it become those of the join, so its
//! rows can be kept in a table of hashes.

use super::expression::{Expr, Subquery, SubqueryTest};
use super::improve::{keep, push};
use super::method::with_method;
use super::node::{Filter, Join, JoinKind, JoinMethod, Node};
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
    let joined = match (&subquery.test, kind) {
        (SubqueryTest::Exists, _) => exists(&subquery, width),
        // NOT IN is unknown where a value is NULL, which no anti-join says.
        (SubqueryTest::Any(_), JoinKind::Semi) => any(&subquery, width),
        _ => None,
    };
    let Some((right, join_condition)) = joined else {
        return (node, Some(condition));
    };
    let right = push(right, Vec::new());
    let join = Join {
        kind,
        left: node,
        right,
        condition: Some(join_condition),
        method: JoinMethod::Loop,
    };
    (with_method(join, push), None)
}

/// The rows of `EXISTS` without the conditions that read the row, and those conditions over both.
fn exists(subquery: &Subquery, width: usize) -> Option<(Node, Expr)> {
    let mut node = subquery.node.clone();
    loop {
        node = match node {
            // The values that are selected do not matter, as long as there is a row for each one.
            Node::Project(project) if !project.has_sets => Arc::unwrap_or_clone(project).input,
            Node::Sort(sort) => Arc::unwrap_or_clone(sort).input,
            other => {
                node = other;
                break;
            }
        };
    }
    let Node::Filter(filter) = node else {
        return None;
    };
    let Filter { input, condition } = Arc::unwrap_or_clone(filter);
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
    Some((node, condition))
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
