//! Judging statements: the interval of a measured number against the paper's range.
//!
//! | verdict | the 95 % interval |
//! |---|---|
//! | inside | overlaps the paper's range, and its median lies in it |
//! | same direction | is whole on the paper's side of 1; a third of the paper's effect at least |
//! | differs | is outside of all that |
//! | undecided | crosses a boundary |
//! | not measured | comes of fewer than `ROUNDS_MIN` rounds, or of none |
//!
//! "No difference" is 1 for a ratio; a number by itself has none. Where the paper has no numbers
//! but words, the range is the set of numbers for which they are true, and an interval within it
//! has the paper's direction. Ratios are taken within a round. Where a statement is about each of
//! several numbers, the worst of them decides.

use super::experiment::{Basis, Check, Filter, Test, Within};
use super::experiment::{Parameters, passes};
use super::rows::LabRow;
use super::statistics::{Interval, geometric_mean};

/// Rounds that an interval needs.
const ROUNDS_MIN: usize = 3;
/// Part of the paper's effect that a median has to reach.
const PART_OF_EFFECT: f64 = 1.0 / 3.0;

/// Outcome of a check, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The paper's number.
    Inside,
    /// The paper's effect, of another size.
    SameDirection,
    /// The interval crosses a boundary.
    Undecided,
    /// Another result.
    Differs,
    /// Too few rounds, or none.
    NotMeasured,
}

impl Verdict {
    /// All, in this order.
    pub const ALL: [Self; 5] = [
        Self::Inside,
        Self::SameDirection,
        Self::Undecided,
        Self::Differs,
        Self::NotMeasured,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Inside => "inside",
            Self::SameDirection => "same direction",
            Self::Undecided => "undecided",
            Self::Differs => "differs",
            Self::NotMeasured => "not measured",
        }
    }
}

/// A check with its measured numbers.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) verdict: Verdict,
    /// The number that decided: the mean, or the worst.
    pub(crate) interval: Option<Interval>,
    /// The numbers as text.
    pub(crate) measured: String,
}

/// Judges one check.
pub(crate) fn judge(check: &Check, rows: &[&LabRow]) -> Judged {
    let (numbers, suffix) = numbers(&check.test, rows);
    let is_ratio = matches!(check.test, Test::Ratio { .. } | Test::Growth { .. });
    let within = check.test.within();
    let rounds = numbers.iter().map(Vec::len).min().unwrap_or(0);
    let series = match within {
        Within::Each(..) => numbers.clone(),
        Within::Mean(..) if numbers.is_empty() => Vec::new(),
        Within::Mean(..) => vec![mean_by_round(&numbers, rounds)],
    };
    let verdict_of = |interval: &Interval| match check.claim.basis {
        _ if rounds < ROUNDS_MIN => Verdict::NotMeasured,
        Basis::Numbers => against_numbers(interval, within.range(), is_ratio),
        Basis::Words | Basis::OwnGoal => against_words(interval, within.range()),
    };
    let intervals = series
        .iter()
        .filter_map(|rounds| Interval::of_median(rounds));
    let worst = intervals
        .map(|interval| (verdict_of(&interval), interval))
        .max_by_key(|(verdict, _)| *verdict);
    let Some((verdict, interval)) = worst else {
        return Judged {
            verdict: Verdict::NotMeasured,
            interval: None,
            measured: "not measured".into(),
        };
    };
    Judged {
        verdict,
        interval: Some(interval),
        measured: text(&numbers, &interval, suffix),
    }
}

/// The numbers of a statement, each over the rounds, and their unit.
fn numbers(test: &Test, rows: &[&LabRow]) -> (Vec<Vec<f64>>, &'static str) {
    let chosen = |filter: Filter| {
        let rows = rows.iter().copied();
        rows.filter(move |row| passes(&row.parameters, filter))
    };
    match *test {
        Test::Ratio {
            metric,
            over,
            under,
            rows: filter,
            ..
        } => {
            let ratios = chosen(filter).filter_map(|row| ratio(rows, row, metric, over, under));
            (ratios.collect(), "x")
        }
        Test::Growth {
            metric,
            over,
            under,
            low,
            high,
            rows: filter,
            ..
        } => {
            let from = chosen(filter).filter(|row| passes(&row.parameters, low));
            let growths = from.filter_map(|row| {
                let first = ratio(rows, row, metric, over, under)?;
                let other = partner(rows, &row.parameters, high)?;
                let last = ratio(rows, other, metric, over, under)?;
                Some(divided(&last, &first))
            });
            (growths.collect(), "x")
        }
        Test::Value {
            metric,
            rows: filter,
            ..
        } => {
            let values = chosen(filter).map(|row| row.rounds(metric));
            (values.filter(|rounds| !rounds.is_empty()).collect(), "")
        }
        Test::Best {
            metric,
            along,
            at,
            rows: filter,
            ..
        } => {
            let is_there = |row: &&LabRow| row.parameters.get(along).is_some_and(|own| own == at);
            let shares = chosen(filter).filter(is_there);
            let shares = shares.map(|row| share_of_best(rows, row, metric, along));
            (
                shares.filter(|rounds| !rounds.is_empty()).collect(),
                "x of the best",
            )
        }
    }
}

