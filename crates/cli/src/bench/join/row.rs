//! Rows of `bench join`: one a run, complete enough to be compared with a row of another machine.
//!
//! Names carry their units, except those that the command line has as well. `seconds`, the phases
//! and all numbers derived from them are those of the median repeat in warm scratch memory. Phases
//! follow one another on the wall clock; the rest of the whole is planning.

use crate::args::JoinArgs;
use crate::machine::{self, COMMIT, Machine};
use crate::output::{Cell, Format, Listing, bytes, duration, stdout};
use anyhow::Result;
use join::data::Workload;
use join::{Algorithm, BloomUse, JoinStats, RunSort, TableKind, Totals, Tuning};
use measure::join::Measured;
use pmem::device::emulated::Clock;
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::io::Write;
use std::path::Path;

/// One measured join.
#[derive(Clone, Debug, Serialize)]
pub(super) struct JoinRow {
    workload: &'static str,
    /// The algorithm that the caller asked for.
    algorithm: &'static str,
    /// The algorithm that `auto` picked, and why; null where the caller picked.
    picked: Option<&'static str>,
    reason: Option<String>,
    kernel: &'static str,
    r: u64,
    s: u64,
    tuple_bytes: usize,
    threads: usize,
    zipf: f64,
    dense: bool,
    #[serde(rename = "match")]
    match_rate: f64,
    /// Copies of each key in R.
    copies: usize,
    /// Part of R that has one key on top.
    hot: f64,
    tuning: TuningRow,
    repeats: usize,
    seconds: f64,
    seconds_min: f64,
    seconds_max: f64,
    /// The first join, in fresh scratch memory.
    seconds_cold: f64,
    cpu_seconds: f64,
    /// Tuples of S.
    tuples_per_s: f64,
    /// Ticks of the time-stamp counter for a tuple of S; null where the processor has no steady
    /// one.
    cycles_per_tuple: Option<f64>,
    /// Seconds by phase, in order.
    phases: Map<String, Json>,
    partitions: usize,
    passes: u32,
    filtered_tuples: u64,
    scratch_bytes: u64,
    /// Pairs of the result.
    matches: u64,
    /// Payloads of all pairs added up, as 16 hexadecimal digits.
    checksum: String,
    commit: &'static str,
    seed: u64,
    machine: Machine,
}

/// Tuning that the caller set; null and `auto` where the library chose.
#[derive(Clone, Debug, Serialize)]
struct TuningRow {
    bits: Option<u32>,
    second_bits: Option<u32>,
    table: &'static str,
    run_sort: &'static str,
    bloom: &'static str,
}

impl TuningRow {
    fn new(tuning: Tuning) -> Self {
        Self {
            bits: tuning.partition_bits,
            second_bits: tuning.second_pass_bits,
            table: match tuning.table {
                TableKind::Auto => "auto",
                TableKind::LinearProbe => "linear",
                TableKind::BucketChain => "chain",
            },
            run_sort: match tuning.run_sort {
                RunSort::Radix => "radix",
                RunSort::Network => "network",
            },
            bloom: match tuning.bloom {
                BloomUse::Auto => "auto",
                BloomUse::Always => "always",
                BloomUse::Never => "never",
            },
        }
    }
}

impl JoinRow {
    /// The row of a measurement on the relations of the options.
    pub(super) fn new(args: &JoinArgs, measured: &Measured) -> Self {
        let workload: Workload = super::workload(args);
        let median = measured.median();
        let stats = &median.stats;
        let (seconds_min, seconds_max) = measured.spread();
        let explanation = measured.explanation.as_ref();
        Self {
            workload: "join",
            algorithm: measured.algorithm.name(),
            picked: explanation.map(|found| found.algorithm.name()),
            reason: explanation.map(|found| found.reason.clone()),
            kernel: stats.kernel,
            r: stats.r_tuples,
            s: stats.s_tuples,
            tuple_bytes: stats.tuple_bytes,
            threads: stats.threads,
            zipf: workload.zipf,
            dense: !args.sparse,
            match_rate: workload.match_rate,
            copies: workload.repeats,
            hot: workload.hot,
            tuning: TuningRow::new(args.tuning()),
            repeats: measured.warm.len(),
            seconds: median.seconds(),
            seconds_min,
            seconds_max,
            seconds_cold: measured.cold.seconds(),
            cpu_seconds: median.cpu_seconds,
            tuples_per_s: stats.tuples_per_s(),
            cycles_per_tuple: cycles_per_tuple(stats),
            phases: phases(stats),
            partitions: stats.partitions,
            passes: stats.passes,
            filtered_tuples: stats.filtered_tuples,
            scratch_bytes: stats.scratch_bytes,
            matches: measured.totals.count,
            checksum: checksum(measured.totals),
            commit: COMMIT,
            seed: args.seed,
            machine: machine::here(Path::new(".")),
        }
    }
}

