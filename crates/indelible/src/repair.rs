//! Repair: files that can be derived from the other files of a database are rebuilt.
//!
//! Two files can be derived: the descriptor and the commit table. The commit table has a copy of
//! the descriptor's fields, and the descriptor the identity that a commit table needs. If both are
//! lost, the headers of the partitions tell most of it ([`Clues`](crate::clues::Clues)) and the
//! caller the rest. Everything else is data, which only a backup can replace.
//!
//! 1. Before anything is written, each partition is opened for reading with the proposed
//!    descriptor, so that a wrong guess changes nothing. If a partition does not open, the repair
//!    is refused, with the reason.
//! 2. A commit table is made anew only if nobody can need the old one: with one partition, or if no
//!    crash has left anything unfinished. Its numbers begin after those of every earlier table of
//!    the database.
//! 3. Each file to be replaced is first copied to `replaced-…` in the database's directory,
//!    durably. Each new file appears under its name whole, a commit table with the stamp of the
//!    other files' generation; the descriptor is the last.
//! 4. The result is opened and checked. If the check fails, the old files are restored.

use crate::clues::Clues;
use crate::commit_pool::{self, PoolWords};
use crate::commit_table::{self, COMMIT_TABLE, COMMIT_TABLE_NEW, CommitTable};
use crate::database::Database;
use crate::descriptor::{DESCRIPTOR, Descriptor};
use crate::error::{Error, Result};
use crate::options::{Mode, Options};
use crate::platform::{self, NativePlatform, io_error, native_options};
use crate::roster::Roster;
use pmem::device::NativeOptions;
use pmem::{Access, MemorySource};
use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use storage::engine::{EngineOptions, FenceOrder, GlobalTxnId, Method, VerifyReport};
use storage::record::{LayoutKind, Timestamp};
use storage::{EngineSource, Platform, StorageError, stamp};

/// Prefix of the names of directories with replaced files.
const REPLACED: &str = "replaced-";
/// The system's number of an error of the device.
const EIO: i32 = 5;

/// Whether a repair writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Effect {
    /// It only reports what it would do; the database's files stay as they are.
    Rehearsed,
    /// It rebuilds the missing or damaged files.
    #[default]
    Written,
}

/// Assumptions that a repair may make where the files do not tell.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct Repair {
    effect: Effect,
    method: Option<Method>,
    partitions: Option<u32>,
}

impl Repair {
    /// A repair that assumes nothing, and writes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether it writes.
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// The method that the database was created with, if its files fit several.
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// The number of partitions that it was created with, if only the partitions themselves are
    /// left.
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.partitions = Some(partitions);
        self
    }
}

/// Result of a repair.
#[derive(Clone, Debug)]
pub struct Repaired {
    /// The rebuilt files and their sources (or those that would be rebuilt); empty if all are
    /// whole.
    pub rebuilt: Vec<String>,
    /// Directory of the replaced files.
    pub replaced: Option<PathBuf>,
    /// The method of the database.
    pub method: Method,
    /// The number of its partitions.
    pub partitions: u32,
    /// Result of the final check; none if nothing was written.
    pub report: Option<VerifyReport>,
}

/// Source of the descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Descriptor,
    CommitTable,
    Partitions,
}

/// Findings in the partitions, opened for reading.
struct Survey {
    /// The reason why the commit table cannot be used, if so.
    table: Option<Error>,
    /// Whether a partition has asked for the fate of a transaction.
    asked: bool,
    /// Number of partitions, and those in which a crash has left something to do.
    partitions: u32,
    unfinished: Vec<u32>,
    tables: usize,
    /// Greater than all identifiers of tables and indexes.
    next_identifier: u32,
}

