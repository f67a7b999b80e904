//! `bench join`: our join and those of engines, on the same columns, in turns.
//!
//! | file | job |
//! |---|---|
//! | `columns` | the columns as raw files, which the engines read |
//! | `engine` | an engine in a process of its own |
//!
//! Relations are made once, from the generator of the crate `join`, which knows what their join
//! must find. Every engine loads them into its own form; then rounds begin, in each of which every
//! engine runs the query once, so that what disturbs the machine disturbs all. A result that is not
//! what the generator says ends the command. The first round is cold: our scratch memory is not
//! mapped yet, and theirs has not been touched.

mod columns;
mod engine;

pub(crate) use engine::Engine;

use crate::args::{Format, JoinArgs};
use crate::failure::Usage;
use crate::machine::{self, COMMIT, Machine};
use crate::scratch::Scratch;
use anyhow::{Result, bail};
use engine::{Columns, Process};
use join::data::{KeyRange, Relations, Workload};
use join::{Options, Relation, Totals, Tuple, Tuple8, Tuple16, join_in};
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::{Write, stdout};
use std::path::Path;

/// One join, with the keys of `indelible bench join` where both have them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// The contestant: an algorithm of ours, or the name of the engine.
    pub(crate) algorithm: String,
    pub(crate) engine: &'static str,
    /// Of the engine; ours is named by its commit.
    pub(crate) version: String,
    /// How it was set, in words.
    pub(crate) setting: String,
    /// Our instructions; engines have none to choose.
    pub(crate) kernel: Option<&'static str>,
    pub(crate) r: usize,
    pub(crate) s: usize,
    pub(crate) tuple_bytes: usize,
    pub(crate) threads: usize,
    pub(crate) zipf: f64,
    pub(crate) dense: bool,
    #[serde(rename = "match")]
    pub(crate) match_rate: f64,
    pub(crate) repeats: usize,
    /// From 1; the first one is cold.
    pub(crate) round: u32,
    pub(crate) seconds: f64,
    pub(crate) tuples_per_s: f64,
    /// Seconds of each phase, in order; ours only.
    pub(crate) phases: Map<String, Value>,
    /// Ours only.
    pub(crate) scratch_bytes: Option<u64>,
    pub(crate) count: u64,
    pub(crate) r_payload_sum: u64,
    pub(crate) s_payload_sum: u64,
    pub(crate) commit: &'static str,
    pub(crate) seed: u64,
    pub(crate) machine: Machine,
}

/// Runs the command.
pub(crate) fn run(args: &JoinArgs, format: Format) -> Result<()> {
    let rows = rows(args, |row| match format {
        Format::Json => print_json(row),
        Format::Text => Ok(()),
    })?;
    match format {
        Format::Json => Ok(()),
        Format::Text => print_table(args, &rows),
    }
}

/// Measures everything; `each` sees a row as soon as its result is found right.
pub(crate) fn rows(args: &JoinArgs, each: impl FnMut(&Row) -> Result<()>) -> Result<Vec<Row>> {
    check(args)?;
    match args.tuple {
        16 => rounds::<Tuple16>(args, each),
        _ => rounds::<Tuple8>(args, each),
    }
}

fn workload(args: &JoinArgs) -> Workload {
    Workload {
        keys: if args.sparse {
            KeyRange::Sparse
        } else {
            KeyRange::Dense
        },
        zipf: args.zipf,
        match_rate: args.match_rate,
        repeats: args.repeats,
        seed: args.seed,
        ..Workload::uniform(args.r, args.s)
    }
}

/// Options that make no sense together, and memory that is not there.
fn check(args: &JoinArgs) -> Result<()> {
    for (place, engine) in args.engine.iter().enumerate() {
        if args.engine[..place].contains(engine) {
            let name = engine.name();
            return Err(Usage::error(format!(
                "--engine names {name} twice; name it once, and ask for more --rounds"
            )));
        }
    }
    let columns_bytes = args.tuple as f64 * (args.r as f64 + args.s as f64);
    let engines: f64 = args.engine.iter().map(|it| it.memory_factor()).sum();
    let needed_bytes = columns_bytes * (1.0 + engines);
    let available_bytes = available_memory_bytes();
    if needed_bytes > available_bytes {
        return Err(Usage::error(format!(
            "these engines need about {:.1} GiB for so many tuples, and {:.1} are available; use a smaller --r and --s, or fewer engines",
            needed_bytes / GIB,
            available_bytes / GIB
        )));
    }
    Ok(())
}

const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

/// Memory that the system could give; no limit where it does not say.
fn available_memory_bytes() -> f64 {
    let told = std::fs::read_to_string("/proc/meminfo").ok();
    let line = told.and_then(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("MemAvailable:"))?;
        line.trim().trim_end_matches(" kB").parse::<f64>().ok()
    });
    line.map_or(f64::INFINITY, |kibibytes| kibibytes * 1024.0)
}

/// Somebody who joins.
enum Contestant {
    Ours(Box<join::Scratch>),
    Theirs(Engine, Box<Process>),
}

fn rounds<T: Tuple>(args: &JoinArgs, mut each: impl FnMut(&Row) -> Result<()>) -> Result<Vec<Row>> {
    let relations = workload(args).generate::<T>(args.threads);
    let scratch = Scratch::new()?;
    let machine = machine::here(scratch.path());
    let mut contestants = start(args, scratch.path(), &relations)?;
    // All have loaded them.
    drop(scratch);
    let mut rows = Vec::new();
    for round in 1..=args.rounds {
        for contestant in &mut contestants {
            let (row, totals) = turn(args, contestant, &relations, round, &machine)?;
            if totals != relations.totals {
                bail!(
                    "{} is wrong: it found {totals:?} where there are {:?}",
                    row.engine,
                    relations.totals
                );
            }
            each(&row)?;
            rows.push(row);
        }
    }
    Ok(rows)
}

