//! The MemTable of `log`: one volatile B+tree for each tree of the partition, and the entries that
//! they point to.
//!
//! A MemTable has an arena of its own, so that one which has been written to a run is given up as a
//! whole and not entry by entry. Changes go through the volatile write set, so an abort, or the
//! rollback of one statement, restores the old state.
//!
//! A *tree* is the primary index of a table or one of its secondary indexes. A tree has an entry
//! for a key (`lsm::entry`); those of secondary indexes are rows that hold the words of the primary
//! key.

use crate::index::{Bptree, IndexShape, OrderedIndex};
use crate::lsm::entry::EntryKind;
use crate::lsm::pointer;
use pmem::{
    Arena, HeapSavepoint, Memory, Outcome, Owner, POOL_BYTES_MIN, Part, PoolIdentity, PoolKind,
};
use std::collections::{BTreeMap, BTreeSet};
use storage::Result;
use storage::engine::VerifyReport;
use storage::log::{Keep, VolatileUndo, WriteSet};
use storage::record::KeyBuf;

/// Kind of the arenas of MemTables.
const POOL_KIND: PoolKind = PoolKind(0x6c6f_676d);
/// Bytes that an entry is counted with in addition to its own.
const ENTRY_BYTES: u64 = 32;

/// One tree of a partition. Numbers are given once, so entries that runs still have of a dropped
/// tree are never taken for a new one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TreeId(pub(crate) u64);

/// Position of a transaction, to roll back to.
#[derive(Clone, Copy)]
pub(crate) struct MemTableSavepoint {
    undo: storage::log::VolatileSavepoint,
    heap: HeapSavepoint,
    sizes: MemSizes,
}

/// Size of a MemTable's content.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemSizes {
    /// Bytes of entries and of their places in trees.
    pub(crate) held_bytes: u64,
    /// The same, with the entries that others have replaced: the part of the log that the MemTable
    /// needs grows with this.
    pub(crate) written_bytes: u64,
    /// Keys, over all trees.
    pub(crate) entries: u64,
}

/// The changes since the last flush to a run.
pub(crate) struct MemTable<M: Memory> {
    pub(crate) arena: Arena<M>,
    writes: VolatileUndo,
    trees: BTreeMap<TreeId, Bptree>,
    pub(crate) sizes: MemSizes,
    /// Its sizes when the last transaction committed.
    committed: MemSizes,
}

impl<M: Memory> MemTable<M> {
    /// A MemTable without trees, in a memory of at least [`MemTable::bytes_min`].
    pub(crate) fn new(memory: M) -> Result<Self> {
        let identity = PoolIdentity::unnamed(POOL_KIND);
        Ok(Self {
            arena: Arena::create(memory, &identity)?,
            writes: VolatileUndo::new(Keep::BeforeImages),
            trees: BTreeMap::new(),
            sizes: MemSizes::default(),
            committed: MemSizes::default(),
        })
    }

    /// Smallest first size of its memory.
    pub(crate) fn bytes_min() -> u64 {
        POOL_BYTES_MIN
    }

    /// Makes an empty tree.
    pub(crate) fn add_tree(&mut self, id: TreeId, shape: IndexShape) -> Result<()> {
        let owner = Owner {
            part: Part::Other,
            tag: 0,
        };
        let root_word = self.arena.reserve(8, owner)?;
        let change = self.arena.activate(root_word)?;
        self.writes.change(&mut self.arena, change)?;
        let tree = Bptree::create(&mut self.arena, &mut self.writes, root_word, shape, 0)?;
        self.trees.insert(id, tree);
        Ok(())
    }

    /// Frees a tree and its entries.
    pub(crate) fn drop_tree(&mut self, id: TreeId) -> Result<()> {
        let Some(tree) = self.trees.remove(&id) else {
            return Ok(());
        };
        let mut pointers = Vec::new();
        tree_check(&tree, &self.arena, &mut |_| {}, &mut |_, found| {
            pointers.push(found);
        });
        for found in pointers {
            pointer::free(&mut self.arena, &mut self.writes, found)?;
        }
        tree.free(&mut self.arena, &mut self.writes)?;
        let change = self
            .arena
            .free(OrderedIndex::<M, VolatileUndo>::identity(&tree))?;
        self.writes.change(&mut self.arena, change)
    }

    pub(crate) fn tree(&self, id: TreeId) -> Option<&Bptree> {
        self.trees.get(&id)
    }

    pub(crate) fn tree_ids(&self) -> impl Iterator<Item = TreeId> {
        self.trees.keys().copied()
    }

    /// The pointer to the entry of a key.
    #[inline]
    pub(crate) fn get(&self, id: TreeId, key: &[u64]) -> Result<Option<u64>> {
        match self.trees.get(&id) {
            Some(tree) => OrderedIndex::<M, VolatileUndo>::get(tree, &self.arena, key),
            None => Ok(None),
        }
    }

    /// The pointers to the entries of several keys; `found` has the length of `keys`.
    pub(crate) fn get_many(
        &self,
        id: TreeId,
        keys: &[KeyBuf],
        found: &mut [Option<u64>],
    ) -> Result<()> {
        match self.trees.get(&id) {
            Some(tree) => OrderedIndex::<M, VolatileUndo>::get_many(tree, &self.arena, keys, found),
            None => Ok(()),
        }
    }

