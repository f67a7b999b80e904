//! Options of the measuring commands.
//!
//! Lists of methods and mixes run one after the other in one process, so that their ratios are
//! taken under the same conditions.

use super::{
    AXES, AtomicityName, AxesArgs, DomainName, FloorArgs, JoinArgs, LayoutName, PrimitiveName,
    RecoveryArgs, RecoveryVictimArgs, SqlBenchArgs, WireBenchArgs, parse_seconds,
};
use clap::{ArgAction, Args, Subcommand, ValueEnum};
use disk::FileProfile;
use indelible::{
    CommitOrder, FenceOrder, HeaderImages, IoMode, Isolation, Locking, LogImages, Method,
    MethodOption, Persist,
};
use measure::static_rows::Structure;
use pmem::device::emulated::Loads;
use std::path::PathBuf;
use std::str::FromStr;
use workload::sysbench::{Distribution, OltpScript, RANGE_MAX, ROWS_MAX, TABLES_MAX};
use workload::tatp::{Choice, Mix as TatpMix, SUBSCRIBERS_MAX};
use workload::tpcb::{ACCOUNTS, BRANCHES_MAX};
use workload::tpcc::{Mix as TpccMix, WAREHOUSES_MAX};
use workload::ycsb::{Mix, Skew};

/// `bench`.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// One table of 1 KB rows; reads of all columns, updates of one
    #[command(
        after_help = "Examples:\n  indelible bench ycsb --method nvm-inp --mix balanced --rows 2000000 \
                            --partitions 2 --seconds 5 --primitives flush\n  \
                            indelible bench ycsb --method volatile,nvm-inp,inp,std-map --mix all --format json\n  \
                            indelible bench ycsb --method nvm-inp --mix all --device emulated --profile high\n  \
                            indelible bench ycsb --method full-page-writes,dwb --threads 4 --pool 4000000000 --seconds 5\n  \
                            indelible bench ycsb --pages ssd --log per-transaction --guard full-page-writes --threads 4\n\n\
                            Three more methods give the scale: std-map is the standard library's BTreeMap of boxed rows; static-tree is\n  \
                            rows in durable memory under a tree that never changes, with three fences an update; static-array is rows at\n  \
                            known addresses with the durable steps of nvm-inp, the floor of the medium."
    )]
    Ycsb(Box<YcsbArgs>),
    /// Nine tables of a wholesale supplier, five transactions, consistency conditions
    #[command(
        after_help = "Examples:\n  indelible bench tpcc --method nvm-inp,inp --warehouses 2 --partitions 2 \
                            --single-partition --seconds 10 --primitives flush\n  \
                            indelible bench tpcc --method nvm-inp --warehouses 8 --partitions 4 --txns 1000000 --format json\n  \
                            indelible bench tpcc --method inp --scale 0.01 --think-times 0.001 --seconds 5\n\n\
                            The consistency conditions of clause 3.3.2 are checked after loading and at the end. Results are no \
                            audited TPC results."
    )]
    Tpcc(Box<TpccArgs>),
    /// Branches, tellers and accounts of a bank, one transaction, consistency conditions
    #[command(
        after_help = "Examples:\n  indelible bench tpcb --method nvm-inp,inp --branches 2 --partitions 2 --seconds 5\n  \
                            indelible bench tpcb --method nvm-inp --branches 8 --partitions 2 --single-partition --txns 1000000 --format json\n  \
                            indelible bench tpcb --method nvm-inp,nv-logging --connections 8 --seconds 10\n  \
                            indelible bench tpcb --method nvm-inp --connections 7 --idle 1 --seconds 10\n\n\
                            Balances and history are compared after loading and at the end. Results are no audited TPC results."
    )]
    Tpcb(Box<TpcbArgs>),
    /// Subscribers of a mobile network, seven short transactions, content compared with the list
    #[command(
        after_help = "Examples:\n  indelible bench tatp --method nvm-inp,inp --subscribers 100000 --partitions 2 --seconds 5\n  \
                            indelible bench tatp --method inp --mix update-location --choice uniform --seconds 5 --format json\n\n\
                            A transaction whose row is not there has failed; in the standard mix about a quarter does."
    )]
    Tatp(Box<TatpArgs>),
    /// The OLTP scripts of sysbench 1.0: point and range reads and changes of tables with an index,
    /// content compared with the lists
    #[command(
        after_help = "Examples:\n  indelible bench sysbench --method full-page-writes,dwb --threads 8 --tables 4 --rows 100000 --pool 32000000 --seconds 5\n  \
                            indelible bench sysbench --method nvm-inp --script point-select --distribution pareto --partitions 2 --seconds 5 --format json\n\n\
                            Statements, their order and the distributions are those of sysbench 1.0.20; docs/workloads.md says what differs."
    )]
    Sysbench(Box<SysbenchArgs>),
    /// Rows of one size, a key and a payload, into one tree of one partition; also updates and
    /// deletions of them
    #[command(
        after_help = "Examples:\n  indelible bench btree-insert --method fast,fash --record 64 --order random --txns 1000000 --primitives flush\n  \
                            indelible bench btree-insert --method fast --record 16 --order ascending --txn-size 10\n  \
                            indelible bench btree-insert --method fash --mix update --rows 100000 --seconds 2 --format json",
        // `--record` is the size of a row here.
        mut_arg("record", |arg| arg.long("record-trace"))
    )]
    BtreeInsert(Box<BtreeArgs>),
    /// The time that a page method takes to open after a kill, with a log of a given length to
    /// replay
    #[command(after_help = super::recovery::EXAMPLES)]
    Recovery(Box<RecoveryArgs>),
    /// The process that `recovery` kills
    #[command(hide = true)]
    RecoveryVictim(Box<RecoveryVictimArgs>),
    /// Statements of SQL on one row, prepared and as texts, beside the typed interface
    #[command(after_help = super::bench_sql::EXAMPLES)]
    Sql(Box<SqlBenchArgs>),
    /// Servers under the same clients: an empty one, ours, and PostgreSQL where it is installed
    #[command(after_help = super::bench_wire::EXAMPLES)]
    Wire(Box<WireBenchArgs>),
    /// The empty server of `bench wire`
    #[command(hide = true)]
    Floor(FloorArgs),
    /// Two relations in memory, joined by five algorithms or by the one that suits them
    #[command(after_help = super::join::EXAMPLES)]
    Join(Box<JoinArgs>),
}

