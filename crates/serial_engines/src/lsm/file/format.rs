//! The bytes of a run's file: blocks of sorted entries, the index of the blocks, the filter, and
//! the footer.
//!
//! A run is written from front to back and synced before a manifest names it; nothing of it changes
//! afterwards. The footer is last, so a file that was not finished has none.
//!
//! | part | content |
//! |---|---|
//! | block | crc32c u32 of the rest, bytes u32, entries u32, words of a key u32; |
//! | | offset of each entry u32; entries |
//! | entry | key, words; kind u32; length u32; bytes |
//! | index | for each block: tree u64, offset u64, bytes u32, words of a key u32, the first key |
//! | filter | words |
//! | footer | [`FOOTER_BYTES`], below |
//!
//! | footer field | bytes | meaning |
//! |---|---|---|
//! | magic | 8 | `INDLRUN\n` |
//! | version, partition | 4, 4 | [`VERSION`]; number of the partition |
//! | database | 16 | identity of the database |
//! | number | 8 | the number in the file's name |
//! | entries | 8 | in all blocks |
//! | index at, bytes | 8, 8 | place of the index |
//! | filter at, bytes | 8, 8 | place of the filter |
//! | index sum, filter sum | 4, 4 | crc32c of either |
//! | checksum | 4 | crc32c of all fields before |

use super::mem_table::TreeId;
use crate::lsm::entry::EntryKind;
use std::ops::Range;
use storage::log::LogIdentity;
use storage::record::MAX_KEY_WORDS;
use storage::{Result, StorageError};

const MAGIC: [u8; 8] = *b"INDLRUN\n";
const VERSION: u32 = 1;
/// Bytes after which a block is closed.
pub(crate) const BLOCK_BYTES: usize = 2 << 10;
pub(crate) const BLOCK_HEADER_BYTES: usize = 16;
const ENTRY_HEADER_BYTES: usize = 8;
/// Bytes of the footer.
pub(crate) const FOOTER_BYTES: usize = 92;
const FIELDS_BYTES: usize = 88;

/// Locations of a run's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) identity: LogIdentity,
    pub(crate) number: u64,
    pub(crate) entries: u64,
    pub(crate) index_at: u64,
    pub(crate) index_bytes: u64,
    pub(crate) filter_at: u64,
    pub(crate) filter_bytes: u64,
    pub(crate) index_sum: u32,
    pub(crate) filter_sum: u32,
}

impl Footer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FOOTER_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.identity.partition.to_le_bytes());
        bytes.extend_from_slice(&self.identity.database.to_le_bytes());
        let words = [
            self.number,
            self.entries,
            self.index_at,
            self.index_bytes,
            self.filter_at,
            self.filter_bytes,
        ];
        for word in words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.index_sum.to_le_bytes());
        bytes.extend_from_slice(&self.filter_sum.to_le_bytes());
        debug_assert_eq!(
            bytes.len(),
            FIELDS_BYTES,
            "the fields end at their checksum"
        );
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// Reads a footer and checks that it is this file's. `file_bytes` is the file's length.
    pub(crate) fn decode(
        file: &str,
        identity: LogIdentity,
        number: u64,
        file_bytes: u64,
        bytes: &[u8],
    ) -> Result<Self> {
        let at = file_bytes.saturating_sub(FOOTER_BYTES as u64);
        if bytes.get(..8) != Some(&MAGIC) {
            return Err(damage(file, at, "it does not end as a run does"));
        }
        let sum = bytes
            .get(..FIELDS_BYTES)
            .map(crc32c::crc32c)
            .unwrap_or_default();
        if read_u32(bytes, FIELDS_BYTES) != Some(sum) {
            return Err(damage(file, at, "the checksum of the footer is wrong"));
        }
        let foreign = |reason: String| StorageError::foreign_file(file, reason);
        let version = read_u32(bytes, 8).unwrap_or(0);
        if version != VERSION {
            let reason = format!("it has version {version}; this program reads {VERSION}");
            return Err(foreign(reason));
        }
        let word = |index: usize| read_u64(bytes, 32 + index * 8).unwrap_or(0);
        let footer = Self {
            identity,
            number: word(0),
            entries: word(1),
            index_at: word(2),
            index_bytes: word(3),
            filter_at: word(4),
            filter_bytes: word(5),
            index_sum: read_u32(bytes, 80).unwrap_or(0),
            filter_sum: read_u32(bytes, 84).unwrap_or(0),
        };
        if footer.encode() != bytes {
            let reason = "it belongs to another database or partition".to_owned();
            return Err(foreign(reason));
        }
        if footer.number != number {
            return Err(foreign("it is another run under this name".to_owned()));
        }
        let parts = [
            (footer.index_at, footer.index_bytes),
            (footer.filter_at, footer.filter_bytes),
        ];
        let fits =
            |(start, bytes): (u64, u64)| start.checked_add(bytes).is_some_and(|end| end <= at);
        if !parts.into_iter().all(fits) {
            return Err(damage(file, at, "a part of the run leaves the file"));
        }
        Ok(footer)
    }
}

