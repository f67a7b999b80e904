//! `bench ycsb`: the runs that the options ask for, one row each.
//!
//! Every run has a database of its own that is loaded afresh, measured, checked row by row against
//! the expected results of the transactions, and removed. The list of transactions is made once for
//! a mix and shared by all methods.

use super::runs::{self, About, Setting};
use crate::args::{
    AtomicityName, AxesArgs, CommitName, DeviceKind, FencesName, HeaderLogName, IoName,
    IsolationName, LayoutName, LoadsName, LockingName, LogImagesName, PersistName, PrimitiveName,
    RunArgs, YcsbArgs, YcsbMethod,
};
use crate::failure::Usage;
use crate::output::Format;
use crate::progress;
use crate::report::{PerTxn, ReadFloor, RunRow};
use crate::scratch::Scratch;
use anyhow::{Context, Result};
use indelible::{Database, Method, Table};
use measure::static_rows::Structure;
use measure::{Content, Sampling, Shares, read_floor, static_rows, std_map};
use pmem::device::emulated::Emulator;
use std::path::PathBuf;
use std::sync::Arc;
use workload::ycsb::{Mix, Skew, Ycsb, YcsbOptions};

/// Transactions of a run that has neither a number nor a time, as in the paper.
const TXNS_DEFAULT: u64 = 8_000_000;
/// Longest list; a run that goes on beyond it begins again.
const LIST_MAX: u64 = 16_000_000;
/// Upper bound of the speed of a run: the list of a run with a given time is long enough for it.
const TXN_PER_MS_MAX: u64 = 4000;

/// One of several measurements of a database.
pub(crate) struct Segment {
    pub(crate) row: RunRow,
    pub(crate) shares: Option<Shares>,
}

/// Runs the command.
pub(super) fn run(args: &YcsbArgs, format: Format) -> Result<()> {
    check(args)?;
    runs::check_effect(&args.run, &ours(args))?;
    let mut rows = Vec::new();
    for _ in 0..args.run.repeat {
        for mix in &args.mix {
            let workload = Arc::new(Ycsb::new(options(args, *mix))?);
            for (method, ahead) in runs_of(args) {
                let row = run_one(args, &workload, method, ahead)
                    .with_context(|| format!("method {}, mix {mix}", method.name()))?;
                runs::print_row(&row, format)?;
                rows.push(row);
            }
        }
    }
    runs::print_rows(&rows, format)
}

/// The methods in their order, each as it is and then, where it does something with announced
/// rows, with them.
fn runs_of(args: &YcsbArgs) -> impl Iterator<Item = (YcsbMethod, Option<u32>)> {
    args.method.iter().flat_map(|method| {
        let announced = args.announce.filter(|_| announces(*method));
        let ahead = std::iter::once(None).chain(announced.map(Some));
        ahead.map(|ahead| (*method, ahead))
    })
}

/// Whether announced rows make a difference.
fn announces(method: YcsbMethod) -> bool {
    method == YcsbMethod::Ours(Method::NvmInp)
}

/// The runs that a caller other than the command line asks for.
pub(crate) struct YcsbRuns {
    pub(crate) rows: u32,
    pub(crate) partitions: u32,
    pub(crate) seconds: f64,
    /// Directory in which the databases are made and removed.
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
        update_columns: 1,
        read_floor: false,
        announce: None,
        run: RunArgs {
            axes: AxesArgs::default(),
            partitions: runs.partitions,
            threads: None,
            seconds: Some(runs.seconds),
            txns: None,
            layout: LayoutName::Together,
            domain: None,
            primitives: Some(PrimitiveName::Flush),
            power_fail_atomicity: AtomicityName::Word,
            device: DeviceKind::Native,
            profile: None,
            cache_bytes: None,
            sync_latency_ns: None,
            loads: LoadsName::Counted,
            fences: FencesName::Single,
            persist: PersistName::FlushOnInsert,
            as_published: false,
            locking: LockingName::Optimized,
            ring: None,
            transaction_memory_max: None,
            snapshot_memory_max: None,
            locks_max: None,
            connections_max: None,
            area: None,
            outlines: None,
            header_log: HeaderLogName::Shortest,
            hints: None,
            rotation: None,
            log_bytes: None,
            rings: None,
            log_images: LogImagesName::After,
            node_bytes: None,
            memtable_bytes: None,
            growth_factor: None,
            page_cache: None,
            pool: None,
            io: IoName::Buffered,
            path: Some(runs.directory.clone()),
            log_path: None,
            files: None,
            log_files: None,
            commit: CommitName::Synchronous,
            isolation: IsolationName::Serializable,
            seed: runs.seed,
            repeat: 1,
            archive: None,
            group: None,
            record: None,
            skip_check: false,
        },
    };
    let mut rows = Vec::new();
    for mix in mixes {
        let workload = Arc::new(Ycsb::new(options(&args, *mix))?);
        for method in &args.method {
            let row = run_one(&args, &workload, *method, None);
            rows.push(row.with_context(|| format!("method {}, mix {mix}", method.name()))?);
        }
    }
    Ok(rows)
}

