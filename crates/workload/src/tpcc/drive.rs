//! A workload with its inputs made: loading, runners, and the check that what was acknowledged is there.
//!
//! The lists never change once they are made, so how many New-Orders and Payments a warehouse must show follows from a position in its
//! partition's list. After a kill the position is a range: some prefix of the list within it must fit, nothing else.

use super::conditions::{Checked, Violation, check_consistency};
use super::draw::{Constants, TextPool};
use super::list::{self, Input, List};
use super::population::Population;
use super::runner::{self, Runner};
use super::{Tables, TpccOptions, WAREHOUSES_MAX};
use indelible::{Database, Error};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::panic::resume_unwind;
use std::thread::ScopedJoinHandle;

/// What can go wrong in a run.
#[derive(Debug, thiserror::Error)]
pub enum TpccError {
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
    /// A row that every transaction may count on is not there: it was not loaded, or it was lost.
    #[error("the row {key} of table `{table}` is missing")]
    Missing {
        /// The table.
        table: &'static str,
        /// Its key.
        key: String,
    },
    /// Consistency conditions of clause 3.3.2 do not hold.
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
        "partition {partition}, warehouse {warehouse}: the content shows {found} {what}, and no prefix of the list has as many"
    )]
    Lost {
        /// The partition whose list it is.
        partition: u32,
        /// The warehouse.
        warehouse: i16,
        /// What was counted.
        what: &'static str,
        /// How many there are.
        found: u64,
    },
}

