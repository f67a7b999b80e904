//! Flushes and merges, in steps: copies the entries of a full MemTable, or of some runs, to a new
//! run.
//!
//! Between two steps a job is at a position between two keys. A step goes on there and copies a
//! bounded number of bytes. Between steps the job holds the file that is being written, and the
//! cursors of its sources, which nobody changes while the job lives. Nobody reads that file before
//! it is finished and a manifest names it, so a crash leaves an orphan, and a full disk nothing at
//! all. Steps are driven by commits (`maintain`), which makes them the same in every run of a test;
//! a thread of its own would have to share runs and files with a partition that has one owner.
//!
//! States: *copying* → (`step` says that nothing is left) *copied* → (`finish`) a run, not
//! published.

use super::mem_table::TreeId;
use super::run::{Run, RunWriter};
use super::sources::{Cursor, Entry, MergedSources, Range, Source};
use super::store::{Store, TableTrees, coalesce, unreadable};
use crate::lsm::entry::{EntryKind, merge_deltas};
use disk::{Directory, File};
use pmem::{MemorySource, PmemError};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use storage::engine::Direction;
use storage::log::LogIdentity;
use storage::record::{KeyBuf, MAX_KEY_WORDS, Row};
use storage::table::Table;
use storage::{Result, StorageError};

/// Keys for which a run's filter is made, at most: beyond, it gets fewer bits a key.
const FILTER_KEYS_MAX: u64 = 1 << 27;

/// Source of a job's copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// The full MemTable.
    Full,
    /// The runs of these numbers, newest first, which become the run of this level.
    Runs { numbers: Vec<u64>, level: u32 },
}

/// A flush or a merge.
pub(crate) struct Job<F: File> {
    pub(crate) input: Input,
    writer: RunWriter<F>,
    /// Trees that are left; the first one is being copied.
    trees: VecDeque<TreeId>,
    /// Positions of the sources of the first tree; none if it has not begun.
    cursors: Vec<Cursor>,
    /// A row, and an entry that was made of several.
    buffers: Option<(Row, Vec<u8>)>,
    /// Whether nothing older is left out, so that tombstones are not needed any more.
    is_bottom: bool,
    /// The definitions that the manifest will have. Trees that they do not have are dropped.
    tables: Vec<TableTrees>,
    /// Bytes that are to be copied.
    pub(crate) total_bytes: u64,
}

impl<F: File> Job<F> {
    /// Begins a job whose run gets the number `number`.
    pub(crate) fn begin<S: MemorySource, D: Directory<File = F>>(
        store: &mut Store<S, F>,
        directory: &D,
        identity: LogIdentity,
        number: u64,
        input: Input,
        tables: Vec<TableTrees>,
    ) -> Result<Self> {
        let mut trees = BTreeSet::new();
        let (mut keys, mut total_bytes) = (0, 0);
        let mut is_bottom = false;
        match &input {
            Input::Full => {
                is_bottom = store.runs.is_empty();
                if let Some(full) = &store.full {
                    trees.extend(full.tree_ids());
                    total_bytes = full.sizes.held_bytes;
                    keys = full.sizes.entries;
                }
            }
            Input::Runs { numbers, .. } => {
                for leveled in &store.runs {
                    if numbers.contains(&leveled.run.number) {
                        trees.extend(leveled.run.trees());
                        total_bytes += leveled.run.bytes;
                        keys += leveled.run.entries;
                    }
                }
                is_bottom |= store
                    .runs
                    .last()
                    .is_some_and(|last| numbers.contains(&last.run.number));
            }
        }
        let keys = keys.min(FILTER_KEYS_MAX);
        let writer = RunWriter::create(directory, &mut store.filters, identity, number, keys)?;
        Ok(Self {
            input,
            writer,
            trees: trees.into_iter().collect(),
            cursors: Vec::new(),
            buffers: None,
            is_bottom,
            tables,
            total_bytes,
        })
    }

    /// Copies about `bytes`; true if nothing is left.
    pub(crate) fn step<S: MemorySource>(
        &mut self,
        store: &mut Store<S, F>,
        bytes: u64,
    ) -> Result<bool> {
        let end = self.writer.bytes() + bytes;
        let mut copied = 0;
        while let Some(&tree) = self.trees.front() {
            if self.writer.bytes() >= end || copied >= bytes {
                return Ok(false);
            }
            let left = bytes - copied;
            let Some((table, words)) = self.find(tree) else {
                self.pass_tree();
                continue;
            };
            copied += self.copy_tree(store, tree, (&table, words), left)?;
        }
        Ok(true)
    }

