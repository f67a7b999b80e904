//! The partitioned log: several streams that are written concurrently. Its variants are the
//! *per-transaction*, *distributed* and *decentralized* logs of NV-Logging.
//!
//! A session appends to a [`Stream`] of its own, or to one that it shares with few others: a ring
//! in durable memory (`nv_log.rs`) or a series of files (`session_files.rs`). Most sessions share
//! only a counter: each record gets the next number ([`Lsn`]) of the partition while its pages are
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
//! Each stream says which of its records may be missing (`missing`). An append stores a bound there
//! *before* it takes its number, so a thread that reads the counter first and then all bounds has
//! the horizon, without a lock.
//!
//! Sessions of one stream share its space: a change waits until there is room for the rollbacks of
//! all of them (`UndoReservations`). Recovery undoes a transaction in the stream that has its
//! records.
//!
//! `opening` reads the streams and decides which records count; `stream` has what is known of each.
//!
//! Order of locks: `found`, then `syncing` of the streams in their order, then `state` of the
//! streams in theirs.
//!
//! With [`CommitOrder::AsPublished`] a commit waits for its own stream only. Recovery is the same,
//! so a power cut can lose commits that were acknowledged beyond a missing record of another
//! session; pages still wait for the horizon.
//!
//! After Huang, Schwan, Qureshi: NVRAM-aware Logging in Transaction Systems (VLDB 2014), sections 4
//! and 5; the horizon avoids the hazard of early lock release that its section 4.4 names. Several
//! logs with one line of numbers and a group commit that waits for all of them are the state of the
//! art that the paper compares with, after Wang and Johnson: Scalable Logging through Emerging
//! Non-Volatile Memory (VLDB 2014).

mod opening;
mod stream;

pub(super) use self::opening::without_gaps;
use self::stream::{NOTHING, SharedStream, State};
use super::ahead::Ahead;
use super::cold::{Cold, ColdStore};
use super::log::{CheckpointNeed, CheckpointStart, NewRecord, PageLog, RecordStart, UndoSpace};
use disk::DiskCounters;
use pmem::{Access, Counters};
use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use storage::engine::{CommitOrder, Persist, Persisted};
use storage::failure::Failure;
use storage::log::numbered::{Found, HEADER_BYTES, InFront, Pending, RecordKind, Stamp, Stream};
use storage::log::{ArchiveRange, ArchiveWatch, LogStart, Lsn};
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

/// Source of the streams of a log.
pub trait StreamSource: Send + Sync {
    /// The log that a session appends to.
    type Stream: Stream;

    /// Opens all that there are, at least one; stores nothing.
    fn open(&self) -> Result<Vec<Self::Stream>>;

    /// Opens all of them once more, to copy records while others append; none where records are
    /// copied from the streams themselves.
    fn open_apart(&self) -> Result<Vec<Self::Stream>> {
        Ok(Vec::new())
    }

    /// Makes another one, the next. The first one counts it before it is used.
    fn create(&self, number: u32) -> Result<Self::Stream>;

    /// Whether all were made with the log, so that sessions share them.
    fn are_shared(&self) -> bool;

    /// Whether a daemon makes records durable ahead of their commits.
    fn has_daemon(&self) -> bool {
        false
    }

    /// Number of end records of an orderly end, which say that everything was durable. Each is in
    /// another stream, so that the files of each stream are named in another one.
    fn ends(&self) -> u32;

