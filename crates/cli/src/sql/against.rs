//! `sql --against`: scripts on this database and on PostgreSQL, and the differences by cause.
//!
//! For people the causes come sorted by how often they occurred, each with one statement; in JSON a
//! line a file with all its differences, then a line with the totals.

use crate::args::SqlArgs;
use crate::failure::{FAILED, Usage};
use crate::output::{Cell, Format, FormatName, Listing, print_json, stdout};
use crate::printable::printable;
use anyhow::{Context, Result};
use client::compare::{Difference, Pair, ScriptReport};
use client::{Address, Client, WireClient};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Most letters of a statement in the list of causes.
const STATEMENT_MAX: usize = 300;

/// Runs all scripts on both.
pub(super) fn run(
    args: &SqlArgs,
    ours: Box<dyn Client>,
    address: &str,
    format: FormatName,
) -> Result<ExitCode> {
    let format = Format::try_from(format)?;
    let address: Address = address
        .parse()
        .map_err(|error| Usage::error(format!("{error}")))?;
    let mut pair = Pair::new(ours, Box::new(WireClient::connect(&address)?));
    let prelude = args
        .prelude
        .as_deref()
        .map(read)
        .transpose()?
        .unwrap_or_default();
    let mut files = Listing::new([
        "file",
        "agree",
        "differ",
        "percent",
        "other messages",
        "not counted",
    ]);
    let (mut totals, mut causes) = (Totals::default(), Causes::default());
    for file in &args.files {
        pair.begin(&prelude)?;
        let report = pair.run(&read(file)?)?;
        let name = file.display().to_string();
        if format == Format::Json {
            print_json(&FileRow::new(&name, &report))?;
        }
        totals.add(&report);
        files.push(row(&name, &report));
        causes.add(&name, report.differences);
    }
    match format {
        Format::Json => print_json(&totals)?,
        Format::Csv => files.print(format)?,
        Format::Text => {
            files.print(format)?;
            let mut out = stdout();
            writeln!(out, "\n{}\n", totals.sentence())?;
            causes.print(&mut out)?;
            out.flush()?;
        }
    }
    Ok(if totals.differ == 0 {
        ExitCode::SUCCESS
    } else {
        FAILED.into()
    })
}

fn read(path: &Path) -> Result<String> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn row(name: &str, report: &ScriptReport) -> Vec<Cell> {
    let differ = report.differences.len() as u64;
    vec![
        name.into(),
        Cell::Whole(report.agreed),
        Cell::Whole(differ),
        Cell::number(percent(report.agreed, differ), 1),
        Cell::Whole(report.other_messages),
        Cell::Whole(report.uncounted),
    ]
}

/// The share of statements that agree, in percent.
fn percent(agreed: u64, differ: u64) -> f64 {
    100.0 * agreed as f64 / ((agreed + differ) as f64).max(1.0)
}

/// Differences by their causes.
#[derive(Default)]
struct Causes(BTreeMap<String, (u64, String, Option<Difference>)>);

impl Causes {
    fn add(&mut self, file: &str, differences: Vec<Difference>) {
        for difference in differences {
            let (count, place, first) = self.0.entry(difference.cause.clone()).or_default();
            *count += 1;
            if first.is_none() {
                *place = format!("{file}:{}", difference.line);
                *first = Some(difference);
            }
        }
    }

    fn print(&self, out: &mut impl Write) -> Result<()> {
        let mut causes: Vec<_> = self.0.iter().collect();
        causes.sort_by_key(|(_, (count, ..))| std::cmp::Reverse(*count));
        for (cause, (count, place, first)) in causes {
            writeln!(out, "{count:>5}  {}", printable(cause))?;
            let Some(first) = first else { continue };
            let statement: String = first.statement.chars().take(STATEMENT_MAX).collect();
            let statement = statement.split_whitespace().collect::<Vec<_>>().join(" ");
            writeln!(
                out,
                "       {}: {}",
                printable(place),
                printable(&statement)
            )?;
            writeln!(out, "       here:  {}", printable(&first.ours))?;
            writeln!(out, "       there: {}", printable(&first.theirs))?;
        }
        Ok(())
    }
}

/// The sums over all files.
#[derive(Default, Serialize)]
struct Totals {
    files: u64,
    agree: u64,
    differ: u64,
    percent: f64,
    other_messages: u64,
    uncounted: u64,
}

impl Totals {
    fn add(&mut self, report: &ScriptReport) {
        self.files += 1;
        self.agree += report.agreed;
        self.differ += report.differences.len() as u64;
        self.percent = percent(self.agree, self.differ);
        self.other_messages += report.other_messages;
        self.uncounted += report.uncounted;
    }

    fn sentence(&self) -> String {
        format!(
            "{} of {} statements agree ({:.1} %), {} of them with another message; {} are not counted",
            self.agree,
            self.agree + self.differ,
            self.percent,
            self.other_messages,
            self.uncounted
        )
    }
}

/// A file, as a line of JSON.
#[derive(Serialize)]
struct FileRow<'a> {
    file: &'a str,
    agree: u64,
    differ: usize,
    other_messages: u64,
    uncounted: u64,
    differences: Vec<DifferenceRow<'a>>,
}

#[derive(Serialize)]
struct DifferenceRow<'a> {
    line: usize,
    cause: &'a str,
    statement: &'a str,
    ours: &'a str,
    theirs: &'a str,
}

impl<'a> FileRow<'a> {
    fn new(file: &'a str, report: &'a ScriptReport) -> Self {
        let differences = report.differences.iter().map(|difference| DifferenceRow {
            line: difference.line,
            cause: &difference.cause,
            statement: &difference.statement,
            ours: &difference.ours,
            theirs: &difference.theirs,
        });
        Self {
            file,
            agree: report.agreed,
            differ: report.differences.len(),
            other_messages: report.other_messages,
            uncounted: report.uncounted,
            differences: differences.collect(),
        }
    }
}
