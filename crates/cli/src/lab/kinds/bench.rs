//! Points that are runs of `indelible bench`: their arguments go through the same command line.
//!
//! So the configuration of a row can be pasted after `indelible bench`, and an option means the
//! same here as there. The measurements of a point go on with one database, which is loaded once
//! and checked at the end; insertions into a tree begin with an empty one each time. Throughput and
//! processor time are those without the time of the emulator's model; `measured_txn_per_s` has it.

use super::{Afresh, Ready};
use crate::args::{BenchCommand, Command, CommandLine, YcsbArgs};
use crate::bench::{Benchmark, LoadedStandard, LoadedYcsb, btree_row};
use crate::report::{AreaNumbers, ModelledNumbers, OwnNumbers, RunRow};
use anyhow::{Context, Result, bail};
use clap::Parser;
use indelible::Activity;
use lab::experiment::Kind;
use lab::point::Point;
use lab::rows::Metrics;
use lab::size::Size;
use measure::{Sampling, Seen, Shares};
use pmem::Part;
use std::path::Path;

/// Bytes of a line of the device.
const LINE_BYTES: f64 = 64.0;

/// YCSB.
struct OfYcsb {
    args: YcsbArgs,
    loaded: LoadedYcsb,
    sampling: Sampling,
}

impl Ready for OfYcsb {
    fn measure(&mut self) -> Result<Metrics> {
        let segment = self.loaded.measure(&self.args, self.sampling)?;
        let mut metrics = metrics(&segment.row);
        if let Some(shares) = segment.shares {
            add_shares(&mut metrics, &shares);
        }
        Ok(metrics)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.loaded.check(&self.args)
    }
}

/// Loads YCSB.
pub(super) fn ycsb(point: &Point, size: &Size, parent: &Path) -> Result<Box<dyn Ready>> {
    let BenchCommand::Ycsb(args) = parse("ycsb", point, size, parent)? else {
        bail!("the arguments of a point are those of `bench ycsb`");
    };
    Ok(Box::new(OfYcsb {
        loaded: LoadedYcsb::first(&args, size.measurements())?,
        args: *args,
        sampling: sampling(point.kind),
    }))
}

/// One of the standard benchmarks.
struct OfStandard<B: Benchmark> {
    args: B,
    loaded: LoadedStandard<B>,
    kind: Kind,
}

impl<B: Benchmark> OfStandard<B> {
    fn load(args: B, point: &Point, size: &Size) -> Result<Box<Self>> {
        Ok(Box::new(Self {
            loaded: LoadedStandard::first(&args, size.measurements())?,
            args,
            kind: point.kind,
        }))
    }
}

impl<B: Benchmark> Ready for OfStandard<B> {
    fn measure(&mut self) -> Result<Metrics> {
        let sampling = sampling(self.kind);
        let (row, seen) = self.loaded.measure(&self.args, sampling)?;
        let mut metrics = metrics(&row);
        if self.kind != Kind::Tpcc {
            add_pages(&mut metrics, &row);
        }
        if let Some(seen) = seen {
            add_seen(&mut metrics, &row, &seen);
        }
        Ok(metrics)
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.loaded.check(&self.args)
    }
}

/// Loads TPC-C.
pub(super) fn tpcc(point: &Point, size: &Size, parent: &Path) -> Result<Box<dyn Ready>> {
    let BenchCommand::Tpcc(args) = parse("tpcc", point, size, parent)? else {
        bail!("the arguments of a point are those of `bench tpcc`");
    };
    Ok(OfStandard::load(*args, point, size)?)
}

/// Loads one of the workloads of a page method.
pub(super) fn paged(point: &Point, size: &Size, parent: &Path) -> Result<Box<dyn Ready>> {
    Ok(match parse(point.get("workload"), point, size, parent)? {
        BenchCommand::Tpcc(args) => OfStandard::load(*args, point, size)?,
        BenchCommand::Tpcb(args) => OfStandard::load(*args, point, size)?,
        BenchCommand::Tatp(args) => OfStandard::load(*args, point, size)?,
        BenchCommand::Sysbench(args) => OfStandard::load(*args, point, size)?,
        _ => bail!("a point of the page engine has the workload tpcc, tpcb, tatp or sysbench"),
    })
}