    /// The error for a stream of which one of these files is gone, if one is.
    fn gone(&self, stream: u32, files: &RangeInclusive<u64>) -> Result<Option<StorageError>>;

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

/// Callback of an opening: gets each record, and a session of the stream that has it.
pub type VisitRecord<'v> = dyn FnMut(Lsn, u32, &[u8]) -> Result<()> + 'v;

/// The log of one partition.
///
/// The opening is in `opening`, and the way of records to an archive in `buffer/cold.rs`.
pub struct PartitionedLog<P: StreamSource> {
    pub(super) source: P,
    options: HorizonOptions,
    streams: Box<[OnceLock<SharedStream<P::Stream>>]>,
    /// Number of streams if sessions share them.
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

impl<P: StreamSource> PartitionedLog<P> {
    /// Opens the log and finds the records from `start` on that count. Nothing is stored yet. In a
    /// log with an archive, earlier records that are not archived are found as well; `archive` has
    /// the number from which on none was given up.
    pub fn open(
        source: P,
        options: HorizonOptions,
        start: Lsn,
        archive: Option<(Box<dyn ColdStore>, Lsn)>,
    ) -> Result<Self> {
        let cold = match archive {
            Some((store, kept_from)) => Some(Cold::new(store, kept_from, start)?),
            None => None,
        };
        let opened = source.open()?;
        let count = opened.len() as u32;
        let mut log = Self {
            shared: source.are_shared().then_some(count),
            source,
            options,
            streams: (0..SESSIONS_MAX).map(|_| OnceLock::new()).collect(),
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
        for (number, stream) in (0..).zip(opened) {
            log.set(number, stream)?;
        }
        log.find(log.cold.as_ref().map_or(start, Cold::from))?;
        log.opened_at = Lsn(log.next.load(Ordering::SeqCst));
        log.proven = Lsn(log.known.load(Ordering::SeqCst));
        Ok(log)
    }

    fn set(&self, number: u32, records: P::Stream) -> Result<()> {
        let stream = self.streams.get(number as usize);
        if stream.is_some_and(|stream| stream.set(SharedStream::new(records)).is_ok()) {
            return Ok(());
        }
        Err(StorageError::Unsupported(format!(
            "a partition has at most {SESSIONS_MAX} sessions, each of them once"
        )))
    }

    pub(super) fn streams(&self) -> impl Iterator<Item = &SharedStream<P::Stream>> {
        self.streams.iter().map_while(OnceLock::get)
    }

    pub(super) fn stream(&self, number: u32) -> Result<&SharedStream<P::Stream>> {
        let stream = self.streams.get(number as usize);
        stream.and_then(OnceLock::get).ok_or(StorageError::Poisoned)
    }

    /// The stream that a session appends to, and its number among the sessions of that stream.
    fn stream_of(&self, session: u32) -> Result<(&SharedStream<P::Stream>, u32)> {
        let stride = self.stride();
        Ok((self.stream(session % stride)?, session / stride))
    }

    /// Sessions whose numbers are so far apart share a stream. Where each has one of its own, only
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
            let life = self.stream(0)?.state().records.begin_life(cut);
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
        let stream = self.stream(0)?;
        let state = &mut *stream.state();
        let mut record = vec![0; HEADER_BYTES];
        record.extend_from_slice(&first.to_le_bytes());
        self.make_room(state, record.len() - HEADER_BYTES, 0)?;
        stream.missing.store(first, Ordering::SeqCst);
        self.next.store(last + 1, Ordering::SeqCst);
        let stamp = Stamp {
            lsn: Lsn(last),
            known: Lsn(self.known.load(Ordering::Relaxed)),
            life: 0,
            kind: RecordKind::Gap,
        };
        self.durable_step(state.records.append(stamp, &mut record))
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

    /// Makes all records of a stream durable, while nobody appends.
    fn persist(
        &self,
        stream: &SharedStream<P::Stream>,
        state: &mut State<P::Stream>,
    ) -> Result<()> {
        if stream.missing.load(Ordering::SeqCst) == NOTHING {
            return Ok(());
        }
        let records = state.records.waiting();
        self.durable_step(state.records.persist())?;
        stream.missing.store(NOTHING, Ordering::SeqCst);
        self.ahead.add_by_session(records);
        Ok(())
    }

    /// Makes what a stream has up to a record durable. If a session is about to do so, that is
    /// worth a short wait.
    fn persist_to(&self, stream: &SharedStream<P::Stream>, lsn: Lsn) -> Result<()> {
        let mut waiting = None;
        for _ in 0..SPINS_MAX {
            if stream.missing.load(Ordering::SeqCst) > lsn.0 {
                return Ok(());
            }
            if let Ok(one) = stream.syncing.try_lock() {
                drop(waiting);
                return self.persist_beside(stream, lsn, one);
            }
            waiting.get_or_insert_with(|| probe::begin(Activity::LogWait));
            spin_loop();
        }
        let one = lock(&stream.syncing);
        drop(waiting);
        self.persist_beside(stream, lsn, one)
    }

    /// Makes all records of a stream durable, while others append if that takes long.
    fn persist_beside(
        &self,
        stream: &SharedStream<P::Stream>,
        lsn: Lsn,
        _one_at_a_time: MutexGuard<'_, ()>,
    ) -> Result<()> {
        let mut state = stream.state();
        if stream.missing.load(Ordering::SeqCst) > lsn.0 {
            return Ok(());
        }
        let records = state.records.waiting();
        let pending = self.durable_step(state.records.begin_persist())?;
        self.finish_beside(stream, state, pending, || {})?;
        self.ahead.add_by_session(records);
        Ok(())
    }

    /// As [`PartitionedLog::persist_beside`], of records that nobody waits for yet; says whether
    /// there were any. `meanwhile` runs when others can append again.
    pub(super) fn persist_stream_ahead(
        &self,
        stream: &SharedStream<P::Stream>,
        meanwhile: impl FnOnce(),
    ) -> Result<bool> {
        if stream.missing.load(Ordering::SeqCst) == NOTHING {
            return Ok(false);
        }
        // The thread that holds it makes all current records durable.
        let Ok(_one_at_a_time) = stream.syncing.try_lock() else {
            return Ok(false);
        };
        let mut state = stream.state();
        let records = state.records.waiting();
        let Some(pending) = self.durable_step(state.records.begin_ahead())? else {
            return Ok(false);
        };
        self.finish_beside(stream, state, Some(pending), meanwhile)?;
        self.ahead.add_ahead(records);
        Ok(true)
    }

    /// Ends a step that makes all current records of a stream durable. Nobody may rely on their
    /// durability earlier.
    fn finish_beside<'p>(
        &self,
        stream: &'p SharedStream<P::Stream>,
        mut state: MutexGuard<'p, State<P::Stream>>,
        pending: Option<<P::Stream as Stream>::Pending>,
        meanwhile: impl FnOnce(),
    ) -> Result<()> {
        if let Some(pending) = pending {
            // Appends from now on get higher numbers than the records that are being made durable.
            state.is_syncing = true;
            let ended = pending.run(|| {
                drop(state);
                meanwhile();
            });
            state = stream.state();
            assert!(state.is_syncing, "two threads sync one stream of the log");
            state.is_syncing = false;
            self.durable_step(state.records.end_persist(ended))?;
        }
        stream.missing.store(state.behind, Ordering::SeqCst);
        state.behind = NOTHING;
        Ok(())
    }

