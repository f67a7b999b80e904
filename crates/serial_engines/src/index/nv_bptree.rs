//! The non-volatile B+tree: an ordered index that is usable immediately after a crash.
//!
//! Every change of a reachable node goes through the transaction's [`WriteSet`], which can undo it.
//! An insertion stages the entry in a free slot and publishes it with the bitmap word; a split
//! builds new nodes next to the old one and switches one pointer, so nothing is moved inside a
//! reachable leaf. A leaf that empties is taken out of its parent.
//!
//! Invariants:
//! 1. All leaves are on level 0, and a child is one level below its parent; readers check it, so
//!    damage cannot loop.
//! 2. Keys below `children[i]` are at least `keys[i - 1]` and less than `keys[i]`.
//! 3. A slot whose bit was cleared in the open transaction is not used before it ends
//!    (`WriteSet::retire`).
//! 4. No inner node is without children; an empty leaf occurs as root only.
//!
//! After SIGMOD 2015 (N-Store), section 4.1: entries are appended unsorted and published
//! atomically. Fingerprints are added so that a lookup reads about one entry of a leaf; scans sort
//! one leaf at a time. Neighbours are reached through the parents, so a split changes no other
//! leaf. Sparse leaves are not merged before they are empty.

#[path = "nv_bulk.rs"]
mod bulk;
#[path = "nv_many.rs"]
mod many;

use super::nv_node::{
    HEADER_WORDS, Node, NodeShape, bitmap_delta, bytes_of, damaged, entry_sum, fingerprint,
    inner_checksum, leaf_image,
};
use super::{Ahead, IndexShape, OrderedIndex, Visit};
use many::Inserted;
use pmem::{Arena, Memory, Owner, Part};
use std::cmp::Ordering;
use std::ops::ControlFlow;
use storage::Result;
use storage::engine::Direction;
use storage::log::WriteSet;
use storage::record::MAX_KEY_WORDS;

/// A non-volatile B+tree. Its root pointer is a word of the pool; the struct itself is volatile.
#[derive(Clone, Debug)]
pub struct NvBptree {
    root_word: u64,
    shape: NodeShape,
    owner: Owner,
}

/// A step from the root: the node, and which of its children comes next.
#[derive(Clone, Copy)]
struct Step {
    node: u64,
    child: usize,
}

impl NvBptree {
    fn at(root_word: u64, shape: IndexShape, tag: u16) -> Self {
        let shape = NodeShape::new(shape.node_bytes, shape.key_words);
        Self {
            root_word,
            shape,
            owner: Owner {
                part: Part::Index,
                tag,
            },
        }
    }

    /// The mark to touch, besides the root word, when more than the header of a leaf has changed.
    fn structure(&self) -> u64 {
        self.root_word + 1
    }

    fn check_tree<M: Memory>(
        &self,
        arena: &Arena<M>,
        node: &mut dyn FnMut(u64),
        entry: &mut dyn FnMut(&[u64], u64),
        damage: &mut Vec<String>,
    ) {
        arena.enter(Part::Index);
        // Pointers of a damaged tree may meet in one node: it is not visited more often than the
        // pool has room for nodes.
        let mut visits = arena.pool_bytes() / self.shape.node_bytes as u64;
        let mut node = |offset| {
            node(offset);
            visits = visits.saturating_sub(1);
            visits > 0
        };
        let root = self.root(arena);
        let result =
            root.and_then(|root| Self::check_node(&root, (None, None), &mut node, entry, damage));
        if let Err(error) = result {
            damage.push(error.to_string());
        }
    }

