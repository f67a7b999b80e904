//! Places that must not be reused yet, because a snapshot shows their content.
//!
//! Snapshots of a partition have numbers, 1 and up. A place is *born* when a group that has written
//! it is durable, and *dies* when a later group is durable that gave it up; both are counted in the
//! number of snapshots that had been taken. Snapshot `n` shows the places that were born before it
//! was taken and died after: `born < n <= died`. A place that died and that a live snapshot shows
//! is *held*, under the newest such snapshot. When that one ends it is held under another that
//! shows it, or is free. So a long-lived snapshot keeps only the places that it shows: those that
//! are born and die while it lives are reused at once.
//!
//! All of this is in DRAM. On the medium a place is free as soon as its group frees it; a crash
//! ends all snapshots and leaks nothing. While no snapshot lives nothing is noted: a place without
//! a noted birth was born before every snapshot that lives now.

use pmem::{Arena, Fate, Memory, Outcome};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use storage::place::PlaceMap;

/// A place that died.
#[derive(Clone, Copy)]
struct Dead {
    at: u64,
    born: u64,
    died: u64,
}

/// The snapshots that live, shared by them and their partition.
#[derive(Default)]
struct Living {
    numbers: Mutex<BTreeSet<u64>>,
    /// Number of snapshots that have ended.
    ended: AtomicU64,
}

/// Keeps what a snapshot shows from being used again, until it is dropped.
pub(in crate::index) struct Lease {
    living: Arc<Living>,
    number: u64,
}

impl Lease {
    /// The number of the snapshot.
    pub(in crate::index) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut numbers = self
            .living
            .numbers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        numbers.remove(&self.number);
        // Released after the last read of what it showed, and acquired before anything is stored
        // there.
        self.living.ended.fetch_add(1, Ordering::Release);
    }
}

/// The places of one partition that snapshots show or may show.
#[derive(Default)]
pub(in crate::index) struct Limbo {
    living: Arc<Living>,
    /// Snapshots that were taken since the partition was opened.
    taken: u64,
    /// The numbers of those that lived when `ended` was last read.
    live: Vec<u64>,
    ended: u64,
    /// When places were born, of those that were born since the oldest live snapshot was taken.
    born: PlaceMap<u64, u64>,
    held: BTreeMap<u64, Vec<Dead>>,
}

impl Limbo {
    /// A new snapshot. The published state must be durable, and no change may be under way.
    pub(in crate::index) fn take(&mut self) -> Lease {
        self.taken += 1;
        let number = self.taken;
        let mut numbers = self
            .living
            .numbers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        numbers.insert(number);
        self.live.push(number);
        Lease {
            living: Arc::clone(&self.living),
            number,
        }
    }

    /// Whether births and deaths must be noted.
    #[inline]
    pub(in crate::index) fn is_active(&self) -> bool {
        !self.live.is_empty()
    }

    /// Snapshots that were taken since the partition was opened.
    pub(in crate::index) fn taken(&self) -> u64 {
        self.taken
    }

    /// The snapshots that lived at the last check, by their numbers.
    pub(in crate::index) fn live(&self) -> &[u64] {
        &self.live
    }

    /// Ends a group that is durable: notes the blocks that it took and gave up, and holds those
    /// that snapshots show.
    pub(in crate::index) fn settle<M: Memory>(&mut self, arena: &mut Arena<M>) {
        if !self.is_active() {
            return arena.settle(Outcome::Committed);
        }
        arena.settle_holding(&mut |at, fate| match fate {
            Fate::Born => {
                self.born(at);
                false
            }
            Fate::Died => self.died(at),
        });
    }

    /// Number of snapshots taken before the place was born.
    pub(in crate::index) fn birth(&self, at: u64) -> u64 {
        self.born.get(&at).copied().unwrap_or(0)
    }

    /// The place is in use from now on.
    pub(in crate::index) fn born(&mut self, at: u64) {
        self.born.insert(at, self.taken);
    }

    /// The place is given up. True if a snapshot shows it, so that it is held.
    pub(in crate::index) fn died(&mut self, at: u64) -> bool {
        let born = self.born.remove(&at).unwrap_or(0);
        let died = self.taken;
        self.hold(Dead { at, born, died })
    }

    fn hold(&mut self, dead: Dead) -> bool {
        let before = self.live.partition_point(|&number| number <= dead.died);
        match self.live[..before].last() {
            Some(&number) if number > dead.born => {
                self.held.entry(number).or_default().push(dead);
                true
            }
            _ => false,
        }
    }

    /// Looks which snapshots have ended and calls `release` for each place that no other one shows.
    /// Says whether any has.
    #[inline]
    pub(in crate::index) fn reclaim(&mut self, release: &mut dyn FnMut(u64)) -> bool {
        let has_ended = self.is_active() && self.living.ended.load(Ordering::Acquire) != self.ended;
        if has_ended {
            self.reclaim_ended(release);
        }
        has_ended
    }

    #[cold]
    fn reclaim_ended(&mut self, release: &mut dyn FnMut(u64)) {
        let numbers = self
            .living
            .numbers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.ended = self.living.ended.load(Ordering::Acquire);
        self.live = numbers.iter().copied().collect();
        drop(numbers);
        let mut freed = Vec::new();
        for (number, places) in std::mem::take(&mut self.held) {
            if self.live.binary_search(&number).is_ok() {
                self.held.entry(number).or_default().extend(places);
            } else {
                freed.extend(places);
            }
        }
        for dead in freed {
            if !self.hold(dead) {
                release(dead.at);
            }
        }
        if self.live.is_empty() {
            self.born = PlaceMap::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reclaimed(limbo: &mut Limbo) -> Vec<u64> {
        let mut places = Vec::new();
        limbo.reclaim(&mut |at| places.push(at));
        places.sort_unstable();
        places
    }

    #[test]
    fn a_snapshot_holds_what_it_shows_and_nothing_else() {
        let mut limbo = Limbo::default();
        let lease = limbo.take();
        assert!(limbo.died(1), "it was there before");
        limbo.born(2);
        assert!(!limbo.died(2), "it was never shown");
        assert_eq!(reclaimed(&mut limbo), []);
        drop(lease);
        assert_eq!(reclaimed(&mut limbo), [1]);
        assert!(!limbo.is_active());
    }

    #[test]
    fn a_place_goes_from_snapshot_to_snapshot() {
        let mut limbo = Limbo::default();
        let first = limbo.take();
        limbo.born(5);
        let second = limbo.take();
        let third = limbo.take();
        assert!(limbo.died(4) && limbo.died(5));
        let fourth = limbo.take();
        drop(third);
        assert_eq!(reclaimed(&mut limbo), [], "the second shows both");
        drop(second);
        assert_eq!(
            reclaimed(&mut limbo),
            [5],
            "the first shows only one, the fourth neither"
        );
        drop(first);
        assert_eq!(reclaimed(&mut limbo), [4]);
        drop(fourth);
        assert_eq!(reclaimed(&mut limbo), []);
    }

    #[test]
    fn a_place_that_is_used_again_is_born_again() {
        let mut limbo = Limbo::default();
        let first = limbo.take();
        limbo.born(9);
        assert!(!limbo.died(9));
        limbo.born(9);
        let second = limbo.take();
        assert!(limbo.died(9));
        drop(first);
        assert_eq!(reclaimed(&mut limbo), []);
        drop(second);
        assert_eq!(reclaimed(&mut limbo), [9]);
    }
}
