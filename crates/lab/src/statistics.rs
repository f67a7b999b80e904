//! Intervals from the rounds of a run.
//!
//! A statement has one number a round: a metric, or a ratio of two points that were measured in the
//! same round, so that the drift of the machine meets both. The estimate is the median over the
//! rounds; its 95 % interval is the percentile bootstrap: medians of as many rounds drawn with
//! repetition, again and again. The draws have a fixed seed, so that a report is made twice alike.

use workload::random::Random;

/// Medians of drawn rounds.
const DRAWS: usize = 2000;
const SEED: u64 = 34;
/// One draw of so many lies outside of an interval, on each side.
const TAIL_PART: usize = 40;

/// An estimate with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Where the interval begins.
    pub low: f64,
    /// The estimate.
    pub value: f64,
    /// Where the interval ends.
    pub high: f64,
}

impl Interval {
    /// The median of the rounds; none if there are no rounds.
    pub fn of_median(rounds: &[f64]) -> Option<Self> {
        let value = median(&mut rounds.to_vec())?;
        let mut random = Random::new(SEED);
        let mut medians: Vec<f64> = (0..DRAWS)
            .filter_map(|_| {
                let draw = |_| rounds[random.below(rounds.len() as u64) as usize];
                let mut drawn: Vec<f64> = (0..rounds.len()).map(draw).collect();
                median(&mut drawn)
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        let outside = DRAWS / TAIL_PART;
        Some(Self {
            low: *medians.get(outside)?,
            value,
            high: *medians.get(DRAWS - 1 - outside)?,
        })
    }

    /// Whether the two have a number in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// The median; sorts the values.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let low = values.get(values.len().checked_sub(1)? / 2)?;
    Some(low.midpoint(values[values.len() / 2]))
}

/// The geometric mean; values that are not positive count as the least positive ones.
pub fn geometric_mean(values: &[f64]) -> f64 {
    let logarithms: f64 = values.iter().map(|value| value.max(1e-12).ln()).sum();
    (logarithms / values.len().max(1) as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 9.0]), Some(3.0));
        assert_eq!(median(&mut [5.0]), Some(5.0));
        assert_eq!(median(&mut []), None);
    }

    #[test]
    fn an_interval_holds_the_median_and_grows_with_the_spread() {
        let narrow = Interval::of_median(&[1.00, 1.01, 0.99, 1.02, 0.98]).unwrap();
        let wide = Interval::of_median(&[1.0, 1.5, 0.5, 1.9, 0.1]).unwrap();
        assert!(narrow.low <= 1.0 && 1.0 <= narrow.high && (narrow.value - 1.0).abs() < 1e-9);
        assert!(narrow.low >= 0.98 && narrow.high <= 1.02);
        assert!(narrow.overlaps(&wide) && wide.overlaps(&narrow));
        assert!(!narrow.overlaps(&Interval::of_median(&[1.03; 5]).unwrap()));
        assert!(wide.high - wide.low > 10.0 * (narrow.high - narrow.low));
        let exact = Interval::of_median(&[7.0; 5]).unwrap();
        assert_eq!((exact.low, exact.high), (7.0, 7.0));
        assert_eq!(Interval::of_median(&[]), None);
    }

    #[test]
    fn intervals_cover_the_true_median_about_as_often_as_they_say() {
        let mut random = Random::new(1);
        let mut uniform = || random.below(1 << 20) as f64 / f64::from(1 << 20);
        let cases = 400;
        let covered = (0..cases).filter(|_| {
            let rounds: Vec<f64> = (0..10).map(|_| uniform()).collect();
            let interval = Interval::of_median(&rounds).unwrap();
            interval.low <= 0.5 && 0.5 <= interval.high
        });
        let share = f64::from(u32::try_from(covered.count()).unwrap()) / f64::from(cases);
        assert!((0.88..=1.0).contains(&share), "{share}");
    }
}
