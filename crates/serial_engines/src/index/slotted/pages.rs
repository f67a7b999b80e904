//! The pages of all trees of a partition, with the changes of the open group of transactions, and
//! their undo.
//!
//! A page that the group has changed has a header in the making, in DRAM; the one in its page stays
//! in force until the group is committed. Cells are stored in their pages at once, in room that no
//! header names, so an abort leaves nothing to undo there. Everything else that an operation does
//! is in the undo list: old headers, new and dropped pages, roots. `publish` makes the group
//! durable, `room` knows the free space of pages, and `behind` has the differences for pages in a
//! cache.
//!
//! A header that another process has left in a page may not be durable yet. The first read of a
//! page flushes its header, and no transaction ends before a fence has waited for that.

mod behind;
mod key_cache;
mod publish;
mod room;

use super::cached::{CacheSavepoint, CachedPages};
use super::cell::Cell;
use super::header::{self, Geometry, Header, Seal, after, damaged, line_at, lines_of, place_of};
use super::keys::{Keys, Slots};
use super::log::{
    BLOCK_BYTES, BODY_BYTES, EXTENSIONS_MAX, Extension, HEADER_ENTRY_BYTES, HeaderLog,
    WORD_ENTRY_BYTES,
};
use super::records::{RecordSlots, log_block};
use super::versions::Versions;
use crate::index::cow::limbo::Limbo;
use pmem::{Arena, ClassId, HeapSavepoint, Memory, Outcome, Owner, Part, WordChange, site};
use std::sync::Arc;
use storage::Result;
use storage::engine::GlobalTxnId;
use storage::log::clear;
use storage::probe::{self, Activity};

use key_cache::KeyCache;
use room::{Held, Rooms};

const LINE: u64 = 64;
/// Bytes of the first extension of a record; each further one is twice as long.
const EXTENSION_BYTES: usize = 64 << 10;
/// From here on a part of a long value is streamed past the cache.
const STREAMED_BYTES_MIN: usize = 512;
/// Groups in a row that commit by a line. The record before them has sequence numbers, which must
/// not come round meanwhile.
const LINES_IN_A_ROW_MAX: u32 = 1 << 20;
/// Most bytes of a page that are prefetched where the next cell is likely to go.
const ROOM_BYTES_MAX: usize = 8 * LINE as usize;
/// States of a page below that of the first one that the group has changed: unknown, or what
/// [`at_rest`] makes.
const UNKNOWN: u32 = 0;
const CHANGED: u32 = 5;

/// State of a page whose header in force is in this place.
fn at_rest(place: usize, level: u8) -> u32 {
    1 + place as u32 + 2 * u32::from(level > 0)
}

/// Place of the header, and a level of the same kind as the page's, of a state that [`at_rest`]
/// made.
#[inline]
fn at_place(state: u32) -> (usize, u8) {
    ((state - 1) as usize & 1, ((state - 1) >> 1) as u8)
}

/// By what a group commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitKind {
    /// By a record of all headers that changed (`fash`).
    Record,
    /// By the header itself where only one changed and it fits a line, else by a record (`fast`).
    /// Its word is stored last.
    Line,
    /// The same, with a line that one transfer stores: for platforms on which that survives whole
    /// or not at all.
    WholeLine,
}

/// A page that the group has changed.
pub(super) struct Changed {
    pub(super) page: u64,
    /// Where its bytes are.
    pub(super) base: u64,
    /// The header in the making; the sequence number is that of the header in force.
    pub(super) header: Header,
    /// Whether the group has made it.
    is_new: bool,
    /// Whether the group has taken it out of its tree.
    is_dropped: bool,
    /// Operation whose undo list has the header.
    saved: u64,
    /// Most lines that its header had, in force or in the making.
    lines: usize,
    /// Space of its cells, if that is known.
    held: Option<Held>,
}

impl Changed {
    /// Lines that its headers may take, those that may be in force again included.
    pub(super) fn lines(&self) -> usize {
        self.lines
    }
}

/// Undo of one step.
enum Undo {
    /// A page's header changed; the old one is in `before`.
    Header(usize),
    /// A page was changed for the first time.
    Changed,
    /// A changed page was dropped.
    Dropped(usize),
    /// The root of a tree changed, or the directory's entry for it.
    Root(usize, Root),
}

