//! The database: an open set of partitions, and the running of transactions in them.
//!
//! [`Database`] is a cheap handle on the state that all threads share. A closure given to
//! [`Database::transaction`] runs in the caller's thread. After a conflict it runs again, with all
//! partitions that it has touched so far taken at its start in ascending order, so the second
//! attempt can conflict only over partitions that it has not seen yet.

use crate::core::Core;
use crate::error::{Error, Result};
use crate::lock_policy::LockPolicy;
use crate::log_marks::{MARK_INTERVAL, Marking};
use crate::options::{Options, TransactionOptions};
use crate::retry::Retry;
use crate::session::Session;
use crate::table::Table;
use crate::transaction::{Reader, Transaction};
use crate::worker::{self, Worker};
use pmem::Domain;
use std::fmt;
use std::sync::{Arc, PoisonError};
use storage::engine::{Durability, Method};

/// An open database. Clones are handles on the same one; it closes when the last of them, and
/// everything made from them, is dropped. They are for the process that has opened it: in a child
/// that is forked from it, every call returns [`Error::Forked`] and dropping a handle does nothing.
#[derive(Clone)]
pub struct Database {
    /// Goes first: its thread has the core as well.
    pub(crate) marking: Option<Arc<Marking>>,
    pub(crate) core: Arc<Core>,
}

impl Database {
    /// This database with the thread that marks it, if it is to be marked.
    pub(crate) fn with_marking(mut self, options: &Options) -> Self {
        let interval = options.mark_interval.unwrap_or(MARK_INTERVAL);
        self.marking = Marking::start(&self.core, interval);
        self
    }

    /// Runs a closure as a transaction with the database's own durability. It is committed when the
    /// closure returns `Ok`, and undone when it returns `Err` or panics. After a conflict the
    /// closure runs again, so its effects outside the database must allow repetition.
    #[inline]
    pub fn transaction<R>(&self, body: impl FnMut(&mut Transaction<'_>) -> Result<R>) -> Result<R> {
        let core = &*self.core;
        self.run((&[], false), core.durability, core.lock_policy, body)
    }

    /// As [`Database::transaction`], with declared partitions, durability or wait limit of its own.
    pub fn transaction_with<R>(
        &self,
        options: &TransactionOptions,
        body: impl FnMut(&mut Transaction<'_>) -> Result<R>,
    ) -> Result<R> {
        let durability = options.durability.unwrap_or(self.core.durability);
        let lock_policy = options.lock_policy(self.core.lock_policy);
        let declared = (options.partitions.as_slice(), options.unchecked);
        self.run(declared, durability, lock_policy, body)
    }

    #[inline]
    fn run<R>(
        &self,
        (declared, unchecked): (&[u32], bool),
        durability: Durability,
        lock_policy: LockPolicy,
        mut body: impl FnMut(&mut Transaction<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut seen = Vec::new();
        let mut retry = self.core.retry(lock_policy);
        loop {
            let mut session = Session::new(&self.core, lock_policy)?;
            session.unchecked = unchecked;
            session.declare(if retry.failures() == 0 {
                declared
            } else {
                &seen
            })?;
            let mut transaction = Transaction {
                session,
                durability,
            };
            let outcome = body(&mut transaction);
            match transaction.session.partitions_to_declare() {
                None => {
                    let value = outcome?;
                    transaction.session.finish(durability)?;
                    return Ok(value);
                }
                Some(partitions) if matches!(outcome, Err(Error::RowLocked { .. })) => {
                    seen = partitions;
                    drop(transaction);
                    if !retry.wait_for_connection() {
                        return outcome;
                    }
                }
                Some(partitions) if retry.failures() < self.core.retries_max => {
                    seen = partitions;
                    drop(transaction);
                    retry.wait();
                }
                // The closure may have hidden the conflict: it must not commit all the same.
                Some(_) => {
                    outcome?;
                    transaction.session.finish(durability)?;
                }
            }
        }
    }

    /// Runs a closure as a transaction that only reads. It may run again after a conflict.
    #[inline]
    pub fn read<R>(&self, mut body: impl FnMut(&mut Reader<'_>) -> Result<R>) -> Result<R> {
        let core = &*self.core;
        let mut seen = Vec::new();
        let mut retry = core.retry(core.lock_policy);
        loop {
            let mut session = Session::new(core, core.lock_policy)?;
            session.declare(&seen)?;
            let mut reader = Reader { session };
            let outcome = body(&mut reader);
            match reader.session.partitions_to_declare() {
                Some(partitions) if retry.failures() < core.retries_max => {
                    seen = partitions;
                    drop(reader);
                    retry.wait();
                }
                _ => {
                    let value = outcome?;
                    reader.session.finish(core.durability)?;
                    return Ok(value);
                }
            }
        }
    }

    /// Begins a transaction that the caller commits. It waits for partitions as it touches them,
    /// and returns `Conflict` where waiting could last for ever; the caller then aborts it and
    /// begins again.
    pub fn begin(&self) -> Result<Transaction<'_>> {
        self.begin_with(&TransactionOptions::default())
    }

    /// As [`Database::begin`], with declared partitions, durability or wait limit of its own.
    pub fn begin_with(&self, options: &TransactionOptions) -> Result<Transaction<'_>> {
        let lock_policy = options.lock_policy(self.core.lock_policy);
        let mut session = Session::new(&self.core, lock_policy)?;
        session.unchecked = options.unchecked;
        session.declare(&options.partitions)?;
        let durability = options.durability.unwrap_or(self.core.durability);
        Ok(Transaction {
            session,
            durability,
        })
    }

    /// Takes partitions for this thread alone, for many transactions. `durability` is that of its
    /// commits; with [`Durability::Group`] the worker's owner decides when to
    /// [force](Worker::force) and acknowledge.
    pub fn worker(&self, partitions: &[u32], durability: Durability) -> Result<Worker<'_>> {
        let partitions = worker::check_partitions(partitions)?;
        let mut session = Session::new(&self.core, self.core.lock_policy)?;
        session.declare(&partitions)?;
        Ok(Worker::new(session, durability))
    }

    /// The attempts of one transaction, for callers who run those of a
    /// [`Connection`](crate::Connection) again themselves; to be made before the first one.
    pub fn retry(&self) -> Retry<'_> {
        self.core.retry(self.core.lock_policy)
    }

