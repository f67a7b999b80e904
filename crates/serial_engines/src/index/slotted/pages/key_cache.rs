//! The key cache: keys of a page side by side, in DRAM.
//!
//! ```text
//! page u64 | cells u8 | level u8 | lowest unit of a cell u8 | 5 bytes of 0 | key u64 []
//! | inner page: child u64 []
//! ```
//!
//! A search in a page itself waits for its header, and then twice or more for keys that lie all
//! over it. In a cache entry it waits for a few lines in a row, which are prefetched as soon as the
//! next page is known; the page's header and the room for a cell arrive meanwhile.
//!
//! A cache entry shows its page as the open transaction sees it. It follows the header in the
//! making cell by cell, and is dropped when that header is rolled back. A page without one is
//! searched itself: trees whose keys are longer than a word, pages of more cells than a cache entry
//! has, and those that found no place. Leaves have one place each, as long as there are no more of
//! them than places; inner pages, which every operation visits, any of a set.

use super::{LINE, SlottedPages, Source, View};
use crate::index::slotted::header::{self, damaged};
use pmem::{Buffer, Buffers, Memory};
use std::ops::Range;
use storage::Result;

/// Bytes before the keys.
const HEAD: usize = 16;
const CELLS_AT: usize = 8;
const LEVEL_AT: usize = 9;
const START_AT: usize = 10;
/// Most cells in the cache entry of a leaf: those of a page whose header is a line, and a few more.
const LEAF_CELLS: usize = 54;
/// Most cells in that of an inner page: more than a page of 4 KiB has room for.
const INNER_CELLS: usize = 126;
/// Binary logarithm of the places in a set of inner pages: the owners of one are a line.
const INNER_SET_BITS: u32 = 3;
/// Fewest places.
const PLACES_MIN: usize = 16;
/// When all places are taken, one page in this many takes the place of another one.
const TAKES_ONE_IN: u64 = 8;

/// The key cache of a partition's pages.
pub(super) struct KeyCache {
    leaves: CacheTable,
    inner: CacheTable,
    numbers: Numbers,
    /// Caches of pages that were begun.
    begun: u64,
}

/// Numbers pages by where they are in the pool, so that no two have the same number.
#[derive(Clone, Copy)]
struct Numbers {
    /// 2 to the power of 64 by the bytes of a page.
    factor: u64,
}

impl Numbers {
    #[inline]
    fn of(self, page: u64) -> u64 {
        ((u128::from(page) * u128::from(self.factor)) >> 64) as u64
    }
}

/// Caches of pages, of one kind.
struct CacheTable {
    memory: Option<Buffer>,
    count: usize,
    count_max: usize,
    bytes_each: usize,
    cells_max: usize,
    /// Words of a cell: its key, and in inner pages its child.
    words: usize,
    /// Binary logarithm of the places in a set: a page may have any of its set.
    set_bits: u32,
    /// The page of each place or 0, where sets have more than one: so that finding the right one
    /// does not touch the others.
    owners: Vec<u64>,
}

/// The cache entry of a page.
#[derive(Clone, Copy)]
pub(in crate::index::slotted) struct CachedKeys<'a> {
    bytes: &'a [u8],
    cells_max: usize,
}

/// Entry of the key cache for a cell.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    key: u64,
    /// Of an inner page.
    child: u64,
}

impl Entry {
    /// That of a cell of this level, if its key has one word.
    pub(super) fn of(cell: &[u8], level: u8) -> Option<Self> {
        let is_inner = level > 0;
        let has_all = cell.get(6) == Some(&1) && cell.len() >= 16 + 8 * usize::from(is_inner);
        has_all.then(|| Self {
            key: word(cell, 8),
            child: if is_inner { word(cell, 16) } else { 0 },
        })
    }
}

