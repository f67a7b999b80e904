//! Undoing transactions, whole or back to a savepoint, with a compensation record for each entry.
//!
//! A compensation says how many entries are left to undo. It is never undone itself, so a crash in
//! the middle of a rollback loses no progress.

use super::change::wrong_page;
use super::search_path::SearchPath;
use super::space::Pages;
use super::transaction::{Entry, Savepoint, Transaction};
use super::tree::{Stored, Tree};
use crate::buffer::UndoSpace;
use crate::page::{Head, KeyOf, Undo};
use disk::Directory;
use storage::record::KeyBuf;
use storage::{Result, StorageError};

impl<D: Directory> Pages<D> {
    /// Undoes a transaction, logs that it is, and frees what it had taken.
    pub fn undo(&self, txn: &mut Transaction) -> Result<()> {
        while !self.undo_step(txn)? {}
        Ok(())
    }

    /// Undoes the newest change of a transaction; where there is none left, logs that it is undone
    /// and frees what it had taken. Says whether it was that.
    pub fn undo_step(&self, txn: &mut Transaction) -> Result<bool> {
        if !txn.is_logged {
            self.forget(txn);
            return Ok(true);
        }
        if !txn.undo.is_empty() {
            self.pool.log().make_way()?;
            self.undo_newest(txn)?;
            return Ok(false);
        }
        let frees = self.given_up(txn, false)?;
        let head = Head::Abort(txn.id, frees.clone());
        self.log_head(&head, self.reserve_for_freeing(txn.session, frees.len()))?;
        self.free(txn.id, txn.session, &frees)?;
        Ok(true)
    }

    /// Undoes a transaction back to where it stood.
    pub fn rollback(&self, txn: &mut Transaction, mark: Savepoint) -> Result<()> {
        assert!(
            mark.entries <= txn.undo.len() && mark.frees <= txn.frees.len(),
            "a savepoint is of another transaction"
        );
        txn.frees.truncate(mark.frees);
        while txn.undo.len() > mark.entries {
            self.undo_newest(txn)?;
        }
        debug_assert_eq!(
            txn.undo.len(),
            mark.entries,
            "a rollback takes back the entries since its savepoint and no other"
        );
        Ok(())
    }

    fn undo_newest(&self, txn: &mut Transaction) -> Result<()> {
        let Some(entry) = txn.undo.last().map(<[u8]>::to_vec) else {
            return Ok(());
        };
        let undo = Undo::decode(&entry);
        let undo = undo.map_err(|error| StorageError::Unsupported(error.to_string()))?;
        let root = match &undo {
            Undo::Remove(at)
            | Undo::Insert(at, ..)
            | Undo::Replace(at, ..)
            | Undo::Patch(at, ..) => at.root,
            Undo::FreePage(page) | Undo::FreeTree(page) => *page,
        };
        let mut key = KeyBuf::new();
        let mut tree_of = |at: &KeyOf<'_>| {
            super::values::assign(&mut key, at.key.len() / 8, at.key);
            Tree {
                root: at.root,
                key_words: at.key.len() / 8,
            }
        };
        let stored = |is_long: bool, bytes| Stored { bytes, is_long };
        let entry = |txn| Entry::Compensation(txn);
        let entries = txn.undo.len();
        let search_path = &mut SearchPath::default();
        let is_done = match undo {
            Undo::FreePage(page) => {
                txn.undone_pages.push(page);
                return self.compensate(txn);
            }
            Undo::FreeTree(root) => {
                txn.undone_trees.push(root);
                return self.compensate(txn);
            }
            Undo::Remove(at) => {
                let tree = tree_of(&at);
                tree.remove(self, (&key, search_path), &mut entry(txn), |_, _| Ok(()))?
            }
            Undo::Insert(at, is_long, value) => {
                let tree = tree_of(&at);
                tree.insert(
                    self,
                    (&key, search_path),
                    stored(is_long, value),
                    &mut entry(txn),
                )?
            }
            Undo::Replace(at, is_long, value) => {
                let tree = tree_of(&at);
                let value = stored(is_long, value);
                tree.replace(self, (&key, search_path), value, &mut entry(txn), |_, _| {
                    Ok(())
                })?
            }
            Undo::Patch(at, offset, bytes) => {
                let tree = tree_of(&at);
                tree.patch(self, &key, offset, bytes, &mut entry(txn))?
            }
        };
        if is_done && txn.undo.len() < entries {
            return Ok(());
        }
        let text = format!(
            "its tree lacks what an open transaction has put at {:x?}",
            &*key
        );
        Err(wrong_page(&self.pool, root, &text))
    }

    /// Notes that the newest entry is undone, which changed no page.
    fn compensate(&self, txn: &mut Transaction) -> Result<()> {
        let head = Head::Compensation(txn.id, txn.undo.len().saturating_sub(1) as u32);
        self.log_head(&head, UndoSpace::Keep(txn.session))?;
        txn.undo.pop();
        Ok(())
    }
}
