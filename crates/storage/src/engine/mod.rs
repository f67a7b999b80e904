//! The engine: what one partition's storage does, and the catalogue of methods that do it.
//!
//! An engine owns one partition and runs its transactions one after the other (`&mut self`); the
//! database runs partitions in parallel. Where several sessions share a partition, each is an
//! [`Engine`] of its own. Operations outside `begin` … `commit` or `abort` are an error of the
//! caller. A failed operation has no effect of its own: the transaction may go on where
//! [`StorageError::is_statement_error`](crate::StorageError::is_statement_error) says so, and must
//! be aborted otherwise.

mod axes;
pub mod cow;
pub mod in_place;
pub mod log_structured;
mod method;
pub(crate) mod nv_pool;
pub mod paged;
mod read_only;
mod serial;

pub use crate::buffer::file::is_page_file;
pub use crate::buffer::{AreaCounters, Cleaning, Daemon, Guard, PageWrites, Persist, Persisted};
pub use crate::lock::{LockOwner, WaitGraph};
pub use crate::log::ArchiveRange;
pub use crate::log::nv_ring::RING_BYTES_MAX;
pub use crate::page::PageId;
pub use crate::vocabulary::{
    CommitTicket, Direction, Durability, FenceOrder, Footprint, GlobalTxnId, Isolation, LogImages,
    ScanRange, VerifyReport,
};
pub use axes::{Combination, LogKind, PageAxes, PagesKind};
pub use method::{AfterCrash, Decide, EngineOptions, Method, create, open};
pub use paged::{CheckpointCounters, Mark, PagesBase, Rebuild, Replayed, Until, VisitPage};

use crate::error::{Result, StorageError};
use crate::record::{Changes, IndexDef, IndexId, KeyBuf, Row, TableDef, TableId};
use crate::table::Table;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// One partition's storage.
pub trait Engine: Send {
    /// Tables of this partition, in the order of their numbers.
    fn tables(&self) -> Vec<Arc<Table>>;

    /// Creates an empty table with its indexes; durable when it returns. Not inside a transaction.
    fn create_table(&mut self, def: &TableDef) -> Result<()>;

    /// Drops a table and its indexes; durable when it returns. Not inside a transaction.
    fn drop_table(&mut self, table: TableId) -> Result<()>;

    /// Builds a secondary index over the rows that are there; durable when it returns. Not inside a
    /// transaction.
    fn create_index(&mut self, table: TableId, index: &IndexDef) -> Result<()>;

    /// Drops a secondary index; durable when it returns. Not inside a transaction.
    fn drop_index(&mut self, table: TableId, index: IndexId) -> Result<()>;

    /// Starts a transaction.
    fn begin(&mut self) -> Result<()>;

    /// Sets the isolation of the transactions that begin from now on, and how long they wait for a
    /// lock. Where a partition runs one transaction at a time, all of them are serializable, and
    /// none waits.
    fn set_isolation(&mut self, _isolation: Isolation, _wait_limit: Duration) {}

    /// The transaction that the locks of this session belong to; none where a partition runs one
    /// transaction at a time.
    fn lock_owner(&self) -> Option<LockOwner> {
        None
    }

    /// Makes the next transactions parts of the one of `owner`, which has begun with a session of
    /// another partition, or independent again if `owner` is none. So a deadlock over several
    /// partitions is found. Not inside a transaction.
    fn act_for(&mut self, _owner: Option<LockOwner>) {}

    /// Copies the row with this primary key into `row`; false if there is none.
    fn get(&mut self, table: TableId, key: &[u64], row: &mut Row) -> Result<bool>;

    /// As [`Engine::get`], for a row that the transaction is going to change: nobody else gets it
    /// for that meanwhile.
    fn get_to_change(&mut self, table: TableId, key: &[u64], row: &mut Row) -> Result<bool> {
        self.get(table, key, row)
    }

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

    /// Inserts a row; `DuplicateKey` if its primary key or a unique secondary key is taken.
    fn insert(&mut self, table: TableId, row: &Row) -> Result<()>;

    /// Changes columns of the row with this primary key; false if there is none. Primary key
    /// columns must not change.
    fn update(&mut self, table: TableId, key: &[u64], changes: &Changes) -> Result<bool>;

    /// Deletes the row with this primary key; false if there is none.
    fn delete(&mut self, table: TableId, key: &[u64]) -> Result<bool>;

    /// Ends the transaction. Its effects are durable once [`Engine::durable`] has reached the
    /// ticket; with [`Durability::Immediate`] that is when the call returns.
    fn commit(&mut self, durability: Durability) -> Result<CommitTicket>;

    /// First phase of a transaction over several partitions: afterwards the open transaction
    /// survives a crash, and recovery asks the database's commit table for its fate. `commit` or
    /// `abort` must follow.
    fn prepare(&mut self, global: GlobalTxnId) -> Result<()>;

    /// The part of [`Engine::prepare`] that waits for no device, where it is a step of its own;
    /// [`Engine::sync_prepared`] is the other. A transaction does the first part in all its
    /// partitions before the second in any, so another session's sync may have done the second by
    /// then.
    fn log_prepared(&mut self, global: GlobalTxnId) -> Result<()> {
        self.prepare(global)
    }

    /// Finishes the work of [`Engine::log_prepared`].
    fn sync_prepared(&mut self) -> Result<()> {
        Ok(())
    }

