//! The pool's header: identity, size, named roots.
//!
//! Two copies of one 176-byte record are in the first 16 KiB of the pool, each with a checksum and
//! a generation. An update writes one copy, fences it, then writes the other, so a crash between
//! leaves at least one whole. `open` takes the valid copy of the highest generation, makes sure
//! that it is durable, and makes the other one equal to it. A copy that a newer version of the
//! program wrote is never overwritten, and two whole copies that contradict each other are damage.
//!
//! The record, all fields little-endian:
//!
//! | byte | bytes | field |
//! |---|---|---|
//! | 0 | 8 | magic `INDPOOL` and 0x1a |
//! | 8 | 4 | byte-order marker 0x01020304 |
//! | 12 | 4 | format version |
//! | 16 | 2 | bytes of a word: 8 |
//! | 18 | 2 | bytes of a line: 64 |
//! | 20 | 4 | bytes of a chunk: 16384 |
//! | 24 | 16 | pool id |
//! | 40 | 4 | kind |
//! | 44 | 4 | zero |
//! | 48 | 8 | generation |
//! | 56 | 8 | bytes of the pool, header included |
//! | 64 | 8 | seconds from 1970 to the creation |
//! | 72 | 64 | eight roots, offsets |
//! | 136 | 32 | four user words |
//! | 168 | 4 | CRC-32C of the bytes before |
//! | 172 | 4 | zero |
//!
//! The word at byte 8192 is the owner's ([`OWNER_WORD_AT`]): 0 in a new pool, which neither reads
//! nor writes it afterwards.
//!
//! The first 24 bytes keep their place in every later version.

use crate::arena::Arena;
use crate::device::{LINE_BYTES, Memory};
use crate::error::{PmemError, Result};
use crate::heap::table::{CHUNK_BYTES, CHUNKS_MAX, HEADER_BYTES};
use crate::heap::{self, Heap};
use crate::site;
use std::path::Path;

/// Version of the pool format, unless the owner of the pool asks for a higher one.
pub const POOL_FORMAT: u32 = 1;
/// The highest version that this program reads and writes. Header and heap are the same in all of
/// them: an owner whose content older programs would misread makes its pools of a higher version,
/// which those programs refuse.
pub const POOL_FORMAT_MAX: u32 = 4;
/// Smallest pool: header, one chunk table, one chunk.
pub const POOL_BYTES_MIN: u64 = HEADER_BYTES + 2 * CHUNK_BYTES;
/// Where the header has a word for the owner of the file: 0 in a new pool.
pub const OWNER_WORD_AT: u64 = 8192;

const ROOTS: usize = 8;
const USER_WORDS: usize = 4;
const RECORD_BYTES: usize = 176;
const CHECKED_BYTES: usize = 168;
const COPY_OFFSETS: [u64; 2] = [0, 4096];
const MAGIC: [u8; 8] = *b"INDPOOL\x1a";
const BYTE_ORDER: u32 = 0x0102_0304;
const WORD_BYTES: u16 = 8;

const _: () = assert!(COPY_OFFSETS[1] + RECORD_BYTES as u64 <= HEADER_BYTES);
const _: () = assert!(COPY_OFFSETS[1] + (RECORD_BYTES as u64) <= OWNER_WORD_AT);
const _: () = assert!(OWNER_WORD_AT + 8 <= HEADER_BYTES);
const _: () = assert!(72 + 8 * ROOTS + 8 * USER_WORDS == CHECKED_BYTES);

/// The use of a pool. The rooms above choose the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolKind(pub u32);

/// Identity of a pool; a copied file keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolId(pub u128);

/// Which pool this is. Fixed at creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolIdentity {
    /// The pool's use.
    pub kind: PoolKind,
    /// The pool's identity.
    pub pool_id: PoolId,
    /// Format of the pool: [`POOL_FORMAT`] to [`POOL_FORMAT_MAX`].
    pub format_version: u32,
    /// Seconds from 1970 to the creation.
    pub created_seconds: u64,
    /// Four words for the rooms above; the pool only keeps them.
    pub user: [u64; USER_WORDS],
}

impl PoolIdentity {
    /// The identity of a pool that nobody opens again: in volatile memory, or for a measurement.
    pub fn unnamed(kind: PoolKind) -> Self {
        Self {
            kind,
            pool_id: PoolId(0),
            format_version: POOL_FORMAT,
            created_seconds: 0,
            user: [0; USER_WORDS],
        }
    }
}

