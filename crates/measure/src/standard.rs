//! TPC-C, TPC-B, TATP and sysbench on a database of ours: every list in a thread of its own.
//!
//! A thread owns its partition, or a session of it, where no transaction leaves it, and takes the
//! partitions that it needs otherwise. The users of TPC-C may think, and then inputs are not taken
//! in the order of the list.

use crate::run::{Acknowledge, Limit, Measured, measure as measure_owned};
use crate::sample::{Probes, Sampling, Seen, watch};
use crate::shared::{self, Users};
use anyhow::Result;
use indelible::Database;
use workload::Workload;
use workload::sysbench::Sysbench;
use workload::tatp::Tatp;
use workload::tpcb::Tpcb;
use workload::tpcc::{Tables, Tpcc};

/// The partitions that a thread holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partitions {
    /// Its own, or a session of it, and no transaction leaves it.
    Owned,
    /// Those that a transaction needs, as long as it runs.
    Taken,
}

/// The measured part of a run.
#[derive(Clone, Copy, Debug)]
pub struct Span<'p> {
    /// Where each thread is in its list.
    pub positions: &'p [u64],
    /// When it ends.
    pub limit: Limit,
    /// When transactions are acknowledged.
    pub acknowledge: Acknowledge,
    /// The partitions that each thread holds.
    pub partitions: Partitions,
    /// Whether the threads' activities are sampled.
    pub sampling: Sampling,
}

/// The measurement, and the threads' activities if they were sampled.
pub type Watched = (Measured, Option<Seen>);

/// A benchmark whose runs are compiled here.
pub trait Standard: Workload {
    /// Measures a span, each thread in the order of its list.
    fn measure(
        &self,
        database: &Database,
        tables: &Self::Tables,
        span: &Span<'_>,
    ) -> Result<Watched>;
}

/// As a body of the trait it would be compiled wherever it is called.
macro_rules! standard {
    ($($workload:ty),*) => {$(
        impl Standard for $workload {
            fn measure(
                &self,
                database: &Database,
                tables: &Self::Tables,
                span: &Span<'_>,
            ) -> Result<Watched> {
                measure(self, database, tables, span)
            }
        }
    )*};
}

standard!(Tpcc, Tpcb, Tatp, Sysbench);

fn measure<W: Workload>(
    workload: &W,
    database: &Database,
    tables: &W::Tables,
    span: &Span<'_>,
) -> Result<Watched> {
    let Span {
        positions,
        limit,
        acknowledge,
        partitions,
        sampling,
    } = *span;
    watch(sampling, positions.len(), |probes| {
        // Called by the thread that runs the list.
        let script = |list, position| {
            probes.carry(list);
            Ok(workload.runner(database, tables, list, position)?)
        };
        match partitions {
            Partitions::Owned => measure_owned(database, positions, limit, acknowledge, script),
            Partitions::Taken => shared::measure(database, positions, limit, acknowledge, script),
        }
    })
}

/// Measures a span of TPC-C with users that think.
pub fn measure_users(
    workload: &Tpcc,
    database: &Database,
    tables: &Tables,
    span: &Span<'_>,
    users: Users,
) -> Result<Watched> {
    let runner = |list, position| {
        let warehouses = workload.warehouses(list).count() as u64;
        let runner = workload.runner(database, tables, list, position)?;
        Ok((runner, warehouses))
    };
    watch(span.sampling, span.positions.len(), |_: &Probes| {
        shared::measure_users(
            database,
            span.positions,
            span.limit,
            span.acknowledge,
            users,
            runner,
        )
    })
}
