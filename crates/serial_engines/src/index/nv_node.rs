//! Nodes of the persistent B+tree: their geometry, how they are read, and how their images are
//! made.
//!
//! A node is a block of whole cache lines, read as 8-byte words. Leaves keep their entries unsorted
//! after a slot bitmap, so that adding one touches the entry's line and the header line only;
//! fingerprints (one byte of a hash of each key) tell a lookup which entry to read. Inner nodes are
//! sorted; they change only when a child splits or empties.
//!
//! ```text
//! word 0          meta: magic u16 | level u8 (0 = leaf) | 0 u8 | node bytes / 64 u16
//!                 | key words u16
//! word 1          checksum: sum of weight(i) * word i over the words that count, plus a salt
//! leaf   word 2.. slot bitmap, 1 bit an entry; then fingerprints, 1 byte an entry;
//!                 then, at the end of the node, entries of key words and the value
//! inner  word 2   number of keys; then keys, sorted; then children, one more than keys.
//!                 keys[i] is the smallest key that may lie below children[i + 1]
//! ```
//!
//! In a leaf the words that count are meta, the bitmap, and the key, value and fingerprint of the
//! entries in use; in an inner node meta, the number of keys, and the keys and children in use.

use pmem::{Arena, Memory, PmemError};
use storage::Result;
use storage::record::checksum::weight;

const MAGIC: u64 = 0x4e42;
const LINE: usize = 64;
/// Words before a leaf's bitmap and an inner node's number of keys.
pub(super) const HEADER_WORDS: usize = 2;
const SALT: u64 = 0x6e76_6270_7472_6565;
/// Deeper trees do not occur: 4 children a node and 2^48 bytes of pool.
pub(super) const LEVELS_MAX: u64 = 24;
const FANOUT_MIN: usize = 4;

/// Sizes of one tree's nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeShape {
    /// Bytes of a node, a multiple of the line size.
    pub node_bytes: usize,
    /// Words of a key.
    pub key_words: usize,
    /// Entries of a leaf.
    pub leaf_slots: usize,
    /// Keys of an inner node.
    pub inner_keys: usize,
    pub(super) bitmap_words: usize,
    pub(super) entries_at: usize,
}

impl NodeShape {
    /// The shape of nodes of about `node_bytes` for keys of `key_words`. Nodes that would hold
    /// fewer than four entries are made larger.
    pub fn new(node_bytes: usize, key_words: usize) -> Self {
        let mut node_bytes = node_bytes.max(2 * LINE).next_multiple_of(LINE);
        loop {
            let shape = Self::fit(node_bytes, key_words);
            if shape.leaf_slots >= FANOUT_MIN && shape.inner_keys >= FANOUT_MIN {
                return shape;
            }
            node_bytes += LINE;
        }
    }

    fn fit(node_bytes: usize, key_words: usize) -> Self {
        let words = node_bytes / 8;
        let entry_words = key_words + 1;
        let fits = |slots: usize| {
            let header = HEADER_WORDS + slots.div_ceil(64) + slots.div_ceil(8);
            header + slots * entry_words <= words
        };
        let leaf_slots = (0..=words / entry_words)
            .rev()
            .find(|&slots| fits(slots))
            .unwrap_or(0);
        let inner_keys = (words - HEADER_WORDS - 2) / entry_words;
        Self {
            node_bytes,
            key_words,
            leaf_slots,
            inner_keys,
            bitmap_words: leaf_slots.div_ceil(64),
            entries_at: words - leaf_slots * entry_words,
        }
    }

    pub(super) fn words(&self) -> usize {
        self.node_bytes / 8
    }

    pub(super) fn entry_words(&self) -> usize {
        self.key_words + 1
    }

    /// Word at which the entry in `slot` starts.
    pub(super) fn entry_at(&self, slot: usize) -> usize {
        self.entries_at + slot * self.entry_words()
    }

    /// Word at which the fingerprints start.
    pub(super) fn fingerprints_at(&self) -> usize {
        HEADER_WORDS + self.bitmap_words
    }

    /// Word at which an inner node's keys start.
    pub(super) fn keys_at() -> usize {
        HEADER_WORDS + 1
    }

    /// Word at which an inner node's children start.
    pub(super) fn children_at(&self) -> usize {
        Self::keys_at() + self.inner_keys * self.key_words
    }

    pub(super) fn meta(&self, level: u64) -> u64 {
        MAGIC
            | level << 16
            | (self.node_bytes as u64 / LINE as u64) << 32
            | (self.key_words as u64) << 48
    }

    /// Bits of bitmap word `index` that belong to slots.
    pub(super) fn slot_mask(&self, index: usize) -> u64 {
        let slots = self.leaf_slots - index * 64;
        if slots >= 64 {
            u64::MAX
        } else {
            (1 << slots) - 1
        }
    }
}

