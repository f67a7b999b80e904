//! The log of the page engine: records of page changes in a [`Wal`], for many threads.
//!
//! The log decides, under its lock, which pages of a record go in with an image of what they were: those that have not changed since
//! the newest checkpoint began. A checkpoint begins under the same lock, so none falls between the decision and the record.
//!
//! Space for undoing is reserved: a transaction says how many bytes its rollback may take, and the log makes sure that its current
//! segment has them for all transactions together. So a full disk stops a change, where the statement can fail, and not a rollback.
//!
//! Records become durable in groups. Whoever needs one durable first leads: it takes all records so far, gives the log back, and writes
//! and syncs them while others append. Who needs a record meanwhile sleeps until that sync has ended, and then either its record is
//! durable or it leads the next one, with all that has gathered. So there is one sync at a time, whatever the number of
//! threads, and it waits for nobody. After one that failed nobody's record is durable any more, though it may be on the disk.
//!
//! The log also knows, a session, since which checkpoint the open transaction has records: a checkpoint keeps what undoing them takes. Both
//! are noted under the lock that orders the records, so a checkpoint sees a transaction exactly if it has a record in front of it.

use crate::error::{Result, StorageError};
use crate::log::{LogIdentity, LogStart, Lsn, Wal, WalOptions};
use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, lock};
use disk::{Directory, DiskCounters};
use pmem::Access;
use std::sync::PoisonError;

/// Bytes that a record's frame takes beyond its payload, and the frame of a mark behind it; generously.
const FRAME_BYTES: u64 = 128;

/// The log of one partition.
pub struct PageLog<D: Directory> {
    state: Mutex<State<D>>,
    /// Signalled when a sync has ended.
    ended: Condvar,
    /// In front of this everything is durable.
    synced: AtomicU64,
    /// Pages that have not changed since here are logged whole; 0 if none are.
    image_from: AtomicU64,
}

struct State<D: Directory> {
    wal: Wal<D>,
    directory: D,
    /// What each session's transaction needs.
    claims: Vec<Claim>,
    /// Sum of the bytes of all claims.
    reserved: u64,
    /// The newest checkpoint that has begun.
    newest: LogStart,
    /// Whether somebody leads a sync.
    is_syncing: bool,
}

/// What the open transaction of a session needs of the log.
#[derive(Clone, Copy, Default)]
struct Claim {
    bytes: u64,
    /// The newest checkpoint when its first record was appended.
    since: Option<LogStart>,
}

/// What a record changes about the log space that its session's transaction needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserve {
    /// Nothing: it is a part of what the space was reserved for.
    Keep,
    /// The session's transaction needs so many bytes to be undone, or to free what it has given up.
    Bytes(u32, u64),
    /// The session's transaction needs nothing any more.
    End(u32),
}

/// Where a checkpoint begins.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointStart {
    /// Every change in front of it has to be in the pages.
    pub redo: Lsn,
    /// What is not needed any more lies in front of it: no transaction that is open has a record there.
    pub log: LogStart,
}

impl<D: Directory> State<D> {
    fn claim(&mut self, session: u32) -> &mut Claim {
        let session = session as usize;
        if self.claims.len() <= session {
            self.claims.resize(session + 1, Claim::default());
        }
        &mut self.claims[session]
    }

    /// Makes room for a record and for what all transactions need then.
    fn reserve(&mut self, session: u32, bytes: u64, record: &[u8]) -> Result<()> {
        let newest = self.newest;
        let claim = self.claim(session);
        let old = claim.bytes;
        let all = self.reserved - old + bytes;
        let room = record.len() as u64 + all + FRAME_BYTES;
        self.wal.make_room(&self.directory, room)?;
        let claim = self.claim(session);
        claim.bytes = bytes;
        claim.since.get_or_insert(newest);
        self.reserved = all;
        Ok(())
    }

