//! The tables of one partition that is updated in place: tuples, and the upkeep of their indexes.
//!
//! Written once for volatile and durable memory: `W` decides how published bytes change, `I` which
//! index is used. A statement that fails leaves pending changes; the engine rolls them back to
//! where the statement began.
//!
//! Tables hang on a list of *descriptors*, so that a partition describes itself:
//!
//! ```text
//! descriptor  next u64 | bytes of definition u32, crc32c of definition u32 | indexes u64
//!             | root word of the primary index | root word of each secondary index ...
//!             | definition
//! ```
//!
//! The list's head is the word `directory`. Table and index numbers are never used again, so a new
//! descriptor is linked at the head and replaces an old one of the same table in one step.

use super::Tables;
use super::tuples::Tuples;
use crate::index::{IndexShape, OrderedIndex, bytes_of};
use pmem::{Arena, Memory, Owner, Part, PmemError};
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::engine::{Direction, ScanRange, VerifyReport};
use storage::log::WriteSet;
use storage::record::{
    Changes, IndexDef, IndexId, KeyBuf, LayoutKind, MAX_KEY_WORDS, Row, TableDef, TableId,
};
use storage::table::{Numbered, Table, find, find_mut};
use storage::{Result, StorageError};

const DESCRIPTOR_WORDS: usize = 3;

/// All tables of one partition.
pub struct TableSpace<M: Memory, W, I> {
    directory: u64,
    layout: LayoutKind,
    node_bytes: usize,
    tables: Numbered<TableState<I>>,
    key: KeyBuf,
    device: PhantomData<fn(M, W)>,
}

/// One table that is open.
struct TableState<I> {
    table: Arc<Table>,
    descriptor: u64,
    tuples: Tuples,
    primary: I,
    secondary: Vec<I>,
    /// A whole row, for keys of secondary indexes.
    row: Row,
    changed: Row,
}

impl<M: Memory, W: WriteSet<M>, I: OrderedIndex<M, W>> TableSpace<M, W, I> {
    /// The tables whose list starts at the word `directory`; the caller has stored 0 there if there
    /// are none.
    pub fn open(
        arena: &Arena<M>,
        directory: u64,
        layout: LayoutKind,
        node_bytes: usize,
    ) -> Result<Self> {
        let mut space = Self {
            directory,
            layout,
            node_bytes,
            tables: Numbered::new(),
            key: KeyBuf::default(),
            device: PhantomData,
        };
        space.reload(arena)?;
        Ok(space)
    }
}

impl<M: Memory, W: WriteSet<M>, I: OrderedIndex<M, W>> Tables<M, W> for TableSpace<M, W, I> {
    fn tables(&self) -> Vec<Arc<Table>> {
        self.tables
            .values()
            .map(|state| Arc::clone(&state.table))
            .collect()
    }

    fn reload(&mut self, arena: &Arena<M>) -> Result<()> {
        self.tables.clear();
        let mut at = arena.word(self.directory)?;
        let mut known = 0;
        while at != 0 {
            let (next, table) = self.read_descriptor(arena, at)?;
            self.add(table);
            known += 1;
            if known > TABLES_MAX {
                return Err(PmemError::corrupted("table directory", at, "it has no end").into());
            }
            at = next;
        }
        Ok(())
    }

    fn create_table(&mut self, arena: &mut Arena<M>, writes: &mut W, def: &TableDef) -> Result<()> {
        if self.find(def.id).is_ok() {
            return Err(StorageError::Unsupported(format!(
                "table number {} is taken",
                def.id.0
            )));
        }
        let next = arena.word(self.directory)?;
        let state = self.write_descriptor(arena, writes, def, next, (&[], None))?;
        writes.write(arena, self.directory, &state.descriptor.to_le_bytes())?;
        self.add(state);
        Ok(())
    }

    fn drop_table(&mut self, arena: &mut Arena<M>, writes: &mut W, id: TableId) -> Result<()> {
        writes.visible_all(arena)?;
        let state = self.find(id)?;
        let mut pointers = Vec::new();
        collect(arena, state, &mut pointers)?;
        for tuple in pointers {
            state.tuples.free(arena, writes, tuple)?;
        }
        for index in std::iter::once(&state.primary).chain(&state.secondary) {
            index.free(arena, writes)?;
        }
        let descriptor = state.descriptor;
        self.unlink(arena, writes, descriptor)?;
        self.tables.remove(&id);
        Ok(())
    }

