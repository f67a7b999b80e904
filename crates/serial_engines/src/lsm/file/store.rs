//! The tables of one partition of `log`: the active MemTable, a full one on its way to a file, and
//! the runs.
//!
//! Order of age, newest first: active, full, then the runs from the newest to the oldest. All trees
//! of the partition share MemTables and runs, so one flush and one manifest cover them.
//!
//! A change of the schema is a record of the log like any other; the manifest holds the definitions
//! as they were at the start of replay. Runs may have entries of dropped trees. Nobody reads them,
//! and merges drop them once the manifest does not have the tree either: until then replay may need
//! them.

use super::block_cache::BlockCache;
use super::lookup::Runs;
use super::manifest::RunEntry;
use super::mem_table::{MemTable, MemTableSavepoint, TreeId};
use super::run::Run;
use super::sources::{Entry, Range};
use crate::index::{Bptree, IndexShape};
use crate::lsm::entry::{EntryKind, apply_delta};
use crate::lsm::filter::Filters;
use crate::lsm::gaps::{Dead, Gaps};
use crate::lsm::rows::{self, Scratch};
use crate::table::Space;
use disk::File;
use pmem::{Arena, Counters, Memory, MemorySource, PmemError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::engine::{Direction, ScanRange, VerifyReport};
use storage::log::redo::ImageError;
use storage::record::{
    Changes, IndexDef, IndexId, KeyBuf, LayoutKind, MAX_KEY_WORDS, Row, TableDef, TableId,
};
use storage::table::{Numbered, Table, find, find_mut};
use storage::{Result, StorageError};

/// A run and its level.
pub(crate) struct LeveledRun<F: File> {
    pub(crate) level: u32,
    pub(crate) run: Run<F>,
}

impl<F: File> LeveledRun<F> {
    /// Its description in the manifest.
    pub(crate) fn place(&self) -> RunEntry {
        RunEntry {
            level: self.level,
            number: self.run.number,
            bytes: self.run.bytes,
        }
    }
}

/// A table and its trees: the primary key's, then those of the secondary indexes in the order of
/// the definition.
#[derive(Clone)]
pub(crate) struct TableTrees {
    pub(crate) table: Arc<Table>,
    pub(crate) trees: Arc<[TreeId]>,
}

/// One table that is open.
struct TableState {
    table: Arc<Table>,
    trees: Arc<[TreeId]>,
    scratch: Scratch,
    row: Row,
}

/// Settings that a partition is made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreSettings {
    pub(crate) layout: LayoutKind,
    pub(crate) node_bytes: usize,
    /// First size of a MemTable's memory.
    pub(crate) memory_bytes: u64,
    /// Bytes of the cache of blocks, at most.
    pub(crate) cache_bytes: u64,
}

/// All tables of one partition.
pub(crate) struct Store<S: MemorySource, F: File> {
    memories: S,
    settings: StoreSettings,
    tables: Numbered<TableState>,
    /// The number of the next new tree.
    pub(crate) next_tree: u64,
    pub(crate) active: MemTable<S::Memory>,
    pub(crate) full: Option<MemTable<S::Memory>>,
    /// Newest first.
    pub(crate) runs: Vec<LeveledRun<F>>,
    pub(crate) filters: Filters<S::Memory>,
    cache: RefCell<BlockCache<S::Memory>>,
    /// Gaps that scans of a tree have found.
    gaps: BTreeMap<TreeId, Gaps>,
    /// Whether the open transaction has deleted a key: an abort may bring rows back that its scans
    /// do not find.
    has_deleted: bool,
    image: Vec<u8>,
    /// The memory of the MemTable that was given up last, whose pages the next one need not fetch
    /// again.
    spare: Option<S::Memory>,
}

/// The definitions and trees before a change of the schema.
pub(crate) struct SavedSchema {
    tables: Vec<TableTrees>,
    trees: BTreeMap<TreeId, Bptree>,
}

