//! Ranges of keys of one tree, locked for reading against phantoms.
//!
//! A range and an exclusive key inside of it exclude each other, and neither is found by the
//! other's name. So both register first and look at the other side afterwards: a writer's key is in
//! its shard before it reads the number of ranges; a range is counted before it goes through the
//! shards. One of them at least sees the other. If both do, the order of the bucket's mutex
//! decides, once and for all:
//!
//! 1. A range waits for the exclusive keys that it found when it was registered (`blockers`), and
//!    for later ones of the same sessions until they are gone.
//! 2. A writer waits for each range around its key that did not find the key, granted or not. Only
//!    a range that waits for this writer already takes the key among its blockers: to wait for it
//!    would be a deadlock, and a writer of several keys would be the victim each time, as long as
//!    ranges keep coming.
//! 3. So of a range and a key exactly one waits, and waiting ranges do not starve.
//!
//! Trees share a bucket by the hash of their root; a tree without ranges costs a writer the load of
//! its bucket's number.

use super::head::{SessionId, Woken};
use super::parker::Parker;
use super::shard::{ExclusiveKey, Shard};
use crate::record::KeyBuf;
use crate::sync::{AtomicU32, Mutex, Ordering, lock};
use crate::vocabulary::PageId;
use std::sync::Arc;

/// Keys of a tree, both ends included.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    pub(super) low: KeyBuf,
    pub(super) high: KeyBuf,
}

impl Interval {
    pub(super) fn new(low: &[u64], high: &[u64]) -> Self {
        Self {
            low: KeyBuf::from_words(low),
            high: KeyBuf::from_words(high),
        }
    }

    #[inline]
    pub(super) fn contains(&self, key: &[u64]) -> bool {
        *self.low <= *key && *key <= *self.high
    }

    /// Whether nothing lies between the two.
    pub(super) fn touches(&self, other: &Self) -> bool {
        *self.low <= *other.high && *other.low <= *self.high
            || is_successor(&self.high, &other.low)
            || is_successor(&other.high, &self.low)
    }

    /// Grows to hold the other one too.
    pub(super) fn include(&mut self, other: &Self) {
        if *other.low < *self.low {
            self.low.assign(&other.low);
        }
        if *other.high > *self.high {
            self.high.assign(&other.high);
        }
    }
}

/// Whether `next` comes right after `key` among keys of as many words.
fn is_successor(key: &[u64], next: &[u64]) -> bool {
    let mut carry = true;
    key.len() == next.len()
        && key.iter().zip(next).rev().all(|(word, next)| {
            let (sum, overflow) = word.overflowing_add(u64::from(carry));
            carry = overflow;
            sum == *next
        })
        && !carry
}

struct Range {
    number: u64,
    tree: PageId,
    session: SessionId,
    interval: Interval,
    /// It is granted when there are none.
    blockers: Vec<ExclusiveKey>,
    parker: Arc<Parker>,
}

/// A range that a writer waits for, and its session.
#[derive(Clone, Copy)]
struct Blocker {
    range: u64,
    session: SessionId,
}

/// A session that has locked a key and waits for ranges around it.
struct Writer {
    session: SessionId,
    blockers: Vec<Blocker>,
    parker: Arc<Parker>,
}

#[derive(Default)]
struct Ranges {
    all: Vec<Range>,
    writers: Vec<Writer>,
    next: u64,
}

/// The ranges of some trees.
#[repr(align(128))]
pub(super) struct Bucket {
    count: AtomicU32,
    ranges: Mutex<Ranges>,
}

impl Bucket {
    pub(super) fn new() -> Self {
        Self {
            count: AtomicU32::new(0),
            ranges: Mutex::new(Ranges::default()),
        }
    }

    /// Whether a writer may pass without looking closer. After its key is in the shard.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// Registers a range; returns its number, and whether it is granted. The session already holds
    /// the keys in the `own` intervals.
    pub(super) fn register(
        &self,
        shards: &[Shard],
        session: SessionId,
        (tree, interval): (PageId, &Interval),
        own: &[&Interval],
        parker: &Arc<Parker>,
    ) -> (u64, bool) {
        let mut ranges = lock(&self.ranges);
        self.count.fetch_add(1, Ordering::SeqCst);
        let is_new =
            |key: &[u64]| interval.contains(key) && !own.iter().any(|known| known.contains(key));
        let mut blockers = Vec::new();
        for shard in shards {
            shard.exclusive_keys(tree, session, is_new, &mut blockers);
        }
        let number = ranges.next;
        ranges.next += 1;
        let is_granted = blockers.is_empty();
        ranges.all.push(Range {
            number,
            tree,
            session,
            interval: interval.clone(),
            blockers,
            parker: Arc::clone(parker),
        });
        (number, is_granted)
    }

    /// Lets a granted range replace others of its session, which it contains.
    pub(super) fn absorb(&self, number: u64, absorbed: &[u64]) {
        let mut ranges = lock(&self.ranges);
        for writer in &mut ranges.writers {
            let is_absorbed = |blocker: &Blocker| absorbed.contains(&blocker.range);
            let Some(first) = writer.blockers.iter().copied().find(is_absorbed) else {
                continue;
            };
            writer.blockers.retain(|blocker| !is_absorbed(blocker));
            if !writer
                .blockers
                .iter()
                .any(|blocker| blocker.range == number)
            {
                writer.blockers.push(Blocker {
                    range: number,
                    ..first
                });
            }
        }
        ranges.all.retain(|range| !absorbed.contains(&range.number));
        self.store_count(&ranges);
    }

