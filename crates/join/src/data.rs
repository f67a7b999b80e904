//! Relations as in the paper: R with unique keys, S with foreign keys to it; seeded, and the same
//! on every machine.
//!
//! | setting | values |
//! |---|---|
//! | keys | dense `1..=n`, or spread over half of the key's range |
//! | skew of S | every key of R equally often, or Zipf with an exponent up to 1.75 and more |
//! | match rate | the part of S that has partners in R |
//! | repeats | how often each key stands in R |
//! | hot | the part of R that has one key, which is the most frequent one of a skewed S too |
//!
//! Tuple `i` is a function of the seed and of `i`, so threads fill shares without waiting. The
//! payload of R is a function of its key, which makes the totals of the join known without a join.

use crate::output::Totals;
use crate::tuple::{Tuple, Word};
use crate::workers;

/// Where the keys of R lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyRange {
    /// The numbers from 1 on.
    #[default]
    Dense,
    /// Spread over 31 bits of a 4-byte key, 63 bits of an 8-byte key.
    Sparse,
}

/// Beyond this exponent all tuples of S have one key.
const ZIPF_MAX: f64 = 8.0;

/// Two relations to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Tuples of R, at most 2^30.
    pub r_tuples: usize,
    /// Tuples of S, at most 2^31.
    pub s_tuples: usize,
    /// Where the keys lie.
    pub keys: KeyRange,
    /// Exponent of the Zipf distribution of S over the keys of R; 0 is uniform, and larger ones
    /// count as 8.
    pub zipf: f64,
    /// Part of S that has partners, from 0 to 1.
    pub match_rate: f64,
    /// Repeats of each key in R; 1 or more.
    pub repeats: usize,
    /// Part of R, from 0 to 1, that has the first key on top of its repeats; where S is skewed,
    /// that key is also its most frequent one.
    pub hot: f64,
    /// The seed of all random choices.
    pub seed: u64,
}

impl Workload {
    /// |R| = |S| x 1, dense and uniform: workload B of the paper has 128,000,000 tuples a side.
    pub fn uniform(r_tuples: usize, s_tuples: usize) -> Self {
        Self {
            r_tuples,
            s_tuples,
            keys: KeyRange::Dense,
            zipf: 0.0,
            match_rate: 1.0,
            repeats: 1,
            hot: 0.0,
            seed: 42,
        }
    }

    /// Workload A of the paper at `scale` times its size: |R| = 1,600,000,000 x `scale`, |S| =
    /// `ratio` x |R|.
    pub fn a(scale: f64, ratio: usize) -> Self {
        let r_tuples = scaled(1_600_000_000, scale);
        Self::uniform(r_tuples, r_tuples.saturating_mul(ratio))
    }

    /// Workload B of the paper at `scale` times its size: |R| = |S| = 128,000,000 x `scale`.
    pub fn b(scale: f64) -> Self {
        let tuples = scaled(128_000_000, scale);
        Self::uniform(tuples, tuples)
    }

    /// R, S, and the totals of their join, made by `threads` threads.
    pub fn generate<T: Tuple>(&self, threads: usize) -> Relations<T> {
        let threads = threads.max(1);
        let repeats = self.repeats.max(1);
        let hot = hot_tuples(self.r_tuples, self.hot);
        let others = self.r_tuples - hot;
        let distinct = others.div_ceil(repeats).max(1) as u64;
        let order = Permutation::new(self.r_tuples as u64, self.seed);
        let mut r = vec![T::default(); self.r_tuples];
        fill(&mut r, threads, |row, _| {
            let place = order.at(row as u64);
            let rank = place.saturating_sub(hot as u64) / repeats as u64;
            let key = self.key::<T>(rank);
            T::new(key, payload_of(key))
        });
        let order = Permutation::new(self.s_tuples as u64, self.seed ^ 0x5353);
        let zipf = (self.zipf > 0.0).then(|| Zipf::new(distinct, self.zipf.min(ZIPF_MAX)));
        let ranks = Permutation::new(distinct, self.seed ^ 0x7a69);
        let last_repeats = others as u64 - (distinct - 1).min(others as u64) * repeats as u64;
        let mut s = vec![T::default(); self.s_tuples];
        let totals = fill(&mut s, threads, |row, totals| {
            let mut random = Random::new(self.seed ^ 0x7331, row as u64);
            let payload = T::Word::truncate(row as u64);
            let has_partners = self.match_rate >= 1.0 || random.unit() < self.match_rate;
            let rank = match &zipf {
                Some(zipf) => self.skewed_rank(zipf.draw(&mut random), ranks),
                None => order.at(row as u64) % distinct,
            };
            if !has_partners || self.r_tuples == 0 {
                return T::new(self.key::<T>(distinct + rank), payload);
            }
            let key = self.key::<T>(rank);
            let own = if rank + 1 == distinct {
                last_repeats
            } else {
                repeats as u64
            };
            let partners = own + if rank == 0 { hot as u64 } else { 0 };
            let r_payload: u64 = payload_of(key).into();
            totals.add(Totals {
                count: partners,
                r_payload_sum: partners.wrapping_mul(r_payload),
                s_payload_sum: partners.wrapping_mul(payload.into()),
            });
            T::new(key, payload)
        });
        Relations { r, s, totals }
    }

