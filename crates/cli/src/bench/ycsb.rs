//! `bench ycsb`: the runs that the options ask for, one row each.
//!
//! Every run has a database of its own that is loaded afresh, measured, checked row by row against what the transactions must
//! have left, and removed. The list of transactions is made once for a mix and shared by all methods.

use super::device::EmulatedPlatform;
use super::measure::{Limit, Measured, measure};
use super::std_map;
use crate::args::{DeviceKind, FencesName, LayoutName, PrimitiveName, YcsbArgs, YcsbMethod};
use crate::failure::Usage;
use crate::machine::{COMMIT, Machine};
use crate::output::{Cell, Format, Listing, bytes, duration, stdout, whole};
use crate::progress;
use crate::report::{FootprintBytes, PerTxn, RunRow};
use crate::scratch::Scratch;
use anyhow::{Context, Result};
use indelible::{Database, Domain, FenceOrder, LayoutKind, Method, Options, Statistics, Table};
use pmem::device::NativeOptions;
use pmem::device::emulated::Profile;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use workload::ycsb::{Mix, Skew, Ycsb, YcsbOptions};

/// Transactions of a run that has neither a number nor a time, as in the paper.
const TXNS_DEFAULT: u64 = 8_000_000;
/// Longest list; a run that goes on beyond it begins again.
const LIST_MAX: u64 = 16_000_000;
/// Most transactions that wait for one sync unless the user says otherwise.
const GROUP: u32 = 64;

/// Runs the command.
pub(super) fn run(args: &YcsbArgs, format: Format) -> Result<()> {
    check(args)?;
    let mut rows = Vec::new();
    for _ in 0..args.repeat {
        for mix in &args.mix {
            let workload = Ycsb::new(options(args, *mix))?;
            for method in &args.method {
                let row = run_one(args, &workload, *method)
                    .with_context(|| format!("method {}, mix {mix}", method.name()))?;
                if format == Format::Json {
                    let mut out = stdout();
                    serde_json::to_writer(&mut out, &row)?;
                    writeln!(out)?;
                    out.flush()?;
                }
                rows.push(row);
            }
        }
    }
    match format {
        Format::Json => Ok(()),
        Format::Text => mix_listing(&rows).print(format),
        Format::Csv => flat_listing(&rows)?.print(format),
    }
}

/// What a caller other than the command line measures.
pub(crate) struct YcsbRuns {
    pub(crate) rows: u32,
    pub(crate) partitions: u32,
    pub(crate) seconds: f64,
    /// Where the databases are made and removed.
    pub(crate) directory: PathBuf,
    pub(crate) seed: u64,
}

/// Measures methods on mixes with the instructions of persistent memory.
pub(crate) fn measure_all(
    runs: &YcsbRuns,
    methods: &[Method],
    mixes: &[Mix],
) -> Result<Vec<RunRow>> {
    let args = YcsbArgs {
        method: methods.iter().copied().map(YcsbMethod::Ours).collect(),
        mix: mixes.to_vec(),
        skew: Skew::Low,
        rows: runs.rows,
        partitions: runs.partitions,
        seconds: Some(runs.seconds),
        txns: None,
        layout: LayoutName::Together,
        update_columns: 1,
        domain: None,
        primitives: Some(PrimitiveName::Flush),
        device: DeviceKind::Native,
        profile: None,
        fences: FencesName::Single,
        node_bytes: None,
        path: Some(runs.directory.clone()),
        seed: runs.seed,
        repeat: 1,
        group: None,
        skip_check: false,
    };
    let mut rows = Vec::new();
    for mix in mixes {
        let workload = Ycsb::new(options(&args, *mix))?;
        for method in &args.method {
            let row = run_one(&args, &workload, *method);
            rows.push(row.with_context(|| format!("method {}, mix {mix}", method.name()))?);
        }
    }
    Ok(rows)
}

/// Pairs of options that make no sense.
fn check(args: &YcsbArgs) -> Result<()> {
    let wrong = |sentence: &str| Err(Usage::error(sentence));
    if args.profile.is_some() && args.device == DeviceKind::Native {
        return wrong("--profile belongs to the emulated device; add --device emulated");
    }
    if args.rows < args.partitions {
        return wrong("--rows must be at least --partitions; use more rows or fewer partitions");
    }
    let ours = |wanted: Method| args.method.contains(&YcsbMethod::Ours(wanted));
    if args.fences != FencesName::Single
        && args
            .method
            .iter()
            .any(|m| *m != YcsbMethod::Ours(Method::NvmInp))
    {
        return wrong(
            "--fences chooses the order of nvm-inp's fences; run it with --method nvm-inp alone",
        );
    }
    if args.domain.is_some()
        && (ours(Method::Volatile) || args.method.contains(&YcsbMethod::StdMap))
    {
        return wrong(
            "--domain asks for durability, which volatile and std-map do not have; leave it out for them",
        );
    }
    if args.device == DeviceKind::Emulated && args.method.contains(&YcsbMethod::StdMap) {
        return wrong(
            "std-map does not run on the emulated device; leave it out, or use --device native",
        );
    }
    profile(args).map(drop)
}

