//! The pages of all trees of a partition: dirty ones in frames of the store, the others in their
//! places there.
//!
//! Everything that an operation does here is in the undo list of the open transaction: bytes of a
//! dirty page that changed, a page that became dirty or was dropped, the root of a tree. So a
//! transaction, or one of its statements, is undone without touching the changes of other
//! transactions of the group, even in the same pages.
//!
//! A page that the transaction has made dirty is dropped whole when the transaction is undone, so
//! its old bytes are needed only until the statement ends. Of any other page the list has the
//! changed bytes until they amount to a page, then the whole page, and again only the open
//! statement's bytes from there on. So a long transaction keeps at most two pages of old bytes for
//! a dirty page, however often it changes that.
//!
//! A dirty page was a committed one with a right checksum. Small changes are added to that checksum
//! (`Slot::growth`), so most pages are written without computing it anew; only new or much changed
//! pages need that.
//!
//! Invariants: a committed page is never stored to; a dirty page is referred to by dirty pages,
//! roots and the undo list only; a place belongs to one dirty page from its reservation on, so that
//! writing a group needs no space.

use super::node::{PageView, checksum, damaged, sum_of_change, word_of, words_to_settle};
use super::{DIRTY, Frames, Lent, PageStore, Purpose};
use storage::Result;
use storage::engine::GlobalTxnId;
use storage::log::clear;
use storage::record::checksum::delta_word;

/// A dirty page.
struct Slot {
    frame: u64,
    /// Place where it will be written.
    at: u64,
    state: SlotState,
    /// Place of the page that was cached in this frame before it became dirty, or 0.
    cached_at: u64,
    /// Change of the checksum since the one in the frame; `None` if that is not known.
    growth: Option<u64>,
    /// Bytes whose change is in `growth`.
    summed: usize,
    /// The part of it that the undo list has.
    kept: Kept,
}

/// The part of a page that the undo list has for the open transaction; nothing if the number is
/// that of an earlier one.
#[derive(Clone, Copy, Default)]
struct Kept {
    transaction: u64,
    /// Or [`WHOLE`].
    bytes: usize,
}

/// The undo list leads back to the beginning of the transaction without bytes of its later
/// statements.
const WHOLE: usize = usize::MAX;
/// Old bytes from which on those of ended statements are dropped: a short transaction does not look
/// for them.
const STATEMENT_BYTES: usize = 64 << 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum SlotState {
    Live,
    /// The open transaction has taken it out of its tree.
    Dropped,
    Vacant,
}

/// Conversion of dirty pages to their written form.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Settling {
    Final,
    /// In the undo list of the open transaction: it may be taken back, and its group goes on then.
    Undoable,
}

/// Old bytes of a dirty page.
#[derive(Clone, Copy)]
struct Before {
    number: u32,
    at: u32,
    bytes: u32,
    /// Their start in `before`.
    data: usize,
}

/// Undo of one step.
enum Undo {
    /// Bytes of a dirty page changed.
    Bytes(Before),
    /// The same, in a page of which the list has the whole: needed until the statement ends.
    StatementBytes(Before),
    /// A page became dirty.
    Fresh(usize),
    /// A dirty page left its tree.
    Dropped(usize),
    /// The root of a tree changed.
    Root { tree: usize, before: u64 },
    /// A tree's place in the directory was made ready.
    Touched(usize),
}

/// The root of a tree.
#[derive(Clone, Copy, Default)]
struct Root {
    now: u64,
    /// Root that the last group has written to the directory.
    written: u64,
    /// Whether the directory's entry lies in a dirty page.
    touched: bool,
}

/// A savepoint of the open transaction.
#[derive(Clone, Copy)]
pub struct PagesSavepoint<K> {
    undo: usize,
    store: K,
}

/// Number of the tree that holds the roots of the others.
pub(crate) const DIRECTORY: usize = 0;

/// The pages of one partition.
pub struct Pages<S: PageStore> {
    /// Storage of committed pages.
    pub store: S,
    frames: Frames<S::Memory>,
    slots: Vec<Slot>,
    vacant: Vec<usize>,
    roots: Vec<Root>,
    /// Trees whose place in the directory is ready.
    touched: Vec<usize>,
    undo: Vec<Undo>,
    before: Vec<u8>,
    /// Number of the open transaction, or of the next one.
    transaction: u64,
    /// The purpose of the open statement's copies.
    copies: Purpose,
    /// Places and slots of the dirty pages, while they are written.
    order: Vec<(u64, usize)>,
    /// Words that a page gets when it is written.
    settled: Vec<(usize, u64)>,
}

