//! YCSB on a database: making and loading the table, running the list, and the content check.
//!
//! The timed part is [`Runner::step`]. It allocates nothing, reuses one row and one set of changes,
//! and reads the list and the pool of contents only, so that the database's time is measured.

use super::contents::{Contents, Window};
use super::list::{Access, Action, generate};
use super::{COLUMN_BYTES, COLUMNS, YcsbOptions};
use crate::loader::{Loaded, lists, on_each};
use crate::prefix::run_lists;
use crate::script::Script;
use indelible::{
    Changes, DataType, Database, Durability, Error, Partitioning, Row, Table, Transaction, Worker,
};
use std::ops::RangeInclusive;

/// The table's name.
const TABLE: &str = "usertable";
/// Rows that are loaded in one transaction.
const LOAD_BATCH: u64 = 256;
/// Wrong values that the check lists; more of the same say nothing new.
pub(super) const WRONG_MAX: usize = 10;

/// An error of a run.
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
        /// The fault, and the value to use instead.
        problem: String,
    },
    /// A row of the list is not in the table: it was not loaded, or it was lost.
    #[error("the row with key {key} is missing")]
    Missing {
        /// Its primary key.
        key: u32,
    },
    /// The content at the end differs from the result of the transactions.
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
        if options.lists() == 0 {
            return wrong("partitions", "use at least 1");
        }
        if !(1..=COLUMNS as u32).contains(&options.update_columns) {
            return wrong("update_columns", "use 1 to 10");
        }
        let contents = Contents::new(options.seed);
        let lists = lists(options.lists(), options.transactions, |list, count| {
            generate(&options, list, count)
        });
        Ok(Self {
            options,
            contents,
            lists,
        })
    }

    /// The options of the run.
    pub fn options(&self) -> &YcsbOptions {
        &self.options
    }

    /// The values of the columns.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// The transactions of a list.
    pub fn list(&self, list: u32) -> &[Access] {
        &self.lists[list as usize]
    }

    /// Keys of a partition, in ascending order.
    pub fn keys(&self, partition: u32) -> impl Iterator<Item = u32> + use<> {
        (partition..self.options.rows).step_by(self.options.partitions as usize)
    }

    /// Creates the table and loads all rows, one thread a partition. `loaded` is called now and
    /// then with a number of new rows.
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
        on_each(self.options.partitions, |partition| {
            self.load_partition(database, &table, partition, &loaded)
        })?;
        // Log records of loading are not charged to the transactions that are measured.
        database.checkpoint()?;
        Ok(table)
    }

    fn load_partition(
        &self,
        database: &Database,
        table: &Table,
        partition: u32,
        loaded: Loaded<'_>,
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

    /// Runs through a list, beginning at transaction number `position`.
    pub fn runner<'w>(&'w self, table: &'w Table, list: u32, position: u64) -> Runner<'w> {
        let accesses = self.list(list);
        Runner {
            accesses,
            at: (position % accesses.len() as u64) as usize,
            position,
            contents: &self.contents,
            table,
            list,
            update_columns: self.options.update_columns as usize,
            row: table.row(),
            changes: table.changes(),
            announced_ahead: None,
        }
    }

    /// Compares every row with the result of the transactions. `done` has the number of
    /// transactions of each list, or, after a kill, the range from the acknowledged to the begun
    /// ones: then a whole prefix of the list in that range is accepted, nothing else. Where threads
    /// share a partition, a column has the last update of one of them; their numbers must be exact
    /// for that. Returns how many transactions the content shows, for each list.
    pub fn check(
        &self,
        database: &Database,
        table: &Table,
        done: &[RangeInclusive<u64>],
    ) -> Result<Vec<u64>, YcsbError> {
        let lists = (self.options.partitions, self.options.lists());
        let shown = on_each(self.options.partitions, |partition| {
            let mut known = run_lists(partition, lists, done);
            if known.len() > 1 {
                let found = self.read_windows(database, table, partition)?;
                self.compare_shared(partition, &found, &known)?;
                return Ok(known);
            }
            for (list, done) in &mut known {
                let found = self.read_windows(database, table, partition)?;
                let shown = self.compare(*list, &found, done.clone())?;
                *done = shown..=shown;
            }
            Ok::<_, YcsbError>(known)
        })?;
        let mut counts = vec![0; done.len()];
        for (list, shown) in shown.into_iter().flatten() {
            counts[list as usize] = *shown.end();
        }
        Ok(counts)
    }

    /// Compares each column with the last write of each of several lists, or with its loaded value
    /// where none of them wrote.
    fn compare_shared(
        &self,
        partition: u32,
        found: &[Option<Window>],
        done: &[(u32, RangeInclusive<u64>)],
    ) -> Result<(), YcsbError> {
        let mut expected = self.initial_windows(partition);
        let mut is_written = vec![false; found.len()];
        for (list, done) in done {
            let mut last = vec![None; found.len()];
            self.apply(*list, *done.end(), |at, window| last[at] = Some(window));
            for (at, window) in last.into_iter().enumerate() {
                let Some(window) = window else { continue };
                let is_first = !std::mem::replace(&mut is_written[at], true);
                if is_first || Some(expected[at]) != found[at] {
                    expected[at] = window;
                }
            }
        }
        self.compare_all(partition, &expected, found)
    }

    /// Fails where something else is found than is expected.
    fn compare_all(
        &self,
        partition: u32,
        expected: &[Window],
        found: &[Option<Window>],
    ) -> Result<(), YcsbError> {
        let mut wrong = (0..found.len()).filter(|at| Some(expected[*at]) != found[*at]);
        let first: Vec<String> = wrong
            .by_ref()
            .take(WRONG_MAX)
            .map(|at| {
                let key = (at / COLUMNS) as u32 * self.options.partitions + partition;
                let expected = self.contents.window(expected[at]);
                let found = found[at].map_or("foreign text", |window| self.contents.window(window));
                difference(key, at % COLUMNS, found, expected)
            })
            .collect();
        if first.is_empty() {
            return Ok(());
        }
        Err(YcsbError::Wrong {
            count: (first.len() + wrong.count()) as u64,
            first,
        })
    }

    /// The values in the columns of a partition's rows, in the order of their keys; `None` for a
    /// value that was never written.
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

    /// Finds the number of transactions in the range that leaves these values.
    fn compare(
        &self,
        list: u32,
        found: &[Option<Window>],
        done: RangeInclusive<u64>,
    ) -> Result<u64, YcsbError> {
        let (least, most) = done.into_inner();
        let partition = list % self.options.partitions;
        let mut expected = self.initial_windows(partition);
        self.apply(list, least, |at, window| expected[at] = window);
        let mut differences = expected
            .iter()
            .zip(found)
            .filter(|(expected, found)| Some(**expected) != **found)
            .count();
        let mut count = least;
        while differences > 0 && count < most {
            self.written(list, count, |at, window| {
                differences -= usize::from(Some(expected[at]) != found[at]);
                differences += usize::from(Some(window) != found[at]);
                expected[at] = window;
            });
            count += 1;
        }
        self.compare_all(partition, &expected, found)?;
        Ok(count)
    }

    /// The values in the columns of a partition's rows after loading, in the order of their keys.
    pub(super) fn initial_windows(&self, partition: u32) -> Vec<Window> {
        self.keys(partition)
            .flat_map(|key| (0..COLUMNS).map(move |column| (key, column)))
            .map(|(key, column)| self.contents.initial_window(key, column))
            .collect()
    }

    /// Calls `write` as the first transactions of a list write columns, leaving out writes that
    /// later rounds over the list overwrite.
    pub(super) fn apply(&self, list: u32, transactions: u64, mut write: impl FnMut(usize, Window)) {
        let length = self.list(list).len() as u64;
        for position in transactions.saturating_sub(length)..transactions {
            self.written(list, position, &mut write);
        }
    }

    /// Calls `write` for each column that a transaction writes, with its place among all columns of
    /// the partition.
    fn written(&self, list: u32, position: u64, mut write: impl FnMut(usize, Window)) {
        let accesses = self.list(list);
        let access = accesses[(position % accesses.len() as u64) as usize];
        let Action::Update(first) = access.action() else {
            return;
        };
        let row = (access.key / self.options.partitions) as usize;
        for step in 0..self.options.update_columns as usize {
            let column = (first + step) % COLUMNS;
            write(
                row * COLUMNS + column,
                self.contents.update_window(list, position, column),
            );
        }
    }
}

