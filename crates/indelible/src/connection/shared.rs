//! State that all connections of a database share, and the barrier between them and typed
//! transactions.
//!
//! A typed transaction keeps no images while no connection is open. The first connection therefore
//! begins a *period* and waits until every typed transaction that may not know of it has ended:
//! once for each session slot, until the slot is free, or its holder has begun a transaction in
//! this period. Whoever takes a slot later finds the period's number, because the slot's mutex
//! orders the two. The last connection ends the period.

use super::clock::Clock;
use super::lists::Lists;
use super::omission::{Omission, is_left_out};
use super::prepared::PreparedSet;
use super::recent::Recent;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::options::{CONNECTIONS_MAX, LOCKS_MAX, Options, PREPARED_MAX, SNAPSHOT_MEMORY_MAX};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use crate::table::TableEntry;
use crate::thread_flags::OpenFlag;
use std::sync::{Arc, PoisonError};
use storage::lock::{KeyIntent, LockManager, LockOptions};

/// A transaction that has one lock in so many of all that there may be, in one table, tries to lock
/// that whole.
const ESCALATE_AT_PART: usize = 4;

/// Bits of the number of a transaction by which its connection counts.
const TRANSACTION_BITS: u32 = 40;

/// State that connections share.
pub(crate) struct Shared {
    pub(crate) clock: Arc<Clock>,
    pub(super) locks: Arc<LockManager>,
    pub(crate) prepared: PreparedSet,
    pub(super) lists: Lists,
    pub(super) recent: Recent,
    /// Unique indexes that were made since the opening.
    unique_made: AtomicU64,
    connections_max: u32,
    /// Connections that were opened so far.
    opened: AtomicU64,
    /// Number of the period in which connections are open; 0 if none is.
    period: AtomicU64,
    connections: Mutex<Connections>,
}

#[derive(Default)]
struct Connections {
    open: u32,
    /// Prepared transactions, whose locks typed transactions have to respect too.
    prepared: u32,
    periods: u64,
}

impl Shared {
    pub(crate) fn new(options: &Options) -> Self {
        let locks_max = options.locks_max.unwrap_or(LOCKS_MAX);
        Self {
            clock: Clock::new(options.snapshot_memory_max.unwrap_or(SNAPSHOT_MEMORY_MAX)),
            locks: LockManager::new(LockOptions {
                locks_max,
                escalate_at: locks_max / ESCALATE_AT_PART,
                key_intent: KeyIntent::Shared,
                ..LockOptions::default()
            }),
            prepared: PreparedSet::new(options.prepared_max.unwrap_or(PREPARED_MAX)),
            lists: Lists::default(),
            recent: Recent::default(),
            unique_made: AtomicU64::new(0),
            connections_max: options.connections_max.unwrap_or(CONNECTIONS_MAX),
            opened: AtomicU64::new(0),
            period: AtomicU64::new(0),
            connections: Mutex::default(),
        }
    }

    /// Number of the period; 0 while no connection is open.
    #[inline]
    pub(crate) fn period(&self) -> u64 {
        self.period.load(Ordering::Relaxed)
    }

    /// How many unique indexes were made since the opening. Changes of a transaction that began
    /// before the last of them may have keys there that it has not locked.
    #[inline]
    pub(super) fn unique_made(&self) -> u64 {
        self.unique_made.load(Ordering::Acquire)
    }

    /// A unique index of a table was made, by somebody who holds all partitions.
    pub(crate) fn note_unique_made(&self, entry: &TableEntry) {
        let number = self.unique_made() + 1;
        entry.unique_made.store(number, Ordering::Release);
        self.unique_made.store(number, Ordering::Release);
    }

    /// A connection opens. Waits for typed transactions if it is the first one.
    pub(super) fn enter(&self, core: &Core) -> Result<()> {
        // The wait could be for this thread's own transaction.
        drop(OpenFlag::set(core.flag_bit)?);
        let mut connections = self.connections();
        if connections.open >= self.connections_max {
            let connections_max = self.connections_max;
            return Err(Error::TooManyConnections { connections_max });
        }
        if connections.open == 0 && connections.prepared == 0 {
            connections.periods += 1;
            self.period.store(connections.periods, Ordering::SeqCst);
            let limit = core.lock_policy.wait_limit;
            let partitions = core.partitions.iter();
            let mut partitions = partitions.filter(|_| !is_left_out(Omission::Barrier));
            let passed = partitions.try_for_each(|one| one.pass(connections.periods, limit));
            if let Err(error) = passed {
                self.period.store(0, Ordering::SeqCst);
                return Err(error);
            }
            self.recent.clear();
        }
        connections.open += 1;
        Ok(())
    }

    /// The number from which a new connection counts its transactions, so that each has another one
    /// in the whole database: marks and scans know theirs by it.
    pub(super) fn first_transaction(&self) -> u64 {
        self.opened.fetch_add(1, Ordering::Relaxed) << TRANSACTION_BITS
    }

    /// A connection has closed, with everything that it had registered.
    pub(super) fn leave(&self) {
        let mut connections = self.connections();
        connections.open -= 1;
        self.end_period(&connections);
    }

    /// A prepared transaction stays, while the connection that has prepared it is open, or before
    /// anybody else has the database.
    pub(super) fn enter_prepared(&self) {
        let mut connections = self.connections();
        connections.prepared += 1;
        if self.period() == 0 {
            connections.periods += 1;
            self.period.store(connections.periods, Ordering::SeqCst);
        }
    }

    /// A prepared transaction has ended.
    pub(super) fn leave_prepared(&self) {
        let mut connections = self.connections();
        connections.prepared -= 1;
        self.end_period(&connections);
    }

    fn end_period(&self, connections: &Connections) {
        if connections.open == 0 && connections.prepared == 0 {
            self.period.store(0, Ordering::SeqCst);
        }
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        let connections = self.connections.lock();
        connections.unwrap_or_else(PoisonError::into_inner)
    }
}
