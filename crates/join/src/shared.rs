//! Tables of partitions of R that are too large for one thread: all threads build them, once, and
//! all look tuples of S up in them.
//!
//! Distinct keys are spread evenly, so such a partition has keys that repeat, and its table is one
//! of sorted buckets. A thread owns some of the buckets: it reads the whole partition twice and
//! takes the tuples that belong there, so nobody writes to the memory of another one. Where many
//! partitions are large, each of them has one owner instead, which reads it alone.
//!
//! Where only totals are asked for, a key with a good part of such a partition is not moved at all,
//! but counted and summed up by all threads.
//!
//! The memory is planned from a sample of R, before anything is moved. Partitions that the sample
//! missed are joined group by group, in tables of bounded size.

use crate::error::Result;
use crate::job::Job;
use crate::output::{Sink, Totals};
use crate::partition::{Hashed, Partitions, Span};
use crate::scratch::Arena;
use crate::table::{BucketTable, SumMarks, count_buckets, place_buckets, sum_up_buckets};
use crate::tuple::Tuple;
use crate::workers;
use std::sync::{Mutex, PoisonError};

/// Tuples of R whose partitions are counted.
const SAMPLE_TUPLES: usize = 4096;
/// Fewer tuples of the sample in one partition say little about its size.
const SAMPLE_HITS_MIN: usize = 16;

/// Tuples of R in partitions that are more than `group_tuples` long, as a sample says; somewhat too
/// many rather than too few.
pub(crate) fn large_tuples<T: Tuple>(
    r: &[T],
    route: Hashed,
    fan_out: usize,
    group_tuples: usize,
) -> usize {
    if r.len() <= group_tuples {
        return 0;
    }
    let samples = (r.len() / 16).min(SAMPLE_TUPLES);
    let step = r.len() / samples.max(1);
    let mut hits = vec![0_usize; fan_out];
    for sample in 0..samples {
        // Not at equal distances: R may repeat itself at those.
        let jitter = (sample as u64).wrapping_mul(crate::partition::MULTIPLIER) >> 32;
        let tuple = r[sample * step + jitter as usize % step];
        hits[route.of_key(tuple.key())] += 1;
    }
    let large = hits
        .into_iter()
        .filter(|hits| *hits >= SAMPLE_HITS_MIN && hits * step > 2 * group_tuples);
    // Three standard deviations on top of the sample's estimate.
    let tuples = large.map(|hits| (hits + 3 * (hits.isqrt() + 1)) * step);
    tuples.sum::<usize>().min(r.len())
}

/// Words for the buckets of at most `tuples` tuples.
fn words_len(tuples: usize, fan_out: usize) -> usize {
    if tuples == 0 { 0 } else { tuples + fan_out }
}

/// Bytes of the tables of at most `tuples` tuples.
pub(crate) fn bytes<T: Tuple>(tuples: usize, fan_out: usize) -> usize {
    Arena::bytes_of::<T>(tuples) + Arena::bytes_of::<u32>(words_len(tuples, fan_out))
}

/// A key is summed up outside of the table if it has at most this many times fewer tuples than the
/// whole partition, as estimated from some slices.
const HOT_PART: usize = 4;
/// Slices that are looked at.
const HOT_SLICES: usize = 64;
/// Tuples that a thread sums up at a time.
const HOT_GROUP_TUPLES: usize = 1 << 16;

/// The table of one partition, and the totals of a key that is not in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedTable<'a, T: Tuple> {
    table: BucketTable<'a, T>,
    hot: Option<(T::Word, KeyTotals)>,
}

/// Tuples of one key, and the sum of their payloads modulo 2^64.
#[derive(Clone, Copy, Debug, Default)]
struct KeyTotals {
    count: u64,
    payload_sum: u64,
}

impl<T: Tuple> SharedTable<'_, T> {
    /// Passes all partners of `tuples` to `sink`.
    pub(crate) fn probe<K: Sink<T>>(&self, tuples: &[T], sink: &mut K) {
        let Some((hot, totals)) = self.hot else {
            return self.table.probe(tuples, sink);
        };
        for stretch in tuples.chunk_by(|left, right| left.key() == right.key()) {
            if stretch[0].key() != hot {
                self.table.probe(stretch, sink);
                continue;
            }
            let payloads = stretch.iter().map(|tuple| tuple.payload().into());
            let payload_sum = payloads.fold(0, u64::wrapping_add);
            sink.add(Totals {
                count: totals.count.wrapping_mul(stretch.len() as u64),
                r_payload_sum: totals.payload_sum.wrapping_mul(stretch.len() as u64),
                s_payload_sum: payload_sum.wrapping_mul(totals.count),
            });
        }
    }
}

