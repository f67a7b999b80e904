//! Sorted buckets: the tuples in the order of their hash, and where each hash value begins.
//!
//! Two passes over the tuples, one to count and one to place, for any keys: equal ones cost no more
//! than others, and are adjacent when they are looked up. This is the adjacency layout of the newer
//! literature, without its tags.
//!
//! Where only totals are asked for, four and more tuples of one key become a *sum* in their own
//! place, so that a lookup costs the same for any number of partners:
//!
//! | tuple | key | payload |
//! |---|---|---|
//! | first | a key of another partition, which marks a sum | how many tuples there were |
//! | second, third | their key | lower and upper half of the sum of their payloads, modulo 2^64 |
//! | others | old contents | |

use crate::output::{MANY_PARTNERS, Sink, Totals};
use crate::partition::Hashed;
use crate::simd::prefetch;
use crate::tuple::{Tuple, Word};

/// Equal keys from which on they are summed up.
const SUM_TUPLES_MIN: usize = 4;

/// Hash bits for `count` tuples.
pub(crate) fn bucket_bits(count: usize) -> u32 {
    count.next_power_of_two().ilog2().max(4)
}

/// Neighbours with equal keys, one stretch after the other.
fn stretches<'i, T: Tuple>(
    slices: impl Iterator<Item = &'i [T]>,
) -> impl Iterator<Item = (T::Word, &'i [T])> {
    slices
        .flat_map(|slice| slice.chunk_by(|left, right| left.key() == right.key()))
        .map(|stretch| (stretch[0].key(), stretch))
}

/// Counts the tuples of each bucket, but those of one key, from bucket `first` on, as many as
/// `counts` has places; returns how many those are.
pub(crate) fn count<'i, T: Tuple>(
    counts: &mut [u32],
    first: usize,
    hash: Hashed,
    left_out: Option<T::Word>,
    slices: impl Iterator<Item = &'i [T]>,
) -> usize {
    counts.fill(0);
    let mut all = 0;
    for (key, stretch) in stretches(slices).filter(|(key, _)| Some(*key) != left_out) {
        if let Some(count) = counts.get_mut(hash.of_key(key).wrapping_sub(first)) {
            *count += stretch.len() as u32;
            all += stretch.len();
        }
    }
    all
}

/// Turns counts of the buckets from `first` on into their starts, and sorts their tuples into
/// `tuples`, which begin `base` places after the first tuple of the table.
pub(crate) fn place<'i, T: Tuple>(
    starts: &mut [u32],
    first: usize,
    tuples: &mut [T],
    base: usize,
    hash: Hashed,
    left_out: Option<T::Word>,
    slices: impl Iterator<Item = &'i [T]>,
) {
    counts_to_ends(starts, base);
    for (key, stretch) in stretches(slices).filter(|(key, _)| Some(*key) != left_out) {
        if let Some(start) = starts.get_mut(hash.of_key(key).wrapping_sub(first)) {
            *start -= stretch.len() as u32;
            let at = *start as usize - base;
            match stretch {
                [tuple] => tuples[at] = *tuple,
                many => tuples[at..at + many.len()].copy_from_slice(many),
            }
        }
    }
}

/// Sorts the tuples of some slices into `tuples`, which begin `base` places after the first tuple
/// of the table, and stores the start of each bucket.
pub(crate) fn fill<'i, T: Tuple>(
    starts: &mut [u32],
    tuples: &mut [T],
    base: usize,
    hash: Hashed,
    slices: impl Iterator<Item = &'i [T]> + Clone,
) {
    starts.fill(0);
    for slice in slices.clone() {
        for tuple in slice {
            starts[hash.of_key(tuple.key())] += 1;
        }
    }
    counts_to_ends(starts, base);
    for slice in slices {
        for &tuple in slice {
            let start = &mut starts[hash.of_key(tuple.key())];
            *start -= 1;
            tuples[*start as usize - base] = tuple;
        }
    }
}

/// Adds up counts. Each bucket is then filled from its end, which turns its end into its start.
fn counts_to_ends(starts: &mut [u32], base: usize) {
    let mut end = base as u32;
    for start in starts {
        end += *start;
        *start = end;
    }
}

