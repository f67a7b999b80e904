//! `mpsm`: massively parallel sort-merge join. R is partitioned by ranges of keys and sorted range
//! by range; S stays where it is, as one private sorted run of each thread; each range of R is
//! joined with the part of each run that can have partners.
//!
//! S never crosses from one thread's memory to another's before the join, at the price of reading R
//! once for each run. A private run is sorted by splitting the thread's share into the same ranges
//! first, so that each is sorted in the cache; their bounds then say where a range of R meets the
//! run. Where skew makes a range of a run long, it is cut, and each piece searches its own bounds
//! in R.

use crate::error::Result;
use crate::job::{Done, Job, sampled_extent, totals_of};
use crate::output::Sink;
use crate::partition::{Partitions, PassShape, Ranged, memory_of_pass, spans_len};
use crate::scratch::{Arena, Scratch};
use crate::simd::Isa;
use crate::sort::join::{merge_join, run_tuples};
use crate::sort::run::RunSorter;
use crate::stats::{PhaseClock, TableWork};
use crate::tuple::Tuple;
use crate::workers;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Ranges, at most, as a power of two.
const DEFAULT_BITS_MAX: u32 = 12;
/// Units of the join for each thread.
const UNITS_A_THREAD: usize = 16;
/// The longest piece of a run that is joined at a time.
const PIECE_TUPLES: usize = 1 << 16;

/// Sizes, fixed before any memory is touched.
#[derive(Clone, Copy, Debug)]
struct Plan {
    bits: u32,
    route: Ranged,
    r_shape: PassShape,
    s_shape: PassShape,
    /// The longest range that is sorted in the cache.
    back_tuples: usize,
}

impl Plan {
    fn new<T: Tuple>(job: &Job<'_, T>) -> Self {
        let (r, s) = (job.r.len(), job.s.len());
        let ranges = r.max(s).div_ceil(run_tuples::<T>()).max(job.threads * 4);
        let wanted = ranges
            .next_power_of_two()
            .ilog2()
            .clamp(1, DEFAULT_BITS_MAX);
        let bits = job.tuning.partition_bits.unwrap_or(wanted);
        let (low, high) = sampled_extent(job.r).unwrap_or((0, 0));
        Self {
            bits,
            route: Ranged::new(low, high, bits),
            r_shape: PassShape::new::<T>(1 << bits, job.share_len(r)),
            s_shape: PassShape::new::<T>(1 << bits, job.share_len(s)),
            back_tuples: (r.max(s) >> bits) * 2 + 1024,
        }
    }

    fn bytes<T: Tuple>(&self, job: &Job<'_, T>) -> usize {
        let a_thread = PassShape::staging_bytes::<T>(1 << self.bits)
            + self.r_shape.region_bytes::<T>()
            + self.s_shape.region_bytes::<T>()
            + Arena::bytes_of::<T>(self.back_tuples);
        job.threads * a_thread
            + Arena::bytes_of::<T>(job.r.len())
            + Arena::bytes_of::<T>(job.s.len())
    }
}

/// A range of some parts, and where its sorted tuples go.
struct Target<'a, T> {
    parts: std::ops::Range<usize>,
    range: usize,
    to: &'a mut [T],
}

/// Sorts ranges one after the other.
struct RangeSorter<'a, T> {
    runs: RunSorter,
    route: Ranged,
    back: &'a mut [T],
}

impl<T: Tuple> RangeSorter<'_, T> {
    fn sort(&mut self, from: &Partitions<'_, T>, target: Target<'_, T>) {
        let spans: Vec<_> = target
            .parts
            .map(|part| from.span(part, target.range))
            .collect();
        let len = spans_len(&spans);
        let slices = from.slices(&spans);
        if len <= self.back.len() {
            let bounds = self.route.bounds(target.range);
            return self.runs.sort(bounds, slices, target.to, self.back);
        }
        // More skew than planned for: without a second buffer, in place.
        for (slot, tuple) in target.to.iter_mut().zip(slices.flatten()) {
            *slot = *tuple;
        }
        target.to.sort_unstable_by_key(|tuple| tuple.key());
    }
}

/// A relation in sorted runs of the same ranges.
struct Runs<'a, T> {
    tuples: &'a [T],
    /// Where the ranges of each run begin, and where the last one ends.
    starts: Vec<Vec<usize>>,
}

