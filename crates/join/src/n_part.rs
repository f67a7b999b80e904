//! `n-part`: one table for all of R, and S is probed in place (no-partitioning hash join of the
//! 2013 paper, NPO in its code).
//!
//! | layout | when |
//! |---|---|
//! | array of payloads | the keys of R are distinct and fill a good part of their range |
//! | linear probing | few equal keys |
//! | sorted buckets | many equal keys |
//!
//! A lookup in a large table is a miss, so batches of S are looked up together: the lines of the
//! next batch are prefetched while this one is probed. Where we differ from the paper: the table is
//! not filled through latches. The tuples of R are partitioned by the upper bits of their hash
//! first, and each thread fills its parts of the table in its own cache; S is never partitioned.
//! With [`TableKind::BucketChain`] it is as in the paper: one table of bucket chains, which all
//! threads fill together, and no partitions.

use crate::error::Result;
use crate::job::{Done, Job, looks_dense, totals_of};
use crate::machine::machine;
use crate::options::TableKind;
use crate::output::{Sink, Totals};
use crate::partition::{Hashed, Partitions, PassShape, Ranged, Route};
use crate::scratch::{Arena, Scratch};
use crate::simd::{prefetch, probe_array, probe_linear};
use crate::stats::{PhaseClock, TableWork};
use crate::table::{
    ArrayTable, BucketTable, Extent, Filled, KeyShape, Keys, LinearTable, SharedChains, SumMarks,
    bucket_bits, fill_buckets, fill_linear, slot_bits, slots_len, sum_up_buckets,
};
use crate::tuple::Tuple;
use crate::workers;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tuples of S that are looked up together.
const BATCH_TUPLES: usize = 32;
/// Tuples of S that a thread takes at a time.
const STEP_TUPLES: usize = 1 << 15;
/// An array takes at most this many places a tuple.
const ARRAY_PLACES_A_TUPLE: usize = 4;
/// Parts of the table, at most, as a power of two.
const PART_BITS_MAX: u32 = 12;

/// Sizes of the table, fixed before any memory is touched.
#[derive(Clone, Copy, Debug)]
struct Plan {
    part_bits: u32,
    slot_bits: u32,
    bucket_bits: u32,
    shape: PassShape,
    /// The extent of R's keys, if an array is tried first.
    extent: Option<Extent>,
}

impl Plan {
    fn new<T: Tuple>(job: &Job<'_, T>) -> Self {
        let parts = (job.r.len() * T::BYTES * 4).div_ceil(machine().l2_bytes);
        let parts = parts.max(job.threads).next_power_of_two();
        let part_bits = parts.ilog2().clamp(1, PART_BITS_MAX);
        let extent = if looks_dense(job.r) {
            extent_of(job)
        } else {
            None
        };
        let places_max = job.r.len() * ARRAY_PLACES_A_TUPLE;
        let part_tuples = job.r.len().div_ceil(1 << part_bits);
        Self {
            part_bits,
            slot_bits: slot_bits(part_tuples),
            bucket_bits: bucket_bits(part_tuples),
            shape: PassShape::new::<T>(1 << part_bits, job.share_len(job.r.len())),
            extent: extent.filter(|extent| extent.len() <= places_max),
        }
    }

    /// Partitions by key range for the array: bits of the number of parts and of the places of one.
    fn array_bits(&self, extent: Extent) -> (u32, u32) {
        let width_bits = u64::BITS - (extent.high() - extent.low()).leading_zeros();
        // A word of the presence bits belongs to one part.
        let bits = width_bits.saturating_sub(6).min(self.part_bits);
        (bits, (width_bits - bits).max(6))
    }

