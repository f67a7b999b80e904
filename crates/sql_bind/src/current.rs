//! `WHERE CURRENT OF`: the row that a cursor is at.
//!
//! The rows of a cursor whose rows are those of tables end with the keys of these, which clients do
//! not see. A change by the cursor is one of the row with that key.

use super::Binder;
use super::table::BoundTable;
use crate::catalog::Oid;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::{Expr, Node, Source, TableRows};
use crate::types::{Datum, Kind};
use std::sync::Arc;

/// A table whose keys are in the rows of a cursor.
#[derive(Clone, Copy, Debug)]
pub struct Tracked {
    /// The table.
    pub table: Oid,
    /// The place of its key's first column.
    pub start: usize,
    /// Columns of the key.
    pub count: usize,
    /// Whether its rows are locked as they are fetched.
    pub is_locked: bool,
}

/// Gives the key of the row of a table, by its number and its name, that a cursor is at.
pub type CursorRows<'b> = &'b dyn Fn(&str, Oid, &str) -> Result<Vec<Datum>>;

/// Adds the keys of tables to the rows of a query, as far as its rows are rows of theirs.
pub(super) fn track(root: &mut Node) -> Vec<Tracked> {
    let mut tracked: Vec<Tracked> = Vec::new();
    for (table, key, is_locked) in keys_in(root) {
        let start = tracked.iter().map(|own| own.count).sum::<usize>();
        tracked.push(Tracked {
            table,
            start,
            count: key.len(),
            is_locked,
        });
    }
    let added: usize = tracked.iter().map(|own| own.count).sum();
    let visible = root.width() - added;
    for own in &mut tracked {
        own.start += visible;
    }
    tracked
}

/// A table, the columns of a row that are its key, and whether its rows are locked.
type Keyed = (Oid, Vec<Expr>, bool);

/// Adds the keys to the rows of projections, from the tables up; they are the last columns.
fn keys_in(node: &mut Node) -> Vec<Keyed> {
    let of_source = |source: &Source, first: usize, is_locked| {
        let key = source.key.iter();
        let key = key.map(|&at| Expr::Column(first + at, source.column_type(at)));
        (source.oid, key.collect(), is_locked)
    };
    match node {
        Node::Project(project) if !project.has_sets => {
            let project = Arc::make_mut(project);
            let mut keyed = keys_in(&mut project.input);
            for part in keyed.iter_mut().flat_map(|(_, key, _)| key) {
                let above = Expr::Column(project.expressions.len(), part.data_type());
                project.expressions.push(std::mem::replace(part, above));
            }
            keyed
        }
        Node::Filter(filter) => keys_in(&mut Arc::make_mut(filter).input),
        Node::Limit(limit) => keys_in(&mut Arc::make_mut(limit).input),
        Node::Lock(lock) => {
            let tables = lock.tables.iter();
            let own = tables.filter_map(|table| match &table.rows {
                TableRows::Own(source) => Some(of_source(source, table.start, true)),
                TableRows::OfFamily(_) => None,
            });
            own.collect()
        }
        Node::Scan(scan) => vec![of_source(&scan.source, 0, false)],
        _ => Vec::new(),
    }
}

impl Binder<'_> {
    /// The condition of the row that a cursor is at, for a member of the family of a table.
    pub(super) fn current_of(
        &mut self,
        cursor: &str,
        table: &BoundTable,
        member: &BoundTable,
    ) -> Result<Expr> {
        let rows = self.cursors.ok_or_else(|| {
            let instead = "Change the row by its key.";
            SqlError::unsupported("WHERE CURRENT OF here", instead)
        })?;
        self.is_momentary = true;
        let key = rows(cursor, table.object.oid, &table.object.name)?;
        if member.object.oid != table.object.oid {
            return Ok(Expr::Constant(Datum::Bool(false), Kind::Bool.plain()));
        }
        let source = &member.source;
        let mut conditions = Vec::with_capacity(key.len());
        for (&at, value) in source.key.iter().zip(key) {
            let data_type = source.column_type(at);
            let pair = vec![
                Expr::Column(at, data_type),
                Expr::Constant(value, data_type),
            ];
            conditions.push(self.operator("=", pair)?);
        }
        Ok(Expr::all(conditions))
    }
}

/// The error of a cursor that cannot say which row of a table it is at.
pub fn not_updatable(cursor: &str, table: &str) -> SqlError {
    let message =
        format!("cursor \"{cursor}\" is not a simply updatable scan of table \"{table}\"");
    SqlError::new(SqlState::INVALID_CURSOR_STATE, message)
}
