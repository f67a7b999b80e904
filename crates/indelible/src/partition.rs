//! A partition: one engine behind a lock with a wait limit.
//!
//! Whoever runs transactions in a partition takes its [`Seat`] (the engine itself) out of the lock and puts it back
//! afterwards, so an interactive transaction can hold it without a guard that borrows. The mutex is held for a few
//! instructions only; waiting happens on condition variables.
//!
//! Invariants:
//! 1. Exactly one of these is true of a partition: its seat is in the lock, it is held by one session or worker,
//!    or the partition is stopped.
//! 2. A seat in the lock has no open transaction, and every commit in it that needs a fence of the thread that made it
//!    has had it (a fence covers its own thread's flushes only).
//! 3. `durable` never runs ahead of what the engine said.
//!
//! Order of locks: seats in ascending partition number where a thread waits without a short limit; the mutex inside is never
//! held while another lock is taken.
//!
//! A thread that arrives while the seat is free takes it even if others wait: handing it over strictly would cost a
//! context switch a transaction. A waiter that has waited [`PATIENCE`] gets the next turn.

use crate::error::{Error, Result};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use storage::engine::{CommitTicket, Engine};

/// Waiting time after which a thread is served before newcomers.
const PATIENCE: Duration = Duration::from_millis(1);
/// Looks at a busy partition before a thread sleeps: about two microseconds, several times a short transaction.
const SPINS: u32 = 100;

/// The right to run transactions in a partition: its engine, and what is known about its commits.
pub(crate) struct Seat {
    pub(crate) engine: Box<dyn Engine>,
    /// Newest commit whose caller waits, or waited, until it was durable.
    pub(crate) promised: CommitTicket,
}

/// One partition of a database.
pub(crate) struct Partition {
    pub(crate) number: u32,
    lock: Mutex<Lock>,
    /// Signalled when the seat comes back.
    freed: Condvar,
    /// Signalled when `durable` grows.
    synced: Condvar,
    /// Whether the seat is in the lock: a hint for spinning.
    free: AtomicBool,
    /// Threads that wait for the seat.
    waiting: AtomicU32,
    /// Newest ticket known to be durable. Stored by the holder of the seat only.
    durable: AtomicU64,
    /// Threads that wait for `durable` to grow. Signalling nobody would still cost a system call.
    unacknowledged: AtomicU32,
}

struct Lock {
    seat: Option<Seat>,
    stopped: bool,
    /// A waiter that has lost patience, by its turn number.
    next: Option<u64>,
    turns: u64,
}

impl Partition {
    pub(crate) fn new(number: u32, engine: Box<dyn Engine>) -> Self {
        let durable = engine.durable();
        Self {
            number,
            lock: Mutex::new(Lock {
                seat: Some(Seat {
                    engine,
                    promised: durable,
                }),
                stopped: false,
                next: None,
                turns: 0,
            }),
            freed: Condvar::new(),
            synced: Condvar::new(),
            free: AtomicBool::new(true),
            waiting: AtomicU32::new(0),
            durable: AtomicU64::new(durable.0),
            unacknowledged: AtomicU32::new(0),
        }
    }

    /// Takes the seat, waiting at most `limit` for it.
    #[inline]
    pub(crate) fn take(&self, limit: Duration) -> Result<Seat> {
        if self.free.load(Ordering::Relaxed) {
            let mut lock = self.lock();
            if lock.next.is_none()
                && let Some(seat) = lock.seat.take()
            {
                self.free.store(false, Ordering::Relaxed);
                return Ok(seat);
            }
        }
        self.wait(limit)
    }

