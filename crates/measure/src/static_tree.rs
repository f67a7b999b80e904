//! The same list of transactions on a search tree that never changes, over rows in durable memory:
//! for scale.
//!
//! A durable update is reduced to its steps on the medium: a record with the old column and a
//! fence, the column and a fence, the commit word and a fence. Nothing is inserted, aborted,
//! checked or recovered. So the distance to this row is the cost of a database beside its tree and
//! its fences, on this machine and in this minute.
//!
//! ```text
//! levels  sorted keys | the first key of each node below | ... in nodes of 16 keys, each level
//!         padded with the largest key
//! pool    blocks of 8192 rows in key order | commit word | record
//! ```

use crate::run::{Limit, Measured};
use crate::store::{Content, measure_stores};
use anyhow::Result;
use pmem::{
    Arena, MemorySource, NativeMemory, NativeOptions, NativeSource, Owner, POOL_BYTES_MIN, Part,
    PmemError, PoolIdentity, PoolKind, Primitive, site,
};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use workload::ycsb::{COLUMN_BYTES, Change, Contents, ROW_BYTES, Store, Ycsb};

/// Kind of the pools.
const POOL_KIND: PoolKind = PoolKind(0x7374_6174);
/// Keys of a node: two lines.
const NODE_KEYS: usize = 16;
/// Rows of one block of the pool.
const BLOCK_ROWS: usize = 8192;
/// From one row to the next: whole lines.
const ROW_STRIDE: usize = ROW_BYTES.next_multiple_of(64);
/// A record: the row's offset, the column, its old bytes.
const RECORD_BYTES: usize = (16 + COLUMN_BYTES).next_multiple_of(64);

/// The rows of one partition.
struct Tree {
    arena: Arena<NativeMemory>,
    /// Nodes of each level, the leaves first.
    levels: Vec<Vec<u64>>,
    blocks: Vec<u64>,
    commit_word: u64,
    record: u64,
    commits: u64,
}

impl Tree {
    fn new(source: &NativeSource, partition: u32) -> Result<Self, PmemError> {
        let memory = source.create(&format!("p{partition}.pool"), POOL_BYTES_MIN)?;
        let identity = PoolIdentity::unnamed(POOL_KIND);
        let mut arena = Arena::create(memory, &identity)?;
        let commit_word = arena.reserve(64, OWNER)?;
        let record = arena.reserve(RECORD_BYTES, OWNER)?;
        Ok(Self {
            arena,
            levels: Vec::new(),
            blocks: Vec::new(),
            commit_word,
            record,
            commits: 0,
        })
    }

    fn load(&mut self, mut keys: Vec<u64>, contents: &Contents) -> Result<(), PmemError> {
        keys.sort_unstable();
        let mut row = [0; ROW_BYTES];
        for (number, key) in keys.iter().enumerate() {
            if number % BLOCK_ROWS == 0 {
                let block = self.arena.reserve(BLOCK_ROWS * ROW_STRIDE, OWNER)?;
                self.blocks.push(block);
            }
            contents.fill(*key as u32, &mut row);
            self.arena
                .write_through(self.offset_of(number), &row, site!("static-tree.load"))?;
        }
        self.arena.fence(site!("static-tree.loaded"))?;
        let mut level = keys;
        loop {
            let above: Vec<u64> = level.iter().copied().step_by(NODE_KEYS).collect();
            let is_root = level.len() <= NODE_KEYS;
            level.resize(level.len().next_multiple_of(NODE_KEYS), u64::MAX);
            self.levels.push(level);
            if is_root {
                return Ok(());
            }
            level = above;
        }
    }

    #[inline]
    fn offset_of(&self, number: usize) -> u64 {
        self.blocks[number / BLOCK_ROWS] + (number % BLOCK_ROWS * ROW_STRIDE) as u64
    }

    /// Where the row with this key is.
    #[inline]
    fn find(&self, key: u64) -> Option<u64> {
        let mut number = 0;
        for level in self.levels.iter().rev() {
            let node = &level[number * NODE_KEYS..(number + 1) * NODE_KEYS];
            let not_above = node
                .iter()
                .map(|&found| usize::from(found <= key))
                .sum::<usize>();
            number = (number * NODE_KEYS + not_above).checked_sub(1)?;
        }
        (self.levels.first()?[number] == key).then(|| self.offset_of(number))
    }

    #[inline]
    fn read(&self, key: u64, row: &mut [u8; ROW_BYTES]) -> Result<bool, PmemError> {
        let Some(at) = self.find(key) else {
            return Ok(false);
        };
        self.arena.prefetch(at, ROW_BYTES);
        row.copy_from_slice(self.arena.bytes(at, ROW_BYTES)?);
        Ok(true)
    }