    /// The table of a tree, and the words of its keys.
    fn find(&self, tree: TreeId) -> Option<(Arc<Table>, usize)> {
        self.tables.iter().find_map(|entry| {
            let number = entry.trees.iter().position(|id| *id == tree)?;
            let encoder = entry.table.encoder(number.checked_sub(1));
            Some((Arc::clone(&entry.table), encoder.shape().words))
        })
    }

    fn pass_tree(&mut self) {
        self.trees.pop_front();
        self.cursors.clear();
        self.buffers = None;
    }

    /// Copies entries of one tree until `bytes` are copied or it ends; how many were.
    fn copy_tree<S: MemorySource>(
        &mut self,
        store: &mut Store<S, F>,
        tree: TreeId,
        (table, words): (&Arc<Table>, usize),
        bytes: u64,
    ) -> Result<u64> {
        let range = Range {
            tree,
            low: KeyBuf::from_words(&[0; MAX_KEY_WORDS][..words]),
            high: KeyBuf::from_words(&[u64::MAX; MAX_KEY_WORDS][..words]),
            direction: Direction::Forward,
        };
        let mut cursors = self.cursors.drain(..);
        let sources = match &self.input {
            Input::Full => store
                .full
                .iter()
                .map(|full| match cursors.next() {
                    Some(cursor) => Source::resume_mem_table(full, cursor),
                    None => Source::mem_table(full, &range),
                })
                .collect(),
            Input::Runs { numbers, .. } => store
                .runs
                .iter()
                .filter(|leveled| numbers.contains(&leveled.run.number))
                .map(|leveled| match cursors.next() {
                    Some(cursor) => Source::resume_run(&leveled.run, cursor),
                    None => Source::run(&leveled.run, None, &range),
                })
                .collect(),
        };
        drop(cursors);
        let filters = &mut store.filters;
        let mut merged: MergedSources<'_, S::Memory, F> =
            MergedSources::new(sources, Direction::Forward);
        let new = || (Row::new(Arc::clone(&table.layout)), Vec::new());
        let (row, image) = self.buffers.get_or_insert_with(new);
        let (writer, is_bottom) = (&mut self.writer, self.is_bottom);
        let mut copied = 0;
        while copied < bytes {
            let next = merged.next(|key, entries| {
                let entry_bytes: usize = entries.iter().map(|(_, bytes)| bytes.len()).sum();
                let (kind, image) = combine(entries, row, image)?;
                if !(is_bottom && kind == EntryKind::Tombstone) {
                    writer.add(filters, tree, key, kind, image)?;
                }
                Ok((entry_bytes + key.len() * 8) as u64 + 16)
            })?;
            let Some(next) = next else {
                self.pass_tree();
                return Ok(copied);
            };
            copied += next;
        }
        self.cursors.extend(merged.into_cursors());
        Ok(copied)
    }

    /// Makes the file durable, but for its name.
    pub(crate) fn finish<S: MemorySource>(self, store: &mut Store<S, F>) -> Result<Run<F>> {
        let filter = self.writer.filter();
        let finished = self.writer.finish(&store.filters);
        if finished.is_err() {
            store.filters.free(filter)?;
        }
        finished
    }

    /// The number of the run that is written.
    pub(crate) fn number(&self) -> u64 {
        self.writer.number()
    }

    /// Gives up: the caller removes the file.
    pub(crate) fn abandon<S: MemorySource>(self, store: &mut Store<S, F>) -> Result<u64> {
        store.filters.free(self.writer.filter())?;
        Ok(self.writer.number())
    }
}

/// Makes one entry of all entries for a key, newest first. `image` takes it if it is a new one.
fn combine<'e>(entries: &[Entry<'e>], row: &mut Row, image: &'e mut Vec<u8>) -> Result<Entry<'e>> {
    let deltas = entries
        .iter()
        .take_while(|(kind, _)| *kind == EntryKind::Delta)
        .count();
    if deltas == 0 || (deltas == 1 && entries.len() == 1) {
        return Ok(entries[0]);
    }
    image.clear();
    match entries.get(deltas).map(|(kind, _)| *kind) {
        Some(EntryKind::Row) => {
            coalesce(entries, row)?;
            row.write_image(image);
            Ok((EntryKind::Row, image))
        }
        None => {
            image.extend_from_slice(entries[deltas - 1].1);
            for (_, newer) in entries[..deltas - 1].iter().rev() {
                let mut merged = Vec::new();
                merge_deltas(image, newer, &mut merged).map_err(|error| unreadable(&error))?;
                *image = merged;
            }
            Ok((EntryKind::Delta, image))
        }
        Some(EntryKind::Tombstone | EntryKind::Delta) => {
            let detail = "an entry changes a row that is not there";
            Err(StorageError::from(PmemError::corrupted("run", 0, detail)))
        }
    }
}
