//! The method of a join: a table of hashes, a look-up in an index for each left row, or a loop.
//!
//! Equality of values that have one hash makes a hash join. A look-up is taken where the left side
//! has so few rows that reading all of the right one would cost more.

use super::access;
use super::estimate::{LOOK_UP, estimate, touched, touched_by};
use super::expression::Expr;
use super::join_order::types_of;
use super::node::{Access, Join, JoinKind, JoinMethod, Node, Project, Scan};
use super::rerun::run_for_each;
use super::side::{Side, deepen_part, deeper, shifted, side};

/// Puts conditions into a node, as far down as they go.
pub(super) type Push = fn(Node, Vec<Expr>) -> Node;

/// The join with the method that suits its conditions.
pub(super) fn with_method(join: Join, push: Push) -> Node {
    if !matches!(join.method, JoinMethod::Loop) {
        return join.into();
    }
    if join.kind == JoinKind::Inner && join.right.reads_round() && join.left.is_fixed() {
        // The other side is the one that is kept between rounds, or looked up.
        return right_first(join, push);
    }
    if is_looked_up_from_right(&join) {
        return right_first(join, push);
    }
    chosen(join, push)
}

/// Whether only the left side can be looked up by the other one's rows, and no equality makes a
/// table of hashes.
fn is_looked_up_from_right(join: &Join) -> bool {
    let conditions = join
        .condition
        .clone()
        .map_or_else(Vec::new, Expr::conjuncts);
    let width = join.left.width();
    if join.kind != JoinKind::Inner
        || !matches!(join.left, Node::Scan(_))
        || conditions.iter().any(|one| equality(one, width).is_some())
        || by_range(join, &mut conditions.clone()).is_some()
    {
        return false;
    }
    let swapped = swapped(join.clone());
    let conditions = swapped.condition.clone().map(Expr::conjuncts);
    by_range(&swapped, &mut conditions.unwrap_or_default()).is_some()
}

/// The join with its sides exchanged.
fn swapped(mut join: Join) -> Join {
    let (before, after) = (join.left.width(), join.right.width());
    if let Some(condition) = &mut join.condition {
        condition.renumber(&mut |at| if at < before { at + after } else { at - before });
    }
    std::mem::swap(&mut join.left, &mut join.right);
    join
}

/// The join with its right rows on the left, under a projection that puts its columns back.
fn right_first(join: Join, push: Push) -> Node {
    let types = types_of(&join.left).zip(types_of(&join.right));
    let Some((left, right)) = types else {
        return chosen(join, push);
    };
    let after = right.len();
    let join = swapped(join);
    let columns = left.into_iter().enumerate();
    let columns = columns.map(|(at, data_type)| Expr::Column(after + at, data_type));
    let others = right.into_iter().enumerate();
    let others = others.map(|(at, data_type)| Expr::Column(at, data_type));
    let expressions = columns.chain(others).collect();
    Project {
        input: chosen(join, push),
        expressions,
        has_sets: false,
    }
    .into()
}

fn chosen(mut join: Join, push: Push) -> Node {
    let width = join.left.width();
    let conditions = join
        .condition
        .take()
        .map(Expr::conjuncts)
        .unwrap_or_default();
    let (mut left, mut right, mut rest, mut equalities) = (vec![], vec![], vec![], vec![]);
    for condition in conditions {
        match equality(&condition, width) {
            Some((one, other)) => {
                left.push(one);
                right.push(other);
                equalities.push(condition);
            }
            None => rest.push(condition),
        }
    }
    if equalities.is_empty()
        && let Some(looked_up) = by_range(&join, &mut rest)
    {
        join.right = looked_up;
        join.method = JoinMethod::Lateral;
    }
    join.condition = (!rest.is_empty()).then(|| Expr::all(rest));
    let inside = || run_for_each(&join, &equalities, push);
    if let Some(looked_up) = by_index(&join, &equalities).or_else(inside) {
        join.right = looked_up;
        join.method = JoinMethod::Lateral;
        return join.into();
    }
    if !left.is_empty() {
        join.method = JoinMethod::Hash {
            left,
            right,
            equalities,
        };
    }
    join.into()
}

