//! A cell of a slotted page, and the room for cells.
//!
//! ```text
//! word 0  crc32c of all that follows u32 | bytes of the value u16 | words of the key u8 | kind u8
//! words   key
//! bytes   value: the child's page u64 (inner page), what the tree has for the key (leaf), or
//!         first page u64 and bytes u64 of a chain of long pages (kind 1)
//! ```
//!
//! A page gives room below its lowest cell first. When that is used up, a gap is sought among the
//! cells that some header still names: the one in force, the one that the group is making, and
//! those that a rollback of the open transaction may restore.

use super::header::{Geometry, PageBytes, damaged};
use pmem::{Arena, Memory};
use storage::Result;

/// The value lies in the cell.
pub(super) const INLINE: u8 = 0;
/// The value lies in long pages.
pub(super) const LONG: u8 = 1;
/// Bytes of the reference to a value in long pages: offset and length.
pub(super) const LONG_BYTES: usize = 16;

/// Bytes of a cell.
pub(super) fn cell_bytes(key_words: usize, value_bytes: usize) -> usize {
    8 + 8 * key_words + value_bytes
}

/// Makes a cell in `cell`.
pub(super) fn encode(cell: &mut Vec<u8>, key: &[u64], kind: u8, value: &[u8]) {
    cell.clear();
    cell.extend_from_slice(&[0; 4]);
    cell.extend_from_slice(&(value.len() as u16).to_le_bytes());
    cell.extend_from_slice(&[key.len() as u8, kind]);
    for word in key {
        cell.extend_from_slice(&word.to_le_bytes());
    }
    cell.extend_from_slice(value);
    let sum = crc32c::crc32c(&cell[4..]);
    cell[..4].copy_from_slice(&sum.to_le_bytes());
}

/// A cell in its page.
#[derive(Clone, Copy)]
pub(super) struct Cell {
    pub(super) at: u64,
    pub(super) key_words: usize,
    pub(super) value_bytes: usize,
    pub(super) kind: u8,
}

impl Cell {
    /// The cell at `at`, which ends before `end`.
    #[inline]
    pub(super) fn open(pages: &impl PageBytes, at: u64, end: u64) -> Result<Self> {
        let word = pages.word(at)?;
        let cell = Self {
            at,
            value_bytes: usize::from((word >> 32) as u16),
            key_words: usize::from((word >> 48) as u8),
            kind: (word >> 56) as u8,
        };
        if at + cell.bytes() as u64 > end || cell.kind > LONG {
            return Err(damaged(at, "a cell says more than it has room for"));
        }
        Ok(cell)
    }

    pub(super) fn bytes(self) -> usize {
        cell_bytes(self.key_words, self.value_bytes)
    }

    /// The value's bytes.
    #[inline]
    pub(super) fn value(self, pages: &impl PageBytes) -> Result<&[u8]> {
        let at = self.at + 8 + 8 * self.key_words as u64;
        pages.bytes(at, self.value_bytes)
    }

    /// The value's words.
    #[inline]
    pub(super) fn value_words<M: Memory>(self, arena: &Arena<M>) -> Result<&[u64]> {
        let at = self.at + 8 + 8 * self.key_words as u64;
        Ok(arena.slice(at, self.value_bytes / 8)?)
    }

    /// Offset of a value in long pages, and its bytes.
    pub(super) fn long(self, pages: &impl PageBytes) -> Result<(u64, u64)> {
        if self.kind != LONG || self.value_bytes != LONG_BYTES {
            return Err(damaged(self.at, "a cell of a long value has no place"));
        }
        let at = self.at + 8 + 8 * self.key_words as u64;
        Ok((pages.word(at)?, pages.word(at + 8)?))
    }

    /// Whether its checksum fits.
    pub(super) fn is_sound(self, pages: &impl PageBytes) -> Result<bool> {
        let bytes = pages.bytes(self.at, self.bytes())?;
        let (sum, rest) = bytes.split_at(4);
        Ok(crc32c::crc32c(rest).to_le_bytes() == *sum)
    }
}

/// Units of a page that cells lie in.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Used {
    pub(super) bits: [u64; 4],
}

impl Used {
    pub(super) fn mark(&mut self, first: usize, units: usize) {
        for (word, mask) in pieces(first, units) {
            self.bits[word] |= mask;
        }
    }

    pub(super) fn unmark(&mut self, first: usize, units: usize) {
        for (word, mask) in pieces(first, units) {
            self.bits[word] &= !mask;
        }
    }

    /// Marks what is marked there.
    pub(super) fn mark_all(&mut self, other: &Self) {
        for (word, mask) in self.bits.iter_mut().zip(other.bits) {
            *word |= mask;
        }
    }

    /// Marks units; false if one of them was marked.
    pub(super) fn take(&mut self, first: usize, units: usize) -> bool {
        let is_free = pieces(first, units).all(|(word, mask)| self.bits[word] & mask == 0);
        self.mark(first, units);
        is_free
    }

    /// The last place between `low` and the end of the page where `units` in a row, one at least,
    /// are free.
    pub(super) fn gap(&self, geometry: Geometry, low: usize, units: usize) -> Option<usize> {
        let mut runs = [0; 4];
        for (word, mask) in pieces(low, geometry.units.saturating_sub(low)) {
            runs[word] = !self.bits[word] & mask;
        }
        // A bit remains where a run of `length` free units begins.
        let mut length = 1;
        while length < units {
            let more = length.min(units - length);
            let behind = shifted_down(runs, more);
            runs = [0, 1, 2, 3].map(|word| runs[word] & behind[word]);
            length += more;
        }
        let word = runs.iter().rposition(|&word| word != 0)?;
        Some(64 * word + runs[word].ilog2() as usize)
    }
}

/// The bits of units of a page: the words that have some of them, and which they are there.
fn pieces(first: usize, units: usize) -> impl Iterator<Item = (usize, u64)> {
    let (mut at, end) = (first, (first + units).min(256));
    std::iter::from_fn(move || {
        let bits = end
            .checked_sub(at)
            .filter(|&left| left > 0)?
            .min(64 - at % 64);
        let piece = (at / 64, u64::MAX >> (64 - bits) << (at % 64));
        at += bits;
        Some(piece)
    })
}

/// Every bit `by` places lower.
fn shifted_down(bits: [u64; 4], by: usize) -> [u64; 4] {
    [0, 1, 2, 3].map(|word| {
        let word = word + by / 64;
        let low = bits.get(word).copied().unwrap_or(0);
        let high = bits.get(word + 1).copied().unwrap_or(0);
        ((u128::from(high) << 64 | u128::from(low)) >> (by % 64)) as u64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_those_that_a_search_unit_by_unit_finds() {
        let mut random = 3_u64;
        let mut below = |end: u64| {
            random = pmem::device::simulated::mix(random.wrapping_add(1));
            (random % end) as usize
        };
        for _ in 0..2000 {
            let geometry = Geometry::new(64 * (8 + below(120)), 200);
            let (mut used, mut expected) = (Used::default(), [false; 256]);
            for _ in 0..below(40) {
                let (first, units) = (below(256), below(80));
                let range = first..(first + units).min(256);
                let is_free = !expected[range.clone()].contains(&true);
                assert_eq!(used.take(first, units), is_free);
                expected[range].fill(true);
            }
            let (low, units) = (below(200), 1 + below(90));
            let places = (low..geometry.units.saturating_sub(units - 1)).rev();
            let mut free = places.filter(|&at| !expected[at..at + units].contains(&true));
            assert_eq!(used.gap(geometry, low, units), free.next());
        }
    }
}
