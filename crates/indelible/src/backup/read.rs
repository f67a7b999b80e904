//! A backup file as a source, which trusts nothing that is not checked.
//!
//! A block is decoded only after its checksum was found right; counts, sums and the checksum of the
//! whole file are compared at the end. Lengths are bounded before memory is allocated for them, so
//! a damaged file costs no more than its own length.
//!
//! States: *between tables* → (tag 1) *in a table* → (tag 3) *between tables*, or → (tag 4)
//! *ended*; anything else is damage. With pages: *between tables* → (tag 5) *in pages* → (tag 6)
//! *in pages*, or → (tag 5) *in pages* of the next partition, or → (tag 4) *ended*.

use super::content::{Content, Totals};
use super::copy::{CopyStage, CopyWatch, Place, Sink};
use super::format::{
    BLOCK_HEADER_BYTES, EXPANSION_MAX, HEADER_BYTES, Header, Holds, PLAIN_BYTES_MAX, TRAILER_BYTES,
    Tag, Trailer, block_checksum, damaged, decode_base, long, word,
};
use crate::error::{Error, Result};
use crate::hidden;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use storage::engine::PagesBase;
use storage::record::{Reader, TableDef};

/// A backup that is being read.
pub(super) struct BackupReader<'i> {
    input: &'i mut dyn Read,
    /// For errors.
    name: PathBuf,
    header: Header,
    seed: u32,
    total: u32,
    bytes: u64,
    blocks: u64,
    stored: Vec<u8>,
    /// Everything in the file, which its trailer states.
    totals: Totals,
    /// The part of it that was handed out.
    copied: Totals,
    /// The table whose rows are being read, and its content so far.
    table: Option<(TableDef, Content)>,
    /// Head of the newest copy of pages, and the number of copies so far.
    base: Option<PagesBase>,
    copies: u32,
    ended: bool,
}

impl<'i> BackupReader<'i> {
    /// Reads the header.
    pub(super) fn new(input: &'i mut dyn Read, name: &Path) -> Result<Self> {
        let mut stored = Vec::new();
        let read = (&mut *input)
            .take(HEADER_BYTES as u64)
            .read_to_end(&mut stored)
            .map_err(|source| cannot_read(name, source))?;
        let Ok(bytes) = <&[u8; HEADER_BYTES]>::try_from(stored.as_slice()) else {
            let is_ours = stored.get(..8) == Some(&Header::magic());
            return Err(if is_ours {
                cut_off(read as u64)
            } else {
                Error::NotABackup
            });
        };
        let header = Header::decode(bytes)?;
        let seed = crc32c::crc32c(bytes);
        Ok(Self {
            input,
            name: name.to_owned(),
            header,
            seed,
            total: seed,
            bytes: HEADER_BYTES as u64,
            blocks: 0,
            stored,
            totals: Totals::default(),
            copied: Totals::default(),
            table: None,
            base: None,
            copies: 0,
            ended: false,
        })
    }

    /// The header of the backup.
    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    /// Bytes read so far.
    pub(super) fn file_bytes(&self) -> u64 {
        self.bytes
    }

    /// Hands everything to `sink` and checks that it was complete. To be called once. Statistics,
    /// which earlier versions have put into backups, are checked and left out.
    pub(super) fn read(&mut self, sink: &mut dyn Sink, watch: CopyWatch<'_>) -> Result<Totals> {
        while !self.ended {
            let plain = self.read_block()?;
            self.take_block(&plain, sink, watch)?;
            if let Some((def, content)) = &self.table {
                let place = Place {
                    stage: CopyStage::Rows,
                    table: &def.name,
                    rows: self.totals.rows + content.rows,
                    file_bytes: self.bytes,
                };
                place.tell(watch)?;
            }
        }
        self.check_trailer()?;
        Ok(self.copied)
    }

    fn take_block(
        &mut self,
        plain: &[u8],
        sink: &mut dyn Sink,
        watch: CopyWatch<'_>,
    ) -> Result<()> {
        let mut reader = Reader::new(plain);
        while reader.remaining() > 0 {
            if self.ended {
                return Err(damaged("something follows its end"));
            }
            let unusable = |error| damaged(format!("an entry is cut off ({error})"));
            let tag = reader.byte("an entry").map_err(unusable)?;
            let content = reader.content("an entry").map_err(unusable)?;
            self.take_entry(tag, content, sink, watch)?;
        }
        Ok(())
    }

