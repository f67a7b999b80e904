//! `cow` and `nvm-cow`: a current and a dirty directory of copy-on-write trees, and groups of
//! transactions that swing the master from one to the other. The same engine runs `fash` and `fast`
//! over slotted pages (`slotted`), whose groups end by a record of headers or by one header.
//!
//! | when | what is written |
//! |---|---|
//! | operation in `cow` | copies of pages in volatile memory |
//! | operation in `nvm-cow` | copies of pages and tuples in free blocks |
//! | commit | nothing, until the group is due |
//! | end of a group | all dirty pages; a fence or sync; the master; a fence or sync |
//! | prepare | as at the end of a group, but the master says *prepared* |
//! | abort | nothing |
//! | recovery | the fate of a prepared group; in `nvm-cow` also the last group's bitmap words |
//!
//! The two methods are one engine over two places for pages (`index::cow::pool`,
//! `index::cow::file`) and two kinds of values (`table::cow::rows`). After SIGMOD 2015 (N-Store),
//! sections 3.2 and 4.2; docs/methods.md says where we differ.

mod reader;
mod slotted;

pub(super) use slotted::{create_behind_cache, create_slotted, open_behind_cache, open_slotted};

use super::serial::driver::{Fault, Policy, Serial};
use super::serial::pool::{self, FIRST_ROOT, Opened};
use crate::index::cow::file::{FileIdentity, FileStore};
use crate::index::cow::pool::PoolStore;
use crate::index::cow::{PageStore, Pages};
use crate::index::trees::Trees;
use crate::table::cow::{CowSpace, ImageRows, Rows, TupleRows};
use pmem::{Access, Arena, Block, Memory, MemorySource as _, Outcome, POOL_BYTES_MIN, PoolKind};
use reader::{FRAMES_BYTES, RowsIn};
use std::collections::BTreeSet;
use storage::engine::{
    CommitTicket, Decide, Durability, Engine, EngineOptions, EngineStatus, Footprint, GlobalTxnId,
    VerifyReport,
};
use storage::log::{Due, GroupCommit, GroupCommitOptions};
use storage::probe::{self, Activity};
use storage::record::LayoutKind;
use storage::{DeviceOf, Platform, Result, StorageError};

/// Kind of the pools of `nvm-cow`.
const POOL_KIND: PoolKind = PoolKind(0x6e76_636f);
/// Pages that a pool may have.
const PAGES: (&str, fn(u64) -> bool) = ("pages", is_page_size);

/// One partition of `nvm-cow`.
pub(super) type NvCow<P> = Serial<CowEngine<Pages<PoolStore<DeviceOf<P>>>, TupleRows>>;
/// One partition of `cow`.
pub(super) type Cow<P> =
    Serial<CowEngine<Pages<FileStore<DeviceOf<P>, <P as Platform>::Files>>, ImageRows>>;

/// Operations of trees, and of the place where they live, that the engine needs beyond [`Trees`].
pub(super) trait TreeStore: Trees {
    /// Reports blocks in use that belong to no table, and compares all blocks in use with the
    /// allocated ones.
    fn check_space(&mut self, reachable: &mut BTreeSet<u64>, report: &mut VerifyReport);

    /// Bytes in use.
    fn footprint(&mut self) -> Result<Footprint>;

    /// Adds the counts of the store's devices.
    fn count(&self, status: &mut EngineStatus);

    /// Leaves the medium so that the next opening finds nothing to do. Nothing may be dirty.
    fn close(&mut self) -> Result<()> {
        Ok(())
    }

    /// Writes the content of the log home, where there is one. Between transactions.
    fn checkpoint(&mut self) -> Result<()> {
        Ok(())
    }

    /// A reader of the pages as they are now, whose rows are laid out as `layout` says; none where
    /// frames change in place. Nothing may be dirty.
    fn snapshot(&mut self, layout: LayoutKind) -> Result<Option<Box<dyn Engine>>>;
}

/// One partition that is copied on write.
pub(super) struct CowEngine<T: TreeStore, R: Rows<T>> {
    space: CowSpace<T, R>,
    group: GroupCommit,
    /// State of the trees at the beginning of the open transaction.
    begin: Option<T::Savepoint>,
    /// Bytes that its group held then.
    group_bytes: usize,
    undone: u64,
}

impl<S: PageStore, R: Rows<Pages<S>>> CowEngine<Pages<S>, R>
where
    Pages<S>: TreeStore,
{
    fn start(
        store: S,
        memory: S::Memory,
        directory: u64,
        layout: LayoutKind,
        options: &EngineOptions,
        undone: bool,
    ) -> Result<Serial<Self>> {
        let pages = Pages::new(store, memory, directory)?;
        Self::over(pages, layout, options, undone)
    }
}

