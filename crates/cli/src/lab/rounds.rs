//! Measuring points in rounds, so that the drift of the machine meets all of them alike.
//!
//! The points of an experiment are made ready, as many as may be loaded together; then each round
//! measures every one of them once, in an order of its own that is drawn from the seed. The first
//! point is the *control*: each round measures it a second time, at a place drawn as well. Rows are
//! written when the last round of their points is over.

use super::kinds::{self, KeptRelations, Ready};
use crate::machine::{self, COMMIT};
use anyhow::{Context, Result};
use lab::control::Control;
use lab::point::{Point, hash};
use lab::rows::{LabRow, Sample};
use lab::size::Size;
use measure::conditions::{Conditions, ProcessorTime};
use measure::counters::Counters;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
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
    tell: impl Fn(Option<&Point>, u32) + Sync,
) -> Result<Vec<LabRow>> {
    let problem = |point: &Point| format!("`{}`", point.configuration(size));
    let relations = KeptRelations::default();
    let mut turns = side_by_side(points, |point| {
        tell(Some(point), 0);
        let ready = kinds::prepare(point, size, parent, &relations);
        Ok(Turn {
            point,
            ready: ready.with_context(|| problem(point))?,
            samples: Vec::new(),
        })
    })?;
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
    side_by_side(turns, |turn| {
        turn.ready.finish().with_context(|| problem(turn.point))?;
        let made = (COMMIT, machine::here(parent));
        let mut row = LabRow::new(turn.point, size, turn.samples, made);
        row.control.clone_from(&control);
        Ok(row)
    })
}

/// Works on each item, on as many at once as there are cores: nothing is measured meanwhile. The
/// results are in the order of the items; of several errors the first is returned.
fn side_by_side<T: Send, R: Send>(
    items: impl IntoIterator<Item = T, IntoIter: Send>,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let items = Mutex::new(items.into_iter().enumerate());
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work_on_some = || {
        let mut done = Vec::new();
        while let Some((at, item)) = next() {
            let result = work(item);
            let failed = result.is_err();
            done.push((at, result));
            if failed {
                break;
            }
        }
        done
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut done: Vec<(usize, Result<R>)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work_on_some)).collect();
        let joined = workers.into_iter().map(ScopedJoinHandle::join);
        let joined = joined.map(|done| done.unwrap_or_else(|panic| resume_unwind(panic)));
        joined.flatten().collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
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
    fn items_are_worked_on_side_by_side_and_keep_their_order() {
        let doubled = side_by_side(0..100, |item| Ok(2 * item)).unwrap();
        assert!(doubled.into_iter().eq((0..200).step_by(2)));
        let odd = |item: i32| {
            anyhow::ensure!(item < 7, "{item} is too large");
            Ok(item)
        };
        let error = side_by_side(0..100, odd).unwrap_err();
        assert!(error.to_string().ends_with("is too large"), "{error}");
        assert!(side_by_side(0..0, odd).unwrap().is_empty());
    }

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
