//! TPC-H in process: all 22 queries, their answers and their times, beside PostgreSQL if one is
//! given.
//!
//! ```sh
//! tests/sql/with-postgres sh -c \
//!     'cargo run --release -p client --example tpch -- --scale 0.1 --postgres "$POSTGRES"'
//! ```
//!
//! `--query N` runs one of them, `--explain` shows its plan with what each part did, `--rounds N`
//! takes the best of several times, and `--record FILE` writes the answers of PostgreSQL. The test
//! compares with those at scale 0.01. Rows are compared as a set, because some orders have ties.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a program for developers"
)]

mod data;

use indelible::{Database, Method, Options};
use sql::types::Context;
use sql::{Batch, Flow, OutputColumn, RowSink, Session, Sql, SqlError};
use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes that COPY is handed at a time.
const COPY_BYTES: usize = 1 << 16;

/// Rows of a result as lines of text, and data for COPY.
#[derive(Default)]
struct Lines {
    rows: Vec<String>,
    data: VecDeque<u8>,
}

impl RowSink for Lines {
    fn describe(&mut self, _: &[OutputColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn rows(&mut self, batch: &Batch, context: &Context<'_>) -> Result<Flow, SqlError> {
        for row in batch.rows() {
            let mut line = String::new();
            for (at, value) in row.iter().enumerate() {
                if at > 0 {
                    line.push('|');
                }
                if value.is_null() {
                    line.push_str("NULL");
                } else {
                    let text = sql::types::text_io::print(value, value.kind(), context)?;
                    line.push_str(&text);
                }
            }
            self.rows.push(line);
        }
        Ok(Flow::More)
    }

    fn copy_in(&mut self, data: &mut Vec<u8>) -> Result<bool, SqlError> {
        let piece = self.data.len().min(COPY_BYTES);
        data.extend(self.data.drain(..piece));
        Ok(piece > 0)
    }
}

fn run(session: &mut Session, text: &str) -> Vec<String> {
    let mut lines = Lines::default();
    let result = session.simple(text, &mut lines);
    result.unwrap_or_else(|error| panic!("{error}\n{text}"));
    lines.rows
}

/// Creates and fills the tables.
fn load(session: &mut Session, scale: f64) {
    let texts = data::texts();
    run(session, "SET synchronous_commit = off");
    for (table, columns) in data::TABLES {
        // The rows of a table that nobody else knows are not kept in memory.
        run(session, &format!("BEGIN; CREATE TABLE {table} ({columns})"));
        let mut lines = Lines {
            data: data::copied(table, scale, &texts).into_bytes().into(),
            ..Lines::default()
        };
        let copy = format!("COPY {table} FROM STDIN (DELIMITER '|')");
        session.simple(&copy, &mut lines).unwrap();
        run(session, "COMMIT");
    }
    run(session, "ANALYZE");
}

/// The rows of a query, in the order of their texts, and the time that it took.
fn answer(session: &mut Session, number: i32, scale: f64) -> (Vec<String>, Duration) {
    let start = Instant::now();
    let statements = data::statements(number, scale).into_iter();
    let mut rows: Vec<String> = statements.flat_map(|text| run(session, &text)).collect();
    let took = start.elapsed();
    rows.sort();
    (rows, took)
}

/// A `PostgreSQL` that is asked by its program `psql`.
struct Postgres(String);

impl Postgres {
    /// The output of statements.
    fn run(&self, text: &str) -> String {
        let mut psql = Command::new("psql")
            .args(["-XAtq", "-P", "null=NULL", "-v", "ON_ERROR_STOP=1", &self.0])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = psql.stdin.take().unwrap();
        let text = text.to_owned();
        let writer = std::thread::spawn(move || input.write_all(text.as_bytes()).unwrap());
        let output = psql.wait_with_output().unwrap();
        writer.join().unwrap();
        assert!(output.status.success(), "psql has failed");
        String::from_utf8(output.stdout).unwrap()
    }

    fn load(&self, scale: f64) {
        let texts = data::texts();
        for (table, columns) in data::TABLES {
            let rows = data::copied(table, scale, &texts);
            let create = format!("DROP TABLE IF EXISTS {table}; CREATE TABLE {table} ({columns});");
            self.run(&format!(
                "{create}\nCOPY {table} FROM STDIN (DELIMITER '|');\n{rows}\\.\n"
            ));
        }
        self.run("VACUUM ANALYZE;");
    }

    /// The rows of a query, in the order of their texts, and the time of the server.
    fn answer(&self, number: i32, scale: f64) -> (Vec<String>, Duration) {
        let statements = data::statements(number, scale).join(";\n");
        let settings = "SET max_parallel_workers_per_gather = 0; SET work_mem = '64MB';";
        let output = self.run(&format!("{settings}\n\\timing on\n{statements};\n"));
        let (times, rows): (Vec<&str>, Vec<&str>) =
            output.lines().partition(|line| line.starts_with("Time: "));
        let millis = times.iter().filter_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            words.get(1)?.parse::<f64>().ok()
        });
        let took = Duration::from_secs_f64(millis.sum::<f64>() / 1000.0);
        let mut rows: Vec<String> = rows.into_iter().map(str::to_owned).collect();
        rows.sort();
        (rows, took)
    }
}

