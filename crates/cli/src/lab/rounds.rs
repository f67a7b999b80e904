//! Measuring points in rounds, so that the drift of the machine meets all of them alike.
//!
//! The points of an experiment are made ready, as many as may be loaded together; then each round
//! measures every one of them once, in an order of its own that is drawn from the seed. The first
//! point is the *control*: each round measures it a second time, at a place drawn as well. Rows are
//! written when the last round of their points is over.

use super::kinds::{self, Ready};
use crate::machine::{self, COMMIT};
use anyhow::{Context, Result};
use lab::control::Control;
use lab::point::{Point, hash};
use lab::rows::{LabRow, Sample};
use lab::size::Size;
use measure::conditions::{Conditions, ProcessorTime};
use measure::counters::Counters;
use std::path::Path;
use workload::random::Random;

/// A point with its measurements so far.
struct Turn<'p> {
    point: &'p Point,
    ready: Box<dyn Ready + 'p>,
    samples: Vec<Sample>,
}

impl Turn<'_> {
    /// Measures once.
    fn take(&mut self, round: u32, order: u32) -> Result<Sample> {
        let (before, counters) = (ProcessorTime::now(), Counters::begin());
        let metrics = self.ready.measure()?;
        Ok(Sample {
            round,
            order,
            conditions: Conditions::since(before),
            counters: counters.end(),
            metrics,
        })
    }
}

/// Measures points that may be loaded together; databases are made under `parent`. `tell` hears of
/// each point that is being made ready, and of each round.
pub(super) fn measure(
    points: &[Point],
    size: &Size,
    parent: &Path,
    mut tell: impl FnMut(Option<&Point>, u32),
) -> Result<Vec<LabRow>> {
    let problem = |point: &Point| format!("`{}`", point.configuration(size));
    let mut turns = Vec::new();
    for point in points {
        tell(Some(point), 0);
        let ready = kinds::prepare(point, size, parent).with_context(|| problem(point))?;
        turns.push(Turn {
            point,
            ready,
            samples: Vec::new(),
        });
    }
    let seed = points.first().map_or(0, |point| point.seed);
    let mut random = Random::new(seed);
    let (mut again, mut order) = (Vec::new(), 0);
    for round in 0..size.rounds_taken() {
        tell(None, round);
        for (turn, is_again) in shuffled(turns.len(), &mut random) {
            let turn = &mut turns[turn];
            let sample = turn.take(round, order);
            let sample = sample.with_context(|| problem(turn.point))?;
            order += 1;
            if is_again {
                again.push(sample);
            } else {
                turn.samples.push(sample);
            }
        }
    }
    let control = turns.first().and_then(|first| {
        let config = hash(&first.point.configuration(size));
        Control::of(config, &first.samples, &again)
    });
    let mut rows = Vec::new();
    for turn in turns {
        turn.ready.finish().with_context(|| problem(turn.point))?;
        let made = (COMMIT, machine::here(parent));
        let mut row = LabRow::new(turn.point, size, turn.samples, made);
        row.control.clone_from(&control);
        rows.push(row);
    }
    Ok(rows)
}

/// All points in a drawn order, and the first of them once more after its own turn.
fn shuffled(count: usize, random: &mut Random) -> Vec<(usize, bool)> {
    let mut below = |bound: usize| random.below(bound as u64) as usize;
    let mut order: Vec<usize> = (0..count).collect();
    for end in (1..count).rev() {
        order.swap(end, below(end + 1));
    }
    let mut order: Vec<_> = order.into_iter().map(|turn| (turn, false)).collect();
    if let Some(own) = order.iter().position(|(turn, _)| *turn == 0)
        && count > 1
    {
        let after = own + 1;
        order.insert(after + below(count - own), (0, true));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_every_point_once_and_the_control_twice() {
        let mut random = Random::new(5);
        let mut orders = std::collections::HashSet::new();
        for _ in 0..50 {
            let order = shuffled(6, &mut random);
            let of = |turn| order.iter().filter(move |(own, _)| *own == turn);
            assert_eq!(order.len(), 7);
            assert_eq!(
                of(0).map(|(_, again)| *again).collect::<Vec<_>>(),
                [false, true]
            );
            assert!((1..6).all(|turn| of(turn).count() == 1));
            orders.insert(order);
        }
        assert!(orders.len() > 40, "the order differs from round to round");
        assert_eq!(shuffled(1, &mut random), [(0, false)]);
    }
}
