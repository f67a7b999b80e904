//! `nvm-inp` and `nvm-log`: tables, indexes and a log of pointers and images of changes, all in one
//! durable pool.
//!
//! The two methods differ in their tables. `nvm-inp` updates in place ([`TableSpace`]). `nvm-log`
//! has a log-structured tree of MemTables ([`NvTables`]): a change is an entry (whole row, changed
//! columns, or tombstone) in a block of its own, to which the active MemTable, a non-volatile
//! B+tree, points. A full MemTable only becomes immutable; commits merge it into larger runs in
//! small steps, each in its transaction. Commit, recovery and the log stand in `log::nv_write_set`;
//! this file puts them together.
//!
//! | pool | content |
//! |---|---|
//! | root 0 | the word that heads the list of tables; set last when the partition is created |
//! | root 1 | the log block |
//! | root 2 | the block where a long log goes on, so that deletions need no space; 0 in old pools |
//! | user words | `engine/serial/pool.rs`; the nodes are those of indexes |
//!
//! After SIGMOD 2015 (N-Store), sections 4.1 and 4.3 and Table 2; docs/methods.md says where we
//! differ.

use super::serial::pool::{self, FIRST_ROOT, Opened};
use super::{
    CommitTicket, Decide, Durability, Engine, EngineOptions, EngineStatus, Footprint, GlobalTxnId,
    Idle, Reads, ScanRange, VerifyReport,
};
use crate::error::{Result, StorageError};
use crate::failure::Failure;
use crate::index::NvBptree;
use crate::log::nv_write_set::{LOG_BYTES, OVERFLOW_BYTES};
use crate::log::{NvWriteSet, Recovered};
use crate::lsm::filter::Filters;
use crate::lsm::nv::{LevelSizes, NvSettings, NvTables};
use crate::platform::Platform;
use crate::record::{Changes, IndexDef, IndexId, KeyBuf, LayoutKind, Row, TableDef, TableId};
use crate::table::blocks::BlocksInUse;
use crate::table::space::TableSpace;
use crate::table::{Table, Tables};
use pmem::{Access, Arena, Memory, MemorySource, Outcome, Owner, Part, PoolKind, RootIndex, site};
use std::ops::ControlFlow;
use std::sync::Arc;

const LOG_ROOT: RootIndex = RootIndex::new(1);
const SPARE_ROOT: RootIndex = RootIndex::new(2);
/// Bytes of the block that holds the head of the list of tables.
const DIRECTORY_BYTES: usize = 8;
/// First size of the memory for filters.
const FILTER_BYTES: u64 = 1 << 20;

type DeviceOf<P> = <<P as Platform>::Memories as MemorySource>::Memory;

/// One partition of `nvm-inp`.
pub(crate) type NvInPlace<P> = NvPool<P, TableSpace<DeviceOf<P>, NvWriteSet, NvBptree>>;
/// One partition of `nvm-log`.
pub(crate) type NvLogStructured<P> = NvPool<P, NvTables<DeviceOf<P>>>;

/// Tables of one of the methods.
pub(crate) trait PoolTables<P: Platform>: Tables<DeviceOf<P>, NvWriteSet> + Sized {
    /// Kind of the method's pools.
    const POOL_KIND: PoolKind;

    /// The tables whose list starts at the word `directory`.
    fn open(
        arena: &mut Arena<DeviceOf<P>>,
        directory: u64,
        layout: LayoutKind,
        node_bytes: usize,
        made_with: (&P, &EngineOptions),
    ) -> Result<Self>;
}

impl<P: Platform> PoolTables<P> for TableSpace<DeviceOf<P>, NvWriteSet, NvBptree> {
    const POOL_KIND: PoolKind = PoolKind(0x6e76_6970);

    fn open(
        arena: &mut Arena<DeviceOf<P>>,
        directory: u64,
        layout: LayoutKind,
        node_bytes: usize,
        _: (&P, &EngineOptions),
    ) -> Result<Self> {
        Self::open(arena, directory, layout, node_bytes)
    }
}

impl<P: Platform> PoolTables<P> for NvTables<DeviceOf<P>> {
    const POOL_KIND: PoolKind = PoolKind(0x6e76_6c67);

