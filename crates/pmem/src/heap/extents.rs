//! Free ranges of chunks, in DRAM: rotating best fit.
//!
//! The shortest range that is long enough is taken; among equal ones the first after the place of
//! the last allocation, so that wear rotates. Adjacent ranges are joined at once. The table on the
//! medium may still show them as several heads; the code that takes a range writes the table anew
//! (see `grow`).

use std::collections::{BTreeMap, BTreeSet};

/// A row of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: u32,
    pub(crate) chunks: u32,
}

/// The free ranges that are known. Ranges never cross a zone, because a zone's table lies between.
#[derive(Default)]
pub(crate) struct FreeExtents {
    by_start: BTreeMap<u32, u32>,
    by_length: BTreeSet<(u32, u32)>,
    rotor: u32,
}

impl FreeExtents {
    /// Adds a range that is free from now on. A range that overlaps another one, which only damage
    /// of the medium can cause, is left out, so that nothing is handed out twice.
    pub(crate) fn insert(&mut self, range: Range) {
        let Range {
            mut start,
            mut chunks,
        } = range;
        debug_assert!(chunks > 0, "a free range has no chunk");
        let last = self.by_start.range(..start + chunks).next_back();
        if let Some((&before, &length)) = last {
            if before + length > start {
                return;
            }
            if before + length == start {
                self.remove(before, length);
                start = before;
                chunks += length;
            }
        }
        if let Some((&after, &length)) = self.by_start.range(start..).next()
            && start + chunks == after
        {
            self.remove(after, length);
            chunks += length;
        }
        self.by_start.insert(start, chunks);
        self.by_length.insert((chunks, start));
    }

    /// Takes a whole free range of at least `chunks`. The caller gives back the rest.
    pub(crate) fn take(&mut self, chunks: u32) -> Option<Range> {
        let shortest = self.by_length.range((chunks, 0)..).next()?.0;
        let behind = self
            .by_length
            .range((shortest, self.rotor)..=(shortest, u32::MAX))
            .next();
        let found = behind.or_else(|| self.by_length.range((shortest, 0)..).next());
        let &(length, start) = found.expect("a range of the shortest length exists");
        self.remove(start, length);
        debug_assert!(length >= chunks, "a range is too short that was found");
        self.rotor = start + chunks;
        Some(Range {
            start,
            chunks: length,
        })
    }

    /// Chunks of the free range that ends just before `end`.
    pub(crate) fn before(&self, end: u32) -> u32 {
        let last = self.by_start.range(..end).next_back();
        last.filter(|&(&start, &chunks)| start + chunks == end)
            .map_or(0, |(_, &chunks)| chunks)
    }

    fn remove(&mut self, start: u32, chunks: u32) {
        let by_start = self.by_start.remove(&start);
        let by_length = self.by_length.remove(&(chunks, start));
        assert!(
            by_start == Some(chunks) && by_length,
            "the two orders of the free ranges differ"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u32, chunks: u32) -> Range {
        Range { start, chunks }
    }

    #[test]
    fn neighbours_become_one() {
        let mut free = FreeExtents::default();
        free.insert(range(1, 2));
        free.insert(range(5, 2));
        free.insert(range(3, 2));
        assert_eq!(free.take(6), Some(range(1, 6)));
        assert_eq!(free.take(1), None);
    }

    #[test]
    fn a_range_that_overlaps_is_left_out() {
        let mut free = FreeExtents::default();
        free.insert(range(4, 4));
        for (start, chunks) in [(4, 4), (2, 3), (7, 5), (5, 1), (1, 20)] {
            free.insert(range(start, chunks));
        }
        assert_eq!(free.take(1), Some(range(4, 4)));
        assert_eq!(free.take(1), None);
    }

    #[test]
    fn the_shortest_fits_best_and_equals_take_turns() {
        let mut free = FreeExtents::default();
        for start in [10, 20, 30] {
            free.insert(range(start, 4));
        }
        free.insert(range(40, 9));
        assert_eq!(free.take(4), Some(range(10, 4)));
        free.insert(range(10, 4));
        assert_eq!(free.take(4), Some(range(20, 4)));
        assert_eq!(free.take(4), Some(range(30, 4)));
        assert_eq!(free.take(4), Some(range(10, 4)));
        assert_eq!(free.take(4), Some(range(40, 9)));
    }
}
