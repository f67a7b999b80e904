//! The OLTP scripts of sysbench 1.0: tables of four columns with an index, short reads, ranges and
//! changes, and skewed ids.
//!
//! | file | job |
//! |---|---|
//! | `schema` | tables, columns, the index of `k`, the initial rows |
//! | `digits` | the values of `c` and `pad` |
//! | `distribution` | how ids are drawn |
//! | `list` | the statements of each event, made before the clock starts, shared by all methods |
//! | `runner` | execution of the statements |
//! | `state` | a row in a few words, and the effect of statements on it |
//! | `shared` | check of the rows that several threads share |
//! | `conditions` | the conditions, and the words of all rows |
//! | `drive` | options to workload: making, loading, checking |
//!
//! With one partition the tables are sysbench's. With several each has a share of the ids of every
//! table, and a column `region` decides the partition, so that a range of ids lies in one; each
//! partition draws from its own share, as if it were a table of that size. Statements, their order
//! and the distributions follow the scripts `oltp_*.lua` and `sb_rand.c` of version 1.0.20, and
//! `zipfian`, which came later, those of the version after it; no code is taken from them.

mod conditions;
mod digits;
mod distribution;
mod drive;
mod list;
mod runner;
mod schema;
mod shared;
mod state;

pub use conditions::Checked;
pub use distribution::Distribution;
pub use drive::Sysbench;
pub use list::{Action, Statement};
pub use runner::{Answer, Runner, is_rollback};
pub use schema::{SbTest, Tables};

use std::str::FromStr;

/// Most tables.
pub const TABLES_MAX: u16 = 1024;
/// Most rows of a table: ids have four bytes, and inserted rows get the ids after these.
pub const ROWS_MAX: u32 = 1_000_000_000;
/// Largest range of ids that a statement reads.
pub const RANGE_MAX: u32 = 1_000_000;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct SysbenchOptions {
    /// Which script.
    pub script: OltpScript,
    /// Tables, `sbtest1` and so on.
    pub tables: u16,
    /// Rows of each table, at least one a partition.
    pub rows: u32,
    /// How ids are drawn.
    pub distribution: Distribution,
    /// Ids of a range.
    pub range_size: u32,
    /// The extent of a transaction.
    pub scope: Scope,
    /// Partitions of the database.
    pub partitions: u32,
    /// Threads of a partition; each has a list of its own, and they share its rows.
    pub threads: u32,
    /// Transactions of all lists together. A run that goes on beyond them begins again.
    pub transactions: u64,
    /// Seed of the rows and of the lists.
    pub seed: u64,
}

impl Default for SysbenchOptions {
    /// sysbench's own defaults.
    fn default() -> Self {
        Self {
            script: OltpScript::ReadWrite,
            tables: 1,
            rows: 10_000,
            distribution: Distribution::Special,
            range_size: 100,
            scope: Scope::Event,
            partitions: 1,
            threads: 1,
            transactions: 250_000,
            seed: 1,
        }
    }
}

impl SysbenchOptions {
    /// Initial rows of all tables.
    pub fn rows_of_all(&self) -> u64 {
        u64::from(self.tables) * u64::from(self.rows)
    }

    /// Statements of one transaction.
    pub fn statements_each(&self) -> usize {
        match self.scope {
            Scope::Event => self.script.actions().len(),
            Scope::Statement => 1,
        }
    }

    /// Lists of all partitions.
    pub(crate) fn lists(&self) -> u32 {
        self.partitions * self.threads
    }

    /// The ids of a partition in each table: the first, and their number.
    fn ids_of(&self, partition: u32) -> (u32, u32) {
        let before = |partition: u32| {
            u64::from(partition) * u64::from(self.rows) / u64::from(self.partitions)
        };
        let first = before(partition) as u32;
        (first + 1, before(partition + 1) as u32 - first)
    }

    /// The prefix of keys before the id: the partition, if there are several.
    fn region(&self, partition: u32) -> Option<i16> {
        (self.partitions > 1).then_some(partition as i16)
    }

    /// Whether every row that is loaded is there after any transaction.
    fn keeps_rows(&self) -> bool {
        let puts_back = self.script != OltpScript::Delete && self.scope == Scope::Event;
        puts_back || !self.script.actions().contains(&Action::Delete)
    }
}

/// The extent of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All statements of an event: they count together or not at all.
    Event,
    /// Each statement, as with `--skip-trx`: a delete and the insert that follows it are two
    /// transactions, and between them the row is away.
    Statement,
}

/// One of the scripts `oltp_*.lua`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OltpScript {
    /// Ten rows, four ranges, two updates, a delete and an insert.
    ReadWrite,
    /// The reads of `read-write`.
    ReadOnly,
    /// The changes of `read-write`.
    WriteOnly,
    /// One row.
    PointSelect,
    /// One row has a greater `k`.
    UpdateIndex,
    /// One row has another `c`.
    UpdateNonIndex,
    /// One new row.
    Insert,
    /// One row is deleted, if it is there.
    Delete,
}

impl OltpScript {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::ReadWrite,
        Self::ReadOnly,
        Self::WriteOnly,
        Self::PointSelect,
        Self::UpdateIndex,
        Self::UpdateNonIndex,
        Self::Insert,
        Self::Delete,
    ];

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadWrite => "read-write",
            Self::ReadOnly => "read-only",
            Self::WriteOnly => "write-only",
            Self::PointSelect => "point-select",
            Self::UpdateIndex => "update-index",
            Self::UpdateNonIndex => "update-non-index",
            Self::Insert => "insert",
            Self::Delete => "delete",
        }
    }

    /// The statements of an event, in their order.
    pub fn actions(self) -> &'static [Action] {
        match self {
            Self::ReadWrite => &READ_WRITE,
            Self::ReadOnly => &READ_WRITE[..READS],
            Self::WriteOnly => &READ_WRITE[READS..],
            Self::PointSelect => &[Action::PointSelect],
            Self::UpdateIndex => &[Action::UpdateIndex],
            Self::UpdateNonIndex => &[Action::UpdateNonIndex],
            Self::Insert => &[Action::Append],
            Self::Delete => &[Action::Delete],
        }
    }
}

/// Statements of an event that only read.
const READS: usize = 14;
/// The statements of `oltp_read_write.lua` with the numbers that it has by default.
const READ_WRITE: [Action; 18] = {
    let mut actions = [Action::PointSelect; 18];
    actions[10] = Action::SimpleRange;
    actions[11] = Action::SumRange;
    actions[12] = Action::OrderRange;
    actions[13] = Action::DistinctRange;
    actions[14] = Action::UpdateIndex;
    actions[15] = Action::UpdateNonIndex;
    actions[16] = Action::Delete;
    actions[17] = Action::Insert;
    actions
};

impl FromStr for OltpScript {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|script| script.name() == name);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("unknown script `{name}`; use one of {names}")
        })
    }
}

#[cfg(test)]
mod tests;
