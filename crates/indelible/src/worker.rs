//! A worker: a thread that owns partitions for many transactions.
//!
//! Servers and benchmarks use it: a transaction finds its partitions already taken, and the worker
//! decides when a group of commits is made durable and acknowledged. While it lives, others wait
//! for its partitions, unless these have further session slots.

use crate::error::{Error, Result};
use crate::key::IntoKey;
use crate::retry::Retry;
use crate::session::{Session, SlotUse};
use crate::table::Table;
use crate::transaction::Transaction;
use storage::engine::{CommitTicket, Durability};

/// Owns partitions for many transactions. Belongs to the thread that made it.
pub struct Worker<'db> {
    transaction: Transaction<'db>,
}

/// Condition for the acknowledgement of a worker's transaction: its partition's commits are durable
/// up to a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The partition of the commit.
    pub partition: u32,
    /// The commit that must be durable there.
    pub ticket: CommitTicket,
}

impl<'db> Worker<'db> {
    pub(crate) fn new(session: Session<'db>, durability: Durability) -> Self {
        let mut transaction = Transaction {
            session,
            durability,
        };
        transaction.session.set_slot_use(SlotUse::Worker);
        Self { transaction }
    }

    /// Runs a transaction in the worker's partitions, and commits it. It may be acknowledged at
    /// once if nothing is pending, else when [`Worker::is_durable`] says so. The commits that it
    /// has read are durable then too.
    #[inline]
    pub fn transaction<R>(
        &mut self,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<R>,
    ) -> Result<(R, Option<Pending>)> {
        let undo = Undo { worker: self };
        let transaction = &mut undo.worker.transaction;
        let value = body(transaction)?;
        let promises = transaction.session.commit(transaction.durability)?;
        std::mem::forget(undo);
        let pending = match promises.single() {
            Some((partition, ticket)) => Some(Pending { partition, ticket }),
            None if promises.is_empty() => None,
            None => {
                self.force()?;
                None
            }
        };
        Ok((value, pending))
    }

    /// Says that a row of this table will be read or changed soon by this primary key, so that its
    /// memory is asked for meanwhile; two to eight transactions ahead is best. Nothing else depends
    /// on it, and it has an effect in `nvm-inp` only, through
    /// [hints](crate::Options::hint_bytes). An error for a key or table that
    /// [`Transaction::get`] refuses as well.
    #[inline]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "keys are written at the call, so `&` would be noise"
    )]
    pub fn announce(&mut self, table: &Table, key: impl IntoKey) -> Result<()> {
        self.transaction.session.announce(table, &key)
    }

    /// The attempts of one transaction; to be made before its first one.
    #[inline]
    pub fn retry(&self) -> Retry<'db> {
        self.transaction.session.retry()
    }

    /// Whether a transaction may be acknowledged.
    pub fn is_durable(&self, pending: Pending) -> bool {
        self.transaction.session.durable(pending.partition) >= pending.ticket
    }

    /// Makes every commit in the worker's partitions durable.
    pub fn force(&mut self) -> Result<()> {
        self.transaction.session.force()
    }

    /// The partitions that it owns.
    pub fn partitions(&self) -> Vec<u32> {
        self.transaction.session.partitions().collect()
    }

    /// Gives the partitions back, with every commit in them durable.
    pub fn close(mut self) -> Result<()> {
        self.force()
    }
}

/// Undoes the worker's open transaction when it is dropped, on errors and panics alike.
struct Undo<'w, 'db> {
    worker: &'w mut Worker<'db>,
}

impl Drop for Undo<'_, '_> {
    fn drop(&mut self) {
        self.worker.transaction.session.abort();
    }
}

/// The partitions of a worker must exist and be named.
pub(crate) fn check_partitions(partitions: &[u32]) -> Result<Vec<u32>> {
    if partitions.is_empty() {
        return Err(Error::option(
            "partitions",
            "a worker needs at least one",
            "name some",
        ));
    }
    let mut partitions = partitions.to_vec();
    partitions.sort_unstable();
    partitions.dedup();
    Ok(partitions)
}
