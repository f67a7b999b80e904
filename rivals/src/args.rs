//! The command line: that of `indelible bench ycsb` with rivals beside methods, and that of
//! `indelible bench join` with engines.
//!
//! Options have the names and the meaning that they have there. What is asked for runs one after
//! the other in one process, so that ratios are taken under the same conditions.

use crate::join::Engine;
use crate::kind::Kind;
use clap::{Args, Parser, Subcommand, ValueEnum};
use indelible::{Method, Primitive};
use join::{Algorithm, Kernel};
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use workload::ycsb::{Mix, Skew};

/// Measures other embedded databases, and the joins of other engines, with what `indelible bench`
/// runs
#[derive(Debug, Parser)]
#[command(name = "rivals", version)]
pub(crate) struct CommandLine {
    /// How rows are printed
    #[arg(long, value_enum, global = true, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people
    Text,
    /// One JSON object a line, with the keys of `indelible bench ycsb` and a few more
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Measure a workload
    #[command(subcommand)]
    Bench(BenchCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// One table of 1 KB rows; reads of all columns, updates of one
    #[command(
        after_help = "Examples:\n  rivals bench ycsb --method nvm-inp --rival lmdb-writemap,sqlite --databases 1,2 --mix all \
                            --rows 2000000 --partitions 2 --seconds 3 --primitives process\n  \
                            rivals bench ycsb --rival all --mix balanced --rows 100000 --partitions 2 --seconds 2 --format json\n\n\
                            The setting of each rival is in its rows and, with reasons, in docs/rivals.md."
    )]
    Ycsb(Box<YcsbArgs>),
    /// Rows of one size into one table, keys in random order, one a transaction; methods of ours,
    /// and SQLite by its journals
    #[command(
        after_help = "Examples:\n  rivals bench btree-insert --method fast,fash,nvwal --record 64,256,1024 --rows 1000000 --primitives flush"
    )]
    BtreeInsert(Box<BtreeArgs>),
    /// Count and sums over R JOIN S: our join, and those of engines that Python packages bring, in
    /// turns on the same columns
    #[command(
        after_help = "Examples:\n  pip install duckdb datafusion polars pyarrow numpy\n  \
                            rivals bench join --engine indelible,datafusion,duckdb --r 16000000 --s 16000000 --threads 2 --sparse\n  \
                            rivals bench join --engine all --r 1000000 --s 16000000 --zipf 1.25 --match 0.1 --format json\n\n\
                            The first round is cold and does not count in the table. docs/rivals.md says what is compared."
    )]
    Join(Box<JoinArgs>),
}

/// `bench ycsb`.
#[derive(Clone, Debug, Args)]
pub(crate) struct YcsbArgs {
    /// Rivals, separated by commas, or all
    #[arg(long, value_parser = parse_rivals, required_unless_present = "method")]
    pub(crate) rival: Option<std::vec::Vec<Kind>>,
    /// Methods of ours to run first, separated by commas, for example nvm-inp; each transaction is
    /// made durable on its own
    #[arg(long, value_delimiter = ',')]
    pub(crate) method: Vec<Method>,
    /// Databases that a rival is divided into, separated by commas: 1, or one a partition
    #[arg(long, value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) databases: Vec<u32>,
    /// Mixes, separated by commas: read-only, read-heavy, balanced, write-heavy; or all. They
    /// follow each other on one database
    #[arg(long, default_value = "balanced", value_parser = parse_mixes)]
    pub(crate) mix: std::vec::Vec<Mix>,
    /// How unevenly rows are accessed: low (half of the accesses to a fifth of the rows) or high
    #[arg(long, default_value = "low")]
    pub(crate) skew: Skew,
    /// Rows of a kilobyte
    #[arg(long, default_value_t = 2_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rows: u32,
    /// Columns that an update rewrites
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10))]
    pub(crate) update_columns: u32,
    /// Partitions of the rows, each with a thread of its own
    #[arg(long, visible_alias = "threads", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) partitions: u32,
    /// How long to run each mix
    #[arg(long, value_parser = parse_seconds, conflicts_with = "txns")]
    pub(crate) seconds: Option<f64>,
    /// How many transactions to run in each mix, over all partitions
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) txns: Option<u64>,
    /// Instructions that methods of ours issue: process, flush-free or flush; by default those of
    /// the medium
    #[arg(long, value_parser = parse_primitive)]
    pub(crate) primitives: Option<Primitive>,
    /// Directory under which databases are made, and removed at the end; shared memory by default
    #[arg(long)]
    pub(crate) path: Option<PathBuf>,
    /// Seed of the rows and of the transactions
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Rounds over all runs
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    /// Do not compare the content with the list, neither after loading nor at the end; caches then
    /// start cold
    #[arg(long)]
    pub(crate) skip_check: bool,
}

