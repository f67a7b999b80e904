//! Checkpoints: all tables of a partition in one compressed file, which replaces the log before it.
//!
//! The file is written under another name, synced, renamed, and the directory is synced; only then
//! are the old checkpoint and the log before the new one removed. So at every moment the newest
//! file that is named a checkpoint is whole, and the log that goes on from it is there.
//!
//! A name that is seen may be in a cache alone, where no sync reaches it any more once one has
//! failed. A later step proves it durable: the older checkpoint is gone, or, for the first one,
//! there is a log. Without proof recovery gives the file another name
//! ([`CheckpointReader::secure`]), so a name may have a greater number than the header.
//!
//! A long file is synced piece by piece while it grows, so that no single sync is long.
//!
//! | header field | bytes | meaning |
//! |---|---|---|
//! | magic | 8 | `INDLCKP\n` |
//! | version | 4 | 1 or 2 |
//! | partition | 4 | number of the partition |
//! | database | 16 | identity of the database |
//! | number | 8 | the number in the file's first name |
//! | segment, position | 16 | where replay of the log starts |
//! | ticket | 8 | the newest commit that is in it |
//! | settings | 16 | two words of the engine |
//! | byte order | 4 | `BYTE_ORDER`; from version 2 |
//! | reserved | 4 | 0; from version 2 |
//! | checksum | 4 | crc32c of all fields before |
//!
//! Blocks follow one after the other: checksum 4, stored bytes 4, plain bytes 4, data (LZ4). A
//! block's checksum is seeded with the header's and the block's number. Plain blocks hold whole
//! entries, each a tag and content with its length in four bytes:
//!
//! | tag | content |
//! |---|---|
//! | 1 | the definition of a table; until the next tag 1 or 4 rows are its |
//! | 2 | a row |
//! | 3 | the number of rows; the end |
//! | 4 | the number of a table that was defined before: rows are its from here on; from version 2 |

use super::position::{LogIdentity, LogStart, Lsn, NUMBER_MAX};
use super::redo::write_row;
use super::wal;
use super::wal_segment::{BYTE_ORDER, damage, other_byte_order, read_u32, read_u64};
use crate::error::{Result, StorageError};
use crate::record::{Reader, Row, TableDef, TableId};
use crate::vocabulary::CommitTicket;
use disk::{Directory, DiskError, File};
use pmem::site;

const MAGIC: [u8; 8] = *b"INDLCKP\n";
const VERSION: u32 = 2;
const KIND: &str = "checkpoint";
/// Bytes of the header's fields, without the checksum, in version 1.
const OLD_FIELDS_BYTES: usize = 80;
/// The same in version 2.
const FIELDS_BYTES: usize = 88;
const HEADER_BYTES: usize = FIELDS_BYTES + 4;
const BLOCK_HEADER_BYTES: usize = 12;
/// Plain bytes after which a block is closed: large enough for LZ4's window, small enough to stay
/// in a cache.
const BLOCK_BYTES: usize = 256 << 10;
/// Bytes that are handed to the file and synced at once.
const IO_BYTES: usize = 1 << 20;
/// Longest plain block that is written, and believed.
const PLAIN_BYTES_MAX: usize = 1 << 30;
/// Longest content of an entry: with the rest of its block it stays below [`PLAIN_BYTES_MAX`].
const ENTRY_BYTES_MAX: usize = PLAIN_BYTES_MAX - 2 * BLOCK_BYTES;
/// Most bytes that LZ4 decompresses one byte to.
const EXPANSION_MAX: usize = 255;
/// Decoded header of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointHead {
    /// The number in its name; greater ones are newer, and its header has this one or a smaller.
    pub number: u64,
    /// Start of the log's replay.
    pub start: LogStart,
    /// The newest commit that is in it.
    pub ticket: CommitTicket,
    /// Two words that only the engine understands.
    pub settings: [u64; 2],
}

/// One thing in a checkpoint.
#[derive(Debug)]
pub enum CheckpointEntry<'c> {
    /// A table; rows that follow are its.
    Table(TableDef),
    /// Rows that follow are of this table, which came before.
    Rows(TableId),
    /// A row; read it with [`super::redo::read_row`].
    Row(&'c [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    Table = 1,
    Row = 2,
    End = 3,
    Rows = 4,
}

