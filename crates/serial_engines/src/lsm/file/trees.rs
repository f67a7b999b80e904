//! Writes of row operations into the MemTable of `log`.
//!
//! An update writes the changed columns only, unless they are a large part of the row or the row is
//! short; an entry that the MemTable has for the key already is replaced by one with both changes,
//! or a few changed fields are written over its own. Entries of secondary indexes are rows that
//! hold the words of the primary key.

use super::store::{Trees, unreadable};
use crate::lsm::entry::{EntryKind, merge_deltas, write_delta};
use crate::lsm::image;
use crate::lsm::pointer;
use crate::lsm::rows;
use disk::File;
use pmem::MemorySource;
use std::sync::Arc;
use storage::Result;
use storage::record::{Changes, Row};
use storage::table::Table;

/// Bytes of a row that is written whole whatever changes: readers then find all of it in the
/// MemTable, and the next change is written over it.
const WHOLE_BYTES_MAX: usize = 512;

impl<S: MemorySource, F: File> Trees<'_, S, F> {
    fn begin_image(&mut self) {
        self.image.clear();
        self.image.resize(pointer::HEADER_BYTES, 0);
    }

    /// Writes changed fields over those of the MemTable's entry; false, and no effect, if they are
    /// many or have contents outside of the tuple.
    fn overwrite(&mut self, own: u64, changes: &Changes) -> Result<bool> {
        let old = pointer::read(&self.active.arena, own)?;
        if !image::overwrite(old, &self.table.layout, changes, self.image) {
            return Ok(false);
        }
        let (header, new) = self.image.split_at(pointer::HEADER_BYTES);
        let mut spans = Vec::new();
        changes.spans(&mut spans);
        for span in &spans {
            let range = span.start..span.end.min(new.len());
            self.active
                .write(own, pointer::HEADER_BYTES + span.start, &new[range])?;
        }
        self.active.write(own, 0, header)?;
        Ok(true)
    }

    /// Writes a further change of a row, for which the MemTable has an entry already.
    fn put_next_change(&mut self, key: &[u64], own: u64, changes: &Changes) -> Result<bool> {
        let kind = pointer::kind(own)?;
        self.begin_image();
        match kind {
            EntryKind::Tombstone => return Ok(false),
            EntryKind::Row if self.overwrite(own, changes)? => return Ok(true),
            EntryKind::Row => {
                let old = pointer::read(&self.active.arena, own)?;
                image::push_changed_image(old, &self.table.layout, changes, self.image)?;
            }
            EntryKind::Delta => {
                let mut delta = Vec::new();
                write_delta(changes, &mut delta);
                let older = pointer::read(&self.active.arena, own)?;
                merge_deltas(older, &delta, self.image).map_err(|error| unreadable(&error))?;
            }
        }
        self.active.put(self.primary(), key, kind, self.image)?;
        Ok(true)
    }
}

/// Appends a change of a row of which the MemTable has no entry: the changed columns, or the whole
/// row if they are a large part of it or it is short.
fn first_change(before: &Row, changes: &Changes, image: &mut Vec<u8>) -> Result<EntryKind> {
    let row_bytes = image::row_bytes(before);
    let is_large_part = image::changed_bytes(changes) * 2 > row_bytes;
    if is_large_part || row_bytes <= WHOLE_BYTES_MAX {
        image::push_changed_row(before, changes, image)?;
        return Ok(EntryKind::Row);
    }
    write_delta(changes, image);
    Ok(EntryKind::Delta)
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
        if let Some(before) = self.before {
            row.clone_from(before);
            return Ok(true);
        }
        self.read(key, row)
    }

    fn put_row(&mut self, key: &[u64], row: &Row) -> Result<()> {
        self.begin_image();
        row.write_image(self.image);
        self.put_live(self.primary(), key)
    }

    fn put_changes(&mut self, key: &[u64], changes: &Changes) -> Result<bool> {
        if let Some(own) = self.active.get(self.primary(), key)? {
            return self.put_next_change(key, own, changes);
        }
        let tree = self.primary();
        if self.before.is_none() && !self.read_own(key)? {
            return Ok(false);
        }
        self.begin_image();
        let before = self.before.unwrap_or(&*self.row);
        let kind = first_change(before, changes, self.image)?;
        self.active.put(tree, key, kind, self.image)?;
        Ok(true)
    }

    fn put_tombstone(&mut self, key: &[u64]) -> Result<bool> {
        if !self.has_row(key)? {
            return Ok(false);
        }
        self.put_dead(self.primary(), key)?;
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
        self.put_live(self.secondary(index), key)
    }

    fn remove_key(&mut self, index: usize, key: &[u64], _primary: &[u64]) -> Result<()> {
        self.put_dead(self.secondary(index), key)
    }
}
