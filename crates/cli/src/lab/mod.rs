//! `lab`: the experiments of the papers, from one command to a page.
//!
//! | file | job |
//! |---|---|
//! | `experiment` | what an experiment is: data |
//! | `n_store` | the experiments of the N-Store paper |
//! | `size` | how much is run |
//! | `point` | one run of an experiment, and the name of its configuration |
//! | `kinds` | how a point is run |
//! | `rows` | measured points, on file |
//! | `judge` | whether the shape of a figure holds |
//! | `page` | the report |
//!
//! Rows are the truth: a run appends them one by one, skips those that are there, and makes the page from them at the end.

mod experiment;
mod judge;
mod kinds;
mod n_store;
mod page;
mod point;
mod rows;
mod size;

use crate::args::{LabCommand, LabRunArgs};
use crate::failure::Usage;
use crate::files::{Existing, OutputFile};
use crate::output::{Cell, Format, Listing, duration};
use crate::scratch::Scratch;
use anyhow::{Context, Result};
use experiment::Experiment;
use point::Point;
use rows::{Accept, LabRow, Rows};
use size::Size;
use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Runs the command.
pub(crate) fn run(command: &LabCommand, format: Format) -> Result<()> {
    match command {
        LabCommand::List => list(format),
        LabCommand::Run(args) => measure(args, format),
        LabCommand::Report(args) => {
            let rows = Rows::open(&args.out, Accept::AnyCommit)?;
            report(args, &chosen(&args.experiments)?, &rows, format)
        }
        LabCommand::Victim(args) => kinds::victim(args),
    }
}

fn list(format: Format) -> Result<()> {
    let mut listing = Listing::new(["experiment", "shows", "runs", "checks"]);
    let size = Size::default();
    for experiment in n_store::EXPERIMENTS {
        listing.push(vec![
            experiment.name.into(),
            experiment.title.into(),
            Cell::Whole(Point::of(experiment, &size, 1).len() as u64),
            Cell::Whole(experiment.checks.len() as u64),
        ]);
    }
    listing.print(format)
}

/// The experiments with these names, each once, in the paper's order.
fn chosen(names: &[String]) -> Result<Vec<&'static Experiment>> {
    for name in names {
        let known = n_store::EXPERIMENTS.iter().any(|e| e.name == name);
        if !known && name != "n-store/all" {
            return Err(Usage::error(format!(
                "there is no experiment `{name}`; `indelible lab list` names them all, and n-store/all is all of them"
            )));
        }
    }
    let all = names.iter().any(|name| name == "n-store/all");
    let experiments = n_store::EXPERIMENTS.iter().copied();
    Ok(experiments
        .filter(|experiment| all || names.iter().any(|name| name == experiment.name))
        .collect())
}

/// Runs what is not there yet, then reports.
fn measure(args: &LabRunArgs, format: Format) -> Result<()> {
    let experiments = chosen(&args.experiments)?;
    let size = Size::of(args);
    let parent = args.path.clone().unwrap_or_else(Scratch::root);
    let mut rows = Rows::open(&args.out, Accept::ThisCommit)?;
    let points = missing(&experiments, &size, args.seed, &rows);
    let start = Instant::now();
    for (index, (experiment, point)) in points.iter().enumerate() {
        let words: Vec<&str> = point.parameters.values().map(String::as_str).collect();
        // Standard output is for the verdicts.
        eprintln!(
            "[{}/{}, {}] {} {}",
            index + 1,
            points.len(),
            duration(start.elapsed().as_secs_f64() * 1e6),
            experiment.name,
            words.join(" ")
        );
        let repeats = kinds::run(point, &size, &parent)
            .with_context(|| format!("{}: `{}`", experiment.name, point.configuration(&size)))?;
        rows.add(LabRow::new(point, &size, &repeats, &parent))?;
    }
    report(args, &experiments, &rows, format)
}

