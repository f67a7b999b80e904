//! Names of lockable things, and a hash table from names to values.
//!
//! The table is chains through a slab: an entry keeps its number as long as it lives, so the holder
//! of a lock finds it again without its name, and a freed entry keeps its buffers for the next one,
//! so that in the long run nothing is allocated. Keys are compared in full: two names with one hash
//! are two names.

use crate::record::{KeyBuf, TableId};
use crate::vocabulary::PageId;
use std::fmt;

const NONE: u32 = u32::MAX;

/// The scope of a key, or the thing itself if it has no key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Space {
    /// All of the partition.
    #[default]
    Partition,
    /// A whole table.
    Table(TableId),
    /// One tree of a table, by its root.
    Tree(PageId),
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partition => write!(f, "the partition"),
            Self::Table(table) => write!(f, "table number {}", table.0),
            Self::Tree(tree) => write!(f, "the index with root {tree}"),
        }
    }
}

/// The name of one lock, with its hash.
#[derive(Clone, Copy)]
pub(super) struct Name<'a> {
    pub(super) hash: u64,
    pub(super) space: Space,
    pub(super) key: &'a [u64],
}

impl<'a> Name<'a> {
    #[inline]
    pub(super) fn of(space: Space, key: &'a [u64]) -> Self {
        let mut hash = match space {
            Space::Partition => 0,
            Space::Table(table) => 1 << 32 | u64::from(table.0),
            Space::Tree(tree) => 2 << 32 | u64::from(tree.0),
        };
        hash = mix(hash, 0x9e37_79b9_7f4a_7c15);
        for word in key {
            hash = mix(hash ^ word, 0xd6e8_feb8_6659_fd93);
        }
        Self { hash, space, key }
    }

    #[inline]
    pub(super) fn whole(space: Space) -> Self {
        Self::of(space, &[])
    }
}

/// Both halves of a product: each bit of the result depends on all of the input.
#[inline]
fn mix(value: u64, factor: u64) -> u64 {
    let product = u128::from(value ^ 0x2545_f491_4f6c_dd1d) * u128::from(factor);
    (product >> 64) as u64 ^ product as u64
}

struct Entry<T> {
    hash: u64,
    next: u32,
    space: Space,
    key: KeyBuf,
    value: T,
}

/// Values by name.
pub(super) struct NameTable<T> {
    /// First entries of the chains; as many as a power of two.
    chains: Vec<u32>,
    entries: Vec<Entry<T>>,
    free: u32,
    count: usize,
}

impl<T: Default> NameTable<T> {
    pub(super) fn new() -> Self {
        Self {
            chains: vec![NONE; 16],
            entries: Vec::new(),
            free: NONE,
            count: 0,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The number of the entry with this name.
    #[inline]
    pub(super) fn find(&self, name: &Name<'_>) -> Option<u32> {
        let mut at = self.chains[name.hash as usize & (self.chains.len() - 1)];
        while at != NONE {
            let entry = &self.entries[at as usize];
            if entry.hash == name.hash && entry.space == name.space && *entry.key == *name.key {
                return Some(at);
            }
            at = entry.next;
        }
        None
    }

    /// A new entry with a name that is not there. Its value is the default one, or what the entry's
    /// former user left in it.
    #[inline]
    pub(super) fn insert(&mut self, name: &Name<'_>) -> u32 {
        if self.count >= self.chains.len() {
            self.grow();
        }
        self.count += 1;
        let chain = name.hash as usize & (self.chains.len() - 1);
        let next = self.chains[chain];
        let at = if self.free == NONE {
            self.entries.push(Entry {
                hash: name.hash,
                next,
                space: name.space,
                key: KeyBuf::from_words(name.key),
                value: T::default(),
            });
            self.entries.len() as u32 - 1
        } else {
            let at = self.free;
            let entry = &mut self.entries[at as usize];
            self.free = entry.next;
            entry.hash = name.hash;
            entry.next = next;
            entry.space = name.space;
            entry.key.assign(name.key);
            at
        };
        self.chains[chain] = at;
        at
    }

    /// Takes an entry out; its number may be given to another name.
    #[inline]
    pub(super) fn remove(&mut self, number: u32) {
        let entry = &mut self.entries[number as usize];
        let chain = entry.hash as usize & (self.chains.len() - 1);
        let next = entry.next;
        entry.next = self.free;
        self.free = number;
        self.count -= 1;
        if self.chains[chain] == number {
            self.chains[chain] = next;
            return;
        }
        let mut at = self.chains[chain];
        while self.entries[at as usize].next != number {
            at = self.entries[at as usize].next;
        }
        self.entries[at as usize].next = next;
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> &T {
        &self.entries[number as usize].value
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> &mut T {
        &mut self.entries[number as usize].value
    }

    #[inline]
    pub(super) fn name(&self, number: u32) -> Name<'_> {
        let entry = &self.entries[number as usize];
        Name {
            hash: entry.hash,
            space: entry.space,
            key: &entry.key,
        }
    }

    /// The numbers of all entries.
    pub(super) fn numbers(&self) -> Vec<u32> {
        let mut numbers = Vec::with_capacity(self.count);
        for first in &self.chains {
            let mut at = *first;
            while at != NONE {
                numbers.push(at);
                at = self.entries[at as usize].next;
            }
        }
        numbers
    }

    fn grow(&mut self) {
        let numbers = self.numbers();
        self.chains = vec![NONE; self.chains.len() * 2];
        for number in numbers {
            let entry = &mut self.entries[number as usize];
            let chain = entry.hash as usize & (self.chains.len() - 1);
            entry.next = self.chains[chain];
            self.chains[chain] = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Name, NameTable, Space};
    use crate::record::TableId;
    use crate::vocabulary::PageId;
    use std::collections::BTreeMap;

    #[test]
    fn holds_what_a_map_holds() {
        let mut table: NameTable<u64> = NameTable::new();
        let mut map = BTreeMap::new();
        let mut state = 7_u64;
        for step in 0..20_000_u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(11);
            let key: Vec<u64> = vec![state >> 55; 1 + (state >> 40) as usize % 9];
            let name = Name::of(Space::Tree(PageId((state >> 50) as u32 % 3)), &key);
            let model = ((state >> 50) as u32 % 3, key.clone());
            if let Some(number) = table.find(&name) {
                assert_eq!(map.remove(&model), Some(*table.get(number)));
                assert_eq!(table.name(number).key, key);
                table.remove(number);
            } else {
                assert!(!map.contains_key(&model));
                let number = table.insert(&name);
                *table.get_mut(number) = step;
                map.insert(model, step);
            }
            assert_eq!(table.count(), map.len());
        }
        assert_eq!(table.numbers().len(), map.len());
    }

    #[test]
    fn names_with_one_hash_are_two() {
        let mut table: NameTable<u64> = NameTable::new();
        let one = Name::of(Space::Tree(PageId(1)), &[1]);
        let other = Name {
            hash: one.hash,
            ..Name::of(Space::Tree(PageId(1)), &[2])
        };
        let third = Name {
            hash: one.hash,
            ..Name::whole(Space::Table(TableId(1)))
        };
        table.insert(&one);
        assert_eq!(table.find(&other), None);
        assert_eq!(table.find(&third), None);
        let number = table.insert(&other);
        assert_eq!(table.find(&other), Some(number));
    }
}
