//! The end of a transaction: validation, its number, one engine transaction, the acknowledgement.
//!
//! The engine transaction is a [`Session`] like that of a typed closure, so several partitions
//! commit by the commit table, and an error leaves nothing behind. It takes the partitions in
//! ascending order before it changes anything.
//!
//! Partitions that the transaction has only read take part where commits become durable later:
//! what it has shown to its client must be durable before it is acknowledged, and before what it
//! writes is.

use super::change::Change;
use super::client::{Connection, Open};
use super::clock::{Pending, Reads};
use super::omission::{Omission, is_left_out};
use super::writes::WriteSet;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lock_policy::LockPolicy;
use crate::session::{PendingAcks, Session};
use crate::table::Table;
use std::sync::Arc;
use storage::StorageError;
use storage::engine::{Durability, Isolation};
use storage::record::{Placement, Row};

/// Cost of a commit, as counted in the partitions while they were held for it. Where a partition
/// has several session slots, work of others at the same time is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitReport {
    /// Changes of rows that were applied.
    pub changes: u64,
    /// Fences.
    pub fences: u64,
    /// Cache lines flushed.
    pub lines_flushed: u64,
    /// Bytes stored to memory devices.
    pub bytes_stored: u64,
    /// Bytes written to files.
    pub bytes_written: u64,
}

impl Connection {
    /// Commits the open transaction, and waits until it may be acknowledged. Whatever happens, the
    /// transaction has ended: after an error it is undone, except where the error says that its
    /// outcome is not known.
    ///
    /// # Errors
    ///
    /// [`Error::Serialization`] if it is serializable and something that it has read has changed;
    /// [`Error::DuplicateKey`] if a unique index was made after it had given a row a key that
    /// another row has; errors of the medium, [`Error::InDoubt`] among them.
    pub fn commit(&mut self, durability: Durability) -> Result<CommitReport> {
        let mut open = self.take_to_commit()?;
        let policy = self.policy();
        let (core, end) = self.core_and_end();
        let committed = commit(core, policy, &mut open, durability, end);
        self.end_commit(open, committed)
    }

    /// As [`Connection::commit`], and calls `then` once the transaction has been acknowledged,
    /// before it gives the locks back: for steps that must be done when others go on.
    pub fn commit_then(
        &mut self,
        durability: Durability,
        then: impl FnOnce(),
    ) -> Result<CommitReport> {
        let mut open = self.take_to_commit()?;
        let committed = commit(self.core(), self.policy(), &mut open, durability, || {});
        if committed.is_ok() {
            then();
            self.end_locks();
        }
        self.end_commit(open, committed)
    }

    /// Takes the transaction out, once it has locked all unique keys of its rows; after an error it
    /// is undone.
    pub(super) fn take_to_commit(&mut self) -> Result<Box<Open>> {
        self.core().check_process()?;
        if let Err(error) = self.take_late_keys() {
            self.abort();
            return Err(error);
        }
        self.take_open()
    }

    /// Ends a transaction that has committed and given its locks back, or has failed to commit.
    fn end_commit(
        &mut self,
        open: Box<Open>,
        committed: Result<CommitReport>,
    ) -> Result<CommitReport> {
        if committed.is_err() {
            let recent = &self.core().shared.recent;
            for change in open.writes.changes() {
                // The outcome may be in doubt.
                recent.forget(change.table.id(), &change.key);
            }
            // They may not have been given back.
            self.end_locks();
        }
        self.keep(open);
        committed
    }

    /// Runs a closure as a transaction and commits it, durable at once; after a deadlock or a
    /// serialization failure it runs again, and transactions that failed twice take turns.
    pub fn run<R>(
        &mut self,
        isolation: Isolation,
        mut body: impl FnMut(&mut Self) -> Result<R>,
    ) -> Result<R> {
        let core = Arc::clone(&self.database.core);
        let mut retry = core.retry(core.lock_policy);
        loop {
            self.begin(isolation)?;
            let outcome = body(self).and_then(|value| {
                self.commit(core.durability)?;
                Ok(value)
            });
            self.abort();
            match outcome {
                Err(error) if error.should_retry() && retry.failures() < core.retries_max => {
                    retry.wait();
                }
                outcome => return outcome,
            }
        }
    }
}

