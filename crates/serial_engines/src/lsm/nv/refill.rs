//! Filters that a restart has lost: made anew by reads and updates, a few keys each.
//!
//! A filter is volatile. After opening, the active MemTable and the runs that had one are searched
//! without; each operation then copies a few keys of one of them into a new filter, which is used
//! once it has all. So opening reads nothing, and nobody waits.
//!
//! Invariant: a filter in use has every key of its tree. A tree of a level does not change while it
//! is only read; keys that the MemTable gets meanwhile are added by [`Levels::put`]. Every step
//! that moves a tree to another place gives the filter up ([`Levels::stop_refill`]), and it is
//! begun again for the place.

use super::levels::{Levels, Refill, State, Target};
use super::merge::{LevelSizes, collect, mem_table_keys};
use crate::index::NvBptree;
use crate::lsm::filter::{Filters, hash};
use crate::lsm::keys::increment;
use pmem::{Arena, Memory};
use storage::Result;
use storage::record::KeyBuf;

/// Keys that one operation copies.
const KEYS: usize = 32;

impl Levels {
    /// Copies a few keys into a filter that is missing. The MemTable must be visible. Does nothing
    /// if none is missing.
    pub(super) fn refill<M: Memory>(
        &mut self,
        arena: &Arena<M>,
        filters: &mut Filters<M>,
        sizes: LevelSizes,
    ) -> Result<()> {
        if self.refill.is_none() {
            self.begin_refill(filters, sizes);
        }
        let Some(refill) = &mut self.refill else {
            self.lacks_filters = false;
            return Ok(());
        };
        let tree: &NvBptree = match refill.target {
            Target::Active => &self.active,
            Target::Run(index) => &self.below[index].run,
        };
        let words = refill.low.len();
        let mut entries = Vec::with_capacity(KEYS * (words + 1));
        let mut is_over = collect(arena, tree, &refill.low, KEYS, &mut entries)?;
        for entry in entries.chunks_exact(words + 1) {
            filters.add(refill.filter, hash(&entry[..words]))?;
            refill.low.assign(&entry[..words]);
        }
        is_over |= !increment(refill.low.resized(words));
        if is_over && let Some(refill) = self.refill.take() {
            match refill.target {
                Target::Active => self.active_filter = Some(refill.filter),
                Target::Run(index) => self.below[index].run_filter = Some(refill.filter),
            }
        }
        Ok(())
    }

    /// Chooses the next tree that lacks its filter. The last run needs none, as most keys are
    /// there.
    fn begin_refill<M: Memory>(&mut self, filters: &mut Filters<M>, sizes: LevelSizes) {
        let lacking = |index: &usize| {
            let level = &self.below[*index];
            let is_plain = level.state == State::Plain && level.has_run;
            is_plain && level.run_filter.is_none() && !self.is_bottom(*index)
        };
        let (target, keys) = if self.active_filter.is_none() {
            (Target::Active, mem_table_keys(sizes))
        } else if let Some(index) = (0..self.depth).find(lacking) {
            (Target::Run(index), self.below[index].run_entries)
        } else {
            return;
        };
        // Without space the tree has none.
        self.refill = filters.make(keys).ok().map(|filter| Refill {
            target,
            filter,
            low: KeyBuf::from_words(&vec![0; self.key_words()]),
        });
    }

    /// Gives a filter up that is being made: its tree goes to another place, or is a new one.
    pub(super) fn stop_refill<M: Memory>(&mut self, filters: &mut Filters<M>) -> Result<()> {
        match self.refill.take() {
            Some(refill) => filters.free(refill.filter),
            None => Ok(()),
        }
    }
}
