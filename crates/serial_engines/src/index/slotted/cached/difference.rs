//! The content of a page in a record: `difference { at u16 | bytes u16 | the new bytes }`, any
//! number.
//!
//! In `nvwal` these are the bytes that differ from the committed page. In `slot-header-journal`
//! they are the lines of a page's new header, and each cell that it names and the header before did
//! not, whole; other bytes of the page count for nothing. Recovery does the same with both.

use super::log::{ENTRY_BYTES, damaged, read_u64};
use crate::index::slotted::cell::Cell;
use crate::index::slotted::header::{
    Geometry, LINE, LINES_MAX, PageBytes, SLOTS_MAX, changed_header, line_at, slot_at,
};
use storage::Result;

/// Bytes of a difference before its new ones.
const DIFFERENCE_BYTES: usize = 4;
/// Equal bytes between two differences that are one for that reason: they take as many as the head
/// of another.
const GAP_BYTES: usize = 4;
/// The shortest cell: its first word and a key of one.
const CELL_BYTES_MIN: usize = 16;

/// The part of a slotted page that a record stores, unless it brings the page into use.
#[derive(Clone, Copy, Default)]
pub(super) enum Form {
    /// The bytes that differ.
    #[default]
    Differences,
    /// Header and new cells of a page that is divided like this.
    HeaderAndCells(Geometry),
}

impl Form {
    /// Bytes that a page takes in a record at most.
    pub(super) fn entry_bytes_max(self, page_bytes: usize) -> usize {
        // Each difference but the last is followed by more equal bytes than its head is long.
        let heads = match self {
            Self::Differences => 0,
            Self::HeaderAndCells(_) => LINES_MAX + SLOTS_MAX.min(page_bytes / CELL_BYTES_MIN),
        };
        page_bytes + ENTRY_BYTES + 16 + heads * DIFFERENCE_BYTES
    }
}

/// The bytes of one page, the first one at 0.
struct Image<'p>(&'p [u8]);

impl PageBytes for Image<'_> {
    fn bytes(&self, at: u64, bytes: usize) -> Result<&[u8]> {
        let first = at as usize;
        let found = self.0.get(first..first.saturating_add(bytes));
        found.ok_or_else(|| damaged(at, "a cell leaves its page"))
    }

    fn word(&self, at: u64) -> Result<u64> {
        Ok(read_u64(self.bytes(at, 8)?, 0))
    }
}

/// Slots of the header in a place of a page.
fn slots(page: &[u8], place: usize) -> impl Iterator<Item = u8> {
    let count = page[line_at(place, 0) + 1];
    let at = (0..usize::from(count)).map(move |index| slot_at(place, index));
    at.filter_map(|at| page.get(at).copied())
}

/// The cell at a slot of a page.
fn cell_at(geometry: Geometry, page: &[u8], slot: u8) -> Result<(usize, &[u8])> {
    let at = usize::from(slot) * geometry.unit;
    let cell = Cell::open(&Image(page), at as u64, page.len() as u64)?;
    Ok((at, &page[at..at + cell.bytes()]))
}

/// Appends the header of the slotted page `page` that `new` has and `old` has not, and the cells
/// that it names anew. Nothing if the header is the same: then other changes were taken back.
pub(super) fn append_header_and_cells(
    geometry: Geometry,
    (page, old, new): (u64, &[u8], &[u8]),
    out: &mut Vec<u8>,
) -> Result<()> {
    let Some((place, lines)) = changed_header(old, new) else {
        return Ok(());
    };
    for line in 0..lines {
        let at = line_at(place, line);
        append_difference(at, &new[at..at + LINE], out);
    }
    let mut is_named = [false; 256];
    for slot in slots(old, 1 - place) {
        is_named[usize::from(slot)] = true;
    }
    for slot in slots(new, place) {
        let wrong = |_| damaged(page, "its header names a cell outside of it");
        let (at, cell) = cell_at(geometry, new, slot).map_err(wrong)?;
        if !is_named[usize::from(slot)] {
            append_difference(at, cell, out);
        }
        // Room that the header in force names is not stored to.
        debug_assert!(!is_named[usize::from(slot)] || old.get(at..at + cell.len()) == Some(cell));
    }
    Ok(())
}

/// Makes differences in the bytes of a page, which is at `page` at home.
pub(super) fn apply(page: u64, differences: &[u8], bytes: &mut [u8]) -> Result<()> {
    let wrong = || damaged(page, "the differences of a page are damaged");
    let mut rest = differences;
    while !rest.is_empty() {
        let (head, more) = rest.split_at_checked(4).ok_or_else(wrong)?;
        let at = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let count = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let (content, more) = more.split_at_checked(count).ok_or_else(wrong)?;
        let place = bytes.get_mut(at..at + count).ok_or_else(wrong)?;
        place.copy_from_slice(content);
        rest = more;
    }
    Ok(())
}

/// Appends where `new` differs from `old`, which is as long, and how.
pub(super) fn append_differences(old: &[u8], new: &[u8], out: &mut Vec<u8>) {
    let mut at = next_difference(old, new, 0);
    while at < new.len() {
        let mut end = at + 1;
        loop {
            while end < new.len() && old[end] != new[end] {
                end += 1;
            }
            let next = next_difference(old, new, end);
            if next >= new.len() || next - end > GAP_BYTES {
                break;
            }
            end = next + 1;
        }
        append_difference(at, &new[at..end], out);
        at = next_difference(old, new, end);
    }
}

