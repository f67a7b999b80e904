//! Many kills, or power cuts, of one database: each cycle continues from the recovery of the last
//! one.
//!
//! After every one the database is opened, the work of all cycles is checked, and the deep check
//! runs. The moment of each kill is drawn from the seed, from a few microseconds after the first
//! acknowledgement to ten milliseconds.

use super::bookings::Bookings;
use super::power::Mount;
use super::standard::Lists;
use super::{Deed, victim};
use crate::args::WorkloadName;
use crate::output::{Cell, Facts, Format};
use crate::progress;
use crate::scratch::Scratch;
use anyhow::{Context, Result, bail};
use indelible::{Database, Method, Options};
use std::time::{Duration, Instant};
use workload::random::Random;
use workload::sysbench::Sysbench;
use workload::tatp::Tatp;
use workload::tpcb::Tpcb;
use workload::tpcc::Tpcc;

/// Latest moment of a kill after the first acknowledgement.
const KILL_AFTER_US_MAX: u64 = 10_000;
const CUT_AFTER_US_MAX: u64 = 100_000;
/// Cycles between two checkpoints.
const CHECKPOINT_CYCLES: u64 = 5;

/// The way in which the process ends.
pub(crate) enum End<'m> {
    /// SIGKILL alone.
    Kill,
    /// A power cut of the file system that holds its database.
    PowerCut(&'m Mount),
}

impl End<'_> {
    /// Longest life of a process in us: enough for some commits in shared memory, or on a disk.
    fn life_us_max(&self) -> u64 {
        match self {
            End::Kill => KILL_AFTER_US_MAX,
            End::PowerCut(_) => CUT_AFTER_US_MAX,
        }
    }
}

/// Ends a process `count` times; fails at the first wrong database.
pub(crate) fn run(
    method: Method,
    workload: WorkloadName,
    seed: u64,
    count: u64,
    end: &End<'_>,
    format: Format,
) -> Result<()> {
    let start = Instant::now();
    let scratch = Scratch::new()?;
    let path = match end {
        End::Kill => scratch.path().join("killed.db"),
        End::PowerCut(mount) => mount.new_database()?,
    };
    let options = Options::new().checkpoint_log_bytes(super::CHECKPOINT_LOG_BYTES);
    let database = Database::create(&path, &options.clone().method(method).partitions(2))?;
    let mut deed: Box<dyn Deed> = match workload {
        WorkloadName::Standard => Box::new(Bookings::new(seed)),
        WorkloadName::Tpcc => Box::new(Lists::<Tpcc>::new(seed)),
        WorkloadName::Tpcb => Box::new(Lists::<Tpcb>::new(seed)),
        WorkloadName::Tatp => Box::new(Lists::<Tatp>::new(seed)),
        WorkloadName::Sysbench => Box::new(Lists::<Sysbench>::new(seed)),
    };
    deed.prepare(&database, &scratch)?;
    database.close()?;
    let (kind, action) = match end {
        End::Kill => ("kills", "killing"),
        End::PowerCut(_) => ("power-cuts", "cutting the power"),
    };
    let bar = progress::count(action, count);
    let mut random = Random::new(seed);
    let mut recovery_ms_max = 0.0_f64;
    for cycle in 0..count {
        let work = deed.work(cycle);
        let after = Duration::from_micros(random.below(end.life_us_max()));
        let new = match end {
            End::Kill => victim::run_and_kill(&path, work, after)?,
            End::PowerCut(mount) => {
                let new = victim::run_and_end(&path, work, after, &mut || mount.cut_power())?;
                mount.power_on()?;
                new
            }
        };
        let opening = Instant::now();
        let problem = || format!("method {method}, seed {seed}, {kind}, number {}", cycle + 1);
        let database = Database::open_with(&path, &options).with_context(problem)?;
        recovery_ms_max = recovery_ms_max.max(opening.elapsed().as_secs_f64() * 1e3);
        deed.check(&database, cycle, new).with_context(problem)?;
        let report = database.verify().with_context(problem)?;
        if let Some(damage) = report.damage.first() {
            bail!("{}: the deep check found damage: {damage}", problem());
        }
        // Most recoveries replay several lives of the process; without a checkpoint each would take
        // longer than the last.
        if (cycle + 1) % CHECKPOINT_CYCLES == 0 {
            database.checkpoint()?;
        }
        database.close()?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let End::PowerCut(_) = end {
        std::fs::remove_dir_all(&path)?;
    }
    let (acknowledged, unacknowledged) = deed.counts();
    let mut facts = Facts::default();
    facts.add("method", method.name());
    facts.add("kind", kind);
    if let Some(benchmark) = workload.benchmark() {
        facts.add("workload", benchmark.name());
    }
    facts.add("seed", Cell::Whole(seed));
    facts.add("kills", Cell::Whole(count));
    facts.add("acknowledged", Cell::Whole(acknowledged));
    facts.add("unacknowledged", Cell::Whole(unacknowledged));
    facts.add("wrong", Cell::Whole(0));
    facts.add("recovery ms max", Cell::number(recovery_ms_max, 3));
    facts.add("seconds", Cell::number(start.elapsed().as_secs_f64(), 1));
    facts.print_next(format)
}
