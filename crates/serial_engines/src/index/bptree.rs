//! The volatile B+tree: sorted nodes in a volatile arena, changed in place.
//!
//! Everything that an abort must bring back, the root pointer included, lies in the arena and
//! changes through the write set, so the write set's before images undo an index as they undo a
//! tuple.
//!
//! ```text
//! node   word 0: magic u16 | 0 u8 | level u8 (0 = leaf) | count u32
//!        keys, sorted: `fanout` x key words; those that are not in use have all bits set
//!        slots: `fanout` + 1 words. In a leaf slots[i] is the value of keys[i]. In an inner node
//!        slots[i] is a child and keys[i] the smallest key that may lie below slots[i + 1]
//! ```
//!
//! Invariants: keys ascend strictly; all leaves have level 0; the children of a node have its level
//! less one; the root has at least two children or is a leaf; no other node is empty.
//!
//! A lookup prefetches a whole node as soon as its pointer is known, so a level costs one miss
//! instead of one for each probe. A node that is three quarters empty is merged with a neighbour
//! where both fit into three quarters; so a tree that alternates between insert and delete does not
//! split and merge each time. A split at the right end of the tree leaves the old node full, which
//! makes ascending inserts (loads, replay) a bulk build.

#[path = "bptree_replace.rs"]
mod replace;

use super::bptree_node::{Geometry, NO_KEY_BYTE, Node, Path, WORD, corrupted, meta, push_words};
use super::{Ahead, IndexShape, OrderedIndex, Visit};
use pmem::{Arena, Memory, Owner, Part};
use std::ops::ControlFlow;
use storage::Result;
use storage::engine::Direction;
use storage::log::{VolatileUndo, WriteSet};
use storage::record::KeyBuf;

/// Lookups that [`OrderedIndex::get_many`] takes down the tree side by side: as many misses as a
/// core keeps in flight.
const TOGETHER: usize = 16;

/// A volatile B+tree.
#[derive(Clone, Debug)]
pub struct Bptree {
    root_word: u64,
    geometry: Geometry,
    tag: u16,
    /// Bytes of a shifted or new node, on their way to the arena.
    image: Vec<u8>,
}

impl Bptree {
    fn at(root_word: u64, shape: IndexShape, tag: u16) -> Self {
        Self {
            root_word,
            geometry: Geometry::new(shape),
            tag,
            image: Vec::new(),
        }
    }

