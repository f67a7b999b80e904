//! Transactions: their begin and end, savepoints, and the state after a failure.
//!
//! A transaction that defines objects has the catalogue of its own; it holds the lock of the
//! table of objects, so it is the only one. Its commit replaces the catalogue of all sessions. The
//! things below that it made or no longer needs are loose until its end: those that the catalogue
//! in force then does not name are dropped.

use super::Session;
use crate::Sql;
use crate::catalog::Catalog;
use crate::error::{Result, SqlError, SqlState};
use crate::sink::{Completion, RowSink};
use crate::state::{Announced, Block, Deferred, Loose, Savepoint, Transaction};
use indelible::{CommitReport, Database, Durability, Isolation, Mode};
use sql_parse::{Own, Parsed, ident_text};
use sql_values::setting::{default_of, isolation_named, shown_value};
use sqlparser::ast::{
    Ident, Statement, TransactionAccessMode, TransactionIsolationLevel, TransactionMode,
};
use std::sync::Arc;

impl Session {
    /// Runs one statement in the open transaction, or in an implicit one.
    pub(super) fn statement(
        &mut self,
        parsed: &Parsed,
        sink: &mut dyn RowSink,
    ) -> Result<Completion> {
        self.guarded(|session| match session.control(parsed)? {
            Some(completion) => Ok(completion),
            None => session.attempt(|session| session.execute(parsed, sink)),
        })
    }

    /// Calls `body`; if it fails, so does the transaction.
    pub(super) fn guarded<R>(&mut self, body: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let result = body(self);
        if result.is_err() {
            self.fail();
        }
        result
    }

    /// The transaction has failed: a block waits for its end, anything else is undone at once.
    /// Every statement that fails does this; callers do it for failures of their own.
    pub fn fail(&mut self) {
        match self.transaction.block {
            Block::Open | Block::Failed => {
                // Nothing but its end can follow, so nobody waits for its locks.
                if self.transaction.savepoints.is_empty() {
                    self.sweep_undone(&[]);
                    self.connection.abort();
                }
                self.transaction.block = Block::Failed;
                self.undo_settings(self.transaction.level());
            }
            Block::Implicit | Block::Idle => self.abort(),
        }
    }

    /// Runs a statement that can be undone alone.
    pub(super) fn attempt<R>(&mut self, body: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        if self.transaction.block == Block::Failed {
            return Err(failed_block());
        }
        match self.transaction.block {
            // The statement begins with its transaction.
            Block::Idle => self.begin(Block::Implicit)?,
            _ => self.environment.statement_start = self.environment.begins_at(),
        }
        self.environment.host.begin_statement();
        let defined = self.transaction.defines.then(|| Arc::clone(self.catalog()));
        self.refresh_catalog();
        let mark = self.connection.statement()?;
        self.environment.host.modes = self.transaction.shown();
        let mut result = body(self);
        if let Err(error) = &result
            && error.state == SqlState::LOCK_NOT_AVAILABLE
        {
            // A wait that the statement's time has ended is no wait for a lock that was too long.
            result = self.environment.host.check_deadline().and(result);
        }
        for (name, value, is_local) in std::mem::take(&mut self.environment.host.changes) {
            if result.is_ok() {
                self.set_variable(&name, Some(&value), is_local)?;
            }
        }
        if result.is_err() && self.connection.is_open() {
            let mut kept = self.kept_catalogs(self.transaction.savepoints.len());
            kept.extend(defined.clone());
            self.sweep_undone(&kept);
            self.connection.roll_back_to(mark)?;
            // Others may define things again.
            self.transaction.defines = defined.is_some();
            self.environment.names.catalog = defined.unwrap_or_else(|| self.sql.catalog());
        }
        result
    }

    pub(super) fn begin(&mut self, block: Block) -> Result<()> {
        let modes = self.environment.host.variables.modes();
        self.transaction.isolation = modes.isolation;
        self.transaction.isolation_name = modes.isolation_name;
        self.transaction.access = modes.access;
        self.transaction.defers = modes.defers;
        self.start(block)
    }

