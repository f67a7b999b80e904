//! `radix`: both sides are partitioned by bits of the key until the table of a partition of R fits
//! the cache; then the partitions are joined one by one (parallel radix hash join of the 2013
//! paper, PRO and PRHO in its code).
//!
//! One pass of up to 2^12 partitions is enough for hundreds of millions of tuples, since whole
//! lines are written past the cache. A second pass, for larger ones or on request, splits a
//! partition inside the thread that joins it, in memory of its own. Where we differ from the paper:
//!
//! - Threads partition into regions of their own (no histogram, no prefix sums, no waiting); a
//!   partition is read from all regions.
//! - Dense keys are partitioned by their own lower bits, so that a partition is dense again and its
//!   table is an array.
//! - Skew: a group of blocks is the unit of work. A large partition of S becomes several units, for
//!   which each thread builds the small table once.
//! - Equal keys on both sides: a partition of R that is too large for the table of one thread gets
//!   one that all threads build and share (`shared`); one that no sample foresaw meets S group by
//!   group.
//! - Few partners: a Bloom filter over R, built and used only if a sample of S says so, drops
//!   tuples of S before they are moved.

use crate::bloom::{self, Filtered};
use crate::error::Result;
use crate::job::{Done, Job, dense_extent, looks_dense, totals_of};
use crate::machine::machine;
use crate::options::{BloomUse, PARTITION_BITS_MAX, TableKind};
use crate::output::Sink;
use crate::partition::{Hashed, Partitions, Pass, PassShape, memory_of_pass, spans_len};
use crate::scratch::{Arena, Scratch};
use crate::shared::{self, SharedTables};
use crate::simd::{Region, Staging};
use crate::stats::{PhaseClock, TableWork};
use crate::table::{DenseKeys, KeyShape, TableBuffers};
use crate::tuple::Tuple;
use crate::units::{Unit, Units};
use crate::workers;

/// Partitions of one pass by default: their staging lines take half of a common second-level cache.
const DEFAULT_BITS_MAX: u32 = 12;
/// Tuples of S whose partners are looked for to estimate how many have one.
const PARTNER_SAMPLE: usize = 64;
/// A filter is worth its price if at most this part of the sample has partners.
const FILTER_PARTNERS_MAX: usize = PARTNER_SAMPLE / 3;
/// Tuples of S between two looks at the monitor.
const MONITOR_TUPLES: usize = 1 << 14;
/// The smallest group of S.
const S_GROUP_TUPLES_MIN: usize = 1 << 16;

/// Sizes of a radix join, fixed before any memory is touched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    bits: u32,
    second_bits: u32,
    /// Where the keys lie, if they are dense.
    dense: Option<(u64, u64)>,
    r_shape: PassShape,
    s_shape: PassShape,
    r_group: usize,
    s_group: usize,
    table_tuples: usize,
    filter_words: usize,
    /// Room for tuples of R in shared tables.
    shared_tuples: usize,
}

/// Bits of partitions whose tables fit the second-level cache.
fn bits_for<T: Tuple>(job: &Job<'_, T>) -> u32 {
    // A table takes two to four slots a tuple, or one or two if there is one for each key; the
    // tuples that probe it need little.
    let slots = if job.isa.gathers() && looks_dense(job.r) {
        2
    } else {
        3
    };
    let tables = (job.r.len() * T::BYTES * slots).div_ceil(machine().l2_bytes);
    let by_cache = tables.next_power_of_two().ilog2();
    let by_threads = (job.threads * 4).next_power_of_two().ilog2();
    by_cache.max(by_threads.min(6)).max(1)
}

