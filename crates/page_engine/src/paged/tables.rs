//! The tables of one partition, as trees over pages.
//!
//! Every table has a primary tree, whose values are images of rows, and one tree for each secondary
//! index, whose values are primary keys. The catalogue is a tree with keys of two words:
//!
//! | key | value |
//! |---|---|
//! | table number, 0 | the table's definition |
//! | table number, 1 | root of the primary tree, u32 |
//! | table number, 2 + index number | root of the index's tree, u32 |
//! | all bits, page | what was dropped and still has pages (`dropped`) |
//!
//! Roots move only as definitions change ([`Tables::move_roots`]), so the catalogue changes with
//! those only. A failed statement leaves its changes in place; the engine undoes them to where it
//! began.

use super::change::Change;
use super::compact::push_content;
use super::long;
use super::search_path::SearchPath;
use super::space::Pages;
use super::transaction::{Entry, Transaction};
use super::tree::{Stored, Tree};
use super::values::{get_row, put_value, read_row, remove_value, replace_value};
use crate::page::slotted::key_words;
use crate::page::{PageId, Undo};
use disk::Directory;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::engine::Direction;
use storage::record::{IndexDef, IndexId, KeyBuf, LayoutKind, Row, TableDef, TableId};
use storage::table::{Numbered, Table, find};
use storage::{Result, StorageError};

/// Words of a key of the catalogue.
pub const CATALOGUE_KEY_WORDS: usize = 2;
const DEFINITION: u64 = 0;
const PRIMARY: u64 = 1;
const SECONDARY: u64 = 2;
/// Words of entries that are sorted together when an index is made: 32 MiB.
const SORTED_WORDS: usize = 4 << 20;

/// All tables of one partition.
///
/// Definitions are here, the work on rows in `rows`, and the deep check in `verify`.
pub struct Tables {
    /// The tree of definitions.
    pub catalogue: Tree,
    pub(super) states: Numbered<TableState>,
    pub(super) value: Vec<u8>,
    pub(super) image: Vec<u8>,
}

/// One table that is open.
pub(super) struct TableState {
    pub(super) table: Arc<Table>,
    pub(super) primary: Tree,
    pub(super) secondary: Vec<Tree>,
    /// Of the primary tree.
    pub(super) search_path: SearchPath,
    /// Of the secondary ones.
    pub(super) secondary_paths: Vec<SearchPath>,
    pub(super) row: Row,
    pub(super) changed: Row,
    pub(super) key: KeyBuf,
    pub(super) changed_key: KeyBuf,
}

impl TableState {
    fn new<D: Directory>(
        pages: &Pages<D>,
        def: &TableDef,
        mut root: impl FnMut([u64; CATALOGUE_KEY_WORDS]) -> Result<PageId>,
    ) -> Result<Self> {
        let table = Arc::new(Table::new(def.clone(), LayoutKind::Together)?);
        let id = u64::from(def.id.0);
        let mut tree = |name: u64, key_words: usize| -> Result<Tree> {
            Tree::check_key(pages.page_bytes(), key_words)?;
            let root = root([id, name])?;
            Ok(Tree { root, key_words })
        };
        let primary = tree(PRIMARY, table.primary.shape().words)?;
        let mut secondary = Vec::with_capacity(def.indexes.len());
        for (index, encoder) in def.indexes.iter().zip(&table.secondary) {
            secondary.push(tree(
                SECONDARY + u64::from(index.id.0),
                encoder.shape().words,
            )?);
        }
        debug_assert_eq!(
            def.indexes.len(),
            table.secondary.len(),
            "each index of a definition has an encoder of its keys"
        );
        Ok(Self {
            row: Row::new(Arc::clone(&table.layout)),
            changed: Row::new(Arc::clone(&table.layout)),
            table,
            primary,
            secondary_paths: secondary.iter().map(|_| SearchPath::default()).collect(),
            secondary,
            search_path: SearchPath::default(),
            key: KeyBuf::default(),
            changed_key: KeyBuf::default(),
        })
    }

