//! The page engine: trees of slotted pages in a file, with a buffer pool and a write-ahead log.
//!
//! | when | what is written |
//! |---|---|
//! | operation | a log record with what changed and how it is undone; then the pages, in the pool |
//! | commit | a commit record; one sync of the log for its group |
//! | prepare | a record, and a sync |
//! | abort | a compensation record for each change, and their pages, in the pool |
//! | a frame is or will be needed | dirty pages through the guard, after their last log records |
//! | checkpoint | all dirty pages, sync, the master record, sync; then the older log is removed |
//! | recovery | the pages that the log has, what is undone, and a checkpoint |
//!
//! Steal and no-force: a page may be written before its transaction commits, and need not be when
//! it does. After ARIES (Mohan et al., TODS 1992). The methods differ in what protects a write of a
//! page that a power cut tears: `full-page-writes` logs a page whole when it changes first after a
//! checkpoint, `dwb` writes it to an area of its own first, and `dwb-off` trusts the device to
//! write pages whole. `nvm-dwb` and `nvm-dwb-log` have that area in durable memory, and
//! `nvm-dwb-log-opt` leaves pages there (`buffer/guard/page_cache.rs`). `nv-logging` is `dwb` with
//! its log in durable memory (`buffer/nv_log.rs`), where fences take the place of syncs, and
//! `distributed-log` the same with a few rings that sessions share. `nv-disk-decentralized` is
//! `dwb` with log files of each session's own (`buffer/session_files.rs`). `in-place` and
//! `group-commit` have the pages themselves there (`paged/in_place.rs`, `buffer/batch_log.rs`).

#[cfg(test)]
mod ahead_tests;
#[cfg(test)]
mod archive_tests;
#[cfg(test)]
mod batch_tests;
#[cfg(test)]
mod checkpoint_tests;
mod checkpointer;
mod checkpoints;
#[cfg(test)]
mod dropped_tests;
mod group;
mod logs;
#[cfg(test)]
mod mark_tests;
mod rebuild;
#[cfg(test)]
mod rebuild_tests;
#[cfg(test)]
mod redo_tests;
mod running;
#[cfg(test)]
mod session_tests;
mod shared;
mod shrink;
#[cfg(test)]
mod shrink_tests;
#[cfg(test)]
mod space_tests;
mod unfinished;

pub use self::rebuild::{Mark, Rebuild, Replayed, Until};
use self::running::Running;
use self::shared::{Logged, Shared};
use crate::paged::locking::RowLocks;
use crate::paged::tables::Tables;
use crate::paged::{Pages, Transaction};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use storage::engine::{
    CommitTicket, Decide, Durability, Engine, EngineOptions, EngineStatus, Footprint, GlobalTxnId,
    Idle, Isolation, Locking, Marks, Method, PageAxes, PageFile, PagesBase, ReadOnly, Reads,
    ScanRange, Sessions, Shrunk, VerifyReport, VisitPage,
};
use storage::lock::{KeyMode, LockOwner, Mode, Precedence};
use storage::log::{ArchiveRange, ArchiveWatch, Due, Lsn};
use storage::probe::{self, Activity};
use storage::record::{Changes, IndexDef, IndexId, KeyBuf, Row, TableDef, TableId};
use storage::table::Table;
use storage::{Platform, Result, StorageError};

/// Creates a partition's storage.
///
/// # Errors
/// A method that is none of the page engine; those of the files and memories.
pub fn create<P: Platform>(
    platform: &P,
    method: Method,
    options: &EngineOptions,
) -> Result<Box<dyn Engine>> {
    let paged = Paged::create(platform, options, axes_of(method)?)?;
    Ok(Box::new(paged))
}

/// Opens a partition's storage and recovers it: as
/// [`EngineSource::open_engine`](storage::EngineSource::open_engine).
///
/// # Errors
/// As [`create`], and those of recovery.
pub fn open<P: Platform>(
    platform: &P,
    method: Method,
    options: &EngineOptions,
    decide: Decide<'_>,
) -> Result<Box<dyn Engine>> {
    let paged = Paged::open(platform, options, axes_of(method)?, decide)?;
    Ok(ReadOnly::unless_writing(options.access, Box::new(paged)))
}

