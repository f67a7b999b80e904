//! The rivals: what users would pick instead, doing the same work under the same clock and content
//! check as ours. Databases run the same list of transactions, engines join the same columns.
//!
//! | file | job |
//! |---|---|
//! | `args` | the command line |
//! | `btree` | rows of one size into one table: ours, and SQLite by its journals |
//! | `bench` | loads, measures, checks; one row a mix |
//! | `target` | what is measured: a rival, in one database or one a partition, or our method |
//! | `kind` | the catalogue of rivals, with the setting of each in words |
//! | `stores` | one file a rival: its best honest durable setting, and its four operations |
//! | `join` | our join, and those of engines that Python packages bring, in turns |
//! | `foreign` | the calls into C that have no safe wrapper |
//!
//! Clock and histograms are those of the room `measure`, rows and scratch directories the program's
//! own files, compiled here a second time: a row of this program cannot come to mean something else
//! than a row of `indelible bench ycsb`.

mod args;
mod bench;
mod btree;
mod foreign;
mod join;
mod kind;
mod stores;
mod target;

#[path = "../../crates/cli/src/failure.rs"]
mod failure;
#[allow(dead_code, unused_imports, reason = "the program uses the rest")]
#[path = "../../crates/cli/src/machine.rs"]
mod machine;
#[allow(dead_code, reason = "the program uses the rest")]
#[path = "../../crates/cli/src/report/rows.rs"]
mod report;
#[allow(dead_code, reason = "the program uses the rest")]
#[path = "../../crates/cli/src/scratch.rs"]
mod scratch;

use args::{BenchCommand, Command, CommandLine};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let line = CommandLine::parse();
    scratch::remove_on_interrupt();
    let Command::Bench(workload) = line.command;
    let done = match workload {
        BenchCommand::Ycsb(args) => bench::run(&args, line.format),
        BenchCommand::BtreeInsert(args) => btree::run(&args, line.format),
        BenchCommand::Join(args) => join::run(&args, line.format),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if failure::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rivals: {}", failure::sentence(&error));
            ExitCode::from(failure::exit_code(&error))
        }
    }
}
