//! Changes of a tree: insertion and removal of cells, splits, rewriting and merges.
//!
//! A cell goes into its page where there is room. If there is none, but unreferenced cells take
//! much of the page, the page is copied to a new place and its parent points there (defragmentation
//! by copying). Else it is split: the half that the new cell belongs to goes to a new page, the
//! other stays, with a header that names fewer cells. At the right edge of a tree the new cell goes
//! to a new page alone, so that rows which come in key order fill their pages. A page that is less
//! than a third full is merged with a neighbour where both fit into three quarters of a page.

use super::cell::{INLINE, LONG, LONG_BYTES, cell_bytes, encode};
use super::header::{FIRST_SLOTS, lines_of};
use super::long;
use super::pages::{Root, SlottedPages, View};
use super::tree::{Path, SlottedTree};
use crate::index::cow::Value;
use pmem::{Memory, Part};
use std::ops::Range;
use storage::{Result, StorageError};

/// Cells on their way into a page, one after the other.
#[derive(Default)]
struct Cells {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Cells {
    fn push(&mut self, cell: &[u8]) {
        self.bytes.extend_from_slice(cell);
        self.ends.push(self.bytes.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }

    fn range(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> + Clone {
        range.map(|index| self.get(index))
    }

    fn all(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.range(0..self.len())
    }
}

impl SlottedTree {
    /// The part of the database that a page of a level is of.
    fn part(self, level: u8) -> Part {
        if level == 0 && self.value_words == 0 {
            Part::Table
        } else {
            Part::Index
        }
    }
}

impl<M: Memory> SlottedPages<M> {
    /// Adds a key; false, and no effect, if it is there.
    pub(super) fn insert_entry(
        &mut self,
        tree: SlottedTree,
        key: &[u64],
        value: Value<'_>,
    ) -> Result<bool> {
        let mut path = Path::default();
        let found = self.find_path(tree, key, &mut path)?;
        if found == Some(true) {
            return Ok(false);
        }
        let cell = self.make_cell(tree, key, value)?;
        if found.is_some() {
            let (depth, index) = (path.length - 1, path.leaf().index);
            self.splice(tree, &path, depth, (index, 0), std::slice::from_ref(&cell))?;
        } else {
            let page = self.fill(tree, 0, std::iter::once(&cell[..]))?;
            self.move_root(tree, page);
        }
        self.cell = cell;
        Ok(true)
    }

    /// Gives a key another value; false if it is not there.
    pub(super) fn replace_entry(
        &mut self,
        tree: SlottedTree,
        key: &[u64],
        value: Value<'_>,
    ) -> Result<bool> {
        let mut path = Path::default();
        if self.find_path(tree, key, &mut path)? != Some(true) {
            return Ok(false);
        }
        self.replace_at(tree, key, &path, value)?;
        Ok(true)
    }

    /// Gives the key at the end of a way another value.
    pub(super) fn replace_at(
        &mut self,
        tree: SlottedTree,
        key: &[u64],
        path: &Path,
        value: Value<'_>,
    ) -> Result<()> {
        self.drop_value(path)?;
        let cell = self.make_cell(tree, key, value)?;
        let (depth, index) = (path.length - 1, path.leaf().index);
        self.splice(tree, path, depth, (index, 1), std::slice::from_ref(&cell))?;
        self.cell = cell;
        Ok(())
    }

    /// Takes a key out; false if it is not there.
    pub(super) fn remove_entry(&mut self, tree: SlottedTree, key: &[u64]) -> Result<bool> {
        let mut path = Path::default();
        if self.find_path(tree, key, &mut path)? != Some(true) {
            return Ok(false);
        }
        self.drop_value(&path)?;
        let leaf = path.leaf();
        let number = self.own(leaf.page)?;
        self.remove_cell(number, leaf.index)?;
        self.shrink(tree, &path)?;
        Ok(true)
    }

    /// Gives up the long pages of the cell at the end of a way.
    fn drop_value(&mut self, path: &Path) -> Result<()> {
        let leaf = path.leaf();
        let view = self.view(leaf.page)?;
        let cell = self.cell(&view, leaf.index)?;
        if cell.kind == LONG {
            long::discard(self, cell)?;
        }
        Ok(())
    }

    /// A cell for a leaf, in the buffer that [`SlottedPages::cell`] lends.
    fn make_cell(&mut self, tree: SlottedTree, key: &[u64], value: Value<'_>) -> Result<Vec<u8>> {
        let mut cell = std::mem::take(&mut self.cell);
        match value {
            Value::Words(words) if tree.value_words > 0 && words.len() == tree.value_words => {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                encode(&mut cell, key, INLINE, &bytes);
            }
            Value::Bytes(bytes) if tree.value_words == 0 => {
                let units = cell_bytes(key.len(), bytes.len()).div_ceil(self.geometry.unit);
                if units <= self.geometry.cell_units_max() {
                    encode(&mut cell, key, INLINE, bytes);
                } else {
                    let mut place = [0; LONG_BYTES];
                    let first = long::write(self, bytes)?;
                    place[..8].copy_from_slice(&first.to_le_bytes());
                    place[8..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
                    encode(&mut cell, key, LONG, &place);
                }
            }
            _ => {
                let text = "a value of another kind than its tree's".to_owned();
                return Err(StorageError::Unsupported(text));
            }
        }
        Ok(cell)
    }

    fn move_root(&mut self, tree: SlottedTree, page: u64) {
        let written = self.roots[tree.tree].written;
        let now = page;
        self.set_root(tree.tree, Root { now, written });
    }

    /// Most cells of a page that has `count`. A group that changes one leaf of contents alone may
    /// commit by its line, so such a leaf does not outgrow it.
    fn cells_max(&self, tree: SlottedTree, level: u8, count: usize) -> usize {
        let is_line = level == 0 && tree.value_words == 0 && count <= FIRST_SLOTS;
        if is_line && self.commits_by_lines() {
            self.geometry.cells_max.min(FIRST_SLOTS)
        } else {
            self.geometry.cells_max
        }
    }

    /// Units of a cell.
    fn units(&self, cell: &[u8]) -> usize {
        cell.len().div_ceil(self.geometry.unit)
    }

    /// Puts `cells` in the place of `removed` cells from `at` on, in the page at `depth` of a way.
    fn splice(
        &mut self,
        tree: SlottedTree,
        path: &Path,
        depth: usize,
        (at, removed): (usize, usize),
        cells: &[Vec<u8>],
    ) -> Result<()> {
        let page = path.steps[depth].page;
        let number = self.own(page)?;
        for (done, cell) in cells.iter().enumerate() {
            let replaces = done < removed;
            let units = self.units(cell);
            let header = &self.changed(number).header;
            let (level, count) = (header.level(), header.count());
            let cells_max = self.cells_max(tree, level, count);
            let more = (usize::from(!replaces), cells_max);
            let Some(unit) = self.room(number, units, more)? else {
                let rest = (at + done, removed.saturating_sub(done));
                return self.rebuild(tree, path, depth, rest, &cells[done..]);
            };
            self.arena
                .enter(tree.part(self.changed(number).header.level()));
            let base = self.changed(number).base;
            self.stage(base + (unit * self.geometry.unit) as u64, cell)?;
            self.name_cell(number, (at + done, replaces), (unit, units), cell)?;
        }
        for _ in cells.len()..removed {
            self.remove_cell(number, at + cells.len())?;
        }
        Ok(())
    }

    /// All cells of a page, copied, with `cells` in the place of `removed` from `at` on.
    fn cells_with(
        &mut self,
        page: u64,
        (at, removed): (usize, usize),
        cells: &[Vec<u8>],
    ) -> Result<(View, Cells)> {
        let view = self.view(page)?;
        let mut all = Cells::default();
        all.bytes.reserve(self.geometry.page_bytes);
        all.ends.reserve(view.count + cells.len());
        for index in 0..=view.count {
            if index == at {
                for cell in cells {
                    all.push(cell);
                }
            }
            if index < view.count && !(at..at + removed).contains(&index) {
                let cell = self.cell(&view, index)?;
                all.push(self.arena.bytes(cell.at, cell.bytes())?);
            }
        }
        Ok((view, all))
    }

    /// As [`SlottedPages::splice`] for a page that has no room.
    fn rebuild(
        &mut self,
        tree: SlottedTree,
        path: &Path,
        depth: usize,
        (at, removed): (usize, usize),
        cells: &[Vec<u8>],
    ) -> Result<()> {
        let page = path.steps[depth].page;
        let (view, all) = self.cells_with(page, (at, removed), cells)?;
        let units: usize = all.all().map(|cell| self.units(cell)).sum();
        let capacity = self.geometry.units - self.geometry.head_units(lines_of(all.len() + 1));
        let old_count = view.count;
        let cells_max = self.cells_max(tree, view.level, old_count);
        if all.len() <= cells_max && 8 * units <= 7 * capacity {
            let new = self.fill(tree, view.level, all.all())?;
            self.discard(page)?;
            return self.lead_to(tree, path, depth, new, None);
        }
        let is_edge = at == old_count && path.steps[..depth].iter().all(|step| step.is_last);
        let middle = if is_edge {
            all.len() - cells.len()
        } else {
            self.middle(&all, units, cells_max)
        };
        let separator = key_of(all.get(middle));
        if at >= middle {
            let right = self.fill(tree, view.level, all.range(middle..all.len()))?;
            let number = self.own(page)?;
            self.keep(number, 0..middle)?;
            return self.lead_to(tree, path, depth, page, Some((separator, right)));
        }
        let left = self.fill(tree, view.level, all.range(0..middle))?;
        if at + cells.len() <= middle {
            let number = self.own(page)?;
            let gone = middle - cells.len() + removed;
            self.keep(number, gone..old_count)?;
            return self.lead_to(tree, path, depth, left, Some((separator, page)));
        }
        let right = self.fill(tree, view.level, all.range(middle..all.len()))?;
        self.discard(page)?;
        self.lead_to(tree, path, depth, left, Some((separator, right)))
    }

    /// Index at which cells are split so that both halves are about as long, and neither has too
    /// many cells.
    fn middle(&self, all: &Cells, units: usize, cells_max: usize) -> usize {
        let mut before = 0;
        let by_units = all.all().position(|cell| {
            let own = self.units(cell);
            before += own;
            2 * before >= units + own
        });
        let most = cells_max.min(all.len() - 1);
        let least = all.len().saturating_sub(cells_max).max(1);
        by_units.unwrap_or(most).clamp(least, most)
    }

    /// A new page of these cells.
    fn fill<'c>(
        &mut self,
        tree: SlottedTree,
        level: u8,
        cells: impl Iterator<Item = &'c [u8]> + Clone,
    ) -> Result<u64> {
        let part = tree.part(level);
        let number = self.create_page(level, part)?;
        self.arena.enter(part);
        if !self.fill_new(number, cells)? {
            let text = "entries of this length do not fit the pages".to_owned();
            return Err(StorageError::Unsupported(text));
        }
        Ok(self.changed(number).page)
    }

    /// Makes the parent of the page at `depth` of a path point to `page` in its place, and after it
    /// to another page from a key on.
    fn lead_to(
        &mut self,
        tree: SlottedTree,
        path: &Path,
        depth: usize,
        page: u64,
        more: Option<(Vec<u64>, u64)>,
    ) -> Result<()> {
        let old = path.steps[depth].page;
        let right = more.map(|(key, right)| inner_cell(&key, right));
        let Some(above) = depth.checked_sub(1) else {
            let Some(right) = right else {
                self.move_root(tree, page);
                return Ok(());
            };
            let level = self.view(page)?.level + 1;
            let left = inner_cell(&vec![0; tree.key_words], page);
            let root = self.fill(tree, level, [&left[..], &right].into_iter())?;
            self.move_root(tree, root);
            return Ok(());
        };
        let at = path.steps[above].index;
        if page == old {
            let right: Vec<_> = right.into_iter().collect();
            return self.splice(tree, path, above, (at + 1, 0), &right);
        }
        let view = self.view(path.steps[above].page)?;
        let key = self.key(&view, at, tree.key_words)?.to_vec();
        let cells: Vec<_> = std::iter::once(inner_cell(&key, page))
            .chain(right)
            .collect();
        self.splice(tree, path, above, (at, 1), &cells)
    }

    /// Merges pages along a way that a cell was taken from, as far as they have become small.
    fn shrink(&mut self, tree: SlottedTree, path: &Path) -> Result<()> {
        for depth in (1..path.length).rev() {
            let view = self.view(path.steps[depth].page)?;
            let (parent, at) = (path.steps[depth - 1].page, path.steps[depth - 1].index);
            if view.count == 0 {
                self.discard(view.page)?;
                let number = self.own(parent)?;
                self.remove_cell(number, at)?;
            } else if !self.is_sparse(tree, &view)? || !self.merge(tree, path, depth)? {
                return Ok(());
            }
        }
        self.shrink_root(tree)
    }

    /// A root that leads to one page only gives way to it.
    fn shrink_root(&mut self, tree: SlottedTree) -> Result<()> {
        loop {
            let view = self.view(self.roots[tree.tree].now)?;
            if view.level == 0 || view.count > 1 {
                return Ok(());
            }
            let child = if view.count == 0 {
                0
            } else {
                self.child(&view, 0)?.page
            };
            self.discard(view.page)?;
            self.move_root(tree, child);
            if child == 0 {
                return Ok(());
            }
        }
    }

    /// Whether a page is less than a third full. Large pages are not examined each time.
    fn is_sparse(&self, tree: SlottedTree, view: &View) -> Result<bool> {
        let is_looked_at = view.count < 8 || view.count.is_multiple_of(8);
        let cells_max = self.cells_max(tree, view.level, view.count);
        if !is_looked_at || 2 * view.count > cells_max {
            return Ok(false);
        }
        Ok(3 * self.live_units(view)? < self.geometry.capacity())
    }

    /// Merges the page at `depth` of a way with a neighbour. Says whether only a slot of the parent
    /// has gone.
    fn merge(&mut self, tree: SlottedTree, path: &Path, depth: usize) -> Result<bool> {
        let (parent, at) = (path.steps[depth - 1].page, path.steps[depth - 1].index);
        let above = self.view(parent)?;
        if above.count < 2 {
            return Ok(false);
        }
        let first = at.saturating_sub(1);
        let (left, right) = (self.child(&above, first)?, self.child(&above, first + 1)?);
        let units = [self.live_units(&left)?, self.live_units(&right)?];
        let count = left.count + right.count;
        let fits = 4 * (units[0] + units[1]) <= 3 * self.geometry.capacity()
            && 4 * count <= 3 * self.cells_max(tree, left.level, left.count).max(4)
            && lines_of(count) == 1;
        if !fits {
            return Ok(false);
        }
        let (_, mut moved) = self.cells_with(right.page, (right.count, 0), &[])?;
        if left.level > 0 {
            // The key of a first cell is never read, so it may be greater than keys below it. Now
            // it will be.
            let separator = self.key(&above, first + 1, tree.key_words)?.to_vec();
            let cell = inner_cell(&separator, self.child(&right, 0)?.page);
            moved = self.cells_with(right.page, (0, 1), &[cell])?.1;
        }
        let number = self.own(left.page)?;
        let head = self.geometry.head_units(self.changed(number).lines());
        if self.changed(number).header.start() >= head + units[1] {
            self.append(tree, number, &moved)?;
            self.discard(right.page)?;
            let number = self.own(parent)?;
            self.remove_cell(number, first + 1)?;
            return Ok(true);
        }
        let key = self.key(&above, first, tree.key_words)?.to_vec();
        let number = self.own(parent)?;
        let needed = self.units(&inner_cell(&key, 0));
        let more = (0, self.geometry.cells_max);
        if self.room(number, needed, more)?.is_none() {
            return Ok(false);
        }
        let (_, mut all) = self.cells_with(left.page, (left.count, 0), &[])?;
        for cell in moved.all() {
            all.push(cell);
        }
        let new = match self.fill(tree, left.level, all.all()) {
            // On a full device a deletion goes without.
            Err(error) if error.is_out_of_space() => return Ok(false),
            new => new?,
        };
        self.discard(left.page)?;
        self.discard(right.page)?;
        self.splice(tree, path, depth - 1, (first, 2), &[inner_cell(&key, new)])?;
        Ok(true)
    }

    /// Adds cells after those of a changed page, which has room below all of its cells.
    fn append(&mut self, tree: SlottedTree, number: usize, cells: &Cells) -> Result<()> {
        let base = self.changed(number).base;
        self.arena
            .enter(tree.part(self.changed(number).header.level()));
        for cell in cells.all() {
            let units = self.units(cell);
            let header = &self.changed(number).header;
            let (unit, index) = (header.start() - units, header.count());
            self.stage(base + (unit * self.geometry.unit) as u64, cell)?;
            self.name_cell(number, (index, false), (unit, units), cell)?;
        }
        Ok(())
    }
}

/// A cell that leads to a page.
fn inner_cell(key: &[u64], page: u64) -> Vec<u8> {
    let mut cell = Vec::new();
    encode(&mut cell, key, INLINE, &page.to_le_bytes());
    cell
}

/// The key of a cell.
fn key_of(cell: &[u8]) -> Vec<u64> {
    let words = cell.get(6).copied().map_or(0, usize::from);
    let keys = cell.get(8..8 + 8 * words).unwrap_or(&[]);
    let words = keys.chunks_exact(8).filter_map(|word| word.try_into().ok());
    words.map(u64::from_le_bytes).collect()
}
