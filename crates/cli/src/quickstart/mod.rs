//! `quickstart`: the promises of the database and their costs, shown on this machine in about a
//! minute.
//!
//! 1. A database on the best medium at hand, with a real data set imported.
//! 2. A child process books flights in it and is killed with SIGKILL in full flight. After
//!    reopening, every acknowledged booking is there whole, and none is there half.
//! 3. YCSB on each method: throughput, latency, durable steps, bytes; then a kill under load, and
//!    the time to recover.
//! 4. One table, and an HTML page with plots.
//!
//! Everything but the page is made in scratch directories that are removed at the end.

mod page;

use crate::args::{QuickstartArgs, VictimJob};
use crate::bench::{self, YcsbRuns};
use crate::files::{Existing, OutputFile};
use crate::kill::{AIRPORTS, bookings, import_airports};
use crate::kill::{Work, victim};
use crate::output::{Cell, Format, Listing, bytes, duration, print_json, stdout, thousands, whole};
use crate::printable::printable_lines;
use crate::progress;
use crate::report::RunRow;
use crate::scratch::Scratch;
use crate::streams;
use anyhow::{Context, Result, bail};
use indelible::{Database, Method, Options, Uniqueness};
use pmem::device::{DeviceReport, NativeOptions};
use std::io::Write;
use std::time::{Duration, Instant};
use workload::random::mix;
use workload::ycsb::{Mix, Ycsb};

/// Least time that a victim works before it is killed; the seed makes it up to twice as long.
const KILL_AFTER: Duration = Duration::from_millis(500);

/// Result of the kill.
struct Survival {
    method: Method,
    imported: u64,
    acknowledged: u64,
    bookings: u64,
    unacknowledged: u64,
    recovery_ms: f64,
}

/// Runs the command.
pub(crate) fn run(args: &QuickstartArgs, format: Format) -> Result<()> {
    let start = Instant::now();
    let tell = Tell(format);
    // First, since a place that takes no file would lose everything that was measured.
    let mut out = OutputFile::create(&args.report, Existing::Replace)?;
    let parent = args.path.clone().unwrap_or_else(Scratch::root);
    let scratch = Scratch::in_directory(&parent)?;
    let device = DeviceReport::measure(scratch.path(), NativeOptions::default())?;
    tell.say(&format!(
        "Medium: {} ({}). What is committed survives {}.",
        device.medium.name(),
        device.filesystem,
        device.survives
    ))?;
    tell.say(&format!(
        "Here a store, cache-line flush and fence takes {:.0} ns, a read that misses the cache {:.0} ns.\n",
        device.line_costs.line_ns, device.read_miss_ns
    ))?;
    let survival = survive_a_kill(args, &scratch, &tell)?;
    tell.say(
        "Measuring YCSB (1 KB rows) on each method, with the cache-line instructions that \
              persistent memory needs:",
    )?;
    let rows = measure(args, &parent)?;
    if format == Format::Json {
        rows.iter().try_for_each(print_json)?;
    } else {
        let shown = rows
            .iter()
            .filter(|row| format == Format::Csv || met_first(survival.method, &row.method));
        listing(shown).print(format)?;
    }
    let page = page::page(&device, &survival, &rows);
    out.write_all(page.html().as_bytes())?;
    out.finish()?;
    tell.say(&format!(
        "\nThe report with plots, and with all other methods, is {}. All of this took {:.0} s; the databases are removed again.",
        args.report.display(),
        start.elapsed().as_secs_f64()
    ))
}

/// Whether a newcomer meets a method first: the one in use here, the default on a disk, and the
/// upper bound.
fn met_first(in_use: Method, name: &str) -> bool {
    [in_use, Method::FullPageWrites, Method::Volatile]
        .iter()
        .any(|method| method.name() == name)
}

/// Reports progress: to people on standard output, next to data on standard error.
struct Tell(Format);

impl Tell {
    fn say(&self, text: &str) -> Result<()> {
        if self.0 == Format::Text {
            let mut out = stdout();
            writeln!(out, "{}", printable_lines(text))?;
            out.flush()?;
        } else {
            streams::tell(&printable_lines(text));
        }
        Ok(())
    }
}

