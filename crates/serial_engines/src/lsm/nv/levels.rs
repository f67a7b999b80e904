//! The runs of one table: the active MemTable and the levels below it, all of them non-volatile
//! B+trees of pointers.
//!
//! | level block, words | content |
//! |---|---|
//! | 0 | root of the active MemTable |
//! | 1, 2 | its entries and bytes, saved now and then |
//! | 3 | entries of the newest full MemTable |
//! | then for each of [`LEVELS`] | state; roots of *upper*, *run* and *output*; |
//! | | their entries; the frontier's key |
//!
//! A full MemTable becomes level 0's *upper* by one word: nothing is copied. While a level merges,
//! *upper* (newer) and *run* (older) are read from left to right and *output* is written after its
//! last leaf; the *frontier* is the last key that is done. *Output* counts up to the frontier,
//! *upper* and *run* after it. At the end *output* becomes the run, and the two trees that are no
//! longer read lose their leaves one after the other. A run that is too large becomes the next
//! level's upper.
//!
//! Order of age, newest first: active, then for each level upper, run (or output up to the
//! frontier). States are those of [`State`]; `merge` has the transitions.

use super::cursor::{Cursor, Merged};
use crate::index::{IndexShape, NvBptree, OrderedIndex, bytes_of};
use crate::lsm::entry::{EntryKind, apply_delta};
use crate::lsm::filter::{Filter, Filters, hash};
use crate::lsm::gaps::{Dead, Gaps};
use crate::lsm::keys::increment;
use crate::lsm::pointer as entry;
use pmem::{Arena, Memory, Owner, Part, PmemError};
use std::cell::Cell;
use std::ops::ControlFlow;
use storage::engine::Direction;
use storage::log::redo::ImageError;
use storage::log::{NvWriteSet, WriteSet};
use storage::record::{KeyBuf, MAX_KEY_WORDS, Row};
use storage::{Result, StorageError};

/// Levels below the MemTable. Each is some times as large as the one above, so the last one is
/// never full.
pub(super) const LEVELS: usize = 8;
const HEAD_WORDS: usize = 4;
const LEVEL_WORDS: usize = 7;
/// The share of a full MemTable after which its size is saved again.
const SAVES: u64 = 8;

/// State of a level's merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It has a run, or nothing.
    Plain = 0,
    /// *Upper* and *run* are merged; no key is done yet.
    Starting = 1,
    /// *Upper* and *run* are merged; keys up to the frontier are done.
    Merging = 2,
    /// *Upper* and *output* are dead and lose their leaves.
    Draining = 3,
}

/// One level.
pub(super) struct Level {
    /// Offset of its words.
    at: u64,
    pub(super) state: State,
    pub(super) upper: NvBptree,
    pub(super) run: NvBptree,
    pub(super) output: NvBptree,
    pub(super) has_run: bool,
    pub(super) upper_entries: u64,
    pub(super) run_entries: u64,
    pub(super) output_entries: u64,
    pub(super) frontier: KeyBuf,
    pub(super) upper_filter: Option<Filter>,
    pub(super) run_filter: Option<Filter>,
    pub(super) output_filter: Option<Filter>,
    /// Entries that the next commits still have to merge.
    pub(super) credit: u64,
}

/// Words of a level to write.
pub(super) enum Words {
    State,
    UpperRoot,
    RunRoot,
    OutputRoot,
    UpperEntries,
    RunEntries,
    /// The words of the frontier follow.
    OutputEntries,
}

impl Level {
    fn is_merging(&self) -> bool {
        matches!(self.state, State::Starting | State::Merging)
    }

    /// Whether a key is in *output* and not in *upper* and *run* any more.
    fn has_done(&self, key: &[u64]) -> bool {
        self.state == State::Merging && key <= &*self.frontier
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state == State::Plain && !self.has_run
    }

    pub(super) fn word(&self, word: Words) -> u64 {
        self.at + word as u64 * 8
    }
}

/// The tree whose filter is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Active,
    /// The run of this level.
    Run(usize),
}

/// A filter that is being made.
pub(super) struct Refill {
    pub(super) target: Target,
    pub(super) filter: Filter,
    /// The smallest key that may be missing.
    pub(super) low: KeyBuf,
}