/// A checkpoint that is being written.
pub struct CheckpointWriter<F: File> {
    identity: LogIdentity,
    head: CheckpointHead,
    file: F,
    seed: u32,
    blocks: u32,
    rows: u64,
    /// The table of the newest row.
    table: Option<TableId>,
    plain: Vec<u8>,
    plain_bytes: u64,
    stored: Vec<u8>,
    written: u64,
    entry_bytes_max: usize,
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
        let mut stored = fields(VERSION, identity, &head);
        let seed = crc32c::crc32c(&stored);
        stored.extend_from_slice(&seed.to_le_bytes());
        Ok(Self {
            identity,
            head,
            file,
            seed,
            blocks: 0,
            rows: 0,
            table: None,
            plain: Vec::new(),
            plain_bytes: 0,
            stored,
            written: 0,
            entry_bytes_max: ENTRY_BYTES_MAX,
        })
    }

    /// Adds a table.
    pub fn table(&mut self, def: &TableDef) -> Result<()> {
        self.table = Some(def.id);
        self.entry(Tag::Table, |bytes| bytes.extend_from_slice(&def.encode()))
            .map(|_| ())
    }

    /// Adds a row of a table that was added before. Fails if the row is longer than a checkpoint
    /// can hold: then this checkpoint cannot be finished.
    pub fn row(&mut self, table: TableId, row: &Row) -> Result<()> {
        if self.table != Some(table) {
            self.table = Some(table);
            self.entry(Tag::Rows, |bytes| {
                bytes.extend_from_slice(&table.0.to_le_bytes());
            })?;
        }
        self.rows += 1;
        let length = self.entry(Tag::Row, |bytes| write_row(row, bytes))?;
        if length > self.entry_bytes_max {
            let (name, most) = (row.layout().table(), self.entry_bytes_max);
            return Err(StorageError::Unsupported(format!(
                "a row of table `{name}` takes {length} bytes, a checkpoint holds rows of up to {most}; \
                 shorten the row, or the log is never cut"
            )));
        }
        Ok(())
    }

    /// Bytes of all entries so far, before compression.
    pub fn plain_bytes(&self) -> u64 {
        self.plain_bytes
    }

    /// Bytes that the file has so far.
    pub fn file_bytes(&self) -> u64 {
        self.written
    }

    /// Makes the checkpoint durable under its name, and returns its length. Older ones stay.
    ///
    /// An error from here may leave either checkpoint in force, so the caller stops.
    pub fn publish<D: Directory<File = F>>(self, directory: &D) -> Result<u64> {
        assert!(
            self.plain.is_empty() && self.stored.is_empty() && self.written > 0,
            "a checkpoint is whole before it gets its name"
        );
        let name = self.identity.file_name(KIND, self.head.number);
        directory.rename(&unpublished_name(self.identity), &name)?;
        // commit point: recovery takes the newest file that has a checkpoint's name
        sync_names(directory)?;
        Ok(self.written)
    }

    /// Writes the rest and syncs the file. Only [`CheckpointWriter::publish`] may follow.
    pub fn finish(&mut self) -> Result<()> {
        let rows = self.rows;
        self.entry(Tag::End, |bytes| {
            bytes.extend_from_slice(&rows.to_le_bytes());
        })?;
        self.close_block()?;
        self.write()
    }

    /// Adds an entry and returns the length of its content. A content that is too long stays out of
    /// the file.
    fn entry(&mut self, tag: Tag, content: impl FnOnce(&mut Vec<u8>)) -> Result<usize> {
        let before = self.plain.len();
        self.plain.push(tag as u8);
        self.plain.extend_from_slice(&[0; 4]);
        let start = self.plain.len();
        content(&mut self.plain);
        let length = self.plain.len() - start;
        if length > self.entry_bytes_max {
            self.plain.truncate(before);
            self.plain.shrink_to(IO_BYTES);
            return Ok(length);
        }
        self.plain[start - 4..start].copy_from_slice(&(length as u32).to_le_bytes());
        self.plain_bytes += (self.plain.len() - before) as u64;
        if self.plain.len() >= BLOCK_BYTES {
            self.close_block()?;
        }
        Ok(length)
    }

    fn close_block(&mut self) -> Result<()> {
        if self.plain.is_empty() {
            return Ok(());
        }
        debug_assert!(
            self.plain.len() <= PLAIN_BYTES_MAX,
            "a block is longer than a reader believes"
        );
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
        self.blocks = self.blocks.wrapping_add(1);
        if self.stored.len() >= IO_BYTES {
            self.write()
        } else {
            Ok(())
        }
    }

    /// Writes what is stored, and makes it durable.
    fn write(&mut self) -> Result<()> {
        self.file.write_at(self.written, &self.stored)?;
        self.written += self.stored.len() as u64;
        self.stored.clear();
        self.file.sync(site!("checkpoint.content"))?;
        Ok(())
    }
}

