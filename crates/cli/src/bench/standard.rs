//! Common part of `bench tpcc`, `bench tpcb`, `bench tatp` and `bench sysbench`: the runs that the
//! options ask for, one row each.
//!
//! The rows of the database are made and checked before the run, and checked again after it against
//! the results that the list of transactions predicts. The list is made once and shared by all
//! methods. The threads and their clock are those of `measure::standard`.

use super::runs::{self, About, Setting};
use crate::args::RunArgs;
use crate::failure::Usage;
use crate::output::{Cell, Format, Listing, duration};
use crate::progress;
use crate::report::{LatencyUs, OwnNumbers, RunRow, StandardNumbers, TypeNumbers};
use crate::scratch::Scratch;
use anyhow::{Context, Result};
use disk::Delays;
use indelible::{Database, Method};
use measure::standard::{Partitions, Span, Standard, Watched};
use measure::{Limit, Measured, Sampling, Seen};
use pmem::device::emulated::Emulator;
use std::sync::Arc;
use workload::Workload;

/// Transactions of a run that has neither a number nor a time.
pub(super) const TXNS_DEFAULT: u64 = 1_000_000;
/// Upper bound of the speed of a run: the list of a run with a given time is long enough for it.
const TXN_PER_MS_MAX: u64 = 200;

/// The options of a benchmark.
pub(crate) trait Benchmark: Send {
    type Workload: Standard;
    /// Heading of the last column of the table by type.
    const LAST_COLUMN: &'static str = "success";
    /// Transactions of the longest list; a run that goes on beyond it begins again.
    const LIST_MAX: u64 = 1_000_000;

    fn methods(&self) -> &[Method];
    fn run_args(&self) -> &RunArgs;
    /// Transactions before the measured ones.
    fn warm_up(&self) -> u64 {
        0
    }

    /// Refuses options that make no sense.
    fn check(&self) -> Result<()>;
    /// Makes the list, with this number of transactions.
    fn workload(&self, transactions: u64) -> Result<Self::Workload>;
    /// Names of the kinds of transactions, in the order of their numbers.
    fn kinds(&self) -> Vec<&'static str>;
    fn mix(&self) -> String;
    fn skew(&self) -> &'static str;
    fn single_partition(&self) -> bool;
    fn own_numbers(&self, measured: &Measured) -> OwnNumbers;

    /// Whether inputs are taken in the order of the list, so that the content at the end follows
    /// from it.
    fn is_in_order(&self) -> bool {
        true
    }

    /// The last column of a kind in the table by type.
    fn last_cell(&self, _kind: usize, _own: &OwnNumbers, of_type: &TypeNumbers) -> Cell {
        Cell::Number(
            of_type.success_rate,
            format!("{:.1} %", of_type.success_rate * 100.0),
        )
    }

    /// Measures a span.
    fn measure(
        &self,
        workload: &Self::Workload,
        database: &Database,
        tables: &<Self::Workload as Workload>::Tables,
        span: &Span<'_>,
    ) -> Result<Watched> {
        workload.measure(database, tables, span)
    }
}

/// Runs all methods, as often as the options ask.
pub(super) fn run<B: Benchmark>(args: &B, format: Format) -> Result<()> {
    check(args)?;
    let run = args.run_args();
    runs::check_effect(run, args.methods())?;
    let transactions = run.txns.unwrap_or(TXNS_DEFAULT).min(B::LIST_MAX);
    let workload = Arc::new(args.workload(transactions + args.warm_up())?);
    let mut rows = Vec::new();
    for _ in 0..run.repeat {
        for method in args.methods() {
            let row = run_one(args, &workload, *method)
                .with_context(|| format!("method {method}, {}", B::Workload::NAME))?;
            runs::print_row(&row, format)?;
            rows.push(row);
        }
    }
    runs::print_rows(&rows, format)?;
    match format {
        Format::Text => {
            type_listing(args, &rows).print(format)?;
            match write_listing(&rows) {
                Some(listing) => listing.print(format),
                None => Ok(()),
            }
        }
        Format::Json | Format::Csv => Ok(()),
    }
}

/// A row, and the activities of its threads if they were sampled.
pub(crate) type WatchedRow = (RunRow, Option<Seen>);

/// Refuses options that make no sense together.
pub(super) fn check<B: Benchmark>(args: &B) -> Result<()> {
    let run = args.run_args();
    if run.record.is_some() && (args.methods().len() > 1 || run.repeat > 1) {
        return Err(Usage::error(
            "--record takes one run; give one method and no --repeat",
        ));
    }
    args.check()?;
    runs::check(run, args.methods(), false)
}