    /// The rank in R of a rank by frequency in S: any, but the most frequent one is that of a hot
    /// key.
    fn skewed_rank(&self, drawn: u64, ranks: Permutation) -> u64 {
        let rank = ranks.at(drawn);
        match (self.hot > 0.0, drawn, rank) {
            (true, 0, _) => 0,
            // Changes places with it.
            (true, _, 0) => ranks.at(0),
            _ => rank,
        }
    }

    /// The key of a rank; ranks from the number of distinct keys on are not in R.
    fn key<T: Tuple>(&self, rank: u64) -> T::Word {
        let number = rank + 1;
        T::Word::truncate(match (self.keys, T::BYTES) {
            (KeyRange::Dense, _) => number,
            // A product with an odd number permutes the numbers of this many bits.
            (KeyRange::Sparse, 8) => number.wrapping_mul(0x2545_F491) & (u64::MAX >> 33),
            (KeyRange::Sparse, _) => number.wrapping_mul(0x2545_F491_4F6C_DD1D) & (u64::MAX >> 1),
        })
    }
}

/// Tuples of R that have the hot key on top of its repeats; one other is left, so that the last key
/// is there.
#[expect(clippy::cast_sign_loss, reason = "a part is not negative")]
fn hot_tuples(r_tuples: usize, hot: f64) -> usize {
    let tuples = (r_tuples as f64 * hot.clamp(0.0, 1.0)) as usize;
    tuples.min(r_tuples.saturating_sub(1))
}

/// `scale` times a number of tuples.
#[expect(clippy::cast_sign_loss, reason = "a negative number of tuples is none")]
fn scaled(tuples: u32, scale: f64) -> usize {
    (f64::from(tuples) * scale) as usize
}

/// The relations of a [`Workload`].
#[derive(Clone, Debug)]
pub struct Relations<T> {
    /// The side with unique keys, in random order.
    pub r: Vec<T>,
    /// The side with foreign keys, in random order.
    pub s: Vec<T>,
    /// The expected totals of a join of the two.
    pub totals: Totals,
}

/// Fills a relation, each tuple by its row.
fn fill<T: Tuple>(
    tuples: &mut [T],
    threads: usize,
    tuple: impl Fn(usize, &mut Totals) -> T + Sync,
) -> Totals {
    let share = tuples.len().div_ceil(threads).max(1);
    let shares = tuples.chunks_mut(share).collect();
    let found = workers::run(shares, |thread, tuples: &mut [T]| {
        let mut totals = Totals::default();
        for (at, slot) in tuples.iter_mut().enumerate() {
            *slot = tuple(thread * share + at, &mut totals);
        }
        Ok(totals)
    });
    let mut totals = Totals::default();
    for part in found.into_iter().flatten() {
        totals.add(part);
    }
    totals
}

/// A payload of R that follows from the key.
fn payload_of<W: Word>(key: W) -> W {
    W::truncate(mix(key.into()))
}

/// Spreads a number over 64 bits (the finisher of `SplitMix64`).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ value >> 31
}

/// Random numbers of one row.
struct Random(u64);

