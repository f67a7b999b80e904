//! `bench tpcc`: the runs that the options ask for, one row each.
//!
//! The rows of the database are made and checked before the run, and the consistency conditions are checked again after it, together with
//! the numbers of New-Orders and Payments that the list says. The list is made once and shared by all methods. Each
//! partition has a thread; it owns the partition where no transaction leaves it, and takes the partitions that it needs otherwise.

use super::measure::{self, Measured, latency_us};
use super::runs::{self, About, Setting};
use super::shared::{self, Users};
use crate::args::TpccArgs;
use crate::failure::Usage;
use crate::output::{Cell, Format, Listing, duration, whole};
use crate::progress;
use crate::report::{RunRow, TpccNumbers, TypeNumbers};
use anyhow::{Context, Result};
use indelible::{Database, Method};
use workload::tpcc::{Kind, Scale, Tables, Tpcc, TpccOptions};

/// Transactions of a run that has neither a number nor a time.
const TXNS_DEFAULT: u64 = 1_000_000;
/// Longest list; a run that goes on beyond it begins again.
const LIST_MAX: u64 = 1_000_000;
/// No run is faster: how long a list needs to be for a given time.
const TXN_PER_MS_MAX: u64 = 200;

/// Runs the command.
pub(super) fn run(args: &TpccArgs, format: Format) -> Result<()> {
    check(args)?;
    let workload = Tpcc::new(options(args))?;
    let mut rows = Vec::new();
    for _ in 0..args.run.repeat {
        for method in &args.method {
            let row = run_one(args, &workload, *method)
                .with_context(|| format!("method {method}, tpcc"))?;
            runs::print_row(&row, format)?;
            rows.push(row);
        }
    }
    runs::print_rows(&rows, format)?;
    match format {
        Format::Text => type_listing(&rows).print(format),
        Format::Json | Format::Csv => Ok(()),
    }
}

/// Pairs of options that make no sense.
fn check(args: &TpccArgs) -> Result<()> {
    if warehouses(args) < args.run.partitions {
        return Err(Usage::error(
            "--warehouses must be at least --partitions; use more warehouses or fewer partitions",
        ));
    }
    if args.run.record.is_some() && (args.method.len() > 1 || args.run.repeat > 1) {
        return Err(Usage::error(
            "--record takes one run; give one method and no --repeat",
        ));
    }
    runs::check(&args.run, &args.method, false)
}

fn warehouses(args: &TpccArgs) -> u32 {
    args.warehouses.unwrap_or(args.run.partitions)
}

fn options(args: &TpccArgs) -> TpccOptions {
    TpccOptions {
        warehouses: warehouses(args),
        partitions: args.run.partitions,
        scale: Scale::share(args.scale),
        single_partition: args.single_partition,
        mix: args.mix,
        transactions: args.run.txns.unwrap_or(TXNS_DEFAULT).min(LIST_MAX),
        seed: args.run.seed,
    }
}

/// Loads, checks, measures, checks again, removes.
fn run_one(args: &TpccArgs, workload: &Tpcc, method: Method) -> Result<RunRow> {
    Ok(run_segments(args, workload, method, 1)?.remove(0))
}

/// Measures the first method of the options so many times in a row on one database.
pub(crate) fn segments(args: &TpccArgs, count: u32) -> Result<Vec<RunRow>> {
    check(args)?;
    let Some(method) = args.method.first() else {
        return Err(Usage::error("name a method"));
    };
    let mut options = options(args);
    options.transactions =
        runs::list_length(&args.run, count, options.transactions, TXN_PER_MS_MAX);
    run_segments(args, &Tpcc::new(options)?, *method, count)
}

/// Loads, checks, measures so many times, each time going on where the last one ended, checks again, removes.
fn run_segments(
    args: &TpccArgs,
    workload: &Tpcc,
    method: Method,
    count: u32,
) -> Result<Vec<RunRow>> {
    let run = &args.run;
    let scratch = runs::scratch(run)?;
    let (database, emulators) = runs::open(run, method, scratch.path())?;
    let tables = load(workload, &database)?;
    let mut positions = vec![0; run.partitions as usize];
    if !run.skip_check {
        check_content(workload, &database, &positions).context("after loading")?;
    }
    let about = About {
        workload: "tpcc",
        mix: args.mix.to_string(),
        skew: "nurand",
        rows: workload.options().scale.rows(warehouses(args)),
        partitions: run.partitions,
        update_columns: 0,
        seed: run.seed,
    };
    let note = progress::spinner(format!("running {method} tpcc"));
    let mut rows = Vec::new();
    runs::start_record(run, &database)?;
    for _ in 0..count {
        let before = runs::statistics(&database, &emulators)?;
        let measured = measure(args, workload, &database, &tables, &positions)?;
        let after = runs::statistics(&database, &emulators)?;
        let setting = Setting::new(run, method, before.domain, scratch.path());
        let mut row = runs::row(&setting, &about, &measured, &before, &after);
        row.tpcc = Some(numbers(args, &measured));
        rows.push(row);
        positions = measured.positions;
    }
    runs::finish_record(run, &database)?;
    note.finish_and_clear();
    if !run.skip_check {
        // With users that think, inputs are not taken in the order of the list.
        let counted = args.think_times <= 0.0;
        let positions = if counted { positions.as_slice() } else { &[] };
        check_content(workload, &database, positions).context("after the run")?;
    }
    Ok(rows)
}