impl CachedKeys<'_> {
    #[inline]
    pub(super) fn count(&self) -> usize {
        usize::from(self.bytes[CELLS_AT])
    }

    #[inline]
    pub(super) fn level(&self) -> u8 {
        self.bytes[LEVEL_AT]
    }

    /// The lowest unit that a cell of the page ever had.
    #[inline]
    pub(super) fn start(&self) -> usize {
        usize::from(self.bytes[START_AT])
    }

    #[inline]
    fn keys(&self) -> &[[u8; 8]] {
        self.bytes[HEAD..HEAD + 8 * self.count()].as_chunks().0
    }

    /// Position of `key` among the cells from `low` on, or where it belongs.
    #[inline]
    pub(in crate::index::slotted) fn find(
        &self,
        key: u64,
        low: usize,
    ) -> std::result::Result<usize, usize> {
        let rest = self.keys().get(low..).unwrap_or(&[]);
        let below = rest.partition_point(|word| u64::from_le_bytes(*word) < key);
        match rest.get(below) {
            Some(word) if u64::from_le_bytes(*word) == key => Ok(low + below),
            _ => Err(low + below),
        }
    }

    /// The page that a cell of an inner page leads to.
    #[inline]
    pub(in crate::index::slotted) fn child(&self, index: usize) -> u64 {
        word(self.bytes, HEAD + 8 * (self.cells_max + index))
    }
}

impl CacheTable {
    fn new((cells_max, words): (usize, usize), set_bits: u32, bytes: usize) -> Self {
        let bytes_each = (HEAD + 8 * words * cells_max).next_multiple_of(LINE as usize);
        let most = bytes / bytes_each;
        Self {
            memory: None,
            count: 0,
            count_max: most.checked_ilog2().map_or(0, |bits| 1 << bits),
            bytes_each,
            cells_max,
            words,
            set_bits,
            owners: Vec::new(),
        }
    }

    /// The places that a page may have.
    #[inline]
    fn set(&self, number: u64) -> Range<usize> {
        let sets = (self.count >> self.set_bits).wrapping_sub(1);
        let first = (number as usize & sets) << self.set_bits;
        first..first + (1 << self.set_bits)
    }

    #[inline]
    fn bytes(&self, place: usize) -> Option<&[u8]> {
        let first = place * self.bytes_each;
        let memory = self.memory.as_ref()?.bytes();
        memory.get(first..first + self.bytes_each)
    }

    fn bytes_mut(&mut self, place: usize) -> Option<&mut [u8]> {
        let first = place * self.bytes_each;
        let memory = self.memory.as_mut()?.bytes_mut();
        memory.get_mut(first..first + self.bytes_each)
    }

    /// The place that a page has.
    #[inline]
    fn place_of(&self, page: u64, number: u64) -> Option<usize> {
        let set = self.set(number);
        let place = match self.owners.get(set.clone()) {
            Some(owners) => set.start + owners.iter().position(|&owner| owner == page)?,
            None => set.start,
        };
        let outline = self.bytes(place)?;
        (word(outline, 0) == page).then_some(place)
    }

    fn give(&mut self, place: usize, page: u64) {
        if let Some(owner) = self.owners.get_mut(place) {
            *owner = page;
        }
        if let Some(outline) = self.bytes_mut(place) {
            outline[..8].copy_from_slice(&page.to_le_bytes());
        }
    }

    /// A place for a page's cache entry: its own, a free one, or else the one of its set that it
    /// takes from another page.
    fn take(&mut self, page: u64, number: u64, taken: Option<usize>) -> Option<usize> {
        let set = self.set(number);
        let free = self
            .place_of(page, number)
            .or_else(|| self.place_of(0, number));
        let place = free.or_else(|| taken.map(|way| set.start + way % set.len()))?;
        self.give(place, page);
        Some(place)
    }

    fn forget(&mut self, page: u64, number: u64) {
        if let Some(place) = self.place_of(page, number) {
            self.give(place, 0);
        }
    }