/// Imports the airports, lets a child process book flights, kills it, and checks the database.
fn survive_a_kill(args: &QuickstartArgs, scratch: &Scratch, tell: &Tell) -> Result<Survival> {
    let path = scratch.path().join("airports.db");
    let database = Database::create(&path, &Options::new().partitions(2))?;
    let method = database.method();
    let imported = import_airports(&database, scratch)?;
    let airports = database.table(AIRPORTS)?;
    database.create_index(&airports, "by_state", ["state"], Uniqueness::Repeating)?;
    let in_texas =
        database.read(|reader| Ok(reader.find(&airports.index("by_state")?, "TX")?.len()))?;
    tell.say(&format!(
        "Created a database (method {method}, 2 partitions) and imported {} airports in {}; \
         the index on states finds {in_texas} of them in Texas.",
        thousands(imported.rows),
        duration(imported.seconds * 1e6)
    ))?;
    bookings::prepare(&database)?;
    database.close()?;

    let note = progress::spinner("a child process books flights");
    let after = kill_after(args.seed);
    let work = Work {
        job: VictimJob::Bookings,
        rows: 0,
        seed: args.seed,
        first: 0,
        checkpoint_log_bytes: None,
    };
    let acknowledged = victim::run_and_kill(&path, work, after)?;
    note.finish_and_clear();
    let numbers: Vec<u64> = acknowledged.iter().map(|(_, number)| *number).collect();
    let opening = Instant::now();
    let database = Database::open(&path)?;
    let recovery_ms = opening.elapsed().as_secs_f64() * 1e3;
    let verdict = bookings::check(&database, args.seed, &numbers, 1)
        .context("the database did not survive the kill")?;
    let report = database.verify()?;
    if let Some(damage) = report.damage.first() {
        bail!("the deep check after the kill found damage: {damage}");
    }
    let survival = Survival {
        method,
        imported: imported.rows,
        acknowledged: numbers.len() as u64,
        bookings: verdict.bookings,
        unacknowledged: verdict.unacknowledged,
        recovery_ms,
    };
    tell.say(&format!(
        "A child process booked flights and was killed with SIGKILL after {} acknowledged transactions.\n\
         Reopened in {recovery_ms:.1} ms: all {} are there whole, and so are {} that were in flight; \
         none is there half. The deep check of {} rows and {} blocks found nothing.\n",
        thousands(survival.acknowledged),
        thousands(survival.acknowledged),
        survival.unacknowledged,
        thousands(report.rows),
        thousands(report.blocks)
    ))?;
    Ok(survival)
}

/// The moment of the kill. The seed decides, so that runs differ and can be repeated.
fn kill_after(seed: u64) -> Duration {
    KILL_AFTER + Duration::from_millis(mix(seed) % KILL_AFTER.as_millis() as u64)
}

/// Measures every mix on every method, and the recovery of each after a kill under load.
fn measure(args: &QuickstartArgs, parent: &std::path::Path) -> Result<Vec<RunRow>> {
    let partitions =
        std::thread::available_parallelism().map_or(1, |cores| cores.get().min(2) as u32);
    let runs = YcsbRuns {
        rows: args.rows,
        partitions,
        seconds: args.seconds,
        directory: parent.to_owned(),
        seed: args.seed,
    };
    let methods: Vec<_> = Method::distinct().collect();
    let mut rows = bench::measure_all(&runs, &methods, &Mix::ALL)?;
    for method in Method::distinct().filter(|method| method.is_durable()) {
        let recovery_ms = kill_under_load(args, parent, method, partitions)
            .with_context(|| format!("method {method} did not survive the kill"))?;
        for row in rows.iter_mut().filter(|row| row.method == method.name()) {
            row.recovery_ms = Some(recovery_ms);
        }
    }
    Ok(rows)
}

/// Loads a database, kills a process that updates it, and returns the milliseconds that reopening
/// takes. The content must be a whole prefix of the transactions, with all acknowledged ones.
fn kill_under_load(
    args: &QuickstartArgs,
    parent: &std::path::Path,
    method: Method,
    partitions: u32,
) -> Result<f64> {
    let scratch = Scratch::in_directory(parent)?;
    let path = scratch.path().join("ycsb.db");
    let workload = Ycsb::new(victim::ycsb_options(args.rows, partitions, args.seed))?;
    let options = Options::new().method(method).partitions(partitions);
    let database = Database::create(&path, &options)?;
    let note = progress::spinner(format!("killing {method} under load"));
    workload.load(&database, |_| ())?;
    database.close()?;
    let after = kill_after(args.seed ^ u64::from(method.code()));
    let work = Work {
        job: VictimJob::Ycsb,
        rows: args.rows,
        seed: args.seed,
        first: 0,
        checkpoint_log_bytes: None,
    };
    let acknowledged = victim::run_and_kill(&path, work, after)?;
    let opening = Instant::now();
    let database = Database::open(&path)?;
    let recovery_ms = opening.elapsed().as_secs_f64() * 1e3;
    let mut done = vec![0; partitions as usize];
    for (partition, count) in acknowledged {
        done[partition as usize] = count;
    }
    let ranges: Vec<_> = done
        .into_iter()
        .map(|count| count..=count + victim::UNACKNOWLEDGED_MAX)
        .collect();
    workload.check(&database, &Ycsb::table(&database)?, &ranges)?;
    note.finish_and_clear();
    Ok(recovery_ms)
}

/// The table at the end.
fn listing<'r>(rows: impl Iterator<Item = &'r RunRow>) -> Listing {
    let mut listing = Listing::new([
        "method",
        "mix",
        "txn/s",
        "p99",
        "flushes/txn",
        "fences/txn",
        "bytes/txn",
        "syncs/txn",
        "footprint",
        "recovery",
    ]);
    for row in rows {
        listing.push(vec![
            row.method.as_str().into(),
            row.mix.as_str().into(),
            Cell::Number(row.txn_per_s, whole(row.txn_per_s)),
            Cell::Number(row.latency_us.p99, duration(row.latency_us.p99)),
            Cell::number(row.per_txn.lines_flushed, 1),
            Cell::number(row.per_txn.fences, 1),
            Cell::number(row.per_txn.bytes_written, 0),
            Cell::number(row.per_txn.syncs, 3),
            Cell::Number(
                row.footprint_bytes.total() as f64,
                bytes(row.footprint_bytes.total()),
            ),
            recovery(row),
        ]);
    }
    listing
}

fn recovery(row: &RunRow) -> Cell {
    match row.recovery_ms {
        Some(ms) => Cell::Number(ms, duration(ms * 1e3)),
        None => "keeps nothing".into(),
    }
}
