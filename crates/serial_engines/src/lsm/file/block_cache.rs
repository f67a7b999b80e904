//! Blocks of runs in volatile memory: a block that was found intact need not be read from its file
//! again.
//!
//! The frames are an arena like everything else, so that emulation counts and delays their
//! accesses. When the cache is full a clock hand looks for a block that nobody has used since the
//! hand last passed.
//!
//! Invariants:
//! 1. A frame holds one block, whose checksum was right when it was put there. Runs never change,
//!    and their numbers are given once, so what is here is never stale; blocks of runs that are
//!    gone are replaced like others.
//! 2. A run remembers where its blocks were put; the cache says whether they still are there. So
//!    neither has to be told what the other forgets.

use pmem::{Arena, Counters, Memory, Owner, Part, PoolIdentity, PoolKind};
use storage::Result;

/// Kind of the arenas of caches.
const POOL_KIND: PoolKind = PoolKind(0x6c6f_6763);
/// Bytes of a frame. Longer blocks, which hold long entries, are not kept.
const FRAME_BYTES: usize = 3584;
/// Bytes of one prefetch.
const PREFETCH_BYTES: usize = 128;
/// Frames that are reserved together.
const BATCH: usize = 16;

/// A block in a frame.
struct Cached {
    run: u64,
    block: usize,
    frame: u64,
    bytes: usize,
    /// Whether it was used since the hand last passed.
    used: bool,
}

/// The cache of one partition.
pub(crate) struct BlockCache<M: Memory> {
    arena: Arena<M>,
    blocks: Vec<Cached>,
    free: Vec<u64>,
    hand: usize,
    frames_max: usize,
}

impl<M: Memory> BlockCache<M> {
    /// An empty cache of about so many bytes at most, and of at least one block, in a volatile
    /// memory.
    pub(crate) fn new(memory: M, bytes_max: u64) -> Result<Self> {
        let identity = PoolIdentity::unnamed(POOL_KIND);
        Ok(Self {
            arena: Arena::create(memory, &identity)?,
            blocks: Vec::new(),
            free: Vec::new(),
            hand: 0,
            frames_max: (bytes_max as usize / FRAME_BYTES).max(1),
        })
    }

    /// Counts of the cache's memory.
    pub(crate) fn counters(&self) -> Counters {
        self.arena.counters()
    }

    /// Bytes of the frames in use.
    pub(crate) fn bytes(&self) -> u64 {
        (self.blocks.len() * FRAME_BYTES) as u64
    }

    /// The block of a run, if it still is where it was put; it counts as used.
    #[inline]
    pub(crate) fn get(&mut self, slot: u32, run: u64, block: usize) -> Result<Option<&[u8]>> {
        let Some(cached) = self.blocks.get_mut(slot as usize) else {
            return Ok(None);
        };
        if cached.run != run || cached.block != block {
            return Ok(None);
        }
        cached.used = true;
        self.arena.enter(Part::Table);
        Ok(Some(self.arena.bytes(cached.frame, cached.bytes)?))
    }

    /// Prefetches the beginning and the middle of a slot's block, where searches begin.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        if let Some(cached) = self.blocks.get(slot as usize) {
            let middle = cached.frame + (cached.bytes / 2) as u64;
            self.arena.prefetch(cached.frame, PREFETCH_BYTES);
            self.arena.prefetch(middle, PREFETCH_BYTES);
        }
    }

    /// Keeps a block that is whole; where it was put, or none if it is too long or there is no
    /// space.
    pub(crate) fn put(&mut self, run: u64, block: usize, bytes: &[u8]) -> Result<Option<u32>> {
        if bytes.len() > FRAME_BYTES {
            return Ok(None);
        }
        let Some(slot) = self.slot() else {
            return Ok(None);
        };
        self.arena.enter(Part::Table);
        let cached = &mut self.blocks[slot];
        (cached.run, cached.block, cached.bytes) = (run, block, bytes.len());
        cached.used = true;
        self.arena.store(cached.frame, bytes)?;
        Ok(u32::try_from(slot).ok())
    }

    /// A slot for a block: a new one, or that of a block that was not used for long.
    fn slot(&mut self) -> Option<usize> {
        if self.blocks.len() < self.frames_max
            && let Some(frame) = self.frame()
        {
            self.blocks.push(Cached {
                run: 0,
                block: 0,
                frame,
                bytes: 0,
                used: false,
            });
            return Some(self.blocks.len() - 1);
        }
        if self.blocks.is_empty() {
            return None;
        }
        loop {
            self.hand = (self.hand + 1) % self.blocks.len();
            if !std::mem::take(&mut self.blocks[self.hand].used) {
                return Some(self.hand);
            }
        }
    }

    /// An unused frame; none if the memory is full.
    fn frame(&mut self) -> Option<u64> {
        if self.free.is_empty() {
            let owner = Owner {
                part: Part::Table,
                tag: 0,
            };
            let frames = BATCH.min(self.frames_max - self.blocks.len());
            let first = self.arena.reserve(FRAME_BYTES * frames, owner).ok()?;
            let frames = (0..frames).rev();
            self.free
                .extend(frames.map(|index| first + (index * FRAME_BYTES) as u64));
        }
        self.free.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmem::MemorySource;
    use pmem::device::simulated::{SimulatedWorld, WorldOptions};

    #[test]
    fn a_block_is_there_until_its_frame_is_needed_and_never_taken_for_another() {
        let world = SimulatedWorld::new(WorldOptions::default());
        let mut cache =
            BlockCache::new(world.source().volatile(1 << 20).unwrap(), 4 * 3600).unwrap();
        let slots: Vec<u32> = (0..4_u8)
            .map(|block| {
                let put = cache.put(7, block.into(), &[block; 100]).unwrap();
                put.unwrap()
            })
            .collect();
        for (block, &slot) in slots.iter().enumerate() {
            let found = cache.get(slot, 7, block).unwrap();
            assert_eq!(found, Some(&[block as u8; 100][..]));
        }
        assert_eq!(cache.get(slots[0], 8, 0).unwrap(), None, "another run");
        assert_eq!(cache.get(slots[0], 7, 1).unwrap(), None, "another block");
        assert_eq!(cache.get(99, 7, 1).unwrap(), None);
        let slot = cache.put(8, 0, &[9; 3000]).unwrap().unwrap();
        assert_eq!(cache.get(slot, 8, 0).unwrap(), Some(&[9; 3000][..]));
        let left = slots.iter().zip(0_usize..);
        let left = left.filter(|&(&slot, block)| cache.get(slot, 7, block).unwrap().is_some());
        assert_eq!(left.count(), 3, "one of them gave its frame");
        assert_eq!(cache.put(8, 1, &[0; FRAME_BYTES + 1]).unwrap(), None);
    }
}