    fn create_index(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        index: &IndexDef,
    ) -> Result<()> {
        writes.visible_all(arena)?;
        let old = self.find(id)?;
        let mut def = old.table.def.clone();
        def.indexes.push(index.clone());
        let mut rows = Vec::new();
        collect(arena, old, &mut rows)?;
        let mut state = self.replace_descriptor(arena, writes, &def, None)?;
        let number = state.secondary.len() - 1;
        for tuple in rows {
            state.tuples.read(arena, tuple, &mut state.row)?;
            state.table.secondary[number].encode_row(&state.row, &mut self.key)?;
            if !state.secondary[number].insert(arena, writes, &self.key, tuple)? {
                return Err(state.table.duplicate(Some(number), &state.row));
            }
        }
        self.add(state);
        Ok(())
    }

    fn drop_index(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        index: IndexId,
    ) -> Result<()> {
        writes.visible_all(arena)?;
        let old = self.find(id)?;
        let number = old.table.index_number(index)?;
        old.secondary[number].free(arena, writes)?;
        let mut def = old.table.def.clone();
        def.indexes.remove(number);
        let state = self.replace_descriptor(arena, writes, &def, Some(number))?;
        self.add(state);
        Ok(())
    }

    #[inline]
    fn get(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        key: &[u64],
        row: &mut Row,
    ) -> Result<bool> {
        let state = self.find(id)?;
        writes.visible(arena, state.primary.identity())?;
        let Some(tuple) = state.primary.get(arena, key)? else {
            return Ok(false);
        };
        writes.visible(arena, tuple)?;
        state.tuples.read(arena, tuple, row)?;
        Ok(true)
    }

    fn get_many(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        const TOGETHER: usize = 16;
        let state = self.find_mut(id)?;
        writes.visible(arena, state.primary.identity())?;
        for (group, keys) in keys.chunks(TOGETHER).enumerate() {
            let mut found = [None; TOGETHER];
            state
                .primary
                .get_many(arena, keys, &mut found[..keys.len()])?;
            for tuple in found.iter().flatten() {
                state.tuples.prefetch(arena, *tuple);
                writes.visible(arena, *tuple)?;
            }
            for (place, tuple) in found[..keys.len()].iter().enumerate() {
                match tuple {
                    Some(tuple) => {
                        state.tuples.read(arena, *tuple, &mut state.row)?;
                        visit(group * TOGETHER + place, Some(&state.row));
                    }
                    None => visit(group * TOGETHER + place, None),
                }
            }
        }
        Ok(())
    }

    fn scan(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        writes.visible_all(arena)?;
        let state = self.find_mut(range.table)?;
        let index = match range.index {
            None => &state.primary,
            Some(id) => &state.secondary[state.table.index_number(id)?],
        };
        let (tuples, row) = (&state.tuples, &mut state.row);
        let arena = &*arena;
        index.scan(
            arena,
            (&range.low, &range.high),
            range.direction,
            tuples.bytes(),
            &mut |_, tuple| {
                tuples.read(arena, tuple, row)?;
                arena.enter(Part::Index);
                Ok(visit(row))
            },
        )
    }

    fn insert(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        row: &Row,
    ) -> Result<()> {
        let mut key = std::mem::take(&mut self.key);
        let state = self.find_mut(id)?;
        let tuple = state.tuples.insert(arena, writes, row)?;
        state.table.primary.encode_row(row, &mut key)?;
        if !state.primary.insert(arena, writes, &key, tuple)? {
            return Err(state.table.duplicate(None, row));
        }
        for (number, index) in state.secondary.iter_mut().enumerate() {
            state.table.secondary[number].encode_row(row, &mut key)?;
            if !index.insert(arena, writes, &key, tuple)? {
                return Err(state.table.duplicate(Some(number), row));
            }
        }
        self.key = key;
        Ok(())
    }

    fn update(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        key: &[u64],
        changes: &Changes,
    ) -> Result<bool> {
        let state = self.find_mut(id)?;
        writes.visible(arena, state.primary.identity())?;
        let Some(tuple) = state.primary.get(arena, key)? else {
            return Ok(false);
        };
        writes.visible(arena, tuple)?;
        if state.table.changes_an_index(changes) {
            state.update_keys(arena, writes, tuple, changes)?;
        }
        state.tuples.update(arena, writes, tuple, changes)?;
        writes.touch(tuple);
        Ok(true)
    }

