//! Whole-tree walks: the deep check, and the removal of a tree.
//!
//! The check proves the assumptions of lookups: checksums of headers and cells, that no two cells
//! overlap, levels, the order of keys within and across pages, and that every key lies between the
//! separators above it. It never stops at the first damage.

use super::cell::{Cell, INLINE, LONG, Used};
use super::header::{self, damaged};
use super::long;
use super::pages::{Root, SlottedPages, View};
use super::tree::SlottedTree;
use crate::index::cow::{TreeReport, Value};
use pmem::Memory;
use std::ops::ControlFlow;
use storage::Result;
use storage::engine::Direction;

/// Keys between which a page's keys must lie: from the first one on, and before the second.
struct Bounds<'k> {
    low: &'k [u64],
    high: Option<&'k [u64]>,
}

impl<M: Memory> SlottedPages<M> {
    /// Visits every page of a tree and reports damage.
    pub(super) fn check_tree(&mut self, tree: SlottedTree, report: &mut TreeReport) {
        let root = self.roots[tree.tree].now;
        if root == 0 {
            return;
        }
        let low = vec![0; tree.key_words];
        let bounds = Bounds {
            low: &low,
            high: None,
        };
        match self.view(root) {
            Ok(view) => self.check_page(tree, view, &bounds, report),
            Err(error) => report.damage.push(error.to_string()),
        }
    }

    fn check_page(
        &mut self,
        tree: SlottedTree,
        mut view: View,
        bounds: &Bounds<'_>,
        report: &mut TreeReport,
    ) {
        report.pages.push(view.page);
        if let Err(error) = self.check_header(&view) {
            report.damage.push(error.to_string());
        }
        let mut used = Used::default();
        let mut keys: Vec<Vec<u64>> = Vec::with_capacity(view.count);
        for index in 0..view.count {
            let key = self
                .key(&view, index, tree.key_words)
                .map(<[u64]>::to_vec)
                .and_then(|key| {
                    self.check_cell(tree, &view, index, &mut used, report)?;
                    // A long value may have taken the page out of its frame.
                    view = self.again(&view)?;
                    Ok(key)
                });
            match key {
                Ok(key) => keys.push(key),
                Err(error) => return report.damage.push(error.to_string()),
            }
        }
        if let Err(error) = self.check_outline(&view, &keys) {
            report.damage.push(error.to_string());
        }
        let checked_from = usize::from(view.level > 0);
        for (index, key) in keys.iter().enumerate().skip(checked_from) {
            let is_low = key.as_slice() < bounds.low;
            let is_high = bounds.high.is_some_and(|high| key.as_slice() >= high);
            let is_unordered = index > checked_from && *key <= keys[index - 1];
            if is_low || is_high || is_unordered {
                let text = format!(
                    "the page at offset {} has key {key:x?} out of order",
                    view.page
                );
                report.damage.push(text);
            }
        }
        if view.level == 0 {
            return;
        }
        for index in 0..view.count {
            let bounds = Bounds {
                low: if index == 0 { bounds.low } else { &keys[index] },
                high: keys.get(index + 1).map(Vec::as_slice).or(bounds.high),
            };
            let child = self.again(&view).and_then(|view| self.child(&view, index));
            match child {
                Ok(child) => self.check_page(tree, child, &bounds, report),
                Err(error) => report.damage.push(error.to_string()),
            }
        }
    }

    /// Checks the header in force of a page that nobody changes.
    fn check_header(&self, view: &View) -> Result<()> {
        if view.is_changed() {
            return Ok(());
        }
        let (seal, base) = (self.seal.at(view.page, view.base), view.base);
        let sequence = header::sequence_in_force(&self.arena, seal, base)?;
        header::read(&self.arena, seal, self.geometry, base, sequence, true)?;
        Ok(())
    }

    /// Checks a cell, and its long pages.
    fn check_cell(
        &mut self,
        tree: SlottedTree,
        view: &View,
        index: usize,
        used: &mut Used,
        report: &mut TreeReport,
    ) -> Result<()> {
        let cell = self.cell(view, index)?;
        let wrong = |text: &str| damaged(cell.at, text);
        if !cell.is_sound(&self.arena)? {
            return Err(wrong("the checksum of a cell does not fit"));
        }
        let is_long = cell.kind == LONG;
        let value_bytes = if view.level > 0 {
            8
        } else {
            8 * tree.value_words
        };
        let has_content = view.level == 0 && tree.value_words == 0;
        let fits = has_content || cell.kind == INLINE && cell.value_bytes == value_bytes;
        if cell.key_words != tree.key_words || !fits {
            return Err(wrong("a cell is not one of its tree"));
        }
        let first = ((cell.at - view.base) as usize) / self.geometry.unit;
        let units = cell.bytes().div_ceil(self.geometry.unit);
        if !used.take(first, units) {
            return Err(wrong("a cell overlaps another"));
        }
        if is_long {
            let mut parts = Vec::new();
            let walked = long::for_each(self, cell, |page, bytes| {
                parts.push(page);
                if long::is_sound(bytes) {
                    Ok(())
                } else {
                    Err(damaged(page, "the checksum of a long page does not fit"))
                }
            });
            report.pages.append(&mut parts);
            walked?;
        }
        Ok(())
    }

    /// Takes every page of a tree out. `leave` is called with each value before.
    pub(super) fn clear_tree(
        &mut self,
        tree: SlottedTree,
        leave: &mut dyn FnMut(&mut Self, Value<'_>) -> Result<()>,
    ) -> Result<()> {
        let root = self.roots[tree.tree].now;
        if root == 0 {
            return Ok(());
        }
        let (low, high) = (vec![0; tree.key_words], vec![u64::MAX; tree.key_words]);
        self.scan_entries(
            tree,
            (&low, &high),
            Direction::Forward,
            &mut |pages, _, value| {
                leave(pages, value)?;
                Ok(ControlFlow::Continue(()))
            },
        )?;
        let view = self.view(root)?;
        self.clear_page(view)?;
        let written = self.roots[tree.tree].written;
        self.set_root(tree.tree, Root { now: 0, written });
        Ok(())
    }

    fn clear_page(&mut self, view: View) -> Result<()> {
        for index in 0..view.count {
            let view = self.again(&view)?;
            if view.level > 0 {
                let child = self.child(&view, index)?;
                self.clear_page(child)?;
            } else {
                let cell: Cell = self.cell(&view, index)?;
                if cell.kind == LONG {
                    long::discard(self, cell)?;
                }
            }
        }
        self.discard(view.page)
    }
}
