//! The write-ahead log of a serial engine with files: one record a transaction, and groups that
//! share a sync.
//!
//! A record is in the log before its commit is acknowledged. An engine cuts the log when it begins
//! to write the log's content to another file: later records go to a new segment. Once that file is
//! durable, [`CommitLog::starts_at`] makes the segments before the cut needless, and they are
//! removed one by one.
//!
//! Invariant: after a failed append or sync that may have changed the files, the log refuses
//! everything.

use super::driver::Fault;
use disk::{Directory, DiskCounters};
use pmem::Access;
use storage::engine::{CommitTicket, Durability, EngineOptions, GlobalTxnId};
use storage::log::checkpoint::is_harmless;
use storage::log::redo::{self, Fate, Outcome, RedoRecord};
use storage::log::{
    Due, GroupCommit, GroupCommitOptions, LogIdentity, LogStart, Purpose, Wal, WalOptions,
};
use storage::{Result, StorageError};

/// A prepared transaction and its outcome, if there is one.
pub(in crate::engine) type Resolution = Option<(GlobalTxnId, Outcome)>;

/// The log of one partition.
pub(in crate::engine) struct CommitLog<D: Directory> {
    pub(in crate::engine) directory: D,
    pub(in crate::engine) wal: Wal<D>,
    group: GroupCommit,
    /// The open transaction.
    pub(in crate::engine) record: RedoRecord,
    /// Whether the transaction that ended last is in the log.
    pub(in crate::engine) has_grown: bool,
}

impl<D: Directory> CommitLog<D> {
    /// Over an open log, after the newest commit that was recovered.
    pub(in crate::engine) fn new(
        directory: D,
        options: &EngineOptions,
        wal: Wal<D>,
        recovered: CommitTicket,
    ) -> Self {
        let group = GroupCommitOptions {
            transactions_max: options.group_transactions_max,
            wait_us_max: options.group_wait_us_max,
        };
        Self {
            directory,
            wal,
            group: GroupCommit::new(group, recovered),
            record: RedoRecord::new(options.log_images),
            has_grown: false,
        }
    }

    /// Commits the open transaction, and makes it durable if that is due. One without effects gets
    /// the ticket of the newest one that it may have read. Fails harmlessly if there is no space.
    pub(in crate::engine) fn commit(
        &mut self,
        prepared: Option<GlobalTxnId>,
        durability: Durability,
    ) -> Result<CommitTicket, Fault> {
        self.has_grown = !self.record.is_empty();
        let due = if self.has_grown {
            match prepared {
                Some(global) => self.resolve(global, Outcome::Committed)?,
                None => self.append(Fate::Committed)?,
            }
            self.group.join(durability)
        } else {
            self.group.wait(durability)
        };
        self.record.clear();
        if due == Due::Now {
            self.force()?;
        }
        Ok(self.group.newest())
    }

    /// Makes the open transaction survive a crash without deciding it. Fails harmlessly if there is
    /// no space.
    pub(in crate::engine) fn prepare(&mut self, global: GlobalTxnId) -> Result<(), Fault> {
        if self.record.is_empty() {
            return self.force().map_err(|error| self.fault(error));
        }
        self.append(Fate::Prepared(global))?;
        self.wal.flush().map_err(|error| self.fault(error))
    }

    /// Drops the open transaction.
    pub(in crate::engine) fn abort(&mut self, prepared: Option<GlobalTxnId>) -> Result<()> {
        let prepared = prepared.filter(|_| !self.record.is_empty());
        self.has_grown = prepared.is_some();
        if let Some(global) = prepared {
            self.resolve(global, Outcome::Aborted)?;
        }
        self.record.clear();
        Ok(())
    }

    fn append(&mut self, fate: Fate) -> Result<(), Fault> {
        let purpose = self.record.purpose();
        let record = self.record.seal(fate, self.group.next());
        let appended = self.wal.append_for(&self.directory, record, purpose);
        appended.map(drop).map_err(|error| self.fault(error))
    }

    /// A failure that is harmless as long as the log is sound.
    pub(in crate::engine) fn fault(&self, error: StorageError) -> Fault {
        if self.is_poisoned() {
            Fault::Stop(error)
        } else {
            Fault::Harmless(error)
        }
    }

    /// The failure of a checkpoint.
    pub(in crate::engine) fn checkpoint_fault(&self, error: StorageError) -> Fault {
        if is_harmless(&error) {
            self.fault(error)
        } else {
            Fault::Stop(error)
        }
    }

