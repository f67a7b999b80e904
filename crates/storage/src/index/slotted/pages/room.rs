//! Where in a page that the group changes there is room for a cell.
//!
//! Room is below the lowest cell that the page ever had. When that is used up, it is a gap among the cells that some header names that is in force
//! or may be again: the one in the page, the one in the making, those that the open transaction may go back to, and those that snapshots show.
//! To see how long those cells are is to read a line of each, so what was found out about a page is kept in DRAM.

use super::outlines::Entry;
use super::{Changed, SlottedPages, Undo, View};
use crate::error::Result;
use crate::index::slotted::cell::{Cell, Used};
use crate::index::slotted::header::{self, Header, lines_of};
use pmem::Memory;
use std::ops::Range;

/// Pages of which [`Rooms`] knows the units at once: 10 MB if there are so many.
const ROOMS_MAX: usize = 1 << 18;

/// Units that the cells of a changed page take.
#[derive(Clone, Copy, Default)]
pub(super) struct Held {
    /// Those of the header in the making.
    own: Used,
    /// Those of every header that may be in force later, and perhaps of more.
    all: Used,
}

/// Units that the cells of pages take, by the headers in force; each page has one place, which it shares with others.
#[derive(Default)]
pub(super) struct Rooms {
    /// A page and its units; page 0 is none.
    entries: Vec<[u64; 5]>,
}

impl Rooms {
    fn entry(&mut self, number: u64) -> &mut [u64; 5] {
        if self.entries.is_empty() {
            // The system gives the memory when it is written to.
            self.entries = vec![[0; 5]; ROOMS_MAX];
        }
        &mut self.entries[number as usize % ROOMS_MAX]
    }

    /// What is known of page `page`, which is the pool's page number `number`.
    pub(super) fn get(&mut self, page: u64, number: u64) -> Option<Held> {
        let &mut [owner, ref bits @ ..] = self.entry(number);
        let own = Used { bits: *bits };
        (owner == page).then_some(Held { own, all: own })
    }

    /// Keeps what is known of a page whose header is in force now.
    pub(super) fn keep(&mut self, page: u64, number: u64, held: Option<Held>) {
        let entry = self.entry(number);
        match held {
            Some(Held { own, .. }) => {
                let [a, b, c, d] = own.bits;
                *entry = [page, a, b, c, d];
            }
            None if entry[0] == page => entry[0] = 0,
            None => {}
        }
    }
}

impl Held {
    /// Whether the cells that the header of a changed page names take what is known.
    pub(super) fn is_right<M: Memory>(&self, pages: &SlottedPages<M>, changed: &Changed) -> bool {
        let used = pages.used(changed.base, &changed.header);
        used.map_or(true, |used| used == self.own)
    }
}

