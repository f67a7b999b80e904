//! One run, sorted inside the cache.
//!
//! The default is a radix sort of the bits in which the keys of the run differ, which are few after
//! partitioning by ranges. Its first pass reads the blocks of the partition directly. If the bounds
//! have not many more keys than tuples, and no two keys are equal, each tuple goes to the slot of
//! its key, and empty slots are left out: that takes one pass, and no counting. The networks sort
//! sixteen tuples in registers and double the length of sorted runs by vector merges.

use crate::options::RunSort;
use crate::partition::KeyBounds;
use crate::simd::{Isa, SMALL_RUN, compact, merge, sort_small_runs};
use crate::tuple::{Tuple, Word};

/// Bits of one pass of the radix sort, at most: its counters stay in the first-level cache.
const DIGIT_BITS_MAX: u32 = 13;
/// Most slots for each tuple of distinct keys.
const SLOTS_A_TUPLE_MAX: usize = 4;

/// How often each value of a digit occurs, and then where tuples that have it go.
type Histogram = [u32; 1 << DIGIT_BITS_MAX];

/// Sorts runs of one side of a join.
#[derive(Debug)]
pub(crate) struct RunSorter {
    isa: Isa,
    how: RunSort,
    /// Whether two keys of a run were equal, as those of the next ones will be.
    keys_repeat: bool,
    /// The counters of two passes.
    places: Vec<u32>,
}

impl RunSorter {
    pub(crate) fn new(isa: Isa, how: RunSort) -> Self {
        Self {
            isa,
            how,
            keys_repeat: false,
            places: vec![0; 2 << DIGIT_BITS_MAX],
        }
    }

    /// Sorts the tuples of `slices`, whose keys are within `bounds` if those are known, into
    /// `front`; `back` is at least as long and is overwritten.
    pub(crate) fn sort<'i, T: Tuple>(
        &mut self,
        bounds: Option<KeyBounds>,
        slices: impl Iterator<Item = &'i [T]> + Clone,
        front: &mut [T],
        back: &mut [T],
    ) {
        match self.how {
            RunSort::Radix => self.radix_sort(bounds, slices, front, back),
            RunSort::Network => {
                gather(slices, front);
                network_sort(self.isa, front, &mut back[..front.len()]);
            }
        }
    }

    fn radix_sort<'i, T: Tuple>(
        &mut self,
        bounds: Option<KeyBounds>,
        slices: impl Iterator<Item = &'i [T]> + Clone,
        front: &mut [T],
        back: &mut [T],
    ) {
        let KeyBounds { low, bits } = bounds.unwrap_or_else(|| bounds_of(slices.clone()));
        if bits == 0 {
            return gather(slices, front);
        }
        if !self.keys_repeat
            && (1 << bits.min(32)) <= front.len() * SLOTS_A_TUPLE_MAX
            && let Some(slots) = back.get_mut(..1 << bits)
        {
            if sort_distinct(self.isa, low, slices.clone(), slots, front) {
                return;
            }
            self.keys_repeat = true;
        }
        let bounds = KeyBounds { low, bits };
        let (places, _) = self.places.as_chunks_mut();
        sort_by_digits(places, bounds, &slices, front, back);
    }
}

/// Sorts distinct keys, by putting each tuple into the slot of its key; if two are equal, it says
/// so and has sorted nothing.
fn sort_distinct<'i, T: Tuple>(
    isa: Isa,
    low: u64,
    slices: impl Iterator<Item = &'i [T]>,
    slots: &mut [T],
    to: &mut [T],
) -> bool {
    // The bounds have fewer than all keys, and this is the key after them.
    let free = T::Word::truncate(low.wrapping_add(slots.len() as u64));
    slots.fill(T::new(free, T::Word::default()));
    let last = slots.len() - 1;
    for slice in slices {
        for &tuple in slice {
            let key: u64 = tuple.key().into();
            slots[key.wrapping_sub(low) as usize & last] = tuple;
        }
    }
    compact(isa, slots, free, to) == to.len()
}

/// Copies slices one after the other.
fn gather<'i, T: Tuple>(slices: impl Iterator<Item = &'i [T]>, to: &mut [T]) {
    let mut rest = to;
    for slice in slices {
        let (front, back) = rest.split_at_mut(slice.len());
        front.copy_from_slice(slice);
        rest = back;
    }
}

/// The bounds of some keys.
fn bounds_of<'i, T: Tuple>(slices: impl Iterator<Item = &'i [T]>) -> KeyBounds {
    let (mut low, mut high) = (u64::MAX, 0);
    for slice in slices {
        for tuple in slice {
            let key: u64 = tuple.key().into();
            low = low.min(key);
            high = high.max(key);
        }
    }
    let bits = u64::BITS - high.saturating_sub(low).leading_zeros();
    KeyBounds { low, bits }
}

