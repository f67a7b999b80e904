//! The locks of one session's transactions, as its isolation asks for them.
//!
//! | isolation | a row that is read | a range that is read |
//! |---|---|---|
//! | serializable | shared until the end | shared until the end |
//! | repeatable read | shared until the end | shared while it is read; rows in it, until the end |
//! | read committed | shared while it is read | shared while it is read |
//!
//! Changes lock exclusively until the end.
//!
//! Commits release their locks once they are in the log, before they are durable (early lock
//! release): a transaction that reads their rows comes after them in the log, and waits for the
//! same or a later sync.

use crate::page::PageId;
use std::time::Duration;
use storage::Result;
use storage::engine::Isolation;
use storage::lock::{KeyMode, LockOwner, LockSavepoint, LockSession, Mode, Precedence};
use storage::probe::{self, Activity};
use storage::record::TableId;

/// The locks of one session.
pub struct RowLocks {
    session: LockSession,
    isolation: Isolation,
    /// The locks held before the range that is being read.
    covered: Option<LockSavepoint>,
}

impl RowLocks {
    /// The locks of a session that has none.
    pub fn new(session: LockSession) -> Self {
        Self {
            session,
            isolation: Isolation::default(),
            covered: None,
        }
    }

    /// Says how the next transactions are isolated, and how long they wait.
    pub fn set_isolation(&mut self, isolation: Isolation, wait_limit: Duration) {
        self.isolation = isolation;
        self.session.set_wait_limit(wait_limit);
    }

    /// See [`LockSession::set_precedence`].
    pub fn set_precedence(&mut self, precedence: Precedence) {
        self.session.set_precedence(precedence);
    }

    /// See [`LockSession::owner`].
    pub fn owner(&self) -> LockOwner {
        self.session.owner()
    }

    /// See [`LockSession::act_for`].
    pub fn act_for(&mut self, owner: Option<LockOwner>) {
        self.session.act_for(owner);
    }

    /// Locks the partition against definitions, or as a whole.
    pub fn partition(&mut self, mode: Mode) -> Result<()> {
        let _locks = probe::begin(Activity::Locks);
        self.session.lock_partition(mode)
    }

    /// Runs `read` with a row or entry locked.
    #[inline]
    pub fn read<T>(
        &mut self,
        (table, tree, key): (TableId, PageId, &[u64]),
        mode: KeyMode,
        read: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if self.isolation != Isolation::ReadCommitted || mode != KeyMode::Shared {
            self.key((table, tree, key), mode)?;
            return read();
        }
        let savepoint = self.session.savepoint();
        self.key((table, tree, key), mode)?;
        let value = read();
        self.session.release_shared(savepoint);
        value
    }

    /// Locks a row or entry to insert, change or delete it.
    #[inline]
    pub fn change(&mut self, table: TableId, tree: PageId, key: &[u64]) -> Result<()> {
        self.key((table, tree, key), KeyMode::Exclusive)
    }

    #[inline]
    fn key(&mut self, (table, tree, key): (TableId, PageId, &[u64]), mode: KeyMode) -> Result<()> {
        let _locks = probe::begin(Activity::Locks);
        self.session.lock_key(table, tree, key, mode)
    }

    /// Locks a range that is going to be read. Earlier reads of it may be out of date.
    pub fn cover(&mut self, table: TableId, tree: PageId, low: &[u64], high: &[u64]) -> Result<()> {
        debug_assert!(low <= high, "a range ends before it begins");
        let _locks = probe::begin(Activity::Locks);
        if self.isolation != Isolation::Serializable {
            self.covered = Some(self.session.savepoint());
        }
        self.session.lock_range(table, tree, low, high).map(drop)
    }

    /// Goes on from the last range that was covered.
    pub fn uncover(&mut self) {
        let Some(savepoint) = self.covered.take() else {
            return;
        };
        if self.isolation == Isolation::ReadCommitted {
            self.session.release_shared(savepoint);
        } else {
            self.session.release_ranges_since(savepoint);
        }
    }

    /// Whether rows that were found in a range have to be [kept](RowLocks::keep).
    pub fn is_keeping(&self) -> bool {
        self.isolation == Isolation::RepeatableRead
    }

    /// Locks a row or entry of the range that is being read until the end.
    pub fn keep(&mut self, table: TableId, tree: PageId, key: &[u64]) -> Result<()> {
        let _locks = probe::begin(Activity::Locks);
        self.session.lock_key_beside_ranges(table, tree, key)
    }

    /// Gives everything back at the end of a transaction.
    pub fn end(&mut self) {
        let _locks = probe::begin(Activity::Locks);
        self.covered = None;
        self.session.end();
    }
}
