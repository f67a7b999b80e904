//! Frames of a buffer pool: their content and use counts, and the table that maps pages to frames.
//!
//! A frame has one latch, which is that of its page. Its flags are outside the latch, so that a
//! search for a frame need not take it. The table has an entry for each page, which may be out of
//! date: the frame shows whether it still has the page.

use super::by_page::ByPage;
use super::resident_pages::ResidentPages;
use crate::page::PageId;
use pmem::{Buffer, Page};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

/// Entry of the table for a page without a frame.
pub(super) const NOT_HERE: u32 = u32::MAX;
/// Use count of a page that was prefetched and not used yet.
pub(super) const FETCHED: u8 = u8::MAX;

/// A frame's page.
pub(super) struct Content {
    pub(super) page: Option<PageId>,
    pub(super) bytes: PageBytes,
}

/// Location of a page's bytes.
pub(super) enum PageBytes {
    /// Nowhere: the frame is not in use.
    Nothing,
    /// In a buffer of the pool.
    Buffer(Buffer),
    /// In durable memory itself.
    Memory(Page),
    /// In durable memory, with a copy that has the changes of the newest batch.
    Copied(Mutex<Page>, Box<[u8]>, Original),
}

/// State of a page when it was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Original {
    /// A page with its checksum.
    Intact,
    /// A page that may lack it.
    Unknown,
}

impl PageBytes {
    /// The bytes of a buffer, to change. Those in durable memory change by [`Pool::store`] only.
    pub(super) fn buffer(&mut self) -> &mut [u8] {
        match self {
            Self::Buffer(buffer) => buffer.bytes_mut(),
            Self::Copied(_, bytes, _) => bytes,
            Self::Memory(_) | Self::Nothing => {
                unreachable!("a page in durable memory changes in a copy or by its lines")
            }
        }
    }

    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Nothing)
    }

    /// Makes a copy of a page in durable memory, unless it has one.
    pub(super) fn copy(&mut self, resident: &ResidentPages, original: Original) {
        debug_assert!(
            matches!(self, Self::Memory(_) | Self::Copied(..)),
            "only pages in durable memory are copied"
        );
        if let Self::Memory(page) = self {
            let copy = resident.copy_of(page.bytes());
            if let Self::Memory(page) = self.take() {
                *self = Self::Copied(Mutex::new(page), copy, original);
            }
        }
    }

    /// Lets what is in durable memory be read, which has what the copy has, and hands the copy out.
    pub(super) fn give_up_copy(&mut self) -> Option<Box<[u8]>> {
        match self.take() {
            Self::Copied(page, copy, _) => {
                *self = Self::Memory(unpoisoned(page.into_inner()));
                Some(copy)
            }
            other => {
                *self = other;
                None
            }
        }
    }
}

impl Deref for PageBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Buffer(buffer) => buffer.bytes(),
            Self::Memory(page) => page.bytes(),
            Self::Copied(_, bytes, _) => bytes,
            Self::Nothing => &[],
        }
    }
}

/// Alone on its cache line: pages that are made one after the other are often used by many.
#[repr(align(64))]
pub(super) struct Frame {
    pub(super) latch: RwLock<Content>,
    pub(super) dirty: AtomicBool,
    /// 0 not used since the hand came by, 1 used once, 2 more often; or [`FETCHED`]. Of a page in
    /// durable memory: 0 not checked since it was opened.
    pub(super) uses: AtomicU8,
}

impl Frame {
    /// One without a page.
    pub(super) fn new(bytes: PageBytes) -> Self {
        Self {
            latch: RwLock::new(Content { page: None, bytes }),
            dirty: AtomicBool::new(false),
            uses: AtomicU8::new(0),
        }
    }

    pub(super) fn touch(&self) {
        match self.uses.load(Ordering::Relaxed) {
            // First use: the same count as if this reader had read the page from the file.
            FETCHED => self.uses.store(0, Ordering::Relaxed),
            uses @ 0..2 => self.uses.store(uses + 1, Ordering::Relaxed),
            _ => {}
        }
    }
}

/// The table from pages to frames.
pub(super) struct PageTable {
    frames: ByPage<AtomicU32>,
}

impl PageTable {
    pub(super) fn new() -> Self {
        Self {
            frames: ByPage::new(|| AtomicU32::new(NOT_HERE)),
        }
    }

    pub(super) fn get(&self, page: PageId) -> Option<usize> {
        let frame = self.frames.get(page)?.load(Ordering::Acquire);
        (frame != NOT_HERE).then_some(frame as usize)
    }

    pub(super) fn set(&self, page: PageId, frame: usize) {
        debug_assert!(frame < NOT_HERE as usize, "a frame's number means no frame");
        let entry = self.frames.entry(page);
        entry.store(frame as u32, Ordering::Release);
    }

    pub(super) fn clear(&self, page: PageId) {
        self.frames.entry(page).store(NOT_HERE, Ordering::Release);
    }
}

pub(super) fn unpoisoned<T>(lock: Result<T, PoisonError<T>>) -> T {
    // A panic under a latch leaves a page that the log can restore; the engine goes on only to be
    // dropped.
    lock.unwrap_or_else(PoisonError::into_inner)
}
