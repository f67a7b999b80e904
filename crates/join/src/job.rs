//! One join under way: the inputs, the decisions, and the report of every algorithm at the end.
//!
//! The algorithms see a `Job` and a function that makes sinks, so none of them knows the requested
//! output. Memory is planned first, checked against the limit in one place, and only then touched.

use crate::error::{JoinError, Result};
use crate::machine::{available_bytes, machine};
use crate::monitor::Watch;
use crate::options::{Options, Tuning};
use crate::output::{Sink, Totals};
use crate::partition::Pass;
use crate::scratch::{Arena, Scratch};
use crate::simd::{Isa, Stores};
use crate::stats::{PhaseClock, TableWork};
use crate::tuple::{Relation, TUPLES_MAX, Tuple};

/// Tuples that the sample of keys looks at.
const SAMPLE_TUPLES: usize = 4096;
/// Scratch memory below this is not compared with the available memory.
const ALWAYS_AVAILABLE_BYTES: u64 = 64 << 20;
/// Tuples, of both sides, that are worth one more thread.
const TUPLES_A_THREAD: usize = 1 << 16;

/// Inputs and decisions of a join.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job<'a, T: Tuple> {
    pub(crate) r: &'a [T],
    pub(crate) s: &'a [T],
    pub(crate) threads: usize,
    pub(crate) isa: Isa,
    pub(crate) tuning: Tuning,
    pub(crate) scratch_bytes_max: Option<u64>,
    pub(crate) watch: Watch<'a>,
}

/// Result of an algorithm.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) totals: Totals,
    pub(crate) partitions: usize,
    pub(crate) passes: u32,
    pub(crate) filtered_tuples: u64,
    pub(crate) tables: TableWork,
    pub(crate) scratch_bytes: u64,
    pub(crate) clock: PhaseClock,
}

impl Done {
    /// A join that needed nothing.
    pub(crate) fn nothing() -> Self {
        Self {
            totals: Totals::default(),
            partitions: 1,
            passes: 0,
            filtered_tuples: 0,
            tables: TableWork::default(),
            scratch_bytes: 0,
            clock: PhaseClock::start(),
        }
    }
}

/// Threads for relations of this size, unless the caller says a number.
fn threads_for<T: Tuple>(options: &Options<'_, T>, tuples: usize) -> usize {
    let worth = (tuples / TUPLES_A_THREAD).max(1);
    options
        .threads
        .unwrap_or_else(|| machine().processors.min(worth))
}

/// The lowest and the highest key of a sample; none of an empty slice.
pub(crate) fn sampled_extent<T: Tuple>(tuples: &[T]) -> Option<(u64, u64)> {
    let step = (tuples.len() / SAMPLE_TUPLES).max(1);
    let keys = tuples.iter().step_by(step).map(|tuple| tuple.key().into());
    keys.fold(None, |extent: Option<(u64, u64)>, key| {
        let (low, high) = extent.unwrap_or((key, key));
        Some((low.min(key), high.max(key)))
    })
}

/// The extent of the keys if a sample shows them dense enough for an array; a little wider than the
/// sample.
pub(crate) fn dense_extent<T: Tuple>(tuples: &[T]) -> Option<(u64, u64)> {
    let (low, high) = sampled_extent(tuples)?;
    let is_dense = high - low <= tuples.len().saturating_mul(2) as u64 + 64;
    let margin = (high - low) / 128;
    is_dense.then(|| (low.saturating_sub(margin), high.saturating_add(margin)))
}

/// Whether there is such an extent.
pub(crate) fn looks_dense<T: Tuple>(tuples: &[T]) -> bool {
    dense_extent(tuples).is_some()
}

impl<'a, T: Tuple> Job<'a, T> {
    /// A job with the caller's options; refuses impossible ones.
    pub(crate) fn new(
        r: Relation<'a, T>,
        s: Relation<'a, T>,
        options: &Options<'a, T>,
    ) -> Result<Self> {
        options.check()?;
        let tuples_max = TUPLES_MAX;
        if let Some(tuples) = [r.len(), s.len()].into_iter().find(|len| *len > tuples_max) {
            return Err(JoinError::TooManyTuples { tuples, tuples_max });
        }
        Ok(Self {
            r: r.tuples(),
            s: s.tuples(),
            threads: threads_for(options, r.len() + s.len()),
            isa: Isa::detect(options.kernel)?,
            tuning: options.tuning,
            scratch_bytes_max: options.scratch_bytes_max,
            watch: Watch::new(options.monitor, (r.len() + 2 * s.len()) as u64),
        })
    }

    /// An arena of `bytes` bytes, or the error that says that they are too many.
    pub(crate) fn arena<'s>(&self, scratch: &'s mut Scratch, bytes: usize) -> Result<Arena<'s>> {
        let needed_bytes = bytes as u64;
        let available = || available_bytes().map(|free| free + scratch.bytes());
        let limit_bytes = match self.scratch_bytes_max {
            Some(limit_bytes) => Some(limit_bytes),
            None if needed_bytes > ALWAYS_AVAILABLE_BYTES => available(),
            None => None,
        };
        if let Some(limit_bytes) = limit_bytes.filter(|limit| needed_bytes > *limit) {
            return Err(JoinError::NotEnoughMemory {
                needed_bytes,
                limit_bytes,
            });
        }
        scratch.arena(bytes)
    }

    /// The largest share of one thread.
    pub(crate) fn share_len(&self, tuples: usize) -> usize {
        tuples.div_ceil(64).div_ceil(self.threads) * 64
    }

    /// A pass that writes `bytes` bytes in all.
    pub(crate) fn pass(&self, bytes: usize) -> Pass<'a> {
        let stores = if bytes > machine().l3_bytes / 2 {
            Stores::Streaming
        } else {
            Stores::Cached
        };
        Pass {
            isa: self.isa,
            stores,
            watch: self.watch,
        }
    }
}

/// Ends the sinks of all threads and adds up their totals.
pub(crate) fn totals_of<T: Tuple, K: Sink<T>>(sinks: Vec<K>) -> Totals {
    let mut totals = Totals::default();
    for mut sink in sinks {
        sink.finish();
        totals.add(sink.totals());
    }
    totals
}
