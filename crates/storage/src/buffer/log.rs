//! The log of the page engine: records of page changes in a [`Wal`], for many threads.
//!
//! The log decides, under its lock, which pages of a record go in with an image of what they were: those that have not changed since
//! the newest checkpoint began. A checkpoint begins under the same lock, so none falls between the decision and the record.
//!
//! Space for undoing is reserved: a transaction says how many bytes its rollback may take, and the log makes sure that its current
//! segment has them. So a full disk stops a change, where the statement can fail, and not a rollback.

use crate::error::Result;
use crate::log::{LogIdentity, LogStart, Lsn, Wal, WalOptions};
use disk::{Directory, DiskCounters};
use pmem::Access;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that a record's frame takes beyond its payload, and the frame of a mark behind it; generously.
const FRAME_BYTES: u64 = 128;

/// The log of one partition.
pub struct PageLog<D: Directory> {
    state: Mutex<State<D>>,
    /// In front of this everything is durable.
    synced: AtomicU64,
    /// Pages that have not changed since here are logged whole; 0 if none are.
    image_from: AtomicU64,
}

struct State<D: Directory> {
    wal: Wal<D>,
    directory: D,
}

impl<D: Directory> PageLog<D> {
    /// Opens the log from `start` on and hands every record to `found`, which may only look: nothing of it is known to be durable yet.
    /// Afterwards it is, and [`PageLog::replay`] hands them out once more.
    pub fn open(
        access: Access,
        directory: D,
        identity: LogIdentity,
        options: WalOptions,
        start: LogStart,
        found: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
    ) -> Result<Self> {
        let wal = Wal::open_for(access, &directory, identity, options, start, found)?;
        Ok(Self {
            synced: AtomicU64::new(wal.synced().0),
            state: Mutex::new(State { wal, directory }),
            image_from: AtomicU64::new(0),
        })
    }

    fn state(&self) -> MutexGuard<'_, State<D>> {
        // Nothing that panics half-way runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands every record from the newest checkpoint on to `redo`.
    pub fn replay(&self, redo: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>) -> Result<()> {
        let State { wal, directory } = &mut *self.state();
        wal.replay(directory, redo)
    }

    /// Lets pages that have not changed since `lsn` be logged whole.
    pub fn image_from(&self, lsn: Lsn) {
        self.image_from.store(lsn.0, Ordering::SeqCst);
    }

    /// Appends a record, which `encode` makes: it is told since when pages are not logged whole. `reserved` bytes are kept
    /// for whoever has to undo.
    pub fn append(
        &self,
        reserved: u64,
        encode: impl FnOnce(Lsn, &mut Vec<u8>),
        record: &mut Vec<u8>,
    ) -> Result<Lsn> {
        let State { wal, directory } = &mut *self.state();
        record.clear();
        encode(Lsn(self.image_from.load(Ordering::SeqCst)), record);
        if reserved > 0 {
            let bytes = record.len() as u64 + reserved + FRAME_BYTES;
            wal.make_room(directory, bytes)?;
        }
        let at = wal.end();
        wal.append(directory, record)?;
        self.synced.store(wal.synced().0, Ordering::SeqCst);
        Ok(at)
    }

    /// Makes the record at `lsn` durable, with all in front of it.
    pub fn flush_to(&self, lsn: Lsn) -> Result<()> {
        if self.synced.load(Ordering::SeqCst) > lsn.0 {
            return Ok(());
        }
        self.flush()
    }

    /// Makes all records durable.
    pub fn flush(&self) -> Result<()> {
        let State { wal, .. } = &mut *self.state();
        wal.flush()?;
        self.synced.store(wal.synced().0, Ordering::SeqCst);
        Ok(())
    }

    /// Begins a checkpoint: pages that have not changed since are logged whole, if they are at all.
    pub fn begin_checkpoint(&self) -> Result<LogStart> {
        let State { wal, .. } = &mut *self.state();
        let start = wal.begin_checkpoint()?;
        self.synced.store(wal.synced().0, Ordering::SeqCst);
        if self.image_from.load(Ordering::SeqCst) > 0 {
            self.image_from.store(start.lsn.0, Ordering::SeqCst);
        }
        Ok(start)
    }

    /// Ends a checkpoint that is durable: what is in front of it is not needed any more.
    pub fn end_checkpoint(&self, start: LogStart) -> Result<()> {
        let State { wal, directory } = &mut *self.state();
        wal.end_checkpoint(start);
        while wal.remove_needless(directory)? {}
        Ok(())
    }

    /// Makes everything durable and marks the end.
    pub fn close(&self) -> Result<()> {
        let State { wal, directory } = &mut *self.state();
        wal.close(directory)
    }

    /// Reads the log again and says what is wrong with it.
    pub fn verify(&self) -> Result<()> {
        let State { wal, directory } = &mut *self.state();
        wal.verify(directory)
    }

    /// What the directory of all files has counted.
    pub fn counters(&self) -> DiskCounters {
        self.state().directory.counters()
    }

    /// Bytes of records since the newest checkpoint.
    pub fn live_bytes(&self) -> u64 {
        self.state().wal.live_bytes()
    }

    /// Bytes that the files take.
    pub fn file_bytes(&self) -> u64 {
        self.state().wal.file_bytes()
    }

    /// Whether an earlier write or sync failed.
    pub fn is_poisoned(&self) -> bool {
        self.state().wal.is_poisoned()
    }

    /// Refuses everything from now on.
    pub fn refuse(&self) {
        self.state().wal.refuse();
    }
}
