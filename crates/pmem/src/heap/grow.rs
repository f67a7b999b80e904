//! Where new room comes from: known free chunks, then more of the pool, then more of the medium.
//!
//! Each step leads from one whole chunk table to another by one aligned word, and nothing that a
//! word leads to is unfenced when the word is stored. So a crash at any point leaves a table in
//! which at most free chunks are cut differently. None of these words is ever undone.
//!
//! An empty run that becomes a free chunk may be cut differently at once. What a log's recovery
//! would store again in one of its former blocks could then be a bitmap. So the log is asked first
//! ([`BeforeRetiring`]).

use crate::arena::Arena;
use crate::device::Memory;
use crate::error::{PmemError, Result};
use crate::heap::classes::{BITMAP_WORDS_MAX, ClassId, RunId, Spare};
use crate::heap::extents::Range;
use crate::heap::table::{self, CHUNK_BYTES, CHUNKS_MAX, Entry, HEADER_BYTES, ZONE_CHUNKS};
use crate::pool::store_header;
use crate::site;

/// The step of a log before empty runs become free chunks: from then on its recovery stores nothing
/// into blocks that have been freed.
pub(super) type BeforeRetiring<'b, M> = &'b mut dyn FnMut(&mut Arena<M>) -> Result<()>;

/// A pool grows by an eighth of itself, within these bounds.
const GROWTH_BYTES_MIN: u64 = 256 << 10;
const GROWTH_BYTES_MAX: u64 = 64 << 20;

/// Writes the chunk tables of a new pool. Durable when it returns.
pub(crate) fn format<M: Memory>(memory: &mut M, pool_bytes: u64) -> Result<()> {
    format_chunks(memory, 0, table::chunk_count(pool_bytes))
}

/// Writes the table words that make `start..end` free, with a table where a zone begins. Durable
/// when it returns.
fn format_chunks<M: Memory>(memory: &mut M, start: u32, end: u32) -> Result<()> {
    let mut chunk = start;
    while chunk < end {
        let entry = if chunk.is_multiple_of(ZONE_CHUNKS) {
            Entry::Table
        } else {
            let zone_rest = ZONE_CHUNKS - chunk % ZONE_CHUNKS;
            Entry::Free {
                chunks: zone_rest.min(end - chunk),
            }
        };
        memory.store_word(table::word_offset(chunk), entry.encode(chunk));
        memory.flush(table::word_offset(chunk), 8, site!("heap.grow-table"));
        chunk += entry.chunks();
    }
    assert_eq!(chunk, end, "the tables do not end with the pool");
    memory.fence(site!("heap.grow-table-fence"))
}

/// Least chunks of a pool that has a free row of `chunks` in one zone, where it has `count` now, of
/// which the last `free` are free.
fn grown_count(count: u32, free: u32, chunks: u32) -> u64 {
    let zone_rest = (ZONE_CHUNKS - count % ZONE_CHUNKS) % ZONE_CHUNKS;
    let count = u64::from(count);
    if chunks <= zone_rest + free {
        count + u64::from(chunks.saturating_sub(free))
    } else {
        count + u64::from(zone_rest) + 1 + u64::from(chunks)
    }
}

impl<M: Memory> Arena<M> {
    /// Takes a block of a class of which no known run has room.
    #[cold]
    pub(super) fn take_after_refill(
        &mut self,
        class: ClassId,
        before: BeforeRetiring<'_, M>,
    ) -> Result<(RunId, u32)> {
        if self.heap.cursor < self.heap.chunk_count {
            self.advance_cursor()?;
        }
        loop {
            if let Some(found) = self.heap.classes.take(class) {
                return Ok(found);
            }
            match self.heap.free.take(1) {
                Some(range) => self.make_run(range, class)?,
                None => self.find_room(1, before)?,
            }
        }
    }

    /// Takes a row of free chunks whose table word says so alone, and gives the first.
    pub(super) fn take_extent(
        &mut self,
        chunks: u32,
        before: BeforeRetiring<'_, M>,
    ) -> Result<u32> {
        loop {
            match self.heap.free.take(chunks) {
                Some(range) => return self.cut_extent(range, chunks),
                None => self.find_room(chunks, before)?,
            }
        }
    }

    /// Makes a new run in the first chunk of a free range; the rest stays free.
    fn make_run(&mut self, range: Range, class: ClassId) -> Result<()> {
        let chunk = range.start;
        assert!(
            self.heap.classes.run_in(chunk).is_none(),
            "a run is made where there is one"
        );
        let (geometry, owner) = {
            let class = self.heap.classes.class(class);
            (class.geometry, class.owner)
        };
        self.heap.changes += 1;
        let bitmap = &[0_u64; BITMAP_WORDS_MAX][..geometry.bitmap_words as usize];
        let bitmap_offset = table::chunk_offset(chunk);
        for index in 0..bitmap.len() as u64 {
            self.store_word(bitmap_offset + index * 8, 0)?;
        }
        self.flush(bitmap_offset, bitmap.len() * 8, site!("heap.run-bitmap"))?;
        let rest = self.write_rest(range, 1)?;
        self.fence(site!("heap.run-bitmap-fence"))?;
        self.heap.unfenced = false;
        let entry = Entry::Run {
            block_bytes: geometry.block_bytes,
            owner,
        };
        self.store_word(table::word_offset(chunk), entry.encode(chunk))?;
        self.flush(table::word_offset(chunk), 8, site!("heap.run-word"))?;
        self.heap.classes.add_run(chunk, class, bitmap);
        if let Some(rest) = rest {
            self.heap.free.insert(rest);
        }
        Ok(())
    }

