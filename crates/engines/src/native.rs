//! The devices of this machine for one database: memories and files in a directory.
//!
//! The log and its archive may have directories of their own. Only files of pages may go past the
//! system's cache; all others are read and written in pieces that are no multiple of a block.

use crate::Files;
use disk::{IoMode, NativeDirectory};
use pmem::device::{NativeOptions, NativeSource};
use pmem::{Access, Either};
use std::path::{Path, PathBuf};
use storage::engine::{AfterCrash, Cleaning, Daemon, Decide, Engine, EngineOptions, Method};
use storage::{Clock, EngineSource, Platform};

/// Where a database is on this machine.
#[derive(Clone, Debug)]
pub struct NativeDevices {
    /// The directory of the database.
    pub path: PathBuf,
    /// Where the log is, if it has a directory of its own.
    pub log: Option<PathBuf>,
    /// Where the archive of the log is, if it has one.
    pub archive: Option<PathBuf>,
    /// Whether anything may change.
    pub access: Access,
    /// How memories are mapped and made durable.
    pub options: NativeOptions,
    /// How pages travel between their files and a buffer pool.
    pub pages: IoMode,
}

impl NativeDevices {
    /// The directory of the memories.
    pub fn memory_path(&self) -> &Path {
        self.log.as_deref().unwrap_or(&self.path)
    }

    /// The directory of the files.
    pub fn directory(&self) -> disk::Result<NativeDirectory> {
        let files = self.open(&self.path)?;
        Ok(match self.pages {
            IoMode::Buffered => files,
            IoMode::Direct => files.with_direct(crate::is_page_file),
        })
    }

    fn open(&self, path: &Path) -> disk::Result<NativeDirectory> {
        NativeDirectory::open_for(self.access, path, IoMode::Buffered)
    }

    fn open_other(&self, path: Option<&Path>) -> disk::Result<Option<Files>> {
        let open = |path| self.open(path).map(Either::First);
        path.map(open).transpose()
    }
}

impl Platform for NativeDevices {
    type Memories = NativeSource;
    type Files = Files;

    fn memories(&self, _partition: u32) -> NativeSource {
        NativeSource::new(self.memory_path(), self.options)
    }

    fn files(&self, _partition: u32) -> disk::Result<Files> {
        self.directory().map(Either::First)
    }

    fn log_files(&self, _partition: u32) -> disk::Result<Option<Files>> {
        self.open_other(self.log.as_deref())
    }

    fn archive_files(&self, _partition: u32) -> disk::Result<Option<Files>> {
        self.open_other(self.archive.as_deref())
    }
}

impl EngineSource for NativeDevices {
    fn create_engine(
        &self,
        method: Method,
        options: &EngineOptions,
    ) -> storage::Result<Box<dyn Engine>> {
        crate::create(self, method, &in_background(options))
    }

    fn open_engine(
        &self,
        method: Method,
        options: &EngineOptions,
        decide: Decide<'_>,
    ) -> storage::Result<Box<dyn Engine>> {
        crate::open(self, method, &in_background(options), decide)
    }
}

/// On a real device threads of the engines' own may help.
fn in_background(options: &EngineOptions) -> EngineOptions {
    EngineOptions {
        cleaning: Cleaning::InBackground,
        daemon: Daemon::Thread,
        undoing: AfterCrash::InBackground,
        redoing: AfterCrash::InBackground,
        clock: Clock::System,
        ..options.clone()
    }
}
