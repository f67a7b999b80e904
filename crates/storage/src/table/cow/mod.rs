//! The tables of one partition that is copied on write.
//!
//! Every table has a primary tree, whose values are rows ([`Rows`]), and a tree a secondary index, whose values are primary
//! keys. So an update of a row moves it without touching the secondary indexes, unless it changes their columns.
//!
//! The directory is a tree itself, with keys of two words and contents as values:
//!
//! | key | value |
//! |---|---|
//! | table number, 0 | the table's definition |
//! | table number, 1 | root of the primary tree, 8 bytes |
//! | table number, 2 + index number | root of the index's tree, 8 bytes |
//!
//! When a statement has moved the root of a tree for the first time in its group, the way to the tree's entry in the
//! directory is made dirty, so that the end of the group needs no space. A statement that fails leaves changes behind; the
//! engine rolls the pages back to where it began.

mod check;
mod rows;
mod views;

pub use rows::{ImageRows, Rows, TupleRows};
pub use views::ViewRows;

use super::Table;
use super::space::{duplicate, index_number, tag};
use crate::engine::{Direction, ScanRange};
use crate::error::{Result, StorageError};
use crate::index::cow::{CowTree, PageStore, Pages, Shape, Value};
use crate::record::{Changes, IndexDef, IndexId, KeyBuf, LayoutKind, Row, TableDef, TableId};
use pmem::PmemError;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Words of a key of the directory.
const DIRECTORY_KEY_WORDS: usize = 2;
const DEFINITION: u64 = 0;
const PRIMARY: u64 = 1;
const SECONDARY: u64 = 2;

/// All tables of one partition.
pub struct CowSpace<S: PageStore, R> {
    /// The pages of all trees.
    pub pages: Pages<S>,
    directory: CowTree,
    layout: LayoutKind,
    tables: Vec<Option<TableState<R>>>,
    /// The directory's key of each tree, in the order of their numbers.
    tree_keys: Vec<[u64; DIRECTORY_KEY_WORDS]>,
}

/// One table that is open.
struct TableState<R> {
    table: Arc<Table>,
    rows: R,
    primary: CowTree,
    secondary: Vec<CowTree>,
    row: Row,
    changed: Row,
    key: KeyBuf,
    primary_key: KeyBuf,
}

impl<S: PageStore, R: Rows<S>> CowSpace<S, R> {
    /// The tables that the directory of `pages` has.
    pub fn open(pages: Pages<S>, layout: LayoutKind) -> Result<Self> {
        let shape = Shape::new(pages.page_bytes(), DIRECTORY_KEY_WORDS, 0)?;
        let mut space = Self {
            pages,
            directory: CowTree::new(0, shape),
            layout: R::layout(layout),
            tables: Vec::new(),
            tree_keys: Vec::new(),
        };
        space.reload()?;
        Ok(space)
    }

