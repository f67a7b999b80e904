//! Reading one tree of a partition of `log`: the entries of the MemTables and the runs for a key,
//! newest first, and all keys of a range.
//!
//! A lookup searches the MemTables, then those runs whose filter may have the key, and stops at the
//! first entry that is no delta. Blocks of runs come through the partition's cache.
//!
//! Entries are lent to a closure, because a block may leave the cache with the next one that is
//! read; the closure must not read runs itself.

use super::block_cache::BlockCache;
use super::mem_table::{MemTable, TreeId};
use super::run::tree_hash;
use super::sources::{Entry, MergedSources, Range, Source};
use super::store::{LeveledRun, damaged, read_image, unreadable};
use crate::lsm::entry::{EntryKind, apply_delta};
use crate::lsm::filter::Filters;
use crate::lsm::pointer;
use disk::File;
use pmem::{Memory, MemorySource};
use std::cell::RefCell;
use std::ops::ControlFlow;
use storage::Result;
use storage::record::{KeyBuf, Row};

/// Keys that are looked up side by side.
const TOGETHER: usize = 16;

/// Everything that a tree's entries lie in, for reading.
#[derive(Clone, Copy)]
pub(super) struct Runs<'r, S: MemorySource, F: File> {
    pub(super) active: &'r MemTable<S::Memory>,
    pub(super) full: Option<&'r MemTable<S::Memory>>,
    pub(super) in_files: &'r [LeveledRun<F>],
    pub(super) filters: &'r Filters<S::Memory>,
    pub(super) cache: &'r RefCell<BlockCache<S::Memory>>,
}

/// Called with one run's entry for a key.
type Look<'l> = &'l mut dyn FnMut(EntryKind, &[u8]) -> Result<ControlFlow<()>>;

