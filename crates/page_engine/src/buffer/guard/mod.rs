//! Guards of page writes: they keep a torn write of a page from being a loss, and take part in each
//! write of pages to the file.
//!
//! A page enters its guard when a batch of dirty pages is written: for a session without a frame,
//! by the cleaner, or by a checkpoint. The log is durable up to their last changes by then. A
//! [`PageGuard`] holds the batch until it is durable at home; a [page cache](page_cache) keeps it
//! instead, and brings it home later. Guards of other kinds are elsewhere: `full-page-writes` is
//! the log's work, and `before-images` are for pages that have no other home.

mod double_write;
mod nv_double_write;
mod nv_slots;
pub mod page_cache;
mod single_pages;

pub use double_write::{DoubleWrite, Writes};
pub use nv_double_write::NvDoubleWrite;
pub use nv_slots::{NvSlots, Slots};
pub use single_pages::SinglePages;

use crate::page::PageId;
use pmem::Counters;
use storage::Result;

/// Pages with their numbers.
pub type Copies = Vec<(PageId, Vec<u8>)>;

/// A guard that has copies of pages which are on their way home. The defaults are of one that has
/// none.
pub trait PageGuard: Send {
    /// Pages that it takes before a sync of the pages written home is needed.
    fn room(&self) -> usize {
        usize::MAX
    }

    /// Makes sealed pages durable that are going to be written home, as many as there is room for.
    fn protect(&mut self, _ids: &[PageId], _pages: &[u8]) -> Result<()> {
        Ok(())
    }

    /// Notes that everything is durable at home that was written there.
    fn note_synced(&mut self) {}

    /// Copies that an earlier process has left, the newest whole one of each page; none if nothing
    /// was on its way.
    fn found(&mut self) -> Result<Option<Copies>> {
        Ok(None)
    }

    /// Makes the copies durable that were found, if it can: a process that has died may have left
    /// them in a cache only. Says whether they are, so that they may replace pages that are older.
    fn secure(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Says on the medium that nothing is on its way. Everything is durable at home.
    fn clear(&mut self) -> Result<()> {
        Ok(())
    }

    /// Checks it while nothing is on its way; returns the error found.
    fn check(&mut self) -> Result<Option<String>> {
        Ok(None)
    }

    /// Bytes that it takes.
    fn bytes(&self) -> u64 {
        0
    }

    /// Counters of its memories.
    fn memory(&self) -> Counters {
        Counters::default()
    }
}

/// Pages go home without a copy.
pub struct NoCopies;

impl PageGuard for NoCopies {}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
#[path = "guard_tests.rs"]
mod tests;
#[cfg(test)]
#[cfg(not(feature = "schedules"))]
use tests::test_page;
