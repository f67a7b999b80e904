//! `bench sysbench`: its own options and rows.
//!
//! No transaction leaves its partition, so each thread owns one or a session of one. With
//! `--skip-trx` each statement is a transaction and counts as one, so a row also gives the events
//! of the script and the statements a second.

use super::standard::{self, Benchmark};
use crate::args::{RunArgs, SysbenchArgs};
use crate::failure::Usage;
use crate::output::Format;
use crate::report::OwnNumbers;
use anyhow::Result;
use indelible::Method;
use measure::Measured;
use workload::sysbench::{Action, Scope, Sysbench, SysbenchOptions};

/// Runs the command.
pub(super) fn run(args: &SysbenchArgs, format: Format) -> Result<()> {
    standard::run(args, format)
}

impl SysbenchArgs {
    fn scope(&self) -> Scope {
        if self.skip_trx {
            Scope::Statement
        } else {
            Scope::Event
        }
    }

    fn options(&self, transactions: u64) -> SysbenchOptions {
        SysbenchOptions {
            script: self.script,
            tables: self.tables,
            rows: self.rows,
            distribution: self.distribution,
            range_size: self.range_size,
            scope: self.scope(),
            partitions: self.run.partitions,
            threads: self.run.threads_each(),
            transactions,
            seed: self.run.seed,
        }
    }
}

impl Benchmark for SysbenchArgs {
    type Workload = Sysbench;
    /// A list has up to 18 statements a transaction, 16 bytes each.
    const LIST_MAX: u64 = 250_000;

    fn methods(&self) -> &[Method] {
        &self.method
    }

    fn run_args(&self) -> &RunArgs {
        &self.run
    }

    fn warm_up(&self) -> u64 {
        self.warm_up
    }

    fn check(&self) -> Result<()> {
        if self.rows < self.run.partitions {
            return Err(Usage::error(
                "--rows must be at least --partitions; use more rows or fewer partitions",
            ));
        }
        Ok(())
    }

    fn workload(&self, transactions: u64) -> Result<Sysbench> {
        Ok(Sysbench::new(self.options(transactions))?)
    }

    fn kinds(&self) -> Vec<&'static str> {
        match self.scope() {
            Scope::Event => vec![self.script.name()],
            Scope::Statement => Action::ALL.map(Action::name).into(),
        }
    }

    fn mix(&self) -> String {
        self.script.name().into()
    }

    fn skew(&self) -> &'static str {
        self.distribution.name()
    }

    fn single_partition(&self) -> bool {
        true
    }

    fn own_numbers(&self, measured: &Measured) -> OwnNumbers {
        let statements = measured.txns * self.options(0).statements_each() as u64;
        let events = statements as f64 / self.script.actions().len() as f64;
        OwnNumbers::Sysbench {
            tables: self.tables.into(),
            table_rows: self.rows,
            range_size: self.range_size,
            skip_trx: self.skip_trx,
            events_per_s: events / measured.seconds,
            statements_per_s: statements as f64 / measured.seconds,
        }
    }
}
