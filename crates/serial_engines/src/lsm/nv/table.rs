//! One table of `nvm-log`: its runs, its secondary indexes, and their part in the upkeep of rows.
//!
//! An update writes the changed columns only, unless they are a large part of the row: then the
//! whole row is written, so that reads and merges need one entry. An entry that the MemTable has
//! for the key already is replaced by one that has both changes, so the MemTable has one entry a
//! key. A few changed fields are written over those of such an entry.

use super::levels::{Levels, whole_range};
use super::merge::MergeBuffers;
use crate::index::{Allocations, NvBptree, OrderedIndex, bytes_of, sort_entries};
use crate::lsm::entry::{EntryKind, merge_deltas, write_delta};
use crate::lsm::filter::{Filter, Filters};
use crate::lsm::gaps::Dead;
use crate::lsm::image;
use crate::lsm::pointer as entry;
use crate::lsm::rows::{self, Scratch};
use pmem::{Arena, Memory, Owner, Part};
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use storage::Result;
use storage::engine::{Direction, ScanRange, VerifyReport};
use storage::log::{NvWriteSet, WriteSet};
use storage::record::{Changes, KeyBuf, Row};
use storage::table::Table;

/// One table that is open.
pub(super) struct TableState {
    pub(super) table: Arc<Table>,
    pub(super) descriptor: u64,
    pub(super) levels: Levels,
    pub(super) secondary: Vec<NvBptree>,
    pub(super) owners: Owners,
    pub(super) row: Row,
    pub(super) buffers: MergeBuffers,
    /// Entries that the open transaction has written.
    pub(super) written: u64,
    scratch: Scratch,
    /// Words of a tuple that an update changes.
    spans: Vec<Range<usize>>,
}

/// Form of the values in secondary indexes: words of primary keys.
#[derive(Clone, Copy)]
pub(super) struct Owners {
    words: usize,
    owner: Owner,
}

impl Owners {
    /// Keeps the primary key for an index entry, whose value is returned.
    fn write<M: Memory>(
        self,
        (arena, log): (&mut Arena<M>, &mut NvWriteSet),
        primary: &[u64],
        allocations: &mut Allocations,
    ) -> Result<u64> {
        if let &[word] = primary {
            return Ok(word);
        }
        let block = log.reserve(arena, primary.len() * 8, self.owner)?;
        log.stage(arena, block, &bytes_of(primary))?;
        allocations.activate(arena, log, block)?;
        Ok(block)
    }

    /// Puts the primary key of an index entry into `key`.
    pub(super) fn read<M: Memory>(
        self,
        arena: &Arena<M>,
        value: u64,
        key: &mut KeyBuf,
    ) -> Result<()> {
        if self.words == 1 {
            key.assign(&[value]);
        } else {
            key.assign(arena.slice(value, self.words)?);
        }
        Ok(())
    }

    fn free<M: Memory>(self, arena: &mut Arena<M>, log: &mut NvWriteSet, value: u64) -> Result<()> {
        if self.words == 1 {
            return Ok(());
        }
        let change = arena.free(value)?;
        log.change(arena, change)
    }

    /// Frees the keys of all entries of an index.
    pub(super) fn free_all<M: Memory>(
        self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        index: &NvBptree,
    ) -> Result<()> {
        if self.words == 1 {
            return Ok(());
        }
        let mut values = Vec::new();
        let mut damage = Vec::new();
        OrderedIndex::<M, NvWriteSet>::check(
            index,
            arena,
            &mut |_| {},
            &mut |_, value| values.push(value),
            &mut damage,
        );
        values
            .into_iter()
            .try_for_each(|value| self.free(arena, log, value))
    }
}

/// A table's trees in an open transaction.
pub(super) struct Trees<'t, M: Memory> {
    arena: &'t mut Arena<M>,
    log: &'t mut NvWriteSet,
    filters: &'t mut Filters<M>,
    table: &'t Arc<Table>,
    levels: &'t mut Levels,
    secondary: &'t mut Vec<NvBptree>,
    owners: Owners,
    row: &'t mut Row,
    image: &'t mut Vec<u8>,
    spans: &'t mut Vec<Range<usize>>,
    /// Whether deletions take a row out of all runs instead of leaving a tombstone.
    pub(super) purges: bool,
}

