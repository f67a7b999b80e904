//! Allocation maps: one bit for each page of the file, set for pages in use.
//!
//! A map covers as many pages as it has bits. The first one is the first page after the master
//! records; each other one is the first of the pages that it covers. A map is formatted when the
//! first page that it covers is needed, and the map before it links to it in the same change, so
//! nobody has to guess which maps there are.

use super::change::{Change, wrong_page};
use super::search_path::Structure;
use super::transaction::LogRoom;
use crate::buffer::offsets::first_page;
use crate::buffer::{Changes, PageAccess, Pool};
use crate::page::header::HEADER_BYTES;
use crate::page::{Header, PageId, PageKind, PageOp, Slotted};
use disk::Directory;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::{Clock, Result};

/// The pages of one partition: the pool, and which of its pages are in use.
///
/// Allocation is here. Transactions end in `commit` and `rollback`, or in `recovery` after a crash;
/// `compact` and `verify` have the methods for all pages in use, with `check`.
pub struct Pages<D: Directory> {
    /// The frames.
    pub pool: Pool<D>,
    free_from: FreeFrom,
    /// Structure versions of the trees.
    pub(super) structure: Structure,
    /// Clock of the commits.
    pub(super) clock: Clock,
    /// Most cells of a page of a tree, where that is less than what fits.
    cells_max: usize,
}

/// Below this page none is free, as far as is known; with the number of pages given up so far, so
/// that what one thread finds does not hide what another gives up meanwhile.
#[derive(Default)]
struct FreeFrom(AtomicU64);

/// A snapshot of the state: the number in the upper half, the page in the lower one.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Known(u64);

impl Known {
    fn page(self) -> PageId {
        PageId(self.0 as u32)
    }
}

impl FreeFrom {
    fn get(&self) -> Known {
        Known(self.0.load(Ordering::Relaxed))
    }

    /// Notes that no page before `page` is free, unless one was given up since `known`.
    fn raise(&self, known: Known, page: PageId) {
        let raised = known.0 & !u64::from(u32::MAX) | u64::from(page.0);
        let order = Ordering::Relaxed;
        // Lost to another thread: it costs a longer search.
        let _ = self.0.compare_exchange(known.0, raised, order, order);
    }

    /// Notes that a page is given up.
    fn lower(&self, page: PageId) {
        let order = Ordering::Relaxed;
        let lower = |known| {
            let lowest = Known(known).page().min(page);
            Some((known >> 32).wrapping_add(1) << 32 | u64::from(lowest.0))
        };
        let _ = self.0.fetch_update(order, order, lower);
    }
}

/// Pages that one map covers.
pub(crate) fn pages_of_map(page_bytes: usize) -> u32 {
    ((page_bytes - HEADER_BYTES) * 8) as u32
}

/// The map that covers a page, and the page's bit.
pub(crate) fn place(page_bytes: usize, id: PageId) -> (PageId, u32) {
    let covered = pages_of_map(page_bytes);
    let (number, bit) = (id.0 / covered, id.0 % covered);
    let map = if number == 0 {
        first_page(page_bytes)
    } else {
        PageId(number * covered)
    };
    (map, bit)
}

/// Whether a bit of a map is set.
pub(super) fn is_used(map: &[u8], bit: u32) -> bool {
    map.get(HEADER_BYTES + bit as usize / 8)
        .is_some_and(|byte| byte >> (bit % 8) & 1 == 1)
}

/// Bytes of a map that have the bits from `first` up to, but not including, `end`.
fn bytes_of(first: u32, end: u32) -> Range<usize> {
    HEADER_BYTES + first as usize / 8..HEADER_BYTES + end.div_ceil(8) as usize
}

/// The first map of a new file, in which the pages up to `used`, that one excluded, are in use.
pub fn first_map(page_bytes: usize, used: u32) -> Vec<u8> {
    assert!(
        used <= pages_of_map(page_bytes),
        "the first map is too short"
    );
    let mut map = vec![0; page_bytes];
    let id = first_page(page_bytes);
    let format = PageOp::Format {
        kind: PageKind::Map,
        level: 0,
        key_words: 0,
        link: PageId(0),
    };
    let bits = (0..used).map(|index| PageOp::Bit {
        index,
        is_used: true,
    });
    for op in std::iter::once(format).chain(bits) {
        op.apply(&mut map, id)
            .expect("the smallest page has room for a map");
    }
    map
}

impl<D: Directory> Pages<D> {
    /// All pages of a pool.
    pub fn new(pool: Pool<D>, cells_max: usize) -> Self {
        Self {
            pool,
            free_from: FreeFrom::default(),
            structure: Structure::new(),
            clock: Clock::None,
            cells_max,
        }
    }

    /// Lets commits have a time.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Whether a page of a tree has room for `cell_bytes` more bytes of cells, in a new cell or in
    /// one that it has.
    pub(super) fn fits(&self, view: &Slotted<'_>, cell_bytes: usize) -> bool {
        view.slots() < self.cells_max && view.fits(cell_bytes)
    }

    /// Whether a page of a tree may have `cells` cells in all.
    pub(super) fn takes(&self, cells: usize) -> bool {
        cells <= self.cells_max
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.pool.page_bytes()
    }

    /// Log space that records take.
    pub(super) fn log_room(&self) -> LogRoom {
        let room = match self.pool.changes() {
            Changes::InBuffers => LogRoom::of_redo,
            Changes::InPlace(_) | Changes::InCopies(_) => LogRoom::of_lines,
        };
        room(self.page_bytes())
    }

