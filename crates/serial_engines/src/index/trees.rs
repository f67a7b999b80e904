//! The numbered trees of a partition: one interface for the layers above, over copy-on-write pages
//! and slotted ones.
//!
//! A tree has keys of a fixed number of words, and values of a fixed number of words or contents of
//! any length. All trees of a partition hang under one, the directory. Changes of transactions are
//! collected until their group is committed; a savepoint is taken where a transaction,
//! or one of its statements, began.

use super::cow::{Purpose, TreeReport, Value};
use std::ops::ControlFlow;
use storage::Result;
use storage::engine::{Direction, GlobalTxnId};
use storage::record::KeyBuf;

/// Called with each key and value of a scan, until it breaks or fails. The trees may be used
/// meanwhile.
pub type Visitor<'v, T> = &'v mut dyn FnMut(&mut T, &[u64], Value<'_>) -> Result<ControlFlow<()>>;

/// All trees of one partition.
pub trait Trees: Send + Sized {
    /// A tree by its number.
    type Tree: Copy + Send;
    /// A savepoint of the open transaction.
    type Savepoint: Copy + Send;

    /// Dirty pages, in bytes, after which a group ends even if nobody waits for it.
    const DIRTY_BYTES_MAX: usize = 16 << 20;

    /// Forgets all trees but the directory. Nothing may be dirty.
    fn forget_trees(&mut self);

    /// The directory: contents under keys of `key_words`.
    fn directory_tree(&self, key_words: usize) -> Result<Self::Tree>;

    /// Adds a tree whose root the directory has, or 0 for an empty one. `value_words` is 0 for
    /// contents. An error if entries are too long for its pages.
    fn add_tree(&mut self, root: u64, key_words: usize, value_words: usize) -> Result<Self::Tree>;

    /// The number of a tree; the directory's is 0, the others are counted in the order in which
    /// they were added.
    fn number(tree: Self::Tree) -> usize;

    /// The root that the directory has for a tree.
    fn committed_root(&self, tree: usize) -> u64;

    /// Whether the tree's entry in the directory will have to change and is not ready for it.
    fn wants_touch(&self, tree: usize) -> bool;

    /// Makes the entry of `tree` in the directory ready for its new root; false if there is no
    /// entry `key`.
    fn touch(&mut self, directory: Self::Tree, tree: Self::Tree, key: &[u64]) -> Result<bool>;

    /// Trees whose entries in the directory are ready and have to be written at the end of a group,
    /// with the roots for them.
    fn roots_to_write(&self) -> Vec<(usize, u64)>;

    /// Called when an operation has changed something: makes sure that its group can be committed.
    fn end_operation(&mut self) -> Result<()>;

    /// Adds a key; false, and no effect, if it is there.
    fn insert(&mut self, tree: Self::Tree, key: &[u64], value: Value<'_>) -> Result<bool>;

    /// Gives a key another value; false if it is not there.
    fn replace(&mut self, tree: Self::Tree, key: &[u64], value: Value<'_>) -> Result<bool>;

    /// Gives a key another content, which `change` makes in `image` from the one that it has; false
    /// if it is not there. `buffer` is for contents that do not lie in one piece.
    fn replace_content(
        &mut self,
        tree: Self::Tree,
        key: &[u64],
        buffer: &mut Vec<u8>,
        image: &mut Vec<u8>,
        change: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<()>,
    ) -> Result<bool>;

    /// Takes a key out; false if it is not there.
    fn remove(&mut self, tree: Self::Tree, key: &[u64]) -> Result<bool>;

    /// Calls `read` with a key's value; none if the key is not there. `buffer` is for contents that
    /// do not lie in one piece.
    fn get<R>(
        &mut self,
        tree: Self::Tree,
        key: &[u64],
        buffer: &mut Vec<u8>,
        read: impl FnOnce(Value<'_>) -> Result<R>,
    ) -> Result<Option<R>>;

    /// Calls `read` with the number of each key and its value, in order, so that their misses
    /// overlap where that is possible.
    fn get_many(
        &mut self,
        tree: Self::Tree,
        keys: &[KeyBuf],
        buffer: &mut Vec<u8>,
        read: &mut dyn FnMut(usize, Option<Value<'_>>) -> Result<()>,
    ) -> Result<()> {
        for (number, key) in keys.iter().enumerate() {
            let found = self.get(tree, key, buffer, |value| read(number, Some(value)))?;
            if found.is_none() {
                read(number, None)?;
            }
        }
        Ok(())
    }

    /// Visits the entries from the first of `bounds` to the second, both included, in order. Where
    /// values point to blocks, the visitor will read the first `block_bytes` of each.
    fn scan(
        &mut self,
        tree: Self::Tree,
        bounds: (&[u64], &[u64]),
        direction: Direction,
        block_bytes: usize,
        visit: Visitor<'_, Self>,
    ) -> Result<()>;

    /// Takes everything out. `leave` is called with each value before.
    fn clear(
        &mut self,
        tree: Self::Tree,
        leave: &mut dyn FnMut(&mut Self, Value<'_>) -> Result<()>,
    ) -> Result<()>;

    /// Visits every page and reports damage.
    fn check(&mut self, tree: Self::Tree, report: &mut TreeReport);

    /// Takes back what readers have given up. Between transactions.
    fn reclaim(&mut self);

    /// Sets the purpose for which the next statement copies pages: one that adds something leaves
    /// the reserve to others.
    fn begin_statement(&mut self, _copies: Purpose) {}

    /// A savepoint of the open transaction.
    fn savepoint(&mut self) -> Self::Savepoint;

    /// Takes back everything since `savepoint`.
    fn rollback(&mut self, savepoint: Self::Savepoint) -> Result<()>;

    /// Notes that the statement that began at `savepoint` has ended well: nobody goes back to
    /// `savepoint`, only to the beginning of the transaction.
    fn end_statement(&mut self, _mark: Self::Savepoint) {}

    /// Bytes of DRAM that the open transaction holds, with those of the group's pages that it is
    /// in.
    fn transaction_bytes(&self) -> usize;

    /// Whether the open transaction has changed anything.
    fn is_changed(&self) -> bool;

    /// Makes the open transaction part of the group.
    fn end_transaction(&mut self);

    /// Whether the group has anything to write.
    fn is_dirty(&self) -> bool;

    /// Bytes that the end of the group writes, at most about.
    fn dirty_bytes(&self) -> usize;

    /// Makes the group durable.
    fn commit(&mut self) -> Result<()>;

    /// Makes the group durable without deciding about it.
    fn prepare(&mut self, global: GlobalTxnId) -> Result<()>;

    /// Ends a prepared group. After an abort the caller rolls its transaction back.
    fn resolve(&mut self, commit: bool) -> Result<()>;

    /// Makes what a transaction has read durable, if it need not be. At the end of each
    /// transaction, also of those that only read.
    fn settle_reads(&mut self) -> Result<()> {
        Ok(())
    }
}
