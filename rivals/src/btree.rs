//! `bench btree-insert`: rows of one size go into one table with keys in random order, one a
//! transaction, in methods of ours and in SQLite by its journals.
//!
//! Everything runs in one process, in turns, so that ratios are taken under the same conditions. A
//! transaction is as durable as the medium allows when it returns, except with journal mode OFF,
//! which syncs and rolls nothing back: it is what SQLite's tree costs alone. The page cache has
//! SQLite's 2 MB; with a large one its inserts take several times as long. At the end the rows are
//! counted.

use crate::args::{BtreeArgs, Format, Journal, primitive_name};
use crate::foreign::without_sqlite_memory_statistics;
use crate::machine::{self, COMMIT, Machine};
use crate::scratch::Scratch;
use anyhow::{Context, Result, ensure};
use indelible::{DataType, Database, Durability, Method, Options};
use rusqlite::Connection;
use serde::Serialize;
use std::io::{Write, stdout};
use std::path::Path;
use std::time::Instant;

const KEY_BYTES: u32 = 8;

/// Result of one run.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    workload: &'static str,
    what: String,
    /// How it was set, in words.
    settings: String,
    record_bytes: u32,
    rows: u64,
    seconds: f64,
    rows_per_s: f64,
    commit: &'static str,
    seed: u64,
    machine: Machine,
}

/// Runs the command.
pub(crate) fn run(args: &BtreeArgs, format: Format) -> Result<()> {
    let mut rows = Vec::new();
    for _ in 0..args.repeat {
        for record in &args.record {
            for method in &args.method {
                rows.push(shown(ours(args, *method, *record)?, format)?);
            }
            for journal in &args.journal {
                rows.push(shown(sqlite(args, *journal, *record)?, format)?);
            }
        }
    }
    match format {
        Format::Json => Ok(()),
        Format::Text => print_table(&rows),
    }
}

fn shown(row: Row, format: Format) -> Result<Row> {
    if matches!(format, Format::Json) {
        let mut out = stdout().lock();
        serde_json::to_writer(&mut out, &row)?;
        writeln!(out)?;
        out.flush()?;
    }
    Ok(row)
}

fn scratch(args: &BtreeArgs) -> Result<Scratch> {
    Ok(match &args.path {
        Some(path) => Scratch::in_directory(path)?,
        None => Scratch::new()?,
    })
}

fn row(
    args: &BtreeArgs,
    what: String,
    settings: String,
    record: u32,
    seconds: f64,
    at: &Path,
) -> Row {
    Row {
        workload: "btree-insert",
        what,
        settings,
        record_bytes: record,
        rows: args.rows,
        seconds,
        rows_per_s: args.rows as f64 / seconds,
        commit: COMMIT,
        seed: args.seed,
        machine: machine::here(at),
    }
}

/// The key of row `number`, which no other row has.
fn key(args: &BtreeArgs, number: u64) -> i64 {
    let mixed = number
        .wrapping_add(args.seed << 40)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed ^ mixed >> 32).cast_signed()
}

fn payload(record: u32) -> String {
    "p".repeat(record.saturating_sub(KEY_BYTES) as usize)
}

fn ours(args: &BtreeArgs, method: Method, record: u32) -> Result<Row> {
    let scratch = scratch(args)?;
    let mut options = Options::new().method(method).partitions(1);
    let mut settings = "each transaction durable on its own".to_owned();
    if let Some(primitives) = args.primitives {
        options = options.primitives(primitives);
        settings = format!("{settings}, {}", primitive_name(primitives));
    }
    let database = Database::create(scratch.path().join("btree.db"), &options)?;
    let mut builder = database.create_table("rows").column("key", DataType::Int64);
    let payload = payload(record);
    if !payload.is_empty() {
        let length = payload.len() as u32;
        builder = builder.column("payload", DataType::Char { length });
    }
    let table = builder.primary_key(["key"]).create()?;
    let mut new = table.row();
    if !payload.is_empty() {
        new.set(1, payload.as_str())?;
    }
    let mut worker = database.worker(&[0], Durability::Immediate)?;
    let start = Instant::now();
    for number in 0..args.rows {
        new.set(0, key(args, number))?;
        worker.transaction(|transaction| transaction.insert(&table, &new))?;
    }
    let seconds = start.elapsed().as_secs_f64();
    drop(worker);
    let count = database.read(|reader| reader.count(&table, ..))?;
    ensure!(count == args.rows, "{method} has {count} rows");
    let what = method.name().to_owned();
    Ok(row(args, what, settings, record, seconds, scratch.path()))
}

