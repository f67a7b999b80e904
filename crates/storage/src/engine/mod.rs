//! The engine: what one partition's storage does, and the catalogue of methods that do it.
//!
//! An engine owns one partition and runs its transactions one after the other (`&mut self`); the
//! database runs partitions in parallel. Where several sessions share a partition, each is an
//! [`Engine`] of its own. Operations outside `begin` … `commit` or `abort` are an error of the
//! caller. A failed operation has no effect of its own: the transaction may go on where
//! [`StorageError::is_statement_error`](crate::StorageError::is_statement_error) says so, and must
//! be aborted otherwise.

mod axes;
mod method;
mod options;
mod read_only;
mod status;

pub use crate::lock::{LockOwner, Precedence, WaitGraph};
pub use crate::log::nv_ring::RING_BYTES_MAX;
pub use crate::log::{ArchiveRange, ArchiveWatch, Lsn};
pub use crate::vocabulary::{
    CommitTicket, Direction, Durability, FenceOrder, Footprint, GlobalTxnId, HeaderImages,
    Isolation, LogImages, PageId, ScanRange, VerifyReport,
};
pub use axes::{Combination, Guard, LogKind, PageAxes, PagesKind};
pub use method::Method;
pub use options::{
    AfterCrash, Cleaning, CommitOrder, Daemon, Decide, EngineOptions, Locking, Persist,
};
pub use read_only::ReadOnly;
pub use status::{AreaCounters, CheckpointCounters, EngineStatus, PageWrites, Persisted};

use crate::error::Result;
use crate::record::{Changes, IndexDef, IndexId, KeyBuf, Row, TableDef, TableId};
use crate::table::Table;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Reading one partition: all that a handle that must not write has.
pub trait Reads: Send {
    /// Tables of this partition, in the order of their numbers.
    fn tables(&self) -> Vec<Arc<Table>>;

    /// Starts a transaction.
    fn begin(&mut self) -> Result<()>;

    /// Copies the row with this primary key into `row`; false if there is none.
    fn get(&mut self, table: TableId, key: &[u64], row: &mut Row) -> Result<bool>;

    /// Notes that a row will be looked up soon by this primary key, inside a transaction or
    /// outside, so that an engine may prefetch it.
    fn announce(&mut self, _table: TableId, _key: &[u64]) {}

    /// Looks several primary keys up at once, so that their misses overlap; calls `visit` with the
    /// position of each key and its row, in the order of `keys`.
    fn get_many(
        &mut self,
        table: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()>;

    /// Visits rows in key order until the range ends or `visit` breaks.
    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()>;

    /// Undoes everything since `begin`.
    fn abort(&mut self) -> Result<()>;

    /// The newest ticket whose effects are durable.
    fn durable(&self) -> CommitTicket;

    /// Bytes in use.
    fn footprint(&mut self) -> Result<Footprint>;

    /// Counts since the engine was opened.
    fn status(&self) -> EngineStatus;

    /// Checks everything that can be checked: checksums, order, every index against its table, and
    /// that the allocated blocks are exactly the reachable ones. Damage is in the report; an error
    /// means that the check could not be made, as where a transaction is open.
    fn verify(&mut self) -> Result<VerifyReport>;

    /// The extent of the log's archive, if there is one. Reads all of it.
    fn archive(&self) -> Result<Option<ArchiveRange>> {
        Ok(None)
    }

    /// How the log's archive fares, if there is one.
    fn archive_watch(&self) -> Option<Arc<ArchiveWatch>> {
        None
    }
}

/// One partition's storage: its transactions, and the ways to its other abilities.
pub trait Engine: Reads {
    /// As [`Reads::get`], for a row that the transaction is going to change: nobody else gets it
    /// for that meanwhile.
    fn get_to_change(&mut self, table: TableId, key: &[u64], row: &mut Row) -> Result<bool> {
        self.get(table, key, row)
    }

    /// Inserts a row; `DuplicateKey` if its primary key or a unique secondary key is taken.
    fn insert(&mut self, table: TableId, row: &Row) -> Result<()>;

    /// Inserts rows of one table in any order; fails as [`Engine::insert`] does. Some of the others
    /// may have been inserted then, so the caller aborts the transaction.
    fn insert_many(&mut self, table: TableId, rows: &[&Row]) -> Result<()> {
        rows.iter().try_for_each(|row| self.insert(table, row))
    }

    /// Changes columns of the row with this primary key; false if there is none. Primary key
    /// columns must not change.
    fn update(&mut self, table: TableId, key: &[u64], changes: &Changes) -> Result<bool>;

    /// Deletes the row with this primary key; false if there is none.
    fn delete(&mut self, table: TableId, key: &[u64]) -> Result<bool>;

    /// Ends the transaction. Its effects are durable once [`Reads::durable`] has reached the
    /// ticket; with [`Durability::Immediate`] that is when the call returns.
    fn commit(&mut self, durability: Durability) -> Result<CommitTicket>;

    /// First phase of a transaction over several partitions: afterwards the open transaction
    /// survives a crash, and recovery asks the database's commit table for its fate. `commit` or
    /// `abort` must follow.
    fn prepare(&mut self, global: GlobalTxnId) -> Result<()>;

    /// Bytes of ordinary memory that the open transaction holds until it ends: its undo
    /// information, its log records, and changed pages where they are written at its end. Caches
    /// that have a limit of their own are not counted. A transaction without changes holds at most
    /// as much as its group.
    fn transaction_bytes(&self) -> usize;

