//! Rows that have before images: found by hashes of their keys, and in the order of their keys once
//! somebody asks for that.
//!
//! While a snapshot lives, each commit brings rows here, and few scans look at them. So a new row
//! takes a place in a chunk and a link in a chain, and no node of a tree: its key is put in order
//! when scans come and many keys wait for that. Chunks do not move and chains are split one at a
//! time, so no commit pays for the growth of all.
//!
//! Invariants:
//! 1. A row keeps its number until it is removed. The number is another row's afterwards.
//! 2. A row is in the chain of its hash. Its table has it among the ordered keys, or among the
//!    others, where it knows its place.

use std::collections::BTreeMap;
use storage::record::{KeyBuf, TableId, key_hash};

/// No row.
const NONE: u32 = u32::MAX;
/// The place of a row whose key is in order.
const ORDERED: u32 = u32::MAX;
/// Rows of a chunk.
const CHUNK: usize = 256;
/// Chunks that are kept when there are no rows.
const CHUNKS_KEPT: usize = 4;
/// Chains at the beginning.
const CHAINS: usize = 16;
/// Most keys that each scan looks at instead of putting them in order.
const UNORDERED_MAX: usize = 64;

/// Rows of all tables, with a value each.
pub(super) struct ImageRows<T> {
    chunks: Vec<Vec<Entry<T>>>,
    /// First rows of the chains, two for each row. Their number grows by one, as in linear hashing.
    chains: Vec<u32>,
    /// First of the numbers that have no row, which are linked as chains are.
    free: u32,
    count: usize,
    tables: BTreeMap<TableId, TableRows>,
}

/// In this order, and on cache lines of its own: a look at one that is not in the cache waits for
/// two lines, which come together.
#[repr(C, align(64))]
struct Entry<T> {
    hash: u64,
    next: u32,
    /// Its place among the unordered keys of its table.
    place: u32,
    table: TableId,
    key: KeyBuf,
    value: T,
}

/// The rows of one table.
#[derive(Default)]
struct TableRows {
    ordered: BTreeMap<KeyBuf, u32>,
    unordered: Vec<u32>,
}

impl<T> Default for ImageRows<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            chains: vec![NONE; CHAINS],
            free: NONE,
            count: 0,
            tables: BTreeMap::new(),
        }
    }
}

impl<T: Default> ImageRows<T> {
    /// The number of a row.
    pub(super) fn find(&self, table: TableId, key: &KeyBuf) -> Option<u32> {
        self.find_hashed(hash_of(table, key), table, key)
    }

    /// The number of a row, which comes with a value of no meaning if it is new.
    pub(super) fn find_or_add(&mut self, table: TableId, key: &KeyBuf) -> u32 {
        let hash = hash_of(table, key);
        let found = self.find_hashed(hash, table, key);
        found.unwrap_or_else(|| self.add(hash, table, key))
    }

    /// The value of a row.
    pub(super) fn get(&self, number: u32) -> &T {
        &self.entry(number).value
    }

    /// The value of a row, to be changed.
    pub(super) fn get_mut(&mut self, number: u32) -> &mut T {
        &mut self.entry_mut(number).value
    }

    /// The table of a row.
    pub(super) fn table(&self, number: u32) -> TableId {
        self.entry(number).table
    }

    /// Takes a row out, with its value.
    pub(super) fn remove(&mut self, number: u32) -> T {
        self.unlink(number);
        let free = std::mem::replace(&mut self.free, number);
        let entry = self.entry_mut(number);
        entry.next = free;
        let value = std::mem::take(&mut entry.value);
        let (table, place) = (entry.table, entry.place);
        let key = std::mem::take(&mut entry.key);
        if let Some(rows) = self.tables.get_mut(&table) {
            let mut moved = None;
            if place == ORDERED {
                rows.ordered.remove(&key);
            } else {
                rows.unordered.swap_remove(place as usize);
                moved = rows.unordered.get(place as usize).copied();
            }
            if rows.ordered.is_empty() && rows.unordered.is_empty() {
                self.tables.remove(&table);
            }
            if let Some(moved) = moved {
                self.entry_mut(moved).place = place;
            }
        }
        self.count -= 1;
        if self.count == 0 && self.chunks.len() > CHUNKS_KEPT {
            *self = Self::default();
        }
        value
    }

