//! RocksDB: a log-structured merge tree, the usual choice for many writes.
//!
//! Each write is synced to the log, and concurrent writers share a sync as RocksDB groups them.
//! Memtables are large enough that writers do not wait for them in short runs; what a run leaves to
//! be flushed and merged is timed apart (`settle`), and a sustained run shows it in the throughput.
//! The block cache holds the whole table.

use super::RowBuffer;
use crate::kind::{Rival, RivalStore};
use anyhow::Result;
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompressionType, DataBlockIndexType, Options, ReadOptions,
    WaitForCompactOptions, WriteBatch, WriteOptions,
};
use std::path::Path;
use workload::ycsb::{Change, Contents, Store};

/// How it is set.
pub(crate) const SETTING: &str = "RocksDB, WriteOptions.sync, 4 memtables of 128 MiB, block cache of 4 GiB, Bloom filters, hash index \
     in data blocks, no compression, settled after loading and after each mix";

const CACHE_BYTES: usize = 4 << 30;
const BLOCK_BYTES: usize = 4 << 10;
const MEMTABLE_BYTES: usize = 128 << 20;
const FILTER_BITS_PER_KEY: f64 = 10.0;

/// A database.
pub(crate) struct Rocks {
    database: DB,
}

impl Rocks {
    pub(crate) fn create(directory: &Path) -> Result<Self> {
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_hyper_clock_cache(CACHE_BYTES, BLOCK_BYTES));
        blocks.set_block_size(BLOCK_BYTES);
        blocks.set_bloom_filter(FILTER_BITS_PER_KEY, false);
        blocks.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&blocks);
        options.set_compression_type(DBCompressionType::None);
        options.set_write_buffer_size(MEMTABLE_BYTES);
        options.set_max_write_buffer_number(4);
        options.set_max_bytes_for_level_base(4 * MEMTABLE_BYTES as u64);
        options.set_target_file_size_base(MEMTABLE_BYTES as u64);
        options.set_max_background_jobs(2);
        let database = DB::open(&options, directory.join("rocksdb"))?;
        Ok(Self { database })
    }
}

impl Rival for Rocks {
    fn store(&self) -> Result<RivalStore<'_>> {
        let mut durable = WriteOptions::default();
        durable.set_sync(true);
        Ok(Box::new(Session {
            database: &self.database,
            reading: ReadOptions::default(),
            durable,
            buffer: RowBuffer::new(),
        }))
    }

    fn settle(&self) -> Result<()> {
        let mut wait = WaitForCompactOptions::default();
        wait.set_flush(true);
        Ok(self.database.wait_for_compact(&wait)?)
    }
}

struct Session<'d> {
    database: &'d DB,
    reading: ReadOptions,
    durable: WriteOptions,
    buffer: RowBuffer,
}

impl Store for Session<'_> {
    type Error = anyhow::Error;

    fn load(&mut self, keys: &mut dyn Iterator<Item = u32>, contents: &Contents) -> Result<()> {
        let mut batch = WriteBatch::default();
        for key in keys {
            contents.fill(key, self.buffer.bytes_mut());
            batch.put(key.to_be_bytes(), self.buffer.bytes());
        }
        Ok(self.database.write(batch)?)
    }

    fn read(&mut self, key: u32) -> Result<bool> {
        let found = self
            .database
            .get_pinned_opt(key.to_be_bytes(), &self.reading)?;
        let Some(row) = found else {
            return Ok(false);
        };
        self.buffer.copy(&row)?;
        Ok(true)
    }

    fn column(&self, column: usize) -> &[u8] {
        self.buffer.column(column)
    }

    fn update(&mut self, key: u32, change: Change<'_>) -> Result<bool> {
        if !self.read(key)? {
            return Ok(false);
        }
        change.apply(self.buffer.bytes_mut());
        // commit point: a synced write returns when the log is on the medium.
        let (key, row) = (key.to_be_bytes(), self.buffer.bytes());
        self.database.put_opt(key, row, &self.durable)?;
        Ok(true)
    }
}
