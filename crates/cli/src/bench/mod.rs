//! `bench`: workloads measured from the caller's side, one row a run.
//!
//! | file | job |
//! |---|---|
//! | `ycsb` | the runs that the options ask for, and their rows |
//! | `measure` | one worker thread a partition, clocked to the durable acknowledgement |
//! | `std_map` | the same list on the standard library's map, for scale |
//! | `device` | the database on an emulated device |

mod device;
mod measure;
mod std_map;
mod ycsb;

pub(crate) use ycsb::{YcsbRuns, measure_all};

use crate::args::BenchCommand;
use crate::output::Format;
use anyhow::Result;

/// Runs the command.
pub(crate) fn run(command: &BenchCommand, format: Format) -> Result<()> {
    match command {
        BenchCommand::Ycsb(args) => ycsb::run(args, format),
    }
}