    fn delete(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        id: TableId,
        key: &[u64],
    ) -> Result<bool> {
        let state = self.find_mut(id)?;
        let Some(tuple) = state.primary.remove(arena, writes, key)? else {
            return Ok(false);
        };
        writes.visible(arena, tuple)?;
        if !state.secondary.is_empty() {
            state.tuples.read(arena, tuple, &mut state.row)?;
            let mut key = KeyBuf::default();
            for (number, index) in state.secondary.iter_mut().enumerate() {
                state.table.secondary[number].encode_row(&state.row, &mut key)?;
                index.remove(arena, writes, &key)?;
            }
        }
        state.tuples.free(arena, writes, tuple)?;
        Ok(true)
    }

    fn check(&mut self, arena: &Arena<M>, block: &mut dyn FnMut(u64), report: &mut VerifyReport) {
        for state in self.tables.values_mut() {
            block(state.descriptor);
            state.check(arena, block, report);
        }
    }
}

/// Descriptors on the list before it is called endless.
const TABLES_MAX: u32 = 1 << 20;

impl<M: Memory, W: WriteSet<M>, I: OrderedIndex<M, W>> TableSpace<M, W, I> {
    fn find(&self, id: TableId) -> Result<&TableState<I>> {
        find(&self.tables, id)
    }

    fn find_mut(&mut self, id: TableId) -> Result<&mut TableState<I>> {
        find_mut(&mut self.tables, id)
    }

    fn add(&mut self, state: TableState<I>) {
        self.tables.insert(state.table.def.id, state);
    }

    fn shape(&self, key_words: usize) -> IndexShape {
        IndexShape {
            node_bytes: self.node_bytes,
            key_words,
        }
    }

    /// Reads one descriptor; returns the next one's offset and the table.
    fn read_descriptor(&self, arena: &Arena<M>, at: u64) -> Result<(u64, TableState<I>)> {
        let &[next, sizes, indexes] = arena.get(pmem::NvPtr::<[u64; DESCRIPTOR_WORDS]>::new(at))?;
        let roots_at = at + 8 * DESCRIPTOR_WORDS as u64;
        let def_bytes = sizes as u32 as usize;
        let def_at = indexes
            .checked_mul(8)
            .and_then(|roots| roots_at.checked_add(roots));
        let image = arena.bytes(def_at.unwrap_or(u64::MAX), def_bytes)?;
        if crc32c::crc32c(image) != (sizes >> 32) as u32 {
            return Err(PmemError::corrupted("table descriptor", at, "wrong checksum").into());
        }
        let def = TableDef::decode(image)
            .map_err(|error| PmemError::corrupted("table descriptor", at, error.to_string()))?;
        if indexes != def.indexes.len() as u64 + 1 {
            return Err(
                PmemError::corrupted("table descriptor", at, "wrong number of indexes").into(),
            );
        }
        let table = Table::new(def, self.layout)?;
        let primary = self.open_index(arena, roots_at, &table, None)?;
        let secondary = (0..table.secondary.len())
            .map(|number| self.open_index(arena, roots_at, &table, Some(number)))
            .collect::<Result<_>>()?;
        Ok((next, TableState::new(table, at, primary, secondary)))
    }

    fn open_index(
        &self,
        arena: &Arena<M>,
        roots_at: u64,
        table: &Table,
        number: Option<usize>,
    ) -> Result<I> {
        let root_word = roots_at + number.map_or(0, |number| number as u64 + 1) * 8;
        I::open(
            arena,
            root_word,
            self.shape(table.encoder(number).shape().words),
            tag(table.def.id),
        )
    }

