//! Changes of a write set in the order of a secondary index.
//!
//! A long write set is in the order of primary keys. A transaction that reads its own changes by
//! another index would look at all of them for each batch of rows, so it keeps them in the order of
//! that index too, from the first such read on. What comes later is added by the next read.

use super::change::Change;
use crate::error::Result;
use crate::table::Index;
use std::collections::BTreeSet;
use storage::record::{IndexId, KeyBuf, TableId};

/// About the memory of a key.
const KEY_BYTES: usize = 2 * size_of::<(KeyBuf, usize)>();

/// The changes of a table that leave a row, by the keys of these rows.
pub(super) struct ByIndex {
    index: Index,
    /// Keys, with the places of the changes in the log.
    keys: BTreeSet<(KeyBuf, usize)>,
    /// Changes of the log that are here.
    known: usize,
}

impl ByIndex {
    pub(super) fn new(index: Index) -> Self {
        Self {
            index,
            keys: BTreeSet::new(),
            known: 0,
        }
    }

    pub(super) fn is_of(&self, table: TableId, index: IndexId) -> bool {
        self.index.table.id() == table && self.index.id == index
    }

    /// Changes of the log that are here.
    pub(super) fn known(&self) -> usize {
        self.known
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.keys.len() * KEY_BYTES) as u64
    }

    /// Adds the next change of the log.
    pub(super) fn add(&mut self, change: &Change) -> Result<()> {
        if let Some(key) = self.key_of(change)? {
            self.keys.insert((key, self.known));
        }
        self.known += 1;
        Ok(())
    }

    /// The last change of the log, at this place, is taken back.
    pub(super) fn take_back(&mut self, at: usize, change: &Change) {
        if at >= self.known {
            return;
        }
        self.known = at;
        // It had a key when it was added.
        if let Ok(Some(key)) = self.key_of(change) {
            self.keys.remove(&(key, at));
        }
    }

    fn key_of(&self, change: &Change) -> Result<Option<KeyBuf>> {
        let is_here = change.table.id() == self.index.table.id();
        let Some(row) = change.after.as_ref().filter(|_| is_here) else {
            return Ok(None);
        };
        let mut key = KeyBuf::new();
        self.index.encoder().encode_row(row, &mut key)?;
        Ok(Some(key))
    }

    /// Places of the changes that give rows keys in a range.
    pub(super) fn range(&self, low: &KeyBuf, high: &KeyBuf) -> impl Iterator<Item = usize> {
        let bounds = (low <= high).then(|| (low.clone(), 0)..=(high.clone(), usize::MAX));
        let keys = bounds.map(|bounds| self.keys.range(bounds));
        keys.into_iter().flatten().map(|(_, at)| *at)
    }
}
