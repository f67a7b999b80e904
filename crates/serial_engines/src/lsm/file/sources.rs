//! Reading the MemTables and the runs of one tree together, in the order of their keys.
//!
//! A source is one tree of one MemTable or run; [`MergedSources`] has them newest first and gives
//! all entries that they have for each key. Entries are lent, not copied: those of a run from the
//! blocks that were read last, those of a MemTable from its arena.
//!
//! Nothing changes while a source lives; it borrows everything it reads. Its position and buffers
//! are a [`Cursor`], which borrows nothing, so a job can put it aside between two steps. A MemTable
//! or run that has a cursor must not change meanwhile.

use super::block_cache::BlockCache;
use super::format::Block;
use super::mem_table::{MemTable, TreeId};
use super::run::Run;
use crate::index::OrderedIndex;
use crate::lsm::entry::EntryKind;
use crate::lsm::keys::{decrement, increment};
use crate::lsm::pointer;
use disk::File;
use pmem::Memory;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::ops::{ControlFlow, Range as Span};
use storage::Result;
use storage::engine::Direction;
use storage::log::VolatileUndo;
use storage::record::KeyBuf;

/// Entries of a MemTable that are fetched at first, and at once at most.
const FETCH_MIN: usize = 8;
const FETCH_MAX: usize = 64;
/// Blocks of a run that are read at once, at most: the first reads of a short range take fewer.
const BLOCKS_MAX: usize = 16;
/// Blocks that a scan takes through the cache, one by one, before it reads past it.
const CACHED_BLOCKS: usize = 8;

/// One entry: its kind and its bytes.
pub(crate) type Entry<'e> = (EntryKind, &'e [u8]);

/// The keys to read, and their order.
#[derive(Clone)]
pub(crate) struct Range {
    pub(crate) tree: TreeId,
    pub(crate) low: KeyBuf,
    pub(crate) high: KeyBuf,
    pub(crate) direction: Direction,
}

/// Location of an entry that was fetched.
#[derive(Clone, Copy)]
enum Location {
    /// In the MemTable's arena.
    Pointer(u64),
    /// In the cursor's buffer.
    Buffer(EntryKind, usize, usize),
}

/// Position of a source, and the entries that it has fetched.
pub(crate) struct Cursor {
    range: Range,
    /// Blocks that are left to be read; of a run.
    blocks: Span<usize>,
    /// Blocks or entries that are read next.
    fetch: usize,
    /// Blocks that may still come through the cache.
    cached: usize,
    /// The block that is all of the buffer, if it has more in the range, and how many entries of
    /// that were fetched.
    rest: Option<(usize, usize)>,
    buffer: Vec<u8>,
    /// Keys that were fetched, one after the other, and their entries.
    keys: Vec<u64>,
    places: Vec<Location>,
    at: usize,
    ended: bool,
}

/// Origin of the entries.
enum From<'s, M: Memory, F: File> {
    MemTable(&'s MemTable<M>),
    Run(&'s Run<F>, Option<&'s RefCell<BlockCache<M>>>),
}

/// One tree of one MemTable or run.
pub(crate) struct Source<'s, M: Memory, F: File> {
    from: From<'s, M, F>,
    cursor: Cursor,
}

impl Cursor {
    fn new(range: &Range, blocks: Span<usize>) -> Self {
        Self {
            range: range.clone(),
            blocks,
            fetch: 1,
            cached: CACHED_BLOCKS,
            rest: None,
            buffer: Vec::new(),
            keys: Vec::new(),
            places: Vec::new(),
            at: 0,
            ended: range.low > range.high,
        }
    }

    fn words(&self) -> usize {
        self.range.low.len()
    }

    /// The key at its position; none at the end.
    fn key(&self) -> Option<&[u64]> {
        let words = self.words();
        self.keys.get(self.at * words..(self.at + 1) * words)
    }

    /// Removes the keys up to the last fetched one from the range.
    fn pass(&mut self) {
        let words = self.words();
        let last = &self.keys[self.keys.len() - words..];
        let range = &mut self.range;
        let has_more = match range.direction {
            Direction::Forward => {
                range.low.assign(last);
                increment(range.low.resized(words))
            }
            Direction::Backward => {
                range.high.assign(last);
                decrement(range.high.resized(words))
            }
        };
        self.ended = !has_more || range.low > range.high;
    }

