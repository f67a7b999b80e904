//! Segments of the central log that recovery no longer needs, on their way to an archive.
//!
//! A checkpoint makes whole segments cold (`storage/src/log/wal.rs`). With an archive their files
//! are removed only when it has their records durably. So a crash leaves every record in a segment
//! or in the archive: an opening keeps the segments before the checkpoint, and goes on where the
//! archive ends. Segments that a crash has brought back begin before that position, and are removed
//! again. Only the segments show where the archive has to end: it ends where the oldest other
//! segment begins, or the log was used without it, which is a gap.
//!
//! Segments that the archive does not take stay, and the log takes more of its disk. When that is
//! full, a session that needs room tries once more, and gets the error of the archive.
//!
//! Order of locks: the store's, then that of the directory to read with; then the log's.

use super::central_log::CentralLog;
use super::cold::{Cold, ColdStore};
use disk::Directory;
use std::sync::Arc;
use storage::log::{
    ArchiveRange, ArchiveWatch, LogIdentity, LogStart, Lsn, copy_segments, first_of,
};
use storage::sync::{Mutex, lock};
use storage::{Result, StorageError};

/// The cold segments of a log.
pub struct ColdSegments<D> {
    cold: Cold,
    identity: LogIdentity,
    /// The log's files, to read while others append.
    files: Mutex<D>,
}

impl<D: Directory> ColdSegments<D> {
    /// Of a log whose files are in `files`, with the archive where they go.
    pub fn new(store: Box<dyn ColdStore>, identity: LogIdentity, files: D) -> Self {
        Self {
            cold: Cold::of_segments(store),
            identity,
            files: Mutex::new(files),
        }
    }

    /// Fails if the archive is of a later state than a log whose newest checkpoint is at `start`.
    pub(super) fn check(&self, start: Lsn) -> Result<()> {
        self.cold.check(start)
    }

    pub(super) fn watch(&self) -> Arc<ArchiveWatch> {
        self.cold.watch()
    }

    pub(super) fn explain(&self, error: StorageError) -> StorageError {
        self.cold.explain(error)
    }

    pub(super) fn wake(&self) {
        self.cold.wake();
    }

    pub(super) fn run(&self, work: impl Fn()) {
        self.cold.run(work);
    }

    pub(super) fn end(&self) {
        self.cold.end();
    }

    /// Puts the records of cold segments into the archive, those that it has not.
    fn add(&self, store: &mut dyn ColdStore, cold: &[u64], until: LogStart) -> Result<()> {
        let files = lock(&self.files);
        let end = store.end().unwrap_or_default();
        for (index, &number) in cold.iter().enumerate() {
            let first = first_of(&*files, self.identity, number)?;
            // The archive ends where a segment begins.
            if first < end || first >= until.lsn {
                continue;
            }
            let range = (first, until.lsn);
            return store.add(first, until.lsn, &mut |push| {
                copy_segments(&*files, self.identity, &cold[index..], range, push)
            });
        }
        Ok(())
    }
}

impl<D: Directory> CentralLog<D> {
    /// Moves the records of all cold segments to the archive and removes the files; returns whether
    /// there were any. If the archive cannot take them they stay where they are.
    pub(super) fn move_cold_segments(&self) -> Result<bool> {
        let Some(segments) = &self.cold else {
            return Ok(false);
        };
        let mut store = segments.cold.store();
        let (cold, until) = self.state().wal.needless();
        if cold.is_empty() {
            return Ok(false);
        }
        let added = segments.add(&mut **store, &cold, until);
        if !segments.cold.note(&added) {
            return Ok(false);
        }
        self.remove_in_front(until.segment)?;
        Ok(true)
    }

    /// Content of the archive, if there is one, up to where the log goes on.
    pub(super) fn look_at_archive(&self) -> Result<Option<ArchiveRange>> {
        let Some(segments) = &self.cold else {
            return Ok(None);
        };
        let store = segments.cold.store();
        let mut range = store.look()?;
        let (cold, start) = self.state().wal.needless();
        let mut goes_on = start.lsn;
        if let Some(&oldest) = cold.first() {
            goes_on = first_of(&*lock(&segments.files), segments.identity, oldest)?;
        }
        range.add_gap(goes_on);
        Ok(Some(range))
    }
}