    fn make_room(&self, state: &mut State<P::Stream>, payload: usize, more: u64) -> Result<()> {
        match state.records.make_room(payload, more) {
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
        let (stream, number) = self.stream_of(reserve.session())?;
        let state = &mut *stream.state();
        // A checkpoint begins with all streams locked.
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
        if stream.missing.load(Ordering::Relaxed) == NOTHING {
            stream.missing.store(bound, Ordering::SeqCst);
        } else if state.is_syncing && state.behind == NOTHING {
            state.behind = bound;
        }
        let lsn = Lsn(self.next.fetch_add(1, Ordering::SeqCst));
        debug_assert!(
            lsn.0 >= bound && stream.missing.load(Ordering::Relaxed) <= lsn.0,
            "a record is missing that its stream does not say to be"
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
        self.durable_step(state.records.append(stamp, record.bytes))?;
        let is_end = matches!(reserve, UndoSpace::End(..));
        if is_end {
            state.reservations.end(number);
        }
        // The record of a transaction's end is made durable by the thread that waits for it,
        // without the locks under which it is logged.
        let is_later = is_end && self.options.content == Content::Redo;
        if self.options.persist == Persist::OnInsert && !is_later {
            self.persist(stream, state)?;
        } else {
            self.ahead.appended();
        }
        stream.note_since(state);
        Ok(Some(lsn))
    }

    /// Appends records whose *known* says that all earlier ones are durable.
    fn end_orderly(&self) -> Result<()> {
        for session in 0..self.source.ends() {
            self.add_session(session)?;
            let mut files = Vec::new();
            for stream in self.streams() {
                if let Some(own) = stream.state().records.files() {
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
        let noted = self.stream(0)?.state().records.set_archived(archived);
        self.durable_step(noted)?;
        self.forget(archived)
    }

    /// Lets streams forget records before `start`, which nobody needs any more.
    fn forget(&self, start: Lsn) -> Result<()> {
        assert!(
            start.0 <= self.newest.load(Ordering::SeqCst),
            "records are forgotten that the newest checkpoint needs"
        );
        for stream in self.streams() {
            stream.state().records.forget(start)?;
        }
        if start >= self.opened_at {
            self.has_gaps.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// All records below it are durable.
    pub fn horizon(&self) -> Lsn {
        let next = self.next.load(Ordering::SeqCst);
        let missing = self
            .streams()
            .map(|stream| stream.missing.load(Ordering::SeqCst));
        Lsn(missing.fold(next, u64::min))
    }
}

impl<P: StreamSource> PageLog for PartitionedLog<P> {
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
        for number in self.streams().count() as u32..=number {
            if self.options.access == Access::Read {
                return Ok(());
            }
            let stream = self.source.create(number)?;
            let count = u64::from(number) + 1;
            let counted = self.stream(0)?.state().records.set_count(count);
            self.durable_step(counted)?;
            self.set(number, stream)?;
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
        if let Ok((stream, number)) = self.stream_of(session) {
            stream.state().reservations.end(number);
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
            for stream in self.streams() {
                self.persist_to(stream, lsn)?;
            }
        }
    }

    fn flush_alone(&self, session: u32, lsn: Lsn) -> Result<bool> {
        if self.options.order == CommitOrder::Whole {
            return Ok(false);
        }
        self.require()?;
        let _log = probe::begin(Activity::Log);
        let (stream, _) = self.stream_of(session)?;
        self.persist_to(stream, lsn)?;
        self.learned(self.horizon());
        Ok(true)
    }

    fn flush(&self) -> Result<()> {
        self.require()?;
        let next = self.next.load(Ordering::SeqCst);
        self.flush_to(Lsn(next - 1))
    }

    fn persists_ahead(&self) -> bool {
        self.source.has_daemon() && self.options.access == Access::Write
    }

    fn persist_ahead(&self) -> Result<bool> {
        if !self.persists_ahead() {
            return Ok(false);
        }
        self.require()?;
        let mut was_useful = false;
        for stream in self.streams() {
            was_useful |= self.persist_stream_ahead(stream, || {})?;
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

    fn archive_watch(&self) -> Option<Arc<ArchiveWatch>> {
        self.cold.as_ref().map(Cold::watch)
    }

    /// The claim is one more of the stream that has the transaction, where room for its rollback
    /// was kept. So a session that gets that stream from now on shares it. Records to undo with
    /// tell of one change for each stream, and are not shared.
    fn claim(&self, session: u32, bytes: u64) -> Result<Option<u32>> {
        if self.options.content == Content::Undo {
            return Ok(None);
        }
        let state = &mut *self.stream(session)?.state();
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
        let reservations = self.streams().map(|stream| stream.state().unfinished).max();
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
        let _no_sync: Vec<_> = self.streams().map(|stream| lock(&stream.syncing)).collect();
        let mut states: Vec<_> = self
            .streams()
            .map(|stream| (stream, stream.state()))
            .collect();
        // Nobody appends while all are locked.
        let redo = Lsn(self.next.load(Ordering::SeqCst));
        for (stream, state) in &mut states {
            debug_assert!(
                !state.is_syncing,
                "a checkpoint begins while a stream of the log is synced"
            );
            self.persist(stream, state)?;
            let reserved = state.reservations.reserved();
            self.explained(state.records.begin_checkpoint(redo, reserved))?;
            state.checkpoint = state.records.tail();
            stream.note_since(state);
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
        let proven = self
            .stream(0)?
            .state()
            .records
            .set_start(start.lsn, in_front);
        self.durable_step(proven)?;
        for stream in self.streams() {
            let state = &mut *stream.state();
            state.ended = state.checkpoint;
            stream.note_since(state);
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
        for stream in self.streams() {
            let of_stream = stream.since.load(Ordering::Relaxed);
            let of_stream_ended = stream.since_ended.load(Ordering::Relaxed);
            // The space that is left when sessions wait is for the next transaction of each: half
            // of a ring.
            is_due |= of_stream > stream.urgent - stream.urgent / DUE_EARLY;
            is_urgent |= of_stream_ended > stream.urgent;
            since += of_stream;
            since_ended += of_stream_ended;
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
        let spans = self.streams().map(|stream| stream.urgent / DUE_EARLY);
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
        let first = self.stream(0)?.state();
        Err(first.records.damaged(&format!(
            "record {} of the log cannot be read any more, and everything in front of {} was durable",
            readable.0, end.0
        )))
    }

    fn bytes(&self) -> u64 {
        self.streams()
            .map(|stream| stream.state().records.bytes())
            .sum()
    }

    fn disk(&self) -> DiskCounters {
        self.source.disk()
    }

    fn memory(&self) -> Counters {
        let mut counters = Counters::default();
        for stream in self.streams() {
            counters += &stream.state().records.counters();
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
