//! A backup file as a sink.
//!
//! Entries are collected in a block, which is compressed and written to the stream when it is full,
//! so memory holds one block. Only [`BackupWriter::finish`] writes the trailer, without which a
//! file is refused.

use super::content::{Content, Totals};
use super::copy::{CopyWatch, Sink};
use super::format::{
    BLOCK_BYTES, BLOCK_HEADER_BYTES, ENTRY_BYTES_MAX, Header, Tag, Trailer, block_checksum,
    encode_base,
};
use crate::error::{Error, Result};
use disk::DiskError;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use storage::engine::PagesBase;
use storage::record::TableDef;

/// A backup that is being written.
pub(super) struct BackupWriter<'o, W: Write> {
    out: &'o mut W,
    /// For errors.
    name: PathBuf,
    seed: u32,
    total: u32,
    written: u64,
    blocks: u64,
    content: Content,
    plain: Vec<u8>,
}

impl<'o, W: Write> BackupWriter<'o, W> {
    /// Begins a backup with its header.
    pub(super) fn new(out: &'o mut W, name: &Path, header: &Header) -> Result<Self> {
        let bytes = header.encode();
        let mut writer = Self {
            out,
            name: name.to_owned(),
            seed: crc32c::crc32c(&bytes),
            total: 0,
            written: 0,
            blocks: 0,
            content: Content::default(),
            plain: Vec::with_capacity(BLOCK_BYTES * 2),
        };
        writer.put(&bytes)?;
        Ok(writer)
    }

    /// Completes the backup; returns its length in bytes.
    pub(super) fn finish(mut self, totals: &Totals) -> Result<u64> {
        self.entry(Tag::End, &[])?;
        self.end_block()?;
        let trailer = Trailer::new(totals, self.blocks, self.written, self.total);
        self.put(&trailer.encode())?;
        let flushed = self.out.flush();
        flushed.map_err(|error| self.failed(error))?;
        Ok(self.written)
    }

    fn entry(&mut self, tag: Tag, content: &[u8]) -> Result<()> {
        if content.len() > ENTRY_BYTES_MAX {
            return Err(Error::Definition {
                name: "backup".to_owned(),
                problem: format!("a row of {} bytes is too long for a backup", content.len()),
            });
        }
        self.plain.push(tag as u8);
        self.plain
            .extend_from_slice(&(content.len() as u32).to_le_bytes());
        self.plain.extend_from_slice(content);
        if self.plain.len() >= BLOCK_BYTES {
            self.end_block()?;
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<()> {
        if self.plain.is_empty() {
            return Ok(());
        }
        let stored = lz4_flex::block::compress(&self.plain);
        let mut header = [0; BLOCK_HEADER_BYTES];
        header[4..8].copy_from_slice(&(stored.len() as u32).to_le_bytes());
        header[8..].copy_from_slice(&(self.plain.len() as u32).to_le_bytes());
        let checksum = block_checksum(self.seed, self.blocks, [&header[4..], &stored]);
        header[..4].copy_from_slice(&checksum.to_le_bytes());
        self.put(&header)?;
        self.put(&stored)?;
        self.blocks += 1;
        self.plain.clear();
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.out.write_all(bytes);
        written.map_err(|error| self.failed(error))?;
        self.total = crc32c::crc32c_append(self.total, bytes);
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// An error of a device comes back as it was.
    fn failed(&self, error: io::Error) -> Error {
        match error.downcast::<DiskError>() {
            Ok(error) => Error::Disk(error),
            Err(source) => Error::Io {
                action: "write",
                path: self.name.clone(),
                source,
            },
        }
    }
}

impl<W: Write> Sink for BackupWriter<'_, W> {
    fn table(&mut self, def: &TableDef) -> Result<()> {
        self.content = Content::default();
        self.entry(Tag::Table, &def.encode())
    }

    fn row(&mut self, image: &[u8]) -> Result<()> {
        self.content.add(image);
        self.entry(Tag::Row, image)
    }

    fn end_table(&mut self, _: CopyWatch<'_>) -> Result<()> {
        let mut content = [0; 16];
        content[..8].copy_from_slice(&self.content.rows.to_le_bytes());
        content[8..].copy_from_slice(&self.content.sum.to_le_bytes());
        self.entry(Tag::EndTable, &content)
    }

    fn base(&mut self, base: &PagesBase) -> Result<()> {
        self.entry(Tag::Base, &encode_base(base))
    }

    fn page(&mut self, entry: &[u8]) -> Result<()> {
        self.entry(Tag::Page, entry)
    }

    fn file_bytes(&self) -> u64 {
        self.written
    }
}
