//! Options of a database and of a transaction, and their checks.
//!
//! Some options are recorded when the database is created (method, partitions, layout, node size,
//! domain, fence order). An opening that asks for another value is refused with an error that names
//! both. The others hold while the database is open; the size of a MemTable is recorded too, for
//! openings that ask for none. All options are checked before the first file is touched, and an
//! error names the option and a valid choice.

use crate::descriptor::Descriptor;
use crate::error::{Error, Result};
use crate::lock_policy::LockPolicy;
use disk::IoMode;
use pmem::{Access, Domain, PowerFailAtomicity, Primitive};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use storage::engine::{
    Durability, EngineOptions, FenceOrder, Guard, Isolation, LogImages, LogKind, Method, Persist,
    RING_BYTES_MAX,
};
use storage::record::LayoutKind;

/// Most partitions of a database.
pub const PARTITIONS_MAX: u32 = 1024;
/// Most transactions that are open at once in a partition.
pub const SESSIONS_MAX: u32 = 1024;
/// Bytes of a buffer pool unless an option says otherwise.
pub const BUFFER_BYTES: u64 = 128 << 20;
/// Least size of a page for direct transfers.
pub const DIRECT_BYTES_MIN: u32 = 4096;
/// Least size of an area for copies of pages: sixteen of 8 KiB.
pub const AREA_BYTES_MIN: u64 = 128 << 10;
/// Size of one unless an option says otherwise: that of the doublewrite buffer of `InnoDB`.
pub const AREA_BYTES: u64 = 2 << 20;
/// The same for methods whose pages stay there: half of a buffer pool.
pub const CACHE_BYTES: u64 = 64 << 20;
/// Sessions unless the options say otherwise.
const SESSIONS: u32 = 1;
/// Bytes of memory that a transaction may hold unless an option says otherwise: some millions of
/// small rows.
pub const TRANSACTION_MEMORY_MAX: u64 = 1 << 30;
const TRANSACTION_MEMORY_LEAST: u64 = 64 << 10;
const NODE_BYTES: std::ops::RangeInclusive<u32> = 256..=8192;
/// Sizes of a page in the page methods.
const PAGE_BYTES: std::ops::RangeInclusive<u32> = 512..=16384;
const POOL_BYTES_MIN: u64 = 1 << 20;
/// Room of a session for log records: a checkpoint each hundred thousand small transactions.
const RING_BYTES: u64 = 64 << 20;
/// The same for each of the rings that sessions share.
const SHARED_RING_BYTES: u64 = 16 << 20;
/// Room for the changes of a batch: some hundred pages.
const BATCH_BYTES: u64 = 4 << 20;
/// The log of `nvwal`, unless the options say otherwise.
const DIFFERENCES_BYTES: u64 = 16 << 20;
/// Most rings of a partition that sessions share.
pub const RINGS_MAX: u32 = 256;
const GROUP_WAIT_US_MAX: u64 = 1_000_000;
const MARK_INTERVAL_MIN: Duration = Duration::from_millis(1);
const MEMTABLE_BYTES: std::ops::RangeInclusive<u64> = 1 << 10..=1 << 34;

/// Choice of the method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Choice {
    /// The best method for the medium: `nvm-inp` on DAX and shared memory, `full-page-writes` on an
    /// ordinary file system. Only for a new database: an existing one has its own.
    #[default]
    Auto,
    /// This method.
    Explicit(Method),
}

impl FromStr for Choice {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        if name == "auto" {
            return Ok(Self::Auto);
        }
        match name.parse::<Method>() {
            Ok(method) => Ok(Self::Explicit(method)),
            Err(problem) => Err(Error::option(
                "method",
                problem,
                "use one of them, or `auto`",
            )),
        }
    }
}

impl From<Method> for Choice {
    fn from(method: Method) -> Self {
        Self::Explicit(method)
    }
}

/// Operations that transactions may run on an open database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// Reads and writes.
    #[default]
    ReadWrite,
    /// Reads only: every write is refused, and neither opening nor closing changes a byte of the
    /// database, so the right to read its files is enough. A database in which a crash has left
    /// something to finish must be opened once for writing. Every durable method can be opened in
    /// this mode ([`Method::opens_for_reading`]).
    ReadOnly,
}

