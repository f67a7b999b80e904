//! Minimising: the shortest list of operations, and the fewest cuts of recoveries, that still lead
//! to a wrong image.
//!
//! Everything after the transaction in which the image was found is left out at once, and images
//! are taken in the last transaction only, so a try costs milliseconds. Then delta debugging:
//! pieces of half the list, of a quarter, and so on down to single operations are left out if the
//! rest still fails. The result depends on the seed alone as long as the time suffices, and the
//! printed line replays without it.

use crate::script::{RoundScript, Selection};
use crate::search::{Config, FailureReport, Focus, Plan, Start, run};
use std::time::{Duration, Instant};

/// Most work on one image: recovered, and again, used, and cut off three times in a row.
pub const DEPTH_MAX: u32 = 4;

/// A shorter way to a wrong image.
#[derive(Clone, Debug)]
pub struct Minimised {
    /// The wrong image at the end of the shorter list.
    pub failure: Box<FailureReport>,
    /// The rows and transactions that are left, a sentence each.
    pub operations: Vec<String>,
    /// Lists that were tried.
    pub tries: u64,
    /// Time taken, seconds.
    pub seconds: f64,
}

/// Looks for a shorter way to a failure. None if the focused round does not fail.
pub(crate) fn minimise(config: &Config, failure: &FailureReport) -> Option<Minimised> {
    let start = Instant::now();
    let deadline = start + config.minimise_max;
    let script = RoundScript::of(failure.seed, config.connections);
    let earlier = failure.focus.as_ref().map(|focus| &focus.operations);
    let mut numbers = match earlier {
        Some(selection) => selection.only(&script.numbers(usize::MAX)),
        None => script.numbers(failure.transactions),
    };
    let mut tries = 0;
    let mut best = None;
    let mut attempt = |numbers: &[u32], depth: u32| {
        tries += 1;
        let focus = Focus {
            operations: Selection::of(numbers),
            depth: Some(depth),
        };
        let found = replay(config, failure.seed, focus, deadline)?;
        best = Some(found);
        Some(())
    };
    let mut depth = [0, 1, DEPTH_MAX]
        .into_iter()
        .find(|depth| attempt(&numbers, *depth).is_some())?;
    reduce(&mut numbers, &mut |numbers| {
        Instant::now() < deadline && attempt(numbers, depth).is_some()
    });
    if let Some(less) = (0..depth).find(|less| attempt(&numbers, *less).is_some()) {
        depth = less;
        reduce(&mut numbers, &mut |numbers| {
            Instant::now() < deadline && attempt(numbers, depth).is_some()
        });
    }
    let kept = Selection::of(&numbers);
    Some(Minimised {
        failure: Box::new(best?),
        operations: script.keep(&kept).describe(),
        tries,
        seconds: start.elapsed().as_secs_f64(),
    })
}

/// Runs the operations that `focus` keeps of a round.
fn replay(config: &Config, seed: u64, focus: Focus, deadline: Instant) -> Option<FailureReport> {
    let config = Config {
        seed,
        images_max: u64::MAX,
        duration_max: deadline.saturating_duration_since(Instant::now()),
        minimise_max: Duration::ZERO,
        focus: Some(focus.clone()),
        ..config.clone()
    };
    let mut plan = Plan::new(&config);
    plan.starts = vec![Start {
        seed,
        focus: Some(focus),
    }];
    run(plan, &mut |_| {}).failure
}

/// Leaves out operations that `fails` does not need; it holds for the whole list.
fn reduce(numbers: &mut Vec<u32>, fails: &mut dyn FnMut(&[u32]) -> bool) {
    let mut size = numbers.len().div_ceil(2);
    while size > 0 && !numbers.is_empty() {
        let mut shrunk = false;
        let mut at = 0;
        while at < numbers.len() {
            let end = (at + size).min(numbers.len());
            let rest = [&numbers[..at], &numbers[end..]].concat();
            if fails(&rest) {
                *numbers = rest;
                shrunk = true;
            } else {
                at = end;
            }
        }
        // Single operations go round until none can be left out.
        if size > 1 {
            size = size.div_ceil(2).min(size - 1);
        } else if !shrunk {
            size = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_needed_is_left() {
        let mut tries = 0;
        let mut numbers: Vec<u32> = (0..1000).collect();
        reduce(&mut numbers, &mut |list| {
            tries += 1;
            [17, 500, 999].iter().all(|number| list.contains(number))
        });
        assert_eq!(numbers, [17, 500, 999]);
        assert!(tries < 150, "{tries} tries");
        let mut numbers = vec![1, 2, 3];
        reduce(&mut numbers, &mut |_| true);
        assert!(numbers.is_empty());
    }
}