impl Plan {
    pub(crate) fn new<T: Tuple>(job: &Job<'_, T>) -> Self {
        let (r, s) = (job.r.len(), job.s.len());
        let wanted = bits_for(job);
        let bits = job
            .tuning
            .partition_bits
            .unwrap_or(wanted.min(DEFAULT_BITS_MAX));
        // Tables of up to four times the cache cost less than another pass.
        let left = wanted.saturating_sub(bits + 2);
        let second_bits = job.tuning.second_pass_bits.unwrap_or(left);
        let second_bits = second_bits.min(PARTITION_BITS_MAX);
        let fan_out = 1 << bits;
        let group = |tuples: usize| tuples / fan_out * 2 + 1024;
        let (r_group, s_group) = (group(r), (s / job.threads / 8).max(S_GROUP_TUPLES_MIN));
        let table_tuples = match second_bits {
            0 => r_group,
            bits => (r_group >> bits) * 4 + 1024,
        };
        let (dense, shared_tuples) = Self::route_for(job, bits, r_group);
        Self {
            bits,
            second_bits,
            dense,
            r_shape: PassShape::new::<T>(fan_out, job.share_len(r)),
            s_shape: PassShape::new::<T>(fan_out, job.share_len(s)),
            r_group,
            s_group: if second_bits > 0 {
                s_group.min(group(s))
            } else {
                s_group
            },
            table_tuples,
            filter_words: Self::filter_words(job, fan_out),
            shared_tuples,
        }
    }

    /// The extent of the keys, if their lower bits make good partitions, and the tuples of R in
    /// partitions that are large all the same.
    fn route_for<T: Tuple>(
        job: &Job<'_, T>,
        bits: u32,
        r_group: usize,
    ) -> (Option<(u64, u64)>, usize) {
        let large = |route| shared::large_tuples(job.r, route, 1 << bits, r_group);
        let dense = dense_extent(job.r);
        let by_low_bits = dense.map(|_| large(Hashed::low_bits(bits, 0)));
        let (dense, tuples) = match by_low_bits {
            Some(0) => (dense, 0),
            // Perhaps the keys are multiples of a number, which a hash spreads, or a few of them
            // have most tuples, which nothing spreads.
            Some(tuples) => match large(Hashed::spread(bits, 0)) {
                spread if spread < tuples / 2 => (None, spread),
                _ => (dense, tuples),
            },
            None => (None, large(Hashed::spread(bits, 0))),
        };
        let is_shared = job.tuning.table != TableKind::BucketChain;
        (dense, if is_shared { tuples } else { 0 })
    }

    /// Words of the filter; 0 if there cannot be one.
    fn filter_words<T: Tuple>(job: &Job<'_, T>, fan_out: usize) -> usize {
        let words = bloom::words_a_partition(job.r.len(), fan_out) * fan_out;
        let is_small = words * 8 <= machine().l3_bytes / 2 && job.s.len() >= job.r.len();
        match job.tuning.bloom {
            BloomUse::Auto if is_small => words,
            BloomUse::Always => words,
            BloomUse::Auto | BloomUse::Never => 0,
        }
    }

    fn fan_out(&self) -> usize {
        1 << self.bits
    }

    fn route(&self) -> Hashed {
        if self.dense.is_some() {
            Hashed::low_bits(self.bits, 0)
        } else {
            Hashed::spread(self.bits, 0)
        }
    }

    /// The sizes of the shared tables.
    fn shared_shape<T: Tuple>(&self, totals_only: bool) -> shared::Shape {
        shared::Shape {
            tuples_max: self.shared_tuples,
            group_tuples: self.r_group_max::<T>(),
            route: self.route(),
            skipped_bits: if self.dense.is_some() { 0 } else { self.bits },
            totals_only,
        }
    }

    /// Most tuples of a group of R, whole blocks included.
    fn r_group_max<T: Tuple>(&self) -> usize {
        self.r_group
            .next_multiple_of(self.r_shape.block_tuples::<T>())
    }

    fn s_group_max<T: Tuple>(&self) -> usize {
        self.s_group
            .next_multiple_of(self.s_shape.block_tuples::<T>())
    }

    /// Most tuples of one table.
    fn table_max<T: Tuple>(&self) -> usize {
        if self.second_bits == 0 {
            return self.r_group_max::<T>();
        }
        let shape = PassShape::new::<T>(1 << self.second_bits, self.r_group_max::<T>());
        self.table_tuples
            .next_multiple_of(shape.block_tuples::<T>())
    }
}

