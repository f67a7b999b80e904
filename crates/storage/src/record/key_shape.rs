//! Lengths of the keys of an index, which follow from its definition alone.
//!
//! Every key of an index has the same number of words. A column has room in it: for its longest
//! value, or in a truncated key for as much as the key has for each of its long columns (`key` says
//! what becomes of longer values).

use super::key_word::grouped_bytes;
use super::schema::{IndexDef, KeyRule, TableDef};
use super::types::{DataType, VALUE_BYTES_MAX};

/// The most words of a key.
pub const MAX_KEY_WORDS: usize = 32;
/// Room of an unlimited text or bytes column in an exact key, in encoded bytes.
const UNLIMITED_BYTES: usize = 120;
/// Room of a long column in a truncated key, of one of three or more such columns, and of one of so
/// many that they have to share.
const ROOM_BYTES: usize = 64;
const ROOM_BYTES_OF_SEVERAL: usize = 48;
const ROOM_BYTES_MIN: usize = 32;

/// Number of words of the keys of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyShape {
    /// Words, 1 to 32.
    pub words: usize,
}

impl KeyShape {
    /// Encoded bytes that the columns may need together.
    pub(super) fn encoded_bytes(table: &TableDef, columns: &[usize]) -> usize {
        let rooms = Rooms::new(table, columns);
        columns
            .iter()
            .map(|position| &table.columns[*position])
            .map(|column| usize::from(column.nullable) + rooms.of(column.data_type))
            .sum()
    }

    /// Encoded bytes that a key of this secondary index may need.
    pub(super) fn secondary_bytes(table: &TableDef, index: &IndexDef) -> usize {
        Self::encoded_bytes(table, &Self::secondary_columns(table, index))
    }

    /// The columns that need room in the keys of a secondary index. A unique index without nullable
    /// columns never has the primary key in its keys.
    pub(super) fn secondary_columns(table: &TableDef, index: &IndexDef) -> Vec<usize> {
        if index.unique
            && index
                .columns
                .iter()
                .all(|column| !table.columns[*column].nullable)
        {
            return index.columns.clone();
        }
        table.secondary_columns(index)
    }
}

/// The rooms of the columns of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rooms {
    pub(super) is_exact: bool,
    /// Encoded bytes of a column of variable length.
    limit: usize,
}

impl Rooms {
    pub(super) fn new(table: &TableDef, columns: &[usize]) -> Self {
        if table.keys == KeyRule::Exact {
            return Self {
                is_exact: true,
                limit: usize::MAX,
            };
        }
        let (mut long, mut rest) = (0, 0);
        for column in columns.iter().map(|position| &table.columns[*position]) {
            let bytes = whole_bytes(column.data_type);
            rest += usize::from(column.nullable);
            if column.data_type.fixed_bytes().is_none() && bytes > ROOM_BYTES_MIN {
                long += 1;
            } else {
                rest += bytes;
            }
        }
        let usual = if long > 2 {
            ROOM_BYTES_OF_SEVERAL
        } else {
            ROOM_BYTES
        };
        let share = (MAX_KEY_WORDS * 8).saturating_sub(rest) / long.max(1);
        Self {
            is_exact: false,
            limit: usual.min(share).max(ROOM_BYTES_MIN),
        }
    }

    /// Encoded bytes that a column of this type may take in the key, without the NULL marker.
    pub(super) fn of(self, data_type: DataType) -> usize {
        if self.is_exact {
            return exact_bytes(data_type);
        }
        match data_type.fixed_bytes() {
            Some(bytes) => bytes as usize,
            None => whole_bytes(data_type).min(self.limit),
        }
    }
}

/// Encoded bytes that the longest content of this type takes in a truncated key if it is not cut.
pub(super) fn whole_bytes(data_type: DataType) -> usize {
    match data_type {
        DataType::Varchar { max } => max as usize + 1,
        DataType::Sortable { max } => max as usize,
        DataType::Bytes { .. } => grouped_bytes(data_type.bytes_max() as usize),
        fixed => fixed.fixed_bytes().unwrap_or(VALUE_BYTES_MAX) as usize,
    }
}

/// Encoded bytes that a column of this type may take in an exact key, without the NULL marker.
fn exact_bytes(data_type: DataType) -> usize {
    match data_type {
        DataType::Sortable { max } => max as usize,
        DataType::Varchar { max } => max as usize + 1,
        DataType::Text => UNLIMITED_BYTES,
        DataType::Bytes { max: Some(max) } => grouped_bytes(max as usize),
        DataType::Bytes { max: None } => grouped_bytes(UNLIMITED_BYTES / 9 * 8),
        fixed => fixed.fixed_bytes().unwrap_or(UNLIMITED_BYTES as u32) as usize,
    }
}
