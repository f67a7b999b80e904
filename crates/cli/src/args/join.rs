//! Options of `bench join`.
//!
//! Lists of algorithms and kernels run one after the other on the same relations in one process, so
//! that their ratios are taken under the same conditions. `--grid` makes its own relations, and
//! options that would choose them are refused with it.

use clap::{Args, ValueEnum};
use join::{Algorithm, BloomUse, Kernel, RunSort, THREADS_MAX, TUPLES_MAX, TableKind, Tuning};
use measure::join::Width;

/// Examples in the help text.
pub(super) const EXAMPLES: &str = "Examples:
  indelible bench join --algorithm radix,n-part --r 1000000 --s 16000000 --threads 2
  indelible bench join --algorithm all --r 4000000 --s 4000000 --sparse --match 0.1 --format json
  indelible bench join --algorithm radix,n-part --r 4000000 --s 16000000 --hot 0.5
  indelible bench join --algorithm m-way --kernel avx2,portable --run-sort network --tuple 16
  indelible bench join --grid --r 1000000 --repeats 5

A time is the median of the repeats, in scratch memory that is warm: the same algorithm has joined in it before. That first join, in \
fresh memory, is reported as the cold one. Cycles are those of the time-stamp counter, by the clock on the wall, for a tuple of S. Count \
and sums of every join are compared with what the generator knows.";

/// Most tuples of R: keys without partners follow those of R, and both have to fit into 31 bits.
const R_MAX: u64 = TUPLES_MAX as u64 / 2;
/// Beyond this exponent all tuples of S have one key.
const ZIPF_MAX: f64 = 8.0;

/// `bench join`.
#[derive(Clone, Debug, Args)]
pub(crate) struct JoinArgs {
    /// Algorithms, separated by commas: radix, n-part, m-way, m-pass, mpsm; auto, which picks one;
    /// or all
    #[arg(long, value_parser = parse_algorithms, required_unless_present = "grid")]
    pub(crate) algorithm: Option<std::vec::Vec<Algorithm>>,
    /// Tuples of R; of the grid, of its largest cells
    #[arg(long, default_value_t = 16_000_000, value_parser = clap::value_parser!(u64).range(1..=R_MAX), allow_negative_numbers = true)]
    pub(crate) r: u64,
    /// Tuples of S; by default as many as of R
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=TUPLES_MAX as u64), allow_negative_numbers = true, conflicts_with = "grid")]
    pub(crate) s: Option<u64>,
    /// Threads; by default as many as processors, fewer for small relations
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=THREADS_MAX as u64))]
    pub(crate) threads: Option<u64>,
    /// Bytes of a tuple: half of them are its key, half its payload
    #[arg(long, value_enum, default_value_t = TupleName::Eight)]
    pub(crate) tuple: TupleName,
    /// Exponent of the Zipf distribution of S over the keys of R, up to 8; 0 is uniform
    #[arg(long, default_value_t = 0.0, value_parser = parse_zipf, allow_negative_numbers = true, conflicts_with = "grid")]
    pub(crate) zipf: f64,
    /// Spread the keys over half of their range instead of 1, 2, 3 ...
    #[arg(long, conflicts_with = "grid")]
    pub(crate) sparse: bool,
    /// Part of S that has partners in R, from 0 to 1
    #[arg(long = "match", value_name = "PART", default_value_t = 1.0, value_parser = parse_part, allow_negative_numbers = true, conflicts_with = "grid")]
    pub(crate) match_rate: f64,
    /// Copies of each key in R
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "grid")]
    pub(crate) copies: u64,
    /// Part of R that has one key, from 0 to 1; with --zipf it is the most frequent key of S too
    #[arg(long, value_name = "PART", default_value_t = 0.0, value_parser = parse_part, allow_negative_numbers = true, conflicts_with = "grid")]
    pub(crate) hot: f64,
    /// Instructions, separated by commas: auto (the best that this processor has), avx512, avx2,
    /// portable
    #[arg(long, value_parser = parse_kernels, default_value = "auto")]
    pub(crate) kernel: std::vec::Vec<Kernel>,
    /// Seed of the relations
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Joins of each algorithm in warm scratch memory; their median counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeats: u32,
    /// Bits of the first partitioning pass, 1 to 14, instead of a choice by sizes and caches
    #[arg(long)]
    pub(crate) bits: Option<u32>,
    /// Bits of the second partitioning pass of radix, 1 to 14; 0 forbids it
    #[arg(long)]
    pub(crate) second_bits: Option<u32>,
    /// The tables of radix, and the table of n-part
    #[arg(long, value_enum, default_value_t = TableName::Auto)]
    pub(crate) table: TableName,
    /// Sort of the runs in the cache
    #[arg(long, value_enum, default_value_t = RunSortName::Radix)]
    pub(crate) run_sort: RunSortName,
    /// Whether radix drops tuples of S without partners by a filter
    #[arg(long, value_enum, default_value_t = BloomName::Auto)]
    pub(crate) bloom: BloomName,
    /// Most memory for relations and scratch; by default the memory that the system reports as
    /// available
    #[arg(long)]
    pub(crate) memory_bytes: Option<u64>,
    /// Run everything over a grid of sizes up to --r, skews, match rates and densities, and say how
    /// far auto is from the best
    #[arg(long, conflicts_with = "algorithm")]
    pub(crate) grid: bool,
    /// Run only part K of N of the grid, in the order of its rows; for a machine that is quiet for
    /// minutes only
    #[arg(long, value_name = "K/N", value_parser = parse_grid_part, requires = "grid")]
    pub(crate) grid_part: Option<GridPart>,
}

