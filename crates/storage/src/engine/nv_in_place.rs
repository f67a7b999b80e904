//! `nvm-inp`: in-place updates in durable memory, with a log of pointers and images of what changes.
//!
//! Tables, indexes and the log lie in one pool. What is written before commit, at commit and at recovery stands in
//! `log::nv_undo`; what an operation does to tuples and indexes in `table::space`. This file puts them together.
//!
//! | pool | content |
//! |---|---|
//! | root 0 | the word that heads the list of tables; set last when the partition is created |
//! | root 1 | the log block |
//! | root 2 | the block in which a long transaction's log goes on, so that deletions need no space; 0 in old pools |
//! | user words | layout, bytes of an index node, number of the partition, 0 |
//!
//! After SIGMOD 2015 (N-Store), section 4.1 and Table 2; docs/methods.md says where we differ.

use super::{
    CommitTicket, Decide, Durability, Engine, EngineOptions, EngineStatus, Footprint, GlobalTxnId,
    ScanRange, VerifyReport,
};
use crate::error::{Result, StorageError, UNFINISHED};
use crate::failure::Failure;
use crate::index::NvBptree;
use crate::log::nv_undo::{LOG_BYTES, OVERFLOW_BYTES};
use crate::log::{Recovered, UndoLog};
use crate::platform::Platform;
use crate::record::{Changes, IndexDef, IndexId, KeyBuf, LayoutKind, Row, TableDef, TableId};
use crate::table::Table;
use crate::table::blocks::BlocksInUse;
use crate::table::space::TableSpace;
use pmem::{
    Access, Arena, Memory, MemorySource, Outcome, Owner, POOL_FORMAT, Part, PmemError, PoolId,
    PoolIdentity, PoolKind, RootIndex, site,
};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Kind of the pools of this method.
const POOL_KIND: PoolKind = PoolKind(0x6e76_6970);
const DIRECTORY_ROOT: RootIndex = RootIndex::new(0);
const LOG_ROOT: RootIndex = RootIndex::new(1);
const SPARE_ROOT: RootIndex = RootIndex::new(2);
/// Bytes of an index node that a pool may name.
const NODE_BYTES_MIN: u64 = 64;
const NODE_BYTES_MAX: u64 = 64 << 10;
/// Bytes of the block that holds the head of the list of tables.
const DIRECTORY_BYTES: usize = 8;

type DeviceOf<P> = <<P as Platform>::Memories as MemorySource>::Memory;

/// One partition of `nvm-inp`.
pub struct NvInPlace<P: Platform> {
    arena: Arena<DeviceOf<P>>,
    log: UndoLog,
    space: TableSpace<DeviceOf<P>, UndoLog, NvBptree>,
    log_block: u64,
    layout: LayoutKind,
    node_bytes: usize,
    state: State,
    /// Of the step after which it is [`State::Poisoned`].
    failure: Failure,
    tickets: u64,
    undone: u64,
}

/// What the engine may do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Open,
    /// An operation failed half-way: only `abort` is possible.
    MustAbort,
    /// A durable step failed: nothing is possible.
    Poisoned,
}

impl<P: Platform> NvInPlace<P> {
    /// Makes the partition's pool.
    pub fn create(platform: &P, options: &EngineOptions) -> Result<Self> {
        let memories = platform.memories(options.partition);
        let memory = memories.create(&pool_name(options.partition), options.pool_bytes)?;
        let mut arena = Arena::create(memory, &identity(options))?;
        let log_block = allocate(&mut arena, LOG_BYTES, Part::Log)?;
        let spare = allocate(&mut arena, OVERFLOW_BYTES, Part::Log)?;
        let directory = allocate(&mut arena, DIRECTORY_BYTES, Part::Other)?;
        arena.store_word(directory, 0)?;
        arena.flush(directory, 8, site!("nvm-inp.create"))?;
        let salt = salt(options.database_id, options.partition);
        let log = UndoLog::create(&mut arena, log_block, salt, options.fences)?;
        arena.settle(Outcome::Committed);
        arena.set_root(LOG_ROOT, log_block)?;
        arena.set_root(SPARE_ROOT, spare)?;
        // commit point: a pool whose directory is set is a complete, empty partition
        arena.set_root(DIRECTORY_ROOT, directory)?;
        Self::start(
            arena,
            log,
            options.layout,
            options.node_bytes,
            Recovered::Clean,
        )
    }

