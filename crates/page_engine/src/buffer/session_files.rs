//! The log of the page engine in files, one series for each session: the *decentralized* log of
//! NV-Logging.
//!
//! [`PartitionedLog`] orders the records of all series and decides when a commit is acknowledged. A
//! commit writes and syncs its own file, and those of the others that have earlier records: records
//! that several commits need are synced once, under the lock of their series, and later commits
//! find them durable. The directory shows which series there are.

use super::cold::{ColdStore, following};
use super::horizon::{Content, HorizonOptions, PartitionedLog, SESSIONS_MAX, StreamSource};
use disk::{Directory, DiskCounters};
use pmem::Access;
use std::ops::RangeInclusive;
use std::sync::{Arc, PoisonError};
use storage::engine::{CommitOrder, Persist};
use storage::log::series::Series;
use storage::log::{LogIdentity, Lsn, SharedTails, Tails, WalOptions};
use storage::sync::{Mutex, lock};
use storage::{Result, StorageError};

/// Sizes of the log.
#[derive(Clone, Copy, Debug)]
pub struct SessionFilesOptions {
    /// Database and partition of the log.
    pub identity: LogIdentity,
    /// Whether it may change.
    pub access: Access,
    /// Sizes of each series.
    pub series: WalOptions,
}

/// The files of one partition.
pub struct SessionFiles<D: Directory> {
    directory: Arc<Mutex<D>>,
    options: SessionFilesOptions,
    /// The files that all series have had.
    tails: SharedTails<D::File>,
}

/// A log in files, one series for each session.
pub type FilesLog<D> = PartitionedLog<SessionFiles<D>>;

impl<D: Directory> SessionFiles<D> {
    fn new(directory: D, options: SessionFilesOptions, access: Access) -> Result<Self> {
        let streams = SESSIONS_MAX as u32;
        let tails = Tails::open(&directory, options.identity, streams, access)?;
        Ok(Self {
            directory: Arc::new(Mutex::new(directory)),
            options,
            tails,
        })
    }

    fn series(&self, session: u32, tails: Option<&SharedTails<D::File>>) -> Series<D> {
        let SessionFilesOptions {
            identity, series, ..
        } = self.options;
        Series::open(&self.directory, identity, session, series, tails)
    }

    /// All series that there are, at least one, and those whose files are missing.
    fn all(&self, tails: Option<&SharedTails<D::File>>) -> Result<Vec<Series<D>>> {
        let names = lock(&self.directory).list()?;
        let noted = self.tails.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sessions = noted.count().max(1);
        drop(noted);
        for name in &names {
            let partition = self.options.identity.partition;
            let Some(session) = Series::<D>::session_of(name, partition) else {
                continue;
            };
            match session.parse::<u32>() {
                Ok(session) if session < SESSIONS_MAX as u32 => {
                    sessions = sessions.max(session + 1);
                }
                _ => {
                    return Err(StorageError::foreign_file(
                        name.clone(),
                        format!(
                            "no partition has a session of this number; there are at most {SESSIONS_MAX}"
                        ),
                    ));
                }
            }
        }
        let series = (0..sessions).map(|session| self.series(session, tails));
        Ok(series.collect())
    }
}

impl<D: Directory> SessionFiles<D> {
    /// Whether the records from `from` up to, but not including, `end` are there. If not, the log
    /// was used without its archive; and damage to needed records is noticed when they are read.
    fn has_all(&self, from: Lsn, end: Lsn) -> bool {
        let found = self
            .open_apart()
            .and_then(|mut all| following(&mut all, from));
        found.is_ok_and(|(_, reached)| reached >= end)
    }
}

impl<D: Directory> StreamSource for SessionFiles<D> {
    type Stream = Series<D>;

    fn open(&self) -> Result<Vec<Self::Stream>> {
        self.all(Some(&self.tails))
    }

    fn open_apart(&self) -> Result<Vec<Self::Stream>> {
        self.all(None)
    }

    fn create(&self, number: u32) -> Result<Self::Stream> {
        let mut series = self.series(number, Some(&self.tails));
        series.begin()?;
        Ok(series)
    }

    fn are_shared(&self) -> bool {
        false
    }

    fn ends(&self) -> u32 {
        2
    }

    fn gone(&self, stream: u32, files: &RangeInclusive<u64>) -> Result<Option<StorageError>> {
        let (series, directory) = (self.series(stream, None), lock(&self.directory));
        for name in files.clone().map(|file| series.name(file)) {
            if !directory.exists(&name)? {
                return Ok(Some(StorageError::damaged_file(
                    name,
                    0,
                    "the file is missing, and was there when the log ended",
                )));
            }
        }
        Ok(None)
    }

    fn disk(&self) -> DiskCounters {
        lock(&self.directory).counters()
    }
}

impl<D: Directory> FilesLog<D> {
    /// Whether there are still records that are not needed after a checkpoint at `start`. Then
    /// nothing proves that the checkpoint is durable.
    pub fn has_needless(directory: D, options: SessionFilesOptions, start: Lsn) -> Result<bool> {
        let files = SessionFiles::new(directory, options, Access::Read)?;
        for series in files.open_apart()? {
            if series.first()?.is_some_and(|first| first < start) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Opens the log and finds the records from `start` on that count. Nothing is written yet. With
    /// an archive, records that are not needed any more go there.
    pub fn open_files(
        directory: D,
        options: SessionFilesOptions,
        start: Lsn,
        archive: Option<Box<dyn ColdStore>>,
    ) -> Result<Self> {
        let manners = HorizonOptions {
            access: options.access,
            persist: Persist::OnCommit,
            content: Content::Redo,
            order: CommitOrder::Whole,
        };
        let source = SessionFiles::new(directory, options, options.access)?;
        let archive = archive.map(|store| {
            let end = store.end().unwrap_or(Lsn::FIRST);
            let is_whole = source.has_all(end, start);
            (store, if is_whole { end } else { start })
        });
        Self::open(source, manners, start, archive)
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
#[path = "session_files_tests.rs"]
mod tests;

#[cfg(feature = "schedules")]
#[cfg(test)]
#[path = "session_files_schedule_tests.rs"]
mod schedule_tests;
