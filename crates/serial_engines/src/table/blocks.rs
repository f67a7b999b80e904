//! The blocks that a deep check meets, held against those that the heap calls allocated.
//!
//! Each block in use must be met exactly once and be allocated, and nothing else may be allocated.
//! The blocks are gathered in a list and sorted once: a crash search checks millions of small
//! partitions, and a set that is kept in order block by block takes longer than all the rest of the
//! comparison.

use pmem::{Arena, Memory};
use storage::engine::VerifyReport;

/// Offsets of the blocks that were met so far, in that order.
#[derive(Default)]
pub(crate) struct BlocksInUse {
    offsets: Vec<u64>,
}

impl BlocksInUse {
    /// Notes a block in use.
    #[inline]
    pub(crate) fn meet(&mut self, offset: u64) {
        self.offsets.push(offset);
    }

    /// Reports blocks that were met more than once, leaked ones, free ones that are in use, and how
    /// many are allocated.
    pub(crate) fn compare<M: Memory>(mut self, arena: &Arena<M>, report: &mut VerifyReport) {
        self.offsets.sort_unstable();
        let pairs = self.offsets.windows(2);
        let twice = pairs.filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
        let text = |at| format!("the block at offset {at} is used twice");
        report.damage.extend(twice.map(text));
        self.offsets.dedup();
        debug_assert!(
            self.offsets.is_sorted(),
            "blocks are compared in the order of the heap"
        );
        let mut met = self.offsets.iter().copied().peekable();
        let (mut blocks, mut leaked, mut free) = (0, Vec::new(), Vec::new());
        let walked = arena.for_each_allocated(|block| {
            blocks += 1;
            while let Some(at) = met.next_if(|&at| at < block.offset) {
                free.push(at);
            }
            if met.next_if_eq(&block.offset).is_none() {
                leaked.push(block.offset);
            }
            Ok(())
        });
        if let Err(error) = walked {
            report.damage.push(error.to_string());
            return;
        }
        report.blocks = blocks;
        free.extend(met);
        let leaked = leaked.iter();
        let leaked = leaked.map(|at| format!("the block at offset {at} is leaked"));
        let free = free.iter();
        let free = free.map(|at| format!("the block at offset {at} is in use but free"));
        report.damage.extend(leaked.chain(free));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmem::device::simulated::{SimulatedWorld, WorldOptions};
    use pmem::{MemorySource, Outcome, Owner, POOL_BYTES_MIN, Part, PoolIdentity, PoolKind};

    #[test]
    fn each_kind_of_difference_is_reported_with_its_block() {
        let world = SimulatedWorld::new(WorldOptions::default());
        let memory = world.source().volatile(POOL_BYTES_MIN).unwrap();
        let identity = PoolIdentity::unnamed(PoolKind(1));
        let mut arena = Arena::create(memory, &identity).unwrap();
        let owner = Owner {
            part: Part::Other,
            tag: 0,
        };
        let mut allocated = Vec::new();
        for bytes in [8, 8, 64, 20_000] {
            let block = arena.reserve(bytes, owner).unwrap();
            let change = arena.activate(block).unwrap();
            let before = arena.word(change.offset).unwrap();
            arena
                .store_word(change.offset, change.apply(before))
                .unwrap();
            allocated.push(block);
        }
        arena.settle(Outcome::Committed);
        let check = |met: &[u64]| {
            let (mut blocks, mut report) = (BlocksInUse::default(), VerifyReport::default());
            for &block in met {
                blocks.meet(block);
            }
            blocks.compare(&arena, &mut report);
            assert_eq!(report.blocks, 4);
            report.damage
        };
        let [a, b, c, d] = allocated[..] else {
            panic!("four blocks were made");
        };
        assert_eq!(check(&[d, a, c, b]), Vec::<String>::new());
        let unused = c + 64;
        assert_eq!(
            check(&[d, c, a, d, unused]),
            [
                format!("the block at offset {d} is used twice"),
                format!("the block at offset {b} is leaked"),
                format!("the block at offset {unused} is in use but free"),
            ]
        );
    }
}
