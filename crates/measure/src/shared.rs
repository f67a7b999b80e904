//! Threads that take partitions from each other, for transactions over several of them, and users
//! that think.
//!
//! Each transaction declares its partitions, takes them in ascending order, and gives them back
//! when it is committed. Where the method commits in groups, it is acknowledged with the others of
//! its thread, when all are forced; in groups of one its commit waits until it is durable.
//!
//! With think times, ten terminals a warehouse wait for their user to key an input in and to think
//! about the answer (clause 5.2.5 of TPC-C). The thread of a partition serves its terminals in the
//! order in which they are ready; a latency begins when the terminal is ready, so it has the time
//! in the queue as well. A Delivery is deferred (clause 2.7.2): its terminal is answered when it is
//! queued, and the thread runs it when no terminal is ready, or when it has waited for
//! [`DEFERRED_MAX_NS`].

use crate::run::{Acknowledge, Clockwork, Done, Limit, Measured, Tally, run_threads};
use anyhow::Result;
use indelible::{Database, Durability, Transaction, TransactionOptions};
use pmem::device::emulated::Clock;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;
use workload::RoutedScript;
use workload::random::Random;
use workload::tpcc::{Kind, Runner};

/// Terminals of a warehouse.
const TERMINALS: u64 = 10;
/// Longest sleep between two looks at the stop flag.
const SLEEP_MAX: Duration = Duration::from_millis(20);
/// A user thinks at most this many times the mean.
const THINK_MAX: f64 = 10.0;
/// A queued Delivery goes first after this time, a small part of the 80 s in which nine of ten must
/// end (clause 2.7.2.3).
const DEFERRED_MAX_NS: u64 = 1_000_000_000;

/// How users behave.
#[derive(Clone, Copy, Debug)]
pub struct Users {
    /// Keying and think times as a multiple of those of the specification; 0 for none.
    pub think_times: f64,
    /// Seed of their random times.
    pub seed: u64,
}

/// Runs all lists in parallel. `script` makes the transactions of a list.
pub(crate) fn measure<S: RoutedScript>(
    database: &Database,
    positions: &[u64],
    limit: Limit,
    acknowledge: Acknowledge,
    script: impl Fn(u32, u64) -> Result<S> + Sync,
) -> Result<Measured> {
    run_threads(S::KINDS, positions, limit, &|list, position, clockwork| {
        let script = script(list, position)?;
        Executor::new(database, list, script, acknowledge).run(limit, clockwork)
    })
}

/// As [`measure`], with the users of TPC-C. `runner` also says how many warehouses a list has.
pub(crate) fn measure_users<'w>(
    database: &Database,
    positions: &[u64],
    limit: Limit,
    acknowledge: Acknowledge,
    users: Users,
    runner: impl Fn(u32, u64) -> Result<(Runner<'w>, u64)> + Sync,
) -> Result<Measured> {
    let kinds = Kind::ALL.len();
    run_threads(kinds, positions, limit, &|list, position, clockwork| {
        let (runner, warehouses) = runner(list, position)?;
        let terminals = Terminals {
            ready: BinaryHeap::new(),
            next_position: position,
            random: Random::new(users.seed ^ u64::from(list) << 32),
            factor: users.think_times,
        };
        Executor::new(database, list, runner, acknowledge).serve(
            terminals,
            warehouses * TERMINALS,
            limit,
            clockwork,
        )
    })
}

/// Runs the transactions of one list, also where they touch several partitions.
struct Executor<'run, S> {
    database: &'run Database,
    script: S,
    partitions: Vec<u32>,
    /// Options of a transaction that stays in its partition.
    own: TransactionOptions,
    /// Deliveries that wait: places of their inputs in the list, and since when.
    queued: VecDeque<(u64, u64)>,
    /// Kinds and starts of the transactions that are not acknowledged yet.
    waiting: Vec<(usize, u64)>,
    /// Transactions that are made durable together; 1 if a commit by itself is acknowledged.
    group: usize,
    tally: Tally,
    clock: Clock,
}

impl<'run, S: RoutedScript> Executor<'run, S> {
    fn new(database: &'run Database, list: u32, script: S, acknowledge: Acknowledge) -> Self {
        let (durability, group) = match acknowledge {
            Acknowledge::Early => (Durability::None, 1),
            Acknowledge::Durable(_) if database.commits_are_durable() => (Durability::None, 1),
            Acknowledge::Durable(0 | 1) => (Durability::Immediate, 1),
            Acknowledge::Durable(group) => (Durability::None, group),
        };
        let options = TransactionOptions::new().durability(durability);
        let partition = list % database.partitions();
        Self {
            database,
            script,
            partitions: Vec::new(),
            own: options.partitions([partition]),
            queued: VecDeque::new(),
            waiting: Vec::with_capacity(group),
            group,
            tally: Tally::new(S::KINDS),
            clock: Clock::real(),
        }
    }

    fn run(&mut self, limit: Limit, clockwork: &Clockwork) -> Result<Done> {
        let mut left = transactions(limit);
        clockwork.wait_for_start();
        let mut start_ns = self.clock.now_ns_unordered();
        while left > 0 && !clockwork.is_over() {
            start_ns = self.transaction(start_ns)?;
            self.script.next();
            left -= 1;
        }
        self.done()
    }

    fn done(&mut self) -> Result<Done> {
        self.acknowledge()?;
        Ok(Done {
            position: self.script.position(),
            tally: std::mem::replace(&mut self.tally, Tally::new(0)),
        })
    }

