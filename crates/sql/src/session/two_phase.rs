//! `PREPARE TRANSACTION`, `COMMIT PREPARED` and `ROLLBACK PREPARED`.
//!
//! A transaction that is prepared leaves its session with its locks, and whoever may ends it later
//! by its name. After an error of the first step it is undone, as in PostgreSQL. Transactions that
//! have defined objects are refused: their catalogue is their session's.

use super::Session;
use super::control::failed_block;
use crate::catalog::{Body, Catalog};
use crate::error::{Result, SqlError, SqlState};
use crate::sink::Completion;
use crate::state::Block;
use indelible::PreparedTransaction;
use sql_parse::TwoPhase;

/// Bytes of a name that PostgreSQL does not take any more.
const NAME_BYTES: usize = 200;

impl Session {
    /// Runs one of the three statements.
    pub(super) fn two_phase(&mut self, phase: TwoPhase, name: &str) -> Result<Completion> {
        let command = match phase {
            TwoPhase::Prepare => return self.prepare_transaction(name).map(Completion::new),
            TwoPhase::Commit => "COMMIT PREPARED",
            TwoPhase::RollBack => "ROLLBACK PREPARED",
        };
        match self.transaction.block {
            Block::Idle if !self.is_together => {}
            Block::Failed => return Err(failed_block()),
            Block::Idle | Block::Implicit | Block::Open => {
                let message = format!("{command} cannot run inside a transaction block");
                return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
            }
        }
        self.end_prepared(phase, name)?;
        Ok(Completion::new(command))
    }

    fn prepare_transaction(&mut self, name: &str) -> Result<&'static str> {
        match self.transaction.block {
            // The statements of a text are a transaction that can be prepared; those of a pipeline
            // are none, and are committed.
            Block::Idle | Block::Implicit if !self.is_together => {
                self.warn_without_block();
                self.end_implicit()?;
                return Ok("ROLLBACK");
            }
            Block::Idle => {
                self.warn_without_block();
                self.begin(Block::Implicit)?;
            }
            Block::Implicit => self.warn_without_block(),
            Block::Failed => {
                self.abort();
                return Ok("ROLLBACK");
            }
            Block::Open => {}
        }
        let checked = self.end_deferral();
        if let Err(error) = checked.and_then(|()| self.check_preparable(name)) {
            self.abort();
            return Err(error);
        }
        self.close_portals();
        let facts = PreparedTransaction {
            name: name.to_owned(),
            owner: self.environment.names.role.into(),
            database: self.environment.host.database.clone(),
            prepared_at: crate::state::now(),
            transaction: self.environment.host.transaction,
        };
        self.connection.set_wait(self.environment.wait());
        let prepared = self.connection.prepare(&facts);
        let owner = self.connection.lock_owner();
        self.environment.host.peer.change_lock_owner(owner);
        self.end();
        self.end_settings(prepared.is_ok());
        prepared?;
        Ok("PREPARE TRANSACTION")
    }

    /// Fails if the transaction has done what cannot be handed over.
    fn check_preparable(&mut self, name: &str) -> Result<()> {
        if name.len() >= NAME_BYTES {
            let message = format!("transaction identifier \"{name}\" is too long");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let announced = &self.environment.host.announced;
        let problem = match () {
            () if self.has_held_cursors() => "created a cursor WITH HOLD",
            () if announced.point() != (0, 0) => "executed LISTEN, UNLISTEN, or NOTIFY",
            () if self.transaction.defines || !self.transaction.loose.is_empty() => {
                "defined objects"
            }
            () if self.uses_temporary()? => "operated on temporary objects",
            () => return Ok(()),
        };
        let message = format!("cannot PREPARE a transaction that has {problem}");
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message))
    }

    /// Whether the transaction has changed or locked a temporary table.
    fn uses_temporary(&mut self) -> Result<bool> {
        let Some(temporary) = self.environment.names.temporary else {
            return Ok(false);
        };
        let used = self.connection.used_tables()?;
        let catalog: &Catalog = self.catalog();
        let mut own = catalog.objects().filter(|object| {
            object.namespace == temporary && matches!(object.body, Body::Table(_))
        });
        Ok(own.any(|object| {
            let handle = catalog.handle(object.oid);
            handle.is_some_and(|handle| used.contains(&handle.id()))
        }))
    }

    fn end_prepared(&self, phase: TwoPhase, name: &str) -> Result<()> {
        let database = self.sql.database();
        let facts = database.prepared_transaction(name)?;
        let role = self.environment.names.role;
        if facts.owner != i64::from(role) && !self.sql.catalog().is_superuser(role) {
            let message = "permission denied to finish prepared transaction";
            let hint = "Must be superuser or the user that prepared the transaction.";
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message).hint(hint));
        }
        let counts = &self.environment.host.peer.counts;
        match phase {
            TwoPhase::Commit => counts.committed(&database.commit_prepared(&facts)?),
            TwoPhase::Prepare | TwoPhase::RollBack => {
                database.roll_back_prepared(&facts)?;
                counts.rolled_back();
            }
        }
        Ok(())
    }
}
