//! Probes of threads of the page engine and of trees of slotted pages: they say what a thread is
//! doing, so that a sampler can measure where time goes.
//!
//! A thread with a [`Probe`] notes there its current [`Activity`], how long each insertion into the
//! log took, and how long it has waited for the log; another thread samples the activity by a
//! timer. Activities begin at an operation of the engine, a call of the lock manager, a
//! record that is appended or made durable, a lock or a sync of the log that another thread holds.
//! They nest, and at the end of one the outer one continues.
//!
//! A thread without a probe pays one read of a thread-local word at each of them. Probes never
//! wait.

use crate::sync::{Mutex, MutexGuard, lock};
use pmem::device::emulated::Clock;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Activity of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Activity {
    /// Nothing of the engine: the program around it.
    Other,
    /// Rows, trees and pages.
    Database,
    /// The lock manager, with waiting for locks.
    Locks,
    /// Encoding, inserting and making durable of log records.
    Log,
    /// Waiting for the log: for its lock, or for a sync that another thread does.
    LogWait,
    /// The way to a key, in trees of slotted pages; as all that follow.
    Search,
    /// Pages that come into use and go out of it.
    Allocation,
    /// The end of a group: what is compared, encoded and stored for it.
    Commit,
    /// Lines that are written back, and waiting for them.
    Flush,
}

impl Activity {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Other,
        Self::Database,
        Self::Locks,
        Self::Log,
        Self::LogWait,
        Self::Search,
        Self::Allocation,
        Self::Commit,
        Self::Flush,
    ];
}

/// Buckets of an octave: a time is known to a sixteenth.
const STEPS_BITS: u32 = 4;
/// Times up to 2^40 ns, which is a quarter of an hour.
const BUCKETS: usize = (40 - STEPS_BITS as usize + 1) << STEPS_BITS;

/// Measurements of one thread.
pub struct Probe {
    at_work: AtomicU8,
    /// Insertions into the log by how long they took.
    inserts: Box<[AtomicU64]>,
    insert_ns_max: AtomicU64,
    wait_ns: AtomicU64,
    clock: Clock,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            at_work: AtomicU8::new(Activity::Other as u8),
            inserts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            insert_ns_max: AtomicU64::new(0),
            wait_ns: AtomicU64::new(0),
            clock: Clock::real(),
        }
    }
}

impl Probe {
    /// Lets the calling thread carry it, until it ends or carries another.
    pub fn carry(self: &Arc<Self>) {
        OWN.with(|own| own.replace(Some(Arc::clone(self))));
        IS_CARRIED.set(true);
    }

    /// The current activity of the thread.
    pub fn at_work(&self) -> Activity {
        let number = self.at_work.load(Ordering::Relaxed);
        let known = Activity::ALL.get(usize::from(number));
        known.copied().unwrap_or(Activity::Other)
    }

    /// How long it has waited for the log, in ns.
    pub fn wait_ns(&self) -> u64 {
        self.wait_ns.load(Ordering::Relaxed)
    }

    /// Adds its insertions to those of other threads.
    pub fn add_inserts(&self, inserts: &mut Inserts) {
        inserts.counts.resize(BUCKETS, 0);
        for (sum, own) in inserts.counts.iter_mut().zip(&self.inserts) {
            *sum += own.load(Ordering::Relaxed);
        }
        let longest_ns = self.insert_ns_max.load(Ordering::Relaxed);
        inserts.longest_ns = inserts.longest_ns.max(longest_ns);
    }

    fn inserted(&self, took_ns: u64) {
        if let Some(count) = self.inserts.get(bucket(took_ns)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.insert_ns_max.fetch_max(took_ns, Ordering::Relaxed);
    }
}

/// Insertions of several threads.
#[derive(Clone, Debug, Default)]
pub struct Inserts {
    counts: Vec<u64>,
    longest_ns: u64,
}

impl Inserts {
    /// Number of insertions.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The time that a share of them, from 0 to 1, did not exceed, in ns and to a sixteenth.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        let rank = (share * self.count() as f64).max(1.0);
        let mut seen = 0_u64;
        let within = self.counts.iter().position(|count| {
            seen += count;
            seen as f64 >= rank
        });
        within.map_or(0, bound_ns).min(self.longest_ns)
    }

    /// Their mean, in ns, to the same exactness.
    pub fn mean_ns(&self) -> f64 {
        let numbered = self.counts.iter().enumerate();
        let sum: f64 = numbered
            .map(|(number, count)| *count as f64 * bound_ns(number) as f64)
            .sum();
        sum / self.count().max(1) as f64
    }

    /// The longest, in ns.
    pub fn longest_ns(&self) -> u64 {
        self.longest_ns
    }
}

/// The bucket of a time: small ones have their own, each octave above has as many.
fn bucket(ns: u64) -> usize {
    let octave = (ns >> STEPS_BITS).checked_ilog2().map_or(0, |log| log + 1);
    let number = if octave == 0 {
        ns
    } else {
        (u64::from(octave) << STEPS_BITS) + (ns >> (octave - 1)) - (1 << STEPS_BITS)
    };
    (number as usize).min(BUCKETS - 1)
}

