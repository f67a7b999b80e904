//! The thread that writes checkpoints ahead of the sessions: wake-up, waits and end.
//!
//! It begins a checkpoint as soon as one is due, when the log still has room for records that are
//! appended meanwhile. A session that finds one due wakes it and goes on. A session waits only if
//! the log has become so long that the thread does not keep up. It waits at the end of its
//! transaction, when it has neither locks nor latches, and at most until the thread has looked
//! twice. Without the thread, sessions write checkpoints themselves.
//!
//! An error ends the thread and stops the partition. A full disk is no such error: the next
//! checkpoint that is due may find room.
//!
//! States: *absent* → (`begin`) *asleep* ↔ (`wake`, `next`) *looking* → (`end`, or an error)
//! *absent*.

use std::sync::PoisonError;
use storage::engine::CheckpointCounters;
use storage::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, lock};

/// The writer of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    /// The thread.
    Thread,
    /// A session, which waits for it.
    Session,
}

#[derive(Default)]
struct State {
    is_present: bool,
    is_wanted: bool,
    is_ending: bool,
    /// Times that the thread has looked whether a checkpoint is due, and has written it.
    looks: u64,
}

/// State that sessions and the thread share.
#[derive(Default)]
pub(super) struct Checkpointer {
    state: Mutex<State>,
    /// The thread is wanted, or is to end.
    wanted: Condvar,
    /// It has looked, or is gone.
    looked: Condvar,
    in_background: AtomicU64,
    by_sessions: AtomicU64,
    waits: AtomicU64,
    /// Number of waiters for a checkpoint that is being written.
    waiting: AtomicU64,
}

/// Somebody waits for a checkpoint.
pub(super) struct Hurry<'c>(&'c Checkpointer);

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Checkpointer {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Wakes the thread; says whether there is one.
    pub(super) fn wake(&self) -> bool {
        let mut state = self.state();
        state.is_wanted = true;
        self.wanted.notify_one();
        state.is_present
    }

    /// While it is urgent, waits until the thread has looked twice, or is gone: the first look may
    /// have begun before it was urgent.
    pub(super) fn wait_if(&self, is_urgent: impl Fn() -> bool) {
        for look in 0..2 {
            let looks = self.state().looks;
            // Asked after `looks` is read: a look that ends in between counts, so the wait sees it.
            if !is_urgent() {
                return;
            }
            if look == 0 {
                self.waits.fetch_add(1, Ordering::Relaxed);
            }
            self.wait_for_look(looks);
        }
    }

    /// Says that somebody waits until the thread has written its checkpoint.
    pub(super) fn hurry(&self) -> Hurry<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Hurry(self)
    }

    /// Whether somebody waits for the thread's checkpoint, or for the thread to end.
    pub(super) fn is_hurried(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0 || self.state().is_ending
    }

    /// Waits until the thread has looked more often than so many times, or is gone.
    fn wait_for_look(&self, looks: u64) {
        let _hurry = self.hurry();
        let mut state = self.state();
        // The thread may have taken the last wish before it was urgent.
        state.is_wanted = true;
        self.wanted.notify_one();
        while state.looks == looks && state.is_present {
            let woken = self.looked.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets the thread end, also if it has not begun.
    pub(super) fn end(&self) {
        self.state().is_ending = true;
        self.wanted.notify_one();
    }

    /// Says that the calling thread writes checkpoints until [`Present::next`] says no, or it gives
    /// up.
    pub(super) fn begin(&self) -> Present<'_> {
        self.state().is_present = true;
        Present(self)
    }

    /// Notes that a checkpoint was written.
    pub(super) fn note(&self, writer: Writer) {
        let count = match writer {
            Writer::Thread => &self.in_background,
            Writer::Session => &self.by_sessions,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts of checkpoints, by their writers.
    pub(super) fn counters(&self) -> CheckpointCounters {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        CheckpointCounters {
            in_background: get(&self.in_background),
            by_sessions: get(&self.by_sessions),
            waits: get(&self.waits),
        }
    }
}

/// The thread while it is there.
pub(super) struct Present<'c>(&'c Checkpointer);

impl Present<'_> {
    /// Sleeps until it is to look; false when it is to end.
    pub(super) fn next(&self) -> bool {
        let mut state = self.0.state();
        while !state.is_wanted && !state.is_ending {
            let woken = self.0.wanted.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state.is_wanted = false;
        !state.is_ending
    }

    /// Says that it has looked.
    pub(super) fn looked(&self) {
        self.0.state().looks += 1;
        self.0.looked.notify_all();
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        self.0.state().is_present = false;
        self.0.looked.notify_all();
    }
}

#[cfg(feature = "schedules")]
#[cfg(test)]
#[path = "checkpointer_schedule_tests.rs"]
mod schedule_tests;
