//! Judging statements: the interval of a measured number against the paper's range.
//!
//! | verdict | the 95 % interval |
//! |---|---|
//! | inside | overlaps the paper's range, and its median lies in it |
//! | same direction | is whole on the paper's side of 1; a third of the paper's effect at least |
//! | differs | is outside of all that |
//! | undecided | crosses a boundary |
//! | not measured | comes of fewer than `ROUNDS_MIN` rounds, or of a part of its runs |
//!
//! A statement is judged when all rows that a whole run has for it are there: the best of some runs
//! is not the best of all, and the mean of some numbers is not that of all.
//!
//! "No difference" is 1 for a ratio; a number by itself has none. Where the paper has no numbers
//! but words, the range is the set of numbers for which they are true, and an interval within it
//! has the paper's direction. Where a statement is about each of several numbers, the worst of them
//! decides.
//!
//! Ratios pair the samples of two rows by their round, the first with the first. Points that were
//! loaded together have their rounds together; those of other parts of a run have rounds of their
//! own, minutes apart, and drift between the parts is in their ratios.
//!
//! A verdict does not look at the control point. It carries the greatest difference of one among
//! its rows, and is called noisy where that is more than a tenth.

use super::control::CONTROL_DIFFERENCE_MAX;
use super::experiment::{Basis, Check, Filter, Test, Within};
use super::experiment::{Parameters, passes};
use super::rows::LabRow;
use super::statistics::{Interval, geometric_mean};

/// Numbers of rounds with a value each, in their order.
type Rounds = Vec<(u32, f64)>;

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
    /// The largest difference of the control points of its rounds from themselves.
    pub(crate) control: Option<f64>,
}

impl Judged {
    fn not_measured(measured: String) -> Self {
        Self {
            verdict: Verdict::NotMeasured,
            interval: None,
            measured,
            control: None,
        }
    }

    /// Whether the machine was too noisy for the rounds that it comes of.
    pub(crate) fn is_noisy(&self) -> bool {
        self.control
            .is_some_and(|control| control > CONTROL_DIFFERENCE_MAX)
    }

    /// The verdict in words, with that.
    pub(crate) fn words(&self) -> String {
        let name = self.verdict.name();
        if self.is_noisy() {
            format!("{name} (noisy)")
        } else {
            name.into()
        }
    }
}

/// Judges one check by the rows of an experiment. `missing` has the parameters of the runs of the
/// experiment that have no row.
pub(crate) fn judge(check: &Check, rows: &[&LabRow], missing: &[Parameters]) -> Judged {
    if let Some(measured) = incomplete(&check.test, rows, missing) {
        return Judged::not_measured(measured);
    }
    let (numbers, suffix) = numbers(&check.test, rows);
    let is_ratio = matches!(check.test, Test::Ratio { .. } | Test::Growth { .. });
    let within = check.test.within();
    let series: Vec<Rounds> = match within {
        Within::Each(..) => numbers.clone(),
        Within::Mean(..) if numbers.is_empty() => Vec::new(),
        Within::Mean(..) => vec![mean_by_round(&numbers)],
    };
    let rounds = series.iter().map(Vec::len).min().unwrap_or(0);
    let verdict_of = |interval: &Interval| match check.claim.basis {
        _ if rounds < ROUNDS_MIN => Verdict::NotMeasured,
        Basis::Numbers => against_numbers(interval, within.range(), is_ratio),
        Basis::Words | Basis::OwnGoal => against_words(interval, within.range()),
    };
    let intervals = series
        .iter()
        .filter_map(|rounds| Interval::of_median(&values(rounds)));
    let worst = intervals
        .map(|interval| (verdict_of(&interval), interval))
        .max_by_key(|(verdict, _)| *verdict);
    let Some((verdict, interval)) = worst else {
        return Judged::not_measured("not measured".into());
    };
    Judged {
        verdict,
        interval: Some(interval),
        measured: text(&numbers, &interval, suffix),
        control: control(&check.test, rows),
    }
}

/// The greatest difference of the control points of a statement's rounds from themselves.
fn control(test: &Test, rows: &[&LabRow]) -> Option<f64> {
    let own = rows.iter().filter(|row| test.uses(&row.parameters));
    let controls = own.filter_map(|row| Some(row.control.as_ref()?.difference()));
    controls.max_by(f64::total_cmp)
}

/// Says how many runs of a statement have no row, if there are any.
fn incomplete(test: &Test, rows: &[&LabRow], missing: &[Parameters]) -> Option<String> {
    if missing.is_empty() {
        return None;
    }
    let measured = rows.iter().map(|row| &row.parameters);
    let all: Vec<&Parameters> = measured.chain(missing).collect();
    let needed = needed(test, &all);
    let is_missing = |parameters: &&&Parameters| missing.contains(parameters);
    let lacking = needed.iter().filter(is_missing).count();
    (lacking > 0).then(|| {
        format!(
            "not measured: {lacking} of {} runs are missing",
            needed.len()
        )
    })
}

