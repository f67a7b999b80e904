//! Tables for the tuples of R in one partition, in buffers that a thread uses again and again.
//!
//! | table | for | lookup |
//! |---|---|---|
//! | `ArrayTable` | distinct keys that fill much of their range | one payload, by the key itself |
//! | `DirectTable` | the same, where there is a kernel for it | one tuple, by the key itself |
//! | `LinearTable` | few equal keys | the slots from the hash on, up to the key or to a free slot |
//! | `BucketTable` | many equal keys | the tuples of equal hash, which lie together |
//! | `ChainTable` | the paper's layout, on request | a chain of tuples of equal hash |
//! | `SharedChains` | the same for a whole relation, filled by all threads | the same |

mod array;
mod bucket;
mod chain;
mod direct;
mod linear;
mod shared_chain;

pub(crate) use array::{ArrayTable, Extent, Filled};
pub(crate) use bucket::{
    BucketTable, SumMarks, bucket_bits, count as count_buckets, fill as fill_buckets,
    place as place_buckets, sum_up as sum_up_buckets,
};
pub(crate) use chain::ChainTable;
pub(crate) use direct::DirectTable;
pub(crate) use linear::{Keys, LinearTable, fill as fill_linear, slot_bits, slots_len};
pub(crate) use shared_chain::SharedChains;

use crate::options::TableKind;
use crate::output::Sink;
use crate::partition::Hashed;
use crate::scratch::Arena;
use crate::simd::{Isa, probe_array, probe_direct, probe_linear};
use crate::tuple::Tuple;

/// An array takes at most this many words a tuple.
const ARRAY_WORDS_A_TUPLE: usize = 4;

/// The memory of one thread's table.
#[derive(Debug)]
pub(crate) struct TableBuffers<'a, T: Tuple> {
    capacity: usize,
    slots: &'a mut [T],
    words: &'a mut [u32],
    payloads: &'a mut [T::Word],
    presence: &'a mut [u64],
}

/// Lengths of the buffers for `capacity` tuples: slots, words, payloads, presence.
fn lengths(capacity: usize) -> [usize; 4] {
    [
        linear::slots_len(slot_bits(capacity)),
        (capacity.next_power_of_two() + capacity + 1).max((1 << bucket_bits(capacity)) + 1),
        capacity * ARRAY_WORDS_A_TUPLE,
        (capacity * ARRAY_WORDS_A_TUPLE).div_ceil(64),
    ]
}

impl<'a, T: Tuple> TableBuffers<'a, T> {
    /// Bytes of the buffers.
    pub(crate) fn bytes(capacity: usize) -> usize {
        let [slots, words, payloads, presence] = lengths(capacity);
        Arena::bytes_of::<T>(slots)
            + Arena::bytes_of::<u32>(words)
            + Arena::bytes_of::<T::Word>(payloads)
            + Arena::bytes_of::<u64>(presence)
    }

    /// Buffers for at most `capacity` tuples.
    pub(crate) fn new(capacity: usize, arena: &mut Arena<'a>) -> Self {
        let [slots, words, payloads, presence] = lengths(capacity);
        Self {
            capacity,
            slots: arena.take(slots),
            words: arena.take(words),
            payloads: arena.take(payloads),
            presence: arena.take(presence),
        }
    }
}

/// How the keys of a partition look to a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyShape<W> {
    /// A key that no tuple of this partition has.
    pub(crate) free_key: W,
    /// Upper bits of the hash that are equal for the whole partition.
    pub(crate) skipped_bits: u32,
    /// The expectation about dense keys.
    pub(crate) dense: Option<DenseKeys>,
}

/// Keys that fill a good part of their range, as far as a sample tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DenseKeys {
    /// Where most keys of the relation lie.
    pub(crate) low: u64,
    pub(crate) high: u64,
    /// Lower bits that the keys of a partition share.
    pub(crate) shared_bits: u32,
}

