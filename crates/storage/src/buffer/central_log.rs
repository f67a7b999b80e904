//! The central log of the page engine: all sessions append to one [`Wal`], under one lock.
//!
//! Space for undoing is reserved: a transaction says how many bytes its rollback may take, and the
//! log makes sure that its current segment has them for all transactions together. So a full disk
//! stops a change, where the statement can fail, and not a rollback.
//!
//! Records become durable in groups. The first thread that needs a record durable leads: it takes
//! all records so far, releases the log, and writes and syncs them while others append. Threads
//! that need a record meanwhile sleep until that sync has ended; then either their record is
//! durable or one of them leads the next sync, with all records so far. So there is one sync at a
//! time, whatever the number of threads, and it waits for nobody. After a failed sync no further
//! record counts as durable, though it may be on the disk. A new segment and a checkpoint need all
//! earlier records durable: the thread that begins one leads such a sync first, so that under the
//! lock only the records that others have appended since remain to be synced.
//!
//! The log also knows, for each session, since which checkpoint the open transaction has records: a
//! checkpoint keeps the log needed to undo them. Both are noted under the lock that orders the
//! records, so a checkpoint sees a transaction exactly if it has an earlier record.

use super::cold_segments::ColdSegments;
use super::log::{CheckpointNeed, CheckpointStart, NewRecord, PageLog, RecordStart, Reserve};
use super::reservations::UndoReservations;
use crate::error::{Result, StorageError};
use crate::log::numbered::InFront;
use crate::log::{ArchiveRange, LogIdentity, LogStart, Lsn, Wal, WalOptions};
use crate::probe::{self, Activity, lock_log};
use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering};
use disk::{Directory, DiskCounters};
use pmem::Access;
use std::sync::PoisonError;
use std::time::Duration;

/// Generous bound of the bytes that a record's frame takes beyond its payload, with the frame of a
/// mark after it.
const FRAME_BYTES: u64 = 128;
/// Time that others have the log between the removal of two files.
const PAUSE: Duration = Duration::from_micros(50);

/// The log of one partition.
pub struct CentralLog<D: Directory> {
    state: Mutex<State<D>>,
    /// Signalled when a sync has ended.
    ended: Condvar,
    /// In front of this everything is durable.
    synced: AtomicU64,
    /// Pages that have not changed since here are logged whole; 0 if none are.
    image_from: AtomicU64,
    /// Files on their way to an archive, if there is one.
    pub(super) cold: Option<ColdSegments<D>>,
}

pub(super) struct State<D: Directory> {
    pub(super) wal: Wal<D>,
    pub(super) directory: D,
    /// Undo space that each session's transaction has reserved.
    reservations: UndoReservations<LogStart>,
    /// How many transactions that the opening has found have reservations: these have the numbers
    /// from 1 on. Number 0 is for the undo of the opening itself.
    unfinished: u32,
    /// The newest checkpoint that has begun, and where the newest one has that has ended.
    newest: LogStart,
    ended: Lsn,
    /// Whether a thread leads a sync.
    is_syncing: bool,
}

impl<D: Directory> State<D> {
    /// The room that a record takes, with what all transactions need then.
    fn room_with(&self, session: u32, bytes: u64, record: &[u8]) -> u64 {
        let all = self.reservations.reserved_with(session, bytes);
        record.len() as u64 + all + FRAME_BYTES
    }

    /// Whether a record begins a new segment.
    fn begins_segment(&self, reserve: &Reserve, record: &[u8]) -> bool {
        let fits = match *reserve {
            Reserve::Bytes(session, bytes) => {
                self.wal.has_room(self.room_with(session, bytes, record))
            }
            Reserve::Keep(_) | Reserve::End(_) => self.wal.has_room_for(record),
        };
        !fits
    }

    /// Makes room for a record and for what all transactions need then.
    fn reserve(&mut self, session: u32, bytes: u64, record: &[u8]) -> Result<()> {
        let room = self.room_with(session, bytes, record);
        self.wal.make_room(&self.directory, room)?;
        self.reservations.claim(session, bytes, self.newest);
        Ok(())
    }

    fn remove_in_front(&mut self, segment: u64) -> Result<bool> {
        self.wal.remove_in_front(&self.directory, segment)
    }
}

