//! The lock policy of a transaction: how long it waits for others, and how it is isolated.
//!
//! The database has one for all transactions, and `TransactionOptions` may replace parts of it for
//! one of them. An engine with several session slots is told the policy before a transaction
//! begins; others isolate all transactions fully and need the wait limit only.

use std::time::Duration;
use storage::engine::{Isolation, Precedence};

/// A transaction's waiting for others and its isolation from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockPolicy {
    /// Longest wait for a partition or a lock.
    pub(crate) wait_limit: Duration,
    pub(crate) isolation: Isolation,
    /// Whether it may be undone to end a deadlock.
    pub(crate) precedence: Precedence,
}