    #[cold]
    fn wait(&self, limit: Duration) -> Result<Seat> {
        let start = Instant::now();
        for _ in 0..SPINS {
            if self.free.load(Ordering::Relaxed) {
                break;
            }
            spin_loop();
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let taken = self.wait_asleep(start, limit);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        taken
    }

    fn wait_asleep(&self, start: Instant, limit: Duration) -> Result<Seat> {
        let mut lock = self.lock();
        lock.turns += 1;
        let turn = lock.turns;
        loop {
            if lock.stopped {
                return Err(Error::Stopped {
                    partition: self.number,
                });
            }
            let mine = lock.next.is_none_or(|next| next == turn);
            if mine && let Some(seat) = lock.seat.take() {
                lock.next = None;
                self.free.store(false, Ordering::Relaxed);
                return Ok(seat);
            }
            let waited = start.elapsed();
            if waited >= limit {
                if lock.next == Some(turn) {
                    lock.next = None;
                    self.freed.notify_all();
                }
                let waited_ms = waited.as_millis() as u64;
                return Err(Error::Conflict {
                    partition: self.number,
                    waited_ms,
                });
            }
            if waited >= PATIENCE && lock.next.is_none() {
                lock.next = Some(turn);
            }
            let pause = PATIENCE.min(limit.saturating_sub(waited));
            let woken = self.freed.wait_timeout(lock, pause);
            lock = woken.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }

    /// Puts the seat back.
    #[inline]
    pub(crate) fn put(&self, seat: Seat) {
        self.note_durable(seat.engine.durable());
        self.lock().seat = Some(seat);
        self.free.store(true, Ordering::Relaxed);
        // The mutex orders this: a waiter counts itself before it looks into the lock, so either it finds the seat or it is
        // seen here.
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.freed.notify_all();
        }
    }

    /// Gives the partition up after a change that was interrupted: nobody gets it any more.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.freed.notify_all();
        self.synced.notify_all();
    }

    /// Whether a thread waits for the seat.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Newest ticket known to be durable.
    pub(crate) fn durable(&self) -> CommitTicket {
        CommitTicket(self.durable.load(Ordering::SeqCst))
    }

    /// Publishes what the engine said about durability. Called by the holder of the seat.
    #[inline]
    pub(crate) fn note_durable(&self, ticket: CommitTicket) {
        if ticket.0 > self.durable.load(Ordering::Relaxed) {
            self.durable.store(ticket.0, Ordering::SeqCst);
            if self.unacknowledged.load(Ordering::SeqCst) > 0 {
                // A waiter between its look at `durable` and its sleep holds the mutex.
                drop(self.lock());
                self.synced.notify_all();
            }
        }
    }

    /// Waits until a commit is durable. Whoever finds after `group_wait` that it is not, forces the group for all:
    /// that thread is the group's leader.
    pub(crate) fn wait_durable(&self, ticket: CommitTicket, group_wait: Duration) -> Result<()> {
        self.unacknowledged.fetch_add(1, Ordering::SeqCst);
        let waited = self.wait_synced(ticket, Instant::now() + group_wait);
        self.unacknowledged.fetch_sub(1, Ordering::SeqCst);
        if waited? { Ok(()) } else { self.force(ticket) }
    }

    /// False if the deadline came first.
    fn wait_synced(&self, ticket: CommitTicket, deadline: Instant) -> Result<bool> {
        let mut lock = self.lock();
        while self.durable() < ticket {
            if lock.stopped {
                return Err(Error::Stopped {
                    partition: self.number,
                });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let woken = self.synced.wait_timeout(lock, left);
            lock = woken.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        Ok(true)
    }

    /// Makes every commit up to `ticket` durable, as the leader of its group.
    fn force(&self, ticket: CommitTicket) -> Result<()> {
        // The commit is made and must not be reported as failed because others keep the partition busy: no limit.
        let mut seat = self.take(Duration::MAX)?;
        let forced = if self.durable() < ticket {
            seat.engine.force()
        } else {
            Ok(())
        };
        self.put(seat);
        // What failed here is not known to be undone: recovery decides.
        forced.map_err(|error| Error::InDoubt {
            cause: error.to_string(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Lock> {
        // Nothing that can panic runs under this mutex, so its content is whole even if it says otherwise.
        self.lock
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
