//! A search tree that never changes, over rows in durable memory.
//!
//! A durable update is reduced to its steps on the medium: a record with the old column and a
//! fence, the column and a fence, the commit word and a fence.
//!
//! ```text
//! levels  sorted keys | the first key of each node below | ... in nodes of 16 keys, each level
//!         padded with the largest key
//! pool    rows | commit word | record
//! ```

use crate::static_rows::{Design, OWNER};
use pmem::{Arena, NativeMemory, PmemError, site};
use workload::ycsb::{COLUMN_BYTES, Change};

/// Keys of a node: two lines.
const NODE_KEYS: usize = 16;
/// A record: the row's offset, the column, its old bytes.
const RECORD_BYTES: usize = (16 + COLUMN_BYTES).next_multiple_of(64);

/// The tree of one partition.
pub(crate) struct Tree {
    /// Nodes of each level, the leaves first.
    levels: Vec<Vec<u64>>,
    commit_word: u64,
    record: u64,
    commits: u64,
}

impl Design for Tree {
    fn new(arena: &mut Arena<NativeMemory>, keys: Vec<u64>) -> Result<Self, PmemError> {
        let mut levels = Vec::new();
        let mut level = keys;
        loop {
            let above: Vec<u64> = level.iter().copied().step_by(NODE_KEYS).collect();
            let is_root = level.len() <= NODE_KEYS;
            level.resize(level.len().next_multiple_of(NODE_KEYS), u64::MAX);
            levels.push(level);
            if is_root {
                break;
            }
            level = above;
        }
        Ok(Self {
            levels,
            commit_word: arena.reserve(64, OWNER)?,
            record: arena.reserve(RECORD_BYTES, OWNER)?,
            commits: 0,
        })
    }

    #[inline]
    fn find(&self, key: u64) -> Option<usize> {
        let mut number = 0;
        for level in self.levels.iter().rev() {
            let node = &level[number * NODE_KEYS..(number + 1) * NODE_KEYS];
            let not_above = node
                .iter()
                .map(|&found| usize::from(found <= key))
                .sum::<usize>();
            number = (number * NODE_KEYS + not_above).checked_sub(1)?;
        }
        (self.levels.first()?[number] == key).then_some(number)
    }

    #[inline]
    fn update(
        &mut self,
        arena: &mut Arena<NativeMemory>,
        row: u64,
        change: Change<'_>,
    ) -> Result<(), PmemError> {
        for (column, value) in change.columns() {
            let column_at = row + (column * COLUMN_BYTES) as u64;
            let mut record = [0; RECORD_BYTES];
            record[..8].copy_from_slice(&row.to_le_bytes());
            record[8..16].copy_from_slice(&(column as u64).to_le_bytes());
            record[16..16 + COLUMN_BYTES].copy_from_slice(arena.bytes(column_at, COLUMN_BYTES)?);
            arena.write_through(self.record, &record, site!("static-tree.record"))?;
            arena.fence(site!("static-tree.record-fence"))?;
            arena.store(column_at, value.as_bytes())?;
            arena.flush(column_at, COLUMN_BYTES, site!("static-tree.column"))?;
            arena.fence(site!("static-tree.column-fence"))?;
        }
        self.commits += 1;
        arena.store_word(self.commit_word, self.commits)?;
        arena.flush(self.commit_word, 8, site!("static-tree.commit"))?;
        arena.fence(site!("static-tree.commit-fence"))?;
        Ok(())
    }
}
