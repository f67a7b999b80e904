//! Options of `advise`: the workload, the device, and the user's preference.
//!
//! Each group can be given as numbers or by a name. Values that the parser cannot check alone (a
//! profile, pairs of options) are checked before anything is measured.

use super::PrimitiveName;
use clap::{Args, ValueEnum};
use indelible::Method;
use std::path::PathBuf;
use workload::custom::{CustomMix, CustomSkew};

pub(super) const EXAMPLES: &str = "Examples:\n  \
    indelible advise --mix balanced --rows 2000000 --profile low\n  \
    indelible advise --mix read=60,update=25,insert=10,scan=5 --columns 20 --column-bytes 50 --rows 50000000 \
    --read-latency-ns 600 --write-latency-ns 150 --bandwidth 6 --prefer wear --out advice.html\n  \
    indelible bench ycsb --method nvm-inp --mix write-heavy --rows 100000 --txns 50000 --record shop.trace\n  \
    indelible advise --trace shop.trace --rows 10000000 --profile high --format json\n\n\
    Without a profile or numbers the methods run on this machine's own memory. docs/advise.md explains the model.";

/// `advise`.
#[derive(Clone, Debug, Args)]
pub(crate) struct AdviseArgs {
    /// Shares of the operations: read-only, read-heavy, balanced, write-heavy, or
    /// `read=60,update=30,insert=5,scan=5`
    #[arg(long, default_value = "balanced", conflicts_with = "trace")]
    pub(crate) mix: CustomMix,
    /// Skew: low, high, uniform, or percent of accesses / percent of rows, as `80/20`
    #[arg(long, default_value = "low", conflicts_with = "trace")]
    pub(crate) skew: CustomSkew,
    /// Columns in addition to the key
    #[arg(long, default_value_t = 10, conflicts_with = "trace")]
    pub(crate) columns: u32,
    /// Bytes of each column
    #[arg(long, default_value_t = 100, conflicts_with = "trace")]
    pub(crate) column_bytes: u32,
    /// Columns that an update rewrites
    #[arg(long, default_value_t = 1, conflicts_with = "trace")]
    pub(crate) update_columns: u32,
    /// Rows that a scan visits
    #[arg(long, default_value_t = 50, conflicts_with = "trace")]
    pub(crate) scan_rows: u32,
    /// Operations of a transaction
    #[arg(long, default_value_t = 1, conflicts_with = "trace")]
    pub(crate) operations: u32,
    /// Rows of the database that is asked about, in one partition; 2,000,000, or the keys that the
    /// trace shows
    #[arg(long, value_parser = clap::value_parser!(u64).range(100..=1_000_000_000_000))]
    pub(crate) rows: Option<u64>,
    /// A recorded trace instead of a mix; `bench --record` and `Options::record_trace` write them
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    /// Device: dram, low, high, or `read=320,write=100,fence=50,bandwidth=9.5`; without one, this
    /// machine's own memory
    #[arg(long)]
    pub(crate) profile: Option<String>,
    /// Latency of a read that misses the cache, in ns, at least 160
    #[arg(long, conflicts_with = "profile")]
    pub(crate) read_latency_ns: Option<u64>,
    /// Added to the write-back of each flushed line, in ns
    #[arg(long, conflicts_with = "profile")]
    pub(crate) write_latency_ns: Option<u64>,
    /// Added to each fence, in ns
    #[arg(long, conflicts_with = "profile")]
    pub(crate) fence_ns: Option<u64>,
    /// Bandwidth in GB/s, both directions together, or `unlimited`
    #[arg(long, conflicts_with = "profile")]
    pub(crate) bandwidth: Option<String>,
    /// Last-level cache of the processor that is asked about, in MiB
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=4096))]
    pub(crate) cache_mib: u64,
    /// Writes that a cell of the device endures, for the years that it lasts; 1e10 is phase-change
    /// memory
    #[arg(long, default_value_t = 1e10, value_parser = parse_endurance)]
    pub(crate) endurance: f64,
    /// On this machine's own memory: issue the instructions of another domain, to pay the costs of
    /// persistent memory
    #[arg(long, value_enum)]
    pub(crate) primitives: Option<PrimitiveName>,

    /// Quantity that the recommendation prefers
    #[arg(long, value_enum, default_value_t = Preference::Balanced)]
    pub(crate) prefer: Preference,
    /// Methods to compare; by default the six durable ones
    #[arg(long, value_delimiter = ',')]
    pub(crate) method: Vec<Method>,
    /// Rows of the largest measured table; half and a quarter of it are measured too
    #[arg(long, default_value_t = 16_000, value_parser = clap::value_parser!(u64).range(400..=10_000_000))]
    pub(crate) sample_rows: u64,
    /// Most rounds of measurement; the recommendation states their spread
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeat: u32,
    /// No further round is begun that would end later than this
    #[arg(long, default_value_t = 45.0, value_parser = super::parse_seconds)]
    pub(crate) seconds: f64,
    /// Measure this many rows as well and show them next to the prediction of the model
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(400..))]
    pub(crate) validate: Option<u64>,
    /// Write an HTML page with plots
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Directory under which the databases are made, and removed at the end; shared memory by
    /// default
    #[arg(long)]
    pub(crate) path: Option<PathBuf>,
    /// Seed of the rows and of the transactions
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// The quantity that a recommendation prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preference {
    /// Throughput 40 %, latency 20 %, wear 15 %, space 15 %, recovery 10 %
    Balanced,
    /// Transactions a second
    Throughput,
    /// 99th percentile of latency
    Latency,
    /// Bytes in use
    Space,
    /// Bytes written to the device
    Wear,
    /// Time to open after a crash
    Recovery,
}

fn parse_endurance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(writes) if (1.0..=1e20).contains(&writes) => Ok(writes),
        _ => Err("use a number of writes from 1 to 1e20, for example 1e8".into()),
    }
}
