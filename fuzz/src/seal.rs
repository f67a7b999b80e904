//! Checksums of a seed, found once and made right again after a mutation.
//!
//! A mutated byte under a checksum tests the checksum and nothing behind it. So half of the inputs
//! are sealed: for each checksum that covers a mutated byte, the right one is put in its place, and
//! the code behind meets lengths, pointers and counts that no honest writer would write. What can
//! be sealed is found by trying: where the bytes of a seed satisfy a checksum, there is one. A
//! format that changes makes fewer seals, never wrong seeds; the program prints their number.

use crate::input::Input;
use std::ops::Range;
use storage::record::checksum::{tuple_checksum, weight};
use storage::record::variable;

/// Bytes of the header of a file of an archive: fields, checksum of its records, its own.
pub const ARCHIVE_HEADER_BYTES: usize = 88;

/// One checksum of a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The piece of the input.
    pub part: usize,
    /// The bytes that it covers, itself included.
    pub range: Range<usize>,
    /// How it is computed.
    pub kind: SealKind,
}

/// How a checksum is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SealKind {
    /// CRC-32C of the range but its last four bytes, which hold it.
    Last,
    /// A copy of a pool's header: as `Last`, with four zero bytes behind it.
    PoolHeader,
    /// A word of a chunk table; the number of the chunk.
    ChunkWord(u32),
    /// A tuple.
    Tuple,
    /// The block of a long field.
    Field,
    /// A node of a persistent B+tree.
    Node,
    /// A table's descriptor: its second word holds the definition's length and checksum.
    TableDescriptor,
    /// A record of the undo log; the salt.
    LogRecord(u32),
    /// The commit word of the undo log; the salt.
    CommitWord(u32),
    /// A log segment: the header of so many bytes without its checksum, which seeds the frames at
    /// these offsets.
    Segment(usize, Vec<usize>),
    /// A checkpoint: the header of so many bytes without its checksum, which seeds the blocks
    /// behind it.
    Checkpoint(usize),
    /// A file of a log's archive: its records, then its header.
    Archive,
}

/// Makes the checksums right that cover a touched range. Those that lie in others come first.
pub fn seal(input: &mut Input, seals: &[Seal], touched: &[(usize, Range<usize>)]) {
    for seal in seals {
        let covers = |(part, range): &(usize, Range<usize>)| {
            *part == seal.part && range.start < seal.range.end && seal.range.start < range.end
        };
        if touched.iter().any(covers)
            && let Some(part) = input.parts.get_mut(seal.part)
        {
            // A piece that was cut has no room for it any more.
            let end = match seal.kind {
                SealKind::Segment(..)
                | SealKind::Checkpoint(_)
                | SealKind::LogRecord(_)
                | SealKind::Archive => part.bytes.len(),
                _ => seal.range.end,
            };
            if let Some(bytes) = part.bytes.get_mut(seal.range.start..end) {
                let _ = seal.kind.apply(bytes);
            }
        }
    }
}

impl SealKind {
    /// Puts the right checksum into the bytes that it covers. `None` if they are too short for it.
    pub fn apply(&self, bytes: &mut [u8]) -> Option<()> {
        match self {
            Self::Last => {
                let (body, sum) = bytes.split_last_chunk_mut::<4>()?;
                *sum = crc32c::crc32c(body).to_le_bytes();
            }
            Self::PoolHeader => {
                let sum = crc32c::crc32c(bytes.get(..168)?);
                put(bytes, 168, &sum.to_le_bytes())?;
                put(bytes, 172, &[0; 4])?;
            }
            Self::ChunkWord(chunk) => {
                let payload = word(bytes, 0)? & ((1 << 40) - 1);
                let mut covered = payload.to_le_bytes().to_vec();
                covered.extend_from_slice(&chunk.to_le_bytes());
                let sealed = payload | u64::from(crc32c::crc32c(&covered)) << 40;
                put(bytes, 0, &sealed.to_le_bytes())?;
            }
            Self::Tuple => {
                let sum = tuple_checksum(bytes);
                put(bytes, 0, &sum.to_le_bytes())?;
            }
            Self::Field => {
                let (length, _) = bytes.split_first_chunk::<4>()?;
                let content = bytes.get(8..8 + u32::from_le_bytes(*length) as usize)?;
                let header = variable::header(content);
                put(bytes, 0, &header)?;
            }
            Self::Node => {
                let sum = node_checksum(bytes)?;
                put(bytes, 8, &sum.to_le_bytes())?;
            }
            Self::TableDescriptor => {
                let indexes = usize::try_from(word(bytes, 16)?).ok()?;
                let at = indexes.checked_mul(8)?.checked_add(24)?;
                let length = word(bytes, 8)? as u32 as usize;
                let definition = bytes.get_mut(at..at.checked_add(length)?)?;
                Self::Last.apply(definition)?;
                let sum = crc32c::crc32c(definition);
                put(bytes, 12, &sum.to_le_bytes())?;
            }
            Self::LogRecord(salt) => {
                let length = (word(bytes, 0)? >> 32) as usize;
                let sum = crc32c::crc32c_append(*salt, bytes.get(4..length)?);
                put(bytes, 0, &sum.to_le_bytes())?;
            }
            Self::CommitWord(salt) => {
                let content = word(bytes, 0)? & ((1 << 48) - 1);
                let crc = crc32c::crc32c_append(*salt, &content.to_le_bytes());
                let sealed = content | (u64::from(crc ^ crc >> 16) & 0xffff) << 48;
                put(bytes, 0, &sealed.to_le_bytes())?;
            }
            Self::Segment(fields, frames) => seal_segment(bytes, *fields, frames)?,
            Self::Checkpoint(fields) => seal_checkpoint(bytes, *fields)?,
            Self::Archive => {
                let database = crc32c::crc32c(bytes.get(16..32)?);
                let content = crc32c::crc32c_append(database, bytes.get(ARCHIVE_HEADER_BYTES..)?);
                put(bytes, ARCHIVE_HEADER_BYTES - 8, &content.to_le_bytes())?;
                Self::Last.apply(bytes.get_mut(..ARCHIVE_HEADER_BYTES)?)?;
            }
        }
        Some(())
    }