impl Mode {
    /// Access with which files and memories are opened.
    pub(crate) fn access(self) -> Access {
        match self {
            Self::ReadWrite => Access::Write,
            Self::ReadOnly => Access::Read,
        }
    }
}

/// Options of a database. Setters take and return the options, so that they chain.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Options {
    pub(crate) method: Option<Choice>,
    pub(crate) partitions: Option<u32>,
    pub(crate) layout: Option<LayoutKind>,
    pub(crate) node_bytes: Option<u32>,
    pub(crate) domain: Option<Domain>,
    pub(crate) primitives: Option<Primitive>,
    pub(crate) power_fail_atomicity: Option<PowerFailAtomicity>,
    pub(crate) outline_bytes: Option<usize>,
    pub(crate) fences: Option<FenceOrder>,
    pub(crate) pool_bytes: Option<u64>,
    pub(crate) group_transactions_max: Option<u32>,
    pub(crate) group_wait_us_max: Option<u64>,
    pub(crate) checkpoint_log_bytes: Option<u64>,
    pub(crate) log_images: Option<LogImages>,
    pub(crate) memtable_bytes: Option<u64>,
    pub(crate) buffer_bytes: Option<u64>,
    pub(crate) io: IoMode,
    pub(crate) ring_bytes: Option<u64>,
    pub(crate) area_bytes: Option<u64>,
    pub(crate) rings: Option<u32>,
    pub(crate) persist: Option<Persist>,
    pub(crate) log_directory: Option<PathBuf>,
    pub(crate) archive: Option<PathBuf>,
    pub(crate) sessions: Option<u32>,
    pub(crate) record_trace: Option<PathBuf>,
    pub(crate) mode: Mode,
    pub(crate) durability: Durability,
    pub(crate) mark_interval: Option<Duration>,
    pub(crate) wait_limit: Option<Duration>,
    pub(crate) isolation: Isolation,
    pub(crate) transaction_memory_max: Option<u64>,
    pub(crate) retries_max: Option<u32>,
    pub(crate) identity: Option<u128>,
}

impl Options {
    /// The defaults: method by medium, one partition, durable at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// Most open transactions of a partition, if its method can have several.
    pub(crate) fn session_count(&self) -> usize {
        self.sessions.unwrap_or(SESSIONS) as usize
    }

    /// The method, or [`Choice::Auto`]. Recorded.
    pub fn method(mut self, method: impl Into<Choice>) -> Self {
        self.method = Some(method.into());
        self
    }

