//! The search: random transactions, and sampled images at each crash point.
//!
//! A run is a sequence of rounds, each a fresh database that is determined by the round's seed alone. The first round has the
//! seed that was asked for, so the line that a failure prints replays it at once.

use crate::check::{Failure, Recovery};
use crate::drive::{Driver, Oracle, SharedOracle};
use crate::generate::{Random, action, first_rows};
use crate::model::State;
use crate::platform::SimulatedPlatform;
use pmem::device::simulated::{
    Content, CrashPoint, ImageChoice, ImageChoices, SimulatedWorld, WorldOptions, mix,
};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use storage::engine::{Durability, EngineOptions, FenceOrder, Method, create};
use storage::record::LayoutKind;

/// Rows that a round starts with; with 128-byte nodes their index has three levels.
const FIRST_ROWS: i64 = 55;
/// Transactions of a round.
const ROUND_TRANSACTIONS: usize = 60;
/// Images at one crash point.
const POINT_IMAGES: usize = 160;
/// One image in so many is also cut off in its recovery, and lives on.
const DEEP_ONE_IN: u64 = 10;
/// How often a recovery is cut off in a row.
const DEPTH: u32 = 3;

/// What to search, and for how long.
#[derive(Clone, Debug)]
pub struct Config {
    /// The method under test.
    pub method: Method,
    /// Where all randomness comes from.
    pub seed: u64,
    /// Distinct images after which the search ends.
    pub images_max: u64,
    /// Time after which the search ends.
    pub duration_max: Duration,
    /// Sites that do nothing, by name.
    pub disabled: Vec<String>,
}

/// What a search did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Crash points met.
    pub crash_points: u64,
    /// Distinct images recovered and checked.
    pub images: u64,
    /// Images taken inside of recoveries.
    pub nested: u64,
    /// Images that were wrong.
    pub wrong: u64,
    /// Rounds begun.
    pub rounds: u64,
    /// Time taken, seconds.
    pub seconds: f64,
    /// The first wrong image: what was wrong, where, and the line that replays it.
    pub failure: Option<FailureReport>,
}

/// A wrong image.
#[derive(Clone, Debug)]
pub struct FailureReport {
    /// What is wrong with it.
    pub what: String,
    /// The crash point.
    pub point: String,
    /// Step of the world at which it was taken.
    pub event: u64,
    /// What survived.
    pub survivors: String,
    /// Seed of its round.
    pub seed: u64,
}

/// Searches until images or time are used up, or an image is wrong. `progress` is called now and then.
pub fn search(config: &Config, progress: &mut dyn FnMut(&Report)) -> Report {
    let start = Instant::now();
    let shared = Arc::new(Mutex::new(Searcher::new(
        config,
        start + config.duration_max,
    )));
    let mut seed = config.seed;
    loop {
        let result = catch_unwind(AssertUnwindSafe(|| round(config, seed, &shared)));
        let mut searcher = shared
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        searcher.report.rounds += 1;
        searcher.report.seconds = start.elapsed().as_secs_f64();
        let failure = match result {
            Ok(Ok(_)) => None,
            Ok(Err(failure)) => Some(failure.0),
            Err(panic) => Some(format!("panic: {}", panic_text(&*panic))),
        };
        if let Some(what) = failure.filter(|_| searcher.report.failure.is_none()) {
            searcher.report.wrong += 1;
            let point = "the live engine".to_owned();
            searcher.report.failure = Some(FailureReport {
                what,
                point,
                event: 0,
                survivors: String::new(),
                seed,
            });
        }
        progress(&searcher.report);
        if searcher.is_over() {
            return searcher.report.clone();
        }
        seed = mix(seed.wrapping_add(1));
    }
}

/// The engine options of a round: layouts and fence orders take turns.
pub(crate) fn options(seed: u64) -> EngineOptions {
    EngineOptions {
        database_id: u128::from(mix(seed)),
        layout: if seed.is_multiple_of(2) {
            LayoutKind::Together
        } else {
            LayoutKind::Separate
        },
        node_bytes: 128,
        fences: if seed % 8 == 5 {
            FenceOrder::Paper
        } else {
            FenceOrder::Shared
        },
        pool_bytes: 256 << 10,
        checkpoint_log_bytes: 16 << 10,
        ..EngineOptions::default()
    }
}

/// A world whose new memory holds what a used device would.
pub(crate) fn new_world(seed: u64) -> SimulatedWorld {
    let content = if seed % 4 == 3 {
        let used: Vec<u8> = (0..4096_u64)
            .flat_map(|word| mix(word ^ seed).to_le_bytes())
            .collect();
        Content::Recycled(used.into())
    } else {
        Content::Garbage
    };
    SimulatedWorld::new(WorldOptions {
        seed,
        content,
        ..WorldOptions::default()
    })
}

/// Runs one round and returns its world.
pub(crate) fn round(
    config: &Config,
    seed: u64,
    shared: &Arc<Mutex<Searcher>>,
) -> Result<SimulatedWorld, Failure> {
    let world = new_world(seed);
    for site in &config.disabled {
        world.disable(site);
    }
    let options = options(seed);
    let oracle: SharedOracle = Arc::default();
    lock(&oracle).allowed.push_back(Arc::new(State::default()));
    let recovery = Recovery {
        method: config.method,
        options: options.clone(),
    };
    observe(&world, shared, &oracle, recovery, seed);
    let result = drive_round(config, seed, &world, &options, &oracle, shared);
    world.unobserve();
    result.map(|()| world)
}

