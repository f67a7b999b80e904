//! Runs: chunks cut into blocks of one size and one owner.
//!
//! A run starts with a bitmap, one bit a block, and nothing else; a set bit is an allocated block.
//! In DRAM a run that was met has a second bitmap of *taken* blocks: allocated, reserved, or freed
//! and not yet settled. A block is handed out only if it is not taken. A class lists its runs that
//! have room; the run that got a block back last is used first, because its bitmap line is still in
//! the cache.

use crate::device::arch;
use crate::heap::owner::Owner;
use crate::heap::table::{CHUNK_BYTES, chunk_at, chunk_count, chunk_offset};
use std::collections::BTreeMap;

/// Largest block that shares its chunk with others. Longer ones are extents of whole chunks.
pub const BLOCK_BYTES_MAX: usize = 8128;

/// Up to this size blocks are as long as asked, to 8 bytes; above, to a line.
const EXACT_BYTES_MAX: usize = 1024;
const LINE_BYTES: u32 = crate::device::LINE_BYTES as u32;
const NONE: u32 = u32::MAX;
/// Runs for which there is room from the first one on: as many as a small pool has.
const FIRST_RUNS: usize = 32;
/// Words of the longest bitmap: a chunk of the shortest blocks.
pub(crate) const BITMAP_WORDS_MAX: usize = CHUNK_BYTES as usize / 8 / 64;
/// Bitmap words in the run itself: enough for blocks of 85 bytes and more, so that reading it costs
/// one line.
const INLINE_WORDS: usize = 3;

/// A size and an owner for which blocks can be reserved without looking them up again. Belongs to
/// one arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassId(u32);

/// Number of a run in DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunId(u32);

/// Which empty runs [`Classes::retire`] leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spare {
    /// One a class: a class that is in use needs it again soon.
    OneAClass,
    /// None; those of classes out of use are retired as well, as after the drop of a table.
    None,
}

/// How a run of blocks of one size is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) block_bytes: u32,
    /// Where in the chunk block 0 starts.
    pub(crate) first: u32,
    pub(crate) blocks: u32,
    pub(crate) bitmap_words: u32,
}

impl Geometry {
    /// The cut for blocks of `block_bytes`, which [`rounded`] has given or the table has checked.
    pub(crate) fn new(block_bytes: u32) -> Self {
        debug_assert!(
            (8..=BLOCK_BYTES_MAX as u32).contains(&block_bytes) && block_bytes.is_multiple_of(8),
            "no run has blocks of {block_bytes} bytes"
        );
        let align = if block_bytes.is_multiple_of(LINE_BYTES) {
            LINE_BYTES
        } else {
            8
        };
        let chunk = CHUNK_BYTES as u32;
        // The bitmap for a whole chunk of blocks is at most one word too long for the blocks that
        // then fit; one more round corrects it.
        let mut blocks = chunk / block_bytes;
        let mut bitmap_words = 0;
        let mut first = 0;
        for _ in 0..2 {
            bitmap_words = blocks.div_ceil(64);
            first = (bitmap_words * 8).next_multiple_of(align);
            blocks = (chunk - first) / block_bytes;
        }
        debug_assert!(
            blocks <= bitmap_words * 64,
            "the bitmap of a run is too short for its blocks"
        );
        Self {
            block_bytes,
            first,
            blocks,
            bitmap_words,
        }
    }

    /// The block that starts `inside` bytes after the start of the chunk.
    #[inline]
    pub(crate) fn block_at(self, inside: u32) -> Option<u32> {
        let distance = inside.checked_sub(self.first)?;
        let block = distance / self.block_bytes;
        (block * self.block_bytes == distance && block < self.blocks).then_some(block)
    }
}

/// Bytes of the block that is used for `bytes`, of at most [`BLOCK_BYTES_MAX`].
pub const fn block_bytes(bytes: usize) -> usize {
    let unit = if bytes <= EXACT_BYTES_MAX {
        8
    } else {
        LINE_BYTES as usize
    };
    bytes.next_multiple_of(unit)
}

/// Short numbers of the blocks of one size: they name blocks in less space than offsets do. The
/// number of a block never changes, and none is 0.
#[derive(Clone, Copy, Debug)]
pub struct BlockNumbers {
    geometry: Geometry,
    /// Bits of the block's place in its run; the chunk stands above them.
    place_bits: u32,
}