    fn bytes<T: Tuple>(&self, threads: usize, tuples: usize) -> usize {
        let fan_out = 1 << self.part_bits;
        let regions =
            threads * (PassShape::staging_bytes::<T>(fan_out) + self.shape.region_bytes::<T>());
        let linear = Arena::bytes_of::<T>(slots_len(self.slot_bits) * fan_out);
        let buckets = Arena::bytes_of::<T>(tuples)
            + Arena::bytes_of::<u32>((fan_out << self.bucket_bits) + 1);
        let places = self.extent.map_or(0, Extent::len);
        let array =
            Arena::bytes_of::<T::Word>(places) + Arena::bytes_of::<u64>(places.div_ceil(64));
        regions + linear.max(buckets).max(array)
    }
}

/// The extent of all keys of R, by all threads.
fn extent_of<T: Tuple>(job: &Job<'_, T>) -> Option<Extent> {
    let shares: Vec<&[T]> = job.r.chunks(job.share_len(job.r.len()).max(1)).collect();
    let extents = workers::run(shares, |_, share| Ok(Extent::of(std::iter::once(share), 0)));
    extents.ok()?.into_iter().reduce(Extent::union)
}

/// Bytes of the table of R: of an array if its keys look dense, else of one with linear probing.
pub(crate) fn table_bytes<T: Tuple>(r: &[T], dense: bool) -> usize {
    if dense {
        // As many places as tuples, or a few more.
        size_of::<T::Word>() * r.len()
    } else {
        T::BYTES << slot_bits(r.len())
    }
}

/// Bytes of scratch memory.
pub(crate) fn scratch_bytes<T: Tuple>(job: &Job<'_, T>) -> usize {
    if job.tuning.table == TableKind::BucketChain {
        return SharedChains::<T>::bytes(job.r.len());
    }
    Plan::new(job).bytes::<T>(job.threads, job.r.len())
}

/// Joins with one table.
pub(crate) fn run<T, K>(
    job: &Job<'_, T>,
    scratch: &mut Scratch,
    new_sink: impl Fn() -> K + Sync,
) -> Result<Done>
where
    T: Tuple,
    K: Sink<T>,
{
    let mut clock = PhaseClock::start();
    if job.tuning.table == TableKind::BucketChain {
        let sinks = without_partitions(job, scratch, &new_sink, &mut clock)?;
        return Ok(done(job, totals_of(sinks), 1, scratch_bytes(job), clock));
    }
    let plan = Plan::new(job);
    let scratch_bytes = plan.bytes::<T>(job.threads, job.r.len());
    let mut arena = job.arena(scratch, scratch_bytes)?;
    clock.end("plan");
    let array = match plan.extent {
        Some(extent) => with_array(job, plan, extent, arena.reborrow(), &new_sink, &mut clock)?,
        None => None,
    };
    let sinks = match array {
        Some(sinks) => sinks,
        None => with_hash(job, plan, arena, &new_sink, &mut clock)?,
    };
    let partitions = 1 << plan.part_bits;
    Ok(done(
        job,
        totals_of(sinks),
        partitions,
        scratch_bytes,
        clock,
    ))
}

fn done<T: Tuple>(
    job: &Job<'_, T>,
    totals: Totals,
    partitions: usize,
    scratch_bytes: usize,
    clock: PhaseClock,
) -> Done {
    Done {
        totals,
        partitions,
        passes: 0,
        filtered_tuples: 0,
        tables: TableWork {
            built_tuples: job.r.len() as u64,
            shared_tuples: 0,
            lookups: job.s.len() as u64,
        },
        scratch_bytes: scratch_bytes as u64,
        clock,
    }
}

/// Joins through one table of bucket chains, which all threads fill together.
fn without_partitions<T, K>(
    job: &Job<'_, T>,
    scratch: &mut Scratch,
    new_sink: &(impl Fn() -> K + Sync),
    clock: &mut PhaseClock,
) -> Result<Vec<K>>
where
    T: Tuple,
    K: Sink<T>,
{
    let mut arena = job.arena(scratch, scratch_bytes(job))?;
    clock.end("plan");
    let table = SharedChains::build(&mut arena, job.r, job.share_len(job.r.len()))?;
    clock.end("build");
    let sinks = probe_all(job, new_sink, |step, sink: &mut K| {
        let ahead = |batch: &[T]| table.prefetch(batch);
        in_batches(false, step, ahead, |batch| table.probe(batch, sink));
    })?;
    clock.end("probe");
    Ok(sinks)
}

