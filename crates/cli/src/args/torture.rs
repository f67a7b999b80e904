//! Options of `torture`.
//!
//! One option chooses the kind of test. Without one it is the crash search, and `--all` alone is
//! every kind on every method. The other options give the amount and the details, so that the
//! command line which a failure prints repeats it.

use super::{AXES, AtomicityName, AxesArgs, FencesName, IsolationName, parse_seconds};
use ::torture::Selection;
use ::torture::search::Subject;
use ::torture::standard::Benchmark;
use clap::{ArgGroup, Args, ValueEnum};
use indelible::{Method, PowerFailAtomicity};
use std::path::PathBuf;

/// Examples in the help text.
pub(super) const EXAMPLES: &str = "Examples:
  indelible torture --method nvm-inp --images 200000
  indelible torture --method nvm-inp --connections 8 --images 20000
  indelible torture --method inp --mutate --images 4000
  indelible torture --method nvm-inp --flips --every-bit
  indelible torture --method inp --faults --size full
  indelible torture --method inp --seed 7 --operations 0-3,60 --depth 1
  indelible torture --method fast --power-fail-atomicity 64 --images 20000
  indelible torture --method nvm-inp,nvm-log --fences paper --images 20000
  indelible torture --all --kills 200
  indelible torture --method nvm-log --workload tpcc --images 5000
  indelible torture --method cow --workload tpcc --kills 200
  indelible torture --method inp --workload tatp --images 5000
  indelible torture --method full-page-writes,dwb --histories 100000 --sessions 8
  indelible torture --method nv-logging --histories 20000 --cuts 200
  indelible torture --method dwb --histories 20000 --partitions 2 --cuts 40
  indelible torture --method nvm-inp --histories 20000 --connections 8 --partitions 2 --cuts 40
  indelible torture --method dwb --histories 20000 --isolation repeatable-read
  indelible torture --method nvm-inp,full-page-writes --histories 100000 --connections 8 --isolation read-committed
  indelible torture --all --size full --format json

Power cuts need the right to mount and a file system that nothing else is on:
  truncate -s 256M disk.img && mkfs.ext4 -q disk.img && mkdir -p cut && mount -o loop disk.img cut
  indelible torture --method inp --power-cuts 500 --path cut

A failure prints what was wrong, the shortest list of operations that leads to it, and the line that repeats it. The exit \
code is 1 if anything was wrong.";

/// `torture`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("kind").args(["scenario", "mutate", "flips", "truncations", "faults", "kills", "power_cuts", "histories"]))]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct TortureArgs {
    /// Methods, separated by commas
    #[arg(long, value_delimiter = ',', required_unless_present = "all", required_unless_present_any = AXES, conflicts_with_all = AXES)]
    pub(crate) method: Vec<Method>,
    #[command(flatten)]
    pub(crate) axes: AxesArgs,
    /// All methods that keep something; alone, with every kind of test, one result a method and
    /// kind
    #[arg(long, conflicts_with = "method", conflicts_with_all = AXES)]
    pub(crate) all: bool,
    /// Size of --all, --flips, --truncations and --faults: small takes seconds a method, full hours
    /// for all methods
    #[arg(long, value_enum, default_value_t = SizeName::Small)]
    pub(crate) size: SizeName,
    /// Workload of the search, of the killed process, or of the process without power
    #[arg(long, value_enum, default_value_t = WorkloadName::Standard,
        conflicts_with_all = ["scenario", "mutate", "flips", "truncations", "faults", "operations"])]
    pub(crate) workload: WorkloadName,
    /// Seed of all randomness
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Bytes that a power cut of the simulated device leaves whole, and that method fast relies on
    #[arg(long, value_enum, value_name = "BYTES", default_value_t = AtomicityName::Word,
        conflicts_with_all = ["workload", "flips", "truncations", "faults", "kills", "power_cuts", "histories"])]
    pub(crate) power_fail_atomicity: AtomicityName,
    /// Order of durable steps in nvm-inp and nvm-log; without it, the seeds choose among all three
    #[arg(long, value_enum, value_name = "ORDER",
        conflicts_with_all = ["workload", "flips", "truncations", "faults", "kills", "power_cuts", "histories"])]
    pub(crate) fences: Option<FencesName>,
    /// Search with this many connections that take turns, with open transactions at all levels,
    /// savepoints, locks and deadlocks; with --histories, so many threads with a connection each
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=64),
        conflicts_with_all = ["scenario", "mutate", "flips", "truncations", "faults", "kills", "power_cuts", "workload"])]
    pub(crate) connections: Option<u32>,
    /// Distinct images to check; with --mutate, of random rounds for each step that is switched off
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "seconds")]
    pub(crate) images: Option<u64>,
    /// Seconds to search; with --mutate, those after which no further step is tried, and the others
    /// are reported as untried
    #[arg(long, value_parser = parse_seconds)]
    pub(crate) seconds: Option<f64>,
    /// Run only these operations of the seed's round, as a failure prints them: 0-3,60; or all, or
    /// none
    #[arg(long, conflicts_with_all = ["kind", "images", "seconds"])]
    pub(crate) operations: Option<Selection>,
    /// With --operations, the treatment of each image. 0: recovered; 1: recovered again, and used;
    /// 2 to 4: and interrupted once to three times
    #[arg(long, requires = "operations", value_parser = clap::value_parser!(u32).range(0..=4))]
    pub(crate) depth: Option<u32>,
    /// Switch a durable step off by the name of its site, to see that it is missed; may be repeated
    #[arg(long, value_name = "SITE", conflicts_with_all = ["scenario", "mutate", "flips", "truncations", "faults", "kills", "power_cuts"])]
    pub(crate) without: Vec<String>,
    /// Run this scripted scenario with all its images instead of a random search; or all, or bare:
    /// those on a table without secondary indexes
    #[arg(long)]
    pub(crate) scenario: Option<String>,
    /// Switch every flush, fence and sync off in turn and say whether that was noticed
    #[arg(long)]
    pub(crate) mutate: bool,
    /// Flip one bit in each 64 bytes of a small database, one at a time, and see that it is
    /// detected or harmless
    #[arg(long)]
    pub(crate) flips: bool,
    /// Flip every bit instead; minutes
    #[arg(long, requires = "flips")]
    pub(crate) every_bit: bool,
    /// Cut the files of a small database off at every 4 KiB and at 1,000 random lengths
    #[arg(long)]
    pub(crate) truncations: bool,
    /// Let every call to a file or memory fail in turn, in every way, and tear every write into
    /// sectors
    #[arg(long)]
    pub(crate) faults: bool,
    /// With --faults, only the runs whose place begins so, as a failure prints it
    #[arg(
        long,
        requires = "faults",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) only: String,
    /// Kill a real process with SIGKILL this many times, and check its database after each
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) kills: Option<u64>,
    /// Cut the power of a file system this many times under a real process, and check its database
    /// after each
    #[arg(long, requires = "path", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) power_cuts: Option<u64>,
    /// Run this many transactions of many sessions at once, and look for results that no order
    /// of them explains
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) histories: Option<u64>,
    /// With --histories, cut the power or kill the process this often, on a simulated device, and
    /// go on in the next one
    #[arg(long, default_value_t = 0, requires = "histories")]
    pub(crate) cuts: u64,
    /// With --histories, how many sessions with typed transactions: 8, or beside --connections 2
    #[arg(long, requires = "histories", value_parser = clap::value_parser!(u32).range(0..=1024))]
    sessions: Option<u32>,
    /// With --histories, how many partitions; rows move between them
    #[arg(long, default_value_t = 1, requires = "histories", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) partitions: u32,
    /// With --histories, how the transactions are isolated, or those of --connections: a weaker
    /// level allows some anomalies, and no others
    #[arg(long, value_enum, default_value_t = IsolationName::Serializable, requires = "histories")]
    pub(crate) isolation: IsolationName,
    /// Mount point of the file system whose power is cut: a loop device on which nothing else lies
    #[arg(long)]
    pub(crate) path: Option<PathBuf>,
    /// Threads of --flips, --truncations and --faults; as many as there are processors by default
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) threads: Option<u16>,
}

