//! A copy of a database: the interface of its sinks, its progress, and the report at its end.
//!
//! Sources call a [`Sink`] and report progress to a [`CopyWatch`]. Sources and sinks know nothing
//! of each other, so each source works with each sink.

use super::content::Totals;
use crate::error::{Error, Result};
use std::cell::Cell;
use std::time::Duration;
use storage::StorageError;
use storage::engine::{Method, PagesBase};
use storage::record::{TableDef, Timestamp};

/// Result of a copy of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyReport {
    /// Method of the new database; for a backup, of the database that was read.
    pub method: Method,
    /// Tables copied.
    pub tables: u64,
    /// Secondary indexes whose definitions were copied.
    pub indexes: u64,
    /// Rows copied. Rows of a replicated table count once.
    pub rows: u64,
    /// Checksum of all tables' definitions and rows. It depends on the content only: not on the
    /// method, the number of partitions or the order of rows.
    pub content: u64,
    /// Bytes of the rows before compression.
    pub plain_bytes: u64,
    /// Pages copied, into a backup of pages or out of one that was not made into a database.
    pub pages: u64,
    /// For a database from a backup of pages: the moment that it was restored to.
    pub replayed: Option<ReplayReport>,
    /// Length of the backup file; 0 if there is none.
    pub file_bytes: u64,
    /// Time for which the partitions of the database that was read were held: the longest wait of a
    /// writer. Zero for a restore.
    pub held: Duration,
}

impl CopyReport {
    /// The report of a copy with these totals.
    pub(super) fn new(method: Method, totals: &Totals, file_bytes: u64, held: Duration) -> Self {
        Self {
            method,
            tables: totals.tables,
            indexes: totals.indexes,
            rows: totals.rows,
            content: totals.sum,
            plain_bytes: totals.plain_bytes,
            pages: totals.pages,
            replayed: None,
            file_bytes,
            held,
        }
    }
}

/// The moment of a database that was made from a backup of pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayReport {
    /// The end of the replay.
    pub end: ReplayEnd,
    /// Position in the log of each partition where the replay ended, exclusive.
    pub places: Vec<u64>,
    /// Transactions after the backup that are in it. One that has written in several partitions
    /// counts in each.
    pub transactions: u64,
    /// Commit time of the last of them, if the log has times.
    pub last_commit: Option<Timestamp>,
}

/// End of the replay of the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayEnd {
    /// The backup itself: there is no archive, or the archives of several partitions have no mark
    /// in common after it.
    Backup,
    /// A position in the log of the only partition.
    Place,
    /// A mark that the logs of all partitions have, with its time.
    Mark(Option<Timestamp>),
}

/// Stage of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyStage {
    /// Rows are copied.
    Rows,
    /// Pages are copied.
    Pages,
    /// Indexes of the new database are built.
    Indexes,
    /// The new database is read back.
    Check,
}

/// Progress of a copy.
#[derive(Clone, Copy, Debug)]
pub struct CopyProgress<'t> {
    /// The current stage.
    pub stage: CopyStage,
    /// The current table, if it copies rows.
    pub table: &'t str,
    /// Rows, or pages, since the stage began.
    pub rows: u64,
    /// Bytes of the backup file so far.
    pub file_bytes: u64,
    stop: &'t Cell<bool>,
}

impl CopyProgress<'_> {
    /// Ends the copy, of which nothing is left then, with `StorageError::Interrupted`.
    pub fn stop(&self) {
        self.stop.set(true);
    }
}

/// The place that a copy has come to.
pub(super) struct Place<'t> {
    pub(super) stage: CopyStage,
    pub(super) table: &'t str,
    pub(super) rows: u64,
    pub(super) file_bytes: u64,
}

impl Place<'_> {
    /// Tells it to `watch`; an error if that stops the copy.
    pub(super) fn tell(&self, watch: CopyWatch<'_>) -> Result<()> {
        let stop = Cell::new(false);
        watch(&CopyProgress {
            stage: self.stage,
            table: self.table,
            rows: self.rows,
            file_bytes: self.file_bytes,
            stop: &stop,
        });
        if stop.get() {
            Err(StorageError::Interrupted.into())
        } else {
            Ok(())
        }
    }
}

/// Called with the progress of a copy, every few hundred rows.
pub type CopyWatch<'w> = &'w mut dyn FnMut(&CopyProgress<'_>);

/// Receives the data of a source: each table, then its rows, then its end.
pub(super) trait Sink {
    /// Begins a table.
    fn table(&mut self, def: &TableDef) -> Result<()>;
    /// Adds a row to it.
    fn row(&mut self, image: &[u8]) -> Result<()>;
    /// Ends the table.
    fn end_table(&mut self, watch: CopyWatch<'_>) -> Result<()>;
    /// Begins a copy of pages, instead of tables.
    fn base(&mut self, _base: &PagesBase) -> Result<()> {
        Err(Error::option(
            "backup",
            "it has pages and no rows",
            "restore it into a new database",
        ))
    }
    /// Adds a page: its number, then its bytes.
    fn page(&mut self, _entry: &[u8]) -> Result<()> {
        Ok(())
    }
    /// Bytes of the backup file so far.
    fn file_bytes(&self) -> u64 {
        0
    }
}

/// Discards everything, for callers that need the count and the checksum only.
pub(super) struct Nowhere;

impl Sink for Nowhere {
    fn table(&mut self, _: &TableDef) -> Result<()> {
        Ok(())
    }

    fn row(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn end_table(&mut self, _: CopyWatch<'_>) -> Result<()> {
        Ok(())
    }

    fn base(&mut self, _: &PagesBase) -> Result<()> {
        Ok(())
    }
}
