//! The new content of a page, prepared in a copy.
//!
//! Only the lines that the operations need are copied, where these are known in advance: most
//! changes need the header, a slot and a cell, and the rest of the page is neither read nor
//! compared. The checksum of the new page follows from the old one's and the lines that differ,
//! since a CRC is linear: the contribution of a line depends on the line and on the number of bytes
//! after it.

use super::header::{self, HEADER_BYTES, Header, PageKind};
use super::op::{Misfit, PageOp, Section};
use super::slotted::{SLOT_BYTES, Slotted};
use std::cell::RefCell;
use std::ops::Range;
use storage::log::Lsn;

/// Differences are counted in cache lines.
pub const LINE_BYTES: usize = 64;
/// Bytes that are compared at once.
const BLOCK_BYTES: usize = 8 * LINE_BYTES;
/// The longest page, in lines.
const LINES_MAX: usize = *super::header::PAGE_BYTES.end() as usize / LINE_BYTES;

thread_local! {
    /// Drafts that are gone, for their buffers: every change needs one or two.
    static SPARE: RefCell<Vec<Content>> = const { RefCell::new(Vec::new()) };
}
/// Drafts whose buffers a thread keeps.
const SPARE_MAX: usize = 4;

/// The new content of some lines of a page.
pub struct Draft(Content);

#[derive(Default)]
struct Content {
    /// As long as the page; right in `lines` only.
    bytes: Vec<u8>,
    lines: Vec<Range<usize>>,
    /// Ranges of the page that were read.
    read: Vec<Range<usize>>,
    /// Operations that restore the lines.
    before: Vec<u8>,
}

impl Draft {
    /// `page_bytes` arbitrary bytes, and no lines.
    fn blank(page_bytes: usize) -> Self {
        let mut content = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        content.bytes.resize(page_bytes, 0);
        content.lines.clear();
        content.read.clear();
        content.before.clear();
        Self(content)
    }

    /// A page made from nothing by a section that formats it: all of its lines are new, and nothing
    /// gives the old ones back.
    pub fn whole(section: &Section<'_>, page_bytes: usize) -> Result<Self, Misfit> {
        let mut draft = Self::blank(page_bytes);
        section.apply_all(&mut draft.0.bytes)?;
        draft.0.lines.push(0..page_bytes);
        Ok(draft)
    }

    /// The operations done to a page that is intact. The first line is always among those that
    /// differ.
    pub fn of(section: &Section<'_>, old: &[u8]) -> Result<Self, Misfit> {
        let mut draft = Self::blank(old.len());
        let Content {
            bytes,
            lines,
            read,
            before,
        } = &mut draft.0;
        match section.single().and_then(|op| reach(&op, old)) {
            Some(reach) => in_lines(reach, read),
            None => read.push(0..old.len()),
        }
        for lines in read.iter() {
            bytes[lines.clone()].copy_from_slice(&old[lines.clone()]);
        }
        section.apply_all(bytes)?;
        lines.push(0..LINE_BYTES);
        for reach in read.iter() {
            differing(old, bytes, reach.clone(), lines);
        }
        for line in lines.iter() {
            let at = line.start as u16;
            let bytes = &old[line.clone()];
            PageOp::Before { at, bytes }.encode(before);
        }
        Ok(draft)
    }

    /// The lines that differ, neighbours together, in their order.
    pub fn lines(&self) -> &[Range<usize>] {
        &self.0.lines
    }

    /// The lines of the old page that were read.
    pub fn read(&self) -> &[Range<usize>] {
        &self.0.read
    }

    /// Operations that restore the old content of the lines.
    pub fn before(&self) -> &[u8] {
        &self.0.before
    }

    /// As long as the page; it is the new one in the lines that differ.
    pub fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// Notes the record that has the change, and the checksum.
    pub fn seal(&mut self, old: &[u8], lsn: Lsn) {
        let Content { bytes, lines, .. } = &mut self.0;
        header::set_lsn(bytes, lsn);
        reseal(old, bytes, lines);
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let content = std::mem::take(&mut self.0);
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < SPARE_MAX {
                spare.push(content);
            }
        });
    }
}

/// Gives a page its checksum, where the old one was intact and differs in some lines only, or the
/// new one is whole.
pub fn reseal(old: &[u8], new: &mut [u8], lines: &[Range<usize>]) {
    if lines.first().is_some_and(|first| first.len() == new.len()) {
        return header::seal(new);
    }
    let mut checksum = header::checksum(old);
    for lines in lines {
        let difference = crc_of_difference(&old[lines.clone()], &new[lines.clone()], lines.start);
        let behind = (old.len() - lines.end) / LINE_BYTES;
        checksum ^= times(difference, LINES_BEHIND[behind]);
    }
    header::set_checksum(new, checksum);
}

/// The difference between the checksums of two contents of some lines: the checksum of their
/// difference, without the initial and final values that every checksum has.
fn crc_of_difference(old: &[u8], new: &[u8], start: usize) -> u32 {
    let mut crc = 0;
    let (old, new) = (
        old.as_chunks::<LINE_BYTES>().0,
        new.as_chunks::<LINE_BYTES>().0,
    );
    for ((old, new), number) in old.iter().zip(new).zip(0..) {
        let mut difference = [0; LINE_BYTES];
        for (difference, (old, new)) in difference.iter_mut().zip(old.iter().zip(new)) {
            *difference = old ^ new;
        }
        if start == 0 && number == 0 {
            // The checksum does not cover itself, and leading zeros change nothing.
            difference[..header::CHECKSUM_BYTES].fill(0);
        }
        crc = !crc32c::crc32c_append(!crc, &difference);
    }
    crc
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
fn in_lines(ranges: [Range<usize>; 3], lines: &mut Vec<Range<usize>>) {
    let mut ranges = ranges
        .map(|range| range.start / LINE_BYTES * LINE_BYTES..range.end.next_multiple_of(LINE_BYTES));
    ranges.sort_unstable_by_key(|range| range.start);
    for range in ranges {
        match lines.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => lines.push(range),
        }
    }
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
    // Range in the heap with room for a cell, without moving others.
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

/// A polynomial times x.
const fn times_x(a: u32) -> u32 {
    (a >> 1) ^ (if a & 1 == 0 { 0 } else { POLYNOMIAL })
}

/// Remainders of the four highest powers of a polynomial after a multiplication by x^4.
const CARRIED: [u32; 16] = {
    let mut carried = [0; 16];
    let mut powers = 0;
    while powers < 16 {
        carried[powers] = times_x(times_x(times_x(times_x(powers as u32))));
        powers += 1;
    }
    carried
};

/// The product of two polynomials, modulo CRC32C's: four powers of the one at a time, the highest
/// first.
const fn times(a: u32, b: u32) -> u32 {
    let mut multiples = [0; 16];
    let mut power = 8;
    let mut multiple = b;
    while power > 0 {
        let mut other = 0;
        while other < 16 {
            if other & power != 0 {
                multiples[other] ^= multiple;
            }
            other += 1;
        }
        multiple = times_x(multiple);
        power /= 2;
    }
    let (mut product, mut shift) = (0_u32, 0);
    while shift < u32::BITS {
        product = (product >> 4) ^ CARRIED[(product & 15) as usize];
        product ^= multiples[(a >> shift & 15) as usize];
        shift += 4;
    }
    product
}

/// Factors that move a checksum over this many later lines.
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
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use storage::engine::PageId;

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
        /// A draft is the page with the operation done to it, checksum and all, whatever the bytes
        /// are that it did not copy.
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
