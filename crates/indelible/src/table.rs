//! Handles of tables and indexes.
//!
//! A handle is resolved once by name and then used for any number of operations. It has all that an
//! operation needs (number, key encoder, rule of partitioning), so no operation reads the
//! catalogue. Clones are cheap. A handle of a dropped table returns an error at its next use;
//! indexes may come and go without affecting the handles of their table.

use crate::column_statistics::TableStatistics;
use crate::error::{Error, Result};
use crate::row_counter::Counter;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use storage::record::{
    Changes, IndexId, KeyEncoder, Owner, Partitioner, Partitioning, Placement, Row, TableDef,
    TableId, ValueRef,
};
use storage::table::Table as Shape;

/// A table of an open database.
#[derive(Clone)]
pub struct Table {
    pub(crate) entry: Arc<TableEntry>,
}

/// State that all handles of a table share.
pub(crate) struct TableEntry {
    /// Number of the open database, unique in the process.
    pub(crate) database: u64,
    pub(crate) id: TableId,
    /// As it was when the table was created or the database opened: names, columns and the primary
    /// key never change.
    pub(crate) shape: Arc<Shape>,
    pub(crate) partitioner: Partitioner,
    pub(crate) replicated: bool,
    /// Mask of an integer that gives its partition, if the rule is modulo a power of two (one
    /// partition included).
    partition_mask: Option<i64>,
    /// Bit n: column n is part of the primary key.
    primary_key_mask: u64,
    pub(crate) dropped: AtomicBool,
    /// Whether SQL keeps its constraints.
    pub(crate) is_managed: bool,
    /// Whether a unique index must be checked in other partitions than the row's own.
    pub(crate) unique_elsewhere: AtomicBool,
    /// Whether a secondary index is unique.
    has_unique: AtomicBool,
    /// The number of its youngest unique index among all that were made since the opening.
    pub(crate) unique_made: AtomicU64,
    pub(crate) count: Counter,
    /// Those that were made or read last.
    pub(crate) statistics: RwLock<Option<Arc<TableStatistics>>>,
    /// With the current indexes.
    current: RwLock<Arc<Shape>>,
}

impl TableEntry {
    pub(crate) fn new(database: u64, shape: Arc<Shape>, partitions: u32) -> Result<Arc<Self>> {
        let partitioner = Partitioner::new(&shape.def, partitions)?;
        let entry = Self {
            database,
            id: shape.def.id,
            partitioner,
            replicated: shape.def.partitioning == Partitioning::Replicated && partitions > 1,
            partition_mask: mask_of(shape.def.partitioning == Partitioning::Modulo, partitions),
            primary_key_mask: shape
                .def
                .primary_key
                .iter()
                .fold(0, |mask, &at| mask | column_bit(at)),
            dropped: AtomicBool::new(false),
            is_managed: shape.def.owner == Owner::Sql,
            unique_elsewhere: AtomicBool::new(false),
            has_unique: AtomicBool::new(false),
            unique_made: AtomicU64::new(0),
            count: Counter::unknown(),
            statistics: RwLock::new(None),
            current: RwLock::new(Arc::clone(&shape)),
            shape,
        };
        entry.set_current(Arc::clone(&entry.shape), partitions);
        Ok(Arc::new(entry))
    }

    /// The table with its current indexes.
    pub(crate) fn current(&self) -> Arc<Shape> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// As [`TableEntry::current`], if one of the indexes is unique. Asked for each change of a
    /// connection, which spares tables without such an index the lock.
    #[inline]
    pub(crate) fn with_unique(&self) -> Option<Arc<Shape>> {
        self.has_unique
            .load(Ordering::Acquire)
            .then(|| self.current())
    }

    /// Replaces the current indexes.
    pub(crate) fn set_current(&self, shape: Arc<Shape>, partitions: u32) {
        let first = shape.def.primary_key[0];
        let elsewhere = partitions > 1
            && !self.replicated
            && shape
                .def
                .indexes
                .iter()
                .any(|index| index.unique && !index.columns.contains(&first));
        let has_unique = shape.def.indexes.iter().any(|index| index.unique);
        self.unique_elsewhere.store(elsewhere, Ordering::Release);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = shape;
        self.has_unique.store(has_unique, Ordering::Release);
    }

    /// Partition of rows with this value of the first primary key column.
    #[inline]
    pub(crate) fn place(&self, first_key_value: ValueRef<'_>) -> Result<Placement> {
        if let Some(mask) = self.partition_mask {
            if mask == 0 {
                return Ok(Placement::One(0));
            }
            if let ValueRef::Int64(number) = first_key_value {
                return Ok(Placement::One((number & mask).cast_unsigned() as u32));
            }
        }
        Ok(self.partitioner.place(first_key_value)?)
    }

