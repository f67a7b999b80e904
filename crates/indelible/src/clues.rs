//! Facts about a database from the files of a partition, when neither its descriptor nor its commit
//! table can be read.
//!
//! Each file begins with the identity of the database, at an offset that follows from its magic
//! number, and the kinds of files leave few possible methods. These clues are not trusted: the
//! repair opens each partition by them, and the opening checks every header whole. The number of
//! partitions is not among the clues, because a lost partition leaves none.

use crate::error::Result;
use crate::file_names::partition_of;
use disk::{Directory, File};
use storage::Platform;
use storage::engine::{Guard, LogKind, Method, PageAxes, PagesKind};
use storage::record::LayoutKind;

/// The longest beginning of a file that is read: the header of a pool.
const HEAD_BYTES: usize = 176;

/// Clues of partition 0, and the number of partitions that have files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clues {
    pub(crate) database_id: u128,
    /// Methods that have such files. If there are several, they differ in their use of the files,
    /// or only in their name.
    pub(crate) methods: Vec<Method>,
    pub(crate) layout: Option<LayoutKind>,
    pub(crate) node_bytes: Option<u32>,
    /// One more than the highest number of a partition with files.
    pub(crate) partitions: u32,
}

impl Clues {
    /// Finds the clues in the files of a database. None if those of partition 0 do not tell enough.
    pub(crate) fn find<P: Platform>(platform: &P) -> Result<Option<Self>> {
        let mut heads = Vec::new();
        let mut partitions = 0;
        let directories = [Some(platform.files(0)?), platform.log_files(0)?];
        for directory in directories.into_iter().flatten() {
            for name in directory.list()? {
                let Some(partition) = partition_of(&name) else {
                    continue;
                };
                partitions = partitions.max(partition + 1);
                if let (0, Some((_, kind))) = (partition, name.split_once('.')) {
                    let mut file = directory.open(&name)?;
                    let mut bytes = [0; HEAD_BYTES];
                    let length = file.bytes()?.min(HEAD_BYTES as u64) as usize;
                    file.read_at(0, &mut bytes[..length])?;
                    heads.push((kind.to_owned(), Head(bytes)));
                }
            }
        }
        heads.sort_by(|(one, _), (other, _)| one.cmp(other));
        let Some(database_id) = heads.iter().find_map(|(kind, head)| head.identity(kind)) else {
            return Ok(None);
        };
        let settings = heads.iter().find_map(|(_, head)| head.settings());
        let (layout, node_bytes) = settings.map_or((None, None), |(layout, node_bytes)| {
            (layout, Some(node_bytes))
        });
        Ok(Some(Self {
            database_id,
            methods: methods(&heads),
            layout,
            node_bytes,
            partitions,
        }))
    }
}

/// The beginning of a file.
struct Head([u8; HEAD_BYTES]);

/// Magic number of a pool.
const POOL: &[u8; 8] = b"INDPOOL\x1a";
/// Files of pages: the master records, and homes of pages.
const PAGES: &[u8; 8] = b"INDPAG\x1a\x01";
const COW: &[u8; 8] = b"INDCOW\x1a\x01";
const NVWAL: &[u8; 8] = b"INDNVW\x1a\x01";
/// Files with the number of the partition before the identity.
const LOG: &[u8; 8] = b"INDLWAL\n";
const CHECKPOINT: &[u8; 8] = b"INDLCKP\n";
const MANIFEST: &[u8; 8] = b"INDLLSM\n";

impl Head {
    fn magic(&self) -> &[u8] {
        &self.0[..8]
    }

    fn number(&self, at: usize) -> u32 {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk());
        bytes.copied().map_or(0, u32::from_le_bytes)
    }

    fn long(&self, at: usize) -> u64 {
        u64::from(self.number(at)) | u64::from(self.number(at + 4)) << 32
    }

    /// The database's identity. A ring, or the files of one session, have their number in it.
    fn identity(&self, kind: &str) -> Option<u128> {
        let magic = self.magic();
        let at = match () {
            () if magic == POOL && kind == "pool" => 24,
            () if magic == LOG && !kind.starts_with("wal.") => return None,
            () if [PAGES, COW, NVWAL, LOG, CHECKPOINT, MANIFEST]
                .contains(&magic.first_chunk()?) =>
            {
                16
            }
            () => return None,
        };
        Some(u128::from(self.long(at)) | u128::from(self.long(at + 8)) << 64)
    }

    /// Layout and bytes of a node or page.
    fn settings(&self) -> Option<(Option<LayoutKind>, u32)> {
        let magic = self.magic();
        let pair = |at: usize| (layout(self.long(at)), self.number(at + 8));
        match () {
            () if magic == POOL && self.method_of_pool().is_some() => Some(pair(136)),
            () if magic == CHECKPOINT => Some(pair(64)),
            () if magic == MANIFEST => Some(pair(56)),
            () if [PAGES, COW, NVWAL].contains(&magic.first_chunk()?) => {
                Some((None, self.number(12)))
            }
            () => None,
        }
    }

    /// The methods whose partition is a pool of this kind.
    fn method_of_pool(&self) -> Option<&'static [Method]> {
        if self.magic() != POOL {
            return None;
        }
        Some(match &self.number(40).to_be_bytes() {
            b"nvip" => &[Method::NvmInp],
            b"nvco" => &[Method::NvmCow],
            b"nvlg" => &[Method::NvmLog],
            b"slot" | b"slou" => &[Method::Fash, Method::Fast],
            b"nvwl" => &[Method::Nvwal, Method::SlotHeaderJournal],
            _ => return None,
        })
    }
}

fn layout(word: u64) -> Option<LayoutKind> {
    match word {
        0 => Some(LayoutKind::Together),
        1 => Some(LayoutKind::Separate),
        _ => None,
    }
}

/// The methods that have such files, named by their kinds.
fn methods(heads: &[(String, Head)]) -> Vec<Method> {
    if let Some(found) = heads.iter().find_map(|(_, head)| head.method_of_pool()) {
        return found.to_vec();
    }
    let has = |kind: &str| {
        heads.iter().any(|(name, _)| {
            let rest = name.strip_prefix(kind);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    };
    if has("cow") {
        return vec![Method::Cow];
    }
    if has("manifest") {
        return vec![Method::Log];
    }
    let master = heads.iter().find(|(_, head)| head.magic() == PAGES);
    let Some((_, master)) = master else {
        // A log alone may belong to any method with its log in files.
        return if has("checkpoint") {
            vec![Method::Inp]
        } else {
            Vec::new()
        };
    };
    let code = master.number(36);
    let pages = if has("nvpages") {
        PagesKind::Nvm
    } else {
        PagesKind::Ssd
    };
    let logs: &[LogKind] = match () {
        () if has("nvbatch") => &[LogKind::Volatile],
        () if has("ring") => &[LogKind::PerTransaction, LogKind::Distributed],
        () if has("log") => &[LogKind::Decentralized],
        () if has("wal") || has("wal-spare") => &[LogKind::Central],
        // A log that a checkpoint has made needless leaves nothing.
        () => &[LogKind::Central, LogKind::Decentralized],
    };
    let guards = Guard::ALL.into_iter().filter(|guard| guard.code() == code);
    let axes = guards.flat_map(|guard| logs.iter().map(move |&log| PageAxes { pages, guard, log }));
    let mut found = Vec::new();
    for axes in axes {
        found.extend(
            Method::ALL
                .into_iter()
                .filter(|method| method.axes() == Some(axes)),
        );
        if let Ok(method) = axes.method()
            && !found.contains(&method)
        {
            found.push(method);
        }
    }
    found
}
