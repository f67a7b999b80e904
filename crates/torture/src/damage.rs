//! Damaged databases, many of them, tried in parallel: the common part of all kinds of damage.
//!
//! A trial damages a copy of a closed database, opens it, runs the deep check and reads everything.
//! Damage is *detected* if one of these fails. It is *harmless* if all of them pass, the content is
//! unchanged and later use of the database is right: damage of free space, dead log records, unused
//! slots. Anything else is wrong, as is a panic; a trial that takes more than a second of processor
//! time counts as a hang, and one that does not end is given up. Nothing can end its thread, so it
//! is the last trial of its process.

use crate::check::{Failure, Recovery, lock, read_state, verify};
use crate::drive::{Depth, Driver, Oracle, SharedOracle};
use crate::generate::{Random, first_rows, row, text};
use crate::model::{Action, MAIN, NOTE, State, Step};
use crate::search::options;
use pmem::device::simulated::SimulatedWorld;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use storage::EngineSource;
use storage::engine::{Durability, Engine, EngineOptions, Idle, Method};
use storage::record::Value;

/// Bytes of the databases that are damaged, at least.
pub(crate) const DATABASE_BYTES: u64 = 256 << 10;
/// Rows in the database at least.
const ROWS: i64 = 60;
/// Bytes of these that are texts of rows, at least.
const TEXT_BYTES: usize = 16 << 10;
/// Rows added at a time until it is long enough.
const MORE_ROWS: i64 = 5;
/// Most bytes of their notes: long rows, because opening has to be quick.
const MORE_NOTE_BYTES: u64 = 2_000;
/// Most rows, for a method that never gets that long.
const ROWS_MAX: i64 = 600;
/// A trial that takes more processor time is a hang.
const HANG: Duration = Duration::from_secs(1);
/// A trial that takes more is no longer waited for, and ends the run.
const GIVE_UP: Limits = Limits {
    ran: Duration::from_secs(20),
    // It sleeps, and nobody wakes it.
    waited: Duration::from_mins(10),
};
/// Time between two looks at the workers.
const POLL: Duration = Duration::from_millis(20);
/// Places of harmless damage that a report names.
const PLACES_MAX: usize = 10_000;

/// Result of the damage.
#[derive(Clone, Debug, Default)]
pub struct DamageReport {
    /// Bytes of everything durable that the database has.
    pub bytes: u64,
    /// Damaged copies tried.
    pub trials: u64,
    /// Those that could not be opened.
    pub detected_open: u64,
    /// Those in which the deep check found damage, or could not be made.
    pub detected_verify: u64,
    /// Those that passed the deep check and that a reader was refused all the same.
    pub detected_read: u64,
    /// Those in which nothing that is ever read was damaged.
    pub harmless: u64,
    /// Trials by the kind of the damaged byte, where it has one.
    pub kinds: BTreeMap<String, KindCount>,
    /// Places of harmless damage, as far as they fit.
    pub harmless_places: Vec<String>,
    /// Wrong answers, and damage that showed only when the database was changed, with their places.
    pub wrong: Vec<String>,
    /// Panics, with their places.
    pub panics: Vec<String>,
    /// Trials of more than a second, with their places.
    pub hangs: Vec<String>,
    /// Whether one of them was given up. Its thread may run until the process ends.
    pub is_cut_short: bool,
    /// Longest processor time of one trial, seconds.
    pub longest_s: f64,
    /// Time taken, seconds.
    pub seconds: f64,
}

/// Trials in bytes of one kind.
#[derive(Clone, Debug, Default)]
pub struct KindCount {
    /// All of them.
    pub trials: u64,
    /// Those that no check detected.
    pub undetected: u64,
    /// Those that were detected and those that were not, by page.
    pages: BTreeMap<(usize, u64), (u64, u64)>,
}

impl KindCount {
    /// Pages in which some trials were detected and some were not, and those in which some were
    /// detected.
    pub fn partly(&self) -> (u64, u64) {
        let live = self.pages.values().filter(|(detected, _)| *detected > 0);
        let partly = live.clone().filter(|(_, undetected)| *undetected > 0);
        (partly.count() as u64, live.count() as u64)
    }
}

impl DamageReport {
    /// Everything that must not be.
    pub fn faults(&self) -> u64 {
        (self.wrong.len() + self.panics.len() + self.hangs.len()) as u64
    }