    /// Writes a new descriptor with new, empty indexes, except those in `kept`: pairs of the
    /// index's number in `def` and its root. The descriptor is not linked yet, unless it is written
    /// over an old one that it is shorter than, since there is no room for another.
    fn write_descriptor(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        def: &TableDef,
        next: u64,
        (kept, shorter_than): (&[u64], Option<u64>),
    ) -> Result<TableState<I>> {
        let table = Table::new(def.clone(), self.layout)?;
        let image = def.encode();
        let indexes = def.indexes.len() + 1;
        let bytes = 8 * (DESCRIPTOR_WORDS + indexes) + image.len();
        assert!(
            u32::try_from(image.len()).is_ok() && kept.len() <= indexes,
            "a definition is longer than its descriptor can say"
        );
        let owner = Owner {
            part: Part::Other,
            tag: 1,
        };
        let (at, is_new) = match (
            arena.reserve(bytes.next_multiple_of(8), owner),
            shorter_than,
        ) {
            (Err(PmemError::OutOfSpace { .. }), Some(old)) => (old, false),
            (reserved, _) => (reserved?, true),
        };
        let sizes = u64::from(crc32c::crc32c(&image)) << 32 | image.len() as u64;
        let mut header = bytes_of(&[next, sizes, indexes as u64]);
        header.extend_from_slice(&bytes_of(kept));
        header.resize(8 * (DESCRIPTOR_WORDS + indexes), 0);
        header.extend_from_slice(&image);
        debug_assert_eq!(header.len(), bytes, "a descriptor is as long as its block");
        if is_new {
            writes.stage(arena, at, &header)?;
            let change = arena.activate(at)?;
            writes.change(arena, change)?;
        } else {
            writes.write(arena, at, &header)?;
            writes.visible_all(arena)?;
        }
        let roots_at = at + 8 * DESCRIPTOR_WORDS as u64;
        let mut all = Vec::with_capacity(indexes);
        for index in 0..indexes {
            let number = index.checked_sub(1);
            all.push(if index < kept.len() {
                self.open_index(arena, roots_at, &table, number)?
            } else {
                let shape = self.shape(table.encoder(number).shape().words);
                I::create(
                    arena,
                    writes,
                    roots_at + 8 * index as u64,
                    shape,
                    tag(def.id),
                )?
            });
        }
        let secondary = all.split_off(1);
        let primary = all.remove(0);
        Ok(TableState::new(table, at, primary, secondary))
    }

    /// Puts a descriptor for `def` in the place of the table's old one, without the index number
    /// `dropped`; indexes that `def` has beyond the old ones are made empty.
    fn replace_descriptor(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        def: &TableDef,
        dropped: Option<usize>,
    ) -> Result<TableState<I>> {
        let old = self.find(def.id)?;
        let old_at = old.descriptor;
        let mut kept = vec![arena.word(old.primary.identity())?];
        for (number, index) in old.secondary.iter().enumerate() {
            if Some(number) != dropped {
                kept.push(arena.word(index.identity())?);
            }
        }
        let next = arena.word(old_at)?;
        // Without an index it is shorter, so a full pool need not refuse a change that frees space.
        let shorter_than = dropped.map(|_| old_at);
        let state = self.write_descriptor(arena, writes, def, next, (&kept, shorter_than))?;
        if state.descriptor == old_at {
            return Ok(state);
        }
        let link = self.link_to(arena, old_at)?;
        writes.write(arena, link, &state.descriptor.to_le_bytes())?;
        let change = arena.free(old_at)?;
        writes.change(arena, change)?;
        Ok(state)
    }

    /// Takes a descriptor off the list and frees it.
    fn unlink(&mut self, arena: &mut Arena<M>, writes: &mut W, descriptor: u64) -> Result<()> {
        let next = arena.word(descriptor)?;
        let link = self.link_to(arena, descriptor)?;
        writes.write(arena, link, &next.to_le_bytes())?;
        let change = arena.free(descriptor)?;
        writes.change(arena, change)
    }

    /// The word that points to a descriptor.
    fn link_to(&self, arena: &Arena<M>, descriptor: u64) -> Result<u64> {
        let mut link = self.directory;
        for _ in 0..TABLES_MAX {
            match arena.word(link)? {
                found if found == descriptor => return Ok(link),
                0 => break,
                next => link = next,
            }
        }
        Err(PmemError::corrupted("table directory", descriptor, "the table is not on it").into())
    }
}

impl<I> TableState<I> {
    fn new(table: Table, descriptor: u64, primary: I, secondary: Vec<I>) -> Self {
        assert_eq!(
            table.secondary.len(),
            secondary.len(),
            "each index of a definition is open"
        );
        let tuples = Tuples::new(Arc::clone(&table.layout), tag(table.def.id));
        let row = Row::new(Arc::clone(&table.layout));
        let changed = Row::new(Arc::clone(&table.layout));
        Self {
            table: Arc::new(table),
            descriptor,
            tuples,
            primary,
            secondary,
            row,
            changed,
        }
    }

