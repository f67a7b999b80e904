//! The log of slot headers: one record, which is all that recovery needs.
//!
//! ```text
//! block      [master line][a fixed record, to the end of the block]
//! master     directory's root u64 | block of the slots that records move on through u64, or 0
//! record     head | { offset u64 | bytes u64 } of each extension [8] | beginning of the body
//! head       of a fixed record: crc32c u32 | bytes of the body u32 | state u64 | extensions u64
//!            of one in slots: crc32c u32 | bytes of the body (28 bits), extensions (4 bits)
//!            | state u64
//! body       global transaction u64 | headers u32 | words u32
//!            | { page u64 | sequence u32 | kind and bytes u32 | header, padded to 8 } of each
//!            | { offset u64 | clear u64 | set u64 } of each
//! header     kind 0: fields u8 [4] | slot u8 of each
//!            kind 1: slots kept at the beginning u8 | slots kept at the end u8 | lowest unit u8
//!                    | slots between u8 of each
//! ```
//!
//! A header is given whole (kind 0), or as a splice (kind 1), which derives it from the one before,
//! in the other place of the page. It is durable before the record is written, and is not
//! overwritten before the new one is durable. So a transaction that inserts one row has a record of
//! one line.
//!
//! A body that does not fit into the block continues in extensions: blocks that the heap keeps for
//! the group without allocating them.
//!
//! Records move on through slots (`records`), so that no line wears out early, unless the partition
//! is older or was made without them: then each takes the place of the one before.
//!
//! The record counts when its checksum fits, and its state word shows whether it is committed or
//! waits for the decision about its global transaction. The next group overwrites it only after a
//! fence that made its changes durable, headers in their pages and words of the heap. So recovery
//! may always find a record that is done, and does it again where a page or a word is older. A
//! record that is not whole is one that was being written; where records do not move on recovery
//! takes it out, lest lines of the next one make it whole.

use super::header::{
    self, Geometry, Header, NO_IMAGE, Seal, after, before, damaged, is_at_least, is_image, line_at,
    lines_of, place_of, store, word,
};
use super::records::{PART_BYTES, RecordSlots};
use pmem::{Arena, Memory, PmemError, WordChange, site};
use storage::engine::{GlobalTxnId, HeaderImages};
use storage::probe::{self, Activity};
use storage::{Result, StorageError};

/// Bytes of the block with master and log.
pub(super) const BLOCK_BYTES: usize = 8128;
/// Offset of the record in the block.
const HEAD_AT: u64 = 64;
/// Most extensions of a record.
pub(super) const EXTENSIONS_MAX: usize = 8;
/// Bytes of a record's head without extensions: of a fixed record, and of one in slots.
const FIXED_HEAD_BYTES: usize = 24;
const MOVING_HEAD_BYTES: usize = 16;
/// Bytes of a record's head before its body.
const HEAD_BYTES: usize = FIXED_HEAD_BYTES + 16 * EXTENSIONS_MAX;
/// The bits of the number of extensions above those of the body's bytes.
const COUNT_SHIFT: u32 = 28;
/// Bytes of the body that the block has room for.
pub(super) const BODY_BYTES: usize = BLOCK_BYTES - HEAD_AT as usize - HEAD_BYTES;
const BODY_HEAD_BYTES: usize = 16;
/// Bytes of a body for each header, at most, and for each word.
pub(super) const HEADER_ENTRY_BYTES: usize = 16 + 4 + super::header::SLOTS_MAX;
pub(super) const WORD_ENTRY_BYTES: usize = 24;

/// The bit that distinguishes kind 1 from kind 0, next to the number of bytes.
const SPLICE: u32 = 1 << 31;

const COMMITTED: u64 = 0x7f31_c0de_5a1d_0bed;
const PREPARED: u64 = 0x2ac4_9b1e_e37f_6210;

/// A block that a record goes on in.
pub(super) type Extension = (u64, usize);

/// The record in the making, and the places of records.
pub(super) struct HeaderLog {
    /// The block with master and log.
    block: u64,
    salt: u32,
    /// Where records lie if they move on.
    slots: Option<RecordSlots>,
    /// Parts of records in slots, or records in one place, since the log was opened.
    written: u64,
    pub(super) images: HeaderImages,
    body: Vec<u8>,
    /// A record as it is stored.
    record: Vec<u8>,
    headers: u32,
    words: u32,
    sum: u32,
}

