//! The catalogue of methods: named recipes that a user selects, and how each is opened.
//!
//! A method is known by its name to people and by its code to files; neither changes once it is
//! released. A partition's own files have the settings that it was created with, so opening takes
//! from the options only those that may change.

use super::axes::{Combination, LogKind, PageAxes, PagesKind};
use super::paged::Paged;
use super::read_only::ReadOnly;
use super::{Engine, FenceOrder, GlobalTxnId, LogImages};
use crate::buffer::{Cleaning, Daemon, Guard, Persist};
use crate::clock::Clock;
use crate::error::Result;
use crate::error::StorageError;
use crate::lock::WaitGraph;
use crate::platform::Platform;
use crate::record::LayoutKind;
use pmem::{Access, PowerFailAtomicity};
use std::fmt;
use std::str::FromStr;

/// A published way of storing and recovering data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Tables and indexes in volatile memory, nothing else: the upper bound for comparing the
    /// others.
    Volatile,
    /// In-place updates in volatile memory, a log and checkpoints in files (`InP` of N-Store).
    Inp,
    /// In-place updates in durable memory; one record with the new words commits, and before images
    /// serve long transactions (`NVM-InP` of N-Store).
    NvmInp,
    /// Copy-on-write trees with the rows in their leaves, in a file with a cache (`CoW` of
    /// N-Store).
    Cow,
    /// Copy-on-write trees of pointers to tuples, in durable memory (`NVM-CoW` of N-Store).
    NvmCow,
    /// A log-structured tree of MemTables in durable memory (`NVM-Log` of N-Store).
    NvmLog,
    /// A log-structured tree of a MemTable and runs in files, with a log (`Log` of N-Store).
    Log,
    /// Slotted pages in a buffer pool, with an ARIES log that has a page whole when it changes
    /// first after a checkpoint.
    FullPageWrites,
    /// The same, with a doublewrite area instead of whole pages in the log, and sessions that write
    /// one page each where they find no clean frame (`Original` of the NVM-DWB thesis, as `InnoDB`
    /// 5.6 does).
    Dwb,
    /// As `dwb`, in batches only, as later versions of `InnoDB` do.
    DwbBatched,
    /// The same with neither: only for a device that writes pages whole.
    DwbOff,
    /// As `dwb-batched`, with the log in a filesystem on durable memory: its place is the log's
    /// directory (`NV-Disk` of NV-Logging, the baseline there).
    NvDisk,
    /// As `dwb-batched`, with pages and log in a filesystem on durable memory, which takes the
    /// place of the disk (`NVRAM Disk-Replacement` of NVRAM-era).
    DiskReplacement,
    /// Slotted pages in a buffer pool with a doublewrite area, and a log in files of which each
    /// session has a series of its own (the log with a buffer a transaction of `NV-Logging`).
    NvDiskDecentralized,
    /// Slotted pages in a buffer pool with a doublewrite area, and a log in durable memory that
    /// each session writes a part of (`NV-Logging`).
    NvLogging,
    /// The same with a few logs that sessions share, and commits that become durable in groups (the
    /// baseline of `NV-Logging`).
    DistributedLog,
    /// Slotted pages in durable memory that change there, with before images in the log, and
    /// nothing to redo (`In-Place Updates` of NVRAM-era).
    InPlace,
    /// As `in-place`: all pages in durable memory and undo only, on a machine that writes its
    /// caches back when the power fails (`NV-WSP` of NV-Logging). There a flush costs nothing; only
    /// the order of stores is left.
    NvWsp,
    /// Slotted pages in durable memory that change in copies, and become durable in batches of
    /// transactions that count whole or not at all (`NVRAM Group Commit` of NVRAM-era).
    GroupCommit,
    /// As `dwb-batched`, with the doublewrite area in durable memory (`DWB` of the NVM-DWB thesis).
    NvmDwb,
    /// The same with a log in durable memory, which each session writes a part of (`DWB-Logging` of
    /// the NVM-DWB thesis).
    NvmDwbLog,
    /// The same with an area that pages stay in, are read from, and leave when room is needed
    /// (`DWB-Logging-opt` of the NVM-DWB thesis).
    NvmDwbLogOpt,
    /// Slotted pages in durable memory that change where they are; a commit logs the headers of
    /// those that changed (`FASH`).
    Fash,
    /// The same, but where one page changed and its header fits a cache line, that header is the
    /// commit (`FAST`).
    Fast,
    /// The same pages in frames of volatile memory, with a file; a commit logs the differences of
    /// changed pages in durable memory (`NVWAL`).
    Nvwal,
    /// Another combination of the same parts, from [`PageAxes::method`].
    Combined(Combination),
}

