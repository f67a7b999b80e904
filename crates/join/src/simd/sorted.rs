//! Loops over sorted tuples: a merge join of distinct keys with anything, eight by eight, and the
//! compaction of an array with free places.
//!
//! The merge join compares eight tuples of R with eight of S, all with all, and advances on the
//! side whose last key is lower, or in S; no comparison is a branch. A tuple of S has one partner
//! at most, since no two keys of R are equal, so the partners of eight tuples fit one vector. Both
//! loops have a form for 8-byte tuples with AVX-512; elsewhere the callers' own loops do all of it.

use super::Isa;
#[cfg(target_arch = "x86_64")]
use super::Level;
use crate::output::Sink;
use crate::tuple::Tuple;

/// Passes pairs of equal keys to `sink` as long as both sides have a whole vector; no two keys of
/// `r` are equal. Returns how many tuples of each side are done; the others of both sides are still
/// to be joined with one another.
#[inline]
pub(crate) fn join_vectors<T: Tuple, K: Sink<T>>(
    isa: Isa,
    r: &[T],
    s: &[T],
    sink: &mut K,
) -> (usize, usize) {
    #[cfg(target_arch = "x86_64")]
    if T::BYTES == 8 && isa.0 == Level::Avx512 {
        // SAFETY: an `Isa` of this level exists only where AVX-512 F was detected.
        return unsafe { x86::join_vectors(r, s, sink) };
    }
    let _ = (isa, r, s, sink);
    (0, 0)
}

