//! Format of a backup file: a header, compressed blocks, a trailer, and nothing after it.
//!
//! Everything is little-endian. The header has the identity and the settings of the database,
//! blocks hold whole entries, and the trailer makes the file complete. The checksum of a block is
//! seeded with the header's and with the block's number, which detects blocks of another backup, or
//! in another order.
//!
//! | header field | offset | bytes | meaning |
//! |---|---|---|---|
//! | magic | 0 | 8 | `INDLBKP\n` |
//! | version | 8 | 4 | 1 with rows, 2 with pages, 3 with those of several partitions |
//! | byte order | 12 | 4 | `0x0A0B_0C0D` as the writer stores it |
//! | descriptor | 16 | 128 | that of the database, as in `indelible.db` |
//! | taken | 144 | 8 | seconds since 1970 |
//! | zero | 152 | 36 | for later versions |
//! | checksum | 188 | 4 | CRC-32C of the bytes before |
//!
//! A block is: checksum 4, stored bytes 4, plain bytes 4, data (LZ4). Its checksum covers the two
//! lengths and the data. Plain blocks hold entries, each a tag of one byte, a length of four, and
//! content:
//!
//! | tag | content |
//! |---|---|
//! | 1 | the definition of a table; rows up to tag 3 are its |
//! | 2 | a row: its values in the form of the redo log |
//! | 3 | rows 8 and content sum 8 of the table; it is complete |
//! | 4 | nothing; the trailer follows the block |
//! | 5 | head of the copy of a partition's pages, see below |
//! | 6 | a page: its number 4, its bytes |
//!
//! Tag 5 comes once for each partition, in their order, and the partition's pages follow it. Its
//! content is: bytes of a page 4, pages that the file has room for 4, position in the log 8, next
//! transaction 8, root of the catalogue 4.
//!
//! | trailer field | offset | bytes | meaning |
//! |---|---|---|---|
//! | magic | 0 | 8 | `INDLEND\n` |
//! | tables, rows or pages, blocks | 8 | 24 | how many there are |
//! | content | 32 | 8 | content sum of the database |
//! | file bytes | 40 | 8 | length of the file, trailer included |
//! | total | 48 | 4 | CRC-32C of all bytes before the trailer |
//! | checksum | 52 | 4 | CRC-32C of the trailer's bytes before |

use super::content::Totals;
use crate::descriptor::{BYTES as DESCRIPTOR_BYTES, Descriptor};
use crate::error::{Error, Result};
use storage::engine::{PageId, PagesBase};
use storage::log::Lsn;

const MAGIC: [u8; 8] = *b"INDLBKP\n";
const END_MAGIC: [u8; 8] = *b"INDLEND\n";
const BYTE_ORDER: u32 = 0x0A0B_0C0D;
const DESCRIPTOR_AT: usize = 16;
const TAKEN_AT: usize = DESCRIPTOR_AT + DESCRIPTOR_BYTES;
pub(super) const HEADER_BYTES: usize = 192;
const HEADER_CHECKSUM_AT: usize = HEADER_BYTES - 4;
pub(super) const TRAILER_BYTES: usize = 56;
const TRAILER_CHECKSUM_AT: usize = TRAILER_BYTES - 4;
pub(super) const BLOCK_HEADER_BYTES: usize = 12;
const BASE_BYTES: usize = 28;
/// Plain bytes after which a block is closed.
pub(super) const BLOCK_BYTES: usize = 256 << 10;
/// Longest plain block that is written, and accepted.
pub(super) const PLAIN_BYTES_MAX: usize = 1 << 30;
/// Longest content of an entry.
pub(super) const ENTRY_BYTES_MAX: usize = PLAIN_BYTES_MAX - 2 * BLOCK_BYTES;
/// LZ4 expands a byte to at most this many.
pub(super) const EXPANSION_MAX: usize = 255;

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    Table = 1,
    Row = 2,
    EndTable = 3,
    End = 4,
    Base = 5,
    Page = 6,
}

/// Content of a backup, which is the version of its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// Tables and their rows, for every method.
    Rows = 1,
    /// The pages of the only partition, over which records of its log can be replayed.
    Pages = 2,
    /// The pages of several partitions, one after the other.
    PartitionPages = 3,
}

impl Holds {
    /// The pages of a database with this number of partitions.
    pub(super) fn pages_of(partitions: u32) -> Self {
        match partitions {
            1 => Self::Pages,
            _ => Self::PartitionPages,
        }
    }

    /// Copies of pages in a backup of a database with this number of partitions.
    pub(super) fn copies(self, partitions: u32) -> u32 {
        match self {
            Self::Rows => 0,
            Self::Pages => 1,
            Self::PartitionPages => partitions,
        }
    }
}

const NEWEST: u32 = Holds::PartitionPages as u32;

/// The header of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) holds: Holds,
    pub(super) descriptor: Descriptor,
    pub(super) taken_s: u64,
}