fn listed(violations: &[Violation]) -> String {
    let texts: Vec<String> = violations.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

/// A workload with its inputs made.
#[derive(Debug)]
pub struct Tpcc {
    options: TpccOptions,
    constants: Constants,
    pool: TextPool,
    names: Vec<String>,
    lists: Vec<List>,
}

impl Tpcc {
    /// Makes the list of inputs: about 60 bytes each in the standard mix.
    pub fn new(options: TpccOptions) -> Result<Self, TpccError> {
        let wrong = |option, problem: String| Err(TpccError::Option { option, problem });
        if options.partitions == 0 {
            return wrong("partitions", "use at least 1".into());
        }
        if !(options.partitions..=WAREHOUSES_MAX).contains(&options.warehouses) {
            let problem =
                format!("use at least one warehouse a partition and at most {WAREHOUSES_MAX}");
            return wrong("warehouses", problem);
        }
        if options.scale.items < 20 || options.scale.customers < 10 {
            let problem = "use at least 20 items, and 10 customers a district";
            return wrong("scale", problem.into());
        }
        let constants = Constants::new(options.seed);
        let count = options
            .transactions
            .div_ceil(options.partitions.into())
            .max(1);
        let lists = std::thread::scope(|threads| {
            let options = &options;
            let makers: Vec<_> = (0..options.partitions)
                .map(|partition| {
                    threads.spawn(move || list::generate(options, constants, partition, count))
                })
                .collect();
            makers.into_iter().map(joined).collect()
        });
        Ok(Self {
            constants,
            pool: TextPool::new(options.seed),
            names: runner::names(),
            lists,
            options,
        })
    }

    /// What is run.
    pub fn options(&self) -> &TpccOptions {
        &self.options
    }

    /// The constants of `NURand`.
    pub fn constants(&self) -> Constants {
        self.constants
    }

    /// The inputs of a partition.
    pub fn list(&self, partition: u32) -> &List {
        &self.lists[partition as usize]
    }

    /// The warehouses of a partition, in ascending order.
    pub fn warehouses(&self, partition: u32) -> impl Iterator<Item = i16> + use<> {
        list::warehouses(&self.options, partition)
    }

    /// All last names, by number.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Creates the tables and loads all rows, one thread a partition. `loaded` is called now and then with a number of new rows.
    pub fn load(
        &self,
        database: &Database,
        loaded: impl Fn(u64) + Sync,
    ) -> Result<Tables, TpccError> {
        let tables = Tables::create(database)?;
        let population = Population {
            options: &self.options,
            constants: self.constants,
            pool: &self.pool,
            tables: &tables,
        };
        population.load_items(database, &loaded)?;
        std::thread::scope(|threads| {
            let (population, loaded) = (&population, &loaded);
            let loaders: Vec<_> = (0..self.options.partitions)
                .map(|partition| {
                    threads.spawn(move || population.load_partition(database, partition, loaded))
                })
                .collect();
            loaders.into_iter().try_for_each(joined)
        })?;
        // What loading left in a log is not charged to the transactions that are measured.
        database.checkpoint()?;
        Ok(tables)
    }

    /// Runs through the list of a partition, beginning at transaction number `position`. The calling thread must not hold a
    /// transaction or a worker.
    pub fn runner<'w>(
        &'w self,
        database: &Database,
        tables: &'w Tables,
        partition: u32,
        position: u64,
    ) -> Result<Runner<'w>, TpccError> {
        Ok(Runner::new(self, database, tables, partition, position)?)
    }

    /// Checks the consistency conditions, and that the content shows as many New-Orders and Payments as the lists have up to some
    /// position: `done` has the number of transactions of each partition since loading, rollbacks included, or, after a kill, the range
    /// from those that were acknowledged to those that were begun.
    pub fn check(
        &self,
        database: &Database,
        done: &[RangeInclusive<u64>],
    ) -> Result<Checked, TpccError> {
        let checked = check_consistency(database)?.into_result()?;
        self.check_since(&Checked::default(), &checked, done)?;
        Ok(checked)
    }

    /// Checks that between two looks at the content the transactions of the lists, from their beginning up to a position within `done`,
    /// were run, and no others.
    pub fn check_since(
        &self,
        before: &Checked,
        after: &Checked,
        done: &[RangeInclusive<u64>],
    ) -> Result<(), TpccError> {
        for (partition, done) in (0..).zip(done) {
            let own: Vec<i16> = self.warehouses(partition).collect();
            let mut found = counts(after, &own);
            for (warehouse, earlier) in counts(before, &own) {
                let now = found.entry(warehouse).or_default();
                now.0 = now.0.saturating_sub(earlier.0);
                now.1 = now.1.saturating_sub(earlier.1);
            }
            self.check_progress(&found, partition, done.clone())?;
        }
        Ok(())
    }

    fn check_progress(
        &self,
        found: &Counts,
        partition: u32,
        done: RangeInclusive<u64>,
    ) -> Result<(), TpccError> {
        let list = self.list(partition);
        let (least, most) = done.into_inner();
        let mut expected: Counts = self
            .warehouses(partition)
            .map(|warehouse| (warehouse, (0, 0)))
            .collect();
        let inputs = list.inputs().iter().cycle().take(most as usize);
        for (position, input) in (0..).zip(inputs) {
            if position >= least && expected == *found {
                return Ok(());
            }
            let counts = expected.entry(input.warehouse()).or_default();
            match input {
                Input::NewOrder { .. } => counts.0 += u64::from(!list.rolls_back(*input)),
                Input::Payment { .. } => counts.1 += 1,
                _ => {}
            }
        }
        let differing = expected
            .iter()
            .find(|(warehouse, counts)| found.get(warehouse) != Some(counts));
        let Some((&warehouse, &counts)) = differing else {
            return Ok(());
        };
        let found = found.get(&warehouse).copied().unwrap_or_default();
        let (what, found) = if found.0 == counts.0 {
            ("payments", found.1)
        } else {
            ("new orders", found.0)
        };
        Err(TpccError::Lost {
            partition,
            warehouse,
            what,
            found,
        })
    }
}

/// New-Orders and Payments by warehouse.
type Counts = BTreeMap<i16, (u64, u64)>;

/// What was counted on some warehouses.
fn counts(checked: &Checked, warehouses: &[i16]) -> Counts {
    checked
        .warehouses
        .iter()
        .filter(|progress| warehouses.contains(&progress.warehouse))
        .map(|progress| (progress.warehouse, (progress.new_orders, progress.payments)))
        .collect()
}

/// What a thread returned; its panic goes on here.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
