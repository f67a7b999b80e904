//! The leaves of a tree that one session came to last, so that a key that was just read is changed without a way from the root.
//!
//! A leaf stays the leaf of its keys until it is split, merged or given up. Whoever does that has its latch for writing, and counts in
//! [`Structure`] before giving the latch back. So a leaf that is latched is still the one that was noted if the number is the same behind the
//! latch. It is the same in front of it too, since a page that was given up long ago need not be one that can be read. A place of the trail may stand for another key that falls on it: the key is looked for in the leaf, and
//! where it is not, the way from the root is taken.

use crate::page::PageId;
use std::sync::atomic::{AtomicU64, Ordering};

/// Leaves that are remembered.
const STEPS: usize = 16;

/// Counts changes of the structure of trees.
#[derive(Default)]
pub(super) struct Structure(AtomicU64);

/// How often structure had changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moment(u64);

impl Structure {
    /// Structure is about to change. The caller has the latches of all pages of trees that will be another key's, or nobody's.
    pub(super) fn count(&self) {
        // The latches order it.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Now. For a leaf whose latch the caller has.
    #[inline]
    pub(super) fn now(&self) -> Moment {
        Moment(self.0.load(Ordering::Relaxed))
    }
}

#[derive(Clone, Copy)]
struct Step {
    hash: u64,
    leaf: PageId,
    moment: Moment,
}

/// The last leaves of one tree.
#[derive(Default)]
pub(super) struct Trail {
    steps: [Option<Step>; STEPS],
}

impl Trail {
    /// Where a key was found, and when.
    #[inline]
    pub(super) fn find(&self, key: &[u64]) -> Option<(PageId, Moment)> {
        let hash = hash(key);
        let step = self.steps[hash as usize % STEPS]?;
        (step.hash == hash).then_some((step.leaf, step.moment))
    }

    /// Notes where a key is found.
    #[inline]
    pub(super) fn note(&mut self, key: &[u64], leaf: PageId, moment: Moment) {
        let hash = hash(key);
        self.steps[hash as usize % STEPS] = Some(Step { hash, leaf, moment });
    }
}

#[inline]
fn hash(key: &[u64]) -> u64 {
    key.iter().fold(1, |hash, word| {
        let mixed = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    })
}

#[cfg(test)]
mod tests {
    use super::{Structure, Trail};
    use crate::page::PageId;

    #[test]
    fn a_leaf_is_known_by_its_key_until_another_takes_its_place() {
        let (structure, mut trail) = (Structure::default(), Trail::default());
        assert_eq!(trail.find(&[7, 1]), None);
        let then = structure.now();
        trail.note(&[7, 1], PageId(5), then);
        assert_eq!(trail.find(&[7, 1]), Some((PageId(5), then)));
        assert_eq!(trail.find(&[1, 7]), None);
        structure.count();
        assert_ne!(structure.now(), then);
        for key in 0..1000 {
            trail.note(&[key], PageId(6), structure.now());
        }
        assert_eq!(trail.find(&[7, 1]), None);
        assert_eq!(trail.find(&[999]), Some((PageId(6), structure.now())));
    }
}
