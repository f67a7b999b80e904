//! Parts of `FROM` that read those on their left.
//!
//! While a part is bound, each part on its left is an outer row, nearer than those of the queries
//! around them. A join whose right side reads the left one hands its rows over as such; if it
//! reads none, that level is taken out again.

use super::Binder;
use super::scope::Clause;
use crate::error::Result;
use crate::plan::{Expr, Node, Pending};

/// Whether a part of `FROM` reads the row of the part on its left, the next outer row.
pub(super) fn reads_left(node: &mut Node) -> Result<bool> {
    let mut reads = false;
    node.walk(0, &mut |part, depth| {
        reads |= level_of(part).is_some_and(|level| *level == depth + 1);
        Ok(!reads)
    })?;
    Ok(reads)
}

/// The part on the left is no outer row: those around it are one level nearer.
pub(super) fn leave_left(node: &mut Node) -> Result<()> {
    node.walk(0, &mut |part, depth| {
        if let Some(level) = level_of(part)
            && *level > depth
        {
            *level -= 1;
        }
        Ok(true)
    })
}

/// A visitor for what has been bound without some outer rows that lie nearer than all others.
pub(super) fn deepen(by: usize) -> impl FnMut(&mut Expr, usize) -> Result<bool> {
    move |part, depth| {
        if let Some(level) = level_of(part)
            && *level > depth
        {
            *level += by;
        }
        Ok(by > 0)
    }
}

/// The level of a part that belongs to a row or a group of a query around it.
fn level_of(part: &mut Expr) -> Option<&mut usize> {
    match part {
        Expr::Outer(level, ..) | Expr::Pending(Pending::Outer(level), ..) => Some(level),
        _ => None,
    }
}

impl Binder<'_> {
    /// Binds a part that may read those on its left, which are the next outer rows.
    pub(super) fn lateral_part<R>(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<R> {
        let lefts = std::mem::take(&mut self.lateral);
        let around = self.scopes.len();
        if !lefts.is_empty() {
            self.scopes.extend(lefts);
            self.scope().clause = Clause::Select;
        }
        let bound = body(self);
        self.lateral = self.scopes.split_off(around);
        bound
    }

    /// Binds something that reads none of the parts on the left, though these are outer rows.
    pub(super) fn apart<R>(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<(R, usize)> {
        let hidden = std::mem::take(&mut self.lateral);
        let bound = body(self);
        self.lateral = hidden;
        Ok((bound?, self.lateral.len()))
    }
}