    fn start(&mut self, block: Block) -> Result<()> {
        let Transaction {
            isolation, access, ..
        } = self.transaction;
        self.begin_below(isolation, access)?;
        self.environment.host.transaction = self.sql.next_transaction();
        self.transaction.block = block;
        self.transaction.has_read = false;
        self.environment.host.variables.enter(1);
        self.environment.begin_transaction();
        Ok(())
    }

    /// Commits the transaction of statements that were sent together.
    pub(super) fn end_implicit(&mut self) -> Result<()> {
        match self.transaction.block {
            Block::Implicit => self.commit(),
            _ => Ok(()),
        }
    }

    /// Commits the open transaction; whatever happens, it has ended.
    pub(super) fn commit(&mut self) -> Result<()> {
        let checked = self.end_deferral();
        let ready = checked.and_then(|()| self.hold_cursors());
        if let Err(error) = ready.and_then(|()| self.end_temporary()) {
            self.abort();
            return Err(error);
        }
        let announced = std::mem::take(&mut self.environment.host.announced);
        // All sessions count on it, so that a commit leaves the count alone if it can.
        let has_more = self.transaction.defines || !announced.notifications.is_empty();
        let sql = has_more.then(|| Arc::clone(&self.sql));
        let sql = sql.as_deref();
        let turn = sql.map(|sql| sql.registry.begin_delivery(&announced.notifications));
        let turn = match turn.transpose() {
            Ok(turn) => turn,
            Err(error) => {
                self.abort();
                return Err(error);
            }
        };
        self.close_portals();
        let durability = self.environment.host.variables.modes().durability;
        let committed = match sql {
            Some(sql) if self.transaction.defines => self.commit_definitions(sql, durability),
            _ => self.connection.commit(durability).map_err(SqlError::from),
        };
        self.end();
        self.end_settings(committed.is_ok());
        let report = committed?;
        self.environment.host.peer.counts.committed(&report);
        self.last_commit = Some(report);
        self.announce(announced);
        drop(turn);
        Ok(())
    }

    /// Commits a transaction that has defined objects.
    ///
    /// A session that waits for its locks, or for its catalogue, finds no index any more that this
    /// catalogue does not name: plans are made of those that a table has below, and a unique one
    /// counts for all who write.
    fn commit_definitions(&mut self, sql: &Sql, durability: Durability) -> Result<CommitReport> {
        let mut shared = sql.catalog_to_replace();
        let own = Arc::clone(self.catalog());
        let is_left = |loose: &mut Loose| match loose {
            Loose::Index { table, index } => !own.uses_index(table, index),
            Loose::Table(_) | Loose::Sequence(_) => false,
        };
        let loose = &mut self.transaction.loose;
        let left: Vec<Loose> = loose.extract_if(.., is_left).collect();
        let database = sql.database();
        let committed = (self.connection).commit_then(durability, || drop_indexes(database, &left));
        if committed.is_ok() {
            self.forget_ended(&shared);
            *shared = Arc::clone(self.catalog());
        } else {
            self.transaction.loose.extend(left);
        }
        Ok(committed?)
    }

    /// Takes the temporary objects of sessions that have ended since the transaction has its own
    /// catalogue out of that: they are no longer in the one that it is going to replace.
    fn forget_ended(&mut self, shared: &Catalog) {
        let names = &mut self.environment.names;
        let own = names.temporary;
        let schemas = names.catalog.temporary_schemas();
        let ended = schemas.filter(|oid| Some(*oid) != own && shared.object(*oid).is_none());
        for schema in ended.collect::<Vec<_>>() {
            Arc::make_mut(&mut names.catalog).remove_schema(schema);
        }
    }

    /// Listens to other channels, and tells others what the transaction has announced.
    fn announce(&self, announced: Announced) {
        for change in announced.listens {
            self.environment.host.peer.listen(change);
        }
        self.sql.registry.deliver(&announced.notifications);
    }

