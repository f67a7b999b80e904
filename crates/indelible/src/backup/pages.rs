//! A backup of pages, and the way from it and an archive of the log to a database as it was at a later moment.
//!
//! Records of a log say what becomes of pages, so they can be repeated only over the pages that they were made for. Such a backup has those, as they
//! are behind a checkpoint, with the place in the log where they stand. From it and what the archive has behind that place
//! a partition is made again ([`Rebuild`]), in a directory of its own beside the new database; then the database is made from that as any copy is
//! (`build`): read row by row, with the method and the options that are asked for, under its name only when it was read back. So
//! nothing of the rebuilt files has to be durable, and a failure leaves nothing.
//!
//! Of a database of several partitions each has an archive that ends at a moment of its own, so a transaction over some of them could be there by half: it is
//! refused.

use super::build::{self, split};
use super::content::Totals;
use super::format::{damaged, long, word};
use super::load::Loader;
use super::read::BackupReader;
use super::{CopyProgress, CopyStage, CopyWatch, Sink, source};
use crate::database::Database;
use crate::descriptor::Descriptor;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::platform::remove_files;
use disk::{IoMode, NativeDirectory};
use std::fs;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use storage::StorageError;
use storage::engine::{EngineOptions, Method, PageId, PagesBase, Rebuild, Replayed, Until};
use storage::log::archive::Archive;
use storage::log::{LogIdentity, Lsn};
use storage::record::{TableDef, Timestamp};

/// Bytes of [`encode`].
const BASE_BYTES: usize = 28;
/// Pages after which progress is told.
const WATCH_PAGES: u64 = 512;

/// What of an archive is repeated over a backup of pages.
#[derive(Clone, Debug)]
pub struct Replay {
    archive: PathBuf,
    until: Option<Until>,
}

impl Replay {
    /// All that the archive in a directory has.
    pub fn new(archive: impl Into<PathBuf>) -> Self {
        Self {
            archive: archive.into(),
            until: None,
        }
    }

    /// Only records with numbers below this one, which are places in the log as [`Database::archives`] names them. Transactions that have not committed there
    /// are not in the new database.
    #[must_use]
    pub fn until(mut self, place: u64) -> Self {
        self.until = Some(Until::Place(Lsn(place)));
        self
    }

    /// Only commits up to this time and what is in front of the first later one: every transaction of which somebody was told by then that it is
    /// committed, and none that began to commit later. Commits have their time from the clock of the machine; if that was set back, what was committed
    /// until it had caught up counts as of the time at which it was set back.
    #[must_use]
    pub fn until_time(mut self, time: Timestamp) -> Self {
        self.until = Some(Until::Time(time));
        self
    }
}

pub(super) fn encode(base: &PagesBase) -> [u8; BASE_BYTES] {
    let mut bytes = [0; BASE_BYTES];
    bytes[..4].copy_from_slice(&base.page_bytes.to_le_bytes());
    bytes[4..8].copy_from_slice(&base.pages.to_le_bytes());
    bytes[8..16].copy_from_slice(&base.lsn.0.to_le_bytes());
    bytes[16..24].copy_from_slice(&base.next_txn.to_le_bytes());
    bytes[24..].copy_from_slice(&base.catalogue.0.to_le_bytes());
    bytes
}

pub(super) fn decode(bytes: &[u8]) -> Option<PagesBase> {
    (bytes.len() == BASE_BYTES).then(|| PagesBase {
        page_bytes: word(bytes, 0),
        pages: word(bytes, 4),
        lsn: Lsn(long(bytes, 8)),
        next_txn: long(bytes, 16),
        catalogue: PageId(word(bytes, 24)),
    })
}

