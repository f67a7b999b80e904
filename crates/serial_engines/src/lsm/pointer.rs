//! Entries in memory, durable or volatile: blocks that are written once, and the words that point
//! to them.
//!
//! A run's tree maps a key to a *pointer*: the offset of the entry's block, with the kind of entry
//! in its lowest bits. So whether a key is there at all is known without reading a block, and a
//! tombstone has none.
//!
//! ```text
//! pointer   offset of the block, a multiple of 8, or 0 | kind, 2 bits
//! block     bytes u32 | crc32c of kind and bytes u32 | bytes, padded with zeros
//! ```
//!
//! Blocks are staged before anything points to them. `nvm-log` may write fields of an entry over,
//! under its undo log, while the active MemTable has the only pointer to it; afterwards it is never
//! changed. A merge hands pointers on; it writes a block only where it makes one entry of two.

use crate::lsm::entry::EntryKind;
use pmem::{Arena, Memory, Owner, PmemError};
use storage::Result;
use storage::log::WriteSet;

/// Bytes before an entry's own.
pub(crate) const HEADER_BYTES: usize = 8;
/// The pointer of a tombstone.
pub(crate) const TOMBSTONE: u64 = 2;
const KIND_MASK: u64 = 3;
const OFFSET_MASK: u64 = !7;
const LINE: usize = 64;
/// From here on a block has whole lines, so that it is streamed past the cache.
const STREAMED_BYTES_MIN: usize = 512;

/// Kind of the entry that a pointer leads to.
#[inline]
pub(crate) fn kind(pointer: u64) -> Result<EntryKind> {
    EntryKind::from_code((pointer & KIND_MASK) as u8).ok_or_else(|| {
        PmemError::corrupted("entry", pointer & OFFSET_MASK, "its kind is unknown").into()
    })
}

/// The block of an entry, or 0.
#[inline]
pub(crate) fn block(pointer: u64) -> u64 {
    pointer & OFFSET_MASK
}

/// Writes an entry where nothing points to it yet. `image` has [`HEADER_BYTES`] of room and then
/// the entry's bytes; it is left padded.
pub(crate) fn stage<M: Memory, W: WriteSet<M>>(
    arena: &mut Arena<M>,
    writes: &mut W,
    owner: Owner,
    kind: EntryKind,
    image: &mut Vec<u8>,
) -> Result<u64> {
    let bytes = image.len() - HEADER_BYTES;
    let header = header(kind, &image[HEADER_BYTES..]);
    image[..HEADER_BYTES].copy_from_slice(&header.to_le_bytes());
    debug_assert_eq!(header as u32 as usize, bytes, "lengths have 32 bits");
    image.resize(padded(image.len()), 0);
    arena.enter(owner.part);
    let offset = writes.reserve(arena, image.len(), owner)?;
    writes.stage_final(arena, offset, image)?;
    let change = arena.activate(offset)?;
    writes.change(arena, change)?;
    Ok(offset | u64::from(kind.code()))
}

fn padded(bytes: usize) -> usize {
    let unit = if bytes >= STREAMED_BYTES_MIN { LINE } else { 8 };
    bytes.next_multiple_of(unit)
}

/// Bytes of an entry's block; none has no bytes.
#[inline]
pub(crate) fn block_bytes<M: Memory>(arena: &Arena<M>, pointer: u64) -> Result<u64> {
    if block(pointer) == 0 {
        return Ok(0);
    }
    let bytes = arena.word(block(pointer))? as u32 as usize;
    Ok(padded(HEADER_BYTES + bytes) as u64)
}

/// The bytes of an entry. Its checksum is not checked.
#[inline]
pub(crate) fn read<M: Memory>(arena: &Arena<M>, pointer: u64) -> Result<&[u8]> {
    let offset = block(pointer);
    let bytes = arena.word(offset)? as u32 as usize;
    Ok(arena.bytes(offset + HEADER_BYTES as u64, bytes)?)
}

/// Fails if an entry is not as it was written.
pub(crate) fn check<M: Memory>(arena: &Arena<M>, pointer: u64) -> Result<()> {
    let bytes = read(arena, pointer)?;
    if arena.word(block(pointer))? == header(kind(pointer)?, bytes) {
        Ok(())
    } else {
        Err(PmemError::corrupted("entry", block(pointer), "wrong checksum").into())
    }
}

/// Frees an entry's block, if it has one.
pub(crate) fn free<M: Memory, W: WriteSet<M>>(
    arena: &mut Arena<M>,
    writes: &mut W,
    pointer: u64,
) -> Result<()> {
    if block(pointer) == 0 {
        return Ok(());
    }
    let change = arena.free(block(pointer))?;
    writes.change(arena, change)
}

/// The first word of an entry with these bytes.
pub(crate) fn header(kind: EntryKind, bytes: &[u8]) -> u64 {
    let checksum = crc32c::crc32c_append(u32::from(kind.code()) + 1, bytes);
    u64::from(checksum) << 32 | bytes.len() as u64
}
