//! The connection: begin, marks, the end, and the state that it holds between calls.
//!
//! Between calls it holds locks, a write set and a registered snapshot. Each read takes a session
//! slot of one partition for the time of the call, through a [`Session`] of its own.

use super::advisory::Advisory;
use super::change::Version;
use super::clock::{Purpose, View};
use super::interval::Interval;
use super::lists::{self, Lists};
use super::row_locks::{RowLock, Wait, lock_error};
use super::writes::{StatementSavepoint, WriteSet};
use crate::core::Core;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::lock_policy::LockPolicy;
use crate::options::Mode;
use crate::session::Session;
use crate::table::Table;
use std::fmt;
use std::sync::Arc;
use storage::StorageError;
use storage::engine::{Engine, Isolation};
use storage::lock::{Interrupt, LockSession, LockWait, Mode as TableLock, TableClaim};
use storage::record::{KeyBuf, TableId};

/// One client of a database: a transaction at a time, which may last over any number of calls.
///
/// Between calls it holds locks of rows, and never a partition: others go on, whatever it does. It
/// may move between threads. Reads never wait for writers. Dropping it undoes an open transaction.
///
/// A statement that fails has no effect. After an error that
/// [`Error::should_retry`] names, abort and run the transaction again, or roll back to a mark.
///
/// ```
/// # use indelible::{DataType, Database, Durability, Isolation, Options};
/// # fn main() -> indelible::Result<()> {
/// # let directory =
/// #     std::env::temp_dir().join(format!("indelible-connection-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&directory);
/// let db = Database::create(&directory, &Options::new())?;
/// let stock = db
///     .create_table("stock")
///     .column("item", DataType::Int64)
///     .column("pieces", DataType::Int64)
///     .primary_key(["item"])
///     .create()?;
/// let (mut clerk, mut report) = (db.connect()?, db.connect()?);
///
/// clerk.begin(Isolation::ReadCommitted)?;
/// clerk.insert(&stock, (1_i64, 10_i64))?;
/// let before_the_gift = clerk.statement()?;
/// clerk.insert(&stock, (2_i64, 1_i64))?;
/// clerk.roll_back_to(before_the_gift)?;
///
/// // The clerk is at lunch; nobody waits, and nobody sees what is not committed.
/// report.begin(Isolation::RepeatableRead)?;
/// assert_eq!(report.collect(&stock, ..)?.len(), 0);
///
/// clerk.commit(Durability::Immediate)?;
/// assert_eq!(report.collect(&stock, ..)?.len(), 0);
/// report.abort();
/// report.begin(Isolation::RepeatableRead)?;
/// assert_eq!(report.collect(&stock, ..)?.len(), 1);
/// # drop((clerk, report, stock, db));
/// # let _ = std::fs::remove_dir_all(&directory);
/// # Ok(())
/// # }
/// ```
pub struct Connection {
    pub(super) database: Database,
    /// Advisory locks, once there are any. Goes before the session that it acts for.
    advisory: Option<Box<Advisory>>,
    /// Taken out only when the connection is dropped.
    locks: Option<LockSession>,
    pub(super) interrupt: Interrupt,
    open: Option<Box<Open>>,
    /// The last transaction, whose memory the next one uses.
    spare: Option<Box<Open>>,
    /// Counts its transactions, from a number on that no other connection comes to.
    transactions: u64,
    /// How long a statement waits for a row that others have locked.
    pub(super) wait: Wait,
    /// Whether it may write to tables whose constraints SQL keeps.
    is_unchecked: bool,
}

/// The moment that the reads of a statement see.
#[must_use = "the statement goes on from the newest moment unless this one comes back"]
pub struct StatementMoment {
    view: Option<Arc<View>>,
    /// Reads that were noted before, if those since are not to be validated.
    reads: Option<usize>,
}

impl std::fmt::Debug for StatementMoment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatementMoment").finish_non_exhaustive()
    }
}

/// A moment that later statements of the transaction read again: that of a cursor.
pub struct KeptMoment {
    view: Option<Arc<View>>,
}

