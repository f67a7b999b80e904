//! Maps whose keys are places of pages and blocks, which the engine chooses itself.
//!
//! Nobody outside can choose such keys, so the hash need not withstand an attacker: one
//! multiplication spreads them, and an opening that fills a map with a hundred thousand pages takes
//! a fraction of the time.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Spreads numbers by one multiplication.
#[derive(Default)]
pub struct PlaceHasher(u64);

impl Hasher for PlaceHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }
    #[inline]
    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// A map from places.
pub type PlaceMap<K, V> = HashMap<K, V, BuildHasherDefault<PlaceHasher>>;
