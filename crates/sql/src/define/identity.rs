//! `ALTER COLUMN` of identity columns: a column gets a sequence, other options of it, or loses it.
//!
//! The sequence belongs to the column, has its type, and goes with it, never alone.

use super::drop::label_of;
use super::sequence::check_identity_type;
use crate::catalog::{Body, Column, Object, Oid, Origin};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use crate::types::Type;
use sql_parse::IdentityChange;
use sqlparser::ast::{GeneratedAs, SequenceOptions};
use std::sync::Arc;

fn wrong_state(message: String) -> SqlError {
    SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

impl Session {
    /// Makes a column an identity column.
    pub(super) fn add_identity(
        &mut self,
        oid: Oid,
        at: usize,
        generated_as: Option<&GeneratedAs>,
        options: &[SequenceOptions],
    ) -> Result<()> {
        let mut object = self.altered(oid)?;
        let (namespace, table) = (object.namespace, object.name.clone());
        let Body::Table(body) = &mut object.body else {
            return Ok(());
        };
        let column = &mut body.columns[at];
        let of = format!("column \"{}\" of relation \"{table}\"", column.name);
        if matches!(column.origin, Origin::Identity { .. }) {
            return Err(wrong_state(format!("{of} is already an identity column")));
        }
        if column.expression().is_some() {
            return Err(wrong_state(format!("{of} already has a default value")));
        }
        if !column.not_null {
            return Err(wrong_state(format!(
                "{of} must be declared NOT NULL before identity can be added"
            )));
        }
        let (mut sequence, ()) = self.owned_sequence(
            (namespace, &table),
            &column.name.clone(),
            column.data_type,
            options,
        )?;
        column.origin = Origin::Identity {
            always: matches!(generated_as, Some(GeneratedAs::Always)),
            sequence: sequence.oid,
        };
        if let Body::Sequence(body) = &mut sequence.body {
            body.owner = Some((oid, at));
        }
        self.put(sequence, None)?;
        self.put(object, None)
    }

    /// Changes or ends the identity of a column.
    pub(super) fn change_identity(
        &mut self,
        oid: Oid,
        at: usize,
        change: &IdentityChange,
    ) -> Result<()> {
        let mut object = self.altered(oid)?;
        let table = object.name.clone();
        let Body::Table(body) = &mut object.body else {
            return Ok(());
        };
        let column = &mut body.columns[at];
        let Origin::Identity { always, sequence } = column.origin else {
            let message = format!(
                "column \"{}\" of relation \"{table}\" is not an identity column",
                column.name
            );
            if matches!(change, IdentityChange::Drop { if_exists: true }) {
                self.environment.host.notice(format!("{message}, skipping"));
                return Ok(());
            }
            return Err(wrong_state(message));
        };
        match change {
            IdentityChange::Drop { .. } => {
                column.origin = Origin::Given;
                self.remove(sequence)?;
            }
            IdentityChange::Set(options) => {
                column.origin = Origin::Identity {
                    always: options.always.unwrap_or(always),
                    sequence,
                };
                let (mut object, body) = self.sequence_body(sequence)?;
                object.body = Body::Sequence(self.change_sequence(sequence, body, options)?);
                self.put(object, None)?;
            }
        }
        self.put(object, None)
    }

    /// The table and the column that a sequence gives their numbers, if that is an identity column.
    pub(super) fn identity_of(&self, object: &Object) -> Option<(Arc<Object>, String)> {
        let Body::Sequence(sequence) = &object.body else {
            return None;
        };
        let table = self.catalog().object(sequence.owner?.0)?;
        let Body::Table(body) = &table.body else {
            return None;
        };
        let is_it = |column: &&Column| matches!(column.origin, Origin::Identity { sequence, .. } if sequence == object.oid);
        let column = body.columns.iter().find(is_it)?;
        Some((Arc::clone(table), column.name.clone()))
    }

    /// Fails if an object is the sequence of an identity column, which does not go alone.
    pub(super) fn refuse_identity(&self, object: &Object) -> Result<()> {
        let Some((table, column)) = self.identity_of(object) else {
            return Ok(());
        };
        let names = &self.environment.names;
        let [sequence, table] = [object, &*table].map(|one| label_of(names, one));
        let of = format!("column {column} of {table}");
        let message = format!("cannot drop {sequence} because {of} requires it");
        let error = SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message);
        Err(error.hint(format!("You can drop {of} instead.")))
    }

    /// Gives the sequence of an identity column the type that the column gets.
    pub(super) fn retype_identity(&mut self, column: &Column, data_type: Type) -> Result<()> {
        let Origin::Identity { sequence, .. } = column.origin else {
            return Ok(());
        };
        check_identity_type(data_type)?;
        let (mut object, body) = self.sequence_body(sequence)?;
        let options = sql_parse::SequenceOptions {
            data_type: Some(data_type.kind.name()),
            ..Default::default()
        };
        object.body = Body::Sequence(self.change_sequence(sequence, body, &options)?);
        self.put(object, None)
    }
}
