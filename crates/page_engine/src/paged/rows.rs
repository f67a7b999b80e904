//! Operations on rows: their locks, and their changes of the trees of a table.
//!
//! A row is locked by its primary key and an index entry by its own key, each before it is read or
//! changed; a scan locks the ranges that it goes through. Keys are locked in the order primary,
//! then secondary; a scan of an index takes them the other way round, so deadlocks are possible and
//! are found by the lock manager.

use super::locking::RowLocks;
use super::search_path::SearchPath;
use super::space::Pages;
use super::tables::{TableState, Tables};
use super::transaction::Transaction;
use super::tree::{ScanCells, Stored, Tree};
use super::values::{
    assign, get_row, get_value, put_value, read_row, read_stored, remove_value, replace_value,
};
use disk::Directory;
use std::ops::ControlFlow;
use storage::Result;
use storage::engine::ScanRange;
use storage::lock::KeyMode;
use storage::record::{Changes, KeyBuf, Row, TableId};
use storage::table::find_mut;

impl Tables {
    /// Copies the row with this primary key into `row`. `mode` is [`KeyMode::Update`] where it is
    /// going to be changed.
    #[inline]
    pub fn get<D: Directory>(
        &mut self,
        pages: &Pages<D>,
        locks: &mut RowLocks,
        (id, key): (TableId, &[u64]),
        mode: KeyMode,
        row: &mut Row,
    ) -> Result<bool> {
        let Self { states, value, .. } = self;
        let TableState {
            primary,
            search_path,
            ..
        } = find_mut(states, id)?;
        locks.read((id, primary.root, key), mode, || {
            get_row(pages, (*primary, search_path), key, value, row)
        })
    }

    /// Calls `visit` with the number of each key and its row, in order.
    pub fn get_many<D: Directory>(
        &mut self,
        pages: &Pages<D>,
        locks: &mut RowLocks,
        id: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        let Self { states, value, .. } = self;
        let state = find_mut(states, id)?;
        let (primary, search_path, row) = (state.primary, &mut state.search_path, &mut state.row);
        for (number, key) in keys.iter().enumerate() {
            let found = locks.read((id, primary.root, key), KeyMode::Shared, || {
                get_row(pages, (primary, search_path), key, value, row)
            })?;
            visit(number, found.then_some(&*row));
        }
        Ok(())
    }

    /// Visits the rows of a range in key order.
    pub fn scan<D: Directory>(
        &mut self,
        pages: &Pages<D>,
        locks: &mut RowLocks,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        let Self { states, value, .. } = self;
        let state = find_mut(states, range.table)?;
        let primary = state.primary;
        let (tree, search_path, primary_path) = match range.index {
            None => (primary, &mut state.search_path, None),
            Some(index) => {
                let number = state.table.index_number(index)?;
                let search_path = &mut state.secondary_paths[number];
                (
                    state.secondary[number],
                    search_path,
                    Some(&mut state.search_path),
                )
            }
        };
        let mut scan = RowScan {
            pages,
            locks,
            table: range.table,
            tree,
            primary,
            key: KeyBuf::new(),
            value,
            row: &mut state.row,
            primary_path,
            visit,
        };
        let bounds: (&[u64], &[u64]) = (&range.low, &range.high);
        tree.scan_cells((pages, search_path), bounds, range.direction, &mut scan)
    }

    /// Inserts a row.
    pub fn insert<D: Directory>(
        &mut self,
        pages: &Pages<D>,
        locks: &mut RowLocks,
        id: TableId,
        row: &Row,
        txn: &mut Transaction,
    ) -> Result<()> {
        let Self { states, image, .. } = self;
        let state = find_mut(states, id)?;
        let table = &state.table;
        table.primary.encode_row(row, &mut state.key)?;
        locks.change(id, state.primary.root, &state.key)?;
        image.clear();
        row.write_image(image);
        let place = (state.primary, &mut state.search_path);
        if !put_value(pages, place, &state.key, image, txn)? {
            return Err(table.duplicate(None, row));
        }
        let mut primary_key = Vec::new();
        for (number, tree) in state.secondary.iter().enumerate() {
            primary_key.clear();
            let words = state.key.iter();
            words.for_each(|word| primary_key.extend_from_slice(&word.to_le_bytes()));
            table.secondary[number].encode_row(row, &mut state.changed_key)?;
            locks.change(id, tree.root, &state.changed_key)?;
            let place = (*tree, &mut state.secondary_paths[number]);
            if !put_value(pages, place, &state.changed_key, &primary_key, txn)? {
                return Err(table.duplicate(Some(number), row));
            }
        }
        Ok(())
    }

