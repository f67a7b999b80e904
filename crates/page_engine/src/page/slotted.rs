//! Slotted pages: cells in key order, found through an array of slots.
//!
//! ```text
//! header | slot 0 | slot 1 | … →     free     ← … | cell | cell
//! slot   offset of the cell u16 | its bytes u16, top bit set if the value is in pages of its own
//! cell   leaf: key words | value          inner page: key words | child u32
//! ```
//!
//! Words of keys are little-endian; they are compared as numbers, one after the other. The child of
//! cell `i` has the keys from that cell's on up to the next cell's; the page's link has those
//! before the first.
//!
//! The deep check examines a page as a whole ([`Slotted::check`]). Reading trusts its checksum but
//! for places: a slot that leads out of the page has an empty cell, so a page with wrong content
//! costs a wrong answer and never a fault.

use super::header::{HEADER_BYTES, Header, PageKind, array};
use std::cmp::Ordering;
use std::ops::Range;
use storage::engine::PageId;

/// Bytes of a slot.
pub const SLOT_BYTES: usize = 4;
/// Set in a slot's length if the cell's value is long.
pub(super) const LONG_BIT: u16 = 1 << 15;
/// Bytes of the number of a child.
pub const CHILD_BYTES: usize = 4;

/// A cell of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'p> {
    /// The key's words as bytes.
    pub key: &'p [u8],
    /// The value, or where it is.
    pub value: &'p [u8],
    /// Whether the value lies in pages of its own.
    pub is_long: bool,
}

/// A page of a tree.
#[derive(Clone, Copy)]
pub struct Slotted<'p> {
    bytes: &'p [u8],
    slots: usize,
    key_bytes: usize,
}

impl<'p> Slotted<'p> {
    /// The page in these bytes.
    #[inline]
    pub fn new(bytes: &'p [u8]) -> Self {
        let header = Header(bytes);
        let room = (bytes.len() - HEADER_BYTES) / SLOT_BYTES;
        Self {
            bytes,
            slots: header.slots().min(room),
            key_bytes: header.key_words() * 8,
        }
    }