/// One block, as the index knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHandle {
    pub(crate) tree: TreeId,
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
    pub(crate) key_words: u32,
}

/// Appends a block's line of the index.
pub(crate) fn push_place(place: &BlockHandle, first: &[u64], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&place.tree.0.to_le_bytes());
    bytes.extend_from_slice(&place.offset.to_le_bytes());
    bytes.extend_from_slice(&place.bytes.to_le_bytes());
    bytes.extend_from_slice(&place.key_words.to_le_bytes());
    for word in first {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
}

/// Takes the index apart; none if it is no index.
pub(crate) fn read_places(
    bytes: &[u8],
    mut found: impl FnMut(BlockHandle, Vec<u64>),
) -> Option<()> {
    let mut at = 0;
    while at < bytes.len() {
        let place = BlockHandle {
            tree: TreeId(read_u64(bytes, at)?),
            offset: read_u64(bytes, at + 8)?,
            bytes: read_u32(bytes, at + 16)?,
            key_words: read_u32(bytes, at + 20)?,
        };
        let words = place.key_words as usize;
        if words == 0 || words > MAX_KEY_WORDS {
            return None;
        }
        let first = (0..words)
            .map(|word| read_u64(bytes, at + 24 + word * 8))
            .collect::<Option<Vec<_>>>()?;
        at += 24 + words * 8;
        found(place, first);
    }
    Some(())
}

/// A block that is being filled.
#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    entries: Vec<u8>,
    offsets: Vec<u32>,
    pub(crate) first: Vec<u64>,
}

impl BlockBuilder {
    pub(crate) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    pub(crate) fn bytes(&self) -> usize {
        BLOCK_HEADER_BYTES + self.offsets.len() * 4 + self.entries.len()
    }

    pub(crate) fn push(&mut self, key: &[u64], kind: EntryKind, bytes: &[u8]) {
        if self.is_empty() {
            self.first = key.to_vec();
        }
        self.offsets.push(self.entries.len() as u32);
        for word in key {
            self.entries.extend_from_slice(&word.to_le_bytes());
        }
        self.entries
            .extend_from_slice(&u32::from(kind.code()).to_le_bytes());
        self.entries
            .extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.entries.extend_from_slice(bytes);
    }

    /// Appends the finished block and empties the builder.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        let length = self.bytes() as u32;
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(self.offsets.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.first.len() as u32).to_le_bytes());
        for offset in &self.offsets {
            out.extend_from_slice(&offset.to_le_bytes());
        }
        out.extend_from_slice(&self.entries);
        let sum = crc32c::crc32c(&out[start + 4..]);
        out[start..start + 4].copy_from_slice(&sum.to_le_bytes());
        self.entries.clear();
        self.offsets.clear();
    }
}

/// A block that was read and is whole.
#[derive(Clone, Copy)]
pub(crate) struct Block<'b> {
    bytes: &'b [u8],
    pub(crate) count: usize,
    key_words: usize,
}

