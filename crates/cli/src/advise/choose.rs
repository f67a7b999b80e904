//! The choice: one score a method, from five measured quantities and stated weights, and a sentence
//! of reasons.
//!
//! A quantity's goodness is the best method's value divided by this one's, so it is 1 for the best.
//! A score is the product of the goodnesses to the power of their weights, so "twice as slow" costs
//! the same at any level. Differences too small to notice do not count: each quantity has a floor
//! below which methods are equal. Methods whose score is within the margin of the best are called
//! equally good, and the balanced weights decide among them.

use super::model::{Estimate, Spread};
use crate::args::Preference;
use crate::output::{bytes, duration, whole};

/// Scores this close to the best are equally good.
const MARGIN: f64 = 0.97;
/// Ratio from which a difference is mentioned.
const WORTH: f64 = 1.05;

/// A quantity by which methods are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    Throughput,
    Latency,
    Wear,
    Space,
    Recovery,
}

impl Quantity {
    pub(super) const ALL: [Self; 5] = [
        Self::Throughput,
        Self::Latency,
        Self::Wear,
        Self::Space,
        Self::Recovery,
    ];

    /// Costs of a method, less is better; at least the floor.
    fn cost(self, estimate: &Estimate) -> Spread {
        let spread = match self {
            Self::Throughput => estimate.txn_per_s.inverse(1e6),
            Self::Latency => estimate.p99_us,
            Self::Wear => Spread::exact(estimate.written_bytes),
            Self::Space => Spread::exact(estimate.footprint_bytes),
            Self::Recovery => estimate.recovery_ms,
        };
        let floor = self.floor();
        Spread {
            low: spread.low.max(floor),
            value: spread.value.max(floor),
            high: spread.high.max(floor),
        }
    }

    /// One hundredth of a microsecond; a line of 64 bytes; a MiB; 10 ms, which the paper calls
    /// instant.
    fn floor(self) -> f64 {
        match self {
            Self::Throughput | Self::Latency => 0.01,
            Self::Wear => 64.0,
            Self::Space => 1_048_576.0,
            Self::Recovery => 10.0,
        }
    }

    /// The weight of the balanced objective, in percent.
    pub(super) fn weight(self) -> u32 {
        match self {
            Self::Throughput => 40,
            Self::Latency => 20,
            Self::Wear | Self::Space => 15,
            Self::Recovery => 10,
        }
    }

    /// The advantage of a method in this quantity, in words.
    fn phrase(self, estimate: &Estimate) -> String {
        match self {
            Self::Throughput => format!("{} transactions/s", whole(estimate.txn_per_s.value)),
            Self::Latency => format!("a p99 of {}", duration(estimate.p99_us.value)),
            Self::Wear => format!("{:.0} bytes written/transaction", estimate.written_bytes),
            Self::Space => format!("a footprint of {}", size(estimate.footprint_bytes)),
            Self::Recovery => format!("recovery in {}", duration(estimate.recovery_ms.value * 1e3)),
        }
    }

    /// `2.3x the throughput`, of a method whose cost is `ratio` times the other's.
    fn comparison(self, ratio: f64) -> String {
        let times = |ratio: f64| format!("{}x", short(ratio));
        match self {
            Self::Throughput if ratio < 1.0 => format!("{} the throughput", times(1.0 / ratio)),
            Self::Throughput => format!("{:.0} % of the throughput", 100.0 / ratio),
            Self::Latency => format!("{} the p99", times(ratio)),
            Self::Wear => format!("{} the bytes written", times(ratio)),
            Self::Space => format!("{} the space", times(ratio)),
            Self::Recovery => format!("{} the recovery time", times(ratio)),
        }
    }
}

/// A method with its score.
#[derive(Clone, Debug)]
pub(super) struct Judged {
    pub(super) estimate: Estimate,
    /// By the user's objective, 1 at best.
    pub(super) score: f64,
    /// By the balanced weights.
    pub(super) balanced: f64,
    /// One sentence.
    pub(super) why: String,
}

/// The answer.
pub(super) struct Advice {
    pub(super) preference: Preference,
    /// Best first; the first is recommended.
    pub(super) judged: Vec<Judged>,
    /// Number of methods, from the first on, that the objective cannot tell apart.
    pub(super) equally_good: usize,
    /// Whether the spread of the rounds is wider than the lead over the next method that is not
    /// equally good.
    pub(super) is_close: bool,
}

