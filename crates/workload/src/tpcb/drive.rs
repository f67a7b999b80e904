//! TPC-B with its inputs made: loading, runners, and the check that acknowledged transactions are
//! there.
//!
//! The number of transactions that the history of a branch shows, and their sum, follow from a
//! position in each of its partition's lists, in whichever order threads have run them.

use super::conditions::{BranchProgress, Checked, check_consistency};
use super::list::{self, Input};
use super::runner::Runner;
use super::{BRANCHES_MAX, Tables, TpcbOptions};
use crate::loader::{self, Loaded};
use crate::prefix::{leads_there, run_lists};
use crate::standard::{Workload, WorkloadError};
use indelible::Database;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// A workload with its inputs made.
#[derive(Debug)]
pub struct Tpcb {
    options: TpcbOptions,
    lists: Vec<Vec<Input>>,
}

impl Tpcb {
    /// Makes the list of inputs, 20 bytes each.
    pub fn new(options: TpcbOptions) -> Result<Self, WorkloadError> {
        if options.partitions == 0 || options.threads == 0 {
            return Err(WorkloadError::option("partitions", "use at least 1"));
        }
        if !(options.partitions..=BRANCHES_MAX).contains(&options.branches) {
            let problem = format!("use at least one branch a partition and at most {BRANCHES_MAX}");
            return Err(WorkloadError::option("branches", problem));
        }
        if !(1..=super::ACCOUNTS).contains(&options.accounts) {
            let problem = format!("use 1 to {} accounts a branch", super::ACCOUNTS);
            return Err(WorkloadError::option("accounts", problem));
        }
        let lists = loader::lists(options.lists(), options.transactions, |list, count| {
            list::generate(&options, list, count)
        });
        Ok(Self { options, lists })
    }

    /// The options of the run.
    pub fn options(&self) -> &TpcbOptions {
        &self.options
    }

    /// The inputs of a list.
    pub fn list(&self, list: u32) -> &[Input] {
        &self.lists[list as usize]
    }
}

/// Transactions by branch.
type Progress = BTreeMap<i32, BranchProgress>;

impl Workload for Tpcb {
    const NAME: &'static str = "tpcb";
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
        self.options.rows()
    }

    fn create(&self, database: &Database, _: Loaded<'_>) -> Result<Tables, WorkloadError> {
        Ok(Tables::create(database)?)
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

    /// Compares the number of transactions of each branch and the sum of their amounts.
    fn check_since(
        &self,
        before: &Checked,
        after: &Checked,
        done: &[RangeInclusive<u64>],
    ) -> Result<(), WorkloadError> {
        for partition in 0..self.options.partitions {
            let of_branch = |checked: &Checked, branch| {
                checked.branches.get(&branch).copied().unwrap_or_default()
            };
            let found: Progress = self
                .options
                .branches_of(partition)
                .map(|branch| {
                    let (earlier, now) = (of_branch(before, branch), of_branch(after, branch));
                    let progress = BranchProgress {
                        transactions: now.transactions.saturating_sub(earlier.transactions),
                        amount: now.amount.wrapping_sub(earlier.amount),
                    };
                    (branch, progress)
                })
                .collect();
            self.check_progress(&found, partition, done)?;
        }
        Ok(())
    }
}

impl Tpcb {
    fn check_progress(
        &self,
        found: &Progress,
        partition: u32,
        done: &[RangeInclusive<u64>],
    ) -> Result<(), WorkloadError> {
        let lists = (self.options.partitions, self.options.lists());
        let mut known = run_lists(partition, lists, done);
        let Some((last, done)) = known.pop() else {
            return Ok(());
        };
        let branches = self.options.branches_of(partition);
        let mut expected: Progress = branches
            .map(|branch| (branch, BranchProgress::default()))
            .collect();
        let fits = |expected: &Progress| expected == found;
        let apply = |expected: &mut Progress, input: Input| {
            let progress = expected.entry(input.branch).or_default();
            progress.transactions += 1;
            progress.amount += i64::from(input.delta);
        };
        for (list, done) in known {
            leads_there(&mut expected, self.list(list), done, |_| false, apply);
        }
        if leads_there(&mut expected, self.list(last), done, fits, apply) {
            return Ok(());
        }
        let differing = found
            .iter()
            .find(|(branch, progress)| expected.get(branch) != Some(progress));
        let Some((branch, progress)) = differing else {
            return Ok(());
        };
        Err(WorkloadError::Lost {
            partition,
            place: format!("branch {branch}"),
            found: format!(
                "{} transactions with a sum of {}",
                progress.transactions, progress.amount
            ),
        })
    }
}
