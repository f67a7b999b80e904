//! A ring of log records in durable memory: one of the logs that the sessions of a partition write
//! concurrently.
//!
//! Records are numbered over all rings of the partition ([`Lsn`], without gaps), so a reader of the
//! rings can put the records in order and see which one is missing. The record itself is an
//! *object* in the ring of bytes; an *entry* in the ring of the index has its position.
//!
//! ```text
//! pool    root 0: the block
//! block   rings u64 | cut u64 | life u64 | start u64 | kept u64 | archived u64 | zeros to a line
//!         | offsets of the pieces, 8 u64 | index: entries of 16 bytes
//! piece   objects, each on lines of its own; a ring has 1 to 8 pieces, blocks of up to 16 MiB
//! entry   number u64, 0 if unset, with the highest bit set if the record is given up
//!         | position u64 of the object, counted from the first one ever
//! object  crc32c u32 | bytes u32 | number u64 | known u64 | life u64
//!         | payload, padded to whole lines
//! ```
//!
//! The first fields of the block count in ring 0 only. *rings*: how many the partition has. *cut*:
//! first number of the log's newest *life*. *start*: from where on recovery may need records, as
//! far as is proven. *kept*: from where on records are kept for an archive; 0, for `start`, if
//! there never was one. *archived*: records with lower numbers were archived; 0 if none were.
//!
//! Invariants, proven by the crash tests:
//! 1. An entry counts only if its object is whole: the checksum covers the number and starts from
//!    the ring's salt, so neither older content of the memory nor the lap before ever counts. So
//!    object and entry become durable together, by one fence.
//! 2. Records that recovery may need are never overwritten: an append that finds no room fails and
//!    changes nothing.
//! 3. Every record before an object's *known* was durable when the object was made. A missing one
//!    there is damage; any other missing one was never acknowledged, and recovery ends before it.
//! 4. Before anything is appended, recovery unsets every entry after its end that is not given up,
//!    and stores again the records that are not known to be durable. So a number that is used again
//!    never has two entries. It may have two objects, and even one entry for both: the first record
//!    after an opening begins a *life* of the log, and from its number on only objects of that life
//!    count.
//! 5. A record that recovery gives up keeps its entry, marked, and its object. So the next opening
//!    sees the record and marks it again: the mark may have been in a cache only.
//!
//! After the per-transaction logs of NV-Logging (Huang, Schwan, Qureshi: NVRAM-aware Logging in
//! Transaction Systems, VLDB 2014, section 4): the entry's number replaces the paper's state bit.
//! Where we differ: the paper fences the object before it sets the bit, as the bit does not tell
//! laps and torn objects apart.

use super::numbered::{Found, FoundRecords, HEADER_BYTES, InFront, Pending, Stamp, Stream};
use super::position::{LogIdentity, Lsn};
use super::wal_segment::damage;
use crate::error::{Result, StorageError, UNFINISHED};
use crate::sync::yield_to_others;
use pmem::{
    Access, Arena, Counters, Flusher, Memory, MemorySource, Outcome, Owner, POOL_FORMAT, Part,
    PmemError, PoolId, PoolIdentity, PoolKind, RootIndex, site,
};
use std::path::Path;

/// Marks a pool as a log's ring: `NVLG`.
const KIND: PoolKind = PoolKind(0x4E56_4C47);
const BLOCK_ROOT: RootIndex = RootIndex::new(0);
const OWNER: Owner = Owner {
    part: Part::Log,
    tag: 2,
};
const LINE: u64 = 64;
const ENTRY_BYTES: u64 = 16;
/// In an entry's number: the record is given up.
const GIVEN_UP: u64 = 1 << 63;
/// A checkpoint is urgent once one part in this many of a ring is in use: sessions wait for it, and
/// the rest has room for the records logged meanwhile. It is due at three quarters of that
/// (`page_engine/src/buffer/horizon.rs`). A session that finds the ring full writes a checkpoint.
const DUE_SHARE: u64 = 2;
/// Bytes of objects for each entry of the index.
const BYTES_PER_ENTRY: u64 = 128;
/// Bytes of a pool that are not the block: header, tables, the rest of a chunk.
const POOL_EXTRA_BYTES: u64 = 256 << 10;
/// Most bytes of a piece.
pub const PIECE_BYTES_MAX: u64 = 16 << 20;
/// Most pieces.
const PIECES_MAX: usize = 8;
/// Bytes of the block before the index.
const HEAD_BYTES: u64 = 2 * LINE;
/// Most bytes of a ring's objects.
pub const RING_BYTES_MAX: u64 = PIECE_BYTES_MAX * PIECES_MAX as u64;
/// Fewest bytes of a ring's objects.
pub const RING_BYTES_MIN: u64 = 16 << 10;

