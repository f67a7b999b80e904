//! The standard benchmarks under power cuts: TPC-C, TPC-B, TATP and sysbench on two partitions,
//! transactions over both among them.
//!
//! Each round loads a tiny database, runs transactions on both partitions, and takes crash images
//! all the time. Sampled images are opened. All conditions of the benchmark must hold, the content
//! must show every acknowledged transaction and at most the one that was under way, and the deep
//! check must find nothing. Some images then run on from where they stand. The search of random
//! transactions compares the content of rows; this one checks the sums and references that a half
//! transaction would break.

use crate::check::{Failure, lock};
use crate::search::{Config, FailureReport, Report, live_failure};
use indelible::SimulatedPlatform;
use indelible::{Database, Method, MethodOption, Options, TransactionOptions};
use pmem::device::simulated::{
    CrashPoint, ImageChoice, ImageChoices, SimulatedWorld, WorldOptions, mix,
};
use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use workload::sysbench::{Distribution, OltpScript, Sysbench, SysbenchOptions};
use workload::tatp::{Mix, Tatp, TatpOptions};
use workload::tpcb::{Tpcb, TpcbOptions};
use workload::tpcc::{Scale, Tpcc, TpccOptions};
use workload::{RoutedScript, Script, Workload, WorkloadError};

const PARTITIONS: u32 = 2;
/// Transactions of a round.
const TRANSACTIONS: u64 = 60;
/// One in this many crash points has images taken.
const POINT_ONE_IN: u64 = 5;
/// Images at one crash point.
const POINT_IMAGES: usize = 4;
/// One in this many images runs on.
const LIFE_ONE_IN: u64 = 8;
/// Transactions that it runs in each partition.
const LIFE_AFTER: u64 = 4;
/// Room for the pools of both partitions.
const CAPACITY_BYTES: u64 = 64 << 20;

/// Which benchmark runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Benchmark {
    /// Nine tables, five transactions, twelve conditions.
    Tpcc,
    /// Four tables, one transaction, of which 15 in a hundred are remote.
    Tpcb,
    /// Four tables, seven transactions within a partition; here mostly those that change something.
    Tatp,
    /// Two tables with an index, changed by the script `write-only`.
    Sysbench,
}

impl Benchmark {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Tpcc, Self::Tpcb, Self::Tatp, Self::Sysbench];

    /// The name on the command line and in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tpcc => Tpcc::NAME,
            Self::Tpcb => Tpcb::NAME,
            Self::Tatp => Tatp::NAME,
            Self::Sysbench => Sysbench::NAME,
        }
    }
}

/// Searches until images or time are used up or an image is wrong. Uses method, seed, bounds and
/// disabled sites of `config`; `progress` is called after each round.
pub fn search(benchmark: Benchmark, config: &Config, progress: &mut dyn FnMut(&Report)) -> Report {
    match benchmark {
        Benchmark::Tpcc => search_with(tpcc, config, progress),
        Benchmark::Tpcb => search_with(tpcb, config, progress),
        Benchmark::Tatp => search_with(tatp, config, progress),
        Benchmark::Sysbench => search_with(sysbench, config, progress),
    }
}

/// The tiny benchmark of a round's seed.
type Make<W> = fn(u64) -> Result<W, WorkloadError>;

fn search_with<W: Workload + 'static>(
    make: Make<W>,
    config: &Config,
    progress: &mut dyn FnMut(&Report),
) -> Report {
    let begun = Instant::now();
    let shared = Arc::new(Mutex::new(Search {
        config: config.clone(),
        report: Report::default(),
        distinct: HashSet::new(),
        begun,
        done: vec![0; PARTITIONS as usize],
        running: None,
    }));
    let mut seed = config.seed;
    loop {
        let result = catch_unwind(AssertUnwindSafe(|| round(make, config, seed, &shared)));
        let result = result.unwrap_or_else(|panic| Err(Failure::panicked(&*panic)));
        let mut search = lock(&shared);
        search.report.rounds += 1;
        search.report.seconds = begun.elapsed().as_secs_f64();
        if let Err(failure) = result
            && search.report.failure.is_none()
        {
            search.report.wrong += 1;
            search.report.failure = Some(live_failure(failure, seed));
        }
        progress(&search.report);
        if search.is_over() {
            return search.report.clone();
        }
        seed = mix(seed.wrapping_add(1));
    }
}

/// A search, shared with the observer inside of the device.
struct Search {
    config: Config,
    report: Report,
    distinct: HashSet<u64>,
    begun: Instant,
    /// Transactions of each partition that were acknowledged.
    done: Vec<u64>,
    /// The partition that has begun another.
    running: Option<usize>,
}

impl Search {
    fn is_over(&self) -> bool {
        self.report.failure.is_some()
            || self.report.images >= self.config.images_max
            || self.begun.elapsed() >= self.config.duration_max
    }

