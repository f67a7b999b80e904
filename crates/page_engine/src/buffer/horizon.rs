//! The partitioned log: several places that are written concurrently. Its variants are the
//! *per-transaction*, *distributed* and *decentralized* logs of NV-Logging.
//!
//! A session appends to a [`Place`] of its own, or to one that it shares with few others: a ring in
//! durable memory (`nv_log.rs`) or a series of files (`session_files.rs`). Most sessions share only
//! a counter: each record gets the next number ([`Lsn`]) of the partition while its pages are
//! latched. The [`Persist`] option says when records become durable.
//!
//! Records become durable in any order, and a record is useless without the earlier ones: they may
//! be of the same page, or of a transaction that released its locks early. The *horizon* is the
//! number below which no record is missing. A commit is acknowledged, and a page written, below the
//! horizon only; recovery ends before the first missing record, and no later one was ever
//! acknowledged. Such a later record must not count once the gap is filled: either it is erased
//! before anything else is appended, or its number is never used again, and the first record of the
//! opening declares these numbers unused.
//!
//! Each place says which of its records may be missing (`missing`). An append stores a bound there
//! *before* it takes its number, so a thread that reads the counter first and then all bounds has
//! the horizon, without a lock.
//!
//! Sessions of one place share its space: a change waits until there is room for the rollbacks of
//! all of them (`UndoReservations`). Recovery undoes a transaction in the place that has its
//! records.
//!
//! `opening` reads the places and decides which records count; `part` has what is known of each.
//!
//! Order of locks: `found`, then `syncing` of the parts in their order, then `state` of the parts
//! in theirs.
//!
//! With [`CommitOrder::AsPublished`] a commit waits for its own place only. Recovery is the same,
//! so a power cut can lose commits that were acknowledged beyond a missing record of another
//! session; pages still wait for the horizon.
//!
//! After Huang, Schwan, Qureshi: NVRAM-aware Logging in Transaction Systems (VLDB 2014), sections 4
//! and 5; the horizon avoids the hazard of early lock release that its section 4.4 names. Several
//! logs with one line of numbers and a group commit that waits for all of them are the state of the
//! art that the paper compares with, after Wang and Johnson: Scalable Logging through Emerging
//! Non-Volatile Memory (VLDB 2014).

mod opening;
mod part;

pub(super) use self::opening::without_gaps;
use self::part::{NOTHING, Part, State};
use super::ahead::Ahead;
use super::cold::{Cold, ColdStore};
use super::log::{CheckpointNeed, CheckpointStart, NewRecord, PageLog, RecordStart, UndoSpace};
use disk::DiskCounters;
use pmem::{Access, Counters};
use std::ops::RangeInclusive;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use storage::engine::{CommitOrder, Persist, Persisted};
use storage::failure::Failure;
use storage::log::numbered::{Found, HEADER_BYTES, InFront, Pending, Place, RecordKind, Stamp};
use storage::log::{ArchiveRange, LogStart, Lsn};
use storage::probe::{self, Activity};
use storage::sync::{AtomicU64, CachePadded, Mutex, MutexGuard, Ordering, lock, spin_loop};
use storage::{Result, StorageError};

/// Most sessions of a partition, for its life.
pub const SESSIONS_MAX: usize = 1024;
/// A checkpoint is due one part in this many of the space before it is urgent.
const DUE_EARLY: u64 = 4;
/// Times that a session looks again before it sleeps until another has made its records durable.
const SPINS_MAX: u32 = 500;

/// Purpose of the records of a log, which decides which of them count after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Redo: those before the first missing one count.
    Redo,
    /// Undo of changes in place, which are made only after the record is durable: all records
    /// count. Each is durable when it is appended, so a session's locks are released after its
    /// commit.
    Undo,
}

/// Source of the places of a log.
pub trait Places: Send + Sync {
    /// The log that a session appends to.
    type Place: Place;

    /// Opens all that there are, at least one; stores nothing.
    fn open(&self) -> Result<Vec<Self::Place>>;

    /// Opens all of them once more, to copy records while others append; none where records are
    /// copied from the places themselves.
    fn open_apart(&self) -> Result<Vec<Self::Place>> {
        Ok(Vec::new())
    }

    /// Makes another one, the next. The first one counts it before it is used.
    fn create(&self, number: u32) -> Result<Self::Place>;

