//! The driver of `m-way` and `m-pass`: both sides are partitioned by ranges of keys, each range is
//! sorted and joined by one thread.
//!
//! A range that is longer than a run of the cache is sorted in runs, which are then merged: all at
//! once (`m-way`) or two at a time (`m-pass`). Range, sort, merge and join of one range happen
//! while it is in the cache, so the memory sees one partitioning pass and one reading pass. Ranges
//! follow a sample of R's keys; keys outside of it go to the first or last range, and a range that
//! turns out too long is cut into groups that are joined with one another.

use crate::error::Result;
use crate::job::{Done, Job, sampled_extent, totals_of};
use crate::machine::machine;
use crate::options::RunSort;
use crate::output::{MANY_PARTNERS, Pairs, Sink, Totals};
use crate::partition::{KeyBounds, Partitions, PassShape, Ranged, Span, memory_of_pass, spans_len};
use crate::scratch::{Arena, LINE_BYTES, Scratch};
use crate::simd::{Isa, join_vectors};
use crate::sort::merge::{merge_in_passes, merge_many, runs_max};
use crate::sort::run::RunSorter;
use crate::stats::{PhaseClock, TableWork};
use crate::tuple::Tuple;
use crate::units::Units;
use crate::workers;
use std::time::{Duration, Instant};

/// Most ranges of one partitioning pass by default, as a power of two: more only where their
/// staging lines are a small part of the second-level cache.
const DEFAULT_BITS_MAX: u32 = 12;
/// The same of `m-way` with a large cache: twice the ranges cost less than a merge of two runs
/// each, and less than sorting runs that a merge follows, whose keys are not dense.
const LARGE_CACHE_BITS_MAX: u32 = 13;
/// The longest run, in bytes.
const RUN_BYTES_MAX: usize = 256 << 10;
/// The shortest run.
const RUN_TUPLES_MIN: usize = 1 << 10;

/// How runs become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merging {
    /// All of them in one pass, through buffers in the cache.
    ManyAtOnce,
    /// Two at a time, in passes over memory.
    TwoAtATime,
}

/// Tuples of a run: it and its copy fill the second-level cache.
pub(crate) fn run_tuples<T: Tuple>() -> usize {
    (machine().l2_bytes / 2).min(RUN_BYTES_MAX) / T::BYTES
}

fn many_at_once_bits_max() -> u32 {
    if (LINE_BYTES << LARGE_CACHE_BITS_MAX) <= machine().l2_bytes / 4 {
        LARGE_CACHE_BITS_MAX
    } else {
        DEFAULT_BITS_MAX
    }
}

/// Sizes of a sort-merge join, fixed before any memory is touched.
#[derive(Clone, Copy, Debug)]
struct Plan {
    bits: u32,
    route: Ranged,
    r_shape: PassShape,
    s_shape: PassShape,
    r_group: usize,
    s_group: usize,
}

impl Plan {
    fn new<T: Tuple>(job: &Job<'_, T>, merging: Merging) -> Self {
        let (r, s) = (job.r.len(), job.s.len());
        let by_threads = (job.threads * 8).next_power_of_two().ilog2().max(4);
        let (low, high) = sampled_extent(job.r).unwrap_or((0, 0));
        // Ranges are a power of two wide, so as few as half of them may be in use.
        let ranges = |bits| Ranged::new(low, high, bits).of_key(high) + 1;
        let runs = r.max(s).div_ceil(run_tuples::<T>());
        let by_cache = runs.next_power_of_two().ilog2();
        let by_cache = by_cache + u32::from(ranges(by_cache) < runs);
        let wanted = match merging {
            // One run each, so that the merge has nothing to do.
            Merging::ManyAtOnce => by_cache.max(by_threads).min(many_at_once_bits_max()),
            // As in the paper, sorting is done by merging, and ranges only give each thread its
            // share.
            Merging::TwoAtATime => by_threads.min(DEFAULT_BITS_MAX),
        };
        let bits = job.tuning.partition_bits.unwrap_or(wanted);
        let fan_out = 1_usize << bits;
        let ranges = ranges(bits).max(fan_out / 2);
        let group = |tuples: usize| tuples / ranges * 3 / 2 + RUN_TUPLES_MIN;
        Self {
            bits,
            route: Ranged::new(low, high, bits),
            r_shape: PassShape::new::<T>(fan_out, job.share_len(r)),
            s_shape: PassShape::new::<T>(fan_out, job.share_len(s)),
            r_group: group(r),
            s_group: group(s),
        }
    }