/// `bench ycsb`.
#[derive(Clone, Debug, Args)]
pub(crate) struct YcsbArgs {
    /// Methods, separated by commas: nvm-inp, inp, volatile and so on; std-map, static-tree,
    /// static-array
    #[arg(long, value_delimiter = ',', required_unless_present_any = AXES, conflicts_with_all = AXES)]
    pub(crate) method: Vec<YcsbMethod>,
    /// Mixes, separated by commas: read-only, read-heavy, balanced, write-heavy; or all
    #[arg(long, default_value = "balanced", value_parser = parse_mixes)]
    pub(crate) mix: std::vec::Vec<Mix>,
    /// Skew of the accesses: low (half of the accesses to a fifth of the rows) or high
    #[arg(long, default_value = "low")]
    pub(crate) skew: Skew,
    /// Rows of a kilobyte
    #[arg(long, default_value_t = 2_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rows: u32,
    /// Columns that an update rewrites
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10))]
    pub(crate) update_columns: u32,
    /// With --io direct, read pages at random for 2 seconds before each run, with as many threads
    /// and nothing else, and report the throughput as a share of what those reads allow
    #[arg(long)]
    pub(crate) read_floor: bool,
    /// Add a run of nvm-inp in which the row of each transaction is announced so many transactions
    /// ahead, so that its memory is asked for meanwhile
    #[arg(long, value_name = "TXNS", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) announce: Option<u32>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// `bench tpcc`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TpccArgs {
    /// Methods, separated by commas: nvm-inp, inp, volatile
    #[arg(long, value_delimiter = ',', required_unless_present_any = AXES, conflicts_with_all = AXES)]
    pub(crate) method: Vec<Method>,
    /// Warehouses, at least one a thread; by default as many as threads
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(WAREHOUSES_MAX)))]
    pub(crate) warehouses: Option<u32>,
    /// Keep every transaction within its partition, as the paper does
    #[arg(long)]
    pub(crate) single_partition: bool,
    /// Shares of the transactions: standard, one of new-order, payment, order-status, delivery and
    /// stock-level, or five numbers in this order
    #[arg(long, default_value = "standard")]
    pub(crate) mix: TpccMix,
    /// Size of a warehouse as a share of 100,000 items and 30,000 customers; only 1 is TPC-C, less
    /// is for tests
    #[arg(long, default_value_t = 1.0, value_parser = parse_scale)]
    pub(crate) scale: f64,
    /// Keying and think times of ten terminals a warehouse, as a multiple of those of the
    /// specification; 0 for none
    #[arg(long, default_value_t = 0.0, value_parser = parse_think_times)]
    pub(crate) think_times: f64,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// `bench btree-insert`.
