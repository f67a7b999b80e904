//! Seeded random numbers that are the same for ever.
//!
//! Result rows name their seed, and the seed must give the same transactions in every later
//! version, on every machine. So the generator is written out here (`SplitMix64`) and not taken
//! from a library that may improve it. It is neither secret nor perfect; it is fast, uniform, and
//! has no bad seeds.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed. Streams of different seeds have nothing to do with each other.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// An even choice from `0..bound`; `bound` must not be 0. The bias of the multiplication is
    /// below 2^-32 for bounds of 32 bits.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// An even choice from `low..=high`.
pub fn between(random: &mut Random, low: u32, high: u32) -> u32 {
    low + random.below(u64::from(high - low) + 1) as u32
}

/// True in `percent` of a hundred cases.
pub fn chance(random: &mut Random, percent: u64) -> bool {
    random.below(100) < percent
}

/// The uneven choice `NURand` of the TPC and TATP benchmarks from `low..=high`.
pub fn nurand(random: &mut Random, a: u32, c: u32, low: u32, high: u32) -> u32 {
    let mixed = u64::from(between(random, 0, a) | between(random, low, high)) + u64::from(c);
    (mixed % (u64::from(high - low) + 1)) as u32 + low
}

/// Puts a slice into an even random order.
pub fn shuffle<T>(random: &mut Random, slice: &mut [T]) {
    for end in (1..slice.len()).rev() {
        slice.swap(end, random.below(end as u64 + 1) as usize);
    }
}

/// Spreads the bits of a number over all 64, reversibly.
pub fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ number >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ number >> 31
}

/// Puts ranks in another order in which neighbours lie far apart: hot rows are then no neighbours
/// in an index.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    count: u64,
    /// Coprime with `count`, so that steps of it visit every place once.
    stride: u64,
}

impl Spread {
    /// The order of `count` places.
    pub fn new(count: u64) -> Self {
        // About the golden section.
        let mut stride = (count * 618_034 / 1_000_000) | 1;
        while gcd(stride, count.max(1)) != 1 {
            stride += 2;
        }
        Self { count, stride }
    }

    /// The place of a rank below the count, which must not be 0.
    pub fn place(self, rank: u64) -> u64 {
        (u128::from(rank) * u128::from(self.stride) % u128::from(self.count)) as u64
    }
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_never_changes() {
        let mut random = Random::new(42);
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        let mut again = Random::new(42);
        assert!(first.iter().all(|number| *number == again.next_u64()));
        assert_eq!(mix(1), 0x5692_161D_100B_05E5);
    }

    #[test]
    fn choices_stay_below_their_bound() {
        let mut random = Random::new(7);
        let mut seen = [0_u32; 10];
        for _ in 0..10_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(
            seen.iter().all(|count| (800..1200).contains(count)),
            "{seen:?}"
        );
    }

    #[test]
    fn nurand_stays_in_range_and_is_uneven() {
        let mut random = Random::new(3);
        for (a, low, high) in [
            (255, 0, 999),
            (1023, 1, 3000),
            (8191, 1, 100_000),
            (8191, 1, 20),
        ] {
            let mut seen = vec![0_u32; high as usize + 1];
            for _ in 0..200_000 {
                let chosen = nurand(&mut random, a, 77, low, high);
                assert!((low..=high).contains(&chosen), "{chosen} of {low}..={high}");
                seen[chosen as usize] += 1;
            }
            let most = seen.iter().max().unwrap();
            let mean = 200_000 / (high - low + 1);
            assert!(high < 100 || *most > 2 * mean, "{most} beside {mean}");
        }
    }

    #[test]
    fn a_shuffle_keeps_everything() {
        let mut numbers: Vec<u32> = (0..100).collect();
        shuffle(&mut Random::new(1), &mut numbers);
        assert_ne!(numbers, (0..100).collect::<Vec<_>>());
        numbers.sort_unstable();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
    }
}