/// Hands all pages to `sink`; returns what there was, and how long the database was held.
pub(super) fn read(
    database: &Database,
    sink: &mut dyn Sink,
    watch: CopyWatch<'_>,
) -> Result<(Totals, Duration)> {
    check_partitions(&database.core.descriptor)?;
    let mut session = database.hold_all_to_look()?;
    let start = Instant::now();
    let mut totals = Totals::default();
    let (mut taken, mut entry) = (Ok(()), Vec::new());
    session.idle_engine(0)?.copy_pages(&mut |base, id, page| {
        entry.clear();
        entry.extend_from_slice(&id.0.to_le_bytes());
        entry.extend_from_slice(page);
        if totals.pages == 0 {
            taken = sink.base(base);
        }
        if taken.is_ok() {
            taken = sink.page(&entry);
        }
        totals.add_page(&entry);
        if totals.pages.is_multiple_of(WATCH_PAGES) {
            watch(&CopyProgress {
                stage: CopyStage::Pages,
                table: "",
                rows: totals.pages,
                file_bytes: sink.file_bytes(),
            });
        }
        match taken {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    taken?;
    drop(session);
    Ok((totals, start.elapsed()))
}

fn check_partitions(recorded: &Descriptor) -> Result<()> {
    if recorded.partitions == 1 {
        return Ok(());
    }
    Err(Error::option(
        "pages",
        format!(
            "the database has {} partitions, whose logs end at different moments",
            recorded.partitions
        ),
        "back up rows instead",
    ))
}

/// Makes a database of a backup of pages and what is repeated over it.
pub(super) fn restore<R: Read>(
    reader: &mut BackupReader<'_, R>,
    path: &Path,
    options: &Options,
    replay: Option<&Replay>,
    watch: CopyWatch<'_>,
) -> Result<(Method, Totals, Replayed)> {
    let recorded = reader.header().descriptor;
    check_partitions(&recorded)?;
    let archive = replay.map(|replay| open_archive(replay, &recorded));
    let archive = archive.transpose()?;
    let end = archive.as_ref().and_then(Archive::end).unwrap_or_default();
    let scratch = Scratch::new(path)?;
    let buffer_bytes = options.engine(&recorded).buffer_bytes;
    let mut rebuilding = Rebuilding {
        files: scratch.make(&recorded)?,
        path: &scratch.path,
        end,
        rebuild: None,
    };
    reader.read(&mut rebuilding, watch)?;
    let rebuild = rebuilding
        .rebuild
        .ok_or_else(|| damaged("it has no pages"))?;
    let until = replay.and_then(|replay| replay.until);
    let replayed = rebuild.finish(archive.as_ref(), until, buffer_bytes)?;
    let like = Options::new().buffer_bytes(buffer_bytes);
    let database = Database::open_with(&scratch.path, &like)?;
    let fill = |loader: &mut Loader<'_>, watch: CopyWatch<'_>| {
        let (totals, _) = source::read(&database, CopyStage::Rows, loader, watch)?;
        Ok(totals)
    };
    let (method, totals) = build::build(path, &recorded, options, watch, fill)?;
    Ok((method, totals, replayed))
}

fn open_archive(replay: &Replay, recorded: &Descriptor) -> Result<Archive<NativeDirectory>> {
    let wrong = |problem: String| {
        Error::option(
            "replay",
            format!("{}: {problem}", replay.archive.display()),
            "give the directory of the archive of the database that was backed up",
        )
    };
    if !replay.archive.is_dir() {
        return Err(wrong("there is no directory".to_owned()));
    }
    let files = NativeDirectory::open(&replay.archive, IoMode::Buffered)?;
    let identity = LogIdentity {
        database: recorded.database_id,
        partition: 0,
    };
    let archive = Archive::open(files, identity).map_err(|error| wrong(error.to_string()))?;
    if archive.end().is_none() {
        return Err(wrong("it has no file of an archive".to_owned()));
    }
    Ok(archive)
}

/// A partition that is made again as its pages come.
struct Rebuilding<'s> {
    files: EngineOptions,
    path: &'s Path,
    end: Lsn,
    rebuild: Option<Rebuild<NativeDirectory>>,
}

fn unexpected() -> Error {
    damaged("it has rows where pages are expected")
}

impl Sink for Rebuilding<'_> {
    fn table(&mut self, _: &TableDef) -> Result<()> {
        Err(unexpected())
    }

    fn row(&mut self, _: &[u8]) -> Result<()> {
        Err(unexpected())
    }

    fn end_table(&mut self, _: CopyWatch<'_>) -> Result<()> {
        Err(unexpected())
    }

    fn base(&mut self, base: &PagesBase) -> Result<()> {
        let open = || NativeDirectory::open(self.path, IoMode::Buffered);
        let begun = Rebuild::begin((open()?, open()?), &self.files, *base, self.end)?;
        self.rebuild = Some(begun);
        Ok(())
    }

    fn page(&mut self, entry: &[u8]) -> Result<()> {
        let rebuild = self.rebuild.as_mut().ok_or_else(unexpected)?;
        let placed = rebuild.page(PageId(word(entry, 0)), &entry[4..]);
        placed.map_err(|error| match error {
            StorageError::Unsupported(text) => damaged(text),
            error => error.into(),
        })
    }
}

/// A directory for a database that is read once, and removed.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new(path: &Path) -> Result<Self> {
        let (parent, name) = split(path)?;
        let path = parent.join(format!("{name}.rebuilt-{}", std::process::id()));
        if fs::symlink_metadata(&path).is_ok() {
            return Err(Error::Occupied { path });
        }
        Ok(Self { path })
    }

    /// Makes an empty database in it, and says with what its engine was made.
    fn make(&self, recorded: &Descriptor) -> Result<EngineOptions> {
        let options = Options::new()
            .method(Method::DwbOff)
            .layout(recorded.layout)
            .node_bytes(recorded.node_bytes);
        let database = Database::create(&self.path, &options)?;
        let made = options.engine(&database.core.descriptor);
        database.close()?;
        Ok(made)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is the smaller problem.
        let _ = remove_files(&self.path, false);
    }
}
