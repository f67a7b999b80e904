//! `bench join --grid`: every algorithm and `auto` over sizes, skews, match rates and densities; is
//! the pick near the best?
//!
//! In a cell all six join the same relations in turns, in one scratch memory that the first turn
//! has warmed, so that any other load affects them alike. Every other turn goes backwards, because
//! each join leaves its data in the cache for the next. The best time of each counts, because it
//! contains the least of other load. The pick is judged by the time of the algorithm that was
//! picked; the time of `auto` itself, with its samples, is a separate number.

use super::{algorithms, inputs, options, runs};
use crate::args::{GridPart, JoinArgs};
use crate::machine::{self, COMMIT, Machine};
use crate::output::{Cell, Format, Listing, stdout};
use crate::progress;
use crate::report::short_number;
use crate::streams;
use anyhow::{Context, Result};
use join::data::{KeyRange, Workload};
use join::{Algorithm, Scratch};
use measure::join::JoinOptions;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::io::Write;
use std::path::Path;

/// Parts of `--r` that R and S have.
const SIZES: [(u64, u64); 5] = [(256, 1), (16, 1), (16, 16), (4, 4), (1, 1)];
/// Exponents of S.
const ZIPFS: [f64; 3] = [0.0, 0.75, 1.25];
/// Parts of S with partners.
const MATCHES: [f64; 3] = [1.0, 0.1, 0.01];
const KEYS: [KeyRange; 2] = [KeyRange::Dense, KeyRange::Sparse];
/// A pick counts as near if it takes at most this many times the best.
const RATIO_MAX: f64 = 1.15;

/// A cell of the grid.
#[derive(Clone, Debug, Serialize)]
struct CellRow {
    workload: &'static str,
    r: u64,
    s: u64,
    tuple_bytes: usize,
    threads: usize,
    kernel: &'static str,
    zipf: f64,
    #[serde(rename = "match")]
    match_rate: f64,
    dense: bool,
    /// The fastest of the five.
    best: &'static str,
    /// The algorithm that `auto` ran, and its reason.
    picked: &'static str,
    reason: String,
    /// Time of the algorithm that `auto` picks, by that of the best.
    ratio: f64,
    /// Time of `auto` itself, samples included, by that of the best.
    auto_ratio: f64,
    /// Least seconds of each.
    seconds: Map<String, Json>,
    /// Tuples of S a second of the best.
    tuples_per_s: f64,
    turns: u32,
    commit: &'static str,
    seed: u64,
    machine: Machine,
}

/// Runs the grid.
pub(super) fn run(args: &JoinArgs, format: Format) -> Result<()> {
    let mut workloads = workloads(args);
    if let Some(GridPart { part, parts }) = args.grid_part {
        let edge = |part: usize| workloads.len() * part / parts;
        workloads = workloads[edge(part - 1)..edge(part)].to_vec();
    }
    let note = progress::count("cells of the grid", workloads.len() as u64);
    let mut rows = Vec::new();
    let mut scratch = Scratch::new();
    for workload in &workloads {
        let row = cell(args, workload, &mut scratch).with_context(|| {
            format!(
                "{} x {} tuples, zipf {}, match {}",
                workload.r_tuples, workload.s_tuples, workload.zipf, workload.match_rate
            )
        })?;
        runs::print_row(&row, format)?;
        rows.push(row);
        note.inc(1);
    }
    note.finish_and_clear();
    match format {
        Format::Json => {}
        Format::Csv => runs::flat_listing(&rows)?.print(format)?,
        Format::Text => listing(&rows).print(format)?,
    }
    let said = summary(&rows);
    match format {
        Format::Text => {
            let mut out = stdout();
            writeln!(out, "{said}")?;
            out.flush()?;
        }
        // Standard output is for rows.
        Format::Json | Format::Csv => streams::tell(&said),
    }
    Ok(())
}

/// The cells, those with the same relation R one after the other.
fn workloads(args: &JoinArgs) -> Vec<Workload> {
    let part = |share: u64| (args.r / share).max(1) as usize;
    let mut all = Vec::new();
    for (r, s) in SIZES {
        for keys in KEYS {
            for zipf in ZIPFS {
                for match_rate in MATCHES {
                    all.push(Workload {
                        keys,
                        zipf,
                        match_rate,
                        seed: args.seed,
                        ..Workload::uniform(part(r), part(s))
                    });
                }
            }
        }
    }
    all
}

