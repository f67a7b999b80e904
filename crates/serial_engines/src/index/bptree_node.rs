//! Nodes of the volatile B+tree: their geometry, how a key is found in one, and the way down to
//! one.
//!
//! Reading only; `bptree` changes nodes through the write set. The header of that file has the
//! layout of a node.
//!
//! A comparison of keys goes either way as often, so a branch on it is mispredicted every other
//! time. Keys of one and of two words are therefore searched without such branches, and over all
//! places of a node, used or not: the number of steps depends on the tree's geometry alone. That
//! is why a place without a key holds [`NO_KEY`] words, which no key exceeds.

use super::IndexShape;
use pmem::PmemError;
use std::cmp::Ordering;
use std::hint::select_unpredictable;
use storage::{Result, StorageError};

const MAGIC: u64 = 0x7662;
const LEVEL_MASK: u64 = 0xff;
pub(super) const WORD: usize = 8;
const LINE: usize = 64;
const FANOUT_MIN: usize = 4;
/// Each word of a place where a key could lie and none does.
pub(super) const NO_KEY: u64 = u64::from_le_bytes([NO_KEY_BYTE; WORD]);
/// Each byte of it.
pub(super) const NO_KEY_BYTE: u8 = u8::MAX;
/// Keys that are compared without halving their range once more: a line of words.
const COUNTED: usize = 8;
/// Deeper trees do not occur: two children a node and 2^48 bytes of arena, of which nobody fills
/// the half.
const LEVELS_MAX: usize = 40;
/// Inner levels of a large tree: with the usual nodes, more than memory can hold.
const FEW_LEVELS: usize = 8;

/// Sizes of one tree's nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Geometry {
    pub(super) node_bytes: usize,
    pub(super) key_words: usize,
    pub(super) fanout: usize,
    /// Words before a node's slots.
    pub(super) slots_word: usize,
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
            slots_word: 1 + fanout * shape.key_words,
        }
    }

    /// Bytes of a key.
    pub(super) fn key_bytes(self) -> usize {
        self.key_words * WORD
    }

    /// Offset of key number `index` of the node at `node`.
    pub(super) fn key_at(self, node: u64, index: usize) -> u64 {
        node + (WORD + index * self.key_bytes()) as u64
    }

    /// Offset of slot number `index` of the node at `node`.
    pub(super) fn slot_at(self, node: u64, index: usize) -> u64 {
        node + ((self.slots_word + index) * WORD) as u64
    }
}

/// A node as it is read: its slots apart, because most lookups need one of them.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) level: u64,
    pub(super) count: usize,
    key_words: usize,
    /// All keys, those that are not in use included.
    keys: &'a [u64],
}

impl<'a> Node<'a> {
    /// Looks at the words of the node at `offset` up to its slots.
    #[inline(always)]
    pub(super) fn of(words: &'a [u64], geometry: Geometry, offset: u64) -> Result<Self> {
        let Some((&meta, keys)) = words.split_first() else {
            return Err(corrupted(offset, "no node lies there"));
        };
        let (level, count) = (meta >> 32 & LEVEL_MASK, meta as u32 as usize);
        if meta >> 48 != MAGIC || count > geometry.fanout {
            return Err(corrupted(offset, "no node lies there"));
        }
        Ok(Self {
            level,
            count,
            key_words: geometry.key_words,
            keys,
        })
    }

    pub(super) fn key(&self, index: usize) -> &'a [u64] {
        &self.keys[index * self.key_words..(index + 1) * self.key_words]
    }

    /// The keys in use.
    pub(super) fn keys(&self) -> &'a [u64] {
        &self.keys[..self.count * self.key_words]
    }

    /// Whether the places of keys that are not in use hold what [`NO_KEY`] says.
    pub(super) fn is_padded(&self) -> bool {
        let rest = &self.keys[self.count * self.key_words..];
        rest.iter().all(|&word| word == NO_KEY)
    }

    /// Number of keys that are smaller than `key`.
    #[inline(always)]
    pub(super) fn lower_bound(&self, key: &[u64]) -> usize {
        // No key is greater than the padding, so that is never counted.
        match *key {
            [key] if self.key_words == 1 => partition_words(self.keys, |word| word < key),
            [high, low] if self.key_words == 2 => {
                let key = pair([high, low]);
                partition_pairs(self.keys.as_chunks().0, |words| pair(words) < key)
            }
            _ => partition_keys(self, |found| found.cmp(key) == Ordering::Less),
        }
    }

    /// Number of the child below which `key` lies.
    #[inline(always)]
    pub(super) fn child_of(&self, key: &[u64]) -> usize {
        let index = match *key {
            [key] if self.key_words == 1 => partition_words(self.keys, |word| word <= key),
            [high, low] if self.key_words == 2 => {
                let key = pair([high, low]);
                partition_pairs(self.keys.as_chunks().0, |words| pair(words) <= key)
            }
            _ => partition_keys(self, |found| found.cmp(key) != Ordering::Greater),
        };
        // The greatest of all keys equals the padding.
        index.min(self.count)
    }

    /// Position of `key`, or the position where it belongs.
    #[inline(always)]
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