/// Partitions R for building.
fn partition_r<'a, T: Tuple>(
    job: &Job<'_, T>,
    shape: PassShape,
    fan_out: usize,
    arena: &mut Arena<'a>,
    route: impl Route<T>,
) -> Result<Partitions<'a, T>> {
    let threads = 0..job.threads;
    let stagings = threads.clone().map(|_| PassShape::staging(fan_out, arena));
    let mut stagings: Vec<_> = stagings.collect();
    let regions = threads.map(|_| shape.region(arena)).collect();
    let pass = job.pass(size_of_val(job.r));
    pass.run(job.r, regions, &mut stagings, route)
}

/// Joins through an array of payloads; none if keys of R are equal.
fn with_array<T, K>(
    job: &Job<'_, T>,
    plan: Plan,
    extent: Extent,
    mut arena: Arena<'_>,
    new_sink: &(impl Fn() -> K + Sync),
    clock: &mut PhaseClock,
) -> Result<Option<Vec<K>>>
where
    T: Tuple,
    K: Sink<T>,
{
    let (bits, place_bits) = plan.array_bits(extent);
    let places = extent.len();
    let payloads = arena.take::<T::Word>(places);
    let presence = arena.take::<u64>(places.div_ceil(64));
    let route = Ranged::with_shift(extent.low(), place_bits, bits);
    let shape = PassShape::new::<T>(1 << bits, job.share_len(job.r.len()));
    let r = partition_r(job, shape, 1 << bits, &mut arena, route)?;
    clock.end("partition-r");

    let places_a_part = 1 << place_bits;
    let parts_a_thread = (1usize << bits).div_ceil(job.threads);
    let payload_shares = payloads.chunks_mut(parts_a_thread * places_a_part);
    let presence_shares = presence.chunks_mut(parts_a_thread * places_a_part / 64);
    let shares: Vec<_> = payload_shares.zip(presence_shares).collect();
    let distinct = workers::run(shares, |thread, (payloads, presence)| {
        let both = payloads
            .chunks_mut(places_a_part)
            .zip(presence.chunks_mut(places_a_part / 64));
        let mut spans = Vec::new();
        let mut distinct = true;
        for (index, (payloads, presence)) in both.enumerate() {
            let part = thread * parts_a_thread + index;
            spans.clear();
            r.groups(part, usize::MAX / 2, &mut spans);
            let extent = extent.part(part * places_a_part, places_a_part);
            let filled = ArrayTable::fill(payloads, presence, extent, r.slices(&spans));
            distinct &= filled == Filled::Distinct;
        }
        Ok(distinct)
    })?;
    clock.end("build");
    if distinct.contains(&false) {
        return Ok(None);
    }
    let table = ArrayTable::new(payloads, presence, extent, job.r.len());
    // Gathers are far enough ahead of one another for anything that is near.
    let near = if job.isa.gathers() { 4 } else { 1 };
    let in_cache = size_of_val(payloads) <= machine().l2_bytes / 2 * near;
    let sinks = probe_all(job, new_sink, |step, sink: &mut K| {
        let ahead = |batch: &[T]| {
            for &tuple in batch {
                prefetch(table.payloads(), table.place(tuple));
            }
        };
        in_batches(in_cache, step, ahead, |batch| {
            probe_array(job.isa, &table, batch, sink);
        });
    })?;
    clock.end("probe");
    Ok(Some(sinks))
}