impl Method {
    /// All published methods, in the order of reports.
    pub const ALL: [Self; 25] = [
        Self::Volatile,
        Self::Inp,
        Self::NvmInp,
        Self::Cow,
        Self::NvmCow,
        Self::Log,
        Self::NvmLog,
        Self::FullPageWrites,
        Self::Dwb,
        Self::DwbBatched,
        Self::DwbOff,
        Self::DiskReplacement,
        Self::NvDisk,
        Self::NvDiskDecentralized,
        Self::NvLogging,
        Self::DistributedLog,
        Self::InPlace,
        Self::NvWsp,
        Self::GroupCommit,
        Self::NvmDwb,
        Self::NvmDwbLog,
        Self::NvmDwbLogOpt,
        Self::Fash,
        Self::Fast,
        Self::Nvwal,
    ];

    /// The methods that differ in their work. The others are `dwb-batched` or `in-place` under a
    /// name that says where their files are, or on which machine, so results for these two hold for
    /// them.
    pub fn distinct() -> impl Iterator<Item = Self> {
        let is_another_name =
            |method: &Self| matches!(method, Self::NvDisk | Self::DiskReplacement | Self::NvWsp);
        Self::ALL
            .into_iter()
            .filter(move |method| !is_another_name(method))
    }

    /// The name by which a user selects it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Volatile => "volatile",
            Self::Inp => "inp",
            Self::NvmInp => "nvm-inp",
            Self::Cow => "cow",
            Self::NvmCow => "nvm-cow",
            Self::Log => "log",
            Self::NvmLog => "nvm-log",
            Self::FullPageWrites => "full-page-writes",
            Self::Dwb => "dwb",
            Self::DwbBatched => "dwb-batched",
            Self::DwbOff => "dwb-off",
            Self::NvDisk => "nv-disk",
            Self::DiskReplacement => "disk-replacement",
            Self::NvDiskDecentralized => "nv-disk-decentralized",
            Self::NvLogging => "nv-logging",
            Self::DistributedLog => "distributed-log",
            Self::InPlace => "in-place",
            Self::NvWsp => "nv-wsp",
            Self::GroupCommit => "group-commit",
            Self::NvmDwb => "nvm-dwb",
            Self::NvmDwbLog => "nvm-dwb-log",
            Self::NvmDwbLogOpt => "nvm-dwb-log-opt",
            Self::Fash => "fash",
            Self::Fast => "fast",
            Self::Nvwal => "nvwal",
            Self::Combined(combination) => combination.name(),
        }
    }

    /// Default bytes of an index node: small for trees that change in place, larger for pages that
    /// are copied, and a page of the system for those of a file.
    pub fn node_bytes_default(self) -> u32 {
        let options = EngineOptions::default();
        match self {
            Self::Cow | Self::Fash | Self::Fast | Self::Nvwal => options.page_bytes,
            Self::NvmCow => 1024,
            _ if self.is_paged() => 8192,
            _ => options.node_bytes,
        }
    }

    /// Whether it is one of the page engine.
    pub fn is_paged(self) -> bool {
        self.axes().is_some()
    }

    /// Its choice on each axis, if it is one of the page engine.
    pub fn axes(self) -> Option<PageAxes> {
        let (guard, log) = match self {
            Self::FullPageWrites => (Guard::FullPageWrites, LogKind::Central),
            Self::Dwb => (Guard::DoubleWriteSingles, LogKind::Central),
            Self::DwbBatched | Self::NvDisk | Self::DiskReplacement => {
                (Guard::DoubleWrite, LogKind::Central)
            }
            Self::DwbOff => (Guard::Off, LogKind::Central),
            Self::NvDiskDecentralized => (Guard::DoubleWrite, LogKind::Decentralized),
            Self::NvLogging => (Guard::DoubleWrite, LogKind::PerTransaction),
            Self::DistributedLog => (Guard::DoubleWrite, LogKind::Distributed),
            Self::InPlace | Self::NvWsp => (Guard::BeforeImages, LogKind::PerTransaction),
            Self::GroupCommit => (Guard::BeforeImages, LogKind::Volatile),
            Self::NvmDwb => (Guard::NvDoubleWrite, LogKind::Central),
            Self::NvmDwbLog => (Guard::NvDoubleWrite, LogKind::PerTransaction),
            Self::NvmDwbLogOpt => (Guard::NvPageCache, LogKind::PerTransaction),
            Self::Combined(combination) => return Some(combination.axes()),
            _ => return None,
        };
        let pages = match self {
            Self::InPlace | Self::NvWsp | Self::GroupCommit => PagesKind::Nvm,
            _ => PagesKind::Ssd,
        };
        Some(PageAxes { pages, guard, log })
    }

    /// Whether pages of a file are cached in buffers.
    pub fn has_buffer_pool(self) -> bool {
        let pages = self.axes().map(|axes| axes.pages);
        pages == Some(PagesKind::Ssd)
    }

    /// Whether its log is rings in durable memory.
    pub fn has_rings(self) -> bool {
        let log = self.axes().map(|axes| axes.log);
        matches!(log, Some(LogKind::PerTransaction | LogKind::Distributed))
    }

    /// Whether its log in files has rows before and after a change.
    pub fn has_log_images(self) -> bool {
        matches!(self, Self::Inp | Self::Log)
    }

    /// Whether copies of its pages lie in durable memory.
    pub fn has_area(self) -> bool {
        self.axes().is_some_and(|axes| axes.guard.has_slots())
    }

    /// Whether a page that a power cut tears is no loss.
    pub fn survives_torn_pages(self) -> bool {
        self.axes().is_none_or(|axes| !axes.guard.is_off())
    }

    /// Whether committed transactions survive a restart.
    pub fn is_durable(self) -> bool {
        self != Self::Volatile
    }

    /// Whether a partition can be opened without the right to write.
    pub fn opens_for_reading(self) -> bool {
        self.is_durable()
    }

    /// Whether [`Idle::snapshot`](super::Idle::snapshot) gives readers that nobody waits for.
    pub fn has_snapshots(self) -> bool {
        matches!(self, Self::Cow | Self::NvmCow | Self::Fash | Self::Fast)
    }

    /// The methods with snapshots, for a message.
    pub fn names_with_snapshots() -> String {
        let with = Self::ALL
            .into_iter()
            .filter(|method| method.has_snapshots());
        let names: Vec<_> = with.map(|method| format!("`{method}`")).collect();
        names.join(", ")
    }

    /// Stable number for headers.
    pub fn code(self) -> u32 {
        match self {
            Self::Volatile => 1,
            Self::Inp => 2,
            Self::NvmInp => 3,
            Self::Cow => 4,
            Self::NvmCow => 5,
            Self::Log => 6,
            Self::NvmLog => 7,
            Self::FullPageWrites => 8,
            Self::Dwb => 9,
            Self::DwbOff => 10,
            Self::NvLogging => 11,
            Self::NvDisk => 12,
            Self::NvDiskDecentralized => 13,
            Self::DiskReplacement => 14,
            Self::DistributedLog => 15,
            Self::InPlace => 16,
            Self::NvWsp => 17,
            Self::GroupCommit => 18,
            Self::NvmDwb => 19,
            Self::NvmDwbLog => 20,
            Self::NvmDwbLogOpt => 21,
            Self::DwbBatched => 22,
            Self::Fash => 23,
            Self::Fast => 24,
            Self::Nvwal => 25,
            Self::Combined(combination) => combination.code(),
        }
    }

    /// The method with that number.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::every().find(|method| method.code() == code)
    }

    /// The page engine's parts in combinations that no published method is.
    pub fn combinations() -> impl Iterator<Item = Self> {
        Combination::all().map(Self::Combined)
    }

    /// The published ones and the combinations.
    pub(super) fn every() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().chain(Self::combinations())
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::every()
            .find(|method| method.name() == name)
            .ok_or_else(|| {
                let names: Vec<_> = Self::ALL.iter().map(|method| method.name()).collect();
                let hint = nearest(name, &names)
                    .map_or_else(String::new, |near| format!(", did you mean `{near}`?"));
                format!(
                    "unknown method `{name}`{hint}; the methods are {}",
                    names.join(", ")
                )
            })
    }
}

