//! `bench tpcb --connections`: interactive transactions over connections, typed workers beside them
//! in the same run, and the price of an idle connection or a long reader for the others.
//!
//! A run is a number of rounds, each the same forwards and backwards: workers, connections, the
//! connections beside an onlooker, connections, workers. So a machine that gets slower or faster
//! meanwhile, or a database that grows, does not favour one of them. A ratio is taken for each
//! round; its median counts, and the least and the greatest tell how sure it is. A long reader has
//! one round, because it is to stay for the whole time.

use super::runs::{self, print_row};
use super::standard::{Benchmark, check_content, load};
use crate::args::{DeviceKind, TpcbArgs};
use crate::machine::{self, COMMIT, Machine};
use crate::output::{Cell, Format, Listing, bytes, duration, whole};
use crate::progress;
use crate::report::LatencyUs;
use anyhow::{Context, Result};
use disk::Delays;
use hdrhistogram::Histogram;
use indelible::{Database, Durability, Method, Statistics};
use measure::connections::{Onlooker, Span, Stay, measure_tpcb};
use measure::standard::{Partitions, Span as WorkerSpan, Standard};
use measure::{Aborts, Acknowledge, Limit, Measured, Sampling};
use pmem::device::emulated::Emulator;
use serde::Serialize;
use std::path::Path;
use std::time::Duration;
use workload::Workload;
use workload::tpcb::{Tables, Tpcb, TpcbOptions};

/// Rounds of a run.
const ROUNDS: u32 = 5;
/// Seconds of a run, unless chosen.
const SECONDS: f64 = 10.0;
/// Inputs of a list.
const LIST: u64 = 1_000_000;

/// A run.
#[derive(Debug, Serialize)]
struct ConnectionsRow {
    workload: &'static str,
    method: &'static str,
    branches: u32,
    accounts: u32,
    partitions: u32,
    connections: u32,
    isolation: &'static str,
    rounds: u32,
    /// Typed workers.
    workers: PhaseNumbers,
    /// The connections alone.
    interactive: PhaseNumbers,
    /// The throughput of the connections, divided by that of the workers.
    of_workers: Ratio,
    /// The connections beside an onlooker.
    #[serde(skip_serializing_if = "Option::is_none")]
    beside: Option<BesideNumbers>,
    domain: String,
    survives: String,
    device: &'static str,
    profile: String,
    commit: &'static str,
    seed: u64,
    machine: Machine,
}

/// Threads that did one thing.
#[derive(Debug, Serialize)]
struct PhaseNumbers {
    threads: u32,
    txns: u64,
    seconds: f64,
    txn_per_s: f64,
    latency_us: LatencyUs,
    /// The latency that one of a thousand transactions exceeds, divided by the median.
    p999_by_p50: f64,
    cpu_us_per_txn: f64,
    fences_per_txn: f64,
    lines_flushed_per_txn: f64,
    bytes_written_per_txn: f64,
    syncs_per_txn: f64,
    /// Attempts that were undone because of others, and run again.
    retries: u64,
    deadlocks: u64,
    timeouts: u64,
    serialization_failures: u64,
}

/// The connections beside an onlooker.
#[derive(Debug, Serialize)]
struct BesideNumbers {
    /// Connections that have written and stay idle.
    idle: u32,
    /// Looks of the long reader at its snapshot; 0 if there is none.
    looks: u64,
    /// Most before images that were kept, and their bytes.
    images_max: u64,
    image_bytes_max: u64,
    #[serde(flatten)]
    phase: PhaseNumbers,
    /// The throughput, divided by that of the connections alone.
    of_alone: Ratio,
}

/// A ratio of two throughputs, over the rounds.
#[derive(Clone, Copy, Debug, Serialize)]
struct Ratio {
    median: f64,
    least: f64,
    greatest: f64,
}

impl Ratio {
    /// From throughputs by round.
    fn of(dividends: &[f64], divisors: &[f64]) -> Self {
        let pairs = dividends.iter().zip(divisors);
        let mut ratios: Vec<f64> = pairs.map(|(one, other)| one / other).collect();
        ratios.sort_by(f64::total_cmp);
        Self {
            median: ratios[ratios.len() / 2],
            least: ratios[0],
            greatest: ratios[ratios.len() - 1],
        }
    }
}

