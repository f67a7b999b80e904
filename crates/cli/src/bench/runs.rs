//! Common part of the workloads: from options to a database, from a run to a row, and printing
//! rows.
//!
//! Each run has a database of its own that is loaded afresh, measured, checked, and removed. A row
//! is the difference of the database's statistics before and after; each workload adds the fields
//! that only it knows.

use crate::args::{CommitName, DeviceKind, IoName, LoadsName, PrimitiveName, RunArgs};
use crate::failure::Usage;
use crate::machine::{self, COMMIT};
use crate::output::{Cell, Format, Listing, bytes, duration, note, print_json, whole};
use crate::report::{
    AreaNumbers, CheckpointNumbers, FootprintBytes, LatencyUs, ModelledNumbers, PageNumbers,
    PerTxn, RunRow, WrittenBytes,
};
use crate::scratch::Scratch;
use anyhow::{Result, bail};
use disk::{Delays, FileProfile};
use indelible::{
    BUFFER_BYTES, Database, Disks, Domain, EmulatedPlatform, LayoutKind, LogKind, Method,
    MethodOption, Options, PageAxes, PagesKind, Statistics,
};
use measure::{Acknowledge, Limit, Measured};
use pmem::Part;
use pmem::device::LINE_BYTES;
use pmem::device::emulated::{EmulationOptions, Emulator, ModelTime, Profile};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// Most transactions that wait for one sync unless the user says otherwise.
const GROUP: u32 = 64;

/// Refuses pairs of options that make no sense with any workload. `others` says whether something
/// that is no method of Indelible runs.
pub(super) fn check(args: &RunArgs, methods: &[Method], others: bool) -> Result<()> {
    let wrong = |sentence: &str| Err(Usage::error(sentence));
    if args.profile.is_some() && args.device == DeviceKind::Native {
        return wrong("--profile belongs to the emulated device; add --device emulated");
    }
    let emulates = args.cache_bytes.is_some()
        || args.sync_latency_ns.is_some()
        || args.loads == LoadsName::Free;
    if emulates && args.device == DeviceKind::Native {
        return wrong(
            "--cache-bytes, --sync-latency-ns and --loads belong to the emulated device; add --device emulated",
        );
    }
    let has_disks = args.files.is_some() || args.log_files.is_some();
    if has_disks && args.device == DeviceKind::Native {
        return wrong(
            "--files and --log-files belong to the emulated device; add --device emulated, or choose real devices with --path and --log-path",
        );
    }
    if args.log_path.is_some() && args.device == DeviceKind::Emulated {
        return wrong(
            "--log-path is a real directory; on the emulated device say with --log-files what the log is on",
        );
    }
    let is_of_pages = args.log_files.is_some()
        || args.log_path.is_some()
        || args.commit == CommitName::Asynchronous;
    if is_of_pages && (others || methods.iter().any(|method| !method.has_buffer_pool())) {
        return wrong(
            "--log-path, --log-files and --commit asynchronous are for methods with a buffer pool, such as full-page-writes or nv-logging; leave them out for others",
        );
    }
    if args.device == DeviceKind::Emulated && (args.io == IoName::Direct || args.archive.is_some())
    {
        return wrong(
            "--io direct and --archive are for files of this machine, and those of the emulated device are imitated; leave them out there",
        );
    }
    if args.domain.is_some() && (others || methods.iter().any(|method| !method.is_durable())) {
        return wrong(
            "--domain asks for durability, which volatile, std-map, static-tree and static-array do not have; leave it out for them",
        );
    }
    check_threads(args, methods, others)?;
    for method in methods {
        options(args, *method).check()?;
    }
    profile(args).map(drop)
}

/// Refuses an option of the command line that no method which runs takes. A figure of the lab has
/// the same options for each of its methods, and runs them one by one, so it does not ask.
pub(super) fn check_effect(args: &RunArgs, methods: &[Method]) -> Result<()> {
    for option in args.method_options() {
        option.check_for(methods)?;
    }
    Ok(())
}

/// Threads that share a partition need sessions in it.
fn check_threads(args: &RunArgs, methods: &[Method], others: bool) -> Result<()> {
    if args.threads() == args.partitions {
        return Ok(());
    }
    let threads = args.threads();
    if args.partitions > 1 {
        return Err(Usage::error(format!(
            "--threads {threads} share one partition, and --partitions asks for {}; leave one of the two out",
            args.partitions
        )));
    }
    let Some(method) = methods.iter().find(|method| !method.is_paged()) else {
        if others {
            return Err(Usage::error(
                "--threads share a partition, which std-map, static-tree and static-array do not have; use --partitions for them",
            ));
        }
        return Ok(());
    };
    Err(Usage::error(format!(
        "--threads share a partition, and {method} runs one transaction at a time in each; use --partitions {threads} for \
         {threads} threads, or a page method"
    )))
}

