//! A Bloom filter over the keys of R, tested while S is partitioned: tuples without a partner are
//! not moved.
//!
//! A key has one word and three bits in it. The words of a partition lie together, so threads build
//! the filter partition by partition in their caches, without sharing a word; the partition's
//! number is known anyway when a tuple of S is tested.

use crate::partition::{MULTIPLIER, Route};
use crate::tuple::{Tuple, Word};

/// Bits of the filter for each tuple of R: about one in fifty strangers passes.
const BITS_A_TUPLE: usize = 16;

/// Words of each of `fan_out` partitions, a power of two, for `tuples` tuples in all.
pub(crate) fn words_a_partition(tuples: usize, fan_out: usize) -> usize {
    (tuples * BITS_A_TUPLE / 64 / fan_out).next_power_of_two()
}

/// Word and bits of a key, from bits of the hash that partitioning does not use.
#[inline(always)]
fn word_and_bits<W: Word>(key: W, words: usize) -> (usize, u64) {
    // Another product than the one of the routes, whose upper bits are equal for a whole partition.
    let hash = (key.mixed().wrapping_mul(MULTIPLIER) ^ 0x5851).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    let bits = 1 << (hash >> 58) | 1 << (hash >> 52 & 63) | 1 << (hash >> 46 & 63);
    ((hash >> 14) as usize & (words - 1), bits)
}

/// Adds the keys of a partition to the partition's words.
pub(crate) fn fill<'i, T: Tuple>(words: &mut [u64], slices: impl Iterator<Item = &'i [T]>) {
    words.fill(0);
    let count = words.len();
    for slice in slices {
        for tuple in slice {
            let (word, bits) = word_and_bits(tuple.key(), count);
            words[word] |= bits;
        }
    }
}

/// A route for tuples whose keys pass the filter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filtered<'f, R> {
    pub(crate) route: R,
    pub(crate) words: &'f [u64],
    /// Words of each partition.
    pub(crate) partition_words: usize,
}

impl<T: Tuple, R: Route<T>> Route<T> for Filtered<'_, R> {
    #[inline(always)]
    fn partition(self, tuple: T) -> usize {
        self.route.partition(tuple)
    }

    #[inline(always)]
    fn keeps(self, partition: usize, tuple: T) -> bool {
        let (word, bits) = word_and_bits(tuple.key(), self.partition_words);
        self.words[partition * self.partition_words + word] & bits == bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuple::Tuple8;

    #[test]
    fn members_pass_and_most_strangers_do_not() {
        let keys: Vec<Tuple8> = (0..10_000).map(|key| Tuple8::new(key * 7, 0)).collect();
        let mut words = vec![0; words_a_partition(keys.len(), 1)];
        fill(&mut words, std::iter::once(&keys[..]));
        let passes = |key: u32| {
            let (word, bits) = word_and_bits(key, words.len());
            words[word] & bits == bits
        };
        assert!(keys.iter().all(|tuple| passes(tuple.key())));
        let strangers = (0..10_000).filter(|key| passes(key * 7 + 3)).count();
        assert!(strangers < 600, "{strangers} of 10000 strangers pass");
    }
}