/// Joins through a table with linear probing, or through sorted buckets if many keys are equal.
fn with_hash<T, K>(
    job: &Job<'_, T>,
    plan: Plan,
    mut arena: Arena<'_>,
    new_sink: &(impl Fn() -> K + Sync),
    clock: &mut PhaseClock,
) -> Result<Vec<K>>
where
    T: Tuple,
    K: Sink<T>,
{
    let route = Hashed::spread(plan.part_bits, 0);
    let fan_out = 1usize << plan.part_bits;
    let r = partition_r(job, plan.shape, fan_out, &mut arena, route)?;
    clock.end("partition-r");
    let mut for_linear = arena.reborrow();
    let slots = for_linear.take::<T>(slots_len(plan.slot_bits) * fan_out);
    let keys = fill_parts(job.threads, plan, slots, &r)?;
    clock.end("build");
    let Some(keys) = keys else {
        return with_buckets(job, plan, arena, &r, new_sink, clock);
    };
    let strangers = route.strangers();
    let table = LinearTable::of_parts(slots, plan.part_bits, plan.slot_bits, strangers, keys);
    let in_cache = size_of_val(table.slots) <= machine().l2_bytes / 2;
    let sinks = probe_all(job, new_sink, |step, sink: &mut K| {
        let ahead = |batch: &[T]| {
            for tuple in batch {
                prefetch(table.slots, table.start(tuple.key()).0);
            }
        };
        in_batches(in_cache, step, ahead, |batch| {
            probe_linear(job.isa, &table, batch, sink);
        });
    })?;
    clock.end("probe");
    Ok(sinks)
}

/// Fills the parts of a table with linear probing; none if too many keys are equal.
fn fill_parts<T: Tuple>(
    threads: usize,
    plan: Plan,
    slots: &mut [T],
    r: &Partitions<'_, T>,
) -> Result<Option<Keys>> {
    let stride = slots_len(plan.slot_bits);
    let parts_a_thread = r.fan_out().div_ceil(threads);
    let shares: Vec<&mut [T]> = slots.chunks_mut(parts_a_thread * stride).collect();
    let route = Hashed::spread(plan.part_bits, 0);
    let strangers = route.strangers::<T::Word>();
    let found = workers::run(shares, |thread, slots| {
        let mut spans = Vec::new();
        let mut all = Some(Keys::Distinct);
        for (index, slots) in slots.chunks_mut(stride).enumerate() {
            let part = thread * parts_a_thread + index;
            let free_key = if route.of_key(strangers[0]) == part {
                strangers[1]
            } else {
                strangers[0]
            };
            let shape = KeyShape {
                free_key,
                skipped_bits: plan.part_bits,
                dense: None,
            };
            spans.clear();
            r.groups(part, usize::MAX / 2, &mut spans);
            match fill_linear(slots, plan.slot_bits, shape, r.slices(&spans)) {
                Some(Keys::Distinct) => {}
                Some(Keys::SomeEqual) => all = Some(Keys::SomeEqual),
                None => return Ok(None),
            }
        }
        Ok(all)
    })?;
    let all = found.into_iter().try_fold(Keys::Distinct, |all, keys| {
        keys.map(|keys| if keys == Keys::Distinct { all } else { keys })
    });
    Ok(all)
}

