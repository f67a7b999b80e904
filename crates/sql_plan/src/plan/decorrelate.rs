//! Values of queries that read the row around them become columns: one table of groups instead of
//! one query for each row.
//!
//! ```text
//! a > (SELECT min(b) FROM t WHERE t.k = outer.k)
//!     -> a > m, over a left join with (SELECT k, min(b) AS m FROM t GROUP BY k)
//! ```
//!
//! A row without a group has NULL there, which is also the value of these aggregates over no rows;
//! so `count` is not among them. Their arguments are columns, and the conditions on the rows are
//! comparisons: anything else could fail for rows that no outer row asks for. A query that finds
//! its rows by an index stays if there are few outer rows.

use super::access;
use super::estimate::{LOOK_UP, estimate, touched_by};
use super::expression::{Expr, Subquery, SubqueryTest};
use super::fold::is_number;
use super::improve::{keep, push};
use super::join_order::types_of;
use super::method::{has_one_hash, with_method};
use super::node::{Aggregate, AggregateCall, Join, JoinKind, JoinMethod, Node, Project, Scan};
use super::selectivity::rows_of;
use super::unnest::{freed, lifted, reads_level};
use crate::types::Kind;
use crate::types::cast::CastContext;

/// Aggregates that are NULL over no rows.
const NULL_OVER_NONE: &[&str] = &["min", "max", "sum", "avg"];

/// Operators and functions that fail for no values of columns.
const FAILS_NEVER: &[&str] = &[
    "=", "<>", "<", "<=", ">", ">=", "~~", "!~~", "lower", "upper",
];

/// A query as a table of groups.
struct Groups {
    aggregate: Aggregate,
    /// Keys of the outer row equal those of the group, over both rows.
    equalities: Vec<Expr>,
    /// The query's value over both rows.
    value: Expr,
}

/// The rows for which a condition with a value of such a query is true; or the condition back.
pub(super) fn decorrelate(node: Node, mut condition: Expr) -> (Node, Option<Expr>) {
    let Some(types) = types_of(&node) else {
        return (node, Some(condition));
    };
    let joined = with_groups(node, &mut condition);
    if joined.width() == types.len() {
        return (joined, Some(condition));
    }
    let columns = types.into_iter().enumerate();
    let project = Project {
        input: keep(joined, vec![condition]),
        expressions: columns.map(|(at, kind)| Expr::Column(at, kind)).collect(),
        has_sets: false,
    };
    (project.into(), None)
}

/// The rows of a node with further columns for the values of such queries, which an expression over
/// them reads instead.
pub(super) fn with_groups(mut node: Node, expression: &mut Expr) -> Node {
    loop {
        let mut found = None;
        let walked = expression.walk(0, &mut |part, _| {
            let Expr::Subquery(subquery) = part else {
                return Ok(true);
            };
            if found.is_none()
                && let Some(groups) = groups_of(subquery, &node)
            {
                *part = groups.value.clone();
                found = Some(groups);
            }
            Ok(false)
        });
        debug_assert!(walked.is_ok(), "the visitor does not fail");
        let Some(groups) = found else {
            return node;
        };
        node = with_method(
            Join {
                kind: JoinKind::Left,
                left: node,
                right: push(groups.aggregate.into(), Vec::new()),
                condition: Some(Expr::all(groups.equalities)),
                method: JoinMethod::Loop,
            },
            push,
        );
    }
}

/// The groups of a query whose value is that of aggregates, if its conditions on the outer row are
/// equalities.
fn groups_of(subquery: &Subquery, outer: &Node) -> Option<Groups> {
    let Node::Project(project) = &subquery.node else {
        return None;
    };
    let (Node::Aggregate(aggregate), [value], SubqueryTest::Scalar) =
        (&project.input, &project.expressions[..], &subquery.test)
    else {
        return None;
    };
    let Node::Filter(filter) = &aggregate.input else {
        return None;
    };
    let is_fit = aggregate.keys.is_empty()
        && aggregate.calls.iter().all(is_null_over_none)
        && !reads_outer(value)
        && !Expr::has_query(value)
        && !Expr::has_volatile(value);
    if !is_fit {
        return None;
    }
    let conditions = filter.condition.clone().conjuncts();
    let (up, stay): (Vec<Expr>, Vec<Expr>) = conditions
        .iter()
        .cloned()
        .partition(|one| reads_level(one, 1));
    // A key on its own is computed for the rows that the query would compute it for.
    let is_safe = stay.iter().all(fails_never) && (up.len() == 1 || up.iter().all(fails_never));
    if !is_safe {
        return None;
    }
    let width = outer.width();
    let (mut keys, mut equalities) = (Vec::new(), Vec::new());
    for condition in up {
        let (key, equality) = key_of(condition, width, width + keys.len())?;
        if is_found_by_index(&filter.input, &key, &conditions, outer) {
            return None;
        }
        keys.push(key);
        equalities.push(equality);
    }
    let input = freed(keep(filter.input.clone(), stay)).filter(|_| !keys.is_empty())?;
    let (mut value, first) = (value.clone(), width + keys.len());
    value.renumber(&mut |at| first + at);
    let calls = aggregate.calls.clone();
    Some(Groups {
        aggregate: Aggregate {
            input,
            keys,
            calls,
            is_ordered: false,
        },
        equalities,
        value,
    })
}

