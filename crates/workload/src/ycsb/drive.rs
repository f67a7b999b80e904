//! YCSB on a database: making and loading the table, running the list, and the content check.
//!
//! The timed part is [`Runner::step`]: it allocates nothing, reuses one row and one set of changes, and asks the list and the
//! pool of contents only, so that what is measured is the database.

use super::contents::{Contents, Window};
use super::list::{Access, Action, generate};
use super::{COLUMN_BYTES, COLUMNS, YcsbOptions};
use crate::script::Script;
use indelible::{
    Changes, DataType, Database, Durability, Error, Partitioning, Row, Table, Transaction,
};
use std::ops::RangeInclusive;
use std::panic::resume_unwind;
use std::thread::ScopedJoinHandle;

/// The table's name.
const TABLE: &str = "usertable";
/// Rows that are loaded in one transaction.
const LOAD_BATCH: u64 = 256;
/// Wrong values that the check lists; more of the same say nothing new.
pub(super) const WRONG_MAX: usize = 10;

/// What can go wrong in a run.
#[derive(Debug, thiserror::Error)]
pub enum YcsbError {
    /// The database refused. Its own error says what to do.
    #[error(transparent)]
    Database(#[from] Error),
    /// An option has a value that cannot be used.
    #[error("option `{option}`: {problem}")]
    Option {
        /// The option.
        option: &'static str,
        /// What is wrong, and what to use instead.
        problem: String,
    },
    /// A row of the list is not in the table: it was not loaded, or it was lost.
    #[error("the row with key {key} is missing")]
    Missing {
        /// Its primary key.
        key: u32,
    },
    /// The content at the end is not what the transactions must have left.
    #[error("{count} values are wrong at the end; the first: {}", first.join("; "))]
    Wrong {
        /// How many.
        count: u64,
        /// Some of them: row, column, expected and found.
        first: Vec<String>,
    },
}

/// A workload with its transactions made.
#[derive(Debug)]
pub struct Ycsb {
    options: YcsbOptions,
    contents: Contents,
    lists: Vec<Vec<Access>>,
}

impl Ycsb {
    /// Makes the list of transactions: 8 bytes each.
    pub fn new(options: YcsbOptions) -> Result<Self, YcsbError> {
        let wrong = |option, problem: &str| {
            Err(YcsbError::Option {
                option,
                problem: problem.into(),
            })
        };
        if options.rows == 0 || options.rows < options.partitions {
            return wrong("rows", "use at least one row a partition");
        }
        if options.partitions == 0 {
            return wrong("partitions", "use at least 1");
        }
        if !(1..=COLUMNS as u32).contains(&options.update_columns) {
            return wrong("update_columns", "use 1 to 10");
        }
        let contents = Contents::new(options.seed);
        let count = options
            .transactions
            .div_ceil(u64::from(options.partitions))
            .max(1);
        let lists = std::thread::scope(|threads| {
            let options = &options;
            let makers: Vec<_> = (0..options.partitions)
                .map(|partition| threads.spawn(move || generate(options, partition, count)))
                .collect();
            makers.into_iter().map(joined).collect()
        });
        Ok(Self {
            options,
            contents,
            lists,
        })
    }

    /// What is run.
    pub fn options(&self) -> &YcsbOptions {
        &self.options
    }

    /// What the columns hold.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// The transactions of a partition.
    pub fn list(&self, partition: u32) -> &[Access] {
        &self.lists[partition as usize]
    }

    /// Keys of a partition, in ascending order.
    pub fn keys(&self, partition: u32) -> impl Iterator<Item = u32> + use<> {
        (partition..self.options.rows).step_by(self.options.partitions as usize)
    }

