//! Transactions that have tables for themselves, counted for all sessions.
//!
//! A read without a lock looks at the count first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of transactions that have a table for themselves, or wait for one.
#[derive(Debug, Default)]
pub(crate) struct Exclusions(Arc<AtomicUsize>);

/// A transaction that is counted until this is dropped.
pub(crate) struct Exclusion(Arc<AtomicUsize>);

impl Exclusions {
    pub(crate) fn begin(&self) -> Exclusion {
        self.0.fetch_add(1, Ordering::SeqCst);
        Exclusion(Arc::clone(&self.0))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0
    }
}

impl Drop for Exclusion {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