impl<S: MemorySource, F: File> Store<S, F> {
    /// A store without runs, with these tables, whose trees have numbers below `next_tree`.
    pub(crate) fn new(
        memories: S,
        settings: StoreSettings,
        tables: &[(TableDef, Vec<u64>)],
        next_tree: u64,
    ) -> Result<Self> {
        let first = memories.volatile(Self::memory_bytes(settings))?;
        let filters = Filters::new(memories.volatile(Self::memory_bytes(settings))?)?;
        let memory = memories.volatile(Self::memory_bytes(settings))?;
        let cache = BlockCache::new(memory, settings.cache_bytes)?;
        let mut store = Self {
            active: MemTable::new(first)?,
            memories,
            settings,
            tables: Numbered::new(),
            next_tree,
            full: None,
            runs: Vec::new(),
            filters,
            cache: RefCell::new(cache),
            gaps: BTreeMap::new(),
            has_deleted: false,
            image: Vec::new(),
            spare: None,
        };
        for (def, trees) in tables {
            let table = Table::new(def.clone(), settings.layout)?;
            let trees: Arc<[TreeId]> = trees.iter().copied().map(TreeId).collect();
            if trees.len() != table.secondary.len() + 1 {
                return Err(damaged("a table has a wrong number of trees"));
            }
            store.add_table(Arc::new(table), trees)?;
        }
        store.active.commit();
        Ok(store)
    }

    fn memory_bytes(settings: StoreSettings) -> u64 {
        settings
            .memory_bytes
            .max(MemTable::<S::Memory>::bytes_min())
    }

    /// All tables with their trees.
    pub(crate) fn catalogue(&self) -> Vec<TableTrees> {
        let tables = self.tables.values();
        tables
            .map(|state| TableTrees {
                table: Arc::clone(&state.table),
                trees: Arc::clone(&state.trees),
            })
            .collect()
    }

    /// Makes the active MemTable the full one and begins a new one. There must be no full one, and
    /// no open transaction.
    pub(crate) fn freeze(&mut self) -> Result<()> {
        debug_assert!(self.full.is_none(), "a full MemTable is still on its way");
        let memory = match self.spare.take() {
            Some(memory) => memory,
            None => self.memories.volatile(Self::memory_bytes(self.settings))?,
        };
        let mut fresh = MemTable::new(memory)?;
        for entry in self.catalogue() {
            add_trees(&mut fresh, &entry, self.settings.node_bytes)?;
        }
        fresh.commit();
        self.full = Some(std::mem::replace(&mut self.active, fresh));
        Ok(())
    }

    /// One table.
    pub(crate) fn table(&self, id: TableId) -> Result<&Arc<Table>> {
        Ok(&find(&self.tables, id)?.table)
    }

    /// The volatile arenas.
    pub(crate) fn arenas(&self) -> impl Iterator<Item = &Arena<S::Memory>> {
        let mem_tables = std::iter::once(&self.active).chain(&self.full);
        let arenas = mem_tables.map(|mem_table| &mem_table.arena);
        arenas.chain(std::iter::once(self.filters.arena()))
    }

