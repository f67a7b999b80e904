//! Torn writes: recovery copes with any subset of sectors that a power cut leaves of a write to a
//! file.
//!
//! Before each sync of a scenario every unsynced write is torn: of each 4 KiB all 256 subsets of
//! the eight sectors, with everything else that is unsynced kept once and lost once. Of long writes
//! a few stretches are torn, and the report has their number and that of all stretches. Equal
//! images are checked once.

use super::chosen;
use crate::check::{Failure, Recovery, Thoroughness, lock};
use crate::drive::{Driver, Oracle, SharedOracle};
use crate::generate::{Random, first_rows};
use crate::model::State;
use crate::scenarios::Scenario;
use crate::search::{new_world, options};
use indelible::SimulatedPlatform;
use pmem::device::simulated::{CrashPoint, ImageChoice, SimulatedWorld, Unit, UnitChoice, mix};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use storage::EngineSource;
use storage::engine::{Durability, Method};

/// Units of devices below are lines of memories, which do not tear in sectors.
const FIRST_FILES: u32 = 1 << 16;
/// Sectors that are torn together.
const SECTORS: u32 = 8;
/// Stretches of one write that are torn.
const STRETCHES_MAX: u32 = 6;

/// Result of a run with torn writes.
#[derive(Clone, Debug, Default)]
pub struct TornReport {
    /// Scenarios that ran.
    pub scenarios: u64,
    /// Writes that were torn.
    pub writes: u64,
    /// Stretches of up to 4 KiB that were torn.
    pub stretches: u64,
    /// Stretches that those writes have.
    pub stretches_all: u64,
    /// Distinct images recovered and checked.
    pub images: u64,
    /// Images that were wrong, with their places; the first of each scenario.
    pub wrong: Vec<String>,
    /// Time taken, seconds.
    pub seconds: f64,
}

