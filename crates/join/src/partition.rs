//! Partitions of a relation: where each tuple goes, and how a partition is read back.
//!
//! Threads partition their shares of the input into regions of their own, so no thread waits for
//! another one or writes to its memory. A partition is the union of its parts in all regions; a
//! part is a chain of blocks. A *span* is some blocks of one chain, so a partition that is too
//! large for one thread is cut into groups of spans.
//!
//! | route | partition of a key |
//! |---|---|
//! | `Hashed` | upper bits of a product: of a hash, or of the key's own lower bits for dense keys |
//! | `Ranged` | upper bits of the distance from the lowest key: partitions are in key order |

use crate::error::Result;
use crate::machine::machine;
use crate::monitor::Watch;
use crate::scratch::{Arena, LINE_BYTES};
use crate::simd::{Isa, Region, Staged, Staging, Stores, prefetch};
use crate::tuple::{Tuple, Word};
use crate::workers;

/// An odd number whose products have well-mixed upper bits: 2^64 divided by the golden ratio.
pub(crate) const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Tuples between two looks at the monitor.
const STEP_TUPLES: usize = 1 << 16;

/// Which partition a tuple belongs to.
pub(crate) trait Route<T: Tuple>: Copy + Send + Sync {
    /// The partition, less than the fan-out that the route was made for.
    fn partition(self, tuple: T) -> usize;
    /// Whether a tuple of this partition is wanted at all.
    #[inline(always)]
    fn keeps(self, _partition: usize, _: T) -> bool {
        true
    }
}

/// Partitions by bits of a product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hashed {
    multiplier: u64,
    shift: u32,
}

impl Hashed {
    /// 2^`bits` partitions of about equal size for any distinct keys; `skipped` upper bits of the
    /// hash have been used before.
    pub(crate) fn spread(bits: u32, skipped: u32) -> Self {
        Self {
            // Moves the bits that were used before out of the word.
            multiplier: MULTIPLIER << skipped,
            shift: 64 - bits,
        }
    }

    /// 2^`bits` partitions by the lower bits of keys. If the keys are dense, the partitions are of
    /// equal size, and each is dense.
    ///
    /// `skipped` lower bits have been used before.
    pub(crate) fn low_bits(bits: u32, skipped: u32) -> Self {
        Self {
            multiplier: 1 << (64 - bits - skipped),
            shift: 64 - bits,
        }
    }

    #[inline(always)]
    pub(crate) fn of_key<W: Word>(self, key: W) -> usize {
        (key.mixed().wrapping_mul(self.multiplier) >> self.shift) as usize
    }

    /// Two keys of different partitions: one of them is outside of any given partition.
    pub(crate) fn strangers<W: Word>(self) -> [W; 2] {
        let first = W::truncate(0);
        let mut others = (1..u64::MAX).map(W::truncate);
        let home = self.of_key(first);
        let second = others.find(|key| self.of_key(*key) != home);
        [first, second.expect("there are at least two partitions")]
    }
}

impl<T: Tuple> Route<T> for Hashed {
    #[inline(always)]
    fn partition(self, tuple: T) -> usize {
        self.of_key(tuple.key())
    }
}

/// Partitions by ranges of keys; keys outside of the range go to the first or the last partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranged {
    low: u64,
    shift: u32,
    last: u64,
}

impl Ranged {
    /// At most 2^`bits` ranges of equal width from `low` to `high`.
    pub(crate) fn new(low: u64, high: u64, bits: u32) -> Self {
        let width_bits = u64::BITS - high.saturating_sub(low).leading_zeros();
        Self::with_shift(low, width_bits.saturating_sub(bits), bits)
    }

    /// At most 2^`bits` ranges of 2^`shift` keys, from `low` on.
    pub(crate) fn with_shift(low: u64, shift: u32, bits: u32) -> Self {
        let last = (1 << bits) - 1;
        // One range of all keys needs no shift by all their bits.
        let shift = shift.min(u64::BITS - 1);
        Self { low, shift, last }
    }

