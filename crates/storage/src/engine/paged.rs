//! The page engine: trees of slotted pages in a file, behind a buffer pool, with a log in front.
//!
//! | when | what is written |
//! |---|---|
//! | operation | a log record with what changed and how it is undone; then the pages, in the pool |
//! | commit | a commit record; one sync of the log for its group |
//! | prepare | a record, and a sync |
//! | abort | a compensation record for each change, and their pages, in the pool |
//! | a frame is needed | dirty pages, after the log up to their last changes; through the guard |
//! | checkpoint | all dirty pages, a sync, the master record, a sync; then the log in front of it goes |
//! | recovery | the pages that the log has, what is undone, and a checkpoint |
//!
//! Steal and no-force: a page may be written before its transaction commits, and need not be when it does. After ARIES (Mohan et al., TODS
//! 1992). The methods differ in what protects a write of a page that a power cut tears: `full-page-writes` logs a page whole when it changes
//! first after a checkpoint, `dwb` writes it to an area of its own
//! first, and `dwb-off` trusts the device to write pages whole.

use super::{
    CommitTicket, Decide, Durability, Engine, EngineOptions, EngineStatus, Footprint, GlobalTxnId,
    ScanRange, VerifyReport,
};
use crate::buffer::file::first_page;
use crate::buffer::{Guard, Master, PageFile, PageFileOptions, PageLog, Pool};
use crate::error::{Result, StorageError};
use crate::log::{
    Due, GroupCommit, GroupCommitOptions, LogIdentity, LogStart, WalOptions, has_needless,
};
use crate::page::{PAGE_BYTES, PageId, TxnId, header};
use crate::paged::recovery::Analysis;
use crate::paged::tables::{CATALOGUE_KEY_WORDS, Tables};
use crate::paged::{Pages, Transaction, Tree, space};
use crate::platform::Platform;
use crate::record::{Changes, IndexDef, IndexId, KeyBuf, Row, TableDef, TableId};
use crate::table::Table;
use disk::DiskError;
use pmem::Access;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Segments are a fraction of the log's limit, so that a small limit has small files; but what a rollback may need of one is kept free, and
/// is a fraction of this many pages.
const SEGMENT_PAGES_MIN: u64 = 128;

/// One partition of the page engine.
pub struct Paged<P: Platform> {
    pages: Pages<P::Files>,
    tables: Tables,
    group: GroupCommit,
    state: State,
    transaction: Option<Transaction>,
    next_txn: u64,
    catalogue: PageId,
    log_bytes_max: u64,
    replayed: u64,
    undone: u64,
}

/// What the engine may do next.
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

fn identity(options: &EngineOptions) -> LogIdentity {
    LogIdentity {
        database: options.database_id,
        partition: options.partition,
    }
}

fn wal_options(options: &EngineOptions) -> WalOptions {
    let usual = WalOptions::default();
    let share = (options.checkpoint_log_bytes / 4).next_multiple_of(4096);
    WalOptions {
        segment_bytes: share
            .min(usual.segment_bytes)
            .max(SEGMENT_PAGES_MIN * u64::from(options.page_bytes)),
        ..usual
    }
}

fn file_options(options: &EngineOptions, guard: Guard) -> PageFileOptions {
    PageFileOptions {
        identity: identity(options),
        access: options.access,
        guard,
    }
}

fn group(options: &EngineOptions, ticket: CommitTicket) -> GroupCommit {
    let group = GroupCommitOptions {
        transactions_max: options.group_transactions_max,
        wait_us_max: options.group_wait_us_max,
    };
    GroupCommit::new(group, ticket)
}

/// A new file's pages: the first map of space, and the root of an empty catalogue.
fn first_pages(page_bytes: usize) -> Result<(Vec<Vec<u8>>, PageId)> {
    let map = first_page(page_bytes);
    let catalogue = PageId(map.0 + 1);
    let tree = Tree {
        root: catalogue,
        key_words: CATALOGUE_KEY_WORDS,
    };
    let mut root = vec![0; page_bytes];
    let too_small = |_| StorageError::Unsupported("the pages are too small".to_owned());
    tree.format_root()
        .apply(&mut root, catalogue)
        .map_err(too_small)?;
    let mut pages = vec![space::first_map(page_bytes, catalogue.0 + 1)?, root];
    for page in &mut pages {
        header::seal(page);
    }
    Ok((pages, catalogue))
}

