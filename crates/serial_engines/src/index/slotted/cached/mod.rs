//! Slotted pages in frames of volatile memory, over a file, with a log of their changes in durable
//! memory (`nvwal`, `slot-header-journal`).
//!
//! A page that a group changes keeps a copy of its committed content. In `nvwal` the end of the
//! group compares both, byte by byte, and appends the differences to the log; in
//! `slot-header-journal` it appends the page's header and the cells that the header before did not
//! name. A checkpoint writes the pages that
//! the log has to the file, as the last group left them, syncs it, and frees the log; it comes when
//! the log is full, or half of the frames wait for it.
//!
//! A power cut during a checkpoint leaves pages with some new sectors and some old ones. The log
//! repairs them without a copy of the whole page, because it has the new value of every byte that
//! differs between the old page and the new one. Once the log is applied, each of these bytes has
//! its last value, whether its sector was new or old; all other bytes are the same in both. This
//! needs two rules: copies and file never differ, so the changes that an aborted transaction left
//! in a frame are reverted as well; and a page that comes into use anew begins with zeros,
//! regardless of the old content of its place.
//!
//! With a journal of headers this is true of the bytes that a header names, and others do not
//! matter: each header has been logged whole since the last checkpoint or has stayed, and so has
//! each cell.
//!
//! | file | job |
//! |---|---|
//! | `log` | records of differences, and their marks |
//! | `difference` | what a record has of a page: bytes that differ, or header and cells |
//! | `redo` | differences in the log of pages that are not read yet |
//! | `home` | the file |
//! | `space` | which of its pages are in use |
//! | `commit` | the end of a group, checkpoint, recovery |

mod commit;
mod difference;
mod home;
mod log;
mod redo;
mod space;

pub(crate) use commit::{CacheOptions, log_bytes};
pub use home::HomeIdentity;

use super::header::{Geometry, damaged};
use difference::Form;
use home::Home;
use log::Differences;
use pmem::{Arena, Block, Counters, HeapSavepoint, Memory, Owner, Part, RootIndex};
use redo::Unread;
use space::Space;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use storage::Result;
use storage::engine::VerifyReport;

/// Frames that are reserved together.
const BATCH: usize = 16;
/// Fewest frames.
const FRAMES_MIN: usize = 48;
/// A page is not evicted before this many others were loaded since its last use: operations hold a
/// page for less.
const LOADS_KEPT: u64 = 24;

/// A page in a frame.
struct Resident {
    page: u64,
    frame: u64,
    /// Number of loaded pages at its last use.
    used: u64,
    /// Whether the log has more of it than the file.
    is_dirty: bool,
    /// Whether the group has brought it into use.
    is_fresh: bool,
    /// The committed content, if the group may change the page.
    image: Option<Vec<u8>>,
}

/// A page with root or maps. They stay in memory once they were read.
struct Own {
    bytes: Vec<u8>,
    is_dirty: bool,
    /// Whether no group has written it yet.
    is_fresh: bool,
}

/// A savepoint of the open transaction.
#[derive(Clone, Copy)]
pub(super) struct CacheSavepoint {
    touched: usize,
    taken: usize,
    given: usize,
    now: Space,
    log: (usize, HeapSavepoint),
}

/// The pages of a partition, cached over their file.
pub struct CachedPages {
    log: Box<dyn Differences>,
    home: Box<dyn Home>,
    page_bytes: usize,
    pages_max: usize,
    /// Number of the resident of each page, and one, or 0.
    slots: Vec<u32>,
    residents: Vec<Option<Resident>>,
    vacant: Vec<usize>,
    frames: Vec<u64>,
    hand: usize,
    loads: u64,
    dirty: usize,
    /// Pages with a copy, in the order in which they got it.
    touched: Vec<u64>,
    spare: Vec<Vec<u8>>,
    /// Frames that the group has beyond those that there should be.
    overrun: usize,
    own: BTreeMap<u64, Own>,
    /// As the last group left it, and as this one will.
    committed: Space,
    now: Space,
    /// Numbers of pages that the group has brought into use, and has given up.
    taken: Vec<u64>,
    given: Vec<u64>,
    /// Those of `taken` that were in use before some time.
    is_taken: HashSet<u64>,
    /// Start of the next search for a free page.
    next_free: u64,
    /// Differences in the log of pages that were not read since the opening.
    unread: Unread,
    /// The own pages of a group whose record is written.
    pending: Vec<(u64, Vec<u8>)>,
    buffer: Vec<u8>,
}