/// A checkpoint that is being read.
pub struct CheckpointReader<F: File> {
    identity: LogIdentity,
    name: String,
    head: CheckpointHead,
    file: F,
    file_bytes: u64,
    header_bytes: u64,
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
            return Err(StorageError::foreign_file(file, reason));
        };
        let name = identity.file_name(KIND, number);
        let mut file = directory.open(&name)?;
        let file_bytes = file.bytes()?;
        let mut header = vec![0; file_bytes.min(HEADER_BYTES as u64) as usize];
        file.read_at(0, &mut header)?;
        let (head, fields_bytes) = decode_head(&name, identity, number, &header)?;
        let seed = crc32c::crc32c(&header[..fields_bytes]);
        Ok(Self {
            identity,
            name,
            head,
            file,
            file_bytes,
            header_bytes: fields_bytes as u64 + 4,
            seed,
        })
    }

    /// Makes the checkpoint durable under its name where nothing proves that it is: a failed sync
    /// of the directory may have lost a name that a cache still shows, and no later sync brings it
    /// back. To be called before anything that it replaced is removed. `is_empty` if it has no
    /// tables.
    ///
    /// Costs two syncs at most. A second call on what the first one left does nothing, if
    /// [`remove_older`] came in between.
    pub fn secure<D: Directory<File = F>>(&mut self, directory: &D, is_empty: bool) -> Result<()> {
        let is_alone = self.identity.numbers(directory, KIND)?.len() == 1;
        let has_log = || wal::exists(directory, self.identity);
        // The first checkpoint is empty; a newer one is alone only when it is known to be durable.
        if is_alone && (self.head.number > 1 || !is_empty || has_log()?) {
            return Ok(());
        }
        let number = self.head.number + 1;
        if is_alone {
            let head = CheckpointHead {
                number,
                ..self.head
            };
            let mut writer = CheckpointWriter::create(directory, self.identity, head)?;
            writer.finish()?;
            writer.publish(directory)?;
            *self = Self::open_newest(directory, self.identity)?;
        } else {
            let name = self.identity.file_name(KIND, number);
            directory.rename(&self.name, &name)?;
            // commit point: as in `CheckpointWriter::publish`
            sync_names(directory)?;
            self.name = name;
            self.head.number = number;
        }
        Ok(())
    }

    /// Header of the checkpoint.
    pub fn head(&self) -> CheckpointHead {
        self.head
    }

    /// Length of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Hands everything in it to `visit`, in order, checks that all of it is there, and returns how
    /// many bytes it takes before compression.
    pub fn read(
        &mut self,
        visit: &mut dyn FnMut(CheckpointEntry<'_>) -> Result<()>,
    ) -> Result<u64> {
        let mut offset = self.header_bytes;
        let (mut block, mut rows, mut plain_bytes) = (0_u32, 0_u64, 0);
        let mut stored = Vec::new();
        loop {
            let plain = self.read_block(offset, block, &mut stored)?;
            plain_bytes += plain.len() as u64;
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
                    return Ok(plain_bytes);
                } else if let (true, Some(id)) = (tag == Tag::Rows as u8, read_u32(content, 0)) {
                    visit(CheckpointEntry::Rows(TableId(id)))?;
                } else {
                    return Err(at_block(format!(
                        "an entry has tag {tag} after {rows} rows"
                    )));
                }
            }
            offset += (BLOCK_HEADER_BYTES + stored.len()) as u64;
            block = block.wrapping_add(1);
        }
    }

    /// Reads one block: `stored` gets its data as in the file, the plain bytes are returned.
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
        // Keeps the allocation in proportion to the length of the file.
        if plain_bytes > PLAIN_BYTES_MAX.min(stored_bytes as usize * EXPANSION_MAX) {
            return Err(damaged(format!(
                "a block of {stored_bytes} bytes says that it holds {plain_bytes}"
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

/// Removes the checkpoints before `number`, durably, and what an unfinished one left.
pub fn remove_older<D: Directory>(directory: &D, identity: LogIdentity, number: u64) -> Result<()> {
    let mut numbers = identity.numbers(directory, KIND)?;
    numbers.retain(|&old| old < number);
    for &old in &numbers {
        directory.remove(&identity.file_name(KIND, old))?;
    }
    if !numbers.is_empty() {
        sync_names(directory)?;
    }
    remove_unpublished(directory, identity)
}

/// Makes the names of checkpoints durable.
fn sync_names<D: Directory>(directory: &D) -> Result<(), DiskError> {
    directory.sync(site!("checkpoint.publish"))
}

/// Removes the file of a checkpoint that another one has replaced, in pieces: giving a long file
/// back takes a device long. True when it is gone.
pub fn remove_piece<D: Directory>(
    directory: &D,
    identity: LogIdentity,
    number: u64,
) -> Result<bool> {
    const PIECE_BYTES: u64 = 16 << 20;
    let name = identity.file_name(KIND, number);
    let mut file = directory.open(&name)?;
    let bytes = file.bytes()?;
    if bytes > PIECE_BYTES {
        file.set_bytes(bytes - PIECE_BYTES)?;
        return Ok(false);
    }
    drop(file);
    directory.remove(&name)?;
    Ok(true)
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

/// The fields of a header of one version, without the checksum.
fn fields(version: u32, identity: LogIdentity, head: &CheckpointHead) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&version.to_le_bytes());
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
    if version > 1 {
        bytes.extend_from_slice(&BYTE_ORDER.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
    }
    let fields_bytes = if version > 1 {
        FIELDS_BYTES
    } else {
        OLD_FIELDS_BYTES
    };
    debug_assert_eq!(bytes.len(), fields_bytes, "the fields end at the checksum");
    bytes
}

/// Decodes a header; also returns the length of its fields in bytes.
fn decode_head(
    name: &str,
    identity: LogIdentity,
    number: u64,
    header: &[u8],
) -> Result<(CheckpointHead, usize)> {
    let foreign = |reason: &str| StorageError::foreign_file(name, reason);
    if header.get(..8) != Some(&MAGIC) {
        return Err(foreign("it does not begin as a checkpoint does"));
    }
    let short = || damage(name, header.len() as u64, "the file ends in its header");
    let version = read_u32(header, 8).ok_or_else(short)?;
    if let Some(reason) = other_byte_order(version, 1..=VERSION) {
        return Err(foreign(reason));
    }
    let fields_bytes = if version == 1 {
        OLD_FIELDS_BYTES
    } else {
        FIELDS_BYTES
    };
    // The place of the checksum is unknown in a newer version, and in a damaged header.
    let found = header.get(..fields_bytes).ok_or_else(short)?;
    let is_intact = read_u32(header, fields_bytes) == Some(crc32c::crc32c(found));
    if !is_intact && version <= VERSION {
        return Err(damage(name, 0, "the checksum of the header is wrong"));
    }
    if !(1..=VERSION).contains(&version) {
        return Err(foreign(&format!(
            "it has version {version}; this program reads up to {VERSION}"
        )));
    }
    let word = |index: usize| read_u64(header, 32 + index * 8).unwrap_or(0);
    let mut head = CheckpointHead {
        number: word(0),
        start: LogStart {
            segment: word(1),
            lsn: Lsn(word(2)),
        },
        ticket: CommitTicket(word(3)),
        settings: [word(4), word(5)],
    };
    if fields(version, identity, &head) != found {
        return Err(foreign("it belongs to another database or partition"));
    }
    if head.number > number {
        return Err(foreign("it is another checkpoint under this name"));
    }
    head.number = number;
    if [number, head.ticket.0, head.start.segment, head.start.lsn.0]
        .iter()
        .any(|&count| count > NUMBER_MAX)
    {
        return Err(damage(
            name,
            0,
            "a number in the header is impossibly large",
        ));
    }
    Ok((head, fields_bytes))
}

/// Whether an error of [`CheckpointWriter`] before `publish` leaves everything as it was: a full
/// disk, or a row that no checkpoint can hold.
pub fn is_harmless(error: &StorageError) -> bool {
    error.is_out_of_space() || matches!(error, StorageError::Unsupported(_))
}

#[cfg(test)]
#[path = "checkpoint_tests.rs"]
mod tests;
