//! `sql --random`: random statements, compared with a server or checked by oracles.
//!
//! Rounds count up from the seed, and each finding names the seed of its round, so one round runs
//! it again. The end of the report says how often each construct and type occurred.

use crate::args::SqlArgs;
use crate::failure::{FAILED, Usage};
use crate::output::{Format, FormatName, print_json, stdout};
use crate::printable::printable;
use anyhow::Result;
use client::compare::Pair;
use client::random::{Finding, Tally, check, compare};
use client::{Address, Client, Error, WireClient};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

/// Findings after which a run ends.
const FINDINGS_MAX: usize = 20;

/// Runs rounds until so many statements have run.
pub(super) fn run(
    args: &SqlArgs,
    mut client: Box<dyn Client>,
    statements: u64,
    format: FormatName,
) -> Result<ExitCode> {
    let format = Format::try_from(format)?;
    let mut tally = Tally::default();
    let (mut seed, mut ran, mut findings) = (args.seed, 0, 0);
    let mut rounds: Rounds<'_> = match &args.against {
        Some(address) => {
            let address: Address = address
                .parse()
                .map_err(|error| Usage::error(format!("{error}")))?;
            let mut pair = Pair::new(client, Box::new(WireClient::connect(&address)?));
            Box::new(move |seed, tally| compare(&mut pair, seed, tally))
        }
        None => Box::new(move |seed, tally| check(&mut *client, seed, tally)),
    };
    while ran < statements && findings < FINDINGS_MAX {
        let (count, finding) = rounds(seed, &mut tally)?;
        ran += count;
        seed += 1;
        if let Some(finding) = finding {
            findings += 1;
            tell(&finding, format)?;
        }
    }
    let summary = Summary {
        seed: args.seed,
        rounds: seed - args.seed,
        statements: ran,
        findings,
        counts: tally.counts().collect(),
    };
    if format == Format::Json {
        print_json(&summary)?;
    } else {
        summary.print()?;
    }
    Ok(if findings == 0 {
        ExitCode::SUCCESS
    } else {
        FAILED.into()
    })
}

type Rounds<'a> = Box<dyn FnMut(u64, &mut Tally) -> Result<(u64, Option<Finding>), Error> + 'a>;

fn tell(finding: &Finding, format: Format) -> Result<()> {
    if format == Format::Json {
        return print_json(&FindingRow {
            seed: finding.seed,
            script: &finding.script,
            ours: &finding.ours,
            theirs: &finding.theirs,
        });
    }
    let mut out = stdout();
    writeln!(out, "-- seed {}", finding.seed)?;
    for statement in &finding.script {
        writeln!(out, "{};", printable(statement))?;
    }
    writeln!(out, "-- here:  {}", printable(&finding.ours))?;
    writeln!(out, "-- there: {}\n", printable(&finding.theirs))?;
    Ok(out.flush()?)
}

#[derive(Serialize)]
struct FindingRow<'a> {
    seed: u64,
    script: &'a [String],
    ours: &'a str,
    theirs: &'a str,
}

#[derive(Serialize)]
struct Summary {
    seed: u64,
    rounds: u64,
    statements: u64,
    findings: usize,
    counts: BTreeMap<&'static str, u64>,
}

impl Summary {
    fn print(&self) -> Result<()> {
        let mut out = stdout();
        for (name, count) in &self.counts {
            writeln!(out, "{count:>8}  {name}")?;
        }
        writeln!(
            out,
            "seed {}: {} statements in {} rounds, {} findings",
            self.seed, self.statements, self.rounds, self.findings
        )?;
        Ok(out.flush()?)
    }
}
