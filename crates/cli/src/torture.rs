//! `torture`: the crash search of the room of that name, from the command line.
//!
//! A search runs random transactions and checks sampled crash images; a scenario runs a short
//! script and checks all of them; a mutation run switches durable steps off one by one and says
//! whether the search noticed. Damage and failing devices are in modules of their own. The exit
//! code is 1 if anything was wrong, and the line that replays it is printed.

mod damage;
mod faults;
mod found;
mod histories;
mod sites;

use crate::args::{SizeName, TortureArgs, WorkloadName};
use crate::failure::{FAILED, Usage};
use crate::kill::{End, Mount, run_cycles};
use crate::output::{Cell, Format, Listing, note, print_json, stdout, thousands};
use crate::progress;
use ::torture::mutation::{MutationConfig, SiteVerdict, Verdict, kind_name, mutate};
use ::torture::scenarios::{self, Scenario};
use ::torture::search::{Config, Focus, Report, search};
use ::torture::standard::{self, Benchmark};
use anyhow::{Context, Result};
use indelible::{Method, PowerFailAtomicity};
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Images of a search that has neither a number nor a time.
const IMAGES_DEFAULT: u64 = 20_000;
/// Longest search that is bounded by images only.
const DURATION_MAX: Duration = Duration::from_hours(24);
/// Images, kills and power cuts of a method in a run of everything, by size.
const IMAGES: [u64; 2] = [IMAGES_DEFAULT, 1_000_000];
const BENCHMARK_IMAGES: [u64; 2] = [1_000, 50_000];
const KILLS: [u64; 2] = [20, 1_000];
const POWER_CUTS: [u64; 2] = [20, 500];
/// Images for each durable step that is switched off, in a run of everything by size.
const SITE_IMAGES: [u64; 2] = [4_000, IMAGES_DEFAULT];

/// One run as a result row.
#[derive(Serialize)]
struct TortureRow<'r> {
    method: &'static str,
    kind: &'static str,
    seed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    scenario: Option<&'static str>,
    crash_points: u64,
    images: u64,
    nested: u64,
    process_deaths: u64,
    wrong: u64,
    seconds: f64,
    /// Rounds begun, and those of the corpus among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    corpus_rounds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<String>,
    /// The shortest list of operations that fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    operations: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sites: Option<Vec<SiteRow<'r>>>,
}

/// Outcome of the search for one durable step.
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
    let methods: Vec<_> = if args.all {
        Method::distinct()
            .filter(|method| method.is_durable() && method.survives_torn_pages())
            .collect()
    } else {
        let combined = args.axes.method()?;
        args.method.iter().copied().chain(combined).collect()
    };
    if methods.contains(&Method::Volatile) {
        return Err(Usage::error(
            "method volatile keeps nothing, so there is nothing to torture; use nvm-inp or inp",
        ));
    }
    let has_whole_lines = args.atomicity() == PowerFailAtomicity::Line;
    if has_whole_lines && methods.iter().any(|method| *method != Method::Fast) {
        return Err(Usage::error(
            "only method fast makes use of 64 bytes that survive whole; use --method fast, or leave --power-fail-atomicity out",
        ));
    }
    let has_orders = |method: &Method| matches!(method, Method::NvmInp | Method::NvmLog);
    if args.fences.is_some() && !methods.iter().all(has_orders) {
        return Err(Usage::error(
            "only nvm-inp and nvm-log have orders of fences; use --method nvm-inp,nvm-log, or leave --fences out",
        ));
    }
    let mount = args.path.as_deref().map(Mount::at).transpose()?;
    let mut wrong = 0;
    for method in methods {
        wrong += if args.wants_everything() {
            run_everything(args, method, mount.as_ref(), format)?
        } else {
            run_kind(args, method, mount.as_ref(), format)?
        };
    }
    Ok(if wrong == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    })
}

