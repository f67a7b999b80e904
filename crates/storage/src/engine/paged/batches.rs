//! Opening of a partition whose transactions become durable in batches: pages in the middle of a
//! batch get their old content back, and the transactions that were open at the end of the newest
//! batch are handed out to be undone.
//!
//! There is no redo: every batch that counts is in the pages. Nothing is stored where nothing is
//! found, which is so if the newest checkpoint is at the end of the newest batch.

use crate::buffer::{BatchLog, BatchStore, Home, NvPages, PageLog};
use crate::error::Result;
use crate::log::Lsn;
use disk::Directory;
use pmem::{Access, MemorySource, Page};
use std::sync::Arc;

/// The store and the pages to open.
pub(super) struct Batches<S: MemorySource> {
    pub(super) store: BatchStore<S>,
    pub(super) source: NvPages<S>,
    /// The pages, if they are new.
    pub(super) pages: Vec<Page>,
}

/// A log that is open, and the pages if they are in durable memory, with how many there are.
pub(super) struct OpenLog {
    pub(super) log: Box<dyn PageLog>,
    pub(super) home: Option<(Arc<Home>, u32)>,
}

/// Content of the newest checkpoint: its position, and how many pages there were.
#[derive(Clone, Copy)]
pub(super) struct Known {
    pub(super) at: Lsn,
    pub(super) pages: u32,
}

impl<S: MemorySource + Send + Sync> Batches<S>
where
    S::Memory: Send,
{
    /// Opens the log, and hands the records of open transactions to `look`. Says whether there is
    /// something after the newest checkpoint.
    pub(super) fn open<D: Directory>(
        self,
        files: D,
        access: Access,
        known: Known,
        look: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<(OpenLog, bool)> {
        let Self {
            mut store,
            source,
            mut pages,
        } = self;
        let is_found = store.is_unfinished() || store.end() != known.at;
        let is_recovered = is_found && access == Access::Write;
        if pages.is_empty() {
            pages = source.take(known.pages, is_recovered)?;
        }
        let (first, page_bytes) = (source.first(), source.page_bytes());
        if is_recovered {
            store.prove()?;
            store.give_back(&source, first, &mut pages)?;
        }
        store.visit_open(look)?;
        let (home, count) = in_frames(source, pages, Some(store.end()));
        let log = BatchLog::new(store, files, Arc::clone(&home), page_bytes);
        let opened = OpenLog {
            log: Box::new(log),
            home: Some((home, count)),
        };
        Ok((opened, is_found))
    }
}

/// Gives pages in durable memory their frames, and says where they end. For `end`, see
/// [`Home::new`].
pub(super) fn in_frames<S: MemorySource + Send + Sync>(
    source: NvPages<S>,
    pages: Vec<Page>,
    end: Option<Lsn>,
) -> (Arc<Home>, u32)
where
    S::Memory: Send,
{
    let first = source.first();
    let count = first.0 + pages.len() as u32;
    let home = Home::new(Box::new(source), first, pages, end);
    (Arc::new(home), count)
}
