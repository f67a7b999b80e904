//! The header that every page begins with.
//!
//! ```text
//! checksum u32, of all bytes behind it | kind u8 | level u8 | key words u16 | LSN u64 | page number u32 | link u32 | slots u16
//! | heap u16 | dead u16 | 0 u16 | content from 32 on
//! ```
//!
//! | field | meaning |
//! |---|---|
//! | checksum | CRC32C; right on the medium only, it is computed when a page is written |
//! | level | 0 for leaves; the parent's is one higher |
//! | LSN | position of the last log record that changed the page |
//! | page number | a page that was written to a wrong place is noticed |
//! | link | inner page: the child in front of the first key; long value: the next page, or 0 |
//! | slots | tree: number of cells; long value: bytes of content |
//! | heap | tree: where the cells begin; they grow towards the slots |
//! | dead | tree: bytes of cells that are not named any more |

use crate::log::Lsn;
use std::fmt;
use std::ops::RangeInclusive;

/// Sizes that a page may have; powers of two. Below 4 KiB they serve tests, which need deep trees of few rows.
pub const PAGE_BYTES: RangeInclusive<u32> = 512..=16384;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 32;

/// The checksum is of what stands behind it.
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

/// Number of a page: its place in the file, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}", self.0)
    }
}

/// What a page holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageKind {
    /// Keys with values.
    Leaf,
    /// Keys with children.
    Inner,
    /// A piece of a value that is too long for a leaf.
    Long,
    /// A bit a page of the file: whether it is in use.
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

    /// What the page holds, if it is a page.
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

    /// Where the cells begin.
    #[inline]
    pub fn heap(self) -> usize {
        self.short(HEAP_AT)
    }

    /// Bytes of cells that are not named any more.
    #[inline]
    pub fn dead(self) -> usize {
        self.short(DEAD_AT)
    }

    /// Whether the page says itself that it is intact, and the one that was asked for.
    pub fn is_intact(self, id: PageId) -> bool {
        self.number() == id
            && self.kind().is_some()
            && checksum(self.0) == crc32c::crc32c(&self.0[CHECKSUM_BYTES..])
    }
}

/// The bytes of a number at `at`, which lies in the header.
#[inline]
pub(super) fn array<const N: usize>(page: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&page[at..at + N]);
    bytes
}

/// Stores the checksum, as the last thing before the page is written.
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
