//! The core of an open database: the state that all its handles and sessions share, and its end.
//!
//! The last handle drops the core, which closes every partition that is free: commits become
//! durable, and the next opening finds nothing to recover. In a forked child nothing is closed,
//! because everything belongs to the parent.

use crate::commit_table::{CommitTable, VolatileWords};
use crate::connection::Shared;
use crate::descriptor::Descriptor;
use crate::error::{Error, Result};
use crate::lock_policy::LockPolicy;
use crate::options::Mode;
use crate::partition::{Partition, SessionSlot};
use crate::retry::{Retry, Turns};
use crate::roster::{Held, Keeper};
use crate::sync::{Mutex, MutexGuard};
use crate::table::Table;
use crate::thread_flags::{FlagBit, TurnFlag};
use crate::trace::Recording;
use pmem::ProcessStamp;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};
use std::time::Duration;
use storage::engine::{ArchiveWatch, Durability, Idle, Method, Precedence};
use storage::record::{KeyRule, TableId};

/// State that all threads share. The fields close in their order: the platform, which holds the
/// directory's lock, is last.
pub(crate) struct Core {
    /// The process that has opened it.
    pub(crate) process: ProcessStamp,
    /// Tells handles of different open databases apart.
    pub(crate) serial: u64,
    pub(crate) flag_bit: u64,
    pub(crate) partitions: Vec<Partition>,
    /// Held by a thread that keeps all others out of partitions.
    pub(crate) alone: Mutex<()>,
    /// Order in which failed transactions run again.
    pub(crate) turns: Turns,
    pub(crate) commits: CommitTable,
    /// State that connections share.
    pub(crate) shared: Shared,
    pub(crate) catalogue: RwLock<BTreeMap<String, Table>>,
    /// Tables of the database's own.
    pub(crate) hidden: RwLock<BTreeMap<TableId, Table>>,
    pub(crate) descriptor: Descriptor,
    pub(crate) mode: Mode,
    pub(crate) durability: Durability,
    pub(crate) lock_policy: LockPolicy,
    pub(crate) memory_max: u64,
    pub(crate) retries_max: u32,
    /// The rule of keys of new tables.
    pub(crate) keys: KeyRule,
    pub(crate) group_wait: Duration,
    /// Whether a commit that nobody could join forces its group without waiting.
    pub(crate) leads_at_once: bool,
    pub(crate) opened_in: Duration,
    pub(crate) recording: Recording,
    /// Whether the logs of several partitions have archives, which only marks can bring to a common
    /// moment.
    pub(crate) has_marks: bool,
    /// How the archives of the partitions' logs fare.
    pub(crate) archives: Vec<Arc<ArchiveWatch>>,
    pub(crate) is_closed: bool,
    /// The generation of this opening; none if its end is not to be noted.
    pub(crate) generation: Option<u64>,
    pub(crate) _flag: FlagBit,
    pub(crate) platform: Box<dyn Keeper>,
}

impl Core {
    /// Whether each commit of the method ends with a fence, so that there is no group to wait for.
    #[inline]
    pub(crate) fn commits_fence(&self) -> bool {
        matches!(self.descriptor.method, Method::NvmInp | Method::NvmLog)
    }

    /// Whether partitions have several session slots, so that transactions run there at once.
    pub(crate) fn has_many_slots(&self) -> bool {
        self.partitions.iter().any(Partition::has_many_slots)
    }

    /// The tables by their names, to be changed.
    pub(crate) fn tables(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Table>> {
        self.catalogue
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub(crate) fn is_read_only(&self) -> bool {
        self.mode == Mode::ReadOnly
    }

    #[inline]
    pub(crate) const fn retry(&self, lock_policy: LockPolicy) -> Retry<'_> {
        Retry::new(&self.turns, self.flag_bit, lock_policy.wait_limit)
    }

    /// That of a transaction which begins on this thread.
    #[inline]
    pub(crate) fn precedence(&self) -> Precedence {
        if TurnFlag::is_set(self.flag_bit) {
            Precedence::First
        } else {
            Precedence::Usual
        }
    }

    /// Whether a mark is of use.
    pub(crate) fn wants_mark(&self) -> bool {
        self.has_marks && self.partitions.iter().any(Partition::is_unmarked)
    }

    /// Writes the last mark, through a slot of each partition: nobody else has the database any
    /// more.
    fn mark_last(&self, slots: &mut [MutexGuard<'_, SessionSlot>]) -> Result<()> {
        if !self.wants_mark() {
            return Ok(());
        }
        let number = self.commits.next_transaction()?;
        for (partition, slot) in (0..).zip(slots) {
            let marked = slot.mark(number);
            marked.map_err(|error| Error::unmarked(partition, error))?;
        }
        Ok(())
    }

    /// Ends the work of every partition that is free: commits that did not wait become durable, and
    /// the next opening finds nothing to recover. The first error is returned, after all partitions
    /// had their turn.
    pub(crate) fn close_partitions(&mut self) -> Result<()> {
        let mut result = Ok(());
        if std::mem::replace(&mut self.is_closed, true) || self.is_read_only() {
            return result;
        }
        // Without them the next opening must not take older counts for exact, so it does not learn
        // that this one has ended in order.
        let has_counts = self.save_counts(Duration::ZERO).is_ok();
        // A partition that is stopped, or held by a transaction that was forgotten, is left to
        // recovery.
        let slots = self.partitions.iter();
        let mut slots: Vec<_> = slots
            .filter_map(|partition| partition.take(Duration::ZERO, None).ok())
            .collect();
        let has_all = slots.len() == self.partitions.len();
        if has_all {
            result = self.mark_last(&mut slots);
        }
        for slot in &mut slots {
            let closed = slot.engine.idle().and_then(Idle::close);
            result = result.and(closed.map_err(Error::from));
        }
        drop(slots);
        match self.generation.take() {
            Some(generation) if has_all && has_counts && result.is_ok() => {
                // Dropping the engines brings their last writes to the files before the seal.
                self.partitions.clear();
                self.commits = CommitTable::new(Box::new(VolatileWords::new()));
                self.platform.seal(&self.descriptor, generation)
            }
            _ => result,
        }
    }

    /// Fails in a process that was forked from the one that has opened the database.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.process.is_here() {
            Ok(())
        } else {
            Err(Error::Forked)
        }
    }

    /// In a forked child everything belongs to the parent: no engine stores, syncs or waits for
    /// threads that are not there, and the lock of the directory stays.
    fn forget(&mut self) {
        self.shared.prepared.forget();
        let no_words = Box::new(VolatileWords::new());
        std::mem::forget((
            std::mem::take(&mut self.partitions),
            std::mem::replace(&mut self.commits, CommitTable::new(no_words)),
            std::mem::take(&mut self.recording),
            std::mem::replace(&mut self.platform, Box::new(Held(()))),
        ));
    }
}

impl Drop for Core {
    /// Nobody would get the errors; [`Database::close`] reports them.
    fn drop(&mut self) {
        if !self.process.is_here() {
            self.forget();
        } else if !std::thread::panicking() {
            let _ = self.close_partitions();
            let _ = self.recording.finish();
        }
    }
}
