//! Reading the MemTables and the runs of one tree side by side, in the order of their keys.
//!
//! A source is one tree of one MemTable or run; [`MergedSources`] has them newest first and gives for each key what all of them say
//! about it. Nothing changes while a source lives; it borrows what it reads.

use super::mem_table::{MemTable, TreeId};
use super::run::Run;
use crate::engine::Direction;
use crate::error::Result;
use crate::index::OrderedIndex;
use crate::log::VolatileUndo;
use crate::lsm::entry::EntryKind;
use crate::lsm::keys::{decrement, increment};
use crate::lsm::pointer;
use crate::record::{KeyBuf, MAX_KEY_WORDS};
use disk::File;
use pmem::Memory;
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// Entries of a MemTable that are fetched at once.
const FETCH: usize = 32;

/// One entry, owned: what it is and its bytes.
pub(crate) type Entry = (EntryKind, Vec<u8>);

/// Which keys are read, and in which order.
#[derive(Clone)]
pub(crate) struct Range {
    pub(crate) tree: TreeId,
    pub(crate) low: KeyBuf,
    pub(crate) high: KeyBuf,
    pub(crate) direction: Direction,
}

/// Where the entries come from.
enum From<'s, M: Memory, F: File> {
    MemTable(&'s MemTable<M>),
    Run {
        run: &'s Run<F>,
        /// The block to be read next; none at the end.
        block: Option<usize>,
    },
}

/// One tree of one MemTable or run.
pub(crate) struct Source<'s, M: Memory, F: File> {
    from: From<'s, M, F>,
    range: Range,
    /// Keys that were fetched, one after the other, and their entries.
    keys: Vec<u64>,
    entries: Vec<Entry>,
    at: usize,
    ended: bool,
}

impl<'s, M: Memory, F: File> Source<'s, M, F> {
    pub(crate) fn mem_table(mem_table: &'s MemTable<M>, range: &Range) -> Self {
        Self::new(From::MemTable(mem_table), range)
    }

    pub(crate) fn run(run: &'s Run<F>, range: &Range) -> Self {
        let edge = match range.direction {
            Direction::Forward => &range.low,
            Direction::Backward => &range.high,
        };
        let block = run.block_of(range.tree, edge);
        Self::new(From::Run { run, block }, range)
    }

    fn new(from: From<'s, M, F>, range: &Range) -> Self {
        Self {
            from,
            range: range.clone(),
            keys: Vec::new(),
            entries: Vec::new(),
            at: 0,
            ended: range.low > range.high,
        }
    }

    fn words(&self) -> usize {
        self.range.low.len()
    }

    /// The next key; none at the end.
    pub(crate) fn peek(&mut self) -> Result<Option<&[u64]>> {
        while self.at == self.entries.len() && !self.ended {
            self.fill()?;
        }
        let words = self.words();
        Ok(self.keys.get(self.at * words..(self.at + 1) * words))
    }

    /// The entry of the key that [`Source::peek`] gave.
    fn take(&mut self) -> Option<Entry> {
        let entry = self.entries.get_mut(self.at)?;
        self.at += 1;
        Some((entry.0, std::mem::take(&mut entry.1)))
    }

    fn fill(&mut self) -> Result<()> {
        self.keys.clear();
        self.entries.clear();
        self.at = 0;
        match &self.from {
            From::MemTable(mem_table) => self.fill_from_mem_table(mem_table),
            From::Run {
                run,
                block: Some(block),
            } => self.fill_from_run(run, *block),
            From::Run { block: None, .. } => {
                self.ended = true;
                Ok(())
            }
        }
    }

    fn fill_from_mem_table(&mut self, mem_table: &'s MemTable<M>) -> Result<()> {
        let words = self.words();
        let Some(tree) = mem_table.tree(self.range.tree) else {
            self.ended = true;
            return Ok(());
        };
        let (keys, entries) = (&mut self.keys, &mut self.entries);
        OrderedIndex::<M, VolatileUndo>::scan(
            tree,
            &mem_table.arena,
            &self.range.low,
            &self.range.high,
            self.range.direction,
            &mut |key, found| {
                let kind = pointer::kind(found)?;
                let bytes = if kind == EntryKind::Tombstone {
                    Vec::new()
                } else {
                    pointer::read(&mem_table.arena, found)?.to_vec()
                };
                keys.extend_from_slice(key);
                entries.push((kind, bytes));
                Ok(if entries.len() < FETCH {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                })
            },
        )?;
        if self.entries.len() < FETCH {
            self.ended = true;
            return Ok(());
        }
        let last = self.keys[self.keys.len() - words..].to_vec();
        self.pass(&last);
        Ok(())
    }

    /// Takes the keys up to `last` out of the range.
    fn pass(&mut self, last: &[u64]) {
        let range = &mut self.range;
        let has_more = match range.direction {
            Direction::Forward => {
                range.low.assign(last);
                increment(range.low.resized(last.len()))
            }
            Direction::Backward => {
                range.high.assign(last);
                decrement(range.high.resized(last.len()))
            }
        };
        self.ended = !has_more || range.low > range.high;
    }

    fn fill_from_run(&mut self, run: &'s Run<F>, block: usize) -> Result<()> {
        let words = self.words();
        let (keys, entries, range) = (&mut self.keys, &mut self.entries, &self.range);
        let mut passes_end = false;
        run.with_block(block, |found| {
            let mut key = [0; MAX_KEY_WORDS];
            let key = &mut key[..words];
            for step in 0..found.count {
                let index = match range.direction {
                    Direction::Forward => step,
                    Direction::Backward => found.count - 1 - step,
                };
                found.key(index, key)?;
                if *key >= *range.low && *key <= *range.high {
                    let (kind, bytes) = found.entry(index)?;
                    keys.extend_from_slice(key);
                    entries.push((kind, bytes.to_vec()));
                } else {
                    passes_end |= match range.direction {
                        Direction::Forward => *key > *range.high,
                        Direction::Backward => *key < *range.low,
                    };
                }
            }
            Some(())
        })?;
        let next = match self.range.direction {
            Direction::Forward => Some(block + 1),
            Direction::Backward => block.checked_sub(1),
        };
        let tree = self.range.tree;
        let next = next.filter(|next| run.place(*next).is_some_and(|place| place.tree == tree));
        self.from = From::Run {
            run,
            block: next.filter(|_| !passes_end),
        };
        Ok(())
    }
}

/// Several sources, newest first, read as one.
pub(crate) struct MergedSources<'s, M: Memory, F: File> {
    sources: Vec<Source<'s, M, F>>,
    direction: Direction,
}

impl<'s, M: Memory, F: File> MergedSources<'s, M, F> {
    pub(crate) fn new(sources: Vec<Source<'s, M, F>>, direction: Direction) -> Self {
        Self { sources, direction }
    }

    /// The next key in `key`, and in `entries` what the sources say about it, newest first; false at the end.
    pub(crate) fn next(&mut self, key: &mut KeyBuf, entries: &mut Vec<Entry>) -> Result<bool> {
        let before = match self.direction {
            Direction::Forward => Ordering::Less,
            Direction::Backward => Ordering::Greater,
        };
        let mut found = false;
        for source in &mut self.sources {
            if let Some(next) = source.peek()?
                && (!found || next.cmp(key) == before)
            {
                key.assign(next);
                found = true;
            }
        }
        entries.clear();
        if found {
            for source in &mut self.sources {
                if source.peek()?.is_some_and(|next| *next == **key) {
                    entries.extend(source.take());
                }
            }
        }
        Ok(found)
    }
}
