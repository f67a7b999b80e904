//! The log of the page engine in durable memory: several rings beside each other, which are *log* = per transaction and *log* = distributed of
//! NV-Logging.
//!
//! A session appends to its own ring, or to one that it shares with few others ([`Rings`]), so most sessions meet nowhere but at a counter: each
//! record gets the next number ([`Lsn`]) of the partition, while its pages are latched. What becomes durable when is the [`Persist`] option.
//!
//! Records become durable in no order, and a record is worth nothing without those in front of it: they may be of the same page, or of a
//! transaction whose locks were given back early. So everybody looks at the *horizon*, in front of which no record is missing. A commit is
//! acknowledged, and a page written, below the horizon only; recovery ends in front of the first record that is missing, and what lies
//! behind it was never acknowledged.
//!
//! Each ring says which of its records may be missing (`missing`). An append stores a bound there *before* it takes its number, so
//! whoever reads the counter first and then all bounds has the horizon, without a lock.
//!
//! Sessions of one ring share its space: what one of them changes waits for room for the rollbacks of all (`Claims`). What recovery undoes
//! it undoes in the ring of the transaction.
//!
//! After Huang, Schwan, Qureshi: NVRAM-aware Logging in Transaction Systems (VLDB 2014), sections 4 and 5; the horizon mends what its section 4.4 names
//! as the hazard of early lock release. Several logs with one line of numbers and a group commit that waits for all of them are the state of the art
//! that the paper compares with, after Wang and Johnson: Scalable Logging through Emerging Non-Volatile Memory (VLDB 2014).

use super::claims::Claims;
use super::log::{CheckpointStart, PageLog, Reserve};
use crate::error::{Result, StorageError};
use crate::log::nv_ring::{Found, HEADER_BYTES, RING_BYTES_MIN, Stamp};
use crate::log::{LogIdentity, LogStart, Lsn, NvRing, RingIdentity};
use crate::probe::{self, Activity, lock_log};
use crate::sync::{Alone, AtomicU64, Mutex, MutexGuard, Ordering, lock, spin_loop};
use disk::{Directory, DiskCounters};
use pmem::{Access, Counters, MemorySource};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

/// Most sessions of a partition, for its life.
pub const SESSIONS_MAX: usize = 1024;
/// Nothing of a ring is missing.
const NOTHING: u64 = u64::MAX;
/// A ring has room for the rollback of a small transaction several times. Records to undo with have lines as they were, and are longer.
const RING_PAGES_MIN: u64 = 256;
const RING_PAGES_MIN_UNDO: u64 = 768;
/// Times that a session looks again before it sleeps until another has made its records durable.
const SPINS_MAX: u32 = 500;
/// Of a ring, so much may be in use before a checkpoint is due; the rest is for what is logged meanwhile. Who finds the ring full writes a checkpoint.
const DUE_SHARE: u64 = 2;

/// When a record becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Persist {
    /// As it is inserted, the record of a commit as it is acknowledged: one fence each.
    #[default]
    OnInsert,
    /// At a commit, with all that are in front of it.
    OnCommit,
}

/// How sessions and rings go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rings {
    /// A ring a session, made when the session is.
    PerSession,
    /// So many rings, made with the log and for its life; each has every so many-th session.
    Shared(u32),
}

/// Sizes and manners of the log.
#[derive(Clone, Copy, Debug)]
pub struct NvLogOptions {
    /// Whose log it is.
    pub identity: LogIdentity,
    /// Whether it may change.
    pub access: Access,
    /// Which sessions have a ring. A log that exists has as many shared ones as it was made with.
    pub rings: Rings,
    /// Bytes of records in a ring.
    pub ring_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// When a record becomes durable.
    pub persist: Persist,
    /// What a record is for.
    pub content: Content,
}

/// What the records of a log are for, and so which of them count after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// To repeat what was done: those in front of the first one that is missing.
    Redo,
    /// To undo what was done in place, which nobody does before the record is durable: all of them. Each is durable when it is
    /// appended, so a session's locks are given back behind its commit.
    Undo,
}

