//! Seeded numbers for tests: the same seed gives the same test on every machine.
//!
//! `SplitMix64` of Steele, Lea and Flood, a counter with a mixing function on top. Two generators
//! with different seeds are unrelated for the purposes of a test.

use pmem::device::simulated::mix;

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Self {
        Self { state: mix(seed) }
    }

    /// The next number, any of 64 bits.
    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// The next number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.word() % end
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
