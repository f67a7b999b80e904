//! Reading a trace: every block is checked, whether its operations are kept or not.
//!
//! The file is read once from its beginning. Nothing in it is trusted: lengths are bounded before
//! memory is allocated, tables are looked up, and the totals of the header must be those of the
//! blocks.

use super::format::{
    BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES, HEADER_BYTES, Header, TABLES_MAX, block_checksum,
    block_head, damaged, decode_operation, decode_tables,
};
use super::{TraceOperation, TraceSummary, TraceTable};
use crate::error::{Error, Result};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// A trace in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The tables, in the order in which they were first used.
    pub tables: Vec<TraceTable>,
    /// The first transactions' operations, in the order of their commits.
    pub operations: Vec<TraceOperation>,
    /// Totals of the file, even if it has more operations than were kept.
    pub summary: TraceSummary,
}

impl Trace {
    /// Reads a trace and keeps its first transactions, as many as have at most `operations_max`
    /// operations together (24 bytes each). The rest of the file is checked as well.
    pub fn read(path: impl AsRef<Path>, operations_max: usize) -> Result<Self> {
        let path = path.as_ref();
        let refused = |source| Error::Io {
            action: "read",
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(refused)?;
        let file_bytes = file.metadata().map_err(refused)?.len();
        let mut source = Source {
            reader: BufReader::new(file),
            path,
        };
        let header = source.header()?;
        if header.file_bytes != file_bytes {
            return Err(damaged(format!(
                "it has {file_bytes} bytes and was written with {}",
                header.file_bytes
            )));
        }
        let mut kept = Kept {
            operations_max,
            operations: Vec::new(),
            whole: 0,
            is_full: false,
            seen: TraceSummary::default(),
        };
        for block in 0..header.blocks {
            let data = source.block(block)?;
            kept.take(&data, header.tables).ok_or_else(|| {
                damaged(format!("block {block} has something that is no operation"))
            })?;
        }
        let tables = decode_tables(&source.block(header.blocks)?);
        let summary = TraceSummary {
            transactions: header.transactions,
            operations: header.operations,
        };
        if tables.len() != header.tables as usize || kept.seen != summary {
            return Err(damaged(
                "its header counts something else than its blocks have",
            ));
        }
        kept.operations.truncate(kept.whole);
        Ok(Self {
            tables,
            operations: kept.operations,
            summary,
        })
    }
}

/// The operations that a reader keeps.
struct Kept {
    operations_max: usize,
    operations: Vec<TraceOperation>,
    /// Operations of whole transactions among them.
    whole: usize,
    is_full: bool,
    seen: TraceSummary,
}

impl Kept {
    /// Takes the operations of a block; `None` if there is something else in it.
    fn take(&mut self, mut data: &[u8], tables: u32) -> Option<()> {
        while !data.is_empty() {
            let operation = decode_operation(&mut data).filter(|found| found.table < tables)?;
            self.seen.operations += 1;
            self.seen.transactions += u64::from(operation.ends_transaction);
            if self.is_full {
                continue;
            }
            self.operations.push(operation);
            self.is_full = self.operations.len() > self.operations_max;
            if operation.ends_transaction && !self.is_full {
                self.whole = self.operations.len();
            }
        }
        Some(())
    }
}

struct Source<'p> {
    reader: BufReader<File>,
    path: &'p Path,
}

impl Source<'_> {
    fn header(&mut self) -> Result<Header> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        let head = (&mut self.reader).take(HEADER_BYTES as u64);
        let read = { head }.read_to_end(&mut bytes);
        self.checked(read.map(drop))?;
        let header = Header::decode(&bytes)?;
        if header.tables as usize > TABLES_MAX {
            return Err(damaged(format!(
                "it says that it has {} tables",
                header.tables
            )));
        }
        Ok(header)
    }

    /// The data of the next block, which must have this number.
    fn block(&mut self, block: u64) -> Result<Vec<u8>> {
        let mut head = [0; BLOCK_HEADER_BYTES];
        let read = self.reader.read_exact(&mut head);
        self.checked(read)?;
        let (checksum, length) = block_head(head);
        if length > BLOCK_BYTES_MAX {
            return Err(damaged(format!(
                "block {block} says that it has {length} bytes"
            )));
        }
        let mut data = vec![0; length];
        let read = self.reader.read_exact(&mut data);
        self.checked(read)?;
        if block_checksum(block, &data) != checksum {
            return Err(damaged(format!(
                "block {block} does not have the checksum that was written"
            )));
        }
        Ok(data)
    }

    fn checked(&self, read: std::io::Result<()>) -> Result<()> {
        read.map_err(|source| match source.kind() {
            std::io::ErrorKind::UnexpectedEof => damaged("it ends in the middle of a block"),
            _ => Error::Io {
                action: "read",
                path: self.path.to_owned(),
                source,
            },
        })
    }
}
