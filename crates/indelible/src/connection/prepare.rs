//! Two-phase commit for coordinators: a transaction is prepared under a name, and somebody says
//! later, in whatever session, whether it is committed or undone.
//!
//! Prepare: the reads of a serializable transaction are locked and validated; changes and locks are
//! stored as rows of a hidden table, in one engine transaction. The write set and the session of
//! its locks then leave the connection. Commit: one engine transaction makes the changes and
//! deletes those rows. Undo: one that deletes the rows.
//!
//! Invariants:
//! 1. A transaction is prepared, whatever happens, if and only if its rows are durable.
//! 2. Its locks are held as long as the rows are there and somebody may change anything: they are
//!    taken again before the opening hands out the database.
//! 3. The changes fit when they are made: each changed row is as it was locked, and the definitions
//!    of the tables too.
//!
//! If the medium fails in one of these steps, only the next opening knows whether the rows are
//! there. Until then the locks stay.

use super::change::{Change, Move, Version};
use super::client::{Connection, Open};
use super::clock::Reads;
use super::commit::{CommitReport, Work, add_written};
use super::lists::{self, Lists};
use super::prepared::{Holder, PreparedTransaction};
use super::prepared_body::{self, Body, Written};
use super::read::partition_to_read;
use super::row_locks::{RowLock, is_busy, lock_error, lock_row, lock_unique};
use super::unique::{UniqueKey, unique_keys};
use super::writes::WriteSet;
use crate::core::Core;
use crate::database::Database;
use crate::error::{Advice, Error, Result};
use crate::hidden::HiddenTable;
use crate::lock_policy::LockPolicy;
use crate::session::{PendingAcks, Session};
use crate::table::Table;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use storage::engine::{Durability, Isolation};
use storage::lock::{HeldLock, LockSession, Mode as TableLock};
use storage::record::{KeyBuf, Row, TableId, ValueRef};

/// Bytes of a row of the record.
const PART_BYTES: usize = 32 << 10;
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 199;

impl Connection {
    /// Prepares the open transaction: it leaves the connection, durable with its locks, until
    /// [`Database::commit_prepared`] or [`Database::roll_back_prepared`]. Whatever happens, the
    /// connection's transaction has ended: after an error it is undone, except where the error says
    /// that its outcome is not known. With method `volatile` it ends with the database.
    ///
    /// A serializable transaction keeps what it has read as it is: until its end others wait who
    /// want to change these tables.
    ///
    /// # Errors
    ///
    /// [`Error::PreparedExists`], [`Error::TooManyPrepared`]; [`Error::NotPreparable`] for one with
    /// advisory locks, or a name that is too long; as [`Connection::commit`].
    pub fn prepare(&mut self, facts: &PreparedTransaction) -> Result<()> {
        let mut open = self.take_to_commit()?;
        let mut parts = 0;
        let stored = self.store(&mut open, facts, &mut parts);
        match stored {
            Err(error) if error.advice() != Advice::Stop => {
                self.end_locks();
                self.keep(open);
                Err(error)
            }
            stored => {
                let holder = Holder {
                    writes: Arc::new(std::mem::take(&mut open.writes)),
                    locks: Some(self.take_locks()),
                    parts,
                    problem: stored.is_err().then(unknown_outcome),
                };
                let shared = &self.core().shared;
                shared.enter_prepared();
                shared.prepared.put(&facts.name, Box::new(holder));
                self.keep(open);
                stored
            }
        }
    }

    /// The tables that the open transaction has changed or locked, or rows of them.
    pub fn used_tables(&mut self) -> Result<BTreeSet<TableId>> {
        let locks = self.held_locks();
        Ok(tables_of(&self.open()?.writes, &locks))
    }

