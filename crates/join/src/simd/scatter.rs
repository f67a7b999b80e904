//! Partitioning: tuples go to the region of their thread, partition by partition, a line at a time.
//!
//! Each partition has one line of staging memory, or two. Full lines are written to the partition's
//! current block of the region, past the cache where the region is larger than it. The branch on
//! full lines cannot be predicted, so with two lines there are half as many mispredictions; the
//! price is twice the staging memory. Blocks are chained, so no pass over the input has to count
//! beforehand:
//!
//! ```text
//! region   | block 0 | block 1 | … | block P-1 | block P | …
//! next     |    P    |    -    |   |    P+2    |    -    |
//! ```
//!
//! Partition p begins in block p; when a block is full, the next free block becomes its successor.
//!
//! Invariants: `fill[p]` is less than the tuples of the staged lines; `cursor[p]` is the line of
//! the region that the next staged lines of `p` go to, a multiple of their number; a block belongs
//! to one partition.

use super::{Isa, Level};
use crate::partition::Route;
use crate::scratch::LINE_BYTES;
use crate::tuple::Tuple;

/// How full lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stores {
    /// Into the cache: for regions that fit it.
    Cached,
    /// Past the cache, which saves reading the line first.
    Streaming,
}

/// How many lines are gathered for a partition before they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Staged {
    /// One: the least memory.
    Line,
    /// Two, where there is a kernel for it: fewer wrong guesses.
    Pair,
}

/// The lines that a thread fills for each partition; used for one region after the other.
#[derive(Debug)]
pub(crate) struct Staging<'a, T> {
    lines: &'a mut [T],
    staged: Staged,
    fill: &'a mut [u32],
    cursor: &'a mut [u32],
}

impl<'a, T: Tuple> Staging<'a, T> {
    /// Tuples of one line.
    pub(crate) const PER_LINE: usize = LINE_BYTES / T::BYTES;
    /// Tuples of the most lines that are gathered for a partition.
    pub(crate) const PER_PARTITION_MAX: usize = 2 * Self::PER_LINE;

    /// Staging of `fill.len()` partitions.
    pub(crate) fn new(lines: &'a mut [T], fill: &'a mut [u32], cursor: &'a mut [u32]) -> Self {
        assert_eq!(lines.len(), fill.len() * Self::PER_PARTITION_MAX);
        assert_eq!(cursor.len(), fill.len());
        assert!(lines.as_ptr().addr().is_multiple_of(LINE_BYTES));
        // Old contents would lead out of a line.
        fill.fill(0);
        Self {
            lines,
            staged: Staged::Line,
            fill,
            cursor,
        }
    }

    /// Tuples that are gathered for a partition.
    fn per_partition(&self) -> usize {
        match self.staged {
            Staged::Line => Self::PER_LINE,
            Staged::Pair => 2 * Self::PER_LINE,
        }
    }
}

/// Where a thread's tuples go, and how they were split.
#[derive(Debug)]
pub(crate) struct Region<'a, T> {
    pub(crate) tuples: &'a mut [T],
    /// The successor of each block; meaningless for the last block of a partition.
    pub(crate) next: &'a mut [u32],
    /// Tuples of each partition; written by `finish`.
    pub(crate) counts: &'a mut [u32],
    /// Lines of a block, as a power of two.
    block_lines_log2: u32,
    blocks_used: u32,
}

impl<'a, T: Tuple> Region<'a, T> {
    /// A region of `next.len()` blocks for `counts.len()` partitions.
    pub(crate) fn new(
        tuples: &'a mut [T],
        next: &'a mut [u32],
        counts: &'a mut [u32],
        block_lines_log2: u32,
    ) -> Self {
        let block_tuples = Staging::<T>::PER_LINE << block_lines_log2;
        assert_eq!(tuples.len(), next.len() * block_tuples);
        assert!(next.len() >= counts.len());
        assert!(block_lines_log2 >= 1, "two staged lines fit a block");
        assert!(u32::try_from(tuples.len() / Staging::<T>::PER_LINE).is_ok());
        assert!(tuples.as_ptr().addr().is_multiple_of(LINE_BYTES));
        Self {
            tuples,
            next,
            counts,
            block_lines_log2,
            blocks_used: 0,
        }
    }

    /// Empties the region and ties `staging` to it; `staged` is a wish that not every kernel
    /// fulfils.
    pub(crate) fn start(
        &mut self,
        staging: &mut Staging<'_, T>,
        isa: Isa,
        stores: Stores,
        staged: Staged,
    ) {
        assert_eq!(self.counts.len(), staging.fill.len());
        staging.staged = match (isa.0, stores) {
            #[cfg(target_arch = "x86_64")]
            (Level::Avx512, Stores::Streaming) => staged,
            _ => Staged::Line,
        };
        self.blocks_used = self.counts.len() as u32;
        staging.fill.fill(0);
        for (partition, cursor) in staging.cursor.iter_mut().enumerate() {
            *cursor = (partition as u32) << self.block_lines_log2;
        }
    }

