//! Hashes of rows, for tables in memory and for dividing rows among files.
//!
//! A step folds the product of two words; PostgreSQL's hashes have no secret key either. Rows are
//! divided anew by other bits at each level, which is a part of the hash's start.

use sql_values::types::Datum;
use std::hash::{BuildHasher, Hash, Hasher};

/// A multiplier with its bits well mixed: the fraction of the golden ratio.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Makes hashers for tables of rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuildRowHasher;

impl BuildHasher for BuildRowHasher {
    type Hasher = RowHasher;

    fn build_hasher(&self) -> RowHasher {
        RowHasher(MULTIPLIER)
    }
}

/// The state of a hash.
#[derive(Clone, Copy, Debug)]
pub struct RowHasher(u64);

impl RowHasher {
    fn fold(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(MULTIPLIER);
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for RowHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.fold(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.fold(u64::from_le_bytes(last) ^ (bytes.len() as u64).rotate_left(32));
    }

    fn write_u8(&mut self, value: u8) {
        self.fold(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.fold(value);
    }

    fn write_i64(&mut self, value: i64) {
        self.fold(value as u64);
    }

    fn write_i32(&mut self, value: i32) {
        self.fold(value as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.fold(value as u64);
    }

    fn finish(&self) -> u64 {
        // Tables look at the low bits and at the highest ones.
        self.0 ^ self.0.rotate_left(29)
    }
}

/// The hash of the values of a key, other at each level.
pub fn hash_of(key: &[Datum], level: u32) -> u64 {
    let mut hasher = RowHasher(MULTIPLIER.rotate_left(level * 7));
    for value in key {
        value.hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_spread_evenly_at_each_level() {
        for level in 0..4 {
            let mut counts = [0_u32; 16];
            for number in 0..16_000 {
                counts[(hash_of(&[Datum::Int4(number)], level) % 16) as usize] += 1;
            }
            assert!(
                counts.iter().all(|count| (800..1200).contains(count)),
                "{counts:?}"
            );
        }
        let texts: HashSet<u64> = (0..10_000)
            .map(|number| hash_of(&[Datum::text(format!("key {number}"))], 0))
            .collect();
        assert_eq!(texts.len(), 10_000);
    }

    #[test]
    fn levels_divide_in_other_ways() {
        let together = |level| {
            let one = |number| hash_of(&[Datum::Int8(number)], level) % 16 == 3;
            (0..10_000)
                .filter(|number| one(*number))
                .collect::<HashSet<i64>>()
        };
        let (first, second) = (together(0), together(1));
        assert!(first.intersection(&second).count() < first.len() / 4);
    }
}
