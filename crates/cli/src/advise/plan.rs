//! The plan: the measurements, their scales, and the device.
//!
//! A small database stands for a large one if everything that grows with the rows is smaller in the
//! same ratio: the modelled cache, the log length that triggers a checkpoint, and the MemTable.
//! Then the share of misses, and the work of checkpoints and compaction for each transaction, are
//! those of the large one. Only the height of the trees is left to the model.

use crate::args::AdviseArgs;
use crate::failure::Usage;
use crate::scratch::Scratch;
use anyhow::{Context, Result};
use indelible::{Method, Primitive, Trace};
use pmem::device::emulated::{EmulationOptions, Profile};
use pmem::device::{DeviceReport, NativeOptions};
use std::path::PathBuf;
use workload::custom::{Custom, CustomOptions, Replay};

/// Rows of the user's database if no option gives them.
const ROWS_DEFAULT: u64 = 2_000_000;
/// Most bytes of rows of the largest sample.
const SAMPLE_BYTES_MAX: u64 = 64 << 20;
/// Least rows of the smallest sample.
const ROWS_MIN: u64 = 100;
/// Most operations of a trace that are read.
const TRACE_OPERATIONS_MAX: usize = 4_000_000;
/// Cache that does not shrink with the rows: commit groups, log buffers and the tops of trees do
/// not either.
const CACHE_BYTES_FIXED: u64 = 128 << 10;
const LINE_BYTES: u64 = 64;
/// Defaults of the database, which shrink with the rows, and their least sizes.
const CHECKPOINT_LOG_BYTES: u64 = 256 << 20;
const CHECKPOINT_LOG_BYTES_MIN: u64 = 64 << 10;
const MEMTABLE_BYTES: u64 = 64 << 20;
const MEMTABLE_BYTES_MIN: u64 = 16 << 10;
/// Visits of rows that take about as long as one operation by key.
const SCANNED_ROWS_AN_OPERATION: f64 = 8.0;
/// Bytes of a row that take about as long as one operation.
const BYTES_AN_OPERATION: f64 = 4096.0;

/// The measurements to take.
pub(super) struct Plan {
    pub(super) source: Source,
    pub(super) device: Device,
    /// Measured speed of this machine's memory, if the methods run on it.
    pub(super) device_report: Option<DeviceReport>,
    pub(super) methods: Vec<Method>,
    /// Rows that the user has.
    pub(super) rows: u64,
    /// In ascending order: first those of the model, last the one that the model is checked
    /// against.
    pub(super) scales: Vec<Scale>,
    /// Number of scales that the model uses.
    pub(super) fitted: usize,
    pub(super) rounds: usize,
    pub(super) cache_bytes: u64,
    pub(super) endurance: f64,
    pub(super) path: Option<PathBuf>,
}

/// Source of the transactions.
pub(super) enum Source {
    Mix(CustomOptions),
    Trace { path: PathBuf, replay: Box<Replay> },
}

/// The device on which the methods run.
pub(super) enum Device {
    Emulated(Profile),
    Native { primitives: Option<Primitive> },
}

/// One size at which every method is measured.
pub(super) struct Scale {
    pub(super) rows: u64,
    pub(super) workload: Custom,
    /// Transactions before the measured ones, which bring cache, log and runs into their steady
    /// state.
    pub(super) warm_up: u64,
    pub(super) measured: u64,
    cache: (u64, u32),
    pub(super) checkpoint_log_bytes: u64,
    pub(super) memtable_bytes: u64,
}