impl CachedPages {
    /// Sets a root of the pool; durable when it returns.
    pub fn set_root(&mut self, root: RootIndex, offset: u64) -> Result<()> {
        self.log.set_root(root, offset)
    }

    /// Root of the directory.
    pub(super) fn root(&self) -> u64 {
        self.committed.root
    }

    /// Logs headers and new cells of pages that are divided like this, from the next group on.
    pub(crate) fn log_headers_and_cells(&mut self, geometry: Geometry) {
        self.log.record().form = Form::HeaderAndCells(geometry);
    }

    fn number_of(&self, page: u64) -> u64 {
        page / self.page_bytes as u64
    }

    #[inline]
    fn slot(&self, page: u64) -> Option<usize> {
        let number = page as usize / self.page_bytes;
        let slot = self.slots.get(number).copied().unwrap_or(0) as usize;
        slot.checked_sub(1)
    }

    fn resident(&mut self, page: u64) -> Option<&mut Resident> {
        let slot = self.slot(page)?;
        self.residents.get_mut(slot)?.as_mut()
    }

    /// The frame of a page that is in one.
    #[inline]
    pub(super) fn frame(&mut self, page: u64) -> Option<u64> {
        let loads = self.loads;
        let resident = self.resident(page)?;
        resident.used = loads;
        (resident.page == page).then_some(resident.frame)
    }

