//! Tables `sbtest1` and so on with the index of `k`, and their initial rows.
//!
//! With one partition a table is sysbench's: `id` is the key. With several a column `region`
//! precedes `id` in the key and `k` in the index, and decides the partition. Each row follows from
//! the seed, its table and its id, so a check can make it again.

use super::SysbenchOptions;
use super::digits::{C_GROUPS, PAD_GROUPS, digest, length};
use super::distribution::Draw;
use super::list::Texts;
use super::state::Words;
use crate::loader::{BATCH_ROWS, Loaded, in_batches};
use crate::random::{Random, mix};
use indelible::{
    DataType, Database, Durability, Index, IntoKey, IntoKeyRange, Partitioning, Prefix, Result,
    Table, ValueRef,
};
use std::ops::Bound;

/// Columns.
pub(super) mod column {
    pub(in crate::sysbench) const ID: usize = 0;
    pub(in crate::sysbench) const K: usize = 1;
    pub(in crate::sysbench) const C: usize = 2;
    pub(in crate::sysbench) const PAD: usize = 3;
    /// Only with several partitions.
    pub(in crate::sysbench) const REGION: usize = 4;
}

/// The prefix of table names.
const NAME: &str = "sbtest";

/// The tables of an open database, in their order.
#[derive(Clone, Debug)]
pub struct Tables(pub Vec<SbTest>);

/// A table and its index.
#[derive(Clone, Debug)]
pub struct SbTest {
    /// The table.
    pub table: Table,
    /// Rows by `k`.
    pub by_k: Index,
}

/// The key of a row: the region, where there are several, and the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(pub(super) Option<i16>, pub(super) i32);

impl IntoKey for Key {
    #[inline]
    fn lend<R>(&self, borrow: impl FnOnce(&[ValueRef<'_>]) -> R) -> R {
        match self.0 {
            Some(region) => (region, self.1).lend(borrow),
            None => self.1.lend(borrow),
        }
    }
}

/// All keys of a region, or all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Everything(pub(super) Option<i16>);

impl IntoKeyRange for Everything {
    fn lend_bounds<R>(
        &self,
        borrow: impl FnOnce(Bound<&[ValueRef<'_>]>, Bound<&[ValueRef<'_>]>) -> R,
    ) -> R {
        match self.0 {
            Some(region) => Prefix(region).lend_bounds(borrow),
            None => (..).lend_bounds(borrow),
        }
    }
}

impl Tables {
    /// Creates the tables, which must not exist.
    pub(super) fn create(database: &Database, options: &SysbenchOptions) -> Result<Self> {
        let char = |groups| DataType::Char {
            length: length(groups) as u32 + 1,
        };
        let has_regions = options.partitions > 1;
        let (key, of_k): (&[&str], &[&str]) = if has_regions {
            (&["region", "id"], &["region", "k"])
        } else {
            (&["id"], &["k"])
        };
        for number in 1..=options.tables {
            let mut table = database
                .create_table(&format!("{NAME}{number}"))
                .column("id", DataType::Int32)
                .column("k", DataType::Int32)
                .column("c", char(C_GROUPS))
                .column("pad", char(PAD_GROUPS));
            if has_regions {
                table = table.column("region", DataType::Int16);
            }
            table
                .primary_key(key.iter().copied())
                .index(&format!("k_{number}"), of_k.iter().copied())
                .partitioning(Partitioning::Modulo)
                .create()?;
        }
        Self::open(database)
    }

    /// The tables of a database that has them.
    pub(super) fn open(database: &Database) -> Result<Self> {
        let mut tables = Vec::new();
        let names = database.tables();
        let count = names
            .iter()
            .filter(|table| table.name().starts_with(NAME))
            .count();
        // Where there is none the error names the first.
        for number in 1..=count.max(1) {
            let table = database.table(&format!("{NAME}{number}"))?;
            tables.push(SbTest {
                by_k: table.index(&format!("k_{number}"))?,
                table,
            });
        }
        Ok(Self(tables))
    }

    /// Loads the rows of a partition, table by table.
    pub(super) fn load(
        &self,
        database: &Database,
        options: &SysbenchOptions,
        partition: u32,
        loaded: Loaded<'_>,
    ) -> Result<()> {
        let mut worker = database.worker(&[partition], Durability::Group)?;
        let (first, count) = options.ids_of(partition);
        let mut text = String::new();
        for (number, SbTest { table, .. }) in (0..).zip(&self.0) {
            let source = RowSource::new(options, partition, number);
            let mut row = table.row();
            if let Some(region) = options.region(partition) {
                row.set(column::REGION, region)?;
            }
            let ids = first..first + count;
            in_batches(&mut worker, ids, BATCH_ROWS, loaded, |transaction, id| {
                let (k, mut texts) = source.row(id);
                row.set(column::ID, id.cast_signed())?;
                row.set(column::K, k)?;
                texts.c(&mut text);
                row.set(column::C, text.as_str())?;
                texts.pad(&mut text);
                row.set(column::PAD, text.as_str())?;
                transaction.insert(table, &row)?;
                Ok(1)
            })?;
        }
        worker.close()
    }
}

/// Makes the initial rows of a table in a partition.
pub(super) struct RowSource {
    seed: u64,
    first: u32,
    draw: Draw,
}

impl RowSource {
    pub(super) fn new(options: &SysbenchOptions, partition: u32, table: u16) -> Self {
        let (first, count) = options.ids_of(partition);
        Self {
            seed: mix(options.seed ^ 0xA110 ^ u64::from(table) << 48),
            first,
            draw: Draw::new(options.distribution, count),
        }
    }

    /// `k` of a row, and its texts.
    fn row(&self, id: u32) -> (i32, Texts) {
        let mut random = Random::new(self.seed ^ u64::from(id));
        let k = (self.first + self.draw.draw(&mut random)).cast_signed();
        (k, Texts(random))
    }

    /// A row in a few words.
    pub(super) fn words(&self, id: u32, text: &mut String) -> Words {
        let (k, mut texts) = self.row(id);
        texts.c(text);
        let c = digest(text);
        texts.pad(text);
        let pad = digest(text);
        Words { k, c, pad }
    }
}
