//! A part of `FROM`: its rows, and the scope of their columns.
//!
//! Joins put two of them together. On the side of an outer join that may have no row, a column that
//! is never NULL tells whether there is one.

use super::scope::Scope;
use crate::plan::{Expr, Node, Project, Values};
use std::sync::Arc;

/// A part of `FROM`: its rows, and the scope of their columns.
pub(super) struct Source {
    pub(super) node: Node,
    pub(super) scope: Scope,
}

impl Source {
    /// One row without columns.
    pub(super) fn nothing() -> Self {
        Self {
            node: Values {
                rows: vec![Vec::new()],
                width: 0,
            }
            .into(),
            scope: Scope::default(),
        }
    }

    /// The rows of a side that an outer join may leave out.
    pub(super) fn make_optional(&mut self) {
        if !self.scope.make_optional() {
            return;
        }
        let present = Expr::boolean(true);
        let width = self.scope.width;
        if let Node::Project(project) = &mut self.node
            && project.expressions.len() == width
        {
            Arc::make_mut(project).expressions.push(present);
        } else {
            let columns = (0..width).map(|at| self.scope.column_at(at));
            let Some(columns) = columns.collect::<Option<Vec<Expr>>>() else {
                self.scope.forget_presence();
                return;
            };
            self.node = Project {
                input: std::mem::replace(&mut self.node, Node::nothing()),
                expressions: columns.into_iter().chain([present]).collect(),
                has_sets: false,
            }
            .into();
        }
        self.scope.width += 1;
    }

    /// The schema that may stand before the name of its table.
    pub(super) fn name_schema(&mut self, schema: &str) {
        if let Some(last) = self.scope.tables.last_mut() {
            last.schema = Some(schema.to_owned());
        }
    }

    /// The same for rows that a clause cannot lock by their name.
    pub(super) fn unlockable(mut self, kind: &'static str) -> Self {
        for table in &mut self.scope.tables {
            table.unlockable = Some(kind);
        }
        self
    }
}