/// The metric of a row that passes `over`, divided by that of its partner.
fn ratio(
    rows: &[&LabRow],
    row: &LabRow,
    metric: &str,
    over: Filter,
    under: Filter,
) -> Option<Vec<f64>> {
    if !passes(&row.parameters, over) {
        return None;
    }
    let divisor = partner(rows, &row.parameters, under)?.rounds(metric);
    let ratios = divided(&row.rounds(metric), &divisor);
    (!ratios.is_empty() && ratios.iter().all(|ratio| ratio.is_finite())).then_some(ratios)
}

/// Round by round.
fn divided(over: &[f64], under: &[f64]) -> Vec<f64> {
    over.iter().zip(under).map(|(a, b)| a / b).collect()
}

/// The row with the same parameters but for those of the filter.
fn partner<'r>(rows: &[&'r LabRow], own: &Parameters, other: Filter) -> Option<&'r LabRow> {
    let mut wanted = own.clone();
    for (name, value) in other {
        wanted.insert((*name).into(), (*value).into());
    }
    rows.iter().copied().find(|row| row.parameters == wanted)
}

fn share_of_best(rows: &[&LabRow], row: &LabRow, metric: &str, along: &str) -> Vec<f64> {
    let is_like = |other: &&&LabRow| {
        let mut parameters = other.parameters.clone();
        if let Some(value) = row.parameters.get(along) {
            parameters.insert(along.into(), value.clone());
        }
        parameters == row.parameters
    };
    let like: Vec<Vec<f64>> = rows
        .iter()
        .filter(is_like)
        .map(|other| other.rounds(metric))
        .collect();
    let own = row.rounds(metric);
    let best = |round: usize| {
        let values = like.iter().filter_map(|rounds| rounds.get(round));
        values.copied().max_by(f64::total_cmp)
    };
    let shares = own.iter().enumerate();
    shares
        .filter_map(|(round, value)| Some(value / best(round)?))
        .collect()
}

fn mean_by_round(numbers: &[Vec<f64>], rounds: usize) -> Vec<f64> {
    let mean = |round: usize| {
        let values: Vec<f64> = numbers.iter().map(|rounds| rounds[round]).collect();
        geometric_mean(&values)
    };
    (0..rounds).map(mean).collect()
}

fn against_numbers(interval: &Interval, range: (f64, f64), is_ratio: bool) -> Verdict {
    let Interval { low, value, high } = *interval;
    let (from, to) = range;
    if (from..=to).contains(&value) {
        return Verdict::Inside;
    }
    let overlaps = low <= to && from <= high;
    let is_below = to <= 1.0;
    if !is_ratio || !is_below && from < 1.0 {
        return if overlaps {
            Verdict::Undecided
        } else {
            Verdict::Differs
        };
    }
    // The least effect that the paper has, and the part of it that counts.
    let nearest = if is_below { to } else { from };
    let enough = 1.0 + (nearest - 1.0) * PART_OF_EFFECT;
    let (on_its_side, reached, may_reach) = if is_below {
        (high < 1.0, value <= enough, low <= enough)
    } else {
        (low > 1.0, value >= enough, high >= enough)
    };
    match (on_its_side, reached) {
        (true, true) => Verdict::SameDirection,
        _ if overlaps || may_reach => Verdict::Undecided,
        _ => Verdict::Differs,
    }
}

fn against_words(interval: &Interval, (from, to): (f64, f64)) -> Verdict {
    let Interval { low, high, .. } = *interval;
    if from <= low && high <= to {
        Verdict::SameDirection
    } else if high < from || to < low {
        Verdict::Differs
    } else {
        Verdict::Undecided
    }
}

/// The numbers for people: the interval, and the range of the medians if there are several.
fn text(numbers: &[Vec<f64>], interval: &Interval, suffix: &str) -> String {
    let Interval { low, value, high } = interval;
    let own = format!(
        "{}{suffix} [{}, {}]",
        short(*value),
        short(*low),
        short(*high)
    );
    if numbers.len() < 2 {
        return own;
    }
    let medians = numbers
        .iter()
        .filter_map(|rounds| Interval::of_median(rounds));
    let (least, most) = medians.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), one| {
        (least.min(one.value), most.max(one.value))
    });
    format!(
        "{own}; {} numbers of {} to {}",
        numbers.len(),
        short(least),
        short(most)
    )
}

fn short(number: f64) -> String {
    match number.abs() {
        n if n >= 100.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