    /// Number of partitions, 1 to [`PARTITIONS_MAX`]. Recorded. Default 1.
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.partitions = Some(partitions);
        self
    }

    /// Layout of tuples in memory. Recorded. Default together.
    pub fn layout(mut self, layout: LayoutKind) -> Self {
        self.layout = Some(layout);
        self
    }

    /// Bytes of an index node: a power of two from 256 to 8192. Recorded. Default 512. For the page
    /// methods, bytes of a page: 512 to 16384, default 8192.
    pub fn node_bytes(mut self, node_bytes: u32) -> Self {
        self.node_bytes = Some(node_bytes);
        self
    }

    /// The persistence domain that the medium must give; an error if it gives less. Recorded.
    /// Default: that of the medium.
    pub fn domain(mut self, domain: Domain) -> Self {
        self.domain = Some(domain);
        self
    }

    /// Issues the instructions of another domain, to measure their cost. The guarantees of the data
    /// do not change.
    pub fn primitives(mut self, primitives: Primitive) -> Self {
        self.primitives = Some(primitives);
        self
    }

    /// The bytes that the platform promises to survive a power cut whole.
    /// [`PowerFailAtomicity::Line`] lets `fast` store the header of a page, by which it commits, in
    /// one transfer and without a flush. No program can find out whether the platform does so; if
    /// it does not, a power cut may damage a page. Requires a processor with a 64-byte direct
    /// store, and is an error elsewhere. Not recorded: each choice can open a database written with
    /// the other. Default [`PowerFailAtomicity::Word`].
    pub fn power_fail_atomicity(mut self, atomicity: PowerFailAtomicity) -> Self {
        self.power_fail_atomicity = Some(atomicity);
        self
    }

    /// Most bytes of DRAM in each partition for the keys of slotted pages side by side (`fash`,
    /// `fast`), so that a search waits for memory less often: 448 for each page of rows, in use as
    /// pages are read. 0 makes a search read the pages alone, as in the paper. Not recorded.
    /// Default 64 MiB.
    pub fn outline_bytes(mut self, bytes: usize) -> Self {
        self.outline_bytes = Some(bytes);
        self
    }

    /// Order of durable steps in the NVM-aware methods. Recorded. Default: [`FenceOrder::Single`].
    pub fn fences(mut self, fences: FenceOrder) -> Self {
        self.fences = Some(fences);
        self
    }

    /// First size of each partition's pool in bytes, at least 1 MiB; pools grow by themselves.
    pub fn pool_bytes(mut self, pool_bytes: u64) -> Self {
        self.pool_bytes = Some(pool_bytes);
        self
    }

    /// Most transactions in a commit group. Default 64.
    pub fn group_transactions_max(mut self, transactions: u32) -> Self {
        self.group_transactions_max = Some(transactions);
        self
    }

    /// Longest time that a commit waits for others to join its group, in microseconds, at most a
    /// second. Default 100.
    pub fn group_wait_us_max(mut self, wait_us: u64) -> Self {
        self.group_wait_us_max = Some(wait_us);
        self
    }

    /// Log length in bytes that triggers a checkpoint, in methods that have them. In page methods
    /// on real devices a thread writes it; a transaction waits for it at its end if the log has
    /// become three times as long by then. Page methods with a central log keep files of up to this
    /// many bytes to use them again. With `full-page-writes` images of pages count an eighth of
    /// their bytes.
    pub fn checkpoint_log_bytes(mut self, bytes: u64) -> Self {
        self.checkpoint_log_bytes = Some(bytes);
        self
    }

    /// Images of a changed row in the write-ahead log of `inp` or `log`; each opening may choose
    /// again. Default: the after image, which is all that recovery needs.
    pub fn log_images(mut self, images: LogImages) -> Self {
        self.log_images = Some(images);
        self
    }

    /// Bytes of changes after which a MemTable of the log-structured methods is full, 1 KiB to 16
    /// GiB. Recorded, and each opening may choose another value. Default 64 MiB. Larger ones are
    /// merged less often and hold more volatile memory (`log`, twice as much) and log.
    pub fn memtable_bytes(mut self, bytes: u64) -> Self {
        self.memtable_bytes = Some(bytes);
        self
    }

    /// Bytes of the buffer pool of each partition of the page methods, at least 64 pages, and of
    /// the frames of `nvwal`, at least 48. Each opening may choose again. Default [`BUFFER_BYTES`].
    pub fn buffer_bytes(mut self, bytes: u64) -> Self {
        self.buffer_bytes = Some(bytes);
        self
    }

    /// How pages travel between their file and the buffer pool: through the operating system's
    /// cache, or directly. Direct transfers leave the memory of that cache to the pool, which is
    /// then the only cache. Several of them run at the same time: reads of all sessions, prefetches
    /// of scans, writes of a batch. They need pages of at least [`DIRECT_BYTES_MIN`], a file system
    /// that supports them, and a device of this machine. Each opening may choose again. Default
    /// [`IoMode::Buffered`].
    pub fn io(mut self, mode: IoMode) -> Self {
        self.io = mode;
        self
    }

    /// Room for log records in durable memory, in bytes, of a session of `nv-logging` or of each
    /// ring of `distributed-log`: at most 128 MiB; at least 256 pages are taken. Fixed when the
    /// session first writes, or when the database is created. Default 64 MiB, or 16 for each ring
    /// of `distributed-log`. A checkpoint is due when three eighths of it are used, and sessions
    /// wait for it at half; transactions can use the rest. In `group-commit` the bytes that a batch
    /// may change until it is closed, 4 MiB by default, read when the database is created; a
    /// transaction that needs more makes more. In `nvwal` its log, 16 MiB by default, fixed when
    /// the database is created.
    pub fn ring_bytes(mut self, bytes: u64) -> Self {
        self.ring_bytes = Some(bytes);
        self
    }

    /// Bytes of durable memory in each partition for copies of pages, in the methods with such an
    /// area, at least [`AREA_BYTES_MIN`]. Fixed when the database is created. Default
    /// [`AREA_BYTES`], or [`CACHE_BYTES`] in `nvm-dwb-log-opt`, whose pages stay there.
    pub fn area_bytes(mut self, bytes: u64) -> Self {
        self.area_bytes = Some(bytes);
        self
    }

    /// Rings of `distributed-log` in each partition, which sessions share: 1 to [`RINGS_MAX`].
    /// Fixed when the database is created. Default 16.
    pub fn rings(mut self, rings: u32) -> Self {
        self.rings = Some(rings);
        self
    }

    /// The step at which a log record of `nv-logging` becomes durable. Each opening may choose
    /// again. Default [`Persist::OnInsert`].
    pub fn persist(mut self, persist: Persist) -> Self {
        self.persist = Some(persist);
        self
    }

    /// Gives the log of a page method a directory of its own, new or empty: on another disk, or in
    /// durable memory next to a disk. Everything but the pages goes there. Recorded, as the
    /// symbolic link `log`. With [`Choice::Auto`] and durable memory there, the method is
    /// `nv-logging`. Default: in the directory of the pages.
    pub fn log_directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.log_directory = Some(path.into());
        self
    }

    /// Lets the log of a page method with pages in files move records that recovery no longer needs
    /// to files in a directory, on another disk for example, before their space is used again; a
    /// thread does so after each checkpoint. Recorded, as the symbolic link `archive`, so later
    /// openings continue without the option; an existing database begins with the opening that has
    /// it. If the directory is full, or fails, the log waits when it has no room left, and says so:
    /// nothing is lost. Each database needs a directory of its own. Default: space is used again at
    /// once.
    pub fn archive(mut self, path: impl Into<PathBuf>) -> Self {
        self.archive = Some(path.into());
        self
    }

    /// Transactions that may be open at once in each partition of the page methods, 1 to
    /// [`SESSIONS_MAX`]; more wait for their turn. Each opening may choose again. Default 1, as in
    /// the other methods: a transaction that holds a partition waits for nobody in it. With more,
    /// transactions wait for locks, and one that closes a deadlock, in this partition or over
    /// several, is undone and run again.
    pub fn sessions(mut self, sessions: u32) -> Self {
        self.sessions = Some(sessions);
        self
    }

    /// Records the transactions, from the opening on, in a new file at `path`, for
    /// `indelible advise --trace`. The recording ends with
    /// [`Database::finish_trace`](crate::Database::finish_trace) or when the database closes. It
    /// has no names, keys or values, only sizes and salted hashes of keys. Default: none, which
    /// costs each operation a look at a flag.
    pub fn record_trace(mut self, path: impl Into<PathBuf>) -> Self {
        self.record_trace = Some(path.into());
        self
    }

    /// Whether transactions may write.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// When commits are acknowledged, unless a transaction says otherwise. Default immediately
    /// durable.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Isolation of transactions from others that run at the same time, unless their own options
    /// say otherwise. Default [`Isolation::Serializable`].
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// Interval at which the logs of a database of several partitions with archives get a mark, up
    /// to which their archives can be restored as one database; a second unless chosen. All
    /// partitions are held for some microseconds then, and nothing is synced. No mark is written if
    /// nothing has changed.
    pub fn mark_interval(mut self, interval: Duration) -> Self {
        self.mark_interval = Some(interval);
        self
    }

    /// Longest wait for a partition before `Conflict`. Default 10 seconds.
    pub fn wait_limit(mut self, limit: Duration) -> Self {
        self.wait_limit = Some(limit);
        self
    }

    /// Most bytes of memory that a transaction may hold for its changes until it ends, at least 64
    /// KiB, whatever the method. A change beyond that is refused with [`Error::TransactionMemory`]
    /// and has no effect; the transaction may commit its earlier changes. `docs/methods.md` gives
    /// the cost of a row in each method. Default [`TRANSACTION_MEMORY_MAX`].
    pub fn transaction_memory_max(mut self, bytes: u64) -> Self {
        self.transaction_memory_max = Some(bytes);
        self
    }

    /// How often a closure is run again after `Conflict` before the error is returned. Default 100.
    pub fn retries_max(mut self, retries: u32) -> Self {
        self.retries_max = Some(retries);
        self
    }

    /// The identity of a new database, instead of a random one, and no time of creation: for tests
    /// whose files must repeat byte for byte.
    pub fn identity(mut self, identity: u128) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Checks every value that can be checked without touching the medium.
    pub fn check(&self) -> Result<()> {
        if let Some(partitions) = self.partitions
            && !(1..=PARTITIONS_MAX).contains(&partitions)
        {
            let remedy = format!("use 1 to {PARTITIONS_MAX}");
            return Err(Error::option("partitions", partitions.to_string(), remedy));
        }
        let is_paged = matches!(self.method, Some(Choice::Explicit(method)) if method.is_paged());
        let possible = if is_paged { PAGE_BYTES } else { NODE_BYTES };
        if let Some(bytes) = self.node_bytes
            && !(possible.contains(&bytes) && bytes.is_power_of_two())
        {
            let (least, most) = (possible.start(), possible.end());
            let remedy = format!("use a power of two from {least} to {most}");
            let problem = format!("{bytes} bytes");
            return Err(Error::option("node_bytes", problem, remedy));
        }
        if let Some(bytes) = self.pool_bytes
            && bytes < POOL_BYTES_MIN
        {
            let remedy = format!("use at least {POOL_BYTES_MIN}");
            let problem = format!("{bytes} bytes");
            return Err(Error::option("pool_bytes", problem, remedy));
        }
        if self.group_transactions_max == Some(0) {
            return Err(Error::option(
                "group_transactions_max",
                "0",
                "use at least 1",
            ));
        }
        if let Some(bytes) = self.transaction_memory_max
            && bytes < TRANSACTION_MEMORY_LEAST
        {
            return Err(Error::option(
                "transaction_memory_max",
                format!("{bytes} bytes"),
                format!("use at least {TRANSACTION_MEMORY_LEAST}"),
            ));
        }
        if let Some(interval) = self.mark_interval
            && interval < MARK_INTERVAL_MIN
        {
            return Err(Error::option(
                "mark_interval",
                format!("{interval:?}"),
                format!("use at least {MARK_INTERVAL_MIN:?}"),
            ));
        }
        if let Some(wait_us) = self.group_wait_us_max
            && wait_us > GROUP_WAIT_US_MAX
        {
            let remedy = format!("use at most {GROUP_WAIT_US_MAX}");
            return Err(Error::option(
                "group_wait_us_max",
                format!("{wait_us} us"),
                remedy,
            ));
        }
        if let Some(bytes) = self.memtable_bytes
            && !MEMTABLE_BYTES.contains(&bytes)
        {
            let remedy = "use 1024 bytes to 16 GiB";
            let problem = format!("{bytes} bytes");
            return Err(Error::option("memtable_bytes", problem, remedy));
        }
        self.check_pairs()
    }

    /// Rejects pairs of options that make no sense together.
    fn check_pairs(&self) -> Result<()> {
        let volatile = self.method == Some(Choice::Explicit(Method::Volatile));
        if let (true, Some(domain)) = (volatile, self.domain) {
            return Err(Error::option(
                "domain",
                format!("`{domain}` with method `volatile`, which keeps nothing"),
                "leave it out, or choose a durable method",
            ));
        }
        if let (Some(Choice::Explicit(method)), Some(order)) = (self.method, self.fences)
            && order != FenceOrder::default()
            && !matches!(method, Method::NvmInp | Method::NvmLog)
        {
            return Err(Error::option(
                "fences",
                format!("method `{method}` has no fences to order"),
                "leave it out, or use method `nvm-inp`",
            ));
        }
        if let (Some(Choice::Explicit(method)), Some(PowerFailAtomicity::Line)) =
            (self.method, self.power_fail_atomicity)
            && method != Method::Fast
        {
            return Err(Error::option(
                "power_fail_atomicity",
                format!("method `{method}` needs no more than 8 bytes"),
                "leave it out, or use method `fast`",
            ));
        }
        if let (Some(Choice::Explicit(method)), Some(_)) = (self.method, self.outline_bytes)
            && !method.has_outlines()
        {
            return Err(Error::option(
                "outline_bytes",
                format!("method `{method}` has no slotted pages in durable memory"),
                "leave it out, or use method `fash` or `fast`",
            ));
        }
        if let (Some(Choice::Explicit(method)), Some(_)) = (self.method, self.memtable_bytes)
            && !matches!(method, Method::Log | Method::NvmLog)
        {
            return Err(Error::option(
                "memtable_bytes",
                format!("method `{method}` has no MemTable"),
                "leave it out, or use method `log` or `nvm-log`",
            ));
        }
        if let (Some(Choice::Explicit(method)), Some(_)) = (self.method, self.log_images)
            && !method.has_log_images()
        {
            return Err(Error::option(
                "log_images",
                format!("method `{method}` has no write-ahead log in a file"),
                "leave it out, or use method `inp` or `log`",
            ));
        }
        self.check_paged()
    }

    /// Rejects options of the page methods that make no sense with the method, or at all.
    fn check_paged(&self) -> Result<()> {
        if let (Some(Choice::Explicit(method)), Some(_)) = (self.method, self.buffer_bytes)
            && !method.has_buffer_bytes()
        {
            return Err(Error::option(
                "buffer_bytes",
                format!("method `{method}` has no buffer pool"),
                "leave it out, or use method `full-page-writes`, `dwb` or `nvwal`",
            ));
        }
        if let (Some(Choice::Explicit(method)), IoMode::Direct) = (self.method, self.io) {
            check_direct(method, self.node_bytes.unwrap_or(DIRECT_BYTES_MIN))?;
        }
        if let (Some(Choice::Explicit(method)), Some(path)) = (self.method, &self.log_directory)
            && !method.has_buffer_pool()
        {
            return Err(Error::option(
                "log_directory",
                format!(
                    "{} for method `{method}`, which has its log where its data is",
                    path.display()
                ),
                "leave it out, or use `nv-logging`, `full-page-writes` or another page method",
            ));
        }
        if let (Some(Choice::Explicit(method)), Some(path)) = (self.method, &self.archive) {
            check_archive(method, path)?;
        }
        if let Some(Choice::Explicit(method)) = self.method {
            self.check_rings(method)?;
        }
        if let Some(rings) = self.rings
            && !(1..=RINGS_MAX).contains(&rings)
        {
            let remedy = format!("use 1 to {RINGS_MAX}");
            let problem = format!("{rings} is out of range");
            return Err(Error::option("rings", problem, remedy));
        }
        if let Some(bytes) = self.ring_bytes
            && bytes > RING_BYTES_MAX
        {
            let remedy = format!("use at most {RING_BYTES_MAX}");
            let problem = format!("{bytes} bytes");
            return Err(Error::option("ring_bytes", problem, remedy));
        }
        self.check_area()?;
        if let Some(sessions) = self.sessions
            && !(1..=SESSIONS_MAX).contains(&sessions)
        {
            let remedy = format!("use 1 to {SESSIONS_MAX}");
            return Err(Error::option(
                "sessions",
                format!("{sessions} is out of range"),
                remedy,
            ));
        }
        if let (Some(Choice::Explicit(method)), Some(2..)) = (self.method, self.sessions)
            && !method.is_paged()
        {
            return Err(Error::option(
                "sessions",
                format!("method `{method}` runs one transaction at a time in a partition"),
                "use partitions, or method `full-page-writes` or `dwb`",
            ));
        }
        Ok(())
    }

    /// Rejects an area for copies of pages that makes no sense.
    fn check_area(&self) -> Result<()> {
        let Some(bytes) = self.area_bytes else {
            return Ok(());
        };
        if let Some(Choice::Explicit(method)) = self.method
            && !method.has_area()
        {
            return Err(Error::option(
                "area_bytes",
                format!("method `{method}` has no area for copies of pages in durable memory"),
                "leave it out, or use method `nvm-dwb`, `nvm-dwb-log` or `nvm-dwb-log-opt`",
            ));
        }
        if bytes < AREA_BYTES_MIN {
            let remedy = format!("use {AREA_BYTES_MIN} or more");
            let problem = format!("{bytes} bytes");
            return Err(Error::option("area_bytes", problem, remedy));
        }
        Ok(())
    }

    /// Rejects options of the logs in durable memory that make no sense with the method.
    fn check_rings(&self, method: Method) -> Result<()> {
        let refuse = |option, problem: &str, methods: &str| {
            let remedy = format!("leave it out, or use method {methods}");
            Err(Error::option(
                option,
                format!("method `{method}` {problem}"),
                remedy,
            ))
        };
        if self.ring_bytes.is_some() && !method.has_ring_bytes() {
            let problem = "has no log in rings of durable memory";
            return refuse(
                "ring_bytes",
                problem,
                "`nv-logging`, `distributed-log`, `in-place`, `group-commit` or `nvwal`",
            );
        }
        if self.persist.is_some() && !method.chooses_persist() {
            let problem = "leaves no choice of when a log record becomes durable";
            return refuse("persist", problem, "`nv-logging`");
        }
        if self.rings.is_some() && !method.shares_rings() {
            let problem = "has no rings that sessions share";
            return refuse("rings", problem, "`distributed-log`");
        }
        Ok(())
    }

    /// Fails if these options ask for something else than is recorded.
    pub(crate) fn check_against(&self, recorded: &Descriptor) -> Result<()> {
        if let Some(Choice::Explicit(method)) = self.method {
            same("method", &method, &recorded.method)?;
        }
        if let Some(partitions) = self.partitions {
            same("partitions", &partitions, &recorded.partitions)?;
        }
        if let Some(layout) = self.layout {
            same("layout", &Shown(layout), &Shown(recorded.layout))?;
        }
        if let Some(bytes) = self.node_bytes {
            same("node_bytes", &bytes, &recorded.node_bytes)?;
        }
        if let Some(fences) = self.fences {
            same("fences", &Shown(fences), &Shown(recorded.fences))?;
        }
        Ok(())
    }

    /// Options of the engines of a database with these options and this descriptor.
    pub(crate) fn engine(&self, recorded: &Descriptor) -> EngineOptions {
        let default = EngineOptions::default();
        EngineOptions {
            partition: 0,
            access: self.mode.access(),
            database_id: recorded.database_id,
            layout: recorded.layout,
            node_bytes: recorded.node_bytes,
            page_bytes: recorded.node_bytes,
            fences: recorded.fences,
            atomicity: self.power_fail_atomicity.unwrap_or_default(),
            outline_bytes: self.outline_bytes.unwrap_or(default.outline_bytes),
            pool_bytes: self.pool_bytes.unwrap_or(default.pool_bytes),
            group_transactions_max: self
                .group_transactions_max
                .unwrap_or(default.group_transactions_max),
            group_wait_us_max: self.group_wait_us_max.unwrap_or(default.group_wait_us_max),
            checkpoint_log_bytes: self
                .checkpoint_log_bytes
                .unwrap_or(default.checkpoint_log_bytes),
            log_images: self.log_images.unwrap_or(default.log_images),
            memtable_bytes: self
                .memtable_bytes
                .or(recorded.memtable_bytes)
                .unwrap_or(default.memtable_bytes),
            buffer_bytes: self.buffer_bytes.unwrap_or(BUFFER_BYTES),
            ring_bytes: self.ring_bytes.unwrap_or(match recorded.method.axes() {
                Some(axes) if axes.log == LogKind::Distributed => SHARED_RING_BYTES,
                Some(axes) if axes.log == LogKind::Volatile => BATCH_BYTES,
                None => DIFFERENCES_BYTES,
                _ => RING_BYTES,
            }),
            rings: self.rings.unwrap_or(default.rings),
            persist: self.persist.unwrap_or(default.persist),
            area_bytes: self.area_bytes.unwrap_or(match recorded.method.axes() {
                Some(axes) if axes.guard == Guard::NvPageCache => CACHE_BYTES,
                _ => AREA_BYTES,
            }),
            ..default
        }
    }
}