/// The moment at which transactions are acknowledged.
pub(super) fn acknowledge(args: &RunArgs) -> Acknowledge {
    match args.commit {
        CommitName::Synchronous => Acknowledge::Durable(args.group.unwrap_or(GROUP) as usize),
        CommitName::Asynchronous => Acknowledge::Early,
    }
}

/// Directory of the run's database.
pub(super) fn scratch(args: &RunArgs) -> Result<Scratch> {
    let scratch = match &args.path {
        Some(path) => Scratch::in_directory(path),
        None => Scratch::new(),
    }?;
    let scratch = match &args.log_path {
        Some(path) => scratch.with_log(path)?,
        None => scratch,
    };
    match &args.archive {
        Some(path) => scratch.with_archive(path),
        None => Ok(scratch),
    }
}

fn profile(args: &RunArgs) -> Result<Profile> {
    let name = args.profile.as_deref().unwrap_or("dram");
    name.parse()
        .map_err(|error| Usage::error(format!("--profile: {error}")))
}

/// The end of a run, which has `default` transactions if the user gives none.
pub(super) fn limit(args: &RunArgs, default: u64) -> Limit {
    match args.seconds {
        Some(seconds) => Limit::Time(Duration::from_secs_f64(seconds)),
        None => Limit::Transactions(
            args.txns
                .unwrap_or(default)
                .div_ceil(u64::from(args.threads())),
        ),
    }
}

/// Transactions that a list needs for a number of measurements: at most `most`, because making a
/// long list takes longer than a short run. A list that is too short begins again.
pub(super) fn list_length(args: &RunArgs, count: u32, most: u64, txn_per_ms_max: u64) -> u64 {
    match args.seconds {
        Some(seconds) => {
            let time = Duration::from_secs_f64(seconds) * count;
            most.min((time.as_millis() as u64 + 1) * txn_per_ms_max)
        }
        None => most,
    }
}

/// Bytes of the buffer pool of each partition, in methods that have one.
fn pool_bytes(args: &RunArgs) -> u64 {
    args.pool.unwrap_or(BUFFER_BYTES)
}

/// The options of a run's database, but for the places of its files.
fn options(args: &RunArgs, method: Method) -> Options {
    let mut options = Options::new()
        .fitting(method, args.method_options())
        .partitions(args.partitions)
        .layout(args.layout.into())
        .isolation(args.isolation.into())
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
    if let Some(bytes) = args.log_bytes {
        options = options.checkpoint_log_bytes(bytes);
    }
    if let Some(bytes) = args.transaction_memory_max {
        options = options.transaction_memory_max(bytes);
    }
    if let Some(bytes) = args.snapshot_memory_max {
        options = options.snapshot_memory_max(bytes);
    }
    if let Some(locks) = args.locks_max {
        options = options.locks_max(locks);
    }
    if let Some(connections) = args.connections_max {
        options = options.connections_max(connections);
    }
    options
}

/// Creates the database of a run, and returns the emulators of its partitions (none on the native
/// device) and the delays of its disks.
pub(super) fn open(
    args: &RunArgs,
    method: Method,
    scratch: &Scratch,
) -> Result<(Database, Vec<Emulator>, Delays)> {
    let places = [
        scratch
            .log_path()
            .map(|path| MethodOption::LogDirectory(path.into())),
        scratch
            .archive_path()
            .map(|path| MethodOption::Archive(path.into())),
    ];
    let options = options(args, method).fitting(method, places.into_iter().flatten());
    create(args, scratch.path(), &options)
}

/// Creates a database on the device of a run.
fn create(
    args: &RunArgs,
    directory: &Path,
    options: &Options,
) -> Result<(Database, Vec<Emulator>, Delays)> {
    if args.device == DeviceKind::Native {
        let database = Database::create(directory, options)?;
        return Ok((database, Vec::new(), Delays::default()));
    }
    let mut memory = EmulationOptions::new(profile(args)?);
    memory.cache_bytes = args.cache_bytes.unwrap_or(memory.cache_bytes);
    memory.sync_latency_ns = args.sync_latency_ns;
    memory.loads = args.loads.into();
    let files = args.files.unwrap_or(FileProfile::NONE);
    let disks = Disks {
        files,
        log_files: args.log_files.unwrap_or(files),
    };
    let platform = EmulatedPlatform::new(directory, options, &memory, disks)?;
    let (emulators, delays) = (platform.emulators().to_vec(), platform.delays().clone());
    Ok((Database::create_on(platform, options)?, emulators, delays))
}

