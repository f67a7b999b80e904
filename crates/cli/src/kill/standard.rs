//! The standard benchmarks as work to be killed: small ones on two partitions, with their
//! conditions as the proof.
//!
//! Each cycle runs lists of its own from their beginning. After it the content must show, since the
//! last check, some prefix of each list that has every acknowledged transaction and at most the one
//! in flight.

use super::pipe::{Acknowledged, Acknowledgements, Work};
use crate::args::VictimJob;
use crate::scratch::Scratch;
use anyhow::{Context, Result};
use indelible::{Database, TransactionOptions};
use std::ops::RangeInclusive;
use workload::sysbench::{OltpScript, Sysbench, SysbenchOptions};
use workload::tatp::{Tatp, TatpOptions};
use workload::tpcb::{Tpcb, TpcbOptions};
use workload::tpcc::{Scale, Tpcc, TpccOptions};
use workload::{RoutedScript, Workload};

const PARTITIONS: u32 = 2;
/// Length of the lists; more than a process runs before it is killed.
const TRANSACTIONS: u64 = 1 << 14;

/// A benchmark at the size at which it is killed.
pub(super) trait Small: Workload {
    const JOB: VictimJob;
    fn small(seed: u64) -> Result<Self>;
}

impl Small for Tpcc {
    const JOB: VictimJob = VictimJob::Tpcc;

    fn small(seed: u64) -> Result<Self> {
        Ok(Self::new(TpccOptions {
            warehouses: PARTITIONS,
            partitions: PARTITIONS,
            scale: Scale {
                items: 200,
                customers: 30,
            },
            transactions: TRANSACTIONS,
            seed,
            ..TpccOptions::default()
        })?)
    }
}

impl Small for Tpcb {
    const JOB: VictimJob = VictimJob::Tpcb;

    fn small(seed: u64) -> Result<Self> {
        Ok(Self::new(TpcbOptions {
            branches: 2 * PARTITIONS,
            partitions: PARTITIONS,
            accounts: 500,
            transactions: TRANSACTIONS,
            seed,
            ..TpcbOptions::default()
        })?)
    }
}

impl Small for Tatp {
    const JOB: VictimJob = VictimJob::Tatp;

    fn small(seed: u64) -> Result<Self> {
        Ok(Self::new(TatpOptions {
            subscribers: 1000,
            partitions: PARTITIONS,
            transactions: TRANSACTIONS,
            seed,
            ..TatpOptions::default()
        })?)
    }
}

impl Small for Sysbench {
    const JOB: VictimJob = VictimJob::Sysbench;

    fn small(seed: u64) -> Result<Self> {
        Ok(Self::new(SysbenchOptions {
            script: OltpScript::WriteOnly,
            tables: 2,
            rows: 1000,
            partitions: PARTITIONS,
            transactions: TRANSACTIONS,
            seed,
            ..SysbenchOptions::default()
        })?)
    }
}

/// Runs the lists of `seed` until the process is killed, and acknowledges each transaction when it
/// is durable.
pub(super) fn run<W: Small>(database: &Database, seed: u64) -> Result<()> {
    let workload = W::small(seed)?;
    let tables = W::tables(database)?;
    let acknowledgements = Acknowledgements::to_parent()?;
    std::thread::scope(|threads| {
        let workers: Vec<_> = (0..PARTITIONS)
            .map(|partition| {
                let acknowledge = acknowledgements.another();
                let (workload, tables) = (&workload, &tables);
                threads.spawn(move || {
                    let runner = workload.runner(database, tables, partition, 0)?;
                    run_partition(database, runner, partition, acknowledge?)
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("the list does not panic"))
    })
}

fn run_partition<R: RoutedScript>(
    database: &Database,
    mut runner: R,
    partition: u32,
    mut acknowledge: Acknowledgements,
) -> Result<()> {
    let mut partitions = Vec::new();
    loop {
        runner.partitions(&mut partitions);
        let options = TransactionOptions::new().partitions(partitions.iter().copied());
        match database.transaction_with(&options, |transaction| runner.step(transaction)) {
            Ok(()) => {}
            Err(error) if R::is_rollback(&error) => {}
            Err(error) => return Err(error.into()),
        }
        runner.next();
        acknowledge.send(partition, runner.position())?;
    }
}

/// The proof, from one cycle to the next.
pub(super) struct Lists<W: Workload> {
    seed: u64,
    /// Content found by the last check; none before loading.
    seen: Option<W::Content>,
    acknowledged: u64,
    unacknowledged: u64,
}

impl<W: Small> Lists<W> {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            seen: None,
            acknowledged: 0,
            unacknowledged: 0,
        }
    }

    fn seed_of(&self, cycle: u64) -> u64 {
        workload::random::mix(self.seed ^ cycle << 8)
    }
}

impl<W: Small> super::Deed for Lists<W> {
    fn prepare(&mut self, database: &Database, _scratch: &Scratch) -> Result<()> {
        let workload = W::small(self.seed)?;
        workload.load(database, |_| ())?;
        self.seen = Some(workload.loaded());
        Ok(())
    }

    fn work(&self, cycle: u64) -> Work {
        Work {
            job: W::JOB,
            rows: 0,
            seed: self.seed_of(cycle),
            first: 0,
            checkpoint_log_bytes: Some(super::CHECKPOINT_LOG_BYTES),
        }
    }

    fn check(&mut self, database: &Database, cycle: u64, new: Acknowledged) -> Result<()> {
        let workload = W::small(self.seed_of(cycle))?;
        let now = workload.look(database)?;
        let seen = self
            .seen
            .as_ref()
            .context("the database was not prepared")?;
        let mut done = [0; PARTITIONS as usize];
        for (partition, position) in new {
            let last = &mut done[partition as usize];
            *last = position.max(*last);
        }
        let check = |ranges: &[RangeInclusive<u64>]| workload.check_since(seen, &now, ranges);
        let mut ranges = done.map(|position| position..=position + 1);
        check(&ranges)?;
        for (partition, position) in done.into_iter().enumerate() {
            ranges[partition] = position..=position;
            if check(&ranges).is_err() {
                ranges[partition] = position + 1..=position + 1;
                self.unacknowledged += 1;
            }
            self.acknowledged += position;
        }
        self.seen = Some(now);
        Ok(())
    }

    fn counts(&self) -> (u64, u64) {
        (self.acknowledged, self.unacknowledged)
    }
}