/// Buffers of one thread for its second passes.
struct SecondPass<'a, T> {
    staging: Staging<'a, T>,
    r: Region<'a, T>,
    s: Region<'a, T>,
}

impl<'a, T: Tuple> SecondPass<'a, T> {
    fn shapes(plan: &Plan) -> [PassShape; 2] {
        let fan_out = 1 << plan.second_bits;
        [
            PassShape::new::<T>(fan_out, plan.r_group_max::<T>()),
            PassShape::new::<T>(fan_out, plan.s_group_max::<T>()),
        ]
    }

    fn bytes(plan: &Plan) -> usize {
        let [r, s] = Self::shapes(plan);
        PassShape::staging_bytes::<T>(1 << plan.second_bits)
            + r.region_bytes::<T>()
            + s.region_bytes::<T>()
    }

    fn new(plan: &Plan, arena: &mut Arena<'a>) -> Self {
        let [r, s] = Self::shapes(plan);
        Self {
            staging: PassShape::staging(1 << plan.second_bits, arena),
            r: r.region(arena),
            s: s.region(arena),
        }
    }
}

/// Bytes of scratch memory of a plan.
pub(crate) fn scratch_bytes<T: Tuple>(job: &Job<'_, T>, plan: &Plan) -> usize {
    let a_thread = PassShape::staging_bytes::<T>(plan.fan_out())
        + plan.r_shape.region_bytes::<T>()
        + plan.s_shape.region_bytes::<T>()
        + TableBuffers::<T>::bytes(plan.table_max::<T>())
        + if plan.second_bits > 0 {
            SecondPass::<T>::bytes(plan)
        } else {
            0
        };
    job.threads * a_thread
        + Arena::bytes_of::<u64>(plan.filter_words)
        + shared::bytes::<T>(plan.shared_tuples, plan.fan_out())
}

/// Joins with the given plan.
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
    let plan = Plan::new(job);
    let scratch_bytes = scratch_bytes(job, &plan);
    let mut arena = job.arena(scratch, scratch_bytes)?;
    let threads = 0..job.threads;
    let (mut stagings, r_regions, s_regions) =
        memory_of_pass(job.threads, plan.r_shape, plan.s_shape, &mut arena);
    let filter = arena.take::<u64>(plan.filter_words);
    clock.end("plan");

    let pass = job.pass(size_of_val(job.r) + size_of_val(job.s));
    let route = plan.route();
    let r = pass.run(job.r, r_regions, &mut stagings, route)?;
    clock.end("partition-r");
    let s = if !filter.is_empty() && filter_is_worth_it(job, &r, route) {
        let route = filled_filter(job.threads, filter, &r, route)?;
        clock.end("filter");
        pass.run(job.s, s_regions, &mut stagings, route)?
    } else {
        pass.run(job.s, s_regions, &mut stagings, route)?
    };
    clock.end("partition-s");

    let shape = plan.shared_shape::<T>(K::TOTALS_ONLY);
    let shared = SharedTables::build(job, &r, shape, &mut arena)?;
    if shared.tuples() > 0 {
        clock.end("build-shared");
    }
    let whole = |partition| shared.of(partition).is_some();
    let units = Units::new(&r, &s, plan.r_group, plan.s_group, whole);
    let workers: Vec<_> = threads
        .map(|_| Joiner {
            tables: TableBuffers::new(plan.table_max::<T>(), &mut arena),
            second: (plan.second_bits > 0).then(|| SecondPass::new(&plan, &mut arena)),
            sink: new_sink(),
            work: TableWork::default(),
            shared: &shared,
            plan,
            pass,
            job,
        })
        .collect();
    let done = workers::run(workers, |_, mut joiner| {
        let mut next = units.take();
        while let Some(unit) = next.take() {
            joiner.join_units(&units, unit, &mut next, &r, &s)?;
        }
        joiner.sink.finish();
        Ok((joiner.sink, joiner.work))
    })?;
    clock.end("join");
    let mut tables = TableWork {
        built_tuples: shared.tuples() as u64,
        shared_tuples: shared.tuples() as u64,
        lookups: 0,
    };
    let mut sinks = Vec::with_capacity(done.len());
    for (sink, work) in done {
        sinks.push(sink);
        tables.add(work);
    }
    Ok(Done {
        totals: totals_of(sinks),
        partitions: plan.fan_out(),
        passes: if plan.second_bits > 0 { 2 } else { 1 },
        tables,
        filtered_tuples: (job.s.len() - s.total_len()) as u64,
        scratch_bytes: scratch_bytes as u64,
        clock,
    })
}