/// One wrong value, in words.
pub(super) fn difference(key: u32, column: usize, found: &str, expected: &str) -> String {
    format!("key {key} field{column} is {found:.12} and must be {expected:.12}")
}

/// Runs the transactions of one list, one after the other.
pub struct Runner<'w> {
    accesses: &'w [Access],
    at: usize,
    position: u64,
    contents: &'w Contents,
    table: &'w Table,
    list: u32,
    update_columns: usize,
    row: Row,
    changes: Changes,
    /// Which of the transactions after the next one has its row announced.
    announced_ahead: Option<u32>,
}

impl Runner<'_> {
    /// Announces rows so many transactions ahead.
    #[must_use]
    pub fn announcing(self, announced_ahead: Option<u32>) -> Self {
        Self {
            announced_ahead,
            ..self
        }
    }
}

impl Script for Runner<'_> {
    const KINDS: usize = 1;

    #[inline]
    fn position(&self) -> u64 {
        self.position
    }

    #[inline]
    fn kind(&self) -> usize {
        0
    }

    #[inline]
    fn step(&mut self, transaction: &mut Transaction<'_>) -> indelible::Result<()> {
        let access = self.accesses[self.at];
        let key = i64::from(access.key);
        let done = match access.action() {
            Action::Read => transaction.get_into(self.table, key, &mut self.row),
            Action::Update(first) => {
                self.changes.clear();
                for step in 0..self.update_columns {
                    let column = (first + step) % COLUMNS;
                    let value = self.contents.update(self.list, self.position, column);
                    self.changes.set(column + 1, value)?;
                }
                transaction.update(self.table, key, &self.changes)
            }
        };
        if done? {
            Ok(())
        } else {
            Err(missing(access.key))
        }
    }

    #[inline]
    fn announce(&self, worker: &mut Worker<'_>) -> indelible::Result<()> {
        let Some(ahead) = self.announced_ahead else {
            return Ok(());
        };
        let mut at = self.at + ahead as usize;
        if at >= self.accesses.len() {
            at %= self.accesses.len();
        }
        worker.announce(self.table, i64::from(self.accesses[at].key))
    }

    #[inline]
    fn next(&mut self) {
        self.position += 1;
        self.at += 1;
        if self.at == self.accesses.len() {
            self.at = 0;
        }
    }

    fn is_rollback(_: &Error) -> bool {
        false
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
    use crate::testing::TestDatabase;
    use crate::ycsb::{Mix, Skew};
    use indelible::{Method, Options};

    fn workload(partitions: u32) -> Ycsb {
        Ycsb::new(YcsbOptions {
            rows: 500,
            partitions,
            threads: 1,
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
                runner.next();
            }
            assert_eq!(runner.position(), count);
        }
        let exact = done.map(|count| count..=count);
        workload.check(&database, &table, &exact).unwrap();
        let shown = workload
            .check(&database, &table, &[100..=140, 1290..=1310])
            .unwrap();
        // Reads leave no trace, so the shortest prefix that fits may be shorter than the one that
        // was run.
        assert!(shown[0] <= 123 && shown[1] <= 1300);
        let wrong = workload.check(&database, &table, &[0..=20, 1300..=1300]);
        assert!(matches!(wrong, Err(YcsbError::Wrong { .. })), "{wrong:?}");
        drop(database);
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn threads_that_share_rows_leave_the_last_update_of_one_of_them() {
        let place = TestDatabase::shared("ycsb-shared", 3);
        let workload = Ycsb::new(YcsbOptions {
            rows: 40,
            threads: 3,
            ..workload(1).options
        })
        .unwrap();
        let table = workload.load(place.database(), |_| ()).unwrap();
        std::thread::scope(|threads| {
            for list in 0..3 {
                let (place, workload, table) = (&place, &workload, &table);
                threads.spawn(move || {
                    let mut runner = workload.runner(table, list, 0);
                    for _ in 0..500 {
                        place.database().transaction(|t| runner.step(t)).unwrap();
                        runner.next();
                    }
                });
            }
        });
        let done = [500..=500, 500..=500, 500..=500];
        let check = |done: &[_]| workload.check(place.database(), &table, done);
        assert_eq!(check(&done).unwrap(), [500, 500, 500]);
        let wrong = check(&[500..=500, 300..=300, 500..=500]);
        assert!(matches!(wrong, Err(YcsbError::Wrong { .. })), "{wrong:?}");
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
