//! A partition: the sessions of its engine, each behind a lock with a wait limit.
//!
//! A thread holds the lock of a session slot ([`SessionSlot`]) while it runs transactions in a
//! partition. Most engines run one transaction at a time and have one slot. The page engine has
//! many, and orders its transactions by locks of its own. An uncontended transaction therefore
//! costs one atomic step to begin and one to end. All waiting goes through a queue apart from the
//! locks, which nobody touches while nobody waits.
//!
//! Invariants:
//! 1. A slot that is not locked has no open transaction, and every commit in it that needs a fence
//!    of the thread that made it has had it (a fence covers its own thread's flushes only), unless
//!    the partition is stopped.
//! 2. A stopped partition is never entered again.
//! 3. `durable` is never newer than an engine's session has reported.
//!
//! Order of locks: slots in ascending partition number when a thread waits without a short limit.
//! The queue's mutex is held for a few instructions; its holder tries for the slot and never waits
//! for it.
//!
//! A thread that arrives while the slot is free takes it even if others wait: handing it over
//! strictly would cost a context switch a transaction. A waiter that has waited for [`PATIENCE`]
//! gets the next turn. One sleeper at a time is woken, and until it has looked for a slot nobody
//! wakes another one: threads that run give slots back many times before it does.

use crate::error::{Error, Result};
use crate::lock_policy::LockPolicy;
use crate::sync::{
    AtomicBool, AtomicU32, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, spin_loop,
};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::{Duration, Instant};
use storage::StorageError;
use storage::engine::{CommitTicket, Engine, GlobalTxnId};
use storage::lock::Interrupt;
use storage::sync::CachePadded;

/// Waiting time after which a thread is served before newcomers.
const PATIENCE: Duration = Duration::from_millis(1);
/// Tries for a busy partition before a thread sleeps, each after a slot was put back.
const TRIES: u32 = if cfg!(feature = "schedules") { 2 } else { 64 };
/// Pauses in which that is waited for: some five microseconds, the cost of a sleep and a wake-up. A
/// holder that takes longer sleeps itself, or has much to do.
const PAUSES: u32 = if cfg!(feature = "schedules") { 2 } else { 400 };
/// Nobody's turn.
const NO_TURN: u64 = 0;

/// A slot and its lock, alone on their cache lines: each transaction stores to them.
#[repr(align(128))]
struct LockedSlot {
    slot: Mutex<SessionSlot>,
    /// The period of connections in which the newest transaction here has begun.
    period: Arc<AtomicU64>,
}

/// A session of the partition's engine, and the state of its commits, for the holder of the lock.
pub(crate) struct SessionSlot {
    pub(crate) engine: Box<dyn Engine>,
    /// Whether other sessions commit at the same time.
    is_shared: bool,
    /// The last policy that the engine was told.
    lock_policy: Option<LockPolicy>,
    /// Newest commit whose caller waits, or has waited, for its durability.
    pub(crate) promised: CommitTicket,
    /// Newest commit that the engine reported as durable when last asked.
    settled: CommitTicket,
    /// See [`LockedSlot`]; what was stored there last.
    period: u64,
    published_period: Arc<AtomicU64>,
}

impl SessionSlot {
    /// Notes that a transaction begins in this period of connections.
    #[inline]
    pub(crate) fn note_period(&mut self, period: u64) {
        if self.period != period {
            self.period = period;
            self.published_period.store(period, Ordering::SeqCst);
        }
    }

    /// Tells the engine the lock policy of the next transaction.
    #[inline]
    pub(crate) fn prepare(&mut self, lock_policy: LockPolicy) {
        if self.is_shared && self.lock_policy != Some(lock_policy) {
            let LockPolicy {
                wait_limit,
                isolation,
                precedence,
            } = lock_policy;
            if let Some(sessions) = self.engine.sessions() {
                sessions.set_isolation(isolation, wait_limit);
                sessions.set_precedence(precedence);
            }
            self.lock_policy = Some(lock_policy);
        }
    }

