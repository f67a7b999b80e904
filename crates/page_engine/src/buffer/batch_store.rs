//! Durable storage of batches of changes of pages, each of them whole or not at all, in two
//! memories that alternate.
//!
//! ```text
//! memory   head, one line | word, one line | record of the newest batch of its turn
//! head     magic 8 | version u32 | memory u32, 0 or 1 | database u128 | partition u32
//!          | crc32c u32 | zeros
//! word     in memory 0 only: the newest batch that counts, 40 bits
//!          | 24 bits of a crc32c of it and the head | zeros to 96
//!          | stamp of the database u64 | zeros
//! record   crc32c u32 of all after it, and the head | 0 u32 | batch u64 | end u64
//!          | bytes of images u64 | bytes of open u64 | bytes that each memory has at least u64
//!          | zeros to 64 | images | open | zeros to a whole line
//! image    page u32 | line u16, the first | lines u16 | what they were in the batch before
//! open     session u32 | bytes u32 | a record of its transaction, which has not ended
//! ```
//!
//! Batch `n` lies in memory `n % 2`. While it is made the word is `n - 1`; when its record is
//! durable its pages change in place, and when these are durable the word becomes `n`. So:
//!
//! | word | record of the other memory | what it means | what an opening does |
//! |---|---|---|---|
//! | `n` | whole, of batch `n + 1` | batch `n + 1` may be half in place | gives the images back |
//! | `n` | anything else | no page has changed since batch `n` | nothing |
//!
//! Invariants:
//! 1. No page changes in place before the record with its before image is durable.
//! 2. The record of the newest batch that counts stays as it is until the next one counts: it has
//!    the undo of the transactions that were open at its end.
//! 3. Only records that were written whole can be read: the checksum covers the batch and starts
//!    from the memory's head.

use super::nv_pages::{Edit, ResidentStore};
use crate::page::PageId;
use pmem::{Access, Counters, Extent, MemorySource, Page, Part, PmemError, site};
use std::ops::Range;
use storage::log::{LogIdentity, LogStart, Lsn};
use storage::record::{DecodeError, Reader};
use storage::{Result, StorageError, stamp};

const MAGIC: [u8; 8] = *b"INDBAT\x1a\x01";
const VERSION: u32 = 1;
const LINE: u64 = 64;
const LINE_BYTES: usize = LINE as usize;
const HEAD_FIELDS_BYTES: usize = 36;
const WORD_AT: u64 = LINE;
const _: () = assert!(stamp::SECOND_LINE_AT as u64 >= WORD_AT + 8);
const _: () = assert!((stamp::SECOND_LINE_AT + stamp::BYTES) as u64 <= RECORD_AT);
const RECORD_AT: u64 = 2 * LINE;
const IMAGE_HEAD_BYTES: usize = 8;
/// Bits of the word that are the batch.
const BATCH_BITS: u32 = 40;
/// Least room for the images of a batch.
const ROOM_BYTES_MIN: u64 = 16 << 10;
/// Largest buffer that is kept.
const SPARE_BYTES_MAX: usize = 16 << 20;
/// Memories have a whole number of these bytes.
const GRAIN_BYTES: u64 = 4096;

/// Record of a batch.
pub struct BatchRecord {
    /// With the record's header.
    bytes: Vec<u8>,
    /// End of the images.
    images_end: Option<usize>,
}

/// Decoded record.
struct Found {
    batch: u64,
    end: Lsn,
    memory_bytes: u64,
    images: Vec<u8>,
    open: Vec<u8>,
}

/// The batches of one partition.
pub struct BatchStore<S: MemorySource> {
    identity: LogIdentity,
    memories: [Extent<S::Memory>; 2],
    /// The newest batch that counts, the first number that it does not have, and the transactions
    /// open at its end.
    batch: u64,
    end: Lsn,
    open: Vec<u8>,
    /// Before images of a batch that does not count.
    unfinished: Option<Vec<u8>>,
    /// The buffer of the newest record.
    spare: Vec<u8>,
}

fn name(identity: LogIdentity, number: usize) -> String {
    format!("p{}.nvbatch.{number}", identity.partition)
}

