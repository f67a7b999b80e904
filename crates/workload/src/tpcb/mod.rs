//! TPC-B: branches, tellers, accounts and a history, one transaction, and conditions that tie them
//! together.
//!
//! | file | job |
//! |---|---|
//! | `schema` | tables and columns, the initial rows |
//! | `list` | the inputs, made before the clock starts and shared by all methods |
//! | `runner` | the transaction of clause 1.2 |
//! | `onlookers` | connections beside the runners: an idle writer, a long reader |
//! | `conditions` | the conditions, and how many transactions the content shows |
//! | `drive` | options to workload: making, loading, checking |
//!
//! A branch with its tellers, accounts and history lies in the partition
//! `branch modulo partitions`. A teller serves a customer of another branch in 15 of a hundred
//! transactions (clause 5.3.5); where that branch lies in another partition, the transaction is one
//! of two partitions, unless [`TpcbOptions::single_partition`] keeps it within one.

mod conditions;
mod drive;
mod list;
mod onlookers;
mod runner;
mod schema;

pub use conditions::{BranchProgress, Checked, check_consistency};
pub use drive::Tpcb;
pub use list::Input;
pub use runner::Runner;
pub use schema::Tables;

/// Tellers of a branch (clause 4.2).
pub const TELLERS: i32 = 10;
/// Accounts of a branch (clause 4.2).
pub const ACCOUNTS: u32 = 100_000;
/// Most branches: the numbers of their accounts have four bytes.
pub const BRANCHES_MAX: u32 = 20_000;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct TpcbOptions {
    /// Branches, at least as many as partitions.
    pub branches: u32,
    /// Partitions of the database.
    pub partitions: u32,
    /// Threads of a partition; each has a list of its own, and they share its branches.
    pub threads: u32,
    /// Accounts of a branch. Only [`ACCOUNTS`] is TPC-B; fewer are for tests.
    pub accounts: u32,
    /// Whether every transaction stays within its partition.
    pub single_partition: bool,
    /// Length of the list, over all partitions. A run that goes on beyond it begins again.
    pub transactions: u64,
    /// Seed of the list.
    pub seed: u64,
}

impl Default for TpcbOptions {
    fn default() -> Self {
        Self {
            branches: 8,
            partitions: 1,
            threads: 1,
            accounts: ACCOUNTS,
            single_partition: false,
            transactions: 1_000_000,
            seed: 1,
        }
    }
}

impl TpcbOptions {
    /// Initial rows of all tables.
    pub fn rows(&self) -> u64 {
        u64::from(self.branches)
            * (1 + u64::from(TELLERS.unsigned_abs()) + u64::from(self.accounts))
    }

    /// Lists of all partitions.
    pub(crate) fn lists(&self) -> u32 {
        self.partitions * self.threads
    }

    /// The branches of a partition, in ascending order.
    fn branches_of(&self, partition: u32) -> impl Iterator<Item = i32> + use<> {
        let partitions = self.partitions;
        (1..=self.branches)
            .filter(move |branch| branch % partitions == partition)
            .map(u32::cast_signed)
    }

    /// The tellers of a branch: numbered over all branches, as the specification wants it.
    fn tellers_of(branch: i32) -> std::ops::RangeInclusive<i32> {
        (branch - 1) * TELLERS + 1..=branch * TELLERS
    }

    /// The accounts of a branch, numbered over all branches.
    fn accounts_of(&self, branch: i32) -> std::ops::RangeInclusive<i32> {
        let accounts = self.accounts.cast_signed();
        (branch - 1) * accounts + 1..=branch * accounts
    }
}

#[cfg(test)]
mod tests;