/// Whether a condition fails for no row: comparisons of columns, and of values that are the same
/// for all rows.
fn fails_never(condition: &Expr) -> bool {
    match condition {
        Expr::Column(..) => true,
        Expr::And(parts)
        | Expr::Or(parts)
        | Expr::Array(parts, _)
        | Expr::Coalesce(parts)
        | Expr::Extreme(parts, _) => parts.iter().all(fails_never),
        Expr::Not(one) | Expr::IsNull(one, _) | Expr::IsTruth(one, ..) => fails_never(one),
        Expr::IsDistinct(pair, _) => fails_never(&pair.0) && fails_never(&pair.1),
        Expr::Cast(one, to, CastContext::Implicit) => {
            let is_text = |kind: Kind| kind.is_text() || kind == Kind::Bpchar;
            let (from, to) = (one.kind(), to.kind);
            let are_numbers = is_number(from) && is_number(to) && from != Kind::Numeric;
            (are_numbers || is_text(from) && is_text(to)) && fails_never(one)
        }
        Expr::Call(call) if FAILS_NEVER.contains(&call.function.name) => {
            call.arguments.iter().all(fails_never)
        }
        Expr::Quantified(test) => {
            let mut parts = [&test.left, &test.array, &test.condition].into_iter();
            parts.all(fails_never)
        }
        other => !other.reads_row() && !other.has_query() && !other.has_volatile(),
    }
}

fn is_null_over_none(call: &AggregateCall) -> bool {
    let is_column = |argument: &Expr| matches!(argument, Expr::Column(..));
    NULL_OVER_NONE.contains(&call.function.function.name)
        && !call.is_distinct
        && call.order.is_empty()
        && call.filter.is_none()
        && call.arguments.iter().all(is_column)
}

fn reads_outer(expression: &Expr) -> bool {
    expression.any(|part, depth| matches!(part, Expr::Outer(level, ..) if *level > depth))
}

/// The side of an equality that reads the query's own row, and the equality with a column of the
/// groups in its place.
fn key_of(condition: Expr, width: usize, column: usize) -> Option<(Expr, Expr)> {
    let Expr::Call(mut call) = condition else {
        return None;
    };
    let [one, other] = &call.arguments[..] else {
        return None;
    };
    if !call.is_equality() || !has_one_hash(one, other) {
        return None;
    }
    let own = usize::from(reads_outer(one));
    let (key, outer) = (call.arguments[own].clone(), call.arguments[1 - own].clone());
    let is_plain = !reads_outer(&key)
        && key.reads_row()
        && !Expr::has_query(&key)
        && matches!(outer, Expr::Outer(1, ..));
    if !is_plain {
        return None;
    }
    call.arguments[own] = Expr::Column(column, key.data_type());
    call.arguments[1 - own] = lifted(outer, width);
    Some((key, Expr::Call(call)))
}

/// Whether a query finds its rows by an index, for so few outer rows that this is cheaper than
/// reading all of them.
fn is_found_by_index(input: &Node, key: &Expr, conditions: &[Expr], outer: &Node) -> bool {
    let Expr::Column(at, _) = key else {
        return false;
    };
    let Some((scan, column)) = scan_of(input, *at) else {
        return false;
    };
    let first = at - column;
    let own = first..first + scan.source.width();
    let is_own = |condition: &&Expr| {
        let mut is_own = !Expr::has_query(condition);
        condition.columns(&mut |at| is_own &= own.contains(&at));
        is_own
    };
    let own = conditions.iter().filter(is_own).cloned();
    let own = own.map(|mut condition| {
        condition.shift(0, -(first as isize));
        condition
    });
    let mut looked_up = Scan::clone(scan);
    access::choose(&mut looked_up, own.collect());
    let each = LOOK_UP + touched_by(&looked_up);
    estimate(outer) * each < rows_of(&scan.source)
}

/// The scan that a column comes from, and its position there.
fn scan_of(node: &Node, at: usize) -> Option<(&Scan, usize)> {
    match node {
        Node::Scan(scan) => Some((scan, at)),
        Node::Filter(filter) => scan_of(&filter.input, at),
        Node::Join(join) => match at.checked_sub(join.left.width()) {
            Some(at) => scan_of(&join.right, at),
            None => scan_of(&join.left, at),
        },
        _ => None,
    }
}
