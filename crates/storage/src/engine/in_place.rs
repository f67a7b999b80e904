//! `inp` and `volatile`: in-place updates in volatile memory, with a log and checkpoints in files
//! or without.
//!
//! | when | `inp` writes | `volatile` writes |
//! |---|---|---|
//! | operation | a redo entry with before and after images in DRAM | nothing |
//! | commit | the transaction's record; one sync for its group | nothing |
//! | prepare | the same record, marked, and a sync | nothing |
//! | abort | nothing; before images in DRAM go back | the same |
//! | checkpoint | all tables, compressed, some rows after each transaction | nothing |
//! | end of a checkpoint | nothing; the log before it is removed | nothing |
//! | recovery | nothing, but how a prepared transaction ended | – |
//!
//! After SIGMOD 2015 (N-Store), section 3.1. Where we differ: a record is written when its
//! transaction commits and not at each change. That is the same promise, because no uncommitted
//! change ever leaves DRAM, and an abort costs no bytes.

mod journal;
mod recovery;
mod snapshot;
mod store;

use super::serial::replay::settings;
use super::{
    CommitTicket, Decide, Durability, Engine, EngineOptions, EngineStatus, Footprint, GlobalTxnId,
    Idle, Reads, ScanRange, VerifyReport,
};
use crate::error::{Result, StorageError};
use crate::failure::Failure;
use crate::log::Keep;
use crate::log::checkpoint::is_harmless;
use crate::log::redo::{Outcome, RedoRecord};
use crate::platform::Platform;
use crate::record::{Changes, IndexDef, IndexId, KeyBuf, Row, TableDef, TableId};
use crate::table::{Table, Tables};
use journal::Journal;
use pmem::{MemorySource, Part};
use std::ops::ControlFlow;
use std::sync::Arc;
use store::Store;

type DeviceOf<P> = <<P as Platform>::Memories as MemorySource>::Memory;

/// One partition of `inp` or `volatile`.
pub struct InPlace<P: Platform> {
    store: Store<DeviceOf<P>>,
    /// Log and checkpoints; `volatile` has none.
    journal: Option<Journal<P::Files>>,
    state: State,
    /// Of the step after which it is [`State::Poisoned`].
    failure: Failure,
    /// Newest ticket of `volatile`.
    tickets: u64,
    /// Whether the open transaction of `volatile` has changed anything.
    changed: bool,
    replayed: u64,
    undone: u64,
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

impl<P: Platform> InPlace<P> {
    /// A partition of `volatile`: empty, and gone when it is dropped.
    pub fn volatile(platform: &P, options: &EngineOptions) -> Result<Self> {
        Ok(Self::new(new_store(platform, options)?, None))
    }

    /// Makes the files of a partition of `inp`.
    pub fn create(platform: &P, options: &EngineOptions) -> Result<Self> {
        let store = new_store(platform, options)?;
        let files = platform.files(options.partition)?;
        let journal = Journal::create(files, options, settings(options))?;
        Ok(Self::new(store, Some(journal)))
    }

    /// Opens a partition of `inp`: loads its checkpoint and replays its log.
    pub fn open(platform: &P, options: &EngineOptions, decide: Decide<'_>) -> Result<Self> {
        let files = platform.files(options.partition)?;
        let memory = || new_memory(platform, options);
        let recovered = recovery::recover(files, memory, options, decide)?;
        let mut engine = Self::new(recovered.store, Some(recovered.journal));
        engine.replayed = recovered.replayed;
        engine.undone = recovered.undone;
        Ok(engine)
    }

    fn new(store: Store<DeviceOf<P>>, journal: Option<Journal<P::Files>>) -> Self {
        let state = State::Idle;
        Self {
            store,
            journal,
            state,
            failure: Failure::default(),
            tickets: 0,
            changed: false,
            replayed: 0,
            undone: 0,
        }
    }