    /// Opens the partition's pool and undoes the transaction that was open, unless the commit table has it. With
    /// [`Access::Read`] it stores and flushes nothing, and fails where there is something to undo or to do again.
    pub fn open(platform: &P, options: &EngineOptions, decide: Decide<'_>) -> Result<Self> {
        let memories = platform.memories(options.partition);
        let name = pool_name(options.partition);
        let memory = memories.open(&name, options.access)?;
        let mut arena = match options.access {
            Access::Write => Arena::open(memory, Path::new(&name))?,
            Access::Read => Arena::open_read_only(memory, Path::new(&name))?,
        };
        let identity = arena.identity().clone();
        let foreign = |reason: &str| PmemError::Foreign {
            path: name.clone().into(),
            reason: reason.to_owned(),
        };
        if identity.kind != POOL_KIND {
            return Err(foreign("it is a pool of another method").into());
        }
        if identity.pool_id != pool_id(options) {
            return Err(foreign(
                "it belongs to another database or partition; put the right file back",
            )
            .into());
        }
        if arena.root(DIRECTORY_ROOT) == 0 {
            return Err(foreign(UNFINISHED).into());
        }
        let layout = match identity.user[0] {
            0 => LayoutKind::Together,
            1 => LayoutKind::Separate,
            other => return Err(foreign(&format!("its tuple layout {other} is unknown")).into()),
        };
        let node_bytes = identity.user[1];
        if !(NODE_BYTES_MIN..=NODE_BYTES_MAX).contains(&node_bytes) {
            return Err(foreign(&format!(
                "its index nodes of {node_bytes} bytes are unknown"
            ))
            .into());
        }
        let salt = salt(options.database_id, options.partition);
        let base = arena.root(LOG_ROOT);
        let (log, recovered) = match options.access {
            Access::Write => UndoLog::recover(&mut arena, base, salt, options.fences, decide)?,
            Access::Read => match UndoLog::open_read_only(&arena, base, salt, options.fences)? {
                Some(log) => (log, Recovered::Clean),
                None => return Err(StorageError::NeedsRecovery(name)),
            },
        };
        Self::start(arena, log, layout, node_bytes as u32, recovered)
    }

    fn start(
        mut arena: Arena<DeviceOf<P>>,
        mut log: UndoLog,
        layout: LayoutKind,
        node_bytes: u32,
        recovered: Recovered,
    ) -> Result<Self> {
        let directory = arena.root(DIRECTORY_ROOT);
        let log_block = arena.root(LOG_ROOT);
        log.set_spare(arena.root(SPARE_ROOT));
        let space = TableSpace::open(&mut arena, directory, layout, node_bytes as usize)?;
        let undone = u64::from(recovered == Recovered::Undone);
        Ok(Self {
            arena,
            log,
            space,
            log_block,
            layout,
            node_bytes: node_bytes as usize,
            state: State::Idle,
            failure: Failure::default(),
            tickets: 0,
            undone,
        })
    }

