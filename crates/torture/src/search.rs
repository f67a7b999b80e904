//! The search: random transactions, and sampled images at each crash point.
//!
//! A run is a sequence of rounds, each a fresh database that is determined by the round's seed
//! alone. The corpus comes first; then the round with the given seed. A focused round runs a part
//! of its operations only, and takes images in its last transaction only. Failures are minimised to
//! such a round, and the line that they print replays it.

use crate::check::{Failure, Recovery, Thoroughness, lock};
use crate::connections::{self, ConnectionDriver, Turns};
use crate::corpus;
use crate::drive::{Depth, Driver, Oracle, SharedOracle};
use crate::minimise::{Minimised, minimise};
use crate::model::State;
use crate::script::{RoundScript, Script, Selection};
use indelible::SimulatedPlatform;
use pmem::PowerFailAtomicity;
use pmem::device::simulated::{
    Content, CrashPoint, ImageChoices, SimulatedWorld, WorldOptions, mix,
};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use storage::EngineSource;
use storage::engine::{
    AfterCrash, Durability, EngineOptions, FenceOrder, HeaderImages, Locking, Method, Persist,
};
use storage::record::LayoutKind;

/// Images at one crash point.
const POINT_IMAGES: usize = 40;
/// The same with connections, whose rounds are longer: more of them are seen.
const TURN_IMAGES: usize = 4;
/// One in this many images is also cut off in its recovery, and lives on.
const DEEP_ONE_IN: u64 = 10;

/// For one in this many new images the process dies at its crash point without a power cut as well.
const DEATH_ONE_IN: u64 = 256;
/// The same at the first `RARE_DEATHS` crash points of each site.
const RARE_DEATH_ONE_IN: u64 = 8;
const RARE_DEATHS: u64 = 3;
/// The survivors of a process death, in reports.
pub(crate) const DIED: &str = "the process died, and everything was visible";
/// Deaths at each crash point of a part of a round that is checked deeply.
const FOCUSED_DEATHS: u64 = 4;

/// Crash points at one site that are looked at more deeply than later ones.
const RARE_VISITS: u64 = 6;

/// Extent of a search.
#[derive(Clone, Debug)]
pub struct Config {
    /// The method under test.
    pub method: Method,
    /// The unit that a power cut leaves whole, on which the method relies.
    pub atomicity: PowerFailAtomicity,
    /// Order of durable steps in the NVM-aware methods; without one, that of each round's seed.
    pub fences: Option<FenceOrder>,
    /// Connections that take turns; without any, transactions of an engine follow each other.
    pub connections: Option<u32>,
    /// Where all randomness comes from.
    pub seed: u64,
    /// Distinct images after which the search ends.
    pub images_max: u64,
    /// Time after which the search ends.
    pub duration_max: Duration,
    /// Sites that do nothing, by name.
    pub disabled: Vec<String>,
    /// Runs one round, and only this part of it.
    pub focus: Option<Focus>,
    /// Most time spent on making a failure smaller; none if it is zero.
    pub minimise_max: Duration,
}

impl Config {
    /// A search that is bounded by images and time, and minimises a failure in at most a minute.
    pub fn new(method: Method, seed: u64, images_max: u64, duration_max: Duration) -> Self {
        Self {
            method,
            atomicity: PowerFailAtomicity::Word,
            fences: None,
            connections: None,
            seed,
            images_max,
            duration_max,
            disabled: Vec::new(),
            focus: None,
            minimise_max: Duration::from_mins(1),
        }
    }

    /// The engine under test.
    pub(crate) fn subject(&self) -> Subject {
        Subject {
            method: self.method,
            atomicity: self.atomicity,
            fences: self.fences,
        }
    }
}

/// An engine under test: all of its options that a seed does not choose.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Its method.
    pub method: Method,
    /// The unit that a power cut leaves whole, on which the method relies.
    pub atomicity: PowerFailAtomicity,
    /// Order of durable steps in the NVM-aware methods; without one, that of the seed.
    pub fences: Option<FenceOrder>,
}