    /// Runs one operation. If it fails without damage its traces are taken back and the transaction
    /// goes on.
    #[inline]
    fn operate<T>(&mut self, operation: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.require(State::Open)?;
        let mark = self.store.mark();
        let redo_mark = self
            .journal
            .as_ref()
            .map(|journal| journal.log.record.mark());
        let error = match operation(self) {
            Ok(value) => {
                self.changed = true;
                return Ok(value);
            }
            Err(error) => error,
        };
        self.state = State::MustAbort;
        if error.is_statement_error() && self.store.rollback_to(mark).is_ok() {
            if let (Some(journal), Some(mark)) = (&mut self.journal, redo_mark) {
                journal.log.record.rollback_to(mark);
            }
            self.state = State::Open;
        }
        Err(error)
    }

    /// Changes a row. A log with before images needs the old row, and so does a checkpoint that is
    /// being written.
    #[inline]
    fn change(
        &mut self,
        table: TableId,
        key: &[u64],
        log: impl FnOnce(&mut RedoRecord, Option<&Row>),
        change: impl FnOnce(&mut Store<DeviceOf<P>>) -> Result<bool>,
    ) -> Result<bool> {
        self.operate(|this| {
            let Some(journal) = &mut this.journal else {
                return change(&mut this.store);
            };
            if !journal.needs_before_images() {
                let found = change(&mut this.store)?;
                if found {
                    log(&mut journal.log.record, None);
                }
                return Ok(found);
            }
            let Some(before) = this.store.before_image(table, key)? else {
                return Ok(false);
            };
            change(&mut this.store)?;
            journal.keep(table, key, &before);
            log(&mut journal.log.record, Some(&before));
            this.store.give_row(table, before);
            Ok(true)
        })
    }

    /// Runs a change of the schema as a transaction of its own.
    fn define(
        &mut self,
        change: impl FnOnce(&mut Store<DeviceOf<P>>) -> Result<()>,
        log: impl FnOnce(&mut RedoRecord, &[Arc<Table>]),
    ) -> Result<()> {
        self.begin()?;
        self.store.forget_rows();
        let result = change(&mut self.store).and_then(|()| {
            self.changed = true;
            if let Some(journal) = &mut self.journal {
                log(&mut journal.log.record, &self.store.space.tables());
            }
            self.commit(Durability::Immediate).map(|_| ())
        });
        if result.is_err() && self.state != State::Poisoned {
            self.abort()?;
            self.store.reopen()?;
        }
        result
    }

    fn require(&self, state: State) -> Result<()> {
        if self.state == state {
            return Ok(());
        }
        let refuse = |text: &str| StorageError::Unsupported(text.to_owned());
        Err(match self.state {
            State::Poisoned => self.failure.refusal(),
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
            self.failure.note_of(error);
        })
    }

    /// Puts the transaction into the log. A full disk, or a record that is too long, leaves the
    /// transaction to be aborted.
    fn append(&mut self, append: impl FnOnce(&mut Journal<P::Files>) -> Result<()>) -> Result<()> {
        let Some(journal) = &mut self.journal else {
            return Ok(());
        };
        let result = append(journal);
        if let Err(error) = &result {
            self.state = if journal.log.is_poisoned() {
                self.failure.note_of(error);
                State::Poisoned
            } else {
                State::MustAbort
            };
        }
        result
    }

    /// Notes how a prepared transaction ended.
    fn resolve(&mut self, global: GlobalTxnId, outcome: Outcome) -> Result<()> {
        let Some(journal) = &mut self.journal else {
            return Ok(());
        };
        let result = journal.log.resolve(global, outcome);
        self.durable_step(result)
    }

    /// Ends the transaction whose record is in the log.
    fn join(&mut self, durability: Durability, has_effects: bool) -> Result<CommitTicket> {
        self.store.commit();
        self.state = State::Idle;
        self.changed = false;
        let Some(journal) = &mut self.journal else {
            self.tickets += u64::from(has_effects);
            return Ok(CommitTicket(self.tickets));
        };
        let result = if has_effects {
            journal.log.join(durability)
        } else {
            journal.log.wait(durability)
        };
        self.durable_step(result)
    }

