//! `log`: a log-structured tree with a MemTable in volatile memory, runs in files, and a
//! write-ahead log.
//!
//! | when | it writes |
//! |---|---|
//! | operation | an entry into the MemTable; a redo entry with before and after images in DRAM |
//! | commit | the transaction's record; one sync for its group |
//! | prepare | the same record, marked, and a sync |
//! | abort | nothing; before images in DRAM go back |
//! | after the commit | its share of a flush or a merge; at their end a manifest |
//! | checkpoint | the whole MemTable to a run; a manifest; then the older log is removed |
//! | recovery | nothing, but how a prepared transaction ended |
//!
//! After SIGMOD 2015 (N-Store), section 3.3. Where we differ: a record is written when its
//! transaction commits and not at each change, as in `inp`; secondary indexes are trees of the same
//! MemTables and runs; merges are driven by commits in bounded steps (`lsm::file::compaction`) and
//! not by a thread, so that no writer meets a whole merge and every run of a test is the same.

mod recovery;

use super::serial::commit_log::{CommitLog, identity, wal_options};
use super::serial::driver::{Fault, Policy, Serial};
use super::serial::replay::settings;
use crate::lsm::file::compaction::{Compaction, Head, Progress};
use crate::lsm::file::manifest::{self, Manifest};
use crate::lsm::file::mem_table::MemTableSavepoint;
use crate::lsm::file::store::{SavedSchema, Store};
use crate::table::Space as _;
use disk::Directory;
use pmem::{MemorySource, Part};
use recovery::{run_sizes, store_settings};
use std::sync::Arc;
use storage::engine::{
    CommitTicket, Decide, Durability, EngineOptions, EngineStatus, Footprint, GlobalTxnId,
    VerifyReport,
};
use storage::log::checkpoint::is_harmless;
use storage::log::redo::{RedoRecord, RedoSavepoint};
use storage::log::{LogStart, Wal};
use storage::record::{Changes, IndexDef, IndexId, Row, TableDef, TableId};
use storage::{Platform, Result, StorageError};

/// One partition of `log`.
pub(super) struct LogStructured<S: MemorySource, D: Directory> {
    store: Store<S, D::File>,
    journal: CommitLog<D>,
    compaction: Compaction<D::File>,
    /// Transactions that recovery replayed.
    replayed: u64,
    /// Prepared transactions that recovery dropped.
    undone: u64,
    /// The row that an update or deletion finds, for its before image.
    before: Option<Row>,
    /// The definitions before the transaction that changes them.
    schema: Option<SavedSchema>,
}

/// The partition as an engine.
pub(super) type Partition<P> =
    Serial<LogStructured<<P as Platform>::Memories, <P as Platform>::Files>>;

/// Makes the files of a partition.
pub(super) fn create<P: Platform>(platform: &P, options: &EngineOptions) -> Result<Partition<P>> {
    let directory = platform.files(options.partition)?;
    let identity = identity(options);
    if manifest::exists(&directory, identity)? {
        let file = format!("p{}.manifest", options.partition);
        let reason = "another database has files here; choose an empty directory";
        return Err(StorageError::foreign_file(file, reason));
    }
    let settings = settings(options);
    let first = Manifest {
        start: LogStart::NEW,
        ticket: CommitTicket(0),
        settings,
        runs: Vec::new(),
        tables: Vec::new(),
        next_tree: 1,
    };
    let memories = platform.memories(options.partition);
    let store = Store::new(
        memories,
        store_settings(settings, options)?,
        &[],
        first.next_tree,
    )?;
    first.write(&directory, identity)?;
    let sizes = wal_options(options.memtable_bytes);
    let wal = Wal::open(&directory, identity, sizes, first.start, &mut |_, _| Ok(()))?;
    let head = Head {
        start: first.start,
        ticket: first.ticket,
        tables: Vec::new(),
        next_tree: first.next_tree,
    };
    let compaction = Compaction::new(identity, run_sizes(options), settings, head, 1);
    let journal = CommitLog::new(directory, options, wal, first.ticket);
    Ok(Serial::new(LogStructured {
        store,
        journal,
        compaction,
        replayed: 0,
        undone: 0,
        before: None,
        schema: None,
    }))
}