    #[inline(always)]
    fn node<'a, M: Memory>(&self, arena: &'a Arena<M>, offset: u64) -> Result<Node<'a>> {
        let words = arena.slice::<u64>(offset, self.geometry.slots_word)?;
        Node::of(words, self.geometry, offset)
    }

    /// A child of `node`, which lies at `offset`; its lines are on their way.
    #[inline(always)]
    fn child<M: Memory>(&self, arena: &Arena<M>, offset: u64, index: usize) -> Result<u64> {
        let child = arena.word(self.geometry.slot_at(offset, index))?;
        arena.prefetch(child, self.geometry.node_bytes);
        Ok(child)
    }

    fn slot<M: Memory>(&self, arena: &Arena<M>, offset: u64, index: usize) -> Result<u64> {
        Ok(arena.word(self.geometry.slot_at(offset, index))?)
    }

    fn root<M: Memory>(&self, arena: &Arena<M>) -> Result<u64> {
        Ok(arena.word(self.root_word)?)
    }

    /// The leaf in which `key` belongs.
    fn descend<M: Memory>(&self, arena: &Arena<M>, key: &[u64], path: &mut Path) -> Result<u64> {
        let mut offset = self.root(arena)?;
        let mut node = self.node(arena, offset)?;
        while node.level > 0 {
            let index = node.child_of(key);
            path.push(offset, index)?;
            offset = self.child(arena, offset, index)?;
            node = self.node_below(arena, offset, node.level)?;
        }
        Ok(offset)
    }

    /// A node whose parent has level `level`.
    #[inline(always)]
    fn node_below<'a, M: Memory>(
        &self,
        arena: &'a Arena<M>,
        offset: u64,
        level: u64,
    ) -> Result<Node<'a>> {
        let node = self.node(arena, offset)?;
        if node.level + 1 == level {
            Ok(node)
        } else {
            Err(corrupted(offset, "wrong level"))
        }
    }

    /// The first or last leaf below `offset`.
    fn descend_to_edge<M: Memory>(
        &self,
        arena: &Arena<M>,
        mut offset: u64,
        direction: Direction,
        path: &mut Path,
    ) -> Result<u64> {
        let mut node = self.node(arena, offset)?;
        while node.level > 0 {
            let index = if direction == Direction::Forward {
                0
            } else {
                node.count
            };
            path.push(offset, index)?;
            offset = self.child(arena, offset, index)?;
            node = self.node_below(arena, offset, node.level)?;
        }
        Ok(offset)
    }

    /// The leaf after the one to which `path` leads, or before it.
    fn neighbour<M: Memory>(
        &self,
        arena: &Arena<M>,
        direction: Direction,
        path: &mut Path,
    ) -> Result<Option<u64>> {
        while let Some((offset, index)) = path.pop() {
            let next = match direction {
                Direction::Forward if index < self.node(arena, offset)?.count => index + 1,
                Direction::Backward if index > 0 => index - 1,
                _ => continue,
            };
            path.push(offset, next)?;
            let child = self.child(arena, offset, next)?;
            return self
                .descend_to_edge(arena, child, direction, path)
                .map(Some);
        }
        Ok(None)
    }

    /// Inserts a key before key `index` and a slot before slot `slot_index` of a node that has
    /// room.
    fn insert_at<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut VolatileUndo,
        offset: u64,
        index: usize,
        slot_index: usize,
        (key, slot): (&[u64], u64),
    ) -> Result<()> {
        let geometry = self.geometry;
        let node = self.node(arena, offset)?;
        let (count, slots, level) = (node.count, node.slots(), node.level);
        let at = geometry.key_at(offset, index);
        self.image.clear();
        push_words(&mut self.image, key);
        self.image
            .extend_from_slice(arena.bytes(at, (count - index) * geometry.key_bytes())?);
        writes.write(arena, at, &self.image)?;
        let at = geometry.slot_at(offset, slot_index);
        self.image.clear();
        push_words(&mut self.image, &[slot]);
        self.image
            .extend_from_slice(arena.bytes(at, (slots - slot_index) * WORD)?);
        writes.write(arena, at, &self.image)?;
        writes.write(arena, offset, &meta(level, count + 1).to_le_bytes())
    }

    /// Takes a key and a slot out of a node.
    fn remove_at<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut VolatileUndo,
        offset: u64,
        index: usize,
        slot_index: usize,
    ) -> Result<()> {
        let geometry = self.geometry;
        let node = self.node(arena, offset)?;
        let (count, slots, level) = (node.count, node.slots(), node.level);
        let at = geometry.key_at(offset, index);
        let moved = (count - index - 1) * geometry.key_bytes();
        self.image.clear();
        let above = geometry.key_at(offset, index + 1);
        self.image.extend_from_slice(arena.bytes(above, moved)?);
        self.push_no_keys(1);
        writes.write(arena, at, &self.image)?;
        let moved = (slots - slot_index - 1) * WORD;
        if moved > 0 {
            self.image.clear();
            let above = geometry.slot_at(offset, slot_index + 1);
            self.image.extend_from_slice(arena.bytes(above, moved)?);
            writes.write(arena, geometry.slot_at(offset, slot_index), &self.image)?;
        }
        writes.write(arena, offset, &meta(level, count - 1).to_le_bytes())
    }

    /// Makes a node of `keys`, all their words, and `slots`.
    fn make_node<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut VolatileUndo,
        level: u64,
        keys: &[u64],
        slots: &[u64],
    ) -> Result<u64> {
        let geometry = self.geometry;
        let offset = self.reserve_node(arena)?;
        let count = keys.len() / geometry.key_words;
        self.image.clear();
        push_words(&mut self.image, &[meta(level, count)]);
        push_words(&mut self.image, keys);
        self.push_no_keys(geometry.fanout - count);
        push_words(&mut self.image, slots);
        self.stage_node(arena, writes, offset)?;
        Ok(offset)
    }

    fn reserve_node<M: Memory>(&self, arena: &mut Arena<M>) -> Result<u64> {
        let owner = Owner {
            part: Part::Index,
            tag: self.tag,
        };
        Ok(arena.reserve(self.geometry.node_bytes, owner)?)
    }

    /// Puts the image into a node that was reserved.
    fn stage_node<M: Memory>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut VolatileUndo,
        offset: u64,
    ) -> Result<()> {
        writes.stage(arena, offset, &self.image)?;
        let change = arena.activate(offset)?;
        writes.change(arena, change)
    }

    /// Adds places without keys to the image.
    fn push_no_keys(&mut self, keys: usize) {
        let bytes = self.image.len() + keys * self.geometry.key_bytes();
        self.image.resize(bytes, NO_KEY_BYTE);
    }

    fn free_node<M: Memory>(
        arena: &mut Arena<M>,
        writes: &mut VolatileUndo,
        offset: u64,
    ) -> Result<()> {
        let change = arena.free(offset)?;
        writes.change(arena, change)
    }

    /// Moves the upper part of a full node to a new one on its right, in which keys from `at` on
    /// lie. Returns the key that separates them and the new node. An inner node gives the key at
    /// `at` to its parent.
    fn split<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut VolatileUndo,
        offset: u64,
        at: usize,
    ) -> Result<(KeyBuf, u64)> {
        let geometry = self.geometry;
        let right = self.reserve_node(arena)?;
        let node = self.node(arena, offset)?;
        let (count, slots, level) = (node.count, node.slots(), node.level);
        let separator = KeyBuf::from_words(node.key(at));
        let first = if level == 0 { at } else { at + 1 };
        let keys_at = geometry.key_at(offset, first);
        let key_bytes = (count - first) * geometry.key_bytes();
        let slots_at = geometry.slot_at(offset, first);
        let slot_bytes = (slots - first) * WORD;
        self.image.clear();
        push_words(&mut self.image, &[meta(level, count - first)]);
        self.image
            .extend_from_slice(arena.bytes(keys_at, key_bytes)?);
        self.push_no_keys(geometry.fanout - (count - first));
        self.image
            .extend_from_slice(arena.bytes(slots_at, slot_bytes)?);
        self.stage_node(arena, writes, right)?;
        self.image.clear();
        self.push_no_keys(count - at);
        writes.write(arena, geometry.key_at(offset, at), &self.image)?;
        writes.write(arena, offset, &meta(level, at).to_le_bytes())?;
        Ok((separator, right))
    }

    /// Adds an entry to the leaf to which `path` leads, splitting full nodes on the way up.
    fn insert_entry<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut VolatileUndo,
        mut path: Path,
        leaf: u64,
        (key, value): (&[u64], u64),
    ) -> Result<()> {
        let (mut offset, mut key, mut slot) = (leaf, KeyBuf::from_words(key), value);
        let is_right_edge = self.is_right_edge(arena, &path)?;
        loop {
            let node = self.node(arena, offset)?;
            let inner = usize::from(node.level > 0);
            let index = node.lower_bound(&key);
            if node.count < self.geometry.fanout {
                return self.insert_at(arena, writes, offset, index, index + inner, (&key, slot));
            }
            let level = node.level;
            let (separator, right) = if is_right_edge && index == node.count {
                let keys: &[u64] = if level == 0 { &key } else { &[] };
                let right = self.make_node(arena, writes, level, keys, &[slot])?;
                (key, right)
            } else {
                let split = self.split(arena, writes, offset, self.geometry.fanout / 2)?;
                let (half, index) = if key < split.0 {
                    (offset, index)
                } else {
                    (split.1, self.node(arena, split.1)?.lower_bound(&key))
                };
                self.insert_at(arena, writes, half, index, index + inner, (&key, slot))?;
                split
            };
            (key, slot) = (separator, right);
            match path.pop() {
                Some((parent, _)) => offset = parent,
                None => return self.grow_root(arena, writes, level + 1, offset, (&key, slot)),
            }
        }
    }

    fn is_right_edge<M: Memory>(&self, arena: &Arena<M>, path: &Path) -> Result<bool> {
        for &(offset, index) in path.steps() {
            if index != self.node(arena, offset)?.count {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn grow_root<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut VolatileUndo,
        level: u64,
        left: u64,
        (key, right): (&[u64], u64),
    ) -> Result<()> {
        let root = self.make_node(arena, writes, level, key, &[left, right])?;
        writes.write(arena, self.root_word, &root.to_le_bytes())
    }

    /// Repairs the node at `offset`, to which `path` leads, after it lost an entry: frees it if it
    /// is empty, merges it if it is nearly so, and goes on with its parent.
    fn shrink<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut VolatileUndo,
        mut path: Path,
        mut offset: u64,
    ) -> Result<()> {
        let mut is_empty = self.node(arena, offset)?.count == 0;
        loop {
            let Some((parent, index)) = path.pop() else {
                return self.shrink_root(arena, writes, offset);
            };
            if is_empty {
                Self::free_node(arena, writes, offset)?;
                // A parent without keys had only this child. It is not the root, which has two or
                // more.
                is_empty = self.node(arena, parent)?.count == 0;
                if !is_empty {
                    self.remove_child(arena, writes, parent, index)?;
                }
            } else if self.node(arena, offset)?.count > self.geometry.fanout / 4
                || !self.merge(arena, writes, parent, index)?
            {
                return Ok(());
            }
            offset = parent;
        }
    }

    /// Takes child number `index` out of an inner node of several, with the key on its left, or on
    /// its right if it is the first.
    fn remove_child<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut VolatileUndo,
        offset: u64,
        index: usize,
    ) -> Result<()> {
        self.remove_at(arena, writes, offset, index.saturating_sub(1), index)
    }

    /// Merges child number `index` of `parent` with a neighbour, if they fit together. The right
    /// one of the two is freed.
    fn merge<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut VolatileUndo,
        parent: u64,
        index: usize,
    ) -> Result<bool> {
        let geometry = self.geometry;
        let count = self.node(arena, parent)?.count;
        for left_index in [Some(index), index.checked_sub(1)].into_iter().flatten() {
            if left_index >= count {
                continue;
            }
            let left = self.slot(arena, parent, left_index)?;
            let right = self.slot(arena, parent, left_index + 1)?;
            let (low, high) = (self.node(arena, left)?, self.node(arena, right)?);
            let inner = usize::from(low.level > 0);
            let (level, sum) = (low.level, low.count + high.count + inner);
            if sum > geometry.fanout * 3 / 4 || low.level != high.level {
                continue;
            }
            let (keys_at, slots_at) = (low.count, low.slots());
            let mut keys = Vec::new();
            if inner > 0 {
                push_words(&mut keys, self.node(arena, parent)?.key(left_index));
            }
            push_words(&mut keys, high.keys());
            let slot_bytes = high.slots() * WORD;
            let slots = arena
                .bytes(geometry.slot_at(right, 0), slot_bytes)?
                .to_vec();
            writes.write(arena, geometry.key_at(left, keys_at), &keys)?;
            writes.write(arena, geometry.slot_at(left, slots_at), &slots)?;
            writes.write(arena, left, &meta(level, sum).to_le_bytes())?;
            self.remove_child(arena, writes, parent, left_index + 1)?;
            Self::free_node(arena, writes, right)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Takes roots with a single child away.
    fn shrink_root<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut VolatileUndo,
        mut root: u64,
    ) -> Result<()> {
        loop {
            let node = self.node(arena, root)?;
            if node.level == 0 || node.count > 0 {
                return Ok(());
            }
            let child = self.slot(arena, root, 0)?;
            writes.write(arena, self.root_word, &child.to_le_bytes())?;
            Self::free_node(arena, writes, root)?;
            root = child;
        }
    }

    /// Visits the entries of one leaf that lie in the range; breaks at its end.
    fn scan_leaf<M: Memory>(
        &self,
        arena: &Arena<M>,
        leaf: u64,
        (low, high): (&[u64], &[u64]),
        direction: Direction,
        block_bytes: usize,
        visit: Visit<'_>,
    ) -> Result<ControlFlow<()>> {
        let node = self.node(arena, leaf)?;
        let slots = arena.slice::<u64>(self.geometry.slot_at(leaf, 0), node.count)?;
        let (first, last) = (node.lower_bound(low), node.child_of(high));
        let (index_of, goes_on): (fn(usize, usize, usize) -> usize, bool) = match direction {
            Direction::Forward => (|first, _, step| first + step, last >= node.count),
            Direction::Backward => (|_, last, step| last - 1 - step, first == 0),
        };
        let count = last.saturating_sub(first);
        let mut ahead = Ahead::new(block_bytes);
        for step in 0..count {
            ahead.ask(arena, step, count, |step| {
                slots[index_of(first, last, step)]
            });
            let index = index_of(first, last, step);
            if visit(node.key(index), slots[index])?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(if goes_on {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        })
    }

    /// Calls `visit` for each node, children before their parent.
    fn walk<M: Memory>(
        &self,
        arena: &Arena<M>,
        offset: u64,
        visit: &mut dyn FnMut(u64, Node<'_>) -> Result<()>,
    ) -> Result<()> {
        let node = self.node(arena, offset)?;
        if node.level > 0 {
            for index in 0..node.slots() {
                let child = self.slot(arena, offset, index)?;
                self.node_below(arena, child, node.level)?;
                self.walk(arena, child, visit)?;
            }
        }
        visit(offset, node)
    }
}

impl<M: Memory> OrderedIndex<M, VolatileUndo> for Bptree {
    fn create(
        arena: &mut Arena<M>,
        writes: &mut VolatileUndo,
        root_word: u64,
        shape: IndexShape,
        tag: u16,
    ) -> Result<Self> {
        let mut tree = Self::at(root_word, shape, tag);
        let root = tree.make_node(arena, writes, 0, &[], &[])?;
        writes.stage(arena, root_word, &root.to_le_bytes())?;
        Ok(tree)
    }

    fn open(arena: &Arena<M>, root_word: u64, shape: IndexShape, tag: u16) -> Result<Self> {
        let tree = Self::at(root_word, shape, tag);
        tree.node(arena, tree.root(arena)?)?;
        Ok(tree)
    }

    fn identity(&self) -> u64 {
        self.root_word
    }

    fn free(&self, arena: &mut Arena<M>, writes: &mut VolatileUndo) -> Result<()> {
        let mut nodes = Vec::new();
        self.walk(arena, self.root(arena)?, &mut |offset, _| {
            nodes.push(offset);
            Ok(())
        })?;
        nodes
            .into_iter()
            .try_for_each(|offset| Self::free_node(arena, writes, offset))
    }

    fn check(
        &self,
        arena: &Arena<M>,
        node: &mut dyn FnMut(u64),
        entry: &mut dyn FnMut(&[u64], u64),
        damage: &mut Vec<String>,
    ) {
        // The last key of the leaf before; empty before the first.
        let mut last: Vec<u64> = Vec::new();
        let mut out_of_order = Vec::new();
        let geometry = self.geometry;
        let walked = self.root(arena).and_then(|root| {
            self.walk(arena, root, &mut |offset, found| {
                node(offset);
                if found.slots() == 0 && offset != root {
                    out_of_order.push(format!("the index node at offset {offset} is empty"));
                }
                let sorted = (1..found.count).all(|index| found.key(index - 1) < found.key(index));
                if !found.is_padded() {
                    out_of_order.push(format!("the index node at offset {offset} holds old keys"));
                }
                if !sorted {
                    out_of_order.push(format!("the index node at offset {offset} is not sorted"));
                }
                if found.level > 0 {
                    return Ok(());
                }
                let slots = arena.slice::<u64>(geometry.slot_at(offset, 0), found.count)?;
                if found.count > 0 && !last.is_empty() && last.as_slice() >= found.key(0) {
                    out_of_order.push(format!("the leaf at offset {offset} is out of order"));
                }
                for (index, &slot) in slots.iter().enumerate() {
                    entry(found.key(index), slot);
                }
                if let Some(index) = found.count.checked_sub(1) {
                    last.clear();
                    last.extend_from_slice(found.key(index));
                }
                Ok(())
            })
        });
        damage.append(&mut out_of_order);
        if let Err(error) = walked {
            damage.push(error.to_string());
        }
    }

    #[inline]
    fn get(&self, arena: &Arena<M>, key: &[u64]) -> Result<Option<u64>> {
        arena.enter(Part::Index);
        let mut offset = self.root(arena)?;
        let mut node = self.node(arena, offset)?;
        while node.level > 0 {
            offset = self.child(arena, offset, node.child_of(key))?;
            node = self.node_below(arena, offset, node.level)?;
        }
        match node.find(key) {
            Ok(index) => self.slot(arena, offset, index).map(Some),
            Err(_) => Ok(None),
        }
    }

    fn get_many<K: std::ops::Deref<Target = [u64]>>(
        &self,
        arena: &Arena<M>,
        keys: &[K],
        values: &mut [Option<u64>],
    ) -> Result<()> {
        arena.enter(Part::Index);
        let root = self.root(arena)?;
        let levels = self.node(arena, root)?.level;
        for (keys, values) in keys.chunks(TOGETHER).zip(values.chunks_mut(TOGETHER)) {
            let mut offsets = [root; TOGETHER];
            for _ in 0..levels {
                for (key, offset) in keys.iter().zip(&mut offsets) {
                    let node = self.node(arena, *offset)?;
                    *offset = self.child(arena, *offset, node.child_of(key))?;
                }
            }
            for ((key, offset), value) in keys.iter().zip(offsets).zip(values) {
                *value = match self.node(arena, offset)?.find(key) {
                    Ok(index) => Some(self.slot(arena, offset, index)?),
                    Err(_) => None,
                };
            }
        }
        Ok(())
    }

    fn insert(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut VolatileUndo,
        key: &[u64],
        value: u64,
    ) -> Result<bool> {
        arena.enter(Part::Index);
        let mut path = Path::EMPTY;
        let leaf = self.descend(arena, key, &mut path)?;
        let node = self.node(arena, leaf)?;
        match node.find(key) {
            Ok(_) => return Ok(false),
            Err(index) if node.count < self.geometry.fanout => {
                self.insert_at(arena, writes, leaf, index, index, (key, value))?;
            }
            Err(_) => self.insert_entry(arena, writes, path, leaf, (key, value))?,
        }
        Ok(true)
    }

    fn remove(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut VolatileUndo,
        key: &[u64],
    ) -> Result<Option<u64>> {
        arena.enter(Part::Index);
        let mut path = Path::EMPTY;
        let leaf = self.descend(arena, key, &mut path)?;
        let node = self.node(arena, leaf)?;
        let Ok(index) = node.find(key) else {
            return Ok(None);
        };
        let count = node.count - 1;
        let value = self.slot(arena, leaf, index)?;
        self.remove_at(arena, writes, leaf, index, index)?;
        if count <= self.geometry.fanout / 4 {
            self.shrink(arena, writes, path, leaf)?;
        }
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
        let start = if direction == Direction::Forward {
            low
        } else {
            high
        };
        let mut path = Path::EMPTY;
        let mut leaf = Some(self.descend(arena, start, &mut path)?);
        while let Some(offset) = leaf {
            if self
                .scan_leaf(arena, offset, (low, high), direction, block_bytes, visit)?
                .is_break()
            {
                break;
            }
            leaf = self.neighbour(arena, direction, &mut path)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "bptree_tests.rs"]
mod tests;