/// The longest time of a bucket.
fn bound_ns(number: usize) -> u64 {
    let number = number as u64;
    match number >> STEPS_BITS {
        0 => number,
        octave => {
            let step = number & ((1 << STEPS_BITS) - 1);
            ((step + (1 << STEPS_BITS) + 1) << (octave - 1)) - 1
        }
    }
}

thread_local! {
    /// Separate from the probe, so that threads without one read a plain word.
    static IS_CARRIED: Cell<bool> = const { Cell::new(false) };
    static OWN: RefCell<Option<Arc<Probe>>> = const { RefCell::new(None) };
}

/// A running activity: it lasts as long as this lives.
#[must_use]
pub struct ActivitySpan(Option<Noted>);

struct Noted {
    probe: Arc<Probe>,
    activity: Activity,
    before: u8,
    /// If the time counts.
    since_ns: Option<u64>,
    is_insert: bool,
}

/// Begins an activity.
#[inline]
pub fn begin(activity: Activity) -> ActivitySpan {
    if IS_CARRIED.get() {
        ActivitySpan(note(activity, false))
    } else {
        ActivitySpan(None)
    }
}

/// Begins an insertion into the log.
#[inline]
pub fn begin_insert() -> ActivitySpan {
    if IS_CARRIED.get() {
        ActivitySpan(note(Activity::Log, true))
    } else {
        ActivitySpan(None)
    }
}

/// Takes a lock of the log; waiting for it counts.
#[inline]
pub fn lock_log<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    if !IS_CARRIED.get() {
        return lock(mutex);
    }
    if let Ok(guard) = mutex.try_lock() {
        return guard;
    }
    let _waiting = begin(Activity::LogWait);
    lock(mutex)
}

#[cold]
fn note(activity: Activity, is_insert: bool) -> Option<Noted> {
    let probe = OWN.with(|own| own.borrow().clone())?;
    let is_timed = is_insert || activity == Activity::LogWait;
    Some(Noted {
        before: probe.at_work.swap(activity as u8, Ordering::Relaxed),
        since_ns: is_timed.then(|| probe.clock.now_ns_unordered()),
        probe,
        activity,
        is_insert,
    })
}

impl Drop for ActivitySpan {
    #[inline]
    fn drop(&mut self) {
        if let Some(noted) = self.0.take() {
            noted.end();
        }
    }
}

impl Noted {
    #[cold]
    fn end(self) {
        let probe = &self.probe;
        if let Some(since_ns) = self.since_ns {
            let took_ns = probe.clock.now_ns_unordered().saturating_sub(since_ns);
            if self.is_insert {
                probe.inserted(took_ns);
            }
            // A wait inside of a wait is counted once.
            if self.activity == Activity::LogWait && self.before != Activity::LogWait as u8 {
                probe.wait_ns.fetch_add(took_ns, Ordering::Relaxed);
            }
        }
        probe.at_work.store(self.before, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_lies_in_its_bucket() {
        for ns in (0..2000).chain((11..40).flat_map(|log| [(1 << log) - 1, 1 << log])) {
            let number = bucket(ns);
            assert!(bound_ns(number) >= ns, "{ns}");
            assert!(number == 0 || bound_ns(number - 1) < ns, "{ns}");
            assert!(bound_ns(number) <= ns + ns / 16, "{ns}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn activities_nest_and_only_threads_with_a_probe_have_them() {
        assert!(begin(Activity::Log).0.is_none());
        let probe = Arc::new(Probe::default());
        let seen = Arc::clone(&probe);
        let work = move || {
            probe.carry();
            let database = begin(Activity::Database);
            let insert = begin_insert();
            assert_eq!(probe.at_work(), Activity::Log);
            drop(insert);
            assert_eq!(probe.at_work(), Activity::Database);
            drop(database);
            let outer = begin(Activity::LogWait);
            drop(begin(Activity::LogWait));
            assert_eq!(probe.wait_ns(), 0);
            drop(outer);
        };
        std::thread::spawn(work)
            .join()
            .expect("the thread does not panic");
        assert_eq!(seen.at_work(), Activity::Other);
        let mut inserts = Inserts::default();
        seen.add_inserts(&mut inserts);
        assert_eq!(inserts.count(), 1);
        assert!(inserts.quantile_ns(0.5) <= inserts.longest_ns());
    }

    #[test]
    fn quantiles_are_those_of_all_threads() {
        let mut inserts = Inserts::default();
        for times in [&[100, 100, 100][..], &[1000]] {
            let probe = Probe::default();
            for ns in times {
                probe.inserted(*ns);
            }
            probe.add_inserts(&mut inserts);
        }
        assert!((100..=106).contains(&inserts.quantile_ns(0.5)));
        assert_eq!(inserts.quantile_ns(1.0), 1000);
        assert_eq!(inserts.longest_ns(), 1000);
    }
}
