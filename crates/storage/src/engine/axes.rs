//! The axes of the page engine's methods: where the pages are, where the log is, and how page
//! writes are guarded.
//!
//! A published method is one combination. The others can be used too, as far as they make sense, to
//! measure one axis alone.

use super::Method;
use std::str::FromStr;
use std::sync::LazyLock;

/// Location of the page engine's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PagesKind {
    /// In a file, with a buffer pool.
    Ssd,
    /// In durable memory, without a copy.
    Nvm,
}

impl PagesKind {
    /// The name in reports and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ssd => "ssd",
            Self::Nvm => "nvm",
        }
    }
}

impl FromStr for PagesKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        named("place of pages", [Self::Ssd, Self::Nvm], Self::name, name)
    }
}

/// Location of the page engine's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LogKind {
    /// In files, which all sessions append to under one lock.
    Central,
    /// In files, a series a session.
    Decentralized,
    /// In durable memory, a ring a session.
    PerTransaction,
    /// In durable memory, a few rings that sessions share.
    Distributed,
    /// In ordinary memory, as long as a transaction is open: batches of transactions become
    /// durable.
    Volatile,
}

impl LogKind {
    const ALL: [Self; 5] = [
        Self::Central,
        Self::Decentralized,
        Self::PerTransaction,
        Self::Distributed,
        Self::Volatile,
    ];

    /// The name in reports and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Central => "central",
            Self::Decentralized => "decentralized",
            Self::PerTransaction => "per-transaction",
            Self::Distributed => "distributed",
            Self::Volatile => "volatile",
        }
    }
}

impl FromStr for LogKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        named("log", Self::ALL, Self::name, name)
    }
}

/// Protection from torn writes of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guard {
    /// Nothing: only for a device that writes pages whole. A session that finds no clean frame
    /// writes one page by itself, with a sync.
    Off,
    /// Nothing either, and pages go in batches only.
    OffBatched,
    /// A copy in an area of its own first: two writes and two syncs a batch, of up to 120 pages.
    DoubleWrite,
    /// The same, and two writes and two syncs for each page that a session writes by itself because
    /// it finds no clean frame.
    DoubleWriteSingles,
    /// The first change of a page after a checkpoint logs the page as it was: a longer log, no
    /// sync.
    FullPageWrites,
    /// Pages are not in the file but in durable memory, and change in place: the log has what their
    /// lines were.
    BeforeImages,
    /// A copy in durable memory first: a fence a batch, and a sync of the file for as many pages as
    /// the area has slots.
    NvDoubleWrite,
    /// A copy in durable memory, which is the page from then on: it is read there, and written home
    /// when room is needed.
    NvPageCache,
}

impl Guard {
    /// All guards.
    pub const ALL: [Self; 8] = [
        Self::Off,
        Self::OffBatched,
        Self::DoubleWrite,
        Self::DoubleWriteSingles,
        Self::FullPageWrites,
        Self::BeforeImages,
        Self::NvDoubleWrite,
        Self::NvPageCache,
    ];

    /// The name in reports and options, that of the plainest method with it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "dwb-off",
            Self::OffBatched => "dwb-off-batched",
            Self::DoubleWrite => "dwb-batched",
            Self::DoubleWriteSingles => "dwb",
            Self::FullPageWrites => "full-page-writes",
            Self::BeforeImages => "before-images",
            Self::NvDoubleWrite => "nvm-dwb",
            Self::NvPageCache => "nvm-dwb-log-opt",
        }
    }

    /// Stable number for master records.
    pub fn code(self) -> u32 {
        match self {
            Self::Off => 1,
            Self::DoubleWrite => 2,
            Self::FullPageWrites => 3,
            Self::BeforeImages => 4,
            Self::NvDoubleWrite => 5,
            Self::NvPageCache => 6,
            Self::DoubleWriteSingles => 7,
            Self::OffBatched => 8,
        }
    }

    /// Whether a page that a power cut tears is lost.
    pub fn is_off(self) -> bool {
        matches!(self, Self::Off | Self::OffBatched)
    }

    /// Whether a copy of each page is durable before the page is written home.
    pub fn copies_first(self) -> bool {
        matches!(
            self,
            Self::DoubleWrite | Self::DoubleWriteSingles | Self::NvDoubleWrite
        )
    }

    /// Whether it keeps copies of pages in an area in durable memory.
    pub fn has_slots(self) -> bool {
        matches!(self, Self::NvDoubleWrite | Self::NvPageCache)
    }
}

impl FromStr for Guard {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        named("guard", Self::ALL, Self::name, name)
    }
}

/// The value with a name.
fn named<T: Copy, const N: usize>(
    what: &str,
    all: [T; N],
    name_of: fn(T) -> &'static str,
    name: &str,
) -> Result<T, String> {
    let found = all.into_iter().find(|value| name_of(*value) == name);
    found.ok_or_else(|| {
        let names = all.map(name_of).join(", ");
        format!("unknown {what} `{name}`: use one of {names}")
    })
}

/// One choice an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageAxes {
    /// Location of the pages.
    pub pages: PagesKind,
    /// Keeps a torn write of a page from being a loss.
    pub guard: Guard,
    /// Location of the log.
    pub log: LogKind,
}

impl PageAxes {
    fn published(self) -> Option<Method> {
        Method::ALL
            .into_iter()
            .find(|method| method.axes() == Some(self))
    }