/// Makes insertions into a tree ready.
pub(super) fn btree(point: &Point, size: &Size, parent: &Path) -> Result<Box<dyn Ready>> {
    let BenchCommand::BtreeInsert(args) = parse("btree-insert", point, size, parent)? else {
        bail!("the arguments of a point are those of `bench btree-insert`");
    };
    let sampling = sampling(point.kind);
    Ok(Box::new(Afresh(move || {
        let (row, seen) = btree_row(&args, sampling)?;
        let mut metrics = metrics(&row);
        add_rows(&mut metrics, &row, args.txn_size as f64);
        if let Some(seen) = seen {
            add_steps(&mut metrics, &row, &seen);
        }
        Ok(metrics)
    })))
}

fn sampling(kind: Kind) -> Sampling {
    match kind {
        Kind::YcsbSampled | Kind::PagedProbed | Kind::BtreeProbed => Sampling::On,
        _ => Sampling::Off,
    }
}

/// The same numbers for each row that a transaction has inserted.
fn add_rows(metrics: &mut Metrics, row: &RunRow, together: f64) {
    let per_txn = &row.per_txn;
    let per_row = |value: f64| value / together;
    let in_memory = per_row(per_txn.stores * LINE_BYTES);
    let numbers = [
        ("rows_per_s", modelled(row).txn_per_s * together),
        // A streamed line reaches the memory as a flushed one does.
        (
            "lines_flushed_per_row",
            per_row(per_txn.lines_flushed + per_txn.lines_streamed),
        ),
        ("fences_per_row", per_row(per_txn.fences)),
        ("bytes_written_per_row", per_row(per_txn.bytes_written)),
        ("file_bytes_per_row", per_row(per_txn.file_bytes)),
        ("memory_bytes_per_row", in_memory),
        (
            "log_bytes_per_row",
            per_row(per_txn.log_stores * LINE_BYTES),
        ),
        ("syncs_per_row", per_row(per_txn.syncs)),
    ];
    metrics.extend(numbers.map(|(name, value)| (name.to_owned(), value)));
}

/// Adds the time of a transaction in each step, in microseconds.
fn add_steps(metrics: &mut Metrics, row: &RunRow, seen: &Seen) {
    let us = |activity| seen.share(activity) * row.latency_us.mean;
    let numbers = [
        ("search_us", us(Activity::Search)),
        ("change_us", us(Activity::Database)),
        ("allocation_us", us(Activity::Allocation)),
        ("commit_us", us(Activity::Commit)),
        ("flush_us", us(Activity::Flush)),
    ];
    metrics.extend(numbers.map(|(name, value)| (name.to_owned(), value)));
    if seen.inserts.count() > 0 {
        metrics.insert("insert_mean_us".into(), seen.inserts.mean_ns() / 1e3);
    }
}

/// Whether the arguments of a point make sense together.
#[cfg(test)]
pub(super) fn check(point: &Point, size: &Size) -> Result<()> {
    let workload = match point.kind {
        Kind::Ycsb => "ycsb",
        Kind::Tpcc => "tpcc",
        Kind::Btree => "btree-insert",
        _ => point.get("workload"),
    };
    let command = parse(workload, point, size, Path::new("."))?;
    crate::bench::check(&command)
}

fn parse(workload: &str, point: &Point, size: &Size, parent: &Path) -> Result<BenchCommand> {
    let mut words: Vec<String> = ["indelible", "bench", workload, "--path"]
        .map(str::to_owned)
        .to_vec();
    words.push(parent.display().to_string());
    words.extend(point.arguments(size));
    command(&words)
}

/// The measuring command of these words.
pub(super) fn command(words: &[String]) -> Result<BenchCommand> {
    let line = CommandLine::try_parse_from(words)
        .with_context(|| format!("an experiment asks for `{}`", words.join(" ")))?;
    match line.command {
        Command::Bench(command) => Ok(command),
        _ => bail!("`bench` is a command"),
    }
}

/// The row without the model's time, which a native device does not have.
fn modelled(row: &RunRow) -> ModelledNumbers {
    row.modelled.unwrap_or(ModelledNumbers {
        txn_per_s: row.txn_per_s,
        cpu_us_per_txn: row.cpu_us_per_txn,
        ..ModelledNumbers::default()
    })
}

