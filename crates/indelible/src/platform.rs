//! The devices that a database runs on: native here, others through [`storage::Platform`].
//!
//! A native database is a directory. Its lock is an exclusive lock of the directory itself, which the operating system
//! takes back when the process dies, so there is no stale lock file to clean up. The lock is held before the first
//! file is read and until the platform is dropped, after the engines.

use crate::descriptor::Descriptor;
use crate::error::{Error, Result};
use crate::options::Options;
use disk::{IoMode, NativeDirectory};
use pmem::device::{Medium, NativeOptions, NativeSource};
use pmem::{Access, Domain, MemorySource};
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use storage::Platform;
use storage::engine::{self, Cleaning, Decide, Engine, EngineOptions, Method};

/// Bytes of the file by which the medium is found out.
const PROBE_BYTES: u64 = 4096;

/// A directory of the operating system, locked.
pub struct NativePlatform {
    path: PathBuf,
    access: Access,
    pub(crate) options: NativeOptions,
    _lock: File,
}

impl NativePlatform {
    /// Locks an existing directory, which takes no right to write.
    pub fn new(path: &Path, access: Access, options: NativeOptions) -> Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            access,
            options,
            _lock: lock_directory(path)?,
        })
    }

    /// What lies under the directory: found out with a small file that is removed at once.
    pub(crate) fn medium(&self) -> Result<Medium> {
        let source = NativeSource::new(&self.path, NativeOptions::default());
        let name = format!(".indelible-medium-{}", std::process::id());
        let memory = source.create(&name, PROBE_BYTES)?;
        let medium = memory.medium();
        drop(memory);
        source.remove(&name)?;
        Ok(medium)
    }

    /// Fails where the medium cannot give what the options ask for, before the first file is made.
    pub(crate) fn check_domain(&self) -> Result<()> {
        let source = NativeSource::new(&self.path, self.options);
        let name = format!(".indelible-domain-{}", std::process::id());
        let made = source.create(&name, PROBE_BYTES).map(drop);
        let removed = match fs::exists(self.path.join(&name)) {
            Ok(true) => source.remove(&name),
            _ => Ok(()),
        };
        made?;
        Ok(removed?)
    }

    /// Fails unless the directory is empty.
    pub(crate) fn check_empty(&self) -> Result<()> {
        if is_empty_directory(&self.path) {
            return Ok(());
        }
        let files = self.files(0)?;
        match Descriptor::read(&files) {
            Err(Error::Incomplete { files }) => Err(Error::Incomplete { files }),
            _ => Err(Error::Occupied {
                path: self.path.clone(),
            }),
        }
    }

    /// Says why files cannot be made here, if so.
    pub(crate) fn check_writable(&self) -> Result<()> {
        let probe = self
            .path
            .join(format!(".indelible-write-{}", std::process::id()));
        let made = File::create_new(&probe).and_then(|_| fs::remove_file(&probe));
        made.map_err(|source| Error::Io {
            action: "create files in",
            path: self.path.clone(),
            source,
        })
    }
}

impl Platform for NativePlatform {
    type Memories = NativeSource;
    type Files = NativeDirectory;

    fn memories(&self, _partition: u32) -> NativeSource {
        NativeSource::new(&self.path, self.options)
    }

    fn files(&self, _partition: u32) -> disk::Result<NativeDirectory> {
        NativeDirectory::open_for(self.access, &self.path, IoMode::Buffered)
    }

    fn create_engine(
        &self,
        method: Method,
        options: &EngineOptions,
    ) -> storage::Result<Box<dyn Engine>> {
        engine::create(self, method, &in_background(options))
    }

    fn open_engine(
        &self,
        method: Method,
        options: &EngineOptions,
        decide: Decide<'_>,
    ) -> storage::Result<Box<dyn Engine>> {
        engine::open(self, method, &in_background(options), decide)
    }
}

/// On a real device threads of the engines' own may help.
fn in_background(options: &EngineOptions) -> EngineOptions {
    EngineOptions {
        cleaning: Cleaning::InBackground,
        ..options.clone()
    }
}

/// Makes the directory of a new database durably, if it is not there.
pub(crate) fn make_directory(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => Err(Error::NotADatabase {
            path: path.to_owned(),
            reason: "it is a file; a database is a directory, so choose another path".into(),
        }),
        Ok(_) => Ok(()),
        Err(_) => {
            fs::create_dir_all(path).map_err(|source| Error::Io {
                action: "create",
                path: path.to_owned(),
                source,
            })?;
            sync_parent(path)
        }
    }
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
        Err(source) => Err(Error::Io {
            action: "open",
            path: path.to_owned(),
            source,
        }),
    }
}

/// Makes the name of a new directory durable.
pub(crate) fn sync_parent(path: &Path) -> Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let synced = File::open(parent).and_then(|parent| parent.sync_all());
    synced.map_err(|source| Error::Io {
        action: "sync",
        path: parent.to_owned(),
        source,
    })
}

fn lock_directory(path: &Path) -> Result<File> {
    let refused = |action| {
        move |source| Error::Io {
            action,
            path: path.to_owned(),
            source,
        }
    };
    let directory = File::open(path).map_err(refused("open"))?;
    match directory.try_lock() {
        Ok(()) => Ok(directory),
        Err(TryLockError::WouldBlock) => Err(Error::InUse {
            path: path.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(refused("lock")(source)),
    }
}

/// Whether a path is a directory without files.
pub(crate) fn is_empty_directory(path: &Path) -> bool {
    fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// Takes back what a failed creation has made: the files, and the directory unless it was there before.
pub(crate) fn remove_files(path: &Path, keep_directory: bool) -> std::io::Result<()> {
    for entry in fs::read_dir(path)? {
        fs::remove_file(entry?.path())?;
    }
    if keep_directory {
        Ok(())
    } else {
        fs::remove_dir(path)
    }
}

/// What the native device is told.
pub(crate) fn native_options(options: &Options, domain: Option<Domain>) -> NativeOptions {
    NativeOptions {
        domain,
        primitive: options.primitives,
        ..NativeOptions::default()
    }
}