/// Refuses pairs of options that make no sense.
pub(super) fn check(args: &YcsbArgs) -> Result<()> {
    let wrong = |sentence: &str| Err(Usage::error(sentence));
    if args.rows < args.run.partitions {
        return wrong("--rows must be at least --partitions; use more rows or fewer partitions");
    }
    let is_ours = |method: &&YcsbMethod| matches!(method, YcsbMethod::Ours(_));
    let other = args.method.iter().find(|method| !is_ours(method));
    if let Some(other) = other.filter(|_| args.run.device == DeviceKind::Emulated) {
        return Err(Usage::error(format!(
            "{} does not run on the emulated device; leave it out, or use --device native",
            other.name()
        )));
    }
    let runs_count = args.method.len() * args.mix.len();
    if args.run.record.is_some() && (runs_count > 1 || args.run.repeat > 1 || other.is_some()) {
        return wrong(
            "--record takes one run of a method of ours; give one method, one mix and no --repeat",
        );
    }
    if args.read_floor && args.run.io == IoName::Buffered {
        return wrong(
            "--read-floor is about reads that wait for the device, and buffered ones need not; add --io direct",
        );
    }
    if args.announce.is_some() && !args.method.iter().any(|method| announces(*method)) {
        return wrong(
            "--announce is for nvm-inp, which does not run; leave it out, or add nvm-inp",
        );
    }
    runs::check(&args.run, &ours(args), other.is_some())
}

/// The methods of Indelible among those that run.
fn ours(args: &YcsbArgs) -> Vec<Method> {
    let ours = args.method.iter().filter_map(|method| match method {
        YcsbMethod::Ours(method) => Some(*method),
        YcsbMethod::StdMap | YcsbMethod::Static(_) => None,
    });
    ours.collect()
}

fn options(args: &YcsbArgs, mix: Mix) -> YcsbOptions {
    YcsbOptions {
        rows: args.rows,
        partitions: args.run.partitions,
        threads: args.run.threads_each(),
        mix,
        skew: args.skew,
        update_columns: args.update_columns,
        transactions: args.run.txns.unwrap_or(TXNS_DEFAULT).min(LIST_MAX),
        seed: args.run.seed,
    }
}

/// Loads, measures, checks, removes.
fn run_one(
    args: &YcsbArgs,
    workload: &Arc<Ycsb>,
    method: YcsbMethod,
    ahead: Option<u32>,
) -> Result<RunRow> {
    let method = match method {
        YcsbMethod::Ours(method) => method,
        YcsbMethod::StdMap => return run_std_map(args, workload),
        YcsbMethod::Static(structure) => return run_static(args, workload, structure),
    };
    let mut loaded = Loaded::new(args, Arc::clone(workload), (method, ahead))?;
    runs::start_record(&args.run, &loaded.database)?;
    let Segment { mut row, .. } = loaded.measure(args, Sampling::Off)?;
    runs::finish_record(&args.run, &loaded.database)?;
    loaded.check(args)?;
    runs::check_archive(&loaded.database, || Some(&mut row))?;
    Ok(row)
}

/// A loaded database, which is measured any number of times.
pub(crate) struct Loaded {
    workload: Arc<Ycsb>,
    method: Method,
    /// How many transactions ahead rows are announced.
    announced_ahead: Option<u32>,
    table: Table,
    database: Database,
    emulators: Vec<Emulator>,
    /// Where the lists of transactions go on.
    positions: Vec<u64>,
    scratch: Scratch,
}

impl Loaded {
    /// Loads for the first method and mix of the options, to be measured up to `count` times.
    pub(crate) fn first(args: &YcsbArgs, count: u32) -> Result<Self> {
        check(args)?;
        let (Some(YcsbMethod::Ours(method)), Some(mix)) = (args.method.first(), args.mix.first())
        else {
            return Err(Usage::error("name one of our methods and a mix"));
        };
        let mut options = options(args, *mix);
        options.transactions =
            runs::list_length(&args.run, count, options.transactions, TXN_PER_MS_MAX);
        Self::new(args, Arc::new(Ycsb::new(options)?), (*method, None))
    }

    fn new(
        args: &YcsbArgs,
        workload: Arc<Ycsb>,
        (method, announced_ahead): (Method, Option<u32>),
    ) -> Result<Self> {
        let scratch = runs::scratch(&args.run)?;
        let (database, emulators, _) = runs::open(&args.run, method, &scratch)?;
        Ok(Self {
            table: load(&workload, &database)?,
            positions: vec![0; workload.options().lists() as usize],
            workload,
            method,
            announced_ahead,
            database,
            emulators,
            scratch,
        })
    }

