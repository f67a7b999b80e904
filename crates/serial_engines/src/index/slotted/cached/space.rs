//! Allocation maps: the pages of the file of `nvwal` or `slot-header-journal` that are in use.
//!
//! ```text
//! page 1   crc32c u32 | magic u32 | root of the directory u64 | end u64 | free u64 | zeros
//! map      crc32c u32 | magic u32 | a bit for each page, 1 for one in use
//! ```
//!
//! Each group of as many pages as a map has bits for has its map as third page. Maps and page 1
//! change as all other pages do, by differences in the log. They have no bits themselves. The end
//! is the number of pages that were ever used, and free is how many of them are not in use now.

use super::log::read_u64;

const MASTER_MAGIC: u32 = 0x6d77_766e;
const MAP_MAGIC: u32 = 0x7077_766e;
const HEAD_BYTES: usize = 8;
/// The page with root, end and free.
pub(super) const MASTER: u64 = 1;
/// Index of a map in its group.
const MAP_IN_GROUP: u64 = 2;

/// Root and space of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) root: u64,
    /// Pages ever used.
    pub(super) end: u64,
    /// Those of them that are free.
    pub(super) free: u64,
}

impl Space {
    /// That of a new file: identity, master and the first map.
    pub(super) fn of_new() -> Self {
        Self {
            root: 0,
            end: MAP_IN_GROUP + 1,
            free: 0,
        }
    }

    pub(super) fn write(self, master: &mut [u8]) {
        for (number, word) in [self.root, self.end, self.free].into_iter().enumerate() {
            let at = HEAD_BYTES + 8 * number;
            master[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        seal(master, MASTER);
    }

    pub(super) fn read(master: &[u8]) -> Self {
        let word = |number: usize| read_u64(master, HEAD_BYTES + 8 * number);
        Self {
            root: word(0),
            end: word(1),
            free: word(2),
        }
    }
}

/// Pages of a group.
pub(super) fn group_pages(page_bytes: usize) -> u64 {
    8 * (page_bytes - HEAD_BYTES) as u64
}

/// The map that has the bit of page `number`.
pub(super) fn map_of(number: u64, page_bytes: usize) -> u64 {
    let group = group_pages(page_bytes);
    number / group * group + MAP_IN_GROUP
}

/// Whether a page is none of a tree.
pub(super) fn is_own(number: u64, page_bytes: usize) -> bool {
    number <= MASTER || number % group_pages(page_bytes) == MAP_IN_GROUP
}

/// Byte and bit of page `number` in its map.
fn place(number: u64, page_bytes: usize) -> (usize, u8) {
    let index = (number % group_pages(page_bytes)) as usize;
    (HEAD_BYTES + index / 8, 1 << (index % 8))
}

/// Whether a page is in use.
pub(super) fn is_used(map: &[u8], number: u64) -> bool {
    let (at, bit) = place(number, map.len());
    map[at] & bit != 0
}

/// Notes that a page is in use, or is not.
pub(super) fn set_used(map: &mut [u8], number: u64, is_used: bool) {
    let (at, bit) = place(number, map.len());
    if is_used {
        map[at] |= bit;
    } else {
        map[at] &= !bit;
    }
}

/// The bits of 64 pages from `number` on, a multiple of 64.
pub(super) fn word(map: &[u8], number: u64) -> u64 {
    let (at, _) = place(number, map.len());
    read_u64(map, at)
}

fn magic(number: u64) -> u32 {
    if number == MASTER {
        MASTER_MAGIC
    } else {
        MAP_MAGIC
    }
}

fn sum_of(page: &[u8], number: u64) -> u32 {
    crc32c::crc32c_append(number as u32, &page[4..])
}

/// Gives a changed page its checksum.
pub(super) fn seal(page: &mut [u8], number: u64) {
    page[4..8].copy_from_slice(&magic(number).to_le_bytes());
    let sum = sum_of(page, number);
    page[..4].copy_from_slice(&sum.to_le_bytes());
}

/// Whether the checksum of a page fits.
pub(super) fn is_sound(page: &[u8], number: u64) -> bool {
    page[..4] == sum_of(page, number).to_le_bytes() && page[4..8] == magic(number).to_le_bytes()
}
