//! Records of rings and series that recovery no longer needs, on their way to an archive: the *cold
//! log* of NV-Logging.
//!
//! A checkpoint makes records cold. With an archive their space is given back only when the archive
//! has them durably ([`Archive`](storage::log::archive)); ring 0 notes how far that is
//! (`set_archived`), and for series the archive itself shows it. So a crash leaves every record in
//! a ring or in the archive, and the next opening goes on where the archive ends: it finds the cold
//! records that are not archived. `cold_segments` does the same for segments of the central log.
//!
//! A thread of its own moves them, so that no transaction waits for the disk. If the archive is
//! full or fails, cold records stay, and the log goes on until it has no room. Then a session that
//! needs room tries once more, and gets the error of the archive.
//!
//! Order of locks: the store's, then those of `horizon`.

use super::cleaner::Cleaner;
use super::horizon::{PartitionedLog, StreamSource, without_gaps};
use crate::page::Head;
use disk::Directory;
use pmem::Access;
use std::sync::Arc;
use storage::log::archive::{Archive, ArchiveRange, ArchiveWatch};
use storage::log::numbered::{Found, Stream};
use storage::log::{LogIdentity, Lsn};
use storage::record::Reader;
use storage::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};
use storage::{Result, StorageError};

/// Numbers of records that are copied at a time.
const NUMBERS: u64 = 4096;

/// Takes the next record.
pub type PushRecord<'p> = dyn FnMut(Lsn, &[u8]) -> Result<()> + 'p;

/// Destination of cold records.
pub trait ColdStore: Send {
    /// Position after the newest record that it has; none if it has none.
    fn end(&self) -> Option<Lsn>;

    /// Adds the records from `first` up to, but not including, `end`, durably or not at all: `copy`
    /// hands them out in their order.
    fn add(
        &mut self,
        first: Lsn,
        end: Lsn,
        copy: &mut dyn FnMut(&mut PushRecord<'_>) -> Result<()>,
    ) -> Result<()>;

    /// Reads all of the archive, and returns its range.
    fn look(&self) -> Result<ArchiveRange>;
}

impl<D: Directory> ColdStore for Archive<D> {
    fn end(&self) -> Option<Lsn> {
        Archive::end(self)
    }

    fn add(
        &mut self,
        first: Lsn,
        end: Lsn,
        copy: &mut dyn FnMut(&mut PushRecord<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut add = || {
            let mut file = self.begin(first)?;
            copy(&mut |lsn, bytes| Ok(file.push(lsn, bytes)?))?;
            self.publish(file, end)
        };
        let added = add();
        if added.is_err() {
            self.clear();
        }
        added
    }

    fn look(&self) -> Result<ArchiveRange> {
        let mut times = ArchiveRange::default();
        let mut range = self.read(&mut |_, bytes| {
            if let Ok(Head::Commit(_, Some(time), _)) = Head::decode(&mut Reader::new(bytes)) {
                times.add_time(time);
            }
        })?;
        range.times = times.times;
        Ok(range)
    }
}

/// The archive of a partition's log, on which the log may rely if it may write.
pub fn open_store<D: Directory>(
    directory: D,
    identity: LogIdentity,
    access: Access,
) -> Result<Box<dyn ColdStore>> {
    let archive = Archive::open(directory, identity)?;
    if access == Access::Write {
        archive.secure()?;
    }
    Ok(Box::new(archive))
}

/// The records of streams that follow each other from `from` on, each with the number of its
/// stream, and the number after them.
pub(super) fn following<P: Stream>(
    streams: &mut [P],
    from: Lsn,
) -> Result<(Vec<(u32, Found)>, Lsn)> {
    let mut all = Vec::new();
    for (stream, number) in streams.iter_mut().zip(0..) {
        let found = stream.records(from)?.found;
        all.extend(found.into_iter().map(|found| (number, found)));
    }
    all.sort_unstable_by_key(|(_, found)| (found.from, found.lsn));
    Ok(without_gaps(&all, from))
}

/// A log's cold records.
pub(super) struct Cold {
    store: Mutex<Box<dyn ColdStore>>,
    /// The first record that this opening may have to move.
    from: Lsn,
    /// Records below this are cold.
    until: AtomicU64,
    /// The space of records below this was given back.
    given_back: AtomicU64,
    watch: Arc<ArchiveWatch>,
    cleaner: Cleaner,
}

impl Cold {
    /// Of a log whose records before `start` are cold, and which has given back those before
    /// `kept_from`.
    pub(super) fn new(store: Box<dyn ColdStore>, kept_from: Lsn, start: Lsn) -> Result<Self> {
        let from = store.end().map_or(kept_from, |end| end.max(kept_from));
        let cold = Self {
            from,
            until: AtomicU64::new(start.0),
            given_back: AtomicU64::new(kept_from.0),
            ..Self::of_segments(store)
        };
        cold.check(start)?;
        Ok(cold)
    }

    /// Of a log that knows itself which records are cold.
    pub(super) fn of_segments(store: Box<dyn ColdStore>) -> Self {
        Self {
            store: Mutex::new(store),
            from: Lsn(0),
            until: AtomicU64::new(0),
            given_back: AtomicU64::new(0),
            watch: Arc::default(),
            cleaner: Cleaner::new(),
        }
    }

    /// Fails if the archive has records that a log has not which begins at `start`.
    pub(super) fn check(&self, start: Lsn) -> Result<()> {
        match self.store().end().filter(|end| *end > start) {
            None => Ok(()),
            Some(end) => Err(StorageError::foreign_file(
                "the archive of the log",
                format!(
                    "it has records up to {}, and the log goes on at {}: it is of a later state of the database; give the database another directory for its archive",
                    end.0, start.0
                ),
            )),
        }
    }