    /// Measures once, from where the last measurement ended.
    pub(crate) fn measure(&mut self, args: &YcsbArgs, sampling: Sampling) -> Result<Segment> {
        let (run, directory) = (&args.run, self.scratch.path());
        let options = self.workload.options();
        let note = progress::spinner(format!("running {} {}", self.method, options.mix));
        let before = runs::read(&self.database, &self.emulators)?;
        let node_bytes = before.statistics.node_bytes;
        let floor = || read_floor::measure(directory, node_bytes, run.threads(), run.seed);
        let pages_per_s = args.read_floor.then(floor).transpose()?;
        let (measured, shares) = measure::ycsb::measure(
            &self.workload,
            (&self.database, &self.table),
            &self.positions,
            runs::limit(run, TXNS_DEFAULT),
            (runs::acknowledge(run), self.announced_ahead),
            (sampling, &self.emulators),
        )?;
        let after = runs::read(&self.database, &self.emulators)?;
        let setting = Setting::new(run, self.method, before.statistics.domain, directory);
        let mut row = runs::row(&setting, &about(options), &measured, &before, &after);
        row.announced_ahead = self.announced_ahead;
        if let Some(pages_per_s) = pages_per_s {
            note_read_floor(&mut row, pages_per_s);
        }
        note.finish_and_clear();
        self.positions = measured.positions;
        Ok(Segment { row, shares })
    }

    /// Compares every row with the lists, unless the options say no.
    pub(crate) fn check(&self, args: &YcsbArgs) -> Result<()> {
        if args.run.skip_check {
            return Ok(());
        }
        let note = progress::spinner("checking every row");
        let done: Vec<_> = self.positions.iter().map(|count| *count..=*count).collect();
        self.workload.check(&self.database, &self.table, &done)?;
        note.finish_and_clear();
        Ok(())
    }
}

/// Adds the throughput that the reads allow to the row of a run.
fn note_read_floor(row: &mut RunRow, pages_per_s: f64) {
    let throughput = row.txn_per_s;
    if let Some(pages) = &mut row.pages {
        // A run that read nothing is not bounded by reads.
        let txn_per_s = pages_per_s / pages.file_reads_per_txn.max(1e-9);
        pages.read_floor = Some(ReadFloor {
            pages_per_s,
            txn_per_s,
            share: throughput / txn_per_s,
        });
    }
}

fn about(options: &YcsbOptions) -> About {
    About {
        workload: "ycsb",
        mix: options.mix.name().into(),
        skew: options.skew.name(),
        rows: options.rows.into(),
        partitions: options.partitions,
        threads: options.lists(),
        update_columns: options.update_columns,
        seed: options.seed,
    }
}

/// Loads all rows under a progress bar.
fn load(workload: &Ycsb, database: &Database) -> Result<Table> {
    let bar = progress::count("loading", workload.options().rows.into());
    let table = workload.load(database, |rows| bar.inc(rows))?;
    database.force()?;
    bar.finish_and_clear();
    Ok(table)
}

fn content(args: &YcsbArgs) -> Content {
    if args.run.skip_check {
        Content::Trusted
    } else {
        Content::Checked
    }
}

fn run_std_map(args: &YcsbArgs, workload: &Ycsb) -> Result<RunRow> {
    let measured = std_map::measure(
        workload,
        runs::limit(&args.run, TXNS_DEFAULT),
        content(args),
    )?;
    let shared = Scratch::root();
    let setting = Setting {
        method: "std-map",
        primitives: "process",
        device: "native",
        profile: "none",
        directory: &shared,
        pages: None,
    };
    let mut row = runs::bare_row(&setting, &about(workload.options()), &measured);
    row.footprint_bytes.table = std_map::table_bytes(workload);
    Ok(row)
}

fn run_static(args: &YcsbArgs, workload: &Ycsb, structure: Structure) -> Result<RunRow> {
    let limit = runs::limit(&args.run, TXNS_DEFAULT);
    let scratch = runs::scratch(&args.run)?;
    let primitive = args.run.primitives.map(Into::into);
    let (measured, per_txn) = static_rows::measure(
        structure,
        workload,
        limit,
        content(args),
        scratch.path(),
        primitive,
    )?;
    let root = args.run.path.clone().unwrap_or_else(Scratch::root);
    let setting = Setting {
        method: YcsbMethod::Static(structure).name(),
        primitives: args.run.primitives.map_or("process", |name| name.name()),
        device: "native",
        profile: "none",
        directory: &root,
        pages: None,
    };
    let mut row = runs::bare_row(&setting, &about(workload.options()), &measured);
    row.per_txn = PerTxn {
        lines_flushed: per_txn.lines_flushed,
        fences: per_txn.fences,
        bytes_written: per_txn.bytes_written,
        ..PerTxn::default()
    };
    row.footprint_bytes.table = std_map::table_bytes(workload);
    Ok(row)
}
