//! What an operation on a row writes into the MemTable of `log`.
//!
//! An update writes the changed columns only, unless they are a large part of the row; an entry that the MemTable has for the key
//! already is replaced by one with both changes. Entries of secondary indexes are rows that hold the words of the primary key.

use super::store::{Trees, unreadable};
use crate::error::Result;
use crate::lsm::entry::{EntryKind, merge_deltas, write_delta};
use crate::lsm::pointer;
use crate::lsm::rows;
use crate::record::{Changes, Row};
use crate::table::Table;
use disk::File;
use pmem::MemorySource;
use std::sync::Arc;

impl<S: MemorySource, F: File> Trees<'_, S, F> {
    fn begin_image(&mut self) {
        self.image.clear();
        self.image.resize(pointer::HEADER_BYTES, 0);
    }

    /// Writes the whole row with the changes made to it.
    fn put_changed_row(&mut self, key: &[u64], changes: &Changes) -> Result<()> {
        let mut row = self.row.clone();
        self.read(key, &mut row)?;
        changes.apply(&mut row)?;
        self.begin_image();
        row.write_image(self.image);
        *self.row = row;
        self.active
            .put(self.primary(), key, EntryKind::Row, self.image)
    }
}

impl<S: MemorySource, F: File> rows::Trees for Trees<'_, S, F> {
    fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table)
    }

    fn has_row(&mut self, key: &[u64]) -> Result<bool> {
        let newest = self.newest(self.primary(), key)?;
        Ok(newest.is_some_and(|(kind, _)| kind != EntryKind::Tombstone))
    }

    fn read_row(&mut self, key: &[u64], row: &mut Row) -> Result<bool> {
        self.read(key, row)
    }

    fn put_row(&mut self, key: &[u64], row: &Row) -> Result<()> {
        self.begin_image();
        row.write_image(self.image);
        let tree = self.primary();
        self.active.put(tree, key, EntryKind::Row, self.image)
    }

    fn put_changes(&mut self, key: &[u64], changes: &Changes) -> Result<bool> {
        let tree = self.primary();
        let Some((kind, bytes)) = self.newest(tree, key)? else {
            return Ok(false);
        };
        let own = self.active.get(tree, key)?;
        match kind {
            EntryKind::Tombstone => return Ok(false),
            EntryKind::Row if own.is_some() => self.put_changed_row(key, changes)?,
            EntryKind::Row | EntryKind::Delta => {
                let mut delta = Vec::new();
                write_delta(changes, &mut delta);
                self.begin_image();
                match own {
                    Some(own) => {
                        let older = pointer::read(&self.active.arena, own)?;
                        merge_deltas(older, &delta, self.image)
                            .map_err(|error| unreadable(&error))?;
                    }
                    None => self.image.extend_from_slice(&delta),
                }
                let row_bytes = if kind == EntryKind::Row {
                    bytes
                } else {
                    self.table.layout.tuple_bytes()
                };
                if own.is_none() && delta.len() * 2 > row_bytes {
                    self.put_changed_row(key, changes)?;
                } else {
                    self.active.put(tree, key, EntryKind::Delta, self.image)?;
                }
            }
        }
        Ok(true)
    }

    fn put_tombstone(&mut self, key: &[u64]) -> Result<bool> {
        if !self.has_row(key)? {
            return Ok(false);
        }
        let tree = self.primary();
        self.active
            .put(tree, key, EntryKind::Tombstone, self.image)?;
        Ok(true)
    }

    fn has_key(&mut self, index: usize, key: &[u64]) -> Result<bool> {
        let newest = self.newest(self.secondary(index), key)?;
        Ok(newest.is_some_and(|(kind, _)| kind != EntryKind::Tombstone))
    }

    fn add_key(&mut self, index: usize, key: &[u64], primary: &[u64]) -> Result<()> {
        self.begin_image();
        for word in primary {
            self.image.extend_from_slice(&word.to_le_bytes());
        }
        let tree = self.secondary(index);
        self.active.put(tree, key, EntryKind::Row, self.image)
    }

    fn remove_key(&mut self, index: usize, key: &[u64], _primary: &[u64]) -> Result<()> {
        let tree = self.secondary(index);
        self.active.put(tree, key, EntryKind::Tombstone, self.image)
    }
}