impl BlockNumbers {
    /// Those of blocks that are used for `bytes`; none where these have chunks of their own.
    pub fn new(bytes: usize) -> Option<Self> {
        if bytes == 0 || bytes > BLOCK_BYTES_MAX {
            return None;
        }
        let geometry = Geometry::new(block_bytes(bytes) as u32);
        Some(Self {
            geometry,
            place_bits: (geometry.blocks - 1)
                .checked_ilog2()
                .map_or(0, |log| log + 1),
        })
    }

    /// The number of the block at an offset; none if no block of this size starts there.
    #[inline]
    pub fn number(self, offset: u64) -> Option<u64> {
        let chunk = chunk_at(offset, u32::MAX)?;
        let place = self
            .geometry
            .block_at((offset - chunk_offset(chunk)) as u32)?;
        Some(u64::from(chunk) << self.place_bits | u64::from(place))
    }

    /// The offset of the block with this number.
    #[inline]
    pub fn offset(self, number: u64) -> u64 {
        let place = number & ((1 << self.place_bits) - 1);
        let inside = u64::from(self.geometry.first) + place * u64::from(self.geometry.block_bytes);
        chunk_offset((number >> self.place_bits) as u32) + inside
    }

    /// Above the numbers of all blocks of a pool so large.
    pub fn end(self, pool_bytes: u64) -> u64 {
        u64::from(chunk_count(pool_bytes)) << self.place_bits
    }
}

/// One number for a size and an owner: compared in one step, where their fields would take three.
fn class_key(block_bytes: u32, owner: Owner) -> u64 {
    u64::from(block_bytes) << 32 | (owner.part as u64) << 16 | u64::from(owner.tag)
}

/// The taken blocks of a run; bits past the last block are set, so that they are never found free.
struct Bits {
    few: [u64; INLINE_WORDS],
    many: Box<[u64]>,
}

impl Bits {
    fn new(geometry: Geometry, words: &[u64]) -> Self {
        assert_eq!(
            words.len(),
            geometry.bitmap_words as usize,
            "a bitmap is not as long as its run needs"
        );
        let mut bits = Self {
            few: [u64::MAX; INLINE_WORDS],
            many: Box::default(),
        };
        if words.len() > INLINE_WORDS {
            bits.many = words.into();
        } else {
            bits.few[..words.len()].copy_from_slice(words);
        }
        let used = geometry.blocks % 64;
        if used != 0 {
            bits.words()[words.len() - 1] |= u64::MAX << used;
        }
        bits
    }

    #[inline]
    fn words(&mut self) -> &mut [u64] {
        if self.many.is_empty() {
            &mut self.few
        } else {
            &mut self.many
        }
    }
}

/// DRAM's copy of a run's state, in one cache line.
#[repr(align(64))]
pub(crate) struct Run {
    pub(crate) chunk: u32,
    pub(crate) class: ClassId,
    free: u32,
    /// No word before this one has a free block.
    hint: u32,
    /// Place in the class's list of runs with room, or `NONE`.
    listed_at: u32,
    /// Whether it is in [`Classes::empty`].
    noted_empty: bool,
    taken: Bits,
}

/// One size and one owner.
pub(crate) struct Class {
    pub(crate) geometry: Geometry,
    pub(crate) owner: Owner,
    with_room: Vec<RunId>,
    /// Runs in `with_room` without any taken block.
    empty_runs: u32,
}

/// All classes and all runs that were met.
#[derive(Default)]
pub(crate) struct Classes {
    all: Vec<Class>,
    /// By size and owner, as [`class_key`] puts them together.
    by_size: BTreeMap<u64, ClassId>,
    runs: Vec<Run>,
    vacant: Vec<RunId>,
    /// For each chunk of the pool the number of its run plus one, or zero.
    run_of_chunk: Vec<u32>,
    /// Runs that became empty and may be given back.
    empty: Vec<RunId>,
    /// Words of the bitmaps of all runs.
    pub(crate) bitmap_words: usize,
}

