//! An array of payloads that the key itself indexes: for distinct keys that fill a good part of
//! their range.
//!
//! The keys of a partition share their lower bits, which are shifted out first, so a partition of
//! dense keys is dense again. Where every key of the range is there, the range check is the whole
//! lookup; else a bit a key says whether it is.

use crate::output::{Pairs, Sink};
use crate::tuple::Tuple;
use std::ops::Range;

/// The range of some keys after `shift` bits were shifted out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    low: u64,
    high: u64,
    shift: u32,
}

impl Extent {
    /// The extent of all keys.
    pub(crate) fn of<'i, T: Tuple>(slices: impl Iterator<Item = &'i [T]>, shift: u32) -> Self {
        let (mut low, mut high) = (u64::MAX, 0);
        for tuples in slices {
            for tuple in tuples {
                let key: u64 = tuple.key().into();
                low = low.min(key);
                high = high.max(key);
            }
        }
        Self::between(low, high, shift)
    }

    /// The places that keys from `low` to `high` have after `shift` bits were shifted out.
    pub(crate) fn between(low: u64, high: u64, shift: u32) -> Self {
        Self {
            low: low >> shift,
            high: high >> shift,
            shift,
        }
    }

    /// The place of a key; past the end for keys outside.
    #[inline(always)]
    pub(crate) fn place(self, key: u64) -> usize {
        (key >> self.shift).wrapping_sub(self.low) as usize
    }

    /// The extent of the keys of both.
    pub(crate) fn union(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            shift: self.shift,
        }
    }

    /// The part of an unshifted extent that begins `start` places from its lowest key, of at most
    /// `len` places.
    pub(crate) fn part(self, start: usize, len: usize) -> Self {
        let low = self.low + start as u64;
        Self {
            low,
            high: self.high.min(low.saturating_add(len as u64 - 1)),
            ..self
        }
    }

    /// Places from the lowest to the highest key; the largest number for no keys, and for too many.
    pub(crate) fn len(self) -> usize {
        let len = self
            .high
            .checked_sub(self.low)
            .and_then(|len| len.checked_add(1));
        len.map_or(usize::MAX, |len| len as usize)
    }

    /// Bits that are shifted out.
    pub(crate) fn shift(self) -> u32 {
        self.shift
    }

    /// The lowest key, shifted.
    pub(crate) fn low(self) -> u64 {
        self.low
    }

    /// The highest key, shifted.
    pub(crate) fn high(self) -> u64 {
        self.high
    }
}

/// From the lowest to the highest bit that is set.
fn bounds_of(presence: &[u64]) -> Option<Range<usize>> {
    let first = presence.iter().position(|word| *word != 0)?;
    let last = presence.iter().rposition(|word| *word != 0)?;
    let start = 64 * first + presence[first].trailing_zeros() as usize;
    let end = 64 * (last + 1) - presence[last].leading_zeros() as usize;
    Some(start..end)
}

/// Tuples that are looked up before their partners are passed on.
const BATCH_TUPLES: usize = 64;

/// Result of filling an array with tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// Each has a place of its own.
    Distinct,
    /// Two keys are equal.
    Repeated,
    /// A key is outside of the extent.
    Outside,
}

/// A filled array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrayTable<'t, T: Tuple> {
    payloads: &'t [T::Word],
    /// A bit for each place; empty if all of them are taken.
    presence: &'t [u64],
    low: u64,
    shift: u32,
}

