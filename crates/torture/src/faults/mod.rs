//! Failing devices: each call of a scenario to its files and memories fails in turn, in every way,
//! once and for ever.
//!
//! The sweep first runs a scenario without faults and counts its calls. Then each of them fails in
//! a run of its own, in the scenario, in the creation of the partition, and in the recovery after
//! it. A call that fails must be an error of the transaction that met it or stop the engine. It is
//! never a panic, a wrong answer, or an acknowledgement of a change that is not durable. The
//! engine's answers, and the states that power cuts leave afterwards, are compared with a model
//! that knows which transactions are in doubt. `torn` adds the writes that a power cut leaves in
//! part.

mod live;
mod torn;

pub use torn::{TornReport, tear};

use crate::check::{Failure, Recovery, lock};
use crate::damage::{Trial, Tried, Verdict, Worker, sweep};
use crate::scenarios::{self, Scenario};
use crate::search::options;
use disk::simulated::{Call, Effect, Fault, Repeat, SimulatedDirectory};
use live::{Phase, Run};
use pmem::device::simulated::{MemoryCall, MemoryFault, SimulatedWorld};
use std::fmt;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use storage::engine::Method;

/// Scenarios of a short run: one of each kind of transaction and definition.
const SMALL: &[&str] = &[
    "three-operations-in-one",
    "abort-visible-writes",
    "prepare-commit",
    "prepare-abort",
    "create-index",
    "drop-table",
    "checkpoint",
    "heap-grows",
];
/// Scenarios with too many calls for a sweep of every one of them; others make the same calls.
const LONG: &[&str] = &["abort-log-overflow", "log-overflows", "pool-grows"];

/// Options of a sweep.
#[derive(Clone, Debug)]
pub struct FaultConfig {
    /// The method under test.
    pub method: Method,
    /// Where all randomness comes from.
    pub seed: u64,
    /// All scenarios instead of a few.
    pub full: bool,
    /// Only runs whose place starts with this; a failure prints its place.
    pub only: String,
    /// Most runs, spread evenly over all calls.
    pub runs_max: usize,
    /// Threads that work at it.
    pub threads: usize,
    /// Sites that do nothing, by name.
    pub disabled: Vec<String>,
}

/// Result of a sweep.
#[derive(Clone, Debug, Default)]
pub struct FaultReport {
    /// Scenarios that ran.
    pub scenarios: u64,
    /// Calls to files and memories, over all scenarios and phases, each of which failed in turn.
    pub calls: u64,
    /// Runs with a fault in them.
    pub runs: u64,
    /// Runs in which it struck.
    pub struck: u64,
    /// Places of those in which it did not.
    pub idle: Vec<String>,
    /// Runs after which the engine refused further work, and was opened again.
    pub stopped: u64,
    /// Power cuts after a fault, each of which was recovered and checked.
    pub images: u64,
    /// Wrong answers, and acknowledgements of changes that are not durable, with their places.
    pub wrong: Vec<String>,
    /// Panics, with their places.
    pub panics: Vec<String>,
    /// Runs of more than a second, with their places.
    pub hangs: Vec<String>,
    /// Time taken, seconds.
    pub seconds: f64,
}

impl FaultReport {
    /// Everything that must not be.
    pub fn faults(&self) -> u64 {
        (self.wrong.len() + self.panics.len() + self.hangs.len()) as u64
    }
}

/// The device and call that fail.
#[derive(Clone, Copy)]
enum Device {
    Disk(Call, Effect),
    Memory(MemoryCall, bool),
}

/// A way to fail.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    device: Device,
}