    fn fill_from_mem_table<M: Memory>(&mut self, mem_table: &MemTable<M>) -> Result<()> {
        let Some(tree) = mem_table.tree(self.range.tree) else {
            self.ended = true;
            return Ok(());
        };
        let (keys, places) = (&mut self.keys, &mut self.places);
        let fetch = self.fetch.max(FETCH_MIN);
        self.fetch = (fetch * 2).min(FETCH_MAX);
        OrderedIndex::<M, VolatileUndo>::scan(
            tree,
            &mem_table.arena,
            (&self.range.low, &self.range.high),
            self.range.direction,
            0,
            &mut |key, found| {
                keys.extend_from_slice(key);
                places.push(Location::Pointer(found));
                Ok(if places.len() < fetch {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                })
            },
        )?;
        if self.places.len() < fetch {
            self.ended = true;
        } else {
            self.pass();
        }
        Ok(())
    }

    fn fill_from_run<M: Memory, F: File>(
        &mut self,
        run: &Run<F>,
        cache: Option<&RefCell<BlockCache<M>>>,
    ) -> Result<()> {
        if let Some((number, done)) = self.rest.take() {
            return self.take_copy(run, number, done);
        }
        if let Some(cache) = cache
            && self.cached > 0
            && let Some(number) = self.next_block()
        {
            self.cached -= 1;
            run.copy_block(cache, number, &mut self.buffer)?;
            return self.take_copy(run, number, 0);
        }
        let count = self.blocks.len().min(self.fetch);
        if count == 0 {
            self.ended = true;
            return Ok(());
        }
        self.fetch = (self.fetch * 2).min(BLOCKS_MAX);
        let is_forward = self.range.direction == Direction::Forward;
        let read = if is_forward {
            let read = self.blocks.start..self.blocks.start + count;
            self.blocks.start = read.end;
            read
        } else {
            let read = self.blocks.end - count..self.blocks.end;
            self.blocks.end = read.start;
            read
        };
        run.read(read.clone(), &mut self.buffer)?;
        for step in 0..count {
            let number = if is_forward {
                read.start + step
            } else {
                read.end - 1 - step
            };
            let at = run.offset(number) - run.offset(read.start);
            self.take_block(run, number, at as usize)?;
        }
        Ok(())
    }

    /// Takes the next block of the range off those that are left.
    fn next_block(&mut self) -> Option<usize> {
        match self.range.direction {
            Direction::Forward => self.blocks.next(),
            Direction::Backward => self.blocks.next_back(),
        }
    }

    /// Fetches the entries of block `number`, which begins at `at` in the buffer.
    fn take_block<F: File>(&mut self, run: &Run<F>, number: usize, at: usize) -> Result<()> {
        let (range, into) = (&self.range, (&mut self.keys, &mut self.places));
        run.open_block(number, &self.buffer[at..], |block| {
            take_entries(range, block, (at, 0, usize::MAX), into).map(|_| ())
        })
    }

    /// Fetches some entries of block `number`, which is all of the buffer and whole, after the
    /// `done` first ones: a short scan wants few.
    fn take_copy<F: File>(&mut self, run: &Run<F>, number: usize, done: usize) -> Result<()> {
        let most = if done == 0 { FETCH_MIN } else { FETCH_MAX };
        let (range, into) = (&self.range, (&mut self.keys, &mut self.places));
        let is_all = run.open_copy(number, &self.buffer, |block| {
            take_entries(range, block, (0, done, most), into)
        })?;
        if !is_all {
            self.rest = Some((number, done + most));
        }
        Ok(())
    }
}

/// Fetches up to `most` of the entries of a block at `at` in its buffer that lie in a range, in its
/// order, after the `done` first ones. Whether these were all; none if one leaves the block.
fn take_entries(
    range: &Range,
    block: Block<'_>,
    (at, done, most): (usize, usize, usize),
    (keys, places): (&mut Vec<u64>, &mut Vec<Location>),
) -> Option<bool> {
    let words = range.low.len();
    let (first, end) = (
        block.lower_bound(&range.low)?,
        block.upper_bound(&range.high)?,
    );
    let mut take = |index: usize| {
        let start = keys.len();
        keys.resize(start + words, 0);
        block.key(index, &mut keys[start..])?;
        let (kind, place) = block.entry_place(index)?;
        places.push(Location::Buffer(kind, at + place.start, at + place.end));
        Some(())
    };
    let all = first..end.max(first);
    match range.direction {
        Direction::Forward => all.clone().skip(done).take(most).try_for_each(&mut take)?,
        Direction::Backward => {
            let mut downwards = all.clone().rev().skip(done).take(most);
            downwards.try_for_each(&mut take)?;
        }
    }
    Some(all.len() <= done.saturating_add(most))
}