    fn open(
        arena: &mut Arena<DeviceOf<P>>,
        directory: u64,
        layout: LayoutKind,
        node_bytes: usize,
        (platform, options): (&P, &EngineOptions),
    ) -> Result<Self> {
        let filters = platform
            .memories(options.partition)
            .volatile(FILTER_BYTES)?;
        let settings = NvSettings {
            directory,
            layout,
            node_bytes,
            sizes: LevelSizes {
                memtable_bytes: options.memtable_bytes.max(1),
                growth: u64::from(options.growth_factor.max(2)),
            },
        };
        Self::open(arena, Filters::new(filters)?, settings)
    }
}

/// One partition in a durable pool.
pub(crate) struct NvPool<P: Platform, T> {
    arena: Arena<DeviceOf<P>>,
    log: NvWriteSet,
    tables: T,
    log_block: u64,
    state: State,
    /// Of the step after which it is [`State::Poisoned`].
    failure: Failure,
    tickets: u64,
    undone: u64,
}

/// States of the engine, which decide the calls that it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Open,
    /// Only `commit` and `abort` are possible.
    Prepared,
    /// An operation failed half-way: only `abort` is possible.
    MustAbort,
    /// A durable step failed: nothing is possible.
    Poisoned,
}

impl<P: Platform, T: PoolTables<P>> NvPool<P, T> {
    /// Makes the partition's pool.
    pub(crate) fn create(platform: &P, options: &EngineOptions) -> Result<Self> {
        let memories = platform.memories(options.partition);
        let identity = pool::identity(T::POOL_KIND, options.node_bytes, options);
        let mut arena = pool::create(&memories, &identity, options)?;
        let log_block = allocate(&mut arena, LOG_BYTES, Part::Log)?;
        let spare = allocate(&mut arena, OVERFLOW_BYTES, Part::Log)?;
        let directory = allocate(&mut arena, DIRECTORY_BYTES, Part::Other)?;
        arena.store_word(directory, 0)?;
        arena.flush(directory, 8, site!("nv-pool.create"))?;
        let salt = pool::salt(options);
        let log = NvWriteSet::create(&mut arena, log_block, salt, options.fences)?;
        arena.settle(Outcome::Committed);
        arena.set_root(LOG_ROOT, log_block)?;
        arena.set_root(SPARE_ROOT, spare)?;
        // commit point: a pool whose directory is set is a complete, empty partition
        arena.set_root(FIRST_ROOT, directory)?;
        let (layout, node_bytes) = (options.layout, options.node_bytes as usize);
        let tables = T::open(
            &mut arena,
            directory,
            layout,
            node_bytes,
            (platform, options),
        )?;
        Ok(Self::new(arena, log, tables, Recovered::Clean))
    }

    /// Opens the partition's pool and undoes the transaction that was open, unless the commit table
    /// has it. With [`Access::Read`] it stores and flushes nothing, and fails where there is
    /// something to undo or to do again.
    pub(crate) fn open(platform: &P, options: &EngineOptions, decide: Decide<'_>) -> Result<Self> {
        let memories = platform.memories(options.partition);
        let nodes = ("index nodes", is_node_size as fn(u64) -> bool);
        let Opened {
            mut arena,
            name,
            layout,
            node_bytes,
            first_root: directory,
        } = pool::open(&memories, T::POOL_KIND, nodes, options)?;
        let salt = pool::salt(options);
        let base = arena.root(LOG_ROOT);
        let (log, recovered) = match options.access {
            Access::Write => NvWriteSet::recover(&mut arena, base, salt, options.fences, decide)?,
            Access::Read => match NvWriteSet::open_read_only(&arena, base, salt, options.fences)? {
                Some(log) => (log, Recovered::Clean),
                None => return Err(StorageError::NeedsRecovery(name)),
            },
        };
        let tables = T::open(
            &mut arena,
            directory,
            layout,
            node_bytes,
            (platform, options),
        )?;
        Ok(Self::new(arena, log, tables, recovered))
    }

    fn new(
        arena: Arena<DeviceOf<P>>,
        mut log: NvWriteSet,
        tables: T,
        recovered: Recovered,
    ) -> Self {
        log.set_spare(arena.root(SPARE_ROOT));
        Self {
            log_block: arena.root(LOG_ROOT),
            arena,
            log,
            tables,
            state: State::Idle,
            failure: Failure::default(),
            tickets: 0,
            undone: u64::from(recovered == Recovered::Undone),
        }
    }