/// A table of one of the layouts.
#[derive(Debug)]
pub(crate) enum Table<'t, T: Tuple> {
    Array(ArrayTable<'t, T>),
    Direct(DirectTable<'t, T>),
    Linear(LinearTable<'t, T, false>),
    Bucket(BucketTable<'t, T>),
    Chain(ChainTable<'t, T>),
}

impl<T: Tuple> TableBuffers<'_, T> {
    /// A table of `count` tuples, in the layout that suits them; with sums of equal keys if sinks
    /// keep `totals_only`.
    pub(crate) fn build<'i>(
        &mut self,
        isa: Isa,
        kind: TableKind,
        shape: KeyShape<T::Word>,
        count: usize,
        totals_only: bool,
        slices: impl Iterator<Item = &'i [T]> + Clone,
    ) -> Table<'_, T> {
        assert!(count <= self.capacity, "a group of R fits its table");
        if kind == TableKind::BucketChain {
            let (words, slots) = (&mut *self.words, &mut *self.slots);
            return Table::Chain(ChainTable::build(
                words,
                slots,
                shape.skipped_bits,
                count,
                slices,
            ));
        }
        let dense = shape.dense.filter(|_| kind == TableKind::Auto);
        if let Some(dense) = dense.filter(|_| isa.gathers()) {
            if let Some(extent) = self.fill_direct(dense, shape.free_key, count, &slices) {
                return Table::Direct(DirectTable::new(&self.slots[..extent.len()], extent));
            }
        } else if let Some(dense) = dense
            && let Some(extent) = self.fill_array(dense, count, &slices)
        {
            let (payloads, presence) = (&*self.payloads, &*self.presence);
            return Table::Array(ArrayTable::new(payloads, presence, extent, count));
        }
        let bits = slot_bits(count);
        let slots_len = linear::slots_len(bits);
        let slots = &mut self.slots[..slots_len];
        if let Some(keys) = linear::fill(slots, bits, shape, slices.clone()) {
            let slots = &self.slots[..slots_len];
            return Table::Linear(LinearTable::new(slots, bits, shape, keys));
        }
        let bits = bucket_bits(count);
        let words = &mut self.words[..=1 << bits];
        let tuples = &mut self.slots[..count];
        words[1 << bits] = count as u32;
        let hash = Hashed::spread(bits, shape.skipped_bits);
        bucket::fill(&mut words[..1 << bits], tuples, 0, hash, slices);
        if totals_only {
            bucket::sum_up(&words[..1 << bits], tuples, 0, shape.free_key);
        }
        let marks = SumMarks::one(shape.free_key);
        Table::Bucket(BucketTable::new(words, tuples, hash, marks))
    }
}

impl<T: Tuple> TableBuffers<'_, T> {
    /// Fills a slot for each key, and returns their extent; none if keys are equal or too far from
    /// one another.
    fn fill_direct<'i>(
        &mut self,
        dense: DenseKeys,
        free_key: T::Word,
        count: usize,
        slices: &(impl Iterator<Item = &'i [T]> + Clone),
    ) -> Option<Extent> {
        fill_extent(dense, count, slices, |extent| {
            match self.slots.get_mut(..extent.len()) {
                Some(slots) => DirectTable::fill(slots, extent, free_key, slices.clone()),
                None => Filled::Outside,
            }
        })
    }

    /// Fills the array, and returns its extent; none if keys are equal or too far from one another.
    fn fill_array<'i>(
        &mut self,
        dense: DenseKeys,
        count: usize,
        slices: &(impl Iterator<Item = &'i [T]> + Clone),
    ) -> Option<Extent> {
        fill_extent(dense, count, slices, |extent| {
            ArrayTable::fill(self.payloads, self.presence, extent, slices.clone())
        })
    }
}

/// Calls `fill` with the extent that is expected, or else with that of the tuples, and returns the
/// one that took them all.
fn fill_extent<'i, T: Tuple>(
    dense: DenseKeys,
    count: usize,
    slices: &(impl Iterator<Item = &'i [T]> + Clone),
    mut fill: impl FnMut(Extent) -> Filled,
) -> Option<Extent> {
    let bits = dense.shared_bits;
    let mut fill = |extent: Extent| {
        if extent.len() > count * ARRAY_WORDS_A_TUPLE {
            return Filled::Outside;
        }
        fill(extent)
    };
    // Reading all keys for their extent takes as long as filling the table.
    let expected = Extent::between(dense.low, dense.high, bits);
    match fill(expected) {
        Filled::Distinct => return Some(expected),
        Filled::Repeated => return None,
        Filled::Outside => {}
    }
    let exact = Extent::of(slices.clone(), bits);
    (fill(exact) == Filled::Distinct).then_some(exact)
}

impl<T: Tuple> Table<'_, T> {
    /// Passes all partners of `tuples` to `sink`.
    #[inline]
    pub(crate) fn probe<K: Sink<T>>(&self, isa: Isa, tuples: &[T], sink: &mut K) {
        match self {
            Self::Array(table) => probe_array(isa, table, tuples, sink),
            Self::Direct(table) => probe_direct(isa, table, tuples, sink),
            Self::Linear(table) => probe_linear(isa, table, tuples, sink),
            Self::Bucket(table) => table.probe(tuples, sink),
            Self::Chain(table) => table.probe(tuples, sink),
        }
    }
}
