//! `m-way`: sort-merge join whose runs are merged all at once (paper: multi-way merging).
//!
//! Both sides are partitioned by ranges, as finely as write-combining allows: a range is then one
//! run of the second-level cache, and the merge has nothing left to do. With fewer ranges
//! (`Tuning::partition_bits`) runs are merged through a tree of buffers that stays in the cache.

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
    join::run(job, scratch, Merging::ManyAtOnce, new_sink)
}
