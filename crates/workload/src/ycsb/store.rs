//! The same list on anything that keeps rows under keys: another database, a map, or a worker of
//! ours.
//!
//! A [`Store`] is one thread's view of it. The list's accesses are whole transactions, so a store
//! has two timed operations: reading a row into its buffer, and changing columns of a row, durably.
//! [`StoreRunner`] runs one partition's list on them, as [`super::Runner`] runs it on a database of
//! ours, and [`Expected`] is the content afterwards. Several lists may follow each other on one
//! store, so that loading is paid once.

use super::contents::{Contents, Window};
use super::drive::{WRONG_MAX, Ycsb, YcsbError, difference};
use super::list::{Access, Action};
use super::{COLUMN_BYTES, COLUMNS};
use indelible::{Changes, Error, Row, Table, Transaction, Worker};

/// Bytes of a row's columns, one after the other.
pub const ROW_BYTES: usize = COLUMNS * COLUMN_BYTES;

/// One thread's view of something that keeps rows.
pub trait Store {
    /// The error of its operations.
    type Error: From<YcsbError>;

    /// Inserts the loaded rows of some keys, which ascend from call to call. One call is one
    /// transaction; it need not be durable on its own.
    fn load(
        &mut self,
        keys: &mut dyn Iterator<Item = u32>,
        contents: &Contents,
    ) -> Result<(), Self::Error>;

    /// Copies all columns of a row into the store's own buffer, in one transaction. False if there
    /// is no such row.
    fn read(&mut self, key: u32) -> Result<bool, Self::Error>;

    /// A column of the row that was read last.
    fn column(&self, column: usize) -> &[u8];

    /// Rewrites columns of a row in one transaction, which is durable on return, as far as the
    /// medium allows. False if there is no such row.
    fn update(&mut self, key: u32, change: Change<'_>) -> Result<bool, Self::Error>;
}

impl<S: Store + ?Sized> Store for Box<S> {
    type Error = S::Error;

    fn load(
        &mut self,
        keys: &mut dyn Iterator<Item = u32>,
        contents: &Contents,
    ) -> Result<(), Self::Error> {
        (**self).load(keys, contents)
    }

    #[inline]
    fn read(&mut self, key: u32) -> Result<bool, Self::Error> {
        (**self).read(key)
    }

    fn column(&self, column: usize) -> &[u8] {
        (**self).column(column)
    }

    #[inline]
    fn update(&mut self, key: u32, change: Change<'_>) -> Result<bool, Self::Error> {
        (**self).update(key, change)
    }
}

/// The values that an update writes.
#[derive(Clone, Copy, Debug)]
pub struct Change<'c> {
    contents: &'c Contents,
    partition: u32,
    position: u64,
    first: usize,
    count: usize,
}

impl<'c> Change<'c> {
    /// The columns and their new values.
    #[inline]
    pub fn columns(self) -> impl Iterator<Item = (usize, &'c str)> {
        (0..self.count).map(move |step| {
            let column = (self.first + step) % COLUMNS;
            let value = self.contents.update(self.partition, self.position, column);
            (column, value)
        })
    }

    /// Writes the new values into the bytes of a row; `row` has [`ROW_BYTES`].
    #[inline]
    pub fn apply(self, row: &mut [u8]) {
        for (column, value) in self.columns() {
            column_of_mut(row, column).copy_from_slice(value.as_bytes());
        }
    }
}

impl Contents {
    /// Writes a row as it is after loading; `row` has [`ROW_BYTES`].
    pub fn fill(&self, key: u32, row: &mut [u8]) {
        for column in 0..COLUMNS {
            column_of_mut(row, column).copy_from_slice(self.initial(key, column).as_bytes());
        }
    }
}

fn column_of_mut(row: &mut [u8], column: usize) -> &mut [u8] {
    &mut row[column * COLUMN_BYTES..(column + 1) * COLUMN_BYTES]
}

/// The expected rows of a partition.
#[derive(Clone, Debug)]
pub struct Expected {
    partition: u32,
    windows: Vec<Window>,
}

impl Ycsb {
    /// The expected rows of a partition after loading.
    pub fn expected(&self, partition: u32) -> Expected {
        Expected {
            partition,
            windows: self.initial_windows(partition),
        }
    }

    /// Applies the first transactions of this list to the expected rows. The list may be another
    /// one than before, of the same rows and seed.
    pub fn advance(&self, expected: &mut Expected, transactions: u64) {
        let windows = &mut expected.windows;
        self.apply(expected.partition, transactions, |at, window| {
            windows[at] = window;
        });
    }