    /// Whether changes touch the primary key.
    #[inline]
    pub(crate) fn changes_primary_key(&self, changes: &Changes) -> bool {
        changes
            .columns()
            .any(|column| self.primary_key_mask & column_bit(column) != 0)
            && changes
                .columns()
                .any(|column| self.shape.def.primary_key.contains(&column))
    }
}

/// See `partition_mask`.
fn mask_of(is_modulo: bool, partitions: u32) -> Option<i64> {
    let divides = partitions == 1 || is_modulo && partitions.is_power_of_two();
    divides.then(|| i64::from(partitions) - 1)
}

/// The bit of a column; columns 64 apart share one, which can only cause a needless check.
#[inline]
fn column_bit(column: usize) -> u64 {
    1 << (column % 64)
}

impl Table {
    /// The name.
    pub fn name(&self) -> &str {
        &self.entry.shape.def.name
    }

    /// The number, never used again in this database.
    pub fn id(&self) -> TableId {
        self.entry.id
    }

    /// The definition, with the current indexes.
    pub fn definition(&self) -> TableDef {
        self.entry.current().def.clone()
    }

    /// Position of a column by its name.
    pub fn column(&self, name: &str) -> Result<usize> {
        let columns = &self.entry.shape.def.columns;
        columns
            .iter()
            .position(|column| column.name == name)
            .ok_or_else(|| Error::NoSuchColumn {
                table: self.name().to_owned(),
                column: name.to_owned(),
            })
    }

    /// An empty row, to be filled and inserted, or to be read into again and again.
    pub fn row(&self) -> Row {
        Row::new(Arc::clone(&self.entry.shape.layout))
    }

    /// An empty set of changes, to be filled and given to `update`.
    pub fn changes(&self) -> Changes {
        Changes::new(Arc::clone(&self.entry.shape.layout))
    }

    /// The bytes by which an index, or the primary key, orders the contents of one of its columns,
    /// by position, where its keys do not have all of each: rows whose contents share so many, and
    /// have more, come in any order. None if all bytes count.
    pub fn ordered_bytes(&self, index: Option<&str>, column: usize) -> Option<usize> {
        let shape = self.entry.current();
        let all = &shape.def.indexes;
        match index.and_then(|name| all.iter().position(|index| index.name == name)) {
            Some(position) => shape.secondary[position].ordered_bytes(column),
            None => shape.primary.ordered_bytes(column),
        }
    }

    /// A secondary index by its name.
    pub fn index(&self, name: &str) -> Result<Index> {
        let shape = self.entry.current();
        let Some(position) = shape
            .def
            .indexes
            .iter()
            .position(|index| index.name == name)
        else {
            return Err(Error::NoSuchIndex {
                table: self.name().to_owned(),
                index: name.to_owned(),
            });
        };
        let id = shape.def.indexes[position].id;
        Ok(Index {
            table: self.clone(),
            shape,
            position,
            id,
        })
    }

    /// The partition of the rows with this value of the first primary key column; `None` if the
    /// table is replicated.
    pub fn partition_of<'v>(
        &self,
        first_key_value: impl Into<ValueRef<'v>>,
    ) -> Result<Option<u32>> {
        Ok(match self.entry.place(first_key_value.into())? {
            Placement::One(partition) => Some(partition),
            Placement::All => None,
        })
    }

    /// Fails if the handle is another database's, or its table is gone.
    #[inline]
    pub(crate) fn check(&self, database: u64) -> Result<&TableEntry> {
        if self.entry.database == database && !self.entry.dropped.load(Ordering::Relaxed) {
            return Ok(&self.entry);
        }
        Err(self.unusable(database))
    }

    #[cold]
    #[inline(never)]
    fn unusable(&self, database: u64) -> Error {
        let table = self.name().to_owned();
        if self.entry.database == database {
            Error::TableDropped { table }
        } else {
            Error::ForeignTable { table }
        }
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("name", &self.name())
            .field("id", &self.entry.id)
            .finish()
    }
}

/// A secondary index of a table.
#[derive(Clone)]
pub struct Index {
    pub(crate) table: Table,
    shape: Arc<Shape>,
    position: usize,
    pub(crate) id: IndexId,
}

impl Index {
    /// The name.
    pub fn name(&self) -> &str {
        &self.shape.def.indexes[self.position].name
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Whether the index holds each key once.
    pub fn is_unique(&self) -> bool {
        self.shape.def.indexes[self.position].unique
    }

    pub(crate) fn encoder(&self) -> &KeyEncoder {
        &self.shape.secondary[self.position]
    }

    /// Whether the index begins with the column that decides the partition.
    pub(crate) fn decides_partition(&self) -> bool {
        let def = &self.shape.def;
        def.indexes[self.position].columns.first() == def.primary_key.first()
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table.name();
        f.debug_struct("Index")
            .field("table", &table)
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
