//! Random numbers of the fuzzer: small, fast, and the same for ever.
//!
//! An input is a function of the target, the run's seed and the input's number, so these numbers
//! are part of what a replay line means. The generator is splitmix64; nothing here asks the
//! operating system.

/// A stream of random numbers.
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// The stream of one input.
    pub fn of_input(target: &str, seed: u64, number: u64) -> Self {
        let name = u64::from(crc32c::crc32c(target.as_bytes()));
        Self::new(mix(mix(seed) ^ name) ^ number)
    }

    /// 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`; 0 if there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.word() >> 11) as usize % bound.max(1)
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of these; `None` of none.
    pub fn pick<'t, T>(&mut self, things: &'t [T]) -> Option<&'t T> {
        things.get(self.below(things.len()))
    }
}

fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}