    /// The method that is this combination: a published one if there is one.
    ///
    /// # Errors
    /// A combination that makes no sense, with the reason.
    pub fn method(self) -> Result<Method, String> {
        if let Some(method) = self.published() {
            return Ok(method);
        }
        if let Some(combination) = Combination::new(self) {
            return Ok(Method::Combined(combination));
        }
        let reason = match (self.pages, self.log, self.guard) {
            (PagesKind::Ssd, LogKind::Volatile, _) => {
                "a log in ordinary memory is gone at a restart, and pages in a file need one to redo from: use another log, or \
                 pages in nvm"
            }
            (PagesKind::Ssd, ..) => {
                "before-images are of pages that change where they are: use dwb or full-page-writes, or pages in nvm"
            }
            (PagesKind::Nvm, LogKind::PerTransaction | LogKind::Volatile, _) => {
                "pages in nvm change where they are, so nothing is written that could tear: use the guard before-images"
            }
            (PagesKind::Nvm, ..) => {
                "a change of a page in nvm needs its before-image to be durable first, which only a log in rings of each \
                 session's own, or in batches, has in time: use the log per-transaction or volatile"
            }
        };
        Err(format!(
            "pages in {}, a log that is {}, and the guard {} do not go together: {reason}",
            self.pages.name(),
            self.log.name(),
            self.guard.name(),
        ))
    }
}

/// Pages in a file with a log and a guard that are no published method together.
/// [`PageAxes::method`] makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Combination {
    log: LogKind,
    guard: Guard,
}

/// All combinations with their names, which are those of the plainest method with the log, and of
/// the guard.
static COMBINATIONS: LazyLock<Vec<(Combination, String)>> = LazyLock::new(|| {
    let pairs = LogKind::ALL
        .into_iter()
        .flat_map(|log| Guard::ALL.map(|guard| (log, guard)));
    let combinations = pairs.filter_map(|(log, guard)| {
        let combination = Combination::new(PageAxes {
            pages: PagesKind::Ssd,
            guard,
            log,
        })?;
        let plainest = match log {
            LogKind::Central => Method::Dwb,
            LogKind::Decentralized => Method::NvDiskDecentralized,
            LogKind::PerTransaction => Method::NvLogging,
            LogKind::Distributed => Method::DistributedLog,
            LogKind::Volatile => return None,
        };
        Some((combination, format!("{plainest}+{}", guard.name())))
    });
    combinations.collect()
});

impl Combination {
    /// The combination of these axes, if they make sense together and are no published method.
    fn new(axes: PageAxes) -> Option<Self> {
        let PageAxes { pages, guard, log } = axes;
        let is_possible = pages == PagesKind::Ssd
            && log != LogKind::Volatile
            && guard != Guard::BeforeImages
            && axes.published().is_none();
        is_possible.then_some(Self { log, guard })
    }

    pub(super) fn all() -> impl Iterator<Item = Self> {
        COMBINATIONS.iter().map(|(combination, _)| *combination)
    }

    pub(super) fn axes(self) -> PageAxes {
        PageAxes {
            pages: PagesKind::Ssd,
            guard: self.guard,
            log: self.log,
        }
    }

    pub(super) fn name(self) -> &'static str {
        let mut named = COMBINATIONS.iter();
        let found = named.find(|(combination, _)| *combination == self);
        let (_, name) = found.expect("every combination is in the list of all");
        name
    }

    /// Stable number for headers, beyond those of the published methods.
    pub(super) fn code(self) -> u32 {
        let log = match self.log {
            LogKind::Central => 1,
            LogKind::Decentralized => 2,
            LogKind::PerTransaction => 3,
            LogKind::Distributed => 4,
            LogKind::Volatile => 5,
        };
        log << 8 | self.guard.code()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_combination_is_a_method_or_says_why_not() {
        let mut methods = HashSet::new();
        for pages in [PagesKind::Ssd, PagesKind::Nvm] {
            for (log, guard) in LogKind::ALL
                .into_iter()
                .flat_map(|log| Guard::ALL.map(|guard| (log, guard)))
            {
                let axes = PageAxes { pages, guard, log };
                match axes.method() {
                    Ok(method) => {
                        assert_eq!(method.axes(), Some(axes), "{method}");
                        assert_eq!(method.name().parse(), Ok(method));
                        assert_eq!(Method::from_code(method.code()), Some(method));
                        assert!(methods.insert(method), "{method} is two combinations");
                    }
                    Err(reason) => assert!(reason.contains("use"), "{reason}"),
                }
            }
        }
        assert_eq!(
            methods.len(),
            30,
            "twenty-eight with a file of pages, two without"
        );
        let codes: HashSet<u32> = Method::every().map(Method::code).collect();
        assert_eq!(codes.len(), Method::every().count());
    }

    #[test]
    fn the_names_of_combinations_stay() {
        let names: Vec<&str> = Method::combinations().map(Method::name).collect();
        assert_eq!(
            names,
            [
                "dwb+dwb-off-batched",
                "dwb+nvm-dwb-log-opt",
                "nv-disk-decentralized+dwb-off",
                "nv-disk-decentralized+dwb-off-batched",
                "nv-disk-decentralized+dwb",
                "nv-disk-decentralized+full-page-writes",
                "nv-disk-decentralized+nvm-dwb",
                "nv-disk-decentralized+nvm-dwb-log-opt",
                "nv-logging+dwb-off",
                "nv-logging+dwb-off-batched",
                "nv-logging+dwb",
                "nv-logging+full-page-writes",
                "distributed-log+dwb-off",
                "distributed-log+dwb-off-batched",
                "distributed-log+dwb",
                "distributed-log+full-page-writes",
                "distributed-log+nvm-dwb",
                "distributed-log+nvm-dwb-log-opt",
            ]
        );
    }

    #[test]
    fn a_name_that_is_none_lists_those_that_are() {
        let error = "ssd2".parse::<PagesKind>().unwrap_err();
        assert_eq!(error, "unknown place of pages `ssd2`: use one of ssd, nvm");
        assert!(
            "x".parse::<Guard>()
                .unwrap_err()
                .contains("full-page-writes")
        );
    }
}
