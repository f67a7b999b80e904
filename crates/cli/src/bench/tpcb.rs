//! `bench tpcb`: its own options and rows.
//!
//! There is one kind of transaction and it always succeeds, so a row has few fields of its own.

use super::connections;
use super::standard::{self, Benchmark};
use crate::args::{RunArgs, TpcbArgs};
use crate::failure::Usage;
use crate::output::Format;
use crate::report::OwnNumbers;
use anyhow::Result;
use indelible::Method;
use measure::Measured;
use workload::tpcb::{Tpcb, TpcbOptions};

/// Runs the command.
pub(super) fn run(args: &TpcbArgs, format: Format) -> Result<()> {
    match args.clients.connections {
        Some(count) => connections::run(args, count, format),
        None => standard::run(args, format),
    }
}

impl TpcbArgs {
    /// Branches: unless chosen, one for each thread or connection.
    pub(super) fn branches(&self) -> u32 {
        let clients = self.clients.connections.unwrap_or_default();
        let threads = self.run.threads().max(clients);
        self.branches.unwrap_or(threads.max(self.run.partitions))
    }
}

impl Benchmark for TpcbArgs {
    type Workload = Tpcb;

    fn methods(&self) -> &[Method] {
        &self.method
    }

    fn run_args(&self) -> &RunArgs {
        &self.run
    }

    fn check(&self) -> Result<()> {
        if self.branches() < self.run.partitions {
            return Err(Usage::error(
                "--branches must be at least --partitions; use more branches or fewer partitions",
            ));
        }
        Ok(())
    }

    fn workload(&self, transactions: u64) -> Result<Tpcb> {
        Ok(Tpcb::new(TpcbOptions {
            branches: self.branches(),
            partitions: self.run.partitions,
            threads: self.run.threads_each(),
            accounts: self.accounts,
            single_partition: self.single_partition,
            transactions,
            seed: self.run.seed,
        })?)
    }

    fn kinds(&self) -> Vec<&'static str> {
        vec!["account-update"]
    }

    fn mix(&self) -> String {
        "standard".into()
    }

    fn skew(&self) -> &'static str {
        "uniform"
    }

    fn single_partition(&self) -> bool {
        self.single_partition
    }

    fn own_numbers(&self, _: &Measured) -> OwnNumbers {
        OwnNumbers::Tpcb {
            branches: self.branches(),
            accounts: self.accounts,
        }
    }
}
