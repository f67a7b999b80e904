//! The log of `nvwal` and `slot-header-journal`: what groups of transactions changed in pages, in
//! durable memory.
//!
//! ```text
//! block       [generation u64][generation again u64][end u64][zeros to 64][records]
//! record      global transaction u64, or 0 | extensions u64 | mark | mark again
//!             | body, padded to 64
//! mark        generation u32, sequence u32 | bytes of the body u32, crc32c u32 | state u64
//! body        { offset u64 | bytes u64 } of each extension
//!             | { page u64 | bytes of its differences u32 | flags u32
//!                 | differences, padded to 8 } of each page
//! difference  at u16 | bytes u16 | the new bytes
//! ```
//!
//! Generation and end have checksums in their upper halves. Records belong to a generation: when
//! all of them are home, the next generation begins at the first byte, and this one word
//! invalidates the records of the last one. The end is the length in pages that the file had at
//! that time.
//!
//! The body is durable before the marks are stored, and a record's first line is stored from its
//! first byte to its last. So a mark with a right checksum proves that the body is whole, and a
//! body that is not is damaged, never torn. The second mark is for the first: where only the second
//! fits, the first is damaged. The state of a record is in its mark only: *committed*, or
//! *prepared* and to be decided.
//!
//! A body that does not fit into the block continues in extensions, which the heap keeps without
//! allocating them; so the log has to be freed before anything else is requested from the heap.

use super::difference::{Form, append_differences, append_header_and_cells};
use pmem::{
    Arena, Block, Counters, EXTENT_BYTES_MAX, HeapSavepoint, Memory, Outcome, Owner, Part,
    PmemError, RootIndex, site,
};
use storage::Result;
use storage::engine::GlobalTxnId;
use storage::probe::{self, Activity};

const LINE: u64 = 64;
/// Most extensions of a record.
const EXTENSIONS_MAX: usize = 32;
/// Bytes of the first extension; each further one is twice as long, up to the longest block.
const EXTENSION_BYTES: usize = 256 << 10;
/// Least bytes for records.
const RECORDS_BYTES_MIN: u64 = 4 << 10;
/// Most bytes for records.
pub(super) const RECORDS_BYTES_MAX: u64 = 128 << 20;
const COMMITTED: u64 = 0x1c3a_77d0_9be2_4f01;
const PREPARED: u64 = 0x8b52_06ee_d471_93a6;
/// The page takes nothing from home: it begins with zeros.
pub(super) const FRESH: u32 = 1;
pub(super) const ENTRY_BYTES: usize = 16;
/// A block that a record goes on in.
type Extension = (u64, usize);

/// The log, and the record in the making.
pub(super) struct DifferenceLog<M: Memory> {
    arena: Arena<M>,
    block: u64,
    /// Bytes for records.
    bytes: u64,
    salt: u32,
    generation: u32,
    /// Pages of the file when the generation began.
    end: u32,
    /// Number of the next record in its generation.
    sequence: u32,
    /// Offset of the next record, from the first one on.
    tail: u64,
    record: Record,
    extensions: Vec<Extension>,
    /// Extensions of records of this generation.
    used_extensions: Vec<Extension>,
    /// Place of the last record, and the words of its mark.
    last: (u64, [u64; 3]),
    /// Whether the last record has both marks.
    is_last_whole: bool,
}

/// State of a record that was found.
pub(super) enum Found {
    Committed,
    Prepared(GlobalTxnId),
}

/// Entry of a record for one page.
pub(super) struct Entry<'l> {
    pub(super) page: u64,
    pub(super) is_fresh: bool,
    pub(super) differences: &'l [u8],
    /// Their offset in the memory of the log, if its block has the whole record.
    pub(super) at: Option<u64>,
}

/// A log of differences, whatever memory it is in.
pub(super) trait Differences: Send {
    /// The record in the making.
    fn record(&mut self) -> &mut Record;

