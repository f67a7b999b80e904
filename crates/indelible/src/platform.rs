//! The devices that a database runs on: native here, others through [`storage::Platform`].
//!
//! A native database is a directory. Its lock is a lock of the directory itself, exclusive for a
//! writer and shared among readers. The operating system releases it when the process dies, so
//! there is no stale lock file to clean up. The lock is taken before the first file is read and
//! held until the platform is dropped, after the engines.
//!
//! The log can have a directory of its own, on a device that suits it, to which a symbolic link in
//! the database's directory points ([`links`](crate::links)). That directory then has everything
//! but the pages: the files of the log, and the parts in durable memory. Another link points to the
//! directory to which the log of a page method moves records that recovery no longer needs, instead
//! of discarding them. Both directories are locked as well.

use crate::commit_pool::{self, Creation};
use crate::commit_table::COMMIT_TABLE;
use crate::descriptor::{self, Descriptor};
use crate::directories::has_at_most;
pub(crate) use crate::directories::{io_error, is_empty_directory, make_directory, sync_parent};
use crate::error::{Error, Result};
use crate::file_names;
use crate::holder::Holder;
use crate::limits;
use crate::links;
use crate::options::Options;
use disk::IoMode;
use engines::{Files, NativeDevices};
use pmem::device::{Medium, NativeOptions, NativeSource};
use pmem::{Access, Domain, MemorySource};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use storage::engine::{Decide, Engine, EngineOptions, Method};
use storage::{EngineSource, Platform};

/// Beginnings of the names of files that find out what a new database's directory allows; the
/// number of the process follows.
const PROBE_MEDIUM: &str = ".indelible-medium-";
const PROBE_DOMAIN: &str = ".indelible-domain-";
const PROBE_WRITE: &str = ".indelible-write-";
/// Bytes of the file that tests the medium.
const PROBE_BYTES: u64 = 4096;

/// A directory of the operating system, locked.
pub struct NativePlatform {
    pub(crate) devices: NativeDevices,
    locks: Vec<DirectoryLock>,
}

impl NativePlatform {
    /// Locks an existing directory, which takes no right to write.
    pub fn new(path: &Path, access: Access, options: NativeOptions) -> Result<Self> {
        let mut native = Self {
            locks: vec![lock_directory(path, access)?],
            devices: NativeDevices {
                path: path.to_owned(),
                log: links::log_directory(path)?,
                archive: links::archive_directory(path)?,
                access,
                options,
                pages: IoMode::Buffered,
            },
        };
        if access == Access::Write {
            native.check_owner()?;
        }
        if let Some(log) = &native.devices.log {
            native.locks.push(lock_directory(log, access)?);
        }
        native.lock_archive()?;
        Ok(native)
    }

    /// Makes and locks the directory of a new database, and checks that one can be made there.
    pub(crate) fn prepare(path: &Path, options: &Options) -> Result<Self> {
        make_directory(path)?;
        clear_cut_off(path)?;
        // An existing database keeps its log: the checks below report it.
        let made = links::make_missing(path, options)?;
        let new = || {
            let native = native_options(options, options.domain);
            let mut native = Self::new(path, Access::Write, native)?;
            native.devices.pages = options.io_mode();
            native.check_empty()?;
            native.check_log(options.log_path())?;
            native.check_archive(options.archive_path())?;
            native.check_writable()?;
            native.check_domain()?;
            native.take_links()?;
            Ok(native)
        };
        let prepared = new();
        if prepared.is_err() {
            for link in made {
                // The first error is the one to report.
                let _ = fs::remove_file(link);
            }
        }
        prepared
    }

    /// Fails if the log or the archive is that of another database, of which this one is a copy.
    fn check_owner(&self) -> Result<()> {
        let devices = &self.devices;
        if let Some(log) = &devices.log {
            links::check_owner(&devices.path, links::LOG, log)?;
        }
        if let Some(archive) = &devices.archive {
            links::check_owner(&devices.path, links::ARCHIVE, archive)?;
        }
        Ok(())
    }

    /// Notes in the directories of the log and of the archive that they are of this database.
    pub(crate) fn take_links(&self) -> Result<()> {
        links::note_all(&self.devices.path)
    }