/// Copies the tuples whose key is not `free` to the front of `out`, in order, and returns how many
/// there are; `out` has room for them.
#[inline]
pub(crate) fn compact<T: Tuple>(isa: Isa, slots: &[T], free: T::Word, out: &mut [T]) -> usize {
    #[cfg(target_arch = "x86_64")]
    let (mut count, done) = if T::BYTES == 8 && isa.0 == Level::Avx512 {
        // SAFETY: an `Isa` of this level exists only where AVX-512 F was detected.
        unsafe { x86::compact_vectors(slots, free, out) }
    } else {
        (0, 0)
    };
    #[cfg(not(target_arch = "x86_64"))]
    let (mut count, done) = (0, 0);
    let _ = isa;
    for &slot in &slots[done..] {
        let is_taken = slot.key() != free;
        // Whether a place is taken is unpredictable, so it is no branch; nothing is written after
        // the last tuple.
        if let Some(to) = out.get_mut(count) {
            *to = if is_taken { slot } else { *to };
        } else {
            assert!(!is_taken, "there is room for all that is taken");
        }
        count += usize::from(is_taken);
    }
    count
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! The loops with eight tuples a vector: a tuple is one 64-bit lane with the key in its upper
    //! half.

    use crate::output::{Sink, Totals};
    use crate::tuple::Tuple;
    use std::arch::x86_64::{
        __m512i, _mm512_add_epi64, _mm512_andnot_si512, _mm512_loadu_si512, _mm512_mask_mov_epi64,
        _mm512_maskz_and_epi64, _mm512_maskz_compress_epi64, _mm512_reduce_add_epi64,
        _mm512_set1_epi64, _mm512_setzero_si512, _mm512_storeu_si512, _mm512_test_epi64_mask,
        _mm512_testn_epi64_mask, _mm512_xor_si512,
    };

    const LANES: usize = 8;
    /// The lanes' upper halves.
    const KEYS: i64 = (u32::MAX as i64) << 32;
    /// The lanes' lower halves.
    const PAYLOADS: i64 = u32::MAX as i64;

    /// A tuple as a lane.
    #[inline(always)]
    fn lane<T: Tuple>(tuple: T) -> i64 {
        let (key, payload): (u64, u64) = (tuple.key().into(), tuple.payload().into());
        (key << 32 | payload).cast_signed()
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load<T: Tuple>(tuples: &[T; LANES]) -> __m512i {
        assert_eq!(T::BYTES, 8);
        // SAFETY: the array has 64 bytes; the load needs no alignment.
        unsafe { _mm512_loadu_si512(tuples.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn store<T: Tuple>(lanes: __m512i, to: &mut [T; LANES]) {
        assert_eq!(T::BYTES, 8);
        // SAFETY: the array has 64 bytes; the store needs no alignment, and any bits are tuples.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), lanes) }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn join_vectors<T: Tuple, K: Sink<T>>(
        r: &[T],
        s: &[T],
        sink: &mut K,
    ) -> (usize, usize) {
        let (keys, payloads) = (_mm512_set1_epi64(KEYS), _mm512_set1_epi64(PAYLOADS));
        let (mut r_sum, mut s_sum) = (_mm512_setzero_si512(), _mm512_setzero_si512());
        let (mut count, mut at_r, mut at_s) = (0, 0, 0);
        while let (Some(from_r), Some(from_s)) = (
            r[at_r..].first_chunk::<LANES>(),
            s[at_s..].first_chunk::<LANES>(),
        ) {
            let s_lanes = load(from_s);
            // At first, of the keys that a lane does not have.
            let mut partners = _mm512_andnot_si512(s_lanes, keys);
            for tuple in from_r {
                let tuple = _mm512_set1_epi64(lane(*tuple));
                let equal = _mm512_testn_epi64_mask(_mm512_xor_si512(s_lanes, tuple), keys);
                partners = _mm512_mask_mov_epi64(partners, equal, tuple);
            }
            let found = _mm512_testn_epi64_mask(_mm512_xor_si512(s_lanes, partners), keys);
            if K::TOTALS_ONLY {
                let from_partners = _mm512_maskz_and_epi64(found, partners, payloads);
                r_sum = _mm512_add_epi64(r_sum, from_partners);
                let from_s = _mm512_maskz_and_epi64(found, s_lanes, payloads);
                s_sum = _mm512_add_epi64(s_sum, from_s);
                count += u64::from(found.count_ones());
            } else {
                let mut partners_of = [T::default(); LANES];
                store(partners, &mut partners_of);
                for (at, (partner, tuple)) in partners_of.iter().zip(from_s).enumerate() {
                    if found >> at & 1 == 1 {
                        sink.emit(partner.payload(), tuple.payload());
                    }
                }
            }
            let r_is_behind = from_r[LANES - 1].key() < from_s[LANES - 1].key();
            at_r += LANES * usize::from(r_is_behind);
            at_s += LANES * usize::from(!r_is_behind);
        }
        if K::TOTALS_ONLY {
            sink.add(Totals {
                count,
                r_payload_sum: _mm512_reduce_add_epi64(r_sum).cast_unsigned(),
                s_payload_sum: _mm512_reduce_add_epi64(s_sum).cast_unsigned(),
            });
        }
        (at_r, at_s)
    }

    /// Compacts whole vectors as long as `out` has room for one; returns the tuples copied and the
    /// slots read.
    #[target_feature(enable = "avx512f")]
    pub(super) fn compact_vectors<T: Tuple>(
        slots: &[T],
        free: T::Word,
        out: &mut [T],
    ) -> (usize, usize) {
        let keys = _mm512_set1_epi64(KEYS);
        let free_key: u64 = free.into();
        let free = _mm512_set1_epi64((free_key << 32).cast_signed());
        let (mut count, mut done) = (0, 0);
        let (vectors, _) = slots.as_chunks::<LANES>();
        for slots in vectors {
            let Some(to) = out.get_mut(count..).and_then(|out| out.first_chunk_mut()) else {
                break;
            };
            let lanes = load(slots);
            let taken = _mm512_test_epi64_mask(_mm512_xor_si512(lanes, free), keys);
            store(_mm512_maskz_compress_epi64(taken, lanes), to);
            count += taken.count_ones() as usize;
            done += LANES;
        }
        (count, done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Totals;
    use crate::simd::kernels;
    use crate::tuple::{Tuple8, Tuple16, Word};

    fn tuples<T: Tuple>(keys: impl Iterator<Item = u64>) -> Vec<T> {
        let tuple = |(row, key): (usize, u64)| {
            T::new(T::Word::truncate(key), T::Word::truncate(row as u64 + 1))
        };
        keys.enumerate().map(tuple).collect()
    }

    fn slots_are_compacted<T: Tuple>() {
        let free = T::Word::truncate(u64::MAX);
        for len in [0, 1, 7, 8, 9, 64, 1001] {
            for step in [1, 2, 3, 50] {
                let key = |at: u64| {
                    if at.is_multiple_of(step) {
                        at
                    } else {
                        u64::MAX
                    }
                };
                let slots = tuples::<T>((0..len).map(key));
                let taken: Vec<T> = slots.iter().copied().filter(|t| t.key() != free).collect();
                for isa in kernels() {
                    let mut out = vec![T::default(); taken.len()];
                    assert_eq!(compact(isa, &slots, free, &mut out), taken.len());
                    assert_eq!(out, taken, "{isa:?} {len} {step}");
                }
            }
        }
    }

    #[test]
    fn free_slots_are_left_out() {
        slots_are_compacted::<Tuple8>();
        slots_are_compacted::<Tuple16>();
    }

    #[test]
    fn what_is_done_by_vectors_and_what_is_not_are_all_pairs() {
        let r = tuples::<Tuple8>((0..500).map(|at| at * 3));
        for repeats in [1, 2, 9, 40] {
            let s = tuples::<Tuple8>((0..1700).map(|at| at / repeats * 2));
            let (mut expected, mut pairs) = (Totals::default(), 0);
            for left in &r {
                for right in s.iter().filter(|right| right.key() == left.key()) {
                    Sink::<Tuple8>::emit(&mut expected, left.payload(), right.payload());
                    pairs += 1;
                }
            }
            assert!(pairs > 100);
            for isa in kernels() {
                let mut found = Totals::default();
                let (at_r, at_s) = join_vectors(isa, &r, &s, &mut found);
                for left in &r[at_r..] {
                    for right in s[at_s..].iter().filter(|right| right.key() == left.key()) {
                        Sink::<Tuple8>::emit(&mut found, left.payload(), right.payload());
                    }
                }
                assert_eq!(found, expected, "{isa:?} {repeats}");
            }
        }
    }
}
