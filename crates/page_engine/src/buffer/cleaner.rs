//! Waking and ending of a pool's page cleaner.
//!
//! The cleaner is a thread that writes dirty pages ahead of the clock's hand, so that a session
//! that needs a frame finds clean ones. It sleeps until the hand has moved on. It is an
//! optimisation: without it, and when it has found the disk full, sessions write pages themselves.
//! A write that fails in it stops the partition.
//!
//! States: *absent* → (`begin`) *asleep* ↔ (`wake`, `next`) *awake* → (`end`, or an error)
//! *absent*.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    Nothing,
    Clean,
    End,
}

/// Requests of a pool's sessions to its cleaner.
pub(super) struct Cleaner {
    is_present: AtomicBool,
    wish: Mutex<Wish>,
    changed: Condvar,
}

impl Cleaner {
    pub(super) fn new() -> Self {
        Self {
            is_present: AtomicBool::new(false),
            wish: Mutex::new(Wish::Nothing),
            changed: Condvar::new(),
        }
    }

    fn wish(&self) -> MutexGuard<'_, Wish> {
        self.wish.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a thread cleans.
    pub(super) fn is_present(&self) -> bool {
        self.is_present.load(Ordering::Relaxed)
    }

    /// Lets the cleaner examine the frames ahead of the hand.
    pub(super) fn wake(&self) {
        if !self.is_present() {
            return;
        }
        let mut wish = self.wish();
        if *wish == Wish::Nothing {
            *wish = Wish::Clean;
            self.changed.notify_one();
        }
    }

    /// Lets the cleaner end, also if it has not begun.
    pub(super) fn end(&self) {
        *self.wish() = Wish::End;
        self.changed.notify_one();
    }

    /// Makes the calling thread the cleaner, until [`Cleaner::next`] returns false or it gives up.
    pub(super) fn begin(&self) -> Present<'_> {
        let was_present = self.is_present.swap(true, Ordering::Relaxed);
        debug_assert!(!was_present, "two threads do the work of one");
        Present(self)
    }
}

/// The cleaner while it is there.
pub(super) struct Present<'c>(&'c Cleaner);

impl Present<'_> {
    /// Sleeps for a while, or until it is to end.
    pub(super) fn pause(&self, longest: Duration) {
        let end = Instant::now() + longest;
        let mut wish = self.0.wish();
        while *wish != Wish::End {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let woken = self.0.changed.wait_timeout(wish, left);
            wish = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sleeps until there are frames to examine; false when it is to end.
    pub(super) fn next(&self) -> bool {
        let mut wish = self.0.wish();
        while *wish == Wish::Nothing {
            let woken = self.0.changed.wait(wish);
            wish = woken.unwrap_or_else(PoisonError::into_inner);
        }
        let goes_on = *wish == Wish::Clean;
        if goes_on {
            *wish = Wish::Nothing;
        }
        goes_on
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.is_present.store(false, Ordering::Relaxed);
    }
}