    /// Takes a free page for a change. A full disk is an error here.
    pub fn allocate<'p>(&'p self, change: &mut Change<'p>) -> Result<PageId> {
        let page_bytes = self.page_bytes();
        let known = self.free_from.get();
        let mut from = known.page().max(first_page(page_bytes));
        loop {
            let (map, bit) = place(page_bytes, from);
            let covered = pages_of_map(page_bytes);
            let end = {
                let pages = self.pool.readers().pages();
                pages.saturating_sub(from.0 - bit).min(covered)
            };
            if end == covered && self.is_full(change, map, bit)? {
                // Not latched: a change would hold every full map that it goes by.
                from = PageId(from.0 - bit + end);
                continue;
            }
            let map = self.map(change, map)?;
            let pending = change.pending_bits(map);
            let bytes = change.bytes(map);
            let is_taken = |bit: u32| {
                let newest = pending.iter().rev().find(|&&(index, _)| index == bit);
                newest.map_or_else(|| is_used(bytes, bit), |&(_, is_used)| is_used)
            };
            let free = (bit..end).find(|&bit| !is_taken(bit));
            let looked = bytes_of(bit, free.map_or(end, |free| free + 1));
            change.record_access(map, PageAccess::Ranges(&[looked]));
            if let Some(free) = free {
                // Going on would wait for a latch that this change holds itself.
                if change.find(PageId(from.0 - bit + free)).is_some() {
                    let text = "the page is in use, and its map says that it is free";
                    return Err(wrong_page(&self.pool, PageId(from.0 - bit + free), text));
                }
                change.push(
                    map,
                    PageOp::Bit {
                        index: free,
                        is_used: true,
                    },
                );
                let id = PageId(from.0 - bit + free);
                debug_assert!(id >= from, "a page is taken before the search began");
                debug_assert!(
                    id.0 < self.pool.readers().pages(),
                    "a page is taken for which the file has no room"
                );
                // Not past it: the change may still fail.
                self.free_from.raise(known, id);
                return Ok(id);
            }
            from = PageId(from.0 - bit + end);
            self.pool.grow(from.0 + 1)?;
        }
    }

    /// Gives a page up, as part of a change.
    pub fn release<'p>(&'p self, change: &mut Change<'p>, id: PageId) -> Result<()> {
        let (map, index) = place(self.page_bytes(), id);
        debug_assert_ne!(map, id, "a map of space is given up like a page");
        let map = self.map(change, map)?;
        change.push(
            map,
            PageOp::Bit {
                index,
                is_used: false,
            },
        );
        self.free_from.lower(id);
        Ok(())
    }

    /// Whether, by a map that the change does not have, all its pages from a bit on are in use.
    fn is_full(&self, change: &Change<'_>, id: PageId, bit: u32) -> Result<bool> {
        let page_bytes = self.page_bytes();
        if change.find(id).is_some() {
            return Ok(false);
        }
        if id != first_page(page_bytes) {
            let (before, _) = place(page_bytes, PageId(id.0 - 1));
            let is_linked = change.find(before).is_none() && self.link(before)? == id;
            if !is_linked {
                return Ok(false);
            }
        }
        let map = self.pool.read(id)?;
        let is_map = Header(map.bytes()).kind() == Some(PageKind::Map);
        let covered = pages_of_map(page_bytes);
        let free = (bit..covered).find(|&bit| !is_used(map.bytes(), bit));
        let looked = bytes_of(bit, free.map_or(covered, |free| free + 1));
        map.record_access(PageAccess::Ranges(&[0..HEADER_BYTES, looked]));
        Ok(is_map && free.is_none())
    }

    /// The map that a map links to.
    fn link(&self, map: PageId) -> Result<PageId> {
        let map = self.pool.read(map)?;
        map.record_access(PageAccess::Header);
        Ok(Header(map.bytes()).link())
    }

    /// A map, latched for the change and formatted if it is the first time.
    fn map<'p>(&'p self, change: &mut Change<'p>, id: PageId) -> Result<usize> {
        if let Some(number) = change.find(id) {
            return Ok(number);
        }
        let page_bytes = self.page_bytes();
        let first = first_page(page_bytes);
        if id != first {
            let (before, _) = place(page_bytes, PageId(id.0 - 1));
            let known = match change.find(before) {
                Some(number) => Header(change.bytes(number)).link() == id,
                None => self.link(before)? == id,
            };
            if !known {
                return self.format_map(change, before, id);
            }
        }
        let guard = self.pool.write(id)?;
        guard.record_access(PageAccess::Header);
        if Header(guard.bytes()).kind() != Some(PageKind::Map) {
            return Err(wrong_page(&self.pool, id, "the page is no map of space"));
        }
        Ok(change.add(guard))
    }

    fn format_map<'p>(
        &'p self,
        change: &mut Change<'p>,
        before: PageId,
        id: PageId,
    ) -> Result<usize> {
        let before = match change.find(before) {
            Some(number) => number,
            None => change.add(self.pool.write(before)?),
        };
        debug_assert!(change.id(before) < id, "maps are linked in their order");
        if Header(change.bytes(before)).link() == id {
            // Another thread was faster.
            return Ok(change.add(self.pool.write(id)?));
        }
        self.pool.grow(id.0 + 1)?;
        change.push(before, PageOp::Link { link: id });
        let map = change.add_new(self.pool.blank(id)?);
        let ops = [
            PageOp::Format {
                kind: PageKind::Map,
                level: 0,
                key_words: 0,
                link: PageId(0),
            },
            PageOp::Bit {
                index: 0,
                is_used: true,
            },
        ];
        for op in ops {
            change.push(map, op);
        }
        Ok(map)
    }
}
