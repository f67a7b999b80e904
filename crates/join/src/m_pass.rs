//! `m-pass`: sort-merge join whose runs are merged two at a time, in passes over memory (paper:
//! multi-pass naive merging).
//!
//! Ranges are coarse, a few for each thread, so the runs of a range have to be merged; every
//! doubling crosses the memory once. Kept for the paper's comparison with `m-way`.

use crate::error::Result;
use crate::job::{Done, Job};
use crate::output::Sink;
use crate::scratch::Scratch;
use crate::sort::join::{self, Merging};
use crate::tuple::Tuple;

/// Joins.
pub(crate) fn run<T: Tuple, K: Sink<T>>(
    job: &Job<'_, T>,
    scratch: &mut Scratch,
    new_sink: impl Fn() -> K + Sync,
) -> Result<Done> {
    join::run(job, scratch, Merging::TwoAtATime, new_sink)
}
