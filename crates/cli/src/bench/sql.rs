//! `bench sql`: a statement on one row through the typed interface, prepared, and as a text.
//!
//! The time of each statement is cut into rounds, in which the interfaces take turns forwards and
//! backwards, so that a machine that gets slower meanwhile favours none of them.

use super::runs::print_row;
use crate::args::SqlBenchArgs;
use crate::output::{Cell, Format, Listing};
use crate::progress;
use crate::scratch::Scratch;
use anyhow::{Context, Result};
use indelible::{Database, Method, Options};
use measure::sql::{Cost, Interface, PointRows, Statement};
use serde::Serialize;
use std::time::Duration;

/// Turns of each interface, for each statement; an even number.
const TURNS: u32 = 6;

const STATEMENTS: [(Statement, &str); 3] = [
    (Statement::Select, "select"),
    (Statement::Update, "update"),
    (Statement::Insert, "insert"),
];

/// A statement through all interfaces.
#[derive(Serialize)]
struct SqlRow {
    workload: &'static str,
    method: &'static str,
    statement: &'static str,
    rows: i32,
    typed: Numbers,
    prepared: Numbers,
    text: Numbers,
    /// Time by the time of the typed interface.
    prepared_by_typed: f64,
    text_by_typed: f64,
}

/// Cost of one statement, on average.
#[derive(Serialize)]
struct Numbers {
    statements: u64,
    us: f64,
    cpu_us: f64,
    fences: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocations: Option<f64>,
}

impl Numbers {
    fn of(cost: &Cost) -> Self {
        let count = cost.statements.max(1) as f64;
        Self {
            statements: cost.statements,
            us: cost.seconds * 1e6 / count,
            cpu_us: cost.cpu_seconds * 1e6 / count,
            fences: cost.fences as f64 / count,
            allocations: allocations::ARE_COUNTED.then(|| cost.allocations as f64 / count),
        }
    }
}

/// Runs the command.
pub(super) fn run(args: &SqlBenchArgs, format: Format) -> Result<()> {
    let mut rows = Vec::new();
    for method in &args.method {
        measured(args, *method, format, &mut rows).with_context(|| format!("method {method}"))?;
    }
    match format {
        Format::Json => Ok(()),
        Format::Text | Format::Csv => listing(&rows).print(format),
    }
}

fn measured(
    args: &SqlBenchArgs,
    method: Method,
    format: Format,
    rows: &mut Vec<SqlRow>,
) -> Result<()> {
    let scratch = match &args.path {
        Some(path) => Scratch::in_directory(path),
        None => Scratch::new(),
    }?;
    let options = Options::new().method(method);
    let database = Database::create(scratch.path().join("db"), &options)?;
    let note = progress::spinner(format!("running {method}"));
    let mut tables = PointRows::load(database, args.rows, allocations::count)?;
    for (statement, name) in STATEMENTS {
        let costs = costs(&mut tables, statement, args.seconds)?;
        let [typed, prepared, text] = costs.map(|cost| Numbers::of(&cost));
        let row = SqlRow {
            workload: "sql",
            method: method.name(),
            statement: name,
            rows: args.rows,
            prepared_by_typed: prepared.us / typed.us,
            text_by_typed: text.us / typed.us,
            typed,
            prepared,
            text,
        };
        print_row(&row, format)?;
        rows.push(row);
    }
    note.finish_and_clear();
    tables.check()
}

/// Costs through the typed interface, prepared, and as a text.
fn costs(tables: &mut PointRows, statement: Statement, seconds: f64) -> Result<[Cost; 3]> {
    let time = Duration::from_secs_f64(seconds / f64::from(TURNS));
    let interfaces = [Interface::Typed, Interface::Prepared, Interface::Text];
    let mut costs = [Cost::default(); 3];
    for turn in 0..TURNS {
        for step in 0..interfaces.len() {
            let at = match turn % 2 {
                0 => step,
                _ => interfaces.len() - 1 - step,
            };
            let cost = tables.turn(interfaces[at], statement, time)?;
            costs[at].add(&cost);
        }
    }
    Ok(costs)
}

fn listing(rows: &[SqlRow]) -> Listing {
    let mut listing = Listing::new([
        "method",
        "statement",
        "interface",
        "us",
        "by typed",
        "CPU us",
        "fences",
        "allocations",
    ]);
    for row in rows {
        let interfaces = [
            ("typed", &row.typed, 1.0),
            ("prepared", &row.prepared, row.prepared_by_typed),
            ("text", &row.text, row.text_by_typed),
        ];
        for (name, numbers, ratio) in interfaces {
            listing.push(vec![
                row.method.into(),
                row.statement.into(),
                name.into(),
                Cell::number(numbers.us, 2),
                Cell::number(ratio, 2),
                Cell::number(numbers.cpu_us, 2),
                Cell::number(numbers.fences, 2),
                match numbers.allocations {
                    Some(count) => Cell::number(count, 2),
                    None => "not counted".into(),
                },
            ]);
        }
    }
    listing
}

#[cfg(feature = "count-allocations")]
mod allocations {
    use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
    use std::alloc::System;

    #[global_allocator]
    static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

    pub(super) const ARE_COUNTED: bool = true;

    /// Allocations of the process so far.
    pub(super) fn count() -> u64 {
        let stats = COUNTING.stats();
        (stats.allocations + stats.reallocations) as u64
    }
}

#[cfg(not(feature = "count-allocations"))]
mod allocations {
    pub(super) const ARE_COUNTED: bool = false;

    /// Nobody counts.
    pub(super) fn count() -> u64 {
        0
    }
}