    /// Makes the record durable, and counts its rows. After an error that leaves it in doubt the
    /// name stays taken.
    fn store(
        &mut self,
        open: &mut Open,
        facts: &PreparedTransaction,
        parts: &mut i32,
    ) -> Result<()> {
        if self.core().is_read_only() {
            return Err(Error::ReadOnly);
        }
        if facts.name.len() > NAME_BYTES_MAX {
            let reason = "its name has more than 199 bytes";
            return Err(Error::NotPreparable { reason });
        }
        if open.writes.is_unseen() {
            let reason = "its insertion was to be committed at once";
            return Err(Error::NotPreparable { reason });
        }
        if self.has_advisory_locks() {
            let reason = "it holds advisory locks";
            return Err(Error::NotPreparable { reason });
        }
        let kept = self.database.hidden_table(HiddenTable::Prepared)?;
        self.lock_reads(open)?;
        self.lock_listed(&open.writes)?;
        let locks = self.held_locks();
        let tables = tables_of(&open.writes, &locks);
        self.core().shared.prepared.reserve(facts.clone(), tables)?;
        let policy = self.policy();
        let record = Record::new(&self.database, &kept, facts, &open.writes, &locks);
        let stored = record.and_then(|record| {
            *parts = i32::try_from(record.rows.len()).unwrap_or(i32::MAX);
            record.store(self.core(), policy, open)
        });
        match &stored {
            Err(error) if error.advice() != Advice::Stop => {
                self.core().shared.prepared.remove(&facts.name);
            }
            _ => {}
        }
        stored
    }

    /// Locks the tables that a serializable transaction has read, if it changes anything: what it
    /// validates now has to stay until it commits.
    fn lock_reads(&mut self, open: &Open) -> Result<()> {
        if open.isolation != Isolation::Serializable || open.writes.is_empty() {
            return Ok(());
        }
        let tables: BTreeSet<TableId> = open.reads.iter().map(|read| read.table.id()).collect();
        let wait = self.wait.limit();
        let locks = self.locks();
        locks.set_wait_limit(wait);
        tables.into_iter().try_for_each(|table| {
            let locked = locks.lock_table(table, TableLock::Shared);
            locked.map_err(lock_error)
        })
    }

    /// The locks of the transaction on tables and keys that exist.
    fn held_locks(&mut self) -> Vec<HeldLock> {
        let mut held = self.locks().held_locks();
        held.retain(|lock| table_of(lock) != lists::TABLE);
        held
    }

    /// Gives each row that stands in a list a lock of its own: the record has locks only.
    fn lock_listed(&mut self, writes: &WriteSet) -> Result<()> {
        // Others may have such a lock for the moment in which they look at the lists.
        let wait = self.policy().wait_limit;
        let (locks, lists) = self.locks_and_lists();
        if !lists.has_any_of(locks) {
            return Ok(());
        }
        locks.set_wait_limit(wait);
        let mut changes = writes.changes();
        changes.try_for_each(|change| lock_change(locks, lists, change))?;
        lists.replace(locks);
        Ok(())
    }
}

impl Database {
    /// The transactions that are prepared, by their names.
    pub fn prepared_transactions(&self) -> Vec<PreparedTransaction> {
        self.core.shared.prepared.list()
    }

    /// Most transactions that may be prepared at once.
    pub fn prepared_max(&self) -> u32 {
        self.core.shared.prepared.prepared_max()
    }

    /// The transaction that is prepared under a name.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchPrepared`]; [`Error::PreparedBusy`] while somebody prepares or ends it.
    pub fn prepared_transaction(&self, name: &str) -> Result<PreparedTransaction> {
        self.core.check_process()?;
        self.core.shared.prepared.find(name)
    }

    /// Visits the rows that prepared transactions leave in a table, those that they change again
    /// among them. For callers that number rows: nobody else sees these yet.
    pub fn visit_prepared(&self, table: &Table, visit: &mut dyn FnMut(&Row)) {
        self.core.shared.prepared.visit(table.id(), visit);
    }