/// Identity of a ring: its log and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingIdentity {
    /// Database and partition of the log.
    pub log: LogIdentity,
    /// The ring's number.
    pub ring: u32,
}

impl RingIdentity {
    fn name(self) -> String {
        format!("p{}.ring.{}", self.log.partition, self.ring)
    }

    fn pool_id(self) -> PoolId {
        let place = u128::from(self.log.partition) << 96 ^ u128::from(self.ring) << 64;
        PoolId(self.log.database ^ place)
    }

    /// Seed of its checksums.
    fn salt(self) -> u32 {
        crc32c::crc32c(&self.pool_id().0.to_le_bytes())
    }
}

/// Position of a record in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    lsn: Lsn,
    position: u64,
    is_given_up: bool,
}

impl Entry {
    fn new(number: u64, position: u64) -> Self {
        Self {
            lsn: Lsn(number & !GIVEN_UP),
            position,
            is_given_up: number & GIVEN_UP != 0,
        }
    }
}

/// One ring.
pub struct NvRing<M: Memory> {
    arena: Arena<M>,
    name: String,
    salt: u32,
    /// Offset of the index in the pool, and its number of entries.
    index: u64,
    entries: u64,
    /// Offsets of the pieces for objects, the bytes of each, and of all together.
    pieces: [u64; PIECES_MAX],
    piece_bytes: u64,
    bytes: u64,
    /// The oldest entry that may be needed, and the next one; the counts never wrap.
    oldest: u64,
    next: u64,
    /// Positions of the oldest object that may be needed, and of the next one; they never wrap.
    head: u64,
    tail: u64,
    /// The first entry that is not on its way to the medium, and its object.
    unflushed: u64,
    unflushed_from: u64,
    /// The handle that flushes records while others append, once it was asked for and while nobody
    /// uses it; its counters when it came back; and whether the device has such a handle.
    flusher: Option<Flusher<M>>,
    flushed_ahead: Counters,
    has_flusher: bool,
}

/// A piece of the pool to be flushed.
#[derive(Clone, Copy)]
struct Range {
    offset: u64,
    bytes: u64,
}

/// Records of a ring that become durable while others append. Nobody stores to these objects and
/// entries any more. A line of the index may get its next entry meanwhile, which is harmless: that
/// entry does not count before it and its object are flushed and fenced.
pub struct Ahead<M: Memory> {
    flusher: Flusher<M>,
    ranges: [Range; 3],
}

impl<M: Memory> Pending for Ahead<M> {
    type Ended = (Flusher<M>, pmem::Result<()>);

    fn run(self, give_back: impl FnOnce()) -> Self::Ended {
        let Self {
            mut flusher,
            ranges,
        } = self;
        give_back();
        for Range { offset, bytes } in ranges {
            if bytes > 0 {
                flusher.flush(offset, bytes as usize, site!("nv-ring.ahead"));
            }
        }
        yield_to_others();
        // commit point: as that of a session, for what lies in the ranges; nobody relies on it
        // before this has ended
        let fenced = flusher.fence(site!("nv-ring.persist-ahead"));
        (flusher, fenced)
    }
}

/// Size of a new ring.
#[derive(Clone, Copy, Debug)]
pub struct RingSize {
    /// Bytes of records that it has room for, about.
    pub bytes: u64,
    /// Most bytes of a piece, up to [`PIECE_BYTES_MAX`]: tests have rings of several small ones.
    pub piece_bytes_max: u64,
}

