//! Operations of the non-volatile B+tree for runs of a log-structured table, beyond lookups: change
//! a value in place, add whole leaves at the right edge, take leaves off at the left one, and begin
//! a new tree.
//!
//! A merge of two trees reads both from left to right and writes a third one leaf by leaf, each
//! leaf full and staged in one piece. So a step of it costs one block, one change of the parent,
//! and nothing that grows with the trees.
//!
//! Invariants are those of `nv_bptree`; each call makes at most one change of the tree, so a caller
//! that makes one call a transaction and tree never waits for its own writes.

use super::{NvBptree, Step, now};
use crate::index::IndexShape;
use crate::index::nv_node::{HEADER_WORDS, Node, damaged, entry_sum, fingerprint, leaf_image};
use pmem::{Arena, Memory};
use storage::Result;
use storage::log::WriteSet;
use storage::record::MAX_KEY_WORDS;

impl NvBptree {
    /// A handle for the tree whose root pointer is, or will be, the word at `root_word`. Nothing is
    /// read.
    pub fn handle(root_word: u64, shape: IndexShape, tag: u16) -> Self {
        Self::at(root_word, shape, tag)
    }

    /// The word that holds the root pointer.
    pub fn root_word(&self) -> u64 {
        self.root_word
    }

    /// Entries of a leaf.
    pub fn leaf_entries(&self) -> usize {
        self.shape.leaf_slots
    }

    /// Makes the root word point to a new, empty tree. The old tree is not freed: the caller has
    /// kept its root elsewhere.
    pub fn restart<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
    ) -> Result<()> {
        let root = self.new_node(arena, writes, &leaf_image(&self.shape, &[]))?;
        self.write_root(arena, writes, root)
    }

    /// The value of a key as the open transaction sees it. Only splits are made visible for it:
    /// pending entries and values are read over the words of their leaf.
    #[inline]
    pub fn get_pending<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        key: &[u64],
    ) -> Result<Option<u64>> {
        writes.visible(arena, self.structure())?;
        arena.enter(pmem::Part::Index);
        let node = self.leaf(arena, key)?;
        Ok(self.find_pending(&node, writes, key)?.map(|found| found.1))
    }

    /// The slot and the value of a key in its leaf.
    #[inline]
    fn find_pending<M: Memory, W: WriteSet<M>>(
        &self,
        node: &Node<'_, M>,
        writes: &W,
        key: &[u64],
    ) -> Result<Option<(usize, u64)>> {
        let bitmap = |index| now(node, writes, HEADER_WORDS + index);
        let Some((slot, _)) = node.find_among(key, bitmap)? else {
            return Ok(None);
        };
        let value = now(node, writes, self.shape.entry_at(slot) + key.len())?;
        Ok(Some((slot, value)))
    }

    /// Changes the value of a key in place and returns the old one; none, and no effect, if the key
    /// is not there.
    pub fn replace<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        key: &[u64],
        value: u64,
    ) -> Result<Option<u64>> {
        writes.visible(arena, self.structure())?;
        arena.enter(pmem::Part::Index);
        let node = self.leaf(arena, key)?;
        let Some((slot, old)) = self.find_pending(&node, writes, key)? else {
            return Ok(None);
        };
        let mark = fingerprint(key);
        let mut entry = [0; MAX_KEY_WORDS + 1];
        let entry = &mut entry[..=key.len()];
        entry[..key.len()].copy_from_slice(key);
        entry[key.len()] = old;
        let without =
            now(&node, writes, 1)?.wrapping_sub(entry_sum(&self.shape, slot, entry, mark));
        entry[key.len()] = value;
        let checksum = without.wrapping_add(entry_sum(&self.shape, slot, entry, mark));
        let checksum_at = node.at(1);
        let value_at = node.at(self.shape.entry_at(slot) + key.len());
        writes.write(arena, checksum_at, &checksum.to_le_bytes())?;
        writes.write(arena, value_at, &value.to_le_bytes())?;
        writes.touch(self.root_word);
        Ok(Some(old))
    }

    /// Adds a leaf with these entries after all others. Each is a key and its value; the keys
    /// ascend and are greater than all in the tree; there are at most [`NvBptree::leaf_entries`],
    /// and at least one.
    pub fn append_leaf<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        entries: &[&[u64]],
    ) -> Result<()> {
        writes.visible(arena, self.root_word)?;
        arena.enter(pmem::Part::Index);
        let mut path = Vec::with_capacity(8);
        let mut node = self.root(arena)?;
        while node.level > 0 {
            let child = node.key_count()?;
            path.push(Step {
                node: node.offset,
                child,
            });
            node = node.child(node.child_offset(child)?)?;
        }
        let (last, is_empty) = (node.offset, node.entry_count()? == 0);
        let leaf = self.new_node(arena, writes, &leaf_image(&self.shape, entries))?;
        if path.is_empty() && is_empty {
            Self::free_node(arena, writes, last)?;
            return self.write_root(arena, writes, leaf);
        }
        let Some(first) = entries.first() else {
            return Err(damaged(
                last,
                "an empty leaf would stand behind it".to_owned(),
            ));
        };
        let separator = first[..self.shape.key_words].to_vec();
        self.replace_child(arena, writes, &path, &[last, leaf], &separator)
    }

    /// Takes the leaf with the smallest keys out of the tree and frees it. False if it was the last
    /// node: then the root word is 0, and there is no tree.
    pub fn drop_first_leaf<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
    ) -> Result<bool> {
        writes.visible(arena, self.root_word)?;
        arena.enter(pmem::Part::Index);
        let mut path = Vec::with_capacity(8);
        let mut node = self.root(arena)?;
        while node.level > 0 {
            path.push(Step {
                node: node.offset,
                child: 0,
            });
            node = node.child(node.child_offset(0)?)?;
        }
        let leaf = node.offset;
        if path.is_empty() {
            Self::free_node(arena, writes, leaf)?;
            self.write_root(arena, writes, 0)?;
            return Ok(false);
        }
        self.unlink(arena, writes, &path, leaf)?;
        Ok(true)
    }
}