/// All runs of one table.
pub(super) struct Levels {
    pub(super) block: u64,
    shape: IndexShape,
    pub(super) owner: Owner,
    pub(super) active: NvBptree,
    pub(super) active_filter: Option<Filter>,
    pub(super) entries: u64,
    pub(super) bytes: u64,
    saved_bytes: u64,
    /// Entries of the newest full MemTable.
    pub(super) full_entries: u64,
    pub(super) below: Vec<Level>,
    /// Levels in use: all after them are empty.
    pub(super) depth: usize,
    /// The filter that is being made again after a restart.
    pub(super) refill: Option<Refill>,
    /// Whether a filter may be missing that reads would like to have.
    pub(super) lacks_filters: bool,
    /// Gaps that scans have found.
    pub(super) gaps: Gaps,
    /// Bytes of the entry that was read last: the next one is prefetched in that length.
    pub(super) hint: Cell<usize>,
}

/// Bytes of the block that a table's runs hang on.
pub(super) fn block_bytes(key_words: usize) -> usize {
    8 * (HEAD_WORDS + LEVELS * (LEVEL_WORDS + key_words))
}

impl Levels {
    /// Makes the runs of a new table in its block, which is not published yet.
    pub(super) fn create<M: Memory>(
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        block: u64,
        shape: IndexShape,
        tag: u16,
    ) -> Result<Self> {
        log.stage(arena, block, &vec![0; block_bytes(shape.key_words)])?;
        let active: NvBptree = OrderedIndex::create(arena, log, block, shape, tag)?;
        let mut levels = Self::at(block, shape, tag);
        levels.active = active;
        Ok(levels)
    }

    /// The runs of the table with this block.
    pub(super) fn open<M: Memory>(
        arena: &Arena<M>,
        block: u64,
        shape: IndexShape,
        tag: u16,
    ) -> Result<Self> {
        let mut levels = Self::at(block, shape, tag);
        arena.enter(Part::Index);
        let head = arena.slice::<u64>(block, HEAD_WORDS)?;
        (levels.entries, levels.bytes, levels.full_entries) = (head[1], head[2], head[3]);
        levels.saved_bytes = levels.bytes;
        levels.lacks_filters = true;
        for index in 0..LEVELS {
            let level = &mut levels.below[index];
            let words = arena.slice::<u64>(level.at, LEVEL_WORDS + shape.key_words)?;
            level.state = match words[0] {
                0 => State::Plain,
                1 => State::Starting,
                2 => State::Merging,
                3 => State::Draining,
                other => {
                    let detail = format!("the state {other} is unknown");
                    return Err(PmemError::corrupted("level", level.at, detail).into());
                }
            };
            level.has_run = words[2] != 0;
            (level.upper_entries, level.run_entries, level.output_entries) =
                (words[4], words[5], words[6]);
            level.frontier.assign(&words[LEVEL_WORDS..]);
            if !level.is_empty() {
                levels.depth = index + 1;
            }
        }
        Ok(levels)
    }

    fn at(block: u64, shape: IndexShape, tag: u16) -> Self {
        let level = |index: usize| {
            let words = HEAD_WORDS + index * (LEVEL_WORDS + shape.key_words);
            let at = block + words as u64 * 8;
            let tree = |word: u64| NvBptree::handle(at + word * 8, shape, tag);
            Level {
                at,
                state: State::Plain,
                upper: tree(1),
                run: tree(2),
                output: tree(3),
                has_run: false,
                upper_entries: 0,
                run_entries: 0,
                output_entries: 0,
                frontier: KeyBuf::default(),
                upper_filter: None,
                run_filter: None,
                output_filter: None,
                credit: 0,
            }
        };
        Self {
            block,
            shape,
            owner: Owner {
                part: Part::Table,
                tag,
            },
            active: NvBptree::handle(block, shape, tag),
            active_filter: None,
            entries: 0,
            bytes: 0,
            saved_bytes: 0,
            full_entries: 0,
            below: (0..LEVELS).map(level).collect(),
            depth: 0,
            refill: None,
            lacks_filters: false,
            gaps: Gaps::default(),
            hint: Cell::new(64),
        }
    }

    pub(super) fn key_words(&self) -> usize {
        self.shape.key_words
    }

    /// Whether all levels after `index` are empty.
    pub(super) fn is_bottom(&self, index: usize) -> bool {
        self.below[index + 1..].iter().all(Level::is_empty)
    }

    /// Makes this transaction's changes of the MemTable readable.
    #[inline]
    pub(super) fn make_visible<M: Memory>(
        &self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
    ) -> Result<()> {
        log.visible(arena, self.active.root_word())
    }

