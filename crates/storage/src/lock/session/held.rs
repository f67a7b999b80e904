//! The locks of a session's transaction as a list, for a transaction that outlives its session: a
//! prepared one keeps them, and takes them again after a restart.
//!
//! The list has tables and keys. The partition is left out, because each of them takes its
//! intention there again, and so are ranges, which no prepared transaction has.

use super::LockSession;
use crate::error::Result;
use crate::lock::mode::{KeyMode, Mode};
use crate::lock::name::Space;
use crate::lock::wait::Visible;
use crate::record::{KeyBuf, TableId};
use crate::vocabulary::PageId;
use std::sync::Arc;

/// A lock that a transaction holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldLock {
    /// Of a whole table.
    Table {
        /// The table.
        table: TableId,
        /// The mode.
        mode: Mode,
    },
    /// Of a key.
    Key {
        /// The table that its tree belongs to.
        table: TableId,
        /// The tree.
        tree: PageId,
        /// The key.
        key: KeyBuf,
        /// The mode.
        mode: KeyMode,
    },
}

impl LockSession {
    /// The locks of the transaction on tables, and then those on keys, in the order in which they
    /// were taken.
    pub fn held_locks(&self) -> Vec<HeldLock> {
        let table_of = |whole: u32| match self.owned.wholes.name(whole).space {
            Space::Table(table) => Some(table),
            Space::Partition | Space::Tree(_) => None,
        };
        let tables = self.owned.active.iter().filter_map(|&whole| {
            Some(HeldLock::Table {
                table: table_of(whole)?,
                mode: self.owned.wholes.get(whole).strength.of_whole(),
            })
        });
        let keys = self.owned.order.iter().filter_map(|&number| {
            let owned = self.owned.keys.get(number);
            let name = self.owned.keys.name(number);
            let Space::Tree(tree) = name.space else {
                return None;
            };
            Some(HeldLock::Key {
                table: table_of(owned.whole)?,
                tree,
                key: KeyBuf::from_words(name.key),
                mode: owned.strength.of_key(),
            })
        });
        tables.chain(keys).collect()
    }

    /// Takes a lock of such a list.
    ///
    /// # Errors
    ///
    /// As `lock_table` and `lock_key`.
    pub fn lock_again(&mut self, held: &HeldLock) -> Result<()> {
        match held {
            HeldLock::Table { table, mode } => self.lock_table(*table, *mode),
            HeldLock::Key {
                table,
                tree,
                key,
                mode,
            } => self.lock_key(*table, *tree, key, *mode),
        }
    }

    /// A session that holds nothing, in the place of this one, which goes on holding what it has
    /// and never asks for more. Interrupts of this one end the waits of the new one.
    #[must_use]
    pub fn successor(&self) -> Self {
        let manager = &self.manager;
        let visible = manager.graph().add(|id| {
            Visible::with_parker(id, Arc::clone(&manager.queues), Arc::clone(&self.parker))
        });
        Self::new(Arc::clone(manager), visible)
    }
}