/// The root of a tree.
#[derive(Clone, Copy, Default)]
pub(super) struct Root {
    pub(super) now: u64,
    /// Root in the directory, or for the directory itself in the master.
    pub(super) written: u64,
}

/// A savepoint of the open transaction.
#[derive(Clone, Copy)]
pub struct SlottedSavepoint {
    undo: usize,
    changes: usize,
    staged: usize,
    extensions: usize,
    heap: HeapSavepoint,
    cache: Option<CacheSavepoint>,
}

/// A page as a search sees it.
#[derive(Clone, Copy)]
pub(super) struct View {
    pub(super) page: u64,
    /// Offset of its bytes: the page itself, or its frame.
    pub(super) base: u64,
    pub(super) level: u8,
    pub(super) count: usize,
    source: Source,
    /// Place of the page's cache entry, if it has one.
    outline: Option<usize>,
}

impl View {
    /// Whether the group has changed the page.
    pub(super) fn is_changed(&self) -> bool {
        matches!(self.source, Source::Changed(_))
    }
}

#[derive(Clone, Copy)]
enum Source {
    Changed(usize),
    Place(usize),
}

/// The pages of one partition.
pub struct SlottedPages<M: Memory> {
    /// The pool; or the frames of the cache.
    pub arena: Arena<M>,
    /// The cache between these frames and durable memory, if pages are not changed in place.
    pub(super) cache: Option<Box<CachedPages>>,
    pub(super) geometry: Geometry,
    pub(super) seal: Seal,
    log: HeaderLog,
    /// The block with master and log.
    block: u64,
    kind: CommitKind,
    /// Whether nothing may be flushed.
    is_read_only: bool,
    /// State of the page at each multiple of the size, rounded down to a power of two.
    states: Vec<u32>,
    shift: u32,
    #[expect(
        clippy::vec_box,
        reason = "a header is read into its place, which goes to and fro"
    )]
    changed: Vec<Box<Changed>>,
    /// Room for more of them.
    #[expect(clippy::vec_box, reason = "as above")]
    spare: Vec<Box<Changed>>,
    undo: Vec<Undo>,
    before: Vec<Header>,
    operation: u64,
    pub(super) roots: Vec<Root>,
    /// Changes of the heap's words, in their order.
    changes: Vec<WordChange>,
    /// The same changes as a commit makes them: one for each word, the master's included.
    merged: Vec<WordChange>,
    /// Ranges that are stored and not flushed.
    staged: Vec<(u64, usize)>,
    extensions: Vec<Extension>,
    /// Whether the changes of the last record are flushed in place, and no fence has waited for
    /// that.
    is_applying: bool,
    /// Whether headers were flushed when they were read first, and no fence has waited for that.
    has_found: bool,
    lines_in_a_row: u32,
    classes: [Option<ClassId>; 2],
    /// A cell in the making.
    pub(super) cell: Vec<u8>,
    /// A part of a long value in the making.
    pub(super) part: Vec<u8>,
    /// Blocks that snapshots show, and headers.
    pub(super) limbo: Limbo,
    pub(super) versions: Arc<Versions>,
    rooms: Rooms,
    key_cache: KeyCache,
}

impl<M: Memory> SlottedPages<M> {
    /// Makes the master block of an empty pool, whose offset comes back with the pages; durable
    /// when it returns. Records move on through `rotation_bytes`, or lie in one place with 0.
    pub fn create(
        mut arena: Arena<M>,
        salt: u32,
        (geometry, kind): (Geometry, CommitKind),
        rotation_bytes: u64,
    ) -> Result<(Self, u64)> {
        let block = log_block(&mut arena, BLOCK_BYTES)?;
        let slots = if rotation_bytes == 0 {
            None
        } else {
            Some(RecordSlots::make(&mut arena, rotation_bytes, salt)?)
        };
        // No root, and no record.
        arena.store(block, &[0; 2 * LINE as usize])?;
        let slots_block = slots.as_ref().map_or(0, RecordSlots::block);
        arena.store_word(block + 8, slots_block)?;
        arena.flush(block, 2 * LINE as usize, site!("slotted.create-master"))?;
        // commit point: master and log are there and empty, so the pool may lead to them
        arena.fence(site!("slotted.create-fence"))?;
        arena.settle(Outcome::Committed);
        let mut pages = Self::new(arena, block, salt, geometry, kind);
        if let Some(slots) = slots {
            pages.log.move_through(slots);
        }
        Ok((pages, block))
    }