    /// The lowest key of a range and the bits of its width; none of the ranges at the ends, which
    /// take the keys outside as well.
    pub(crate) fn bounds(self, range: usize) -> Option<KeyBounds> {
        let range = range as u64;
        if range == 0 || range >= self.last {
            return None;
        }
        // Ranges after the largest key are empty.
        let low = self.low.checked_add(range.checked_mul(1 << self.shift)?)?;
        let bits = self.shift;
        Some(KeyBounds { low, bits })
    }

    #[inline(always)]
    pub(crate) fn of_key(self, key: u64) -> usize {
        (key.saturating_sub(self.low) >> self.shift).min(self.last) as usize
    }
}

impl<T: Tuple> Route<T> for Ranged {
    #[inline(always)]
    fn partition(self, tuple: T) -> usize {
        self.of_key(tuple.key().into())
    }
}

/// Keys from `low` to less than `low` + 2^`bits`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyBounds {
    pub(crate) low: u64,
    pub(crate) bits: u32,
}

/// Sizes of one partitioning pass of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PassShape {
    fan_out: usize,
    block_lines_log2: u32,
    blocks: usize,
}

impl PassShape {
    /// A pass over at most `tuples` tuples a thread.
    pub(crate) fn new<T: Tuple>(fan_out: usize, tuples: usize) -> Self {
        let per_line = Staging::<T>::PER_LINE;
        // Half a block of each partition is lost on average; this keeps the loss at a few percent,
        // in blocks of 256 bytes to 16 KiB.
        let lines = tuples / per_line / fan_out / 8;
        let block_lines_log2 = (lines.max(4) as u32).ilog2().min(8);
        let block_tuples = per_line << block_lines_log2;
        Self {
            fan_out,
            block_lines_log2,
            blocks: fan_out + tuples.div_ceil(block_tuples),
        }
    }

    /// Tuples of a block.
    pub(crate) fn block_tuples<T: Tuple>(self) -> usize {
        Staging::<T>::PER_LINE << self.block_lines_log2
    }

    /// Bytes of a region.
    pub(crate) fn region_bytes<T: Tuple>(self) -> usize {
        Arena::bytes_of::<T>(self.blocks * self.block_tuples::<T>())
            + Arena::bytes_of::<u32>(self.blocks)
            + Arena::bytes_of::<u32>(self.fan_out)
    }

    pub(crate) fn region<'a, T: Tuple>(self, arena: &mut Arena<'a>) -> Region<'a, T> {
        Region::new(
            arena.take(self.blocks * self.block_tuples::<T>()),
            arena.take(self.blocks),
            arena.take(self.fan_out),
            self.block_lines_log2,
        )
    }

    /// Bytes of the staging memory of a thread with a given fan-out.
    pub(crate) fn staging_bytes<T: Tuple>(fan_out: usize) -> usize {
        Arena::bytes_of::<T>(fan_out * Staging::<T>::PER_PARTITION_MAX)
            + 2 * Arena::bytes_of::<u32>(fan_out)
    }

    pub(crate) fn staging<'a, T: Tuple>(fan_out: usize, arena: &mut Arena<'a>) -> Staging<'a, T> {
        Staging::new(
            arena.take(fan_out * Staging::<T>::PER_PARTITION_MAX),
            arena.take(fan_out),
            arena.take(fan_out),
        )
    }
}

/// The memory of each thread for a pass over both sides: the lines that it gathers, and a region of
/// R and of S.
type PassMemory<'a, T> = (Vec<Staging<'a, T>>, Vec<Region<'a, T>>, Vec<Region<'a, T>>);

