//! Typed transactions beside connections: they lock what they change, and leave before images.
//!
//! While no connection is open, a typed transaction does none of this. Beside connections each of
//! its changes takes the row's lock without waiting, since it holds partitions meanwhile; a lock
//! that a connection has is a conflict, after which the closure runs again with nothing held. Its
//! reads need no notes: with one session slot a partition it holds what it reads until it ends, so
//! a serializable connection that writes there commits, and validates, after it; with many the
//! connection's changes wait for its engine locks, and validation comes after these.

use super::change::{Change, Move};
use super::clock::Pending;
use super::row_locks::{RowLock, is_busy, lock_error, lock_row, lock_unique};
use super::unique::unique_keys;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::session::Session;
use crate::table::Table;
use std::sync::Arc;
use std::time::Duration;
use storage::lock::LockSession;
use storage::record::{KeyBuf, Placement, Row};

/// Locks and images of a typed transaction beside connections.
pub(crate) struct Beside {
    locks: LockSession,
    /// Its changes, where images are made when it commits.
    changes: Vec<Change>,
    /// Its images, where they are made before each change.
    pending: Option<Pending>,
}

impl Beside {
    fn new(core: &Core) -> Box<Self> {
        let mut locks = core.shared.locks.session();
        locks.set_wait_limit(Duration::ZERO);
        Box::new(Self {
            locks,
            changes: Vec::new(),
            pending: None,
        })
    }

    /// Gives the transaction its number, just before the engine commits it.
    pub(crate) fn settle(&mut self, core: &Core) -> Result<()> {
        let clock = &core.shared.clock;
        if let Some(pending) = &mut self.pending {
            clock.settle(pending, None)?;
            self.pending = None;
        }
        if !self.changes.is_empty() {
            clock.commit(None, self.changes.iter())?;
        }
        Ok(())
    }

    /// The transaction has ended in the engines.
    pub(crate) fn end(&mut self, core: &Core) {
        if let Some(pending) = self.pending.take() {
            core.shared.clock.cancel(pending);
        }
        self.changes.clear();
        self.locks.end();
    }

    /// Locks the row of a change and its unique keys, without waiting.
    fn lock(&mut self, core: &Core, change: &Change) -> Result<()> {
        let mut unique = Vec::new();
        if let Some(shape) = change.table.entry.with_unique() {
            for row in [&change.before, &change.after].into_iter().flatten() {
                unique.extend(unique_keys(&shape, row)?);
            }
        }
        let keeps_key = change.before.is_some() && change.after.is_some();
        let strength = if keeps_key && unique.is_empty() {
            RowLock::NoKeyUpdate
        } else {
            RowLock::Update
        };
        let row = (change.table.id(), &change.key);
        self.locks.intend_change(row.0).map_err(lock_error)?;
        lock_row(&mut self.locks, &core.shared.lists, row, strength)?;
        unique.iter().try_for_each(|unique| {
            lock_unique(
                &mut self.locks,
                change.table.id(),
                unique.index,
                &unique.key,
            )
        })
    }
}

impl Session<'_> {
    /// Whether a change in this partition has to be locked and noted for connections. Asked once a
    /// partition has begun, because the barrier of the first connection waits for what has begun
    /// without knowing of it, and for nothing else.
    #[inline]
    pub(crate) fn is_beside(&mut self, placement: Placement) -> Result<bool> {
        self.begin_first(match placement {
            Placement::One(partition) => partition,
            Placement::All => 0,
        })?;
        Ok(self.core.shared.period() != 0 && !self.is_of_connection)
    }

    /// Runs the change of a row beside connections. `before` is the row as the transaction sees it.
    #[cold]
    pub(crate) fn change_beside<R>(
        &mut self,
        table: &Table,
        before: Option<Row>,
        after: Option<Row>,
        run: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<R> {
        let Some(row) = before.as_ref().or(after.as_ref()) else {
            return run(self);
        };
        let mut key = KeyBuf::new();
        table.entry.shape.primary.encode_row(row, &mut key)?;
        let change = Change {
            table: table.clone(),
            key,
            before: before.map(Arc::new),
            after: after.map(Arc::new),
            update: None,
            moved: Move::None,
        };
        let core = self.core;
        let beside = self.beside.get_or_insert_with(|| Beside::new(core));
        if let Err(error) = beside.lock(core, &change) {
            return Err(if is_busy(&error) {
                self.failed(Error::RowLocked {
                    table: table.name().to_owned(),
                })
            } else {
                error
            });
        }
        core.shared.recent.forget(table.id(), &change.key);
        if core.has_many_slots() {
            // Readers may look at the row as soon as it changes.
            let pending = beside.pending.get_or_insert_default();
            core.shared.clock.announce(pending, [&change].into_iter());
            return run(self);
        }
        let done = run(self)?;
        if let Some(beside) = &mut self.beside {
            beside.changes.push(change);
        }
        Ok(done)
    }
}