    /// Adds entries to a new index in the order of their keys, so that each page is changed once
    /// for all that belong to it, and takes them out of the list. Each is a key of the index and a
    /// primary key.
    fn add_entries<D: Directory>(
        &mut self,
        pages: &Pages<D>,
        number: usize,
        unsorted: &mut Vec<u64>,
        txn: &mut Transaction,
    ) -> Result<()> {
        let (tree, primary) = (self.secondary[number], self.primary);
        let stride = tree.key_words + primary.key_words;
        let mut entries: Vec<&[u64]> = unsorted.chunks_exact(stride).collect();
        entries.sort_unstable();
        let mut bytes = Vec::new();
        for entry in entries {
            let (key, own) = entry.split_at(tree.key_words);
            bytes.clear();
            for word in own {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
            let primary_key = Stored {
                bytes: &bytes,
                is_long: false,
            };
            let place = (key, &mut self.secondary_paths[number]);
            if !tree.insert(pages, place, primary_key, &mut Entry::Quiet(txn))? {
                let place = (primary, &mut self.search_path);
                get_row(pages, place, own, &mut bytes, &mut self.row)?;
                return Err(self.table.duplicate(Some(number), &self.row));
            }
        }
        unsorted.clear();
        Ok(())
    }
}

impl Tables {
    /// The tables that the catalogue has.
    pub fn open<D: Directory>(pages: &Pages<D>, catalogue: PageId) -> Result<Self> {
        let mut tables = Self {
            catalogue: Tree {
                root: catalogue,
                key_words: CATALOGUE_KEY_WORDS,
            },
            states: Numbered::new(),
            value: Vec::new(),
            image: Vec::new(),
        };
        tables.reload(pages)?;
        Ok(tables)
    }

    /// Reads all definitions again.
    pub fn reload<D: Directory>(&mut self, pages: &Pages<D>) -> Result<()> {
        self.states.clear();
        let (low, high) = ([0; CATALOGUE_KEY_WORDS], [u64::MAX; CATALOGUE_KEY_WORDS]);
        let mut definitions = Vec::new();
        let mut roots = Vec::new();
        let mut key_words = [0; CATALOGUE_KEY_WORDS];
        let visit = &mut |key: &[u8], value: Stored<'_>| {
            let words = crate::page::slotted::key_words(key);
            key_words
                .iter_mut()
                .zip(words)
                .for_each(|(to, from)| *to = from);
            if key_words[1] == DEFINITION {
                let mut image = Vec::new();
                long::read(pages, value, &mut image)?;
                definitions.push((key_words[0], image));
            } else if let Ok(root) = value.bytes.try_into() {
                roots.push((key_words, PageId(u32::from_le_bytes(root))));
            }
            Ok(ControlFlow::Continue(()))
        };
        self.catalogue
            .scan(pages, (&low, &high), Direction::Forward, visit)?;
        for (id, image) in definitions {
            let wrong = |text: String| {
                let text = format!("the definition of table {id}: {text}");
                pages.pool.file().damage(self.catalogue.root, &text)
            };
            let def = TableDef::decode(&image).map_err(|error| wrong(error.to_string()))?;
            if u64::from(def.id.0) != id {
                return Err(wrong("it is another table's".to_owned()));
            }
            let state = TableState::new(pages, &def, |key| {
                let found = roots.binary_search_by_key(&key, |&(key, _)| key);
                let found = found.map(|at| roots[at].1);
                found.map_err(|_| wrong("a root is missing".to_owned()))
            })?;
            self.add(state);
        }
        Ok(())
    }

    /// Definitions of all tables, in the order of their numbers.
    pub fn tables(&self) -> Vec<Arc<Table>> {
        self.states()
            .map(|state| Arc::clone(&state.table))
            .collect()
    }

    pub(super) fn states(&self) -> impl Iterator<Item = &TableState> {
        self.states.values()
    }

    pub(super) fn find(&self, id: TableId) -> Result<&TableState> {
        find(&self.states, id)
    }

    fn add(&mut self, state: TableState) {
        self.states.insert(state.table.def.id, state);
    }

    /// Makes an empty table. If it fails, the definitions must be read again after the undo.
    pub fn create_table<D: Directory>(
        &mut self,
        pages: &Pages<D>,
        def: &TableDef,
        txn: &mut Transaction,
    ) -> Result<()> {
        if self.find(def.id).is_ok() {
            let text = format!("table number {} is taken", def.id.0);
            return Err(StorageError::Unsupported(text));
        }
        let state = TableState::new(pages, def, |_| Ok(PageId(0)))?;
        let state = self.make_trees(pages, state, 0, txn)?;
        self.put_definition(pages, def, txn)?;
        self.add(state);
        Ok(())
    }