/// What an opening calls with each record, and a session of the ring that has it.
pub type VisitRecord<'v> = dyn FnMut(Lsn, u32, &[u8]) -> Result<()> + 'v;

impl NvLogOptions {
    fn ring(&self, number: u32) -> RingIdentity {
        RingIdentity {
            log: self.identity,
            ring: number,
        }
    }

    fn bytes(&self) -> u64 {
        let pages = match self.content {
            Content::Redo => RING_PAGES_MIN,
            Content::Undo => RING_PAGES_MIN_UNDO,
        };
        let least = pages * self.page_bytes;
        self.ring_bytes.max(least).max(RING_BYTES_MIN)
    }
}

/// The log of one partition.
pub struct NvLog<S: MemorySource, D> {
    memories: S,
    /// The other files of the partition.
    files: Mutex<D>,
    options: NvLogOptions,
    parts: Box<[OnceLock<Part<S::Memory>>]>,
    /// How many rings there are if their sessions share them.
    shared: Option<u32>,
    /// The number of the next record.
    next: Alone<AtomicU64>,
    /// The newest checkpoint that has begun.
    newest: AtomicU64,
    /// Pages that have not changed since here are logged whole; 0 if none are.
    image_from: AtomicU64,
    /// The life of the log that this opening has begun; 0 before its first record.
    life: AtomicU64,
    /// A horizon of some time ago.
    known: Alone<AtomicU64>,
    /// Where the opening has begun to look for records, and where they ended.
    start: Lsn,
    opened_at: Lsn,
    /// Everything in front of it is there, as the opening has proven.
    proven: Lsn,
    /// The opening has found that records are missing which were never durable. Until they are in front of a checkpoint, no record says that
    /// all are there.
    has_gaps: AtomicBool,
    is_poisoned: AtomicBool,
    /// What the opening has found, until it is replayed.
    found: Mutex<Vec<(u32, Found)>>,
    /// What of it is given up, until that is durable.
    given_up: Mutex<Vec<Lsn>>,
}

/// A ring and what is known of it, alone on its lines.
#[repr(align(128))]
struct Part<M: pmem::Memory> {
    /// The first record that may be missing, or an earlier number; [`NOTHING`] if none is.
    missing: AtomicU64,
    /// Bytes of objects since the newest checkpoint, to be read without the lock; and how many make one due.
    since: AtomicU64,
    due: u64,
    /// Apart from what other sessions read.
    state: Alone<Mutex<State<M>>>,
}

struct State<M: pmem::Memory> {
    ring: NvRing<M>,
    /// What the transactions of its sessions need.
    claims: Claims<Lsn>,
    /// Where the ring stood when the newest checkpoint began.
    checkpoint: u64,
}