    /// Adds tuples. The region needs room for all that are added between `start` and `finish`, or
    /// this panics.
    pub(crate) fn add<R: Route<T>>(
        &mut self,
        staging: &mut Staging<'_, T>,
        isa: Isa,
        stores: Stores,
        input: &[T],
        route: R,
    ) {
        match (isa.0, stores) {
            #[cfg(target_arch = "x86_64")]
            (Level::Avx2, Stores::Streaming) => {
                // SAFETY: an `Isa` of this level exists only where AVX2 was detected.
                unsafe { x86::add_streaming_avx2(self, staging, input, route) }
            }
            #[cfg(target_arch = "x86_64")]
            (Level::Avx512, Stores::Streaming) => {
                // SAFETY: an `Isa` of this level exists only where AVX-512 F was detected.
                unsafe { x86::add_streaming_avx512(self, staging, input, route) }
            }
            _ => add_with::<T, R, 1>(self, staging, input, route, |to, from, last| {
                let before = Staging::<T>::PER_LINE - 1;
                // SAFETY: `add_with` passes two lines that do not overlap.
                unsafe { std::ptr::copy_nonoverlapping(from, to, before) };
                // SAFETY: the last tuple of the same line.
                let to_last = unsafe { to.add(before) };
                // SAFETY: it lies in the region, which is borrowed mutably.
                unsafe { to_last.write(last) };
            }),
        }
    }

    /// Writes the lines that are not full, and counts. After it, the region may be read by other
    /// threads.
    pub(crate) fn finish(&mut self, staging: &mut Staging<'_, T>) {
        let block_tuples = Staging::<T>::PER_LINE << self.block_lines_log2;
        for partition in 0..self.counts.len() {
            let (line, fill) = (staging.cursor[partition], staging.fill[partition] as usize);
            let from = partition * staging.per_partition();
            let to = line as usize * Staging::<T>::PER_LINE;
            if fill > 0 {
                self.tuples[to..to + fill].copy_from_slice(&staging.lines[from..from + fill]);
            }
            let last = line >> self.block_lines_log2;
            let (mut block, mut count) = (partition as u32, 0);
            while block != last {
                count += block_tuples;
                block = self.next[block as usize];
            }
            count += to + fill - last as usize * block_tuples;
            self.counts[partition] = count as u32;
        }
        // Streaming stores are ordered by nothing else, not even by the end of the thread.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 processor has this fence.
        unsafe {
            std::arch::x86_64::_mm_sfence();
        }
    }

    /// The line after the last of some full lines of a partition: in the same block, or in a new
    /// one.
    #[inline(always)]
    fn line_after(&mut self, line: u32) -> u32 {
        let after = line + 1;
        if after & ((1 << self.block_lines_log2) - 1) != 0 {
            return after;
        }
        let block = self.blocks_used;
        self.next[(line >> self.block_lines_log2) as usize] = block;
        self.blocks_used = block + 1;
        block << self.block_lines_log2
    }
}

