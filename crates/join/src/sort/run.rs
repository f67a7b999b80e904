//! One run, sorted inside the cache.
//!
//! The default is a radix sort of the bits in which the keys of the run differ, which are few after partitioning by ranges. Its first pass reads the
//! blocks of the partition directly. The networks sort sixteen tuples in registers and double the length of sorted runs by vector merges.

use crate::options::RunSort;
use crate::simd::{Isa, SMALL_RUN, merge, sort_small_runs};
use crate::tuple::Tuple;

/// Bits of one pass of the radix sort, at most: its counters stay in the first-level cache.
const DIGIT_BITS_MAX: u32 = 11;

/// Sorts the tuples of `slices` into `front`; `back` is as long and is overwritten.
pub(crate) fn sort_run<'i, T: Tuple>(
    isa: Isa,
    how: RunSort,
    slices: impl Iterator<Item = &'i [T]> + Clone,
    front: &mut [T],
    back: &mut [T],
) {
    match how {
        RunSort::Radix => radix_sort(slices, front, back),
        RunSort::Network => {
            gather(slices, front);
            network_sort(isa, front, back);
        }
    }
}

/// Copies slices one behind the other.
fn gather<'i, T: Tuple>(slices: impl Iterator<Item = &'i [T]>, to: &mut [T]) {
    let mut rest = to;
    for slice in slices {
        let (front, back) = rest.split_at_mut(slice.len());
        front.copy_from_slice(slice);
        rest = back;
    }
}

fn radix_sort<'i, T: Tuple>(
    slices: impl Iterator<Item = &'i [T]> + Clone,
    front: &mut [T],
    back: &mut [T],
) {
    let (mut low, mut high) = (u64::MAX, 0);
    for slice in slices.clone() {
        for tuple in slice {
            let key: u64 = tuple.key().into();
            low = low.min(key);
            high = high.max(key);
        }
    }
    let bits = u64::BITS - high.saturating_sub(low).leading_zeros();
    let passes = bits.div_ceil(DIGIT_BITS_MAX);
    if passes == 0 {
        return gather(slices, front);
    }
    let digit_bits = bits.div_ceil(passes);
    let digit = |pass: u32| Digit {
        low,
        shift: pass * digit_bits,
        mask: (1 << digit_bits) - 1,
    };
    // The last pass has to end in `front`.
    let (mut from, mut to) = if passes % 2 == 1 {
        (back, front)
    } else {
        (front, back)
    };
    radix_pass(slices, to, digit(0));
    for pass in 1..passes {
        (from, to) = (to, from);
        radix_pass(std::iter::once(&*from), to, digit(pass));
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
        ((key.wrapping_sub(self.low) >> self.shift) & self.mask) as usize
    }
}

/// Moves all tuples to `to`, in the order of one digit, and else in the order in which they come.
fn radix_pass<'i, T: Tuple>(
    slices: impl Iterator<Item = &'i [T]> + Clone,
    to: &mut [T],
    digit: Digit,
) {
    let mut places = [0_u32; 1 << DIGIT_BITS_MAX];
    let places = &mut places[..=digit.mask as usize];
    for slice in slices.clone() {
        for &tuple in slice {
            places[digit.of(tuple)] += 1;
        }
    }
    let mut start = 0;
    for place in places.iter_mut() {
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
                        let mut back = front.clone();
                        sort_run(isa, how, tuples.chunks(7), &mut front, &mut back);
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