    fn r_group_max<T: Tuple>(&self) -> usize {
        self.r_group
            .next_multiple_of(self.r_shape.block_tuples::<T>())
    }

    fn s_group_max<T: Tuple>(&self) -> usize {
        self.s_group
            .next_multiple_of(self.s_shape.block_tuples::<T>())
    }

    fn bytes<T: Tuple>(&self, threads: usize) -> usize {
        let a_thread = PassShape::staging_bytes::<T>(1 << self.bits)
            + self.r_shape.region_bytes::<T>()
            + self.s_shape.region_bytes::<T>()
            + Sorter::<T>::bytes(self.r_group_max::<T>())
            + Sorter::<T>::bytes(self.s_group_max::<T>());
        threads * a_thread
    }
}

/// The memory in which one thread sorts groups of one side.
#[derive(Debug)]
struct Sorter<'a, T> {
    front: &'a mut [T],
    back: &'a mut [T],
    /// Buffers of the merge tree; empty if a group is one run.
    tree: &'a mut [T],
    how: How,
    runs: RunSorter,
}

impl<'a, T: Tuple> Sorter<'a, T> {
    fn tree_tuples(group_max: usize) -> usize {
        if group_max > run_tuples::<T>() {
            run_tuples::<T>()
        } else {
            0
        }
    }

    fn bytes(group_max: usize) -> usize {
        2 * Arena::bytes_of::<T>(group_max) + Arena::bytes_of::<T>(Self::tree_tuples(group_max))
    }

    fn new(group_max: usize, how: How, arena: &mut Arena<'a>) -> Self {
        Self {
            how,
            runs: RunSorter::new(how.isa, how.run_sort),
            front: arena.take(group_max),
            back: arena.take(group_max),
            tree: arena.take(Self::tree_tuples(group_max)),
        }
    }

    /// Sorts the tuples of some spans.
    fn sort(
        &mut self,
        from: &Partitions<'_, T>,
        bounds: Option<KeyBounds>,
        spans: &[Span],
        times: &mut Times,
    ) -> &[T] {
        let started = Instant::now();
        let len = spans_len(spans);
        let (how, front) = (self.how, &mut self.front[..len]);
        let slices = from.slices(spans);
        let run_max = run_tuples::<T>();
        if len <= run_max {
            self.runs.sort(bounds, slices, front, self.back);
            times.sort += started.elapsed();
            return &*front;
        }
        let back = &mut self.back[..len];
        let tree_runs = runs_max(self.tree.len());
        let run_max = run_max.max(len.div_ceil(tree_runs - 1));
        let ends = sort_runs(&mut self.runs, bounds, slices, run_max, front, back);
        let sorted = Instant::now();
        times.sort += sorted - started;
        let merged = match how.merging {
            Merging::TwoAtATime => merge_in_passes(how.isa, front, back, &ends),
            Merging::ManyAtOnce => {
                merge_many(how.isa, front, &ends, back, self.tree);
                &*back
            }
        };
        times.merge += sorted.elapsed();
        merged
    }
}

/// Sorts runs of at most about `run_max` tuples one after the other; returns their ends.
fn sort_runs<'i, T: Tuple>(
    sorter: &mut RunSorter,
    bounds: Option<KeyBounds>,
    slices: impl Iterator<Item = &'i [T]>,
    run_max: usize,
    front: &mut [T],
    back: &mut [T],
) -> Vec<usize> {
    let (mut ends, mut start, mut len) = (Vec::new(), 0, 0);
    let mut run: Vec<&[T]> = Vec::new();
    let mut finish = |run: &mut Vec<&'i [T]>, start: usize, len: usize| {
        let range = start..start + len;
        let (front, back) = (&mut front[range.clone()], &mut back[range]);
        sorter.sort(bounds, run.iter().copied(), front, back);
        run.clear();
        ends.push(start + len);
    };
    for slice in slices {
        run.push(slice);
        len += slice.len();
        if len >= run_max {
            finish(&mut run, start, len);
            (start, len) = (start + len, 0);
        }
    }
    if len > 0 {
        finish(&mut run, start, len);
    }
    ends
}

