//! Copy-on-write trees as the tables of a partition see them.
//!
//! Every verb is the tree's or the pages' own, of the same name. An operation that moves the root
//! of a tree for the first time in its group makes the path to the tree's entry in the directory
//! dirty, and the end of the group writes all roots at once.

use super::pages::PagesSavepoint;
use super::{CowTree, PageStore, Pages, Purpose, Shape, TOGETHER, TreeReport, Value};
use crate::index::trees::{Trees, Visitor};
use storage::Result;
use storage::engine::{Direction, GlobalTxnId};
use storage::record::KeyBuf;

impl<S: PageStore> Trees for Pages<S> {
    type Tree = CowTree;
    type Savepoint = PagesSavepoint<S::Savepoint>;

    fn forget_trees(&mut self) {
        Self::forget_trees(self);
    }

    fn directory_tree(&self, key_words: usize) -> Result<CowTree> {
        let shape = Shape::new(self.page_bytes(), key_words, 0)?;
        Ok(CowTree::new(0, shape))
    }

    fn add_tree(&mut self, root: u64, key_words: usize, value_words: usize) -> Result<CowTree> {
        let shape = Shape::new(self.page_bytes(), key_words, value_words)?;
        Ok(CowTree::new(self.add_root(root), shape))
    }

    fn number(tree: CowTree) -> usize {
        tree.number()
    }

    fn committed_root(&self, tree: usize) -> u64 {
        Self::committed_root(self, tree)
    }

    fn wants_touch(&self, tree: usize) -> bool {
        Self::wants_touch(self, tree)
    }

    fn touch(&mut self, directory: CowTree, tree: CowTree, key: &[u64]) -> Result<bool> {
        let found = directory.touch(self, key)?;
        if found {
            self.note_touched(tree.number());
        }
        Ok(found)
    }

    fn roots_to_write(&self) -> Vec<(usize, u64)> {
        Self::roots_to_write(self)
    }

    #[inline]
    fn end_operation(&mut self) -> Result<()> {
        self.store.end_operation()
    }

    #[inline]
    fn insert(&mut self, tree: CowTree, key: &[u64], value: Value<'_>) -> Result<bool> {
        tree.insert(self, key, value)
    }

    #[inline]
    fn replace(&mut self, tree: CowTree, key: &[u64], value: Value<'_>) -> Result<bool> {
        tree.replace(self, key, value)
    }

    #[inline]
    fn replace_content(
        &mut self,
        tree: CowTree,
        key: &[u64],
        buffer: &mut Vec<u8>,
        image: &mut Vec<u8>,
        change: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<()>,
    ) -> Result<bool> {
        tree.replace_content(self, key, buffer, image, change)
    }

    #[inline]
    fn remove(&mut self, tree: CowTree, key: &[u64]) -> Result<bool> {
        tree.remove(self, key)
    }

    #[inline]
    fn get<R>(
        &mut self,
        tree: CowTree,
        key: &[u64],
        buffer: &mut Vec<u8>,
        read: impl FnOnce(Value<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        tree.get(self, key, buffer, read)
    }

    fn get_many(
        &mut self,
        tree: CowTree,
        keys: &[KeyBuf],
        buffer: &mut Vec<u8>,
        read: &mut dyn FnMut(usize, Option<Value<'_>>) -> Result<()>,
    ) -> Result<()> {
        let mut found = [None; TOGETHER];
        for (group, keys) in keys.chunks(TOGETHER).enumerate() {
            let found = &mut found[..keys.len()];
            tree.find_many(self, keys, found)?;
            for found in found.iter().flatten() {
                tree.prefetch_content(self, *found)?;
            }
            for (number, found) in found.iter().enumerate() {
                let number = group * TOGETHER + number;
                match *found {
                    Some(found) => {
                        tree.get_found(self, found, buffer, |value| read(number, Some(value)))?;
                    }
                    None => read(number, None)?,
                }
            }
        }
        Ok(())
    }

    fn scan(
        &mut self,
        tree: CowTree,
        (low, high): (&[u64], &[u64]),
        direction: Direction,
        block_bytes: usize,
        visit: Visitor<'_, Self>,
    ) -> Result<()> {
        tree.scan_blocks(self, low, high, direction, block_bytes, visit)
    }

    fn clear(
        &mut self,
        tree: CowTree,
        leave: &mut dyn FnMut(&mut Self, Value<'_>) -> Result<()>,
    ) -> Result<()> {
        tree.clear(self, leave)
    }

    fn check(&mut self, tree: CowTree, report: &mut TreeReport) {
        tree.check(self, report);
    }

    #[inline]
    fn reclaim(&mut self) {
        self.store.reclaim();
    }

    #[inline]
    fn begin_statement(&mut self, copies: Purpose) {
        Self::begin_statement(self, copies);
    }

    #[inline]
    fn savepoint(&mut self) -> Self::Savepoint {
        Self::savepoint(self)
    }

    fn rollback(&mut self, savepoint: Self::Savepoint) -> Result<()> {
        Self::rollback(self, savepoint)
    }

    #[inline]
    fn end_statement(&mut self, savepoint: Self::Savepoint) {
        Self::end_statement(self, savepoint);
    }

    #[inline]
    fn transaction_bytes(&self) -> usize {
        Self::transaction_bytes(self)
    }

    #[inline]
    fn is_changed(&self) -> bool {
        Self::is_changed(self)
    }

    #[inline]
    fn end_transaction(&mut self) {
        Self::end_transaction(self);
    }

    #[inline]
    fn is_dirty(&self) -> bool {
        Self::is_dirty(self)
    }

    #[inline]
    fn dirty_bytes(&self) -> usize {
        self.dirty_pages() * self.page_bytes()
    }

    fn commit(&mut self) -> Result<()> {
        Self::commit(self)
    }

    fn prepare(&mut self, global: GlobalTxnId) -> Result<()> {
        Self::prepare(self, global)
    }

    fn resolve(&mut self, commit: bool) -> Result<()> {
        Self::resolve(self, commit)
    }
}
