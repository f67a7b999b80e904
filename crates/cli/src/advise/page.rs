//! The HTML page of `advise`: verdict, reasons, plots, table, method.
//!
//! Everything on it is in the printed answer too, except the points of the last plots, which show
//! the measurements and the model's line through them.

use super::choose::{Judged, size};
use super::model::Point;
use super::output::{HEADER, Report};
use crate::machine::{self, COMMIT};
use crate::output::{duration, thousands, whole};
use crate::report::{
    BarChart, BarGroup, LineChart, LineSeries, Page, Scale, Section, short_number,
};
use crate::scratch::Scratch;

/// The whole page.
pub(super) fn page(report: &Report<'_>) -> Page {
    Page {
        title: "Which storage method?".into(),
        lead: format!(
            "{} Objective: {}.",
            report.verdict(),
            super::choose::objective(report.advice.preference)
        ),
        sections: vec![
            answer(report),
            numbers(report),
            growth(report),
            notes(report),
        ],
        facts: facts(report),
    }
}

fn answer(report: &Report<'_>) -> Section {
    let judged = report.advice.judged.iter();
    let why = judged.map(|one| format!("{}: {}.", one.estimate.method, one.why));
    Section {
        heading: "Why".into(),
        paragraphs: report
            .facts()
            .into_iter()
            .filter(|(name, _)| *name != "objective")
            .map(|(name, value)| format!("{}{}: {value}.", name[..1].to_uppercase(), &name[1..]))
            .chain(why)
            .collect(),
        ..Section::default()
    }
}

fn numbers(report: &Report<'_>) -> Section {
    let bars = |title: &str, scale, of: fn(&Judged) -> (f64, String)| {
        let judged = &report.advice.judged;
        let chart = BarChart {
            title: title.into(),
            series: judged
                .iter()
                .map(|one| one.estimate.method.name().into())
                .collect(),
            groups: vec![BarGroup {
                name: String::new(),
                bars: judged.iter().map(|one| Some(of(one))).collect(),
                ranges: Vec::new(),
            }],
            scale,
        };
        (title.to_owned(), chart.svg())
    };
    let header = HEADER.map(str::to_owned).to_vec();
    Section {
        heading: format!("What to expect at {} rows", thousands(report.plan.rows)),
        plots: vec![
            bars("Transactions a second", Scale::Linear, |one| {
                let value = one.estimate.txn_per_s.value;
                (value, short_number(value))
            }),
            bars("99th percentile of latency", Scale::Linear, |one| {
                let value = one.estimate.p99_us.value;
                (value, duration(value))
            }),
            bars(
                "Bytes written to the device, a transaction",
                Scale::Linear,
                |one| {
                    let value = one.estimate.written_bytes;
                    (value, whole(value))
                },
            ),
            bars("Footprint", Scale::Linear, |one| {
                let value = one.estimate.footprint_bytes;
                (value, size(value))
            }),
            bars(
                "Opening after a crash (logarithmic)",
                Scale::Logarithmic,
                |one| {
                    let value = one.estimate.recovery_ms.value;
                    (value, duration(value * 1e3))
                },
            ),
            bars("Score", Scale::Linear, |one| {
                (one.score, format!("{:.2}", one.score))
            }),
        ],
        table: Some((header, report.rows())),
        ..Section::default()
    }
}

fn growth(report: &Report<'_>) -> Section {
    let lines = |title: &str,
                 y_label: &str,
                 y_scale,
                 of: fn(&Point) -> f64,
                 at_target: fn(&Judged) -> f64| {
        let series = report.advice.judged.iter().map(|one| {
            let measured = one.estimate.points.iter();
            let mut points: Vec<(f64, f64)> = measured
                .map(|point| (point.rows as f64, of(point)))
                .collect();
            if report.plan.extrapolates() {
                points.push((report.plan.rows as f64, at_target(one)));
            }
            LineSeries {
                name: one.estimate.method.name().into(),
                points,
                ranges: Vec::new(),
            }
        });
        let chart = LineChart {
            title: title.into(),
            x_label: "rows".into(),
            y_label: y_label.into(),
            x_scale: Scale::Logarithmic,
            y_scale,
            x_ticks: Vec::new(),
            series: series.collect(),
        };
        (title.to_owned(), chart.svg())
    };
    let paragraph = if report.plan.extrapolates() {
        "The last point of each line is computed; the others were measured."
    } else {
        "All points were measured."
    };
    Section {
        heading: "From what was measured to your rows".into(),
        paragraphs: vec![paragraph.into()],
        plots: vec![
            lines(
                "Time of a transaction",
                "us",
                Scale::Linear,
                |point| point.txn_us,
                |one| 1e6 / one.estimate.txn_per_s.value,
            ),
            lines(
                "Bytes written, a transaction",
                "bytes",
                Scale::Linear,
                |point| point.written_bytes,
                |one| one.estimate.written_bytes,
            ),
            lines(
                "Opening after a crash",
                "ms",
                Scale::Logarithmic,
                |point| point.recovery_ms,
                |one| one.estimate.recovery_ms.value,
            ),
        ],
        ..Section::default()
    }
}

fn notes(report: &Report<'_>) -> Section {
    Section {
        heading: "What these numbers are".into(),
        paragraphs: report.notes(),
        ..Section::default()
    }
}

fn facts(report: &Report<'_>) -> Vec<(String, String)> {
    let root = Scratch::root();
    let machine = machine::here(report.plan.path.as_deref().unwrap_or(&root));
    let mut facts: Vec<(String, String)> = report
        .facts()
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    facts.push(("machine".into(), machine.summary()));
    facts.push(("commit".into(), COMMIT.into()));
    facts
}
