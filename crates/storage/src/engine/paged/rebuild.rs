//! A partition made again of pages that were copied and of the records that came behind them.
//!
//! A copy of pages ([`PagesBase`]) is taken behind a checkpoint, while no transaction is open. Its pages go to their places in a new file, and
//! then recovery does its work, with an archive in place of the log: analysis and redo of every record behind the copy, up to where the archive, or
//! the point that is asked for, ends; then transactions that have not ended there are undone. So the content is that of the moment, and each
//! transaction is in it wholly or not at all. What is made has the plainest guard and a log of its own, which begins behind all records: nobody but the
//! one who makes it uses it, and after a failure it is thrown away.

use super::shared::file_options;
use crate::buffer::{CentralLog, Guard, Master, PageFile, Pool};
use crate::engine::EngineOptions;
use crate::error::{Result, StorageError};
use crate::log::archive::Archive;
use crate::log::{LogIdentity, LogStart, Lsn, WalOptions};
use crate::page::PageId;
use crate::paged::Pages;
use crate::paged::recovery::Analysis;
use crate::paged::redo::Redo;
use disk::Directory;
use pmem::Access;
use std::ops::ControlFlow;

/// Where a copy of pages stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagesBase {
    /// Bytes of a page.
    pub page_bytes: u32,
    /// Pages that the file has room for.
    pub pages: u32,
    /// Everything in front of it is in the pages.
    pub lsn: Lsn,
    /// No transaction in front of it has this number or a higher one.
    pub next_txn: u64,
    /// Root of the catalogue.
    pub catalogue: PageId,
}

/// Takes a page of a copy, and says whether to go on.
pub type VisitPage<'v> = dyn FnMut(&PagesBase, PageId, &[u8]) -> ControlFlow<()> + 'v;

/// What became of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Where they ended.
    pub reached: Lsn,
    /// Transactions that had committed by then.
    pub committed: u64,
    /// Transactions that were undone.
    pub undone: u64,
}

/// Hands out all pages in use, which a checkpoint has written.
pub(super) fn copy<D: Directory>(
    pages: &Pages<D>,
    next_txn: u64,
    visit: &mut VisitPage<'_>,
) -> Result<PagesBase> {
    let (maps, used) = pages.used()?;
    let master = pages.pool.file().master();
    let base = PagesBase {
        page_bytes: master.page_bytes,
        pages: pages.pool.readers().pages(),
        lsn: master.redo,
        next_txn,
        catalogue: master.catalogue,
    };
    let mut page = vec![0; pages.page_bytes()];
    for &id in maps.iter().chain(&used) {
        if !pages.pool.readers().read(id, &mut page)? {
            let text = "the page is damaged, so pages cannot be copied";
            return Err(pages.pool.file().damage(id, text));
        }
        if visit(&base, id, &page).is_break() {
            break;
        }
    }
    Ok(base)
}

/// A partition that is being made.
pub struct Rebuild<D: Directory> {
    file: PageFile<D>,
    log: D,
    identity: LogIdentity,
    base: PagesBase,
    start: LogStart,
}

impl<D: Directory> Rebuild<D> {
    /// Begins in the place of a new partition of the method `dwb-off` which is closed, through two handles of its directory. Records go up to `end`.
    ///
    /// # Errors
    /// Those of the files.
    pub fn begin(
        (pages, log): (D, D),
        options: &EngineOptions,
        base: PagesBase,
        end: Lsn,
    ) -> Result<Self> {
        let identity = LogIdentity {
            database: options.database_id,
            partition: options.partition,
        };
        let start = LogStart {
            segment: LogStart::NEW.segment,
            lsn: Lsn(end.max(base.lsn).0.next_multiple_of(8)),
        };
        let prefix = format!("p{}.wal.", options.partition);
        for name in log.list()?.iter().filter(|name| name.starts_with(&prefix)) {
            log.remove(name)?;
        }
        let master = Master {
            generation: 0,
            page_bytes: base.page_bytes,
            guard: Guard::Off.code(),
            start,
            redo: start.lsn,
            next_txn: base.next_txn,
            catalogue: base.catalogue,
            pages: 0,
        };
        // Nobody waits for a frame here.
        let made = file_options(options, Guard::OffBatched);
        let mut file = PageFile::create(&pages, &made, master, &[], None)?;
        file.grow(base.pages)?;
        Ok(Self {
            file,
            log,
            identity,
            base,
            start,
        })
    }

    /// Puts a page in its place.
    ///
    /// # Errors
    /// A page that is not of the copy.
    pub fn page(&mut self, id: PageId, page: &[u8]) -> Result<()> {
        if id.0 >= self.base.pages || page.len() != self.base.page_bytes as usize {
            let text = format!("{id} is not one of the copy");
            return Err(StorageError::Unsupported(text));
        }
        self.file.write(&[id], page)
    }

    /// Repeats what an archive has behind the copy, up to a point or all of it, and undoes what has not ended there.
    ///
    /// # Errors
    /// Those of [`Archive::replay`]; records that do not fit the pages.
    pub fn finish<A: Directory>(
        self,
        archive: Option<&Archive<A>>,
        until: Option<Lsn>,
        buffer_bytes: u64,
    ) -> Result<Replayed> {
        let Self {
            file,
            log,
            identity,
            base,
            start,
        } = self;
        let access = Access::Write;
        let nothing = &mut |_, _: &[u8]| Ok(());
        let sizes = WalOptions::default();
        let log = CentralLog::open(access, log, identity, sizes, start, nothing, None)?;
        let pages = Pages::new(Pool::new(file, Box::new(log), buffer_bytes)?, usize::MAX);
        let mut analysis = Analysis {
            next_txn: base.next_txn,
            ..Analysis::default()
        };
        let mut reached = base.lsn;
        let mut redo = Redo::new(&pages, base.lsn, buffer_bytes, false);
        if let Some(archive) = archive {
            reached = archive.replay(base.lsn, until, &mut |lsn, bytes| {
                if bytes.is_empty() {
                    return Ok(());
                }
                let looked = analysis.record(0, bytes);
                looked.map_err(|error| StorageError::DamagedFile {
                    file: "the archive of the log".to_owned(),
                    offset: lsn.0,
                    detail: error.to_string(),
                })?;
                redo.record(lsn, bytes)
            })?;
            redo.repeat()?;
        }
        let (committed, next_txn) = (analysis.commits, analysis.next_txn);
        let (undone, _) = pages.finish(analysis, &|_| false, &|_| false)?;
        let pool = &pages.pool;
        let begun = pool.log().begin_checkpoint()?;
        pool.write_all()?;
        let old = pool.file().master();
        pool.file().checkpoint(Master {
            start: begun.log,
            redo: begun.redo,
            next_txn,
            ..old
        })?;
        pool.log().end_checkpoint(begun.log)?;
        pool.log().close()?;
        Ok(Replayed {
            reached,
            committed,
            undone,
        })
    }
}