    /// Creates the table and loads all rows, one thread a partition. `loaded` is called now and then with a number of new rows.
    pub fn load(
        &self,
        database: &Database,
        loaded: impl Fn(u64) + Sync,
    ) -> Result<Table, YcsbError> {
        let mut builder = database.create_table(TABLE).column("key", DataType::Int64);
        for column in 0..COLUMNS {
            let data_type = DataType::Char {
                length: COLUMN_BYTES as u32,
            };
            builder = builder.column(&format!("field{column}"), data_type);
        }
        let table = builder.partitioning(Partitioning::Modulo).create()?;
        std::thread::scope(|threads| {
            let (table, loaded) = (&table, &loaded);
            let loaders: Vec<_> = (0..self.options.partitions)
                .map(|partition| {
                    threads.spawn(move || self.load_partition(database, table, partition, loaded))
                })
                .collect();
            loaders.into_iter().try_for_each(joined)
        })?;
        // What loading left in a log is not charged to the transactions that are measured.
        database.checkpoint()?;
        Ok(table)
    }

    fn load_partition(
        &self,
        database: &Database,
        table: &Table,
        partition: u32,
        loaded: &(impl Fn(u64) + Sync),
    ) -> Result<(), YcsbError> {
        let mut worker = database.worker(&[partition], Durability::Group)?;
        let mut row = table.row();
        let mut keys = self.keys(partition).peekable();
        while keys.peek().is_some() {
            let (count, _) = worker.transaction(|transaction| {
                let mut count = 0;
                while count < LOAD_BATCH
                    && let Some(key) = keys.next()
                {
                    row.clear();
                    row.set(0, i64::from(key))?;
                    for column in 0..COLUMNS {
                        row.set(column + 1, self.contents.initial(key, column))?;
                    }
                    transaction.insert(table, &row)?;
                    count += 1;
                }
                Ok(count)
            })?;
            loaded(count);
        }
        worker.close()?;
        Ok(())
    }

    /// The table of a database that was loaded earlier.
    pub fn table(database: &Database) -> Result<Table, YcsbError> {
        Ok(database.table(TABLE)?)
    }

    /// Runs through the list of a partition, beginning at transaction number `position`.
    pub fn runner<'w>(&'w self, table: &'w Table, partition: u32, position: u64) -> Runner<'w> {
        let list = self.list(partition);
        Runner {
            list,
            at: (position % list.len() as u64) as usize,
            position,
            contents: &self.contents,
            table,
            partition,
            update_columns: self.options.update_columns as usize,
            row: table.row(),
            changes: table.changes(),
        }
    }

    /// Compares every row with what the transactions must have left. `done` has the number of transactions of each partition, or, after
    /// a kill, the range from those that were acknowledged to those that were begun: then a whole prefix of the list in that range is
    /// accepted, nothing else. Returns how many transactions the content shows, for each partition.
    pub fn check(
        &self,
        database: &Database,
        table: &Table,
        done: &[RangeInclusive<u64>],
    ) -> Result<Vec<u64>, YcsbError> {
        std::thread::scope(|threads| {
            let checkers: Vec<_> = (0_u32..)
                .zip(done)
                .map(|(partition, done)| {
                    threads.spawn(move || {
                        let found = self.read_windows(database, table, partition)?;
                        self.compare(partition, &found, done.clone())
                    })
                })
                .collect();
            checkers.into_iter().map(joined).collect()
        })
    }

    /// What the columns of a partition's rows hold, in the order of their keys; `None` where it is nothing that was ever
    /// written.
    fn read_windows(
        &self,
        database: &Database,
        table: &Table,
        partition: u32,
    ) -> Result<Vec<Option<Window>>, YcsbError> {
        let mut worker = database.worker(&[partition], Durability::Group)?;
        let known = self.contents.by_text();
        let mut row = table.row();
        let mut found = Vec::with_capacity(self.keys(partition).count() * COLUMNS);
        for key in self.keys(partition) {
            let get = worker.transaction(|t| t.get_into(table, i64::from(key), &mut row));
            if !get?.0 {
                return Err(YcsbError::Missing { key });
            }
            for column in 0..COLUMNS {
                found.push(
                    row.get(column + 1)
                        .as_str()
                        .and_then(|text| known.get(text).copied()),
                );
            }
        }
        Ok(found)
    }