impl TableState {
    pub(super) fn new(
        table: Table,
        descriptor: u64,
        levels: Levels,
        secondary: Vec<NvBptree>,
    ) -> Self {
        let owners = Owners {
            words: table.primary.shape().words,
            owner: Owner {
                part: Part::Index,
                tag: levels.owner.tag,
            },
        };
        let row = || Row::new(Arc::clone(&table.layout));
        Self {
            row: row(),
            buffers: MergeBuffers::new(row()),
            scratch: Scratch::new(&table),
            spans: Vec::new(),
            table: Arc::new(table),
            descriptor,
            levels,
            secondary,
            owners,
            written: 0,
        }
    }

    pub(super) fn trees<'t, M: Memory>(
        &'t mut self,
        arena: &'t mut Arena<M>,
        log: &'t mut NvWriteSet,
        filters: &'t mut Filters<M>,
    ) -> (Trees<'t, M>, &'t mut Scratch) {
        let trees = Trees {
            arena,
            log,
            filters,
            table: &self.table,
            levels: &mut self.levels,
            secondary: &mut self.secondary,
            owners: self.owners,
            row: &mut self.buffers.row,
            image: &mut self.buffers.image,
            spans: &mut self.spans,
            purges: false,
        };
        (trees, &mut self.scratch)
    }

    /// Visits the rows of a range of primary keys. Everything is visible. `is_settled` says that no
    /// row was deleted that may come back.
    pub(super) fn scan<M: Memory>(
        &mut self,
        arena: &Arena<M>,
        range: &ScanRange,
        is_settled: bool,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        let (mut low, mut dead) = (range.low.clone(), Dead::default());
        let is_forward = range.direction == Direction::Forward;
        if is_forward && !self.levels.gaps.skip(&mut low) {
            return Ok(());
        }
        let found = (&mut self.row, &mut dead);
        let keys = (&*low, &*range.high);
        self.levels
            .scan(arena, keys, range.direction, found, &mut |row| {
                Ok(visit(row))
            })?;
        if is_forward && is_settled {
            self.levels.gaps.note(&range.low, &dead);
        }
        Ok(())
    }

    /// Fills the new secondary index number `number` from the rows.
    pub(super) fn fill_index<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        filters: &mut Filters<M>,
        number: usize,
    ) -> Result<()> {
        let (mut entries, mut primary_keys) = (Vec::new(), Vec::new());
        let (low, high) = whole_range();
        let own_words = self.levels.key_words();
        let range = (&low[..own_words], &high[..own_words]);
        let encoder = &self.table.secondary[number];
        let words = encoder.shape().words;
        let primary = &self.table.primary;
        let (mut key, mut count) = (KeyBuf::default(), 0);
        self.levels.scan(
            arena,
            range,
            Direction::Forward,
            (&mut self.row, &mut Dead::default()),
            &mut |row| {
                encoder.encode_row(row, &mut key)?;
                entries.extend_from_slice(&key);
                entries.push(count);
                primary.encode_row(row, &mut key)?;
                primary_keys.extend_from_slice(&key);
                count += 1;
                Ok(ControlFlow::Continue(()))
            },
        )?;
        sort_entries(&mut entries, words);
        let mut allocations = Allocations::default();
        for entry in entries.chunks_exact_mut(words + 1) {
            let own = &primary_keys[entry[words] as usize * own_words..][..own_words];
            entry[words] = self.owners.write((arena, log), own, &mut allocations)?;
        }
        allocations.end(arena, log)?;
        let index = &mut self.secondary[number];
        let Some(taken) = index.fill(arena, log, words, &entries)? else {
            return Ok(());
        };
        let value = entries[taken * (words + 1) + words];
        self.owners.read(arena, value, &mut key)?;
        self.levels
            .read_visible(arena, filters, &key, &mut self.row)?;
        Err(self.table.duplicate(Some(number), &self.row))
    }

    /// Checks entries, runs and indexes against one another; `block` is called with each block in
    /// use.
    pub(super) fn check<M: Memory>(
        &mut self,
        arena: &Arena<M>,
        block: &mut dyn FnMut(u64),
        report: &mut VerifyReport,
    ) {
        let mut damage = Vec::new();
        let mut found: BTreeMap<KeyBuf, Vec<u64>> = BTreeMap::new();
        self.levels.check(
            arena,
            block,
            &mut |key, pointer| {
                let pointers = found.entry(KeyBuf::from_words(key)).or_default();
                pointers.push(pointer);
            },
            &mut damage,
        );
        let mut expected = vec![Vec::new(); self.secondary.len()];
        for (key, pointers) in &found {
            for &pointer in pointers
                .iter()
                .filter(|pointer| entry::block(**pointer) != 0)
            {
                block(entry::block(pointer));
                if let Err(error) = entry::check(arena, pointer) {
                    damage.push(error.to_string());
                }
            }
            match self.check_row(arena, key, pointers, &mut expected) {
                Ok(is_row) => {
                    report.rows += u64::from(is_row);
                    report.index_entries += u64::from(is_row);
                }
                Err(error) => damage.push(error.to_string()),
            }
        }
        for (number, mut keys) in expected.into_iter().enumerate() {
            keys.sort();
            self.check_index(arena, number, &keys, block, report, &mut damage);
        }
        let name = &self.table.def.name;
        let texts = damage
            .into_iter()
            .map(|text| format!("table `{name}`: {text}"));
        report.damage.extend(texts);
    }

    /// Checks one row and adds its secondary keys to those that are expected; false if there is
    /// none.
    fn check_row<M: Memory>(
        &mut self,
        arena: &Arena<M>,
        key: &KeyBuf,
        pointers: &[u64],
        expected: &mut [Vec<(KeyBuf, KeyBuf)>],
    ) -> Result<bool> {
        if !self.levels.coalesce(arena, pointers, &mut self.row)? {
            return Ok(false);
        }
        self.row.check_values()?;
        let mut own = KeyBuf::default();
        self.table.primary.encode_row(&self.row, &mut own)?;
        if own != *key {
            return Err(super::levels::damaged(
                pointers[0],
                "its row has another key than it stands under",
            ));
        }
        for (number, keys) in expected.iter_mut().enumerate() {
            let mut secondary = KeyBuf::default();
            self.table.secondary[number].encode_row(&self.row, &mut secondary)?;
            keys.push((secondary, own.clone()));
        }
        Ok(true)
    }

    fn check_index<M: Memory>(
        &self,
        arena: &Arena<M>,
        number: usize,
        expected: &[(KeyBuf, KeyBuf)],
        block: &mut dyn FnMut(u64),
        report: &mut VerifyReport,
        damage: &mut Vec<String>,
    ) {
        let mut entries = Vec::new();
        OrderedIndex::<M, NvWriteSet>::check(
            &self.secondary[number],
            arena,
            block,
            &mut |key, value| entries.push((KeyBuf::from_words(key), value)),
            damage,
        );
        report.index_entries += entries.len() as u64;
        let mut found = Vec::new();
        for (key, value) in entries {
            if self.owners.words > 1 {
                block(value);
            }
            let mut own = KeyBuf::default();
            match self.owners.read(arena, value, &mut own) {
                Ok(()) => found.push((key, own)),
                Err(error) => damage.push(error.to_string()),
            }
        }
        if found != expected {
            let index = &self.table.def.indexes[number].name;
            damage.push(format!(
                "index `{index}` has {} entries, not those of the {} rows",
                found.len(),
                expected.len()
            ));
        }
    }
}