    /// Undoes the open transaction, if there is one.
    pub(super) fn abort(&mut self) {
        if self.transaction.block != Block::Idle {
            self.environment.host.peer.counts.rolled_back();
        }
        self.close_portals();
        self.sweep_undone(&[]);
        self.connection.abort();
        self.end();
        self.end_settings(false);
    }

    pub(super) fn end(&mut self) {
        self.environment.host.announced = Announced::default();
        self.environment.host.deferred = Deferred::default();
        let loose = std::mem::take(&mut self.transaction.loose);
        self.transaction = Transaction::idle();
        self.environment.host.new_tables.clear();
        self.environment.host.own_tables.clear();
        self.environment.host.row_places.end();
        self.refresh_catalog();
        self.environment.host.variables.enter(0);
        if self.environment.names.role != self.environment.host.session_role {
            self.apply_role();
        }
        for loose in &loose {
            self.sweep(loose);
        }
    }

    /// Drops a thing below that the catalogue does not name. If that fails, the next opening of
    /// the database drops it.
    fn sweep(&self, loose: &Loose) {
        let (catalog, database) = (self.catalog(), self.sql.database());
        match loose {
            Loose::Table(name) if !catalog.uses(name) => {
                if let Ok(table) = database.table(name) {
                    self.sql.forget_numbers(table.id());
                    let _ = database.drop_table(name);
                }
            }
            Loose::Index { table, index } if !catalog.uses_index(table, index) => {
                drop_indexes(database, std::slice::from_ref(loose));
            }
            Loose::Sequence(number) if !catalog.uses_sequence(*number) => {
                self.sql.sequences.forget(*number);
                let _ = crate::state::delete_sequence(database, *number);
            }
            Loose::Table(_) | Loose::Index { .. } | Loose::Sequence(_) => {}
        }
    }

    /// Statements that begin and end transactions; none for all others.
    pub(super) fn control(&mut self, parsed: &Parsed) -> Result<Option<Completion>> {
        if let Some(Own::TwoPhase { phase, name }) = parsed.own.as_deref() {
            return self.two_phase(*phase, name).map(Some);
        }
        let command = match &*parsed.statement {
            Statement::StartTransaction { modes, begin, .. } => {
                self.begin_block(modes)?;
                self.transaction.defers = parsed.deferrable.unwrap_or(self.transaction.defers);
                if *begin { "BEGIN" } else { "START TRANSACTION" }
            }
            Statement::Commit { chain, .. } => self.commit_block(*chain)?,
            Statement::Rollback {
                chain,
                savepoint: None,
            } => {
                self.roll_back_block(*chain)?;
                "ROLLBACK"
            }
            Statement::Rollback {
                savepoint: Some(name),
                ..
            } => {
                self.roll_back_to(name)?;
                "ROLLBACK"
            }
            Statement::Savepoint { name } => {
                self.savepoint(name)?;
                "SAVEPOINT"
            }
            Statement::ReleaseSavepoint { name } => {
                self.release(name)?;
                "RELEASE"
            }
            _ => return Ok(None),
        };
        Ok(Some(Completion::new(command)))
    }

    fn begin_block(&mut self, modes: &[TransactionMode]) -> Result<()> {
        match self.transaction.block {
            Block::Idle => {
                self.begin(Block::Open)?;
            }
            Block::Implicit => {
                // The statements before it may have read, and then no block begins.
                self.set_modes(modes)?;
                self.transaction.block = Block::Open;
                return Ok(());
            }
            Block::Open => {
                let message = "there is already a transaction in progress";
                self.environment
                    .host
                    .warning(SqlState::ACTIVE_SQL_TRANSACTION, message);
            }
            Block::Failed => return Err(failed_block()),
        }
        self.set_modes(modes)
    }