    fn check_node<M: Memory>(
        this: &Node<'_, M>,
        (low, high): (Option<&[u64]>, Option<&[u64]>),
        node: &mut dyn FnMut(u64) -> bool,
        entry: &mut dyn FnMut(&[u64], u64),
        damage: &mut Vec<String>,
    ) -> Result<()> {
        if !node(this.offset) {
            return Err(damaged(this.offset, "nodes are shared".into()));
        }
        if this.compute_checksum()? != this.checksum()? {
            damage.push(format!(
                "index node at offset {}: wrong checksum",
                this.offset
            ));
        }
        let words = this.shape.key_words;
        let inside =
            |key: &[u64]| low.is_none_or(|low| low <= key) && high.is_none_or(|high| key < high);
        if this.level == 0 {
            let entries = this.sorted()?;
            for (index, found) in entries.iter().enumerate() {
                let (key, value) = (&found[..words], found[words]);
                if !inside(key) || (index > 0 && entries[index - 1][..words] == *key) {
                    damage.push(format!(
                        "index node at offset {}: a key out of order",
                        this.offset
                    ));
                }
                entry(key, value);
            }
            return Ok(());
        }
        let count = this.key_count()?;
        let keys: Vec<&[u64]> = this.keys(count)?.chunks_exact(words).collect();
        if !keys.iter().all(|key| inside(key)) || !keys.is_sorted_by(|a, b| a < b) {
            damage.push(format!(
                "index node at offset {}: separators out of order",
                this.offset
            ));
        }
        for (index, &child) in this.children(count)?.iter().enumerate() {
            let low = if index == 0 {
                low
            } else {
                keys.get(index - 1).copied()
            };
            let high = keys.get(index).copied().or(high);
            match this.child(child) {
                Ok(child) => Self::check_node(&child, (low, high), node, entry, damage)?,
                Err(error) => damage.push(error.to_string()),
            }
        }
        Ok(())
    }

    #[inline]
    fn root<'a, M: Memory>(&'a self, arena: &'a Arena<M>) -> Result<Node<'a, M>> {
        let root = arena.word(self.root_word)?;
        Node::open(arena, &self.shape, root)
    }

    /// The leaf that `key` belongs to.
    #[inline]
    fn leaf<'a, M: Memory>(&'a self, arena: &'a Arena<M>, key: &[u64]) -> Result<Node<'a, M>> {
        let mut node = self.root(arena)?;
        while node.level > 0 {
            let child = node.child_offset(node.child_index(key)?)?;
            // All lines of the child are prefetched together: its header, fingerprints and entries
            // then cost one miss.
            arena.prefetch(child, self.shape.node_bytes);
            node = node.child(child)?;
        }
        Ok(node)
    }

    /// The way to the leaf that `key` belongs to. Few changes need it: those that alter a parent.
    fn path<M: Memory>(&self, arena: &Arena<M>, key: &[u64]) -> Result<Vec<Step>> {
        let mut path = Vec::with_capacity(8);
        let mut node = self.root(arena)?;
        while node.level > 0 {
            let child = node.child_index(key)?;
            path.push(Step {
                node: node.offset,
                child,
            });
            node = node.child(node.child_offset(child)?)?;
        }
        Ok(path)
    }

