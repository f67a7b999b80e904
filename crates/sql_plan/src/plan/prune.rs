//! Columns that nothing above a scan reads are not looked at.
//!
//! Rows keep their width, so no position changes; a column that is not read is NULL. Nodes that
//! compare whole rows read all of them.

use super::expression::Expr;
use super::node::{Access, Join, JoinMethod, Node, Scan, SetKind, SetOperation};
use std::sync::Arc;

/// Tells scans which columns are read.
pub(super) fn prune(node: &mut Node, needed: &[bool]) {
    let all = |node: &Node| vec![true; node.width()];
    match node {
        Node::Scan(scan) => prune_scan(Arc::make_mut(scan), needed),
        Node::Filter(filter) => {
            let filter = Arc::make_mut(filter);
            let mut below = needed.to_vec();
            mark(&mut below, &filter.condition);
            prune(&mut filter.input, &below);
        }
        Node::Project(project) => {
            let project = Arc::make_mut(project);
            let mut below = vec![false; project.input.width()];
            for (expression, needed) in project.expressions.iter().zip(needed) {
                // An expression is computed even if nobody reads its value.
                if *needed || !matches!(expression, Expr::Column(..)) {
                    mark(&mut below, expression);
                }
            }
            prune(&mut project.input, &below);
        }
        Node::Aggregate(aggregate) => {
            let aggregate = Arc::make_mut(aggregate);
            let mut below = vec![false; aggregate.input.width()];
            aggregate.keys.iter().for_each(|one| mark(&mut below, one));
            for call in &aggregate.calls {
                let order = call.order.iter().map(|key| &key.expression);
                let parts = call.arguments.iter().chain(&call.filter).chain(order);
                parts.for_each(|one| mark(&mut below, one));
            }
            prune(&mut aggregate.input, &below);
        }
        Node::Sort(sort) => {
            let sort = Arc::make_mut(sort);
            let mut below = needed.to_vec();
            sort.keys
                .iter()
                .for_each(|key| mark(&mut below, &key.expression));
            prune(&mut sort.input, &below);
        }
        Node::Limit(limit) if limit.ties.is_none() => {
            prune(&mut Arc::make_mut(limit).input, needed);
        }
        Node::SetOperation(plan) if plan.kind == SetKind::Union && plan.all => {
            prune_union(Arc::make_mut(plan), needed);
        }
        Node::Join(join) => prune_join(Arc::make_mut(join), needed),
        other => {
            let pruned = other.inputs(&mut |input, _| {
                let every = all(input);
                prune(input, &every);
                Ok(())
            });
            debug_assert!(pruned.is_ok(), "the visitor does not fail");
        }
    }
}

/// Marks the columns that an expression reads.
fn mark(needed: &mut [bool], expression: &Expr) {
    expression.columns(&mut |at| {
        if let Some(needed) = needed.get_mut(at) {
            *needed = true;
        }
    });
}

fn prune_scan(scan: &mut Scan, needed: &[bool]) {
    let mut read = needed.to_vec();
    if let Some(condition) = &scan.condition {
        mark(&mut read, condition);
    }
    if let Access::AnyOf(ways) = &scan.access {
        for way in ways {
            mark(&mut read, &way.condition);
        }
    }
    scan.needed = read;
}

fn prune_union(plan: &mut SetOperation, needed: &[bool]) {
    let mut below = needed.to_vec();
    let keys = plan.order.iter().flatten();
    keys.for_each(|key| mark(&mut below, &key.expression));
    prune(&mut plan.left, &below);
    prune(&mut plan.right, &below);
}

fn prune_join(join: &mut Join, needed: &[bool]) {
    let (left, right) = (join.left.width(), join.right.width());
    let mut below = needed.to_vec();
    below.resize(left + right, false);
    let mut note = |at: usize| {
        if let Some(needed) = below.get_mut(at) {
            *needed = true;
        }
    };
    if let Some(condition) = &join.condition {
        condition.columns(&mut note);
    }
    match &join.method {
        JoinMethod::Hash {
            left: keys,
            right: others,
            ..
        } => {
            for key in keys {
                key.columns(&mut note);
            }
            for key in others {
                key.columns(&mut |at| note(left + at));
            }
        }
        JoinMethod::Lateral => {
            // The right side reads the left row as an outer one.
            let walked = join.right.walk(1, &mut |part, depth| {
                if let Expr::Outer(level, at, _) = part
                    && *level == depth
                {
                    note(*at);
                }
                Ok(true)
            });
            debug_assert!(walked.is_ok(), "the visitor does not fail");
        }
        JoinMethod::Loop => {}
    }
    let (for_left, for_right) = below.split_at(left);
    prune(&mut join.left, for_left);
    prune(&mut join.right, for_right);
}