fn axes_of(method: Method) -> Result<PageAxes> {
    method.axes().ok_or_else(|| {
        StorageError::Unsupported(format!("method `{method}` is none of the page engine"))
    })
}

/// A session of one partition of the page engine. Its `shrink` has a file of its own.
pub struct Paged<P: Platform> {
    shared: Arc<Running<P>>,
    session: u32,
    locks: RowLocks,
    tables: Tables,
    /// The definitions that `tables` has.
    definitions: u64,
    state: State,
    /// The record that has to be durable before the open transaction is prepared.
    prepared: Lsn,
    transaction: Option<Transaction>,
    /// The transaction before, for its buffers.
    ended: Option<Transaction>,
}

/// States of a session, which decide the calls that it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Open,
    /// Only `commit` and `abort` are possible.
    Prepared,
    /// An operation failed half-way: only `abort` is possible.
    MustAbort,
}

impl<P: Platform> Paged<P> {
    /// Makes the files of a partition.
    pub fn create(platform: &P, options: &EngineOptions, axes: PageAxes) -> Result<Self> {
        let shared = Shared::create(platform, options, axes)?;
        Self::new(Arc::new(Running::start(shared, options)))
    }

    /// Opens a partition and recovers it.
    pub fn open(
        platform: &P,
        options: &EngineOptions,
        axes: PageAxes,
        decide: Decide<'_>,
    ) -> Result<Self> {
        let mut session = Self::recover(platform, options, axes, decide)?;
        if options.access == pmem::Access::Write && session.free_dropped()? {
            // The next opening has to find nothing to do, as after any recovery. If the orderly end
            // fails, this one does what is left.
            drop(session.close());
            drop(session);
            session = Self::recover(platform, options, axes, decide)?;
        }
        Ok(session)
    }

    fn recover(
        platform: &P,
        options: &EngineOptions,
        axes: PageAxes,
        decide: Decide<'_>,
    ) -> Result<Self> {
        let shared = Shared::open(platform, options, axes, decide)?;
        Self::new(Arc::new(Running::start(shared, options)))
    }

    /// The next session of a partition.
    fn new(shared: Arc<Running<P>>) -> Result<Self> {
        Ok(Self {
            session: shared.next_session()?,
            locks: RowLocks::new(shared.locks.session()),
            definitions: shared.definitions(),
            tables: Tables::open(&shared.pages, shared.catalogue)?,
            shared,
            state: State::Idle,
            prepared: Lsn(0),
            transaction: None,
            ended: None,
        })
    }

    fn require(&self, state: State) -> Result<()> {
        if self.shared.is_poisoned() {
            return Err(self.shared.refusal());
        }
        if self.state == state {
            return Ok(());
        }
        let refuse = |text: &str| StorageError::Unsupported(text.to_owned());
        Err(match self.state {
            State::MustAbort => refuse("an operation failed half-way; abort the transaction"),
            State::Prepared => refuse("the transaction is prepared; commit or abort it"),
            State::Idle => refuse("no transaction is open"),
            State::Open => refuse("a transaction is open already"),
        })
    }

    /// Runs one operation. If it fails without damage its traces are undone and the transaction
    /// goes on. Where there is no space, a checkpoint may give some of the log back.
    #[inline]
    fn operate<T>(
        &mut self,
        operation: impl Fn(&mut Tables, &Pages<P::Files>, &mut RowLocks, &mut Transaction) -> Result<T>,
    ) -> Result<T> {
        match self.operate_once(&operation) {
            Err(error) if error.is_out_of_space() && self.state == State::Open => {
                if self.has_changed_nothing()
                    && let Some(txn) = &mut self.transaction
                {
                    // The failed attempt is undone, and its records will lie before the checkpoint.
                    self.shared.pages.forget(txn);
                }
                // The log keeps everything from there on where one of these begins.
                self.shared.undo_unfinished()?;
                // For the room that the checkpoint takes, and then for the records that it makes
                // cold.
                self.shared.move_cold()?;
                self.shared.write_checkpoint()?;
                self.shared.move_cold()?;
                self.operate_once(&operation)
            }
            result => result,
        }
    }