impl<'t, T: Tuple> ArrayTable<'t, T> {
    /// Stores payloads at their places in an extent.
    pub(crate) fn fill<'i>(
        payloads: &mut [T::Word],
        presence: &mut [u64],
        extent: Extent,
        slices: impl Iterator<Item = &'i [T]>,
    ) -> Filled {
        let len = extent.len();
        let payloads = &mut payloads[..len];
        let presence = &mut presence[..len.div_ceil(64)];
        presence.fill(0);
        let mut count = 0;
        for tuples in slices {
            for tuple in tuples {
                let place = extent.place(tuple.key().into());
                let Some(payload) = payloads.get_mut(place) else {
                    return Filled::Outside;
                };
                *payload = tuple.payload();
                presence[place / 64] |= 1 << (place % 64);
            }
            count += tuples.len();
        }
        let taken: usize = presence.iter().map(|word| word.count_ones() as usize).sum();
        if taken == count {
            Filled::Distinct
        } else {
            Filled::Repeated
        }
    }

    /// A view of an array that `fill` has filled with `count` distinct keys; free places at both
    /// ends are left out if there are no others.
    pub(crate) fn new(
        payloads: &'t [T::Word],
        presence: &'t [u64],
        extent: Extent,
        count: usize,
    ) -> Self {
        let presence = &presence[..extent.len().div_ceil(64)];
        let bounds = bounds_of(presence).unwrap_or(0..0);
        let (taken, presence) = if bounds.len() == count {
            (bounds, &[][..])
        } else {
            (0..extent.len(), presence)
        };
        Self {
            low: extent.low + taken.start as u64,
            payloads: &payloads[taken],
            presence,
            shift: extent.shift,
        }
    }

    /// The place of a key; past the end for keys outside of the range.
    #[inline(always)]
    pub(crate) fn place(&self, tuple: T) -> usize {
        let key: u64 = tuple.key().into();
        (key >> self.shift).wrapping_sub(self.low) as usize
    }

    /// The payloads, for prefetching.
    pub(crate) fn payloads(&self) -> &'t [T::Word] {
        self.payloads
    }

    /// Whether every place is taken.
    pub(crate) fn is_gapless(&self) -> bool {
        self.presence.is_empty()
    }

    /// The key of the first place, shifted, and by how many bits it is.
    pub(crate) fn extent(&self) -> (u64, u32) {
        (self.low, self.shift)
    }

    /// Passes all partners of `tuples` to `sink`.
    pub(crate) fn probe<K: Sink<T>>(&self, tuples: &[T], sink: &mut K) {
        let mut pairs = Pairs::<T, BATCH_TUPLES>::new();
        for batch in tuples.chunks(BATCH_TUPLES) {
            if self.presence.is_empty() {
                self.look_up(batch, &mut pairs, |_| true);
            } else {
                self.look_up(batch, &mut pairs, |place| {
                    self.presence[place / 64] >> (place % 64) & 1 == 1
                });
            }
            pairs.emit(sink);
        }
    }

    /// Gathers the partners of a batch, without a branch for those that have none.
    #[inline(always)]
    fn look_up(
        &self,
        batch: &[T],
        pairs: &mut Pairs<T, BATCH_TUPLES>,
        is_taken: impl Fn(usize) -> bool,
    ) {
        let Some(last) = self.payloads.len().checked_sub(1) else {
            return;
        };
        for &tuple in batch {
            let place = self.place(tuple);
            let inside = place.min(last);
            let found = (place == inside) & is_taken(inside);
            pairs.push_if(found, self.payloads[inside], tuple.payload());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Totals;
    use crate::tuple::Tuple8;

    /// The partners of all keys up to 99 among `keys`, in an array of the places 10 to 90; none if
    /// it cannot take them.
    fn partners(keys: &[u32]) -> Result<Totals, Filled> {
        let tuples: Vec<_> = keys.iter().map(|key| Tuple8::new(*key, 1)).collect();
        let (mut payloads, mut presence) = ([0; 100], [u64::MAX; 2]);
        let extent = Extent::between(10, 90, 0);
        match ArrayTable::fill(&mut payloads, &mut presence, extent, tuples.chunks(7)) {
            Filled::Distinct => {}
            other => return Err(other),
        }
        let table = ArrayTable::new(&payloads, &presence, extent, keys.len());
        let probes: Vec<_> = (0..100).map(|key| Tuple8::new(key, key)).collect();
        let mut totals = Totals::default();
        table.probe(&probes, &mut totals);
        Ok(totals)
    }

    #[test]
    fn keys_within_the_extent_are_found_with_and_without_gaps() {
        let gapless: Vec<u32> = (20..70).collect();
        let with_gaps: Vec<u32> = (10..=90).step_by(3).collect();
        for keys in [vec![], vec![10], vec![90], gapless, with_gaps] {
            let totals = partners(&keys).unwrap();
            assert_eq!(totals.count, keys.len() as u64);
            assert_eq!(totals.r_payload_sum, keys.len() as u64);
            assert_eq!(
                totals.s_payload_sum,
                keys.iter().map(|key| u64::from(*key)).sum()
            );
        }
    }

    #[test]
    fn other_keys_are_refused() {
        assert_eq!(partners(&[12, 9]), Err(Filled::Outside));
        assert_eq!(partners(&[12, 91]), Err(Filled::Outside));
        assert_eq!(partners(&[12, 50, 12]), Err(Filled::Repeated));
    }
}