impl Plan {
    pub(super) fn new(args: &AdviseArgs) -> Result<Self> {
        let device = Device::new(args)?;
        let methods = methods(&args.method)?;
        let source = Source::new(args)?;
        let rows = match (args.rows, &source) {
            (Some(rows), _) => rows,
            (None, Source::Mix(options)) => options.rows,
            (None, Source::Trace { replay, .. }) => replay.rows().max(ROWS_MIN),
        };
        let largest = (SAMPLE_BYTES_MAX / source.row_bytes())
            .min(args.sample_rows)
            .min(rows)
            .max(ROWS_MIN * 4);
        let mut sizes = vec![largest / 4, largest / 2, largest];
        let fitted = sizes.len();
        sizes.extend(args.validate);
        let cache_bytes = args.cache_mib << 20;
        let scales = sizes
            .into_iter()
            .map(|sample| Scale::new(&source, sample, rows, cache_bytes, args.seed))
            .collect::<Result<_>>()?;
        let device_report = device.measure(args)?;
        Ok(Self {
            source,
            device,
            device_report,
            methods,
            rows,
            scales,
            fitted,
            rounds: args.repeat as usize,
            cache_bytes,
            endurance: args.endurance,
            path: args.path.clone(),
        })
    }

    /// The scales of the model.
    pub(super) fn fitted(&self) -> &[Scale] {
        &self.scales[..self.fitted]
    }

    /// Rows of the largest table of the model.
    pub(super) fn largest(&self) -> u64 {
        self.fitted().last().map_or(0, |scale| scale.rows)
    }

    /// Whether the answer is about more rows than were measured.
    pub(super) fn extrapolates(&self) -> bool {
        self.rows > self.largest()
    }
}

impl Source {
    fn new(args: &AdviseArgs) -> Result<Self> {
        if let Some(path) = &args.trace {
            let trace = Trace::read(path, TRACE_OPERATIONS_MAX)
                .with_context(|| format!("cannot use {}", path.display()))?;
            if trace.operations.is_empty() {
                return Err(Usage::error(format!(
                    "{} has no operations; record while transactions run",
                    path.display()
                )));
            }
            let replay = Box::new(Replay::new(trace));
            let path = path.clone();
            return Ok(Self::Trace { path, replay });
        }
        let options = CustomOptions {
            rows: args.rows.unwrap_or(ROWS_DEFAULT),
            columns: args.columns,
            column_bytes: args.column_bytes,
            update_columns: args.update_columns,
            mix: args.mix,
            skew: args.skew,
            scan_rows: args.scan_rows,
            operations: args.operations,
            transactions: 1,
            seed: args.seed,
        };
        options
            .check()
            .map_err(|error| Usage::error(error.to_string()))?;
        Ok(Self::Mix(options))
    }

    fn row_bytes(&self) -> u64 {
        match self {
            Self::Mix(options) => 8 + u64::from(options.columns) * u64::from(options.column_bytes),
            Self::Trace { replay, .. } => replay.row_bytes(),
        }
    }

    /// The workload on this number of rows, with enough transactions to keep a method busy for a
    /// good part of a second.
    fn workload(&self, rows: u64, seed: u64) -> Result<Custom> {
        let operations = rows as f64 * 2.5;
        match self {
            Self::Mix(options) => {
                let scans = f64::from(options.mix.scan) / options.mix.total() as f64;
                let of_one = 1.0
                    + scans * f64::from(options.scan_rows) / SCANNED_ROWS_AN_OPERATION
                    + self.row_bytes() as f64 / BYTES_AN_OPERATION;
                let transactions = operations / (of_one * f64::from(options.operations));
                Ok(Custom::generate(&CustomOptions {
                    rows,
                    transactions: count(transactions),
                    seed,
                    ..options.clone()
                })?)
            }
            Self::Trace { replay, .. } => {
                let of_one = replay.operations() as f64 / replay.transactions().max(1) as f64;
                let transactions = count(operations / of_one);
                Ok(Custom::replay(replay, rows, transactions, seed))
            }
        }
    }
}

impl Device {
    fn new(args: &AdviseArgs) -> Result<Self> {
        let numbers = [
            ("read", args.read_latency_ns.map(|ns| ns.to_string())),
            ("write", args.write_latency_ns.map(|ns| ns.to_string())),
            ("fence", args.fence_ns.map(|ns| ns.to_string())),
            ("bandwidth", args.bandwidth.clone()),
        ];
        let numbers: Vec<String> = numbers
            .into_iter()
            .filter_map(|(key, value)| Some(format!("{key}={}", value?)))
            .collect();
        let text = match &args.profile {
            Some(profile) => profile.clone(),
            None if !numbers.is_empty() => numbers.join(","),
            None => {
                let primitives = args.primitives.map(Into::into);
                return Ok(Self::Native { primitives });
            }
        };
        if args.primitives.is_some() {
            return Err(Usage::error(
                "--primitives belongs to this machine's own memory; leave it out, or leave the profile and the latencies out",
            ));
        }
        let profile = text
            .parse()
            .map_err(|error| Usage::error(format!("the device: {error}")))?;
        Ok(Self::Emulated(profile))
    }
}

