//! Every image at each crash point of a short script.
//!
//! Undecided lines are branched on when recovery or a check reads them, which is exact and keeps
//! their number small (see [`Branches`]). A crash point with more images than [`IMAGES_MAX`] fails
//! the scenario: nothing is sampled silently. Each image is also cut off in its recovery and
//! recovered a second time without a store; every other one is used afterwards.

use crate::check::{Failure, Recovery, Thoroughness, lock};
use crate::drive::{Depth, Driver, Oracle, SharedOracle};
use crate::generate::{Random, first_rows};
use crate::model::State;
use crate::scenarios::Scenario;
use crate::search::{DIED, FailureReport, Report, Subject, live_failure, world_with};
use indelible::SimulatedPlatform;
use pmem::device::simulated::{Branches, SimulatedWorld, mix};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use storage::EngineSource;
use storage::engine::Durability;

/// Most images at one crash point.
pub const IMAGES_MAX: u64 = 65_536;

/// The beginning of the failure message if there are more.
pub(crate) const TOO_MANY: &str = "too many images";

/// One in this many images of a crash point is used after its recoveries, and always the first one.
const LIFE_ONE_IN: u64 = 2;
/// Deaths of the process at each crash point.
const DEATHS: u64 = 3;
/// The same after the pool has grown.
const GROWN_DEATHS: u64 = 24;
/// Images at the first crash point of each site in lives after that.
const GROWN_SITE_IMAGES: u64 = 3;
/// One in this many lives after recovery ends with the growth of the pool.
const GROWTH_ONE_IN: u64 = 4;

/// Runs one scenario with every image, or with the first `images_max`.
pub(crate) fn run(
    scenario: &Scenario,
    subject: Subject,
    seed: u64,
    disabled: &[String],
    images_max: u64,
) -> Report {
    let start = Instant::now();
    let shared = Arc::new(Mutex::new(Exhaustive {
        images_max,
        ..Exhaustive::default()
    }));
    let result = catch_unwind(AssertUnwindSafe(|| {
        drive(scenario, subject, seed, disabled, &shared)
    }));
    let result = result.unwrap_or_else(|panic| Err(Failure::panicked(&*panic)));
    let mut report = std::mem::take(&mut lock(&shared).report);
    if let Err(failure) = result
        && report.failure.is_none()
    {
        report.failure = Some(live_failure(failure, seed));
    }
    report.wrong = u64::from(report.failure.is_some());
    report.rounds = 1;
    report.seconds = start.elapsed().as_secs_f64();
    report
}

/// The counters of a scenario, shared with the observer inside of the device.
#[derive(Default)]
struct Exhaustive {
    report: Report,
    distinct: HashSet<u64>,
    images_max: u64,
}

fn drive(
    scenario: &Scenario,
    subject: Subject,
    seed: u64,
    disabled: &[String],
    shared: &Arc<Mutex<Exhaustive>>,
) -> Result<(), Failure> {
    let world = world_with(seed, subject.atomicity);
    let (method, options) = (subject.method, subject.options(seed));
    let oracle: SharedOracle = Arc::default();
    let platform = SimulatedPlatform::new(&world);
    let engine = platform
        .create_engine(method, &options)
        .map_err(|error| Failure::new("creation", error))?;
    let durability = Durability::Immediate;
    let mut driver = Driver::new(
        engine,
        &world,
        Arc::clone(&oracle),
        State::default(),
        durability,
    );
    let mut random = Random::new(seed);
    driver.populate_with(scenario.indexes, &first_rows(&mut random, scenario.rows))?;
    for site in disabled {
        world.disable(site);
    }
    let usual = Recovery::new(method, options).growing(GROWTH_ONE_IN);
    // A second growth finds the header as the first one left it.
    let grown = usual.clone().growing_again(GROWN_SITE_IMAGES);
    // Images after deaths are recovered once each: their recoveries' reads are not needed.
    let usual = (usual.clone(), usual.remembering(), DEATHS);
    let grown = (grown.clone(), grown.remembering(), GROWN_DEATHS);
    let bytes = memory_bytes(&world);
    let watched = Arc::clone(shared);
    world.observe(move |world, point| {
        let oracle = Arc::new(lock(&oracle).clone());
        let mut exhaustive = lock(&watched);
        let (recovery, after_death, deaths) = if memory_bytes(world) > bytes {
            &grown
        } else {
            &usual
        };
        if exhaustive.report.failure.is_none()
            && let Err((failure, survivors)) = exhaustive
                .point(world, &oracle, recovery)
                .and_then(|()| exhaustive.deaths(world, &oracle, after_death, *deaths))
        {
            exhaustive.report.failure = Some(FailureReport {
                point: format!("{point:?}"),
                event: world.events(),
                survivors,
                atomicity: subject.atomicity,
                fences: subject.fences,
                ..live_failure(failure, seed)
            });
        }
    });
    for action in (scenario.script)(&mut random) {
        driver.run(&action)?;
    }
    world.unobserve();
    driver.compare(Depth::Structure)
}

/// Length of all durable memories.
fn memory_bytes(world: &SimulatedWorld) -> u64 {
    world.memory_lengths().iter().map(|(_, bytes)| bytes).sum()
}

impl Exhaustive {
    fn is_over(&self) -> bool {
        self.report.images >= self.images_max
    }

    fn point(
        &mut self,
        world: &SimulatedWorld,
        oracle: &Arc<Oracle>,
        recovery: &Recovery,
    ) -> Result<(), (Failure, String)> {
        self.report.crash_points += 1;
        let seed = mix(world.events());
        let mut branches = Branches::new(world, seed, IMAGES_MAX);
        for number in 0.. {
            let next = branches.take();
            let next = next.map_err(|error| (Failure::new(TOO_MANY, error), String::new()))?;
            let Some(choice) = next.filter(|_| !self.is_over()) else {
                return Ok(());
            };
            let hash = world.image_hash(&choice);
            if self.distinct.insert(hash) {
                self.report.images += 1;
            }
            let make = |image: &mut SimulatedWorld| branches.image(world, image);
            let thoroughness = if number % LIFE_ONE_IN == 0 {
                Thoroughness::Deep
            } else {
                Thoroughness::Nested
            };
            let examined = recovery
                .examine(world, &make, oracle, thoroughness, mix(seed ^ number))
                .map_err(|failure| (failure, world.describe(&choice)))?;
            self.report.nested += examined.nested;
            branches.checked(world);
        }
        Ok(())
    }

    /// Lets the process die here, so often.
    fn deaths(
        &mut self,
        world: &SimulatedWorld,
        oracle: &Oracle,
        recovery: &Recovery,
        count: u64,
    ) -> Result<(), (Failure, String)> {
        let seed = mix(world.events());
        for number in 0..count {
            if self.is_over() {
                break;
            }
            self.report.process_deaths += 1;
            let images = recovery.examine_death(world, oracle, mix(seed ^ mix(number)));
            self.report.nested += images.map_err(|failure| (failure, DIED.to_owned()))?;
        }
        Ok(())
    }
}
