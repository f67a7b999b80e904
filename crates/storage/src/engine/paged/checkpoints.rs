//! Checkpoints: when one is due, who writes it, and what it does.
//!
//! It writes all dirty pages and lets recovery begin where it has begun itself; transactions go on meanwhile. One is written at a time, under a lock of its
//! own, which is the first in the order of locks. On a full disk nothing has happened.
//!
//! On real devices a thread writes those that are due (`checkpointer`). Elsewhere the session does that has made the log so long, and its transaction waits.

use super::checkpointer::Writer;
use super::shared::{Shared, is_full};
use crate::buffer::{CheckpointNeed, CheckpointStart, Master};
use crate::error::{Result, StorageError};
use crate::platform::Platform;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError, TryLockError};

impl<P: Platform> Shared<P> {
    /// Whether the log is long. As long as pages are behind, whoever brings them forward writes a checkpoint then: that can wait while there is room.
    pub(super) fn checkpoint_need(&self) -> CheckpointNeed {
        let bytes_max = if self.pages.pool.is_behind() {
            u64::MAX
        } else {
            self.log_bytes_max
        };
        self.pages.pool.log().checkpoint_need(bytes_max)
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
            self.checkpoint_by(Writer::Thread)?;
        }
        Ok(is_behind)
    }

    /// Sees to it that a checkpoint is written if the log is long: lets the thread do that, and waits for it if the log is very long, or writes it, unless
    /// another session does.
    pub(super) fn checkpoint_if_due(&self) -> Result<()> {
        let need = self.checkpoint_need();
        if need == CheckpointNeed::None {
            return Ok(());
        }
        if !self.checkpointer.wake() {
            return self.try_checkpoint();
        }
        if need == CheckpointNeed::Urgent {
            let is_urgent = || self.checkpoint_need() == CheckpointNeed::Urgent;
            self.checkpointer.wait_if(is_urgent);
            if self.is_poisoned() {
                return Err(self.refusal());
            }
        }
        Ok(())
    }

    /// Writes a checkpoint, unless another session does or there is no room for it.
    fn try_checkpoint(&self) -> Result<()> {
        let one_at_a_time = match self.checkpoint.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(()),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Ok(lock) => lock,
        };
        match self.checkpoint_holding(&one_at_a_time, Writer::Session) {
            // The next one may find space.
            Err(error) if is_full(&error) => Ok(()),
            result => result,
        }
    }

    /// Writes those checkpoints that are due, as a thread of its own, until it is to end or fails.
    pub(super) fn run_checkpoints(&self) {
        let present = self.checkpointer.begin();
        while present.next() {
            if self.is_poisoned() {
                return;
            }
            match self.write_if_due() {
                // The next one may find space.
                Err(error) if !is_full(&error) => return self.stop(error),
                _ => present.looked(),
            }
        }
    }

    /// Writes a checkpoint if one is still due when nobody else writes any.
    fn write_if_due(&self) -> Result<()> {
        let lock = self.checkpoint.lock();
        let one_at_a_time = lock.unwrap_or_else(PoisonError::into_inner);
        if self.checkpoint_need() == CheckpointNeed::None {
            return Ok(());
        }
        self.checkpoint_holding(&one_at_a_time, Writer::Thread)
    }

    /// Writes all dirty pages and lets recovery begin here. Transactions go on meanwhile. On a full disk nothing has happened.
    pub(super) fn write_checkpoint(&self) -> Result<()> {
        self.checkpoint_by(Writer::Session)
    }

    fn checkpoint_by(&self, writer: Writer) -> Result<()> {
        let lock = self.checkpoint.lock();
        self.checkpoint_holding(&lock.unwrap_or_else(PoisonError::into_inner), writer)
    }

    fn checkpoint_holding(
        &self,
        _one_at_a_time: &MutexGuard<'_, ()>,
        writer: Writer,
    ) -> Result<()> {
        let pool = &self.pages.pool;
        let joined = self.group.begin_sync();
        let start = match pool.log().begin_checkpoint() {
            Err(error) if is_full(&error) => return Err(error),
            result => self.durable_step(result)?,
        };
        self.group.end_sync(joined);
        // Read behind the start: transactions with records in front of it have their numbers.
        let next_txn = self.next_txn.load(Ordering::SeqCst);
        self.durable_step(self.finish_checkpoint(start, next_txn, writer))
    }

    fn finish_checkpoint(
        &self,
        start: CheckpointStart,
        next_txn: u64,
        writer: Writer,
    ) -> Result<()> {
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
        pool.log().end_checkpoint(start.log)?;
        self.checkpointer.note(writer);
        Ok(())
    }
}