/// The numbers of a row that figures use.
fn metrics(row: &RunRow) -> Metrics {
    let footprint = &row.footprint_bytes;
    let per_txn = &row.per_txn;
    let modelled = modelled(row);
    let mut metrics: Metrics = [
        ("txn_per_s", modelled.txn_per_s),
        ("measured_txn_per_s", row.txn_per_s),
        // Throughput by processor time: other programs that take the processor away hardly change
        // it.
        ("txn_per_cpu_s", 1e6 / modelled.cpu_us_per_txn.max(1e-3)),
        ("model_us_per_txn", modelled.model_us_per_txn),
        ("model_us_per_txn_error", modelled.model_us_per_txn_error),
        ("txns", row.txns as f64),
        ("latency_mean_us", row.latency_us.mean),
        ("latency_p50_us", row.latency_us.p50),
        ("latency_p95_us", row.latency_us.p95),
        ("latency_p99_us", row.latency_us.p99),
        ("latency_p999_us", row.latency_us.p999),
        (
            "p999_over_p50",
            row.latency_us.p999 / row.latency_us.p50.max(1e-3),
        ),
        ("loads_per_txn", per_txn.loads),
        ("stores_per_txn", per_txn.stores),
        ("lines_flushed_per_txn", per_txn.lines_flushed),
        ("fences_per_txn", per_txn.fences),
        ("bytes_written_per_txn", per_txn.bytes_written),
        ("syncs_per_txn", per_txn.syncs),
        ("records_ahead_per_txn", per_txn.records_ahead),
        ("records_by_sessions_per_txn", per_txn.records_by_sessions),
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

/// Adds the metrics that only page methods have.
fn add_pages(metrics: &mut Metrics, row: &RunRow) {
    let Some(pages) = &row.pages else {
        return;
    };
    let log = row.per_txn.log_stores * LINE_BYTES;
    let stored = (row.per_txn.stores - row.per_txn.log_stores) * LINE_BYTES;
    metrics.extend([
        ("pool_bytes".to_owned(), pages.pool_bytes as f64),
        ("conflicts".to_owned(), pages.conflicts as f64),
        ("log_bytes_per_txn".to_owned(), log),
        ("page_bytes_per_txn".to_owned(), stored),
    ]);
    let written = pages.written_per_txn;
    metrics.extend(
        [
            ("file_bytes_per_txn", written.file_total),
            ("file_page_bytes_per_txn", written.file_pages),
            ("file_copy_bytes_per_txn", written.file_copies),
            ("file_log_bytes_per_txn", written.file_log),
            ("memory_copy_bytes_per_txn", written.memory_copies),
            ("memory_log_bytes_per_txn", written.memory_log),
            ("single_pages_per_txn", written.single_pages),
            ("erases_per_million_txn", written.erases_per_million),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    if let Some(area) = pages.area {
        add_area(metrics, &area);
    }
    if log > 0.0 {
        let share = log / (log + stored);
        metrics.insert("log_share_percent".into(), 100.0 * share);
    }
    if stored > 0.0 {
        metrics.insert("log_over_pages".into(), log / stored);
    }
}

/// Adds the metrics of the area of page copies.
fn add_area(metrics: &mut Metrics, area: &AreaNumbers) {
    let percent = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
    let numbers = [
        (
            "reclaimed_percent",
            percent(area.holes_reclaimed, area.pages_put),
        ),
        (
            "not_written_percent",
            100.0 - percent(area.home_writes, area.pages_put),
        ),
        ("area_used_percent", percent(area.slots_used, area.slots)),
        ("area_home_syncs", area.home_syncs as f64),
        ("area_slowed", area.slowed as f64),
        ("page_writes_by_sessions", area.flights_by_writers as f64),
    ];
    metrics.extend(numbers.map(|(name, value)| (name.to_owned(), value)));
}

/// Adds how the threads spent their time.
fn add_seen(metrics: &mut Metrics, row: &RunRow, seen: &Seen) {
    let percent = |activity| 100.0 * seen.share(activity);
    let us = |ns: u64| ns as f64 / 1e3;
    let inserts = &seen.inserts;
    let (log, wait) = (percent(Activity::Log), percent(Activity::LogWait));
    let numbers = [
        ("log_percent", log),
        ("log_wait_percent", wait),
        ("log_and_wait_percent", log + wait),
        ("locks_percent", percent(Activity::Locks)),
        ("database_percent", percent(Activity::Database)),
        ("rest_percent", percent(Activity::Other)),
        ("insert_mean_us", inserts.mean_ns() / 1e3),
        ("insert_p50_us", us(inserts.quantile_ns(0.5))),
        ("insert_p99_us", us(inserts.quantile_ns(0.99))),
        ("insert_max_us", us(inserts.longest_ns())),
        ("inserts_per_s", inserts.count() as f64 / row.seconds),
        ("wait_us_per_txn", us(seen.wait_ns) / row.txns.max(1) as f64),
    ];
    metrics.extend(numbers.map(|(name, value)| (name.to_owned(), value)));
}

/// Adds the paper's four components, from the sampled parts.
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
