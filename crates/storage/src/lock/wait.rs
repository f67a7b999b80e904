//! Waits of transactions, and the part of a session's state that others read.
//!
//! A transaction waits in one queue at a time. It notes the wait under its owner, for those that
//! search for deadlocks; only the queue knows whether it still waits.

use super::counters::VisibleCounters;
use super::head::SessionId;
use super::parker::Parker;
use super::queues::Queues;
use crate::sync::{AtomicU32, Mutex, Ordering};
use crate::vocabulary::PageId;
use std::sync::Arc;

/// The queue in which a session waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// At a head of a shard.
    Head { shard: u32, entry: u32 },
    /// With a range that is not granted yet.
    Range { tree: PageId, range: u64 },
    /// After ranges that contain the key that it has locked.
    Writer { tree: PageId },
}

/// One wait of a transaction. It tells other sessions which queue to examine; only the queue knows
/// whether the session still waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// The session in the queue.
    pub(super) session: SessionId,
    /// Counts the session's waits.
    pub(super) number: u64,
    pub(super) queue: Queue,
}

/// The part of a session that others may see, alone on its cache lines.
#[repr(align(128))]
pub(super) struct Visible {
    /// Unique in the graph of waits.
    pub(super) id: SessionId,
    /// The queues of its partition.
    pub(super) queues: Arc<Queues>,
    /// The place where it sleeps.
    pub(super) parker: Arc<Parker>,
    /// The session that owns the transaction of its locks: this one, or one in another partition.
    owner: AtomicU32,
    /// The wait of the transaction that this session is the owner of, in whichever partition.
    pub(super) waiting: Mutex<Option<Wait>>,
    pub(super) counters: VisibleCounters,
}

impl Visible {
    pub(super) fn new(id: SessionId, queues: Arc<Queues>) -> Self {
        Self::with_parker(id, queues, Arc::new(Parker::new()))
    }

    /// As [`Visible::new`], for a session that sleeps where another one does.
    pub(super) fn with_parker(id: SessionId, queues: Arc<Queues>, parker: Arc<Parker>) -> Self {
        Self {
            id,
            queues,
            parker,
            owner: AtomicU32::new(id),
            waiting: Mutex::new(None),
            counters: VisibleCounters::default(),
        }
    }

    pub(super) fn owner(&self) -> SessionId {
        self.owner.load(Ordering::Acquire)
    }

    pub(super) fn set_owner(&self, owner: SessionId) {
        self.owner.store(owner, Ordering::Release);
    }
}
