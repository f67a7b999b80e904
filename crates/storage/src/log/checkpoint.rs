//! Checkpoints: all tables of a partition in one compressed file, which takes the place of the log
//! in front of it.
//!
//! The file is written under another name, synced, renamed, and the directory is synced; only then
//! are the old checkpoint and the log in front of the new one removed. So at every moment the
//! newest file that is named a checkpoint is whole, and the log that goes on from it is there.
//!
//! | header field | bytes | meaning |
//! |---|---|---|
//! | magic | 8 | `INDLCKP\n` |
//! | version | 4 | `VERSION` |
//! | partition | 4 | number of the partition |
//! | database | 16 | identity of the database |
//! | number | 8 | the number in the file's name |
//! | segment, position | 16 | where replay of the log starts |
//! | ticket | 8 | the newest commit that is in it |
//! | settings | 16 | two words of the engine |
//! | checksum | 4 | crc32c of all fields before |
//!
//! Blocks follow one after the other: checksum 4, stored bytes 4, plain bytes 4, data (LZ4). A
//! block's checksum is seeded with the header's and the block's number. Plain blocks hold whole
//! entries: tag 1 and a definition, tag 2 and a row of the table before it, tag 3 and the number of
//! rows at the end, each with its length in four bytes.

use super::redo::write_row;
use super::wal::{LogIdentity, LogStart, Lsn};
use super::wal_segment::{damage, read_u32, read_u64};
use crate::engine::CommitTicket;
use crate::error::{Result, StorageError};
use crate::record::{Reader, Row, TableDef};
use disk::{Directory, DiskError, File};
use pmem::site;

const MAGIC: [u8; 8] = *b"INDLCKP\n";
const VERSION: u32 = 1;
const KIND: &str = "checkpoint";
const FIELDS_BYTES: usize = 80;
const HEADER_BYTES: usize = FIELDS_BYTES + 4;
const BLOCK_HEADER_BYTES: usize = 12;
/// Plain bytes after which a block is closed: large enough for LZ4's window, small enough to stay
/// in a cache.
const BLOCK_BYTES: usize = 256 << 10;
/// Bytes that are handed to the file, or read from it, in one call.
const IO_BYTES: usize = 1 << 20;
/// Longest plain block that is believed: the longest entry and what may stand before it.
const PLAIN_BYTES_MAX: usize = 1 << 30;

/// What a checkpoint says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointHead {
    /// The number in its name; greater ones are newer.
    pub number: u64,
    /// Where replay of the log starts.
    pub start: LogStart,
    /// The newest commit that is in it.
    pub ticket: CommitTicket,
    /// Two words that only the engine understands.
    pub settings: [u64; 2],
}

/// One thing in a checkpoint.
#[derive(Debug)]
pub enum CheckpointEntry<'c> {
    /// A table; its rows follow.
    Table(TableDef),
    /// A row of the table before it; read it with [`super::redo::read_row`].
    Row(&'c [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Table = 1,
    Row = 2,
    End = 3,
}

/// A checkpoint that is being written.
pub struct CheckpointWriter<F: File> {
    identity: LogIdentity,
    head: CheckpointHead,
    file: F,
    seed: u32,
    blocks: u32,
    rows: u64,
    plain: Vec<u8>,
    stored: Vec<u8>,
    written: u64,
}

impl<F: File> CheckpointWriter<F> {
    /// Begins a checkpoint.
    pub fn create<D: Directory<File = F>>(
        directory: &D,
        identity: LogIdentity,
        head: CheckpointHead,
    ) -> Result<Self> {
        remove_unpublished(directory, identity)?;
        let file = directory.create(&unpublished_name(identity))?;
        let stored = encode_head(identity, &head);
        let seed = crc32c::crc32c(&stored[..FIELDS_BYTES]);
        Ok(Self {
            identity,
            head,
            file,
            seed,
            blocks: 0,
            rows: 0,
            plain: Vec::new(),
            stored,
            written: 0,
        })
    }

    /// Adds a table. Its rows are added before the next table.
    pub fn table(&mut self, def: &TableDef) -> Result<()> {
        self.entry(Tag::Table, |bytes| bytes.extend_from_slice(&def.encode()))
    }

    /// Adds a row to the newest table.
    pub fn row(&mut self, row: &Row) -> Result<()> {
        self.rows += 1;
        self.entry(Tag::Row, |bytes| write_row(row, bytes))
    }

    /// Makes the checkpoint durable under its name, and returns its length. Older ones stay.
    ///
    /// An error from here may leave either checkpoint in force, so the caller stops.
    pub fn publish<D: Directory<File = F>>(mut self, directory: &D) -> Result<u64> {
        let name = self.identity.file_name(KIND, self.head.number);
        directory.rename(&unpublished_name(self.identity), &name)?;
        // commit point: recovery takes the newest file that has a checkpoint's name
        directory.sync(site!("checkpoint.publish"))?;
        self.written += self.stored.len() as u64;
        Ok(self.written)
    }