    /// Opens the pages with their master at `block`, and redoes the last record. Says whether a
    /// prepared transaction was undone.
    pub fn open(
        arena: Arena<M>,
        block: u64,
        salt: u32,
        geometry: Geometry,
        kind: CommitKind,
        decide: &dyn Fn(GlobalTxnId) -> bool,
    ) -> Result<(Self, bool)> {
        let mut pages = Self::new(arena, block, salt, geometry, kind);
        pages.log.find_slots(&pages.arena)?;
        let undone = pages
            .log
            .recover(&mut pages.arena, (pages.seal, geometry), decide)?;
        pages.is_applying = true;
        pages.read_directory()?;
        Ok((pages, undone))
    }

    /// As [`SlottedPages::open`] where nothing is left to do; `None` where recovery would have to
    /// store something. Stores and flushes nothing, also later.
    pub fn open_read_only(
        arena: Arena<M>,
        block: u64,
        salt: u32,
        geometry: Geometry,
        decide: &dyn Fn(GlobalTxnId) -> bool,
    ) -> Result<Option<Self>> {
        let mut pages = Self::new(arena, block, salt, geometry, CommitKind::Record);
        pages.is_read_only = true;
        pages.log.find_slots(&pages.arena)?;
        if !pages
            .log
            .is_done(&pages.arena, (pages.seal, geometry), decide)?
        {
            return Ok(None);
        }
        pages.read_directory()?;
        Ok(Some(pages))
    }

    fn new(arena: Arena<M>, block: u64, salt: u32, geometry: Geometry, kind: CommitKind) -> Self {
        Self {
            arena,
            cache: None,
            geometry,
            seal: Seal::new(salt),
            log: HeaderLog::new(block, salt),
            block,
            kind,
            is_read_only: false,
            states: Vec::new(),
            shift: geometry.page_bytes.ilog2(),
            changed: Vec::new(),
            spare: Vec::new(),
            undo: Vec::new(),
            before: Vec::new(),
            operation: 1,
            roots: vec![Root::default()],
            changes: Vec::new(),
            merged: Vec::new(),
            staged: Vec::new(),
            extensions: Vec::new(),
            is_applying: false,
            has_found: false,
            lines_in_a_row: 0,
            classes: [None; 2],
            cell: Vec::new(),
            part: Vec::new(),
            limbo: Limbo::default(),
            versions: Arc::default(),
            rooms: Rooms::default(),
            key_cache: KeyCache::new(geometry.page_bytes, 0),
        }
    }

    fn read_directory(&mut self) -> Result<()> {
        let root = self.arena.word(self.block)?;
        self.roots[0] = Root {
            now: root,
            written: root,
        };
        Ok(())
    }

