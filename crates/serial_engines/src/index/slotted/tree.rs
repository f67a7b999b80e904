//! One tree of slotted pages: lookups and scans.
//!
//! A tree is its number, under which [`SlottedPages`] has its root, and the words of its keys and
//! values; so it is copied freely and owns nothing. The key of an inner page's cell is the least
//! one below it, and that of the first cell is never read. A scan copies each entry before it
//! visits it, so the visitor may use the pages.

use super::cell::{Cell, LONG};
use super::header::{LEVELS_MAX, damaged};
use super::long;
use super::pages::{SlottedPages, View};
use crate::index::cow::Value;
use crate::index::trees::Visitor;
use pmem::Memory;
use std::ops::ControlFlow;
use storage::Result;
use storage::engine::Direction;
use storage::probe::{self, Activity};

/// One tree of a partition.
#[derive(Clone, Copy, Debug)]
pub struct SlottedTree {
    pub(super) tree: usize,
    pub(super) key_words: usize,
    /// 0 for contents.
    pub(super) value_words: usize,
}

/// A step of a descent: a page and the cell that was taken.
#[derive(Clone, Copy, Default)]
pub(super) struct Step {
    pub(super) page: u64,
    pub(super) index: usize,
    /// Whether the cell is the page's last one.
    pub(super) is_last: bool,
}

/// The way from the root to a leaf.
#[derive(Clone, Copy, Default)]
pub(super) struct Path {
    pub(super) steps: [Step; LEVELS_MAX],
    pub(super) length: usize,
}

impl Path {
    fn push(&mut self, step: Step, page: u64) -> Result<()> {
        let place = self.steps.get_mut(self.length);
        *place.ok_or_else(|| damaged(page, "its tree has too many levels"))? = step;
        self.length += 1;
        Ok(())
    }

    /// The step in the leaf.
    pub(super) fn leaf(&self) -> Step {
        self.steps[self.length - 1]
    }
}

impl<M: Memory> SlottedPages<M> {
    /// Position of `key` among the cells of a page from `low` on, or where it belongs.
    #[inline]
    pub(super) fn find(
        &self,
        view: &View,
        key: &[u64],
        low: usize,
    ) -> Result<std::result::Result<usize, usize>> {
        if let ([word], Some(outline)) = (key, self.outline_of(view)) {
            return Ok(outline.find(*word, low));
        }
        let found = match key {
            // Most keys are one word, and the compiler makes a loop of the other kind for it.
            [word] => self.keys(view)?.find(view.count, &[*word], low),
            key => self.keys(view)?.find(view.count, key, low),
        };
        found.ok_or_else(|| damaged(view.page, "its header names a cell outside of it"))
    }

    /// The cell of an inner page below which `key` belongs.
    #[inline]
    fn child_index(&self, view: &View, key: &[u64]) -> Result<usize> {
        if view.count == 0 {
            return Err(damaged(view.page, "an inner page has no cells"));
        }
        Ok(match self.find(view, key, 1)? {
            Ok(index) => index,
            Err(index) => index - 1,
        })
    }

    /// The page that a cell of an inner page leads to, which has to be one level lower.
    #[inline]
    pub(super) fn child(&mut self, view: &View, index: usize) -> Result<View> {
        let page = if let Some(outline) = self.outline_of(view) {
            outline.child(index)
        } else {
            let page = self.keys(view)?.first_value_word(index);
            page.ok_or_else(|| damaged(view.page, "a cell has no child"))?
        };
        self.prefetch_page(page, view.level.saturating_sub(1));
        let child = self.view(page)?;
        if child.level.checked_add(1) != Some(view.level) {
            return Err(damaged(page, "it is not one level below its parent"));
        }
        Ok(child)
    }

    fn root_view(&mut self, tree: SlottedTree) -> Result<Option<View>> {
        match self.roots[tree.tree].now {
            0 => Ok(None),
            root => self.view(root).map(Some),
        }
    }

    /// The leaf where `key` belongs, and the place there; none in an empty tree.
    #[inline]
    fn seek(
        &mut self,
        tree: SlottedTree,
        key: &[u64],
    ) -> Result<Option<(View, std::result::Result<usize, usize>)>> {
        let Some(mut view) = self.root_view(tree)? else {
            return Ok(None);
        };
        loop {
            self.ensure_outline(tree.key_words, &mut view)?;
            if view.level == 0 {
                break;
            }
            let index = self.child_index(&view, key)?;
            view = self.child(&view, index)?;
        }
        let place = self.find(&view, key, 0)?;
        Ok(Some((view, place)))
    }

    /// Makes `path`, an empty one, the way to the place of `key`. Says whether it is there; none in
    /// an empty tree.
    pub(super) fn find_path(
        &mut self,
        tree: SlottedTree,
        key: &[u64],
        path: &mut Path,
    ) -> Result<Option<bool>> {
        let _search = probe::begin(Activity::Search);
        let Some(mut view) = self.root_view(tree)? else {
            return Ok(None);
        };
        loop {
            self.ensure_outline(tree.key_words, &mut view)?;
            if view.level == 0 {
                break;
            }
            let index = self.child_index(&view, key)?;
            path.push(step(&view, index), view.page)?;
            view = self.child(&view, index)?;
        }
        self.prefetch_change(&view);
        let place = self.find(&view, key, 0)?;
        let index = place.unwrap_or_else(|index| index);
        let mut last = step(&view, index);
        last.is_last = index == view.count;
        path.push(last, view.page)?;
        Ok(Some(place.is_ok()))
    }