    /// Whether the bytes have the right checksum.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        let mut sealed = bytes.to_vec();
        self.apply(&mut sealed).is_some() && sealed == bytes
    }
}

fn seal_segment(bytes: &mut [u8], fields: usize, frames: &[usize]) -> Option<()> {
    SealKind::Last.apply(bytes.get_mut(..fields + 4)?)?;
    let seed = crc32c::crc32c(bytes.get(..fields)?);
    for &frame in frames {
        let length = u32::from_le_bytes(*bytes.get(frame + 4..)?.first_chunk()?) as usize;
        let Some(covered) = bytes.get(frame + 4..frame + 24 + length) else {
            continue;
        };
        let sum = crc32c::crc32c_append(seed, covered);
        put(bytes, frame, &sum.to_le_bytes())?;
    }
    Some(())
}

fn seal_checkpoint(bytes: &mut [u8], fields: usize) -> Option<()> {
    SealKind::Last.apply(bytes.get_mut(..fields + 4)?)?;
    let seed = crc32c::crc32c(bytes.get(..fields)?);
    let mut at = fields + 4;
    for block in 0_u32.. {
        let Some(length) = bytes.get(at + 4..).and_then(<[u8]>::first_chunk) else {
            break;
        };
        let length = u32::from_le_bytes(*length) as usize;
        let Some(covered) = bytes.get(at + 4..at + 12 + length) else {
            break;
        };
        let sum = crc32c::crc32c_append(seed, &block.to_le_bytes());
        let sum = crc32c::crc32c_append(sum, covered);
        put(bytes, at, &sum.to_le_bytes())?;
        at += 12 + length;
    }
    Some(())
}

/// The checksum that a node of the persistent B+tree should have.
fn node_checksum(node: &[u8]) -> Option<u64> {
    const SALT: u64 = 0x6e76_6270_7472_6565;
    let meta = word(node, 0)?;
    let (level, key_words) = (meta >> 16 & 0xff, (meta >> 48) as usize);
    let (words, entry_words) = (node.len() / 8, key_words + 1);
    let term = |at: usize| Some(weight(at).wrapping_mul(word(node, at * 8)?));
    let mut sum = SALT.wrapping_add(term(0)?);
    if level > 0 {
        let keys = word(node, 16)? as usize;
        let most = (words - 4) / entry_words;
        let children_at = 3 + most * key_words;
        let counted = (3..3 + keys.min(most) * key_words)
            .chain(children_at..=children_at + keys.min(most))
            .chain([2]);
        for at in counted {
            sum = sum.wrapping_add(term(at)?);
        }
        return Some(sum);
    }
    let fits =
        |slots: &usize| 2 + slots.div_ceil(64) + slots.div_ceil(8) + slots * entry_words <= words;
    let slots = (0..=words / entry_words).rev().find(fits)?;
    let bitmap_words = slots.div_ceil(64);
    for at in 2..2 + bitmap_words {
        sum = sum.wrapping_add(term(at)?);
    }
    for slot in 0..slots {
        if word(node, (2 + slot / 64) * 8)? >> (slot % 64) & 1 == 0 {
            continue;
        }
        let at = words - slots * entry_words + slot * entry_words;
        for at in at..at + entry_words {
            sum = sum.wrapping_add(term(at)?);
        }
        let fingerprint = *node.get((2 + bitmap_words) * 8 + slot)?;
        sum = sum.wrapping_add(weight(words + slot).wrapping_mul(u64::from(fingerprint)));
    }
    Some(sum)
}

/// The little-endian word at a byte.
pub fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

fn put(bytes: &mut [u8], at: usize, new: &[u8]) -> Option<()> {
    bytes.get_mut(at..at + new.len())?.copy_from_slice(new);
    Some(())
}