impl Subject {
    /// A method with the options that searches have if nothing else is said.
    pub fn new(method: Method) -> Self {
        Self {
            method,
            atomicity: PowerFailAtomicity::Word,
            fences: None,
        }
    }

    /// The options of its engine in the round of a seed.
    pub(crate) fn options(self, seed: u64) -> EngineOptions {
        let by_seed = options(self.method, seed);
        EngineOptions {
            atomicity: self.atomicity,
            fences: self.fences.unwrap_or(by_seed.fences),
            ..by_seed
        }
    }
}

/// A part of a round: some of its operations, with images of the last transaction only, all of them
/// checked equally deeply. With all operations, images are taken everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Focus {
    /// The operations that are run.
    pub operations: Selection,
    /// Depth of the checks of each image; without it, that of a search. 0: recovered once. 1: then
    /// recovered again, which must store nothing, and used. 2 to 4: recovery is also cut off, once,
    /// twice, three times in a row. From 1 on the process also dies at each crash point.
    pub depth: Option<u32>,
}

/// A round to run.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) seed: u64,
    pub(crate) focus: Option<Focus>,
}

impl Start {
    /// The whole round.
    pub(crate) fn whole(seed: u64) -> Self {
        Self { seed, focus: None }
    }

    fn depth(&self) -> Option<u32> {
        self.focus.as_ref().and_then(|focus| focus.depth)
    }
}

/// Result of a search.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Crash points met.
    pub crash_points: u64,
    /// Distinct images recovered and checked.
    pub images: u64,
    /// Images taken inside of recoveries, and after deaths of the process.
    pub nested: u64,
    /// Crash points at which the process died without a power cut, too.
    pub process_deaths: u64,
    /// Images that were wrong.
    pub wrong: u64,
    /// Rounds begun.
    pub rounds: u64,
    /// Rounds of them that came from the corpus.
    pub corpus: u64,
    /// Time taken, seconds.
    pub seconds: f64,
    /// The names of all durable steps that ran, switched off or not, in rounds that came to their
    /// end.
    pub sites: BTreeSet<&'static str>,
    /// The first wrong image: the fault, its place, and the line that replays it.
    pub failure: Option<FailureReport>,
}

/// A wrong image.
#[derive(Clone, Debug)]
pub struct FailureReport {
    /// The fault of the image.
    pub what: String,
    /// The crash point.
    pub point: String,
    /// Step of the world at which it was taken.
    pub event: u64,
    /// The surviving units.
    pub survivors: String,
    /// Seed of its round.
    pub seed: u64,
    /// Connections that took turns, if there were any.
    pub connections: Option<u32>,
    /// Transactions or turns of the round that had begun.
    pub transactions: usize,
    /// The part of the round that was run, if it was not the whole.
    pub focus: Option<Focus>,
    /// Sites that did nothing.
    pub disabled: Vec<String>,
    /// The unit that a power cut left whole.
    pub atomicity: PowerFailAtomicity,
    /// The order of durable steps, if the seed did not choose it.
    pub fences: Option<FenceOrder>,
    /// A shorter way to it.
    pub minimised: Option<Minimised>,
}

impl FailureReport {
    /// The command that finds it again: the shortest that is known.
    pub fn replay(&self, method: Method) -> String {
        if let Some(minimised) = &self.minimised {
            return minimised.failure.replay(method);
        }
        let operations = self
            .focus
            .as_ref()
            .map_or_else(Selection::all, |focus| focus.operations.clone());
        let mut line = format!(
            "indelible torture --method {} --seed {} --operations {operations}",
            method.name(),
            self.seed
        );
        if let Some(connections) = self.connections {
            write!(line, " --connections {connections}").expect("a string takes everything");
        }
        if let Some(depth) = self.focus.as_ref().and_then(|focus| focus.depth) {
            write!(line, " --depth {depth}").expect("a string takes everything");
        }
        if self.atomicity != PowerFailAtomicity::Word {
            let bytes = self.atomicity.bytes();
            write!(line, " --power-fail-atomicity {bytes}").expect("a string takes everything");
        }
        if let Some(fences) = self.fences {
            write!(line, " --fences {}", fences.name()).expect("a string takes everything");
        }
        for site in &self.disabled {
            write!(line, " --without {site}").expect("a string takes everything");
        }
        line
    }
}