/// Starts the engines, one after the other: loading takes more memory than being loaded.
fn start<T: Tuple>(
    args: &JoinArgs,
    directory: &Path,
    relations: &Relations<T>,
) -> Result<Vec<Contestant>> {
    if args
        .engine
        .iter()
        .any(|engine| *engine != Engine::Indelible)
    {
        columns::write(directory, relations)?;
    }
    let columns = Columns {
        directory,
        value_bytes: size_of::<T::Word>(),
    };
    let start = |engine: &Engine| match engine {
        Engine::Indelible => Ok(Contestant::Ours(Box::default())),
        theirs => {
            let process = Process::start(&args.python, *theirs, columns, args.threads)?;
            Ok(Contestant::Theirs(*theirs, Box::new(process)))
        }
    };
    args.engine.iter().map(start).collect()
}

/// One contestant joins once.
fn turn<T: Tuple>(
    args: &JoinArgs,
    contestant: &mut Contestant,
    relations: &Relations<T>,
    round: u32,
    machine: &Machine,
) -> Result<(Row, Totals)> {
    let mut row = Row {
        algorithm: String::new(),
        engine: Engine::Indelible.name(),
        version: COMMIT.to_owned(),
        setting: "scratch memory is kept from round to round".to_owned(),
        kernel: None,
        r: args.r,
        s: args.s,
        tuple_bytes: T::BYTES,
        threads: args.threads,
        zipf: args.zipf,
        dense: !args.sparse,
        match_rate: args.match_rate,
        repeats: args.repeats,
        round,
        seconds: 0.0,
        tuples_per_s: 0.0,
        phases: Map::new(),
        scratch_bytes: None,
        count: 0,
        r_payload_sum: 0,
        s_payload_sum: 0,
        commit: COMMIT,
        seed: args.seed,
        machine: machine.clone(),
    };
    let totals = match contestant {
        Contestant::Ours(scratch) => ours(args, scratch, relations, &mut row)?,
        Contestant::Theirs(engine, process) => {
            let (seconds, totals) = process.run()?;
            row.engine = engine.name();
            row.algorithm = row.engine.to_owned();
            row.version.clone_from(&process.version);
            row.setting.clone_from(&process.setting);
            row.seconds = seconds;
            totals
        }
    };
    row.tuples_per_s = args.s as f64 / row.seconds.max(f64::MIN_POSITIVE);
    row.count = totals.count;
    row.r_payload_sum = totals.r_payload_sum;
    row.s_payload_sum = totals.s_payload_sum;
    Ok((row, totals))
}

fn ours<T: Tuple>(
    args: &JoinArgs,
    scratch: &mut join::Scratch,
    relations: &Relations<T>,
    row: &mut Row,
) -> Result<Totals> {
    let options = Options {
        algorithm: args.algorithm,
        kernel: args.kernel,
        threads: Some(args.threads),
        ..Options::default()
    };
    let (r, s) = (Relation::new(&relations.r), Relation::new(&relations.s));
    let joined = join_in(scratch, r, s, &options)?;
    let stats = joined.stats;
    stats.algorithm.name().clone_into(&mut row.algorithm);
    row.kernel = Some(stats.kernel);
    row.seconds = stats.elapsed.as_secs_f64();
    row.scratch_bytes = Some(stats.scratch_bytes);
    for time in stats.phases {
        row.phases
            .insert(time.phase.to_owned(), time.elapsed.as_secs_f64().into());
    }
    Ok(joined.totals)
}

fn print_json(row: &Row) -> Result<()> {
    let mut out = stdout().lock();
    serde_json::to_writer(&mut out, row)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

/// The best round of each engine, in the order of `--engine`. The cold one counts only where it is
/// the only one.
fn best<'r>(args: &JoinArgs, rows: &'r [Row]) -> Vec<&'r Row> {
    let best = |engine: &Engine| {
        let rounds = rows.iter().filter(|row| row.engine == engine.name());
        let warm = rounds.filter(|row| row.round > 1 || args.rounds == 1);
        warm.min_by(|one, other| one.seconds.total_cmp(&other.seconds))
    };
    args.engine.iter().filter_map(best).collect()
}

/// The best rounds for people. The ratio is how many times faster the first engine is.
fn print_table(args: &JoinArgs, rows: &[Row]) -> Result<()> {
    let mut out = stdout().lock();
    let best = best(args, rows);
    let first_s = best.first().map_or(0.0, |row| row.seconds);
    writeln!(
        out,
        "| {:<16} | {:<16} | {:>9} | {:>12} | {:>8} |",
        "engine", "algorithm", "seconds", "M tuples/s", "ratio"
    )?;
    writeln!(
        out,
        "|------------------|------------------|-----------|--------------|----------|"
    )?;
    for row in &best {
        writeln!(
            out,
            "| {:<16} | {:<16} | {:>9.3} | {:>12.1} | {:>7.2}x |",
            row.engine,
            row.algorithm,
            row.seconds,
            row.tuples_per_s / 1e6,
            row.seconds / first_s
        )?;
    }
    for row in &best {
        writeln!(out, "{} {}: {}", row.engine, row.version, row.setting)?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests;