/// The loop, with `store_lines` for `LINES` full lines: from staging to the region, with the tuple
/// that fills them.
///
/// That tuple is not written to staging memory first, because a wide load of bytes that narrow
/// stores have just written has to wait for them.
#[inline(always)]
fn add_with<T: Tuple, R: Route<T>, const LINES: usize>(
    region: &mut Region<'_, T>,
    staging: &mut Staging<'_, T>,
    input: &[T],
    route: R,
    store_lines: impl Fn(*mut T, *const T, T),
) {
    let per_line = Staging::<T>::PER_LINE;
    let staged = per_line * LINES;
    assert_eq!(staged, staging.per_partition());
    let fan_out = staging.fill.len();
    let region_lines = region.tuples.len() / per_line;
    let lines = staging.lines.as_mut_ptr();
    for &tuple in input {
        let partition = route.partition(tuple);
        assert!(partition < fan_out, "a route leads to a partition");
        if !route.keeps(partition, tuple) {
            continue;
        }
        // SAFETY: `partition` is less than the length of `fill`, checked above.
        let fill = unsafe { staging.fill.get_unchecked_mut(partition) };
        // SAFETY: there are at least `staged` tuples for each of the `fan_out` partitions in
        // `lines`.
        let line = unsafe { lines.add(partition * staged) };
        let before = *fill as usize;
        if before + 1 < staged {
            *fill = before as u32 + 1;
            // SAFETY: `before` is less than `staged`, checked above.
            let slot = unsafe { line.add(before) };
            // SAFETY: `slot` lies in `staging.lines`, which is borrowed mutably.
            unsafe { slot.write(tuple) };
            continue;
        }
        *fill = 0;
        let cursor = staging.cursor[partition];
        let start = cursor as usize;
        assert!(
            start + LINES <= region_lines,
            "a region has room for its input"
        );
        // SAFETY: `LINES` lines from `start` on lie in `region.tuples`, checked above.
        let to = unsafe { region.tuples.as_mut_ptr().add(start * per_line) };
        store_lines(to, line, tuple);
        // Blocks have a multiple of `LINES` lines, so these were all of one block.
        staging.cursor[partition] = region.line_after(cursor + (LINES as u32 - 1));
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! The loop with streaming stores of 32 and 64 bytes.
    //!
    //! Lines of staging memory and of regions begin at multiples of 64 bytes, which `Staging::new`
    //! and `Region::new` check, so aligned loads and stores are right.

    use super::{Region, Route, Staged, Staging, add_with};
    use crate::tuple::Tuple;
    use std::arch::x86_64::{
        __m256i, __m512i, _mm256_blend_epi32, _mm256_load_si256, _mm256_set_epi64x,
        _mm256_stream_si256, _mm512_load_si512, _mm512_mask_blend_epi64, _mm512_set_epi64,
        _mm512_stream_si512,
    };

    /// The upper two lanes of a line that ends with a tuple; the lower one counts for 16-byte
    /// tuples only.
    #[inline(always)]
    fn lanes_of<T: Tuple>(tuple: T) -> (i64, i64) {
        let (key, payload): (u64, u64) = (tuple.key().into(), tuple.payload().into());
        if T::BYTES == 8 {
            (0, (key << 32 | payload).cast_signed())
        } else {
            (key.cast_signed(), payload.cast_signed())
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn add_streaming_avx2<T: Tuple, R: Route<T>>(
        region: &mut Region<'_, T>,
        staging: &mut Staging<'_, T>,
        input: &[T],
        route: R,
    ) {
        add_with::<T, R, 1>(region, staging, input, route, |to, from, last| {
            let (to, from) = (to.cast::<__m256i>(), from.cast::<__m256i>());
            let (low, high) = lanes_of(last);
            let last = _mm256_set_epi64x(high, low, high, low);
            // SAFETY: `from` is a line of staging memory, aligned to 64 bytes.
            let front = unsafe { _mm256_load_si256(from) };
            // SAFETY: the second half of the same line.
            let back = unsafe { _mm256_load_si256(from.wrapping_add(1)) };
            let back = if T::BYTES == 8 {
                _mm256_blend_epi32::<0b1100_0000>(back, last)
            } else {
                _mm256_blend_epi32::<0b1111_0000>(back, last)
            };
            // SAFETY: `to` is a line of the region, aligned to 64 bytes; `finish` fences before
            // anybody reads it.
            unsafe { _mm256_stream_si256(to, front) };
            // SAFETY: the second half of the same line.
            unsafe { _mm256_stream_si256(to.wrapping_add(1), back) };
        });
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn add_streaming_avx512<T: Tuple, R: Route<T>>(
        region: &mut Region<'_, T>,
        staging: &mut Staging<'_, T>,
        input: &[T],
        route: R,
    ) {
        match staging.staged {
            Staged::Line => add_lines_avx512::<T, R, 1>(region, staging, input, route),
            Staged::Pair => add_lines_avx512::<T, R, 2>(region, staging, input, route),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn add_lines_avx512<T: Tuple, R: Route<T>, const LINES: usize>(
        region: &mut Region<'_, T>,
        staging: &mut Staging<'_, T>,
        input: &[T],
        route: R,
    ) {
        add_with::<T, R, LINES>(region, staging, input, route, |to, from, last| {
            let (to, from) = (to.cast::<__m512i>(), from.cast::<__m512i>());
            for at in 0..LINES {
                // SAFETY: `from` are `LINES` lines of staging memory, aligned to 64 bytes.
                let mut line = unsafe { _mm512_load_si512(from.wrapping_add(at)) };
                if at + 1 == LINES {
                    let (low, high) = lanes_of(last);
                    let last = _mm512_set_epi64(high, low, high, low, high, low, high, low);
                    let of_last = if T::BYTES == 8 { 0x80 } else { 0xC0 };
                    line = _mm512_mask_blend_epi64(of_last, line, last);
                }
                // SAFETY: `to` are `LINES` lines of the region, aligned to 64 bytes; `finish`
                // fences before anybody reads them.
                unsafe { _mm512_stream_si512(to.wrapping_add(at), line) };
            }
        });
    }
}
