//! Slotted trees as a snapshot sees them, read while another thread changes them.
//!
//! A page is copied into DRAM when it is read first: its header is the one that the snapshot shows
//! ([`Versions`]), and the cells that it names are not stored to while the lease lives. Everything
//! is checked after it was copied, so that a cell that is reused too early is an error and not a
//! wrong answer. Nobody waits for a reader, except for the copy of one header's lines.

use super::cell::{Cell, LONG};
use super::header::{self, Geometry, Header, LINE, LINES_MAX, PageBytes, Seal, damaged};
use super::long::HEAD_BYTES;
use super::pages::SlottedPages;
use super::tree::SlottedTree;
use super::versions::Versions;
use crate::index::cow::limbo::Lease;
use crate::index::cow::snapshot::unchangeable;
use crate::index::cow::{TreeReport, Value};
use crate::index::trees::{Trees, Visitor};
use pmem::{Memory, View};
use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::Result;
use storage::engine::{Direction, GlobalTxnId};
use storage::place::PlaceMap;

/// Bytes of pages that are kept. With one more, all of them are forgotten.
const CACHE_BYTES: usize = 32 << 20;

impl<M: Memory> SlottedPages<M> {
    /// The trees as they are now, for a reader concurrent with the partition. The last group must
    /// be durable and nothing dirty.
    pub fn snapshot(&mut self) -> Result<SlottedSnapshot> {
        let view = self.arena.view()?;
        let lease = self.limbo.take();
        let form = (self.geometry, self.seal);
        let (versions, directory) = (Arc::clone(&self.versions), self.roots[0].now);
        Ok(SlottedSnapshot::new(view, versions, form, directory, lease))
    }
}

/// A page that was copied.
struct Copy {
    page: u64,
    header: Header,
    bytes: Vec<u8>,
}

impl PageBytes for Copy {
    fn bytes(&self, at: u64, bytes: usize) -> Result<&[u8]> {
        let first = at.checked_sub(self.page).map(|first| first as usize);
        let range = first.map(|first| first..first.saturating_add(bytes));
        let found = range.and_then(|range| self.bytes.get(range));
        found.ok_or_else(|| damaged(self.page, "a cell leaves its page"))
    }

    fn word(&self, at: u64) -> Result<u64> {
        let bytes = self.bytes(at, 8)?;
        Ok(bytes.try_into().map_or(0, u64::from_le_bytes))
    }
}

impl Copy {
    fn count(&self) -> usize {
        self.header.count()
    }

    fn is_leaf(&self) -> bool {
        self.header.level() == 0
    }

    fn cell(&self, geometry: Geometry, index: usize) -> Result<Cell> {
        let slot = self.header.used().get(index).copied().map(usize::from);
        let slot = slot.filter(|&slot| slot < geometry.units);
        let slot = slot.ok_or_else(|| damaged(self.page, "it has no such cell"))?;
        let at = self.page + (slot * geometry.unit) as u64;
        Cell::open(self, at, self.page + self.bytes.len() as u64)
    }

    /// The words from a place in the page on.
    fn words(&self, at: u64, count: usize) -> Result<impl Iterator<Item = u64>> {
        let words = self.bytes(at, 8 * count)?.as_chunks::<8>().0;
        Ok(words.iter().map(|word| u64::from_le_bytes(*word)))
    }

    fn key(&self, cell: Cell) -> Result<impl Iterator<Item = u64>> {
        self.words(cell.at + 8, cell.key_words)
    }

    /// The words of a value.
    fn value_words(&self, cell: Cell) -> Result<impl Iterator<Item = u64>> {
        let at = cell.at + 8 + 8 * cell.key_words as u64;
        self.words(at, cell.value_bytes / 8)
    }