/// Shows an enum without a display text by its name.
#[derive(PartialEq)]
struct Shown<T>(T);

impl<T: std::fmt::Debug> std::fmt::Display for Shown<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", format!("{:?}", self.0).to_lowercase())
    }
}

fn same<T: PartialEq + std::fmt::Display>(
    option: &'static str,
    asked: &T,
    recorded: &T,
) -> Result<()> {
    if asked == recorded {
        return Ok(());
    }
    Err(Error::option(
        option,
        format!("the database was created with `{recorded}`, and `{asked}` was asked for"),
        "leave the option out, or convert the database into a new one",
    ))
}

/// Options of one transaction.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct TransactionOptions {
    pub(crate) partitions: Vec<u32>,
    pub(crate) durability: Option<Durability>,
    pub(crate) wait_limit: Option<Duration>,
    pub(crate) isolation: Option<Isolation>,
}

impl TransactionOptions {
    /// The database's defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares the partitions that the transaction will touch: they are locked at its start in
    /// ascending order, so that it cannot conflict over them. Others may still be touched.
    pub fn partitions(mut self, partitions: impl IntoIterator<Item = u32>) -> Self {
        self.partitions = partitions.into_iter().collect();
        self.partitions.sort_unstable();
        self.partitions.dedup();
        self
    }

