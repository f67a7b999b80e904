//! Many kills, or power cuts, of one database: each cycle goes on where the last one was recovered.
//!
//! After every one the database is opened, all bookings of all cycles are checked, and the deep check runs. The moment of each
//! kill is drawn from the seed, from a few microseconds after the first acknowledgement to ten milliseconds.

use super::power::Mount;
use super::victim::{self, Work};
use super::{bookings, import_airports};
use crate::args::VictimJob;
use crate::output::{Cell, Facts, Format};
use crate::progress;
use crate::scratch::Scratch;
use anyhow::{Context, Result, bail};
use indelible::{Database, Method, Options};
use std::time::{Duration, Instant};
use workload::random::Random;

/// Latest moment of a kill after the first acknowledgement.
const KILL_AFTER_US_MAX: u64 = 10_000;
/// Cycles between two checkpoints.
const CHECKPOINT_CYCLES: u64 = 5;
/// Numbers of bookings that one cycle may use.
const NUMBERS_OF_CYCLE: u64 = 1 << 32;

/// What ends the process.
pub(crate) enum End<'m> {
    /// SIGKILL alone.
    Kill,
    /// The power of the file system that its database lies on.
    PowerCut(&'m Mount),
}

/// Ends a process `count` times; fails at the first database that is not what it must be.
pub(crate) fn run(
    method: Method,
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
    let database = Database::create(&path, &Options::new().method(method).partitions(2))?;
    import_airports(&database, &scratch)?;
    bookings::prepare(&database)?;
    database.close()?;
    let (kind, action) = match end {
        End::Kill => ("kills", "killing"),
        End::PowerCut(_) => ("power-cuts", "cutting the power"),
    };
    let bar = progress::count(action, count);
    let mut random = Random::new(seed);
    let mut acknowledged = Vec::new();
    let (mut recovery_ms_max, mut unacknowledged) = (0.0_f64, 0);
    for cycle in 0..count {
        let first = cycle * NUMBERS_OF_CYCLE;
        let work = Work {
            job: VictimJob::Bookings,
            rows: 0,
            seed,
            first,
        };
        let after = Duration::from_micros(random.below(KILL_AFTER_US_MAX));
        let new = match end {
            End::Kill => victim::run_and_kill(&path, work, after)?,
            End::PowerCut(mount) => {
                let new = victim::run_and_end(&path, work, after, &mut || mount.cut_power())?;
                mount.power_on()?;
                new
            }
        };
        acknowledged.extend(new.into_iter().map(|(_, number)| number));
        let opening = Instant::now();
        let problem = || format!("method {method}, seed {seed}, {kind}, number {}", cycle + 1);
        let database = Database::open(&path).with_context(problem)?;
        recovery_ms_max = recovery_ms_max.max(opening.elapsed().as_secs_f64() * 1e3);
        let verdict =
            bookings::check(&database, seed, &acknowledged, cycle + 1).with_context(problem)?;
        unacknowledged = verdict.unacknowledged;
        let report = database.verify().with_context(problem)?;
        if let Some(damage) = report.damage.first() {
            bail!("{}: the deep check found damage: {damage}", problem());
        }
        // Most recoveries replay several lives of the process; without an end to that each would take longer than the last.
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
    let mut facts = Facts::default();
    facts.add("method", method.name());
    facts.add("kind", kind);
    facts.add("seed", Cell::Whole(seed));
    facts.add("kills", Cell::Whole(count));
    facts.add("acknowledged", Cell::Whole(acknowledged.len() as u64));
    facts.add("unacknowledged", Cell::Whole(unacknowledged));
    facts.add("wrong", Cell::Whole(0));
    facts.add("recovery ms max", Cell::number(recovery_ms_max, 3));
    facts.add("seconds", Cell::number(start.elapsed().as_secs_f64(), 1));
    facts.print(format)
}