/// Loads all rows under a progress bar.
fn load(workload: &Tpcc, database: &Database) -> Result<Tables> {
    let options = workload.options();
    let bar = progress::count("loading", options.scale.rows(options.warehouses));
    let tables = workload.load(database, |rows| bar.inc(rows))?;
    database.force()?;
    bar.finish_and_clear();
    Ok(tables)
}

/// Checks the consistency conditions, and the numbers of transactions of the partitions whose position is given.
fn check_content(workload: &Tpcc, database: &Database, positions: &[u64]) -> Result<()> {
    let note = progress::spinner("checking the consistency conditions");
    let done: Vec<_> = positions.iter().map(|count| *count..=*count).collect();
    workload.check(database, &done)?;
    note.finish_and_clear();
    Ok(())
}

fn measure(
    args: &TpccArgs,
    workload: &Tpcc,
    database: &Database,
    tables: &Tables,
    positions: &[u64],
) -> Result<Measured> {
    let limit = runs::limit(&args.run, TXNS_DEFAULT);
    let group = runs::group(&args.run);
    let runner = |partition, position| Ok(workload.runner(database, tables, partition, position)?);
    let stays = args.single_partition || args.run.partitions == 1;
    if stays && args.think_times <= 0.0 {
        return measure::measure(database, positions, limit, group, runner);
    }
    let users = Users {
        think_times: args.think_times,
        seed: args.run.seed,
    };
    shared::measure(
        database,
        positions,
        limit,
        group,
        users,
        |partition, position| {
            let warehouses = workload.warehouses(partition).count() as u64;
            Ok((runner(partition, position)?, warehouses))
        },
    )
}

fn numbers(args: &TpccArgs, measured: &Measured) -> TpccNumbers {
    let tally = &measured.tally;
    let by_type = Kind::ALL.into_iter().zip(&tally.latencies_ns);
    let new_orders = tally.latencies_ns[Kind::NewOrder as usize].len();
    let committed = new_orders.saturating_sub(tally.rollbacks) as f64;
    TpccNumbers {
        warehouses: warehouses(args),
        scale: args.scale,
        single_partition: args.single_partition,
        think_times: args.think_times,
        tpm_c: committed * 60.0 / measured.seconds,
        rollbacks: tally.rollbacks,
        distributed_share: tally.distributed as f64 / measured.txns.max(1) as f64,
        by_type: by_type
            .map(|(kind, latencies_ns)| {
                let numbers = TypeNumbers {
                    txns: latencies_ns.len(),
                    latency_us: latency_us(latencies_ns),
                };
                (kind.name().to_owned(), numbers)
            })
            .collect(),
    }
}

/// The transactions of each row by type, for people.
fn type_listing(rows: &[RunRow]) -> Listing {
    let header = [
        "method", "type", "txns", "p50", "p95", "p99", "p99.9", "max", "tpmC",
    ];
    let mut listing = Listing::new(header);
    for row in rows {
        let Some(numbers) = &row.tpcc else { continue };
        for kind in Kind::ALL {
            let of_type = numbers
                .by_type
                .get(kind.name())
                .copied()
                .unwrap_or_default();
            let latency = of_type.latency_us;
            let time = |us| Cell::Number(us, duration(us));
            let tpm_c = match kind {
                Kind::NewOrder => Cell::Number(numbers.tpm_c, whole(numbers.tpm_c)),
                _ => Cell::Null,
            };
            listing.push(vec![
                row.method.as_str().into(),
                kind.name().into(),
                Cell::Whole(of_type.txns),
                time(latency.p50),
                time(latency.p95),
                time(latency.p99),
                time(latency.p999),
                time(latency.max),
                tpm_c,
            ]);
        }
    }
    listing
}
