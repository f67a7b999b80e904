//! The lock manager of a partition, shared by its sessions: its queues, and the limit of locks.
//! Waits, also for sessions of other partitions, are edges in the [`WaitGraph`] of the database.
//!
//! Sessions take their share of that limit in small lots, so that the shared counter is not touched
//! for each lock. An unused lot of a session counts as taken, 64 locks at most.

use super::counters::LockCounters;
use super::graph::{LockWait, WaitGraph};
use super::head::SessionId;
use super::mode::Mode;
use super::queues::Queues;
use super::session::LockSession;
#[cfg(test)]
use super::shard::Shard;
use super::wait::Visible;
use crate::error::{Result, StorageError};
use crate::record::TableId;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};
use std::sync::Arc;
use std::time::Duration;

/// Rights to locks that a session takes at once, at most.
const LOT_MAX: u64 = 64;

/// Options of a lock manager.
#[derive(Clone, Debug)]
pub struct LockOptions {
    /// Longest wait of a request before it fails; a session can change it for itself.
    pub wait_limit: Duration,
    /// Locks that all sessions may hold together, idle ones included.
    pub locks_max: usize,
    /// Whether intention locks stay with their session between transactions. Saves a mutex and a
    /// queue for each; a lock of a whole table has to revoke the idle ones.
    pub inherits: bool,
    /// Key locks of one table and transaction after which the table is tried to be locked whole. A
    /// range counts as 16 keys.
    pub escalate_at: usize,
    /// The intentions that locks of keys need.
    pub key_intent: KeyIntent,
    /// The waits of all partitions that a transaction may lock in.
    pub graph: WaitGraph,
}

/// The intention on a table that a lock of one of its keys needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyIntent {
    /// That of its strength, as Gray has it: a shared table keeps exclusive locks of keys out, so
    /// it covers shared ones.
    #[default]
    OfStrength,
    /// That of readers, as PostgreSQL has it: whoever changes something says so by himself
    /// ([`LockSession::intend_change`]). A shared table keeps changes out, and no locks of keys.
    Shared,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self {
            wait_limit: Duration::from_secs(1),
            locks_max: 1 << 20,
            inherits: true,
            escalate_at: 10_000,
            key_intent: KeyIntent::OfStrength,
            graph: WaitGraph::default(),
        }
    }
}

/// A lock of a table, of a transaction that holds it or waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableClaim {
    /// The number of the transaction's owner.
    pub owner: u32,
    /// The table.
    pub table: TableId,
    /// The mode; of one that waits, with what it holds already.
    pub mode: Mode,
    /// Whether it holds the lock.
    pub is_held: bool,
}

/// The locks of one partition.
pub struct LockManager {
    options: LockOptions,
    pub(super) queues: Arc<Queues>,
    /// Counters of sessions that are gone.
    gone: Mutex<LockCounters>,
    /// Rights to locks that sessions have.
    taken: AtomicU64,
    /// Whether the partition is stopped: nobody waits any more.
    stopped: AtomicBool,
}

impl std::fmt::Debug for LockManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockManager")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl LockManager {
    /// A manager without sessions.
    pub fn new(options: LockOptions) -> Arc<Self> {
        Arc::new(Self {
            options,
            queues: Arc::new(Queues::new()),
            gone: Mutex::new(LockCounters::default()),
            taken: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        })
    }

    /// A session that holds nothing yet.
    pub fn session(self: &Arc<Self>) -> LockSession {
        let visible = self
            .options
            .graph
            .add(|id| Visible::new(id, Arc::clone(&self.queues)));
        LockSession::new(Arc::clone(self), visible)
    }

    /// Sums of the counters so far.
    pub fn counters(&self) -> LockCounters {
        let gone = lock(&self.gone);
        let mut sum = *gone;
        for visible in self.options.graph.sessions() {
            if Arc::ptr_eq(&visible.queues, &self.queues) {
                sum.add(&visible.counters.load());
            }
        }
        sum
    }

    /// Lets all waits, now and later, fail because the partition is stopped.
    pub fn stop(&self) {
        if self.stopped.swap(true, Ordering::SeqCst) {
            return;
        }
        for visible in self.options.graph.sessions() {
            if Arc::ptr_eq(&visible.queues, &self.queues) {
                // A session that has not seen `stopped` before it sleeps holds the parker's mutex,
                // so it is woken.
                visible.parker.rouse();
            }
        }
    }

    /// The transactions that wait for locks now, of all managers of its graph.
    pub fn waits(&self) -> Vec<LockWait> {
        self.options.graph.waits()
    }

    /// The locks of tables that transactions hold or wait for. Each part of them is looked at by
    /// itself, so together they need not be of one moment.
    pub fn table_claims(&self) -> Vec<TableClaim> {
        let mut claims = Vec::new();
        for shard in self.queues.shards() {
            shard.table_claims(&mut |table, session, strength, is_held| {
                claims.push(TableClaim {
                    owner: session,
                    table,
                    mode: strength.of_whole(),
                    is_held,
                });
            });
        }
        for claim in &mut claims {
            let owner = std::slice::from_mut(&mut claim.owner);
            self.options.graph.find_owners(owner);
        }
        claims
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    pub(super) fn graph(&self) -> &WaitGraph {
        &self.options.graph
    }

    pub(super) fn options(&self) -> &LockOptions {
        &self.options
    }

    /// A session is gone; it holds nothing.
    pub(super) fn leave(&self, session: SessionId, counters: &LockCounters) {
        let mut gone = lock(&self.gone);
        self.options.graph.remove(session);
        gone.add(counters);
    }

    /// Locks that a session takes the right to at once.
    pub(super) fn lot(&self) -> u64 {
        (self.options.locks_max as u64 / 1024).clamp(1, LOT_MAX)
    }

    /// A lot of rights, or what is left of them.
    pub(super) fn take_lot(&self) -> Result<u64> {
        let locks_max = self.options.locks_max as u64;
        let mut taken = self.taken.load(Ordering::Relaxed);
        loop {
            let lot = self.lot().min(locks_max.saturating_sub(taken));
            if lot == 0 {
                return Err(StorageError::LocksExhausted {
                    locks_max: self.options.locks_max,
                });
            }
            let next = taken + lot;
            match self.taken.compare_exchange_weak(
                taken,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(lot),
                Err(now) => taken = now,
            }
        }
    }

    pub(super) fn give_back(&self, rights: u64) {
        self.taken.fetch_sub(rights, Ordering::Relaxed);
    }

    /// Transactions that wait, in any partition of the graph.
    #[cfg(test)]
    #[cfg(not(feature = "schedules"))]
    pub(super) fn waiting(&self) -> usize {
        let sessions = self.options.graph.sessions();
        let waiting = |visible: &&Arc<Visible>| lock(&visible.waiting).is_some();
        sessions.iter().filter(waiting).count()
    }

    /// Rights that are taken.
    #[cfg(test)]
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Heads that are there.
    #[cfg(test)]
    pub(super) fn heads(&self) -> usize {
        self.queues.shards().iter().map(Shard::heads).sum()
    }
}