/// Replaces many tuples of one key by their sum, in all buckets of `starts`; `free_key` is a key of
/// another partition.
pub(crate) fn sum_up<T: Tuple>(starts: &[u32], tuples: &mut [T], base: usize, free_key: T::Word) {
    let end = (base + tuples.len()) as u32;
    let ends = starts.iter().skip(1).chain([&end]);
    for (start, end) in starts.iter().zip(ends) {
        if ((end - start) as usize) < SUM_TUPLES_MIN {
            continue;
        }
        let bucket = &mut tuples[*start as usize - base..*end as usize - base];
        let first = bucket[0].key();
        if bucket.iter().all(|tuple| tuple.key() == first) {
            write_sum(bucket, free_key);
            continue;
        }
        bucket.sort_unstable_by_key(|tuple| tuple.key());
        let runs = bucket.chunk_by_mut(|left, right| left.key() == right.key());
        for run in runs.filter(|run| run.len() >= SUM_TUPLES_MIN) {
            write_sum(run, free_key);
        }
    }
}

fn write_sum<T: Tuple>(run: &mut [T], free_key: T::Word) {
    let key = run[0].key();
    let payloads = run.iter().map(|tuple| tuple.payload().into());
    let sum: u64 = payloads.fold(0, u64::wrapping_add);
    run[0] = T::new(free_key, T::Word::truncate(run.len() as u64));
    run[1] = T::new(key, T::Word::truncate(sum));
    run[2] = T::new(key, T::Word::truncate(sum >> 32));
}

/// The number of tuples, their key and their sum, of a sum at the start of `tuples`.
fn read_sum<T: Tuple>(tuples: &[T]) -> (u64, T::Word, u64) {
    let low: u64 = tuples[1].payload().into();
    let sum = if T::BYTES == 8 {
        let high: u64 = tuples[2].payload().into();
        high << 32 | low
    } else {
        low
    };
    (tuples[0].payload().into(), tuples[1].key(), sum)
}

/// Keys that mark sums: one for all buckets, but for those of one part of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SumMarks<W> {
    /// Bits of the bucket inside of a part.
    bucket_bits: u32,
    free_key: W,
    exception: (usize, W),
}

impl<W: Word> SumMarks<W> {
    /// The mark of a table of one partition.
    pub(crate) fn one(free_key: W) -> Self {
        Self {
            bucket_bits: 0,
            free_key,
            exception: (usize::MAX, free_key),
        }
    }

    /// Marks of 2^`part_bits` parts with 2^`bucket_bits` buckets each: the first of the strangers,
    /// or in its own part the other one.
    pub(crate) fn of_parts(part_bits: u32, bucket_bits: u32, strangers: [W; 2]) -> Self {
        let home = Hashed::spread(part_bits, 0).of_key(strangers[0]);
        Self {
            bucket_bits,
            free_key: strangers[0],
            exception: (home, strangers[1]),
        }
    }

    /// The mark of a part.
    pub(crate) fn of_part(self, part: usize) -> W {
        if part == self.exception.0 {
            self.exception.1
        } else {
            self.free_key
        }
    }

    #[inline(always)]
    fn of_bucket(self, bucket: usize) -> W {
        self.of_part(bucket >> self.bucket_bits)
    }
}

/// Tuples sorted by hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketTable<'t, T: Tuple> {
    /// Start of each bucket, and the end of the last one.
    starts: &'t [u32],
    tuples: &'t [T],
    hash: Hashed,
    marks: SumMarks<T::Word>,
}

impl<'t, T: Tuple> BucketTable<'t, T> {
    /// A view of tuples that `fill` has sorted by the same hash, and `sum_up` has summed up with
    /// these marks if sinks keep totals only; `starts` ends with the number of tuples.
    pub(crate) fn new(
        starts: &'t [u32],
        tuples: &'t [T],
        hash: Hashed,
        marks: SumMarks<T::Word>,
    ) -> Self {
        Self {
            starts,
            tuples,
            hash,
            marks,
        }
    }

    /// The bucket of a tuple.
    #[inline(always)]
    pub(crate) fn bucket(&self, tuple: T) -> usize {
        self.hash.of_key(tuple.key())
    }

