//! Lookups in a table with linear probing: the slots from the hash on, up to the key or to a free slot.
//!
//! The plain loop looks at one slot at a time. The vector loops compare four or eight slots of 8-byte tuples at once, in groups that do not cross a line. With four slots
//! this pays where keys repeat and lookups are long; for distinct keys the plain loop was a quarter faster (`indelible bench join`, 16 M tuples a side, sparse keys, AVX2), so it
//! is used there. Tables end with enough free slots for any of them.

use super::Isa;
#[cfg(target_arch = "x86_64")]
use super::Level;
use crate::output::Sink;
use crate::table::LinearTable;
use crate::tuple::Tuple;

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
    //! Four or eight slots at once. A slot is one 64-bit lane with the key in its upper half.

    use crate::output::Sink;
    use crate::table::LinearTable;
    use crate::tuple::Tuple;
    use std::arch::x86_64::{
        __m256i, _mm256_castsi256_pd, _mm256_cmpeq_epi32, _mm256_loadu_si256, _mm256_movemask_pd,
        _mm256_set1_epi64x, _mm512_cmpeq_epi32_mask, _mm512_loadu_si512, _mm512_set1_epi64,
    };

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
            // The sign bit of a lane is that of its upper half, which is where the keys are compared.
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

    /// The loop; `compare` tells which of `LANES` slots have the key, and which are free.
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
            // Groups of slots do not cross a line; the first one begins before the start, where no equal key can be.
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
                // Equal keys have one start and no gap between them, so none stands behind a free slot.
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
    use crate::table::{KeyShape, fill_linear, slot_bits};
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
