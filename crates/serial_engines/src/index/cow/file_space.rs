//! The free pages of the file, and the list of them on the medium.
//!
//! Free pages are listed in a chain of list pages. The list pages at its upper end are *open*:
//! their numbers are in DRAM, pages are taken from them, and each group writes them anew,
//! elsewhere. Lower ones are read when the open part is used up. So a group writes about one list
//! page, and opening reads none.
//!
//! Pages that a snapshot shows are free on the medium and *held* in DRAM: they are in the list, at
//! its lower end, and are skipped when pages are taken. Where the rest of the list has only such
//! pages, it is not read (`parked`), so a long-lived reader does not cost a read of its pages'
//! numbers in every group.
//!
//! Invariants: a page that a group gives up is on the list that this group writes, and is taken
//! only after the group is durable; every page before `end` is in use, on the list, or part of the
//! list; pages after `end` were never used.

use super::node::{Kind, checksum, damaged, other_meta, word_of};
use std::collections::{BTreeSet, HashSet};
use storage::Result;

const HEADER_BYTES: usize = 32;

/// Space fields of the master record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SpaceHead {
    /// The uppermost list page, or 0.
    pub(super) chain: u64,
    /// Offset after the last page that was ever used.
    pub(super) end: u64,
    /// Bytes that the file had at least.
    pub(super) file_bytes: u64,
}

/// A savepoint of a transaction.
#[derive(Clone, Copy)]
pub struct SpaceSavepoint {
    taken: usize,
    retired: usize,
}

/// The free pages of one file.
#[derive(Debug)]
pub(super) struct FileSpace {
    page_bytes: usize,
    /// Free pages in DRAM that may be taken, the next one last.
    available: Vec<u64>,
    /// The first list page that is not in DRAM, or 0.
    below: u64,
    /// List pages that the medium has for what is in DRAM; free with the next group.
    open_pages: Vec<u64>,
    /// Free pages that must not be taken yet: all of them, and those whose numbers are in DRAM as
    /// the other part of the open list.
    held: HashSet<u64>,
    held_here: Vec<u64>,
    /// A list page that has nothing but held pages, and nothing else below it; or 0.
    parked: u64,
    /// Pages taken and given up in this group.
    taken: Vec<u64>,
    retired: Vec<u64>,
    end: u64,
    /// Bytes of the file that are there to be written.
    pub(super) file_bytes: u64,
}

/// A list that was made for a group, before the group is durable.
pub(super) struct NewList {
    pub(super) head: SpaceHead,
    /// Places and bytes of its new pages.
    pub(super) pages: Vec<(u64, Vec<u8>)>,
    /// State that DRAM keeps if the group becomes durable.
    available: Vec<u64>,
    held_here: Vec<u64>,
    parked: u64,
    below: u64,
    open_pages: Vec<u64>,
}

/// Reads the page at a place into the buffer.
pub(super) type ReadPage<'r> = &'r mut dyn FnMut(u64, &mut [u8]) -> Result<()>;

impl FileSpace {
    pub(super) fn new(page_bytes: usize, head: SpaceHead, file_bytes: u64) -> Self {
        Self {
            page_bytes,
            available: Vec::new(),
            below: head.chain,
            open_pages: Vec::new(),
            held: HashSet::new(),
            held_here: Vec::new(),
            parked: 0,
            taken: Vec::new(),
            retired: Vec::new(),
            end: head.end,
            file_bytes,
        }
    }

    /// Numbers in one list page.
    fn per_page(&self) -> usize {
        (self.page_bytes - HEADER_BYTES) / 8
    }

    /// Pages that can be taken without reading or growing.
    pub(super) fn room(&self) -> usize {
        self.available.len()
            + (self.file_bytes.saturating_sub(self.end) / self.page_bytes as u64) as usize
    }

    /// List pages that the group may need.
    pub(super) fn list_pages_max(&self) -> usize {
        let free = self.available.len() + self.retired.len() + self.open_pages.len();
        let free = free + self.held_here.len();
        free / self.per_page() + 2
    }

