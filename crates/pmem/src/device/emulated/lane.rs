//! The part of an emulator that belongs to one thread: its *lane*.
//!
//! A processor keeps flushed lines, prefetches and the open line of streaming stores for each core,
//! and a fence waits for its own core alone. So an emulator has a lane for each thread that uses
//! it: a write queue, a list of prefetches, an open line, and counts. A lane is made at the
//! thread's first access; at the thread's end its counts are added to those of the emulator.
//!
//! Lock order: the thread's table, its lane, then the list of lanes or a shard of the cache. A lane
//! is locked by others only to read its counts.

use super::super::Counters;
use super::cache::{LineName, lock};
use super::emulator::Shared;
use super::model_time::ModelTime;
use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, Weak};

/// Counts and times of one thread, or of all threads that have ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// Counts of each region.
    pub(super) tallies: Vec<Counters>,
    pub(super) latency_ps: u64,
    pub(super) bandwidth_ps: u64,
    pub(super) fence_ps: u64,
    pub(super) model_time: ModelTime,
}

impl Account {
    /// Counts of a region.
    pub(super) fn tally(&mut self, region: u32) -> &mut Counters {
        let index = region as usize;
        if index >= self.tallies.len() {
            self.tallies.resize(index + 1, Counters::default());
        }
        &mut self.tallies[index]
    }

    /// Adds another account.
    pub(super) fn add(&mut self, more: &Self) {
        for (region, tally) in (0..).zip(&more.tallies) {
            *self.tally(region) += tally;
        }
        self.latency_ps += more.latency_ps;
        self.bandwidth_ps += more.bandwidth_ps;
        self.fence_ps += more.fence_ps;
        self.model_time += &more.model_time;
    }
}

/// State of one thread in one emulator.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) account: Account,
    /// Prefetched ranges whose latency the thread has not waited for.
    pub(super) overlapped: Vec<RangeInclusive<LineName>>,
    /// The line that the last streaming store left incomplete: its next words join it on their way.
    pub(super) open_line: Option<LineName>,
    /// The thread has flushed or streamed something since its last fence.
    pub(super) unfenced: bool,
    /// End of the thread's queued writes.
    pub(super) writes_done_ps: u64,
    /// The blocks of the medium that the thread read and wrote last, where blocks are larger than
    /// lines.
    pub(super) block_read: Option<LineName>,
    pub(super) block_written: Option<LineName>,
}

/// All lanes of an emulator.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    live: Vec<Arc<Mutex<Lane>>>,
    /// The sum of the threads that have ended.
    ended: Account,
}

impl Lanes {
    /// The sum over all threads.
    pub(super) fn sum(&self) -> Account {
        let mut sum = self.ended.clone();
        for lane in &self.live {
            sum.add(&lock(lane).account);
        }
        sum
    }
}

/// A thread's lane in one emulator.
struct Entry {
    emulator: Weak<Shared>,
    lane: Arc<Mutex<Lane>>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Some(shared) = self.emulator.upgrade() else {
            return;
        };
        let mut lanes = lock(&shared.lanes);
        lanes.live.retain(|lane| !Arc::ptr_eq(lane, &self.lane));
        lanes.ended.add(&lock(&self.lane).account);
    }
}

thread_local! {
    /// The thread's lanes; the one that was used last is the first.
    static LANES: RefCell<Vec<Entry>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work` with the lane of this thread. None if the thread is ending and has no lanes left.
pub(super) fn with_lane<R>(shared: &Arc<Shared>, work: impl FnOnce(&mut Lane) -> R) -> Option<R> {
    LANES
        .try_with(|entries| {
            let mut entries = entries.borrow_mut();
            let is_own = |entry: &Entry| Weak::as_ptr(&entry.emulator) == Arc::as_ptr(shared);
            match entries.iter().position(is_own) {
                Some(at) => entries.swap(0, at),
                None => add(&mut entries, shared),
            }
            work(&mut lock(&entries[0].lane))
        })
        .ok()
}

/// Makes the lane of this thread, the first of its entries.
#[cold]
fn add(entries: &mut Vec<Entry>, shared: &Arc<Shared>) {
    entries.retain(|entry| entry.emulator.strong_count() > 0);
    let lane = Arc::default();
    lock(&shared.lanes).live.push(Arc::clone(&lane));
    let emulator = Arc::downgrade(shared);
    entries.insert(0, Entry { emulator, lane });
}
