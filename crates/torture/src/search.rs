//! The search: random transactions, and sampled images at each crash point.
//!
//! A run is a sequence of rounds, each a fresh database that is determined by the round's seed alone. The first round has the
//! seed that was asked for, so the line that a failure prints replays it at once.

use crate::check::{Failure, Recovery, Thoroughness, lock};
use crate::drive::{Depth, Driver, SharedOracle};
use crate::generate::{Random, action, first_rows};
use crate::model::State;
use crate::platform::SimulatedPlatform;
use pmem::device::simulated::{
    Content, CrashPoint, ImageChoice, ImageChoices, SimulatedWorld, WorldOptions, mix,
};
use std::collections::{HashMap, HashSet};
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
const POINT_IMAGES: usize = 40;
/// One image in so many is also cut off in its recovery, and lives on.
const DEEP_ONE_IN: u64 = 10;

/// Crash points at one site that are looked at more deeply than later ones.
const RARE_VISITS: u64 = 6;

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

impl FailureReport {
    /// The command that finds it again.
    pub fn replay(&self, method: Method) -> String {
        format!(
            "indelible torture --method {} --seed {}",
            method.name(),
            self.seed
        )
    }
}

/// How a search goes about it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) config: Config,
    /// Images at one crash point.
    pub(crate) point_images: usize,
    /// One image in so many is cut off in its recovery and lives on.
    pub(crate) deep_one_in: u64,
    /// Seeds of the first rounds.
    pub(crate) seeds: Vec<u64>,
    /// A site before whose first use there is nothing to find.
    pub(crate) wait_for: Option<&'static str>,
}

impl Plan {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            point_images: POINT_IMAGES,
            deep_one_in: DEEP_ONE_IN,
            seeds: vec![config.seed],
            wait_for: None,
        }
    }
}

/// Searches until images or time are used up, or an image is wrong. `progress` is called now and then.
pub fn search(config: &Config, progress: &mut dyn FnMut(&Report)) -> Report {
    run(Plan::new(config), progress)
}

pub(crate) fn run(plan: Plan, progress: &mut dyn FnMut(&Report)) -> Report {
    let start = Instant::now();
    let mut seeds = plan.seeds.clone().into_iter();
    let mut seed = seeds.next().unwrap_or(plan.config.seed);
    let shared = Arc::new(Mutex::new(Searcher::new(plan)));
    loop {
        let result = catch_unwind(AssertUnwindSafe(|| round(seed, &shared)));
        let result = result.unwrap_or_else(|panic| Err(Failure::panicked(&*panic)));
        let mut searcher = lock(&shared);
        searcher.report.rounds += 1;
        searcher.report.seconds = start.elapsed().as_secs_f64();
        if let Err(failure) = result
            && searcher.report.failure.is_none()
        {
            searcher.report.wrong += 1;
            searcher.report.failure = Some(live_failure(failure, seed));
        }
        progress(&searcher.report);
        if searcher.is_over() {
            return searcher.report.clone();
        }
        searcher.seen.clear();
        seed = seeds.next().unwrap_or_else(|| mix(seed.wrapping_add(1)));
    }
}