impl<S: PageStore> Pages<S> {
    /// The pages of a store whose directory has its root at `directory`; dirty ones will be in
    /// `memory`.
    pub fn new(store: S, memory: S::Memory, directory: u64) -> Result<Self> {
        let frames = Frames::new(memory, store.page_bytes())?;
        let root = Root {
            now: directory,
            written: directory,
            touched: false,
        };
        Ok(Self {
            store,
            frames,
            slots: Vec::new(),
            vacant: Vec::new(),
            roots: vec![root],
            touched: Vec::new(),
            undo: Vec::new(),
            before: Vec::new(),
            transaction: 1,
            copies: Purpose::Copy,
            order: Vec::new(),
            settled: Vec::new(),
        })
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.store.page_bytes()
    }

    /// Counts of the memory that holds the frames.
    pub fn frame_counters(&self) -> pmem::Counters {
        self.frames.counters()
    }

    /// Adds the root of a tree, which the directory has, or 0 for an empty one; gives the tree's
    /// number.
    pub fn add_root(&mut self, root: u64) -> usize {
        self.roots.push(Root {
            now: root,
            written: root,
            touched: false,
        });
        self.roots.len() - 1
    }

    /// Forgets all trees but the directory. Nothing may be dirty.
    pub fn forget_trees(&mut self) {
        self.roots.truncate(1);
    }

    #[inline]
    pub(super) fn root(&self, tree: usize) -> u64 {
        self.roots[tree].now
    }

    pub(super) fn set_root(&mut self, tree: usize, root: u64) {
        let before = std::mem::replace(&mut self.roots[tree].now, root);
        self.undo.push(Undo::Root { tree, before });
    }

    /// The root that the directory has for a tree.
    pub fn committed_root(&self, tree: usize) -> u64 {
        self.roots[tree].written
    }

    /// Whether the tree's entry in the directory will have to change and is not ready for it.
    pub fn wants_touch(&self, tree: usize) -> bool {
        let root = &self.roots[tree];
        root.now != root.written && !root.touched
    }

    /// Notes that the tree's entry in the directory lies in a dirty page.
    pub fn note_touched(&mut self, tree: usize) {
        self.roots[tree].touched = true;
        self.touched.push(tree);
        self.undo.push(Undo::Touched(tree));
    }

    /// Trees whose entries in the directory are ready, with the places that their roots will have.
    pub fn roots_to_write(&self) -> Vec<(usize, u64)> {
        let place = |&tree: &usize| (tree, self.place_of(self.roots[tree].now));
        self.touched.iter().map(place).collect()
    }

    /// The slot of a dirty page. A reference comes from a page, which may be damaged.
    #[inline]
    fn dirty_slot(&self, reference: u64) -> Result<&Slot> {
        let slot = self.slots.get((reference >> 2) as usize);
        slot.filter(|slot| slot.state != SlotState::Vacant)
            .ok_or_else(|| damaged(reference, "no dirty page has this number".to_owned()))
    }

    /// Place where the page of a reference is or will be.
    fn place_of(&self, reference: u64) -> u64 {
        if reference & DIRTY == 0 {
            return reference;
        }
        self.dirty_slot(reference).map_or(reference, |slot| slot.at)
    }

