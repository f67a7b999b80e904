//! Compaction in durable memory: full MemTables go down, and levels are merged, a leaf at a time.
//!
//! Each commit does its share before it ends, in its own transaction: so a step costs no fence of
//! its own, a crash undoes it whole or keeps it whole, and which step is next stands in the pool.
//! Nothing has to be cleaned up after a crash and nothing is rebuilt; opening goes on where the
//! last commit stopped. The share grows with what the commit wrote ([`Levels::maintain`]), so no
//! writer waits for a merge and no merge falls behind. We do this instead of a thread of its own
//! because a partition's heap and log have one owner at a time; a second one would have to lock
//! both for each leaf.
//!
//! | from | step | to |
//! |---|---|---|
//! | plain, no run | the tree above becomes the run | plain |
//! | plain, a run | the tree above becomes upper, an empty tree output | starting |
//! | starting, merging | the next keys of upper and run go to output as one leaf; | merging |
//! | | the entries that they replace are freed; the frontier moves | |
//! | merging, nothing left | output becomes the run, the run output: they swap roots | draining |
//! | draining | upper and output lose their first leaf each | draining, in the end plain |
//!
//! The merge itself is published leaf by leaf by the frontier, and as a whole by the swap of two
//! root words.

use super::cursor::first_entries;
use super::levels::{LEVELS, Levels, State, Words, damaged, unreadable};
use crate::index::{NvBptree, bytes_of};
use crate::lsm::entry::{EntryKind, merge_deltas};
use crate::lsm::filter::{Filters, hash};
use crate::lsm::keys::increment;
use crate::lsm::pointer as entry;
use pmem::{Arena, Memory};
use storage::Result;
use storage::engine::Direction;
use storage::log::{NvWriteSet, WriteSet};
use storage::record::{MAX_KEY_WORDS, Row};

/// Bytes that a step writes as new entries before it ends with a leaf that is not full.
const STEP_BYTES_MAX: usize = 16 << 10;
/// Steps of one level in a commit of one row; longer transactions do more.
const STEPS_MAX: u64 = 4;
/// Keys for which a MemTable's filter is made, for each so many bytes of a full one.
const FILTER_KEY_BYTES: u64 = 256;

/// Sizes of MemTables and runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LevelSizes {
    /// Bytes of entries after which a MemTable is full.
    pub(crate) memtable_bytes: u64,
    /// Ratio of a level's size to that of the level above it.
    pub(crate) growth: u64,
}

/// Buffers of merges.
pub(super) struct MergeBuffers {
    pub(super) row: Row,
    pub(super) image: Vec<u8>,
    upper: Vec<u64>,
    run: Vec<u64>,
    output: Vec<u64>,
}

impl MergeBuffers {
    pub(super) fn new(row: Row) -> Self {
        Self {
            row,
            image: Vec::new(),
            upper: Vec::new(),
            run: Vec::new(),
            output: Vec::new(),
        }
    }
}

/// The pool and its companions, as a merge needs them.
pub(super) struct Pool<'p, M: Memory> {
    pub(super) arena: &'p mut Arena<M>,
    pub(super) log: &'p mut NvWriteSet,
    pub(super) filters: &'p mut Filters<M>,
}

impl Levels {
    /// Does the share of compaction that belongs to a commit which has written `written` entries of
    /// this table.
    ///
    /// A level that merges `u` new entries into `r` old ones has until `u` more have come from
    /// above, so each written entry pays for a little more than `2 * (u + r) / u`: one half merges,
    /// the other drains.
    pub(super) fn maintain<M: Memory>(
        &mut self,
        pool: &mut Pool<'_, M>,
        buffers: &mut MergeBuffers,
        sizes: LevelSizes,
        written: u64,
    ) -> Result<()> {
        self.save_size(pool.arena, pool.log, sizes.memtable_bytes)?;
        if self.bytes >= sizes.memtable_bytes && self.below[0].state == State::Plain {
            self.freeze(pool, sizes)?;
        }
        let leaf = self.active.leaf_entries() as u64;
        for index in 0..self.depth {
            self.push_down(pool, sizes, index)?;
            let level = &mut self.below[index];
            if level.state == State::Plain {
                level.credit = 0;
                continue;
            }
            let all = level.upper_entries + level.run_entries;
            let rate = 2 * all / level.upper_entries.max(1) + 2;
            level.credit = (level.credit + written * rate).min(leaf * (STEPS_MAX + written));
            let mut steps = (STEPS_MAX + written / 4).min(level.credit / leaf);
            while steps > 0 && self.below[index].state != State::Plain {
                self.step(pool, buffers, index)?;
                self.below[index].credit = self.below[index].credit.saturating_sub(leaf);
                steps -= 1;
            }
        }
        Ok(())
    }