impl<M: pmem::Memory> Part<M> {
    fn new(ring: NvRing<M>) -> Self {
        let due = ring.bytes() / DUE_SHARE;
        let state = State {
            checkpoint: ring.tail(),
            ring,
            claims: Claims::new(),
        };
        Self {
            missing: AtomicU64::new(NOTHING),
            since: AtomicU64::new(0),
            due,
            state: Alone(Mutex::new(state)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State<M>> {
        lock_log(&self.state)
    }
}

/// A start of the log in its numbers: there are no segments.
fn start_at(lsn: Lsn) -> LogStart {
    LogStart {
        segment: LogStart::NEW.segment,
        lsn,
    }
}

impl<S: MemorySource, D: Directory> NvLog<S, D> {
    /// Makes the log with its first ring, or with all that are shared, durable when it returns.
    pub fn create(memories: &S, options: &NvLogOptions) -> Result<()> {
        let mut first = NvRing::create(memories, options.ring(0), options.bytes())?;
        if let Rings::Shared(rings) = options.rings {
            if !(1..=SESSIONS_MAX as u32).contains(&rings) {
                return Err(StorageError::Unsupported(format!(
                    "a log of {rings} rings: use 1 to {SESSIONS_MAX}"
                )));
            }
            for number in 1..rings {
                NvRing::create(memories, options.ring(number), options.bytes())?;
            }
            first.set_rings(u64::from(rings))?;
        }
        Ok(())
    }

    /// Whether it is proven that a checkpoint at `start` is durable. If not, the records in front of it may have to be needed again.
    pub fn knows(memories: &S, options: &NvLogOptions, start: Lsn) -> Result<bool> {
        let first = NvRing::open(memories, options.ring(0), options.access)?;
        Ok(first.start()? >= start)
    }

    /// Notes that a checkpoint at `start` is durable, which the caller has made sure of.
    pub fn learn(memories: &S, options: &NvLogOptions, start: Lsn) -> Result<()> {
        NvRing::open(memories, options.ring(0), options.access)?.set_start(start)
    }

    /// Opens the log and finds the records from `start` on that count. Nothing is stored yet.
    pub fn open(memories: S, files: D, options: NvLogOptions, start: Lsn) -> Result<Self> {
        let first = NvRing::open(&memories, options.ring(0), options.access)?;
        let rings = first.rings()?;
        if !(1..=SESSIONS_MAX as u64).contains(&rings) {
            return Err(first.damaged(&format!("it says that the log has {rings} rings")));
        }
        let mut log = Self {
            memories,
            files: Mutex::new(files),
            options,
            parts: (0..SESSIONS_MAX).map(|_| OnceLock::new()).collect(),
            shared: matches!(options.rings, Rings::Shared(_)).then_some(rings as u32),
            next: Alone(AtomicU64::new(start.0)),
            newest: AtomicU64::new(start.0),
            image_from: AtomicU64::new(0),
            life: AtomicU64::new(0),
            known: Alone(AtomicU64::new(start.0)),
            start,
            opened_at: start,
            proven: start,
            has_gaps: AtomicBool::new(false),
            is_poisoned: AtomicBool::new(false),
            found: Mutex::default(),
            given_up: Mutex::default(),
        };
        log.set(0, first)?;
        for number in 1..rings as u32 {
            let ring = NvRing::open(&log.memories, options.ring(number), options.access)?;
            log.set(number, ring)?;
        }
        log.find(start)?;
        log.opened_at = Lsn(log.next.load(Ordering::SeqCst));
        log.proven = Lsn(log.known.load(Ordering::SeqCst));
        Ok(log)
    }

    fn set(&self, number: u32, ring: NvRing<S::Memory>) -> Result<()> {
        let place = self.parts.get(number as usize);
        if place.is_some_and(|place| place.set(Part::new(ring)).is_ok()) {
            return Ok(());
        }
        Err(StorageError::Unsupported(format!(
            "a partition has at most {SESSIONS_MAX} sessions, each of them once"
        )))
    }

    fn parts(&self) -> impl Iterator<Item = &Part<S::Memory>> {
        self.parts.iter().map_while(OnceLock::get)
    }

    fn part(&self, number: u32) -> Result<&Part<S::Memory>> {
        let place = self.parts.get(number as usize);
        place.and_then(OnceLock::get).ok_or(StorageError::Poisoned)
    }

    /// The part that a session appends to, and its number among the sessions of that part.
    fn part_of(&self, session: u32) -> Result<(&Part<S::Memory>, u32)> {
        match self.shared {
            None => Ok((self.part(session)?, 0)),
            Some(rings) => Ok((self.part(session % rings)?, session / rings)),
        }
    }

    /// The life of the log that this opening has begun.
    fn life(&self) -> Result<u64> {
        let life = self.life.load(Ordering::Acquire);
        if life > 0 {
            return Ok(life);
        }
        let _one_at_a_time = self.found();
        if self.life.load(Ordering::Acquire) == 0 {
            let cut = Lsn(self.next.load(Ordering::SeqCst));
            let life = self.part(0)?.state().ring.begin_life(cut);
            self.life.store(self.durable_step(life)?, Ordering::Release);
        }
        Ok(self.life.load(Ordering::Acquire))
    }

    /// Finds the records that count: from `start` on without a gap, and none that an earlier life has lost.
    fn find(&self, start: Lsn) -> Result<()> {
        let (mut all, mut known) = (Vec::new(), start);
        let (life, cut) = self.part(0)?.state().ring.life()?;
        for (part, number) in self.parts().zip(0_u32..) {
            for found in part.state().ring.records(start)? {
                known = known.max(found.known);
                if found.lsn < cut || found.life == life {
                    all.push((number, found));
                }
            }
        }
        all.sort_unstable_by_key(|(_, found)| found.lsn);
        let in_order = all.iter().zip(start.0..);
        let whole = in_order
            .take_while(|((_, found), lsn)| found.lsn.0 == *lsn)
            .count();
        let mut end = Lsn(start.0 + whole as u64);
        if known > end {
            let first = self.part(0)?.state();
            return Err(first.ring.damaged(&format!(
                "record {} of the log is gone, or cannot be read, and was durable once",
                end.0
            )));
        }
        match self.options.content {
            Content::Redo => all.truncate(whole),
            Content::Undo if whole < all.len() => {
                self.has_gaps.store(true, Ordering::SeqCst);
                end = all.last().map_or(end, |(_, found)| Lsn(found.lsn.0 + 1));
            }
            Content::Undo => {}
        }
        self.known.store(known.0, Ordering::Relaxed);
        self.next.store(end.0, Ordering::SeqCst);
        *self.found() = all;
        Ok(())
    }

    fn found(&self) -> MutexGuard<'_, Vec<(u32, Found)>> {
        lock(&self.found)
    }

    /// Hands every record that was found to `visit`, with a session of its ring, in their order; marks have nothing in them.
    pub fn visit(&self, visit: &mut VisitRecord<'_>) -> Result<()> {
        for (number, found) in &*self.found() {
            let part = self.part(*number)?.state();
            match part.ring.payload(found)? {
                [] => {}
                record => visit(found.lsn, *number, record)?,
            }
        }
        Ok(())
    }

    /// Hands the newest record of each ring to `visit`, unless it is a mark or there was another one: of those it is not certain that they have
    /// been done.
    pub fn visit_newest(&self, visit: &mut VisitRecord<'_>) -> Result<()> {
        let mut newest: Vec<Option<Found>> = vec![None; self.parts().count()];
        for (number, found) in &*self.found() {
            newest[*number as usize] = Some(*found);
        }
        for (number, found) in (0..).zip(newest) {
            let Some(found) = found else { continue };
            let part = self.part(number)?.state();
            if part.ring.newest_given_up(self.start)? > Some(found.lsn) {
                // There was another one behind it.
                continue;
            }
            match part.ring.payload(&found)? {
                [] => {}
                record => visit(found.lsn, number, record)?,
            }
        }
        Ok(())
    }

    /// Lets records not count that were found.
    pub fn give_up(&self, records: &[Lsn]) {
        if !records.is_empty() {
            self.has_gaps.store(true, Ordering::SeqCst);
            self.found()
                .retain(|(_, found)| !records.contains(&found.lsn));
            lock(&self.given_up).extend_from_slice(records);
        }
    }

    /// Makes what was found durable, and everything else undone.
    pub fn settle(&self) -> Result<()> {
        let end = Lsn(self.next.load(Ordering::SeqCst));
        let known = Lsn(self.known.load(Ordering::Relaxed));
        let from = match self.options.content {
            Content::Redo => end,
            Content::Undo => self.start,
        };
        let given_up = std::mem::take(&mut *lock(&self.given_up));
        let mut kept = vec![Vec::new(); self.parts().count()];
        for (number, found) in &*self.found() {
            kept[*number as usize].push(*found);
        }
        for (part, kept) in self.parts().zip(kept) {
            let mut state = part.state();
            let settled = state.ring.settle(&kept, known, (from, &given_up));
            self.durable_step(settled)?;
            state.checkpoint = state.ring.tail();
        }
        self.learned(end);
        Ok(())
    }

    /// Notes that everything in front of `horizon` is durable.
    fn learned(&self, horizon: Lsn) {
        if self.known.load(Ordering::Relaxed) < horizon.0 {
            self.known.fetch_max(horizon.0, Ordering::SeqCst);
        }
    }

    fn durable_step<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.is_poisoned.store(true, Ordering::SeqCst);
        }
        result
    }