impl<P: Platform> Paged<P> {
    /// Makes the files of a partition.
    pub fn create(platform: &P, options: &EngineOptions, guard: Guard) -> Result<Self> {
        let page_bytes = options.page_bytes;
        if !PAGE_BYTES.contains(&page_bytes) || !page_bytes.is_power_of_two() {
            let (least, most) = (PAGE_BYTES.start(), PAGE_BYTES.end());
            return Err(StorageError::Unsupported(format!(
                "pages of {page_bytes} bytes: a page has a power of two from {least} to {most}"
            )));
        }
        let (pages, catalogue) = first_pages(page_bytes as usize)?;
        let master = Master {
            generation: 0,
            page_bytes,
            guard: guard.code(),
            start: LogStart::NEW,
            ticket: CommitTicket(0),
            next_txn: 1,
            catalogue,
            pages: 0,
        };
        let files = platform.files(options.partition)?;
        let file = PageFile::create(&files, &file_options(options, guard), master, &pages)?;
        Self::start(files, options, file, &|_| false)
    }

    /// Opens a partition and recovers it.
    pub fn open(
        platform: &P,
        options: &EngineOptions,
        guard: Guard,
        decide: Decide<'_>,
    ) -> Result<Self> {
        let files = platform.files(options.partition)?;
        let mut file = PageFile::open(&files, &file_options(options, guard))?;
        if options.access == Access::Write {
            let start = file.master().start;
            file.secure_master(has_needless(&files, identity(options), start)?)?;
        }
        file.repair(options.access)?;
        Self::start(files, options, file, decide)
    }

    fn start(
        files: P::Files,
        options: &EngineOptions,
        file: PageFile<P::Files>,
        decide: Decide<'_>,
    ) -> Result<Self> {
        let master = file.master();
        let name = file.name().to_owned();
        let mut analysis = Analysis {
            ticket: master.ticket,
            next_txn: master.next_txn,
            ..Analysis::default()
        };
        let log = PageLog::open(
            options.access,
            files,
            identity(options),
            wal_options(options),
            master.start,
            &mut |lsn, bytes| {
                analysis
                    .record(bytes)
                    .map_err(|error| StorageError::DamagedFile {
                        file: format!("p{}.wal", options.partition),
                        offset: lsn.0,
                        detail: error.to_string(),
                    })
            },
        )?;
        let is_found = analysis.records > 0;
        if is_found && options.access == Access::Read {
            return Err(StorageError::NeedsRecovery(name));
        }
        let images = file.guard() == Guard::FullPageWrites;
        let pool = Pool::new(file, log, options.buffer_bytes);
        let pages = Pages::new(pool, options.page_cells_max);
        if is_found {
            pages
                .pool
                .log()
                .replay(&mut |lsn, bytes| pages.redo(lsn, bytes))?;
        }
        if images {
            pages.pool.log().image_from(master.start.lsn);
        }
        let (replayed, next_txn) = (analysis.commits, analysis.next_txn);
        let (ticket, undone) = pages.finish(analysis, decide)?;
        let mut engine = Self {
            tables: Tables::open(&pages, master.catalogue)?,
            pages,
            group: group(options, ticket),
            state: State::Idle,
            transaction: None,
            next_txn,
            catalogue: master.catalogue,
            log_bytes_max: options.checkpoint_log_bytes,
            replayed,
            undone,
        };
        if is_found {
            engine.write_checkpoint()?;
            engine.pages.pool.file().clear_area()?;
        }
        Ok(engine)
    }

    fn require(&self, state: State) -> Result<()> {
        if self.state == state {
            return Ok(());
        }
        let refuse = |text: &str| StorageError::Unsupported(text.to_owned());
        Err(match self.state {
            State::Poisoned => StorageError::Poisoned,
            State::MustAbort => refuse("an operation failed half-way; abort the transaction"),
            State::Prepared => refuse("the transaction is prepared; commit or abort it"),
            State::Idle => refuse("no transaction is open"),
            State::Open => refuse("a transaction is open already"),
        })
    }