    #[inline]
    fn update(&mut self, key: u64, change: Change<'_>) -> Result<bool, PmemError> {
        let Some(at) = self.find(key) else {
            return Ok(false);
        };
        let arena = &mut self.arena;
        for (column, value) in change.columns() {
            let column_at = at + (column * COLUMN_BYTES) as u64;
            let mut record = [0; RECORD_BYTES];
            record[..8].copy_from_slice(&at.to_le_bytes());
            record[8..16].copy_from_slice(&(column as u64).to_le_bytes());
            record[16..16 + COLUMN_BYTES].copy_from_slice(arena.bytes(column_at, COLUMN_BYTES)?);
            arena.write_through(self.record, &record, site!("static-tree.record"))?;
            arena.fence(site!("static-tree.record-fence"))?;
            arena.store(column_at, value.as_bytes())?;
            arena.flush(column_at, COLUMN_BYTES, site!("static-tree.column"))?;
            arena.fence(site!("static-tree.column-fence"))?;
        }
        self.commits += 1;
        arena.store_word(self.commit_word, self.commits)?;
        arena.flush(self.commit_word, 8, site!("static-tree.commit"))?;
        arena.fence(site!("static-tree.commit-fence"))?;
        Ok(true)
    }
}

const OWNER: Owner = Owner {
    part: Part::Table,
    tag: 0,
};

/// The tree of one partition, and the row that its reader copies to.
struct TreeStore<'t> {
    tree: MutexGuard<'t, Tree>,
    row: [u8; ROW_BYTES],
}

impl<'t> TreeStore<'t> {
    /// Each tree has one thread at a time, so the lock is free.
    fn new(trees: &'t [Mutex<Tree>], partition: u32) -> Self {
        let tree = &trees[partition as usize];
        Self {
            tree: tree.lock().unwrap_or_else(PoisonError::into_inner),
            row: [0; ROW_BYTES],
        }
    }
}

impl Store for TreeStore<'_> {
    type Error = anyhow::Error;

    fn load(
        &mut self,
        keys: &mut dyn Iterator<Item = u32>,
        contents: &Contents,
    ) -> Result<(), anyhow::Error> {
        Ok(self.tree.load(keys.map(u64::from).collect(), contents)?)
    }

    #[inline]
    fn read(&mut self, key: u32) -> Result<bool, anyhow::Error> {
        let found = self.tree.read(key.into(), &mut self.row)?;
        // The copy is not used, and must not be optimised away.
        std::hint::black_box(&self.row);
        Ok(found)
    }

    fn column(&self, column: usize) -> &[u8] {
        &self.row[column * COLUMN_BYTES..(column + 1) * COLUMN_BYTES]
    }

    #[inline]
    fn update(&mut self, key: u32, change: Change<'_>) -> Result<bool, anyhow::Error> {
        Ok(self.tree.update(key.into(), change)?)
    }
}

/// Counts of the memories.
#[derive(Clone, Copy, Default)]
struct Counted {
    lines_flushed: u64,
    fences: u64,
    bytes_written: u64,
}

impl Counted {
    fn of(trees: &[Mutex<Tree>]) -> Self {
        let mut sum = Self::default();
        for partition in 0..trees.len() {
            let counters = TreeStore::new(trees, partition as u32)
                .tree
                .arena
                .counters();
            let total = counters.total();
            sum.lines_flushed += total.lines_flushed;
            sum.bytes_written += total.bytes_stored;
            sum.fences += counters.fences;
        }
        sum
    }
}

/// Mean cost of a transaction on the medium.
#[derive(Clone, Copy, Debug)]
pub struct PerTxn {
    /// Lines flushed or streamed.
    pub lines_flushed: f64,
    /// Fences.
    pub fences: f64,
    /// Bytes stored.
    pub bytes_written: f64,
}

/// Loads the trees into pools in a directory, runs the list on them, and checks the content if
/// asked to. Returns a transaction's cost on the medium as well.
pub fn measure(
    workload: &Ycsb,
    limit: Limit,
    content: Content,
    directory: &Path,
    primitive: Option<Primitive>,
) -> Result<(Measured, PerTxn)> {
    let options = NativeOptions {
        primitive,
        ..NativeOptions::default()
    };
    let source = NativeSource::new(directory, options);
    let partitions = workload.options().partitions;
    let trees = (0..partitions).map(|partition| Ok(Mutex::new(Tree::new(&source, partition)?)));
    let trees = trees.collect::<Result<Vec<_>>>()?;
    for partition in 0..partitions {
        let mut store = TreeStore::new(&trees, partition);
        store.load(&mut workload.keys(partition), workload.contents())?;
    }
    let before = Counted::of(&trees);
    let measured = measure_stores(workload, limit, |partition| {
        Ok(TreeStore::new(&trees, partition))
    })?;
    let after = Counted::of(&trees);
    if content == Content::Checked {
        for (partition, count) in (0_u32..).zip(&measured.positions) {
            let mut expected = workload.expected(partition);
            workload.advance(&mut expected, *count);
            workload.check_store(&mut TreeStore::new(&trees, partition), &expected)?;
        }
    }
    let each = |after: u64, before: u64| (after - before) as f64 / measured.txns.max(1) as f64;
    let per_txn = PerTxn {
        lines_flushed: each(after.lines_flushed, before.lines_flushed),
        fences: each(after.fences, before.fences),
        bytes_written: each(after.bytes_written, before.bytes_written),
    };
    Ok((measured, per_txn))
}
