//! `torture --flips` and `--truncations`: damage to a small database, by the room of the crash
//! search.
//!
//! The database passes if it never believes damaged data. How it noticed the damage is counted
//! apart, because an open that refuses is cheaper than a deep check.

use super::found::{Findings, quietly};
use crate::args::TortureArgs;
use crate::output::{Format, thousands};
use crate::progress;
use crate::scratch::Scratch;
use ::torture::Failure;
use ::torture::damage::DamageReport;
use ::torture::flips::{Density, FlipConfig, flip};
use ::torture::truncations::{RANDOM_LENGTHS, TruncationConfig, truncate};
use anyhow::{Result, bail};
use indelible::Method;
use indicatif::ProgressBar;
use serde_json::{Value as Json, json};

/// Flips bits; returns the number of findings.
pub(super) fn flips(
    args: &TortureArgs,
    method: Method,
    every_bit: bool,
    format: Format,
) -> Result<u64> {
    let (density, option) = if every_bit {
        (Density::EveryBit, "--flips --every-bit")
    } else {
        (Density::Lines, "--flips")
    };
    let config = FlipConfig {
        method,
        seed: args.seed,
        density,
        threads: args.threads(),
    };
    let report = with_bar("flipping", |progress| flip(&config, progress))?;
    print(args, method, ("flips", "bits", option), &report, format)
}

/// Cuts files off; returns the number of findings.
pub(super) fn truncations(args: &TortureArgs, method: Method, format: Format) -> Result<u64> {
    let scratch = Scratch::new()?;
    let config = TruncationConfig {
        method,
        seed: args.seed,
        random_lengths: RANDOM_LENGTHS,
        threads: args.threads(),
        directory: scratch.path().to_owned(),
    };
    let report = with_bar("cutting", |progress| truncate(&config, progress))?;
    print(
        args,
        method,
        ("truncations", "cuts", "--truncations"),
        &report,
        format,
    )
}

/// Runs a sweep under a progress bar that learns its length from the first call.
pub(super) fn with_bar<T>(
    action: &'static str,
    sweep: impl FnOnce(&mut dyn FnMut(u64, u64)) -> Result<T, Failure>,
) -> Result<T> {
    let mut bar: Option<ProgressBar> = None;
    let result = quietly(|| {
        sweep(&mut |done, count| {
            bar.get_or_insert_with(|| progress::count(action, count))
                .set_position(done);
        })
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(result?)
}

fn print(
    args: &TortureArgs,
    method: Method,
    (kind, unit, option): (&'static str, &'static str, &str),
    report: &DamageReport,
    format: Format,
) -> Result<u64> {
    let count = |list: &Vec<String>| list.len() as u64;
    let (wrong, panics, hangs) = (&report.wrong, &report.panics, &report.hangs);
    let kinds = report.kinds.iter().map(|(kind, count)| {
        let (trials, undetected) = (count.trials, count.undetected);
        (
            kind.clone(),
            json!({ "trials": trials, "undetected": undetected }),
        )
    });
    let facts = vec![
        ("method", method.name().into()),
        ("kind", kind.into()),
        ("seed", args.seed.into()),
        ("database_bytes", report.bytes.into()),
        (unit, report.trials.into()),
        ("detected_at_open", report.detected_open.into()),
        ("detected_by_verify", report.detected_verify.into()),
        ("detected_by_read", report.detected_read.into()),
        ("harmless", report.harmless.into()),
        ("kinds", Json::Object(kinds.collect())),
        ("wrong", count(wrong).into()),
        ("panics", count(panics).into()),
        ("hangs", count(hangs).into()),
        ("longest_s", report.longest_s.into()),
        ("seconds", report.seconds.into()),
    ];
    let sentence = format!(
        "{method} {kind}: {} {unit} of {} bytes: {} detected by opening, {} by verify, {} by reading, {} in dead bytes, \
         {} wrong, {} panics, {} hangs, {:.1} s (seed {})",
        thousands(report.trials),
        thousands(report.bytes),
        thousands(report.detected_open),
        thousands(report.detected_verify),
        thousands(report.detected_read),
        thousands(report.harmless),
        count(wrong),
        count(panics),
        count(hangs),
        report.seconds,
        args.seed
    );
    let findings = Findings {
        facts,
        sentence,
        found: wrong.iter().chain(panics).chain(hangs).collect(),
        replay: format!(
            "indelible torture --method {method} --seed {} {option}",
            args.seed
        ),
    };
    findings.print(format)?;
    if report.is_cut_short {
        bail!(
            "a trial did not end; its thread goes on until the process ends, so nothing else is run"
        );
    }
    Ok(report.faults())
}
