//! Savepoints: moments of a transaction back to which its locks can be given.
//!
//! Keys are in the order in which they were locked, so those since a savepoint are the last ones. A
//! key that was shared at the savepoint and has become exclusive since is made shared again.

use super::LockSession;
use crate::lock::mode::Strength;
use crate::lock::name::Space;
use crate::lock::queues::Queues;
use crate::lock::shard::ExclusiveKey;
use crate::vocabulary::PageId;

/// A moment in a transaction, for [`LockSession::release_shared`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a savepoint is for giving back what was locked since"]
pub struct LockSavepoint(u64);

impl LockSession {
    /// This moment, for `release_shared`.
    pub fn savepoint(&mut self) -> LockSavepoint {
        LockSavepoint(self.owned.savepoint())
    }

    /// Releases the shared keys and the ranges that were locked since the savepoint. Earlier and
    /// stronger locks stay.
    pub fn release_shared(&mut self, savepoint: LockSavepoint) {
        let keys = self
            .owned
            .take_keys(savepoint.0, |key| key.strength == Strength::Shared);
        for key in keys {
            self.release_key(key);
        }
        let ranges = self.owned.take_ranges(|range| range.number >= savepoint.0);
        self.release_ranges(&ranges);
        self.wake_all();
    }

    /// Gives back the keys that were locked since the savepoint, except those of one tree, and lets
    /// those that have become exclusive since then be shared again. Locks of tables and ranges
    /// stay.
    pub fn release_keys_since(&mut self, savepoint: LockSavepoint, kept: PageId) {
        let from = self.owned.first_since(savepoint.0);
        let mut newer = self.owned.order.split_off(from);
        newer.retain(|&key| {
            let stays = self.owned.keys.name(key).space == Space::Tree(kept);
            if stays {
                self.owned.order.push(key);
            }
            !stays
        });
        for key in newer {
            self.release_key(key);
        }
        if self.has_raised {
            self.weaken_raised_since(savepoint.0);
        }
        self.wake_all();
    }

    fn weaken_raised_since(&mut self, savepoint: u64) {
        for &number in &self.owned.order {
            let key = self.owned.keys.get_mut(number);
            if key.raised <= savepoint {
                continue;
            }
            (key.strength, key.raised) = (Strength::Shared, 0);
            let entry = key.entry;
            let name = self.owned.keys.name(number);
            let (shard, space) = (Queues::shard_of(name.hash), name.space);
            let heads = self.manager.queues.shard(shard);
            heads.weaken(entry, self.id, Strength::Shared, &mut self.woken);
            if let Space::Tree(tree) = space {
                let session = self.id;
                let key = ExclusiveKey {
                    session,
                    shard,
                    entry,
                };
                let bucket = self.manager.queues.bucket(tree);
                bucket.forget(key, &mut self.woken);
            }
        }
    }

    /// Gives back the ranges that were locked since the savepoint.
    pub fn release_ranges_since(&mut self, savepoint: LockSavepoint) {
        let ranges = self.owned.take_ranges(|range| range.number >= savepoint.0);
        self.release_ranges(&ranges);
        self.wake_all();
    }
}
