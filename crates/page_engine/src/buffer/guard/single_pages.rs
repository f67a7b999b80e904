//! Writes of single pages: a session that needs a frame and finds no clean one writes one page, and
//! waits for two syncs, or for one without an area.
//!
//! ```text
//! a page ──► its lane's place in the area, sync ──► home, sync ──► the lane is free
//! ```
//!
//! A *lane* has a place in the doublewrite area after the batch, if there is an area, and handles
//! of its own for the area and for the pages. So as many threads write at once as there are lanes;
//! further ones wait for one of them.
//!
//! Invariants:
//! 1. With an area, no byte of a page is written home before its copy is durable there.
//! 2. A place is overwritten only when its page is durable at home.
//! 3. Of all copies of a page that are whole in the area, the one with the highest LSN is the page
//!    if the home is torn: the last write there put its copy here first.
//! 4. After a failed sync, or with an area a failed write of a page at home, through any handle,
//!    nothing counts as durable any more.
//!
//! After the single-page flushes of `InnoDB` 5.6 (thesis of NVM-DWB, section 2.1). `InnoDB` has 392
//! places and takes the first free one; here there are as many places as lanes.

use crate::buffer::offsets::first_page;
use crate::buffer::write_back::{BatchSync, SessionWrites, WriteBack};
use crate::page::PageId;
use disk::{Directory, File};
use pmem::site;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use storage::engine::PageWrites;
use storage::{Result, StorageError};

/// Threads that write at once.
pub(super) const LANES: usize = 16;

/// Files that one thread writes with.
pub(super) struct Lane<F> {
    /// The area, and where its place is there.
    pub(super) copy: Option<(F, u64)>,
    pub(super) home: F,
}

/// The lanes of one partition.
pub struct SinglePages<F> {
    page_bytes: u64,
    has_area: bool,
    free: Mutex<Vec<Lane<F>>>,
    freed: Condvar,
    has_failed: AtomicBool,
    pages: AtomicU64,
}

impl<F: File> SinglePages<F> {
    pub(super) fn new(page_bytes: usize, lanes: Vec<Lane<F>>) -> Self {
        Self {
            page_bytes: page_bytes as u64,
            has_area: lanes.iter().any(|lane| lane.copy.is_some()),
            free: Mutex::new(lanes),
            freed: Condvar::new(),
            has_failed: AtomicBool::new(false),
            pages: AtomicU64::new(0),
        }
    }

    /// For a device that writes pages whole, with handles of the file of pages.
    pub fn without_area<D: Directory<File = F>>(
        directory: &D,
        pages: &str,
        page_bytes: usize,
    ) -> Result<Self> {
        let lanes = (0..LANES).map(|_| {
            let home = directory.open(pages)?;
            Ok(Lane { copy: None, home })
        });
        Ok(Self::new(page_bytes, lanes.collect::<Result<_>>()?))
    }

    fn free(&self) -> MutexGuard<'_, Vec<Lane<F>>> {
        // The data under this lock is consistent at every moment, so a poisoned lock is safe to
        // use.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_with(&self, lane: &mut Lane<F>, id: PageId, page: &[u8]) -> Result<()> {
        assert_eq!(
            page.len() as u64,
            self.page_bytes,
            "a single page has another length"
        );
        assert!(
            id >= first_page(page.len()),
            "a page is written over the master records"
        );
        self.check()?;
        if let Some((area, at)) = &mut lane.copy {
            // The page that was there is durable at home, so this may fail.
            area.write_at(*at, page)?;
            let synced = area.sync(site!("single-page.copy"));
            self.note(synced)?;
            // commit point: from here on a torn page at home has a whole copy
        }
        let written = lane.home.write_at(u64::from(id.0) * self.page_bytes, page);
        if lane.copy.is_some() {
            // The page may be torn there, and its copy is what repairs it.
            self.note(written)?;
        } else {
            written?;
        }
        let synced = lane.home.sync(site!("single-page.home"));
        self.note(synced)?;
        self.pages.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if self.has_failed.load(Ordering::SeqCst) {
            return Err(StorageError::Poisoned);
        }
        Ok(())
    }
}

impl<F: File> WriteBack<F> for SinglePages<F> {
    fn batch_sync(&self) -> BatchSync {
        BatchSync::Shared
    }

    fn session_writes(&self) -> SessionWrites {
        SessionWrites::Single
    }

    fn write_single(&self, id: PageId, page: &[u8]) -> Result<()> {
        let mut free = self.free();
        let mut lane = loop {
            if let Some(lane) = free.pop() {
                break lane;
            }
            let woken = self.freed.wait(free);
            free = woken.unwrap_or_else(PoisonError::into_inner);
        };
        drop(free);
        let written = self.write_with(&mut lane, id, page);
        self.free().push(lane);
        self.freed.notify_one();
        written
    }

    /// Another thread may have received the error of this thread's write.
    fn note(&self, outcome: disk::Result<()>) -> Result<()> {
        self.has_failed.fetch_or(outcome.is_err(), Ordering::SeqCst);
        outcome?;
        self.check()
    }

    fn written(&self) -> PageWrites {
        let single_pages = self.pages.load(Ordering::Relaxed);
        let home_bytes = single_pages * self.page_bytes;
        PageWrites {
            home_bytes,
            copy_bytes: if self.has_area { home_bytes } else { 0 },
            single_pages,
            ..PageWrites::default()
        }
    }
}