    /// Puts a new entry for a key. `image` has room for the header before the entry's bytes, and is
    /// left padded.
    pub(crate) fn put(
        &mut self,
        id: TreeId,
        key: &[u64],
        kind: EntryKind,
        image: &mut Vec<u8>,
    ) -> Result<()> {
        let Some(tree) = self.trees.get_mut(&id) else {
            let text = format!("the MemTable has no tree {:#x}", id.0);
            return Err(storage::StorageError::Unsupported(text));
        };
        let (arena, writes) = (&mut self.arena, &mut self.writes);
        let found = if kind == EntryKind::Tombstone {
            pointer::TOMBSTONE
        } else {
            let owner = Owner {
                part: Part::Table,
                tag: 0,
            };
            pointer::stage(arena, writes, owner, kind, image)?
        };
        let bytes = pointer::block_bytes(arena, found)?;
        self.sizes.held_bytes += bytes;
        self.sizes.written_bytes += bytes + ENTRY_BYTES;
        if let Some(old) = tree.put(arena, writes, key, found)? {
            self.sizes.held_bytes -= pointer::block_bytes(arena, old)?;
            return pointer::free(arena, writes, old);
        }
        self.sizes.held_bytes += ENTRY_BYTES + 8 * key.len() as u64;
        self.sizes.entries += 1;
        Ok(())
    }

    /// Overwrites bytes of an entry's block, from `at` bytes after its beginning. The log has them
    /// too.
    pub(crate) fn write(&mut self, found: u64, at: usize, bytes: &[u8]) -> Result<()> {
        self.sizes.written_bytes += bytes.len() as u64 + ENTRY_BYTES;
        let offset = pointer::block(found) + at as u64;
        self.writes.write(&mut self.arena, offset, bytes)
    }

    pub(crate) fn savepoint(&self) -> MemTableSavepoint {
        MemTableSavepoint {
            undo: self.writes.savepoint(),
            heap: self.arena.heap_savepoint(),
            sizes: self.sizes,
        }
    }

    /// Undoes all changes since `savepoint`.
    pub(crate) fn rollback_to(&mut self, savepoint: MemTableSavepoint) -> Result<()> {
        self.writes.rollback_to(&mut self.arena, savepoint.undo)?;
        self.arena.heap_rollback(savepoint.heap);
        self.sizes = savepoint.sizes;
        Ok(())
    }

    /// Bytes that the open transaction holds outside of the trees.
    pub(crate) fn transaction_bytes(&self) -> usize {
        self.writes.bytes() + self.arena.transaction_bytes()
    }

    pub(crate) fn commit(&mut self) {
        self.writes.commit();
        self.committed = self.sizes;
        self.arena.settle(Outcome::Committed);
    }

    pub(crate) fn abort(&mut self) -> Result<()> {
        self.writes.abort(&mut self.arena)?;
        self.sizes = self.committed;
        self.arena.settle(Outcome::Aborted);
        Ok(())
    }

    /// Replaces the trees by `kept`: trees that an aborted change of the schema has made are
    /// forgotten, and those that it has dropped come back.
    pub(crate) fn set_trees(&mut self, kept: BTreeMap<TreeId, Bptree>) {
        self.trees = kept;
    }

    /// The handles of all trees.
    pub(crate) fn handles(&self) -> BTreeMap<TreeId, Bptree> {
        self.trees.clone()
    }

    /// Checks trees and entries, and that the allocated blocks are the reachable ones.
    pub(crate) fn check(&self, report: &mut VerifyReport) {
        let mut reachable = BTreeSet::new();
        let mut damage = Vec::new();
        for tree in self.trees.values() {
            reachable.insert(OrderedIndex::<M, VolatileUndo>::identity(tree));
            let mut pointers = Vec::new();
            damage.extend(tree_check(
                tree,
                &self.arena,
                &mut |node| {
                    reachable.insert(node);
                },
                &mut |_, found| pointers.push(found),
            ));
            for found in pointers
                .into_iter()
                .filter(|found| pointer::block(*found) != 0)
            {
                if !reachable.insert(pointer::block(found)) {
                    damage.push(format!("the entry {found:#x} is used twice"));
                }
                if let Err(error) = pointer::check(&self.arena, found) {
                    damage.push(error.to_string());
                }
            }
        }
        match self.arena.allocated() {
            Err(error) => damage.push(error.to_string()),
            Ok(blocks) => {
                report.blocks += blocks.len() as u64;
                let allocated: BTreeSet<u64> = blocks.iter().map(|block| block.offset).collect();
                damage.extend(allocated.symmetric_difference(&reachable).map(|offset| {
                    format!("the block at offset {offset} is allocated and not reachable, or the reverse")
                }));
            }
        }
        let texts = damage.into_iter().map(|text| format!("MemTable: {text}"));
        report.damage.extend(texts);
    }
}

fn tree_check<M: Memory>(
    tree: &Bptree,
    arena: &Arena<M>,
    node: &mut dyn FnMut(u64),
    entry: &mut dyn FnMut(&[u64], u64),
) -> Vec<String> {
    let mut damage = Vec::new();
    OrderedIndex::<M, VolatileUndo>::check(tree, arena, node, entry, &mut damage);
    damage
}
