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
use super::serial::replay::settings;
use super::{
    CommitTicket, Decide, Durability, Engine, EngineOptions, EngineStatus, Footprint, GlobalTxnId,
    Idle, Reads, ScanRange, VerifyReport,
};
use crate::error::{Result, StorageError};
use crate::log::checkpoint::is_harmless;
use crate::log::redo::Outcome;
use crate::log::{LogStart, Wal};
use crate::lsm::file::compaction::{Compaction, Head, Progress};
use crate::lsm::file::manifest::{self, Manifest};
use crate::lsm::file::store::Store;
use crate::platform::Platform;
use crate::record::{Changes, IndexDef, IndexId, KeyBuf, Row, TableDef, TableId};
use crate::table::Table;
use disk::Directory;
use pmem::Part;
use recovery::{run_sizes, store_settings};
use std::ops::ControlFlow;
use std::sync::Arc;

type FileOf<P> = <<P as Platform>::Files as Directory>::File;

/// One partition of `log`.
pub struct LogStructured<P: Platform> {
    store: Store<P::Memories, FileOf<P>>,
    journal: CommitLog<P::Files>,
    compaction: Compaction<FileOf<P>>,
    state: State,
    replayed: u64,
    undone: u64,
    /// The row that an update or deletion finds, for its before image.
    before: Option<Row>,
}

/// States of the engine, which decide the calls that it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Open,
    /// Only `commit` and `abort` are possible, and both must succeed.
    Prepared(GlobalTxnId),
    /// An operation failed half-way: only `abort` is possible.
    MustAbort,
    /// Memory and files may differ: nothing is possible.
    Poisoned,
}

impl<P: Platform> LogStructured<P> {
    /// Makes the files of a partition.
    pub fn create(platform: &P, options: &EngineOptions) -> Result<Self> {
        let directory = platform.files(options.partition)?;
        let identity = identity(options);
        if manifest::exists(&directory, identity)? {
            let file = format!("p{}.manifest", options.partition);
            let reason = "another database has files here; choose an empty directory".to_owned();
            return Err(StorageError::ForeignFile { file, reason });
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
        Ok(Self::new(store, journal, compaction))
    }

    /// Opens a partition: opens its runs and replays its log.
    pub fn open(platform: &P, options: &EngineOptions, decide: Decide<'_>) -> Result<Self> {
        let directory = platform.files(options.partition)?;
        let memories = platform.memories(options.partition);
        let recovered = recovery::recover(directory, memories, options, decide)?;
        let mut engine = Self::new(recovered.store, recovered.journal, recovered.compaction);
        engine.replayed = recovered.replayed;
        engine.undone = recovered.undone;
        Ok(engine)
    }

    fn new(
        store: Store<P::Memories, FileOf<P>>,
        journal: CommitLog<P::Files>,
        compaction: Compaction<FileOf<P>>,
    ) -> Self {
        Self {
            store,
            journal,
            compaction,
            state: State::Idle,
            replayed: 0,
            undone: 0,
            before: None,
        }
    }

    /// Runs one operation. If it fails without damage its traces are taken back and the transaction
    /// goes on.
    #[inline]
    fn operate<T>(&mut self, operation: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.require(State::Open)?;
        let (mark, redo_mark) = (self.store.mark(), self.journal.record.mark());
        let error = match operation(self) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        self.state = State::MustAbort;
        if error.is_statement_error() && self.store.rollback_to(mark).is_ok() {
            self.journal.record.rollback_to(redo_mark);
            self.state = State::Open;
        }
        Err(error)
    }

    /// Runs a change of the schema as a transaction of its own.
    fn define(&mut self, operation: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.begin()?;
        self.before = None;
        let schema = self.store.schema();
        let result = operation(self).and_then(|()| self.commit(Durability::Immediate).map(|_| ()));
        if result.is_err() && self.state != State::Poisoned {
            self.abort()?;
            self.store.restore_schema(schema);
        }
        result
    }

    fn require(&self, state: State) -> Result<()> {
        if self.state == state {
            return Ok(());
        }
        let refuse = |text: &str| StorageError::Unsupported(text.to_owned());
        Err(match self.state {
            State::Poisoned => self.journal.refusal(),
            State::MustAbort => refuse("an operation failed half-way; abort the transaction"),
            State::Prepared(_) => refuse("the transaction is prepared; commit or abort it"),
            State::Idle => refuse("no transaction is open"),
            State::Open => refuse("a transaction is open already"),
        })
    }

    /// Remembers that a durable step failed, after which memory and files may differ.
    fn durable_step<T>(&mut self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| {
            self.state = State::Poisoned;
            self.journal.refuse(error);
        })
    }