    /// The tree number `at` in the order of age, if it may have an entry for `key`.
    #[inline]
    fn source(&self, at: usize, key: &[u64]) -> Option<(&NvBptree, Option<Filter>)> {
        let Some(place) = at.checked_sub(1) else {
            return Some((&self.active, self.active_filter));
        };
        let level = &self.below[place / 2];
        if place.is_multiple_of(2) {
            if !level.is_merging() {
                None
            } else if level.has_done(key) {
                Some((&level.output, level.output_filter))
            } else {
                Some((&level.upper, level.upper_filter))
            }
        } else if level.has_run && !level.has_done(key) {
            Some((&level.run, level.run_filter))
        } else {
            None
        }
    }

    /// The newest pointer for a key in the trees from number `start` on, and the number of the tree
    /// after its own.
    #[inline]
    pub(super) fn find_from<M: Memory>(
        &self,
        arena: &Arena<M>,
        filters: &Filters<M>,
        key: &[u64],
        start: usize,
    ) -> Result<Option<(u64, usize)>> {
        let hash = hash(key);
        for at in start..=2 * self.depth {
            let Some((tree, filter)) = self.source(at, key) else {
                continue;
            };
            if let Some(filter) = filter
                && !filters.may_have(filter, hash)?
            {
                continue;
            }
            if let Some(pointer) = OrderedIndex::<M, NvWriteSet>::get(tree, arena, key)? {
                return Ok(Some((pointer, at + 1)));
            }
        }
        Ok(None)
    }

    /// The newest pointer for a key as the open transaction sees it, and the number of the tree
    /// after its own.
    #[inline]
    pub(super) fn find<M: Memory>(
        &self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        filters: &Filters<M>,
        key: &[u64],
    ) -> Result<Option<(u64, usize)>> {
        if self.may_be_active(filters, key)?
            && let Some(pointer) = self.active.get_pending(arena, log, key)?
        {
            // Its block may have changes that are kept back.
            log.visible(arena, entry::block(pointer))?;
            return Ok(Some((pointer, 1)));
        }
        if self.depth == 0 {
            return Ok(None);
        }
        self.find_from(arena, filters, key, 1)
    }

    /// Whether the MemTable has to be searched for a key that is likely to be there. Where there
    /// are no other runs it is searched anyway.
    #[inline]
    pub(super) fn may_be_active<M: Memory>(
        &self,
        filters: &Filters<M>,
        key: &[u64],
    ) -> Result<bool> {
        match self.active_filter {
            Some(filter) if self.depth > 0 => filters.may_have(filter, hash(key)),
            _ => Ok(true),
        }
    }

    /// Whether there is a row with this key; likely there is none.
    pub(super) fn has_row<M: Memory>(
        &self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        filters: &Filters<M>,
        key: &[u64],
    ) -> Result<bool> {
        if self.depth == 0
            && let Some(filter) = self.active_filter
            && !filters.may_have(filter, hash(key))?
        {
            return Ok(false);
        }
        let found = self.find(arena, log, filters, key)?;
        Ok(found.is_some_and(|(pointer, _)| pointer != entry::TOMBSTONE))
    }

    /// Copies the row with this key into `row`; false if there is none.
    #[inline]
    pub(super) fn read<M: Memory>(
        &self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        filters: &Filters<M>,
        key: &[u64],
        row: &mut Row,
    ) -> Result<bool> {
        match self.find(arena, log, filters, key)? {
            Some(found) => self.read_found(arena, filters, key, found, row),
            None => Ok(false),
        }
    }

    /// As [`Levels::read`], where everything is visible.
    pub(super) fn read_visible<M: Memory>(
        &self,
        arena: &Arena<M>,
        filters: &Filters<M>,
        key: &[u64],
        row: &mut Row,
    ) -> Result<bool> {
        match self.find_from(arena, filters, key, 0)? {
            Some(found) => self.read_found(arena, filters, key, found, row),
            None => Ok(false),
        }
    }

    /// Copies the row whose newest pointer was found in the tree before number `next`.
    #[inline]
    pub(super) fn read_found<M: Memory>(
        &self,
        arena: &Arena<M>,
        filters: &Filters<M>,
        key: &[u64],
        (pointer, next): (u64, usize),
        row: &mut Row,
    ) -> Result<bool> {
        match entry::kind(pointer)? {
            EntryKind::Tombstone => Ok(false),
            EntryKind::Row => {
                self.read_row(arena, pointer, row)?;
                Ok(true)
            }
            EntryKind::Delta => {
                let mut pointers = vec![pointer];
                let mut next = next;
                while let Some((pointer, behind)) = self.find_from(arena, filters, key, next)? {
                    pointers.push(pointer);
                    if entry::kind(pointer)? != EntryKind::Delta {
                        break;
                    }
                    next = behind;
                }
                self.coalesce(arena, &pointers, row)
            }
        }
    }