fn profile(args: &YcsbArgs) -> Result<Profile> {
    let name = args.profile.as_deref().unwrap_or("dram");
    name.parse()
        .map_err(|error| Usage::error(format!("--profile: {error}")))
}

fn options(args: &YcsbArgs, mix: Mix) -> YcsbOptions {
    YcsbOptions {
        rows: args.rows,
        partitions: args.partitions,
        mix,
        skew: args.skew,
        update_columns: args.update_columns,
        transactions: args.txns.unwrap_or(TXNS_DEFAULT).min(LIST_MAX),
        seed: args.seed,
    }
}

fn limit(args: &YcsbArgs) -> Limit {
    match args.seconds {
        Some(seconds) => Limit::Time(Duration::from_secs_f64(seconds)),
        None => Limit::Transactions(
            args.txns
                .unwrap_or(TXNS_DEFAULT)
                .div_ceil(u64::from(args.partitions)),
        ),
    }
}

/// Loads, measures, checks, removes.
fn run_one(args: &YcsbArgs, workload: &Ycsb, method: YcsbMethod) -> Result<RunRow> {
    let YcsbMethod::Ours(method) = method else {
        return run_std_map(args, workload);
    };
    let scratch = match &args.path {
        Some(path) => Scratch::in_directory(path)?,
        None => Scratch::new()?,
    };
    let database = open(args, method, scratch.path())?;
    let table = load(workload, &database)?;
    let note = progress::spinner(format!("running {method} {}", workload.options().mix));
    let before = database.statistics()?;
    let positions = vec![0; args.partitions as usize];
    let group = args.group.unwrap_or(GROUP) as usize;
    let measured = measure(&database, workload, &table, &positions, limit(args), group)?;
    let after = database.statistics()?;
    note.finish_and_clear();
    if !args.skip_check {
        let note = progress::spinner("checking every row");
        let done: Vec<_> = measured
            .positions
            .iter()
            .map(|count| *count..=*count)
            .collect();
        workload.check(&database, &table, &done)?;
        note.finish_and_clear();
    }
    let setting = Setting {
        method: method.name(),
        primitives: args
            .primitives
            .map_or(before.domain.name(), PrimitiveName::name),
        device: match args.device {
            DeviceKind::Native => "native",
            DeviceKind::Emulated => "emulated",
        },
        profile: match args.device {
            DeviceKind::Native => "none",
            DeviceKind::Emulated => args.profile.as_deref().unwrap_or("dram"),
        },
        directory: scratch.path(),
    };
    Ok(row(
        &setting,
        workload.options(),
        &measured,
        &before,
        &after,
    ))
}

/// Creates the database of a run.
fn open(args: &YcsbArgs, method: Method, directory: &Path) -> Result<Database> {
    let mut options = Options::new()
        .method(method)
        .partitions(args.partitions)
        .layout(args.layout.into())
        .group_transactions_max(args.group.unwrap_or(GROUP));
    if let Some(domain) = args.domain {
        options = options.domain(domain.into());
    }
    if let Some(primitives) = args.primitives {
        options = options.primitives(primitives.into());
    }
    if let Some(bytes) = args.node_bytes {
        options = options.node_bytes(bytes);
    }
    match args.fences {
        FencesName::Single => {}
        FencesName::Shared => options = options.fences(FenceOrder::Shared),
        FencesName::Paper => options = options.fences(FenceOrder::Paper),
    }
    Ok(match args.device {
        DeviceKind::Native => Database::create(directory, &options)?,
        DeviceKind::Emulated => {
            let native = NativeOptions {
                domain: args.domain.map(Domain::from),
                primitive: args.primitives.map(Into::into),
                ..NativeOptions::default()
            };
            let directory = directory.to_owned();
            let platform =
                EmulatedPlatform::new(directory, native, profile(args)?, args.partitions)?;
            Database::create_on(platform, &options)?
        }
    })
}

/// Loads all rows under a progress bar.
fn load(workload: &Ycsb, database: &Database) -> Result<Table> {
    let bar = progress::count("loading", workload.options().rows.into());
    let table = workload.load(database, |rows| bar.inc(rows))?;
    database.force()?;
    bar.finish_and_clear();
    Ok(table)
}

fn run_std_map(args: &YcsbArgs, workload: &Ycsb) -> Result<RunRow> {
    let measured = std_map::measure(workload, limit(args))?;
    let shared = Scratch::root();
    let setting = Setting {
        method: "std-map",
        primitives: "process",
        device: "native",
        profile: "none",
        directory: &shared,
    };
    let mut row = bare_row(&setting, workload.options(), &measured);
    row.footprint_bytes.table = std_map::table_bytes(workload);
    Ok(row)
}

/// What a row says beside the numbers.
struct Setting<'s> {
    method: &'s str,
    primitives: &'s str,
    device: &'s str,
    profile: &'s str,
    /// Where the database lies.
    directory: &'s Path,
}