impl Classes {
    /// Makes room for a pool of `chunk_count` chunks. The pages of the map are touched only where
    /// runs are met.
    pub(crate) fn cover(&mut self, chunk_count: u32) {
        if self.run_of_chunk.is_empty() {
            self.run_of_chunk = vec![0; chunk_count as usize];
        } else {
            self.run_of_chunk.resize(chunk_count as usize, 0);
        }
    }

    /// The class of blocks of exactly `block_bytes`.
    pub(crate) fn class_of(&mut self, block_bytes: u32, owner: Owner) -> ClassId {
        let next = ClassId(self.all.len() as u32);
        let id = *self
            .by_size
            .entry(class_key(block_bytes, owner))
            .or_insert(next);
        if id == next {
            let geometry = Geometry::new(block_bytes);
            self.all.push(Class {
                geometry,
                owner,
                with_room: Vec::new(),
                empty_runs: 0,
            });
        }
        id
    }

    /// A class by its number.
    ///
    /// # Panics
    /// If the number belongs to another arena and this one has fewer classes.
    pub(crate) fn class(&self, id: ClassId) -> &Class {
        &self.all[id.0 as usize]
    }

    pub(crate) fn run(&self, id: RunId) -> &Run {
        &self.runs[id.0 as usize]
    }

    /// The run that lies in `chunk`, if it was met.
    #[inline]
    pub(crate) fn run_in(&self, chunk: u32) -> Option<RunId> {
        self.run_of_chunk[chunk as usize].checked_sub(1).map(RunId)
    }

    /// Notes a run with the bitmap that it has on the medium.
    pub(crate) fn add_run(&mut self, chunk: u32, class: ClassId, words: &[u64]) -> RunId {
        let geometry = self.class(class).geometry;
        let mut taken = Bits::new(geometry, words);
        let free = taken.words().iter().map(|word| word.count_zeros()).sum();
        assert_eq!(
            self.run_of_chunk[chunk as usize], 0,
            "a chunk is noted as two runs"
        );
        debug_assert!(
            free <= geometry.blocks,
            "more blocks are free than there are"
        );
        let run = Run {
            chunk,
            class,
            free,
            hint: 0,
            listed_at: NONE,
            noted_empty: false,
            taken,
        };
        let id = if let Some(id) = self.vacant.pop() {
            self.runs[id.0 as usize] = run;
            id
        } else {
            if self.runs.is_empty() {
                self.runs.reserve(FIRST_RUNS);
            }
            self.runs.push(run);
            RunId(self.runs.len() as u32 - 1)
        };
        self.run_of_chunk[chunk as usize] = id.0 + 1;
        self.bitmap_words += geometry.bitmap_words as usize;
        if free > 0 {
            self.list(id);
        }
        if free == geometry.blocks {
            self.note_empty(id);
        }
        id
    }

    /// Takes a free block of the class: its run and its number. `None` if no known run has room.
    #[inline]
    pub(crate) fn take(&mut self, id: ClassId) -> Option<(RunId, u32)> {
        let class = &mut self.all[id.0 as usize];
        let &run_id = class.with_room.last()?;
        let run = &mut self.runs[run_id.0 as usize];
        debug_assert!(run.free > 0, "a run without a free block is listed");
        let mut index = run.hint as usize;
        let words = run.taken.words();
        while words[index] == u64::MAX {
            index += 1;
        }
        let bit = words[index].trailing_ones();
        words[index] |= 1 << bit;
        run.hint = index as u32;
        if run.free == class.geometry.blocks {
            class.empty_runs -= 1;
        }
        run.free -= 1;
        if run.free == 0 {
            run.listed_at = NONE;
            class.with_room.pop();
        }
        let block = index as u32 * 64 + bit;
        debug_assert!(
            block < class.geometry.blocks,
            "a block after the end of its run is handed out"
        );
        Some((run_id, block))
    }

    /// Whether a block is taken.
    #[inline]
    pub(crate) fn is_taken(&mut self, id: RunId, block: u32) -> bool {
        let words = self.runs[id.0 as usize].taken.words();
        words[block as usize / 64] >> (block % 64) & 1 == 1
    }