/// `bench btree-insert`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BtreeArgs {
    /// Methods of ours to run first, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "fast,fash,nvwal")]
    pub(crate) method: Vec<Method>,
    /// Journal modes of SQLite, separated by commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "wal,truncate,off"
    )]
    pub(crate) journal: Vec<Journal>,
    /// Bytes of a row, separated by commas; 8 of them are the key
    #[arg(long, value_delimiter = ',', default_value = "64", value_parser = clap::value_parser!(u32).range(8..=4096))]
    pub(crate) record: Vec<u32>,
    /// Rows that are inserted
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rows: u64,
    /// Instructions that methods of ours issue: process, flush-free or flush; by default those of
    /// the medium
    #[arg(long, value_parser = parse_primitive)]
    pub(crate) primitives: Option<Primitive>,
    /// Directory under which databases are made, and removed at the end; shared memory by default
    #[arg(long)]
    pub(crate) path: Option<PathBuf>,
    /// Seed of the keys
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Rounds over all runs
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
}

/// How SQLite rolls back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Journal {
    /// A write-ahead log, synced at each commit
    Wal,
    /// A journal of old pages, cut to nothing at each commit, with all its syncs
    Truncate,
    /// None: nothing is rolled back or synced
    Off,
}

impl Journal {
    /// The name that SQLite has for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Wal => "WAL",
            Self::Truncate => "TRUNCATE",
            Self::Off => "OFF",
        }
    }
}

/// `bench join`.
#[derive(Clone, Debug, Args)]
pub(crate) struct JoinArgs {
    /// Engines, separated by commas, or all; the table has the first one's speed as a multiple of
    /// the others'
    #[arg(long, default_value = "indelible,datafusion,duckdb", value_parser = parse_engines)]
    pub(crate) engine: std::vec::Vec<Engine>,
    /// Tuples of R
    #[arg(long, default_value_t = 16_000_000, value_parser = parse_tuples)]
    pub(crate) r: usize,
    /// Tuples of S
    #[arg(long, default_value_t = 16_000_000, value_parser = parse_tuples)]
    pub(crate) s: usize,
    /// Threads of each engine
    #[arg(long, default_value_t = 2, value_parser = parse_threads)]
    pub(crate) threads: usize,
    /// Bytes of a tuple: 8 (4-byte keys and payloads) or 16
    #[arg(long, default_value_t = 8, value_parser = parse_tuple_bytes)]
    pub(crate) tuple: usize,
    /// Spread the keys over half of their range; else they are the numbers from 1 on
    #[arg(long)]
    pub(crate) sparse: bool,
    /// Exponent of the Zipf distribution of S over the keys of R; 0 is uniform
    #[arg(long, default_value_t = 0.0, value_parser = parse_zipf)]
    pub(crate) zipf: f64,
    /// Part of S that has partners, from 0 to 1
    #[arg(long = "match", value_name = "PART", default_value_t = 1.0, value_parser = parse_part)]
    pub(crate) match_rate: f64,
    /// How often each key stands in R
    #[arg(long, default_value_t = 1, value_parser = parse_repeats)]
    pub(crate) repeats: usize,
    /// Algorithm of ours: auto, radix, n-part, m-way, m-pass or mpsm
    #[arg(long, default_value = "auto")]
    pub(crate) algorithm: Algorithm,
    /// Instructions of ours: auto, avx512, avx2 or portable
    #[arg(long, default_value = "auto")]
    pub(crate) kernel: Kernel,
    /// Rounds, in each of which every engine runs once; the first one is cold
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// A Python 3 with duckdb, datafusion, polars, pyarrow and numpy
    #[arg(long, env = "INDELIBLE_PYTHON", default_value = "python3")]
    pub(crate) python: PathBuf,
    /// Seed of the relations
    #[arg(long, default_value_t = 42)]
    pub(crate) seed: u64,
}