impl<D: Directory> CentralLog<D> {
    /// Opens the log from `start` on and hands every record to `found`, which may only look:
    /// nothing of it is known to be durable yet. Afterwards it is, and [`PageLog::replay`] hands
    /// them out once more. Files that are not needed stay until the archive has them, if there is
    /// one.
    pub fn open(
        access: Access,
        directory: D,
        identity: LogIdentity,
        options: WalOptions,
        start: LogStart,
        found: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
        cold: Option<ColdSegments<D>>,
    ) -> Result<Self> {
        let in_front = match &cold {
            Some(cold) => {
                cold.check(start.lsn)?;
                InFront::Kept
            }
            None => InFront::GivenUp,
        };
        let manner = (access, in_front);
        let wal = Wal::open_for(manner, &directory, identity, options, start, found)?;
        Ok(Self {
            synced: AtomicU64::new(wal.synced().0),
            state: Mutex::new(State {
                wal,
                directory,
                reservations: UndoReservations::new(),
                unfinished: 0,
                newest: start,
                ended: start.lsn,
                is_syncing: false,
            }),
            ended: Condvar::new(),
            image_from: AtomicU64::new(0),
            cold,
        })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State<D>> {
        lock_log(&self.state)
    }

    /// Removes the files before a segment. That of a long file takes milliseconds: others have the
    /// log between two, for which it has to be free for a moment, as a mutex is not fair.
    pub(super) fn remove_in_front(&self, segment: u64) -> Result<()> {
        while self.state().remove_in_front(segment)? {
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Adds the state of the archive to the error of a step for which the disk had no room.
    fn explained<T>(&self, result: Result<T>) -> Result<T> {
        match &self.cold {
            Some(cold) => result.map_err(|error| cold.explain(error)),
            None => result,
        }
    }

    /// Leads or follows until everything before `end` is durable.
    fn sync_until<'l>(&'l self, mut state: MutexGuard<'l, State<D>>, end: Lsn) -> Result<()> {
        loop {
            state.wal.require_sound()?;
            if state.wal.synced() >= end {
                return Ok(());
            }
            if state.is_syncing {
                let _waiting = probe::begin(Activity::LogWait);
                let woken = self.ended.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let Some(pending) = state.wal.begin_sync()? else {
                return Ok(());
            };
            state.is_syncing = true;
            let ended = pending.run(|| drop(state));
            state = self.state();
            state.is_syncing = false;
            let result = state.wal.end_sync(ended);
            let synced = state.wal.synced();
            self.synced.store(synced.0, Ordering::SeqCst);
            self.ended.notify_all();
            result?;
        }
    }
}

impl<D: Directory> PageLog for CentralLog<D> {
    fn replay(&self, redo: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>) -> Result<()> {
        let State { wal, directory, .. } = &mut *self.state();
        wal.replay(directory, redo)
    }

    fn set_image_from(&self, lsn: Lsn) {
        self.image_from.store(lsn.0, Ordering::SeqCst);
    }

    fn record_start(&self) -> RecordStart {
        RecordStart {
            image_from: Lsn(self.image_from.load(Ordering::SeqCst)),
            header_bytes: 0,
        }
    }

    fn append(&self, reserve: Reserve, new: NewRecord<'_>) -> Result<Option<Lsn>> {
        let record = new.payload();
        let mut state = self.state();
        if state.begins_segment(&reserve, record) {
            let end = state.wal.end();
            self.sync_until(state, end)?;
            state = self.state();
        }
        // Checkpoints begin under the lock.
        if new.is_outdated(Lsn(self.image_from.load(Ordering::SeqCst))) {
            return Ok(None);
        }
        let state = &mut *state;
        if let Reserve::Bytes(session, bytes) = reserve {
            self.explained(state.reserve(session, bytes, record))?;
        }
        let at = state.wal.end();
        self.explained(state.wal.append(&state.directory, record))?;
        self.synced.store(state.wal.synced().0, Ordering::SeqCst);
        if let Reserve::End(session) = reserve {
            state.reservations.end(session);
        }
        debug_assert!(state.wal.end() > at, "a record takes no room in the log");
        Ok(Some(at))
    }

    fn end(&self, session: u32) {
        self.state().reservations.end(session);
    }

    fn flush_to(&self, lsn: Lsn) -> Result<()> {
        if self.synced.load(Ordering::SeqCst) > lsn.0 {
            return Ok(());
        }
        self.sync_until(self.state(), Lsn(lsn.0 + 1))
    }

    fn flush(&self) -> Result<()> {
        let state = self.state();
        let end = state.wal.end();
        self.sync_until(state, end)
    }

    fn synced(&self) -> Lsn {
        Lsn(self.synced.load(Ordering::SeqCst))
    }

    fn begin_checkpoint(&self) -> Result<CheckpointStart> {
        self.flush()?;
        let state = &mut *self.state();
        let reserved = state.reservations.reserved();
        let begun = state
            .wal
            .begin_checkpoint_with_room(&state.directory, reserved);
        let start = self.explained(begun)?;
        self.synced.store(state.wal.synced().0, Ordering::SeqCst);
        if self.image_from.load(Ordering::SeqCst) > 0 {
            self.image_from.store(start.lsn.0, Ordering::SeqCst);
        }
        debug_assert!(
            start.lsn >= state.newest.lsn,
            "a checkpoint begins before an earlier one"
        );
        state.newest = start;
        let oldest = state.reservations.since().min_by_key(|since| since.lsn);
        Ok(CheckpointStart {
            redo: start.lsn,
            log: oldest.unwrap_or(start),
        })
    }

    fn end_checkpoint(&self, start: LogStart) -> Result<()> {
        let mut state = self.state();
        debug_assert!(
            start.lsn <= state.newest.lsn,
            "the log is given up after the start of the newest checkpoint"
        );
        state.ended = state.newest.lsn;
        state.wal.end_checkpoint(start);
        if let Some(cold) = &self.cold {
            cold.wake();
            return Ok(());
        }
        drop(state);
        self.remove_in_front(start.segment)
    }

    fn claim(&self, _session: u32, bytes: u64) -> Result<Option<u32>> {
        let state = &mut *self.state();
        let number = state.unfinished + 1;
        match state.reserve(number, bytes, &[]) {
            Err(error) if error.is_statement_error() => return Ok(None),
            result => result?,
        }
        assert!(number > 0, "number 0 is for the undo of the opening itself");
        state.unfinished = number;
        Ok(Some(number))
    }

    fn first_session(&self) -> u32 {
        match self.state().unfinished {
            0 => 0,
            reservations => reservations + 1,
        }
    }

    fn give_up_spares(&self) -> Result<bool> {
        let State { wal, directory, .. } = &mut *self.state();
        wal.give_up_spares(directory)
    }

    fn end_ahead(&self) {
        if let Some(cold) = &self.cold {
            cold.end();
        }
    }

    fn has_archive(&self) -> bool {
        self.cold.is_some()
    }

    fn move_cold(&self) -> Result<bool> {
        self.state().wal.require_sound()?;
        self.move_cold_segments()
    }

    fn run_cold(&self) {
        if let Some(cold) = &self.cold {
            // A session that needs the room meets the same error again.
            cold.run(|| drop(self.move_cold()));
        }
    }

    fn archive(&self) -> Result<Option<ArchiveRange>> {
        self.look_at_archive()
    }

    fn close(&self) -> Result<()> {
        let State { wal, directory, .. } = &mut *self.state();
        wal.close(directory)
    }

    fn verify(&self) -> Result<()> {
        let State { wal, directory, .. } = &mut *self.state();
        wal.verify(directory)
    }

    fn disk(&self) -> DiskCounters {
        self.state().directory.counters()
    }

    fn checkpoint_need(&self, due: u64, urgent: u64) -> CheckpointNeed {
        let state = self.state();
        let end = state.wal.end().0;
        if end - state.ended.0 >= urgent {
            CheckpointNeed::Urgent
        } else if end - state.newest.lsn.0 >= due {
            CheckpointNeed::Due
        } else {
            CheckpointNeed::None
        }
    }

    fn bytes(&self) -> u64 {
        self.state().wal.file_bytes()
    }

    fn require_sound(&self) -> Result<()> {
        self.state().wal.require_sound()
    }

    fn refuse(&self, error: &StorageError) {
        self.state().wal.refuse(error);
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
#[path = "central_log_tests.rs"]
mod tests;

#[cfg(feature = "schedules")]
#[cfg(test)]
#[path = "central_log_schedule_tests.rs"]
mod schedule_tests;