    /// Runs one operation. If it fails without damage its traces are taken back and the transaction goes on.
    #[inline]
    fn operate<T>(&mut self, operation: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
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

    /// Runs a change of the schema as a transaction of its own. If it fails, the definitions in DRAM are read again.
    fn define(&mut self, operation: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        self.begin()?;
        let result = operation(self).and_then(|()| self.commit(Durability::Immediate).map(|_| ()));
        if result.is_err() && self.state != State::Poisoned {
            self.abort()?;
            let directory = self.arena.root(DIRECTORY_ROOT);
            self.space =
                TableSpace::open(&mut self.arena, directory, self.layout, self.node_bytes)?;
        }
        result
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
            State::Idle => StorageError::Unsupported("no transaction is open".into()),
            State::Open => StorageError::Unsupported("a transaction is open already".into()),
        })
    }

    /// Remembers that a durable step failed, after which the state of the medium is unknown. A log that has found no room
    /// is as it was: then the transaction can be aborted.
    fn durable_step<T>(&mut self, result: Result<T>) -> Result<T> {
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

impl<P: Platform> Engine for NvInPlace<P> {
    fn tables(&self) -> Vec<Arc<Table>> {
        self.space.tables()
    }

    fn create_table(&mut self, def: &TableDef) -> Result<()> {
        self.define(|this| this.space.create_table(&mut this.arena, &mut this.log, def))
    }

    fn drop_table(&mut self, table: TableId) -> Result<()> {
        self.define(|this| this.space.drop_table(&mut this.arena, &mut this.log, table))
    }

    fn create_index(&mut self, table: TableId, index: &IndexDef) -> Result<()> {
        self.define(|this| {
            this.space
                .create_index(&mut this.arena, &mut this.log, table, index)
        })
    }

    fn drop_index(&mut self, table: TableId, index: IndexId) -> Result<()> {
        self.define(|this| {
            this.space
                .drop_index(&mut this.arena, &mut this.log, table, index)
        })
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
        self.space
            .get(&mut self.arena, &mut self.log, table, key, row)
    }

    fn get_many(
        &mut self,
        table: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        self.require(State::Open)?;
        self.space
            .get_many(&mut self.arena, &mut self.log, table, keys, visit)
    }

    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        self.require(State::Open)?;
        self.space
            .scan(&mut self.arena, &mut self.log, range, visit)
    }

    fn insert(&mut self, table: TableId, row: &Row) -> Result<()> {
        self.operate(|this| {
            this.space
                .insert(&mut this.arena, &mut this.log, table, row)
        })
    }

    fn update(&mut self, table: TableId, key: &[u64], changes: &Changes) -> Result<bool> {
        self.operate(|this| {
            this.space
                .update(&mut this.arena, &mut this.log, table, key, changes)
        })
    }

    fn delete(&mut self, table: TableId, key: &[u64]) -> Result<bool> {
        self.operate(|this| {
            this.space
                .delete(&mut this.arena, &mut this.log, table, key)
        })
    }

    fn commit(&mut self, _durability: Durability) -> Result<CommitTicket> {
        self.require(State::Open)?;
        let result = self.log.commit(&mut self.arena);
        self.durable_step(result)?;
        self.arena.settle(Outcome::Committed);
        self.state = State::Idle;
        self.tickets += 1;
        Ok(CommitTicket(self.tickets))
    }

    fn prepare(&mut self, global: GlobalTxnId) -> Result<()> {
        self.require(State::Open)?;
        let result = self.log.prepare(&mut self.arena, global);
        self.durable_step(result)
    }

    fn abort(&mut self) -> Result<()> {
        if self.state != State::MustAbort {
            self.require(State::Open)?;
        }
        let result = self.log.abort(&mut self.arena);
        self.durable_step(result)?;
        self.arena.settle(Outcome::Aborted);
        self.state = State::Idle;
        Ok(())
    }

    #[inline]
    fn transaction_bytes(&self) -> usize {
        self.log.bytes() + self.arena.transaction_bytes()
    }

    fn durable(&self) -> CommitTicket {
        CommitTicket(self.tickets)
    }

    fn force(&mut self) -> Result<()> {
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.require(State::Idle)
    }

    fn close(&mut self) -> Result<()> {
        self.require(State::Idle)?;
        let result = self.log.close(&mut self.arena);
        self.durable_step(result)
    }

    fn footprint(&mut self) -> Result<Footprint> {
        let heap = self.arena.footprint()?;
        let held = |part: Part| heap.held_bytes[part as usize];
        Ok(Footprint {
            table: held(Part::Table),
            index: held(Part::Index),
            log: held(Part::Log),
            checkpoint: held(Part::Checkpoint),
            other: held(Part::Other) + heap.metadata_bytes,
        })
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
        blocks.meet(self.arena.root(DIRECTORY_ROOT));
        self.space
            .check(&self.arena, &mut |at| blocks.meet(at), &mut report);
        blocks.compare(&self.arena, &mut report);
        Ok(report)
    }
}

fn pool_name(partition: u32) -> String {
    format!("p{partition}.pool")
}

fn pool_id(options: &EngineOptions) -> PoolId {
    PoolId(options.database_id ^ u128::from(options.partition) << 96)
}

fn identity(options: &EngineOptions) -> PoolIdentity {
    let layout = match options.layout {
        LayoutKind::Together => 0,
        LayoutKind::Separate => 1,
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    PoolIdentity {
        kind: POOL_KIND,
        pool_id: pool_id(options),
        format_version: POOL_FORMAT,
        created_seconds: now.map_or(0, |now| now.as_secs()),
        user: [
            layout,
            u64::from(options.node_bytes),
            u64::from(options.partition),
            0,
        ],
    }
}

/// Tells this pool's log records from those that its memory held before.
fn salt(database_id: u128, partition: u32) -> u32 {
    crc32c::crc32c_append(partition, &database_id.to_le_bytes())
}

/// Allocates a block outside of any transaction, while the pool is being made.
fn allocate<M: Memory>(arena: &mut Arena<M>, bytes: usize, part: Part) -> Result<u64> {
    let offset = arena.reserve(bytes, Owner { part, tag: 0 })?;
    let change = arena.activate(offset)?;
    let word = arena.word(change.offset)?;
    arena.store_word(change.offset, change.apply(word))?;
    arena.flush(change.offset, 8, site!("nvm-inp.create-block"))?;
    Ok(offset)
}

#[cfg(test)]
#[path = "nv_in_place_tests.rs"]
mod tests;
