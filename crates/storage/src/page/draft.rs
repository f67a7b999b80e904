//! A page as it is going to be, made on the side of the one that is there.
//!
//! Only the lines that the operations need are copied, where that can be told in front: most changes need the header, a slot and a cell, and the
//! rest of the page is neither read nor compared. The checksum of the new page follows from the old one's and the lines that differ, since a CRC
//! is linear: what a line adds to it depends on the line and on how many bytes come behind it.

use super::header::{self, HEADER_BYTES, Header, PageKind};
use super::op::{Misfit, PageOp, Section};
use super::slotted::{SLOT_BYTES, Slotted};
use crate::log::Lsn;
use std::cell::RefCell;
use std::ops::Range;

/// What differs is told in lines of a cache.
pub const LINE_BYTES: usize = 64;
/// What is compared at once.
const BLOCK_BYTES: usize = 8 * LINE_BYTES;
/// The longest page, in lines.
const LINES_MAX: usize = *super::header::PAGE_BYTES.end() as usize / LINE_BYTES;

thread_local! {
    /// Buffers of drafts that are gone: every change needs one or two.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}
/// Buffers that a thread keeps.
const SPARE_MAX: usize = 4;

/// Any bytes, so many.
fn buffer(bytes: usize) -> Vec<u8> {
    let mut buffer = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
    buffer.resize(bytes, 0);
    buffer
}

/// The new content of some lines of a page.
pub struct Draft {
    /// As long as the page; right in `lines` only.
    bytes: Vec<u8>,
    lines: Vec<Range<usize>>,
    /// What was read of the page.
    read: Vec<Range<usize>>,
}

impl Draft {
    /// A page made from nothing by a section that formats it: all of its lines are new.
    pub fn whole(section: &Section<'_>, page_bytes: usize) -> Result<Self, Misfit> {
        let mut bytes = buffer(page_bytes);
        section.apply_all(&mut bytes)?;
        let lines = std::iter::once(0..bytes.len()).collect();
        let read = Vec::new();
        Ok(Self { bytes, lines, read })
    }

    /// The operations done to a page that is intact. The first line is always among those that differ.
    pub fn of(section: &Section<'_>, old: &[u8]) -> Result<Self, Misfit> {
        let reach = section.single().and_then(|op| reach(&op, old));
        let read = reach.map_or_else(|| std::iter::once(0..old.len()).collect(), in_lines);
        let mut bytes = buffer(old.len());
        for lines in &read {
            bytes[lines.clone()].copy_from_slice(&old[lines.clone()]);
        }
        section.apply_all(&mut bytes)?;
        let mut lines = std::iter::once(0..LINE_BYTES).collect();
        for reach in &read {
            differing(old, &bytes, reach.clone(), &mut lines);
        }
        Ok(Self { bytes, lines, read })
    }

    /// The lines that differ, neighbours together, in their order.
    pub fn lines(&self) -> &[Range<usize>] {
        &self.lines
    }

    /// The lines of the old page that were read.
    pub fn read(&self) -> &[Range<usize>] {
        &self.read
    }

    /// As long as the page; it is the new one in the lines that differ.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Notes the record that has the change, and the checksum.
    pub fn seal(&mut self, old: &[u8], lsn: Lsn) {
        header::set_lsn(&mut self.bytes, lsn);
        if self.lines[0].len() == self.bytes.len() {
            return header::seal(&mut self.bytes);
        }
        let mut checksum = header::checksum(old);
        for lines in &self.lines {
            let covered = lines.start.max(header::CHECKSUM_BYTES)..lines.end;
            let behind = (old.len() - lines.end) / LINE_BYTES;
            let difference =
                crc32c::crc32c(&old[covered.clone()]) ^ crc32c::crc32c(&self.bytes[covered]);
            checksum ^= times(difference, LINES_BEHIND[behind]);
        }
        header::set_checksum(&mut self.bytes, checksum);
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.bytes);
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < SPARE_MAX {
                spare.push(buffer);
            }
        });
    }
}

/// Adds the lines of a range in which two contents of a page differ, but for those that are there.
pub fn differing(old: &[u8], new: &[u8], range: Range<usize>, lines: &mut Vec<Range<usize>>) {
    let both = old[range.clone()].chunks(BLOCK_BYTES);
    let both = both.zip(new[range.clone()].chunks(BLOCK_BYTES));
    for ((old, new), block) in both.zip(0..) {
        // Most of what is compared stays as it was.
        if old == new {
            continue;
        }
        let first = range.start + block * BLOCK_BYTES;
        let both = old.chunks(LINE_BYTES).zip(new.chunks(LINE_BYTES));
        for ((old, new), line) in both.zip(0..) {
            let start = first + line * LINE_BYTES;
            if old == new || lines.last().is_some_and(|last| start < last.end) {
                continue;
            }
            match lines.last_mut() {
                Some(last) if last.end == start => last.end += LINE_BYTES,
                _ => lines.push(start..start + LINE_BYTES),
            }
        }
    }
}

/// Whole lines that have the ranges, in their order and without a line twice.
fn in_lines(ranges: [Range<usize>; 3]) -> Vec<Range<usize>> {
    let mut ranges = ranges
        .map(|range| range.start / LINE_BYTES * LINE_BYTES..range.end.next_multiple_of(LINE_BYTES));
    ranges.sort_unstable_by_key(|range| range.start);
    let mut lines: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match lines.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => lines.push(range),
        }
    }
    lines
}