    /// Makes the reserve file for operations that free space, unless it is there, and says whether
    /// it is.
    pub(in crate::engine) fn keep_reserve(&mut self) -> Result<bool> {
        self.wal.keep_reserve(&self.directory)
    }

    /// Frees the reserve file's space, and says whether there was any.
    pub(in crate::engine) fn give_up_reserve(&mut self) -> Result<bool> {
        self.wal.give_up_reserve(&self.directory)
    }

    /// Notes how the commit table decided about the prepared transaction. A note of an abort may be
    /// left out where the disk is full: recovery does not find the transaction in the commit table.
    /// Without the note of a commit the table's slot must never be used again, so the partition
    /// stops and recovery asks the table.
    fn resolve(&mut self, global: GlobalTxnId, outcome: Outcome) -> Result<()> {
        let record = redo::header(Fate::Resolved(global, outcome), self.group.next());
        let purpose = Purpose::Release;
        match self.wal.append_for(&self.directory, &record, purpose) {
            Err(error) if is_harmless(&error) && outcome == Outcome::Aborted => Ok(()),
            Err(error) => {
                self.wal.refuse(&error);
                Err(error)
            }
            Ok(_) => Ok(()),
        }
    }

    /// Writes down how recovery has ended a prepared transaction.
    pub(in crate::engine) fn settle(&mut self, resolved: Resolution, access: Access) -> Result<()> {
        if let (Some((global, outcome)), Access::Write) = (resolved, access) {
            self.resolve(global, outcome)?;
            self.force()?;
        }
        Ok(())
    }

    /// Makes every committed transaction durable.
    pub(in crate::engine) fn force(&mut self) -> Result<()> {
        self.wal.flush()?;
        self.group.synced();
        Ok(())
    }

    /// Cuts the log: everything before the cut is durable, and later records go to a new segment.
    pub(in crate::engine) fn cut(&mut self) -> Result<LogStart> {
        let start = self.wal.begin_checkpoint()?;
        self.group.synced();
        Ok(start)
    }

    /// Notes that a durable file has replay start here.
    pub(in crate::engine) fn starts_at(&mut self, start: LogStart) {
        self.wal.end_checkpoint(start);
    }

    /// Removes one segment that is not needed; false if there is none.
    pub(in crate::engine) fn remove_needless(&mut self) -> Result<bool> {
        self.wal.remove_needless(&self.directory)
    }

    pub(in crate::engine) fn durable(&self) -> CommitTicket {
        self.group.durable()
    }

    /// The ticket of the newest commit.
    pub(in crate::engine) fn newest(&self) -> CommitTicket {
        self.group.newest()
    }

    pub(in crate::engine) fn log_bytes(&self) -> u64 {
        self.wal.file_bytes()
    }

    pub(in crate::engine) fn is_poisoned(&self) -> bool {
        self.wal.is_poisoned()
    }

    pub(in crate::engine) fn refuse(&mut self, error: &StorageError) {
        self.wal.refuse(error);
    }

    pub(in crate::engine) fn counters(&self) -> DiskCounters {
        self.directory.counters()
    }

    /// Reads the log again; an error names its damage.
    pub(in crate::engine) fn verify(&self) -> Result<()> {
        self.wal.verify(&self.directory)
    }
}

impl<D: Directory> Drop for CommitLog<D> {
    /// Closes the log in order. Commits that cannot be written are not acknowledged either, so a
    /// failure here loses nothing.
    fn drop(&mut self) {
        if !std::thread::panicking() && !self.wal.is_poisoned() {
            let _ = self.wal.close(&self.directory);
        }
    }
}

pub(in crate::engine) fn identity(options: &EngineOptions) -> LogIdentity {
    LogIdentity {
        database: options.database_id,
        partition: options.partition,
    }
}

/// Room for the deletion of some ten thousand rows.
const RESERVE_BYTES_MAX: u64 = 1 << 20;

/// Segments of about `share` bytes, so that a small limit of the engine has small files.
pub(in crate::engine) fn wal_options(share: u64) -> WalOptions {
    const SEGMENT_BYTES_MIN: u64 = 8 << 10;
    let usual = WalOptions::default();
    let segment_bytes = share
        .next_multiple_of(4096)
        .clamp(SEGMENT_BYTES_MIN, usual.segment_bytes);
    WalOptions {
        segment_bytes,
        reserve_bytes: segment_bytes.min(RESERVE_BYTES_MAX),
        ..usual
    }
}