impl Levels {
    /// Takes all filters out: the runs are searched without them.
    pub(super) fn take_filters(&mut self) -> Vec<Filter> {
        let mut filters: Vec<_> = self.active_filter.take().into_iter().collect();
        for level in &mut self.below {
            filters.extend(level.upper_filter.take());
            filters.extend(level.run_filter.take());
            filters.extend(level.output_filter.take());
        }
        filters.extend(self.refill.take().map(|refill| refill.filter));
        filters
    }
}

impl<M: Memory> Trees<'_, M> {
    /// Writes `image` as an entry and makes it the MemTable's entry for `key`.
    fn put(&mut self, key: &[u64], kind: EntryKind) -> Result<()> {
        let owner = self.levels.owner;
        let pointer = entry::stage(self.arena, self.log, owner, kind, self.image)?;
        self.levels.bytes += self.image.len() as u64;
        self.levels
            .put(self.arena, self.log, self.filters, key, pointer)
    }

    fn begin_image(&mut self) {
        self.image.clear();
        self.image.resize(entry::HEADER_BYTES, 0);
    }

    /// Writes the whole row with the changes made to it.
    fn put_changed_row(&mut self, key: &[u64], changes: &Changes) -> Result<()> {
        let (arena, log) = (&mut *self.arena, &mut *self.log);
        if !self.levels.read(arena, log, self.filters, key, self.row)? {
            return Err(super::levels::damaged(0, "a row that was there is gone"));
        }
        self.begin_image();
        image::push_changed_row(self.row, changes, self.image)?;
        self.put(key, EntryKind::Row)
    }

    /// Writes changed fields over those of an entry of the MemTable, of which there is one pointer,
    /// instead of a new entry: the words that change and the header go into the log. False, and no
    /// effect, if the changes are too large for that or have contents outside of the tuple. The
    /// entry must be visible.
    fn overwrite(&mut self, pointer: u64, changes: &Changes) -> Result<bool> {
        let old = entry::read(self.arena, pointer)?;
        if !image::overwrite(old, &self.table.layout, changes, self.image) {
            return Ok(false);
        }
        let (header, new) = self.image.split_at(entry::HEADER_BYTES);
        changes.spans(self.spans);
        let block = entry::block(pointer);
        for span in self.spans.iter() {
            let span = span.start..span.end.min(new.len());
            let at = block + (entry::HEADER_BYTES + span.start) as u64;
            self.log.write(self.arena, at, &new[span])?;
        }
        self.log.write(self.arena, block, header)?;
        WriteSet::<M>::touch(self.log, block);
        Ok(true)
    }
}

