//! Scans: cells of a range in key order, a leaf at a time.
//!
//! Leaves are not linked: a scan copies a leaf, releases it, and descends again to the key after
//! the separator that bounds it. So it holds no latch while its callers use the cells, and a split
//! or merge touches no siblings.
//!
//! A scan that reaches its second leaf is assumed to go on: it prefetches a few leaves ahead, which
//! their parent names, so that the device reads them while the cells are visited.
//!
//! A scan that locks covers a range before it visits the cells in it: first up to one cell, then to
//! twice as many each time, so a scan that stops early has locked little, and one that goes on pays
//! little. If the leaf has changed while the lock was waited for, it is copied again; cells in the
//! covered range cannot change any more.

use super::change::wrong_page;
use super::search_path::{SearchPath, StructureVersion};
use super::space::Pages;
use super::tree::{Child, ScanCells, Tree, Unlocked, Visit, check_child, stored};
use crate::buffer::PageAccess;
use crate::page::slotted::{compare, key_words};
use crate::page::{Header, PageId, PageKind, Slotted};
use disk::Directory;
use std::cmp::Ordering;
use std::ops::ControlFlow;
use storage::Result;
use storage::engine::Direction;
use storage::record::KeyBuf;

/// Leaves that a scan names ahead.
const LEAVES_AHEAD: usize = 16;

/// A leaf as it was.
struct LeafCopy {
    bytes: Vec<u8>,
    id: PageId,
    /// When it was that leaf.
    version: StructureVersion,
    /// The separator at its far end, if it is not the last leaf: the first key after it, or going
    /// backward, its own lowest possible key.
    bound: Option<KeyBuf>,
    /// Leaves copied until the next ones are named to the device.
    until_ahead: usize,
}

impl Tree {
    /// Visits cells in key order until the range ends or `visit` breaks, without locks.
    pub fn scan<D: Directory>(
        &self,
        pages: &Pages<D>,
        bounds: (&[u64], &[u64]),
        direction: Direction,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let search_path = &mut SearchPath::default();
        self.scan_cells(
            (pages, search_path),
            bounds,
            direction,
            &mut Unlocked(visit),
        )
    }

    /// Visits cells in key order until the range, both ends included, ends or a visit breaks.
    pub(super) fn scan_cells<D: Directory>(
        &self,
        (pages, search_path): (&Pages<D>, &mut SearchPath),
        (low, high): (&[u64], &[u64]),
        direction: Direction,
        cells: &mut impl ScanCells,
    ) -> Result<()> {
        debug_assert!(
            low.len() == self.key_words && high.len() == self.key_words,
            "the bounds are of another tree"
        );
        let (mut next, end) = match direction {
            Direction::Forward => (KeyBuf::from_words(low), high),
            Direction::Backward => (KeyBuf::from_words(high), low),
        };
        if low > high {
            return Ok(());
        }
        let mut leaf = LeafCopy {
            bytes: Vec::new(),
            id: self.root,
            version: StructureVersion::default(),
            bound: None,
            until_ahead: 1,
        };
        let mut batch = if cells.is_locking() { 1 } else { usize::MAX };
        loop {
            self.copy_leaf((pages, search_path), &next, direction, &mut leaf)?;
            loop {
                let edge = leaf.edge(&next, end, direction, batch);
                if cells.is_locking() {
                    let (low, high) = ordered(&next, &edge, direction);
                    cells.cover(low, high)?;
                    if !leaf.is_current(self, (pages, search_path), &next)? {
                        self.copy_leaf((pages, search_path), &next, direction, &mut leaf)?;
                    }
                    batch = batch.saturating_mul(2);
                }
                let flow = leaf.visit(&next, &edge, direction, cells)?;
                cells.uncover();
                if flow.is_break() {
                    return Ok(());
                }
                // The copy has all cells up to the edge, unless it was made again after a split.
                if leaf.ends_before(&edge, direction) {
                    break;
                }
                next = edge;
                if *next == *end || !step(&mut next, direction) {
                    return Ok(());
                }
                if leaf.ends_before(&next, direction) {
                    break;
                }
            }
            let bound = leaf.bound.take();
            next = bound.expect("a key belongs after the bound of the leaf");
            if direction == Direction::Backward && !step(&mut next, direction) {
                return Ok(());
            }
        }
    }

