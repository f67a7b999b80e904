//! Page accesses: reports of the bytes of a page that were read, for memories that account for
//! loads.
//!
//! A page in durable memory is read in place, and most operations read little of it: a search needs
//! the header, some slots and some keys. So a reader reports to the page's guard, after the fact,
//! which ranges it has read. Each range is one load of the memory, in the order in which they are
//! needed. A page in ordinary memory costs nothing, and where no load is counted, a [`PageAccess`]
//! is ignored.

use crate::page::header::HEADER_BYTES;
use crate::page::{Header, PageKind, Slotted};
use std::ops::Range;

/// The part of a page that was read.
#[derive(Clone, Copy, Debug)]
pub enum PageAccess<'l> {
    /// The header alone.
    Header,
    /// The header, the slots and keys that a search compares, and the cell that it ends at: the one
    /// with the key, or on an inner page the one that names the child.
    Key(&'l [u64]),
    /// The header, and this many bytes after it.
    Content(usize),
    /// Some ranges.
    Ranges(&'l [Range<usize>]),
    /// Everything.
    Whole,
}

impl PageAccess<'_> {
    /// Calls `read` with each range of the page, in the order in which they are needed.
    pub(super) fn ranges(self, page: &[u8], read: &mut dyn FnMut(Range<usize>)) {
        match self {
            Self::Header => read(0..HEADER_BYTES),
            Self::Key(key) => search(page, key, read),
            Self::Content(bytes) => read(0..(HEADER_BYTES + bytes).min(page.len())),
            Self::Ranges(ranges) => ranges.iter().cloned().for_each(read),
            Self::Whole => read(0..page.len()),
        }
    }
}

/// Each comparison needs a slot first, to know where the key is.
fn search(page: &[u8], key: &[u64], read: &mut dyn FnMut(Range<usize>)) {
    read(0..HEADER_BYTES);
    let view = Slotted::new(page);
    let (slot, is_there) = view.search_noting(key, &mut |slot| {
        read(Slotted::slot_range(slot));
        read(view.key_range(slot));
    });
    let has_children = Header(page).kind() == Some(PageKind::Inner);
    let end = if is_there {
        Some(slot)
    } else {
        // The link is in the header.
        slot.checked_sub(1).filter(|_| has_children)
    };
    if let Some(slot) = end {
        read(view.cell_range(slot));
    }
}

#[cfg(test)]
mod tests {
    use super::PageAccess;
    use crate::page::header::HEADER_BYTES;
    use crate::page::{PageId, PageKind, PageOp};
    use std::collections::BTreeSet;

    const LINE_BYTES: usize = 64;
    const CELL_BYTES: usize = 108;
    const CELLS: u64 = 64;

    /// A page with the even numbers as keys.
    fn page(kind: PageKind, cell_bytes: usize) -> Vec<u8> {
        let mut page = vec![0; 8192];
        let format = PageOp::Format {
            kind,
            level: u8::from(kind == PageKind::Inner),
            key_words: 1,
            link: PageId(1),
        };
        format.apply(&mut page, PageId(7)).unwrap();
        for slot in 0..CELLS {
            let mut cell = (2 * slot).to_le_bytes().to_vec();
            cell.resize(cell_bytes, 1);
            let insert = PageOp::Insert {
                slot: slot as u16,
                is_long: false,
                cell: &cell,
            };
            insert.apply(&mut page, PageId(7)).unwrap();
        }
        page
    }

    /// The ranges, and the lines that they touch.
    fn looked(
        page: &[u8],
        access: PageAccess<'_>,
    ) -> (Vec<std::ops::Range<usize>>, BTreeSet<usize>) {
        let mut ranges = Vec::new();
        access.ranges(page, &mut |range| ranges.push(range));
        let lines = |range: &std::ops::Range<usize>| {
            range.start / LINE_BYTES..range.end.div_ceil(LINE_BYTES)
        };
        let lines = ranges.iter().flat_map(lines).collect();
        (ranges, lines)
    }

    #[test]
    fn a_key_costs_the_header_what_is_compared_and_its_cell() {
        let leaf = page(PageKind::Leaf, CELL_BYTES);
        // Half of 64 cells, six times, and once more to be certain.
        let compared_max = 7;
        for key in 0..2 * CELLS + 2 {
            let (ranges, lines) = looked(&leaf, PageAccess::Key(&[key]));
            let is_there = key % 2 == 0 && key < 2 * CELLS;
            let compared = (ranges.len() - 1) / 2;
            assert_eq!(ranges.len(), 1 + 2 * compared + usize::from(is_there));
            assert!((1..=compared_max).contains(&compared), "{key}: {compared}");
            // The slots of 64 cells have five lines with the header, a key one, and the cell at
            // most two more.
            assert!(lines.len() <= 5 + compared_max + 2, "{key}: {lines:?}");
            assert!(lines.contains(&0));
            if is_there {
                let cell = ranges.last().unwrap();
                assert_eq!(cell.len(), CELL_BYTES);
                assert_eq!(leaf[cell.clone()][..8], key.to_le_bytes());
            }
        }
    }

    #[test]
    fn the_way_to_a_child_costs_the_cell_that_names_it() {
        let inner = page(PageKind::Inner, 12);
        let (ranges, _) = looked(&inner, PageAccess::Key(&[21]));
        let cell = ranges.last().unwrap();
        assert_eq!(
            (cell.len(), &inner[cell.clone()][..8]),
            (12, &20_u64.to_le_bytes()[..])
        );
        // In front of the first key the child is in the header.
        let (ranges, _) = looked(&page(PageKind::Inner, 12), PageAccess::Key(&[0]));
        assert_eq!(ranges[0], 0..HEADER_BYTES);
    }

    #[test]
    fn other_looks_are_what_they_say() {
        let page = page(PageKind::Leaf, CELL_BYTES);
        assert_eq!(
            looked(&page, PageAccess::Whole).1.len(),
            page.len() / LINE_BYTES
        );
        assert_eq!(looked(&page, PageAccess::Header).1.len(), 1);
        let content = looked(&page, PageAccess::Content(100)).0;
        assert_eq!(content, std::slice::from_ref(&(0..HEADER_BYTES + 100)));
        let (some, lines) = ([64..128, 640..700], [1, 10]);
        let (ranges, found) = looked(&page, PageAccess::Ranges(&some));
        assert_eq!((ranges, found), (some.to_vec(), BTreeSet::from(lines)));
    }
}
