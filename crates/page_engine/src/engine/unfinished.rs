//! Transactions that an opening has found unfinished, and that are undone while new ones run.
//!
//! Redo brings pages to their last logged state; then a row that no unfinished transaction has
//! changed can be read, and there is no need to wait for the others. So each unfinished transaction
//! gets a session, the locks on its changes, and the claim on the log that it had: it is a
//! transaction that is being rolled back, and nothing else has to know. A thread undoes one entry
//! after the other, or the driver of the engine does.
//!
//! Undone before the partition is open instead: changes of definitions, prepared transactions,
//! those in logs that give no claim ([`PageLog::claim`]: logs with undo records, and batches), and
//! changes beyond [`KEYS_MAX`].
//!
//! Invariants:
//! 1. The changes of such a transaction are locked from before the first session until they are
//!    undone. No two of them had the same lock, as locks are kept until the end of a transaction is
//!    in the log.
//! 2. Its claim is made before the first checkpoint, so the log keeps its records until it is
//!    undone, and another crash finds it again.

use super::shared::Shared;
use crate::page::{PageId, Undo};
use crate::paged::tables::Tables;
use crate::paged::{Pages, Transaction};
use disk::Directory;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use storage::engine::AfterCrash;
use storage::lock::{KeyMode, LockManager, LockSession};
use storage::record::{KeyBuf, TableId};
use storage::sync::{Mutex, lock};
use storage::{Platform, Result, StorageError};

/// Most keys that are locked for unfinished transactions.
const KEYS_MAX: usize = 1 << 17;

/// A transaction that is being undone, with its locks.
struct Undone {
    txn: Transaction,
    _locks: LockSession,
}

/// Those of one partition.
#[derive(Default)]
pub(super) struct Unfinished {
    left: Mutex<Vec<Undone>>,
    /// Whether there are some, to be read without the lock.
    is_any: AtomicBool,
}

/// Finds the table of a tree.
type Owners = HashMap<PageId, TableId>;

impl Unfinished {
    /// Takes over transactions that [are for later](is_for_later), or undoes them.
    pub(super) fn take<D: Directory>(
        pages: &Pages<D>,
        (manager, catalogue): (&Arc<LockManager>, PageId),
        found: Vec<Transaction>,
    ) -> Result<Self> {
        if found.is_empty() {
            return Ok(Self::default());
        }
        let owners = Tables::open(pages, catalogue)?.owners();
        let (mut left, mut room) = (Vec::new(), KEYS_MAX);
        for mut txn in found {
            if !pages.claim(&mut txn)? {
                pages.undo(&mut txn)?;
                continue;
            }
            while txn.undo.len() > room {
                pages.undo_step(&mut txn)?;
            }
            let mut locks = manager.session();
            // Nobody has a lock that it would have to wait for.
            locks.set_wait_limit(Duration::ZERO);
            locks.keep_keys();
            if lock_changed(&txn, &owners, &mut locks).is_err() {
                // It is newer than the holder of that lock, so to undo it first is right.
                pages.undo(&mut txn)?;
                continue;
            }
            room -= txn.undo.len();
            left.push(Undone { txn, _locks: locks });
        }
        Ok(Self {
            is_any: AtomicBool::new(!left.is_empty()),
            left: Mutex::new(left),
        })
    }

    /// Whether any is left.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// Undoes the newest change of one of them. Says whether any is left.
    fn step<D: Directory>(&self, pages: &Pages<D>) -> Result<bool> {
        let mut left = lock(&self.left);
        let Some(newest) = left.last_mut() else {
            return Ok(false);
        };
        if pages.undo_step(&mut newest.txn)? {
            // With its locks.
            left.pop();
            self.is_any.store(!left.is_empty(), Ordering::Release);
        }
        Ok(!left.is_empty())
    }
}

impl<P: Platform> Shared<P> {
    /// Undoes the newest change of an unfinished transaction. Says whether any is left.
    pub(super) fn undo_unfinished_step(&self) -> Result<bool> {
        if self.is_poisoned() {
            return Err(self.refusal());
        }
        self.durable_step(self.unfinished.step(&self.pages))
    }

    /// Undoes all of them. An operation that needs the whole partition waits for nothing else.
    pub(super) fn undo_unfinished(&self) -> Result<()> {
        while self.unfinished.is_any() {
            self.undo_unfinished_step()?;
        }
        Ok(())
    }
}

/// Whether a transaction has changed nothing but rows, and the engine may undo those later.
pub(super) fn is_for_later(txn: &Transaction, undoing: AfterCrash, catalogue: PageId) -> bool {
    let is_of_rows = |entry: &[u8]| match Undo::decode(entry) {
        Ok(Undo::FreePage(_)) => true,
        Ok(undo) => undo.key().is_some_and(|at| at.root != catalogue),
        Err(_) => false,
    };
    undoing != AfterCrash::AtOpening
        && txn.undone_trees.is_empty()
        && txn.undo.iter().all(is_of_rows)
}

/// Locks the keys that a transaction has changed.
fn lock_changed(txn: &Transaction, owners: &Owners, locks: &mut LockSession) -> Result<()> {
    let mut key = KeyBuf::new();
    for entry in txn.undo.iter() {
        let undo = Undo::decode(entry);
        let undo = undo.map_err(|error| StorageError::Unsupported(error.to_string()))?;
        let Some(at) = undo.key() else { continue };
        let Some(&table) = owners.get(&at.root) else {
            let text = format!(
                "an unfinished transaction has changed the tree at page {}, which is of no table",
                at.root.0
            );
            return Err(StorageError::Unsupported(text));
        };
        crate::paged::values::assign(&mut key, at.key.len() / 8, at.key);
        locks.lock_key(table, at.root, &key, KeyMode::Exclusive)?;
    }
    Ok(())
}