    /// Locks the archive. One that is in the directory of the log, as earlier versions allowed, is
    /// locked with that.
    fn lock_archive(&mut self) -> Result<()> {
        let Some(archive) = &self.devices.archive else {
            return Ok(());
        };
        let log = self.devices.log.as_deref();
        if !log.is_some_and(|log| links::is_same(log, archive)) {
            let lock = lock_directory(archive, self.devices.access)?;
            self.locks.push(lock);
        }
        Ok(())
    }

    /// Its locks, which last longer than it.
    pub(crate) fn take_locks(&mut self) -> Vec<DirectoryLock> {
        std::mem::take(&mut self.locks)
    }

    /// Limits the addresses reserved for each memory, so that those of all partitions fit.
    pub(crate) fn share_addresses(&mut self, partitions: u32) {
        self.devices.options.reserved_bytes = Some(limits::reserved_bytes(partitions));
    }

    /// Whether the log has a directory of its own.
    pub(crate) fn has_log(&self) -> bool {
        self.devices.log.is_some()
    }

    /// Reads the descriptor. If it is missing, the commit table and the directory of the log are
    /// asked as well before the error says that there is no data.
    pub(crate) fn descriptor(&self) -> Result<Descriptor> {
        let read = Descriptor::read(&self.files(0)?);
        let files = match &read {
            Err(Error::Incomplete { files } | Error::NoDescriptor { files }) => files.clone(),
            Err(Error::NotADatabase { .. }) => String::new(),
            _ => return read,
        };
        match commit_pool::creation(&self.memories(0)) {
            // A log that has a directory of its own has the commit table in it.
            Creation::CutOff if files.is_empty() => {
                let files = COMMIT_TABLE.to_owned();
                return Err(Error::Incomplete { files });
            }
            Creation::CutOff => return Err(Error::Incomplete { files }),
            Creation::Ended if !files.is_empty() => return Err(Error::NoDescriptor { files }),
            _ => {}
        }
        let Some(log) = &self.devices.log else {
            return read;
        };
        let names = own_files(log).map_err(|source| io_error("read", log, source))?;
        if names.is_empty() {
            return read;
        }
        let names: Vec<String> = names
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        Err(Error::NoDescriptor {
            files: names.join(", "),
        })
    }

    /// Fails if the caller names another directory than the log has.
    pub(crate) fn check_log(&self, asked: Option<&Path>) -> Result<()> {
        let Some(asked) = asked else {
            return Ok(());
        };
        let found = self.devices.log.as_deref().map(fs::canonicalize);
        let is_same = match (fs::canonicalize(asked), found) {
            (Ok(asked), Some(Ok(found))) => asked == found,
            _ => false,
        };
        if is_same {
            return Ok(());
        }
        let recorded = self.devices.log.as_deref().unwrap_or(&self.devices.path);
        Err(Error::option(
            "log_directory",
            format!(
                "the log is in {}, and {} was asked for",
                recorded.display(),
                asked.display()
            ),
            format!(
                "leave the option out; a log that was moved is found through the symbolic link {}",
                self.devices.path.join(links::LOG).display()
            ),
        ))
    }

    /// Fails if the caller names another archive than the log has.
    pub(crate) fn check_archive(&self, asked: Option<&Path>) -> Result<()> {
        let (Some(asked), Some(found)) = (asked, &self.devices.archive) else {
            return Ok(());
        };
        let is_same = match (fs::canonicalize(asked), fs::canonicalize(found)) {
            (Ok(asked), Ok(found)) => asked == found,
            _ => false,
        };
        if is_same {
            return Ok(());
        }
        Err(Error::option(
            "archive",
            format!(
                "the archive of the log is in {}, and {} was asked for",
                found.display(),
                asked.display()
            ),
            format!(
                "leave the option out; an archive that was moved is found through the symbolic link {}",
                self.devices.path.join(links::ARCHIVE).display()
            ),
        ))
    }

    /// Gives the log of an existing database an archive from now on, if it has none.
    pub(crate) fn begin_archive(&mut self, asked: Option<&Path>) -> Result<()> {
        self.check_archive(asked)?;
        if let (Some(asked), None, Access::Write) =
            (asked, &self.devices.archive, self.devices.access)
        {
            links::make_archive(&self.devices.path, asked)?;
            self.devices.archive = links::archive_directory(&self.devices.path)?;
            self.lock_archive()?;
        }
        Ok(())
    }

