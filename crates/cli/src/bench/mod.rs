//! `bench`: workloads measured from the caller's side, one row a run.
//!
//! | file | job |
//! |---|---|
//! | `ycsb` | the runs that the options ask for, and their own rows |
//! | `standard` | the same for TPC-C, TPC-B, TATP and sysbench |
//! | `tpcc`, `tpcb`, `tatp`, `sysbench` | the options and rows of each of these |
//! | `connections` | TPC-B over connections, beside typed workers |
//! | `btree` | rows of one size into one tree |
//! | `recovery` | the opening after a kill, with a long log |
//! | `join` | joins of two relations, without a database |
//! | `sql` | statements of SQL on one row, beside the typed interface |
//! | `wire` | servers under the same clients |
//! | `runs` | their common part: options to a database, a run to a row |
//!
//! Timed code is in the room `measure`, because this one is compiled without optimisation.

mod btree;
mod connections;
mod join;
mod recovery;
mod runs;
mod sql;
mod standard;
mod sysbench;
mod tatp;
mod tpcb;
mod tpcc;
mod wire;
mod ycsb;

pub(crate) use btree::first as btree_row;
pub(crate) use join::{Made as MadeRelations, has_kernel, made as made_relations};
pub(crate) use standard::{Benchmark, Loaded as LoadedStandard};
pub(crate) use ycsb::{Loaded as LoadedYcsb, YcsbRuns, measure_all};

use crate::args::{BenchCommand, YcsbMethod};
use crate::output::Format;
use anyhow::Result;

/// Runs the command.
pub(crate) fn run(command: BenchCommand, format: Format) -> Result<()> {
    match command {
        BenchCommand::Ycsb(mut args) => {
            args.method
                .extend(args.run.axes.method()?.map(YcsbMethod::Ours));
            ycsb::run(&args, format)
        }
        BenchCommand::Tpcc(mut args) => {
            args.method.extend(args.run.axes.method()?);
            tpcc::run(&args, format)
        }
        BenchCommand::Tpcb(mut args) => {
            args.method.extend(args.run.axes.method()?);
            tpcb::run(&args, format)
        }
        BenchCommand::Tatp(mut args) => {
            args.method.extend(args.run.axes.method()?);
            tatp::run(&args, format)
        }
        BenchCommand::Sysbench(mut args) => {
            args.method.extend(args.run.axes.method()?);
            sysbench::run(&args, format)
        }
        BenchCommand::BtreeInsert(mut args) => {
            args.method.extend(args.run.axes.method()?);
            btree::run(&args, format)
        }
        BenchCommand::Recovery(args) => recovery::run(&args, format),
        BenchCommand::RecoveryVictim(args) => recovery::victim(&args),
        BenchCommand::Sql(args) => sql::run(&args, format),
        BenchCommand::Wire(args) => wire::run(&args, format),
        BenchCommand::Floor(args) => wire::floor(&args),
        BenchCommand::Join(args) => join::run(&args, format),
    }
}

/// Refuses options of a measured run that make no sense together.
#[cfg(test)]
pub(crate) fn check(command: &BenchCommand) -> Result<()> {
    match command {
        BenchCommand::Ycsb(args) => ycsb::check(args),
        BenchCommand::Tpcc(args) => standard::check(&**args),
        BenchCommand::Tpcb(args) => standard::check(&**args),
        BenchCommand::Tatp(args) => standard::check(&**args),
        BenchCommand::Sysbench(args) => standard::check(&**args),
        BenchCommand::BtreeInsert(args) => runs::check(&args.run, &args.method, false),
        _ => Ok(()),
    }
}