    /// Brings so much of the chain into DRAM that there is room for `pages` and the list, or all of
    /// it: the file grows only where none of its pages is free.
    pub(super) fn fill(&mut self, pages: usize, read: ReadPage<'_>) -> Result<()> {
        let has_room = |space: &Self| {
            !space.available.is_empty() && space.room() >= pages + space.list_pages_max()
        };
        if has_room(self) || self.below == self.parked {
            return Ok(());
        }
        while !has_room(self) && self.below != self.parked {
            let (numbers, below) = read_list_page(self.page_bytes, self.below, self.end, read)?;
            self.open_pages.push(self.below);
            self.below = below;
            self.available.extend(numbers);
            self.set_held_apart();
        }
        // Neighbours are taken one after the other, so that they are written together.
        self.available.sort_unstable_by(|a, b| b.cmp(a));
        Ok(())
    }

    /// Moves what is held out of the free pages in DRAM.
    fn set_held_apart(&mut self) {
        if !self.held.is_empty() {
            let (held, held_here) = (&self.held, &mut self.held_here);
            self.available.retain(|page| {
                let is_held = held.contains(page);
                if is_held {
                    held_here.push(*page);
                }
                !is_held
            });
        }
    }

    /// Holds pages back that the group has given up, before [`FileSpace::commit`].
    pub(super) fn hold(&mut self, pages: &[u64]) {
        self.held.extend(pages);
    }

    /// Lets pages be taken that were held back.
    pub(super) fn release(&mut self, pages: &[u64]) {
        if pages.is_empty() {
            return;
        }
        for page in pages {
            self.held.remove(page);
        }
        self.parked = 0;
        self.available.append(&mut self.held_here);
        self.set_held_apart();
    }

    /// Takes a free page; none if the file has to grow.
    pub(super) fn take(&mut self) -> Option<u64> {
        let page = match self.available.pop() {
            Some(page) => page,
            None if self.end + self.page_bytes as u64 <= self.file_bytes => {
                self.end += self.page_bytes as u64;
                self.end - self.page_bytes as u64
            }
            None => return None,
        };
        self.taken.push(page);
        Some(page)
    }

    /// Gives a page up.
    pub(super) fn retire(&mut self, page: u64) {
        self.retired.push(page);
    }

    /// Pages that the group has taken.
    pub(super) fn taken(&self) -> &[u64] {
        &self.taken
    }

    /// Pages that the group has given up.
    pub(super) fn retired(&self) -> &[u64] {
        &self.retired
    }

    pub(super) fn savepoint(&self) -> SpaceSavepoint {
        SpaceSavepoint {
            taken: self.taken.len(),
            retired: self.retired.len(),
        }
    }

    pub(super) fn rollback(&mut self, savepoint: SpaceSavepoint) {
        self.retired.truncate(savepoint.retired);
        while self.taken.len() > savepoint.taken {
            self.available.extend(self.taken.pop());
        }
    }

    /// Makes the list as it is after the group: the old one's pages and what was given up are on
    /// it. Nothing changes here until [`FileSpace::commit`]. The caller has made room for
    /// [`FileSpace::list_pages_max`] pages.
    pub(super) fn make_list(&self) -> Option<NewList> {
        let mut free = [&self.retired[..], &self.open_pages, &self.available].concat();
        let mut end = self.end;
        // The next free pages hold the list itself: they may be written before the group is
        // durable, unlike what the group gives up.
        let usable = self.available.len();
        let per_page = self.per_page();
        let mut places = Vec::new();
        let mut from_available = 0;
        let held_count = self.held_here.len();
        while (held_count + free.len() - from_available).div_ceil(per_page) > places.len() {
            if from_available < usable {
                from_available += 1;
                places.push(free[free.len() - from_available]);
            } else if end + self.page_bytes as u64 <= self.file_bytes {
                places.push(end);
                end += self.page_bytes as u64;
            } else {
                return None;
            }
        }
        free.truncate(free.len() - from_available);
        free.sort_unstable_by(|a, b| b.cmp(a));
        // Held pages lie lowest, where they are left alone.
        free.splice(0..0, self.held_here.iter().copied());
        // The last place may have been taken from the very numbers that it was to hold; an empty
        // page holds it then.
        let numbers = free.chunks(per_page).chain(std::iter::repeat(&[][..]));
        let mut below = self.below;
        let mut pages = Vec::with_capacity(places.len());
        let mut kept_from = 0;
        let mut kept_below = self.below;
        let mut parked = self.parked;
        let mut open_pages = places.clone();
        let is_long = places.len() > KEPT_LIST_PAGES;
        for (index, (place, numbers)) in places.iter().zip(numbers).enumerate() {
            pages.push((*place, self.list_page(numbers, below)));
            below = *place;
            // Whole pages far below the upper end are left to the medium.
            if is_long && places.len() - index > LEFT_LIST_PAGES {
                kept_from = ((index + 1) * per_page).min(free.len());
                kept_below = *place;
                open_pages.remove(0);
                if kept_from <= held_count && self.below == self.parked {
                    parked = *place;
                }
            }
        }
        let available = free.split_off(kept_from.max(held_count));
        free.truncate(held_count);
        Some(NewList {
            head: SpaceHead {
                chain: below,
                end,
                file_bytes: self.file_bytes,
            },
            pages,
            available,
            held_here: free.split_off(kept_from.min(held_count)),
            parked,
            below: kept_below,
            open_pages,
        })
    }

