//! The transaction block of a session: its savepoints, and what it has defined.
//!
//! Its savepoints have marks of the connection and the catalogue of their moment, so rolling back
//! to one undoes rows and definitions together.

use super::deferred::Deferred;
use super::exclusion::Exclusion;
use crate::catalog::{Catalog, Oid};
use indelible::{Isolation, Mode, StatementSavepoint};
use sql_values::setting::READ_COMMITTED;
use std::sync::Arc;

/// Whether a transaction is open, and who ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// None is open.
    Idle,
    /// One is open that ends with the statements that were sent together.
    Implicit,
    /// One is open until `COMMIT` or `ROLLBACK`.
    Open,
    /// One has failed and waits for `ROLLBACK`.
    Failed,
}

/// A savepoint, and the catalogue at its moment.
pub(crate) struct Savepoint {
    pub(crate) name: String,
    pub(crate) mark: StatementSavepoint,
    pub(crate) catalog: Arc<Catalog>,
    /// Whether the catalogue was the transaction's own, and nobody else could define anything.
    pub(crate) defines: bool,
    /// Notifications that were announced before it.
    pub(crate) announced: (usize, usize),
    pub(crate) deferred: Deferred,
    /// Whether the transaction could change rows.
    pub(crate) access: Mode,
}

/// The open transaction, or the one to come.
pub(crate) struct Transaction {
    pub(crate) block: Block,
    pub(crate) savepoints: Vec<Savepoint>,
    /// Whether it has changed the catalogue, which is its own then.
    pub(crate) defines: bool,
    /// Tables below, and indexes of them, that it has made or no longer needs.
    pub(crate) loose: Vec<Loose>,
    /// Modes of the open one; those of the next one are in the settings.
    pub(crate) isolation: Isolation,
    /// The name by which it was asked for.
    pub(crate) isolation_name: &'static str,
    pub(crate) access: Mode,
    /// Whether it is `DEFERRABLE`, which is shown and means nothing: no snapshot waits.
    pub(crate) defers: bool,
    /// Whether a query has run, after which the isolation cannot be changed.
    pub(crate) has_read: bool,
    /// The catalogue of its snapshot, once it has one that lasts.
    pub(crate) known: Option<Arc<Catalog>>,
    /// There once it has locked a table for itself.
    pub(crate) exclusion: Option<Exclusion>,
}

/// A thing below whose fate the end of the transaction decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Loose {
    Table(String),
    Index {
        table: String,
        index: String,
    },
    /// The state of a sequence, by the number under which it is stored.
    Sequence(Oid),
}

impl Transaction {
    pub(crate) fn idle() -> Self {
        Self {
            block: Block::Idle,
            savepoints: Vec::new(),
            defines: false,
            loose: Vec::new(),
            isolation: Isolation::ReadCommitted,
            isolation_name: READ_COMMITTED,
            access: Mode::ReadWrite,
            defers: false,
            has_read: false,
            known: None,
            exclusion: None,
        }
    }

    /// The settings that show its modes.
    pub(crate) fn shown(&self) -> [(&'static str, &'static str); 3] {
        let switch = |is_on: bool| if is_on { "on" } else { "off" };
        [
            ("transaction_isolation", self.isolation_name),
            (
                "transaction_read_only",
                switch(self.access == Mode::ReadOnly),
            ),
            ("transaction_deferrable", switch(self.defers)),
        ]
    }

    /// Its modes, for the one that follows with `AND CHAIN`.
    pub(crate) fn modes(&self) -> (Isolation, &'static str, Mode, bool) {
        let name = self.isolation_name;
        (self.isolation, name, self.access, self.defers)
    }

    /// The level of its changes of settings: 1, and one more in each savepoint.
    pub(crate) fn level(&self) -> usize {
        self.savepoints.len() + 1
    }

    /// Whether a statement that cannot be undone must be refused.
    pub(crate) fn is_block(&self) -> bool {
        matches!(self.block, Block::Open | Block::Failed)
    }
}