    /// Runs through the list of a partition, from its start.
    pub fn store_runner<S: Store>(&self, store: S, partition: u32) -> StoreRunner<'_, S> {
        StoreRunner {
            list: self.list(partition),
            at: 0,
            position: 0,
            contents: self.contents(),
            partition,
            update_columns: self.options().update_columns as usize,
            store,
        }
    }

    /// Reads every row of a partition and compares it with the expected one.
    pub fn check_store<S: Store>(
        &self,
        store: &mut S,
        expected: &Expected,
    ) -> Result<(), S::Error> {
        let (mut count, mut first) = (0, Vec::new());
        let rows = expected.windows.chunks_exact(COLUMNS);
        for (key, windows) in self.keys(expected.partition).zip(rows) {
            if !store.read(key)? {
                return Err(YcsbError::Missing { key }.into());
            }
            for (column, window) in windows.iter().enumerate() {
                let (found, right) = (store.column(column), self.contents().window(*window));
                if found == right.as_bytes() {
                    continue;
                }
                count += 1;
                if first.len() < WRONG_MAX {
                    let found = String::from_utf8_lossy(found);
                    first.push(difference(key, column, &found, right));
                }
            }
        }
        if count > 0 {
            return Err(YcsbError::Wrong { count, first }.into());
        }
        Ok(())
    }
}

/// Runs the transactions of one partition on a store, one after the other.
pub struct StoreRunner<'w, S> {
    list: &'w [Access],
    at: usize,
    position: u64,
    contents: &'w Contents,
    partition: u32,
    update_columns: usize,
    store: S,
}

impl<S: Store> StoreRunner<'_, S> {
    /// Transactions run so far.
    #[inline]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The store, after the last transaction.
    pub fn into_store(self) -> S {
        self.store
    }

    /// Runs the next transaction. The list begins again at its end.
    #[inline]
    pub fn step(&mut self) -> Result<(), S::Error> {
        let access = self.list[self.at];
        let found = match access.action() {
            Action::Read => self.store.read(access.key)?,
            Action::Update(first) => {
                let change = Change {
                    contents: self.contents,
                    partition: self.partition,
                    position: self.position,
                    first,
                    count: self.update_columns,
                };
                self.store.update(access.key, change)?
            }
        };
        self.position += 1;
        self.at += 1;
        if self.at == self.list.len() {
            self.at = 0;
        }
        if found {
            Ok(())
        } else {
            Err(YcsbError::Missing { key: access.key }.into())
        }
    }
}

/// A worker of a database of ours, seen as a store: the row is the caller's buffer.
pub struct WorkerStore<'s> {
    worker: Worker<'s>,
    table: &'s Table,
    row: Row,
    changes: Changes,
}

impl<'s> WorkerStore<'s> {
    /// The worker should own one partition and make each transaction durable before it returns
    /// ([`indelible::Durability::Immediate`]). The table is that of [`Ycsb::load`].
    pub fn new(worker: Worker<'s>, table: &'s Table) -> Self {
        Self {
            worker,
            table,
            row: table.row(),
            changes: table.changes(),
        }
    }

    /// Runs one transaction.
    #[inline]
    fn run(
        worker: &mut Worker<'_>,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<bool, Error>,
    ) -> Result<bool, YcsbError> {
        match worker.transaction(body) {
            Ok((found, _)) => Ok(found),
            Err(error) => Err(error.into()),
        }
    }
}

