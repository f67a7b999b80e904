//! `bench ycsb`: what is asked for runs one after the other, each loaded once and then measured
//! with every mix.
//!
//! Every row is compared with the list after loading, which also fills the caches of those that
//! have one, and after the last mix. Rows of a target are given out only then, so that none stands
//! for wrong content. After each mix the target ends what it has put off, which is timed apart as
//! `debt_seconds`. Databases lie in scratch directories that are gone at the end.

use crate::args::{Format, YcsbArgs};
use crate::failure::Usage;
use crate::kind::Kind;
use crate::machine::{self, COMMIT, Machine};
use crate::report::{LatencyUs, PerTxn, RunRow};
use crate::scratch::Scratch;
use crate::target::{Description, Ours, Rivals, Target};
use anyhow::{Context, Result};
use indelible::Method;
use measure::{Limit, Measured};
use serde::Serialize;
use std::io::{Write, stdout};
use std::time::{Duration, Instant};
use workload::ycsb::{Expected, Mix, Ycsb, YcsbOptions};

/// Transactions of a run that has neither a number nor a time.
const TXNS_DEFAULT: u64 = 1_000_000;
/// Longest list; a run that goes on beyond it begins again.
const LIST_MAX: u64 = 16_000_000;
/// Length of the list of a run that ends with time.
const LIST_TIMED: u64 = 8_000_000;

/// A row of `indelible bench ycsb`, and what only rivals have.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    #[serde(flatten)]
    pub(crate) run: RunRow,
    /// How it was set, in words.
    pub(crate) settings: String,
    pub(crate) databases: u32,
    /// Time after the last transaction until everything put off was done; not in `seconds`.
    pub(crate) debt_seconds: f64,
}

/// Options of a run.
#[derive(Clone, Copy)]
enum Subject {
    Method(Method),
    Rival(Kind, u32),
}

/// Runs the command.
pub(crate) fn run(args: &YcsbArgs, format: Format) -> Result<()> {
    let rows = rows(args, |row| match format {
        Format::Json => print_json(row),
        Format::Text => Ok(()),
    })?;
    match format {
        Format::Json => Ok(()),
        Format::Text => print_table(&rows),
    }
}

/// Measures everything; `each` sees a target's rows as soon as its content is found right.
pub(crate) fn rows(args: &YcsbArgs, each: impl Fn(&Row) -> Result<()>) -> Result<Vec<Row>> {
    check(args)?;
    let make = |mix: &Mix| Ycsb::new(options(args, *mix));
    let workloads: Vec<Ycsb> = args.mix.iter().map(make).collect::<Result<_, _>>()?;
    let mut rows = Vec::new();
    for _ in 0..args.repeat {
        for subject in subjects(args) {
            let measured = run_subject(args, &workloads, subject)?;
            measured.iter().try_for_each(&each)?;
            rows.extend(measured);
        }
    }
    Ok(rows)
}

/// Options that make no sense together.
fn check(args: &YcsbArgs) -> Result<()> {
    if args.rows < args.partitions {
        return Err(Usage::error(
            "--rows must be at least --partitions; use more rows or fewer partitions",
        ));
    }
    for databases in &args.databases {
        if ![1, args.partitions].contains(databases) {
            return Err(Usage::error(format!(
                "--databases {databases} divides no {} partitions evenly; use 1, or as many as --partitions",
                args.partitions
            )));
        }
    }
    if args.primitives.is_some() && args.method.is_empty() {
        return Err(Usage::error(
            "--primitives belongs to methods of ours; add --method nvm-inp, or leave it out",
        ));
    }
    if args.method.iter().any(|method| !method.is_durable()) {
        return Err(Usage::error(
            "--method volatile keeps nothing, so it is no match for a durable rival; use indelible bench ycsb for it",
        ));
    }
    Ok(())
}

fn options(args: &YcsbArgs, mix: Mix) -> YcsbOptions {
    YcsbOptions {
        rows: args.rows,
        partitions: args.partitions,
        threads: 1,
        mix,
        skew: args.skew,
        update_columns: args.update_columns,
        transactions: args.txns.unwrap_or(LIST_TIMED).min(LIST_MAX),
        seed: args.seed,
    }
}

