//! A sequence of rows in the blocks of a file.
//!
//! Rows are written one after the other, each after its length, and may go over the ends of blocks.
//! The bytes of the last block stay in memory until the chain is sealed, because a sealed chain
//! costs no memory but the numbers of its blocks.

use crate::files::{BLOCK_BYTES, Blocks};
use crate::{Row, codec};
use sql_values::error::Result;
use sql_values::types::Datum;
use std::collections::VecDeque;

/// Bytes of a row's length.
const LENGTH_BYTES: usize = 4;

/// Rows in a file.
#[derive(Debug)]
pub struct Chain {
    blocks: Blocks,
    numbers: VecDeque<u32>,
    /// Bytes of the last block that is written; the others are full.
    last_bytes: usize,
    tail: Vec<u8>,
    bytes: u64,
    rows: u64,
}

/// A place in a chain from which rows are read.
#[derive(Debug, Default)]
pub struct Reader {
    /// The next block.
    block: usize,
    has_tail: bool,
    buffer: Vec<u8>,
    at: usize,
}

impl Reader {
    /// A place after so many bytes, where a row begins.
    pub(crate) fn from(offset: u64) -> Self {
        Self {
            block: (offset / BLOCK_BYTES as u64) as usize,
            at: (offset % BLOCK_BYTES as u64) as usize,
            ..Self::default()
        }
    }

    /// The next bytes, if as many are in the buffer.
    fn bytes(&self, count: usize) -> Option<&[u8]> {
        self.buffer.get(self.at..self.at + count)
    }
}

impl Chain {
    /// A chain without rows.
    pub fn new(blocks: &Blocks) -> Self {
        Self {
            blocks: blocks.clone(),
            numbers: VecDeque::new(),
            last_bytes: BLOCK_BYTES,
            tail: Vec::new(),
            bytes: 0,
            rows: 0,
        }
    }

    /// The number of rows that were added.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of the rows that were added.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a row to a chain that is not sealed.
    pub fn push(&mut self, row: &[Datum]) -> Result<()> {
        let start = self.tail.len();
        self.tail.extend_from_slice(&[0; LENGTH_BYTES]);
        codec::write_row(&mut self.tail, row);
        let length = self.tail.len() - start - LENGTH_BYTES;
        self.tail[start..][..LENGTH_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
        self.bytes += (length + LENGTH_BYTES) as u64;
        self.rows += 1;
        let (full, rest) = self.tail.as_chunks::<BLOCK_BYTES>();
        if full.is_empty() {
            return Ok(());
        }
        for block in full {
            self.numbers.push_back(self.blocks.write(block)?);
        }
        let rest = rest.len();
        self.tail.drain(..self.tail.len() - rest);
        Ok(())
    }

    /// Writes the last rows; there can be no more.
    pub fn seal(&mut self) -> Result<()> {
        if !self.tail.is_empty() {
            self.numbers.push_back(self.blocks.write(&self.tail)?);
            self.last_bytes = self.tail.len();
            self.tail = Vec::new();
        }
        Ok(())
    }

    /// The next row.
    pub fn read(&self, reader: &mut Reader) -> Result<Option<Row>> {
        let Some(length) = self.fill(reader, LENGTH_BYTES)? else {
            return Ok(None);
        };
        let mut bytes = [0; LENGTH_BYTES];
        bytes.copy_from_slice(length);
        let length = u32::from_le_bytes(bytes) as usize;
        reader.at += LENGTH_BYTES;
        let row = match self.fill(reader, length)? {
            Some(bytes) => codec::read_row(bytes)?,
            None => return codec::read_row(&[]).map(Some),
        };
        reader.at += length;
        Ok(Some(row))
    }

    /// The next row, whose blocks may be used again. All rows of the chain must be read like this,
    /// by one reader.
    pub fn take(&mut self, reader: &mut Reader) -> Result<Option<Row>> {
        let row = self.read(reader)?;
        for _ in 0..std::mem::take(&mut reader.block) {
            if let Some(number) = self.numbers.pop_front() {
                self.blocks.release(number);
            }
        }
        Ok(row)
    }

    /// The next bytes, read from the file as far as the buffer does not have them; none at the end.
    fn fill<'r>(&self, reader: &'r mut Reader, count: usize) -> Result<Option<&'r [u8]>> {
        while reader.bytes(count).is_none() {
            if reader.at > 0 && reader.at <= reader.buffer.len() {
                reader.buffer.drain(..reader.at);
                reader.at = 0;
            }
            if let Some(&number) = self.numbers.get(reader.block) {
                let is_last = reader.block + 1 == self.numbers.len();
                let bytes = if is_last {
                    self.last_bytes
                } else {
                    BLOCK_BYTES
                };
                self.blocks.read(number, bytes, &mut reader.buffer)?;
                reader.block += 1;
            } else if reader.has_tail || self.tail.is_empty() {
                return Ok(None);
            } else {
                reader.buffer.extend_from_slice(&self.tail);
                reader.has_tail = true;
            }
        }
        Ok(reader.bytes(count))
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        for number in self.numbers.drain(..) {
            self.blocks.release(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Files;
    use std::sync::Arc;

    fn row(number: usize) -> Row {
        // Some rows are longer than a block.
        let text = "x".repeat(number * 37 % 20_000);
        vec![Datum::text(number.to_string()), Datum::text(text)]
    }

    #[test]
    fn rows_come_back_from_any_place_and_again() {
        let blocks = Blocks::new(&Arc::new(Files::default()));
        let mut chain = Chain::new(&blocks);
        let mut offsets = Vec::new();
        for number in 0..1000 {
            offsets.push(chain.bytes());
            chain.push(&row(number)).unwrap();
        }
        for is_sealed in [false, true] {
            if is_sealed {
                chain.seal().unwrap();
            }
            for start in [0, 1, 500, 999] {
                let mut reader = Reader::from(offsets[start]);
                for number in start..1000 {
                    assert_eq!(chain.read(&mut reader).unwrap(), Some(row(number)));
                }
                assert_eq!(chain.read(&mut reader).unwrap(), None);
            }
        }
    }

    #[test]
    fn blocks_that_were_read_are_used_again() {
        let blocks = Blocks::new(&Arc::new(Files::default()));
        let mut chain = Chain::new(&blocks);
        (0..1000).for_each(|number| chain.push(&row(number)).unwrap());
        chain.seal().unwrap();
        let bytes = blocks.bytes();
        for _ in 0..3 {
            let (mut copy, mut reader) = (Chain::new(&blocks), Reader::default());
            while let Some(row) = chain.take(&mut reader).unwrap() {
                copy.push(&row).unwrap();
            }
            copy.seal().unwrap();
            chain = copy;
        }
        assert!(blocks.bytes() <= bytes + 4 * BLOCK_BYTES as u64);
        let (mut reader, mut count) = (Reader::default(), 0);
        while let Some(read) = chain.read(&mut reader).unwrap() {
            assert_eq!(read, row(count));
            count += 1;
        }
        assert_eq!(count, 1000);
    }
}