impl JoinArgs {
    /// The tuning of the library that these options ask for.
    pub(crate) fn tuning(&self) -> Tuning {
        Tuning {
            partition_bits: self.bits,
            second_pass_bits: self.second_bits,
            table: match self.table {
                TableName::Auto => TableKind::Auto,
                TableName::Linear => TableKind::LinearProbe,
                TableName::Chain => TableKind::BucketChain,
            },
            run_sort: match self.run_sort {
                RunSortName::Radix => RunSort::Radix,
                RunSortName::Network => RunSort::Network,
            },
            bloom: match self.bloom {
                BloomName::Auto => BloomUse::Auto,
                BloomName::Always => BloomUse::Always,
                BloomName::Never => BloomUse::Never,
            },
        }
    }
}

/// One of several parts of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GridPart {
    /// From 1 to `parts`.
    pub(crate) part: usize,
    pub(crate) parts: usize,
}

/// Width of a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TupleName {
    /// 4 + 4 bytes, as in the paper
    #[value(name = "8")]
    Eight,
    /// 8 + 8 bytes
    #[value(name = "16")]
    Sixteen,
}

impl From<TupleName> for Width {
    fn from(tuple: TupleName) -> Self {
        match tuple {
            TupleName::Eight => Self::Eight,
            TupleName::Sixteen => Self::Sixteen,
        }
    }
}

/// The tables of `radix`, and the table of `n-part`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableName {
    /// An array where keys are dense, linear probing or sorted buckets elsewhere
    Auto,
    /// Linear probing
    Linear,
    /// Chains of equal hash bits, as in the papers; n-part then has one table that all threads
    /// fill, and no partitions
    Chain,
}

/// The sort inside the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunSortName {
    /// By bytes
    Radix,
    /// Sorting and merging networks, as in the paper
    Network,
}

/// The filter of `radix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BloomName {
    /// If a sample says that it pays
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

fn parse_algorithms(text: &str) -> Result<Vec<Algorithm>, join::JoinError> {
    if text == "all" {
        return Ok(Algorithm::ALL
            .into_iter()
            .chain([Algorithm::Auto])
            .collect());
    }
    text.split(',').map(str::parse).collect()
}

fn parse_kernels(text: &str) -> Result<Vec<Kernel>, join::JoinError> {
    text.split(',').map(str::parse).collect()
}

fn parse_grid_part(text: &str) -> Result<GridPart, String> {
    let numbers = text.split_once('/');
    let numbers = numbers.and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
    match numbers {
        Some((part, parts)) if (1..=parts).contains(&part) => Ok(GridPart { part, parts }),
        _ => Err("use a part and the number of parts, for example 1/15".into()),
    }
}

fn parse_zipf(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(exponent) if (0.0..=ZIPF_MAX).contains(&exponent) => Ok(exponent),
        _ => Err("use an exponent from 0 (uniform) to 8, for example 1.25".into()),
    }
}

fn parse_part(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(part) if (0.0..=1.0).contains(&part) => Ok(part),
        _ => Err("use a part from 0 to 1, for example 0.1 for 10 %".into()),
    }
}