    /// Copies the row of a whole entry.
    #[inline]
    fn read_row<M: Memory>(&self, arena: &Arena<M>, pointer: u64, row: &mut Row) -> Result<()> {
        arena.enter(Part::Table);
        arena.prefetch(entry::block(pointer), self.hint.get());
        let image = entry::read(arena, pointer)?;
        self.hint.set(image.len() + entry::HEADER_BYTES);
        if row.read_image(image) {
            Ok(())
        } else {
            Err(damaged(pointer, "it is shorter than a tuple"))
        }
    }

    /// Makes a row of the entries of the runs for a key, newest first; false if that is no row.
    pub(super) fn coalesce<M: Memory>(
        &self,
        arena: &Arena<M>,
        pointers: &[u64],
        row: &mut Row,
    ) -> Result<bool> {
        let mut deltas = 0;
        while let Some(&pointer) = pointers.get(deltas) {
            match entry::kind(pointer)? {
                EntryKind::Delta => deltas += 1,
                EntryKind::Tombstone if deltas == 0 => return Ok(false),
                EntryKind::Tombstone => break,
                EntryKind::Row => {
                    self.read_row(arena, pointer, row)?;
                    for &delta in pointers[..deltas].iter().rev() {
                        apply_delta(entry::read(arena, delta)?, row)
                            .map_err(|error| unreadable(delta, &error))?;
                    }
                    return Ok(true);
                }
            }
        }
        let pointer = pointers.first().copied().unwrap_or(0);
        Err(damaged(pointer, "it changes a row that is not there"))
    }

