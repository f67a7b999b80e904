//! The tables of one partition that is copied on write.
//!
//! Every table has a primary tree, whose values are rows ([`Rows`]), and a tree a secondary index,
//! whose values are primary keys. So an update of a row moves it without touching the secondary
//! indexes, unless it changes their columns.
//!
//! The directory is a tree itself, with keys of two words and contents as values:
//!
//! | key | value |
//! |---|---|
//! | table number, 0 | the table's definition |
//! | table number, 1 | root of the primary tree, 8 bytes |
//! | table number, 2 + index number | root of the index's tree, 8 bytes |
//!
//! When a statement has moved the root of a tree for the first time in its group, the path to the
//! tree's entry in the directory is made dirty, so that the end of the group needs no space. A
//! statement that fails leaves changes; the engine rolls the trees back to where it began.

mod check;
mod rows;
mod views;

pub use rows::{ImageRows, Rows, TupleRows};
pub use views::ViewRows;

use super::Space;
use super::space::tag;
use crate::index::cow::{Purpose, Value};
use crate::index::trees::Trees;
use pmem::PmemError;
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::engine::{Direction, ScanRange};
use storage::probe::{self, Activity};
use storage::record::{Changes, IndexDef, IndexId, KeyBuf, LayoutKind, Row, TableDef, TableId};
use storage::table::{Numbered, Table, find, find_mut};
use storage::{Result, StorageError};

/// Words of a key of the directory.
const DIRECTORY_KEY_WORDS: usize = 2;
const DEFINITION: u64 = 0;
const PRIMARY: u64 = 1;
const SECONDARY: u64 = 2;

/// All tables of one partition.
pub struct CowSpace<T: Trees, R> {
    /// All trees, the directory among them.
    pub trees: T,
    directory: T::Tree,
    layout: LayoutKind,
    tables: Numbered<TableState<T, R>>,
    /// The directory's key of each tree, in the order of their numbers.
    tree_keys: Vec<[u64; DIRECTORY_KEY_WORDS]>,
}

/// One table that is open.
struct TableState<T: Trees, R> {
    table: Arc<Table>,
    rows: R,
    primary: T::Tree,
    secondary: Vec<T::Tree>,
    row: Row,
    changed: Row,
    key: KeyBuf,
    primary_key: KeyBuf,
}

impl<T: Trees, R: Rows<T>> CowSpace<T, R> {
    /// The tables that the directory of `trees` has.
    pub fn open(trees: T, layout: LayoutKind) -> Result<Self> {
        let directory = trees.directory_tree(DIRECTORY_KEY_WORDS)?;
        let mut space = Self {
            trees,
            directory,
            layout: R::layout(layout),
            tables: Numbered::new(),
            tree_keys: Vec::new(),
        };
        space.reload()?;
        Ok(space)
    }

    /// Reads all definitions again. Nothing may be dirty.
    pub fn reload(&mut self) -> Result<()> {
        self.tables.clear();
        self.trees.forget_trees();
        self.tree_keys = vec![[0; DIRECTORY_KEY_WORDS]];
        let (low, high) = ([0; DIRECTORY_KEY_WORDS], [u64::MAX; DIRECTORY_KEY_WORDS]);
        let mut definitions = Vec::new();
        let mut roots = Vec::new();
        let directory = self.directory;
        self.trees.scan(
            directory,
            (&low, &high),
            Direction::Forward,
            0,
            &mut |_, key, value| {
                if key[1] == DEFINITION {
                    definitions.push((key[0], value.bytes().to_vec()));
                } else if let Ok(root) = value.bytes().try_into() {
                    roots.push(([key[0], key[1]], u64::from_le_bytes(root)));
                }
                Ok(ControlFlow::Continue(()))
            },
        )?;
        for (id, image) in definitions {
            let wrong = |text: String| PmemError::corrupted("table definition", id, text);
            let def = TableDef::decode(&image).map_err(|error| wrong(error.to_string()))?;
            let root_of = |key: [u64; DIRECTORY_KEY_WORDS]| {
                let found = roots.binary_search_by_key(&key, |&(key, _)| key);
                found.map(|at| roots[at].1)
            };
            if u64::from(def.id.0) != id {
                return Err(wrong("it is another table's".to_owned()).into());
            }
            let state = self.table_state(&def, &mut |key| {
                root_of(key).map_err(|_| wrong("a root is missing".to_owned()).into())
            })?;
            self.add(state);
        }
        Ok(())
    }