    /// Gives the open transaction other modes, before it has read anything.
    pub(super) fn set_modes(&mut self, modes: &[TransactionMode]) -> Result<()> {
        let (mut isolation, mut access) = (self.transaction.isolation, self.transaction.access);
        let mut name = self.transaction.isolation_name;
        for mode in modes {
            match mode {
                TransactionMode::IsolationLevel(level) => {
                    (isolation, name) = isolation_of(*level);
                }
                TransactionMode::AccessMode(TransactionAccessMode::ReadOnly) => {
                    access = Mode::ReadOnly;
                }
                TransactionMode::AccessMode(TransactionAccessMode::ReadWrite) => {
                    access = Mode::ReadWrite;
                }
            }
        }
        self.change_modes(isolation, name, access)
    }

    /// Gives the open transaction a mode by the setting that shows it; its default if there is no
    /// value. Outside of transactions the value is checked only: the next one has modes of its own.
    pub(super) fn set_mode(&mut self, setting: &str, value: Option<&str>) -> Result<()> {
        let value = value.or(default_of(setting)).unwrap_or_default();
        let shown = shown_value(setting, value)?;
        if self.transaction.block == Block::Idle {
            return Ok(());
        }
        let (isolation, name, access, _) = self.transaction.modes();
        match setting {
            "transaction_isolation" => {
                let (isolation, name) = isolation_named(&shown).unwrap_or((isolation, name));
                self.change_modes(isolation, name, access)
            }
            "transaction_read_only" => {
                let access = if shown == "on" {
                    Mode::ReadOnly
                } else {
                    Mode::ReadWrite
                };
                self.change_modes(isolation, name, access)
            }
            _ => self.set_defers(shown == "on"),
        }
    }

    fn change_modes(
        &mut self,
        isolation: Isolation,
        name: &'static str,
        access: Mode,
    ) -> Result<()> {
        let is_so = name == self.transaction.isolation_name;
        if is_so && access == self.transaction.access {
            return Ok(());
        }
        let (has_begun, is_inside) = (self.has_begun(), self.is_in_savepoint());
        let message = match access {
            _ if !has_begun && !is_inside => None,
            _ if !is_so && has_begun => {
                Some("SET TRANSACTION ISOLATION LEVEL must be called before any query")
            }
            _ if !is_so => {
                Some("SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction")
            }
            Mode::ReadWrite if is_inside => {
                Some("cannot set transaction read-write mode inside a read-only transaction")
            }
            Mode::ReadWrite => Some("transaction read-write mode must be set before any query"),
            Mode::ReadOnly => {
                // The session refuses changes; the connection need not know.
                self.transaction.access = access;
                return Ok(());
            }
        };
        if let Some(message) = message {
            return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
        }
        self.transaction.isolation = isolation;
        self.transaction.isolation_name = name;
        self.transaction.access = access;
        let access = self.access_below(access);
        Ok(self.connection.change_modes(isolation, access)?)
    }

