//! TPC-C with its inputs made: loading, runners, and the check that acknowledged transactions are
//! there.
//!
//! The number of New-Orders and Payments that a warehouse must show follows from a position in its
//! list. The other transactions leave no count of their own, so only the conditions check them.

use super::conditions::{Checked, check_consistency};
use super::draw::{Constants, TextPool};
use super::list::{self, Input, List};
use super::population::Population;
use super::runner::{self, Runner};
use super::{Tables, TpccOptions, WAREHOUSES_MAX};
use crate::loader::{self, Loaded};
use crate::prefix::leads_there;
use crate::standard::{Workload, WorkloadError};
use indelible::Database;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

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
    pub fn new(options: TpccOptions) -> Result<Self, WorkloadError> {
        let wrong = |option, problem: String| Err(WorkloadError::option(option, problem));
        if options.partitions == 0 || options.threads == 0 {
            return wrong("partitions", "use at least 1".into());
        }
        if !(options.lists()..=WAREHOUSES_MAX).contains(&options.warehouses) {
            let problem =
                format!("use at least one warehouse a thread and at most {WAREHOUSES_MAX}");
            return wrong("warehouses", problem);
        }
        if options.scale.items < 20 || options.scale.customers < 10 {
            let problem = "use at least 20 items, and 10 customers a district";
            return wrong("scale", problem.into());
        }
        let constants = Constants::new(options.seed);
        let lists = loader::lists(options.lists(), options.transactions, |list, count| {
            list::generate(&options, constants, list, count)
        });
        Ok(Self {
            constants,
            pool: TextPool::new(options.seed),
            names: runner::names(),
            lists,
            options,
        })
    }

    /// The options of the run.
    pub fn options(&self) -> &TpccOptions {
        &self.options
    }

    /// The constants of `NURand`.
    pub fn constants(&self) -> Constants {
        self.constants
    }

    /// The inputs of a list.
    pub fn list(&self, list: u32) -> &List {
        &self.lists[list as usize]
    }

    /// The home warehouses of a list, in ascending order.
    pub fn warehouses(&self, list: u32) -> impl Iterator<Item = i16> + use<> {
        list::warehouses(&self.options, list)
    }

    /// All last names, by number.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    fn population<'p>(&'p self, tables: &'p Tables) -> Population<'p> {
        Population {
            options: &self.options,
            constants: self.constants,
            pool: &self.pool,
            tables,
        }
    }

    fn check_progress(
        &self,
        found: &Counts,
        list: u32,
        done: RangeInclusive<u64>,
    ) -> Result<(), WorkloadError> {
        let mut expected: Counts = self
            .warehouses(list)
            .map(|warehouse| (warehouse, (0, 0)))
            .collect();
        let partition = list % self.options.partitions;
        let list = self.list(list);
        let fits = |expected: &Counts| expected == found;
        let apply = |expected: &mut Counts, input: Input| {
            let counts = expected.entry(input.warehouse()).or_default();
            match input {
                Input::NewOrder { .. } => counts.0 += u64::from(!list.rolls_back(input)),
                Input::Payment { .. } => counts.1 += 1,
                _ => {}
            }
        };
        if leads_there(&mut expected, list.inputs(), done, fits, apply) {
            return Ok(());
        }
        let differing = expected
            .iter()
            .find(|(warehouse, counts)| found.get(warehouse) != Some(counts));
        let Some((&warehouse, &counts)) = differing else {
            return Ok(());
        };
        let found = found.get(&warehouse).copied().unwrap_or_default();
        let found = if found.0 == counts.0 {
            format!("{} payments", found.1)
        } else {
            format!("{} new orders", found.0)
        };
        Err(WorkloadError::Lost {
            partition,
            place: format!("warehouse {warehouse}"),
            found,
        })
    }
}

impl Workload for Tpcc {
    const NAME: &'static str = "tpcc";
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
        self.options.scale.rows(self.options.warehouses)
    }

    fn create(&self, database: &Database, loaded: Loaded<'_>) -> Result<Tables, WorkloadError> {
        let tables = Tables::create(database)?;
        self.population(&tables).load_items(database, loaded)?;
        Ok(tables)
    }

    fn load_partition(
        &self,
        database: &Database,
        tables: &Tables,
        partition: u32,
        loaded: Loaded<'_>,
    ) -> Result<(), WorkloadError> {
        let population = self.population(tables);
        Ok(population.load_partition(database, partition, loaded)?)
    }

    fn tables(database: &Database) -> Result<Tables, WorkloadError> {
        Ok(Tables::open(database)?)
    }

    fn runner<'w>(
        &'w self,
        database: &Database,
        tables: &'w Tables,
        list: u32,
        position: u64,
    ) -> Result<Runner<'w>, WorkloadError> {
        Ok(Runner::new(self, database, tables, list, position)?)
    }

    fn loaded(&self) -> Checked {
        Checked::default()
    }

    fn look(&self, database: &Database) -> Result<Checked, WorkloadError> {
        check_consistency(database)?.into_result()
    }

    /// Compares the numbers of New-Orders and Payments of each warehouse.
    fn check_since(
        &self,
        before: &Checked,
        after: &Checked,
        done: &[RangeInclusive<u64>],
    ) -> Result<(), WorkloadError> {
        for (list, done) in (0..).zip(done) {
            let own: Vec<i16> = self.warehouses(list).collect();
            let mut found = counts(after, &own);
            for (warehouse, earlier) in counts(before, &own) {
                let now = found.entry(warehouse).or_default();
                now.0 = now.0.saturating_sub(earlier.0);
                now.1 = now.1.saturating_sub(earlier.1);
            }
            self.check_progress(&found, list, done.clone())?;
        }
        Ok(())
    }
}

/// New-Orders and Payments by warehouse.
type Counts = BTreeMap<i16, (u64, u64)>;

/// The counts of some warehouses.
fn counts(checked: &Checked, warehouses: &[i16]) -> Counts {
    checked
        .warehouses
        .iter()
        .filter(|progress| warehouses.contains(&progress.warehouse))
        .map(|progress| (progress.warehouse, (progress.new_orders, progress.payments)))
        .collect()
}