fn drive_round(
    config: &Config,
    seed: u64,
    world: &SimulatedWorld,
    options: &EngineOptions,
    oracle: &SharedOracle,
    shared: &Arc<Mutex<Searcher>>,
) -> Result<(), Failure> {
    let mut random = Random::new(seed);
    let platform = SimulatedPlatform::new(world);
    let engine = create(&platform, config.method, options)
        .map_err(|error| Failure::new("creation", error))?;
    let durability = if seed % 3 == 1 {
        Durability::Group
    } else {
        Durability::Immediate
    };
    let mut driver = Driver::new(
        engine,
        world,
        Arc::clone(oracle),
        State::default(),
        durability,
    );
    world.mark(CrashPoint::Mark("created"));
    driver.populate(first_rows(&mut random, FIRST_ROWS))?;
    for _ in 0..ROUND_TRANSACTIONS {
        let next = action(&mut random, &driver.state);
        driver.run(&next)?;
        if lock(shared).is_over() {
            return Ok(());
        }
    }
    driver
        .engine
        .force()
        .map_err(|error| Failure::new("force", error))?;
    driver.acknowledge_all();
    driver.compare()
}

fn observe(
    world: &SimulatedWorld,
    shared: &Arc<Mutex<Searcher>>,
    oracle: &SharedOracle,
    recovery: Recovery,
    seed: u64,
) {
    let (shared, oracle) = (Arc::clone(shared), Arc::clone(oracle));
    let mut scratch: Option<SimulatedWorld> = None;
    world.observe(move |world, point| {
        let oracle = lock(&oracle).clone();
        let mut searcher = lock(&shared);
        if searcher.is_over() {
            return;
        }
        searcher.report.crash_points += 1;
        let step = mix(seed ^ world.events());
        for choice in pick(world, step) {
            let key = (
                world.image_hash(&choice),
                Arc::as_ptr(&oracle.allowed[oracle.allowed.len() - 1]) as usize,
            );
            if !searcher.seen.insert(mix(key.0 ^ mix(key.1 as u64))) {
                continue;
            }
            searcher.count_image(key.0);
            let result = check_image(world, &choice, &oracle, &recovery, &mut scratch, step);
            match result {
                Ok(nested) => searcher.report.nested += nested,
                Err(failure) => return searcher.fail(world, point, &choice, failure, seed),
            }
            if searcher.is_over() {
                return;
            }
        }
    });
}

/// The images to take here: all kinds of them, thinned out evenly.
fn pick(world: &SimulatedWorld, step: u64) -> Vec<ImageChoice> {
    let all: Vec<_> = ImageChoices::sampled(world, step, POINT_IMAGES / 2).collect();
    if all.len() <= POINT_IMAGES {
        return all;
    }
    let chances = all.len() as u64;
    let kept = |(number, _): &(usize, ImageChoice)| {
        *number < 2 || mix(step ^ *number as u64) % chances < POINT_IMAGES as u64
    };
    all.into_iter()
        .enumerate()
        .filter(kept)
        .map(|(_, choice)| choice)
        .collect()
}

pub(crate) fn check_image(
    world: &SimulatedWorld,
    choice: &ImageChoice,
    oracle: &Oracle,
    recovery: &Recovery,
    scratch: &mut Option<SimulatedWorld>,
    step: u64,
) -> Result<u64, Failure> {
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut image = match scratch.take() {
            Some(mut image) => {
                world
                    .image_into(choice, &mut image)
                    .map_err(|error| Failure::new("image", error))?;
                image
            }
            None => world
                .image(choice)
                .map_err(|error| Failure::new("image", error))?,
        };
        let deep = mix(world.image_hash(choice) ^ step).is_multiple_of(DEEP_ONE_IN);
        let mut nested = 0;
        if deep {
            nested = recovery.check_nested(&image, oracle, step, DEPTH)?;
            world
                .image_into(choice, &mut image)
                .map_err(|error| Failure::new("image", error))?;
        }
        recovery.check(&image, oracle)?;
        if deep {
            recovery.check_life_after(&image, oracle, step)?;
        }
        *scratch = Some(image);
        Ok(nested)
    }));
    result.unwrap_or_else(|panic| Err(Failure(format!("panic: {}", panic_text(&*panic)))))
}

/// The counters of a search, shared with the observer inside of the device.
pub(crate) struct Searcher {
    pub(crate) report: Report,
    images_max: u64,
    deadline: Instant,
    /// Pairs of image and allowed states that were checked.
    seen: HashSet<u64>,
    /// Images by content.
    distinct: HashSet<u64>,
}

impl Searcher {
    pub(crate) fn new(config: &Config, deadline: Instant) -> Self {
        Self {
            report: Report::default(),
            images_max: config.images_max,
            deadline,
            seen: HashSet::new(),
            distinct: HashSet::new(),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.report.failure.is_some()
            || self.report.images >= self.images_max
            || Instant::now() >= self.deadline
    }

    fn count_image(&mut self, hash: u64) {
        if self.distinct.insert(hash) {
            self.report.images += 1;
        }
    }

    fn fail(
        &mut self,
        world: &SimulatedWorld,
        point: CrashPoint,
        choice: &ImageChoice,
        failure: Failure,
        seed: u64,
    ) {
        self.report.wrong += 1;
        self.report.failure.get_or_insert(FailureReport {
            what: failure.0,
            point: format!("{point:?}"),
            event: world.events(),
            survivors: world.describe(choice),
            seed,
        });
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into())
}