impl Advice {
    /// Judges the methods; there must be one.
    pub(super) fn new(preference: Preference, estimates: &[Estimate]) -> Self {
        let mut judged: Vec<Judged> = estimates
            .iter()
            .map(|estimate| Judged {
                estimate: estimate.clone(),
                score: score(preference, estimate, estimates),
                balanced: score(Preference::Balanced, estimate, estimates),
                why: String::new(),
            })
            .collect();
        judged.sort_by(|a, b| {
            b.score
                .total_cmp(&a.score)
                .then(b.balanced.total_cmp(&a.balanced))
        });
        let bar = judged[0].score * MARGIN;
        let equally_good = judged.iter().take_while(|one| one.score >= bar).count();
        judged[..equally_good].sort_by(|a, b| b.balanced.total_cmp(&a.balanced));
        let is_close = judged.get(equally_good).is_some_and(|next| {
            optimistic(preference, &next.estimate, estimates)
                >= pessimistic(preference, &judged[0].estimate, estimates)
        });
        let chosen = judged[0].estimate.clone();
        let others = judged.len() > 1;
        judged[0].why = praise(&chosen, estimates, others);
        for one in &mut judged[1..] {
            one.why = comparison(&one.estimate, &chosen);
        }
        Self {
            preference,
            judged,
            equally_good,
            is_close,
        }
    }
}

/// Weights of an objective, in percent.
fn weight(preference: Preference, quantity: Quantity) -> u32 {
    let only = match preference {
        Preference::Balanced => return quantity.weight(),
        Preference::Throughput => Quantity::Throughput,
        Preference::Latency => Quantity::Latency,
        Preference::Space => Quantity::Space,
        Preference::Wear => Quantity::Wear,
        Preference::Recovery => Quantity::Recovery,
    };
    if only == quantity { 100 } else { 0 }
}

/// The objective in words.
pub(super) fn objective(preference: Preference) -> String {
    let name = |quantity| match quantity {
        Quantity::Throughput => "throughput",
        Quantity::Latency => "p99 latency",
        Quantity::Wear => "bytes written",
        Quantity::Space => "space",
        Quantity::Recovery => "recovery time",
    };
    let weights: Vec<String> = Quantity::ALL
        .into_iter()
        .map(|quantity| (quantity, weight(preference, quantity)))
        .filter(|(_, weight)| *weight > 0)
        .map(|(quantity, weight)| format!("{} {weight} %", name(quantity)))
        .collect();
    weights.join(", ")
}

fn score(preference: Preference, estimate: &Estimate, all: &[Estimate]) -> f64 {
    score_of(preference, all, |quantity| quantity.cost(estimate).value)
}

/// The score if every quantity were at the better end of its spread.
fn optimistic(preference: Preference, estimate: &Estimate, all: &[Estimate]) -> f64 {
    score_of(preference, all, |quantity| quantity.cost(estimate).low)
}

/// The score if every quantity were at the worse end of its spread.
fn pessimistic(preference: Preference, estimate: &Estimate, all: &[Estimate]) -> f64 {
    score_of(preference, all, |quantity| quantity.cost(estimate).high)
}

fn score_of(preference: Preference, all: &[Estimate], cost: impl Fn(Quantity) -> f64) -> f64 {
    Quantity::ALL
        .into_iter()
        .map(|quantity| {
            let costs = all.iter().map(|other| quantity.cost(other).value);
            let best = costs.fold(f64::INFINITY, f64::min);
            let weight = f64::from(weight(preference, quantity)) / 100.0;
            (best / cost(quantity)).powf(weight)
        })
        .product()
}

/// Why the chosen method: where it is the best, and its weakest point.
fn praise(chosen: &Estimate, all: &[Estimate], others: bool) -> String {
    if !others {
        return "it was the only method to compare".into();
    }
    let lead = |quantity: Quantity| {
        let other = all.iter().filter(|other| other.method != chosen.method);
        let next = other.min_by(|a, b| quantity.cost(a).value.total_cmp(&quantity.cost(b).value));
        next.map(|next| {
            (
                next,
                quantity.cost(next).value / quantity.cost(chosen).value,
            )
        })
    };
    let (mut best, mut weakest) = (Vec::new(), None::<(f64, String)>);
    for quantity in Quantity::ALL {
        let Some((next, ratio)) = lead(quantity) else {
            continue;
        };
        if ratio >= WORTH {
            let phrase = quantity.phrase(chosen);
            best.push(format!(
                "{phrase} ({}, the next: {})",
                next.method,
                quantity.phrase(next)
            ));
        } else if ratio <= 1.0 / WORTH && weakest.as_ref().is_none_or(|(worst, _)| ratio < *worst) {
            let text = format!("{} of {}", quantity.comparison(1.0 / ratio), next.method);
            weakest = Some((ratio, text));
        }
    }
    let best = match best.as_slice() {
        [] => "first in no quantity alone, best in the weighted whole".into(),
        best => format!("best: {}", best.join("; ")),
    };
    match weakest {
        Some((_, text)) => format!("{best}; its weakest point: {text}"),
        None => format!("{best}; nowhere worse than another"),
    }
}

