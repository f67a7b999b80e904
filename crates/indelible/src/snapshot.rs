//! Snapshots: one moment of the whole database, read while other sessions change it.
//!
//! A method that copies on write, or keeps the data that its old page headers name, never
//! overwrites published data. So a reader of an older directory only needs the old pages not to be
//! used again. A [`Snapshot`] is a read-only database of its own over the engines that
//! [`Idle::snapshot`](storage::engine::Idle::snapshot) gives, with its own locks: its readers
//! wait for each other in a partition, and never for a transaction.
//!
//! Invariants: the database stays open while a snapshot of it lives; all partitions of a snapshot
//! show the same moment, because it is taken with all of them held; all data that it shows is
//! durable.

use crate::commit_table::{CommitTable, VolatileWords};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::key::{IntoKey, IntoKeyRange, Prefix};
use crate::open::Components;
use crate::options::{Mode, Options};
use crate::roster::Held;
use crate::table::{Index, Table};
use crate::transaction::Reader;
use std::fmt;
use std::ops::ControlFlow;
use std::time::Instant;
use storage::engine::{Direction, Method, VerifyReport};
use storage::record::Row;

/// One moment of a database, for reading. Clones are handles on the same one, which any number of
/// threads may use. It ends when the last of them is dropped, and the space of data that only it
/// shows can then be used again.
#[derive(Clone)]
pub struct Snapshot {
    reading: Database,
}

impl Database {
    /// Takes a snapshot of all partitions: all committed data, made durable first. It waits for the
    /// open transactions, as a transaction over all partitions does; afterwards nobody waits for
    /// it. The rows that it shows take space until it is dropped; rows written and replaced after
    /// it was taken do not. Methods that change rows in place have no snapshots;
    /// [`Method::has_snapshots`] asks.
    ///
    /// ```
    /// # use indelible::{DataType, Database, Method, Options};
    /// # fn main() -> indelible::Result<()> {
    /// # let directory =
    /// #     std::env::temp_dir().join(format!("indelible-snapshot-{}", std::process::id()));
    /// # let _ = std::fs::remove_dir_all(&directory);
    /// let db = Database::create(&directory, &Options::new().method(Method::NvmCow))?;
    /// let stock = db
    ///     .create_table("stock")
    ///     .column("item", DataType::Int64)
    ///     .column("pieces", DataType::Int64)
    ///     .primary_key(["item"])
    ///     .create()?;
    /// db.transaction(|t| (1..=100_i64).try_for_each(|item| t.insert(&stock, (item, 10_i64))))?;
    ///
    /// let evening = db.snapshot()?;
    /// let report = std::thread::spawn({
    ///     let (evening, stock) = (evening.clone(), stock.clone());
    ///     move || -> indelible::Result<i64> {
    ///         let rows = evening.collect(&stock, ..)?;
    ///         Ok(rows.iter().filter_map(|row| row.get(1).as_i64()).sum())
    ///     }
    /// });
    /// // Sales go on meanwhile; the report does not see them.
    /// db.transaction(|t| t.delete(&stock, 7_i64).map(|_| ()))?;
    /// assert_eq!(report.join().expect("the report does not panic")?, 1000);
    /// assert!(evening.get(&stock, 7_i64)?.is_some());
    /// # drop((evening, stock, db));
    /// # let _ = std::fs::remove_dir_all(&directory);
    /// # Ok(())
    /// # }
    /// ```
    pub fn snapshot(&self) -> Result<Snapshot> {
        let start = Instant::now();
        let core = &*self.core;
        let method = core.descriptor.method;
        let none = || Error::NoSnapshots {
            method: method.name(),
            with: Method::names_with_snapshots(),
        };
        if !method.has_snapshots() {
            return Err(none());
        }
        let mut session = self.hold_all_to_look()?;
        session.force()?;
        let mut engines = Vec::with_capacity(core.partitions.len());
        for partition in 0..core.descriptor.partitions {
            let snapshot = session.idle_engine(partition)?.idle()?.snapshot()?;
            engines.push(snapshot.ok_or_else(none)?);
        }
        drop(session);
        let options = Options::new().mode(Mode::ReadOnly);
        let parts = Components {
            engines,
            commits: CommitTable::new(Box::new(VolatileWords::new())),
            descriptor: core.descriptor,
            generation: None,
        };
        let database = Box::new(Held(self.clone()));
        let reading = Self::assemble_as(core.serial, parts, &options, start, database)?;
        Ok(Snapshot { reading })
    }
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "keys are written at the call, so `&` would be noise"
)]
impl Snapshot {
    /// Runs a closure that reads. All calls of a snapshot see the same moment.
    #[inline]
    pub fn read<R>(&self, body: impl FnMut(&mut Reader<'_>) -> Result<R>) -> Result<R> {
        self.reading.read(body)
    }

    /// The row with this primary key.
    pub fn get(&self, table: &Table, key: impl IntoKey) -> Result<Option<Row>> {
        let mut row = table.row();
        let found = self.read(|reader| reader.session.get_into(table, &key, &mut row))?;
        Ok(found.then_some(row))
    }

    /// Visits the rows of a range of the primary key in its order, until `visit` breaks.
    pub fn scan(
        &self,
        table: &Table,
        range: impl IntoKeyRange,
        direction: Direction,
        mut visit: impl FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        self.read(|reader| {
            let session = &mut reader.session;
            session.scan(table, &range, direction, &mut visit)
        })
    }

    /// Visits the rows of a range of a secondary index in its order, until `visit` breaks.
    pub fn scan_index(
        &self,
        index: &Index,
        range: impl IntoKeyRange,
        direction: Direction,
        mut visit: impl FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        self.read(|reader| {
            let session = &mut reader.session;
            session.scan_index(index, &range, direction, &mut visit)
        })
    }

    /// The rows of a range of the primary key, smallest key first.
    pub fn collect(&self, table: &Table, range: impl IntoKeyRange) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        self.scan(table, range, Direction::Forward, |row| {
            rows.push(row.clone());
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    /// The rows whose index columns have these values, or begin with them.
    pub fn find(&self, index: &Index, key: impl IntoKey) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        self.scan_index(index, Prefix(key), Direction::Forward, |row| {
            rows.push(row.clone());
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    /// Number of rows in a range of the primary key.
    pub fn count(&self, table: &Table, range: impl IntoKeyRange) -> Result<u64> {
        let mut rows = 0;
        self.scan(table, range, Direction::Forward, |_| {
            rows += 1;
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }

    /// A table of that moment by its name. Handles from the database work as well, unless the table
    /// was dropped since.
    pub fn table(&self, name: &str) -> Result<Table> {
        self.reading.table(name)
    }

    /// All tables of that moment, in the order of their names.
    pub fn tables(&self) -> Vec<Table> {
        self.reading.tables()
    }

    /// Checks every page and row that the snapshot shows, and every index against its table. Damage
    /// is in the report.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.reading.verify()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Snapshot").field(&self.reading).finish()
    }
}