    /// The blocks with master and log.
    pub fn own_blocks(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.block).chain(self.log.slots_block())
    }

    /// Writes of the log's most written line since it was opened, if records come around often.
    pub fn line_writes(&self) -> f64 {
        self.log.line_writes()
    }

    pub(super) fn set_root(&mut self, tree: usize, root: Root) {
        let before = std::mem::replace(&mut self.roots[tree], root);
        self.undo.push(Undo::Root(tree, before));
    }

    /// State of a page; it is unknown where nothing was read or changed.
    #[inline]
    fn state(&self, page: u64) -> u32 {
        let state = self.states.get((page >> self.shift) as usize);
        state.copied().unwrap_or(UNKNOWN)
    }

    fn set_state(&mut self, page: u64, state: u32) {
        let index = (page >> self.shift) as usize;
        if index >= self.states.len() {
            let pages = (self.arena.pool_bytes() >> self.shift) as usize + 1;
            self.states.resize(pages.max(index + 1), UNKNOWN);
        }
        self.states[index] = state;
        if state == UNKNOWN {
            self.key_cache.forget(page);
        }
    }

    /// The page, as the open transaction sees it.
    #[inline]
    pub(super) fn view(&mut self, page: u64) -> Result<View> {
        let base = self.base(page)?;
        let mut state = self.state(page);
        if state == UNKNOWN {
            self.learn(page, base)?;
            state = self.state(page);
        }
        if state >= CHANGED {
            let number = (state - CHANGED) as usize;
            let changed = &self.changed[number];
            if changed.page != page {
                return Err(damaged(page, "no page begins there"));
            }
            let level = changed.header.level();
            return Ok(View {
                page,
                base,
                level,
                count: changed.header.count(),
                source: Source::Changed(number),
                outline: self.key_cache.place_of(page, level),
            });
        }
        let (place, kind) = at_place(state);
        let outline = self.key_cache.place_of(page, kind);
        let found = outline.and_then(|place| self.key_cache.at(place, kind));
        let (level, count) = if let Some(outline) = found {
            (outline.level(), outline.count())
        } else {
            let line = base + line_at(place, 0) as u64;
            header::level_and_count(self.arena.bytes(line, LINE as usize)?, page)?
        };
        Ok(View {
            page,
            base,
            level,
            count,
            source: Source::Place(place),
            outline,
        })
    }

    /// Offset of the bytes of a page, which are read from the file if they are in no frame.
    #[inline]
    pub(super) fn base(&mut self, page: u64) -> Result<u64> {
        let Some(cache) = &mut self.cache else {
            return Ok(page);
        };
        if let Some(frame) = cache.frame(page) {
            return Ok(frame);
        }
        let frame = cache.load(&mut self.arena, page)?;
        self.set_state(page, UNKNOWN);
        Ok(frame)
    }

    /// The page again, after others were read: it may be in another frame by then.
    #[inline]
    pub(super) fn again(&mut self, view: &View) -> Result<View> {
        if self.cache.is_none() {
            return Ok(*view);
        }
        self.view(view.page)
    }

    /// Reads a page's header for the first time.
    #[cold]
    fn learn(&mut self, page: u64, base: u64) -> Result<()> {
        if !page.is_multiple_of(LINE) {
            return Err(damaged(page, "no page begins there"));
        }
        // Only that the page lies in the pool.
        self.arena.window(base, self.geometry.page_bytes)?;
        let (seal, geometry) = (self.seal.at(page, base), self.geometry);
        let sequence = header::sequence_in_force(&self.arena, seal, base)?;
        let header = header::read(&self.arena, seal, geometry, base, sequence, true)?;
        let place = place_of(sequence);
        if !self.is_read_only && self.cache.is_none() {
            for line in 0..lines_of(header.count()) {
                let at = page + line_at(place, line) as u64;
                self.arena
                    .flush(at, LINE as usize, site!("slotted.found-header"))?;
            }
            self.has_found = true;
        }
        self.set_state(page, at_rest(place, header.level()));
        Ok(())
    }

    /// Offset of a cell.
    #[inline]
    fn cell_at(&self, view: &View, index: usize) -> Result<u64> {
        let slot = match view.source {
            Source::Changed(number) => self.changed[number].header.used().get(index).copied(),
            Source::Place(place) => {
                let at = view.base + header::slot_at(place, index) as u64;
                self.arena.bytes(at, 1)?.first().copied()
            }
        };
        let slot = usize::from(slot.unwrap_or(u8::MAX));
        if slot >= self.geometry.units || index >= view.count {
            return Err(damaged(view.page, "its header names a cell outside of it"));
        }
        Ok(view.base + (slot * self.geometry.unit) as u64)
    }

    /// A cell of a page.
    #[inline]
    pub(super) fn cell(&self, view: &View, index: usize) -> Result<Cell> {
        let at = self.cell_at(view, index)?;
        Cell::open(&self.arena, at, view.base + self.geometry.page_bytes as u64)
    }

    /// The key of a cell, of `words` words.
    #[inline]
    pub(super) fn key(&self, view: &View, index: usize, words: usize) -> Result<&[u64]> {
        let at = self.cell_at(view, index)?;
        Ok(self.arena.slice(at + 8, words)?)
    }

    /// The keys of a page, to search among them.
    #[inline]
    pub(super) fn keys(&self, view: &View) -> Result<Keys<'_, M>> {
        let slots = match view.source {
            Source::Changed(number) => Slots::Changed(self.changed[number].header.used()),
            Source::Place(place) => Slots::Place(place),
        };
        Ok(Keys {
            window: self.arena.window(view.base, self.geometry.page_bytes)?,
            slots,
            unit: self.geometry.unit,
        })
    }

    /// Asks for what a search in a page of this level begins with.
    #[inline]
    pub(super) fn prefetch_page(&self, page: u64, level: u8) {
        if self.cache.is_some() {
            return;
        }
        self.key_cache.prefetch(page, level);
        let place = match self.state(page) {
            UNKNOWN => 0,
            state if state >= CHANGED => return,
            state => at_place(state).0,
        };
        self.arena
            .prefetch(page.wrapping_add(line_at(place, 0) as u64), 1);
    }

    /// Asks for the lines that a change of a page stores to, as the search in it goes on: those of
    /// the header's other place, and the room below its cells.
    #[inline]
    pub(super) fn prefetch_change(&self, view: &View) {
        let Source::Place(place) = view.source else {
            return;
        };
        if self.cache.is_some() {
            return;
        }
        let other = view.base + line_at(1 - place, 0) as u64;
        self.arena.prefetch(other, LINE as usize);
        let start = match self.outline_of(view) {
            Some(outline) => outline.start(),
            None => header::start(&self.arena, view.base, place),
        };
        let room = start * self.geometry.unit;
        // The cell is not made yet; most are as long as the one before.
        let bytes = (self.cell.len() + LINE as usize).min(ROOM_BYTES_MAX);
        let room = room.saturating_sub(bytes);
        self.arena.prefetch(view.base + room as u64, bytes);
        self.rooms.prefetch(view.page >> self.shift);
    }

    /// Makes the page one that the group changes; gives its number among those.
    pub(super) fn own(&mut self, page: u64) -> Result<usize> {
        let view = self.view(page)?;
        let place = match view.source {
            Source::Changed(number) => return Ok(number),
            Source::Place(place) => place,
        };
        let base = view.base;
        let word = header::word(&self.arena, base, place)?;
        let (seal, geometry) = (self.seal.at(page, base), self.geometry);
        let sequence = seal.sequence(base, word);
        let sequence = sequence.ok_or_else(|| damaged(page, "its header has a wrong word"))?;
        if let Some(cache) = &mut self.cache {
            cache.keep(&self.arena, page)?;
        }
        let mut changed = self.spare_changed();
        header::read_into(
            &mut changed.header,
            &self.arena,
            (seal, geometry),
            base,
            sequence,
        )?;
        changed.held = self.rooms.get(page, page >> self.shift);
        changed.is_new = false;
        Ok(self.add_changed((page, base), changed))
    }

    fn spare_changed(&mut self) -> Box<Changed> {
        self.spare.pop().unwrap_or_else(|| {
            Box::new(Changed {
                page: 0,
                base: 0,
                header: Header::nothing(),
                is_new: false,
                is_dropped: false,
                saved: 0,
                lines: 0,
                held: None,
            })
        })
    }

    fn add_changed(&mut self, (page, base): (u64, u64), mut changed: Box<Changed>) -> usize {
        let number = self.changed.len();
        (changed.page, changed.base, changed.is_dropped) = (page, base, false);
        changed.saved = self.operation;
        changed.lines = lines_of(changed.header.count());
        self.changed.push(changed);
        self.set_state(page, CHANGED + number as u32);
        self.undo.push(Undo::Changed);
        number
    }

    /// Whether a group that changes one page may commit by a line.
    pub(super) fn commits_by_lines(&self) -> bool {
        self.kind != CommitKind::Record
    }

    /// A changed page.
    pub(super) fn changed(&self, number: usize) -> &Changed {
        &self.changed[number]
    }

    /// The header of a changed page, to change it; what its cells take is unknown then. Its cache
    /// entry has to follow.
    fn edit(&mut self, number: usize) -> &mut Header {
        let changed = &mut self.changed[number];
        changed.held = None;
        if changed.saved != self.operation {
            changed.saved = self.operation;
            self.before.push(changed.header);
            self.undo.push(Undo::Header(number));
        }
        &mut changed.header
    }

    /// A new page of a level, which belongs to `part`; gives its number among the changed ones.
    pub(super) fn create_page(&mut self, level: u8, part: Part) -> Result<usize> {
        let page = self.allocate(part)?;
        let base = self.base(page)?;
        let seal = self.seal.at(page, base);
        let mut header = Header::new(level, self.geometry);
        // The sequence goes on from the number found there, so that no old header counts again.
        let numbers = [0, 1].map(|place| {
            let word = header::word(&self.arena, base, place).ok()?;
            seal.sequence(base, word)
        });
        header.sequence = match numbers {
            [Some(first), Some(second)] if after(first) == second => second,
            [Some(first), Some(second)] if after(second) == first => first,
            [first, second] => first.or(second).unwrap_or(0),
        };
        self.key_cache.begin(page, level, self.arena.pool_bytes());
        let mut changed = self.spare_changed();
        (changed.header, changed.held, changed.is_new) = (header, Some(Held::default()), true);
        Ok(self.add_changed((page, base), changed))
    }

    /// A block of a page.
    pub(super) fn allocate(&mut self, part: Part) -> Result<u64> {
        let _allocation = probe::begin(Activity::Allocation);
        if let Some(cache) = &mut self.cache {
            return cache.allocate(&mut self.arena);
        }
        let owner = Owner { part, tag: 0 };
        let bytes = self.geometry.page_bytes;
        let known = usize::from(part == Part::Table);
        let class = match self.classes[known] {
            Some(class) => class,
            None => *self.classes[known].insert(self.arena.class(bytes, owner)?),
        };
        let page = self.arena.reserve_class(class)?;
        let change = self.arena.activate(page)?;
        self.changes.push(change);
        Ok(page)
    }

    /// A block for a part of a long value, which is a page or less.
    pub(super) fn allocate_part(&mut self, bytes: usize) -> Result<u64> {
        let lines = bytes.next_multiple_of(LINE as usize);
        if self.cache.is_some() || lines > self.geometry.page_bytes / 2 {
            return self.allocate(Part::Table);
        }
        let _allocation = probe::begin(Activity::Allocation);
        let owner = Owner {
            part: Part::Table,
            tag: 0,
        };
        let block = self.arena.reserve(lines, owner)?;
        let change = self.arena.activate(block)?;
        self.changes.push(change);
        Ok(block)
    }

    /// Gives a block up.
    pub(super) fn free(&mut self, page: u64) -> Result<()> {
        let _allocation = probe::begin(Activity::Allocation);
        if let Some(cache) = &mut self.cache {
            cache.free(page);
            return Ok(());
        }
        let change = self.arena.free(page)?;
        self.changes.push(change);
        Ok(())
    }

    /// Takes a page out of its tree.
    pub(super) fn discard(&mut self, page: u64) -> Result<()> {
        self.free(page)?;
        let state = self.state(page);
        if state >= CHANGED {
            let number = (state - CHANGED) as usize;
            self.changed[number].is_dropped = true;
            self.undo.push(Undo::Dropped(number));
        }
        Ok(())
    }

    /// Stores bytes that nothing names yet; the commit flushes them.
    pub(super) fn stage(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        self.arena.store(at, bytes)?;
        self.staged.push((at, bytes.len()));
        Ok(())
    }

    /// Writes a part of a long value into its block, which has room for whole lines. A staged cell
    /// points there, so the commit fences after both.
    pub(super) fn write_part(&mut self, at: u64, image: &mut Vec<u8>) -> Result<()> {
        if self.cache.is_some() || image.len() < STREAMED_BYTES_MIN {
            return self.stage(at, image);
        }
        image.resize(image.len().next_multiple_of(LINE as usize), 0);
        self.arena.enter(Part::Table);
        Ok(self.arena.write_through(at, image, site!("slotted.long"))?)
    }

    /// Begins an operation; returns a savepoint of the open transaction.
    pub(super) fn begin_operation(&mut self) -> SlottedSavepoint {
        self.operation += 1;
        SlottedSavepoint {
            undo: self.undo.len(),
            changes: self.changes.len(),
            staged: self.staged.len(),
            extensions: self.extensions.len(),
            heap: self.arena.heap_savepoint(),
            cache: self.cache.as_ref().map(|cache| cache.savepoint()),
        }
    }

    pub(super) fn take_back(&mut self, savepoint: SlottedSavepoint) -> Result<()> {
        while self.undo.len() > savepoint.undo {
            match self.undo.pop() {
                Some(Undo::Header(number)) => {
                    if let Some(header) = self.before.pop() {
                        let changed = &mut self.changed[number];
                        (changed.header, changed.held) = (header, None);
                        self.key_cache.forget(changed.page);
                    }
                }
                Some(Undo::Changed) => {
                    if let Some(changed) = self.changed.pop() {
                        let place = place_of(changed.header.sequence);
                        let state = if changed.is_new {
                            UNKNOWN
                        } else {
                            at_rest(place, changed.header.level())
                        };
                        self.key_cache.forget(changed.page);
                        self.set_state(changed.page, state);
                        self.spare.push(changed);
                    }
                }
                Some(Undo::Dropped(number)) => self.changed[number].is_dropped = false,
                Some(Undo::Root(tree, before)) => {
                    if let Some(root) = self.roots.get_mut(tree) {
                        *root = before;
                    }
                }
                None => break,
            }
        }
        self.changes.truncate(savepoint.changes);
        self.staged.truncate(savepoint.staged);
        self.extensions.truncate(savepoint.extensions);
        self.operation += 1;
        match (&mut self.cache, savepoint.cache) {
            (Some(cache), Some(savepoint)) => cache.rollback(&mut self.arena, savepoint)?,
            _ => self.arena.heap_rollback(savepoint.heap),
        }
        Ok(())
    }

    /// Makes sure that the log has room for the group.
    pub(super) fn ensure_room(&mut self) -> Result<()> {
        if let Some(cache) = &mut self.cache {
            return cache.ensure_room();
        }
        let words = self.changes.len() + 1;
        let bytes =
            self.changed.len() * HEADER_ENTRY_BYTES + words * WORD_ENTRY_BYTES + LINE as usize;
        let extended: usize = self.extensions.iter().map(|&(_, bytes)| bytes).sum();
        let mut room = BODY_BYTES + extended;
        while room < bytes && self.extensions.len() < EXTENSIONS_MAX {
            let bytes = EXTENSION_BYTES << self.extensions.len();
            let owner = Owner {
                part: Part::Other,
                tag: 0,
            };
            let block = self.arena.reserve(bytes, owner)?;
            self.extensions.push((block, bytes));
            room += bytes;
        }
        Ok(())
    }

    pub(super) fn has_changes(&self) -> bool {
        !self.undo.is_empty()
    }

    /// Bytes of DRAM that the open transaction and its group hold.
    pub(super) fn held_bytes(&self) -> usize {
        let pages = match &self.cache {
            None => 0,
            Some(cache) => cache.changed_bytes(),
        };
        pages
            + self.undo.len() * size_of::<Undo>()
            + self.before.len() * size_of::<Header>()
            + self.changed.len() * (size_of::<Changed>() + size_of::<Box<Changed>>())
            + self.changes.len() * size_of::<WordChange>()
            + self.staged.len() * size_of::<(u64, usize)>()
            + self.arena.transaction_bytes()
    }

    pub(super) fn join_group(&mut self) {
        clear(&mut self.undo);
        clear(&mut self.before);
        self.operation += 1;
    }

    pub(super) fn has_dirty(&self) -> bool {
        match &self.cache {
            None => !self.changed.is_empty() || !self.changes.is_empty(),
            Some(cache) => cache.has_changes(self.roots[0].now),
        }
    }

    pub(super) fn changed_bytes(&self) -> usize {
        match &self.cache {
            None => self.changed.len() * self.geometry.page_bytes,
            Some(cache) => cache.changed_bytes(),
        }
    }

    /// Lets go of what only snapshots that have ended have shown.
    #[inline]
    pub(super) fn release_shown(&mut self) {
        let arena = &mut self.arena;
        if self.limbo.reclaim(&mut |at| arena.release_held(at)) {
            self.versions.lock().retain(self.limbo.live());
        }
    }
}
