//! Pages of a file in buffers: hits, misses and prefetch.
//!
//! A page is found through an array with one entry for each page, which names the frame; the frame
//! shows whether that is still right. So a hit is one load and one latch, without a lock that all
//! share. A miss takes a frame from another page (`replacement`) and fills it.

use super::fetcher::Fetcher;
use super::frame::{FETCHED, NOT_HERE, PageBytes, unpoisoned};
use super::frames::{Below, Changes, END_BEFORE_PAGE, Fill, Frames, WRONG_PAGE, Written};
use super::page_latch::{ReadGuard, WriteGuard};
use super::pending_redo::{NeededRedo, PendingRedo};
use super::replacement::Replacement;
use crate::page::PageId;
use disk::Directory;
use pmem::Buffers;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use storage::Result;

/// Fewest frames of a pool.
pub(super) const FRAMES_MIN: usize = 64;
/// Lines of a page that are prefetched with its latch: its header and its first slots.
const LINES_AHEAD: usize = 2;

/// Frames with buffers, of which each has one page at a time.
pub(super) struct Buffered<D: Directory> {
    buffers: Buffers,
    replacement: Replacement<D>,
    fetcher: Fetcher,
}

impl<D: Directory> Buffered<D> {
    /// Frames of about `bytes`.
    pub(super) fn new(below: Arc<Below<D>>, bytes: u64) -> Result<Self> {
        let page_bytes = below.page_bytes;
        let frames = (bytes / page_bytes as u64).clamp(FRAMES_MIN as u64, u64::from(NOT_HERE - 1));
        let (buffers, frames) = Buffers::new(page_bytes, frames as usize)?;
        Ok(Self {
            buffers,
            replacement: Replacement::new(below, frames.into_iter().map(PageBytes::Buffer)),
            fetcher: Fetcher::new(),
        })
    }

    fn below(&self) -> &Below<D> {
        &self.replacement.below
    }

    /// Takes a frame for a page and fills it.
    #[cold]
    fn load(&self, id: PageId, fill: Fill) -> Result<WriteGuard<'_>> {
        let below = self.below();
        // The table has room for pages of the file only: a wrong number must not make it larger.
        if id.0 >= below.readers.pages() {
            return Err(below.file().damage(id, END_BEFORE_PAGE));
        }
        let uses = if fill == Fill::Fetch { FETCHED } else { 0 };
        let Some((number, mut content)) = self.replacement.take(id, uses)? else {
            // Another thread was faster.
            return self.write(id, fill);
        };
        let frame = self.replacement.frame(number);
        match fill_bytes(below, id, content.bytes.buffer(), fill) {
            Ok(is_new) => frame.dirty.store(is_new, Ordering::Relaxed),
            Err(error) => {
                self.replacement.give_back(id, &mut content);
                return Err(error);
            }
        }
        Ok(WriteGuard::new(content, frame, id, None))
    }
}

impl<D: Directory> Frames for Buffered<D> {
    #[inline]
    fn read(&self, id: PageId) -> Result<ReadGuard<'_>> {
        loop {
            let Some(number) = self.replacement.table.get(id) else {
                return self.load(id, Fill::Read).map(WriteGuard::downgrade);
            };
            // The page and its latch are two misses; one need not wait for the other.
            self.buffers.prefetch(number, LINES_AHEAD);
            let frame = self.replacement.frame(number);
            let content = unpoisoned(frame.latch.read());
            if content.page == Some(id) {
                frame.touch();
                return Ok(ReadGuard::new(content, None));
            }
        }
    }

    #[inline]
    fn write(&self, id: PageId, fill: Fill) -> Result<WriteGuard<'_>> {
        loop {
            let Some(number) = self.replacement.table.get(id) else {
                return self.load(id, fill);
            };
            self.buffers.prefetch(number, LINES_AHEAD);
            let frame = self.replacement.frame(number);
            let content = unpoisoned(frame.latch.write());
            if content.page == Some(id) {
                frame.touch();
                return Ok(WriteGuard::new(content, frame, id, None));
            }
        }
    }

    fn is_intact(&self, id: PageId) -> Result<bool> {
        let mut page = vec![0; self.below().page_bytes];
        self.below().readers.read(id, &mut page)
    }

    fn grow(&self, pages: u32) -> Result<()> {
        let mut file = self.below().file();
        match file.grow(pages) {
            Err(error) if error.is_out_of_space() && self.below().log.give_up_spares()? => {
                file.grow(pages)
            }
            grown => grown,
        }
    }

    fn write_all(&self, written: &mut Written<'_>) -> Result<()> {
        self.replacement.write_all(written)
    }

    fn changes(&self) -> Changes<'_> {
        Changes::InBuffers
    }

    fn will_read(&self, pages: &mut dyn Iterator<Item = PageId>) {
        let is_missing = |id: &PageId| self.replacement.table.get(*id).is_none();
        let mut missing = pages.filter(is_missing).peekable();
        if missing.peek().is_some() {
            if self.fetcher.is_present() {
                self.fetcher.ask(missing);
            } else {
                self.below().readers.will_read(missing);
            }
        }
    }

    fn fetch(&self) {
        while let Some(id) = self.fetcher.next() {
            if self.replacement.table.get(id).is_none() {
                // A reader of the page meets the error again.
                let _ = self.load(id, Fill::Fetch);
            }
        }
    }

    fn end_fetching(&self) {
        self.fetcher.end();
    }

    fn clean(&self) -> Result<()> {
        self.replacement.clean()
    }

    fn end_cleaning(&self) {
        self.replacement.end_cleaning();
    }
}

/// Fills the bytes of a page; returns whether they are newer than the page in the file. Its frame
/// is latched, so nobody writes it meanwhile.
fn fill_bytes<D: Directory>(
    below: &Below<D>,
    id: PageId,
    bytes: &mut [u8],
    wanted: Fill,
) -> Result<bool> {
    if below.deferred.is_any() && redo_deferred(below, id, bytes)? {
        return Ok(true);
    }
    if wanted == Fill::Blank {
        bytes.fill(0);
        return Ok(false);
    }
    let read = below.readers.read(id, bytes);
    if matches!(read, Ok(true)) {
        return Ok(false);
    }
    if wanted == Fill::Recover {
        read?;
        bytes.fill(0);
        return Ok(false);
    }
    let file = below.file();
    if id.0 >= file.pages() {
        return Err(file.damage(id, END_BEFORE_PAGE));
    }
    read?;
    Err(file.damage(id, WRONG_PAGE))
}

/// Fills the bytes of a page with pending redo; returns whether it has any.
#[cold]
fn redo_deferred<D: Directory>(below: &Below<D>, id: PageId, bytes: &mut [u8]) -> Result<bool> {
    let redone = below.deferred.with(|pending_redo| {
        let needed = pending_redo.of(id)?;
        Some(redo(below, (pending_redo, needed), id, bytes))
    });
    redone.map_or(Ok(false), |redone| redone.map(|()| true))
}

fn redo<D: Directory>(
    below: &Below<D>,
    (pending_redo, needed): (&dyn PendingRedo, NeededRedo),
    id: PageId,
    bytes: &mut [u8],
) -> Result<()> {
    let is_intact = needed == NeededRedo::Changes && below.readers.read(id, bytes)?;
    if !is_intact {
        bytes.fill(0);
    }
    let redone = pending_redo.repeat(id, bytes, is_intact);
    redone.map_err(|text| below.file().damage(id, &text))
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
#[path = "buffered_tests.rs"]
mod tests;