fn subjects(args: &YcsbArgs) -> Vec<Subject> {
    let methods = args.method.iter().copied().map(Subject::Method);
    let kinds = args.rival.iter().flatten();
    let rivals = kinds.flat_map(|kind| {
        let databases = args.databases.iter();
        databases.map(|databases| Subject::Rival(*kind, *databases))
    });
    methods.chain(rivals).collect()
}

fn limit(args: &YcsbArgs) -> Limit {
    if let Some(seconds) = args.seconds {
        return Limit::Time(Duration::from_secs_f64(seconds));
    }
    let txns = args.txns.unwrap_or(TXNS_DEFAULT);
    Limit::Transactions(txns.div_ceil(u64::from(args.partitions)))
}

/// Loads, runs all mixes, checks, removes.
fn run_subject(args: &YcsbArgs, workloads: &[Ycsb], subject: Subject) -> Result<Vec<Row>> {
    let Some(first) = workloads.first() else {
        return Ok(Vec::new());
    };
    let scratch = match &args.path {
        Some(path) => Scratch::in_directory(path)?,
        None => Scratch::new()?,
    };
    let (name, target): (_, Box<dyn Target>) = match subject {
        Subject::Method(method) => {
            let ours = Ours::load(args, method, first, scratch.path());
            (method.name(), Box::new(ours.context(method.name())?))
        }
        Subject::Rival(kind, databases) => {
            let rivals = Rivals::load(kind, databases, first, scratch.path());
            (kind.name(), Box::new(rivals.context(kind.name())?))
        }
    };
    let machine = machine::here(scratch.path());
    let mut expected: Vec<Expected> = (0..args.partitions)
        .map(|partition| first.expected(partition))
        .collect();
    let check = |expected: &[Expected], when: &str| {
        if args.skip_check {
            return Ok(());
        }
        let checked = target.check(first, expected);
        checked.with_context(|| format!("{name}: content {when}"))
    };
    check(&expected, "after loading")?;
    let mut rows = Vec::new();
    for workload in workloads {
        let row = run_mix(args, workload, &*target, &mut expected, &machine);
        rows.push(row.with_context(|| format!("{name}, mix {}", workload.options().mix))?);
    }
    check(&expected, "after the last mix")?;
    Ok(rows)
}

/// Measures one mix.
fn run_mix(
    args: &YcsbArgs,
    workload: &Ycsb,
    target: &dyn Target,
    expected: &mut [Expected],
    machine: &Machine,
) -> Result<Row> {
    let (measured, per_txn) = target.measure(workload, limit(args))?;
    let settling = Instant::now();
    target.settle()?;
    let debt_seconds = settling.elapsed().as_secs_f64();
    for (expected, count) in expected.iter_mut().zip(&measured.positions) {
        workload.advance(expected, *count);
    }
    let description = target.describe()?;
    Ok(Row {
        run: run_row(
            workload.options(),
            &description,
            &measured,
            per_txn,
            machine,
        ),
        settings: description.settings,
        databases: description.databases,
        debt_seconds,
    })
}

fn run_row(
    options: &YcsbOptions,
    description: &Description,
    measured: &Measured,
    per_txn: PerTxn,
    machine: &Machine,
) -> RunRow {
    RunRow {
        workload: "ycsb".into(),
        method: description.name.clone(),
        mix: options.mix.name().into(),
        skew: options.skew.name().into(),
        rows: options.rows.into(),
        partitions: options.partitions,
        threads: options.partitions,
        layout: description.layout.into(),
        update_columns: options.update_columns,
        domain: description.domain.into(),
        primitives: description.primitives.into(),
        survives: description.survives.into(),
        device: "native".into(),
        profile: "none".into(),
        txns: measured.txns,
        seconds: measured.seconds,
        txn_per_s: measured.txns as f64 / measured.seconds,
        latency_us: LatencyUs::of(&measured.latencies_ns()),
        cpu_us_per_txn: measured.cpu_seconds * 1e6 / measured.txns.max(1) as f64,
        modelled: None,
        per_txn,
        footprint_bytes: description.footprint_bytes,
        commit: COMMIT.into(),
        seed: options.seed,
        machine: machine.clone(),
        recovery_ms: None,
        pages: None,
        standard: None,
    }
}

