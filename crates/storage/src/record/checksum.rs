//! The linear checksum of tuples and nodes.
//!
//! The checksum of words `w(i)` is `SALT + sum of w(i) * weight(i)` modulo 2^64, with odd weights
//! that look random. It is linear, so a change of a few words changes it by the weighted sum of
//! their differences: an update need not read the rest of the tuple.
//!
//! Detection of errors: if exactly one word changes, by `d` modulo 2^64 with `d` not 0, then the
//! checksum changes by `d * weight(i)`; an odd number has an inverse modulo 2^64, so this is 0 only
//! if `d` is. Hence every change within one word is detected: each flipped bit and each burst of up
//! to 64 bits that does not cross a word. Changes of several words escape only if their weighted
//! differences cancel, which for damage that does not know the weights has a chance of about 2^-64;
//! two words changing places escape only if they are equal. The salt makes the checksum of all
//! zeros differ from 0, so a block that was never written, or was lost to zeros, is not a valid
//! tuple.

/// Added to every checksum. Any odd number that is not a weight would do.
pub const SALT: u64 = 0x9D6E_1F3A_57C4_82B7;

/// Positions whose weights come from a table: the first 8 KiB of a tuple or node.
const TABLE_WORDS: usize = 1024;

static WEIGHTS: [u64; TABLE_WORDS] = {
    let mut weights = [0; TABLE_WORDS];
    let mut position = 0;
    while position < TABLE_WORDS {
        weights[position] = computed_weight(position as u64);
        position += 1;
    }
    weights
};

/// The odd weight of the word at this position: the splitmix64 finalizer of the position.
const fn computed_weight(position: u64) -> u64 {
    let mut mixed = position.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ mixed >> 31) | 1
}

/// The odd weight of the word at this position.
#[inline]
pub fn weight(position: usize) -> u64 {
    match WEIGHTS.get(position) {
        Some(weight) => *weight,
        None => computed_weight(position as u64),
    }
}

/// The weighted sum of the words in `bytes`, whose first one has this position; without the salt.
/// `bytes` is a whole number of words: bytes after the last whole word do not count.
pub fn weighted_sum(bytes: &[u8], first_position: usize) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    debug_assert!(rest.is_empty(), "checksums are over whole words");
    let in_table = WEIGHTS.get(first_position..).unwrap_or(&[]);
    let (near, far) = words.split_at(words.len().min(in_table.len()));
    // Four sums, because one would make each addition wait for the multiplication before it.
    let (near_groups, near_rest) = near.as_chunks::<4>();
    let (weight_groups, _) = in_table[..near.len()].as_chunks::<4>();
    let mut sums = [0_u64; 4];
    for (group, weights) in near_groups.iter().zip(weight_groups) {
        for lane in 0..4 {
            let product = u64::from_le_bytes(group[lane]).wrapping_mul(weights[lane]);
            sums[lane] = sums[lane].wrapping_add(product);
        }
    }
    let rest_position = first_position + near_groups.len() * 4;
    let far_position = first_position + near.len();
    let slow = slow_sum(near_rest, rest_position).wrapping_add(slow_sum(far, far_position));
    sums.into_iter().fold(slow, u64::wrapping_add)
}

fn slow_sum(words: &[[u8; 8]], first_position: usize) -> u64 {
    words
        .iter()
        .zip(first_position..)
        .fold(0, |sum, (word, position)| {
            sum.wrapping_add(u64::from_le_bytes(*word).wrapping_mul(weight(position)))
        })
}

/// The checksum of the words in `bytes`, whose first one has this position.
pub fn checksum(bytes: &[u8], first_position: usize) -> u64 {
    SALT.wrapping_add(weighted_sum(bytes, first_position))
}

/// The checksum of a tuple, which is kept in its first word: over all other words.
pub fn tuple_checksum(tuple: &[u8]) -> u64 {
    checksum(tuple.get(8..).unwrap_or(&[]), 1)
}

/// Whether a tuple's first word is the checksum of the others.
pub fn tuple_is_intact(tuple: &[u8]) -> bool {
    tuple
        .first_chunk::<8>()
        .is_some_and(|word| u64::from_le_bytes(*word) == tuple_checksum(tuple))
}

/// The difference to add (wrapping) to a checksum when the whole words at `byte_offset` (a multiple
/// of 8) of a tuple or node change from `old` to `new`, which have the same length.
pub fn delta(old: &[u8], new: &[u8], byte_offset: usize) -> u64 {
    debug_assert!(
        old.len() == new.len() && byte_offset.is_multiple_of(8),
        "whole words change"
    );
    let position = byte_offset / 8;
    weighted_sum(new, position).wrapping_sub(weighted_sum(old, position))
}

/// The difference to add (wrapping) to a checksum when one word changes.
#[inline]
pub fn delta_word(old: u64, new: u64, position: usize) -> u64 {
    new.wrapping_sub(old).wrapping_mul(weight(position))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn zeros_are_not_intact() {
        for bytes in [8, 16, 1016] {
            assert!(!tuple_is_intact(&vec![0; bytes]));
        }
        assert!(!tuple_is_intact(&[]));
    }

    #[test]
    fn weights_are_odd_and_distinct() {
        let weights: std::collections::HashSet<u64> = (0..5000).map(weight).collect();
        assert_eq!(weights.len(), 5000);
        assert!(weights.iter().all(|weight| weight % 2 == 1));
    }

    proptest! {
        #[test]
        fn fast_sum_is_the_definition(words in 0_usize..70, first in prop_oneof![0_usize..4, 1000_usize..1040], seed: u64) {
            let bytes: Vec<u8> = (0..words as u64)
                .flat_map(|word| (word + 1).wrapping_mul(seed | 1).to_le_bytes())
                .collect();
            let (chunks, _) = bytes.as_chunks::<8>();
            prop_assert_eq!(weighted_sum(&bytes, first), slow_sum(chunks, first));
        }

        #[test]
        fn every_burst_in_a_word_is_seen(mut tuple in prop::collection::vec(any::<u64>(), 2..40), at: prop::sample::Index, burst in 1_u64..) {
            let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
            tuple[0] = tuple_checksum(&bytes(&tuple));
            prop_assert!(tuple_is_intact(&bytes(&tuple)));
            let position = at.index(tuple.len());
            tuple[position] ^= burst;
            prop_assert!(!tuple_is_intact(&bytes(&tuple)));
        }

        #[test]
        fn delta_follows_an_update(old in prop::collection::vec(any::<u64>(), 1..40), new in any::<[u64; 3]>(), at: prop::sample::Index) {
            let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
            let position = at.index(old.len());
            let count = new.len().min(old.len() - position);
            let mut changed = old.clone();
            changed[position..position + count].copy_from_slice(&new[..count]);
            let change = delta(&bytes(&old[position..position + count]), &bytes(&new[..count]), position * 8);
            prop_assert_eq!(checksum(&bytes(&old), 0).wrapping_add(change), checksum(&bytes(&changed), 0));
        }
    }
}
