//! Options of one transaction.
//!
//! Those that are not given are the database's.

use crate::lock_policy::LockPolicy;
use std::time::Duration;
use storage::engine::{Durability, Isolation};

/// Options of one transaction.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct TransactionOptions {
    pub(crate) partitions: Vec<u32>,
    pub(crate) durability: Option<Durability>,
    pub(crate) wait_limit: Option<Duration>,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) unchecked: bool,
}

impl TransactionOptions {
    /// The database's defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares the partitions that the transaction will touch: they are locked at its start in
    /// ascending order, so that it cannot conflict over them. Others may still be touched.
    pub fn partitions(mut self, partitions: impl IntoIterator<Item = u32>) -> Self {
        self.partitions = partitions.into_iter().collect();
        self.partitions.sort_unstable();
        self.partitions.dedup();
        self
    }

    /// When this transaction is acknowledged. One that writes in several partitions is durable at
    /// once in any case, because its commit point is.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Longest wait for a partition, or for a lock in it, before the transaction is undone.
    pub fn wait_limit(mut self, limit: Duration) -> Self {
        self.wait_limit = Some(limit);
        self
    }

    /// Isolation of this transaction from others that run at the same time. Methods that run one
    /// transaction at a time in a partition isolate all of them fully.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = Some(isolation);
        self
    }

    /// Whether the transaction may write to tables whose constraints [SQL](crate::Owner::Sql)
    /// keeps; the caller keeps them instead. Default false: such a write is
    /// [`Error::Managed`](crate::Error::Managed).
    pub fn unchecked(mut self, unchecked: bool) -> Self {
        self.unchecked = unchecked;
        self
    }

    /// The lock policy of the transaction, where `usual` is that of the database.
    pub(crate) fn lock_policy(&self, usual: LockPolicy) -> LockPolicy {
        LockPolicy {
            wait_limit: self.wait_limit.unwrap_or(usual.wait_limit),
            isolation: self.isolation.unwrap_or(usual.isolation),
            ..usual
        }
    }
}