    /// Makes the open transaction `DEFERRABLE` or not, before it has read anything.
    pub(super) fn set_defers(&mut self, defers: bool) -> Result<()> {
        let message = if self.is_in_savepoint() {
            "SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction"
        } else if self.has_begun() {
            "SET TRANSACTION [NOT] DEFERRABLE must be called before any query"
        } else {
            self.transaction.defers = defers;
            return Ok(());
        };
        Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message))
    }

    /// Whether the transaction has looked at anything, or changed it.
    fn has_begun(&self) -> bool {
        self.transaction.has_read || self.transaction.defines
    }

    fn is_in_savepoint(&self) -> bool {
        !self.transaction.savepoints.is_empty()
    }

    /// Begins the transaction of the connection.
    fn begin_below(&mut self, isolation: Isolation, access: Mode) -> Result<()> {
        let access = self.access_below(access);
        Ok(self.connection.begin_with(isolation, access)?)
    }

    /// The access of the connection's transaction. One that only reads may change temporary tables,
    /// and the session refuses all other changes.
    fn access_below(&self, access: Mode) -> Mode {
        match self.environment.names.temporary {
            Some(_) => Mode::ReadWrite,
            None => access,
        }
    }

    fn commit_block(&mut self, chain: bool) -> Result<&'static str> {
        self.check_chain(chain, "COMMIT AND CHAIN")?;
        let modes = self.transaction.modes();
        let command = match self.transaction.block {
            Block::Idle => {
                self.warn_without_block();
                return Ok("COMMIT");
            }
            Block::Failed => {
                self.abort();
                "ROLLBACK"
            }
            Block::Implicit => {
                self.warn_without_block();
                self.commit()?;
                "COMMIT"
            }
            Block::Open => {
                self.commit()?;
                "COMMIT"
            }
        };
        self.chain(chain, modes)?;
        Ok(command)
    }

    /// Whether statements that follow are of the same transaction: in a block, and in a text of
    /// several statements.
    pub(crate) fn is_in_block(&self) -> bool {
        self.transaction.is_block() || self.is_together
    }

    /// Warns of a command that means nothing where its transaction ends with it.
    pub(super) fn warn_outside_block(&mut self, command: &str) {
        if !self.is_in_block() {
            let warning = needs_block(command);
            let host = &mut self.environment.host;
            host.warning(warning.state, warning.message);
        }
    }

    /// Warns of a statement that ends a block where there is none.
    pub(super) fn warn_without_block(&mut self) {
        let message = "there is no transaction in progress";
        let state = SqlState::NO_ACTIVE_SQL_TRANSACTION;
        self.environment.host.warning(state, message);
    }

    /// Only a block can be followed by another one.
    fn check_chain(&self, chain: bool, command: &str) -> Result<()> {
        if chain && !self.transaction.is_block() {
            return Err(needs_block(command));
        }
        Ok(())
    }

    fn roll_back_block(&mut self, chain: bool) -> Result<()> {
        self.check_chain(chain, "ROLLBACK AND CHAIN")?;
        let modes = self.transaction.modes();
        if matches!(self.transaction.block, Block::Idle | Block::Implicit) {
            self.warn_without_block();
        }
        self.abort();
        self.chain(chain, modes)
    }

    /// Begins the transaction of `AND CHAIN`.
    fn chain(
        &mut self,
        chain: bool,
        (isolation, name, access, defers): (Isolation, &'static str, Mode, bool),
    ) -> Result<()> {
        if !chain {
            return Ok(());
        }
        self.transaction.isolation = isolation;
        self.transaction.isolation_name = name;
        self.transaction.access = access;
        self.transaction.defers = defers;
        self.start(Block::Open)
    }

    fn savepoint(&mut self, name: &Ident) -> Result<()> {
        match self.transaction.block {
            Block::Failed => return Err(failed_block()),
            Block::Idle | Block::Implicit => return Err(needs_block("SAVEPOINT")),
            Block::Open => {}
        }
        self.begin_savepoint(ident_text(name))
    }

    /// Begins a savepoint in the open transaction.
    pub(super) fn begin_savepoint(&mut self, name: String) -> Result<()> {
        let savepoint = Savepoint {
            name,
            mark: self.connection.statement()?,
            catalog: Arc::clone(self.catalog()),
            defines: self.transaction.defines,
            announced: self.environment.host.announced.point(),
            deferred: self.environment.host.deferred.clone(),
            access: self.transaction.access,
        };
        self.transaction.savepoints.push(savepoint);
        let level = self.transaction.level();
        self.environment.host.variables.enter(level);
        self.environment.host.new_tables.clear();
        Ok(())
    }

    fn find_savepoint(&self, name: &Ident) -> Result<usize> {
        let name = ident_text(name);
        let mut savepoints = self.transaction.savepoints.iter();
        savepoints
            .rposition(|savepoint| savepoint.name == name)
            .ok_or_else(|| {
                let message = format!("savepoint \"{name}\" does not exist");
                SqlError::new(SqlState::INVALID_SAVEPOINT_SPECIFICATION, message)
            })
    }

    fn roll_back_to(&mut self, name: &Ident) -> Result<()> {
        if !self.transaction.is_block() {
            return Err(needs_block("ROLLBACK TO SAVEPOINT"));
        }
        let at = self.find_savepoint(name)?;
        self.return_to(at)?;
        self.transaction.block = Block::Open;
        Ok(())
    }

    /// Undoes what has come since the savepoint at a place, which stays.
    pub(super) fn return_to(&mut self, at: usize) -> Result<()> {
        let kept = self.kept_catalogs(at + 1);
        self.sweep_undone(&kept);
        let savepoint = &self.transaction.savepoints[at];
        self.connection.roll_back_to(savepoint.mark)?;
        self.environment.names.catalog = Arc::clone(&savepoint.catalog);
        self.transaction.defines = savepoint.defines;
        self.environment
            .host
            .announced
            .truncate(savepoint.announced);
        self.environment.host.deferred = savepoint.deferred.clone();
        self.transaction.access = savepoint.access;
        self.transaction.savepoints.truncate(at + 1);
        let level = self.transaction.level();
        self.undo_settings(level);
        self.environment.host.variables.enter(level);
        self.undo_portals(level);
        Ok(())
    }

    /// The catalogues to which so many savepoints go back.
    fn kept_catalogs(&self, savepoints: usize) -> Vec<Arc<Catalog>> {
        let kept = self.transaction.savepoints.iter().take(savepoints);
        kept.map(|savepoint| Arc::clone(&savepoint.catalog))
            .collect()
    }

    /// Drops the indexes that were made and that no catalogue names to which the transaction goes
    /// back. Their tables are still locked: a unique one counts for all who write.
    fn sweep_undone(&mut self, kept: &[Arc<Catalog>]) {
        if self.transaction.loose.is_empty() {
            return;
        }
        let committed = self.sql.catalog();
        let is_undone = |loose: &mut Loose| match loose {
            Loose::Index { table, index } => {
                let mut catalogs = kept.iter().chain([&committed]);
                !catalogs.any(|catalog| catalog.uses_index(table, index))
            }
            Loose::Table(_) | Loose::Sequence(_) => false,
        };
        let loose = &mut self.transaction.loose;
        let undone: Vec<Loose> = loose.extract_if(.., is_undone).collect();
        drop_indexes(self.sql.database(), &undone);
    }

    fn release(&mut self, name: &Ident) -> Result<()> {
        match self.transaction.block {
            Block::Failed => return Err(failed_block()),
            Block::Idle | Block::Implicit => return Err(needs_block("RELEASE SAVEPOINT")),
            Block::Open => {}
        }
        let at = self.find_savepoint(name)?;
        self.release_from(at);
        Ok(())
    }

    /// Makes what has come since the savepoint at a place a part of what was before it.
    pub(super) fn release_from(&mut self, at: usize) {
        self.transaction.access = self.transaction.savepoints[at].access;
        self.transaction.savepoints.truncate(at);
        let level = self.transaction.level();
        self.release_settings(level);
        self.release_portals(level);
    }
}

/// Drops indexes below. If that fails, the next opening of the database drops them.
fn drop_indexes(database: &Database, indexes: &[Loose]) {
    for loose in indexes {
        if let Loose::Index { table, index } = loose
            && let Ok(table) = database.table(table)
        {
            let _ = database.drop_index(&table, index);
        }
    }
}

/// The error of a statement in a block that has failed.
pub(super) fn failed_block() -> SqlError {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    SqlError::new(SqlState::IN_FAILED_SQL_TRANSACTION, message)
}

/// The error of a statement that makes sense in a block only.
pub(super) fn needs_block(command: &str) -> SqlError {
    let message = format!("{command} can only be used in transaction blocks");
    SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message)
}

/// The isolation of a level, and its name.
fn isolation_of(level: TransactionIsolationLevel) -> (Isolation, &'static str) {
    let name = level.to_string().to_lowercase();
    isolation_named(&name).unwrap_or((Isolation::RepeatableRead, "repeatable read"))
}