/// How a search goes about it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) config: Config,
    /// Images at one crash point.
    pub(crate) point_images: usize,
    /// One in this many images is cut off in its recovery and lives on.
    pub(crate) deep_one_in: u64,
    /// For one in this many new images the process dies at its crash point; 0 is never.
    pub(crate) death_one_in: u64,
    /// The first rounds.
    pub(crate) starts: Vec<Start>,
    /// A site before whose first use there is nothing to find.
    pub(crate) wait_for: Option<&'static str>,
}

impl Plan {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            point_images: match config.connections {
                None => POINT_IMAGES,
                Some(_) => TURN_IMAGES,
            },
            deep_one_in: DEEP_ONE_IN,
            death_one_in: DEATH_ONE_IN,
            starts: vec![Start {
                seed: config.seed,
                focus: config.focus.clone(),
            }],
            wait_for: None,
        }
    }
}

/// Searches until images or time are used up, or an image is wrong; it then tries to minimise the
/// failure. The corpus comes first, unless sites are switched off or a part of a round is
/// requested. `progress` is called now and then.
pub fn search(config: &Config, progress: &mut dyn FnMut(&Report)) -> Report {
    let mut plan = Plan::new(config);
    // The corpus has transactions.
    if config.disabled.is_empty() && config.focus.is_none() && config.connections.is_none() {
        plan.starts.splice(0..0, corpus::starts());
    }
    let mut report = run(plan, progress);
    if let Some(failure) = &mut report.failure
        && !config.minimise_max.is_zero()
    {
        failure.minimised = minimise(config, failure);
    }
    report
}

pub(crate) fn run(plan: Plan, progress: &mut dyn FnMut(&Report)) -> Report {
    let begun = Instant::now();
    let is_single = plan.config.focus.is_some();
    let mut starts = plan.starts.clone().into_iter();
    let mut start = starts.next().unwrap_or(Start::whole(plan.config.seed));
    let corpus = plan.starts.len() as u64 - 1;
    let shared = Arc::new(Mutex::new(Searcher::new(plan)));
    loop {
        let result = catch_unwind(AssertUnwindSafe(|| round(&start, &shared)));
        let result = result.unwrap_or_else(|panic| Err(Failure::panicked(&*panic)));
        let mut searcher = lock(&shared);
        searcher.report.rounds += 1;
        searcher.report.corpus = corpus.min(searcher.report.rounds);
        searcher.report.seconds = begun.elapsed().as_secs_f64();
        if let Ok(world) = &result {
            let ran = world.sites().into_iter().map(|site| site.name);
            searcher.report.sites.extend(ran);
        }
        if let Err(failure) = result
            && searcher.report.failure.is_none()
        {
            searcher.report.wrong += 1;
            let failure = FailureReport {
                connections: searcher.plan.config.connections,
                transactions: searcher.transactions,
                focus: start.focus.clone(),
                disabled: searcher.plan.config.disabled.clone(),
                atomicity: searcher.plan.config.atomicity,
                fences: searcher.plan.config.fences,
                ..live_failure(failure, start.seed)
            };
            searcher.report.failure = Some(failure);
        }
        progress(&searcher.report);
        if searcher.is_over() {
            return searcher.report.clone();
        }
        start = match starts.next() {
            Some(next) => next,
            None if is_single => return searcher.report.clone(),
            None => Start::whole(mix(start.seed.wrapping_add(1))),
        };
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
        connections: None,
        transactions: 0,
        focus: None,
        disabled: Vec::new(),
        atomicity: PowerFailAtomicity::Word,
        fences: None,
        minimised: None,
    }
}

