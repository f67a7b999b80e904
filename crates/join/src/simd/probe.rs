//! Lookups in a table with linear probing: the slots from the hash on, up to the key or to a free
//! slot.
//!
//! The plain loop compares one slot at a time. The vector loops compare four or eight slots of
//! 8-byte tuples in parallel, in groups that do not cross a line. With four slots this pays where
//! keys repeat and lookups are long. For distinct keys the plain loop was a quarter faster
//! (`indelible bench join`, 16 M tuples a side, sparse keys, AVX2), so it is used there. Tables end
//! with enough free slots for any of them.

use super::Isa;
#[cfg(target_arch = "x86_64")]
use super::Level;
use crate::output::Sink;
use crate::table::{ArrayTable, DirectTable, LinearTable};
use crate::tuple::Tuple;

/// Passes all partners of `tuples` to `sink`: eight parallel lookups where there is a kernel for it
/// and only totals are kept.
#[inline(always)]
pub(crate) fn probe_direct<T: Tuple, K: Sink<T>>(
    isa: Isa,
    table: &DirectTable<'_, T>,
    tuples: &[T],
    sink: &mut K,
) {
    #[cfg(target_arch = "x86_64")]
    if T::BYTES == 8 && K::TOTALS_ONLY && isa.0 == Level::Avx512 {
        // SAFETY: an `Isa` of this level exists only where AVX-512 F was detected.
        let done = unsafe { x86::probe_direct(table, tuples, sink) };
        return table.probe(&tuples[done..], sink);
    }
    let _ = isa;
    table.probe(tuples, sink);
}

/// As `probe_direct`, in an array without gaps.
#[inline(always)]
pub(crate) fn probe_array<T: Tuple, K: Sink<T>>(
    isa: Isa,
    table: &ArrayTable<'_, T>,
    tuples: &[T],
    sink: &mut K,
) {
    #[cfg(target_arch = "x86_64")]
    if T::BYTES == 8 && K::TOTALS_ONLY && isa.0 == Level::Avx512 && table.is_gapless() {
        // SAFETY: an `Isa` of this level exists only where AVX-512 F was detected.
        let done = unsafe { x86::probe_array(table, tuples, sink) };
        return table.probe(&tuples[done..], sink);
    }
    let _ = isa;
    table.probe(tuples, sink);
}

/// Passes all partners of `tuples` to `sink`.
#[inline(always)]
pub(crate) fn probe_linear<T: Tuple, K: Sink<T>, const PARTS: bool>(
    isa: Isa,
    table: &LinearTable<'_, T, PARTS>,
    tuples: &[T],
    sink: &mut K,
) {
    #[cfg(target_arch = "x86_64")]
    if T::BYTES == 8 {
        match isa.0 {
            Level::Avx2 if !table.keys_are_distinct() => {
                // SAFETY: an `Isa` of this level exists only where AVX2 was detected.
                return unsafe { x86::probe_avx2(table, tuples, sink) };
            }
            // SAFETY: an `Isa` of this level exists only where AVX-512 F was detected.
            Level::Avx512 => return unsafe { x86::probe_avx512(table, tuples, sink) },
            Level::Avx2 | Level::Portable => {}
        }
    }
    let _ = isa;
    probe_portable(table, tuples, sink);
}