    /// Makes places for `pages` pages.
    fn grow(&mut self, pages: usize, numbers: Numbers) {
        let count = pages.next_power_of_two().max(PLACES_MIN);
        let count = count.min(self.count_max);
        if count <= self.count {
            return;
        }
        let made = Buffers::new(count * self.bytes_each, 1).ok();
        let Some(memory) = made.and_then(|(_, mut buffers)| buffers.pop()) else {
            // There are no addresses left. It does with what it has.
            return;
        };
        let old = self.memory.replace(memory);
        self.count = count;
        if self.set_bits > 0 {
            self.owners = vec![0; count];
        }
        let bytes_each = self.bytes_each;
        for outline in old
            .iter()
            .flat_map(|old| old.bytes().chunks_exact(bytes_each))
        {
            let page = word(outline, 0);
            if page != 0
                && let Some(place) = self.take(page, numbers.of(page), None)
                && let Some(bytes) = self.bytes_mut(place)
            {
                bytes.copy_from_slice(outline);
            }
        }
    }
}

/// The word at `at`.
#[inline]
fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes.get(at..at + 8).and_then(|word| word.try_into().ok());
    word.map_or(0, u64::from_le_bytes)
}

impl KeyCache {
    /// For pages of `page_bytes`, in at most `bytes` of memory: seven eighths for leaves.
    pub(super) fn new(page_bytes: usize, bytes: usize) -> Self {
        let inner = bytes / 8;
        Self {
            leaves: CacheTable::new((LEAF_CELLS, 1), 0, bytes - inner),
            inner: CacheTable::new((INNER_CELLS, 2), INNER_SET_BITS, inner),
            numbers: Numbers {
                factor: u64::MAX / page_bytes as u64,
            },
            begun: 0,
        }
    }

    #[inline]
    fn places(&self, level: u8) -> &CacheTable {
        if level == 0 {
            &self.leaves
        } else {
            &self.inner
        }
    }

    fn places_mut(&mut self, level: u8) -> &mut CacheTable {
        if level == 0 {
            &mut self.leaves
        } else {
            &mut self.inner
        }
    }

    /// The place of the cache entry of a page of this level.
    #[inline]
    pub(super) fn place_of(&self, page: u64, level: u8) -> Option<usize> {
        let number = self.numbers.of(page);
        self.places(level).place_of(page, number)
    }