impl std::fmt::Debug for KeptMoment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptMoment").finish_non_exhaustive()
    }
}

/// The open transaction.
#[derive(Default)]
pub(super) struct Open {
    pub(super) isolation: Isolation,
    access: Mode,
    pub(super) writes: WriteSet,
    /// The snapshot: of the statement, if the isolation is read committed.
    pub(super) view: Option<Arc<View>>,
    /// The intervals that it has read, if it is serializable.
    pub(super) reads: Vec<Interval>,
    /// Partitions that it has read, ascending.
    pub(super) touched: Vec<u32>,
    /// The row that was locked and read last.
    pub(super) latest: Option<Latest>,
}

/// A committed row whose content the transaction has locked, so that it stays as it is: the change
/// of a row follows the look at it, and need not read it again.
pub(super) struct Latest {
    pub(super) table: TableId,
    pub(super) key: KeyBuf,
    pub(super) version: Version,
    /// The lock that it was read under.
    pub(super) strength: RowLock,
}

impl Open {
    /// Ends it, and keeps its memory.
    fn clear(&mut self) {
        if let Some(row) = self.latest.take().and_then(|latest| latest.version) {
            self.writes.pool.keep_row(row);
        }
        self.writes.clear();
        self.view = None;
        self.reads = Vec::new();
        self.touched.clear();
    }

    /// The reads that the commit has to validate. Ends the snapshot if there are none, so that no
    /// images are kept for it.
    pub(super) fn end_snapshot(&mut self) -> Option<(Arc<View>, Vec<Interval>)> {
        let view = self.view.take();
        if self.isolation != Isolation::Serializable {
            return None;
        }
        view.map(|view| (view, std::mem::take(&mut self.reads)))
    }
}

impl Database {
    /// Opens a connection. The first one waits until typed transactions that are open now have
    /// ended, as long as [`Options::wait_limit`](crate::Options::wait_limit) says.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] if a typed transaction stays open; [`Error::TransactionOpen`] if it is
    /// this thread's own; [`Error::TooManyConnections`] if
    /// [`Options::connections_max`](crate::Options::connections_max) are open.
    pub fn connect(&self) -> Result<Connection> {
        let core = &*self.core;
        core.check_process()?;
        core.shared.enter(core)?;
        let locks = core.shared.locks.session();
        Ok(Connection {
            interrupt: locks.interrupt(),
            locks: Some(locks),
            advisory: None,
            open: None,
            spare: None,
            transactions: core.shared.first_transaction(),
            wait: Wait::Limit(core.lock_policy.wait_limit),
            is_unchecked: false,
            database: self.clone(),
        })
    }

    /// The locks of tables that connections, and prepared transactions, hold or wait for now, by
    /// [`Connection::lock_owner`].
    pub fn table_claims(&self) -> Vec<TableClaim> {
        self.core.shared.locks.table_claims()
    }

    /// The connections that wait for locks of others now, by [`Connection::lock_owner`].
    pub fn lock_waits(&self) -> Vec<LockWait> {
        self.core.shared.locks.waits()
    }

    /// Rows as they were that are kept for snapshots of connections that live: one image at most
    /// for each changed row and snapshot, freed when the last snapshot that needs it ends. A row
    /// that was inserted counts, with an image that says so.
    pub fn snapshot_images(&self) -> u64 {
        self.core.shared.clock.images_count()
    }

    /// Bytes of memory that the images of [`Database::snapshot_images`] take.
    pub fn snapshot_bytes(&self) -> u64 {
        self.core.shared.clock.images_bytes()
    }
}

impl Connection {
    /// Begins a transaction that reads and writes.
    ///
    /// - [`Isolation::ReadCommitted`]: each statement has a snapshot, and changes find the newest
    ///   rows.
    /// - [`Isolation::RepeatableRead`]: all reads have one snapshot, which the first of them or
    ///   [`Connection::take_snapshot`] begins. Fails with [`Error::Serialization`] if a row that it
    ///   changes or locks has changed since.
    /// - [`Isolation::Serializable`]: the same, and the commit fails if anything that it has read
    ///   has changed since.
    ///
    /// # Errors
    ///
    /// [`Error::TransactionBegun`] if one is open.
    pub fn begin(&mut self, isolation: Isolation) -> Result<()> {
        self.begin_with(isolation, Mode::ReadWrite)
    }