    /// Runs one operation. If it fails without damage its traces are taken back and the transaction
    /// goes on.
    #[inline]
    fn operate<V>(&mut self, operation: impl FnOnce(&mut Self) -> Result<V>) -> Result<V> {
        self.require(State::Open)?;
        let (log_mark, heap_mark) = (self.log.mark(), self.arena.heap_mark());
        let error = match operation(self).and_then(|value| {
            self.log.end_operation(&mut self.arena)?;
            Ok(value)
        }) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        self.state = State::MustAbort;
        if error.is_statement_error() && self.log.rollback_to(&mut self.arena, log_mark).is_ok() {
            self.arena.heap_rollback(heap_mark);
            self.state = State::Open;
        }
        Err(error)
    }

    /// Runs a change of the schema as a transaction of its own. If it fails, the definitions in
    /// DRAM are read again.
    fn define(&mut self, operation: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.begin()?;
        let result = operation(self).and_then(|()| self.commit(Durability::Immediate).map(|_| ()));
        if result.is_err() && self.state != State::Poisoned {
            self.abort()?;
            self.tables.reload(&self.arena)?;
        }
        result
    }

    /// Commits the changes of the open transaction.
    #[inline]
    fn end_transaction(&mut self) -> Result<()> {
        let result = self.log.commit(&mut self.arena);
        self.durable_step(result)?;
        self.arena.settle(Outcome::Committed);
        self.tables.end_transaction();
        self.state = State::Idle;
        Ok(())
    }

    fn require(&self, state: State) -> Result<()> {
        if self.state == state {
            return Ok(());
        }
        Err(match self.state {
            State::Poisoned => self.failure.refusal(),
            State::MustAbort => StorageError::Unsupported(
                "an operation failed half-way; abort the transaction".into(),
            ),
            State::Prepared => {
                StorageError::Unsupported("the transaction is prepared; commit or abort it".into())
            }
            State::Idle => StorageError::Unsupported("no transaction is open".into()),
            State::Open => StorageError::Unsupported("a transaction is open already".into()),
        })
    }

    /// Remembers that a durable step failed, after which the state of the medium is unknown. A log
    /// that has found no room is as it was: then the transaction can be aborted.
    fn durable_step<V>(&mut self, result: Result<V>) -> Result<V> {
        if let Err(error) = &result {
            self.state = if error.is_statement_error() {
                State::MustAbort
            } else {
                self.failure.note_of(error);
                State::Poisoned
            };
        }
        result
    }
}

impl<P: Platform, T: PoolTables<P>> Reads for NvPool<P, T> {
    fn tables(&self) -> Vec<Arc<Table>> {
        self.tables.tables()
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
        self.tables
            .get(&mut self.arena, &mut self.log, table, key, row)
    }

    fn get_many(
        &mut self,
        table: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        self.require(State::Open)?;
        self.tables
            .get_many(&mut self.arena, &mut self.log, table, keys, visit)
    }

    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        self.require(State::Open)?;
        self.tables
            .scan(&mut self.arena, &mut self.log, range, visit)
    }

    fn abort(&mut self) -> Result<()> {
        let reload = self.state == State::MustAbort;
        if !reload && self.state != State::Prepared {
            self.require(State::Open)?;
        }
        let result = self.log.abort(&mut self.arena);
        self.durable_step(result)?;
        self.arena.settle(Outcome::Aborted);
        self.tables.end_transaction();
        if reload {
            let result = self.tables.reload(&self.arena);
            self.durable_step(result)?;
        }
        self.state = State::Idle;
        Ok(())
    }

    fn durable(&self) -> CommitTicket {
        CommitTicket(self.tickets)
    }

    fn footprint(&mut self) -> Result<Footprint> {
        Ok(pool::footprint(&self.arena.footprint()?))
    }

    fn status(&self) -> EngineStatus {
        EngineStatus {
            memory: self.arena.counters(),
            recovery_undone: self.undone,
            ..EngineStatus::default()
        }
    }

    fn verify(&mut self) -> Result<VerifyReport> {
        self.require(State::Idle)?;
        let mut report = VerifyReport::default();
        let mut blocks = BlocksInUse::default();
        blocks.meet(self.log_block);
        if self.arena.root(SPARE_ROOT) != 0 {
            blocks.meet(self.arena.root(SPARE_ROOT));
        }
        blocks.meet(self.arena.root(FIRST_ROOT));
        self.tables
            .check(&self.arena, &mut |at| blocks.meet(at), &mut report);
        blocks.compare(&self.arena, &mut report);
        Ok(report)
    }
}

