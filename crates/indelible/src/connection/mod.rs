//! Connections: transactions that outlive a call, many at once, on every method.
//!
//! ```text
//! Connection (Send, one transaction at a time)
//!   ├─ LockSession  rows, unique keys, tables, advisory keys  row_locks.rs over storage::lock
//!   ├─ WriteSet     changes to come, in DRAM                  writes.rs, by_index.rs, pool.rs
//!   ├─ View         its snapshot, registered in the clock     clock.rs, images.rs, image_rows.rs
//!   ├─ reads        engine rows, own writes, before images    merge.rs
//!   └─ locked rows  as the last commit has left them          recent.rs
//! ```
//!
//! The layer is above the engines and durable nowhere. A transaction's writes wait in DRAM until it
//! commits; then one engine transaction makes all of them, so atomicity after a crash is the
//! method's own. Between calls a connection holds locks, and no session slot of a partition: an
//! idle client stops nobody but those who want its rows. Readers see a snapshot: the clock keeps
//! what rows were before later commits, while somebody reads an older moment.
//!
//! A commit where a partition has one session slot: takes the slots of the partitions that it
//! writes, ascending; at the clock it validates, gets its number, and keeps images if a snapshot is
//! registered; makes its changes; commits the engine; gives slots and locks back; waits until it is
//! durable. Where there are many slots it keeps its images and makes its changes first, and comes
//! to the clock then.
//!
//! Typed closures and workers go on beside connections (`beside.rs`). While no connection is open
//! they pay two loads a transaction and two a change.
//!
//! Order of locks: locks of rows, session slots in ascending partition number, the clock. Nobody
//! waits for an earlier one while holding a later one.

mod advisory;
mod beside;
mod by_index;
mod change;
mod client;
mod clock;
mod commit;
mod fill;
mod image_rows;
mod images;
mod interval;
mod lists;
mod merge;
mod modify;
mod omission;
mod pool;
mod prepare;
mod prepared;
mod prepared_body;
mod read;
mod recent;
mod row_locks;
mod scan;
#[cfg(feature = "schedules")]
#[cfg(test)]
mod schedule_tests;
mod shared;
mod together;
mod unique;
mod writes;

pub use advisory::{AdvisoryKey, AdvisoryMode, LockKind, Scope};
pub use client::{Connection, KeptMoment, StatementMoment};
pub use commit::CommitReport;
pub use modify::KeyLock;
#[cfg(feature = "omissions")]
pub use omission::{Omission, leave_out};
pub use prepared::PreparedTransaction;
pub use read::{Found, Moved, RowKey};
pub use row_locks::{RowLock, Wait};
pub use scan::Scan;
pub use writes::StatementSavepoint;

pub(crate) use beside::Beside;
pub(crate) use shared::Shared;
