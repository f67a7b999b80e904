//! The pace of a thread that looks at something again and again, until the server ends.
//!
//! The time between two looks may change while the thread sleeps, and the end of the server wakes
//! it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A time by which a thread goes, which may change; without one it sleeps.
pub(crate) struct Pace {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    time: Option<Duration>,
    has_ended: bool,
}

impl Pace {
    pub(crate) fn new(time: Option<Duration>) -> Self {
        let state = State {
            time,
            has_ended: false,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set(&self, time: Option<Duration>) {
        self.state().time = time;
        self.changed.notify_all();
    }

    /// Ends the thread.
    pub(crate) fn end(&self) {
        self.state().has_ended = true;
        self.changed.notify_all();
    }

    /// Sleeps for the pause that goes with the time, and returns the time; none at the end. A
    /// change of the time ends the pause.
    pub(crate) fn next(&self, pause: impl Fn(Duration) -> Duration) -> Option<Duration> {
        let mut state = self.state();
        loop {
            if state.has_ended {
                return None;
            }
            let Some(time) = state.time else {
                let slept = self.changed.wait(state);
                state = slept.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let slept = self.changed.wait_timeout(state, pause(time));
            state = slept.unwrap_or_else(PoisonError::into_inner).0;
            if !state.has_ended && state.time.is_some() {
                return state.time;
            }
        }
    }
}