#[derive(Clone, Debug, Args)]
pub(crate) struct BtreeArgs {
    /// Methods, separated by commas: fast, fash, nvwal, slot-header-journal, nvm-cow and so on
    #[arg(long, value_delimiter = ',', required_unless_present_any = AXES, conflicts_with_all = AXES)]
    pub(crate) method: Vec<Method>,
    /// Bytes of a row: a key of 8 and a payload
    #[arg(long = "record", value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u32).range(8..=4096))]
    pub(crate) record_bytes: u32,
    /// Order in which keys are inserted
    #[arg(long, value_enum, default_value_t = BtreeOrder::Random)]
    pub(crate) order: BtreeOrder,
    /// Operations of a transaction
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) txn_size: u64,
    /// Operations: insert; or update, delete or mixed (a third each) of rows that are there
    #[arg(long, value_enum, default_value_t = BtreeMix::Insert)]
    pub(crate) mix: BtreeMix,
    /// Rows that are there before the run; none before one of insertions only
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rows: u64,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Order of the keys of `bench btree-insert`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BtreeOrder {
    /// All over the tree.
    Random,
    /// Each greater than the one before.
    Ascending,
}

impl BtreeOrder {
    /// The name in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Ascending => "ascending",
        }
    }
}

impl From<BtreeOrder> for measure::tree::Order {
    fn from(order: BtreeOrder) -> Self {
        match order {
            BtreeOrder::Random => Self::Random,
            BtreeOrder::Ascending => Self::Ascending,
        }
    }
}

/// Operations of `bench btree-insert`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BtreeMix {
    /// New rows.
    Insert,
    /// New payloads of rows that are there.
    Update,
    /// Rows are taken out, the oldest first.
    Delete,
    /// A third of each.
    Mixed,
}

impl BtreeMix {
    /// The name in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Mixed => "mixed",
        }
    }
}

impl From<BtreeMix> for measure::tree::Mix {
    fn from(mix: BtreeMix) -> Self {
        match mix {
            BtreeMix::Insert => Self::Insert,
            BtreeMix::Update => Self::Update,
            BtreeMix::Delete => Self::Delete,
            BtreeMix::Mixed => Self::Mixed,
        }
    }
}

