//! The bytes of a trace file. All numbers are little-endian.
//!
//! | header | offset | bytes | |
//! |---|---|---|---|
//! | magic | 0 | 8 | `INDTRACE` |
//! | version | 8 | 4 | 1 |
//! | state | 12 | 4 | 0 while it is recorded, 1 when the recording has ended |
//! | transactions | 16 | 8 | |
//! | operations | 24 | 8 | |
//! | tables | 32 | 4 | |
//! | zero | 36 | 4 | |
//! | blocks | 40 | 8 | blocks of operations, without the block of tables after them |
//! | file bytes | 48 | 8 | |
//! | zero | 56 | 4 | |
//! | checksum | 60 | 4 | CRC-32C of the bytes before |
//!
//! A block is: checksum 4, data bytes 4, data. Its checksum is seeded with its number and covers
//! the length and the data, so blocks of one file cannot change places. The last block has the
//! tables: columns 4, indexes 4, declared bytes 8 for each.
//!
//! An operation is a tag byte (bits 0 to 2 the kind, bit 3 ends the transaction, bit 4 a flag), the
//! table as a varint, the key in 8 bytes, and varints: *get* 0 row bytes if the flag says that
//! there was a row; *update* 1 columns and bytes; *insert* 2 row bytes, the flag says that it
//! appends; *delete* 3 none; *scan* 4 rows. An operation never crosses a block.

use super::{TraceAction, TraceOperation, TraceTable};
use crate::error::{Error, Result};

const MAGIC: &[u8; 8] = b"INDTRACE";
pub(super) const VERSION: u32 = 1;
pub(super) const HEADER_BYTES: usize = 64;
const CHECKSUM_AT: usize = 60;
/// Bytes before the data of a block.
pub(super) const BLOCK_HEADER_BYTES: usize = 8;
/// Data after which a block is full.
pub(super) const BLOCK_BYTES: usize = 1 << 16;
/// Longest encoded operation.
pub(super) const OPERATION_BYTES_MAX: usize = 1 + 5 + 8 + 5 + 5;
const TABLE_BYTES: usize = 16;
/// Most tables of a trace.
pub(super) const TABLES_MAX: usize = 4096;
/// Most data of a block, the one of the tables included.
pub(super) const BLOCK_BYTES_MAX: usize = BLOCK_BYTES + OPERATION_BYTES_MAX;

const KIND: u8 = 0b111;
const ENDS: u8 = 1 << 3;
const FLAG: u8 = 1 << 4;

/// The header of a trace file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) is_finished: bool,
    pub(super) transactions: u64,
    pub(super) operations: u64,
    pub(super) tables: u32,
    pub(super) blocks: u64,
    pub(super) file_bytes: u64,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&u32::from(self.is_finished).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.transactions.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.operations.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.tables.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.file_bytes.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Foreign files come before newer ones, those before damaged ones, and these before unfinished
    /// ones.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        if bytes.len() < MAGIC.len() || !bytes.starts_with(MAGIC) {
            return Err(Error::NotATrace);
        }
        let Some(bytes) = bytes.get(..HEADER_BYTES) else {
            return Err(damaged("it ends inside its header"));
        };
        let found = u32_at(bytes, 8);
        if found > VERSION {
            let supported = VERSION;
            return Err(Error::NewerTrace { found, supported });
        }
        if crc32c::crc32c(&bytes[..CHECKSUM_AT]) != u32_at(bytes, CHECKSUM_AT) {
            return Err(damaged(
                "its header does not have the checksum that was written",
            ));
        }
        let header = Self {
            is_finished: u32_at(bytes, 12) == 1,
            transactions: u64_at(bytes, 16),
            operations: u64_at(bytes, 24),
            tables: u32_at(bytes, 32),
            blocks: u64_at(bytes, 40),
            file_bytes: u64_at(bytes, 48),
        };
        if !header.is_finished {
            return Err(damaged(
                "its recording did not end; close the database, or call `finish_trace`",
            ));
        }
        Ok(header)
    }
}

pub(super) fn damaged(detail: impl Into<String>) -> Error {
    Error::DamagedTrace {
        detail: detail.into(),
    }
}