    /// The cache entry in a place.
    #[inline]
    pub(super) fn at(&self, place: usize, level: u8) -> Option<CachedKeys<'_>> {
        let places = self.places(level);
        let (bytes, cells_max) = (places.bytes(place)?, places.cells_max);
        Some(CachedKeys { bytes, cells_max })
    }

    /// Asks for the cache entry of a page of this level. Those of inner pages are in some cache
    /// anyway.
    #[inline]
    pub(super) fn prefetch(&self, page: u64, level: u8) {
        if level == 0
            && let Some(memory) = &self.leaves.memory
        {
            let place = self.leaves.set(self.numbers.of(page)).start;
            memory.prefetch(place * self.leaves.bytes_each, self.leaves.bytes_each);
        }
    }

    /// Begins the cache entry of a page that has no cells, or whose cells are going to be added;
    /// false if it gets none. Its offset is below `pool_bytes`.
    pub(super) fn begin(&mut self, page: u64, level: u8, pool_bytes: u64) -> bool {
        let numbers = self.numbers;
        let pages = numbers.of(pool_bytes) as usize + 1;
        self.begun += 1;
        let turn = self.begun.is_multiple_of(TAKES_ONE_IN);
        let taken = turn.then_some((self.begun / TAKES_ONE_IN) as usize);
        let places = self.places_mut(level);
        places.grow(if level == 0 { pages } else { pages / 8 }, numbers);
        let place = places.take(page, numbers.of(page), taken);
        let Some(outline) = place.and_then(|place| places.bytes_mut(place)) else {
            return false;
        };
        outline[8..HEAD].fill(0);
        outline[LEVEL_AT] = level;
        true
    }

    /// The header of a page, whose lowest unit is `start` now, names a cell more: in the place of
    /// the one at `index`, or before it.
    pub(super) fn add(
        &mut self,
        (page, level): (u64, u8),
        (index, replaces): (usize, bool),
        entry: Option<Entry>,
        start: usize,
    ) {
        let number = self.numbers.of(page);
        let places = self.places_mut(level);
        let (cells_max, words) = (places.cells_max, places.words);
        let place = places.place_of(page, number);
        let Some(outline) = place.and_then(|place| places.bytes_mut(place)) else {
            return;
        };
        let count = usize::from(outline[CELLS_AT]);
        let Some(entry) = entry.filter(|_| replaces || count < cells_max) else {
            places.forget(page, number);
            return;
        };
        outline[CELLS_AT] += u8::from(!replaces);
        outline[START_AT] = start as u8;
        let rows = outline[HEAD..].chunks_exact_mut(8 * cells_max).take(words);
        for (row, word) in rows.zip([entry.key, entry.child]) {
            if !replaces {
                row.copy_within(8 * index..8 * count, 8 * (index + 1));
            }
            row[8 * index..8 * (index + 1)].copy_from_slice(&word.to_le_bytes());
        }
    }

    /// The header of a page that had no cells names some, the lowest of which begins at `start`.
    pub(super) fn fill(
        &mut self,
        (page, level): (u64, u8),
        entries: impl Iterator<Item = Option<Entry>>,
        start: usize,
    ) {
        let number = self.numbers.of(page);
        let places = self.places_mut(level);
        let (cells_max, words) = (places.cells_max, places.words);
        let place = places.place_of(page, number);
        let Some(outline) = place.and_then(|place| places.bytes_mut(place)) else {
            return;
        };
        outline[START_AT] = start as u8;
        for (index, entry) in entries.enumerate() {
            let Some(entry) = entry.filter(|_| index < cells_max) else {
                places.forget(page, number);
                return;
            };
            outline[CELLS_AT] = index as u8 + 1;
            let rows = outline[HEAD..].chunks_exact_mut(8 * cells_max).take(words);
            for (row, word) in rows.zip([entry.key, entry.child]) {
                row[8 * index..8 * (index + 1)].copy_from_slice(&word.to_le_bytes());
            }
        }
    }

    /// The header of a page keeps the cells of two ranges only.
    pub(super) fn keep(
        &mut self,
        (page, level): (u64, u8),
        first: Range<usize>,
        last: Range<usize>,
    ) {
        let number = self.numbers.of(page);
        let places = self.places_mut(level);
        let (cells_max, words) = (places.cells_max, places.words);
        let place = places.place_of(page, number);
        let Some(outline) = place.and_then(|place| places.bytes_mut(place)) else {
            return;
        };
        outline[CELLS_AT] = (first.len() + last.len()) as u8;
        for row in outline[HEAD..].chunks_exact_mut(8 * cells_max).take(words) {
            row.copy_within(8 * first.start..8 * first.end, 0);
            row.copy_within(8 * last.start..8 * last.end, 8 * first.len());
        }
    }

    /// Drops the cache entry of a page, which no longer matches it.
    pub(super) fn forget(&mut self, page: u64) {
        let number = self.numbers.of(page);
        self.leaves.forget(page, number);
        self.inner.forget(page, number);
    }
}

impl<M: Memory> SlottedPages<M> {
    /// Lets pages have a key cache in `bytes` bytes of DRAM.
    pub fn outline(&mut self, bytes: usize) {
        self.key_cache = KeyCache::new(self.geometry.page_bytes, bytes);
    }

