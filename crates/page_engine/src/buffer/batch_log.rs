//! The log of transactions that become durable in batches. Of the log itself only what makes a
//! batch atomic becomes durable: before images, and records of open transactions.
//!
//! Pages lie in durable memory (`resident_pages`), and a page that the current batch has changed
//! has a copy in ordinary memory. A record is kept only while its transaction is open, to undo it;
//! its number also gives a commit its position in the order of commits. The thread that finds that
//! a batch is due *closes* it for all: it holds back new transactions, waits until none is open,
//! and makes all changes durable together (`batch_store`): before images of the lines, fence; the
//! lines, fence; the number of the batch, fence.
//!
//! A transaction that stays open delays nobody for long: after `QUIET_WAIT` the batch is closed
//! anyway and includes its records so far, so that recovery undoes it after a power cut. If a
//! thread that waits for the batch has a transaction open itself, the batch waits for no other one.
//! A prepared transaction becomes durable in the same way.
//!
//! Invariants, proven by the crash tests:
//! 1. Between the record of a change and the change of its pages no batch is closed: both are done
//!    under the lock of the session's changes, and closing a batch takes those of all sessions.
//! 2. While a batch is closed no copy changes, so the next batch never stores to lines that are
//!    being made durable.
//! 3. No commit is acknowledged before its batch counts, nor is a transaction that has read its
//!    changes.
//! 4. After a failed durable step nothing is acknowledged any more. So everything after a failed
//!    batch fails with it.
//!
//! Order of locks: latches of pages, then that of one session's changes, then those of the store
//! and of the pages' memory. Closing a batch takes all changes in their order and then only tries
//! for latches.
//!
//! After Pelley, Wenisch, Gold, Bridge: Storage Management in the NVRAM Era (VLDB 2013), "NVRAM
//! Group Commit". Its copies are tracked by dirty bits; ours are compared with the pages when the
//! batch is closed.

use super::batch_store::{BatchStore, frame_open};
use super::frame::{Original, PageBytes, unpoisoned};
use super::horizon::SESSIONS_MAX;
use super::log::{
    ApplyRecord, CheckpointNeed, CheckpointStart, NewRecord, PageLog, RecordStart, UndoSpace,
};
use super::nv_pages::Edit;
use super::page_access::PageAccess;
use super::resident_pages::{Latched, ResidentPages};
use crate::page::draft::{LINE_BYTES, differing, reseal};
use crate::page::{Head, PageId, header};
use disk::{Directory, DiskCounters};
use pmem::{Counters, MemorySource, Page};
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};
use storage::failure::Failure;
use storage::log::{LogStart, Lsn};
use storage::probe::{self, Activity, lock_log};
use storage::record::Reader;
use storage::sync::{AtomicU64, CachePadded, Condvar, Mutex, MutexGuard, Ordering, lock};
use storage::{Result, StorageError};

/// Longest time that closing a batch waits for open transactions.
const QUIET_WAIT: Duration = Duration::from_millis(1);
/// Longest time that a batch tries for the latches of its pages: a reader of one of them may wait
/// for the batch.
const LATCH_WAIT: Duration = Duration::from_secs(2);
/// A batch is due when so much of the room for its images may be needed.
const DUE_NUMERATOR: u64 = 3;
const DUE_DENOMINATOR: u64 = 4;
/// Bytes of a page's image beyond the page itself.
const IMAGE_BYTES: u64 = 64;

/// The log of one partition.
pub struct BatchLog<S: MemorySource, D> {
    store: Mutex<BatchStore<S>>,
    /// The other files of the partition.
    files: Mutex<D>,
    resident: Arc<ResidentPages>,
    all_changes: Box<[SessionCell]>,
    /// The number of the next record.
    next: CachePadded<AtomicU64>,
    /// In front of this everything is durable.
    synced: AtomicU64,
    /// The same, as far as the newest batch has a record of it.
    end: AtomicU64,
    /// Pages with copies that differ, and what open transactions may need to be undone.
    changed_pages: CachePadded<AtomicU64>,
    claimed: CachePadded<AtomicU64>,
    room: AtomicU64,
    page_bytes: u64,
    /// [`LATCH_WAIT`], but in a test that does not wait so long.
    latch_wait: Duration,
    /// Held only briefly, by threads that wait for a turn.
    turn: Mutex<()>,
    turned: Condvar,
    /// Changes with `turn` held.
    is_closing: AtomicBool,
    /// A thread with a transaction open waits for the batch. Changes with `turn` held.
    is_urgent: AtomicBool,
    failure: Failure,
}

