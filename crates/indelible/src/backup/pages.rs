//! A backup of pages, and the replay of an archive of the log over it, up to a later moment.
//!
//! Log records describe changes of pages, so they can be replayed only over the pages that they
//! were made for. A backup of pages has these pages, in the state after a checkpoint, with their
//! position in the log. From the backup and the records of the archive after that position a
//! partition is rebuilt ([`Rebuild`]), in a directory of its own next to the new database. The new
//! database is then made from it like any copy (`build`): read row by row, with the requested
//! method and options, and under its name only after it was read back. So the rebuilt files need
//! not be durable, and a failure leaves nothing.
//!
//! Each partition of a database has its own archive, with its own end. All are replayed up to the
//! newest mark that they have in common (`log_marks`). If there is none after the backup, the new
//! database is as the backup, which was taken while all partitions were held.

use super::build;
use super::content::Totals;
use super::copy::{CopyStage, CopyWatch, Place, ReplayEnd, ReplayReport, Sink};
use super::format::{damaged, word};
use super::load::Loader;
use super::read::BackupReader;
use super::source;
use crate::database::Database;
use crate::descriptor::Descriptor;
use crate::error::{Error, Result};
use crate::new_database::ScratchDirectory;
use crate::options::Options;
use engines::{Archive, Mark, Rebuild, Until, files_in, files_to_read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use storage::StorageError;
use storage::engine::{Engine, EngineOptions, Method, PageId, PagesBase};
use storage::log::{LogIdentity, Lsn};
use storage::record::{TableDef, Timestamp};

/// Pages between two reports of progress.
const WATCH_PAGES: u64 = 512;

/// The part of an archive that is replayed over a backup of pages.
#[derive(Clone, Debug)]
pub struct Replay {
    archive: PathBuf,
    until: Option<Until>,
}

impl Replay {
    /// All records of the archive in a directory.
    pub fn new(archive: impl Into<PathBuf>) -> Self {
        Self {
            archive: archive.into(),
            until: None,
        }
    }

    /// Only records with numbers below this one, which are positions in the log as
    /// [`Database::archives`] names them. Transactions that have not committed before it are not in
    /// the new database. Refused with several partitions, since each has positions of its own.
    #[must_use]
    pub fn until(mut self, place: u64) -> Self {
        self.until = Some(Until::Place(Lsn(place)));
        self
    }

    /// Only commits up to this time, and the records before the first later one: every transaction
    /// that was acknowledged by then, and none that began to commit later. Commit times come from
    /// the clock of the machine. If that was set back, the commits until it had caught up count as
    /// of the time at which it was set back.
    ///
    /// With several partitions: the newest mark up to this time that is before the first later one.
    /// Commits between the two are not in the new database.
    #[must_use]
    pub fn until_time(mut self, time: Timestamp) -> Self {
        self.until = Some(Until::Time(time));
        self
    }
}

/// Hands all pages to `sink`; returns their totals, and how long the database was held.
pub(super) fn read(
    database: &Database,
    sink: &mut dyn Sink,
    watch: CopyWatch<'_>,
) -> Result<(Totals, Duration)> {
    let mut session = database.hold_all_to_look()?;
    let start = Instant::now();
    // Archives of earlier backups can be replayed up to here.
    session.mark()?;
    let mut totals = Totals::default();
    for partition in 0..database.partitions() {
        let engine = session.idle_engine(partition)?;
        read_partition(engine, sink, &mut totals, watch)?;
    }
    drop(session);
    Ok((totals, start.elapsed()))
}

fn read_partition(
    engine: &mut dyn Engine,
    sink: &mut dyn Sink,
    totals: &mut Totals,
    watch: CopyWatch<'_>,
) -> Result<()> {
    let (mut taken, mut entry, mut has_begun) = (Ok(()), Vec::new(), false);
    let file = engine.idle()?.page_file().ok_or_else(|| {
        let problem = "pages can be copied only where they are in a file that is open for writing";
        Error::option("pages", problem, "back up rows instead")
    })?;
    file.copy_pages(&mut |base, id, page| {
        entry.clear();
        entry.extend_from_slice(&id.0.to_le_bytes());
        entry.extend_from_slice(page);
        if !std::mem::replace(&mut has_begun, true) {
            taken = sink.base(base);
        }
        if taken.is_ok() {
            taken = sink.page(&entry);
        }
        totals.add_page(&entry);
        if totals.pages.is_multiple_of(WATCH_PAGES) && taken.is_ok() {
            let place = Place {
                stage: CopyStage::Pages,
                table: "",
                rows: totals.pages,
                file_bytes: sink.file_bytes(),
            };
            taken = place.tell(watch);
        }
        match taken {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    taken
}

/// Makes a database from a backup of pages and the records that are replayed over it.
pub(super) fn restore(
    reader: &mut BackupReader<'_>,
    path: &Path,
    options: &Options,
    replay: Option<&Replay>,
    watch: CopyWatch<'_>,
) -> Result<(Method, Totals, ReplayReport)> {
    let recorded = reader.header().descriptor;
    let partitions = reader.header().holds.copies(recorded.partitions);
    if partitions != recorded.partitions {
        return Err(damaged(format!(
            "it has the pages of one partition, of a database with {}",
            recorded.partitions
        )));
    }
    let archives = match replay {
        Some(replay) => open_archives(replay, &recorded)?,
        None => Vec::new(),
    };
    let scratch = Scratch::new(path)?;
    let buffer_bytes = options.engine(&recorded).buffer_bytes;
    let mut rebuilding = Rebuilding {
        files: scratch.make(&recorded)?,
        path: &scratch.0.path,
        ends: archives.iter().map(Archive::end).collect(),
        rebuilds: Vec::new(),
    };
    reader.read(&mut rebuilding, watch)?;
    let rebuilds = rebuilding.rebuilds;
    let until = replay.and_then(|replay| replay.until);
    let (end, parts) = match archives.len() {
        0 => (ReplayEnd::Backup, Vec::new()),
        1 => (ReplayEnd::Place, vec![until]),
        _ => common_end(&rebuilds, &archives, until)?,
    };
    let mut report = ReplayReport {
        end,
        places: Vec::new(),
        transactions: 0,
        last_commit: None,
    };
    for (number, rebuild) in rebuilds.into_iter().enumerate() {
        let archive = parts.get(number).and(archives.get(number));
        let until = parts.get(number).copied().flatten();
        let replayed = rebuild.finish(archive, until, buffer_bytes)?;
        report.places.push(replayed.reached.0);
        report.transactions += replayed.committed;
        report.last_commit = report.last_commit.max(replayed.time);
    }
    let like = Options::new().buffer_bytes(buffer_bytes);
    let database = Database::open_with(&scratch.0.path, &like)?;
    let fill = |loader: &mut Loader<'_>, watch: CopyWatch<'_>| {
        let (totals, _) = source::read(&database, CopyStage::Rows, loader, watch)?;
        Ok(totals)
    };
    let (method, totals) = build::build(path, &recorded, options, watch, fill)?;
    Ok((method, totals, report))
}

/// The archives of all partitions, which are in one directory.
fn open_archives(replay: &Replay, recorded: &Descriptor) -> Result<Vec<Archive>> {
    if recorded.partitions > 1 && matches!(replay.until, Some(Until::Place(_))) {
        return Err(Error::option(
            "until",
            format!(
                "the database has {} partitions, and a place is one in the log of one of them",
                recorded.partitions
            ),
            "give a time, or no end",
        ));
    }
    (0..recorded.partitions)
        .map(|partition| open_archive(replay, recorded, partition))
        .collect()
}

/// The common end of the replay of several partitions: the newest mark that all archives have after
/// the backup, or the newest one before the first that is later than `until`. None if they have no
/// such mark.
fn common_end(
    rebuilds: &[Rebuild],
    archives: &[Archive],
    until: Option<Until>,
) -> Result<(ReplayEnd, Vec<Option<Until>>)> {
    let until = match until {
        Some(Until::Time(time)) => Some(time),
        _ => None,
    };
    let marks = rebuilds
        .iter()
        .zip(archives)
        .map(|(rebuild, archive)| rebuild.marks(archive, until))
        .collect::<Result<Vec<_>, StorageError>>()?;
    let Some(cut) = newest_common(&marks, until)? else {
        return Ok((ReplayEnd::Backup, Vec::new()));
    };
    let time = time_of(&cut);
    let places = cut.iter().map(|mark| Some(Until::Place(mark.place)));
    Ok((ReplayEnd::Mark(time), places.collect()))
}

/// The time of a mark, of which each partition has one.
fn time_of(mark: &[Mark]) -> Option<Timestamp> {
    mark.iter().filter_map(|mark| mark.time).max()
}

/// The newest mark that all partitions have, as it is in each of them. `marks` are those of each
/// partition, in their order.
fn newest_common(marks: &[Vec<Mark>], until: Option<Timestamp>) -> Result<Option<Vec<Mark>>> {
    let in_all = |mark: &Mark| {
        let same = |marks: &Vec<Mark>| {
            let found = marks.binary_search_by_key(&mark.number, |other| other.number);
            found.ok().and_then(|at| marks.get(at).copied())
        };
        marks.iter().map(same).collect::<Option<Vec<_>>>()
    };
    let mut common = marks.first().into_iter().flatten().filter_map(in_all);
    let Some(until) = until else {
        return Ok(common.next_back());
    };
    let refuse = |problem: String, remedy| Err(Error::option("until", problem, remedy));
    // After its last mark a partition may have had more by then.
    let newest = |marks: &Vec<Mark>| marks.last().and_then(|mark| mark.time);
    match marks.iter().map(newest).min().flatten() {
        None => {
            return refuse(
                "the archive of a partition has no mark after the backup".to_owned(),
                "choose no end",
            );
        }
        Some(reached) if reached < until => {
            return refuse(
                format!(
                    "the newest mark that the archives of all partitions reach is of {reached}, so {until} cannot be reached"
                ),
                "choose that time or an earlier one, or no end",
            );
        }
        Some(_) => {}
    }
    let (mut cut, mut first) = (None, "later".to_owned());
    for mark in common {
        match time_of(&mark) {
            Some(time) if time > until => {
                first = format!("of {time}");
                break;
            }
            _ => cut = Some(mark),
        }
    }
    if cut.is_none() {
        return refuse(
            format!(
                "the first mark after the backup that the archives of all partitions have is {first}, so {until} may be before the backup"
            ),
            "choose a later time, an older backup, or this one without its archive",
        );
    }
    Ok(cut)
}

fn open_archive(replay: &Replay, recorded: &Descriptor, partition: u32) -> Result<Archive> {
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
    let files = files_to_read(&replay.archive)?;
    let identity = LogIdentity {
        database: recorded.database_id,
        partition,
    };
    let archive = Archive::open(files, identity).map_err(|error| wrong(error.to_string()))?;
    if archive.end().is_none() {
        let of = match recorded.partitions {
            1 => String::new(),
            _ => format!(" of partition {partition}"),
        };
        return Err(wrong(format!("it has no file of an archive{of}")));
    }
    Ok(archive)
}

/// Partitions that are rebuilt as their pages come.
struct Rebuilding<'s> {
    files: EngineOptions,
    path: &'s Path,
    /// End of each archive.
    ends: Vec<Option<Lsn>>,
    rebuilds: Vec<Rebuild>,
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
        let open = || files_in(self.path);
        let partition = self.rebuilds.len();
        let files = EngineOptions {
            partition: partition as u32,
            ..self.files.clone()
        };
        let end = self.ends.get(partition).copied().flatten();
        let end = end.unwrap_or_default();
        let begun = Rebuild::begin((open()?, open()?), &files, *base, end)?;
        self.rebuilds.push(begun);
        Ok(())
    }

    fn page(&mut self, entry: &[u8]) -> Result<()> {
        let rebuild = self.rebuilds.last_mut().ok_or_else(unexpected)?;
        let placed = rebuild.page(PageId(word(entry, 0)), &entry[4..]);
        placed.map_err(|error| match error {
            StorageError::Unsupported(text) => damaged(text),
            error => error.into(),
        })
    }
}

/// A directory for a database that is read once, and removed.
struct Scratch(ScratchDirectory);

impl Scratch {
    fn new(path: &Path) -> Result<Self> {
        ScratchDirectory::make(path, "rebuilt", None).map(Self)
    }

    /// Makes an empty database in it, and returns the options of its engine.
    fn make(&self, recorded: &Descriptor) -> Result<EngineOptions> {
        let options = Options::new()
            .method(Method::DwbOff)
            .partitions(recorded.partitions)
            .layout(recorded.layout)
            .node_bytes(recorded.node_bytes);
        let database = Database::create(&self.0.path, &options)?;
        let made = options.engine(&database.core.descriptor);
        database.close()?;
        // The files that the roster lists will be replaced.
        let files = files_in(&self.0.path)?;
        let (recorded, roster) = Descriptor::read_whole(&files)?;
        if let Some(roster) = roster {
            recorded.write_roster(&files, &roster.without_files())?;
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::{Header, Holds};
    use super::super::write::BackupWriter;
    use super::*;

    /// The length of pages in the head of a copy was believed: other lengths than that of the
    /// database ended the process.
    #[test]
    fn pages_of_another_length_are_damage() {
        let path = std::env::temp_dir().join(format!("indelible-pages-{}", std::process::id()));
        let made = Options::new().method(Method::DwbOff);
        let database = Database::create(&path, &made).unwrap();
        let descriptor = database.core.descriptor;
        drop(database);
        let header = Header {
            holds: Holds::Pages,
            descriptor,
            taken_s: 0,
        };
        let copy = path.with_extension("copy");
        for page_bytes in [0, 1, 8, 512, descriptor.node_bytes * 2, u32::MAX] {
            let mut backup = Vec::new();
            let name = Path::new("the backup");
            let mut writer = BackupWriter::new(&mut backup, name, &header).unwrap();
            let base = PagesBase {
                page_bytes,
                pages: 2,
                lsn: Lsn(0),
                next_txn: 1,
                catalogue: PageId(1),
            };
            writer.base(&base).unwrap();
            writer.finish(&Totals::default()).unwrap();
            let mut input = backup.as_slice();
            let options = Options::new();
            let restored = Database::restore_from(&mut input, None, &copy, &options, &mut |_| {});
            let error = restored.unwrap_err();
            assert!(matches!(error, Error::DamagedBackup { .. }), "{error}");
        }
        std::fs::remove_dir_all(&path).unwrap();
    }
}