    fn has_changed_nothing(&self) -> bool {
        let untouched = |txn: &Transaction| {
            let taken = txn.undone_pages.len() + txn.undone_trees.len();
            txn.undo.is_empty() && taken == 0
        };
        self.transaction.as_ref().is_some_and(untouched)
    }

    fn operate_once<T>(
        &mut self,
        operation: &impl Fn(&mut Tables, &Pages<P::Files>, &mut RowLocks, &mut Transaction) -> Result<T>,
    ) -> Result<T> {
        let _database = probe::begin(Activity::Database);
        self.require(State::Open)?;
        let Some(txn) = &mut self.transaction else {
            return Err(StorageError::Poisoned);
        };
        let savepoint = txn.savepoint();
        let error = match operation(&mut self.tables, &self.shared.pages, &mut self.locks, txn) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        self.state = State::MustAbort;
        if !error.is_statement_error() {
            self.shared.stop_with_log();
        } else if self.shared.pages.rollback(txn, savepoint).is_ok() {
            self.state = State::Open;
        }
        Err(self.shared.reported(error))
    }

    /// Runs a change of definitions as a transaction of its own. If it fails, the definitions are
    /// read again.
    fn define(
        &mut self,
        change: impl Fn(&mut Tables, &Pages<P::Files>, &mut Transaction) -> Result<()>,
    ) -> Result<()> {
        self.define_durably(Durability::Immediate, change)
    }

    fn define_durably(
        &mut self,
        durability: Durability,
        change: impl Fn(&mut Tables, &Pages<P::Files>, &mut Transaction) -> Result<()>,
    ) -> Result<()> {
        self.begin_locking(Mode::Exclusive)?;
        let result = self
            .operate(|tables, pages, _, txn| change(tables, pages, txn))
            .and_then(|()| {
                // While the partition is locked: transactions that begin after the commit has
                // released it read the definitions again.
                self.definitions = self.shared.redefined();
                self.commit(durability).map(|_| ())
            });
        if result.is_err() && !self.shared.is_poisoned() {
            self.abort()?;
            self.tables.reload(&self.shared.pages)?;
        }
        result
    }

    /// Frees the pages of tables and indexes that were dropped. They are gone whatever happens to
    /// their pages, so what fails while the partition goes on (no room, damage, others in the way)
    /// is left for the next drop or opening. Returns whether any were freed.
    fn free_dropped(&mut self) -> Result<bool> {
        let mut freed = false;
        while self.tables.has_dropped(&self.shared.pages)? {
            let piece = |tables: &mut Tables, pages: &Pages<_>, txn: &mut Transaction| {
                tables.free_dropped(pages, txn)
            };
            match self.define_durably(Durability::None, piece) {
                Err(error) if self.shared.is_poisoned() => return Err(error),
                Err(_) => break,
                Ok(()) => freed = true,
            }
        }
        Ok(freed)
    }

    /// Starts a transaction with the partition locked and the newest definitions.
    fn begin_locking(&mut self, mode: Mode) -> Result<()> {
        let _database = probe::begin(Activity::Database);
        self.require(State::Idle)?;
        if !matches!(mode, Mode::IntentShared | Mode::IntentExclusive) {
            self.shared.undo_unfinished()?;
        }
        let locked = self.locks.partition(mode);
        locked.map_err(|error| self.shared.reported(error))?;
        let definitions = self.shared.definitions();
        if self.definitions != definitions {
            if let Err(error) = self.tables.reload(&self.shared.pages) {
                self.locks.end();
                return Err(error);
            }
            self.definitions = definitions;
        }
        // Behind the lock, which others may wait for with theirs.
        if let Err(error) = self.shared.pages.pool.log().enter(self.session) {
            self.locks.end();
            self.shared.stop_with_log();
            return Err(self.shared.reported(error));
        }
        let id = self.shared.next_txn();
        self.transaction = Some(match self.ended.take() {
            Some(ended) => ended.renew(id),
            None => Transaction::new(id, self.session),
        });
        self.state = State::Open;
        Ok(())
    }

    /// Runs something with the partition locked as a whole, outside a transaction.
    fn alone<T>(&mut self, mode: Mode, run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.begin_locking(mode)?;
        let result = run(self);
        self.transaction = None;
        self.release();
        result
    }