    fn new_node<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        image: &[u8],
    ) -> Result<u64> {
        let offset = writes.reserve(arena, self.shape.node_bytes, self.owner)?;
        writes.stage(arena, offset, image)?;
        let change = arena.activate(offset)?;
        writes.change(arena, change)?;
        Ok(offset)
    }

    fn free_node<M: Memory, W: WriteSet<M>>(
        arena: &mut Arena<M>,
        writes: &mut W,
        offset: u64,
    ) -> Result<()> {
        let change = arena.free(offset)?;
        writes.change(arena, change)
    }

    /// Adds an entry to a free slot of the leaf; false if there is none.
    fn add_to_leaf<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        leaf: u64,
        entry: &[u64],
    ) -> Result<bool> {
        let node = Node::open(arena, &self.shape, leaf)?;
        let Some((index, bit, bitmap)) = self.free_slot(&node, writes)? else {
            return Ok(false);
        };
        let slot = index * 64 + bit;
        let mark = fingerprint(&entry[..self.shape.key_words]);
        let new = bitmap | 1 << bit;
        let checksum = now(&node, writes, 1)?
            .wrapping_add(bitmap_delta(index, bitmap, new))
            .wrapping_add(entry_sum(&self.shape, slot, entry, mark));
        let entry_offset = node.at(self.shape.entry_at(slot));
        let fingerprint_offset = node.at(self.shape.fingerprints_at()) + slot as u64;
        let mut bytes = [0; 8 * (MAX_KEY_WORDS + 1)];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(entry) {
            *bytes = word.to_le_bytes();
        }
        writes.stage_final(arena, entry_offset, &bytes[..8 * entry.len()])?;
        // The header line changes anyway: the byte is better off in its write-back than in one of
        // its own. It is stored at once as well, so that the next insertion of this transaction
        // finds the entry.
        arena.store(fingerprint_offset, &[mark])?;
        writes.write(arena, fingerprint_offset, &[mark])?;
        self.write_bitmap(arena, writes, leaf, index, new, checksum)?;
        Ok(true)
    }

    /// A slot that neither holds an entry nor held one when the transaction began.
    fn free_slot<M: Memory, W: WriteSet<M>>(
        &self,
        node: &Node<'_, M>,
        writes: &W,
    ) -> Result<Option<(usize, usize, u64)>> {
        for index in 0..self.shape.bitmap_words {
            let bitmap = now(node, writes, HEADER_WORDS + index)?;
            let retired = writes.retired(node.at(HEADER_WORDS + index));
            let free = !(bitmap | retired) & self.shape.slot_mask(index);
            if free != 0 {
                return Ok(Some((index, free.trailing_zeros() as usize, bitmap)));
            }
        }
        Ok(None)
    }

    /// Changes a bitmap word and the checksum of a leaf, in one write where they are neighbours.
    ///
    /// The tree is touched after the last write of an operation: a write may drain what is pending,
    /// which forgets what was touched before.
    fn write_bitmap<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        leaf: u64,
        index: usize,
        bitmap: u64,
        checksum: u64,
    ) -> Result<()> {
        if index == 0 {
            let mut both = [0; 16];
            both[..8].copy_from_slice(&checksum.to_le_bytes());
            both[8..].copy_from_slice(&bitmap.to_le_bytes());
            writes.write(arena, leaf + 8, &both)?;
        } else {
            writes.write(arena, leaf + 8, &checksum.to_le_bytes())?;
            let word = leaf + 8 * (HEADER_WORDS + index) as u64;
            writes.write(arena, word, &bitmap.to_le_bytes())?;
        }
        writes.touch(self.root_word);
        Ok(())
    }

    /// Makes a node the root.
    fn write_root<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        root: u64,
    ) -> Result<()> {
        writes.write(arena, self.root_word, &root.to_le_bytes())?;
        writes.touch(self.root_word);
        writes.touch(self.structure());
        Ok(())
    }

    /// Whether all slots of a leaf have entries that come before `key`, as the open transaction
    /// sees them.
    fn is_full_below<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &Arena<M>,
        writes: &W,
        leaf: u64,
        key: &[u64],
    ) -> Result<bool> {
        let node = Node::open(arena, &self.shape, leaf)?;
        for index in 0..self.shape.bitmap_words {
            let mask = self.shape.slot_mask(index);
            if now(&node, writes, HEADER_WORDS + index)? & mask != mask {
                return Ok(false);
            }
        }
        for slot in 0..self.shape.leaf_slots {
            if node.entry(slot)?[..key.len()] >= *key {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds a leaf with `entry` after a full one whose entries all come before it. Ascending keys,
    /// also those of many ranges in turns, so fill their leaves; and a leaf that stays as it is
    /// need not show the writes of the open transaction.
    fn add_leaf<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        path: &[Step],
        leaf: u64,
        entry: &[u64],
    ) -> Result<()> {
        let image = leaf_image(&self.shape, &[entry]);
        let right = self.new_node(arena, writes, &image)?;
        let separator = &entry[..self.shape.key_words];
        self.replace_child(arena, writes, path, &[leaf, right], separator)
    }

    /// Replaces a full leaf by two that also hold `entry`.
    fn split_leaf<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        path: &[Step],
        leaf: u64,
        entry: &[u64],
    ) -> Result<()> {
        let words = self.shape.key_words;
        let node = Node::open(arena, &self.shape, leaf)?;
        let mut entries = node.sorted()?;
        let place = entries.partition_point(|found| found[..words] < entry[..words]);
        entries.insert(place, entry);
        if entries.len() <= self.shape.leaf_slots / 2 {
            // The leaf is full of slots that this transaction retired.
            let image = leaf_image(&self.shape, &entries);
            let fresh = self.new_node(arena, writes, &image)?;
            Self::free_node(arena, writes, leaf)?;
            return self.swap_child(arena, writes, path, fresh);
        }
        let middle = entries.len() / 2;
        let (left, right) = entries.split_at(middle);
        let separator = right[0][..words].to_vec();
        let images = [
            leaf_image(&self.shape, left),
            leaf_image(&self.shape, right),
        ];
        let left = self.new_node(arena, writes, &images[0])?;
        let right = self.new_node(arena, writes, &images[1])?;
        Self::free_node(arena, writes, leaf)?;
        self.replace_child(arena, writes, path, &[left, right], &separator)
    }

    /// Puts a node in the place of the child that the path ends with.
    fn swap_child<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        path: &[Step],
        fresh: u64,
    ) -> Result<()> {
        let Some(step) = path.last() else {
            return self.write_root(arena, writes, fresh);
        };
        let node = Node::open(arena, &self.shape, step.node)?;
        let (level, count) = (node.level, node.key_count()?);
        let keys = node.keys(count)?.to_vec();
        let mut children = node.children(count)?.to_vec();
        if let Some(child) = children.get_mut(step.child) {
            *child = fresh;
        }
        self.write_inner(arena, writes, step, (level, &keys, &children))
    }

    /// Rewrites the header and, from child `step.child` on, the keys and children of an inner node
    /// in place.
    fn write_inner<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        step: &Step,
        (level, keys, children): (u64, &[u64], &[u64]),
    ) -> Result<()> {
        let words = self.shape.key_words;
        let first_key = step.child.saturating_sub(1) * words;
        let first_child = step.child;
        let checksum = inner_checksum(&self.shape, level, keys, children);
        let header = bytes_of(&[checksum, children.len() as u64 - 1]);
        let at = |word: usize| step.node + word as u64 * 8;
        writes.write(arena, at(1), &header)?;
        if let Some(keys) = keys.get(first_key..).filter(|keys| !keys.is_empty()) {
            writes.write(arena, at(NodeShape::keys_at() + first_key), &bytes_of(keys))?;
        }
        if let Some(children) = children.get(first_child..).filter(|list| !list.is_empty()) {
            writes.write(
                arena,
                at(self.shape.children_at() + first_child),
                &bytes_of(children),
            )?;
        }
        writes.touch(self.root_word);
        writes.touch(self.structure());
        Ok(())
    }

    /// Takes the child that the path ends with out of its parent, and frees it. Parents that lose
    /// their last child go too; a root with one child gives way to it.
    fn unlink<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        path: &[Step],
        child: u64,
    ) -> Result<()> {
        Self::free_node(arena, writes, child)?;
        let Some((step, above)) = path.split_last() else {
            let root = self.new_node(arena, writes, &leaf_image(&self.shape, &[]))?;
            return self.write_root(arena, writes, root);
        };
        let words = self.shape.key_words;
        let node = Node::open(arena, &self.shape, step.node)?;
        let (level, count) = (node.level, node.key_count()?);
        if count == 0 {
            return self.unlink(arena, writes, above, step.node);
        }
        let mut keys = node.keys(count)?.to_vec();
        let mut children = node.children(count)?.to_vec();
        children.remove(step.child);
        let key = step.child.saturating_sub(1) * words;
        keys.drain(key..key + words);
        if above.is_empty() && children.len() == 1 {
            Self::free_node(arena, writes, step.node)?;
            return self.write_root(arena, writes, children[0]);
        }
        self.write_inner(arena, writes, step, (level, &keys, &children))
    }

    /// `entries` is the list for those of one leaf, whatever it holds.
    fn scan_node<'a, M: Memory>(
        &self,
        node: &Node<'a, M>,
        entries: &mut Vec<&'a [u64]>,
        (low, high): (&[u64], &[u64]),
        direction: Direction,
        block_bytes: usize,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>> {
        let words = self.shape.key_words;
        if node.level == 0 {
            node.sorted_within(low, high, entries)?;
            if direction == Direction::Backward {
                entries.reverse();
            }
            let mut ahead = Ahead::new(block_bytes);
            for (step, entry) in entries.iter().enumerate() {
                ahead.ask(node.arena, step, entries.len(), |step| entries[step][words]);
                if visit(&entry[..words], entry[words])?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            return Ok(ControlFlow::Continue(()));
        }
        let (first, last) = (node.child_index(low)?, node.child_index(high)?);
        if last < first {
            return Err(damaged(
                node.offset,
                "its separators are out of order".into(),
            ));
        }
        for step in 0..=last - first {
            let index = if direction == Direction::Forward {
                first + step
            } else {
                last - step
            };
            let child = node.child_offset(index)?;
            node.prefetch(child);
            let child = node.child(child)?;
            if self
                .scan_node(&child, entries, (low, high), direction, block_bytes, visit)?
                .is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl<M: Memory, W: WriteSet<M>> OrderedIndex<M, W> for NvBptree {
    fn create(
        arena: &mut Arena<M>,
        writes: &mut W,
        root_word: u64,
        shape: IndexShape,
        tag: u16,
    ) -> Result<Self> {
        let tree = Self::at(root_word, shape, tag);
        let root = tree.new_node(arena, writes, &leaf_image(&tree.shape, &[]))?;
        writes.stage(arena, root_word, &root.to_le_bytes())?;
        Ok(tree)
    }

    fn open(_arena: &Arena<M>, root_word: u64, shape: IndexShape, tag: u16) -> Result<Self> {
        Ok(Self::at(root_word, shape, tag))
    }

    fn identity(&self) -> u64 {
        self.root_word
    }

    fn free(&self, arena: &mut Arena<M>, writes: &mut W) -> Result<()> {
        let mut nodes = Vec::new();
        let mut damage = Vec::new();
        self.check_tree(
            arena,
            &mut |node| nodes.push(node),
            &mut |_, _| {},
            &mut damage,
        );
        if let Some(first) = damage.into_iter().next() {
            return Err(damaged(self.root_word, first));
        }
        for node in nodes {
            Self::free_node(arena, writes, node)?;
        }
        Ok(())
    }

    fn check(
        &self,
        arena: &Arena<M>,
        node: &mut dyn FnMut(u64),
        entry: &mut dyn FnMut(&[u64], u64),
        damage: &mut Vec<String>,
    ) {
        self.check_tree(arena, node, entry, damage);
    }

    /// The product of the fan-outs on the way to a leaf in the middle.
    fn estimate(&self, arena: &Arena<M>) -> Result<u64> {
        arena.enter(Part::Index);
        let mut node = self.root(arena)?;
        let mut nodes = 1_u64;
        while node.level > 0 {
            let keys = node.key_count()?;
            nodes = nodes.saturating_mul(keys as u64 + 1);
            node = node.child(node.child_offset(keys / 2)?)?;
        }
        Ok(nodes.saturating_mul(node.entry_count()?))
    }

    #[inline]
    fn get(&self, arena: &Arena<M>, key: &[u64]) -> Result<Option<u64>> {
        arena.enter(Part::Index);
        Ok(self.leaf(arena, key)?.find(key)?.map(|(_, value)| value))
    }

    fn get_many<K: std::ops::Deref<Target = [u64]>>(
        &self,
        arena: &Arena<M>,
        keys: &[K],
        values: &mut [Option<u64>],
    ) -> Result<()> {
        const TOGETHER: usize = 16;
        arena.enter(Part::Index);
        for (keys, values) in keys.chunks(TOGETHER).zip(values.chunks_mut(TOGETHER)) {
            let root = self.root(arena)?;
            let mut nodes = [root.offset; TOGETHER];
            // One level at a time for all keys, so that the misses of a level overlap.
            for level in (1..=root.level).rev() {
                for (key, offset) in keys.iter().zip(&mut nodes) {
                    let node = Node::open(arena, &self.shape, *offset)?;
                    if node.level != level {
                        return Err(damaged(
                            *offset,
                            format!("level {} on level {level}", node.level),
                        ));
                    }
                    *offset = node.child_offset(node.child_index(key)?)?;
                    arena.prefetch(*offset, self.shape.node_bytes);
                }
            }
            for ((key, offset), value) in keys.iter().zip(nodes).zip(values) {
                let leaf = Node::open(arena, &self.shape, offset)?;
                if leaf.level != 0 {
                    return Err(damaged(offset, format!("level {} on level 0", leaf.level)));
                }
                *value = leaf.find(key)?.map(|(_, value)| value);
            }
        }
        Ok(())
    }

    fn insert(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        key: &[u64],
        value: u64,
    ) -> Result<bool> {
        // Entries that this transaction has added before are seen in the words of their leaf. So a
        // transaction that adds many drains only at splits.
        writes.visible(arena, self.structure())?;
        writes.begin_step();
        arena.enter(Part::Index);
        let node = self.leaf(arena, key)?;
        let bitmap = |index| now(&node, writes, HEADER_WORDS + index);
        if node.find_among(key, bitmap)?.is_some() {
            return Ok(false);
        }
        let leaf = node.offset;
        let mut entry = [0; MAX_KEY_WORDS + 1];
        let entry = &mut entry[..=key.len()];
        entry[..key.len()].copy_from_slice(key);
        entry[key.len()] = value;
        if !self.add_to_leaf(arena, writes, leaf, entry)? {
            let path = self.path(arena, key)?;
            if self.is_full_below(arena, writes, leaf, key)? {
                self.add_leaf(arena, writes, &path, leaf, entry)?;
            } else {
                writes.visible(arena, self.root_word)?;
                self.split_leaf(arena, writes, &path, leaf, entry)?;
            }
        }
        Ok(true)
    }

    fn insert_many(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        key_words: usize,
        entries: &[u64],
    ) -> Result<Option<usize>> {
        let entries: Vec<&[u64]> = entries.chunks_exact(key_words + 1).collect();
        let mut added = 0;
        while added < entries.len() {
            match self.insert_next(arena, writes, &entries[added..])? {
                Inserted::All(count) => added += count,
                Inserted::Taken(at) => return Ok(Some(added + at)),
            }
        }
        Ok(None)
    }

    fn fill(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        key_words: usize,
        entries: &[u64],
    ) -> Result<Option<usize>> {
        let entries: Vec<&[u64]> = entries.chunks_exact(key_words + 1).collect();
        self.fill_empty(arena, writes, &entries)
    }

    fn remove(&mut self, arena: &mut Arena<M>, writes: &mut W, key: &[u64]) -> Result<Option<u64>> {
        writes.visible(arena, self.structure())?;
        writes.begin_step();
        arena.enter(Part::Index);
        let node = self.leaf(arena, key)?;
        let bitmap = |index| now(&node, writes, HEADER_WORDS + index);
        let Some((slot, value)) = node.find_among(key, bitmap)? else {
            return Ok(None);
        };
        let leaf = node.offset;
        let (index, bit) = (slot / 64, slot % 64);
        let is_last = arena.word(self.root_word)? != leaf && entries_now(&node, writes)? == 1;
        // The next transaction may store into the slot, so no record may have checksums of it. A
        // leaf that is freed has no writes that are not in place.
        if is_last || node.bitmap(index)? >> bit & 1 == 0 {
            writes.visible(arena, self.root_word)?;
        }
        if is_last {
            let path = self.path(arena, key)?;
            self.unlink(arena, writes, &path, leaf)?;
            return Ok(Some(value));
        }
        let node = Node::open(arena, &self.shape, leaf)?;
        let bitmap = now(&node, writes, HEADER_WORDS + index)?;
        let new = bitmap & !(1 << bit);
        let mark = fingerprint(key);
        let checksum = now(&node, writes, 1)?
            .wrapping_add(bitmap_delta(index, bitmap, new))
            .wrapping_sub(entry_sum(&self.shape, slot, node.entry(slot)?, mark));
        writes.retire(node.at(HEADER_WORDS + index), 1 << bit);
        self.write_bitmap(arena, writes, leaf, index, new, checksum)?;
        Ok(Some(value))
    }

    fn scan(
        &self,
        arena: &Arena<M>,
        (low, high): (&[u64], &[u64]),
        direction: Direction,
        block_bytes: usize,
        visit: Visit<'_>,
    ) -> Result<()> {
        arena.enter(Part::Index);
        if low.cmp(high) == Ordering::Greater {
            return Ok(());
        }
        let root = self.root(arena)?;
        let mut entries = Vec::with_capacity(self.shape.leaf_slots);
        let range = (low, high);
        let _ended = self.scan_node(&root, &mut entries, range, direction, block_bytes, visit)?;
        Ok(())
    }
}

/// A word of a node as the open transaction sees it.
#[inline]
fn now<M: Memory, W: WriteSet<M>>(node: &Node<'_, M>, writes: &W, word: usize) -> Result<u64> {
    match writes.pending_word(node.at(word)) {
        Some(pending) => Ok(pending),
        None => node.word(word),
    }
}

/// Entries of a leaf as the open transaction sees them.
fn entries_now<M: Memory, W: WriteSet<M>>(node: &Node<'_, M>, writes: &W) -> Result<u32> {
    (0..node.shape.bitmap_words).try_fold(0, |sum, index| {
        let used = now(node, writes, HEADER_WORDS + index)? & node.shape.slot_mask(index);
        Ok(sum + used.count_ones())
    })
}

#[cfg(test)]
#[path = "nv_bptree_tests.rs"]
mod tests;
