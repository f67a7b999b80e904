//! How sysbench draws ids: five distributions over a range, with the parameters that it has by
//! default.
//!
//! The formulas are those of `sb_rand.c` in version 1.0.20; `zipfian` is not in 1.0 and is that of
//! the development line. Quirks of a formula are kept and documented. `pareto` and `zipfian` take
//! powers, which a mathematical library may round differently in the last bit. So their lists are
//! always the same on one machine, and all but a rare number are the same on all machines.

use crate::random::Random;
use std::str::FromStr;

/// Numbers that `gaussian` takes the mean of (`--rand-spec-iter`).
const ITERATIONS: u32 = 12;
/// Percentage of ids that are hot in `special`; they are in the middle (`--rand-spec-pct`).
const SPECIAL_PERCENT: f64 = 1.0;
/// How many of a hundred draws of `special` are hot (`--rand-spec-res`).
const SPECIAL_DRAWS_PERCENT: f64 = 75.0;
/// `h` of `pareto` (`--rand-pareto-h`): a share 1 - h of the draws has a share h of the ids.
const PARETO_H: f64 = 0.2;
/// Exponent of `zipfian` (`--rand-zipfian-exp`).
const ZIPFIAN_EXPONENT: f64 = 0.8;

/// How ids are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Each as often as the others.
    Uniform,
    /// A bell around the middle: the mean of twelve even numbers.
    Gaussian,
    /// A quarter of the draws as `gaussian`; three quarters uniformly from a hundredth of the ids,
    /// a little above the middle. The default of sysbench 1.0.
    Special,
    /// The first fifth has four fifths of the draws, and so on within it.
    Pareto,
    /// The id of rank r, which is the r-th, in proportion to r to the power of -0.8.
    Zipfian,
}

impl Distribution {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Uniform,
        Self::Gaussian,
        Self::Special,
        Self::Pareto,
        Self::Zipfian,
    ];

    /// The name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Gaussian => "gaussian",
            Self::Special => "special",
            Self::Pareto => "pareto",
            Self::Zipfian => "zipfian",
        }
    }
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|one| one.name() == name);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("unknown distribution `{name}`; use one of {names}")
        })
    }
}

/// A distribution over `0..count`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draw {
    distribution: Distribution,
    count: u32,
    /// Of `zipfian`: where its sampling begins and ends, and up to which distance a rank is taken
    /// without another look.
    first: f64,
    last: f64,
    near: f64,
}

impl Draw {
    /// `count` must not be 0.
    pub(super) fn new(distribution: Distribution, count: u32) -> Self {
        Self {
            distribution,
            count,
            first: area(1.5) - 1.0,
            last: area(f64::from(count) + 0.5),
            near: 2.0 - area_reversed(area(2.5) - height(2.0)),
        }
    }

    /// The next number.
    pub(super) fn draw(&self, random: &mut Random) -> u32 {
        let count = f64::from(self.count);
        let drawn = match self.distribution {
            Distribution::Uniform => even(random) * count,
            Distribution::Gaussian => bell(random) * count,
            Distribution::Special => special(random, count - 1.0),
            Distribution::Pareto => {
                count * even(random).powf(PARETO_H.ln() / (1.0 - PARETO_H).ln())
            }
            Distribution::Zipfian => self.rank(random) - 1.0,
        };
        // Rounding may reach the bound.
        u32::try_from(drawn as i64).map_or(0, |number| number.min(self.count - 1))
    }

    /// A rank from 1 by rejection-inversion (Hörmann and Derflinger, 1996): a point under a curve
    /// that covers the bars of the distribution is inverted to the nearest rank, and drawn again
    /// where it lies above that rank's bar.
    fn rank(&self, random: &mut Random) -> f64 {
        loop {
            let point = self.last + even(random) * (self.first - self.last);
            let at = area_reversed(point);
            let rank = at.round().clamp(1.0, f64::from(self.count));
            if rank - at <= self.near || point >= area(rank + 0.5) - height(rank) {
                return rank;
            }
        }
    }
}