impl Header {
    /// The first bytes of every backup.
    pub(super) fn magic() -> [u8; 8] {
        MAGIC
    }

    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&(self.holds as u32).to_le_bytes());
        bytes[12..16].copy_from_slice(&BYTE_ORDER.to_le_bytes());
        bytes[DESCRIPTOR_AT..TAKEN_AT].copy_from_slice(&self.descriptor.encode());
        bytes[TAKEN_AT..TAKEN_AT + 8].copy_from_slice(&self.taken_s.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..HEADER_CHECKSUM_AT]);
        bytes[HEADER_CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Foreign files are refused before newer ones, and those before damaged ones, whose checksum
    /// may be elsewhere.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self> {
        if bytes[..8] != MAGIC {
            return Err(Error::NotABackup);
        }
        if word(bytes, 12) == BYTE_ORDER.swap_bytes() {
            return Err(Error::OtherEndian);
        }
        let intact =
            word(bytes, HEADER_CHECKSUM_AT) == crc32c::crc32c(&bytes[..HEADER_CHECKSUM_AT]);
        let found = word(bytes, 8);
        if found > NEWEST && (intact || word(bytes, 12) == BYTE_ORDER && found < 1 << 16) {
            let supported = NEWEST;
            return Err(Error::NewerBackup { found, supported });
        }
        let holds = match found {
            1 if intact => Holds::Rows,
            2 if intact => Holds::Pages,
            3 if intact => Holds::PartitionPages,
            _ => {
                return Err(damaged(
                    "its header does not have the checksum that was written",
                ));
            }
        };
        let descriptor = bytes[DESCRIPTOR_AT..TAKEN_AT]
            .try_into()
            .expect("the two offsets are a descriptor apart");
        let descriptor = Descriptor::decode(descriptor)
            .map_err(|error| damaged(format!("the description in it is unusable ({error})")))?;
        let taken_s = long(bytes, TAKEN_AT);
        Ok(Self {
            holds,
            descriptor,
            taken_s,
        })
    }
}

/// The trailer, which makes a file complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trailer {
    pub(super) tables: u64,
    pub(super) rows: u64,
    pub(super) blocks: u64,
    pub(super) content: u64,
    pub(super) file_bytes: u64,
    pub(super) total: u32,
}

impl Trailer {
    /// The trailer of a file with these totals, `written` bytes so far, and the checksum `total`.
    pub(super) fn new(totals: &Totals, blocks: u64, written: u64, total: u32) -> Self {
        Self {
            tables: totals.tables,
            rows: totals.rows + totals.pages,
            blocks,
            content: totals.sum,
            file_bytes: written + TRAILER_BYTES as u64,
            total,
        }
    }

    pub(super) fn encode(&self) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..8].copy_from_slice(&END_MAGIC);
        let words = [
            self.tables,
            self.rows,
            self.blocks,
            self.content,
            self.file_bytes,
        ];
        for (at, word) in (8..).step_by(8).zip(words) {
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes[48..52].copy_from_slice(&self.total.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..TRAILER_CHECKSUM_AT]);
        bytes[TRAILER_CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }
}

/// The content of a [`Tag::Base`].
pub(super) fn encode_base(base: &PagesBase) -> [u8; BASE_BYTES] {
    let mut bytes = [0; BASE_BYTES];
    bytes[..4].copy_from_slice(&base.page_bytes.to_le_bytes());
    bytes[4..8].copy_from_slice(&base.pages.to_le_bytes());
    bytes[8..16].copy_from_slice(&base.lsn.0.to_le_bytes());
    bytes[16..24].copy_from_slice(&base.next_txn.to_le_bytes());
    bytes[24..].copy_from_slice(&base.catalogue.0.to_le_bytes());
    bytes
}

/// The base in an entry of [`Tag::Base`]; none if it has another length.
pub(super) fn decode_base(bytes: &[u8]) -> Option<PagesBase> {
    (bytes.len() == BASE_BYTES).then(|| PagesBase {
        page_bytes: word(bytes, 0),
        pages: word(bytes, 4),
        lsn: Lsn(long(bytes, 8)),
        next_txn: long(bytes, 16),
        catalogue: PageId(word(bytes, 24)),
    })
}

/// The checksum of block number `block`; `rest` are the bytes after it.
pub(super) fn block_checksum(seed: u32, block: u64, rest: [&[u8]; 2]) -> u32 {
    let seed = crc32c::crc32c_append(seed, &block.to_le_bytes());
    rest.iter()
        .fold(seed, |sum, bytes| crc32c::crc32c_append(sum, bytes))
}

pub(super) fn damaged(detail: impl Into<String>) -> Error {
    Error::DamagedBackup {
        detail: detail.into(),
    }
}

/// Four bytes of `bytes`, which has them.
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Eight bytes of `bytes`, which has them.
pub(super) fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}
