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
//! record counts as durable, though it may be on the disk.
//!
//! No file is made, named or synced under the log's lock. A thread that has led a sync makes the
//! file of the next segment when the current one is half full. A record for which the current one
//! has no room goes to the next one at once, which gets its name with the next sync, before any
//! record in it is durable (`storage/src/log/wal_roll.rs`). So appends wait only if they overtake
//! the file that is made, or fill a second segment before the first one's successor has a name. A
//! checkpoint begins such a segment, gives back the lock, and leads a sync of all that comes before
//! it.
//!
//! The log also knows, for each session, since which checkpoint the open transaction has records: a
//! checkpoint keeps the log needed to undo them. Both are noted under the lock that orders the
//! records, so a checkpoint sees a transaction exactly if it has an earlier record.
//!
//! Order of locks: the directory, then the state.

use super::cold_segments::ColdSegments;
use super::log::{CheckpointNeed, CheckpointStart, NewRecord, PageLog, RecordStart, UndoSpace};
use super::reservations::UndoReservations;
use disk::{Directory, DiskCounters};
use pmem::Access;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use storage::log::numbered::InFront;
use storage::log::{
    ArchiveRange, ArchiveWatch, LogIdentity, LogStart, Lsn, Room, Wal, WalOptions, give_up, secure,
};
use storage::probe::{self, Activity, lock_log};
use storage::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, lock};
use storage::{Result, StorageError};

/// Generous bound of the bytes that a record's frame takes beyond its payload, with the frame of a
/// mark after it.
const FRAME_BYTES: u64 = 128;
/// Time that others have the log between the removal of two files.
const PAUSE: Duration = Duration::from_micros(50);

/// The log of one partition. The way of its files to an archive is in `buffer/cold_segments.rs`.
pub struct CentralLog<D: Directory> {
    state: Mutex<State<D>>,
    /// Of the log's files; its holder may make, name and remove some.
    directory: Mutex<D>,
    /// Signalled when a sync has ended, and when a file has been made.
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
    /// Undo space that each session's transaction has reserved.
    reservations: UndoReservations<LogStart>,
    /// How many transactions that the opening has found have reservations: these have the numbers
    /// from 1 on. Number 0 is for the undo of the opening itself.
    unfinished: u32,
    /// The newest checkpoint that has begun, and where the newest one has that has ended.
    newest: LogStart,
    ended: Lsn,
    /// Whether a thread leads a sync, and whether one makes a file.
    is_syncing: bool,
    is_making: bool,
}

type Guard<'l, D> = MutexGuard<'l, State<D>>;

impl<D: Directory> State<D> {
    /// The room that a record takes, with what all transactions need then.
    fn room_with(&self, session: u32, bytes: u64, record: &[u8]) -> u64 {
        let all = self.reservations.reserved_with(session, bytes);
        record.len() as u64 + all + FRAME_BYTES
    }