    /// The page that a reference leads to.
    #[inline]
    pub(super) fn view(&mut self, reference: u64) -> Result<PageView<'_, S::Memory>> {
        if reference & DIRTY == 0 {
            self.store.view(&mut self.frames, reference)
        } else {
            let frame = self.dirty_slot(reference)?.frame;
            Ok(self.store.dirty(&self.frames, frame))
        }
    }

    /// Asks for the line with a byte of a page.
    #[inline]
    pub(super) fn prefetch(&self, reference: u64, byte: usize) {
        if reference & DIRTY == 0 {
            self.store.prefetch(&self.frames, reference, byte);
        } else if let Some(slot) = self.slots.get((reference >> 2) as usize) {
            self.store.prefetch_dirty(&self.frames, slot.frame, byte);
        }
    }

    /// Asks for a page ahead of a search in it.
    #[inline]
    pub(super) fn prefetch_page(&self, reference: u64) {
        if reference & DIRTY == 0 {
            self.store.prefetch_page(&self.frames, reference);
        } else {
            self.prefetch(reference, 0);
        }
    }

    /// Appends a page's bytes to `bytes`.
    pub(super) fn copy_page(&mut self, reference: u64, bytes: &mut Vec<u8>) -> Result<()> {
        let page_bytes = self.page_bytes();
        bytes.extend_from_slice(self.view(reference)?.bytes(0, page_bytes)?);
        Ok(())
    }

    /// The dirty page for a reference: the page itself, or a copy of a committed one, whose place
    /// is given up.
    pub(super) fn own(&mut self, reference: u64) -> Result<u64> {
        if reference & DIRTY != 0 {
            return Ok(reference);
        }
        let at = self.store.reserve(self.copies)?;
        let Lent { frame, was_cached } = self.store.lend(&mut self.frames, reference, at)?;
        let dirty = self.add(Slot {
            frame,
            at,
            state: SlotState::Live,
            cached_at: if was_cached { reference } else { 0 },
            growth: Some(0),
            summed: 0,
            kept: self.whole(),
        });
        self.store.retire(reference)?;
        Ok(dirty)
    }

    /// A new dirty page with this content.
    pub(super) fn create(&mut self, image: &[u8]) -> Result<u64> {
        let at = self.store.reserve(Purpose::Growth)?;
        let frame = self.store.frame(&mut self.frames, at)?;
        self.store.store(&mut self.frames, frame, 0, image)?;
        Ok(self.add(Slot {
            frame,
            at,
            state: SlotState::Live,
            cached_at: 0,
            growth: None,
            summed: 0,
            kept: self.whole(),
        }))
    }

    fn whole(&self) -> Kept {
        Kept {
            transaction: self.transaction,
            bytes: WHOLE,
        }
    }

    fn add(&mut self, slot: Slot) -> u64 {
        let number = if let Some(number) = self.vacant.pop() {
            self.slots[number] = slot;
            number
        } else {
            self.slots.push(slot);
            self.slots.len() - 1
        };
        self.undo.push(Undo::Fresh(number));
        (number as u64) << 2 | DIRTY
    }

    /// Changes bytes of a dirty page.
    pub(super) fn edit(&mut self, reference: u64, at: usize, bytes: &[u8]) -> Result<()> {
        debug_assert!(reference & DIRTY != 0, "only dirty pages change");
        let page_bytes = self.page_bytes();
        let number = (reference >> 2) as usize;
        self.keep_before(number, at, bytes.len())?;
        let slot = &mut self.slots[number];
        let frame = self.store.dirty(&self.frames, slot.frame);
        let old = frame.bytes(at, bytes.len())?;
        // Beyond half a page summing all of it up, once and at the end, takes less.
        slot.summed += bytes.len();
        slot.growth = slot
            .growth
            .filter(|_| 2 * slot.summed <= page_bytes)
            .map(|growth| growth.wrapping_add(sum_of_change(at, old, bytes)));
        let frame = slot.frame;
        self.store.store(&mut self.frames, frame, at, bytes)
    }

    /// Puts bytes that are going to change into the undo list, or the whole page instead.
    fn keep_before(&mut self, number: usize, at: usize, bytes: usize) -> Result<()> {
        let page_bytes = self.store.page_bytes();
        let slot = &mut self.slots[number];
        if slot.kept.transaction != self.transaction {
            slot.kept = Kept {
                transaction: self.transaction,
                bytes: 0,
            };
        }
        let is_whole = slot.kept.bytes == WHOLE;
        let range = if is_whole || slot.kept.bytes + bytes <= page_bytes {
            at..at + bytes
        } else {
            0..page_bytes
        };
        let frame = self.store.dirty(&self.frames, slot.frame);
        let data = self.before.len();
        self.before
            .extend_from_slice(frame.bytes(range.start, range.len())?);
        let before = Before {
            number: number as u32,
            at: range.start as u32,
            bytes: range.len() as u32,
            data,
        };
        if is_whole {
            self.undo.push(Undo::StatementBytes(before));
            return Ok(());
        }
        slot.kept.bytes = if range.len() == page_bytes {
            WHOLE
        } else {
            slot.kept.bytes + bytes
        };
        self.undo.push(Undo::Bytes(before));
        Ok(())
    }

    /// Drops what only the statement that began at `savepoint` needed, which has ended well. The
    /// transaction goes on.
    pub fn end_statement(&mut self, savepoint: PagesSavepoint<S::Savepoint>) {
        if self.before.len() < STATEMENT_BYTES {
            return;
        }
        let (mut kept, mut data_end) = (savepoint.undo, None);
        for index in savepoint.undo..self.undo.len() {
            match &mut self.undo[index] {
                Undo::StatementBytes(dropped) => {
                    data_end.get_or_insert(dropped.data);
                    // Its frame cannot go back to the cache as it was.
                    self.slots[dropped.number as usize].cached_at = 0;
                    continue;
                }
                Undo::Bytes(before) => {
                    if let Some(end) = &mut data_end {
                        let (from, bytes) = (before.data, before.bytes as usize);
                        before.data = *end;
                        self.before.copy_within(from..from + bytes, *end);
                        *end += bytes;
                    }
                }
                _ => {}
            }
            self.undo.swap(kept, index);
            kept += 1;
        }
        self.undo.truncate(kept);
        if let Some(end) = data_end {
            self.before.truncate(end);
        }
    }

    /// Bytes of DRAM that the open transaction and its group hold.
    pub fn transaction_bytes(&self) -> usize {
        let undo = self.before.len() + self.undo.len() * size_of::<Undo>();
        undo + self.slots.len() * size_of::<Slot>() + self.store.held_bytes(self.dirty_pages())
    }

    /// Takes a page out of its tree.
    pub(super) fn discard(&mut self, reference: u64) -> Result<()> {
        if reference & DIRTY == 0 {
            return self.store.retire(reference);
        }
        let at = self.dirty_slot(reference)?.at;
        let number = (reference >> 2) as usize;
        self.slots[number].state = SlotState::Dropped;
        self.undo.push(Undo::Dropped(number));
        self.store.retire(at)
    }

    /// Whether the open transaction has changed anything.
    pub fn is_changed(&self) -> bool {
        !self.undo.is_empty()
    }

    /// Dirty pages.
    pub fn dirty_pages(&self) -> usize {
        self.slots.len() - self.vacant.len()
    }

    /// Sets whether the next statement may take the reserve.
    pub fn begin_statement(&mut self, copies: Purpose) {
        self.copies = copies;
    }

    /// A savepoint of the open transaction.
    pub fn savepoint(&self) -> PagesSavepoint<S::Savepoint> {
        PagesSavepoint {
            undo: self.undo.len(),
            store: self.store.savepoint(),
        }
    }

    /// Takes back everything since `savepoint`.
    pub fn rollback(&mut self, savepoint: PagesSavepoint<S::Savepoint>) -> Result<()> {
        while self.undo.len() > savepoint.undo {
            match self.undo.pop() {
                Some(Undo::Bytes(before)) => {
                    self.restore(before)?;
                    // Whether or not that was the whole page, the list has at most as many bytes of
                    // it now.
                    let page_bytes = self.page_bytes();
                    self.slots[before.number as usize].kept.bytes = page_bytes;
                }
                Some(Undo::StatementBytes(before)) => self.restore(before)?,
                Some(Undo::Fresh(number)) => {
                    let Slot {
                        frame, cached_at, ..
                    } = self.slots[number];
                    if cached_at == 0 {
                        self.store.give(&mut self.frames, frame);
                    } else {
                        // All of its bytes are as they were.
                        self.store.adopt(&mut self.frames, cached_at, frame);
                    }
                    self.vacate(number);
                }
                Some(Undo::Dropped(number)) => self.slots[number].state = SlotState::Live,
                Some(Undo::Root { tree, before }) => {
                    // A tree that this transaction added may be forgotten already.
                    if let Some(root) = self.roots.get_mut(tree) {
                        root.now = before;
                    }
                }
                Some(Undo::Touched(tree)) => {
                    self.touched.retain(|&touched| touched != tree);
                    if let Some(root) = self.roots.get_mut(tree) {
                        root.touched = false;
                    }
                }
                None => break,
            }
        }
        self.store.rollback(savepoint.store);
        if self.undo.is_empty() {
            self.transaction += 1;
            clear(&mut self.undo);
            clear(&mut self.before);
        }
        Ok(())
    }

    /// Gives a dirty page its newest old bytes back.
    fn restore(&mut self, before: Before) -> Result<()> {
        let slot = &mut self.slots[before.number as usize];
        slot.growth = None;
        let (frame, old) = (slot.frame, &self.before[before.data..]);
        self.store
            .store(&mut self.frames, frame, before.at as usize, old)?;
        self.before.truncate(before.data);
        Ok(())
    }

    fn vacate(&mut self, number: usize) {
        self.slots[number].state = SlotState::Vacant;
        self.vacant.push(number);
    }

    /// Makes the open transaction part of the group.
    pub fn end_transaction(&mut self) {
        for index in 0..self.undo.len() {
            if let Undo::Dropped(number) = self.undo[index] {
                let frame = self.slots[number].frame;
                self.store.give(&mut self.frames, frame);
                self.vacate(number);
            }
        }
        clear(&mut self.undo);
        clear(&mut self.before);
        self.transaction += 1;
    }

    /// Whether the group has anything to write.
    pub fn is_dirty(&self) -> bool {
        self.dirty_pages() > 0 || self.roots[DIRECTORY].now != self.roots[DIRECTORY].written
    }

    /// The dirty pages in the order of their places, so that neighbours are written together.
    fn in_order(&mut self) -> Vec<(u64, usize)> {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        let slots = self.slots.iter().enumerate();
        let live = slots.filter(|(_, slot)| slot.state == SlotState::Live);
        order.extend(live.map(|(number, slot)| (slot.at, number)));
        order.sort_unstable();
        order
    }

    /// The words of a dirty page that are not yet what is written of it, and its checksum then:
    /// references become places.
    fn words_to_settle(
        &self,
        slot: &Slot,
        sequence: u64,
        words: &mut Vec<(usize, u64)>,
    ) -> Result<()> {
        let frame = self.store.dirty(&self.frames, slot.frame);
        let page = frame.bytes(0, self.page_bytes())?;
        words_to_settle(page, sequence, |reference| self.place_of(reference), words);
        let sum = slot
            .growth
            .map(|growth| word_of(page, 1).wrapping_add(growth));
        let sum = sum.unwrap_or_else(|| checksum(page));
        let growth = words
            .iter()
            .map(|&(at, word)| delta_word(word_of(page, at / 8), word, at / 8));
        let sum = growth.fold(sum, u64::wrapping_add);
        words.push((8, sum));
        Ok(())
    }

    /// Settles the dirty pages and writes them. With `Settling::Undoable` the open transaction can
    /// be taken back afterwards.
    fn write(&mut self, settling: Settling) -> Result<()> {
        let sequence = self.store.group();
        let order = self.in_order();
        let mut words = std::mem::take(&mut self.settled);
        for (index, &(at, number)) in order.iter().enumerate() {
            let slot = &self.slots[number];
            let frame = slot.frame;
            self.words_to_settle(slot, sequence, &mut words)?;
            for &(at, word) in &words {
                let bytes = word.to_le_bytes();
                match settling {
                    Settling::Final => self.store.store(&mut self.frames, frame, at, &bytes)?,
                    Settling::Undoable => self.edit((number as u64) << 2 | DIRTY, at, &bytes)?,
                }
            }
            let next = order.get(index + 1).map_or(0, |&(next, _)| next);
            self.store.write(&self.frames, frame, at, next)?;
        }
        self.settled = words;
        self.order = order;
        Ok(())
    }

    /// Writes the group and switches the master. The directory has its entries already.
    pub fn commit(&mut self) -> Result<()> {
        self.write(Settling::Final)?;
        let directory = self.place_of(self.roots[DIRECTORY].now);
        self.store.commit(&mut self.frames, directory)?;
        self.clean();
        Ok(())
    }

    /// Writes the group without deciding about it.
    pub fn prepare(&mut self, global: GlobalTxnId) -> Result<()> {
        self.write(Settling::Undoable)?;
        let directory = self.place_of(self.roots[DIRECTORY].now);
        self.store.prepare(directory, global)
    }

    /// Ends a prepared group. After an abort the caller rolls its transaction back.
    pub fn resolve(&mut self, commit: bool) -> Result<()> {
        self.store.resolve(commit)?;
        if commit {
            self.clean();
        }
        Ok(())
    }

    /// Turns dirty pages into committed ones.
    fn clean(&mut self) {
        let touched = std::mem::take(&mut self.touched);
        for tree in touched.into_iter().chain([DIRECTORY]) {
            let place = self.place_of(self.roots[tree].now);
            self.roots[tree] = Root {
                now: place,
                written: place,
                touched: false,
            };
        }
        for slot in self.slots.drain(..) {
            match slot.state {
                SlotState::Live => self.store.adopt(&mut self.frames, slot.at, slot.frame),
                SlotState::Dropped => self.store.give(&mut self.frames, slot.frame),
                SlotState::Vacant => {}
            }
        }
        self.vacant.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::cow::pool::PoolStore;
    use crate::index::cow::{CowTree, Shape, TreeReport, Value};
    use pmem::device::simulated::{SimulatedWorld, WorldOptions};
    use pmem::{Arena, MemorySource, POOL_BYTES_MIN, PoolIdentity, PoolKind};

    /// A transaction that changes the same pages again and again kept each change until its end: 12
    /// KB for each small row that it deleted. It keeps what leads back to its beginning, and that
    /// still leads there, from the middle of a statement as well.
    #[test]
    fn a_long_transaction_keeps_at_most_two_pages_of_old_bytes_for_a_page() {
        let world = SimulatedWorld::new(WorldOptions::default());
        let memory = || world.source().volatile(POOL_BYTES_MIN).unwrap();
        let arena = Arena::create(memory(), &PoolIdentity::unnamed(PoolKind(1))).unwrap();
        let (store, _) = PoolStore::create(arena, 1, 512).unwrap();
        let mut pages = Pages::new(store, memory(), 0).unwrap();
        let page_bytes = pages.page_bytes();
        let older = pages.create(&vec![7; page_bytes]).unwrap();
        pages.edit(older, 64, &[8; 16]).unwrap();
        pages.end_transaction();
        let content = |pages: &mut Pages<PoolStore<_>>| {
            let mut bytes = Vec::new();
            pages.copy_page(older, &mut bytes).unwrap();
            bytes
        };
        let before = content(&mut pages);
        let begin = pages.savepoint();
        let newer = pages.create(&vec![9; page_bytes]).unwrap();
        for round in 0..20_000_usize {
            let savepoint = pages.savepoint();
            for page in [older, newer] {
                pages
                    .edit(page, 64 + round % 300, &[round as u8; 100])
                    .unwrap();
            }
            if round % 7 == 0 {
                let changed = content(&mut pages);
                pages.edit(older, 70, &[1; 40]).unwrap();
                let statement = pages.savepoint();
                pages.edit(older, 80, &[2; 200]).unwrap();
                pages.rollback(statement).unwrap();
                pages.edit(older, 70, &changed[70..110]).unwrap();
                assert_eq!(content(&mut pages), changed);
            }
            pages.end_statement(savepoint);
            let most = STATEMENT_BYTES * 4 + 4 * page_bytes;
            let bytes = pages.transaction_bytes();
            assert!(bytes < most, "{bytes} bytes after {round} rounds");
        }
        pages.edit(older, 100, &[3; 50]).unwrap();
        pages.rollback(begin).unwrap();
        assert_eq!(content(&mut pages), before);
        assert!(!pages.is_changed());
    }

    /// One flipped bit turns a committed reference into one to a dirty page.
    #[test]
    fn a_reference_to_a_dirty_page_that_is_not_there_is_damage() {
        let world = SimulatedWorld::new(WorldOptions::default());
        let memory = || world.source().volatile(POOL_BYTES_MIN).unwrap();
        let arena = Arena::create(memory(), &PoolIdentity::unnamed(PoolKind(1))).unwrap();
        let (store, _) = PoolStore::create(arena, 1, 512).unwrap();
        let mut pages = Pages::new(store, memory(), 0).unwrap();
        let tree = CowTree::new(
            pages.add_root(99 << 2 | DIRTY),
            Shape::new(512, 1, 1).unwrap(),
        );
        let is_damage = |error: Option<storage::StorageError>| {
            let text = error.map(|error| error.to_string()).unwrap_or_default();
            assert!(text.contains("no dirty page"), "{text}");
        };
        is_damage(tree.get_word(&mut pages, &[1]).err());
        is_damage(tree.insert(&mut pages, &[1], Value::Words(&[2])).err());
        is_damage(tree.remove(&mut pages, &[1]).err());
        is_damage(tree.clear(&mut pages, &mut |_, _| Ok(())).err());
        let mut report = TreeReport::default();
        tree.check(&mut pages, &mut report);
        assert_eq!(report.damage.len(), 1, "{:?}", report.damage);
    }
}