    /// Whether all were made with the log, so that sessions share them.
    fn are_shared(&self) -> bool;

    /// Whether a daemon makes records durable ahead of their commits.
    fn has_daemon(&self) -> bool {
        false
    }

    /// Number of end records of an orderly end, which say that everything was durable. Each is in
    /// another place, so that the files of each place are named in another one.
    fn ends(&self) -> u32;

    /// The error for a place of which one of these files is gone, if one is.
    fn gone(&self, place: u32, files: &RangeInclusive<u64>) -> Result<Option<StorageError>>;

    /// Counters of the directory of the partition's files.
    fn disk(&self) -> DiskCounters;
}

/// Options of the log.
#[derive(Clone, Copy, Debug)]
pub struct HorizonOptions {
    /// Whether it may change.
    pub access: Access,
    /// When a record becomes durable.
    pub persist: Persist,
    /// Purpose of the records.
    pub content: Content,
    /// Whether a commit waits for the records of other sessions.
    pub order: CommitOrder,
}

/// Callback of an opening: gets each record, and a session of the place that has it.
pub type VisitRecord<'v> = dyn FnMut(Lsn, u32, &[u8]) -> Result<()> + 'v;

/// The log of one partition.
///
/// The opening is in `opening`, and the way of records to an archive in `buffer/cold.rs`.
pub struct PartitionedLog<P: Places> {
    pub(super) places: P,
    options: HorizonOptions,
    parts: Box<[OnceLock<Part<P::Place>>]>,
    /// Number of places if sessions share them.
    shared: Option<u32>,
    /// The number of the next record.
    pub(super) next: CachePadded<AtomicU64>,
    /// Records that the opening has found beyond `next` are below this, if they keep their numbers.
    pub(super) taken: AtomicU64,
    /// The newest checkpoint that has begun.
    newest: AtomicU64,
    /// Pages that have not changed since here are logged whole; 0 if none are.
    image_from: AtomicU64,
    /// The life of the log that this opening has begun; 0 before its first record.
    life: AtomicU64,
    /// A horizon of some time ago.
    known: CachePadded<AtomicU64>,
    /// Start of the opening's search for records, and the end of the records.
    start: Lsn,
    opened_at: Lsn,
    /// The opening has proven that no record below it is missing.
    proven: Lsn,
    /// The opening misses undo records that were never durable. Until a checkpoint comes after
    /// them, no record says that all earlier ones are there.
    has_gaps: AtomicBool,
    failure: Failure,
    ahead: Ahead,
    /// Records on their way to an archive, if there is one.
    pub(super) cold: Option<Cold>,
    /// Records that the opening has found, until they are replayed.
    found: Mutex<Vec<(u32, Found)>>,
}

/// A start of the log in its numbers: there are no segments.
fn start_at(lsn: Lsn) -> LogStart {
    LogStart {
        segment: LogStart::NEW.segment,
        lsn,
    }
}

impl<P: Places> PartitionedLog<P> {
    /// Opens the log and finds the records from `start` on that count. Nothing is stored yet. In a
    /// log with an archive, earlier records that are not archived are found as well; `archive` has
    /// the number from which on none was given up.
    pub fn open(
        places: P,
        options: HorizonOptions,
        start: Lsn,
        archive: Option<(Box<dyn ColdStore>, Lsn)>,
    ) -> Result<Self> {
        let cold = match archive {
            Some((store, kept_from)) => Some(Cold::new(store, kept_from, start)?),
            None => None,
        };
        let opened = places.open()?;
        let count = opened.len() as u32;
        let mut log = Self {
            shared: places.are_shared().then_some(count),
            places,
            options,
            parts: (0..SESSIONS_MAX).map(|_| OnceLock::new()).collect(),
            next: CachePadded(AtomicU64::new(start.0)),
            taken: AtomicU64::new(0),
            newest: AtomicU64::new(start.0),
            image_from: AtomicU64::new(0),
            life: AtomicU64::new(0),
            known: CachePadded(AtomicU64::new(start.0)),
            start,
            opened_at: start,
            proven: start,
            has_gaps: AtomicBool::new(false),
            failure: Failure::default(),
            ahead: Ahead::new(options.order),
            cold,
            found: Mutex::default(),
        };
        for (number, place) in (0..).zip(opened) {
            log.set(number, place)?;
        }
        log.find(log.cold.as_ref().map_or(start, Cold::from))?;
        log.opened_at = Lsn(log.next.load(Ordering::SeqCst));
        log.proven = Lsn(log.known.load(Ordering::SeqCst));
        Ok(log)
    }

