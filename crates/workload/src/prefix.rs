//! The prefix of a list that leads from one content to another.
//!
//! A list may have been run up to any position of a range. The search applies its inputs one by one
//! to the expected state and stops at the first position within the range at which that state is
//! the one found.

use std::ops::RangeInclusive;

/// The lists of a partition, and how far each was run. None if that does not determine the rows: a
/// list is missing in `done`, or threads shared the rows and the exact end of one of them is not
/// known.
pub(crate) fn run_lists(
    partition: u32,
    (partitions, lists): (u32, u32),
    done: &[RangeInclusive<u64>],
) -> Vec<(u32, RangeInclusive<u64>)> {
    let own = (partition..lists).step_by(partitions as usize);
    let known: Option<Vec<_>> = own
        .map(|list| Some((list, done.get(list as usize)?.clone())))
        .collect();
    let mut known = known.unwrap_or_default();
    if known.len() > 1 && known.iter().any(|(_, done)| done.start() != done.end()) {
        known.clear();
    }
    known
}

/// Whether some prefix of `inputs`, which begin again at their end, leads from `state` to a state
/// that `fits` accepts. `state` is left at the prefix that fits, or at the longest.
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
    fn lists_that_share_rows_are_compared_where_their_ends_are_known() {
        let lists = |done: &[RangeInclusive<u64>]| {
            let known = run_lists(1, (2, 4), done);
            known.into_iter().map(|(list, _)| list).collect::<Vec<_>>()
        };
        assert_eq!(lists(&[0..=9, 3..=3, 0..=9, 4..=4]), [1, 3]);
        assert!(lists(&[0..=9, 3..=4, 0..=9, 4..=4]).is_empty());
        assert!(lists(&[0..=0, 3..=3, 0..=0]).is_empty());
        assert_eq!(run_lists(0, (1, 1), &[2..=5]), [(0, 2..=5)]);
    }

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
