//! The structure of a tree: splits, merges, and the root's growing and shrinking.
//!
//! All of it works from the root down with write latches, and each step is one change that is
//! redone and never undone: it moves cells without altering the content of the tree. An inner page
//! that could not take one more cell is split on the way, so a parent always has room for what a
//! child's split gives it; so at most a page, its parent, one new page and a map are changed at a
//! time.
//!
//! A leaf that is split for a key after all of its own keeps its cells, so loading in key order
//! fills pages.

use super::change::Change;
use super::space::Pages;
use super::tree::{Tree, cell_of, check_child};
use crate::buffer::{PageAccess, UndoSpace, WriteGuard};
use crate::page::slotted::{CHILD_BYTES, SLOT_BYTES, key_words};
use crate::page::{Head, Header, PageId, PageKind, PageOp, Slotted};
use disk::Directory;
use storage::Result;

/// Adds a cell like the one in a slot of another page.
fn push_copy(change: &mut Change<'_>, page: usize, slot: usize, from: &Slotted<'_>, number: usize) {
    let cell = from.raw(number);
    let is_long = from.cell(number).is_long;
    let slot = slot as u16;
    change.push(
        page,
        PageOp::Insert {
            slot,
            is_long,
            cell,
        },
    );
}

impl Tree {
    /// Makes the root of an empty tree in a page.
    pub fn format_root(&self) -> PageOp<'static> {
        PageOp::Format {
            kind: PageKind::Leaf,
            level: 0,
            key_words: self.key_words as u16,
            link: PageId(0),
        }
    }

    fn format_like(&self, page: &Slotted<'_>, link: PageId) -> PageOp<'static> {
        let header = page.header();
        PageOp::Format {
            kind: if header.level() == 0 {
                PageKind::Leaf
            } else {
                PageKind::Inner
            },
            level: header.level(),
            key_words: self.key_words as u16,
            link,
        }
    }

    /// Whether an inner page can take one more cell.
    fn has_room<D: Directory>(&self, pages: &Pages<D>, view: &Slotted<'_>) -> bool {
        pages.fits(view, self.key_words * 8 + CHILD_BYTES)
    }

    /// Splits pages on the way to a key so that its leaf can take `bytes` more.
    pub(super) fn split_for<D: Directory>(
        &self,
        pages: &Pages<D>,
        key: &[u64],
        bytes: usize,
        reserve: UndoSpace,
    ) -> Result<()> {
        let mut guard = pages.pool.write(self.root)?;
        loop {
            self.check_root(pages, guard.bytes())?;
            guard.record_access(PageAccess::Header);
            let view = Slotted::new(guard.bytes());
            let is_full = match view.header().kind() {
                Some(PageKind::Leaf) => !pages.fits(&view, bytes),
                _ => !self.has_room(pages, &view),
            };
            if !is_full {
                break;
            }
            self.grow_root(pages, guard, reserve)?;
            guard = pages.pool.write(self.root)?;
        }
        loop {
            let view = Slotted::new(guard.bytes());
            if view.header().kind() != Some(PageKind::Inner) {
                return Ok(());
            }
            let place = view.child_place(key);
            guard.record_access(PageAccess::Key(key));
            let (id, level) = (
                view.child_at(place),
                view.header().level().saturating_sub(1),
            );
            let child = pages.pool.write(id)?;
            check_child(pages, id, child.bytes(), level)?;
            let below = Slotted::new(child.bytes());
            child.record_access(PageAccess::Header);
            let is_full = if level == 0 {
                !pages.fits(&below, bytes)
            } else {
                !self.has_room(pages, &below)
            };
            if is_full {
                return self.split(pages, guard, place, child, key, reserve);
            }
            guard = child;
        }
    }

    /// Moves all cells of the root to a new page, its only child.
    fn grow_root<'p, D: Directory>(
        &self,
        pages: &'p Pages<D>,
        root: WriteGuard<'p>,
        reserve: UndoSpace,
    ) -> Result<()> {
        debug_assert_eq!(root.id(), self.root, "another page grows than the root");
        root.record_access(PageAccess::Whole);
        let old = root.bytes().to_vec();
        let view = Slotted::new(&old);
        let mut change = Change::new();
        let root = change.add(root);
        let id = pages.allocate(&mut change)?;
        let child = change.add_new(pages.pool.blank(id)?);
        change.push(child, self.format_like(&view, view.header().link()));
        for slot in 0..view.slots() {
            push_copy(&mut change, child, slot, &view, slot);
        }
        change.push(
            root,
            PageOp::Format {
                kind: PageKind::Inner,
                level: view.header().level().saturating_add(1),
                key_words: self.key_words as u16,
                link: id,
            },
        );
        self.finish(pages, change, reserve)
    }

    /// Splits a child at a place of its parent, which has room.
    fn split<'p, D: Directory>(
        &self,
        pages: &'p Pages<D>,
        parent: WriteGuard<'p>,
        place: usize,
        child: WriteGuard<'p>,
        key: &[u64],
        reserve: UndoSpace,
    ) -> Result<()> {
        child.record_access(PageAccess::Whole);
        let old = child.bytes().to_vec();
        let view = Slotted::new(&old);
        let is_leaf = view.header().kind() == Some(PageKind::Leaf);
        let has_pending_redo = view.search(key).0 == view.slots();
        let at = if has_pending_redo && is_leaf {
            view.slots()
        } else if has_pending_redo {
            view.slots().saturating_sub(1)
        } else {
            middle(&view)
        };
        debug_assert!(at <= view.slots(), "a page is split after its end");
        let separator: Vec<u64> = if at == view.slots() {
            key.to_vec()
        } else {
            key_words(view.key(at)).collect()
        };
        let mut change = Change::new();
        let parent = change.add(parent);
        let left = change.add(child);
        let id = pages.allocate(&mut change)?;
        let right = change.add_new(pages.pool.blank(id)?);
        // The separator's own child comes first in a new inner page; a leaf keeps the cell.
        let (link, from) = if is_leaf {
            (PageId(0), at)
        } else {
            (view.child(at), at + 1)
        };
        change.push(right, self.format_like(&view, link));
        for (slot, number) in (from..view.slots()).enumerate() {
            push_copy(&mut change, right, slot, &view, number);
        }
        change.push(left, PageOp::Truncate { slots: at as u16 });
        let cell = cell_of(&separator, &id.0.to_le_bytes());
        change.push(
            parent,
            PageOp::Insert {
                slot: place as u16,
                is_long: false,
                cell: &cell,
            },
        );
        self.finish(pages, change, reserve)
    }

    /// Merges the leaf that has or had a key with a neighbour, if both fit into one page, and what
    /// is sparse above it then.
    pub(super) fn merge_for<D: Directory>(
        &self,
        pages: &Pages<D>,
        key: &[u64],
        reserve: UndoSpace,
    ) -> Result<()> {
        let mut level = 0;
        while self.merge_at(pages, key, level, reserve)? {
            level += 1;
        }
        Ok(())
    }

    /// Merges the page of a level on the way to a key. Says whether its parent has become sparse.
    fn merge_at<D: Directory>(
        &self,
        pages: &Pages<D>,
        key: &[u64],
        level: u8,
        reserve: UndoSpace,
    ) -> Result<bool> {
        let mut parent = pages.pool.write(self.root)?;
        self.check_root(pages, parent.bytes())?;
        loop {
            let view = Slotted::new(parent.bytes());
            parent.record_access(PageAccess::Key(key));
            if view.header().level() <= level {
                return Ok(false);
            }
            if view.header().level() == level + 1 {
                break;
            }
            let id = view.child_at(view.child_place(key));
            let below = view.header().level() - 1;
            let child = pages.pool.write(id)?;
            check_child(pages, id, child.bytes(), below)?;
            parent = child;
        }
        let view = Slotted::new(parent.bytes());
        let place = view.child_place(key);
        if view.slots() == 0 {
            return self.shrink_root(pages, parent, reserve);
        }
        // The left one of the pair and the right one; the last child is paired with its left
        // neighbour.
        let left_place = place.min(view.slots() - 1);
        let (left_id, right_id) = (view.child_at(left_place), view.child_at(left_place + 1));
        let left = pages.pool.write(left_id)?;
        check_child(pages, left_id, left.bytes(), level)?;
        let right = pages.pool.write(right_id)?;
        check_child(pages, right_id, right.bytes(), level)?;
        let (a, b) = (Slotted::new(left.bytes()), Slotted::new(right.bytes()));
        left.record_access(PageAccess::Header);
        right.record_access(PageAccess::Header);
        let separator = if level == 0 {
            0
        } else {
            self.key_words * 8 + CHILD_BYTES + SLOT_BYTES
        };
        let together = a.used_bytes() + b.used_bytes() + separator;
        let is_one_empty = level == 0 && (a.slots() == 0 || b.slots() == 0);
        let most = if is_one_empty {
            a.capacity()
        } else {
            a.capacity() / 4 * 3
        };
        let cells = a.slots() + b.slots() + usize::from(level > 0);
        if together > most || !pages.takes(cells) {
            return Ok(false);
        }
        let root_is_parent = parent.id() == self.root;
        let cell_bytes = self.key_words * 8 + CHILD_BYTES + SLOT_BYTES;
        let parent_left = view.used_bytes().saturating_sub(cell_bytes);
        let is_sparse = if root_is_parent {
            view.slots() == 1
        } else {
            parent_left < view.capacity() / 4
        };
        self.merge(pages, parent, left_place, left, right, reserve)?;
        if root_is_parent && is_sparse {
            let root = pages.pool.write(self.root)?;
            return self.shrink_root(pages, root, reserve);
        }
        Ok(is_sparse)
    }

    /// Moves the cells of the root's only child to the root. Says false: nothing is above it.
    fn shrink_root<'p, D: Directory>(
        &self,
        pages: &'p Pages<D>,
        root: WriteGuard<'p>,
        reserve: UndoSpace,
    ) -> Result<bool> {
        let header = Header(root.bytes());
        let is_only_link = header.kind() == Some(PageKind::Inner) && header.slots() == 0;
        if root.id() != self.root || !is_only_link {
            return Ok(false);
        }
        let id = header.link();
        let level = header.level() - 1;
        let mut child = pages.pool.write(id)?;
        check_child(pages, id, child.bytes(), level)?;
        child.record_access(PageAccess::Whole);
        let moved = child.bytes().to_vec();
        let view = Slotted::new(&moved);
        let mut change = Change::new();
        let root = change.add(root);
        change.push(root, self.format_like(&view, view.header().link()));
        for slot in 0..view.slots() {
            push_copy(&mut change, root, slot, &view, slot);
        }
        child.give_up();
        change.add(child);
        pages.release(&mut change, id)?;
        self.finish(pages, change, reserve)?;
        Ok(false)
    }

    /// Moves everything of the right page to the left one and gives the right one up.
    fn merge<'p, D: Directory>(
        &self,
        pages: &'p Pages<D>,
        parent: WriteGuard<'p>,
        left_place: usize,
        left: WriteGuard<'p>,
        mut right: WriteGuard<'p>,
        reserve: UndoSpace,
    ) -> Result<()> {
        right.record_access(PageAccess::Whole);
        let moved = right.bytes().to_vec();
        let view = Slotted::new(&moved);
        let right_id = right.id();
        debug_assert_ne!(left.id(), right_id, "a page is merged with itself");
        let mut slot = Slotted::new(left.bytes()).slots();
        let separator: Vec<u64> = key_words(Slotted::new(parent.bytes()).key(left_place)).collect();
        let mut change = Change::new();
        let parent = change.add(parent);
        let left = change.add(left);
        if view.header().kind() == Some(PageKind::Inner) {
            let cell = cell_of(&separator, &view.header().link().0.to_le_bytes());
            change.push(
                left,
                PageOp::Insert {
                    slot: slot as u16,
                    is_long: false,
                    cell: &cell,
                },
            );
            slot += 1;
        }
        for number in 0..view.slots() {
            push_copy(&mut change, left, slot + number, &view, number);
        }
        let slot = left_place as u16;
        change.push(parent, PageOp::Remove { slot });
        right.give_up();
        change.add(right);
        pages.release(&mut change, right_id)?;
        self.finish(pages, change, reserve)
    }

    pub(super) fn finish<'p, D: Directory>(
        &self,
        pages: &'p Pages<D>,
        change: Change<'p>,
        reserve: UndoSpace,
    ) -> Result<()> {
        let mut record = Vec::new();
        pages.structure.count(self.root);
        change
            .finish(&pages.pool, &Head::Change, reserve, &mut record)
            .map(drop)
    }
}

/// The slot after which about half of a page's bytes lie, with at least one cell on either side.
fn middle(view: &Slotted<'_>) -> usize {
    let half = view.used_bytes() / 2;
    let mut bytes = 0;
    for slot in 0..view.slots() {
        bytes += view.raw(slot).len() + SLOT_BYTES;
        if bytes > half {
            return slot.clamp(1, view.slots().saturating_sub(1).max(1));
        }
    }
    1
}