    /// Remembers that a durable step failed, after which memory and files may differ. What would be an error of one statement elsewhere is
    /// none here: the transaction may be committed.
    fn durable_step<T>(&mut self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            self.state = State::Poisoned;
            if error.is_statement_error() {
                StorageError::Poisoned
            } else {
                error
            }
        })
    }

    /// Runs one operation. If it fails without damage its traces are undone and the transaction goes on. On a full disk a checkpoint may
    /// give the log's space back, if the transaction has not changed anything before.
    #[inline]
    fn operate<T>(
        &mut self,
        operation: impl Fn(&mut Tables, &Pages<P::Files>, &mut Transaction) -> Result<T>,
    ) -> Result<T> {
        match self.operate_once(&operation) {
            Err(StorageError::Disk(DiskError::OutOfSpace { .. })) if self.has_changed_nothing() => {
                self.write_checkpoint()?;
                // What it had tried is undone, and in front of the checkpoint.
                if let Some(txn) = &mut self.transaction {
                    txn.is_logged = false;
                }
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
        self.state == State::Open && self.transaction.as_ref().is_some_and(untouched)
    }

    fn operate_once<T>(
        &mut self,
        operation: &impl Fn(&mut Tables, &Pages<P::Files>, &mut Transaction) -> Result<T>,
    ) -> Result<T> {
        self.require(State::Open)?;
        let Some(txn) = &mut self.transaction else {
            return Err(StorageError::Poisoned);
        };
        let mark = txn.mark();
        let error = match operation(&mut self.tables, &self.pages, txn) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        self.state = State::MustAbort;
        if error.is_statement_error() && self.pages.rollback(txn, mark).is_ok() {
            self.state = State::Open;
        }
        Err(error)
    }

    /// Runs a change of definitions as a transaction of its own. If it fails, the definitions are read again.
    fn define(
        &mut self,
        change: impl Fn(&mut Tables, &Pages<P::Files>, &mut Transaction) -> Result<()>,
    ) -> Result<()> {
        self.begin()?;
        let result = self
            .operate(change)
            .and_then(|()| self.commit(Durability::Immediate).map(|_| ()));
        if result.is_err() && self.state != State::Poisoned {
            self.abort()?;
            self.tables.reload(&self.pages)?;
        }
        result
    }

    /// Ends the transaction; its group goes on or ends.
    fn join(&mut self, durability: Durability, wrote: bool) -> Result<CommitTicket> {
        self.transaction = None;
        self.state = State::Idle;
        let due = if wrote {
            self.group.join(durability)
        } else {
            self.group.wait(durability)
        };
        if due == Due::Now {
            self.sync_log()?;
        }
        Ok(self.group.newest())
    }

    fn sync_log(&mut self) -> Result<()> {
        let result = self.pages.pool.log().flush();
        self.durable_step(result)?;
        self.group.synced();
        Ok(())
    }

    fn checkpoint_if_due(&mut self) -> Result<()> {
        if self.pages.pool.log().live_bytes() >= self.log_bytes_max {
            self.write_checkpoint()?;
        }
        Ok(())
    }

    /// Writes all dirty pages and lets recovery begin here.
    fn write_checkpoint(&mut self) -> Result<()> {
        let result = self.try_checkpoint();
        self.durable_step(result)
    }

    fn try_checkpoint(&mut self) -> Result<()> {
        let pool = &self.pages.pool;
        let start = pool.log().begin_checkpoint()?;
        self.group.synced();
        let old = pool.file().master();
        if old.start == start {
            return Ok(());
        }
        pool.write_all()?;
        pool.file().checkpoint(Master {
            start,
            ticket: self.group.newest(),
            next_txn: self.next_txn,
            catalogue: self.catalogue,
            ..old
        })?;
        pool.log().end_checkpoint(start)
    }
}

impl<P: Platform> Engine for Paged<P> {
    fn tables(&self) -> Vec<Arc<Table>> {
        self.tables.tables()
    }

    fn create_table(&mut self, def: &TableDef) -> Result<()> {
        self.define(|tables, pages, txn| tables.create_table(pages, def, txn))
    }

    fn drop_table(&mut self, table: TableId) -> Result<()> {
        self.define(|tables, pages, txn| tables.drop_table(pages, table, txn))
    }

    fn create_index(&mut self, table: TableId, index: &IndexDef) -> Result<()> {
        self.define(|tables, pages, txn| tables.create_index(pages, table, index, txn))
    }

    fn drop_index(&mut self, table: TableId, index: IndexId) -> Result<()> {
        self.define(|tables, pages, txn| tables.drop_index(pages, table, index, txn))
    }

    #[inline]
    fn begin(&mut self) -> Result<()> {
        self.require(State::Idle)?;
        self.transaction = Some(Transaction::new(TxnId(self.next_txn)));
        self.next_txn += 1;
        self.state = State::Open;
        Ok(())
    }

    #[inline]
    fn get(&mut self, table: TableId, key: &[u64], row: &mut Row) -> Result<bool> {
        self.require(State::Open)?;
        self.tables.get(&self.pages, table, key, row)
    }

    fn get_many(
        &mut self,
        table: TableId,
        keys: &[KeyBuf],
        visit: &mut dyn FnMut(usize, Option<&Row>),
    ) -> Result<()> {
        self.require(State::Open)?;
        self.tables.get_many(&self.pages, table, keys, visit)
    }

    fn scan(
        &mut self,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        self.require(State::Open)?;
        self.tables.scan(&self.pages, range, visit)
    }

    fn insert(&mut self, table: TableId, row: &Row) -> Result<()> {
        self.operate(|tables, pages, txn| tables.insert(pages, table, row, txn))
    }

    fn update(&mut self, table: TableId, key: &[u64], changes: &Changes) -> Result<bool> {
        self.operate(|tables, pages, txn| tables.update(pages, table, key, changes, txn))
    }

    fn delete(&mut self, table: TableId, key: &[u64]) -> Result<bool> {
        self.operate(|tables, pages, txn| tables.delete(pages, table, key, txn))
    }

    #[inline]
    fn commit(&mut self, durability: Durability) -> Result<CommitTicket> {
        if self.state != State::Prepared {
            self.require(State::Open)?;
        }
        let Some(txn) = &self.transaction else {
            return Err(StorageError::Poisoned);
        };
        if !txn.is_logged {
            return self.join(durability, false);
        }
        let id = txn.id;
        let frees = match self.pages.commit(txn, self.group.next()) {
            Ok(frees) => frees,
            Err(error) => {
                if error.is_statement_error() && self.state == State::Open {
                    self.state = State::MustAbort;
                    return Err(error);
                }
                return self.durable_step(Err(error));
            }
        };
        let released = self.pages.free(id, &frees);
        self.durable_step(released)?;
        let ticket = self.join(durability, true)?;
        self.checkpoint_if_due()?;
        Ok(ticket)
    }

    fn prepare(&mut self, global: GlobalTxnId) -> Result<()> {
        self.require(State::Open)?;
        if let Some(txn) = self.transaction.as_ref().filter(|txn| txn.is_logged)
            && let Err(error) = self.pages.prepare(txn, global)
        {
            self.state = if error.is_statement_error() {
                State::MustAbort
            } else {
                State::Poisoned
            };
            return Err(error);
        }
        self.sync_log()?;
        self.state = State::Prepared;
        Ok(())
    }

    fn abort(&mut self) -> Result<()> {
        if !matches!(self.state, State::MustAbort | State::Prepared) {
            self.require(State::Open)?;
        }
        if let Some(txn) = self.transaction.take() {
            let undone = self.pages.undo(txn);
            self.durable_step(undone)?;
        }
        self.state = State::Idle;
        self.checkpoint_if_due()
    }

    fn durable(&self) -> CommitTicket {
        self.group.durable()
    }

    fn force(&mut self) -> Result<()> {
        if self.state == State::Poisoned {
            return Err(StorageError::Poisoned);
        }
        self.sync_log()
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.require(State::Idle)?;
        self.write_checkpoint()
    }

    fn close(&mut self) -> Result<()> {
        self.require(State::Idle)?;
        self.write_checkpoint()?;
        let cleared = self.pages.pool.file().clear_area();
        self.durable_step(cleared)
    }

    fn footprint(&mut self) -> Result<Footprint> {
        self.tables.footprint(&self.pages)
    }

    fn status(&self) -> EngineStatus {
        EngineStatus {
            disk: self.pages.pool.log().counters(),
            recovery_undone: self.undone,
            recovery_replayed: self.replayed,
            ..EngineStatus::default()
        }
    }

    fn verify(&mut self) -> Result<VerifyReport> {
        self.require(State::Idle)?;
        let written = self.pages.pool.write_all();
        self.durable_step(written)?;
        let mut report = self.tables.verify(&self.pages)?;
        if let Err(error) = self.pages.pool.log().verify() {
            report.damage.push(error.to_string());
        }
        Ok(report)
    }
}

impl<P: Platform> Drop for Paged<P> {
    /// Ends the last group in order. What could not be written is not acknowledged either, so a failure here loses nothing.
    fn drop(&mut self) {
        let log = self.pages.pool.log();
        if !std::thread::panicking() && self.state == State::Idle && !log.is_poisoned() {
            let _ = log.close();
        }
    }
}

#[cfg(test)]
#[path = "paged_tests.rs"]
mod tests;
