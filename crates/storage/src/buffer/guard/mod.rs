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

use crate::error::Result;
use crate::page::PageId;
use pmem::Counters;

/// Protection from torn writes of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// Nothing: only for a device that writes pages whole. A session that finds no clean frame
    /// writes one page by itself, with a sync.
    Off,
    /// Nothing either, and pages go in batches only.
    OffBatched,
    /// A copy in an area of its own first: two writes and two syncs a batch, of up to 120 pages.
    DoubleWrite,
    /// The same, and two writes and two syncs for each page that a session writes by itself because
    /// it finds no clean frame.
    DoubleWriteSingles,
    /// The first change of a page after a checkpoint logs the page as it was: a longer log, no
    /// sync.
    FullPageWrites,
    /// Pages are not in the file but in durable memory, and change in place: the log has what their
    /// lines were.
    BeforeImages,
    /// A copy in durable memory first: a fence a batch, and a sync of the file for as many pages as
    /// the area has slots.
    NvDoubleWrite,
    /// A copy in durable memory, which is the page from then on: it is read there, and written home
    /// when room is needed.
    NvPageCache,
}

impl Guard {
    /// All guards.
    pub const ALL: [Self; 8] = [
        Self::Off,
        Self::OffBatched,
        Self::DoubleWrite,
        Self::DoubleWriteSingles,
        Self::FullPageWrites,
        Self::BeforeImages,
        Self::NvDoubleWrite,
        Self::NvPageCache,
    ];

    /// The name in reports and options, that of the plainest method with it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "dwb-off",
            Self::OffBatched => "dwb-off-batched",
            Self::DoubleWrite => "dwb-batched",
            Self::DoubleWriteSingles => "dwb",
            Self::FullPageWrites => "full-page-writes",
            Self::BeforeImages => "before-images",
            Self::NvDoubleWrite => "nvm-dwb",
            Self::NvPageCache => "nvm-dwb-log-opt",
        }
    }

    /// Stable number for master records.
    pub fn code(self) -> u32 {
        match self {
            Self::Off => 1,
            Self::DoubleWrite => 2,
            Self::FullPageWrites => 3,
            Self::BeforeImages => 4,
            Self::NvDoubleWrite => 5,
            Self::NvPageCache => 6,
            Self::DoubleWriteSingles => 7,
            Self::OffBatched => 8,
        }
    }

    /// Kinds of writes to its doublewrite area in a file, if it has one.
    pub(super) fn writes(self) -> Option<Writes> {
        match self {
            Self::DoubleWrite => Some(Writes::Batches),
            Self::DoubleWriteSingles => Some(Writes::BatchesAndSingles),
            _ => None,
        }
    }

    /// Whether a page that a power cut tears is lost.
    pub fn is_off(self) -> bool {
        matches!(self, Self::Off | Self::OffBatched)
    }

    /// Whether a copy of each page is durable before the page is written home.
    pub fn copies_first(self) -> bool {
        self.writes().is_some() || self == Self::NvDoubleWrite
    }

    /// Whether it keeps copies of pages in an area in durable memory.
    pub fn has_slots(self) -> bool {
        matches!(self, Self::NvDoubleWrite | Self::NvPageCache)
    }
}

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