    /// How far each partition's list may have been run.
    fn allowed(&self) -> Vec<RangeInclusive<u64>> {
        let running = |partition| u64::from(self.running == Some(partition));
        let done = self.done.iter().enumerate();
        done.map(|(partition, &count)| count..=count + running(partition))
            .collect()
    }

    /// Opens and checks images of one moment.
    fn look<W: Workload>(
        &mut self,
        world: &SimulatedWorld,
        point: CrashPoint,
        scratch: &mut Option<SimulatedWorld>,
        (workload, seed): (&W, u64),
    ) {
        self.report.crash_points += 1;
        let step = mix(seed ^ world.events());
        if !step.is_multiple_of(POINT_ONE_IN) {
            return;
        }
        for (number, choice) in (0..).zip(ImageChoices::bounded(world, step, POINT_IMAGES)) {
            if self.is_over() {
                return;
            }
            if !self.distinct.insert(world.image_hash(&choice)) {
                continue;
            }
            self.report.images += 1;
            let lives = mix(step.wrapping_add(number)).is_multiple_of(LIFE_ONE_IN);
            let allowed = self.allowed();
            let method = self.config.method;
            let result = catch_unwind(AssertUnwindSafe(|| {
                let image = image_of(world, &choice, scratch.take())?;
                examine(&image, method, workload, &allowed, lives)?;
                Ok(image)
            }));
            match result.unwrap_or_else(|panic| Err(Failure::panicked(&*panic))) {
                Ok(image) => *scratch = Some(image),
                Err(failure) => {
                    self.report.wrong += 1;
                    self.report.failure = Some(FailureReport {
                        point: format!("{point:?}"),
                        event: world.events(),
                        survivors: world.describe(&choice),
                        disabled: self.config.disabled.clone(),
                        ..live_failure(failure, seed)
                    });
                    return;
                }
            }
        }
    }
}

fn image_of(
    world: &SimulatedWorld,
    choice: &ImageChoice,
    spare: Option<SimulatedWorld>,
) -> Result<SimulatedWorld, Failure> {
    let wrong = |error| Failure::new("image", error);
    match spare {
        Some(mut image) => {
            world.image_into(choice, &mut image).map_err(wrong)?;
            Ok(image)
        }
        None => world.image(choice).map_err(wrong),
    }
}

fn options(method: Method) -> Options {
    // Small nodes make deep trees of few rows; small MemTables and logs freeze and checkpoint on
    // the way.
    let rings = MethodOption::Rings(2);
    let ring_bytes = match method {
        Method::GroupCommit => 32 << 10,
        // So small that there are checkpoints.
        _ if method.has_frames() => 64 << 10,
        _ if rings.fits(method) => 1 << 20,
        _ => 2 << 20,
    };
    let of_method = [
        MethodOption::MemtableBytes(32 << 10),
        // The fewest frames there can be, so that pages are written while transactions are open.
        MethodOption::BufferBytes(0),
        MethodOption::RingBytes(ring_bytes),
        rings,
        // So few slots that lines are written back after every fifth commit.
        MethodOption::RotationBytes(1),
        // So small that pages leave it again, and that an opening has little to look at.
        MethodOption::AreaBytes(128 << 10),
    ];
    // Pages that are guarded have two sectors, so that they can tear.
    let is_guarded = method.is_paged() && method.survives_torn_pages();
    Options::new()
        .fitting(method, of_method)
        .partitions(PARTITIONS)
        .node_bytes(if is_guarded { 1024 } else { 512 })
        .pool_bytes(1 << 20)
        .checkpoint_log_bytes(64 << 10)
        .identity(7)
}

fn tpcc(seed: u64) -> Result<Tpcc, WorkloadError> {
    Tpcc::new(TpccOptions {
        warehouses: PARTITIONS,
        partitions: PARTITIONS,
        scale: Scale {
            items: 20,
            customers: 10,
        },
        transactions: 10 * TRANSACTIONS,
        seed,
        ..TpccOptions::default()
    })
}

fn tpcb(seed: u64) -> Result<Tpcb, WorkloadError> {
    Tpcb::new(TpcbOptions {
        branches: 2 * PARTITIONS,
        partitions: PARTITIONS,
        accounts: 20,
        transactions: 10 * TRANSACTIONS,
        seed,
        ..TpcbOptions::default()
    })
}

fn tatp(seed: u64) -> Result<Tatp, WorkloadError> {
    let cards = [1, 1, 1, 10, 10, 10, 10];
    let mix = Mix::new(&cards).map_err(|problem| WorkloadError::Option {
        option: "mix",
        problem,
    })?;
    Tatp::new(TatpOptions {
        subscribers: 10 * PARTITIONS,
        partitions: PARTITIONS,
        mix,
        transactions: 10 * TRANSACTIONS,
        seed,
        ..TatpOptions::default()
    })
}

fn sysbench(seed: u64) -> Result<Sysbench, WorkloadError> {
    Sysbench::new(SysbenchOptions {
        script: OltpScript::WriteOnly,
        distribution: Distribution::Uniform,
        tables: 2,
        rows: 10 * PARTITIONS,
        partitions: PARTITIONS,
        transactions: 10 * TRANSACTIONS,
        seed,
        ..SysbenchOptions::default()
    })
}