/// Division of a ring into pieces and index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    piece_bytes: u64,
    pieces: u64,
    entries: u64,
}

impl Sizes {
    fn of(size: RingSize) -> Self {
        let bytes_max = size.piece_bytes_max * PIECES_MAX as u64;
        let bytes = size.bytes.clamp(RING_BYTES_MIN, bytes_max);
        let pieces = bytes.div_ceil(size.piece_bytes_max);
        let piece_bytes = bytes.div_ceil(pieces).next_multiple_of(BYTES_PER_ENTRY);
        Self::found(piece_bytes, pieces).unwrap_or_else(|| {
            panic!("a ring of {bytes} bytes has {pieces} pieces of {piece_bytes} bytes")
        })
    }

    /// The division of a ring with these pieces, if there is such a ring.
    fn found(piece_bytes: u64, pieces: u64) -> Option<Self> {
        let is_known = (1..=PIECES_MAX as u64).contains(&pieces)
            && (1..=PIECE_BYTES_MAX).contains(&piece_bytes)
            && piece_bytes.is_multiple_of(BYTES_PER_ENTRY)
            && piece_bytes.is_multiple_of(LINE)
            && piece_bytes * pieces >= RING_BYTES_MIN;
        is_known.then(|| Self {
            piece_bytes,
            pieces,
            entries: piece_bytes * pieces / BYTES_PER_ENTRY,
        })
    }

    fn head_and_index(self) -> u64 {
        HEAD_BYTES + self.entries * ENTRY_BYTES
    }
}

/// Allocates a block; durable with the next fence.
fn allocate<M: Memory>(arena: &mut Arena<M>, bytes: u64) -> Result<u64> {
    let block = arena.reserve(bytes as usize, OWNER)?;
    let change = arena.activate(block)?;
    let word = change.apply(arena.word(change.offset)?);
    arena.store_word(change.offset, word)?;
    arena.flush(change.offset, 8, site!("nv-ring.activate"))?;
    Ok(block)
}