    /// Counts of the memories.
    pub(crate) fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        for arena in self.arenas() {
            sum += &arena.counters();
        }
        sum += &self.cache.borrow().counters();
        if let Some(spare) = &self.spare {
            sum += &spare.counters();
        }
        sum
    }

    /// Bytes of the blocks of runs in the cache.
    pub(crate) fn cache_bytes(&self) -> u64 {
        self.cache.borrow().bytes()
    }

    /// Everything that entries lie in.
    fn all(&self) -> Runs<'_, S, F> {
        Runs {
            active: &self.active,
            full: self.full.as_ref(),
            in_files: &self.runs,
            filters: &self.filters,
            cache: &self.cache,
        }
    }

    /// Gives the full MemTable up: it is in a run.
    pub(crate) fn drop_full(&mut self) {
        if let Some(full) = self.full.take() {
            debug_assert!(self.spare.is_none(), "the active one has the other memory");
            self.spare = Some(full.arena.into_memory());
        }
    }

    /// Bytes of all runs.
    pub(crate) fn run_bytes(&self) -> u64 {
        self.runs.iter().map(|leveled| leveled.run.bytes).sum()
    }

    pub(crate) fn savepoint(&self) -> MemTableSavepoint {
        self.active.savepoint()
    }

    pub(crate) fn rollback_to(&mut self, savepoint: MemTableSavepoint) -> Result<()> {
        self.active.rollback_to(savepoint)
    }

    pub(crate) fn commit(&mut self) {
        self.has_deleted = false;
        self.active.commit();
    }

    pub(crate) fn abort(&mut self) -> Result<()> {
        self.has_deleted = false;
        self.active.abort()
    }

    /// The state that a failed change of the schema has to restore.
    pub(crate) fn schema(&self) -> SavedSchema {
        SavedSchema {
            tables: self.catalogue(),
            trees: self.active.handles(),
        }
    }

    /// Brings definitions back, after the transaction that changed them was aborted.
    pub(crate) fn restore_schema(&mut self, saved: SavedSchema) {
        self.tables.clear();
        for TableTrees { table, trees } in saved.tables {
            self.put_table(table, trees);
        }
        self.active.set_trees(saved.trees);
    }

    /// Changes columns of the row with this key, which is `before` if the caller has read it; false
    /// if there is none.
    pub(crate) fn update_from(
        &mut self,
        id: TableId,
        key: &[u64],
        before: Option<&Row>,
        changes: &Changes,
    ) -> Result<bool> {
        let (mut trees, scratch) = self.trees(id)?;
        trees.before = before;
        rows::update(&mut trees, scratch, key, changes)
    }

    fn trees(&mut self, id: TableId) -> Result<(Trees<'_, S, F>, &mut Scratch)> {
        let state = find_mut(&mut self.tables, id)?;
        let trees = Trees {
            table: Arc::clone(&state.table),
            ids: Arc::clone(&state.trees),
            row: &mut state.row,
            before: None,
            active: &mut self.active,
            full: self.full.as_ref(),
            runs: &self.runs,
            filters: &self.filters,
            cache: &self.cache,
            gaps: &mut self.gaps,
            has_deleted: &mut self.has_deleted,
            image: &mut self.image,
        };
        Ok((trees, &mut state.scratch))
    }

    fn new_tree(&mut self) -> TreeId {
        self.next_tree += 1;
        TreeId(self.next_tree - 1)
    }

    /// The keys that a secondary index has to have, and whose they are.
    fn keys_of(&self, table: &Table, tree: TreeId, number: usize) -> Result<Vec<(KeyBuf, KeyBuf)>> {
        let words = table.primary.shape().words;
        let mut keys = Vec::new();
        let mut row = Row::new(Arc::clone(&table.layout));
        let all = Range {
            tree,
            low: KeyBuf::from_words(&[0; MAX_KEY_WORDS][..words]),
            high: KeyBuf::from_words(&[u64::MAX; MAX_KEY_WORDS][..words]),
            direction: Direction::Forward,
        };
        self.all().scan(&all, &mut |own, entries| {
            if coalesce(entries, &mut row)? {
                let mut key = KeyBuf::default();
                table.secondary[number].encode_row(&row, &mut key)?;
                keys.push((key, KeyBuf::from_words(own)));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(keys)
    }

    fn add_table(&mut self, table: Arc<Table>, trees: Arc<[TreeId]>) -> Result<()> {
        let entry = TableTrees { table, trees };
        add_trees(&mut self.active, &entry, self.settings.node_bytes)?;
        self.put_table(entry.table, entry.trees);
        Ok(())
    }

    fn put_table(&mut self, table: Arc<Table>, trees: Arc<[TreeId]>) {
        let state = TableState {
            scratch: Scratch::new(&table),
            row: Row::new(Arc::clone(&table.layout)),
            table,
            trees,
        };
        self.tables.insert(state.table.def.id, state);
    }

    fn shape(&self, key_words: usize) -> IndexShape {
        IndexShape {
            node_bytes: self.settings.node_bytes,
            key_words,
        }
    }

    /// Checks MemTables, runs, and every index against its table.
    pub(crate) fn check(&self, report: &mut VerifyReport) {
        self.active.check(report);
        if let Some(full) = &self.full {
            full.check(report);
        }
        for leveled in &self.runs {
            leveled.run.check(&mut report.damage);
        }
        for state in self.tables.values() {
            if let Err(error) = self.check_table(state, report) {
                let name = &state.table.def.name;
                report.damage.push(format!("table `{name}`: {error}"));
            }
        }
    }

    fn check_table(&self, state: &TableState, report: &mut VerifyReport) -> Result<()> {
        let table = &state.table;
        let name = &table.def.name;
        let words = table.primary.shape().words;
        let mut row = Row::new(Arc::clone(&table.layout));
        let mut expected = vec![Vec::new(); table.secondary.len()];
        let whole = |tree: TreeId, words: usize| Range {
            tree,
            low: KeyBuf::from_words(&[0; MAX_KEY_WORDS][..words]),
            high: KeyBuf::from_words(&[u64::MAX; MAX_KEY_WORDS][..words]),
            direction: Direction::Forward,
        };
        let runs = self.all();
        let primary = whole(state.trees[0], words);
        runs.scan(&primary, &mut |key, entries| {
            if coalesce(entries, &mut row)? {
                report.rows += 1;
                report.index_entries += 1;
                row.check_values()?;
                let mut own = KeyBuf::default();
                table.primary.encode_row(&row, &mut own)?;
                if *own != *key {
                    let text = "a row stands under another key than its own";
                    report.damage.push(format!("table `{name}`: {text}"));
                }
                for (number, keys) in expected.iter_mut().enumerate() {
                    let mut secondary = KeyBuf::default();
                    table.secondary[number].encode_row(&row, &mut secondary)?;
                    keys.push((secondary, own.clone()));
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        for (number, mut keys) in expected.into_iter().enumerate() {
            keys.sort();
            let index = &table.def.indexes[number];
            let tree = state.trees[number + 1];
            let mut found = Vec::new();
            let range = whole(tree, table.secondary[number].shape().words);
            runs.scan(&range, &mut |key, entries| {
                if let Some((EntryKind::Row, owner)) = entries.first() {
                    let mut own = KeyBuf::default();
                    read_owner(owner, words, &mut own)?;
                    found.push((KeyBuf::from_words(key), own));
                }
                Ok(ControlFlow::Continue(()))
            })?;
            report.index_entries += found.len() as u64;
            if found != keys {
                report.damage.push(format!(
                    "table `{name}`: index `{}` has {} entries, not those of the {} rows",
                    index.name,
                    found.len(),
                    keys.len()
                ));
            }
        }
        Ok(())
    }
}

impl<S: MemorySource, F: File> Space for Store<S, F> {
    fn tables(&self) -> Vec<Arc<Table>> {
        let tables = self.tables.values();
        tables.map(|state| Arc::clone(&state.table)).collect()
    }

    fn create_table(&mut self, def: &TableDef) -> Result<()> {
        if find(&self.tables, def.id).is_ok() {
            let text = format!("table number {} is taken", def.id.0);
            return Err(StorageError::Unsupported(text));
        }
        let table = Arc::new(Table::new(def.clone(), self.settings.layout)?);
        let trees = (0..=table.secondary.len())
            .map(|_| self.new_tree())
            .collect();
        self.add_table(table, trees)
    }

    fn drop_table(&mut self, id: TableId) -> Result<()> {
        let trees = Arc::clone(&find(&self.tables, id)?.trees);
        for &tree in trees.iter() {
            self.active.drop_tree(tree)?;
        }
        self.tables.remove(&id);
        Ok(())
    }

    fn create_index(&mut self, id: TableId, index: &IndexDef) -> Result<()> {
        let old = find(&self.tables, id)?;
        let (mut def, mut trees) = (old.table.def.clone(), old.trees.to_vec());
        let primary = trees[0];
        def.indexes.push(index.clone());
        let table = Arc::new(Table::new(def, self.settings.layout)?);
        let number = table.secondary.len() - 1;
        let shape = self.shape(table.secondary[number].shape().words);
        let tree = self.new_tree();
        self.active.add_tree(tree, shape)?;
        trees.push(tree);
        let keys = self.keys_of(&table, primary, number)?;
        self.put_table(Arc::clone(&table), trees.into());
        for (key, own) in keys {
            let (mut trees, _) = self.trees(id)?;
            if rows::Trees::has_key(&mut trees, number, &key)? {
                let mut row = Row::new(Arc::clone(&table.layout));
                self.get(id, &own, &mut row)?;
                return Err(table.duplicate(Some(number), &row));
            }
            rows::Trees::add_key(&mut trees, number, &key, &own)?;
        }
        Ok(())
    }

    fn drop_index(&mut self, id: TableId, index: IndexId) -> Result<()> {
        let old = find(&self.tables, id)?;
        let number = old.table.index_number(index)?;
        let (mut def, mut trees) = (old.table.def.clone(), old.trees.to_vec());
        def.indexes.remove(number);
        let tree = trees.remove(number + 1);
        let table = Arc::new(Table::new(def, self.settings.layout)?);
        self.active.drop_tree(tree)?;
        self.put_table(table, trees.into());
        Ok(())
    }

    #[inline]
    fn get(&mut self, id: TableId, key: &[u64], row: &mut Row) -> Result<bool> {
        let tree = find(&self.tables, id)?.trees[0];
        self.all().read(tree, key, row)
    }

    fn get_many(
        &mut self,
        id: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        let state = find(&self.tables, id)?;
        let mut row = state.row.clone();
        self.all().read_many(state.trees[0], keys, &mut row, visit)
    }

    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        let state = find(&self.tables, range.table)?;
        let primary = state.trees[0];
        let words = state.table.primary.shape().words;
        let mut row = state.row.clone();
        let mut read = Range {
            tree: primary,
            low: range.low.clone(),
            high: range.high.clone(),
            direction: range.direction,
        };
        let index = match range.index {
            Some(id) => Some(state.trees[state.table.index_number(id)? + 1]),
            None => None,
        };
        read.tree = index.unwrap_or(primary);
        let is_forward = range.direction == Direction::Forward;
        if is_forward
            && let Some(gaps) = self.gaps.get(&read.tree)
            && !gaps.skip(&mut read.low)
        {
            return Ok(());
        }
        let (mut key, mut dead) = (KeyBuf::default(), Dead::default());
        let runs = self.all();
        runs.scan(&read, &mut |found, entries| {
            let is_row = match (index, entries.first()) {
                (None, _) => coalesce(entries, &mut row)?,
                (Some(_), Some((EntryKind::Row, owner))) => {
                    read_owner(owner, words, &mut key)?;
                    if !runs.read(primary, &key, &mut row)? {
                        return Err(damaged("an index entry leads to no row"));
                    }
                    true
                }
                _ => false,
            };
            if !is_row {
                dead.key(found);
                return Ok(ControlFlow::Continue(()));
            }
            dead.row();
            Ok(visit(&row))
        })?;
        if is_forward && !self.has_deleted && dead.is_worth_it() {
            let gaps = self.gaps.entry(read.tree).or_default();
            gaps.note(&range.low, &dead);
        }
        Ok(())
    }

    fn insert(&mut self, id: TableId, row: &Row) -> Result<()> {
        let (mut trees, scratch) = self.trees(id)?;
        rows::insert(&mut trees, scratch, row)
    }

    fn update(&mut self, id: TableId, key: &[u64], changes: &Changes) -> Result<bool> {
        self.update_from(id, key, None, changes)
    }

    fn delete(&mut self, id: TableId, key: &[u64]) -> Result<bool> {
        let (mut trees, scratch) = self.trees(id)?;
        rows::delete(&mut trees, scratch, key)
    }
}

fn add_trees<M: pmem::Memory>(
    mem_table: &mut MemTable<M>,
    entry: &TableTrees,
    node_bytes: usize,
) -> Result<()> {
    let encoders = std::iter::once(&entry.table.primary).chain(&entry.table.secondary);
    for (&tree, encoder) in entry.trees.iter().zip(encoders) {
        let shape = IndexShape {
            node_bytes,
            key_words: encoder.shape().words,
        };
        mem_table.add_tree(tree, shape)?;
    }
    Ok(())
}

/// Makes a row of the entries for a key, newest first; false if that is no row.
pub(crate) fn coalesce(entries: &[Entry<'_>], row: &mut Row) -> Result<bool> {
    let deltas = entries
        .iter()
        .take_while(|(kind, _)| *kind == EntryKind::Delta)
        .count();
    match entries.get(deltas) {
        Some((EntryKind::Row, image)) => {
            read_image(image, row)?;
            for (_, delta) in entries[..deltas].iter().rev() {
                apply_delta(delta, row).map_err(|error| unreadable(&error))?;
            }
            Ok(true)
        }
        _ if deltas == 0 => Ok(false),
        _ => Err(damaged("an entry changes a row that is not there")),
    }
}

pub(super) fn read_image(image: &[u8], row: &mut Row) -> Result<()> {
    if row.read_image(image) {
        Ok(())
    } else {
        Err(damaged("an entry is shorter than a tuple"))
    }
}

/// Reads the primary key that an index entry holds.
fn read_owner(bytes: &[u8], words: usize, key: &mut KeyBuf) -> Result<()> {
    let (chunks, rest) = bytes.as_chunks::<8>();
    if chunks.len() != words || !rest.is_empty() {
        return Err(damaged("an index entry holds no primary key"));
    }
    for (word, bytes) in key.resized(words).iter_mut().zip(chunks) {
        *word = u64::from_le_bytes(*bytes);
    }
    Ok(())
}

#[cold]
pub(super) fn damaged(detail: &str) -> StorageError {
    PmemError::corrupted("log-structured tree", 0, detail).into()
}

#[cold]
pub(crate) fn unreadable(error: &ImageError) -> StorageError {
    PmemError::corrupted("log-structured tree", 0, error.to_string()).into()
}

/// A table's trees in an open transaction.
pub(super) struct Trees<'t, S: MemorySource, F: File> {
    pub(super) table: Arc<Table>,
    ids: Arc<[TreeId]>,
    pub(super) row: &'t mut Row,
    /// The row that is changed, if the caller has read it already.
    pub(super) before: Option<&'t Row>,
    pub(super) active: &'t mut MemTable<S::Memory>,
    full: Option<&'t MemTable<S::Memory>>,
    runs: &'t [LeveledRun<F>],
    filters: &'t Filters<S::Memory>,
    cache: &'t RefCell<BlockCache<S::Memory>>,
    gaps: &'t mut BTreeMap<TreeId, Gaps>,
    has_deleted: &'t mut bool,
    pub(super) image: &'t mut Vec<u8>,
}

impl<S: MemorySource, F: File> Trees<'_, S, F> {
    pub(super) fn primary(&self) -> TreeId {
        self.ids[0]
    }

    pub(super) fn secondary(&self, number: usize) -> TreeId {
        self.ids[number + 1]
    }

    /// Reads the row with this key into the table's own.
    pub(super) fn read_own(&mut self, key: &[u64]) -> Result<bool> {
        let runs: Runs<'_, S, F> = Runs {
            active: self.active,
            full: self.full,
            in_files: self.runs,
            filters: self.filters,
            cache: self.cache,
        };
        runs.read(self.ids[0], key, self.row)
    }

    fn all(&self) -> Runs<'_, S, F> {
        Runs {
            active: self.active,
            full: self.full,
            in_files: self.runs,
            filters: self.filters,
            cache: self.cache,
        }
    }

    /// Writes `image` as a row, or as an entry of an index, which ends a gap that its key lies in.
    pub(super) fn put_live(&mut self, tree: TreeId, key: &[u64]) -> Result<()> {
        if let Some(gaps) = self.gaps.get_mut(&tree) {
            gaps.fill(key);
        }
        self.active.put(tree, key, EntryKind::Row, self.image)
    }

    /// Writes that a tree has no such key any more.
    pub(super) fn put_dead(&mut self, tree: TreeId, key: &[u64]) -> Result<()> {
        *self.has_deleted = true;
        self.active.put(tree, key, EntryKind::Tombstone, self.image)
    }

    pub(super) fn newest(&self, tree: TreeId, key: &[u64]) -> Result<Option<(EntryKind, usize)>> {
        self.all().newest(tree, key)
    }

    pub(super) fn read(&self, key: &[u64], row: &mut Row) -> Result<bool> {
        self.all().read(self.primary(), key, row)
    }
}