    /// Takes a range away.
    pub(super) fn release(&self, number: u64, woken: &mut Woken) {
        self.remove(&mut lock(&self.ranges), number, woken);
    }

    /// Takes a range away that is not granted; false if it is.
    pub(super) fn withdraw(&self, number: u64, woken: &mut Woken) -> bool {
        let mut ranges = lock(&self.ranges);
        let waits = ranges
            .all
            .iter()
            .any(|range| range.number == number && !range.blockers.is_empty());
        if waits {
            self.remove(&mut ranges, number, woken);
        }
        waits
    }

    /// Queues a writer after the ranges that contain its key and do not wait for it; true if there
    /// are none.
    pub(super) fn admit_writer(
        &self,
        tree: PageId,
        key: &[u64],
        lock_of_key: ExclusiveKey,
        parker: &Arc<Parker>,
    ) -> bool {
        let mut ranges = lock(&self.ranges);
        let session = lock_of_key.session;
        let mut blockers = Vec::new();
        for range in &mut ranges.all {
            let excludes = range.tree == tree
                && range.session != session
                && range.interval.contains(key)
                && !range.blockers.contains(&lock_of_key);
            if !excludes {
                continue;
            }
            if range.blockers.iter().any(|known| known.session == session) {
                range.blockers.push(lock_of_key);
            } else {
                blockers.push(Blocker {
                    range: range.number,
                    session: range.session,
                });
            }
        }
        if blockers.is_empty() {
            return true;
        }
        ranges.writers.push(Writer {
            session,
            blockers,
            parker: Arc::clone(parker),
        });
        false
    }

    /// Takes a writer out of the queue; false if it is through.
    pub(super) fn withdraw_writer(&self, session: SessionId) -> bool {
        let mut ranges = lock(&self.ranges);
        let before = ranges.writers.len();
        ranges.writers.retain(|writer| writer.session != session);
        ranges.writers.len() < before
    }

    /// A key is no longer locked exclusively: ranges that found it go on without it.
    pub(super) fn forget(&self, key: ExclusiveKey, woken: &mut Woken) {
        let mut ranges = lock(&self.ranges);
        for range in &mut ranges.all {
            let Some(at) = range.blockers.iter().position(|blocker| *blocker == key) else {
                continue;
            };
            range.blockers.swap_remove(at);
            if range.blockers.is_empty() {
                woken.granted.push(Arc::clone(&range.parker));
            }
        }
    }

    /// Sessions that a session with a waiting range waits for.
    pub(super) fn range_blockers(&self, number: u64, found: &mut Vec<SessionId>) {
        let ranges = lock(&self.ranges);
        let range = ranges.all.iter().find(|range| range.number == number);
        let blockers = range.into_iter().flat_map(|range| &range.blockers);
        found.extend(blockers.map(|key| key.session));
    }

    /// Sessions that a waiting writer waits for.
    pub(super) fn writer_blockers(&self, session: SessionId, found: &mut Vec<SessionId>) {
        let ranges = lock(&self.ranges);
        let mut writers = ranges.writers.iter();
        let writer = writers.find(|writer| writer.session == session);
        let blockers = writer.into_iter().flat_map(|writer| &writer.blockers);
        found.extend(blockers.map(|blocker| blocker.session));
    }

    fn remove(&self, ranges: &mut Ranges, number: u64, woken: &mut Woken) {
        if let Some(at) = ranges.all.iter().position(|range| range.number == number) {
            ranges.all.swap_remove(at);
        }
        self.store_count(ranges);
        ranges.writers.retain_mut(|writer| {
            writer.blockers.retain(|blocker| blocker.range != number);
            let is_through = writer.blockers.is_empty();
            if is_through {
                woken.granted.push(Arc::clone(&writer.parker));
            }
            !is_through
        });
    }

    fn store_count(&self, ranges: &Ranges) {
        self.count.store(ranges.all.len() as u32, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::{Interval, is_successor};

    #[test]
    fn a_successor_carries() {
        assert!(is_successor(&[1], &[2]));
        assert!(!is_successor(&[1], &[3]));
        assert!(!is_successor(&[1], &[1]));
        assert!(is_successor(&[1, u64::MAX], &[2, 0]));
        assert!(!is_successor(&[u64::MAX], &[0]));
        assert!(!is_successor(&[1], &[1, 0]));
    }

    #[test]
    fn intervals_touch_and_grow() {
        let mut one = Interval::new(&[10], &[20]);
        assert!(one.touches(&Interval::new(&[20], &[30])));
        assert!(one.touches(&Interval::new(&[21], &[30])));
        assert!(one.touches(&Interval::new(&[1], &[9])));
        assert!(!one.touches(&Interval::new(&[22], &[30])));
        assert!(one.touches(&Interval::new(&[0], &[99])));
        one.include(&Interval::new(&[15], &[30]));
        assert!(one.contains(&[30]) && one.contains(&[10]) && !one.contains(&[9]));
    }
}