impl<'b> Block<'b> {
    /// Checks a block; the error names its damage.
    pub(crate) fn open(bytes: &'b [u8], key_words: usize) -> Result<Self, &'static str> {
        let block = Self::open_unchecked(bytes, key_words)?;
        if read_u32(bytes, 0) != Some(crc32c::crc32c(bytes.get(4..).unwrap_or(&[]))) {
            return Err("the checksum of a block is wrong");
        }
        Ok(block)
    }

    /// As [`Block::open`], for bytes whose checksum was found right before.
    pub(crate) fn open_unchecked(bytes: &'b [u8], key_words: usize) -> Result<Self, &'static str> {
        let field = |at| read_u32(bytes, at).unwrap_or(0) as usize;
        let (length, count) = (field(4), field(8));
        if length != bytes.len() || field(12) != key_words {
            return Err("a block has another size than the index says");
        }
        if count == 0 || count > bytes.len() / (4 + ENTRY_HEADER_BYTES) {
            return Err("a block has a wrong number of entries");
        }
        Ok(Self {
            bytes,
            count,
            key_words,
        })
    }

    /// All of it, as it stands in the file.
    pub(crate) fn bytes(&self) -> &'b [u8] {
        self.bytes
    }

    fn entry_at(&self, index: usize) -> Option<usize> {
        let offset = read_u32(self.bytes, BLOCK_HEADER_BYTES + index * 4)? as usize;
        Some(BLOCK_HEADER_BYTES + self.count * 4 + offset)
    }

    /// Copies the key of an entry into `key`.
    pub(crate) fn key(&self, index: usize, key: &mut [u64]) -> Option<()> {
        let at = self.entry_at(index)?;
        let bytes = self.bytes.get(at..at + self.key_words * 8)?;
        for (word, bytes) in key.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Some(())
    }

    /// The kind of an entry, and where in the block its bytes are.
    pub(crate) fn entry_place(&self, index: usize) -> Option<(EntryKind, Range<usize>)> {
        let at = self.entry_at(index)? + self.key_words * 8;
        let kind = u8::try_from(read_u32(self.bytes, at)?).ok()?;
        let length = read_u32(self.bytes, at + 4)? as usize;
        let start = at + ENTRY_HEADER_BYTES;
        let end = start.checked_add(length)?;
        (end <= self.bytes.len()).then_some((EntryKind::from_code(kind)?, start..end))
    }

    /// The kind and the bytes of an entry.
    pub(crate) fn entry(&self, index: usize) -> Option<(EntryKind, &'b [u8])> {
        let (kind, place) = self.entry_place(index)?;
        Some((kind, self.bytes.get(place)?))
    }

    /// Number of the first entry whose key is not smaller than `key`.
    pub(crate) fn lower_bound(&self, key: &[u64]) -> Option<usize> {
        self.bound(|found| found < key)
    }

    /// Number of the first entry whose key is greater than `key`.
    pub(crate) fn upper_bound(&self, key: &[u64]) -> Option<usize> {
        self.bound(|found| found <= key)
    }

    /// Number of entries, all at the beginning, of whose keys `is_before` is true.
    fn bound(&self, is_before: impl Fn(&[u64]) -> bool) -> Option<usize> {
        let mut found = [0; MAX_KEY_WORDS];
        let found = &mut found[..self.key_words];
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = usize::midpoint(low, high);
            self.key(middle, found)?;
            if is_before(found) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Some(low)
    }
}

/// A [`StorageError::DamagedFile`], built where it is found.
#[cold]
pub(crate) fn damage(file: &str, offset: u64, detail: impl Into<String>) -> StorageError {
    StorageError::damaged_file(file, offset, detail.into())
}

pub(crate) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    bytes.try_into().ok().map(u32::from_le_bytes)
}

pub(crate) fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    bytes.try_into().ok().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_read_back_and_notices_each_flipped_bit() {
        let mut builder = BlockBuilder::default();
        for key in 0..9_u64 {
            builder.push(&[key * 2, 7], EntryKind::Row, &[key as u8; 5]);
        }
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        let block = Block::open(&bytes, 2).unwrap();
        assert_eq!(block.count, 9);
        assert_eq!(block.lower_bound(&[5, 0]), Some(3));
        assert_eq!(block.lower_bound(&[99, 0]), Some(9));
        assert_eq!(block.lower_bound(&[6, 7]), Some(3));
        assert_eq!(block.upper_bound(&[6, 7]), Some(4));
        assert_eq!(block.entry(3), Some((EntryKind::Row, &[3_u8; 5][..])));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Block::open(&flipped, 2).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_footer_notices_each_flipped_bit_and_foreign_files() {
        let identity = LogIdentity {
            database: 5,
            partition: 1,
        };
        let footer = Footer {
            identity,
            number: 9,
            entries: 3,
            index_at: 10,
            index_bytes: 20,
            filter_at: 30,
            filter_bytes: 8,
            index_sum: 1,
            filter_sum: 2,
        };
        let bytes = footer.encode();
        let read =
            |bytes: &[u8], identity, number| Footer::decode("f", identity, number, 500, bytes);
        assert_eq!(read(&bytes, identity, 9).unwrap(), footer);
        assert!(read(&bytes, identity, 8).is_err());
        let other = LogIdentity {
            database: 6,
            partition: 1,
        };
        assert!(read(&bytes, other, 9).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&flipped, identity, 9).is_err(), "bit {bit}");
        }
    }
}