    /// As [`Connection::begin`], with a choice of what the transaction may do. One that only reads
    /// never fails at commit.
    pub fn begin_with(&mut self, isolation: Isolation, access: Mode) -> Result<()> {
        self.core().check_process()?;
        if self.open.is_some() {
            return Err(Error::TransactionBegun);
        }
        self.transactions += 1;
        let precedence = self.core().precedence();
        self.locks().set_precedence(precedence);
        let mut open = self.spare.take().unwrap_or_default();
        open.isolation = isolation;
        open.access = access;
        self.open = Some(open);
        Ok(())
    }

    /// Gives the open transaction another isolation and access, before it has read or changed a
    /// row. Its locks stay.
    ///
    /// # Errors
    ///
    /// [`Error::NoTransaction`]; [`Error::TransactionBegun`] if it has read or changed rows.
    pub fn change_modes(&mut self, isolation: Isolation, access: Mode) -> Result<()> {
        let open = self.open()?;
        let has_read = open.view.is_some() || !open.reads.is_empty();
        if has_read || !open.writes.is_empty() {
            return Err(Error::TransactionBegun);
        }
        open.isolation = isolation;
        open.access = access;
        Ok(())
    }

    /// Begins a statement, and returns a mark for rolling back to this moment: a savepoint is one,
    /// and the mark of a failed statement of many rows. With read committed, reads from here on see
    /// what was committed until the first of them; a [`Scan`](crate::Scan) that is open keeps its
    /// own moment.
    pub fn statement(&mut self) -> Result<StatementSavepoint> {
        self.core().check_process()?;
        let open = self.open()?;
        if open.isolation == Isolation::ReadCommitted {
            open.view = None;
        }
        self.mark()
    }

    /// Lets the statement read the newest committed rows, with read committed, until
    /// [`Connection::return_to`] brings its own moment back.
    ///
    /// # Errors
    ///
    /// [`Error::NoTransaction`].
    pub fn leave_moment(&mut self) -> Result<StatementMoment> {
        self.core().check_process()?;
        let open = self.open()?;
        let is_newest = open.isolation == Isolation::ReadCommitted;
        Ok(StatementMoment {
            view: open.view.take_if(|_| is_newest),
            reads: None,
        })
    }

    /// As [`Connection::leave_moment`], and above read committed too: for rules that all rows keep,
    /// whatever a transaction sees.
    ///
    /// # Errors
    ///
    /// [`Error::NoTransaction`].
    pub fn leave_snapshot(&mut self) -> Result<StatementMoment> {
        self.core().check_process()?;
        Ok(StatementMoment {
            view: self.open()?.view.take(),
            reads: None,
        })
    }

    /// As [`Connection::leave_snapshot`], for reads of tables that the transaction has locked:
    /// nobody changes what they see before its end, so the commit of a serializable one does not
    /// validate them. What it has read before is validated.
    ///
    /// # Errors
    ///
    /// [`Error::NoTransaction`].
    pub fn leave_for_locked(&mut self) -> Result<StatementMoment> {
        let reads = Some(self.open()?.reads.len());
        let moment = self.leave_snapshot()?;
        Ok(StatementMoment { reads, ..moment })
    }

    /// The moment that the statement reads, which begins now unless it has begun. Its rows are kept
    /// as long as it is.
    ///
    /// # Errors
    ///
    /// [`Error::NoTransaction`].
    pub fn keep_moment(&mut self) -> Result<KeptMoment> {
        self.core().check_process()?;
        let view = Some(self.view()?);
        Ok(KeptMoment { view })
    }

    /// Changes the moment that the statement reads for a kept one, and keeps its own instead:
    /// another call brings that back.
    ///
    /// # Errors
    ///
    /// [`Error::NoTransaction`].
    pub fn swap_moment(&mut self, kept: &mut KeptMoment) -> Result<()> {
        std::mem::swap(&mut self.open()?.view, &mut kept.view);
        Ok(())
    }

