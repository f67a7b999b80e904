//! Whole scans of the heap for checks and reports.
//!
//! They read the medium, from the first table word to the last, and need no bookkeeping. A damaged
//! word is an error with its place. Their time grows with the pool; nothing on a transaction's path
//! calls them.

use crate::arena::Arena;
use crate::device::{Memory, Part};
use crate::error::{PmemError, Result};
use crate::heap::classes::{Geometry, RunId};
use crate::heap::table::{self, CHUNK_BYTES, Entry, HEADER_BYTES, ZONE_CHUNKS};
use crate::heap::{Action, Owner, not_a_block};

/// An allocated block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    /// Where it starts in the pool.
    pub offset: u64,
    /// Its bytes: the requested size, rounded up.
    pub bytes: u64,
    /// For whom it is.
    pub owner: Owner,
}

/// State of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Its bytes: the requested size, rounded up.
    pub bytes: u64,
    /// For whom it is.
    pub owner: Owner,
    /// The stage of its life.
    pub state: BlockState,
}

/// The stage of a block's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockState {
    /// Nobody uses it.
    Free,
    /// Reserved by the open transaction, and its change is not made.
    Reserved,
    /// The medium says that it is in use.
    Allocated,
    /// The open transaction has freed it.
    Freed,
}

/// Use of a pool's bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of allocated blocks, a row a part in the order of [`Part::ALL`].
    pub allocated_bytes: [u64; Part::ALL.len()],
    /// Bytes of the chunks that hold these blocks, free blocks between them included, in the same
    /// order.
    pub held_bytes: [u64; Part::ALL.len()],
    /// Bytes of chunks that nobody uses.
    pub free_bytes: u64,
    /// Bytes of the header and the chunk tables.
    pub metadata_bytes: u64,
}

impl<M: Memory> Arena<M> {
    /// State of the block that starts at `offset`. Fails if no block can start there. Takes up to
    /// one pass over the table of one zone.
    pub fn block(&self, offset: u64) -> Result<BlockInfo> {
        let chunk = table::chunk_at(offset, self.heap.chunk_count)
            .ok_or_else(|| not_a_block(offset, "looked up, but it lies outside the heap"))?;
        if let Some(pending) = self.heap.pending.get(&chunk)
            && offset == table::chunk_offset(chunk)
        {
            let state = if pending.freed {
                BlockState::Freed
            } else if matches!(self.entry(chunk)?, Entry::Extent { .. }) {
                BlockState::Allocated
            } else {
                BlockState::Reserved
            };
            let bytes = u64::from(pending.chunks) * CHUNK_BYTES;
            return Ok(BlockInfo {
                bytes,
                owner: pending.owner,
                state,
            });
        }
        match self.covering(chunk)? {
            (head, Entry::Extent { chunks, owner }) if offset == table::chunk_offset(head) => {
                let bytes = u64::from(chunks) * CHUNK_BYTES;
                Ok(BlockInfo {
                    bytes,
                    owner,
                    state: BlockState::Allocated,
                })
            }
            (_, Entry::Run { block_bytes, owner }) => {
                let state = self.state_in_run(chunk, block_bytes, offset)?;
                Ok(BlockInfo {
                    bytes: u64::from(block_bytes),
                    owner,
                    state,
                })
            }
            _ => Err(not_a_block(offset, "looked up, but no block starts there")),
        }
    }

    /// All blocks that the medium calls allocated, by rising offset.
    pub fn allocated(&self) -> Result<Vec<Block>> {
        let mut blocks = Vec::new();
        self.for_each_allocated(|block| {
            blocks.push(block);
            Ok(())
        })?;
        Ok(blocks)
    }

    /// Visits the blocks of [`Arena::allocated`] one by one. Stops at the first damage or error of
    /// `visit`.
    pub fn for_each_allocated(&self, mut visit: impl FnMut(Block) -> Result<()>) -> Result<()> {
        self.walk(|chunk, entry| match entry {
            Entry::Table | Entry::Free { .. } => Ok(()),
            Entry::Extent { chunks, owner } => visit(Block {
                offset: table::chunk_offset(chunk),
                bytes: u64::from(chunks) * CHUNK_BYTES,
                owner,
            }),
            Entry::Run { block_bytes, owner } => {
                let geometry = Geometry::new(block_bytes);
                let words = self.checked_bitmap(chunk, geometry)?;
                for (&word, first) in words.iter().zip((0..).step_by(64)) {
                    let mut rest = word;
                    while rest != 0 {
                        let block = first + rest.trailing_zeros();
                        rest &= rest - 1;
                        let inside = u64::from(geometry.first + block * block_bytes);
                        visit(Block {
                            offset: table::chunk_offset(chunk) + inside,
                            bytes: u64::from(block_bytes),
                            owner,
                        })?;
                    }
                }
                Ok(())
            }
        })
    }

