//! The control point: a point that each round measures twice.
//!
//! A run whose control does not agree with itself was made on too noisy a machine, and its figure
//! says so.

use super::rows::{Metrics, Sample};
use super::statistics::median;
use serde::{Deserialize, Serialize};

/// Largest difference of a control point from itself, as the median over the rounds, on a machine
/// that is quiet enough.
pub(crate) const CONTROL_DIFFERENCE_MAX: f64 = 0.1;
/// The metrics by which a control point is compared with itself; the first that it has.
pub const CONTROL_METRICS: [&str; 5] = [
    "txn_per_cpu_s",
    "tuples_per_cpu_s",
    "chunk_ns",
    "recovery_ms",
    "device_bytes",
];

/// A point that each round measured twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Control {
    /// Hash of its configuration.
    pub config: String,
    /// The number that is compared.
    pub metric: String,
    /// The second measurement divided by the first, a round each.
    pub ratios: Vec<f64>,
}

impl Control {
    /// The control point's second measurements against its first ones.
    pub fn of(config: String, first: &[Sample], again: &[Sample]) -> Option<Self> {
        let has =
            |metrics: &Metrics, name: &str| metrics.get(name).is_some_and(|value| *value > 0.0);
        let pairs = || first.iter().zip(again);
        let metric = CONTROL_METRICS.into_iter().find(|name| {
            let mut both = pairs().map(|(a, b)| has(&a.metrics, name) && has(&b.metrics, name));
            both.next().is_some_and(|first| first) && both.all(|has| has)
        })?;
        Some(Self {
            config,
            metric: metric.into(),
            ratios: pairs()
                .map(|(a, b)| b.metrics[metric] / a.metrics[metric])
                .collect(),
        })
    }

    /// How far the control point is from itself: the median over the rounds of the greater part of
    /// a ratio, less one.
    pub fn difference(&self) -> f64 {
        let far = |ratio: &f64| ratio.max(1.0 / ratio.max(1e-9)) - 1.0;
        let mut differences: Vec<f64> = self.ratios.iter().map(far).collect();
        median(&mut differences).unwrap_or(0.0)
    }

    /// Whether the machine was quiet enough.
    pub fn agrees(&self) -> bool {
        self.difference() <= CONTROL_DIFFERENCE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::conditions::Conditions;

    #[test]
    fn a_control_point_is_compared_with_itself() {
        let sample = |value: f64| Sample {
            round: 0,
            order: 0,
            conditions: Conditions::default(),
            counters: Metrics::new(),
            metrics: Metrics::from([("chunk_ns".into(), value), ("other".into(), 1.0)]),
        };
        let of = |again: [f64; 3]| {
            let again = again.map(sample);
            Control::of(String::new(), &[100.0, 100.0, 100.0].map(sample), &again).unwrap()
        };
        let quiet = of([101.0, 97.0, 140.0]);
        assert_eq!(quiet.metric, "chunk_ns");
        assert!(quiet.agrees() && (quiet.difference() - 0.0309).abs() < 1e-3);
        assert!(!of([80.0, 125.0, 100.0]).agrees());
        assert!(Control::of(String::new(), &[], &[]).is_none());
    }
}
