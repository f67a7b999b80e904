//! The measurement: each thread runs its list, and each transaction is clocked from its start to
//! its durable acknowledgement.
//!
//! The clock is read once a transaction: the end of one is the start of the next. It is the
//! time-stamp counter, read without a barrier, so that clocking does not keep the processor from
//! working ahead. A transaction whose group is not durable yet waits in a queue with its start
//! time, and is counted when its ticket is durable. Nothing is allocated between the first
//! transaction and the last. Here each thread owns a partition, or a session of one that several
//! share; `shared` has the threads that take partitions from each other. A transaction that was
//! undone because of others is run again and counted once, and its latency is that of all attempts.

use anyhow::{Context, Result, anyhow};
use hdrhistogram::Histogram;
use indelible::{Database, Durability, Error, Pending, Worker};
use pmem::device::emulated::Clock;
use rustix::time::{ClockId, clock_gettime};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};
use workload::Script;

/// Transactions between two looks at the stop flag.
pub(crate) const BURST: u64 = 64;
/// A burst of slow transactions ends sooner.
const BURST_NS_MAX: u64 = 1_000_000;
/// Latencies above this count as this.
const LATENCY_NS_MAX: u64 = 100_000_000_000;
/// Digits of a latency that are kept: errors below one percent.
const LATENCY_DIGITS: u8 = 2;

/// When a run ends.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// When so much time is over.
    Time(Duration),
    /// Transactions of each thread.
    Transactions(u64),
}

/// A measurement.
pub struct Measured {
    /// Position that each thread has reached in its list.
    pub positions: Vec<u64>,
    /// Transactions run, rollbacks included.
    pub txns: u64,
    /// From the start of the first thread to the end of the last.
    pub seconds: f64,
    /// Processor time of the whole process.
    pub cpu_seconds: f64,
    /// The threads' counts.
    pub tally: Tally,
}

impl Measured {
    /// Latencies of all transactions.
    pub fn latencies_ns(&self) -> Histogram<u64> {
        let mut all = histogram();
        for of_kind in &self.tally.latencies_ns {
            all += of_kind;
        }
        all
    }
}

/// Counts of threads.
pub struct Tally {
    /// By kind of transaction.
    pub latencies_ns: Vec<Histogram<u64>>,
    /// Transactions that were rolled back because the workload wants it, by kind.
    pub rollbacks: Vec<u64>,
    /// Transactions that took several partitions.
    pub distributed: u64,
    /// Attempts that were undone because of others and run again.
    pub conflicts: u64,
    /// Those of connections among them, by reason.
    pub aborts: Aborts,
}

/// Attempts of connections that were undone because of others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Aborts {
    /// Victims of a deadlock.
    pub deadlocks: u64,
    /// Waits for a lock that took too long.
    pub timeouts: u64,
    /// Rows that were read, or were to be changed, had changed since the snapshot.
    pub serialization: u64,
}

impl Aborts {
    /// Adds the counts of another thread or run.
    pub fn add(&mut self, other: Self) {
        self.deadlocks += other.deadlocks;
        self.timeouts += other.timeouts;
        self.serialization += other.serialization;
    }
}

impl Tally {
    /// An empty tally for this many kinds.
    pub(crate) fn new(kinds: usize) -> Self {
        Self {
            latencies_ns: (0..kinds).map(|_| histogram()).collect(),
            rollbacks: vec![0; kinds],
            distributed: 0,
            conflicts: 0,
            aborts: Aborts::default(),
        }
    }

    #[inline]
    pub(crate) fn record(&mut self, kind: usize, latency_ns: u64) {
        self.latencies_ns[kind].saturating_record(latency_ns);
    }

    fn add(&mut self, other: &Self) -> Result<()> {
        for (sum, part) in self.latencies_ns.iter_mut().zip(&other.latencies_ns) {
            sum.add(part).context("histograms have the same bounds")?;
        }
        for (sum, part) in self.rollbacks.iter_mut().zip(&other.rollbacks) {
            *sum += part;
        }
        self.distributed += other.distributed;
        self.conflicts += other.conflicts;
        self.aborts.add(other.aborts);
        Ok(())
    }
}

/// A histogram of latencies in nanoseconds.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, LATENCY_DIGITS).expect("the bounds are constants")
}

/// When a transaction is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledge {
    /// When it is durable, together with at most this many.
    Durable(usize),
    /// When it has committed.
    Early,
}