    fn end(&mut self, session: u32) {
        let ended = std::mem::take(self.claim(session));
        self.reserved -= ended.bytes;
    }
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
            state: Mutex::new(State {
                wal,
                directory,
                claims: Vec::new(),
                reserved: 0,
                newest: start,
                is_syncing: false,
            }),
            ended: Condvar::new(),
            image_from: AtomicU64::new(0),
        })
    }

    fn state(&self) -> MutexGuard<'_, State<D>> {
        lock(&self.state)
    }

    /// Hands every record from the newest checkpoint on to `redo`.
    pub fn replay(&self, redo: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>) -> Result<()> {
        let State { wal, directory, .. } = &mut *self.state();
        wal.replay(directory, redo)
    }

    /// Lets pages that have not changed since `lsn` be logged whole.
    pub fn image_from(&self, lsn: Lsn) {
        self.image_from.store(lsn.0, Ordering::SeqCst);
    }

    /// Appends a record, which `encode` makes: it is told since when pages are not logged whole.
    pub fn append(
        &self,
        reserve: Reserve,
        encode: impl FnOnce(Lsn, &mut Vec<u8>),
        record: &mut Vec<u8>,
    ) -> Result<Lsn> {
        let state = &mut *self.state();
        record.clear();
        encode(Lsn(self.image_from.load(Ordering::SeqCst)), record);
        if let Reserve::Bytes(session, bytes) = reserve {
            state.reserve(session, bytes, record)?;
        }
        let at = state.wal.end();
        state.wal.append(&state.directory, record)?;
        self.synced.store(state.wal.synced().0, Ordering::SeqCst);
        if let Reserve::End(session) = reserve {
            state.end(session);
        }
        Ok(at)
    }

    /// Notes that a session's transaction needs nothing any more.
    pub fn end(&self, session: u32) {
        self.state().end(session);
    }

    /// Makes the record at `lsn` durable, with all in front of it.
    pub fn flush_to(&self, lsn: Lsn) -> Result<()> {
        if self.synced.load(Ordering::SeqCst) > lsn.0 {
            return Ok(());
        }
        self.sync_until(self.state(), Lsn(lsn.0 + 1))
    }

    /// Makes all records durable that are in the log now.
    pub fn flush(&self) -> Result<()> {
        let state = self.state();
        let end = state.wal.end();
        self.sync_until(state, end)
    }

    /// Leads or follows until everything in front of `end` is durable.
    fn sync_until<'l>(&'l self, mut state: MutexGuard<'l, State<D>>, end: Lsn) -> Result<()> {
        loop {
            if state.wal.is_poisoned() {
                return Err(StorageError::Poisoned);
            }
            if state.wal.synced() >= end {
                return Ok(());
            }
            if state.is_syncing {
                let woken = self.ended.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let Some(pending) = state.wal.begin_sync()? else {
                return Ok(());
            };
            state.is_syncing = true;
            let ended = pending.run(|| drop(state));
            state = self.state();
            state.is_syncing = false;
            let result = state.wal.end_sync(ended);
            let synced = state.wal.synced();
            self.synced.store(synced.0, Ordering::SeqCst);
            self.ended.notify_all();
            result?;
        }
    }

    /// In front of this everything is durable.
    pub fn synced(&self) -> Lsn {
        Lsn(self.synced.load(Ordering::SeqCst))
    }

    /// Begins a checkpoint: pages that have not changed since are logged whole, if they are at all. What open transactions may need of the
    /// log they have in its new segment.
    pub fn begin_checkpoint(&self) -> Result<CheckpointStart> {
        let state = &mut *self.state();
        let start = state
            .wal
            .begin_checkpoint_with_room(&state.directory, state.reserved)?;
        self.synced.store(state.wal.synced().0, Ordering::SeqCst);
        if self.image_from.load(Ordering::SeqCst) > 0 {
            self.image_from.store(start.lsn.0, Ordering::SeqCst);
        }
        state.newest = start;
        let open = state.claims.iter().filter_map(|claim| claim.since);
        let oldest = open.min_by_key(|since| since.lsn);
        Ok(CheckpointStart {
            redo: start.lsn,
            log: oldest.unwrap_or(start),
        })
    }

    /// Ends a checkpoint that is durable: what is in front of `start` is not needed any more.
    pub fn end_checkpoint(&self, start: LogStart) -> Result<()> {
        let State { wal, directory, .. } = &mut *self.state();
        wal.end_checkpoint(start);
        while wal.remove_needless(directory)? {}
        Ok(())
    }

    /// Makes everything durable and marks the end.
    pub fn close(&self) -> Result<()> {
        let State { wal, directory, .. } = &mut *self.state();
        wal.close(directory)
    }

    /// Reads the log again and says what is wrong with it.
    pub fn verify(&self) -> Result<()> {
        let State { wal, directory, .. } = &mut *self.state();
        wal.verify(directory)
    }

    /// What the directory of all files has counted.
    pub fn counters(&self) -> DiskCounters {
        self.state().directory.counters()
    }

    /// Bytes of records since the newest checkpoint.
    pub fn live_bytes(&self) -> u64 {
        let state = self.state();
        state.wal.end().0 - state.newest.lsn.0
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

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
#[path = "log_tests.rs"]
mod tests;

#[cfg(feature = "schedules")]
#[cfg(test)]
#[path = "log_schedule_tests.rs"]
mod schedule_tests;