/// How a thread sorts.
#[derive(Clone, Copy, Debug)]
struct How {
    isa: Isa,
    run_sort: RunSort,
    merging: Merging,
}

/// A thread's time by phase.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    sort: Duration,
    merge: Duration,
    join: Duration,
}

/// Joins by sorting ranges.
pub(crate) fn run<T, K>(
    job: &Job<'_, T>,
    scratch: &mut Scratch,
    merging: Merging,
    new_sink: impl Fn() -> K + Sync,
) -> Result<Done>
where
    T: Tuple,
    K: Sink<T>,
{
    let mut clock = PhaseClock::start();
    let plan = Plan::new(job, merging);
    let scratch_bytes = plan.bytes::<T>(job.threads);
    let mut arena = job.arena(scratch, scratch_bytes)?;
    let (threads, fan_out) = (0..job.threads, 1 << plan.bits);
    let (mut stagings, r_regions, s_regions) =
        memory_of_pass(job.threads, plan.r_shape, plan.s_shape, &mut arena);
    clock.end("plan");

    let pass = job.pass(size_of_val(job.r) + size_of_val(job.s));
    let r = pass.run(job.r, r_regions, &mut stagings, plan.route)?;
    clock.end("partition-r");
    let s = pass.run(job.s, s_regions, &mut stagings, plan.route)?;
    clock.end("partition-s");

    let units = Units::new(&r, &s, plan.r_group, plan.s_group, |_| false);
    let how = How {
        isa: job.isa,
        run_sort: job.tuning.run_sort,
        merging,
    };
    let states: Vec<_> = threads
        .map(|_| {
            let r_sorter = Sorter::new(plan.r_group_max::<T>(), how, &mut arena);
            let s_sorter = Sorter::new(plan.s_group_max::<T>(), how, &mut arena);
            (r_sorter, s_sorter, new_sink())
        })
        .collect();
    let done = workers::run(states, |_, (mut r_sorter, mut s_sorter, mut sink)| {
        let mut times = Times::default();
        let mut next = units.take();
        while let Some(unit) = next.take() {
            let bounds = plan.route.bounds(unit.partition);
            let r_sorted = r_sorter.sort(&r, bounds, units.r(unit), &mut times);
            // A long range of S is several units, for which R is sorted once a thread.
            let mut current = Some(unit);
            while let Some(unit) = current {
                let s_sorted = s_sorter.sort(&s, bounds, units.s(unit), &mut times);
                let started = Instant::now();
                merge_join(job.isa, r_sorted, s_sorted, &mut sink);
                times.join += started.elapsed();
                job.watch.advance(s_sorted.len())?;
                current = units.take_sibling(unit, &mut next);
            }
        }
        Ok((sink, times))
    })?;
    let sum = |part: fn(&Times) -> Duration| done.iter().map(|(_, times)| part(times)).sum();
    clock.end_divided(&[
        ("sort", sum(|times| times.sort)),
        ("merge", sum(|times| times.merge)),
        ("join", sum(|times| times.join)),
    ]);
    Ok(Done {
        totals: totals_of(done.into_iter().map(|(sink, _)| sink).collect()),
        partitions: fan_out,
        passes: 1,
        filtered_tuples: 0,
        tables: TableWork::default(),
        scratch_bytes: scratch_bytes as u64,
        clock,
    })
}

/// Passes all pairs of equal keys of two sorted slices to `sink`, unless that stops.
pub(crate) fn merge_join<T: Tuple, K: Sink<T>>(isa: Isa, r: &[T], s: &[T], sink: &mut K) {
    let repeated = r.windows(2).fold(false, |repeated, pair| {
        repeated | (pair[0].key() == pair[1].key())
    });
    if repeated {
        merge_join_repeated(r, s, sink);
    } else {
        let (at_r, at_s) = join_vectors(isa, r, s, sink);
        merge_join_distinct(&r[at_r..], &s[at_s..], sink);
    }
}

/// The sides of a merge join that are advanced side by side with others.
#[derive(Clone, Copy)]
struct Lane<'a, T> {
    r: &'a [T],
    s: &'a [T],
    at_r: usize,
    at_s: usize,
}

