//! `bench tpcc`: its own options and rows.
//!
//! With think times its threads serve terminals, and inputs are not taken in the order of the list.
//! Then only the consistency conditions are checked, and not the number of transactions that the
//! content shows.

use super::standard::{self, Benchmark};
use crate::args::{RunArgs, TpccArgs};
use crate::failure::Usage;
use crate::output::{Cell, Format, whole};
use crate::report::{OwnNumbers, TypeNumbers};
use anyhow::Result;
use indelible::{Database, Method};
use measure::standard::{Span, Standard as _, Watched, measure_users};
use measure::{Measured, Users};
use workload::tpcc::{Kind, Scale, Tables, Tpcc, TpccOptions};

/// Runs the command.
pub(super) fn run(args: &TpccArgs, format: Format) -> Result<()> {
    standard::run(args, format)
}

impl TpccArgs {
    fn warehouses(&self) -> u32 {
        self.warehouses
            .unwrap_or_else(|| self.run.threads().max(self.run.partitions))
    }
}

impl Benchmark for TpccArgs {
    type Workload = Tpcc;
    const LAST_COLUMN: &'static str = "tpmC";

    fn methods(&self) -> &[Method] {
        &self.method
    }

    fn run_args(&self) -> &RunArgs {
        &self.run
    }

    fn check(&self) -> Result<()> {
        let (most, option) = match self.run.threads {
            Some(threads) => (threads, "threads"),
            None => (self.run.partitions, "partitions"),
        };
        if self.warehouses() < most {
            return Err(Usage::error(format!(
                "--warehouses must be at least --{option}; use more warehouses or fewer {option}"
            )));
        }
        Ok(())
    }

    fn workload(&self, transactions: u64) -> Result<Tpcc> {
        Ok(Tpcc::new(TpccOptions {
            warehouses: self.warehouses(),
            partitions: self.run.partitions,
            threads: self.run.threads_each(),
            scale: Scale::share(self.scale),
            single_partition: self.single_partition,
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
        "nurand"
    }

    fn single_partition(&self) -> bool {
        self.single_partition
    }

    fn is_in_order(&self) -> bool {
        self.think_times <= 0.0
    }

    fn own_numbers(&self, measured: &Measured) -> OwnNumbers {
        let new_order = Kind::NewOrder as usize;
        let tally = &measured.tally;
        let new_orders = tally.latencies_ns[new_order].len();
        let committed = new_orders.saturating_sub(tally.rollbacks[new_order]) as f64;
        OwnNumbers::Tpcc {
            warehouses: self.warehouses(),
            scale: self.scale,
            think_times: self.think_times,
            tpm_c: committed * 60.0 / measured.seconds,
        }
    }

    fn last_cell(&self, kind: usize, own: &OwnNumbers, _: &TypeNumbers) -> Cell {
        match own {
            OwnNumbers::Tpcc { tpm_c, .. } if kind == Kind::NewOrder as usize => {
                Cell::Number(*tpm_c, whole(*tpm_c))
            }
            _ => Cell::Null,
        }
    }

    fn measure(
        &self,
        workload: &Tpcc,
        database: &Database,
        tables: &Tables,
        span: &Span<'_>,
    ) -> Result<Watched> {
        if self.is_in_order() {
            return workload.measure(database, tables, span);
        }
        let users = Users {
            think_times: self.think_times,
            seed: self.run.seed,
        };
        measure_users(workload, database, tables, span, users)
    }
}