impl<M: Memory> rows::Trees for Trees<'_, M> {
    fn table(&self) -> Arc<Table> {
        Arc::clone(self.table)
    }

    fn has_row(&mut self, key: &[u64]) -> Result<bool> {
        self.levels.has_row(self.arena, self.log, self.filters, key)
    }

    fn read_row(&mut self, key: &[u64], row: &mut Row) -> Result<bool> {
        self.levels
            .read(self.arena, self.log, self.filters, key, row)
    }

    fn put_row(&mut self, key: &[u64], row: &Row) -> Result<()> {
        self.begin_image();
        row.write_image(self.image);
        self.levels.gaps.fill(key);
        self.put(key, EntryKind::Row)
    }

    fn put_changes(&mut self, key: &[u64], changes: &Changes) -> Result<bool> {
        let found = self.levels.find(self.arena, self.log, self.filters, key)?;
        let Some((pointer, next)) = found else {
            return Ok(false);
        };
        let is_active = next == 1;
        match entry::kind(pointer)? {
            EntryKind::Tombstone => return Ok(false),
            EntryKind::Row => {
                self.arena.enter(Part::Table);
                if is_active && self.overwrite(pointer, changes)? {
                    return Ok(true);
                }
                let old = entry::read(self.arena, pointer)?;
                self.image.clear();
                self.image.resize(entry::HEADER_BYTES, 0);
                if is_active || image::changed_bytes(changes) * 2 > old.len() {
                    image::push_changed_image(old, &self.table.layout, changes, self.image)?;
                    self.put(key, EntryKind::Row)?;
                } else {
                    write_delta(changes, self.image);
                    self.put(key, EntryKind::Delta)?;
                }
            }
            EntryKind::Delta if is_active => {
                let mut delta = Vec::new();
                write_delta(changes, &mut delta);
                self.begin_image();
                let older = entry::read(self.arena, pointer)?;
                merge_deltas(older, &delta, self.image)
                    .map_err(|error| super::levels::unreadable(pointer, &error))?;
                self.put(key, EntryKind::Delta)?;
            }
            EntryKind::Delta => {
                if image::changed_bytes(changes) * 2 > self.table.layout.tuple_bytes() {
                    self.put_changed_row(key, changes)?;
                } else {
                    self.begin_image();
                    write_delta(changes, self.image);
                    self.put(key, EntryKind::Delta)?;
                }
            }
        }
        Ok(true)
    }

    fn put_tombstone(&mut self, key: &[u64]) -> Result<bool> {
        if !self.has_row(key)? {
            return Ok(false);
        }
        if self.purges {
            self.levels.purge(self.arena, self.log, key)?;
        } else {
            self.levels
                .put(self.arena, self.log, self.filters, key, entry::TOMBSTONE)?;
        }
        Ok(true)
    }

    fn has_key(&mut self, index: usize, key: &[u64]) -> Result<bool> {
        let tree = &self.secondary[index];
        self.log.visible(self.arena, tree.root_word())?;
        Ok(OrderedIndex::<M, NvWriteSet>::get(tree, self.arena, key)?.is_some())
    }

    fn add_key(&mut self, index: usize, key: &[u64], primary: &[u64]) -> Result<()> {
        let mut allocations = Allocations::default();
        let place = (&mut *self.arena, &mut *self.log);
        let value = self.owners.write(place, primary, &mut allocations)?;
        allocations.end(self.arena, self.log)?;
        self.secondary[index].insert(self.arena, self.log, key, value)?;
        Ok(())
    }

    fn remove_key(&mut self, index: usize, key: &[u64], _primary: &[u64]) -> Result<()> {
        if let Some(value) = self.secondary[index].remove(self.arena, self.log, key)? {
            self.owners.free(self.arena, self.log, value)?;
        }
        Ok(())
    }
}
