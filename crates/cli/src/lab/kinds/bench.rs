//! Points that are runs of `indelible bench`: their arguments go through the same command line.
//!
//! So the configuration of a row can be pasted behind `indelible bench`, and an option means here what it means there. The repeats
//! of a point run one after the other on one database, which is loaded once and checked at the end.

use super::super::experiment::Kind;
use super::super::point::Point;
use super::super::rows::Metrics;
use super::super::size::Size;
use crate::args::{BenchCommand, Command, CommandLine};
use crate::bench::{Sampling, Shares, tpcc_segments, ycsb_segments};
use crate::report::{OwnNumbers, RunRow};
use anyhow::{Context, Result, bail};
use clap::Parser;
use pmem::Part;
use std::path::Path;

/// Runs YCSB.
pub(super) fn ycsb(point: &Point, size: &Size, parent: &Path) -> Result<Vec<Metrics>> {
    let BenchCommand::Ycsb(args) = parse("ycsb", point, size, parent)? else {
        bail!("the arguments of a point are those of `bench ycsb`");
    };
    let sampling = match point.kind {
        Kind::YcsbSampled => Sampling::On,
        _ => Sampling::Off,
    };
    let segments = ycsb_segments(&args, size.repeats, sampling)?;
    let with_shares = segments.iter().map(|segment| {
        let mut metrics = metrics(&segment.row);
        if let Some(shares) = segment.shares {
            add_shares(&mut metrics, &shares);
        }
        metrics
    });
    Ok(with_shares.collect())
}

/// Runs TPC-C.
pub(super) fn tpcc(point: &Point, size: &Size, parent: &Path) -> Result<Vec<Metrics>> {
    let BenchCommand::Tpcc(args) = parse("tpcc", point, size, parent)? else {
        bail!("the arguments of a point are those of `bench tpcc`");
    };
    let rows = tpcc_segments(&args, size.repeats)?;
    Ok(rows.iter().map(metrics).collect())
}

fn parse(workload: &str, point: &Point, size: &Size, parent: &Path) -> Result<BenchCommand> {
    let mut words: Vec<String> = ["indelible", "bench", workload, "--path"]
        .map(str::to_owned)
        .to_vec();
    words.push(parent.display().to_string());
    words.extend(point.arguments(size));
    command(&words)
}

/// The measuring command that these words are.
pub(super) fn command(words: &[String]) -> Result<BenchCommand> {
    let line = CommandLine::try_parse_from(words)
        .with_context(|| format!("an experiment asks for `{}`", words.join(" ")))?;
    match line.command {
        Command::Bench(command) => Ok(command),
        _ => bail!("`bench` is a command"),
    }
}

/// The numbers of a row that figures use.
fn metrics(row: &RunRow) -> Metrics {
    let footprint = &row.footprint_bytes;
    let per_txn = &row.per_txn;
    let mut metrics: Metrics = [
        ("txn_per_s", row.txn_per_s),
        // What is left of the throughput when other programs take the processor away.
        ("txn_per_cpu_s", 1e6 / row.cpu_us_per_txn.max(1e-3)),
        ("txns", row.txns as f64),
        ("latency_p50_us", row.latency_us.p50),
        ("latency_p99_us", row.latency_us.p99),
        ("loads_per_txn", per_txn.loads),
        ("stores_per_txn", per_txn.stores),
        ("lines_flushed_per_txn", per_txn.lines_flushed),
        ("fences_per_txn", per_txn.fences),
        ("bytes_written_per_txn", per_txn.bytes_written),
        ("syncs_per_txn", per_txn.syncs),
        ("table_bytes", footprint.table as f64),
        ("index_bytes", footprint.index as f64),
        ("log_bytes", footprint.log as f64),
        ("checkpoint_bytes", footprint.checkpoint as f64),
        ("other_bytes", footprint.other as f64),
        ("footprint_bytes", footprint.total() as f64),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let own = row.standard.as_ref().map(|standard| &standard.own);
    if let Some(OwnNumbers::Tpcc { tpm_c, .. }) = own {
        metrics.insert("tpm_c".into(), *tpm_c);
    }
    metrics
}

/// The paper's four components from the parts that were seen.
fn add_shares(metrics: &mut Metrics, shares: &Shares) {
    let percent =
        |parts: &[Option<Part>]| 100.0 * parts.iter().map(|part| shares.of(*part)).sum::<f64>();
    let components = [
        (
            "storage_percent",
            percent(&[Some(Part::Table), Some(Part::Other)]),
        ),
        (
            "recovery_percent",
            percent(&[Some(Part::Log), Some(Part::Checkpoint)]),
        ),
        ("index_percent", percent(&[Some(Part::Index)])),
        ("other_percent", percent(&[None])),
    ];
    metrics.extend(components.map(|(name, value)| (name.to_owned(), value)));
}
