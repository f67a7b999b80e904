//! Write-backs by a thread that makes durable the stores of others.
//!
//! A [`Flusher`] never stores, so the pool's owner may store at the same time. Lines that it
//! flushes are durable with its own fence, and with no other (M5 of docs/medium.md). It covers the
//! stores that its thread can see: those made before a lock, or an atomic word, that the thread has
//! taken over from the storing thread. A processor orders its write-backs after such a read, and
//! writes back the line as it is then, whichever core has it.

use crate::arena::Arena;
use crate::device::{Counters, Memory, Part, Site};
use crate::error::Result;

/// Starts and awaits write-backs of a memory that has another owner. `Send`, not `Sync`.
pub struct Flusher<M: Memory>(M);

impl<M: Memory> Arena<M> {
    /// A flusher of the pool at its present length. Not every device has one.
    pub fn flusher(&self) -> Result<Flusher<M>> {
        Ok(Flusher(self.memory.share_for_flushes()?))
    }
}

impl<M: Memory> Flusher<M> {
    /// Says to which part of the database the flushes belong.
    pub fn enter(&self, part: Part) {
        self.0.enter(part);
    }

    /// Starts the write-back of every line that the range touches.
    ///
    /// # Panics
    /// If the range leaves the pool as it was when this was made.
    #[inline]
    pub fn flush(&mut self, offset: u64, bytes: usize, site: &'static Site) {
        self.0.flush(offset, bytes, site);
    }

    /// Waits until everything that this value has flushed is durable.
    #[inline]
    pub fn fence(&mut self, site: &'static Site) -> Result<()> {
        self.0.fence(site)
    }

    /// Its counts. An emulated memory counts for all of its handles at its owner.
    pub fn counters(&self) -> Counters {
        self.0.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::simulated::{ImageChoice, SimulatedWorld, WorldOptions};
    use crate::device::{Access, MemorySource, NativeMemory, PageSize};
    use crate::{PoolIdentity, PoolKind, site};

    /// The word at an offset after a power cut that leaves as little as it may.
    fn left(world: &SimulatedWorld, offset: u64) -> u64 {
        let image = world.image(&ImageChoice { units: Vec::new() }).unwrap();
        let found = image.source().open("pool", Access::Read).unwrap();
        let bytes = found.peek(offset, 8);
        u64::from_le_bytes(bytes.try_into().unwrap())
    }

    #[test]
    fn what_the_owner_stores_is_durable_behind_the_fence_of_the_flusher() {
        let world = SimulatedWorld::new(WorldOptions::default());
        let memory = world.source().create("pool", 1 << 18).unwrap();
        let identity = PoolIdentity::unnamed(PoolKind(1));
        let mut arena = Arena::create(memory, &identity).unwrap();
        let mut flusher = arena.flusher().unwrap();
        let (one, other) = (1 << 17, (1 << 17) + 64);
        arena.store_word(one, 7).unwrap();
        arena.store_word(other, 8).unwrap();
        flusher.flush(one, 8, site!("flusher.test"));
        // The owner's fence is not for another one's flushes.
        arena.fence(site!("flusher.test-owner")).unwrap();
        assert_ne!(left(&world, one), 7);
        flusher.fence(site!("flusher.test-fence")).unwrap();
        assert_eq!(left(&world, one), 7);
        assert_ne!(left(&world, other), 8);
    }

    #[test]
    #[should_panic(expected = "open for reading only")]
    fn nothing_is_stored_through_it() {
        let memory = NativeMemory::volatile(4096, PageSize::Base).unwrap();
        let mut handle = memory.share_for_flushes().unwrap();
        handle.store(0, &[1]);
    }
}