/// One of the eight named roots of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootIndex(u8);

impl RootIndex {
    /// Root number `index`.
    ///
    /// # Panics
    /// If `index` is 8 or more; in a `const` that is a compile error.
    pub const fn new(index: u8) -> Self {
        assert!((index as usize) < ROOTS, "a pool has eight roots");
        Self(index)
    }
}

/// Volatile copy of the header. Equal to both copies on the medium except inside [`store_header`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PoolHeader {
    pub(crate) identity: PoolIdentity,
    pub(crate) generation: u64,
    pub(crate) pool_bytes: u64,
    pub(crate) roots: [u64; ROOTS],
}

/// Why one copy cannot be used. Ordered: of two faults the greater says more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Magic,
    Checksum,
    /// The checksum is that of this format, but the version is not: only the version is damaged.
    Version(u32),
    Geometry(String),
    Newer(u32),
    ByteOrder,
}

impl<M: Memory> Arena<M> {
    /// Makes a pool in `memory`, whose content may be anything. Durable when it returns. Fails if
    /// the memory is smaller than [`POOL_BYTES_MIN`].
    pub fn create(mut memory: M, identity: &PoolIdentity) -> Result<Self> {
        let pool_bytes = memory.bytes() / CHUNK_BYTES * CHUNK_BYTES;
        if pool_bytes < POOL_BYTES_MIN || pool_bytes / CHUNK_BYTES > CHUNKS_MAX {
            return Err(PmemError::Unsupported(format!(
                "a pool needs {POOL_BYTES_MIN} bytes to {} bytes; {} were given",
                CHUNKS_MAX * CHUNK_BYTES,
                memory.bytes()
            )));
        }
        let format = identity.format_version;
        if !(POOL_FORMAT..=POOL_FORMAT_MAX).contains(&format) {
            return Err(PmemError::Unsupported(format!(
                "pools of format {format} cannot be made; this program makes formats \
                 {POOL_FORMAT} to {POOL_FORMAT_MAX}"
            )));
        }
        let mut header = PoolHeader {
            identity: identity.clone(),
            generation: 0,
            pool_bytes,
            roots: [0; ROOTS],
        };
        heap::grow::format(&mut memory, pool_bytes)?;
        memory.store_word(OWNER_WORD_AT, 0);
        memory.flush(OWNER_WORD_AT, 8, site!("pool.owner-word"));
        // commit point: with the first valid copy the memory is a pool.
        store_header(&mut memory, &mut header)?;
        let heap = Heap::new(pool_bytes);
        Ok(Self {
            memory,
            header,
            heap,
            repaired: false,
        })
    }

    /// Opens a pool for reading and writing. Reads the header only, so the time does not depend on
    /// the size. Repairs a damaged or outdated copy of the header, and stores nothing if both are
    /// whole.
    ///
    /// After the death of a process a whole copy need not be durable. Both copies are made durable
    /// first, because the repair of one, and later the writing of a new header, rely on the other.
    ///
    /// A log must be recovered before the first reservation: the heap reads the medium when it
    /// first needs a run.
    pub fn open(memory: M, path_for_errors: &Path) -> Result<Self> {
        let (mut arena, found) = Self::read_header(memory, path_for_errors)?;
        for offset in COPY_OFFSETS {
            arena
                .memory
                .flush(offset, RECORD_BYTES, site!("pool.found"));
        }
        arena.memory.fence(site!("pool.found-fence"))?;
        let record = encode(&arena.header);
        for (copy, offset) in found.iter().zip(COPY_OFFSETS) {
            if copy.as_ref() != Ok(&arena.header) {
                arena.memory.store(offset, &record);
                arena
                    .memory
                    .flush(offset, RECORD_BYTES, site!("pool.repair"));
                arena.repaired = true;
            }
        }
        Ok(arena)
    }

    /// Opens a pool whose memory must not be changed: as [`Arena::open`], but repairs nothing. The
    /// caller stores nothing and reserves nothing.
    pub fn open_read_only(memory: M, path_for_errors: &Path) -> Result<Self> {
        Self::read_header(memory, path_for_errors).map(|(arena, _)| arena)
    }

    /// Which pool this is.
    pub fn identity(&self) -> &PoolIdentity {
        &self.header.identity
    }

