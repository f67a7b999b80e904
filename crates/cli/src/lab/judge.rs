//! Judging shapes: a check of an experiment, evaluated on the medians of its rows.
//!
//! A statement that has no rows to judge is `Unknown`, which is neither a pass nor a failure. A
//! range has no error bars: each row has the spread of its repeats, and a quick run on a busy
//! machine can miss a narrow range.

use super::experiment::{Check, Filter, Test, Within};
use super::point::{Parameters, passes};
use super::rows::LabRow;

/// Outcome of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    Differs,
    /// It has no rows.
    Unknown,
}

/// A check with its measured numbers.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    /// The numbers as text.
    pub(super) measured: String,
}

/// Judges one check.
pub(super) fn judge(check: &Check, rows: &[&LabRow]) -> Judged {
    let (numbers, within, suffix): (Vec<f64>, Within, &str) = match &check.test {
        Test::Ratio {
            metric,
            over,
            under,
            rows: filter,
            within,
        } => {
            let chosen = rows.iter().filter(|row| passes(&row.parameters, filter));
            let ratios = chosen.filter_map(|row| ratio(rows, row, metric, over, under));
            (ratios.collect(), *within, "x")
        }
        Test::Growth {
            metric,
            over,
            under,
            low,
            high,
            rows: filter,
            within,
        } => {
            let chosen = rows
                .iter()
                .filter(|row| passes(&row.parameters, filter) && passes(&row.parameters, low));
            let growths = chosen.filter_map(|row| {
                let first = ratio(rows, row, metric, over, under)?;
                let other = partner(rows, &row.parameters, high)?;
                Some(ratio(rows, other, metric, over, under)? / first)
            });
            (growths.collect(), *within, "x")
        }
        Test::Value {
            metric,
            rows: filter,
            within,
        } => {
            let chosen = rows.iter().filter(|row| passes(&row.parameters, filter));
            (
                chosen.filter_map(|row| row.median(metric)).collect(),
                *within,
                "",
            )
        }
        Test::Best {
            metric,
            along,
            at,
            rows: filter,
            within,
        } => {
            let chosen = rows.iter().filter(|row| {
                passes(&row.parameters, filter)
                    && row.parameters.get(*along).is_some_and(|value| value == at)
            });
            let shares = chosen.filter_map(|row| share_of_best(rows, row, metric, along));
            (shares.collect(), *within, "x of the best")
        }
    };
    verdict(&numbers, within, suffix)
}

/// The metric of a row that passes `over`, divided by that of its partner.
fn ratio(rows: &[&LabRow], row: &LabRow, metric: &str, over: Filter, under: Filter) -> Option<f64> {
    if !passes(&row.parameters, over) {
        return None;
    }
    let divisor = partner(rows, &row.parameters, under)?.median(metric)?;
    let value = row.median(metric)?;
    (divisor > 0.0).then(|| value / divisor)
}

/// The row with the same parameters but for those of the filter.
fn partner<'r>(rows: &[&'r LabRow], own: &Parameters, other: Filter) -> Option<&'r LabRow> {
    let mut wanted = own.clone();
    for (name, value) in other {
        wanted.insert((*name).into(), (*value).into());
    }
    rows.iter().copied().find(|row| row.parameters == wanted)
}

fn share_of_best(rows: &[&LabRow], row: &LabRow, metric: &str, along: &str) -> Option<f64> {
    let like = |other: &LabRow| {
        let mut parameters = other.parameters.clone();
        parameters.insert(along.into(), row.parameters.get(along)?.clone());
        (parameters == row.parameters).then(|| other.median(metric))?
    };
    let best = rows
        .iter()
        .filter_map(|other| like(other))
        .max_by(f64::total_cmp)?;
    Some(row.median(metric)? / best)
}

fn verdict(numbers: &[f64], within: Within, suffix: &str) -> Judged {
    if numbers.is_empty() {
        return Judged {
            verdict: Verdict::Unknown,
            measured: "not measured".into(),
        };
    }
    let count = numbers.len() as f64;
    let mean = (numbers.iter().map(|n| n.max(1e-12).ln()).sum::<f64>() / count).exp();
    let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let holds = match within {
        Within::Each(from, to) => low >= from && high <= to,
        Within::Mean(from, to) => (from..=to).contains(&mean),
    };
    let measured = if numbers.len() == 1 {
        format!("{}{suffix}", short(mean))
    } else {
        format!(
            "{}–{}{suffix}, mean {}",
            short(low),
            short(high),
            short(mean)
        )
    };
    Judged {
        verdict: if holds {
            Verdict::Holds
        } else {
            Verdict::Differs
        },
        measured,
    }
}

fn short(number: f64) -> String {
    match number.abs() {
        n if n >= 100.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::experiment::Kind;
    use crate::lab::point::Point;
    use crate::lab::rows::Metrics;
    use crate::lab::size::Size;

    fn row(method: &str, mix: &str, speed: f64) -> LabRow {
        let point = Point {
            kind: Kind::Ycsb,
            parameters: [("method", method), ("mix", mix)]
                .map(|(name, value)| (name.into(), value.into()))
                .into(),
            seed: 1,
        };
        let metrics = Metrics::from([("speed".into(), speed)]);
        LabRow::new(
            &point,
            &Size::smoke(),
            &[metrics],
            std::path::Path::new("."),
        )
    }

    fn check(test: Test) -> Check {
        Check {
            what: "",
            paper: "",
            source: "",
            test,
            why: "",
        }
    }

    #[test]
    fn ratios_pair_rows_that_differ_in_nothing_else() {
        let rows = [
            row("new", "reads", 10.0),
            row("old", "reads", 10.0),
            row("new", "writes", 8.0),
            row("old", "writes", 2.0),
            row("new", "alone", 1.0),
        ];
        let rows: Vec<&LabRow> = rows.iter().collect();
        let ratio = |within| {
            check(Test::Ratio {
                metric: "speed",
                over: &[("method", "new")],
                under: &[("method", "old")],
                rows: &[],
                within,
            })
        };
        let judged = judge(&ratio(Within::Mean(1.9, 2.1)), &rows);
        assert_eq!(judged.verdict, Verdict::Holds);
        assert_eq!(judged.measured, "1.00–4.00x, mean 2.00");
        assert_eq!(
            judge(&ratio(Within::Each(1.1, 9.0)), &rows).verdict,
            Verdict::Differs
        );
        assert_eq!(
            judge(&ratio(Within::Each(0.9, 9.0)), &[]).verdict,
            Verdict::Unknown
        );
        let growth = check(Test::Growth {
            metric: "speed",
            over: &[("method", "new")],
            under: &[("method", "old")],
            low: &[("mix", "reads")],
            high: &[("mix", "writes")],
            rows: &[],
            within: Within::Each(3.9, 4.1),
        });
        assert_eq!(judge(&growth, &rows).verdict, Verdict::Holds);
    }

    #[test]
    fn the_best_is_sought_along_one_axis() {
        let rows = [row("a", "x", 9.0), row("a", "y", 10.0), row("b", "x", 50.0)];
        let rows: Vec<&LabRow> = rows.iter().collect();
        let best = check(Test::Best {
            metric: "speed",
            along: "mix",
            at: "x",
            rows: &[("method", "a")],
            within: Within::Each(0.85, 1.0),
        });
        let judged = judge(&best, &rows);
        assert_eq!(
            (judged.verdict, judged.measured.as_str()),
            (Verdict::Holds, "0.90x of the best")
        );
    }
}
