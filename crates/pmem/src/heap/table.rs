//! The chunk table: the use of each 16 KiB chunk of a pool.
//!
//! After the header a pool is a row of *zones* of 2048 chunks; the last zone may be shorter. Chunk
//! 0 of a zone holds its table: one word a chunk. The table is a chain: the word of a *head* says
//! how many chunks follow it, and words of chunks inside a free range or an extent mean nothing. A
//! word carries its own check:
//!
//! | bit | field |
//! |---|---|
//! | 0..2 | state: 0 table, 1 free, 2 run, 3 extent |
//! | 2..14 | chunks (free, extent) or units of 8 bytes a block (run) |
//! | 14..17 | part of the owner |
//! | 17..33 | tag of the owner |
//! | 33..40 | zero |
//! | 40..64 | check over the bits before and the number of the chunk |
//!
//! Every change of a table is one aligned word, and takes one whole chain to another whole chain.

use crate::device::Part;
use crate::error::{PmemError, Result};
use crate::heap::classes;
use crate::heap::owner::Owner;

/// Bytes at the start of a pool that belong to its header.
pub(crate) const HEADER_BYTES: u64 = CHUNK_BYTES;
/// Bytes of a chunk.
pub(crate) const CHUNK_BYTES: u64 = 16 << 10;
/// Chunks of a zone, its table included.
pub(crate) const ZONE_CHUNKS: u32 = 2048;
/// Most chunks that a pool may have, so that a chunk number fits 32 bits.
pub(crate) const CHUNKS_MAX: u64 = u32::MAX as u64;

const _: () = assert!(ZONE_CHUNKS as u64 * 8 == CHUNK_BYTES);

const PAYLOAD_BITS: u32 = 40;
const PAYLOAD_MASK: u64 = (1 << PAYLOAD_BITS) - 1;
const LENGTH_SHIFT: u32 = 2;
const LENGTH_MASK: u64 = (1 << 12) - 1;
const PART_SHIFT: u32 = 14;
const TAG_SHIFT: u32 = 17;
const USED_BITS: u32 = 33;

/// The meaning of a head's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// The table of a zone.
    Table,
    /// Chunks that nobody uses.
    Free { chunks: u32 },
    /// One chunk of blocks of one size.
    Run { block_bytes: u32, owner: Owner },
    /// Chunks that are one block.
    Extent { chunks: u32, owner: Owner },
}

impl Entry {
    /// Chunks from this head to the next.
    pub(crate) fn chunks(self) -> u32 {
        match self {
            Self::Table | Self::Run { .. } => 1,
            Self::Free { chunks } | Self::Extent { chunks, .. } => chunks,
        }
    }

    /// The word that says this at `chunk`.
    pub(crate) fn encode(self, chunk: u32) -> u64 {
        let payload = match self {
            Self::Table => 0,
            Self::Free { chunks } => 1 | u64::from(chunks) << LENGTH_SHIFT,
            Self::Run { block_bytes, owner } => {
                2 | u64::from(block_bytes / 8) << LENGTH_SHIFT | owner_bits(owner)
            }
            Self::Extent { chunks, owner } => {
                3 | u64::from(chunks) << LENGTH_SHIFT | owner_bits(owner)
            }
        };
        assert!(
            u64::from(self.chunks()) <= LENGTH_MASK && payload >> USED_BITS == 0,
            "a field of {self:?} does not fit its bits"
        );
        payload | check_bits(payload, chunk)
    }

    /// Reads the word of head `chunk` in a pool of `chunk_count` chunks. Fails unless the word is
    /// whole and its chunks end inside the zone and the pool.
    pub(crate) fn decode(word: u64, chunk: u32, chunk_count: u32) -> Result<Self> {
        let payload = word & PAYLOAD_MASK;
        if word != payload | check_bits(payload, chunk) {
            return Err(damaged(
                chunk,
                format!("the check of {word:#018x} does not match"),
            ));
        }
        let length = (payload >> LENGTH_SHIFT & LENGTH_MASK) as u32;
        let part = Part::ALL.get((payload >> PART_SHIFT & 7) as usize);
        let is_table = chunk.is_multiple_of(ZONE_CHUNKS);
        let Some(&part) = part.filter(|_| payload >> USED_BITS == 0) else {
            return Err(damaged(chunk, format!("{word:#018x} has no meaning")));
        };
        let owner = Owner {
            part,
            tag: (payload >> TAG_SHIFT) as u16,
        };
        let entry = match payload & 3 {
            0 => Self::Table,
            1 => Self::Free { chunks: length },
            2 => Self::Run {
                block_bytes: length * 8,
                owner,
            },
            _ => Self::Extent {
                chunks: length,
                owner,
            },
        };
        let zone_end = (u64::from(chunk / ZONE_CHUNKS) + 1) * u64::from(ZONE_CHUNKS);
        let end = u64::from(chunk) + u64::from(entry.chunks());
        let fits = length > 0 && end <= zone_end.min(u64::from(chunk_count));
        let valid = match entry {
            Self::Table => is_table && payload == 0,
            Self::Free { .. } => !is_table && fits && payload >> PART_SHIFT == 0,
            Self::Run { block_bytes, .. } => {
                !is_table && fits && block_bytes as usize <= classes::BLOCK_BYTES_MAX
            }
            Self::Extent { .. } => !is_table && fits,
        };
        if valid {
            Ok(entry)
        } else {
            Err(damaged(chunk, format!("{entry:?} cannot stand there")))
        }
    }
}