    /// Goes back to the moment that the statement has left. A statement that had not read before
    /// goes on from the newest one.
    pub fn return_to(&mut self, moment: StatementMoment) {
        let Some(open) = &mut self.open else { return };
        if let Some(view) = moment.view {
            open.view = Some(view);
        }
        if let Some(reads) = moment.reads {
            open.reads.truncate(reads);
        }
    }

    /// Begins the snapshot of the statement, or of the transaction above read committed, unless it
    /// has begun. Without this call the first read begins it, so a statement that is to see the
    /// moment of its own beginning calls this first.
    ///
    /// # Errors
    ///
    /// [`Error::NoTransaction`].
    pub fn take_snapshot(&mut self) -> Result<()> {
        self.core().check_process()?;
        self.view().map(drop)
    }

    /// A mark of this moment, as [`Connection::statement`], in the midst of a statement.
    pub fn mark(&mut self) -> Result<StatementSavepoint> {
        let transaction = self.transactions;
        let locks = self.locks().savepoint();
        let advisory = self
            .advisory
            .as_ref()
            .map_or(0, |advisory| advisory.taken());
        Ok(self.open()?.writes.mark(transaction, locks, advisory))
    }

    /// Whether the open transaction has made a change since a mark, be it undone or not.
    pub fn has_changed_since(&mut self, mark: StatementSavepoint) -> bool {
        self.open()
            .is_ok_and(|open| open.writes.number() != mark.number)
    }

    /// Whether the open transaction has changed rows of a table.
    pub fn has_changed(&self, table: &Table) -> bool {
        let open = self.open.as_ref();
        let mut changes = open.into_iter().flat_map(|open| open.writes.changes());
        changes.any(|change| change.table.id() == table.id())
    }

    /// Forgets the changes since a mark, which stays, and gives the locks back that were taken
    /// since. Those of rows that [`Connection::insert_all`] has listed stay until the transaction
    /// ends.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchSavepoint`], and then nothing is forgotten, if the mark is of another
    /// transaction, or of a part that was rolled back.
    pub fn roll_back_to(&mut self, mark: StatementSavepoint) -> Result<()> {
        let transaction = self.transactions;
        let open = self.open()?;
        if mark.transaction != transaction || !open.writes.roll_back_to(mark) {
            return Err(Error::NoSuchSavepoint);
        }
        // Others may change the row from now on.
        open.latest = None;
        lists::release_since(self.locks(), mark.locks);
        if let Some(advisory) = &mut self.advisory {
            advisory.release_since(mark.advisory);
        }
        Ok(())
    }

    /// Undoes the transaction, if one is open, and gives its locks back.
    pub fn abort(&mut self) {
        if self.core().process.is_here()
            && let Some(open) = self.open.take()
        {
            self.end_locks();
            self.keep(open);
        }
    }

    /// Keeps the memory of a transaction that has ended.
    pub(super) fn keep(&mut self, mut open: Box<Open>) {
        open.clear();
        self.spare = Some(open);
    }

    /// Whether a transaction is open.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Locks a table for the transaction. Rows that it locks later in a mode that this one covers
    /// cost no lock of their own.
    ///
    /// # Errors
    ///
    /// `LockTimeout` if others have the table, or rows of it, for longer than `wait`; `Deadlock`.
    pub fn lock_table(&mut self, table: &Table, mode: TableLock, wait: Wait) -> Result<()> {
        let id = table.check(self.core().serial)?.id;
        self.begin_statement()?;
        let locks = self.locks();
        locks.set_wait_limit(wait.limit());
        locks.lock_table(id, mode).map_err(lock_error)
    }

    /// Sets how long statements wait for rows that others have locked. Default:
    /// [`Options::wait_limit`](crate::Options::wait_limit).
    pub fn set_wait(&mut self, wait: Wait) {
        self.wait = wait;
    }

