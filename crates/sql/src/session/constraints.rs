//! `SET CONSTRAINTS`, and the checks that wait for the end of the transaction.
//!
//! Ending the transaction is to want all checks at once. What is violated is looked at again as if
//! its statement ended now, so a check that is still put off keeps its row.

use super::Session;
use crate::catalog::{Body, Constraint, Deferral, Oid};
use crate::error::{Result, SqlError, SqlState};
use crate::run::{State, look_again};
use indelible::Isolation;
use sql_parse::Path;

impl Session {
    /// Puts off the checks of constraints, or makes up for them now. Outside of a block that ends
    /// with the statement.
    pub(crate) fn set_constraints(&mut self, names: Option<&[Path]>, deferred: bool) -> Result<()> {
        self.warn_outside_block("SET CONSTRAINTS");
        let chosen = names.map(|names| {
            let mut constraints = Vec::new();
            for name in names {
                self.deferrable(name, deferred, &mut constraints)?;
            }
            Ok::<Vec<Oid>, SqlError>(constraints)
        });
        let chosen = chosen.transpose()?;
        let host = &mut self.environment.host;
        host.deferred.choose(chosen.as_deref(), deferred);
        self.look_at_violations()
    }

    /// The constraints of a name that can be put off, in the first schema of the search path that
    /// has one of this name.
    fn deferrable(&self, path: &Path, deferred: bool, found: &mut Vec<Oid>) -> Result<()> {
        let names = &self.environment.names;
        let schemas = match &path.schema {
            Some(schema) => vec![names.schema(schema)?],
            None => names.schemas().collect(),
        };
        let in_schema = |schema: Oid| {
            let tables = names.catalog.objects();
            let tables = tables.filter(move |object| object.namespace == schema);
            let constraints = tables.flat_map(|object| match &object.body {
                Body::Table(table) => table.constraints.as_slice(),
                _ => &[],
            });
            constraints
                .filter(|constraint| constraint.name == path.name)
                .collect::<Vec<&Constraint>>()
        };
        let mut schemas = schemas.into_iter().map(in_schema);
        let Some(known) = schemas.find(|known| !known.is_empty()) else {
            let message = format!("constraint \"{}\" does not exist", path.name);
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        };
        for constraint in known {
            if constraint.rule.deferral() != Deferral::Never {
                found.push(constraint.oid);
            } else if deferred {
                let message = format!("constraint \"{}\" is not deferrable", path.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
        }
        Ok(())
    }

    /// Makes up for all checks, before the transaction commits or is prepared.
    pub(super) fn end_deferral(&mut self) -> Result<()> {
        self.environment.host.end_statement();
        self.environment.host.deferred.choose(None, false);
        self.look_at_violations()
    }

    /// Looks again at what was violated; fails where that is not put off any longer.
    fn look_at_violations(&mut self) -> Result<()> {
        let violations = self.environment.host.deferred.take();
        if violations.is_empty() {
            return Ok(());
        }
        self.connection.set_wait(self.environment.wait());
        let mut state = State::new(self.environment.host.memory(1));
        state.is_of_snapshot = self.transaction.isolation != Isolation::ReadCommitted;
        look_again(&violations, &mut self.run(&mut state))
    }
}
