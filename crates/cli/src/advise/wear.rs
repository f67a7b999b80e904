//! The most written line of a database, from those of small ones.
//!
//! In a run on *n* rows each row is written a few times only, and the one with the most writes had
//! them by chance: of 16,000 rows that are written once on average, one is written eight times. The
//! next run writes other rows so often, and after years all have had their mean. So the writes that
//! chance adds are taken off, and where two of the runs say that rows share the writes, a third
//! that does not had chance against it. A root, or a row that really is hot, is written as often
//! for a transaction in each run, and more often than chance makes any.

use super::line::Line;

/// Halvings of an interval, beyond which a number of 64 bits has no more places.
const HALVINGS: usize = 60;
/// A term of a sum that is this small beside the first ends it.
const NEGLIGIBLE: f64 = 1e-12;

/// The most written line of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct MostWritten {
    pub(super) rows: f64,
    pub(super) transactions: f64,
    /// How often it was written.
    pub(super) writes: f64,
}

/// Writes of the most written line for a transaction, with so many rows: a + b / *n*, neither
/// negative.
pub(super) fn expected(runs: &[MostWritten], rows: f64) -> f64 {
    let Some(last) = runs.last() else {
        return 0.0;
    };
    let mean = |run: &MostWritten| without_chance(run.writes, run.rows);
    let by_chance = last.writes - mean(last);
    if fitted(runs, mean).at(1.0 / rows) * last.transactions > by_chance {
        // A line apart, whose writes are all its own.
        return fitted(runs, |run| run.writes).at(1.0 / rows);
    }
    let pairs = (1..runs.len()).flat_map(|later| (0..later).map(move |first| [first, later]));
    pairs
        .map(|pair| fitted(&pair.map(|run| runs[run]), mean).at(1.0 / rows))
        .fold(f64::INFINITY, f64::min)
}

/// The line of least squares through what the runs say for a transaction, or the one from zero
/// where it would begin below.
fn fitted(runs: &[MostWritten], writes: impl Fn(&MostWritten) -> f64) -> Line {
    let points: Vec<(f64, f64)> = runs
        .iter()
        .map(|run| (1.0 / run.rows, writes(run) / run.transactions))
        .collect();
    let line = Line::rising(points.iter().copied());
    if line.start >= 0.0 {
        return line;
    }
    let products = points.iter().map(|(x, y)| x * y).sum::<f64>();
    let squares = points.iter().map(|(x, _)| x * x).sum::<f64>();
    Line {
        start: 0.0,
        slope: products / squares,
    }
}

/// The mean with which the most of `lines` evenly written lines is as often above `most` as below.
fn without_chance(most: f64, lines: f64) -> f64 {
    let (mut low, mut high) = (0.0, most);
    for _ in 0..HALVINGS {
        let mean = f64::midpoint(low, high);
        if lines * reached(most, mean) < std::f64::consts::LN_2 {
            low = mean;
        } else {
            high = mean;
        }
    }
    low
}

/// The probability that a count of this mean is above `most`, and half of that to be equal.
fn reached(most: f64, mean: f64) -> f64 {
    let numbers = std::iter::successors(Some(1.0), |number| Some(number + 1.0));
    let factorial: f64 = numbers
        .take_while(|&number| number <= most)
        .map(f64::ln)
        .sum();
    let equal = (most * mean.ln() - mean - factorial).exp();
    let (mut term, mut count, mut sum) = (equal, most, equal / 2.0);
    while term > equal * NEGLIGIBLE {
        count += 1.0;
        term *= mean / count;
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use workload::random::Random;

    const ROWS: f64 = 2e6;

    /// Runs on rows that are written evenly, beside a line that has `hot` of the writes.
    fn runs(seed: u64, hot: f64) -> [MostWritten; 3] {
        let mut random = Random::new(seed);
        [4_000, 8_000, 16_000].map(|rows: u64| {
            let mut counts = vec![0_u32; rows as usize];
            for _ in 0..rows {
                counts[random.below(rows) as usize] += 1;
            }
            let row = counts.iter().copied().max().map_or(0.0, f64::from);
            MostWritten {
                rows: rows as f64,
                transactions: rows as f64,
                writes: row.max((hot * rows as f64).round()),
            }
        })
    }

    #[test]
    fn rows_that_are_written_evenly_share_the_writes() {
        for seed in 0..100 {
            let found = expected(&runs(seed, 0.0), ROWS);
            // Each has 1 / ROWS. In the largest run alone the first row had 4e-4 or more.
            assert!((0.2 / ROWS..5e-5).contains(&found), "{seed}: {found}");
        }
    }

    #[test]
    fn a_line_that_is_hot_stays_hot() {
        for hot in [0.5, 0.05, 0.01] {
            let found = expected(&runs(7, hot), ROWS);
            assert!((found / hot - 1.0).abs() < 0.02, "{hot}: {found}");
        }
    }

    #[test]
    fn what_chance_adds_is_taken_off() {
        assert!(without_chance(0.0, 1e4).abs() < 1e-9);
        // 16,000 lines with one write each on average: the first has seven or eight.
        let mean = without_chance(7.5, 16_000.0);
        assert!((0.7..1.3).contains(&mean), "{mean}");
        let many = without_chance(10_000.0, 16_000.0);
        assert!((9_500.0..10_000.0).contains(&many), "{many}");
    }
}
