//! Deferred redo after a crash: pages get their missing changes when they come into a frame.
//!
//! If an opening redid the log before its first transaction, it would have to read and write all
//! changed pages first. Where the log is short, it keeps the changes instead, by page
//! ([`PendingRedo`]). They are redone when a page is brought into a frame, so nobody sees a page
//! without them. A thread, or the driver of the engine, redoes the pages that nobody asks for, and
//! a checkpoint does so before it begins.
//!
//! Invariants:
//! 1. No frame shows a page without its changes: none of the pages has a frame when the pending
//!    redo is set, and a frame that gets one of them stays latched until the changes are made.
//! 2. A page that leaves the pending redo is dirty, so the next checkpoint has it written; and
//!    until then the log keeps the changes.

use super::frame::unpoisoned;
use crate::page::PageId;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use storage::Result;

/// Changes that the log has and pages lack.
pub trait PendingRedo: Send + Sync {
    /// The pending redo of a page, if any, and whether it restores the page whole, so that it need
    /// not be read.
    fn of(&self, page: PageId) -> Option<NeededRedo>;

    /// Redoes the missing changes of the page, whose content is `bytes` if those are intact, and
    /// removes it from the pending redo. Nobody else has the page.
    fn repeat(&self, page: PageId, bytes: &mut [u8], is_intact: bool) -> Result<(), String>;

    /// A page whose redo is pending or under way.
    fn next(&self) -> Option<PageId>;
}

/// Redo that a page needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededRedo {
    /// Some changes of the stored page.
    Changes,
    /// The whole page.
    Whole,
}

/// The pending redo of a pool, as long as there is one.
#[derive(Default)]
pub(super) struct DeferredRedo {
    /// To be read without the lock.
    is_any: AtomicBool,
    pending_redo: RwLock<Option<Box<dyn PendingRedo>>>,
}

impl DeferredRedo {
    pub(super) fn set(&self, pending_redo: Box<dyn PendingRedo>) {
        let before = unpoisoned(self.pending_redo.write()).replace(pending_redo);
        assert!(before.is_none(), "redo is deferred twice");
        self.is_any.store(true, Ordering::Release);
    }

    pub(super) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// Calls `run` with the pending redo, if there is one.
    pub(super) fn with<T>(&self, run: impl FnOnce(&dyn PendingRedo) -> Option<T>) -> Option<T> {
        if !self.is_any() {
            return None;
        }
        unpoisoned(self.pending_redo.read())
            .as_deref()
            .and_then(run)
    }

    /// Forgets it: no page lacks anything.
    pub(super) fn end(&self) {
        self.is_any.store(false, Ordering::Release);
        *unpoisoned(self.pending_redo.write()) = None;
    }
}
