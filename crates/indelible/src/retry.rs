//! Retries of transactions that failed because of a conflict.
//!
//! A transaction that runs again at once meets the same transactions: of a hundred threads on few
//! rows, nearly all would do work that is undone. So a transaction that has failed twice waits for
//! the turn. The turn goes to one transaction at a time, in the order of their failures, and lasts
//! until the transaction ends. Transactions that have not failed run at the same time, and could
//! make it the victim of each of its attempts; so it has precedence: of a deadlock between it and
//! others, another one is the victim. From then on it can fail only because it touches a partition
//! that it had not touched before, or because a wait reaches its limit.

use crate::sync::{Condvar, Mutex, MutexGuard, sleep};
use crate::thread_flags::TurnFlag;
use pmem::ProcessStamp;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Failures that are retried at once: undoing one transaction resolves most deadlocks.
const AT_ONCE: u32 = 1;
/// Pauses between looks at a row that a connection has locked.
const PAUSE_MIN: Duration = Duration::from_micros(50);
const PAUSE_MAX: Duration = Duration::from_millis(5);

/// The attempts of one transaction, for callers who run it again themselves.
/// [`crate::Database::transaction`] and [`crate::Database::read`] have one inside. To be dropped
/// when the transaction has ended.
///
/// ```
/// # use indelible::{Database, Options, DataType};
/// # fn main() -> indelible::Result<()> {
/// # let directory = std::env::temp_dir().join(format!("indelible-retry-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&directory);
/// # let db = Database::create(&directory, &Options::new())?;
/// # let seen = db
/// #     .create_table("seen")
/// #     .column("id", DataType::Int64)
/// #     .primary_key(["id"])
/// #     .create()?;
/// let mut worker = db.worker(&[0], indelible::Durability::Immediate)?;
/// let mut retry = worker.retry();
/// while let Err(error) = worker.transaction(|t| t.insert(&seen, (1_i64,))) {
///     if !error.should_retry() {
///         return Err(error);
///     }
///     retry.wait();
/// }
/// # drop((retry, worker, seen));
/// # drop(db);
/// # let _ = std::fs::remove_dir_all(&directory);
/// # Ok(())
/// # }
/// ```
pub struct Retry<'db> {
    turns: &'db Turns,
    /// The bit of the database in the flags of threads.
    flag_bit: u64,
    /// Longest wait for the turn.
    limit: Duration,
    failures: u32,
    turn: Option<TurnFlag>,
    /// When a row that a connection has locked was met first.
    blocked: Option<Instant>,
}

impl<'db> Retry<'db> {
    #[inline]
    pub(crate) const fn new(turns: &'db Turns, flag_bit: u64, limit: Duration) -> Self {
        Self {
            turns,
            flag_bit,
            limit,
            failures: 0,
            turn: None,
            blocked: None,
        }
    }

    /// Waits a little for a connection that has locked a row, which may last as long as its
    /// transaction, so the turn goes on to others. False if it has lasted as long as a wait for a
    /// partition may.
    #[cold]
    pub(crate) fn wait_for_connection(&mut self) -> bool {
        self.end_turn();
        let since = *self.blocked.get_or_insert_with(Instant::now);
        sleep((since.elapsed() / 4).clamp(PAUSE_MIN, PAUSE_MAX));
        since.elapsed() < self.limit
    }

    /// After a failed attempt of a connection's commit, which keeps the connection's locks: it
    /// pauses, but does not wait for the turn, since whoever has that may want these rows.
    #[cold]
    pub(crate) fn pause(&mut self) {
        self.failures += 1;
        sleep((PAUSE_MIN * self.failures).min(PAUSE_MAX));
    }

    fn end_turn(&mut self) {
        if self.turn.take().is_some() {
            self.turns.pass_on();
        }
    }

    /// Attempts that failed so far.
    #[inline]
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// To be called after a failed attempt: waits until it is time for the next one, at most as
    /// long as for a partition. The transaction holds nothing meanwhile.
    #[cold]
    pub fn wait(&mut self) {
        self.failures += 1;
        if self.failures > AT_ONCE && self.turn.is_none() {
            let has_turn = self.turns.take(self.limit);
            self.turn = has_turn.then(|| TurnFlag::set(self.flag_bit));
        } else {
            std::thread::yield_now();
        }
    }
}

impl Drop for Retry<'_> {
    #[inline]
    fn drop(&mut self) {
        self.end_turn();
    }
}