/// The name that was probably meant: the same letters and digits, or at most two of them away.
fn nearest<'n>(asked: &str, names: &[&'n str]) -> Option<&'n str> {
    let letters = |text: &str| -> Vec<char> {
        let all = text.chars().filter(|letter| letter.is_alphanumeric());
        all.flat_map(char::to_lowercase).collect()
    };
    let asked = letters(asked);
    let distances = names
        .iter()
        .map(|name| (distance(&asked, &letters(name)), *name));
    let (least, name) = distances.min_by_key(|(distance, _)| *distance)?;
    (least <= 2 && least < asked.len()).then_some(name)
}

/// Number of letters that are put in, left out or exchanged between two words.
fn distance(one: &[char], other: &[char]) -> usize {
    // The distances of the letters of `one` so far to each beginning of `other`.
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (end, expected) in other.iter().enumerate() {
            let exchanged = diagonal + usize::from(letter != expected);
            diagonal = row[end + 1];
            row[end + 1] = exchanged.min(row[end] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_nearly_right_gets_the_right_one() {
        for (asked, meant) in [
            ("NVM-INP", "nvm-inp"),
            ("nvm_inp", "nvm-inp"),
            ("nvminp", "nvm-inp"),
            ("full-page-write", "full-page-writes"),
            ("dwb-bached", "dwb-batched"),
            ("INP", "inp"),
        ] {
            let error = asked.parse::<Method>().unwrap_err();
            assert!(
                error.contains(&format!("did you mean `{meant}`?")),
                "{error}"
            );
        }
        for asked in ["", "x", "postgres"] {
            let error = asked.parse::<Method>().unwrap_err();
            assert!(!error.contains("did you mean"), "{error}");
        }
    }
}

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
    /// Bytes of the buffer pool of the page engine, and of the frames of `nvwal`.
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
    /// `group-commit`: bytes of a batch's changes, at first; a larger batch makes more room. In
    /// `nvwal`: bytes of its log, fixed when the partition is created.
    pub ring_bytes: u64,
    /// Rings of a log that sessions share. Fixed when the partition is created.
    pub rings: u32,
    /// When a log record in durable memory becomes durable.
    pub persist: Persist,
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

/// Creates the partition's storage.
pub fn create<P: Platform>(
    platform: &P,
    method: Method,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    if let Some(axes) = method.axes() {
        return Ok(Box::new(Paged::create(platform, options, axes)?));
    }
    Ok(match method {
        Method::Volatile => Box::new(super::volatile::create(platform, options)?),
        Method::Inp => Box::new(super::in_place::create(platform, options)?),
        Method::NvmInp => Box::new(super::nv_pool::NvInPlace::<P>::create(platform, options)?),
        Method::Cow => Box::new(super::cow::create_in_file(platform, options)?),
        Method::NvmCow => Box::new(super::cow::create_in_pool(platform, options)?),
        Method::Fash | Method::Fast => {
            Box::new(super::cow::create_slotted(platform, method, options)?)
        }
        Method::Nvwal => Box::new(super::cow::create_behind_cache(platform, options)?),
        Method::Log => Box::new(super::log_structured::create(platform, options)?),
        Method::NvmLog => Box::new(super::nv_pool::NvLogStructured::<P>::create(
            platform, options,
        )?),
        _ => {
            let text = format!("method `{method}` has no engine");
            return Err(StorageError::Unsupported(text));
        }
    })
}

/// Opens the partition's storage and recovers it. Opening what recovery has left changes nothing.
///
/// With [`Access::Read`] nothing is changed in any case, and every change is refused afterwards.
/// Where recovery would have to write, the error is [`StorageError::NeedsRecovery`].
pub fn open<P: Platform>(
    platform: &P,
    method: Method,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<Box<dyn Engine>> {
    if options.access == Access::Write {
        return open_engine(platform, method, options, decide);
    }
    if !method.opens_for_reading() {
        return Err(StorageError::Unsupported(format!(
            "a database of method `{method}` cannot be opened for reading only; open it for writing"
        )));
    }
    let engine = open_engine(platform, method, options, decide)?;
    Ok(Box::new(ReadOnly::new(engine)))
}

fn open_engine<P: Platform>(
    platform: &P,
    method: Method,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<Box<dyn Engine>> {
    if let Some(axes) = method.axes() {
        return Ok(Box::new(Paged::open(platform, options, axes, decide)?));
    }
    Ok(match method {
        Method::Volatile => Box::new(super::volatile::create(platform, options)?),
        Method::Inp => Box::new(super::in_place::open(platform, options, decide)?),
        Method::NvmInp => Box::new(super::nv_pool::NvInPlace::<P>::open(
            platform, options, decide,
        )?),
        Method::Cow => Box::new(super::cow::open_in_file(platform, options, decide)?),
        Method::NvmCow => Box::new(super::cow::open_in_pool(platform, options, decide)?),
        Method::Fash | Method::Fast => {
            Box::new(super::cow::open_slotted(platform, method, options, decide)?)
        }
        Method::Nvwal => Box::new(super::cow::open_behind_cache(platform, options, decide)?),
        Method::Log => Box::new(super::log_structured::open(platform, options, decide)?),
        Method::NvmLog => Box::new(super::nv_pool::NvLogStructured::<P>::open(
            platform, options, decide,
        )?),
        _ => {
            let text = format!("method `{method}` has no engine");
            return Err(StorageError::Unsupported(text));
        }
    })
}
