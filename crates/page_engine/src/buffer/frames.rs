//! The frames of a pool's pages, one implementation a design, and what is below all of them.
//!
//! | implementation | a page in use is | it is written |
//! |---|---|---|
//! | `Buffered` | in a buffer, which another page may get | to the file, or by `write_back` |
//! | `Resident` without copies | in durable memory, changed in place | never |
//! | `Resident` with copies | the same, or a copy that changes | in place, with its batch |

use super::file::{PageFile, PageReaders};
use super::frame::unpoisoned;
use super::log::PageLog;
use super::page_latch::{ReadGuard, WriteGuard};
use super::pending_redo::DeferredRedo;
use super::resident_pages::ResidentPages;
use crate::page::PageId;
use disk::Directory;
use pmem::Counters;
use std::sync::{Mutex, MutexGuard};
use storage::Result;
use storage::failure::Failure;

pub(super) const END_BEFORE_PAGE: &str = "the file ends before a page that is in use";
pub(super) const WRONG_PAGE: &str = "the page's checksum or number is wrong";

/// Content that a frame gets with a new page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// The page of the file, which has to be intact.
    Read,
    /// The same, prefetched for a later reader.
    Fetch,
    /// The page of the file if that is intact, else zeros.
    Recover,
    /// Zeros.
    Blank,
}

/// How a change is made in a latched page, once the log has it.
#[derive(Clone, Copy)]
pub enum Changes<'p> {
    /// In the page's buffer: the record has what to repeat.
    InBuffers,
    /// In the page itself, two fences a change: the record has what the lines were.
    InPlace(&'p ResidentPages),
    /// In a copy of the page, three fences a batch: the batch has what the lines were.
    InCopies(&'p ResidentPages),
}

/// Where pages are while threads use them.
pub(super) trait Frames: Send + Sync {
    /// The page, for reading.
    fn read(&self, id: PageId) -> Result<ReadGuard<'_>>;

    /// The page, for changing.
    fn write(&self, id: PageId, fill: Fill) -> Result<WriteGuard<'_>>;

    /// Whether a page is intact on the medium, where everything has been written.
    fn is_intact(&self, id: PageId) -> Result<bool>;

    /// Makes room for more pages, at least for `pages` in all.
    fn grow(&self, pages: u32) -> Result<()>;

    /// Makes every change of a page durable, or ready for the sync of a checkpoint, that the log
    /// has now. For `written`, see [`Pool::write_all_by`](super::Pool::write_all_by).
    fn write_all(&self, written: &mut Written<'_>) -> Result<()>;

    /// How pages change.
    fn changes(&self) -> Changes<'_>;

    /// Counters of the memory that has the pages.
    fn memory(&self) -> Counters {
        Counters::default()
    }

    /// Prefetches pages.
    fn will_read(&self, _pages: &mut dyn Iterator<Item = PageId>) {}

    /// Brings prefetched pages into frames until [`Frames::end_fetching`].
    fn fetch(&self) {}

    /// Lets [`Frames::fetch`] return.
    fn end_fetching(&self) {}

    /// Writes dirty pages before their frames are needed until [`Frames::end_cleaning`].
    fn clean(&self) -> Result<()> {
        Ok(())
    }

    /// Lets [`Frames::clean`] return.
    fn end_cleaning(&self) {}
}

/// Takes the number of frames visited so far, and of all frames.
pub(super) type Written<'w> = dyn FnMut(usize, usize) -> Result<()> + 'w;

/// The file and the log below the frames of a pool.
pub(super) struct Below<D: Directory> {
    pub(super) file: Mutex<PageFile<D>>,
    pub(super) readers: PageReaders<D::File>,
    pub(super) log: Box<dyn PageLog>,
    /// Of a write of pages, or any other durable step of the partition.
    pub(super) failure: Failure,
    /// Redo of pages without a frame, done when a page is brought into one.
    pub(super) deferred: DeferredRedo,
    pub(super) page_bytes: usize,
}

impl<D: Directory> Below<D> {
    pub(super) fn new(file: PageFile<D>, log: Box<dyn PageLog>) -> Result<Self> {
        Ok(Self {
            page_bytes: file.page_bytes(),
            readers: file.readers()?,
            file: Mutex::new(file),
            log,
            failure: Failure::default(),
            deferred: DeferredRedo::default(),
        })
    }

    pub(super) fn file(&self) -> MutexGuard<'_, PageFile<D>> {
        unpoisoned(self.file.lock())
    }

    /// Notes that a write of pages has failed: it is unknown what is durable of them. A full disk
    /// is no such failure, as nothing was replaced.
    pub(super) fn written<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            if error.is_statement_error() {
                return error;
            }
            self.failure.note(error)
        })
    }
}