/// Called with a key and all entries for it, newest first.
type VisitEntries<'v> = &'v mut dyn FnMut(&[u64], &[Entry<'_>]) -> Result<ControlFlow<()>>;

impl<S: MemorySource, F: File> Runs<'_, S, F> {
    /// Calls `look` with the entries for a key, newest first, until it breaks.
    #[inline]
    fn look(&self, tree: TreeId, key: &[u64], look: Look<'_>) -> Result<()> {
        let newest = self.active.get(tree, key)?;
        self.look_from((newest, None), tree, key, look)
    }

    /// As [`Runs::look`], where `newest` is the entry of the active MemTable, and `block` the run
    /// and the block in which the key may lie: newer runs do not have it.
    #[inline]
    fn look_from(
        &self,
        (newest, block): (Option<u64>, Option<(usize, usize)>),
        tree: TreeId,
        key: &[u64],
        look: Look<'_>,
    ) -> Result<()> {
        if let Some(found) = newest
            && look_at(self.active, found, look)?.is_break()
        {
            return Ok(());
        }
        if let Some(full) = self.full
            && let Some(found) = full.get(tree, key)?
            && look_at(full, found, look)?.is_break()
        {
            return Ok(());
        }
        let hash = tree_hash(tree, key);
        let first = block.map_or(0, |(run, _)| run);
        for (number, leveled) in self.in_files.iter().enumerate().skip(first) {
            let found = match block {
                Some((run, block)) if run == number => {
                    leveled.run.get_in(self.cache, block, key, &mut *look)?
                }
                _ if !self.filters.may_have(leveled.run.filter, hash)? => continue,
                _ => leveled.run.get(self.cache, tree, key, &mut *look)?,
            };
            if let Some(flow) = found
                && flow?.is_break()
            {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Kind and length of the newest entry for a key.
    pub(super) fn newest(&self, tree: TreeId, key: &[u64]) -> Result<Option<(EntryKind, usize)>> {
        let mut newest = None;
        self.look(tree, key, &mut |kind, bytes| {
            newest = Some((kind, bytes.len()));
            Ok(ControlFlow::Break(()))
        })?;
        Ok(newest)
    }

    /// Copies the row with this key into `row`; false if there is none.
    #[inline]
    pub(super) fn read(&self, tree: TreeId, key: &[u64], row: &mut Row) -> Result<bool> {
        let newest = self.active.get(tree, key)?;
        self.read_from((newest, None), tree, key, row)
    }

    /// Looks several keys up, so that the cache misses of their search in the active MemTable, and
    /// of the first steps after it, overlap.
    pub(super) fn read_many(
        &self,
        tree: TreeId,
        keys: &[KeyBuf],
        row: &mut Row,
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        for (group, keys) in keys.chunks(TOGETHER).enumerate() {
            let mut newest = [None; TOGETHER];
            self.active
                .get_many(tree, keys, &mut newest[..keys.len()])?;
            let mut blocks = [None; TOGETHER];
            for ((key, found), block) in keys.iter().zip(newest).zip(&mut blocks) {
                match found {
                    Some(found) => self
                        .active
                        .arena
                        .prefetch(pointer::block(found), row.layout().tuple_bytes()),
                    None => *block = self.prefetch(tree, key)?,
                }
            }
            for (place, key) in keys.iter().enumerate() {
                let begin = (newest[place], blocks[place]);
                let is_row = self.read_from(begin, tree, key, row)?;
                visit(group * TOGETHER + place, is_row.then_some(&*row));
            }
        }
        Ok(())
    }

    /// The first run that may have a key, and the block in which it may lie there, whose beginning
    /// is prefetched.
    fn prefetch(&self, tree: TreeId, key: &[u64]) -> Result<Option<(usize, usize)>> {
        let hash = tree_hash(tree, key);
        for (number, leveled) in self.in_files.iter().enumerate() {
            if self.filters.may_have(leveled.run.filter, hash)? {
                let block = leveled.run.prefetch(self.cache, tree, key);
                return Ok(block.map(|block| (number, block)));
            }
        }
        Ok(None)
    }

    #[inline]
    fn read_from(
        &self,
        begin: (Option<u64>, Option<(usize, usize)>),
        tree: TreeId,
        key: &[u64],
        row: &mut Row,
    ) -> Result<bool> {
        let mut deltas: Vec<Vec<u8>> = Vec::new();
        let mut found = false;
        self.look_from(begin, tree, key, &mut |kind, bytes| {
            match kind {
                EntryKind::Tombstone => {}
                EntryKind::Row => {
                    read_image(bytes, row)?;
                    found = true;
                }
                EntryKind::Delta => {
                    deltas.push(bytes.to_vec());
                    return Ok(ControlFlow::Continue(()));
                }
            }
            Ok(ControlFlow::Break(()))
        })?;
        if !found && !deltas.is_empty() {
            return Err(damaged("an entry changes a row that is not there"));
        }
        for delta in deltas.iter().rev() {
            apply_delta(delta, row).map_err(|error| unreadable(&error))?;
        }
        Ok(found)
    }

    /// Visits the keys of a range with their entries, newest first.
    pub(super) fn scan(&self, range: &Range, visit: VisitEntries<'_>) -> Result<()> {
        if range.low > range.high {
            return Ok(());
        }
        let mut sources: Vec<_> = std::iter::once(self.active)
            .chain(self.full)
            .map(|mem_table| Source::mem_table(mem_table, range))
            .collect();
        let runs = self.in_files.iter();
        sources.extend(runs.map(|leveled| Source::run(&leveled.run, Some(self.cache), range)));
        let mut merged = MergedSources::new(sources, range.direction);
        while let Some(flow) = merged.next(&mut *visit)? {
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// Lends the entry that a MemTable's pointer leads to.
#[inline]
fn look_at<M: Memory>(
    mem_table: &MemTable<M>,
    found: u64,
    look: Look<'_>,
) -> Result<ControlFlow<()>> {
    let kind = pointer::kind(found)?;
    let bytes = if kind == EntryKind::Tombstone {
        &[]
    } else {
        pointer::read(&mem_table.arena, found)?
    };
    look(kind, bytes)
}
