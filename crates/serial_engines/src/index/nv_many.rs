//! Insertion of many entries into the non-volatile B+tree, in the order of their keys, and the
//! nodes that take the place of one that overflows.
//!
//! Those entries that belong to one leaf are added together: into its free slots, by one change of
//! its header; after it, as full leaves of their own, if all of them come after its entries; or by
//! new leaves in its place. So ascending keys build whole leaves and change a parent once for all
//! of them.
//!
//! Invariants are those of `nv_bptree`. An addition to one leaf is one change of the tree, before
//! which an earlier change of its structure is made visible.

use super::{NvBptree, Step, now};
use crate::index::Allocations;
use crate::index::nv_node::{
    HEADER_WORDS, Node, append_words, bitmap_delta, entry_sum, fingerprint, inner_image, leaf_image,
};
use pmem::{Arena, Memory, Part};
use storage::Result;
use storage::log::WriteSet;
use storage::record::KeyBuf;

/// Outcome of an addition to one leaf.
pub(super) enum Inserted {
    /// So many of the entries are there now.
    All(usize),
    /// The key of this one was there.
    Taken(usize),
}

/// Distribution of entries or children over new nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fill {
    /// Nodes are full, since more comes after the last one.
    Ascending,
    /// All nodes get the same number.
    Even,
}

impl Fill {
    /// How many of `count` each of `nodes` nodes gets; one takes `most`, and at least two where
    /// there are as many.
    fn sizes(self, count: usize, nodes: usize, most: usize) -> Vec<usize> {
        let mut sizes = match self {
            Self::Ascending => vec![most; nodes],
            Self::Even => vec![count / nodes; nodes],
        };
        match (self, &mut sizes[..]) {
            (Self::Ascending, [.., before, last]) => {
                *last = count - (nodes - 1) * most;
                let missing = 2_usize.saturating_sub(*last);
                *before -= missing;
                *last += missing;
            }
            (Self::Ascending, _) => sizes = vec![count; nodes],
            (Self::Even, sizes) => {
                let rest = count % nodes;
                sizes[nodes - rest..].iter_mut().for_each(|size| *size += 1);
            }
        }
        sizes
    }
}