    /// Trials that any check detected.
    pub fn detected(&self) -> u64 {
        self.detected_open + self.detected_verify + self.detected_read
    }

    pub(crate) fn note(&mut self, tried: Tried, seconds: f64) {
        let Tried {
            place,
            spot,
            verdict,
        } = tried;
        self.trials += 1;
        if let Some(Spot { kind, page }) = spot {
            let count = self.kinds.entry(kind).or_default();
            let is_detected = !matches!(verdict, Verdict::Harmless);
            count.trials += 1;
            count.undetected += u64::from(!is_detected);
            let (detected, undetected) = count.pages.entry(page).or_default();
            *detected += u64::from(is_detected);
            *undetected += u64::from(!is_detected);
        }
        self.longest_s = self.longest_s.max(seconds);
        if seconds > HANG.as_secs_f64() {
            self.hangs.push(format!("{place}: {seconds:.1} s"));
        }
        match verdict {
            Verdict::Open => self.detected_open += 1,
            Verdict::Verify => self.detected_verify += 1,
            Verdict::Read => self.detected_read += 1,
            Verdict::Harmless => {
                self.harmless += 1;
                if self.harmless_places.len() < PLACES_MAX {
                    self.harmless_places.push(place);
                }
            }
            Verdict::Wrong(what) => self.wrong.push(format!("{place}: {what}")),
            Verdict::Panic(what) => self.panics.push(format!("{place}: {what}")),
        }
    }
}

/// Outcome of one trial.
pub(crate) enum Verdict {
    Open,
    Verify,
    Read,
    Harmless,
    Wrong(String),
    Panic(String),
}

/// A trial that is over.
pub(crate) struct Tried {
    /// The damage.
    pub(crate) place: String,
    /// Where it is, if it is in one byte.
    pub(crate) spot: Option<Spot>,
    pub(crate) verdict: Verdict,
}

/// The structure that a damaged byte belongs to.
pub(crate) struct Spot {
    pub(crate) kind: String,
    /// Number of the file or memory, and where the page begins in it.
    pub(crate) page: (usize, u64),
}

/// A closed database with some history, before anything is damaged.
pub(crate) struct Subject {
    pub(crate) method: Method,
    pub(crate) options: EngineOptions,
    pub(crate) state: State,
    pub(crate) oracle: Oracle,
    pub(crate) recovery: Recovery,
}

impl Subject {
    /// Makes the database; `bytes` says how long it is by now.
    pub(crate) fn build<P: EngineSource>(
        platform: &P,
        world: &SimulatedWorld,
        method: Method,
        seed: u64,
        bytes: &dyn Fn() -> u64,
    ) -> Result<Self, Failure> {
        let options = EngineOptions {
            pool_bytes: DATABASE_BYTES,
            // Long enough that a part of the log is older than the checkpoint.
            checkpoint_log_bytes: 64 << 10,
            ..options(method, seed)
        };
        let engine = platform
            .create_engine(method, &options)
            .map_err(|error| Failure::new("creation", error))?;
        let oracle: SharedOracle = Arc::default();
        let shared = Arc::clone(&oracle);
        let durability = Durability::Immediate;
        let mut driver = Driver::new(engine, world, shared, State::default(), durability);
        let mut random = Random::new(seed);
        driver.populate(&first_rows(&mut random, ROWS))?;
        let mut rows = ROWS;
        while rows < ROWS_MAX
            && (bytes() < DATABASE_BYTES || text_bytes(&driver.state) < TEXT_BYTES)
        {
            let more = rows..rows + MORE_ROWS;
            rows = more.end;
            let steps = more.map(|key| long_row(&mut random, key * 2));
            driver.run(&Action::Commit(steps.collect()))?;
        }
        for action in history(&mut random) {
            driver.run(&action)?;
        }
        driver.compare(Depth::Structure)?;
        // A database at rest: the search covers states that a power cut leaves in the middle of
        // things.
        let closed = driver.engine.idle().and_then(Idle::close);
        closed.map_err(|error| Failure::new("close", error))?;
        let oracle = lock(&oracle).clone();
        Ok(Self {
            method,
            state: State::clone(&driver.state),
            oracle,
            recovery: Recovery::new(method, options.clone()),
            options,
        })
    }