fn probe_portable<T: Tuple, K: Sink<T>, const PARTS: bool>(
    table: &LinearTable<'_, T, PARTS>,
    tuples: &[T],
    sink: &mut K,
) {
    let distinct = table.keys_are_distinct();
    for &tuple in tuples {
        let (mut at, free_key) = table.start(tuple.key());
        loop {
            let slot = table.slots[at];
            if slot.key() == tuple.key() {
                sink.emit(slot.payload(), tuple.payload());
                if distinct {
                    break;
                }
            } else if slot.key() == free_key {
                break;
            }
            at += 1;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! Four or eight slots in parallel. A slot is one 64-bit lane with the key in its upper half.

    use crate::output::{Sink, Totals};
    use crate::table::{ArrayTable, DirectTable, LinearTable};
    use crate::tuple::Tuple;
    use std::arch::x86_64::{
        __m256i, __m512i, _mm_cvtsi32_si128, _mm256_castsi256_pd, _mm256_cmpeq_epi32,
        _mm256_loadu_si256, _mm256_movemask_pd, _mm256_set1_epi64x, _mm256_setzero_si256,
        _mm512_add_epi64, _mm512_cmpeq_epi32_mask, _mm512_cmplt_epu64_mask, _mm512_cvtepu32_epi64,
        _mm512_loadu_si512, _mm512_mask_i64gather_epi32, _mm512_mask_i64gather_epi64,
        _mm512_mask_testn_epi64_mask, _mm512_maskz_and_epi64, _mm512_reduce_add_epi64,
        _mm512_set1_epi64, _mm512_setzero_si512, _mm512_srl_epi64, _mm512_sub_epi64,
        _mm512_xor_si512,
    };

    /// Result of eight lookups at once: sums of the lanes, and the number of matches.
    #[derive(Clone, Copy)]
    struct Found {
        r_sum: __m512i,
        s_sum: __m512i,
        count: u64,
    }

    impl Found {
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn nothing() -> Self {
            let zero = _mm512_setzero_si512();
            Self {
                r_sum: zero,
                s_sum: zero,
                count: 0,
            }
        }

        /// Adds the lower halves of the lanes that were found.
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn add(&mut self, found: u8, from_r: __m512i, from_s: __m512i) {
            let payload_bits = _mm512_set1_epi64(u32::MAX.into());
            let from_r = _mm512_maskz_and_epi64(found, from_r, payload_bits);
            let from_s = _mm512_maskz_and_epi64(found, from_s, payload_bits);
            self.r_sum = _mm512_add_epi64(self.r_sum, from_r);
            self.s_sum = _mm512_add_epi64(self.s_sum, from_s);
            self.count += u64::from(found.count_ones());
        }

        #[inline]
        #[target_feature(enable = "avx512f")]
        fn totals(self) -> Totals {
            Totals {
                count: self.count,
                r_payload_sum: _mm512_reduce_add_epi64(self.r_sum).cast_unsigned(),
                s_payload_sum: _mm512_reduce_add_epi64(self.s_sum).cast_unsigned(),
            }
        }
    }

    /// The places of eight keys, and which of them are less than `len`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn places(tuples: __m512i, extent: (u64, u32), len: usize) -> (__m512i, u8) {
        let (low, shift) = extent;
        let shift = _mm_cvtsi32_si128(32 + shift.cast_signed());
        let keys = _mm512_srl_epi64(tuples, shift);
        let places = _mm512_sub_epi64(keys, _mm512_set1_epi64(low.cast_signed()));
        let len = _mm512_set1_epi64(len.cast_signed() as i64);
        (places, _mm512_cmplt_epu64_mask(places, len))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load<T: Tuple>(tuples: &[T; 8]) -> __m512i {
        assert_eq!(T::BYTES, 8);
        // SAFETY: eight tuples of 8 bytes; the load needs no alignment.
        unsafe { _mm512_loadu_si512(tuples.as_ptr().cast()) }
    }

    /// Looks up eight tuples in parallel as long as there are eight, and returns how many it has
    /// looked up.
    #[target_feature(enable = "avx512f")]
    pub(super) fn probe_direct<T: Tuple, K: Sink<T>>(
        table: &DirectTable<'_, T>,
        tuples: &[T],
        sink: &mut K,
    ) -> usize {
        assert!(T::BYTES == 8 && K::TOTALS_ONLY);
        let slots: *const i64 = table.slots.as_ptr().cast();
        let extent = (table.extent.low(), table.extent.shift());
        let key_bits = _mm512_set1_epi64((u64::from(u32::MAX) << 32).cast_signed());
        let mut all = Found::nothing();
        let (vectors, _) = tuples.as_chunks::<8>();
        for vector in vectors {
            let from_s = load(vector);
            let (places, inside) = places(from_s, extent, table.slots.len());
            let none = _mm512_setzero_si512();
            // SAFETY: a lane is read only if its place is less than the number of slots, which have
            // 8 bytes each.
            let from_r = unsafe { _mm512_mask_i64gather_epi64::<8>(none, inside, places, slots) };
            let differing = _mm512_xor_si512(from_r, from_s);
            let found = _mm512_mask_testn_epi64_mask(inside, differing, key_bits);
            all.add(found, from_r, from_s);
        }
        sink.add(all.totals());
        8 * vectors.len()
    }

    /// Looks up eight tuples in parallel as long as there are eight, and returns how many it has
    /// looked up.
    #[target_feature(enable = "avx512f")]
    pub(super) fn probe_array<T: Tuple, K: Sink<T>>(
        table: &ArrayTable<'_, T>,
        tuples: &[T],
        sink: &mut K,
    ) -> usize {
        assert!(T::BYTES == 8 && K::TOTALS_ONLY && table.is_gapless());
        let payloads: *const i32 = table.payloads().as_ptr().cast();
        let mut all = Found::nothing();
        let (vectors, _) = tuples.as_chunks::<8>();
        for vector in vectors {
            let from_s = load(vector);
            let (places, inside) = places(from_s, table.extent(), table.payloads().len());
            let none = _mm256_setzero_si256();
            // SAFETY: a lane is read only if its place is less than the number of payloads, which
            // have 4 bytes each.
            let found = unsafe { _mm512_mask_i64gather_epi32::<4>(none, inside, places, payloads) };
            all.add(inside, _mm512_cvtepu32_epi64(found), from_s);
        }
        sink.add(all.totals());
        8 * vectors.len()
    }

    /// A key in the upper half of a lane.
    #[inline(always)]
    fn upper<T: Tuple>(key: T::Word) -> i64 {
        let key: u64 = key.into();
        (key << 32).cast_signed()
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn probe_avx2<T: Tuple, K: Sink<T>, const PARTS: bool>(
        table: &LinearTable<'_, T, PARTS>,
        tuples: &[T],
        sink: &mut K,
    ) {
        probe_with::<T, K, 4, PARTS>(table, tuples, sink, |slots: *const T, key, free| {
            // SAFETY: `probe_with` passes the start of four slots of 8 bytes.
            let slots = unsafe { _mm256_loadu_si256(slots.cast::<__m256i>()) };
            let key = _mm256_set1_epi64x(upper::<T>(key));
            let free = _mm256_set1_epi64x(upper::<T>(free));
            // The sign bit of a lane is that of its upper half, which is where the keys are
            // compared.
            let equal = _mm256_castsi256_pd(_mm256_cmpeq_epi32(slots, key));
            let free = _mm256_castsi256_pd(_mm256_cmpeq_epi32(slots, free));
            let masks = (_mm256_movemask_pd(equal), _mm256_movemask_pd(free));
            (masks.0.cast_unsigned(), masks.1.cast_unsigned())
        });
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn probe_avx512<T: Tuple, K: Sink<T>, const PARTS: bool>(
        table: &LinearTable<'_, T, PARTS>,
        tuples: &[T],
        sink: &mut K,
    ) {
        probe_with::<T, K, 8, PARTS>(table, tuples, sink, |slots: *const T, key, free| {
            // SAFETY: `probe_with` passes the start of eight slots of 8 bytes.
            let slots = unsafe { _mm512_loadu_si512(slots.cast()) };
            let key = _mm512_set1_epi64(upper::<T>(key));
            let free = _mm512_set1_epi64(upper::<T>(free));
            let equal = _mm512_cmpeq_epi32_mask(slots, key);
            let free = _mm512_cmpeq_epi32_mask(slots, free);
            (upper_halves(equal), upper_halves(free))
        });
    }

    /// Of two bits a lane, the one of its upper half.
    #[inline(always)]
    fn upper_halves(mask: u16) -> u32 {
        let mut mask = u32::from(mask >> 1) & 0x5555;
        mask = (mask | mask >> 1) & 0x3333;
        mask = (mask | mask >> 2) & 0x0f0f;
        (mask | mask >> 4) & 0x00ff
    }

    #[test]
    fn upper_halves_are_gathered() {
        for lane in 0..8 {
            assert_eq!(upper_halves(0b10 << (2 * lane)), 1 << lane);
            assert_eq!(upper_halves(0b01 << (2 * lane)), 0);
        }
        assert_eq!(upper_halves(u16::MAX), 0xff);
    }

    /// The loop; `compare` returns which of `LANES` slots have the key, and which are free.
    #[inline(always)]
    fn probe_with<T: Tuple, K: Sink<T>, const LANES: usize, const PARTS: bool>(
        table: &LinearTable<'_, T, PARTS>,
        tuples: &[T],
        sink: &mut K,
        compare: impl Fn(*const T, T::Word, T::Word) -> (u32, u32),
    ) {
        assert_eq!(T::BYTES, 8);
        let distinct = table.keys_are_distinct();
        for &tuple in tuples {
            let (start, free_key) = table.start(tuple.key());
            // Groups of slots do not cross a line; the first one begins before the start, where no
            // equal key can be.
            let mut at = start & !(LANES - 1);
            let mut behind = u32::MAX << (start - at);
            loop {
                let slots = &table.slots[at..at + LANES];
                let (equal, free) = compare(slots.as_ptr(), tuple.key(), free_key);
                let free = free & behind;
                if distinct && equal != 0 {
                    let slot = slots[equal.trailing_zeros() as usize % LANES];
                    sink.emit(slot.payload(), tuple.payload());
                    break;
                }
                // Equal keys have one start and no gap between them, so none comes after a free
                // slot.
                let mut equal = equal;
                while equal != 0 {
                    let slot = slots[equal.trailing_zeros() as usize % LANES];
                    sink.emit(slot.payload(), tuple.payload());
                    equal &= equal - 1;
                }
                if free != 0 {
                    break;
                }
                behind = u32::MAX;
                at += LANES;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Totals;
    use crate::simd::kernels;
    use crate::table::{Extent, Filled, KeyShape, fill_linear, slot_bits};
    use crate::tuple::{Tuple8, Tuple16, Word};

    fn totals_of<T: Tuple>(keys: &[u64], probes: &[u64]) -> Vec<Totals> {
        let tuple = |(row, key): (usize, &u64)| {
            T::new(T::Word::truncate(*key), T::Word::truncate(row as u64 + 1))
        };
        let tuples: Vec<T> = keys.iter().enumerate().map(tuple).collect();
        let probes: Vec<T> = probes.iter().enumerate().map(tuple).collect();
        let bits = slot_bits(keys.len());
        let shape = KeyShape {
            free_key: T::Word::truncate(u64::MAX),
            skipped_bits: 0,
            dense: None,
        };
        let mut slots = vec![T::default(); crate::table::slots_len(bits)];
        let found = fill_linear(&mut slots, bits, shape, std::iter::once(&tuples[..])).unwrap();
        let table = LinearTable::new(&slots, bits, shape, found);
        let run = |isa| {
            let mut totals = Totals::default();
            probe_linear(isa, &table, &probes, &mut totals);
            totals
        };
        kernels().into_iter().map(run).collect()
    }

    #[test]
    fn all_kernels_find_the_same() {
        let keys: Vec<u64> = (0..500).map(|at| at % 370 * 7).collect();
        let probes: Vec<u64> = (0..3000).collect();
        let partners = probes
            .iter()
            .map(|probe| keys.iter().filter(|key| *key == probe).count());
        let count = partners.sum::<usize>() as u64;
        for found in [
            totals_of::<Tuple8>(&keys, &probes),
            totals_of::<Tuple16>(&keys, &probes),
        ] {
            assert!(found.iter().all(|totals| *totals == found[0]), "{found:?}");
            assert_eq!(found[0].count, count);
        }
    }

    #[test]
    fn all_kernels_find_what_a_slot_of_its_own_holds() {
        // Every third place of ten to a thousand is taken; keys share their lower two bits, and
        // some lookups are of strangers.
        let tuple = |key: u32| Tuple8::new(key << 2 | 1, key);
        let tuples: Vec<_> = (10..=1000).step_by(3).map(tuple).collect();
        let probes: Vec<_> = (0..1100).map(tuple).collect();
        let extent = Extent::between(10 << 2 | 1, 1000 << 2 | 1, 2);
        let mut slots = vec![Tuple8::default(); extent.len()];
        let filled = DirectTable::fill(&mut slots, extent, 0, tuples.chunks(7));
        assert_eq!(filled, Filled::Distinct);
        let table = DirectTable::new(&slots, extent);
        let sum: u64 = tuples.iter().map(|tuple| u64::from(tuple.payload())).sum();
        for isa in kernels() {
            for probes in [&probes[..], &probes[..1005], &probes[..0]] {
                let mut found = Totals::default();
                probe_direct(isa, &table, probes, &mut found);
                let partners = if probes.is_empty() {
                    0
                } else {
                    tuples.len() as u64
                };
                assert_eq!(found.count, partners, "{isa:?}");
                assert_eq!(found.r_payload_sum, sum * u64::from(partners > 0));
                assert_eq!(found.s_payload_sum, found.r_payload_sum);
            }
        }
        let twice: Vec<_> = [12, 13, 12].map(tuple).into();
        let filled = DirectTable::fill(&mut slots, extent, 0, twice.chunks(7));
        assert_eq!(filled, Filled::Repeated);
        let outside = [tuple(9)];
        let filled = DirectTable::fill(&mut slots, extent, 0, outside.chunks(7));
        assert_eq!(filled, Filled::Outside);
    }

    #[test]
    fn distinct_keys_are_found_once() {
        let keys: Vec<u64> = (0..1000).map(|at| at * 3).collect();
        for found in [
            totals_of::<Tuple8>(&keys, &keys),
            totals_of::<Tuple16>(&keys, &keys),
        ] {
            assert!(found.iter().all(|totals| totals.count == 1000), "{found:?}");
            assert!(found.iter().all(|totals| totals.r_payload_sum == 500_500));
        }
    }
}