    fn cut_extent(&mut self, range: Range, chunks: u32) -> Result<u32> {
        assert!(
            range.chunks >= chunks,
            "a range is too short for its extent"
        );
        self.heap.changes += 1;
        let chunk = range.start;
        let rest = self.write_rest(range, chunks)?;
        if rest.is_some() || self.heap.unfenced {
            self.fence(site!("heap.extent-rest-fence"))?;
            self.heap.unfenced = false;
        }
        let word = Entry::Free { chunks }.encode(chunk);
        if self.word(table::word_offset(chunk))? != word {
            self.store_word(table::word_offset(chunk), word)?;
            self.flush(table::word_offset(chunk), 8, site!("heap.extent-word"))?;
        }
        if let Some(rest) = rest {
            self.heap.free.insert(rest);
        }
        Ok(chunk)
    }

    /// Writes the word of the rest of `range` after its first `chunks`. It means nothing until the
    /// word of the first chunk leads to it, which is stored after the next fence.
    fn write_rest(&mut self, range: Range, chunks: u32) -> Result<Option<Range>> {
        if range.chunks == chunks {
            return Ok(None);
        }
        debug_assert!(range.chunks > chunks, "a range has no rest");
        let rest = Range {
            start: range.start + chunks,
            chunks: range.chunks - chunks,
        };
        let word = Entry::Free {
            chunks: rest.chunks,
        }
        .encode(rest.start);
        let at = table::word_offset(rest.start);
        // An extent that is reserved and given back, again and again, finds the word, and a line
        // that was not changed does not wear. But a process that died may not have flushed it.
        if self.word(at)? != word {
            self.store_word(at, word)?;
        }
        self.flush(at, 8, site!("heap.rest-word"))?;
        Ok(Some(rest))
    }

    /// One step towards a row of `chunks` free chunks: reads on in the tables, else gives back
    /// empty runs, else grows.
    fn find_room(&mut self, chunks: u32, before: BeforeRetiring<'_, M>) -> Result<()> {
        if self.heap.cursor < self.heap.chunk_count {
            return self.advance_cursor();
        }
        for spare in [Spare::OneAClass, Spare::None] {
            if self.retire_runs(spare, before)? {
                return Ok(());
            }
        }
        self.grow(chunks)
    }

    /// Makes empty runs free chunks. Says whether there were any.
    fn retire_runs(&mut self, spare: Spare, before: BeforeRetiring<'_, M>) -> Result<bool> {
        if self.heap.rolled_back {
            // Undo records of the open transaction may name bitmap words of runs that look empty
            // now.
            return Ok(false);
        }
        if !self.heap.classes.can_retire(spare) {
            return Ok(false);
        }
        before(self)?;
        let mut found = false;
        while let Some(chunk) = self.heap.classes.retire(spare) {
            let word = Entry::Free { chunks: 1 }.encode(chunk);
            self.store_word(table::word_offset(chunk), word)?;
            self.flush(table::word_offset(chunk), 8, site!("heap.run-release"))?;
            self.heap.unfenced = true;
            self.heap.changes += 1;
            self.heap.release_range(Range {
                start: chunk,
                chunks: 1,
            });
            found = true;
        }
        Ok(found)
    }

    /// Makes the pool longer by at least a row of `chunks`. The space is allocated first, its table
    /// is durable before the header counts it, and a failure changes nothing.
    fn grow(&mut self, chunks: u32) -> Result<()> {
        let count = self.heap.chunk_count;
        let least = grown_count(count, self.heap.free.before(count), chunks);
        let step_bytes = (self.header.pool_bytes / 8).clamp(GROWTH_BYTES_MIN, GROWTH_BYTES_MAX);
        let stepped = u64::from(count) + step_bytes / CHUNK_BYTES;
        let wanted = least.max(stepped).min(CHUNKS_MAX - 1);
        if least > wanted {
            return Err(PmemError::OutOfSpace {
                wanted_bytes: u64::from(chunks) * CHUNK_BYTES,
                limit: format!("a pool has at most {} bytes", CHUNKS_MAX * CHUNK_BYTES),
            });
        }
        let bytes_of = |count: u64| HEADER_BYTES + count * CHUNK_BYTES;
        let grown = match self.memory.grow(bytes_of(wanted)) {
            Err(PmemError::OutOfSpace { .. }) if least < wanted => {
                self.memory.grow(bytes_of(least))?;
                least
            }
            result => result.map(|()| wanted)?,
        };
        assert!(grown > u64::from(count), "a pool has not grown");
        format_chunks(&mut self.memory, count, grown as u32)?;
        self.header.pool_bytes = bytes_of(grown);
        debug_assert_eq!(
            u64::from(table::chunk_count(self.header.pool_bytes)),
            grown,
            "the header counts other chunks than the table"
        );
        // commit point: with the header's new size the chunks belong to the pool.
        store_header(&mut self.memory, &mut self.header)?;
        self.heap.chunk_count = grown as u32;
        self.heap.classes.cover(grown as u32);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_leaves_room_for_a_row_in_one_zone() {
        assert_eq!(grown_count(2, 0, 1), 3);
        assert_eq!(grown_count(2, 1, 2), 3);
        assert_eq!(grown_count(2, 0, 2046), 2048);
        assert_eq!(grown_count(2, 0, 2047), 2048 + 2048);
        assert_eq!(grown_count(2, 1, 2047), 2048);
        assert_eq!(grown_count(2048, 0, 1), 2050);
        assert_eq!(grown_count(2048, 5, 6), 2048 + 7);
        assert_eq!(grown_count(2047, 0, 1), 2048);
    }
}