/// `bench tpcb`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TpcbArgs {
    /// Methods, separated by commas: nvm-inp, inp, volatile
    #[arg(long, value_delimiter = ',', required_unless_present_any = AXES, conflicts_with_all = AXES)]
    pub(crate) method: Vec<Method>,
    /// Branches, at least one a partition; by default as many as threads
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(BRANCHES_MAX)))]
    pub(crate) branches: Option<u32>,
    /// Accounts of a branch; only 100000 is TPC-B, fewer are for tests
    #[arg(long, default_value_t = ACCOUNTS, value_parser = clap::value_parser!(u32).range(1..=i64::from(ACCOUNTS)))]
    pub(crate) accounts: u32,
    /// Keep every transaction within its partition
    #[arg(long)]
    pub(crate) single_partition: bool,
    #[command(flatten)]
    pub(crate) clients: ClientArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Clients that run interactive transactions over connections.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClientArgs {
    /// Connections, each with a thread that begins, runs statements and commits in calls of their
    /// own; in turns with typed workers, and reported beside them. Runs for --seconds each, 10 by
    /// default
    #[arg(long, conflicts_with_all = ["txns", "threads", "record"], value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) connections: Option<u32>,
    /// Isolation of the connections' transactions
    #[arg(long, value_enum, requires = "connections", default_value_t = IsolationName::ReadCommitted)]
    pub(crate) connection_isolation: IsolationName,
    /// Run the connections also beside so many that have written and stay idle inside their
    /// transactions
    #[arg(long, value_name = "CONNECTIONS", requires = "connections", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) idle: Option<u32>,
    /// Run the connections also beside one that reads a single snapshot for all of --seconds
    #[arg(long, requires = "connections", conflicts_with = "idle")]
    pub(crate) reader: bool,
}

/// `bench tatp`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TatpArgs {
    /// Methods, separated by commas: nvm-inp, inp, volatile
    #[arg(long, value_delimiter = ',', required_unless_present_any = AXES, conflicts_with_all = AXES)]
    pub(crate) method: Vec<Method>,
    /// Subscribers, at least one a partition; each has about ten rows
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(SUBSCRIBERS_MAX)))]
    pub(crate) subscribers: u32,
    /// Shares of the transactions: standard; the name of one, such as update-location; or seven
    /// numbers in the order of the specification, standard being 35,10,35,2,14,2,2
    #[arg(long, default_value = "standard")]
    pub(crate) mix: TatpMix,
    /// Distribution of subscribers: nurand, uneven, as in the specification; or uniform
    #[arg(long, default_value = "nurand")]
    pub(crate) choice: Choice,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// `bench sysbench`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SysbenchArgs {
    /// Methods, separated by commas: nvm-inp, inp, volatile
    #[arg(long, value_delimiter = ',', required_unless_present_any = AXES, conflicts_with_all = AXES)]
    pub(crate) method: Vec<Method>,
    /// Script: read-write, read-only, write-only, point-select, update-index, update-non-index,
    /// insert or delete
    #[arg(long, default_value = "read-write")]
    pub(crate) script: OltpScript,
    /// Tables: sbtest1, sbtest2 and so on
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=i64::from(TABLES_MAX)))]
    pub(crate) tables: u16,
    /// Rows of each table, about 200 bytes each; sysbench calls it the table size
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(ROWS_MAX)))]
    pub(crate) rows: u32,
    /// Distribution of ids: uniform, gaussian, special (the default of sysbench 1.0), pareto or
    /// zipfian
    #[arg(long, default_value = "special")]
    pub(crate) distribution: Distribution,
    /// Ids of each range that is read
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(RANGE_MAX)))]
    pub(crate) range_size: u32,
    /// Transactions before the measured ones, over all threads, without the delays of imitated
    /// disks, so that the buffer pool is in its steady state
    #[arg(long, value_name = "TXNS", default_value_t = 0)]
    pub(crate) warm_up: u64,
    /// Make each statement a transaction of its own, counted as one
    #[arg(long)]
    pub(crate) skip_trx: bool,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// Options of all workloads. One that only some methods take is for these in a comparison, and is