    /// Lets it write to tables whose constraints SQL keeps, for a caller that keeps them itself; as
    /// [`TransactionOptions::unchecked`](crate::TransactionOptions::unchecked).
    pub fn set_unchecked(&mut self, unchecked: bool) {
        self.is_unchecked = unchecked;
    }

    /// Ends this connection's waits and scans from any thread, while it is raised: they fail with
    /// `Interrupted`, which has no effect on the transaction. A commit is not interrupted.
    pub fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// The number by which [`Database::lock_waits`] knows the connection. It has another one after
    /// [`Connection::prepare`].
    pub fn lock_owner(&self) -> u32 {
        let locks = self.locks.as_ref();
        let locks = locks.expect("only the drop of the connection takes them out");
        locks.owner().number()
    }

    pub(super) fn core(&self) -> &Core {
        &self.database.core
    }

    pub(super) fn open(&mut self) -> Result<&mut Open> {
        // Made only where it is needed: each operation comes here several times.
        self.open.as_deref_mut().ok_or_else(|| Error::NoTransaction)
    }

    pub(super) fn take_open(&mut self) -> Result<Box<Open>> {
        self.open.take().ok_or_else(|| Error::NoTransaction)
    }

    pub(super) fn locks(&mut self) -> &mut LockSession {
        let locks = self.locks.as_mut();
        locks.expect("only the drop of the connection takes them out")
    }

    /// The session of the transaction's locks, and the lists of rows that stand beside it.
    pub(super) fn locks_and_lists(&mut self) -> (&mut LockSession, &Lists) {
        let locks = self.locks.as_mut();
        let locks = locks.expect("only the drop of the connection takes them out");
        (locks, &self.database.core.shared.lists)
    }

    /// Gives the transaction's locks back.
    pub(super) fn end_locks(&mut self) {
        let (_, end) = self.core_and_end();
        end();
    }

    /// The core, and the step that gives the transaction's locks back.
    pub(super) fn core_and_end(&mut self) -> (&Core, impl FnOnce()) {
        let Self {
            database,
            locks,
            advisory,
            ..
        } = self;
        let locks = locks.as_mut();
        let locks = locks.expect("only the drop of the connection takes them out");
        let lists = &database.core.shared.lists;
        let end = move || {
            lists.end(locks);
            locks.end();
            if let Some(advisory) = advisory {
                advisory.release_since(0);
            }
        };
        (&database.core, end)
    }

    /// The locks of the transaction, whose place an empty session takes.
    pub(super) fn take_locks(&mut self) -> LockSession {
        let successor = self.locks().successor();
        if let Some(advisory) = &mut self.advisory {
            advisory.act_for(&successor);
        }
        let locks = self.locks.replace(successor);
        locks.expect("only the drop of the connection takes them out")
    }

    /// Whether advisory locks end with the transaction.
    pub(super) fn has_advisory_locks(&self) -> bool {
        let advisory = self.advisory.as_ref();
        advisory.is_some_and(|advisory| advisory.has_of_transaction())
    }

    /// The session of the transaction's locks, and the advisory locks.
    pub(super) fn lock_sessions(&mut self) -> (&LockSession, &mut Option<Box<Advisory>>) {
        let locks = self.locks.as_ref();
        let locks = locks.expect("only the drop of the connection takes them out");
        (locks, &mut self.advisory)
    }

    /// The number of the open transaction.
    pub(super) fn transaction(&self) -> u64 {
        self.transactions
    }

    pub(super) fn check_interrupt(&self) -> Result<()> {
        self.core().check_process()?;
        if self.interrupt.is_raised() {
            return Err(StorageError::Interrupted.into());
        }
        Ok(())
    }

    /// To be called by each operation first: fails without a transaction or if interrupted.
    pub(super) fn begin_statement(&mut self) -> Result<()> {
        self.check_interrupt()?;
        self.open().map(drop)
    }