    /// A table with its trees. `root` gives the root of each.
    fn table_state(
        &mut self,
        def: &TableDef,
        root: &mut dyn FnMut([u64; DIRECTORY_KEY_WORDS]) -> Result<u64>,
    ) -> Result<TableState<T, R>> {
        let table = Arc::new(Table::new(def.clone(), self.layout)?);
        let id = u64::from(def.id.0);
        let key_words = table.primary.shape().words;
        let mut tree = |space: &mut Self, name: u64, key_words, value_words| -> Result<T::Tree> {
            let key = [id, name];
            let tree = space.trees.add_tree(root(key)?, key_words, value_words)?;
            space.tree_keys.truncate(T::number(tree));
            space.tree_keys.push(key);
            assert_eq!(
                space.tree_keys.len(),
                T::number(tree) + 1,
                "the number of a tree leads to its key in the directory"
            );
            Ok(tree)
        };
        let primary = tree(self, PRIMARY, key_words, R::VALUE_WORDS)?;
        let mut secondary = Vec::with_capacity(def.indexes.len());
        for (index, encoder) in def.indexes.iter().zip(&table.secondary) {
            let name = SECONDARY + u64::from(index.id.0);
            secondary.push(tree(self, name, encoder.shape().words, key_words)?);
        }
        Ok(TableState {
            rows: R::new(&table, tag(def.id)),
            row: Row::new(Arc::clone(&table.layout)),
            changed: Row::new(Arc::clone(&table.layout)),
            table,
            primary,
            secondary,
            key: KeyBuf::default(),
            primary_key: KeyBuf::default(),
        })
    }

    /// Layout of the rows.
    pub fn layout(&self) -> LayoutKind {
        self.layout
    }

    /// The table with another definition in the directory; trees that it had before go on. Nothing
    /// else may be dirty.
    fn changed_table(&mut self, def: &TableDef) -> Result<TableState<T, R>> {
        let id = u64::from(def.id.0);
        let definition = def.encode();
        let key = [id, DEFINITION];
        let is_there = self
            .trees
            .replace(self.directory, &key, Value::Bytes(&definition))?;
        assert!(
            is_there,
            "a table that is open has its definition in the directory"
        );
        let old = self.find(def.id)?;
        let trees = std::iter::once(&old.primary).chain(&old.secondary);
        let known: Vec<_> = trees
            .map(|tree| (self.tree_keys[T::number(*tree)], T::number(*tree)))
            .collect();
        let roots: Vec<_> = known
            .into_iter()
            .map(|(key, tree)| (key, self.trees.committed_root(tree)))
            .collect();
        self.table_state(def, &mut |wanted| {
            let found = roots.iter().find(|(key, _)| *key == wanted);
            Ok(found.map_or(0, |&(_, root)| root))
        })
    }

    fn put_entry(&mut self, key: [u64; DIRECTORY_KEY_WORDS], value: &[u8]) -> Result<()> {
        let value = Value::Bytes(value);
        if self.trees.insert(self.directory, &key, value)? {
            return Ok(());
        }
        let text = format!("the directory has an entry {key:?} already");
        Err(StorageError::Unsupported(text))
    }

    /// Makes the directory ready for the new roots of a table's trees.
    fn end_operation(&mut self, id: TableId) -> Result<()> {
        let state = find_mut(&mut self.tables, id)?;
        for at in 0..=state.secondary.len() {
            let tree = match at.checked_sub(1) {
                None => state.primary,
                Some(number) => state.secondary[number],
            };
            if self.trees.wants_touch(T::number(tree)) {
                let key = self.tree_keys[T::number(tree)];
                touch(&mut self.trees, self.directory, tree, key)?;
            }
        }
        self.trees.end_operation()
    }

    /// Makes the directory ready for the new roots of all trees, after a change of definitions.
    fn end_definition(&mut self) -> Result<()> {
        let ids: Vec<_> = self.tables().iter().map(|table| table.def.id).collect();
        for id in ids {
            self.end_operation(id)?;
        }
        self.trees.end_operation()
    }

    /// Makes the way to a tree's entry in the directory ready.
    fn add_touch(&mut self, tree: T::Tree) -> Result<()> {
        let key = self.tree_keys[T::number(tree)];
        touch(&mut self.trees, self.directory, tree, key)
    }

    /// Writes the new roots into the directory, for which everything is ready.
    pub fn write_roots(&mut self) -> Result<()> {
        for (tree, root) in self.trees.roots_to_write() {
            let key = self.tree_keys[tree];
            let value = root.to_le_bytes();
            let is_there = self
                .trees
                .replace(self.directory, &key, Value::Bytes(&value))?;
            assert!(
                is_there,
                "a tree that has changed has an entry in the directory"
            );
        }
        Ok(())
    }

    fn find(&self, id: TableId) -> Result<&TableState<T, R>> {
        find(&self.tables, id)
    }

