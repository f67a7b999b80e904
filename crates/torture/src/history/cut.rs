//! Histories across crashes: the same sessions on a simulated device whose power fails under them,
//! or whose process dies.
//!
//! At a cut every session is somewhere: some have been acknowledged, some are inside of commit,
//! some hold locks. The next process opens the database, all sessions continue in it, and at the
//! end the whole history, over all processes, has to be serializable. Transactions acknowledged
//! before a cut are in it, and so is everything that they had seen. A transaction that was inside
//! of commit is in it whole or not at all.
//!
//! The next process may be cut off in its recovery as well. A cut is taken at a fence, a sync or a
//! change of the set of memories, with every other thread halted, from all devices at one moment.

use super::{Anomaly, Done, HistoryOptions, HistoryReport, Progress, Rows, go, settle};
use indelible::{Database, Error, Options, Result, SimulatedPlatform};
use pmem::device::simulated::{
    CrashPoint, ImageChoices, Profile, SimulatedWorld, WorldOptions, mix,
};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use workload::random::Random;

/// The limit to which each memory can grow: address space.
const MEMORY_BYTES_MAX: u64 = 256 << 20;
/// Crash points, from 0 on, that a cut lets pass when its transaction has begun.
const POINTS_MAX: u64 = 64;
/// Transactions within which those must come.
const OVERTIME: u64 = 20_000;
/// Recoveries in a row that are cut off themselves, where they have crash points enough.
const RECOVERIES_CUT_MAX: u64 = 2;
/// Images among which that of a power cut is chosen: in the first nothing undecided survives.
const IMAGES: usize = 6;
/// Time for which the other threads run on when a cut has begun, so that some of them call commit
/// before it is complete.
const GRACE: Duration = Duration::from_micros(100);
/// One in this many cuts leaves the power on.
const DEATH_ONE_IN: u64 = 3;

/// The failures of a run.
#[derive(Clone, Debug, Default)]
pub struct CutOptions {
    /// Power cuts and deaths of the process, spread over the transactions; those of recoveries come
    /// on top.
    pub cuts: u64,
    /// Fences, flushes and syncs that do nothing, by the names of their sites.
    pub disabled: Vec<String>,
}

/// As [`run`](super::run), on a new simulated database of these options, which is cut off meanwhile
/// and opened again.
pub fn run_with_cuts(
    database: &Options,
    options: &HistoryOptions,
    cuts: &CutOptions,
) -> Result<HistoryReport> {
    let mut world = SimulatedWorld::new(WorldOptions {
        seed: options.seed,
        profile: Profile::Default,
        capacity_bytes: MEMORY_BYTES_MAX,
        volatile_capacity_bytes: MEMORY_BYTES_MAX,
        ..WorldOptions::default()
    });
    for site in &cuts.disabled {
        world.disable(site);
    }
    let mut running = Database::create_on(SimulatedPlatform::new(&world), database)?;
    let mut rows = Rows::create(&running)?;
    let progress = Arc::new(Progress::default());
    let mut done = Done::default();
    let mut random = Random::new(mix(options.seed));
    for cut in 0..cuts.cuts {
        let begun = progress.begun.load(Ordering::Relaxed);
        let part = (options.transactions * (cut + 1) / cuts.cuts).saturating_sub(begun);
        let at = begun + random.below(part.max(1));
        let left = watch(&world, &progress, at, random.below(POINTS_MAX));
        let life = go(&running, &rows, options, &progress, at + OVERTIME);
        world.unobserve();
        let Some(died) = lock(&left).take() else {
            life?;
            return Err(Error::rejected(
                "the sessions met no fence and no sync at which to cut the power",
            ));
        };
        let mut life = life?;
        // The rest of its life does not count.
        drop(running);
        world = next_world(died?, random.next_u64())?;
        progress.begin_anew();
        let next = next_process(world, &progress, database, (&mut random, &mut done.cuts));
        (world, running, rows) = match next {
            Ok(next) => next,
            Err(error) => return Ok(done.refused(cut, &error)),
        };
        life.doubtful = settle(&mut life.sessions, &rows.final_lists(&running)?);
        life.cuts = 1;
        done.append(life);
    }
    let last = go(&running, &rows, options, &progress, options.transactions)?;
    done.append(last);
    verify(&running)?;
    let lists = rows.final_lists(&running)?;
    let ran = world.sites().into_iter().map(|site| site.name);
    Ok(HistoryReport {
        sites: ran.collect(),
        ..done.report(lists, options)
    })
}