    /// The room that a new segment needs for a record; none if the current one has it.
    fn room_for(&self, reserve: &UndoSpace, record: &[u8]) -> Result<Option<Room>> {
        match *reserve {
            UndoSpace::Bytes(session, bytes) => {
                let bytes = self.room_with(session, bytes, record);
                let is_there = self.wal.has_room(bytes);
                (!is_there).then(|| Room::generous(bytes)).transpose()
            }
            UndoSpace::Keep(_) | UndoSpace::End(_) => {
                let is_there = self.wal.has_room_for(record);
                Ok((!is_there).then(|| Room::exactly(record.len() as u64 + FRAME_BYTES)))
            }
        }
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
                reservations: UndoReservations::new(),
                unfinished: 0,
                newest: start,
                ended: start.lsn,
                is_syncing: false,
                is_making: false,
            }),
            directory: Mutex::new(directory),
            ended: Condvar::new(),
            image_from: AtomicU64::new(0),
            cold,
        })
    }

    pub(super) fn state(&self) -> Guard<'_, D> {
        lock_log(&self.state)
    }

    /// Removes the files before a segment. That of a long file takes milliseconds: others have the
    /// log between two, for which it has to be free for a moment, as a mutex is not fair.
    pub(super) fn remove_in_front(&self, segment: u64) -> Result<()> {
        loop {
            let directory = lock(&self.directory);
            let was_one = self.state().wal.remove_in_front(&directory, segment)?;
            if !was_one {
                break;
            }
            drop(directory);
            std::thread::sleep(PAUSE);
        }
        let directory = lock(&self.directory);
        if self.state().wal.has_new_spares() {
            secure(&*directory)?;
            self.state().wal.note_secured();
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
    fn sync_until<'l>(&'l self, state: Guard<'l, D>, end: Lsn) -> Result<Guard<'l, D>> {
        self.sync_while(state, |wal| wal.synced() < end)
    }

    /// Leads or follows syncs as long as the log says so.
    fn sync_while<'l>(
        &'l self,
        mut state: Guard<'l, D>,
        is_waiting: impl Fn(&Wal<D>) -> bool,
    ) -> Result<Guard<'l, D>> {
        loop {
            state.wal.require_sound()?;
            if !is_waiting(&state.wal) {
                return Ok(state);
            }
            if state.is_syncing {
                state = self.wait(state);
            } else {
                state = self.lead(state)?;
            }
        }
    }

    fn wait<'l>(&self, state: Guard<'l, D>) -> Guard<'l, D> {
        let _waiting = probe::begin(Activity::LogWait);
        let woken = self.ended.wait(state);
        woken.unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the current segment its name, if it has none, or syncs all records so far.
    fn lead<'l>(&'l self, mut state: Guard<'l, D>) -> Result<Guard<'l, D>> {
        debug_assert!(!state.is_syncing, "one sync of the log runs at a time");
        let result;
        if let Some(roll) = state.wal.begin_roll() {
            state.is_syncing = true;
            drop(state);
            let directory = lock(&self.directory);
            let ended = roll.run(&*directory);
            state = self.state();
            result = state.wal.end_roll(ended);
        } else {
            let Some(pending) = state.wal.begin_sync()? else {
                return Ok(state);
            };
            state.is_syncing = true;
            let ended = pending.run(|| drop(state));
            state = self.state();
            result = state.wal.end_sync(ended);
        }
        state.is_syncing = false;
        let synced = state.wal.synced();
        let before = self.synced.swap(synced.0, Ordering::SeqCst);
        debug_assert!(before <= synced.0, "a durable record stays durable");
        self.ended.notify_all();
        result?;
        if state.wal.wants_file() && !state.is_making {
            // If the disk is full, the thread that needs the file says so.
            drop(self.make_file(state, Room::ANY));
            state = self.state();
        }
        Ok(state)
    }

    /// One step towards a file for the next segment, with that room: after it the log may have
    /// changed.
    fn step_to_file<'l>(&'l self, state: Guard<'l, D>, room: Room) -> Result<Guard<'l, D>> {
        state.wal.require_sound()?;
        if !state.wal.is_named() {
            self.sync_while(state, |wal| !wal.is_named())
        } else if state.is_making {
            Ok(self.wait(state))
        } else {
            self.explained(self.make_file(state, room))
        }
    }

    /// Makes the file of the next segment, while others have the log.
    fn make_file<'l>(&'l self, mut state: Guard<'l, D>, room: Room) -> Result<Guard<'l, D>> {
        debug_assert!(!state.is_making, "one thread makes files at a time");
        state.is_making = true;
        drop(state);
        let directory = lock(&self.directory);
        state = self.state();
        let mut made = Ok(());
        // Otherwise another thread has begun a segment meanwhile, with the file there was.
        if state.wal.is_named() {
            let preparation = state.wal.prepare(room);
            drop(state);
            let prepared = preparation.run(&*directory);
            state = self.state();
            made = state.wal.end_preparation(prepared);
        }
        state.is_making = false;
        self.ended.notify_all();
        made.map(|()| state)
    }

    /// Begins segments until the current one has room for a record, and for what all transactions
    /// need then. Others may have the log meanwhile.
    fn with_room(&self, reserve: &UndoSpace, record: &[u8]) -> Result<Guard<'_, D>> {
        let mut state = self.state();
        state.wal.require_sound()?;
        while let Some(room) = state.room_for(reserve, record)? {
            if state.wal.can_begin_segment(room) {
                state.wal.begin_segment()?;
            } else {
                state = self.step_to_file(state, room)?;
            }
        }
        Ok(state)
    }
}