    /// Asks for the bounds of a bucket.
    #[inline(always)]
    pub(crate) fn prefetch_bounds(&self, bucket: usize) {
        prefetch(self.starts, bucket);
    }

    /// Asks for the first tuples of a bucket.
    #[inline(always)]
    pub(crate) fn prefetch_tuples(&self, bucket: usize) {
        prefetch(self.tuples, self.starts[bucket] as usize);
    }

    /// Passes all partners of `tuples` to `sink`.
    #[inline(always)]
    pub(crate) fn probe<K: Sink<T>>(&self, tuples: &[T], sink: &mut K) {
        for &tuple in tuples {
            let index = self.bucket(tuple);
            let (start, end) = (self.starts[index], self.starts[index + 1]);
            let bucket = &self.tuples[start as usize..end as usize];
            if K::TOTALS_ONLY {
                add_partners(bucket, self.marks.of_bucket(index), tuple, sink);
                continue;
            }
            if bucket.len() >= MANY_PARTNERS && sink.stops() {
                return;
            }
            for partner in bucket {
                if partner.key() == tuple.key() {
                    sink.emit(partner.payload(), tuple.payload());
                }
            }
        }
    }
}

/// Adds the partners of a tuple in a bucket with sums.
#[inline(always)]
fn add_partners<T: Tuple, K: Sink<T>>(bucket: &[T], mark: T::Word, tuple: T, sink: &mut K) {
    let mut rest = bucket;
    while let Some(partner) = rest.first() {
        let mut passed = 1;
        if partner.key() == mark {
            let (count, key, sum) = read_sum(rest);
            if key == tuple.key() {
                let payload: u64 = tuple.payload().into();
                return sink.add(Totals {
                    count,
                    r_payload_sum: sum,
                    s_payload_sum: payload.wrapping_mul(count),
                });
            }
            passed = count as usize;
        } else if partner.key() == tuple.key() {
            sink.emit(partner.payload(), tuple.payload());
        }
        rest = &rest[passed..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuple::{Tuple8, Tuple16};

    /// The totals of every key up to 9 in a table of `repeats[key]` tuples of each, with payloads
    /// near the largest.
    fn totals_by_key<T: Tuple>(repeats: &[usize], bits: u32) -> Vec<Totals> {
        let payload = |row: u64| T::Word::truncate(u64::MAX - row);
        let keys = repeats.iter().enumerate();
        let keys = keys.flat_map(|(key, count)| std::iter::repeat_n(key as u64, *count));
        let rows = keys.enumerate();
        let tuples: Vec<T> = rows
            .map(|(row, key)| T::new(T::Word::truncate(key), payload(row as u64)))
            .collect();
        let free = T::Word::truncate(u64::MAX);
        let hash = Hashed::spread(bits, 0);
        let mut starts = vec![0; (1 << bits) + 1];
        starts[1 << bits] = tuples.len() as u32;
        let mut sorted = vec![T::default(); tuples.len()];
        fill(
            &mut starts[..1 << bits],
            &mut sorted,
            0,
            hash,
            tuples.chunks(5),
        );
        sum_up(&starts[..1 << bits], &mut sorted, 0, free);
        let table = BucketTable::new(&starts, &sorted, hash, SumMarks::one(free));
        let of_key = |key: u64| {
            let mut totals = Totals::default();
            let probe = T::new(T::Word::truncate(key), T::Word::truncate(u64::MAX - 7));
            table.probe(&[probe], &mut totals);
            let plain = tuples.iter().filter(|tuple| tuple.key().into() == key);
            let mut expected = Totals::default();
            for tuple in plain {
                Sink::<T>::emit(&mut expected, tuple.payload(), probe.payload());
            }
            assert_eq!(totals, expected, "key {key} of {repeats:?}, {bits} bits");
            totals
        };
        (0..9).map(of_key).collect()
    }

    #[test]
    fn sums_are_those_of_the_tuples_around_every_length() {
        for repeats in [
            &[1, 2, 3, 4, 5, 6, 300, 0, 3][..],
            &[0, 70_000],
            &[4, 4, 4, 3, 3],
            &[],
        ] {
            for bits in [1, 2, 9] {
                totals_by_key::<Tuple8>(repeats, bits);
                totals_by_key::<Tuple16>(repeats, bits);
            }
        }
    }
}