    /// Commits a prepared transaction, durable at once. If it fails it is prepared as before,
    /// except where the error says that the outcome is not known.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchPrepared`], [`Error::PreparedBusy`]; [`Error::PreparedUnusable`] if it cannot
    /// be committed; errors of the medium.
    pub fn commit_prepared(&self, transaction: &PreparedTransaction) -> Result<CommitReport> {
        self.end_prepared(transaction, |holder, _| match &holder.problem {
            Some(problem) => Err(Error::PreparedUnusable {
                name: transaction.name.clone(),
                problem: problem.clone(),
            }),
            None => Ok(&*holder.writes),
        })
    }

    /// Undoes a prepared transaction.
    ///
    /// # Errors
    ///
    /// As [`Database::commit_prepared`].
    pub fn roll_back_prepared(&self, transaction: &PreparedTransaction) -> Result<()> {
        self.end_prepared(transaction, |_, nothing| Ok(nothing))?;
        Ok(())
    }

    /// Deletes the record of a prepared transaction, and makes the changes that `choose` takes of
    /// it and of an empty set.
    fn end_prepared(
        &self,
        transaction: &PreparedTransaction,
        choose: impl for<'h> FnOnce(&'h Holder, &'h WriteSet) -> Result<&'h WriteSet>,
    ) -> Result<CommitReport> {
        let core = &*self.core;
        core.check_process()?;
        if core.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let kept = self.hidden_table(HiddenTable::Prepared)?;
        let prepared = &core.shared.prepared;
        let mut holder = prepared.take(transaction)?;
        let nothing = WriteSet::default();
        let ended = choose(&holder, &nothing).and_then(|writes| {
            let name = transaction.name.as_str();
            end(core, &kept, (name, holder.parts), writes)
        });
        for change in holder.writes.changes() {
            core.shared.recent.forget(change.table.id(), &change.key);
        }
        let (mut session, report, acks) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                if error.advice() == Advice::Stop {
                    holder.problem = Some(unknown_outcome());
                }
                prepared.put(&transaction.name, holder);
                return Err(error);
            }
        };
        session.release();
        drop(holder);
        prepared.remove(&transaction.name);
        core.shared.leave_prepared();
        if !acks.is_empty() {
            session.await_acks(&acks)?;
        }
        Ok(report)
    }

    /// Finds the transactions that are prepared, and takes their locks. Nobody else has the
    /// database yet.
    pub(crate) fn find_prepared(&self) -> Result<()> {
        let core = &*self.core;
        let Some(kept) = core.hidden_table(HiddenTable::Prepared) else {
            return Ok(());
        };
        let mut bodies: BTreeMap<String, (i32, Vec<u8>)> = BTreeMap::new();
        // Rows of one name are in one partition, in the order of their parts.
        for row in self.read(|reader| reader.collect(&kept, ..))? {
            let name = row.get(0).as_str().unwrap_or_default().to_owned();
            let (parts, body) = bodies.entry(name).or_default();
            *parts += 1;
            body.extend_from_slice(row.get(2).as_bytes().unwrap_or_default());
        }
        for (name, (parts, body)) in bodies {
            self.take_up(&name, parts, &body)?;
        }
        Ok(())
    }

    /// Takes up a prepared transaction from its record.
    fn take_up(&self, name: &str, parts: i32, bytes: &[u8]) -> Result<()> {
        let core = &*self.core;
        let find = |id: TableId, name: &str| {
            if crate::hidden::is_hidden(id) {
                let mut tables = self.all_tables().into_iter();
                tables.find(|table| table.id() == id)
            } else {
                self.table(name).ok()
            }
        };
        let mut writes = WriteSet::default();
        let mut holder = Holder {
            writes: Arc::default(),
            locks: None,
            parts,
            problem: None,
        };
        let mut tables = BTreeSet::new();
        let mut facts = prepared_body::facts(name, bytes).unwrap_or_default();
        name.clone_into(&mut facts.name);
        match prepared_body::decode(name, bytes, find) {
            Err(problem) => holder.problem = Some(problem),
            Ok(_) if core.is_read_only() => {}
            Ok(body) => {
                holder.problem = changes_of(core, &body, &mut writes)?;
                tables = tables_of(&writes, &body.locks);
                let mut locks = core.shared.locks.session();
                match lock_all(&mut locks, &core.shared.lists, &body.locks, &writes) {
                    Err(error) if is_busy(&error) => {
                        let problem = "another prepared transaction has its locks";
                        holder.problem = Some(problem.to_owned());
                    }
                    locked => locked?,
                }
                holder.locks = Some(locks);
                holder.writes = Arc::new(writes);
            }
        }
        core.shared.enter_prepared();
        core.shared.prepared.add(facts, tables, Box::new(holder));
        Ok(())
    }
}

