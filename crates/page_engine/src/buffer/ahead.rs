//! The daemon of a log: schedule and counters of the thread that makes records durable ahead of
//! their commits.
//!
//! The daemon is a thread that makes filled records of rings durable while their transactions go
//! on, so that a commit waits only for the rest. It is an optimisation: without it, or after it has
//! met an error, commits do all the work, and they report the error.
//!
//! Records arrive every few microseconds, much faster than a thread is woken. So the daemon looks
//! again and again while there are any, for a while longer, and then sleeps. While it sleeps,
//! appends wake it with every sixteenth record only: a signal costs more than the records of a
//! short transaction.
//!
//! It ends where it does not pay. It needs a core that no session uses: otherwise it takes time
//! from the sessions, and a commit waits for a step whose thread is not running. So it ends as soon
//! as there are as many sessions as cores. It also ends where a step is shorter than a microsecond,
//! because flushes cost little or nothing there, and handing the step over costs a session more. As
//! NV-Logging was published ([`CommitOrder::AsPublished`]) it never ends itself.

use super::cleaner::{Cleaner, Present};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use storage::engine::{CommitOrder, Persisted};

/// Records that wake a daemon.
const RECORDS: u32 = 16;
/// Times that it looks in vain before it sleeps, about a microsecond apart.
const LOOKS: u32 = 300;
const PAUSES: u32 = 16;
/// Steps after which it knows whether they are worth it, and how long they take then on average, at
/// least.
const STEPS: u32 = 512;
const STEP_MIN: Duration = Duration::from_micros(1);

/// State that the sessions of a log share with its daemon.
pub(super) struct Ahead {
    cleaner: Cleaner,
    is_asleep: AtomicBool,
    /// Whether sessions want all cores.
    is_crowded: AtomicBool,
    /// Whether it ends where it does not pay.
    gives_up: bool,
    /// Records since it fell asleep.
    records: AtomicU32,
    by_daemon: AtomicU64,
    by_sessions: AtomicU64,
}

impl Ahead {
    pub(super) fn new(order: CommitOrder) -> Self {
        Self {
            gives_up: order == CommitOrder::Whole,
            cleaner: Cleaner::new(),
            is_asleep: AtomicBool::new(false),
            is_crowded: AtomicBool::new(false),
            records: AtomicU32::new(0),
            by_daemon: AtomicU64::new(0),
            by_sessions: AtomicU64::new(0),
        }
    }

    /// Notes how many sessions there are by now, of which none ever goes.
    pub(super) fn note_sessions(&self, sessions: usize) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if self.gives_up && sessions >= cores {
            self.is_crowded.store(true, Ordering::Relaxed);
        }
    }

    /// Notes a new record.
    #[inline]
    pub(super) fn appended(&self) {
        if self.is_asleep.load(Ordering::Relaxed)
            && self.records.fetch_add(1, Ordering::Relaxed) + 1 == RECORDS
        {
            self.cleaner.wake();
        }
    }

    /// Notes records that the daemon has made durable.
    pub(super) fn add_ahead(&self, records: u64) {
        self.by_daemon.fetch_add(records, Ordering::Relaxed);
    }

    /// Notes records that a session has made durable.
    pub(super) fn add_by_session(&self, records: u64) {
        if records > 0 {
            self.by_sessions.fetch_add(records, Ordering::Relaxed);
        }
    }

    pub(super) fn persisted(&self) -> Persisted {
        Persisted {
            ahead: self.by_daemon.load(Ordering::Relaxed),
            by_sessions: self.by_sessions.load(Ordering::Relaxed),
        }
    }

    /// Runs the daemon until [`Ahead::end`]: calls `look`, which says whether there was something
    /// to do; none after an error.
    pub(super) fn run(&self, look: impl Fn() -> Option<bool>) {
        let present = self.cleaner.begin();
        let (mut in_vain, mut steps, mut time) = (0, 0, Duration::ZERO);
        while !self.is_crowded.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let Some(was_useful) = look() else {
                return;
            };
            if was_useful {
                in_vain = 0;
                steps += 1;
                time += begun.elapsed();
                if steps == STEPS && self.gives_up {
                    if time < STEPS * STEP_MIN {
                        return;
                    }
                    (steps, time) = (0, Duration::ZERO);
                }
                continue;
            }
            in_vain += 1;
            if in_vain < LOOKS {
                pause();
            } else if self.sleep(&present) {
                in_vain = 0;
            } else {
                return;
            }
        }
    }

    fn sleep(&self, present: &Present<'_>) -> bool {
        self.records.store(0, Ordering::Relaxed);
        self.is_asleep.store(true, Ordering::Relaxed);
        let goes_on = present.next();
        self.is_asleep.store(false, Ordering::Relaxed);
        goes_on
    }

    /// Lets the daemon end when it has nothing to do.
    pub(super) fn end(&self) {
        self.cleaner.end();
    }
}

/// Waits without giving the processor away: on one that others want, it would come back some
/// milliseconds later, when commits have done all.
fn pause() {
    for _ in 0..PAUSES {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn it_sleeps_when_there_is_nothing_and_wakes_with_records() {
        let ahead = Ahead::new(CommitOrder::Whole);
        let (send, looks) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                ahead.run(|| {
                    let _ = send.send(());
                    Some(false)
                });
            });
            while !ahead.is_asleep.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            while looks.try_recv().is_ok() {}
            for _ in 1..RECORDS {
                ahead.appended();
            }
            let early = looks.recv_timeout(Duration::from_millis(20));
            ahead.appended();
            let woken = looks.recv_timeout(Duration::from_mins(30));
            ahead.end();
            assert!(early.is_err(), "woken by too few records");
            assert!(woken.is_ok(), "not woken");
        });
    }

    #[test]
    fn it_ends_where_it_is_of_no_use() {
        let ahead = Ahead::new(CommitOrder::Whole);
        let steps = AtomicU32::new(0);
        ahead.run(|| {
            steps.fetch_add(1, Ordering::Relaxed);
            Some(true)
        });
        // Without a thread that is taken off its core for long in the middle of them.
        assert!(steps.load(Ordering::Relaxed).is_multiple_of(STEPS));
        assert!(!ahead.cleaner.is_present());
        let crowded = Ahead::new(CommitOrder::Whole);
        crowded.note_sessions(usize::MAX);
        crowded.run(|| Some(true));
        // As published, none of this ends it; and where steps take their time, it goes on.
        let published = Ahead::new(CommitOrder::AsPublished);
        published.note_sessions(usize::MAX);
        let steps = AtomicU32::new(0);
        published.run(|| (steps.fetch_add(1, Ordering::Relaxed) < 3 * STEPS).then_some(true));
        assert_eq!(steps.load(Ordering::Relaxed), 3 * STEPS + 1);
        let looks = AtomicU32::new(0);
        Ahead::new(CommitOrder::Whole).run(|| {
            let end = Instant::now() + 2 * STEP_MIN;
            while Instant::now() < end {}
            (looks.fetch_add(1, Ordering::Relaxed) < 3 * STEPS).then_some(true)
        });
        assert_eq!(looks.load(Ordering::Relaxed), 3 * STEPS + 1);
    }
}