    fn add(&mut self, state: TableState<T, R>) {
        self.tables.insert(state.table.def.id, state);
    }
}

impl<T: Trees, R: Rows<T>> Space for CowSpace<T, R> {
    fn tables(&self) -> Vec<Arc<Table>> {
        let open = self.tables.values();
        open.map(|state| Arc::clone(&state.table)).collect()
    }

    fn create_table(&mut self, def: &TableDef) -> Result<()> {
        self.trees.begin_statement(Purpose::Copy);
        if self.find(def.id).is_ok() {
            let text = format!("table number {} is taken", def.id.0);
            return Err(StorageError::Unsupported(text));
        }
        let state = self.table_state(def, &mut |_| Ok(0))?;
        self.put_entry([u64::from(def.id.0), DEFINITION], &def.encode())?;
        for tree in std::iter::once(&state.primary).chain(&state.secondary) {
            let key = self.tree_keys[T::number(*tree)];
            self.put_entry(key, &[0; 8])?;
        }
        self.add(state);
        self.end_definition()
    }

    fn drop_table(&mut self, id: TableId) -> Result<()> {
        self.trees.begin_statement(Purpose::Copy);
        let state = find_mut(&mut self.tables, id)?;
        let (trees, rows) = (&mut self.trees, &mut state.rows);
        trees.clear(state.primary, &mut |trees, value| rows.leave(trees, value))?;
        for index in &state.secondary {
            trees.clear(*index, &mut |_, _| Ok(()))?;
        }
        let trees = std::iter::once(&state.primary).chain(&state.secondary);
        let keys: Vec<_> = trees.map(|tree| self.tree_keys[T::number(*tree)]).collect();
        let definition = [u64::from(id.0), DEFINITION];
        self.trees.remove(self.directory, &definition)?;
        for key in keys {
            self.trees.remove(self.directory, &key)?;
        }
        self.tables.remove(&id);
        self.end_definition()
    }

    fn create_index(&mut self, id: TableId, index: &IndexDef) -> Result<()> {
        self.trees.begin_statement(Purpose::Copy);
        let mut def = self.find(id)?.table.def.clone();
        def.indexes.push(index.clone());
        let mut state = self.changed_table(&def)?;
        let tree = state.secondary[state.secondary.len() - 1];
        let key = self.tree_keys[T::number(tree)];
        self.put_entry(key, &[0; 8])?;
        self.add_touch(tree)?;
        let number = state.secondary.len() - 1;
        assert_eq!(
            state.table.def.indexes[number].id, index.id,
            "a new index is the last one of its table"
        );
        let primary = state.primary;
        let words = state.table.primary.shape().words;
        let (low, high) = (vec![0; words], vec![u64::MAX; words]);
        let state_ref = &mut state;
        self.trees.scan(
            primary,
            (&low, &high),
            Direction::Forward,
            0,
            &mut |trees, primary_key, value| {
                let TableState {
                    rows,
                    row,
                    key,
                    table,
                    secondary,
                    ..
                } = &mut *state_ref;
                rows.read(trees, value, row)?;
                table.secondary[number].encode_row(row, key)?;
                if trees.insert(secondary[number], key, Value::Words(primary_key))? {
                    Ok(ControlFlow::Continue(()))
                } else {
                    Err(table.duplicate(Some(number), row))
                }
            },
        )?;
        self.add(state);
        self.end_definition()
    }

    fn drop_index(&mut self, id: TableId, index: IndexId) -> Result<()> {
        self.trees.begin_statement(Purpose::Copy);
        let state = self.find(id)?;
        let number = state.table.index_number(index)?;
        let tree = state.secondary[number];
        let mut def = state.table.def.clone();
        def.indexes.remove(number);
        self.trees.clear(tree, &mut |_, _| Ok(()))?;
        let key = self.tree_keys[T::number(tree)];
        self.trees.remove(self.directory, &key)?;
        let state = self.changed_table(&def)?;
        self.add(state);
        self.end_definition()
    }

    #[inline]
    fn get(&mut self, id: TableId, key: &[u64], row: &mut Row) -> Result<bool> {
        let state = find_mut(&mut self.tables, id)?;
        state.rows.get(&mut self.trees, state.primary, key, row)
    }