    /// Whether other sessions run transactions at the same time.
    pub(crate) fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Tells the engine that the next transactions here are parts of the one in `first`, a slot of
    /// another partition, or are independent again. Nothing is open here.
    pub(crate) fn act_for(&mut self, first: Option<&mut Self>) {
        if let Some(sessions) = self.engine.sessions() {
            let first = first.and_then(|first| first.engine.sessions());
            sessions.act_for(first.map(|first| first.lock_owner()));
        }
    }

    /// Puts a mark into the log if that has an archive. Nothing is open here.
    pub(crate) fn mark(&mut self, number: GlobalTxnId) -> storage::Result<()> {
        let marks = self.engine.idle()?.marks();
        marks.map_or(Ok(()), |marks| marks.mark(number))
    }

    /// Whether there are commits that others may have seen and that may not be durable yet.
    #[inline]
    pub(crate) fn is_ahead(&mut self) -> bool {
        if self.is_shared {
            self.promised = self.promised.max(self.engine.promised());
        }
        self.is_pending(self.promised)
    }

    /// Whether a commit may not be durable yet.
    #[inline]
    pub(crate) fn is_pending(&mut self, ticket: CommitTicket) -> bool {
        ticket > self.settled && {
            self.settled = self.engine.durable();
            ticket > self.settled
        }
    }
}

/// Locks a mutex that is rarely contended; the error names partition `number`.
pub(crate) fn lock_within<T>(
    mutex: &Mutex<T>,
    limit: Duration,
    number: u32,
) -> Result<MutexGuard<'_, T>> {
    let start = Instant::now();
    loop {
        if let Some(guard) = try_lock(mutex) {
            return Ok(guard);
        }
        if start.elapsed() >= limit {
            return Err(Error::Conflict {
                partition: number,
                waited_ms: start.elapsed().as_millis() as u64,
            });
        }
        std::thread::sleep(PATIENCE / 10);
    }
}