    /// The medium of the directory, found out with a small file that is removed at once.
    pub(crate) fn medium(&self) -> Result<Medium> {
        let source = NativeSource::new(self.devices.memory_path(), NativeOptions::default());
        let name = format!("{PROBE_MEDIUM}{}", std::process::id());
        let memory = source.create(&name, PROBE_BYTES)?;
        let medium = memory.medium();
        drop(memory);
        source.remove(&name)?;
        Ok(medium)
    }

    /// Fails if the medium cannot give the domain that the options ask for, before the first file
    /// is made.
    fn check_domain(&self) -> Result<()> {
        let source = NativeSource::new(self.devices.memory_path(), self.devices.options);
        let name = format!("{PROBE_DOMAIN}{}", std::process::id());
        let made = source.create(&name, PROBE_BYTES).map(drop);
        let removed = match fs::exists(self.devices.memory_path().join(&name)) {
            Ok(true) => source.remove(&name),
            _ => Ok(()),
        };
        made?;
        Ok(removed?)
    }

    /// Fails unless the directory is empty, except for the link to an empty directory of the log.
    fn check_empty(&self) -> Result<()> {
        if let Some(log) = &self.devices.log
            && !is_empty_directory(log)
        {
            let path = log.clone();
            return Err(match links::owner_of(log) {
                Some(owner) if !links::is_same(&owner, &self.devices.path) => {
                    Error::OccupiedLog { path, owner }
                }
                _ => Error::Occupied { path },
            });
        }
        let links =
            usize::from(self.devices.log.is_some()) + usize::from(self.devices.archive.is_some());
        if has_at_most(&self.devices.path, links) {
            return Ok(());
        }
        match self.descriptor() {
            Err(error @ (Error::Incomplete { .. } | Error::NoDescriptor { .. })) => Err(error),
            _ => Err(Error::Occupied {
                path: self.devices.path.clone(),
            }),
        }
    }

    /// Fails with the reason if files cannot be made here.
    fn check_writable(&self) -> Result<()> {
        for path in [self.devices.path.as_path(), self.devices.memory_path()] {
            let probe = path.join(format!("{PROBE_WRITE}{}", std::process::id()));
            let made = File::create_new(&probe).and_then(|_| fs::remove_file(&probe));
            made.map_err(|source| io_error("create files in", path, source))?;
        }
        Ok(())
    }
}

impl Platform for NativePlatform {
    type Memories = NativeSource;
    type Files = Files;

    fn memories(&self, partition: u32) -> NativeSource {
        self.devices.memories(partition)
    }

    fn files(&self, partition: u32) -> disk::Result<Files> {
        self.devices.files(partition)
    }

    fn log_files(&self, partition: u32) -> disk::Result<Option<Files>> {
        self.devices.log_files(partition)
    }

    fn archive_files(&self, partition: u32) -> disk::Result<Option<Files>> {
        self.devices.archive_files(partition)
    }
}

impl EngineSource for NativePlatform {
    fn create_engine(
        &self,
        method: Method,
        options: &EngineOptions,
    ) -> storage::Result<Box<dyn Engine>> {
        self.devices.create_engine(method, options)
    }

    fn open_engine(
        &self,
        method: Method,
        options: &EngineOptions,
        decide: Decide<'_>,
    ) -> storage::Result<Box<dyn Engine>> {
        self.devices.open_engine(method, options, decide)
    }
}

