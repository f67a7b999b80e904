//! Savepoints: moments of a transaction back to which its locks can be given.
//!
//! Keys are in the order in which they were locked, so those since a savepoint are the last ones. A
//! key whose lock has become stronger since then gets the strength that it had.

use super::LockSession;
use crate::lock::mode::Strength;
use crate::lock::name::{Name, Space};
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

    /// Gives back the keys and tables that were locked since the savepoint, except the keys of one
    /// tree, and makes those as weak again that have become stronger since then. Ranges stay, with
    /// the locks of their tables; and so does the lock of a table that has taken the place of older
    /// ones.
    pub fn release_since(&mut self, savepoint: LockSavepoint, kept: PageId) {
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
        if self.last_raise.is_some_and(|raise| raise >= savepoint.0) {
            self.weaken_raised_since(savepoint.0);
        }
        self.release_wholes_since(savepoint.0);
        self.wake_all();
    }

    /// The partition's lock stays, and so do those of tables with keys or ranges that stay.
    fn release_wholes_since(&mut self, savepoint: u64) {
        let keys = self.owned.order[self.owned.first_since(savepoint)..].iter();
        let ranges = self.owned.ranges.iter();
        let ranges = ranges.filter(|range| range.number >= savepoint);
        let first = self
            .owned
            .raises
            .partition_point(|raise| raise.at < savepoint);
        let covering = self.owned.raises[first..].iter();
        let covering = covering.filter(|raise| raise.covers_from < savepoint);
        let busy: Vec<u32> = keys
            .map(|&key| self.owned.keys.get(key).whole)
            .chain(ranges.map(|range| range.whole))
            .chain(covering.map(|raise| raise.whole))
            .chain(self.partition)
            .collect();
        let mut raises = self.owned.raises.split_off(first);
        while let Some(raise) = raises.pop() {
            if busy.contains(&raise.whole) {
                self.owned.raises.push(raise);
            } else {
                self.weaken_whole(raise.whole, raise.before);
            }
        }
        self.owned.raises[first..].reverse();
        let active = std::mem::take(&mut self.owned.active);
        let (newer, kept): (Vec<u32>, Vec<u32>) = active.into_iter().partition(|&number| {
            let is_newer = self.owned.wholes.get(number).number >= savepoint;
            is_newer && !busy.contains(&number)
        });
        self.owned.active = kept;
        for number in newer {
            self.end_whole(number);
        }
    }

    fn weaken_raised_since(&mut self, savepoint: u64) {
        for at in 0..self.owned.order.len() {
            let number = self.owned.order[at];
            let raises = &mut self.owned.keys.get_mut(number).raises;
            let kept = raises.partition_point(|(at, _)| *at < savepoint);
            if let Some(&(_, before)) = raises.get(kept) {
                raises.truncate(kept);
                self.weaken_key(number, before);
            }
        }
    }

    /// Makes the lock of one key shared, if it is stronger.
    pub fn share_key(&mut self, tree: PageId, key: &[u64]) {
        let name = Name::of(Space::Tree(tree), key);
        if let Some(number) = self.owned.keys.find(&name)
            && self.owned.keys.get(number).strength != Strength::Shared
        {
            self.owned.keys.get_mut(number).raises.clear();
            self.weaken_key(number, Strength::Shared);
            self.wake_all();
        }
    }

    fn weaken_key(&mut self, number: u32, strength: Strength) {
        let key = self.owned.keys.get_mut(number);
        key.strength = strength;
        let entry = key.entry;
        let name = self.owned.keys.name(number);
        let (shard, space) = (Queues::shard_of(name.hash), name.space);
        let heads = self.manager.queues.shard(shard);
        heads.weaken(entry, self.id, strength, &mut self.woken);
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

    /// Gives back the ranges that were locked since the savepoint.
    pub fn release_ranges_since(&mut self, savepoint: LockSavepoint) {
        let ranges = self.owned.take_ranges(|range| range.number >= savepoint.0);
        self.release_ranges(&ranges);
        self.wake_all();
    }
}
