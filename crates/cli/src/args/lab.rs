//! Options of the lab.
//!
//! An experiment is named by paper and figure, `n-store/fig5`, or all of a paper by `n-store/all`
//! or `joins/all`. The size decides the duration, not the comparison.

use clap::{Args, Subcommand, ValueEnum};
use lab::prices::Prices;
use lab::variant::Variant;
use std::path::PathBuf;

/// `lab`.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the experiments with their subjects
    #[command(after_help = "Example:\n  indelible lab list")]
    List,
    /// Run experiments, add rows to a directory, and make its report
    #[command(after_help = "Examples:\n  indelible lab run n-store/fig5 --quick\n  \
                            indelible lab run n-store/all --full --out results\n  \
                            indelible lab run joins/all --quick\n  \
                            indelible lab run nv-logging/fig16 --quick --disk-price 0.7\n  \
                            indelible lab run fast-fash/all --quick --variants paper\n\n\
                            The directory gets rows.jsonl, rows.csv, verdicts.jsonl and report.html, a page that needs no network. A run that was \
                            interrupted goes on where it stopped: rows that are there with the same commit and the same \
                            configuration are not measured again.")]
    Run(LabRunArgs),
    /// Make the report again from the rows of a directory, of any commit
    #[command(after_help = "Example:\n  indelible lab report n-store/all --quick --out results")]
    Report(LabRunArgs),
    /// Measure the point of a row again, and say whether the two agree
    #[command(
        after_help = "Example:\n  indelible lab replay 4f1d --out docs/results/n-store\n\n\
                            Two measurements of a number agree if their 95 % intervals overlap. A row names its point by parameters, size, seed and variant; \
                            a version that measures something else under these says so."
    )]
    Replay(LabReplayArgs),
    /// List kept reports, with the number of later commits that change what they measure
    #[command(after_help = "Example:\n  indelible lab stale docs/results")]
    Stale {
        /// A directory whose directories have rows
        #[arg(default_value = "docs/results")]
        directory: PathBuf,
    },
    /// The process that is killed
    #[command(hide = true)]
    Victim(LabVictimArgs),
}

/// `lab run`, `lab report`.
#[derive(Debug, Args)]
pub(crate) struct LabRunArgs {
    /// Experiments, as `lab list` names them, or n-store/all, joins/all, nv-logging/all,
    /// nvram-era/all, nvm-dwb/all, fast-fash/all
    #[arg(required = true)]
    pub(crate) experiments: Vec<String>,
    #[command(flatten)]
    pub(crate) size: SizeArgs,
    /// Whose design of the methods is measured: as the papers describe it, or as the product has it
    #[arg(long, value_enum, value_delimiter = ',', default_value = "paper,ours")]
    pub(crate) variants: Vec<Variant>,
    /// Directory of rows and report
    #[arg(long, default_value = "indelible-lab")]
    pub(crate) out: PathBuf,
    /// Directory under which databases are made, and removed at the end; shared memory by default
    #[arg(long)]
    pub(crate) path: Option<PathBuf>,
    /// Seed of rows and transactions
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Measure in so many rounds, where that is more than the size has: for statements that are
    /// undecided
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: Option<u32>,
    /// Begin no more runs after this many minutes; the same command goes on where it has stopped
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) minutes: Option<u32>,
    /// Measure with a program that was built from uncommitted changes: nobody can build it again,
    /// so do not keep such rows
    #[arg(long)]
    pub(crate) allow_dirty: bool,
    #[command(flatten)]
    pub(crate) prices: Prices,
}

impl LabRunArgs {
    /// The variants, each once.
    pub(crate) fn variants(&self) -> Vec<Variant> {
        let mut variants: Vec<Variant> = Vec::new();
        for variant in &self.variants {
            if !variants.contains(variant) {
                variants.push(*variant);
            }
        }
        variants
    }
}

/// The size of data and runs.
#[derive(Debug, Args)]
pub(crate) struct SizeArgs {
    /// Minutes on two cores: small data, for databases with a cache as small; the default
    #[arg(long, conflicts_with_all = ["full", "smoke"])]
    pub(crate) quick: bool,
    /// The papers' data sizes, or as much of them as 16 GiB hold; hours
    #[arg(long, conflicts_with = "smoke")]
    pub(crate) full: bool,
    /// Seconds: shows that everything runs, measures nothing that means anything
    #[arg(long)]
    pub(crate) smoke: bool,
}

/// `lab replay`.
#[derive(Debug, Args)]
pub(crate) struct LabReplayArgs {
    /// The row's `config`, or its beginning
    pub(crate) row: String,
    /// Directory with its rows.jsonl
    #[arg(long, default_value = "indelible-lab")]
    pub(crate) out: PathBuf,
    /// Directory under which the database is made, and removed at the end; shared memory by default
    #[arg(long)]
    pub(crate) path: Option<PathBuf>,
}

/// The process that a recovery experiment kills.
#[derive(Debug, Args)]
pub(crate) struct LabVictimArgs {
    /// The database
    pub(crate) path: PathBuf,
    /// Workload to run in it
    #[arg(long, value_enum)]
    pub(crate) workload: LabWorkload,
    /// Transactions until it is killed, over all partitions
    #[arg(long)]
    pub(crate) txns: u64,
    /// Rows of YCSB
    #[arg(long)]
    pub(crate) rows: u32,
    /// Share of a full TPC-C warehouse
    #[arg(long)]
    pub(crate) scale: f64,
    /// Position in the list at which each partition begins
    #[arg(long)]
    pub(crate) first: u64,
    /// Seed of rows and transactions
    #[arg(long)]
    pub(crate) seed: u64,
}

/// A workload of the recovery experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LabWorkload {
    /// Updates of 1 KB rows
    Ycsb,
    /// The five transactions of TPC-C
    Tpcc,
}
