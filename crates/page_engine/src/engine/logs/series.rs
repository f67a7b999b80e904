//! The log in files, a series for each session (`buffer/session_files.rs`).
//!
//! Its files are a quarter as long as those of the central log, as each session has some; nothing
//! is kept as a spare.

use super::central::{segment_bytes_min, wal_options};
use super::kind::{Found, LogOf, Looker, OpenResident, Site};
use crate::buffer::{FilesLog, PageFile, PageLog, SessionFilesOptions};
use storage::engine::Guard;
use storage::log::WalOptions;
use storage::{Platform, Result};

/// The kind.
pub(super) struct Series;

fn options<P: Platform>(site: &Site<'_, P>) -> SessionFilesOptions {
    let central = wal_options(site.options, Guard::Off);
    SessionFilesOptions {
        identity: site.identity(),
        access: site.options.access,
        // Each session has a file.
        series: WalOptions {
            segment_bytes: (central.segment_bytes / 4).max(segment_bytes_min(site.options)),
            // There is one of them for each session.
            spare_bytes_max: 0,
            ..central
        },
    }
}

impl<P: Platform> LogOf<P> for Series {
    fn secure_master(&self, site: &Site<'_, P>, file: &mut PageFile<P::Files>) -> Result<()> {
        let start = file.master().start.lsn;
        let has_needless = FilesLog::has_needless(site.log_files()?, options(site), start)?;
        file.secure_master(has_needless)
    }

    fn open(
        &self,
        site: &Site<'_, P>,
        found: Found<P>,
        looker: &mut Looker<'_>,
    ) -> Result<(Box<dyn PageLog>, Option<OpenResident>)> {
        let (start, store) = (found.start.lsn, site.archive()?);
        let log = FilesLog::open_files(found.files, options(site), start, store)?;
        Ok((looker.settle(log, site.options.access)?, None))
    }
}