    /// Releases the transaction's locks and leaves the log, so that waiting transactions go on.
    #[inline]
    fn release(&mut self) {
        self.state = State::Idle;
        self.locks.end();
        self.shared.pages.pool.log().leave(self.session);
    }

    /// Ends the transaction; its group goes on or ends. Its locks are free before it is durable
    /// (see [`RowLocks`]), unless the options say otherwise.
    fn end(&mut self, commit: &Logged) -> Result<()> {
        self.ended = self.transaction.take().and_then(Transaction::end);
        let is_early = self.shared.locking == Locking::Optimised;
        if is_early {
            self.release();
        }
        let durable = match commit.due {
            Due::Now => self.shared.sync_commit(self.session, commit.ticket),
            Due::Later => Ok(()),
        };
        if !is_early {
            self.release();
        }
        durable
    }
}

impl<P: Platform> Reads for Paged<P> {
    fn tables(&self) -> Vec<Arc<Table>> {
        self.tables.tables()
    }

    #[inline]
    fn begin(&mut self) -> Result<()> {
        self.begin_locking(Mode::IntentShared)
    }

    #[inline]
    fn get(&mut self, table: TableId, key: &[u64], row: &mut Row) -> Result<bool> {
        let _database = probe::begin(Activity::Database);
        self.require(State::Open)?;
        let Shared { pages, .. } = &**self.shared;
        let place = (table, key);
        self.tables
            .get(pages, &mut self.locks, place, KeyMode::Shared, row)
            .map_err(|error| self.shared.reported(error))
    }

    fn get_many(
        &mut self,
        table: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        let _database = probe::begin(Activity::Database);
        self.require(State::Open)?;
        self.tables
            .get_many(&self.shared.pages, &mut self.locks, table, keys, visit)
            .map_err(|error| self.shared.reported(error))
    }

    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        let _database = probe::begin(Activity::Database);
        self.require(State::Open)?;
        self.tables
            .scan(&self.shared.pages, &mut self.locks, range, visit)
            .map_err(|error| self.shared.reported(error))
    }

    fn abort(&mut self) -> Result<()> {
        let _database = probe::begin(Activity::Database);
        if !matches!(self.state, State::MustAbort | State::Prepared) {
            self.require(State::Open)?;
        }
        let mut was_logged = false;
        if let Some(mut txn) = self.transaction.take() {
            was_logged = txn.is_logged;
            let undone = self.shared.pages.undo(&mut txn);
            self.shared.durable_step(undone)?;
            self.ended = txn.end();
        }
        self.release();
        if was_logged {
            self.shared.checkpoint_if_due()?;
        }
        Ok(())
    }

    fn durable(&self) -> CommitTicket {
        self.shared.durable()
    }

    fn footprint(&mut self) -> Result<Footprint> {
        if self.state != State::Idle {
            return self.tables.footprint(&self.shared.pages);
        }
        self.alone(Mode::Shared, |session| {
            session.tables.footprint(&session.shared.pages)
        })
    }

    fn status(&self) -> EngineStatus {
        let pool = &self.shared.pages.pool;
        let mut memory = pool.log().memory();
        memory += &pool.memory();
        let file = pool.file();
        memory += &file.memory();
        let pages = file.written();
        drop(file);
        EngineStatus {
            memory,
            disk: self.shared.disk(),
            recovery_undone: self.shared.undone,
            hint_bytes: 0,
            log_line_writes: 0.0,
            recovery_replayed: self.shared.replayed,
            log_persisted: pool.log().persisted(),
            area: pool.readers().write_back().area(),
            pages,
            checkpoints: self.shared.checkpointer.counters(),
        }
    }

    fn archive(&self) -> Result<Option<ArchiveRange>> {
        self.shared.pages.pool.log().archive()
    }

    fn archive_watch(&self) -> Option<Arc<ArchiveWatch>> {
        self.shared.pages.pool.log().archive_watch()
    }

    fn verify(&mut self) -> Result<VerifyReport> {
        self.alone(Mode::Shared, |session| {
            let Shared { pages, .. } = &**session.shared;
            session.shared.durable_step(pages.pool.write_all())?;
            let mut report = session.tables.verify(pages)?;
            let log = pages.pool.log();
            let looks = [log.verify().err(), log.archive().err()];
            let damage = looks.iter().flatten().map(ToString::to_string);
            report.damage.extend(damage);
            Ok(report)
        })
    }
}