    /// Whether a table has rows.
    pub(super) fn has_any(&self, table: TableId) -> bool {
        self.tables.contains_key(&table)
    }

    /// Makes [`ImageRows::range`] quick for a table.
    pub(super) fn order(&mut self, table: TableId) {
        let Some(rows) = self.tables.get_mut(&table) else {
            return;
        };
        if rows.unordered.len() <= UNORDERED_MAX {
            return;
        }
        for number in std::mem::take(&mut rows.unordered) {
            let (chunk, at) = place_of(number);
            let entry = &mut self.chunks[chunk][at];
            entry.place = ORDERED;
            rows.ordered.insert(entry.key.clone(), number);
        }
    }

    /// The rows of a table, or those with keys in a range, in any order.
    pub(super) fn range<'r>(
        &'r self,
        table: TableId,
        keys: Option<(&'r KeyBuf, &'r KeyBuf)>,
    ) -> impl Iterator<Item = (&'r KeyBuf, &'r T)> {
        let is_inside =
            move |key: &KeyBuf| keys.is_none_or(|(low, high)| low <= key && key <= high);
        let rows = self.tables.get(&table);
        let ordered = rows.and_then(|rows| match keys {
            Some((low, high)) if low <= high => Some(rows.ordered.range(low..=high)),
            Some(_) => None,
            None => Some(rows.ordered.range::<KeyBuf, _>(..)),
        });
        let ordered = ordered.into_iter().flatten().map(|(_, number)| number);
        let unordered = rows.into_iter().flat_map(|rows| &rows.unordered);
        let unordered = unordered.filter(move |number| is_inside(&self.entry(**number).key));
        ordered.chain(unordered).map(|number| {
            let entry = self.entry(*number);
            (&entry.key, &entry.value)
        })
    }

    fn find_hashed(&self, hash: u64, table: TableId, key: &KeyBuf) -> Option<u32> {
        let mut number = self.chains[self.chain_of(hash)];
        while number != NONE {
            let entry = self.entry(number);
            if entry.hash == hash && entry.table == table && entry.key == *key {
                return Some(number);
            }
            number = entry.next;
        }
        None
    }

    fn add(&mut self, hash: u64, table: TableId, key: &KeyBuf) -> u32 {
        self.count += 1;
        while self.chains.len() < 2 * self.count {
            self.split();
        }
        let number = if self.free == NONE {
            self.add_entry(table)
        } else {
            self.free
        };
        let rows = self.tables.entry(table).or_default();
        let place = rows.unordered.len() as u32;
        rows.unordered.push(number);
        let chain = self.chain_of(hash);
        let next = std::mem::replace(&mut self.chains[chain], number);
        let entry = self.entry_mut(number);
        let next_free = std::mem::replace(&mut entry.next, next);
        (entry.hash, entry.place, entry.table) = (hash, place, table);
        entry.key.assign(key);
        self.free = next_free;
        number
    }

    /// A number that had no row before, as if it were the only free one.
    fn add_entry(&mut self, table: TableId) -> u32 {
        if self.chunks.last().is_none_or(|last| last.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let at = self.chunks.len() - 1;
        let chunk = &mut self.chunks[at];
        chunk.push(Entry {
            hash: 0,
            next: NONE,
            place: 0,
            table,
            key: KeyBuf::new(),
            value: T::default(),
        });
        (at * CHUNK + chunk.len() - 1) as u32
    }

    /// Takes a row out of its chain.
    fn unlink(&mut self, number: u32) {
        let entry = self.entry(number);
        let (chain, next) = (self.chain_of(entry.hash), entry.next);
        let mut before = self.chains[chain];
        if before == number {
            self.chains[chain] = next;
            return;
        }
        while self.entry(before).next != number {
            before = self.entry(before).next;
        }
        self.entry_mut(before).next = next;
    }

    /// The chain of a hash: of twice as many as there are at least, or of half of these while the
    /// upper one is not there yet.
    fn chain_of(&self, hash: u64) -> usize {
        let all = self.chains.len().next_power_of_two();
        let chain = hash as usize & (all - 1);
        if chain < self.chains.len() {
            chain
        } else {
            chain & (all / 2 - 1)
        }
    }

    /// Adds a chain, which gets its rows from the one that has had them.
    fn split(&mut self) {
        let added = self.chains.len();
        self.chains.push(NONE);
        let lower = added & (self.chains.len().next_power_of_two() / 2 - 1);
        let mut number = std::mem::replace(&mut self.chains[lower], NONE);
        while number != NONE {
            let chain = self.chain_of(self.entry(number).hash);
            let first = std::mem::replace(&mut self.chains[chain], number);
            number = std::mem::replace(&mut self.entry_mut(number).next, first);
        }
    }

    fn entry(&self, number: u32) -> &Entry<T> {
        let (chunk, at) = place_of(number);
        &self.chunks[chunk][at]
    }

    fn entry_mut(&mut self, number: u32) -> &mut Entry<T> {
        let (chunk, at) = place_of(number);
        &mut self.chunks[chunk][at]
    }
}