    /// Makes a taken block free; a free one stays as it is.
    #[inline]
    pub(crate) fn release(&mut self, id: RunId, block: u32) {
        let run = &mut self.runs[id.0 as usize];
        let index = block / 64;
        let word = &mut run.taken.words()[index as usize];
        if *word >> (block % 64) & 1 == 0 {
            return;
        }
        *word &= !(1 << (block % 64));
        run.hint = run.hint.min(index);
        run.free += 1;
        let (free, class) = (run.free, run.class);
        debug_assert!(
            free <= self.all[class.0 as usize].geometry.blocks,
            "more blocks are free than there are"
        );
        if free == 1 {
            self.list(id);
        }
        if free == self.all[class.0 as usize].geometry.blocks {
            self.note_empty(id);
        }
    }

    /// Prefetches a run's state ahead of its use.
    #[inline]
    pub(crate) fn prefetch(&self, id: RunId) {
        arch::prefetch(std::ptr::from_ref(&self.runs[id.0 as usize]).cast());
    }

    /// Where a block of a run starts.
    #[inline]
    pub(crate) fn block_offset(&self, id: RunId, block: u32) -> u64 {
        let run = &self.runs[id.0 as usize];
        let geometry = self.all[run.class.0 as usize].geometry;
        debug_assert!(block < geometry.blocks, "a run has no block of that number");
        chunk_offset(run.chunk) + u64::from(geometry.first + block * geometry.block_bytes)
    }

    /// Which block of a known run starts at `offset`.
    #[inline]
    pub(crate) fn block_at(&self, id: RunId, offset: u64) -> Option<u32> {
        let run = &self.runs[id.0 as usize];
        let inside = offset - chunk_offset(run.chunk);
        debug_assert!(inside < CHUNK_BYTES, "the offset is in another chunk");
        self.all[run.class.0 as usize]
            .geometry
            .block_at(inside as u32)
    }

    /// Whether [`Classes::retire`] would give a chunk.
    pub(crate) fn can_retire(&self, spare: Spare) -> bool {
        self.empty.iter().any(|id| {
            let run = &self.runs[id.0 as usize];
            let class = &self.all[run.class.0 as usize];
            run.free == class.geometry.blocks && (spare == Spare::None || class.empty_runs > 1)
        })
    }

    /// Forgets one run that is still empty, and gives its chunk. Call until `None`.
    pub(crate) fn retire(&mut self, spare: Spare) -> Option<u32> {
        let mut at = self.empty.len();
        while at > 0 {
            at -= 1;
            let id = self.empty[at];
            let run = &mut self.runs[id.0 as usize];
            let class = &mut self.all[run.class.0 as usize];
            if run.free < class.geometry.blocks {
                run.noted_empty = false;
                self.empty.swap_remove(at);
            } else if spare == Spare::None || class.empty_runs > 1 {
                run.noted_empty = false;
                class.empty_runs -= 1;
                self.bitmap_words -= class.geometry.bitmap_words as usize;
                let chunk = run.chunk;
                self.empty.swap_remove(at);
                self.unlist(id);
                self.run_of_chunk[chunk as usize] = 0;
                self.vacant.push(id);
                return Some(chunk);
            }
        }
        None
    }

    fn list(&mut self, id: RunId) {
        let run = &mut self.runs[id.0 as usize];
        let with_room = &mut self.all[run.class.0 as usize].with_room;
        debug_assert_eq!(run.listed_at, NONE, "a run is listed twice");
        run.listed_at = with_room.len() as u32;
        with_room.push(id);
    }

    fn unlist(&mut self, id: RunId) {
        let run = &self.runs[id.0 as usize];
        let (class, place) = (run.class.0 as usize, run.listed_at);
        let with_room = &mut self.all[class].with_room;
        debug_assert_eq!(
            with_room.get(place as usize),
            Some(&id),
            "a run is not where it says that it is listed"
        );
        with_room.swap_remove(place as usize);
        if let Some(&moved) = with_room.get(place as usize) {
            self.runs[moved.0 as usize].listed_at = place;
        }
    }