/// The turn of transactions that run again, one at a time.
#[derive(Default)]
pub(crate) struct Turns {
    queue: Mutex<Queue>,
    process: ProcessStamp,
}

#[derive(Default)]
struct Queue {
    is_taken: bool,
    waiting: VecDeque<Arc<Condvar>>,
}

impl Turns {
    /// Waits for the turn; false if that took too long.
    fn take(&self, limit: Duration) -> bool {
        let mut queue = self.lock();
        if !queue.is_taken {
            queue.is_taken = true;
            return true;
        }
        let started = Instant::now();
        let mine = Arc::new(Condvar::new());
        queue.waiting.push_back(Arc::clone(&mine));
        loop {
            let left = limit.saturating_sub(started.elapsed());
            queue = match mine.wait_timeout(queue, left) {
                Ok((queue, _)) => queue,
                Err(poisoned) => poisoned.into_inner().0,
            };
            // The thread that passes on the turn removes the waiter.
            let Some(at) = queue.waiting.iter().position(|one| Arc::ptr_eq(one, &mine)) else {
                return true;
            };
            if started.elapsed() >= limit {
                queue.waiting.remove(at);
                return false;
            }
        }
    }

    /// Gives the turn to the thread that has waited longest.
    #[cold]
    fn pass_on(&self) {
        if !self.process.is_here() {
            // In a forked child nobody waits, and the mutex may be locked for ever.
            return;
        }
        let mut queue = self.lock();
        match queue.waiting.pop_front() {
            Some(next) => next.notify_one(),
            None => queue.is_taken = false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
mod tests {
    use super::{Retry, TurnFlag, Turns};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    const LONG: Duration = Duration::from_mins(30);

    const BIT: u64 = 1;

    fn failed_twice(turns: &Turns, limit: Duration) -> Retry<'_> {
        let mut retry = Retry::new(turns, BIT, limit);
        retry.wait();
        retry.wait();
        retry
    }

    #[test]
    fn one_failure_waits_for_nobody() {
        let turns = Turns::default();
        let _other = failed_twice(&turns, LONG);
        let mut retry = Retry::new(&turns, BIT, LONG);
        retry.wait();
        assert!(retry.turn.is_none() && retry.failures() == 1);
    }

    #[test]
    fn the_turn_is_not_kept_while_a_connection_is_waited_for() {
        let turns = Turns::default();
        let mut first = failed_twice(&turns, LONG);
        assert!(first.wait_for_connection());
        assert!(failed_twice(&turns, Duration::ZERO).turn.is_some());
        first.wait();
        assert!(first.turn.is_some());
        let mut commit = Retry::new(&turns, BIT, LONG);
        for _ in 0..3 {
            commit.pause();
        }
        assert!(commit.turn.is_none() && commit.failures() == 3);
    }

    #[test]
    fn the_turn_is_kept_until_the_transaction_ends() {
        let turns = Turns::default();
        let mut first = failed_twice(&turns, LONG);
        first.wait();
        assert!(first.turn.is_some() && TurnFlag::is_set(BIT) && first.failures() == 3);
        assert!(failed_twice(&turns, Duration::ZERO).turn.is_none());
        drop(first);
        assert!(!TurnFlag::is_set(BIT));
        assert!(failed_twice(&turns, Duration::ZERO).turn.is_some());
        assert!(!turns.lock().is_taken);
    }

    #[test]
    fn turns_go_round_in_order() {
        let turns = Turns::default();
        let first = failed_twice(&turns, LONG);
        let next = AtomicU32::new(0);
        std::thread::scope(|threads| {
            for number in 0..8 {
                let (turns, next) = (&turns, &next);
                threads.spawn(move || {
                    let mine = failed_twice(turns, LONG);
                    assert!(mine.turn.is_some());
                    assert_eq!(next.fetch_add(1, Ordering::SeqCst), number);
                });
                while turns.lock().waiting.len() <= number as usize {
                    std::thread::yield_now();
                }
            }
            drop(first);
        });
        assert!(!turns.lock().is_taken && turns.lock().waiting.is_empty());
    }

    #[test]
    fn who_waited_too_long_is_not_given_the_turn() {
        let turns = Turns::default();
        let first = failed_twice(&turns, LONG);
        assert!(
            failed_twice(&turns, Duration::from_millis(1))
                .turn
                .is_none()
        );
        drop(first);
        assert!(!turns.lock().is_taken);
    }
}