    /// When this transaction is acknowledged. One that writes in several partitions is durable at
    /// once in any case, because its commit point is.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Longest wait for a partition, or for a lock in it, before the transaction is undone.
    pub fn wait_limit(mut self, limit: Duration) -> Self {
        self.wait_limit = Some(limit);
        self
    }

    /// Isolation of this transaction from others that run at the same time. Methods that run one
    /// transaction at a time in a partition isolate all of them fully.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = Some(isolation);
        self
    }

    /// The lock policy of the transaction, where `usual` is that of the database.
    pub(crate) fn lock_policy(&self, usual: LockPolicy) -> LockPolicy {
        LockPolicy {
            wait_limit: self.wait_limit.unwrap_or(usual.wait_limit),
            isolation: self.isolation.unwrap_or(usual.isolation),
        }
    }
}

/// Rejects an archive for a method whose log has nothing to move there.
pub(crate) fn check_archive(method: Method, path: &Path) -> Result<()> {
    if method.has_buffer_pool() {
        return Ok(());
    }
    let why = if method.axes().is_some() {
        "whose log has only what undoes transactions that are open"
    } else {
        "whose log, if it has one, is of rows and ends with each checkpoint"
    };
    Err(Error::option(
        "archive",
        format!(
            "{} for method `{method}`, {why}: there is nothing to archive",
            path.display()
        ),
        "leave it out, or use a page method with pages in files, such as `full-page-writes` or `nv-logging`",
    ))
}