    fn require(&self) -> Result<()> {
        if self.is_poisoned.load(Ordering::Relaxed) {
            return Err(StorageError::Poisoned);
        }
        Ok(())
    }

    fn persist(&self, part: &Part<S::Memory>, state: &mut State<S::Memory>) -> Result<()> {
        if part.missing.load(Ordering::SeqCst) == NOTHING {
            return Ok(());
        }
        self.durable_step(state.ring.persist())?;
        part.missing.store(NOTHING, Ordering::SeqCst);
        Ok(())
    }

    /// Makes what a ring has up to a record durable. If a session is about to do so, that is worth a short wait.
    fn persist_to(&self, part: &Part<S::Memory>, lsn: Lsn) -> Result<()> {
        let mut waiting = None;
        for _ in 0..SPINS_MAX {
            if part.missing.load(Ordering::SeqCst) > lsn.0 {
                return Ok(());
            }
            if let Ok(mut state) = part.state.try_lock() {
                drop(waiting);
                return self.persist(part, &mut state);
            }
            waiting.get_or_insert_with(|| probe::begin(Activity::LogWait));
            spin_loop();
        }
        drop(waiting);
        self.persist(part, &mut part.state())
    }

    /// Everything in front of it is durable.
    pub fn horizon(&self) -> Lsn {
        let next = self.next.load(Ordering::SeqCst);
        let missing = self.parts().map(|part| part.missing.load(Ordering::SeqCst));
        Lsn(missing.fold(next, u64::min))
    }
}