    /// Moves the entries of those secondary indexes whose key the changes alter.
    fn update_keys<M: Memory, W: WriteSet<M>>(
        &mut self,
        arena: &mut Arena<M>,
        writes: &mut W,
        tuple: u64,
        changes: &Changes,
    ) -> Result<()>
    where
        I: OrderedIndex<M, W>,
    {
        self.tuples.read(arena, tuple, &mut self.row)?;
        self.tuples.read(arena, tuple, &mut self.changed)?;
        changes.apply(&mut self.changed)?;
        let (mut old, mut new) = (KeyBuf::default(), KeyBuf::default());
        for (number, index) in self.secondary.iter_mut().enumerate() {
            self.table.secondary[number].encode_row(&self.row, &mut old)?;
            self.table.secondary[number].encode_row(&self.changed, &mut new)?;
            if *old == *new {
                continue;
            }
            if !index.insert(arena, writes, &new, tuple)? {
                return Err(self.table.duplicate(Some(number), &self.changed));
            }
            index.remove(arena, writes, &old)?;
        }
        Ok(())
    }

    fn check<M: Memory, W>(
        &mut self,
        arena: &Arena<M>,
        block: &mut dyn FnMut(u64),
        report: &mut VerifyReport,
    ) where
        I: OrderedIndex<M, W>,
    {
        let name = &self.table.def.name;
        let mut damage = Vec::new();
        let mut found = Vec::new();
        self.primary.check(
            arena,
            block,
            &mut |key, tuple| found.push((KeyBuf::from_words(key), tuple)),
            &mut damage,
        );
        let expected = self.secondary.iter();
        let expected = expected.map(|_| Vec::with_capacity(found.len()));
        let mut expected: Vec<Vec<(KeyBuf, u64)>> = expected.collect();
        let mut key = KeyBuf::default();
        for (primary, tuple) in &found {
            let result = self
                .tuples
                .check(arena, *tuple, &mut self.row, block)
                .and_then(|()| {
                    self.table.primary.encode_row(&self.row, &mut key)?;
                    if *key != **primary {
                        damage.push(format!(
                            "the tuple at offset {tuple} has another key than its entry"
                        ));
                    }
                    for (number, list) in expected.iter_mut().enumerate() {
                        self.table.secondary[number].encode_row(&self.row, &mut key)?;
                        list.push((key.clone(), *tuple));
                    }
                    Ok(())
                });
            if let Err(error) = result {
                damage.push(error.to_string());
            }
        }
        report.rows += found.len() as u64;
        report.index_entries += found.len() as u64;
        for (number, index) in self.secondary.iter().enumerate() {
            let mut entries = Vec::with_capacity(found.len());
            index.check(
                arena,
                block,
                &mut |key, tuple| entries.push((KeyBuf::from_words(key), tuple)),
                &mut damage,
            );
            report.index_entries += entries.len() as u64;
            expected[number].sort_unstable();
            if entries != expected[number] {
                let index = &self.table.def.indexes[number].name;
                damage.push(format!(
                    "index `{index}` has {} entries, not those of the {} rows",
                    entries.len(),
                    expected[number].len()
                ));
            }
        }
        report.damage.extend(
            damage
                .into_iter()
                .map(|text| format!("table `{name}`: {text}")),
        );
    }
}

/// Pointers of all tuples.
fn collect<M: Memory, W, I: OrderedIndex<M, W>>(
    arena: &Arena<M>,
    state: &TableState<I>,
    tuples: &mut Vec<u64>,
) -> Result<()> {
    let words = state.table.primary.shape().words;
    let (low, high) = ([0; MAX_KEY_WORDS], [u64::MAX; MAX_KEY_WORDS]);
    let (low, high) = (&low[..words], &high[..words]);
    state.primary.scan(
        arena,
        (low, high),
        Direction::Forward,
        0,
        &mut |_, tuple| {
            tuples.push(tuple);
            Ok(ControlFlow::Continue(()))
        },
    )
}

pub(super) fn tag(table: TableId) -> u16 {
    // Numbers that differ by 65,536 share runs; the tag is a check, not an identity.
    table.0 as u16
}

#[cfg(test)]
#[path = "space_tests.rs"]
mod tests;
