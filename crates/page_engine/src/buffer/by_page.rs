//! A table with one entry for each page of a partition, read without a lock.
//!
//! The table consists of pieces, each twice as long as the one before, which are made when one of
//! their pages is first used; so no entry ever moves, and a small partition has a small table.

use crate::page::PageId;
use std::sync::OnceLock;

/// Entries of the first piece.
const FIRST_LOG2: u32 = 10;
/// Pieces: enough for every page number.
const PIECES: usize = (u32::BITS - FIRST_LOG2) as usize + 1;

/// A table over page numbers.
pub(super) struct ByPage<T> {
    pieces: [OnceLock<Box<[T]>>; PIECES],
    new: fn() -> T,
}

/// The piece that has a page, and where in it.
#[inline]
fn place(page: PageId) -> (usize, usize) {
    let number = u64::from(page.0) + (1 << FIRST_LOG2);
    let piece = number.ilog2() - FIRST_LOG2;
    let first = 1 << (piece + FIRST_LOG2);
    debug_assert!(
        (first..2 * first).contains(&number),
        "a page is looked up in the wrong piece"
    );
    (piece as usize, (number - first) as usize)
}

impl<T> ByPage<T> {
    /// A table whose entries are made by `new`.
    pub(super) fn new(new: fn() -> T) -> Self {
        Self {
            pieces: [const { OnceLock::new() }; PIECES],
            new,
        }
    }

    /// The entry of a page, if its piece is there.
    #[inline]
    pub(super) fn get(&self, page: PageId) -> Option<&T> {
        let (piece, at) = place(page);
        Some(&self.pieces[piece].get()?[at])
    }

    /// The entry of a page.
    pub(super) fn entry(&self, page: PageId) -> &T {
        let (piece, at) = place(page);
        let entries = self.pieces[piece].get_or_init(|| {
            let entries = 1_usize << (piece as u32 + FIRST_LOG2);
            std::iter::repeat_with(self.new).take(entries).collect()
        });
        &entries[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let first = 1 << FIRST_LOG2;
        assert_eq!(place(PageId(0)), (0, 0));
        assert_eq!(place(PageId(first - 1)), (0, first as usize - 1));
        assert_eq!(place(PageId(first)), (1, 0));
        assert_eq!(place(PageId(3 * first - 1)), (1, 2 * first as usize - 1));
        assert_eq!(place(PageId(u32::MAX)).0, PIECES - 1);
    }
}
