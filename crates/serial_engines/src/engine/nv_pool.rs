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

use super::serial::driver::{Fault, Policy, Serial};
use super::serial::pool::{self, FIRST_ROOT, Opened};
use crate::index::NvBptree;
use crate::index::hints::HintBudget;
use crate::lsm::filter::Filters;
use crate::lsm::nv::{LevelSizes, NvSettings, NvTables};
use crate::table::blocks::BlocksInUse;
use crate::table::space::TableSpace;
use crate::table::{InArena, Tables};
use pmem::{
    Access, Arena, HeapMark, Memory, MemorySource as _, Outcome, Owner, Part, PoolIdentity,
    PoolKind, RootIndex, site,
};
use storage::engine::{
    CommitTicket, Decide, Durability, EngineOptions, EngineStatus, Footprint, GlobalTxnId,
    VerifyReport,
};
use storage::log::nv_write_set::{LOG_BYTES, OVERFLOW_BYTES};
use storage::log::{NvWriteSet, Recovered, UndoMark};
use storage::record::LayoutKind;
use storage::{DeviceOf, Platform, Result, StorageError};

const LOG_ROOT: RootIndex = RootIndex::new(1);
const SPARE_ROOT: RootIndex = RootIndex::new(2);
/// Version of the pools: the log has commit records with checksums of staged bytes. Pools of
/// version 1 are read, and get this one when they are opened for writing.
const FORMAT: u32 = 2;
/// Bytes of the block that holds the head of the list of tables.
const DIRECTORY_BYTES: usize = 8;
/// First size of the memory for filters.
const FILTER_BYTES: u64 = 1 << 20;

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
        (_, options): (&P, &EngineOptions),
    ) -> Result<Self> {
        let hints = HintBudget::new(options.hint_bytes);
        Self::open(arena, directory, layout, node_bytes, hints)
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
    space: InArena<DeviceOf<P>, NvWriteSet, T>,
    log_block: u64,
    tickets: u64,
    undone: u64,
}

impl<P: Platform, T: PoolTables<P>> NvPool<P, T> {
    /// Makes the partition's pool.
    pub(crate) fn create(platform: &P, options: &EngineOptions) -> Result<Serial<Self>> {
        let memories = platform.memories(options.partition);
        let identity = PoolIdentity {
            format_version: FORMAT,
            ..pool::identity(T::POOL_KIND, options.node_bytes, options)
        };
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
    pub(crate) fn open(
        platform: &P,
        options: &EngineOptions,
        decide: Decide<'_>,
    ) -> Result<Serial<Self>> {
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
            Access::Write => {
                let found = NvWriteSet::recover(&mut arena, base, salt, options.fences, decide)?;
                arena.raise_format(FORMAT)?;
                found
            }
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
        mut writes: NvWriteSet,
        tables: T,
        recovered: Recovered,
    ) -> Serial<Self> {
        writes.set_spare(arena.root(SPARE_ROOT));
        Serial::new(Self {
            log_block: arena.root(LOG_ROOT),
            space: InArena {
                arena,
                writes,
                tables,
            },
            tickets: 0,
            undone: u64::from(recovered == Recovered::Undone),
        })
    }

    /// Commits the changes of the open transaction. A log that has found no room is as it was.
    #[inline]
    fn end_transaction(&mut self) -> Result<(), Fault> {
        let InArena {
            arena,
            writes,
            tables,
        } = &mut self.space;
        writes.commit(arena).map_err(Fault::of)?;
        arena.settle(Outcome::Committed);
        tables.end_transaction(arena, Outcome::Committed);
        Ok(())
    }

    /// Does one step of upkeep that has begun, as a transaction; false if there is none.
    fn settle_step(&mut self) -> Result<bool, Fault> {
        let InArena {
            arena,
            writes,
            tables,
        } = &mut self.space;
        let more = tables.settle(arena, writes).map_err(Fault::Harmless)?;
        self.end_transaction()?;
        Ok(more)
    }
}

impl<P: Platform, T: PoolTables<P>> Policy for NvPool<P, T> {
    type Space = InArena<DeviceOf<P>, NvWriteSet, T>;
    type Mark = (UndoMark, HeapMark);