/// A byte of a hash of the key.
#[inline]
pub(super) fn fingerprint(key: &[u64]) -> u8 {
    let mixed = key.iter().fold(0_u64, |sum, &word| {
        (sum ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    });
    (mixed >> 16) as u8
}

/// A node of known level, for reading.
pub(super) struct Node<'a, M: Memory> {
    pub(super) arena: &'a Arena<M>,
    pub(super) shape: &'a NodeShape,
    pub(super) offset: u64,
    /// A word though it needs a byte: nodes are handed on at each level, and copies of padding
    /// would wait for the stores before.
    pub(super) level: u64,
}

impl<'a, M: Memory> Node<'a, M> {
    /// Looks at the node at `offset`. Its kind and size must be those of this tree.
    #[inline(always)]
    pub(super) fn open(arena: &'a Arena<M>, shape: &'a NodeShape, offset: u64) -> Result<Self> {
        let meta = arena.word(offset)?;
        let level = meta >> 16 & 0xff;
        if meta != shape.meta(level) || level > LEVELS_MAX {
            return Err(damaged(offset, format!("its first word is {meta:#x}")));
        }
        Ok(Self {
            arena,
            shape,
            offset,
            level,
        })
    }

    /// Looks at a child, which must be one level lower: a damaged pointer cannot make a cycle.
    #[inline(always)]
    pub(super) fn child(&self, offset: u64) -> Result<Self> {
        let child = Self::open(self.arena, self.shape, offset)?;
        if child.level + 1 == self.level {
            Ok(child)
        } else {
            Err(damaged(
                offset,
                format!("level {} below level {}", child.level, self.level),
            ))
        }
    }

    #[inline(always)]
    pub(super) fn at(&self, word: usize) -> u64 {
        self.offset + word as u64 * 8
    }

    #[inline(always)]
    pub(super) fn word(&self, word: usize) -> Result<u64> {
        Ok(self.arena.word(self.at(word))?)
    }

    pub(super) fn checksum(&self) -> Result<u64> {
        self.word(1)
    }

    #[inline(always)]
    pub(super) fn bitmap(&self, index: usize) -> Result<u64> {
        self.word(HEADER_WORDS + index)
    }