/// The changes of a session, if there is one.
type SessionCell = OnceLock<Box<CachePadded<Mutex<SessionChanges>>>>;

/// Changes of a session in the current batch.
#[derive(Default)]
struct SessionChanges {
    /// The thread that has begun the open transaction.
    opened_by: Option<ThreadId>,
    /// A batch has waited for it without success.
    is_slow: bool,
    claim: u64,
    /// The records of its transaction, framed.
    records: Vec<u8>,
    /// Pages that it was the first to change.
    changed: Vec<PageId>,
}

/// A batch is being closed.
struct Turn<'l, S: MemorySource, D>(&'l BatchLog<S, D>);

impl<S: MemorySource, D> Drop for Turn<'_, S, D> {
    fn drop(&mut self) {
        let _turn = lock(&self.0.turn);
        self.0.is_closing.store(false, Ordering::SeqCst);
        self.0.turned.notify_all();
    }
}

impl<S: MemorySource, D: Directory> BatchLog<S, D> {
    /// The log over what an opening has found, where the pages are what the newest batch has left.
    pub fn new(
        store: BatchStore<S>,
        files: D,
        resident: Arc<ResidentPages>,
        page_bytes: usize,
    ) -> Self {
        debug_assert!(
            resident.has_copies(),
            "a batch gathers its changes in copies of pages"
        );
        let end = store.end().0;
        Self {
            room: AtomicU64::new(store.room()),
            store: Mutex::new(store),
            files: Mutex::new(files),
            resident,
            all_changes: (0..SESSIONS_MAX).map(|_| OnceLock::new()).collect(),
            next: CachePadded(AtomicU64::new(end)),
            synced: AtomicU64::new(end),
            end: AtomicU64::new(end),
            changed_pages: CachePadded::default(),
            claimed: CachePadded::default(),
            page_bytes: page_bytes as u64,
            latch_wait: LATCH_WAIT,
            turn: Mutex::new(()),
            turned: Condvar::new(),
            is_closing: AtomicBool::new(false),
            is_urgent: AtomicBool::new(false),
            failure: Failure::default(),
        }
    }

    fn changes(&self, session: u32) -> Result<&Mutex<SessionChanges>> {
        let cell = self.all_changes.get(session as usize).ok_or_else(|| {
            let text =
                format!("a partition has at most {SESSIONS_MAX} sessions, each of them once");
            StorageError::Unsupported(text)
        })?;
        Ok(&**cell.get_or_init(Box::default))
    }

    fn all_changes(&self) -> impl Iterator<Item = &Mutex<SessionChanges>> {
        self.all_changes
            .iter()
            .filter_map(OnceLock::get)
            .map(|changes| &***changes)
    }

    fn require(&self) -> Result<()> {
        self.failure.require_none()
    }

