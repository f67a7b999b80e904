//! A session: the partitions that one transaction holds, and the end of their part of it.
//!
//! A partition is taken when it is first touched. A session waits for it if it takes partitions in
//! ascending order. Out of order, or while the transaction has locks that others may wait for, a
//! wait could close a cycle. Such a wait is short and ends in `Conflict`, after which the executor
//! runs the closure again, with all partitions seen so far taken in order. If the engines have
//! locks, the slots of a session act for one transaction, so a deadlock over several partitions is
//! found.
//!
//! States of a session: *sound* → (a failed statement that may have left a trace) → *doomed*, or →
//! (a wait that failed) → *conflicting*. Only a sound session commits. Dropping a session undoes
//! its uncommitted changes, also while a panic unwinds. A panic inside a change stops the partition
//! instead, because its state is unknown.
//!
//! States of a held partition, and the functions that change them:
//!
//! | from | to | by |
//! |---|---|---|
//! | idle | reading | `Session::begun`: the engine begins a transaction |
//! | reading, writing | writing | `Session::change` |
//! | reading, writing | idle | `Held::commit`, `Session::abort` |
//! | writing | decided | `Held::commit_prepared`: the number is in the commit table |
//! | decided | idle | `Session::commit_several`, when all partitions are decided |
//! | any | entered | `Held::enter`, until the step of the engine ends; `Session::stop_writers` |
//! | entered | failed | `Held::enter`: an abort, a force or a decided commit has failed |
//!
//! A partition that is put back in state entered or failed is stopped (`held`). A transaction does
//! not commit while one of its partitions is entered.
//!
//! A commit over several partitions (invariants in `commit_table`): prepare on each → number into
//! the commit table → commit on each → its slot back when those commits are durable. Partitions
//! that were only read do not take part in it but stay held to its end, which makes the order of
//! transactions serializable.

mod held;

use self::held::{Held, State};
pub(crate) use self::held::{PendingAcks, SlotUse};
use crate::connection::Beside;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::lock_policy::LockPolicy;
use crate::partition::{Partition, lock_within};
use crate::retry::Retry;
use crate::row_counter::RowChanges;
use crate::savepoint::Savepoints;
use crate::sync::MutexGuard;
use crate::thread_flags::OpenFlag;
use crate::trace::Note;
use disk::DiskCounters;
use pmem::Counters;
use std::time::Duration;
use storage::StorageError;
use storage::engine::{CommitTicket, Durability, Engine, GlobalTxnId, Idle};
use storage::lock::Interrupt;

/// Longest wait for a partition below one that is held already.
const OUT_OF_ORDER_WAIT: Duration = Duration::from_millis(2);
/// Longest wait for a slot of a transaction that has locks: the holders of the slots may wait for
/// these.
const LOCKED_WAIT: Duration = Duration::from_millis(20);

/// The partitions that one transaction holds.
pub(crate) struct Session<'db> {
    pub(crate) core: &'db Core,
    /// Apart from the others, so that a transaction in one partition allocates nothing.
    first: Option<Held<'db>>,
    more: Vec<Held<'db>>,
    /// Whether it keeps others out; given back after the slots.
    alone: Option<MutexGuard<'db, ()>>,
    soundness: Soundness,
    slot_use: SlotUse,
    lock_policy: LockPolicy,
    /// Ends its waits for partitions.
    pub(crate) interrupt: Option<&'db Interrupt>,
    /// Operations of the open transaction so far, while the database is recorded.
    pub(crate) notes: Option<Vec<Note>>,
    /// Savepoints of the open transaction, if it has any.
    pub(crate) savepoints: Option<Box<Savepoints>>,
    /// Rows that the open transaction has inserted and deleted.
    pub(crate) row_changes: RowChanges,
    /// Whether it may write to tables whose constraints SQL keeps.
    pub(crate) unchecked: bool,
    /// Limit on the memory of a transaction, checked before each further change.
    pub(crate) memory_max: u64,
    /// Whether it does the work of a connection, which has its own locks and images.
    pub(crate) is_of_connection: bool,
    /// Locks and images of a typed transaction, if it has made changes while connections are open.
    pub(crate) beside: Option<Box<Beside>>,
    _flag: OpenFlag,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Soundness {
    Sound,
    Doomed,
    /// A partition was not free.
    Conflicting {
        partition: u32,
        /// Whether an attempt that takes all partitions at its start may succeed.
        runs_again: bool,
    },
}

