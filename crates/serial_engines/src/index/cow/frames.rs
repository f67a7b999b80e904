//! Volatile memory cut into frames of one page each, for dirty pages and for the cache of a file's
//! pages.
//!
//! Frames are an arena like everything else, so that emulation counts and delays their accesses.
//! They come from extents of many frames and are never returned to the arena, only to the free
//! list. Nothing here survives a restart.

use super::node::PageView;
use pmem::{Arena, Memory, Owner, Part, PoolIdentity, PoolKind};
use storage::Result;

/// Kind of the arenas that hold frames.
const POOL_KIND: PoolKind = PoolKind(0x6672_616d);
/// Frames that are reserved together.
const BATCH: usize = 16;

/// The frames of one partition.
pub struct Frames<M: Memory> {
    arena: Arena<M>,
    page_bytes: usize,
    free: Vec<u64>,
}

impl<M: Memory> Frames<M> {
    /// No frames yet, of `page_bytes` each, in a volatile memory.
    pub fn new(memory: M, page_bytes: usize) -> Result<Self> {
        let identity = PoolIdentity::unnamed(POOL_KIND);
        Ok(Self {
            arena: Arena::create(memory, &identity)?,
            page_bytes,
            free: Vec::new(),
        })
    }

    /// Takes a frame; its content is arbitrary. Fails if the memory is full.
    pub fn take(&mut self) -> Result<u64> {
        if let Some(frame) = self.free.pop() {
            return Ok(frame);
        }
        let owner = Owner {
            part: Part::Index,
            tag: 0,
        };
        let bytes = self.page_bytes.next_multiple_of(64);
        let first = self.arena.reserve(bytes * BATCH, owner)?;
        self.free
            .extend((1..BATCH).rev().map(|index| first + (index * bytes) as u64));
        Ok(first)
    }

    /// Gives a frame back.
    pub fn give(&mut self, frame: u64) {
        self.free.push(frame);
    }

    /// The content of a frame.
    #[inline]
    pub fn view(&self, frame: u64) -> PageView<'_, M> {
        PageView::new(&self.arena, frame)
    }

    /// Asks for the line with a byte of a frame ahead of its use.
    #[inline]
    pub fn prefetch(&self, frame: u64, byte: usize) {
        self.arena.prefetch(frame + byte as u64, 1);
    }

    /// Changes bytes of a frame.
    #[inline]
    pub fn store(&mut self, frame: u64, offset: usize, bytes: &[u8]) -> Result<()> {
        Ok(self.arena.store(frame + offset as u64, bytes)?)
    }

    /// Counters of the memory.
    pub fn counters(&self) -> pmem::Counters {
        self.arena.counters()
    }
}
