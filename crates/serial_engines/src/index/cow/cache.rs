//! Pages in frames of volatile memory, by the place that they were read from.
//!
//! The cache of a file's pages: of the partition itself, and a small one for each reader of a
//! snapshot. A table in two levels leads from the place to the frame, because a lookup is a step of
//! every descent. When the cache is full a clock hand looks for a page that nobody has used since
//! the hand last passed.
//!
//! Invariants: a frame belongs to one page; a page is in the cache once; the numbers of two pages
//! differ, because their places are at least a page apart.

use super::Frames;
use pmem::Memory;
use storage::Result;

/// Pages in one part of the table.
const PART_PAGES: usize = 512;
/// No page lies there.
const NOWHERE: u64 = u64::MAX;
/// Savepoint of a page that was used since the hand last passed, kept in a low bit of the frame's
/// offset, which starts at a line.
const USED: u64 = 1;

/// A page in the cache, or none.
#[derive(Clone, Copy)]
struct Cached {
    at: u64,
    /// The frame, and `USED`.
    frame: u64,
    /// Number in the list that the hand goes through.
    index: usize,
}

const NOTHING: Cached = Cached {
    at: NOWHERE,
    frame: 0,
    index: 0,
};

/// The pages in frames.
pub(super) struct PageCache {
    parts: Vec<Option<Box<[Cached]>>>,
    /// Places of the pages, in the order of the hand.
    places: Vec<u64>,
    hand: usize,
    pages_max: usize,
    /// Bits by which a place is shifted to make its number.
    shift: u32,
}

impl PageCache {
    /// An empty cache of at most `bytes_max` bytes, and of at least one page.
    pub(super) fn new(bytes_max: usize, page_bytes: usize) -> Self {
        Self {
            parts: Vec::new(),
            places: Vec::new(),
            hand: 0,
            pages_max: (bytes_max / page_bytes).max(1),
            shift: page_bytes.ilog2(),
        }
    }

    #[inline]
    fn cell(&self, at: u64) -> Option<&Cached> {
        let number = (at >> self.shift) as usize;
        let part = self.parts.get(number / PART_PAGES)?.as_ref()?;
        Some(&part[number % PART_PAGES]).filter(|cell| cell.at == at)
    }

    #[inline]
    fn cell_mut(&mut self, at: u64) -> Option<&mut Cached> {
        let number = (at >> self.shift) as usize;
        let part = self.parts.get_mut(number / PART_PAGES)?.as_mut()?;
        Some(&mut part[number % PART_PAGES]).filter(|cell| cell.at == at)
    }

    /// The frame of a page, which counts as used.
    #[inline]
    pub(super) fn get(&mut self, at: u64) -> Option<u64> {
        let cell = self.cell_mut(at)?;
        if cell.frame & USED == 0 {
            cell.frame |= USED;
        }
        Some(cell.frame & !USED)
    }

    /// The frame of a page, if that is there.
    #[inline]
    pub(super) fn peek(&self, at: u64) -> Option<u64> {
        self.cell(at).map(|cell| cell.frame & !USED)
    }

    /// A frame for a page that is read: a new one, or that of a page that was not used for long.
    pub(super) fn frame<M: Memory>(&mut self, frames: &mut Frames<M>) -> Result<u64> {
        if self.places.len() < self.pages_max {
            match frames.take() {
                Err(_) if !self.places.is_empty() => {}
                result => return result,
            }
        }
        loop {
            self.hand = (self.hand + 1) % self.places.len();
            let at = self.places[self.hand];
            let used = self.cell_mut(at).filter(|cell| cell.frame & USED != 0);
            match used {
                Some(cell) => cell.frame &= !USED,
                None => break,
            }
        }
        let at = self.places[self.hand];
        match self.remove(at) {
            Some(frame) => Ok(frame),
            None => frames.take(),
        }
    }

    /// Takes a page out; gives its frame.
    pub(super) fn remove(&mut self, at: u64) -> Option<u64> {
        let cell = std::mem::replace(self.cell_mut(at)?, NOTHING);
        self.places.swap_remove(cell.index);
        if let Some(&moved) = self.places.get(cell.index)
            && let Some(moved) = self.cell_mut(moved)
        {
            moved.index = cell.index;
        }
        Some(cell.frame & !USED)
    }

    /// Puts a page in; gives the frame that it had before.
    pub(super) fn insert(&mut self, at: u64, frame: u64) -> Option<u64> {
        if let Some(cell) = self.cell_mut(at) {
            return Some(std::mem::replace(&mut cell.frame, frame | USED) & !USED);
        }
        let number = (at >> self.shift) as usize;
        if self.parts.len() <= number / PART_PAGES {
            self.parts.resize_with(number / PART_PAGES + 1, || None);
        }
        let part = self.parts[number / PART_PAGES]
            .get_or_insert_with(|| vec![NOTHING; PART_PAGES].into_boxed_slice());
        part[number % PART_PAGES] = Cached {
            at,
            frame: frame | USED,
            index: self.places.len(),
        };
        self.places.push(at);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmem::{NativeMemory, POOL_BYTES_MIN, PageSize};

    #[test]
    fn the_hand_takes_what_was_not_used_and_a_wrong_place_finds_nothing() {
        let memory = NativeMemory::volatile(POOL_BYTES_MIN, PageSize::Base).unwrap();
        let mut frames = Frames::new(memory, 512).unwrap();
        let mut cache = PageCache::new(4 * 512, 512);
        let place = |number: u64| 4096 + number * 512 * 300;
        for number in 0..4 {
            let frame = cache.frame(&mut frames).unwrap();
            assert_eq!(cache.insert(place(number), frame), None);
            assert_eq!(cache.get(place(number)), Some(frame));
        }
        for wrong in [0, place(1) + 8, place(2) - 512, place(9), u64::MAX] {
            assert_eq!((cache.get(wrong), cache.peek(wrong)), (None, None));
            assert_eq!(cache.remove(wrong), None);
        }
        // The hand passes all of them once, and takes one that was not used in between.
        let first = cache.frame(&mut frames).unwrap();
        assert_eq!(cache.insert(place(4), first), None);
        let kept: Vec<u64> = (0..5).filter(|&n| cache.peek(place(n)).is_some()).collect();
        assert_eq!(kept.len(), 4);
        assert!(kept.contains(&4));
        let (used, idle): (Vec<_>, Vec<_>) = kept.iter().partition(|&&number| number % 2 == 0);
        for &number in &used {
            cache.get(place(number));
        }
        let second = cache.frame(&mut frames).unwrap();
        assert!(
            idle.iter()
                .any(|&number| cache.peek(place(number)).is_none())
        );
        cache.insert(place(5), second);
        assert_eq!(cache.remove(place(5)), Some(second));
        assert_eq!(cache.insert(place(5), second), None);
        assert_eq!(cache.insert(place(5), first), Some(second), "in twice");
    }
}
