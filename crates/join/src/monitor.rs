//! A join seen from outside: its progress, and its cancellation.
//!
//! A `Monitor` is shared by reference with the threads of one join at a time. They report their
//! work in steps of thousands of tuples, and look for a cancellation at the same points and after a
//! million matches, so neither costs anything in the inner loops.

use crate::error::{JoinError, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Progress of a join, and its cancellation. May be used for one join after another.
#[derive(Debug, Default)]
pub struct Monitor {
    cancelled: AtomicBool,
    done: AtomicU64,
    total: AtomicU64,
}

impl Monitor {
    /// A monitor of a join that has not started.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the join to stop; it returns [`JoinError::Cancelled`] within some milliseconds. A join
    /// that starts later is refused.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the join was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Tuples handled so far, and tuples in all; each tuple counts once a phase, and phases that an
    /// algorithm does not have are added at the end. The total is 0 before the start.
    pub fn progress(&self) -> (u64, u64) {
        (
            self.done.load(Ordering::Relaxed),
            self.total.load(Ordering::Relaxed),
        )
    }
}

/// The threads' side of an optional monitor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch<'a> {
    monitor: Option<&'a Monitor>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(monitor: Option<&'a Monitor>, total_tuples: u64) -> Self {
        if let Some(monitor) = monitor {
            monitor.done.store(0, Ordering::Relaxed);
            monitor.total.store(total_tuples, Ordering::Relaxed);
        }
        Self { monitor }
    }

    /// Reports everything as handled.
    pub(crate) fn finish(self) {
        if let Some(monitor) = self.monitor {
            let total = monitor.total.load(Ordering::Relaxed);
            monitor.done.store(total, Ordering::Relaxed);
        }
    }

    /// Reports tuples as handled; an error if the join is to stop.
    pub(crate) fn advance(self, tuples: usize) -> Result<()> {
        let Some(monitor) = self.monitor else {
            return Ok(());
        };
        monitor.done.fetch_add(tuples as u64, Ordering::Relaxed);
        if monitor.is_cancelled() {
            return Err(JoinError::Cancelled);
        }
        Ok(())
    }

    /// Whether the join is to stop.
    pub(crate) fn is_cancelled(self) -> bool {
        self.monitor.is_some_and(Monitor::is_cancelled)
    }
}
