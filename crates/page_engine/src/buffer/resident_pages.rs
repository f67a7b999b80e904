//! The frames of pages that lie in durable memory: one for each page, for ever, so nothing is
//! replaced or written back.
//!
//! A page is checked when it is first used after an opening, and from then on every change keeps it
//! right.
//!
//! Where batches of changes become durable together, a page that a batch changes has a copy in
//! ordinary memory until then (`batch_log`), and readers read the copy.

use super::by_page::ByPage;
use super::frame::{Content, Frame, PageBytes, unpoisoned};
use super::nv_pages::ResidentStore;
use super::page_access::PageAccess;
use crate::page::{Header, PageId};
use pmem::Page;
use std::sync::atomic::Ordering;
use std::sync::{RwLockReadGuard, RwLockWriteGuard, TryLockError};
use storage::Result;
use storage::log::Lsn;
use storage::sync::{Mutex, lock};

/// Mark in a frame of a page that was found to be intact.
pub(super) const CHECKED: u8 = 1;

/// Most buffers that are kept for copies.
const SPARE_MAX: usize = 256;

/// A page that nobody changes meanwhile.
pub(super) enum Latched<'h> {
    /// Nobody reads it either.
    CachePadded(RwLockWriteGuard<'h, Content>),
    /// Somebody may.
    Read(RwLockReadGuard<'h, Content>),
}

/// Why a page cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// The memory ends before it.
    Missing,
    /// Its content is damaged.
    Damaged,
}

/// Pages that lie in durable memory, with a latch each.
pub struct ResidentPages {
    pub(super) source: Box<dyn ResidentStore>,
    frames: ByPage<Frame>,
    counts_loads: bool,
    /// The first number after those of all pages that an opening finds, if pages change in copies.
    end: Option<Lsn>,
    /// Buffers of copies that were given up.
    spare: Mutex<Vec<Box<[u8]>>>,
}

impl ResidentPages {
    /// Pages from `first` on, in their order, and where further ones come from. If batches of
    /// changes become durable together: the first number that no page has by now.
    pub fn new(
        source: Box<dyn ResidentStore>,
        first: PageId,
        pages: Vec<Page>,
        end: Option<Lsn>,
    ) -> Self {
        let resident = Self {
            counts_loads: source.counts_loads(),
            source,
            frames: ByPage::new(|| Frame::new(PageBytes::Nothing)),
            end,
            spare: Mutex::default(),
        };
        resident.add(first.0, pages);
        resident
    }

    /// Source of the pages.
    pub fn source(&self) -> &dyn ResidentStore {
        &*self.source
    }

    /// Whether a change is made in a copy of the page.
    pub fn has_copies(&self) -> bool {
        self.end.is_some()
    }

    /// The copy of a page that begins to change.
    pub(super) fn copy_of(&self, page: &[u8]) -> Box<[u8]> {
        match lock(&self.spare).pop() {
            Some(mut copy) => {
                copy.copy_from_slice(page);
                copy
            }
            None => page.into(),
        }
    }

    /// The pages, which nobody changes meanwhile; none if a thread is about to change one of them.
    pub(super) fn try_latch(&self, ids: &[PageId]) -> Option<Vec<Latched<'_>>> {
        let latch = |&id| {
            let latch = &self.frame(id).ok()?.latch;
            match latch.try_write() {
                Ok(content) => return Some(Latched::CachePadded(content)),
                Err(TryLockError::Poisoned(poisoned)) => {
                    return Some(Latched::CachePadded(poisoned.into_inner()));
                }
                Err(TryLockError::WouldBlock) => {}
            }
            latch.try_read().ok().map(Latched::Read)
        };
        ids.iter().map(latch).collect()
    }

    /// Notes that the memory has what the copies of latched pages have. A copy without a current
    /// reader is given up.
    pub(super) fn settle(&self, ids: &[PageId], pages: Vec<Latched<'_>>) {
        assert_eq!(ids.len(), pages.len(), "each page of a batch is latched");
        let mut spare = lock(&self.spare);
        for (&id, page) in ids.iter().zip(pages) {
            if let Ok(frame) = self.frame(id) {
                let was_dirty = frame.dirty.swap(false, Ordering::Relaxed);
                debug_assert!(was_dirty, "a batch has a page that it did not change");
            }
            if let Latched::CachePadded(mut content) = page {
                spare.extend(content.bytes.give_up_copy());
            }
        }
        spare.truncate(SPARE_MAX);
    }

    /// Gives pages their frames.
    fn add(&self, first: u32, pages: Vec<Page>) {
        for (page, number) in pages.into_iter().zip(first..) {
            let frame = self.frames.entry(PageId(number));
            let mut content = unpoisoned(frame.latch.write());
            assert!(content.page.is_none(), "a page gets a second frame");
            content.page = Some(PageId(number));
            content.bytes = PageBytes::Memory(page);
        }
    }

    /// Makes room for pages up to a number, where the pages below `now` have frames, and returns
    /// how many there are then.
    pub(super) fn grow(&self, now: u32, pages: u32) -> Result<u32> {
        let new = self.source.grow(pages)?;
        let end = now + new.len() as u32;
        assert!(end >= pages, "the memory has not grown as far as it says");
        self.add(now, new);
        Ok(end)
    }

    #[inline]
    pub(super) fn frame(&self, id: PageId) -> Result<&Frame, Unusable> {
        self.frames.get(id).ok_or(Unusable::Missing)
    }

    /// The page, for reading.
    #[inline]
    pub(super) fn read(&self, id: PageId) -> Result<RwLockReadGuard<'_, Content>, Unusable> {
        let frame = self.frame(id)?;
        let content = unpoisoned(frame.latch.read());
        self.check(frame, id, &content)?;
        Ok(content)
    }

    /// The page, for changing; any content will do if it is to be formatted.
    #[inline]
    pub(super) fn write(
        &self,
        id: PageId,
        is_blank: bool,
    ) -> Result<(RwLockWriteGuard<'_, Content>, &Frame), Unusable> {
        let frame = self.frame(id)?;
        let content = unpoisoned(frame.latch.write());
        if !is_blank || content.page.is_none() {
            self.check(frame, id, &content)?;
        }
        Ok((content, frame))
    }

    /// Itself, if loads have to be accounted for.
    #[inline]
    pub(super) fn meter(&self) -> Option<&Self> {
        self.counts_loads.then_some(self)
    }

    /// Accounts for what is read of a page, unless that is a copy.
    #[cold]
    pub(super) fn record_access(&self, bytes: &PageBytes, access: PageAccess<'_>) {
        if let PageBytes::Memory(page) = bytes {
            self.record_page_access(page, access);
        }
    }

    /// Accounts for what is read of a page in its own place.
    pub(super) fn record_page_access(&self, page: &Page, access: PageAccess<'_>) {
        if self.counts_loads {
            self.source.load(page, access);
        }
    }

    /// Sees to it that the page is intact when it is first used.
    #[inline]
    fn check(&self, frame: &Frame, id: PageId, content: &Content) -> Result<(), Unusable> {
        if frame.uses.load(Ordering::Relaxed) != CHECKED {
            if content.page.is_none() {
                return Err(Unusable::Missing);
            }
            self.record_access(&content.bytes, PageAccess::Whole);
            let header = Header(&content.bytes);
            // A page of a batch that does not count has been restored to its before image.
            let is_of_later = self.end.is_some_and(|end| header.lsn() >= end);
            if is_of_later || !header.is_intact(id) {
                return Err(Unusable::Damaged);
            }
            frame.uses.store(CHECKED, Ordering::Relaxed);
        }
        Ok(())
    }
}
