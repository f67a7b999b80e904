//! `sql --test`: files of tests, one after the other.
//!
//! For people a line a failed record and a line a file; in JSON a line a file with its failed
//! records, then a line with the totals. A file that cannot be read ends the command.

use crate::args::SqlArgs;
use crate::failure::{FAILED, Usage};
use crate::output::{Cell, Format, FormatName, Listing, counted, print_json, stdout};
use crate::printable::printable;
use anyhow::{Context, Result};
use client::Client;
use client::slt::{FileReport, Runner, SkipList};
use serde::Serialize;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Runs all files.
pub(super) fn run(args: &SqlArgs, client: &dyn Client, format: FormatName) -> Result<ExitCode> {
    let format = Format::try_from(format)?;
    let skip = match &args.skip {
        None => SkipList::default(),
        Some(list) => SkipList::parse(&read(list)?)
            .map_err(|error| Usage::error(format!("{}, {error}", list.display())))?,
    };
    let mut runner = Runner::new(client, &skip);
    let mut totals = Totals::default();
    let mut rows = Listing::new(["file", "passed", "failed", "skipped", "seconds"]);
    for path in &args.test {
        let report = runner.run(path, &read(path)?)?;
        totals.add(&report);
        let file = path.display().to_string();
        match format {
            Format::Json => print_json(&FileRow::new(&file, &report))?,
            Format::Text => print_file(&file, &report)?,
            Format::Csv => rows.push(vec![
                file.into(),
                Cell::Whole(report.passed),
                Cell::Whole(report.failed.len() as u64),
                Cell::Whole(report.skipped),
                Cell::number(report.time.as_secs_f64(), 3),
            ]),
        }
    }
    match format {
        Format::Json => print_json(&totals)?,
        Format::Text => {
            let mut out = stdout();
            writeln!(out, "{}", totals.sentence())?;
            out.flush()?;
        }
        Format::Csv => rows.print(format)?,
    }
    Ok(if totals.failed == 0 {
        ExitCode::SUCCESS
    } else {
        FAILED.into()
    })
}

/// The text of a file. Bytes that are no text are shown as such, so that only their record fails.
fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn print_file(file: &str, report: &FileReport) -> Result<()> {
    let mut out = stdout();
    for failed in &report.failed {
        let reason = printable(&failed.reason);
        writeln!(out, "{}:{}: {reason}", printable(file), failed.line)?;
    }
    let (passed, failed, skipped) = (report.passed, report.failed.len(), report.skipped);
    let seconds = report.time.as_secs_f64();
    let file = printable(file);
    writeln!(
        out,
        "{file}: {passed} passed, {failed} failed, {skipped} skipped in {seconds:.1} s"
    )?;
    Ok(out.flush()?)
}

/// A file, as a line of JSON.
#[derive(Serialize)]
struct FileRow<'a> {
    file: &'a str,
    passed: u64,
    failed: u64,
    skipped: u64,
    seconds: f64,
    failures: Vec<Failure<'a>>,
}

#[derive(Serialize)]
struct Failure<'a> {
    record: String,
    reason: &'a str,
}

impl<'a> FileRow<'a> {
    fn new(file: &'a str, report: &'a FileReport) -> Self {
        let failures = report.failed.iter().map(|failed| Failure {
            record: format!("{file}:{}", failed.line),
            reason: &failed.reason,
        });
        Self {
            file,
            passed: report.passed,
            failed: report.failed.len() as u64,
            skipped: report.skipped,
            seconds: report.time.as_secs_f64(),
            failures: failures.collect(),
        }
    }
}

/// The sums over all files.
#[derive(Default, Serialize)]
struct Totals {
    files: u64,
    passed: u64,
    failed: u64,
    skipped: u64,
    seconds: f64,
    #[serde(skip)]
    time: Duration,
}

impl Totals {
    fn add(&mut self, report: &FileReport) {
        self.files += 1;
        self.passed += report.passed;
        self.failed += report.failed.len() as u64;
        self.skipped += report.skipped;
        self.time += report.time;
        self.seconds = self.time.as_secs_f64();
    }

    fn sentence(&self) -> String {
        format!(
            "{}: {} passed, {} failed, {} skipped in {:.1} s",
            counted(self.files, "file", "files"),
            self.passed,
            self.failed,
            self.skipped,
            self.seconds
        )
    }
}
