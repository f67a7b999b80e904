//! A small engine over ordinary maps, for tests: the reference for every engine.
//!
//! Rows are in one map for each table, keyed by the encoded primary key. A transaction keeps a copy
//! of all tables, and abort restores it. Secondary indexes are sorted when they are read.
//! Durability is a number: a group becomes durable when it is forced, so tests see which thread
//! waits for which. Slow on purpose, and obviously right.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::engine::{
    CommitTicket, Direction, Durability, Engine, EngineStatus, Footprint, GlobalTxnId, Idle, Marks,
    Reads, ScanRange, VerifyReport,
};
use storage::record::{
    Changes, IndexDef, IndexId, KeyBuf, KeyEncoder, LayoutKind, Row, TableDef, TableId,
};
use storage::table::Table;
use storage::{Result, StorageError};

/// Counters of a model engine, and failures to inject into it, for the test outside.
#[derive(Default)]
pub(crate) struct Observed {
    pub(crate) commits: AtomicU64,
    pub(crate) forces: AtomicU64,
    pub(crate) prepares: AtomicU64,
    /// Number of next commits that fail without an answer.
    pub(crate) failing_commits: AtomicU64,
    /// Number of next insertions that panic halfway.
    pub(crate) panicking_inserts: AtomicU64,
    /// Number of next marks that the log refuses for lack of room, and of those that it has taken.
    pub(crate) failing_marks: AtomicU64,
    pub(crate) marks: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
}

pub(crate) type Rows = BTreeMap<Vec<u64>, Row>;

/// An engine over ordinary maps.
#[derive(Default)]
pub(crate) struct Model {
    tables: BTreeMap<TableId, (Arc<Table>, Rows)>,
    before: Option<BTreeMap<TableId, (Arc<Table>, Rows)>>,
    committed: u64,
    durable: u64,
    observed: Arc<Observed>,
}

impl Model {
    pub(crate) fn new(observed: Arc<Observed>) -> Self {
        Self {
            observed,
            ..Self::default()
        }
    }

    fn find(&mut self, id: TableId) -> Result<&mut (Arc<Table>, Rows)> {
        self.tables
            .get_mut(&id)
            .ok_or(StorageError::NoSuchTable(id.0))
    }

    fn define(&mut self, id: TableId, def: TableDef) -> Result<()> {
        let rows = self
            .tables
            .remove(&id)
            .map(|(_, rows)| rows)
            .unwrap_or_default();
        let table = Table::new(def, LayoutKind::Together)
            .map_err(|error| StorageError::Unsupported(error.to_string()))?;
        self.tables.insert(id, (Arc::new(table), rows));
        Ok(())
    }
}

pub(crate) fn key_of(encoder: &KeyEncoder, row: &Row) -> Result<Vec<u64>> {
    let mut key = KeyBuf::new();
    encoder.encode_row(row, &mut key)?;
    Ok(key.to_vec())
}

/// Fails if a row other than the one at `own` has a unique key of `row`.
fn check_unique(table: &Table, rows: &Rows, row: &Row, own: &[u64]) -> Result<()> {
    for (index, encoder) in table.def.indexes.iter().zip(&table.secondary) {
        let key = key_of(encoder, row)?;
        for (primary, other) in rows {
            if primary.as_slice() != own && key_of(encoder, other)? == key {
                return Err(duplicate(table, &index.name));
            }
        }
    }
    Ok(())
}

pub(crate) fn duplicate(table: &Table, index: &str) -> StorageError {
    StorageError::duplicate_key(&table.def.name, index, "")
}

impl Reads for Model {
    fn tables(&self) -> Vec<Arc<Table>> {
        self.tables
            .values()
            .map(|(table, _)| Arc::clone(table))
            .collect()
    }

    fn begin(&mut self) -> Result<()> {
        assert!(self.before.is_none(), "one transaction at a time");
        self.before = Some(self.tables.clone());
        Ok(())
    }

    fn get(&mut self, table: TableId, key: &[u64], row: &mut Row) -> Result<bool> {
        assert!(self.before.is_some(), "reads lie in a transaction");
        let found = self.find(table)?.1.get(key);
        if let Some(found) = found {
            row.clone_from(found);
        }
        Ok(found.is_some())
    }

    fn get_many(
        &mut self,
        table: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        let rows = &self.find(table)?.1;
        for (at, key) in keys.iter().enumerate() {
            visit(at, rows.get(&**key));
        }
        Ok(())
    }

    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        let (table, rows) = self.find(range.table)?;
        let encoder = match range.index {
            None => &table.primary,
            Some(id) => {
                let at = table.def.indexes.iter().position(|index| index.id == id);
                let none = || StorageError::NoSuchIndex {
                    table: table.def.name.as_str().into(),
                    index: id.0,
                };
                &table.secondary[at.ok_or_else(none)?]
            }
        };
        let mut found = Vec::new();
        for row in rows.values() {
            let key = key_of(encoder, row)?;
            if *range.low <= *key && *key <= *range.high {
                found.push((key, row));
            }
        }
        found.sort_by(|left, right| left.0.cmp(&right.0));
        if range.direction == Direction::Backward {
            found.reverse();
        }
        let _ = found.into_iter().try_for_each(|(_, row)| visit(row));
        Ok(())
    }

    fn abort(&mut self) -> Result<()> {
        self.tables = self.before.take().expect("an abort ends a transaction");
        Ok(())
    }

    fn durable(&self) -> CommitTicket {
        CommitTicket(self.durable)
    }

    fn footprint(&mut self) -> Result<Footprint> {
        Ok(Footprint::default())
    }

    fn status(&self) -> EngineStatus {
        EngineStatus::default()
    }

    fn verify(&mut self) -> Result<VerifyReport> {
        Ok(VerifyReport::default())
    }
}