/// Reads the archive of the log, if there is one, fails if it is damaged or lacks records, and
/// notes its size in the last row.
pub(super) fn check_archive<'r>(
    database: &Database,
    row: impl FnOnce() -> Option<&'r mut RunRow>,
) -> Result<()> {
    let mut bytes = None;
    for (partition, archive) in (0..).zip(database.archives()?) {
        let Some(archive) = archive else { continue };
        if let Some((from, to)) = archive.gaps.first() {
            bail!(
                "the archive of partition {partition} lacks the records from {} to {}",
                from.0,
                to.0
            );
        }
        bytes = Some(bytes.unwrap_or(0) + archive.bytes);
    }
    if let Some(pages) = row().and_then(|row| row.pages.as_mut()) {
        pages.archive_bytes = bytes;
    }
    Ok(())
}

/// Starts the recording that the user has asked for. The measured numbers then include its cost.
pub(super) fn start_record(args: &RunArgs, database: &Database) -> Result<()> {
    if let Some(path) = &args.record {
        database.start_trace(path)?;
    }
    Ok(())
}

/// Ends the recording and says where it is.
pub(super) fn finish_record(args: &RunArgs, database: &Database) -> Result<()> {
    let (Some(path), Some(summary)) = (&args.record, database.finish_trace()?) else {
        return Ok(());
    };
    note(&format!(
        "recorded {} transactions with {} operations in {}",
        summary.transactions,
        summary.operations,
        path.display()
    ));
    Ok(())
}

/// Fields of a row that are not measured.
pub(super) struct Setting<'s> {
    pub(super) method: &'s str,
    pub(super) primitives: &'s str,
    pub(super) device: &'s str,
    pub(super) profile: &'s str,
    /// Directory of the database.
    pub(super) directory: &'s Path,
    /// The fields that only page methods have.
    pub(super) pages: Option<PageNumbers>,
}

impl<'s> Setting<'s> {
    /// The setting of a run on a database of Indelible.
    pub(super) fn new(
        args: &'s RunArgs,
        method: Method,
        domain: Domain,
        directory: &'s Path,
    ) -> Self {
        let (device, profile) = match args.device {
            DeviceKind::Native => ("native", "none"),
            DeviceKind::Emulated => ("emulated", args.profile.as_deref().unwrap_or("dram")),
        };
        Self {
            method: method.name(),
            primitives: args.primitives.map_or(domain.name(), PrimitiveName::name),
            device,
            profile,
            directory,
            pages: method.axes().map(|axes| PageNumbers {
                pages: axes.pages.name().into(),
                pool_bytes: if method.has_buffer_pool() {
                    pool_bytes(args)
                } else {
                    0
                },
                guard: axes.guard.name().into(),
                log: log_name(args, axes),
                commit_mode: commit_mode(args).into(),
                isolation: args.isolation.name().into(),
                io: args.io.name().into(),
                conflicts: 0,
                file_reads_per_txn: 0.0,
                read_floor: None,
                archive_bytes: None,
                written_per_txn: WrittenBytes::default(),
                checkpoints: CheckpointNumbers::default(),
                area: None,
            }),
        }
    }
}

/// The design of the log.
fn log_name(args: &RunArgs, axes: PageAxes) -> String {
    let log = axes.log;
    let name = match log {
        LogKind::Volatile => format!("{}, batches", log.name()),
        _ if axes.pages == PagesKind::Nvm => format!("{}, undo", log.name()),
        LogKind::PerTransaction if args.as_published => {
            format!("{}, {}, as published", log.name(), args.persist.name())
        }
        LogKind::PerTransaction => format!("{}, {}", log.name(), args.persist.name()),
        LogKind::Central | LogKind::Decentralized | LogKind::Distributed => log.name().into(),
    };
    if args.archive.is_some() {
        format!("{name}, archived")
    } else {
        name
    }
}