/// The row of a run between two looks at the database's statistics.
fn row(
    setting: &Setting<'_>,
    options: &YcsbOptions,
    measured: &Measured,
    before: &Statistics,
    after: &Statistics,
) -> RunRow {
    let (memory_before, memory_after) = (before.memory.total(), after.memory.total());
    let each = |after: u64, before: u64| (after - before) as f64 / measured.txns.max(1) as f64;
    let stored = |total: &pmem::PartCounters| total.bytes_stored + total.bytes_streamed;
    let footprint = after.footprint;
    RunRow {
        layout: layout_name(after.layout).into(),
        domain: after.domain.name().into(),
        survives: after.survives.into(),
        per_txn: PerTxn {
            loads: each(memory_after.loads, memory_before.loads),
            stores: each(memory_after.stores, memory_before.stores),
            lines_flushed: each(memory_after.lines_flushed, memory_before.lines_flushed),
            fences: each(after.memory.fences, before.memory.fences),
            bytes_written: each(stored(&memory_after), stored(&memory_before))
                + each(after.disk.bytes_written, before.disk.bytes_written),
            syncs: each(after.disk.syncs, before.disk.syncs),
        },
        footprint_bytes: FootprintBytes {
            table: footprint.table,
            index: footprint.index,
            log: footprint.log,
            checkpoint: footprint.checkpoint,
            other: footprint.other,
        },
        ..bare_row(setting, options, measured)
    }
}

/// A row of something that is no database.
fn bare_row(setting: &Setting<'_>, options: &YcsbOptions, measured: &Measured) -> RunRow {
    RunRow {
        workload: "ycsb".into(),
        method: setting.method.into(),
        mix: options.mix.name().into(),
        skew: options.skew.name().into(),
        rows: options.rows.into(),
        partitions: options.partitions,
        threads: options.partitions,
        layout: layout_name(LayoutKind::Together).into(),
        update_columns: options.update_columns,
        domain: Domain::Process.name().into(),
        primitives: setting.primitives.into(),
        survives: "nothing".into(),
        device: setting.device.into(),
        profile: setting.profile.into(),
        txns: measured.txns,
        seconds: measured.seconds,
        txn_per_s: measured.txns as f64 / measured.seconds,
        latency_us: measured.latency_us(),
        cpu_us_per_txn: measured.cpu_seconds * 1e6 / measured.txns.max(1) as f64,
        per_txn: PerTxn::default(),
        footprint_bytes: FootprintBytes::default(),
        commit: COMMIT.into(),
        seed: options.seed,
        machine: Machine::here(setting.directory),
        recovery_ms: None,
    }
}

/// The rows as a table for people.
fn mix_listing(rows: &[RunRow]) -> Listing {
    let mut listing = Listing::new([
        "method",
        "mix",
        "txn/s",
        "p50",
        "p99",
        "cpu/txn",
        "flushes/txn",
        "fences/txn",
        "bytes/txn",
        "syncs/txn",
        "footprint",
    ]);
    for row in rows {
        let latency = row.latency_us;
        listing.push(vec![
            row.method.as_str().into(),
            row.mix.as_str().into(),
            Cell::Number(row.txn_per_s, whole(row.txn_per_s)),
            Cell::Number(latency.p50, duration(latency.p50)),
            Cell::Number(latency.p99, duration(latency.p99)),
            Cell::Number(row.cpu_us_per_txn, duration(row.cpu_us_per_txn)),
            Cell::number(row.per_txn.lines_flushed, 2),
            Cell::number(row.per_txn.fences, 2),
            Cell::number(row.per_txn.bytes_written, 0),
            Cell::number(row.per_txn.syncs, 3),
            Cell::Number(
                row.footprint_bytes.total() as f64,
                bytes(row.footprint_bytes.total()),
            ),
        ]);
    }
    listing
}

/// The rows with one column a field; fields inside fields are named `outer.inner`.
fn flat_listing(rows: &[RunRow]) -> Result<Listing> {
    let mut flat_rows = Vec::new();
    for row in rows {
        let mut flat = Vec::new();
        flatten("", &serde_json::to_value(row)?, &mut flat);
        flat_rows.push(flat);
    }
    let header = flat_rows.first().map(Vec::as_slice).unwrap_or_default();
    let mut listing = Listing::new(header.iter().map(|(name, _)| name.clone()));
    for flat in flat_rows {
        listing.push(flat.into_iter().map(|(_, cell)| cell).collect());
    }
    Ok(listing)
}

fn flatten(prefix: &str, value: &serde_json::Value, flat: &mut Vec<(String, Cell)>) {
    let cell = match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                let name = if prefix.is_empty() {
                    name.clone()
                } else {
                    format!("{prefix}.{name}")
                };
                flatten(&name, value, flat);
            }
            return;
        }
        serde_json::Value::Null => Cell::Null,
        serde_json::Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    };
    flat.push((prefix.to_owned(), cell));
}

/// The name of a layout on the command line.
fn layout_name(layout: LayoutKind) -> &'static str {
    crate::inspect::layout_name(layout)
}
