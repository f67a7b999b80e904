//! `lab replay`: measures the point of a kept row again, and says whether the two agree.
//!
//! The point is made from the row alone, and has to have the configuration that the row names: a
//! version that measures something else under the same parameters says so and measures nothing.
//! Two measurements of a number agree if their 95 % intervals overlap. Of many numbers some do not
//! by chance; the answer and the exit code are those of the number by which a control point is
//! compared with itself.

use super::rounds;
use crate::args::LabReplayArgs;
use crate::failure::{FAILED, Usage};
use crate::output::{Cell, Format, Listing, note};
use crate::report::short_number;
use crate::scratch::Scratch;
use anyhow::{Context, Result};
use lab::ablation;
use lab::control::CONTROL_METRICS;
use lab::experiment::Kind;
use lab::point::Point;
use lab::rows::{self, LabRow};
use lab::size::Size;
use lab::statistics::Interval;
use lab::variant::{Scope, Variant};
use std::process::ExitCode;

/// Runs the command.
pub(super) fn run(args: &LabReplayArgs, format: Format) -> Result<ExitCode> {
    let path = args.out.join("rows.jsonl");
    let rows = rows::read(&path)?.rows;
    let row = named(&rows, &args.row).ok_or_else(|| {
        Usage::error(format!(
            "{} has no row, or rows of several points, whose `config` begins with `{}`",
            path.display(),
            args.row
        ))
    })?;
    let (point, size) = point_of(row)?;
    let parent = args.path.clone().unwrap_or_else(Scratch::root);
    let measured = rounds::measure(std::slice::from_ref(&point), &size, &parent, |_, _| ())?;
    let again = measured.first().context("a point gives a row")?;
    let is_text = format == Format::Text;
    let names = ["metric", "row", "row_low", "row_high", "again"];
    let others = ["again_low", "again_high", "agrees"];
    let mut listing = if is_text {
        Listing::new(["metric", "row", "again", "agrees"])
    } else {
        Listing::new(names.into_iter().chain(others))
    };
    for metric in row.metrics.keys() {
        let [Some(before), Some(now)] = intervals([row, again], metric) else {
            continue;
        };
        let cells = |own: Interval| {
            if is_text {
                vec![text(own)]
            } else {
                [own.value, own.low, own.high].map(number).into()
            }
        };
        let agrees = if before.overlaps(&now) { "yes" } else { "no" };
        let name = vec![metric.as_str().into()];
        listing.push([name, cells(before), cells(now), vec![agrees.into()]].concat());
    }
    listing.print(format)?;
    if row.machine.summary() != again.machine.summary() {
        note(&format!(
            "The row is of another machine: {}. This one: {}",
            row.machine.summary(),
            again.machine.summary()
        ));
    }
    let (agrees, answer) = answer(row, again);
    note(&answer);
    Ok(if agrees {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FAILED)
    })
}

/// An interval for people.
fn text(own: Interval) -> Cell {
    let [low, value, high] = [own.low, own.value, own.high].map(short_number);
    Cell::from(format!("{value} [{low}, {high}]"))
}

/// A number for programs, with all its digits.
fn number(value: f64) -> Cell {
    Cell::Number(value, value.to_string())
}

/// The last row of the one point whose name begins so.
fn named<'r>(rows: &'r [LabRow], beginning: &str) -> Option<&'r LabRow> {
    let found = || rows.iter().filter(|row| row.config.starts_with(beginning));
    let last = found().next_back()?;
    found().all(|row| row.config == last.config).then_some(last)
}

/// A metric of both rows.
fn intervals(rows: [&LabRow; 2], metric: &str) -> [Option<Interval>; 2] {
    rows.map(|row| Interval::of_median(&row.rounds(metric)))
}

/// Whether the two agree, unless nothing can be said, and a sentence about it.
fn answer(row: &LabRow, again: &LabRow) -> (bool, String) {
    let commit = &row.commit;
    for metric in CONTROL_METRICS {
        if let [Some(before), Some(now)] = intervals([row, again], metric) {
            let agrees = before.overlaps(&now);
            let verb = if agrees { "agrees" } else { "does not agree" };
            let text = format!(
                "{metric} {verb} with the row of commit {commit}: {:.3} times its median",
                now.value / before.value
            );
            return (agrees, text);
        }
    }
    let text =
        format!("The row of commit {commit} has no number that a control point is judged by");
    (true, text)
}