    fn space(&self) -> &Self::Space {
        &self.space
    }

    #[inline]
    fn space_mut(&mut self) -> &mut Self::Space {
        &mut self.space
    }

    #[inline]
    fn mark(&mut self) -> Self::Mark {
        (self.space.writes.mark(), self.space.arena.heap_mark())
    }

    #[inline]
    fn end_change(&mut self, _: Self::Mark) -> Result<()> {
        self.space.writes.end_operation(&mut self.space.arena)
    }

    fn rollback_to(&mut self, (log_mark, heap_mark): Self::Mark) -> Result<()> {
        let InArena {
            arena,
            writes,
            tables,
        } = &mut self.space;
        tables.statement_undone();
        writes.rollback_to(arena, log_mark)?;
        arena.heap_rollback(heap_mark);
        Ok(())
    }

    #[inline]
    fn commit(
        &mut self,
        prepared: Option<GlobalTxnId>,
        _: Durability,
    ) -> Result<CommitTicket, Fault> {
        if prepared.is_none() {
            let InArena {
                arena,
                writes,
                tables,
            } = &mut self.space;
            tables.maintain(arena, writes).map_err(Fault::Harmless)?;
        }
        self.end_transaction()?;
        self.tickets += 1;
        Ok(self.durable())
    }

    fn prepare(&mut self, global: GlobalTxnId) -> Result<(), Fault> {
        let InArena { arena, writes, .. } = &mut self.space;
        writes.prepare(arena, global).map_err(Fault::of)
    }

    fn abort(&mut self, _: Option<GlobalTxnId>) -> Result<(), Fault> {
        let InArena {
            arena,
            writes,
            tables,
        } = &mut self.space;
        writes.abort(arena).map_err(Fault::of)?;
        arena.settle(Outcome::Aborted);
        tables.end_transaction(arena, Outcome::Aborted);
        Ok(())
    }

    fn reload(&mut self) -> Result<()> {
        self.space.tables.reload(&self.space.arena)
    }

    #[inline]
    fn transaction_bytes(&self) -> usize {
        self.space.writes.bytes() + self.space.arena.transaction_bytes()
    }

    fn durable(&self) -> CommitTicket {
        CommitTicket(self.tickets)
    }

    fn force(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    /// Recovery needs none; upkeep that has begun is brought to its end, a transaction a step.
    fn checkpoint(&mut self) -> Result<(), Fault> {
        loop {
            match self.settle_step() {
                Ok(true) => {}
                Err(Fault::Harmless(error)) => {
                    self.abort(None)?;
                    self.reload()?;
                    return Err(Fault::Harmless(error));
                }
                result => return result.map(drop),
            }
        }
    }

    fn close(&mut self) -> Result<(), Fault> {
        Ok(self.space.writes.close(&mut self.space.arena)?)
    }

    fn footprint(&mut self) -> Result<Footprint> {
        Ok(pool::footprint(&self.space.arena.footprint()?))
    }

    fn status(&self) -> EngineStatus {
        EngineStatus {
            memory: self.space.arena.counters(),
            recovery_undone: self.undone,
            hint_bytes: self.space.tables.hint_bytes(),
            ..EngineStatus::default()
        }
    }

    fn verify(&mut self) -> Result<VerifyReport, Fault> {
        let InArena { arena, tables, .. } = &mut self.space;
        let mut report = VerifyReport::default();
        let mut blocks = BlocksInUse::default();
        blocks.meet(self.log_block);
        if arena.root(SPARE_ROOT) != 0 {
            blocks.meet(arena.root(SPARE_ROOT));
        }
        blocks.meet(arena.root(FIRST_ROOT));
        tables.check(arena, &mut |at| blocks.meet(at), &mut report);
        blocks.compare(arena, &mut report);
        Ok(report)
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

#[cfg(test)]
#[path = "nv_hints_tests.rs"]
mod hints_tests;
