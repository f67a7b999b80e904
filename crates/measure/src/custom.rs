//! A workload that a user has described or recorded, in one thread.
//!
//! Its list is run in one partition, and a group is acknowledged when it is durable.

use crate::run::{Acknowledge, Limit, Measured, measure as measure_scripts};
use anyhow::Result;
use indelible::{Database, Table};
use workload::custom::Custom;

/// Runs the list from `position` on.
pub fn measure(
    workload: &Custom,
    database: &Database,
    tables: &[Table],
    position: u64,
    limit: Limit,
    acknowledge: Acknowledge,
) -> Result<Measured> {
    let script = |_, position| Ok(workload.runner(tables, position));
    measure_scripts(database, &[position], limit, acknowledge, script)
}