/// Runs the lists from `positions` on in parallel, each in a thread with a session of the list's
/// partition. `script` makes the transactions of a list from its position on.
pub(crate) fn measure<S: Script>(
    database: &Database,
    positions: &[u64],
    limit: Limit,
    acknowledge: Acknowledge,
    script: impl Fn(u32, u64) -> Result<S> + Sync,
) -> Result<Measured> {
    let (durability, group) = match acknowledge {
        Acknowledge::Durable(group) => (Durability::Group, group),
        Acknowledge::Early => (Durability::None, 1),
    };
    run_threads(S::KINDS, positions, limit, &|list, position, clockwork| {
        let script = script(list, position)?;
        let partition = list % database.partitions();
        let worker = database.worker(&[partition], durability)?;
        Executor {
            worker,
            script,
            waiting: VecDeque::with_capacity(group + 1),
            group,
            tally: Tally::new(S::KINDS),
            clock: Clock::real(),
        }
        .run(limit, clockwork)
    })
}

/// The signals that start and stop the threads of a run together, and the time of the start.
pub(crate) struct Clockwork {
    gate: Mutex<Gate>,
    changed: Condvar,
    /// Time and processor time at which the first thread set out.
    start: OnceLock<(Instant, f64)>,
    stop: AtomicBool,
}

/// The start of a run.
struct Gate {
    /// Threads that are not ready.
    missing: usize,
    /// A thread has failed, so the others need not wait for it, nor run.
    is_broken: bool,
}

impl Clockwork {
    fn new(threads: usize) -> Self {
        Self {
            gate: Mutex::new(Gate {
                missing: threads,
                is_broken: false,
            }),
            changed: Condvar::new(),
            start: OnceLock::new(),
            stop: AtomicBool::new(false),
        }
    }

    /// Waits until all threads are ready, or one has failed. Whichever goes on first reads the
    /// clock, and the others wait for that: on a busy machine they may be done before the one that
    /// watches them runs.
    pub(crate) fn wait_for_start(&self) -> (Instant, f64) {
        let mut gate = self.gate();
        gate.missing -= 1;
        if gate.missing == 0 {
            self.changed.notify_all();
        }
        let is_shut = |gate: &mut Gate| gate.missing > 0 && !gate.is_broken;
        drop(self.changed.wait_while(gate, is_shut));
        *self.start.get_or_init(|| (Instant::now(), cpu_seconds()))
    }

    /// Whether time is up.
    pub(crate) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Lets time pass, unless a thread fails, and stops the threads.
    fn stop_after(&self, duration: Duration) {
        let gate = self.gate();
        let is_whole = |gate: &mut Gate| !gate.is_broken;
        drop(self.changed.wait_timeout_while(gate, duration, is_whole));
        self.stop.store(true, Ordering::Relaxed);
    }

    fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the run when it is dropped: its thread has failed.
struct Failing<'c>(&'c Clockwork);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
        self.0.gate().is_broken = true;
        self.0.changed.notify_all();
    }
}

/// Result of one thread.
pub(crate) struct Done {
    pub(crate) position: u64,
    pub(crate) tally: Tally,
}

/// Runs one thread a list, and takes the time from the start of the first to the end of the last.
pub(crate) fn run_threads(
    kinds: usize,
    positions: &[u64],
    limit: Limit,
    work: &(dyn Fn(u32, u64, &Clockwork) -> Result<Done> + Sync),
) -> Result<Measured> {
    let clockwork = Clockwork::new(positions.len() + 1);
    let (done, seconds, cpu_seconds) = std::thread::scope(|threads| {
        let clockwork = &clockwork;
        let run = move |list, position| {
            let failing = Failing(clockwork);
            let done = work(list, position, clockwork);
            if done.is_ok() {
                std::mem::forget(failing);
            }
            (done, Instant::now())
        };
        let mut workers = Vec::with_capacity(positions.len());
        for (list, position) in (0_u32..).zip(positions) {
            let worker = Builder::new().spawn_scoped(threads, move || run(list, *position));
            workers.push(worker.map_err(|error| {
                // Those that wait for the start go on, and end.
                drop(Failing(clockwork));
                let threads = positions.len();
                anyhow!("cannot start {threads} threads (\"{error}\"); measure with fewer")
            })?);
        }
        let (start, cpu_start) = clockwork.wait_for_start();
        if let Limit::Time(duration) = limit {
            clockwork.stop_after(duration.saturating_sub(start.elapsed()));
        }
        let joined: Vec<_> = workers
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect();
        let cpu = cpu_seconds() - cpu_start;
        let (mut done, mut end) = (Vec::new(), start);
        for outcome in joined {
            let (part, ended) = outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            done.push(part?);
            end = end.max(ended);
        }
        anyhow::Ok((done, (end - start).as_secs_f64(), cpu))
    })?;
    let mut tally = Tally::new(kinds);
    for part in &done {
        tally.add(&part.tally)?;
    }
    Ok(Measured {
        positions: done.iter().map(|part| part.position).collect(),
        txns: tally.latencies_ns.iter().map(Histogram::len).sum(),
        seconds,
        cpu_seconds,
        tally,
    })
}

