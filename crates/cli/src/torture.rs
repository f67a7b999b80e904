//! `torture`: the crash search of the room of that name, from the command line.
//!
//! A search runs random transactions and checks sampled crash images; a scenario runs a short script and checks all of them; a
//! mutation run switches durable steps off one by one and says whether the search noticed. The exit code is 1 if an
//! image was wrong, and the line that replays it is printed.

use crate::args::TortureArgs;
use crate::failure::{FAILED, Usage};
use crate::kill::run_cycles;
use crate::output::{Cell, Format, Listing, stdout, thousands};
use crate::progress;
use ::torture::mutation::{MutationConfig, SiteVerdict, Verdict, kind_name, mutate};
use ::torture::scenarios::{self, Scenario};
use ::torture::search::{Config, Report, search};
use anyhow::Result;
use indelible::Method;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Images of a search that has neither a number nor a time.
const IMAGES_DEFAULT: u64 = 20_000;
/// Longest search that is bounded by images only.
const DURATION_MAX: Duration = Duration::from_hours(24);
/// Most time that a mutation run spends on one site, unless the whole run has less.
const SITE_DURATION: Duration = Duration::from_secs(10);

/// One run as a result row.
#[derive(Serialize)]
struct TortureRow<'r> {
    method: &'static str,
    seed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    scenario: Option<&'static str>,
    crash_points: u64,
    images: u64,
    nested: u64,
    wrong: u64,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sites: Option<Vec<SiteRow<'r>>>,
}

/// What became of one durable step.
#[derive(Serialize)]
struct SiteRow<'r> {
    site: &'r str,
    file: &'r str,
    line: u32,
    kind: &'r str,
    verdict: &'static str,
}

/// Runs the command.
pub(crate) fn run(args: &TortureArgs, format: Format) -> Result<ExitCode> {
    let methods = if args.all {
        Method::ALL
            .into_iter()
            .filter(|method| method.is_durable())
            .collect()
    } else {
        args.method.clone()
    };
    if methods.contains(&Method::Volatile) {
        return Err(Usage::error(
            "method volatile keeps nothing, so there is nothing to torture; use nvm-inp or inp",
        ));
    }
    if args.mutate && args.scenario.is_some() {
        return Err(Usage::error(
            "--mutate runs the random search; leave out --scenario",
        ));
    }
    let mut wrong = 0;
    for method in methods {
        if let Some(kills) = args.kills {
            run_cycles(method, args.seed, kills, format)?;
            continue;
        }
        wrong += match &args.scenario {
            Some(name) => run_scenarios(args, method, &scenarios_named(name)?, format)?,
            None if args.mutate => run_mutation(args, method, format)?,
            None => run_search(args, method, format)?,
        };
    }
    Ok(if wrong == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    })
}

fn scenarios_named(name: &str) -> Result<Vec<&'static Scenario>> {
    let found: Vec<&Scenario> = scenarios::ALL
        .iter()
        .filter(|scenario| name == "all" || scenario.name == name)
        .collect();
    if found.is_empty() {
        let names: Vec<&str> = scenarios::ALL
            .iter()
            .map(|scenario| scenario.name)
            .collect();
        return Err(Usage::error(format!(
            "there is no scenario `{name}`; use all, or one of {}",
            names.join(", ")
        )));
    }
    Ok(found)
}

fn run_search(args: &TortureArgs, method: Method, format: Format) -> Result<u64> {
    let (images_max, duration_max) = match (args.images, args.seconds) {
        (Some(images), _) => (images, DURATION_MAX),
        (None, Some(seconds)) => (u64::MAX, Duration::from_secs_f64(seconds)),
        (None, None) => (IMAGES_DEFAULT, DURATION_MAX),
    };
    let bar = match args.seconds {
        Some(_) => progress::spinner(format!("torturing {method}")),
        None => progress::count("torturing", images_max),
    };
    let config = Config {
        method,
        seed: args.seed,
        images_max,
        duration_max,
        disabled: Vec::new(),
    };
    let report = search(&config, &mut |report| bar.set_position(report.images));
    bar.finish_and_clear();
    print(&row(args, method, None, &report), format)?;
    Ok(report.wrong)
}