    fn has_effects(&self) -> bool {
        match &self.journal {
            Some(journal) => !journal.log.record.is_empty(),
            None => self.changed,
        }
    }

    /// Takes a step of a checkpoint after a transaction that wrote to the log. The transaction has
    /// ended well, so a failure is reported to the next one.
    #[inline]
    fn advance_checkpoint(&mut self) {
        if let Some(journal) = &mut self.journal
            && let Err(error) = journal.advance(&mut self.store)
        {
            self.state = State::Poisoned;
            self.failure.note_of(&error);
        }
    }
}

impl<P: Platform> Reads for InPlace<P> {
    fn tables(&self) -> Vec<Arc<Table>> {
        self.store.space.tables()
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
        let (space, arena, writes) = self.store.parts();
        space.get(arena, writes, table, key, row)
    }

    fn get_many(
        &mut self,
        table: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        self.require(State::Open)?;
        let (space, arena, writes) = self.store.parts();
        space.get_many(arena, writes, table, keys, visit)
    }

    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        self.require(State::Open)?;
        let (space, arena, writes) = self.store.parts();
        space.scan(arena, writes, range, visit)
    }

    fn abort(&mut self) -> Result<()> {
        let is_logged = matches!(self.state, State::Prepared(_)) && self.has_effects();
        match self.state {
            State::Prepared(global) if is_logged => self.resolve(global, Outcome::Aborted)?,
            State::MustAbort | State::Prepared(_) => {}
            _ => self.require(State::Open)?,
        }
        let result = self.store.abort();
        self.durable_step(result)?;
        if let Some(journal) = &mut self.journal {
            journal.log.record.clear();
        }
        self.changed = false;
        self.state = State::Idle;
        if is_logged {
            self.advance_checkpoint();
        }
        Ok(())
    }

    fn durable(&self) -> CommitTicket {
        self.journal
            .as_ref()
            .map_or(CommitTicket(self.tickets), |journal| journal.log.durable())
    }

    fn footprint(&mut self) -> Result<Footprint> {
        let heap = self.store.arena.footprint()?;
        let held = |part: Part| heap.held_bytes[part as usize];
        let journal = self.journal.as_ref();
        Ok(Footprint {
            table: held(Part::Table),
            index: held(Part::Index),
            log: journal.map_or(0, |journal| journal.log.log_bytes()),
            checkpoint: journal.map_or(0, Journal::checkpoint_bytes),
            other: held(Part::Other) + heap.metadata_bytes,
        })
    }

    fn status(&self) -> EngineStatus {
        EngineStatus {
            memory: self.store.arena.counters(),
            disk: self
                .journal
                .as_ref()
                .map(|journal| journal.log.counters())
                .unwrap_or_default(),
            recovery_undone: self.undone,
            recovery_replayed: self.replayed,
            ..EngineStatus::default()
        }
    }

    fn verify(&mut self) -> Result<VerifyReport> {
        self.require(State::Idle)?;
        let mut report = self.store.verify();
        if let Some(journal) = &self.journal {
            journal.verify(&mut report)?;
        }
        Ok(report)
    }
}

impl<P: Platform> Engine for InPlace<P> {
    fn insert(&mut self, table: TableId, row: &Row) -> Result<()> {
        self.operate(|this| {
            let (space, arena, writes) = this.store.parts();
            space.insert(arena, writes, table, row)?;
            if let Some(journal) = &mut this.journal {
                journal.leave_out(table, row);
                journal.log.record.insert(table, row);
            }
            Ok(())
        })
    }

    fn update(&mut self, table: TableId, key: &[u64], changes: &Changes) -> Result<bool> {
        self.change(
            table,
            key,
            |record, before| record.update(table, key, before, changes),
            |store| {
                let (space, arena, writes) = store.parts();
                space.update(arena, writes, table, key, changes)
            },
        )
    }

    fn delete(&mut self, table: TableId, key: &[u64]) -> Result<bool> {
        self.change(
            table,
            key,
            |record, before| record.delete(table, key, before),
            |store| {
                let (space, arena, writes) = store.parts();
                space.delete(arena, writes, table, key)
            },
        )
    }

