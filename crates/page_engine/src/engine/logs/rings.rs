//! The log in rings of durable memory (`buffer/nv_log.rs`): redo of pages in a file, or undo of
//! pages that lie in durable memory themselves.
//!
//! The first ring knows which checkpoint is durable. Pages in durable memory get their old lines
//! back where a change may be unfinished, before any record is looked at.

use super::kind::{Found, LogOf, Looker, OpenResident, Site, in_frames};
use crate::buffer::{self, Content, NvLog, NvLogOptions, PageFile, PageLog};
use crate::paged::in_place::undo_unfinished;
use pmem::Access;
use storage::engine::{CommitOrder, LogKind, PagesKind, Persist};
use storage::log::numbered::InFront;
use storage::{Platform, Result};

/// The kind.
pub(super) struct Rings;

fn options<P: Platform>(site: &Site<'_, P>) -> NvLogOptions {
    let (options, axes) = (site.options, site.axes);
    let (rings, persist) = match axes.log {
        LogKind::Distributed => (buffer::Rings::Shared(options.rings), Persist::OnCommit),
        _ if axes.pages == PagesKind::Nvm => (buffer::Rings::PerSession, Persist::OnInsert),
        _ => (buffer::Rings::PerSession, options.persist),
    };
    let content = match axes.pages {
        PagesKind::Ssd => Content::Redo,
        PagesKind::Nvm => Content::Undo,
    };
    NvLogOptions {
        rings,
        persist,
        identity: site.identity(),
        access: options.access,
        ring_bytes: options.ring_bytes,
        page_bytes: u64::from(options.page_bytes),
        content,
        // Without sessions of their own rings, and where changes are made in place, nothing but the
        // whole order works.
        order: match (rings, content) {
            (buffer::Rings::PerSession, Content::Redo) => options.commit_order,
            _ => CommitOrder::Whole,
        },
    }
}

impl<P: Platform> LogOf<P> for Rings {
    fn create(&self, site: &Site<'_, P>) -> Result<()> {
        NvLog::<_, P::Files>::create(&site.memories(), &options(site))
    }

    fn secure_master(&self, site: &Site<'_, P>, file: &mut PageFile<P::Files>) -> Result<()> {
        let (memories, options) = (site.memories(), options(site));
        let start = file.master().start.lsn;
        let is_known = NvLog::<_, P::Files>::knows(&memories, &options, start)?;
        file.secure_master(!is_known)?;
        if is_known {
            return Ok(());
        }
        let in_front = match site.archive()? {
            Some(_) => InFront::Kept,
            None => InFront::GivenUp,
        };
        NvLog::<_, P::Files>::learn(&memories, &options, start, in_front)
    }

    fn open(
        &self,
        site: &Site<'_, P>,
        found: Found<P>,
        looker: &mut Looker<'_>,
    ) -> Result<(Box<dyn PageLog>, Option<OpenResident>)> {
        let access = site.options.access;
        let (start, store) = (found.start.lsn, site.archive()?);
        let log = NvLog::open_rings(site.memories(), found.files, options(site), start, store)?;
        let Some((source, mut pages)) = found.resident else {
            return Ok((looker.settle(log, access)?, None));
        };
        let mut has_records = false;
        log.visit(&mut |_, _, _| {
            has_records = true;
            Ok(())
        })?;
        if pages.is_empty() {
            pages = source.take(found.pages, has_records && access == Access::Write)?;
        }
        let mut given_up = 0;
        if access == Access::Write {
            given_up = undo_unfinished(&log, &source, source.first(), &mut pages)?;
        }
        let log = looker.settle(log, access)?;
        looker.analysis.records += given_up;
        Ok((log, Some(in_frames(source, pages, None))))
    }
}
