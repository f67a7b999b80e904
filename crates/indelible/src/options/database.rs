//! The options of a database that a user sets.
//!
//! Setters take and return the options, so that they chain. Nothing is checked here: an option may
//! be set before the method that takes it.

use super::MethodOption;
use crate::error::Error;
use disk::IoMode;
use pmem::{Access, Domain, PowerFailAtomicity, Primitive};
use std::mem::discriminant;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use storage::engine::{
    CommitOrder, Durability, FenceOrder, HeaderImages, Isolation, Locking, LogImages, Method,
    Persist,
};
use storage::record::LayoutKind;

/// Bytes of memory that a transaction may hold unless an option says otherwise: some millions of
/// small rows.
pub const TRANSACTION_MEMORY_MAX: u64 = 1 << 30;
/// Default of [`Options::snapshot_memory_max`].
pub const SNAPSHOT_MEMORY_MAX: u64 = 256 << 20;
/// Default of [`Options::locks_max`]: about 350 bytes each.
pub const LOCKS_MAX: usize = 1 << 22;
/// Default of [`Options::connections_max`].
pub const CONNECTIONS_MAX: u32 = 10_000;
/// Default of [`Options::prepared_max`].
pub const PREPARED_MAX: u32 = 64;

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

    fn from_str(name: &str) -> Result<Self, Error> {
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

/// Options of a database.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Options {
    pub(crate) method: Option<Choice>,
    pub(crate) partitions: Option<u32>,
    pub(crate) layout: Option<LayoutKind>,
    pub(crate) node_bytes: Option<u32>,
    pub(crate) domain: Option<Domain>,
    pub(crate) primitives: Option<Primitive>,
    pub(crate) pool_bytes: Option<u64>,
    pub(crate) group_transactions_max: Option<u32>,
    pub(crate) group_wait_us_max: Option<u64>,
    pub(crate) checkpoint_log_bytes: Option<u64>,
    pub(crate) record_trace: Option<PathBuf>,
    pub(crate) mode: Mode,
    pub(crate) durability: Durability,
    pub(crate) mark_interval: Option<Duration>,
    pub(crate) wait_limit: Option<Duration>,
    pub(crate) isolation: Isolation,
    pub(crate) transaction_memory_max: Option<u64>,
    pub(crate) snapshot_memory_max: Option<u64>,
    pub(crate) locks_max: Option<usize>,
    pub(crate) connections_max: Option<u32>,
    pub(crate) prepared_max: Option<u32>,
    pub(crate) retries_max: Option<u32>,
    pub(crate) exact_keys: bool,
    pub(crate) identity: Option<u128>,
    pub(super) of_method: Vec<MethodOption>,
}

impl Options {
    /// The defaults: method by medium, one partition, durable at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// The method, or [`Choice::Auto`]. Recorded.
    pub fn method(mut self, method: impl Into<Choice>) -> Self {
        self.method = Some(method.into());
        self
    }

