//! Frames of pages that lie in durable memory (`resident_pages`): one for each page, for ever.
//!
//! Nothing is replaced, prefetched or written back. A page changes by its lines, or in a copy until
//! its batch ends.

use super::frames::{Below, Changes, END_BEFORE_PAGE, Fill, Frames, WRONG_PAGE, Written};
use super::nv_pages::Edit;
use super::page_access::PageAccess;
use super::page_latch::{NewLines, ReadGuard, WriteGuard};
use super::resident_pages::{CHECKED, ResidentPages, Unusable};
use crate::page::{Header, PageId};
use disk::Directory;
use pmem::Counters;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use storage::{Result, StorageError};

/// The pages of a memory.
pub(super) struct Resident<D: Directory> {
    pub(super) below: Arc<Below<D>>,
    /// A log of batches shares them.
    pub(super) resident: Arc<ResidentPages>,
}

impl<D: Directory> Resident<D> {
    #[cold]
    fn unusable(&self, id: PageId, why: Unusable) -> StorageError {
        let text = match why {
            Unusable::Missing => END_BEFORE_PAGE,
            Unusable::Damaged => WRONG_PAGE,
        };
        self.below.file().damage(id, text)
    }
}

impl<D: Directory> Frames for Resident<D> {
    #[inline]
    fn read(&self, id: PageId) -> Result<ReadGuard<'_>> {
        let content = self
            .resident
            .read(id)
            .map_err(|why| self.unusable(id, why))?;
        Ok(ReadGuard::new(content, self.resident.meter()))
    }

    #[inline]
    fn write(&self, id: PageId, fill: Fill) -> Result<WriteGuard<'_>> {
        let found = self.resident.write(id, fill == Fill::Blank);
        let (content, frame) = found.map_err(|why| self.unusable(id, why))?;
        Ok(WriteGuard::new(content, frame, id, self.resident.meter()))
    }

    fn is_intact(&self, id: PageId) -> Result<bool> {
        let mut page = self.write(id, Fill::Blank)?;
        page.drop_clean_copy();
        page.record_access(PageAccess::Whole);
        Ok(Header(page.bytes()).is_intact(id))
    }

    fn grow(&self, pages: u32) -> Result<()> {
        let mut file = self.below.file();
        if pages > file.pages() {
            let end = self.resident.grow(file.pages(), pages)?;
            file.set_pages(end);
        }
        Ok(())
    }

    /// A batch has its pages written as it becomes durable.
    fn write_all(&self, _written: &mut Written<'_>) -> Result<()> {
        match self.changes() {
            Changes::InCopies(_) => self.below.log.flush(),
            Changes::InPlace(_) | Changes::InBuffers => Ok(()),
        }
    }

    fn changes(&self) -> Changes<'_> {
        if self.resident.has_copies() {
            Changes::InCopies(&self.resident)
        } else {
            Changes::InPlace(&self.resident)
        }
    }

    fn memory(&self) -> Counters {
        self.resident.source().counters()
    }
}

/// Changes lines of latched pages, durable when it returns.
pub fn store<'g, 'p: 'g>(
    resident: &ResidentPages,
    session: u32,
    changes: impl Iterator<Item = NewLines<'g, 'p>>,
) -> Result<()> {
    let edits = changes.map(|NewLines { guard, new, lines }| {
        // If this fails, nobody uses it any more.
        guard.frame.uses.store(CHECKED, Ordering::Relaxed);
        let page = guard.page_mut();
        let page = page.expect("only pages in durable memory change in place");
        debug_assert_eq!(page.bytes().len(), new.len(), "a page keeps its length");
        Edit { page, new, lines }
    });
    resident
        .source
        .store(session, &mut edits.collect::<Vec<_>>())
}