    /// Writes the rest and syncs the file. Only [`CheckpointWriter::publish`] may follow.
    pub fn finish(&mut self) -> Result<()> {
        let rows = self.rows;
        self.entry(Tag::End, |bytes| {
            bytes.extend_from_slice(&rows.to_le_bytes());
        })?;
        self.close_block()?;
        self.write()?;
        self.file.sync(site!("checkpoint.content"))?;
        Ok(())
    }

    fn entry(&mut self, tag: Tag, content: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        self.plain.push(tag as u8);
        self.plain.extend_from_slice(&[0; 4]);
        let start = self.plain.len();
        content(&mut self.plain);
        let length = (self.plain.len() - start) as u32;
        self.plain[start - 4..start].copy_from_slice(&length.to_le_bytes());
        if self.plain.len() >= BLOCK_BYTES {
            self.close_block()
        } else {
            Ok(())
        }
    }

    fn close_block(&mut self) -> Result<()> {
        if self.plain.is_empty() {
            return Ok(());
        }
        let data = lz4_flex::block::compress(&self.plain);
        let start = self.stored.len();
        self.stored.extend_from_slice(&[0; 4]);
        self.stored
            .extend_from_slice(&(data.len() as u32).to_le_bytes());
        self.stored
            .extend_from_slice(&(self.plain.len() as u32).to_le_bytes());
        self.stored.extend_from_slice(&data);
        let checksum = block_checksum(self.seed, self.blocks, &self.stored[start + 4..]);
        self.stored[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
        self.plain.clear();
        self.blocks += 1;
        if self.stored.len() >= IO_BYTES {
            self.write()
        } else {
            Ok(())
        }
    }

    fn write(&mut self) -> Result<()> {
        self.file.write_at(self.written, &self.stored)?;
        self.written += self.stored.len() as u64;
        self.stored.clear();
        Ok(())
    }
}

/// A checkpoint that is being read.
pub struct CheckpointReader<F: File> {
    name: String,
    head: CheckpointHead,
    file: F,
    file_bytes: u64,
    seed: u32,
}

impl<F: File> CheckpointReader<F> {
    /// The newest checkpoint of the partition. A partition that exists has one.
    pub fn open_newest<D: Directory<File = F>>(
        directory: &D,
        identity: LogIdentity,
    ) -> Result<Self> {
        let Some(number) = identity.numbers(directory, KIND)?.pop() else {
            let (file, partition) = (identity.file_name(KIND, 1), identity.partition);
            let reason = format!("partition {partition} has no checkpoint; put its files back");
            return Err(StorageError::ForeignFile { file, reason });
        };
        let name = identity.file_name(KIND, number);
        let mut file = directory.open(&name)?;
        let file_bytes = file.bytes()?;
        let mut header = vec![0; file_bytes.min(HEADER_BYTES as u64) as usize];
        file.read_at(0, &mut header)?;
        let head = decode_head(&name, identity, number, &header)?;
        let seed = crc32c::crc32c(&header[..FIELDS_BYTES]);
        Ok(Self {
            name,
            head,
            file,
            file_bytes,
            seed,
        })
    }

    /// What the checkpoint says about itself.
    pub fn head(&self) -> CheckpointHead {
        self.head
    }