/// Whether few tuples of a sample of S have partners in the partitions of R.
fn filter_is_worth_it<T: Tuple>(job: &Job<'_, T>, r: &Partitions<'_, T>, route: Hashed) -> bool {
    if job.tuning.bloom == BloomUse::Always {
        return true;
    }
    let step = (job.s.len() / PARTNER_SAMPLE).max(1);
    let mut partners = 0;
    let mut spans = Vec::new();
    for tuple in job.s.iter().step_by(step).take(PARTNER_SAMPLE) {
        spans.clear();
        r.groups(route.of_key(tuple.key()), usize::MAX / 2, &mut spans);
        let mut keys = r.slices(&spans).flatten();
        partners += usize::from(keys.any(|partner| partner.key() == tuple.key()));
    }
    partners <= FILTER_PARTNERS_MAX
}

/// Builds the filter, partition by partition, with all threads; returns the route through it.
fn filled_filter<'f, T: Tuple>(
    threads: usize,
    filter: &'f mut [u64],
    r: &Partitions<'_, T>,
    route: Hashed,
) -> Result<Filtered<'f, Hashed>> {
    let partition_words = filter.len() / r.fan_out();
    let share = r.fan_out().div_ceil(threads);
    let shares: Vec<&mut [u64]> = filter.chunks_mut(share * partition_words).collect();
    workers::run(shares, |thread, words| {
        let mut spans = Vec::new();
        for (index, words) in words.chunks_mut(partition_words).enumerate() {
            spans.clear();
            r.groups(thread * share + index, usize::MAX / 2, &mut spans);
            bloom::fill(words, r.slices(&spans));
        }
        Ok(())
    })?;
    Ok(Filtered {
        route,
        words: filter,
        partition_words,
    })
}

/// One thread of the last phase.
struct Joiner<'a, 'j, T: Tuple, K> {
    tables: TableBuffers<'a, T>,
    second: Option<SecondPass<'a, T>>,
    sink: K,
    work: TableWork,
    shared: &'j SharedTables<'a, T>,
    plan: Plan,
    pass: Pass<'j>,
    job: &'j Job<'j, T>,
}