/// A failure that needed no power cut.
pub(crate) fn live_failure(failure: Failure, seed: u64) -> FailureReport {
    FailureReport {
        what: failure.0,
        point: "the live engine".to_owned(),
        event: 0,
        survivors: String::new(),
        seed,
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
        fences: match seed % 8 {
            5 => FenceOrder::Paper,
            2 | 7 => FenceOrder::Shared,
            _ => FenceOrder::Single,
        },
        pool_bytes: if seed.is_multiple_of(3) {
            256 << 10
        } else {
            384 << 10
        },
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
pub(crate) fn round(seed: u64, shared: &Arc<Mutex<Searcher>>) -> Result<SimulatedWorld, Failure> {
    let world = new_world(seed);
    let (method, images) = {
        let searcher = lock(shared);
        for site in &searcher.plan.config.disabled {
            world.disable(site);
        }
        (searcher.plan.config.method, searcher.plan.point_images)
    };
    let options = options(seed);
    let oracle: SharedOracle = Arc::default();
    lock(&oracle).allowed.push_back(Arc::new(State::default()));
    if images > 0 {
        observe(
            &world,
            shared,
            &oracle,
            Recovery::new(method, options.clone()),
            seed,
        );
    }
    let result = drive_round(method, seed, &world, &options, &oracle, shared);
    world.unobserve();
    result.map(|()| world)
}

fn drive_round(
    method: Method,
    seed: u64,
    world: &SimulatedWorld,
    options: &EngineOptions,
    oracle: &SharedOracle,
    shared: &Arc<Mutex<Searcher>>,
) -> Result<(), Failure> {
    let mut random = Random::new(seed);
    let platform = SimulatedPlatform::new(world);
    let engine =
        create(&platform, method, options).map_err(|error| Failure::new("creation", error))?;
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
    driver.populate(&first_rows(&mut random, FIRST_ROWS))?;
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
    driver.compare(Depth::Structure)
}

fn observe(
    world: &SimulatedWorld,
    shared: &Arc<Mutex<Searcher>>,
    oracle: &SharedOracle,
    recovery: Recovery,
    seed: u64,
) {
    let (shared, oracle) = (Arc::clone(shared), Arc::clone(oracle));
    world.observe(move |world, point| {
        let oracle = Arc::new(lock(&oracle).clone());
        let mut searcher = lock(&shared);
        if searcher.is_over() || searcher.is_waiting(world) {
            return;
        }
        searcher.report.crash_points += 1;
        let step = mix(seed ^ world.events());
        let images = searcher.plan.point_images;
        let deep_one_in = searcher.deep_one_in(point);
        for (number, choice) in (0..).zip(ImageChoices::bounded(world, step, images)) {
            let hash = world.image_hash(&choice);
            // What an image recovers to depends on its content and on the decisions; what is allowed changes more often.
            let key = (hash, oracle.decided.len());
            if let Some(state) = searcher.seen.get(&key) {
                if oracle.allows(state) {
                    continue;
                }
                let failure = Failure::text("an image of an earlier or later state");
                return searcher.fail(world, point, &choice, failure, seed);
            }
            searcher.count_image(hash);
            // Not from the hash: a pool holds the time at which it was made.
            let step = mix(step.wrapping_add(number));
            let thoroughness = if step.is_multiple_of(deep_one_in) {
                Thoroughness::Deep
            } else {
                Thoroughness::Plain
            };
            let make = |image: &mut SimulatedWorld| world.image_into(&choice, image);
            match recovery.examine(world, &make, &oracle, thoroughness, step) {
                Ok(examined) => {
                    searcher.report.nested += examined.nested;
                    if let Some(state) = examined.state {
                        searcher.seen.insert(key, state);
                    }
                }
                Err(failure) => return searcher.fail(world, point, &choice, failure, seed),
            }
            if searcher.is_over() {
                return;
            }
        }
    });
}

/// The counters of a search, shared with the observer inside of the device.
pub(crate) struct Searcher {
    pub(crate) report: Report,
    plan: Plan,
    deadline: Instant,
    /// Images of this round, with the number of decisions for which they were recovered, and what they hold.
    seen: HashMap<(u64, usize), Arc<State>>,
    /// Images by content.
    distinct: HashSet<u64>,
    waited: bool,
    /// Crash points by site.
    visits: HashMap<&'static str, u64>,
}

impl Searcher {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            report: Report::default(),
            deadline: Instant::now() + plan.config.duration_max,
            seen: HashMap::new(),
            distinct: HashSet::new(),
            waited: false,
            visits: HashMap::new(),
            plan,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.report.failure.is_some()
            || self.report.images >= self.plan.config.images_max
            || Instant::now() >= self.deadline
    }

    /// Whether the site that the search is about has had nothing to do yet.
    fn is_waiting(&mut self, world: &SimulatedWorld) -> bool {
        let Some(name) = self.plan.wait_for.filter(|_| !self.waited) else {
            return false;
        };
        let sites = world.sites();
        self.waited = sites
            .iter()
            .any(|site| site.name == name && site.useful > 0);
        !self.waited
    }

    /// One image in how many is looked at deeply: more of them where the search seldom comes.
    fn deep_one_in(&mut self, point: CrashPoint) -> u64 {
        let usual = self.plan.deep_one_in;
        let (CrashPoint::Fence(site) | CrashPoint::Sync(site)) = point else {
            return usual;
        };
        let visits = self.visits.entry(site.name).or_default();
        *visits += 1;
        if *visits <= RARE_VISITS {
            usual.min(2)
        } else {
            usual
        }
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