fn commit_mode(args: &RunArgs) -> &'static str {
    match acknowledge(args) {
        Acknowledge::Durable(2..) => "group",
        Acknowledge::Durable(_) => "immediate",
        Acknowledge::Early => "asynchronous, not durable",
    }
}

/// Counters of a database at one moment.
pub(super) struct Reading {
    pub(super) statistics: Statistics,
    /// Time that the emulators' models have taken, if there are any.
    model_time: Option<ModelTime>,
}

/// The database's counters. On emulated devices, bytes that reached them from files are part of
/// their lines.
pub(super) fn read(database: &Database, emulators: &[Emulator]) -> Result<Reading> {
    let mut statistics = database.statistics()?;
    if emulators.is_empty() {
        return Ok(Reading {
            statistics,
            model_time: None,
        });
    }
    for part in &mut statistics.memory.parts {
        (part.loads, part.stores) = (0, 0);
    }
    let mut model_time = ModelTime::default();
    for emulator in emulators {
        let counted = emulator.counters().parts;
        for (sum, part) in statistics.memory.parts.iter_mut().zip(counted) {
            sum.loads += part.loads;
            sum.stores += part.stores;
        }
        model_time += &emulator.model_time();
    }
    Ok(Reading {
        statistics,
        model_time: Some(model_time),
    })
}

/// The numbers of a run without the time of the model.
fn modelled(threads: u32, measured: &Measured, model: &ModelTime) -> ModelledNumbers {
    let txns = measured.txns.max(1) as f64;
    let (model_s, error_s) = (model.ns() / 1e9, model.error_ns() / 1e9);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let at_once = f64::from(threads).min(cores as f64);
    // A model cannot have taken all of a run: noise of very short runs ends here.
    let without = |all_s: f64, part_s: f64| (all_s - part_s).max(all_s / 100.0);
    let seconds = without(measured.seconds, model_s / at_once);
    let txn_per_s = measured.txns as f64 / seconds;
    ModelledNumbers {
        model_us_per_txn: model_s * 1e6 / txns,
        model_us_per_txn_error: error_s * 1e6 / txns,
        txn_per_s,
        txn_per_s_error: txn_per_s * error_s / at_once / seconds,
        cpu_us_per_txn: without(measured.cpu_seconds, model_s) * 1e6 / txns,
    }
}

/// A workload's description of itself in a row.
pub(super) struct About {
    pub(super) workload: &'static str,
    pub(super) mix: String,
    pub(super) skew: &'static str,
    pub(super) rows: u64,
    pub(super) partitions: u32,
    pub(super) threads: u32,
    /// Columns that an update rewrites; 0 where that differs between updates.
    pub(super) update_columns: u32,
    pub(super) seed: u64,
}

/// The row of a run between two readings of the database's statistics.
pub(super) fn row(
    setting: &Setting<'_>,
    about: &About,
    measured: &Measured,
    before: &Reading,
    after: &Reading,
) -> RunRow {
    let model = after.model_time.zip(before.model_time);
    let modelled = model.map(|(after, before)| {
        let model = after.since(&before);
        modelled(about.threads, measured, &model)
    });
    let (before, after) = (&before.statistics, &after.statistics);
    let (memory_before, memory_after) = (before.memory.total(), after.memory.total());
    let each = |after: u64, before: u64| (after - before) as f64 / measured.txns.max(1) as f64;
    let footprint = after.footprint;
    let lines_flushed = each(memory_after.lines_flushed, memory_before.lines_flushed);
    let lines_streamed =
        each(memory_after.bytes_streamed, memory_before.bytes_streamed) / LINE_BYTES as f64;
    let lines_in_use = footprint.total().max(1) as f64 / LINE_BYTES as f64;
    let bare = bare_row(setting, about, measured);
    RunRow {
        pages: bare.pages.clone().map(|pages| PageNumbers {
            file_reads_per_txn: each(after.disk.reads, before.disk.reads),
            written_per_txn: written(measured.txns, before, after),
            area: area(before, after),
            checkpoints: checkpoints(before, after),
            ..pages
        }),
        modelled,
        layout: layout_name(after.layout).into(),
        domain: after.domain.name().into(),
        survives: after.survives.into(),
        per_txn: PerTxn {
            loads: each(memory_after.loads, memory_before.loads),
            stores: each(memory_after.stores, memory_before.stores),
            log_stores: each(log_stores(after), log_stores(before)),
            lines_flushed,
            lines_streamed,
            fences: each(after.memory.fences, before.memory.fences),
            bytes_written: each(memory_after.bytes_stored, memory_before.bytes_stored)
                + each(after.disk.bytes_written, before.disk.bytes_written),
            file_bytes: each(after.disk.bytes_written, before.disk.bytes_written),
            syncs: each(after.disk.syncs, before.disk.syncs),
            records_ahead: each(after.log_persisted.ahead, before.log_persisted.ahead),
            records_by_sessions: each(
                after.log_persisted.by_sessions,
                before.log_persisted.by_sessions,
            ),
            log_line_writes: (after.log_line_writes - before.log_line_writes)
                / measured.txns.max(1) as f64,
            mean_line_writes: (lines_flushed + lines_streamed) / lines_in_use,
        },
        footprint_bytes: FootprintBytes {
            table: footprint.table,
            index: footprint.index,
            log: footprint.log,
            checkpoint: footprint.checkpoint,
            other: footprint.other,
        },
        ..bare
    }
}

