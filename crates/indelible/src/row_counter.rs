//! The number of a table's rows, counted as transactions commit.
//!
//! A transaction counts its rows for itself and adds them when it has ended, so that nobody sees
//! the count of a transaction that fails. A count has shares, so that threads do not wait for each
//! other's cache lines; one whose commit is in doubt makes the count an estimate.

use crate::error::{Error, Result};
use crate::partition::thread_number;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

/// The number of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowCount {
    /// Rows of the transactions that have committed.
    pub rows: u64,
    /// Whether it is exact; otherwise an estimate, because the process was killed since rows were
    /// counted.
    pub is_exact: bool,
}

const UNKNOWN: u8 = 0;
pub(crate) const ESTIMATE: u8 = 1;
pub(crate) const EXACT: u8 = 2;

/// The shares of a count. Threads with as many numbers between them have the same one.
const SHARES: usize = 8;

/// The count of one table.
pub(crate) struct Counter {
    shares: [Arc<Share>; SHARES],
    state: AtomicU8,
    /// The count that the table of statistics has.
    pub(crate) saved: Mutex<Option<RowCount>>,
}

/// A part of a count, alone on its cache lines: each transaction that inserts takes a reference and
/// adds to it, and must not wait for the lines of another thread.
#[derive(Default)]
#[repr(align(128))]
struct Share {
    rows: AtomicI64,
    /// Whether a commit of its threads may have happened or not.
    is_doubtful: AtomicBool,
}

impl Counter {
    /// The count of a table about which nothing is known.
    pub(crate) fn unknown() -> Self {
        Self {
            shares: std::array::from_fn(|_| Arc::default()),
            state: AtomicU8::new(UNKNOWN),
            saved: Mutex::new(None),
        }
    }

    /// Begins to count an empty table.
    pub(crate) fn begin(&self) {
        self.set(0, EXACT);
    }

    /// The share of this thread.
    #[inline]
    fn share(&self) -> &Arc<Share> {
        &self.shares[thread_number() % SHARES]
    }

    /// Notes a number that was counted while others may have changed it.
    pub(crate) fn estimate(&self, rows: u64) {
        if !self.get().is_some_and(|count| count.is_exact) {
            self.set(rows, ESTIMATE);
        }
    }

    pub(crate) fn set(&self, rows: u64, state: u8) {
        let mut rows = rows.cast_signed();
        for share in &self.shares {
            share
                .rows
                .store(std::mem::take(&mut rows), Ordering::Relaxed);
            share.is_doubtful.store(false, Ordering::Relaxed);
        }
        self.state.store(state, Ordering::Release);
    }

    pub(crate) fn get(&self) -> Option<RowCount> {
        let state = self.state.load(Ordering::Acquire);
        let (mut rows, mut is_exact) = (0, state == EXACT);
        for share in &self.shares {
            rows += share.rows.load(Ordering::Relaxed);
            is_exact &= !share.is_doubtful.load(Ordering::Relaxed);
        }
        let rows = rows.max(0).cast_unsigned();
        (state != UNKNOWN).then_some(RowCount { rows, is_exact })
    }
}

/// Rows that the open transaction has inserted, less those that it has deleted, by table.
#[derive(Default)]
pub(crate) struct RowChanges {
    /// Stays with a count of zero when the transaction has ended: a worker's next one is likely to
    /// change the same table, and taking a reference anew costs two locked instructions.
    first: Option<(Arc<Share>, i64)>,
    more: Vec<(Arc<Share>, i64)>,
}

impl RowChanges {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.more.is_empty() && self.first.as_ref().is_none_or(|(_, rows)| *rows == 0)
    }

    #[inline]
    pub(crate) fn add(&mut self, count: &Counter, rows: i64) {
        let share = count.share();
        match &mut self.first {
            Some((first, count)) if Arc::ptr_eq(first, share) => *count += rows,
            None | Some((_, 0)) => self.first = Some((Arc::clone(share), rows)),
            Some(_) => self.add_further(share, rows),
        }
    }

    #[cold]
    fn add_further(&mut self, share: &Arc<Share>, rows: i64) {
        let mut more = self.more.iter_mut();
        match more.find(|(other, _)| Arc::ptr_eq(other, share)) {
            Some((_, count)) => *count += rows,
            None => self.more.push((Arc::clone(share), rows)),
        }
    }

    /// Counts the rows of a transaction that has ended.
    pub(crate) fn settle<R>(&mut self, committed: &Result<R>) {
        for (share, rows) in self.first.iter().chain(&self.more) {
            match committed {
                Ok(_) => _ = share.rows.fetch_add(*rows, Ordering::Relaxed),
                Err(Error::InDoubt { .. }) => share.is_doubtful.store(true, Ordering::Relaxed),
                Err(_) => {}
            }
        }
        self.clear();
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        if let Some((_, rows)) = &mut self.first {
            *rows = 0;
        }
        self.more.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubtful_commit_makes_an_estimate() {
        let counter = Counter::unknown();
        assert_eq!(counter.get(), None);
        counter.share().is_doubtful.store(true, Ordering::Relaxed);
        assert_eq!(counter.get(), None);
        counter.begin();
        counter.share().is_doubtful.store(true, Ordering::Relaxed);
        let is_exact = false;
        assert_eq!(counter.get(), Some(RowCount { rows: 0, is_exact }));
        counter.estimate(9);
        assert_eq!(counter.get(), Some(RowCount { rows: 9, is_exact }));
    }
}
