//! Replacement of a value of the volatile B+tree: one store in place, where a removal and an
//! insertion would move keys. A missing key is inserted, without a second search.
//!
//! A MemTable does this for each change of a key that it holds already. The invariants are those of
//! `bptree`; the old value goes into the write set's before images, so an abort restores it.

use super::Bptree;
use super::Path;
use pmem::{Arena, Memory, Part};
use storage::Result;
use storage::log::{VolatileUndo, WriteSet};

impl Bptree {
    /// Gives a key this value and returns the one that it had; none if the key is new.
    pub fn put<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut VolatileUndo,
        key: &[u64],
        value: u64,
    ) -> Result<Option<u64>> {
        arena.enter(Part::Index);
        let mut path = Path::EMPTY;
        let leaf = self.descend(arena, key, &mut path)?;
        let node = self.node(arena, leaf)?;
        match node.find(key) {
            Ok(index) => {
                let old = self.slot(arena, leaf, index)?;
                let at = self.geometry.slot_at(leaf, index);
                writes.write(arena, at, &value.to_le_bytes())?;
                return Ok(Some(old));
            }
            Err(index) if node.count < self.geometry.fanout => {
                self.insert_at(arena, writes, leaf, index, index, (key, value))?;
            }
            Err(_) => self.insert_entry(arena, writes, path, leaf, (key, value))?,
        }
        Ok(None)
    }
}