/// refused if none of them runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) axes: AxesArgs,
    /// Partitions, each with a thread of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) partitions: u32,
    /// Threads that share one partition, each in a session of its own; in the page methods.
    /// Conflicts are run again and counted
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) threads: Option<u32>,
    /// Seconds to run
    #[arg(long, value_parser = parse_seconds, conflicts_with = "txns")]
    pub(crate) seconds: Option<f64>,
    /// Transactions to run, over all partitions, each of which runs the same number: rounded up
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) txns: Option<u64>,
    /// Layout of tuples in memory
    #[arg(long, value_enum, default_value_t = LayoutName::Together)]
    pub(crate) layout: LayoutName,
    /// Persistence domain that the medium must give
    #[arg(long, value_enum)]
    pub(crate) domain: Option<DomainName>,
    /// Issue the instructions of another domain, to measure their cost; the guarantees of the data
    /// do not change
    #[arg(long, value_enum)]
    pub(crate) primitives: Option<PrimitiveName>,
    /// Bytes that the platform promises to survive a power cut whole: with 64, method fast stores
    /// the header that it commits by in one transfer
    #[arg(long, value_enum, value_name = "BYTES", default_value_t = AtomicityName::Word)]
    pub(crate) power_fail_atomicity: AtomicityName,
    /// The device: native, or emulated with added latency and full counting
    #[arg(long, value_enum, default_value_t = DeviceKind::Native)]
    pub(crate) device: DeviceKind,
    /// Latencies of the emulated device: dram, low (2x), high (8x), optane, cxl, cxl-pool,
    /// nvdimm-n, battery-dram, or values as docs/emulation.md has them
    #[arg(long)]
    pub(crate) profile: Option<String>,
    /// Bytes of the emulated last-level cache, for all partitions together; 32 MiB by default
    #[arg(long)]
    pub(crate) cache_bytes: Option<u64>,
    /// Nanoseconds of a flush and its fence on the emulated device, at most 10000, instead of
    /// those of the profile
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=10_000))]
    pub(crate) sync_latency_ns: Option<u64>,
    /// Loads on the emulated device: counted; or free, neither counted nor delayed, so that the
    /// model's own time is not in them
    #[arg(long, value_enum, default_value_t = LoadsName::Counted)]
    pub(crate) loads: LoadsName,
    /// Fences of nvm-inp and nvm-log: single, one a transaction of one operation; shared, three; or
    /// paper, one after each step
    #[arg(long, value_enum, default_value_t = FencesName::Single)]
    pub(crate) fences: FencesName,
    /// When a log record of nv-logging is durable: flush-on-insert, at once; or flush-on-commit, at
    /// a commit at the latest
    #[arg(long, value_enum, default_value_t = PersistName::FlushOnInsert)]
    pub(crate) persist: PersistName,
    /// As NV-Logging was published: a commit waits for its own records only, so a power cut can
    /// lose commits that were acknowledged
    #[arg(long, num_args = 0..=1, default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) as_published: bool,
    /// Locks of the page methods
    #[arg(long, value_enum, default_value_t = LockingName::Optimized)]
    pub(crate) locking: LockingName,
    /// Bytes of log that each session of nv-logging, each ring of distributed-log, or nvwal has
    /// room for, at most 128 MiB
    #[arg(long)]
    pub(crate) ring: Option<u64>,
    /// Bytes of durable memory in each partition for copies of pages, in methods with such an area:
    /// 128 KiB or more
    #[arg(long, value_name = "BYTES")]
    pub(crate) area: Option<u64>,
    /// Bytes of log after which a checkpoint is written, in methods that have them; images of pages
    /// count an eighth
    #[arg(long, value_name = "BYTES")]
    pub(crate) log_bytes: Option<u64>,
    /// Most bytes of DRAM in each partition for the keys of slotted pages, in fash and fast; with 0
    /// a search reads the pages alone, as in the paper. 64 MiB by default
    #[arg(long, value_name = "BYTES")]
    pub(crate) outlines: Option<usize>,
    /// Headers of pages in the log of fash and fast: shortest, what differs from the header
    /// before where that is shorter; or whole, as in the paper
    #[arg(long, value_enum, default_value_t = HeaderLogName::Shortest)]
    pub(crate) header_log: HeaderLogName,
    /// Most bytes of DRAM in each partition for hints of nvm-inp, which say where rows lie; with 0
    /// a look-up searches the tree. 256 MiB by default, 0 on the emulated device, as in the paper
    #[arg(long, value_name = "BYTES")]
    pub(crate) hints: Option<u64>,
    /// Bytes of durable memory in each partition over which nvm-inp, nvm-log, fash and fast spread
    /// the records of commits, so that no line wears out early. 4 MiB by default
    #[arg(long, value_name = "BYTES")]
    pub(crate) rotation: Option<u64>,
    /// Rings of distributed-log that the sessions of a partition share; 16 by default
    #[arg(long)]
    pub(crate) rings: Option<u32>,
    /// Images of a changed row in the write-ahead log of inp or log: after, the row after the
    /// change; or both, with the row before it, as in the paper
    #[arg(long, value_enum, default_value_t = LogImagesName::After)]
    pub(crate) log_images: LogImagesName,
    /// Bytes of an index node
    #[arg(long)]
    pub(crate) node_bytes: Option<u32>,
    /// Bytes of changes after which a MemTable of log or nvm-log is full
    #[arg(long)]
    pub(crate) memtable_bytes: Option<u64>,
    /// How many times as large as the one before it a level of log or nvm-log may become; 8 by
    /// default
    #[arg(long)]
    pub(crate) growth_factor: Option<u32>,
    /// Bytes of the page cache of each partition of cow; 512 MiB by default
    #[arg(long, value_name = "BYTES")]
    pub(crate) page_cache: Option<usize>,
    /// Bytes of the buffer pool of each partition of the page methods, and of the frames of nvwal
    #[arg(long)]
    pub(crate) pool: Option<u64>,
    /// How pages travel between their file and the buffer pool, in methods that have one: buffered,
    /// through the system's cache; or direct
    #[arg(long, value_enum, default_value_t = IoName::Buffered)]
    pub(crate) io: IoName,
    /// Directory under which the database is made, and removed at the end; shared memory by default
    #[arg(long)]
    pub(crate) path: Option<PathBuf>,
    /// Directory under which the log of the page methods is made, and removed at the end; with the
    /// pages by default
    #[arg(long)]
    pub(crate) log_path: Option<PathBuf>,
    /// Directory under which the archive of the log of a page method with pages in files is made,
    /// and removed at the end; without it, log records that recovery no longer needs are discarded
    #[arg(long, value_name = "DIR")]
    pub(crate) archive: Option<PathBuf>,
    /// On the emulated device, the medium of the files of pages: none, the imitated memory; ssd,
    /// sata or hdd; or read=,write=,sync=,seek=,turn= in ns and bandwidth= in MB/s
    #[arg(long)]
    pub(crate) files: Option<FileProfile>,
    /// The same for the files of the log of a page method, if they are elsewhere
    #[arg(long)]
    pub(crate) log_files: Option<FileProfile>,
    /// Most bytes of memory that a transaction may take for its changes; 1 GiB by default
    #[arg(long, value_name = "BYTES")]
    pub(crate) transaction_memory_max: Option<u64>,
    /// Most bytes of memory for rows as snapshots of connections see them; 256 MiB by default
    #[arg(long, value_name = "BYTES")]
    pub(crate) snapshot_memory_max: Option<u64>,
    /// Most locks that connections may hold together; 4194304 by default
    #[arg(long, value_name = "LOCKS")]
    pub(crate) locks_max: Option<usize>,
    /// Most connections that may be open at once; 10000 by default
    #[arg(long, value_name = "CONNECTIONS")]
    pub(crate) connections_max: Option<u32>,
    /// When a commit is acknowledged: synchronous, when it is durable; or asynchronous, before, so
    /// that a power cut loses the last ones
    #[arg(long, value_enum, default_value_t = CommitName::Synchronous)]
    pub(crate) commit: CommitName,
    /// Isolation of transactions of a page method: serializable; or read-committed, which reads
    /// committed data and keeps no locks of reads, as in the databases that sysbench is run on;
    /// other methods ignore it
    #[arg(long, value_enum, default_value_t = IsolationName::Serializable)]
    pub(crate) isolation: IsolationName,
    /// Seed of the rows and of the transactions
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Rounds over all runs; each round prints its rows
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,
    /// Most transactions in a commit group, in methods that have groups
    #[arg(long)]
    pub(crate) group: Option<u32>,
    /// Record the measured transactions in this new file, for `advise --trace`; with one method,
    /// mix and round
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Do not check the final content
    #[arg(long)]
    pub(crate) skip_check: bool,
}

