//! Chains of equal hash bits in one table, which all threads fill together: the table of the
//! paper's join without partitions.
//!
//! The tuples stay where they are. A head is exchanged by one atomic instruction, which is the
//! latch of its bucket. Places are counted from 1, so 0 ends a chain.

use super::bucket::bucket_bits;
use crate::error::Result;
use crate::output::Sink;
use crate::partition::Hashed;
use crate::scratch::Arena;
use crate::simd::prefetch;
use crate::tuple::Tuple;
use crate::workers;
use std::sync::atomic::{AtomicU32, Ordering};

/// All tuples of a relation, linked by hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedChains<'t, T: Tuple> {
    heads: &'t [AtomicU32],
    next: &'t [u32],
    tuples: &'t [T],
    hash: Hashed,
}

impl<'t, T: Tuple> SharedChains<'t, T> {
    /// Bytes of a table of `count` tuples.
    pub(crate) fn bytes(count: usize) -> usize {
        Arena::bytes_of::<u32>(1 << bucket_bits(count)) + Arena::bytes_of::<u32>(count)
    }

    /// Links the tuples, each thread a share of `share_len`.
    pub(crate) fn build(arena: &mut Arena<'t>, tuples: &'t [T], share_len: usize) -> Result<Self> {
        let bits = bucket_bits(tuples.len());
        let hash = Hashed::spread(bits, 0);
        let heads = arena.take_shared(1 << bits);
        let next = arena.take::<u32>(tuples.len());
        let share_len = share_len.max(1);
        let shares: Vec<_> = tuples
            .chunks(share_len)
            .zip(next.chunks_mut(share_len))
            .collect();
        // The end of the workers orders these stores before all loads.
        workers::run(shares, |thread, (tuples, next)| {
            let before = thread * share_len;
            for (index, (tuple, next)) in tuples.iter().zip(next).enumerate() {
                let head = &heads[hash.of_key(tuple.key())];
                *next = head.swap((before + index + 1) as u32, Ordering::Relaxed);
            }
            Ok(())
        })?;
        Ok(Self {
            heads,
            next,
            tuples,
            hash,
        })
    }

    /// Asks for the heads of the chains of these tuples.
    pub(crate) fn prefetch(&self, tuples: &[T]) {
        for tuple in tuples {
            prefetch(self.heads, self.hash.of_key(tuple.key()));
        }
    }

    /// Passes all partners of `tuples` to `sink`.
    pub(crate) fn probe<K: Sink<T>>(&self, tuples: &[T], sink: &mut K) {
        for &tuple in tuples {
            let head = &self.heads[self.hash.of_key(tuple.key())];
            let mut place = head.load(Ordering::Relaxed) as usize;
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
