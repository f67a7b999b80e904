//! TPC-C as what is killed: a small one on two partitions, with the twelve consistency conditions as the proof.
//!
//! Each cycle runs lists of its own from their beginning. After it the content must show, since the last look, some prefix of each
//! list that has every acknowledged transaction and at most the one in flight.

use super::victim::{Acknowledged, Acknowledgements, Work};
use crate::args::VictimJob;
use crate::scratch::Scratch;
use anyhow::Result;
use indelible::{Database, TransactionOptions};
use std::ops::RangeInclusive;
use workload::tpcc::{
    Checked, Runner, Scale, Tables, Tpcc, TpccOptions, check_consistency, is_rollback,
};

const PARTITIONS: u32 = 2;
const SCALE: Scale = Scale {
    items: 200,
    customers: 30,
};
/// Length of the lists; more than a process runs before it is killed.
const TRANSACTIONS: u64 = 1 << 14;

fn workload(seed: u64) -> Result<Tpcc> {
    Ok(Tpcc::new(TpccOptions {
        warehouses: PARTITIONS,
        partitions: PARTITIONS,
        scale: SCALE,
        transactions: TRANSACTIONS,
        seed,
        ..TpccOptions::default()
    })?)
}

/// Runs the lists of `seed` until the process is killed, and acknowledges each transaction when it is durable.
pub(super) fn run(database: &Database, seed: u64) -> Result<()> {
    let workload = workload(seed)?;
    let tables = Tables::open(database)?;
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

fn run_partition(
    database: &Database,
    mut runner: Runner<'_>,
    partition: u32,
    mut acknowledge: Acknowledgements,
) -> Result<()> {
    let mut partitions = Vec::new();
    loop {
        runner.partitions(&mut partitions);
        let options = TransactionOptions::new().partitions(partitions.iter().copied());
        match database.transaction_with(&options, |transaction| runner.step(transaction)) {
            Ok(()) => {}
            Err(error) if is_rollback(&error) => {}
            Err(error) => return Err(error.into()),
        }
        runner.next();
        acknowledge.send(partition, runner.position())?;
    }
}

/// The proof, from one cycle to the next.
pub(super) struct Orders {
    seed: u64,
    /// What the last look counted.
    seen: Checked,
    acknowledged: u64,
    unacknowledged: u64,
}

impl Orders {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            seen: Checked::default(),
            acknowledged: 0,
            unacknowledged: 0,
        }
    }

    fn seed_of(&self, cycle: u64) -> u64 {
        workload::random::mix(self.seed ^ cycle << 8)
    }
}

impl super::Deed for Orders {
    fn prepare(&mut self, database: &Database, _scratch: &Scratch) -> Result<()> {
        workload(self.seed)?.load(database, |_| ())?;
        Ok(())
    }

    fn work(&self, cycle: u64) -> Work {
        Work {
            job: VictimJob::Tpcc,
            rows: 0,
            seed: self.seed_of(cycle),
            first: 0,
        }
    }

    fn check(&mut self, database: &Database, cycle: u64, new: Acknowledged) -> Result<()> {
        let workload = workload(self.seed_of(cycle))?;
        let now = check_consistency(database)?.into_result()?;
        let mut done = [0; PARTITIONS as usize];
        for (partition, position) in new {
            let last = &mut done[partition as usize];
            *last = position.max(*last);
        }
        let check = |ranges: &[RangeInclusive<u64>]| workload.check_since(&self.seen, &now, ranges);
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
        self.seen = now;
        Ok(())
    }

    fn counts(&self) -> (u64, u64) {
        (self.acknowledged, self.unacknowledged)
    }
}
