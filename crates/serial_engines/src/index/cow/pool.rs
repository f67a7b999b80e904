//! Pages in durable memory: blocks of a pool, published together by the master record.
//!
//! Blocks of pages and tuples are reserved and freed through the heap at once, but the changes of
//! its bitmap words are only collected; the group's record carries them. Pages are copied to their
//! new places at once, changed there, and flushed when the group is written, so that pages that
//! every group changes stay in the processor's cache. Tuples are stored when they are made and
//! flushed with the group, each line once, so that any thread that ends the group makes all of it
//! durable.
//!
//! A page is one line shorter than requested if then one more page fits into a chunk of the heap.

use super::limbo::Limbo;
use super::node::PageView;
use super::snapshot::{PoolPages, SnapshotStore};
use super::{Frames, Lent, PageStore, Purpose, SMALL_PAGE_BYTES};
use pmem::{
    Arena, BLOCK_BYTES_MAX, ClassId, HeapSavepoint, Memory, Outcome, Owner, Part, WordChange, site,
};
use std::iter;
use storage::engine::GlobalTxnId;
use storage::log::nv_master::{KEPT_PAGES, MASTER_BYTES, MasterState, NvMaster, PIECES};
use storage::log::{WriteSet, clear};
use storage::{Result, StorageError};

/// Changes of bitmap words that a group makes when it is written, besides those of its operations.
const LATE_CHANGES: usize = 2 * KEPT_PAGES + 2 * PIECES;
const LINE: u64 = 64;

/// Changes that the open group has collected: a write set for tuples.
#[derive(Debug, Default)]
pub struct GroupWrites {
    changes: Vec<WordChange>,
    /// Ranges that are stored and not flushed.
    staged: Vec<(u64, usize)>,
}

impl<M: Memory> WriteSet<M> for GroupWrites {
    fn write(&mut self, _arena: &mut Arena<M>, _offset: u64, _bytes: &[u8]) -> Result<()> {
        let text = "nothing that is published changes in place here".to_owned();
        Err(StorageError::Unsupported(text))
    }

    fn change(&mut self, _arena: &mut Arena<M>, change: WordChange) -> Result<()> {
        self.changes.push(change);
        Ok(())
    }

    fn stage(&mut self, arena: &mut Arena<M>, offset: u64, bytes: &[u8]) -> Result<()> {
        arena.store(offset, bytes)?;
        self.staged.push((offset, bytes.len()));
        Ok(())
    }

    fn overwrites(&self, _bytes: usize) -> bool {
        false
    }

    fn touch(&mut self, _offset: u64) {}

    fn visible(&mut self, _arena: &mut Arena<M>, _offset: u64) -> Result<()> {
        Ok(())
    }

    fn visible_all(&mut self, _arena: &mut Arena<M>) -> Result<()> {
        Ok(())
    }

    fn retire(&mut self, _word: u64, _bits: u64) {}

    fn retired(&self, _word: u64) -> u64 {
        0
    }
}

/// The record of a group has one entry for a word, however many blocks of it change.
#[derive(Clone, Copy, Default)]
struct Counted {
    changes: usize,
    words: usize,
}

/// A savepoint of a transaction.
#[derive(Clone, Copy)]
pub struct PoolSavepoint {
    changes: usize,
    staged: usize,
    heap: HeapSavepoint,
    state: MasterState,
}

/// The pages of one partition of `nvm-cow`.
pub struct PoolStore<M: Memory> {
    /// The pool.
    pub arena: Arena<M>,
    /// Changes that the group has collected.
    pub writes: GroupWrites,
    master: NvMaster,
    /// The state in force.
    base: MasterState,
    page_bytes: usize,
    /// A page on its way to another place.
    copied: Vec<u8>,
    class: Option<ClassId>,
    /// Changes of the group, one a word.
    merged: Vec<WordChange>,
    /// Number of words that some first changes of the group are in, as far as it was counted.
    counted: Counted,
    /// Lines of those words.
    lines: Vec<u64>,
    /// Index in `merged` of a word's change, plus one, while they are gathered.
    cells: Vec<u32>,
    limbo: Limbo,
}

