//! The tables of one partition of `nvm-log`: their definitions, their runs, and their secondary
//! indexes.
//!
//! Secondary indexes are plain non-volatile B+trees that map a key to the row's primary key: they
//! change in place, so a lookup searches one tree. A primary key of one word is the value; a longer
//! one lies in a block. A change of a column that is in no index leaves them alone, because they do
//! not have the row's location.
//!
//! The root of the rows in a table's descriptor ([`Directory`]) is the offset of its level block.

use super::levels::{Levels, block_bytes};
use super::merge::{LevelSizes, Pool};
use super::table::{TableState, Trees};
use crate::index::{IndexShape, NvBptree, OrderedIndex};
use crate::lsm::filter::Filters;
use crate::lsm::rows;
use crate::table::Tables;
use crate::table::directory::{self, Directory, NewDescriptor, RootsCounted};
use pmem::{Arena, Memory, Outcome, Owner, Part, PmemError};
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::engine::{ScanRange, VerifyReport};
use storage::log::{NvWriteSet, WriteSet};
use storage::record::{Changes, IndexDef, IndexId, KeyBuf, LayoutKind, Row, TableDef, TableId};
use storage::table::{Numbered, Table, find, find_mut};
use storage::{Result, StorageError};

/// Transactions after which compaction is tried again where the pool was full.
const PAUSE_TRANSACTIONS: u32 = 64;

/// All tables of one partition.
pub(crate) struct NvTables<M: Memory> {
    directory: Directory,
    layout: LayoutKind,
    node_bytes: usize,
    sizes: LevelSizes,
    filters: Filters<M>,
    tables: Numbered<TableState>,
    /// Tables that the open transaction has written to.
    written: Vec<TableId>,
    /// Whether the open transaction has deleted a row: an abort may bring rows back that its scans
    /// do not find.
    has_deleted: bool,
    /// Transactions for which compaction pauses after the pool was full.
    pause: u32,
}

/// Settings that a partition's tables are made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NvSettings {
    pub(crate) directory: u64,
    pub(crate) layout: LayoutKind,
    pub(crate) node_bytes: usize,
    pub(crate) sizes: LevelSizes,
}

impl<M: Memory> NvTables<M> {
    /// The tables whose list starts at the word `directory`. Reads the descriptors, nothing else.
    pub(crate) fn open(
        arena: &Arena<M>,
        filters: Filters<M>,
        settings: NvSettings,
    ) -> Result<Self> {
        let mut space = Self {
            directory: Directory::new(settings.directory, RootsCounted::Secondary),
            layout: settings.layout,
            node_bytes: settings.node_bytes,
            sizes: settings.sizes,
            filters,
            tables: Numbered::new(),
            written: Vec::new(),
            has_deleted: false,
            pause: 0,
        };
        space.reload(arena)?;
        Ok(space)
    }
}

impl<M: Memory> Tables<M, NvWriteSet> for NvTables<M> {
    fn reload(&mut self, arena: &Arena<M>) -> Result<()> {
        for mut state in std::mem::take(&mut self.tables).into_values() {
            for filter in state.levels.take_filters() {
                self.filters.free(filter)?;
            }
        }
        self.written.clear();
        let directory = self.directory;
        directory.read(arena, |at, def| {
            let table = Table::new(def, self.layout)?;
            let block = arena.word(directory::rows_root(at))?;
            let shape = self.shape(table.primary.shape().words);
            let levels = Levels::open(arena, block, shape, tag(table.def.id))?;
            let secondary = self.secondary_handles(&table, at);
            self.add(TableState::new(table, at, levels, secondary));
            Ok(())
        })
    }

    fn tables(&self) -> Vec<Arc<Table>> {
        let tables = self.tables.values();
        tables.map(|state| Arc::clone(&state.table)).collect()
    }