    /// Makes every committed transaction durable.
    fn force(&mut self) -> Result<()>;

    /// The newest ticket that somebody of any session waits for. Once it is durable, so is every
    /// such commit that a transaction has read.
    fn promised(&self) -> CommitTicket {
        self.durable()
    }

    /// The partition with no transaction open in this session, for as long as it is borrowed.
    ///
    /// # Errors
    /// A transaction is open, or a durable step failed earlier.
    fn idle(&mut self) -> Result<&mut dyn Idle>;

    /// The calls of a partition that several sessions share; none where a partition runs one
    /// transaction at a time: there all of them are serializable, and none waits.
    fn sessions(&mut self) -> Option<&mut dyn Sessions> {
        None
    }
}

/// A partition in which this session has no transaction open; [`Engine::idle`] lends it.
pub trait Idle {
    /// Creates an empty table with its indexes; durable when it returns.
    fn create_table(&mut self, def: &TableDef) -> Result<()>;

    /// Drops a table and its indexes; durable when it returns.
    fn drop_table(&mut self, table: TableId) -> Result<()>;

    /// Builds a secondary index over the rows that are there; durable when it returns.
    fn create_index(&mut self, table: TableId, index: &IndexDef) -> Result<()>;

    /// Drops a secondary index; durable when it returns.
    fn drop_index(&mut self, table: TableId, index: IndexId) -> Result<()>;

    /// Bounds recovery time: writes a checkpoint where the method has one.
    fn checkpoint(&mut self) -> Result<()>;

    /// Prepares the end of the process, so that the next opening finds nothing to recover.
    /// Everything that was acknowledged is durable without it. No other call may follow.
    fn close(&mut self) -> Result<()>;

    /// The partition as it is now, for reading from any thread; none in methods that change data in
    /// place. Every committed transaction is made durable first; the snapshot is an engine of its
    /// own, which shows them as long as it lives. It never makes the partition wait, and only keeps
    /// the space of what it shows from being used again.
    fn snapshot(&mut self) -> Result<Option<Box<dyn Engine>>> {
        Ok(None)
    }

    /// Marks in a log with an archive; none where there is no archive.
    fn marks(&mut self) -> Option<&mut dyn Marks> {
        None
    }

    /// Pages in a file; none in methods without.
    fn page_file(&mut self) -> Option<&mut dyn PageFile> {
        None
    }
}

/// Sessions of one partition, which run their own transactions in threads of their own at the same
/// time. Each is an [`Engine`].
pub trait Sessions {
    /// Another session of this partition.
    fn session(&self) -> Result<Box<dyn Engine>>;

    /// Sets the isolation of the transactions that begin from now on, and how long they wait for a
    /// lock.
    fn set_isolation(&mut self, isolation: Isolation, wait_limit: Duration);

    /// Decides whether the transactions that begin from now on may be undone to end a deadlock.
    fn set_precedence(&mut self, precedence: Precedence);

    /// The transaction that the locks of this session belong to.
    fn lock_owner(&self) -> LockOwner;

    /// Makes the transactions that begin from now on parts of the one of `owner`, which has begun
    /// with a session of another partition, or independent again if `owner` is none. So a deadlock
    /// over several partitions is found.
    fn act_for(&mut self, owner: Option<LockOwner>);

    /// The part of [`Engine::prepare`] that waits for no device; [`Sessions::sync_prepared`] is the
    /// other. A transaction does the first part in all its partitions before the second in any, so
    /// another session's sync may have done the second by then.
    fn log_prepared(&mut self, global: GlobalTxnId) -> Result<()>;

    /// Finishes the work of [`Sessions::log_prepared`].
    fn sync_prepared(&mut self) -> Result<()>;

    /// Does a part of the work of the partition's background threads, for devices that have no
    /// threads. Also inside a transaction.
    fn assist(&mut self) -> Result<()>;
}

/// A log that has an archive, and takes marks.
pub trait Marks {
    /// Notes that no transaction is open now, in any partition: each of them gets the mark with
    /// this number, which is higher than those before, while somebody holds them all. The mark is
    /// durable with the next records, and waits for nothing.
    ///
    /// # Errors
    /// A statement error if the log has no room for it, which changes nothing.
    fn mark(&mut self, number: GlobalTxnId) -> Result<()>;
}

/// Pages in a file that is open for writing.
pub trait PageFile {
    /// Gives the space of free pages back to the filesystem. An interruption loses nothing.
    fn shrink(&mut self) -> Result<Shrunk>;

    /// Hands all pages in use to `visit`, as they are after a checkpoint, while nobody else has the
    /// partition; the page engine makes a partition of them again.
    ///
    /// # Errors
    /// A page that is damaged.
    fn copy_pages(&mut self, visit: &mut VisitPage<'_>) -> Result<PagesBase>;
}

/// Result of [`PageFile::shrink`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// Bytes of the files of pages before.
    pub before_bytes: u64,
    /// And afterwards.
    pub after_bytes: u64,
}

/// Position and size of a copy of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagesBase {
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages that the file has room for.
    pub pages: u32,
    /// All records before this one are in the pages.
    pub lsn: Lsn,
    /// Transactions with records before `lsn` have lower numbers.
    pub next_txn: u64,
    /// Root of the catalogue.
    pub catalogue: PageId,
}

/// Takes a page of a copy, and says whether to go on.
pub type VisitPage<'v> = dyn FnMut(&PagesBase, PageId, &[u8]) -> ControlFlow<()> + 'v;
