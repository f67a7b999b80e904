//! Nodes of the volatile B+tree: their geometry, how a key is found in one, and the way down to
//! one.
//!
//! Reading only; `bptree` changes nodes through the write set. The layout of a node stands in the
//! header of that file. Keys are compared as words: one comparison a key where a key is one word,
//! and no branch on its outcome.

use super::IndexShape;
use crate::error::{Result, StorageError};
use pmem::PmemError;
use std::cmp::Ordering;

pub(super) const MAGIC: u64 = 0x7662;
pub(super) const WORD: usize = 8;
const LINE: usize = 64;
const FANOUT_MIN: usize = 4;
/// Deeper trees do not occur: two children a node and 2^48 bytes of arena, of which nobody fills
/// the half.
const LEVELS_MAX: usize = 40;

/// Sizes of one tree's nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub(super) node_bytes: usize,
    pub(super) key_words: usize,
    pub(super) fanout: usize,
}

impl Geometry {
    pub(super) fn new(shape: IndexShape) -> Self {
        let entry_words = shape.key_words + 1;
        let bytes_min = WORD * (2 + FANOUT_MIN * entry_words);
        let node_bytes = shape.node_bytes.max(bytes_min).next_multiple_of(LINE);
        let fanout = (node_bytes / WORD - 2) / entry_words;
        Self {
            node_bytes,
            key_words: shape.key_words,
            fanout,
        }
    }

    /// Bytes of a key.
    pub(super) fn key_bytes(self) -> usize {
        self.key_words * WORD
    }

    /// Where the key number `index` of the node at `node` lies.
    pub(super) fn key_at(self, node: u64, index: usize) -> u64 {
        node + (WORD + index * self.key_bytes()) as u64
    }

    /// Where the slot number `index` of the node at `node` lies.
    pub(super) fn slot_at(self, node: u64, index: usize) -> u64 {
        self.key_at(node, self.fanout) + (index * WORD) as u64
    }
}

/// A node as it is read: its slots apart, because most lookups need one of them.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) level: u8,
    pub(super) count: usize,
    pub(super) key_words: usize,
    pub(super) keys: &'a [u64],
}

impl<'a> Node<'a> {
    pub(super) fn key(&self, index: usize) -> &'a [u64] {
        &self.keys[index * self.key_words..(index + 1) * self.key_words]
    }

    /// Number of keys that are smaller than `key`.
    #[inline]
    pub(super) fn lower_bound(&self, key: &[u64]) -> usize {
        match key {
            &[key] if self.key_words == 1 => partition_words(self.keys, |word| word < key),
            _ => partition_keys(self, |found| found.cmp(key) == Ordering::Less),
        }
    }

    /// Number of the child below which `key` lies.
    #[inline]
    pub(super) fn child_of(&self, key: &[u64]) -> usize {
        match key {
            &[key] if self.key_words == 1 => partition_words(self.keys, |word| word <= key),
            _ => partition_keys(self, |found| found.cmp(key) != Ordering::Greater),
        }
    }

    /// Where `key` is, or where it belongs.
    pub(super) fn find(&self, key: &[u64]) -> Result<usize, usize> {
        let index = self.lower_bound(key);
        if index < self.count && self.key(index) == key {
            Ok(index)
        } else {
            Err(index)
        }
    }

    /// Slots in use.
    pub(super) fn slots(&self) -> usize {
        self.count + usize::from(self.level > 0)
    }
}

/// Length of the prefix for which `before` holds. Without branches on keys: they are not
/// predictable.
#[inline]
fn partition_words(keys: &[u64], before: impl Fn(u64) -> bool) -> usize {
    let Some(mut left) = keys.len().checked_sub(1) else {
        return 0;
    };
    let mut base = 0;
    while left > 0 {
        let half = left.div_ceil(2);
        base += if before(keys[base + half - 1]) {
            half
        } else {
            0
        };
        left -= half;
    }
    base + usize::from(before(keys[base]))
}

fn partition_keys(node: &Node<'_>, before: impl Fn(&[u64]) -> bool) -> usize {
    let (mut low, mut high) = (0, node.count);
    while low < high {
        let middle = usize::midpoint(low, high);
        if before(node.key(middle)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// The way from the root to a node: the inner nodes, and which child was taken.
#[derive(Clone, Copy)]
pub(super) struct Path {
    pub(super) steps: [(u64, usize); LEVELS_MAX],
    pub(super) depth: usize,
}

impl Path {
    pub(super) const EMPTY: Self = Self {
        steps: [(0, 0); LEVELS_MAX],
        depth: 0,
    };

    pub(super) fn push(&mut self, node: u64, child: usize) -> Result<()> {
        let step = self
            .steps
            .get_mut(self.depth)
            .ok_or_else(|| corrupted(node, "too deep"))?;
        *step = (node, child);
        self.depth += 1;
        Ok(())
    }

    pub(super) fn pop(&mut self) -> Option<(u64, usize)> {
        self.depth = self.depth.checked_sub(1)?;
        Some(self.steps[self.depth])
    }
}

pub(super) fn meta(level: u8, count: usize) -> u64 {
    MAGIC << 48 | u64::from(level) << 32 | count as u64
}

pub(super) fn push_words(bytes: &mut Vec<u8>, words: &[u64]) {
    for word in words {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
}

pub(super) fn bytes(words: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(words.len() * WORD);
    push_words(&mut bytes, words);
    bytes
}

#[cold]
pub(super) fn corrupted(offset: u64, detail: &str) -> StorageError {
    PmemError::corrupted("index node", offset, detail).into()
}
