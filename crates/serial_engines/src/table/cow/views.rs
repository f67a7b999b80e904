//! The rows of a snapshot of `nvm-cow`: tuples that are copied out of the pool while its owner
//! works.
//!
//! They lie where the partition's own reader finds them, in blocks that nobody stores to while the
//! snapshot lives. A row is copied first and checked afterwards, with its checksum. Nothing here
//! changes anything; operations that only a change needs refuse.

use super::Rows;
use crate::index::cow::snapshot::{SnapshotStore, unchangeable};
use crate::index::cow::{CowTree, Pages, Value};
use crate::table::tuples::Tuples;
use std::sync::Arc;
use storage::record::{Changes, LayoutKind, Row};
use storage::table::Table;
use storage::{Result, StorageError};

type Snapshot = Pages<SnapshotStore>;

/// Rows as tuples in a pool, read through a view of it.
pub struct ViewRows {
    tuples: Tuples,
    buffer: Vec<u8>,
}

impl Rows<Snapshot> for ViewRows {
    const VALUE_WORDS: usize = 1;

    fn layout(layout: LayoutKind) -> LayoutKind {
        layout
    }

    fn new(table: &Table, tag: u16) -> Self {
        Self {
            tuples: Tuples::new(Arc::clone(&table.layout), &table.primary, tag),
            buffer: Vec::new(),
        }
    }

    fn insert(
        &mut self,
        _pages: &mut Snapshot,
        _tree: CowTree,
        _key: &[u64],
        _row: &Row,
    ) -> Result<bool> {
        unchangeable()
    }

    fn get(
        &mut self,
        pages: &mut Snapshot,
        tree: CowTree,
        key: &[u64],
        row: &mut Row,
    ) -> Result<bool> {
        let Some(tuple) = tree.get_word(pages, key)? else {
            return Ok(false);
        };
        self.read(pages, Value::Words(&[tuple]), row)?;
        Ok(true)
    }

    fn read(&mut self, pages: &mut Snapshot, value: Value<'_>, row: &mut Row) -> Result<()> {
        let no_pool = || StorageError::Unsupported("tuples lie in pools only".to_owned());
        let view = pages.store.loader.pool().ok_or_else(no_pool)?;
        self.tuples
            .read_view(view, value.word(), row, &mut self.buffer)
    }

    fn update(
        &mut self,
        _pages: &mut Snapshot,
        _tree: CowTree,
        _key: &[u64],
        _changes: &Changes,
    ) -> Result<bool> {
        unchangeable()
    }

    fn remove(&mut self, _pages: &mut Snapshot, _tree: CowTree, _key: &[u64]) -> Result<bool> {
        unchangeable()
    }

    fn leave(&mut self, _pages: &mut Snapshot, _value: Value<'_>) -> Result<()> {
        unchangeable()
    }

    fn check(
        &mut self,
        pages: &mut Snapshot,
        value: Value<'_>,
        row: &mut Row,
        block: &mut dyn FnMut(u64),
    ) -> Result<()> {
        block(value.word());
        self.read(pages, value, row)?;
        Ok(row.check_values()?)
    }
}