/// The runs among all of an experiment that a statement looks at.
fn needed<'p>(test: &Test, all: &[&'p Parameters]) -> Vec<&'p Parameters> {
    let chosen = |filter: Filter| {
        let all = all.iter().copied();
        all.filter(move |own| passes(own, filter))
    };
    let find = |own: &Parameters, other: Filter| {
        let wanted = with(own, other);
        all.iter().copied().find(|own| **own == wanted)
    };
    let both = |own: &'p Parameters, over: Filter, under: Filter| {
        let divisor = find(own, under).filter(|_| passes(own, over))?;
        Some([own, divisor])
    };
    let mut needed: Vec<&Parameters> = match *test {
        Test::Ratio {
            over, under, rows, ..
        } => {
            let pairs = chosen(rows).filter_map(|own| both(own, over, under));
            pairs.flatten().collect()
        }
        Test::Growth {
            over,
            under,
            low,
            high,
            rows,
            ..
        } => {
            let from = chosen(rows).filter(|own| passes(own, low));
            let pairs = from.filter_map(|own| {
                let first = both(own, over, under)?;
                Some([first, both(find(own, high)?, over, under)?])
            });
            pairs.flatten().flatten().collect()
        }
        Test::Value { rows, .. } => chosen(rows).collect(),
        Test::Best {
            along, at, rows, ..
        } => {
            let is_there = |own: &&&Parameters| own.get(along).is_some_and(|own| own == at);
            let own: Vec<&Parameters> = chosen(rows).collect();
            let own: Vec<&&Parameters> = own.iter().filter(is_there).collect();
            let all = all.iter().copied();
            let like = all.filter(|one| own.iter().any(|own| is_like(one, own, along)));
            like.collect()
        }
    };
    needed.sort_unstable();
    needed.dedup();
    needed
}

/// The numbers of a statement, each over the rounds, and their unit.
fn numbers(test: &Test, rows: &[&LabRow]) -> (Vec<Rounds>, &'static str) {
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
            let values = chosen(filter).map(|row| row.by_round(metric));
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
) -> Option<Rounds> {
    if !passes(&row.parameters, over) {
        return None;
    }
    let divisor = partner(rows, &row.parameters, under)?.by_round(metric);
    let ratios = divided(&row.by_round(metric), &divisor);
    let is_finite = |(_, ratio): &(u32, f64)| ratio.is_finite();
    (!ratios.is_empty() && ratios.iter().all(is_finite)).then_some(ratios)
}

/// Round by round; rounds that one of them lacks are left out.
fn divided(over: &[(u32, f64)], under: &[(u32, f64)]) -> Rounds {
    let ratios = over.iter();
    let ratios = ratios.filter_map(|(round, value)| Some((*round, value / at(under, *round)?)));
    ratios.collect()
}

/// The value of a round.
fn at(rounds: &[(u32, f64)], round: u32) -> Option<f64> {
    let mut own = rounds.iter().filter(|(number, _)| *number == round);
    own.next().map(|(_, value)| *value)
}

fn values(rounds: &[(u32, f64)]) -> Vec<f64> {
    rounds.iter().map(|(_, value)| *value).collect()
}

/// The row with the same parameters but for those of the filter.
fn partner<'r>(rows: &[&'r LabRow], own: &Parameters, other: Filter) -> Option<&'r LabRow> {
    let wanted = with(own, other);
    rows.iter().copied().find(|row| row.parameters == wanted)
}

/// Parameters with the values of a filter in place of their own.
fn with(own: &Parameters, other: Filter) -> Parameters {
    let mut wanted = own.clone();
    for (name, value) in other {
        wanted.insert((*name).into(), (*value).into());
    }
    wanted
}

/// Whether parameters are the same but for one of them.
fn is_like(one: &Parameters, other: &Parameters, along: &str) -> bool {
    let mut changed = one.clone();
    if let Some(value) = other.get(along) {
        changed.insert(along.into(), value.clone());
    }
    changed == *other
}

fn share_of_best(rows: &[&LabRow], row: &LabRow, metric: &str, along: &str) -> Rounds {
    let is_like = |other: &&&LabRow| is_like(&other.parameters, &row.parameters, along);
    let like = rows.iter().filter(is_like);
    let like: Vec<Rounds> = like.map(|other| other.by_round(metric)).collect();
    let best = |round: u32| {
        let values = like.iter().filter_map(|rounds| at(rounds, round));
        values.max_by(f64::total_cmp)
    };
    let own = row.by_round(metric).into_iter();
    let shares = own.filter_map(|(round, value)| Some((round, value / best(round)?)));
    shares.collect()
}

/// The means of the rounds that all numbers have.
fn mean_by_round(numbers: &[Rounds]) -> Rounds {
    let mean = |(round, _): &(u32, f64)| {
        let values = numbers.iter().map(|rounds| at(rounds, *round));
        let values: Option<Vec<f64>> = values.collect();
        Some((*round, geometric_mean(&values?)))
    };
    let first = numbers.first().into_iter().flatten();
    first.filter_map(mean).collect()
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
fn text(numbers: &[Rounds], interval: &Interval, suffix: &str) -> String {
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
        .filter_map(|rounds| Interval::of_median(&values(rounds)));
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
