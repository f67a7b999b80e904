//! `inp`: in-place updates in volatile memory, with a log and checkpoints in files.
//!
//! | when | what is written |
//! |---|---|
//! | operation | a redo entry, with before images if the options ask for them, in DRAM |
//! | commit | the transaction's record; one sync for its group |
//! | prepare | the same record, marked, and a sync |
//! | abort | nothing; before images in DRAM go back |
//! | checkpoint | all tables, compressed, some rows after each transaction |
//! | end of a checkpoint | nothing; the log before it is removed |
//! | recovery | how a prepared transaction ended; a checkpoint after some short openings |
//!
//! After SIGMOD 2015 (N-Store), section 3.1. Where we differ: a record is written when its
//! transaction commits and not at each change. That is the same promise, because no uncommitted
//! change ever leaves DRAM, and an abort costs no bytes.

mod journal;
mod recovery;
mod snapshot;

use super::serial::driver::{Fault, Policy, Serial};
use super::serial::replay::settings;
use super::serial::store::{self, Store, StoreSavepoint, new_memory, new_store};
use crate::table::Space as _;
use disk::Directory;
use journal::Journal;
use pmem::Memory;
use storage::engine::{
    CommitTicket, Decide, Durability, EngineOptions, EngineStatus, Footprint, GlobalTxnId,
    VerifyReport,
};
use storage::log::redo::{RedoRecord, RedoSavepoint};
use storage::record::{Changes, IndexDef, IndexId, Row, TableDef, TableId};
use storage::{DeviceOf, Platform, Result};

/// One partition of `inp`.
pub(super) struct InPlace<M: Memory, D: Directory> {
    store: Store<M>,
    /// Log and checkpoints.
    journal: Journal<D>,
    /// Transactions that recovery replayed.
    replayed: u64,
    /// Prepared transactions that recovery dropped.
    undone: u64,
}

/// The partition as an engine.
pub(super) type Partition<P> = Serial<InPlace<DeviceOf<P>, <P as Platform>::Files>>;

/// Makes the files of a partition.
pub(super) fn create<P: Platform>(platform: &P, options: &EngineOptions) -> Result<Partition<P>> {
    let store = new_store(platform, options)?;
    let files = platform.files(options.partition)?;
    let journal = Journal::create(files, options, settings(options))?;
    Ok(Serial::new(InPlace {
        store,
        journal,
        replayed: 0,
        undone: 0,
    }))
}