    /// Gives a table's trees from a number on, the primary one being 0, their roots, and names them
    /// in the catalogue.
    fn make_trees<D: Directory>(
        &mut self,
        pages: &Pages<D>,
        mut state: TableState,
        from: usize,
        txn: &mut Transaction,
    ) -> Result<TableState> {
        let id = u64::from(state.table.def.id.0);
        let names: Vec<u64> = tree_names(&state.table.def).collect();
        assert_eq!(
            names.len(),
            1 + state.secondary.len(),
            "each tree of a table has a name in the catalogue"
        );
        let trees = std::iter::once(&mut state.primary).chain(&mut state.secondary);
        for (tree, name) in trees.zip(names).skip(from) {
            tree.root = new_root(pages, *tree, txn)?;
            let root = tree.root.0.to_le_bytes();
            self.put(pages, [id, name], &root, txn)?;
        }
        Ok(state)
    }

    fn put_definition<D: Directory>(
        &mut self,
        pages: &Pages<D>,
        def: &TableDef,
        txn: &mut Transaction,
    ) -> Result<()> {
        let key = [u64::from(def.id.0), DEFINITION];
        self.put(pages, key, &def.encode(), txn)
    }

    /// Puts an entry of the catalogue, whether it is there or not.
    fn put<D: Directory>(
        &mut self,
        pages: &Pages<D>,
        key: [u64; CATALOGUE_KEY_WORDS],
        value: &[u8],
        txn: &mut Transaction,
    ) -> Result<()> {
        let search_path = &mut SearchPath::default();
        if !put_value(pages, (self.catalogue, search_path), &key, value, txn)? {
            replace_value(pages, (self.catalogue, search_path), &key, value, txn)?;
        }
        Ok(())
    }

    /// Drops a table. Its pages are freed later ([`Tables::free_dropped`]).
    pub fn drop_table<D: Directory>(
        &mut self,
        pages: &Pages<D>,
        id: TableId,
        txn: &mut Transaction,
    ) -> Result<()> {
        let state = self.find(id)?;
        let secondary = state.secondary.iter().map(|tree| (*tree, false));
        let trees: Vec<_> = std::iter::once((state.primary, true))
            .chain(secondary)
            .collect();
        let names = tree_names(&state.table.def).collect::<Vec<_>>();
        for name in names.into_iter().chain([DEFINITION]) {
            let search_path = &mut SearchPath::default();
            let key = [u64::from(id.0), name];
            remove_value(pages, (self.catalogue, search_path), &key, txn)?;
        }
        for tree in trees {
            self.name_dropped(pages, tree, txn)?;
        }
        self.states.remove(&id);
        Ok(())
    }