/// Runs all methods, as often as the options ask.
pub(super) fn run(args: &TpcbArgs, connections: u32, format: Format) -> Result<()> {
    let run = &args.run;
    runs::check_effect(run, args.methods())?;
    args.check()?;
    let mut rows = Vec::new();
    for _ in 0..run.repeat {
        for method in args.methods() {
            let plan = Plan::new(args, connections, *method)?;
            let row = plan.run().with_context(|| format!("method {method}"))?;
            print_row(&row, format)?;
            rows.push(row);
        }
    }
    match format {
        Format::Json => Ok(()),
        Format::Text => listing(&rows).print(format),
        Format::Csv => runs::flat_listing(&rows)?.print(format),
    }
}

/// The run of one method.
struct Plan<'a> {
    /// The options, with the threads that the method may have in a partition.
    args: TpcbArgs,
    given: &'a TpcbArgs,
    method: Method,
    connections: u32,
    workers: u32,
    rounds: u32,
    workload: Tpcb,
}

impl<'a> Plan<'a> {
    fn new(given: &'a TpcbArgs, connections: u32, method: Method) -> Result<Self> {
        let mut args = given.clone();
        let partitions = args.run.partitions;
        if method.is_paged() && partitions == 1 {
            // As many sessions as connections.
            args.run.threads = Some(connections);
        }
        runs::check(&args.run, &[method], false)?;
        let workers = args.run.threads();
        let workload = Tpcb::new(TpcbOptions {
            branches: args.branches(),
            partitions,
            threads: workers.max(connections).div_ceil(partitions),
            accounts: args.accounts,
            single_partition: args.single_partition,
            transactions: LIST,
            seed: args.run.seed,
        })?;
        Ok(Self {
            rounds: if args.clients.reader { 1 } else { ROUNDS },
            args,
            given,
            method,
            connections,
            workers,
            workload,
        })
    }

    /// The moment at which both kinds of threads acknowledge. Each commit of a connection is
    /// durable by itself, so that of a worker is too, unless the options ask for groups.
    fn acknowledge(&self) -> Acknowledge {
        match runs::acknowledge(&self.args.run) {
            Acknowledge::Durable(_) if self.args.run.group.is_none() => Acknowledge::Durable(1),
            asked => asked,
        }
    }

    fn onlooker(&self) -> Onlooker {
        let clients = &self.given.clients;
        match clients.idle {
            Some(count) => Onlooker::Idle(count),
            None if clients.reader => Onlooker::Reader,
            None => Onlooker::None,
        }
    }

    /// Loads, measures, checks, removes.
    fn run(&self) -> Result<ConnectionsRow> {
        let run = &self.args.run;
        let scratch = runs::scratch(run)?;
        let (database, emulators, delays) = runs::open(run, self.method, &scratch)?;
        delays.set(false);
        let tables = load(&self.workload, &database)?;
        let mut bench = Bench {
            plan: self,
            database: &database,
            tables: &tables,
            emulators: &emulators,
            delays: &delays,
            positions: vec![0; self.workload.lists() as usize],
        };
        let note = progress::spinner(format!("running {} over connections", self.method));
        let phases = bench.rounds()?;
        note.finish_and_clear();
        if !run.skip_check {
            check_content(&self.workload, &database, &bench.positions).context("after the run")?;
        }
        Ok(self.row(&phases, &database, scratch.path()))
    }

    fn row(&self, phases: &Phases, database: &Database, directory: &Path) -> ConnectionsRow {
        let Phases {
            workers,
            alone,
            beside,
            stay,
        } = phases;
        let run = &self.args.run;
        let beside = (self.onlooker() != Onlooker::None).then(|| BesideNumbers {
            idle: self.given.clients.idle.unwrap_or_default(),
            looks: stay.looks,
            images_max: stay.images_max,
            image_bytes_max: stay.image_bytes_max,
            phase: beside.numbers(self.connections),
            of_alone: Ratio::of(&beside.rates, &alone.rates),
        });
        let of_workers = Ratio::of(&alone.rates, &workers.rates);
        ConnectionsRow {
            workload: Tpcb::NAME,
            method: self.method.name(),
            branches: self.args.branches(),
            accounts: self.args.accounts,
            partitions: run.partitions,
            connections: self.connections,
            isolation: self.args.clients.connection_isolation.name(),
            rounds: self.rounds,
            workers: workers.numbers(self.workers),
            interactive: alone.numbers(self.connections),
            of_workers,
            beside,
            domain: database.domain().name().into(),
            survives: database.survives().into(),
            device: match run.device {
                DeviceKind::Native => "native",
                DeviceKind::Emulated => "emulated",
            },
            profile: run.profile.clone().unwrap_or_else(|| "none".into()),
            commit: COMMIT,
            seed: run.seed,
            machine: machine::here(directory),
        }
    }

