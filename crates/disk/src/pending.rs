//! Work that is undone unless it is finished, also when a signal ends the process.
//!
//! Files and directories are made under temporary names and renamed when they are complete. Until
//! then each has a [`Pending`], whose drop removes it. A signal handler ends the process without
//! drops, so all of them are in one list, which [`undo_pending`] undoes.
//!
//! Invariant: the last step and the removal from the list are one critical section. So what was
//! finished is never undone, and what is undone never gets its name.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

type Undo = Box<dyn FnMut() + Send>;

/// All work that is pending in this process, by numbers.
static ALL: Mutex<(u64, BTreeMap<u64, Undo>)> = Mutex::new((0, BTreeMap::new()));

/// Work that is undone on drop.
#[derive(Debug)]
pub struct Pending {
    number: u64,
    /// A forked child drops its copy without effect.
    process: u32,
}

impl Pending {
    /// Work that `undo` takes back. It must allow that the work goes on in another thread.
    pub fn new(undo: impl FnMut() + Send + 'static) -> Self {
        let mut all = lock();
        all.0 += 1;
        let number = all.0;
        all.1.insert(number, Box::new(undo));
        Self {
            number,
            process: std::process::id(),
        }
    }

    /// Does the last step. If that fails, the work is undone.
    pub fn finish<R, E>(self, last: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        let mut all = lock();
        let done = last();
        if done.is_ok() {
            all.1.remove(&self.number);
        }
        // The drop of this takes the lock again.
        drop(all);
        done
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        let mut all = lock();
        if let Some(mut undo) = all.1.remove(&self.number) {
            undo();
        }
    }
}

/// Undoes all work that is pending, for a process that ends now: other threads cannot finish or
/// begin any more.
pub fn undo_pending() {
    let mut all = lock();
    for undo in all.1.values_mut() {
        undo();
    }
    std::mem::forget(all);
}

fn lock() -> MutexGuard<'static, (u64, BTreeMap<u64, Undo>)> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn work_is_undone_unless_its_last_step_succeeds() {
        let undone = Arc::new(AtomicU32::new(0));
        let pending = || {
            let undone = Arc::clone(&undone);
            Pending::new(move || {
                undone.fetch_add(1, Ordering::Relaxed);
            })
        };
        assert_eq!(pending().finish(|| Ok::<_, ()>(7)), Ok(7));
        assert_eq!(undone.load(Ordering::Relaxed), 0);
        assert_eq!(pending().finish(|| Err::<(), _>(8)), Err(8));
        assert_eq!(undone.load(Ordering::Relaxed), 1);
        drop(pending());
        assert_eq!(undone.load(Ordering::Relaxed), 2);
    }
}