/// Sorts by one digit after the other, the lowest first.
fn sort_by_digits<'i, T: Tuple>(
    places: &mut [Histogram],
    KeyBounds { low, bits }: KeyBounds,
    slices: &(impl Iterator<Item = &'i [T]> + Clone),
    front: &mut [T],
    back: &mut [T],
) {
    let passes = bits.div_ceil(DIGIT_BITS_MAX);
    let digit_bits = bits.div_ceil(passes);
    let digit = |pass: u32| Digit {
        low,
        shift: pass * digit_bits,
        mask: (1 << digit_bits) - 1,
    };
    let back = &mut back[..front.len()];
    // The last pass has to end in `front`.
    let (mut from, mut to) = if passes % 2 == 1 {
        (back, front)
    } else {
        (front, back)
    };
    // One reading counts for two passes, which is all there are for most runs.
    for pair in (0..passes).step_by(2) {
        let pair_len = 2.min(passes - pair);
        let counts = &mut places[..pair_len as usize];
        for counts in &mut *counts {
            counts[..1 << digit_bits].fill(0);
        }
        if pair == 0 {
            count(slices.clone(), digit(pair), digit(pair + 1), counts);
        } else {
            let slices = std::iter::once(&*to);
            count(slices, digit(pair), digit(pair + 1), counts);
        }
        for (pass, places) in (pair..).zip(counts) {
            if pass == 0 {
                radix_pass(slices.clone(), to, digit(pass), places);
            } else {
                (from, to) = (to, from);
                radix_pass(std::iter::once(&*from), to, digit(pass), places);
            }
        }
    }
}

/// Some bits of the distance from the lowest key.
#[derive(Clone, Copy, Debug)]
struct Digit {
    low: u64,
    shift: u32,
    mask: u64,
}

impl Digit {
    #[inline(always)]
    fn of<T: Tuple>(self, tuple: T) -> usize {
        let key: u64 = tuple.key().into();
        ((key.wrapping_sub(self.low) >> self.shift) & self.mask) as usize % (1 << DIGIT_BITS_MAX)
    }
}

/// Counts the values of one or two digits.
fn count<'i, T: Tuple>(
    slices: impl Iterator<Item = &'i [T]>,
    first: Digit,
    second: Digit,
    counts: &mut [Histogram],
) {
    let mut counts = counts.iter_mut();
    match (counts.next(), counts.next()) {
        (Some(of_first), Some(of_second)) => {
            for slice in slices {
                for tuple in slice {
                    of_first[first.of(*tuple)] += 1;
                    of_second[second.of(*tuple)] += 1;
                }
            }
        }
        (Some(of_first), None) => {
            for slice in slices {
                for tuple in slice {
                    of_first[first.of(*tuple)] += 1;
                }
            }
        }
        (None, _) => {}
    }
}

/// Moves all tuples to `to`, sorted by one digit and otherwise in their order; `places` counts the
/// digit's values.
fn radix_pass<'i, T: Tuple>(
    slices: impl Iterator<Item = &'i [T]>,
    to: &mut [T],
    digit: Digit,
    places: &mut Histogram,
) {
    let mut start = 0;
    for place in &mut places[..=digit.mask as usize] {
        start += std::mem::replace(place, start);
    }
    for slice in slices {
        for &tuple in slice {
            let place = &mut places[digit.of(tuple)];
            to[*place as usize] = tuple;
            *place += 1;
        }
    }
}

fn network_sort<T: Tuple>(isa: Isa, front: &mut [T], back: &mut [T]) {
    sort_small_runs(isa, front);
    let len = front.len();
    let (mut from, mut to) = (&mut *front, &mut *back);
    let mut width = SMALL_RUN;
    let mut is_in_front = true;
    while width < len {
        for (pair, out) in from.chunks(2 * width).zip(to.chunks_mut(2 * width)) {
            let (left, right) = pair.split_at(width.min(pair.len()));
            merge(isa, left, right, out);
        }
        (from, to) = (to, from);
        is_in_front = !is_in_front;
        width *= 2;
    }
    if !is_in_front {
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::kernels;
    use crate::tuple::{Tuple8, Tuple16, Word};

    fn check<T: Tuple>() {
        for len in [0, 1, 2, 15, 16, 17, 33, 1000, 5000] {
            for range in [1, 2, 300, 1 << 20, u64::MAX] {
                let number = |at: u64| (at + 3).wrapping_mul(0xD6E8_FEB8_6659_FD93) % range;
                let tuple = |at| T::new(T::Word::truncate(number(at)), T::Word::truncate(at));
                let tuples: Vec<T> = (0..len).map(tuple).collect();
                let mut sorted = tuples.clone();
                sorted.sort_by_key(|tuple| tuple.key());
                let keys =
                    |tuples: &[T]| tuples.iter().map(|tuple| tuple.key()).collect::<Vec<_>>();
                for isa in kernels() {
                    for how in [RunSort::Radix, RunSort::Network] {
                        let mut front = vec![T::default(); tuples.len()];
                        let mut back = vec![T::default(); 2 * tuples.len()];
                        let mut runs = RunSorter::new(isa, how);
                        runs.sort(None, tuples.chunks(7), &mut front, &mut back);
                        assert_eq!(keys(&front), keys(&sorted), "{isa:?} {how:?} {len} {range}");
                        let sum = |tuples: &[T]| {
                            tuples
                                .iter()
                                .map(|tuple| tuple.payload().into())
                                .sum::<u64>()
                        };
                        assert_eq!(sum(&front), sum(&sorted));
                    }
                }
            }
        }
    }

    #[test]
    fn runs_are_sorted() {
        check::<Tuple8>();
        check::<Tuple16>();
    }
}