    /// Ends the transaction whose record is in the log.
    fn join(&mut self, durability: Durability, has_effects: bool) -> Result<CommitTicket> {
        self.store.commit();
        self.state = State::Idle;
        let result = if has_effects {
            self.journal.join(durability)
        } else {
            self.journal.wait(durability)
        };
        let ticket = self.durable_step(result)?;
        if has_effects {
            // The transaction has committed, even if this fails; a failure stops the next one.
            let result = self.maintain();
            let _stopped = self.durable_step(result);
        }
        Ok(ticket)
    }

    /// Does the share of flushes and merges that is due.
    fn maintain(&mut self) -> Result<()> {
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

    /// Whether the log has records that the manifest does not cover: a definition needs no bytes of
    /// a MemTable.
    fn journal_has_records(&self) -> bool {
        self.compaction.is_behind(self.journal.newest())
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
}

impl<P: Platform> Reads for LogStructured<P> {
    fn tables(&self) -> Vec<Arc<Table>> {
        self.store.tables()
    }

    #[inline]
    fn begin(&mut self) -> Result<()> {
        self.require(State::Idle)?;
        self.state = State::Open;
        Ok(())
    }

    #[inline]
    fn get(&mut self, table: TableId, key: &[u64], row: &mut Row) -> Result<bool> {
        self.require(State::Open)?;
        self.store.get(table, key, row)
    }

    fn get_many(
        &mut self,
        table: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        self.require(State::Open)?;
        self.store.get_many(table, keys, visit)
    }

    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        self.require(State::Open)?;
        self.store.scan(range, visit)
    }

    fn abort(&mut self) -> Result<()> {
        let has_effects = !self.journal.record.is_empty();
        match self.state {
            State::Prepared(global) if has_effects => {
                let result = self.journal.resolve(global, Outcome::Aborted);
                self.durable_step(result)?;
            }
            State::MustAbort | State::Prepared(_) => {}
            _ => self.require(State::Open)?,
        }
        let result = self.store.abort();
        self.durable_step(result)?;
        self.journal.record.clear();
        self.state = State::Idle;
        Ok(())
    }

    fn durable(&self) -> CommitTicket {
        self.journal.durable()
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

    fn verify(&mut self) -> Result<VerifyReport> {
        self.require(State::Idle)?;
        let mut report = VerifyReport::default();
        self.store.check(&mut report);
        if let Err(error) = self.journal.verify() {
            report.damage.push(error.to_string());
        }
        Ok(report)
    }
}

impl<P: Platform> Engine for LogStructured<P> {
    fn insert(&mut self, table: TableId, row: &Row) -> Result<()> {
        self.operate(|this| {
            this.store.insert(table, row)?;
            this.journal.record.insert(table, row);
            Ok(())
        })
    }

    fn update(&mut self, table: TableId, key: &[u64], changes: &Changes) -> Result<bool> {
        self.operate(|this| {
            if !this.journal.record.has_before_images() {
                let found = this.store.update(table, key, None, changes)?;
                if found {
                    this.journal.record.update(table, key, None, changes);
                }
                return Ok(found);
            }
            let Some(before) = this.before_image(table, key)? else {
                return Ok(false);
            };
            let old = Some(&before);
            this.store.update(table, key, old, changes)?;
            this.journal.record.update(table, key, old, changes);
            this.before = Some(before);
            Ok(true)
        })
    }

    fn delete(&mut self, table: TableId, key: &[u64]) -> Result<bool> {
        self.operate(|this| {
            if !this.journal.record.has_before_images() {
                let found = this.store.delete(table, key)?;
                if found {
                    this.journal.record.delete(table, key, None);
                }
                return Ok(found);
            }
            let Some(before) = this.before_image(table, key)? else {
                return Ok(false);
            };
            this.store.delete(table, key)?;
            this.journal.record.delete(table, key, Some(&before));
            this.before = Some(before);
            Ok(true)
        })
    }

    #[inline]
    fn commit(&mut self, durability: Durability) -> Result<CommitTicket> {
        let has_effects = !self.journal.record.is_empty();
        match self.state {
            State::Prepared(global) if has_effects => {
                let result = self.journal.resolve(global, Outcome::Committed);
                self.durable_step(result)?;
            }
            State::Prepared(_) => {}
            _ => {
                self.require(State::Open)?;
                if has_effects && let Err(error) = self.journal.append() {
                    self.state = if self.journal.is_poisoned() {
                        State::Poisoned
                    } else {
                        State::MustAbort
                    };
                    return Err(error);
                }
            }
        }
        self.join(durability, has_effects)
    }

    fn prepare(&mut self, global: GlobalTxnId) -> Result<()> {
        self.require(State::Open)?;
        let result = if self.journal.record.is_empty() {
            self.journal.force()
        } else {
            self.journal.prepare(global)
        };
        if result.is_err() {
            self.state = if self.journal.is_poisoned() {
                State::Poisoned
            } else {
                State::MustAbort
            };
        }
        result?;
        self.state = State::Prepared(global);
        Ok(())
    }

    #[inline]
    fn transaction_bytes(&self) -> usize {
        self.store.active.transaction_bytes() + self.journal.record.bytes()
    }

    fn force(&mut self) -> Result<()> {
        if self.state == State::Poisoned {
            return Err(self.journal.refusal());
        }
        let result = self.journal.force();
        self.durable_step(result)
    }

    fn idle(&mut self) -> Result<&mut dyn Idle> {
        self.require(State::Idle)?;
        Ok(self)
    }
}

impl<P: Platform> Idle for LogStructured<P> {
    fn create_table(&mut self, def: &TableDef) -> Result<()> {
        self.define(|this| {
            this.store.create_table(def)?;
            this.journal.record.create_table(def);
            Ok(())
        })
    }

    fn drop_table(&mut self, table: TableId) -> Result<()> {
        self.define(|this| {
            this.store.drop_table(table)?;
            this.journal.record.drop_table(table);
            Ok(())
        })
    }

    fn create_index(&mut self, table: TableId, index: &IndexDef) -> Result<()> {
        self.define(|this| {
            this.store.create_index(table, index)?;
            let def = &this.store.table(table)?.def;
            this.journal.record.create_index(def, index.id);
            Ok(())
        })
    }

    fn drop_index(&mut self, table: TableId, index: IndexId) -> Result<()> {
        self.define(|this| {
            this.store.drop_index(table, index)?;
            this.journal.record.drop_index(table, index);
            Ok(())
        })
    }

    fn checkpoint(&mut self) -> Result<()> {
        let mut result = self.flush_and_merge();
        if result.as_ref().is_err_and(is_harmless) && self.journal.give_up_reserve()? {
            // The runs may fit into the room of the reserve, and the log that they make needless is
            // longer.
            result = self.flush_and_merge();
        }
        let kept = self.journal.keep_reserve().map(drop);
        let result = result.and(kept);
        if let Err(error) = &result
            && (self.journal.is_poisoned() || !is_harmless(error))
        {
            self.state = State::Poisoned;
            self.journal.refuse(error);
        }
        result
    }

    fn close(&mut self) -> Result<()> {
        self.force()
    }
}