    #[inline(always)]
    pub(super) fn entry(&self, slot: usize) -> Result<&'a [u64]> {
        Ok(self
            .arena
            .slice(self.at(self.shape.entry_at(slot)), self.shape.entry_words())?)
    }

    /// The slot that holds `key`. Reads the header, the fingerprints, and the entries whose
    /// fingerprint matches.
    #[inline(always)]
    pub(super) fn find(&self, key: &[u64]) -> Result<Option<(usize, u64)>> {
        self.find_among(key, |index| self.bitmap(index))
    }

    /// As [`Node::find`], among the slots of other bitmap words than those of the node.
    #[inline(always)]
    pub(super) fn find_among(
        &self,
        key: &[u64],
        bitmap: impl Fn(usize) -> Result<u64>,
    ) -> Result<Option<(usize, u64)>> {
        let pattern = u64::from(fingerprint(key)) * LOW_BITS;
        for index in 0..self.shape.bitmap_words {
            let mut used = bitmap(index)? & self.shape.slot_mask(index);
            let first = self.shape.fingerprints_at() + index * 8;
            let groups = self
                .arena
                .slice::<u64>(self.at(first), self.groups(index))?;
            for (group, fingerprints) in groups.iter().enumerate() {
                let mut hits = zero_bytes(fingerprints ^ pattern);
                while hits != 0 {
                    let bit = group * 8 + hits.trailing_zeros() as usize / 8;
                    hits &= hits - 1;
                    if used >> bit & 1 == 1 {
                        let slot = index * 64 + bit;
                        let entry = self.entry(slot)?;
                        if let Some((&value, words)) = entry.split_last()
                            && words == key
                        {
                            return Ok(Some((slot, value)));
                        }
                        used &= !(1 << bit);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Fingerprint words that belong to bitmap word `index`.
    fn groups(&self, index: usize) -> usize {
        (self.shape.leaf_slots - index * 64).min(64).div_ceil(8)
    }

    /// The number of entries in use.
    pub(super) fn entry_count(&self) -> Result<u64> {
        (0..self.shape.bitmap_words).try_fold(0, |sum, index| {
            let used = self.bitmap(index)? & self.shape.slot_mask(index);
            Ok(sum + u64::from(used.count_ones()))
        })
    }

    /// The entries in use, in the order of their slots.
    pub(super) fn entries(&self) -> Result<Vec<(usize, &'a [u64])>> {
        let mut entries = Vec::with_capacity(self.shape.leaf_slots);
        for index in 0..self.shape.bitmap_words {
            let mut used = self.bitmap(index)? & self.shape.slot_mask(index);
            while used != 0 {
                let slot = index * 64 + used.trailing_zeros() as usize;
                used &= used - 1;
                entries.push((slot, self.entry(slot)?));
            }
        }
        Ok(entries)
    }

    /// The entries in use, in the order of their keys.
    pub(super) fn sorted(&self) -> Result<Vec<&'a [u64]>> {
        let words = self.shape.key_words;
        let mut entries: Vec<_> = self
            .entries()?
            .into_iter()
            .map(|(_, entry)| entry)
            .collect();
        entries.sort_unstable_by(|a, b| a[..words].cmp(&b[..words]));
        Ok(entries)
    }

    /// The entries in use whose keys lie from `low` to `high`, in the order of their keys.
    pub(super) fn sorted_within(
        &self,
        low: &[u64],
        high: &[u64],
        entries: &mut Vec<&'a [u64]>,
    ) -> Result<()> {
        let words = self.shape.key_words;
        entries.clear();
        for index in 0..self.shape.bitmap_words {
            let mut used = self.bitmap(index)? & self.shape.slot_mask(index);
            while used != 0 {
                let entry = self.entry(index * 64 + used.trailing_zeros() as usize)?;
                used &= used - 1;
                if *low <= entry[..words] && entry[..words] <= *high {
                    entries.push(entry);
                }
            }
        }
        entries.sort_unstable_by(|a, b| a[..words].cmp(&b[..words]));
        Ok(())
    }

    /// Asks for all lines of a child together.
    pub(super) fn prefetch(&self, child: u64) {
        self.arena.prefetch(child, self.shape.node_bytes);
    }

    #[inline(always)]
    pub(super) fn key_count(&self) -> Result<usize> {
        let count = self.word(HEADER_WORDS)?;
        if count > self.shape.inner_keys as u64 {
            return Err(damaged(
                self.offset,
                format!("{count} keys in an inner node"),
            ));
        }
        Ok(count as usize)
    }

    #[inline(always)]
    pub(super) fn keys(&self, count: usize) -> Result<&'a [u64]> {
        Ok(self
            .arena
            .slice(self.at(NodeShape::keys_at()), count * self.shape.key_words)?)
    }

    pub(super) fn children(&self, count: usize) -> Result<&'a [u64]> {
        Ok(self
            .arena
            .slice(self.at(self.shape.children_at()), count + 1)?)
    }

    /// Index of the child to which `key` belongs: the number of separators that are not greater.
    #[inline(always)]
    pub(super) fn child_index(&self, key: &[u64]) -> Result<usize> {
        let count = self.key_count()?;
        let keys = self.keys(count)?;
        Ok(match key {
            // A straight count has no branch to mispredict and lets the lines of the keys arrive
            // together.
            [key] if count <= 64 => keys
                .iter()
                .map(|separator| usize::from(separator <= key))
                .sum(),
            [key] => keys.partition_point(|separator| separator <= key),
            _ => partition_point(keys, self.shape.key_words, key),
        })
    }

    #[inline(always)]
    pub(super) fn child_offset(&self, index: usize) -> Result<u64> {
        self.word(self.shape.children_at() + index)
    }

    /// The checksum that the node should have.
    pub(super) fn compute_checksum(&self) -> Result<u64> {
        let mut sum = SALT.wrapping_add(term(0, self.word(0)?));
        if self.level == 0 {
            for index in 0..self.shape.bitmap_words {
                sum = sum.wrapping_add(term(HEADER_WORDS + index, self.bitmap(index)?));
            }
            for (slot, entry) in self.entries()? {
                let byte = self
                    .arena
                    .bytes(self.at(self.shape.fingerprints_at()) + slot as u64, 1)?;
                sum = sum.wrapping_add(entry_sum(self.shape, slot, entry, byte[0]));
            }
        } else {
            let count = self.key_count()?;
            sum = sum.wrapping_add(inner_sum(
                self.shape,
                self.keys(count)?,
                self.children(count)?,
            ));
        }
        Ok(sum)
    }
}

const LOW_BITS: u64 = 0x0101_0101_0101_0101;

/// High bit of each byte that may be zero; exact for the lowest, and false hits above it do no
/// harm.
#[inline]
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(LOW_BITS) & !word & (LOW_BITS << 7)
}