    /// The cache entry of a page, if it has one.
    #[inline]
    pub(in crate::index::slotted) fn outline_of(&self, view: &View) -> Option<CachedKeys<'_>> {
        let outline = self.key_cache.at(view.outline?, view.level)?;
        // Another page may have taken the place since.
        (word(outline.bytes, 0) == view.page).then_some(outline)
    }

    /// Makes a cache entry of a page that has none, if its tree's pages have some and it has no
    /// more cells than one: without it each search would wait for all keys of the page anew.
    #[inline]
    pub(in crate::index::slotted) fn ensure_outline(
        &mut self,
        key_words: usize,
        view: &mut View,
    ) -> Result<()> {
        if view.outline.is_none()
            && key_words == 1
            && self.key_cache.leaves.count_max > 0
            && view.count <= self.key_cache.places(view.level).cells_max
        {
            view.outline = self.read_outline(view)?;
        }
        Ok(())
    }

    /// Makes a cache entry of what a page has, and gives its place if it gets one.
    #[cold]
    fn read_outline(&mut self, view: &View) -> Result<Option<usize>> {
        let Source::Place(place) = view.source else {
            return Ok(None);
        };
        let pool_bytes = self.arena.pool_bytes();
        if !self.key_cache.begin(view.page, view.level, pool_bytes) {
            return Ok(None);
        }
        let read = self.read_entries(view, header::start(&self.arena, view.base, place));
        if read.is_err() {
            self.key_cache.forget(view.page);
        }
        read?;
        Ok(self.key_cache.place_of(view.page, view.level))
    }

    fn read_entries(&mut self, view: &View, start: usize) -> Result<()> {
        for index in 0..view.count {
            self.arena.prefetch(self.cell_at(view, index)?, 8);
        }
        for index in 0..view.count {
            let cell = self.cell(view, index)?;
            let cell = self.arena.bytes(cell.at, cell.bytes())?;
            let entry = Entry::of(cell, view.level);
            let page = (view.page, view.level);
            self.key_cache.add(page, (index, false), entry, start);
        }
        Ok(())
    }

    /// Checks the cache entry of a page, if it has one, against the page's keys and children.
    pub(in crate::index::slotted) fn check_outline(
        &self,
        view: &View,
        keys: &[Vec<u64>],
    ) -> Result<()> {
        let Some(outline) = self.outline_of(view) else {
            return Ok(());
        };
        let found = outline.keys().iter().map(|key| u64::from_le_bytes(*key));
        let are_keys = found.eq(keys.iter().flatten().copied());
        let children = 0..if view.level > 0 { view.count } else { 0 };
        let pages = self.keys(view)?;
        let mut children =
            children.map(|index| (outline.child(index), pages.first_value_word(index)));
        let are_children = children.all(|(found, child)| Some(found) == child);
        if are_keys && are_children {
            return Ok(());
        }
        Err(damaged(view.page, "its outline in DRAM differs from it"))
    }
}

#[cfg(test)]
mod tests {
    use super::{CachedKeys, Entry, INNER_CELLS, KeyCache, LEAF_CELLS};
    use pmem::device::simulated::mix;
    use std::collections::BTreeMap;

    const PAGE_BYTES: usize = 4032;

