//! Right sides of joins that are no bare table, such as views and other joins: for a few left rows
//! they are run again for each one, and their scans look up what the row says, in place of reading
//! all that they have once.

use super::access;
use super::estimate::{GAIN, LOOK_UP, cost_of, estimate};
use super::expression::Expr;
use super::method::{Push, looked_up};
use super::node::{Join, JoinKind, JoinMethod, Node};
use super::side::deepen_part;
use std::sync::Arc;

/// Most joins on the right side: each is planned once more.
const JOINS_MAX: usize = 8;

/// The right side with the equalities as conditions in it, if so few of its rows are looked at then
/// that this costs less.
pub(super) fn run_for_each(join: &Join, equalities: &[Expr], push: Push) -> Option<Node> {
    let is_fit = matches!(
        join.kind,
        JoinKind::Inner | JoinKind::Left | JoinKind::Semi | JoinKind::Anti
    );
    if !is_fit || equalities.is_empty() || matches!(join.right, Node::Scan(_)) {
        return None;
    }
    let mut right = join.right.clone();
    let joins = joins_of(&mut right)?;
    let (rows, all) = (estimate(&join.left), cost_of(&right));
    if joins > JOINS_MAX || rows * LOOK_UP >= all || right.has_volatile() {
        return None;
    }
    forget_methods(&mut right);
    deepen(&mut right);
    let width = join.left.width();
    let conditions = equalities.iter().cloned();
    let conditions = conditions.map(|condition| looked_up(condition, width));
    let mut right = push(right, conditions.collect());
    access::choose_all(&mut right);
    let is_less = rows * (LOOK_UP + cost_of(&right)) * GAIN < all;
    (is_less && looks_up_left(&mut right)).then_some(right)
}

/// The number of joins in a node; none if it must not run more than once.
fn joins_of(node: &mut Node) -> Option<usize> {
    let mut joins = match node {
        Node::Join(_) => 1,
        Node::Scan(_)
        | Node::Filter(_)
        | Node::Project(_)
        | Node::Aggregate(_)
        | Node::Sort(_)
        | Node::Distinct(_)
        | Node::SetOperation(_)
        | Node::Values(_)
        | Node::Window(_) => 0,
        _ => return None,
    };
    let visited = node.inputs(&mut |input, _| {
        joins += joins_of(input).unwrap_or(JOINS_MAX + 1);
        Ok(())
    });
    debug_assert!(visited.is_ok(), "the visitor does not fail");
    Some(joins)
}

/// Lets joins by tables of hashes choose again.
fn forget_methods(node: &mut Node) {
    if let Node::Join(join) = node
        && matches!(join.method, JoinMethod::Hash { .. })
    {
        let join = Arc::make_mut(join);
        let method = std::mem::replace(&mut join.method, JoinMethod::Loop);
        if let JoinMethod::Hash { equalities, .. } = method {
            let rest = join.condition.take().map(Expr::conjuncts);
            let all = equalities.into_iter().chain(rest.unwrap_or_default());
            join.condition = Some(Expr::all(all.collect()));
        }
    }
    let visited = node.inputs(&mut |input, _| {
        forget_methods(input);
        Ok(())
    });
    debug_assert!(visited.is_ok(), "the visitor does not fail");
}

/// Moves a node below one more outer row.
fn deepen(node: &mut Node) {
    let walked = node.walk(0, &mut |part, depth| {
        deepen_part(part, depth);
        Ok(true)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
}

/// Whether a scan looks up values of the left row, which is the next outer one.
fn looks_up_left(node: &mut Node) -> bool {
    let mut found = match node {
        Node::Scan(scan) => super::method::reads_left(scan),
        _ => false,
    };
    // The right side of a look-up has another row in between.
    let visited = node.inputs(&mut |input, is_inside| {
        found |= !is_inside && looks_up_left(input);
        Ok(())
    });
    debug_assert!(visited.is_ok(), "the visitor does not fail");
    found
}
