//! What makes the in-place engine durable: the log, its groups, and its checkpoints.
//!
//! One record a transaction, appended when it commits, with all its operations. Nothing that is not
//! committed is ever written to a checkpoint, so the order is simple: the record is in the log
//! before the commit is acknowledged, and the checkpoint is durable before the log in front of it
//! goes.
//!
//! A checkpoint is written in steps ([`Snapshot`]), each after the end of a transaction that is in
//! the log; so reading alone writes nothing. What it replaces goes in pieces as well.
//!
//! States: *none* → `begin_snapshot` (the log is long) → *writing* → `publish` → *clearing* →
//! `clear_piece` … → *none*; *writing* → `give_up` (a full disk, an explicit checkpoint) → *none*.

use super::snapshot::Snapshot;
use super::store::Store;
use crate::engine::{CommitTicket, Durability, EngineOptions, GlobalTxnId, VerifyReport};
use crate::error::{Result, StorageError};
use crate::log::checkpoint::{self, CheckpointHead, CheckpointReader, CheckpointWriter};
use crate::log::redo::{self, Fate, Outcome, RedoRecord};
use crate::log::{
    Due, GroupCommit, GroupCommitOptions, LogIdentity, LogStart, Purpose, Wal, WalOptions,
};
use crate::record::{Row, TableId};
use crate::table::Tables;
use disk::{Directory, DiskCounters, DiskError};
use pmem::Memory;
use std::io::ErrorKind;

/// The newest durable checkpoint.
#[derive(Clone, Copy)]
pub(super) struct Checkpoint {
    pub(super) head: CheckpointHead,
    /// Length of its file.
    pub(super) file_bytes: u64,
    /// Its length before compression.
    pub(super) plain_bytes: u64,
}

/// The files of one partition.
pub(super) struct Journal<D: Directory> {
    pub(super) directory: D,
    identity: LogIdentity,
    wal: Wal<D>,
    group: GroupCommit,
    /// The open transaction.
    pub(super) record: RedoRecord,
    newest: Checkpoint,
    /// The checkpoint that is being written.
    snapshot: Option<Box<Snapshot<D::File>>>,
    /// The checkpoint that the newest replaced, while it or the log in front of the newest is left.
    replaced: Option<Checkpoint>,
    log_bytes_max: u64,
    /// Log length at which the next checkpoint is tried.
    checkpoint_at: u64,
}

impl<D: Directory> Journal<D> {
    /// Makes the files of a new partition: an empty checkpoint.
    pub(super) fn create(
        directory: D,
        options: &EngineOptions,
        settings: [u64; 2],
    ) -> Result<Self> {
        let identity = identity(options);
        if checkpoint::exists(&directory, identity)? {
            let file = identity.file_name("checkpoint", 1);
            let reason = "another database has files here; choose an empty directory".to_owned();
            return Err(StorageError::ForeignFile { file, reason });
        }
        let head = CheckpointHead {
            number: 1,
            start: LogStart::NEW,
            ticket: CommitTicket(0),
            settings,
        };
        let mut writer = CheckpointWriter::create(&directory, identity, head)?;
        writer.finish()?;
        let newest = Checkpoint {
            head,
            plain_bytes: writer.plain_bytes(),
            file_bytes: writer.publish(&directory)?,
        };
        let sizes = wal_options(options);
        let wal = Wal::open(&directory, identity, sizes, head.start, &mut |_, _| Ok(()))?;
        Ok(Self::new(directory, options, wal, newest, head.ticket))
    }

    pub(super) fn new(
        directory: D,
        options: &EngineOptions,
        wal: Wal<D>,
        newest: Checkpoint,
        recovered: CommitTicket,
    ) -> Self {
        let group = GroupCommitOptions {
            transactions_max: options.group_transactions_max,
            wait_us_max: options.group_wait_us_max,
        };
        Self {
            directory,
            identity: identity(options),
            wal,
            group: GroupCommit::new(group, recovered),
            record: RedoRecord::new(options.log_images),
            newest,
            snapshot: None,
            replaced: None,
            log_bytes_max: options.checkpoint_log_bytes,
            checkpoint_at: options.checkpoint_log_bytes,
        }
    }