impl<S, D> PageLog for NvLog<S, D>
where
    S: MemorySource + Send + Sync,
    S::Memory: Send,
    D: Directory,
{
    fn replay(&self, redo: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>) -> Result<()> {
        self.visit(&mut |lsn, _, bytes| redo(lsn, bytes))?;
        *self.found() = Vec::new();
        Ok(())
    }

    fn add_session(&self, number: u32) -> Result<()> {
        if self.shared.is_some() {
            return Ok(());
        }
        let _one_at_a_time = self.found();
        for number in self.parts().count() as u32..=number {
            if self.options.access == Access::Read {
                return Ok(());
            }
            let ring = NvRing::create(
                &self.memories,
                self.options.ring(number),
                self.options.bytes(),
            )?;
            let counted = self.part(0)?.state().ring.set_rings(u64::from(number) + 1);
            self.durable_step(counted)?;
            self.set(number, ring)?;
        }
        Ok(())
    }

    fn image_from(&self, lsn: Lsn) {
        self.image_from.store(lsn.0, Ordering::SeqCst);
    }

    fn append(
        &self,
        reserve: Reserve,
        encode: &mut dyn FnMut(Lsn, &mut Vec<u8>),
        record: &mut Vec<u8>,
    ) -> Result<Lsn> {
        self.require()?;
        let session = reserve.session();
        let life = self.life()?;
        let (part, place) = self.part_of(session)?;
        let state = &mut *part.state();
        record.clear();
        record.resize(HEADER_BYTES, 0);
        encode(Lsn(self.image_from.load(Ordering::SeqCst)), record);
        let more = match reserve {
            Reserve::Bytes(_, bytes) => state.claims.reserved_with(place, bytes),
            Reserve::Keep(_) | Reserve::End(_) => 0,
        };
        if !state.ring.has_room(record.len() - HEADER_BYTES, more) {
            return Err(state.ring.full(record.len() as u64 + more));
        }
        if let Reserve::Bytes(_, bytes) = reserve {
            let newest = Lsn(self.newest.load(Ordering::SeqCst));
            state.claims.claim(place, bytes, newest);
        }
        let is_first = part.missing.load(Ordering::Relaxed) == NOTHING;
        if is_first {
            // Before the number is taken: see the header.
            let bound = self.next.load(Ordering::SeqCst);
            part.missing.store(bound, Ordering::SeqCst);
        }
        let lsn = Lsn(self.next.fetch_add(1, Ordering::SeqCst));
        let known = if self.has_gaps.load(Ordering::Relaxed) {
            self.proven
        } else {
            Lsn(self.known.load(Ordering::Relaxed))
        };
        let stamp = Stamp { lsn, known, life };
        self.durable_step(state.ring.append(stamp, record))?;
        let is_end = matches!(reserve, Reserve::End(..));
        if is_end {
            state.claims.end(place);
        }
        // The record of a transaction's end: whoever waits for it makes it durable, without the locks under which it is logged.
        let is_later = is_end && self.options.content == Content::Redo;
        if self.options.persist == Persist::OnInsert && !is_later {
            self.persist(part, state)?;
        }
        let since = state.ring.tail() - state.checkpoint;
        part.since.store(since, Ordering::Relaxed);
        Ok(lsn)
    }

    fn end(&self, session: u32) {
        if let Ok((part, place)) = self.part_of(session) {
            part.state().claims.end(place);
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

    fn flush(&self) -> Result<()> {
        self.require()?;
        let next = self.next.load(Ordering::SeqCst);
        self.flush_to(Lsn(next - 1))
    }

    fn groups_commits(&self) -> bool {
        self.options.persist == Persist::OnCommit
    }

    fn synced(&self) -> Lsn {
        Lsn(self.known.load(Ordering::SeqCst))
    }

    fn begin_checkpoint(&self) -> Result<CheckpointStart> {
        self.require()?;
        let mut states: Vec<_> = self.parts().map(|part| (part, part.state())).collect();
        for (part, state) in &mut states {
            self.persist(part, state)?;
            state.checkpoint = state.ring.tail();
            part.since.store(0, Ordering::Relaxed);
        }
        let redo = Lsn(self.next.load(Ordering::SeqCst));
        self.learned(redo);
        self.newest.store(redo.0, Ordering::SeqCst);
        if self.image_from.load(Ordering::SeqCst) > 0 {
            self.image_from(redo);
        }
        let open = states.iter().flat_map(|(_, state)| state.claims.since());
        Ok(CheckpointStart {
            redo,
            log: start_at(open.min().unwrap_or(redo)),
        })
    }

    fn end_checkpoint(&self, start: LogStart) -> Result<()> {
        let proven = self.part(0)?.state().ring.set_start(start.lsn);
        self.durable_step(proven)?;
        for part in self.parts() {
            part.state().ring.forget(start.lsn)?;
        }
        if start.lsn >= self.opened_at {
            self.has_gaps.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    fn is_due(&self, bytes_max: u64) -> bool {
        let mut sum = 0;
        let is_full = self.parts().any(|part| {
            let since = part.since.load(Ordering::Relaxed);
            sum += since;
            since > part.due
        });
        is_full || sum > bytes_max
    }

    fn close(&self) -> Result<()> {
        self.flush()?;
        let newest = self.newest.load(Ordering::SeqCst);
        if self.next.load(Ordering::SeqCst) > newest {
            self.append(Reserve::Keep(0), &mut |_, _| (), &mut Vec::new())?;
            self.flush()?;
        }
        Ok(())
    }

    fn verify(&self) -> Result<()> {
        let end = self.horizon();
        let start = Lsn(self.newest.load(Ordering::SeqCst));
        let mut count = 0;
        for part in self.parts() {
            let state = part.state();
            for found in state.ring.records(start)? {
                count += u64::from(found.lsn < end);
            }
        }
        if count == end.0.saturating_sub(start.0) {
            return Ok(());
        }
        let first = self.part(0)?.state();
        Err(first.ring.damaged(&format!(
            "of {} records since the newest checkpoint {count} can be read",
            end.0 - start.0
        )))
    }

    fn bytes(&self) -> u64 {
        self.parts()
            .map(|part| part.state().ring.pool_bytes())
            .sum()
    }

    fn disk(&self) -> DiskCounters {
        lock(&self.files).counters()
    }

    fn memory(&self) -> Counters {
        let mut counters = Counters::default();
        for part in self.parts() {
            counters += &part.state().ring.counters();
        }
        counters
    }

    fn is_poisoned(&self) -> bool {
        self.is_poisoned.load(Ordering::SeqCst)
    }

    fn refuse(&self) {
        self.is_poisoned.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
#[path = "nv_log_tests.rs"]
mod tests;

#[cfg(feature = "schedules")]
#[cfg(test)]
#[path = "nv_log_schedule_tests.rs"]
mod schedule_tests;
