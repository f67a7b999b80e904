//! The prefix of a list that leads from one content to another.
//!
//! A list may have been run up to any position of a range. The search applies its inputs one by one to what is expected and stops at
//! the first position within the range at which that is what was found.

use std::ops::RangeInclusive;

/// Whether some prefix of `inputs`, which begin again at their end, leads from `state` to what `fits` accepts. `state` is left at the
/// prefix that fits, or at the longest.
pub(crate) fn leads_there<S, I: Copy>(
    state: &mut S,
    inputs: &[I],
    done: RangeInclusive<u64>,
    fits: impl Fn(&S) -> bool,
    mut apply: impl FnMut(&mut S, I),
) -> bool {
    let (least, most) = done.into_inner();
    let mut inputs = inputs.iter().cycle();
    for position in 0..=most {
        if position >= least && fits(state) {
            return true;
        }
        if position < most
            && let Some(input) = inputs.next()
        {
            apply(state, *input);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_within_the_range_is_found_and_no_other() {
        let sums = |done, found: u64| {
            let mut sum = 0;
            leads_there(
                &mut sum,
                &[1_u64, 2],
                done,
                |sum| *sum == found,
                |sum, add| *sum += add,
            )
        };
        assert!(sums(0..=0, 0) && !sums(0..=0, 1));
        assert!(sums(2..=2, 3) && sums(3..=3, 4) && sums(1..=3, 4));
        assert!(!sums(2..=3, 1) && !sums(0..=1, 3));
    }
}
