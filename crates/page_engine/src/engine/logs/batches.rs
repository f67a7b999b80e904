//! The log of batches (`buffer/batch_log.rs`): pages in the middle of a batch get their old content
//! back, and the transactions that were open at the end of the newest batch are undone.
//!
//! There is no redo: every batch that counts is in the pages. Nothing is stored where nothing is
//! found, which is so if the newest checkpoint is at the end of the newest batch.

use super::kind::{Found, LogOf, Looker, OpenResident, Site, in_frames};
use crate::buffer::{BatchLog, BatchStore, PageFile, PageLog};
use pmem::Access;
use std::sync::Arc;
use storage::{Platform, Result};

/// The kind.
pub(super) struct Batches;

impl<P: Platform> LogOf<P> for Batches {
    fn create(&self, site: &Site<'_, P>) -> Result<()> {
        BatchStore::create(&site.memories(), site.identity(), site.options.ring_bytes)
    }

    /// Nothing is removed that an older checkpoint needs: its pages are those of the newest batch
    /// as well.
    fn secure_master(&self, _site: &Site<'_, P>, file: &mut PageFile<P::Files>) -> Result<()> {
        file.secure_master(false)
    }

    fn open(
        &self,
        site: &Site<'_, P>,
        found: Found<P>,
        looker: &mut Looker<'_>,
    ) -> Result<(Box<dyn PageLog>, Option<OpenResident>)> {
        let at = found.start.lsn;
        let (source, mut pages) = found
            .resident
            .expect("batches are only of pages in durable memory");
        let access = site.options.access;
        let mut store = BatchStore::open(&site.memories(), site.identity(), access)?;
        let is_found = store.is_unfinished() || store.end() != at;
        let is_recovered = is_found && access == Access::Write;
        if pages.is_empty() {
            pages = source.take(found.pages, is_recovered)?;
        }
        let (first, page_bytes) = (source.first(), source.page_bytes());
        if is_recovered {
            store.prove()?;
            store.give_back(&source, first, &mut pages)?;
        }
        store.visit_open(&mut |session, bytes| looker.record(at, session, bytes))?;
        looker.analysis.records += u64::from(is_found);
        let resident = in_frames(source, pages, Some(store.end()));
        let log = BatchLog::new(store, found.files, Arc::clone(&resident.0), page_bytes);
        Ok((Box::new(log), Some(resident)))
    }
}