    /// As [`Connection::begin_statement`], for a change of rows of a table.
    pub(super) fn begin_change(&mut self, table: &Table) -> Result<()> {
        self.begin_statement()?;
        if table.check(self.core().serial)?.is_managed && !self.is_unchecked {
            let table = table.name().to_owned();
            return Err(Error::Managed { table });
        }
        if self.core().is_read_only() {
            return Err(Error::ReadOnly);
        }
        let limit_bytes = self.core().memory_max;
        let unique_made = self.core().shared.unique_made();
        let open = self.open()?;
        if open.access == Mode::ReadOnly {
            return Err(Error::ReadOnly);
        }
        if open.writes.is_empty() {
            open.writes.set_unique_made(unique_made);
        }
        let used_bytes = open.writes.bytes();
        if used_bytes > limit_bytes {
            return Err(Error::TransactionMemory {
                used_bytes,
                limit_bytes,
            });
        }
        Ok(())
    }

    /// The snapshot that reads see, registered by the first of them.
    pub(super) fn view(&mut self) -> Result<Arc<View>> {
        let clock = &self.database.core.shared.clock;
        let open = self.open.as_mut().ok_or_else(|| Error::NoTransaction)?;
        let is_validated =
            open.isolation == Isolation::Serializable && open.access == Mode::ReadWrite;
        let purpose = if is_validated {
            Purpose::Validating
        } else {
            Purpose::Reading
        };
        let view = open
            .view
            .get_or_insert_with(|| Arc::new(clock.view(purpose)));
        Ok(Arc::clone(view))
    }

    /// The snapshot, if it has begun.
    pub(super) fn known_view(&mut self) -> Result<Option<Arc<View>>> {
        Ok(self.open()?.view.clone())
    }

    /// The snapshot that changes must find unchanged, unless the isolation is read committed.
    pub(super) fn strict_view(&mut self) -> Result<Option<Arc<View>>> {
        match self.open()?.isolation {
            Isolation::ReadCommitted => Ok(None),
            Isolation::RepeatableRead | Isolation::Serializable => self.view().map(Some),
        }
    }

    /// Notes what a serializable transaction has read; the note's number, if one was made.
    pub(super) fn note_read(
        &mut self,
        interval: impl FnOnce() -> Interval,
    ) -> Result<Option<usize>> {
        let limit_bytes = self.core().memory_max;
        let open = self.open()?;
        if open.isolation != Isolation::Serializable || open.access == Mode::ReadOnly {
            return Ok(None);
        }
        let used_bytes = (open.reads.len() * size_of::<Interval>()) as u64;
        if used_bytes > limit_bytes {
            return Err(Error::TransactionMemory {
                used_bytes,
                limit_bytes,
            });
        }
        open.reads.push(interval());
        Ok(Some(open.reads.len() - 1))
    }

    /// Notes that the transaction has seen something of a partition.
    pub(super) fn touch(&mut self, partition: u32) -> Result<()> {
        let touched = &mut self.open()?.touched;
        if let Err(at) = touched.binary_search(&partition) {
            touched.insert(at, partition);
        }
        Ok(())
    }

    /// Reads in a partition, while holding a session slot of it for the time of the call.
    pub(super) fn read_in<R>(
        &mut self,
        partition: u32,
        read: impl FnOnce(&mut dyn Engine) -> Result<R>,
    ) -> Result<R> {
        self.touch(partition)?;
        let mut session = Session::of_connection(self.core(), self.policy())?;
        session.interrupt = Some(&self.interrupt);
        let value = read(session.engine(partition)?)?;
        session.end_reading()?;
        Ok(value)
    }

    /// The engine isolates its own short transactions; a connection's reads and changes need no
    /// more of it than that they are not torn.
    pub(super) fn policy(&self) -> LockPolicy {
        LockPolicy {
            isolation: Isolation::ReadCommitted,
            ..self.core().lock_policy
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.core().process.is_here() {
            self.open = None;
            self.end_locks();
            self.advisory = None;
            self.locks = None;
            self.core().shared.leave();
        } else {
            // Mutexes of the parent's may be locked for ever in a forked child.
            std::mem::forget((self.open.take(), self.advisory.take(), self.locks.take()));
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("database", &self.database)
            .field("is_open", &self.is_open())
            .finish_non_exhaustive()
    }
}