impl<M: Memory> PoolStore<M> {
    /// Makes the master block of an empty pool, whose offset comes back with the store; durable
    /// when it returns.
    pub fn create(mut arena: Arena<M>, salt: u32, page_bytes: usize) -> Result<(Self, u64)> {
        let page_bytes = packed(page_bytes);
        let base = arena.reserve(MASTER_BYTES, MASTER_OWNER)?;
        let mut state = MasterState::default();
        for kept in &mut state.kept {
            *kept = arena.reserve(page_bytes, OWNER)?;
        }
        for block in iter::once(base).chain(state.kept) {
            let change = arena.activate(block)?;
            let word = arena.word(change.offset)?;
            arena.store_word(change.offset, change.apply(word))?;
            arena.flush(change.offset, 8, site!("nvm-cow.create-block"))?;
        }
        let master = NvMaster::create(&mut arena, base, salt, state)?;
        arena.settle(Outcome::Committed);
        Ok((Self::new(arena, master, page_bytes), base))
    }

    /// Opens the master block at `base` and brings the heap's words up to its record. Gives the
    /// store, the root of the directory, and whether a prepared transaction was undone.
    pub fn open(
        mut arena: Arena<M>,
        base: u64,
        salt: u32,
        page_bytes: usize,
        decide: &dyn Fn(GlobalTxnId) -> bool,
    ) -> Result<(Self, bool)> {
        let (mut master, mut record) = NvMaster::open(&arena, base, salt)?;
        // After the death of a process the word that was read need not be durable. The one before
        // it would bring the other record back, whose place the next group takes, and bitmap words
        // without the changes that are made below. The record that the word names is durable: it
        // was fenced before the word changed.
        arena.flush(base, 8, site!("nvm-cow.found-word"))?;
        arena.fence(site!("nvm-cow.found-word-fence"))?;
        let mut undone = false;
        if let Some((global, next)) = record.prepared.take() {
            if decide(GlobalTxnId(global)) {
                master.state = next;
            } else {
                record.changes.clear();
                undone = true;
            }
            let state = master.state;
            master.write(&mut arena, &state, None, &record.changes)?;
            arena.fence(site!("nvm-cow.decided-fence"))?;
            master.swing(&mut arena)?;
        }
        // Changes that are in place already are flushed as well. The first fence of the next group
        // waits for all of them, as after a group.
        for change in &record.changes {
            let word = arena.word(change.offset)?;
            if change.apply(word) != word {
                arena.store_word(change.offset, change.apply(word))?;
            }
            arena.flush(change.offset, 8, site!("nvm-cow.replay"))?;
        }
        Ok((Self::new(arena, master, packed(page_bytes)), undone))
    }

    /// As [`PoolStore::open`] where nothing is left to do; `None` where recovery would have to
    /// store something. Stores and flushes nothing itself.
    pub fn open_read_only(
        arena: Arena<M>,
        base: u64,
        salt: u32,
        page_bytes: usize,
    ) -> Result<Option<Self>> {
        let (master, record) = NvMaster::open(&arena, base, salt)?;
        let mut is_done = record.prepared.is_none();
        for change in &record.changes {
            let word = arena.word(change.offset)?;
            is_done &= change.apply(word) == word;
        }
        Ok(is_done.then(|| Self::new(arena, master, packed(page_bytes))))
    }

    fn new(arena: Arena<M>, master: NvMaster, page_bytes: usize) -> Self {
        let base = master.state;
        Self {
            arena,
            writes: GroupWrites::default(),
            master,
            base,
            page_bytes,
            copied: Vec::new(),
            class: None,
            merged: Vec::new(),
            counted: Counted::default(),
            lines: Vec::new(),
            cells: Vec::new(),
            limbo: Limbo::default(),
        }
    }