const KINDS: &[Kind] = &[
    disk("io-error", Call::Any, Effect::Error(ErrorKind::Other)),
    disk(
        "write-full",
        Call::Write,
        Effect::Error(ErrorKind::StorageFull),
    ),
    disk(
        "write-short",
        Call::Write,
        Effect::ShortWrite(ErrorKind::StorageFull),
    ),
    disk(
        "name-full",
        Call::Name,
        Effect::Error(ErrorKind::StorageFull),
    ),
    disk("sync-lost", Call::Sync, Effect::SyncLost(ErrorKind::Other)),
    disk("sync-kept", Call::Sync, Effect::SyncKept(ErrorKind::Other)),
    disk("sync-mixed", Call::Sync, Effect::Error(ErrorKind::Other)),
    memory("memory-full", MemoryCall::Space, true),
    memory("memory-error", MemoryCall::Space, false),
    memory("volatile-full", MemoryCall::Volatile, true),
    memory("fence-error", MemoryCall::Fence, false),
];

const fn disk(name: &'static str, call: Call, effect: Effect) -> Kind {
    let device = Device::Disk(call, effect);
    Kind { name, device }
}

const fn memory(name: &'static str, call: MemoryCall, full: bool) -> Kind {
    let device = Device::Memory(call, full);
    Kind { name, device }
}

impl Kind {
    /// Calls of this kind that `world` has seen.
    fn calls(self, world: &SimulatedWorld) -> u64 {
        match self.device {
            Device::Disk(call, _) => SimulatedDirectory::new(world).calls_of(call),
            Device::Memory(call, _) => world.memory_calls(call),
        }
    }

    fn inject(self, world: &SimulatedWorld, nth: u64, forever: bool) {
        match self.device {
            Device::Disk(call, effect) => {
                let repeat = if forever {
                    Repeat::Forever
                } else {
                    Repeat::Once
                };
                SimulatedDirectory::new(world).inject(Fault {
                    call,
                    nth,
                    repeat,
                    effect,
                });
            }
            Device::Memory(call, full) => world.inject(MemoryFault {
                call,
                nth,
                forever,
                full,
            }),
        }
    }

    /// Whether it lets syncs or fences fail.
    fn is_sync(self) -> bool {
        matches!(
            self.device,
            Device::Disk(Call::Sync, _) | Device::Memory(MemoryCall::Fence, _)
        )
    }
}

/// Takes all faults back.
fn heal(world: &SimulatedWorld) {
    SimulatedDirectory::new(world).heal();
    world.heal();
}

/// Calls that failed on purpose.
fn strikes(world: &SimulatedWorld) -> u64 {
    SimulatedDirectory::new(world).strikes() + world.memory_strikes()
}

/// One run: which call of which kind fails, when.
#[derive(Clone, Copy)]
struct Job {
    scenario: &'static Scenario,
    phase: Phase,
    kind: Kind,
    nth: u64,
    forever: bool,
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let repeat = if self.forever { "ever" } else { "once" };
        let (scenario, phase) = (self.scenario.name, self.phase.name());
        write!(
            f,
            "{scenario}/{phase}/{}/{repeat}/{}",
            self.kind.name, self.nth
        )
    }
}

/// Numbers that all workers add to.
#[derive(Default)]
struct Tally {
    struck: AtomicU64,
    stopped: AtomicU64,
    images: AtomicU64,
    idle: Mutex<Vec<String>>,
}

/// The scenarios of a setting.
fn chosen(full: bool) -> impl Iterator<Item = &'static Scenario> {
    let is_chosen = move |scenario: &&Scenario| {
        if full {
            !LONG.contains(&scenario.name)
        } else {
            SMALL.contains(&scenario.name)
        }
    };
    scenarios::ALL.iter().filter(is_chosen)
}

