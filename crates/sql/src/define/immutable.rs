//! Expressions whose values may depend on the row only: keys and conditions of indexes, generated
//! columns, and keys of partitions.
//!
//! Their values are stored. One that depends on a setting or on the moment would not be the value
//! of its row any longer, and a unique index could have the same key twice. Texts that the
//! catalogue has already are not looked at, because earlier builds have taken more; plans do not
//! read an index of them.

use crate::catalog::{Body, Column, Object, Origin};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Expr;
use crate::session::Session;
use sql_bind::row_scope;

/// The place of an expression that is not immutable, for the message.
pub(super) enum Mutable {
    /// One of indexes or partitions, by its name in PostgreSQL's message.
    Functions(&'static str),
    /// A generated column.
    Generated,
}

impl Session {
    /// Fails unless the value of a new expression depends on the row only.
    pub(super) fn refuse_mutable(
        &self,
        text: &str,
        (table, columns): (&str, &[Column]),
        place: &Mutable,
    ) -> Result<()> {
        let pairs = columns.iter();
        let pairs = pairs.map(|column| (column.name.clone(), column.data_type));
        let scope = row_scope(table, pairs)?;
        let value = self.binding(|binder| binder.stored(text, scope))?;
        if matches!(place, Mutable::Generated) {
            refuse_generated(&value, columns)?;
        }
        if !value.is_mutable() {
            return Ok(());
        }
        let message = match place {
            Mutable::Functions(place) => format!("functions in {place} must be marked IMMUTABLE"),
            Mutable::Generated => "generation expression is not immutable".to_owned(),
        };
        Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message))
    }

    /// The same for the indexes of a table that read a column, which has another type now.
    pub(super) fn refuse_mutable_readers(&self, object: &Object, at: usize) -> Result<()> {
        let Body::Table(body) = &object.body else {
            return Ok(());
        };
        let table = (object.name.as_str(), body.columns.as_slice());
        let forms = body.forms.iter().flat_map(|form| {
            let key = |text| (text, Mutable::Functions("index expression"));
            let condition = |text| (text, Mutable::Functions("index predicate"));
            let predicate = form.predicate.iter().map(condition);
            form.keys.iter().map(key).chain(predicate)
        });
        for (text, place) in forms {
            if self
                .check_expression(text, table.0, table.1, None)?
                .contains(&at)
            {
                self.refuse_mutable(text, table, &place)?;
            }
        }
        Ok(())
    }
}

/// Refuses a generated column that reads another one: their values are made in one step.
fn refuse_generated(value: &Expr, columns: &[Column]) -> Result<()> {
    let mut read = None;
    value.columns(&mut |at| {
        let column = columns.get(at);
        read = read.or(column.filter(|one| matches!(one.origin, Origin::Generated(_))));
    });
    let Some(column) = read else {
        return Ok(());
    };
    let message = format!(
        "cannot use generated column \"{}\" in column generation expression",
        column.name
    );
    let error = SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message);
    Err(error.detail("A generated column cannot reference another generated column."))
}
