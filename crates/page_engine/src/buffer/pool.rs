//! The buffer pool: the pages of one partition behind latches, whatever lies below them.
//!
//! A pool has frames, in one of the designs of `frames`, over a file of pages and a log. It knows
//! what all designs need: which step has failed, which pages the log has whole, and which redo is
//! deferred.

use super::buffered::Buffered;
use super::file::{PageFile, PageReaders};
use super::frames::{Below, Changes, Fill, Frames};
use super::images::Images;
use super::log::PageLog;
use super::page_latch::{ReadGuard, WriteGuard};
use super::pending_redo::PendingRedo;
use super::resident::Resident;
use super::resident_pages::ResidentPages;
use crate::page::PageId;
use crate::page::header::HEADER_BYTES;
use disk::Directory;
use pmem::Counters;
use std::sync::{Arc, MutexGuard};
use storage::Result;
use storage::failure::Failure;
use storage::log::Lsn;

/// The pages of one partition.
pub struct Pool<D: Directory> {
    below: Arc<Below<D>>,
    frames: Box<dyn Frames>,
    images: Images,
}

impl<D: Directory> Pool<D> {
    /// A pool of about `bytes` for the pages of a file.
    pub fn new(file: PageFile<D>, log: Box<dyn PageLog>, bytes: u64) -> Result<Self> {
        let below = Arc::new(Below::new(file, log)?);
        let frames = Buffered::new(Arc::clone(&below), bytes)?;
        Ok(Self::over(below, Box::new(frames)))
    }

    /// The pages of a memory, without a copy of any.
    pub fn in_memory(
        file: PageFile<D>,
        log: Box<dyn PageLog>,
        resident: Arc<ResidentPages>,
    ) -> Result<Self> {
        let below = Arc::new(Below::new(file, log)?);
        let frames = Resident {
            below: Arc::clone(&below),
            resident,
        };
        Ok(Self::over(below, Box::new(frames)))
    }

    fn over(below: Arc<Below<D>>, frames: Box<dyn Frames>) -> Self {
        Self {
            below,
            frames,
            images: Images::default(),
        }
    }

    /// The page, for reading.
    #[inline]
    pub fn read(&self, id: PageId) -> Result<ReadGuard<'_>> {
        self.frames.read(id)
    }

    /// The page, for changing.
    #[inline]
    pub fn write(&self, id: PageId) -> Result<WriteGuard<'_>> {
        self.frames.write(id, Fill::Read)
    }

    /// A page whose content does not matter: it is to be formatted, or brought back from the log.
    pub fn blank(&self, id: PageId) -> Result<WriteGuard<'_>> {
        self.frames.write(id, Fill::Blank)
    }

    /// The page for recovery, and whether it is intact. If it is not, its bytes are zeros: the log
    /// has to restore it whole. If that is what the log does in any case, the page is not read.
    pub fn recover(&self, id: PageId, is_brought_back: bool) -> Result<(WriteGuard<'_>, bool)> {
        let fill = if is_brought_back {
            Fill::Blank
        } else {
            Fill::Recover
        };
        let page = self.frames.write(id, fill)?;
        let is_intact = page.bytes()[..HEADER_BYTES] != [0; HEADER_BYTES];
        Ok((page, is_intact))
    }

    /// How a change is made in a latched page.
    #[inline]
    pub fn changes(&self) -> Changes<'_> {
        self.frames.changes()
    }

    /// Whether the pages are in a file, to be copied from there, or cut off.
    pub fn has_pages_in_file(&self) -> bool {
        matches!(self.changes(), Changes::InBuffers)
    }

    /// Makes room for more pages, at least for `pages` in all.
    pub fn grow(&self, pages: u32) -> Result<()> {
        self.frames.grow(pages)
    }

    /// Whether a page is intact on the medium, where everything has been written.
    pub fn is_intact(&self, id: PageId) -> Result<bool> {
        self.frames.is_intact(id)
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.below.page_bytes
    }

    /// The failure that stops the partition.
    pub(crate) fn failure(&self) -> &Failure {
        &self.below.failure
    }

    /// The log.
    pub fn log(&self) -> &dyn PageLog {
        &*self.below.log
    }

    /// Lets pages that have not changed since `from` be logged whole; the log may have some that
    /// were.
    pub fn log_images(&self, from: Lsn, has_some: bool) {
        self.below.log.set_image_from(from);
        self.images.find(has_some);
    }

    /// Images of pages in the log, as far as they are known.
    pub fn images(&self) -> &Images {
        &self.images
    }

    /// Readers of the file of pages, also usable while it is written.
    pub fn readers(&self) -> &PageReaders<D::File> {
        &self.below.readers
    }

    /// The file of pages, to write it or to say what is wrong with it.
    pub fn file(&self) -> MutexGuard<'_, PageFile<D>> {
        self.below.file()
    }

    /// Counters of the memory that has the pages.
    pub fn memory(&self) -> Counters {
        self.frames.memory()
    }

    /// Says that pages are going to be read soon: those that have no frame are fetched by a device
    /// that can do so meanwhile.
    pub fn will_read(&self, mut pages: impl Iterator<Item = PageId>) {
        self.frames.will_read(&mut pages);
    }

    /// Brings pages into frames that are going to be read soon, until [`Pool::end_fetching`].
    pub fn fetch(&self) {
        self.frames.fetch();
    }

    /// Lets [`Pool::fetch`] return.
    pub fn end_fetching(&self) {
        self.frames.end_fetching();
    }

    /// Writes dirty pages before their frames are needed, until [`Pool::end_cleaning`]. A full disk
    /// ends it too: the session that needs a frame meets it again.
    ///
    /// # Errors
    /// A failed write or sync, after which it is unknown what is durable of the pages.
    pub fn clean(&self) -> Result<()> {
        self.frames.clean()
    }

    /// Lets [`Pool::clean`] return.
    pub fn end_cleaning(&self) {
        self.frames.end_cleaning();
    }

    /// Lets pages, of which none has a frame, get what they lack when they come into one.
    pub fn set_pending_redo(&self, pending_redo: Box<dyn PendingRedo>) {
        self.below.deferred.set(pending_redo);
    }

    /// Whether pages may lack something.
    pub fn has_pending_redo(&self) -> bool {
        self.below.deferred.is_any()
    }

    /// Repeats what one page lacks. Says whether another one may lack something.
    pub fn catch_up_step(&self) -> Result<bool> {
        let deferred = &self.below.deferred;
        if let Some(id) = deferred.with(|pending_redo| pending_redo.next()) {
            drop(self.read(id)?);
        } else {
            deferred.end();
        }
        Ok(self.has_pending_redo())
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
        while self.has_pending_redo() && self.catch_up_step()? {}
        self.frames.write_all(written)
    }
}
