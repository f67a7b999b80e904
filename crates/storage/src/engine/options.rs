//! Options of a partition's engine, for all methods together.
//!
//! Each method takes those that concern it. The database checks them and knows which go with which
//! method; engines trust them. A partition's own files have the settings that it was created with,
//! so an opening takes from the options only those that may change.

use crate::clock::Clock;
use crate::lock::WaitGraph;
use crate::record::LayoutKind;
use crate::vocabulary::{FenceOrder, GlobalTxnId, HeaderImages, LogImages};
use pmem::{Access, PowerFailAtomicity};

/// Options for creating or opening a partition's engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Number of the partition, from 0.
    pub partition: u32,
    /// Whether an existing partition is opened for changing it. With [`Access::Read`] nothing is
    /// stored, written or synced.
    pub access: Access,
    /// Identity of the database, so that a foreign partition is refused.
    pub database_id: u128,
    /// Layout of tuples. Fixed when the partition is created.
    pub layout: LayoutKind,
    /// Bytes of an index node. Fixed when the partition is created.
    pub node_bytes: u32,
    /// Bytes of a page of the copy-on-write methods, a multiple of 512 up to 64 KiB. Fixed when the
    /// partition is created.
    pub page_bytes: u32,
    /// Order of durable steps in the NVM-aware methods.
    pub fences: FenceOrder,
    /// The platform's promise for a line that one instruction stores. `fast` commits by such lines
    /// where it is [`PowerFailAtomicity::Line`]; other methods need no more than words.
    pub atomicity: PowerFailAtomicity,
    /// Most bytes of DRAM for the keys of slotted pages in durable memory; with 0 a search reads
    /// the pages alone.
    pub outline_bytes: usize,
    /// The form of headers in the log of slotted pages in durable memory.
    pub header_images: HeaderImages,
    /// Most bytes of DRAM for hints of `nvm-inp`, which say where rows lie; with 0 the trees alone
    /// are searched.
    pub hint_bytes: u64,
    /// Bytes of durable memory over which the commits of `nvm-inp`, `nvm-log`, `fash` and `fast`
    /// spread their records, so that no line wears out early. Fixed when the partition is created.
    pub rotation_bytes: u64,
    /// First size of a pool in bytes; it grows by itself.
    pub pool_bytes: u64,
    /// Most transactions in a commit group.
    pub group_transactions_max: u32,
    /// Longest time that a commit waits for its group, in microseconds.
    pub group_wait_us_max: u64,
    /// Log length that triggers a checkpoint, in bytes.
    pub checkpoint_log_bytes: u64,
    /// The images of a changed row in the write-ahead log.
    pub log_images: LogImages,
    /// Bytes of changes after which a MemTable of the log-structured methods is full.
    pub memtable_bytes: u64,
    /// Bytes of the buffer pool of the page engine, and of the frames of slotted pages in a file.
    pub buffer_bytes: u64,
    /// Bytes of the page cache of `cow`.
    pub page_cache_bytes: usize,
    /// Threads that write the page engine's dirty pages whose frames are needed.
    pub cleaning: Cleaning,
    /// The thread that makes records in durable memory durable ahead of their commits, if they wait
    /// for one.
    pub daemon: Daemon,
    /// When the page engine undoes transactions that an opening finds unfinished.
    pub undoing: AfterCrash,
    /// When it redoes a short log on pages that stay in an area.
    pub redoing: AfterCrash,
    /// Most cells of a page of the page engine, at least 3: for tests that need deep trees of few
    /// rows.
    pub page_cells_max: usize,
    /// Bytes of log records that a ring of the page engine has room for in durable memory. In
    /// `group-commit`: bytes of a batch's changes, at first; a larger batch makes more room. Before
    /// slotted pages in a file: bytes of their log, fixed when the partition is created.
    pub ring_bytes: u64,
    /// Rings of a log that sessions share. Fixed when the partition is created.
    pub rings: u32,
    /// When a log record in durable memory becomes durable.
    pub persist: Persist,
    /// Whether a commit in durable memory waits for the earlier records of other sessions.
    pub commit_order: CommitOrder,
    /// Manners of the locks of the page engine.
    pub locking: Locking,
    /// Bytes of the area in durable memory for copies of pages, of guards that have one. Fixed when
    /// the partition is created.
    pub area_bytes: u64,
    /// Ratio of the sizes of adjacent levels of the log-structured methods, at least 2.
    pub growth_factor: u32,
    /// Source of the commit times of the page engine, if its log has an archive.
    pub clock: Clock,
    /// The waits of the page engine's transactions, one graph for all partitions of a database. A
    /// copy of the options names the same one.
    pub waits: WaitGraph,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            partition: 0,
            access: Access::Write,
            database_id: 0,
            layout: LayoutKind::Together,
            node_bytes: 512,
            page_bytes: 4096,
            fences: FenceOrder::Single,
            atomicity: PowerFailAtomicity::Word,
            outline_bytes: 64 << 20,
            header_images: HeaderImages::Shortest,
            hint_bytes: 256 << 20,
            rotation_bytes: 4 << 20,
            pool_bytes: 1 << 20,
            group_transactions_max: 64,
            group_wait_us_max: 100,
            checkpoint_log_bytes: 256 << 20,
            log_images: LogImages::After,
            memtable_bytes: 64 << 20,
            buffer_bytes: 128 << 20,
            page_cache_bytes: 512 << 20,
            cleaning: Cleaning::BySessions,
            daemon: Daemon::BySteps,
            undoing: AfterCrash::AtOpening,
            redoing: AfterCrash::AtOpening,
            page_cells_max: usize::MAX,
            ring_bytes: 1 << 20,
            rings: 16,
            persist: Persist::OnInsert,
            commit_order: CommitOrder::Whole,
            locking: Locking::Optimised,
            area_bytes: 2 << 20,
            growth_factor: 8,
            clock: Clock::None,
            waits: WaitGraph::default(),
        }
    }
}