impl<T: Tuple, K: Sink<T>> Joiner<'_, '_, T, K> {
    /// Joins a unit and the following ones that have the same group of R.
    fn join_units<'u>(
        &mut self,
        units: &'u Units,
        unit: &'u Unit,
        next: &mut Option<&'u Unit>,
        r: &Partitions<'_, T>,
        s: &Partitions<'_, T>,
    ) -> Result<()> {
        if let Some(table) = self.shared.of(unit.partition) {
            let slices = s.slices(units.s(unit));
            self.work.lookups += spans_len(units.s(unit)) as u64;
            let probe = |tuples: &[T], sink: &mut K| table.probe(tuples, sink);
            probe_slices(self.job, probe, slices, &mut self.sink)?;
            *next = units.take();
            return Ok(());
        }
        let r_spans = units.r(unit);
        let [first, second] = self.plan.route().strangers();
        let is_home = self.plan.route().of_key(first) == unit.partition;
        let free_key = if is_home { second } else { first };
        let bits = self.plan.bits;
        let shape = KeyShape {
            free_key,
            skipped_bits: if self.plan.dense.is_some() { 0 } else { bits },
            dense: self.plan.dense.map(|(low, high)| DenseKeys {
                low,
                high,
                shared_bits: bits,
            }),
        };
        let r_len = spans_len(r_spans);
        let is_split = self.second.is_some() && r_len > self.plan.table_tuples / 4;
        if is_split {
            self.split_unit(shape, r.slices(r_spans), s.slices(units.s(unit)))?;
            *next = units.take();
            return Ok(());
        }
        let kind = self.job.tuning.table;
        let totals_only = K::TOTALS_ONLY;
        let r_slices = r.slices(r_spans);
        let isa = self.job.isa;
        let table = (self.tables).build(isa, kind, shape, r_len, totals_only, r_slices);
        self.work.built_tuples += r_len as u64;
        let mut current = Some(unit);
        while let Some(unit) = current {
            let spans = units.s(unit);
            self.work.lookups += spans_len(spans) as u64;
            let probe = |tuples: &[T], sink: &mut K| table.probe(self.job.isa, tuples, sink);
            probe_slices(self.job, probe, s.slices(spans), &mut self.sink)?;
            current = units.take_sibling(unit, next);
        }
        Ok(())
    }

    /// Splits both sides of a unit once more and joins the parts.
    fn split_unit<'i>(
        &mut self,
        shape: KeyShape<T::Word>,
        r: impl Iterator<Item = &'i [T]>,
        s: impl Iterator<Item = &'i [T]>,
    ) -> Result<()>
    where
        T: 'i,
    {
        let Some(mut buffers) = self.second.take() else {
            return Ok(());
        };
        let (bits, second_bits) = (self.plan.bits, self.plan.second_bits);
        let (route, skipped_bits) = if self.plan.dense.is_some() {
            (Hashed::low_bits(second_bits, bits), 0)
        } else {
            (Hashed::spread(second_bits, bits), bits + second_bits)
        };
        self.pass
            .fill(&mut buffers.r, &mut buffers.staging, r, route)?;
        self.pass
            .fill(&mut buffers.s, &mut buffers.staging, s, route)?;
        let shape = KeyShape {
            skipped_bits,
            dense: shape.dense.map(|dense| DenseKeys {
                shared_bits: bits + second_bits,
                ..dense
            }),
            ..shape
        };
        let r = Partitions::of_region(&buffers.r);
        let s = Partitions::of_region(&buffers.s);
        let (mut r_spans, mut s_spans) = (Vec::new(), Vec::new());
        for partition in 0..r.fan_out() {
            r_spans.clear();
            s_spans.clear();
            s.groups(partition, usize::MAX / 2, &mut s_spans);
            let mut start = 0;
            for end in r.groups(partition, self.plan.table_tuples, &mut r_spans) {
                let spans = &r_spans[start..end];
                let (kind, len) = (self.job.tuning.table, spans_len(spans));
                let slices = r.slices(spans);
                let isa = self.job.isa;
                let table = (self.tables).build(isa, kind, shape, len, K::TOTALS_ONLY, slices);
                self.work.built_tuples += len as u64;
                self.work.lookups += spans_len(&s_spans) as u64;
                let probe = |tuples: &[T], sink: &mut K| table.probe(self.job.isa, tuples, sink);
                probe_slices(self.job, probe, s.slices(&s_spans), &mut self.sink)?;
                start = end;
            }
        }
        drop((r, s));
        self.second = Some(buffers);
        Ok(())
    }
}

/// Calls `probe` with the tuples of some slices, telling the monitor now and then.
fn probe_slices<'i, T: Tuple, K: Sink<T>>(
    job: &Job<'_, T>,
    probe: impl Fn(&[T], &mut K),
    slices: impl Iterator<Item = &'i [T]>,
    sink: &mut K,
) -> Result<()> {
    let mut pending = 0;
    for tuples in slices {
        probe(tuples, sink);
        pending += tuples.len();
        if pending >= MONITOR_TUPLES || sink.stops() {
            job.watch.advance(pending)?;
            pending = 0;
        }
    }
    job.watch.advance(pending)
}