impl<T: TreeStore, R: Rows<T>> CowEngine<T, R> {
    /// The partition whose tables the directory of `trees` has.
    fn over(
        trees: T,
        layout: LayoutKind,
        options: &EngineOptions,
        undone: bool,
    ) -> Result<Serial<Self>> {
        let group = GroupCommitOptions {
            transactions_max: options.group_transactions_max,
            wait_us_max: options.group_wait_us_max,
        };
        Ok(Serial::new(Self {
            space: CowSpace::open(trees, layout)?,
            group: GroupCommit::new(group, CommitTicket(0)),
            begin: None,
            group_bytes: 0,
            undone: u64::from(undone),
        }))
    }

    /// Notes where a transaction begins.
    fn note_begin(&mut self) {
        self.begin = Some(self.space.trees.savepoint());
        self.group_bytes = self.space.trees.transaction_bytes();
    }

    /// Writes the group. Nothing of an open transaction may be in it.
    fn end_group(&mut self) -> Result<()> {
        if self.space.trees.is_dirty() {
            self.space.write_roots()?;
            self.space.trees.end_transaction();
            self.space.trees.commit()?;
        }
        self.group.synced();
        Ok(())
    }
}

impl<T: TreeStore, R: Rows<T>> Policy for CowEngine<T, R> {
    type Space = CowSpace<T, R>;
    type Savepoint = T::Savepoint;

    fn space(&self) -> &CowSpace<T, R> {
        &self.space
    }

    #[inline]
    fn space_mut(&mut self) -> &mut CowSpace<T, R> {
        &mut self.space
    }

    #[inline]
    fn begin(&mut self) {
        self.space.trees.reclaim();
        self.note_begin();
    }

    #[inline]
    fn savepoint(&mut self) -> T::Savepoint {
        self.space.trees.savepoint()
    }

    #[inline]
    fn end_change(&mut self, savepoint: T::Savepoint) -> Result<()> {
        self.space.trees.end_statement(savepoint);
        Ok(())
    }

    fn rollback_to(&mut self, savepoint: T::Savepoint) -> Result<()> {
        self.space.trees.rollback(savepoint)
    }

    /// Ends the group, which frees its old pages. A transaction that has changed trees before
    /// cannot be separated from its group.
    fn make_space(&mut self) -> Result<bool, Fault> {
        if self.space.trees.is_changed() || !self.space.trees.is_dirty() {
            return Ok(false);
        }
        self.end_group()?;
        self.note_begin();
        Ok(true)
    }

    #[inline]
    fn commit(
        &mut self,
        prepared: Option<GlobalTxnId>,
        durability: Durability,
    ) -> Result<CommitTicket, Fault> {
        let _commit = probe::begin(Activity::Commit);
        let mut wrote = self.space.trees.is_changed();
        self.space.trees.end_transaction();
        if prepared.is_some() && wrote {
            self.space.trees.resolve(true)?;
            // The earlier transactions of the group are durable with the prepared one.
            self.group.join(Durability::None);
            self.group.synced();
            wrote = false;
        }
        self.begin = None;
        let due = if wrote {
            self.group.join(durability)
        } else {
            self.space.trees.settle_reads()?;
            self.group.wait(durability)
        };
        if due == Due::Now || self.space.trees.dirty_bytes() > T::DIRTY_BYTES_MAX {
            self.end_group()?;
        }
        Ok(self.group.newest())
    }

    fn prepare(&mut self, global: GlobalTxnId) -> Result<(), Fault> {
        if self.space.trees.is_changed() {
            let written = self.space.write_roots();
            let prepared = written.and_then(|()| self.space.trees.prepare(global));
            return prepared.map_err(Fault::of);
        }
        self.end_group()?;
        self.begin = Some(self.space.trees.savepoint());
        Ok(())
    }

    fn abort(&mut self, prepared: Option<GlobalTxnId>) -> Result<(), Fault> {
        if prepared.is_some() && self.space.trees.is_changed() {
            self.space.trees.resolve(false)?;
        }
        if let Some(savepoint) = self.begin.take() {
            self.space.trees.rollback(savepoint)?;
        }
        // The caller may have passed the transaction's reads on.
        Ok(self.space.trees.settle_reads()?)
    }

    /// Definitions change in groups of their own, so a group that has begun has changed none.
    fn reload(&mut self) -> Result<()> {
        if self.space.trees.is_dirty() {
            return Ok(());
        }
        self.space.reload()
    }

    fn prepare_definition(&mut self) -> Result<()> {
        self.end_group()
    }