impl<M: Memory> SlottedPages<M> {
    /// Where in a changed page, whose header will have `more` slots more and `cells_max` at most, so many units are free in a row.
    pub(in crate::index::slotted) fn room(
        &mut self,
        number: usize,
        units: usize,
        (more, cells_max): (usize, usize),
    ) -> Result<Option<usize>> {
        let changed = &mut self.changed[number];
        let count = changed.header.count() + more;
        if count > cells_max {
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
        let is_known = self.changed[number].held.is_some();
        let gap = self.gap(number, start, units)?;
        let Held { own, all } = self.held(number)?;
        if gap.is_none() && is_known && own != all {
            // It may be known as taken for a header that cannot be in force any more.
            self.changed[number].held = None;
            return self.gap(number, start, units);
        }
        Ok(gap)
    }

    fn gap(&mut self, number: usize, start: usize, units: usize) -> Result<Option<usize>> {
        let mut used = self.held(number)?.all;
        if self.limbo.is_active() {
            let Changed { page, base, .. } = *self.changed[number];
            for header in self.versions.lock().headers(page) {
                used.mark_all(&self.used(base, header)?);
            }
        }
        Ok(used.gap(self.geometry, start, units))
    }

    /// The units of a changed page that some header names that may be in force later.
    fn held(&mut self, number: usize) -> Result<Held> {
        let changed = &self.changed[number];
        if let Some(held) = changed.held {
            return Ok(held);
        }
        let base = changed.base;
        let own = self.used(base, &changed.header)?;
        let mut all = own;
        if !changed.is_new {
            let sequence = changed.header.sequence;
            let (seal, geometry) = (self.seal.at(changed.page, base), self.geometry);
            let in_force = header::read(&self.arena, seal, geometry, base, sequence, false)?;
            all.mark_all(&self.used(base, &in_force)?);
        }
        let headers = self.undo.iter().filter_map(|undo| match undo {
            Undo::Header(number) => Some(*number),
            _ => None,
        });
        for (owner, before) in headers.zip(&self.before) {
            if owner == number {
                all.mark_all(&self.used(base, before)?);
            }
        }
        Ok(*self.changed[number].held.insert(Held { own, all }))
    }

    /// The header of a changed page, whose cells have just been read, keeps those of a range only.
    pub(in crate::index::slotted) fn keep(
        &mut self,
        number: usize,
        range: Range<usize>,
    ) -> Result<()> {
        for index in (0..range.start).chain(range.end..self.changed[number].header.count()) {
            self.give_up(number, index)?;
        }
        let (page, held) = (self.changed[number].page, self.changed[number].held);
        let header = self.edit(number);
        header.keep(range.clone());
        let level = header.level();
        self.changed[number].held = held;
        self.outlines.keep((page, level), range, 0..0);
        self.held(number).map(|_| ())
    }

    /// Stores cells, in the order of their keys, at the end of a page that the group has made and that has none, and makes its header name them. False if
    /// they have no room there.
    pub(in crate::index::slotted) fn fill_new<'c>(
        &mut self,
        number: usize,
        cells: impl Iterator<Item = &'c [u8]> + Clone,
    ) -> Result<bool> {
        let (count, unit_bytes) = (cells.clone().count(), self.geometry.unit);
        let Changed { page, base, .. } = *self.changed[number];
        let head = self.geometry.head_units(lines_of(count));
        let units = cells.clone().map(|cell| cell.len().div_ceil(unit_bytes));
        if count > self.geometry.cells_max || head + units.sum::<usize>() > self.geometry.units {
            return Ok(false);
        }
        let (mut own, mut start) = (Used::default(), self.geometry.units);
        for (index, cell) in cells.clone().enumerate() {
            let units = cell.len().div_ceil(unit_bytes);
            start -= units;
            self.arena.store(base + (start * unit_bytes) as u64, cell)?;
            self.changed[number].header.insert(index, start as u8);
            own.mark(start, units);
        }
        let first = base + (start * unit_bytes) as u64;
        self.staged
            .push((first, (self.geometry.units - start) * unit_bytes));
        let changed = &mut self.changed[number];
        changed.lines = lines_of(count);
        changed.held = Some(Held { own, all: own });
        let level = changed.header.level();
        let entries = cells.map(|cell| Entry::of(cell, level));
        self.outlines.fill((page, level), entries, start);
        Ok(true)
    }

    /// Makes the header of a changed page name `cell`, which is at `unit`, in the place of the one at `index` or before it.
    pub(in crate::index::slotted) fn name_cell(
        &mut self,
        number: usize,
        (index, replaces): (usize, bool),
        (unit, units): (usize, usize),
        cell: &[u8],
    ) -> Result<()> {
        if replaces {
            self.give_up(number, index)?;
        }
        let held = self.changed[number].held;
        let header = self.edit(number);
        if replaces {
            header.replace(index, unit as u8);
        } else {
            header.insert(index, unit as u8);
        }
        let (level, start) = (header.level(), header.start());
        let page = self.changed[number].page;
        let entry = Entry::of(cell, level);
        self.outlines
            .add((page, level), (index, replaces), entry, start);
        self.changed[number].held = held.map(|mut held| {
            held.own.mark(unit, units);
            held.all.mark(unit, units);
            held
        });
        Ok(())
    }

    /// Takes a cell out of the header of a changed page.
    pub(in crate::index::slotted) fn remove_cell(
        &mut self,
        number: usize,
        index: usize,
    ) -> Result<()> {
        self.give_up(number, index)?;
        let held = self.changed[number].held;
        let header = self.edit(number);
        let (level, count) = (header.level(), header.count());
        header.remove(index);
        self.changed[number].held = held;
        let page = self.changed[number].page;
        self.outlines
            .keep((page, level), 0..index, index + 1..count);
        Ok(())
    }

    /// The header of a changed page will not name a cell any more.
    fn give_up(&mut self, number: usize, index: usize) -> Result<()> {
        let Changed { base, header, .. } = &*self.changed[number];
        let slot = usize::from(header.used()[index]);
        let units = self.units_at(*base, slot)?;
        if let Some(held) = &mut self.changed[number].held {
            held.own.unmark(slot, units);
        }
        Ok(())
    }

    /// The units of the cells that a header names.
    pub(super) fn used(&self, base: u64, header: &Header) -> Result<Used> {
        let mut used = Used::default();
        for &slot in header.used() {
            self.arena
                .prefetch(base + (usize::from(slot) * self.geometry.unit) as u64, 8);
        }
        for &slot in header.used() {
            let slot = usize::from(slot);
            used.mark(slot, self.units_at(base, slot)?);
        }
        Ok(used)
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