/// Bytes of a block of flash that is erased at once.
const ERASE_BLOCK_BYTES: f64 = 2.0 * 1024.0 * 1024.0;
/// Flash writes for one byte written to a random place, on a drive that cleans the blocks with the
/// least live data first and has 28 % more flash than it reports: (1 + 0.28) / (2 x 0.28). A byte
/// of a log, or of an area that is overwritten in order, costs one.
const RANDOM_WRITES: f64 = 2.29;

/// Bytes written a transaction between two readings of the counters.
fn written(txns: u64, before: &Statistics, after: &Statistics) -> WrittenBytes {
    let each = |count: u64| count as f64 / txns.max(1) as f64;
    let stored = |statistics: &Statistics| statistics.memory.total().bytes_stored;
    let in_files = after.disk.bytes_written - before.disk.bytes_written;
    let in_memory = stored(after) - stored(before);
    let pages = after.pages.home_bytes - before.pages.home_bytes;
    let file_copies = after.pages.copy_bytes - before.pages.copy_bytes;
    let memory_copies = after.pages.area_bytes - before.pages.area_bytes;
    let rest = in_files.saturating_sub(pages + file_copies);
    let worn = pages as f64 * RANDOM_WRITES + (file_copies + rest) as f64;
    WrittenBytes {
        file_pages: each(pages),
        file_copies: each(file_copies),
        file_log: each(rest),
        file_total: each(in_files),
        memory_copies: each(memory_copies),
        memory_log: each(in_memory.saturating_sub(memory_copies)),
        single_pages: each(after.pages.single_pages - before.pages.single_pages),
        erases_per_million: worn / txns.max(1) as f64 / ERASE_BLOCK_BYTES * 1e6,
    }
}

/// Work of the area of page copies between two readings of the counters, if pages stay there.
fn area(before: &Statistics, after: &Statistics) -> Option<AreaNumbers> {
    let (before, after) = (before.area, after.area);
    (after.slots > 0).then(|| AreaNumbers {
        slots: after.slots,
        slots_used: after.slots_used,
        pages_from_area: after.pages_from_area - before.pages_from_area,
        pages_put: after.pages_put - before.pages_put,
        holes_reclaimed: after.holes_reclaimed - before.holes_reclaimed,
        home_writes: after.home_writes - before.home_writes,
        home_syncs: after.home_syncs - before.home_syncs,
        flights_by_writers: after.flights_by_writers - before.flights_by_writers,
        slowed: after.slowed - before.slowed,
    })
}

/// Checkpoints between two readings of the counters, by who wrote them.
fn checkpoints(before: &Statistics, after: &Statistics) -> CheckpointNumbers {
    let (before, after) = (before.checkpoints, after.checkpoints);
    CheckpointNumbers {
        in_background: after.in_background - before.in_background,
        by_sessions: after.by_sessions - before.by_sessions,
        waits: after.waits - before.waits,
    }
}

/// Lines of the log that reached the emulated device.
fn log_stores(statistics: &Statistics) -> u64 {
    statistics.memory.parts[Part::Log as usize].stores
}