/// Opens the database after a cut; the first processes to do so may be cut off in their recoveries.
fn next_process(
    mut world: SimulatedWorld,
    progress: &Arc<Progress>,
    options: &Options,
    (random, cuts): (&mut Random, &mut u64),
) -> Result<(SimulatedWorld, Database, Rows)> {
    for _ in 0..random.below(RECOVERIES_CUT_MAX + 1) {
        let left = watch(&world, progress, 0, random.below(POINTS_MAX));
        let opened = open(&world, options);
        world.unobserve();
        progress.begin_anew();
        drop(opened?);
        // Without that many crash points it has only been opened and closed.
        if let Some(died) = lock(&left).take() {
            world = next_world(died?, random.next_u64())?;
            *cuts += 1;
        }
    }
    let (database, rows) = open(&world, options)?;
    verify(&database)?;
    Ok((world, database, rows))
}

/// The deep check.
fn verify(database: &Database) -> Result<()> {
    match database.verify()?.damage.first() {
        None => Ok(()),
        Some(damage) => Err(Error::rejected(format!(
            "the deep check found damage: {damage}"
        ))),
    }
}

fn open(world: &SimulatedWorld, options: &Options) -> Result<(Database, Rows)> {
    let database = Database::open_on(SimulatedPlatform::new(world), options)?;
    let rows = Rows::find(&database)?;
    Ok((database, rows))
}

impl Done {
    /// The report if the next process cannot open the world after a cut.
    fn refused(self, cut: u64, error: &Error) -> HistoryReport {
        let mut report = self.report(Vec::new(), &HistoryOptions::default());
        let error = error.to_string();
        report.anomalies = vec![Anomaly::Refused { cut, error }];
        report
    }
}

/// The world after a cut, once the cut has come.
type Left = Arc<Mutex<Option<Result<SimulatedWorld>>>>;

/// Lets the process die at the crash point with number `points` after transaction `at` has begun.
fn watch(world: &SimulatedWorld, progress: &Arc<Progress>, at: u64, mut points: u64) -> Left {
    let left = Left::default();
    let (taken, progress) = (Arc::clone(&left), Arc::clone(progress));
    world.observe(move |world, point| {
        let is_point = matches!(
            point,
            CrashPoint::Fence(_) | CrashPoint::Sync(_) | CrashPoint::Space
        );
        if !is_point
            || progress.begun.load(Ordering::Relaxed) <= at
            || progress.is_cut.load(Ordering::SeqCst)
        {
            return;
        }
        if points > 0 {
            points -= 1;
            return;
        }
        // Set first: a session that sees it after its commit has returned may not have been
        // acknowledged before the cut.
        progress.is_cut.store(true, Ordering::SeqCst);
        std::thread::sleep(GRACE);
        let died = world.halted(|| world.death());
        // Set last: a commit that was called before it may be in the world of the next process.
        progress.is_dead.store(true, Ordering::SeqCst);
        *lock(&taken) = Some(died.map_err(Error::rejected));
    });
    left
}

/// The world that the next process finds: everything that was visible, or the part that a power cut
/// left.
fn next_world(died: SimulatedWorld, seed: u64) -> Result<SimulatedWorld> {
    if seed.is_multiple_of(DEATH_ONE_IN) {
        return Ok(died);
    }
    let mut choices: Vec<_> = ImageChoices::bounded(&died, seed, IMAGES).collect();
    let choice = choices.swap_remove(mix(seed) as usize % choices.len());
    died.image(&choice).map_err(Error::rejected)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