impl<M: Memory> NvRing<M> {
    /// Makes a ring, durable when it returns. Removes the remains of an unfinished creation.
    pub fn create<S: MemorySource<Memory = M>>(
        memories: &S,
        identity: RingIdentity,
        size: RingSize,
    ) -> Result<Self> {
        let sizes = Sizes::of(size);
        let pool_bytes = sizes.head_and_index() + sizes.piece_bytes * sizes.pieces;
        let name = identity.name();
        if identity.ring > 0 {
            // A ring that the first one does not count yet.
            match memories.remove(&name) {
                Err(PmemError::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound => {}
                result => result?,
            }
        }
        let memory_bytes = (pool_bytes + POOL_EXTRA_BYTES).next_multiple_of(POOL_EXTRA_BYTES);
        let memory = memories.create(&name, memory_bytes)?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let pool = PoolIdentity {
            kind: KIND,
            pool_id: identity.pool_id(),
            format_version: POOL_FORMAT,
            created_seconds: now.map_or(0, |now| now.as_secs()),
            user: [sizes.piece_bytes, sizes.pieces, 0, 0],
        };
        let mut arena = Arena::create(memory, &pool)?;
        arena.enter(Part::Log);
        let block = allocate(&mut arena, sizes.head_and_index())?;
        let mut head = vec![0; sizes.head_and_index() as usize];
        if identity.ring == 0 {
            head[0] = 1;
            head[24..32].copy_from_slice(&Lsn::FIRST.0.to_le_bytes());
            head[32..40].copy_from_slice(&Lsn::FIRST.0.to_le_bytes());
        }
        for (offset, _) in head[LINE as usize..]
            .chunks_exact_mut(8)
            .zip(0..sizes.pieces)
        {
            let piece = allocate(&mut arena, sizes.piece_bytes)?;
            offset.copy_from_slice(&piece.to_le_bytes());
        }
        arena.write_through(block, &head, site!("nv-ring.zero"))?;
        arena.fence(site!("nv-ring.create"))?;
        arena.settle(Outcome::Committed);
        // commit point: a pool whose block is set is a whole, empty ring
        arena.set_root(BLOCK_ROOT, block)?;
        Self::new(arena, identity, block, sizes)
    }

    /// Opens a ring; stores nothing.
    pub fn open<S: MemorySource<Memory = M>>(
        memories: &S,
        identity: RingIdentity,
        access: Access,
    ) -> Result<Self> {
        let name = identity.name();
        let memory = memories.open(&name, access)?;
        let arena = match access {
            Access::Write => Arena::open(memory, Path::new(&name))?,
            Access::Read => Arena::open_read_only(memory, Path::new(&name))?,
        };
        let foreign = |reason: &str| {
            StorageError::from(PmemError::Foreign {
                path: name.clone().into(),
                reason: reason.to_owned(),
            })
        };
        let found = arena.identity();
        if found.kind != KIND {
            return Err(foreign("it is not a ring of a log"));
        }
        if found.pool_id != identity.pool_id() {
            return Err(foreign(
                "it belongs to another database, partition or place; put the right file back",
            ));
        }
        let [piece_bytes, pieces, ..] = found.user;
        let Some(sizes) = Sizes::found(piece_bytes, pieces) else {
            return Err(foreign("its sizes are unknown"));
        };
        let block = arena.root(BLOCK_ROOT);
        if block == 0 {
            return Err(foreign(UNFINISHED));
        }
        arena.enter(Part::Log);
        Self::new(arena, identity, block, sizes)
    }

    fn new(arena: Arena<M>, identity: RingIdentity, block: u64, sizes: Sizes) -> Result<Self> {
        let mut pieces = [0; PIECES_MAX];
        let offsets = arena.slice::<u64>(block + LINE, sizes.pieces as usize)?;
        pieces[..offsets.len()].copy_from_slice(offsets);
        for &piece in offsets {
            arena.bytes(piece, sizes.piece_bytes as usize)?;
        }
        arena.bytes(block, sizes.head_and_index() as usize)?;
        Ok(Self {
            arena,
            name: identity.name(),
            salt: identity.salt(),
            index: block + HEAD_BYTES,
            entries: sizes.entries,
            pieces,
            piece_bytes: sizes.piece_bytes,
            bytes: sizes.piece_bytes * sizes.pieces,
            oldest: 0,
            next: 0,
            head: 0,
            tail: 0,
            unflushed: 0,
            unflushed_from: 0,
            flusher: None,
            flushed_ahead: Counters::default(),
            has_flusher: true,
        })
    }

    /// Offset in the pool of the byte at a position of the ring.
    fn offset(&self, position: u64) -> u64 {
        let within = position % self.bytes;
        self.pieces[(within / self.piece_bytes) as usize] + within % self.piece_bytes
    }

    /// Number of rings of the partition: ring 0 has it.
    pub fn rings(&self) -> Result<u64> {
        Ok(self.arena.word(self.index - HEAD_BYTES)?)
    }

    /// From where on recovery may need records, as far as is proven: ring 0 knows.
    pub fn start(&self) -> Result<Lsn> {
        Ok(Lsn(self.arena.word(self.index - HEAD_BYTES + 24)?))
    }

    /// From where on records are kept for an archive: ring 0 knows.
    pub fn kept_from(&self) -> Result<Lsn> {
        match self.arena.word(self.index - HEAD_BYTES + 32)? {
            0 => self.start(),
            kept => Ok(Lsn(kept)),
        }
    }

    /// Whether there is room now for a record with a payload of this length, and for `more` bytes
    /// of short ones after it.
    fn has_room(&self, payload: usize, more: u64) -> bool {
        let bytes = object_bytes(payload);
        if bytes > self.piece_bytes {
            return false;
        }
        // Short ones are padded to lines, and what does not fit at the end of the ring begins at
        // its start.
        let bytes_end = self.place(bytes) + bytes + 2 * more;
        let entries_end = self.next + 1 + more / LINE;
        debug_assert!(
            self.head <= self.tail && self.oldest <= self.unflushed && self.unflushed <= self.next,
            "a ring has its oldest record first, and its unflushed ones last"
        );
        bytes_end <= self.head + self.bytes && entries_end <= self.oldest + self.entries
    }

    /// Position where an object of `bytes` bytes begins: objects do not cross the end of a piece.
    fn place(&self, bytes: u64) -> u64 {
        debug_assert!(
            bytes <= self.piece_bytes,
            "an object is longer than a piece"
        );
        let left = self.piece_bytes - self.tail % self.piece_bytes;
        if bytes <= left {
            self.tail
        } else {
            self.tail + left
        }
    }

    /// Ranges of the unflushed records, their objects and then their entries. The caller sends them
    /// there.
    fn take_unflushed(&mut self) -> [Range; 3] {
        let first = self.unflushed % self.entries;
        let entries = self.next - self.unflushed;
        debug_assert!(
            0 < entries && entries <= self.entries,
            "there is no record to flush, or more than the index has"
        );
        debug_assert!(
            self.unflushed_from % self.piece_bytes + (self.tail - self.unflushed_from)
                <= self.piece_bytes,
            "the unflushed records lie in several pieces"
        );
        let until_end = entries.min(self.entries - first);
        let entries_at = |slot: u64, count: u64| Range {
            offset: self.index + slot * ENTRY_BYTES,
            bytes: count * ENTRY_BYTES,
        };
        let objects = Range {
            offset: self.offset(self.unflushed_from),
            bytes: self.tail - self.unflushed_from,
        };
        let ranges = [
            objects,
            entries_at(first, until_end),
            entries_at(0, entries - until_end),
        ];
        self.unflushed = self.next;
        self.unflushed_from = self.tail;
        ranges
    }

    /// Starts the write-back of all records.
    fn flush(&mut self) -> Result<()> {
        let [object, entries @ ..] = self.take_unflushed();
        self.arena.flush(
            object.offset,
            object.bytes as usize,
            site!("nv-ring.object"),
        )?;
        for Range { offset, bytes } in entries {
            if bytes > 0 {
                self.arena
                    .flush(offset, bytes as usize, site!("nv-ring.entry"))?;
            }
        }
        Ok(())
    }

    fn entry(&self, slot: u64) -> Result<Entry> {
        let words = self
            .arena
            .slice::<u64>(self.index + slot * ENTRY_BYTES, 2)?;
        Ok(Entry::new(words[0], words[1]))
    }

    /// The object that an entry names, if it is whole, and what was durable when it was made.
    fn object(&self, slot: u64, entry: Entry) -> Result<Option<(Found, Lsn)>> {
        let room = self.piece_bytes - entry.position % self.piece_bytes;
        if !entry.position.is_multiple_of(LINE) || room < HEADER_BYTES as u64 {
            return Ok(None);
        }
        let at = self.offset(entry.position);
        let header = self.arena.bytes(at, HEADER_BYTES)?;
        let number = |from: usize| {
            let bytes = header[from..from + 8].first_chunk::<8>();
            bytes.copied().map_or(0, u64::from_le_bytes)
        };
        let (checksum, bytes) = (number(0) as u32, number(0) >> 32);
        let (lsn, known) = (number(8), number(16));
        if lsn != entry.lsn.0 || HEADER_BYTES as u64 + bytes > room {
            return Ok(None);
        }
        let covered = self
            .arena
            .bytes(at + 4, HEADER_BYTES - 4 + bytes as usize)?;
        let is_whole = crc32c::crc32c_append(self.salt, covered) == checksum;
        let found = Found {
            lsn: entry.lsn,
            from: entry.lsn,
            is_given_up: entry.is_given_up,
            life: number(24),
            slot,
            position: entry.position,
            payload_bytes: bytes as usize,
        };
        Ok(is_whole.then_some((found, Lsn(known))))
    }

    /// The slots of all entries from `from` on, in no order.
    fn entries_from(&self, from: Lsn) -> Result<Vec<(u64, Entry)>> {
        let words = self
            .arena
            .slice::<u64>(self.index, 2 * self.entries as usize)?;
        let entries = words
            .chunks_exact(2)
            .map(|words| Entry::new(words[0], words[1]));
        let slots = (0..).zip(entries);
        Ok(slots.filter(|(_, entry)| entry.lsn >= from).collect())
    }

    fn store_again(&mut self, offset: u64, bytes: u64) -> Result<()> {
        let same = self.arena.bytes(offset, bytes as usize)?.to_vec();
        self.arena.store(offset, &same)?;
        let site = site!("nv-ring.confirm");
        Ok(self.arena.flush(offset, same.len(), site)?)
    }

    /// The error for a record that finds no room.
    #[cold]
    fn full(&self, wanted: u64) -> StorageError {
        StorageError::log_full(
            wanted,
            format!(
                "and the log's ring `{}` of {} bytes has records of open transactions",
                self.name, self.bytes
            ),
            "give the log more memory, or end transactions earlier",
        )
    }

    /// Offset in the pool of the first object ever, for tests that damage it.
    pub fn first_object(&self) -> u64 {
        self.pieces[0]
    }
}

impl<M: Memory> Stream for NvRing<M>
where
    Self: Send,
{
    type Pending = Ahead<M>;

    fn records(&mut self, from: Lsn) -> Result<FoundRecords> {
        let mut records = FoundRecords::default();
        for (slot, entry) in self.entries_from(from)? {
            if let Some((found, known)) = self.object(slot, entry)? {
                records.known = records.known.max(known);
                records.found.push(found);
            }
        }
        Ok(records)
    }

    fn payload(&mut self, found: &Found) -> Result<&[u8]> {
        let at = self.offset(found.position) + HEADER_BYTES as u64;
        Ok(self.arena.bytes(at, found.payload_bytes)?)
    }

    fn settle(&mut self, kept: &[Found], known: Lsn, from: Lsn) -> Result<()> {
        debug_assert!(
            kept.is_sorted_by_key(|found| found.lsn),
            "the records of a ring are in their order"
        );
        for (slot, entry) in self.entries_from(from)? {
            let place = kept.binary_search_by_key(&entry.lsn, |found| found.lsn);
            let found = place.map(|place| kept[place]);
            let found = found.ok().filter(|found| found.slot == slot);
            let number = match found {
                Some(found) if !found.is_given_up => continue,
                // Also if the mark is there: it may be in a cache only.
                Some(found) => found.lsn.0 | GIVEN_UP,
                None => 0,
            };
            let offset = self.index + slot * ENTRY_BYTES;
            self.arena.store_word(offset, number)?;
            self.arena.flush(offset, 8, site!("nv-ring.unset"))?;
        }
        for found in kept.iter().filter(|found| found.lsn >= known) {
            let entry = self.index + found.slot * ENTRY_BYTES;
            let object = self.offset(found.position);
            self.store_again(entry, ENTRY_BYTES)?;
            self.store_again(object, object_bytes(found.payload_bytes))?;
        }
        self.arena.fence(site!("nv-ring.settle"))?;
        let (Some(first), Some(last)) = (kept.first(), kept.last()) else {
            return Ok(());
        };
        self.next = last.slot + self.entries + 1;
        self.oldest = self.next - kept.len() as u64;
        let span = last.position.checked_sub(first.position);
        if self.oldest % self.entries != first.slot || span.is_none_or(|span| span >= self.bytes) {
            return Err(self.damaged("its records do not lie one behind the other"));
        }
        self.head = first.position;
        self.tail = last.position + object_bytes(last.payload_bytes);
        self.unflushed = self.next;
        self.unflushed_from = self.tail;
        Ok(())
    }

    fn make_room(&mut self, payload: usize, more: u64) -> Result<()> {
        if self.has_room(payload, more) {
            return Ok(());
        }
        Err(self.full((HEADER_BYTES + payload) as u64 + more))
    }

    fn append(&mut self, stamp: Stamp, record: &mut Vec<u8>) -> Result<()> {
        let Stamp {
            lsn, known, life, ..
        } = stamp;
        assert!(
            lsn.0 & GIVEN_UP == 0,
            "the number of a record runs into the mark of its entry"
        );
        debug_assert!(
            record.len() >= HEADER_BYTES,
            "a record has room for its header"
        );
        let payload = record.len() - HEADER_BYTES;
        record[4..8].copy_from_slice(&(payload as u32).to_le_bytes());
        record[8..16].copy_from_slice(&lsn.0.to_le_bytes());
        record[16..24].copy_from_slice(&known.0.to_le_bytes());
        record[24..32].copy_from_slice(&life.to_le_bytes());
        let checksum = crc32c::crc32c_append(self.salt, &record[4..]);
        record[..4].copy_from_slice(&checksum.to_le_bytes());
        record.resize(object_bytes(payload) as usize, 0);
        let position = self.place(record.len() as u64);
        if position != self.tail || position.is_multiple_of(self.piece_bytes) {
            // The records at the piece's end are persisted now, so that the unflushed bytes are
            // always one range.
            self.persist()?;
            self.unflushed_from = position;
        }
        assert!(
            position + record.len() as u64 <= self.head + self.bytes
                && self.next < self.oldest + self.entries,
            "a record would be written over one that may be needed"
        );
        debug_assert!(known <= lsn, "a record says that later ones are durable");
        let object = self.offset(position);
        self.arena.store(object, record)?;
        let entry = self.index + self.next % self.entries * ENTRY_BYTES;
        // The position first: the line keeps the order, so a number is never seen with the position
        // of the lap before.
        self.arena.store_word(entry + 8, position)?;
        self.arena.store_word(entry, lsn.0)?;
        self.next += 1;
        self.tail = position + record.len() as u64;
        Ok(())
    }

    fn persist(&mut self) -> Result<()> {
        if self.unflushed == self.next {
            return Ok(());
        }
        self.flush()?;
        debug_assert_eq!(self.unflushed, self.next, "a record is not flushed");
        // commit point: recovery takes every record in front of the first one that is missing
        Ok(self.arena.fence(site!("nv-ring.persist"))?)
    }

    fn begin_ahead(&mut self) -> Result<Option<Ahead<M>>> {
        if self.unflushed == self.next || !self.has_flusher {
            return Ok(None);
        }
        let flusher = match self.flusher.take() {
            Some(flusher) => flusher,
            None => match self.arena.flusher() {
                Ok(flusher) => {
                    flusher.enter(Part::Log);
                    flusher
                }
                Err(PmemError::Unsupported(_)) => {
                    self.has_flusher = false;
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            },
        };
        let ranges = self.take_unflushed();
        Ok(Some(Ahead { flusher, ranges }))
    }

    fn waiting(&self) -> u64 {
        self.next - self.unflushed
    }

    fn end_persist(&mut self, (flusher, fenced): <Ahead<M> as Pending>::Ended) -> Result<()> {
        debug_assert!(self.flusher.is_none(), "two threads flush one ring ahead");
        self.flushed_ahead = flusher.counters();
        self.flusher = Some(flusher);
        Ok(fenced?)
    }

    fn begin_checkpoint(&mut self, _redo: Lsn, _more: u64) -> Result<()> {
        Ok(())
    }

    fn forget(&mut self, lsn: Lsn) -> Result<()> {
        while self.oldest < self.next {
            let entry = self.entry(self.oldest % self.entries)?;
            if entry.lsn >= lsn {
                self.head = entry.position;
                debug_assert!(self.head <= self.tail, "a ring ends before its beginning");
                return Ok(());
            }
            self.oldest += 1;
        }
        debug_assert_eq!(
            self.unflushed, self.next,
            "a record is forgotten before it is durable"
        );
        self.head = self.tail;
        Ok(())
    }

    fn copy(
        &mut self,
        cursor: &mut u64,
        until: Lsn,
        visit: &mut dyn FnMut(Lsn, &[u8]),
    ) -> Result<()> {
        *cursor = self.oldest.max(*cursor);
        while *cursor < self.next {
            let slot = *cursor % self.entries;
            let entry = self.entry(slot)?;
            if entry.lsn >= until {
                return Ok(());
            }
            let found = self.object(slot, entry)?.map(|(found, _)| found);
            let found = found.ok_or_else(|| {
                self.damaged(&format!("record {} cannot be read any more", entry.lsn.0))
            })?;
            visit(found.lsn, self.payload(&found)?);
            *cursor += 1;
        }
        Ok(())
    }

    fn tail(&self) -> u64 {
        self.tail
    }

    fn urgent_bytes(&self) -> u64 {
        self.bytes / DUE_SHARE
    }

    fn bytes(&self) -> u64 {
        self.arena.pool_bytes()
    }

    fn counters(&self) -> Counters {
        let mut counters = self.arena.counters();
        counters += &self.flushed_ahead;
        counters
    }

    fn damaged(&self, detail: &str) -> StorageError {
        damage(&self.name, self.index, detail)
    }

    fn life(&self) -> Result<(u64, Lsn)> {
        let words = self.arena.slice::<u64>(self.index - HEAD_BYTES, 3)?;
        Ok((words[2], Lsn(words[1])))
    }

    fn begin_life(&mut self, cut: Lsn) -> Result<u64> {
        let offset = self.index - HEAD_BYTES;
        let life = self.life()?.0 + 1;
        // The line keeps the order. With the new cut and the old life nothing changes: records
        // after the cut are lost in either.
        self.arena.store_word(offset + 8, cut.0)?;
        self.arena.store_word(offset + 16, life)?;
        self.arena.flush(offset, 24, site!("nv-ring.life"))?;
        // commit point: from the cut on, only objects of this life count
        self.arena.fence(site!("nv-ring.alive"))?;
        Ok(life)
    }

    fn set_count(&mut self, rings: u64) -> Result<()> {
        assert!(rings > 0, "a log has at least one ring");
        let offset = self.index - HEAD_BYTES;
        self.arena.store_word(offset, rings)?;
        self.arena.flush(offset, 8, site!("nv-ring.count"))?;
        // commit point: an opening looks into so many rings
        Ok(self.arena.fence(site!("nv-ring.counted"))?)
    }

    fn set_archived(&mut self, lsn: Lsn) -> Result<()> {
        let offset = self.index - HEAD_BYTES + 32;
        // The line keeps the order. If only the first word is durable, these records are no longer
        // kept, and not missed, as they are in the archive.
        self.arena.store_word(offset, lsn.0)?;
        self.arena.store_word(offset + 8, lsn.0)?;
        self.arena.flush(offset, 16, site!("nv-ring.archived"))?;
        // commit point: what is in front may be written over, and the archive has to have it
        Ok(self.arena.fence(site!("nv-ring.archived-fence"))?)
    }

    fn archived(&self) -> Result<Lsn> {
        Ok(Lsn(self.arena.word(self.index - HEAD_BYTES + 40)?))
    }

    fn set_start(&mut self, start: Lsn, in_front: InFront) -> Result<()> {
        let offset = self.index - HEAD_BYTES + 24;
        // Stored before the start, in the same line, so that kept records never seem to be given
        // up.
        let kept = match in_front {
            InFront::GivenUp => start,
            InFront::Kept => self.kept_from()?,
        };
        if self.arena.word(offset + 8)? != kept.0 {
            self.arena.store_word(offset + 8, kept.0)?;
        }
        self.arena.store_word(offset, start.0)?;
        self.arena.flush(offset, 16, site!("nv-ring.start"))?;
        // commit point: what is in front may be written over
        Ok(self.arena.fence(site!("nv-ring.started"))?)
    }
}

/// Bytes of an object with a payload of `payload` bytes.
fn object_bytes(payload: usize) -> u64 {
    ((HEADER_BYTES + payload) as u64).next_multiple_of(LINE)
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
#[path = "nv_ring_tests.rs"]
mod tests;
