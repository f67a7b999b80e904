//! A partition that is open for reading only, of any method.
//!
//! The engine below was opened without the right to change its medium, where a store would be a
//! fault of the process, or it is a snapshot, which can do no more than read. This wrapper keeps
//! that promise: it passes on calls that only read and refuses the rest before the engine sees
//! them.
//!
//! Invariants: no call that could write reaches the engine below; a transaction ends by an abort,
//! which has nothing to undo.

use super::{
    ArchiveRange, CommitTicket, Durability, Engine, EngineStatus, Footprint, GlobalTxnId,
    ScanRange, VerifyReport,
};
use crate::error::{Result, StorageError};
use crate::record::{Changes, IndexDef, IndexId, KeyBuf, Row, TableDef, TableId};
use crate::table::Table;
use std::ops::ControlFlow;
use std::sync::Arc;

/// An engine that is only read.
pub(super) struct ReadOnly {
    engine: Box<dyn Reads>,
}

/// The calls that are passed on: those of [`Engine`] that only read.
pub(super) trait Reads: Send {
    fn tables(&self) -> Vec<Arc<Table>>;

    fn begin(&mut self) -> Result<()>;

    fn get(&mut self, table: TableId, key: &[u64], row: &mut Row) -> Result<bool>;

    fn get_many(
        &mut self,
        table: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()>;

    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()>;

    fn abort(&mut self) -> Result<()>;

    fn durable(&self) -> CommitTicket;

    fn footprint(&mut self) -> Result<Footprint>;

    fn status(&self) -> EngineStatus;

    fn verify(&mut self) -> Result<VerifyReport>;

    fn archive(&self) -> Result<Option<ArchiveRange>> {
        Ok(None)
    }
}

impl ReadOnly {
    /// `engine` was opened with [`pmem::Access::Read`], or is a snapshot.
    pub(super) fn new(engine: impl Reads + 'static) -> Self {
        Self {
            engine: Box::new(engine),
        }
    }
}

impl Reads for Box<dyn Engine> {
    fn tables(&self) -> Vec<Arc<Table>> {
        self.as_ref().tables()
    }

    fn begin(&mut self) -> Result<()> {
        self.as_mut().begin()
    }

    fn get(&mut self, table: TableId, key: &[u64], row: &mut Row) -> Result<bool> {
        self.as_mut().get(table, key, row)
    }

    fn get_many(
        &mut self,
        table: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        self.as_mut().get_many(table, keys, visit)
    }

    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        self.as_mut().scan(range, visit)
    }

    fn abort(&mut self) -> Result<()> {
        self.as_mut().abort()
    }

    fn durable(&self) -> CommitTicket {
        self.as_ref().durable()
    }

    fn footprint(&mut self) -> Result<Footprint> {
        self.as_mut().footprint()
    }

    fn status(&self) -> EngineStatus {
        self.as_ref().status()
    }

    fn verify(&mut self) -> Result<VerifyReport> {
        self.as_mut().verify()
    }

    fn archive(&self) -> Result<Option<ArchiveRange>> {
        self.as_ref().archive()
    }
}

fn refused<T>() -> Result<T> {
    let text = "the partition is open for reading only; open the database for writing";
    Err(StorageError::Unsupported(text.to_owned()))
}

impl Engine for ReadOnly {
    fn tables(&self) -> Vec<Arc<Table>> {
        self.engine.tables()
    }

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

    fn begin(&mut self) -> Result<()> {
        self.engine.begin()
    }

    fn get(&mut self, table: TableId, key: &[u64], row: &mut Row) -> Result<bool> {
        self.engine.get(table, key, row)
    }

    fn get_many(
        &mut self,
        table: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        self.engine.get_many(table, keys, visit)
    }

    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        self.engine.scan(range, visit)
    }

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
        self.engine.abort()?;
        Ok(self.engine.durable())
    }

    fn prepare(&mut self, _: GlobalTxnId) -> Result<()> {
        refused()
    }

    fn abort(&mut self) -> Result<()> {
        self.engine.abort()
    }

    fn durable(&self) -> CommitTicket {
        self.engine.durable()
    }

    fn force(&mut self) -> Result<()> {
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<()> {
        refused()
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint> {
        self.engine.footprint()
    }

    fn status(&self) -> EngineStatus {
        self.engine.status()
    }

    fn verify(&mut self) -> Result<VerifyReport> {
        self.engine.verify()
    }

    fn archive(&self) -> Result<Option<ArchiveRange>> {
        self.engine.archive()
    }
}