fn try_lock<T>(slot: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match slot.try_lock() {
        Ok(slot) => Some(slot),
        // Poisoned by a closure that panicked with the slot. Its changes are undone, or `stopped`
        // is set.
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A pause before the next try for a lock that nobody signals.
fn pause() {
    #[cfg(not(feature = "schedules"))]
    std::thread::sleep(PATIENCE / 10);
    #[cfg(feature = "schedules")]
    shuttle::thread::yield_now();
}

/// A number for this thread, its own while there are few threads.
pub(crate) fn thread_number() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = THREADS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    NUMBER.try_with(|&number| number).unwrap_or(0)
}

/// One partition of a database.
pub(crate) struct Partition {
    pub(crate) number: u32,
    slots: Box<[LockedSlot]>,
    stopped: AtomicBool,
    /// Whether something has changed since the newest mark in its log. Only holders of slots store
    /// it.
    unmarked: AtomicBool,
    /// Number of the waiter that has lost patience and gets the next turn.
    next: AtomicU64,
    /// How often a slot was put back while somebody waited. Alone on its cache lines: those who
    /// wait look at it, and leave the lines of the slot to its holder.
    puts: CachePadded<AtomicU64>,
    /// Threads that wait for the slot. It has cache lines of its own, as `asleep` and `durable` do:
    /// everybody reads the other fields, which seldom change.
    waiting: CachePadded<AtomicU32>,
    /// Those of them that sleep, or are about to.
    asleep: CachePadded<AtomicU32>,
    /// Whether one that slept has been woken and has not looked for a slot yet. Stored under the
    /// queue's mutex.
    is_waking: AtomicBool,
    /// A thread checks its condition under this mutex before it sleeps.
    queue: Mutex<Queue>,
    /// Signalled when a slot is put back.
    freed: Condvar,
    /// Signalled when `durable` grows.
    synced: Condvar,
    /// Newest ticket known to be durable. Only holders of slots store it.
    durable: CachePadded<AtomicU64>,
    /// Threads that wait for `durable` to grow. Signalling nobody would still cost a system call.
    unacknowledged: AtomicU32,
}

/// Waiters that have gone to sleep.
#[derive(Default)]
struct Queue {
    /// Turns given to them.
    turns: u64,
    /// Threads that sleep until a slot is put back.
    sleepers: u32,
}

impl Partition {
    /// A partition with the sessions of its engine.
    pub(crate) fn new(number: u32, sessions: Vec<Box<dyn Engine>>) -> Self {
        let durable = sessions.first().map(|engine| engine.durable());
        let durable = durable.unwrap_or_default();
        let is_shared = sessions.len() > 1;
        let slot = |engine| {
            let period = Arc::new(AtomicU64::new(0));
            LockedSlot {
                slot: Mutex::new(SessionSlot {
                    engine,
                    is_shared,
                    lock_policy: None,
                    promised: durable,
                    settled: durable,
                    period: 0,
                    published_period: Arc::clone(&period),
                }),
                period,
            }
        };
        Self {
            number,
            slots: sessions.into_iter().map(slot).collect(),
            stopped: AtomicBool::new(false),
            // Commits of an earlier process may have no mark after them.
            unmarked: AtomicBool::new(true),
            next: AtomicU64::new(NO_TURN),
            puts: CachePadded(AtomicU64::new(0)),
            waiting: CachePadded(AtomicU32::new(0)),
            asleep: CachePadded(AtomicU32::new(0)),
            is_waking: AtomicBool::new(false),
            queue: Mutex::default(),
            freed: Condvar::new(),
            synced: Condvar::new(),
            durable: CachePadded(AtomicU64::new(durable.0)),
            unacknowledged: AtomicU32::new(0),
        }
    }

    /// Takes a slot, waiting at most `limit` for it, and no longer once the interrupt is raised.
    #[inline]
    pub(crate) fn take(
        &self,
        limit: Duration,
        interrupt: Option<&Interrupt>,
    ) -> Result<MutexGuard<'_, SessionSlot>> {
        if self.next.load(Ordering::Relaxed) == NO_TURN
            && let Some(slot) = self.try_take()
        {
            return Ok(slot);
        }
        self.wait(limit, interrupt)
    }

    /// Takes a slot if one is free and the partition is not stopped.
    #[inline]
    fn try_take(&self) -> Option<MutexGuard<'_, SessionSlot>> {
        let slot = match &*self.slots {
            [only] => try_lock(&only.slot)?,
            // Each thread tries its own slot first, where its caches are warm.
            slots => {
                let (front, back) = slots.split_at(thread_number() % slots.len());
                let mut places = back.iter().chain(front);
                places.find_map(|place| try_lock(&place.slot))?
            }
        };
        // The lock orders this load after the store of the holder that stopped the partition.
        (!self.stopped.load(Ordering::Relaxed)).then_some(slot)
    }

    #[cold]
    #[inline(never)]
    fn wait(
        &self,
        limit: Duration,
        interrupt: Option<&Interrupt>,
    ) -> Result<MutexGuard<'_, SessionSlot>> {
        let start = Instant::now();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let taken = if let Some(slot) = self.spin(NO_TURN) {
            Ok(slot)
        } else {
            self.asleep.fetch_add(1, Ordering::SeqCst);
            let taken = self.wait_asleep(start, limit, interrupt);
            let others = self.asleep.fetch_sub(1, Ordering::SeqCst) - 1;
            if others > 0 && self.has_many_slots() {
                // Another slot may have been put back while this thread was being woken.
                self.wake();
            }
            taken
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        taken
    }

    /// Tries while others give slots back.
    fn spin(&self, turn: u64) -> Option<MutexGuard<'_, SessionSlot>> {
        let mut puts = self.puts.load(Ordering::Relaxed);
        for _ in 0..TRIES {
            if let Some(slot) = self.try_turn(turn) {
                return Some(slot);
            }
            let is_put = (0..PAUSES).any(|_| {
                spin_loop();
                self.puts.load(Ordering::Relaxed) != puts
            });
            if !is_put {
                return None;
            }
            puts = self.puts.load(Ordering::Relaxed);
        }
        None
    }

    /// Takes a slot for a waiter, unless it is the turn of another one.
    fn try_turn(&self, turn: u64) -> Option<MutexGuard<'_, SessionSlot>> {
        let next = self.next.load(Ordering::Relaxed);
        if next != NO_TURN && next != turn {
            return None;
        }
        let slot = self.try_take()?;
        if next != NO_TURN {
            self.next.store(NO_TURN, Ordering::Relaxed);
        }
        Some(slot)
    }

    fn wait_asleep(
        &self,
        start: Instant,
        limit: Duration,
        interrupt: Option<&Interrupt>,
    ) -> Result<MutexGuard<'_, SessionSlot>> {
        let mut queue = self.queue();
        queue.turns += 1;
        let turn = queue.turns;
        loop {
            if self.is_stopped() {
                return Err(Error::Stopped {
                    partition: self.number,
                });
            }
            if let Some(slot) = self.try_turn(turn) {
                return Ok(slot);
            }
            let waited = start.elapsed();
            let next = self.next.load(Ordering::Relaxed);
            let is_interrupted = interrupt.is_some_and(Interrupt::is_raised);
            if is_interrupted || waited >= limit {
                if next == turn {
                    self.next.store(NO_TURN, Ordering::Relaxed);
                    self.freed.notify_all();
                }
                if is_interrupted {
                    return Err(StorageError::Interrupted.into());
                }
                return Err(Error::Conflict {
                    partition: self.number,
                    waited_ms: waited.as_millis() as u64,
                });
            }
            if waited >= PATIENCE && next == NO_TURN {
                self.next.store(turn, Ordering::Relaxed);
            }
            queue.sleepers += 1;
            // Never longer than this, so that a signal lost to the order of two relaxed accesses
            // costs no more, and an interrupt is noticed.
            let pause = PATIENCE.min(limit.saturating_sub(waited));
            let woken = self.freed.wait_timeout(queue, pause);
            queue = woken.unwrap_or_else(PoisonError::into_inner).0;
            queue.sleepers -= 1;
            self.is_waking.store(false, Ordering::SeqCst);
            // It is awake, and the slot is taken for a short time if at all.
            drop(queue);
            if let Some(slot) = self.spin(turn) {
                return Ok(slot);
            }
            queue = self.queue();
        }
    }

    /// Takes every other slot too, waiting at most `limit`, so that nobody runs a transaction here.
    /// A thread that has one slot and waits for the rest gets them, since transactions end.
    pub(crate) fn take_rest(&self, limit: Duration) -> Result<Vec<MutexGuard<'_, SessionSlot>>> {
        let start = Instant::now();
        let mut rest = Vec::new();
        let others = self.slots.len() - 1;
        let mut at = 0;
        while rest.len() < others && !self.is_stopped() {
            // One of them is the caller's own and stays locked.
            match try_lock(&self.slots[at % self.slots.len()].slot) {
                Some(slot) => rest.push(slot),
                None if start.elapsed() >= limit => {
                    return Err(Error::Conflict {
                        partition: self.number,
                        waited_ms: start.elapsed().as_millis() as u64,
                    });
                }
                None if at >= self.slots.len() => std::thread::sleep(PATIENCE / 10),
                None => {}
            }
            at += 1;
        }
        if self.is_stopped() {
            return Err(Error::Stopped {
                partition: self.number,
            });
        }
        Ok(rest)
    }

    /// Waits until each slot was free once, or a transaction has begun there in this period of
    /// connections: no transaction from before is open then.
    pub(crate) fn pass(&self, period: u64, limit: Duration) -> Result<()> {
        let start = Instant::now();
        for place in &self.slots {
            while place.period.load(Ordering::SeqCst) != period {
                if let Some(slot) = try_lock(&place.slot) {
                    self.put(slot);
                    break;
                }
                if start.elapsed() >= limit {
                    return Err(Error::Conflict {
                        partition: self.number,
                        waited_ms: start.elapsed().as_millis() as u64,
                    });
                }
                pause();
            }
        }
        Ok(())
    }

    /// Whether it has several slots, so that transactions run at the same time.
    pub(crate) fn has_many_slots(&self) -> bool {
        self.slots.len() > 1
    }

    /// Puts the slot back.
    #[inline]
    pub(crate) fn put(&self, slot: MutexGuard<'_, SessionSlot>) {
        drop(slot);
        // A waiter counts itself before it tries for the slot, so either it gets the slot or it is
        // seen here.
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.tell_waiters();
        }
    }

    #[inline(never)]
    fn tell_waiters(&self) {
        self.puts.fetch_add(1, Ordering::SeqCst);
        // A sleeper that is being woken tries after it has said that it is awake.
        if self.asleep.load(Ordering::SeqCst) > 0 && !self.is_waking.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        // A waiter between its try and its sleep holds the mutex.
        let queue = self.queue();
        if queue.sleepers == 0 || self.is_waking.load(Ordering::SeqCst) {
            return;
        }
        self.is_waking.store(true, Ordering::SeqCst);
        if self.next.load(Ordering::Relaxed) == NO_TURN {
            self.freed.notify_one();
        } else {
            // Only one of them may take the slot.
            self.freed.notify_all();
        }
    }

    /// Stops the partition after an interrupted change: nobody gets it any more.
    pub(crate) fn stop(&self, slot: MutexGuard<'_, SessionSlot>) {
        self.stopped.store(true, Ordering::SeqCst);
        drop(slot);
        drop(self.queue());
        self.freed.notify_all();
        self.synced.notify_all();
    }

    /// Whether nobody may enter it any more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }

    /// Notes that something has changed since the newest mark in the log.
    #[inline]
    pub(crate) fn note_change(&self) {
        if !self.is_unmarked() {
            self.unmarked.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that the log has a mark after all changes. The caller has all slots.
    pub(crate) fn note_mark(&self) {
        self.unmarked.store(false, Ordering::Relaxed);
    }

    /// Whether something has changed since the newest mark.
    #[inline]
    pub(crate) fn is_unmarked(&self) -> bool {
        self.unmarked.load(Ordering::Relaxed)
    }

    /// Whether a thread waits for the slot.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Newest ticket known to be durable.
    pub(crate) fn durable(&self) -> CommitTicket {
        CommitTicket(self.durable.load(Ordering::SeqCst))
    }

    /// Publishes the newest durable ticket of the engine. Called by the holder of a slot.
    #[inline]
    pub(crate) fn note_durable(&self, slot: &mut SessionSlot) {
        let ticket = slot.engine.durable();
        slot.settled = ticket;
        if ticket.0 > self.durable.load(Ordering::Relaxed) {
            self.durable.fetch_max(ticket.0, Ordering::SeqCst);
            if self.unacknowledged.load(Ordering::SeqCst) > 0 {
                // A waiter between its look at `durable` and its sleep holds the mutex.
                drop(self.queue());
                self.synced.notify_all();
            }
        }
    }

    /// Waits until a commit is durable. The thread whose commit is not durable after `group_wait`
    /// becomes the leader of its group, and forces it for all.
    pub(crate) fn wait_durable(&self, ticket: CommitTicket, group_wait: Duration) -> Result<()> {
        self.unacknowledged.fetch_add(1, Ordering::SeqCst);
        let waited = self.wait_synced(ticket, Instant::now() + group_wait);
        self.unacknowledged.fetch_sub(1, Ordering::SeqCst);
        if waited? { Ok(()) } else { self.force(ticket) }
    }

    /// False if the deadline passed first.
    fn wait_synced(&self, ticket: CommitTicket, deadline: Instant) -> Result<bool> {
        let mut queue = self.queue();
        while self.durable() < ticket {
            if self.is_stopped() {
                return Err(self.in_doubt());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let woken = self.synced.wait_timeout(queue, left);
            queue = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(true)
    }

    /// Makes every commit up to `ticket` durable, as the leader of its group.
    fn force(&self, ticket: CommitTicket) -> Result<()> {
        // The commit is made and must not be reported as failed because others keep the partition
        // busy, so the wait has no limit.
        let Ok(mut slot) = self.take(Duration::MAX, None) else {
            // Nobody will make it durable now, but a thread may have done so before the partition
            // stopped.
            return if self.durable() < ticket {
                Err(self.in_doubt())
            } else {
                Ok(())
            };
        };
        let forced = if self.durable() < ticket {
            slot.engine.force()
        } else {
            Ok(())
        };
        self.note_durable(&mut slot);
        self.put(slot);
        // A failed force is not known to be undone: recovery decides.
        forced.map_err(|error| Error::InDoubt {
            cause: error.to_string(),
        })
    }

    /// A commit was made and the partition stopped before it was durable: it may survive or not.
    fn in_doubt(&self) -> Error {
        Error::InDoubt {
            cause: format!(
                "partition {} was stopped before the commit was durable",
                self.number
            ),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Nothing that can panic runs under this mutex, so its content is whole even if it is
        // poisoned.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
