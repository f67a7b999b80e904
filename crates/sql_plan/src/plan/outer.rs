//! Outer joins that conditions above them make inner ones.
//!
//! A condition that is not true where a column is NULL leaves no row for which a join has found no
//! partner. The planner makes such a join an inner one; the binder asks which joins stay outer,
//! because rows of their optional sides cannot be locked.

use super::expression::Expr;
use super::node::{Join, JoinKind, Node};
use super::nulls::refuses_nulls;
use std::ops::Range;
use std::sync::Arc;

/// The rows of a tree of joins.
#[derive(Debug)]
pub struct JoinedRows {
    /// Conditions that are true for all of them.
    pub conditions: Vec<Expr>,
    /// Columns that are NULL in rows for which an outer join has found no partner.
    optional: Vec<Range<usize>>,
}

impl JoinedRows {
    /// Those of a node for which a condition is true.
    pub fn new(node: &Node, condition: Option<Expr>) -> Self {
        let mut rows = Self {
            conditions: condition.map_or_else(Vec::new, Expr::conjuncts),
            optional: Vec::new(),
        };
        rows.add(node, 0);
        rows
    }

    /// Whether a value is of the optional side of an outer join.
    pub fn is_optional(&self, value: &Expr) -> bool {
        let mut is_optional = false;
        value.columns(&mut |at| {
            is_optional |= self.optional.iter().any(|columns| columns.contains(&at));
        });
        is_optional
    }

    /// Adds the joins of a node whose columns begin at a place.
    fn add(&mut self, node: &Node, start: usize) {
        let Node::Join(join) = node else {
            return;
        };
        let middle = start + join.left.width();
        let sides = (start..middle, middle..start + node.width());
        match reduced(join.kind, &self.conditions, sides.clone()) {
            JoinKind::Inner => {
                self.add_condition(join, start);
                self.add(&join.left, start);
                self.add(&join.right, middle);
            }
            JoinKind::Left => {
                self.optional.push(sides.1);
                self.add(&join.left, start);
            }
            JoinKind::Right => {
                self.optional.push(sides.0);
                self.add(&join.right, middle);
            }
            JoinKind::Full => self.optional.extend([sides.0, sides.1]),
            JoinKind::Semi | JoinKind::Anti => self.add(&join.left, start),
        }
    }

    fn add_condition(&mut self, join: &Join, start: usize) {
        if let Some(mut condition) = join.condition.clone() {
            condition.shift(0, start as isize);
            self.conditions.extend(condition.conjuncts());
        }
    }
}

/// Makes outer joins of a tree inner ones where conditions over its rows, or those of inner joins
/// in it, leave out the rows for which a join has found no partner.
pub(super) fn reduce(join: &mut Join, conditions: &[Expr]) {
    reduce_from(0, join, &mut conditions.to_vec());
}

/// As [`reduce`], of a part of the tree: its columns begin at a place in rows of the whole.
fn reduce_from(start: usize, join: &mut Join, conditions: &mut Vec<Expr>) {
    let middle = start + join.left.width();
    let sides = (start..middle, middle..middle + join.right.width());
    join.kind = reduced(join.kind, conditions, sides);
    let on = join
        .condition
        .clone()
        .map_or_else(Vec::new, Expr::conjuncts);
    let on = on.into_iter().map(|mut condition| {
        condition.shift(0, start as isize);
        condition
    });
    let (left, right) = (&mut join.left, &mut join.right);
    match join.kind {
        JoinKind::Inner => {
            let above = conditions.len();
            conditions.extend(on);
            reduce_node(start, left, conditions);
            reduce_node(middle, right, conditions);
            conditions.truncate(above);
        }
        // Rows of the optional side that are not joined do not matter.
        JoinKind::Left => {
            reduce_node(start, left, conditions);
            reduce_node(middle, right, &mut on.collect());
        }
        JoinKind::Right => {
            reduce_node(start, left, &mut on.collect());
            reduce_node(middle, right, conditions);
        }
        JoinKind::Full | JoinKind::Semi | JoinKind::Anti => {}
    }
}

fn reduce_node(start: usize, node: &mut Node, conditions: &mut Vec<Expr>) {
    if let Node::Join(join) = node {
        reduce_from(start, Arc::make_mut(join), conditions);
    }
}

/// The kind of a join whose conditions above are not true where one of its sides has no row.
fn reduced(
    kind: JoinKind,
    conditions: &[Expr],
    (left, right): (Range<usize>, Range<usize>),
) -> JoinKind {
    let needs = |side: &Range<usize>| {
        let is_null = |part: &Expr| matches!(part, Expr::Column(at, _) if side.contains(at));
        conditions.iter().any(|one| refuses_nulls(one, &is_null))
    };
    match kind {
        JoinKind::Left if needs(&right) => JoinKind::Inner,
        JoinKind::Right if needs(&left) => JoinKind::Inner,
        JoinKind::Full => match (needs(&left), needs(&right)) {
            (true, true) => JoinKind::Inner,
            (true, false) => JoinKind::Left,
            (false, true) => JoinKind::Right,
            (false, false) => kind,
        },
        kind => kind,
    }
}