    /// Opens, checks and reads a damaged copy.
    pub(crate) fn judge(
        &self,
        open: &dyn Fn() -> Result<Box<dyn Engine>, storage::StorageError>,
    ) -> Verdict {
        let tried = catch_unwind(AssertUnwindSafe(|| {
            let Ok(mut engine) = open() else {
                return Verdict::Open;
            };
            if verify(&mut *engine).is_err() {
                return Verdict::Verify;
            }
            match read_state(&mut *engine) {
                Err(_) => Verdict::Read,
                Ok(found) if found == self.state => Verdict::Harmless,
                Ok(_) => Verdict::Wrong("other content, and no error".to_owned()),
            }
        }));
        tried.unwrap_or_else(|panic| Verdict::Panic(Failure::panicked(&*panic).0))
    }
}

/// Bytes of all texts in a state, which are most bytes of its rows.
fn text_bytes(state: &State) -> usize {
    let rows = state.tables.values().flat_map(|table| table.rows.values());
    let values = rows.flat_map(|row| &row.0);
    values
        .map(|value| match value {
            Value::Text(text) => text.len(),
            _ => 0,
        })
        .sum()
}

fn long_row(random: &mut Random, key: i64) -> Step {
    let mut values = row(random, key);
    values[NOTE] = Value::Text(text(random, MORE_NOTE_BYTES));
    Step::Insert(MAIN, values)
}

/// Transactions that leave free blocks, a second table, and a log after the checkpoint.
fn history(random: &mut Random) -> Vec<Action> {
    let fresh = |random: &mut Random, key| Step::Insert(MAIN, row(random, key));
    let mut actions = vec![
        Action::Commit(vec![Step::Delete(4)]),
        Action::Abort(vec![Step::Delete(6), fresh(random, 3)]),
        Action::CreateSide,
        Action::Checkpoint,
    ];
    for key in [5, 7, 9] {
        actions.push(Action::Commit(vec![fresh(random, key)]));
    }
    actions.push(Action::Commit(vec![Step::Update(
        10,
        vec![(NOTE, Value::Null)],
    )]));
    actions.push(Action::PrepareCommit(vec![fresh(random, 11)]));
    actions.push(Action::Commit(vec![Step::Delete(8)]));
    actions
}

/// One worker's way to damage and judge: takes the number of the trial.
pub(crate) type Trial = Box<dyn FnMut(u64) -> Tried>;
/// Makes the worker with this number, on its own thread.
pub(crate) type Worker = Arc<dyn Fn(usize) -> Result<Trial, Failure> + Send + Sync>;

/// Most processor time of a trial, and most time.
#[derive(Clone, Copy)]
struct Limits {
    ran: Duration,
    waited: Duration,
}

/// Processor time of a thread, so that the load of the machine makes no trial a hang.
#[derive(Clone)]
struct ThreadClock {
    file: PathBuf,
    /// For a system that does not tell.
    start: Instant,
}

impl ThreadClock {
    fn of_this_thread() -> Self {
        let thread = std::fs::read_link("/proc/thread-self").unwrap_or_default();
        Self {
            file: Path::new("/proc").join(thread).join("schedstat"),
            start: Instant::now(),
        }
    }

    fn ran(&self) -> Duration {
        let told = std::fs::read_to_string(&self.file).ok();
        let ns = told.and_then(|text| text.split(' ').next()?.parse().ok());
        ns.map_or_else(|| self.start.elapsed(), Duration::from_nanos)
    }
}

/// A trial that runs.
struct Current {
    trial: u64,
    begun: Instant,
    clock: ThreadClock,
    /// Of the clock, when it began.
    at: Duration,
}

impl Current {
    fn begin(trial: u64, clock: &ThreadClock) -> Self {
        Self {
            trial,
            begun: Instant::now(),
            clock: clock.clone(),
            at: clock.ran(),
        }
    }

    /// Processor time that it has taken.
    fn ran(&self) -> Duration {
        self.clock.ran().saturating_sub(self.at)
    }
}

/// Shared state of the workers and the thread that waits for them.
struct Sweep {
    next: AtomicU64,
    count: u64,
    stop: AtomicBool,
    report: Mutex<DamageReport>,
    failure: Mutex<Option<Failure>>,
    /// The current trial of each worker.
    current: Vec<Mutex<Option<Current>>>,
}