/// The points that no row has, each once.
fn missing(
    experiments: &[&'static Experiment],
    size: &Size,
    seed: u64,
    rows: &Rows,
) -> Vec<(&'static Experiment, Point)> {
    let mut known = HashSet::new();
    let mut points = Vec::new();
    for experiment in experiments {
        for point in Point::of(experiment, size, seed) {
            let is_new = known.insert(point.configuration(size));
            if is_new && rows.find(&point, size).is_none() {
                points.push((*experiment, point));
            }
        }
    }
    points
}

/// Writes the page and the table, and prints a verdict an experiment.
fn report(
    args: &LabRunArgs,
    experiments: &[&'static Experiment],
    rows: &Rows,
    format: Format,
) -> Result<()> {
    let size = Size::of(args);
    let figures: Vec<page::Figure<'_>> = experiments
        .iter()
        .map(|experiment| {
            let points = Point::of(experiment, &size, args.seed);
            let own = points.iter().filter_map(|point| rows.find(point, &size));
            page::Figure::new(experiment, own.collect(), points.len())
        })
        .collect();
    let mut seen = HashSet::new();
    let all = figures.iter().flat_map(|figure| &figure.rows).copied();
    let all: Vec<&LabRow> = all.filter(|row| seen.insert(row.config.as_str())).collect();
    rows.write_csv(&all)?;
    let path: PathBuf = args.out.join("report.html");
    let mut out = OutputFile::create(&path, Existing::Replace)?;
    out.write_all(page::page(&figures, &size).html().as_bytes())?;
    out.finish()?;
    let mut listing = Listing::new([
        "experiment",
        "verdict",
        "checks that hold",
        "checks",
        "rows",
    ]);
    for figure in &figures {
        listing.push(vec![
            figure.experiment.name.into(),
            figure.verdict().into(),
            Cell::Whole(figure.count(judge::Verdict::Holds)),
            Cell::Whole(figure.judged.len() as u64),
            Cell::Whole(figure.rows.len() as u64),
        ]);
    }
    listing.print(format)?;
    eprintln!("The report is {}", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use experiment::{Shape, Test};

    #[test]
    fn every_plot_and_every_check_has_points_to_look_at() {
        let size = Size::default();
        for experiment in n_store::EXPERIMENTS {
            let points = Point::of(experiment, &size, 1);
            let any = |filter| points.iter().any(|p| point::passes(&p.parameters, filter));
            for plot in experiment.plots {
                assert!(any(plot.rows), "{}: {}", experiment.name, plot.caption);
                let (a, b) = match plot.shape {
                    Shape::Bars { group, bar, .. } => (group, bar),
                    Shape::Stack { bar, .. } => (bar, bar),
                    Shape::Lines { x, line, .. } => (x, line),
                };
                let named = |name| points.iter().any(|point| !point.get(name).is_empty());
                assert!(
                    named(a) && named(b),
                    "{}: {}",
                    experiment.name,
                    plot.caption
                );
            }
            for check in experiment.checks {
                let filters = match check.test {
                    Test::Ratio {
                        over, under, rows, ..
                    } => vec![over, under, rows],
                    Test::Growth {
                        over,
                        under,
                        low,
                        high,
                        rows,
                        ..
                    } => {
                        vec![over, under, low, high, rows]
                    }
                    Test::Value { rows, .. } | Test::Best { rows, .. } => vec![rows],
                };
                let found = filters.into_iter().all(any);
                assert!(found, "{}: {}", experiment.name, check.what);
                assert!(!check.paper.is_empty() && !check.source.is_empty());
            }
        }
    }

    #[test]
    fn figures_share_the_runs_that_are_the_same() {
        let scratch = Scratch::new().unwrap();
        let rows = Rows::open(scratch.path(), Accept::ThisCommit).unwrap();
        let count = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            missing(&chosen(&names).unwrap(), &Size::default(), 1, &rows).len()
        };
        let one = count(&["n-store/fig6"]);
        assert!(one > 0);
        assert_eq!(
            one,
            count(&["n-store/fig6", "n-store/fig9", "n-store/fig10"])
        );
        assert!(chosen(&["n-store/fig99".into()]).is_err());
    }
}
