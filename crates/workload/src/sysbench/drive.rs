//! sysbench with its statements made: loading, runners, and the check that acknowledged statements
//! are there.
//!
//! Every row after a prefix of its partition's list follows from the row before, so the check
//! compares all of them, whatever was run.

use super::conditions::{Checked, check_consistency};
use super::list::{self, Statement};
use super::runner::Runner;
use super::shared::Writers;
use super::state::{Expected, Rows};
use super::{RANGE_MAX, ROWS_MAX, SysbenchOptions, TABLES_MAX, Tables};
use crate::conditions::Findings;
use crate::loader::{self, Loaded};
use crate::prefix::{leads_there, run_lists};
use crate::standard::{Workload, WorkloadError};
use indelible::Database;
use std::ops::RangeInclusive;

/// A workload with its statements made.
#[derive(Debug)]
pub struct Sysbench {
    options: SysbenchOptions,
    lists: Vec<Vec<Statement>>,
}

impl Sysbench {
    /// Makes the lists, 16 bytes a statement.
    pub fn new(options: SysbenchOptions) -> Result<Self, WorkloadError> {
        let within = |option, value: u32, range: RangeInclusive<u32>| {
            if range.contains(&value) {
                return Ok(());
            }
            let problem = format!("use {} to {}", range.start(), range.end());
            Err(WorkloadError::option(option, problem))
        };
        within("partitions", options.partitions, 1..=i16::MAX as u32)?;
        within("threads", options.threads, 1..=u16::MAX.into())?;
        within("tables", options.tables.into(), 1..=TABLES_MAX.into())?;
        within("rows", options.rows, options.partitions..=ROWS_MAX)?;
        within("range-size", options.range_size, 1..=RANGE_MAX)?;
        let lists = loader::lists(options.lists(), options.transactions, |list, count| {
            list::generate(&options, list, count)
        });
        Ok(Self { options, lists })
    }

    /// The options of the run.
    pub fn options(&self) -> &SysbenchOptions {
        &self.options
    }

    /// The statements of a list.
    pub fn list(&self, list: u32) -> &[Statement] {
        &self.lists[list as usize]
    }

    /// Checks the conditions. Nobody may write meanwhile. The calling thread must not hold a
    /// transaction or a worker. A violation is no error of the check: see [`Checked::into_result`].
    pub fn check_consistency(&self, database: &Database) -> Result<Checked, WorkloadError> {
        check_consistency(&self.options, database)
    }

    /// Compares the rows that one thread has left with the result of its list.
    fn check_alone(
        &self,
        partition: u32,
        (before, after): (&[Rows], &[Rows]),
        (list, done): (u32, RangeInclusive<u64>),
    ) -> Result<(), WorkloadError> {
        let each = self.options.statements_each();
        let transactions: Vec<&[Statement]> = self.list(list).chunks(each).collect();
        let mut expected = Expected::new(&self.options, list, (before, after));
        let fits = |expected: &Expected<'_>| expected.differing == 0;
        let apply = |expected: &mut Expected<'_>, statements| expected.apply(statements);
        if leads_there(&mut expected, &transactions, done, fits, apply) {
            return Ok(());
        }
        for (table, (expected, found)) in (1..).zip(expected.tables.iter().zip(after)) {
            if let Some(id) = expected.differing(found).next() {
                let (expected, found) = (expected.get(id), found.get(id));
                let found = format!("{found:?} instead of {expected:?}");
                return Err(lost(partition, (table, id), found));
            }
        }
        Ok(())
    }

    /// Compares the rows that several threads have left with the possible results of their lists in
    /// some order.
    fn check_shared(
        &self,
        partition: u32,
        (before, after): (&[Rows], &[Rows]),
        done: &[(u32, RangeInclusive<u64>)],
    ) -> Result<(), WorkloadError> {
        let mut writers = Writers::new(&self.options, before);
        for (list, done) in done {
            let statements = *done.end() * self.options.statements_each() as u64;
            let list_again = self.list(*list).iter().cycle().copied();
            writers.add(*list, list_again.take(statements as usize));
        }
        match writers.wrong(after) {
            None => Ok(()),
            Some((table, id, found)) => {
                let before = before[usize::from(table)].get(id);
                let found = format!("{found:?}, where {before:?} was");
                Err(lost(partition, (table + 1, id), found))
            }
        }
    }
}

/// A row that no prefix of the lists leaves.
fn lost(partition: u32, (table, id): (u16, u32), found: String) -> WorkloadError {
    WorkloadError::Lost {
        partition,
        place: format!("row {id} of sbtest{table}"),
        found,
    }
}

impl Workload for Sysbench {
    const NAME: &'static str = "sysbench";
    type Tables = Tables;
    type Content = Checked;
    type Runner<'w> = Runner<'w>;

    fn partitions(&self) -> u32 {
        self.options.partitions
    }

    fn lists(&self) -> u32 {
        self.options.lists()
    }

    fn rows(&self) -> u64 {
        self.options.rows_of_all()
    }

    fn create(&self, database: &Database, _: Loaded<'_>) -> Result<Tables, WorkloadError> {
        Ok(Tables::create(database, &self.options)?)
    }

    fn load_partition(
        &self,
        database: &Database,
        tables: &Tables,
        partition: u32,
        loaded: Loaded<'_>,
    ) -> Result<(), WorkloadError> {
        Ok(tables.load(database, &self.options, partition, loaded)?)
    }

    fn tables(database: &Database) -> Result<Tables, WorkloadError> {
        Ok(Tables::open(database)?)
    }

    fn runner<'w>(
        &'w self,
        _: &Database,
        tables: &'w Tables,
        list: u32,
        position: u64,
    ) -> Result<Runner<'w>, WorkloadError> {
        Ok(Runner::new(self, tables, list, position))
    }

    fn loaded(&self) -> Checked {
        let partitions = (0..self.options.partitions)
            .map(|partition| Rows::all_loaded(&self.options, partition))
            .collect();
        Checked {
            findings: Findings::default(),
            partitions,
        }
    }

    fn look(&self, database: &Database) -> Result<Checked, WorkloadError> {
        self.check_consistency(database)?.into_result()
    }

    /// Compares every row.
    fn check_since(
        &self,
        before: &Checked,
        after: &Checked,
        done: &[RangeInclusive<u64>],
    ) -> Result<(), WorkloadError> {
        let pairs = before.partitions.iter().zip(&after.partitions);
        let lists = (self.options.partitions, self.options.lists());
        for (partition, (before, after)) in (0..).zip(pairs) {
            let mut known = run_lists(partition, lists, done);
            if known.len() > 1 {
                self.check_shared(partition, (before, after), &known)?;
            } else if let Some(known) = known.pop() {
                self.check_alone(partition, (before, after), known)?;
            }
        }
        Ok(())
    }
}