    /// The pages as they are now, for a reader concurrent with the partition. The last group must
    /// be durable and nothing dirty.
    pub fn snapshot(&mut self) -> Result<SnapshotStore> {
        let pages = PoolPages(self.arena.view()?);
        let lease = self.limbo.take();
        Ok(SnapshotStore::new(pages, self.page_bytes, lease))
    }

    /// Root of the directory that is in force.
    pub fn directory(&self) -> u64 {
        self.base.directory
    }

    /// The blocks that belong to the store itself, but for the master block.
    pub fn own_blocks(&self) -> impl Iterator<Item = u64> {
        self.base.blocks()
    }

    /// A block of a page, from the heap.
    fn allocate(&mut self) -> Result<u64> {
        let at = if let Some(class) = self.class {
            self.arena.reserve_class(class)?
        } else {
            if self.page_bytes <= BLOCK_BYTES_MAX {
                self.class = Some(self.arena.class(self.page_bytes, OWNER)?);
            }
            self.arena.reserve(self.page_bytes, OWNER)?
        };
        let change = self.arena.activate(at)?;
        self.writes.changes.push(change);
        Ok(at)
    }

    /// Fills the reserve for deletions, as far as there is space: pages to copy, and room in both
    /// records for a change of each bitmap word, so that a table of any size can be dropped.
    fn refill(&mut self) {
        let words = self.arena.block_words();
        let mut more = Vec::new();
        // If there is no room now, there may be next time.
        let _full = self
            .master
            .ensure_room(&mut self.arena, 2, words, &mut more);
        self.writes.changes.append(&mut more);
        for index in 0..KEPT_PAGES {
            if self.master.state.kept[index] == 0 {
                match self.allocate() {
                    Ok(page) => self.master.state.kept[index] = page,
                    Err(_) => return,
                }
            }
        }
    }

    /// Makes sure that the next `records` records have room for the group. Counting its words takes
    /// as long as the group is, so that is left until the room of its changes is not to be had.
    fn make_room(&mut self, records: u64) -> Result<()> {
        let result = self.ensure_room(records);
        if result.is_err() {
            self.merge_changes();
            self.counted = Counted {
                changes: self.writes.changes.len(),
                words: self.merged.len(),
            };
            return self.ensure_room(records);
        }
        result
    }

    fn ensure_room(&mut self, records: u64) -> Result<()> {
        let Counted { changes, words } = self.counted;
        let most = words + (self.writes.changes.len() - changes) + LATE_CHANGES;
        let mut more = Vec::new();
        let result = self
            .master
            .ensure_room(&mut self.arena, records, most, &mut more);
        self.writes.changes.append(&mut more);
        result
    }

