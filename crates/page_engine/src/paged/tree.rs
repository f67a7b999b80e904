//! The B+tree over slotted pages: lookups, and changes of one cell of a leaf.
//!
//! The root keeps its page for life, so a tree is known by it, in memory and in undo entries.
//!
//! A lookup couples latches on its way down, from the root, or from its child if a search path
//! knows it. A change of one cell does the same and latches the leaf for writing; if the leaf has
//! too little room, or too much, it releases the leaf, changes the structure (`structure`) from the
//! root down, and tries again.
//!
//! Invariants:
//! 1. All leaves have level 0, and a child's level is one below its parent's.
//! 2. Keys of the child of cell `i` are not below that cell's key, and below the next cell's.
//! 3. A cell takes at most half of a leaf, or a quarter of an inner page, so a page that has to be
//!    split can be.

use super::change::wrong_page;
use super::search_path::{SearchPath, StructureVersion};
use super::space::Pages;
use super::transaction::Entry;
use crate::buffer::{PageAccess, ReadGuard, WriteGuard};
use crate::page::slotted::{CHILD_BYTES, SLOT_BYTES, capacity};
use crate::page::{Cell, Header, KeyOf, PageId, PageKind, PageOp, Slotted, Undo};
use disk::Directory;
use std::ops::{ControlFlow, Range};
use storage::{Result, StorageError};

/// A B+tree. Its structure changes in `structure`, its scans are in `scan`, its checks in `check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Its root, for life.
    pub root: PageId,
    /// Words of a key.
    pub key_words: usize,
}

/// Longest key of a page of `page_bytes` bytes, in words.
pub fn key_words_max(page_bytes: usize) -> usize {
    (capacity(page_bytes) / 4 - SLOT_BYTES - CHILD_BYTES) / 8
}

/// A child of the root, as it was at some moment.
#[derive(Clone, Copy)]
pub(super) struct Child {
    pub(super) id: PageId,
    pub(super) level: u8,
    pub(super) version: StructureVersion,
}

/// A value and whether it lies in pages of its own, when only its place is in the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored<'v> {
    /// The bytes in the cell.
    pub bytes: &'v [u8],
    /// Whether they only say where the value is.
    pub is_long: bool,
}

/// Callback of a scan: gets each key, as bytes, and its value.
pub type Visit<'v> = dyn FnMut(&[u8], Stored<'_>) -> Result<ControlFlow<()>> + 'v;

/// Locking of the cells that a scan reaches.
pub trait ScanCells {
    /// Whether ranges are covered; else the other two methods do nothing.
    fn is_locking(&self) -> bool {
        true
    }

    /// Keeps others from changing cells with keys from `low` to `high`, both included, until
    /// [`ScanCells::uncover`] at least. No latch is held meanwhile.
    fn cover(&mut self, low: &[u64], high: &[u64]) -> Result<()>;

    /// All cells of the last range have been visited.
    fn uncover(&mut self);

    /// Takes the next cell.
    fn visit(&mut self, key: &[u8], value: Stored<'_>) -> Result<ControlFlow<()>>;
}

/// A scan in which nothing is locked.
pub(super) struct Unlocked<'v, 'c>(pub(super) &'v mut Visit<'c>);

impl ScanCells for Unlocked<'_, '_> {
    fn is_locking(&self) -> bool {
        false
    }

    fn cover(&mut self, _: &[u64], _: &[u64]) -> Result<()> {
        Ok(())
    }

    fn uncover(&mut self) {}

    fn visit(&mut self, key: &[u8], value: Stored<'_>) -> Result<ControlFlow<()>> {
        (self.0)(key, value)
    }
}

impl Tree {
    /// Most bytes of a value that lies in a leaf.
    pub fn value_bytes_max(&self, page_bytes: usize) -> usize {
        capacity(page_bytes) / 2 - SLOT_BYTES - self.key_words * 8
    }

    /// Whether pages of `page_bytes` bytes can have keys of `key_words` words.
    pub fn check_key(page_bytes: usize, key_words: usize) -> Result<()> {
        if key_words <= key_words_max(page_bytes) {
            return Ok(());
        }
        Err(StorageError::Unsupported(format!(
            "keys of {} bytes need larger pages than {page_bytes} bytes, whose keys have at most {}",
            key_words * 8,
            key_words_max(page_bytes) * 8
        )))
    }

