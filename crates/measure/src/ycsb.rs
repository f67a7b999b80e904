//! YCSB on a database of ours: every list in a thread of its own.
//!
//! Under the timer the scripts mark the ends of their transactions, so that time in no part of the
//! device is distinguished from the time in the last one. Without it they are run as they are.

use crate::run::{Acknowledge, Limit, Measured, measure as measure_scripts};
use crate::sample::{Sampling, Shares};
use anyhow::Result;
use indelible::{Database, Table};
use pmem::device::emulated::Emulator;
use workload::ycsb::Ycsb;

/// Runs the lists from `positions` on, with rows announced so many transactions `ahead`, if at all.
/// The emulators are those of the database's partitions; there are none on the native device.
pub fn measure(
    workload: &Ycsb,
    (database, table): (&Database, &Table),
    positions: &[u64],
    limit: Limit,
    (acknowledge, ahead): (Acknowledge, Option<u32>),
    (sampling, emulators): (Sampling, &[Emulator]),
) -> Result<(Measured, Option<Shares>)> {
    let script = |list, position| Ok(workload.runner(table, list, position).announcing(ahead));
    sampling.measure(emulators, |marks| match marks {
        None => measure_scripts(database, positions, limit, acknowledge, script),
        Some(marks) => {
            measure_scripts(database, positions, limit, acknowledge, |list, position| {
                Ok(marks.on(list, script(list, position)?))
            })
        }
    })
}
