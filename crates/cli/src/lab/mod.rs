//! `lab`: the experiments of the papers, from one command to a page.
//!
//! | file | job |
//! |---|---|
//! | `kinds` | how a point is run |
//! | `rounds` | points that take turns |
//! | `replay` | a row measured again |
//! | `stale` | reports that are older than the code that they measure |
//!
//! Experiments, statements, verdicts and pages are those of the room `lab`.
//!
//! Rows are the truth: a run appends them, skips points that have one, and makes the page from
//! them at the end.

mod kinds;
mod replay;
mod rounds;
mod stale;

use crate::args::{LabCommand, LabRunArgs, SizeArgs};
use crate::failure::Usage;
use crate::files::{Existing, OutputFile};
use crate::machine::{self, COMMIT};
use crate::output::{Cell, Format, Listing, duration, note};
use crate::scratch::Scratch;
use anyhow::{Context, Result};
use lab::experiment::{Experiment, Kind, Paper};
use lab::judge::Verdict;
use lab::page::{self, Figure, OfVariant, PaperSection};
use lab::point::Point;
use lab::rows::{self, Accept, LabRow, RowFile, Rows};
use lab::size::Size;
use lab::variant::Variant;
use lab::{PAPERS, ablation, experiments, prices, verdicts};
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The size that the options ask for.
fn size(args: &SizeArgs) -> Size {
    match (args.full, args.smoke) {
        (true, _) => Size::full(),
        (_, true) => Size::smoke(),
        _ => Size::default(),
    }
}

/// Runs the command.
pub(crate) fn run(command: &LabCommand, format: Format) -> Result<ExitCode> {
    match command {
        LabCommand::List => list(format)?,
        LabCommand::Run(args) => measure(args, format)?,
        LabCommand::Report(args) => {
            let experiments = chosen(&args.experiments)?;
            let rows = Rows::read(&args.out, Accept::AnyCommit)?;
            if rows.has_torn_end() {
                note("The last row is not whole, and is left out; `lab run` measures it again");
            }
            report(args, &experiments, &rows, format)?;
        }
        LabCommand::Replay(args) => return replay::run(args, format),
        LabCommand::Stale { directory } => stale::run(directory, format)?,
        LabCommand::Victim(args) => kinds::victim(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(format: Format) -> Result<()> {
    let mut listing = Listing::new(["experiment", "shows", "runs", "checks"]);
    let size = Size::default();
    for experiment in experiments() {
        listing.push(vec![
            experiment.name.into(),
            experiment.title.into(),
            Cell::Whole(Point::of(experiment, &size, 1, Variant::Ours).len() as u64),
            Cell::Whole(experiment.statements()),
        ]);
    }
    listing.print(format)
}

/// The experiments with these names, each once, in the papers' order.
fn chosen(names: &[String]) -> Result<Vec<&'static Experiment>> {
    let whole = |paper: &Paper| format!("{}/all", paper.name);
    for name in names {
        let is_paper = PAPERS.iter().any(|paper| whole(paper) == *name);
        if !is_paper && !experiments().any(|experiment| experiment.name == name) {
            return Err(Usage::error(format!(
                "there is no experiment `{name}`; `indelible lab list` names them all, and {} are all of a paper",
                PAPERS.map(whole).join(", ")
            )));
        }
    }
    let mut chosen = Vec::new();
    for paper in PAPERS {
        let all = names.contains(&whole(paper));
        let own = paper.experiments.iter().copied();
        chosen.extend(own.filter(|own| all || names.iter().any(|name| name == own.name)));
    }
    Ok(chosen)
}

/// Runs the points that have no row yet, then reports.
fn measure(args: &LabRunArgs, format: Format) -> Result<()> {
    let experiments = chosen(&args.experiments)?;
    let mut size = size(&args.size);
    size.rounds_asked = args.rounds.unwrap_or(0);
    // A smoke run shows that everything runs; nobody keeps its rows.
    if machine::is_dirty(COMMIT) && !(args.size.smoke || args.allow_dirty) {
        return Err(Usage::error(format!(
            "this program was built from commit {COMMIT} with changes that are not committed, so nobody can build it again; commit them and build, or measure \
             for yourself with --allow-dirty"
        )));
    }
    let parent = args.path.clone().unwrap_or_else(Scratch::root);
    let mut out = RowFile::open(&args.out, Accept::ThisBuild(COMMIT))?;
    if out.rows.has_torn_end() {
        note("The last row was not whole, and was removed");
    }
    let mut points = missing(&experiments, &size, args, &out.rows);
    let wanted: usize = points.iter().map(|(_, points)| points.len()).sum();
    for (_, points) in &mut points {
        points.retain(kinds::is_possible);
    }
    let count: usize = points.iter().map(|(_, points)| points.len()).sum();
    if count < wanted {
        note(&format!(
            "{} of {wanted} runs are left out: this processor lacks their kernel",
            wanted - count
        ));
    }
    let mut run = Run {
        size: &size,
        parent: &parent,
        start: Instant::now(),
        most: args.minutes.map_or(Duration::MAX, |minutes| {
            Duration::from_secs(60 * u64::from(minutes))
        }),
        done: 0,
        count,
    };
    for (experiment, points) in &points {
        run.measure(experiment, points, &mut out)?;
    }
    for experiment in &experiments {
        let of = (&size, args.seed, first_variant(args));
        let points = ablation::missing(experiment, &out.rows, of);
        run.count += points.len();
        run.measure(experiment, &points, &mut out)?;
    }
    report(args, &experiments, &out.rows, format)
}

/// A run under way.
struct Run<'r> {
    size: &'r Size,
    parent: &'r Path,
    start: Instant,
    /// Time after which nothing new begins.
    most: Duration,
    /// Points that are measured, and all of them.
    done: usize,
    count: usize,
}

impl Run<'_> {
    /// Measures points of an experiment, as many in the same rounds as may be loaded together.
    fn measure(
        &mut self,
        experiment: &Experiment,
        points: &[Point],
        out: &mut RowFile,
    ) -> Result<()> {
        for points in points.chunks(self.size.together) {
            if self.start.elapsed() >= self.most {
                note(&format!(
                    "The time is over: {} of {} runs are done; the same command goes on",
                    self.done, self.count
                ));
                return Ok(());
            }
            let tell = |point: Option<&Point>, round: u32| {
                let place = format!("[{}/{}, {}]", self.done, self.count, elapsed(self.start));
                match point {
                    Some(point) => note(&format!("{place} {} {}", experiment.name, point.words())),
                    None => note(&format!(
                        "{place} {}: round {} of {} of {} runs",
                        experiment.name,
                        round + 1,
                        self.size.rounds_taken(),
                        points.len()
                    )),
                }
            };
            let measured = rounds::measure(points, self.size, self.parent, tell);
            for row in measured.with_context(|| experiment.name)? {
                out.add(row)?;
            }
            self.done += points.len();
        }
        Ok(())
    }
}

