//! Statements that change no object but have to be understood: maintenance, locks, comments.
//!
//! `TRUNCATE` gives a table an empty one below, so it costs the same for any number of rows and is
//! undone with its transaction.

use super::reindex::is_of_system;
use crate::catalog::{Body, Object, Oid, Privilege, is_typed};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::Expr;
use crate::session::Session;
use crate::sink::Completion;
use crate::state::{Listen, SessionSequences};
use crate::types::{Datum, Kind};
use indelible::{TableLock, Wait};
use sql_parse::{Path, ident_text, object_name};
use sqlparser::ast::{
    DiscardObject, Lock, LockTableMode, ObjectName, OnCommit, Statement, Truncate,
};
use std::sync::Arc;

/// Runs such a statement; none if it is another one.
pub(super) fn run(session: &mut Session, statement: &Statement) -> Result<Option<Completion>> {
    let command = match statement {
        Statement::Vacuum(vacuum) => {
            if session.transaction.is_block() {
                let message = "VACUUM cannot run inside a transaction block";
                return Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message));
            }
            if vacuum.recluster {
                session.analyze(vacuum.table_name.as_ref())?;
            }
            "VACUUM"
        }
        Statement::Analyze(analyze) => {
            session.analyze(analyze.table_name.as_ref())?;
            "ANALYZE"
        }
        Statement::Lock(lock) => {
            session.lock_tables(lock)?;
            "LOCK TABLE"
        }
        Statement::Truncate(truncate) => {
            session.truncate(truncate)?;
            "TRUNCATE TABLE"
        }
        Statement::Discard { object_type } => match object_type {
            DiscardObject::ALL => {
                session.must_be_alone("DISCARD ALL")?;
                session.reset_everything()?;
                session.drop_temporary()?;
                "DISCARD ALL"
            }
            DiscardObject::SEQUENCES => {
                session.environment.host.sequences = SessionSequences::default();
                "DISCARD SEQUENCES"
            }
            DiscardObject::TEMP => {
                session.drop_temporary()?;
                "DISCARD TEMP"
            }
            // Plans are made again when they are out of date.
            DiscardObject::PLANS => "DISCARD PLANS",
        },
        Statement::LISTEN { channel } => {
            session.listen(Listen::Begin(ident_text(channel)));
            "LISTEN"
        }
        Statement::UNLISTEN { channel } if channel.value == "*" => {
            session.listen(Listen::EndAll);
            "UNLISTEN"
        }
        Statement::UNLISTEN { channel } => {
            session.listen(Listen::End(ident_text(channel)));
            "UNLISTEN"
        }
        Statement::NOTIFY { channel, payload } => {
            let payload = payload.as_deref().unwrap_or_default();
            let host = &mut session.environment.host;
            host.announced
                .notify(host.peer.number, &ident_text(channel), payload)?;
            "NOTIFY"
        }
        _ => return Ok(None),
    };
    Ok(Some(Completion::new(command)))
}

/// Takes a change of how a table should be stored, and does nothing: that is the method's matter.
pub(super) fn storage(
    session: &mut Session,
    (path, if_exists): (&Path, bool),
    column: Option<&str>,
) -> Result<Completion> {
    let completion = Completion::new("ALTER TABLE");
    let object = match session.relation_or_index(path) {
        Ok(object) => object,
        Err(error) if if_exists => {
            let notice = format!("{}, skipping", error.message);
            session.environment.host.notice(notice);
            return Ok(completion);
        }
        Err(error) => return Err(error),
    };
    session.must_own(&object)?;
    match (&object.body, column) {
        (Body::Table(body), Some(column)) if body.column(column).is_none() => {
            Err(super::alter::no_column(column, &object.name))
        }
        _ => Ok(completion),
    }
}

impl Session {
    /// Keeps what is to happen to a temporary table at the end of a transaction.
    pub(super) fn note_on_commit(&mut self, oid: Oid, on_commit: Option<&OnCommit>) {
        match on_commit {
            Some(OnCommit::Drop) => self.on_commit.push((oid, true)),
            Some(OnCommit::DeleteRows) => self.on_commit.push((oid, false)),
            Some(OnCommit::PreserveRows) | None => {}
        }
    }

    /// Empties and drops temporary tables that do not outlive a transaction.
    pub(crate) fn end_temporary(&mut self) -> Result<()> {
        if self.on_commit.is_empty() {
            return Ok(());
        }
        // The rows of temporary tables go, even where the transaction has changed nothing else.
        self.transaction.access = indelible::Mode::ReadWrite;
        for (oid, is_dropped) in self.on_commit.clone() {
            let Some(object) = self.catalog().object(oid).cloned() else {
                continue;
            };
            if !is_dropped
                && !self.has_row(oid, Expr::Constant(Datum::Bool(true), Kind::Bool.plain()))?
            {
                continue;
            }
            self.begin_definition()?;
            if is_dropped {
                self.drop_with_dependents(&object, true)?;
            } else {
                self.empty(&object, false)?;
            }
        }
        let catalog = Arc::clone(&self.environment.names.catalog);
        self.on_commit
            .retain(|(oid, _)| catalog.object(*oid).is_some());
        Ok(())
    }

