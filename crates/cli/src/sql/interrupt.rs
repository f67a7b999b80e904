//! Ctrl-C: the first stops the statement that runs, a second one the program.
//!
//! The thread of signals asks here before it ends the process. A statement that does not stop soon
//! is left to the second Ctrl-C, and one that waits for standard input has nothing else.

use client::Cancel;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

static RUNNING: Mutex<Option<Box<dyn Cancel>>> = Mutex::new(None);

/// A statement that Ctrl-C stops, as long as this lives.
pub(crate) struct InterruptScope(());

/// Lets Ctrl-C stop a statement instead of the program.
pub(crate) fn guard(cancel: Box<dyn Cancel>) -> InterruptScope {
    set(Some(cancel));
    InterruptScope(())
}

impl Drop for InterruptScope {
    fn drop(&mut self) {
        set(None);
    }
}

fn set(cancel: Option<Box<dyn Cancel>>) {
    *RUNNING.lock().unwrap_or_else(PoisonError::into_inner) = cancel;
}

/// Stops the statement that runs; false if none does, or if it has been told already.
pub(crate) fn cancel() -> bool {
    let running = RUNNING
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    running.inspect(|cancel| cancel.cancel()).is_some()
}

/// Waits; false if Ctrl-C ended the wait.
pub(super) fn sleep(time: Duration) -> bool {
    let alarm = Alarm::default();
    let _guard = guard(Box::new(alarm.clone()));
    let (has_rung, bell) = &*alarm.0;
    let has_rung = has_rung.lock().unwrap_or_else(PoisonError::into_inner);
    let waited = bell.wait_timeout_while(has_rung, time, |has_rung| !*has_rung);
    waited.is_ok_and(|(has_rung, _)| !*has_rung)
}

/// Ends a wait.
#[derive(Clone, Default)]
struct Alarm(Arc<(Mutex<bool>, Condvar)>);

impl Cancel for Alarm {
    fn cancel(&self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}
