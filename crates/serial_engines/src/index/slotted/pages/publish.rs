//! The commit of a group of transactions over slotted pages.
//!
//! ```text
//! commit   cells and headers of new pages are flushed; fence
//!          fast: the page's header is stored, flushed unless in one transfer; fence [commit point]
//!          fash: the record of new headers and words is stored, flushed; fence      [commit point]
//!                headers and words are stored in their places and flushed; the next group's first
//!                fence waits for them
//! ```

use super::{Changed, CommitKind, LINE, LINES_IN_A_ROW_MAX, SlottedPages, UNKNOWN, at_rest};
use crate::index::slotted::header::{self, Seal, after, line_at, lines_of, place_of};
use pmem::{Arena, Memory, Part, WordChange, site};
use storage::Result;
use storage::engine::{GlobalTxnId, HeaderImages};
use storage::probe::{self, Activity};

impl<M: Memory> SlottedPages<M> {
    /// Chooses the form of headers in the log.
    pub fn log_headers(&mut self, images: HeaderImages) {
        self.log.images = images;
    }

    /// Starts the write-back of all that is staged, each line once, and waits for it. The changes
    /// of the last record have to be durable as well before another record overwrites it, and
    /// before a store overwrites a header from which it derives the next one.
    fn write_cells(&mut self) -> Result<()> {
        self.arena.enter(Part::Index);
        for number in 0..self.changed.len() {
            if self.changed[number].is_new && !self.changed[number].is_dropped {
                self.stage_new_header(number)?;
            }
        }
        self.arena.enter(Part::Table);
        let _flush = probe::begin(Activity::Flush);
        self.staged.sort_unstable();
        let mut flushed = 0;
        for &(at, bytes) in &self.staged {
            let first = (at / LINE * LINE).max(flushed);
            let end = (at + bytes as u64).next_multiple_of(LINE);
            if end > first {
                self.arena
                    .flush(first, (end - first) as usize, site!("slotted.cells"))?;
                flushed = end;
            }
        }
        if !self.staged.is_empty() || self.has_found || self.is_applying {
            self.arena.fence(site!("slotted.cells-fence"))?;
            (self.is_applying, self.has_found) = (false, false);
        }
        self.staged.clear();
        Ok(())
    }

    /// Stores the header of a page that nothing in force leads to.
    pub(super) fn stage_new_header(&mut self, number: usize) -> Result<()> {
        let changed = &self.changed[number];
        let (base, old) = (changed.base, changed.header.sequence);
        let seal = self.seal.at(changed.page, base);
        let new = after(old);
        header::store(&mut self.arena, seal, base, new, changed.header.image())?;
        for line in 0..lines_of(changed.header.count()) {
            let at = base + line_at(place_of(new), line) as u64;
            self.staged.push((at, LINE as usize));
        }
        let word = header::word(&self.arena, base, place_of(old))?;
        if seal.sequence(base, word) != Some(old) {
            let word = seal.word(base, old, &[]);
            header::store_word(&mut self.arena, base, place_of(old), word)?;
        }
        // One that a process has left there when it died need not be durable either.
        self.staged
            .push((base + line_at(place_of(old), 0) as u64, LINE as usize));
        Ok(())
    }

    /// The one page whose header is all that the group has changed, if that is so and it fits a
    /// line.
    fn only_line(&self) -> Option<usize> {
        let has_words = !self.changes.is_empty() || self.directory_change().is_some();
        if self.kind == CommitKind::Record || has_words {
            return None;
        }
        match &*self.changed {
            [one] if lines_of(one.header.count()) == 1 => {
                (self.lines_in_a_row < LINES_IN_A_ROW_MAX).then_some(0)
            }
            _ => None,
        }
    }

    /// The change of the master that the group makes.
    fn directory_change(&self) -> Option<WordChange> {
        let root = self.roots[0];
        (root.now != root.written).then_some(WordChange {
            offset: self.block,
            clear: u64::MAX,
            set: root.now,
        })
    }

    /// Makes the group durable.
    pub(in crate::index::slotted) fn publish(&mut self) -> Result<()> {
        if self.cache.is_some() {
            self.write_differences(0)?;
            return self.finish_differences();
        }
        let line = self.only_line();
        self.write_cells()?;
        if let Some(number) = line {
            self.write_line(number)?;
        } else {
            self.write_record(0)?;
            let flush = probe::begin(Activity::Flush);
            // commit point: the record is whole, and recovery does what it says
            self.arena.fence(site!("fash.record-fence"))?;
            drop(flush);
            self.apply()?;
        }
        self.clean();
        Ok(())
    }

    /// Commits by the header of one page.
    fn write_line(&mut self, number: usize) -> Result<()> {
        self.arena.enter(Part::Index);
        let is_whole = self.kind == CommitKind::WholeLine;
        let _flush = if is_whole {
            self.store_header(number, header::store_at_once)?;
            probe::begin(Activity::Flush)
        } else {
            let (at, _) = self.store_header(number, header::store)?;
            let flush = probe::begin(Activity::Flush);
            self.arena.flush(at, LINE as usize, site!("fast.line"))?;
            flush
        };
        // commit point: the word that ends the line names the new header
        self.arena.fence(site!("fast.line-fence"))?;
        self.lines_in_a_row += 1;
        Ok(())
    }

