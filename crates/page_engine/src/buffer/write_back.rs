//! The way of dirty pages from their frames to the medium, one implementation a design.
//!
//! | implementation | guards | a batch of pages | a session that finds no clean frame |
//! |---|---|---|---|
//! | `SyncAhead` | `full-page-writes`, `dwb-off-batched` | home, synced later | writes a batch |
//! | `CopiesFirst` | `dwb-batched`, `nvm-dwb` | copied, then home | writes a batch |
//! | `SinglePages` | `dwb`, `dwb-off` | the same, or home only | writes one page, synced |
//! | `PageCache` | `nvm-dwb-log-opt` | stays in durable memory | writes a batch |

use crate::page::PageId;
use disk::File;
use storage::Result;
use storage::engine::{AreaCounters, PageWrites};

/// When the pages of a batch that was written are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSync {
    /// With a later sync, that of a checkpoint at the latest.
    Later,
    /// With the batch, by syncs that its pages share.
    Shared,
    /// At once, each by itself: there are no syncs to share.
    None,
}

/// Pages that a session writes when it finds no clean frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionWrites {
    /// A batch.
    Batch,
    /// One page, with syncs of its own.
    Single,
}

/// The way of dirty pages to the medium, for many threads.
pub trait WriteBack<F: File>: Send + Sync {
    /// When the pages of a batch are durable.
    fn batch_sync(&self) -> BatchSync;

    /// Pages that a session writes when it finds no clean frame.
    fn session_writes(&self) -> SessionWrites {
        SessionWrites::Batch
    }

    /// Writes a sealed page by itself, durable at home when it returns, where sessions do so. Its
    /// log records are durable.
    fn write_single(&self, _id: PageId, _page: &[u8]) -> Result<()> {
        unreachable!("sessions write batches of pages")
    }

    /// Waits for room for pages, which are not latched yet.
    fn await_room(&self, _pages: usize) {}

    /// Takes a batch of sealed pages; false if they are to be written to the file.
    fn put(&self, _ids: &[PageId], _bytes: &[u8]) -> Result<bool> {
        Ok(false)
    }

    /// Whether it has a page that may not be at home.
    fn has(&self, _id: PageId) -> bool {
        false
    }

    /// Reads such a page, which is intact; false if the page is at home.
    fn read(&self, _id: PageId, _page: &mut [u8]) -> Result<bool> {
        Ok(false)
    }

    /// Lets the medium have what was written by now, so that the sync of a checkpoint, for which
    /// others may have to wait, finds little.
    fn sync_ahead(&self) -> Result<()> {
        Ok(())
    }

    /// Notes a failed sync of the pages, for all threads that sync, and fails if there was one.
    fn note(&self, outcome: disk::Result<()>) -> Result<()> {
        Ok(outcome?)
    }

    /// Bytes that it has written itself.
    fn written(&self) -> PageWrites {
        PageWrites::default()
    }

    /// Threads that it needs for [`WriteBack::run`].
    fn threads(&self) -> usize {
        0
    }

    /// Brings pages home, as a thread of its own, until [`WriteBack::end`].
    fn run(&self) -> Result<()> {
        Ok(())
    }

    /// Lets the threads end.
    fn end(&self) {}

    /// Does some of the threads' work, for a driver without threads.
    fn assist(&self) -> Result<()> {
        Ok(())
    }

    /// Counters of the area in durable memory where pages stay.
    fn area(&self) -> AreaCounters {
        AreaCounters::default()
    }
}