    /// A named root: an offset, or 0 if it was never set.
    pub fn root(&self, index: RootIndex) -> u64 {
        self.header.roots[usize::from(index.0)]
    }

    /// Sets a named root. Atomic, and durable when it returns; everything the root leads to has to
    /// be durable before.
    pub fn set_root(&mut self, index: RootIndex, offset: u64) -> Result<()> {
        self.header.roots[usize::from(index.0)] = offset;
        self.replace_header()
    }

    /// Makes the pool one of this version if it has a lower one. Atomic, and durable when it
    /// returns.
    pub fn raise_format(&mut self, version: u32) -> Result<()> {
        assert!(
            version <= POOL_FORMAT_MAX,
            "a pool gets a format that this program does not know"
        );
        if self.header.identity.format_version >= version {
            return Ok(());
        }
        self.header.identity.format_version = version;
        self.replace_header()
    }

    fn replace_header(&mut self) -> Result<()> {
        if self.repaired {
            // The repaired copy must be whole while the other one is written. Growth has fenced
            // before it comes here.
            self.memory.fence(site!("pool.repair-fence"))?;
            self.repaired = false;
        }
        // commit point: the first whole copy of the new generation makes the change take effect.
        store_header(&mut self.memory, &mut self.header)
    }

    fn read_header(memory: M, path: &Path) -> Result<(Self, [Result<PoolHeader, Fault>; 2])> {
        if memory.bytes() < POOL_BYTES_MIN {
            return Err(foreign(
                path,
                format!(
                    "too short for a pool: {} bytes, the smallest pool has {POOL_BYTES_MIN}",
                    memory.bytes()
                ),
            ));
        }
        let heap = Heap::new(0);
        let identity = PoolIdentity {
            kind: PoolKind(0),
            pool_id: PoolId(0),
            format_version: 0,
            created_seconds: 0,
            user: [0; USER_WORDS],
        };
        let header = PoolHeader {
            identity,
            generation: 0,
            pool_bytes: 0,
            roots: [0; ROOTS],
        };
        let mut arena = Self {
            memory,
            header,
            heap,
            repaired: false,
        };
        let found = [decode(arena.copy(0)?), decode(arena.copy(1)?)];
        let header = match &found {
            [Ok(first), Ok(second)] => newest(first, second)?.clone(),
            // Opening would overwrite data that a newer program needs.
            [Ok(_), Err(Fault::Newer(_))] | [Err(Fault::Newer(_)), Ok(_)] | [Err(_), Err(_)] => {
                return Err(fault_of(&found, &arena, path));
            }
            [Ok(whole), Err(_)] | [Err(_), Ok(whole)] => whole.clone(),
        };
        check_size(&header, arena.memory.bytes(), path)?;
        arena.heap = Heap::new(header.pool_bytes);
        arena.header = header;
        Ok((arena, found))
    }

    fn copy(&self, index: usize) -> Result<&[u8; RECORD_BYTES]> {
        let bytes = self.bytes(COPY_OFFSETS[index], RECORD_BYTES)?;
        Ok(bytes
            .try_into()
            .expect("the slice has the length that was asked for"))
    }
}

/// Writes the header with the next generation, one copy after the other. Durable when it returns.
pub(crate) fn store_header<M: Memory>(memory: &mut M, header: &mut PoolHeader) -> Result<()> {
    header.generation = header.generation.checked_add(1).ok_or_else(|| {
        PmemError::corrupted("pool header", 48, "no higher generation can be counted")
    })?;
    let record = encode(header);
    for offset in COPY_OFFSETS {
        memory.store(offset, &record);
        memory.flush(offset, RECORD_BYTES, site!("pool.header"));
        memory.fence(site!("pool.header-fence"))?;
    }
    Ok(())
}

/// The newer one of two whole copies of one header.
fn newest<'h>(first: &'h PoolHeader, second: &'h PoolHeader) -> Result<&'h PoolHeader> {
    let raised = PoolIdentity {
        format_version: second.identity.format_version,
        ..first.identity.clone()
    };
    let contradiction = if raised != second.identity {
        "its two copies are of different pools"
    } else if first.generation == second.generation && first != second {
        "its two copies have one generation and differ"
    } else if first.generation < second.generation {
        return Ok(second);
    } else {
        return Ok(first);
    };
    let detail = format!("{contradiction}; restore the pool from a backup");
    Err(PmemError::corrupted("pool header", COPY_OFFSETS[1], detail))
}