impl Store for WorkerStore<'_> {
    type Error = YcsbError;

    fn load(
        &mut self,
        keys: &mut dyn Iterator<Item = u32>,
        contents: &Contents,
    ) -> Result<(), YcsbError> {
        let (table, row) = (self.table, &mut self.row);
        let loaded = self.worker.transaction(|transaction| {
            for key in keys {
                row.clear();
                row.set(0, i64::from(key))?;
                for column in 0..COLUMNS {
                    row.set(column + 1, contents.initial(key, column))?;
                }
                transaction.insert(table, &*row)?;
            }
            Ok(())
        });
        Ok(loaded.map(drop)?)
    }

    #[inline]
    fn read(&mut self, key: u32) -> Result<bool, YcsbError> {
        let (table, row) = (self.table, &mut self.row);
        Self::run(&mut self.worker, |transaction| {
            transaction.get_into(table, i64::from(key), row)
        })
    }

    fn column(&self, column: usize) -> &[u8] {
        let value = self.row.get(column + 1).as_str();
        value.unwrap_or_default().as_bytes()
    }

    #[inline]
    fn update(&mut self, key: u32, change: Change<'_>) -> Result<bool, YcsbError> {
        self.changes.clear();
        for (column, value) in change.columns() {
            self.changes.set(column + 1, value).map_err(Error::from)?;
        }
        let (table, changes) = (self.table, &self.changes);
        Self::run(&mut self.worker, |transaction| {
            transaction.update(table, i64::from(key), changes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ycsb::{Mix, Skew, YcsbOptions};
    use indelible::{Database, Durability, Method, Options};
    use std::collections::BTreeMap;

    /// Rows in a map; drops every so-manieth update if asked to.
    #[derive(Default)]
    struct Map {
        rows: BTreeMap<u32, Vec<u8>>,
        row: Vec<u8>,
        updates: u64,
        loses: Option<u64>,
    }

    impl Store for Map {
        type Error = YcsbError;

        fn load(
            &mut self,
            keys: &mut dyn Iterator<Item = u32>,
            contents: &Contents,
        ) -> Result<(), YcsbError> {
            for key in keys {
                let mut row = vec![0; ROW_BYTES];
                contents.fill(key, &mut row);
                self.rows.insert(key, row);
            }
            Ok(())
        }

        fn read(&mut self, key: u32) -> Result<bool, YcsbError> {
            let row = self.rows.get(&key);
            self.row = row.cloned().unwrap_or_default();
            Ok(row.is_some())
        }

        fn column(&self, column: usize) -> &[u8] {
            &self.row[column * COLUMN_BYTES..(column + 1) * COLUMN_BYTES]
        }

        fn update(&mut self, key: u32, change: Change<'_>) -> Result<bool, YcsbError> {
            self.updates += 1;
            let row = self.rows.get_mut(&key);
            if let Some(row) = row
                && self.loses != Some(self.updates)
            {
                change.apply(row);
                return Ok(true);
            }
            Ok(self.rows.contains_key(&key))
        }
    }

    fn workload(mix: Mix) -> Ycsb {
        Ycsb::new(YcsbOptions {
            rows: 300,
            partitions: 2,
            threads: 1,
            mix,
            skew: Skew::High,
            update_columns: 2,
            transactions: 400,
            seed: 3,
        })
        .unwrap()
    }

    fn run<S>(workload: &Ycsb, store: S, partition: u32, count: u64) -> S
    where
        S: Store<Error = YcsbError>,
    {
        let mut runner = workload.store_runner(store, partition);
        while runner.position() < count {
            runner.step().unwrap();
        }
        runner.into_store()
    }

    #[test]
    fn lists_follow_each_other_on_one_store() {
        let mut map = Map::default();
        let (first, second) = (workload(Mix::WriteHeavy), workload(Mix::Balanced));
        map.load(&mut first.keys(1), first.contents()).unwrap();
        let mut expected = first.expected(1);
        first.check_store(&mut map, &expected).unwrap();
        // Beyond the end of the list, too.
        for (workload, count) in [(&first, 250), (&second, 90)] {
            map = run(workload, map, 1, count);
            assert!(workload.check_store(&mut map, &expected).is_err());
            workload.advance(&mut expected, count);
            workload.check_store(&mut map, &expected).unwrap();
        }
    }

    #[test]
    fn a_lost_update_and_a_lost_row_are_found() {
        let workload = workload(Mix::WriteHeavy);
        let mut map = Map::default();
        map.load(&mut workload.keys(0), workload.contents())
            .unwrap();
        map.loses = Some(95);
        let mut map = run(&workload, map, 0, 110);
        let mut expected = workload.expected(0);
        workload.advance(&mut expected, 110);
        let error = workload.check_store(&mut map, &expected).unwrap_err();
        assert!(
            matches!(error, YcsbError::Wrong { count: 1..=2, .. }),
            "{error}"
        );
        let lost = *map.rows.keys().next().unwrap();
        map.rows.remove(&lost);
        let error = workload.check_store(&mut map, &expected).unwrap_err();
        assert!(matches!(error, YcsbError::Missing { key } if key == lost));
    }

    #[test]
    fn a_worker_of_ours_is_a_store() {
        let path = std::env::temp_dir().join(format!("workload-store-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let options = Options::new().method(Method::Volatile).partitions(2);
        let database = Database::create(&path, &options).unwrap();
        let workload = workload(Mix::Balanced);
        let table = workload.load(&database, |_| ()).unwrap();
        for partition in 0..2 {
            let open = || {
                let worker = database.worker(&[partition], Durability::Immediate);
                WorkerStore::new(worker.unwrap(), &table)
            };
            drop(run(&workload, open(), partition, 150));
            let mut expected = workload.expected(partition);
            workload.advance(&mut expected, 150);
            workload.check_store(&mut open(), &expected).unwrap();
            assert!(!open().read(1000 + partition).unwrap());
        }
        drop(database);
        std::fs::remove_dir_all(path).unwrap();
    }
}
