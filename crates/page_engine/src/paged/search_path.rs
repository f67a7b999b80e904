//! The search path of one session in a tree: the leaves that it reached last, so that a key that
//! was just read is changed without a descent from the root, and a copy of the root, so that
//! sessions do not contend for its latch with every key.
//!
//! A leaf stays the leaf of its keys until it is split, merged or freed. Each of these holds its
//! write latch, and increments the count in [`Structure`] before the latch is released. So a
//! latched leaf is still the one that was noted if the count is unchanged once the latch is held.
//! The count is checked before latching too, since a page that was freed long ago need not be
//! readable. An entry may belong to another key that maps to it: the key is searched in the leaf,
//! and if it is not there, the search descends from the root.
//!
//! The same holds for a child of the root that the copy of the root names: a change that moves its
//! keys to another page, or the page to another tree, holds its write latch and increments the
//! count. So the child is the right one if the count is unchanged once its latch is held. The root
//! is copied when it is read for the second time since the structure changed, since many trees are
//! read only once.

use crate::page::{Header, PageId, PageKind};
use std::sync::atomic::{AtomicU64, Ordering};
use storage::sync::CachePadded;

/// Leaves that are remembered.
const STEPS: usize = 16;
/// Trees that are counted apart from each other.
const TREES: usize = 64;

/// Counts changes of the structure of trees, some trees together.
pub(super) struct Structure(Box<[CachePadded<AtomicU64>]>);

/// A structure version of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StructureVersion(u64);

impl Structure {
    pub(super) fn new() -> Self {
        Self((0..TREES).map(|_| CachePadded::default()).collect())
    }

    fn of(&self, root: PageId) -> &AtomicU64 {
        &self.0[root.0 as usize % TREES]
    }

    /// The structure of a tree is about to change. The caller has the latches of all of its pages
    /// that will be another key's, or nobody's.
    pub(super) fn count(&self, root: PageId) {
        // The latches order it.
        self.of(root).fetch_add(1, Ordering::Relaxed);
    }

    /// Now. For a page of the tree whose latch the caller has.
    #[inline]
    pub(super) fn now(&self, root: PageId) -> StructureVersion {
        StructureVersion(self.of(root).load(Ordering::Relaxed))
    }
}

#[derive(Clone, Copy)]
struct Step {
    hash: u64,
    leaf: PageId,
    version: StructureVersion,
}

/// The root as it was, where it has children.
#[derive(Default)]
struct RootCopy {
    /// When it was last read.
    met: Option<StructureVersion>,
    /// Whether `bytes` are what it was then.
    is_copied: bool,
    bytes: Vec<u8>,
}

/// The last leaves of one tree, and its root.
#[derive(Default)]
pub(super) struct SearchPath {
    steps: [Option<Step>; STEPS],
    root: RootCopy,
}

impl SearchPath {
    /// The root as it was at some moment, if it has children.
    #[inline]
    pub(super) fn root(&self, version: StructureVersion) -> Option<&[u8]> {
        let root = &self.root;
        debug_assert!(
            !root.is_copied || Header(&root.bytes).kind() == Some(PageKind::Inner),
            "a root is copied where it has children"
        );
        (root.is_copied && root.met == Some(version)).then_some(&root.bytes)
    }

    /// Notes the root at some moment, and returns whether it has copied it; the caller has its
    /// latch.
    pub(super) fn note_root(&mut self, root: &[u8], version: StructureVersion) -> bool {
        if Header(root).kind() != Some(PageKind::Inner) {
            return false;
        }
        let copy = &mut self.root;
        copy.is_copied = copy.met == Some(version);
        copy.met = Some(version);
        if copy.is_copied {
            copy.bytes.clear();
            copy.bytes.extend_from_slice(root);
        }
        copy.is_copied
    }

    /// The leaf in which a key was found, and the structure version at that time.
    #[inline]
    pub(super) fn find(&self, key: &[u64]) -> Option<(PageId, StructureVersion)> {
        let hash = hash(key);
        let step = self.steps[hash as usize % STEPS]?;
        (step.hash == hash).then_some((step.leaf, step.version))
    }

    /// Notes where a key is found.
    #[inline]
    pub(super) fn note(&mut self, key: &[u64], leaf: PageId, version: StructureVersion) {
        debug_assert!(!key.is_empty(), "a tree has keys of at least one word");
        let hash = hash(key);
        self.steps[hash as usize % STEPS] = Some(Step {
            hash,
            leaf,
            version,
        });
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
    use super::{SearchPath, Structure};
    use crate::page::PageId;

    #[test]
    fn a_leaf_is_known_by_its_key_until_another_takes_its_place() {
        let (structure, mut search_path) = (Structure::new(), SearchPath::default());
        let (root, other) = (PageId(3), PageId(4));
        assert_eq!(search_path.find(&[7, 1]), None);
        let then = structure.now(root);
        search_path.note(&[7, 1], PageId(5), then);
        assert_eq!(search_path.find(&[7, 1]), Some((PageId(5), then)));
        assert_eq!(search_path.find(&[1, 7]), None);
        structure.count(other);
        assert_eq!(structure.now(root), then);
        structure.count(root);
        assert_ne!(structure.now(root), then);
        for key in 0..1000 {
            search_path.note(&[key], PageId(6), structure.now(root));
        }
        assert_eq!(search_path.find(&[7, 1]), None);
        assert_eq!(
            search_path.find(&[999]),
            Some((PageId(6), structure.now(root)))
        );
    }
}
