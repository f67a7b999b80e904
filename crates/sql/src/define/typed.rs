//! Tables of the typed interface in statements that name them.
//!
//! SQL reads and writes their rows, and copies and locks them. Their definitions are those of the
//! typed interface, so statements that change definitions say so.

use crate::catalog::{Names, Object, PUBLIC, typed_by_name};
use crate::error::{SqlError, SqlState};
use crate::session::Session;
use sql_bind::no_relation;
use std::sync::Arc;

impl Session {
    /// A relation of the catalogue, or a table of the typed interface.
    pub(crate) fn relation_or_typed(
        &self,
        schema: Option<&str>,
        name: &str,
    ) -> Option<Arc<Object>> {
        let names = &self.environment.names;
        let found = names.find(Names::Relations, schema, name).cloned();
        found.or_else(|| {
            let is_there = match schema {
                Some(schema) => names.schema(schema) == Ok(PUBLIC),
                None => names.schemas().any(|schema| schema == PUBLIC),
            };
            let typed = typed_by_name(self.sql.database(), name).filter(|_| is_there)?;
            Some(Arc::new(typed))
        })
    }

    /// The error of a statement that defines something about a relation that the catalogue lacks.
    pub(crate) fn no_definition(&self, schema: Option<&str>, name: &str) -> SqlError {
        if self.relation_or_typed(schema, name).is_none() {
            return no_relation(schema, name);
        }
        let message = format!("table \"{name}\" has its definition from the typed interface");
        let hint = "Change it there, or with `indelible tables` and `indelible indexes`; SQL reads, writes, copies and locks it.";
        SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).hint(hint)
    }
}
