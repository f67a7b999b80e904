//! Where in a page that the group changes there is room for a cell.
//!
//! Room is below the lowest cell that the page ever had. When that is used up, it is a gap among the cells that some header names that is in force
//! or may be again: the one in the page, the one in the making, those that the open transaction may go back to, and those that snapshots show.

use super::{SlottedPages, Undo, View};
use crate::error::Result;
use crate::index::slotted::cell::{Cell, Used};
use crate::index::slotted::header::{self, Header, lines_of};
use pmem::Memory;

impl<M: Memory> SlottedPages<M> {
    /// Where in a changed page, whose header will have `more` slots more, so many units are free in a row.
    pub(in crate::index::slotted) fn room(
        &mut self,
        number: usize,
        units: usize,
        more: usize,
    ) -> Result<Option<usize>> {
        let changed = &mut self.changed[number];
        let count = changed.header.count() + more;
        if count > self.geometry.cells_max {
            return Ok(None);
        }
        let head = self.geometry.head_units(changed.lines.max(lines_of(count)));
        let start = changed.header.start();
        if start < head {
            return Ok(None);
        }
        changed.lines = changed.lines.max(lines_of(count));
        if start - head >= units {
            return Ok(Some(start - units));
        }
        let used = self.used(number)?;
        Ok(used.gap(self.geometry, start, units))
    }

    /// The units of a changed page that some header names that may be in force later.
    fn used(&self, number: usize) -> Result<Used> {
        let changed = &self.changed[number];
        let mut used = Used::default();
        self.mark_used(changed.base, &changed.header, &mut used)?;
        if !changed.is_new {
            let sequence = changed.header.sequence;
            let base = changed.base;
            let (seal, geometry) = (self.seal.at(changed.page, base), self.geometry);
            let in_force = header::read(&self.arena, seal, geometry, base, sequence, false)?;
            self.mark_used(base, &in_force, &mut used)?;
        }
        let headers = self.undo.iter().filter_map(|undo| match undo {
            Undo::Header(number) => Some(*number),
            _ => None,
        });
        for (owner, before) in headers.zip(&self.before) {
            if owner == number {
                self.mark_used(changed.base, before, &mut used)?;
            }
        }
        if self.limbo.is_active() {
            for header in self.versions.lock().headers(changed.page) {
                self.mark_used(changed.base, header, &mut used)?;
            }
        }
        Ok(used)
    }

    fn mark_used(&self, base: u64, header: &Header, used: &mut Used) -> Result<()> {
        for &slot in header.used() {
            self.arena
                .prefetch(base + (usize::from(slot) * self.geometry.unit) as u64, 8);
        }
        for &slot in header.used() {
            let slot = usize::from(slot);
            used.mark(slot, self.units_at(base, slot)?);
        }
        Ok(())
    }

    /// Units of the cell in a slot.
    fn units_at(&self, base: u64, slot: usize) -> Result<usize> {
        let at = base + (slot * self.geometry.unit) as u64;
        let cell = Cell::open(&self.arena, at, base + self.geometry.page_bytes as u64)?;
        Ok(cell.bytes().div_ceil(self.geometry.unit))
    }

    /// Units that the cells of a page take.
    pub(in crate::index::slotted) fn live_units(&self, view: &View) -> Result<usize> {
        let mut units = 0;
        for index in 0..view.count {
            units += self.cell(view, index)?.bytes().div_ceil(self.geometry.unit);
        }
        Ok(units)
    }
}