    #[inline]
    fn transaction_bytes(&self) -> usize {
        let bytes = self.space.trees.transaction_bytes();
        bytes.saturating_sub(self.group_bytes)
    }

    fn durable(&self) -> CommitTicket {
        self.group.durable()
    }

    fn force(&mut self) -> Result<(), Fault> {
        if self.begin.is_none() {
            return Ok(self.end_group()?);
        }
        if self.space.trees.is_changed() {
            // They are not apart from the group's.
            let text = "a transaction that has changed something is open".to_owned();
            return Err(Fault::Harmless(StorageError::Unsupported(text)));
        }
        self.end_group()?;
        self.begin = Some(self.space.trees.savepoint());
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), Fault> {
        Ok(self.space.trees.checkpoint()?)
    }

    fn close(&mut self) -> Result<(), Fault> {
        self.end_group()?;
        Ok(self.space.trees.close()?)
    }

    /// Makes the content of the snapshot durable; the group that goes on after it is empty.
    fn snapshot(&mut self) -> Result<Option<Box<dyn Engine>>, Fault> {
        self.end_group()?;
        let layout = self.space.layout();
        let taken = self.space.trees.snapshot(layout);
        taken.map_err(Fault::Harmless)
    }

    fn footprint(&mut self) -> Result<Footprint> {
        self.space.trees.footprint()
    }

    fn status(&self) -> EngineStatus {
        let mut status = EngineStatus {
            recovery_undone: self.undone,
            ..EngineStatus::default()
        };
        self.space.trees.count(&mut status);
        status
    }

    fn verify(&mut self) -> Result<VerifyReport, Fault> {
        self.end_group()?;
        let mut report = VerifyReport::default();
        let mut reachable = BTreeSet::new();
        self.space.check(&mut reachable, &mut report);
        self.space.trees.check_space(&mut reachable, &mut report);
        self.space.trees.settle_reads()?;
        Ok(report)
    }

    /// Ends the last group in order. Commits that cannot be written are not acknowledged either, so
    /// a failure here loses nothing.
    fn leave(&mut self) {
        if self.begin.is_none() || self.abort(None).is_ok() {
            let _ = self.end_group();
        }
    }
}

impl<M: Memory> TreeStore for Pages<PoolStore<M>> {
    fn check_space(&mut self, reachable: &mut BTreeSet<u64>, report: &mut VerifyReport) {
        for block in self.store.own_blocks() {
            if !reachable.insert(block) {
                let text = format!("the block at offset {block} is used twice");
                report.damage.push(text);
            }
        }
        check_pool(&self.store.arena, reachable, report);
    }

    fn footprint(&mut self) -> Result<Footprint> {
        Ok(pool::footprint(&self.store.arena.footprint()?))
    }

    fn count(&self, status: &mut EngineStatus) {
        status.memory += &self.frame_counters();
        status.memory += &self.store.arena.counters();
    }

    fn snapshot(&mut self, layout: LayoutKind) -> Result<Option<Box<dyn Engine>>> {
        let directory = self.store.directory();
        let store = self.store.snapshot()?;
        reader::of_pages(store, directory, layout, RowsIn::Pool).map(Some)
    }
}

/// Holds the blocks in use, with the master's, against those that are allocated.
fn check_pool<M: Memory>(
    arena: &Arena<M>,
    reachable: &mut BTreeSet<u64>,
    report: &mut VerifyReport,
) {
    reachable.insert(arena.root(FIRST_ROOT));
    let blocks = match arena.allocated() {
        Ok(blocks) => blocks,
        Err(error) => return report.damage.push(error.to_string()),
    };
    report.blocks = blocks.len() as u64;
    check_blocks(&blocks, reachable, report);
}

/// Holds the blocks in use against those that are allocated.
fn check_blocks(blocks: &[Block], reachable: &BTreeSet<u64>, report: &mut VerifyReport) {
    let allocated: BTreeSet<u64> = blocks.iter().map(|block| block.offset).collect();
    let leaked = allocated.difference(reachable);
    let leaked = leaked.map(|at| format!("the block at offset {at} is leaked"));
    let free = reachable.difference(&allocated);
    let free = free.map(|at| format!("the block at offset {at} is in use but free"));
    report.damage.extend(leaked.chain(free));
}

impl<M: Memory, D: disk::Directory> TreeStore for Pages<FileStore<M, D>> {
    fn check_space(&mut self, reachable: &mut BTreeSet<u64>, report: &mut VerifyReport) {
        self.store.check_space(reachable, report);
    }

