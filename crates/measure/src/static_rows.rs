//! The same list of transactions on rows in durable memory whose places never change: for scale.
//!
//! A `Design` is how a row is found and by which steps an update becomes durable. Nothing is
//! inserted, aborted, checked or recovered. So the distance to this row is the cost of a database
//! beside its search and its durable steps, on this machine and in this minute.
//!
//! ```text
//! pool    blocks of 8192 rows in key order | what the design reserves
//! ```

use crate::run::{Limit, Measured};
use crate::static_array::Array;
use crate::static_tree::Tree;
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
/// Rows of one block of the pool.
const BLOCK_ROWS: usize = 8192;
/// From one row to the next: whole lines.
const ROW_STRIDE: usize = ROW_BYTES.next_multiple_of(64);

/// The structures that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// A search tree, and three fences an update.
    Tree,
    /// An array, and the durable steps of `nvm-inp`: the floor of the medium.
    Array,
}

/// How rows are found, and how updates become durable.
pub(crate) trait Design: Send + Sized {
    /// Reserves space for its durable steps, and notes the keys, which ascend.
    fn new(arena: &mut Arena<NativeMemory>, keys: Vec<u64>) -> Result<Self, PmemError>;

    /// Number of the row with this key.
    fn find(&self, key: u64) -> Option<usize>;

    /// Changes columns of the row at an offset, durably.
    fn update(
        &mut self,
        arena: &mut Arena<NativeMemory>,
        row: u64,
        change: Change<'_>,
    ) -> Result<(), PmemError>;
}

/// The rows of one partition.
struct Rows<D> {
    arena: Arena<NativeMemory>,
    blocks: Vec<u64>,
    design: D,
}

impl<D: Design> Rows<D> {
    fn new(source: &NativeSource, workload: &Ycsb, partition: u32) -> Result<Self, PmemError> {
        let memory = source.create(&format!("p{partition}.pool"), POOL_BYTES_MIN)?;
        let identity = PoolIdentity::unnamed(POOL_KIND);
        let mut arena = Arena::create(memory, &identity)?;
        let keys: Vec<u64> = workload.keys(partition).map(u64::from).collect();
        let blocks = load(&mut arena, &keys, workload.contents())?;
        let design = D::new(&mut arena, keys)?;
        Ok(Self {
            arena,
            blocks,
            design,
        })
    }

    /// Where the row with this key is.
    #[inline]
    fn find(&self, key: u64) -> Option<u64> {
        let number = self.design.find(key)?;
        Some(self.blocks[number / BLOCK_ROWS] + (number % BLOCK_ROWS * ROW_STRIDE) as u64)
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
        self.design.update(&mut self.arena, at, change)?;
        Ok(true)
    }
}

/// Writes the rows into blocks, and returns the blocks.
fn load(
    arena: &mut Arena<NativeMemory>,
    keys: &[u64],
    contents: &Contents,
) -> Result<Vec<u64>, PmemError> {
    let mut row = [0; ROW_BYTES];
    let mut blocks = Vec::new();
    for keys in keys.chunks(BLOCK_ROWS) {
        let mut at = arena.reserve(BLOCK_ROWS * ROW_STRIDE, OWNER)?;
        blocks.push(at);
        for key in keys {
            contents.fill(*key as u32, &mut row);
            arena.write_through(at, &row, site!("static-rows.load"))?;
            at += ROW_STRIDE as u64;
        }
    }
    arena.fence(site!("static-rows.loaded"))?;
    Ok(blocks)
}

pub(crate) const OWNER: Owner = Owner {
    part: Part::Table,
    tag: 0,
};

/// The rows of one partition, and the row that its reader copies to.
struct RowStore<'r, D> {
    rows: MutexGuard<'r, Rows<D>>,
    row: [u8; ROW_BYTES],
}

impl<'r, D: Design> RowStore<'r, D> {
    /// Each partition has one thread at a time, so the lock is free.
    fn new(partitions: &'r [Mutex<Rows<D>>], partition: u32) -> Self {
        let rows = &partitions[partition as usize];
        Self {
            rows: rows.lock().unwrap_or_else(PoisonError::into_inner),
            row: [0; ROW_BYTES],
        }
    }
}