/// Lets every call fail in turn. `progress` is called with the runs that are done and their number.
pub fn sweep_faults(
    config: &FaultConfig,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<FaultReport, Failure> {
    let mut report = FaultReport::default();
    let mut jobs = Vec::new();
    for (number, scenario) in chosen(config.full).enumerate() {
        report.scenarios += 1;
        for phase in Phase::ALL {
            // A creation is the same in all scenarios.
            if phase == Phase::Creation && number > 0 {
                continue;
            }
            report.calls += enumerate(config, scenario, phase, &mut jobs)?;
        }
    }
    jobs.retain(|job| job.to_string().starts_with(&config.only));
    let jobs = spread(jobs, config.runs_max);
    let count = jobs.len() as u64;
    let tally = Arc::new(Tally::default());
    let shared = (Arc::new(jobs), Arc::clone(&tally), config.clone());
    let worker: Worker = Arc::new(move |_| {
        let (jobs, tally, config) = shared.clone();
        let recovery = Recovery::new(config.method, options(config.method, config.seed));
        Ok(Box::new(move |number: u64| {
            let job = jobs[number as usize];
            let tried = catch_unwind(AssertUnwindSafe(|| {
                try_job(&config, job, &recovery, &tally)
            }));
            let verdict = match tried {
                Ok(Ok(())) => Verdict::Harmless,
                Ok(Err(failure)) => Verdict::Wrong(failure.0),
                Err(panic) => Verdict::Panic(Failure::panicked(&*panic).0),
            };
            Tried {
                place: job.to_string(),
                spot: None,
                verdict,
            }
        }) as Trial)
    });
    let swept = sweep(count, config.threads, &worker, &mut |done| {
        progress(done, count);
    })?;
    report.runs = swept.trials;
    report.struck = tally.struck.load(Ordering::Relaxed);
    report.stopped = tally.stopped.load(Ordering::Relaxed);
    report.images = tally.images.load(Ordering::Relaxed);
    report.idle = std::mem::take(&mut *lock(&tally.idle));
    report.idle.sort();
    (report.wrong, report.panics, report.hangs) = (swept.wrong, swept.panics, swept.hangs);
    report.seconds = swept.seconds;
    Ok(report)
}

/// At most `jobs_max` of them, spread evenly.
fn spread(jobs: Vec<Job>, jobs_max: usize) -> Vec<Job> {
    // Odd, because transient and permanent faults alternate.
    let step = jobs.len().div_ceil(jobs_max).max(1) | 1;
    jobs.into_iter().step_by(step).collect()
}

/// Adds a job for each call of each kind in a phase; returns the number of calls of all kinds.
fn enumerate(
    config: &FaultConfig,
    scenario: &'static Scenario,
    phase: Phase,
    jobs: &mut Vec<Job>,
) -> Result<u64, Failure> {
    let recovery = Recovery::new(config.method, options(config.method, config.seed));
    let mut run = Run::new(config, scenario, phase, &recovery)?;
    let before: Vec<u64> = KINDS.iter().map(|kind| kind.calls(run.world())).collect();
    run.go()?;
    let mut calls = 0;
    for (kind, before) in KINDS.iter().zip(before) {
        let count = kind.calls(run.world()) - before;
        let is_every_call = matches!(
            kind.device,
            Device::Disk(Call::Any, _) | Device::Memory(_, false)
        );
        if is_every_call || matches!(kind.device, Device::Memory(MemoryCall::Volatile, _)) {
            calls += count;
        }
        for nth in 0..count {
            jobs.extend([false, true].map(|forever| Job {
                scenario,
                phase,
                kind: *kind,
                nth,
                forever,
            }));
        }
    }
    Ok(calls)
}

/// Runs a scenario with one fault, and checks the states after it.
fn try_job(
    config: &FaultConfig,
    job: Job,
    recovery: &Recovery,
    tally: &Tally,
) -> Result<(), Failure> {
    let mut run = Run::new(config, job.scenario, job.phase, recovery)?;
    job.kind.inject(run.world(), job.nth, job.forever);
    let before = strikes(run.world());
    run.judge_syncs(job.kind.is_sync());
    run.go()?;
    let has_struck = strikes(run.world()) > before;
    if has_struck {
        tally.struck.fetch_add(1, Ordering::Relaxed);
    } else {
        lock(&tally.idle).push(job.to_string());
    }
    tally
        .stopped
        .fetch_add(u64::from(run.has_stopped()), Ordering::Relaxed);
    heal(run.world());
    let images = run.aftermath()?;
    tally.images.fetch_add(images, Ordering::Relaxed);
    Ok(())
}
