//! An embedded transactional database whose durable state lives in byte-addressable memory.
//!
//! A database is a directory. Tables have typed columns, a primary key and any number of secondary
//! indexes; closures are transactions. When [`Database::transaction`] returns `Ok`, the transaction
//! is durable in the sense of the medium: [`Database::survives`] says what that is. Transactions
//! are serializable unless their options choose another [`Isolation`].
//!
//! ```
//! use indelible::{DataType, Database, Direction, Error, Options, Prefix};
//! use std::ops::ControlFlow;
//!
//! # fn main() -> indelible::Result<()> {
//! let directory = std::env::temp_dir().join(format!("indelible-doc-{}", std::process::id()));
//! # let _ = std::fs::remove_dir_all(&directory);
//! let db = Database::create(&directory, &Options::new().method(indelible::Method::NvmInp))?;
//!
//! // A table: columns, primary key, a secondary index.
//! let accounts = db
//!     .create_table("accounts")
//!     .column("id", DataType::Int64)
//!     .column("owner", DataType::Varchar { max: 40 })
//!     .column("balance", DataType::Int64)
//!     .primary_key(["id"])
//!     .index("by_owner", ["owner"])
//!     .create()?;
//! db.transaction(|t| {
//!     t.insert(&accounts, (1_i64, "Ada", 100_i64))?;
//!     t.insert(&accounts, (2_i64, "Bob", 20_i64))
//! })?;
//!
//! // A transfer: all of it or nothing. The reason to undo is the caller's own.
//! let balance = accounts.column("balance")?;
//! let transfer = |from: i64, to: i64, amount: i64| {
//!     db.transaction(|t| {
//!         for (id, change) in [(from, -amount), (to, amount)] {
//!             let row = t.get(&accounts, id)?.ok_or_else(|| Error::rejected("no such account"))?;
//!             let new = row.get(balance).as_i64().unwrap_or(0) + change;
//!             if new < 0 {
//!                 return Err(Error::rejected("not enough money"));
//!             }
//!             let mut changes = accounts.changes();
//!             changes.set(balance, new)?;
//!             t.update(&accounts, id, &changes)?;
//!         }
//!         Ok(())
//!     })
//! };
//! transfer(1, 2, 30)?;
//! assert!(transfer(2, 1, 1000).is_err());
//!
//! // Reads: by key, by index, in order.
//! db.read(|r| {
//!     let by_owner = accounts.index("by_owner")?;
//!     assert_eq!(r.find(&by_owner, "Ada")?[0].get(balance).as_i64(), Some(70));
//!     r.scan(&accounts, .., Direction::Backward, |row| {
//!         assert_eq!(row.get(0).as_i64(), Some(2));
//!         ControlFlow::Break(())
//!     })?;
//!     assert_eq!(r.count(&accounts, Prefix(1_i64))?, 1);
//!     Ok(())
//! })?;
//!
//! // It is all there when the database is opened again.
//! drop((accounts, db));
//! let db = Database::open(&directory)?;
//! let accounts = db.table("accounts")?;
//! assert_eq!(db.read(|r| r.count(&accounts, ..))?, 2);
//! assert!(db.verify()?.damage.is_empty());
//! # drop((accounts, db));
//! # let _ = std::fs::remove_dir_all(&directory);
//! # Ok(())
//! # }
//! ```
//!
//! | module | job |
//! |---|---|
//! | `open`, `descriptor`, `roster`, `platform`, `options` | from a directory to a ready database |
//! | `database`, `transaction`, `worker`, `key_value` | the interface for callers |
//! | `connection` | transactions that outlive a call, beside each other and beside closures |
//! | `core`, `lock_policy` | state that all handles and sessions of a database share |
//! | `definitions`, `table`, `key`, `row_source` | tables, indexes; how keys and rows are written |
//! | `alter` | changing a table by a rewrite into a new one |
//! | `hidden` | tables of the database's own |
//! | `row_counts`, `analyze`, `column_statistics` | numbers of rows; statistics of columns |
//! | `snapshot` | reading one moment of the database while it changes |
//! | `operations`, `scan` | routing of operations to partitions; merged scans |
//! | `session`, `partition` | the partitions that a transaction holds, waiting for durability |
//! | `commit_table`, `commit_pool` | commit over several partitions |
//! | `thread_flags` | refusal of a second transaction of the same thread |
//! | `savepoint` | going back to a moment of a transaction |
//! | `retry` | the turn of transactions that run again |
//! | `inspect` | statistics and the deep check |
//! | `trace` | recording the operations of transactions, and reading them again |
//! | `backup`, `log_marks` | backup, restore, conversion; marks that all logs share |
//! | `repair`, `clues` | rebuilding a lost descriptor or commit table from the other files |
//! | `limits`, `holder` | limits of the system; the process that holds a database |
//! | `emulated`, `simulated` | databases on models of devices |