impl Random {
    fn new(seed: u64, row: u64) -> Self {
        Self(mix(seed) ^ mix(row).rotate_left(17))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number from 0 to 1, without 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A random order of `0..len` that can be asked for any place: four rounds of a Feistel network
/// over the next even number of bits, repeated until the result is below `len`.
#[derive(Clone, Copy, Debug)]
struct Permutation {
    len: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    fn new(len: u64, seed: u64) -> Self {
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        Self {
            len,
            half_bits: bits.div_ceil(2).max(1),
            seed,
        }
    }

    fn at(&self, place: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let mut value = place;
        loop {
            let (mut left, mut right) = (value >> self.half_bits, value & mask);
            for round in 0..4 {
                let mixed = mix(right ^ self.seed.rotate_left(round * 16)) & mask;
                (left, right) = (right, left ^ mixed);
            }
            value = left << self.half_bits | right;
            if value < self.len {
                return value;
            }
        }
    }
}

/// Ranks from 0 on, rank k with probability proportional to (k + 1)^-exponent, by rejection from
/// the area under the curve (W. Hörmann and G. Derflinger, "Rejection-inversion to generate
/// variates from monotone discrete distributions", 1996).
#[derive(Clone, Copy, Debug)]
struct Zipf {
    ranks: f64,
    exponent: f64,
    area_first: f64,
    area_last: f64,
    shortcut: f64,
}

impl Zipf {
    fn new(ranks: u64, exponent: f64) -> Self {
        let mut zipf = Self {
            ranks: ranks as f64,
            exponent,
            area_first: 0.0,
            area_last: 0.0,
            shortcut: 0.0,
        };
        zipf.area_first = zipf.area(1.5) - 1.0;
        zipf.area_last = zipf.area(zipf.ranks + 0.5);
        zipf.shortcut = 2.0 - zipf.inverse(zipf.area(2.5) - zipf.height(2.0));
        zipf
    }

    /// The curve.
    fn height(&self, x: f64) -> f64 {
        x.powf(-self.exponent)
    }

    /// An antiderivative of the curve.
    fn area(&self, x: f64) -> f64 {
        let rest = 1.0 - self.exponent;
        let log = x.ln();
        if rest.abs() < 1e-9 {
            log
        } else {
            (rest * log).exp_m1() / rest
        }
    }

    /// The inverse of `area`.
    fn inverse(&self, area: f64) -> f64 {
        let rest = 1.0 - self.exponent;
        if rest.abs() < 1e-9 {
            area.exp()
        } else {
            ((area * rest).max(-1.0).ln_1p() / rest).exp()
        }
    }

    #[expect(clippy::cast_sign_loss, reason = "ranks begin at 1")]
    fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.area_last + random.unit() * (self.area_first - self.area_last);
            let x = self.inverse(area);
            let rank = x.round().clamp(1.0, self.ranks);
            if rank - x <= self.shortcut || area >= self.area(rank + 0.5) - self.height(rank) {
                return rank as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuple::{Tuple8, Tuple16};
    use std::collections::{BTreeSet, HashMap};

    #[test]
    fn a_permutation_meets_every_number_once() {
        for len in [1, 2, 3, 17, 1000] {
            let order = Permutation::new(len, 9);
            let met: BTreeSet<u64> = (0..len).map(|place| order.at(place)).collect();
            assert_eq!(met.len() as u64, len);
        }
    }

    #[test]
    fn keys_of_r_are_unique_and_matches_are_known() {
        for keys in [KeyRange::Dense, KeyRange::Sparse] {
            let workload = Workload {
                keys,
                match_rate: 0.3,
                ..Workload::uniform(5000, 20_000)
            };
            let made = workload.generate::<Tuple8>(3);
            let keys: HashMap<u32, u32> = made
                .r
                .iter()
                .map(|tuple| (tuple.key(), tuple.payload()))
                .collect();
            assert_eq!(keys.len(), 5000);
            let partners = made.s.iter().filter_map(|tuple| keys.get(&tuple.key()));
            let sum = partners
                .clone()
                .map(|payload| u64::from(*payload))
                .sum::<u64>();
            assert_eq!(partners.count() as u64, made.totals.count);
            assert_eq!(sum, made.totals.r_payload_sum);
            assert!(
                (5500..6500).contains(&made.totals.count),
                "{}",
                made.totals.count
            );
        }
    }

    #[test]
    fn a_hot_key_makes_its_part_of_r_and_its_matches_are_known() {
        let workload = Workload {
            hot: 0.5,
            zipf: 1.25,
            repeats: 3,
            ..Workload::uniform(5000, 8000)
        };
        let made = workload.generate::<Tuple8>(2);
        let of_key = |tuples: &[Tuple8], key| tuples.iter().filter(|t| t.key() == key).count();
        assert_eq!(of_key(&made.r, 1), 2503);
        let most = (1..834).max_by_key(|key| of_key(&made.s, *key));
        assert_eq!(most, Some(1));
        let mut partners: HashMap<u32, (u64, u64)> = HashMap::new();
        for tuple in &made.r {
            let found = partners.entry(tuple.key()).or_default();
            *found = (found.0 + 1, found.1 + u64::from(tuple.payload()));
        }
        let mut totals = Totals::default();
        for tuple in &made.s {
            let (count, r_payload_sum) = partners[&tuple.key()];
            totals.add(Totals {
                count,
                r_payload_sum,
                s_payload_sum: count * u64::from(tuple.payload()),
            });
        }
        assert_eq!(totals, made.totals);
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let workload = Workload {
            zipf: 1.25,
            repeats: 3,
            ..Workload::uniform(1000, 3000)
        };
        let (one, three) = (
            workload.generate::<Tuple16>(1),
            workload.generate::<Tuple16>(3),
        );
        assert_eq!((one.r, one.s, one.totals), (three.r, three.s, three.totals));
    }

    #[test]
    fn zipf_draws_follow_their_law() {
        for exponent in [0.5, 1.0, 1.25, 1.75] {
            let zipf = Zipf::new(1000, exponent);
            let draws = 100_000_u64;
            let mut counts = vec![0_u64; 1000];
            for row in 0..draws {
                counts[zipf.draw(&mut Random::new(5, row)) as usize] += 1;
            }
            let all: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for rank in [1_u32, 2, 3, 10] {
                let expected = draws as f64 * f64::from(rank).powf(-exponent) / all;
                let found = counts[rank as usize - 1] as f64;
                let spread = 5.0 * expected.sqrt();
                assert!(
                    (found - expected).abs() < spread,
                    "{exponent} {rank}: {found} of {expected}"
                );
            }
        }
    }
}