fn check_size(header: &PoolHeader, file_bytes: u64, path: &Path) -> Result<()> {
    let pool_bytes = header.pool_bytes;
    if pool_bytes > file_bytes {
        return Err(foreign(
            path,
            format!(
                "truncated: its header says {pool_bytes} bytes, the file has {file_bytes}; \
                 restore it from a backup"
            ),
        ));
    }
    let whole = pool_bytes.is_multiple_of(CHUNK_BYTES);
    if !whole || pool_bytes < POOL_BYTES_MIN || pool_bytes / CHUNK_BYTES > CHUNKS_MAX {
        let detail = format!("a pool cannot have {pool_bytes} bytes");
        return Err(PmemError::corrupted("pool header", 56, detail));
    }
    Ok(())
}

/// The error for a pool without a valid copy.
#[cold]
fn fault_of<M: Memory>(
    found: &[Result<PoolHeader, Fault>; 2],
    arena: &Arena<M>,
    path: &Path,
) -> PmemError {
    let worst = found.iter().filter_map(|copy| copy.as_ref().err()).max();
    match worst {
        Some(Fault::ByteOrder) => foreign(
            path,
            "written on a big-endian machine, this one is little-endian; \
             dump it there and load the dump here"
                .to_owned(),
        ),
        Some(Fault::Newer(version) | Fault::Version(version)) => foreign(
            path,
            format!(
                "written by a newer version (format {version}, this program reads up to \
                 {POOL_FORMAT_MAX}); upgrade the program"
            ),
        ),
        Some(Fault::Geometry(reason)) => foreign(path, reason.clone()),
        Some(Fault::Checksum) => PmemError::corrupted(
            "pool header",
            0,
            "neither of its two copies has a valid checksum; restore the pool from a backup",
        ),
        Some(Fault::Magic) | None => {
            let start = arena.bytes(0, LINE_BYTES as usize).unwrap_or(&[]);
            let reason = if start.iter().all(|&byte| byte == 0) {
                "it begins with zeros: the pool was never finished, or its beginning is lost; \
                 put the right file back, or restore the database from a backup"
            } else {
                "not a pool of this program: the first bytes are not INDPOOL"
            };
            foreign(path, reason.to_owned())
        }
    }
}

#[cold]
fn foreign(path: &Path, reason: String) -> PmemError {
    PmemError::Foreign {
        path: path.to_owned(),
        reason,
    }
}

fn encode(header: &PoolHeader) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        record[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    let identity = &header.identity;
    put(&MAGIC);
    put(&BYTE_ORDER.to_le_bytes());
    put(&identity.format_version.to_le_bytes());
    put(&WORD_BYTES.to_le_bytes());
    put(&(LINE_BYTES as u16).to_le_bytes());
    put(&(CHUNK_BYTES as u32).to_le_bytes());
    put(&identity.pool_id.0.to_le_bytes());
    put(&identity.kind.0.to_le_bytes());
    put(&0_u32.to_le_bytes());
    put(&header.generation.to_le_bytes());
    put(&header.pool_bytes.to_le_bytes());
    put(&identity.created_seconds.to_le_bytes());
    for word in header.roots.iter().chain(&identity.user) {
        put(&word.to_le_bytes());
    }
    let checksum = crc32c::crc32c(&record[..CHECKED_BYTES]);
    record[CHECKED_BYTES..CHECKED_BYTES + 4].copy_from_slice(&checksum.to_le_bytes());
    record
}

