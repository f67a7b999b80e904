//! Rebuilding a partition from a copy of its pages and the log records after it.
//!
//! A copy of pages ([`PagesBase`]) is taken after a checkpoint, while no transaction is open. Its
//! pages go to their places in a new file. Then recovery does its work, with an archive in place of
//! the log: analysis and redo of every record after the copy, up to the end of the archive or the
//! point that is asked for; then transactions that have not ended there are undone. So the content
//! is that of the moment, and each transaction is in it wholly or not at all. The new partition has
//! the plainest guard and a log of its own, which begins after all records: nobody else uses it
//! meanwhile, and after a failure it is thrown away.
//!
//! Each partition of a database has an archive of its own, which ends at a moment of its own. The
//! archives have marks in common ([`Mark`]): a rebuild of the database looks for the newest one
//! that all archives have, and repeats each of them up to there.

use super::logs::file_options;
use crate::buffer::{CentralLog, Master, PageFile, Pool};
use crate::page::{Head, PageId, TxnId};
use crate::paged::Pages;
use crate::paged::recovery::Analysis;
use crate::paged::redo::Redo;
use crate::paged::space::{pages_of_map, place};
use disk::Directory;
use pmem::Access;
use std::ops::ControlFlow;
use storage::engine::{EngineOptions, GlobalTxnId, Guard, PagesBase, VisitPage};
use storage::log::archive::Archive;
use storage::log::{LogIdentity, LogStart, Lsn, WalOptions, tails_name};
use storage::record::{DecodeError, Reader, Timestamp};
use storage::{Result, StorageError};

/// The point where the replay of an archive stops before the archive's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Records with this number or a higher one are left out.
    Place(Lsn),
    /// The first commit that has a later time is left out, and everything after it.
    Time(Timestamp),
}

/// A moment in which no transaction was open in any partition, as the archive of one of them has
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The same in the archives of all partitions. Later marks have higher numbers.
    pub number: GlobalTxnId,
    /// Records before this position were made before the mark.
    pub place: Lsn,
    /// Time of the mark, if records have a time.
    pub time: Option<Timestamp>,
}

/// Result of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// End of the records.
    pub reached: Lsn,
    /// Transactions that had committed by then.
    pub committed: u64,
    /// When the last one of those did, if records have a time.
    pub time: Option<Timestamp>,
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

/// Bytes of records after which there may be a page more. A record that takes a page says so in two
/// pages, with more bytes.
const RECORD_BYTES_A_PAGE: u64 = 16;

/// A partition that is being made.
pub struct Rebuild<D: Directory> {
    file: PageFile<D>,
    log: D,
    identity: LogIdentity,
    base: PagesBase,
    /// Pages that the maps received so far cover: the page count of a copy is not trusted before.
    covered: u32,
    start: LogStart,
}

impl<D: Directory> Rebuild<D> {
    /// Begins to replace a new, closed partition of the method `dwb-off`, through two handles of
    /// its directory. Records go up to `end`.
    ///
    /// # Errors
    /// Those of the files; a copy at a position that no log reaches.
    pub fn begin(
        (pages, log): (D, D),
        options: &EngineOptions,
        base: PagesBase,
        end: Lsn,
    ) -> Result<Self> {
        if base.lsn.max(end) >= Lsn::END || base.next_txn >= TxnId::END.0 {
            let text = format!(
                "a copy of pages stands at {}, where no log gets",
                base.lsn.0
            );
            return Err(StorageError::Unsupported(text));
        }
        let identity = LogIdentity {
            database: options.database_id,
            partition: options.partition,
        };
        let start = LogStart {
            segment: LogStart::NEW.segment,
            lsn: Lsn(end.max(base.lsn).0.next_multiple_of(8)),
        };
        let prefix = format!("p{}.wal.", options.partition);
        // The log begins anew, at other positions.
        let tails = tails_name(identity);
        let is_old = |name: &&String| name.starts_with(&prefix) || **name == tails;
        for name in log.list()?.iter().filter(is_old) {
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
        let file = PageFile::create(&pages, &made, master, &[], None)?;
        Ok(Self {
            file,
            log,
            identity,
            base,
            covered: 0,
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
        let (map, bit) = place(page.len(), id);
        let begin = id.0 - bit;
        if id == map && begin == self.covered {
            self.covered = begin.saturating_add(pages_of_map(page.len()));
        }
        if id.0 >= self.covered {
            let text = format!("{id} comes in front of the map that covers it");
            return Err(StorageError::Unsupported(text));
        }
        self.file.grow(id.0 + 1)?;
        self.file.write(&[id], page)
    }

    /// The marks that an archive has after the copy, the oldest first: all, or those up to a time
    /// and the first one after it.
    ///
    /// # Errors
    /// Those of [`Archive::replay`]; a mark without a time, where that matters; marks that are not
    /// in their order.
    pub fn marks<A: Directory>(
        &self,
        archive: &Archive<A>,
        until: Option<Timestamp>,
    ) -> Result<Vec<Mark>> {
        let mut marks: Vec<Mark> = Vec::new();
        archive.replay(self.base.lsn, None, &mut |place, bytes| {
            if bytes.is_empty() {
                return Ok(ControlFlow::Continue(()));
            }
            let Head::Mark(number, time) = head(place, bytes)? else {
                return Ok(ControlFlow::Continue(()));
            };
            if marks.last().is_some_and(|last| last.number >= number) {
                let detail = "a mark has a number that is not behind that of the one before";
                return Err(damage(place, detail.to_owned()));
            }
            marks.push(Mark {
                number,
                place,
                time,
            });
            match (until, time) {
                (Some(_), None) => Err(StorageError::Unsupported(format!(
                    "the mark at {} has no time: choose no end",
                    place.0
                ))),
                (Some(until), Some(time)) if time > until => Ok(ControlFlow::Break(())),
                _ => Ok(ControlFlow::Continue(())),
            }
        })?;
        Ok(marks)
    }

    /// Repeats the records that an archive has after the copy, up to a point or all of them, and
    /// undoes transactions that have not ended there.
    ///
    /// # Errors
    /// Those of [`Archive::replay`]; a time that the archive does not have; records that do not fit
    /// the pages.
    pub fn finish<A: Directory>(
        self,
        archive: Option<&Archive<A>>,
        until: Option<Until>,
        buffer_bytes: u64,
    ) -> Result<Replayed> {
        let Self {
            file,
            log,
            identity,
            mut base,
            covered,
            start,
        } = self;
        base.pages = base.pages.min(covered);
        let access = Access::Write;
        let nothing = &mut |_, _: &[u8]| Ok(());
        let sizes = WalOptions::default();
        let log = CentralLog::open(access, log, identity, sizes, start, nothing, None)?;
        let pages = Pages::new(Pool::new(file, Box::new(log), buffer_bytes)?, usize::MAX);
        let mut repeated = Repeated::of(base);
        if let Some(archive) = archive {
            repeated.repeat(&pages, archive, until, buffer_bytes)?;
        }
        let Repeated {
            analysis,
            reached,
            times,
            ..
        } = repeated;
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
            time: times.last,
            undone,
        })
    }
}

/// Replay of the records that an archive has after a copy.
struct Repeated {
    base: PagesBase,
    analysis: Analysis,
    reached: Lsn,
    times: Times,
}

impl Repeated {
    fn of(base: PagesBase) -> Self {
        let analysis = Analysis {
            next_txn: base.next_txn,
            ..Analysis::default()
        };
        Self {
            base,
            analysis,
            reached: base.lsn,
            times: Times::default(),
        }
    }

