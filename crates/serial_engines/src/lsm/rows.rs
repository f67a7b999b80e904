//! Operations on rows in the trees of a log-structured table: the upkeep of keys, written once for
//! trees in files and in durable memory.
//!
//! Everything that can be refused is checked before the first change, so a refused statement has
//! nothing to take back. A row is found through the tree of the primary key; a secondary index maps
//! its key to the primary key.

use std::sync::Arc;
use storage::Result;
use storage::record::{Changes, KeyBuf, Row};
use storage::table::Table;

/// One table's trees.
pub(crate) trait Trees {
    /// The definition and data that are derived from it.
    fn table(&self) -> Arc<Table>;

    /// Whether there is a row with this primary key.
    fn has_row(&mut self, key: &[u64]) -> Result<bool>;

    /// Copies the row with this primary key into `row`; false if there is none.
    fn read_row(&mut self, key: &[u64], row: &mut Row) -> Result<bool>;

    /// Says that this is the row now. `is_new` if there is none with this key so far.
    fn put_row(&mut self, key: &[u64], row: &Row) -> Result<()>;

    /// Says that these columns of the row have changed; false, and no effect, if there is no row.
    fn put_changes(&mut self, key: &[u64], changes: &Changes) -> Result<bool>;

    /// Says that the row is gone; false, and no effect, if there is none.
    fn put_tombstone(&mut self, key: &[u64]) -> Result<bool>;

    /// Whether the secondary index number `index` has this key.
    fn has_key(&mut self, index: usize, key: &[u64]) -> Result<bool>;

    /// Adds a key to the secondary index number `index`. It is not there.
    fn add_key(&mut self, index: usize, key: &[u64], primary: &[u64]) -> Result<()>;

    /// Takes a key out of the secondary index number `index`.
    fn remove_key(&mut self, index: usize, key: &[u64], primary: &[u64]) -> Result<()>;
}

/// Buffers that live between operations, so that these do not allocate.
pub(crate) struct Scratch {
    key: KeyBuf,
    /// The key of each secondary index before an update, and after it.
    keys: Vec<(KeyBuf, KeyBuf)>,
    old: Row,
    new: Row,
}

impl Scratch {
    pub(crate) fn new(table: &Table) -> Self {
        Self {
            key: KeyBuf::default(),
            keys: vec![(KeyBuf::default(), KeyBuf::default()); table.secondary.len()],
            old: Row::new(Arc::clone(&table.layout)),
            new: Row::new(Arc::clone(&table.layout)),
        }
    }
}

/// Inserts a row; `DuplicateKey` if its primary key or a unique secondary key is taken.
pub(crate) fn insert<T: Trees>(trees: &mut T, scratch: &mut Scratch, row: &Row) -> Result<()> {
    let table = trees.table();
    table.primary.encode_row(row, &mut scratch.key)?;
    if trees.has_row(&scratch.key)? {
        return Err(table.duplicate(None, row));
    }
    for (number, encoder) in table.secondary.iter().enumerate() {
        let key = &mut scratch.keys[number].1;
        encoder.encode_row(row, key)?;
        if trees.has_key(number, key)? {
            return Err(table.duplicate(Some(number), row));
        }
    }
    trees.put_row(&scratch.key, row)?;
    for (number, (_, key)) in scratch.keys.iter().enumerate() {
        trees.add_key(number, key, &scratch.key)?;
    }
    Ok(())
}

/// Changes columns of the row with this primary key; false if there is none.
pub(crate) fn update<T: Trees>(
    trees: &mut T,
    scratch: &mut Scratch,
    key: &[u64],
    changes: &Changes,
) -> Result<bool> {
    let table = trees.table();
    if !table.changes_an_index(changes) {
        return trees.put_changes(key, changes);
    }
    if !trees.read_row(key, &mut scratch.old)? {
        return Ok(false);
    }
    scratch.new.clone_from(&scratch.old);
    changes.apply(&mut scratch.new)?;
    for (number, encoder) in table.secondary.iter().enumerate() {
        let (old, new) = &mut scratch.keys[number];
        encoder.encode_row(&scratch.old, old)?;
        encoder.encode_row(&scratch.new, new)?;
        if old != new && trees.has_key(number, new)? {
            return Err(table.duplicate(Some(number), &scratch.new));
        }
    }
    trees.put_changes(key, changes)?;
    for (number, (old, new)) in scratch.keys.iter().enumerate() {
        if old != new {
            trees.remove_key(number, old, key)?;
            trees.add_key(number, new, key)?;
        }
    }
    Ok(true)
}

/// Deletes the row with this primary key; false if there is none.
pub(crate) fn delete<T: Trees>(trees: &mut T, scratch: &mut Scratch, key: &[u64]) -> Result<bool> {
    let table = trees.table();
    if table.secondary.is_empty() {
        return trees.put_tombstone(key);
    }
    if !trees.read_row(key, &mut scratch.old)? {
        return Ok(false);
    }
    trees.put_tombstone(key)?;
    for (number, encoder) in table.secondary.iter().enumerate() {
        encoder.encode_row(&scratch.old, &mut scratch.keys[number].0)?;
        trees.remove_key(number, &scratch.keys[number].0, key)?;
    }
    Ok(true)
}