/// A key that has a large part of a partition, as estimated from some slices, and the estimated
/// number of tuples with other keys.
fn hot_key<T: Tuple>(r: &Partitions<'_, T>, partition: usize) -> Option<(T::Word, usize)> {
    let count = r.len(partition);
    let mut spans = Vec::new();
    r.groups(partition, usize::MAX / 2, &mut spans);
    let slices = r.slices(&spans).step_by((count / 64 / HOT_SLICES).max(1));
    let mut keys: Vec<_> = slices
        .take(HOT_SLICES)
        .map(|slice| slice[0].key())
        .collect();
    keys.sort_unstable();
    let runs = keys.chunk_by(|left, right| left == right);
    let longest = runs.max_by_key(|run| run.len())?;
    let others = (keys.len() - longest.len() + 2) * count / keys.len();
    (longest.len() * HOT_PART >= keys.len()).then(|| (longest[0], others.min(count)))
}

/// The table of one partition.
#[derive(Clone, Copy, Debug)]
struct PartitionTable<W> {
    partition: usize,
    count: usize,
    hash: Hashed,
    bucket_bits: u32,
    free_key: W,
    hot_key: Option<W>,
}

/// Sizes and hashing of the tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Memory, in tuples.
    pub(crate) tuples_max: usize,
    /// Partitions of more tuples are large.
    pub(crate) group_tuples: usize,
    /// How R was partitioned.
    pub(crate) route: Hashed,
    /// Upper bits of the hash that are equal for a whole partition.
    pub(crate) skipped_bits: u32,
    /// Whether sinks keep totals only.
    pub(crate) totals_only: bool,
}

/// Tables of the large partitions, in the order of partitions.
#[derive(Debug)]
pub(crate) struct SharedTables<'a, T: Tuple> {
    tables: Vec<(usize, SharedTable<'a, T>)>,
    tuples: usize,
}

impl<'a, T: Tuple> SharedTables<'a, T> {
    /// The table of a partition, if it is a large one.
    pub(crate) fn of(&self, partition: usize) -> Option<&SharedTable<'a, T>> {
        let at = self.tables.binary_search_by_key(&partition, |(of, _)| *of);
        at.ok().map(|at| &self.tables[at].1)
    }

    /// Tuples of all tables.
    pub(crate) fn tuples(&self) -> usize {
        self.tuples
    }

    /// Builds the tables of all large partitions that fit the memory, with all threads.
    pub(crate) fn build(
        job: &Job<'_, T>,
        r: &Partitions<'_, T>,
        shape: Shape,
        arena: &mut Arena<'a>,
    ) -> Result<Self> {
        let sorted = arena.take::<T>(shape.tuples_max);
        let words = arena.take::<u32>(words_len(shape.tuples_max, r.fan_out()));
        let places = places(r, shape);
        let tuples = places.iter().map(|place| place.count).sum();
        if places.is_empty() {
            let tables = Vec::new();
            return Ok(Self { tables, tuples });
        }
        let pieces = if places.len() >= 4 * job.threads {
            1
        } else {
            job.threads
        };
        let build = Build {
            threads: job.threads,
            r,
            places: &places,
            pieces,
        };
        let hot = build.sum_hot()?;
        let counts = build.count(words)?;
        let ends = build.place(&counts, words, sorted, shape.totals_only)?;
        let mut rest = &mut *words;
        for (place, end) in places.iter().zip(ends) {
            let (starts, behind) = rest.split_at_mut((1 << place.bucket_bits) + 1);
            starts[1 << place.bucket_bits] = end as u32;
            rest = behind;
        }
        let (mut words, mut sorted) = (&*words, &*sorted);
        let tables = places.iter().zip(hot).map(|(place, hot)| {
            let starts;
            let own;
            (starts, words) = words.split_at((1 << place.bucket_bits) + 1);
            (own, sorted) = sorted.split_at(starts[starts.len() - 1] as usize);
            let marks = SumMarks::one(place.free_key);
            let table = BucketTable::new(starts, own, place.hash, marks);
            let hot = place.hot_key.map(|key| (key, hot));
            (place.partition, SharedTable { table, hot })
        });
        let tables = tables.collect();
        Ok(Self { tables, tuples })
    }
}

/// The large partitions that fit the memory.
fn places<T: Tuple>(r: &Partitions<'_, T>, shape: Shape) -> Vec<PartitionTable<T::Word>> {
    let mut room = shape.tuples_max;
    let mut places = Vec::new();
    let [first, second] = shape.route.strangers();
    let home = shape.route.of_key(first);
    for partition in 0..r.fan_out() {
        let count = r.len(partition);
        if count <= shape.group_tuples || count > room {
            continue;
        }
        room -= count;
        let hot = shape.totals_only.then(|| hot_key(r, partition)).flatten();
        let others = hot.map_or(count, |(_, others)| others);
        let bucket_bits = others.max(1 << 10).min(count).ilog2();
        places.push(PartitionTable {
            partition,
            count,
            hash: Hashed::spread(bucket_bits, shape.skipped_bits),
            bucket_bits,
            free_key: if partition == home { second } else { first },
            hot_key: hot.map(|(key, _)| key),
        });
    }
    places
}