/// One pair of relations.
fn cell(args: &JoinArgs, workload: &Workload, scratch: &mut Scratch) -> Result<CellRow> {
    let algorithms = algorithms(args);
    let inputs = inputs(args, workload, &algorithms)?;
    let kernel = args.kernel.first().copied().unwrap_or_default();
    let choices: Vec<JoinOptions> = algorithms
        .iter()
        .map(|algorithm| options(args, *algorithm, kernel))
        .collect();
    let found = inputs.turns(&choices, args.repeats, scratch)?;
    let explanation = inputs
        .explain(&options(args, Algorithm::Auto, kernel))?
        .context("auto explains itself")?;
    let times = || {
        algorithms
            .iter()
            .copied()
            .zip(found.seconds.iter().copied())
    };
    let is_auto = |(algorithm, _): &(Algorithm, f64)| *algorithm == Algorithm::Auto;
    let best = times()
        .filter(|time| !is_auto(time))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .context("there are five algorithms")?;
    let (_, auto_seconds) = times().find(is_auto).context("and auto")?;
    let stats = found.picked;
    let (_, picked_seconds) = times()
        .find(|(algorithm, _)| *algorithm == stats.algorithm)
        .context("auto picks one of the five")?;
    Ok(CellRow {
        workload: "join-grid",
        r: stats.r_tuples,
        s: stats.s_tuples,
        tuple_bytes: stats.tuple_bytes,
        threads: stats.threads,
        kernel: stats.kernel,
        zipf: workload.zipf,
        match_rate: workload.match_rate,
        dense: workload.keys == KeyRange::Dense,
        best: best.0.name(),
        picked: stats.algorithm.name(),
        reason: explanation.reason,
        ratio: picked_seconds / best.1,
        auto_ratio: auto_seconds / best.1,
        seconds: times()
            .map(|(algorithm, seconds)| (algorithm.name().to_owned(), seconds.into()))
            .collect(),
        tuples_per_s: stats.s_tuples as f64 / best.1,
        turns: found.count,
        commit: COMMIT,
        seed: args.seed,
        machine: machine::here(Path::new(".")),
    })
}

fn listing(rows: &[CellRow]) -> Listing {
    let mut listing = Listing::new([
        "R",
        "S",
        "keys",
        "zipf",
        "match",
        "best",
        "tuples/s",
        "auto picks",
        "picked/best",
        "auto/best",
    ]);
    for row in rows {
        let million = row.tuples_per_s / 1e6;
        listing.push(vec![
            Cell::Number(row.r as f64, short_number(row.r as f64)),
            Cell::Number(row.s as f64, short_number(row.s as f64)),
            if row.dense { "dense" } else { "sparse" }.into(),
            Cell::number(row.zipf, 2),
            Cell::number(row.match_rate, 2),
            row.best.into(),
            Cell::Number(row.tuples_per_s, format!("{million:.1} M")),
            row.picked.into(),
            Cell::number(row.ratio, 2),
            Cell::number(row.auto_ratio, 2),
        ]);
    }
    listing
}

/// The number of cells near the best, and the one farthest from it.
fn summary(rows: &[CellRow]) -> String {
    let near = rows.iter().filter(|row| row.ratio <= RATIO_MAX).count();
    let worst = rows.iter().max_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let Some(worst) = worst else {
        return "The grid has no cells.".into();
    };
    format!(
        "The pick of auto is within 15 % of the best in {near} of {} cells. Worst: {} x {} {} keys, zipf {}, match {}: {} instead of {}, {:.2} times as long.",
        rows.len(),
        short_number(worst.r as f64),
        short_number(worst.s as f64),
        if worst.dense { "dense" } else { "sparse" },
        worst.zipf,
        worst.match_rate,
        worst.picked,
        worst.best,
        worst.ratio
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ratio: f64) -> CellRow {
        CellRow {
            workload: "join-grid",
            r: 62_500,
            s: 16_000_000,
            tuple_bytes: 8,
            threads: 2,
            kernel: "portable",
            zipf: 1.25,
            match_rate: 0.1,
            dense: false,
            best: "radix",
            picked: "n-part",
            reason: String::new(),
            ratio,
            auto_ratio: ratio,
            seconds: Map::new(),
            tuples_per_s: 1e8,
            turns: 1,
            commit: COMMIT,
            seed: 1,
            machine: machine::here(Path::new(".")),
        }
    }

    #[test]
    fn the_worst_cell_is_named() {
        let said = summary(&[row(1.0), row(1.15), row(1.5), row(1.16)]);
        assert!(said.contains("2 of 4 cells"), "{said}");
        assert!(said.contains("62.5k x 16M sparse keys"), "{said}");
        assert!(
            said.contains("n-part instead of radix, 1.50 times"),
            "{said}"
        );
    }
}
