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

pub use slotted::{Slotted, create_behind_cache, create_slotted, open_behind_cache, open_slotted};

use super::serial::pool::{self, FIRST_ROOT, Opened};
use super::{
    CommitTicket, Decide, Durability, Engine, EngineOptions, EngineStatus, Footprint, GlobalTxnId,
    Idle, Reads, ScanRange, VerifyReport,
};
use crate::error::{Result, StorageError};
use crate::failure::Failure;
use crate::index::cow::file::{FileIdentity, FileStore};
use crate::index::cow::pool::PoolStore;
use crate::index::cow::{PageStore, Pages, Purpose};
use crate::index::trees::Trees;
use crate::log::{Due, GroupCommit, GroupCommitOptions};
use crate::platform::Platform;
use crate::probe::{self, Activity};
use crate::record::{Changes, IndexDef, IndexId, KeyBuf, LayoutKind, Row, TableDef, TableId};
use crate::table::Table;
use crate::table::cow::{CowSpace, ImageRows, Rows, TupleRows};
use pmem::{Access, Arena, Block, Memory, MemorySource, Outcome, POOL_BYTES_MIN, PoolKind};
use reader::RowsIn;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Kind of the pools of `nvm-cow`.
const POOL_KIND: PoolKind = PoolKind(0x6e76_636f);
/// Pages that a pool may have.
const PAGES: (&str, fn(u64) -> bool) = ("pages", is_page_size);
/// First size of the volatile memory for frames.
const FRAMES_BYTES: u64 = 1 << 20;

type DeviceOf<P> = <<P as Platform>::Memories as MemorySource>::Memory;

/// One partition of `nvm-cow`.
pub type NvCow<P> = CowEngine<Pages<PoolStore<DeviceOf<P>>>, TupleRows>;
/// One partition of `cow`.
pub type Cow<P> = CowEngine<Pages<FileStore<DeviceOf<P>, <P as Platform>::Files>>, ImageRows>;

/// Operations of trees, and of the place where they live, that the engine needs beyond [`Trees`].
pub trait TreeStore: Trees {
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
pub struct CowEngine<T: TreeStore, R: Rows<T>> {
    space: CowSpace<T, R>,
    group: GroupCommit,
    state: State,
    /// Of the step after which it is [`State::Poisoned`].
    failure: Failure,
    /// State of the trees at the beginning of the open transaction.
    begin: Option<T::Mark>,
    /// Bytes that its group held then.
    group_bytes: usize,
    undone: u64,
}

/// States of the engine, which decide the calls that it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Open,
    /// Only `commit` and `abort` are possible.
    Prepared {
        wrote: bool,
    },
    /// An operation failed half-way: only `abort` is possible.
    MustAbort,
    /// A durable step failed: nothing is possible.
    Poisoned,
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
    ) -> Result<Self> {
        let pages = Pages::new(store, memory, directory)?;
        Self::over(pages, layout, options, undone)
    }
}

impl<T: TreeStore, R: Rows<T>> CowEngine<T, R> {
    /// The partition whose tables the directory of `trees` has.
    fn over(trees: T, layout: LayoutKind, options: &EngineOptions, undone: bool) -> Result<Self> {
        let group = GroupCommitOptions {
            transactions_max: options.group_transactions_max,
            wait_us_max: options.group_wait_us_max,
        };
        Ok(Self {
            space: CowSpace::open(trees, layout)?,
            group: GroupCommit::new(group, CommitTicket(0)),
            state: State::Idle,
            failure: Failure::default(),
            begin: None,
            group_bytes: 0,
            undone: u64::from(undone),
        })
    }

    /// Runs one operation. If it fails without damage its traces are taken back and the transaction
    /// goes on.
    #[inline]
    fn operate<V>(
        &mut self,
        copies: Purpose,
        operation: impl Fn(&mut CowSpace<T, R>) -> Result<V>,
    ) -> Result<V> {
        let _database = probe::begin(Activity::Database);
        self.require(State::Open)?;
        self.space.trees.begin_statement(copies);
        let mut mark = self.space.trees.mark();
        let mut result = operation(&mut self.space);
        if result.as_ref().is_err_and(StorageError::is_out_of_space) && self.make_space(mark)? {
            mark = self.space.trees.mark();
            result = operation(&mut self.space);
        }
        let error = match result {
            Ok(value) => {
                self.space.trees.end_statement(mark);
                return Ok(value);
            }
            Err(error) => error,
        };
        self.state = State::MustAbort;
        if error.is_statement_error() && self.space.trees.rollback(mark).is_ok() {
            self.state = State::Open;
        }
        Err(error)
    }

    /// On a full device: ends the group, which frees its old pages. Says whether that has helped. A
    /// transaction that has changed trees before cannot be separated from its group.
    #[cold]
    fn make_space(&mut self, mark: T::Mark) -> Result<bool> {
        self.space.trees.rollback(mark)?;
        if self.space.trees.is_changed() || !self.space.trees.is_dirty() {
            return Ok(false);
        }
        self.end_group()?;
        self.begin = Some(self.space.trees.mark());
        self.group_bytes = self.space.trees.transaction_bytes();
        Ok(true)
    }