    /// Stores the header of a changed page in its place by `store`, and keeps the one in force for
    /// the snapshots that show it. Gives where its first line is, and how many it has.
    fn store_header(
        &mut self,
        number: usize,
        store: impl FnOnce(&mut Arena<M>, Seal, u64, u32, &[u8]) -> Result<()>,
    ) -> Result<(u64, usize)> {
        let Changed { page, header, .. } = &*self.changed[number];
        let (page, old) = (*page, header.sequence);
        let new = after(old);
        let lines = lines_of(header.count());
        let (seal, geometry, arena) = (self.seal, self.geometry, &mut self.arena);
        if self.limbo.is_active() {
            let mut versions = self.versions.lock();
            versions.keep(page, &self.limbo, || {
                header::read(arena, seal, geometry, page, old, false)
            })?;
            store(arena, seal, page, new, header.image())?;
        } else {
            store(arena, seal, page, new, header.image())?;
        }
        Ok((page + line_at(place_of(new), 0) as u64, lines))
    }

    /// Stores the record of the group.
    fn write_record(&mut self, global: u64) -> Result<()> {
        self.arena.enter(Part::Log);
        self.log.begin(global);
        let (arena, seal, geometry) = (&self.arena, self.seal, self.geometry);
        for changed in &self.changed {
            if !changed.is_new && !changed.is_dropped {
                let (page, old) = (changed.page, changed.header.sequence);
                let in_force = header::read(arena, seal, geometry, page, old, false)?;
                self.log.add_header(page, &in_force, &changed.header);
            }
        }
        self.merge_changes();
        for change in &self.merged {
            self.log.add_word(*change);
        }
        self.log.write(&mut self.arena, &self.extensions)
    }

    /// Makes one change of all those of a word, so that making them again stores nothing.
    fn merge_changes(&mut self) {
        self.merged.clear();
        self.merged.extend(&self.changes);
        self.merged.extend(self.directory_change());
        self.merged.sort_by_key(|change| change.offset);
        self.merged.dedup_by(|later, first| {
            let is_same = later.offset == first.offset;
            if is_same {
                first.set = first.set & !later.clear | later.set;
                first.clear |= later.clear;
            }
            is_same
        });
    }

    /// Stores headers and words where they belong. The next group's first fence makes them durable.
    fn apply(&mut self) -> Result<()> {
        self.arena.enter(Part::Index);
        for number in 0..self.changed.len() {
            let changed = &self.changed[number];
            if changed.is_new || changed.is_dropped {
                continue;
            }
            let (at, lines) = self.store_header(number, header::store)?;
            for line in 0..lines {
                let at = at + line_at(0, line) as u64;
                self.arena.flush(at, LINE as usize, site!("fash.header"))?;
            }
        }
        self.arena.enter(Part::Other);
        for change in &self.merged {
            let word = self.arena.word(change.offset)?;
            self.arena.store_word(change.offset, change.apply(word))?;
            self.arena.flush(change.offset, 8, site!("fash.word"))?;
        }
        self.is_applying = true;
        self.lines_in_a_row = 0;
        Ok(())
    }

    /// Forgets the group, which is committed.
    pub(super) fn clean(&mut self) {
        while let Some(changed) = self.changed.pop() {
            let place = place_of(after(changed.header.sequence));
            let (state, held) = if changed.is_dropped {
                (UNKNOWN, None)
            } else {
                (at_rest(place, changed.header.level()), changed.held)
            };
            debug_assert!(held.is_none_or(|held| held.is_right(self, &changed)));
            let page = changed.page;
            self.rooms.keep(page, page >> self.shift, held);
            self.set_state(page, state);
            self.spare.push(changed);
        }
        self.roots[0].written = self.roots[0].now;
        self.changes.clear();
        // They are free again, and the record may still be needed. But their next user makes pages
        // of them, and the heap fences before it makes a run; or extensions, which are written
        // after the next group's first fence.
        self.extensions.clear();
        self.undo.clear();
        self.before.clear();
        if self.cache.is_some() {
            return;
        }
        self.limbo.settle(&mut self.arena);
    }

    /// Makes the group durable without deciding about it.
    pub(in crate::index::slotted) fn publish_prepared(
        &mut self,
        global: GlobalTxnId,
    ) -> Result<()> {
        self.ensure_room()?;
        if self.cache.is_some() {
            return self.write_differences(global.0);
        }
        self.write_cells()?;
        self.write_record(global.0)?;
        Ok(self.arena.fence(site!("fash.prepare-fence"))?)
    }

    /// Ends a prepared group. A prepared group that is never decided does not count, so an abort
    /// stores nothing.
    pub(in crate::index::slotted) fn decide(&mut self, commit: bool) -> Result<()> {
        if let Some(cache) = &mut self.cache {
            cache.decide(&self.arena, commit)?;
            return if commit {
                self.finish_differences()
            } else {
                Ok(())
            };
        }
        if commit {
            self.arena.enter(Part::Log);
            self.log.decide(&mut self.arena)?;
            self.apply()?;
            self.clean();
        }
        Ok(())
    }

    /// Waits until the changes of the last record are durable in place. A record with a flipped bit
    /// is none, as one that a cut has torn is; so a partition at rest must not need it.
    pub(super) fn settle_record(&mut self) -> Result<()> {
        if self.is_applying {
            self.arena.fence(site!("fash.settle-fence"))?;
            (self.is_applying, self.has_found) = (false, false);
        }
        Ok(())
    }

    /// Waits for what was flushed when it was read first.
    pub(in crate::index::slotted) fn fence_reads(&mut self) -> Result<()> {
        if self.has_found {
            self.arena.fence(site!("slotted.found-fence"))?;
            self.has_found = false;
        }
        Ok(())
    }
}