/// Where the table word of `chunk` lies.
pub(crate) fn word_offset(chunk: u32) -> u64 {
    chunk_offset(chunk - chunk % ZONE_CHUNKS) + u64::from(chunk % ZONE_CHUNKS) * 8
}

/// Where `chunk` starts.
#[inline]
pub(crate) fn chunk_offset(chunk: u32) -> u64 {
    HEADER_BYTES + u64::from(chunk) * CHUNK_BYTES
}

/// The chunk that `offset` lies in, if it lies in one of the pool's `chunk_count`.
#[inline]
pub(crate) fn chunk_at(offset: u64, chunk_count: u32) -> Option<u32> {
    let chunk = offset.checked_sub(HEADER_BYTES)? / CHUNK_BYTES;
    (chunk < u64::from(chunk_count)).then_some(chunk as u32)
}

/// Chunks of a pool of `pool_bytes`.
pub(crate) fn chunk_count(pool_bytes: u64) -> u32 {
    (pool_bytes.saturating_sub(HEADER_BYTES) / CHUNK_BYTES) as u32
}

#[cold]
fn damaged(chunk: u32, detail: String) -> PmemError {
    PmemError::corrupted("chunk table", word_offset(chunk), detail)
}

fn owner_bits(owner: Owner) -> u64 {
    (owner.part as u64) << PART_SHIFT | u64::from(owner.tag) << TAG_SHIFT
}

/// A linear code: which flips it finds does not depend on the word. That it finds all of one or two
/// bits is shown by the tests below; a word copied to another chunk is refused.
fn check_bits(payload: u64, chunk: u32) -> u64 {
    let mut covered = [0; 12];
    covered[..8].copy_from_slice(&payload.to_le_bytes());
    covered[8..].copy_from_slice(&chunk.to_le_bytes());
    u64::from(crc32c::crc32c(&covered)) << PAYLOAD_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner {
        part: Part::Index,
        tag: 0xbeef,
    };

    #[test]
    fn entries_are_read_back() {
        for (entry, chunk) in [
            (Entry::Table, 2048),
            (Entry::Free { chunks: 2047 }, 1),
            (
                Entry::Run {
                    block_bytes: 8128,
                    owner: OWNER,
                },
                2047,
            ),
            (
                Entry::Extent {
                    chunks: 3,
                    owner: OWNER,
                },
                4095 - 2,
            ),
        ] {
            assert_eq!(
                Entry::decode(entry.encode(chunk), chunk, 4096).unwrap(),
                entry
            );
            assert!(Entry::decode(entry.encode(chunk), chunk + 1, 4097).is_err());
        }
    }

    #[test]
    fn lengths_beyond_zone_or_pool_are_refused() {
        let free = Entry::Free { chunks: 100 };
        assert!(Entry::decode(free.encode(1), 1, 101).is_ok());
        assert!(Entry::decode(free.encode(1), 1, 100).is_err());
        assert!(Entry::decode(free.encode(1949), 1949, 10_000).is_err());
        assert!(Entry::decode(Entry::Table.encode(1), 1, 100).is_err());
        assert!(Entry::decode(free.encode(0), 0, 200).is_err());
    }

    #[test]
    fn one_and_two_flipped_bits_are_found() {
        for chunk in [1, 2, 77, 2047, 2049, 1_000_001] {
            let entry = Entry::Run {
                block_bytes: 1088,
                owner: OWNER,
            };
            let word = entry.encode(chunk);
            for first in 0..64 {
                for second in first..64 {
                    let second_bit = if second == first { 0 } else { 1 << second };
                    let damaged = word ^ 1 << first ^ second_bit;
                    assert!(Entry::decode(damaged, chunk, u32::MAX).is_err());
                }
            }
        }
    }

    #[test]
    fn places_follow_each_other() {
        assert_eq!(chunk_offset(0), 16384);
        assert_eq!(word_offset(1), 16384 + 8);
        assert_eq!(word_offset(2048), chunk_offset(2048));
        assert_eq!(chunk_at(16383, 10), None);
        assert_eq!(chunk_at(16384 * 2, 10), Some(1));
        assert_eq!(chunk_at(16384 * 11, 10), None);
        assert_eq!(chunk_count(16384 * 3), 2);
    }
}