impl Database {
    /// Rebuilds the descriptor and the commit table of a database that nobody has open, if they are
    /// missing or damaged and the other files tell their content. Copies of the replaced files are
    /// kept.
    ///
    /// # Errors
    /// [`Error::Irreparable`] if the files do not tell their content, with what is needed; nothing
    /// was changed then.
    pub fn repair(path: impl AsRef<Path>, repair: &Repair) -> Result<Repaired> {
        let path = path.as_ref();
        platform::find_directory(path)?;
        let mut native = NativePlatform::new(path, Access::Write, NativeOptions::default())?;
        let (source, recorded, survey) = choose(&mut native, repair)?;
        native.share_addresses(recorded.partitions);
        let lost = survey.table.is_some().then_some(COMMIT_TABLE);
        let (roster, is_older) =
            Roster::rebuilt(&native, &recorded, lost).map_err(|error| cannot_be_used(&error))?;
        let mut repaired = Repaired {
            rebuilt: plan(source, &survey, is_older)?,
            replaced: None,
            method: recorded.method,
            partitions: recorded.partitions,
            report: None,
        };
        if repair.effect == Effect::Rehearsed || repaired.rebuilt.is_empty() {
            return Ok(repaired);
        }
        let mut work = Work::new(path);
        // Until the work is done or taken back, nobody else may open the database.
        let _locks = native.take_locks();
        let written = write(&native, source, (&recorded, &roster), &survey, &mut work);
        let checked = written.and_then(|()| {
            let database = Self::open_on(native, &Options::new())?;
            let report = database.verify()?;
            database.close()?;
            if source == Source::Partitions && !report.damage.is_empty() {
                return Err(irreparable(format!(
                    "what was rebuilt does not fit the data ({}); correct what was given for it",
                    report.damage.join("; ")
                )));
            }
            Ok(report)
        });
        match checked {
            Ok(report) => repaired.report = Some(report),
            Err(error) => {
                work.take_back()?;
                return Err(error);
            }
        }
        repaired.replaced = work.kept;
        Ok(repaired)
    }
}

/// The first description of the database with which its partitions open.
fn choose(native: &mut NativePlatform, repair: &Repair) -> Result<(Source, Descriptor, Survey)> {
    let mut candidates = Vec::new();
    match native.descriptor() {
        Ok(recorded) => candidates.push((Source::Descriptor, recorded)),
        Err(Error::NoDescriptor { .. } | Error::DamagedDescriptor { .. }) => {}
        Err(error) if is_unreadable(&error) => {}
        Err(other) => return Err(other),
    }
    let memories = native.memories(0);
    if let Some(recorded) = commit_pool::descriptor_in(&memories) {
        candidates.push((Source::CommitTable, recorded));
    }
    let mut refusal = None;
    for (source, recorded) in candidates {
        match survey(native, &recorded) {
            Ok(survey) => return Ok((source, recorded, survey)),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    if let Some(error) = refusal {
        return Err(cannot_be_used(&error));
    }
    let recorded = by_clues(native, repair)?;
    let survey = survey(native, &recorded).map_err(|error| {
        irreparable(format!(
            "with method {} and {} partitions, a file cannot be used ({error}); put the right file back, correct \
             what was given, or restore the database from a backup",
            recorded.method, recorded.partitions
        ))
    })?;
    Ok((Source::Partitions, recorded, survey))
}

/// Whether the device cannot give the bytes of a file, or something else has its name.
fn is_unreadable(error: &Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return error.raw_os_error() == Some(EIO)
                || error.kind() == std::io::ErrorKind::IsADirectory;
        }
        cause = error.source();
    }
    false
}

fn cannot_be_used(error: &Error) -> Error {
    irreparable(format!(
        "a file that holds data cannot be used ({error}); put the right file back, or restore the database from a backup"
    ))
}

/// A descriptor from the clues of the partitions, and from the caller's knowledge.
fn by_clues(native: &NativePlatform, repair: &Repair) -> Result<Descriptor> {
    let clues = Clues::find(native)?.ok_or_else(|| {
        irreparable("the files that are left do not say which database they are of; restore it from a backup")
    })?;
    let names: Vec<&str> = clues.methods.iter().map(|method| method.name()).collect();
    let method = match (repair.method, clues.methods.as_slice()) {
        (_, []) => {
            return Err(irreparable(
                "the files that are left are not those of any method; put back what is missing, or restore a backup",
            ));
        }
        (Some(method), fitting) if fitting.contains(&method) => method,
        (Some(method), _) => {
            return Err(irreparable(format!(
                "the files are not those of method {method}, but of {}",
                names.join(" or ")
            )));
        }
        (None, [method]) => *method,
        (None, _) => {
            return Err(irreparable(format!(
                "the files fit the methods {}; say with which one it was created (`--method`)",
                names.join(", ")
            )));
        }
    };
    let Some(partitions) = repair.partitions else {
        return Err(irreparable(format!(
            "files of {} partition(s) are there, and nothing that is left says how many there were; look that none is missing \
             and say it (`--partitions {}`)",
            clues.partitions, clues.partitions
        )));
    };
    if partitions < clues.partitions {
        return Err(irreparable(format!(
            "there are files of {} partitions, more than {partitions}",
            clues.partitions
        )));
    }
    Ok(Descriptor {
        database_id: clues.database_id,
        method,
        partitions,
        layout: clues.layout.unwrap_or(LayoutKind::Together),
        node_bytes: clues
            .node_bytes
            .unwrap_or_else(|| method.node_bytes_default()),
        domain: None,
        fences: FenceOrder::default(),
        created_s: 0,
        memtable_bytes: None,
    })
}

