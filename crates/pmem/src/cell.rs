//! The only ways to change persistent bytes.
//!
//! Each verb names its ordering. *stored*: visible to this thread at once, durable at some unknown
//! later time. *flushed*: its write-back has started. *fenced*: durable. A structure becomes
//! reachable by one aligned 8-byte store ([`Arena::store_word`]), made only after everything that
//! it leads to has been fenced.

use crate::arena::Arena;
use crate::device::{LINE_BYTES, Memory, Site};
use crate::error::Result;

impl<M: Memory> Arena<M> {
    /// Stores bytes. Not atomic beyond whole aligned words; not flushed.
    #[inline]
    pub fn store(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        self.check(offset, data.len(), 1)?;
        self.memory.store(offset, data);
        Ok(())
    }

    /// Stores one aligned word, failure-atomically; not flushed.
    #[inline]
    pub fn store_word(&mut self, offset: u64, value: u64) -> Result<()> {
        self.check(offset, 8, 8)?;
        self.memory.store_word(offset, value);
        Ok(())
    }

    /// Stores a line around the cache in one transfer, where [`Arena::stores_lines_at_once`].
    /// Durable after the next fence.
    #[inline]
    pub fn store_line(
        &mut self,
        offset: u64,
        line: &[u8; LINE_BYTES as usize],
        site: &'static Site,
    ) -> Result<()> {
        self.check(offset, line.len(), LINE_BYTES as usize)?;
        self.memory.store_line(offset, line, site);
        Ok(())
    }

    /// Whether a line that is stored is a single transfer.
    pub fn stores_lines_at_once(&self) -> bool {
        self.memory.stores_lines_at_once()
    }

    /// Starts the write-back of every line that the range touches.
    #[inline]
    pub fn flush(&mut self, offset: u64, bytes: usize, site: &'static Site) -> Result<()> {
        self.check(offset, bytes, 1)?;
        self.memory.flush(offset, bytes, site);
        Ok(())
    }

    /// Waits until everything that this arena flushed or streamed is durable.
    #[inline]
    pub fn fence(&mut self, site: &'static Site) -> Result<()> {
        self.memory.fence(site)
    }

    /// Stores bytes on their way to the medium: whole lines bypass the cache, the rest is stored
    /// and flushed. Durable after the next fence.
    #[inline]
    pub fn write_through(&mut self, offset: u64, data: &[u8], site: &'static Site) -> Result<()> {
        self.check(offset, data.len(), 1)?;
        let head = (offset.wrapping_neg() % LINE_BYTES) as usize;
        let lines = data.len().saturating_sub(head) / LINE_BYTES as usize * LINE_BYTES as usize;
        if lines == 0 {
            self.memory.store(offset, data);
            self.memory.flush(offset, data.len(), site);
            return Ok(());
        }
        let (first, rest) = data.split_at(head);
        let (middle, last) = rest.split_at(lines);
        let middle_offset = offset + head as u64;
        self.memory.stream(middle_offset, middle, site);
        if !first.is_empty() {
            self.memory.store(offset, first);
            self.memory.flush(offset, first.len(), site);
        }
        if !last.is_empty() {
            let last_offset = middle_offset + lines as u64;
            self.memory.store(last_offset, last);
            self.memory.flush(last_offset, last.len(), site);
        }
        Ok(())
    }
}