/// The engine options of a round: layouts and fence orders take turns.
pub(crate) fn options(method: Method, seed: u64) -> EngineOptions {
    EngineOptions {
        database_id: u128::from(mix(seed)),
        layout: if seed.is_multiple_of(2) {
            LayoutKind::Together
        } else {
            LayoutKind::Separate
        },
        node_bytes: 128,
        // Pages that are written in place must be able to tear, so they have several sectors, and
        // few cells so that trees are deep. A method for devices that write pages whole gets pages
        // of one sector.
        page_bytes: if method.is_paged() && method.survives_torn_pages() {
            1024
        } else {
            512
        },
        page_cells_max: if seed.is_multiple_of(5) {
            usize::MAX
        } else {
            4
        },
        fences: match seed % 8 {
            5 => FenceOrder::Paper,
            2 | 7 => FenceOrder::Shared,
            _ => FenceOrder::Single,
        },
        header_images: if seed.is_multiple_of(4) {
            HeaderImages::Whole
        } else {
            HeaderImages::Shortest
        },
        pool_bytes: if seed.is_multiple_of(3) {
            256 << 10
        } else {
            384 << 10
        },
        // A group that a clock ends would not be the same twice.
        group_transactions_max: 2 + (seed / 3 % 6) as u32,
        group_wait_us_max: u64::MAX,
        checkpoint_log_bytes: 16 << 10,
        // So small that a round freezes MemTables and merges levels.
        memtable_bytes: 1 << 10,
        // The fewest possible frames, so that pages are written while transactions are open.
        buffer_bytes: 0,
        // Undo records are longer than redo records, and trees over the pages of a method without a
        // guard are deeper.
        ring_bytes: match method {
            Method::InPlace | Method::Combined(_) => 4 << 20,
            // So small that some batches are closed early, and some need more room.
            Method::GroupCommit => 16 << 10,
            // So small that a round has several checkpoints.
            _ if method.has_frames() => 12 << 10,
            _ => 2 << 20,
        },
        // If a round has three sessions, two of them share a ring.
        rings: 2,
        // Every fifth search is without what "OL" stands for in NV-Logging. A batch would wait for
        // its transactions, and they for it.
        locking: if seed.is_multiple_of(5) && method != Method::GroupCommit {
            Locking::Plain
        } else {
            Locking::Optimised
        },
        persist: if seed.is_multiple_of(3) {
            Persist::OnCommit
        } else {
            Persist::OnInsert
        },
        // Few enough slots that pages leave them again, and enough that newer versions come first.
        // With fewer, a recovery has a hundred crash points.
        area_bytes: (1 + seed % 3) * (36 << 10),
        rotation_bytes: match method {
            // One place for records, or so few slots that they come around.
            Method::Fash | Method::Fast => (seed % 3) * (24 << 10),
            // So few slots that lines are written back after every fifth commit, or every eighth.
            _ => (2 + seed / 2 % 2) * (16 << 10),
        },
        growth_factor: 2,
        // Some openings leave deferred redo, which is done as pages are read.
        redoing: if method == Method::NvmDwbLogOpt && !seed.is_multiple_of(3) {
            AfterCrash::BySteps
        } else {
            AfterCrash::AtOpening
        },
        ..EngineOptions::default()
    }
}

/// A world whose new memory has the content of a used device, and in which power cuts leave words
/// whole.
pub(crate) fn new_world(seed: u64) -> SimulatedWorld {
    world_with(seed, PowerFailAtomicity::Word)
}

/// The same with another promise of the platform.
pub(crate) fn world_with(seed: u64, atomicity: PowerFailAtomicity) -> SimulatedWorld {
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
        atomicity,
        content,
        ..WorldOptions::default()
    })
}