impl RunArgs {
    /// Threads of the run.
    pub(crate) fn threads(&self) -> u32 {
        self.threads.unwrap_or(self.partitions)
    }

    /// The options that only some methods take. In a comparison, these use them.
    pub(crate) fn method_options(&self) -> impl Iterator<Item = MethodOption> {
        let chosen = [
            MethodOption::Fences(self.fences.into()),
            MethodOption::PowerFailAtomicity(self.power_fail_atomicity.into()),
            MethodOption::Persist(self.persist.into()),
            MethodOption::CommitOrder(if self.as_published {
                CommitOrder::AsPublished
            } else {
                CommitOrder::Whole
            }),
            MethodOption::Locking(self.locking.into()),
            MethodOption::LogImages(self.log_images.into()),
            MethodOption::HeaderImages(self.header_log.into()),
            MethodOption::Io(self.io.into()),
            MethodOption::Sessions(self.threads_each()),
        ];
        let given = [
            self.ring.map(MethodOption::RingBytes),
            self.rings.map(MethodOption::Rings),
            self.area.map(MethodOption::AreaBytes),
            self.outlines.map(MethodOption::OutlineBytes),
            self.hints
                .or((self.device == DeviceKind::Emulated).then_some(0))
                .map(MethodOption::HintBytes),
            self.rotation.map(MethodOption::RotationBytes),
            self.memtable_bytes.map(MethodOption::MemtableBytes),
            self.growth_factor.map(MethodOption::GrowthFactor),
            self.page_cache.map(MethodOption::PageCacheBytes),
            self.pool.map(MethodOption::BufferBytes),
            self.archive.clone().map(MethodOption::Archive),
        ];
        chosen.into_iter().chain(given.into_iter().flatten())
    }

