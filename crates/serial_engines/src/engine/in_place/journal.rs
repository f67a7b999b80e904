//! Durability of the in-place engine: the log, its groups, and its checkpoints.
//!
//! Each transaction is one record with all its operations, appended at the commit. A checkpoint
//! never contains uncommitted data, so the order is simple: the record is in the log before the
//! commit is acknowledged, and the checkpoint is durable before the log that it covers is removed.
//!
//! A checkpoint is written in steps ([`Snapshot`]), each after the end of a transaction that is in
//! the log; so reading alone writes nothing. The checkpoint that it replaces is removed in steps as
//! well.
//!
//! States: *none* → `begin_snapshot` (the log is long) → *writing* → `publish` → *clearing* →
//! `clear_piece` … → *none*; *writing* → `give_up` (a full disk, an explicit checkpoint) → *none*.

use super::snapshot::Snapshot;
use crate::engine::serial::commit_log::{CommitLog, identity, wal_options};
use crate::engine::serial::driver::Fault;
use crate::engine::serial::store::Store;
use crate::table::Space;
use disk::{Directory, DiskError};
use pmem::Memory;
use std::io::ErrorKind;
use storage::engine::{CommitTicket, EngineOptions, VerifyReport};
use storage::log::checkpoint::{self, CheckpointHead, CheckpointReader, CheckpointWriter};
use storage::log::{LogIdentity, LogStart, Wal};
use storage::record::{Row, TableId};
use storage::{Result, StorageError};

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
    pub(super) log: CommitLog<D>,
    identity: LogIdentity,
    newest: Checkpoint,
    /// The checkpoint that is being written.
    snapshot: Option<Box<Snapshot<D::File>>>,
    /// The checkpoint that the newest replaced, while it or the log before the newest is left.
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
            return Err(StorageError::foreign_file(file, reason));
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
        let sizes = wal_options(options.checkpoint_log_bytes / 4);
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
        Self {
            log: CommitLog::new(directory, options, wal, recovered),
            identity: identity(options),
            newest,
            snapshot: None,
            replaced: None,
            log_bytes_max: options.checkpoint_log_bytes,
            checkpoint_at: options.checkpoint_log_bytes,
        }
    }

    /// Runs a step of the log. A checkpoint that is being written gives its room to the log where
    /// the disk is full.
    pub(super) fn append<T>(
        &mut self,
        step: impl Fn(&mut CommitLog<D>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        match step(&mut self.log) {
            Err(Fault::Harmless(error))
                if checkpoint::is_harmless(&error) && self.snapshot.is_some() =>
            {
                let given_up = self.give_up();
                given_up.map_err(|error| self.log.fault(error))?;
                step(&mut self.log)
            }
            result => result,
        }
    }

    /// Whether a checkpoint is being written.
    #[cfg(test)]
    pub(super) fn is_writing(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Bytes of the log since the newest checkpoint.
    #[cfg(test)]
    pub(super) fn live_bytes(&self) -> u64 {
        self.log.wal.live_bytes()
    }

    /// Whether the log or a checkpoint needs the old row before it is changed or deleted.
    #[inline]
    pub(super) fn needs_before_images(&self) -> bool {
        self.snapshot.is_some() || self.log.record.has_before_images()
    }

    /// Hands the old row to a checkpoint that is being written, before the row is changed or
    /// deleted.
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
        } else if self.log.wal.live_bytes() >= self.checkpoint_at {
            let result = self.begin_snapshot(store);
            self.unless_harmless(result)
        } else {
            Ok(())
        }
    }

    /// Writes the rest of a checkpoint that still needs a table, before the table goes. After a
    /// failure the log takes no more transactions.
    pub(super) fn release<M: Memory>(
        &mut self,
        store: &mut Store<M>,
        table: TableId,
    ) -> Result<()> {
        match &mut self.snapshot {
            Some(snapshot) if snapshot.needs(table) => {
                let result = snapshot.complete(store).and_then(|()| self.publish());
                let result = self.unless_harmless(result);
                result.inspect_err(|error| self.log.refuse(error))
            }
            _ => Ok(()),
        }
    }

    /// Writes a checkpoint of the state now, and removes the one that it replaces. On a full disk
    /// everything stays as it was.
    pub(super) fn checkpoint<M: Memory>(&mut self, store: &mut Store<M>) -> Result<()> {
        self.give_up()?;
        while self.clear_piece()? {}
        self.log.force()?;
        let head = self.newest.head;
        if self.log.wal.end() == head.start.lsn && head.ticket == self.log.newest() {
            return Ok(());
        }
        let mut result = self.write_snapshot(store);
        if result.as_ref().is_err_and(checkpoint::is_harmless) && self.log.give_up_reserve()? {
            // The checkpoint of the remaining rows may fit into the room of the reserve, and the
            // log that it makes needless is longer.
            result = self.write_snapshot(store);
        }
        if result.is_ok() {
            while self.clear_piece()? {}
        }
        let kept = self.log.keep_reserve().map(drop);
        result.and(kept)
    }

    /// Writes a checkpoint if earlier openings have left much room without records in the log. To
    /// be called at the opening: short ones never come to the end of a checkpoint in steps. A full
    /// disk postpones it.
    pub(super) fn gather<M: Memory>(&mut self, store: &mut Store<M>) -> Result<()> {
        if !self.log.wal.is_sparse() {
            return Ok(());
        }
        let result = self.checkpoint(store);
        self.unless_harmless(result)
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
        let grown_bytes = self.log.wal.end().0 - snapshot.head.start.lsn.0;
        let result = match snapshot.advance(store, grown_bytes) {
            Ok(true) => self.publish(),
            other => other.map(|_| ()),
        };
        self.unless_harmless(result)
    }

    fn begin_snapshot<M: Memory>(&mut self, store: &Store<M>) -> Result<()> {
        let expected_bytes = self.newest.plain_bytes + self.log.wal.live_bytes();
        let start = self.log.cut()?;
        let head = CheckpointHead {
            number: self.newest.head.number + 1,
            start,
            ticket: self.log.newest(),
            settings: self.newest.head.settings,
        };
        let snapshot = Snapshot::begin(
            &self.log.directory,
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
        let file_bytes = match snapshot.writer.publish(&self.log.directory) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.log.refuse(&error);
                return Err(error);
            }
        };
        self.log.starts_at(head.start);
        self.replaced = Some(self.newest);
        self.newest = Checkpoint {
            head,
            file_bytes,
            plain_bytes,
        };
        self.checkpoint_at = self.log_bytes_max;
        Ok(())
    }

    /// Removes one piece of the files that the newest checkpoint replaced; false if none is left.
    fn clear_piece(&mut self) -> Result<bool> {
        let Some(replaced) = self.replaced else {
            return Ok(false);
        };
        if !self.log.remove_needless()?
            && checkpoint::remove_piece(&self.log.directory, self.identity, replaced.head.number)?
        {
            self.replaced = None;
        }
        Ok(true)
    }

    /// Drops the checkpoint that is being written. The space goes back at once, not only at the
    /// next attempt.
    fn give_up(&mut self) -> Result<()> {
        self.snapshot = None;
        self.log.wal.cancel_checkpoint();
        checkpoint::remove_unpublished(&self.log.directory, self.identity)
    }

    /// After a failure that changed nothing the checkpoint is tried again when the log has grown by
    /// a part of its limit.
    fn unless_harmless(&mut self, result: Result<()>) -> Result<()> {
        match result {
            Err(error) if checkpoint::is_harmless(&error) && !self.log.is_poisoned() => {
                self.checkpoint_at = self.log.wal.live_bytes() + self.log_bytes_max / 4 + 1;
                self.give_up()
            }
            other => other,
        }
    }

    pub(super) fn checkpoint_bytes(&self) -> u64 {
        let written = self.snapshot.as_ref();
        self.newest.file_bytes
            + self.replaced.map_or(0, |replaced| replaced.file_bytes)
            + written.map_or(0, |snapshot| snapshot.writer.file_bytes())
    }

    /// Reads both files again. Fails where they cannot be read, which is no damage; a file that is
    /// not there any more is.
    pub(super) fn verify(&self, report: &mut VerifyReport) -> Result<()> {
        let checkpoint = CheckpointReader::open_newest(&self.log.directory, self.identity)
            .and_then(|mut reader| reader.read(&mut |_| Ok(())))
            .map(|_| ());
        let log = self.log.verify();
        for error in [checkpoint, log].into_iter().filter_map(Result::err) {
            if let StorageError::Disk(failed) = &error {
                let is_missing = matches!(&**failed, DiskError::Io { source, .. }
                    if source.kind() == ErrorKind::NotFound);
                if !is_missing {
                    return Err(error);
                }
            }
            report.damage.push(error.to_string());
        }
        Ok(())
    }
}

impl<D: Directory> Drop for Journal<D> {
    /// Removes a checkpoint that is being written. A failure here loses nothing.
    fn drop(&mut self) {
        if !std::thread::panicking() && !self.log.is_poisoned() && self.snapshot.is_some() {
            let _ = self.give_up();
        }
    }
}