/// Runs one round and returns its world.
pub(crate) fn round(
    start: &Start,
    shared: &Arc<Mutex<Searcher>>,
) -> Result<SimulatedWorld, Failure> {
    let atomicity = lock(shared).plan.config.atomicity;
    let world = world_with(start.seed, atomicity);
    let (images, connections) = {
        let mut searcher = lock(shared);
        for site in &searcher.plan.config.disabled {
            world.disable(site);
        }
        searcher.transactions = 0;
        let plan = &searcher.plan;
        (plan.point_images, plan.config.connections)
    };
    let mut script = RoundScript::of(start.seed, connections);
    let mut watched_from = 0;
    if let Some(focus) = &start.focus
        && focus.operations != Selection::all()
    {
        script = script.keep(&focus.operations);
        watched_from = script.len();
    }
    let oracle: SharedOracle = Arc::default();
    lock(&oracle).allowed.push_back(Arc::new(State::default()));
    let round = Round {
        start,
        world: &world,
        shared,
        oracle,
        watched_from,
        has_images: images > 0,
    };
    let result = match &script {
        RoundScript::Transactions(script) => round.drive(script),
        RoundScript::Connections(turns, connections) => round.take_turns(turns, *connections),
    };
    world.unobserve();
    result.map(|()| world)
}

/// One round under way.
struct Round<'r> {
    start: &'r Start,
    world: &'r SimulatedWorld,
    shared: &'r Arc<Mutex<Searcher>>,
    oracle: SharedOracle,
    /// The transaction, counted from 1, from which on images are taken; 0 is the creation.
    watched_from: usize,
    has_images: bool,
}