    /// Its header.
    #[inline]
    pub fn header(&self) -> Header<'p> {
        Header(self.bytes)
    }

    /// Number of cells.
    #[inline]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Range of the cell of a slot, and whether its value is long.
    #[inline]
    pub(super) fn place(&self, slot: usize) -> Option<(usize, usize, bool)> {
        if slot >= self.slots {
            return None;
        }
        let at = HEADER_BYTES + slot * SLOT_BYTES;
        let offset = u16::from_le_bytes(array(self.bytes, at));
        let length = u16::from_le_bytes(array(self.bytes, at + 2));
        let (start, bytes) = (usize::from(offset), usize::from(length & !LONG_BIT));
        (start + bytes <= self.bytes.len()).then_some((start, bytes, length & LONG_BIT != 0))
    }

    /// The bytes of a cell; none if the page does not have it.
    #[inline]
    pub fn raw(&self, slot: usize) -> &'p [u8] {
        match self.place(slot) {
            Some((start, bytes, _)) => &self.bytes[start..start + bytes],
            None => &[],
        }
    }

    /// A cell of a leaf. A slot that is not there has an empty one.
    #[inline]
    pub fn cell(&self, slot: usize) -> Cell<'p> {
        let is_long = self.place(slot).is_some_and(|(_, _, is_long)| is_long);
        let raw = self.raw(slot);
        let (key, value) = raw.split_at(self.key_bytes.min(raw.len()));
        Cell {
            key,
            value,
            is_long,
        }
    }

    /// The key of a cell, as bytes.
    #[inline]
    pub fn key(&self, slot: usize) -> &'p [u8] {
        self.cell(slot).key
    }

    /// The child of a cell of an inner page.
    #[inline]
    pub fn child(&self, slot: usize) -> PageId {
        let value = self.cell(slot).value;
        PageId(
            value
                .first_chunk()
                .map_or(0, |&child| u32::from_le_bytes(child)),
        )
    }

    /// The first slot whose key is not smaller, and whether it is equal.
    #[inline]
    pub fn search(&self, key: &[u64]) -> (usize, bool) {
        match *key {
            // Most keys have one word, which needs no loop in the loop.
            [word] if self.key_bytes == 8 => self.search_by(|slot| {
                let on_page = self.place(slot).filter(|(_, bytes, _)| *bytes >= 8);
                on_page.map_or(Ordering::Less, |(start, ..)| {
                    u64::from_le_bytes(array(self.bytes, start)).cmp(&word)
                })
            }),
            _ => self.search_by(|slot| compare(self.key(slot), key)),
        }
    }

    /// As [`Slotted::search`], and calls `compared` with each slot whose cell is compared.
    pub fn search_noting(&self, key: &[u64], compared: &mut dyn FnMut(usize)) -> (usize, bool) {
        self.search_by(|slot| {
            compared(slot);
            compare(self.key(slot), key)
        })
    }

    /// Range of a slot.
    pub fn slot_range(slot: usize) -> Range<usize> {
        let at = HEADER_BYTES + slot * SLOT_BYTES;
        at..at + SLOT_BYTES
    }

    /// Range of the cell of a slot; empty if the page does not have it.
    pub fn cell_range(&self, slot: usize) -> Range<usize> {
        let place = self.place(slot);
        place.map_or(0..0, |(start, bytes, _)| start..start + bytes)
    }

    /// Range of the key of a cell.
    pub fn key_range(&self, slot: usize) -> Range<usize> {
        let cell = self.cell_range(slot);
        cell.start..cell.end.min(cell.start + self.key_bytes)
    }

    /// The first slot that is not less, and whether it is equal.
    #[inline]
    fn search_by(&self, mut order: impl FnMut(usize) -> Ordering) -> (usize, bool) {
        let (mut low, mut high) = (0, self.slots);
        while low < high {
            let middle = usize::midpoint(low, high);
            match order(middle) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return (middle, true),
                Ordering::Greater => high = middle,
            }
        }
        (low, false)
    }

    /// The place of the child that has a key: 0 for the link, else the slot after that number.
    #[inline]
    pub fn child_place(&self, key: &[u64]) -> usize {
        let (slot, is_equal) = self.search(key);
        slot + usize::from(is_equal)
    }

    /// The child at a place: 0 for the link.
    #[inline]
    pub fn child_at(&self, place: usize) -> PageId {
        match place.checked_sub(1) {
            None => self.header().link(),
            Some(slot) => self.child(slot),
        }
    }

    /// Bytes of all cells with their slots.
    pub fn used_bytes(&self) -> usize {
        let header = self.header();
        let heap = header.heap().min(self.bytes.len());
        (self.slots * SLOT_BYTES + self.bytes.len() - heap).saturating_sub(header.dead())
    }

    /// Bytes that cells and slots may take.
    pub fn capacity(&self) -> usize {
        capacity(self.bytes.len())
    }

    /// Whether a cell of `cell_bytes` bytes fits, perhaps after dead bytes are collected.
    #[inline]
    pub fn fits(&self, cell_bytes: usize) -> bool {
        self.used_bytes() + cell_bytes + SLOT_BYTES <= self.capacity()
    }

    /// Checks the page: every cell must lie in the heap, without overlap, and in key order. The
    /// error says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let header = self.header();
        let has_children = header.kind() == Some(PageKind::Inner);
        if header.slots() != self.slots || header.heap() > self.bytes.len() {
            return Err("its slots or its heap leave the page".to_owned());
        }
        let first = HEADER_BYTES + self.slots * SLOT_BYTES;
        if header.heap() < first {
            return Err("its heap reaches into its slots".to_owned());
        }
        let mut places = Vec::with_capacity(self.slots);
        for slot in 0..self.slots {
            let Some((start, bytes, _)) = self.place(slot) else {
                return Err(format!("the cell of slot {slot} leaves the page"));
            };
            let least = self.key_bytes + if has_children { CHILD_BYTES } else { 0 };
            if start < header.heap() || bytes < least || (has_children && bytes != least) {
                return Err(format!(
                    "the cell of slot {slot} has the wrong place or length"
                ));
            }
            if slot > 0 && compare_keys(self.key(slot - 1), self.key(slot)) != Ordering::Less {
                return Err(format!(
                    "the key of slot {slot} is not above the one before"
                ));
            }
            places.push((start, bytes));
        }
        places.sort_unstable();
        let overlap = places
            .windows(2)
            .any(|pair| pair[0].0 + pair[0].1 > pair[1].0);
        let live: usize = places.iter().map(|&(_, bytes)| bytes).sum();
        if overlap || live + header.dead() != self.bytes.len() - header.heap() {
            return Err("its cells overlap, or its dead bytes are miscounted".to_owned());
        }
        Ok(())
    }
}

/// Bytes of cells and slots that a page of `page_bytes` bytes takes.
pub fn capacity(page_bytes: usize) -> usize {
    page_bytes - HEADER_BYTES
}

/// Compares a key on a page with words.
#[inline]
pub fn compare(key: &[u8], words: &[u64]) -> Ordering {
    let on_page = key.as_chunks::<8>().0;
    for (on_page, word) in on_page.iter().zip(words) {
        match u64::from_le_bytes(*on_page).cmp(word) {
            Ordering::Equal => {}
            other => return other,
        }
    }
    on_page.len().cmp(&words.len())
}

/// Compares two keys on pages.
pub fn compare_keys(a: &[u8], b: &[u8]) -> Ordering {
    let words = |key: &[u8]| -> Vec<u64> { key_words(key).collect() };
    words(a).cmp(&words(b))
}

/// The words of a key on a page.
pub fn key_words(key: &[u8]) -> impl Iterator<Item = u64> + '_ {
    key.as_chunks::<8>()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
}