/// A database that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn open() -> (Self, Session) {
        let name = format!("indelible-tpch-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let options = Options::new().method(Method::NvmInp);
        let database = Database::create(&directory, &options).unwrap();
        let session = Sql::open(database).unwrap().connect().unwrap();
        (Self(directory), session)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The value after an option of the command line.
fn option(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1)
}

/// The best of several answers.
fn best(rounds: usize, answer: impl FnMut() -> (Vec<String>, Duration)) -> (Vec<String>, Duration) {
    let answers = std::iter::repeat_with(answer).take(rounds);
    answers.min_by_key(|(_, took)| *took).unwrap_or_default()
}

fn main() {
    let scale: f64 = option("--scale").map_or(0.01, |text| text.parse().unwrap());
    let rounds: usize = option("--rounds").map_or(1, |text| text.parse().unwrap());
    let only: Option<i32> = option("--query").map(|text| text.parse().unwrap());
    let explains = std::env::args().any(|argument| argument == "--explain");
    let (_scratch, mut session) = Scratch::open();
    let start = Instant::now();
    load(&mut session, scale);
    println!("loaded scale {scale} in {:.1?}", start.elapsed());
    let postgres = option("--postgres").map(Postgres);
    if let Some(postgres) = &postgres {
        postgres.load(scale);
    }
    let (mut own, mut other, mut wrong) = (Duration::ZERO, Duration::ZERO, Vec::new());
    let mut recorded = Vec::new();
    for number in (1..=22).filter(|number| only.is_none_or(|only| only == *number)) {
        if explains {
            let query = data::statements(number, scale).remove(0);
            let plan = run(&mut session, &format!("EXPLAIN ANALYZE {query}"));
            println!("{}", plan.join("\n"));
        }
        let (rows, took) = best(rounds, || answer(&mut session, number, scale));
        own += took;
        print!(
            "Q{number:<3} {:8.1} ms  {:5} rows",
            millis(took),
            rows.len()
        );
        if let Some(postgres) = &postgres {
            let (expected, theirs) = best(rounds, || postgres.answer(number, scale));
            other += theirs;
            print!("  PostgreSQL {:8.1} ms", millis(theirs));
            if rows != expected {
                wrong.push(number);
            }
            recorded.push(format!("Q{number}"));
            recorded.extend(expected);
        }
        println!();
    }
    println!(
        "all  {:8.1} ms  PostgreSQL {:8.1} ms",
        millis(own),
        millis(other)
    );
    if let (Some(file), Some(_)) = (option("--record"), &postgres) {
        std::fs::write(Path::new(&file), recorded.join("\n") + "\n").unwrap();
    }
    assert!(wrong.is_empty(), "answers differ: {wrong:?}");
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[test]
fn all_queries_have_the_answers_of_postgresql() {
    let (_scratch, mut session) = Scratch::open();
    load(&mut session, 0.01);
    let recorded = include_str!("answers.txt");
    let mut answers = recorded.split_inclusive('\n').peekable();
    for number in 1..=22 {
        let name = format!("Q{number}\n");
        assert_eq!(answers.next(), Some(name.as_str()));
        let mut expected = Vec::new();
        while let Some(line) = answers.next_if(|line| !line.starts_with('Q')) {
            expected.push(line.trim_end_matches('\n'));
        }
        let (rows, _) = answer(&mut session, number, 0.01);
        assert_eq!(rows, expected, "Q{number}");
    }
}
