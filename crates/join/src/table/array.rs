//! An array of payloads that the key itself indexes: for distinct keys that fill a good part of their range.
//!
//! The keys of a partition share their lower bits, which are shifted out first, so a partition of dense keys is dense again. Where
//! every key of the range is there, the range check is the whole lookup; else a bit a key says whether it is.

use crate::output::Sink;
use crate::tuple::Tuple;

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
        Self {
            low: low >> shift,
            high: high >> shift,
            shift,
        }
    }

    /// The extent of the keys of both.
    pub(crate) fn union(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
            shift: self.shift,
        }
    }

    /// The part of an unshifted extent that begins `start` places from its lowest key, of at most `len` places.
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

    /// The lowest key, shifted.
    pub(crate) fn low(self) -> u64 {
        self.low
    }

    /// The highest key, shifted.
    pub(crate) fn high(self) -> u64 {
        self.high
    }
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
    /// Stores payloads at their places; `false` if two keys are equal.
    pub(crate) fn fill<'i>(
        payloads: &mut [T::Word],
        presence: &mut [u64],
        extent: Extent,
        slices: impl Iterator<Item = &'i [T]>,
    ) -> bool {
        let len = extent.len();
        let payloads = &mut payloads[..len];
        let presence = &mut presence[..len.div_ceil(64)];
        presence.fill(0);
        let mut equal = 0;
        for tuples in slices {
            for tuple in tuples {
                let key: u64 = tuple.key().into();
                let place = ((key >> extent.shift) - extent.low) as usize;
                payloads[place] = tuple.payload();
                let word = &mut presence[place / 64];
                equal |= *word >> (place % 64) & 1;
                *word |= 1 << (place % 64);
            }
        }
        equal == 0
    }

    /// A view of an array that `fill` has filled with `count` tuples.
    pub(crate) fn new(
        payloads: &'t [T::Word],
        presence: &'t [u64],
        extent: Extent,
        count: usize,
    ) -> Self {
        let len = extent.len();
        let words = if count == len { 0 } else { len.div_ceil(64) };
        Self {
            payloads: &payloads[..len],
            presence: &presence[..words],
            low: extent.low,
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

    /// Passes all partners of `tuples` to `sink`.
    pub(crate) fn probe<K: Sink<T>>(&self, tuples: &[T], sink: &mut K) {
        if self.presence.is_empty() {
            for &tuple in tuples {
                if let Some(&payload) = self.payloads.get(self.place(tuple)) {
                    sink.emit(payload, tuple.payload());
                }
            }
            return;
        }
        for &tuple in tuples {
            let place = self.place(tuple);
            let Some(&payload) = self.payloads.get(place) else {
                continue;
            };
            if self.presence[place / 64] >> (place % 64) & 1 == 1 {
                sink.emit(payload, tuple.payload());
            }
        }
    }
}
