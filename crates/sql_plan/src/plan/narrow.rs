//! Rows that operators keep or hand on, without the columns that nothing above them reads.
//!
//! A scan or a join below a join, a group or a sort gets a projection to the columns that are read;
//! what stands above it reads them at their new places. Only nodes that make columns of their own
//! begin it, so that the columns of the whole plan stay as they are.

use super::expression::Expr;
use super::join_order::types_of;
use super::node::{Aggregate, Join, JoinKind, JoinMethod, Node, Project, Sort};
use std::sync::Arc;

/// New places of columns; those that are left out have none.
struct Renumbering(Vec<Option<usize>>);

impl Renumbering {
    /// The columns that are kept move together.
    fn of(kept: &[bool]) -> Self {
        let mut next = 0..;
        let places = kept.iter().map(|kept| kept.then(|| next.next()).flatten());
        Self(places.collect())
    }

    fn same(width: usize) -> Self {
        Self((0..width).map(Some).collect())
    }

    fn len(&self) -> usize {
        self.0.iter().flatten().count()
    }

    fn is_same(&self) -> bool {
        self.len() == self.0.len()
    }

    fn place(&self, at: usize) -> usize {
        let place = self.0.get(at).copied().flatten();
        debug_assert!(place.is_some(), "a column that is read is kept");
        place.unwrap_or(at)
    }

    /// The places of both sides' columns in rows of both.
    fn and(mut self, right: &Self) -> Self {
        let left = self.len();
        let right = right.0.iter().map(|at| at.map(|at| left + at));
        self.0.extend(right);
        self
    }

    /// The places after another move.
    fn then(self, next: &Self) -> Self {
        let places = self.0.into_iter();
        Self(
            places
                .map(|at| next.0.get(at?).copied().flatten())
                .collect(),
        )
    }

    fn renumber<'e>(&self, expressions: impl IntoIterator<Item = &'e mut Expr>) {
        for expression in expressions {
            expression.renumber(&mut |at| self.place(at));
        }
    }
}

/// Narrows the rows below the nodes of a plan.
pub(super) fn narrow(node: &mut Node) {
    match node {
        // A scan makes the columns of a projection over it at once.
        Node::Project(project) if !matches!(project.input, Node::Scan(_)) => {
            let Project {
                input, expressions, ..
            } = Arc::make_mut(project);
            let read = read_by(expressions.iter(), input.width());
            inside(input, &read).renumber(expressions);
        }
        Node::Aggregate(aggregate) => narrow_aggregate(Arc::make_mut(aggregate)),
        other => {
            let visited = other.inputs(&mut |input, _| {
                narrow(input);
                Ok(())
            });
            debug_assert!(visited.is_ok(), "the visitor does not fail");
        }
    }
}

fn narrow_aggregate(aggregate: &mut Aggregate) {
    let Aggregate {
        input, keys, calls, ..
    } = aggregate;
    let mut parts: Vec<&mut Expr> = keys.iter_mut().collect();
    for call in calls {
        parts.extend(call.arguments.iter_mut().chain(&mut call.filter));
        parts.extend(call.order.iter_mut().map(|key| &mut key.expression));
    }
    let read = read_by(parts.iter().map(|part| &**part), input.width());
    inside(input, &read).renumber(parts);
}

/// The columns that expressions read.
fn read_by<'e>(expressions: impl Iterator<Item = &'e Expr>, width: usize) -> Vec<bool> {
    let mut read = vec![false; width];
    expressions.for_each(|one| note(one, &mut read));
    read
}

fn note(expression: &Expr, read: &mut [bool]) {
    expression.columns(&mut |at| {
        if let Some(read) = read.get_mut(at) {
            *read = true;
        }
    });
}