/// The one kind of test that the options ask for.
fn run_kind(
    args: &TortureArgs,
    method: Method,
    mount: Option<&Mount>,
    format: Format,
) -> Result<u64> {
    if let Some(kills) = args.kills {
        let end = End::Kill;
        return run_cycles(method, args.workload, args.seed, kills, &end, format).map(|()| 0);
    }
    if let (Some(cuts), Some(mount)) = (args.power_cuts, mount) {
        let end = End::PowerCut(mount);
        return run_cycles(method, args.workload, args.seed, cuts, &end, format).map(|()| 0);
    }
    if let Some(transactions) = args.histories {
        return histories::histories(args, method, transactions, format);
    }
    if let Some(name) = &args.scenario {
        return run_scenarios(args, method, &scenarios_named(name)?, format);
    }
    if args.mutate {
        let images = args.images.unwrap_or(IMAGES_DEFAULT);
        let duration = args.seconds.map_or(DURATION_MAX, Duration::from_secs_f64);
        run_mutation(args, method, (images, duration), format)
    } else if args.flips {
        damage::flips(args, method, args.every_bit, format)
    } else if args.truncations {
        damage::truncations(args, method, format)
    } else if args.faults {
        Ok(faults::calls(args, method, format)? + faults::torn(args, method, format)?)
    } else if let Some(benchmark) = args.workload.benchmark() {
        run_benchmark(args, method, benchmark, bounds(args), format)
    } else {
        run_search(args, method, bounds(args), format)
    }
}

/// Every kind of test, a result each.
fn run_everything(
    args: &TortureArgs,
    method: Method,
    mount: Option<&Mount>,
    format: Format,
) -> Result<u64> {
    let is_full = args.size == SizeName::Full;
    let size = usize::from(is_full);
    let mut wrong = run_search(args, method, (IMAGES[size], DURATION_MAX), format)?;
    for benchmark in Benchmark::ALL {
        let bounds = (BENCHMARK_IMAGES[size], DURATION_MAX);
        wrong += run_benchmark(args, method, benchmark, bounds, format)?;
    }
    wrong += run_catalogue(args, method, format)?;
    wrong += run_mutation(args, method, (SITE_IMAGES[size], DURATION_MAX), format)?;
    wrong += damage::flips(args, method, is_full, format)?;
    wrong += damage::truncations(args, method, format)?;
    wrong += faults::calls(args, method, format)?;
    wrong += faults::torn(args, method, format)?;
    for workload in WorkloadName::ALL {
        run_cycles(method, workload, args.seed, KILLS[size], &End::Kill, format)?;
        if let Some(mount) = mount {
            let end = End::PowerCut(mount);
            run_cycles(method, workload, args.seed, POWER_CUTS[size], &end, format)?;
        }
    }
    Ok(wrong)
}

/// Most images and most time of a search.
fn bounds(args: &TortureArgs) -> (u64, Duration) {
    match (args.images, args.seconds) {
        (Some(images), _) => (images, DURATION_MAX),
        (None, Some(seconds)) => (u64::MAX, Duration::from_secs_f64(seconds)),
        (None, None) if args.operations.is_some() => (u64::MAX, DURATION_MAX),
        (None, None) => (IMAGES_DEFAULT, DURATION_MAX),
    }
}

fn scenarios_named(name: &str) -> Result<Vec<&'static Scenario>> {
    let found: Vec<&Scenario> = scenarios::ALL
        .iter()
        .filter(|scenario| match name {
            "all" => true,
            "bare" => scenario.is_bare(),
            name => scenario.name == name,
        })
        .collect();
    if found.is_empty() {
        let names: Vec<&str> = scenarios::ALL
            .iter()
            .map(|scenario| scenario.name)
            .collect();
        return Err(Usage::error(format!(
            "there is no scenario `{name}`; use all, bare (those without secondary indexes), or one of {}",
            names.join(", ")
        )));
    }
    Ok(found)
}