impl<D: Directory> PageLog for CentralLog<D> {
    fn replay(&self, redo: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>) -> Result<()> {
        let directory = lock(&self.directory);
        self.state().wal.replay(&directory, redo)
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

    fn append(&self, reserve: UndoSpace, new: NewRecord<'_>) -> Result<Option<Lsn>> {
        let record = new.payload();
        let mut state = self.with_room(&reserve, record)?;
        // Checkpoints begin under the lock.
        if new.is_outdated(Lsn(self.image_from.load(Ordering::SeqCst))) {
            return Ok(None);
        }
        let state = &mut *state;
        if let UndoSpace::Bytes(session, bytes) = reserve {
            state.reservations.claim(session, bytes, state.newest);
        }
        let at = state.wal.end();
        state.wal.append_fitting(record)?;
        if let UndoSpace::End(session) = reserve {
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
        self.sync_until(self.state(), Lsn(lsn.0 + 1)).map(drop)
    }

    fn flush(&self) -> Result<()> {
        let state = self.state();
        let end = state.wal.end();
        self.sync_until(state, end).map(drop)
    }

    fn synced(&self) -> Lsn {
        Lsn(self.synced.load(Ordering::SeqCst))
    }

    fn begin_checkpoint(&self) -> Result<CheckpointStart> {
        self.flush()?;
        let mut state = self.state();
        let start = loop {
            state.wal.require_sound()?;
            let reserved = state.reservations.reserved();
            if reserved == 0 && state.wal.synced() == state.wal.end() && state.wal.is_named() {
                break state.wal.begin_checkpoint()?;
            }
            let room = Room::exactly(reserved + FRAME_BYTES);
            if state.wal.can_begin_segment(room) {
                break state.wal.begin_segment()?;
            }
            state = self.step_to_file(state, room)?;
        };
        if self.image_from.load(Ordering::SeqCst) > 0 {
            self.image_from.store(start.lsn.0, Ordering::SeqCst);
        }
        debug_assert!(
            start.lsn >= state.newest.lsn,
            "a checkpoint begins before an earlier one"
        );
        state.newest = start;
        let oldest = state.reservations.since().min_by_key(|since| since.lsn);
        let begun = CheckpointStart {
            redo: start.lsn,
            log: oldest.unwrap_or(start),
        };
        debug_assert!(
            begun.log.lsn <= begun.redo,
            "an open transaction has begun after the newest checkpoint"
        );
        let is_waiting = |wal: &Wal<D>| wal.synced() < start.lsn || !wal.is_named();
        self.sync_while(state, is_waiting).map(|_| begun)
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
        let number = self.state().unfinished + 1;
        let reserve = UndoSpace::Bytes(number, bytes);
        let mut state = match self.with_room(&reserve, &[]) {
            Err(error) if error.is_statement_error() => return Ok(None),
            state => state?,
        };
        let newest = state.newest;
        state.reservations.claim(number, bytes, newest);
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
        let directory = lock(&self.directory);
        let spares = self.state().wal.take_spares();
        Ok(give_up(&*directory, &spares)?)
    }

    fn end_ahead(&self) {
        if let Some(cold) = &self.cold {
            cold.end();
        }
    }

    fn archive_watch(&self) -> Option<Arc<ArchiveWatch>> {
        self.cold.as_ref().map(ColdSegments::watch)
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
        loop {
            drop(self.sync_while(self.state(), |wal| !wal.is_named())?);
            let directory = lock(&self.directory);
            let mut state = self.state();
            if state.wal.is_named() {
                return state.wal.close(&directory);
            }
        }
    }

    fn verify(&self) -> Result<()> {
        let directory = lock(&self.directory);
        self.state().wal.verify(&directory)
    }

    fn disk(&self) -> DiskCounters {
        lock(&self.directory).counters()
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