    /// Pages of the file when the last record was home.
    fn end_at_home(&self) -> u32;

    /// Whether there is any record.
    fn is_empty(&self) -> bool;

    /// Whether a record goes on in extensions, so that the log has to be freed next.
    fn is_extended(&self) -> bool;

    /// Whether there is room for the record after the others.
    fn fits(&self) -> bool;

    /// Makes sure that a record of `bytes` finds room, if all others are freed first.
    fn ensure_room(&mut self, bytes: usize) -> Result<()>;

    /// Number of kept extensions, and the heap's savepoint.
    fn savepoint(&self) -> (usize, HeapSavepoint);

    /// Gives up extensions that were kept since `savepoint`.
    fn rollback(&mut self, savepoint: (usize, HeapSavepoint));

    /// Writes the record; durable when it returns. One with a global transaction waits for its
    /// decision.
    fn write(&mut self) -> Result<()>;

    /// Makes the prepared record, the last one, a committed one; durable when it returns.
    fn decide(&mut self) -> Result<()>;

    /// Frees all records. Their changes are durable at home, in a file of `end` pages.
    fn free(&mut self, end: u32) -> Result<()>;

    /// Gives up the extensions that the group did not use.
    fn settle(&mut self);

    /// Reads the next record, if there is one.
    fn next(&mut self) -> Result<Option<Found>>;