    /// Number of partitions, 1 to [`PARTITIONS_MAX`]. Recorded. Default 1.
    ///
    /// [`PARTITIONS_MAX`]: crate::PARTITIONS_MAX
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.partitions = Some(partitions);
        self
    }

    /// Layout of tuples in memory. Recorded. Default together.
    pub fn layout(mut self, layout: LayoutKind) -> Self {
        self.layout = Some(layout);
        self
    }

    /// Bytes of an index node: a power of two from 256 to 8192; from 128 for `nvm-inp` and
    /// `nvm-log`, up to 16384 for `cow` and `nvm-cow`. Recorded. Default 512. For the page methods,
    /// bytes of a page: 512 to 16384, default 8192.
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
    pub fn power_fail_atomicity(self, atomicity: PowerFailAtomicity) -> Self {
        self.with(MethodOption::PowerFailAtomicity(atomicity))
    }

    /// Most bytes of DRAM in each partition for the keys of slotted pages side by side (`fash`,
    /// `fast`), so that a search waits for memory less often: 448 for each page of rows, in use as
    /// pages are read. 0 makes a search read the pages alone, as in the paper. Not recorded.
    /// Default 64 MiB.
    pub fn outline_bytes(self, bytes: usize) -> Self {
        self.with(MethodOption::OutlineBytes(bytes))
    }

    /// Form of the headers of pages in the log of `fash` or `fast`; each opening may choose again.
    /// Default: the difference to the header before, where that is shorter.
    pub fn header_images(self, images: HeaderImages) -> Self {
        self.with(MethodOption::HeaderImages(images))
    }

    /// Most bytes of DRAM in each partition for hints of `nvm-inp`, which say where the rows of
    /// primary keys lie, so that a look-up need not search the tree: 5 to 10 for each row, in use
    /// as rows are inserted and read. Rows beyond the budget are found in the tree. 0 makes none.
    /// Not recorded. Default 256 MiB.
    pub fn hint_bytes(self, bytes: u64) -> Self {
        self.with(MethodOption::HintBytes(bytes))
    }

    /// Bytes of durable memory in each partition over which the commits of `nvm-inp`, `nvm-log`,
    /// `fash` and `fast` spread their records, at least 32 KiB (in `fash` and `fast` a power of
    /// two, and none with 0): half of it makes its most written line wear out twice as fast.
    /// Counts when the partition is created, or when one of `nvm-inp` or `nvm-log` of an older
    /// format is opened; a device without room for it gives 32 KiB, and so does
    /// [`FenceOrder::Paper`], whose list does not move. Default 4 MiB, where this line
    /// lasts five years at a million changes a second if the medium endures 10^10 writes.
    pub fn rotation_bytes(self, bytes: u64) -> Self {
        self.with(MethodOption::RotationBytes(bytes))
    }

    /// Order of durable steps in the NVM-aware methods. Recorded. Default: [`FenceOrder::Single`].
    pub fn fences(self, fences: FenceOrder) -> Self {
        self.with(MethodOption::Fences(fences))
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
    pub fn log_images(self, images: LogImages) -> Self {
        self.with(MethodOption::LogImages(images))
    }

    /// Bytes of changes after which a MemTable of the log-structured methods is full, 1 KiB to 16
    /// GiB. Recorded, and each opening may choose another value. Default 64 MiB. Larger ones are
    /// merged less often and hold more volatile memory (`log`, twice as much) and log.
    pub fn memtable_bytes(self, bytes: u64) -> Self {
        self.with(MethodOption::MemtableBytes(bytes))
    }

    /// How many times as large as the level before it a level of runs of `log` or `nvm-log` may
    /// become, 2 to 64; each opening may choose again. Default 8. Larger ones have fewer levels to
    /// read and merge more at a time.
    pub fn growth_factor(self, factor: u32) -> Self {
        self.with(MethodOption::GrowthFactor(factor))
    }

    /// Bytes of the page cache of each partition of `cow`; each opening may choose again. Default
    /// 512 MiB.
    pub fn page_cache_bytes(self, bytes: usize) -> Self {
        self.with(MethodOption::PageCacheBytes(bytes))
    }

    /// Bytes of the buffer pool of each partition of the page methods, at least 64 pages, and of
    /// the frames of `nvwal` and `slot-header-journal`, at least 48. Each opening may choose again.
    /// Default [`BUFFER_BYTES`].
    ///
    /// [`BUFFER_BYTES`]: crate::BUFFER_BYTES
    pub fn buffer_bytes(self, bytes: u64) -> Self {
        self.with(MethodOption::BufferBytes(bytes))
    }

    /// How pages travel between their file and the buffer pool: through the operating system's
    /// cache, or directly. Direct transfers leave the memory of that cache to the pool, which is
    /// then the only cache. Several of them run at the same time: reads of all sessions, prefetches
    /// of scans, writes of a batch. They need pages of at least [`DIRECT_BYTES_MIN`], a file system
    /// that supports them, and a device of this machine. Each opening may choose again. Default
    /// [`IoMode::Buffered`].
    ///
    /// [`DIRECT_BYTES_MIN`]: crate::DIRECT_BYTES_MIN
    pub fn io(self, mode: IoMode) -> Self {
        self.with(MethodOption::Io(mode))
    }

    /// Room for log records in durable memory, in bytes, of a session of `nv-logging` or of each
    /// ring of `distributed-log`: at most 128 MiB; at least 256 pages are taken. Fixed when the
    /// session first writes, or when the database is created. Default 64 MiB, or 16 for each ring
    /// of `distributed-log`. A checkpoint is due when three eighths of it are used, and sessions
    /// wait for it at half; transactions can use the rest. In `group-commit` the bytes that a batch
    /// may change until it is closed, 4 MiB by default, read when the database is created; a
    /// transaction that needs more makes more. In `nvwal` its log, 16 MiB by default, and in
    /// `slot-header-journal` the journal, 1 MiB, fixed when the database is created.
    pub fn ring_bytes(self, bytes: u64) -> Self {
        self.with(MethodOption::RingBytes(bytes))
    }

    /// Bytes of durable memory in each partition for copies of pages, in the methods with such an
    /// area, at least [`AREA_BYTES_MIN`]. Fixed when the database is created. Default
    /// [`AREA_BYTES`], or [`CACHE_BYTES`] in `nvm-dwb-log-opt`, whose pages stay there.
    ///
    /// [`AREA_BYTES_MIN`]: crate::AREA_BYTES_MIN
    /// [`AREA_BYTES`]: crate::AREA_BYTES
    /// [`CACHE_BYTES`]: crate::CACHE_BYTES
    pub fn area_bytes(self, bytes: u64) -> Self {
        self.with(MethodOption::AreaBytes(bytes))
    }

    /// Rings of `distributed-log` in each partition, which sessions share: 1 to [`RINGS_MAX`].
    /// Fixed when the database is created. Default 16.
    ///
    /// [`RINGS_MAX`]: crate::RINGS_MAX
    pub fn rings(self, rings: u32) -> Self {
        self.with(MethodOption::Rings(rings))
    }

    /// The step at which a log record of `nv-logging` becomes durable. Each opening may choose
    /// again. Default [`Persist::OnInsert`].
    pub fn persist(self, persist: Persist) -> Self {
        self.with(MethodOption::Persist(persist))
    }

    /// Whether a commit of `nv-logging` waits for the earlier records of other sessions. Each
    /// opening may choose again. Default [`CommitOrder::Whole`]; the other choice is for
    /// comparisons with the published system, and **can lose acknowledged commits in a power
    /// cut**.
    pub fn commit_order(self, order: CommitOrder) -> Self {
        self.with(MethodOption::CommitOrder(order))
    }

    /// Manners of the locks of the page methods, but for `group-commit`. Each opening may choose
    /// again. Default [`Locking::Optimised`]; the other choice is slower, for comparisons.
    pub fn locking(self, locking: Locking) -> Self {
        self.with(MethodOption::Locking(locking))
    }

    /// Gives the log of a page method a directory of its own, new or empty: on another disk, or in
    /// durable memory next to a disk. Everything but the pages goes there. Recorded, as the
    /// symbolic link `log`. With [`Choice::Auto`] and durable memory there, the method is
    /// `nv-logging`. Default: in the directory of the pages.
    pub fn log_directory(self, path: impl Into<PathBuf>) -> Self {
        self.with(MethodOption::LogDirectory(path.into()))
    }

    /// Lets the log of a page method with pages in files move records that recovery no longer needs
    /// to files in a directory, on another disk for example, before their space is used again; a
    /// thread does so after each checkpoint. Recorded, as the symbolic link `archive`, so later
    /// openings continue without the option; an existing database begins with the opening that has
    /// it. If the directory is full, or fails, the log waits when it has no room left, and says so:
    /// nothing is lost. Each database needs a directory of its own. Default: space is used again at
    /// once.
    pub fn archive(self, path: impl Into<PathBuf>) -> Self {
        self.with(MethodOption::Archive(path.into()))
    }

    /// Transactions that may be open at once in each partition of the page methods, 1 to
    /// [`SESSIONS_MAX`]; more wait for their turn. Each opening may choose again. Default 1, as in
    /// the other methods: a transaction that holds a partition waits for nobody in it. With more,
    /// transactions wait for locks, and one that closes a deadlock, in this partition or over
    /// several, is undone and run again.
    ///
    /// [`SESSIONS_MAX`]: crate::SESSIONS_MAX
    pub fn sessions(self, sessions: u32) -> Self {
        self.with(MethodOption::Sessions(sessions))
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

    /// Most bytes of memory for rows as they were, which connections read in their snapshots while
    /// others commit changes. Beyond that the oldest snapshots end, and reads of their transactions
    /// fail with [`Error::SnapshotTooOld`](crate::Error::SnapshotTooOld). Default
    /// [`SNAPSHOT_MEMORY_MAX`].
    pub fn snapshot_memory_max(mut self, bytes: u64) -> Self {
        self.snapshot_memory_max = Some(bytes);
        self
    }

    /// Most locks that connections may hold together, at least 1024: of rows, unique keys, tables,
    /// and advisory ones. A row takes one or two; a transaction that has a quarter of them in one
    /// table locks the table instead, if nobody else is there. A statement beyond the limit fails
    /// with [`Error::TooManyLocks`](crate::Error::TooManyLocks). Default [`LOCKS_MAX`].
    pub fn locks_max(mut self, locks: usize) -> Self {
        self.locks_max = Some(locks);
        self
    }

    /// Most connections that may be open at once; one more fails with
    /// [`Error::TooManyConnections`](crate::Error::TooManyConnections). Default
    /// [`CONNECTIONS_MAX`].
    pub fn connections_max(mut self, connections: u32) -> Self {
        self.connections_max = Some(connections);
        self
    }

    /// Most [prepared transactions](crate::PreparedTransaction) that there may be at once; one more
    /// fails with [`Error::TooManyPrepared`](crate::Error::TooManyPrepared). With 0 none can be
    /// prepared; those that there are stay, and can be ended. Default [`PREPARED_MAX`].
    pub fn prepared_max(mut self, transactions: u32) -> Self {
        self.prepared_max = Some(transactions);
        self
    }

    /// Whether tables that are created while the database is open have
    /// [exact](crate::KeyRule::Exact) keys: those that could need over 256 bytes are refused, and
    /// so are rows with a text of over 119 bytes in a key. Default false: long contents are
    /// truncated in keys.
    pub fn exact_keys(mut self, exact: bool) -> Self {
        self.exact_keys = exact;
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

    /// Sets an option that only some methods take.
    pub fn with(mut self, option: MethodOption) -> Self {
        let kind = discriminant(&option);
        self.of_method.retain(|given| discriminant(given) != kind);
        self.of_method.push(option);
        self
    }

    /// Sets those of the options that a method takes, and the method, to run several methods with
    /// the same options.
    pub fn fitting(self, method: Method, options: impl IntoIterator<Item = MethodOption>) -> Self {
        let fitting = options.into_iter().filter(|option| option.fits(method));
        fitting.fold(self.method(method), Self::with)
    }

    /// The value of an option that only some methods take, if it was set.
    fn of_method<'o, T>(&'o self, value: impl FnMut(&'o MethodOption) -> Option<T>) -> Option<T> {
        self.of_method.iter().find_map(value)
    }

    /// The method, if one was chosen.
    pub(crate) fn explicit_method(&self) -> Option<Method> {
        match self.method {
            Some(Choice::Explicit(method)) => Some(method),
            None | Some(Choice::Auto) => None,
        }
    }

    /// Directory of the log, if it was given one of its own.
    pub(crate) fn log_path(&self) -> Option<&Path> {
        self.of_method(|option| match option {
            MethodOption::LogDirectory(path) => Some(path.as_path()),
            _ => None,
        })
    }

    /// Directory of the archive, if one was asked for.
    pub(crate) fn archive_path(&self) -> Option<&Path> {
        self.of_method(|option| match option {
            MethodOption::Archive(path) => Some(path.as_path()),
            _ => None,
        })
    }

    /// Transfers of pages between their file and a buffer pool.
    pub(crate) fn io_mode(&self) -> IoMode {
        let mode = self.of_method(|option| match option {
            MethodOption::Io(mode) => Some(*mode),
            _ => None,
        });
        mode.unwrap_or_default()
    }

    /// Most open transactions of a partition, if its method can have several.
    pub(crate) fn session_count(&self) -> usize {
        let sessions = self.of_method(|option| match option {
            MethodOption::Sessions(sessions) => Some(*sessions as usize),
            _ => None,
        });
        sessions.unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_method_lists_the_known_ones() {
        let error = "wal".parse::<Choice>().unwrap_err().to_string();
        assert!(
            error.contains("nvm-inp") && error.contains("auto"),
            "{error}"
        );
        assert_eq!("auto".parse::<Choice>().unwrap(), Choice::Auto);
    }

    #[test]
    fn the_last_value_of_an_option_counts() {
        let options = Options::new().sessions(2).archive("a").sessions(3);
        assert_eq!(options.session_count(), 3);
        assert_eq!(options.archive_path(), Some(Path::new("a")));
    }
}
