//! The header that every page begins with.
//!
//! ```text
//! checksum u32, of all bytes after it | kind u8 | level u8 | key words u16 | LSN u64
//! | page number u32 | link u32 | slots u16 | heap u16 | dead u16 | hash u16 | content from 32 on
//! ```
//!
//! | field | meaning |
//! |---|---|
//! | checksum | CRC32C; right on the medium only, it is computed when a page is written |
//! | level | 0 for leaves; the parent's is one higher |
//! | LSN | position of the last log record that changed the page |
//! | page number | a page that was written to a wrong place is noticed |
//! | link | inner page: the child before the first key; long value: the next page, or 0 |
//! | slots | tree: number of cells; long value: bytes of content |
//! | heap | tree: where the cells begin; they grow towards the slots |
//! | dead | tree: bytes of cells that are not named any more |
//! | hash | a hash of all other bytes but the checksum, never 0; 0 if there is none, see below |
//!
//! The checksum alone does not detect every torn page. A value that ends with its own CRC32C, as
//! definitions of tables do, adds nothing to the CRC of what surrounds it; so where a write
//! replaces such a value by another of its kind, and is torn before it, the checksum is right for
//! both. The hash is not linear. Pages that an earlier version has written have none, nor have
//! pages that change in durable memory: they are not written whole, and a log guards them.

use std::ops::RangeInclusive;
use storage::engine::PageId;
use storage::log::Lsn;

/// Sizes that a page may have; powers of two. Below 4 KiB they serve tests, which need deep trees
/// of few rows.
pub const PAGE_BYTES: RangeInclusive<u32> = 512..=16384;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 32;

/// The checksum covers all bytes after it.
pub(super) const CHECKSUM_BYTES: usize = 4;
const KIND_AT: usize = 4;
const LEVEL_AT: usize = 5;
const KEY_WORDS_AT: usize = 6;
const LSN_AT: usize = 8;
const NUMBER_AT: usize = 16;
const LINK_AT: usize = 20;
const SLOTS_AT: usize = 24;
const HEAP_AT: usize = 26;
const DEAD_AT: usize = 28;
const HASH_AT: usize = 30;

/// Kind of content of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Keys with values.
    Leaf,
    /// Keys with children.
    Inner,
    /// A piece of a value that is too long for a leaf.
    Long,
    /// One bit for each page of the file: whether it is in use.
    Map,
}

impl PageKind {
    /// Stable number for headers.
    pub fn code(self) -> u8 {
        match self {
            Self::Leaf => 1,
            Self::Inner => 2,
            Self::Long => 3,
            Self::Map => 4,
        }
    }

    /// The kind of a number.
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Leaf, Self::Inner, Self::Long, Self::Map]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

/// Reads the header of a page.
#[derive(Clone, Copy)]
pub struct Header<'p>(pub &'p [u8]);

impl Header<'_> {
    #[inline]
    fn short(self, at: usize) -> usize {
        usize::from(u16::from_le_bytes(array(self.0, at)))
    }

    /// Kind of the page, if the bytes are one.
    #[inline]
    pub fn kind(self) -> Option<PageKind> {
        PageKind::from_code(self.0[KIND_AT])
    }

    /// Distance from the leaves.
    #[inline]
    pub fn level(self) -> u8 {
        self.0[LEVEL_AT]
    }

    /// Words of a key of the tree that the page belongs to.
    #[inline]
    pub fn key_words(self) -> usize {
        self.short(KEY_WORDS_AT)
    }

    /// The last change.
    #[inline]
    pub fn lsn(self) -> Lsn {
        Lsn(u64::from_le_bytes(array(self.0, LSN_AT)))
    }

    /// The page's number.
    #[inline]
    pub fn number(self) -> PageId {
        PageId(u32::from_le_bytes(array(self.0, NUMBER_AT)))
    }

    /// First child, or next page.
    #[inline]
    pub fn link(self) -> PageId {
        PageId(u32::from_le_bytes(array(self.0, LINK_AT)))
    }

    /// Number of cells, or bytes of a long value's piece.
    #[inline]
    pub fn slots(self) -> usize {
        self.short(SLOTS_AT)
    }

    /// Offset of the first cell.
    #[inline]
    pub fn heap(self) -> usize {
        self.short(HEAP_AT)
    }

    /// Bytes of cells that are not named any more.
    #[inline]
    pub fn dead(self) -> usize {
        self.short(DEAD_AT)
    }

    /// Whether the page is intact by its own header, and the requested one.
    pub fn is_intact(self, id: PageId) -> bool {
        self.number() == id
            && self.kind().is_some()
            && checksum(self.0) == crc32c::crc32c(&self.0[CHECKSUM_BYTES..])
            && [0, hash(self.0)].contains(&(self.short(HASH_AT) as u16))
    }
}

/// The bytes of a number at `at`, which lies in the header.
#[inline]
pub(super) fn array<const N: usize>(page: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&page[at..at + N]);
    bytes
}