    fn note_empty(&mut self, id: RunId) {
        let run = &mut self.runs[id.0 as usize];
        self.all[run.class.0 as usize].empty_runs += 1;
        if !run.noted_empty {
            run.noted_empty = true;
            self.empty.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Part;

    const OWNER: Owner = Owner {
        part: Part::Table,
        tag: 1,
    };

    #[test]
    fn a_short_number_names_its_block_and_no_other() {
        for bytes in [1, 8, 24, 100, 1000, 1088, 5000, BLOCK_BYTES_MAX] {
            let numbers = BlockNumbers::new(bytes).unwrap();
            let geometry = Geometry::new(block_bytes(bytes) as u32);
            let mut before = 0;
            for chunk in [1, 2, 700_000] {
                for place in 0..geometry.blocks {
                    let inside = geometry.first + place * geometry.block_bytes;
                    let offset = chunk_offset(chunk) + u64::from(inside);
                    let number = numbers.number(offset).unwrap();
                    assert!(number > before, "numbers ascend from 1");
                    assert!(number < numbers.end(chunk_offset(chunk + 1)));
                    assert_eq!(numbers.offset(number), offset);
                    assert_eq!(numbers.number(offset + 4), None);
                    before = number;
                }
                assert_eq!(numbers.number(chunk_offset(chunk)), None);
            }
        }
        assert!(BlockNumbers::new(0).is_none());
        assert!(BlockNumbers::new(BLOCK_BYTES_MAX + 1).is_none());
    }

    #[test]
    fn every_size_fits_its_chunk() {
        for bytes in 1..=BLOCK_BYTES_MAX {
            let block_bytes = block_bytes(bytes) as u32;
            assert!(block_bytes as usize >= bytes && block_bytes as usize <= BLOCK_BYTES_MAX);
            let cut = Geometry::new(block_bytes);
            assert!(
                cut.blocks >= 2 && cut.blocks <= cut.bitmap_words * 64,
                "{cut:?}"
            );
            assert!(cut.first >= cut.bitmap_words * 8);
            assert!(cut.bitmap_words as usize <= BITMAP_WORDS_MAX);
            assert!(u64::from(cut.first + cut.blocks * block_bytes) <= CHUNK_BYTES);
            assert!(cut.first.is_multiple_of(8));
            assert!(!block_bytes.is_multiple_of(64) || cut.first.is_multiple_of(64));
            assert_eq!(cut.block_at(cut.first + block_bytes), Some(1));
            assert_eq!(cut.block_at(cut.first + 1), None);
            assert_eq!(cut.block_at(cut.first + cut.blocks * block_bytes), None);
        }
        assert_eq!(Geometry::new(1088).blocks, 15);
        assert_eq!(Geometry::new(64).blocks, 255);
    }

    #[test]
    fn all_blocks_are_taken_once_and_come_back() {
        for bytes in [8, 24, 64, 1000, 8128] {
            let mut classes = Classes::default();
            classes.cover(4);
            let id = classes.class_of(bytes, OWNER);
            let cut = classes.class(id).geometry;
            assert_eq!(classes.take(id), None);
            let run = classes.add_run(2, id, &vec![0; cut.bitmap_words as usize]);
            for block in 0..cut.blocks {
                assert_eq!(classes.take(id), Some((run, block)));
            }
            assert_eq!(classes.take(id), None);
            classes.release(run, 1);
            classes.release(run, 1);
            assert_eq!(classes.take(id), Some((run, 1)));
            assert_eq!(classes.take(id), None);
        }
    }

    #[test]
    fn one_empty_run_a_class_is_kept() {
        let mut classes = Classes::default();
        classes.cover(4);
        let id = classes.class_of(64, OWNER);
        let first = classes.add_run(1, id, &[0; 4]);
        classes.add_run(2, id, &[0; 4]);
        assert_eq!(classes.retire(Spare::OneAClass), Some(2));
        assert_eq!(classes.retire(Spare::OneAClass), None);
        assert_eq!(classes.take(id), Some((first, 0)));
        assert_eq!(classes.run_in(2), None);
    }

    #[test]
    fn the_last_empty_run_goes_when_no_spare_is_wanted() {
        let mut classes = Classes::default();
        classes.cover(4);
        let id = classes.class_of(64, OWNER);
        let run = classes.add_run(1, id, &[0; 4]);
        assert_eq!(classes.take(id), Some((run, 0)));
        assert_eq!(classes.retire(Spare::None), None, "a block is taken");
        classes.release(run, 0);
        assert_eq!(classes.retire(Spare::OneAClass), None);
        assert_eq!(classes.retire(Spare::None), Some(1));
        assert_eq!(classes.retire(Spare::None), None);
        assert_eq!(classes.take(id), None);
    }
}