fn run_scenarios(
    args: &TortureArgs,
    method: Method,
    scenarios: &[&'static Scenario],
    format: Format,
) -> Result<u64> {
    let bar = progress::count("scenarios", scenarios.len() as u64);
    let mut wrong = 0;
    for scenario in scenarios {
        let report = scenarios::run(scenario, method, args.seed, &[]);
        wrong += report.wrong;
        bar.inc(1);
        bar.suspend(|| print(&row(args, method, Some(scenario.name), &report), format))?;
    }
    bar.finish_and_clear();
    Ok(wrong)
}

fn run_mutation(args: &TortureArgs, method: Method, format: Format) -> Result<u64> {
    let duration_max = args.seconds.map_or(DURATION_MAX, Duration::from_secs_f64);
    let config = MutationConfig {
        method,
        seed: args.seed,
        site_duration_max: SITE_DURATION.min(duration_max),
        duration_max,
    };
    let note = progress::spinner(format!(
        "switching the durable steps of {method} off, one by one"
    ));
    let start = std::time::Instant::now();
    let verdicts = mutate(&config, &mut |verdict| {
        note.set_message(format!(
            "{} is {}",
            verdict.site.name,
            verdict.verdict.name()
        ));
    });
    note.finish_and_clear();
    if format == Format::Json {
        let report = Report {
            seconds: start.elapsed().as_secs_f64(),
            ..Report::default()
        };
        let sites = Some(verdicts.iter().map(site_row).collect());
        print(
            &TortureRow {
                sites,
                ..row(args, method, None, &report)
            },
            format,
        )?;
    } else {
        let mut listing =
            Listing::new(["method", "site", "file", "line", "kind", "verdict", "what"]);
        for verdict in &verdicts {
            let site = site_row(verdict);
            listing.push(vec![
                method.name().into(),
                site.site.into(),
                site.file.into(),
                Cell::Whole(site.line.into()),
                site.kind.into(),
                site.verdict.into(),
                verdict.what.as_str().into(),
            ]);
        }
        listing.print(format)?;
    }
    let unexplained = |verdict: &&SiteVerdict| verdict.verdict == Verdict::Unexplained;
    Ok(verdicts.iter().filter(unexplained).count() as u64)
}

fn site_row(verdict: &SiteVerdict) -> SiteRow<'_> {
    SiteRow {
        site: verdict.site.name,
        file: verdict.site.file,
        line: verdict.site.line,
        kind: kind_name(verdict.site.kind),
        verdict: verdict.verdict.name(),
    }
}

fn row<'r>(
    args: &TortureArgs,
    method: Method,
    scenario: Option<&'static str>,
    report: &Report,
) -> TortureRow<'r> {
    let failure = report.failure.as_ref();
    TortureRow {
        method: method.name(),
        seed: args.seed,
        scenario,
        crash_points: report.crash_points,
        images: report.images,
        nested: report.nested,
        wrong: report.wrong,
        seconds: report.seconds,
        failure: failure.map(|failure| {
            format!(
                "{} (at {}, event {}; {})",
                failure.what, failure.point, failure.event, failure.survivors
            )
        }),
        replay: failure.map(|failure| match scenario {
            Some(name) => {
                format!(
                    "indelible torture --method {method} --seed {} --scenario {name}",
                    args.seed
                )
            }
            None => format!(
                "indelible torture --method {method} --seed {} --images {}",
                failure.seed,
                report.images.max(1)
            ),
        }),
        sites: None,
    }
}

fn print(row: &TortureRow<'_>, format: Format) -> Result<()> {
    if format == Format::Json {
        let mut out = stdout();
        serde_json::to_writer(&mut out, row)?;
        writeln!(out)?;
        out.flush()?;
        return Ok(());
    }
    if format == Format::Csv {
        let mut listing = Listing::new([
            "method",
            "seed",
            "scenario",
            "crash_points",
            "images",
            "nested",
            "wrong",
            "seconds",
        ]);
        listing.push(vec![
            row.method.into(),
            Cell::Whole(row.seed),
            row.scenario.map_or(Cell::Null, Cell::from),
            Cell::Whole(row.crash_points),
            Cell::Whole(row.images),
            Cell::Whole(row.nested),
            Cell::Whole(row.wrong),
            Cell::number(row.seconds, 3),
        ]);
        return listing.print(format);
    }
    let mut out = stdout();
    let name = row
        .scenario
        .map_or_else(String::new, |name| format!(" {name}"));
    writeln!(
        out,
        "{}{name}: {} distinct images at {} crash points, {} of them inside recoveries, {} wrong, {:.1} s (seed {})",
        row.method,
        thousands(row.images),
        thousands(row.crash_points),
        thousands(row.nested),
        thousands(row.wrong),
        row.seconds,
        row.seed
    )?;
    if let (Some(failure), Some(replay)) = (&row.failure, &row.replay) {
        writeln!(out, "wrong: {failure}\nreplay: {replay}")?;
    }
    out.flush()?;
    Ok(())
}