    /// Reads all definitions again. Nothing may be dirty.
    pub fn reload(&mut self) -> Result<()> {
        self.tables.clear();
        self.pages.forget_trees();
        self.tree_keys = vec![[0; DIRECTORY_KEY_WORDS]];
        let (low, high) = ([0; DIRECTORY_KEY_WORDS], [u64::MAX; DIRECTORY_KEY_WORDS]);
        let mut definitions = Vec::new();
        let mut roots = Vec::new();
        let directory = self.directory;
        directory.scan(
            &mut self.pages,
            &low,
            &high,
            Direction::Forward,
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

    /// A table with its trees. `root` is asked for the root of each.
    fn table_state(
        &mut self,
        def: &TableDef,
        root: &mut dyn FnMut([u64; DIRECTORY_KEY_WORDS]) -> Result<u64>,
    ) -> Result<TableState<R>> {
        let table = Arc::new(Table::new(def.clone(), self.layout)?);
        let page_bytes = self.pages.page_bytes();
        let id = u64::from(def.id.0);
        let key_words = table.primary.shape().words;
        let mut tree = |space: &mut Self, name: u64, shape: Shape| -> Result<CowTree> {
            let key = [id, name];
            let number = space.pages.add_tree(root(key)?);
            space.tree_keys.truncate(number);
            space.tree_keys.push(key);
            Ok(CowTree::new(number, shape))
        };
        let shape = Shape::new(page_bytes, key_words, R::VALUE_WORDS)?;
        let primary = tree(self, PRIMARY, shape)?;
        let mut secondary = Vec::with_capacity(def.indexes.len());
        for (index, encoder) in def.indexes.iter().zip(&table.secondary) {
            let shape = Shape::new(page_bytes, encoder.shape().words, key_words)?;
            secondary.push(tree(self, SECONDARY + u64::from(index.id.0), shape)?);
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

    /// How rows are laid out.
    pub fn layout(&self) -> LayoutKind {
        self.layout
    }

    /// Definitions of all tables, in the order of their numbers.
    pub fn tables(&self) -> Vec<Arc<Table>> {
        let open = self.tables.iter().flatten();
        open.map(|state| Arc::clone(&state.table)).collect()
    }

    /// Makes an empty table.
    pub fn create_table(&mut self, def: &TableDef) -> Result<()> {
        if self.find(def.id).is_ok() {
            let text = format!("table number {} is taken", def.id.0);
            return Err(StorageError::Unsupported(text));
        }
        let state = self.table_state(def, &mut |_| Ok(0))?;
        self.put_entry([u64::from(def.id.0), DEFINITION], &def.encode())?;
        for tree in std::iter::once(&state.primary).chain(&state.secondary) {
            let key = self.tree_keys[tree.number()];
            self.put_entry(key, &[0; 8])?;
        }
        self.add(state);
        Ok(())
    }

    /// Drops a table and gives up everything that it holds.
    pub fn drop_table(&mut self, id: TableId) -> Result<()> {
        let state = find_mut(&mut self.tables, id)?;
        let (pages, rows) = (&mut self.pages, &mut state.rows);
        state
            .primary
            .clear(pages, &mut |pages, value| rows.leave(pages, value))?;
        for index in &state.secondary {
            index.clear(pages, &mut |_, _| Ok(()))?;
        }
        let trees = std::iter::once(&state.primary).chain(&state.secondary);
        let keys: Vec<_> = trees.map(|tree| self.tree_keys[tree.number()]).collect();
        self.directory
            .remove(&mut self.pages, &[u64::from(id.0), DEFINITION])?;
        for key in keys {
            self.directory.remove(&mut self.pages, &key)?;
        }
        self.tables[id.0 as usize] = None;
        Ok(())
    }

    /// Builds a secondary index over the rows that are there.
    pub fn create_index(&mut self, id: TableId, index: &IndexDef) -> Result<()> {
        let mut def = self.find(id)?.table.def.clone();
        def.indexes.push(index.clone());
        let mut state = self.changed_table(&def)?;
        let tree = state.secondary[state.secondary.len() - 1];
        let key = self.tree_keys[tree.number()];
        self.put_entry(key, &[0; 8])?;
        self.add_touch(tree)?;
        let number = state.secondary.len() - 1;
        let primary = state.primary;
        let words = state.table.primary.shape().words;
        let (low, high) = (vec![0; words], vec![u64::MAX; words]);
        let state_ref = &mut state;
        primary.scan(
            &mut self.pages,
            &low,
            &high,
            Direction::Forward,
            &mut |pages, primary_key, value| {
                let TableState {
                    rows,
                    row,
                    key,
                    table,
                    secondary,
                    ..
                } = &mut *state_ref;
                rows.read(pages, value, row)?;
                table.secondary[number].encode_row(row, key)?;
                if secondary[number].insert(pages, key, Value::Words(primary_key))? {
                    Ok(ControlFlow::Continue(()))
                } else {
                    Err(duplicate(table, Some(number), row))
                }
            },
        )?;
        self.add(state);
        Ok(())
    }

    /// Drops a secondary index.
    pub fn drop_index(&mut self, id: TableId, index: IndexId) -> Result<()> {
        let state = self.find(id)?;
        let number = index_number(&state.table, index)?;
        let tree = state.secondary[number];
        let mut def = state.table.def.clone();
        def.indexes.remove(number);
        tree.clear(&mut self.pages, &mut |_, _| Ok(()))?;
        let key = self.tree_keys[tree.number()];
        self.directory.remove(&mut self.pages, &key)?;
        let state = self.changed_table(&def)?;
        self.add(state);
        Ok(())
    }

    /// The table with another definition in the directory; trees that it had before go on. Nothing else may be dirty.
    fn changed_table(&mut self, def: &TableDef) -> Result<TableState<R>> {
        let id = u64::from(def.id.0);
        let definition = def.encode();
        let key = [id, DEFINITION];
        self.directory
            .replace(&mut self.pages, &key, Value::Bytes(&definition))?;
        let old = self.find(def.id)?;
        let trees = std::iter::once(&old.primary).chain(&old.secondary);
        let known: Vec<_> = trees
            .map(|tree| (self.tree_keys[tree.number()], tree.number()))
            .collect();
        let roots: Vec<_> = known
            .into_iter()
            .map(|(key, tree)| (key, self.pages.committed_root(tree)))
            .collect();
        self.table_state(def, &mut |wanted| {
            let found = roots.iter().find(|(key, _)| *key == wanted);
            Ok(found.map_or(0, |&(_, root)| root))
        })
    }

    fn put_entry(&mut self, key: [u64; DIRECTORY_KEY_WORDS], value: &[u8]) -> Result<()> {
        let value = Value::Bytes(value);
        if self.directory.insert(&mut self.pages, &key, value)? {
            return Ok(());
        }
        let text = format!("the directory has an entry {key:?} already");
        Err(StorageError::Unsupported(text))
    }
}

impl<S: PageStore, R: Rows<S>> CowSpace<S, R> {
    /// Copies the row with this primary key into `row`.
    #[inline]
    pub fn get(&mut self, id: TableId, key: &[u64], row: &mut Row) -> Result<bool> {
        let state = find_mut(&mut self.tables, id)?;
        state.rows.get(&mut self.pages, state.primary, key, row)
    }

    /// Looks several primary keys up.
    pub fn get_many(
        &mut self,
        id: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        let state = find_mut(&mut self.tables, id)?;
        let (rows, row) = (&mut state.rows, &mut state.row);
        rows.get_many(&mut self.pages, state.primary, keys, row, visit)
    }

    /// Visits the rows of a range in key order.
    pub fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        let state = find_mut(&mut self.tables, range.table)?;
        let (rows, row, primary) = (&mut state.rows, &mut state.row, state.primary);
        let (low, high) = (&range.low, &range.high);
        let pages = &mut self.pages;
        let Some(id) = range.index else {
            let (direction, block_bytes) = (range.direction, rows.block_bytes());
            let mut read = |pages: &mut Pages<S>, _: &[u64], value: Value<'_>| {
                rows.read(pages, value, row)?;
                Ok(visit(row))
            };
            return primary.scan_blocks(pages, low, high, direction, block_bytes, &mut read);
        };
        let index = state.secondary[index_number(&state.table, id)?];
        index.scan(
            pages,
            low,
            high,
            range.direction,
            &mut |pages, key, value| {
                if rows.get(pages, primary, value.words(), row)? {
                    return Ok(visit(row));
                }
                let text = format!("key {key:x?} has no row");
                Err(PmemError::corrupted("secondary index", 0, text).into())
            },
        )
    }

    /// Inserts a row.
    pub fn insert(&mut self, id: TableId, row: &Row) -> Result<()> {
        let state = find_mut(&mut self.tables, id)?;
        let (pages, table) = (&mut self.pages, &state.table);
        table.primary.encode_row(row, &mut state.primary_key)?;
        if !state
            .rows
            .insert(pages, state.primary, &state.primary_key, row)?
        {
            return Err(duplicate(table, None, row));
        }
        for (number, index) in state.secondary.iter().enumerate() {
            table.secondary[number].encode_row(row, &mut state.key)?;
            if !index.insert(pages, &state.key, Value::Words(&state.primary_key))? {
                return Err(duplicate(table, Some(number), row));
            }
        }
        self.end_operation(id)
    }

    /// Changes columns of the row with this primary key.
    pub fn update(&mut self, id: TableId, key: &[u64], changes: &Changes) -> Result<bool> {
        let state = find_mut(&mut self.tables, id)?;
        if state.table.changes_an_index(changes)
            && !state.update_keys(&mut self.pages, key, changes)?
        {
            return Ok(false);
        }
        if !state
            .rows
            .update(&mut self.pages, state.primary, key, changes)?
        {
            return Ok(false);
        }
        self.end_operation(id)?;
        Ok(true)
    }

    /// Deletes the row with this primary key.
    pub fn delete(&mut self, id: TableId, key: &[u64]) -> Result<bool> {
        let state = find_mut(&mut self.tables, id)?;
        let (pages, table) = (&mut self.pages, &state.table);
        if !state.secondary.is_empty() {
            if !state.rows.get(pages, state.primary, key, &mut state.row)? {
                return Ok(false);
            }
            for (number, index) in state.secondary.iter().enumerate() {
                table.secondary[number].encode_row(&state.row, &mut state.key)?;
                index.remove(pages, &state.key)?;
            }
        }
        if !state.rows.remove(pages, state.primary, key)? {
            return Ok(false);
        }
        self.end_operation(id)?;
        Ok(true)
    }

    /// Makes the directory ready for the new roots of a table's trees.
    fn end_operation(&mut self, id: TableId) -> Result<()> {
        let state = find_mut(&mut self.tables, id)?;
        for at in 0..=state.secondary.len() {
            let tree = match at.checked_sub(1) {
                None => state.primary,
                Some(number) => state.secondary[number],
            };
            if self.pages.wants_touch(tree.number()) {
                let key = self.tree_keys[tree.number()];
                touch(self.directory, &mut self.pages, tree, key)?;
            }
        }
        self.pages.store.end_operation()
    }

    /// Makes the directory ready for the new roots of all trees, after a change of definitions.
    pub fn end_definition(&mut self) -> Result<()> {
        let ids: Vec<_> = self.tables().iter().map(|table| table.def.id).collect();
        for id in ids {
            self.end_operation(id)?;
        }
        self.pages.store.end_operation()
    }

    fn add_touch(&mut self, tree: CowTree) -> Result<()> {
        let key = self.tree_keys[tree.number()];
        touch(self.directory, &mut self.pages, tree, key)
    }

    /// Writes the new roots into the directory, for which everything is ready.
    pub fn write_roots(&mut self) -> Result<()> {
        for (tree, root) in self.pages.roots_to_write() {
            let key = self.tree_keys[tree];
            let value = root.to_le_bytes();
            self.directory
                .replace(&mut self.pages, &key, Value::Bytes(&value))?;
        }
        Ok(())
    }

    fn find(&self, id: TableId) -> Result<&TableState<R>> {
        let slot = self.tables.get(id.0 as usize).and_then(Option::as_ref);
        slot.ok_or(StorageError::NoSuchTable(id.0))
    }

    fn add(&mut self, state: TableState<R>) {
        let slot = state.table.def.id.0 as usize;
        if self.tables.len() <= slot {
            self.tables.resize_with(slot + 1, || None);
        }
        self.tables[slot] = Some(state);
    }
}

/// Makes the way to a tree's entry in the directory dirty.
fn touch<S: PageStore>(
    directory: CowTree,
    pages: &mut Pages<S>,
    tree: CowTree,
    key: [u64; DIRECTORY_KEY_WORDS],
) -> Result<()> {
    if directory.touch(pages, &key)? {
        pages.note_touched(tree.number());
        return Ok(());
    }
    let text = format!("it has no entry {key:?}");
    Err(PmemError::corrupted("directory", 0, text).into())
}

#[inline]
fn find_mut<R>(tables: &mut [Option<TableState<R>>], id: TableId) -> Result<&mut TableState<R>> {
    let slot = tables.get_mut(id.0 as usize).and_then(Option::as_mut);
    slot.ok_or(StorageError::NoSuchTable(id.0))
}

impl<R> TableState<R> {
    /// Moves the entries of those secondary indexes whose key the changes alter; false if the row is not there.
    fn update_keys<S: PageStore>(
        &mut self,
        pages: &mut Pages<S>,
        primary_key: &[u64],
        changes: &Changes,
    ) -> Result<bool>
    where
        R: Rows<S>,
    {
        if !self
            .rows
            .get(pages, self.primary, primary_key, &mut self.row)?
        {
            return Ok(false);
        }
        self.rows
            .get(pages, self.primary, primary_key, &mut self.changed)?;
        changes.apply(&mut self.changed)?;
        let mut new = KeyBuf::default();
        for (number, index) in self.secondary.iter().enumerate() {
            let encoder = &self.table.secondary[number];
            encoder.encode_row(&self.row, &mut self.key)?;
            encoder.encode_row(&self.changed, &mut new)?;
            if *self.key == *new {
                continue;
            }
            if !index.insert(pages, &new, Value::Words(primary_key))? {
                return Err(duplicate(&self.table, Some(number), &self.changed));
            }
            index.remove(pages, &self.key)?;
        }
        Ok(true)
    }
}
