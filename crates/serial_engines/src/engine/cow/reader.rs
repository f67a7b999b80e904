//! The engine of a snapshot: the reads of `CowEngine` over trees that nobody changes.
//!
//! It has the tables of the partition as they were. A transaction of it is only the permission to
//! read. `ReadOnly` refuses all other calls before they get here, so no code that changes trees is
//! compiled for the trees of snapshots.

use crate::index::cow::Pages;
use crate::index::cow::snapshot::SnapshotStore;
use crate::index::slotted::SlottedSnapshot;
use crate::index::trees::Trees;
use crate::table::Space;
use crate::table::cow::{CowSpace, ImageRows, Rows, ViewRows};
use pmem::{NativeMemory, POOL_BYTES_MIN, PageSize};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::engine::{
    CommitTicket, Engine, EngineStatus, Footprint, ReadOnly, Reads, ScanRange, VerifyReport,
};
use storage::record::{KeyBuf, LayoutKind, Row, TableId};
use storage::table::Table;
use storage::{Result, StorageError};

/// First size of the volatile memory for frames.
pub(super) const FRAMES_BYTES: u64 = 1 << 20;

/// Location of the rows in a snapshot of copied pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowsIn {
    /// In the trees themselves.
    Trees,
    /// In a pool, as tuples.
    Pool,
}

/// A snapshot of pages that are copied, whose directory is at `directory` and whose rows are laid
/// out as `layout` says.
pub(super) fn of_pages(
    store: SnapshotStore,
    directory: u64,
    layout: LayoutKind,
    rows: RowsIn,
) -> Result<Box<dyn Engine>> {
    let frames = NativeMemory::volatile(FRAMES_BYTES.max(POOL_BYTES_MIN), PageSize::Base)?;
    let pages = Pages::new(store, frames, directory)?;
    match rows {
        RowsIn::Trees => over::<_, ImageRows>(pages, layout),
        RowsIn::Pool => over::<_, ViewRows>(pages, layout),
    }
}

/// A snapshot of slotted pages.
pub(super) fn of_slotted(trees: SlottedSnapshot, layout: LayoutKind) -> Result<Box<dyn Engine>> {
    over::<_, ImageRows>(trees, layout)
}

fn over<T: Trees + 'static, R: Rows<T> + 'static>(
    trees: T,
    layout: LayoutKind,
) -> Result<Box<dyn Engine>>
where
    T::Tree: 'static,
{
    let space: CowSpace<T, R> = CowSpace::open(trees, layout)?;
    let reader = Reader {
        space,
        is_open: false,
    };
    Ok(Box::new(ReadOnly::new(Box::new(reader))))
}

struct Reader<T: Trees, R: Rows<T>> {
    space: CowSpace<T, R>,
    /// Whether a transaction is open.
    is_open: bool,
}

impl<T: Trees, R: Rows<T>> Reader<T, R> {
    fn require(&self, is_open: bool) -> Result<()> {
        let text = match self.is_open {
            now if now == is_open => return Ok(()),
            true => "a transaction is open already",
            false => "no transaction is open",
        };
        Err(StorageError::Unsupported(text.to_owned()))
    }
}

impl<T: Trees, R: Rows<T>> Reads for Reader<T, R> {
    fn tables(&self) -> Vec<Arc<Table>> {
        self.space.tables()
    }

    fn begin(&mut self) -> Result<()> {
        self.require(false)?;
        self.is_open = true;
        Ok(())
    }

    fn get(&mut self, table: TableId, key: &[u64], row: &mut Row) -> Result<bool> {
        self.require(true)?;
        self.space.get(table, key, row)
    }

    fn get_many(
        &mut self,
        table: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        self.require(true)?;
        self.space.get_many(table, keys, visit)
    }

    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        self.require(true)?;
        self.space.scan(range, visit)
    }

    fn abort(&mut self) -> Result<()> {
        self.require(true)?;
        self.is_open = false;
        Ok(())
    }

    /// Always 0: the content of the snapshot was durable before it was taken.
    fn durable(&self) -> CommitTicket {
        CommitTicket(0)
    }

    /// Space is the partition's.
    fn footprint(&mut self) -> Result<Footprint> {
        Ok(Footprint::default())
    }

    /// It stores nothing, and its reads are not counted.
    fn status(&self) -> EngineStatus {
        EngineStatus::default()
    }

    fn verify(&mut self) -> Result<VerifyReport> {
        self.require(false)?;
        let mut report = VerifyReport::default();
        self.space.check(&mut BTreeSet::new(), &mut report);
        Ok(report)
    }
}