/// An even number from 0 to 1, with 53 bits.
fn even(random: &mut Random) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// The mean of some even numbers.
fn bell(random: &mut Random) -> f64 {
    let sum: f64 = (0..ITERATIONS).map(|_| even(random)).sum();
    sum / f64::from(ITERATIONS)
}

/// `special` over `0..=width`. One number decides between bell and hot ids and then selects the hot
/// id, when it is at least a quarter; so the lowest quarter of the hot ids is never drawn. sysbench
/// does the same.
fn special(random: &mut Random, width: f64) -> f64 {
    let decides = even(random);
    if decides * width * (100.0 / (100.0 - SPECIAL_DRAWS_PERCENT)) < width {
        return bell(random) * width;
    }
    let hot = width * SPECIAL_PERCENT / 100.0;
    let first = width / 2.0 - width * SPECIAL_PERCENT / 200.0;
    first + decides * (hot + 1.0)
}

/// The height of a rank's bar.
fn height(rank: f64) -> f64 {
    rank.powf(-ZIPFIAN_EXPONENT)
}

/// The integral of [`height`] from 1.
fn area(to: f64) -> f64 {
    let power = 1.0 - ZIPFIAN_EXPONENT;
    (to.powf(power) - 1.0) / power
}

/// Up to where the integral is so much.
fn area_reversed(area: f64) -> f64 {
    let power = 1.0 - ZIPFIAN_EXPONENT;
    (area * power + 1.0).max(0.0).powf(1.0 / power)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 200_000;

    /// How often each of `count` numbers was drawn.
    fn drawn(distribution: Distribution, count: u32) -> Vec<u32> {
        let draw = Draw::new(distribution, count);
        let mut random = Random::new(11);
        let mut seen = vec![0; count as usize];
        for _ in 0..DRAWS {
            seen[draw.draw(&mut random) as usize] += 1;
        }
        seen
    }

    /// Fails unless counts fit shares: their chi-square is at most five standard deviations above
    /// its mean.
    fn fits(seen: &[u32], shares: &[f64]) {
        assert_eq!(seen.len(), shares.len());
        let sum: f64 = shares.iter().sum();
        let statistic: f64 = seen
            .iter()
            .zip(shares)
            .map(|(seen, share)| {
                let expected = f64::from(DRAWS) * share / sum;
                assert!(expected > 5.0, "bins must be larger");
                (f64::from(*seen) - expected).powi(2) / expected
            })
            .sum();
        let freedom = seen.len() as f64 - 1.0;
        let most = freedom + 5.0 * (2.0 * freedom).sqrt();
        assert!(statistic < most, "chi-square {statistic} of {freedom}");
        assert!(
            statistic > freedom - 5.0 * (2.0 * freedom).sqrt(),
            "too even: {statistic}"
        );
    }

    /// Sums of ten equal parts.
    fn tenths(seen: &[u32]) -> Vec<u32> {
        seen.chunks(seen.len() / 10)
            .map(|part| part.iter().sum())
            .collect()
    }

    #[test]
    fn uniform_is_even() {
        fits(&drawn(Distribution::Uniform, 100), &[1.0; 100]);
    }

    /// The mean of n uniform numbers has mean 1/2 and variance 1/12n; twelve of them are a normal
    /// distribution but for its far ends.
    #[test]
    fn gaussian_is_the_mean_of_twelve() {
        let seen = drawn(Distribution::Gaussian, 1000);
        moments_of_a_bell(&seen, 1000.0);
        // Share within one and two standard deviations, of the distribution of Irwin and Hall for
        // twelve.
        let within = |deviations: usize| {
            let half = deviations * 1000 / 12;
            let middle = &seen[500 - half..500 + half];
            f64::from(middle.iter().sum::<u32>()) / f64::from(DRAWS)
        };
        assert!((within(1) - 0.680).abs() < 0.008, "{}", within(1));
        assert!((within(2) - 0.957).abs() < 0.008, "{}", within(2));
    }

    fn moments_of_a_bell(seen: &[u32], count: f64) {
        let draws: f64 = seen.iter().map(|seen| f64::from(*seen)).sum();
        let moment = |of: &dyn Fn(f64) -> f64| {
            let numbers = (0..).zip(seen);
            let sum: f64 = numbers
                .map(|(at, seen)| of(f64::from(at) + 0.5) * f64::from(*seen))
                .sum();
            sum / draws
        };
        let mean = moment(&|x| x);
        let variance = moment(&|x| (x - mean).powi(2));
        let expected = count * count / 144.0;
        assert!((mean - count / 2.0).abs() < count / 200.0, "mean {mean}");
        assert!(
            (variance / expected - 1.0).abs() < 0.03,
            "variance {variance}"
        );
    }

    #[test]
    fn special_is_hot_in_the_middle_and_a_bell_elsewhere() {
        let mut seen = drawn(Distribution::Special, 10_000);
        // Of a width of 9999 the hot part begins at 4949.5 + 0.25 * 101 and ends at 4949.5 + 101.
        let (below, above) = (4974, 5051);
        let hot: u32 = seen[below..above].iter().sum();
        // Three quarters, and the bell's share of 77 ids: 77 / 9999 * 12 / sqrt(2 pi) of a quarter.
        let share = f64::from(hot) / f64::from(DRAWS);
        assert!((share - 0.7592).abs() < 0.005, "{share}");
        let of_each = f64::from(DRAWS) * 0.75 / 75.75;
        for count in &seen[below + 1..above - 1] {
            let more = f64::from(*count) - of_each;
            assert!(more.abs() < 6.0 * of_each.sqrt(), "{count}, not {of_each}");
        }
        // Without the hot ids it is the bell of `gaussian`.
        seen[below..above].fill(0);
        let rest: u32 = seen.iter().sum();
        let share = f64::from(rest) / f64::from(DRAWS);
        assert!((share - 0.2408).abs() < 0.005, "{share}");
        let left: u32 = seen[..below].iter().sum();
        let balance = f64::from(left) / f64::from(rest);
        assert!((balance - 0.492).abs() < 0.015, "{balance}");
    }

    #[test]
    fn pareto_gives_a_fifth_four_fifths() {
        let seen = drawn(Distribution::Pareto, 10_000);
        let up_to = |count: usize| f64::from(seen[..count].iter().sum::<u32>()) / f64::from(DRAWS);
        // The first of a share x have x to the power of ln(1 - h) / ln h of the draws.
        for (count, share) in [(2000, 0.8), (400, 0.64), (80, 0.512), (16, 0.4096)] {
            assert!(
                (up_to(count) - share).abs() < 0.005,
                "{count}: {}",
                up_to(count)
            );
        }
        let power = 0.8_f64.ln() / 0.2_f64.ln();
        let shares: Vec<f64> = (0..10)
            .map(|at| f64::from(at + 1) / 10.0)
            .map(|end| end.powf(power) - (end - 0.1).max(0.0).powf(power))
            .collect();
        fits(&tenths(&seen), &shares);
    }

    #[test]
    fn zipfian_falls_with_the_rank_to_the_power_of_its_exponent() {
        let shares: Vec<f64> = (1..=1000).map(|rank| f64::from(rank).powf(-0.8)).collect();
        fits(&drawn(Distribution::Zipfian, 1000), &shares);
        fits(&drawn(Distribution::Zipfian, 2), &shares[..2]);
    }

    #[test]
    fn every_distribution_stays_in_its_range() {
        for distribution in Distribution::ALL {
            for count in [1, 2, 3, 7] {
                let seen = drawn(distribution, count);
                assert_eq!(seen.iter().sum::<u32>(), DRAWS);
                // The ends of a bell are as good as never drawn.
                let has_bell =
                    matches!(distribution, Distribution::Gaussian | Distribution::Special);
                let is_whole = seen.iter().all(|seen| *seen > 0);
                assert!(
                    has_bell || is_whole,
                    "{} of {count}: {seen:?}",
                    distribution.name()
                );
            }
            assert_eq!(distribution.name().parse(), Ok(distribution));
        }
        assert!(
            "zipf"
                .parse::<Distribution>()
                .unwrap_err()
                .contains("zipfian")
        );
    }
}