    /// A table by its name.
    pub fn table(&self, name: &str) -> Result<Table> {
        self.core.check_process()?;
        let catalogue = self
            .core
            .catalogue
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        catalogue
            .get(name)
            .cloned()
            .ok_or_else(|| Error::NoSuchTable {
                table: name.to_owned(),
            })
    }

    /// All tables, in the order of their names; none in a forked child.
    pub fn tables(&self) -> Vec<Table> {
        if !self.core.process.is_here() {
            return Vec::new();
        }
        let catalogue = self
            .core
            .catalogue
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        catalogue.values().cloned().collect()
    }

    /// All tables, the database's own among them.
    pub(crate) fn all_tables(&self) -> Vec<Table> {
        let hidden = self.core.hidden.read();
        let hidden = hidden.unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<Table> = hidden.values().cloned().collect();
        all.extend(self.tables());
        all
    }

    /// Number of partitions.
    pub fn partitions(&self) -> u32 {
        self.core.descriptor.partitions
    }

    /// The method that stores the data.
    pub fn method(&self) -> Method {
        self.core.descriptor.method
    }

    /// Whether every commit is as durable as it will ever be when it returns, so that no group of
    /// commits is waited for.
    pub fn commits_are_durable(&self) -> bool {
        self.core.commits_fence() || !self.method().is_durable()
    }

    /// The persistence domain in force.
    pub fn domain(&self) -> Domain {
        self.core.commits.domain()
    }

    /// The failures that committed data survives, in two words.
    pub fn survives(&self) -> &'static str {
        if self.method().is_durable() {
            self.domain().survives()
        } else {
            "nothing"
        }
    }

    /// Waits until all partitions are free, makes every commit durable and closes, if no other
    /// handle is left. Dropping the last handle closes as well, without waiting and without a
    /// report of errors.
    pub fn close(self) -> Result<()> {
        self.force()?;
        let Self { marking, core } = self;
        // It ends with the last handle, and has the core until then.
        drop(marking);
        Arc::into_inner(core).map_or(Ok(()), |mut core| {
            core.close_partitions()?;
            core.recording.finish().map(drop)
        })
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("method", &self.method().name())
            .field("partitions", &self.partitions())
            .finish_non_exhaustive()
    }
}
