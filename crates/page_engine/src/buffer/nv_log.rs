//! The log of the page engine in durable memory: several rings, one for each session or a few that
//! sessions share.
//!
//! [`PartitionedLog`] orders the records of all rings and decides when a commit is acknowledged.
//! This module knows which rings there are: the first one has their number, the newest life of the
//! log, and from where on recovery needs records.

use super::cold::ColdStore;
use super::horizon::{Content, HorizonOptions, PartitionedLog, SESSIONS_MAX, StreamSource};
use disk::{Directory, DiskCounters};
use pmem::{Access, MemorySource};
use std::ops::RangeInclusive;
use storage::engine::{CommitOrder, Persist};
use storage::log::numbered::{InFront, Stream};
use storage::log::nv_ring::{self, RingSize};
use storage::log::{LogIdentity, Lsn, NvRing, RingIdentity};
use storage::sync::{Mutex, lock};
use storage::{Result, StorageError};

/// A ring has room for the rollback of a small transaction several times. Records to undo with have
/// lines as they were, and are longer.
const RING_PAGES_MIN: u64 = 256;
const RING_PAGES_MIN_UNDO: u64 = 768;

/// Most bytes of a piece of a ring. In this room's tests pieces are small, so that rings have
/// several.
const PIECE_BYTES_MAX: u64 = if cfg!(test) {
    32 << 10
} else {
    nv_ring::PIECE_BYTES_MAX
};

/// Assignment of sessions to rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rings {
    /// One ring for each session, made together with it.
    PerSession,
    /// This number `n` of rings, made with the log and for its life; each has every `n`-th session.
    Shared(u32),
}

/// Sizes and manners of the log.
#[derive(Clone, Copy, Debug)]
pub struct NvLogOptions {
    /// Database and partition of the log.
    pub identity: LogIdentity,
    /// Whether it may change.
    pub access: Access,
    /// Assignment of sessions to rings. A log that exists has as many shared ones as it was made
    /// with.
    pub rings: Rings,
    /// Bytes of records in a ring.
    pub ring_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// When a record becomes durable.
    pub persist: Persist,
    /// Purpose of the records.
    pub content: Content,
    /// Whether a commit waits for the records of other sessions.
    pub order: CommitOrder,
}

impl NvLogOptions {
    fn ring(&self, number: u32) -> RingIdentity {
        RingIdentity {
            log: self.identity,
            ring: number,
        }
    }

    fn size(&self) -> RingSize {
        let pages = match self.content {
            Content::Redo => RING_PAGES_MIN,
            Content::Undo => RING_PAGES_MIN_UNDO,
        };
        let least = pages * self.page_bytes;
        RingSize {
            bytes: self.ring_bytes.max(least),
            piece_bytes_max: PIECE_BYTES_MAX,
        }
    }
}

/// The rings of one partition.
pub struct RingStreams<S, D> {
    memories: S,
    /// The other files of the partition.
    files: Mutex<D>,
    options: NvLogOptions,
}

/// A log in rings.
pub type NvLog<S, D> = PartitionedLog<RingStreams<S, D>>;

impl<S, D> StreamSource for RingStreams<S, D>
where
    S: MemorySource + Send + Sync,
    S::Memory: Send,
    D: Directory,
{
    type Stream = NvRing<S::Memory>;

    fn open(&self) -> Result<Vec<Self::Stream>> {
        let open = |number| {
            let identity = self.options.ring(number);
            NvRing::open(&self.memories, identity, self.options.access)
        };
        let first = open(0)?;
        let rings = first.rings()?;
        if !(1..=SESSIONS_MAX as u64).contains(&rings) {
            return Err(first.damaged(&format!("it says that the log has {rings} rings")));
        }
        let mut opened = vec![first];
        for number in 1..rings as u32 {
            opened.push(open(number)?);
        }
        Ok(opened)
    }

    fn create(&self, number: u32) -> Result<Self::Stream> {
        let identity = self.options.ring(number);
        NvRing::create(&self.memories, identity, self.options.size())
    }

    fn are_shared(&self) -> bool {
        matches!(self.options.rings, Rings::Shared(_))
    }

    fn has_daemon(&self) -> bool {
        !self.are_shared() && self.options.persist == Persist::OnCommit
    }

    fn ends(&self) -> u32 {
        1
    }

    /// A ring that is gone is noticed when it is opened.
    fn gone(&self, _stream: u32, _files: &RangeInclusive<u64>) -> Result<Option<StorageError>> {
        Ok(None)
    }

    fn disk(&self) -> DiskCounters {
        lock(&self.files).counters()
    }
}

impl<S, D> NvLog<S, D>
where
    S: MemorySource + Send + Sync,
    S::Memory: Send,
    D: Directory,
{
    /// Makes the log with its first ring, or with all that are shared, durable when it returns.
    pub fn create(memories: &S, options: &NvLogOptions) -> Result<()> {
        let mut first = NvRing::create(memories, options.ring(0), options.size())?;
        if let Rings::Shared(rings) = options.rings {
            if !(1..=SESSIONS_MAX as u32).contains(&rings) {
                return Err(StorageError::Unsupported(format!(
                    "a log of {rings} rings: use 1 to {SESSIONS_MAX}"
                )));
            }
            for number in 1..rings {
                NvRing::create(memories, options.ring(number), options.size())?;
            }
            first.set_count(u64::from(rings))?;
        }
        Ok(())
    }

    /// Whether it is proven that a checkpoint at `start` is durable. If not, the records before it
    /// may be needed again.
    pub fn knows(memories: &S, options: &NvLogOptions, start: Lsn) -> Result<bool> {
        let first = NvRing::open(memories, options.ring(0), options.access)?;
        Ok(first.start()? >= start)
    }

    /// Notes that a checkpoint at `start` is durable, which the caller has ensured, and the fate of
    /// the records before it.
    pub fn learn(
        memories: &S,
        options: &NvLogOptions,
        start: Lsn,
        in_front: InFront,
    ) -> Result<()> {
        NvRing::open(memories, options.ring(0), options.access)?.set_start(start, in_front)
    }

    /// Opens the log and finds the records from `start` on that count. Nothing is stored yet. With
    /// an archive, records that are not needed any more go there.
    pub fn open_rings(
        memories: S,
        files: D,
        options: NvLogOptions,
        start: Lsn,
        archive: Option<Box<dyn ColdStore>>,
    ) -> Result<Self> {
        let archive = match archive {
            Some(store) => {
                let first = NvRing::open(&memories, options.ring(0), options.access)?;
                Some((store, first.kept_from()?))
            }
            None => None,
        };
        let manners = HorizonOptions {
            access: options.access,
            persist: options.persist,
            content: options.content,
            order: options.order,
        };
        let source = RingStreams {
            memories,
            files: Mutex::new(files),
            options,
        };
        Self::open(source, manners, start, archive)
    }
}

#[cfg(test)]
#[cfg(not(feature = "schedules"))]
#[path = "nv_log_tests.rs"]
mod tests;

#[cfg(feature = "schedules")]
#[cfg(test)]
#[path = "nv_log_schedule_tests.rs"]
mod schedule_tests;
