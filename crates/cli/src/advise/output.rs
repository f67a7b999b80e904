//! The answer in text, JSON and CSV.
//!
//! One row a method, best first. Programs get every number, people get the decisive ones. The notes
//! tell measured numbers from computed ones, so that an estimate cannot pass for a measurement.

use super::choose::{Advice, Judged, objective, size};
use super::model::Point;
use super::plan::{Device, Plan, Source};
use crate::machine::{self, COMMIT};
use crate::output::{Cell, Format, Listing, duration, stdout, thousands, whole};
use crate::printable::printable;
use crate::scratch::Scratch;
use anyhow::Result;
use indelible::Primitive;
use serde_json::{Value as Json, json};
use std::fmt::Write as _;
use std::io::Write;

/// All that the command says.
pub(super) struct Report<'r> {
    pub(super) plan: &'r Plan,
    pub(super) advice: &'r Advice,
    pub(super) rounds: usize,
    /// Time that the command took.
    pub(super) seconds: f64,
}

impl Report<'_> {
    pub(super) fn print(&self, format: Format) -> Result<()> {
        match format {
            Format::Text => self.print_text(),
            Format::Json => {
                let mut out = stdout();
                for (rank, judged) in (1..).zip(&self.advice.judged) {
                    writeln!(out, "{}", self.json(rank, judged))?;
                }
                out.flush()?;
                Ok(())
            }
            Format::Csv => self.csv().print(format),
        }
    }

    fn print_text(&self) -> Result<()> {
        let mut out = stdout();
        for (name, value) in self.facts() {
            writeln!(out, "{name:<9} {}", printable(&value))?;
        }
        writeln!(out)?;
        writeln!(out, "{}", self.listing().text())?;
        writeln!(out)?;
        writeln!(out, "{}", self.verdict())?;
        writeln!(out)?;
        for judged in &self.advice.judged {
            writeln!(out, "  {:<8} {}", judged.estimate.method.name(), judged.why)?;
        }
        writeln!(out)?;
        for note in self.notes() {
            writeln!(out, "- {note}")?;
        }
        if let Some(listing) = self.validation() {
            writeln!(out)?;
            writeln!(out, "{}", listing.text())?;
        }
        out.flush()?;
        Ok(())
    }

    /// Workload, device, objective and scales.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let plan = self.plan;
        let scales: Vec<String> = plan.fitted().iter().map(|s| thousands(s.rows)).collect();
        let mut facts = vec![
            ("workload", workload(plan)),
            ("device", self.device()),
            ("rows", format!("{} in one partition", thousands(plan.rows))),
            ("objective", objective(self.advice.preference)),
            (
                "measured",
                format!(
                    "{} rows, {} rounds, {:.0} s in all",
                    scales.join(", "),
                    self.rounds,
                    self.seconds
                ),
            ),
        ];
        if let Some(report) = &plan.device_report {
            let costs = format!(
                "{} ({}): survives {}; a read that misses takes {:.0} ns, store, cache-line flush and fence {:.0} ns",
                report.medium.name(),
                report.filesystem,
                report.survives,
                report.read_miss_ns,
                report.line_costs.line_ns
            );
            facts.insert(2, ("medium", costs));
        }
        facts
    }

    /// Device and cache in words.
    fn device(&self) -> String {
        let cache = size(self.plan.cache_bytes as f64);
        match self.plan.device {
            Device::Emulated(_) => {
                format!("{}, behind a cache of {cache}", device(&self.plan.device))
            }
            Device::Native { .. } => device(&self.plan.device),
        }
    }

    /// The recommendation in one sentence.
    pub(super) fn verdict(&self) -> String {
        let advice = self.advice;
        let mut verdict = format!("Use {}.", advice.judged[0].estimate.method);
        let equal = &advice.judged[1..advice.equally_good];
        if !equal.is_empty() {
            let names: Vec<&str> = equal.iter().map(|one| one.estimate.method.name()).collect();
            let _ = write!(
                verdict,
                " By the objective alone {} {} equally good (within 3 %); the balanced weights decided.",
                names.join(", "),
                if names.len() == 1 { "is" } else { "are" }
            );
        }
        if advice.is_close {
            let next = advice.judged[advice.equally_good].estimate.method;
            let _ = write!(
                verdict,
                " The lead over {next} is within the spread of the rounds: measure longer (--repeat, --sample-rows) before relying on it."
            );
        }
        verdict
    }

    /// Notes under the tables: measured and computed numbers, and the limits of the device.
    pub(super) fn notes(&self) -> Vec<String> {
        let plan = self.plan;
        let mut notes = vec![if plan.extrapolates() {
            format!(
                "Extrapolated from {} to {} rows ({}x): lines and bytes a transaction grow with log2 of the rows, times with them, footprint and \
                 recovery linearly, and rows share the writes of the hottest line unless some are hot; cache, checkpoints and MemTables of the samples are smaller in the ratio of the rows.",
                thousands(plan.largest()),
                thousands(plan.rows),
                whole(plan.rows as f64 / plan.largest() as f64)
            )
        } else {
            "Measured with as many rows as were asked for; nothing is extrapolated.".into()
        }];
        notes.push(match self.rounds {
            1 => "One round only: the spread is unknown.".into(),
            rounds => format!(
                "Ranges are the least and greatest of {rounds} rounds, each extrapolated by itself; the error of the model comes on \
                 top (docs/advise.md; --validate ROWS checks it here)."
            ),
        });
        notes.push(
            "Written bytes are lines that reach the device; the wear of a line supposes no levelling, that of the whole even writes \
             over the footprint."
                .into(),
        );
        let grow = self
            .advice
            .judged
            .iter()
            .any(|one| one.estimate.recovery_grows);
        if grow {
            notes.push(
                "Recovery marked + grows with the rows; a smaller checkpoint_log_bytes bounds its part that replays the log.".into(),
            );
        }
        match plan.device {
            Device::Native { primitives: None } => notes.push(
                "Times are those of this machine's own memory and instructions; --primitives flush adds the write-backs that \
                 persistent memory needs, --profile asks about another device."
                    .into(),
            ),
            Device::Native { .. } => {}
            Device::Emulated(_) => notes.push(
                "Times are emulated: compare them with each other, not with native ones (docs/emulation.md).".into(),
            ),
        }
        notes
    }

    /// One row a method, for people.
    fn listing(&self) -> Listing {
        let mut listing = Listing::new(HEADER);
        for row in self.rows() {
            listing.push(row.into_iter().map(Cell::from).collect());
        }
        listing
    }

    /// The cells of the table for people.
    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let row = |judged: &Judged| {
            let estimate = &judged.estimate;
            let range = estimate.txn_per_s;
            let plus = if estimate.recovery_grows { " +" } else { "" };
            vec![
                estimate.method.name().to_owned(),
                whole(range.value),
                format!("{} - {}", whole(range.low), whole(range.high)),
                duration(estimate.p99_us.value),
                whole(estimate.written_bytes),
                years(estimate.hottest_years),
                years(estimate.level_years),
                size(estimate.footprint_bytes),
                format!("{}{plus}", duration(estimate.recovery_ms.value * 1e3)),
                format!("{:.2}", judged.score),
            ]
        };
        self.advice.judged.iter().map(row).collect()
    }

    fn csv(&self) -> Listing {
        let mut listing = Listing::new([
            "rank",
            "method",
            "score",
            "rows",
            "txn_per_s",
            "txn_per_s_low",
            "txn_per_s_high",
            "p99_us",
            "written_bytes_per_txn",
            "loads_per_txn",
            "fences_per_txn",
            "hottest_line_writes_per_txn",
            "hottest_line_years",
            "level_years",
            "footprint_bytes",
            "recovery_ms",
            "recovery_grows",
            "why",
        ]);
        for (rank, judged) in (1..).zip(&self.advice.judged) {
            let one = &judged.estimate;
            listing.push(vec![
                Cell::Whole(rank),
                one.method.name().into(),
                Cell::number(judged.score, 4),
                Cell::Whole(self.plan.rows),
                Cell::number(one.txn_per_s.value, 0),
                Cell::number(one.txn_per_s.low, 0),
                Cell::number(one.txn_per_s.high, 0),
                Cell::number(one.p99_us.value, 3),
                Cell::number(one.written_bytes, 1),
                Cell::number(one.loads, 2),
                Cell::number(one.fences, 3),
                Cell::number(one.hottest_writes, 4),
                finite(one.hottest_years),
                finite(one.level_years),
                Cell::number(one.footprint_bytes, 0),
                Cell::number(one.recovery_ms.value, 3),
                Cell::Flag(one.recovery_grows),
                judged.why.as_str().into(),
            ]);
        }
        listing
    }

    fn json(&self, rank: u64, judged: &Judged) -> Json {
        let one = &judged.estimate;
        let range = |spread: super::model::Spread| json!({ "value": spread.value, "low": spread.low, "high": spread.high });
        json!({
            "rank": rank,
            "method": one.method.name(),
            "recommended": rank == 1,
            "score": judged.score,
            "balanced_score": judged.balanced,
            "why": judged.why,
            "objective": objective(self.advice.preference),
            "close": self.advice.is_close,
            "equally_good": rank <= self.advice.equally_good as u64,
            "workload": workload(self.plan),
            "device": self.device(),
            "rows": self.plan.rows,
            "extrapolated": self.plan.extrapolates(),
            "rounds": self.rounds,
            "txn_per_s": range(one.txn_per_s),
            "p99_us": range(one.p99_us),
            "written_bytes_per_txn": one.written_bytes,
            "loads_per_txn": one.loads,
            "fences_per_txn": one.fences,
            "hottest_line_writes_per_txn": one.hottest_writes,
            "endurance_writes": self.plan.endurance,
            // Without writes nothing wears: no number of years.
            "hottest_line_years": one.hottest_years.is_finite().then_some(one.hottest_years),
            "level_years": one.level_years.is_finite().then_some(one.level_years),
            "footprint_bytes": one.footprint_bytes,
            "recovery_ms": range(one.recovery_ms),
            "recovery_grows": one.recovery_grows,
            "measured": one.points.iter().map(point_json).collect::<Vec<_>>(),
            "validation": one.validation.map(|(expected, measured)| {
                json!({ "expected": point_json(&expected), "measured": point_json(&measured) })
            }),
            "commit": COMMIT,
            "machine": machine::here(self.plan.path.as_deref().unwrap_or(&Scratch::root())),
        })
    }

    /// The model's prediction for the scale that it is checked against, with the measurement there.
    pub(super) fn validation(&self) -> Option<Listing> {
        let mut listing = Listing::new([
            "method",
            "rows",
            "us/txn model",
            "measured",
            "lines read model",
            "measured",
            "bytes written model",
            "measured",
            "footprint model",
            "measured",
            "recovery model",
            "measured",
        ]);
        for judged in &self.advice.judged {
            let (expected, measured) = judged.estimate.validation?;
            let mut row = vec![
                Cell::from(judged.estimate.method.name()),
                thousands(measured.rows).into(),
            ];
            for (of, shown) in COLUMNS {
                row.extend([shown(of(&expected)).into(), shown(of(&measured)).into()]);
            }
            listing.push(row);
        }
        Some(listing)
    }
}

