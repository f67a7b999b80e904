//! The values of `c` and `pad`: groups of eleven random digits with dashes between them, as
//! sysbench fills its templates.
//!
//! A value follows from a number, so that lists and checks need not keep it. Of a value that was
//! read only a digest is kept.

use crate::random::{Random, mix};

/// Groups of a `c`: 119 characters.
pub(super) const C_GROUPS: usize = 10;
/// Groups of a `pad`: 59 characters.
pub(super) const PAD_GROUPS: usize = 5;
/// Digits of a group.
const GROUP: usize = 11;

/// Characters of this many groups.
pub(super) const fn length(groups: usize) -> usize {
    groups * (GROUP + 1) - 1
}

/// Replaces `text` by this many groups.
pub(super) fn fill(text: &mut String, groups: usize, random: &mut Random) {
    text.clear();
    for group in 0..groups {
        if group > 0 {
            text.push('-');
        }
        // 64 random bits are more than eleven digits.
        let mut rest = random.next_u64();
        for _ in 0..GROUP {
            let scaled = u128::from(rest) * 10;
            text.push(char::from(b'0' + (scaled >> 64) as u8));
            rest = scaled as u64;
        }
    }
}

/// Whether a text is this many groups.
pub(super) fn are_groups(text: &str, groups: usize) -> bool {
    let is_right = |(at, byte): (usize, u8)| {
        if at % (GROUP + 1) == GROUP {
            byte == b'-'
        } else {
            byte.is_ascii_digit()
        }
    };
    text.len() == length(groups) && text.bytes().enumerate().all(is_right)
}

/// A text in four bytes.
pub(super) fn digest(text: &str) -> u32 {
    let mut sum = text.len() as u64;
    for chunk in text.as_bytes().chunks(8) {
        let word = chunk
            .iter()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
        sum = mix(sum ^ word);
    }
    sum as u32
}
