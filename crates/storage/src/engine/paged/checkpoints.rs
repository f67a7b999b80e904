//! Checkpoints: when one is due, and what it does.
//!
//! It writes all dirty pages and lets recovery begin where it has begun itself; transactions go on meanwhile. One is written at a time, under a lock of its
//! own. On a full disk nothing has happened.

use super::shared::{Shared, is_full};
use crate::buffer::{CheckpointStart, Master};
use crate::error::{Result, StorageError};
use crate::platform::Platform;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError, TryLockError};

impl<P: Platform> Shared<P> {
    /// Whether the log is long. As long as pages are behind, whoever brings them forward writes a checkpoint then: that can wait while there is room.
    pub(super) fn is_checkpoint_due(&self) -> bool {
        let bytes_max = if self.pages.pool.is_behind() {
            u64::MAX
        } else {
            self.log_bytes_max
        };
        self.pages.pool.log().is_due(bytes_max)
    }

    /// Repeats what one page lacks since the opening, or writes the checkpoint that the opening has left out. Says whether there is more to do.
    pub(super) fn catch_up_step(&self) -> Result<bool> {
        if self.is_poisoned() {
            return Err(StorageError::Poisoned);
        }
        let pool = &self.pages.pool;
        if !pool.is_behind() {
            return Ok(false);
        }
        let is_behind = self.durable_step(pool.catch_up_step())?;
        if !is_behind {
            self.write_checkpoint()?;
        }
        Ok(is_behind)
    }

    /// Writes a checkpoint if the log is long, unless another session does.
    pub(super) fn checkpoint_if_due(&self) -> Result<()> {
        if !self.is_checkpoint_due() {
            return Ok(());
        }
        let one_at_a_time = match self.checkpoint.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(()),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Ok(lock) => lock,
        };
        match self.checkpoint_holding(&one_at_a_time) {
            // The next one may find space.
            Err(error) if is_full(&error) => Ok(()),
            result => result,
        }
    }

    /// Writes all dirty pages and lets recovery begin here. Transactions go on meanwhile. On a full disk nothing has happened.
    pub(super) fn write_checkpoint(&self) -> Result<()> {
        let lock = self.checkpoint.lock();
        self.checkpoint_holding(&lock.unwrap_or_else(PoisonError::into_inner))
    }

    fn checkpoint_holding(&self, _one_at_a_time: &MutexGuard<'_, ()>) -> Result<()> {
        let pool = &self.pages.pool;
        let joined = self.group.begin_sync();
        let start = match pool.log().begin_checkpoint() {
            Err(error) if is_full(&error) => return Err(error),
            result => self.durable_step(result)?,
        };
        self.group.end_sync(joined);
        // Read behind the start: transactions with records in front of it have their numbers.
        let next_txn = self.next_txn.load(Ordering::SeqCst);
        self.durable_step(self.finish_checkpoint(start, next_txn))
    }

    fn finish_checkpoint(&self, start: CheckpointStart, next_txn: u64) -> Result<()> {
        let pool = &self.pages.pool;
        let old = pool.file().master();
        if old.start == start.log && old.redo == start.redo {
            return Ok(());
        }
        pool.write_all()?;
        pool.file().checkpoint(Master {
            start: start.log,
            redo: start.redo,
            next_txn,
            catalogue: self.catalogue,
            ..old
        })?;
        pool.log().end_checkpoint(start.log)
    }
}