/// Opens a partition: opens its runs and replays its log.
pub(super) fn open<P: Platform>(
    platform: &P,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<Partition<P>> {
    let directory = platform.files(options.partition)?;
    let memories = platform.memories(options.partition);
    recovery::recover(directory, memories, options, decide).map(Serial::new)
}

impl<S: MemorySource, D: Directory> LogStructured<S, D> {
    /// Changes a row. A log with before images needs the old row.
    #[inline]
    fn change(
        &mut self,
        table: TableId,
        key: &[u64],
        change: impl FnOnce(&mut Store<S, D::File>, Option<&Row>) -> Result<bool>,
        log: impl FnOnce(&mut RedoRecord, Option<&Row>),
    ) -> Result<bool> {
        if !self.journal.record.has_before_images() {
            let found = change(&mut self.store, None)?;
            if found {
                log(&mut self.journal.record, None);
            }
            return Ok(found);
        }
        let Some(before) = self.before_image(table, key)? else {
            return Ok(false);
        };
        change(&mut self.store, Some(&before))?;
        log(&mut self.journal.record, Some(&before));
        self.before = Some(before);
        Ok(true)
    }

    /// Reads the row with this key for its before image; none if there is none.
    fn before_image(&mut self, table: TableId, key: &[u64]) -> Result<Option<Row>> {
        let layout = &self.store.table(table)?.layout;
        let mut row = match self.before.take() {
            Some(row) if Arc::ptr_eq(row.layout(), layout) => row,
            _ => Row::new(Arc::clone(layout)),
        };
        if self.store.get(table, key, &mut row)? {
            return Ok(Some(row));
        }
        self.before = Some(row);
        Ok(None)
    }

    /// Does the share of flushes and merges that is due.
    fn do_share(&mut self) -> Result<()> {
        // A full MemTable ends its segment: on a full disk the reserve has to be there for the next
        // one.
        if self.compaction.wants_freeze(&self.store) && self.journal.keep_reserve()? {
            self.freeze()?;
        }
        let progress = self
            .compaction
            .maintain(&mut self.store, &self.journal.directory)?;
        self.note(progress)
    }

    fn freeze(&mut self) -> Result<()> {
        let start = self.journal.cut()?;
        let ticket = self.journal.newest();
        self.compaction.freeze(&mut self.store, start, ticket)
    }

    fn note(&mut self, progress: Progress) -> Result<()> {
        if let Progress::Flushed(start) = progress {
            self.journal.starts_at(start);
        }
        self.journal.remove_needless().map(drop)
    }

    /// Writes all that MemTables hold to runs.
    fn flush_all(&mut self) -> Result<()> {
        loop {
            if self.store.full.is_none() {
                if self.store.active.sizes.written_bytes == 0 && !self.journal_has_records() {
                    return Ok(());
                }
                self.freeze()?;
                let progress = self
                    .compaction
                    .flush_now(&mut self.store, &self.journal.directory)?;
                return self.note(progress);
            }
            let progress = self
                .compaction
                .flush_now(&mut self.store, &self.journal.directory)?;
            self.note(progress)?;
        }
    }

    /// Writes the content of the MemTables to runs, and finishes the merges that are due.
    fn flush_and_merge(&mut self) -> Result<()> {
        self.flush_all()?;
        self.compaction
            .merge_now(&mut self.store, &self.journal.directory)
    }

    /// As [`Self::flush_and_merge`]; a full disk gives the reserve for it.
    fn write_all(&mut self) -> Result<()> {
        let mut result = self.flush_and_merge();
        if result.as_ref().is_err_and(is_harmless) && self.journal.give_up_reserve()? {
            // The runs may fit into the room of the reserve, and the log that they make needless is
            // longer.
            result = self.flush_and_merge();
        }
        let kept = self.journal.keep_reserve().map(drop);
        result.and(kept)
    }

    /// Whether the log has records that the manifest does not cover: a definition needs no bytes of
    /// a MemTable.
    fn journal_has_records(&self) -> bool {
        self.compaction.is_behind(self.journal.newest())
    }
}

impl<S: MemorySource + Send, D: Directory> Policy for LogStructured<S, D> {
    type Space = Store<S, D::File>;
    type Savepoint = (MemTableSavepoint, RedoSavepoint);

    fn space(&self) -> &Self::Space {
        &self.store
    }

    #[inline]
    fn space_mut(&mut self) -> &mut Self::Space {
        &mut self.store
    }

    fn create_table(&mut self, def: &TableDef) -> Result<()> {
        self.store.create_table(def)?;
        self.journal.record.create_table(def);
        Ok(())
    }

    fn drop_table(&mut self, table: TableId) -> Result<()> {
        self.store.drop_table(table)?;
        self.journal.record.drop_table(table);
        Ok(())
    }

    fn create_index(&mut self, table: TableId, index: &IndexDef) -> Result<()> {
        self.store.create_index(table, index)?;
        let def = &self.store.table(table)?.def;
        self.journal.record.create_index(def, index.id);
        Ok(())
    }

    fn drop_index(&mut self, table: TableId, index: IndexId) -> Result<()> {
        self.store.drop_index(table, index)?;
        self.journal.record.drop_index(table, index);
        Ok(())
    }

    fn insert(&mut self, table: TableId, row: &Row) -> Result<()> {
        self.store.insert(table, row)?;
        self.journal.record.insert(table, row);
        Ok(())
    }

    fn update(&mut self, table: TableId, key: &[u64], changes: &Changes) -> Result<bool> {
        self.change(
            table,
            key,
            |store, before| store.update_from(table, key, before, changes),
            |record, before| record.update(table, key, before, changes),
        )
    }

    fn delete(&mut self, table: TableId, key: &[u64]) -> Result<bool> {
        self.change(
            table,
            key,
            |store, _| store.delete(table, key),
            |record, before| record.delete(table, key, before),
        )
    }

    #[inline]
    fn savepoint(&mut self) -> (MemTableSavepoint, RedoSavepoint) {
        (self.store.savepoint(), self.journal.record.savepoint())
    }

    fn rollback_to(
        &mut self,
        (savepoint, redo_savepoint): (MemTableSavepoint, RedoSavepoint),
    ) -> Result<()> {
        self.store.rollback_to(savepoint)?;
        self.journal.record.rollback_to(redo_savepoint);
        Ok(())
    }

    #[inline]
    fn commit(
        &mut self,
        prepared: Option<GlobalTxnId>,
        durability: Durability,
    ) -> Result<CommitTicket, Fault> {
        let ticket = self.journal.commit(prepared, durability)?;
        self.store.commit();
        self.schema = None;
        Ok(ticket)
    }

    fn prepare(&mut self, global: GlobalTxnId) -> Result<(), Fault> {
        self.journal.prepare(global)
    }

    fn abort(&mut self, prepared: Option<GlobalTxnId>) -> Result<(), Fault> {
        self.journal.abort(prepared)?;
        Ok(self.store.abort()?)
    }

    #[inline]
    fn maintain(&mut self) -> Result<()> {
        if !self.journal.has_grown {
            return Ok(());
        }
        self.do_share()
    }

    fn prepare_definition(&mut self) -> Result<()> {
        self.before = None;
        self.schema = Some(self.store.schema());
        Ok(())
    }

    fn reload(&mut self) -> Result<()> {
        if let Some(schema) = self.schema.take() {
            self.store.restore_schema(schema);
        }
        Ok(())
    }

    #[inline]
    fn transaction_bytes(&self) -> usize {
        self.store.active.transaction_bytes() + self.journal.record.bytes()
    }

    fn durable(&self) -> CommitTicket {
        self.journal.durable()
    }

    fn force(&mut self) -> Result<(), Fault> {
        Ok(self.journal.force()?)
    }

    fn checkpoint(&mut self) -> Result<(), Fault> {
        let written = self.write_all();
        written.map_err(|error| self.journal.checkpoint_fault(error))
    }

    fn footprint(&mut self) -> Result<Footprint> {
        let mut footprint = Footprint {
            log: self.journal.log_bytes(),
            ..Footprint::default()
        };
        for arena in self.store.arenas() {
            let heap = arena.footprint()?;
            footprint.table += heap.held_bytes[Part::Table as usize];
            footprint.index += heap.held_bytes[Part::Index as usize];
            footprint.other += heap.held_bytes[Part::Other as usize] + heap.metadata_bytes;
        }
        footprint.table += self.store.run_bytes();
        footprint.other += self.store.cache_bytes();
        Ok(footprint)
    }

    fn status(&self) -> EngineStatus {
        EngineStatus {
            memory: self.store.counters(),
            disk: self.journal.counters(),
            recovery_undone: self.undone,
            recovery_replayed: self.replayed,
            ..EngineStatus::default()
        }
    }

    fn verify(&mut self) -> Result<VerifyReport, Fault> {
        let mut report = VerifyReport::default();
        self.store.check(&mut report);
        if let Err(error) = self.journal.verify() {
            report.damage.push(error.to_string());
        }
        Ok(report)
    }
}
