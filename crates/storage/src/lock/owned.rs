//! Locks of one session, in its own memory: it finds a lock that it holds without access to shared
//! data, and visits each lock once when the transaction ends.
//!
//! Partition and tables are *wholes*; keys and ranges name their table's whole, which counts them.
//! Keys are kept in the order in which they were locked, so a savepoint is a position in that
//! order.

use super::inheritance::Inheritance;
use super::mode::Strength;
use super::name::NameTable;
use super::range::Interval;
use crate::vocabulary::PageId;
use std::sync::Arc;

/// Keys that a range counts for in escalation to a table lock: a search for a key of a tree
/// examines all its ranges.
pub(super) const RANGE_WEIGHT: usize = 16;

/// The partition or a table.
#[derive(Default)]
pub(super) struct Whole {
    pub(super) strength: Strength,
    pub(super) entry: u32,
    /// Without it the lock is released when its transaction ends.
    pub(super) inheritance: Option<Arc<Inheritance>>,
    /// The transaction has it; else it is idle, or revoked and not yet missed.
    pub(super) is_active: bool,
    /// Counts the session's locks.
    pub(super) number: u64,
    /// Weight of the locks below it.
    pub(super) weight: usize,
    /// The weight from which it is tried to be locked whole.
    pub(super) escalate_at: usize,
}

/// A key.
#[derive(Default)]
pub(super) struct OwnedKey {
    pub(super) strength: Strength,
    pub(super) entry: u32,
    /// The table's whole.
    pub(super) whole: u32,
    /// Counts the session's locks.
    pub(super) number: u64,
    /// How it has become stronger: when, and its strength before.
    pub(super) raises: Vec<(u64, Strength)>,
}

/// A range that is granted.
pub(super) struct OwnedRange {
    pub(super) tree: PageId,
    pub(super) interval: Interval,
    /// Its number in the bucket of its tree.
    pub(super) range: u64,
    pub(super) whole: u32,
    pub(super) number: u64,
}

/// A whole that has become stronger.
pub(super) struct Raise {
    /// Its place among the session's locks.
    pub(super) at: u64,
    pub(super) whole: u32,
    /// The strength that it had.
    pub(super) before: Strength,
    /// The number of the first lock below the whole that was given back for it.
    pub(super) covers_from: u64,
}

/// All that a session holds.
pub(super) struct Owned {
    pub(super) wholes: NameTable<Whole>,
    /// Those of `wholes` that the transaction has.
    pub(super) active: Vec<u32>,
    /// Those that have become stronger, in that order.
    pub(super) raises: Vec<Raise>,
    pub(super) keys: NameTable<OwnedKey>,
    /// The keys by their numbers.
    pub(super) order: Vec<u32>,
    pub(super) ranges: Vec<OwnedRange>,
    next: u64,
    /// Ranges below this number were there at the last savepoint; later ones are not merged with
    /// them.
    pub(super) marked: u64,
}

impl Owned {
    pub(super) fn new() -> Self {
        Self {
            wholes: NameTable::new(),
            active: Vec::new(),
            raises: Vec::new(),
            keys: NameTable::new(),
            order: Vec::new(),
            ranges: Vec::new(),
            next: 0,
            marked: 0,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.active.len() + self.order.len() + self.ranges.len()
    }

    #[inline]
    pub(super) fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Everything from here on is newer than what is held now.
    pub(super) fn savepoint(&mut self) -> u64 {
        self.marked = self.next;
        self.next
    }

    /// Whether a range holds this key already.
    #[inline]
    pub(super) fn has_range_around(&self, tree: PageId, low: &[u64], high: &[u64]) -> bool {
        self.ranges.iter().any(|range| {
            range.tree == tree && range.interval.contains(low) && range.interval.contains(high)
        })
    }

    /// The place of the first key that was locked with this number, or later.
    pub(super) fn first_since(&self, number: u64) -> usize {
        self.order
            .partition_point(|key| self.keys.get(*key).number < number)
    }

    /// Takes the keys out that `is_wanted`, among those from `number` on, and hands their entries
    /// in `keys`.
    pub(super) fn take_keys(
        &mut self,
        number: u64,
        is_wanted: impl Fn(&OwnedKey) -> bool,
    ) -> Vec<u32> {
        let from = self.first_since(number);
        let (taken, kept): (Vec<u32>, Vec<u32>) = self
            .order
            .drain(from..)
            .partition(|key| is_wanted(self.keys.get(*key)));
        self.order.extend(kept);
        taken
    }

    /// Takes the ranges out that `is_wanted`.
    pub(super) fn take_ranges(
        &mut self,
        is_wanted: impl Fn(&OwnedRange) -> bool,
    ) -> Vec<OwnedRange> {
        self.ranges
            .extract_if(.., |range| is_wanted(range))
            .collect()
    }
}
