//! From three small tables to the rows of the user.
//!
//! | quantity | model over rows *n* | why |
//! |---|---|---|
//! | lines read, bytes written | a + b log2 *n*, b not negative | as many misses; trees grow |
//! | most written line | a + b / *n*, neither negative | rows share the writes (`wear`) |
//! | time, p99 | as the lines read and written | growth is theirs: equal work on each line |
//! | footprint | a + b *n* | each row takes its room |
//! | time to open after a crash | a + b *n*; a if no growth is measurable | log grows with rows |
//!
//! The first three rows are for one transaction. The share of misses stays, and trees grow in
//! height. Counts have no noise. The log and the checkpoint that an opening reads grow with the
//! rows that they cover.
//!
//! On this machine's own memory, samples fit into the processor's cache and a large database does
//! not. There each line that a transaction waits for takes the measured time of a read miss in
//! addition.
//!
//! Coefficients are least squares. Each round of times has an estimate of its own, and the result
//! is their median; least and greatest say how far rounds disagree. That is the spread of the
//! measurement, not of the model: docs/advise.md compares the model with runs at larger scales.

use super::MethodSamples;
use super::line::Line;
use super::measure::{Counted, Timed};
use super::plan::Plan;
use super::wear::{self, MostWritten};
use indelible::Method;

/// Recovery grows measurably if it takes this many times longer with four times the rows.
const GROWTH_MIN: f64 = 1.5;
const SECONDS_A_YEAR: f64 = 365.25 * 86_400.0;

/// A value with the least and greatest that single rounds give.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spread {
    pub(super) low: f64,
    pub(super) value: f64,
    pub(super) high: f64,
}

impl Spread {
    /// A value that is the same in every round.
    pub(super) fn exact(value: f64) -> Self {
        Self {
            low: value,
            value,
            high: value,
        }
    }

    /// The median of values, which must not be empty, with the least and the greatest.
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let middle = values.len() / 2;
        let value = if values.len().is_multiple_of(2) {
            values[middle - 1].midpoint(values[middle])
        } else {
            values[middle]
        };
        Self {
            low: values[0],
            value,
            high: values[values.len() - 1],
        }
    }

    /// A quantity that shrinks as this one grows.
    pub(super) fn inverse(self, of: f64) -> Self {
        Self {
            low: of / self.high,
            value: of / self.value,
            high: of / self.low,
        }
    }
}

/// Expected performance of a method at the user's rows.
#[derive(Clone, Debug)]
pub(super) struct Estimate {
    pub(super) method: Method,
    pub(super) txn_per_s: Spread,
    pub(super) p99_us: Spread,
    /// Bytes written to the device for a transaction.
    pub(super) written_bytes: f64,
    pub(super) loads: f64,
    pub(super) fences: f64,
    /// Writes of the most written line for a transaction.
    pub(super) hottest_writes: f64,
    pub(super) footprint_bytes: f64,
    pub(super) recovery_ms: Spread,
    /// Whether recovery was seen to grow with the rows.
    pub(super) recovery_grows: bool,
    /// Years until the most written line has had the writes that a cell endures, without any
    /// levelling; infinite without writes.
    pub(super) hottest_years: f64,
    /// The same if writes are spread evenly over the footprint.
    pub(super) level_years: f64,
    /// Medians of the measurements, by the scales of the model.
    pub(super) points: Vec<Point>,
    /// A scale beyond the model's: the prediction of the model, then the measurement.
    pub(super) validation: Option<(Point, Point)>,
}

/// Measured or expected numbers at one number of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub(super) rows: u64,
    pub(super) txn_us: f64,
    pub(super) p99_us: f64,
    pub(super) loads: f64,
    pub(super) written_bytes: f64,
    pub(super) footprint_bytes: f64,
    pub(super) recovery_ms: f64,
}

impl Estimate {
    pub(super) fn new(method: Method, plan: &Plan, samples: &MethodSamples) -> Self {
        let at = Model { plan, samples };
        let rows = plan.rows;
        let txn_us = at.timed(rows, |timed| timed.txn_us);
        let (recovery_ms, recovery_grows) = at.recovery(rows);
        let written_bytes = at.counted(rows, |counted| counted.written_bytes);
        let hottest_writes = at.hottest_writes(rows);
        let footprint_bytes = at.footprint(rows);
        let txn_per_s = txn_us.inverse(1e6);
        let years = |writes_a_second: f64| plan.endurance / writes_a_second / SECONDS_A_YEAR;
        let level_writes = written_bytes * txn_per_s.value / footprint_bytes.max(1.0);
        let points = (0..plan.scales.len()).map(|scale| at.measured(scale));
        let mut points: Vec<Point> = points.collect();
        let validation = points.split_off(plan.fitted).pop();
        Self {
            method,
            txn_per_s,
            p99_us: at.timed(rows, |timed| timed.p99_us),
            written_bytes,
            loads: at.counted(rows, |counted| counted.loads),
            fences: at.counted(rows, |counted| counted.fences),
            hottest_writes,
            footprint_bytes,
            recovery_ms,
            recovery_grows,
            hottest_years: years(hottest_writes * txn_per_s.value),
            level_years: years(level_writes),
            points,
            validation: validation.map(|measured| (at.expected(measured.rows), measured)),
        }
    }
}

