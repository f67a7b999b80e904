//! A sleeping session, and the handle that ends its waits.
//!
//! A parker belongs to one session. The session sets it back before it enters a queue; the session
//! that grants the request takes it out of the queue under the queue's mutex and signals
//! afterwards, once. So a signal is never lost. One that comes late may wake the session in its
//! next wait, and the word says then that it is not granted.

use crate::sync::{AtomicBool, AtomicU32, Condvar, Mutex, Ordering, lock, spin_loop};
use std::sync::Arc;
use std::time::Duration;

const WAITING: u32 = 0;
const GRANTED: u32 = 1;
/// As waiting, but the session is to check again why it waits before it sleeps.
const ROUSED: u32 = 2;
/// As waiting, and only a signal wakes the session. Stored under the mutex.
const ASLEEP: u32 = 3;

/// Looks at the word before it sleeps: some ten microseconds, the cost of a sleep and a wake-up,
/// and several times a short transaction.
const SPINS: u32 = if cfg!(feature = "schedules") { 0 } else { 1000 };

/// The place where one session sleeps, and its companion. Alone on its cache lines, as the next one
/// is another session's.
#[repr(align(128))]
pub(super) struct Parker {
    word: AtomicU32,
    interrupted: AtomicBool,
    mutex: Mutex<()>,
    signal: Condvar,
}

impl Parker {
    pub(super) fn new() -> Self {
        Self {
            word: AtomicU32::new(GRANTED),
            interrupted: AtomicBool::new(false),
            mutex: Mutex::new(()),
            signal: Condvar::new(),
        }
    }

    /// A new wait begins. Before the session is in a queue.
    pub(super) fn set_back(&self) {
        self.word.store(WAITING, Ordering::Release);
    }

    /// Its request has been granted. A session that is still awake costs no system call.
    pub(super) fn wake(&self) {
        if self.word.swap(GRANTED, Ordering::AcqRel) == ASLEEP {
            // It has the mutex until it can hear the signal.
            drop(lock(&self.mutex));
            self.signal.notify_one();
        }
    }

    pub(super) fn is_asleep(&self) -> bool {
        self.word.load(Ordering::Relaxed) == ASLEEP
    }

    /// Whether the session looks at its word all the time. One that is being woken is not awake,
    /// and looks at its queue before it says so.
    pub(super) fn is_awake(&self) -> bool {
        self.word.load(Ordering::Relaxed) == WAITING
    }

    /// As a session that sleeps, for tests without threads.
    #[cfg(test)]
    #[cfg(not(feature = "schedules"))]
    pub(super) fn pretend_sleep(&self) {
        self.word.store(ASLEEP, Ordering::Release);
    }

    /// Wakes the session if it sleeps, because its request can be granted, or will be soon.
    pub(super) fn stir(&self) {
        if self.change(ASLEEP, ROUSED) {
            drop(lock(&self.mutex));
            self.signal.notify_one();
        }
    }

    pub(super) fn is_granted(&self) -> bool {
        self.word.load(Ordering::Acquire) == GRANTED
    }

    /// Spins for a short time until the request is granted.
    pub(super) fn spin(&self) -> bool {
        for _ in 0..SPINS {
            if self.is_granted() {
                return true;
            }
            spin_loop();
        }
        self.is_granted()
    }

    /// Wakes the session to check again why it waits.
    pub(super) fn rouse(&self) {
        let guard = lock(&self.mutex);
        let rouse = |word| (word != GRANTED).then_some(ROUSED);
        let roused = self
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, rouse);
        if roused == Ok(ASLEEP) {
            self.signal.notify_one();
        }
        drop(guard);
    }

    /// Whether waits of the session end at once.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    /// Sleeps until the request is granted, the session roused or interrupted, or the partition
    /// stopped, `limit` at most. Says whether it is granted.
    pub(super) fn sleep(&self, limit: Duration, is_stopped: impl Fn() -> bool) -> bool {
        let guard = lock(&self.mutex);
        if self.change(ROUSED, WAITING) || !self.change(WAITING, ASLEEP) {
            return self.is_granted();
        }
        if !is_stopped() && !self.is_interrupted() {
            drop(self.signal.wait_timeout(guard, limit));
        }
        // It checks all reasons to wait now, so a rousing has had its effect.
        let _ = self.change(ASLEEP, WAITING) || self.change(ROUSED, WAITING);
        self.is_granted()
    }

    /// Replaces one word by another; false if it was a third one.
    fn change(&self, from: u32, to: u32) -> bool {
        let changed = self
            .word
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
        changed.is_ok()
    }
}

/// Ends what one session does, from any thread: its waits for locks fail with
/// [`StorageError::Interrupted`](crate::StorageError::Interrupted) while it is raised. Clones are
/// handles on the same one.
#[derive(Clone)]
pub struct Interrupt(pub(super) Arc<Parker>);

impl Interrupt {
    /// Ends the session's wait, and each later one at once, until [`Interrupt::clear`].
    pub fn raise(&self) {
        self.0.interrupted.store(true, Ordering::SeqCst);
        // A session that has not seen the flag before it sleeps holds the mutex, so it is woken.
        self.0.rouse();
    }

    /// Lets the session wait again.
    pub fn clear(&self) {
        // A look is cheap, and a store of this kind is not.
        if self.is_raised() {
            self.0.interrupted.store(false, Ordering::SeqCst);
        }
    }

    /// Whether it is raised.
    pub fn is_raised(&self) -> bool {
        self.0.is_interrupted()
    }
}

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Interrupt").field(&self.is_raised()).finish()
    }
}
