//! The locks of a statement's tables, and the catalogue after a wait.
//!
//! A statement locks its tables before it reads: whoever changes the definition of one waits until
//! the transaction ends, and it waits for those who do. They may have changed definitions, so the
//! plan is made again if the catalogue has changed meanwhile, and the statement sees the rows of
//! that moment. A read of one row that stands alone takes no lock, unless somebody wants a table
//! for himself.

use super::Session;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Plan;
use crate::run::written_anew;
use crate::state::Loose;
use indelible::{Isolation, Table, TableLock};
use std::sync::Arc;

impl Session {
    /// Locks the tables that a plan uses. True if the plan must be made again, since the catalogue
    /// has changed meanwhile.
    pub(super) fn lock_used(&mut self, plan: &Plan) -> Result<bool> {
        let wait = self.environment.wait();
        let mut used = plan.tables.iter();
        let locked =
            used.try_for_each(|used| self.connection.lock_table(&used.table, used.lock, wait));
        if self.transaction.defines {
            locked?;
            self.keep_tables(plan)?;
            return self.leave_indexes(plan);
        }
        let version = self.catalog().version;
        self.refresh_catalog();
        if version == self.catalog().version {
            locked?;
            self.keep_tables(plan)?;
            return Ok(false);
        }
        // A table that has been dropped is no longer the one of its name.
        match locked.map_err(SqlError::from) {
            Err(error) if error.state != SqlState::UNDEFINED_TABLE => Err(error),
            _ => {
                self.connection.statement()?;
                Ok(true)
            }
        }
    }

    /// Gives the tables that a plan changes others below without the unique indexes that the
    /// transaction has dropped, which would count until it commits. True if there are some.
    fn leave_indexes(&mut self, plan: &Plan) -> Result<bool> {
        let mut tables = Vec::new();
        for used in plan
            .tables
            .iter()
            .filter(|used| used.lock == TableLock::IntentExclusive)
        {
            let own = used.table.name();
            let definition = used.table.definition();
            let counts = definition.indexes.iter().any(|index| {
                let left = Loose::Index {
                    table: own.to_owned(),
                    index: index.name.clone(),
                };
                index.unique
                    && self.transaction.loose.contains(&left)
                    && !self.catalog().uses_index(own, &index.name)
            });
            if counts {
                tables.push(used.oid);
            }
        }
        for oid in &tables {
            self.write_anew(*oid)?;
        }
        Ok(!tables.is_empty())
    }

    /// Fails if others have written a table anew since the snapshot, which sees none of its rows.
    fn keep_tables(&mut self, plan: &Plan) -> Result<()> {
        if self.transaction.isolation == Isolation::ReadCommitted {
            return Ok(());
        }
        let catalog = &self.environment.names.catalog;
        let known = self
            .transaction
            .known
            .get_or_insert_with(|| Arc::clone(catalog));
        let own = &self.environment.host.own_tables;
        for used in &plan.tables {
            let before = known.handle(used.oid).map(Table::id);
            let now = used.table.id();
            if before.is_some_and(|before| before != now) && !own.contains(&now) {
                return Err(written_anew());
            }
        }
        Ok(())
    }

    /// Locks a table for the transaction alone, reads included.
    pub(crate) fn exclude_others(&mut self, table: &Table, wait: indelible::Wait) -> Result<()> {
        let exclusions = &self.sql.exclusions;
        self.transaction
            .exclusion
            .get_or_insert_with(|| exclusions.begin());
        Ok(self
            .connection
            .lock_table(table, TableLock::AccessExclusive, wait)?)
    }

    /// Whether nobody has a table for himself or waits for it.
    pub(super) fn nobody_excludes(&self) -> bool {
        self.sql.exclusions.is_empty()
    }

    /// Whether a plan changes no tables but temporary ones.
    pub(super) fn changes_temporary_only(&self, plan: &Plan) -> bool {
        let names = &self.environment.names;
        let mut used = plan.tables.iter();
        names.temporary.is_some()
            && used.all(|used| {
                let object = names.catalog.object(used.oid);
                used.lock != TableLock::IntentExclusive
                    || object.is_some_and(|object| Some(object.namespace) == names.temporary)
            })
    }
}