    fn set(&self, number: u32, place: P::Place) -> Result<()> {
        let part = self.parts.get(number as usize);
        if part.is_some_and(|part| part.set(Part::new(place)).is_ok()) {
            return Ok(());
        }
        Err(StorageError::Unsupported(format!(
            "a partition has at most {SESSIONS_MAX} sessions, each of them once"
        )))
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &Part<P::Place>> {
        self.parts.iter().map_while(OnceLock::get)
    }

    pub(super) fn part(&self, number: u32) -> Result<&Part<P::Place>> {
        let part = self.parts.get(number as usize);
        part.and_then(OnceLock::get).ok_or(StorageError::Poisoned)
    }

    /// The part that a session appends to, and its number among the sessions of that part.
    fn part_of(&self, session: u32) -> Result<(&Part<P::Place>, u32)> {
        let stride = self.stride();
        Ok((self.part(session % stride)?, session / stride))
    }

    /// Sessions whose numbers are so far apart share a part. Where each has one of its own, only
    /// what an opening has found comes on top.
    fn stride(&self) -> u32 {
        self.shared.unwrap_or(SESSIONS_MAX as u32)
    }

    /// The life of the log that this opening has begun.
    fn life(&self) -> Result<u64> {
        let life = self.life.load(Ordering::Acquire);
        if life > 0 {
            return Ok(life);
        }
        let _one_at_a_time = self.found();
        if self.life.load(Ordering::Acquire) == 0 {
            self.skip_taken()?;
            let cut = Lsn(self.next.load(Ordering::SeqCst));
            let life = self.part(0)?.state().place.begin_life(cut);
            self.life.store(self.durable_step(life)?, Ordering::Release);
        }
        Ok(self.life.load(Ordering::Acquire))
    }

    /// Appends a record that declares the numbers of records that do not count unused.
    fn skip_taken(&self) -> Result<()> {
        let first = self.next.load(Ordering::SeqCst);
        let last = self.taken.load(Ordering::Relaxed);
        if last <= first {
            return Ok(());
        }
        let part = self.part(0)?;
        let state = &mut *part.state();
        let mut record = vec![0; HEADER_BYTES];
        record.extend_from_slice(&first.to_le_bytes());
        self.make_room(state, record.len() - HEADER_BYTES, 0)?;
        part.missing.store(first, Ordering::SeqCst);
        self.next.store(last + 1, Ordering::SeqCst);
        let stamp = Stamp {
            lsn: Lsn(last),
            known: Lsn(self.known.load(Ordering::Relaxed)),
            life: 0,
            kind: RecordKind::Gap,
        };
        self.durable_step(state.place.append(stamp, &mut record))
    }

    /// Notes that everything before `horizon` is durable.
    fn learned(&self, horizon: Lsn) {
        debug_assert!(
            horizon.0 <= self.next.load(Ordering::SeqCst),
            "a record is durable that was not appended"
        );
        if self.known.load(Ordering::Relaxed) < horizon.0 {
            self.known.fetch_max(horizon.0, Ordering::SeqCst);
        }
    }

    fn durable_step<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.failure.note(error))
    }

    fn require(&self) -> Result<()> {
        self.failure.require_none()
    }

    /// Makes all records of a place durable, while nobody appends.
    fn persist(&self, part: &Part<P::Place>, state: &mut State<P::Place>) -> Result<()> {
        if part.missing.load(Ordering::SeqCst) == NOTHING {
            return Ok(());
        }
        let records = state.place.waiting();
        self.durable_step(state.place.persist())?;
        part.missing.store(NOTHING, Ordering::SeqCst);
        self.ahead.add_by_session(records);
        Ok(())
    }

    /// Makes what a place has up to a record durable. If a session is about to do so, that is worth
    /// a short wait.
    fn persist_to(&self, part: &Part<P::Place>, lsn: Lsn) -> Result<()> {
        let mut waiting = None;
        for _ in 0..SPINS_MAX {
            if part.missing.load(Ordering::SeqCst) > lsn.0 {
                return Ok(());
            }
            if let Ok(one) = part.syncing.try_lock() {
                drop(waiting);
                return self.persist_beside(part, lsn, one);
            }
            waiting.get_or_insert_with(|| probe::begin(Activity::LogWait));
            spin_loop();
        }
        let one = lock(&part.syncing);
        drop(waiting);
        self.persist_beside(part, lsn, one)
    }

    /// Makes all records of a place durable, while others append if that takes long.
    fn persist_beside(
        &self,
        part: &Part<P::Place>,
        lsn: Lsn,
        _one_at_a_time: MutexGuard<'_, ()>,
    ) -> Result<()> {
        let mut state = part.state();
        if part.missing.load(Ordering::SeqCst) > lsn.0 {
            return Ok(());
        }
        let records = state.place.waiting();
        let pending = self.durable_step(state.place.begin_persist())?;
        self.finish_beside(part, state, pending, || {})?;
        self.ahead.add_by_session(records);
        Ok(())
    }

    /// As [`PartitionedLog::persist_beside`], of records that nobody waits for yet; says whether
    /// there were any. `meanwhile` runs when others can append again.
    pub(super) fn persist_part_ahead(
        &self,
        part: &Part<P::Place>,
        meanwhile: impl FnOnce(),
    ) -> Result<bool> {
        if part.missing.load(Ordering::SeqCst) == NOTHING {
            return Ok(false);
        }
        // The thread that holds it makes all current records durable.
        let Ok(_one_at_a_time) = part.syncing.try_lock() else {
            return Ok(false);
        };
        let mut state = part.state();
        let records = state.place.waiting();
        let Some(pending) = self.durable_step(state.place.begin_ahead())? else {
            return Ok(false);
        };
        self.finish_beside(part, state, Some(pending), meanwhile)?;
        self.ahead.add_ahead(records);
        Ok(true)
    }

    /// Ends a step that makes all current records of a place durable. Nobody may rely on their
    /// durability earlier.
    fn finish_beside<'p>(
        &self,
        part: &'p Part<P::Place>,
        mut state: MutexGuard<'p, State<P::Place>>,
        pending: Option<<P::Place as Place>::Pending>,
        meanwhile: impl FnOnce(),
    ) -> Result<()> {
        if let Some(pending) = pending {
            // Appends from now on get higher numbers than the records that are being made durable.
            state.is_syncing = true;
            let ended = pending.run(|| {
                drop(state);
                meanwhile();
            });
            state = part.state();
            assert!(state.is_syncing, "two threads sync one part of the log");
            state.is_syncing = false;
            self.durable_step(state.place.end_persist(ended))?;
        }
        part.missing.store(state.behind, Ordering::SeqCst);
        state.behind = NOTHING;
        Ok(())
    }

    fn make_room(&self, state: &mut State<P::Place>, payload: usize, more: u64) -> Result<()> {
        match state.place.make_room(payload, more) {
            Err(error) if !error.is_statement_error() => self.durable_step(Err(error)),
            result => self.explained(result),
        }
    }

    /// Adds the state of the archive to the error of a step for which the log had no room.
    fn explained<T>(&self, result: Result<T>) -> Result<T> {
        match &self.cold {
            Some(cold) => result.map_err(|error| cold.explain(error)),
            None => result,
        }
    }

    fn append_one(
        &self,
        kind: RecordKind,
        reserve: UndoSpace,
        record: &mut NewRecord<'_>,
    ) -> Result<Option<Lsn>> {
        self.require()?;
        let life = self.life()?;
        let (part, number) = self.part_of(reserve.session())?;
        let state = &mut *part.state();
        // A checkpoint begins with all parts locked.
        if record.is_outdated(Lsn(self.image_from.load(Ordering::SeqCst))) {
            return Ok(None);
        }
        let more = match reserve {
            UndoSpace::Bytes(_, bytes) => state.reservations.reserved_with(number, bytes),
            UndoSpace::Keep(_) | UndoSpace::End(_) => 0,
        };
        self.make_room(state, record.payload().len(), more)?;
        if let UndoSpace::Bytes(_, bytes) = reserve {
            let newest = Lsn(self.newest.load(Ordering::SeqCst));
            state.reservations.claim(number, bytes, newest);
        }
        // Before the number is taken: see the header.
        let bound = self.next.load(Ordering::SeqCst);
        if part.missing.load(Ordering::Relaxed) == NOTHING {
            part.missing.store(bound, Ordering::SeqCst);
        } else if state.is_syncing && state.behind == NOTHING {
            state.behind = bound;
        }
        let lsn = Lsn(self.next.fetch_add(1, Ordering::SeqCst));
        debug_assert!(
            lsn.0 >= bound && part.missing.load(Ordering::Relaxed) <= lsn.0,
            "a record is missing that its part does not say to be"
        );
        let known = if self.has_gaps.load(Ordering::Relaxed) {
            self.proven
        } else {
            Lsn(self.known.load(Ordering::Relaxed))
        };
        let stamp = Stamp {
            lsn,
            known,
            life,
            kind,
        };
        self.durable_step(state.place.append(stamp, record.bytes))?;
        let is_end = matches!(reserve, UndoSpace::End(..));
        if is_end {
            state.reservations.end(number);
        }
        // The record of a transaction's end is made durable by the thread that waits for it,
        // without the locks under which it is logged.
        let is_later = is_end && self.options.content == Content::Redo;
        if self.options.persist == Persist::OnInsert && !is_later {
            self.persist(part, state)?;
        } else {
            self.ahead.appended();
        }
        part.note_since(state);
        Ok(Some(lsn))
    }

    /// Appends records whose *known* says that all earlier ones are durable.
    fn end_orderly(&self) -> Result<()> {
        for session in 0..self.places.ends() {
            self.add_session(session)?;
            let mut files = Vec::new();
            for part in self.parts() {
                if let Some(own) = part.state().place.files() {
                    files.extend(
                        [*own.start(), *own.end()]
                            .into_iter()
                            .flat_map(u64::to_le_bytes),
                    );
                }
            }
            let buffer = &mut Vec::new();
            let mut record = NewRecord::new(self.record_start(), buffer);
            record.raw(&files);
            self.append_one(RecordKind::End, UndoSpace::Keep(session), &mut record)?;
            self.flush()?;
        }
        Ok(())
    }

    /// Gives back the space of records that were archived.
    pub(super) fn give_back(&self, archived: Lsn) -> Result<()> {
        let noted = self.part(0)?.state().place.set_archived(archived);
        self.durable_step(noted)?;
        self.forget(archived)
    }

    /// Lets places forget records before `start`, which nobody needs any more.
    fn forget(&self, start: Lsn) -> Result<()> {
        assert!(
            start.0 <= self.newest.load(Ordering::SeqCst),
            "records are forgotten that the newest checkpoint needs"
        );
        for part in self.parts() {
            part.state().place.forget(start)?;
        }
        if start >= self.opened_at {
            self.has_gaps.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// All records below it are durable.
    pub fn horizon(&self) -> Lsn {
        let next = self.next.load(Ordering::SeqCst);
        let missing = self.parts().map(|part| part.missing.load(Ordering::SeqCst));
        Lsn(missing.fold(next, u64::min))
    }
}

impl<P: Places> PageLog for PartitionedLog<P> {
    fn replay(&self, redo: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>) -> Result<()> {
        self.visit(&mut |lsn, _, bytes| redo(lsn, bytes))?;
        *self.found() = Vec::new();
        Ok(())
    }

    fn add_session(&self, number: u32) -> Result<()> {
        self.ahead.note_sessions(number as usize + 1);
        if self.shared.is_some() {
            return Ok(());
        }
        let _one_at_a_time = self.found();
        for number in self.parts().count() as u32..=number {
            if self.options.access == Access::Read {
                return Ok(());
            }
            let place = self.places.create(number)?;
            let count = u64::from(number) + 1;
            let counted = self.part(0)?.state().place.set_count(count);
            self.durable_step(counted)?;
            self.set(number, place)?;
        }
        Ok(())
    }

    fn set_image_from(&self, lsn: Lsn) {
        self.image_from.store(lsn.0, Ordering::SeqCst);
    }

    fn record_start(&self) -> RecordStart {
        RecordStart {
            image_from: Lsn(self.image_from.load(Ordering::SeqCst)),
            header_bytes: HEADER_BYTES,
        }
    }

    fn append(&self, reserve: UndoSpace, mut record: NewRecord<'_>) -> Result<Option<Lsn>> {
        self.append_one(RecordKind::Ordinary, reserve, &mut record)
    }

    fn end(&self, session: u32) {
        if let Ok((part, number)) = self.part_of(session) {
            part.state().reservations.end(number);
        }
    }

    fn flush_to(&self, lsn: Lsn) -> Result<()> {
        // A page that is damaged may ask for more than there is.
        let lsn = lsn.min(Lsn(self.next.load(Ordering::SeqCst) - 1));
        loop {
            self.require()?;
            let horizon = self.horizon();
            self.learned(horizon);
            if horizon > lsn {
                return Ok(());
            }
            for part in self.parts() {
                self.persist_to(part, lsn)?;
            }
        }
    }

    fn flush_alone(&self, session: u32, lsn: Lsn) -> Result<bool> {
        if self.options.order == CommitOrder::Whole {
            return Ok(false);
        }
        self.require()?;
        let _log = probe::begin(Activity::Log);
        let (part, _) = self.part_of(session)?;
        self.persist_to(part, lsn)?;
        self.learned(self.horizon());
        Ok(true)
    }

    fn flush(&self) -> Result<()> {
        self.require()?;
        let next = self.next.load(Ordering::SeqCst);
        self.flush_to(Lsn(next - 1))
    }

    fn persists_ahead(&self) -> bool {
        self.places.has_daemon() && self.options.access == Access::Write
    }

    fn persist_ahead(&self) -> Result<bool> {
        if !self.persists_ahead() {
            return Ok(false);
        }
        self.require()?;
        let mut was_useful = false;
        for part in self.parts() {
            was_useful |= self.persist_part_ahead(part, || {})?;
        }
        Ok(was_useful)
    }

    fn run_ahead(&self) {
        self.ahead.run(|| self.persist_ahead().ok());
    }

    fn end_ahead(&self) {
        self.ahead.end();
        if let Some(cold) = &self.cold {
            cold.end();
        }
    }

    fn has_archive(&self) -> bool {
        self.cold.is_some()
    }

    /// The claim is one more of the place that has the transaction, where room for its rollback was
    /// kept. So a session that gets that place from now on shares it. Records to undo with tell of
    /// one change for each place, and are not shared.
    fn claim(&self, session: u32, bytes: u64) -> Result<Option<u32>> {
        if self.options.content == Content::Undo {
            return Ok(None);
        }
        let state = &mut *self.part(session)?.state();
        let number = state.unfinished + 1;
        let all = state.reservations.reserved_with(number, bytes);
        match self.make_room(state, 0, all) {
            Err(error) if error.is_statement_error() => return Ok(None),
            result => result?,
        }
        let newest = Lsn(self.newest.load(Ordering::SeqCst));
        state.reservations.claim(number, bytes, newest);
        state.unfinished = number;
        Ok(Some(session + self.stride() * number))
    }

    fn first_session(&self) -> u32 {
        let Some(count) = self.shared else { return 0 };
        let reservations = self.parts().map(|part| part.state().unfinished).max();
        reservations
            .filter(|&most| most > 0)
            .map_or(0, |most| count * (most + 1))
    }

    fn move_cold(&self) -> Result<bool> {
        self.require()?;
        self.move_cold_records()
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

    fn persisted(&self) -> Persisted {
        self.ahead.persisted()
    }

    fn groups_commits(&self) -> bool {
        self.options.persist == Persist::OnCommit && self.options.order == CommitOrder::Whole
    }

    fn synced(&self) -> Lsn {
        Lsn(self.known.load(Ordering::SeqCst))
    }

    fn begin_checkpoint(&self) -> Result<CheckpointStart> {
        self.require()?;
        if self.taken.load(Ordering::Relaxed) > self.next.load(Ordering::SeqCst) {
            // It makes records with these numbers needless, so it must come after them.
            self.life()?;
        }
        // Few records are appended from now on; they are durable before anybody appends again.
        self.flush()?;
        let _no_sync: Vec<_> = self.parts().map(|part| lock(&part.syncing)).collect();
        let mut states: Vec<_> = self.parts().map(|part| (part, part.state())).collect();
        // Nobody appends while all are locked.
        let redo = Lsn(self.next.load(Ordering::SeqCst));
        for (part, state) in &mut states {
            debug_assert!(
                !state.is_syncing,
                "a checkpoint begins while a part of the log is synced"
            );
            self.persist(part, state)?;
            let reserved = state.reservations.reserved();
            self.explained(state.place.begin_checkpoint(redo, reserved))?;
            state.checkpoint = state.place.tail();
            part.note_since(state);
        }
        debug_assert!(
            self.horizon() >= redo,
            "a checkpoint begins while a record is missing"
        );
        self.learned(redo);
        self.newest.store(redo.0, Ordering::SeqCst);
        if self.image_from.load(Ordering::SeqCst) > 0 {
            self.set_image_from(redo);
        }
        let open = states
            .iter()
            .flat_map(|(_, state)| state.reservations.since());
        let oldest = open.min().unwrap_or(redo);
        debug_assert!(
            oldest <= redo,
            "an open transaction has begun after the newest checkpoint"
        );
        Ok(CheckpointStart {
            redo,
            log: start_at(oldest),
        })
    }

    fn end_checkpoint(&self, start: LogStart) -> Result<()> {
        let in_front = match &self.cold {
            None => InFront::GivenUp,
            Some(_) => InFront::Kept,
        };
        let proven = self.part(0)?.state().place.set_start(start.lsn, in_front);
        self.durable_step(proven)?;
        for part in self.parts() {
            let state = &mut *part.state();
            state.ended = state.checkpoint;
            part.note_since(state);
        }
        match &self.cold {
            None => self.forget(start.lsn),
            Some(cold) => {
                cold.cool(start.lsn);
                Ok(())
            }
        }
    }

    fn checkpoint_need(&self, due: u64, urgent: u64) -> CheckpointNeed {
        let (mut since, mut since_ended) = (0, 0);
        let (mut is_due, mut is_urgent) = (false, false);
        for part in self.parts() {
            let of_part = part.since.load(Ordering::Relaxed);
            let of_part_ended = part.since_ended.load(Ordering::Relaxed);
            // The space that is left when sessions wait is for the next transaction of each: half
            // of a ring.
            is_due |= of_part > part.urgent - part.urgent / DUE_EARLY;
            is_urgent |= of_part_ended > part.urgent;
            since += of_part;
            since_ended += of_part_ended;
        }
        if is_urgent || since_ended > urgent {
            CheckpointNeed::Urgent
        } else if is_due || since > due {
            CheckpointNeed::Due
        } else {
            CheckpointNeed::None
        }
    }

    fn checkpoint_span(&self) -> u64 {
        let spans = self.parts().map(|part| part.urgent / DUE_EARLY);
        spans.min().unwrap_or(u64::MAX)
    }

    fn close(&self) -> Result<()> {
        if self.options.access == Access::Read {
            return Ok(());
        }
        self.flush()?;
        let newest = self.newest.load(Ordering::SeqCst);
        // Records that an opening has found are before a checkpoint by now, except those of an
        // orderly end.
        let is_changed = self.life.load(Ordering::Acquire) > 0;
        if is_changed && self.next.load(Ordering::SeqCst) > newest {
            return match self.end_orderly() {
                // Without these records damage to the newest ones may be taken for a crash.
                Err(error) if error.is_statement_error() => Ok(()),
                result => result,
            };
        }
        Ok(())
    }

    fn verify(&self) -> Result<()> {
        let (end, start) = (self.horizon(), Lsn(self.newest.load(Ordering::SeqCst)));
        let (all, _) = self.read(start)?;
        let (_, readable) = without_gaps(&all, start);
        if readable >= end {
            return Ok(());
        }
        let first = self.part(0)?.state();
        Err(first.place.damaged(&format!(
            "record {} of the log cannot be read any more, and everything in front of {} was durable",
            readable.0, end.0
        )))
    }

    fn bytes(&self) -> u64 {
        self.parts().map(|part| part.state().place.bytes()).sum()
    }

    fn disk(&self) -> DiskCounters {
        self.places.disk()
    }

    fn memory(&self) -> Counters {
        let mut counters = Counters::default();
        for part in self.parts() {
            counters += &part.state().place.counters();
        }
        counters
    }

    fn require_sound(&self) -> Result<()> {
        self.failure.require_none()
    }

    fn refuse(&self, error: &StorageError) {
        self.failure.note_of(error);
    }
}
