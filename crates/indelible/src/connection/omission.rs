//! Steps of the protocol that tests leave out, to see that a check of histories notices it.
//!
//! Nothing is left out without the feature `omissions`, and the compiler removes the question. The
//! steps are those of which `torture` shows that a history, or a search, is wrong without them.

use std::sync::atomic::{AtomicU8, Ordering};

/// A step of the protocol of connections; each line says what happens without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "omissions"),
    expect(unreachable_pub, reason = "public with the feature")
)]
pub enum Omission {
    /// A serializable commit does not look whether what it has read has changed.
    Validation = 1,
    /// It looks for rows that were there, and not for those that have come into an interval.
    Phantoms,
    /// A change of a row that is no longer as in the snapshot is not refused.
    FirstChange,
    /// A commit keeps no images, where a partition has one session slot.
    Images,
    /// Images are kept, and the commit is numbered, only after the engine's commit, where a
    /// partition has many slots.
    ImagesInTime,
    /// The first connection does not wait for typed transactions that know of none.
    Barrier,
    /// Rows are not locked.
    RowLocks,
    /// Unique keys are not locked.
    UniqueLocks,
}

/// The step that is left out; 0 is none.
static LEFT_OUT: AtomicU8 = AtomicU8::new(0);

/// Leaves a step out from now on in all databases of the process, instead of any earlier one.
#[cfg(feature = "omissions")]
pub fn leave_out(step: Option<Omission>) {
    LEFT_OUT.store(step.map_or(0, |step| step as u8), Ordering::Relaxed);
}

#[inline]
pub(super) fn is_left_out(step: Omission) -> bool {
    cfg!(feature = "omissions") && LEFT_OUT.load(Ordering::Relaxed) == step as u8
}