    /// Calls `read` with the value of a cell; a long one is put into `buffer` first.
    #[inline]
    pub(super) fn read_cell<R>(
        &mut self,
        tree: SlottedTree,
        cell: Cell,
        buffer: &mut Vec<u8>,
        read: impl FnOnce(Value<'_>) -> Result<R>,
    ) -> Result<R> {
        if tree.value_words > 0 {
            let words = cell.value_words(&self.arena)?;
            if words.len() != tree.value_words {
                return Err(damaged(cell.at, "a cell has another value than its tree's"));
            }
            return read(Value::Words(words));
        }
        if cell.kind == LONG {
            buffer.clear();
            long::read(self, cell, buffer)?;
            return read(Value::Bytes(buffer));
        }
        read(Value::Bytes(cell.value(&self.arena)?))
    }

    /// Calls `read` with a key's value; none if the key is not there.
    #[inline]
    pub(super) fn get_value<R>(
        &mut self,
        tree: SlottedTree,
        key: &[u64],
        buffer: &mut Vec<u8>,
        read: impl FnOnce(Value<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        let Some((view, Ok(index))) = self.seek(tree, key)? else {
            return Ok(None);
        };
        let cell = self.cell(&view, index)?;
        self.read_cell(tree, cell, buffer, read).map(Some)
    }

    /// Visits the entries between two bounds, both included, in order.
    pub(super) fn scan_entries(
        &mut self,
        tree: SlottedTree,
        (low, high): (&[u64], &[u64]),
        direction: Direction,
        visit: Visitor<'_, Self>,
    ) -> Result<()> {
        let root = self.roots[tree.tree].now;
        if root == 0 || low > high {
            return Ok(());
        }
        let mut scan = Scan {
            tree,
            low,
            high,
            direction,
            key: Vec::new(),
            words: Vec::new(),
            content: Vec::new(),
        };
        let view = self.view(root)?;
        scan.page(self, view, visit).map(|_| ())
    }
}

fn step(view: &View, index: usize) -> Step {
    Step {
        page: view.page,
        index,
        is_last: index + 1 == view.count,
    }
}

/// A scan in progress.
struct Scan<'k> {
    tree: SlottedTree,
    low: &'k [u64],
    high: &'k [u64],
    direction: Direction,
    key: Vec<u64>,
    words: Vec<u64>,
    content: Vec<u8>,
}

impl Scan<'_> {
    fn page<M: Memory>(
        &mut self,
        pages: &mut SlottedPages<M>,
        view: View,
        visit: Visitor<'_, SlottedPages<M>>,
    ) -> Result<ControlFlow<()>> {
        let (first, end) = if view.level > 0 {
            (
                pages.child_index(&view, self.low)?,
                pages.child_index(&view, self.high)? + 1,
            )
        } else {
            let first = pages.find(&view, self.low, 0)?;
            let end = pages.find(&view, self.high, 0)?;
            (
                first.unwrap_or_else(|index| index),
                end.map_or_else(|index| index, |index| index + 1),
            )
        };
        for number in first..end {
            let index = match self.direction {
                Direction::Forward => number,
                Direction::Backward => first + (end - 1 - number),
            };
            // The last entry's visitor, or reading the pages below, may have evicted this page from
            // its frame.
            let view = pages.again(&view)?;
            let flow = if view.level > 0 {
                if let Some(next) = pages.neighbour(&view, index, self.direction, (first, end)) {
                    pages.prefetch_page(next, view.level.saturating_sub(1));
                }
                let child = pages.child(&view, index)?;
                self.page(pages, child, visit)?
            } else {
                self.entry(pages, &view, index, visit)?
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn entry<M: Memory>(
        &mut self,
        pages: &mut SlottedPages<M>,
        view: &View,
        index: usize,
        visit: Visitor<'_, SlottedPages<M>>,
    ) -> Result<ControlFlow<()>> {
        let cell = pages.cell(view, index)?;
        let key = pages.key(view, index, self.tree.key_words)?;
        self.key.clear();
        self.key.extend_from_slice(key);
        let (words, content) = (&mut self.words, &mut self.content);
        words.clear();
        if self.tree.value_words > 0 {
            words.extend_from_slice(cell.value_words(&pages.arena)?);
            return visit(pages, &self.key, Value::Words(words));
        }
        content.clear();
        if cell.kind == LONG {
            long::read(pages, cell, content)?;
        } else {
            content.extend_from_slice(cell.value(&pages.arena)?);
        }
        visit(pages, &self.key, Value::Bytes(content))
    }
}

impl<M: Memory> SlottedPages<M> {
    /// The child of the next cell in the order of a scan.
    fn neighbour(
        &self,
        view: &View,
        index: usize,
        direction: Direction,
        (first, end): (usize, usize),
    ) -> Option<u64> {
        let next = match direction {
            Direction::Forward => Some(index + 1).filter(|&next| next < end),
            Direction::Backward => index.checked_sub(1).filter(|&next| next >= first),
        }?;
        let cell = self.cell(view, next).ok()?;
        cell.value_words(&self.arena).ok()?.first().copied()
    }
}