/// Rejects direct transfers if there are no pages for them.
pub(crate) fn check_direct(method: Method, page_bytes: u32) -> Result<()> {
    let problem = if !method.has_buffer_pool() {
        format!("method `{method}` has no pages in files to be read directly")
    } else if page_bytes < DIRECT_BYTES_MIN {
        format!("pages of {page_bytes} bytes are less than a block of direct transfers")
    } else {
        return Ok(());
    };
    let remedy = format!(
        "use buffered transfers, or a page method such as `full-page-writes` with pages of {DIRECT_BYTES_MIN} bytes or more"
    );
    Err(Error::option("io", problem, remedy))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bad_value_names_its_option() {
        let cases: [(Options, &str); 11] = [
            (Options::new().partitions(0), "partitions"),
            (Options::new().node_bytes(300), "node_bytes"),
            (Options::new().pool_bytes(5), "pool_bytes"),
            (
                Options::new().group_transactions_max(0),
                "group_transactions_max",
            ),
            (Options::new().memtable_bytes(5), "memtable_bytes"),
            (
                Options::new().method(Method::Nvwal).outline_bytes(0),
                "outline_bytes",
            ),
            (Options::new().method(Method::Inp).io(IoMode::Direct), "io"),
            (
                Options::new().method(Method::Inp).memtable_bytes(1 << 20),
                "memtable_bytes",
            ),
            (
                Options::new()
                    .method(Method::Cow)
                    .log_images(LogImages::BeforeAndAfter),
                "log_images",
            ),
            (
                Options::new()
                    .method(Method::Volatile)
                    .domain(Domain::Flush),
                "domain",
            ),
            (
                Options::new().method(Method::Inp).fences(FenceOrder::Paper),
                "fences",
            ),
        ];
        for (options, name) in cases {
            let error = options.check().unwrap_err();
            assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
        }
    }

    #[test]
    fn an_unknown_method_lists_the_known_ones() {
        let error = "wal".parse::<Choice>().unwrap_err().to_string();
        assert!(
            error.contains("nvm-inp") && error.contains("auto"),
            "{error}"
        );
        assert_eq!("auto".parse::<Choice>().unwrap(), Choice::Auto);
    }
}