/// Length of a session's wait for a partition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SlotWait {
    /// As long as its lock policy says: nobody in the partition waits for it.
    Long,
    /// For a short time, because the holders of the partition may wait for this session.
    Short(Duration),
}

impl<'db> Session<'db> {
    /// Begins a session without partitions; an error if this thread has one on the database.
    #[inline]
    pub(crate) fn new(core: &'db Core, lock_policy: LockPolicy) -> Result<Self> {
        core.check_process()?;
        Ok(Self {
            core,
            first: None,
            more: Vec::new(),
            alone: None,
            soundness: Soundness::Sound,
            slot_use: SlotUse::Transaction,
            lock_policy,
            interrupt: None,
            notes: core.recording.is_on().then(Vec::new),
            savepoints: None,
            row_changes: RowChanges::default(),
            unchecked: false,
            memory_max: core.memory_max,
            is_of_connection: false,
            beside: None,
            _flag: OpenFlag::set(core.flag_bit)?,
        })
    }

    /// As [`Session::new`], for the work of a connection.
    #[inline]
    pub(crate) fn of_connection(core: &'db Core, lock_policy: LockPolicy) -> Result<Self> {
        let mut session = Self::new(core, lock_policy)?;
        session.is_of_connection = true;
        session.unchecked = true;
        Ok(session)
    }

    /// Holds every partition, with no transaction open in any, waiting as long as `lock_policy`
    /// says.
    pub(crate) fn hold_all(core: &'db Core, lock_policy: LockPolicy) -> Result<Self> {
        let mut session = Self::new(core, lock_policy)?;
        session.take_turn()?;
        session.declare_all()?;
        session.exclude_others()?;
        Ok(session)
    }

    /// Takes every partition.
    pub(crate) fn declare_all(&mut self) -> Result<()> {
        let all: Vec<u32> = (0..self.core.descriptor.partitions).collect();
        self.declare(&all)
    }

    /// Takes partitions before their use. `partitions` is in ascending order.
    #[inline]
    pub(crate) fn declare(&mut self, partitions: &[u32]) -> Result<()> {
        for &partition in partitions {
            if partition as usize >= self.core.partitions.len() {
                return Err(Error::option(
                    "partitions",
                    format!("there is no partition {partition}"),
                    format!("use 0 to {}", self.core.partitions.len() - 1),
                ));
            }
            self.held(partition)?;
        }
        Ok(())
    }

    /// Waits for the turn to keep others out, before the first partition is taken: two sessions
    /// that have a slot each and want the other's would wait for ever.
    fn take_turn(&mut self) -> Result<()> {
        let limit = self.lock_policy.wait_limit;
        self.alone = Some(lock_within(&self.core.alone, limit, 0)?);
        Ok(())
    }

    /// Keeps everybody else out of the partitions held.
    fn exclude_others(&mut self) -> Result<()> {
        let limit = self.lock_policy.wait_limit;
        self.all_mut().try_for_each(|held| {
            held.rest = held.partition.take_rest(limit)?;
            Ok(())
        })
    }

    /// Its waiting for others, and its isolation from them.
    pub(crate) const fn lock_policy(&self) -> LockPolicy {
        self.lock_policy
    }