/// The point of a row, and its size.
fn point_of(row: &LabRow) -> Result<(Point, Size)> {
    let of_version = |what: &str, name: &str| {
        Usage::error(format!(
            "this version has no {what} `{name}`; build commit {} to repeat the row",
            row.commit
        ))
    };
    let kind = Kind::named(&row.kind).ok_or_else(|| of_version("kind of run", &row.kind))?;
    let size = Size::named(&row.size).ok_or_else(|| of_version("size", &row.size))?;
    let variant = if row.variant == Scope::Paper.name() {
        Variant::Paper
    } else {
        Variant::Ours
    };
    let mut point = Point::new(kind, row.parameters.clone(), row.seed).of_variant(variant);
    if row.variant == Scope::Ablation.name() {
        let configuration = &row.configuration;
        let found = ablation::point_of(kind, &row.parameters, row.seed, &size, configuration);
        point = found.unwrap_or(point);
    }
    let configuration = point.configuration(&size);
    if configuration != row.configuration {
        return Err(Usage::error(format!(
            "this version measures `{configuration}` where the row has `{}`; build commit {} to repeat it",
            row.configuration, row.commit
        )));
    }
    Ok((point, size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{self, COMMIT};
    use lab::rows::{Metrics, Sample};
    use measure::conditions::Conditions;
    use std::path::Path;

    fn row(speeds: [f64; 3]) -> LabRow {
        let parameters = [("method".into(), "nvm-inp".into())].into();
        let point = Point::new(Kind::Ycsb, parameters, 5).of_variant(Variant::Paper);
        let sample = |(round, speed)| Sample {
            round,
            order: round,
            conditions: Conditions::default(),
            counters: Metrics::new(),
            metrics: Metrics::from([("txn_per_cpu_s".into(), speed)]),
        };
        let samples = (0..).zip(speeds).map(sample).collect();
        let made = (COMMIT, machine::here(Path::new(".")));
        LabRow::new(&point, &Size::smoke(), samples, made)
    }

    #[test]
    fn a_row_gives_its_point() {
        let mut row = row([1.0; 3]);
        let (point, size) = point_of(&row).unwrap();
        assert_eq!(point.scope, Scope::Paper);
        assert_eq!(point.configuration(&size), row.configuration);
        row.configuration.push_str(" --more");
        assert!(
            point_of(&row)
                .unwrap_err()
                .to_string()
                .contains("build commit")
        );
        row.kind = "dance".into();
        assert!(
            point_of(&row)
                .unwrap_err()
                .to_string()
                .contains("no kind of run `dance`")
        );
    }

    #[test]
    fn the_beginning_of_a_name_finds_the_last_row_of_one_point() {
        let mut rows = [row([1.0; 3]), row([2.0; 3]), row([3.0; 3])];
        let config = rows[0].config.clone();
        let found = |rows: &[LabRow], name: &str| Some(named(rows, name)?.rounds("txn_per_cpu_s"));
        assert_eq!(found(&rows, &config[..5]), Some(vec![3.0; 3]));
        assert_eq!(found(&rows, "no such"), None);
        rows[1].config = "other".into();
        assert_eq!(found(&rows, &config), Some(vec![3.0; 3]));
        assert_eq!(found(&rows, ""), None);
    }

    #[test]
    fn measurements_agree_where_their_intervals_overlap() {
        let kept = row([10.0, 11.0, 12.0]);
        let (agrees, near) = answer(&kept, &row([11.5, 12.5, 13.0]));
        assert!(agrees && near.contains("agrees"), "{near}");
        let (agrees, far) = answer(&kept, &row([20.0, 22.0, 24.0]));
        assert!(
            !agrees && far.contains("does not agree") && far.contains("2.000 times"),
            "{far}"
        );
    }
}