/// Runs trials `0..count` on some threads. `progress` is called with the number that is done.
pub(crate) fn sweep(
    count: u64,
    threads: usize,
    worker: &Worker,
    progress: &mut dyn FnMut(u64),
) -> Result<DamageReport, Failure> {
    sweep_within(GIVE_UP, (count, threads), worker, progress)
}

fn sweep_within(
    limits: Limits,
    (count, threads): (u64, usize),
    worker: &Worker,
    progress: &mut dyn FnMut(u64),
) -> Result<DamageReport, Failure> {
    let start = Instant::now();
    let threads = threads.max(1);
    let shared = Arc::new(Sweep {
        next: AtomicU64::new(0),
        count,
        stop: AtomicBool::new(false),
        report: Mutex::default(),
        failure: Mutex::default(),
        current: (0..threads).map(|_| Mutex::default()).collect(),
    });
    let workers: Vec<_> = (0..threads)
        .map(|number| {
            let (shared, worker) = (Arc::clone(&shared), Arc::clone(worker));
            std::thread::spawn(move || work(&shared, &worker, number))
        })
        .collect();
    loop {
        let is_done = workers.iter().all(std::thread::JoinHandle::is_finished);
        progress(lock(&shared.report).trials);
        if is_done {
            break;
        }
        // A thread cannot be ended from outside: it stays, and the run ends.
        if let Some(trial) = stuck(&shared, limits) {
            shared.stop.store(true, Ordering::Relaxed);
            let Limits { ran, waited } = limits;
            let hang =
                format!("trial {trial} did not end in {ran:?} of processor time, or in {waited:?}");
            let mut report = lock(&shared.report);
            report.hangs.push(hang);
            report.is_cut_short = true;
            break;
        }
        std::thread::sleep(POLL);
    }
    if let Some(failure) = lock(&shared.failure).take() {
        return Err(failure);
    }
    let mut report = std::mem::take(&mut *lock(&shared.report));
    for list in [
        &mut report.wrong,
        &mut report.panics,
        &mut report.hangs,
        &mut report.harmless_places,
    ] {
        list.sort();
    }
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

fn stuck(shared: &Sweep, limits: Limits) -> Option<u64> {
    let is_stuck =
        |current: &Current| current.ran() > limits.ran || current.begun.elapsed() > limits.waited;
    let mut current = shared.current.iter();
    current.find_map(|current| {
        let current = lock(current);
        let stuck = current.as_ref().filter(|current| is_stuck(current));
        stuck.map(|current| current.trial)
    })
}

fn work(shared: &Sweep, worker: &Worker, number: usize) {
    let mut trial = match worker(number) {
        Ok(trial) => trial,
        Err(failure) => return *lock(&shared.failure) = Some(failure),
    };
    let clock = ThreadClock::of_this_thread();
    while !shared.stop.load(Ordering::Relaxed) {
        let next = shared.next.fetch_add(1, Ordering::Relaxed);
        if next >= shared.count {
            break;
        }
        *lock(&shared.current[number]) = Some(Current::begin(next, &clock));
        let tried = trial(next);
        let ended = lock(&shared.current[number]).take();
        let ran = ended.map_or(Duration::ZERO, |current| current.ran());
        lock(&shared.report).note(tried, ran.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trial that did not end made the whole run wait, or the next runs of the process beside it,
    /// and the time of a loaded machine counted as the trial's own.
    #[test]
    fn a_trial_that_does_not_end_is_named_and_ends_the_run() {
        let worker: Worker = Arc::new(|_| {
            let trial = |number: u64| {
                // It is unparked by nobody, but may wake up without that.
                if number == 3 {
                    loop {
                        std::thread::park();
                    }
                }
                Tried {
                    place: String::new(),
                    spot: None,
                    verdict: Verdict::Open,
                }
            };
            Ok(Box::new(trial) as Trial)
        });
        let limits = Limits {
            ran: Duration::from_mins(10),
            waited: Duration::ZERO,
        };
        let report = sweep_within(limits, (9, 1), &worker, &mut |_| {}).unwrap();
        assert!(report.is_cut_short && report.trials <= 3, "{report:?}");
        assert!(report.hangs[0].contains("did not end"), "{report:?}");
    }

    #[test]
    fn a_thread_that_sleeps_takes_no_processor_time() {
        let clock = ThreadClock::of_this_thread();
        let before = clock.ran();
        std::thread::sleep(Duration::from_millis(200));
        assert!(clock.ran() < before + Duration::from_millis(100));
    }
}