impl NvBptree {
    /// Adds those of the entries that belong to the leaf of the first one.
    pub(super) fn insert_next<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        entries: &[&[u64]],
    ) -> Result<Inserted> {
        writes.visible(arena, self.structure())?;
        writes.begin_step();
        arena.enter(Part::Index);
        let words = self.shape.key_words;
        let first = &entries[0][..words];
        let (leaf, end) = self.leaf_and_end(arena, first)?;
        let count = end.map_or(entries.len(), |end| {
            entries.partition_point(|entry| entry[..words] < *end)
        });
        let entries = &entries[..count.max(1)];
        let node = Node::open(arena, &self.shape, leaf)?;
        let (mut free, mut last) = (0, None);
        for index in 0..self.shape.bitmap_words {
            let mask = self.shape.slot_mask(index);
            let mut used = now(&node, writes, HEADER_WORDS + index)? & mask;
            let retired = writes.retired(node.at(HEADER_WORDS + index));
            free += (!(used | retired) & mask).count_ones() as usize;
            while used != 0 {
                let slot = index * 64 + used.trailing_zeros() as usize;
                last = last.max(Some(&node.entry(slot)?[..words]));
                used &= used - 1;
            }
        }
        let within = entries.partition_point(|entry| Some(&entry[..words]) <= last);
        let bitmap = |index| now(&node, writes, HEADER_WORDS + index);
        for (at, entry) in entries.iter().enumerate() {
            let key = &entry[..words];
            let is_twice = at > 0 && entries[at - 1][..words] == *key;
            if is_twice || at < within && node.find_among(key, bitmap)?.is_some() {
                return Ok(Inserted::Taken(at));
            }
        }
        if entries.len() <= free {
            self.add_all_to_leaf(arena, writes, leaf, entries)?;
        } else if within == 0 {
            let path = self.path(arena, first)?;
            let (here, rest) = entries.split_at(free);
            self.add_all_to_leaf(arena, writes, leaf, here)?;
            self.add_leaves(arena, writes, (&path, leaf), rest)?;
        } else {
            let path = self.path(arena, first)?;
            writes.visible(arena, self.root_word)?;
            self.split_leaf_for(arena, writes, (&path, leaf), entries)?;
        }
        Ok(Inserted::All(entries.len()))
    }

    /// Fills a tree without entries. Its leaves keep a tenth of their slots, and at least one, for
    /// later entries, which come in any order.
    pub(super) fn fill_empty<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        entries: &[&[u64]],
    ) -> Result<Option<usize>> {
        writes.visible(arena, self.structure())?;
        writes.begin_step();
        arena.enter(Part::Index);
        let words = self.shape.key_words;
        let is_twice = |at: &usize| entries[*at][..words] == entries[at - 1][..words];
        if let Some(at) = (1..entries.len()).find(is_twice) {
            return Ok(Some(at));
        }
        let old = arena.word(self.root_word)?;
        let root = Node::open(arena, &self.shape, old)?;
        debug_assert!(
            root.level == 0 && root.entry_count()? == 0,
            "an index that is filled has no entries"
        );
        let kept = (self.shape.leaf_slots / 10).max(1);
        let most = self.shape.leaf_slots - kept;
        if entries.len() <= most {
            self.add_all_to_leaf(arena, writes, old, entries)?;
            return Ok(None);
        }
        let sizes = Fill::Even.sizes(entries.len(), entries.len().div_ceil(most), most);
        let (leaves, firsts) = self.new_leaves(arena, writes, entries, &sizes)?;
        Self::free_node(arena, writes, old)?;
        self.replace_child(arena, writes, &[], &leaves, &firsts[words..])?;
        Ok(None)
    }

    /// The leaf that `key` belongs to, and the smallest key that belongs to a later one.
    fn leaf_and_end<M: Memory>(
        &self,
        arena: &Arena<M>,
        key: &[u64],
    ) -> Result<(u64, Option<KeyBuf>)> {
        let words = self.shape.key_words;
        let (mut node, mut end) = (self.root(arena)?, None);
        while node.level > 0 {
            let (child, count) = (node.child_index(key)?, node.key_count()?);
            if child < count {
                let keys = node.keys(count)?;
                end = Some(KeyBuf::from_words(&keys[child * words..][..words]));
            }
            node = node.child(node.child_offset(child)?)?;
        }
        Ok((node.offset, end))
    }

    /// Adds entries to free slots of a leaf, which has enough of them.
    fn add_all_to_leaf<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        leaf: u64,
        mut entries: &[&[u64]],
    ) -> Result<()> {
        for index in 0..self.shape.bitmap_words {
            if entries.is_empty() {
                break;
            }
            let node = Node::open(arena, &self.shape, leaf)?;
            let bitmap = now(&node, writes, HEADER_WORDS + index)?;
            let retired = writes.retired(node.at(HEADER_WORDS + index));
            let mut checksum = now(&node, writes, 1)?;
            let mut free = !(bitmap | retired) & self.shape.slot_mask(index);
            let mut new = bitmap;
            while free != 0 && !entries.is_empty() {
                let bit = free.trailing_zeros() as usize;
                let room = (free >> bit).trailing_ones() as usize;
                let (here, rest) = entries.split_at(room.min(entries.len()));
                let slot = index * 64 + bit;
                let sum = self.stage_entries(arena, writes, (leaf, slot), here)?;
                checksum = checksum.wrapping_add(sum);
                let bits = (u64::MAX >> (64 - here.len())) << bit;
                new |= bits;
                free &= !bits;
                entries = rest;
            }
            checksum = checksum.wrapping_add(bitmap_delta(index, bitmap, new));
            self.write_bitmap(arena, writes, leaf, index, new, checksum)?;
        }
        assert!(entries.is_empty(), "a leaf has slots for its new entries");
        Ok(())
    }

    /// Stores entries into free slots that lie side by side; their part of the leaf's checksum.
    fn stage_entries<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        (leaf, slot): (u64, usize),
        entries: &[&[u64]],
    ) -> Result<u64> {
        let mut bytes = Vec::with_capacity(entries.len() * 8 * self.shape.entry_words());
        let (mut marks, mut sum) = (Vec::with_capacity(entries.len()), 0_u64);
        for (at, entry) in entries.iter().enumerate() {
            let mark = fingerprint(&entry[..self.shape.key_words]);
            sum = sum.wrapping_add(entry_sum(&self.shape, slot + at, entry, mark));
            append_words(&mut bytes, entry);
            marks.push(mark);
        }
        let at = |word: usize| leaf + 8 * word as u64;
        writes.stage_final(arena, at(self.shape.entry_at(slot)), &bytes)?;
        // As in `add_to_leaf`.
        let marks_at = at(self.shape.fingerprints_at()) + slot as u64;
        arena.store(marks_at, &marks)?;
        writes.write(arena, marks_at, &marks)?;
        Ok(sum)
    }

    /// Adds full leaves after one whose entries all come before theirs.
    fn add_leaves<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        (path, leaf): (&[Step], u64),
        entries: &[&[u64]],
    ) -> Result<()> {
        let most = self.shape.leaf_slots;
        let sizes = Fill::Ascending.sizes(entries.len(), entries.len().div_ceil(most), most);
        let (mut leaves, separators) = self.new_leaves(arena, writes, entries, &sizes)?;
        leaves.insert(0, leaf);
        self.replace_child(arena, writes, path, &leaves, &separators)
    }

    /// Replaces a leaf by several that also hold `entries`, with room for as many again in three.
    fn split_leaf_for<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        (path, leaf): (&[Step], u64),
        entries: &[&[u64]],
    ) -> Result<()> {
        let words = self.shape.key_words;
        let node = Node::open(arena, &self.shape, leaf)?;
        let old: Vec<u64> = node.sorted()?.concat();
        let mut all: Vec<&[u64]> = old.chunks_exact(words + 1).collect();
        all.extend_from_slice(entries);
        all.sort_unstable_by(|one, other| one[..words].cmp(&other[..words]));
        let most = self.shape.leaf_slots;
        let leaves = all.len().div_ceil((most * 3 / 4).max(1));
        let sizes = Fill::Even.sizes(all.len(), leaves, most);
        let (leaves, separators) = self.new_leaves(arena, writes, &all, &sizes)?;
        Self::free_node(arena, writes, leaf)?;
        match &leaves[..] {
            [only] => self.swap_child(arena, writes, path, *only),
            leaves => self.replace_child(arena, writes, path, leaves, &separators[words..]),
        }
    }

    /// New leaves of so many entries each, and the first key of each leaf.
    fn new_leaves<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        mut entries: &[&[u64]],
        sizes: &[usize],
    ) -> Result<(Vec<u64>, Vec<u64>)> {
        let (mut leaves, mut firsts) = (Vec::with_capacity(sizes.len() + 1), Vec::new());
        let mut allocations = Allocations::default();
        for size in sizes {
            let (here, rest) = entries.split_at(*size);
            let leaf = writes.reserve(arena, self.shape.node_bytes, self.owner)?;
            writes.stage(arena, leaf, &leaf_image(&self.shape, here))?;
            allocations.activate(arena, writes, leaf)?;
            leaves.push(leaf);
            firsts.extend_from_slice(&here[0][..self.shape.key_words]);
            entries = rest;
        }
        allocations.end(arena, writes)?;
        Ok((leaves, firsts))
    }

    fn is_right_edge<M: Memory>(&self, arena: &Arena<M>, path: &[Step]) -> Result<bool> {
        for step in path {
            if step.child != Node::open(arena, &self.shape, step.node)?.key_count()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Puts two nodes or more, and the separators between them, in the place of the child that the
    /// path ends with.
    pub(super) fn replace_child<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        path: &[Step],
        nodes: &[u64],
        separators: &[u64],
    ) -> Result<()> {
        let Some((step, above)) = path.split_last() else {
            return self.add_root(arena, writes, nodes.to_vec(), separators.to_vec());
        };
        let words = self.shape.key_words;
        let node = Node::open(arena, &self.shape, step.node)?;
        let (level, count) = (node.level, node.key_count()?);
        let mut keys = node.keys(count)?.to_vec();
        let mut children = node.children(count)?.to_vec();
        children.splice(step.child..=step.child, nodes.iter().copied());
        let at = step.child * words;
        keys.splice(at..at, separators.iter().copied());
        if children.len() <= self.shape.inner_keys + 1 {
            return self.write_inner(arena, writes, step, (level, &keys, &children));
        }
        let fill = if self.is_right_edge(arena, path)? {
            Fill::Ascending
        } else {
            Fill::Even
        };
        let (nodes, up) = self.new_inner(arena, writes, (level, fill), (&keys, &children))?;
        Self::free_node(arena, writes, step.node)?;
        self.replace_child(arena, writes, above, &nodes, &up)
    }

    /// Makes a root over nodes on the level of the old one; with levels between, if there are many.
    fn add_root<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        mut nodes: Vec<u64>,
        mut separators: Vec<u64>,
    ) -> Result<()> {
        let old = arena.word(self.root_word)?;
        let mut level = Node::open(arena, &self.shape, old)?.level + 1;
        while nodes.len() > self.shape.inner_keys + 1 {
            let new = (level, Fill::Ascending);
            (nodes, separators) = self.new_inner(arena, writes, new, (&separators, &nodes))?;
            level += 1;
        }
        let image = inner_image(&self.shape, level, &separators, &nodes);
        let root = self.new_node(arena, writes, &image)?;
        self.write_root(arena, writes, root)
    }

    /// New inner nodes with these children, and the separators between them.
    fn new_inner<M: Memory, W: WriteSet<M>>(
        &self,
        arena: &mut Arena<M>,
        writes: &mut W,
        (level, fill): (u64, Fill),
        (keys, children): (&[u64], &[u64]),
    ) -> Result<(Vec<u64>, Vec<u64>)> {
        let (words, most) = (self.shape.key_words, self.shape.inner_keys + 1);
        let sizes = fill.sizes(children.len(), children.len().div_ceil(most), most);
        let (mut nodes, mut separators) = (Vec::with_capacity(sizes.len()), Vec::new());
        let mut start = 0;
        for size in sizes {
            let end = start + size;
            if start > 0 {
                separators.extend_from_slice(&keys[(start - 1) * words..start * words]);
            }
            let own_keys = &keys[start * words..(end - 1) * words];
            let image = inner_image(&self.shape, level, own_keys, &children[start..end]);
            nodes.push(self.new_node(arena, writes, &image)?);
            start = end;
        }
        Ok((nodes, separators))
    }
}