fn head(identity: LogIdentity, number: usize) -> [u8; LINE_BYTES] {
    let mut head = [0; LINE_BYTES];
    head[..8].copy_from_slice(&MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head[12..16].copy_from_slice(&(number as u32).to_le_bytes());
    head[16..32].copy_from_slice(&identity.database.to_le_bytes());
    head[32..36].copy_from_slice(&identity.partition.to_le_bytes());
    let checksum = crc32c::crc32c(&head[..HEAD_FIELDS_BYTES]);
    head[HEAD_FIELDS_BYTES..HEAD_FIELDS_BYTES + 4].copy_from_slice(&checksum.to_le_bytes());
    head
}

/// Seed of the checksums of a memory.
fn salt(identity: LogIdentity, number: usize) -> u32 {
    crc32c::crc32c(&head(identity, number))
}

fn word(identity: LogIdentity, batch: u64) -> u64 {
    assert!(
        batch < 1 << BATCH_BITS,
        "the number of a batch does not fit its word"
    );
    let checksum = crc32c::crc32c_append(salt(identity, 0), &batch.to_le_bytes());
    batch | u64::from(checksum) << BATCH_BITS
}

fn number_at(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    bytes.copied().map_or(0, u64::from_le_bytes)
}

fn memory_bytes(room: u64) -> u64 {
    (RECORD_AT + LINE + room.max(ROOM_BYTES_MIN)).next_multiple_of(GRAIN_BYTES)
}

impl BatchRecord {
    /// A record of nothing, in a buffer.
    fn new(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        bytes.resize(LINE_BYTES, 0);
        Self {
            bytes,
            images_end: None,
        }
    }

    /// Adds what lines of a page are. All images come before the open transactions.
    pub fn push_image(&mut self, page: PageId, lines: &Range<usize>, old: &[u8]) {
        debug_assert!(
            self.images_end.is_none(),
            "images come before open transactions"
        );
        debug_assert!(
            lines.start.is_multiple_of(LINE_BYTES) && lines.len().is_multiple_of(LINE_BYTES),
            "images are of whole lines"
        );
        let (first, count) = (lines.start / LINE_BYTES, lines.len() / LINE_BYTES);
        self.bytes.extend_from_slice(&page.0.to_le_bytes());
        self.bytes.extend_from_slice(&(first as u16).to_le_bytes());
        self.bytes.extend_from_slice(&(count as u16).to_le_bytes());
        self.bytes.extend_from_slice(&old[lines.clone()]);
    }

    /// Adds records of transactions that are open, as [`frame_open`] makes them.
    pub fn push_open(&mut self, records: &[u8]) {
        self.images_end.get_or_insert(self.bytes.len());
        self.bytes.extend_from_slice(records);
    }

    /// Makes it the record of a batch.
    fn finish(&mut self, salt: u32, (batch, end): (u64, Lsn), memory_bytes: u64) {
        let images_end = self.images_end.unwrap_or(self.bytes.len());
        let images_bytes = (images_end - LINE_BYTES) as u64;
        let open_bytes = (self.bytes.len() - images_end) as u64;
        let whole = self.bytes.len().next_multiple_of(LINE_BYTES);
        self.bytes.resize(whole, 0);
        let fields = [batch, end.0, images_bytes, open_bytes, memory_bytes];
        for (field, at) in fields.iter().zip((8..).step_by(8)) {
            self.bytes[at..at + 8].copy_from_slice(&field.to_le_bytes());
        }
        assert!(
            images_bytes + open_bytes <= memory_bytes,
            "a batch is longer than its memory"
        );
        let checksum = crc32c::crc32c_append(salt, &self.bytes[8..]);
        self.bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Appends a record of an open transaction to those of its session.
pub fn frame_open(session: u32, record: &[u8], out: &mut Vec<u8>) {
    debug_assert!(
        !record.is_empty(),
        "an open transaction has an empty record"
    );
    out.extend_from_slice(&session.to_le_bytes());
    out.extend_from_slice(&(record.len() as u32).to_le_bytes());
    out.extend_from_slice(record);
}

impl<S: MemorySource> BatchStore<S> {
    /// Makes the memories, durable when it returns, with room for `room` bytes of images in each.
    /// No batch has been.
    pub fn create(memories: &S, identity: LogIdentity, room: u64) -> Result<()> {
        for number in [1, 0] {
            let memory = memories.create(&name(identity, number), memory_bytes(room))?;
            let mut memory = Extent::new(memory, Part::Log);
            let mut first = vec![0; RECORD_AT as usize];
            first[..LINE_BYTES].copy_from_slice(&head(identity, number));
            let mut record = BatchRecord::new(Vec::new());
            if number == 0 {
                let at = WORD_AT as usize;
                first[at..at + 8].copy_from_slice(&word(identity, 0).to_le_bytes());
                record.finish(salt(identity, 0), (0, LogStart::NEW.lsn), memory.bytes());
            }
            first.extend_from_slice(&record.bytes);
            memory.set(0, &first, site!("batch.create"));
            // commit point: a file of masters that is there has its batches here
            memory.fence(site!("batch.created"))?;
        }
        Ok(())
    }

    /// Opens the memories and finds the newest batch that counts. Nothing is stored.
    pub fn open(memories: &S, identity: LogIdentity, access: Access) -> Result<Self> {
        let open = |number| -> Result<Extent<S::Memory>> {
            let memory = memories.open(&name(identity, number), access)?;
            let memory = Extent::new(memory, Part::Log);
            check_head(&memory, identity, number)?;
            Ok(memory)
        };
        let memories = [open(0)?, open(1)?];
        let newest = number_at(memories[0].get(WORD_AT, 8).unwrap_or_default(), 0);
        let batch = newest & ((1 << BATCH_BITS) - 1);
        if newest != word(identity, batch) {
            let text = "the number of the newest batch is not as it was written";
            return Err(damage(identity, 0, WORD_AT, text));
        }
        let number = place(batch);
        let found = read(&memories[number], salt(identity, number));
        let Some(found) = found.filter(|found| found.batch == batch) else {
            let text = "the record of the newest batch is not as it was written";
            return Err(damage(identity, number, RECORD_AT, text));
        };
        for (number, memory) in memories.iter().enumerate() {
            if memory.bytes() < found.memory_bytes {
                let text = "it ends here, and was longer at the newest batch";
                return Err(damage(identity, number, memory.bytes(), text));
            }
        }
        let other = 1 - number;
        let unfinished = read(&memories[other], salt(identity, other));
        let unfinished = unfinished.filter(|found| found.batch == batch + 1);
        Ok(Self {
            identity,
            memories,
            batch,
            end: found.end,
            open: found.open,
            unfinished: unfinished.map(|found| found.images),
            spare: Vec::new(),
        })
    }

    /// The first number that the newest batch does not have.
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// Whether something is to be undone.
    pub fn is_unfinished(&self) -> bool {
        self.unfinished.is_some() || !self.open.is_empty()
    }

    /// Makes the newest batch durable that was found: a process that has died may have left its
    /// number in a cache only.
    pub fn prove(&mut self) -> Result<()> {
        let newest = word(self.identity, self.batch);
        let memory = &mut self.memories[0];
        memory.set_word(WORD_AT, newest, site!("batch.found-word"));
        // commit point: the batch counts in every later opening
        Ok(memory.fence(site!("batch.found"))?)
    }

    /// Gives pages back what they were before a batch that does not count. They are those from
    /// `first` on, in their order.
    pub fn give_back(
        &self,
        resident: &dyn ResidentStore,
        first: PageId,
        pages: &mut [Page],
    ) -> Result<()> {
        let Some(images) = &self.unfinished else {
            return Ok(());
        };
        let wrong = || {
            let text = "the record of the unfinished batch does not fit the pages";
            damage(self.identity, place(self.batch + 1), RECORD_AT, text)
        };
        let images = decode_images(images).map_err(|_| wrong())?;
        for images in images.chunk_by(|one, next| one.page == next.page) {
            let Some(page) = images.first().and_then(|image| {
                let place = image.page.0.checked_sub(first.0)?;
                pages.get_mut(place as usize)
            }) else {
                return Err(wrong());
            };
            let mut old = page.bytes().to_vec();
            let mut lines = Vec::with_capacity(images.len());
            for image in images {
                let range = image.at..image.at + image.old.len();
                old.get_mut(range.clone())
                    .ok_or_else(wrong)?
                    .copy_from_slice(image.old);
                lines.push(range);
            }
            // All of them, also those that look right: their content may be in a cache only.
            let edit = Edit {
                page,
                new: &old,
                lines: &lines,
            };
            resident.store(0, &mut [edit])?;
        }
        Ok(())
    }

    /// Hands the records of transactions that were open at the end of the newest batch to `visit`,
    /// with their sessions, each session's in its order.
    pub fn visit_open(&self, visit: &mut dyn FnMut(u32, &[u8]) -> Result<()>) -> Result<()> {
        let mut reader = Reader::new(&self.open);
        let wrong = |_: DecodeError| {
            let text = "what was open at the end of the newest batch cannot be read";
            damage(self.identity, place(self.batch), RECORD_AT, text)
        };
        while reader.remaining() > 0 {
            let session = reader.number("session").map_err(wrong)?;
            visit(session, reader.content("record").map_err(wrong)?)?;
        }
        Ok(())
    }

    /// Room for images in the smaller of both memories.
    pub fn room(&self) -> u64 {
        let bytes = self.memories.iter().map(Extent::bytes).min();
        bytes.unwrap_or(0).saturating_sub(RECORD_AT + LINE)
    }

    /// Makes room for `room` bytes of images in both memories.
    pub fn grow(&mut self, room: u64) -> Result<()> {
        for memory in &mut self.memories {
            if memory.bytes() < memory_bytes(room) {
                memory.grow(memory_bytes(room))?;
            }
        }
        Ok(())
    }

    /// Whether a batch that changes nothing is to be made all the same: another record must not be
    /// found any more.
    pub fn is_due(&self) -> bool {
        self.is_unfinished()
    }

    /// The record of the next batch, with nothing in it.
    pub fn next_record(&mut self) -> BatchRecord {
        BatchRecord::new(std::mem::take(&mut self.spare))
    }

    /// Makes the record of the next batch durable: from now on its pages may change in place.
    pub fn begin(&mut self, mut record: BatchRecord, end: Lsn) -> Result<()> {
        let number = place(self.batch + 1);
        debug_assert!(end >= self.end, "a batch ends before the one before it");
        self.grow((record.bytes.len() as u64).next_multiple_of(LINE))?;
        let bytes = self.memories.iter().map(Extent::bytes).min();
        let salt = salt(self.identity, number);
        record.finish(salt, (self.batch + 1, end), bytes.unwrap_or(0));
        let memory = &mut self.memories[number];
        memory.stream(RECORD_AT, &record.bytes, site!("batch.images"));
        // commit point: what the pages of the batch were can be given back
        memory.fence(site!("batch.begin"))?;
        let images_end = record.images_end.unwrap_or(record.bytes.len());
        let open_bytes = number_at(&record.bytes, 32) as usize;
        self.open = record.bytes[images_end..images_end + open_bytes].to_vec();
        self.end = end;
        if record.bytes.capacity() <= SPARE_BYTES_MAX {
            self.spare = record.bytes;
        }
        Ok(())
    }

    /// Lets the batch count whose record and pages are durable.
    pub fn finish(&mut self) -> Result<()> {
        self.batch += 1;
        self.unfinished = None;
        let newest = word(self.identity, self.batch);
        let memory = &mut self.memories[0];
        memory.set_word(WORD_AT, newest, site!("batch.word"));
        // commit point: every transaction of the batch is durable
        Ok(memory.fence(site!("batch.end"))?)
    }

    /// Reads the newest record again; the error says what is wrong with it.
    pub fn verify(&self) -> Result<()> {
        let number = place(self.batch);
        let found = read(&self.memories[number], salt(self.identity, number));
        if found.is_some_and(|found| found.batch == self.batch && found.end == self.end) {
            return Ok(());
        }
        let text = "the record of the newest batch cannot be read";
        Err(damage(self.identity, number, RECORD_AT, text))
    }

    /// Bytes of both memories.
    pub fn bytes(&self) -> u64 {
        self.memories.iter().map(Extent::bytes).sum()
    }

    /// Counters of the memories.
    pub fn counters(&self) -> Counters {
        let mut counters = self.memories[0].counters();
        counters += &self.memories[1].counters();
        counters
    }
}

/// The memory that has a batch.
fn place(batch: u64) -> usize {
    (batch % 2) as usize
}

fn damage(identity: LogIdentity, number: usize, offset: u64, detail: &str) -> StorageError {
    StorageError::damaged_file(name(identity, number), offset, detail)
}

fn check_head<M: pmem::Memory>(
    memory: &Extent<M>,
    identity: LogIdentity,
    number: usize,
) -> Result<()> {
    let found = memory.get(0, LINE_BYTES).unwrap_or_default();
    if found == head(identity, number) && memory.bytes() >= RECORD_AT + LINE {
        return Ok(());
    }
    if found.len() < LINE_BYTES || found[..8] != MAGIC {
        let text = "it is no memory of batches";
        return Err(damage(identity, number, 0, text));
    }
    let checksum = crc32c::crc32c(&found[..HEAD_FIELDS_BYTES]).to_le_bytes();
    let behind = &found[HEAD_FIELDS_BYTES + 4..];
    if found[HEAD_FIELDS_BYTES..HEAD_FIELDS_BYTES + 4] != checksum
        || behind.iter().any(|&byte| byte != 0)
        || found == head(identity, number)
    {
        let text = "its head is not as it was written";
        return Err(damage(identity, number, 0, text));
    }
    Err(StorageError::from(PmemError::Foreign {
        path: name(identity, number).into(),
        reason: "it belongs to another database, partition or version; put the right file back"
            .to_owned(),
    }))
}

/// The record of a memory, if it is whole.
fn read<M: pmem::Memory>(memory: &Extent<M>, salt: u32) -> Option<Found> {
    let header = memory.get(RECORD_AT, LINE_BYTES)?;
    let checksum = u32::from_le_bytes(*header.first_chunk()?);
    let [batch, end, images_bytes, open_bytes, memory_bytes] =
        [8, 16, 24, 32, 40].map(|at| number_at(header, at));
    let content_bytes = images_bytes.checked_add(open_bytes)?;
    let bytes = content_bytes
        .checked_next_multiple_of(LINE)?
        .checked_add(LINE)?;
    if bytes > memory.bytes() {
        return None;
    }
    let record = memory.get(RECORD_AT, bytes as usize)?;
    if crc32c::crc32c_append(salt, &record[8..]) != checksum || record[4..8] != [0; 4] {
        return None;
    }
    let content = &record[LINE_BYTES..][..content_bytes as usize];
    let (images, open) = content.split_at(images_bytes as usize);
    Some(Found {
        batch,
        end: Lsn(end),
        memory_bytes,
        images: images.to_vec(),
        open: open.to_vec(),
    })
}

/// Before image of lines of a page.
struct Image<'b> {
    page: PageId,
    at: usize,
    old: &'b [u8],
}

fn decode_images(bytes: &[u8]) -> Result<Vec<Image<'_>>, DecodeError> {
    let mut reader = Reader::new(bytes);
    let mut images = Vec::new();
    while reader.remaining() > 0 {
        let head: [u8; IMAGE_HEAD_BYTES] = reader.array("image")?;
        let [p0, p1, p2, p3, f0, f1, c0, c1] = head;
        let lines = usize::from(u16::from_le_bytes([c0, c1]));
        images.push(Image {
            page: PageId(u32::from_le_bytes([p0, p1, p2, p3])),
            at: usize::from(u16::from_le_bytes([f0, f1])) * LINE_BYTES,
            old: reader.take("lines", lines * LINE_BYTES)?,
        });
    }
    Ok(images)
}