/// Joins through sorted buckets.
fn with_buckets<T, K>(
    job: &Job<'_, T>,
    plan: Plan,
    mut arena: Arena<'_>,
    r: &Partitions<'_, T>,
    new_sink: &(impl Fn() -> K + Sync),
    clock: &mut PhaseClock,
) -> Result<Vec<K>>
where
    T: Tuple,
    K: Sink<T>,
{
    let fan_out = r.fan_out();
    let buckets = fan_out << plan.bucket_bits;
    let tuples = arena.take::<T>(job.r.len());
    let starts = arena.take::<u32>(buckets + 1);
    starts[buckets] = job.r.len() as u32;
    let mut parts = Vec::with_capacity(fan_out);
    let (mut rest, mut base) = (&mut *tuples, 0);
    for (part, starts) in starts[..buckets]
        .chunks_mut(1 << plan.bucket_bits)
        .enumerate()
    {
        let (front, back) = rest.split_at_mut(r.len(part));
        let len = front.len();
        parts.push(Some((part, starts, front, base)));
        (rest, base) = (back, base + len);
    }
    let parts_a_thread = fan_out.div_ceil(job.threads);
    let shares: Vec<_> = parts.chunks_mut(parts_a_thread).collect();
    let hash = Hashed::spread(plan.bucket_bits, plan.part_bits);
    let strangers = Hashed::spread(plan.part_bits, 0).strangers();
    let marks = SumMarks::of_parts(plan.part_bits, plan.bucket_bits, strangers);
    workers::run(shares, |_, parts| {
        let mut spans = Vec::new();
        for (part, starts, tuples, base) in parts.iter_mut().filter_map(Option::take) {
            spans.clear();
            r.groups(part, usize::MAX / 2, &mut spans);
            fill_buckets(starts, tuples, base, hash, r.slices(&spans));
            if K::TOTALS_ONLY {
                sum_up_buckets(starts, tuples, base, marks.of_part(part));
            }
        }
        Ok(())
    })?;
    clock.end("build-buckets");
    let hash = Hashed::spread(plan.part_bits + plan.bucket_bits, 0);
    let table = BucketTable::new(starts, tuples, hash, marks);
    let in_cache = size_of_val(starts) + size_of_val(tuples) <= machine().l2_bytes / 2;
    let sinks = probe_all(job, new_sink, |step, sink: &mut K| {
        let batches = step.chunks(BATCH_TUPLES);
        let (next, after) = (batches.clone().skip(1), batches.clone().skip(2));
        let mut ahead = next
            .map(Some)
            .chain([None])
            .zip(after.map(Some).chain([None, None]));
        for batch in batches {
            if let Some((next, after)) = ahead.next().filter(|_| !in_cache) {
                for &tuple in after.into_iter().flatten() {
                    table.prefetch_bounds(table.bucket(tuple));
                }
                for &tuple in next.into_iter().flatten() {
                    table.prefetch_tuples(table.bucket(tuple));
                }
            }
            table.probe(batch, sink);
        }
    })?;
    clock.end("probe");
    Ok(sinks)
}

/// Probes all of S, step by step, with all threads.
fn probe_all<T: Tuple, K: Sink<T>>(
    job: &Job<'_, T>,
    new_sink: &(impl Fn() -> K + Sync),
    probe: impl Fn(&[T], &mut K) + Sync,
) -> Result<Vec<K>> {
    let next = AtomicUsize::new(0);
    let sinks: Vec<K> = (0..job.threads).map(|_| new_sink()).collect();
    workers::run(sinks, |_, mut sink| {
        loop {
            let start = next.fetch_add(STEP_TUPLES, Ordering::Relaxed);
            let Some(rest) = job.s.get(start..).filter(|rest| !rest.is_empty()) else {
                return Ok(sink);
            };
            let step = &rest[..rest.len().min(STEP_TUPLES)];
            probe(step, &mut sink);
            job.watch.advance(step.len())?;
        }
    })
}

/// Calls `probe` for each batch, and just before it `ahead` for the next batch, unless everything
/// is in the cache.
#[inline(always)]
fn in_batches<T>(in_cache: bool, tuples: &[T], ahead: impl Fn(&[T]), mut probe: impl FnMut(&[T])) {
    if in_cache {
        return probe(tuples);
    }
    let mut batches = tuples.chunks(BATCH_TUPLES);
    let mut current = batches.next();
    ahead(current.unwrap_or_default());
    while let Some(batch) = current {
        current = batches.next();
        ahead(current.unwrap_or_default());
        probe(batch);
    }
}
