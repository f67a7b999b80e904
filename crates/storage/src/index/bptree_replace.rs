//! A value of the volatile B+tree changed in place: one store, where a removal and an insertion would move keys.
//!
//! A MemTable does this for each change of a key that it holds already. The invariants are those of `bptree`; the old value
//! goes into the write set's before images, so an abort brings it back.

use super::Bptree;
use super::Path;
use crate::error::Result;
use crate::log::{VolatileUndo, WriteSet};
use pmem::{Arena, Memory, Part};

impl Bptree {
    /// Changes the value of a key and returns the old one; none, and no effect, if the key is not there.
    pub fn replace<M: Memory>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut VolatileUndo,
        key: &[u64],
        value: u64,
    ) -> Result<Option<u64>> {
        arena.enter(Part::Index);
        let mut path = Path::EMPTY;
        let leaf = self.descend(arena, key, &mut path)?;
        let Ok(index) = self.node(arena, leaf)?.find(key) else {
            return Ok(None);
        };
        let old = self.slot(arena, leaf, index)?;
        let at = self.geometry.slot_at(leaf, index);
        writes.write(arena, at, &value.to_le_bytes())?;
        Ok(Some(old))
    }
}
