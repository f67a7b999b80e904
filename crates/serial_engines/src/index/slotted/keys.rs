//! Search among the keys of a page.
//!
//! A search loads several keys of the remaining cells together, so that their misses overlap, and
//! then counts those that are below the wanted key. So it waits for memory twice in a page of up to
//! 128 cells, and three times in a larger one; and no comparison is a branch to predict.

use super::header::slot_at;
use pmem::{Memory, Window};
use std::ops::Range;

/// Most keys that a search asks for together, where cells are many.
const TOGETHER: usize = 16;
/// Keys that it loads together when few are left: with no more than their square, two steps are
/// enough.
const TOGETHER_OF_FEW: usize = 8;

/// Source of a page's slots.
#[derive(Clone, Copy)]
pub(super) enum Slots<'a> {
    /// In the header that the group is making.
    Changed(&'a [u8]),
    /// In a place of the page.
    Place(usize),
}

/// The keys of one page.
#[derive(Clone, Copy)]
pub(super) struct Keys<'a, M: Memory> {
    /// The bytes of the page.
    pub(super) window: Window<'a, M>,
    pub(super) slots: Slots<'a>,
    /// Bytes of a unit.
    pub(super) unit: usize,
}

impl<M: Memory> Keys<'_, M> {
    /// Position of `key` among `count` cells from `low` on, or where it belongs; `None` if a cell
    /// is not in the page.
    #[inline]
    pub(super) fn find(
        &self,
        count: usize,
        key: &[u64],
        low: usize,
    ) -> Option<Result<usize, usize>> {
        let mut range = low..count;
        while range.len() > TOGETHER_OF_FEW {
            range = if range.len() > TOGETHER_OF_FEW * TOGETHER_OF_FEW {
                self.part::<TOGETHER>(range, key)?
            } else {
                self.part::<TOGETHER_OF_FEW>(range, key)?
            };
        }
        let below = self.below::<TOGETHER_OF_FEW>(range.len(), |probe| range.start + probe, key)?;
        let place = range.start + below;
        let is_there = place < count && self.is(self.at(place)?, key)?;
        Some(if is_there { Ok(place) } else { Err(place) })
    }

    /// The one of `PARTS` parts of a range to which the key belongs; keys that begin after the part
    /// are not below the key.
    #[inline]
    fn part<const PARTS: usize>(&self, range: Range<usize>, key: &[u64]) -> Option<Range<usize>> {
        let end_of = |part: usize| range.start + (part + 1) * range.len() / PARTS;
        let below = self.below::<PARTS>(PARTS - 1, end_of, key)?;
        let start = below
            .checked_sub(1)
            .map_or(range.start, |part| end_of(part) + 1);
        Some(start..end_of(below))
    }

    /// How many of the keys of `cells` cells, at most `MOST`, are below `key`.
    #[inline]
    fn below<const MOST: usize>(
        &self,
        cells: usize,
        index: impl Fn(usize) -> usize,
        key: &[u64],
    ) -> Option<usize> {
        let mut below = 0;
        if let [word] = key
            && !self.window.counts_loads()
        {
            // Such a comparison is not a branch, so the processor asks for all of the keys at once
            // by itself.
            for probe in 0..cells {
                below += usize::from(self.window.word(self.at(index(probe))?)? < *word);
            }
            return Some(below);
        }
        let mut places = [0; MOST];
        for (probe, place) in places.iter_mut().enumerate().take(cells) {
            *place = self.at(index(probe))?;
            self.window.prefetch(*place);
        }
        for place in &places[..cells] {
            below += usize::from(self.is_below(*place, key)?);
        }
        Some(below)
    }

    /// The word that the cell's value begins with.
    #[inline]
    pub(super) fn first_value_word(&self, index: usize) -> Option<u64> {
        let at = self.at(index)?;
        let key_words = usize::from((self.window.word(at - 8)? >> 48) as u8);
        self.window.word(at + 8 * key_words)
    }

    /// Offset in the page of the key of a cell.
    #[inline]
    fn at(&self, index: usize) -> Option<usize> {
        let slot = match self.slots {
            Slots::Changed(slots) => *slots.get(index)?,
            Slots::Place(place) => self.window.byte(slot_at(place, index))?,
        };
        Some(usize::from(slot) * self.unit + 8)
    }

    /// Whether the key at a place is less than `key`.
    #[inline]
    fn is_below(&self, place: usize, key: &[u64]) -> Option<bool> {
        for (number, word) in key.iter().enumerate() {
            let found = self.window.word(place + 8 * number)?;
            if found != *word {
                return Some(found < *word);
            }
        }
        Some(false)
    }

    #[inline]
    fn is(&self, place: usize, key: &[u64]) -> Option<bool> {
        for (number, word) in key.iter().enumerate() {
            if self.window.word(place + 8 * number)? != *word {
                return Some(false);
            }
        }
        Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::{Keys, Slots};
    use pmem::device::simulated::mix;
    use pmem::{Arena, NativeMemory, PageSize, PoolIdentity, PoolKind};

    const PAGE_BYTES: usize = 8192;
    const PAGE_AT: u64 = 64 << 10;
    const UNIT: usize = 32;

    /// Pages of up to 240 cells in any order, with keys of one to three words that often begin
    /// alike.
    #[test]
    fn a_search_finds_what_a_search_one_by_one_does() {
        let memory = NativeMemory::volatile(1 << 20, PageSize::Base).unwrap();
        let kind = PoolKind(1);
        let mut arena = Arena::create(memory, &PoolIdentity::unnamed(kind)).unwrap();
        let mut random = 3;
        let mut below = |end: usize| {
            random = mix(random + 1);
            (random % end as u64) as usize
        };
        let mut found = 0;
        for round in 0..600 {
            let words = 1 + round % 3;
            let most = 400_usize >> (4 * (words - 1));
            let mut keys: Vec<Vec<u64>> = (0..below(241).min(round))
                .map(|_| (0..words).map(|_| below(most) as u64).collect())
                .collect();
            keys.sort_unstable();
            keys.dedup();
            let mut slots: Vec<u8> = (8..=255).collect();
            for index in (1..slots.len()).rev() {
                slots.swap(index, below(index + 1));
            }
            slots.truncate(keys.len());
            for (key, slot) in keys.iter().zip(&slots) {
                for (number, word) in key.iter().enumerate() {
                    let at = usize::from(*slot) * UNIT + 8 * (number + 1);
                    arena.store_word(PAGE_AT + at as u64, *word).unwrap();
                }
            }
            let searched = Keys {
                window: arena.window(PAGE_AT, PAGE_BYTES).unwrap(),
                slots: Slots::Changed(&slots),
                unit: UNIT,
            };
            for _ in 0..40 {
                let key: Vec<u64> = (0..words).map(|_| below(most) as u64).collect();
                let low = below(keys.len().min(2) + 1);
                let expected = match keys[low..].binary_search(&key) {
                    Ok(index) => Ok(low + index),
                    Err(index) => Err(low + index),
                };
                found += usize::from(expected.is_ok());
                let place = searched.find(keys.len(), &key, low);
                assert_eq!(place, Some(expected), "{key:?} from {low} in {keys:?}");
            }
        }
        assert!(found > 4000, "{found}");
    }
}
