//! Free space for cells in pages that the group changes.
//!
//! Room is below the lowest cell that the page ever had. When that is used up, it is a gap among
//! the cells of all headers that are in force or may be again: the one in the page, the one in the
//! making, those that a rollback of the open transaction may restore, and those that snapshots
//! show. The lengths of these cells cost a read of a line each, so they are cached in DRAM.

use super::key_cache::Entry;
use super::{Changed, SlottedPages, Undo, View};
use crate::index::slotted::cell::{Cell, Used};
use crate::index::slotted::header::{self, Header, lines_of};
use pmem::{Buffer, Buffers, Memory};
use std::ops::Range;
use storage::Result;

/// Pages of which [`Rooms`] knows the units at once: 16 MiB if there are so many.
const ROOMS_MAX: usize = 1 << 18;
const ROOMS_MIN: usize = 1 << 8;
/// Of one page: its offset and its units. A line.
const ROOM_BYTES: usize = 64;

/// Units that the cells of a changed page take.
#[derive(Clone, Copy, Default)]
pub(super) struct Held {
    /// Those of the header in the making.
    own: Used,
    /// Those of every header that may be in force later, and perhaps of more.
    all: Used,
}

/// Units that the cells of pages take, by the headers in force; each page has one place, which it
/// shares with others.
#[derive(Default)]
pub(super) struct Rooms {
    /// A page and its units; page 0 is none. Without memory nothing is known.
    memory: Option<Buffer>,
    /// Pages that there is memory for: all, or [`ROOMS_MAX`].
    count: usize,
}

impl Rooms {
    /// Makes room for page `number` of the pool; what is known stays.
    #[cold]
    fn grow(&mut self, number: u64) {
        let count = (number as usize + 1).max(4 * self.count);
        self.count = count.clamp(ROOMS_MIN, ROOMS_MAX);
        let made = Buffers::new(self.count * ROOM_BYTES, 1).ok();
        let mut made = made.and_then(|(_, mut buffers)| buffers.pop());
        if let (Some(made), Some(known)) = (&mut made, &self.memory) {
            made.bytes_mut()[..known.bytes().len()].copy_from_slice(known.bytes());
        }
        self.memory = made;
    }

    fn place(number: u64) -> usize {
        number as usize % ROOMS_MAX * ROOM_BYTES
    }

    /// Asks for what is known of a page ahead of its use.
    #[inline]
    pub(super) fn prefetch(&self, number: u64) {
        if let Some(memory) = &self.memory {
            memory.prefetch(Self::place(number), ROOM_BYTES);
        }
    }

    /// The cached state of page `page`, which is the pool's page number `number`.
    pub(super) fn get(&self, page: u64, number: u64) -> Option<Held> {
        let place = Self::place(number);
        let room = self
            .memory
            .as_ref()?
            .bytes()
            .get(place..place + ROOM_BYTES)?;
        let (words, _) = room.as_chunks();
        let mut words = words.iter().map(|&word| u64::from_le_bytes(word));
        if words.next() != Some(page) {
            return None;
        }
        let mut own = Used::default();
        for (bits, word) in own.bits.iter_mut().zip(words) {
            *bits = word;
        }
        Some(Held { own, all: own })
    }

    /// Keeps what is known of a page whose header is in force now.
    pub(super) fn keep(&mut self, page: u64, number: u64, held: Option<Held>) {
        if held.is_none() && self.get(page, number).is_none() {
            return;
        }
        if number as usize >= self.count && self.count < ROOMS_MAX {
            self.grow(number);
        }
        let place = Self::place(number);
        let Some(memory) = &mut self.memory else {
            return;
        };
        let room = &mut memory.bytes_mut()[place..place + ROOM_BYTES];
        let bits = held.unwrap_or_default().own.bits;
        let owner = if held.is_some() { page } else { 0 };
        let words = std::iter::once(owner).chain(bits);
        for (room, word) in room.as_chunks_mut().0.iter_mut().zip(words) {
            *room = word.to_le_bytes();
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
    /// Position in a changed page where `units` units are free in a row, if its header gets `more`
    /// more slots and has `cells_max` at most.
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
        self.key_cache.keep((page, level), range, 0..0);
        self.held(number).map(|_| ())
    }

    /// Stores cells, in the order of their keys, at the end of a page that the group has made and
    /// that has none, and makes its header name them. False if they have no room there.
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
        self.key_cache.fill((page, level), entries, start);
        Ok(true)
    }

    /// Makes the header of a changed page name `cell`, which is at `unit`, in the place of the one
    /// at `index` or before it.
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
        self.key_cache
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
        self.key_cache
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_page_stays_until_another_takes_its_place() {
        let known = |bits| Held {
            own: Used { bits },
            ..Held::default()
        };
        let bits = |rooms: &Rooms, page, number| rooms.get(page, number).map(|held| held.own.bits);
        let mut rooms = Rooms::default();
        assert_eq!(bits(&rooms, 4096, 1), None);
        rooms.prefetch(1);
        rooms.keep(4096, 1, None);
        rooms.keep(4096, 1, Some(known([1, 2, 3, 4])));
        // Behind the memory, which grows.
        let far = ROOMS_MIN as u64 + 7;
        assert_eq!(bits(&rooms, far << 12, far), None);
        rooms.keep(far << 12, far, Some(known([5; 4])));
        let last = ROOMS_MAX as u64 - 1;
        rooms.keep(last << 12, last, Some(known([6; 4])));
        assert_eq!(bits(&rooms, 4096, 1), Some([1, 2, 3, 4]));
        assert_eq!(bits(&rooms, far << 12, far), Some([5; 4]));
        assert_eq!(bits(&rooms, last << 12, last), Some([6; 4]));
        // In the place of the first one.
        let other = ROOMS_MAX as u64 + 1;
        rooms.keep(other << 12, other, None);
        assert_eq!(bits(&rooms, 4096, 1), Some([1, 2, 3, 4]));
        rooms.keep(other << 12, other, Some(known([7; 4])));
        assert_eq!(bits(&rooms, 4096, 1), None);
        assert_eq!(bits(&rooms, other << 12, other), Some([7; 4]));
        rooms.keep(other << 12, other, None);
        assert_eq!(bits(&rooms, other << 12, other), None);
    }
}