    fn footprint(&mut self) -> Result<Footprint> {
        let (used, free) = self.store.used_and_free_bytes();
        Ok(Footprint {
            table: used,
            other: free,
            ..Footprint::default()
        })
    }

    fn count(&self, status: &mut EngineStatus) {
        status.memory += &self.frame_counters();
        status.disk = self.store.counters();
    }

    fn close(&mut self) -> Result<()> {
        self.store.settle_master()
    }

    fn snapshot(&mut self, layout: LayoutKind) -> Result<Option<Box<dyn Engine>>> {
        let directory = self.store.directory();
        let store = self.store.snapshot()?;
        reader::of_pages(store, directory, layout, RowsIn::Trees).map(Some)
    }
}

/// Makes the pool of a partition of `nvm-cow`.
pub(super) fn create_in_pool<P: Platform>(
    platform: &P,
    options: &EngineOptions,
) -> Result<NvCow<P>> {
    check_page_size(options)?;
    let memories = platform.memories(options.partition);
    let identity = pool::identity(POOL_KIND, options.page_bytes, options);
    let arena = pool::create(&memories, &identity, options)?;
    let page_bytes = options.page_bytes as usize;
    let (mut store, master) = PoolStore::create(arena, pool::salt(options), page_bytes)?;
    // commit point: a pool whose master is set is a complete, empty partition
    store.arena.set_root(FIRST_ROOT, master)?;
    store.arena.settle(Outcome::Committed);
    let frames = memories.volatile(FRAMES_BYTES.max(POOL_BYTES_MIN))?;
    CowEngine::start(store, frames, 0, options.layout, options, false)
}

/// Opens the pool of a partition of `nvm-cow`. With [`Access::Read`] it stores and flushes nothing,
/// and fails where a group is to be decided or its bitmap words are to be changed again.
pub(super) fn open_in_pool<P: Platform>(
    platform: &P,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<NvCow<P>> {
    let memories = platform.memories(options.partition);
    let Opened {
        arena,
        name,
        layout,
        node_bytes: page_bytes,
        first_root: master,
    } = pool::open(&memories, &[POOL_KIND], PAGES, options)?;
    let salt = pool::salt(options);
    let (store, undone) = match options.access {
        Access::Write => PoolStore::open(arena, master, salt, page_bytes, decide)?,
        Access::Read => match PoolStore::open_read_only(arena, master, salt, page_bytes)? {
            Some(store) => (store, false),
            None => return Err(StorageError::NeedsRecovery(name)),
        },
    };
    let directory = store.directory();
    let frames = memories.volatile(FRAMES_BYTES.max(POOL_BYTES_MIN))?;
    CowEngine::start(store, frames, directory, layout, options, undone)
}

/// Makes the file of a partition of `cow`.
pub(super) fn create_in_file<P: Platform>(platform: &P, options: &EngineOptions) -> Result<Cow<P>> {
    check_page_size(options)?;
    let files = platform.files(options.partition)?;
    let store = FileStore::create(files, file_identity(options), options.page_bytes as usize)?
        .with_cache(options.page_cache_bytes);
    let frames = platform
        .memories(options.partition)
        .volatile(FRAMES_BYTES.max(POOL_BYTES_MIN))?;
    CowEngine::start(store, frames, 0, LayoutKind::Together, options, false)
}

/// Opens the file of a partition of `cow`. With [`Access::Read`] nothing is written, whatever state
/// the file is in.
pub(super) fn open_in_file<P: Platform>(
    platform: &P,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<Cow<P>> {
    let files = platform.files(options.partition)?;
    let (store, undone) = FileStore::open(files, file_identity(options), options.access, decide)?;
    let store = store.with_cache(options.page_cache_bytes);
    let directory = store.directory();
    let frames = platform
        .memories(options.partition)
        .volatile(FRAMES_BYTES.max(POOL_BYTES_MIN))?;
    CowEngine::start(
        store,
        frames,
        directory,
        LayoutKind::Together,
        options,
        undone,
    )
}

fn check_page_size(options: &EngineOptions) -> Result<()> {
    if is_page_size(u64::from(options.page_bytes)) {
        return Ok(());
    }
    Err(StorageError::Unsupported(format!(
        "pages of {} bytes; choose a multiple of 512 from 512 to 65536",
        options.page_bytes
    )))
}

/// Whether pages of so many bytes can be used: whole sectors, of which two entries of every key
/// fit.
fn is_page_size(bytes: u64) -> bool {
    (512..=64 << 10).contains(&bytes) && bytes.is_multiple_of(512)
}

fn file_identity(options: &EngineOptions) -> FileIdentity {
    FileIdentity {
        database: options.database_id,
        partition: options.partition,
    }
}