    /// All trees that may have entries for keys from `low` to `high`, newest first.
    pub(super) fn merged(&self, low: &[u64], high: &[u64], direction: Direction) -> Merged<'_> {
        let mut cursors = vec![Cursor::new(&self.active, low, high, direction)];
        for level in &self.below[..self.depth] {
            let mut rest = KeyBuf::from_words(low);
            let mut has_rest = true;
            if level.state == State::Merging {
                let done: &[u64] = high.min(&level.frontier);
                cursors.push(Cursor::new(&level.output, low, done, direction));
                if low <= &*level.frontier {
                    rest.assign(&level.frontier);
                    has_rest = increment(rest.resized(low.len()));
                }
            }
            if level.is_merging() && has_rest {
                cursors.push(Cursor::new(&level.upper, &rest, high, direction));
            }
            if level.has_run && has_rest {
                cursors.push(Cursor::new(&level.run, &rest, high, direction));
            }
        }
        Merged::new(cursors, direction)
    }

    /// Visits the rows of a range in the order of their keys. Everything is visible. `dead` notes
    /// keys without a row.
    pub(super) fn scan<M: Memory>(
        &self,
        arena: &Arena<M>,
        (low, high): (&[u64], &[u64]),
        direction: Direction,
        (row, dead): (&mut Row, &mut Dead),
        visit: &mut dyn FnMut(&Row) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        if low > high {
            return Ok(());
        }
        let mut look = |key: &[u64], pointers: &[u64]| {
            if self.coalesce(arena, pointers, row)? {
                dead.row();
                arena.enter(Part::Index);
                return visit(row);
            }
            dead.key(key);
            Ok(ControlFlow::Continue(()))
        };
        if self.depth == 0 {
            // One tree needs no cursor.
            let look = &mut |key: &[u64], pointer| look(key, &[pointer]);
            return OrderedIndex::<M, NvWriteSet>::scan(
                &self.active,
                arena,
                (low, high),
                direction,
                self.hint.get(),
                look,
            );
        }
        let mut merged = self.merged(low, high, direction);
        let (mut key, mut pointers) = (KeyBuf::default(), Vec::new());
        while merged.next(arena, &mut key, &mut pointers)? {
            if look(&key, &pointers)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Puts the newest pointer for a key into the MemTable. The MemTable's older entry for the key
    /// is freed.
    pub(super) fn put<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        filters: &mut Filters<M>,
        key: &[u64],
        pointer: u64,
    ) -> Result<()> {
        let hash = hash(key);
        let is_new = match self.active_filter {
            Some(filter) => !filters.may_have(filter, hash)?,
            None => false,
        };
        if !is_new && let Some(old) = self.active.replace(arena, log, key, pointer)? {
            let old_bytes = entry::block_bytes(arena, old)?;
            self.bytes = self.bytes.saturating_sub(old_bytes);
            return entry::free(arena, log, old);
        }
        self.active.insert(arena, log, key, pointer)?;
        if let Some(filter) = self.active_filter {
            filters.add(filter, hash)?;
        }
        if let Some(refill) = &self.refill
            && refill.target == Target::Active
        {
            filters.add(refill.filter, hash)?;
        }
        self.entries += 1;
        self.bytes += 8 * (key.len() as u64 + 1);
        Ok(())
    }

    /// Takes a key out of all runs, which needs no space.
    pub(super) fn purge<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        key: &[u64],
    ) -> Result<()> {
        for at in 0..=2 * self.depth {
            let Some((tree, _)) = self.source(at, key) else {
                continue;
            };
            let mut tree = tree.clone();
            if let Some(pointer) = tree.remove(arena, log, key)? {
                entry::free(arena, log, pointer)?;
            }
        }
        // Runs below are read without a check for pending changes.
        log.visible_all(arena)
    }

    /// Saves the MemTable's size if it has grown much. It is a guide, not a promise: a crash may
    /// lose some of it.
    pub(super) fn save_size<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
        full_bytes: u64,
    ) -> Result<()> {
        if self.bytes - self.saved_bytes.min(self.bytes) < full_bytes / SAVES {
            return Ok(());
        }
        self.write_size(arena, log)
    }

    pub(super) fn write_size<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        log: &mut NvWriteSet,
    ) -> Result<()> {
        self.saved_bytes = self.bytes;
        let words = bytes_of(&[self.entries, self.bytes, self.full_entries]);
        log.write(arena, self.block + 8, &words)
    }

    /// Calls `visit` with each entry that counts, tree by tree, newest first; `node` with each
    /// block of the trees and the levels themselves.
    pub(super) fn check<M: Memory>(
        &self,
        arena: &Arena<M>,
        node: &mut dyn FnMut(u64),
        visit: &mut dyn FnMut(&[u64], u64),
        damage: &mut Vec<String>,
    ) {
        node(self.block);
        let mut check = |tree: &NvBptree, from: Option<&[u64]>, counts: bool| {
            OrderedIndex::<M, NvWriteSet>::check(
                tree,
                arena,
                node,
                &mut |key, pointer| {
                    if counts && from.is_none_or(|from| key > from) {
                        visit(key, pointer);
                    }
                },
                damage,
            );
        };
        check(&self.active, None, true);
        for level in &self.below[..self.depth] {
            let from = (level.state == State::Merging).then_some(&*level.frontier);
            let is_there = |tree: &NvBptree| arena.word(tree.root_word()).unwrap_or(1) != 0;
            match level.state {
                State::Plain => {}
                State::Starting | State::Merging => {
                    check(&level.output, None, true);
                    check(&level.upper, from, true);
                }
                State::Draining => {
                    for dead in [&level.upper, &level.output] {
                        if is_there(dead) {
                            check(dead, None, false);
                        }
                    }
                }
            }
            if level.has_run {
                let from = from.filter(|_| level.is_merging());
                check(&level.run, from, true);
            }
        }
    }

    /// Frees all runs and their entries. The caller has made everything visible.
    pub(super) fn free<M: Memory>(&self, arena: &mut Arena<M>, log: &mut NvWriteSet) -> Result<()> {
        let (mut pointers, mut blocks, mut damage) = (Vec::new(), Vec::new(), Vec::new());
        self.check(
            arena,
            &mut |block| blocks.push(block),
            &mut |_, pointer| pointers.push(pointer),
            &mut damage,
        );
        if let Some(first) = damage.into_iter().next() {
            return Err(PmemError::corrupted("level", self.block, first).into());
        }
        for pointer in pointers {
            entry::free(arena, log, pointer)?;
        }
        for block in blocks {
            let change = arena.free(block)?;
            log.change(arena, change)?;
        }
        Ok(())
    }
}

/// The smallest and the largest key of so many words.
pub(super) fn whole_range() -> ([u64; MAX_KEY_WORDS], [u64; MAX_KEY_WORDS]) {
    ([0; MAX_KEY_WORDS], [u64::MAX; MAX_KEY_WORDS])
}

#[cold]
pub(super) fn damaged(pointer: u64, detail: &str) -> StorageError {
    PmemError::corrupted("entry", entry::block(pointer), detail).into()
}

#[cold]
pub(super) fn unreadable(pointer: u64, error: &ImageError) -> StorageError {
    PmemError::corrupted("entry", entry::block(pointer), error.to_string()).into()
}