    /// Reads a page into a frame.
    #[cold]
    pub(super) fn load<M: Memory>(&mut self, arena: &mut Arena<M>, page: u64) -> Result<u64> {
        let (number, page_bytes) = (self.number_of(page), self.page_bytes);
        let is_one = page.is_multiple_of(page_bytes as u64) && number < self.now.end;
        if !is_one || space::is_own(number, page_bytes) {
            return Err(damaged(page, "no page begins there"));
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(page_bytes, 0);
        let result = self.read(page, &mut buffer);
        let frame = result.and_then(|()| {
            let frame = self.take_frame(arena)?;
            arena.store(frame, &buffer)?;
            Ok(frame)
        });
        self.buffer = buffer;
        let frame = frame?;
        let slot = self.insert(page, frame);
        if self.unread.forget(number) {
            if let Some(resident) = &mut self.residents[slot] {
                resident.is_dirty = true;
            }
            self.dirty += 1;
        }
        Ok(frame)
    }

    /// Reads a page that is in no frame: as it is at home, and then what the log has of it.
    fn read(&mut self, page: u64, bytes: &mut [u8]) -> Result<()> {
        let number = self.number_of(page);
        let (log, home) = (&*self.log, &mut *self.home);
        self.unread.read((number, page), log, home, bytes)
    }

    /// Pages that the log has more of than the file.
    fn not_home(&self) -> usize {
        self.dirty + self.unread.pages()
    }

    fn insert(&mut self, page: u64, frame: u64) -> usize {
        self.loads += 1;
        let resident = Resident {
            page,
            frame,
            used: self.loads,
            is_dirty: false,
            is_fresh: false,
            image: None,
        };
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.residents.push(None);
            self.residents.len() - 1
        });
        self.residents[slot] = Some(resident);
        let number = self.number_of(page) as usize;
        if number >= self.slots.len() {
            self.slots.resize(number + 1, 0);
        }
        self.slots[number] = slot as u32 + 1;
        slot
    }

    fn take_frame<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<u64> {
        for _ in 0..2 {
            let resident = self.residents.len() - self.vacant.len();
            if resident >= self.pages_max + self.overrun && !self.give_one_up() {
                self.overrun += BATCH;
            }
        }
        if let Some(frame) = self.frames.pop() {
            return Ok(frame);
        }
        let owner = Owner {
            part: Part::Index,
            tag: 0,
        };
        let bytes = self.page_bytes.next_multiple_of(64);
        let first = arena.reserve(bytes * BATCH, owner)?;
        self.frames
            .extend((1..BATCH).rev().map(|index| first + (index * bytes) as u64));
        Ok(first)
    }

    /// Evicts a page that equals the one at home and was not used for long. Says whether there is
    /// one; where there is none, the group needs more frames than there should be.
    fn give_one_up(&mut self) -> bool {
        for passed in 0..2 * self.residents.len() {
            self.hand = (self.hand + 1) % self.residents.len();
            let is_second = passed >= self.residents.len();
            let round = self.residents.len() as u64 / 2;
            let Some(resident) = &self.residents[self.hand] else {
                continue;
            };
            let age = self.loads - resident.used;
            let is_old = age > LOADS_KEPT && (is_second || age > round);
            if is_old && !resident.is_dirty && resident.image.is_none() {
                self.forget(resident.page);
                return true;
            }
        }
        false
    }

    /// Takes a page out of its frame, and what the log has of it out of what is to be applied.
    fn forget(&mut self, page: u64) {
        self.unread.forget(self.number_of(page));
        let Some(slot) = self.slot(page) else {
            return;
        };
        if let Some(resident) = self.residents[slot].take() {
            self.dirty -= usize::from(resident.is_dirty);
            self.frames.push(resident.frame);
            self.spare.extend(resident.image);
        }
        self.vacant.push(slot);
        let number = self.number_of(page) as usize;
        self.slots[number] = 0;
    }

    /// Keeps what is committed of a page in a frame, because the group is about to change it.
    pub(super) fn keep<M: Memory>(&mut self, arena: &Arena<M>, page: u64) -> Result<()> {
        let mut image = self.spare.pop().unwrap_or_default();
        let page_bytes = self.page_bytes;
        let Some(resident) = self.resident(page) else {
            return Err(damaged(page, "it is in no frame"));
        };
        if resident.image.is_some() {
            self.spare.push(image);
            return Ok(());
        }
        image.clear();
        image.extend_from_slice(arena.bytes(resident.frame, page_bytes)?);
        resident.image = Some(image);
        self.touched.push(page);
        Ok(())
    }

    /// Brings a page into use, whose frame has zeros.
    pub(super) fn allocate<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<u64> {
        let number = match self.find_free()? {
            Some(number) => {
                self.now.free -= 1;
                number
            }
            None => self.extend()?,
        };
        let page = number * self.page_bytes as u64;
        let mut image = self.spare.pop().unwrap_or_default();
        image.clear();
        image.resize(self.page_bytes, 0);
        self.taken.push(number);
        self.is_taken.insert(number);
        self.forget(page);
        let frame = self.take_frame(arena)?;
        arena.store(frame, &image)?;
        let slot = self.insert(page, frame);
        if let Some(resident) = &mut self.residents[slot] {
            (resident.is_fresh, resident.image) = (true, Some(image));
        }
        self.touched.push(page);
        Ok(page)
    }

    /// A page that was in use and is free, as long as no snapshot of the group could need it.
    fn find_free(&mut self) -> Result<Option<u64>> {
        if self.now.free == 0 {
            return Ok(None);
        }
        let words = self.committed.end.div_ceil(64);
        for step in 0..=words {
            let first = (self.next_free / 64 + step) % words * 64;
            let map = space::map_of(first, self.page_bytes);
            let mut free = !space::word(&self.own(map)?.bytes, first);
            while free != 0 {
                let number = first + u64::from(free.trailing_zeros());
                free &= free - 1;
                let is_free = number < self.committed.end
                    && !space::is_own(number, self.page_bytes)
                    && !self.is_taken.contains(&number);
                if is_free {
                    self.next_free = number;
                    return Ok(Some(number));
                }
            }
        }
        Ok(None)
    }

    /// The page after all others. The map of a group of pages comes into use with the first of
    /// them.
    fn extend(&mut self) -> Result<u64> {
        let mut number = self.now.end;
        number += u64::from(space::is_own(number, self.page_bytes));
        let map = space::map_of(number, self.page_bytes);
        let last = number.max(map);
        self.home.grow((last + 1) * self.page_bytes as u64)?;
        if number.is_multiple_of(space::group_pages(self.page_bytes)) {
            let mut bytes = vec![0; self.page_bytes];
            space::seal(&mut bytes, map);
            let own = Own {
                bytes,
                is_dirty: false,
                is_fresh: true,
            };
            self.own.entry(map).or_insert(own);
        }
        self.now.end = number + 1;
        Ok(number)
    }

    /// Gives a page up. It is not used again before the group is durable.
    pub(super) fn free(&mut self, page: u64) {
        let number = self.number_of(page);
        self.given.push(number);
    }

    /// An own page.
    fn own(&mut self, number: u64) -> Result<&mut Own> {
        if !self.own.contains_key(&number) {
            let at = number * self.page_bytes as u64;
            let mut bytes = vec![0; self.page_bytes];
            self.home.read(at, &mut bytes)?;
            if !space::is_sound(&bytes, number) {
                return Err(self.home.damaged(at, "its checksum is wrong".to_owned()));
            }
            let own = Own {
                bytes,
                is_dirty: false,
                is_fresh: false,
            };
            self.own.insert(number, own);
        }
        let own = self.own.get_mut(&number);
        own.ok_or_else(|| damaged(number, "it is not there"))
    }

    /// Whether the group has anything to write.
    pub(super) fn has_changes(&self, root: u64) -> bool {
        !self.touched.is_empty() || !self.given.is_empty() || root != self.committed.root
    }

    /// Bytes of the pages that the group has changed.
    pub(super) fn changed_bytes(&self) -> usize {
        self.touched.len() * self.page_bytes
    }

    /// Numbers of the pages that the group has given up.
    pub(super) fn given(&self) -> Vec<u64> {
        let bytes = self.page_bytes as u64;
        self.given.iter().map(|number| number * bytes).collect()
    }

    pub(super) fn savepoint(&self) -> CacheSavepoint {
        CacheSavepoint {
            touched: self.touched.len(),
            taken: self.taken.len(),
            given: self.given.len(),
            now: self.now,
            log: self.log.savepoint(),
        }
    }

    /// Takes back everything since `savepoint`. A page that the group had not changed before is
    /// again as it is committed, also where no header names anything.
    pub(super) fn rollback<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        savepoint: CacheSavepoint,
    ) -> Result<()> {
        for page in self.touched.split_off(savepoint.touched) {
            let Some(resident) = self.resident(page) else {
                continue;
            };
            if resident.is_fresh {
                self.forget(page);
            } else if let Some(image) = resident.image.take() {
                arena.store(resident.frame, &image)?;
                self.spare.push(image);
            }
        }
        for number in self.taken.split_off(savepoint.taken) {
            self.is_taken.remove(&number);
        }
        self.given.truncate(savepoint.given);
        self.now = savepoint.now;
        self.log.rollback(savepoint.log);
        Ok(())
    }

    /// Makes sure that the group finds room in the log.
    pub(super) fn ensure_room(&mut self) -> Result<()> {
        // A map and the master besides the pages; each page in use or given up changes a bit of its
        // own.
        let pages = self.touched.len() + 2 + self.given.len().min(self.own.len());
        let entry = self.log.record().form.entry_bytes_max(self.page_bytes);
        let bytes = pages * entry + 24 * (self.taken.len() + self.given.len());
        self.log.ensure_room(bytes)
    }

    /// Holds the pages in use against those of the maps.
    pub fn check_space(&mut self, reachable: &BTreeSet<u64>, report: &mut VerifyReport) {
        let page_bytes = self.page_bytes as u64;
        let mut used = 0;
        for number in 0..self.committed.end {
            if space::is_own(number, self.page_bytes) {
                used += 1;
                continue;
            }
            let map = space::map_of(number, self.page_bytes);
            let is_used = match self.own(map) {
                Ok(own) => space::is_used(&own.bytes, number),
                Err(error) => return report.damage.push(error.to_string()),
            };
            used += u64::from(is_used);
            let at = number * page_bytes;
            match (is_used, reachable.contains(&at)) {
                (true, false) => report
                    .damage
                    .push(format!("the page at offset {at} is leaked")),
                (false, true) => report
                    .damage
                    .push(format!("the page at offset {at} is in use but free")),
                _ => {}
            }
        }
        report.blocks = reachable.len() as u64;
        let outside = reachable.range(self.committed.end * page_bytes..).next();
        let outside = outside.map(|at| format!("the page at offset {at} lies behind the end"));
        report.damage.extend(outside);
        let free = self.committed.end - used;
        if free != self.committed.free {
            let text = format!(
                "{free} pages are free, and {} should be",
                self.committed.free
            );
            report.damage.push(text);
        }
    }

    /// Bytes of all pages, those of the open group included.
    pub(super) fn bytes(&self) -> u64 {
        self.now.end * self.page_bytes as u64
    }

    /// Bytes of pages in use and of those that are not.
    pub fn used_and_free_bytes(&self) -> (u64, u64) {
        let used = (self.committed.end - self.committed.free) * self.page_bytes as u64;
        (used, self.home.bytes().saturating_sub(used))
    }

    /// Blocks of the log's pool that are allocated, and that of the log.
    pub fn log_blocks(&self) -> Result<(Vec<Block>, u64)> {
        self.log.blocks()
    }

    /// Bytes of the log's pool in use.
    pub fn log_footprint(&self) -> Result<pmem::Footprint> {
        self.log.footprint()
    }

    /// Counters of the log's memory.
    pub fn log_counters(&self) -> Counters {
        self.log.counters()
    }

    /// Counters of the file's device.
    pub fn disk_counters(&self) -> disk::DiskCounters {
        self.home.counters()
    }
}