impl<P: Platform> Engine for Paged<P> {
    fn get_to_change(&mut self, table: TableId, key: &[u64], row: &mut Row) -> Result<bool> {
        let _database = probe::begin(Activity::Database);
        self.require(State::Open)?;
        let Shared { pages, .. } = &**self.shared;
        let place = (table, key);
        self.tables
            .get(pages, &mut self.locks, place, KeyMode::Update, row)
            .map_err(|error| self.shared.reported(error))
    }

    fn insert(&mut self, table: TableId, row: &Row) -> Result<()> {
        self.operate(|tables, pages, locks, txn| tables.insert(pages, locks, table, row, txn))
    }

    fn update(&mut self, table: TableId, key: &[u64], changes: &Changes) -> Result<bool> {
        let place = (table, key);
        self.operate(|tables, pages, locks, txn| tables.update(pages, locks, place, changes, txn))
    }

    fn delete(&mut self, table: TableId, key: &[u64]) -> Result<bool> {
        let place = (table, key);
        self.operate(|tables, pages, locks, txn| tables.delete(pages, locks, place, txn))
    }

    #[inline]
    fn commit(&mut self, durability: Durability) -> Result<CommitTicket> {
        let _database = probe::begin(Activity::Database);
        if self.state != State::Prepared {
            self.require(State::Open)?;
        }
        let Some(txn) = &mut self.transaction else {
            return Err(StorageError::Poisoned);
        };
        if !txn.is_logged {
            self.shared.pages.forget(txn);
            let newest = self.shared.wait(durability);
            return self.end(&newest).map(|()| newest.ticket);
        }
        let id = txn.id;
        let committed = match self.shared.commit(txn, durability) {
            // The archive may have room by now for records that take room in the log.
            Err(error) if error.is_out_of_space() => {
                self.shared.move_cold()?;
                self.shared.commit(txn, durability)
            }
            committed => committed,
        };
        let (logged, frees) = match committed {
            Ok(committed) => committed,
            Err(error) => {
                if error.is_statement_error() && self.state == State::Open {
                    self.state = State::MustAbort;
                    return Err(error);
                }
                return self.shared.durable_step(Err(error));
            }
        };
        let released = self.shared.pages.free(id, self.session, &frees);
        self.shared.durable_step(released)?;
        self.end(&logged)?;
        self.shared.checkpoint_if_due()?;
        Ok(logged.ticket)
    }

    fn prepare(&mut self, global: GlobalTxnId) -> Result<()> {
        self.log_prepared(global)?;
        self.sync_prepared()
    }

    fn promised(&self) -> CommitTicket {
        self.shared.promised()
    }

    #[inline]
    fn transaction_bytes(&self) -> usize {
        self.transaction.as_ref().map_or(0, Transaction::bytes)
    }

    fn force(&mut self) -> Result<()> {
        if self.shared.is_poisoned() {
            return Err(self.shared.refusal());
        }
        self.shared.sync_log()
    }

    fn idle(&mut self) -> Result<&mut dyn Idle> {
        self.require(State::Idle)?;
        Ok(self)
    }

    fn sessions(&mut self) -> Option<&mut dyn Sessions> {
        Some(self)
    }
}

impl<P: Platform> Idle for Paged<P> {
    fn create_table(&mut self, def: &TableDef) -> Result<()> {
        self.define(|tables, pages, txn| tables.create_table(pages, def, txn))
    }

    fn drop_table(&mut self, table: TableId) -> Result<()> {
        self.define(|tables, pages, txn| tables.drop_table(pages, table, txn))?;
        self.free_dropped().map(|_| ())
    }

    fn create_index(&mut self, table: TableId, index: &IndexDef) -> Result<()> {
        self.define(|tables, pages, txn| tables.create_index(pages, table, index, txn))
    }