    /// Gathers one change a word, and the lines of the words, in a table that words of one line
    /// enter at the same cell.
    fn merge_changes(&mut self) {
        let bits = (2 * self.writes.changes.len()).max(2).ilog2() + 1;
        let mask = (1 << bits) - 1;
        self.merged.clear();
        self.lines.clear();
        self.cells.clear();
        self.cells.resize(1 << bits, 0);
        for change in &self.writes.changes {
            let line = change.offset / LINE;
            let mut cell = (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize;
            let mut is_new_line = true;
            let known = loop {
                let Some(number) = self.cells[cell].checked_sub(1) else {
                    break None;
                };
                let offset = self.merged[number as usize].offset;
                if offset == change.offset {
                    break Some(&mut self.merged[number as usize]);
                }
                is_new_line &= offset / LINE != line;
                cell = (cell + 1) & mask;
            };
            if let Some(first) = known {
                first.set = first.set & !change.clear | change.set;
                first.clear |= change.clear;
                continue;
            }
            self.merged.push(*change);
            self.cells[cell] = self.merged.len() as u32;
            if is_new_line {
                // Its words change once the group is durable: the miss is over by then.
                self.arena.prefetch(line * LINE, LINE as usize);
                self.lines.push(line * LINE);
            }
        }
    }

    /// Starts the write-back of all tuples of the group, each line once.
    fn flush_staged(&mut self) -> Result<()> {
        self.arena.enter(Part::Table);
        self.writes.staged.sort_unstable();
        let mut flushed = 0;
        for &(offset, bytes) in &self.writes.staged {
            let first = (offset / LINE * LINE).max(flushed);
            let end = (offset + bytes as u64).next_multiple_of(LINE);
            if end > first {
                let bytes = (end - first) as usize;
                self.arena.flush(first, bytes, site!("nvm-cow.tuples"))?;
                flushed = end;
            }
        }
        clear(&mut self.writes.staged);
        Ok(())
    }

    /// Makes the changes of bitmap words in place; the next group's first fence makes them durable.
    fn apply_changes(&mut self) -> Result<()> {
        self.arena.enter(Part::Other);
        for change in &self.merged {
            let word = self.arena.word(change.offset)?;
            self.arena.store_word(change.offset, change.apply(word))?;
        }
        for &line in &self.lines {
            let site = site!("nvm-cow.bitmap");
            self.arena.flush(line, LINE as usize, site)?;
        }
        clear(&mut self.merged);
        clear(&mut self.writes.changes);
        self.counted = Counted::default();
        clear(&mut self.cells);
        clear(&mut self.lines);
        self.limbo.settle(&mut self.arena);
        self.base = self.master.state;
        Ok(())
    }
}

const OWNER: Owner = Owner {
    part: Part::Index,
    tag: 0,
};

const MASTER_OWNER: Owner = Owner {
    part: Part::Log,
    tag: 0,
};

/// The page size that packs best into the heap's chunks.
fn packed(page_bytes: usize) -> usize {
    if (1024..=8192).contains(&page_bytes) {
        page_bytes - LINE as usize
    } else {
        page_bytes
    }
}

impl<M: Memory> PageStore for PoolStore<M> {
    type Memory = M;
    type Savepoint = PoolSavepoint;

    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn group(&self) -> u64 {
        self.master.sequence() + 1
    }

    #[inline]
    fn view<'a>(&'a mut self, _frames: &'a mut Frames<M>, at: u64) -> Result<PageView<'a, M>> {
        Ok(PageView::new(&self.arena, at))
    }

    #[inline]
    fn prefetch(&self, _frames: &Frames<M>, at: u64, byte: usize) {
        self.arena.prefetch(at.wrapping_add(byte as u64), 1);
    }

    #[inline]
    fn prefetch_block(&self, at: u64, bytes: usize) {
        self.arena.prefetch(at, bytes);
    }

    /// All of a small page, so that a search in it waits once.
    #[inline]
    fn prefetch_page(&self, _frames: &Frames<M>, at: u64) {
        let bytes = if self.page_bytes <= SMALL_PAGE_BYTES {
            self.page_bytes
        } else {
            1
        };
        self.arena.prefetch(at, bytes);
    }

    fn lend(&mut self, frames: &mut Frames<M>, from: u64, to: u64) -> Result<Lent> {
        let mut page = std::mem::take(&mut self.copied);
        page.clear();
        page.extend_from_slice(self.arena.bytes(from, self.page_bytes)?);
        let result = self.store(frames, to, 0, &page);
        self.copied = page;
        result?;
        Ok(Lent {
            frame: to,
            was_cached: false,
        })
    }

    fn frame(&mut self, _frames: &mut Frames<M>, to: u64) -> Result<u64> {
        Ok(to)
    }

    fn give(&mut self, _frames: &mut Frames<M>, _frame: u64) {}

    #[inline]
    fn dirty<'a>(&'a self, _frames: &'a Frames<M>, frame: u64) -> PageView<'a, M> {
        PageView::new(&self.arena, frame)
    }

    #[inline]
    fn prefetch_dirty(&self, _frames: &Frames<M>, frame: u64, byte: usize) {
        self.arena.prefetch(frame.wrapping_add(byte as u64), 1);
    }