/// Takes the memory of a pass over both sides, whose fan-out is the same.
pub(crate) fn memory_of_pass<'a, T: Tuple>(
    threads: usize,
    r: PassShape,
    s: PassShape,
    arena: &mut Arena<'a>,
) -> PassMemory<'a, T> {
    let stagings = (0..threads).map(|_| PassShape::staging(r.fan_out, arena));
    let stagings = stagings.collect();
    let mut regions = |shape: PassShape| (0..threads).map(|_| shape.region(arena)).collect();
    (stagings, regions(r), regions(s))
}

/// Settings of a partitioning pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass<'a> {
    pub(crate) isa: Isa,
    pub(crate) stores: Stores,
    pub(crate) watch: Watch<'a>,
}

impl Pass<'_> {
    /// Adds tuples to a region, step by step, telling the monitor.
    pub(crate) fn fill<'i, T: Tuple, R: Route<T>>(
        self,
        region: &mut Region<'_, T>,
        staging: &mut Staging<'_, T>,
        input: impl Iterator<Item = &'i [T]>,
        route: R,
    ) -> Result<()> {
        // Twice the staging memory pays as long as it leaves most of the second-level cache to the
        // tuples that pass through it.
        let pair_bytes = region.counts.len() * 2 * LINE_BYTES;
        let staged = if pair_bytes <= machine().l2_bytes / 4 {
            Staged::Pair
        } else {
            Staged::Line
        };
        region.start(staging, self.isa, self.stores, staged);
        let mut steps = input.flat_map(|tuples| tuples.chunks(STEP_TUPLES));
        let result = steps.try_for_each(|step| {
            region.add(staging, self.isa, self.stores, step, route);
            self.watch.advance(step.len())
        });
        // After a cancellation too: the memory is used again, and streaming stores are to be over
        // then.
        region.finish(staging);
        result
    }

    /// Partitions `input` with one thread for each region, and returns the partitions.
    pub(crate) fn run<'a, T: Tuple, R: Route<T>>(
        self,
        input: &[T],
        regions: Vec<Region<'a, T>>,
        stagings: &mut [Staging<'_, T>],
        route: R,
    ) -> Result<Partitions<'a, T>> {
        let threads = regions.len();
        let shape = regions.first().map_or((0, 0), |region| {
            (region.counts.len(), region.tuples.len() / region.next.len())
        });
        let pairs: Vec<_> = regions.into_iter().zip(stagings).collect();
        let parts = workers::run(pairs, |thread, (mut region, staging)| {
            let own = workers::share(input, thread, threads, 64);
            let input = std::iter::once(own);
            self.fill(&mut region, staging, input, route)?;
            Ok(ThreadTuples {
                tuples: region.tuples,
                next: region.next,
                counts: region.counts,
            })
        })?;
        Ok(Partitions {
            parts,
            fan_out: shape.0,
            block_tuples: shape.1,
        })
    }
}

/// One thread's part of all partitions.
#[derive(Clone, Copy, Debug)]
struct ThreadTuples<'a, T> {
    tuples: &'a [T],
    next: &'a [u32],
    counts: &'a [u32],
}

/// A partitioned relation.
#[derive(Debug)]
pub(crate) struct Partitions<'a, T> {
    parts: Vec<ThreadTuples<'a, T>>,
    fan_out: usize,
    block_tuples: usize,
}

/// Some tuples of one chain, from the start of a block on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    part: u32,
    block: u32,
    tuples: u32,
}

impl<'a, T: Tuple> Partitions<'a, T> {
    /// The partitions of one region.
    pub(crate) fn of_region(region: &'a Region<'_, T>) -> Self {
        let part = ThreadTuples {
            tuples: &*region.tuples,
            next: &*region.next,
            counts: &*region.counts,
        };
        Self {
            fan_out: part.counts.len(),
            block_tuples: part.tuples.len() / part.next.len(),
            parts: vec![part],
        }
    }

    pub(crate) fn fan_out(&self) -> usize {
        self.fan_out
    }

    /// Tuples of a partition.
    pub(crate) fn len(&self, partition: usize) -> usize {
        let counts = self
            .parts
            .iter()
            .map(|part| part.counts[partition] as usize);
        counts.sum()
    }