fn parse_engines(text: &str) -> Result<Vec<Engine>, String> {
    if text == "all" {
        return Ok(Engine::value_variants().to_vec());
    }
    let parse = |name: &str| {
        Engine::from_str(name, false).map_err(|_| {
            let all = Engine::value_variants().iter();
            let names: Vec<_> = all.map(|engine| engine.name()).collect();
            format!("unknown engine `{name}`; use {}, or all", names.join(", "))
        })
    };
    text.split(',').map(parse).collect()
}

/// A number from `least` to `most`.
fn parse_number<N: FromStr + PartialOrd + Display + Copy>(
    text: &str,
    least: N,
    most: N,
) -> Result<N, String> {
    match text.parse::<N>() {
        Ok(number) if number >= least && number <= most => Ok(number),
        _ => Err(format!("use a number from {least} to {most}")),
    }
}

fn parse_tuples(text: &str) -> Result<usize, String> {
    parse_number(text, 1, 1 << 30)
}

fn parse_threads(text: &str) -> Result<usize, String> {
    parse_number(text, 1, 64)
}

fn parse_repeats(text: &str) -> Result<usize, String> {
    parse_number(text, 1, 1 << 30)
}

fn parse_zipf(text: &str) -> Result<f64, String> {
    parse_number(text, 0.0, 8.0)
}

fn parse_part(text: &str) -> Result<f64, String> {
    parse_number(text, 0.0, 1.0)
}

fn parse_tuple_bytes(text: &str) -> Result<usize, String> {
    match text {
        "8" => Ok(8),
        "16" => Ok(16),
        _ => Err("use 8 or 16".into()),
    }
}

fn parse_rivals(text: &str) -> Result<Vec<Kind>, String> {
    if text == "all" {
        return Ok(Kind::ALL.to_vec());
    }
    text.split(',').map(str::parse).collect()
}

fn parse_mixes(text: &str) -> Result<Vec<Mix>, String> {
    if text == "all" {
        return Ok(Mix::ALL.to_vec());
    }
    text.split(',').map(str::parse).collect()
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("use a number of seconds above 0 and up to 86400".into()),
    }
}

fn parse_primitive(text: &str) -> Result<Primitive, String> {
    match text {
        "process" => Ok(Primitive::Process),
        "flush-free" => Ok(Primitive::FlushFree),
        "flush" => Ok(Primitive::Flush),
        _ => Err("use process, flush-free or flush".into()),
    }
}

/// The name of [`Primitive`] on the command line.
pub(crate) fn primitive_name(primitive: Primitive) -> &'static str {
    match primitive {
        Primitive::Process => "process",
        Primitive::File => "file",
        Primitive::Flush => "flush",
        Primitive::FlushFree => "flush-free",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn an_unknown_rival_is_answered_with_the_known_ones() {
        let line = ["rivals", "bench", "ycsb", "--rival", "lmdb,oracle"];
        let error = CommandLine::try_parse_from(line).unwrap_err().to_string();
        assert!(
            error.contains("oracle") && error.contains("lmdb-writemap"),
            "{error}"
        );
    }

    #[test]
    fn a_run_needs_something_to_run() {
        let error = CommandLine::try_parse_from(["rivals", "bench", "ycsb"]).unwrap_err();
        assert!(error.to_string().contains("--rival"), "{error}");
    }
}