    /// Does one step of any unfinished merge; false if there is none.
    pub(super) fn settle<M: Memory>(
        &mut self,
        pool: &mut Pool<'_, M>,
        buffers: &mut MergeBuffers,
        sizes: LevelSizes,
    ) -> Result<bool> {
        for index in 0..self.depth {
            self.push_down(pool, sizes, index)?;
            if self.below[index].state != State::Plain {
                self.step(pool, buffers, index)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes the MemTable immutable and begins a new one.
    fn freeze<M: Memory>(&mut self, pool: &mut Pool<'_, M>, sizes: LevelSizes) -> Result<()> {
        // Entries of the MemTable may have changes that are kept back as well.
        pool.log.visible_all(pool.arena)?;
        self.stop_refill(pool.filters)?;
        let root = pool.arena.word(self.active.root_word())?;
        let filter = self.active_filter.take();
        self.full_entries = self.entries;
        self.take_over(pool, 0, root, self.entries, filter)?;
        self.active.restart(pool.arena, pool.log)?;
        self.begin_filter(pool.filters, sizes);
        (self.entries, self.bytes) = (0, 0);
        self.write_size(pool.arena, pool.log)
    }

    /// Gives the MemTable, which is empty, a filter; without space it has none.
    pub(super) fn begin_filter<M: Memory>(&mut self, filters: &mut Filters<M>, sizes: LevelSizes) {
        self.active_filter = filters.make(mem_table_keys(sizes)).ok();
    }

    /// Hands a run that is too large to the next level.
    fn push_down<M: Memory>(
        &mut self,
        pool: &mut Pool<'_, M>,
        sizes: LevelSizes,
        index: usize,
    ) -> Result<()> {
        let level = &self.below[index];
        let factor = sizes.growth.saturating_pow(index as u32 + 1);
        let limit = self.full_entries.max(1).saturating_mul(factor);
        let fits = level.run_entries <= limit;
        let is_last = index + 1 == LEVELS;
        if level.state != State::Plain || !level.has_run || fits || is_last {
            return Ok(());
        }
        if self.below[index + 1].state != State::Plain {
            return Ok(());
        }
        self.stop_refill(pool.filters)?;
        let level = &self.below[index];
        pool.log.visible(pool.arena, level.run.root_word())?;
        let root = pool.arena.word(level.run.root_word())?;
        let (entries, filter) = (level.run_entries, level.run_filter);
        self.take_over(pool, index + 1, root, entries, filter)?;
        self.write_word(pool, index, Words::RunRoot, 0)?;
        self.write_word(pool, index, Words::RunEntries, 0)?;
        let level = &mut self.below[index];
        level.has_run = false;
        level.run_entries = 0;
        level.run_filter = None;
        Ok(())
    }

    /// Puts a tree from above into a level that is plain: as its run, or, if it has one, as the
    /// upper tree of a merge.
    fn take_over<M: Memory>(
        &mut self,
        pool: &mut Pool<'_, M>,
        index: usize,
        root: u64,
        entries: u64,
        filter: Option<crate::lsm::filter::Filter>,
    ) -> Result<()> {
        self.stop_refill(pool.filters)?;
        self.lacks_filters = true;
        self.depth = self.depth.max(index + 1);
        if !self.below[index].has_run {
            self.write_word(pool, index, Words::RunRoot, root)?;
            self.write_word(pool, index, Words::RunEntries, entries)?;
            let level = &mut self.below[index];
            (level.has_run, level.run_entries, level.run_filter) = (true, entries, filter);
            return Ok(());
        }
        self.write_word(pool, index, Words::UpperRoot, root)?;
        self.write_word(pool, index, Words::UpperEntries, entries)?;
        self.write_word(pool, index, Words::OutputEntries, 0)?;
        self.write_word(pool, index, Words::State, State::Starting as u64)?;
        self.below[index].output.restart(pool.arena, pool.log)?;
        let is_bottom = self.is_bottom(index);
        let level = &mut self.below[index];
        (level.upper_entries, level.upper_filter) = (entries, filter);
        level.output_entries = 0;
        level.state = State::Starting;
        level.credit = 0;
        if !is_bottom {
            let keys = entries + level.run_entries;
            level.output_filter = pool.filters.make(keys).ok();
        }
        Ok(())
    }

    fn step<M: Memory>(
        &mut self,
        pool: &mut Pool<'_, M>,
        buffers: &mut MergeBuffers,
        index: usize,
    ) -> Result<()> {
        match self.below[index].state {
            State::Plain => Ok(()),
            State::Starting | State::Merging => self.merge_leaf(pool, buffers, index),
            State::Draining => self.drain_leaf(pool, index),
        }
    }

    /// Moves the next keys of upper and run to output.
    fn merge_leaf<M: Memory>(
        &mut self,
        pool: &mut Pool<'_, M>,
        buffers: &mut MergeBuffers,
        index: usize,
    ) -> Result<()> {
        let words = self.key_words();
        let level = &self.below[index];
        for tree in [&level.upper, &level.run, &level.output] {
            pool.log.visible(pool.arena, tree.root_word())?;
        }
        let mut low = [0; MAX_KEY_WORDS];
        let low = &mut low[..words];
        if level.state == State::Merging {
            low.copy_from_slice(&level.frontier);
            if !increment(low) {
                return self.finish(pool, index);
            }
        }
        // Entries that are collected and not used are collected again by the next step, so fewer of
        // the smaller tree are asked for.
        let limit = self.active.leaf_entries();
        let all = (level.upper_entries + level.run_entries).max(1);
        let share = |entries: u64| {
            let usual = limit as u64 * entries / all;
            limit.min(2 * usual as usize + 4)
        };
        let (newer, older) = (share(level.upper_entries), share(level.run_entries));
        let upper_ends = collect(pool.arena, &level.upper, low, newer, &mut buffers.upper)?;
        let run_ends = collect(pool.arena, &level.run, low, older, &mut buffers.run)?;
        if buffers.upper.is_empty() && buffers.run.is_empty() {
            return self.finish(pool, index);
        }
        let ends = (upper_ends, run_ends);
        let consumed = self.merge_chunks(pool, buffers, ends, self.is_bottom(index))?;
        self.publish(pool, buffers, index, &consumed)
    }

    /// Merges the collected entries until a leaf is full or more have to be collected. The result
    /// goes to `buffers.output`; the last key that is done is returned.
    fn merge_chunks<M: Memory>(
        &self,
        pool: &mut Pool<'_, M>,
        buffers: &mut MergeBuffers,
        (upper_ends, run_ends): (bool, bool),
        is_bottom: bool,
    ) -> Result<Vec<u64>> {
        let words = self.key_words();
        let entry_words = words + 1;
        let (upper, run) = (
            std::mem::take(&mut buffers.upper),
            std::mem::take(&mut buffers.run),
        );
        buffers.output.clear();
        let (mut at_upper, mut at_run, mut written) = (0, 0, 0);
        let mut last = Vec::new();
        while buffers.output.len() < self.active.leaf_entries() * entry_words {
            let newer = upper.get(at_upper..at_upper + entry_words);
            let older = run.get(at_run..at_run + entry_words);
            let must_fetch = (newer.is_none() && !upper_ends) || (older.is_none() && !run_ends);
            if must_fetch || written >= STEP_BYTES_MAX {
                break;
            }
            let (key, pointer) = match (newer, older) {
                (Some(newer), Some(older)) if newer[..words] == older[..words] => {
                    at_upper += entry_words;
                    at_run += entry_words;
                    let pair = (newer[words], older[words]);
                    let (pointer, bytes) = self.combine(pool, buffers, pair)?;
                    written += bytes;
                    (newer, pointer)
                }
                (Some(newer), older) if older.is_none_or(|older| newer < older) => {
                    at_upper += entry_words;
                    (newer, newer[words])
                }
                (_, Some(older)) => {
                    at_run += entry_words;
                    (older, older[words])
                }
                (_, None) => break,
            };
            last.clear();
            last.extend_from_slice(&key[..words]);
            if !(is_bottom && pointer == entry::TOMBSTONE) {
                buffers.output.extend_from_slice(&key[..words]);
                buffers.output.push(pointer);
            }
        }
        buffers.upper = upper;
        buffers.run = run;
        Ok(last)
    }

    /// Makes one entry of two for the same key, frees the blocks that are not needed, and says how
    /// many bytes were written.
    fn combine<M: Memory>(
        &self,
        pool: &mut Pool<'_, M>,
        buffers: &mut MergeBuffers,
        (newer, older): (u64, u64),
    ) -> Result<(u64, usize)> {
        let Pool { arena, log, .. } = pool;
        if entry::kind(newer)? != EntryKind::Delta {
            entry::free(arena, *log, older)?;
            return Ok((newer, 0));
        }
        let image = &mut buffers.image;
        image.clear();
        image.resize(entry::HEADER_BYTES, 0);
        let kind = entry::kind(older)?;
        match kind {
            EntryKind::Tombstone => {
                return Err(damaged(newer, "it changes a row that is not there"));
            }
            EntryKind::Row => {
                self.coalesce(arena, &[newer, older], &mut buffers.row)?;
                buffers.row.write_image(image);
            }
            EntryKind::Delta => {
                let (older_bytes, newer_bytes) =
                    (entry::read(arena, older)?, entry::read(arena, newer)?);
                merge_deltas(older_bytes, newer_bytes, image)
                    .map_err(|error| unreadable(newer, &error))?;
            }
        }
        let pointer = entry::stage(arena, *log, self.owner, kind, image)?;
        entry::free(arena, *log, newer)?;
        entry::free(arena, *log, older)?;
        Ok((pointer, image.len()))
    }

    /// Appends `buffers.output` to output and moves the frontier to `last`.
    fn publish<M: Memory>(
        &mut self,
        pool: &mut Pool<'_, M>,
        buffers: &MergeBuffers,
        index: usize,
        last: &[u64],
    ) -> Result<()> {
        let words = self.key_words();
        let entries: Vec<&[u64]> = buffers.output.chunks_exact(words + 1).collect();
        let level = &mut self.below[index];
        if !entries.is_empty() {
            level.output.append_leaf(pool.arena, pool.log, &entries)?;
        }
        if let Some(filter) = level.output_filter {
            for entry in &entries {
                pool.filters.add(filter, hash(&entry[..words]))?;
            }
        }
        level.output_entries += entries.len() as u64;
        level.frontier.assign(last);
        let mut image = bytes_of(&[level.output_entries]);
        image.extend_from_slice(&bytes_of(last));
        let at = level.word(Words::OutputEntries);
        pool.log.write(pool.arena, at, &image)?;
        if level.state == State::Starting {
            level.state = State::Merging;
            self.write_word(pool, index, Words::State, State::Merging as u64)?;
        }
        Ok(())
    }

    /// Swaps run and output: the merge is over.
    fn finish<M: Memory>(&mut self, pool: &mut Pool<'_, M>, index: usize) -> Result<()> {
        let level = &self.below[index];
        let (run, output) = (
            pool.arena.word(level.run.root_word())?,
            pool.arena.word(level.output.root_word())?,
        );
        let entries = level.output_entries;
        self.write_word(pool, index, Words::RunRoot, output)?;
        self.write_word(pool, index, Words::OutputRoot, run)?;
        self.write_word(pool, index, Words::RunEntries, entries)?;
        self.write_word(pool, index, Words::State, State::Draining as u64)?;
        let level = &mut self.below[index];
        level.state = State::Draining;
        level.run_entries = entries;
        let dead = [level.upper_filter.take(), level.run_filter.take()];
        level.run_filter = level.output_filter.take();
        for filter in dead.into_iter().flatten() {
            pool.filters.free(filter)?;
        }
        Ok(())
    }

    /// Frees the first leaf of each of the two trees that nobody reads any more.
    fn drain_leaf<M: Memory>(&mut self, pool: &mut Pool<'_, M>, index: usize) -> Result<()> {
        let level = &self.below[index];
        let mut is_over = true;
        for tree in [&level.upper, &level.output] {
            pool.log.visible(pool.arena, tree.root_word())?;
            if pool.arena.word(tree.root_word())? != 0 {
                is_over &= !tree.drop_first_leaf(pool.arena, pool.log)?;
            }
        }
        if is_over {
            self.below[index].state = State::Plain;
            self.write_word(pool, index, Words::State, State::Plain as u64)?;
        }
        Ok(())
    }

    fn write_word<M: Memory>(
        &self,
        pool: &mut Pool<'_, M>,
        index: usize,
        word: Words,
        value: u64,
    ) -> Result<()> {
        let at = self.below[index].word(word);
        pool.log.write(pool.arena, at, &value.to_le_bytes())?;
        WriteSet::<M>::touch(pool.log, at);
        Ok(())
    }
}

/// Keys for which a MemTable's filter is made.
pub(super) fn mem_table_keys(sizes: LevelSizes) -> u64 {
    sizes.memtable_bytes / FILTER_KEY_BYTES
}

/// Copies up to `limit` entries of a tree from `low` on; whether these are all.
pub(super) fn collect<M: Memory>(
    arena: &Arena<M>,
    tree: &NvBptree,
    low: &[u64],
    limit: usize,
    entries: &mut Vec<u64>,
) -> Result<bool> {
    let high = [u64::MAX; MAX_KEY_WORDS];
    let way = ((low, &high[..low.len()]), Direction::Forward);
    let count = first_entries(arena, tree, way, limit, entries)?;
    Ok(count < limit)
}