/// Length of the prefix of `keys` for which `before` holds. It takes the same steps for any key and
/// any number of keys in use: a comparison's outcome cannot be predicted, so none is branched on.
#[inline(always)]
fn partition_words(keys: &[u64], before: impl Fn(u64) -> bool) -> usize {
    let (base, left) = narrow(keys.len(), |index| before(keys[index]));
    let end = base + left;
    // Counting a few more keys, of which `before` holds, makes the number of them a constant.
    if let Some(last) = keys[..end].last_chunk::<COUNTED>() {
        end - last
            .iter()
            .map(|&word| usize::from(!before(word)))
            .sum::<usize>()
    } else {
        keys.iter().map(|&word| usize::from(before(word))).sum()
    }
}

#[inline(always)]
fn partition_pairs(keys: &[[u64; 2]], before: impl Fn([u64; 2]) -> bool) -> usize {
    let (base, left) = narrow(keys.len(), |index| before(keys[index]));
    let counted = keys[base..base + left].iter();
    base + counted
        .map(|&words| usize::from(before(words)))
        .sum::<usize>()
}

/// Two words as one number, which has their order.
#[inline(always)]
fn pair([high, low]: [u64; 2]) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

/// Halves a sorted range of `left` keys until it is short enough to be counted. Start of the range,
/// and its length, which depends on `left` alone.
#[inline(always)]
fn narrow(mut left: usize, before: impl Fn(usize) -> bool) -> (usize, usize) {
    let mut base = 0;
    while left > COUNTED {
        let half = left / 2;
        base = select_unpredictable(before(base + half - 1), base + half, base);
        left -= half;
    }
    (base, left)
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
///
/// Every change of a tree makes one, so the steps of the few levels that nearly all trees have lie
/// in the path itself, and no more than those are filled in advance.
pub(super) struct Path {
    few: [(u64, usize); FEW_LEVELS],
    /// Steps below those in `few`, which is full then.
    more: Vec<(u64, usize)>,
    depth: usize,
}

impl Path {
    pub(super) const EMPTY: Self = Self {
        few: [(0, 0); FEW_LEVELS],
        more: Vec::new(),
        depth: 0,
    };

    #[inline]
    pub(super) fn push(&mut self, node: u64, child: usize) -> Result<()> {
        match self.few.get_mut(self.depth) {
            Some(step) => *step = (node, child),
            None if self.depth < LEVELS_MAX => self.more.push((node, child)),
            None => return Err(corrupted(node, "too deep")),
        }
        self.depth += 1;
        Ok(())
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<(u64, usize)> {
        self.depth = self.depth.checked_sub(1)?;
        match self.few.get(self.depth) {
            Some(step) => Some(*step),
            None => self.more.pop(),
        }
    }

    /// The steps, from the root on.
    pub(super) fn steps(&self) -> impl Iterator<Item = &(u64, usize)> {
        self.few.iter().take(self.depth).chain(&self.more)
    }
}

pub(super) fn meta(level: u64, count: usize) -> u64 {
    MAGIC << 48 | level << 32 | count as u64
}

pub(super) fn push_words(bytes: &mut Vec<u8>, words: &[u64]) {
    for word in words {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
}

#[cold]
pub(super) fn corrupted(offset: u64, detail: &str) -> StorageError {
    PmemError::corrupted("index node", offset, detail).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_gives_its_steps_back_at_any_depth_and_ends() {
        let mut path = Path::EMPTY;
        for round in 0..2 {
            for level in 0..LEVELS_MAX {
                path.push(level as u64, level + round).unwrap();
                assert_eq!(path.steps().count(), level + 1);
            }
            assert!(path.push(99, 0).is_err());
            let steps: Vec<_> = path.steps().copied().collect();
            assert_eq!(
                steps[LEVELS_MAX - 1],
                (LEVELS_MAX as u64 - 1, LEVELS_MAX - 1 + round)
            );
            for step in steps.into_iter().rev() {
                assert_eq!(path.pop(), Some(step));
            }
            assert_eq!(path.pop(), None);
        }
    }
}