    /// The time of one measurement: each phase has all seconds in all rounds.
    fn time(&self, measurements: u32) -> Limit {
        let seconds = self.args.run.seconds.unwrap_or(SECONDS);
        let each = seconds / f64::from(self.rounds * measurements);
        Limit::Time(Duration::from_secs_f64(each))
    }
}

/// A database that is measured.
struct Bench<'b> {
    plan: &'b Plan<'b>,
    database: &'b Database,
    tables: &'b Tables,
    emulators: &'b [Emulator],
    delays: &'b Delays,
    /// Of all lists; workers and connections go on in the same ones.
    positions: Vec<u64>,
}

impl Bench<'_> {
    fn rounds(&mut self) -> Result<Phases> {
        let mut phases = Phases::default();
        let onlooker = self.plan.onlooker();
        for _ in 0..self.plan.rounds {
            self.workers(&mut phases.workers)?;
            self.connections(&mut phases.alone, Onlooker::None)?;
            if onlooker != Onlooker::None {
                phases.stay = self.connections(&mut phases.beside, onlooker)?;
                self.connections(&mut phases.alone, Onlooker::None)?;
            }
            self.workers(&mut phases.workers)?;
            for phase in [&mut phases.workers, &mut phases.alone, &mut phases.beside] {
                phase.end_round();
            }
        }
        Ok(phases)
    }

    /// Measures the typed workers, twice a round.
    fn workers(&mut self, phase: &mut Phase) -> Result<()> {
        let plan = self.plan;
        let is_alone = plan.args.single_partition || plan.args.run.partitions == 1;
        let span = WorkerSpan {
            positions: &self.positions[..plan.workers as usize],
            limit: plan.time(2),
            acknowledge: plan.acknowledge(),
            partitions: if is_alone {
                Partitions::Owned
            } else {
                Partitions::Taken
            },
            sampling: Sampling::Off,
        };
        let before = runs::read(self.database, self.emulators)?.statistics;
        self.delays.set(true);
        let (measured, _) = plan.workload.measure(self.database, self.tables, &span)?;
        self.finish(phase, &measured, &before)
    }

    /// Measures the connections: once a round beside an onlooker, and then twice alone.
    fn connections(&mut self, phase: &mut Phase, onlooker: Onlooker) -> Result<Stay> {
        let plan = self.plan;
        let is_twice = onlooker == Onlooker::None && plan.onlooker() != Onlooker::None;
        let span = Span {
            positions: &self.positions[..plan.connections as usize],
            limit: plan.time(if is_twice { 2 } else { 1 }),
            isolation: plan.args.clients.connection_isolation.into(),
            durability: match plan.acknowledge() {
                Acknowledge::Durable(_) => Durability::Immediate,
                Acknowledge::Early => Durability::None,
            },
        };
        let before = runs::read(self.database, self.emulators)?.statistics;
        self.delays.set(true);
        let (workload, tables) = (&plan.workload, self.tables);
        let (measured, stay) = measure_tpcb(workload, self.database, tables, &span, onlooker)?;
        self.finish(phase, &measured, &before)?;
        Ok(stay)
    }

    fn finish(
        &mut self,
        phase: &mut Phase,
        measured: &Measured,
        before: &Statistics,
    ) -> Result<()> {
        self.delays.set(false);
        let after = runs::read(self.database, self.emulators)?.statistics;
        self.positions[..measured.positions.len()].copy_from_slice(&measured.positions);
        phase.add(measured, before, &after);
        Ok(())
    }
}

/// The measurements of a run.
#[derive(Default)]
struct Phases {
    workers: Phase,
    /// Connections alone, and beside an onlooker.
    alone: Phase,
    beside: Phase,
    /// Findings of a reader.
    stay: Stay,
}

/// Sums of the measurements of one kind.
#[derive(Default)]
struct Phase {
    latencies_ns: Option<Histogram<u64>>,
    txns: u64,
    seconds: f64,
    cpu_seconds: f64,
    fences: u64,
    lines_flushed: u64,
    bytes_written: u64,
    syncs: u64,
    retries: u64,
    aborts: Aborts,
    /// Throughputs of the rounds that have ended.
    rates: Vec<f64>,
    /// Sums at the end of the last round.
    ended: (u64, f64),
}