    /// Fails if others belong to the transaction of a statement which cannot be undone.
    fn must_be_alone(&self, command: &str) -> Result<()> {
        let place = match () {
            () if self.is_in_block() => "run inside a transaction block",
            () if self.transaction.has_read => "be executed within a pipeline",
            () => return Ok(()),
        };
        let message = format!("{command} cannot {place}");
        Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message))
    }

    /// Drops the temporary objects of the session.
    fn drop_temporary(&mut self) -> Result<()> {
        let Some(namespace) = self.environment.names.temporary else {
            return Ok(());
        };
        let is_inside = |object: &&Arc<Object>| object.namespace == namespace;
        // A session without any does not wait for the definitions of others.
        if !self.catalog().objects().any(|object| is_inside(&object)) {
            return Ok(());
        }
        self.begin_definition()?;
        loop {
            // A sequence goes with the table of its column.
            let inside = self.catalog().objects().filter(is_inside);
            let next = inside.min_by_key(|object| matches!(object.body, Body::Sequence(_)));
            let Some(object) = next.cloned() else {
                return Ok(());
            };
            self.drop_with_dependents(&object, true)?;
        }
    }

    /// Changes the channels that the session listens to, at the commit of the transaction.
    fn listen(&mut self, change: Listen) {
        self.environment.host.announced.listens.push(change);
    }

    /// A table by its name.
    pub(super) fn named_table(&self, name: &ObjectName) -> Result<Arc<Object>> {
        let object = self.relation_named(name)?;
        if matches!(object.body, Body::Table(_)) {
            return Ok(object);
        }
        let message = format!("\"{}\" is not a table", object.name);
        Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
    }

    fn analyze(&mut self, name: Option<&ObjectName>) -> Result<()> {
        let tables = match name {
            Some(name) => {
                let (schema, table) = object_name(name)?;
                if is_of_system(&Path {
                    schema,
                    name: table,
                }) {
                    return Ok(());
                }
                vec![self.named_table(name)?]
            }
            None => self.catalog().objects().cloned().collect(),
        };
        let role = self.environment.names.role;
        for object in tables {
            if let Some(handle) = self.catalog().handle(object.oid).cloned() {
                if !self.catalog().owns(role, object.oid) {
                    let message = format!(
                        "skipping \"{}\" --- only table or database owner can analyze it",
                        object.name
                    );
                    self.environment.host.warning(SqlState("01000"), message);
                    continue;
                }
                let made = self.sql.analyze(&handle, || true);
                // A table that others have dropped or written anew has none of these rows.
                let newest = self.sql.catalog();
                let newest = newest.handle(object.oid).map(indelible::Table::id);
                made.or_else(|error| match newest {
                    Some(id) if id == handle.id() => Err(error),
                    _ => Ok(()),
                })?;
            }
        }
        Ok(())
    }

    fn lock_tables(&mut self, lock: &Lock) -> Result<()> {
        if !self.is_in_block() {
            let message = "LOCK TABLE can only be used in transaction blocks";
            return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
        }
        let mode = match lock
            .lock_mode
            .as_ref()
            .unwrap_or(&LockTableMode::AccessExclusive)
        {
            LockTableMode::AccessShare => TableLock::AccessShare,
            LockTableMode::RowShare => TableLock::IntentShared,
            LockTableMode::RowExclusive => TableLock::IntentExclusive,
            LockTableMode::ShareUpdateExclusive => TableLock::ShareUpdateExclusive,
            LockTableMode::Share => TableLock::Shared,
            LockTableMode::ShareRowExclusive => TableLock::SharedIntentExclusive,
            LockTableMode::Exclusive => TableLock::Exclusive,
            LockTableMode::AccessExclusive => TableLock::AccessExclusive,
        };
        let wait = if lock.nowait {
            Wait::Never
        } else {
            self.environment.wait()
        };
        for target in &lock.tables {
            while self.lock_named(&target.name, mode, wait)? {}
        }
        Ok(())
    }

    /// Locks a table by its name. True if the name may be that of another table by now, after a
    /// wait.
    fn lock_named(&mut self, name: &ObjectName, mode: TableLock, wait: Wait) -> Result<bool> {
        let (schema, short) = object_name(name)?;
        let typed = self.relation_or_typed(schema.as_deref(), &short);
        let object = match typed.filter(|object| is_typed(object.oid)) {
            Some(typed) => typed,
            None => self.named_table(name)?,
        };
        let names = &self.environment.names;
        names.check(names.role, &object, rights_to_lock(mode))?;
        let handle = match is_typed(object.oid) {
            true => Some(self.sql.database().table(&object.name)?),
            false => self.catalog().handle(object.oid).cloned(),
        };
        let Some(handle) = handle else {
            return Ok(false);
        };
        let locked = if mode == TableLock::AccessExclusive {
            self.exclude_others(&handle, wait)
        } else {
            let locked = self.connection.lock_table(&handle, mode, wait);
            locked.map_err(SqlError::from)
        };
        let version = self.catalog().version;
        self.refresh_catalog();
        match locked {
            Err(mut error) if error.state == SqlState::LOCK_NOT_AVAILABLE => {
                if wait == Wait::Never {
                    error.message = format!("could not obtain lock on relation \"{short}\"");
                }
                Err(error)
            }
            Err(error)
                if error.state != SqlState::UNDEFINED_TABLE
                    || version == self.catalog().version =>
            {
                Err(error)
            }
            _ => Ok(version != self.catalog().version),
        }
    }

    /// Fails unless the session's role may empty a table; its partitions and heirs go with it.
    fn may_truncate(&self, object: &Object) -> Result<()> {
        let names = &self.environment.names;
        names.check(names.role, object, Privilege::Truncate.bit())
    }

    /// Gives tables empty tables below.
    fn truncate(&mut self, truncate: &Truncate) -> Result<()> {
        self.begin_definition()?;
        let mut tables = Vec::new();
        for target in &truncate.table_names {
            let object = self.named_table(&target.name)?;
            if super::materialized::materialized(&object).is_some() {
                let message = format!("\"{}\" is not a table", object.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            self.may_truncate(&object)?;
            if let (Body::Table(body), true) = (&object.body, target.only)
                && body.lineage.scheme.is_some()
            {
                let message = "cannot truncate only a partitioned table";
                let hint = "Do not specify the ONLY keyword, or use TRUNCATE ONLY on the partitions directly.";
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).hint(hint));
            }
            for oid in self.family_of(object.oid, target.only) {
                let member = Arc::new(self.altered(oid)?);
                let mut known = tables.iter().map(|known: &Arc<Object>| known.oid);
                if !self.is_others(member.namespace) && known.all(|oid| oid != member.oid) {
                    tables.push(member);
                }
            }
        }
        let cascades = matches!(
            truncate.cascade,
            Some(sqlparser::ast::CascadeOption::Cascade)
        );
        let mut at = 0;
        while let Some(object) = tables.get(at).cloned() {
            at += 1;
            let children: Vec<Arc<Object>> = self
                .catalog()
                .references_from_above(object.oid)
                .map(|(child, ..)| Arc::clone(child))
                .collect();
            for child in children {
                if tables.iter().any(|known| known.oid == child.oid) {
                    continue;
                }
                if !cascades {
                    let message = "cannot truncate a table referenced in a foreign key constraint";
                    let detail =
                        format!("Table \"{}\" references \"{}\".", child.name, object.name);
                    let hint = format!(
                        "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                        child.name
                    );
                    let state = SqlState::FEATURE_NOT_SUPPORTED;
                    return Err(SqlError::new(state, message).detail(detail).hint(hint));
                }
                self.environment
                    .host
                    .notice(format!("truncate cascades to table \"{}\"", child.name));
                self.may_truncate(&child)?;
                tables.push(child);
            }
        }
        let restarts = matches!(
            truncate.identity,
            Some(sqlparser::ast::TruncateIdentityOption::Restart)
        );
        for object in tables {
            self.refuse_readers(&object, "TRUNCATE")?;
            self.empty(&object, restarts)?;
        }
        Ok(())
    }

    pub(super) fn empty(&mut self, object: &Arc<Object>, restarts: bool) -> Result<()> {
        self.lock_alone(object.oid)?;
        let mut object = Object::clone(object);
        if let Body::Table(body) = &object.body {
            self.transaction
                .loose
                .push(crate::state::Loose::Table(body.physical.clone()));
        }
        let handle = self.make_below(&mut object)?;
        let oid = object.oid;
        self.write_object(object, Some(handle))?;
        if restarts {
            let objects = self.catalog().objects();
            let owned = objects.filter(|object| match &object.body {
                Body::Sequence(body) => body.owner.is_some_and(|(table, _)| table == oid),
                _ => false,
            });
            let owned: Vec<Object> = owned.map(|object| Object::clone(object)).collect();
            for mut object in owned {
                if let Body::Sequence(sequence) = &mut object.body {
                    let first = sequence.start;
                    self.restart(sequence, first);
                }
                self.put(object, None)?;
            }
        }
        Ok(())
    }
}

/// The rights of which one is needed to lock a table.
fn rights_to_lock(mode: TableLock) -> i64 {
    let changes = [Privilege::Update, Privilege::Delete, Privilege::Truncate];
    let changes: i64 = changes.iter().map(|right| right.bit()).sum();
    match mode {
        TableLock::AccessShare | TableLock::IntentShared => {
            changes | Privilege::Insert.bit() | Privilege::Select.bit()
        }
        TableLock::IntentExclusive => changes | Privilege::Insert.bit(),
        _ => changes,
    }
}