impl Device {
    /// Describes and measures this machine's own memory, as `indelible device` does.
    fn measure(&self, args: &AdviseArgs) -> Result<Option<DeviceReport>> {
        let Self::Native { primitives } = self else {
            return Ok(None);
        };
        let scratch = match &args.path {
            Some(path) => Scratch::in_directory(path)?,
            None => Scratch::new()?,
        };
        let options = NativeOptions {
            primitive: *primitives,
            ..NativeOptions::default()
        };
        Ok(Some(DeviceReport::measure(scratch.path(), options)?))
    }
}

impl Scale {
    fn new(source: &Source, sample: u64, rows: u64, cache_bytes: u64, seed: u64) -> Result<Self> {
        let workload = source.workload(sample, seed)?;
        let transactions = workload.transactions();
        let warm_up = transactions / 5;
        let shrunk = |bytes: u64| {
            let part = u128::from(bytes) * u128::from(sample) / u128::from(rows);
            part.min(u128::from(bytes)) as u64
        };
        Ok(Self {
            rows: sample,
            warm_up,
            measured: transactions - warm_up,
            cache: possible_cache((shrunk(cache_bytes) + CACHE_BYTES_FIXED).min(cache_bytes)),
            checkpoint_log_bytes: shrunk(CHECKPOINT_LOG_BYTES).max(CHECKPOINT_LOG_BYTES_MIN),
            memtable_bytes: shrunk(MEMTABLE_BYTES).max(MEMTABLE_BYTES_MIN),
            workload,
        })
    }

    /// The emulated device of this scale.
    pub(super) fn emulation(&self, profile: Profile) -> EmulationOptions {
        EmulationOptions {
            cache_bytes: self.cache.0,
            cache_ways: self.cache.1,
            ..EmulationOptions::new(profile)
        }
    }
}

/// A number of transactions, enough for quantiles.
#[expect(clippy::cast_sign_loss, reason = "the number is not negative")]
fn count(transactions: f64) -> u64 {
    (transactions as u64).max(200)
}

/// Bytes and ways of the possible cache next to a size. The number of sets must be a power of two,
/// so the number of ways is adapted.
fn possible_cache(bytes: u64) -> (u64, u32) {
    let lines = (bytes / LINE_BYTES).max(16);
    let sets = 1 << (lines / 12).ilog2();
    let ways = (lines / sets).max(1);
    (sets * ways * LINE_BYTES, ways as u32)
}

/// The methods to compare, in the order of reports. The page methods, `nvwal` and
/// `slot-header-journal` take part only if they are named: their buffers are ordinary memory, so on
/// a slower device the comparison would not be like with like.
fn methods(chosen: &[Method]) -> Result<Vec<Method>> {
    if chosen.contains(&Method::Volatile) {
        return Err(Usage::error(
            "volatile keeps nothing, so it is no answer; use durable methods",
        ));
    }
    let wanted = |method: &Method| {
        let has_buffers = method.is_paged() || method.has_frames();
        let by_default = method.is_durable() && !has_buffers;
        chosen.contains(method) || chosen.is_empty() && by_default
    };
    Ok(Method::ALL.into_iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_are_possible_and_close_to_what_was_asked() {
        for bytes in [128 << 10, 200_000, 1 << 20, 3_333_333, 32 << 20] {
            let (found, ways) = possible_cache(bytes);
            let sets = found / LINE_BYTES / u64::from(ways);
            assert!(
                sets.is_power_of_two() && (12..24).contains(&ways),
                "{bytes}"
            );
            assert!(
                found <= bytes && found * 10 >= bytes * 9,
                "{bytes}: {found}"
            );
        }
    }
}