/// All bytes of a page on which an operation depends or that it changes, if they are few.
fn reach(op: &PageOp<'_>, page: &[u8]) -> Option<[Range<usize>; 3]> {
    let header = 0..HEADER_BYTES;
    let nothing = 0..0;
    if let PageOp::Link { .. } = op {
        return Some([header, nothing.clone(), nothing]);
    }
    if let PageOp::Bit { index, .. } = *op {
        let at = HEADER_BYTES + index as usize / 8;
        return (at < page.len()).then_some([header, at..at + 1, nothing]);
    }
    let kind = Header(page).kind();
    if !matches!(kind, Some(PageKind::Leaf | PageKind::Inner)) {
        return None;
    }
    let view = Slotted::new(page);
    let slots = |slots: Range<usize>| {
        HEADER_BYTES + slots.start * SLOT_BYTES..HEADER_BYTES + slots.end * SLOT_BYTES
    };
    // Where the heap has room for a cell without moving others.
    let room = |bytes: usize, slots: usize| {
        let heap = view.header().heap();
        let fits = heap <= page.len() && HEADER_BYTES + slots * SLOT_BYTES + bytes <= heap;
        fits.then(|| heap - bytes..heap)
    };
    match *op {
        PageOp::Insert { slot, cell, .. } => {
            let slot = usize::from(slot);
            let place = room(cell.len(), view.slots() + 1)?;
            (slot <= view.slots()).then(|| [header, slots(slot..view.slots() + 1), place])
        }
        PageOp::Remove { slot } => {
            let slot = usize::from(slot);
            (slot < view.slots()).then(|| [header, slots(slot..view.slots()), nothing])
        }
        PageOp::Replace { slot, cell, .. } => {
            let slot = usize::from(slot);
            let (start, bytes, _) = view.place(slot)?;
            let place = if bytes == cell.len() {
                start..start + bytes
            } else {
                room(cell.len(), view.slots())?
            };
            Some([header, slots(slot..slot + 1), place])
        }
        PageOp::Patch { slot, .. } => {
            let slot = usize::from(slot);
            let (start, bytes, _) = view.place(slot)?;
            Some([header, slots(slot..slot + 1), start..start + bytes])
        }
        _ => None,
    }
}

/// CRC32C's polynomial, the lowest power in the highest bit, as in all that follows.
const POLYNOMIAL: u32 = 0x82f6_3b78;
const ONE: u32 = 1 << 31;

/// The product of two polynomials, modulo CRC32C's.
const fn times(a: u32, mut b: u32) -> u32 {
    let (mut product, mut bit) = (0, ONE);
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        b = (b >> 1) ^ (if b & 1 == 0 { 0 } else { POLYNOMIAL });
        bit >>= 1;
    }
    product
}

/// What a checksum is multiplied by for so many lines behind it.
const LINES_BEHIND: [u32; LINES_MAX] = {
    // x to the number of a line's bits: squared as often as that is doubled.
    let mut line = ONE >> 1;
    let mut bits = 1;
    while bits < 8 * LINE_BYTES {
        line = times(line, line);
        bits *= 2;
    }
    let mut powers = [ONE; LINES_MAX];
    let mut number = 1;
    while number < LINES_MAX {
        powers[number] = times(powers[number - 1], line);
        number += 1;
    }
    powers
};

#[cfg(test)]
mod tests {
    use super::super::header::PageId;
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const ID: PageId = PageId(7);
    const PAGE: usize = 1024;

    #[test]
    fn lines_that_differ_are_named_once_and_the_first_always() {
        let old = vec![0; 512];
        let found = |new: &[u8]| {
            let mut lines = std::iter::once(0..LINE_BYTES).collect();
            differing(&old, new, 0..512, &mut lines);
            lines
        };
        assert_eq!(found(&old).len(), 1);
        let mut new = old.clone();
        for at in [70, 127, 128, 300, 511] {
            new[at] = 1;
        }
        assert_eq!(found(&new), [0..192, 256..320, 448..512]);
    }

    fn op((what, slot, at): (u8, u16, u16), bytes: &[u8]) -> PageOp<'_> {
        let is_long = at % 2 == 1;
        match what {
            0..4 => PageOp::Insert {
                slot,
                is_long,
                cell: bytes,
            },
            4 => PageOp::Remove { slot },
            5 => PageOp::Replace {
                slot,
                is_long,
                cell: bytes,
            },
            6 => PageOp::Patch { slot, at, bytes },
            7 => PageOp::Truncate { slots: slot },
            _ => PageOp::Link {
                link: PageId(at.into()),
            },
        }
    }

    proptest! {
        /// A draft is the page with the operation done to it, checksum and all, whatever the bytes are that it did not copy.
        #[test]
        fn a_draft_is_the_page_with_the_operation_done(
            steps in vec(((0_u8..9, 0_u16..24, 0_u16..40), vec(any::<u8>(), 8..120)), 1..80),
        ) {
            let mut page = vec![0; PAGE];
            let format = PageOp::Format {
                kind: PageKind::Leaf, level: 0, key_words: 1, link: PageId(0),
            };
            format.apply(&mut page, ID).unwrap();
            header::seal(&mut page);
            for ((what, bytes), number) in steps.iter().zip(1..) {
                let mut ops = Vec::new();
                op(*what, bytes).encode(&mut ops);
                let section = Section::new(ID, &ops);
                let mut expected = page.clone();
                let done = section.apply(&mut expected, Lsn(number));
                header::seal(&mut expected);
                let draft = Draft::of(&section, &page);
                prop_assert_eq!(draft.is_ok(), done.is_ok());
                let Ok(mut draft) = draft else { continue };
                draft.seal(&page, Lsn(number));
                for lines in draft.lines() {
                    page[lines.clone()].copy_from_slice(&draft.bytes()[lines.clone()]);
                }
                prop_assert_eq!(&page, &expected);
                prop_assert!(Header(&page).is_intact(ID));
            }
        }
    }
}
