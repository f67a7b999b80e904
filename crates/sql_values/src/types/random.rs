//! The numbers of `random()` and `setseed()`.
//!
//! A xoroshiro128** generator, as in PostgreSQL 15, so that `setseed` gives the same numbers.

use std::hash::{BuildHasher, RandomState};

/// The state of a session's random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 2],
}

impl Default for Random {
    fn default() -> Self {
        Self::from_bits(RandomState::new().hash_one(0))
    }
}

impl Random {
    /// The state after `setseed(seed)`.
    pub fn with_seed(seed: f64) -> Self {
        // PostgreSQL scales the seed to 52 bits with a sign.
        Self::from_bits((((1_u64 << 52) - 1) as f64 * seed) as i64 as u64)
    }

    fn from_bits(mut bits: u64) -> Self {
        let mut split = || {
            bits = bits.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut mixed = bits;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^ (mixed >> 31)
        };
        let state = [split(), split()];
        Self { state }
    }

    /// The next 64 bits.
    pub fn next_bits(&mut self) -> u64 {
        let [first, second] = self.state;
        let mixed = second ^ first;
        let result = first.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        self.state = [
            first.rotate_left(24) ^ mixed ^ (mixed << 16),
            mixed.rotate_left(37),
        ];
        result
    }

    /// The next number, at least 0 and less than 1.
    pub fn next_float(&mut self) -> f64 {
        (self.next_bits() >> 12) as f64 / (1_u64 << 52) as f64
    }
}