    /// Runs a change of definitions as a group of its own. If it fails, the definitions are read
    /// again.
    fn define(&mut self, operation: impl FnOnce(&mut CowSpace<T, R>) -> Result<()>) -> Result<()> {
        self.require(State::Idle)?;
        self.force()?;
        self.begin()?;
        self.space.trees.begin_statement(Purpose::Copy);
        let result = operation(&mut self.space)
            .and_then(|()| self.space.end_definition())
            .and_then(|()| self.commit(Durability::Immediate).map(|_| ()));
        if result.is_err() && self.state != State::Poisoned {
            self.abort()?;
            self.space.reload()?;
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
            State::Prepared { .. } => refuse("the transaction is prepared; commit or abort it"),
            State::Idle => refuse("no transaction is open"),
            State::Open => refuse("a transaction is open already"),
        })
    }

    /// Remembers that a durable step failed, after which memory and medium may differ.
    fn durable_step<V>(&mut self, result: Result<V>) -> Result<V> {
        result.inspect_err(|error| {
            self.state = State::Poisoned;
            self.failure.note_of(error);
        })
    }

    /// Writes the group. Nothing of an open transaction may be in it.
    fn end_group(&mut self) -> Result<()> {
        if self.space.trees.is_dirty() {
            let result = self.space.write_roots().and_then(|()| {
                self.space.trees.end_transaction();
                self.space.trees.commit()
            });
            self.durable_step(result)?;
        }
        self.group.synced();
        Ok(())
    }

    /// Ends the transaction; its group goes on or ends.
    fn join(&mut self, durability: Durability, wrote: bool) -> Result<CommitTicket> {
        self.begin = None;
        self.state = State::Idle;
        if !wrote {
            let result = self.space.trees.settle_reads();
            self.durable_step(result)?;
        }
        let due = if wrote {
            self.group.join(durability)
        } else {
            self.group.wait(durability)
        };
        if due == Due::Now || self.space.trees.dirty_bytes() > T::DIRTY_BYTES_MAX {
            self.end_group()?;
        }
        Ok(self.group.newest())
    }
}

impl<T: TreeStore, R: Rows<T>> Reads for CowEngine<T, R> {
    fn tables(&self) -> Vec<Arc<Table>> {
        self.space.tables()
    }

    #[inline]
    fn begin(&mut self) -> Result<()> {
        self.require(State::Idle)?;
        self.space.trees.reclaim();
        self.begin = Some(self.space.trees.mark());
        self.group_bytes = self.space.trees.transaction_bytes();
        self.state = State::Open;
        Ok(())
    }

    #[inline]
    fn get(&mut self, table: TableId, key: &[u64], row: &mut Row) -> Result<bool> {
        self.require(State::Open)?;
        self.space.get(table, key, row)
    }

    fn get_many(
        &mut self,
        table: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        self.require(State::Open)?;
        self.space.get_many(table, keys, visit)
    }

    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        self.require(State::Open)?;
        self.space.scan(range, visit)
    }

    fn abort(&mut self) -> Result<()> {
        match self.state {
            State::Prepared { wrote: true } => {
                let result = self.space.trees.resolve(false);
                self.durable_step(result)?;
            }
            State::MustAbort | State::Prepared { wrote: false } => {}
            _ => self.require(State::Open)?,
        }
        if let Some(mark) = self.begin.take() {
            let result = self.space.trees.rollback(mark);
            self.durable_step(result)?;
        }
        self.state = State::Idle;
        // The caller may have passed the transaction's reads on.
        let result = self.space.trees.settle_reads();
        self.durable_step(result)
    }

    fn durable(&self) -> CommitTicket {
        self.group.durable()
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

    fn verify(&mut self) -> Result<VerifyReport> {
        self.require(State::Idle)?;
        self.end_group()?;
        let mut report = VerifyReport::default();
        let mut reachable = BTreeSet::new();
        self.space.check(&mut reachable, &mut report);
        self.space.trees.check_space(&mut reachable, &mut report);
        let result = self.space.trees.settle_reads();
        self.durable_step(result)?;
        Ok(report)
    }
}

impl<T: TreeStore, R: Rows<T>> Engine for CowEngine<T, R> {
    fn insert(&mut self, table: TableId, row: &Row) -> Result<()> {
        self.operate(Purpose::CopyToAdd, |space| space.insert(table, row))
    }

    fn update(&mut self, table: TableId, key: &[u64], changes: &Changes) -> Result<bool> {
        self.operate(Purpose::Copy, |space| space.update(table, key, changes))
    }

    fn delete(&mut self, table: TableId, key: &[u64]) -> Result<bool> {
        self.operate(Purpose::Copy, |space| space.delete(table, key))
    }