/// Amount of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SizeName {
    /// Seconds a method and kind
    Small,
    /// Size for results that are kept: hours for all methods
    Full,
}

/// Workload during which the power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkloadName {
    /// Random transactions on a partition, compared row by row; bookings of flights for --kills and
    /// --power-cuts
    Standard,
    /// A small TPC-C on two partitions, with its consistency conditions
    Tpcc,
    /// A small TPC-B on two partitions, with its consistency conditions
    Tpcb,
    /// A small TATP on two partitions, its content compared with the list
    Tatp,
    /// The script write-only of sysbench on two partitions, its content compared with the list
    Sysbench,
}

impl WorkloadName {
    /// All of them.
    pub(crate) const ALL: [Self; 5] = [
        Self::Standard,
        Self::Tpcc,
        Self::Tpcb,
        Self::Tatp,
        Self::Sysbench,
    ];

    /// The standard benchmark that it is, if it is one.
    pub(crate) fn benchmark(self) -> Option<Benchmark> {
        match self {
            Self::Standard => None,
            Self::Tpcc => Some(Benchmark::Tpcc),
            Self::Tpcb => Some(Benchmark::Tpcb),
            Self::Tatp => Some(Benchmark::Tatp),
            Self::Sysbench => Some(Benchmark::Sysbench),
        }
    }
}

impl TortureArgs {
    /// Whether every kind of test is wanted.
    pub(crate) fn wants_everything(&self) -> bool {
        let has_kind = self.scenario.is_some()
            || self.mutate
            || self.flips
            || self.truncations
            || self.faults
            || self.kills.is_some()
            || self.power_cuts.is_some()
            || self.histories.is_some();
        let has_bounds = self.images.is_some() || self.seconds.is_some();
        let is_plain =
            self.operations.is_none() && self.without.is_empty() && self.connections.is_none();
        self.all && !has_kind && !has_bounds && is_plain && self.workload == WorkloadName::Standard
    }

    /// Sessions of a history with typed transactions.
    pub(crate) fn sessions(&self) -> u32 {
        let default = if self.connections.is_some() { 2 } else { 8 };
        self.sessions.unwrap_or(default)
    }

    /// A method with the options of the command line.
    pub(crate) fn subject(&self, method: Method) -> Subject {
        Subject {
            method,
            atomicity: self.atomicity(),
            fences: self.fences.map(Into::into),
        }
    }

    /// Bytes that a power cut leaves whole.
    pub(crate) fn atomicity(&self) -> PowerFailAtomicity {
        self.power_fail_atomicity.into()
    }

    /// Threads for work that can be done in parallel.
    pub(crate) fn threads(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.threads.map_or_else(processors, usize::from)
    }
}