impl<T: Tuple> Lane<'_, T> {
    /// Steps that can be taken without looking whether a side has ended.
    fn steps(&self) -> usize {
        (self.r.len() - self.at_r).min(self.s.len() - self.at_s)
    }

    /// Compares the next tuple of each side, and advances on the side of the smaller key, or of S.
    #[inline(always)]
    fn step<const PAIRS: usize>(&mut self, pairs: &mut Pairs<T, PAIRS>) {
        let (r, s) = (self.r[self.at_r], self.s[self.at_s]);
        pairs.push_if(r.key() == s.key(), r.payload(), s.payload());
        // The side that advances is unpredictable, so it is no branch.
        self.at_r += usize::from(r.key() < s.key());
        self.at_s += usize::from(r.key() >= s.key());
    }
}

/// Parts of S that are merged side by side: one step waits for the one before it, but not for those
/// of the other parts.
const LANES: usize = 4;
/// Steps between two emptyings of the pairs.
const LANE_STEPS: usize = 32;

/// Passes all pairs of equal keys to `sink`; no two keys of `r` are equal.
fn merge_join_distinct<T: Tuple, K: Sink<T>>(r: &[T], s: &[T], sink: &mut K) {
    let mut lanes: [Lane<'_, T>; LANES] = std::array::from_fn(|lane| {
        let s = &s[s.len() * lane / LANES..s.len() * (lane + 1) / LANES];
        let start = s.first().map_or(0, |first| {
            r.partition_point(|tuple| tuple.key() < first.key())
        });
        Lane {
            r: &r[start..],
            s,
            at_r: 0,
            at_s: 0,
        }
    });
    let mut pairs = Pairs::<T, { LANES * LANE_STEPS }>::new();
    loop {
        let steps = lanes.iter().map(Lane::steps).min().unwrap_or(0);
        if steps == 0 {
            break;
        }
        for _ in 0..steps.min(LANE_STEPS) {
            for lane in &mut lanes {
                lane.step(&mut pairs);
            }
        }
        pairs.emit(sink);
    }
    for mut lane in lanes {
        while lane.steps() > 0 {
            for _ in 0..lane.steps().min(LANE_STEPS) {
                lane.step(&mut pairs);
            }
            pairs.emit(sink);
        }
    }
}

/// How many tuples there are, and the sum of their payloads modulo 2^64.
fn count_and_sum<'i, T: Tuple>(tuples: impl Iterator<Item = &'i T>) -> (u64, u64) {
    tuples.fold((0, 0), |(count, sum): (u64, u64), tuple| {
        (count + 1, sum.wrapping_add(tuple.payload().into()))
    })
}

/// Passes all pairs of equal keys to `sink`, which may be equal on both sides.
fn merge_join_repeated<T: Tuple, K: Sink<T>>(r: &[T], s: &[T], sink: &mut K) {
    let (mut at_r, mut at_s) = (0, 0);
    while at_r < r.len() && at_s < s.len() {
        let (from_r, from_s) = (r[at_r], s[at_s]);
        if from_r.key() != from_s.key() {
            // The side that advances is unpredictable, so it is not a branch.
            at_r += usize::from(from_r.key() < from_s.key());
            at_s += usize::from(from_s.key() < from_r.key());
            continue;
        }
        let mut r_end = at_r + 1;
        while r_end < r.len() && r[r_end].key() == from_s.key() {
            r_end += 1;
        }
        if K::TOTALS_ONLY && r_end - at_r > 1 {
            let of_key = s[at_s..].iter().take_while(|t| t.key() == from_s.key());
            let (s_count, s_sum) = count_and_sum(of_key);
            let (r_count, r_sum) = count_and_sum(r[at_r..r_end].iter());
            sink.add(Totals {
                count: r_count * s_count,
                r_payload_sum: r_sum.wrapping_mul(s_count),
                s_payload_sum: s_sum.wrapping_mul(r_count),
            });
            at_s += s_count as usize;
        }
        while at_s < s.len() && s[at_s].key() == from_s.key() {
            if r_end - at_r >= MANY_PARTNERS && sink.stops() {
                return;
            }
            for partner in &r[at_r..r_end] {
                sink.emit(partner.payload(), s[at_s].payload());
            }
            at_s += 1;
        }
        at_r = r_end;
    }
}