/// Commits, and calls `give_back` once others may have the rows, before it waits for durability.
fn commit(
    core: &Core,
    policy: LockPolicy,
    open: &mut Open,
    durability: Durability,
    give_back: impl FnOnce(),
) -> Result<CommitReport> {
    let mut partitions = std::mem::take(&mut open.touched);
    if core.commits_fence() {
        partitions.clear();
    }
    add_written(core, &open.writes, &mut partitions)?;
    partitions.sort_unstable();
    partitions.dedup();
    if open.writes.is_empty() {
        // A snapshot is a prefix of the order of commits, so nothing needs to be validated.
        open.view = None;
        give_back();
        if !partitions.is_empty() {
            let mut session = Session::of_connection(core, policy)?;
            session.declare(&partitions)?;
            session.finish(durability)?;
        }
        open.touched = partitions;
        return Ok(CommitReport::default());
    }
    let reads = open.end_snapshot();
    let work = Work {
        partitions: &partitions,
        writes: &open.writes,
        reads: reads
            .as_ref()
            .map(|(view, intervals)| Reads { view, intervals }),
        looked_at: Some(&open.writes),
        also: None,
    };
    let (mut session, report, acks) = work.commit(core, policy, durability)?;
    session.release();
    open.writes.note_committed(&core.shared.recent);
    give_back();
    if !acks.is_empty() {
        session.await_acks(&acks)?;
    }
    open.touched = partitions;
    Ok(report)
}

/// A step of an engine transaction beside its changes.
pub(super) type Also<'w> = &'w dyn Fn(&mut Session<'_>) -> Result<()>;

/// The content of an engine transaction.
pub(super) struct Work<'w> {
    /// Partitions that take part, ascending: at least those in which there are changes.
    pub(super) partitions: &'w [u32],
    pub(super) writes: &'w WriteSet,
    pub(super) reads: Option<Reads<'w>>,
    /// Changes that must be younger than the unique indexes of their tables.
    pub(super) looked_at: Option<&'w WriteSet>,
    /// Done after the changes; done again where they are.
    pub(super) also: Option<Also<'w>>,
}

impl Work<'_> {
    /// Commits it in the engines. The session still has its partitions, and the promises are to be
    /// waited for.
    pub(super) fn commit<'db>(
        &self,
        core: &'db Core,
        policy: LockPolicy,
        durability: Durability,
    ) -> Result<(Session<'db>, CommitReport, PendingAcks)> {
        let writes = self.writes;
        let mut pending = core.has_many_slots().then(Pending::default);
        if let Some(pending) = &mut pending
            && !is_left_out(Omission::ImagesInTime)
        {
            core.shared.clock.announce(pending, writes.changes());
        }
        let mut retry = core.retry(policy);
        loop {
            let mut session = Session::of_connection(core, policy)?;
            match self.attempt(&mut session, &mut pending, durability) {
                Ok((report, acks)) => return Ok((session, report, acks)),
                // Engines with many slots have locks of their own, also between keys. The write set
                // is still there, so it is applied again.
                Err(error)
                    if is_conflict(&error)
                        && retry.failures() < core.retries_max
                        && pending.as_ref().is_some_and(Pending::is_open) =>
                {
                    drop(session);
                    retry.pause();
                }
                Err(error) => {
                    // Readers look at rows and then for their images, so the rows go back first.
                    drop(session);
                    if let Some(pending) = pending {
                        core.shared.clock.cancel(pending);
                    }
                    return Err(error);
                }
            }
        }
    }

    /// One try to make the changes and to commit them.
    fn attempt(
        &self,
        session: &mut Session<'_>,
        pending: &mut Option<Pending>,
        durability: Durability,
    ) -> Result<(CommitReport, PendingAcks)> {
        let Work { writes, reads, .. } = *self;
        let clock = &session.core.shared.clock;
        session.declare(self.partitions)?;
        for &partition in self.partitions {
            // Those that are only read are made durable first, if others have committed there.
            session.engine(partition)?;
        }
        // From here on nobody makes an index.
        let unique_made = session.core.shared.unique_made();
        let looked_at = self.looked_at;
        if looked_at.is_some_and(|writes| writes.may_have_late_keys(unique_made)) {
            return Err(Error::Serialization {
                reason: "a unique index was made during the commit",
            });
        }
        let before = session.counts();
        // An insertion that fails because there is a row must not leave an image without it.
        let is_unseen = writes.is_unseen();
        if pending.is_none() && !is_unseen {
            clock.commit(reads, writes.changes())?;
        }
        session.without_memory_limit(|session| {
            apply_all(session, writes)?;
            self.also.map_or(Ok(()), |also| also(session))
        })?;
        if is_unseen {
            assert!(pending.is_none() && reads.is_none());
            clock.commit(None, writes.changes())?;
        }
        let in_time = !is_left_out(Omission::ImagesInTime);
        if let Some(pending) = pending.as_mut().filter(|_| in_time) {
            clock.settle(pending, reads)?;
        }
        if durability == Durability::Immediate {
            session.settle_without_writes()?;
        }
        let acks = session.commit(durability)?;
        if let Some(pending) = pending.as_mut().filter(|_| !in_time) {
            clock.announce(pending, writes.changes());
            clock.settle(pending, reads)?;
        }
        let (memory, disk) = session.counts();
        let (total, total_before) = (memory.total(), before.0.total());
        let report = CommitReport {
            changes: writes.changes().count() as u64,
            fences: memory.fences - before.0.fences,
            lines_flushed: total.lines_flushed - total_before.lines_flushed,
            bytes_stored: total.bytes_stored - total_before.bytes_stored,
            bytes_written: disk.bytes_written - before.1.bytes_written,
        };
        Ok((report, acks))
    }
}