impl HeaderLog {
    pub(super) fn new(block: u64, salt: u32) -> Self {
        Self {
            block,
            salt,
            slots: None,
            written: 0,
            images: HeaderImages::Shortest,
            body: Vec::new(),
            record: Vec::new(),
            headers: 0,
            words: 0,
            sum: 0,
        }
    }

    /// Lets records move on through slots.
    pub(super) fn move_through(&mut self, slots: RecordSlots) {
        self.slots = Some(slots);
    }

    /// Finds the slots that the master leads to, if it does.
    pub(super) fn find_slots<M: Memory>(&mut self, arena: &Arena<M>) -> Result<()> {
        let base = arena.word(self.block + 8)?;
        if base != 0 {
            self.slots = Some(RecordSlots::open(arena, base, self.salt)?);
        }
        Ok(())
    }

    /// The block with the slots.
    pub(super) fn slots_block(&self) -> Option<u64> {
        self.slots.as_ref().map(RecordSlots::block)
    }

    /// Writes of the most written line of the log since it was opened, if records have come around
    /// often.
    pub(super) fn line_writes(&self) -> f64 {
        let places = self.slots.as_ref().map_or(1, RecordSlots::count);
        self.written as f64 / places as f64
    }

    /// Begins a record, of a transaction over several partitions if it has a number.
    pub(super) fn begin(&mut self, global: u64) {
        self.body.clear();
        self.body.extend_from_slice(&global.to_le_bytes());
        self.body.extend_from_slice(&[0; 8]);
        (self.headers, self.words) = (0, 0);
    }

    /// Adds the header that comes after the one in force, as a splice if that is shorter and not
    /// all headers are whole.
    pub(super) fn add_header(&mut self, page: u64, in_force: &Header, header: &Header) {
        let (mut splice, whole) = (NO_IMAGE, header.image());
        let bytes = header.splice(in_force, &mut splice);
        let is_shorter = bytes.next_multiple_of(8) < whole.len().next_multiple_of(8);
        let may_differ = self.images == HeaderImages::Shortest;
        let (kind, content) = if may_differ && is_shorter && header.level() == in_force.level() {
            (SPLICE, &splice[..bytes])
        } else {
            (0, whole)
        };
        self.body.extend_from_slice(&page.to_le_bytes());
        let sequence = after(in_force.sequence);
        self.body.extend_from_slice(&sequence.to_le_bytes());
        let kind_and_bytes = kind | content.len() as u32;
        self.body.extend_from_slice(&kind_and_bytes.to_le_bytes());
        self.body.extend_from_slice(content);
        self.body.resize(self.body.len().next_multiple_of(8), 0);
        self.headers += 1;
    }

    /// Adds a word; headers come first.
    pub(super) fn add_word(&mut self, change: WordChange) {
        for word in [change.offset, change.clear, change.set] {
            self.body.extend_from_slice(&word.to_le_bytes());
        }
        self.words += 1;
    }

