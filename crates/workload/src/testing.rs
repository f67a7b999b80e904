//! Shared parts of the workloads' tests: databases that go away, and running a list.
//!
//! A runner is driven as a measurement does it: its partitions are declared, a rollback that
//! belongs to the workload is no error.

use crate::{RoutedScript, Workload};
use indelible::{Database, Method, Options, Table, TransactionOptions, Value};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// Places made so far, so that each has a path of its own.
static PLACES: AtomicU32 = AtomicU32::new(0);

/// A database in a directory of its own, removed on drop.
pub(crate) struct TestDatabase {
    pub(crate) database: Option<Database>,
    pub(crate) path: PathBuf,
}

impl TestDatabase {
    pub(crate) fn new(name: &str, method: Method, partitions: u32) -> Self {
        Self::with(name, &Options::new().method(method).partitions(partitions))
    }

    /// One partition that this many threads share.
    pub(crate) fn shared(name: &str, threads: u32) -> Self {
        let options = Options::new().method(Method::FullPageWrites);
        Self::with(name, &options.sessions(threads))
    }

    fn with(name: &str, options: &Options) -> Self {
        let shared = PathBuf::from("/dev/shm");
        let parent = if shared.is_dir() {
            shared
        } else {
            std::env::temp_dir()
        };
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{name}-{number}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self {
            database: Some(Database::create(&path, options).unwrap()),
            path,
        }
    }

    pub(crate) fn database(&self) -> &Database {
        self.database.as_ref().unwrap()
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        drop(self.database.take());
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Runs one transaction; false if it was rolled back.
pub(crate) fn step<R: RoutedScript>(database: &Database, runner: &mut R) -> bool {
    let mut partitions = Vec::new();
    runner.partitions(&mut partitions);
    let options = TransactionOptions::new().partitions(partitions);
    let done = database.transaction_with(&options, |t| runner.step(t));
    runner.next();
    match done {
        Ok(()) => true,
        Err(error) => {
            assert!(R::is_rollback(&error), "{error}");
            false
        }
    }
}

/// Runs the first transactions of all lists in parallel.
pub(crate) fn run_at_once<W: Workload>(
    database: &Database,
    workload: &W,
    tables: &W::Tables,
    count: u64,
) {
    std::thread::scope(|threads| {
        for list in 0..workload.lists() {
            threads.spawn(move || {
                let mut runner = workload.runner(database, tables, list, 0).unwrap();
                for _ in 0..count {
                    step(database, &mut runner);
                }
            });
        }
    });
}

/// Rows of a table.
pub(crate) fn count(database: &Database, table: &Table) -> u64 {
    database.read(|reader| reader.count(table, ..)).unwrap()
}

/// All rows of all tables.
pub(crate) fn content(database: &Database) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    for table in database.tables() {
        let all = database.read(|reader| reader.collect(&table, ..)).unwrap();
        rows.extend(all.iter().map(indelible::Row::to_values));
    }
    rows
}
