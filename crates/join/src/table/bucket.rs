//! Sorted buckets: the tuples in the order of their hash, and where each hash value begins.
//!
//! Two passes over the tuples, one to count and one to place, whatever the keys are: equal ones cost no more than others, and lie together when they are
//! looked up. This is the adjacency layout of the newer literature, without its tags.

use crate::output::{MANY_PARTNERS, Sink};
use crate::partition::Hashed;
use crate::simd::prefetch;
use crate::tuple::Tuple;

/// Hash bits for `count` tuples.
pub(crate) fn bucket_bits(count: usize) -> u32 {
    count.next_power_of_two().ilog2().max(4)
}

/// Sorts the tuples of some slices into `tuples`, which are `base` places behind the first tuple of the table, and stores the start of each bucket.
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
    let mut end = base as u32;
    for start in starts.iter_mut() {
        end += *start;
        *start = end;
    }
    // Each bucket is filled from its end, which leaves its start behind.
    for slice in slices {
        for &tuple in slice {
            let start = &mut starts[hash.of_key(tuple.key())];
            *start -= 1;
            tuples[*start as usize - base] = tuple;
        }
    }
}

/// Tuples sorted by hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketTable<'t, T: Tuple> {
    /// Start of each bucket, and the end of the last one.
    starts: &'t [u32],
    tuples: &'t [T],
    hash: Hashed,
}

impl<'t, T: Tuple> BucketTable<'t, T> {
    /// A view of tuples that `fill` has sorted by the same hash; `starts` ends with the number of tuples.
    pub(crate) fn new(starts: &'t [u32], tuples: &'t [T], hash: Hashed) -> Self {
        Self {
            starts,
            tuples,
            hash,
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
            let bucket = self.bucket(tuple);
            let (start, end) = (self.starts[bucket], self.starts[bucket + 1]);
            let bucket = &self.tuples[start as usize..end as usize];
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