    fn wait_turn<'l>(&self, turn: MutexGuard<'l, ()>) -> MutexGuard<'l, ()> {
        let _waiting = probe::begin(Activity::LogWait);
        let woken = self.turned.wait(turn);
        woken.unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees to it that the images of more pages have room, and what a session's transaction may
    /// need.
    fn make_room(&self, pages: u64, (old, new): (u64, u64)) -> Result<()> {
        let pages = self.changed_pages.load(Ordering::Relaxed) + pages;
        let claims = (self.claimed.load(Ordering::Relaxed) + new).saturating_sub(old);
        let needed = pages * (self.page_bytes + IMAGE_BYTES) + claims;
        if needed <= self.room.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut store = lock(&self.store);
        if needed > store.room() {
            let more = needed.max(2 * store.room());
            match store.grow(more) {
                // Perhaps there is space for what is needed, if not for more.
                Err(_) if needed < more => store.grow(needed)?,
                result => result?,
            }
        }
        self.room.store(store.room(), Ordering::Relaxed);
        Ok(())
    }

    fn claim(&self, changes: &mut SessionChanges, bytes: u64) {
        let old = std::mem::replace(&mut changes.claim, bytes);
        if bytes > old {
            self.claimed.fetch_add(bytes - old, Ordering::Relaxed);
        } else if bytes < old {
            self.claimed.fetch_sub(old - bytes, Ordering::Relaxed);
        }
    }

    fn forget(&self, changes: &mut SessionChanges) {
        self.claim(changes, 0);
        changes.records.clear();
    }

    /// Closes batches until one counts that has the record.
    fn close_to(&self, lsn: Lsn) -> Result<()> {
        let here = thread::current().id();
        let is_open = self
            .all_changes()
            .any(|changes| lock(changes).opened_by == Some(here));
        let mut turn = lock(&self.turn);
        loop {
            self.require()?;
            if self.synced.load(Ordering::SeqCst) > lsn.0 {
                return Ok(());
            }
            if !self.is_closing.load(Ordering::SeqCst) {
                break;
            }
            if is_open && !self.is_urgent.swap(true, Ordering::SeqCst) {
                self.turned.notify_all();
            }
            turn = self.wait_turn(turn);
        }
        self.is_closing.store(true, Ordering::SeqCst);
        self.is_urgent.store(is_open, Ordering::SeqCst);
        let closing = Turn(self);
        self.wait_for_open(turn);
        let result = self.close();
        drop(closing);
        result
    }

    /// Waits until no transaction is open that another thread can end, or for some time. Not at all
    /// where a thread waits for the batch with a transaction open: the batch cannot become quiet
    /// then, and others that are open may wait for its locks, as they do while it is prepared.
    fn wait_for_open(&self, mut turn: MutexGuard<'_, ()>) {
        let here = thread::current().id();
        let is_waited_for = |changes: &SessionChanges| {
            let is_elsewhere = changes.opened_by.is_some_and(|thread| thread != here);
            is_elsewhere && !changes.is_slow
        };
        let begun = Instant::now();
        while !self.is_urgent.load(Ordering::SeqCst)
            && self
                .all_changes()
                .any(|changes| is_waited_for(&lock(changes)))
        {
            let Some(left) = QUIET_WAIT.checked_sub(begun.elapsed()) else {
                for changes in self.all_changes() {
                    let changes = &mut *lock(changes);
                    changes.is_slow = changes.opened_by.is_some();
                }
                return;
            };
            let _waiting = probe::begin(Activity::LogWait);
            let woken = self.turned.wait_timeout(turn, left);
            turn = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Closes the batch: everything that was appended so far is durable when it returns. A page
    /// that stays in use is an error with which nothing has been done.
    fn close(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let mut all_changes: Vec<_> = self.all_changes().map(lock).collect();
            let mut ids: Vec<PageId> = all_changes
                .iter()
                .flat_map(|changes| changes.changed.iter().copied())
                .collect();
            ids.sort_unstable();
            debug_assert!(
                ids.is_sorted_by(|one, next| one < next),
                "two sessions were the first to change a page"
            );
            debug_assert_eq!(
                ids.len() as u64,
                self.changed_pages.load(Ordering::Relaxed),
                "room is kept for the image of each page that a batch changes"
            );
            let Some(mut pages) = self.resident.try_latch(&ids) else {
                drop(all_changes);
                if begun.elapsed() > self.latch_wait {
                    let text = "a page of the batch stays in use; end the scan that reads it before another transaction commits in the same thread";
                    return Err(StorageError::Unsupported(text.to_owned()));
                }
                thread::yield_now();
                continue;
            };
            let persisted = self.persist(&all_changes, &ids, &mut pages);
            persisted.map_err(|error| self.failure.note(error))?;
            self.resident.settle(&ids, pages);
            self.changed_pages.store(0, Ordering::Relaxed);
            for changes in &mut all_changes {
                changes.changed.clear();
            }
            let next = self.next.load(Ordering::SeqCst);
            self.synced.store(next, Ordering::SeqCst);
            return Ok(());
        }
    }

    fn persist(
        &self,
        all_changes: &[MutexGuard<'_, SessionChanges>],
        ids: &[PageId],
        pages: &mut [Latched<'_>],
    ) -> Result<()> {
        let mut store = lock(&self.store);
        let is_open = all_changes
            .iter()
            .any(|changes| !changes.records.is_empty());
        if ids.is_empty() && !is_open && !store.is_due() {
            return Ok(());
        }
        let mut record = store.next_record();
        let mut changed = Vec::with_capacity(ids.len());
        for (&id, latched) in ids.iter().zip(pages) {
            if let Some((page, mut new, original)) = changed_page(latched) {
                self.resident.record_page_access(&page, PageAccess::Whole);
                let old = page.bytes();
                let lines = changed_lines(old, new.bytes(), original);
                let head = std::slice::from_ref(&(0..LINE_BYTES));
                let images = if is_unused(old) { head } else { &lines[..] };
                for range in images {
                    record.push_image(id, range, old);
                }
                changed.push((page, new, lines));
            }
        }
        for changes in all_changes {
            record.push_open(&changes.records);
        }
        let end = Lsn(self.next.load(Ordering::SeqCst));
        store.begin(record, end)?;
        let mut edits: Vec<_> = changed
            .iter_mut()
            .map(|(page, new, lines)| {
                let new = new.bytes();
                Edit { page, new, lines }
            })
            .collect();
        if !edits.is_empty() {
            self.resident.source.store(0, &mut edits)?;
        }
        store.finish()?;
        self.end.store(end.0, Ordering::SeqCst);
        self.room.store(store.room(), Ordering::Relaxed);
        Ok(())
    }
}

/// Whether a record has only changes of pages.
fn is_change_only(record: &[u8]) -> bool {
    matches!(Head::decode(&mut Reader::new(record)), Ok(Head::Change))
}

/// New content of a page of a batch.
enum Changed<'p> {
    /// The copy itself.
    Copy(&'p mut [u8]),
    /// A copy of it, since somebody reads the page.
    Beside(Vec<u8>),
}

impl Changed<'_> {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Self::Copy(copy) => copy,
            Self::Beside(copy) => copy,
        }
    }
}