    /// Threads of each partition.
    pub(crate) fn threads_each(&self) -> u32 {
        self.threads().div_ceil(self.partitions)
    }
}

/// A method of Indelible, or a simpler structure to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum YcsbMethod {
    Ours(Method),
    /// `BTreeMap` of boxed rows: no transactions, no durability.
    StdMap,
    /// Rows in durable memory at places that never change: durable updates, and nothing else.
    Static(Structure),
}

impl YcsbMethod {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours(method) => method.name(),
            Self::StdMap => "std-map",
            Self::Static(Structure::Tree) => "static-tree",
            Self::Static(Structure::Array) => "static-array",
        }
    }
}

impl FromStr for YcsbMethod {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "std-map" => Ok(Self::StdMap),
            "static-tree" => Ok(Self::Static(Structure::Tree)),
            "static-array" => Ok(Self::Static(Structure::Array)),
            _ => name.parse().map(Self::Ours),
        }
    }
}

/// Which device runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceKind {
    /// Mapped memory, nothing added
    Native,
    /// Chosen latencies, full counting
    Emulated,
}

/// Images of a changed row in a write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogImagesName {
    /// The row after the change
    After,
    /// The row before and after the change
    Both,
}

impl From<LogImagesName> for LogImages {
    fn from(name: LogImagesName) -> Self {
        match name {
            LogImagesName::After => Self::After,
            LogImagesName::Both => Self::BeforeAndAfter,
        }
    }
}

/// Headers of pages in the log of slotted pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HeaderLogName {
    /// What differs from the header before, where that is shorter
    Shortest,
    /// The whole header
    Whole,
}