    /// The leaf that has or would have a key.
    #[inline]
    pub(super) fn leaf<'p, D: Directory>(
        &self,
        pages: &'p Pages<D>,
        key: &[u64],
        search_path: &mut SearchPath,
    ) -> Result<ReadGuard<'p>> {
        debug_assert_eq!(key.len(), self.key_words, "the key is of another tree");
        let mut guard = self.begin(pages, key, search_path)?;
        while let Some((id, level)) = child_of(guard.bytes(), key) {
            guard.record_access(PageAccess::Key(key));
            let child = pages.pool.read(id)?;
            check_child(pages, id, child.bytes(), level)?;
            guard = child;
        }
        Ok(guard)
    }

    /// The root, which the search path takes note of.
    pub(super) fn root_again<'p, D: Directory>(
        &self,
        pages: &'p Pages<D>,
        search_path: &mut SearchPath,
    ) -> Result<ReadGuard<'p>> {
        let root = pages.pool.read(self.root)?;
        self.check_root(pages, root.bytes())?;
        root.record_access(PageAccess::Header);
        if search_path.note_root(root.bytes(), pages.structure.now(self.root)) {
            root.record_access(PageAccess::Whole);
        }
        Ok(root)
    }

    /// The root's child that has or would have a key, by what the search path knows of the root.
    #[inline]
    fn known_child<D: Directory>(
        &self,
        pages: &Pages<D>,
        key: &[u64],
        search_path: &SearchPath,
    ) -> Option<Child> {
        let version = pages.structure.now(self.root);
        let (id, level) = child_of(search_path.root(version)?, key)?;
        Some(Child { id, level, version })
    }

    /// A child of the root, unless the structure has changed since.
    #[inline]
    pub(super) fn read_child<'p, D: Directory>(
        &self,
        pages: &'p Pages<D>,
        Child { id, level, version }: Child,
    ) -> Result<Option<ReadGuard<'p>>> {
        let child = pages.pool.read(id)?;
        if pages.structure.now(self.root) != version {
            return Ok(None);
        }
        check_child(pages, id, child.bytes(), level)?;
        Ok(Some(child))
    }

    /// The page to descend from: a child of the root that the search path leads to, or the root.
    #[inline]
    fn begin<'p, D: Directory>(
        &self,
        pages: &'p Pages<D>,
        key: &[u64],
        search_path: &mut SearchPath,
    ) -> Result<ReadGuard<'p>> {
        if let Some(child) = self.known_child(pages, key, search_path)
            && let Some(guard) = self.read_child(pages, child)?
        {
            return Ok(guard);
        }
        self.root_again(pages, search_path)
    }

    /// The leaf that has or would have a key, to change it.
    fn leaf_to_change<'p, D: Directory>(
        &self,
        pages: &'p Pages<D>,
        key: &[u64],
        search_path: &mut SearchPath,
    ) -> Result<WriteGuard<'p>> {
        debug_assert_eq!(key.len(), self.key_words, "the key is of another tree");
        loop {
            if let Some(child @ Child { level: 0, .. }) = self.known_child(pages, key, search_path)
            {
                let leaf = pages.pool.write(child.id)?;
                if pages.structure.now(self.root) == child.version {
                    check_child(pages, child.id, leaf.bytes(), 0)?;
                    return Ok(leaf);
                }
                // The search path is out of date now.
                continue;
            }
            let mut guard = self.begin(pages, key, search_path)?;
            loop {
                let Some((id, level)) = child_of(guard.bytes(), key) else {
                    drop(guard);
                    let root = pages.pool.write(self.root)?;
                    if Header(root.bytes()).kind() == Some(PageKind::Leaf) {
                        return Ok(root);
                    }
                    // It has grown in between.
                    break;
                };
                guard.record_access(PageAccess::Key(key));
                if level == 0 {
                    let leaf = pages.pool.write(id)?;
                    check_child(pages, id, leaf.bytes(), 0)?;
                    return Ok(leaf);
                }
                let child = pages.pool.read(id)?;
                check_child(pages, id, child.bytes(), level)?;
                guard = child;
            }
        }
    }

    pub(super) fn check_root<D: Directory>(&self, pages: &Pages<D>, page: &[u8]) -> Result<()> {
        let header = Header(page);
        let is_tree = matches!(header.kind(), Some(PageKind::Leaf | PageKind::Inner));
        if is_tree && header.key_words() == self.key_words {
            return Ok(());
        }
        Err(wrong_page(
            &pages.pool,
            self.root,
            "the page is not the root of a tree with keys of this length",
        ))
    }

    /// Calls `read` with the cell of a key, which the search path may lead to and then does.
    #[inline]
    pub(super) fn get_again<D: Directory, T>(
        &self,
        pages: &Pages<D>,
        key: &[u64],
        search_path: &mut SearchPath,
        read: impl FnOnce(Stored<'_>) -> T,
    ) -> Result<Option<T>> {
        debug_assert_eq!(key.len(), self.key_words, "the key is of another tree");
        if let Some(leaf) = self.leaf_again(pages, key, search_path)? {
            let view = Slotted::new(leaf.bytes());
            leaf.record_access(PageAccess::Key(key));
            if let (slot, true) = view.search(key) {
                return Ok(Some(read(stored(view.cell(slot)))));
            }
        }
        let leaf = self.leaf(pages, key, search_path)?;
        let view = Slotted::new(leaf.bytes());
        leaf.record_access(PageAccess::Key(key));
        let (slot, is_there) = view.search(key);
        if !is_there {
            return Ok(None);
        }
        if let Some(id) = leaf.id() {
            search_path.note(key, id, pages.structure.now(self.root));
        }
        Ok(Some(read(stored(view.cell(slot)))))
    }

    /// The leaf that the search path has for a key, if it is still the one.
    #[inline]
    fn leaf_again<'p, D: Directory>(
        &self,
        pages: &'p Pages<D>,
        key: &[u64],
        search_path: &SearchPath,
    ) -> Result<Option<ReadGuard<'p>>> {
        let now = || pages.structure.now(self.root);
        let Some((id, version)) = search_path
            .find(key)
            .filter(|(_, version)| *version == now())
        else {
            return Ok(None);
        };
        let leaf = pages.pool.read(id)?;
        Ok((now() == version).then_some(leaf))
    }

    /// As [`Tree::leaf_to_change`], for a key that is there: by the search path if it leads to it.
    /// The search is accounted for.
    #[inline]
    fn leaf_to_replace<'p, D: Directory>(
        &self,
        pages: &'p Pages<D>,
        key: &[u64],
        search_path: &mut SearchPath,
    ) -> Result<WriteGuard<'p>> {
        let now = || pages.structure.now(self.root);
        if let Some((id, version)) = search_path
            .find(key)
            .filter(|(_, version)| *version == now())
        {
            let leaf = pages.pool.write(id)?;
            if now() == version {
                leaf.record_access(PageAccess::Key(key));
                if Slotted::new(leaf.bytes()).search(key).1 {
                    return Ok(leaf);
                }
            }
        }
        let leaf = self.leaf_to_change(pages, key, search_path)?;
        leaf.record_access(PageAccess::Key(key));
        Ok(leaf)
    }

    /// Calls `read` with the cell of a key.
    #[inline]
    pub fn get<D: Directory, T>(
        &self,
        pages: &Pages<D>,
        key: &[u64],
        read: impl FnOnce(Stored<'_>) -> T,
    ) -> Result<Option<T>> {
        let leaf = self.leaf(pages, key, &mut SearchPath::default())?;
        let view = Slotted::new(leaf.bytes());
        leaf.record_access(PageAccess::Key(key));
        let (slot, is_there) = view.search(key);
        if !is_there {
            return Ok(None);
        }
        Ok(Some(read(stored(view.cell(slot)))))
    }

    /// Adds a cell; false, and no effect, if the key is there.
    pub(super) fn insert<D: Directory>(
        &self,
        pages: &Pages<D>,
        (key, search_path): (&[u64], &mut SearchPath),
        value: Stored<'_>,
        entry: &mut Entry<'_>,
    ) -> Result<bool> {
        debug_assert!(
            value.bytes.len() <= self.value_bytes_max(pages.page_bytes()),
            "a value is too long for a leaf"
        );
        let cell_bytes = self.key_words * 8 + value.bytes.len();
        loop {
            let leaf = self.leaf_to_change(pages, key, search_path)?;
            let view = Slotted::new(leaf.bytes());
            leaf.record_access(PageAccess::Key(key));
            let (slot, is_there) = view.search(key);
            if is_there {
                return Ok(false);
            }
            if !pages.fits(&view, cell_bytes) {
                drop(leaf);
                self.split_for(pages, key, cell_bytes, entry.reserve(pages.log_room()))?;
                continue;
            }
            let cell = take_cell(entry, key, value.bytes);
            let op = PageOp::Insert {
                slot: slot as u16,
                is_long: value.is_long,
                cell: &cell,
            };
            entry.note(&op, &Undo::Remove(self.key_of(&cell)));
            entry.transaction().cell = cell;
            entry.log_noted(&pages.pool, pages.log_room(), leaf)?;
            return Ok(true);
        }
    }

    /// Takes the cell of a key out and calls `removed` with it first; false if there is none.
    pub(super) fn remove<D: Directory>(
        &self,
        pages: &Pages<D>,
        (key, search_path): (&[u64], &mut SearchPath),
        entry: &mut Entry<'_>,
        removed: impl FnOnce(Stored<'_>, &mut Entry<'_>) -> Result<()>,
    ) -> Result<bool> {
        let leaf = self.leaf_to_change(pages, key, search_path)?;
        let view = Slotted::new(leaf.bytes());
        leaf.record_access(PageAccess::Key(key));
        let (slot, is_there) = view.search(key);
        if !is_there {
            return Ok(false);
        }
        let (cell, old) = (view.raw(slot), stored(view.cell(slot)));
        removed(old, entry)?;
        let left = view.used_bytes().saturating_sub(cell.len() + SLOT_BYTES);
        let is_sparse = leaf.id() != self.root && left < view.capacity() / 4;
        let undo = Undo::Insert(self.key_of(cell), old.is_long, old.bytes);
        entry.note(&PageOp::Remove { slot: slot as u16 }, &undo);
        entry.log_noted(&pages.pool, pages.log_room(), leaf)?;
        if is_sparse {
            self.merge_for(pages, key, entry.reserve(pages.log_room()))?;
        }
        Ok(true)
    }

    /// Gives a key another value and calls `replaced` with the old one first; false if there is
    /// none. Where old and new lie in the cell and have the same length, only the bytes between the
    /// first and the last difference are logged.
    pub(super) fn replace<D: Directory>(
        &self,
        pages: &Pages<D>,
        (key, search_path): (&[u64], &mut SearchPath),
        value: Stored<'_>,
        entry: &mut Entry<'_>,
        replaced: impl FnOnce(Stored<'_>, &mut Entry<'_>) -> Result<()>,
    ) -> Result<bool> {
        debug_assert!(
            value.bytes.len() <= self.value_bytes_max(pages.page_bytes()),
            "a value is too long for a leaf"
        );
        let key_bytes = self.key_words * 8;
        let mut replaced = Some(replaced);
        loop {
            let leaf = self.leaf_to_replace(pages, key, search_path)?;
            let view = Slotted::new(leaf.bytes());
            let (slot, is_there) = view.search(key);
            if !is_there {
                return Ok(false);
            }
            let (raw, old) = (view.raw(slot), stored(view.cell(slot)));
            let more = (key_bytes + value.bytes.len()).saturating_sub(raw.len());
            if view.used_bytes() + more > view.capacity() {
                drop(leaf);
                self.split_for(pages, key, more, entry.reserve(pages.log_room()))?;
                continue;
            }
            if !old.is_long && !value.is_long && old.bytes.len() == value.bytes.len() {
                let Some(changed) = difference(old.bytes, value.bytes) else {
                    return Ok(true);
                };
                let at = (key_bytes + changed.start) as u16;
                let undo = Undo::Patch(self.key_of(raw), at, &old.bytes[changed.clone()]);
                let op = PageOp::Patch {
                    slot: slot as u16,
                    at,
                    bytes: &value.bytes[changed],
                };
                entry.note(&op, &undo);
                entry.log_noted(&pages.pool, pages.log_room(), leaf)?;
                return Ok(true);
            }
            if let Some(replaced) = replaced.take() {
                replaced(old, entry)?;
            }
            let cell = take_cell(entry, key, value.bytes);
            let undo = Undo::Replace(self.key_of(raw), old.is_long, old.bytes);
            let op = PageOp::Replace {
                slot: slot as u16,
                is_long: value.is_long,
                cell: &cell,
            };
            entry.note(&op, &undo);
            entry.transaction().cell = cell;
            entry.log_noted(&pages.pool, pages.log_room(), leaf)?;
            return Ok(true);
        }
    }

    /// Overwrites bytes of a cell, as an undo; false if the key is not there.
    pub fn patch<D: Directory>(
        &self,
        pages: &Pages<D>,
        key: &[u64],
        at: u16,
        bytes: &[u8],
        entry: &mut Entry<'_>,
    ) -> Result<bool> {
        debug_assert!(
            matches!(entry, Entry::Compensation(_)),
            "bytes of a cell are overwritten by an undo only"
        );
        let leaf = self.leaf_to_change(pages, key, &mut SearchPath::default())?;
        let view = Slotted::new(leaf.bytes());
        leaf.record_access(PageAccess::Key(key));
        let (slot, is_there) = view.search(key);
        if !is_there {
            return Ok(false);
        }
        let undo = Undo::Remove(self.key_of(view.raw(slot)));
        let slot = slot as u16;
        entry.note(&PageOp::Patch { slot, at, bytes }, &undo);
        entry.log_noted(&pages.pool, pages.log_room(), leaf)?;
        Ok(true)
    }

    fn key_of<'b>(&self, cell: &'b [u8]) -> KeyOf<'b> {
        KeyOf {
            root: self.root,
            key: &cell[..self.key_words * 8],
        }
    }
}

