//! Ordered indexes: fixed-width keys of big-endian words to one 8-byte value.
//!
//! The volatile and the persistent tree are different types with one interface, so that the code
//! above them is written once. Keys are unique; a non-unique index has the primary key appended by
//! its encoder.

mod allocations;
pub mod bptree;
mod bptree_node;
pub mod cow;
pub mod hints;
pub mod nv_bptree;
mod nv_node;
pub mod slotted;
pub mod trees;

pub(crate) use allocations::Allocations;
pub use bptree::Bptree;
pub use nv_bptree::NvBptree;
pub use nv_node::NodeShape;
pub(crate) use nv_node::bytes_of;

use pmem::{Arena, Memory, Part};
use std::ops::ControlFlow;
use storage::Result;
use storage::engine::Direction;

/// Sizes that are chosen when an index is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexShape {
    /// Bytes of a node; nodes that would hold fewer than four entries are made larger.
    pub node_bytes: usize,
    /// Words of a key.
    pub key_words: usize,
}

/// Called with each key and value of a scan, until it breaks or fails.
pub type Visit<'v> = &'v mut dyn FnMut(&[u64], u64) -> Result<ControlFlow<()>>;

/// Operations of an ordered index. `W` collects the changes of the transaction (see
/// [`storage::log::WriteSet`]).
pub trait OrderedIndex<M: Memory, W>: Send + Sized {
    /// Makes an empty index of keys of `key_words` words. The aligned word at `root_word` is
    /// unpublished and becomes its root pointer. `tag` goes to the heap with its nodes.
    fn create(
        arena: &mut Arena<M>,
        writes: &mut W,
        root_word: u64,
        shape: IndexShape,
        tag: u16,
    ) -> Result<Self>;

    /// The index whose root pointer is at `root_word`.
    fn open(arena: &Arena<M>, root_word: u64, shape: IndexShape, tag: u16) -> Result<Self>;

    /// The offset that identifies the index in the arena; [`storage::log::WriteSet::visible`] takes
    /// it.
    fn identity(&self) -> u64;

    /// Frees every node. The index must not be used afterwards.
    fn free(&self, arena: &mut Arena<M>, writes: &mut W) -> Result<()>;

    /// Visits all nodes and entries and reports damage. `node` is called with the offset of each
    /// block in use, `entry` with each key and value, in key order.
    fn check(
        &self,
        arena: &Arena<M>,
        node: &mut dyn FnMut(u64),
        entry: &mut dyn FnMut(&[u64], u64),
        damage: &mut Vec<String>,
    );

    /// A guess of the number of entries, from a few nodes; 0 where there is none.
    fn estimate(&self, _arena: &Arena<M>) -> Result<u64> {
        Ok(0)
    }

    /// The value of a key.
    fn get(&self, arena: &Arena<M>, key: &[u64]) -> Result<Option<u64>>;

    /// Looks several keys up at once, so that their misses overlap. `values` has the length of
    /// `keys`.
    fn get_many<K: std::ops::Deref<Target = [u64]>>(
        &self,
        arena: &Arena<M>,
        keys: &[K],
        values: &mut [Option<u64>],
    ) -> Result<()>;

    /// Adds a key; false, and no effect, if it is there.
    fn insert(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        key: &[u64],
        value: u64,
    ) -> Result<bool>;

    /// Adds entries in the order of their keys, each `key_words` words and a value; none, or the
    /// number of one whose key is there, or comes before it in `entries` as well. Some of the
    /// others may have been added then.
    fn insert_many(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        key_words: usize,
        entries: &[u64],
    ) -> Result<Option<usize>> {
        for (number, entry) in entries.chunks_exact(key_words + 1).enumerate() {
            let (key, value) = entry.split_at(key_words);
            if !self.insert(arena, writes, key, value[0])? {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    /// As [`OrderedIndex::insert_many`], for all entries of an index that is empty.
    fn fill(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        key_words: usize,
        entries: &[u64],
    ) -> Result<Option<usize>> {
        self.insert_many(arena, writes, key_words, entries)
    }

    /// Takes a key out and returns its value.
    fn remove(&mut self, arena: &mut Arena<M>, writes: &mut W, key: &[u64]) -> Result<Option<u64>>;

    /// Visits the entries from `low` to `high`, both included, in order. Where values are offsets
    /// of blocks, `block_bytes` of each are prefetched before its visit; 0 prefetches nothing.
    fn scan(
        &self,
        arena: &Arena<M>,
        range: (&[u64], &[u64]),
        direction: Direction,
        block_bytes: usize,
        visit: Visit<'_>,
    ) -> Result<()>;
}

/// Brings entries, each `words` words and a value, into the order of their keys.
pub(crate) fn sort_entries(entries: &mut Vec<u64>, words: usize) {
    let mut list: Vec<&[u64]> = entries.chunks_exact(words + 1).collect();
    if list.is_sorted_by(|one, other| one[..words] <= other[..words]) {
        return;
    }
    list.sort_unstable_by(|one, other| one[..words].cmp(&other[..words]));
    *entries = list.concat();
}

/// Most entries by which a scan prefetches blocks ahead.
const AHEAD: usize = 6;

/// Prefetches of the scan of one leaf.
struct Ahead {
    block_bytes: usize,
    asked: usize,
}

impl Ahead {
    fn new(block_bytes: usize) -> Self {
        Self {
            block_bytes,
            asked: 0,
        }
    }

    /// Prefetches the blocks of the entries after number `step` of `count`: few at first, because
    /// many scans end soon.
    #[inline]
    fn ask<M: Memory>(
        &mut self,
        arena: &Arena<M>,
        step: usize,
        count: usize,
        value_of: impl Fn(usize) -> u64,
    ) {
        let end = count.min(2 * step + 2).min(step + AHEAD);
        if self.block_bytes == 0 || self.asked >= end {
            return;
        }
        arena.enter(Part::Table);
        for entry in self.asked..end {
            arena.prefetch(value_of(entry), self.block_bytes);
        }
        arena.enter(Part::Index);
        self.asked = end;
    }
}