/// When the page engine finishes the work that an opening finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AfterCrash {
    /// Before the opening ends: each run is the same, as simulated and modelled devices need it.
    #[default]
    AtOpening,
    /// During later transactions, which wait for locks on changes that are not undone yet and,
    /// where pages lie in files, redo the pages that they read. The driver of the engine does it
    /// with [`Sessions::assist`](crate::engine::Sessions::assist), a change or a page each time.
    BySteps,
    /// The same by a thread.
    InBackground,
}

/// Asked at recovery for the fate of a prepared transaction: whether the database's commit table
/// has it.
pub type Decide<'a> = &'a dyn Fn(GlobalTxnId) -> bool;

/// Threads that write the dirty pages whose frames are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Cleaning {
    /// The session that needs a frame. Runs are reproducible, as simulated and modelled devices
    /// need it.
    #[default]
    BySessions,
    /// A thread of its own a partition, before sessions need the frames. Another thread makes
    /// durable the commits that did not wait for it.
    InBackground,
}

/// The thread that makes records durable ahead of their commits, where records wait for a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Daemon {
    /// The caller of [`Sessions::assist`](crate::engine::Sessions::assist). Runs are reproducible,
    /// as simulated devices need it.
    #[default]
    BySteps,
    /// A thread of its own a partition.
    Thread,
}

/// When a record becomes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Persist {
    /// As it is inserted, the record of a commit as it is acknowledged: one fence each.
    #[default]
    OnInsert,
    /// At a commit, with all earlier ones.
    OnCommit,
}

/// Whether a commit waits for the earlier records of other sessions, where each session has a log
/// of its own in durable memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum CommitOrder {
    /// It does: recovery finds what was acknowledged.
    #[default]
    Whole,
    /// It waits for its own records only, as NV-Logging was published, and the thread that makes
    /// records durable ahead of commits never gives up. **A power cut can lose commits that were
    /// acknowledged:** recovery ends before the first record that is missing.
    AsPublished,
}

/// Manners of locks: "OL" in the figures of NV-Logging.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Locking {
    /// Intention locks stay with their session between transactions (speculative lock inheritance),
    /// and locks are free before the commit is durable (early lock release).
    #[default]
    Optimised,
    /// Neither; with commits in groups a commit that its session does not wait for still releases
    /// its locks.
    Plain,
}
