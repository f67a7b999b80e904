//! The HTML page of `quickstart`.
//!
//! Plots and tables are drawn from the result rows alone, so the page says nothing that the rows do
//! not. It shows the methods that a newcomer meets, [`met_first`]; a line unfolds all of them.

use super::{Survival, met_first};
use crate::output::{bytes, duration, thousands, whole};
use crate::report::{
    BarChart, BarGroup, Details, LineChart, LineSeries, NumberTable, Page, RunRow, Scale, Section,
    Tick, short_number,
};
use indelible::Method;
use pmem::device::DeviceReport;

/// The mix whose latencies are drawn.
const LATENCY_MIX: &str = "balanced";

/// The whole page.
pub(super) fn page(device: &DeviceReport, survival: &Survival, rows: &[RunRow]) -> Page {
    Page {
        title: "Indelible quickstart".into(),
        lead: "A database was killed in full flight and lost nothing; and what each storage method costs on this machine."
            .into(),
        sections: vec![medium(device), kill(survival), costs(survival, rows)],
        facts: facts(survival, rows),
    }
}

fn medium(device: &DeviceReport) -> Section {
    let mut paragraphs = vec![
        format!(
            "The databases lay on {} ({}). In its persistence domain, {}, committed data survives {}.",
            device.medium.name(),
            device.filesystem,
            device.domain,
            device.survives
        ),
        format!(
            "A store, a cache-line flush and a fence take {:.0} ns here, sixteen lines and a fence {:.0} ns, \
             a read that misses all caches {:.0} ns.",
            device.line_costs.line_ns, device.line_costs.sixteen_lines_ns, device.read_miss_ns
        ),
    ];
    if let Some(hint) = &device.huge_page_hint {
        paragraphs.push(format!("Worth knowing: {hint}."));
    }
    Section {
        heading: "The medium".into(),
        paragraphs,
        ..Section::default()
    }
}

fn kill(survival: &Survival) -> Section {
    let paragraphs = vec![
        format!(
            "{} airports were imported into a database of method {}. A child process then booked flights between them: \
             each transaction inserts a booking and raises two counters. It was killed with SIGKILL after {} acknowledged bookings.",
            thousands(survival.imported),
            survival.method,
            thousands(survival.acknowledged)
        ),
        format!(
            "Reopening took {:.1} ms. All {} acknowledged bookings are there whole; and so are {} that were in flight; none is there half: the counters of all airports add up to exactly the {} bookings found.",
            survival.recovery_ms,
            thousands(survival.acknowledged),
            survival.unacknowledged,
            thousands(survival.bookings)
        ),
    ];
    Section {
        heading: "Killed in full flight".into(),
        paragraphs,
        ..Section::default()
    }
}

/// Columns of the table of costs.
const COSTS: [&str; 11] = [
    "method",
    "mix",
    "txn/s",
    "p50",
    "p99",
    "flushes/txn",
    "fences/txn",
    "bytes/txn",
    "syncs/txn",
    "footprint",
    "recovery",
];

fn costs(survival: &Survival, rows: &[RunRow]) -> Section {
    let met: Vec<RunRow> = rows
        .iter()
        .filter(|row| met_first(survival.method, &row.method))
        .cloned()
        .collect();
    let others = distinct(rows, |row| &row.method).len() - distinct(&met, |row| &row.method).len();
    let mut paragraphs = vec![format!(
        "{} is what a new database gets on this medium, {} what it gets on an ordinary disk. {} keeps nothing and is the ceiling. \
         The other {others} methods, for which there may be a reason, are folded away below.",
        survival.method,
        Method::FullPageWrites,
        Method::Volatile
    )];
    paragraphs.extend(rows.first().map(conditions));
    Section {
        heading: "What a method costs".into(),
        paragraphs,
        plots: plots(&met),
        table: Some(table(&met)),
        details: Some(Details {
            summary: format!("All {} methods", distinct(rows, |row| &row.method).len()),
            plots: plots(rows),
            table: table(rows),
        }),
        ..Section::default()
    }
}

/// The conditions of the runs, in a sentence.
fn conditions(row: &RunRow) -> String {
    format!(
        "YCSB with {} rows of a kilobyte in {} partitions, a thread each; an update rewrites one column of 100 bytes. \
         Runs issue the instructions of the domain {}, so that durable steps cost what they cost on persistent memory; \
         latency runs to the durable acknowledgement.",
        thousands(row.rows),
        row.partitions,
        row.primitives
    )
}

fn table(rows: &[RunRow]) -> NumberTable {
    let rows = rows.iter().map(|row| {
        vec![
            row.method.clone(),
            row.mix.clone(),
            whole(row.txn_per_s),
            duration(row.latency_us.p50),
            duration(row.latency_us.p99),
            format!("{:.1}", row.per_txn.lines_flushed),
            format!("{:.1}", row.per_txn.fences),
            format!("{:.0}", row.per_txn.bytes_written),
            format!("{:.3}", row.per_txn.syncs),
            bytes(row.footprint_bytes.total()),
            row.recovery_ms
                .map_or_else(|| "keeps nothing".into(), |ms| duration(ms * 1e3)),
        ]
    });
    (COSTS.map(str::to_owned).to_vec(), rows.collect())
}

