//! Views whose tables, columns, types and functions get other names.
//!
//! The query of a view is kept as text with full names. What the names are is looked up before the
//! change, and the text is written with the new names after it.

use crate::catalog::{Body, OWNER, Object, Oid};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use sql_bind::{Binder, Resolved};
use sql_parse::Places;
use sqlparser::ast::Statement;
use std::sync::Arc;

/// A view, and what the names of its query are.
pub(crate) type Reader = (Arc<Object>, Resolved);

impl Session {
    /// The text of a query with full names.
    pub(super) fn with_full_names(&self, query: &str) -> Result<String> {
        let names = &self.environment.names;
        Ok(self.resolved(query)?.text(names))
    }

    /// What the names of a query are that the catalogue keeps, or will keep. Its privileges are
    /// those of the views, so none are looked at.
    fn resolved(&self, query: &str) -> Result<Resolved> {
        let parsed = sql_parse::parse_stored(query)?;
        let Some(Statement::Query(tree)) = parsed.first().map(|parsed| &*parsed.statement) else {
            return Err(SqlError::unsupported("keeping this query", "Use a SELECT."));
        };
        let mut names = self.environment.names.clone();
        names.role = OWNER;
        let (database, places) = (self.sql.database(), Places::new(query));
        let context = self.environment.context();
        let mut binder = Binder::new(&names, database, context, &places);
        binder.resolved(tree).map(|(_, resolved)| resolved)
    }

    /// The views that read an object, and what their names are.
    fn readers(&self, is_read: impl Fn(&Object, &[Oid]) -> bool) -> Result<Vec<Reader>> {
        let mut readers = Vec::new();
        for object in self.catalog().objects() {
            if let Body::View(view) = &object.body
                && is_read(object, &view.reads)
            {
                readers.push((Arc::clone(object), self.resolved(&view.query)?));
            }
        }
        Ok(readers)
    }

    /// The views whose queries name an object, if it gets another name, schema, or other names of
    /// columns.
    pub(crate) fn readers_of_names(&self, before: &Object, after: &Object) -> Result<Vec<Reader>> {
        let is_same = before.name == after.name && before.namespace == after.namespace;
        match (&before.body, &after.body) {
            (Body::Table(old), Body::Table(new)) => {
                let mut columns = old.columns.iter().zip(&new.columns);
                let is_same_row = old.columns.len() != new.columns.len()
                    || columns.all(|(old, new)| old.name == new.name);
                if is_same && is_same_row {
                    return Ok(Vec::new());
                }
                self.readers(|_, reads| reads.contains(&before.oid))
            }
            _ if is_same => Ok(Vec::new()),
            (Body::View(_) | Body::Sequence(_), _) => {
                self.readers(|view, reads| view.oid != before.oid && reads.contains(&before.oid))
            }
            (
                Body::Schema
                | Body::Function(_)
                | Body::Enum(_)
                | Body::Domain(_)
                | Body::Composite(_),
                _,
            ) => self.readers(|_, _| true),
            _ => Ok(Vec::new()),
        }
    }

    /// Writes the queries of views with the names that their objects have now.
    pub(crate) fn follow_names(&mut self, readers: Vec<Reader>) -> Result<()> {
        for (view, resolved) in readers {
            let Some(view) = self.catalog().object(view.oid) else {
                continue;
            };
            let mut view = Object::clone(view);
            if let Body::View(body) = &mut view.body {
                body.query = resolved.text(&self.environment.names);
            }
            self.write_object(view, None)?;
        }
        Ok(())
    }

    /// The views whose queries name a column.
    fn readers_of_column(&self, table: Oid, at: usize) -> Result<Vec<Arc<Object>>> {
        let readers = self.readers(|_, reads| reads.contains(&table))?.into_iter();
        let readers = readers.filter(|(_, resolved)| resolved.names_column(table, at));
        Ok(readers.map(|(view, _)| view).collect())
    }

    /// Drops the views that name a column which is to be dropped, or refuses.
    pub(super) fn drop_readers_of_column(
        &mut self,
        (table, at): (&Object, usize),
        name: &str,
        cascade: bool,
    ) -> Result<()> {
        let readers = self.readers_of_column(table.oid, at)?;
        if !readers.is_empty() && !cascade {
            let of = format!("column {name} of table {}", table.name);
            let message = format!("cannot drop {of} because other objects depend on it");
            let readers = readers.iter();
            let detail = readers.map(|view| format!("view {} depends on {of}", view.name));
            let state = SqlState::DEPENDENT_OBJECTS_STILL_EXIST;
            let error = SqlError::new(state, message);
            let error = error.detail(detail.collect::<Vec<_>>().join("\n"));
            return Err(error.hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        for view in readers {
            if self.catalog().object(view.oid).is_some() {
                let notice = format!("drop cascades to view {}", view.name);
                self.environment.host.notice(notice);
                self.drop_with_dependents(&view, true)?;
            }
        }
        Ok(())
    }

    /// Refuses another type of a column that a view names.
    pub(super) fn refuse_readers_of_column(&self, table: Oid, at: usize, name: &str) -> Result<()> {
        let readers = self.readers_of_column(table, at)?;
        let Some(view) = readers.first() else {
            return Ok(());
        };
        let message = "cannot alter type of a column used by a view or rule";
        let detail = format!(
            "rule _RETURN on view {} depends on column \"{name}\"",
            view.name
        );
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).detail(detail))
    }
}
