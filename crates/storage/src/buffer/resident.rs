//! Frames of pages that lie in durable memory: nothing is replaced, prefetched or written back.

use super::frames::{Below, Changes, END_BEFORE_PAGE, Fill, Frames, WRONG_PAGE, Written};
use super::home::{CHECKED, Home, Unusable};
use super::nv_pages::Edit;
use super::page_access::PageAccess;
use super::page_latch::{NewLines, ReadGuard, WriteGuard};
use crate::error::{Result, StorageError};
use crate::page::{Header, PageId};
use disk::Directory;
use pmem::Counters;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The pages of a memory. A log of batches shares them.
pub(super) struct Resident(pub(super) Arc<Home>);

impl<D: Directory> Frames<D> for Resident {
    #[inline]
    fn read<'p>(&'p self, below: &Below<D>, id: PageId) -> Result<ReadGuard<'p>> {
        let content = self.0.read(id).map_err(|why| unusable(below, id, why))?;
        Ok(ReadGuard::new(content, self.0.meter()))
    }

    #[inline]
    fn write<'p>(&'p self, below: &Below<D>, id: PageId, fill: Fill) -> Result<WriteGuard<'p>> {
        let found = self.0.write(id, fill == Fill::Blank);
        let (content, frame) = found.map_err(|why| unusable(below, id, why))?;
        Ok(WriteGuard::new(content, frame, id, self.0.meter()))
    }

    fn is_intact(&self, below: &Below<D>, id: PageId) -> Result<bool> {
        let mut page = self.write(below, id, Fill::Blank)?;
        page.drop_clean_copy();
        page.account(PageAccess::Whole);
        Ok(Header(page.bytes()).is_intact(id))
    }

    fn grow(&self, below: &Below<D>, pages: u32) -> Result<()> {
        let mut file = below.file();
        if pages > file.pages() {
            let end = self.0.grow(file.pages(), pages)?;
            file.set_pages(end);
        }
        Ok(())
    }

    /// A batch has its pages written as it becomes durable.
    fn write_all(&self, below: &Below<D>, _written: &mut Written<'_>) -> Result<()> {
        match Frames::<D>::changes(self) {
            Changes::InCopies(_) => below.log.flush(),
            Changes::InPlace(_) | Changes::InBuffers => Ok(()),
        }
    }

    fn changes(&self) -> Changes<'_> {
        if self.0.has_copies() {
            Changes::InCopies(&self.0)
        } else {
            Changes::InPlace(&self.0)
        }
    }

    fn memory(&self) -> Counters {
        self.0.source().counters()
    }
}

#[cold]
fn unusable<D: Directory>(below: &Below<D>, id: PageId, why: Unusable) -> StorageError {
    let text = match why {
        Unusable::Missing => END_BEFORE_PAGE,
        Unusable::Damaged => WRONG_PAGE,
    };
    below.file().damage(id, text)
}

/// Changes lines of latched pages, durable when it returns.
pub fn store<'g, 'p: 'g>(
    home: &Home,
    session: u32,
    changes: impl Iterator<Item = NewLines<'g, 'p>>,
) -> Result<()> {
    let edits = changes.filter_map(|NewLines { guard, new, lines }| {
        // If this fails, nobody uses it any more.
        guard.frame.uses.store(CHECKED, Ordering::Relaxed);
        let page = guard.page_mut()?;
        Some(Edit { page, new, lines })
    });
    home.source.store(session, &mut edits.collect::<Vec<_>>())
}
