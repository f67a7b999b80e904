//! YCSB as N-Store runs it: one table of a key and ten columns of 100 bytes, reads of all columns,
//! updates of one.
//!
//! | choice | values |
//! |---|---|
//! | mix (reads/updates) | read-only 100/0, read-heavy 90/10, balanced 50/50, write-heavy 10/90 |
//! | skew | low: half of the accesses go to a fifth of the rows; high: nine tenths to a tenth |
//! | columns that an update rewrites | 1, as the paper says, to 10, as its published code does |
//!
//! Every transaction is one access to one row in one partition; partition = key modulo partitions.
//! Invariant: after a run, each column has the value of the last update in its partition's list, or
//! the loaded one ([`Ycsb::check`]). Where several threads share a partition, it is the last update
//! in the list of one of them.

mod contents;
mod drive;
mod list;
mod store;

pub use contents::Contents;
pub use drive::{Runner, Ycsb, YcsbError};
pub use list::{Access, Action};
pub use store::{Change, Expected, ROW_BYTES, Store, StoreRunner, WorkerStore};

use std::fmt;
use std::str::FromStr;

/// Columns beside the key.
pub const COLUMNS: usize = 10;
/// Bytes of each of them.
pub const COLUMN_BYTES: usize = 100;

/// Options of a run.
#[derive(Clone, Debug)]
pub struct YcsbOptions {
    /// Rows in the table.
    pub rows: u32,
    /// Partitions of the database.
    pub partitions: u32,
    /// Threads of a partition; each has a list of its own, and they share its rows.
    pub threads: u32,
    /// Reads and updates.
    pub mix: Mix,
    /// How unevenly rows are accessed.
    pub skew: Skew,
    /// Columns that an update rewrites, 1 to 10.
    pub update_columns: u32,
    /// Length of the list, over all partitions. A run that goes on beyond it begins again.
    pub transactions: u64,
    /// Seed of the list and of the contents.
    pub seed: u64,
}

impl Default for YcsbOptions {
    fn default() -> Self {
        Self {
            rows: 2_000_000,
            partitions: 1,
            threads: 1,
            mix: Mix::Balanced,
            skew: Skew::Low,
            update_columns: 1,
            transactions: 8_000_000,
            seed: 1,
        }
    }
}

impl YcsbOptions {
    /// Lists of all partitions: the one of number `n` works in partition `n` modulo partitions.
    pub fn lists(&self) -> u32 {
        self.partitions * self.threads
    }
}

/// Reads against updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Reads only.
    ReadOnly,
    /// Nine reads to one update.
    ReadHeavy,
    /// As many reads as updates.
    Balanced,
    /// One read to nine updates.
    WriteHeavy,
}

/// How unevenly rows are accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skew {
    /// Half of the accesses go to a fifth of the rows.
    Low,
    /// Nine tenths of the accesses go to a tenth of the rows.
    High,
}

impl Mix {
    /// All mixes, in the order of reports.
    pub const ALL: [Self; 4] = [
        Self::ReadOnly,
        Self::ReadHeavy,
        Self::Balanced,
        Self::WriteHeavy,
    ];

    /// The name by which a user selects it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::ReadHeavy => "read-heavy",
            Self::Balanced => "balanced",
            Self::WriteHeavy => "write-heavy",
        }
    }
}

impl Skew {
    /// Both skews.
    pub const ALL: [Self; 2] = [Self::Low, Self::High];

    /// The name by which a user selects it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::High => "high",
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Skew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|mix| mix.name() == name)
            .ok_or_else(|| {
                format!("unknown mix `{name}`; use read-only, read-heavy, balanced or write-heavy")
            })
    }
}

impl FromStr for Skew {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|skew| skew.name() == name);
        found.ok_or_else(|| format!("unknown skew `{name}`; use low or high"))
    }
}