    fn of(key_cache: &KeyCache, page: u64, level: u8) -> Option<CachedKeys<'_>> {
        key_cache.at(key_cache.place_of(page, level)?, level)
    }

    /// Random changes of pages, which the key cache follows: every cache entry matches its page.
    #[test]
    fn an_outline_follows_its_page_or_is_none() {
        let mut random = 11;
        let mut below = |end: usize| {
            random = mix(random + 1);
            (random % end as u64) as usize
        };
        let mut key_cache = KeyCache::new(PAGE_BYTES, 256 << 10);
        let mut pages: BTreeMap<(u64, u8), Vec<(u64, u64)>> = BTreeMap::new();
        let (mut seen, mut without) = (0, 0);
        for step in 0..60_000 {
            let level = below(3) as u8 / 2;
            // There are more pages than places in the end.
            let number = 1 + 2 * below(40 + step / 50) as u64 + u64::from(level);
            let page = number * PAGE_BYTES as u64;
            let id = (page, level);
            let cells = pages.entry(id).or_default();
            let word = below(1000) as u64;
            let at = below(cells.len() + 1);
            match below(20) {
                0 => {
                    cells.clear();
                    key_cache.begin(page, level, 2 * page);
                }
                1 => key_cache.forget(page),
                2 => {
                    let (first, last) = (0..at / 2, at..cells.len());
                    key_cache.keep(id, first.clone(), last.clone());
                    *cells = [&cells[first], &cells[last]].concat();
                }
                3 if cells.len() > at => {
                    cells.remove(at);
                    key_cache.keep(id, 0..at, at + 1..cells.len() + 1);
                }
                4 if cells.len() > at => {
                    cells[at] = (word, !word);
                    key_cache.add(id, (at, true), Some(entry(cells[at], level)), step % 200);
                }
                5 if cells.len() > at => {
                    cells[at] = (word, !word);
                    key_cache.add(id, (at, true), None, 0);
                    assert!(of(&key_cache, page, level).is_none());
                }
                _ => {
                    cells.insert(at, (word, !word));
                    key_cache.add(id, (at, false), Some(entry(cells[at], level)), step % 200);
                }
            }
            let Some(outline) = of(&key_cache, page, level) else {
                without += 1;
                continue;
            };
            seen += 1;
            assert_eq!((outline.level(), outline.count()), (level, cells.len()));
            let keys: Vec<_> = outline
                .keys()
                .iter()
                .map(|key| u64::from_le_bytes(*key))
                .collect();
            assert!(keys.iter().eq(cells.iter().map(|(key, _)| key)));
            if level > 0 {
                assert!((0..cells.len()).all(|index| outline.child(index) == cells[index].1));
            }
        }
        assert!(seen > 10_000 && without > 10_000, "{seen} {without}");
    }

    fn entry((key, child): (u64, u64), level: u8) -> Entry {
        let child = if level > 0 { child } else { 0 };
        Entry { key, child }
    }

    #[test]
    fn a_search_finds_what_a_search_one_by_one_does() {
        for (level, most) in [(0, LEAF_CELLS), (1, INNER_CELLS)] {
            let mut key_cache = KeyCache::new(PAGE_BYTES, 1 << 20);
            let page = PAGE_BYTES as u64;
            assert!(key_cache.begin(page, level, 2 * page));
            for count in 0..most {
                let key = 2 * count as u64 + 1;
                key_cache.add(
                    (page, level),
                    (count, false),
                    Some(entry((key, key), level)),
                    7,
                );
                let outline = of(&key_cache, page, level).unwrap();
                assert_eq!(outline.start(), 7);
                for (wanted, low) in (0..key + 3).flat_map(|key| [(key, 0), (key, 1)]) {
                    let place = (low..=count).find(|index| 2 * *index as u64 + 1 >= wanted);
                    let expected = match place {
                        Some(place) if wanted % 2 == 1 && 2 * place as u64 + 1 == wanted => {
                            Ok(place)
                        }
                        place => Err(place.unwrap_or((count + 1).max(low))),
                    };
                    assert_eq!(outline.find(wanted, low), expected);
                }
            }
            let more = Some(entry((u64::MAX, 0), level));
            key_cache.add((page, level), (most, false), more, 7);
            assert!(
                of(&key_cache, page, level).is_none(),
                "it has more cells than an outline"
            );
        }
    }

    #[test]
    fn without_memory_there_are_none() {
        let mut key_cache = KeyCache::new(PAGE_BYTES, 0);
        assert!(!key_cache.begin(PAGE_BYTES as u64, 0, 1 << 20));
        key_cache.forget(PAGE_BYTES as u64);
        assert!(of(&key_cache, PAGE_BYTES as u64, 0).is_none());
        key_cache.prefetch(PAGE_BYTES as u64, 0);
    }
}