/// From the first to the last byte in which values of one length differ.
fn difference(old: &[u8], new: &[u8]) -> Option<Range<usize>> {
    /// Compared at once.
    const STEP: usize = 32;
    debug_assert_eq!(old.len(), new.len(), "the values differ in length");
    let steps = old.chunks_exact(STEP).zip(new.chunks_exact(STEP));
    let start = steps.take_while(|(old, new)| old == new).count() * STEP;
    let mut rest = old[start..].iter().zip(&new[start..]);
    let first = start + rest.position(|(old, new)| old != new)?;
    let steps = old.rchunks_exact(STEP).zip(new.rchunks_exact(STEP));
    let end = old.len() - steps.take_while(|(old, new)| old == new).count() * STEP;
    let mut rest = old[..end].iter().zip(&new[..end]);
    let last = rest.rposition(|(old, new)| old != new)?;
    Some(first..last + 1)
}

#[inline]
pub(super) fn stored(cell: Cell<'_>) -> Stored<'_> {
    Stored {
        bytes: cell.value,
        is_long: cell.is_long,
    }
}

/// The bytes of a cell.
pub(super) fn cell_of(key: &[u64], value: &[u8]) -> Vec<u8> {
    let mut cell = Vec::with_capacity(key.len() * 8 + value.len());
    put_cell(key, value, &mut cell);
    cell
}

/// The bytes of a cell, in a buffer of the transaction.
fn take_cell(entry: &mut Entry<'_>, key: &[u64], value: &[u8]) -> Vec<u8> {
    let mut cell = std::mem::take(&mut entry.transaction().cell);
    cell.clear();
    put_cell(key, value, &mut cell);
    cell
}

fn put_cell(key: &[u64], value: &[u8], cell: &mut Vec<u8>) {
    for word in key {
        cell.extend_from_slice(&word.to_le_bytes());
    }
    cell.extend_from_slice(value);
}

/// The child that has a key, and its level; none for a leaf.
#[inline]
fn child_of(page: &[u8], key: &[u64]) -> Option<(PageId, u8)> {
    let view = Slotted::new(page);
    let header = view.header();
    if header.kind() != Some(PageKind::Inner) {
        return None;
    }
    let id = view.child_at(view.child_place(key));
    Some((id, header.level().saturating_sub(1)))
}

/// Fails unless a page is the child that its parent means. Levels go down, so no descent is
/// endless.
#[inline]
pub(super) fn check_child<D: Directory>(
    pages: &Pages<D>,
    id: PageId,
    page: &[u8],
    level: u8,
) -> Result<()> {
    let header = Header(page);
    let wanted = if level == 0 {
        PageKind::Leaf
    } else {
        PageKind::Inner
    };
    if header.kind() == Some(wanted) && header.level() == level {
        return Ok(());
    }
    let detail = format!("its parent says that the page has level {level}, and it has not");
    Err(wrong_page(&pages.pool, id, &detail))
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn a_difference_goes_from_its_first_byte_to_its_last() {
        let old: Vec<u8> = (0..150).collect();
        assert_eq!(difference(&old, &old), None);
        assert_eq!(difference(&[], &[]), None);
        for (first, last) in [(0, 0), (149, 149), (0, 149), (31, 32), (63, 64), (70, 75)] {
            let mut new = old.clone();
            (new[first], new[last]) = (!old[first], !old[last]);
            assert_eq!(difference(&old, &new), Some(first..last + 1));
        }
    }
}