    /// Stores the record and starts its write-back.
    pub(super) fn write<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        extensions: &[Extension],
    ) -> Result<()> {
        self.body[8..12].copy_from_slice(&self.headers.to_le_bytes());
        self.body[12..16].copy_from_slice(&self.words.to_le_bytes());
        let (here, rest) = self.body.split_at(self.body.len().min(BODY_BYTES));
        let mut head = [0; HEAD_BYTES];
        let first = self.head_bytes();
        let count = write_extensions(arena, extensions, rest, &mut head[first..])?;
        let mut numbers = self.body.len() as u32;
        match &mut self.slots {
            Some(slots) => {
                numbers |= (count as u32) << COUNT_SHIFT;
                slots.begin(first + 16 * count + here.len());
            }
            None => head[16..24].copy_from_slice(&(count as u64).to_le_bytes()),
        }
        head[4..8].copy_from_slice(&numbers.to_le_bytes());
        let head = &mut head[..first + 16 * count];
        self.sum = sum_of(self.sum_salt(), head, &self.body);
        head[..4].copy_from_slice(&self.sum.to_le_bytes());
        let is_prepared = self.body[..8] != [0; 8];
        let state = self.state(if is_prepared { PREPARED } else { COMMITTED });
        head[8..16].copy_from_slice(&state.to_le_bytes());
        self.record.clear();
        self.record.extend_from_slice(head);
        self.record.extend_from_slice(here);
        self.store(arena)
    }

    /// Stores the record in its place, or in its slots.
    fn store<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        match &self.slots {
            None => {
                arena.store(self.block + HEAD_AT, &self.record)?;
                self.written += 1;
            }
            Some(slots) => {
                for (part, bytes) in self.record.chunks(PART_BYTES).enumerate() {
                    slots.store(arena, part, bytes)?;
                    self.written += 1;
                }
            }
        }
        let _flush = probe::begin(Activity::Flush);
        for (at, bytes) in self.ranges(self.record.len()) {
            arena.flush(at, bytes, site!("fash.record"))?;
        }
        Ok(())
    }

    /// Where the newest record of so many bytes lies.
    fn ranges(&self, bytes: usize) -> impl Iterator<Item = (u64, usize)> {
        let part_bytes = if self.slots.is_some() {
            PART_BYTES
        } else {
            bytes
        };
        (0..bytes.div_ceil(part_bytes)).map(move |part| {
            let here = part_bytes.min(bytes - part * part_bytes);
            match &self.slots {
                Some(slots) => slots.range(part, here),
                None => (self.block + HEAD_AT, here),
            }
        })
    }

    /// Place of the newest record's head.
    fn head_at(&self) -> u64 {
        let in_slots = self.slots.as_ref().map(|slots| slots.part(0));
        in_slots.unwrap_or(self.block + HEAD_AT)
    }

    fn head_bytes(&self) -> usize {
        if self.slots.is_some() {
            MOVING_HEAD_BYTES
        } else {
            FIXED_HEAD_BYTES
        }
    }

    fn sum_salt(&self) -> u32 {
        self.slots.as_ref().map_or(self.salt, RecordSlots::salt)
    }

    fn state(&self, state: u64) -> u64 {
        state ^ u64::from(self.sum).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Makes the prepared record a committed one; durable when it returns.
    pub(super) fn decide<M: Memory>(&self, arena: &mut Arena<M>) -> Result<()> {
        let at = self.head_at() + 8;
        arena.store_word(at, self.state(COMMITTED))?;
        arena.flush(at, 8, site!("fash.decided"))?;
        // commit point: the record is a committed one, and nobody needs to ask for its transaction
        Ok(arena.fence(site!("fash.decided-fence"))?)
    }

    /// Reads the record, if there is a whole one.
    fn load<M: Memory>(&mut self, arena: &Arena<M>) -> Result<Option<RecordState>> {
        if self.slots.as_ref().is_some_and(|slots| !slots.is_used()) {
            return Ok(None);
        }
        let head = arena.bytes(self.head_at(), HEAD_BYTES)?;
        let number = |at: usize| read_u64(head, at);
        let (sum, bytes, state) = (number(0) as u32, (number(0) >> 32) as usize, number(8));
        let first = self.head_bytes();
        let (bytes, count) = if self.slots.is_some() {
            (bytes & ((1 << COUNT_SHIFT) - 1), bytes >> COUNT_SHIFT)
        } else {
            (bytes, number(16) as usize)
        };
        if count > EXTENSIONS_MAX || bytes < BODY_HEAD_BYTES {
            return Ok(None);
        }
        let used = first + 16 * count;
        let length = used + bytes.min(BODY_BYTES);
        if !self.read(arena, length)? {
            return Ok(None);
        }
        self.body.clear();
        self.body.extend_from_slice(&self.record[used..]);
        for number_of in 0..count {
            let entry = first + 16 * number_of;
            let (offset, part) = (number(entry), number(entry + 8));
            match arena.bytes(offset, usize::try_from(part).unwrap_or(usize::MAX)) {
                Ok(part) if self.body.len() + part.len() <= bytes => {
                    self.body.extend_from_slice(part);
                }
                _ => return Ok(None),
            }
        }
        self.sum = sum_of(self.sum_salt(), &head[..used], &self.body);
        if self.body.len() != bytes || self.sum != sum {
            return Ok(None);
        }
        self.headers = read_u64(&self.body, 8) as u32;
        self.words = (read_u64(&self.body, 8) >> 32) as u32;
        let global = read_u64(&self.body, 0);
        Ok(if state == self.state(COMMITTED) {
            Some(RecordState::Committed)
        } else if state == self.state(PREPARED) {
            Some(RecordState::Prepared(global))
        } else {
            None
        })
    }

    /// Reads the newest record without its extensions; false if a part of it is not there.
    fn read<M: Memory>(&mut self, arena: &Arena<M>, bytes: usize) -> Result<bool> {
        self.record.clear();
        if let Some(slots) = &self.slots {
            for part in 0..bytes.div_ceil(PART_BYTES) {
                if !slots.has(arena, part)? {
                    return Ok(false);
                }
                let here = PART_BYTES.min(bytes - part * PART_BYTES);
                self.record
                    .extend_from_slice(arena.bytes(slots.part(part), here)?);
            }
        } else {
            let found = arena.bytes(self.block + HEAD_AT, bytes)?;
            self.record.extend_from_slice(found);
        }
        Ok(true)
    }

    /// Headers and words of the record that was loaded.
    fn entries(&self) -> Result<(Vec<LoggedHeader<'_>>, Vec<WordChange>)> {
        let short = || -> StorageError {
            PmemError::corrupted("header log", self.block, "its record is too short").into()
        };
        let mut at = BODY_HEAD_BYTES;
        let mut take = |bytes: usize| {
            let part = self.body.get(at..at + bytes).ok_or_else(short)?;
            at += bytes.next_multiple_of(8);
            Ok::<_, StorageError>(part)
        };
        let mut headers = Vec::new();
        for _ in 0..self.headers {
            let fields = take(16)?;
            let numbers = read_u64(fields, 8);
            let kind_and_bytes = (numbers >> 32) as u32;
            let bytes = take((kind_and_bytes & !SPLICE) as usize)?;
            let content = if kind_and_bytes & SPLICE != 0 {
                Content::Splice(bytes)
            } else if is_image(bytes) {
                Content::Whole(bytes)
            } else {
                return Err(short());
            };
            headers.push(LoggedHeader {
                page: read_u64(fields, 0),
                sequence: numbers as u32,
                content,
            });
        }
        let mut words = Vec::new();
        for _ in 0..self.words {
            let fields = take(WORD_ENTRY_BYTES)?;
            words.push(WordChange {
                offset: read_u64(fields, 0),
                clear: read_u64(fields, 8),
                set: read_u64(fields, 16),
            });
        }
        Ok((headers, words))
    }

    /// Redoes the changes of the record, if it counts, and flushes them in place; the caller fences
    /// before the record is overwritten. Says whether a prepared transaction was undone.
    pub(super) fn recover<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        form: (Seal, Geometry),
        decide: &dyn Fn(GlobalTxnId) -> bool,
    ) -> Result<bool> {
        let is_prepared = match self.load(arena)? {
            None => return self.give_up(arena),
            // Its number is never used again, so it needs no mark.
            Some(RecordState::Prepared(global)) if !decide(GlobalTxnId(global)) => return Ok(true),
            Some(state) => matches!(state, RecordState::Prepared(_)),
        };
        // After the death of a process the record need not be durable, and then nothing of it may
        // be before it is.
        for (at, bytes) in self.ranges(self.record.len()) {
            arena.flush(at, bytes, site!("fash.found-record"))?;
        }
        arena.fence(site!("fash.found-record-fence"))?;
        if is_prepared {
            self.decide(arena)?;
        }
        let (headers, words) = self.entries()?;
        for header in &headers {
            header.redo(arena, form)?;
        }
        for change in &words {
            let word = arena.word(change.offset)?;
            if change.apply(word) != word {
                arena.store_word(change.offset, change.apply(word))?;
            }
            arena.flush(change.offset, 8, site!("fash.redo-word"))?;
        }
        Ok(false)
    }

    /// Takes a record that is not whole out of the log. The next one may have lines in common with
    /// it, and must not make it whole. Its group waits for that before it is written. In slots each
    /// record has a number of its own.
    fn give_up<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<bool> {
        if self.slots.is_some() {
            return Ok(false);
        }
        let at = self.block + HEAD_AT;
        if arena.word(at)? != 0 {
            arena.store_word(at, 0)?;
        }
        arena.flush(at, 8, site!("fash.torn-record"))?;
        Ok(false)
    }

    /// Whether recovery would have nothing to store.
    pub(super) fn is_done<M: Memory>(
        &mut self,
        arena: &Arena<M>,
        form: (Seal, Geometry),
        decide: &dyn Fn(GlobalTxnId) -> bool,
    ) -> Result<bool> {
        match self.load(arena)? {
            None => return Ok(true),
            Some(RecordState::Prepared(global)) => return Ok(!decide(GlobalTxnId(global))),
            Some(RecordState::Committed) => {}
        }
        let (headers, words) = self.entries()?;
        for header in &headers {
            if matches!(header.found(arena, form)?, Found::Older) {
                return Ok(false);
            }
        }
        for change in &words {
            let word = arena.word(change.offset)?;
            if change.apply(word) != word {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

enum RecordState {
    Committed,
    Prepared(u64),
}

/// A header that a record has.
struct LoggedHeader<'l> {
    page: u64,
    sequence: u32,
    content: Content<'l>,
}

/// Form of a header in a record.
enum Content<'l> {
    /// By its fields and slots.
    Whole(&'l [u8]),
    /// By what differs from the header before.
    Splice(&'l [u8]),
}

/// Content of a page at the place of a record's header.
enum Found {
    /// The header, whole, with this number of cells.
    Same(usize),
    /// A newer header, or one that is about to be overwritten by a newer one.
    Newer,
    /// An older header, or a torn one.
    Older,
}

impl LoggedHeader<'_> {
    fn found<M: Memory>(
        &self,
        arena: &Arena<M>,
        (seal, geometry): (Seal, Geometry),
    ) -> Result<Found> {
        let (page, sequence) = (self.page, self.sequence);
        let number = |place| -> Result<Option<u32>> {
            let word = word(arena, page, place)?;
            Ok(seal.sequence(page, word))
        };
        let (own, other) = (number(place_of(sequence))?, number(1 - place_of(sequence))?);
        match own {
            Some(own) if own == sequence && other != Some(after(sequence)) => {
                let stored = header::read(arena, seal, geometry, page, sequence, true);
                Ok(stored.map_or(Found::Older, |header| Found::Same(header.count())))
            }
            Some(own) if is_at_least(own, sequence) => Ok(Found::Newer),
            // A word that is damaged may be that of a newer header.
            None if other != Some(before(sequence)) => {
                Err(damaged(page, "the words of its headers do not fit"))
            }
            _ => Ok(Found::Older),
        }
    }

    /// The header that a splice makes of the one before.
    fn spliced<M: Memory>(
        &self,
        arena: &Arena<M>,
        (seal, geometry): (Seal, Geometry),
        splice: &[u8],
    ) -> Result<Header> {
        let base = before(self.sequence);
        let base = header::read(arena, seal, geometry, self.page, base, true)?;
        let header = base.spliced(splice, geometry);
        let text = "what the log has of its header does not fit the one before";
        header.ok_or_else(|| damaged(self.page, text))
    }

    /// Stores the header if the page has an older one, and starts its write-back. One that a newer
    /// one has followed is durable.
    fn redo<M: Memory>(&self, arena: &mut Arena<M>, form: (Seal, Geometry)) -> Result<()> {
        let count = match self.found(arena, form)? {
            Found::Newer => return Ok(()),
            Found::Same(count) => count,
            Found::Older => {
                let header;
                let image = match self.content {
                    Content::Whole(whole) => whole,
                    Content::Splice(splice) => {
                        header = self.spliced(arena, form, splice)?;
                        header.image()
                    }
                };
                store(arena, form.0, self.page, self.sequence, image)?;
                usize::from(image[1])
            }
        };
        for line in 0..lines_of(count) {
            let at = self.page + line_at(place_of(self.sequence), line) as u64;
            arena.flush(at, 64, site!("fash.redo-header"))?;
        }
        Ok(())
    }
}

/// Stores what a block has no room for in extensions, and starts their write-back. Their places go
/// into the head; gives how many there are.
fn write_extensions<M: Memory>(
    arena: &mut Arena<M>,
    extensions: &[Extension],
    mut rest: &[u8],
    places: &mut [u8],
) -> Result<usize> {
    let mut count = 0;
    for &(offset, bytes) in extensions {
        if rest.is_empty() {
            break;
        }
        let (part, more) = rest.split_at(rest.len().min(bytes));
        arena.store(offset, part)?;
        arena.flush(offset, part.len(), site!("fash.record-extension"))?;
        let at = 16 * count;
        places[at..at + 8].copy_from_slice(&offset.to_le_bytes());
        places[at + 8..at + 16].copy_from_slice(&(part.len() as u64).to_le_bytes());
        rest = more;
        count += 1;
    }
    if !rest.is_empty() {
        let text = "a group has changed more pages than its log has room for".to_owned();
        return Err(StorageError::Unsupported(text));
    }
    Ok(count)
}

fn sum_of(salt: u32, head: &[u8], body: &[u8]) -> u32 {
    let sum = crc32c::crc32c_append(salt, &head[4..8]);
    crc32c::crc32c_append(crc32c::crc32c_append(sum, &head[16..]), body)
}

fn read_u64(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, u64::from_le_bytes)
}