    pub(super) fn store(&self) -> MutexGuard<'_, Box<dyn ColdStore>> {
        lock(&self.store)
    }

    /// Notes whether the archive has taken records, and returns it.
    pub(super) fn note(&self, added: &Result<()>) -> bool {
        self.watch.note(added)
    }

    pub(super) fn watch(&self) -> Arc<ArchiveWatch> {
        Arc::clone(&self.watch)
    }

    /// The first record that an opening has to find.
    pub(super) fn from(&self) -> Lsn {
        self.from
    }

    /// Notes that records before `until` are cold.
    pub(super) fn cool(&self, until: Lsn) {
        self.until.fetch_max(until.0, Ordering::SeqCst);
        self.wake();
    }

    /// Lets the thread look for cold records.
    pub(super) fn wake(&self) {
        self.cleaner.wake();
    }

    /// The error for a log without room, if that is for the archive's sake.
    pub(super) fn explain(&self, error: StorageError) -> StorageError {
        match (error.wanted_bytes(), self.watch.failure()) {
            (Some(wanted_bytes), Some(failure)) => StorageError::log_full(
                wanted_bytes,
                format!("the log's oldest records wait for its archive, where it says: {failure}"),
                "make room there or fix it, and the log goes on",
            ),
            _ => error,
        }
    }

    /// Is the thread that moves records, until [`Cold::end`].
    pub(super) fn run(&self, work: impl Fn()) {
        let present = self.cleaner.begin();
        work();
        while present.next() {
            work();
        }
    }

    pub(super) fn end(&self) {
        self.cleaner.end();
    }
}

impl<P: StreamSource> PartitionedLog<P> {
    /// Moves all cold records to the archive, and frees their space; returns whether there were
    /// any. If the archive cannot take them they stay where they are.
    pub(super) fn move_cold_records(&self) -> Result<bool> {
        let Some(cold) = &self.cold else {
            return Ok(false);
        };
        let mut store = cold.store();
        let until = Lsn(cold.until.load(Ordering::SeqCst));
        if until.0 <= cold.given_back.load(Ordering::SeqCst) {
            return Ok(false);
        }
        let first = store.end().map_or(cold.from, |end| end.max(cold.from));
        if first < until {
            debug_assert!(
                until.0 <= self.next.load(Ordering::SeqCst),
                "records are cold that were not appended"
            );
            let added = store.add(first, until, &mut |push| self.copy(first, until, push));
            if !cold.note(&added) {
                return Ok(false);
            }
        }
        assert!(
            store.end() >= Some(until),
            "space is given back of records that the archive does not have"
        );
        self.give_back(until)?;
        cold.given_back.store(until.0, Ordering::SeqCst);
        Ok(true)
    }

    /// Hands out the records from `first` up to, but not including, `end`, in their order. Others
    /// append meanwhile.
    fn copy(&self, first: Lsn, end: Lsn, push: &mut PushRecord<'_>) -> Result<()> {
        let mut apart = self.source.open_apart()?;
        if !apart.is_empty() {
            return self.copy_apart(&mut apart, (first, end), push);
        }
        // A stream that comes meanwhile has no cold records.
        let mut cursors = vec![0; self.streams().count()];
        let (mut next, mut records) = (first.0, Vec::new());
        while next < end.0 {
            let until = Lsn((next + NUMBERS).min(end.0));
            for (stream, cursor) in self.streams().zip(&mut cursors) {
                stream
                    .state()
                    .records
                    .copy(cursor, until, &mut |lsn, bytes| {
                        if lsn >= first {
                            records.push((lsn, bytes.to_vec()));
                        }
                    })?;
            }
            records.sort_unstable_by_key(|(lsn, _)| *lsn);
            for (lsn, bytes) in records.drain(..) {
                if lsn.0 != next {
                    break;
                }
                push(lsn, &bytes)?;
                next += 1;
            }
            if next < until.0 {
                return Err(self.gone(next)?);
            }
        }
        Ok(())
    }

    /// As [`PartitionedLog::copy`], from streams that nobody else has.
    fn copy_apart(
        &self,
        streams: &mut [P::Stream],
        (first, end): (Lsn, Lsn),
        push: &mut PushRecord<'_>,
    ) -> Result<()> {
        let (records, reached) = following(streams, first)?;
        if reached < end {
            return Err(self.gone(reached.0)?);
        }
        for (number, found) in records.iter().take_while(|(_, found)| found.lsn < end) {
            push(found.lsn, streams[*number as usize].payload(found)?)?;
        }
        Ok(())
    }

    fn gone(&self, record: u64) -> Result<StorageError> {
        let first = self.stream(0)?.state();
        Ok(first.records.damaged(&format!(
            "record {record} of the log is gone before it was archived"
        )))
    }

    /// Content of the archive, if there is one; an error if it is damaged, or lacks records that
    /// the log does not have either.
    pub(super) fn look_at_archive(&self) -> Result<Option<ArchiveRange>> {
        let Some(cold) = &self.cold else {
            return Ok(None);
        };
        let store = cold.store();
        let mut range = store.look()?;
        let first = self.stream(0)?.state();
        let (end, moved) = (
            range.range.map_or(0, |(_, end)| end.0),
            first.records.archived()?,
        );
        if end < moved.0 {
            return Err(first.records.damaged(&format!(
                "records up to {} were moved to the archive, which has those in front of {end} only: the rest of its files is gone",
                moved.0
            )));
        }
        range.add_gap(cold.from);
        Ok(Some(range))
    }
}
