//! A slot for each key of a range, which holds the whole tuple: for distinct keys that fill a good
//! part of their range.
//!
//! It takes twice the memory of an array of payloads, but no bits that say which places are taken:
//! building is one store a tuple, a lookup is one load. A free slot has a key of another partition.

use super::array::{Extent, Filled};
use crate::output::{Pairs, Sink};
use crate::tuple::Tuple;

/// Tuples that are looked up before their partners are passed on.
const BATCH_TUPLES: usize = 64;

/// A filled table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectTable<'t, T: Tuple> {
    pub(crate) slots: &'t [T],
    pub(crate) extent: Extent,
}

impl<'t, T: Tuple> DirectTable<'t, T> {
    /// Stores tuples in their slots, of which there is one for each place of `extent`.
    pub(crate) fn fill<'i>(
        slots: &mut [T],
        extent: Extent,
        free_key: T::Word,
        slices: impl Iterator<Item = &'i [T]>,
    ) -> Filled {
        slots.fill(T::new(free_key, T::Word::default()));
        let mut count = 0;
        for tuples in slices {
            for &tuple in tuples {
                let Some(slot) = slots.get_mut(extent.place(tuple.key().into())) else {
                    return Filled::Outside;
                };
                *slot = tuple;
            }
            count += tuples.len();
        }
        let taken = slots.iter().filter(|slot| slot.key() != free_key).count();
        if taken == count {
            Filled::Distinct
        } else {
            Filled::Repeated
        }
    }

    /// A view of slots that `fill` has filled with distinct keys.
    pub(crate) fn new(slots: &'t [T], extent: Extent) -> Self {
        assert_eq!(slots.len(), extent.len());
        Self { slots, extent }
    }

    /// Passes all partners of `tuples` to `sink`.
    pub(crate) fn probe<K: Sink<T>>(&self, tuples: &[T], sink: &mut K) {
        let Some(last) = self.slots.len().checked_sub(1) else {
            return;
        };
        let mut pairs = Pairs::<T, BATCH_TUPLES>::new();
        for batch in tuples.chunks(BATCH_TUPLES) {
            for &tuple in batch {
                let slot = self.slots[self.extent.place(tuple.key().into()).min(last)];
                let found = slot.key() == tuple.key();
                pairs.push_if(found, slot.payload(), tuple.payload());
            }
            pairs.emit(sink);
        }
    }
}
