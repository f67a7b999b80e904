//! Checkpoints: when one is due, who writes it, and what it does.
//!
//! It writes all dirty pages and moves the start of recovery to the position where it began itself;
//! transactions go on meanwhile. One is written at a time, under a lock of its own, which is the
//! first in the order of locks. On a full disk nothing has happened.
//!
//! On real devices a thread writes the checkpoints that are due (`checkpointer`), at a pace that
//! leaves the device to the sessions unless one of them waits for it. Elsewhere the session that
//! has filled the log writes the checkpoint, and its transaction waits.

use super::checkpointer::Writer;
use super::shared::Shared;
use crate::buffer::{BatchSync, CheckpointNeed, CheckpointStart, Master};
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use storage::{Platform, Result};

/// A checkpoint is urgent when the log after the newest one is this many times as long as makes one
/// due: once when it begins, and once more when it takes as long as sessions take to make the next
/// one due. There may be some more before somebody has to wait.
const URGENT_AT: u64 = 3;
/// The thread spreads its writes over this fraction of the time until the next checkpoint is due,
/// measured by the growth of the log.
const PACE: (u128, u128) = (3, 4);
/// Interval at which it checks whether it may go on, and the longest wait between two parts, and in
/// all.
const PACE_PAUSE: Duration = Duration::from_millis(1);
const PACE_WAIT_EACH: Duration = Duration::from_millis(100);
const PACE_WAIT_MAX: Duration = Duration::from_mins(1);

impl<P: Platform> Shared<P> {
    /// Whether the log is long. While redo of pages is deferred, a checkpoint can wait as long as
    /// there is room: the end of the redo writes one.
    pub(super) fn checkpoint_need(&self) -> CheckpointNeed {
        let pool = &self.pages.pool;
        if pool.has_pending_redo() {
            return pool.log().checkpoint_need(u64::MAX, u64::MAX);
        }
        let urgent = self.log_bytes_max.saturating_mul(URGENT_AT);
        let urgent = urgent.saturating_add(pool.images().free_since_ended());
        pool.log().checkpoint_need(self.due_bytes(), urgent)
    }

    /// Bytes of log after the newest checkpoint that make the next one due.
    fn due_bytes(&self) -> u64 {
        let free = self.pages.pool.images().free_since_newest();
        self.log_bytes_max.saturating_add(free)
    }

    /// Redoes one page since the opening, or writes the checkpoint that the opening has left out.
    /// Says whether there is more to do.
    pub(super) fn catch_up_step(&self) -> Result<bool> {
        if self.is_poisoned() {
            return Err(self.refusal());
        }
        let pool = &self.pages.pool;
        if !pool.has_pending_redo() {
            return Ok(false);
        }
        let has_pending_redo = self.durable_step(pool.catch_up_step())?;
        if !has_pending_redo {
            self.checkpoint_by(Writer::Thread)?;
        }
        Ok(has_pending_redo)
    }

    /// If the log is long, wakes the thread, and waits for it if the log is very long. Without the
    /// thread, writes the checkpoint itself, unless another session does.
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

    /// As [`Shared::checkpoint_if_due`], for a caller that keeps others waiting: does not wait for
    /// the thread.
    pub(super) fn checkpoint_ahead(&self) -> Result<()> {
        if self.checkpoint_need() == CheckpointNeed::None || self.checkpointer.wake() {
            return Ok(());
        }
        self.try_checkpoint()
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
            Err(error) if error.is_out_of_space() => Ok(()),
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
                Err(error) if !error.is_out_of_space() => return self.stop(&error),
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

    /// Writes all dirty pages and lets recovery begin here. Transactions go on meanwhile. On a full
    /// disk nothing has happened.
    pub(super) fn write_checkpoint(&self) -> Result<()> {
        self.checkpoint_by(Writer::Session)
    }

    fn checkpoint_by(&self, writer: Writer) -> Result<()> {
        let _hurry = self.checkpointer.hurry();
        let lock = self.checkpoint.lock();
        self.checkpoint_holding(&lock.unwrap_or_else(PoisonError::into_inner), writer)
    }

    fn checkpoint_holding(
        &self,
        _one_at_a_time: &MutexGuard<'_, ()>,
        writer: Writer,
    ) -> Result<()> {
        if self.is_poisoned() {
            return Err(self.refusal());
        }
        let pool = &self.pages.pool;
        let joined = self.group.begin_sync();
        let start = match pool.log().begin_checkpoint() {
            Err(error) if error.is_out_of_space() => return Err(error),
            result => self.durable_step(result)?,
        };
        self.group.end_sync(joined);
        pool.images().begin_checkpoint();
        // Read after the start, so transactions with records before the start have lower numbers.
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
        match writer {
            Writer::Session => pool.write_all()?,
            Writer::Thread => {
                let mut left = PACE_WAIT_MAX;
                pool.write_all_by(&mut |done, all| self.keep_pace((done, all), &mut left))?;
            }
        }
        debug_assert!(
            old.redo <= start.redo && old.next_txn <= next_txn,
            "a checkpoint is older than the one before it"
        );
        pool.file().checkpoint(Master {
            start: start.log,
            redo: start.redo,
            next_txn,
            catalogue: self.catalogue,
            ..old
        })?;
        pool.log().end_checkpoint(start.log)?;
        pool.images().end_checkpoint();
        self.checkpointer.note(writer);
        Ok(())
    }

    /// Lets the thread wait after it has written the pages of `done` of `all` frames, until the log
    /// has grown by the share that is due by then: sessions have the device meanwhile. The wait is
    /// limited, as the log may not grow.
    fn keep_pace(&self, (done, all): (usize, usize), left: &mut Duration) -> Result<()> {
        let pool = &self.pages.pool;
        if self.is_poisoned() {
            return Err(self.refusal());
        }
        // Pages that go to an area where pages stay are durable at once, and are written home
        // later.
        let write_back = pool.readers().write_back();
        if write_back.batch_sync() == BatchSync::None || self.checkpointer.is_hurried() {
            return Ok(());
        }
        write_back.sync_ahead()?;
        let mut waited = Duration::ZERO;
        let most = PACE_WAIT_EACH.min(*left);
        let is_early = || {
            let span = self.due_bytes().min(pool.log().checkpoint_span());
            let due = u128::from(span) * PACE.0 * done as u128 / (PACE.1 * all as u128);
            let due = u64::try_from(due).unwrap_or(u64::MAX);
            pool.log().checkpoint_need(due, u64::MAX) == CheckpointNeed::None
        };
        while waited < most && !self.checkpointer.is_hurried() && is_early() {
            std::thread::sleep(PACE_PAUSE);
            waited += PACE_PAUSE;
        }
        *left = left.saturating_sub(waited);
        Ok(())
    }
}
