//! What makes the in-place engine durable: the log, its groups, and its checkpoints.
//!
//! One record a transaction, appended when it commits, with all its operations. Nothing that is not
//! committed is ever written to a checkpoint, so the order is simple: the record is in the log
//! before the commit is acknowledged, and the checkpoint is durable before the log in front of it
//! goes.

use super::store::Store;
use crate::engine::{CommitTicket, Durability, EngineOptions, GlobalTxnId, ScanRange};
use crate::engine::{Direction, VerifyReport};
use crate::error::{Result, StorageError};
use crate::log::checkpoint::{self, CheckpointHead, CheckpointReader, CheckpointWriter};
use crate::log::redo::{self, Fate, Outcome, RedoRecord};
use crate::log::{Due, GroupCommit, GroupCommitOptions, LogIdentity, LogStart, Wal, WalOptions};
use crate::record::KeyBuf;
use crate::table::Table;
use disk::{Directory, DiskCounters};
use pmem::Memory;
use std::ops::ControlFlow;

/// The files of one partition.
pub(super) struct Journal<D: Directory> {
    pub(super) directory: D,
    identity: LogIdentity,
    wal: Wal<D>,
    group: GroupCommit,
    /// The open transaction.
    pub(super) record: RedoRecord,
    /// The newest checkpoint, and its length.
    head: CheckpointHead,
    checkpoint_bytes: u64,
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
        let checkpoint_bytes = writer.publish(&directory)?;
        let wal = Wal::open(
            &directory,
            identity,
            wal_options(options),
            head.start,
            &mut |_, _| Ok(()),
        )?;
        Ok(Self::new(
            directory,
            options,
            wal,
            head,
            checkpoint_bytes,
            head.ticket,
        ))
    }

    pub(super) fn new(
        directory: D,
        options: &EngineOptions,
        wal: Wal<D>,
        head: CheckpointHead,
        checkpoint_bytes: u64,
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
            record: RedoRecord::default(),
            head,
            checkpoint_bytes,
            log_bytes_max: options.checkpoint_log_bytes,
            checkpoint_at: options.checkpoint_log_bytes,
        }
    }

    /// Puts the open transaction into the log. Fails without effect if there is no space.
    pub(super) fn append(&mut self) -> Result<()> {
        let record = self.record.seal(Fate::Committed, self.group.next());
        self.wal.append(&self.directory, record)?;
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
        let record = self.record.seal(Fate::Prepared(global), self.group.next());
        self.wal.append(&self.directory, record)?;
        self.wal.flush()
    }

    /// Notes how the commit table decided about the prepared transaction. A note of an abort may be left out where the disk
    /// is full: recovery does not find the transaction in the commit table. Without the note of a commit the
    /// table's slot must never be used again, so the partition stops and recovery asks the table.
    pub(super) fn resolve(&mut self, global: GlobalTxnId, outcome: Outcome) -> Result<()> {
        let record = redo::header(Fate::Resolved(global, outcome), self.group.next());
        match self.wal.append(&self.directory, &record) {
            Err(error) if checkpoint::is_harmless(&error) && outcome == Outcome::Aborted => Ok(()),
            Err(error) => {
                self.wal.refuse();
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

    /// Whether the log is long enough for a checkpoint.
    pub(super) fn wants_checkpoint(&self) -> bool {
        self.wal.live_bytes() >= self.checkpoint_at
    }

    /// Tries again only after the log has grown by a part of its limit.
    pub(super) fn postpone_checkpoint(&mut self) {
        self.checkpoint_at = self.wal.live_bytes() + self.log_bytes_max / 4 + 1;
    }

    /// Writes a checkpoint of `store`, and removes the log and the checkpoint before it. If the
    /// disk is full everything is as it was.
    pub(super) fn checkpoint<M: Memory>(&mut self, store: &mut Store<M>) -> Result<()> {
        let start = self.wal.next_start()?;
        self.group.synced();
        if start.lsn == self.head.start.lsn && self.head.ticket == self.group.newest() {
            return Ok(());
        }
        let head = CheckpointHead {
            number: self.head.number + 1,
            start,
            ticket: self.group.newest(),
            settings: self.head.settings,
        };
        let written = CheckpointWriter::create(&self.directory, self.identity, head)
            .and_then(|mut writer| write_tables(&mut writer, store).map(|()| writer));
        let writer = match written {
            Ok(writer) => writer,
            Err(error) => {
                // The space goes back at once, not only at the next attempt.
                checkpoint::remove_unpublished(&self.directory, self.identity)?;
                return Err(error);
            }
        };
        let published = writer.publish(&self.directory).and_then(|bytes| {
            self.wal.remove_before(&self.directory, start)?;
            checkpoint::remove_older(&self.directory, self.identity, head.number)?;
            Ok(bytes)
        });
        match published {
            Ok(bytes) => self.checkpoint_bytes = bytes,
            Err(error) => {
                self.wal.refuse();
                return Err(error);
            }
        }
        self.head = head;
        self.checkpoint_at = self.log_bytes_max;
        Ok(())
    }

    pub(super) fn log_bytes(&self) -> u64 {
        self.wal.file_bytes()
    }

    pub(super) fn checkpoint_bytes(&self) -> u64 {
        self.checkpoint_bytes
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.wal.is_poisoned()
    }

    pub(super) fn counters(&self) -> DiskCounters {
        self.directory.counters()
    }

    /// Reads both files again.
    pub(super) fn verify(&self, report: &mut VerifyReport) {
        let checkpoint = CheckpointReader::open_newest(&self.directory, self.identity)
            .and_then(|mut reader| reader.read(&mut |_| Ok(())));
        let log = self.wal.verify(&self.directory);
        for error in [checkpoint, log].into_iter().filter_map(Result::err) {
            report.damage.push(error.to_string());
        }
    }
}

impl<D: Directory> Drop for Journal<D> {
    /// Closes the log in order. What could not be written is not acknowledged either, so a failure
    /// here loses nothing.
    fn drop(&mut self) {
        if !std::thread::panicking() && !self.wal.is_poisoned() {
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

/// Segments are a fraction of the log's limit, so that a small limit has small files.
pub(super) fn wal_options(options: &EngineOptions) -> WalOptions {
    const SEGMENT_BYTES_MIN: u64 = 8 << 10;
    let usual = WalOptions::default();
    let share = (options.checkpoint_log_bytes / 4).next_multiple_of(4096);
    let segment_bytes = share.clamp(SEGMENT_BYTES_MIN, usual.segment_bytes);
    WalOptions {
        segment_bytes,
        ..usual
    }
}

/// Writes all tables and their rows in key order, and syncs.
fn write_tables<M: Memory, F: disk::File>(
    writer: &mut CheckpointWriter<F>,
    store: &mut Store<M>,
) -> Result<()> {
    for table in store.space.tables() {
        writer.table(&table.def)?;
        let mut result = Ok(());
        let range = whole_table(&table);
        store
            .space
            .scan(&mut store.arena, &mut store.writes, &range, &mut |row| {
                result = writer.row(row);
                if result.is_ok() {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
        result?;
    }
    writer.finish()
}

fn whole_table(table: &Table) -> ScanRange {
    let words = table.primary.shape().words;
    let filled = |word: u64| {
        let mut key = KeyBuf::default();
        key.resized(words).fill(word);
        key
    };
    ScanRange {
        table: table.def.id,
        index: None,
        low: filled(0),
        high: filled(u64::MAX),
        direction: Direction::Forward,
    }
}