fn sqlite(args: &BtreeArgs, journal: Journal, record: u32) -> Result<Row> {
    without_sqlite_memory_statistics()?;
    let scratch = scratch(args)?;
    let connection = Connection::open(scratch.path().join("rows.sqlite"))?;
    let synchronous = match journal {
        Journal::Off => "OFF",
        Journal::Wal | Journal::Truncate => "FULL",
    };
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "journal_mode", journal.name())?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    let is_taken = mode.eq_ignore_ascii_case(journal.name());
    ensure!(is_taken, "SQLite's journal mode is {mode}");
    let payload = payload(record);
    let (create, insert) = if payload.is_empty() {
        (
            "CREATE TABLE rows (key INTEGER PRIMARY KEY)",
            "INSERT INTO rows VALUES (?1)",
        )
    } else {
        (
            "CREATE TABLE rows (key INTEGER PRIMARY KEY, payload TEXT NOT NULL)",
            "INSERT INTO rows VALUES (?1, ?2)",
        )
    };
    connection.execute_batch(create)?;
    let mut statement = connection.prepare(insert)?;
    if !payload.is_empty() {
        statement.raw_bind_parameter(2, payload.as_str())?;
    }
    let start = Instant::now();
    for number in 0..args.rows {
        statement.raw_bind_parameter(1, key(args, number))?;
        // commit point: a statement outside of a transaction is one
        statement.raw_execute()?;
    }
    let seconds = start.elapsed().as_secs_f64();
    drop(statement);
    let count: i64 = connection
        .query_row("SELECT count(*) FROM rows", [], |row| row.get(0))
        .context("counting")?;
    ensure!(
        count.cast_unsigned() == args.rows,
        "SQLite has {count} rows"
    );
    let what = format!("sqlite-{}", journal.name().to_lowercase());
    let settings = format!(
        "SQLite, journal {}, synchronous={synchronous}, exclusive locking, page cache of 2 MB, prepared statement",
        journal.name()
    );
    Ok(row(args, what, settings, record, seconds, scratch.path()))
}

/// The rows for people. The ratio is that of the first row with the same record to this one.
fn print_table(rows: &[Row]) -> Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "| {:<17} | record |    rows/s | ratio   |", "what")?;
    writeln!(out, "|-------------------|--------|-----------|---------|")?;
    for row in rows {
        let same = |first: &&Row| first.record_bytes == row.record_bytes;
        let first = rows.iter().find(same);
        let ratio = first.map_or(1.0, |first| first.rows_per_s / row.rows_per_s);
        writeln!(
            out,
            "| {:<17} | {:>6} | {:>9.0} | {ratio:>6.2}x |",
            row.what, row.record_bytes, row.rows_per_s
        )?;
    }
    for row in rows
        .iter()
        .filter(|row| row.record_bytes == rows[0].record_bytes)
    {
        writeln!(out, "{}: {}", row.what, row.settings)?;
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{BenchCommand, Command, CommandLine};
    use clap::Parser;

    #[test]
    fn every_journal_and_a_method_hold_all_rows() {
        let line = "rivals bench btree-insert --method fash --record 8,64 --rows 300";
        let line = CommandLine::parse_from(line.split(' '));
        let Command::Bench(BenchCommand::BtreeInsert(args)) = line.command else {
            panic!("the line says btree-insert");
        };
        for record in &args.record {
            assert!(ours(&args, args.method[0], *record).unwrap().rows_per_s > 0.0);
            for journal in [Journal::Wal, Journal::Truncate, Journal::Off] {
                let row = sqlite(&args, journal, *record).unwrap();
                assert_eq!(row.rows, 300);
            }
        }
    }
}