    /// Runs one transaction; returns the time of its end.
    fn transaction(&mut self, start_ns: u64) -> Result<u64> {
        let kind = self.script.kind();
        self.script.partitions(&mut self.partitions);
        let (script, mut attempts) = (&mut self.script, 0_u64);
        let mut step = |transaction: &mut Transaction<'_>| {
            attempts += 1;
            script.step(transaction)
        };
        let is_distributed = self.partitions.len() > 1;
        let done = if is_distributed {
            self.tally.distributed += 1;
            let options = TransactionOptions::new().durability(Durability::None);
            let options = options.partitions(self.partitions.iter().copied());
            self.database.transaction_with(&options, &mut step)
        } else {
            self.database.transaction_with(&self.own, &mut step)
        };
        self.tally.conflicts += attempts.saturating_sub(1);
        match done {
            Ok(()) => {}
            Err(error) if S::is_rollback(&error) => self.tally.rollbacks[kind] += 1,
            Err(error) => return Err(error.into()),
        }
        // Over several partitions the commit point is durable in every method.
        if self.group == 1 || is_distributed {
            let now_ns = self.clock.now_ns_unordered();
            self.tally.record(kind, now_ns.saturating_sub(start_ns));
            return Ok(now_ns);
        }
        self.waiting.push((kind, start_ns));
        if self.waiting.len() >= self.group {
            self.acknowledge()?;
        }
        Ok(self.clock.now_ns_unordered())
    }

    /// Makes the waiting transactions durable, and counts them.
    fn acknowledge(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.database.force()?;
        let now_ns = self.clock.now_ns_unordered();
        for (kind, start_ns) in self.waiting.drain(..) {
            self.tally.record(kind, now_ns.saturating_sub(start_ns));
        }
        Ok(())
    }
}

impl Executor<'_, Runner<'_>> {
    /// Runs with users that think.
    fn serve(
        &mut self,
        mut terminals: Terminals,
        count: u64,
        limit: Limit,
        clockwork: &Clockwork,
    ) -> Result<Done> {
        let mut left = transactions(limit);
        clockwork.wait_for_start();
        let start_ns = self.clock.now_ns_unordered();
        for _ in 0..count {
            terminals.begin(&self.script, start_ns);
        }
        while left > 0 && !clockwork.is_over() {
            let now_ns = self.clock.now_ns_unordered();
            let is_overdue = |&(_, since_ns): &(u64, u64)| now_ns > since_ns + DEFERRED_MAX_NS;
            if self.queued.front().is_some_and(is_overdue) {
                self.deliver()?;
            }
            let Some((ready_ns, position)) = terminals.take(now_ns) else {
                // No terminal is ready: those that wait for a group are answered before the thread
                // sleeps.
                if !self.deliver()? {
                    self.acknowledge()?;
                    std::thread::sleep(terminals.pause(now_ns));
                }
                continue;
            };
            left -= 1;
            self.script.seek(position);
            if self.script.kind() == Kind::Delivery {
                self.queued.push_back((position, ready_ns));
                terminals.answer(&self.script, now_ns);
                continue;
            }
            let end_ns = self.transaction(ready_ns)?;
            terminals.answer(&self.script, end_ns);
        }
        while self.deliver()? {}
        self.done()
    }

    /// Runs the Delivery that was queued first; false if none is.
    fn deliver(&mut self) -> Result<bool> {
        let Some((position, since_ns)) = self.queued.pop_front() else {
            return Ok(false);
        };
        self.script.seek(position);
        self.transaction(since_ns)?;
        Ok(true)
    }
}

fn transactions(limit: Limit) -> u64 {
    match limit {
        Limit::Time(_) => u64::MAX,
        Limit::Transactions(count) => count,
    }
}

/// The terminals of a partition's warehouses.
struct Terminals {
    /// When each is ready, and its input's place in the list; the earliest first.
    ready: BinaryHeap<Reverse<(u64, u64)>>,
    next_position: u64,
    random: Random,
    factor: f64,
}

impl Terminals {
    /// A user sits down, at some time within the keying of the first input.
    fn begin(&mut self, runner: &Runner<'_>, now_ns: u64) {
        let share = self.even();
        let keying_s = runner.input_at(self.next_position).kind().keying_s() * share;
        self.push(now_ns, keying_s);
    }

    /// A user has an answer: thinks about it and keys the next input in.
    fn answer(&mut self, runner: &Runner<'_>, now_ns: u64) {
        let mean_s = runner.kind().think_mean_s();
        let think_s = (-self.even().ln()).min(THINK_MAX) * mean_s;
        let keying_s = runner.input_at(self.next_position).kind().keying_s();
        self.push(now_ns, think_s + keying_s);
    }

    fn push(&mut self, now_ns: u64, seconds: f64) {
        let delay = Duration::from_secs_f64(seconds * self.factor);
        let ready_ns = now_ns + delay.as_nanos() as u64;
        self.ready.push(Reverse((ready_ns, self.next_position)));
        self.next_position += 1;
    }

    /// The terminal that has been ready longest.
    fn take(&mut self, now_ns: u64) -> Option<(u64, u64)> {
        let Reverse((ready_ns, _)) = *self.ready.peek()?;
        if ready_ns > now_ns {
            return None;
        }
        self.ready.pop().map(|Reverse(taken)| taken)
    }

    /// How long to sleep until a terminal is ready.
    fn pause(&self, now_ns: u64) -> Duration {
        let ready_ns = self
            .ready
            .peek()
            .map_or(u64::MAX, |Reverse((ready_ns, _))| *ready_ns);
        Duration::from_nanos(ready_ns.saturating_sub(now_ns)).min(SLEEP_MAX)
    }

    /// An even choice from 0 (not included) to 1.
    fn even(&mut self) -> f64 {
        const STEPS: u64 = 1 << 32;
        (self.random.below(STEPS) + 1) as f64 / STEPS as f64
    }
}
