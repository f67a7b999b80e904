//! The common part of the standard benchmarks: seeded rows, a list of inputs for each partition,
//! and conditions.
//!
//! Programs that measure, kill and cut the power are written over [`Workload`] and run every
//! benchmark that has it. A *look* reads the whole database, fails where a condition of the
//! benchmark does not hold, and returns the part of the content that shows which transactions were
//! run. The lists never change once they are made, so the changes between two looks follow from a
//! position in each list. After a kill the position is a range: the content must be that of a
//! prefix of the list that ends in the range.
//!
//! A partition has one list, or one for each of the threads that share it. Threads that share rows
//! leave the result of some order of their transactions. A check then accepts the result of the
//! last transaction of any of them, and each list must have run to an exact position.

use crate::conditions::{Findings, Violation, listed};
use crate::loader::{Loaded, on_each};
use crate::script::RoutedScript;
use indelible::{Database, Error};
use std::ops::RangeInclusive;

/// A benchmark with its inputs made.
pub trait Workload: Send + Sync + Sized {
    /// The name on command lines and in rows.
    const NAME: &'static str;
    /// The tables of an open database.
    type Tables: Send + Sync;
    /// The result of a look at the content.
    type Content: Clone + Send;
    /// Runs a list.
    type Runner<'w>: RoutedScript
    where
        Self: 'w;

    /// Partitions of the database.
    fn partitions(&self) -> u32;

    /// Lists: as many as partitions, or several times as many where threads share them. The list of
    /// number `n` works in the partition `n` modulo partitions.
    fn lists(&self) -> u32;

    /// Rows after loading, about.
    fn rows(&self) -> u64;

    /// Creates the tables and loads all rows, one thread a partition. `loaded` is called now and
    /// then with a number of new rows.
    fn load(
        &self,
        database: &Database,
        loaded: impl Fn(u64) + Sync,
    ) -> Result<Self::Tables, WorkloadError> {
        let tables = self.create(database, &loaded)?;
        on_each(self.partitions(), |partition| {
            self.load_partition(database, &tables, partition, &loaded)
        })?;
        // Log records of loading are not charged to the transactions that are measured.
        database.checkpoint()?;
        Ok(tables)
    }

    /// Creates the tables and loads the rows that are in all partitions.
    fn create(
        &self,
        database: &Database,
        loaded: Loaded<'_>,
    ) -> Result<Self::Tables, WorkloadError>;

    /// Loads the rows of one partition.
    fn load_partition(
        &self,
        database: &Database,
        tables: &Self::Tables,
        partition: u32,
        loaded: Loaded<'_>,
    ) -> Result<(), WorkloadError>;

    /// The tables of a database that has them.
    fn tables(database: &Database) -> Result<Self::Tables, WorkloadError>;

    /// Runs through a list, beginning at transaction number `position`. The calling thread must not
    /// hold a transaction or a worker.
    fn runner<'w>(
        &'w self,
        database: &Database,
        tables: &'w Self::Tables,
        list: u32,
        position: u64,
    ) -> Result<Self::Runner<'w>, WorkloadError>;

    /// The result of a look after loading.
    fn loaded(&self) -> Self::Content;

    /// Reads everything. Nobody may write meanwhile, and the calling thread must not hold a
    /// transaction or a worker.
    fn look(&self, database: &Database) -> Result<Self::Content, WorkloadError>;

    /// Checks that between two looks the transactions of the lists, from their beginning up to a
    /// position within `done`, were run, and no others. `done` has a range for each list, rollbacks
    /// counted; lists beyond its end are not compared.
    fn check_since(
        &self,
        before: &Self::Content,
        after: &Self::Content,
        done: &[RangeInclusive<u64>],
    ) -> Result<(), WorkloadError>;

    /// Checks the conditions, and the transactions run since loading.
    fn check(
        &self,
        database: &Database,
        done: &[RangeInclusive<u64>],
    ) -> Result<Self::Content, WorkloadError> {
        let content = self.look(database)?;
        self.check_since(&self.loaded(), &content, done)?;
        Ok(content)
    }
}

/// An error of a run.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The database refused. Its own error says what to do.
    #[error(transparent)]
    Database(#[from] Error),
    /// An option has a value that cannot be used.
    #[error("option `{option}`: {problem}")]
    Option {
        /// The option.
        option: &'static str,
        /// The fault, and the value to use instead.
        problem: String,
    },
    /// A row that every transaction may count on is not there: it was not loaded, or it was lost.
    #[error("the row {key} of table `{table}` is missing")]
    Missing {
        /// The table.
        table: &'static str,
        /// Its key.
        key: String,
    },
    /// Consistency conditions of the benchmark do not hold.
    #[error(
        "{count} consistency conditions are violated; the first: {}",
        listed(first)
    )]
    Inconsistent {
        /// How many.
        count: u64,
        /// Some of them.
        first: Vec<Violation>,
    },
    /// The content shows fewer or more transactions than there were.
    #[error(
        "partition {partition}, {place}: the content shows {found}, and no prefix of the list that may have been run leaves that"
    )]
    Lost {
        /// The partition whose list it is.
        partition: u32,
        /// Where in it.
        place: String,
        /// The value found.
        found: String,
    },
}

impl Findings {
    /// The violations as an error, if there are any.
    pub(crate) fn check(&self) -> Result<(), WorkloadError> {
        if self.violated == 0 {
            return Ok(());
        }
        Err(WorkloadError::Inconsistent {
            count: self.violated,
            first: self.violations.clone(),
        })
    }
}

impl WorkloadError {
    /// An option that cannot be used.
    pub(crate) fn option(option: &'static str, problem: impl Into<String>) -> Self {
        Self::Option {
            option,
            problem: problem.into(),
        }
    }
}

/// A row that must be there is not: the error of a transaction.
#[cold]
pub(crate) fn missing(table: &'static str, key: String) -> Error {
    Error::rejected(WorkloadError::Missing { table, key })
}
