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
//! | root 1 | the log block; since root 3 is there, one that is not used any more |
//! | root 2 | the block where a long log goes on, so that deletions need no space; 0 in old pools |
//! | root 3 | the log block of a pool that was made in format 1 or 2; 0 in others |
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
    Access, Arena, BlockState, HeapSavepoint, Memory, MemorySource as _, Outcome, Owner, Part,
    PmemError, PoolIdentity, PoolKind, RootIndex, site,
};
use storage::engine::{
    CommitTicket, Decide, Durability, EngineOptions, EngineStatus, FenceOrder, Footprint,
    GlobalTxnId, VerifyReport,
};
use storage::log::nv_write_set::{OVERFLOW_BYTES, log_bytes};
use storage::log::{NvWriteSet, Recovered, UndoSavepoint};
use storage::record::LayoutKind;
use storage::{DeviceOf, Platform, Result, StorageError};

const LOG_ROOT: RootIndex = RootIndex::new(1);
const SPARE_ROOT: RootIndex = RootIndex::new(2);
const MOVED_LOG_ROOT: RootIndex = RootIndex::new(3);
/// Version of the pools: commit words are moved seldom, and move on through the log block. Those of
/// version 2 had one word that followed each commit; those of version 1 had no checksums of staged
/// bytes either. They are read, and get this version when they are opened for writing.
const FORMAT: u32 = 3;
/// Version of pools whose undo log is a linked list, as [`FenceOrder::Paper`] has it: a program
/// that knows none would not undo. A pool of version 3 in that order gets it when it is opened for
/// writing.
const LIST_FORMAT: u32 = 4;
/// Whom a log block belongs to that takes the place of an older one.
const MOVED_LOG: Owner = Owner {
    part: Part::Log,
    tag: 1,
};
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

    /// See [`Policy::INSERTS_TOGETHER`].
    const INSERTS_TOGETHER: bool;

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
    const INSERTS_TOGETHER: bool = true;

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
    const INSERTS_TOGETHER: bool = false;

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
    tickets: u64,
    undone: u64,
}

