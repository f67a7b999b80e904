//! Learning the heap after opening, bit by bit.
//!
//! A pool opens without reading any table. Blocks that were reserved and never activated are free,
//! because nothing on the medium names them; so there is nothing to undo, only to learn. A cursor
//! walks from head to head, a few at each allocation that finds no room; a free loads the run it
//! concerns. Logs have been undone by then, so words are settled.

use crate::arena::Arena;
use crate::device::{LINE_BYTES, Memory};
use crate::error::Result;
use crate::heap::classes::{Geometry, RunId};
use crate::heap::extents::Range;
use crate::heap::table::{self, Entry};
use crate::heap::{Owner, not_a_block};
use crate::site;

/// Heads that one allocation reads at most before it looks again.
const HEADS_PER_STEP: u32 = 64;

impl<M: Memory> Arena<M> {
    /// The table's entry at the head `chunk`.
    pub(super) fn entry(&self, chunk: u32) -> Result<Entry> {
        let word = self.word(table::word_offset(chunk))?;
        Entry::decode(word, chunk, self.heap.chunk_count)
    }

    /// The bitmap of a run.
    pub(super) fn bitmap(&self, chunk: u32, geometry: Geometry) -> Result<&[u64]> {
        debug_assert!(
            !chunk.is_multiple_of(table::ZONE_CHUNKS),
            "a chunk of tables has no bitmap"
        );
        self.slice::<u64>(table::chunk_offset(chunk), geometry.bitmap_words as usize)
    }

    /// Reads the next heads: notes free ranges and runs with room.
    ///
    /// Their words are flushed: words that a killed process stored and did not flush would else be
    /// read here and never become durable. The fence before their first use, or before the commit
    /// of a change inside, covers it.
    pub(super) fn advance_cursor(&mut self) -> Result<()> {
        let mut flushed = u64::MAX;
        for _ in 0..HEADS_PER_STEP {
            let chunk = self.heap.cursor;
            if chunk >= self.heap.chunk_count {
                break;
            }
            let word = table::word_offset(chunk);
            if word / LINE_BYTES != flushed {
                flushed = word / LINE_BYTES;
                self.flush(word, 8, site!("heap.learn"))?;
                self.heap.unfenced = true;
            }
            let entry = self.entry(chunk)?;
            match entry {
                // An extent that the open transaction freed looks free and is not, until that is
                // settled; nor is one that is held back, until it is released.
                Entry::Free { chunks } if !self.heap.is_spoken_for(chunk) => {
                    self.heap.free.insert(Range {
                        start: chunk,
                        chunks,
                    });
                }
                Entry::Run { block_bytes, owner } => {
                    let known = self.heap.classes.run_in(chunk).is_some();
                    let geometry = Geometry::new(block_bytes);
                    if !known && !is_full(self.bitmap(chunk, geometry)?, geometry) {
                        self.note_run(chunk, block_bytes, owner)?;
                    }
                }
                _ => {}
            }
            self.heap.cursor = chunk + entry.chunks();
            assert!(
                self.heap.cursor > chunk && self.heap.cursor <= self.heap.chunk_count,
                "the chain of a table does not end with its pool"
            );
        }
        Ok(())
    }

    /// Notes the run in `chunk`, where a block at `offset` is to be freed; `None` if the chunk is
    /// no run.
    #[cold]
    pub(super) fn load_run(&mut self, chunk: u32, offset: u64) -> Result<Option<RunId>> {
        if offset == table::chunk_offset(chunk) || self.heap.pending.contains_key(&chunk) {
            // A run starts with its bitmap, so only an extent can start there.
            return Ok(None);
        }
        match self.entry(chunk)? {
            Entry::Run { block_bytes, owner } => self.note_run(chunk, block_bytes, owner).map(Some),
            _ => Err(not_a_block(offset, "changed, but no block starts there")),
        }
    }

    fn note_run(&mut self, chunk: u32, block_bytes: u32, owner: Owner) -> Result<RunId> {
        let class = self.heap.classes.class_of(block_bytes, owner);
        let geometry = self.heap.classes.class(class).geometry;
        let words = self.bitmap(chunk, geometry)?.to_vec();
        Ok(self.heap.classes.add_run(chunk, class, &words))
    }
}

fn is_full(words: &[u64], geometry: Geometry) -> bool {
    words.iter().map(|word| word.count_ones()).sum::<u32>() >= geometry.blocks
}