    #[inline]
    fn commit(&mut self, durability: Durability) -> Result<CommitTicket> {
        let _commit = probe::begin(Activity::Commit);
        if let State::Prepared { wrote } = self.state {
            self.space.trees.end_transaction();
            if wrote {
                let result = self.space.trees.resolve(true);
                self.durable_step(result)?;
                // The earlier transactions of the group are durable with the prepared one.
                self.group.join(Durability::None);
                self.group.synced();
            }
            return self.join(durability, false);
        }
        self.require(State::Open)?;
        let wrote = self.space.trees.is_changed();
        self.space.trees.end_transaction();
        self.join(durability, wrote)
    }

    fn prepare(&mut self, global: GlobalTxnId) -> Result<()> {
        self.require(State::Open)?;
        let wrote = self.space.trees.is_changed();
        if wrote {
            let result = self
                .space
                .write_roots()
                .and_then(|()| self.space.trees.prepare(global));
            if let Err(error) = &result {
                self.state = if error.is_statement_error() {
                    State::MustAbort
                } else {
                    self.failure.note_of(error);
                    State::Poisoned
                };
            }
            result?;
        } else {
            self.end_group()?;
            self.begin = Some(self.space.trees.mark());
        }
        self.state = State::Prepared { wrote };
        Ok(())
    }

    #[inline]
    fn transaction_bytes(&self) -> usize {
        let bytes = self.space.trees.transaction_bytes();
        bytes.saturating_sub(self.group_bytes)
    }

    fn force(&mut self) -> Result<()> {
        match self.state {
            State::Poisoned => Err(self.failure.refusal()),
            State::Idle => self.end_group(),
            State::Open if !self.space.trees.is_changed() => {
                self.end_group()?;
                self.begin = Some(self.space.trees.mark());
                Ok(())
            }
            // The open transaction's changes are not apart from the group's.
            _ => Err(StorageError::Unsupported(
                "a transaction that has changed something is open".to_owned(),
            )),
        }
    }

    fn idle(&mut self) -> Result<&mut dyn Idle> {
        self.require(State::Idle)?;
        Ok(self)
    }
}

impl<T: TreeStore, R: Rows<T>> Idle for CowEngine<T, R> {
    fn create_table(&mut self, def: &TableDef) -> Result<()> {
        self.define(|space| space.create_table(def))
    }

    fn drop_table(&mut self, table: TableId) -> Result<()> {
        self.define(|space| space.drop_table(table))
    }

    fn create_index(&mut self, table: TableId, index: &IndexDef) -> Result<()> {
        self.define(|space| space.create_index(table, index))
    }

    fn drop_index(&mut self, table: TableId, index: IndexId) -> Result<()> {
        self.define(|space| space.drop_index(table, index))
    }

    fn checkpoint(&mut self) -> Result<()> {
        let result = self.space.trees.checkpoint();
        self.durable_step(result)
    }

    fn close(&mut self) -> Result<()> {
        self.end_group()?;
        let result = self.space.trees.close();
        self.durable_step(result)
    }

    fn snapshot(&mut self) -> Result<Option<Box<dyn Engine>>> {
        // Makes the content of the snapshot durable; the group that goes on after it is empty.
        self.end_group()?;
        let layout = self.space.layout();
        self.space.trees.snapshot(layout)
    }
}

impl<T: TreeStore, R: Rows<T>> Drop for CowEngine<T, R> {
    /// Ends the last group in order. Commits that cannot be written are not acknowledged either, so
    /// a failure here loses nothing.
    fn drop(&mut self) {
        let ends = match self.state {
            State::Idle => true,
            State::Open | State::MustAbort => self.abort().is_ok(),
            State::Prepared { .. } | State::Poisoned => false,
        };
        if ends && !std::thread::panicking() {
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
pub fn create_in_pool<P: Platform>(platform: &P, options: &EngineOptions) -> Result<NvCow<P>> {
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
pub fn open_in_pool<P: Platform>(
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
    } = pool::open(&memories, POOL_KIND, PAGES, options)?;
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
pub fn create_in_file<P: Platform>(platform: &P, options: &EngineOptions) -> Result<Cow<P>> {
    check_page_size(options)?;
    let files = platform.files(options.partition)?;
    let store = FileStore::create(files, file_identity(options), options.page_bytes as usize)?;
    let frames = platform
        .memories(options.partition)
        .volatile(FRAMES_BYTES.max(POOL_BYTES_MIN))?;
    CowEngine::start(store, frames, 0, LayoutKind::Together, options, false)
}

/// Opens the file of a partition of `cow`. With [`Access::Read`] nothing is written, whatever state
/// the file is in.
pub fn open_in_file<P: Platform>(
    platform: &P,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<Cow<P>> {
    let files = platform.files(options.partition)?;
    let (store, undone) = FileStore::open(files, file_identity(options), options.access, decide)?;
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

#[cfg(test)]
mod tests;
