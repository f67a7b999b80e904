//! Bytes that the open transaction of an NV write set has staged: stored where nothing points to
//! them yet.
//!
//! A commit record publishes them. Either a fence makes them durable before the record is written,
//! or the record has their checksums, and one fence makes both durable: a record whose staged bytes
//! are not there does not count. Checksums take the place of the fence if
//!
//! 1. all ranges were staged for good: until the next transaction has ended, nothing but the
//!    changes of a log is stored over them. So a record that counted once does so again;
//! 2. they lie apart from each other and from the transaction's changes, which are stored in place
//!    before the next fence;
//! 3. the transaction has not freed any of them again: the heap may use free blocks at once;
//! 4. they are few and small. Otherwise a checksum takes longer than the fence.

use pmem::WordChange;

/// Most ranges that a record has checksums of.
const RANGES_MAX: usize = 16;
/// Most bytes of them.
const BYTES_MAX: usize = 4 << 10;

/// Why a transaction has checksums of everything that it has staged if the numbers are equal.
const COUNTED: &str = "each range with a checksum is counted";

/// A range and its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StagedRange {
    pub(super) offset: u64,
    pub(super) bytes: usize,
    pub(super) crc: u32,
}

/// What the open transaction has staged.
#[derive(Debug, Default)]
pub(super) struct Staged {
    /// All ranges, those without a checksum included.
    count: usize,
    /// The first ones, up to the first that can have no checksum.
    ranges: Vec<StagedRange>,
    /// Words and bits of allocations since the first range.
    allocations: Vec<(u64, u64)>,
    /// Whether some of them may have been freed again.
    has_freed: bool,
}

impl Staged {
    /// Notes a range that a later transaction may store over while it is reachable.
    pub(super) fn add_open(&mut self) {
        self.count += 1;
    }

    /// Notes a range that was staged for good.
    pub(super) fn add_final(&mut self, offset: u64, bytes: &[u8]) {
        let sum: usize = self.ranges.iter().map(|range| range.bytes).sum();
        debug_assert!(!bytes.is_empty(), "a record names no range without bytes");
        debug_assert!(self.ranges.len() <= self.count, "{COUNTED}");
        let follows = self.ranges.len() == self.count;
        if follows && self.count < RANGES_MAX && sum + bytes.len() <= BYTES_MAX {
            self.ranges.push(StagedRange {
                offset,
                bytes: bytes.len(),
                crc: crc32c::crc32c(bytes),
            });
        }
        self.count += 1;
    }

    /// Notes an allocation or a free.
    pub(super) fn allocation(&mut self, change: WordChange) {
        if self.count == 0 {
            return;
        }
        let bits = change.set | change.clear;
        let mut known = self.allocations.iter();
        self.has_freed |= self.allocations.len() == 2 * RANGES_MAX
            || known.any(|&(word, set)| word == change.offset && set & bits != 0);
        if !self.has_freed {
            self.allocations.push((change.offset, bits));
        }
    }

    /// The current savepoint, for [`Staged::rollback_to`].
    pub(super) fn savepoint(&self) -> usize {
        self.count
    }

    pub(super) fn rollback_to(&mut self, savepoint: usize) {
        assert!(
            savepoint <= self.count,
            "a savepoint is of another transaction"
        );
        self.count = savepoint;
        self.ranges.truncate(savepoint);
    }

    /// The ranges that a record has checksums of.
    pub(super) fn ranges(&self) -> &[StagedRange] {
        &self.ranges
    }

    /// Whether the record needs no fence before it; `changes` are from where to where the published
    /// bytes change.
    pub(super) fn needs_no_fence(&self, changes: impl Iterator<Item = (u64, u64)>) -> bool {
        let ends = |range: &StagedRange| (range.offset, range.offset + range.bytes as u64);
        let is_apart = |index: usize, (from, to): (u64, u64)| {
            let mut before = self.ranges[..index].iter().map(ends);
            before.all(|(start, end)| to <= start || end <= from)
        };
        debug_assert!(self.ranges.len() <= self.count, "{COUNTED}");
        let mut ranges = self.ranges.iter().map(ends).enumerate();
        let all = self.ranges.len();
        let mut changes = changes;
        self.count == all
            && !self.has_freed
            && ranges.all(|(index, range)| is_apart(index, range))
            && (all == 0 || changes.all(|change| is_apart(all, change)))
    }

    /// Forgets everything, at the end of a transaction.
    pub(super) fn clear(&mut self) {
        if self.count > 0 {
            self.count = 0;
            self.ranges.clear();
            self.allocations.clear();
        }
        self.has_freed = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn staged(ranges: &[(u64, usize)]) -> Staged {
        let mut staged = Staged::default();
        for &(offset, bytes) in ranges {
            staged.add_final(offset, &vec![7; bytes]);
        }
        staged
    }

    fn needs_no_fence(staged: &Staged, changes: &[(u64, u64)]) -> bool {
        staged.needs_no_fence(changes.iter().copied())
    }

    #[test]
    fn ranges_apart_need_no_fence() {
        let apart = staged(&[(64, 64), (256, 16), (128, 128)]);
        assert!(needs_no_fence(&apart, &[(0, 64), (272, 280)]));
        assert!(!needs_no_fence(&apart, &[(0, 65)]), "a change over one");
        assert!(!needs_no_fence(&apart, &[(136, 144)]), "a change inside");
        assert!(!needs_no_fence(&staged(&[(64, 64), (120, 16)]), &[]));
    }

    #[test]
    fn too_many_or_too_long_ranges_need_a_fence() {
        let ranges: Vec<_> = (0..=RANGES_MAX as u64).map(|at| (at * 64, 64)).collect();
        assert!(needs_no_fence(&staged(&ranges[1..]), &[]));
        assert!(!needs_no_fence(&staged(&ranges), &[]));
        assert!(!needs_no_fence(&staged(&[(0, BYTES_MAX), (8192, 1)]), &[]));
    }

    #[test]
    fn a_rollback_forgets_ranges_and_what_was_in_their_way() {
        let mut staged = staged(&[(64, 64)]);
        let savepoint = staged.savepoint();
        staged.add_open();
        staged.add_final(256, &[1]);
        assert!(!needs_no_fence(&staged, &[]));
        staged.rollback_to(savepoint);
        assert!(needs_no_fence(&staged, &[]));
        assert_eq!(staged.ranges().len(), 1);
    }

    #[test]
    fn a_block_that_is_freed_again_needs_a_fence() {
        let change = |set, clear| WordChange {
            offset: 8,
            clear,
            set,
        };
        let mut staged = staged(&[(64, 64)]);
        staged.allocation(change(1, 0));
        staged.allocation(change(2, 0));
        staged.allocation(change(0, 4));
        assert!(needs_no_fence(&staged, &[]));
        staged.allocation(change(0, 2));
        assert!(!needs_no_fence(&staged, &[]));
        staged.clear();
        staged.add_final(64, &[1]);
        assert!(needs_no_fence(&staged, &[]));
    }
}
