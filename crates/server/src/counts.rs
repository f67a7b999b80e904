//! Counts of a server since it began.
//!
//! Any thread adds to them without a lock, so readers may see one before another.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Classes of the times of statements; the last one has all that take longer than a minute.
pub(crate) const TIMES: usize = 27;

/// Counts since the server began.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) connections: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) errors: AtomicU64,
    /// Statements by the time that they have taken: the first ones less than a microsecond, each
    /// next ones less than twice as long.
    pub(crate) times: [AtomicU64; TIMES],
}

impl Counts {
    /// Counts a statement that has taken so long.
    pub(crate) fn took(&self, time: Duration) {
        let micros = time.as_micros() as u64;
        let place = (u64::BITS - micros.leading_zeros()) as usize;
        count(&self.times[place.min(TIMES - 1)]);
    }
}

/// Adds one to a count.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
