//! Points that are runs of `indelible bench join`: their arguments go through the same command
//! line.
//!
//! Points with the same relations share them. A measurement warms its scratch memory with one join,
//! and takes the median of the joins that follow. Each of them is checked against what the
//! generator knows. Cycles are ticks of the time-stamp counter on the wall clock for a tuple of S,
//! as in the paper's figures; where the processor has no steady counter there are none.

use super::bench::command;
use crate::args::{BenchCommand, JoinArgs};
use crate::bench::{MadeRelations, has_kernel, made_relations};
use anyhow::{Context, Result, bail};
use lab::point::Point;
use lab::rows::Metrics;
use lab::size::Size;
use measure::join::Timed;
use pmem::device::emulated::Clock;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The pieces into which plots divide a join, with the library's phases that are part of each.
const PIECES: [(&str, &[&str]); 5] = [
    (
        "partition_cycles",
        &["plan", "partition-r", "filter", "partition-s"],
    ),
    ("sort_cycles", &["sort", "sort-r", "sort-s"]),
    ("merge_cycles", &["merge"]),
    ("build_cycles", &["build", "build-buckets"]),
    ("join_cycles", &["join", "probe"]),
];

/// Relations of fewer tuples are joined more often, by a factor of at most `MORE_REPEATS_MAX`.
const TUPLES: u64 = 8_000_000;
const MORE_REPEATS_MAX: u64 = 5;

/// Most bytes of relations that are kept for several points; what goes beyond is made for each
/// measurement.
const KEPT_BYTES_MAX: u64 = 2 << 30;

/// Relations that are kept while points which are measured together take turns.
#[derive(Default)]
pub(in crate::lab) struct KeptRelations(Mutex<Vec<Arc<MadeRelations>>>);

impl KeptRelations {
    /// The relations of a run, which are made for the first run that has them.
    fn of(&self, args: &JoinArgs) -> Result<Arc<MadeRelations>> {
        // Making them takes all cores, so others wait for it.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(made) = kept.iter().find(|made| made.is_of(args)) {
            return Ok(Arc::clone(made));
        }
        let made = Arc::new(made_relations(args)?);
        let kept_bytes: u64 = kept.iter().map(|made| made.bytes()).sum();
        if kept_bytes + made.bytes() <= KEPT_BYTES_MAX {
            kept.push(Arc::clone(&made));
        }
        Ok(made)
    }
}

/// Runs a join.
pub(super) fn run(point: &Point, size: &Size, kept: &KeptRelations) -> Result<Metrics> {
    let mut words: Vec<String> = ["indelible", "bench", "join", "--repeats"]
        .map(str::to_owned)
        .to_vec();
    words.push(repeats(point, size).to_string());
    words.extend(point.arguments(size));
    let BenchCommand::Join(args) = command(&words)? else {
        bail!("the arguments of a point are those of `bench join`");
    };
    let measured = kept.of(&args)?.join(&args)?;
    let measured = measured.first().context("a point is one run")?;
    let cold_s = measured.cold.seconds();
    let mut warm: Vec<&Timed> = measured.warm.iter().collect();
    warm.sort_by(|a, b| a.seconds().total_cmp(&b.seconds()));
    let median = warm.get(warm.len() / 2).context("a join is repeated")?;
    let mut metrics = metrics(median);
    metrics.insert("cold_s".into(), cold_s);
    Ok(metrics)
}

/// A short join is repeated more often, because other load affects it more.
fn repeats(point: &Point, size: &Size) -> u64 {
    let (r, s) = size.relations(point.get("relations")).unwrap_or_default();
    (TUPLES / (r + s).max(1)).clamp(1, MORE_REPEATS_MAX)
}

/// Whether this processor has the kernel that a point asks for, if it asks for one.
pub(in crate::lab) fn is_possible(point: &Point) -> bool {
    let kernel = point.get("kernel");
    kernel.is_empty() || kernel.parse().is_ok_and(has_kernel)
}

/// The numbers of a join that figures use.
fn metrics(timed: &Timed) -> Metrics {
    let stats = &timed.stats;
    let s_tuples = stats.s_tuples.max(1) as f64;
    let mut metrics: Metrics = [
        ("tuples_per_s", stats.tuples_per_s()),
        ("tuples_per_cpu_s", s_tuples / timed.cpu_seconds.max(1e-9)),
        ("seconds", timed.seconds()),
        ("r_tuples", stats.r_tuples as f64),
        ("s_tuples", stats.s_tuples as f64),
        ("threads", stats.threads as f64),
        ("partitions", stats.partitions as f64),
        ("scratch_bytes", stats.scratch_bytes as f64),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let seconds_of = |phases: &[&str]| -> f64 {
        let own = stats.phases.iter().filter(|p| phases.contains(&p.phase));
        own.map(|part| part.elapsed).sum::<Duration>().as_secs_f64()
    };
    let pieces = PIECES.map(|(name, phases)| (name, seconds_of(phases)));
    let rest = timed.seconds() - pieces.iter().map(|(_, seconds)| seconds).sum::<f64>();
    let percent = |seconds: f64| 100.0 * seconds / timed.seconds().max(1e-12);
    let [(_, partition), (_, sort), (_, merge), ..] = pieces;
    metrics.insert("partition_percent".into(), percent(partition));
    metrics.insert("sort_merge_percent".into(), percent(sort + merge));
    if let Some(ticks_per_ns) = Clock::real().ticks_per_ns() {
        let cycles = |seconds: f64| seconds * 1e9 * ticks_per_ns / s_tuples;
        metrics.insert("cycles_per_tuple".into(), cycles(timed.seconds()));
        metrics.insert("other_cycles".into(), cycles(rest.max(0.0)));
        metrics.extend(
            pieces
                .iter()
                .map(|(name, seconds)| ((*name).to_owned(), cycles(*seconds))),
        );
    }
    metrics
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::experiment::Kind;

    fn point(algorithm: &str) -> Point {
        let parameters = [("algorithm", algorithm), ("relations", "B")];
        let parameters = parameters.map(|(name, value)| (name.into(), value.into()));
        Point::new(Kind::Join, parameters.into(), 3)
    }

    #[test]
    fn the_pieces_of_every_algorithm_add_up_to_its_time() {
        let (size, kept) = (Size::smoke(), KeptRelations::default());
        for algorithm in ["radix", "n-part", "m-way", "m-pass", "mpsm"] {
            let metrics = run(&point(algorithm), &size, &kept).unwrap();
            let Some(whole) = metrics.get("cycles_per_tuple") else {
                return;
            };
            let pieces = PIECES.iter().map(|(name, _)| metrics[*name]);
            let sum = pieces.sum::<f64>() + metrics["other_cycles"];
            assert!((sum / whole - 1.0).abs() < 0.01, "{algorithm}: {metrics:?}");
            // A phase with a new name would count as the rest, which is the time outside of phases.
            let share = metrics["other_cycles"] / whole;
            assert!(share < 0.5, "{algorithm}: {metrics:?}");
            let is_sorting = metrics["sort_cycles"] > 0.0;
            assert_eq!(is_sorting, algorithm.starts_with('m'), "{algorithm}");
        }
    }
}