    #[inline]
    fn store(
        &mut self,
        _frames: &mut Frames<M>,
        frame: u64,
        offset: usize,
        bytes: &[u8],
    ) -> Result<()> {
        self.arena.enter(Part::Index);
        Ok(self.arena.store(frame + offset as u64, bytes)?)
    }

    fn reserve(&mut self, purpose: Purpose) -> Result<u64> {
        match self.allocate() {
            Err(error) if error.is_out_of_space() && purpose == Purpose::Copy => {}
            result => return result,
        }
        let kept = self.master.state.kept.iter_mut().find(|page| **page != 0);
        match kept {
            Some(page) => Ok(std::mem::take(page)),
            None => self.allocate(),
        }
    }

    fn retire(&mut self, at: u64) -> Result<()> {
        let change = self.arena.free(at)?;
        self.writes.changes.push(change);
        Ok(())
    }

    fn end_operation(&mut self) -> Result<()> {
        self.make_room(1)
    }

    fn savepoint(&self) -> PoolSavepoint {
        PoolSavepoint {
            changes: self.writes.changes.len(),
            staged: self.writes.staged.len(),
            heap: self.arena.heap_savepoint(),
            state: self.master.state,
        }
    }

    fn rollback(&mut self, savepoint: PoolSavepoint) {
        self.writes.changes.truncate(savepoint.changes);
        self.counted.changes = self.counted.changes.min(savepoint.changes);
        self.counted.words = self.counted.words.min(savepoint.changes);
        self.writes.staged.truncate(savepoint.staged);
        if savepoint.changes == 0 {
            clear(&mut self.writes.changes);
            clear(&mut self.writes.staged);
        }
        self.master.state = savepoint.state;
        self.arena.heap_rollback(savepoint.heap);
    }

    fn held_bytes(&self, _dirty_pages: usize) -> usize {
        self.writes.changes.len() * size_of::<WordChange>()
            + self.writes.staged.len() * size_of::<(u64, usize)>()
            + self.arena.transaction_bytes()
    }

    #[inline]
    fn reclaim(&mut self) {
        let arena = &mut self.arena;
        self.limbo.reclaim(&mut |at| arena.release_held(at));
    }

    fn write(&mut self, _frames: &Frames<M>, frame: u64, _at: u64, _next: u64) -> Result<()> {
        self.arena.enter(Part::Index);
        let site = site!("nvm-cow.page");
        Ok(self.arena.flush(frame, self.page_bytes, site)?)
    }

    fn commit(&mut self, _frames: &mut Frames<M>, directory: u64) -> Result<()> {
        self.refill();
        self.master.state.directory = directory;
        self.merge_changes();
        self.flush_staged()?;
        let state = self.master.state;
        self.master
            .write(&mut self.arena, &state, None, &self.merged)?;
        self.arena.fence(site!("nvm-cow.group-fence"))?;
        self.master.swing(&mut self.arena)?;
        self.apply_changes()
    }

    fn prepare(&mut self, directory: u64, global: GlobalTxnId) -> Result<()> {
        self.make_room(2)?;
        self.master.state.directory = directory;
        self.merge_changes();
        self.flush_staged()?;
        let (base, state) = (self.base, self.master.state);
        let prepared = Some((global.0, &state));
        self.master
            .write(&mut self.arena, &base, prepared, &self.merged)?;
        self.arena.fence(site!("nvm-cow.prepare-fence"))?;
        self.master.swing(&mut self.arena)
    }

    fn resolve(&mut self, commit: bool) -> Result<()> {
        let state = if commit { self.master.state } else { self.base };
        let changes: &[WordChange] = if commit { &self.merged } else { &[] };
        self.master.write(&mut self.arena, &state, None, changes)?;
        self.arena.fence(site!("nvm-cow.resolve-fence"))?;
        self.master.swing(&mut self.arena)?;
        if commit {
            return self.apply_changes();
        }
        self.merged.clear();
        Ok(())
    }

    fn adopt(&mut self, _frames: &mut Frames<M>, _at: u64, _frame: u64) {}
}