impl From<HeaderLogName> for HeaderImages {
    fn from(name: HeaderLogName) -> Self {
        match name {
            HeaderLogName::Shortest => Self::Shortest,
            HeaderLogName::Whole => Self::Whole,
        }
    }
}

/// Loads on the emulated device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LoadsName {
    /// Counted and delayed
    Counted,
    /// As fast as this machine's, and not counted
    Free,
}

impl From<LoadsName> for Loads {
    fn from(name: LoadsName) -> Self {
        match name {
            LoadsName::Counted => Self::Counted,
            LoadsName::Free => Self::Free,
        }
    }
}

/// Order of durable steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FencesName {
    /// One fence a transaction of one operation
    Single,
    /// Steps share fences where recovery guarantees the same
    Shared,
    /// The paper's undo log, a linked list, and a sync after each step
    Paper,
}

impl From<FencesName> for FenceOrder {
    fn from(name: FencesName) -> Self {
        match name {
            FencesName::Single => Self::Single,
            FencesName::Shared => Self::Shared,
            FencesName::Paper => Self::Paper,
        }
    }
}

/// The step at which a log record in durable memory becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PersistName {
    /// At once
    FlushOnInsert,
    /// At a commit at the latest
    FlushOnCommit,
}

impl PersistName {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FlushOnInsert => "flush-on-insert",
            Self::FlushOnCommit => "flush-on-commit",
        }
    }
}

/// Manners of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LockingName {
    /// Intention locks stay between transactions, and locks are free before a commit is durable
    Optimized,
    /// Neither
    Plain,
}

impl From<LockingName> for Locking {
    fn from(name: LockingName) -> Self {
        match name {
            LockingName::Optimized => Self::Optimised,
            LockingName::Plain => Self::Plain,
        }
    }
}

/// Transfers of pages between their file and a buffer pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IoName {
    /// Through the system's cache
    Buffered,
    /// Past it
    Direct,
}

impl IoName {
    /// The name on the command line and in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Direct => "direct",
        }
    }
}

impl From<IoName> for IoMode {
    fn from(name: IoName) -> Self {
        match name {
            IoName::Buffered => Self::Buffered,
            IoName::Direct => Self::Direct,
        }
    }
}

/// The moment at which a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CommitName {
    /// When it is durable
    Synchronous,
    /// Before it is durable
    Asynchronous,
}

/// Isolation: the effects of concurrent transactions that a transaction can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IsolationName {
    /// Nothing
    Serializable,
    /// New rows in ranges
    RepeatableRead,
    /// Committed data
    ReadCommitted,
}

impl IsolationName {
    /// The name on the command line and in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Serializable => "serializable",
            Self::RepeatableRead => "repeatable-read",
            Self::ReadCommitted => "read-committed",
        }
    }
}

impl From<IsolationName> for Isolation {
    fn from(name: IsolationName) -> Self {
        match name {
            IsolationName::Serializable => Self::Serializable,
            IsolationName::RepeatableRead => Self::RepeatableRead,
            IsolationName::ReadCommitted => Self::ReadCommitted,
        }
    }
}

impl From<PersistName> for Persist {
    fn from(name: PersistName) -> Self {
        match name {
            PersistName::FlushOnInsert => Self::OnInsert,
            PersistName::FlushOnCommit => Self::OnCommit,
        }
    }
}

fn parse_mixes(text: &str) -> Result<Vec<Mix>, String> {
    if text == "all" {
        return Ok(Mix::ALL.to_vec());
    }
    text.split(',').map(str::parse).collect()
}

fn parse_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if scale > 0.0 && scale <= 1.0 => Ok(scale),
        _ => Err("use a number above 0 and at most 1, for example 0.01".into()),
    }
}

fn parse_think_times(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if (0.0..=100.0).contains(&factor) => Ok(factor),
        _ => Err("use a number from 0 to 100, for example 1".into()),
    }
}