impl Engine for Model {
    fn insert(&mut self, table: TableId, row: &Row) -> Result<()> {
        let (table, rows) = self.find(table)?;
        let key = key_of(&table.primary, row)?;
        if rows.contains_key(&key) {
            return Err(duplicate(table, "primary"));
        }
        check_unique(table, rows, row, &key)?;
        rows.insert(key, row.clone());
        let panicking = &self.observed.panicking_inserts;
        let panics =
            panicking.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        assert!(panics.is_err(), "the panic that a test asked for");
        Ok(())
    }

    fn update(&mut self, table: TableId, key: &[u64], changes: &Changes) -> Result<bool> {
        let (table, rows) = self.find(table)?;
        let Some(mut row) = rows.get(key).cloned() else {
            return Ok(false);
        };
        changes.apply(&mut row)?;
        check_unique(table, rows, &row, key)?;
        rows.insert(key.to_vec(), row);
        Ok(true)
    }

    fn delete(&mut self, table: TableId, key: &[u64]) -> Result<bool> {
        Ok(self.find(table)?.1.remove(key).is_some())
    }

    fn commit(&mut self, durability: Durability) -> Result<CommitTicket> {
        assert!(self.before.is_some(), "a commit ends a transaction");
        let failing = &self.observed.failing_commits;
        let fails =
            failing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        if fails.is_ok() {
            return Err(StorageError::Poisoned);
        }
        self.before = None;
        self.committed += 1;
        self.observed.commits.fetch_add(1, Ordering::Relaxed);
        if durability == Durability::Immediate {
            self.durable = self.committed;
        }
        Ok(CommitTicket(self.committed))
    }

    fn prepare(&mut self, _: GlobalTxnId) -> Result<()> {
        self.observed.prepares.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn force(&mut self) -> Result<()> {
        self.observed.forces.fetch_add(1, Ordering::Relaxed);
        self.durable = self.committed;
        Ok(())
    }

    fn idle(&mut self) -> Result<&mut dyn Idle> {
        Ok(self)
    }

    fn transaction_bytes(&self) -> usize {
        0
    }
}

impl Idle for Model {
    fn create_table(&mut self, def: &TableDef) -> Result<()> {
        self.define(def.id, def.clone())
    }

    fn drop_table(&mut self, table: TableId) -> Result<()> {
        self.tables
            .remove(&table)
            .map(drop)
            .ok_or(StorageError::NoSuchTable(table.0))
    }

    fn create_index(&mut self, table: TableId, index: &IndexDef) -> Result<()> {
        let mut def = self.find(table)?.0.def.clone();
        def.indexes.push(index.clone());
        self.define(table, def)
    }

    fn drop_index(&mut self, table: TableId, index: IndexId) -> Result<()> {
        let mut def = self.find(table)?.0.def.clone();
        def.indexes.retain(|other| other.id != index);
        self.define(table, def)
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.observed.checkpoints.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.force()
    }

    fn marks(&mut self) -> Option<&mut dyn Marks> {
        Some(self)
    }
}

impl Marks for Model {
    fn mark(&mut self, _: GlobalTxnId) -> Result<()> {
        let failing = &self.observed.failing_marks;
        let fails =
            failing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        if fails.is_ok() {
            let limit = "the ring is full".to_owned();
            let wanted_bytes = 1;
            return Err(pmem::PmemError::OutOfSpace {
                wanted_bytes,
                limit,
            }
            .into());
        }
        self.observed.marks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A database over model engines, with a group wait of 50 ms.
pub(crate) fn database(partitions: u32) -> (crate::Database, Vec<Arc<Observed>>) {
    database_with(partitions, std::time::Duration::from_millis(50))
}

/// The same with another group wait: with a long one, a test that waits does not end.
pub(crate) fn database_with(
    partitions: u32,
    group_wait: std::time::Duration,
) -> (crate::Database, Vec<Arc<Observed>>) {
    let observed: Vec<Arc<Observed>> = (0..partitions).map(|_| Arc::default()).collect();
    let engines = observed
        .iter()
        .map(|observed| Box::new(Model::new(Arc::clone(observed))) as Box<dyn Engine>)
        .collect();
    let options = crate::Options::new()
        .method(storage::engine::Method::Inp)
        .partitions(partitions)
        .group_wait_us_max(group_wait.as_micros() as u64)
        .wait_limit(std::time::Duration::from_millis(200));
    (assemble(engines, &options), observed)
}

/// A database over engines of any kind.
pub(crate) fn assemble(engines: Vec<Box<dyn Engine>>, options: &crate::Options) -> crate::Database {
    let descriptor = options.descriptor();
    let words = Box::new(crate::commit_table::VolatileWords::new());
    let commits = crate::commit_table::CommitTable::new(words);
    let start = std::time::Instant::now();
    let parts = crate::open::Components {
        engines,
        commits,
        descriptor,
        generation: None,
    };
    let nothing = Box::new(crate::roster::Held(()));
    let database = crate::Database::assemble(parts, options, start, nothing);
    database.expect("an empty catalogue has no wrong table")
}