/// Tears the writes of a method's scenarios. `progress` is called with the scenarios that are done
/// and their number.
pub fn tear(
    method: Method,
    seed: u64,
    full: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<TornReport, Failure> {
    let start = Instant::now();
    let shared = Arc::new(Mutex::new(Tearer::default()));
    let scenarios: Vec<_> = chosen(full).collect();
    for (number, scenario) in scenarios.iter().enumerate() {
        progress(number as u64, scenarios.len() as u64);
        let result = catch_unwind(AssertUnwindSafe(|| run(scenario, method, seed, &shared)));
        let result = result.unwrap_or_else(|panic| Err(Failure::panicked(&*panic)));
        let mut tearer = lock(&shared);
        tearer.report.scenarios += 1;
        tearer.has_failed = false;
        tearer.seen.clear();
        if let Err(failure) = result {
            tearer
                .report
                .wrong
                .push(format!("{}: {failure}", scenario.name));
        }
    }
    let mut report = std::mem::take(&mut lock(&shared).report);
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

fn run(
    scenario: &Scenario,
    method: Method,
    seed: u64,
    shared: &Arc<Mutex<Tearer>>,
) -> Result<(), Failure> {
    let world = new_world(seed);
    let options = options(method, seed);
    let platform = SimulatedPlatform::new(&world);
    let engine = platform
        .create_engine(method, &options)
        .map_err(|error| Failure::new("creation", error))?;
    let oracle: SharedOracle = Arc::default();
    let durability = Durability::Immediate;
    let for_driver = Arc::clone(&oracle);
    let mut driver = Driver::new(engine, &world, for_driver, State::default(), durability);
    let recovery = Recovery::new(method, options);
    let (shared, name) = (Arc::clone(shared), scenario.name);
    world.observe(move |world, point| {
        let CrashPoint::Sync(site) = point else {
            return;
        };
        let oracle = Arc::new(lock(&oracle).clone());
        let mut tearer = lock(&shared);
        if tearer.has_failed {
            return;
        }
        if let Err(failure) = tearer.look(world, &oracle, &recovery) {
            let place = format!("{name} at {}, event {}", site.name, world.events());
            tearer.report.wrong.push(format!("{place}: {failure}"));
            tearer.has_failed = true;
        }
    });
    let mut random = Random::new(seed);
    let result = driver
        .populate_with(scenario.indexes, &first_rows(&mut random, scenario.rows))
        .and_then(|()| {
            let mut script = (scenario.script)(&mut random).into_iter();
            script.try_for_each(|action| driver.run(&action))
        });
    world.unobserve();
    result
}

/// The counters of a run, shared with the observer inside of the device.
#[derive(Default)]
struct Tearer {
    report: TornReport,
    seen: HashSet<(u64, usize)>,
    has_failed: bool,
}

impl Tearer {
    fn look(
        &mut self,
        world: &SimulatedWorld,
        oracle: &Arc<Oracle>,
        recovery: &Recovery,
    ) -> Result<(), Failure> {
        let units: Vec<Unit> = world
            .units()
            .into_iter()
            .filter(|unit| unit.device >= FIRST_FILES)
            .collect();
        for (number, unit) in units.iter().enumerate() {
            let pieces = u32::from(unit.ordered.first().copied().unwrap_or(0));
            if pieces < 2 {
                continue;
            }
            self.report.writes += 1;
            let all = pieces.div_ceil(SECTORS);
            self.report.stretches_all += u64::from(all);
            for stretch in stretches(all, world.events()) {
                self.report.stretches += 1;
                for others_stay in [true, false] {
                    let kept = units
                        .iter()
                        .enumerate()
                        .filter(|(other, _)| others_stay && *other != number);
                    let kept: Vec<UnitChoice> =
                        kept.map(|(_, unit)| choice(unit, u64::MAX)).collect();
                    for subset in 0..1_u64 << SECTORS.min(pieces - stretch * SECTORS) {
                        let torn = torn(pieces, stretch, subset);
                        let mut units = kept.clone();
                        units.push(choice(unit, torn));
                        self.check(world, ImageChoice { units }, oracle, recovery)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn check(
        &mut self,
        world: &SimulatedWorld,
        mut choice: ImageChoice,
        oracle: &Arc<Oracle>,
        recovery: &Recovery,
    ) -> Result<(), Failure> {
        choice.units.sort();
        // Equal images hold the same; whether that is allowed changes at each acknowledgement,
        // which is no sync.
        if !self
            .seen
            .insert((world.image_hash(&choice), oracle.decided.len()))
        {
            return Ok(());
        }
        self.report.images += 1;
        let make = |image: &mut SimulatedWorld| world.image_into(&choice, image);
        recovery
            .examine(world, &make, oracle, Thoroughness::Plain, world.events())
            .map(|_| ())
            .map_err(|failure| Failure::new(&world.describe(&choice), failure))
    }
}

/// The surviving part of a write: the pieces in `bits`, or all of it.
fn choice(unit: &Unit, bits: u64) -> UnitChoice {
    let pieces = u32::from(unit.ordered.first().copied().unwrap_or(0));
    let every = 1_u64.checked_shl(pieces).map_or(u64::MAX, |bit| bit - 1);
    let is_whole = bits & every == every;
    UnitChoice {
        device: unit.device,
        index: unit.index,
        kept: u32::from(is_whole),
        torn: if is_whole { 0 } else { bits & every },
        streams: 0,
    }
}

/// All pieces, but in one stretch only those of a subset.
fn torn(pieces: u32, stretch: u32, subset: u64) -> u64 {
    let first = stretch * SECTORS;
    let width = SECTORS.min(pieces - first);
    let mask = ((1_u64 << width) - 1) << first;
    !mask | (subset << first)
}

/// Which stretches of a write are torn: all, or the first, the last and some between.
fn stretches(all: u32, seed: u64) -> Vec<u32> {
    if all <= STRETCHES_MAX {
        return (0..all).collect();
    }
    let mut chosen = vec![0, all - 1];
    for number in 0..u64::from(STRETCHES_MAX) - 2 {
        chosen.push((mix(seed ^ number) % u64::from(all)) as u32);
    }
    chosen.sort_unstable();
    chosen.dedup();
    chosen
}