/// Captions and drawings.
fn plots(rows: &[RunRow]) -> Vec<(String, String)> {
    vec![
        by_mix(
            rows,
            "Throughput, transactions a second",
            Scale::Linear,
            |row| (row.txn_per_s, short_number(row.txn_per_s)),
        ),
        by_mix(
            rows,
            "99th percentile of latency, logarithmic",
            Scale::Logarithmic,
            |row| (row.latency_us.p99, duration(row.latency_us.p99)),
        ),
        latencies(rows),
        by_mix(rows, "Fences a transaction", Scale::Linear, |row| {
            (row.per_txn.fences, format!("{:.2}", row.per_txn.fences))
        }),
        by_mix(rows, "Bytes written a transaction", Scale::Linear, |row| {
            (
                row.per_txn.bytes_written,
                short_number(row.per_txn.bytes_written),
            )
        }),
        recovery(rows),
    ]
}

/// Names in the order in which they first appear.
fn distinct<'r>(rows: &'r [RunRow], name: impl Fn(&'r RunRow) -> &'r str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in rows {
        if names.iter().all(|known| known != name(row)) {
            names.push(name(row).to_owned());
        }
    }
    names
}

/// A group of bars a mix, a bar a method; `bar` gives its value and the text next to it.
fn by_mix(
    rows: &[RunRow],
    caption: &str,
    scale: Scale,
    bar: impl Fn(&RunRow) -> (f64, String),
) -> (String, String) {
    let methods = distinct(rows, |row| &row.method);
    let groups = distinct(rows, |row| &row.mix).into_iter().map(|mix| {
        let row = |method: &String| {
            rows.iter()
                .find(|row| row.mix == mix && &row.method == method)
                .map(&bar)
        };
        BarGroup {
            bars: methods.iter().map(row).collect(),
            ranges: Vec::new(),
            name: mix,
        }
    });
    let groups = groups.collect();
    let chart = BarChart {
        title: caption.into(),
        groups,
        series: methods,
        scale,
    };
    (caption.into(), chart.svg())
}

/// Latency over the share of transactions that are as fast.
fn latencies(rows: &[RunRow]) -> (String, String) {
    let caption = format!("Latency to the durable acknowledgement, {LATENCY_MIX}");
    let series = rows.iter().filter(|row| row.mix == LATENCY_MIX).map(|row| {
        let latency = row.latency_us;
        // The axis counts how many transactions it takes to meet one that is slower.
        let points = vec![
            (2.0, latency.p50),
            (20.0, latency.p95),
            (100.0, latency.p99),
            (1000.0, latency.p999),
        ];
        LineSeries {
            name: row.method.clone(),
            points,
            ranges: Vec::new(),
        }
    });
    let ticks = [
        (2.0, "50 %"),
        (20.0, "95 %"),
        (100.0, "99 %"),
        (1000.0, "99.9 %"),
    ];
    let chart = LineChart {
        title: caption.clone(),
        x_label: "share of transactions that are as fast or faster".into(),
        y_label: "microseconds".into(),
        x_scale: Scale::Logarithmic,
        y_scale: Scale::Logarithmic,
        x_ticks: ticks
            .map(|(at, text)| Tick {
                at,
                text: text.into(),
            })
            .to_vec(),
        series: series.collect(),
    };
    let svg = chart.svg();
    (caption, svg)
}

fn recovery(rows: &[RunRow]) -> (String, String) {
    let caption = "Reopening after SIGKILL under load, logarithmic";
    let methods = distinct(rows, |row| &row.method);
    let bar = |method: &String| {
        let ms = rows.iter().find(|row| &row.method == method)?.recovery_ms?;
        Some((ms, duration(ms * 1e3)))
    };
    let group = BarGroup {
        name: String::new(),
        bars: methods.iter().map(bar).collect(),
        ranges: Vec::new(),
    };
    let scale = Scale::Logarithmic;
    let chart = BarChart {
        title: caption.into(),
        groups: vec![group],
        series: methods,
        scale,
    };
    (caption.into(), chart.svg())
}

fn facts(survival: &Survival, rows: &[RunRow]) -> Vec<(String, String)> {
    let in_use = rows.iter().find(|row| row.method == survival.method.name());
    let Some(row) = in_use.or(rows.first()) else {
        return Vec::new();
    };
    vec![
        ("machine".into(), row.machine.summary()),
        ("commit".into(), row.commit.clone()),
        ("seed".into(), row.seed.to_string()),
        (
            "domain".into(),
            format!("{}, instructions of {}", row.domain, row.primitives),
        ),
        ("survives".into(), row.survives.clone()),
    ]
}
