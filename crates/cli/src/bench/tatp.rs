//! `bench tatp`: its own options and rows.
//!
//! No transaction leaves its partition, so each thread owns one or a session of one. A transaction
//! whose row does not exist counts as run and not as successful; the rows have both numbers.

use super::standard::{self, Benchmark};
use crate::args::{RunArgs, TatpArgs};
use crate::failure::Usage;
use crate::output::Format;
use crate::report::OwnNumbers;
use anyhow::Result;
use indelible::Method;
use measure::Measured;
use workload::tatp::{Kind, Tatp, TatpOptions};

/// Runs the command.
pub(super) fn run(args: &TatpArgs, format: Format) -> Result<()> {
    standard::run(args, format)
}

impl Benchmark for TatpArgs {
    type Workload = Tatp;

    fn methods(&self) -> &[Method] {
        &self.method
    }

    fn run_args(&self) -> &RunArgs {
        &self.run
    }

    fn check(&self) -> Result<()> {
        if self.subscribers < self.run.partitions {
            return Err(Usage::error(
                "--subscribers must be at least --partitions; use more subscribers or fewer partitions",
            ));
        }
        Ok(())
    }

    fn workload(&self, transactions: u64) -> Result<Tatp> {
        Ok(Tatp::new(TatpOptions {
            subscribers: self.subscribers,
            partitions: self.run.partitions,
            threads: self.run.threads_each(),
            choice: self.choice,
            mix: self.mix,
            transactions,
            seed: self.run.seed,
        })?)
    }

    fn kinds(&self) -> Vec<&'static str> {
        Kind::ALL.map(Kind::name).into()
    }

    fn mix(&self) -> String {
        self.mix.to_string()
    }

    fn skew(&self) -> &'static str {
        self.choice.name()
    }

    fn single_partition(&self) -> bool {
        true
    }

    fn own_numbers(&self, measured: &Measured) -> OwnNumbers {
        let failed: u64 = measured.tally.rollbacks.iter().sum();
        OwnNumbers::Tatp {
            subscribers: self.subscribers,
            successful_txn_per_s: measured.txns.saturating_sub(failed) as f64 / measured.seconds,
        }
    }
}