    fn drop_index(&mut self, table: TableId, index: IndexId) -> Result<()> {
        self.define(|tables, pages, txn| tables.drop_index(pages, table, index, txn))?;
        self.free_dropped().map(|_| ())
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.shared.write_checkpoint()
    }

    fn close(&mut self) -> Result<()> {
        self.alone(Mode::Exclusive, |session| {
            session.shared.write_checkpoint()?;
            session.shared.move_cold()?;
            let cleared = session.shared.pages.pool.file().clear_area();
            session.shared.durable_step(cleared)
        })
    }

    fn marks(&mut self) -> Option<&mut dyn Marks> {
        let has_archive = self.archive_watch().is_some();
        has_archive.then_some(self as _)
    }

    fn page_file(&mut self) -> Option<&mut dyn PageFile> {
        let is_in_file = self.shared.pages.pool.has_pages_in_file();
        is_in_file.then_some(self as _)
    }
}

impl<P: Platform> Sessions for Paged<P> {
    fn set_isolation(&mut self, isolation: Isolation, wait_limit: Duration) {
        self.locks.set_isolation(isolation, wait_limit);
    }

    fn set_precedence(&mut self, precedence: Precedence) {
        self.locks.set_precedence(precedence);
    }

    fn lock_owner(&self) -> LockOwner {
        self.locks.owner()
    }

    fn act_for(&mut self, owner: Option<LockOwner>) {
        self.locks.act_for(owner);
    }

    fn log_prepared(&mut self, global: GlobalTxnId) -> Result<()> {
        let _database = probe::begin(Activity::Database);
        self.require(State::Open)?;
        let Some(txn) = self.transaction.as_ref().filter(|txn| txn.is_logged) else {
            // Everything that it has read is durable before its other partitions commit.
            self.prepared = Lsn(self.shared.newest().0);
            return Ok(());
        };
        match self.shared.pages.prepare(txn, global) {
            Ok(lsn) => {
                self.prepared = lsn;
                Ok(())
            }
            Err(error) if error.is_statement_error() => {
                self.state = State::MustAbort;
                Err(error)
            }
            Err(error) => self.shared.durable_step(Err(error)),
        }
    }

    fn sync_prepared(&mut self) -> Result<()> {
        let _database = probe::begin(Activity::Database);
        self.require(State::Open)?;
        self.shared.sync_record(self.prepared)?;
        self.state = State::Prepared;
        Ok(())
    }

    fn session(&self) -> Result<Box<dyn Engine>> {
        Ok(Box::new(Self::new(Arc::clone(&self.shared))?))
    }

    fn assist(&mut self) -> Result<()> {
        let assisted = self.shared.pages.pool.log().persist_ahead();
        self.shared.durable_step(assisted)?;
        let assisted = self.shared.pages.pool.readers().write_back().assist();
        self.shared.durable_step(assisted)?;
        self.shared.undo_unfinished_step()?;
        self.shared.catch_up_step()?;
        self.shared.move_cold()
    }
}

impl<P: Platform> Marks for Paged<P> {
    fn mark(&mut self, number: GlobalTxnId) -> Result<()> {
        match self.shared.pages.mark(self.session, number) {
            Err(error) if error.is_statement_error() => return Err(error),
            marked => self.shared.durable_step(marked)?,
        };
        self.shared.checkpoint_ahead()
    }
}

impl<P: Platform> PageFile for Paged<P> {
    fn shrink(&mut self) -> Result<Shrunk> {
        self.shrink_file()
    }

    fn copy_pages(&mut self, visit: &mut VisitPage<'_>) -> Result<PagesBase> {
        self.alone(Mode::Exclusive, |session| {
            let shared = &*session.shared;
            shared.write_checkpoint()?;
            let next_txn = shared.next_txn().0;
            rebuild::copy(&shared.pages, next_txn, visit)
        })
    }
}

impl<P: Platform> Drop for Paged<P> {
    /// Leaves an open transaction to recovery, and stops the partition.
    fn drop(&mut self) {
        if self.state != State::Idle {
            let text = "a session has ended in the middle of a transaction";
            self.shared
                .stop(&StorageError::Unsupported(text.to_owned()));
        }
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