    /// Finds the number of transactions in the range that leaves what was found.
    fn compare(
        &self,
        partition: u32,
        found: &[Option<Window>],
        done: RangeInclusive<u64>,
    ) -> Result<u64, YcsbError> {
        let (least, most) = done.into_inner();
        let mut expected = self.initial_windows(partition);
        self.apply(partition, least, &mut expected);
        let mut differences = expected
            .iter()
            .zip(found)
            .filter(|(expected, found)| Some(**expected) != **found)
            .count();
        let mut count = least;
        while differences > 0 && count < most {
            self.written(partition, count, |at, window| {
                differences -= usize::from(Some(expected[at]) != found[at]);
                differences += usize::from(Some(window) != found[at]);
                expected[at] = window;
            });
            count += 1;
        }
        if differences == 0 {
            return Ok(count);
        }
        let wrong = (0..found.len()).filter(|at| Some(expected[*at]) != found[*at]);
        let first = wrong.take(WRONG_MAX).map(|at| {
            let key = (at / COLUMNS) as u32 * self.options.partitions + partition;
            let expected = self.contents.window(expected[at]);
            let found = found[at].map_or("foreign text", |window| self.contents.window(window));
            difference(key, at % COLUMNS, found, expected)
        });
        Err(YcsbError::Wrong {
            count: differences as u64,
            first: first.collect(),
        })
    }

    /// What the columns of a partition's rows hold after loading, in the order of their keys.
    pub(super) fn initial_windows(&self, partition: u32) -> Vec<Window> {
        self.keys(partition)
            .flat_map(|key| (0..COLUMNS).map(move |column| (key, column)))
            .map(|(key, column)| self.contents.initial_window(key, column))
            .collect()
    }

    /// Rewrites what the columns hold as the first transactions of a partition's list do.
    pub(super) fn apply(&self, partition: u32, transactions: u64, windows: &mut [Window]) {
        let length = self.list(partition).len() as u64;
        // Earlier rounds over the list are overwritten by the last one.
        for position in transactions.saturating_sub(length)..transactions {
            self.written(partition, position, |at, window| windows[at] = window);
        }
    }

    /// Calls `write` for each column that a transaction writes, with its place among all columns of the partition.
    fn written(&self, partition: u32, position: u64, mut write: impl FnMut(usize, Window)) {
        let list = self.list(partition);
        let access = list[(position % list.len() as u64) as usize];
        let Action::Update(first) = access.action() else {
            return;
        };
        let row = (access.key / self.options.partitions) as usize;
        for step in 0..self.options.update_columns as usize {
            let column = (first + step) % COLUMNS;
            write(
                row * COLUMNS + column,
                self.contents.update_window(partition, position, column),
            );
        }
    }
}

/// One wrong value, in words.
pub(super) fn difference(key: u32, column: usize, found: &str, expected: &str) -> String {
    format!("key {key} field{column} is {found:.12} and must be {expected:.12}")
}

/// What a thread returned; its panic goes on here.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Runs the transactions of one partition, one after the other.
pub struct Runner<'w> {
    list: &'w [Access],
    at: usize,
    position: u64,
    contents: &'w Contents,
    table: &'w Table,
    partition: u32,
    update_columns: usize,
    row: Row,
    changes: Changes,
}

impl Script for Runner<'_> {
    const KINDS: usize = 1;

    #[inline]
    fn position(&self) -> u64 {
        self.position()
    }

    #[inline]
    fn kind(&self) -> usize {
        0
    }

    #[inline]
    fn step(&mut self, transaction: &mut Transaction<'_>) -> indelible::Result<()> {
        self.step(transaction)
    }

    /// The step has done it already.
    #[inline]
    fn next(&mut self) {}

    fn is_rollback(_: &Error) -> bool {
        false
    }
}