fn run_search(
    args: &TortureArgs,
    method: Method,
    (images_max, duration_max): (u64, Duration),
    format: Format,
) -> Result<u64> {
    let bar = match images_max {
        u64::MAX => progress::spinner(format!("torturing {method}")),
        images => progress::count("torturing", images),
    };
    let operations = args.operations.clone();
    if let Some(operations) = &operations {
        let checked = operations.check(args.seed, args.connections);
        checked.map_err(Usage::error)?;
    }
    let config = Config {
        disabled: args.without.clone(),
        focus: operations.map(|operations| Focus {
            operations,
            depth: args.depth,
        }),
        atomicity: args.atomicity(),
        fences: args.fences.map(Into::into),
        connections: args.connections,
        ..Config::new(method, args.seed, images_max, duration_max)
    };
    let report = search(&config, &mut |report| bar.set_position(report.images));
    bar.finish_and_clear();
    let kind = match args.connections {
        Some(_) => "connections",
        None => "search",
    };
    let row = TortureRow {
        rounds: Some(report.rounds),
        corpus_rounds: Some(report.corpus),
        ..row(args, method, kind, &report)
    };
    print(&row, format)?;
    if report.corpus > 0 && report.rounds == report.corpus && report.failure.is_none() {
        note(&format!(
            "{method}: only rounds of the corpus were searched, which are the same with every seed; more --images or --seconds come to that of seed {}",
            args.seed
        ));
    }
    if report.failure.is_none() {
        sites::check(&args.without, &report.sites)?;
    }
    Ok(report.wrong)
}

/// The search with a standard benchmark and its conditions.
fn run_benchmark(
    args: &TortureArgs,
    method: Method,
    benchmark: Benchmark,
    (images_max, duration_max): (u64, Duration),
    format: Format,
) -> Result<u64> {
    let name = benchmark.name();
    let bar = progress::spinner(format!("torturing {method} with {name}"));
    let config = Config {
        disabled: args.without.clone(),
        ..Config::new(method, args.seed, images_max, duration_max)
    };
    let report = standard::search(benchmark, &config, &mut |report| {
        bar.set_message(format!(
            "torturing {method} with {name}: {} images",
            report.images
        ));
    });
    bar.finish_and_clear();
    let replay = report.failure.as_ref().map(|failure| {
        let mut line = format!(
            "indelible torture --method {method} --workload {name} --seed {} --images {images_max}",
            failure.seed
        );
        for site in &args.without {
            line.push_str(" --without ");
            line.push_str(site);
        }
        line
    });
    let row = TortureRow {
        replay,
        ..row(args, method, name, &report)
    };
    print(&row, format)?;
    if report.failure.is_none() {
        sites::check(&args.without, &report.sites)?;
    }
    Ok(report.wrong)
}