fn place_of(number: u32) -> (usize, usize) {
    (number as usize / CHUNK, number as usize % CHUNK)
}

fn hash_of(table: TableId, key: &KeyBuf) -> u64 {
    key_hash(key) ^ u64::from(table.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
mod tests {
    use super::{ImageRows, KeyBuf, TableId};
    use std::collections::BTreeMap;

    /// A step adds or removes a row of a random key, or looks at a range; the map has grown and
    /// shrunk again and again in the end.
    #[test]
    fn rows_are_those_of_a_map() {
        let mut rows: ImageRows<u64> = ImageRows::default();
        let mut map: BTreeMap<(TableId, KeyBuf), (u32, u64)> = BTreeMap::new();
        let mut state = 5_u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(11);
            (state >> 33) % below
        };
        for step in 0..60_000_u64 {
            // It fills up for a while, then it empties.
            let is_filling = step % 20_000 < 8_000;
            let table = TableId(random(3) as u32);
            let key = KeyBuf::from_words(&[random(3000), 7][..=random(2) as usize]);
            match random(if is_filling { 100 } else { 101 }) {
                0 => {
                    let (low, high) = (KeyBuf::from_words(&[random(3000)]), key);
                    if random(2) == 0 {
                        rows.order(table);
                    }
                    let seen = rows.range(table, Some((&low, &high)));
                    let mut seen: Vec<_> = seen.map(|(key, value)| (key.clone(), *value)).collect();
                    seen.sort_unstable();
                    let expected = map
                        .iter()
                        .filter(|((of, key), _)| *of == table && low <= *key && *key <= high);
                    let expected = expected.map(|((_, key), (_, value))| (key.clone(), *value));
                    assert_eq!(seen, expected.collect::<Vec<_>>());
                    let count = map.keys().filter(|(of, _)| *of == table).count();
                    assert_eq!(rows.range(table, None).count(), count);
                    assert_eq!(rows.has_any(table), count > 0);
                }
                choice if (choice < 70) == is_filling => {
                    let number = rows.find_or_add(table, &key);
                    if let Some((known, value)) = map.get(&(table, key.clone())) {
                        assert_eq!((number, rows.get(number)), (*known, value));
                    }
                    *rows.get_mut(number) = step;
                    map.insert((table, key), (number, step));
                }
                _ => {
                    let known = map.remove(&(table, key.clone()));
                    let found = rows.find(table, &key);
                    assert_eq!(found, known.map(|(number, _)| number));
                    if let Some((number, value)) = known {
                        assert_eq!(rows.remove(number), value);
                    }
                }
            }
        }
        for (number, value) in std::mem::take(&mut map).into_values() {
            assert_eq!(rows.remove(number), value);
        }
        assert!(rows.chunks.is_empty(), "memory of many rows is given back");
    }
}
