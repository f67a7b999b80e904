//! The bytes of one file, shared page by page between a world and its images.
//!
//! A clone costs one reference a page, and a write copies only the pages it changes. Hashes are
//! kept with the pages, so the hash of an image costs its changed pages. Bytes past the length are
//! always zero, so growing needs no work.

use pmem::device::simulated::mix;
use std::sync::{Arc, OnceLock};

const PAGE_BYTES: usize = 4096;

/// A file's content.
#[derive(Clone, Default)]
pub(super) struct Content {
    pages: Vec<Arc<Page>>,
    bytes: u64,
}

#[derive(Clone)]
struct Page {
    data: [u8; PAGE_BYTES],
    hash: OnceLock<u64>,
}

impl Content {
    /// Length in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Fills `out` from `offset`, or says that the file ends before.
    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> bool {
        if offset
            .checked_add(out.len() as u64)
            .is_none_or(|end| end > self.bytes)
        {
            return false;
        }
        let mut at = offset as usize;
        let mut rest = out;
        while !rest.is_empty() {
            let from = at % PAGE_BYTES;
            let count = rest.len().min(PAGE_BYTES - from);
            let (piece, after) = rest.split_at_mut(count);
            piece.copy_from_slice(&self.pages[at / PAGE_BYTES].data[from..from + count]);
            at += count;
            rest = after;
        }
        true
    }

    /// Writes `data`, growing the file where it must.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        self.extend(offset + data.len() as u64);
        let mut at = offset as usize;
        let mut rest = data;
        while !rest.is_empty() {
            let from = at % PAGE_BYTES;
            let (piece, after) = rest.split_at(rest.len().min(PAGE_BYTES - from));
            self.page(at / PAGE_BYTES)[from..from + piece.len()].copy_from_slice(piece);
            at += piece.len();
            rest = after;
        }
    }

    /// Makes the file at least `bytes` long, with zeros.
    pub(super) fn extend(&mut self, bytes: u64) {
        if bytes > self.bytes {
            self.set_bytes(bytes);
        }
    }

    /// Cuts or extends (with zeros) to `bytes`.
    pub(super) fn set_bytes(&mut self, bytes: u64) {
        let pages = bytes.div_ceil(PAGE_BYTES as u64) as usize;
        if pages > self.pages.len() {
            let zeros = Page {
                data: [0; PAGE_BYTES],
                hash: OnceLock::new(),
            };
            self.pages.resize(pages, Arc::new(zeros));
        }
        self.pages.truncate(pages);
        let tail = bytes as usize % PAGE_BYTES;
        if bytes < self.bytes && tail != 0 {
            self.page(pages - 1)[tail..].fill(0);
        }
        self.bytes = bytes;
    }

    /// A hash of length and bytes.
    pub(super) fn hash(&self) -> u64 {
        self.pages
            .iter()
            .fold(mix(self.bytes), |hash, page| mix(hash ^ page.hash()))
    }

    /// A page for changes that no clone sees.
    fn page(&mut self, number: usize) -> &mut [u8; PAGE_BYTES] {
        let page = Arc::make_mut(&mut self.pages[number]);
        page.hash = OnceLock::new();
        &mut page.data
    }
}

impl Page {
    fn hash(&self) -> u64 {
        *self.hash.get_or_init(|| {
            self.data.chunks_exact(8).fold(1, |hash: u64, word| {
                let word = u64::from_le_bytes(word.try_into().expect("chunks of 8 bytes"));
                (hash ^ word)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    .rotate_left(29)
            })
        })
    }
}