/// All scenarios whose images can be counted with the method, as one result.
fn run_catalogue(args: &TortureArgs, method: Method, format: Format) -> Result<u64> {
    let scenarios: Vec<_> = scenarios::enumerable(method).collect();
    if scenarios.is_empty() {
        return Ok(0);
    }
    let bar = progress::count("scenarios", scenarios.len() as u64);
    let mut sum = Report::default();
    let mut failed = None;
    for scenario in scenarios {
        let report = scenarios::run(scenario, args.subject(method), args.seed);
        sum.crash_points += report.crash_points;
        sum.images += report.images;
        sum.nested += report.nested;
        sum.process_deaths += report.process_deaths;
        sum.wrong += report.wrong;
        sum.seconds += report.seconds;
        if report.failure.is_some() && sum.failure.is_none() {
            (sum.failure, failed) = (report.failure, Some(scenario.name));
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    let row = TortureRow {
        scenario: failed,
        replay: failed.map(|name| replay_scenario(args, method, name)),
        ..row(args, method, "scenarios", &sum)
    };
    print(&row, format)?;
    Ok(sum.wrong)
}

fn replay_scenario(args: &TortureArgs, method: Method, name: &str) -> String {
    let mut line = format!(
        "indelible torture --method {method} --seed {} --scenario {name}",
        args.seed
    );
    if args.atomicity() == PowerFailAtomicity::Line {
        line.push_str(" --power-fail-atomicity 64");
    }
    if let Some(fences) = args.subject(method).fences {
        line.push_str(" --fences ");
        line.push_str(fences.name());
    }
    line
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
        let report = scenarios::run(scenario, args.subject(method), args.seed);
        wrong += report.wrong;
        bar.inc(1);
        let replay = report.failure.as_ref();
        let row = TortureRow {
            scenario: Some(scenario.name),
            replay: replay.map(|_| replay_scenario(args, method, scenario.name)),
            ..row(args, method, "scenario", &report)
        };
        bar.suspend(|| print(&row, format))?;
    }
    bar.finish_and_clear();
    Ok(wrong)
}

fn run_mutation(
    args: &TortureArgs,
    method: Method,
    (site_images_max, duration_max): (u64, Duration),
    format: Format,
) -> Result<u64> {
    let config = MutationConfig {
        method,
        atomicity: args.atomicity(),
        fences: args.fences.map(Into::into),
        seed: args.seed,
        site_images_max,
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
    let verdicts = verdicts.context("it is wrong with nothing switched off")?;
    if format == Format::Json {
        let report = Report {
            seconds: start.elapsed().as_secs_f64(),
            ..Report::default()
        };
        let sites = Some(verdicts.iter().map(site_row).collect());
        print(
            &TortureRow {
                sites,
                ..row(args, method, "mutation", &report)
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
        listing.print_next(format)?;
    }
    let is_open =
        |found: &&SiteVerdict| matches!(found.verdict, Verdict::Unexplained | Verdict::Untried);
    Ok(verdicts.iter().filter(is_open).count() as u64)
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
    kind: &'static str,
    report: &Report,
) -> TortureRow<'r> {
    // The shortest way to the failure is the most helpful one.
    let failure = report.failure.as_ref();
    let minimised = failure.and_then(|failure| failure.minimised.as_ref());
    let shortest = minimised.map(|minimised| &*minimised.failure).or(failure);
    TortureRow {
        method: method.name(),
        kind,
        seed: args.seed,
        scenario: None,
        crash_points: report.crash_points,
        images: report.images,
        nested: report.nested,
        process_deaths: report.process_deaths,
        wrong: report.wrong,
        seconds: report.seconds,
        rounds: None,
        corpus_rounds: None,
        failure: shortest.map(|failure| {
            format!(
                "{} (seed {}, at {}, event {}; {})",
                failure.what, failure.seed, failure.point, failure.event, failure.survivors
            )
        }),
        replay: shortest.map(|failure| failure.replay(method)),
        operations: minimised.map(|minimised| minimised.operations.clone()),
        sites: None,
    }
}

fn print(row: &TortureRow<'_>, format: Format) -> Result<()> {
    if format == Format::Json {
        return print_json(row);
    }
    if format == Format::Csv {
        let mut listing = Listing::new([
            "method",
            "kind",
            "seed",
            "scenario",
            "crash_points",
            "images",
            "nested",
            "process_deaths",
            "wrong",
            "seconds",
            "rounds",
            "corpus_rounds",
            "failure",
            "replay",
            "operations",
        ]);
        let text = |text: &Option<String>| text.as_deref().map_or(Cell::Null, Cell::from);
        let operations = row.operations.as_ref().map(|all| all.join("\n"));
        listing.push(vec![
            row.method.into(),
            row.kind.into(),
            Cell::Whole(row.seed),
            row.scenario.map_or(Cell::Null, Cell::from),
            Cell::Whole(row.crash_points),
            Cell::Whole(row.images),
            Cell::Whole(row.nested),
            Cell::Whole(row.process_deaths),
            Cell::Whole(row.wrong),
            Cell::number(row.seconds, 3),
            row.rounds.map_or(Cell::Null, Cell::Whole),
            row.corpus_rounds.map_or(Cell::Null, Cell::Whole),
            text(&row.failure),
            text(&row.replay),
            text(&operations),
        ]);
        return listing.print_next(format);
    }
    let mut out = stdout();
    let name = row
        .scenario
        .map_or_else(|| format!(" {}", row.kind), |name| format!(" {name}"));
    writeln!(
        out,
        "{}{name}: {} distinct images at {} crash points, {} more inside recoveries and after {} deaths of the process, {} wrong, {:.1} s (seed {})",
        row.method,
        thousands(row.images),
        thousands(row.crash_points),
        thousands(row.nested),
        thousands(row.process_deaths),
        thousands(row.wrong),
        row.seconds,
        row.seed
    )?;
    if let (Some(failure), Some(replay)) = (&row.failure, &row.replay) {
        writeln!(out, "wrong: {failure}")?;
        for operation in row.operations.iter().flatten() {
            writeln!(out, "  {operation}")?;
        }
        writeln!(out, "replay: {replay}")?;
    }
    out.flush()?;
    Ok(())
}
