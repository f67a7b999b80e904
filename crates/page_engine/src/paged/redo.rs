//! Redo: the logged changes are repeated on every page that does not have them.
//!
//! Changes are collected from the log, as many as there is room for, and repeated page by page in
//! the order of the file: a page is read and written once for all of its changes among these,
//! however small the buffer pool is. The changes of a page depend on no other page, so several
//! threads repeat them where the engine may have threads, and reads of a disk overlap. Or redo is
//! deferred until their pages are brought into frames (`buffer/pending_redo.rs`), if none was
//! repeated before.
//!
//! Invariants:
//! 1. A page that redo reads is written again, even if it had the change: another process may have
//!    written it without making it durable, and the checkpoint that follows says that it is
//!    durable.
//! 2. A page is not read if its first change restores it whole: the log has all later changes.
//! 3. The changes of a page are repeated by one thread, in the order of the log.

use super::space::Pages;
use crate::buffer::{NeededRedo, PendingRedo};
use crate::page::{Head, Header, Misfit, PageId, Section};
use disk::Directory;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, ScopedJoinHandle, scope};
use storage::log::Lsn;
use storage::place::PlaceMap;
use storage::record::{DecodeError, Reader};
use storage::{Result, StorageError};

/// Most threads: more than there are cores, since they wait for reads.
const THREADS_MAX: usize = 8;
/// Pages that a thread takes at once, and that make a thread worth while.
const PAGES_AT_ONCE: usize = 16;
const PAGES_A_THREAD: usize = 64;
/// Room for changes: this share of the buffer pool's, between these bytes.
const POOL_SHARE: u64 = 2;
const ROOM_MIN: u64 = 1 << 20;
const ROOM_MAX: u64 = 64 << 20;

/// Changes of pages that are to be repeated.
pub struct Redo<'p, D: Directory> {
    pages: &'p Pages<D>,
    /// Start of redo.
    from: Lsn,
    has_threads: bool,
    room: usize,
    /// Pages that records may name.
    pages_max: u32,
    /// Whether some were repeated.
    has_begun: bool,
    changes: Changes,
}

/// Changes as the log has them.
#[derive(Default)]
struct Changes {
    /// Sections of records, one after the other.
    bytes: Vec<u8>,
    list: Vec<Repeated>,
}

/// A change that is to be repeated.
struct Repeated {
    page: PageId,
    lsn: Lsn,
    /// Range of its section.
    bytes: Range<usize>,
}

impl Changes {
    fn bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.list)
    }

    fn section(&self, change: &Repeated) -> Result<Section<'_>, String> {
        let section = Section::decode(&mut Reader::new(&self.bytes[change.bytes.clone()]));
        section.map_err(|error| log_damage(change.lsn, &error).to_string())
    }

    /// Repeats some of one page on it.
    fn repeat(
        &self,
        some: &[Repeated],
        page: &mut [u8],
        mut is_intact: bool,
    ) -> Result<(), String> {
        debug_assert!(
            some.is_sorted_by_key(|change| (change.page, change.lsn)),
            "the changes of a page are not in the order of the log"
        );
        for change in some {
            let section = self.section(change)?;
            if !is_intact && !section.is_whole() {
                let text =
                    "the page was torn by a power cut, and neither the log nor a copy has it whole";
                return Err(text.to_owned());
            }
            if is_intact && Header(page).lsn() >= change.lsn {
                continue;
            }
            let repeated = section
                .restore(page)
                .and_then(|()| section.apply(page, change.lsn));
            repeated.map_err(|Misfit| {
                format!("the log record at {} does not fit the page", change.lsn.0)
            })?;
            is_intact = true;
        }
        debug_assert!(
            some.last()
                .is_none_or(|last| Header(page).lsn() >= last.lsn),
            "a page lacks a change that was repeated on it"
        );
        Ok(())
    }
}

/// Changes whose redo is deferred until their pages are brought into frames.
struct Left {
    changes: Changes,
    /// The pages, in their order.
    order: Vec<PageId>,
    /// Ranges of the changes of each page, until they are repeated.
    places: Mutex<PlaceMap<PageId, Range<usize>>>,
    /// The next page.
    next: AtomicUsize,
}

impl Left {
    fn new(changes: Changes) -> Self {
        debug_assert!(
            changes.list.is_sorted_by_key(|change| change.page),
            "the changes are not in the order of their pages"
        );
        let mut places = PlaceMap::default();
        let (mut order, mut from) = (Vec::new(), 0);
        for some in changes.list.chunk_by(|one, next| one.page == next.page) {
            let end = from + some.len();
            places.insert(some[0].page, from..end);
            order.push(some[0].page);
            from = end;
        }
        Self {
            changes,
            order,
            places: Mutex::new(places),
            next: AtomicUsize::new(0),
        }
    }

    fn places(&self) -> MutexGuard<'_, PlaceMap<PageId, Range<usize>>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changes_of(&self, page: PageId) -> Option<&[Repeated]> {
        let place = self.places().get(&page).cloned();
        place.map(|place| &self.changes.list[place])
    }
}

impl PendingRedo for Left {
    fn of(&self, page: PageId) -> Option<NeededRedo> {
        let first = self.changes_of(page)?.first()?;
        let section = self.changes.section(first);
        // A section that cannot be read is an error when it is repeated.
        let is_whole = section.is_ok_and(|section| section.is_whole());
        Some(if is_whole {
            NeededRedo::Whole
        } else {
            NeededRedo::Changes
        })
    }

