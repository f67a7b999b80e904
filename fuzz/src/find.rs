//! Finding the checksums of a seed's files.
//!
//! A pool is read as its owner would read it: the heap names the blocks, and a block's owner says
//! what it may be. Log segments and checkpoints are walked from their headers. Everything is tried
//! before it is believed, so what is not understood is left out.

use crate::input::Input;
use crate::seal::{Seal, SealKind, word};
use pmem::{Arena, Block, Memory, NativeMemory, PageSize, Part};
use std::ops::Range;
use std::path::Path;

/// First byte of a pool's first chunk, and bytes of a chunk.
const CHUNK_BYTES: usize = 16 << 10;
/// Bytes of a log block in which records are looked for.
const LOG_BYTES: usize = 64 << 10;

/// The checksums of all pieces that are files of a database. `salt` is that of the undo log.
pub fn seals_of(input: &Input, salt: u32) -> Vec<Seal> {
    let mut seals = Vec::new();
    for (part, piece) in input.parts.iter().enumerate() {
        let bytes = &piece.bytes;
        let mut add = |range: Range<usize>, kind: SealKind| {
            if bytes
                .get(range.clone())
                .is_some_and(|range| kind.holds(range))
            {
                seals.push(Seal { part, range, kind });
            }
        };
        if Path::new(&piece.name)
            .extension()
            .is_some_and(|name| name == "pool")
        {
            seals_of_pool(bytes, salt, &mut add);
        } else if piece.name.contains(".wal.") {
            for fields in header_fields(bytes) {
                add(
                    0..bytes.len(),
                    SealKind::Segment(fields, frames(bytes, fields)),
                );
            }
        } else if piece.name.contains(".checkpoint.") {
            for fields in header_fields(bytes) {
                add(0..bytes.len(), SealKind::Checkpoint(fields));
            }
        } else if piece.name.contains(".archive.") {
            add(0..bytes.len(), SealKind::Archive);
        } else {
            add(0..bytes.len(), SealKind::Last);
        }
    }
    seals
}

/// A pool's bytes as an arena that is lost afterwards.
pub fn arena_of(bytes: &[u8]) -> pmem::Result<Arena<NativeMemory>> {
    Arena::open(memory_of(bytes)?, Path::new("fuzz.pool"))
}

/// A memory with these bytes.
pub fn memory_of(bytes: &[u8]) -> pmem::Result<NativeMemory> {
    let mut memory = NativeMemory::volatile(bytes.len().max(1) as u64, PageSize::Base)?;
    memory.store(0, bytes);
    Ok(memory)
}

fn seals_of_pool(bytes: &[u8], salt: u32, add: &mut impl FnMut(Range<usize>, SealKind)) {
    let Ok(arena) = arena_of(bytes) else { return };
    for block in arena.allocated().unwrap_or_default() {
        seals_of_block(bytes, block, salt, add);
    }
    let chunks = (bytes.len() / CHUNK_BYTES).saturating_sub(1);
    for chunk in 0..chunks {
        // Where this first zone's table has the chunk's word; seeds have one zone.
        let at = CHUNK_BYTES + chunk * 8;
        add(at..at + 8, SealKind::ChunkWord(chunk as u32));
    }
    for copy in [0, 4096] {
        add(copy..copy + 176, SealKind::PoolHeader);
    }
}

fn seals_of_block(
    bytes: &[u8],
    block: Block,
    salt: u32,
    add: &mut impl FnMut(Range<usize>, SealKind),
) {
    let (start, length) = (block.offset as usize, block.bytes as usize);
    match block.owner.part {
        Part::Table => {
            add(start..start + length, SealKind::Field);
            // A tuple may be shorter than its block.
            for tuple in (16..=length).rev().step_by(8) {
                add(start..start + tuple, SealKind::Tuple);
            }
        }
        Part::Index => add(start..start + length, SealKind::Node),
        Part::Log => {
            add(start..start + 8, SealKind::CommitWord(salt));
            for at in (start..start + length.min(LOG_BYTES)).step_by(64) {
                let record = word(bytes, at).map_or(0, |word| (word >> 32) as usize);
                if record >= 64 {
                    add(at..at + record, SealKind::LogRecord(salt));
                }
            }
        }
        _ => add(start..start + length, SealKind::TableDescriptor),
    }
}

/// Lengths that the header of a file may have without the checksum behind it.
fn header_fields(bytes: &[u8]) -> Vec<usize> {
    let holds = |fields: &usize| {
        let header = bytes.get(..fields + 4);
        header.is_some_and(|header| SealKind::Last.holds(header))
    };
    (32..=160).step_by(4).filter(holds).collect()
}

/// Offsets of the frames of a log segment.
fn frames(segment: &[u8], fields: usize) -> Vec<usize> {
    let seed = crc32c::crc32c(segment.get(..fields).unwrap_or(&[]));
    let mut frames = Vec::new();
    let mut at = 512;
    while let Some(length) = segment.get(at + 4..).and_then(<[u8]>::first_chunk) {
        let length = u32::from_le_bytes(*length) as usize;
        let Some(covered) = segment.get(at + 4..at + 24 + length) else {
            break;
        };
        let sum = crc32c::crc32c_append(seed, covered).to_le_bytes();
        if segment.get(at..at + 4) != Some(&sum) {
            break;
        }
        frames.push(at);
        at += (24 + length).next_multiple_of(8);
    }
    frames
}