    #[inline]
    fn commit(&mut self, durability: Durability) -> Result<CommitTicket> {
        let has_effects = self.has_effects();
        match self.state {
            State::Prepared(global) if has_effects => self.resolve(global, Outcome::Committed)?,
            State::Prepared(_) => {}
            _ => {
                self.require(State::Open)?;
                if has_effects {
                    self.append(Journal::append)?;
                }
            }
        }
        let ticket = self.join(durability, has_effects)?;
        if has_effects {
            self.advance_checkpoint();
        }
        Ok(ticket)
    }

    fn prepare(&mut self, global: GlobalTxnId) -> Result<()> {
        self.require(State::Open)?;
        self.append(|journal| {
            if journal.log.record.is_empty() {
                journal.log.force()
            } else {
                journal.prepare(global)
            }
        })?;
        self.state = State::Prepared(global);
        Ok(())
    }

    #[inline]
    fn transaction_bytes(&self) -> usize {
        let record = self
            .journal
            .as_ref()
            .map(|journal| journal.log.record.bytes());
        self.store.transaction_bytes() + record.unwrap_or_default()
    }

    fn force(&mut self) -> Result<()> {
        if self.state == State::Poisoned {
            return Err(self.failure.refusal());
        }
        let Some(journal) = &mut self.journal else {
            return Ok(());
        };
        let result = journal.log.force();
        self.durable_step(result)
    }

    fn idle(&mut self) -> Result<&mut dyn Idle> {
        self.require(State::Idle)?;
        Ok(self)
    }
}

impl<P: Platform> Idle for InPlace<P> {
    fn create_table(&mut self, def: &TableDef) -> Result<()> {
        self.define(
            |store| {
                let (space, arena, writes) = store.parts();
                space.create_table(arena, writes, def)
            },
            |record, _| record.create_table(def),
        )
    }

    fn drop_table(&mut self, table: TableId) -> Result<()> {
        self.require(State::Idle)?;
        if let Some(journal) = &mut self.journal {
            let result = journal.release(&mut self.store, table);
            self.durable_step(result)?;
        }
        self.define(
            |store| {
                let (space, arena, writes) = store.parts();
                space.drop_table(arena, writes, table)
            },
            |record, _| record.drop_table(table),
        )
    }

    fn create_index(&mut self, table: TableId, index: &IndexDef) -> Result<()> {
        self.define(
            |store| {
                let (space, arena, writes) = store.parts();
                space.create_index(arena, writes, table, index)
            },
            |record, tables| {
                if let Some(found) = tables.iter().find(|found| found.def.id == table) {
                    record.create_index(&found.def, index.id);
                }
            },
        )
    }

    fn drop_index(&mut self, table: TableId, index: IndexId) -> Result<()> {
        self.define(
            |store| {
                let (space, arena, writes) = store.parts();
                space.drop_index(arena, writes, table, index)
            },
            |record, _| record.drop_index(table, index),
        )
    }

    fn checkpoint(&mut self) -> Result<()> {
        let Some(journal) = &mut self.journal else {
            return Ok(());
        };
        let result = journal.checkpoint(&mut self.store);
        if let Err(error) = &result
            && (journal.log.is_poisoned() || !is_harmless(error))
        {
            self.state = State::Poisoned;
            self.failure.note_of(error);
        }
        result
    }

    fn close(&mut self) -> Result<()> {
        self.force()
    }
}

fn new_store<P: Platform>(platform: &P, options: &EngineOptions) -> Result<Store<DeviceOf<P>>> {
    let memory = new_memory(platform, options)?;
    Store::new(
        memory,
        options.layout,
        options.node_bytes as usize,
        Keep::BeforeImages,
    )
}

fn new_memory<P: Platform>(platform: &P, options: &EngineOptions) -> Result<DeviceOf<P>> {
    let bytes = options.pool_bytes.max(Store::<DeviceOf<P>>::bytes_min());
    Ok(platform.memories(options.partition).volatile(bytes)?)
}

#[cfg(test)]
mod tests;