/// The variant that statements are judged for first.
fn first_variant(args: &LabRunArgs) -> Variant {
    args.variants.first().copied().unwrap_or(Variant::Paper)
}

/// Standard output is for the verdicts.
fn elapsed(start: Instant) -> String {
    duration(start.elapsed().as_secs_f64() * 1e6)
}

/// The points of each experiment that no row has, each once.
fn missing(
    experiments: &[&'static Experiment],
    size: &Size,
    args: &LabRunArgs,
    rows: &Rows,
) -> Vec<(&'static Experiment, Vec<Point>)> {
    let mut known = HashSet::new();
    let mut missing = Vec::new();
    for experiment in experiments {
        let own = both(experiment, size, args).into_iter();
        let own = own.map(|point| prices::measured(&point).unwrap_or(point));
        let points =
            own.filter(|point| known.insert(point.configuration(size)) && !rows.has(point, size));
        missing.push((*experiment, points.collect()));
    }
    missing
}

/// The points of an experiment in the chosen variants; the two of a point follow each other, so
/// that they are measured in the same rounds.
fn both(experiment: &Experiment, size: &Size, args: &LabRunArgs) -> Vec<Point> {
    let of = |variant: &Variant| Point::of(experiment, size, args.seed, *variant);
    let variants: Vec<Vec<Point>> = args.variants().iter().map(of).collect();
    let count = variants.first().map_or(0, Vec::len);
    let at = |index: usize| variants.iter().map(move |points| points[index].clone());
    let mut points: Vec<Point> = (0..count).flat_map(at).collect();
    points.dedup_by_key(|point| point.configuration(size));
    points
}

/// The rows that are computed from others, by configuration.
fn priced_rows(
    args: &LabRunArgs,
    experiments: &[&'static Experiment],
    rows: &Rows,
) -> HashMap<String, LabRow> {
    let size = size(&args.size);
    let points = experiments
        .iter()
        .flat_map(|experiment| both(experiment, &size, args));
    let priced = points.filter_map(|point| {
        let row = rows.find(&prices::measured(&point)?, &size)?;
        let priced = args.prices.apply(&point, &size, row)?;
        Some((point.configuration(&size), priced))
    });
    priced.collect()
}

/// Writes the page and the table, and prints a verdict an experiment.
fn report(
    args: &LabRunArgs,
    experiments: &[&'static Experiment],
    rows: &Rows,
    format: Format,
) -> Result<()> {
    let size = size(&args.size);
    let priced = priced_rows(args, experiments, rows);
    let find = |point: &Point| match point.kind {
        Kind::Priced => priced.get(&point.configuration(&size)),
        _ => rows.find(point, &size),
    };
    let variants = args.variants();
    let figure = |experiment: &'static Experiment| {
        let of_variant = |variant: &Variant| {
            let points = Point::of(experiment, &size, args.seed, *variant);
            let mut of = OfVariant::new(*variant);
            for point in points {
                match find(&point) {
                    Some(row) => of.rows.push(row),
                    None => of.missing.push(point.parameters),
                }
            }
            of
        };
        let points = both(experiment, &size, args);
        Figure::new(
            experiment,
            &variants.iter().map(of_variant).collect::<Vec<_>>(),
            points.iter().filter_map(find).collect(),
            points.len(),
            ablation::ablated(experiment, rows, (&size, args.seed, first_variant(args))),
        )
    };
    let mut parts: Vec<PaperSection<'_>> = Vec::new();
    for paper in PAPERS {
        let is_own = |of: &&Experiment| paper.experiments.iter().any(|own| own.name == of.name);
        let own = experiments.iter().copied().filter(is_own);
        let figures: Vec<Figure<'_>> = own.map(figure).collect();
        if !figures.is_empty() {
            parts.push(PaperSection { paper, figures });
        }
    }
    let figures = || parts.iter().flat_map(|part| &part.figures);
    let mut seen = HashSet::new();
    let all = figures().flat_map(|figure| &figure.rows).copied();
    let all: Vec<&LabRow> = all.filter(|row| seen.insert(row.config.as_str())).collect();
    let file = |name: &str| OutputFile::create(&args.out.join(name), Existing::Replace);
    let mut out = file("rows.csv")?;
    rows::write_csv(&all, &mut out)?;
    out.finish()?;
    let mut out = file("verdicts.jsonl")?;
    verdicts::write(&mut out, figures())?;
    out.finish()?;
    let mut out = file("report.html")?;
    out.write_all(page::page(&parts, &size).html().as_bytes())?;
    out.finish()?;
    let mut header = vec!["experiment", "variant"];
    header.extend(Verdict::ALL.map(Verdict::name));
    header.push("rows");
    let mut listing = Listing::new(header);
    for figure in figures() {
        for variant in &variants {
            let mut cells = vec![figure.experiment.name.into(), variant.name().into()];
            let counts = Verdict::ALL.map(|verdict| figure.count(*variant, verdict));
            cells.extend(counts.map(Cell::Whole));
            cells.push(Cell::Whole(figure.rows.len() as u64));
            listing.push(cells);
        }
    }
    listing.print(format)?;
    let path = args.out.join("report.html");
    note(&format!("The report is {}", path.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Command, CommandLine};
    use clap::Parser as _;

    /// The options of a run of these experiments.
    fn args(names: &[String]) -> LabRunArgs {
        let words = ["indelible", "lab", "run"].map(str::to_owned);
        let line = CommandLine::try_parse_from(words.iter().chain(names)).unwrap();
        match line.command {
            Command::Lab(LabCommand::Run(args)) => args,
            _ => unreachable!("it is the command that was given"),
        }
    }

    #[test]
    fn every_ablation_is_a_run_of_bench() {
        let size = Size::default();
        let points = ablation::all_points(&size, 1, Variant::Paper);
        assert!(!points.is_empty());
        for point in points {
            kinds::check(&point, &size).unwrap();
        }
    }

    #[test]
    fn figures_share_the_runs_that_are_the_same() {
        let scratch = Scratch::new().unwrap();
        let out = RowFile::open(scratch.path(), Accept::ThisBuild(COMMIT)).unwrap();
        let count = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let args = args(&names);
            let experiments = chosen(&args.experiments).unwrap();
            let missing = missing(&experiments, &Size::default(), &args, &out.rows);
            missing
                .iter()
                .map(|(_, points)| points.len())
                .sum::<usize>()
        };
        let one = count(&["n-store/fig6"]);
        assert!(one > 0);
        assert_eq!(
            one,
            count(&["n-store/fig6", "n-store/fig9", "n-store/fig10"])
        );
        assert!(
            count(&["joins/fig11", "joins/phases"])
                < count(&["joins/fig11"]) + count(&["joins/phases"])
        );
        assert!(chosen(&["n-store/fig99".into()]).is_err());
        let names = [
            "nv-logging/all",
            "joins/all",
            "n-store/all",
            "nvram-era/all",
            "nvm-dwb/all",
            "fast-fash/all",
        ];
        let names = names.map(str::to_owned);
        let all = chosen(&names).unwrap();
        assert_eq!(all.len(), experiments().count());
    }
}
