//! Counters of lock sessions.
//!
//! A session counts for itself and stores its sums where others read them, so a lock costs no word
//! that two sessions write.

// Counters order nothing, so no schedule of theirs is worth a test.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of all sessions. A session adds its numbers when it waits and when a transaction ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockCounters {
    /// Locks that were granted, conversions included, inherited ones not.
    pub acquired: u64,
    /// Idle intention locks that were taken back.
    pub inherited: u64,
    /// Requests that had to wait.
    pub waits: u64,
    /// Time that they waited together.
    pub wait_ns: u64,
    /// Requests that failed because they closed a cycle in the wait-for graph.
    pub deadlocks: u64,
    /// Requests that failed because they waited too long.
    pub timeouts: u64,
    /// Tables that were locked whole instead of many keys.
    pub escalations: u64,
}

impl LockCounters {
    pub(super) fn add(&mut self, other: &Self) {
        let mut other = *other;
        for (sum, word) in self.words().into_iter().zip(other.words()) {
            *sum += *word;
        }
    }

    fn words(&mut self) -> [&mut u64; 7] {
        [
            &mut self.acquired,
            &mut self.inherited,
            &mut self.waits,
            &mut self.wait_ns,
            &mut self.deadlocks,
            &mut self.timeouts,
            &mut self.escalations,
        ]
    }
}

/// The counters of one session, stored by it alone and read by anybody; not all from the same
/// moment.
#[derive(Default)]
pub(super) struct VisibleCounters([AtomicU64; 7]);

impl VisibleCounters {
    #[inline]
    pub(super) fn store(&self, counters: &LockCounters) {
        let mut counters = *counters;
        for (word, value) in self.0.iter().zip(counters.words()) {
            word.store(*value, Relaxed);
        }
    }

    pub(super) fn load(&self) -> LockCounters {
        let mut counters = LockCounters::default();
        for (word, value) in self.0.iter().zip(counters.words()) {
            *value = word.load(Relaxed);
        }
        counters
    }
}
