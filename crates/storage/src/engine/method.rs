//! The catalogue of methods: named recipes that a user selects.
//!
//! A method is known by its name to people and by its code to files; neither changes once it is
//! released.

use super::axes::{Combination, Guard, LogKind, PageAxes, PagesKind};
use super::options::EngineOptions;
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
    /// The same, but a commit logs the headers of changed pages and the cells that are new (the
    /// slot-header journal of `FAST` and `FASH`, in a small memory before block storage).
    SlotHeaderJournal,
    /// Another combination of the same parts, from [`PageAxes::method`].
    Combined(Combination),
}

impl Method {
    /// All published methods, in the order of reports.
    pub const ALL: [Self; 26] = [
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
        Self::SlotHeaderJournal,
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
            Self::SlotHeaderJournal => "slot-header-journal",
            Self::Combined(combination) => combination.name(),
        }
    }

    /// Default bytes of an index node: small for trees that change in place, larger for pages that
    /// are copied, and a page of the system for those of a file.
    pub fn node_bytes_default(self) -> u32 {
        let options = EngineOptions::default();
        match self {
            Self::Cow => options.page_bytes,
            _ if self.is_slotted() => options.page_bytes,
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

    /// Whether its trees have pages of which a header names the cells that count.
    pub fn is_slotted(self) -> bool {
        matches!(self, Self::Fash | Self::Fast) || self.has_frames()
    }

    /// Whether such pages lie in a file, behind frames of volatile memory and a log of their
    /// changes in durable memory.
    pub fn has_frames(self) -> bool {
        matches!(self, Self::Nvwal | Self::SlotHeaderJournal)
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

    /// Whether no read looks at the checksum of a row, which is left to verification: rows are read
    /// where they lie in durable memory, or in slotted pages that came from a file as they were.
    pub fn reads_unchecked(self) -> bool {
        match self {
            Self::Volatile | Self::Inp | Self::Cow | Self::Log => false,
            method => !method.is_paged(),
        }
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
            Self::SlotHeaderJournal => 26,
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
