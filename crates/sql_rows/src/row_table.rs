//! Right rows of a join in memory, found by the values of their keys.
//!
//! Values stand one after the other, without a vector for each row. Rows with the same hash are
//! linked in the order in which they came.

use crate::budget::{Share, bytes_of};
use crate::hash::{BuildRowHasher, hash_of};
use sql_values::types::Datum;
use std::collections::HashMap;

/// The number of no row.
pub const NO_ROW: u32 = u32::MAX;
/// Bytes of a row beside its values: its hash, its links, and its part of the table.
const LINK_BYTES: u64 = 40;

/// Rows with their keys, under a share of memory.
pub struct RowTable {
    share: Share,
    width: usize,
    keys: usize,
    /// The values of the rows, and those of their keys.
    rows: Vec<Datum>,
    row_keys: Vec<Datum>,
    /// The next row with the same hash.
    next: Vec<u32>,
    heads: HashMap<u64, u32, BuildRowHasher>,
    count: usize,
}

impl RowTable {
    /// An empty table of rows, and keys, with so many values each.
    pub fn new(share: Share, width: usize, keys: usize) -> Self {
        Self {
            share,
            width,
            keys,
            rows: Vec::new(),
            row_keys: Vec::new(),
            next: Vec::new(),
            heads: HashMap::default(),
            count: 0,
        }
    }

    /// Its share of memory.
    pub fn share(&self) -> &Share {
        &self.share
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of different hashes.
    pub fn hashes(&self) -> usize {
        self.heads.len()
    }

    /// Adds a row, if there is room; there is always room for the first one.
    pub fn push(&mut self, row: &[Datum], key: &[Datum]) -> bool {
        let bytes = bytes_of(row) + bytes_of(key) + LINK_BYTES;
        if !self.share.try_take(bytes) {
            if self.count > 0 {
                return false;
            }
            self.share.force(bytes);
        }
        self.rows.extend_from_slice(row);
        self.row_keys.extend_from_slice(key);
        self.count += 1;
        true
    }

    /// Links the rows, after the last one. NULL equals nothing, so rows that have one are left out.
    pub fn link(&mut self) {
        self.next = vec![NO_ROW; self.count];
        self.heads.reserve(self.count);
        for at in (0..self.count).rev() {
            let key = self.key(at);
            if key.iter().any(Datum::is_null) {
                continue;
            }
            let before = self.heads.insert(hash_of(key, 0), at as u32);
            self.next[at] = before.unwrap_or(NO_ROW);
        }
    }

    /// A row by its number.
    #[inline]
    pub fn row(&self, at: usize) -> &[Datum] {
        &self.rows[at * self.width..][..self.width]
    }

    /// The key of a row.
    #[inline]
    pub fn key(&self, at: usize) -> &[Datum] {
        &self.row_keys[at * self.keys..][..self.keys]
    }

    /// The first row with a key, or `NO_ROW`.
    #[inline]
    pub fn first(&self, key: &[Datum]) -> u32 {
        if key.iter().any(Datum::is_null) {
            return NO_ROW;
        }
        let head = self.heads.get(&hash_of(key, 0)).copied();
        self.from(head.unwrap_or(NO_ROW), key)
    }

    /// The next row with a key after one that has it, or `NO_ROW`.
    #[inline]
    pub fn after(&self, at: u32, key: &[Datum]) -> u32 {
        self.from(self.next[at as usize], key)
    }

    /// The first row with a key among linked ones.
    #[inline]
    fn from(&self, mut at: u32, key: &[Datum]) -> u32 {
        while at != NO_ROW && self.key(at as usize) != key {
            at = self.next[at as usize];
        }
        at
    }

    /// Takes all rows out, and gives their memory back.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.row_keys.clear();
        self.next.clear();
        self.heads.clear();
        self.count = 0;
        self.share.clear();
    }
}