/// Loads, checks, measures, checks again, removes.
fn run_one<B: Benchmark>(args: &B, workload: &Arc<B::Workload>, method: Method) -> Result<RunRow> {
    let run = args.run_args();
    let mut loaded = Loaded::new(args, Arc::clone(workload), method)?;
    runs::start_record(run, &loaded.database)?;
    let (mut row, _) = loaded.measure(args, Sampling::Off)?;
    runs::finish_record(run, &loaded.database)?;
    loaded.check(args)?;
    runs::check_archive(&loaded.database, || Some(&mut row))?;
    Ok(row)
}

/// A loaded database, which is measured any number of times.
pub(crate) struct Loaded<B: Benchmark> {
    workload: Arc<B::Workload>,
    method: Method,
    tables: <B::Workload as Workload>::Tables,
    database: Database,
    emulators: Vec<Emulator>,
    delays: Delays,
    /// Where the lists of transactions go on.
    positions: Vec<u64>,
    scratch: Scratch,
}

impl<B: Benchmark> Loaded<B> {
    /// Loads for the first method of the options, to be measured up to `count` times.
    pub(crate) fn first(args: &B, count: u32) -> Result<Self> {
        check(args)?;
        let Some(method) = args.methods().first() else {
            return Err(Usage::error("name a method"));
        };
        let run = args.run_args();
        let most = run.txns.unwrap_or(TXNS_DEFAULT).min(B::LIST_MAX);
        let transactions = runs::list_length(run, count, most, TXN_PER_MS_MAX);
        let workload = args.workload(transactions + args.warm_up())?;
        Self::new(args, Arc::new(workload), *method)
    }

    fn new(args: &B, workload: Arc<B::Workload>, method: Method) -> Result<Self> {
        let run = args.run_args();
        let scratch = runs::scratch(run)?;
        let (database, emulators, delays) = runs::open(run, method, &scratch)?;
        // Loading is not measured, so it need not wait for an imitated disk.
        delays.set(false);
        let tables = load(&*workload, &database)?;
        if !run.skip_check {
            let positions = vec![0; workload.lists() as usize];
            check_content(&*workload, &database, &positions).context("after loading")?;
        }
        let positions = warm_up(args, &workload, &database, &tables)?;
        Ok(Self {
            workload,
            method,
            tables,
            database,
            emulators,
            delays,
            positions,
            scratch,
        })
    }

    /// Measures once, from where the last measurement ended.
    pub(crate) fn measure(&mut self, args: &B, sampling: Sampling) -> Result<WatchedRow> {
        let (run, workload) = (args.run_args(), &*self.workload);
        let note = progress::spinner(format!("running {} {}", self.method, B::Workload::NAME));
        self.delays.set(true);
        let before = runs::read(&self.database, &self.emulators)?;
        let limit = runs::limit(run, TXNS_DEFAULT);
        let span = span(args, &self.positions, limit, sampling);
        let (measured, seen) = args.measure(workload, &self.database, &self.tables, &span)?;
        let after = runs::read(&self.database, &self.emulators)?;
        self.delays.set(false);
        note.finish_and_clear();
        let about = About {
            workload: B::Workload::NAME,
            mix: args.mix(),
            skew: args.skew(),
            rows: workload.rows(),
            partitions: run.partitions,
            threads: run.threads(),
            update_columns: 0,
            seed: run.seed,
        };
        let domain = before.statistics.domain;
        let setting = Setting::new(run, self.method, domain, self.scratch.path());
        let mut row = runs::row(&setting, &about, &measured, &before, &after);
        row.standard = Some(numbers(args, &measured));
        self.positions = measured.positions;
        Ok((row, seen))
    }

    /// Checks the content against the lists, unless the options say no.
    pub(crate) fn check(&self, args: &B) -> Result<()> {
        if args.run_args().skip_check {
            return Ok(());
        }
        let positions = if args.is_in_order() {
            self.positions.as_slice()
        } else {
            &[]
        };
        check_content(&*self.workload, &self.database, positions).context("after the run")
    }
}

/// Runs the transactions before the measured ones, and returns the position of each thread.
fn warm_up<B: Benchmark>(
    args: &B,
    workload: &B::Workload,
    database: &Database,
    tables: &<B::Workload as Workload>::Tables,
) -> Result<Vec<u64>> {
    let positions = vec![0; workload.lists() as usize];
    if args.warm_up() == 0 {
        return Ok(positions);
    }
    let txns = args
        .warm_up()
        .div_ceil(u64::from(args.run_args().threads()));
    let span = span(args, &positions, Limit::Transactions(txns), Sampling::Off);
    let (measured, _) = args.measure(workload, database, tables, &span)?;
    Ok(measured.positions)
}