impl<P: Platform, T: PoolTables<P>> Engine for NvPool<P, T> {
    fn insert(&mut self, table: TableId, row: &Row) -> Result<()> {
        self.operate(|this| {
            this.tables
                .insert(&mut this.arena, &mut this.log, table, row)
        })
    }

    fn update(&mut self, table: TableId, key: &[u64], changes: &Changes) -> Result<bool> {
        self.operate(|this| {
            this.tables
                .update(&mut this.arena, &mut this.log, table, key, changes)
        })
    }

    fn delete(&mut self, table: TableId, key: &[u64]) -> Result<bool> {
        self.operate(|this| {
            this.tables
                .delete(&mut this.arena, &mut this.log, table, key)
        })
    }

    fn commit(&mut self, _durability: Durability) -> Result<CommitTicket> {
        if self.state != State::Prepared {
            self.require(State::Open)?;
            if let Err(error) = self.tables.maintain(&mut self.arena, &mut self.log) {
                self.state = State::MustAbort;
                return Err(error);
            }
        }
        self.end_transaction()?;
        self.tickets += 1;
        Ok(CommitTicket(self.tickets))
    }

    fn prepare(&mut self, global: GlobalTxnId) -> Result<()> {
        self.require(State::Open)?;
        let result = self.log.prepare(&mut self.arena, global);
        self.durable_step(result)?;
        self.state = State::Prepared;
        Ok(())
    }

    #[inline]
    fn transaction_bytes(&self) -> usize {
        self.log.bytes() + self.arena.transaction_bytes()
    }

    fn force(&mut self) -> Result<()> {
        Ok(())
    }

    fn idle(&mut self) -> Result<&mut dyn Idle> {
        self.require(State::Idle)?;
        Ok(self)
    }
}

impl<P: Platform, T: PoolTables<P>> Idle for NvPool<P, T> {
    fn create_table(&mut self, def: &TableDef) -> Result<()> {
        self.define(|this| {
            this.tables
                .create_table(&mut this.arena, &mut this.log, def)
        })
    }

    fn drop_table(&mut self, table: TableId) -> Result<()> {
        self.define(|this| {
            this.tables
                .drop_table(&mut this.arena, &mut this.log, table)
        })
    }

    fn create_index(&mut self, table: TableId, index: &IndexDef) -> Result<()> {
        self.define(|this| {
            this.tables
                .create_index(&mut this.arena, &mut this.log, table, index)
        })
    }

    fn drop_index(&mut self, table: TableId, index: IndexId) -> Result<()> {
        self.define(|this| {
            this.tables
                .drop_index(&mut this.arena, &mut this.log, table, index)
        })
    }

    /// Recovery needs none; upkeep that has begun is brought to its end, a transaction a step.
    fn checkpoint(&mut self) -> Result<()> {
        loop {
            self.begin()?;
            let more = match self.tables.settle(&mut self.arena, &mut self.log) {
                Ok(more) => more,
                Err(error) => {
                    self.state = State::MustAbort;
                    self.abort()?;
                    return Err(error);
                }
            };
            self.end_transaction()?;
            if !more {
                return Ok(());
            }
        }
    }

    fn close(&mut self) -> Result<()> {
        let result = self.log.close(&mut self.arena);
        self.durable_step(result)
    }
}

/// Whether a pool may name index nodes of so many bytes.
fn is_node_size(bytes: u64) -> bool {
    (64..=64 << 10).contains(&bytes)
}

/// Allocates a block outside of any transaction, while the pool is being made.
fn allocate<M: Memory>(arena: &mut Arena<M>, bytes: usize, part: Part) -> Result<u64> {
    let offset = arena.reserve(bytes, Owner { part, tag: 0 })?;
    let change = arena.activate(offset)?;
    let word = arena.word(change.offset)?;
    arena.store_word(change.offset, change.apply(word))?;
    arena.flush(change.offset, 8, site!("nv-pool.create-block"))?;
    Ok(offset)
}

#[cfg(test)]
#[path = "nv_pool_tests.rs"]
mod tests;