    /// Copies the leaf that has or would have a key.
    fn copy_leaf<D: Directory>(
        &self,
        (pages, search_path): (&Pages<D>, &mut SearchPath),
        key: &[u64],
        direction: Direction,
        leaf: &mut LeafCopy,
    ) -> Result<()> {
        let version = pages.structure.now(self.root);
        let mut below = None;
        if let Some(root) = search_path.root(version) {
            let (id, level) = leaf.pass(self, pages, root, key, direction);
            below = self.read_child(pages, Child { id, level, version })?;
        }
        let mut guard = if let Some(child) = below {
            child
        } else {
            let root = self.root_again(pages, search_path)?;
            leaf.id = self.root;
            leaf.bound = None;
            root
        };
        while Header(guard.bytes()).kind() == Some(PageKind::Inner) {
            let (id, level) = leaf.pass(self, pages, guard.bytes(), key, direction);
            guard.record_access(PageAccess::Key(key));
            let child = pages.pool.read(id)?;
            check_child(pages, id, child.bytes(), level)?;
            guard = child;
        }
        leaf.bytes.clear();
        leaf.bytes.extend_from_slice(guard.bytes());
        guard.record_access(PageAccess::Whole);
        leaf.version = pages.structure.now(self.root);
        drop(guard);
        // So each leaf brings the scan forward.
        let is_outside = leaf.bound.as_ref().is_some_and(|bound| match direction {
            Direction::Forward => **bound <= *key,
            Direction::Backward => **bound > *key,
        });
        if is_outside {
            let text = "the tree's separators are not in order";
            return Err(wrong_page(&pages.pool, self.root, text));
        }
        Ok(())
    }
}

impl LeafCopy {
    /// Goes through an inner page on the path to a key, the root first; returns the child that has
    /// it, and the child's level.
    fn pass<D: Directory>(
        &mut self,
        tree: &Tree,
        pages: &Pages<D>,
        page: &[u8],
        key: &[u64],
        direction: Direction,
    ) -> (PageId, u8) {
        let view = Slotted::new(page);
        let place = view.child_place(key);
        if view.header().number() == tree.root {
            self.bound = None;
        }
        let separator = match direction {
            Direction::Forward => Some(place),
            Direction::Backward => place.checked_sub(1),
        };
        if let Some(slot) = separator.filter(|&slot| slot < view.slots()) {
            let bound = self.bound.get_or_insert_default();
            let words = bound.resized(tree.key_words);
            for (word, on_page) in words.iter_mut().zip(key_words(view.key(slot))) {
                *word = on_page;
            }
        }
        self.id = view.child_at(place);
        let level = view.header().level().saturating_sub(1);
        if level == 0 {
            self.name_ahead(pages, &view, place, direction);
        }
        (self.id, level)
    }

    /// Prefetches the leaves of a parent that follow the one at `place`, once for each batch.
    fn name_ahead<D: Directory>(
        &mut self,
        pages: &Pages<D>,
        parent: &Slotted<'_>,
        place: usize,
        direction: Direction,
    ) {
        if self.until_ahead > 0 {
            self.until_ahead -= 1;
            return;
        }
        // A parent has one child more than it has slots.
        let behind = match direction {
            Direction::Forward => parent.slots() - place,
            Direction::Backward => place,
        };
        let named = behind.min(LEAVES_AHEAD);
        self.until_ahead = named.saturating_sub(1);
        let child = |step: usize| match direction {
            Direction::Forward => parent.child_at(place + step),
            Direction::Backward => parent.child_at(place - step),
        };
        pages.pool.will_read((1..=named).map(child));
    }

    /// The last key of the next `cells` cells.
    fn edge(&self, next: &[u64], end: &[u64], direction: Direction, cells: usize) -> KeyBuf {
        debug_assert!(cells > 0, "a scan does not advance");
        let view = Slotted::new(&self.bytes);
        let (slot, is_there) = view.search(next);
        let last = match direction {
            Direction::Forward => slot.checked_add(cells - 1).filter(|&at| at < view.slots()),
            Direction::Backward => (slot + usize::from(is_there)).checked_sub(cells),
        };
        let mut edge = KeyBuf::new();
        if let Some(slot) = last {
            let words = edge.resized(next.len());
            for (word, on_page) in words.iter_mut().zip(key_words(view.key(slot))) {
                *word = on_page;
            }
        }
        // Not ahead only if the keys of a damaged page are not in order.
        let is_ahead = last.is_some()
            && match direction {
                Direction::Forward => *edge >= *next,
                Direction::Backward => *edge <= *next,
            };
        if !is_ahead {
            edge = self.last_key(end, direction);
        }
        let is_outside = match direction {
            Direction::Forward => *edge > *end,
            Direction::Backward => *edge < *end,
        };
        if is_outside {
            edge = KeyBuf::from_words(end);
        }
        edge
    }

