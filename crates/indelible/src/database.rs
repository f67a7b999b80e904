//! The database: an open set of partitions, and the running of transactions in them.
//!
//! [`Database`] is a cheap handle on what all threads share. A closure given to [`Database::transaction`] runs in the
//! caller's thread; after a conflict it runs again, with all partitions that it has touched so far taken at its start
//! in ascending order, so the second attempt can conflict only over partitions that it has not seen yet.

use crate::commit_table::{CommitTable, VolatileWords};
use crate::descriptor::Descriptor;
use crate::error::{Error, Result};
use crate::log_marks::Marking;
use crate::mark::MarkBit;
use crate::options::{Mode, TransactionOptions};
use crate::partition::Partition;
use crate::retry::{Retry, Turns};
use crate::roster::{Held, Keeper};
use crate::session::{Manner, Session};
use crate::sync::Mutex;
use crate::table::Table;
use crate::trace::Recording;
use crate::transaction::{Reader, Transaction};
use crate::worker::{self, Worker};
use pmem::{Domain, ProcessMark};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use storage::engine::{Durability, Method};

/// An open database. Clones are handles on the same one; it closes when the last of them, and everything made from
/// them, is dropped. They are for the process that has opened it: in a child that is forked from it, every call returns [`Error::Forked`] and dropping a
/// handle does nothing.
#[derive(Clone)]
pub struct Database {
    /// Goes first: its thread has the core as well.
    pub(crate) marking: Option<Arc<Marking>>,
    pub(crate) core: Arc<Core>,
}

/// What all threads share. The order of the fields is the order in which they close: the platform, which holds the
/// directory's lock, last.
pub(crate) struct Core {
    /// Of the process that has opened it.
    pub(crate) process: ProcessMark,
    /// Tells handles of different open databases apart.
    pub(crate) serial: u64,
    pub(crate) mark_bit: u64,
    pub(crate) partitions: Vec<Partition>,
    /// Held by whoever keeps all others out of partitions.
    pub(crate) alone: Mutex<()>,
    /// Whose turn it is to run a transaction again.
    pub(crate) turns: Turns,
    pub(crate) commits: CommitTable,
    pub(crate) catalogue: RwLock<BTreeMap<String, Table>>,
    pub(crate) descriptor: Descriptor,
    pub(crate) mode: Mode,
    pub(crate) durability: Durability,
    pub(crate) manner: Manner,
    pub(crate) memory_max: u64,
    pub(crate) retries_max: u32,
    pub(crate) group_wait: Duration,
    /// Whether a commit that nobody could join forces its group without waiting.
    pub(crate) leads_at_once: bool,
    pub(crate) opened_in: Duration,
    pub(crate) recording: Recording,
    /// Whether the logs of several partitions have archives, which have moments in common by their marks only.
    pub(crate) has_marks: bool,
    pub(crate) is_closed: bool,
    /// The generation of this opening; none where nothing is to be noted at its end.
    pub(crate) generation: Option<u64>,
    pub(crate) _mark: MarkBit,
    pub(crate) platform: Box<dyn Keeper>,
}

impl Core {
    /// Whether each commit of the method ends with a fence, so that there is no group to wait for.
    #[inline]
    pub(crate) fn commits_fence(&self) -> bool {
        matches!(self.descriptor.method, Method::NvmInp | Method::NvmLog)
    }

    #[inline]
    pub(crate) fn is_read_only(&self) -> bool {
        self.mode == Mode::ReadOnly
    }
}

impl Core {
    /// Ends the work of every partition that is free: what was committed without waiting becomes durable, and the next opening
    /// finds nothing to recover. The first error is returned, after all partitions had their turn.
    fn close_partitions(&mut self) -> Result<()> {
        let mut result = Ok(());
        if std::mem::replace(&mut self.is_closed, true) || self.is_read_only() {
            return result;
        }
        // One that is stopped, or held by a transaction that was forgotten, is left to recovery.
        let seats = self.partitions.iter();
        let mut seats: Vec<_> = seats
            .filter_map(|partition| partition.take(Duration::ZERO).ok())
            .collect();
        let has_all = seats.len() == self.partitions.len();
        if has_all {
            result = self.mark_last(&mut seats);
        }
        for seat in &mut seats {
            let closed = seat.engine.close();
            result = result.and(closed.map_err(Error::from));
        }
        drop(seats);
        match self.generation.take() {
            Some(generation) if has_all && result.is_ok() => {
                // What the engines write when they go is in the files by then.
                self.partitions.clear();
                self.commits = CommitTable::new(Box::new(VolatileWords::new()));
                self.platform.seal(&self.descriptor, generation)
            }
            _ => result,
        }
    }
}