impl<'s, M: Memory, F: File> Source<'s, M, F> {
    pub(crate) fn mem_table(mem_table: &'s MemTable<M>, range: &Range) -> Self {
        Self::resume_mem_table(mem_table, Cursor::new(range, 0..0))
    }

    /// Without a cache every block is read from the file.
    pub(crate) fn run(
        run: &'s Run<F>,
        cache: Option<&'s RefCell<BlockCache<M>>>,
        range: &Range,
    ) -> Self {
        let blocks = run.blocks_of(range.tree, &range.low, &range.high);
        let cursor = Cursor::new(range, blocks);
        let from = From::Run(run, cache);
        Self { from, cursor }
    }

    /// Goes on where a source of the same MemTable was put aside.
    pub(crate) fn resume_mem_table(mem_table: &'s MemTable<M>, cursor: Cursor) -> Self {
        let from = From::MemTable(mem_table);
        Self { from, cursor }
    }

    /// Goes on where a source of the same run was put aside.
    pub(crate) fn resume_run(run: &'s Run<F>, cursor: Cursor) -> Self {
        let from = From::Run(run, None);
        Self { from, cursor }
    }

    /// Fetches entries if none are left, so that [`Cursor::key`] is the next key.
    fn prepare(&mut self) -> Result<()> {
        let cursor = &mut self.cursor;
        while cursor.at == cursor.places.len() && !cursor.ended {
            cursor.keys.clear();
            cursor.places.clear();
            cursor.at = 0;
            match &self.from {
                From::MemTable(mem_table) => cursor.fill_from_mem_table(mem_table)?,
                From::Run(run, cache) => cursor.fill_from_run(run, *cache)?,
            }
        }
        Ok(())
    }

    /// The entry of the key at its position.
    fn entry(&self) -> Result<Entry<'_>> {
        let place = self.cursor.places[self.cursor.at];
        Ok(match (place, &self.from) {
            (Location::Buffer(kind, start, end), _) => (kind, &self.cursor.buffer[start..end]),
            (Location::Pointer(found), From::MemTable(mem_table)) => {
                let kind = pointer::kind(found)?;
                let bytes = if kind == EntryKind::Tombstone {
                    &[]
                } else {
                    pointer::read(&mem_table.arena, found)?
                };
                (kind, bytes)
            }
            (Location::Pointer(found), From::Run(..)) => (pointer::kind(found)?, &[]),
        })
    }
}

/// Several sources, newest first, read as one.
pub(crate) struct MergedSources<'s, M: Memory, F: File> {
    sources: Vec<Source<'s, M, F>>,
    direction: Direction,
    /// The sources that have the key that was visited last, newest first.
    found: Vec<usize>,
}

impl<'s, M: Memory, F: File> MergedSources<'s, M, F> {
    pub(crate) fn new(sources: Vec<Source<'s, M, F>>, direction: Direction) -> Self {
        Self {
            sources,
            direction,
            found: Vec::new(),
        }
    }

    /// Positions of the sources, in their order.
    pub(crate) fn into_cursors(mut self) -> impl Iterator<Item = Cursor> {
        self.advance();
        self.sources.into_iter().map(|source| source.cursor)
    }

    /// Leaves the key that was visited last.
    fn advance(&mut self) {
        for source in self.found.drain(..) {
            self.sources[source].cursor.at += 1;
        }
    }

    /// Visits the next key with its entries from all sources, newest first; none at the end.
    pub(crate) fn next<T>(
        &mut self,
        visit: impl FnOnce(&[u64], &[Entry<'_>]) -> Result<T>,
    ) -> Result<Option<T>> {
        let before = match self.direction {
            Direction::Forward => Ordering::Less,
            Direction::Backward => Ordering::Greater,
        };
        self.advance();
        for source in &mut self.sources {
            source.prepare()?;
        }
        let (sources, found) = (&self.sources, &mut self.found);
        let mut first: Option<&[u64]> = None;
        for (number, source) in sources.iter().enumerate() {
            let Some(key) = source.cursor.key() else {
                continue;
            };
            match first.map_or(before, |first| key.cmp(first)) {
                Ordering::Equal => found.push(number),
                order if order == before => {
                    found.clear();
                    found.push(number);
                    first = Some(key);
                }
                _ => {}
            }
        }
        let Some(key) = first else {
            return Ok(None);
        };
        if let [only] = found[..] {
            return visit(key, &[sources[only].entry()?]).map(Some);
        }
        let entries: Result<Vec<_>> = found.iter().map(|&found| sources[found].entry()).collect();
        visit(key, &entries?).map(Some)
    }
}