/// Both sides of an equality between the inputs, each over its own row.
pub(super) fn equality(condition: &Expr, width: usize) -> Option<(Expr, Expr)> {
    let Expr::Call(call) = condition else {
        return None;
    };
    let [one, other] = call.arguments.as_slice() else {
        return None;
    };
    // Values of one kind have one hash.
    if !call.is_equality() || Expr::has_query(condition) || !has_one_hash(one, other) {
        return None;
    }
    match (side(one, width), side(other, width)) {
        (Side::Left, Side::Right) => Some((one.clone(), shifted(other.clone(), width))),
        (Side::Right, Side::Left) => Some((other.clone(), shifted(one.clone(), width))),
        _ => None,
    }
}

pub(super) fn has_one_hash(one: &Expr, other: &Expr) -> bool {
    use crate::types::Kind::{Float4, Float8, Int2, Int4, Int8};
    let group = |kind| match kind {
        Int2 | Int4 | Int8 => Int8,
        Float4 | Float8 => Float8,
        kind => kind,
    };
    group(one.kind()) == group(other.kind())
}

/// The right side as a look-up in an index for each left row, if that is likely cheaper than
/// reading all that it has otherwise.
fn by_index(join: &Join, equalities: &[Expr]) -> Option<Node> {
    let (looked_up, each, all) = look_up(join, equalities)?;
    (estimate(&join.left) * (LOOK_UP + each) < all).then_some(looked_up)
}

/// As [`by_index`], in place of a table of hashes, for so many left rows of which the others are
/// not read then.
pub(super) fn by_index_for(join: &Join, left_rows: f64) -> Option<Node> {
    let JoinMethod::Hash { equalities, .. } = &join.method else {
        return None;
    };
    let (looked_up, each, all) = look_up(join, equalities)?;
    (left_rows * (LOOK_UP + each) < touched(&join.left) + all).then_some(looked_up)
}

/// The right side as a range of an index for each left row, if all pairs would be more rows. The
/// conditions that it has are taken out.
fn by_range(join: &Join, conditions: &mut Vec<Expr>) -> Option<Node> {
    let stays = |one: &Expr| Expr::has_query(one) || Expr::has_volatile(one);
    let moved: Vec<Expr> = conditions
        .iter()
        .filter(|one| !stays(one))
        .cloned()
        .collect();
    let (looked_up, each, all) = look_up(join, &moved)?;
    let rows = estimate(&join.left);
    let is_less = rows * (LOOK_UP + each) < all + rows * estimate(&join.right);
    is_less.then(|| {
        conditions.retain(stays);
        looked_up
    })
}

/// The right side as a look-up for each left row, the rows that each one looks at, and the rows of
/// the other way.
fn look_up(join: &Join, equalities: &[Expr]) -> Option<(Node, f64, f64)> {
    let Node::Scan(scan) = &join.right else {
        return None;
    };
    let is_fit = matches!(
        join.kind,
        JoinKind::Inner | JoinKind::Left | JoinKind::Semi | JoinKind::Anti
    );
    if !is_fit || !matches!(scan.access, Access::All { .. }) || equalities.is_empty() {
        return None;
    }
    let width = join.left.width();
    let outer = equalities
        .iter()
        .map(|condition| looked_up(condition.clone(), width));
    let (mut looked, mut alone) = (Scan::clone(scan), Scan::clone(scan));
    looked.condition = looked.condition.map(deeper);
    access::choose(&mut looked, outer.collect());
    access::choose(&mut alone, Vec::new());
    let each = touched_by(&looked);
    let all = touched_by(&alone) + estimate(&alone.into());
    reads_left(&looked).then(|| (looked.into(), each, all))
}

/// Whether a look-up's key has a value of the left row.
pub(super) fn reads_left(looked: &Scan) -> bool {
    let mut access = looked.access.clone();
    let mut reads = false;
    let walked = access.walk(0, &mut |part, depth| {
        reads |= matches!(part, Expr::Outer(level, ..) if *level == depth + 1);
        Ok(!reads)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
    reads
}

/// A condition over both rows as one of the right row, with the left one as the next outer row.
pub(super) fn looked_up(mut condition: Expr, width: usize) -> Expr {
    let walked = condition.walk(0, &mut |part, depth| {
        match part {
            Expr::Column(at, data_type) if depth == 0 => {
                if *at < width {
                    *part = Expr::Outer(1, *at, *data_type);
                } else {
                    *at -= width;
                }
                return Ok(false);
            }
            other => deepen_part(other, depth),
        }
        Ok(true)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
    condition
}
