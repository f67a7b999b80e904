//! Bloom filters: whether a run may have a key, tested before the run is searched.
//!
//! A filter is an array of words. A key sets, and tests, four bits of one word, so a lookup reads
//! one word; at sixteen bits a key the answer is "maybe" for about one in a hundred lookups of an
//! absent key. Filters lie in a volatile arena: they are made while a run is filled and made anew,
//! or left out, after a restart. A run without one is simply searched.

use pmem::{Arena, Memory, Outcome, Owner, Part, PoolIdentity, PoolKind, WordChange};
use storage::Result;
pub use storage::record::key_hash as hash;

/// Kind of the arenas of filters.
const POOL_KIND: PoolKind = PoolKind(0x6669_6c74);
/// Bits of a filter for each key that it is made for.
const KEY_BITS: u64 = 16;
/// A filter is one block of the arena, so it has at most so many words; a larger run gets fewer
/// bits a key.
const WORDS_MAX: u64 = 1 << 21;

/// One run's filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    offset: u64,
    /// A power of two.
    words: u64,
}

/// The volatile arena in which the filters of a partition lie.
pub struct Filters<M: Memory> {
    arena: Arena<M>,
}

/// The bits of a key in its word.
#[inline]
fn bits(hash: u64) -> u64 {
    1 << (hash & 63) | 1 << (hash >> 6 & 63) | 1 << (hash >> 12 & 63) | 1 << (hash >> 18 & 63)
}

impl<M: Memory> Filters<M> {
    /// No filters, in a memory that is lost at restart.
    pub fn new(memory: M) -> Result<Self> {
        let identity = PoolIdentity::unnamed(POOL_KIND);
        Ok(Self {
            arena: Arena::create(memory, &identity)?,
        })
    }

    /// The arena.
    pub(crate) fn arena(&self) -> &Arena<M> {
        &self.arena
    }

    /// An empty filter for so many keys. Fails if there is no space.
    pub fn make(&mut self, keys: u64) -> Result<Filter> {
        let words = (keys * KEY_BITS / 64).max(8).next_power_of_two();
        let words = words.min(WORDS_MAX);
        let owner = Owner {
            part: Part::Index,
            tag: 0,
        };
        let offset = self.arena.reserve(words as usize * 8, owner)?;
        let change = self.arena.activate(offset)?;
        self.apply(change)?;
        self.arena.settle(Outcome::Committed);
        self.arena.enter(Part::Index);
        self.arena.store(offset, &vec![0; words as usize * 8])?;
        Ok(Filter { offset, words })
    }

    /// The words of a filter, as bytes for a file.
    pub fn words(&self, filter: Filter) -> Result<&[u8]> {
        Ok(self.arena.bytes(filter.offset, filter.words as usize * 8)?)
    }

    /// The filter with these words; none if that is no filter.
    pub fn load(&mut self, bytes: &[u8]) -> Result<Option<Filter>> {
        let words = bytes.len() as u64 / 8;
        let is_filter = bytes.len().is_multiple_of(8) && words.is_power_of_two();
        if !is_filter || !(8..=WORDS_MAX).contains(&words) {
            return Ok(None);
        }
        let filter = self.make(words * 64 / KEY_BITS)?;
        self.arena.store(filter.offset, bytes)?;
        Ok(Some(filter))
    }

    /// Gives a filter's space back.
    pub fn free(&mut self, filter: Filter) -> Result<()> {
        let change = self.arena.free(filter.offset)?;
        self.apply(change)?;
        self.arena.settle(Outcome::Committed);
        Ok(())
    }

    /// Adds the key with this hash.
    #[inline]
    pub fn add(&mut self, filter: Filter, hash: u64) -> Result<()> {
        let at = Self::place(filter, hash);
        let old = self.arena.word(at)?;
        let new = old | bits(hash);
        if new != old {
            self.arena.store_word(at, new)?;
        }
        Ok(())
    }

    /// False if the key with this hash was not added.
    #[inline]
    pub fn may_have(&self, filter: Filter, hash: u64) -> Result<bool> {
        let bits = bits(hash);
        Ok(self.arena.word(Self::place(filter, hash))? & bits == bits)
    }

    #[inline]
    fn place(filter: Filter, hash: u64) -> u64 {
        filter.offset + (hash >> 32 & (filter.words - 1)) * 8
    }

    fn apply(&mut self, change: WordChange) -> Result<()> {
        let word = self.arena.word(change.offset)?;
        self.arena.store_word(change.offset, change.apply(word))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmem::MemorySource;
    use pmem::device::simulated::{SimulatedWorld, WorldOptions};

    #[test]
    fn a_filter_never_denies_what_was_added_and_seldom_allows_what_was_not() {
        let world = SimulatedWorld::new(WorldOptions::default());
        let mut filters = Filters::new(world.source().volatile(1 << 20).unwrap()).unwrap();
        let filter = filters.make(10_000).unwrap();
        for key in 0..10_000_u64 {
            filters.add(filter, hash(&[key * 3])).unwrap();
        }
        for key in 0..10_000_u64 {
            assert!(filters.may_have(filter, hash(&[key * 3])).unwrap());
        }
        let wrong = (0..10_000_u64)
            .filter(|key| filters.may_have(filter, hash(&[key * 3 + 1])).unwrap())
            .count();
        assert!(wrong < 300, "{wrong} of 10000");
        filters.free(filter).unwrap();
        assert_eq!(filters.make(10_000).unwrap(), filter, "its space is free");
    }
}
