//! The clock that finds frames for pages, and the writes of dirty pages from their frames.
//!
//! Replacement is a clock: the hand takes the first frame that was not touched since it last
//! passed. A page counts as touched from its second use on, so a scan, which uses each page once,
//! occupies few frames and leaves the rest alone.
//!
//! A page cleaner, where there is one, writes dirty pages ahead of the hand, and a thread that
//! needs a frame passes dirty ones for a while (`cleaner`). Then it writes a batch itself, or waits
//! for the one that is being written; threads that find a clean frame meanwhile do not wait. When
//! every frame is latched, a thread that needs one waits a moment: a latch is held for one step of
//! an operation.
//!
//! Invariants:
//! 1. The table's entry of a page names the frame that holds it, or no frame holds it. Entries
//!    change only with the frame's latch held for writing.
//! 2. A page is written to the file only after the log up to its last change is durable.
//! 3. A frame is clean only if the file has its bytes, written though perhaps not synced.

use super::cleaner::Cleaner;
use super::frame::{Content, FETCHED, Frame, PageBytes, PageTable, unpoisoned};
use super::frames::{Below, Written};
use super::write_back::{BatchSync, SessionWrites, WriteBack};
use crate::page::header;
use crate::page::{Header, PageId};
use disk::Directory;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::Duration;
use storage::{Result, StorageError};

/// Most pages that are written together when a frame is needed.
const BATCH_PAGES: usize = 64;
/// Times that the hand goes around before a thread that needs a frame waits for others.
const ROUNDS_MAX: usize = 4;
/// Time that it waits before it reports a full pool, and pause before each try.
pub(super) const FULL_WAIT: Duration = Duration::from_millis(200);
const FULL_PAUSE: Duration = Duration::from_micros(200);
/// The cleaner examines the frames that the hand reaches next: one in this many, within these
/// bounds.
const AHEAD_SHARE: usize = 8;
pub(super) const AHEAD_MIN: usize = 32;
const AHEAD_MAX: usize = 8192;
/// For single-page writes by sessions: interval of the cleaner, the frames that it examines, and
/// the dirty ones that a session passes. As in `InnoDB` 5.6 (`innodb_lru_scan_depth`,
/// `BUF_LRU_SEARCH_SCAN_THRESHOLD`).
const SINGLES_PAUSE: Duration = Duration::from_secs(1);
const SINGLES_AHEAD: usize = 1024;
const SINGLES_SCAN: usize = 100;
/// The frames, and which pages they have.
pub(super) struct Replacement<D: Directory> {
    pub(super) below: Arc<Below<D>>,
    pub(super) frames: Box<[Frame]>,
    pub(super) table: PageTable,
    clock: Mutex<Clock>,
    /// The batch of the thread that writes pages because frames are needed, one at a time.
    writing: Mutex<Batch>,
    /// Position of the hand, for the cleaner.
    pub(super) hand: AtomicUsize,
    pub(super) cleaner: Cleaner,
}

/// Position of the clock that finds frames.
struct Clock {
    hand: usize,
    /// Frames that it has gone by since the cleaner was woken.
    moved: usize,
}

/// Result of a search for a frame.
enum Found<'p> {
    /// One without a page.
    Free(usize, RwLockWriteGuard<'p, Content>),
    /// One whose page has to be written first, without the clock.
    Dirty(usize),
    /// All are latched.
    Nothing,
}

/// Pages on their way to the file.
#[derive(Default)]
struct Batch {
    ids: Vec<PageId>,
    bytes: Vec<u8>,
}

/// A page that is to be written, and that nobody changes meanwhile.
struct Latched<'p> {
    id: PageId,
    number: usize,
    content: RwLockReadGuard<'p, Content>,
}

impl<D: Directory> Replacement<D> {
    /// Frames over these buffers, without pages.
    pub(super) fn new(below: Arc<Below<D>>, buffers: impl Iterator<Item = PageBytes>) -> Self {
        Self {
            below,
            frames: buffers.map(Frame::new).collect(),
            table: PageTable::new(),
            clock: Mutex::new(Clock { hand: 0, moved: 0 }),
            writing: Mutex::default(),
            hand: AtomicUsize::new(0),
            cleaner: Cleaner::new(),
        }
    }

