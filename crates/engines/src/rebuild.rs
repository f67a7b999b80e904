//! Rebuilding a partition from a copy of its pages and an archive of its log, compiled with the
//! engines.
//!
//! Both are those of `page_engine` under these names, for the one type of files. Using them
//! directly would compile all code of the pages once more in the room above.

use crate::Files;
use page_engine::engine::{self, Mark, Replayed, Until};
use storage::Result;
use storage::engine::{EngineOptions, PageId, PagesBase};
use storage::log::{LogIdentity, Lsn, archive};
use storage::record::Timestamp;

/// The archive of the log of one partition.
pub struct Archive(archive::Archive<Files>);

impl Archive {
    /// As [`archive::Archive::open`].
    pub fn open(files: Files, identity: LogIdentity) -> Result<Self> {
        archive::Archive::open(files, identity).map(Self)
    }

    /// As [`archive::Archive::end`].
    pub fn end(&self) -> Option<Lsn> {
        self.0.end()
    }
}

/// A partition that is being made.
pub struct Rebuild(engine::Rebuild<Files>);

impl Rebuild {
    /// As [`engine::Rebuild::begin`].
    pub fn begin(
        handles: (Files, Files),
        options: &EngineOptions,
        base: PagesBase,
        end: Lsn,
    ) -> Result<Self> {
        engine::Rebuild::begin(handles, options, base, end).map(Self)
    }

    /// As [`engine::Rebuild::page`].
    pub fn page(&mut self, id: PageId, page: &[u8]) -> Result<()> {
        self.0.page(id, page)
    }

    /// As [`engine::Rebuild::marks`].
    pub fn marks(&self, archive: &Archive, until: Option<Timestamp>) -> Result<Vec<Mark>> {
        self.0.marks(&archive.0, until)
    }

    /// As [`engine::Rebuild::finish`].
    pub fn finish(
        self,
        archive: Option<&Archive>,
        until: Option<Until>,
        buffer_bytes: u64,
    ) -> Result<Replayed> {
        let archive = archive.map(|archive| &archive.0);
        self.0.finish(archive, until, buffer_bytes)
    }
}