    /// Use of the pool's bytes, by a scan of all tables and bitmaps.
    pub fn footprint(&self) -> Result<Footprint> {
        let mut footprint = Footprint {
            metadata_bytes: HEADER_BYTES,
            ..Footprint::default()
        };
        self.walk(|chunk, entry| {
            let bytes = u64::from(entry.chunks()) * CHUNK_BYTES;
            match entry {
                Entry::Table => footprint.metadata_bytes += bytes,
                Entry::Free { .. } => footprint.free_bytes += bytes,
                Entry::Extent { owner, .. } => {
                    footprint.allocated_bytes[owner.part as usize] += bytes;
                    footprint.held_bytes[owner.part as usize] += bytes;
                }
                Entry::Run { block_bytes, owner } => {
                    let words = self.checked_bitmap(chunk, Geometry::new(block_bytes))?;
                    let blocks: u32 = words.iter().map(|word| word.count_ones()).sum();
                    footprint.allocated_bytes[owner.part as usize] +=
                        u64::from(blocks) * u64::from(block_bytes);
                    footprint.held_bytes[owner.part as usize] += bytes;
                }
            }
            Ok(())
        })?;
        Ok(footprint)
    }

    /// Goes from head to head through all tables.
    fn walk(&self, mut visit: impl FnMut(u32, Entry) -> Result<()>) -> Result<()> {
        let mut chunk = 0;
        while chunk < self.heap.chunk_count {
            let entry = self.entry(chunk)?;
            visit(chunk, entry)?;
            chunk += entry.chunks();
        }
        debug_assert_eq!(chunk, self.heap.chunk_count, "the chain of a table goes on");
        Ok(())
    }

    /// The head whose chunks contain `chunk`, and its entry.
    fn covering(&self, chunk: u32) -> Result<(u32, Entry)> {
        let mut head = chunk - chunk % ZONE_CHUNKS;
        if self.heap.classes.run_in(chunk).is_some() {
            head = chunk;
        }
        loop {
            debug_assert!(head <= chunk, "the head of a chunk comes after it");
            let entry = self.entry(head)?;
            if chunk < head + entry.chunks() {
                return Ok((head, entry));
            }
            head += entry.chunks();
        }
    }

    fn state_in_run(&self, chunk: u32, block_bytes: u32, offset: u64) -> Result<BlockState> {
        let geometry = Geometry::new(block_bytes);
        let inside = (offset - table::chunk_offset(chunk)) as u32;
        let block = geometry
            .block_at(inside)
            .ok_or_else(|| not_a_block(offset, "looked up, but no block starts there"))?;
        let bit = self.bitmap(chunk, geometry)?[block as usize / 64] >> (block % 64) & 1;
        let run = self.heap.classes.run_in(chunk);
        let did = |wanted: fn(RunId, u32) -> Action| {
            run.is_some_and(|run| self.heap.actions.contains(&wanted(run, block)))
        };
        Ok(if did(Action::BlockFreed) {
            BlockState::Freed
        } else if bit == 1 {
            BlockState::Allocated
        } else if did(Action::BlockReserved) {
            BlockState::Reserved
        } else {
            BlockState::Free
        })
    }

    fn checked_bitmap(&self, chunk: u32, geometry: Geometry) -> Result<&[u64]> {
        let words = self.bitmap(chunk, geometry)?;
        let used = geometry.blocks % 64;
        let last = words[words.len() - 1];
        if used != 0 && last >> used != 0 {
            let detail = format!("bits behind the last of {} blocks are set", geometry.blocks);
            return Err(PmemError::corrupted(
                "run bitmap",
                table::chunk_offset(chunk),
                detail,
            ));
        }
        Ok(words)
    }
}