    /// Puts the open transaction into the log. Fails without effect if there is no space.
    pub(super) fn append(&mut self) -> Result<()> {
        self.append_as(Fate::Committed)
    }

    /// A checkpoint that is being written gives its room to the log where the disk is full.
    fn append_as(&mut self, fate: Fate) -> Result<()> {
        match self.append_once(fate) {
            Err(error) if checkpoint::is_harmless(&error) && self.snapshot.is_some() => {
                self.give_up()?;
                self.append_once(fate)
            }
            appended => appended,
        }
    }

    fn append_once(&mut self, fate: Fate) -> Result<()> {
        let purpose = self.record.purpose();
        let record = self.record.seal(fate, self.group.next());
        self.wal.append_for(&self.directory, record, purpose)?;
        Ok(())
    }

    /// Gives the transaction in the log its ticket, and makes it durable if that is due.
    pub(super) fn join(&mut self, durability: Durability) -> Result<CommitTicket> {
        let due = self.group.join(durability);
        self.end(due)
    }

    /// The ticket of a transaction without effects: of the newest one that it may have read.
    pub(super) fn wait(&mut self, durability: Durability) -> Result<CommitTicket> {
        let due = self.group.wait(durability);
        self.end(due)
    }

    fn end(&mut self, due: Due) -> Result<CommitTicket> {
        self.record.clear();
        if due == Due::Now {
            self.force()?;
        }
        Ok(self.group.newest())
    }

    /// Makes the open transaction survive a crash without deciding it.
    pub(super) fn prepare(&mut self, global: GlobalTxnId) -> Result<()> {
        self.append_as(Fate::Prepared(global))?;
        self.wal.flush()
    }

    /// Notes how the commit table decided about the prepared transaction. A note of an abort may be
    /// left out where the disk is full: recovery does not find the transaction in the commit table.
    /// Without the note of a commit the table's slot must never be used again, so the partition
    /// stops and recovery asks the table.
    pub(super) fn resolve(&mut self, global: GlobalTxnId, outcome: Outcome) -> Result<()> {
        let record = redo::header(Fate::Resolved(global, outcome), self.group.next());
        let purpose = Purpose::Release;
        match self.wal.append_for(&self.directory, &record, purpose) {
            Err(error) if checkpoint::is_harmless(&error) && outcome == Outcome::Aborted => Ok(()),
            Err(error) => {
                self.wal.refuse(&error);
                Err(error)
            }
            Ok(_) => Ok(()),
        }
    }

    /// Makes every committed transaction durable.
    pub(super) fn force(&mut self) -> Result<()> {
        self.wal.flush()?;
        self.group.synced();
        Ok(())
    }

    pub(super) fn durable(&self) -> CommitTicket {
        self.group.durable()
    }

    /// The ticket of the newest commit.
    #[cfg(test)]
    pub(super) fn newest(&self) -> CommitTicket {
        self.group.newest()
    }

    /// Whether a checkpoint is being written.
    #[cfg(test)]
    pub(super) fn is_writing(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Bytes of the log since the newest checkpoint.
    #[cfg(test)]
    pub(super) fn live_bytes(&self) -> u64 {
        self.wal.live_bytes()
    }

    /// Whether somebody has to know what a row was before it is changed or deleted.
    #[inline]
    pub(super) fn needs_before_images(&self) -> bool {
        self.snapshot.is_some() || self.record.has_before_images()
    }

    /// Tells a checkpoint that is being written what a row was before it was changed or deleted.
    #[inline]
    pub(super) fn keep(&mut self, table: TableId, key: &[u64], before: &Row) {
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.keep(table, key, before);
        }
    }

    /// Tells a checkpoint that is being written that a row is new.
    #[inline]
    pub(super) fn leave_out(&mut self, table: TableId, row: &Row) {
        if let Some(snapshot) = &mut self.snapshot {
            snapshot.leave_out(table, row);
        }
    }