impl Phase {
    fn add(&mut self, measured: &Measured, before: &Statistics, after: &Statistics) {
        let latencies_ns = measured.latencies_ns();
        match &mut self.latencies_ns {
            Some(sum) => *sum += latencies_ns,
            none => *none = Some(latencies_ns),
        }
        self.txns += measured.txns;
        self.seconds += measured.seconds;
        self.cpu_seconds += measured.cpu_seconds;
        let (memory, memory_before) = (after.memory.total(), before.memory.total());
        self.fences += after.memory.fences - before.memory.fences;
        self.lines_flushed += memory.lines_flushed - memory_before.lines_flushed;
        self.bytes_written += memory.bytes_stored - memory_before.bytes_stored;
        self.bytes_written += after.disk.bytes_written - before.disk.bytes_written;
        self.syncs += after.disk.syncs - before.disk.syncs;
        self.retries += measured.tally.conflicts;
        self.aborts.add(measured.tally.aborts);
    }

    fn end_round(&mut self) {
        let (txns, seconds) = self.ended;
        self.ended = (self.txns, self.seconds);
        let rate = (self.txns - txns) as f64 / (self.seconds - seconds);
        self.rates.push(rate);
    }

    fn numbers(&self, threads: u32) -> PhaseNumbers {
        let each = |count: u64| count as f64 / self.txns.max(1) as f64;
        let latencies_ns = self.latencies_ns.as_ref();
        let latency_us = latencies_ns.map(LatencyUs::of).unwrap_or_default();
        PhaseNumbers {
            threads,
            txns: self.txns,
            seconds: self.seconds,
            txn_per_s: self.txns as f64 / self.seconds,
            latency_us,
            p999_by_p50: latency_us.p999 / latency_us.p50,
            cpu_us_per_txn: self.cpu_seconds * 1e6 / self.txns.max(1) as f64,
            fences_per_txn: each(self.fences),
            lines_flushed_per_txn: each(self.lines_flushed),
            bytes_written_per_txn: each(self.bytes_written),
            syncs_per_txn: each(self.syncs),
            retries: self.retries,
            deadlocks: self.aborts.deadlocks,
            timeouts: self.aborts.timeouts,
            serialization_failures: self.aborts.serialization,
        }
    }
}

/// The rows as a table for people: a line for each kind of thread.
fn listing(rows: &[ConnectionsRow]) -> Listing {
    let mut listing = Listing::new([
        "method",
        "threads",
        "txn/s",
        "ratio",
        "p50",
        "p99",
        "p99.9",
        "max",
        "cpu/txn",
        "retries",
        "fences/txn",
        "flushes/txn",
        "bytes/txn",
        "syncs/txn",
        "images",
    ]);
    for row in rows {
        let interactive = format!("{} connections", row.connections);
        let mut push = |name: String, phase: &PhaseNumbers, ratio: Option<Ratio>, images: Cell| {
            let time = |us| Cell::Number(us, duration(us));
            let latency = phase.latency_us;
            listing.push(vec![
                row.method.into(),
                name.into(),
                Cell::Number(phase.txn_per_s, whole(phase.txn_per_s)),
                ratio.map_or(Cell::Null, |ratio| Cell::number(ratio.median, 3)),
                time(latency.p50),
                time(latency.p99),
                time(latency.p999),
                time(latency.max),
                time(phase.cpu_us_per_txn),
                Cell::Whole(phase.retries),
                Cell::number(phase.fences_per_txn, 2),
                Cell::number(phase.lines_flushed_per_txn, 2),
                Cell::number(phase.bytes_written_per_txn, 0),
                Cell::number(phase.syncs_per_txn, 3),
                images,
            ]);
        };
        let workers = format!("{} workers", row.workers.threads);
        push(workers, &row.workers, None, Cell::Null);
        let ratio = Some(row.of_workers);
        push(interactive.clone(), &row.interactive, ratio, Cell::Null);
        if let Some(beside) = &row.beside {
            let onlooker = match beside.idle {
                0 => "a reader".to_owned(),
                idle => format!("{idle} idle"),
            };
            let name = format!("{interactive}, {onlooker}");
            let images = Cell::Number(beside.image_bytes_max as f64, bytes(beside.image_bytes_max));
            push(name, &beside.phase, Some(beside.of_alone), images);
        }
    }
    listing
}