fn partition_point(keys: &[u64], key_words: usize, key: &[u64]) -> usize {
    let (mut low, mut high) = (0, keys.len() / key_words);
    while low < high {
        let middle = usize::midpoint(low, high);
        if keys[middle * key_words..][..key_words] <= *key {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[inline]
fn term(position: usize, word: u64) -> u64 {
    weight(position).wrapping_mul(word)
}

/// Contribution of one entry to its leaf's checksum.
pub(super) fn entry_sum(shape: &NodeShape, slot: usize, entry: &[u64], fingerprint: u8) -> u64 {
    let at = shape.entry_at(slot);
    let words = entry.iter().enumerate();
    let sum = words.fold(0_u64, |sum, (index, &word)| {
        sum.wrapping_add(term(at + index, word))
    });
    // The fingerprint's weight is that of a position after the node, one for each slot.
    sum.wrapping_add(term(shape.words() + slot, u64::from(fingerprint)))
}

/// Change of a leaf's checksum by a change of its bitmap word `index`.
pub(super) fn bitmap_delta(index: usize, old: u64, new: u64) -> u64 {
    term(HEADER_WORDS + index, new).wrapping_sub(term(HEADER_WORDS + index, old))
}

/// Contribution of the keys and children of an inner node to its checksum, their number included.
pub(super) fn inner_sum(shape: &NodeShape, keys: &[u64], children: &[u64]) -> u64 {
    let count = (children.len() as u64).wrapping_sub(1);
    let mut sum = term(HEADER_WORDS, count);
    for (index, &word) in keys.iter().enumerate() {
        sum = sum.wrapping_add(term(NodeShape::keys_at() + index, word));
    }
    for (index, &word) in children.iter().enumerate() {
        sum = sum.wrapping_add(term(shape.children_at() + index, word));
    }
    sum
}

/// The checksum of an inner node with these keys and children.
pub(super) fn inner_checksum(shape: &NodeShape, level: u64, keys: &[u64], children: &[u64]) -> u64 {
    SALT.wrapping_add(term(0, shape.meta(level)))
        .wrapping_add(inner_sum(shape, keys, children))
}

/// The bytes of a leaf with these entries.
pub(super) fn leaf_image(shape: &NodeShape, entries: &[&[u64]]) -> Vec<u8> {
    let mut words = vec![0_u64; shape.words()];
    let mut sum = SALT.wrapping_add(term(0, shape.meta(0)));
    words[0] = shape.meta(0);
    for (slot, entry) in entries.iter().enumerate() {
        let mark = fingerprint(&entry[..shape.key_words]);
        words[shape.entry_at(slot)..][..entry.len()].copy_from_slice(entry);
        words[HEADER_WORDS + slot / 64] |= 1 << (slot % 64);
        words[shape.fingerprints_at() + slot / 8] |= u64::from(mark) << (slot % 8 * 8);
        sum = sum.wrapping_add(entry_sum(shape, slot, entry, mark));
    }
    for index in 0..shape.bitmap_words {
        sum = sum.wrapping_add(bitmap_delta(index, 0, words[HEADER_WORDS + index]));
    }
    words[1] = sum;
    bytes_of(&words)
}

/// The bytes of an inner node with these keys and children.
pub(super) fn inner_image(
    shape: &NodeShape,
    level: u64,
    keys: &[u64],
    children: &[u64],
) -> Vec<u8> {
    let mut words = vec![0_u64; shape.words()];
    words[0] = shape.meta(level);
    words[1] = inner_checksum(shape, level, keys, children);
    words[HEADER_WORDS] = children.len() as u64 - 1;
    words[NodeShape::keys_at()..][..keys.len()].copy_from_slice(keys);
    words[shape.children_at()..][..children.len()].copy_from_slice(children);
    bytes_of(&words)
}

pub(crate) fn bytes_of(words: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 * words.len() + 8);
    append_words(&mut bytes, words);
    bytes
}

pub(crate) fn append_words(bytes: &mut Vec<u8>, words: &[u64]) {
    for word in words {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
}

#[cold]
pub(super) fn damaged(offset: u64, detail: String) -> storage::StorageError {
    PmemError::corrupted("index node", offset, detail).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_512_byte_leaf_of_one_word_keys_has_28_entries_in_whole_lines() {
        let shape = NodeShape::new(512, 1);
        assert_eq!(
            (shape.leaf_slots, shape.inner_keys, shape.entries_at),
            (28, 30, 8)
        );
    }

    #[test]
    fn every_shape_fits_its_node() {
        for node_bytes in (64..=4096).step_by(64) {
            for key_words in 1..=33 {
                let shape = NodeShape::new(node_bytes, key_words);
                let header = shape.fingerprints_at() + shape.leaf_slots.div_ceil(8);
                assert!(header <= shape.entries_at, "{shape:?}");
                assert!(
                    shape.children_at() + shape.inner_keys < shape.words(),
                    "{shape:?}"
                );
            }
        }
    }
}