fn print_json(row: &Row) -> Result<()> {
    let mut out = stdout().lock();
    serde_json::to_writer(&mut out, row)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

/// The rows for people. The ratio is that of the first row with the same mix to this one.
fn print_table(rows: &[Row]) -> Result<()> {
    let mut out = stdout().lock();
    writeln!(
        out,
        "| {:<13} | databases | {:<11} | {:>9} | {:>7} | {:>8} | {:>8} | {:>7} | {:>8} |",
        "what", "mix", "txn/s", "ratio", "p50 us", "p99 us", "debt s", "GiB"
    )?;
    writeln!(
        out,
        "|---------------|-----------|-------------|-----------|---------|----------|----------|---------|----------|"
    )?;
    for Row {
        run,
        databases,
        debt_seconds,
        ..
    } in rows
    {
        let first = rows.iter().find(|first| first.run.mix == run.mix);
        let ratio = first.map_or(1.0, |first| first.run.txn_per_s / run.txn_per_s);
        writeln!(
            out,
            "| {:<13} | {databases:>9} | {:<11} | {:>9.0} | {ratio:>6.2}x | {:>8.2} | {:>8.2} | {debt_seconds:>7.2} | {:>8.2} |",
            run.method,
            run.mix,
            run.txn_per_s,
            run.latency_us.p50,
            run.latency_us.p99,
            run.footprint_bytes.total() as f64 / f64::from(1 << 30),
        )?;
    }
    for Row { run, settings, .. } in rows {
        writeln!(out, "{}: {settings}", run.method)?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{BenchCommand, Command, CommandLine};
    use clap::Parser;

    fn args(line: &str) -> YcsbArgs {
        let words = ["rivals", "bench", "ycsb"]
            .into_iter()
            .chain(line.split(' '));
        match CommandLine::parse_from(words).command {
            Command::Bench(BenchCommand::Ycsb(args)) => *args,
            Command::Bench(_) => panic!("the line says ycsb"),
        }
    }

    /// Two mixes on one load, more transactions than the list is long in all, three columns an
    /// update.
    const SMALL: &str = "--rows 500 --partitions 2 --mix write-heavy,balanced --skew high --txns 3000 --update-columns 3 \
                         --databases 1,2";

    #[test]
    fn every_rival_leaves_what_the_list_says() {
        for kind in Kind::ALL {
            let rows = rows(&args(&format!("--rival {kind} {SMALL}")), |_| Ok(())).unwrap();
            assert_eq!(rows.len(), 4, "{kind}");
            for row in rows {
                assert_eq!(row.run.txns, 3000, "{kind}");
                assert!(row.run.txn_per_s > 0.0 && row.settings.len() > 20, "{kind}");
                assert!(row.run.footprint_bytes.total() > 500 * 1000, "{kind}");
            }
        }
    }

    #[test]
    fn ours_run_beside_them_with_the_same_keys() {
        let line = "--method nvm-inp --rival lmdb --rows 300 --txns 500 --primitives process";
        let rows = rows(&args(line), |_| Ok(())).unwrap();
        let json: Vec<_> = rows
            .iter()
            .map(|row| serde_json::to_value(row).unwrap())
            .collect();
        let keys = |row: &serde_json::Value| {
            let keys = row.as_object().unwrap().keys();
            keys.cloned().collect::<Vec<_>>()
        };
        assert_eq!(keys(&json[0]), keys(&json[1]));
        assert_eq!(json[0]["method"], "nvm-inp");
        assert_eq!(json[0]["primitives"], "process");
        for key in ["txn_per_s", "latency_us", "settings", "machine"] {
            assert!(json[1].get(key).is_some(), "{key}");
        }
    }

    #[test]
    fn impossible_options_get_one_sentence() {
        for (line, word) in [
            ("--rival lmdb --databases 3 --partitions 2", "--databases"),
            ("--rival lmdb --rows 1 --partitions 2", "--rows"),
            ("--rival lmdb --primitives flush", "--primitives"),
            ("--method volatile", "volatile"),
        ] {
            let error = rows(&args(line), |_| Ok(())).unwrap_err();
            assert!(
                error.is::<Usage>() && error.to_string().contains(word),
                "{error}"
            );
        }
    }
}
