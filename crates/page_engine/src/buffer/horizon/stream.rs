//! One stream of a partitioned log, with what its sessions and the horizon need to know of it.
//!
//! All sessions read `missing`, without a lock. So it lies apart from the state, which only the
//! sessions of the stream use, under a lock. Invariant: the first record that may be missing has
//! the number in `missing` or a higher one.

use crate::buffer::reservations::UndoReservations;
use storage::log::Lsn;
use storage::log::numbered::Stream;
use storage::probe::lock_log;
use storage::sync::{AtomicU64, CachePadded, Mutex, MutexGuard, Ordering};

/// Nothing of a ring is missing.
pub(super) const NOTHING: u64 = u64::MAX;

/// A stream and what is known of it, alone on its lines.
#[repr(align(128))]
pub(in crate::buffer) struct SharedStream<P> {
    /// The first record that may be missing, or an earlier number; [`NOTHING`] if none is.
    pub(super) missing: AtomicU64,
    /// Bytes of objects since the newest checkpoint that has begun, and since the newest one that
    /// has ended, to be read without the lock; and how many make one urgent.
    pub(super) since: AtomicU64,
    pub(super) since_ended: AtomicU64,
    pub(super) urgent: u64,
    /// Held while records are made durable and others append. Taken before the state.
    pub(super) syncing: Mutex<()>,
    /// On other cache lines than the fields that other sessions read.
    pub(in crate::buffer) state: CachePadded<Mutex<State<P>>>,
}

pub(in crate::buffer) struct State<P> {
    pub(in crate::buffer) records: P,
    /// Undo space that the transactions of its sessions have reserved.
    pub(super) reservations: UndoReservations<Lsn>,
    /// How many transactions that the opening has found here have reservations: these have the
    /// numbers from 1 on. Number 0 is for the undo of the opening itself.
    pub(super) unfinished: u32,
    /// Tail of the stream when the newest checkpoint began, and when the newest one that has ended
    /// began.
    pub(super) checkpoint: u64,
    pub(super) ended: u64,
    /// As `missing`, of the records after those that are being made durable.
    pub(super) behind: u64,
    pub(super) is_syncing: bool,
}

impl<P: Stream> SharedStream<P> {
    pub(super) fn new(records: P) -> Self {
        let urgent = records.urgent_bytes();
        let state = State {
            checkpoint: records.tail(),
            ended: records.tail(),
            records,
            reservations: UndoReservations::new(),
            unfinished: 0,
            behind: NOTHING,
            is_syncing: false,
        };
        Self {
            missing: AtomicU64::new(NOTHING),
            since: AtomicU64::new(0),
            since_ended: AtomicU64::new(0),
            urgent,
            syncing: Mutex::new(()),
            state: CachePadded(Mutex::new(state)),
        }
    }

    pub(in crate::buffer) fn state(&self) -> MutexGuard<'_, State<P>> {
        lock_log(&self.state)
    }

    /// Lets others read how much there is since checkpoints.
    pub(super) fn note_since(&self, state: &State<P>) {
        let tail = state.records.tail();
        debug_assert!(
            state.ended <= state.checkpoint && state.checkpoint <= tail,
            "a checkpoint has ended before it began"
        );
        self.since.store(tail - state.checkpoint, Ordering::Relaxed);
        self.since_ended
            .store(tail - state.ended, Ordering::Relaxed);
    }
}