    /// Builds a secondary index over the rows that are there.
    pub fn create_index<D: Directory>(
        &mut self,
        pages: &Pages<D>,
        id: TableId,
        index: &IndexDef,
        txn: &mut Transaction,
    ) -> Result<()> {
        let old = self.find(id)?;
        let mut def = old.table.def.clone();
        def.indexes.push(index.clone());
        let number = def.indexes.len() - 1;
        let state = self.changed(pages, &def)?;
        let mut state = self.make_trees(pages, state, 1 + number, txn)?;
        self.put_definition(pages, &def, txn)?;
        let primary = state.primary;
        let words = primary.key_words;
        let (low, high) = (vec![0; words], vec![u64::MAX; words]);
        let value = &mut self.value;
        let mut unsorted = Vec::new();
        let visit = &mut |key: &[u8], stored: Stored<'_>| {
            value.clear();
            long::read(pages, stored, value)?;
            read_row(pages, primary, value, &mut state.row)?;
            let encoder = &state.table.secondary[number];
            encoder.encode_row(&state.row, &mut state.key)?;
            unsorted.extend_from_slice(&state.key);
            unsorted.extend(key_words(key));
            if unsorted.len() >= SORTED_WORDS {
                state.add_entries(pages, number, &mut unsorted, txn)?;
            }
            Ok(ControlFlow::Continue(()))
        };
        primary.scan(pages, (&low, &high), Direction::Forward, visit)?;
        state.add_entries(pages, number, &mut unsorted, txn)?;
        self.add(state);
        Ok(())
    }

    /// Drops a secondary index. Its pages are freed later, as those of a table.
    pub fn drop_index<D: Directory>(
        &mut self,
        pages: &Pages<D>,
        id: TableId,
        index: IndexId,
        txn: &mut Transaction,
    ) -> Result<()> {
        let state = self.find(id)?;
        let number = state.table.index_number(index)?;
        let tree = state.secondary[number];
        let mut def = state.table.def.clone();
        def.indexes.remove(number);
        let state = self.changed(pages, &def)?;
        let key = [u64::from(id.0), SECONDARY + u64::from(index.0)];
        let search_path = &mut SearchPath::default();
        remove_value(pages, (self.catalogue, search_path), &key, txn)?;
        self.put_definition(pages, &def, txn)?;
        self.name_dropped(pages, (tree, false), txn)?;
        self.add(state);
        Ok(())
    }

    /// All trees, that of the definitions first.
    pub fn trees(&self) -> Vec<Tree> {
        let of_tables = self.states().flat_map(|state| {
            let secondary = state.secondary.iter().copied();
            std::iter::once(state.primary).chain(secondary)
        });
        std::iter::once(self.catalogue).chain(of_tables).collect()
    }

    /// The table of each tree of rows or of index entries, by its root.
    pub fn owners(&self) -> HashMap<PageId, TableId> {
        let of_table = |state: &TableState| {
            let id = state.table.def.id;
            let trees = std::iter::once(state.primary).chain(state.secondary.iter().copied());
            trees.map(move |tree| (tree.root, id)).collect::<Vec<_>>()
        };
        self.states().flat_map(of_table).collect()
    }

    /// Moves the roots that do not lie before `limit` to free pages, as far as there are some
    /// before it. The definitions must be read again afterwards.
    pub fn move_roots<D: Directory>(
        &mut self,
        pages: &Pages<D>,
        limit: PageId,
        txn: &mut Transaction,
    ) -> Result<()> {
        let mut roots = Vec::new();
        for state in self.states() {
            let names = tree_names(&state.table.def);
            let trees = std::iter::once(&state.primary).chain(&state.secondary);
            let id = u64::from(state.table.def.id.0);
            roots.extend(names.zip(trees).map(|(name, tree)| ([id, name], tree.root)));
        }
        for (key, root) in roots.into_iter().filter(|(_, root)| *root >= limit) {
            let content = pages.pool.read(root)?.bytes().to_vec();
            let mut change = Change::new();
            let id = pages.allocate(&mut change)?;
            if id >= root {
                return Ok(());
            }
            let new = change.add_new(pages.pool.blank(id)?);
            push_content(&mut change, new, &content);
            let undo = Undo::FreePage(id);
            Entry::Undoable(txn).log(&pages.pool, pages.log_room(), &undo, change)?;
            txn.taken += 1;
            self.put(pages, key, &id.0.to_le_bytes(), txn)?;
            txn.frees.push(root);
        }
        Ok(())
    }

    /// The table with another definition; trees that it had before go on.
    fn changed<D: Directory>(&self, pages: &Pages<D>, def: &TableDef) -> Result<TableState> {
        let old = self.find(def.id)?;
        let known: Vec<(u64, PageId)> = tree_names(&old.table.def)
            .zip(std::iter::once(&old.primary).chain(&old.secondary))
            .map(|(name, tree)| (name, tree.root))
            .collect();
        TableState::new(pages, def, |[_, name]| {
            let found = known.iter().find(|&&(known, _)| known == name);
            Ok(found.map_or(PageId(0), |&(_, root)| root))
        })
    }
}

/// Names of a table's trees in the catalogue, the primary one first.
pub(super) fn tree_names(def: &TableDef) -> impl Iterator<Item = u64> + '_ {
    let secondary = def.indexes.iter();
    std::iter::once(PRIMARY).chain(secondary.map(|index| SECONDARY + u64::from(index.id.0)))
}

/// Makes the root of an empty tree.
fn new_root<D: Directory>(pages: &Pages<D>, tree: Tree, txn: &mut Transaction) -> Result<PageId> {
    let mut change = Change::new();
    let id = pages.allocate(&mut change)?;
    let page = change.add_new(pages.pool.blank(id)?);
    change.push(page, tree.format_root());
    let undo = Undo::FreeTree(id);
    Entry::Undoable(txn).log(&pages.pool, pages.log_room(), &undo, change)?;
    txn.taken += 1;
    Ok(id)
}