    /// Length of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Hands everything in it to `visit`, in order, and checks that all of it is there.
    pub fn read(&mut self, visit: &mut dyn FnMut(CheckpointEntry<'_>) -> Result<()>) -> Result<()> {
        let mut offset = HEADER_BYTES as u64;
        let (mut block, mut rows) = (0, 0_u64);
        let mut stored = Vec::new();
        loop {
            let plain = self.read_block(offset, block, &mut stored)?;
            let at_block = |detail: String| damage(&self.name, offset, detail);
            let mut reader = Reader::new(&plain);
            while reader.remaining() > 0 {
                let tag = reader
                    .byte("an entry")
                    .map_err(|e| at_block(e.to_string()))?;
                let content = reader
                    .content("an entry")
                    .map_err(|e| at_block(e.to_string()))?;
                if tag == Tag::Table as u8 {
                    let def = TableDef::decode(content).map_err(|e| at_block(e.to_string()))?;
                    visit(CheckpointEntry::Table(def))?;
                } else if tag == Tag::Row as u8 {
                    rows += 1;
                    visit(CheckpointEntry::Row(content))?;
                } else if tag == Tag::End as u8 && read_u64(content, 0) == Some(rows) {
                    return Ok(());
                } else {
                    return Err(at_block(format!(
                        "an entry has tag {tag} after {rows} rows"
                    )));
                }
            }
            offset += (BLOCK_HEADER_BYTES + stored.len()) as u64;
            block += 1;
        }
    }

    /// Reads one block: `stored` gets its data as it stands in the file, the plain bytes are
    /// returned.
    fn read_block(&mut self, offset: u64, block: u32, stored: &mut Vec<u8>) -> Result<Vec<u8>> {
        let damaged = |detail: String| damage(&self.name, offset, detail);
        let left = self.file_bytes - offset.min(self.file_bytes);
        let mut header = [0; BLOCK_HEADER_BYTES];
        if left < BLOCK_HEADER_BYTES as u64 {
            return Err(damaged(
                "the file ends before the checkpoint does".to_owned(),
            ));
        }
        self.file.read_at(offset, &mut header)?;
        let field = |at| read_u32(&header, at).unwrap_or(0);
        let (checksum, stored_bytes, plain_bytes) = (field(0), field(4), field(8) as usize);
        if u64::from(stored_bytes) > left - BLOCK_HEADER_BYTES as u64 {
            return Err(damaged(format!(
                "a block of {stored_bytes} bytes leaves the file"
            )));
        }
        if plain_bytes > PLAIN_BYTES_MAX {
            return Err(damaged(format!(
                "a block says that it holds {plain_bytes} bytes"
            )));
        }
        stored.resize(stored_bytes as usize, 0);
        self.file
            .read_at(offset + BLOCK_HEADER_BYTES as u64, stored)?;
        let seed = block_checksum(self.seed, block, &header[4..]);
        if crc32c::crc32c_append(seed, stored) != checksum {
            return Err(damaged("the checksum of a block is wrong".to_owned()));
        }
        let plain = lz4_flex::block::decompress(stored, plain_bytes);
        plain.map_err(|error| damaged(format!("a block cannot be expanded: {error}")))
    }
}

/// Removes the checkpoints before `number` and what an unfinished one left.
pub fn remove_older<D: Directory>(directory: &D, identity: LogIdentity, number: u64) -> Result<()> {
    for old in identity
        .numbers(directory, KIND)?
        .into_iter()
        .filter(|&old| old < number)
    {
        directory.remove(&identity.file_name(KIND, old))?;
    }
    remove_unpublished(directory, identity)
}

/// Removes what an unfinished checkpoint left.
pub fn remove_unpublished<D: Directory>(directory: &D, identity: LogIdentity) -> Result<()> {
    let name = unpublished_name(identity);
    if directory.exists(&name)? {
        directory.remove(&name)?;
    }
    Ok(())
}

/// Whether the partition has files that a new one would mix with.
pub fn exists<D: Directory>(directory: &D, identity: LogIdentity) -> Result<bool, StorageError> {
    Ok(!identity.numbers(directory, KIND)?.is_empty())
}

fn unpublished_name(identity: LogIdentity) -> String {
    format!("p{}.{KIND}.tmp", identity.partition)
}

fn block_checksum(seed: u32, block: u32, rest: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(seed, &block.to_le_bytes()), rest)
}

fn encode_head(identity: LogIdentity, head: &CheckpointHead) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&identity.partition.to_le_bytes());
    bytes.extend_from_slice(&identity.database.to_le_bytes());
    let words = [
        head.number,
        head.start.segment,
        head.start.lsn.0,
        head.ticket.0,
    ];
    for word in words.into_iter().chain(head.settings) {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    debug_assert_eq!(
        bytes.len(),
        FIELDS_BYTES,
        "the header's fields end at its checksum"
    );
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

fn decode_head(
    name: &str,
    identity: LogIdentity,
    number: u64,
    header: &[u8],
) -> Result<CheckpointHead> {
    let foreign = |reason: &str| StorageError::ForeignFile {
        file: name.to_owned(),
        reason: reason.to_owned(),
    };
    if header.get(..8) != Some(&MAGIC) {
        return Err(foreign("it does not begin as a checkpoint does"));
    }
    let short = || damage(name, header.len() as u64, "the file ends in its header");
    let fields = header.get(..FIELDS_BYTES).ok_or_else(short)?;
    let checksum = read_u32(header, FIELDS_BYTES).ok_or_else(short)?;
    if checksum != crc32c::crc32c(fields) {
        return Err(damage(name, 0, "the checksum of the header is wrong"));
    }
    let version = read_u32(fields, 8).ok_or_else(short)?;
    if version != VERSION {
        return Err(foreign(&format!(
            "it has version {version}; this program reads {VERSION}"
        )));
    }
    let word = |index: usize| read_u64(header, 32 + index * 8).unwrap_or(0);
    let head = CheckpointHead {
        number: word(0),
        start: LogStart {
            segment: word(1),
            lsn: Lsn(word(2)),
        },
        ticket: CommitTicket(word(3)),
        settings: [word(4), word(5)],
    };
    if !encode_head(identity, &head).starts_with(fields) {
        return Err(foreign("it belongs to another database or partition"));
    }
    if head.number != number {
        return Err(foreign("it is another checkpoint under this name"));
    }
    Ok(head)
}

/// Whether an error of [`CheckpointWriter`] before `publish` leaves everything as it was.
pub fn is_harmless(error: &StorageError) -> bool {
    matches!(error, StorageError::Disk(DiskError::OutOfSpace { .. }))
}