/// A hash of a page but for its checksum and its hash: 64-bit words are multiplied in, in as many
/// chains as keep a processor busy.
fn hash(page: &[u8]) -> u16 {
    const FACTORS: [u64; 4] = [
        0x9e37_79b9_7f4a_7c15,
        0xbf58_476d_1ce4_e5b9,
        0x94d0_49bb_1331_11eb,
        0xd6e8_feb8_6659_fd93,
    ];
    let mut chains = FACTORS;
    let mut add = |words: &[u8; HEADER_BYTES]| {
        let words = words.as_chunks::<8>().0;
        for ((chain, word), factor) in chains.iter_mut().zip(words).zip(FACTORS) {
            *chain = (*chain ^ u64::from_le_bytes(*word)).wrapping_mul(factor);
        }
    };
    let (chunks, _) = page.as_chunks::<HEADER_BYTES>();
    if let Some((first, others)) = chunks.split_first() {
        let mut first = *first;
        first[..CHECKSUM_BYTES].fill(0);
        first[HASH_AT..].fill(0);
        add(&first);
        others.iter().for_each(add);
    }
    let folded = chains.iter().fold(0_u64, |folded, chain| {
        (folded.rotate_left(16) ^ chain).wrapping_mul(FACTORS[0])
    });
    ((folded >> 48) as u16).max(1)
}

/// Seals a page that is going to be written to a file, as the last thing before that.
pub fn seal_whole(page: &mut [u8]) {
    let hash = hash(page);
    page[HASH_AT..HEADER_BYTES].copy_from_slice(&hash.to_le_bytes());
    seal(page);
}

/// Stores the checksum of a page in durable memory.
pub fn seal(page: &mut [u8]) {
    let checksum = crc32c::crc32c(&page[CHECKSUM_BYTES..]);
    set_checksum(page, checksum);
}

/// The checksum that the page has.
pub(super) fn checksum(page: &[u8]) -> u32 {
    u32::from_le_bytes(array(page, 0))
}

pub(super) fn set_checksum(page: &mut [u8], checksum: u32) {
    page[..CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
}

/// Notes the last change.
#[inline]
pub fn set_lsn(page: &mut [u8], lsn: Lsn) {
    page[LSN_AT..LSN_AT + 8].copy_from_slice(&lsn.0.to_le_bytes());
}

/// Makes an empty page.
pub(super) fn format(
    page: &mut [u8],
    id: PageId,
    kind: PageKind,
    level: u8,
    key_words: u16,
    link: PageId,
) {
    let heap = page.len() as u16;
    page.fill(0);
    page[KIND_AT] = kind.code();
    page[LEVEL_AT] = level;
    page[KEY_WORDS_AT..KEY_WORDS_AT + 2].copy_from_slice(&key_words.to_le_bytes());
    page[NUMBER_AT..NUMBER_AT + 4].copy_from_slice(&id.0.to_le_bytes());
    set_link(page, link);
    set_heap(page, heap);
}

/// Changes the first child or the next page.
pub(super) fn set_link(page: &mut [u8], link: PageId) {
    page[LINK_AT..LINK_AT + 4].copy_from_slice(&link.0.to_le_bytes());
}

/// Changes the number of cells.
#[inline]
pub(super) fn set_slots(page: &mut [u8], slots: usize) {
    page[SLOTS_AT..SLOTS_AT + 2].copy_from_slice(&(slots as u16).to_le_bytes());
}

/// Changes where the cells begin.
#[inline]
pub(super) fn set_heap(page: &mut [u8], heap: u16) {
    page[HEAP_AT..HEAP_AT + 2].copy_from_slice(&heap.to_le_bytes());
}

/// Changes the number of dead bytes.
#[inline]
pub(super) fn set_dead(page: &mut [u8], dead: usize) {
    page[DEAD_AT..DEAD_AT + 2].copy_from_slice(&(dead as u16).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: PageId = PageId(9);
    const PAGE: usize = 1024;
    const SECTOR: usize = 512;

    /// A page with a value in its second sector that ends with its own checksum.
    fn page(value: u8, lsn: Lsn) -> Vec<u8> {
        let mut page = vec![0; PAGE];
        format(&mut page, ID, PageKind::Leaf, 0, 1, PageId(0));
        set_lsn(&mut page, lsn);
        let content = [value; 100];
        page[600..700].copy_from_slice(&content);
        page[700..704].copy_from_slice(&crc32c::crc32c(&content).to_le_bytes());
        page
    }

    #[test]
    fn a_page_torn_in_front_of_a_value_with_its_own_checksum_is_not_intact() {
        for value in 1..=255 {
            let (mut old, mut new) = (page(0, Lsn(1)), page(value, Lsn(2)));
            seal_whole(&mut old);
            seal_whole(&mut new);
            assert!(Header(&old).is_intact(ID) && Header(&new).is_intact(ID));
            let torn = [&new[..SECTOR], &old[SECTOR..]].concat();
            assert_eq!(checksum(&torn), crc32c::crc32c(&torn[CHECKSUM_BYTES..]));
            assert!(!Header(&torn).is_intact(ID), "{value}");
        }
    }

    #[test]
    fn the_hash_is_of_every_bit() {
        let page = page(3, Lsn(7));
        let right = hash(&page);
        let mut unseen = 0;
        for at in 0..PAGE {
            let is_covered = !(0..CHECKSUM_BYTES)
                .chain(HASH_AT..HEADER_BYTES)
                .any(|own| own == at);
            for bit in 0..8 {
                let mut other = page.clone();
                other[at] ^= 1 << bit;
                let is_seen = hash(&other) != right;
                assert!(is_covered || !is_seen, "bit {bit} of byte {at}");
                unseen += u32::from(is_covered && !is_seen);
            }
        }
        // One in 65,536 by chance.
        assert!(unseen < 3, "{unseen}");
    }

    #[test]
    fn a_page_without_a_hash_is_intact_by_its_checksum() {
        let mut page = page(5, Lsn(3));
        seal(&mut page);
        assert!(Header(&page).is_intact(ID));
    }
}