/// The samples of one method, and the scales that they belong to.
struct Model<'s> {
    plan: &'s Plan,
    samples: &'s MethodSamples,
}

impl Model<'_> {
    /// Rows of the scales of the model.
    fn rows(&self) -> impl Iterator<Item = f64> {
        self.plan.fitted().iter().map(|scale| scale.rows as f64)
    }

    fn counted(&self, rows: u64, of: impl Fn(&Counted) -> f64) -> f64 {
        let points = self.rows().map(f64::log2);
        let points = points.zip(self.samples.counted.iter().map(of));
        Line::rising(points).at((rows as f64).log2()).max(0.0)
    }

    /// Writes of the most written line: those of a row fall with the number of rows unless some
    /// rows are hot, those of a root do not. A log comes around too seldom to be seen in a run.
    fn hottest_writes(&self, rows: u64) -> f64 {
        let scales = self.plan.fitted().iter().zip(&self.samples.counted);
        let runs: Vec<MostWritten> = scales
            .map(|(scale, counted)| MostWritten {
                rows: scale.rows as f64,
                transactions: scale.measured as f64,
                writes: counted.hottest_writes * scale.measured as f64,
            })
            .collect();
        let of_rows = wear::expected(&runs, rows as f64);
        of_rows.max(self.counted(rows, |counted| counted.log_line_writes))
    }

    fn footprint(&self, rows: u64) -> f64 {
        let bytes = self.samples.counted.iter().map(|c| c.footprint_bytes);
        Line::rising(self.rows().zip(bytes)).at(rows as f64)
    }

    fn timed(&self, rows: u64, of: impl Fn(&Timed) -> f64) -> Spread {
        let work = self.counted(rows, Counted::lines).max(1.0);
        let misses_us = self.counted(rows, |counted| counted.serial_misses) * self.miss_us();
        let fitted = &self.samples.timed[..self.plan.fitted];
        let estimates = (0..self.samples.rounds()).map(|round| {
            let carried = fitted.iter().zip(&self.samples.counted);
            let carried = carried
                .map(|(rounds, counted)| of(&rounds[round]) * work / counted.lines().max(1.0));
            carried.sum::<f64>() / fitted.len() as f64 + misses_us
        });
        Spread::of(estimates.collect())
    }

    /// Extra time of a line that a transaction waits for, compared with the samples: 0 where all
    /// latencies are emulated.
    fn miss_us(&self) -> f64 {
        let report = self.plan.device_report.as_ref();
        report.map_or(0.0, |report| report.read_miss_ns / 1e3)
    }

    /// The time to open after a crash, and whether it was seen to grow. The least of the rounds
    /// decides that, because a disturbance only ever adds.
    fn recovery(&self, rows: u64) -> (Spread, bool) {
        let fitted = &self.samples.timed[..self.plan.fitted];
        let least = |rounds: &Vec<Timed>| {
            let values = rounds.iter().map(|timed| timed.recovery_ms);
            values.fold(f64::INFINITY, f64::min)
        };
        let (small, large) = (least(&fitted[0]), least(&fitted[fitted.len() - 1]));
        if large < small * GROWTH_MIN {
            let all = fitted.iter().flatten().map(|timed| timed.recovery_ms);
            return (Spread::of(all.collect()), false);
        }
        let fits = (0..self.samples.rounds()).map(|round| {
            let values = fitted.iter().map(|rounds| rounds[round].recovery_ms);
            Line::rising(self.rows().zip(values)).at(rows as f64)
        });
        (Spread::of(fits.collect()), true)
    }

    /// The measurements at a scale.
    fn measured(&self, scale: usize) -> Point {
        let (counted, timed) = (&self.samples.counted[scale], &self.samples.timed[scale]);
        let median = |of: fn(&Timed) -> f64| Spread::of(timed.iter().map(of).collect()).value;
        Point {
            rows: self.plan.scales[scale].rows,
            txn_us: median(|timed| timed.txn_us),
            p99_us: median(|timed| timed.p99_us),
            loads: counted.loads,
            written_bytes: counted.written_bytes,
            footprint_bytes: counted.footprint_bytes,
            recovery_ms: median(|timed| timed.recovery_ms),
        }
    }

    /// The model's prediction for a number of rows.
    fn expected(&self, rows: u64) -> Point {
        Point {
            rows,
            txn_us: self.timed(rows, |timed| timed.txn_us).value,
            p99_us: self.timed(rows, |timed| timed.p99_us).value,
            loads: self.counted(rows, |counted| counted.loads),
            written_bytes: self.counted(rows, |counted| counted.written_bytes),
            footprint_bytes: self.footprint(rows),
            recovery_ms: self.recovery(rows).0.value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_median_and_both_ends() {
        let odd = Spread::of(vec![5.0, 1.0, 2.0]);
        assert_eq!(
            odd,
            Spread {
                low: 1.0,
                value: 2.0,
                high: 5.0
            }
        );
        assert!((Spread::of(vec![4.0, 2.0]).value - 3.0).abs() < 1e-9);
        assert_eq!(
            odd.inverse(10.0),
            Spread {
                low: 2.0,
                value: 5.0,
                high: 10.0
            }
        );
    }
}