/// The checksum of block number `block`, whose data has this length.
pub(super) fn block_checksum(block: u64, data: &[u8]) -> u32 {
    let seed = crc32c::crc32c(&block.to_le_bytes());
    let seed = crc32c::crc32c_append(seed, &(data.len() as u32).to_le_bytes());
    crc32c::crc32c_append(seed, data)
}

/// The head of a block.
pub(super) fn block_header(block: u64, data: &[u8]) -> [u8; BLOCK_HEADER_BYTES] {
    let mut bytes = [0; BLOCK_HEADER_BYTES];
    bytes[..4].copy_from_slice(&block_checksum(block, data).to_le_bytes());
    bytes[4..].copy_from_slice(&(data.len() as u32).to_le_bytes());
    bytes
}

/// Checksum and length of a block's data.
pub(super) fn block_head(bytes: [u8; BLOCK_HEADER_BYTES]) -> (u32, usize) {
    (u32_at(&bytes, 0), u32_at(&bytes, 4) as usize)
}

pub(super) fn encode_operation(operation: &TraceOperation, bytes: &mut Vec<u8>) {
    let (kind, flag, numbers, count) = match operation.action {
        TraceAction::Get { row_bytes } => (
            0,
            row_bytes.is_some(),
            [row_bytes.unwrap_or(0), 0],
            usize::from(row_bytes.is_some()),
        ),
        TraceAction::Update { columns, bytes } => (1, false, [columns, bytes], 2),
        TraceAction::Insert { row_bytes, appends } => (2, appends, [row_bytes, 0], 1),
        TraceAction::Delete => (3, false, [0, 0], 0),
        TraceAction::Scan { rows } => (4, false, [rows, 0], 1),
    };
    let ends = if operation.ends_transaction { ENDS } else { 0 };
    bytes.push(kind | ends | if flag { FLAG } else { 0 });
    put_varint(bytes, operation.table);
    bytes.extend_from_slice(&operation.key.to_le_bytes());
    for number in &numbers[..count] {
        put_varint(bytes, *number);
    }
}

/// Takes the next operation off the data of a block; `None` if it is no operation.
pub(super) fn decode_operation(data: &mut &[u8]) -> Option<TraceOperation> {
    let (&tag, rest) = data.split_first()?;
    *data = rest;
    let table = take_varint(data)?;
    let (key, rest) = data.split_first_chunk::<8>()?;
    *data = rest;
    let flag = tag & FLAG != 0;
    let action = match tag & KIND {
        0 => TraceAction::Get {
            row_bytes: if flag { Some(take_varint(data)?) } else { None },
        },
        1 => TraceAction::Update {
            columns: take_varint(data)?,
            bytes: take_varint(data)?,
        },
        2 => TraceAction::Insert {
            row_bytes: take_varint(data)?,
            appends: flag,
        },
        3 => TraceAction::Delete,
        4 => TraceAction::Scan {
            rows: take_varint(data)?,
        },
        _ => return None,
    };
    Some(TraceOperation {
        table,
        key: u64::from_le_bytes(*key),
        action,
        ends_transaction: tag & ENDS != 0,
    })
}

pub(super) fn encode_tables(tables: &[TraceTable]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(tables.len() * TABLE_BYTES);
    for table in tables {
        bytes.extend_from_slice(&table.columns.to_le_bytes());
        bytes.extend_from_slice(&table.indexes.to_le_bytes());
        bytes.extend_from_slice(&table.declared_bytes.to_le_bytes());
    }
    bytes
}

pub(super) fn decode_tables(data: &[u8]) -> Vec<TraceTable> {
    data.chunks_exact(TABLE_BYTES)
        .map(|bytes| TraceTable {
            columns: u32_at(bytes, 0),
            indexes: u32_at(bytes, 4),
            declared_bytes: u64_at(bytes, 8),
        })
        .collect()
}

fn put_varint(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_varint(data: &mut &[u8]) -> Option<u32> {
    let mut number = 0_u64;
    for shift in (0..35).step_by(7) {
        let (&byte, rest) = data.split_first()?;
        *data = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return u32::try_from(number).ok();
        }
    }
    None
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let field = bytes[at..at + 4].try_into();
    u32::from_le_bytes(field.expect("the range has four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let field = bytes[at..at + 8].try_into();
    u64::from_le_bytes(field.expect("the range has eight bytes"))
}