    /// Position of `key` among the cells from `low` on, or where it belongs.
    fn find(
        &self,
        geometry: Geometry,
        key: &[u64],
        mut low: usize,
    ) -> Result<std::result::Result<usize, usize>> {
        let mut high = self.count();
        while low < high {
            let middle = usize::midpoint(low, high);
            let found = self.key(self.cell(geometry, middle)?)?;
            match found.cmp(key.iter().copied()) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(Ok(middle)),
            }
        }
        Ok(Err(low))
    }

    /// The cell of an inner page below which `key` belongs.
    fn child_index(&self, geometry: Geometry, key: &[u64]) -> Result<usize> {
        let found = self.find(geometry, key, 1)?;
        Ok(found.unwrap_or_else(|index| index.saturating_sub(1)))
    }

    /// The page that a cell of an inner page leads to.
    fn child(&self, geometry: Geometry, index: usize) -> Result<u64> {
        let child = self.value_words(self.cell(geometry, index)?)?.next();
        child.ok_or_else(|| damaged(self.page, "a cell has no child"))
    }
}

/// The trees of one partition as a snapshot shows them.
pub struct SlottedSnapshot {
    view: View,
    versions: Arc<Versions>,
    geometry: Geometry,
    seal: Seal,
    /// Roots by the numbers of trees.
    roots: Vec<u64>,
    copies: PlaceMap<u64, Arc<Copy>>,
    /// Last, so that nothing is read once it is gone.
    lease: Lease,
}

impl SlottedSnapshot {
    pub(super) fn new(
        view: View,
        versions: Arc<Versions>,
        (geometry, seal): (Geometry, Seal),
        directory: u64,
        lease: Lease,
    ) -> Self {
        Self {
            view,
            versions,
            geometry,
            seal,
            roots: vec![directory],
            copies: PlaceMap::default(),
            lease,
        }
    }

    /// The page, one level below `above`.
    fn page(&mut self, page: u64, above: Option<u8>) -> Result<Arc<Copy>> {
        let copy = match self.copies.get(&page) {
            Some(copy) => Arc::clone(copy),
            None => self.load(page)?,
        };
        if above.is_some_and(|above| copy.header.level().checked_add(1) != Some(above)) {
            return Err(damaged(page, "it is not one level below its parent"));
        }
        Ok(copy)
    }

    fn load(&mut self, page: u64) -> Result<Arc<Copy>> {
        if !page.is_multiple_of(LINE as u64) {
            return Err(damaged(page, "no page begins there"));
        }
        let (geometry, seal) = (self.geometry, self.seal);
        let mut copy = Copy {
            page,
            header: Header::new(0, geometry),
            bytes: vec![0; geometry.page_bytes],
        };
        self.view.read(page, &mut copy.bytes)?;
        let header = self.versions.header(page, self.lease.number(), || {
            let head = (2 * LINE * LINES_MAX).min(copy.bytes.len());
            self.view.read(page, &mut copy.bytes[..head])?;
            let sequence = header::sequence_in_force(&copy, seal, page)?;
            header::read(&copy, seal, geometry, page, sequence, true)
        });
        copy.header = header?;
        for index in 0..copy.count() {
            let cell = copy.cell(geometry, index)?;
            if !cell.is_sound(&copy)? {
                return Err(damaged(cell.at, "the checksum of a cell does not fit"));
            }
        }
        if self.copies.len() * geometry.page_bytes >= CACHE_BYTES {
            self.copies.clear();
        }
        let copy = Arc::new(copy);
        self.copies.insert(page, Arc::clone(&copy));
        Ok(copy)
    }

    fn root(&mut self, tree: SlottedTree) -> Result<Option<Arc<Copy>>> {
        match self.roots[tree.tree] {
            0 => Ok(None),
            root => self.page(root, None).map(Some),
        }
    }