    /// Another session of this partition, which runs its own transactions in another thread at the
    /// same time. Not inside a transaction. None where a partition runs one transaction at a time.
    fn session(&self) -> Result<Option<Box<dyn Engine>>> {
        Ok(None)
    }

    /// The newest ticket that somebody of any session waits for. Once it is durable, so is every
    /// such commit that a transaction has read.
    fn promised(&self) -> CommitTicket {
        self.durable()
    }

    /// Undoes everything since `begin`.
    fn abort(&mut self) -> Result<()>;

    /// Bytes of ordinary memory that the open transaction holds until it ends: its undo
    /// information, its log records, and changed pages where they are written at its end. Caches
    /// that have a limit of their own are not counted. A transaction without changes holds at most
    /// as much as its group.
    fn transaction_bytes(&self) -> usize {
        0
    }

    /// The newest ticket whose effects are durable.
    fn durable(&self) -> CommitTicket;

    /// Makes every committed transaction durable.
    fn force(&mut self) -> Result<()>;

    /// Bounds recovery time: writes a checkpoint where the method has one. Not inside a
    /// transaction.
    fn checkpoint(&mut self) -> Result<()>;

    /// The partition as it is now, for reading from any thread. Every committed transaction is made
    /// durable first; the snapshot is an engine of its own, which shows them as long as it lives.
    /// It never makes the partition wait, and only keeps the space of what it shows from being used
    /// again. Not inside a transaction. Methods that change data in place refuse.
    fn snapshot(&mut self) -> Result<Box<dyn Engine>> {
        Err(crate::StorageError::Unsupported(format!(
            "this method has no snapshots; {} have",
            Method::names_with_snapshots()
        )))
    }

    /// Does a part of the work of the engine's background threads, for devices that have no
    /// threads. Also inside a transaction.
    fn assist(&mut self) -> Result<()> {
        Ok(())
    }

    /// Prepares the end of the process, so that the next opening finds nothing to recover.
    /// Everything that was acknowledged is durable without it. Not inside a transaction; no other
    /// call may follow.
    fn close(&mut self) -> Result<()> {
        self.force()
    }

    /// Bytes in use.
    fn footprint(&mut self) -> Result<Footprint>;

    /// Whether its log has an archive.
    fn has_archive(&self) -> bool {
        false
    }

    /// Notes in a log with an archive that no transaction is open now, in any partition: each of
    /// them gets the mark with this number, which is higher than those before, while somebody holds
    /// them all. The mark is durable with the next records, and waits for nothing. Not inside a
    /// transaction.
    ///
    /// # Errors
    /// A statement error if the log has no room for it, which changes nothing.
    fn mark(&mut self, _number: GlobalTxnId) -> Result<()> {
        Ok(())
    }

    /// The extent of the log's archive, if there is one. Reads all of it.
    fn archive(&self) -> Result<Option<ArchiveRange>> {
        Ok(None)
    }

    /// Gives the space of free pages back to the filesystem. Not inside a transaction. An
    /// interruption loses nothing.
    ///
    /// # Errors
    /// A method without pages in a file.
    fn shrink(&mut self) -> Result<Shrunk> {
        Err(no_file_to_shrink())
    }

    /// Hands all pages in use to `visit`, as they are after a checkpoint, while nobody else has the
    /// partition; [`Rebuild`] makes a partition of them again. Not inside a transaction.
    ///
    /// # Errors
    /// A method without pages in a file; a page that is damaged.
    fn copy_pages(&mut self, _visit: &mut VisitPage<'_>) -> Result<PagesBase> {
        Err(no_pages_to_copy())
    }

    /// Counts since the engine was opened.
    fn status(&self) -> EngineStatus;

    /// Checks everything that can be checked: checksums, order, every index against its table, and
    /// that the allocated blocks are exactly the reachable ones. Damage is in the report; an error
    /// means that the check could not be made.
    fn verify(&mut self) -> Result<VerifyReport>;
}

fn no_file_to_shrink() -> StorageError {
    StorageError::Unsupported(
        "only a page method with pages in a file that is open for writing gives space back; convert the database into a new one instead"
            .to_owned(),
    )
}

fn no_pages_to_copy() -> StorageError {
    StorageError::Unsupported(
        "pages can be copied only where they are in a file that is open for writing".to_owned(),
    )
}

/// Result of [`Engine::shrink`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shrunk {
    /// Bytes of the files of pages before.
    pub before_bytes: u64,
    /// And afterwards.
    pub after_bytes: u64,
}

/// Counts since the engine was opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineStatus {
    /// Counts of the memory devices, durable and volatile ones together.
    pub memory: pmem::Counters,
    /// Counts of the files.
    pub disk: disk::DiskCounters,
    /// Transactions that recovery undid when the engine was opened.
    pub recovery_undone: u64,
    /// Transactions that recovery replayed when the engine was opened.
    pub recovery_replayed: u64,
    /// Log records that were made durable, by whom; where a log in durable memory counts them.
    pub log_persisted: Persisted,
    /// Counts of the area of page copies, where pages stay in it.
    pub area: AreaCounters,
    /// Bytes of pages that were written, by where they went; nothing where pages lie in durable
    /// memory.
    pub pages: PageWrites,
    /// Checkpoints, by who has written them; in page methods.
    pub checkpoints: CheckpointCounters,
}
