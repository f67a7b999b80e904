//! `ALTER COLUMN` of identity columns: a column gets a sequence, other options of it, or loses it.
//!
//! The sequence belongs to the column, and goes with it.

use crate::catalog::{Body, Oid, Origin};
use crate::error::{Result, SqlError, SqlState};
use crate::session::Session;
use sql_parse::IdentityChange;
use sqlparser::ast::{GeneratedAs, SequenceOptions};

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
        if column.default.is_some() {
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
}