    fn repeat(&self, page: PageId, bytes: &mut [u8], is_intact: bool) -> Result<(), String> {
        if let Some(some) = self.changes_of(page) {
            self.changes.repeat(some, bytes, is_intact)?;
            self.places().remove(&page);
        }
        Ok(())
    }

    fn next(&self) -> Option<PageId> {
        loop {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            let places = self.places();
            match self.order.get(next) {
                Some(page) if places.contains_key(page) => return Some(*page),
                Some(_) => {}
                None => return places.keys().next().copied(),
            }
        }
    }
}

impl<'p, D: Directory> Redo<'p, D> {
    /// Redo from a position of the log on, over a buffer pool of `buffer_bytes` bytes.
    pub fn new(pages: &'p Pages<D>, from: Lsn, buffer_bytes: u64, has_threads: bool) -> Self {
        let room = (buffer_bytes / POOL_SHARE).clamp(ROOM_MIN, ROOM_MAX) as usize;
        Self {
            pages,
            from,
            has_threads,
            room,
            // Leaves room for the number after the last page.
            pages_max: u32::MAX,
            has_begun: false,
            changes: Changes::default(),
        }
    }

    /// Lets records name this many pages only.
    pub fn limit(&mut self, pages: u32) {
        self.pages_max = pages;
    }

    /// Takes the next record.
    pub fn record(&mut self, lsn: Lsn, record: &[u8]) -> Result<()> {
        if lsn < self.from {
            return Ok(());
        }
        let log_damage = |error| log_damage(lsn, &error);
        let mut reader = Reader::new(record);
        Head::decode(&mut reader).map_err(log_damage)?;
        while reader.remaining() > 0 {
            let from = record.len() - reader.remaining();
            let section = Section::decode(&mut reader).map_err(log_damage)?;
            if section.page.0 >= self.pages_max {
                let found = u64::from(section.page.0);
                return Err(log_damage(DecodeError::Unknown {
                    what: "a number of a page",
                    found,
                }));
            }
            let bytes = &mut self.changes.bytes;
            let begin = bytes.len();
            let to = record.len() - reader.remaining();
            bytes.extend_from_slice(&record[from..to]);
            self.changes.list.push(Repeated {
                page: section.page,
                lsn,
                bytes: begin..bytes.len(),
            });
        }
        if self.changes.bytes() < self.room {
            return Ok(());
        }
        self.repeat()
    }

    /// Puts the changes in the order of their pages, and gives the file room for all of them. Says
    /// whether there are any.
    fn sort(&mut self) -> Result<bool> {
        // Those of a page stay in their order.
        self.changes.list.sort_by_key(|change| change.page);
        let Some(last) = self.changes.list.last() else {
            return Ok(false);
        };
        self.pages.pool.grow(last.page.0 + 1)?;
        Ok(true)
    }

    /// Defers the redo until the pages are brought into frames, if no change was repeated yet: else
    /// some of the pages may have frames already.
    pub fn leave(&mut self) -> Result<()> {
        if self.has_begun {
            return self.repeat();
        }
        if self.sort()? {
            let changes = std::mem::take(&mut self.changes);
            self.pages
                .pool
                .set_pending_redo(Box::new(Left::new(changes)));
        }
        Ok(())
    }

    /// Repeats all changes that were taken.
    pub fn repeat(&mut self) -> Result<()> {
        self.has_begun = true;
        if !self.sort()? {
            return Ok(());
        }
        let of_pages = self
            .changes
            .list
            .chunk_by(|change, next| change.page == next.page);
        let of_pages: Vec<_> = of_pages.collect();
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let from = next.fetch_add(PAGES_AT_ONCE, Ordering::Relaxed);
                if from >= of_pages.len() {
                    return Ok(());
                }
                for changes in of_pages.iter().skip(from).take(PAGES_AT_ONCE) {
                    let repeated = self.repeat_on_page(changes);
                    // The others are to end as well.
                    repeated.inspect_err(|_| next.store(of_pages.len(), Ordering::Relaxed))?;
                }
            }
        };
        let threads = THREADS_MAX.min(of_pages.len() / PAGES_A_THREAD);
        if self.has_threads && threads > 1 {
            scope(|scope| {
                let others: Vec<_> = (1..threads)
                    // If a thread cannot be started, the others do its part.
                    .filter_map(|_| Builder::new().spawn_scoped(scope, work).ok())
                    .collect();
                let own = work();
                let ended = others.into_iter().map(ScopedJoinHandle::join);
                let ended = ended.map(|done| done.unwrap_or(Err(StorageError::Poisoned)));
                ended.fold(own, Result::and)
            })?;
        } else {
            work()?;
        }
        drop(of_pages);
        self.changes.list.clear();
        self.changes.bytes.clear();
        Ok(())
    }

    fn repeat_on_page(&self, changes: &[Repeated]) -> Result<()> {
        let Some(first) = changes.first() else {
            return Ok(());
        };
        let pool = &self.pages.pool;
        let damage = |text: String| pool.file().damage(first.page, &text);
        debug_assert!(
            changes.iter().all(|change| change.page == first.page),
            "changes of several pages are repeated on one"
        );
        let is_whole = self.changes.section(first).map_err(damage)?.is_whole();
        let (mut page, is_intact) = pool.recover(first.page, is_whole)?;
        // It counts as changed in any case (invariant 1).
        let repeated = self.changes.repeat(changes, page.bytes_mut(), is_intact);
        repeated.map_err(damage)
    }
}

fn log_damage(lsn: Lsn, error: &DecodeError) -> StorageError {
    let text = format!("the log record at {} cannot be read: {error}", lsn.0);
    StorageError::Unsupported(text)
}