    fn take_entry(
        &mut self,
        tag: u8,
        content: &[u8],
        sink: &mut dyn Sink,
        watch: CopyWatch<'_>,
    ) -> Result<()> {
        let holds = self.header.holds;
        let copies = holds.copies(self.header.descriptor.partitions);
        match (&mut self.table, tag) {
            (Some((def, table)), tag) if tag == Tag::Row as u8 => {
                table.add(content);
                self.totals.plain_bytes += content.len() as u64;
                if !hidden::is_copied(def.id) {
                    return Ok(());
                }
                self.copied.plain_bytes += content.len() as u64;
                sink.row(content)
            }
            (Some((def, table)), tag) if tag == Tag::EndTable as u8 && content.len() == 16 => {
                let stated = (long(content, 0), long(content, 8));
                if stated != (table.rows, table.sum) {
                    let name = &def.name;
                    return Err(damaged(format!(
                        "table `{name}` has {} rows instead of {}, or others than were written",
                        table.rows, stated.0
                    )));
                }
                self.end_table(sink, watch)
            }
            (None, tag) if tag == Tag::Base as u8 && holds != Holds::Rows => {
                let page_bytes = self.header.descriptor.node_bytes;
                let base = decode_base(content)
                    .filter(|base| self.copies < copies && base.page_bytes == page_bytes)
                    .ok_or_else(|| damaged("it does not say where its pages stand"))?;
                self.base = Some(base);
                self.copies += 1;
                sink.base(&base)
            }
            (None, tag) if tag == Tag::Page as u8 => {
                let expected = self.base.map(|base| 4 + base.page_bytes as usize);
                if expected != Some(content.len()) {
                    return Err(damaged("a page does not have the bytes of one"));
                }
                self.totals.add_page(content);
                self.copied.add_page(content);
                sink.page(content)
            }
            (None, tag) if tag == Tag::Table as u8 && holds == Holds::Rows => {
                let def = TableDef::decode(content)
                    .map_err(|error| damaged(format!("a table has no definition ({error})")))?;
                if hidden::is_copied(def.id) {
                    sink.table(&def)?;
                }
                self.table = Some((def, Content::default()));
                Ok(())
            }
            (None, tag) if tag == Tag::End as u8 && content.is_empty() => {
                if self.copies != copies {
                    return Err(damaged(format!(
                        "it has the pages of {} partitions instead of {copies}",
                        self.copies
                    )));
                }
                self.ended = true;
                Ok(())
            }
            _ => Err(damaged(format!("an entry with tag {tag} is not expected"))),
        }
    }

    /// Counts a table, and hands its end to the sink if it was handed out.
    fn end_table(&mut self, sink: &mut dyn Sink, watch: CopyWatch<'_>) -> Result<()> {
        let Some((def, content)) = self.table.take() else {
            return Ok(());
        };
        self.totals.add(&def, content);
        if !hidden::is_copied(def.id) {
            return Ok(());
        }
        self.copied.add(&def, content);
        sink.end_table(watch)
    }

    /// Reads and checks one block, and returns its plain bytes.
    fn read_block(&mut self) -> Result<Vec<u8>> {
        self.fill(BLOCK_HEADER_BYTES)?;
        let mut header = [0; BLOCK_HEADER_BYTES];
        header.copy_from_slice(&self.stored);
        let (checksum, stored_bytes) = (word(&header, 0), word(&header, 4) as usize);
        let plain_bytes = word(&header, 8) as usize;
        let block = self.blocks;
        if plain_bytes > PLAIN_BYTES_MAX.min(stored_bytes.saturating_mul(EXPANSION_MAX)) {
            return Err(damaged(format!(
                "block {block} of {stored_bytes} bytes says that it holds {plain_bytes}"
            )));
        }
        self.fill(stored_bytes)?;
        if block_checksum(self.seed, block, [&header[4..], &self.stored]) != checksum {
            return Err(damaged(format!("the checksum of block {block} is wrong")));
        }
        self.blocks += 1;
        match lz4_flex::block::decompress(&self.stored, plain_bytes) {
            Ok(plain) if plain.len() == plain_bytes => Ok(plain),
            _ => Err(damaged(format!("block {block} cannot be expanded"))),
        }
    }

    /// Compares the trailer with the content, byte by byte.
    fn check_trailer(&mut self) -> Result<()> {
        let expected = Trailer::new(&self.totals, self.blocks, self.bytes, self.total).encode();
        self.fill(TRAILER_BYTES)?;
        if self.stored != expected {
            return Err(damaged(
                "its trailer does not fit what is in front of it, or is damaged itself",
            ));
        }
        match self.input.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(damaged("something follows its trailer")),
            Err(source) => Err(cannot_read(&self.name, source)),
        }
    }

    /// Reads exactly `bytes` into `stored`. Memory grows with the bytes that arrive.
    fn fill(&mut self, bytes: usize) -> Result<()> {
        self.stored.clear();
        let limited = (&mut *self.input)
            .take(bytes as u64)
            .read_to_end(&mut self.stored);
        limited.map_err(|source| cannot_read(&self.name, source))?;
        if self.stored.len() < bytes {
            return Err(cut_off(self.bytes + self.stored.len() as u64));
        }
        self.total = crc32c::crc32c_append(self.total, &self.stored);
        self.bytes += bytes as u64;
        Ok(())
    }
}

fn cut_off(bytes: u64) -> Error {
    damaged(format!("it ends after {bytes} bytes; it was cut off"))
}

fn cannot_read(name: &Path, source: std::io::Error) -> Error {
    if source.kind() == ErrorKind::IsADirectory {
        return Error::NotABackup;
    }
    Error::Io {
        action: "read",
        path: name.to_owned(),
        source,
    }
}