/// Loads, runs, and has images checked all the time.
fn round<W: Workload + 'static>(
    make: Make<W>,
    config: &Config,
    seed: u64,
    shared: &Arc<Mutex<Search>>,
) -> Result<(), Failure> {
    let world = SimulatedWorld::new(WorldOptions {
        seed,
        capacity_bytes: CAPACITY_BYTES,
        ..WorldOptions::default()
    });
    for site in &config.disabled {
        world.disable(site);
    }
    let platform = SimulatedPlatform::new(&world);
    let database = Database::create_on(platform, &options(config.method))
        .map_err(|error| Failure::new("creation", error))?;
    let workload = make(seed).map_err(|error| Failure::new("workload", error))?;
    let workload = Arc::new(workload);
    let tables = workload
        .load(&database, |_| ())
        .map_err(|error| Failure::new("loading", error))?;
    let mut runners = runners(&*workload, &database, &tables, &[0; PARTITIONS as usize])?;
    {
        let mut search = lock(shared);
        search.done.fill(0);
        search.running = None;
    }
    let (observed, watching) = (Arc::clone(&workload), Arc::clone(shared));
    let mut scratch = None;
    world.observe(move |world, point| {
        lock(&watching).look(world, point, &mut scratch, (&*observed, seed));
    });
    for number in 0..TRANSACTIONS as usize {
        let partition = number % runners.len();
        lock(shared).running = Some(partition);
        step(&database, &mut runners[partition])?;
        let mut search = lock(shared);
        search.running = None;
        search.done[partition] = runners[partition].position();
        if search.is_over() {
            break;
        }
    }
    world.unobserve();
    let ran = world.sites().into_iter().map(|site| site.name);
    lock(shared).report.sites.extend(ran);
    let done: Vec<_> = runners
        .iter()
        .map(|runner| runner.position()..=runner.position())
        .collect();
    verify(&database, &*workload, &done)
}

fn runners<'w, W: Workload>(
    workload: &'w W,
    database: &Database,
    tables: &'w W::Tables,
    positions: &[u64],
) -> Result<Vec<W::Runner<'w>>, Failure> {
    let runner = |(partition, &position)| workload.runner(database, tables, partition, position);
    let runners: Result<_, _> = (0..).zip(positions).map(runner).collect();
    runners.map_err(|error| Failure::new("runner", error))
}

/// Runs one transaction.
fn step<R: RoutedScript>(database: &Database, runner: &mut R) -> Result<(), Failure> {
    let mut partitions = Vec::new();
    runner.partitions(&mut partitions);
    let options = TransactionOptions::new().partitions(partitions);
    match database.transaction_with(&options, |t| runner.step(t)) {
        Ok(()) => {}
        Err(error) if R::is_rollback(&error) => {}
        Err(error) => return Err(Failure::new("transaction", error)),
    }
    runner.next();
    Ok(())
}

/// Conditions, progress and structure.
fn verify<W: Workload>(
    database: &Database,
    workload: &W,
    done: &[RangeInclusive<u64>],
) -> Result<(), Failure> {
    workload
        .check(database, done)
        .map_err(|error| Failure::new("conditions", error))?;
    let report = database
        .verify()
        .map_err(|error| Failure::new("verify", error))?;
    match report.damage.first() {
        Some(first) => Err(Failure::new("verify", first)),
        None => Ok(()),
    }
}

/// Opens an image and checks it; some live on.
fn examine<W: Workload>(
    image: &SimulatedWorld,
    method: Method,
    workload: &W,
    allowed: &[RangeInclusive<u64>],
    lives: bool,
) -> Result<(), Failure> {
    let database = Database::open_on(SimulatedPlatform::new(image), &options(method))
        .map_err(|error| Failure::new("opening", error))?;
    verify(&database, workload, allowed)?;
    if !lives {
        return Ok(());
    }
    // Read-only transactions leave no trace, so more than one position may fit: any of them will
    // do.
    let fits = |(partition, range): (usize, &RangeInclusive<u64>)| {
        let mut exact = allowed.to_vec();
        range.clone().find(|&position| {
            exact[partition] = position..=position;
            workload.check(&database, &exact).is_ok()
        })
    };
    let positions: Option<Vec<u64>> = allowed.iter().enumerate().map(fits).collect();
    let positions = positions.ok_or_else(|| Failure::text("no position of a list fits"))?;
    let tables = W::tables(&database).map_err(|error| Failure::new("tables", error))?;
    let mut runners = runners(workload, &database, &tables, &positions)?;
    for _ in 0..LIFE_AFTER {
        for runner in &mut runners {
            step(&database, runner)?;
        }
    }
    let done: Vec<_> = runners
        .iter()
        .map(|runner| runner.position()..=runner.position())
        .collect();
    verify(&database, workload, &done)
}