/// Fewest insertions in one table, one after the other, that an engine gets together.
const TOGETHER_MIN: usize = 8;

/// Makes all changes in the engines, in their order; insertions that follow each other have none.
fn apply_all(session: &mut Session<'_>, writes: &WriteSet) -> Result<()> {
    if writes.changes().nth(TOGETHER_MIN - 1).is_none() {
        return writes
            .changes()
            .try_for_each(|change| apply(session, change));
    }
    let mut together: Vec<&Change> = Vec::new();
    for change in writes.changes() {
        let is_next = |before: &&Change| Arc::ptr_eq(&before.table.entry, &change.table.entry);
        let is_insertion = change.before.is_none() && change.after.is_some();
        if !is_insertion || !together.last().is_none_or(is_next) {
            insert_all(session, &mut together)?;
        }
        if is_insertion {
            together.push(change);
        } else {
            apply(session, change)?;
        }
    }
    insert_all(session, &mut together)
}

/// Makes insertions in one table.
fn insert_all(session: &mut Session<'_>, changes: &mut Vec<&Change>) -> Result<()> {
    if let Some(first) = changes.first()
        && changes.len() >= TOGETHER_MIN
    {
        // It may have been dropped since.
        first.table.check(session.core.serial)?;
        let rows = changes.iter().filter_map(|change| change.after.as_deref());
        session.insert_many_checked(&first.table, &rows.collect::<Vec<_>>())?;
    } else {
        let mut changes = changes.iter();
        changes.try_for_each(|change| apply(session, change))?;
    }
    changes.clear();
    Ok(())
}

/// Makes one change in the engines.
fn apply(session: &mut Session<'_>, change: &Change) -> Result<()> {
    let (table, key) = (&change.table, &change.key);
    // It may have been dropped since.
    table.check(session.core.serial)?;
    let is_there = match (&change.before, &change.after, &change.update) {
        (None, Some(after), _) => return session.insert_checked(table, after),
        (Some(before), _, Some(update)) => {
            update.is_empty()
                || session.update_checked(table, placement(table, before)?, key, update)?
        }
        (Some(before), _, None) => session.delete_checked(table, placement(table, before)?, key)?,
        (None, None, _) => return Ok(()),
    };
    // Its lock was held since it was read, and typed transactions keep to that too.
    assert!(is_there, "a row that is locked stays where it is");
    Ok(())
}

/// Adds the partitions in which changes are made, in any order.
pub(super) fn add_written(core: &Core, writes: &WriteSet, partitions: &mut Vec<u32>) -> Result<()> {
    for change in writes.changes() {
        let Some(row) = change.before.as_ref().or(change.after.as_ref()) else {
            continue;
        };
        match placement(&change.table, row)? {
            Placement::One(partition) if partitions.last() == Some(&partition) => {}
            Placement::One(partition) => partitions.push(partition),
            Placement::All => partitions.extend(0..core.descriptor.partitions),
        }
    }
    Ok(())
}

/// The partitions that have a row.
fn placement(table: &Table, row: &Row) -> Result<Placement> {
    let entry = &*table.entry;
    entry.place(row.get(entry.shape.def.primary_key[0]))
}

/// Whether engine locks were in the way.
fn is_conflict(error: &Error) -> bool {
    matches!(
        error,
        Error::Storage(StorageError::Deadlock { .. } | StorageError::LockTimeout { .. })
    )
}