/// A row of a structure that is no database.
pub(super) fn bare_row(setting: &Setting<'_>, about: &About, measured: &Measured) -> RunRow {
    RunRow {
        workload: about.workload.into(),
        method: setting.method.into(),
        announced_ahead: None,
        mix: about.mix.clone(),
        skew: about.skew.into(),
        rows: about.rows,
        partitions: about.partitions,
        threads: about.threads,
        layout: layout_name(LayoutKind::Together).into(),
        update_columns: about.update_columns,
        domain: Domain::Process.name().into(),
        primitives: setting.primitives.into(),
        survives: "nothing".into(),
        device: setting.device.into(),
        profile: setting.profile.into(),
        txns: measured.txns,
        seconds: measured.seconds,
        txn_per_s: measured.txns as f64 / measured.seconds,
        latency_us: LatencyUs::of(&measured.latencies_ns()),
        cpu_us_per_txn: measured.cpu_seconds * 1e6 / measured.txns.max(1) as f64,
        modelled: None,
        per_txn: PerTxn::default(),
        footprint_bytes: FootprintBytes::default(),
        commit: COMMIT.into(),
        seed: about.seed,
        machine: machine::here(setting.directory),
        recovery_ms: None,
        pages: setting.pages.clone().map(|pages| PageNumbers {
            conflicts: measured.tally.conflicts,
            ..pages
        }),
        standard: None,
    }
}

/// Prints a row at once if rows are for programs.
pub(super) fn print_row(row: &impl Serialize, format: Format) -> Result<()> {
    if format == Format::Json {
        print_json(row)?;
    }
    Ok(())
}

/// Prints all rows if they are not printed one by one.
pub(super) fn print_rows(rows: &[RunRow], format: Format) -> Result<()> {
    match format {
        Format::Json => Ok(()),
        Format::Text => {
            text_listing(rows).print(format)?;
            match modelled_listing(rows) {
                Some(listing) => listing.print(format),
                None => Ok(()),
            }
        }
        Format::Csv => flat_listing(rows)?.print(format),
    }
}

/// The rows as a table for people.
fn text_listing(rows: &[RunRow]) -> Listing {
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
        "hot line",
    ]);
    for row in rows {
        let latency = row.latency_us;
        let per_txn = &row.per_txn;
        let heat = per_txn.log_line_writes / per_txn.mean_line_writes;
        listing.push(vec![
            method_cell(row),
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
            if per_txn.log_line_writes > 0.0 {
                Cell::Number(heat, format!("{heat:.1} x mean"))
            } else {
                "".into()
            },
        ]);
    }
    listing
}

/// The method, and how far ahead rows were announced.
fn method_cell(row: &RunRow) -> Cell {
    match row.announced_ahead {
        None => row.method.as_str().into(),
        Some(ahead) => format!("{} --announce {ahead}", row.method).into(),
    }
}

/// Times without the model's own, for people, where a device was emulated.
fn modelled_listing(rows: &[RunRow]) -> Option<Listing> {
    let mut listing = Listing::new([
        "method",
        "mix",
        "model/txn",
        "+-",
        "txn/s without it",
        "+-",
        "cpu/txn without it",
    ]);
    let mut is_empty = true;
    for row in rows {
        let Some(numbers) = row.modelled else {
            continue;
        };
        let time = |us| Cell::Number(us, duration(us));
        let rate = |rate| Cell::Number(rate, whole(rate));
        listing.push(vec![
            method_cell(row),
            row.mix.as_str().into(),
            time(numbers.model_us_per_txn),
            time(numbers.model_us_per_txn_error),
            rate(numbers.txn_per_s),
            rate(numbers.txn_per_s_error),
            time(numbers.cpu_us_per_txn),
        ]);
        is_empty = false;
    }
    (!is_empty).then_some(listing)
}

/// The rows with one column a field; nested fields are named `outer.inner`. A field that only some
/// rows have is empty in the others.
pub(super) fn flat_listing(rows: &[impl Serialize]) -> Result<Listing> {
    let mut flat_rows = Vec::new();
    for row in rows {
        let mut flat = Vec::new();
        flatten("", &serde_json::to_value(row)?, &mut flat);
        flat_rows.push(flat);
    }
    let mut header: Vec<String> = Vec::new();
    for flat in &flat_rows {
        let mut place = 0;
        for (name, _) in flat {
            place = header
                .iter()
                .position(|known| known == name)
                .unwrap_or_else(|| {
                    header.insert(place, name.clone());
                    place
                })
                + 1;
        }
    }
    let mut listing = Listing::new(header.iter().cloned());
    for mut flat in flat_rows {
        let mut take = |name: &String| {
            let at = flat.iter().position(|(own, _)| own == name)?;
            Some(flat.swap_remove(at).1)
        };
        let cells = header.iter().map(|name| take(name).unwrap_or(Cell::Null));
        listing.push(cells.collect());
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