    /// Calls `visit` with each page of a long value and the bytes of its part.
    fn long_parts(&self, copy: &Copy, cell: Cell, mut visit: impl FnMut(u64, &[u8])) -> Result<()> {
        let (mut page, mut left) = cell.long(copy)?;
        let mut part = vec![0; self.geometry.page_bytes];
        while left > 0 {
            let wrong = || damaged(page, "the checksum of a long page does not fit");
            let (head, content) = part.split_at_mut(HEAD_BYTES);
            self.view.read(page, head)?;
            let word = |at: usize| head[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
            let content = content.get_mut(..word(4) as usize).ok_or_else(wrong)?;
            self.view.read(page + HEAD_BYTES as u64, content)?;
            let sum = crc32c::crc32c_append(crc32c::crc32c(&head[4..]), content);
            left = left.checked_sub(content.len() as u64).ok_or_else(wrong)?;
            if sum != word(0) || content.is_empty() {
                return Err(wrong());
            }
            visit(page, content);
            page = u64::from(word(8)) | u64::from(word(12)) << 32;
        }
        Ok(())
    }

    /// Calls `read` with the value of a leaf's cell, for which there are two buffers.
    fn read_cell<R>(
        &self,
        tree: SlottedTree,
        (copy, cell): (&Copy, Cell),
        buffer: &mut Vec<u8>,
        read: impl FnOnce(Value<'_>) -> Result<R>,
    ) -> Result<R> {
        if tree.value_words > 0 {
            let words: Vec<u64> = copy.value_words(cell)?.collect();
            if words.len() != tree.value_words {
                return Err(damaged(cell.at, "a cell has another value than its tree's"));
            }
            return read(Value::Words(&words));
        }
        if cell.kind == LONG {
            buffer.clear();
            self.long_parts(copy, cell, |_, part| buffer.extend_from_slice(part))?;
            return read(Value::Bytes(buffer));
        }
        read(Value::Bytes(cell.value(copy)?))
    }

    fn scan_page(
        &mut self,
        scan: &mut Scan<'_>,
        copy: &Copy,
        visit: Visitor<'_, Self>,
    ) -> Result<ControlFlow<()>> {
        let geometry = self.geometry;
        let (low, high) = scan.bounds;
        let (first, end) = if copy.is_leaf() {
            let first = copy.find(geometry, low, 0)?;
            let end = copy.find(geometry, high, 0)?;
            (
                first.unwrap_or_else(|index| index),
                end.map_or_else(|index| index, |index| index + 1),
            )
        } else {
            let last = copy.child_index(geometry, high)?;
            (copy.child_index(geometry, low)?, last + 1)
        };
        for number in first..end {
            let index = match scan.direction {
                Direction::Forward => number,
                Direction::Backward => first + (end - 1 - number),
            };
            let flow = if copy.is_leaf() {
                let cell = copy.cell(geometry, index)?;
                scan.key.clear();
                scan.key.extend(copy.key(cell)?);
                let mut buffer = Vec::new();
                let key = &scan.key;
                // The visitor gets the trees, so what it reads is not theirs.
                let value = self.read_cell(scan.tree, (copy, cell), &mut buffer, |value| {
                    Ok(match value {
                        Value::Words(words) => (words.to_vec(), Vec::new()),
                        Value::Bytes(bytes) => (Vec::new(), bytes.to_vec()),
                    })
                })?;
                match value {
                    (words, _) if scan.tree.value_words > 0 => {
                        visit(self, key, Value::Words(&words))?
                    }
                    (_, bytes) => visit(self, key, Value::Bytes(&bytes))?,
                }
            } else {
                let child = self.page(copy.child(geometry, index)?, Some(copy.header.level()))?;
                self.scan_page(scan, &child, visit)?
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn check_page(
        &mut self,
        tree: SlottedTree,
        copy: &Copy,
        last: &mut Vec<u64>,
        report: &mut TreeReport,
    ) -> Result<()> {
        report.pages.push(copy.page);
        for index in 0..copy.count() {
            if !copy.is_leaf() {
                let child = copy.child(self.geometry, index)?;
                let child = self.page(child, Some(copy.header.level()))?;
                self.check_page(tree, &child, last, report)?;
                continue;
            }
            let cell = copy.cell(self.geometry, index)?;
            let key: Vec<u64> = copy.key(cell)?.collect();
            if key.len() != tree.key_words || !last.is_empty() && key <= *last {
                return Err(damaged(copy.page, "its keys are out of order"));
            }
            *last = key;
            if cell.kind == LONG {
                self.long_parts(copy, cell, |page, _| report.pages.push(page))?;
            }
        }
        Ok(())
    }
}

/// A scan in progress.
struct Scan<'k> {
    tree: SlottedTree,
    bounds: (&'k [u64], &'k [u64]),
    direction: Direction,
    key: Vec<u64>,
}

impl Trees for SlottedSnapshot {
    type Tree = SlottedTree;
    type Savepoint = ();

    fn forget_trees(&mut self) {
        self.roots.truncate(1);
    }

    fn directory_tree(&self, key_words: usize) -> Result<SlottedTree> {
        Ok(SlottedTree {
            tree: 0,
            key_words,
            value_words: 0,
        })
    }

    fn add_tree(&mut self, root: u64, key_words: usize, value_words: usize) -> Result<SlottedTree> {
        self.roots.push(root);
        Ok(SlottedTree {
            tree: self.roots.len() - 1,
            key_words,
            value_words,
        })
    }

    fn number(tree: SlottedTree) -> usize {
        tree.tree
    }

    fn committed_root(&self, tree: usize) -> u64 {
        self.roots[tree]
    }

    fn wants_touch(&self, _tree: usize) -> bool {
        false
    }

    fn touch(&mut self, _: SlottedTree, _: SlottedTree, _: &[u64]) -> Result<bool> {
        unchangeable()
    }

    fn roots_to_write(&self) -> Vec<(usize, u64)> {
        Vec::new()
    }

    fn end_operation(&mut self) -> Result<()> {
        unchangeable()
    }

    fn insert(&mut self, _: SlottedTree, _: &[u64], _: Value<'_>) -> Result<bool> {
        unchangeable()
    }

    fn replace(&mut self, _: SlottedTree, _: &[u64], _: Value<'_>) -> Result<bool> {
        unchangeable()
    }

    fn replace_content(
        &mut self,
        _: SlottedTree,
        _: &[u64],
        _: &mut Vec<u8>,
        _: &mut Vec<u8>,
        _: impl FnOnce(&[u8], &mut Vec<u8>) -> Result<()>,
    ) -> Result<bool> {
        unchangeable()
    }

    fn remove(&mut self, _: SlottedTree, _: &[u64]) -> Result<bool> {
        unchangeable()
    }

    fn get<R>(
        &mut self,
        tree: SlottedTree,
        key: &[u64],
        buffer: &mut Vec<u8>,
        read: impl FnOnce(Value<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        let Some(mut copy) = self.root(tree)? else {
            return Ok(None);
        };
        while !copy.is_leaf() {
            let index = copy.child_index(self.geometry, key)?;
            copy = self.page(copy.child(self.geometry, index)?, Some(copy.header.level()))?;
        }
        let Ok(index) = copy.find(self.geometry, key, 0)? else {
            return Ok(None);
        };
        let cell = copy.cell(self.geometry, index)?;
        self.read_cell(tree, (&copy, cell), buffer, read).map(Some)
    }

    fn scan(
        &mut self,
        tree: SlottedTree,
        bounds: (&[u64], &[u64]),
        direction: Direction,
        _block_bytes: usize,
        visit: Visitor<'_, Self>,
    ) -> Result<()> {
        let Some(root) = self.root(tree)?.filter(|_| bounds.0 <= bounds.1) else {
            return Ok(());
        };
        let mut scan = Scan {
            tree,
            bounds,
            direction,
            key: Vec::new(),
        };
        self.scan_page(&mut scan, &root, visit).map(|_| ())
    }

    fn clear(
        &mut self,
        _: SlottedTree,
        _: &mut dyn FnMut(&mut Self, Value<'_>) -> Result<()>,
    ) -> Result<()> {
        unchangeable()
    }

    fn check(&mut self, tree: SlottedTree, report: &mut TreeReport) {
        let checked = self.root(tree).and_then(|root| match root {
            Some(root) => self.check_page(tree, &root, &mut Vec::new(), report),
            None => Ok(()),
        });
        if let Err(error) = checked {
            report.damage.push(error.to_string());
        }
    }

    fn reclaim(&mut self) {}

    fn savepoint(&mut self) {}

    fn rollback(&mut self, (): ()) -> Result<()> {
        Ok(())
    }

    fn transaction_bytes(&self) -> usize {
        0
    }

    fn is_changed(&self) -> bool {
        false
    }

    fn end_transaction(&mut self) {}

    fn is_dirty(&self) -> bool {
        false
    }

    fn dirty_bytes(&self) -> usize {
        0
    }

    fn commit(&mut self) -> Result<()> {
        unchangeable()
    }

    fn prepare(&mut self, _: GlobalTxnId) -> Result<()> {
        unchangeable()
    }

    fn resolve(&mut self, _: bool) -> Result<()> {
        unchangeable()
    }
}
