//! The commits of all sessions of a partition, and when gathered commits are due to become durable
//! together, without a lock.
//!
//! The ticket of a commit is the position of its record in the log, so tickets have the order of
//! the records, and a commit is durable exactly if the log is durable up to the end of its record.
//! All that is left to note is the newest logged commit, which readers need, and how many commits
//! wait.
//!
//! Invariants:
//! 1. A commit is noted after it is logged and before its locks are given back. So a reader of its
//!    changes finds [`Group::newest`] at its ticket or a later one.
//! 2. Each commit that is counted as waiting was noted before. So a sync up to the newest commit
//!    that was noted after the count was read settles all that were counted.

use std::time::Instant;
use storage::engine::{CommitTicket, Durability};
use storage::log::{Due, GroupCommitOptions, Lsn};
use storage::sync::{AtomicU64, CachePadded, Ordering};

/// The commits of a partition. Tickets are 0 while there is none.
pub(super) struct Group {
    options: GroupCommitOptions,
    begun: Instant,
    /// The newest ticket that somebody waits for, and the newest of the others.
    promised: CachePadded<AtomicU64>,
    unpromised: CachePadded<AtomicU64>,
    waiting: CachePadded<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// Numbers of commits that have ever waited for a group, and of those that wait no more.
    joined: AtomicU64,
    settled: AtomicU64,
    /// When the first that waits has joined, in microseconds since the beginning; 0 if none waits,
    /// or nobody looks at the clock.
    oldest_us: AtomicU64,
}

/// Commits that a sync is going to settle.
#[derive(Clone, Copy)]
pub(super) struct Joined {
    count: u64,
    /// The newest commit, which the sync has to cover.
    pub(super) newest: CommitTicket,
}

impl Group {
    pub(super) fn new(options: GroupCommitOptions) -> Self {
        Self {
            options,
            begun: Instant::now(),
            promised: CachePadded::default(),
            unpromised: CachePadded::default(),
            waiting: CachePadded::default(),
        }
    }

    /// Notes a commit that is logged, while its locks are held, and returns its ticket.
    #[inline]
    pub(super) fn note(&self, record: Lsn, durability: Durability) -> CommitTicket {
        let newest = match durability {
            Durability::None => &self.unpromised,
            Durability::Group | Durability::Immediate => &self.promised,
        };
        newest.fetch_max(record.0, Ordering::SeqCst);
        CommitTicket(record.0)
    }

    /// The newest ticket that somebody waits for.
    #[inline]
    pub(super) fn promised(&self) -> CommitTicket {
        CommitTicket(self.promised.load(Ordering::SeqCst))
    }

    /// The newest ticket.
    pub(super) fn newest(&self) -> CommitTicket {
        let unpromised = self.unpromised.load(Ordering::SeqCst);
        self.promised().max(CommitTicket(unpromised))
    }

    /// Whether a commit that was noted, and is not durable, is to be made durable before it
    /// returns.
    pub(super) fn due(&self, durability: Durability) -> Due {
        match durability {
            Durability::Immediate => Due::Now,
            Durability::None => Due::Later,
            Durability::Group => self.join(),
        }
    }

    fn join(&self) -> Due {
        let joined = self.waiting.joined.fetch_add(1, Ordering::SeqCst) + 1;
        let waiting = joined.saturating_sub(self.waiting.settled.load(Ordering::SeqCst));
        if waiting >= u64::from(self.options.transactions_max) || self.has_waited_enough() {
            Due::Now
        } else {
            Due::Later
        }
    }

    fn has_waited_enough(&self) -> bool {
        let most = self.options.wait_us_max;
        if most == u64::MAX {
            return false;
        }
        let now = self.begun.elapsed().as_micros() as u64 + 1;
        let order = Ordering::SeqCst;
        let first = self
            .waiting
            .oldest_us
            .compare_exchange(0, now, order, order);
        let oldest = first.map_or_else(|oldest| oldest, |_| now);
        now.saturating_sub(oldest) >= most
    }

    /// Commits that a sync which begins now has to cover.
    pub(super) fn begin_sync(&self) -> Joined {
        Joined {
            count: self.waiting.joined.load(Ordering::SeqCst),
            newest: self.newest(),
        }
    }

    /// Notes that a sync has covered its commits.
    pub(super) fn end_sync(&self, joined: Joined) {
        let settled = self
            .waiting
            .settled
            .fetch_max(joined.count, Ordering::SeqCst);
        if settled < joined.count {
            self.waiting.oldest_us.store(0, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
#[path = "group_tests.rs"]
mod tests;

#[cfg(feature = "schedules")]
#[cfg(test)]
#[path = "group_schedule_tests.rs"]
mod schedule_tests;
