//! The buffer pool: a fixed number of frames, each with a page behind a latch.
//!
//! A page is found through an array with one entry for each page, which names the frame; the frame
//! shows whether that is still right. So a hit is one load and one latch, without a lock that all
//! share. A guard is the latch itself, and a frame whose latch is held is never taken away; there
//! are no pins to forget.
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
use super::fetcher::Fetcher;
use super::file::{PageFile, PageReaders};
use super::frame::{Content, FETCHED, Frame, NOT_HERE, Original, PageBytes, PageTable, unpoisoned};
use super::home::{CHECKED, Home, Unusable};
use super::images::Images;
use super::log::PageLog;
use super::nv_pages::Edit;
use super::page_access::PageAccess;
use super::pending_redo::{DeferredRedo, NeededRedo, PendingRedo};
use crate::error::{Result, StorageError};
use crate::failure::Failure;
use crate::log::Lsn;
use crate::page::header::{self, HEADER_BYTES};
use crate::page::{Header, PageId};
use disk::{Directory, DiskError};
use pmem::{Buffers, Page};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::Duration;

/// Fewest frames of a pool.
pub const FRAMES_MIN: usize = 64;
/// Most pages that are written together when a frame is needed.
const BATCH_PAGES: usize = 64;
/// Times that the hand goes around before a thread that needs a frame waits for others.
const ROUNDS_MAX: usize = 4;
/// Time that it waits before it reports a full pool, and pause before each try.
const FULL_WAIT: Duration = Duration::from_millis(200);
const FULL_PAUSE: Duration = Duration::from_micros(200);
/// The cleaner examines the frames that the hand reaches next: one in this many, within these
/// bounds.
const AHEAD_SHARE: usize = 8;
const AHEAD_MIN: usize = 32;
const AHEAD_MAX: usize = 8192;
/// For single-page writes by sessions: interval of the cleaner, the frames that it examines, and
/// the dirty ones that a session passes. As in `InnoDB` 5.6 (`innodb_lru_scan_depth`,
/// `BUF_LRU_SEARCH_SCAN_THRESHOLD`).
const SINGLES_PAUSE: Duration = Duration::from_secs(1);
const SINGLES_AHEAD: usize = 1024;
const SINGLES_SCAN: usize = 100;
/// Lines of a page that are prefetched with its latch: its header and its first slots.
const LINES_AHEAD: usize = 2;
const END_IN_FRONT: &str = "the file ends in front of a page that is in use";
const WRONG_PAGE: &str = "the page's checksum or number is wrong";

/// The frames of one partition.
pub struct Pool<D: Directory> {
    frames: Box<[Frame]>,
    buffers: Buffers,
    table: PageTable,
    clock: Mutex<Clock>,
    /// The batch of the thread that writes pages because frames are needed, one at a time.
    writing: Mutex<Batch>,
    /// Position of the hand, for the cleaner.
    hand: AtomicUsize,
    cleaner: Cleaner,
    fetcher: Fetcher,
    file: Mutex<PageFile<D>>,
    readers: PageReaders<D::File>,
    log: Box<dyn PageLog>,
    /// Of a write of pages, or any other durable step of the partition.
    failure: Failure,
    images: Images,
    /// Deferred redo of pages without a frame, done when a page is brought into one.
    deferred: DeferredRedo,
    page_bytes: usize,
    /// The pages themselves, if they lie in durable memory: then no other frame is used.
    home: Option<Arc<Home>>,
}

/// Position of the clock that finds frames.
struct Clock {
    hand: usize,
    /// Frames that it has gone by since the cleaner was woken.
    moved: usize,
}

/// Content that a frame gets with a new page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    /// The page of the file, which has to be intact.
    Read,
    /// The same, prefetched for a later reader.
    Fetch,
    /// The page of the file if that is intact, else zeros.
    Recover,
    /// Zeros.
    Blank,
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

/// A page that nobody changes while the guard lives. Readers report each access through `account`.
pub struct ReadGuard<'p> {
    content: RwLockReadGuard<'p, Content>,
    /// Where loads are accounted for.
    meter: Option<&'p Home>,
}

