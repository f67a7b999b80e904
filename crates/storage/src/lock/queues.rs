//! The queues of a partition: shards of lock heads, and buckets of ranges.
//!
//! They know sessions by number only. So the search for deadlocks reads them without the manager,
//! and a session of another partition without the sessions of this one.

use super::range::Bucket;
use super::shard::Shard;
use crate::vocabulary::PageId;

/// A scheduler that tries orders of threads has to go through all of them; two show what there is
/// to see.
const SHARDS: usize = if cfg!(feature = "schedules") { 2 } else { 64 };
const BUCKETS: usize = SHARDS;

/// All locks of one partition, and the requests that wait for them.
pub(super) struct Queues {
    shards: [Shard; SHARDS],
    buckets: [Bucket; BUCKETS],
}

impl Queues {
    pub(super) fn new() -> Self {
        Self {
            shards: std::array::from_fn(|number| Shard::new(number as u32)),
            buckets: std::array::from_fn(|_| Bucket::new()),
        }
    }

    /// The shard of a name with this hash. Its chains use the low bits.
    #[inline]
    pub(super) fn shard_of(hash: u64) -> u32 {
        (hash >> 32) as u32 % SHARDS as u32
    }

    #[inline]
    pub(super) fn shard(&self, number: u32) -> &Shard {
        &self.shards[number as usize]
    }

    pub(super) fn shards(&self) -> &[Shard] {
        &self.shards
    }

    #[inline]
    pub(super) fn bucket(&self, tree: PageId) -> &Bucket {
        &self.buckets[tree.0 as usize % BUCKETS]
    }
}