    #[inline]
    pub(super) fn frame(&self, number: usize) -> &Frame {
        &self.frames[number]
    }

    fn clock(&self) -> MutexGuard<'_, Clock> {
        unpoisoned(self.clock.lock())
    }

    /// Gives a page a frame, with any content and this use count; none if it has one by now.
    pub(super) fn take(
        &self,
        id: PageId,
        uses: u8,
    ) -> Result<Option<(usize, RwLockWriteGuard<'_, Content>)>> {
        let (mut waited, mut written) = (Duration::ZERO, None);
        let (mut clock, (number, mut content)) = loop {
            let mut clock = self.clock();
            if self.table.get(id).is_some() {
                return Ok(None);
            }
            let cleaned = written.take().and_then(|number| self.take_frame(number));
            let found = match cleaned {
                Some(found) => found,
                None => self.free_frame(&mut clock),
            };
            // Threads that hold latches may need a frame too before they release them.
            match found {
                Found::Free(number, content) => break (clock, (number, content)),
                Found::Dirty(number) => {
                    drop(clock);
                    if self.write_from(number)? {
                        written = Some(number);
                        continue;
                    }
                }
                Found::Nothing => drop(clock),
            }
            if waited >= FULL_WAIT {
                return Err(StorageError::Unsupported(format!(
                    "all {} pages of the buffer pool are in use at once; give the database a larger one",
                    self.frames.len()
                )));
            }
            std::thread::sleep(FULL_PAUSE);
            waited += FULL_PAUSE;
        };
        assert!(
            content.page.is_none() && !self.frames[number].dirty.load(Ordering::Relaxed),
            "a frame is taken that has a page, or changes that the file has not"
        );
        self.frames[number].uses.store(uses, Ordering::Relaxed);
        content.page = Some(id);
        self.table.set(id, number);
        self.note_hand(&mut clock);
        // Others that want the page wait for its latch, and nobody waits for the clock.
        drop(clock);
        Ok(Some((number, content)))
    }

    /// Takes the frame, which could not be filled, from its page.
    pub(super) fn give_back(&self, id: PageId, content: &mut Content) {
        debug_assert_eq!(content.page, Some(id), "a frame has another page");
        self.table.clear(id);
        content.page = None;
    }

    /// A frame without a page, if there is one now.
    fn free_frame(&self, clock: &mut Clock) -> Found<'_> {
        let mut left_to_cleaner = match self.session_writes() {
            _ if !self.cleaner.is_present() => 0,
            SessionWrites::Single => SINGLES_SCAN,
            SessionWrites::Batch => self.frames_ahead(),
        };
        for _ in 0..self.frames.len() * ROUNDS_MAX {
            let number = clock.hand;
            clock.hand = (number + 1) % self.frames.len();
            clock.moved += 1;
            let frame = &self.frames[number];
            let uses = frame.uses.load(Ordering::Relaxed);
            if uses > 0 && uses != FETCHED {
                frame.uses.store(uses - 1, Ordering::Relaxed);
                continue;
            }
            if frame.dirty.load(Ordering::Relaxed) {
                if left_to_cleaner > 0 {
                    left_to_cleaner -= 1;
                    continue;
                }
                // A latched frame is skipped: others may be free sooner.
                if frame.latch.try_read().is_ok() {
                    return Found::Dirty(number);
                }
            } else if let Some(found) = self.take_frame(number) {
                return found;
            }
        }
        Found::Nothing
    }

    /// Takes the page out of a frame that is clean, unless its latch is held.
    fn take_frame(&self, number: usize) -> Option<Found<'_>> {
        let frame = &self.frames[number];
        let mut content = frame.latch.try_write().ok()?;
        if frame.dirty.load(Ordering::Relaxed) {
            return None;
        }
        if let Some(old) = content.page.take() {
            self.table.clear(old);
        }
        Some(Found::Free(number, content))
    }

    /// Writes the page of a frame, with others where pages go in batches. Says whether any page was
    /// written, by whomever.
    fn write_from(&self, number: usize) -> Result<bool> {
        if self.session_writes() == SessionWrites::Single {
            return self.write_single(number);
        }
        match self.writing.try_lock() {
            Ok(mut batch) => self.write_out(&mut batch, number),
            Err(TryLockError::Poisoned(batch)) => self.write_out(&mut batch.into_inner(), number),
            // The batch of the other writer frees frames for many.
            Err(TryLockError::WouldBlock) => {
                drop(unpoisoned(self.writing.lock()));
                Ok(true)
            }
        }
    }

    /// Writes one dirty page by itself; returns whether it is clean then, which it is not if its
    /// latch is held.
    fn write_single(&self, number: usize) -> Result<bool> {
        let Ok(content) = self.frames[number].latch.try_read() else {
            return Ok(false);
        };
        if let Some(page) = self.dirty_page(number, content) {
            self.below.failure.require_none()?;
            let mut bytes = page.content.bytes.to_vec();
            header::seal_whole(&mut bytes);
            debug_assert!(
                Header(&bytes).is_intact(page.id),
                "a frame has another page than its content"
            );
            self.below
                .written(self.below.log.flush_to(Header(&bytes).lsn()))?;
            self.below
                .written(self.write_back().write_single(page.id, &bytes))?;
            // Still latched, so nobody has changed it since it was copied.
            self.frames[number].dirty.store(false, Ordering::Relaxed);
        }
        Ok(true)
    }

    /// Frames ahead of the hand that the cleaner examines.
    fn frames_ahead(&self) -> usize {
        let most = match self.session_writes() {
            SessionWrites::Single => SINGLES_AHEAD,
            SessionWrites::Batch => AHEAD_MAX,
        };
        (self.frames.len() / AHEAD_SHARE).clamp(AHEAD_MIN, most)
    }

    /// Lets the cleaner go on where the hand has moved enough.
    fn note_hand(&self, clock: &mut Clock) {
        self.hand.store(clock.hand, Ordering::Relaxed);
        if clock.moved >= BATCH_PAGES.min(self.frames_ahead() / 2) {
            clock.moved = 0;
            self.cleaner.wake();
        }
    }

    /// Writes dirty pages ahead of the hand, whenever it has moved, until
    /// [`Replacement::end_cleaning`]. A full disk ends it too: the session that needs a frame meets
    /// it again.
    ///
    /// # Errors
    /// A failed write or sync, after which it is unknown what is durable of the pages.
    pub(super) fn clean(&self) -> Result<()> {
        let present = self.cleaner.begin();
        while present.next() {
            if self.session_writes() == SessionWrites::Single {
                present.pause(SINGLES_PAUSE);
            }
            let hand = self.hand.load(Ordering::Relaxed);
            let is_next = |number: &usize| {
                let frame = &self.frames[*number];
                frame.dirty.load(Ordering::Relaxed) && frame.uses.load(Ordering::Relaxed) == 0
            };
            let ahead = (hand..self.frames.len()).chain(0..hand);
            let dirty: Vec<usize> = ahead.take(self.frames_ahead()).filter(is_next).collect();
            for numbers in dirty.chunks(BATCH_PAGES) {
                self.write_back().await_room(numbers.len());
                let mut batch = unpoisoned(self.writing.lock());
                let latched = numbers.iter().filter_map(|&number| {
                    let content = self.frames[number].latch.try_read().ok()?;
                    self.dirty_page(number, content)
                });
                let pages = latched.collect();
                match self.write_latched(&mut batch, pages) {
                    Err(error) if error.is_statement_error() => return Ok(()),
                    written => written?,
                }
                drop(batch);
                self.write_back().sync_ahead()?;
            }
        }
        Ok(())
    }

    /// Lets [`Replacement::clean`] return.
    pub(super) fn end_cleaning(&self) {
        self.cleaner.end();
    }

    /// Writes dirty pages from a frame on, as many as go together, without those whose latches are
    /// held. Says whether there were any.
    fn write_out(&self, batch: &mut Batch, from: usize) -> Result<bool> {
        self.write_back().await_room(BATCH_PAGES);
        let frames = self.frames.len();
        let dirty = (from..frames)
            .chain(0..from)
            .filter(|&number| self.frames[number].dirty.load(Ordering::Relaxed))
            .take(BATCH_PAGES)
            .filter_map(|number| {
                let content = self.frames[number].latch.try_read().ok()?;
                self.dirty_page(number, content)
            });
        let pages: Vec<_> = dirty.collect();
        let is_any = !pages.is_empty();
        self.write_latched(batch, pages)?;
        Ok(is_any)
    }

    /// Writes every page that has a change which the log has now; see
    /// [`Pool::write_all_by`](super::Pool::write_all_by).
    pub(super) fn write_all(&self, written: &mut Written<'_>) -> Result<()> {
        let batch = &mut Batch::default();
        let all: Vec<usize> = (0..self.frames.len()).collect();
        // Where a batch has syncs, many pages share them; else a thread that needs one of the pages
        // waits for few others, and a sync of the log for little else.
        let batch_sync = self.write_back().batch_sync();
        let at_once = if batch_sync == BatchSync::Shared || !self.cleaner.is_present() {
            4 * BATCH_PAGES
        } else {
            BATCH_PAGES / 2
        };
        for (numbers, part) in all.chunks(at_once).zip(1_usize..) {
            let is_dirty = |number: &usize| self.frames[*number].dirty.load(Ordering::Relaxed);
            let has_pages = numbers.iter().any(is_dirty);
            if has_pages {
                self.write_back().await_room(numbers.len());
            }
            let (mut busy, mut latched) = (Vec::new(), Vec::new());
            for &number in numbers {
                match self.frames[number].latch.try_read() {
                    Ok(content) => latched.extend(self.dirty_page(number, content)),
                    Err(_) => busy.push(number),
                }
            }
            self.write_latched(batch, latched)?;
            for number in busy {
                let content = unpoisoned(self.frames[number].latch.read());
                let latched = self.dirty_page(number, content);
                self.write_latched(batch, latched.into_iter().collect())?;
            }
            if has_pages {
                written(all.len().min(part * at_once), all.len())?;
            }
        }
        Ok(())
    }

    /// The page of a frame if it has to be written.
    fn dirty_page<'p>(
        &self,
        number: usize,
        content: RwLockReadGuard<'p, Content>,
    ) -> Option<Latched<'p>> {
        let is_dirty = self.frames[number].dirty.load(Ordering::Relaxed);
        let id = content.page.filter(|_| is_dirty)?;
        Some(Latched {
            id,
            number,
            content,
        })
    }

    /// Writes dirty pages that are latched.
    fn write_latched(&self, batch: &mut Batch, mut pages: Vec<Latched<'_>>) -> Result<()> {
        pages.sort_unstable_by_key(|page| page.id);
        batch.ids.clear();
        batch.bytes.clear();
        let mut newest = None;
        for Latched { id, content, .. } in &pages {
            let start = batch.bytes.len();
            batch.ids.push(*id);
            batch.bytes.extend_from_slice(&content.bytes);
            newest = newest.max(Some(Header(&content.bytes).lsn()));
            header::seal_whole(&mut batch.bytes[start..]);
            debug_assert!(
                Header(&batch.bytes[start..]).is_intact(*id),
                "a frame has another page than its content"
            );
        }
        debug_assert!(
            batch.ids.is_sorted_by(|one, next| one < next),
            "a page has two frames"
        );
        if let Some(lsn) = newest {
            self.below.failure.require_none()?;
            self.below.written(self.below.log.flush_to(lsn))?;
            debug_assert!(
                self.below.log.synced() > lsn,
                "a page is written before its last record is durable"
            );
            let Batch { ids, bytes } = &*batch;
            // Where pages stay in an area its own locks do: extending the file waits for no batch.
            let put = self.below.written(self.write_back().put(ids, bytes))?;
            if !put {
                self.below.written(self.below.file().write(ids, bytes))?;
            }
        }
        for Latched {
            number, content, ..
        } in pages
        {
            // Still latched, so nobody has changed it since it was copied.
            self.frames[number].dirty.store(false, Ordering::Relaxed);
            drop(content);
        }
        Ok(())
    }

    fn write_back(&self) -> &dyn WriteBack<D::File> {
        self.below.readers.write_back()
    }

    fn session_writes(&self) -> SessionWrites {
        self.write_back().session_writes()
    }
}