impl Round<'_> {
    fn drive(&self, script: &Script) -> Result<(), Failure> {
        let seed = self.start.seed;
        let (method, options) = self.engine();
        self.reach(0);
        let platform = SimulatedPlatform::new(self.world);
        let engine = platform
            .create_engine(method, &options)
            .map_err(|error| Failure::new("creation", error))?;
        let durability = if seed % 3 == 1 {
            Durability::Group
        } else {
            Durability::Immediate
        };
        let oracle = Arc::clone(&self.oracle);
        let mut driver = Driver::new(engine, self.world, oracle, State::default(), durability);
        self.world.mark(CrashPoint::Mark("created"));
        driver.populate(&script.rows)?;
        for (number, action) in script.actions.iter().enumerate() {
            self.reach(number + 1);
            driver.run(action)?;
            if lock(self.shared).is_over() {
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

    /// The same with connections.
    fn take_turns(&self, turns: &Turns, connections: u32) -> Result<(), Failure> {
        let (method, options) = self.engine();
        self.reach(0);
        let database = connections::create(self.world, method, &options)?;
        let oracle = Arc::clone(&self.oracle);
        let mut driver = ConnectionDriver::new(database, self.world, oracle);
        self.world.mark(CrashPoint::Mark("created"));
        driver.populate(&turns.rows, connections)?;
        for (number, turn) in turns.turns.iter().enumerate() {
            self.reach(number + 1);
            driver.turn(turn)?;
            if lock(self.shared).is_over() {
                return Ok(());
            }
        }
        driver.finish()
    }

    fn engine(&self) -> (Method, EngineOptions) {
        let searcher = lock(self.shared);
        let subject = searcher.plan.config.subject();
        (subject.method, subject.options(self.start.seed))
    }

    /// Called before each transaction.
    fn reach(&self, transaction: usize) {
        lock(self.shared).transactions = transaction;
        if self.has_images && transaction == self.watched_from {
            self.observe();
        }
    }

    fn observe(&self) {
        let (method, options) = self.engine();
        let mut recovery = Recovery::new(method, options).remembering();
        if let Some(depth) = self.start.depth() {
            recovery = recovery.nesting(depth.saturating_sub(1));
        }
        let (shared, oracle) = (Arc::clone(self.shared), Arc::clone(&self.oracle));
        let start = self.start.clone();
        self.world.observe(move |world, point| {
            let oracle = Arc::new(lock(&oracle).clone());
            let mut searcher = lock(&shared);
            if !searcher.is_over() && !searcher.is_waiting(world) {
                searcher.look(world, point, &oracle, &recovery, &start);
            }
        });
    }
}

/// The counters of a search, shared with the observer inside of the device.
pub(crate) struct Searcher {
    pub(crate) report: Report,
    plan: Plan,
    deadline: Instant,
    /// Images by content.
    distinct: HashSet<u64>,
    waited: bool,
    /// Transactions of this round that have begun.
    transactions: usize,
    /// Crash points by site.
    visits: HashMap<&'static str, u64>,
}

impl Searcher {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            report: Report::default(),
            deadline: Instant::now() + plan.config.duration_max,
            distinct: HashSet::new(),
            waited: false,
            transactions: 0,
            visits: HashMap::new(),
            plan,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.report.failure.is_some()
            || self.report.images >= self.plan.config.images_max
            || Instant::now() >= self.deadline
    }

    /// Recovers and checks images of one moment.
    fn look(
        &mut self,
        world: &SimulatedWorld,
        point: CrashPoint,
        oracle: &Arc<Oracle>,
        recovery: &Recovery,
        start: &Start,
    ) {
        self.report.crash_points += 1;
        let step = mix(start.seed ^ world.events());
        let images = self.plan.point_images;
        let deep_one_in = self.deep_one_in(point, start);
        let mut new_images = 0;
        for (number, choice) in (0..).zip(ImageChoices::bounded(world, step, images)) {
            let hash = world.image_hash(&choice);
            self.count_image(hash);
            match recovery.knows(hash, oracle, 0) {
                Ok(true) => continue,
                Ok(false) => {}
                Err(failure) => {
                    return self.fail(world, point, world.describe(&choice), failure, start);
                }
            }
            new_images += 1;
            // Not from the hash: a pool holds the time at which it was made.
            let step = mix(step.wrapping_add(number));
            let thoroughness = if deep_one_in > 0 && step.is_multiple_of(deep_one_in) {
                Thoroughness::Deep
            } else {
                Thoroughness::Plain
            };
            match recovery.examine_choice(world, (&choice, hash), oracle, thoroughness, step) {
                Ok(examined) => self.report.nested += examined.nested,
                Err(failure) => {
                    return self.fail(world, point, world.describe(&choice), failure, start);
                }
            }
            if self.is_over() {
                return;
            }
        }
        for number in 0..self.deaths(point, step, new_images, start) {
            let seed = mix(step ^ mix(number));
            self.report.process_deaths += 1;
            match recovery.examine_death(world, oracle, seed) {
                Ok(images) => self.report.nested += images,
                Err(failure) => {
                    return self.fail(world, point, DIED.to_owned(), failure, start);
                }
            }
        }
    }

    /// How often the process dies at this crash point.
    fn deaths(&self, point: CrashPoint, step: u64, new_images: u64, start: &Start) -> u64 {
        if let Some(depth) = start.depth() {
            return if depth > 0 && new_images > 0 {
                FOCUSED_DEATHS
            } else {
                0
            };
        }
        let mut one_in = self.plan.death_one_in;
        if let CrashPoint::Fence(site) | CrashPoint::Sync(site) = point
            && self
                .visits
                .get(site.name)
                .is_some_and(|visits| *visits <= RARE_DEATHS)
        {
            one_in = one_in.min(RARE_DEATH_ONE_IN);
        }
        // The low bits choose the images that are checked deeply.
        u64::from(one_in > 0 && (step >> 16) % one_in < new_images)
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

    /// One in this many images is checked deeply: more of them where the search seldom comes. 0 is
    /// none.
    fn deep_one_in(&mut self, point: CrashPoint, start: &Start) -> u64 {
        if let Some(depth) = start.depth() {
            return u64::from(depth > 0);
        }
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
        survivors: String,
        failure: Failure,
        start: &Start,
    ) {
        self.report.wrong += 1;
        self.report.failure.get_or_insert(FailureReport {
            what: failure.0,
            point: format!("{point:?}"),
            event: world.events(),
            survivors,
            seed: start.seed,
            connections: self.plan.config.connections,
            transactions: self.transactions,
            focus: start.focus.clone(),
            disabled: self.plan.config.disabled.clone(),
            atomicity: self.plan.config.atomicity,
            fences: self.plan.config.fences,
            minimised: None,
        });
    }
}