/// Opens a partition: loads its checkpoint and replays its log.
pub(super) fn open<P: Platform>(
    platform: &P,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<Partition<P>> {
    let files = platform.files(options.partition)?;
    let memory = || new_memory(platform, options);
    recovery::recover(files, memory, options, decide).map(Serial::new)
}

impl<M: Memory, D: Directory> InPlace<M, D> {
    /// Changes a row. A log with before images needs the old row, and so does a checkpoint that is
    /// being written.
    #[inline]
    fn change(
        &mut self,
        table: TableId,
        key: &[u64],
        change: impl FnOnce(&mut Store<M>) -> Result<bool>,
        log: impl FnOnce(&mut RedoRecord, Option<&Row>),
    ) -> Result<bool> {
        if !self.journal.needs_before_images() {
            let found = change(&mut self.store)?;
            if found {
                log(&mut self.journal.log.record, None);
            }
            return Ok(found);
        }
        let Some(before) = self.store.before_image(table, key)? else {
            return Ok(false);
        };
        change(&mut self.store)?;
        self.journal.keep(table, key, &before);
        log(&mut self.journal.log.record, Some(&before));
        self.store.give_row(table, before);
        Ok(true)
    }
}

impl<M: Memory, D: Directory> Policy for InPlace<M, D> {
    type Space = store::Space<M>;
    type Savepoint = (StoreSavepoint, RedoSavepoint);

    fn space(&self) -> &Self::Space {
        &self.store.space
    }

    #[inline]
    fn space_mut(&mut self) -> &mut Self::Space {
        &mut self.store.space
    }

    fn create_table(&mut self, def: &TableDef) -> Result<()> {
        self.store.space.create_table(def)?;
        self.journal.log.record.create_table(def);
        Ok(())
    }

    fn drop_table(&mut self, table: TableId) -> Result<()> {
        self.journal.release(&mut self.store, table)?;
        self.store.space.drop_table(table)?;
        self.journal.log.record.drop_table(table);
        Ok(())
    }

    fn create_index(&mut self, table: TableId, index: &IndexDef) -> Result<()> {
        self.store.space.create_index(table, index)?;
        let def = &self.store.table(table)?.def;
        self.journal.log.record.create_index(def, index.id);
        Ok(())
    }

    fn drop_index(&mut self, table: TableId, index: IndexId) -> Result<()> {
        self.store.space.drop_index(table, index)?;
        self.journal.log.record.drop_index(table, index);
        Ok(())
    }

    fn insert(&mut self, table: TableId, row: &Row) -> Result<()> {
        self.store.space.insert(table, row)?;
        self.journal.leave_out(table, row);
        self.journal.log.record.insert(table, row);
        Ok(())
    }

    fn update(&mut self, table: TableId, key: &[u64], changes: &Changes) -> Result<bool> {
        self.change(
            table,
            key,
            |store| store.space.update(table, key, changes),
            |record, before| record.update(table, key, before, changes),
        )
    }

    fn delete(&mut self, table: TableId, key: &[u64]) -> Result<bool> {
        self.change(
            table,
            key,
            |store| store.space.delete(table, key),
            |record, before| record.delete(table, key, before),
        )
    }

    #[inline]
    fn savepoint(&mut self) -> (StoreSavepoint, RedoSavepoint) {
        (self.store.savepoint(), self.journal.log.record.savepoint())
    }

    fn rollback_to(
        &mut self,
        (savepoint, redo_savepoint): (StoreSavepoint, RedoSavepoint),
    ) -> Result<()> {
        self.store.rollback_to(savepoint)?;
        self.journal.log.record.rollback_to(redo_savepoint);
        Ok(())
    }

    #[inline]
    fn commit(
        &mut self,
        prepared: Option<GlobalTxnId>,
        durability: Durability,
    ) -> Result<CommitTicket, Fault> {
        let ticket = self
            .journal
            .append(|log| log.commit(prepared, durability))?;
        self.store.commit();
        Ok(ticket)
    }

    fn prepare(&mut self, global: GlobalTxnId) -> Result<(), Fault> {
        self.journal.append(|log| log.prepare(global))
    }

    fn abort(&mut self, prepared: Option<GlobalTxnId>) -> Result<(), Fault> {
        self.journal.log.abort(prepared)?;
        Ok(self.store.abort()?)
    }

    /// Reading alone writes nothing.
    #[inline]
    fn maintain(&mut self) -> Result<()> {
        if !self.journal.log.has_grown {
            return Ok(());
        }
        self.journal.advance(&mut self.store)
    }

    fn prepare_definition(&mut self) -> Result<()> {
        self.store.forget_rows();
        Ok(())
    }

    fn reload(&mut self) -> Result<()> {
        self.store.reopen()
    }

    #[inline]
    fn transaction_bytes(&self) -> usize {
        self.store.transaction_bytes() + self.journal.log.record.bytes()
    }

    fn durable(&self) -> CommitTicket {
        self.journal.log.durable()
    }

    fn force(&mut self) -> Result<(), Fault> {
        Ok(self.journal.log.force()?)
    }

    fn checkpoint(&mut self) -> Result<(), Fault> {
        let written = self.journal.checkpoint(&mut self.store);
        written.map_err(|error| self.journal.log.checkpoint_fault(error))
    }

    fn footprint(&mut self) -> Result<Footprint> {
        Ok(Footprint {
            log: self.journal.log.log_bytes(),
            checkpoint: self.journal.checkpoint_bytes(),
            ..self.store.footprint()?
        })
    }

    fn status(&self) -> EngineStatus {
        EngineStatus {
            memory: self.store.space.arena.counters(),
            disk: self.journal.log.counters(),
            recovery_undone: self.undone,
            recovery_replayed: self.replayed,
            ..EngineStatus::default()
        }
    }

    fn verify(&mut self) -> Result<VerifyReport, Fault> {
        let mut report = self.store.verify();
        let verified = self.journal.verify(&mut report);
        verified.map(|()| report).map_err(Fault::Harmless)
    }
}

#[cfg(test)]
mod tests;