impl<P: Platform, T: PoolTables<P>> NvPool<P, T> {
    /// Makes the partition's pool.
    pub(crate) fn create(platform: &P, options: &EngineOptions) -> Result<Serial<Self>> {
        let memories = platform.memories(options.partition);
        let identity = PoolIdentity {
            format_version: match options.fences {
                FenceOrder::Paper => LIST_FORMAT,
                FenceOrder::Single | FenceOrder::Shared => FORMAT,
            },
            ..pool::identity(T::POOL_KIND, options.node_bytes, options)
        };
        let mut arena = pool::create(&memories, &identity, options)?;
        let plain = |part| Owner { part, tag: 0 };
        let log_block = reserve_log(&mut arena, options, plain(Part::Log))?;
        activate(&mut arena, log_block)?;
        let spare = allocate(&mut arena, OVERFLOW_BYTES, plain(Part::Log))?;
        let directory = allocate(&mut arena, DIRECTORY_BYTES, plain(Part::Other))?;
        arena.store_word(directory, 0)?;
        arena.flush(directory, 8, site!("nv-pool.create"))?;
        let salt = pool::salt(options);
        let place = (log_block, arena.block(log_block)?.bytes as usize);
        let log = NvWriteSet::create(&mut arena, place, salt, options.fences)?;
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
        } = pool::open(&memories, &[T::POOL_KIND], nodes, options)?;
        let salt = pool::salt(options);
        let place = log_place(&arena)?;
        let fences = order(&arena, options);
        let (log, recovered) = match options.access {
            Access::Write => {
                let found = NvWriteSet::recover(&mut arena, place, salt, fences, decide)?;
                let (mut log, recovered) = found;
                raise_format(&mut arena, &mut log, options)?;
                (log, recovered)
            }
            Access::Read => match NvWriteSet::open_read_only(&arena, place, salt, fences)? {
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
    type Savepoint = (UndoSavepoint, HeapSavepoint);
    const INSERTS_TOGETHER: bool = T::INSERTS_TOGETHER;

    fn space(&self) -> &Self::Space {
        &self.space
    }

    #[inline]
    fn space_mut(&mut self) -> &mut Self::Space {
        &mut self.space
    }

    #[inline]
    fn savepoint(&mut self) -> Self::Savepoint {
        (
            self.space.writes.savepoint(),
            self.space.arena.heap_savepoint(),
        )
    }

    #[inline]
    fn end_change(&mut self, _: Self::Savepoint) -> Result<()> {
        self.space.writes.end_operation(&mut self.space.arena)
    }

    fn rollback_to(&mut self, (log_savepoint, heap_savepoint): Self::Savepoint) -> Result<()> {
        let InArena {
            arena,
            writes,
            tables,
        } = &mut self.space;
        tables.statement_undone();
        writes.rollback_to(arena, log_savepoint)?;
        arena.heap_rollback(heap_savepoint);
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
            log_line_writes: self.space.writes.line_writes(),
            ..EngineStatus::default()
        }
    }

    fn verify(&mut self) -> Result<VerifyReport, Fault> {
        let InArena { arena, tables, .. } = &mut self.space;
        let mut report = VerifyReport::default();
        let mut blocks = BlocksInUse::default();
        let roots = [FIRST_ROOT, LOG_ROOT, SPARE_ROOT, MOVED_LOG_ROOT];
        for block in roots.map(|root| arena.root(root)) {
            if block != 0 {
                blocks.meet(block);
            }
        }
        tables.check(arena, &mut |at| blocks.meet(at), &mut report);
        blocks.compare(arena, &mut report);
        Ok(report)
    }
}

/// Whether a pool may name index nodes of so many bytes.
fn is_node_size(bytes: u64) -> bool {
    (64..=64 << 10).contains(&bytes)
}

/// Offset and bytes of the block that has the log.
fn log_place<M: Memory>(arena: &Arena<M>) -> Result<(u64, usize)> {
    let moved = arena.root(MOVED_LOG_ROOT);
    let block = if arena.identity().format_version < FORMAT || moved == 0 {
        arena.root(LOG_ROOT)
    } else {
        moved
    };
    Ok((block, arena.block(block)?.bytes as usize))
}

/// The order of durable steps that fits a pool: one with a list goes on with it whatever is chosen,
/// and one that has none yet is opened without.
fn order<M: Memory>(arena: &Arena<M>, options: &EngineOptions) -> FenceOrder {
    let has_list = arena.identity().format_version >= LIST_FORMAT;
    match options.fences {
        _ if has_list => FenceOrder::Paper,
        FenceOrder::Paper => FenceOrder::Shared,
        order => order,
    }
}

/// Gives a pool of an older format a log whose records move on, or the new format alone if it has
/// no room for one, and a list where the order of durable steps has one. The transactions of the
/// old log have ended.
fn raise_format<M: Memory>(
    arena: &mut Arena<M>,
    log: &mut NvWriteSet,
    options: &EngineOptions,
) -> Result<()> {
    if arena.identity().format_version < FORMAT {
        log.close(arena)?;
        if let Some(block) = moved_log(arena, options)? {
            let bytes = arena.block(block)?.bytes as usize;
            log.move_to(arena, (block, bytes))?;
        }
        // commit point: a pool of this format has its log at the new place
        arena.raise_format(FORMAT)?;
    }
    if options.fences == FenceOrder::Paper && arena.identity().format_version < LIST_FORMAT {
        log.begin_list(arena)?;
        // commit point: a pool of this format has its undo records in the list
        arena.raise_format(LIST_FORMAT)?;
    }
    Ok(())
}

/// The block for the log of an older pool; none if there is no room. The root leads there before it
/// is allocated, so a crash in between leaks nothing, and the next opening goes on with it.
fn moved_log<M: Memory>(arena: &mut Arena<M>, options: &EngineOptions) -> Result<Option<u64>> {
    let block = arena.root(MOVED_LOG_ROOT);
    let is_ours = block != 0
        && arena
            .block(block)
            .is_ok_and(|found| found.owner == MOVED_LOG && found.state == BlockState::Allocated);
    if is_ours {
        return Ok(Some(block));
    }
    let block = match reserve_log(arena, options, MOVED_LOG) {
        Ok(block) => block,
        Err(PmemError::OutOfSpace { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    arena.set_root(MOVED_LOG_ROOT, block)?;
    activate(arena, block)?;
    arena.settle(Outcome::Committed);
    Ok(Some(block))
}

/// Reserves the block for a log, the shortest if there is no room for another, or if a list is to
/// have its head there and nothing else.
fn reserve_log<M: Memory>(
    arena: &mut Arena<M>,
    options: &EngineOptions,
    owner: Owner,
) -> Result<u64, PmemError> {
    let budget = match options.fences {
        FenceOrder::Paper => 0,
        FenceOrder::Single | FenceOrder::Shared => options.rotation_bytes,
    };
    match arena.reserve(log_bytes(budget), owner) {
        Err(PmemError::OutOfSpace { .. }) => arena.reserve(log_bytes(0), owner),
        reserved => reserved,
    }
}

/// Allocates a block outside of any transaction, while the pool is being made.
fn allocate<M: Memory>(arena: &mut Arena<M>, bytes: usize, owner: Owner) -> Result<u64> {
    let offset = arena.reserve(bytes, owner)?;
    activate(arena, offset)?;
    Ok(offset)
}

/// Makes a reserved block allocated, durably after the next fence.
fn activate<M: Memory>(arena: &mut Arena<M>, offset: u64) -> Result<()> {
    let change = arena.activate(offset)?;
    let word = arena.word(change.offset)?;
    arena.store_word(change.offset, change.apply(word))?;
    arena.flush(change.offset, 8, site!("nv-pool.create-block"))?;
    Ok(())
}

#[cfg(test)]
#[path = "nv_pool_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "nv_hints_tests.rs"]
mod hints_tests;