/// Ticks of the time-stamp counter for a tuple of S.
fn cycles_per_tuple(stats: &JoinStats) -> Option<f64> {
    let ticks_per_ns = Clock::real().ticks_per_ns()?;
    let ns = stats.elapsed.as_secs_f64() * 1e9;
    Some(ns * ticks_per_ns / stats.s_tuples.max(1) as f64)
}

/// The payloads of all pairs, of both sides, added up; a short name of a result.
fn checksum(totals: Totals) -> String {
    let sum = totals.r_payload_sum.wrapping_add(totals.s_payload_sum);
    format!("{sum:016x}")
}

/// Seconds by phase; a phase that came twice has the sum.
fn phases(stats: &JoinStats) -> Map<String, Json> {
    let mut phases = Map::new();
    for part in &stats.phases {
        let before = phases.get(part.phase).and_then(Json::as_f64).unwrap_or(0.0);
        let seconds = before + part.elapsed.as_secs_f64();
        phases.insert(part.phase.to_owned(), seconds.into());
    }
    phases
}

/// The rows as a table for people, with the picks of `auto`.
pub(super) fn print_text(rows: &[JoinRow]) -> Result<()> {
    let mut listing = Listing::new([
        "algorithm",
        "kernel",
        "tuples/s",
        "time",
        "least",
        "most",
        "cold",
        "cycles/tuple",
        "scratch",
        "phases",
    ]);
    let time = |seconds: f64| Cell::Number(seconds, duration(seconds * 1e6));
    for row in rows {
        let name = match row.picked {
            Some(picked) => format!("{}: {picked}", row.algorithm),
            None => row.algorithm.to_owned(),
        };
        listing.push(vec![
            name.into(),
            row.kernel.into(),
            Cell::Number(row.tuples_per_s, format!("{:.1} M", row.tuples_per_s / 1e6)),
            time(row.seconds),
            time(row.seconds_min),
            time(row.seconds_max),
            time(row.seconds_cold),
            row.cycles_per_tuple
                .map_or(Cell::Null, |cycles| Cell::number(cycles, 1)),
            Cell::Number(row.scratch_bytes as f64, bytes(row.scratch_bytes)),
            phases_text(&row.phases).into(),
        ]);
    }
    listing.print(Format::Text)?;
    let mut out = stdout();
    for row in rows.iter().take(1) {
        writeln!(
            out,
            "{} pairs, as they should be. Times are medians of {} joins in warm scratch memory; cold is the first one, in fresh memory.",
            row.matches, row.repeats
        )?;
    }
    for row in rows {
        if let (Some(picked), Some(reason)) = (row.picked, &row.reason) {
            writeln!(out, "{} picked {picked}: {reason}.", Algorithm::Auto)?;
        }
    }
    out.flush()?;
    Ok(())
}

fn phases_text(phases: &Map<String, Json>) -> String {
    let texts = phases.iter().filter_map(|(phase, seconds)| {
        let us = seconds.as_f64()? * 1e6;
        (phase != "plan").then(|| format!("{phase} {}", duration(us)))
    });
    texts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_of_both_sides() {
        let totals = Totals {
            count: 10,
            r_payload_sum: 20,
            s_payload_sum: 30,
        };
        assert_eq!(checksum(totals), "0000000000000032");
    }
}
