//! Estimates of numbers of rows, from the counts of tables and the forms of conditions.
//!
//! They only have to be right by a factor of ten: they choose between methods whose costs differ
//! by more.

use super::access;
use super::computed::{computed, seen_by, seen_by_all};
use super::expression::Expr;
use super::node::{Access, Join, JoinKind, JoinMethod, Node, Nulls, Scan};
use super::selectivity::{
    elements_of, known_of, rows_of, share_of, share_of_index, share_of_null, share_of_value,
};
use crate::types::Datum;
use std::sync::Arc;

/// The share of pairs for which a condition that is no equality is true.
pub(super) const SHARE: f64 = 1.0 / 3.0;

/// A look-up costs about as much as reading so many rows in order.
pub(super) const LOOK_UP: f64 = 10.0;

/// The factor by which a way that suits few rows only must be cheaper, because estimates are rough.
pub(super) const GAIN: f64 = 2.0;

/// About the number of a node's rows.
pub(super) fn estimate(node: &Node) -> f64 {
    match node {
        Node::Scan(scan) => of_scan(scan),
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
        Node::Shared(shared) => shared.rows.unwrap_or_else(|| estimate(&shared.node)),
        Node::Modify(modify) => estimate(&modify.input),
        Node::System(_) | Node::Functions(_) | Node::Recursive(_) | Node::Working(_) => 1000.0,
    }
}

fn of_scan(scan: &Scan) -> f64 {
    let found = found(scan);
    match &scan.condition {
        Some(condition) => {
            let seen = seen_by_all(&scan.source, condition);
            (found * share_of(&seen, &scan.source)).max(1.0)
        }
        None => found,
    }
}

/// Rows that have the values which the access of a scan looks for; its range is left to the
/// condition, which has it too.
fn found(scan: &Scan) -> f64 {
    let rows = rows_of(&scan.source);
    let (index, width, keys) = match &scan.access {
        Access::All { .. } => return rows,
        Access::Range(range) if range.nulls == Nulls::Skipped && range.prefix.is_empty() => {
            let computed = computed(&scan.source, range.index.as_deref());
            let share = computed.map_or(1.0, |one| share_of_index(&scan.source, one));
            return (rows * share).max(1.0);
        }
        Access::Range(range) => (&range.index, range.prefix.len(), 1.0),
        Access::Keys { index, keys } => (index, keys[0].len(), keys.len() as f64),
        Access::Elements {
            index,
            prefix,
            array,
        } => (index, prefix.len() + 1, elements_of(array)),
        Access::AnyOf(ways) => {
            let branches = ways.iter().map(|way| way.condition.clone());
            let any = Expr::Or(branches.collect());
            let share = share_of(&seen_by_all(&scan.source, &any), &scan.source);
            return (rows * share).max(1.0);
        }
    };
    let columns = access::columns_of(&scan.source, index.as_deref());
    if width == columns.len() && access::is_unique_key(&scan.source, index.as_deref()) {
        return keys;
    }
    let values = columns.iter().take(width);
    let mut share: f64 = values.map(|&at| share_of_value(&scan.source, at)).product();
    if let Access::Range(range) = &scan.access
        && range.nulls == Nulls::Only
        && let Some(&next) = columns.get(width)
    {
        share *= share_of_null(&scan.source, next);
    }
    (rows * (share * keys).min(1.0)).max(1.0)
}

/// About the number of rows that are looked at for a node's rows.
pub(super) fn touched(node: &Node) -> f64 {
    match node {
        Node::Scan(scan) => touched_by(scan),
        Node::Filter(plan) => touched(&plan.input),
        Node::Project(plan) => touched(&plan.input),
        Node::Join(join) if !matches!(join.method, JoinMethod::Lateral) => {
            touched(&join.left) + touched(&join.right) + estimate(node)
        }
        Node::Aggregate(plan) => touched(&plan.input),
        Node::Sort(plan) => 2.0 * touched(&plan.input),
        Node::Distinct(plan) => touched(&plan.input),
        _ => estimate(node),
    }
}

/// About the cost of a node's rows, in rows that are looked at, with the indexes that its scans
/// will have.
pub(super) fn cost_of(node: &Node) -> f64 {
    let mut node = node.clone();
    access::choose_all(&mut node);
    cost(&mut node)
}

fn cost(node: &mut Node) -> f64 {
    let rows = estimate(node);
    match node {
        Node::Scan(scan) => touched_by(scan),
        Node::Join(join) => {
            let join = Arc::make_mut(join);
            let (left, right) = (estimate(&join.left), cost(&mut join.right));
            cost(&mut join.left)
                + match join.method {
                    JoinMethod::Lateral => left * (LOOK_UP + right),
                    JoinMethod::Hash { .. } => left + right + rows,
                    JoinMethod::Loop => right + left * estimate(&join.right),
                }
        }
        other => {
            let mut sum = rows;
            let visited = other.inputs(&mut |input, _| {
                sum += cost(input);
                Ok(())
            });
            debug_assert!(visited.is_ok(), "the visitor does not fail");
            sum
        }
    }
}

/// About the number of rows that a scan looks at.
pub(super) fn touched_by(scan: &Scan) -> f64 {
    if let Access::AnyOf(ways) = &scan.access {
        let each = ways.iter().map(|way| touched_by(&access::alone(scan, way)));
        return each.sum();
    }
    let found = found(scan);
    let (Access::Range(range), Some(condition)) = (&scan.access, &scan.condition) else {
        return found;
    };
    let columns = access::columns_of(&scan.source, range.index.as_deref());
    let Some(&next) = columns.get(range.prefix.len()) else {
        return found;
    };
    let is_end = |part: &Expr| {
        let compared = access::end(&|at| scan.source.column_type(at), part);
        compared.is_some_and(|(column, name, _)| column == next && name != "=")
    };
    let seen = seen_by(&scan.source, range.index.as_deref(), condition).into_owned();
    let ends = seen.conjuncts().into_iter().filter(is_end);
    let has_end = range.low.is_some() || range.high.is_some() || range.pattern.is_some();
    let ends: Vec<Expr> = match has_end {
        true => ends.collect(),
        false => return found,
    };
    (found * share_of(&Expr::all(ends), &scan.source)).max(1.0)
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
        ..
    } = &join.method
    else {
        // The rows of a look-up are those of one left row.
        let conditions = join
            .condition
            .clone()
            .map_or(0, |one| one.conjuncts().len());
        let pairs = left * right * SHARE.powi(conditions as i32);
        return match join.kind {
            JoinKind::Semi | JoinKind::Anti => left,
            JoinKind::Left => pairs.max(left),
            JoinKind::Right => pairs.max(right),
            JoinKind::Full => pairs.max(left + right),
            JoinKind::Inner => pairs.max(1.0),
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