    /// Visits the entries of the record that was read.
    fn for_each_entry(&self, visit: &mut dyn FnMut(Entry<'_>) -> Result<()>) -> Result<()>;

    /// Bytes of its memory, where an entry of a record said that they are.
    fn bytes(&self, at: u64, bytes: usize) -> Result<&[u8]>;

    /// Makes the last mark and the generation durable, which after the death of a process may be in
    /// a cache only. The body of a record was durable before its mark was stored.
    fn settle_found(&mut self) -> Result<()>;

    /// Sets a root of the pool; durable when it returns.
    fn set_root(&mut self, root: RootIndex, offset: u64) -> Result<()>;

    /// Blocks of the pool that are allocated, and that of the log.
    fn blocks(&self) -> Result<(Vec<Block>, u64)>;

    /// Bytes of the pool in use.
    fn footprint(&self) -> Result<pmem::Footprint>;

    /// Counters of its memory.
    fn counters(&self) -> Counters;
}

/// A record in the making: its body, and the global transaction that it waits for, or 0.
#[derive(Default)]
pub(super) struct Record {
    /// The part of a slotted page that it stores.
    pub(super) form: Form,
    body: Vec<u8>,
    global: u64,
}

impl Record {
    /// Begins a record, of a transaction over several partitions if it has a number.
    pub(super) fn begin(&mut self, global: u64) {
        self.body.clear();
        self.global = global;
    }

    /// Adds what has changed in a slotted page or a page of a long value, if anything has. A fresh
    /// one is added in any case, as what is different from zeros.
    pub(super) fn add_page(
        &mut self,
        page: u64,
        is_fresh: bool,
        old: &[u8],
        new: &[u8],
    ) -> Result<()> {
        match self.form {
            Form::HeaderAndCells(geometry) if !is_fresh => {
                let at = self.begin_entry(page);
                append_header_and_cells(geometry, (page, old, new), &mut self.body)?;
                self.end_entry(at, is_fresh);
            }
            _ => self.add_own(page, is_fresh, old, new),
        }
        Ok(())
    }

    /// Adds what is different in a page of any content.
    pub(super) fn add_own(&mut self, page: u64, is_fresh: bool, old: &[u8], new: &[u8]) {
        let at = self.begin_entry(page);
        append_differences(old, new, &mut self.body);
        self.end_entry(at, is_fresh);
    }

    fn begin_entry(&mut self, page: u64) -> usize {
        let at = self.body.len();
        self.body.extend_from_slice(&page.to_le_bytes());
        self.body.extend_from_slice(&[0; 8]);
        at
    }

    /// Ends the entry that begins at `at`; takes it out if it says nothing.
    fn end_entry(&mut self, at: usize, is_fresh: bool) {
        let bytes = self.body.len() - at - ENTRY_BYTES;
        if bytes == 0 && !is_fresh {
            return self.body.truncate(at);
        }
        let flags = if is_fresh { FRESH } else { 0 };
        let lengths = bytes as u64 | u64::from(flags) << 32;
        self.body[at + 8..at + 16].copy_from_slice(&lengths.to_le_bytes());
        self.body.resize(self.body.len().next_multiple_of(8), 0);
    }
}

/// Bytes for records if `asked` are requested.
pub(super) fn records_bytes(asked: u64) -> u64 {
    asked
        .clamp(RECORDS_BYTES_MIN, RECORDS_BYTES_MAX)
        .next_multiple_of(LINE)
}

impl<M: Memory> DifferenceLog<M> {
    /// Makes the log of a file of `end` pages in an empty pool, with `bytes` for records. Gives the
    /// offset of its block; durable when it returns.
    pub(super) fn create(
        mut arena: Arena<M>,
        salt: u32,
        bytes: u64,
        end: u32,
    ) -> Result<(Self, u64)> {
        let owner = Owner {
            part: Part::Log,
            tag: 0,
        };
        let block = arena.reserve((LINE + bytes) as usize, owner)?;
        let change = arena.activate(block)?;
        let word = arena.word(change.offset)?;
        arena.store_word(change.offset, change.apply(word))?;
        arena.flush(change.offset, 8, site!("nvwal.create-block"))?;
        let mut log = Self::new(arena, block, salt, bytes);
        log.store_start(end)?;
        log.arena
            .flush(block, LINE as usize, site!("nvwal.create-start"))?;
        log.arena.fence(site!("nvwal.create-fence"))?;
        log.arena.settle(Outcome::Committed);
        Ok((log, block))
    }

    /// Opens a log whose block is at `block`. Its records have still to be read.
    pub(super) fn open(arena: Arena<M>, block: u64, salt: u32, bytes: u64) -> Result<Self> {
        let mut log = Self::new(arena, block, salt, bytes);
        log.arena.bytes(block, (LINE + bytes) as usize)?;
        let word = |number: u64| log.arena.word(block + 8 * number);
        let generations = [unseal(salt, word(0)?), unseal(salt, word(1)?)];
        let end = unseal(!salt, word(2)?);
        let ([Some(newer), Some(older)], Some(end)) = (generations, end) else {
            return Err(damaged(block, "its first line has a wrong checksum"));
        };
        if newer < older {
            return Err(damaged(block, "its generations are in a wrong order"));
        }
        (log.generation, log.end) = (newer, end);
        Ok(log)
    }

    fn new(arena: Arena<M>, block: u64, salt: u32, bytes: u64) -> Self {
        Self {
            arena,
            block,
            bytes,
            salt,
            generation: 1,
            end: 0,
            sequence: 1,
            tail: 0,
            record: Record::default(),
            extensions: Vec::new(),
            used_extensions: Vec::new(),
            last: (0, [0; 3]),
            is_last_whole: true,
        }
    }

    /// Bytes for the body of the next record.
    fn room(&self) -> usize {
        (self.bytes - self.tail).saturating_sub(LINE) as usize
    }

    /// Puts extensions at the beginning of a body that the block has no room for, with the bytes
    /// that each has of it.
    fn cut(&mut self) -> Result<Vec<Extension>> {
        let (room, mut extents) = (self.room(), Vec::new());
        if self.record.body.len() <= room {
            return Ok(extents);
        }
        let heads = 16 * self.extensions.len();
        let mut left = (self.record.body.len() + heads).saturating_sub(room);
        for &(offset, bytes) in &self.extensions {
            let part = left.min(bytes);
            extents.push((offset, part));
            left -= part;
        }
        if left > 0 || heads > room {
            let text = "a group has changed more than its log has room for".to_owned();
            return Err(storage::StorageError::Unsupported(text));
        }
        let heads = extents
            .iter()
            .flat_map(|&(offset, bytes)| [offset, bytes as u64])
            .flat_map(u64::to_le_bytes);
        self.record.body.splice(..0, heads);
        Ok(extents)
    }

    fn store_start(&mut self, end: u32) -> Result<()> {
        self.end = end;
        self.arena
            .store_word(self.block + 16, seal(!self.salt, end))?;
        let generation = seal(self.salt, self.generation);
        self.arena.store_word(self.block, generation)?;
        Ok(self.arena.store_word(self.block + 8, generation)?)
    }

    /// Reads the body of the record at `at`, and goes on after it.
    fn read_body(&mut self, at: u64, head: [u64; 2], bytes: usize) -> Result<()> {
        let wrong = || damaged(at, "a record is longer than its log");
        let count = usize::try_from(head[1]).map_err(|_| wrong())?;
        if count > EXTENSIONS_MAX {
            return Err(wrong());
        }
        self.record.global = head[0];
        self.record.body.clear();
        let mut extents = Vec::new();
        for number in 0..count as u64 {
            let offset = self.arena.word(at + LINE + 16 * number)?;
            let part = self.arena.word(at + LINE + 16 * number + 8)?;
            extents.push((offset, usize::try_from(part).map_err(|_| wrong())?));
        }
        let mut here = bytes;
        for &(_, part) in &extents {
            here = here.checked_sub(part).ok_or_else(wrong)?;
        }
        if here > self.room() {
            return Err(wrong());
        }
        self.record
            .body
            .extend_from_slice(self.arena.bytes(at + LINE, here)?);
        for &(offset, part) in &extents {
            self.record
                .body
                .extend_from_slice(self.arena.bytes(offset, part)?);
        }
        self.used_extensions.extend(extents);
        self.tail = (self.tail + LINE + here as u64).next_multiple_of(LINE);
        Ok(())
    }
}

impl<M: Memory> Differences for DifferenceLog<M> {
    fn record(&mut self) -> &mut Record {
        &mut self.record
    }

    fn set_root(&mut self, root: RootIndex, offset: u64) -> Result<()> {
        self.arena.set_root(root, offset)?;
        self.settle();
        Ok(())
    }

    fn blocks(&self) -> Result<(Vec<Block>, u64)> {
        Ok((self.arena.allocated()?, self.block))
    }

    fn footprint(&self) -> Result<pmem::Footprint> {
        Ok(self.arena.footprint()?)
    }

    fn counters(&self) -> Counters {
        self.arena.counters()
    }

    fn end_at_home(&self) -> u32 {
        self.end
    }

    fn is_empty(&self) -> bool {
        self.tail == 0
    }

    fn is_extended(&self) -> bool {
        !self.used_extensions.is_empty()
    }

    fn fits(&self) -> bool {
        self.room() >= self.record.body.len()
    }

    fn ensure_room(&mut self, bytes: usize) -> Result<()> {
        let extended: usize = self.extensions.iter().map(|&(_, bytes)| bytes).sum();
        let mut room = (self.bytes - LINE) as usize + extended;
        while room < bytes + 16 * EXTENSIONS_MAX && self.extensions.len() < EXTENSIONS_MAX {
            let bytes = (EXTENSION_BYTES << self.extensions.len().min(8)).min(EXTENT_BYTES_MAX);
            let owner = Owner {
                part: Part::Other,
                tag: 0,
            };
            let block = self.arena.reserve(bytes, owner)?;
            self.extensions.push((block, bytes));
            room += bytes;
        }
        Ok(())
    }

    fn savepoint(&self) -> (usize, HeapSavepoint) {
        (self.extensions.len(), self.arena.heap_savepoint())
    }

    fn rollback(&mut self, (extensions, heap): (usize, HeapSavepoint)) {
        self.extensions.truncate(extensions);
        self.arena.heap_rollback(heap);
    }

    fn write(&mut self) -> Result<()> {
        self.arena.enter(Part::Log);
        let extents = self.cut()?;
        let here = self.record.body.len() - extents.iter().map(|&(_, bytes)| bytes).sum::<usize>();
        let at = self.block + LINE + self.tail;
        let (own, mut rest) = self.record.body.split_at(here);
        if !own.is_empty() {
            self.arena.store(at + LINE, own)?;
            let _flush = probe::begin(Activity::Flush);
            self.arena
                .flush(at + LINE, own.len(), site!("nvwal.frames"))?;
        }
        for &(offset, bytes) in &extents {
            let (part, more) = rest.split_at(bytes);
            self.arena.store(offset, part)?;
            self.arena
                .flush(offset, bytes, site!("nvwal.frames-extension"))?;
            rest = more;
        }
        {
            let _flush = probe::begin(Activity::Flush);
            self.arena.fence(site!("nvwal.frames-fence"))?;
        }
        let head = [self.record.global, extents.len() as u64];
        let place = u64::from(self.generation) | u64::from(self.sequence) << 32;
        let sum = sum_of(self.salt, place, head, &self.record.body);
        let lengths = self.record.body.len() as u64 | u64::from(sum) << 32;
        let state = if self.record.global == 0 {
            COMMITTED
        } else {
            PREPARED
        };
        let mark = [place, lengths, state ^ mixed(place, lengths)];
        for (number, word) in head.into_iter().chain(mark).chain(mark).enumerate() {
            self.arena.store_word(at + 8 * number as u64, word)?;
        }
        let _flush = probe::begin(Activity::Flush);
        self.arena.flush(at, LINE as usize, site!("nvwal.mark"))?;
        // commit point: the mark says that the record is whole, and recovery does what it says
        self.arena.fence(site!("nvwal.mark-fence"))?;
        self.last = (at, mark);
        self.tail = (self.tail + LINE + here as u64).next_multiple_of(LINE);
        self.sequence += 1;
        self.used_extensions.extend(extents);
        Ok(())
    }

    fn decide(&mut self) -> Result<()> {
        self.arena.enter(Part::Log);
        let (at, [place, lengths, _]) = self.last;
        let state = COMMITTED ^ mixed(place, lengths);
        for word in [4, 7] {
            self.arena.store_word(at + 8 * word, state)?;
        }
        self.arena
            .flush(at, LINE as usize, site!("nvwal.decided"))?;
        // commit point: the record is a committed one, and nobody needs to ask for its transaction
        self.arena.fence(site!("nvwal.decided-fence"))?;
        (self.last.1[2], self.is_last_whole) = (state, true);
        Ok(())
    }

    fn free(&mut self, end: u32) -> Result<()> {
        self.arena.enter(Part::Log);
        self.generation += 1;
        self.store_start(end)?;
        self.arena
            .flush(self.block, LINE as usize, site!("nvwal.free"))?;
        // commit point: records of the last generation count no more
        self.arena.fence(site!("nvwal.free-fence"))?;
        (self.tail, self.sequence) = (0, 1);
        self.used_extensions.clear();
        Ok(())
    }

    fn settle(&mut self) {
        self.extensions.clear();
        self.arena.settle(Outcome::Committed);
    }

    fn next(&mut self) -> Result<Option<Found>> {
        if self.tail + LINE > self.bytes {
            return Ok(None);
        }
        let at = self.block + LINE + self.tail;
        let words = self.arena.slice::<u64>(at, 8)?;
        let place = u64::from(self.generation) | u64::from(self.sequence) << 32;
        let state = |first: usize| {
            let state = words[first + 2] ^ mixed(place, words[first + 1]);
            let is_state = state == COMMITTED || state == PREPARED;
            is_state.then_some((state, words[first], words[first + 1]))
        };
        let (state, lengths, is_whole) = match (state(2), state(5)) {
            (None, None) => return Ok(None),
            (Some(first), second) if first.1 == place => (first.0, first.2, Some(first) == second),
            _ => return Err(damaged(at, "the mark of a record is damaged")),
        };
        let head = [words[0], words[1]];
        let mark = [place, lengths, words[4]];
        self.read_body(at, head, lengths as u32 as usize)?;
        if u64::from(sum_of(self.salt, place, head, &self.record.body)) != lengths >> 32 {
            return Err(damaged(at, "the checksum of a record does not fit"));
        }
        self.last = (at, mark);
        self.is_last_whole = is_whole;
        self.sequence += 1;
        Ok(Some(if state == COMMITTED {
            Found::Committed
        } else {
            Found::Prepared(GlobalTxnId(head[0]))
        }))
    }

    fn for_each_entry(&self, visit: &mut dyn FnMut(Entry<'_>) -> Result<()>) -> Result<()> {
        let short = || damaged(self.last.0, "a record ends within a page");
        let extents = self.arena.word(self.last.0 + 8)? as usize;
        let mut rest = self.record.body.get(16 * extents..).ok_or_else(short)?;
        let end = self.last.0 + LINE + self.record.body.len() as u64;
        while !rest.is_empty() {
            let (head, more) = rest.split_at_checked(ENTRY_BYTES).ok_or_else(short)?;
            let lengths = read_u64(head, 8);
            let bytes = lengths as u32 as usize;
            let differences = more.get(..bytes).ok_or_else(short)?;
            visit(Entry {
                page: read_u64(head, 0),
                is_fresh: (lengths >> 32) as u32 & FRESH != 0,
                differences,
                at: (extents == 0).then_some(end - more.len() as u64),
            })?;
            rest = more.get(bytes.next_multiple_of(8)..).unwrap_or(&[]);
        }
        Ok(())
    }

    fn bytes(&self, at: u64, bytes: usize) -> Result<&[u8]> {
        Ok(self.arena.bytes(at, bytes)?)
    }

    fn settle_found(&mut self) -> Result<()> {
        if !self.is_last_whole {
            let (at, mark) = self.last;
            for (number, word) in mark.into_iter().enumerate() {
                self.arena.store_word(at + 40 + 8 * number as u64, word)?;
            }
            self.is_last_whole = true;
        }
        self.arena
            .flush(self.block, LINE as usize, site!("nvwal.found-start"))?;
        if self.tail > 0 {
            self.arena
                .flush(self.last.0, LINE as usize, site!("nvwal.found"))?;
        }
        Ok(self.arena.fence(site!("nvwal.found-fence"))?)
    }
}

pub(super) fn damaged(at: u64, text: &str) -> storage::StorageError {
    PmemError::corrupted("log of differences", at, text).into()
}

fn seal(salt: u32, number: u32) -> u64 {
    u64::from(number) | u64::from(crc32c::crc32c_append(salt, &number.to_le_bytes())) << 32
}

fn unseal(salt: u32, word: u64) -> Option<u32> {
    let number = word as u32;
    (seal(salt, number) == word).then_some(number)
}

/// A word of which half the bits change with each bit of a mark.
fn mixed(place: u64, lengths: u64) -> u64 {
    let word = (place ^ lengths.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 29 ^ lengths).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word ^ word >> 32
}

fn sum_of(salt: u32, place: u64, head: [u64; 2], body: &[u8]) -> u32 {
    let words = [place, head[0], head[1]];
    let sum = words.iter().fold(salt, |sum, word| {
        crc32c::crc32c_append(sum, &word.to_le_bytes())
    });
    crc32c::crc32c_append(sum, body)
}

/// The word at a place of some bytes, which has to be in them.
pub(super) fn read_u64(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, u64::from_le_bytes)
}