fn decode(record: &[u8; RECORD_BYTES]) -> Result<PoolHeader, Fault> {
    if record[..8] != MAGIC {
        return Err(Fault::Magic);
    }
    let order = u32::from_le_bytes(take(record, 8));
    if order == BYTE_ORDER.swap_bytes() {
        return Err(Fault::ByteOrder);
    }
    let version = u32::from_le_bytes(take(record, 12));
    if order == BYTE_ORDER && version > POOL_FORMAT_MAX {
        let mut known = POOL_FORMAT..=POOL_FORMAT_MAX;
        let is_damaged = known.any(|version| {
            let mut repaired = *record;
            repaired[12..16].copy_from_slice(&version.to_le_bytes());
            is_whole(&repaired)
        });
        return Err(if is_damaged {
            Fault::Version(version)
        } else {
            Fault::Newer(version)
        });
    }
    if !is_whole(record) {
        return Err(Fault::Checksum);
    }
    if version == 0 {
        return Err(Fault::Geometry("there is no format 0".to_owned()));
    }
    let word = u16::from_le_bytes(take(record, 16));
    let line = u16::from_le_bytes(take(record, 18));
    let chunk = u32::from_le_bytes(take(record, 20));
    let sizes = (word, u64::from(line), u64::from(chunk));
    if sizes != (WORD_BYTES, LINE_BYTES, CHUNK_BYTES) {
        return Err(Fault::Geometry(format!(
            "made with words of {word}, lines of {line} and chunks of {chunk} bytes; this \
             program uses {WORD_BYTES}, {LINE_BYTES} and {CHUNK_BYTES}"
        )));
    }
    let word_at = |at: usize| u64::from_le_bytes(take(record, at));
    let identity = PoolIdentity {
        kind: PoolKind(u32::from_le_bytes(take(record, 40))),
        pool_id: PoolId(u128::from_le_bytes(take(record, 24))),
        format_version: version,
        created_seconds: word_at(64),
        user: std::array::from_fn(|index| word_at(136 + 8 * index)),
    };
    Ok(PoolHeader {
        identity,
        generation: word_at(48),
        pool_bytes: word_at(56),
        roots: std::array::from_fn(|index| word_at(72 + 8 * index)),
    })
}

/// Whether the checksum of a record of this format is right.
fn is_whole(record: &[u8; RECORD_BYTES]) -> bool {
    let stored = u32::from_le_bytes(take(record, CHECKED_BYTES));
    let reserved = u32::from_le_bytes(take(record, CHECKED_BYTES + 4));
    stored == crc32c::crc32c(&record[..CHECKED_BYTES]) && reserved == 0
}

/// `N` bytes of the record from `at`.
fn take<const N: usize>(record: &[u8; RECORD_BYTES], at: usize) -> [u8; N] {
    record[at..at + N]
        .try_into()
        .expect("the range has N bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> PoolHeader {
        PoolHeader {
            identity: PoolIdentity {
                kind: PoolKind(7),
                pool_id: PoolId(0x0123_4567_89ab_cdef_0011_2233_4455_6677),
                format_version: POOL_FORMAT,
                created_seconds: 1_700_000_000,
                user: [1, 2, 3, 4],
            },
            generation: 9,
            pool_bytes: 1 << 20,
            roots: [8, 7, 6, 5, 4, 3, 2, 1],
        }
    }

    #[test]
    fn a_record_is_read_back() {
        assert_eq!(decode(&encode(&header())), Ok(header()));
    }

    #[test]
    fn every_bit_flip_is_found() {
        let record = encode(&header());
        for bit in 0..RECORD_BYTES * 8 {
            let mut damaged = record;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn other_byte_order_and_newer_versions_are_named() {
        let mut record = encode(&header());
        record[8..12].reverse();
        assert_eq!(decode(&record), Err(Fault::ByteOrder));
        for format_version in POOL_FORMAT..=POOL_FORMAT_MAX {
            let mut header = header();
            header.identity.format_version = format_version;
            let mut record = encode(&header);
            assert_eq!(decode(&record), Ok(header));
            let newer = POOL_FORMAT_MAX + 1;
            record[12..16].copy_from_slice(&newer.to_le_bytes());
            assert_eq!(decode(&record), Err(Fault::Version(newer)));
            record[100] ^= 1;
            assert_eq!(decode(&record), Err(Fault::Newer(newer)));
        }
    }

    #[test]
    fn of_two_whole_copies_the_newer_counts_unless_they_contradict() {
        let old = header();
        let new = PoolHeader {
            generation: 10,
            pool_bytes: 2 << 20,
            ..header()
        };
        let mut raised = new.clone();
        raised.identity.format_version = POOL_FORMAT_MAX;
        for new in [&new, &raised] {
            for (first, second) in [(&old, new), (new, &old)] {
                assert_eq!(newest(first, second).unwrap(), new);
            }
        }
        let mut foreign = new.clone();
        foreign.identity.pool_id = PoolId(1);
        let mut rival = new.clone();
        rival.roots[0] = 1;
        for other in [foreign, rival] {
            assert!(newest(&new, &other).is_err(), "{other:?}");
        }
    }
}