/// Opens every partition for reading.
fn survey(native: &mut NativePlatform, recorded: &Descriptor) -> Result<Survey> {
    let options = Options::new().mode(Mode::ReadOnly);
    native.devices.options = native_options(&options, recorded.domain);
    let memories = native.memories(0);
    let words = PoolWords::open(&memories, recorded.database_id, Access::Read);
    let (committed, table) = match words {
        Ok(words) => (CommitTable::new(Box::new(words)).committed()?, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let asked = Cell::new(false);
    let decide = |transaction: GlobalTxnId| {
        asked.set(true);
        committed.contains(&transaction.0)
    };
    let mut survey = Survey {
        table,
        asked: false,
        partitions: recorded.partitions,
        unfinished: Vec::new(),
        tables: 0,
        next_identifier: 0,
    };
    for partition in 0..recorded.partitions {
        let options = EngineOptions {
            partition,
            ..options.engine(recorded)
        };
        match native.open_engine(recorded.method, &options, &decide) {
            Ok(engine) => survey.note(&engine.tables()),
            Err(StorageError::NeedsRecovery(_)) => survey.unfinished.push(partition),
            Err(other) => return Err(other.into()),
        }
    }
    survey.asked = asked.get();
    Ok(survey)
}

impl Survey {
    fn note(&mut self, tables: &[std::sync::Arc<storage::table::Table>]) {
        self.tables += tables.len();
        for table in tables {
            let indexes = table.def.indexes.iter().map(|index| index.id.0);
            let highest = indexes.chain([table.def.id.0]).max().unwrap_or(0);
            self.next_identifier = self.next_identifier.max(highest + 1);
        }
    }
}

/// The files to rebuild, or the reason why that is impossible.
fn plan(source: Source, survey: &Survey, is_older: bool) -> Result<Vec<String>> {
    let mut rebuilt = Vec::new();
    let origin = match source {
        Source::Descriptor if is_older => {
            rebuilt.push(format!(
                "the list of files in {DESCRIPTOR}, which is an older copy of itself"
            ));
            None
        }
        Source::Descriptor => None,
        Source::CommitTable => Some("its copy in the commit table"),
        Source::Partitions => Some("the headers of the partitions, and what was given"),
    };
    if let Some(origin) = origin {
        if survey.unfinished.is_empty() && survey.tables == 0 {
            return Err(irreparable(
                "the partitions that are there hold no tables: files that do are missing, or the creation of the database was \
                 interrupted; put back what is missing, or create a database in another directory",
            ));
        }
        rebuilt.push(format!("the descriptor {DESCRIPTOR}, from {origin}"));
    }
    if let Some(problem) = &survey.table {
        let is_needed = survey.asked || !survey.unfinished.is_empty();
        if survey.partitions > 1 && is_needed {
            return Err(irreparable(format!(
                "the commit table cannot be used ({problem}), and a crash has left transactions over several partitions whose \
                 fate only it tells; put {COMMIT_TABLE} back, or restore the database from a backup"
            )));
        }
        rebuilt.push(format!(
            "the commit table {COMMIT_TABLE}, which no transaction needs"
        ));
    }
    Ok(rebuilt)
}

/// Keeps the files to be replaced, and writes the planned ones.
fn write(
    native: &NativePlatform,
    source: Source,
    (recorded, roster): (&Descriptor, &Roster),
    survey: &Survey,
    work: &mut Work,
) -> Result<()> {
    let table = native.devices.memory_path().join(COMMIT_TABLE);
    let descriptor = native.devices.path.join(DESCRIPTOR);
    let (writes_table, writes_descriptor) = (survey.table.is_some(), source != Source::Descriptor);
    if writes_table {
        work.keep(&table)?;
    }
    // It lists the files, so it changes in each case.
    work.keep(&descriptor)?;
    if writes_table {
        write_table(native, (recorded, roster), survey)?;
    }
    let files = native.files(0)?;
    if writes_descriptor {
        recorded.write(&files, roster)
    } else {
        recorded.write_roster(&files, roster)
    }
}

/// Makes a commit table that is of the generation of the other files, so that a repair which is
/// interrupted after this step can be repeated, also without the descriptor.
fn write_table(
    native: &NativePlatform,
    (recorded, roster): (&Descriptor, &Roster),
    survey: &Survey,
) -> Result<()> {
    let next_identifier = survey
        .next_identifier
        .max(recover(native, recorded, survey)?);
    let table = native.devices.memory_path().join(COMMIT_TABLE);
    let new = native.devices.memory_path().join(COMMIT_TABLE_NEW);
    let memories = native.memories(0);
    if new.exists() {
        memories.remove(COMMIT_TABLE_NEW)?;
    }
    let mut words = PoolWords::create_as(COMMIT_TABLE_NEW, &memories, recorded)?;
    commit_table::begin_anew(&mut words, generation(), next_identifier)?;
    words.end_creation()?;
    drop(words);
    if let Some(offset) = stamp::place(COMMIT_TABLE) {
        let stamp = roster.stamp(recorded).to_le_bytes();
        let stamped = File::options().write(true).open(&new).and_then(|file| {
            file.write_all_at(&stamp, offset)?;
            file.sync_all()
        });
        stamped.map_err(|source| io_error("stamp", &new, source))?;
    }
    fs::rename(&new, &table).map_err(|source| io_error("create", &table, source))?;
    platform::sync_parent(&table)
}

/// Lets the partitions finish the work that a crash has left, so that all of their tables are
/// known. None of it needs the commit table.
fn recover(native: &NativePlatform, recorded: &Descriptor, survey: &Survey) -> Result<u32> {
    let mut known = Survey {
        table: None,
        asked: false,
        partitions: recorded.partitions,
        unfinished: Vec::new(),
        tables: 0,
        next_identifier: 0,
    };
    for &partition in &survey.unfinished {
        let options = EngineOptions {
            partition,
            ..Options::new().engine(recorded)
        };
        let mut engine = native.open_engine(recorded.method, &options, &|_| false)?;
        known.note(&engine.tables());
        engine.idle()?.close()?;
    }
    Ok(known.next_identifier)
}

/// A generation of transaction numbers that no earlier commit table can have reached, since those
/// count openings from 1.
fn generation() -> u64 {
    // Seconds since 2020, which reach the other half of the numbers in 2088.
    1 << 31
        | seconds_now()
            .saturating_sub(1_577_836_800)
            .min(u64::from(u32::MAX >> 1) - 1)
}

fn seconds_now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Files that a repair has replaced, and the copies of the old ones.
struct Work {
    path: PathBuf,
    kept: Option<PathBuf>,
    /// Each written file, and the place of the old one.
    files: Vec<(PathBuf, Old)>,
}

/// The place of a file that is replaced.
enum Old {
    /// There was none.
    None,
    Copied(PathBuf),
    /// It could not be read.
    Moved(PathBuf),
}

/// Replaces a file by its old copy in one step.
fn put_back(copy: &Path, file: &Path) -> std::io::Result<()> {
    let name = file.file_name().unwrap_or_default();
    let new = file.with_file_name(format!("{}.new", name.display()));
    fs::copy(copy, &new)?;
    File::open(&new)?.sync_all()?;
    fs::rename(&new, file)
}

impl Work {
    fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            kept: None,
            files: Vec::new(),
        }
    }

    /// Copies a file aside, if it is there, durably. One that cannot be read is moved.
    fn keep(&mut self, file: &Path) -> Result<()> {
        if !file.exists() {
            self.files.push((file.to_owned(), Old::None));
            return Ok(());
        }
        let directory = self.directory()?;
        let name = file.file_name().unwrap_or_default();
        let copy = directory.join(name);
        let copied = fs::copy(file, &copy).and_then(|_| File::open(&copy)?.sync_all());
        if copied.is_ok() {
            platform::sync_parent(&copy)?;
            self.files.push((file.to_owned(), Old::Copied(copy)));
            return Ok(());
        }
        // The directory may be on another file system than the log.
        let beside = file.with_file_name(format!("{}.{REPLACED}old", name.display()));
        let _ = fs::remove_file(&copy);
        let moved = if fs::rename(file, &copy).is_ok() {
            copy
        } else {
            fs::rename(file, &beside).map_err(|source| io_error("move", file, source))?;
            beside
        };
        platform::sync_parent(&moved)?;
        platform::sync_parent(file)?;
        self.files.push((file.to_owned(), Old::Moved(moved)));
        Ok(())
    }

    /// The directory of the copies, which is made when it is needed first.
    fn directory(&mut self) -> Result<PathBuf> {
        if let Some(directory) = &self.kept {
            return Ok(directory.clone());
        }
        let micros = i64::try_from(seconds_now() * 1_000_000).unwrap_or(0);
        let date = Timestamp(micros).to_string();
        let date = date.replace(' ', "-").replace(':', "");
        let directory = self.path.join(format!("{REPLACED}{date}"));
        fs::create_dir(&directory).map_err(|source| io_error("create", &directory, source))?;
        platform::sync_parent(&directory)?;
        self.kept = Some(directory.clone());
        Ok(directory)
    }

    /// Puts everything back as it was.
    fn take_back(self) -> Result<()> {
        for (file, old) in &self.files {
            let put_back = match old {
                Old::Copied(copy) => put_back(copy, file),
                Old::Moved(moved) => fs::rename(moved, file),
                Old::None if file.exists() => fs::remove_file(file),
                Old::None => Ok(()),
            };
            put_back.map_err(|source| io_error("put back", file, source))?;
            platform::sync_parent(file)?;
        }
        match self.kept {
            Some(kept) => {
                fs::remove_dir_all(&kept).map_err(|source| io_error("remove", &kept, source))
            }
            None => Ok(()),
        }
    }
}

