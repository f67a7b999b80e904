//! `torture --faults`: failing calls and torn writes, by the room of the crash search.
//!
//! Both run the same scenarios; each gives one result.

use super::damage::with_bar;
use super::found::Findings;
use crate::args::{SizeName, TortureArgs};
use crate::failure::Usage;
use crate::output::{Format, thousands};
use ::torture::faults::{FaultConfig, sweep_faults, tear};
use anyhow::Result;
use indelible::Method;

/// Lets every call fail in turn; returns the number of findings.
pub(super) fn calls(args: &TortureArgs, method: Method, format: Format) -> Result<u64> {
    let config = FaultConfig {
        method,
        seed: args.seed,
        full: args.size == SizeName::Full,
        only: args.only.clone(),
        runs_max: usize::MAX,
        threads: args.threads(),
        disabled: Vec::new(),
    };
    let report = with_bar("failing calls", |progress| sweep_faults(&config, progress))?;
    if report.runs == 0 && !args.only.is_empty() {
        return Err(Usage::error(format!(
            "no failing call of {method} has a name that begins with `{}`, so --only {0} has tried nothing",
            args.only
        )));
    }
    let (wrong, panics, hangs) = (&report.wrong, &report.panics, &report.hangs);
    let facts = vec![
        ("method", method.name().into()),
        ("kind", "faults".into()),
        ("seed", args.seed.into()),
        ("scenarios", report.scenarios.into()),
        ("calls", report.calls.into()),
        ("runs", report.runs.into()),
        ("struck", report.struck.into()),
        ("stopped", report.stopped.into()),
        ("images", report.images.into()),
        ("wrong", wrong.len().into()),
        ("panics", panics.len().into()),
        ("hangs", hangs.len().into()),
        ("seconds", report.seconds.into()),
    ];
    let sentence = format!(
        "{method} faults: {} calls of {} scenarios failed in {} runs, the engine stopped in {}, {} power cuts after it, \
         {} wrong, {} panics, {} hangs, {:.1} s (seed {})",
        thousands(report.calls),
        report.scenarios,
        thousands(report.runs),
        thousands(report.stopped),
        thousands(report.images),
        wrong.len(),
        panics.len(),
        hangs.len(),
        report.seconds,
        args.seed
    );
    let found: Vec<&String> = wrong.iter().chain(panics).chain(hangs).collect();
    let place = found.first().and_then(|found| found.split(": ").next());
    let only = place.map_or_else(String::new, |place| format!(" --only {place}"));
    let findings = Findings {
        facts,
        sentence,
        replay: format!("{}{only}", replay(args, method)),
        found,
    };
    findings.print(format)?;
    Ok(report.faults())
}

/// Tears every write; returns the number of findings.
pub(super) fn torn(args: &TortureArgs, method: Method, format: Format) -> Result<u64> {
    let is_full = args.size == SizeName::Full;
    let report = with_bar("tearing writes", |progress| {
        tear(method, args.seed, is_full, progress)
    })?;
    let facts = vec![
        ("method", method.name().into()),
        ("kind", "torn".into()),
        ("seed", args.seed.into()),
        ("scenarios", report.scenarios.into()),
        ("writes", report.writes.into()),
        ("stretches", report.stretches.into()),
        ("stretches_all", report.stretches_all.into()),
        ("images", report.images.into()),
        ("wrong", report.wrong.len().into()),
        ("seconds", report.seconds.into()),
    ];
    let sentence = format!(
        "{method} torn writes: {} of {} stretches of 4 KiB in {} writes, all subsets of their sectors, {} distinct images, \
         {} wrong, {:.1} s (seed {})",
        thousands(report.stretches),
        thousands(report.stretches_all),
        thousands(report.writes),
        thousands(report.images),
        report.wrong.len(),
        report.seconds,
        args.seed
    );
    let findings = Findings {
        facts,
        sentence,
        found: report.wrong.iter().collect(),
        replay: replay(args, method),
    };
    findings.print(format)?;
    Ok(report.wrong.len() as u64)
}

fn replay(args: &TortureArgs, method: Method) -> String {
    let size = if args.size == SizeName::Full {
        " --size full"
    } else {
        ""
    };
    format!(
        "indelible torture --method {method} --seed {} --faults{size}",
        args.seed
    )
}