    fn list_page(&self, numbers: &[u64], below: u64) -> Vec<u8> {
        let mut page = vec![0; self.page_bytes];
        page[..8].copy_from_slice(&other_meta(Kind::List).to_le_bytes());
        page[16..24].copy_from_slice(&(numbers.len() as u64).to_le_bytes());
        page[24..32].copy_from_slice(&below.to_le_bytes());
        for (index, number) in numbers.iter().enumerate() {
            let at = HEADER_BYTES + 8 * index;
            page[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let sum = checksum(&page).to_le_bytes();
        page[8..16].copy_from_slice(&sum);
        page
    }

    /// The group with this list is durable.
    pub(super) fn commit(&mut self, list: NewList) {
        self.end = list.head.end;
        self.available = list.available;
        self.held_here = list.held_here;
        self.parked = list.parked;
        self.below = list.below;
        self.open_pages = list.open_pages;
        self.set_held_apart();
        self.taken.clear();
        self.retired.clear();
    }

    /// The head of an empty file.
    pub(super) fn head_of_new(first: u64, file_bytes: u64) -> SpaceHead {
        SpaceHead {
            chain: 0,
            end: first,
            file_bytes,
        }
    }

    /// Bytes in use and bytes that are free.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Adds every page that is not in use to `pages`; reports damage of the list.
    pub(super) fn collect(
        &self,
        pages: &mut BTreeSet<u64>,
        damage: &mut Vec<String>,
        read: ReadPage<'_>,
    ) {
        let mut add = |page: u64| {
            if !pages.insert(page) {
                damage.push(format!(
                    "the page at offset {page} is free and in use, or free twice"
                ));
                return false;
            }
            true
        };
        let here = self.available.iter().chain(&self.open_pages);
        for &page in here.chain(&self.held_here) {
            add(page);
        }
        let mut at = self.below;
        while at != 0 {
            match read_list_page(self.page_bytes, at, self.end, read) {
                Ok((numbers, below)) => {
                    if !add(at) {
                        return;
                    }
                    for number in numbers {
                        add(number);
                    }
                    at = below;
                }
                Err(error) => return damage.push(error.to_string()),
            }
        }
    }
}

/// Most list pages whose numbers stay in DRAM; each group writes all of them anew.
const KEPT_LIST_PAGES: usize = 2;
/// Number that stays if there are more: few enough that as many more fit before the next time.
const LEFT_LIST_PAGES: usize = 1;

/// The numbers of a list page, and the page below it.
fn read_list_page(
    page_bytes: usize,
    at: u64,
    end: u64,
    read: ReadPage<'_>,
) -> Result<(Vec<u64>, u64)> {
    let mut page = vec![0; page_bytes];
    read(at, &mut page)?;
    let count = word_of(&page, 2) as usize;
    let sound = word_of(&page, 0) == other_meta(Kind::List)
        && checksum(&page) == word_of(&page, 1)
        && count <= (page_bytes - HEADER_BYTES) / 8;
    if !sound {
        return Err(damaged(at, "it is no sound list of free pages".to_owned()));
    }
    let numbers: Vec<_> = (0..count)
        .map(|index| word_of(&page, HEADER_BYTES / 8 + index))
        .collect();
    let is_page = |number: &u64| *number < end && number.is_multiple_of(page_bytes as u64);
    if !numbers.iter().all(is_page) {
        return Err(damaged(at, "it lists what is no page".to_owned()));
    }
    Ok((numbers, word_of(&page, 3)))
}