    /// Takes the next step of a checkpoint, or begins one where the log has become long. To be
    /// called between transactions. A full disk puts the checkpoint off: the log still has
    /// everything.
    #[inline]
    pub(super) fn advance<M: Memory>(&mut self, store: &mut Store<M>) -> Result<()> {
        if self.snapshot.is_some() {
            self.advance_snapshot(store)
        } else if self.replaced.is_some() {
            self.clear_piece().map(|_| ())
        } else if self.wal.live_bytes() >= self.checkpoint_at {
            let result = self.begin_snapshot(store);
            self.unless_harmless(result)
        } else {
            Ok(())
        }
    }

    /// Writes the rest of a checkpoint that still needs a table, before the table goes.
    pub(super) fn release<M: Memory>(
        &mut self,
        store: &mut Store<M>,
        table: TableId,
    ) -> Result<()> {
        match &mut self.snapshot {
            Some(snapshot) if snapshot.needs(table) => {
                let result = snapshot.complete(store).and_then(|()| self.publish());
                self.unless_harmless(result)
            }
            _ => Ok(()),
        }
    }

    /// Writes a checkpoint of the state now, and removes what it replaces. If the disk is full
    /// everything is as it was.
    pub(super) fn checkpoint<M: Memory>(&mut self, store: &mut Store<M>) -> Result<()> {
        self.give_up()?;
        while self.clear_piece()? {}
        self.force()?;
        let head = self.newest.head;
        if self.wal.end() == head.start.lsn && head.ticket == self.group.newest() {
            return Ok(());
        }
        let mut result = self.write_snapshot(store);
        if result.as_ref().is_err_and(checkpoint::is_harmless)
            && self.wal.give_up_reserve(&self.directory)?
        {
            // The checkpoint of what is left may fit into the room of the reserve, and the log that it makes needless is longer.
            result = self.write_snapshot(store);
        }
        if result.is_ok() {
            while self.clear_piece()? {}
        }
        let kept = self.wal.keep_reserve(&self.directory).map(drop);
        result.and(kept)
    }

    /// Writes a whole checkpoint and puts it in force. If that fails nothing is left of it.
    fn write_snapshot<M: Memory>(&mut self, store: &mut Store<M>) -> Result<()> {
        let mut result = self.begin_snapshot(store);
        if let (Ok(()), Some(snapshot)) = (&result, &mut self.snapshot) {
            result = snapshot.complete(store).and_then(|()| self.publish());
        }
        if result.is_err() {
            self.give_up()?;
        }
        result
    }

    fn advance_snapshot<M: Memory>(&mut self, store: &mut Store<M>) -> Result<()> {
        let Some(snapshot) = &mut self.snapshot else {
            return Ok(());
        };
        let grown_bytes = self.wal.end().0 - snapshot.head.start.lsn.0;
        let result = match snapshot.advance(store, grown_bytes) {
            Ok(true) => self.publish(),
            other => other.map(|_| ()),
        };
        self.unless_harmless(result)
    }

    fn begin_snapshot<M: Memory>(&mut self, store: &Store<M>) -> Result<()> {
        let expected_bytes = self.newest.plain_bytes + self.wal.live_bytes();
        let start = self.wal.begin_checkpoint()?;
        self.group.synced();
        let head = CheckpointHead {
            number: self.newest.head.number + 1,
            start,
            ticket: self.group.newest(),
            settings: self.newest.head.settings,
        };
        let snapshot = Snapshot::begin(
            &self.directory,
            self.identity,
            head,
            store.space.tables(),
            expected_bytes,
            self.log_bytes_max / 2,
        )?;
        self.snapshot = Some(Box::new(snapshot));
        Ok(())
    }