fn append_difference(at: usize, new: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(at as u16).to_le_bytes());
    out.extend_from_slice(&(new.len() as u16).to_le_bytes());
    out.extend_from_slice(new);
}

/// The first place from `at` on where two pages differ, or their length.
fn next_difference(old: &[u8], new: &[u8], mut at: usize) -> usize {
    while at < new.len() && !at.is_multiple_of(8) {
        if old[at] != new[at] {
            return at;
        }
        at += 1;
    }
    while at + 8 <= new.len() {
        let different = read_u64(old, at) ^ read_u64(new, at);
        if different != 0 {
            return at + (different.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    new.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE_BYTES: usize = 1024;

    struct Random(u64);

    impl Random {
        fn below(&mut self, end: usize) -> usize {
            self.0 = pmem::device::simulated::mix(self.0.wrapping_add(1));
            (self.0 % end as u64) as usize
        }

        /// A page with some sectors of one and some of the other.
        fn torn(&mut self, old: &[u8], new: &[u8]) -> Vec<u8> {
            let (mut torn, half) = (old.to_vec(), 512 * self.below(2));
            torn[half..half + 512].copy_from_slice(&new[half..half + 512]);
            torn
        }
    }

    #[test]
    fn differences_make_a_page_of_any_mixture_of_the_old_and_the_new_one() {
        let mut random = Random(7);
        for _ in 0..200 {
            let old: Vec<u8> = (0..PAGE_BYTES).map(|_| random.below(4) as u8).collect();
            let mut new = old.clone();
            for _ in 0..random.below(20) {
                let (at, bytes) = (random.below(PAGE_BYTES), random.below(64));
                for byte in new.iter_mut().skip(at).take(bytes) {
                    *byte = random.below(4) as u8;
                }
            }
            let mut differences = Vec::new();
            append_differences(&old, &new, &mut differences);
            let mut torn = random.torn(&old, &new);
            apply(0, &differences, &mut torn).unwrap();
            assert_eq!(torn, new);
            let most = Form::Differences.entry_bytes_max(PAGE_BYTES);
            assert!(differences.len() + ENTRY_BYTES <= most);
        }
    }

    /// Stores a header with these slots.
    fn store_header(page: &mut [u8], place: usize, slots: &[u8], word: u64) {
        let first = line_at(place, 0);
        page[first..first + 4].copy_from_slice(&[0, slots.len() as u8, 0, 0x5d]);
        page[first + LINE - 8..first + LINE].copy_from_slice(&word.to_le_bytes());
        for (index, &slot) in slots.iter().enumerate() {
            page[slot_at(place, index)] = slot;
        }
    }

    /// Pages after a few groups, each with a header in its turn and cells in free room. Whatever
    /// sectors of them a cut has left, and whatever lies where no header names anything, the
    /// records make the headers and the cells that count.
    #[test]
    fn headers_and_cells_make_what_counts_of_any_mixture() {
        let geometry = Geometry::new(PAGE_BYTES, usize::MAX);
        let form = Form::HeaderAndCells(geometry);
        let mut random = Random(11);
        for _ in 0..300 {
            let mut page: Vec<u8> = (0..PAGE_BYTES).map(|_| random.below(256) as u8).collect();
            // Cells of 16 or 24 bytes, in places of 32.
            let free = geometry.head_units(1).div_ceil(4)..geometry.units / 4;
            let mut named: Vec<u8> = Vec::new();
            let mut word = 1;
            store_header(&mut page, 0, &named, 0);
            store_header(&mut page, 1, &named, word);
            let home = page.clone();
            let mut records = Vec::new();
            for _ in 0..=random.below(5) {
                let old = page.clone();
                let before = named.clone();
                for _ in 0..random.below(6) {
                    let slot = 4 * (free.start + random.below(free.len())) as u8;
                    if !before.contains(&slot) && !named.contains(&slot) {
                        let at = usize::from(slot) * geometry.unit;
                        page[at..at + 24].fill_with(|| random.below(256) as u8);
                        let value = 8 * random.below(2) as u8;
                        page[at + 4..at + 8].copy_from_slice(&[value, 0, 1, 0]);
                        named.insert(random.below(named.len() + 1), slot);
                    } else if named.len() > 3 {
                        named.remove(random.below(named.len()));
                    }
                }
                word += 1;
                store_header(&mut page, word as usize % 2, &named, word);
                let mut record = Vec::new();
                append_header_and_cells(geometry, (0, &old, &page), &mut record).unwrap();
                assert!(record.len() + ENTRY_BYTES <= form.entry_bytes_max(PAGE_BYTES));
                records.push(record);
            }
            let mut torn = random.torn(&home, &page);
            for record in &records {
                apply(0, record, &mut torn).unwrap();
            }
            assert_eq!(torn[..2 * LINE], page[..2 * LINE]);
            for slot in named {
                let found = cell_at(geometry, &torn, slot).unwrap();
                assert_eq!(found, cell_at(geometry, &page, slot).unwrap());
            }
        }
    }
}