    fn get_many(
        &mut self,
        id: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        let state = find_mut(&mut self.tables, id)?;
        let (rows, row) = (&mut state.rows, &mut state.row);
        rows.get_many(&mut self.trees, state.primary, keys, row, visit)
    }

    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        let state = find_mut(&mut self.tables, range.table)?;
        let (rows, row, primary) = (&mut state.rows, &mut state.row, state.primary);
        let (bounds, direction) = ((&*range.low, &*range.high), range.direction);
        let trees = &mut self.trees;
        let Some(id) = range.index else {
            let block_bytes = rows.block_bytes();
            let mut read = |trees: &mut T, _: &[u64], value: Value<'_>| {
                rows.read(trees, value, row)?;
                Ok(visit(row))
            };
            return trees.scan(primary, bounds, direction, block_bytes, &mut read);
        };
        let index = state.secondary[state.table.index_number(id)?];
        trees.scan(index, bounds, direction, 0, &mut |trees, key, value| {
            if rows.get(trees, primary, value.words(), row)? {
                return Ok(visit(row));
            }
            let text = format!("key {key:x?} has no row");
            Err(PmemError::corrupted("secondary index", 0, text).into())
        })
    }

    fn insert(&mut self, id: TableId, row: &Row) -> Result<()> {
        let _database = probe::begin(Activity::Database);
        self.trees.begin_statement(Purpose::CopyToAdd);
        let state = find_mut(&mut self.tables, id)?;
        let (trees, table) = (&mut self.trees, &state.table);
        table.primary.encode_row(row, &mut state.primary_key)?;
        if !state
            .rows
            .insert(trees, state.primary, &state.primary_key, row)?
        {
            return Err(table.duplicate(None, row));
        }
        for (number, index) in state.secondary.iter().enumerate() {
            table.secondary[number].encode_row(row, &mut state.key)?;
            if !trees.insert(*index, &state.key, Value::Words(&state.primary_key))? {
                return Err(table.duplicate(Some(number), row));
            }
        }
        self.end_operation(id)
    }

    fn update(&mut self, id: TableId, key: &[u64], changes: &Changes) -> Result<bool> {
        let _database = probe::begin(Activity::Database);
        self.trees.begin_statement(Purpose::Copy);
        let state = find_mut(&mut self.tables, id)?;
        if state.table.changes_an_index(changes)
            && !state.update_keys(&mut self.trees, key, changes)?
        {
            return Ok(false);
        }
        if !state
            .rows
            .update(&mut self.trees, state.primary, key, changes)?
        {
            return Ok(false);
        }
        self.end_operation(id)?;
        Ok(true)
    }

    fn delete(&mut self, id: TableId, key: &[u64]) -> Result<bool> {
        let _database = probe::begin(Activity::Database);
        self.trees.begin_statement(Purpose::Copy);
        let state = find_mut(&mut self.tables, id)?;
        let (trees, table) = (&mut self.trees, &state.table);
        if !state.secondary.is_empty() {
            if !state.rows.get(trees, state.primary, key, &mut state.row)? {
                return Ok(false);
            }
            for (number, index) in state.secondary.iter().enumerate() {
                table.secondary[number].encode_row(&state.row, &mut state.key)?;
                trees.remove(*index, &state.key)?;
            }
        }
        if !state.rows.remove(trees, state.primary, key)? {
            return Ok(false);
        }
        self.end_operation(id)?;
        Ok(true)
    }
}

/// Makes a tree's entry in the directory ready for its new root.
fn touch<T: Trees>(
    trees: &mut T,
    directory: T::Tree,
    tree: T::Tree,
    key: [u64; DIRECTORY_KEY_WORDS],
) -> Result<()> {
    if trees.touch(directory, tree, &key)? {
        return Ok(());
    }
    let text = format!("it has no entry {key:?}");
    Err(PmemError::corrupted("directory", 0, text).into())
}

impl<T: Trees, R: Rows<T>> TableState<T, R> {
    /// Moves the entries of those secondary indexes whose key the changes alter; false if the row
    /// is not there.
    fn update_keys(
        &mut self,
        trees: &mut T,
        primary_key: &[u64],
        changes: &Changes,
    ) -> Result<bool> {
        if !self
            .rows
            .get(trees, self.primary, primary_key, &mut self.row)?
        {
            return Ok(false);
        }
        self.rows
            .get(trees, self.primary, primary_key, &mut self.changed)?;
        changes.apply(&mut self.changed)?;
        let mut new = KeyBuf::default();
        for (number, index) in self.secondary.iter().enumerate() {
            let encoder = &self.table.secondary[number];
            encoder.encode_row(&self.row, &mut self.key)?;
            encoder.encode_row(&self.changed, &mut new)?;
            if *self.key == *new {
                continue;
            }
            if !trees.insert(*index, &new, Value::Words(primary_key))? {
                return Err(self.table.duplicate(Some(number), &self.changed));
            }
            trees.remove(*index, &self.key)?;
        }
        Ok(true)
    }
}
