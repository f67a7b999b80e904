//! Locks of transactions: partition, tables, keys and ranges of keys, for many sessions of one
//! partition.
//!
//! ```text
//! LockSession, which knows what it holds
//!   └──► LockManager
//!          ├──► Queues: shards of heads: partition, tables, keys (holders, queue);
//!          │    buckets of ranges: intervals of keys of one tree, writers who wait for them
//!          └──► WaitGraph: waits of transactions of all partitions, and the search for deadlocks
//! ```
//!
//! Two-phase locking: a transaction keeps its locks until `end`; read committed releases shared
//! locks earlier. Modes above keys are Gray's granular locks, keys know *update* too, phantoms are
//! kept out by intervals of keys. Intention locks outlive a transaction as in Johnson et al.,
//! "Improving OLTP Scalability using Speculative Lock Inheritance" (VLDB 2009); early release is
//! the caller's choice of when to call `end`.
//!
//! Order of the mutexes inside: deadlock search, counters of sessions that are gone, sessions of
//! the graph, bucket of ranges, shard, a session's record of its wait, parker.

mod counters;
mod deadlock;
mod graph;
mod head;
mod inheritance;
mod manager;
mod mode;
mod name;
mod owned;
mod parker;
mod queues;
mod range;
#[cfg(test)]
#[cfg(feature = "schedules")]
mod schedule_tests;
mod session;
mod shard;
#[cfg(test)]
#[cfg(not(feature = "schedules"))]
mod tests;
mod wait;

pub use counters::LockCounters;
pub use graph::{LockOwner, LockWait, WaitGraph};
pub use manager::{KeyIntent, LockManager, LockOptions, TableClaim};
pub use mode::{KeyMode, Mode, Precedence};
pub use parker::Interrupt;
pub use session::{HeldLock, LockSavepoint, LockSession};