impl<D: Design> Store for RowStore<'_, D> {
    type Error = anyhow::Error;

    fn load(
        &mut self,
        _: &mut dyn Iterator<Item = u32>,
        _: &Contents,
    ) -> Result<(), anyhow::Error> {
        // The rows are there from the beginning.
        Ok(())
    }

    #[inline]
    fn read(&mut self, key: u32) -> Result<bool, anyhow::Error> {
        let found = self.rows.read(key.into(), &mut self.row)?;
        // The copy is not used, and must not be optimised away.
        std::hint::black_box(&self.row);
        Ok(found)
    }

    fn column(&self, column: usize) -> &[u8] {
        &self.row[column * COLUMN_BYTES..(column + 1) * COLUMN_BYTES]
    }

    #[inline]
    fn update(&mut self, key: u32, change: Change<'_>) -> Result<bool, anyhow::Error> {
        Ok(self.rows.update(key.into(), change)?)
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
    fn of<D: Design>(partitions: &[Mutex<Rows<D>>]) -> Self {
        let mut sum = Self::default();
        for partition in 0..partitions.len() {
            let store = RowStore::new(partitions, partition as u32);
            let counters = store.rows.arena.counters();
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
    /// Lines flushed.
    pub lines_flushed: f64,
    /// Fences.
    pub fences: f64,
    /// Bytes stored.
    pub bytes_written: f64,
}

/// Loads the rows into pools in a directory, runs the list on them, and checks the content if asked
/// to. Returns a transaction's cost on the medium as well.
pub fn measure(
    structure: Structure,
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
    match structure {
        Structure::Tree => measure_design::<Tree>(workload, limit, content, &source),
        Structure::Array => measure_design::<Array>(workload, limit, content, &source),
    }
}

fn measure_design<D: Design>(
    workload: &Ycsb,
    limit: Limit,
    content: Content,
    source: &NativeSource,
) -> Result<(Measured, PerTxn)> {
    let partitions = 0..workload.options().partitions;
    let rows = partitions.map(|partition| Ok(Mutex::new(Rows::new(source, workload, partition)?)));
    let rows: Vec<Mutex<Rows<D>>> = rows.collect::<Result<_>>()?;
    let before = Counted::of(&rows);
    let measured = measure_stores(workload, limit, |partition| {
        Ok(RowStore::new(&rows, partition))
    })?;
    let after = Counted::of(&rows);
    if content == Content::Checked {
        for (partition, count) in (0_u32..).zip(&measured.positions) {
            let mut expected = workload.expected(partition);
            workload.advance(&mut expected, *count);
            workload.check_store(&mut RowStore::new(&rows, partition), &expected)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use workload::ycsb::{Mix, Skew, YcsbOptions};

    /// Runs a list of updates to its end and on from its start; the content is compared with it.
    fn update(structure: Structure, update_columns: u32) -> PerTxn {
        let directory =
            std::env::temp_dir().join(format!("static-{structure:?}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let workload = Ycsb::new(YcsbOptions {
            rows: 3000,
            partitions: 3,
            threads: 1,
            mix: Mix::WriteHeavy,
            skew: Skew::High,
            update_columns,
            transactions: 900,
            seed: 9,
        })
        .unwrap();
        let (limit, content) = (Limit::Transactions(400), Content::Checked);
        let measured = measure(structure, &workload, limit, content, &directory, None);
        std::fs::remove_dir_all(&directory).unwrap();
        let (measured, per_txn) = measured.unwrap();
        assert_eq!((measured.txns, measured.positions), (1200, vec![400; 3]));
        per_txn
    }

    #[test]
    fn an_update_of_the_array_has_the_fence_of_nvm_inp_and_one_of_the_tree_three() {
        let (array, tree) = (update(Structure::Array, 1), update(Structure::Tree, 1));
        assert!((0.85..0.95).contains(&array.fences), "{array:?}");
        assert!((3.0 * array.fences - tree.fences).abs() < 1e-9, "{tree:?}");
        // The two or three lines of a column in nine of ten, less those that a batch has twice;
        // records are streamed.
        assert!((1.5..2.5).contains(&array.lines_flushed), "{array:?}");
        update(Structure::Array, 10);
    }
}