impl ReadGuard<'_> {
    /// The page's number; none if it is being given up.
    #[inline]
    pub fn id(&self) -> Option<PageId> {
        self.content.page
    }

    /// The page.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.content.bytes
    }

    /// Accounts for what has been read of it.
    #[inline]
    pub fn account(&self, look: PageAccess<'_>) {
        if let Some(home) = self.meter {
            home.account(&self.content.bytes, look);
        }
    }
}

/// Lines that a latched page in durable memory gets.
pub struct NewLines<'g, 'p> {
    /// The page.
    pub guard: &'g mut WriteGuard<'p>,
    /// Its new content, sealed.
    pub new: &'g [u8],
    /// Ranges that differ, in whole lines.
    pub lines: &'g [Range<usize>],
}

/// A page that nobody else sees while the guard lives. Readers report each access through
/// `account`.
pub struct WriteGuard<'p> {
    content: RwLockWriteGuard<'p, Content>,
    frame: &'p Frame,
    id: PageId,
    /// Where loads are accounted for.
    meter: Option<&'p Home>,
}

impl<'p> WriteGuard<'p> {
    #[inline]
    fn new(
        content: RwLockWriteGuard<'p, Content>,
        frame: &'p Frame,
        id: PageId,
        meter: Option<&'p Home>,
    ) -> Self {
        Self {
            content,
            frame,
            id,
            meter,
        }
    }

    /// The page's number.
    pub fn id(&self) -> PageId {
        self.id
    }

    /// The page.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.content.bytes
    }

    /// Accounts for what has been read of it.
    #[inline]
    pub fn account(&self, look: PageAccess<'_>) {
        if let Some(home) = self.meter {
            home.account(&self.content.bytes, look);
        }
    }

    /// The page, to change what the log has.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.frame.dirty.store(true, Ordering::Relaxed);
        self.content.bytes.buffer()
    }

    /// A copy of a page in durable memory, to change what the log has, and whether this change is
    /// the first of its batch.
    pub fn copy_mut(&mut self, home: &Home) -> (&mut [u8], bool) {
        self.account(PageAccess::Whole);
        let original = match self.frame.uses.swap(CHECKED, Ordering::Relaxed) {
            CHECKED => Original::Intact,
            _ => Original::Unknown,
        };
        self.content.bytes.copy(home, original);
        let is_first = !self.frame.dirty.swap(true, Ordering::Relaxed);
        (self.content.bytes.buffer(), is_first)
    }

    /// The page in durable memory, if it is there.
    fn page_mut(&mut self) -> Option<&mut Page> {
        match &mut self.content.bytes {
            PageBytes::Memory(page) => Some(page),
            _ => None,
        }
    }

    /// Lets the page's frame go first: it is not in use any more. It is written all the same if it
    /// is dirty, since a checkpoint may begin before the record that gives the page up, and a power
    /// cut may lose that record.
    pub fn give_up(&mut self) {
        if matches!(self.content.bytes, PageBytes::Buffer(_)) {
            self.frame.uses.store(0, Ordering::Relaxed);
        }
    }

    /// Lets others read it.
    pub fn downgrade(self) -> ReadGuard<'p> {
        ReadGuard {
            content: RwLockWriteGuard::downgrade(self.content),
            meter: self.meter,
        }
    }
}

impl<D: Directory> Pool<D> {
    /// A pool of about `bytes`.
    pub fn new(file: PageFile<D>, log: Box<dyn PageLog>, bytes: u64) -> Result<Self> {
        let page_bytes = file.page_bytes();
        let frames = (bytes / page_bytes as u64).clamp(FRAMES_MIN as u64, u64::from(NOT_HERE - 1));
        let (buffers, frames) = Buffers::new(page_bytes, frames as usize)?;
        let frames = frames.into_iter().map(PageBytes::Buffer);
        Ok(Self {
            frames: frames.map(Frame::new).collect(),
            buffers,
            table: PageTable::new(),
            clock: Mutex::new(Clock { hand: 0, moved: 0 }),
            writing: Mutex::default(),
            hand: AtomicUsize::new(0),
            cleaner: Cleaner::new(),
            fetcher: Fetcher::new(),
            readers: file.readers()?,
            file: Mutex::new(file),
            log,
            failure: Failure::default(),
            images: Images::default(),
            deferred: DeferredRedo::default(),
            page_bytes,
            home: None,
        })
    }