/// Header of the table for people.
pub(super) const HEADER: [&str; 10] = [
    "method",
    "txn/s",
    "range",
    "p99",
    "bytes/txn",
    "hot line",
    "levelled",
    "footprint",
    "recovery",
    "score",
];

/// Quantities of a validation, and how they are shown.
type Column = (fn(&Point) -> f64, fn(f64) -> String);
const COLUMNS: [Column; 5] = [
    (|point| point.txn_us, |value| format!("{value:.2}")),
    (|point| point.loads, |value| format!("{value:.1}")),
    (|point| point.written_bytes, whole),
    (|point| point.footprint_bytes, size),
    (|point| point.recovery_ms, |value| duration(value * 1e3)),
];

fn point_json(point: &Point) -> Json {
    json!({
        "rows": point.rows,
        "txn_us": point.txn_us,
        "p99_us": point.p99_us,
        "loads_per_txn": point.loads,
        "written_bytes_per_txn": point.written_bytes,
        "footprint_bytes": point.footprint_bytes,
        "recovery_ms": point.recovery_ms,
    })
}

/// The workload in words.
pub(super) fn workload(plan: &Plan) -> String {
    match &plan.source {
        Source::Mix(options) => {
            let mut text = format!(
                "{}, skew {}, {} columns of {} bytes, updates of {}",
                options.mix,
                options.skew,
                options.columns,
                options.column_bytes,
                options.update_columns
            );
            if options.mix.scan > 0 {
                let _ = write!(text, ", scans of {} rows", options.scan_rows);
            }
            if options.operations > 1 {
                let _ = write!(text, ", {} operations a transaction", options.operations);
            }
            text
        }
        Source::Trace { path, replay } => format!(
            "trace {}: {} transactions, {} operations, {} tables, {} keys, rows of {} bytes",
            path.display(),
            thousands(replay.transactions()),
            thousands(replay.operations()),
            replay.tables().len(),
            thousands(replay.rows()),
            replay.row_bytes()
        ),
    }
}

/// The device in words.
pub(super) fn device(device: &Device) -> String {
    match device {
        Device::Emulated(profile) => format!("emulated {profile}"),
        Device::Native { primitives } => {
            let instructions = match primitives {
                None => "its own instructions",
                Some(Primitive::Process) => "instructions of the domain process",
                Some(Primitive::File) => "msync",
                Some(Primitive::FlushFree) => "instructions of the domain flush-free",
                Some(Primitive::Flush) => "instructions of the domain flush",
            };
            format!("this machine's memory, {instructions}")
        }
    }
}

/// A lifetime: in years if it is one, else in days, or none where nothing is written.
fn years(years: f64) -> String {
    match years {
        years if !years.is_finite() || years >= 1e5 => "unlimited".into(),
        years if years >= 100.0 => format!("{} y", whole(years)),
        years if years >= 1.0 => format!("{years:.1} y"),
        years => format!("{:.1} d", years * 365.25),
    }
}

fn finite(value: f64) -> Cell {
    if value.is_finite() {
        Cell::number(value, 4)
    } else {
        Cell::Null
    }
}