    /// Without space it is put off.
    fn maintain(&mut self, arena: &mut Arena<M>, log: &mut NvWriteSet) -> Result<()> {
        if self.pause > 0 {
            self.pause -= 1;
            return Ok(());
        }
        let (log_savepoint, heap_savepoint) = (log.savepoint(), arena.heap_savepoint());
        match self.compact(arena, log) {
            Err(error) if error.is_statement_error() => {}
            result => return result,
        }
        log.rollback_to(arena, log_savepoint)?;
        arena.heap_rollback(heap_savepoint);
        log.visible_all(arena)?;
        self.reload(arena)?;
        self.pause = PAUSE_TRANSACTIONS;
        Ok(())
    }

    fn settle(&mut self, arena: &mut Arena<M>, log: &mut NvWriteSet) -> Result<bool> {
        let sizes = self.sizes;
        for state in self.tables.values_mut() {
            let mut pool = Pool {
                arena,
                log,
                filters: &mut self.filters,
            };
            if state.levels.settle(&mut pool, &mut state.buffers, sizes)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn end_transaction(&mut self, _: &Arena<M>, _: Outcome) {
        self.has_deleted = false;
        for id in self.written.drain(..) {
            if let Some(state) = self.tables.get_mut(&id) {
                state.written = 0;
            }
        }
    }

    #[inline]
    fn get(
        &mut self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        id: TableId,
        key: &[u64],
        row: &mut Row,
    ) -> Result<bool> {
        let state = find_mut(&mut self.tables, id)?;
        if state.levels.lacks_filters {
            let (filters, sizes) = (&mut self.filters, self.sizes);
            state.levels.make_visible(arena, log)?;
            state.levels.refill(arena, filters, sizes)?;
        }
        state.levels.read(arena, log, &self.filters, key, row)
    }

    fn get_many(
        &mut self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        id: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        let state = find_mut(&mut self.tables, id)?;
        let row = &mut state.row;
        state
            .levels
            .read_many(arena, log, &self.filters, keys, row, visit)
    }

    fn scan(
        &mut self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        log.visible_all(arena)?;
        let filters = &self.filters;
        let state = find_mut(&mut self.tables, range.table)?;
        let Some(id) = range.index else {
            return state.scan(arena, range, !self.has_deleted, visit);
        };
        let (levels, row) = (&state.levels, &mut state.row);
        let number = state.table.index_number(id)?;
        let (index, owners) = (&state.secondary[number], &state.owners);
        let arena = &*arena;
        OrderedIndex::<M, NvWriteSet>::scan(
            index,
            arena,
            (&range.low, &range.high),
            range.direction,
            0,
            &mut |_, value| {
                let mut key = KeyBuf::default();
                owners.read(arena, value, &mut key)?;
                if !levels.read_visible(arena, filters, &key, row)? {
                    let detail = "it leads to no row";
                    return Err(PmemError::corrupted("index entry", value, detail).into());
                }
                arena.enter(Part::Index);
                Ok(visit(row))
            },
        )
    }

    fn insert(
        &mut self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        id: TableId,
        row: &Row,
    ) -> Result<()> {
        let (mut trees, scratch) = self.trees(arena, log, id)?;
        rows::insert(&mut trees, scratch, row)?;
        self.note_written(id);
        Ok(())
    }

    fn update(
        &mut self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        id: TableId,
        key: &[u64],
        changes: &Changes,
    ) -> Result<bool> {
        let (filters, sizes) = (&mut self.filters, self.sizes);
        let state = find_mut(&mut self.tables, id)?;
        if state.levels.lacks_filters {
            state.levels.make_visible(arena, log)?;
            state.levels.refill(arena, filters, sizes)?;
        }
        let (mut trees, scratch) = self.trees(arena, log, id)?;
        let found = rows::update(&mut trees, scratch, key, changes)?;
        self.note_written(id);
        Ok(found)
    }

    fn delete(
        &mut self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        id: TableId,
        key: &[u64],
    ) -> Result<bool> {
        let (log_savepoint, heap_savepoint) = (log.savepoint(), arena.heap_savepoint());
        let result = self.bury(arena, log, id, key).and_then(|found| {
            log.end_operation(arena)?;
            Ok(found)
        });
        if !result.as_ref().is_err_and(StorageError::is_out_of_space) {
            return result;
        }
        // There is no space for a tombstone, and none is needed to take the row out of all runs.
        log.rollback_to(arena, log_savepoint)?;
        arena.heap_rollback(heap_savepoint);
        let (mut trees, scratch) = self.trees(arena, log, id)?;
        trees.purges = true;
        rows::delete(&mut trees, scratch, key)
    }

    fn create_table(
        &mut self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        def: &TableDef,
    ) -> Result<()> {
        if find(&self.tables, def.id).is_ok() {
            let text = format!("table number {} is taken", def.id.0);
            return Err(StorageError::Unsupported(text));
        }
        let table = Table::new(def.clone(), self.layout)?;
        let shape = self.shape(table.primary.shape().words);
        let owner = Owner {
            part: Part::Index,
            tag: tag(def.id),
        };
        let block = log.reserve(arena, block_bytes(shape.key_words), owner)?;
        let change = arena.activate(block)?;
        log.change(arena, change)?;
        let mut levels = Levels::create(arena, log, block, shape, tag(def.id))?;
        levels.begin_filter(&mut self.filters, self.sizes);
        let new = NewDescriptor {
            def,
            next: self.directory.first(arena)?,
            roots: &[block],
            shorter_than: None,
        };
        let state = self.write_descriptor(arena, log, table, levels, &new)?;
        self.directory.link(arena, log, state.descriptor)?;
        self.add(state);
        Ok(())
    }

    fn drop_table(
        &mut self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        id: TableId,
    ) -> Result<()> {
        log.visible_all(arena)?;
        let state = find(&self.tables, id)?;
        state.levels.free(arena, log)?;
        for index in &state.secondary {
            state.owners.free_all(arena, log, index)?;
            OrderedIndex::free(index, arena, log)?;
        }
        let descriptor = state.descriptor;
        let next = directory::next(arena, descriptor)?;
        self.directory.replace(arena, log, descriptor, next)?;
        if let Some(mut state) = self.tables.remove(&id) {
            for filter in state.levels.take_filters() {
                self.filters.free(filter)?;
            }
        }
        Ok(())
    }

    fn create_index(
        &mut self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        id: TableId,
        index: &IndexDef,
    ) -> Result<()> {
        log.visible_all(arena)?;
        let mut def = find(&self.tables, id)?.table.def.clone();
        def.indexes.push(index.clone());
        let mut state = self.replace_descriptor(arena, log, &def, None)?;
        log.visible_all(arena)?;
        let number = state.secondary.len() - 1;
        let result = state.fill_index(arena, log, &mut self.filters, number);
        self.add(state);
        result
    }

    fn drop_index(
        &mut self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        id: TableId,
        index: IndexId,
    ) -> Result<()> {
        log.visible_all(arena)?;
        let old = find(&self.tables, id)?;
        let number = old.table.index_number(index)?;
        old.owners.free_all(arena, log, &old.secondary[number])?;
        OrderedIndex::free(&old.secondary[number], arena, log)?;
        let mut def = old.table.def.clone();
        def.indexes.remove(number);
        let state = self.replace_descriptor(arena, log, &def, Some(number))?;
        self.add(state);
        Ok(())
    }

    fn check(&mut self, arena: &Arena<M>, block: &mut dyn FnMut(u64), report: &mut VerifyReport) {
        for state in self.tables.values_mut() {
            block(state.descriptor);
            state.check(arena, block, report);
        }
    }
}

impl<M: Memory> NvTables<M> {
    /// Does the share of compaction for the transaction that is about to commit.
    fn compact(&mut self, arena: &mut Arena<M>, log: &mut NvWriteSet) -> Result<()> {
        for index in 0..self.written.len() {
            let (id, sizes) = (self.written[index], self.sizes);
            let Some(state) = self.tables.get_mut(&id) else {
                continue;
            };
            let mut pool = Pool {
                arena,
                log,
                filters: &mut self.filters,
            };
            let written = std::mem::take(&mut state.written);
            state
                .levels
                .maintain(&mut pool, &mut state.buffers, sizes, written)?;
        }
        Ok(())
    }

    /// Deletes a row by a tombstone.
    fn bury(
        &mut self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        id: TableId,
        key: &[u64],
    ) -> Result<bool> {
        self.has_deleted = true;
        let (mut trees, scratch) = self.trees(arena, log, id)?;
        let found = rows::delete(&mut trees, scratch, key)?;
        self.note_written(id);
        Ok(found)
    }

    fn note_written(&mut self, id: TableId) {
        if let Some(state) = self.tables.get_mut(&id) {
            state.written += 1;
            if !self.written.contains(&id) {
                self.written.push(id);
            }
        }
    }

    fn trees<'s>(
        &'s mut self,
        arena: &'s mut Arena<M>,
        log: &'s mut NvWriteSet,
        id: TableId,
    ) -> Result<(Trees<'s, M>, &'s mut rows::Scratch)> {
        let state = find_mut(&mut self.tables, id)?;
        Ok(state.trees(arena, log, &mut self.filters))
    }

    fn add(&mut self, state: TableState) {
        self.tables.insert(state.table.def.id, state);
    }

    fn shape(&self, key_words: usize) -> IndexShape {
        IndexShape {
            node_bytes: self.node_bytes,
            key_words,
        }
    }

    fn secondary_handles(&self, table: &Table, descriptor: u64) -> Vec<NvBptree> {
        (0..)
            .zip(&table.secondary)
            .map(|(number, encoder)| {
                let shape = self.shape(encoder.shape().words);
                let root_word = directory::index_root(descriptor, number);
                NvBptree::handle(root_word, shape, tag(table.def.id))
            })
            .collect()
    }

    /// Writes a descriptor with the indexes that it has roots of, and makes the others empty.
    fn write_descriptor(
        &self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        table: Table,
        levels: Levels,
        new: &NewDescriptor<'_>,
    ) -> Result<TableState> {
        assert_eq!(
            new.roots.first(),
            Some(&levels.block),
            "a descriptor names the levels of its table"
        );
        let at = self.directory.write(arena, log, new)?;
        for number in new.roots.len() - 1..table.secondary.len() {
            let shape = self.shape(table.secondary[number].shape().words);
            let root_word = directory::index_root(at, number);
            let _made: NvBptree =
                OrderedIndex::create(arena, log, root_word, shape, tag(table.def.id))?;
        }
        let secondary = self.secondary_handles(&table, at);
        Ok(TableState::new(table, at, levels, secondary))
    }

    /// Puts a descriptor for `def` in the place of the table's old one, without the index number
    /// `dropped`; indexes that `def` has beyond the old ones are made empty.
    fn replace_descriptor(
        &mut self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        def: &TableDef,
        dropped: Option<usize>,
    ) -> Result<TableState> {
        let old = find(&self.tables, def.id)?;
        let old_at = old.descriptor;
        let mut kept = vec![old.levels.block];
        for (number, index) in old.secondary.iter().enumerate() {
            if Some(number) != dropped {
                kept.push(arena.word(index.root_word())?);
            }
        }
        let new = NewDescriptor {
            def,
            next: directory::next(arena, old_at)?,
            roots: &kept,
            // Without an index it is shorter, so a full pool need not refuse a change that frees
            // space.
            shorter_than: dropped.map(|_| old_at),
        };
        let table = Table::new(def.clone(), self.layout)?;
        let Some(state) = self.tables.remove(&def.id) else {
            return Err(StorageError::NoSuchTable(def.id.0));
        };
        let state = self.write_descriptor(arena, log, table, state.levels, &new)?;
        if state.descriptor != old_at {
            self.directory
                .replace(arena, log, old_at, state.descriptor)?;
        }
        Ok(state)
    }
}

fn tag(table: TableId) -> u16 {
    // Numbers that differ by 65,536 share runs of the heap; the tag is a check, not an identity.
    table.0 as u16
}
