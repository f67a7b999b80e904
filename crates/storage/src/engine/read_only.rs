//! A partition that is open for reading only, of any method.
//!
//! The engine below was opened without the right to change its medium, where a store would be a
//! fault of the process, or it is a snapshot, which can do no more than read. This wrapper keeps
//! that promise: it has only the reading half of the engine, passes on its calls, and refuses the
//! rest.
//!
//! Invariant: a transaction ends by an abort, which has nothing to undo.

use super::{
    ArchiveRange, CommitTicket, Durability, Engine, EngineStatus, Footprint, GlobalTxnId, Idle,
    Reads, ScanRange, VerifyReport,
};
use crate::error::{Result, StorageError};
use crate::record::{Changes, IndexDef, IndexId, KeyBuf, Row, TableDef, TableId};
use crate::table::Table;
use pmem::Access;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A partition that is only read.
pub struct ReadOnly {
    partition: Box<dyn Reads>,
}

impl ReadOnly {
    /// `partition` was opened with [`Access::Read`], or is a snapshot.
    pub fn new(partition: Box<dyn Reads>) -> Self {
        Self { partition }
    }

    /// A partition as this right shows it.
    pub fn unless_writing(access: Access, partition: Box<dyn Engine>) -> Box<dyn Engine> {
        match access {
            Access::Write => partition,
            Access::Read => Box::new(Self::new(partition)),
        }
    }
}

fn refused<T>() -> Result<T> {
    let text = "the partition is open for reading only; open the database for writing";
    Err(StorageError::Unsupported(text.to_owned()))
}

impl Reads for ReadOnly {
    fn tables(&self) -> Vec<Arc<Table>> {
        self.partition.tables()
    }

    fn begin(&mut self) -> Result<()> {
        self.partition.begin()
    }

    fn get(&mut self, table: TableId, key: &[u64], row: &mut Row) -> Result<bool> {
        self.partition.get(table, key, row)
    }

    fn announce(&mut self, table: TableId, key: &[u64]) {
        self.partition.announce(table, key);
    }

    fn get_many(
        &mut self,
        table: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        self.partition.get_many(table, keys, visit)
    }

    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        self.partition.scan(range, visit)
    }

    fn abort(&mut self) -> Result<()> {
        self.partition.abort()
    }

    fn durable(&self) -> CommitTicket {
        self.partition.durable()
    }

    fn footprint(&mut self) -> Result<Footprint> {
        self.partition.footprint()
    }

    fn status(&self) -> EngineStatus {
        self.partition.status()
    }

    fn verify(&mut self) -> Result<VerifyReport> {
        self.partition.verify()
    }

    fn archive(&self) -> Result<Option<ArchiveRange>> {
        self.partition.archive()
    }
}

impl Engine for ReadOnly {
    fn insert(&mut self, _: TableId, _: &Row) -> Result<()> {
        refused()
    }

    fn update(&mut self, _: TableId, _: &[u64], _: &Changes) -> Result<bool> {
        refused()
    }

    fn delete(&mut self, _: TableId, _: &[u64]) -> Result<bool> {
        refused()
    }

    fn commit(&mut self, _: Durability) -> Result<CommitTicket> {
        self.partition.abort()?;
        Ok(self.partition.durable())
    }

    fn prepare(&mut self, _: GlobalTxnId) -> Result<()> {
        refused()
    }

    fn transaction_bytes(&self) -> usize {
        0
    }

    fn force(&mut self) -> Result<()> {
        Ok(())
    }

    fn idle(&mut self) -> Result<&mut dyn Idle> {
        Ok(self)
    }
}

impl Idle for ReadOnly {
    fn create_table(&mut self, _: &TableDef) -> Result<()> {
        refused()
    }

    fn drop_table(&mut self, _: TableId) -> Result<()> {
        refused()
    }

    fn create_index(&mut self, _: TableId, _: &IndexDef) -> Result<()> {
        refused()
    }

    fn drop_index(&mut self, _: TableId, _: IndexId) -> Result<()> {
        refused()
    }

    fn checkpoint(&mut self) -> Result<()> {
        refused()
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}
