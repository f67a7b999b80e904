//! Slotted trees as the tables of a partition see them.
//!
//! A tree's root moves rarely. The operation that moves it gives the directory the new one at once,
//! so nothing remains to be written there at the end of a group.

use super::cell::cell_bytes;
use super::pages::{Root, SlottedPages, SlottedSavepoint};
use super::tree::{Path, SlottedTree};
use crate::index::cow::{TreeReport, Value};
use crate::index::trees::{Trees, Visitor};
use pmem::Memory;
use storage::engine::{Direction, GlobalTxnId};
use storage::{Result, StorageError};

impl<M: Memory> Trees for SlottedPages<M> {
    type Tree = SlottedTree;
    type Savepoint = SlottedSavepoint;

    // Recovery visits every page that the last record names, some 6 µs each where the system has to
    // map it first.
    const DIRTY_BYTES_MAX: usize = 4 << 20;

    fn forget_trees(&mut self) {
        self.roots.truncate(1);
    }

    fn directory_tree(&self, key_words: usize) -> Result<SlottedTree> {
        Ok(SlottedTree {
            tree: 0,
            key_words,
            value_words: 0,
        })
    }

    fn add_tree(&mut self, root: u64, key_words: usize, value_words: usize) -> Result<SlottedTree> {
        // A cell of an inner page, of a leaf, and one that leads to a long value.
        let longest = cell_bytes(key_words, 8 * value_words.max(2));
        if longest.div_ceil(self.geometry.unit) > self.geometry.cell_units_max() || key_words > 255
        {
            return Err(StorageError::Unsupported(format!(
                "pages of {} bytes are too small for entries of {longest}; \
                 create the database with larger index nodes",
                self.geometry.page_bytes
            )));
        }
        let (now, written) = (root, root);
        self.roots.push(Root { now, written });
        Ok(SlottedTree {
            tree: self.roots.len() - 1,
            key_words,
            value_words,
        })
    }

    fn number(tree: SlottedTree) -> usize {
        tree.tree
    }

    fn committed_root(&self, tree: usize) -> u64 {
        self.roots[tree].now
    }

    #[inline]
    fn wants_touch(&self, tree: usize) -> bool {
        let root = self.roots[tree];
        root.now != root.written
    }

    fn touch(&mut self, directory: SlottedTree, tree: SlottedTree, key: &[u64]) -> Result<bool> {
        let now = self.roots[tree.tree].now;
        let found = self.replace_entry(directory, key, Value::Bytes(&now.to_le_bytes()))?;
        if found {
            let written = now;
            self.set_root(tree.tree, Root { now, written });
        }
        Ok(found)
    }

    fn roots_to_write(&self) -> Vec<(usize, u64)> {
        Vec::new()
    }

    #[inline]
    fn end_operation(&mut self) -> Result<()> {
        self.ensure_room()
    }

    #[inline]
    fn insert(&mut self, tree: SlottedTree, key: &[u64], value: Value<'_>) -> Result<bool> {
        self.insert_entry(tree, key, value)
    }

    fn replace(&mut self, tree: SlottedTree, key: &[u64], value: Value<'_>) -> Result<bool> {
        self.replace_entry(tree, key, value)
    }

    fn replace_content(
        &mut self,
        tree: SlottedTree,
        key: &[u64],
        buffer: &mut Vec<u8>,
        image: &mut Vec<u8>,
        change: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<()>,
    ) -> Result<bool> {
        let mut path = Path::default();
        if self.find_path(tree, key, &mut path)? != Some(true) {
            return Ok(false);
        }
        let leaf = path.leaf();
        let view = self.view(leaf.page)?;
        let cell = self.cell(&view, leaf.index)?;
        self.read_cell(tree, cell, buffer, |old| change(old.bytes(), image))?;
        self.replace_at(tree, key, &path, Value::Bytes(image))?;
        Ok(true)
    }

    #[inline]
    fn remove(&mut self, tree: SlottedTree, key: &[u64]) -> Result<bool> {
        self.remove_entry(tree, key)
    }

    #[inline]
    fn get<R>(
        &mut self,
        tree: SlottedTree,
        key: &[u64],
        buffer: &mut Vec<u8>,
        read: impl FnOnce(Value<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        self.get_value(tree, key, buffer, read)
    }

    fn scan(
        &mut self,
        tree: SlottedTree,
        bounds: (&[u64], &[u64]),
        direction: Direction,
        _block_bytes: usize,
        visit: Visitor<'_, Self>,
    ) -> Result<()> {
        self.scan_entries(tree, bounds, direction, visit)
    }

    fn clear(
        &mut self,
        tree: SlottedTree,
        leave: &mut dyn FnMut(&mut Self, Value<'_>) -> Result<()>,
    ) -> Result<()> {
        self.clear_tree(tree, leave)
    }

    fn check(&mut self, tree: SlottedTree, report: &mut TreeReport) {
        self.check_tree(tree, report);
    }

    #[inline]
    fn reclaim(&mut self) {
        self.release_shown();
    }

    #[inline]
    fn savepoint(&mut self) -> SlottedSavepoint {
        self.begin_operation()
    }

    fn rollback(&mut self, savepoint: SlottedSavepoint) -> Result<()> {
        self.take_back(savepoint)
    }

    #[inline]
    fn transaction_bytes(&self) -> usize {
        self.held_bytes()
    }

    #[inline]
    fn is_changed(&self) -> bool {
        self.has_changes()
    }

    #[inline]
    fn end_transaction(&mut self) {
        self.join_group();
    }

    #[inline]
    fn is_dirty(&self) -> bool {
        self.has_dirty()
    }

    #[inline]
    fn dirty_bytes(&self) -> usize {
        self.changed_bytes()
    }

    fn commit(&mut self) -> Result<()> {
        self.publish()
    }

    fn prepare(&mut self, global: GlobalTxnId) -> Result<()> {
        self.publish_prepared(global)
    }

    fn resolve(&mut self, commit: bool) -> Result<()> {
        self.decide(commit)
    }

    fn settle_reads(&mut self) -> Result<()> {
        self.fence_reads()
    }
}