mod alter;
mod analyze;
mod backup;
mod clues;
mod column_statistics;
mod commit_pool;
mod commit_table;
mod connection;
mod core;
mod database;
mod definitions;
mod descriptor;
mod directories;
mod drop_in_steps;
mod emulated;
mod error;
mod file_names;
mod hidden;
mod holder;
mod inspect;
mod key;
mod key_value;
mod limits;
mod links;
mod lock_policy;
mod log_marks;
#[cfg(test)]
mod model;
mod new_database;
mod open;
mod operations;
mod options;
mod partition;
mod platform;
mod repair;
mod retry;
mod roster;
mod row_counter;
mod row_counts;
mod row_source;
mod savepoint;
mod scan;
#[cfg(feature = "schedules")]
#[cfg(test)]
mod schedule_tests;
mod session;
#[cfg(test)]
mod session_tests;
#[cfg(feature = "schedules")]
#[cfg(test)]
mod sessions_model;
mod simulated;
mod snapshot;
mod sync;
mod table;
mod thread_flags;
mod trace;
mod transaction;
mod worker;

pub use alter::TableChange;
pub use backup::{
    CopyProgress, CopyReport, CopyStage, CopyWatch, Existing, Replay, ReplayEnd, ReplayReport,
};
pub use column_statistics::{ColumnStatistics, TableStatistics};
pub use connection::{
    AdvisoryKey, AdvisoryMode, CommitReport, Connection, Found, KeptMoment, KeyLock, LockKind,
    Moved, PreparedTransaction, RowKey, RowLock, Scan, Scope, StatementMoment, StatementSavepoint,
    Wait,
};
#[cfg(feature = "omissions")]
pub use connection::{Omission, leave_out};
pub use database::Database;
pub use definitions::{TableBuilder, Uniqueness};
pub use emulated::{Disks, EmulatedPlatform};
pub use error::{Advice, Error, Result};
pub use hidden::HiddenTable;
pub use holder::Holder;
pub use inspect::{ArchiveState, PartitionWear, Statistics};
pub use key::{IntoColumn, IntoKey, IntoKeyRange, KEY_COLUMNS_MAX, Prefix};
pub use key_value::{KEY_BYTES_MAX, KeyValue};
pub use limits::ProcessLimit;
pub use options::{
    AREA_BYTES, AREA_BYTES_MIN, BUFFER_BYTES, CACHE_BYTES, CONNECTIONS_MAX, Choice,
    DIRECT_BYTES_MIN, LOCKS_MAX, MethodOption, Mode, Options, PARTITIONS_MAX, PREPARED_MAX,
    RINGS_MAX, SESSIONS_MAX, SNAPSHOT_MEMORY_MAX, TRANSACTION_MEMORY_MAX, TransactionOptions,
};
pub use repair::{Effect, Repair, Repaired};
pub use retry::Retry;
pub use row_counter::RowCount;
pub use row_source::IntoRow;
pub use savepoint::Savepoint;
pub use simulated::SimulatedPlatform;
pub use snapshot::Snapshot;
pub use table::{Index, Table};
pub use trace::{Trace, TraceAction, TraceOperation, TraceSummary, TraceTable};
pub use transaction::{Reader, Transaction};
pub use worker::{Pending, Worker};

pub use disk::{DiskCounters, DiskError, IoMode, undo_pending};
pub use engines::is_page_file;
pub use engines::{Files, ModelledMemories};
pub use new_database::NewDatabase;
pub use platform::NativePlatform;
pub use pmem::{Counters, Domain, Part, PartCounters, PmemError, PowerFailAtomicity, Primitive};
pub use storage::engine::{
    ArchiveRange, AreaCounters, CheckpointCounters, Combination, CommitOrder, CommitTicket,
    Direction, Durability, FenceOrder, Footprint, Guard, HeaderImages, Isolation, Locking,
    LogImages, LogKind, Method, PageAxes, PageWrites, PagesKind, Persist, Persisted, Shrunk,
    VerifyReport,
};
pub use storage::lock::{Interrupt, LockWait, Mode as TableLock, TableClaim};
pub use storage::probe::{Activity, Inserts, Probe};
pub use storage::record::{
    Changes, Column, DataType, Date, Decimal, IndexDef, IndexId, KeyRule, LayoutKind, Owner,
    ParseError, Partitioning, RangeStart, RecordError, Row, SchemaError, TableDef, TableId,
    Timestamp, Uuid, Value, ValueRef,
};
pub use storage::{DuplicateKey, EngineSource, Platform, StorageError};
