//! The steps in which a kind of log makes and opens its log, and what it gets for them.
//!
//! A kind knows its own files or memories only. The platform, the options and the pages of the
//! partition come in a [`Site`] and as what was [`Found`].

use crate::buffer::horizon::{PartitionedLog, StreamSource};
use crate::buffer::{
    ColdStore, NvPages, PageFile, PageFileOptions, PageLog, ResidentPages, open_store,
};
use crate::paged::recovery::Analysis;
use pmem::{Access, MemorySource, Page};
use std::sync::Arc;
use storage::engine::{EngineOptions, Guard, PageAxes, PagesKind};
use storage::log::{LogIdentity, LogStart, Lsn};
use storage::{Platform, Result, StorageError};

/// A kind of log.
pub(in crate::engine) trait LogOf<P: Platform> {
    /// Makes the memories of the log. Its files are made when it is opened.
    fn create(&self, _site: &Site<'_, P>) -> Result<()> {
        Ok(())
    }

    /// Makes the master record of the file durable, unless it is proven that it is, before anything
    /// relies on it.
    fn secure_master(&self, site: &Site<'_, P>, file: &mut PageFile<P::Files>) -> Result<()>;

    /// Opens the log, with the pages if they are in durable memory, and lets `looker` see its
    /// records. Afterwards they are durable.
    fn open(
        &self,
        site: &Site<'_, P>,
        found: Found<P>,
        looker: &mut Looker<'_>,
    ) -> Result<(Box<dyn PageLog>, Option<OpenResident>)>;
}

/// Options of a partition, and the platform that has its files and memories.
pub(in crate::engine) struct Site<'s, P: Platform> {
    pub(in crate::engine) platform: &'s P,
    pub(in crate::engine) options: &'s EngineOptions,
    pub(in crate::engine) axes: PageAxes,
}

impl<P: Platform> Site<'_, P> {
    pub(in crate::engine) fn identity(&self) -> LogIdentity {
        identity(self.options)
    }

    pub(in crate::engine) fn memories(&self) -> P::Memories {
        self.platform.memories(self.options.partition)
    }

    /// A handle of the log's directory.
    pub(super) fn log_files(&self) -> Result<P::Files> {
        match self.platform.log_files(self.options.partition)? {
            Some(files) => Ok(files),
            None => Ok(self.platform.files(self.options.partition)?),
        }
    }

    /// The archive to which a log moves records that it needs no more, if there is one. Undo
    /// records are of no use after their transactions.
    pub(super) fn archive(&self) -> Result<Option<Box<dyn ColdStore>>> {
        if self.axes.pages == PagesKind::Nvm {
            return Ok(None);
        }
        let files = self.platform.archive_files(self.options.partition)?;
        files
            .map(|files| open_store(files, self.identity(), self.options.access))
            .transpose()
    }
}

fn identity(options: &EngineOptions) -> LogIdentity {
    LogIdentity {
        database: options.database_id,
        partition: options.partition,
    }
}

pub(in crate::engine) fn file_options(options: &EngineOptions, guard: Guard) -> PageFileOptions {
    PageFileOptions {
        identity: identity(options),
        access: options.access,
        guard,
    }
}

/// Pages in durable memory without frames, if the pages are there. The vector is empty if the log
/// tells which pages may be in use.
pub(in crate::engine) type NewResident<P> = Option<(NvPages<<P as Platform>::Memories>, Vec<Page>)>;

/// Pages in durable memory with their frames, and their end.
pub(in crate::engine) type OpenResident = (Arc<ResidentPages>, u32);

/// The parts of a partition that are open when its log is opened.
pub(in crate::engine) struct Found<P: Platform> {
    /// The directory of the log.
    pub(in crate::engine) files: P::Files,
    /// The start of the log, and the end of the pages, at the newest checkpoint.
    pub(in crate::engine) start: LogStart,
    pub(in crate::engine) pages: u32,
    pub(in crate::engine) resident: NewResident<P>,
}

/// The analysis as it sees the records of a log.
pub(in crate::engine) struct Looker<'l> {
    pub(in crate::engine) analysis: &'l mut Analysis,
    pub(in crate::engine) partition: u32,
}

impl Looker<'_> {
    /// Looks at a record of a session.
    pub(super) fn record(&mut self, lsn: Lsn, session: u32, bytes: &[u8]) -> Result<()> {
        let looked = self.analysis.record(session, bytes);
        looked.map_err(|error| {
            let file = format!("the log of partition {}", self.partition);
            StorageError::damaged_file(file, lsn.0, error.to_string())
        })
    }

    /// Looks at every record of a log, which is durable then.
    pub(super) fn settle<L: StreamSource + 'static>(
        &mut self,
        log: PartitionedLog<L>,
        access: Access,
    ) -> Result<Box<dyn PageLog>> {
        log.visit(&mut |lsn, session, bytes| self.record(lsn, session, bytes))?;
        if access == Access::Write {
            log.settle()?;
        }
        Ok(Box::new(log))
    }
}

/// Gives pages in durable memory their frames. For `end`, see [`ResidentPages::new`].
pub(super) fn in_frames<S: MemorySource + Send + Sync>(
    source: NvPages<S>,
    pages: Vec<Page>,
    end: Option<Lsn>,
) -> OpenResident
where
    S::Memory: Send,
{
    let first = source.first();
    let count = first.0 + pages.len() as u32;
    let resident = ResidentPages::new(Box::new(source), first, pages, end);
    (Arc::new(resident), count)
}