impl Core {
    /// Fails in a process that was forked from the one that has opened the database.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.process.is_here() {
            Ok(())
        } else {
            Err(Error::Forked)
        }
    }

    /// In a forked child everything is the parent's: no engine stores, syncs or waits for threads that are not there, and the lock of the directory stays.
    fn forget(&mut self) {
        let no_words = Box::new(VolatileWords::new());
        std::mem::forget((
            std::mem::take(&mut self.partitions),
            std::mem::replace(&mut self.commits, CommitTable::new(no_words)),
            std::mem::take(&mut self.recording),
            std::mem::replace(&mut self.platform, Box::new(Held(()))),
        ));
    }
}

impl Drop for Core {
    /// Errors have nobody to go to; [`Database::close`] reports them.
    fn drop(&mut self) {
        if !self.process.is_here() {
            self.forget();
        } else if !std::thread::panicking() {
            let _ = self.close_partitions();
            let _ = self.recording.finish();
        }
    }
}

impl Core {
    #[inline]
    pub(crate) const fn retry(&self, manner: Manner) -> Retry<'_> {
        Retry::new(&self.turns, manner.wait_limit)
    }
}

impl Database {
    /// Runs a closure as a transaction with the database's own durability. It is committed when the closure returns `Ok`, and undone
    /// when it returns `Err` or panics. After a conflict the closure runs again, so what it does outside the database
    /// must bear repetition.
    #[inline]
    pub fn transaction<R>(&self, body: impl FnMut(&mut Transaction<'_>) -> Result<R>) -> Result<R> {
        self.run(&[], self.core.durability, self.core.manner, body)
    }

    /// As [`Database::transaction`], with declared partitions, durability or wait limit of its own.
    pub fn transaction_with<R>(
        &self,
        options: &TransactionOptions,
        body: impl FnMut(&mut Transaction<'_>) -> Result<R>,
    ) -> Result<R> {
        let durability = options.durability.unwrap_or(self.core.durability);
        let manner = options.manner(self.core.manner);
        self.run(&options.partitions, durability, manner, body)
    }

    #[inline]
    fn run<R>(
        &self,
        declared: &[u32],
        durability: Durability,
        manner: Manner,
        mut body: impl FnMut(&mut Transaction<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut seen = Vec::new();
        let mut retry = self.core.retry(manner);
        loop {
            let mut session = Session::new(&self.core, manner)?;
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
                // Matched, not `?`: that would copy a large error through memory where there is none.
                None => {
                    let value = match outcome {
                        Ok(value) => value,
                        Err(error) => return Err(error),
                    };
                    return match transaction.session.finish(durability) {
                        Ok(()) => Ok(value),
                        Err(error) => Err(error),
                    };
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
        let mut retry = core.retry(core.manner);
        loop {
            let mut session = Session::new(core, core.manner)?;
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
                    let value = match outcome {
                        Ok(value) => value,
                        Err(error) => return Err(error),
                    };
                    return match reader.session.finish(core.durability) {
                        Ok(()) => Ok(value),
                        Err(error) => Err(error),
                    };
                }
            }
        }
    }

    /// Begins a transaction that the caller commits. It waits for partitions as it touches them, and returns `Conflict` where
    /// waiting could last for ever; the caller then aborts it and begins again.
    pub fn begin(&self) -> Result<Transaction<'_>> {
        self.begin_with(&TransactionOptions::default())
    }

    /// As [`Database::begin`], with declared partitions, durability or wait limit of its own.
    pub fn begin_with(&self, options: &TransactionOptions) -> Result<Transaction<'_>> {
        let manner = options.manner(self.core.manner);
        let mut session = Session::new(&self.core, manner)?;
        session.declare(&options.partitions)?;
        let durability = options.durability.unwrap_or(self.core.durability);
        Ok(Transaction {
            session,
            durability,
        })
    }

    /// Takes partitions for this thread alone, for many transactions. `durability` is that of its commits; with
    /// [`Durability::Group`] the worker's owner decides when to [force](Worker::force) and acknowledge.
    pub fn worker(&self, partitions: &[u32], durability: Durability) -> Result<Worker<'_>> {
        let partitions = worker::check_partitions(partitions)?;
        let mut session = Session::new(&self.core, self.core.manner)?;
        session.declare(&partitions)?;
        Ok(Worker::new(session, durability))
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

    /// How many partitions there are.
    pub fn partitions(&self) -> u32 {
        self.core.descriptor.partitions
    }

    /// The method that stores the data.
    pub fn method(&self) -> Method {
        self.core.descriptor.method
    }

    /// Whether every commit is as durable as it will ever be when it returns, so that no group of commits is waited for.
    pub fn commits_are_durable(&self) -> bool {
        self.core.commits_fence() || !self.method().is_durable()
    }

    /// The persistence domain in force.
    pub fn domain(&self) -> Domain {
        self.core.commits.domain()
    }

    /// What committed data survives, in two words.
    pub fn survives(&self) -> &'static str {
        if self.method().is_durable() {
            self.domain().survives()
        } else {
            "nothing"
        }
    }

    /// Waits until all partitions are free, makes every commit durable and closes, if no other handle is left. Dropping the last
    /// handle closes as well, without waiting and without a report of errors.
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