/// A page that a batch has changed, its new content without the checksum, and the state of the
/// original.
fn changed_page<'p>(
    latched: &'p mut Latched<'_>,
) -> Option<(std::sync::MutexGuard<'p, Page>, Changed<'p>, Original)> {
    match latched {
        Latched::CachePadded(content) => {
            let PageBytes::Copied(page, copy, original) = &mut content.bytes else {
                return None;
            };
            // Nobody else has the lock; it is taken so that both cases give the same.
            let page = &*page;
            Some((unpoisoned(page.lock()), Changed::Copy(copy), *original))
        }
        Latched::Read(content) => {
            let PageBytes::Copied(page, copy, original) = &content.bytes else {
                return None;
            };
            let copy = Changed::Beside(copy.to_vec());
            Some((unpoisoned(page.lock()), copy, *original))
        }
    }
}

/// Whether a page was never in use.
fn is_unused(page: &[u8]) -> bool {
    page[..LINE_BYTES].iter().all(|&byte| byte == 0)
}

/// The lines of a page that a batch stores. The new page gets its checksum.
fn changed_lines(old: &[u8], new: &mut [u8], original: Original) -> Vec<Range<usize>> {
    if is_unused(old) {
        // The rest of the page may be in a cache only.
        header::seal(new);
        return std::iter::once(0..new.len()).collect();
    }
    // The first line has the number of the change.
    let mut lines = std::iter::once(0..LINE_BYTES).collect();
    differing(old, new, 0..old.len(), &mut lines);
    match original {
        Original::Intact => reseal(old, new, &lines),
        Original::Unknown => header::seal(new),
    }
    lines
}

