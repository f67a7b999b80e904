//! Prefetch: threads of a pool bring pages into frames before sessions wait for them.
//!
//! Where the operating system has the file's pages in a cache of its own, it gets the page numbers
//! that are going to be read, and that is enough. Past that cache nobody reads ahead; so these
//! threads do, into the frames themselves. They are an optimisation: a page that they do not reach,
//! or cannot read, is read by the session that needs it, which reports the error.

use crate::page::PageId;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Threads of a pool that fetch pages.
pub const FETCHERS: usize = 8;
/// Most pages in the queue. Requests beyond that are dropped.
const PAGES_MAX: usize = 256;

/// Prefetch requests of a pool's sessions to its fetchers.
pub(super) struct Fetcher {
    is_present: AtomicBool,
    queue: Mutex<Queue>,
    asked: Condvar,
}

#[derive(Default)]
struct Queue {
    pages: VecDeque<PageId>,
    is_ended: bool,
}

impl Fetcher {
    pub(super) fn new() -> Self {
        Self {
            is_present: AtomicBool::new(false),
            queue: Mutex::default(),
            asked: Condvar::new(),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // The data under this lock is consistent at every moment, so a poisoned lock is safe to
        // use.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a thread fetches.
    pub(super) fn is_present(&self) -> bool {
        self.is_present.load(Ordering::Relaxed)
    }

    /// Asks for pages.
    pub(super) fn ask(&self, pages: impl Iterator<Item = PageId>) {
        let mut queue = self.queue();
        let room = PAGES_MAX.saturating_sub(queue.pages.len());
        queue.pages.extend(pages.take(room));
        drop(queue);
        self.asked.notify_all();
    }

    /// Waits for the next page; none at the end. The calling thread counts as a fetcher.
    pub(super) fn next(&self) -> Option<PageId> {
        self.is_present.store(true, Ordering::Relaxed);
        let mut queue = self.queue();
        loop {
            if queue.is_ended {
                return None;
            }
            if let Some(page) = queue.pages.pop_front() {
                return Some(page);
            }
            let woken = self.asked.wait(queue);
            queue = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets all fetchers end.
    pub(super) fn end(&self) {
        self.is_present.store(false, Ordering::Relaxed);
        self.queue().is_ended = true;
        self.asked.notify_all();
    }
}