    /// Changes columns of the row with this primary key; false if there is none.
    pub fn update<D: Directory>(
        &mut self,
        pages: &Pages<D>,
        locks: &mut RowLocks,
        (id, key): (TableId, &[u64]),
        changes: &Changes,
        txn: &mut Transaction,
    ) -> Result<bool> {
        let Self {
            states,
            value,
            image,
            ..
        } = self;
        let state = find_mut(states, id)?;
        locks.change(id, state.primary.root, key)?;
        if !get_value(pages, (state.primary, &mut state.search_path), key, value)? {
            return Ok(false);
        }
        read_row(pages, state.primary, value, &mut state.changed)?;
        if state.table.changes_an_index(changes) {
            read_row(pages, state.primary, value, &mut state.row)?;
            changes.apply(&mut state.changed)?;
            state.move_entries(pages, locks, key, txn)?;
        } else {
            changes.apply(&mut state.changed)?;
        }
        image.clear();
        state.changed.write_image(image);
        if *image != *value {
            let place = (state.primary, &mut state.search_path);
            replace_value(pages, place, key, image, txn)?;
        }
        Ok(true)
    }

    /// Deletes the row with this primary key; false if there is none.
    pub fn delete<D: Directory>(
        &mut self,
        pages: &Pages<D>,
        locks: &mut RowLocks,
        (id, key): (TableId, &[u64]),
        txn: &mut Transaction,
    ) -> Result<bool> {
        let state = find_mut(&mut self.states, id)?;
        locks.change(id, state.primary.root, key)?;
        if state.secondary.is_empty() {
            return remove_value(pages, (state.primary, &mut state.search_path), key, txn);
        }
        let place = (state.primary, &mut state.search_path);
        if !get_row(pages, place, key, &mut self.value, &mut state.row)? {
            return Ok(false);
        }
        for (number, tree) in state.secondary.iter().enumerate() {
            state.table.secondary[number].encode_row(&state.row, &mut state.key)?;
            locks.change(id, tree.root, &state.key)?;
            let place = (*tree, &mut state.secondary_paths[number]);
            remove_value(pages, place, &state.key, txn)?;
        }
        remove_value(pages, (state.primary, &mut state.search_path), key, txn)
    }
}

impl TableState {
    /// Moves the entries of those secondary indexes whose key differs between `row` and `changed`.
    fn move_entries<D: Directory>(
        &mut self,
        pages: &Pages<D>,
        locks: &mut RowLocks,
        primary_key: &[u64],
        txn: &mut Transaction,
    ) -> Result<()> {
        let words = primary_key.iter();
        let primary_key: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
        for (number, tree) in self.secondary.iter().enumerate() {
            let encoder = &self.table.secondary[number];
            encoder.encode_row(&self.row, &mut self.key)?;
            encoder.encode_row(&self.changed, &mut self.changed_key)?;
            if *self.key == *self.changed_key {
                continue;
            }
            let id = self.table.def.id;
            locks.change(id, tree.root, &self.changed_key)?;
            locks.change(id, tree.root, &self.key)?;
            let search_path = &mut self.secondary_paths[number];
            let place = (*tree, &mut *search_path);
            if !put_value(pages, place, &self.changed_key, &primary_key, txn)? {
                return Err(self.table.duplicate(Some(number), &self.changed));
            }
            remove_value(pages, (*tree, search_path), &self.key, txn)?;
        }
        Ok(())
    }
}

/// A scan of rows, in the order of the primary key or of an index.
struct RowScan<'s, D: Directory> {
    pages: &'s Pages<D>,
    locks: &'s mut RowLocks,
    table: TableId,
    tree: Tree,
    primary: Tree,
    key: KeyBuf,
    value: &'s mut Vec<u8>,
    row: &'s mut Row,
    /// If the scanned tree is an index.
    primary_path: Option<&'s mut SearchPath>,
    visit: &'s mut dyn FnMut(&Row) -> ControlFlow<()>,
}

impl<D: Directory> ScanCells for RowScan<'_, D> {
    fn cover(&mut self, low: &[u64], high: &[u64]) -> Result<()> {
        self.locks.cover(self.table, self.tree.root, low, high)
    }

    fn uncover(&mut self) {
        self.locks.uncover();
    }

    fn visit(&mut self, key: &[u8], stored: Stored<'_>) -> Result<ControlFlow<()>> {
        if self.locks.is_keeping() {
            assign(&mut self.key, self.tree.key_words, key);
            self.locks.keep(self.table, self.tree.root, &self.key)?;
        }
        let Self {
            pages,
            primary,
            key,
            value,
            row,
            primary_path,
            ..
        } = self;
        let Some(search_path) = primary_path else {
            read_stored(pages, *primary, stored, value, row)?;
            return Ok((self.visit)(row));
        };
        assign(key, primary.key_words, stored.bytes);
        let found = self
            .locks
            .read((self.table, primary.root, key), KeyMode::Shared, || {
                get_row(pages, (*primary, search_path), key, value, row)
            })?;
        if found {
            return Ok((self.visit)(row));
        }
        let text = format!("its key {:x?} has no row", &**key);
        Err(pages.pool.file().damage(self.tree.root, &text))
    }
}