/// Some buckets of a table.
struct Piece<'t> {
    /// Which table.
    table: usize,
    first: usize,
    starts: &'t mut [u32],
}

/// Does all tasks with all threads, each taking the next one; returns the results of `work`, in no
/// order.
fn each<S: Send, R: Send>(
    threads: usize,
    tasks: Vec<S>,
    work: impl Fn(S) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let tasks = Mutex::new(tasks.into_iter());
    let done = workers::run(vec![(); threads], |_, ()| {
        let mut done = Vec::new();
        loop {
            let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(task) = task else {
                return Ok(done);
            };
            done.push(work(task)?);
        }
    })?;
    Ok(done.into_iter().flatten().collect())
}

/// The building of all tables.
struct Build<'b, 'r, T: Tuple> {
    threads: usize,
    r: &'b Partitions<'r, T>,
    places: &'b [PartitionTable<T::Word>],
    /// Pieces of each table.
    pieces: usize,
}

impl<T: Tuple> Build<'_, '_, T> {
    /// The pieces of all tables, in order.
    fn pieces<'t>(&self, words: &'t mut [u32]) -> Vec<Piece<'t>> {
        let mut all = Vec::with_capacity(self.places.len() * self.pieces);
        let mut rest = words;
        for (table, place) in self.places.iter().enumerate() {
            let buckets = 1usize << place.bucket_bits;
            let (starts, behind) = rest.split_at_mut(buckets + 1);
            rest = behind;
            let a_piece = buckets.div_ceil(self.pieces);
            for (index, starts) in starts[..buckets].chunks_mut(a_piece).enumerate() {
                all.push(Piece {
                    table,
                    first: index * a_piece,
                    starts,
                });
            }
        }
        all
    }

    /// The totals of the hot key of each table; nothing where there is none.
    fn sum_hot(&self) -> Result<Vec<KeyTotals>> {
        let (mut tasks, mut groups) = (Vec::new(), Vec::new());
        for (table, place) in self.places.iter().enumerate() {
            let Some(key) = place.hot_key else {
                continue;
            };
            let mut start = groups.len();
            for end in self
                .r
                .groups(place.partition, HOT_GROUP_TUPLES, &mut groups)
            {
                tasks.push((table, key, start..end));
                start = end;
            }
        }
        let found = each(self.threads, tasks, |(table, key, group)| {
            let mut totals = KeyTotals::default();
            for slice in self.r.slices(&groups[group]) {
                for tuple in slice.iter().filter(|tuple| tuple.key() == key) {
                    totals.count += 1;
                    totals.payload_sum = totals.payload_sum.wrapping_add(tuple.payload().into());
                }
            }
            Ok((table, totals))
        })?;
        let mut all = vec![KeyTotals::default(); self.places.len()];
        for (table, totals) in found {
            all[table].count += totals.count;
            all[table].payload_sum = all[table].payload_sum.wrapping_add(totals.payload_sum);
        }
        Ok(all)
    }

    /// All spans of a table's partition.
    fn spans(&self, place: &PartitionTable<T::Word>) -> Vec<Span> {
        let mut spans = Vec::new();
        self.r.groups(place.partition, usize::MAX / 2, &mut spans);
        spans
    }

    /// Counts the tuples of every bucket into `words`; returns how many each piece has.
    fn count(&self, words: &mut [u32]) -> Result<Vec<usize>> {
        let tasks: Vec<_> = self.pieces(words).into_iter().enumerate().collect();
        let mut counts = vec![0; tasks.len()];
        let found = each(self.threads, tasks, |(index, piece)| {
            let place = &self.places[piece.table];
            let spans = self.spans(place);
            let slices = self.r.slices(&spans);
            let count = count_buckets(piece.starts, piece.first, place.hash, place.hot_key, slices);
            Ok((index, count))
        })?;
        for (index, count) in found {
            counts[index] = count;
        }
        Ok(counts)
    }

    /// Sorts the tuples of every piece into its part of `sorted`; returns how many each table has.
    fn place(
        &self,
        counts: &[usize],
        words: &mut [u32],
        sorted: &mut [T],
        totals_only: bool,
    ) -> Result<Vec<usize>> {
        let mut rest = sorted;
        let mut ends = vec![0; self.places.len()];
        let mut tasks = Vec::with_capacity(counts.len());
        for (piece, count) in self.pieces(words).into_iter().zip(counts) {
            let end = &mut ends[piece.table];
            let (own, behind) = rest.split_at_mut(*count);
            rest = behind;
            tasks.push((piece, own, *end));
            *end += count;
        }
        each(self.threads, tasks, |(piece, own, base)| {
            let place = &self.places[piece.table];
            let spans = self.spans(place);
            let slices = self.r.slices(&spans);
            place_buckets(
                piece.starts,
                piece.first,
                own,
                base,
                place.hash,
                place.hot_key,
                slices,
            );
            if totals_only {
                sum_up_buckets(piece.starts, own, base, place.free_key);
            }
            Ok(())
        })?;
        Ok(ends)
    }
}
