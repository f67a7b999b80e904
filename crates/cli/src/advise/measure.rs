//! One method at one scale.
//!
//! Counts come from the emulated device without delays, where the same transactions give the same
//! counts. Times come from the device that the user asks for. The open after a crash uses a copy of
//! the files of a running database: they are what the death of the process would leave at that
//! moment.

use super::plan::{Device, Plan, Scale};
use crate::report::LatencyUs;
use crate::scratch::Scratch;
use anyhow::{Context, Result};
use disk::FileProfile;
use indelible::{Database, EmulatedPlatform, Method, Options};
use measure::{Acknowledge, Limit, Measured, custom};
use pmem::device::emulated::{Emulator, Profile, RegionWear, WearMap};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Transactions that wait for one sync, as by default.
const GROUP: usize = 64;
/// The longest that a database may be told to wait for a group.
const GROUP_WAIT_US: u64 = 1_000_000;
const LINE_BYTES: f64 = 64.0;

/// Costs of a transaction on its device, and the size of the database. They are the same in each
/// round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counted {
    /// Lines read from the device.
    pub(super) loads: f64,
    /// Reads of a line that it waits for.
    pub(super) serial_misses: f64,
    /// Bytes written to the device: flushed, evicted or streamed lines.
    pub(super) written_bytes: f64,
    pub(super) fences: f64,
    /// Writes of the line that is written most.
    pub(super) hottest_writes: f64,
    /// Those of a log that spreads them over more lines than the run writes.
    pub(super) log_line_writes: f64,
    /// Bytes in use at the end of the run.
    pub(super) footprint_bytes: f64,
}

impl Counted {
    /// Lines that pass between cache and device.
    pub(super) fn lines(&self) -> f64 {
        self.loads + self.written_bytes / LINE_BYTES
    }
}

/// Times of one round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Timed {
    /// Mean time of a transaction, without the model's own on an emulated device.
    pub(super) txn_us: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    /// Opening after a crash at the end of the run.
    pub(super) recovery_ms: f64,
}

/// Counts the costs of a transaction. `check` compares every row at the end with the list of
/// transactions.
pub(super) fn count(plan: &Plan, method: Method, scale: &Scale, check: bool) -> Result<Counted> {
    let scratch = scratch(plan)?;
    // Groups end by their number and not by the clock, or a busy machine would count more of them.
    let options = options(method, scale).group_wait_us_max(GROUP_WAIT_US);
    let mut memory = scale.emulation(Profile::COUNT);
    memory.wear_map = WearMap::On;
    let platform = EmulatedPlatform::new(scratch.path(), &options, &memory, FileProfile::NONE)?;
    let emulator = platform.emulators()[0].clone();
    let database = Database::create_on(platform, &options)?;
    let tables = scale.workload.load(&database)?;
    let log_line_writes = database.statistics()?.log_line_writes;
    let mut before = None;
    run(&database, scale, &tables, || {
        before = Some(DeviceCounts::new(&emulator));
    })?;
    database.force()?;
    let before = before.context("the mark is set before the measured part")?;
    let after = DeviceCounts::new(&emulator);
    let statistics = database.statistics()?;
    let log_line_writes = statistics.log_line_writes - log_line_writes;
    if check {
        let transactions = scale.workload.transactions();
        scale.workload.check(&database, &tables, transactions)?;
    }
    let each =
        |after: u64, before: u64| after.saturating_sub(before) as f64 / scale.measured as f64;
    Ok(Counted {
        loads: each(after.loads, before.loads),
        serial_misses: each(after.serial_misses, before.serial_misses),
        written_bytes: each(after.stores, before.stores) * LINE_BYTES,
        fences: each(after.fences, before.fences),
        hottest_writes: each(after.hottest_since(&before), 0),
        log_line_writes: log_line_writes / (scale.warm_up + scale.measured) as f64,
        footprint_bytes: statistics.footprint.total() as f64,
    })
}

