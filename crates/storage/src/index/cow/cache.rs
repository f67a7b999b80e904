//! Pages in frames of volatile memory, by the place that they were read from.
//!
//! The cache of a file's pages: of the partition itself, and a small one for each reader of a snapshot. When it is full a
//! clock hand looks for a page that nobody has used since the hand last passed.
//!
//! Invariants: a frame belongs to one page; a page is in the cache once.

use super::Frames;
use crate::error::Result;
use pmem::Memory;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A page in the cache.
struct Cached {
    at: u64,
    frame: u64,
    /// Whether it was used since the hand last passed.
    used: bool,
}

/// Offsets of pages and blocks are spread by one multiplication.
#[derive(Default)]
pub(super) struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// A map from places.
pub(super) type PlaceMap<V> = HashMap<u64, V, BuildHasherDefault<PlaceHasher>>;

/// The pages in frames.
pub(super) struct PageCache {
    pages: Vec<Cached>,
    by_place: PlaceMap<usize>,
    hand: usize,
    pages_max: usize,
}

impl PageCache {
    /// An empty cache of at most `bytes_max` bytes, and of at least one page.
    pub(super) fn new(bytes_max: usize, page_bytes: usize) -> Self {
        Self {
            pages: Vec::new(),
            by_place: PlaceMap::default(),
            hand: 0,
            pages_max: (bytes_max / page_bytes).max(1),
        }
    }

    /// The frame of a page, which counts as used.
    #[inline]
    pub(super) fn get(&mut self, at: u64) -> Option<u64> {
        let &index = self.by_place.get(&at)?;
        let page = &mut self.pages[index];
        page.used = true;
        Some(page.frame)
    }

    /// A frame for a page that is read: a new one, or that of a page that was not used for long.
    pub(super) fn frame<M: Memory>(&mut self, frames: &mut Frames<M>) -> Result<u64> {
        if self.pages.len() < self.pages_max {
            match frames.take() {
                Err(_) if !self.pages.is_empty() => {}
                result => return result,
            }
        }
        loop {
            self.hand = (self.hand + 1) % self.pages.len();
            let page = &mut self.pages[self.hand];
            if !std::mem::take(&mut page.used) {
                break;
            }
        }
        Ok(self.forget(self.hand).frame)
    }

    /// Takes a page out; gives its frame.
    pub(super) fn remove(&mut self, at: u64) -> Option<u64> {
        let &index = self.by_place.get(&at)?;
        Some(self.forget(index).frame)
    }

    /// Puts a page in; gives the frame that it had before.
    pub(super) fn insert(&mut self, at: u64, frame: u64) -> Option<u64> {
        if let Some(&index) = self.by_place.get(&at) {
            return Some(std::mem::replace(&mut self.pages[index].frame, frame));
        }
        self.by_place.insert(at, self.pages.len());
        let used = true;
        self.pages.push(Cached { at, frame, used });
        None
    }

    fn forget(&mut self, index: usize) -> Cached {
        let page = self.pages.swap_remove(index);
        self.by_place.remove(&page.at);
        if let Some(moved) = self.pages.get(index) {
            self.by_place.insert(moved.at, index);
        }
        page
    }
}
