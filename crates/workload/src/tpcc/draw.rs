//! Random choices of TPC-C: `NURand` (clause 2.1.6), last names (clause 4.3.2.3), and text.
//!
//! Text is a window into a pool of random letters, so that it costs nothing to make. The constants
//! of `NURand` come from the seed. The one for last names differs between loading and running by an
//! amount that the specification prescribes, so that the most requested names are not the most
//! frequent ones.

use crate::random::{Random, between, nurand};
use std::ops::RangeInclusive;

/// Different last names.
pub(super) const NAMES: u32 = 1000;
/// The constant A of `NURand` for last names.
const NAME_A: u32 = 255;
/// The constant A of `NURand` for customers.
const CUSTOMER_A: u32 = 1023;
/// The constant A of `NURand` for items.
const ITEM_A: u32 = 8191;
/// How far the constants for last names of loading and running lie apart.
const NAME_DELTA: RangeInclusive<u32> = 65..=119;
/// Distances within that range that are not allowed.
const NAME_DELTA_NOT: [u32; 2] = [96, 112];
/// Windows into the pool of letters.
const POOL_WINDOWS: u64 = 1 << 14;
/// Longest text.
const TEXT_BYTES_MAX: usize = 500;

/// The constants C of `NURand`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    /// For last names while loading, 0 to 255.
    pub name_load: u32,
    /// For last names while running, 0 to 255.
    pub name_run: u32,
    /// For customers, 0 to 1023.
    pub customer: u32,
    /// For items, 0 to 8191.
    pub item: u32,
}

impl Constants {
    /// The constants of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x7C_0257);
        let name_load = random.below(u64::from(NAME_A) + 1) as u32;
        let name_run = loop {
            let candidate = random.below(u64::from(NAME_A) + 1) as u32;
            if is_allowed_pair(name_load, candidate) {
                break candidate;
            }
        };
        Self {
            name_load,
            name_run,
            customer: random.below(u64::from(CUSTOMER_A) + 1) as u32,
            item: random.below(u64::from(ITEM_A) + 1) as u32,
        }
    }

    /// Number of a last name among the first `names`, for a row.
    pub(super) fn name_to_load(self, random: &mut Random, names: u32) -> u32 {
        nurand(random, NAME_A, self.name_load, 0, names - 1)
    }

    /// Number of a last name among the first `names`, for an input.
    pub(super) fn name_to_ask(self, random: &mut Random, names: u32) -> u32 {
        nurand(random, NAME_A, self.name_run, 0, names - 1)
    }

    /// A customer's number.
    pub(super) fn customer(self, random: &mut Random, customers: u32) -> u32 {
        nurand(random, CUSTOMER_A, self.customer, 1, customers)
    }

    /// An item's number.
    pub(super) fn item(self, random: &mut Random, items: u32) -> u32 {
        nurand(random, ITEM_A, self.item, 1, items)
    }
}

/// Whether clause 2.1.6.1 allows these constants for last names.
pub(super) fn is_allowed_pair(load: u32, run: u32) -> bool {
    let delta = load.abs_diff(run);
    NAME_DELTA.contains(&delta) && !NAME_DELTA_NOT.contains(&delta)
}

/// The last name with a number, 0 to 999: a syllable for each digit.
pub fn last_name(number: u32) -> String {
    const SYLLABLES: [&str; 10] = [
        "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING",
    ];
    [number / 100 % 10, number / 10 % 10, number % 10]
        .map(|digit| SYLLABLES[digit as usize])
        .concat()
}

/// Letters and digits from which texts are cut.
#[derive(Clone, Debug)]
pub(super) struct TextPool(String);

impl TextPool {
    pub(super) fn new(seed: u64) -> Self {
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let mut random = Random::new(seed ^ 0x7E_4701);
        let length = POOL_WINDOWS as usize + TEXT_BYTES_MAX;
        let letter = |_| char::from(ALPHABET[random.below(ALPHABET.len() as u64) as usize]);
        Self((0..length).map(letter).collect())
    }

    /// A text of `low` to `high` letters, at most 500.
    pub(super) fn text(&self, random: &mut Random, low: u32, high: u32) -> &str {
        let length = between(random, low, high) as usize;
        let start = random.below(POOL_WINDOWS) as usize;
        // All letters are one byte long, so any window is text.
        &self.0[start..start + length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_for_names_keep_their_distance() {
        for seed in 0..2000 {
            let constants = Constants::new(seed);
            let delta = constants.name_load.abs_diff(constants.name_run);
            assert!(
                (65..=119).contains(&delta) && delta != 96 && delta != 112,
                "{delta}"
            );
            assert!(constants.name_load <= 255 && constants.name_run <= 255);
            assert!(constants.customer <= 1023 && constants.item <= 8191);
        }
        assert!(!is_allowed_pair(0, 96) && !is_allowed_pair(112, 0) && is_allowed_pair(0, 65));
    }

    #[test]
    fn names_are_those_of_the_specification() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(0), "BARBARBAR");
        assert_eq!(last_name(999), "EINGEINGEING");
    }
}