    /// Tuples of one part of a partition.
    pub(crate) fn part_len(&self, part: usize, partition: usize) -> usize {
        self.parts[part].counts[partition] as usize
    }

    /// One part of a partition.
    pub(crate) fn span(&self, part: usize, partition: usize) -> Span {
        Span {
            part: part as u32,
            block: partition as u32,
            tuples: self.parts[part].counts[partition],
        }
    }

    /// Tuples of all partitions.
    pub(crate) fn total_len(&self) -> usize {
        (0..self.fan_out).map(|partition| self.len(partition)).sum()
    }

    /// Appends the spans of a partition, cut into groups of at most `group_tuples` (and one block)
    /// tuples; returns the ends of the groups.
    pub(crate) fn groups(
        &self,
        partition: usize,
        group_tuples: usize,
        spans: &mut Vec<Span>,
    ) -> Vec<usize> {
        let group_tuples = group_tuples.next_multiple_of(self.block_tuples);
        let mut ends = Vec::with_capacity(1);
        let mut room = group_tuples;
        for (index, part) in self.parts.iter().enumerate() {
            let mut left = part.counts[partition] as usize;
            let mut block = partition as u32;
            while left > 0 {
                if room < self.block_tuples.min(left) {
                    ends.push(spans.len());
                    room = group_tuples;
                }
                let whole_blocks = room / self.block_tuples * self.block_tuples;
                let tuples = if left <= room { left } else { whole_blocks };
                spans.push(Span {
                    part: index as u32,
                    block,
                    tuples: tuples as u32,
                });
                left -= tuples;
                room -= tuples;
                if left > 0 {
                    for _ in 0..tuples / self.block_tuples {
                        block = part.next[block as usize];
                    }
                }
            }
        }
        if ends.last().copied().unwrap_or(0) < spans.len() {
            ends.push(spans.len());
        }
        ends
    }

    /// The tuples of some spans, as slices of a few lines.
    pub(crate) fn slices<'s>(&'s self, spans: &'s [Span]) -> impl Iterator<Item = &'a [T]> + Clone {
        spans.iter().flat_map(|span| Blocks {
            part: self.parts[span.part as usize],
            block: span.block as usize,
            passed: 0,
            left: span.tuples as usize,
            block_tuples: self.block_tuples,
        })
    }
}

/// The blocks of one span, a few lines at a time.
#[derive(Clone)]
struct Blocks<'a, T> {
    part: ThreadTuples<'a, T>,
    block: usize,
    /// Tuples of the block that were passed.
    passed: usize,
    left: usize,
    block_tuples: usize,
}

/// Lines of one slice.
const SLICE_LINES: usize = 8;

impl<'a, T: Tuple> Iterator for Blocks<'a, T> {
    type Item = &'a [T];

    #[inline]
    fn next(&mut self) -> Option<&'a [T]> {
        if self.left == 0 {
            return None;
        }
        let per_line = Staging::<T>::PER_LINE;
        let in_block = self.block_tuples - self.passed;
        let tuples = self.left.min(in_block).min(SLICE_LINES * per_line);
        let start = self.block * self.block_tuples + self.passed;
        let slice = &self.part.tuples[start..start + tuples];
        if self.left > in_block {
            // Blocks lie anywhere, so the processor does not guess the next one: its lines are
            // asked for one block ahead.
            let next = self.part.next[self.block] as usize;
            let ahead = next * self.block_tuples + self.passed;
            for line in 0..SLICE_LINES {
                prefetch(self.part.tuples, ahead + line * per_line);
            }
            if tuples == in_block {
                self.block = next;
            }
        }
        self.left -= tuples;
        self.passed = (self.passed + tuples) % self.block_tuples;
        Some(slice)
    }
}

/// Tuples of some spans.
pub(crate) fn spans_len(spans: &[Span]) -> usize {
    spans.iter().map(|span| span.tuples as usize).sum()
}
