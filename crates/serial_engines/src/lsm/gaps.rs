//! Gaps: ranges of keys in which a tree has tombstones and no row, so that a scan need not pass
//! them again.
//!
//! A table that is used as a queue (insert at one end, delete at the other) leaves a tombstone for
//! each row that was taken. A search for the oldest row meets all of them, until a merge drops
//! them. A scan that has met many before its first row notes where they end; the next one that
//! begins there skips them.
//!
//! Invariants:
//! 1. No key of a gap has a row. An insertion ends the gap that its key lies in.
//! 2. A gap is noted only from committed content: the caller notes none in a transaction that has
//!    deleted, so an abort brings no row back into one.
//! 3. Gaps of a tree are disjoint. They live in DRAM and are forgotten when the tree is opened
//!    again.

use crate::lsm::keys::increment;
use std::collections::BTreeMap;
use std::ops::Bound;
use storage::record::KeyBuf;

/// Keys without a row that are worth a note.
const KEYS_MIN: u32 = 8;
/// Gaps of one tree; more are not remembered.
const GAPS_MAX: usize = 256;

/// The gaps of one tree: the first key of each, and the last.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    ranges: BTreeMap<Box<[u64]>, Box<[u64]>>,
}

/// Keys without a row that a scan meets before its first row.
#[derive(Debug, Default)]
pub(crate) struct Dead {
    last: KeyBuf,
    keys: u32,
    has_row: bool,
}

impl Dead {
    /// Notes a key that has no row.
    #[inline]
    pub(crate) fn key(&mut self, key: &[u64]) {
        if !self.has_row {
            self.last.assign(key);
            self.keys += 1;
        }
    }

    /// Whether skipping the keys that were met saves a scan anything.
    pub(crate) fn is_worth_it(&self) -> bool {
        self.keys >= KEYS_MIN
    }

    /// Notes that there was a row.
    #[inline]
    pub(crate) fn row(&mut self) {
        self.has_row = true;
    }
}

impl Gaps {
    /// Moves `low`, from which a scan ascends, past the gap that it lies in. False if no key is
    /// left.
    pub(crate) fn skip(&self, low: &mut KeyBuf) -> bool {
        let Some(last) = self.last_of(low) else {
            return true;
        };
        low.assign(last);
        let words = last.len();
        increment(low.resized(words))
    }

    /// Notes the keys that a scan met which ascends from `low`. `low` is where the scan was asked
    /// to begin, before the gap that it skipped.
    pub(crate) fn note(&mut self, low: &[u64], dead: &Dead) {
        if !dead.is_worth_it() || *dead.last < *low {
            return;
        }
        let first = match self.find(low) {
            Some((first, _)) => first.into(),
            None => Box::from(low),
        };
        let last = Box::from(&*dead.last);
        let is_inside = |key: &[u64]| *first <= *key && *key <= *last;
        self.ranges.retain(|key, _| !is_inside(key));
        if self.ranges.len() >= GAPS_MAX {
            self.ranges.clear();
        }
        self.ranges.insert(first, last);
    }

    /// Notes that this key has a row from now on.
    #[inline]
    pub(crate) fn fill(&mut self, key: &[u64]) {
        if !self.ranges.is_empty()
            && let Some((first, _)) = self.find(key)
        {
            let first: Box<[u64]> = first.into();
            self.ranges.remove(&first);
        }
    }

    fn last_of(&self, key: &[u64]) -> Option<&[u64]> {
        self.find(key).map(|(_, last)| last)
    }

    /// The gap that a key lies in.
    fn find(&self, key: &[u64]) -> Option<(&[u64], &[u64])> {
        let up_to_key = (Bound::Unbounded, Bound::Included(key));
        let (first, last) = self.ranges.range::<[u64], _>(up_to_key).next_back()?;
        (**last >= *key).then_some((first, last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip(gaps: &Gaps, low: u64) -> Option<u64> {
        let mut key = KeyBuf::from_words(&[low]);
        gaps.skip(&mut key).then(|| key[0])
    }

    fn dead(keys: std::ops::RangeInclusive<u64>) -> Dead {
        let mut dead = Dead::default();
        keys.for_each(|key| dead.key(&[key]));
        dead
    }

    #[test]
    fn a_gap_is_skipped_until_a_key_of_it_has_a_row() {
        let mut gaps = Gaps::default();
        gaps.note(&[10], &dead(12..=13));
        assert_eq!(skip(&gaps, 10), Some(10), "two keys are not worth it");
        gaps.note(&[10], &dead(12..=40));
        assert_eq!(skip(&gaps, 10), Some(41));
        assert_eq!(skip(&gaps, 39), Some(41));
        assert_eq!(skip(&gaps, 9), Some(9));
        gaps.note(&[10], &dead(41..=60));
        assert_eq!(skip(&gaps, 10), Some(61), "it grows from its first key");
        gaps.fill(&[61]);
        assert_eq!(skip(&gaps, 10), Some(61));
        gaps.fill(&[30]);
        assert_eq!(skip(&gaps, 10), Some(10));
        gaps.note(&[0], &dead(u64::MAX - 20..=u64::MAX));
        assert_eq!(skip(&gaps, 5), None, "no key is left");
    }

    #[test]
    fn what_lies_behind_the_first_row_is_no_gap_and_gaps_are_disjoint() {
        let mut gaps = Gaps::default();
        let mut met = dead(1..=20);
        met.row();
        met.key(&[99]);
        gaps.note(&[0], &met);
        assert_eq!(skip(&gaps, 0), Some(21));
        gaps.note(&[30], &dead(30..=50));
        gaps.note(&[25], &dead(26..=60));
        assert_eq!(gaps.ranges.len(), 2);
        gaps.fill(&[40]);
        assert_eq!(skip(&gaps, 30), Some(30));
        assert_eq!(skip(&gaps, 0), Some(21));
    }
}
