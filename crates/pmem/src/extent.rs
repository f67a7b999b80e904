//! A memory as plain bytes with one owner, for formats that have no use for a heap.
//!
//! Reading borrows it and storing takes `&mut`, so a slice of it never changes under its reader.
//! Stored bytes are durable with the next [`Extent::fence`].

use crate::device::{Counters, Memory, Part, Site};
use crate::error::Result;

/// The bytes of one memory.
pub struct Extent<M: Memory>(M);

impl<M: Memory> Extent<M> {
    /// All of a memory, which belongs to a part of the database.
    pub fn new(memory: M, part: Part) -> Self {
        memory.enter(part);
        Self(memory)
    }

    /// Bytes that there are.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// A range of bytes, none if it leaves the memory.
    pub fn get(&self, at: u64, bytes: usize) -> Option<&[u8]> {
        let end = at.checked_add(bytes as u64)?;
        if end > self.0.bytes() {
            return None;
        }
        self.0.load(at, bytes);
        // SAFETY: the range was found to lie in the mapping.
        let start = unsafe { self.0.base().add(at as usize) };
        // SAFETY: it is mapped while `self` lives, and stores to it need `&mut self`.
        Some(unsafe { std::slice::from_raw_parts(start.as_ptr(), bytes) })
    }

    /// Stores bytes and starts their write-back.
    pub fn set(&mut self, at: u64, bytes: &[u8], site: &'static Site) {
        self.0.store(at, bytes);
        self.0.flush(at, bytes.len(), site);
    }

    /// Stores an aligned word, failure-atomically, and starts its write-back.
    pub fn set_word(&mut self, at: u64, word: u64, site: &'static Site) {
        self.0.store_word(at, word);
        self.0.flush(at, 8, site);
    }

    /// Stores bytes around the cache; place and length are multiples of 8.
    pub fn stream(&mut self, at: u64, bytes: &[u8], site: &'static Site) {
        self.0.stream(at, bytes, site);
    }

    /// Waits until all stores are durable.
    pub fn fence(&mut self, site: &'static Site) -> Result<()> {
        self.0.fence(site)
    }

    /// Makes it at least so long; new bytes have any content.
    pub fn grow(&mut self, bytes: u64) -> Result<()> {
        self.0.grow(bytes)
    }

    /// The memory's counts.
    pub fn counters(&self) -> Counters {
        self.0.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{NativeMemory, PageSize};
    use crate::site;

    #[test]
    fn what_is_stored_is_read_and_nothing_outside() {
        let memory = NativeMemory::volatile(4096, PageSize::Base).unwrap();
        let mut extent = Extent::new(memory, Part::Log);
        extent.set(100, b"some bytes", site!("extent.test"));
        extent.set_word(200, 7, site!("extent.test-word"));
        extent.stream(208, &[1; 16], site!("extent.test-stream"));
        extent.fence(site!("extent.test-fence")).unwrap();
        assert_eq!(extent.get(100, 10), Some(&b"some bytes"[..]));
        assert_eq!(extent.get(200, 9), Some(&[7, 0, 0, 0, 0, 0, 0, 0, 1][..]));
        let end = extent.bytes();
        assert!(extent.get(end - 8, 8).is_some() && extent.get(end - 8, 9).is_none());
        assert!(extent.get(u64::MAX, 2).is_none());
        extent.grow(end + 1).unwrap();
        assert!(extent.get(end - 8, 9).is_some());
    }
}
