//! Waits of a session for a lock that others have.
//!
//! A wait ends when the lock is granted; or, after the session has left the queue, with an error:
//! it is the victim of a deadlock, has waited too long, or others have ended it. A session that
//! cannot leave the queue any more has been granted its request.

use super::LockSession;
use crate::error::{Result, StorageError};
use crate::lock::graph::LockOwner;
use crate::lock::mode::Precedence;
use crate::lock::wait::{Queue, Visible, Wait};
use crate::sync::lock;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// When a sleeper looks for a cycle again; each time it sleeps twice as long, as a hundred sleepers
/// would search all the time.
const SEARCH_AGAIN: Duration = Duration::from_millis(5);

/// Outcome of a wait.
enum Outcome {
    Granted,
    Deadlock,
    TooLong,
    Stopped,
    Interrupted,
}

impl LockSession {
    pub(super) fn wait(&mut self, queue: Queue, what: impl Fn() -> String) -> Result<()> {
        self.waits += 1;
        self.has_waited = true;
        // While it is awake it is in no search: it searches itself before it sleeps.
        if self.parker.spin() {
            self.counters.waits += 1;
            return Ok(());
        }
        let wait = Wait {
            session: self.id,
            number: self.waits,
            queue,
        };
        let LockOwner(owner) = self.owner();
        *lock(&owner.waiting) = Some(wait);
        let started = Instant::now();
        let outcome = self.sleep(&owner, queue, started);
        *lock(&owner.waiting) = None;
        let waited = started.elapsed();
        self.counters.waits += 1;
        self.counters.wait_ns += waited.as_nanos() as u64;
        let waited_ms = waited.as_millis() as u64;
        match outcome {
            Outcome::Granted => Ok(()),
            Outcome::Deadlock => {
                self.counters.deadlocks += 1;
                Err(StorageError::Deadlock { waited_ms })
            }
            // The holder may never release the lock.
            Outcome::Stopped => Err(StorageError::Poisoned),
            Outcome::Interrupted => Err(StorageError::Interrupted),
            Outcome::TooLong => {
                self.counters.timeouts += 1;
                Err(StorageError::LockTimeout {
                    what: what().into(),
                    waited_ms,
                })
            }
        }
    }

    fn sleep(&mut self, owner: &Arc<Visible>, queue: Queue, started: Instant) -> Outcome {
        let graph = self.manager.graph().clone();
        let mut search_again = SEARCH_AGAIN;
        loop {
            // Until the victim has left its queue, nobody else searches.
            let (cycle, guard) = graph.search(owner);
            if let Some(cycle) = cycle {
                if self.precedence == Precedence::First {
                    graph.rouse(&cycle);
                } else if self.withdraw(queue) {
                    return Outcome::Deadlock;
                }
            }
            drop(guard);
            let left = self.wait_limit.saturating_sub(started.elapsed());
            let is_stopped = self.manager.is_stopped();
            let is_interrupted = self.parker.is_interrupted();
            if left.is_zero() || is_stopped || is_interrupted {
                if self.withdraw(queue) {
                    return if is_stopped {
                        Outcome::Stopped
                    } else if is_interrupted {
                        Outcome::Interrupted
                    } else {
                        Outcome::TooLong
                    };
                }
                // It is out of the queue, so it is granted and the signal is on its way: the next
                // wait must not get it.
                while !self.parker.is_granted() {
                    self.parker.sleep(SEARCH_AGAIN, || false);
                }
                return Outcome::Granted;
            }
            let manager = &self.manager;
            if self
                .parker
                .sleep(left.min(search_again), || manager.is_stopped())
            {
                return Outcome::Granted;
            }
            // Free locks are left to those who are awake.
            if self.claim(queue) {
                return Outcome::Granted;
            }
            // Its turn may be next.
            if self.parker.spin() {
                return Outcome::Granted;
            }
            search_again = search_again.saturating_mul(2);
        }
    }

    /// Takes the lock if it is free; false if not, or if the request has been granted, of which the
    /// parker will know.
    fn claim(&mut self, queue: Queue) -> bool {
        let Queue::Head { shard, entry } = queue else {
            return false;
        };
        let heads = self.manager.queues.shard(shard);
        let is_granted = heads.claim(entry, self.id, &mut self.woken);
        self.wake_all();
        is_granted
    }

    /// Leaves the queue; false if the request has been granted.
    fn withdraw(&mut self, queue: Queue) -> bool {
        let woken = &mut self.woken;
        let has_left = match queue {
            Queue::Head { shard, entry } => self
                .manager
                .queues
                .shard(shard)
                .withdraw(entry, self.id, woken),
            Queue::Range { tree, range } => self.manager.queues.bucket(tree).withdraw(range, woken),
            Queue::Writer { tree } => self.manager.queues.bucket(tree).withdraw_writer(self.id),
        };
        self.wake_all();
        has_left
    }
}