impl Runner<'_> {
    /// Transactions run so far, those of earlier runners included.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Runs the next transaction's statements; the caller commits. The list begins again at its end.
    #[inline]
    pub fn step(&mut self, transaction: &mut Transaction<'_>) -> Result<(), Error> {
        let access = self.list[self.at];
        let key = i64::from(access.key);
        let done = match access.action() {
            Action::Read => transaction.get_into(self.table, key, &mut self.row),
            Action::Update(first) => {
                self.changes.clear();
                for step in 0..self.update_columns {
                    let column = (first + step) % COLUMNS;
                    let value = self.contents.update(self.partition, self.position, column);
                    self.changes.set(column + 1, value)?;
                }
                transaction.update(self.table, key, &self.changes)
            }
        };
        #[expect(
            clippy::question_mark,
            reason = "`?` would copy a large error through memory where there is none"
        )]
        let found = match done {
            Ok(found) => found,
            Err(error) => return Err(error),
        };
        self.position += 1;
        self.at += 1;
        if self.at == self.list.len() {
            self.at = 0;
        }
        if found {
            Ok(())
        } else {
            Err(missing(access.key))
        }
    }
}

#[cold]
#[inline(never)]
fn missing(key: u32) -> Error {
    Error::rejected(YcsbError::Missing { key })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ycsb::{Mix, Skew};
    use indelible::{Method, Options};

    fn workload(partitions: u32) -> Ycsb {
        Ycsb::new(YcsbOptions {
            rows: 500,
            partitions,
            mix: Mix::Balanced,
            skew: Skew::High,
            update_columns: 3,
            transactions: 1000,
            seed: 5,
        })
        .unwrap()
    }

    /// A volatile database needs a directory all the same.
    fn database(name: &str, partitions: u32) -> (Database, std::path::PathBuf) {
        let path = std::env::temp_dir().join(format!("workload-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let options = Options::new()
            .method(Method::Volatile)
            .partitions(partitions);
        (Database::create(&path, &options).unwrap(), path)
    }

    #[test]
    fn the_final_content_follows_from_the_list() {
        let (database, path) = database("follows", 2);
        let workload = workload(2);
        let table = workload.load(&database, |_| ()).unwrap();
        workload.check(&database, &table, &[0..=0, 0..=0]).unwrap();
        // One partition runs beyond the end of its list.
        let done = [123_u64, 1300];
        for (partition, count) in (0_u32..).zip(done) {
            let mut worker = database
                .worker(&[partition], Durability::Immediate)
                .unwrap();
            let mut runner = workload.runner(&table, partition, 0);
            for _ in 0..count {
                worker
                    .transaction(|transaction| runner.step(transaction))
                    .unwrap();
            }
            assert_eq!(runner.position(), count);
        }
        let exact = done.map(|count| count..=count);
        workload.check(&database, &table, &exact).unwrap();
        let shown = workload
            .check(&database, &table, &[100..=140, 1290..=1310])
            .unwrap();
        // Reads leave no trace, so the shortest prefix that fits may be shorter than what was run.
        assert!(shown[0] <= 123 && shown[1] <= 1300);
        let wrong = workload.check(&database, &table, &[0..=20, 1300..=1300]);
        assert!(matches!(wrong, Err(YcsbError::Wrong { .. })), "{wrong:?}");
        drop(database);
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn impossible_options_are_named() {
        let options = YcsbOptions {
            rows: 0,
            ..YcsbOptions::default()
        };
        assert!(
            Ycsb::new(options)
                .unwrap_err()
                .to_string()
                .contains("`rows`")
        );
        let options = YcsbOptions {
            update_columns: 11,
            ..YcsbOptions::default()
        };
        assert!(
            Ycsb::new(options)
                .unwrap_err()
                .to_string()
                .contains("`update_columns`")
        );
    }
}