    /// The last key that belongs to the leaf and to the range.
    fn last_key(&self, end: &[u64], direction: Direction) -> KeyBuf {
        let Some(bound) = &self.bound else {
            return KeyBuf::from_words(end);
        };
        let mut last = bound.clone();
        // Forward the bound is the next leaf's.
        if direction == Direction::Forward {
            step(&mut last, Direction::Backward);
        }
        last
    }

    /// Whether the key still leads to this leaf, and it is as it was. The page alone does not tell:
    /// one that was merged away keeps its content while others change the cells where they are now.
    fn is_current<D: Directory>(
        &self,
        tree: &Tree,
        (pages, search_path): (&Pages<D>, &mut SearchPath),
        key: &[u64],
    ) -> Result<bool> {
        let is_same = || pages.structure.now(tree.root) == self.version;
        if is_same() {
            let now = pages.pool.read(self.id)?;
            if is_same() {
                now.record_access(PageAccess::Header);
                return Ok(Header(now.bytes()).lsn() == Header(&self.bytes).lsn());
            }
        }
        let now = tree.leaf(pages, key, search_path)?;
        now.record_access(PageAccess::Header);
        let header = Header(now.bytes());
        Ok(header.number() == self.id && header.lsn() == Header(&self.bytes).lsn())
    }

    /// Whether a key belongs to a leaf further on.
    fn ends_before(&self, key: &[u64], direction: Direction) -> bool {
        self.bound.as_ref().is_some_and(|bound| match direction {
            Direction::Forward => *key >= **bound,
            Direction::Backward => *key < **bound,
        })
    }

    /// Visits the cells from one key to another.
    fn visit(
        &self,
        next: &[u64],
        edge: &[u64],
        direction: Direction,
        cells: &mut impl ScanCells,
    ) -> Result<ControlFlow<()>> {
        let view = Slotted::new(&self.bytes);
        let (slot, is_there) = view.search(next);
        let mut one = |slot: usize| {
            let cell = view.cell(slot);
            let order = compare(cell.key, edge);
            let is_outside = match direction {
                Direction::Forward => order == Ordering::Greater,
                Direction::Backward => order == Ordering::Less,
            };
            if is_outside {
                return Ok(None);
            }
            cells.visit(cell.key, stored(cell)).map(Some)
        };
        match direction {
            Direction::Forward => try_each(slot..view.slots(), &mut one),
            Direction::Backward => try_each((0..slot + usize::from(is_there)).rev(), &mut one),
        }
    }
}

/// Calls `one` until it breaks, or has no more.
fn try_each(
    slots: impl Iterator<Item = usize>,
    one: &mut dyn FnMut(usize) -> Result<Option<ControlFlow<()>>>,
) -> Result<ControlFlow<()>> {
    for slot in slots {
        match one(slot)? {
            None => break,
            Some(ControlFlow::Break(())) => return Ok(ControlFlow::Break(())),
            Some(ControlFlow::Continue(())) => {}
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn ordered<'k>(from: &'k [u64], to: &'k [u64], direction: Direction) -> (&'k [u64], &'k [u64]) {
    match direction {
        Direction::Forward => (from, to),
        Direction::Backward => (to, from),
    }
}

/// Goes to the next possible key; false at the end of all.
fn step(key: &mut KeyBuf, direction: Direction) -> bool {
    let len = key.len();
    for word in key.resized(len).iter_mut().rev() {
        let (stepped, wraps) = match direction {
            Direction::Forward => word.overflowing_add(1),
            Direction::Backward => word.overflowing_sub(1),
        };
        *word = stepped;
        if !wraps {
            return true;
        }
    }
    false
}
