//! `torture --histories`: many sessions at once on few rows, and whether their observations fit
//! some order of their transactions.
//!
//! The database is a real one, with the method's own locks and threads. Nothing is simulated
//! except, with `--cuts`, its device. A method that runs one transaction at a time in a partition
//! is checked as well: its sessions wait for the partition. The log is so short that checkpoints
//! happen at all times: during transactions, when the power fails, and in recoveries.

use crate::args::TortureArgs;
use crate::failure::Usage;
use crate::output::{Cell, Facts, Format, note};
use crate::progress;
use crate::scratch::Scratch;
use ::torture::history::{CutOptions, HistoryOptions, HistoryReport, run, run_with_cuts};
use anyhow::{Context, Result, bail};
use indelible::{Database, Durability, Method, MethodOption, Options};
use std::time::Instant;

/// Small enough that pages are written back and read again during the run.
const BUFFER_BYTES: u64 = 1 << 20;
/// So short that a checkpoint follows after some hundred transactions, or some ten where the log
/// has images of pages.
const CHECKPOINT_LOG_BYTES: u64 = 64 << 10;
/// Small enough that a ring is full now and then, and that an opening has little to read.
const RING_BYTES: u64 = 2 << 20;
/// Small enough that pages leave it too, and that an opening has little to read: there is one for
/// each cut.
const AREA_BYTES: u64 = 512 << 10;

/// Runs transactions and checks them; returns the number of findings.
pub(super) fn histories(
    args: &TortureArgs,
    method: Method,
    transactions: u64,
    format: Format,
) -> Result<u64> {
    if args.cuts == 0 && !args.without.is_empty() {
        bail!(
            "--without switches steps of the simulated device off: with --histories, it needs --cuts"
        );
    }
    let connections = args.connections.unwrap_or(0);
    let sessions = args.sessions();
    if sessions + connections == 0 {
        return Err(Usage::error(
            "--sessions 0 leaves nobody to run transactions; add --connections",
        ));
    }
    let start = Instant::now();
    let of_method = [
        MethodOption::Sessions(sessions + connections),
        MethodOption::BufferBytes(BUFFER_BYTES),
        MethodOption::AreaBytes(AREA_BYTES),
    ];
    let mut options = Options::new()
        .fitting(method, of_method)
        .partitions(args.partitions)
        .durability(Durability::Group)
        .checkpoint_log_bytes(CHECKPOINT_LOG_BYTES);
    if method.has_rings() {
        options = options.ring_bytes(RING_BYTES);
    }
    let bar = progress::spinner(format!(
        "{sessions} sessions and {connections} connections of {method}"
    ));
    let history = HistoryOptions {
        sessions,
        connections,
        transactions,
        isolation: args.isolation.into(),
        seed: args.seed,
        ..HistoryOptions::default()
    };
    let cuts = CutOptions {
        cuts: args.cuts,
        disabled: args.without.clone(),
    };
    let report = if args.cuts > 0 {
        run_with_cuts(&options, &history, &cuts)
            .with_context(|| format!("method {method}, seed {}", args.seed))?
    } else {
        run_real(&options, &history)
            .with_context(|| format!("method {method}, seed {}", args.seed))?
    };
    bar.finish_and_clear();
    for anomaly in &report.anomalies {
        note(&format!("method {method}, seed {}: {anomaly}", args.seed));
    }
    let wrong = report.anomalies.len() as u64;
    let seconds = start.elapsed().as_secs_f64();
    facts(args, method, &report, seconds).print_next(format)?;
    if wrong == 0 {
        super::sites::check(&args.without, &report.sites)?;
    }
    Ok(wrong)
}

/// The result of a history.
fn facts(args: &TortureArgs, method: Method, report: &HistoryReport, seconds: f64) -> Facts {
    let mut facts = Facts::default();
    facts.add("method", method.name());
    facts.add("kind", "histories");
    facts.add("seed", Cell::Whole(args.seed));
    facts.add("partitions", Cell::Whole(args.partitions.into()));
    facts.add("isolation", args.isolation.name());
    facts.add("sessions", Cell::Whole(args.sessions().into()));
    facts.add(
        "connections",
        Cell::Whole(args.connections.unwrap_or(0).into()),
    );
    facts.add("transactions", Cell::Whole(report.committed));
    facts.add("undone", Cell::Whole(report.undone));
    facts.add("rows", Cell::Whole(report.rows));
    facts.add("cuts", Cell::Whole(report.cuts));
    facts.add("doubtful", Cell::Whole(report.doubtful));
    facts.add("dependencies", Cell::Whole(report.dependencies));
    let longest_wait_ms = report.longest_wait.as_millis() as u64;
    facts.add("longest_wait_ms", Cell::Whole(longest_wait_ms));
    facts.add("allowed", Cell::Whole(report.allowed));
    facts.add("wrong", Cell::Whole(report.anomalies.len() as u64));
    facts.add("seconds", Cell::number(seconds, 1));
    facts
}

/// On a database in a scratch directory.
fn run_real(options: &Options, history: &HistoryOptions) -> Result<HistoryReport> {
    let scratch = Scratch::new()?;
    let database = Database::create(scratch.path().join("history.db"), options)?;
    let report = run(&database, history)?;
    let verified = database.verify().context("the deep check failed")?;
    if let Some(damage) = verified.damage.first() {
        bail!("the deep check found damage: {damage}");
    }
    database.close()?;
    Ok(report)
}