    /// Puts the finished snapshot in force.
    fn publish(&mut self) -> Result<()> {
        let Some(mut snapshot) = self.snapshot.take() else {
            return Ok(());
        };
        snapshot.writer.finish()?;
        let plain_bytes = snapshot.writer.plain_bytes();
        let head = snapshot.head;
        let file_bytes = match snapshot.writer.publish(&self.directory) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.wal.refuse(&error);
                return Err(error);
            }
        };
        self.wal.end_checkpoint(head.start);
        self.replaced = Some(self.newest);
        self.newest = Checkpoint {
            head,
            file_bytes,
            plain_bytes,
        };
        self.checkpoint_at = self.log_bytes_max;
        Ok(())
    }

    /// Removes one piece of what the newest checkpoint replaced; false if nothing is left.
    fn clear_piece(&mut self) -> Result<bool> {
        let Some(replaced) = self.replaced else {
            return Ok(false);
        };
        if !self.wal.remove_needless(&self.directory)?
            && checkpoint::remove_piece(&self.directory, self.identity, replaced.head.number)?
        {
            self.replaced = None;
        }
        Ok(true)
    }

    /// Drops the checkpoint that is being written. The space goes back at once, not only at the
    /// next attempt.
    fn give_up(&mut self) -> Result<()> {
        self.snapshot = None;
        self.wal.cancel_checkpoint();
        checkpoint::remove_unpublished(&self.directory, self.identity)
    }

    /// After a failure that changed nothing the checkpoint is tried again when the log has grown by
    /// a part of its limit.
    fn unless_harmless(&mut self, result: Result<()>) -> Result<()> {
        match result {
            Err(error) if checkpoint::is_harmless(&error) && !self.wal.is_poisoned() => {
                self.checkpoint_at = self.wal.live_bytes() + self.log_bytes_max / 4 + 1;
                self.give_up()
            }
            other => other,
        }
    }

    pub(super) fn log_bytes(&self) -> u64 {
        self.wal.file_bytes()
    }

    pub(super) fn checkpoint_bytes(&self) -> u64 {
        let written = self.snapshot.as_ref();
        self.newest.file_bytes
            + self.replaced.map_or(0, |replaced| replaced.file_bytes)
            + written.map_or(0, |snapshot| snapshot.writer.file_bytes())
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.wal.is_poisoned()
    }

    pub(super) fn counters(&self) -> DiskCounters {
        self.directory.counters()
    }

    /// Reads both files again. Fails where they cannot be read, which is no damage; a file that is
    /// not there any more is.
    pub(super) fn verify(&self, report: &mut VerifyReport) -> Result<()> {
        let checkpoint = CheckpointReader::open_newest(&self.directory, self.identity)
            .and_then(|mut reader| reader.read(&mut |_| Ok(())))
            .map(|_| ());
        let log = self.wal.verify(&self.directory);
        for error in [checkpoint, log].into_iter().filter_map(Result::err) {
            let is_missing = matches!(&error, StorageError::Disk(DiskError::Io { source, .. })
                if source.kind() == ErrorKind::NotFound);
            if matches!(error, StorageError::Disk(_)) && !is_missing {
                return Err(error);
            }
            report.damage.push(error.to_string());
        }
        Ok(())
    }
}

impl<D: Directory> Drop for Journal<D> {
    /// Closes the log in order. What could not be written is not acknowledged either, so a failure
    /// here loses nothing.
    fn drop(&mut self) {
        if !std::thread::panicking() && !self.wal.is_poisoned() {
            if self.snapshot.is_some() {
                let _ = self.give_up();
            }
            let _ = self.wal.close(&self.directory);
        }
    }
}

pub(super) fn identity(options: &EngineOptions) -> LogIdentity {
    LogIdentity {
        database: options.database_id,
        partition: options.partition,
    }
}

/// Room for the deletion of some ten thousand rows.
const RESERVE_BYTES_MAX: u64 = 1 << 20;

/// Segments are a fraction of the log's limit, so that a small limit has small files.
pub(super) fn wal_options(options: &EngineOptions) -> WalOptions {
    const SEGMENT_BYTES_MIN: u64 = 8 << 10;
    let usual = WalOptions::default();
    let share = (options.checkpoint_log_bytes / 4).next_multiple_of(4096);
    let segment_bytes = share.clamp(SEGMENT_BYTES_MIN, usual.segment_bytes);
    WalOptions {
        segment_bytes,
        reserve_bytes: segment_bytes.min(RESERVE_BYTES_MAX),
        ..usual
    }
}