    fn repeat<D: Directory, A: Directory>(
        &mut self,
        pages: &Pages<D>,
        archive: &Archive<A>,
        until: Option<Until>,
        buffer_bytes: u64,
    ) -> Result<()> {
        let base = self.base;
        let mut redo = Redo::new(pages, base.lsn, buffer_bytes, false);
        let mut record_bytes = 0;
        let place = match until {
            Some(Until::Place(place)) => Some(place),
            Some(Until::Time(time)) => {
                self.times.until = Some(time);
                None
            }
            None => None,
        };
        self.reached = archive.replay(base.lsn, place, &mut |lsn, bytes| {
            if bytes.is_empty() {
                return Ok(ControlFlow::Continue(()));
            }
            let head = head(lsn, bytes)?;
            if self.times.look(lsn, &head)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            let looked = self.analysis.record(0, bytes);
            looked.map_err(|error| undecodable(lsn, &error))?;
            // Each new page takes bytes of records: whatever pages they name, the file grows no
            // faster than the archive was long.
            record_bytes += bytes.len() as u64;
            let more = record_bytes / RECORD_BYTES_A_PAGE + 1;
            let most = u64::from(base.pages).saturating_add(more);
            redo.limit(u32::try_from(most).unwrap_or(u32::MAX));
            redo.record(lsn, bytes)?;
            Ok(ControlFlow::Continue(()))
        })?;
        self.times.check()?;
        redo.repeat()
    }
}

/// Decodes the head of an archive's record.
fn head(lsn: Lsn, bytes: &[u8]) -> Result<Head<'_>> {
    Head::decode(&mut Reader::new(bytes)).map_err(|error| undecodable(lsn, &error))
}

#[cold]
fn undecodable(lsn: Lsn, error: &DecodeError) -> StorageError {
    damage(lsn, error.to_string())
}

#[cold]
fn damage(lsn: Lsn, detail: String) -> StorageError {
    StorageError::damaged_file("the archive of the log", lsn.0, detail)
}

/// The times of commits that are repeated.
#[derive(Default)]
struct Times {
    until: Option<Timestamp>,
    /// The latest one that is not after `until`.
    last: Option<Timestamp>,
    /// The first one after it.
    next: Option<Timestamp>,
}

impl Times {
    /// Reads the next record, and breaks off if it is the first commit after the time that is asked
    /// for.
    fn look(&mut self, lsn: Lsn, head: &Head<'_>) -> Result<ControlFlow<()>> {
        let Head::Commit(_, time, _) = head else {
            return Ok(ControlFlow::Continue(()));
        };
        match (self.until, *time) {
            // Later commits may have any time.
            (Some(_), None) => {
                return Err(StorageError::Unsupported(format!(
                    "the commit at {} has no time, since an earlier version made it: choose a place instead",
                    lsn.0
                )));
            }
            (Some(until), Some(time)) if time > until => {
                self.next = Some(time);
                return Ok(ControlFlow::Break(()));
            }
            _ => self.last = self.last.max(*time),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Fails if the records do not give the state at the time that was asked for.
    fn check(&self) -> Result<()> {
        let wrong = match (self.until, self.last, self.next) {
            (Some(until), None, Some(next)) => format!(
                "the first commit after the backup is of {next}, so {until} may be before the backup: choose a later time, an older backup, or this one without its archive"
            ),
            (Some(until), Some(last), None) if last < until => format!(
                "the newest commit of the archive is of {last}, so {until} cannot be reached: choose that time or an earlier one, or no end at all"
            ),
            (Some(_), None, None) => {
                "the archive has no commit after the backup: choose no end".to_owned()
            }
            _ => return Ok(()),
        };
        Err(StorageError::Unsupported(wrong))
    }
}
