//! The log in files that all sessions append to (`buffer/central_log.rs`).
//!
//! Its files show whether a checkpoint is durable: those that it makes needless are removed after
//! it. Their sizes follow from the limit of the log.

use super::kind::{Found, LogOf, Looker, OpenResident, Site};
use crate::buffer::{CentralLog, ColdSegments, PageFile, PageLog};
use storage::engine::{EngineOptions, Guard};
use storage::log::{WalOptions, has_needless};
use storage::{Platform, Result};

/// Segments are a fraction of the log's limit, so that a small limit has small files. The room that
/// a rollback may need in a segment is kept free, and is a fraction of this many pages.
const SEGMENT_PAGES_MIN: u64 = 128;
/// A long segment, for logs with images, which grow many times as fast.
const LONG_SEGMENT_BYTES: u64 = 64 << 20;

/// The kind.
pub(super) struct Central;

impl<P: Platform> LogOf<P> for Central {
    fn secure_master(&self, site: &Site<'_, P>, file: &mut PageFile<P::Files>) -> Result<()> {
        let start = file.master().start;
        file.secure_master(has_needless(&site.log_files()?, site.identity(), start)?)
    }

    fn open(
        &self,
        site: &Site<'_, P>,
        found: Found<P>,
        looker: &mut Looker<'_>,
    ) -> Result<(Box<dyn PageLog>, Option<OpenResident>)> {
        let cold = match site.archive()? {
            Some(store) => Some(ColdSegments::new(store, site.identity(), site.log_files()?)),
            None => None,
        };
        let log = CentralLog::open(
            site.options.access,
            found.files,
            site.identity(),
            wal_options(site.options, site.axes.guard),
            found.start,
            &mut |lsn, bytes| looker.record(lsn, 0, bytes),
            cold,
        )?;
        Ok((Box::new(log), None))
    }
}

/// Sizes of the log's files.
pub(super) fn wal_options(options: &EngineOptions, guard: Guard) -> WalOptions {
    let usual = WalOptions::default();
    let share = (options.checkpoint_log_bytes / 4).next_multiple_of(4096);
    let shortest = segment_bytes_min(options);
    let long = match guard {
        Guard::FullPageWrites => LONG_SEGMENT_BYTES,
        _ => 0,
    };
    WalOptions {
        segment_bytes: share.min(usual.segment_bytes).max(shortest),
        long_segment_bytes: share.min(long),
        // The log until the next checkpoint needs the space that the last one frees.
        spare_bytes_max: options.checkpoint_log_bytes,
        ..usual
    }
}

/// On a full disk a checkpoint frees the room of one segment, so each has room for a deletion and
/// its undo.
pub(super) fn segment_bytes_min(options: &EngineOptions) -> u64 {
    SEGMENT_PAGES_MIN * u64::from(options.page_bytes)
}