/// Removes what is left of a creation that was cut off: its probes, and its files if nothing could
/// be stored in them. The commit table goes last, because it says so.
fn clear_cut_off(path: &Path) -> Result<()> {
    if is_empty_directory(path) {
        return Ok(());
    }
    let native = NativePlatform::new(path, Access::Write, NativeOptions::default())?;
    let directories = [Some(path), native.devices.log.as_deref()];
    let directories: Vec<&Path> = directories.into_iter().flatten().collect();
    for directory in &directories {
        remove_where(directory, |name| {
            let probes = [PROBE_MEDIUM, PROBE_DOMAIN, PROBE_WRITE];
            probes.iter().any(|probe| name.starts_with(probe))
        })?;
    }
    let mut has_partitions = false;
    for directory in &directories {
        let names = own_files(directory).map_err(|source| io_error("read", directory, source))?;
        for name in names.iter().filter_map(|path| path.file_name()?.to_str()) {
            if name == descriptor::DESCRIPTOR {
                return Ok(());
            }
            has_partitions |= file_names::partition_of(name).is_some();
        }
    }
    let is_cut_off = match commit_pool::creation(&native.memories(0)) {
        Creation::CutOff => true,
        // It comes first, and was cut off itself.
        Creation::Unknown => !has_partitions,
        Creation::Ended => false,
    };
    if !is_cut_off {
        return Ok(());
    }
    for directory in &directories {
        remove_where(directory, |name| {
            file_names::is_ours(name) && name != COMMIT_TABLE
        })?;
    }
    for directory in &directories {
        remove_where(directory, |name| name == COMMIT_TABLE)?;
    }
    if let Some(log) = &native.devices.log {
        links::forget_owner(path, log)
            .map_err(|source| io_error("remove files in", log, source))?;
    }
    Ok(())
}

/// Removes files of a directory, durably.
fn remove_where(directory: &Path, is_meant: impl Fn(&str) -> bool) -> Result<()> {
    let removed = fs::read_dir(directory).and_then(|entries| {
        let mut is_changed = false;
        for entry in entries {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(&is_meant) {
                fs::remove_file(entry.path())?;
                is_changed = true;
            }
        }
        if is_changed {
            File::open(directory)?.sync_all()?;
        }
        Ok(())
    });
    removed.map_err(|source| {
        io_error(
            "remove files of an interrupted creation in",
            directory,
            source,
        )
    })
}

/// Fails unless there is a directory to open.
pub(crate) fn find_directory(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(Error::NotADatabase {
            path: path.to_owned(),
            reason: "it is a file; a database is a directory, so give the directory's path".into(),
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Error::Missing {
            path: path.to_owned(),
        }),
        Err(source) => Err(io_error("open", path, source)),
    }
}

/// A lock of a directory: nobody else may open it as a database, or for writing if this opener
/// reads.
pub(crate) struct DirectoryLock(File);

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Closing would do, unless a child process that was just forked still has a copy of the
        // descriptor.
        let _ = self.0.unlock();
    }
}

fn lock_directory(path: &Path, access: Access) -> Result<DirectoryLock> {
    let refused = |action| move |source| io_error(action, path, source);
    let directory = File::open(path).map_err(refused("open"))?;
    let locked = match access {
        Access::Read => directory.try_lock_shared(),
        Access::Write => directory.try_lock(),
    };
    match locked {
        Ok(()) => Ok(DirectoryLock(directory)),
        Err(TryLockError::WouldBlock) => Err(Error::InUse {
            path: path.to_owned(),
            holder: Holder::find(&directory).map(Box::new),
        }),
        Err(TryLockError::Error(source)) => Err(refused("lock")(source)),
    }
}

/// Removes the files that a creation has made, and the directory unless it was there before. The
/// directory of the log stays.
pub(crate) fn remove_files(path: &Path, keep_directory: bool) -> std::io::Result<()> {
    if let Some(log) = links::target_of(&path.join(links::LOG)) {
        remove_own_files(&log)?;
    }
    for link in [links::LOG, links::ARCHIVE] {
        if let Some(other) = links::target_of(&path.join(link)) {
            links::forget_owner(path, &other)?;
        }
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // A repair leaves directories with the files that it replaced.
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    if keep_directory {
        Ok(())
    } else {
        fs::remove_dir(path)
    }
}

/// Removes the files of a database from a directory that may have others.
pub(crate) fn remove_own_files(directory: &Path) -> std::io::Result<()> {
    for path in own_files(directory)? {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// The files of a database in a directory.
fn own_files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut own = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(file_names::is_ours) {
            own.push(entry.path());
        }
    }
    own.sort();
    Ok(own)
}

/// Options of the native device.
pub(crate) fn native_options(options: &Options, domain: Option<Domain>) -> NativeOptions {
    NativeOptions {
        domain,
        primitive: options.primitives,
        ..NativeOptions::default()
    }
}
