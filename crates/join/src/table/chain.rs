//! Chains of equal hash bits, as in the paper's radix join: a head for each bucket, and a successor
//! for each tuple.
//!
//! Places are counted from 1, so 0 ends a chain. Kept because the paper's figures are about it; the
//! other tables are faster.

use super::bucket::bucket_bits;
use crate::output::Sink;
use crate::partition::Hashed;
use crate::tuple::Tuple;

/// Tuples in the order in which they came, linked by hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainTable<'t, T: Tuple> {
    heads: &'t [u32],
    next: &'t [u32],
    tuples: &'t [T],
    hash: Hashed,
}

impl<'t, T: Tuple> ChainTable<'t, T> {
    /// A table of `count` tuples.
    pub(crate) fn build<'i>(
        words: &'t mut [u32],
        slots: &'t mut [T],
        skipped_bits: u32,
        count: usize,
        slices: impl Iterator<Item = &'i [T]>,
    ) -> Self {
        let bits = bucket_bits(count);
        let hash = Hashed::spread(bits, skipped_bits);
        let (heads, next) = words.split_at_mut(1 << bits);
        let (next, tuples) = (&mut next[..count], &mut slots[..count]);
        heads.fill(0);
        let mut place = 0;
        for slice in slices {
            for &tuple in slice {
                tuples[place] = tuple;
                let head = &mut heads[hash.of_key(tuple.key())];
                next[place] = *head;
                place += 1;
                *head = place as u32;
            }
        }
        Self {
            heads,
            next,
            tuples,
            hash,
        }
    }

    /// Passes all partners of `tuples` to `sink`.
    pub(crate) fn probe<K: Sink<T>>(&self, tuples: &[T], sink: &mut K) {
        for &tuple in tuples {
            let mut place = self.heads[self.hash.of_key(tuple.key())] as usize;
            while place != 0 {
                let partner = self.tuples[place - 1];
                if partner.key() == tuple.key() {
                    sink.emit(partner.payload(), tuple.payload());
                }
                place = self.next[place - 1] as usize;
            }
        }
    }
}