    /// The pages of a memory, without a copy of any.
    pub fn in_memory(file: PageFile<D>, log: Box<dyn PageLog>, home: Arc<Home>) -> Result<Self> {
        let mut pool = Self::new(file, log, 0)?;
        pool.home = Some(home);
        Ok(pool)
    }

    /// The pages, if they lie in durable memory.
    pub fn home(&self) -> Option<&Home> {
        self.home.as_deref()
    }

    /// The failure that stops the partition.
    pub(crate) fn failure(&self) -> &Failure {
        &self.failure
    }

    /// Notes that a write of pages has failed: it is unknown what is durable of them. A full disk
    /// is no such failure, as nothing was replaced.
    fn written<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            if error.is_statement_error() {
                return error;
            }
            self.failure.note(error)
        })
    }

    /// Makes room for more pages, at least for `pages` in all.
    pub fn grow(&self, pages: u32) -> Result<()> {
        let mut file = self.file();
        match &self.home {
            None => match file.grow(pages) {
                Err(StorageError::Disk(DiskError::OutOfSpace { .. }))
                    if self.log.give_up_spares()? =>
                {
                    file.grow(pages)
                }
                grown => grown,
            },
            Some(home) if pages > file.pages() => {
                let end = home.grow(file.pages(), pages)?;
                file.set_pages(end);
                Ok(())
            }
            Some(_) => Ok(()),
        }
    }

    /// Whether a page is intact on the medium, where everything has been written.
    pub fn is_intact(&self, id: PageId) -> Result<bool> {
        if self.home.is_some() {
            let mut page = self.blank(id)?;
            if !page.frame.dirty.load(Ordering::Relaxed) {
                page.content.bytes.give_up_copy();
            }
            page.account(PageAccess::Whole);
            return Ok(Header(page.bytes()).is_intact(id));
        }
        let mut page = vec![0; self.page_bytes];
        self.readers.read(id, &mut page)
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    /// The log.
    pub fn log(&self) -> &dyn PageLog {
        &*self.log
    }

    /// Lets pages that have not changed since `from` be logged whole; the log may have some that
    /// were.
    pub fn log_images(&self, from: Lsn, has_some: bool) {
        self.log.image_from(from);
        self.images.find(has_some);
    }

    /// Images of pages in the log, as far as they are known.
    pub fn images(&self) -> &Images {
        &self.images
    }

    /// Readers of the file of pages, also usable while it is written.
    pub fn readers(&self) -> &PageReaders<D::File> {
        &self.readers
    }

    /// Says that pages are going to be read soon: those that have no frame are fetched by a device
    /// that can do so meanwhile.
    pub fn will_read(&self, pages: impl Iterator<Item = PageId>) {
        if self.home.is_some() {
            return;
        }
        let mut missing = pages.filter(|&id| self.table.get(id).is_none()).peekable();
        if missing.peek().is_some() {
            if self.fetcher.is_present() {
                self.fetcher.ask(missing);
            } else {
                self.readers.will_read(missing);
            }
        }
    }

    /// Brings pages into frames that are going to be read soon, until [`Pool::end_fetching`].
    pub fn fetch(&self) {
        while let Some(id) = self.fetcher.next() {
            if self.table.get(id).is_none() {
                // A reader of the page meets the error again.
                let _ = self.load(id, Fill::Fetch);
            }
        }
    }

    /// Lets [`Pool::fetch`] return.
    pub fn end_fetching(&self) {
        self.fetcher.end();
    }

    /// The file of pages, to write it or to say what is wrong with it.
    pub fn file(&self) -> MutexGuard<'_, PageFile<D>> {
        unpoisoned(self.file.lock())
    }

    fn clock(&self) -> MutexGuard<'_, Clock> {
        unpoisoned(self.clock.lock())
    }

    /// The page, for reading.
    #[inline]
    pub fn read(&self, id: PageId) -> Result<ReadGuard<'_>> {
        if let Some(home) = &self.home {
            let content = home.read(id).map_err(|why| self.unusable(id, why))?;
            let meter = home.meter();
            return Ok(ReadGuard { content, meter });
        }
        loop {
            let Some(number) = self.table.get(id) else {
                return self.load(id, Fill::Read).map(WriteGuard::downgrade);
            };
            // The page and its latch are two misses; one need not wait for the other.
            self.buffers.prefetch(number, LINES_AHEAD);
            let frame = &self.frames[number];
            let content = unpoisoned(frame.latch.read());
            if content.page == Some(id) {
                frame.touch();
                let meter = None;
                return Ok(ReadGuard { content, meter });
            }
        }
    }

    /// The page, for changing.
    #[inline]
    pub fn write(&self, id: PageId) -> Result<WriteGuard<'_>> {
        self.write_or_load(id, Fill::Read)
    }

    #[inline]
    fn write_or_load(&self, id: PageId, fill: Fill) -> Result<WriteGuard<'_>> {
        if let Some(home) = &self.home {
            let found = home.write(id, fill == Fill::Blank);
            let (content, frame) = found.map_err(|why| self.unusable(id, why))?;
            let meter = home.meter();
            return Ok(WriteGuard::new(content, frame, id, meter));
        }
        loop {
            let Some(number) = self.table.get(id) else {
                return self.load(id, fill);
            };
            self.buffers.prefetch(number, LINES_AHEAD);
            let frame = &self.frames[number];
            let content = unpoisoned(frame.latch.write());
            if content.page == Some(id) {
                frame.touch();
                return Ok(WriteGuard::new(content, frame, id, None));
            }
        }
    }

    #[cold]
    fn unusable(&self, id: PageId, why: Unusable) -> StorageError {
        let text = match why {
            Unusable::Missing => END_IN_FRONT,
            Unusable::Damaged => WRONG_PAGE,
        };
        self.file().damage(id, text)
    }

    /// Changes lines of latched pages that lie in durable memory, durable when it returns.
    pub fn store<'g, 'p: 'g>(
        &self,
        session: u32,
        changes: impl Iterator<Item = NewLines<'g, 'p>>,
    ) -> Result<()> {
        let Some(home) = &self.home else {
            return Err(StorageError::Poisoned);
        };
        let edits = changes.filter_map(|NewLines { guard, new, lines }| {
            // If this fails, nobody uses it any more.
            guard.frame.uses.store(CHECKED, Ordering::Relaxed);
            let page = guard.page_mut()?;
            Some(Edit { page, new, lines })
        });
        home.source.store(session, &mut edits.collect::<Vec<_>>())
    }

    /// A page whose content does not matter: it is to be formatted, or brought back from the log.
    pub fn blank(&self, id: PageId) -> Result<WriteGuard<'_>> {
        self.write_or_load(id, Fill::Blank)
    }

    /// The page for recovery, and whether it is intact. If it is not, its bytes are zeros: the log
    /// has to restore it whole. If that is what the log does in any case, the page is not read.
    pub fn recover(&self, id: PageId, is_brought_back: bool) -> Result<(WriteGuard<'_>, bool)> {
        let fill = if is_brought_back {
            Fill::Blank
        } else {
            Fill::Recover
        };
        let page = self.write_or_load(id, fill)?;
        let is_intact = page.bytes()[..HEADER_BYTES] != [0; HEADER_BYTES];
        Ok((page, is_intact))
    }

    /// Takes a frame for a page and fills it.
    #[cold]
    fn load(&self, id: PageId, fill: Fill) -> Result<WriteGuard<'_>> {
        // The table has room for pages of the file only: a wrong number must not make it larger.
        if id.0 >= self.readers.pages() {
            return Err(self.file().damage(id, END_IN_FRONT));
        }
        let (mut waited, mut written) = (Duration::ZERO, None);
        let (mut clock, (number, mut content)) = loop {
            let mut clock = self.clock();
            if self.table.get(id).is_some() {
                // Another thread was faster.
                drop(clock);
                return self.write_or_load(id, fill);
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
        let frame = &self.frames[number];
        let uses = if fill == Fill::Fetch { FETCHED } else { 0 };
        frame.uses.store(uses, Ordering::Relaxed);
        content.page = Some(id);
        self.table.set(id, number);
        self.note_hand(&mut clock);
        // Others that want the page wait for its latch, and nobody waits for the clock.
        drop(clock);
        match self.fill(id, content.bytes.buffer(), fill) {
            Ok(is_new) => frame.dirty.store(is_new, Ordering::Relaxed),
            Err(error) => {
                self.table.clear(id);
                content.page = None;
                return Err(error);
            }
        }
        Ok(WriteGuard::new(content, frame, id, None))
    }

    /// Lets pages, of which none has a frame, get what they lack when they come into one.
    pub fn set_backlog(&self, pending_redo: Box<dyn PendingRedo>) {
        self.deferred.set(pending_redo);
    }

    /// Whether pages may lack something.
    pub fn is_behind(&self) -> bool {
        self.deferred.is_any()
    }

    /// Repeats what one page lacks. Says whether another one may lack something.
    pub fn catch_up_step(&self) -> Result<bool> {
        if let Some(id) = self.deferred.with(|pending_redo| pending_redo.next()) {
            drop(self.read(id)?);
        } else {
            self.deferred.end();
        }
        Ok(self.is_behind())
    }

    /// Fills the bytes of a page with pending redo; returns whether it has any. Its frame is
    /// latched.
    #[cold]
    fn fill_behind(&self, id: PageId, bytes: &mut [u8]) -> Result<bool> {
        let repeated = self.deferred.with(|pending_redo| {
            let missing = pending_redo.of(id)?;
            Some(self.repeat_missing((pending_redo, missing), id, bytes))
        });
        repeated.map_or(Ok(false), |repeated| repeated.map(|()| true))
    }

    fn repeat_missing(
        &self,
        (pending_redo, missing): (&dyn PendingRedo, NeededRedo),
        id: PageId,
        bytes: &mut [u8],
    ) -> Result<()> {
        let is_intact = missing == NeededRedo::Changes && self.readers.read(id, bytes)?;
        if !is_intact {
            bytes.fill(0);
        }
        let repeated = pending_redo.repeat(id, bytes, is_intact);
        repeated.map_err(|text| self.file().damage(id, &text))
    }

    /// Fills the bytes of a page; returns whether they are newer than the page in the file. Its
    /// frame is latched, so nobody writes it meanwhile.
    fn fill(&self, id: PageId, bytes: &mut [u8], wanted: Fill) -> Result<bool> {
        if self.is_behind() && self.fill_behind(id, bytes)? {
            return Ok(true);
        }
        if wanted == Fill::Blank {
            bytes.fill(0);
            return Ok(false);
        }
        let read = self.readers.read(id, bytes);
        if matches!(read, Ok(true)) {
            return Ok(false);
        }
        if wanted == Fill::Recover {
            read?;
            bytes.fill(0);
            return Ok(false);
        }
        let file = self.file();
        if id.0 >= file.pages() {
            return Err(file.damage(id, END_IN_FRONT));
        }
        read?;
        Err(file.damage(id, WRONG_PAGE))
    }

    /// A frame without a page, if there is one now.
    fn free_frame(&self, clock: &mut Clock) -> Found<'_> {
        let mut left_to_cleaner = match (self.cleaner.is_present(), self.readers.singles()) {
            (true, Some(_)) => SINGLES_SCAN,
            (true, None) => self.frames_ahead(),
            (false, _) => 0,
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

    /// Waits for room where pages are going to be put, which are not latched yet.
    fn await_room(&self, pages: usize) {
        if let Some(cache) = self.readers.cache() {
            cache.await_room(pages);
        }
    }

    /// Writes the page of a frame, with others where pages go in batches. Says whether any page was
    /// written, by whomever.
    fn write_from(&self, number: usize) -> Result<bool> {
        if self.readers.singles().is_some() {
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
        let (Some(singles), Ok(content)) =
            (self.readers.singles(), self.frames[number].latch.try_read())
        else {
            return Ok(false);
        };
        if let Some(page) = self.dirty_page(number, content) {
            self.failure.require_none()?;
            let mut bytes = page.content.bytes.to_vec();
            header::seal_whole(&mut bytes);
            self.written(self.log.flush_to(Header(&bytes).lsn()))?;
            self.written(singles.write(page.id, &bytes))?;
            // Still latched, so nobody has changed it since it was copied.
            self.frames[number].dirty.store(false, Ordering::Relaxed);
        }
        Ok(true)
    }

    /// Frames ahead of the hand that the cleaner examines.
    fn frames_ahead(&self) -> usize {
        let most = match self.readers.singles() {
            Some(_) => SINGLES_AHEAD,
            None => AHEAD_MAX,
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

    /// Writes dirty pages ahead of the hand, whenever it has moved, until [`Pool::end_cleaning`]. A
    /// full disk ends it too: the session that needs a frame meets it again.
    ///
    /// # Errors
    /// A failed write or sync, after which it is unknown what is durable of the pages.
    pub fn clean(&self) -> Result<()> {
        if self.home.is_some() {
            return Ok(());
        }
        let present = self.cleaner.begin();
        while present.next() {
            if self.readers.singles().is_some() {
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
                self.await_room(numbers.len());
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
                self.readers.sync_ahead()?;
            }
        }
        Ok(())
    }

    /// Lets [`Pool::clean`] return.
    pub fn end_cleaning(&self) {
        self.cleaner.end();
    }

    /// Writes dirty pages from a frame on, as many as go together, without those whose latches are
    /// held. Says whether there were any.
    fn write_out(&self, batch: &mut Batch, from: usize) -> Result<bool> {
        self.await_room(BATCH_PAGES);
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

    /// Writes every page that has a change which the log has now, while others go on. It waits for
    /// a held latch, since its holder may have logged a change that the page does not have yet;
    /// never while it holds another one.
    pub fn write_all(&self) -> Result<()> {
        self.write_all_by(&mut |_, _| Ok(()))
    }

    /// The same, and calls `written` after each part of the frames that had pages to write, with
    /// the number of frames visited so far and of all frames.
    pub fn write_all_by(&self, written: &mut dyn FnMut(usize, usize) -> Result<()>) -> Result<()> {
        while self.is_behind() && self.catch_up_step()? {}
        if let Some(home) = &self.home {
            return if home.has_copies() {
                self.log.flush()
            } else {
                Ok(())
            };
        }
        let batch = &mut Batch::default();
        let all: Vec<usize> = (0..self.frames.len()).collect();
        // Where a batch has syncs, many pages share them; else a thread that needs one of the pages
        // waits for few others, and a sync of the log for little else.
        let at_once = if self.readers.have_batches_syncs() || !self.cleaner.is_present() {
            4 * BATCH_PAGES
        } else {
            BATCH_PAGES / 2
        };
        for (numbers, part) in all.chunks(at_once).zip(1_usize..) {
            let is_dirty = |number: &usize| self.frames[*number].dirty.load(Ordering::Relaxed);
            let has_pages = numbers.iter().any(is_dirty);
            if has_pages {
                self.await_room(numbers.len());
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
        }
        if let Some(lsn) = newest {
            self.failure.require_none()?;
            self.written(self.log.flush_to(lsn))?;
            self.written(match self.readers.cache() {
                // Its own locks do: extending the file waits for no batch.
                Some(cache) => cache.put(&batch.ids, &batch.bytes),
                None => self.file().write(&batch.ids, &batch.bytes),
            })?;
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
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
#[path = "pool_tests.rs"]
mod tests;