/// Processor time that this process has used.
pub(crate) fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Runs the transactions of one list.
struct Executor<'run, S> {
    worker: Worker<'run>,
    script: S,
    /// Transactions that are committed and not yet durable, oldest first, with their kinds and the
    /// times of their starts.
    waiting: VecDeque<(Pending, usize, u64)>,
    group: usize,
    tally: Tally,
    clock: Clock,
}

impl<S: Script> Executor<'_, S> {
    fn run(mut self, limit: Limit, clockwork: &Clockwork) -> Result<Done> {
        let end = match limit {
            Limit::Time(_) => u64::MAX,
            Limit::Transactions(count) => self.script.position().saturating_add(count),
        };
        clockwork.wait_for_start();
        let mut start_ns = self.clock.now_ns_unordered();
        while self.script.position() < end && !clockwork.is_over() {
            let began_ns = start_ns;
            for _ in 0..BURST.min(end - self.script.position()) {
                let kind = self.script.kind();
                self.script.announce(&mut self.worker)?;
                let done = self.transaction();
                self.script.next();
                let pending = match done {
                    Ok(((), pending)) => pending,
                    Err(error) => {
                        self.rolled_back(kind, error)?;
                        None
                    }
                };
                if let Some(pending) = pending {
                    start_ns = self.enqueue(pending, kind, start_ns)?;
                } else {
                    let now_ns = self.clock.now_ns_unordered();
                    self.tally.record(kind, now_ns - start_ns);
                    start_ns = now_ns;
                }
                if start_ns - began_ns > BURST_NS_MAX {
                    break;
                }
            }
        }
        self.worker.force()?;
        self.acknowledge(self.clock.now_ns_unordered());
        Ok(Done {
            position: self.script.position(),
            tally: self.tally,
        })
    }

    /// Runs the next transaction, again after each conflict.
    #[inline]
    fn transaction(&mut self) -> indelible::Result<((), Option<Pending>)> {
        let mut retry = self.worker.retry();
        loop {
            let script = &mut self.script;
            match self
                .worker
                .transaction(|transaction| script.step(transaction))
            {
                Err(error) if error.should_retry() => {
                    self.tally.conflicts += 1;
                    retry.wait();
                }
                done => return done,
            }
        }
    }

    #[cold]
    fn rolled_back(&mut self, kind: usize, error: Error) -> Result<()> {
        if !S::is_rollback(&error) {
            return Err(error.into());
        }
        self.tally.rollbacks[kind] += 1;
        Ok(())
    }

    /// Lets a transaction wait for its group; returns the start of the next.
    fn enqueue(&mut self, pending: Pending, kind: usize, start_ns: u64) -> Result<u64> {
        self.waiting.push_back((pending, kind, start_ns));
        if self.waiting.len() >= self.group {
            self.worker.force()?;
        }
        let now_ns = self.clock.now_ns_unordered();
        self.acknowledge(now_ns);
        Ok(now_ns)
    }

    /// Counts the transactions that are durable by now.
    fn acknowledge(&mut self, now_ns: u64) {
        while let Some((pending, kind, start_ns)) = self.waiting.front() {
            if !self.worker.is_durable(*pending) {
                break;
            }
            self.tally.record(*kind, now_ns - start_ns);
            self.waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_takes_as_long_as_its_threads() {
        let nap = Duration::from_millis(30);
        let work = |_, position, clockwork: &Clockwork| {
            let (start, _) = clockwork.wait_for_start();
            let before = Instant::now();
            assert!(start <= before);
            std::thread::sleep(nap);
            let mut tally = Tally::new(1);
            tally.record(0, before.elapsed().as_nanos() as u64);
            Ok(Done { position, tally })
        };
        let measured = run_threads(1, &[0, 0], Limit::Transactions(1), &work).unwrap();
        // No latency is longer than the run, however late the watching thread wakes.
        let longest_s = measured.latencies_ns().min() as f64 / 1e9;
        assert!(measured.seconds >= nap.as_secs_f64() && measured.seconds >= longest_s * 0.99);
        assert_eq!(measured.txns, 2);
    }

    #[test]
    fn a_thread_that_fails_ends_the_run() {
        for fails_at_once in [true, false] {
            let work = |list: u32, position, clockwork: &Clockwork| {
                if list == 1 && fails_at_once {
                    anyhow::bail!("no script");
                }
                clockwork.wait_for_start();
                if list == 1 {
                    anyhow::bail!("no script");
                }
                while !clockwork.is_over() {
                    std::thread::yield_now();
                }
                Ok(Done {
                    position,
                    tally: Tally::new(1),
                })
            };
            let hour = Limit::Time(Duration::from_hours(1));
            let error = run_threads(1, &[0, 0, 0], hour, &work).err().unwrap();
            assert_eq!(error.to_string(), "no script");
        }
    }
}