/// Why not another method: its greatest loss against the chosen one, and its greatest gain.
fn comparison(other: &Estimate, chosen: &Estimate) -> String {
    let ratio = |quantity: Quantity| quantity.cost(other).value / quantity.cost(chosen).value;
    let weighted = |quantity: &Quantity| ratio(*quantity).ln() * f64::from(quantity.weight());
    let by_loss = |a: &Quantity, b: &Quantity| weighted(a).total_cmp(&weighted(b));
    let worst = Quantity::ALL.into_iter().max_by(by_loss);
    let best = Quantity::ALL.into_iter().min_by(by_loss);
    let named = |quantity: Option<Quantity>, worth: fn(f64) -> bool| {
        quantity
            .filter(|quantity| worth(ratio(*quantity)))
            .map(|quantity| quantity.comparison(ratio(quantity)))
    };
    let worst = named(worst, |ratio| ratio >= WORTH);
    let best = named(best, |ratio| ratio <= 1.0 / WORTH);
    let method = chosen.method;
    match (worst, best) {
        (Some(worst), Some(best)) => format!("{worst} of {method}, for {best}"),
        (Some(worst), None) => format!("{worst} of {method}, and nothing better"),
        (None, Some(best)) => format!("{best} of {method}, and nothing much worse"),
        (None, None) => format!("as {method} in everything that counts"),
    }
}

/// A size of an estimate.
pub(super) fn size(count: f64) -> String {
    #[expect(clippy::cast_sign_loss, reason = "estimates are not negative")]
    let whole = count.max(0.0).round() as u64;
    bytes(whole)
}

/// A ratio in few characters.
fn short(ratio: f64) -> String {
    if ratio >= 10.0 {
        format!("{ratio:.0}")
    } else {
        format!("{ratio:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indelible::Method;

    fn estimate(
        method: Method,
        txn_per_s: f64,
        written_bytes: f64,
        footprint_bytes: f64,
    ) -> Estimate {
        Estimate {
            method,
            txn_per_s: Spread::exact(txn_per_s),
            p99_us: Spread::exact(5.0),
            written_bytes,
            loads: 1.0,
            fences: 1.0,
            hottest_writes: 1.0,
            footprint_bytes,
            recovery_ms: Spread::exact(1.0),
            recovery_grows: false,
            hottest_years: 1.0,
            level_years: 1.0,
            points: Vec::new(),
            validation: None,
        }
    }

    fn three() -> Vec<Estimate> {
        vec![
            estimate(Method::NvmInp, 100_000.0, 400.0, 3e9),
            estimate(Method::Log, 50_000.0, 800.0, 1e9),
            estimate(Method::NvmCow, 99_000.0, 200.0, 3e9),
        ]
    }

    fn first(preference: Preference) -> Method {
        Advice::new(preference, &three()).judged[0].estimate.method
    }

    #[test]
    fn the_objective_decides() {
        // Both are within the margin; the balanced weights prefer fewer bytes.
        assert_eq!(first(Preference::Throughput), Method::NvmCow);
        assert_eq!(first(Preference::Space), Method::Log);
        assert_eq!(first(Preference::Wear), Method::NvmCow);
        let advice = Advice::new(Preference::Throughput, &three());
        assert_eq!(advice.equally_good, 2);
        assert!(!advice.is_close);
    }

    #[test]
    fn reasons_name_the_quantities() {
        let advice = Advice::new(Preference::Space, &three());
        assert!(
            advice.judged[0].why.contains("footprint"),
            "{}",
            advice.judged[0].why
        );
        assert!(
            advice.judged[0].why.contains("weakest"),
            "{}",
            advice.judged[0].why
        );
        for one in &advice.judged[1..] {
            assert!(one.why.contains("of log"), "{}", one.why);
        }
    }

    #[test]
    fn a_lead_within_the_spread_is_called_close() {
        let mut estimates = three();
        estimates[1].txn_per_s = Spread {
            low: 50_000.0,
            value: 80_000.0,
            high: 101_000.0,
        };
        assert!(Advice::new(Preference::Throughput, &estimates).is_close);
    }

    #[test]
    fn small_differences_of_small_things_do_not_count() {
        let mut estimates = three();
        estimates[0].recovery_ms = Spread::exact(0.2);
        estimates[1].recovery_ms = Spread::exact(9.0);
        let advice = Advice::new(Preference::Recovery, &estimates);
        assert_eq!(advice.equally_good, 3);
    }

    #[test]
    fn weights_add_up() {
        let sum: u32 = Quantity::ALL.into_iter().map(Quantity::weight).sum();
        assert_eq!(sum, 100);
    }
}