/// Narrows the rows of a node of which only some columns are read, and tells their new places.
fn inside(node: &mut Node, read: &[bool]) -> Renumbering {
    match node {
        Node::Scan(_) => projected(node, read),
        Node::Filter(filter) => {
            let filter = Arc::make_mut(filter);
            let mut below = read.to_vec();
            note(&filter.condition, &mut below);
            let places = inside(&mut filter.input, &below);
            places.renumber([&mut filter.condition]);
            places
        }
        Node::Sort(sort) => {
            let Sort { input, keys, .. } = Arc::make_mut(sort);
            let mut below = read.to_vec();
            for key in keys.iter() {
                note(&key.expression, &mut below);
            }
            let places = inside(input, &below);
            places.renumber(keys.iter_mut().map(|key| &mut key.expression));
            places
        }
        Node::Project(project) if !project.has_sets => {
            let project = Arc::make_mut(project);
            let parts = project.expressions.iter().zip(read);
            // Others may fail, or have effects.
            let kept = parts.map(|(one, read)| *read || !matches!(one, Expr::Column(..)));
            let kept: Vec<bool> = kept.collect();
            let mut keeps = kept.iter();
            project.expressions.retain(|_| keeps.next() == Some(&true));
            narrow(node);
            Renumbering::of(&kept)
        }
        Node::Limit(limit) if limit.ties.is_none() => inside(&mut Arc::make_mut(limit).input, read),
        Node::Join(join) => {
            let places = sides(Arc::make_mut(join), read);
            let mut kept = vec![false; places.len()];
            for (at, place) in places.0.iter().enumerate() {
                if let Some(place) = place {
                    kept[*place] = read.get(at).copied().unwrap_or(false);
                }
            }
            let next = projected(node, &kept);
            places.then(&next)
        }
        other => {
            let width = other.width();
            narrow(other);
            Renumbering::same(width)
        }
    }
}

/// The node with a projection to some of its columns.
fn projected(node: &mut Node, kept: &[bool]) -> Renumbering {
    let places = Renumbering::of(kept);
    let types = if places.is_same() {
        None
    } else {
        types_of(node)
    };
    let Some(types) = types else {
        return Renumbering::same(kept.len());
    };
    let columns = types.into_iter().zip(kept).enumerate();
    let columns = columns.filter(|(_, (_, kept))| **kept);
    let project = Project {
        expressions: columns
            .map(|(at, (kind, _))| Expr::Column(at, kind))
            .collect(),
        input: std::mem::replace(node, Node::nothing()),
        has_sets: false,
    };
    *node = project.into();
    places
}

/// Narrows both sides of a join, and tells the new places of the columns of both.
fn sides(join: &mut Join, read: &[bool]) -> Renumbering {
    let (left, right) = (join.left.width(), join.right.width());
    let mut below = read.to_vec();
    below.resize(left + right, false);
    let is_lateral = matches!(join.method, JoinMethod::Lateral);
    if let Some(condition) = &join.condition {
        note(condition, &mut below);
    }
    let (for_left, for_right) = below.split_at_mut(left);
    if let JoinMethod::Hash {
        left: keys,
        right: others,
        ..
    } = &join.method
    {
        for key in keys {
            note(key, for_left);
        }
        for key in others {
            note(key, for_right);
        }
    }
    if is_lateral {
        each_outer(&mut join.right, &mut |at| for_left[*at] = true);
    }
    let of_left = inside(&mut join.left, for_left);
    let of_right = inside(&mut join.right, for_right);
    if is_lateral {
        each_outer(&mut join.right, &mut |at| *at = of_left.place(*at));
    }
    if let JoinMethod::Hash {
        left: keys,
        right: others,
        ..
    } = &mut join.method
    {
        of_left.renumber(keys);
        of_right.renumber(others);
    }
    let both = of_left.and(&of_right);
    both.renumber(&mut join.condition);
    match join.kind {
        JoinKind::Semi | JoinKind::Anti => Renumbering(both.0[..left].to_vec()),
        _ => both,
    }
}

/// Visits the columns of the left row that the right side of a join reads.
fn each_outer(right: &mut Node, visit: &mut dyn FnMut(&mut usize)) {
    let walked = right.walk(1, &mut |part, depth| {
        if let Expr::Outer(level, at, _) = part
            && *level == depth
        {
            visit(at);
        }
        Ok(true)
    });
    debug_assert!(walked.is_ok(), "the visitor does not fail");
}