fn unknown_outcome() -> String {
    "the medium has failed, and only the next opening of the database knows its outcome".to_owned()
}

fn table_of(lock: &HeldLock) -> TableId {
    match lock {
        HeldLock::Table { table, .. } | HeldLock::Key { table, .. } => *table,
    }
}

/// The tables of changes and locks.
fn tables_of(writes: &WriteSet, locks: &[HeldLock]) -> BTreeSet<TableId> {
    let of_locks = locks.iter().map(table_of);
    let of_changes = writes.changes().map(|change| change.table.id());
    of_locks.chain(of_changes).collect()
}

/// The rows that store a prepared transaction.
struct Record {
    kept: Table,
    rows: Vec<Row>,
}

impl Record {
    fn new(
        database: &Database,
        kept: &Table,
        facts: &PreparedTransaction,
        writes: &WriteSet,
        locks: &[HeldLock],
    ) -> Result<Self> {
        let tables = database.all_tables();
        let name_of = |id: TableId| {
            let table = tables.iter().find(|table| table.id() == id);
            table.map_or_else(String::new, |table| table.name().to_owned())
        };
        let body = prepared_body::encode(facts, writes.changes(), locks, name_of);
        let rows = (0_i32..).zip(body.chunks(PART_BYTES)).map(|(part, bytes)| {
            let mut row = kept.row();
            row.set(0, facts.name.as_str())?;
            row.set(1, part)?;
            row.set(2, bytes)?;
            Ok(row)
        });
        Ok(Self {
            kept: kept.clone(),
            rows: rows.collect::<Result<_>>()?,
        })
    }

    /// Stores it, after the validation of what the transaction has read.
    fn store(&self, core: &Core, policy: LockPolicy, open: &mut Open) -> Result<()> {
        // Whatever it has shown to its client must be as durable as itself.
        let mut partitions = std::mem::take(&mut open.touched);
        if core.commits_fence() {
            partitions.clear();
        }
        let reads = open.end_snapshot().filter(|_| !open.writes.is_empty());
        let name = self.rows.first().map_or(ValueRef::Null, |row| row.get(0));
        partitions.push(partition_to_read(&self.kept, name)?);
        partitions.sort_unstable();
        partitions.dedup();
        let also = |session: &mut Session<'_>| {
            for change in open.writes.changes() {
                // The drop of a table looks for prepared transactions first.
                change.table.check(core.serial)?;
            }
            let mut rows = self.rows.iter();
            rows.try_for_each(|row| session.insert(&self.kept, row))
        };
        let work = Work {
            partitions: &partitions,
            writes: &WriteSet::default(),
            reads: reads
                .as_ref()
                .map(|(view, intervals)| Reads { view, intervals }),
            looked_at: Some(&open.writes),
            also: Some(&also),
        };
        let (mut session, _, acks) = work.commit(core, policy, Durability::Immediate)?;
        session.release();
        session.await_acks(&acks)
    }
}

/// Makes the changes and deletes the record, in one engine transaction.
fn end<'db>(
    core: &'db Core,
    kept: &Table,
    (name, parts): (&str, i32),
    writes: &WriteSet,
) -> Result<(Session<'db>, CommitReport, PendingAcks)> {
    let mut partitions = vec![partition_to_read(kept, name.into())?];
    add_written(core, writes, &mut partitions)?;
    partitions.sort_unstable();
    partitions.dedup();
    let also = |session: &mut Session<'_>| {
        (0..parts).try_for_each(|part| session.delete(kept, &(name, part)).map(drop))
    };
    let work = Work {
        partitions: &partitions,
        writes,
        reads: None,
        looked_at: None,
        also: Some(&also),
    };
    let policy = LockPolicy {
        isolation: Isolation::ReadCommitted,
        ..core.lock_policy
    };
    work.commit(core, policy, Durability::Immediate)
}