/// The span to measure, from these positions on.
fn span<'p, B: Benchmark>(
    args: &B,
    positions: &'p [u64],
    limit: Limit,
    sampling: Sampling,
) -> Span<'p> {
    let run = args.run_args();
    Span {
        positions,
        limit,
        acknowledge: runs::acknowledge(run),
        partitions: if args.single_partition() || run.partitions == 1 {
            Partitions::Owned
        } else {
            Partitions::Taken
        },
        sampling,
    }
}

/// Loads all rows under a progress bar.
pub(super) fn load<W: Workload>(workload: &W, database: &Database) -> Result<W::Tables> {
    let bar = progress::count("loading", workload.rows());
    let tables = workload.load(database, |rows| bar.inc(rows))?;
    database.force()?;
    bar.finish_and_clear();
    Ok(tables)
}

/// Checks the consistency conditions, and the results of the lists up to the given positions.
pub(super) fn check_content<W: Workload>(
    workload: &W,
    database: &Database,
    positions: &[u64],
) -> Result<()> {
    let note = progress::spinner("checking the consistency conditions");
    let done: Vec<_> = positions.iter().map(|count| *count..=*count).collect();
    workload.check(database, &done)?;
    note.finish_and_clear();
    Ok(())
}

fn numbers<B: Benchmark>(args: &B, measured: &Measured) -> StandardNumbers {
    let tally = &measured.tally;
    let by_type = tally.latencies_ns.iter().zip(&tally.rollbacks);
    StandardNumbers {
        own: args.own_numbers(measured),
        single_partition: args.single_partition(),
        rollbacks: tally.rollbacks.iter().sum(),
        distributed_share: tally.distributed as f64 / measured.txns.max(1) as f64,
        by_type: args
            .kinds()
            .into_iter()
            .zip(by_type)
            .map(|(kind, (latencies_ns, rollbacks))| {
                let txns = latencies_ns.len();
                let numbers = TypeNumbers {
                    txns,
                    success_rate: txns.saturating_sub(*rollbacks) as f64 / txns.max(1) as f64,
                    latency_us: LatencyUs::of(latencies_ns),
                };
                (kind.to_owned(), numbers)
            })
            .collect(),
    }
}

/// Bytes written a transaction, for people: methods with a file of pages, by kind and medium.
fn write_listing(rows: &[RunRow]) -> Option<Listing> {
    let of_pages = rows
        .iter()
        .filter_map(|row| Some((row, row.pages.as_ref()?)))
        .filter(|(_, pages)| pages.pool_bytes > 0);
    let mut listing = Listing::new([
        "method",
        "pages, file",
        "copies, file",
        "log, file",
        "copies, memory",
        "log, memory",
        "single pages/txn",
        "erases/M txn",
        "reclaimed",
    ]);
    let mut is_empty = true;
    for (row, pages) in of_pages {
        let written = pages.written_per_txn;
        let area = pages.area.unwrap_or_default();
        let reclaimed = area.holes_reclaimed as f64 / area.pages_put.max(1) as f64;
        listing.push(vec![
            row.method.as_str().into(),
            Cell::number(written.file_pages, 0),
            Cell::number(written.file_copies, 0),
            Cell::number(written.file_log, 0),
            Cell::number(written.memory_copies, 0),
            Cell::number(written.memory_log, 0),
            Cell::number(written.single_pages, 3),
            Cell::number(written.erases_per_million, 0),
            Cell::Number(reclaimed, format!("{:.1} %", reclaimed * 100.0)),
        ]);
        is_empty = false;
    }
    (!is_empty).then_some(listing)
}

/// The transactions of each row by type, for people.
fn type_listing<B: Benchmark>(args: &B, rows: &[RunRow]) -> Listing {
    let header = [
        "method",
        "type",
        "txns",
        "p50",
        "p95",
        "p99",
        "p99.9",
        "max",
        B::LAST_COLUMN,
    ];
    let mut listing = Listing::new(header);
    for row in rows {
        let Some(numbers) = &row.standard else {
            continue;
        };
        for (at, kind) in args.kinds().into_iter().enumerate() {
            let of_type = numbers.by_type.get(kind).copied().unwrap_or_default();
            let latency = of_type.latency_us;
            let time = |us| Cell::Number(us, duration(us));
            listing.push(vec![
                row.method.as_str().into(),
                kind.into(),
                Cell::Whole(of_type.txns),
                time(latency.p50),
                time(latency.p95),
                time(latency.p99),
                time(latency.p999),
                time(latency.max),
                args.last_cell(at, &numbers.own, &of_type),
            ]);
        }
    }
    listing
}