/// Sorts the ranges of each group of parts into a run of its own, in `to`; one thread works on a
/// share of the ranges or runs.
fn sort_into_runs<'a, T: Tuple>(
    from: &Partitions<'_, T>,
    runs: &[std::ops::Range<usize>],
    to: &'a mut [T],
    sorters: Vec<RangeSorter<'_, T>>,
) -> Result<Runs<'a, T>> {
    let (mut starts, mut ranges) = (Vec::with_capacity(runs.len()), Vec::new());
    let (mut rest, mut start) = (&mut *to, 0);
    for parts in runs {
        let mut run_starts = Vec::with_capacity(from.fan_out() + 1);
        for range in 0..from.fan_out() {
            let counts = parts.clone().map(|part| from.part_len(part, range));
            let (front, back) = rest.split_at_mut(counts.sum());
            run_starts.push(start);
            start += front.len();
            rest = back;
            ranges.push(Target {
                parts: parts.clone(),
                range,
                to: front,
            });
        }
        run_starts.push(start);
        starts.push(run_starts);
    }
    let share = ranges.len().div_ceil(sorters.len());
    let mut ranges = ranges.into_iter();
    let states: Vec<_> = sorters
        .into_iter()
        .map(|sorter| (sorter, ranges.by_ref().take(share).collect::<Vec<_>>()))
        .collect();
    workers::run(states, |_, (mut sorter, ranges)| {
        for range in ranges {
            sorter.sort(from, range);
        }
        Ok(())
    })?;
    Ok(Runs { tuples: to, starts })
}

/// Joins.
pub(crate) fn run<T: Tuple, K: Sink<T>>(
    job: &Job<'_, T>,
    scratch: &mut Scratch,
    new_sink: impl Fn() -> K + Sync,
) -> Result<Done> {
    let mut clock = PhaseClock::start();
    let plan = Plan::new(job);
    let scratch_bytes = plan.bytes(job);
    let mut arena = job.arena(scratch, scratch_bytes)?;
    let (threads, fan_out) = (0..job.threads, 1 << plan.bits);
    let (mut stagings, r_regions, s_regions) =
        memory_of_pass(job.threads, plan.r_shape, plan.s_shape, &mut arena);
    let (r_to, s_to) = (arena.take::<T>(job.r.len()), arena.take::<T>(job.s.len()));
    let backs = threads.clone().map(|_| arena.take::<T>(plan.back_tuples));
    let mut backs: Vec<&mut [T]> = backs.collect();
    let pass = job.pass(size_of_val(job.r) + size_of_val(job.s));
    clock.end("plan");

    let r = pass.run(job.r, r_regions, &mut stagings, plan.route)?;
    clock.end("partition-r");
    let all = 0..job.threads;
    let r = sort_into_runs(&r, &[all], r_to, sorters(job, plan.route, &mut backs))?;
    clock.end("sort-r");
    let s = pass.run(job.s, s_regions, &mut stagings, plan.route)?;
    clock.end("partition-s");
    let each: Vec<_> = threads.clone().map(|thread| thread..thread + 1).collect();
    let s = sort_into_runs(&s, &each, s_to, sorters(job, plan.route, &mut backs))?;
    clock.end("sort-s");

    let units = units(&s, fan_out, job.threads);
    let next = AtomicUsize::new(0);
    let sinks: Vec<K> = threads.map(|_| new_sink()).collect();
    let sinks = workers::run(sinks, |_, mut sink| {
        while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
            let ranges = &r.starts[0];
            let r_part = &r.tuples[ranges[unit.first]..ranges[unit.end]];
            for piece in s.tuples[unit.s.clone()].chunks(PIECE_TUPLES) {
                join_piece(job.isa, r_part, piece, &mut sink);
                job.watch.advance(piece.len())?;
            }
        }
        Ok(sink)
    })?;
    clock.end("join");
    Ok(Done {
        totals: totals_of(sinks),
        partitions: fan_out,
        passes: 1,
        filtered_tuples: 0,
        tables: TableWork::default(),
        scratch_bytes: scratch_bytes as u64,
        clock,
    })
}

fn sorters<'b, T: Tuple>(
    job: &Job<'_, T>,
    route: Ranged,
    backs: &'b mut [&mut [T]],
) -> Vec<RangeSorter<'b, T>> {
    let mut all = Vec::with_capacity(backs.len());
    for back in backs {
        all.push(RangeSorter {
            runs: RunSorter::new(job.isa, job.tuning.run_sort),
            route,
            back,
        });
    }
    all
}

/// Some ranges of R, and the part of one run of S that falls into them.
struct Unit {
    first: usize,
    end: usize,
    s: std::ops::Range<usize>,
}

fn units<T>(s: &Runs<'_, T>, fan_out: usize, threads: usize) -> Vec<Unit> {
    let ranges = fan_out.div_ceil(threads * UNITS_A_THREAD);
    let mut all = Vec::new();
    for first in (0..fan_out).step_by(ranges) {
        let end = (first + ranges).min(fan_out);
        for starts in &s.starts {
            let s = starts[first]..starts[end];
            if !s.is_empty() {
                all.push(Unit { first, end, s });
            }
        }
    }
    all
}

/// Joins a sorted piece of S with the tuples of R that can be partners.
fn join_piece<T: Tuple, K: Sink<T>>(isa: Isa, r: &[T], piece: &[T], sink: &mut K) {
    let Some((first, last)) = piece.first().zip(piece.last()) else {
        return;
    };
    let start = r.partition_point(|tuple| tuple.key() < first.key());
    let end = r.partition_point(|tuple| tuple.key() <= last.key());
    merge_join(isa, &r[start..end], piece, sink);
}