/// Times the transactions, and an open after a crash.
pub(super) fn time(plan: &Plan, method: Method, scale: &Scale) -> Result<Timed> {
    let scratch = scratch(plan)?;
    let path = scratch.path().join("database");
    let mut options = options(method, scale);
    if let Device::Native {
        primitives: Some(primitives),
    } = plan.device
    {
        options = options.primitives(primitives);
    }
    let (database, emulator) = match &plan.device {
        Device::Native { .. } => (Database::create(&path, &options)?, None),
        Device::Emulated(_) => {
            let platform = platform(plan, scale, &path, &options)?;
            let emulator = platform.emulators()[0].clone();
            (Database::create_on(platform, &options)?, Some(emulator))
        }
    };
    let tables = scale.workload.load(&database)?;
    let model_time = || emulator.as_ref().map(Emulator::model_time);
    let mut before = None;
    let measured = run(&database, scale, &tables, || before = model_time())?;
    // The time that is advised about has no emulator in it.
    let model = model_time().zip(before);
    let model_s = model.map_or(0.0, |(after, before)| after.since(&before).ns() / 1e9);
    let copy = scratch.path().join("copy");
    copy_directory(&path, &copy).context("copying the database for its recovery")?;
    drop((tables, database));
    let start = Instant::now();
    let reopened = match &plan.device {
        Device::Native { .. } => Database::open_with(&copy, &options)?,
        Device::Emulated(_) => {
            Database::open_on(platform(plan, scale, &copy, &options)?, &options)?
        }
    };
    let recovery_ms = start.elapsed().as_secs_f64() * 1e3;
    drop(reopened);
    let latency_us = LatencyUs::of(&measured.latencies_ns());
    Ok(Timed {
        txn_us: (measured.seconds - model_s).max(0.0) * 1e6 / measured.txns.max(1) as f64,
        p50_us: latency_us.p50,
        p99_us: latency_us.p99,
        recovery_ms,
    })
}

fn scratch(plan: &Plan) -> Result<Scratch> {
    match &plan.path {
        Some(path) => Scratch::in_directory(path),
        None => Scratch::new(),
    }
}

fn options(method: Method, scale: &Scale) -> Options {
    let options = Options::new()
        .method(method)
        .checkpoint_log_bytes(scale.checkpoint_log_bytes);
    match method {
        Method::Log | Method::NvmLog => options.memtable_bytes(scale.memtable_bytes),
        _ => options,
    }
}

fn platform(
    plan: &Plan,
    scale: &Scale,
    path: &Path,
    options: &Options,
) -> Result<EmulatedPlatform> {
    let profile = match plan.device {
        Device::Emulated(profile) => profile,
        Device::Native { .. } => Profile::COUNT,
    };
    let memory = scale.emulation(profile);
    Ok(EmulatedPlatform::new(
        path,
        options,
        &memory,
        FileProfile::NONE,
    )?)
}

/// Runs the warm-up, then the measured part.
fn run(
    database: &Database,
    scale: &Scale,
    tables: &[indelible::Table],
    between: impl FnOnce(),
) -> Result<Measured> {
    let measure = |position, transactions| {
        custom::measure(
            &scale.workload,
            database,
            tables,
            position,
            Limit::Transactions(transactions),
            Acknowledge::Durable(GROUP),
        )
    };
    if scale.warm_up > 0 {
        measure(0, scale.warm_up)?;
    }
    between();
    measure(scale.warm_up, scale.measured)
}

/// Counters of a device at one moment.
struct DeviceCounts {
    loads: u64,
    stores: u64,
    fences: u64,
    serial_misses: u64,
    /// By memory and offset of the region.
    regions: BTreeMap<(u32, u64), RegionWear>,
}

impl DeviceCounts {
    fn new(emulator: &Emulator) -> Self {
        let counters = emulator.counters();
        let total = counters.total();
        let regions = emulator.wear().map(|wear| wear.regions).unwrap_or_default();
        Self {
            loads: total.loads,
            stores: total.stores,
            fences: counters.fences,
            serial_misses: counters.serial_misses,
            regions: regions
                .into_iter()
                .map(|region| ((region.memory, region.offset), region))
                .collect(),
        }
    }

    /// Writes since another mark of the most written line, as far as the most written line of each
    /// region tells.
    fn hottest_since(&self, before: &Self) -> u64 {
        let since = |(place, region): (&(u32, u64), &RegionWear)| {
            let earlier = before
                .regions
                .get(place)
                .map_or(0, |region| region.hottest_writes);
            u64::from(region.hottest_writes.saturating_sub(earlier))
        };
        self.regions.iter().map(since).max().unwrap_or(0)
    }
}

/// Copies the files of a directory, byte for byte: a hole in a copy would have to be allocated
/// again at the opening.
fn copy_directory(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