fn irreparable(reason: impl Into<String>) -> Error {
    Error::Irreparable {
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::record::DataType;

    /// A repair that died after it had replaced the commit table left one without a stamp. If the
    /// descriptor was lost as well before the repair was repeated, that table was taken for an
    /// older copy of itself, and the database was refused for ever.
    #[test]
    fn a_repair_that_died_after_the_commit_table_can_be_repeated_without_the_descriptor() {
        let name = format!("indelible-repeated-repair-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        for method in [Method::NvmInp, Method::Inp, Method::FullPageWrites] {
            let options = Options::new().method(method).partitions(2);
            let database = Database::create(&path, &options).unwrap();
            let table = database.create_table("t").column("id", DataType::Int64);
            let table = table.create().unwrap();
            database
                .transaction(|t| t.insert(&table, (1_i64,)))
                .unwrap();
            database.close().unwrap();
            fs::remove_file(path.join(COMMIT_TABLE)).unwrap();

            let repair = Repair::new();
            let mut native =
                NativePlatform::new(&path, Access::Write, NativeOptions::default()).unwrap();
            let (_, recorded, survey) = choose(&mut native, &repair).unwrap();
            native.share_addresses(recorded.partitions);
            let lost = Some(COMMIT_TABLE);
            let (roster, _) = Roster::rebuilt(&native, &recorded, lost).unwrap();
            write_table(&native, (&recorded, &roster), &survey).unwrap();
            drop(native);
            fs::remove_file(path.join(DESCRIPTOR)).unwrap();

            let repaired = Database::repair(&path, &repair).unwrap();
            assert!(repaired.rebuilt[0].contains(DESCRIPTOR), "{repaired:?}");
            let database = Database::open(&path).unwrap();
            let table = database.table("t").unwrap();
            let rows = database.read(|r| r.collect(&table, ..)).unwrap();
            assert_eq!(rows.len(), 1, "{method}");
            drop(database);
            fs::remove_dir_all(&path).unwrap();
        }
    }

    /// The lock was given up before the old files were restored, and these were written in place:
    /// another process could open the database in between, and a crash left half a file.
    #[test]
    fn old_files_come_back_in_one_step_and_under_the_lock() {
        let name = format!("indelible-taken-back-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let options = Options::new().method(Method::NvmInp);
        Database::create(&path, &options).unwrap().close().unwrap();
        let mut native =
            NativePlatform::new(&path, Access::Write, NativeOptions::default()).unwrap();
        let locks = native.take_locks();
        let descriptor = path.join(DESCRIPTOR);
        let mut work = Work::new(&path);
        work.keep(&descriptor).unwrap();
        drop(Database::open_on(native, &Options::new()).unwrap());
        let changed = File::open(&descriptor).unwrap();
        let before = fs::read(&descriptor).unwrap();
        work.take_back().unwrap();
        let mut bytes = vec![0; before.len()];
        changed.read_exact_at(&mut bytes, 0).unwrap();
        assert!(bytes == before && fs::read(&descriptor).unwrap() != before);
        let refused = Database::open(&path).unwrap_err();
        assert!(matches!(refused, Error::InUse { .. }), "{refused}");
        drop(locks);
        fs::remove_dir_all(&path).unwrap();
    }
}