    /// The attempts of a transaction like those of this session.
    #[inline]
    pub(crate) const fn retry(&self) -> Retry<'db> {
        self.core.retry(self.lock_policy)
    }

    /// Sets how long the partitions held now are kept.
    pub(crate) fn set_slot_use(&mut self, slot_use: SlotUse) {
        self.slot_use = slot_use;
    }

    /// The partitions held, in the order they were taken.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = u32> + '_ {
        self.all().map(Held::number)
    }

    /// A held partition of the caller's choice: the first one, or partition 0.
    pub(crate) fn any_partition(&self) -> u32 {
        self.first.as_ref().map_or(0, Held::number)
    }

    /// The engine of a partition, with a transaction open in it, for reading.
    #[inline]
    pub(crate) fn engine(&mut self, partition: u32) -> Result<&mut dyn Engine> {
        Ok(&mut *self.begun(partition)?.slot.engine)
    }

    /// The engine of a partition, if it is held and sound.
    #[inline]
    pub(crate) fn held_engine(&mut self, partition: u32) -> Option<&mut dyn Engine> {
        if self.core.check_process().is_err() {
            return None;
        }
        let held = self.all_mut().find(|held| held.number() == partition)?;
        (!held.state.is_stopped()).then_some(&mut *held.slot.engine)
    }

    /// Runs a change in a partition.
    #[inline]
    pub(crate) fn change<R>(
        &mut self,
        partition: u32,
        change: impl FnOnce(&mut dyn Engine) -> storage::Result<R>,
    ) -> Result<R> {
        let held = self.begun(partition)?;
        match held.enter(State::Writing, State::Writing, change) {
            Ok(value) => Ok(value),
            Err(error) => Err(self.statement_failed(error)),
        }
    }

    /// Refuses a change of a transaction that already holds more memory than it may. Called before
    /// the first step of a statement, so that a refusal leaves no trace; undoing changes is not
    /// refused.
    #[inline]
    pub(crate) fn check_memory(&self) -> Result<()> {
        let open = self.all().filter(|held| held.state.is_open());
        let engines: usize = open.map(|held| held.slot.engine.transaction_bytes()).sum();
        let savepoints = self.savepoints.as_ref().map_or(0, |kept| kept.bytes());
        let used_bytes = (engines + savepoints) as u64;
        if used_bytes <= self.memory_max {
            return Ok(());
        }
        Err(Error::TransactionMemory {
            used_bytes,
            limit_bytes: self.memory_max,
        })
    }

    /// Runs an undo, or the rest of a statement that has begun: the transaction cannot do without
    /// its memory.
    pub(crate) fn without_memory_limit<R>(&mut self, run: impl FnOnce(&mut Self) -> R) -> R {
        let limit = std::mem::replace(&mut self.memory_max, u64::MAX);
        let result = run(self);
        self.memory_max = limit;
        result
    }

    /// The engine of a partition without a transaction in it.
    pub(crate) fn idle_engine(&mut self, partition: u32) -> Result<&mut dyn Engine> {
        Ok(&mut *self.held(partition)?.slot.engine)
    }

    /// Runs a change of definitions in a partition, outside any transaction.
    pub(crate) fn define<R>(
        &mut self,
        partition: u32,
        change: impl FnOnce(&mut dyn Idle) -> storage::Result<R>,
    ) -> Result<R> {
        let held = self.held(partition)?;
        let changed = held.enter(State::Idle, State::Idle, |engine| change(engine.idle()?));
        held.committed = true;
        Ok(changed?)
    }

    /// As [`Session::failed`], for an error of an engine.
    #[cold]
    #[inline(never)]
    pub(crate) fn statement_failed(&mut self, error: StorageError) -> Error {
        self.failed(error.into())
    }

    /// Notes that a statement failed; the transaction cannot commit if it may have left a trace.
    #[cold]
    pub(crate) fn failed(&mut self, error: Error) -> Error {
        if !error.is_statement_error() && self.soundness == Soundness::Sound {
            self.soundness = match &error {
                // The same partitions again: the deadlock is broken, or the row free.
                Error::Storage(StorageError::Deadlock { .. }) | Error::RowLocked { .. } => {
                    Soundness::Conflicting {
                        partition: self.any_partition(),
                        runs_again: true,
                    }
                }
                _ => Soundness::Doomed,
            };
        }
        error
    }

    /// Notes that a statement of several steps failed after its first one.
    pub(crate) fn doom(&mut self) {
        if self.soundness == Soundness::Sound {
            self.soundness = Soundness::Doomed;
        }
    }

    /// After a conflict that an ordered attempt avoids: all partitions seen, in order.
    pub(crate) fn partitions_to_declare(&self) -> Option<Vec<u32>> {
        match self.soundness {
            Soundness::Conflicting {
                partition,
                runs_again: true,
            } => {
                let mut seen: Vec<u32> = self.partitions().chain([partition]).collect();
                seen.sort_unstable();
                seen.dedup();
                Some(seen)
            }
            _ => None,
        }
    }

    /// Begins the transaction in a partition, unless it has begun in the first one.
    #[inline]
    pub(crate) fn begin_first(&mut self, partition: u32) -> Result<()> {
        match &self.first {
            Some(held) if held.state.is_open() => Ok(()),
            _ => self.begun(partition).map(drop),
        }
    }

    #[inline]
    fn begun(&mut self, partition: u32) -> Result<&mut Held<'db>> {
        let (core, lock_policy) = (self.core, self.lock_policy);
        let held = self.held(partition)?;
        if held.state.is_stopped() {
            return Err(Error::Stopped { partition });
        }
        if !held.state.is_open() {
            held.slot.note_period(core.shared.period());
            held.slot.prepare(LockPolicy {
                precedence: core.precedence(),
                ..lock_policy
            });
            held.slot.engine.begin()?;
            held.state = State::Reading;
        }
        Ok(held)
    }

    #[inline]
    fn held(&mut self, partition: u32) -> Result<&mut Held<'db>> {
        // A transaction that was open when the process was forked continues in the parent alone.
        self.core.check_process()?;
        match self.first.as_ref().map(Held::number) {
            Some(number) if number == partition => {}
            Some(_) => return self.held_elsewhere(partition),
            // The first one is never out of order.
            None => self.first = Some(self.take(partition, SlotWait::Long)?),
        }
        Ok(self.first.as_mut().expect("it was looked at just now"))
    }

    #[cold]
    #[inline(never)]
    fn held_elsewhere(&mut self, partition: u32) -> Result<&mut Held<'db>> {
        if let Some(at) = self.more.iter().position(|held| held.number() == partition) {
            return Ok(&mut self.more[at]);
        }
        let wait = if self.all().any(|held| held.number() > partition) {
            SlotWait::Short(OUT_OF_ORDER_WAIT)
        } else if self.all().any(Held::has_locks) {
            SlotWait::Short(LOCKED_WAIT)
        } else {
            SlotWait::Long
        };
        let mut held = self.take(partition, wait)?;
        let first = self.first.as_mut();
        held.slot.act_for(first.map(|first| &mut *first.slot));
        self.more.push(held);
        Ok(self.more.last_mut().expect("it was pushed one line above"))
    }

    /// Takes a partition that is not held.
    #[inline]
    fn take(&mut self, partition: u32, wait: SlotWait) -> Result<Held<'db>> {
        if self.slot_use == SlotUse::Worker {
            return Err(Error::NotOwned { partition });
        }
        let core = self.core;
        let partition = &core.partitions[partition as usize];
        let limit = match wait {
            SlotWait::Long => self.lock_policy.wait_limit,
            SlotWait::Short(limit) => limit.min(self.lock_policy.wait_limit),
        };
        match partition.take(limit, self.interrupt) {
            Ok(slot) => Ok(Held {
                partition,
                slot,
                rest: Vec::new(),
                state: State::Idle,
                committed: false,
                ticket: None,
            }),
            Err(error) => Err(self.not_taken(partition.number, error, wait)),
        }
    }

    #[cold]
    #[inline(never)]
    fn not_taken(&mut self, partition: u32, error: Error, wait: SlotWait) -> Error {
        self.soundness = match error {
            Error::Conflict { .. } => Soundness::Conflicting {
                partition,
                runs_again: wait != SlotWait::Long,
            },
            _ => Soundness::Doomed,
        };
        error
    }

    fn all(&self) -> impl Iterator<Item = &Held<'db>> {
        self.first.iter().chain(&self.more)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Held<'db>> {
        self.first.iter_mut().chain(&mut self.more)
    }

    /// Commits in all partitions held. Afterwards the transaction may be acknowledged when the
    /// promises are durable.
    #[inline]
    pub(crate) fn commit(&mut self, durability: Durability) -> Result<PendingAcks> {
        self.core.check_process()?;
        if self.beside.is_some() {
            self.settle_beside()?;
        }
        let committed = self.commit_held(durability);
        self.savepoints = None;
        if committed.is_ok() {
            self.end_beside();
        }
        if !self.row_changes.is_empty() {
            self.row_changes.settle(&committed);
        }
        if self.notes.is_some() {
            self.settle_notes(committed.is_ok());
        }
        committed
    }

    /// Gives the transaction its number among those of connections, if it is going to commit.
    #[cold]
    fn settle_beside(&mut self) -> Result<()> {
        match &mut self.beside {
            Some(beside) if self.soundness == Soundness::Sound => beside.settle(self.core),
            _ => Ok(()),
        }
    }

    /// The transaction has ended, and connections may have its rows.
    #[inline]
    fn end_beside(&mut self) {
        if let Some(beside) = &mut self.beside {
            beside.end(self.core);
        }
    }

    #[inline]
    fn commit_held(&mut self, durability: Durability) -> Result<PendingAcks> {
        if self.soundness != Soundness::Sound || !self.more.is_empty() {
            return self.commit_all(durability);
        }
        let mut promises = PendingAcks::default();
        let (core, slot_use) = (self.core, self.slot_use);
        let durability = self.effective(durability);
        if let Some(held) = &mut self.first {
            held.commit(core, durability, slot_use)?;
            held.promise(durability, &mut promises);
        }
        Ok(promises)
    }

    /// As [`Session::commit`], for several partitions, and for sessions that must not commit.
    #[cold]
    #[inline(never)]
    fn commit_all(&mut self, durability: Durability) -> Result<PendingAcks> {
        match self.soundness {
            Soundness::Sound => {}
            Soundness::Doomed => return Err(self.abandon(Error::Doomed)),
            Soundness::Conflicting { partition, .. } => {
                return Err(self.abandon(Error::Conflict {
                    partition,
                    waited_ms: 0,
                }));
            }
        }
        let lost = self.all().find(|held| held.state == State::Entered);
        if let Some(partition) = lost.map(Held::number) {
            return Err(self.abandon(Error::Stopped { partition }));
        }
        let writers = self.writers().count();
        if writers > 0 {
            self.settle_reads()?;
        }
        let mut promises = PendingAcks::default();
        let (core, slot_use) = (self.core, self.slot_use);
        let durability = if writers > 1 {
            self.commit_several()?;
            // It is durable, and so is the data that it has read: its partitions were forced when
            // they were prepared.
            Durability::None
        } else {
            self.effective(durability)
        };
        for held in self.all_mut() {
            held.commit(core, durability, slot_use)?;
            held.promise(durability, &mut promises);
        }
        Ok(promises)
    }

    /// Memory-based methods fence at each commit anyway, and a fence made later by another thread
    /// would not cover this thread's flushes.
    #[inline]
    fn effective(&self, durability: Durability) -> Durability {
        match (durability, self.slot_use) {
            (_, SlotUse::Transaction) if self.core.commits_fence() => Durability::Immediate,
            _ => durability,
        }
    }

    /// Makes the data durable that was read in partitions without writes: a crash must not keep
    /// this transaction and lose one that it has read.
    fn settle_reads(&mut self) -> Result<()> {
        let settled = self
            .all_mut()
            .filter_map(Held::read_ahead)
            .try_for_each(Held::settle_read);
        settled.map_err(|error| self.abandon(error.into()))
    }

    /// Before the commit of a transaction that has written nothing, because its changes leave every
    /// row as it was: makes what was committed before it durable, as its own record would have.
    pub(crate) fn settle_without_writes(&mut self) -> Result<()> {
        if self.writers().next().is_some() {
            return Ok(());
        }
        let settled = self
            .all_mut()
            .filter(|held| held.state == State::Reading)
            .try_for_each(Held::settle_read);
        settled.map_err(|error| self.abandon(error.into()))
    }

    /// Commits the changes in several partitions, atomically.
    #[cold]
    fn commit_several(&mut self) -> Result<()> {
        let core = self.core;
        let number = core.commits.next_transaction()?;
        if let Err(error) = self.prepare(number) {
            return Err(self.abandon(error.into()));
        }
        let slot = match core.commits.commit(number) {
            Ok(slot) => slot,
            Err(error) => {
                // Whether the store reached the medium is unknown, so neither commit nor abort is
                // right: only recovery can tell.
                self.stop_writers();
                return Err(match error {
                    Error::InDoubt { .. } => error,
                    other => Error::InDoubt {
                        cause: other.to_string(),
                    },
                });
            }
        };
        // From here on the transaction is committed and durable, whatever happens. A partition that
        // fails stops when the session slot is put back, and recovery finds the number in the
        // commit table, which is therefore not given back.
        let is_short = core.commits.is_short();
        let mut commits = Vec::new();
        let mut kept = false;
        for held in self.writers() {
            if let Ok(ticket) = held.commit_prepared() {
                commits.push((held.number(), ticket));
            } else {
                kept = true;
                held.partition.note_durable(&mut held.slot);
            }
        }
        for held in self.all_mut().filter(|held| held.state == State::Decided) {
            held.state = State::Idle;
            kept |= is_short && held.force().is_err();
            held.partition.note_durable(&mut held.slot);
        }
        if !kept {
            let durable = |partition: u32| core.partitions[partition as usize].durable();
            core.commits.release(slot, commits, durable);
        }
        Ok(())
    }

    /// Prepares the written partitions. Half of the sessions begin with another one, so that the
    /// logs of both are synced at the same time.
    fn prepare(&mut self, number: GlobalTxnId) -> storage::Result<()> {
        for held in self.writers() {
            held.enter(State::Writing, State::Writing, |engine| {
                match engine.sessions() {
                    Some(sessions) => sessions.log_prepared(number),
                    None => engine.prepare(number),
                }
            })?;
        }
        let first = number.0 as usize % self.writers().count();
        self.writers()
            .skip(first)
            .try_for_each(Held::sync_prepared)?;
        self.writers().take(first).try_for_each(Held::sync_prepared)
    }

    fn writers(&mut self) -> impl Iterator<Item = &mut Held<'db>> {
        self.all_mut().filter(|held| held.state == State::Writing)
    }

    /// Marks the written partitions so that they are stopped when the session ends.
    fn stop_writers(&mut self) {
        for held in self.writers() {
            held.state = State::Entered;
        }
    }

    /// Undoes everything and passes the reason on.
    #[cold]
    fn abandon(&mut self, reason: Error) -> Error {
        self.abort();
        reason
    }

    /// Undoes everything since the partitions were first touched. A partition that cannot undo is
    /// stopped.
    pub(crate) fn abort(&mut self) {
        if !self.core.process.is_here() {
            return;
        }
        for held in self.all_mut() {
            if held.state.is_open() {
                // An abort may make commits durable that other threads wait for.
                held.committed = true;
                // One that fails stops the partition.
                let _ = held.enter(State::Idle, State::Failed, |engine| engine.abort());
            }
        }
        self.soundness = Soundness::Sound;
        self.savepoints = None;
        self.end_beside();
        self.row_changes.clear();
        if self.notes.is_some() {
            self.settle_notes(false);
        }
    }

    /// Ends a transaction that has only read, and puts the partitions back.
    pub(crate) fn end_reading(&mut self) -> Result<()> {
        self.commit(Durability::None)?;
        self.release();
        Ok(())
    }

    /// Counts of the devices of the partitions held.
    pub(crate) fn counts(&self) -> (Counters, DiskCounters) {
        let mut counts = (Counters::default(), DiskCounters::default());
        for held in self.all() {
            let status = held.slot.engine.status();
            counts.0 += &status.memory;
            counts.1 += status.disk;
        }
        counts
    }

    /// Puts all partitions back. Nothing may be open in them.
    #[inline]
    pub(crate) fn release(&mut self) {
        if !self.more.is_empty() {
            for mut held in self.more.drain(..) {
                held.slot.act_for(None);
                held.put_back();
            }
        }
        // Last, because the others act for it until then.
        if let Some(held) = self.first.take() {
            held.put_back();
        }
    }

    /// Writes a mark to the logs of all partitions, if that is of use. Nobody else is in any of
    /// them, and this session has no open transaction.
    pub(crate) fn mark(&mut self) -> Result<()> {
        let core = self.core;
        if !core.wants_mark() {
            return Ok(());
        }
        let number = core.commits.next_transaction()?;
        for partition in 0..core.descriptor.partitions {
            let marked = self.held(partition)?.slot.mark(number);
            marked.map_err(|error| Error::unmarked(partition, error))?;
        }
        core.partitions.iter().for_each(Partition::note_mark);
        Ok(())
    }

    /// Makes every commit in the partitions held durable.
    pub(crate) fn force(&mut self) -> Result<()> {
        self.core.check_process()?;
        for held in self.all_mut() {
            let partition = held.number();
            if held.state.is_stopped() {
                return Err(Error::Stopped { partition });
            }
            held.force().map_err(|error| Error::InDoubt {
                cause: error.to_string(),
            })?;
            held.partition.note_durable(&mut held.slot);
        }
        Ok(())
    }

    /// Newest durable ticket of a partition held.
    pub(crate) fn durable(&self, partition: u32) -> CommitTicket {
        self.all()
            .find(|held| held.number() == partition && self.core.process.is_here())
            .map_or_else(CommitTicket::default, |held| held.slot.engine.durable())
    }

    /// Commits, gives the partitions back, and waits until the transaction may be acknowledged.
    #[inline]
    pub(crate) fn finish(&mut self, durability: Durability) -> Result<()> {
        let promises = self.commit(durability)?;
        self.release();
        if promises.is_empty() {
            return Ok(());
        }
        self.await_acks(&promises)
    }

    /// Waits until the promised commits are durable.
    #[cold]
    #[inline(never)]
    pub(crate) fn await_acks(&self, promises: &PendingAcks) -> Result<()> {
        promises.iter().try_for_each(|(partition, ticket)| {
            self.core.partitions[partition as usize].wait_durable(ticket, self.core.group_wait)
        })
    }
}

impl Drop for Session<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.first.is_some() || self.beside.is_some() {
            self.leave();
        }
    }
}

impl Session<'_> {
    /// Undoes open changes and puts the partitions back.
    #[cold]
    #[inline(never)]
    fn leave(&mut self) {
        if !self.core.process.is_here() {
            // They belong to the parent's session.
            let held = (self.first.take(), std::mem::take(&mut self.more));
            std::mem::forget((held, self.beside.take()));
            return;
        }
        self.abort();
        if self.slot_use == SlotUse::Worker && self.core.commits_fence() {
            // Other threads' fences do not cover this thread's flushes. A failure stops the
            // partition below.
            let _ = self.force();
        }
        self.release();
    }
}