/// Fills the write set as it was, with the rows as they are now; a problem, if one does not fit.
fn changes_of(core: &Core, body: &Body, writes: &mut WriteSet) -> Result<Option<String>> {
    let mut session = Session::of_connection(core, core.lock_policy)?;
    for (table, written) in &body.changes {
        let (Written::Insert(row) | Written::Update(row) | Written::Delete(row)) = written;
        let shape = &table.entry.shape;
        let mut key = KeyBuf::new();
        shape.primary.encode_row(row, &mut key)?;
        let own = writes.version(table.id(), &key, writes.number());
        let before: Version = if let Some(own) = own {
            own.clone()
        } else {
            let partition = partition_to_read(table, row.get(shape.def.primary_key[0]))?;
            let mut found = table.row();
            let engine = session.engine(partition)?;
            let is_there = engine.get(table.id(), &key, &mut found)?;
            is_there.then(|| Arc::new(found))
        };
        let mut update = None;
        let (before, after) = match (written, before) {
            (Written::Insert(row), None) => (None, Some(row)),
            (Written::Update(row), Some(before)) => {
                let mut difference = table.changes();
                for column in 0..shape.def.columns.len() {
                    if before.get(column) != row.get(column) {
                        difference.set(column, row.get(column))?;
                    }
                }
                update = Some(difference);
                (Some(before), Some(row))
            }
            (Written::Delete(_), Some(before)) => (Some(before), None),
            _ => {
                return Ok(Some(format!(
                    "a row of table `{}` has changed",
                    table.name()
                )));
            }
        };
        writes.push(Change {
            table: table.clone(),
            key,
            before,
            after: after.map(|row| Arc::new(row.clone())),
            update,
            moved: Move::None,
        });
    }
    session.end_reading()?;
    Ok(None)
}

/// Takes the locks of a prepared transaction: those of its list; and, since a restored database
/// encodes keys and numbers indexes in its own way, those of the rows that it changes.
fn lock_all(
    locks: &mut LockSession,
    lists: &Lists,
    held: &[HeldLock],
    writes: &WriteSet,
) -> Result<()> {
    locks.set_wait_limit(Duration::ZERO);
    for lock in held {
        locks.lock_again(lock).map_err(lock_error)?;
    }
    writes
        .changes()
        .try_for_each(|change| lock_change(locks, lists, change))
}

/// Locks the row of a change, and the unique keys that it takes and frees.
fn lock_change(locks: &mut LockSession, lists: &Lists, change: &Change) -> Result<()> {
    let table = change.table.id();
    let mut keys = Vec::new();
    if let Some(shape) = change.table.entry.with_unique() {
        let of = |version: &Version| match version {
            Some(row) => unique_keys(&shape, row),
            None => Ok(Vec::new()),
        };
        let (old, new) = (of(&change.before)?, of(&change.after)?);
        for (some, others) in [(&old, &new), (&new, &old)] {
            let is_kept = |one: &&UniqueKey| {
                let mut others = others.iter();
                others.any(|other| other.number == one.number && other.key == one.key)
            };
            keys.extend(some.iter().filter(|one| !is_kept(one)).cloned());
        }
    }
    let keeps_keys = change.before.is_some() && change.after.is_some() && keys.is_empty();
    let strength = if keeps_keys {
        RowLock::NoKeyUpdate
    } else {
        RowLock::Update
    };
    lock_row(locks, lists, (table, &change.key), strength)?;
    keys.iter()
        .try_for_each(|unique| lock_unique(locks, table, unique.index, &unique.key))
}