impl<S, D> PageLog for BatchLog<S, D>
where
    S: MemorySource + Send + Sync,
    S::Memory: Send,
    D: Directory,
{
    /// Nothing to replay: an opening undoes the unfinished batch in its pages, and the transactions
    /// that were open.
    fn replay(&self, _redo: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>) -> Result<()> {
        Ok(())
    }

    /// No page is logged whole: a batch has the before images of its lines.
    fn set_image_from(&self, _lsn: Lsn) {}

    fn record_start(&self) -> RecordStart {
        RecordStart {
            image_from: Lsn(0),
            header_bytes: 0,
        }
    }

    fn add_session(&self, session: u32) -> Result<()> {
        self.changes(session).map(|_| ())
    }

    fn enter(&self, session: u32) -> Result<()> {
        loop {
            self.require()?;
            if self.is_closing.load(Ordering::SeqCst) {
                let mut turn = lock(&self.turn);
                while self.is_closing.load(Ordering::SeqCst) {
                    turn = self.wait_turn(turn);
                }
            }
            let changes = &mut *lock(self.changes(session)?);
            // `is_closing` is set before these changes are examined.
            if !self.is_closing.load(Ordering::SeqCst) {
                changes.opened_by = Some(thread::current().id());
                changes.is_slow = false;
                return Ok(());
            }
        }
    }

    fn leave(&self, session: u32) {
        if let Ok(changes) = self.changes(session) {
            lock(changes).opened_by = None;
        }
        if self.is_closing.load(Ordering::SeqCst) {
            let _turn = lock(&self.turn);
            self.turned.notify_all();
        }
    }

    /// Closes the batch if no more images of pages have room. All other room of a rollback is
    /// reserved; but pages whose batch was closed meanwhile need another image each.
    fn make_way(&self) -> Result<()> {
        match self.make_room(0, (0, 0)) {
            Err(error) if error.is_statement_error() => {
                self.close_to(Lsn(self.next.load(Ordering::SeqCst) - 1))
            }
            result => result,
        }
    }

    fn append(&self, reserve: UndoSpace, record: NewRecord<'_>) -> Result<Option<Lsn>> {
        let nothing: &mut ApplyRecord<'_> = &mut |_, _| Ok(());
        self.append_applying(reserve, record, (0, nothing))
            .map(Some)
    }

    fn append_applying(
        &self,
        reserve: UndoSpace,
        record: NewRecord<'_>,
        (pages, apply): (usize, &mut ApplyRecord<'_>),
    ) -> Result<Lsn> {
        self.require()?;
        let session = reserve.session();
        let changes = &mut *lock_log(self.changes(session)?);
        if let UndoSpace::Bytes(_, bytes) = reserve {
            if pages > 0 {
                self.make_room(pages as u64, (changes.claim, bytes))?;
            }
            self.claim(changes, bytes);
        }
        let lsn = Lsn(self.next.fetch_add(1, Ordering::SeqCst));
        let known = changes.changed.len();
        let applied = apply(lsn, &mut changes.changed);
        let new = (changes.changed.len() - known) as u64;
        debug_assert!(
            new <= pages as u64,
            "a record changes more pages than there is room for"
        );
        if new > 0 {
            self.changed_pages.fetch_add(new, Ordering::Relaxed);
        }
        applied.map_err(|error| self.failure.note(error))?;
        if matches!(reserve, UndoSpace::End(_)) {
            self.forget(changes);
        } else if !is_change_only(record.payload()) {
            frame_open(session, record.payload(), &mut changes.records);
        }
        Ok(lsn)
    }

    fn end(&self, session: u32) {
        if let Ok(changes) = self.changes(session) {
            self.forget(&mut lock_log(changes));
        }
    }

    fn flush_to(&self, lsn: Lsn) -> Result<()> {
        let newest = self.next.load(Ordering::SeqCst).saturating_sub(1);
        self.close_to(lsn.min(Lsn(newest)))
    }

    fn flush(&self) -> Result<()> {
        self.flush_to(Lsn(u64::MAX))
    }

    fn is_full(&self) -> bool {
        let pages = self.changed_pages.load(Ordering::Relaxed);
        let room = self.room.load(Ordering::Relaxed);
        pages * (self.page_bytes + IMAGE_BYTES) * DUE_DENOMINATOR >= room * DUE_NUMERATOR
    }

    fn synced(&self) -> Lsn {
        Lsn(self.synced.load(Ordering::SeqCst))
    }

    fn begin_checkpoint(&self) -> Result<CheckpointStart> {
        self.flush()?;
        if lock(&self.store).is_due() {
            // Nothing is appended, and yet there is a record that must not be found any more.
            self.next.fetch_add(1, Ordering::SeqCst);
            self.flush()?;
        }
        let lsn = Lsn(self.end.load(Ordering::SeqCst));
        Ok(CheckpointStart {
            redo: lsn,
            log: LogStart {
                segment: LogStart::NEW.segment,
                lsn,
            },
        })
    }

    fn end_checkpoint(&self, _start: LogStart) -> Result<()> {
        Ok(())
    }

    /// Nothing gathers that a checkpoint would end.
    fn checkpoint_need(&self, _due: u64, _urgent: u64) -> CheckpointNeed {
        CheckpointNeed::None
    }

    fn close(&self) -> Result<()> {
        self.flush()
    }

    fn verify(&self) -> Result<()> {
        lock(&self.store).verify()
    }

    fn bytes(&self) -> u64 {
        lock(&self.store).bytes()
    }

    fn disk(&self) -> DiskCounters {
        lock(&self.files).counters()
    }

    fn memory(&self) -> Counters {
        lock(&self.store).counters()
    }

    fn require_sound(&self) -> Result<()> {
        self.failure.require_none()
    }

    fn refuse(&self, error: &StorageError) {
        self.failure.note_of(error);
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
#[path = "batch_log_tests.rs"]
mod tests;
