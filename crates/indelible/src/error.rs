//! Errors of a database, in sentences that name the remedy.
//!
//! One enum for the room. [`Error::advice`] says for each variant whether the transaction is worth
//! another try, whether it is the call that has to change, or whether the database must be closed.
//! No variant is ever returned for a transaction that may have committed, except where its text
//! says so.

use crate::holder::Holder;
use crate::limits::ProcessLimit;
use disk::DiskError;
use pmem::PmemError;
use std::path::{Path, PathBuf};
use storage::engine::Method;
use storage::record::{RecordError, SchemaError};
use storage::{DuplicateKey, StorageError};

/// The result of a fallible operation of this room.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Errors of a database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing at the path. Create the database, or correct the path.
    #[error("there is no database at {path}: the directory does not exist; create \
        it first, or correct the path", path = .path.display())]
    Missing {
        /// The requested directory.
        path: PathBuf,
    },
    /// The separate directory of the log is missing. Without the log the last transactions are
    /// lost: mount or bring back the directory; if it has moved, point the link to it.
    #[error("the log of the database is not at {path}, where the link {link} leads: mount what is missing, make the link \
        lead to where the log is now, or restore the database from a backup", path = .path.display(), link = .link.display())]
    MissingLog {
        /// The place of the log.
        path: PathBuf,
        /// The link that names it.
        link: PathBuf,
    },
    /// The archive of the log is not where the database's link points. Mount its directory; if it
    /// has moved, point the link to it.
    #[error("the archive of the log is not at {path}, where the link {link} leads: mount what is missing, make the link \
        lead to where the archive is now, or move the link away to go on without one, which leaves a gap in the archive", path = .path.display(), link = .link.display())]
    MissingArchive {
        /// The place of the archive.
        path: PathBuf,
        /// The link that names it.
        link: PathBuf,
    },
    /// The directory is a copy of a database, without its log or archive: the link leads to those
    /// of the original. Copy them too, and let the link lead to the copy.
    #[error("the link {link} leads to {path}, which belongs to another database, {owner}: a copied directory has the links \
        of the original; copy {path} as well, and make the link lead to the copy",
        path = .path.display(), owner = .owner.display(), link = .link.display())]
    LogOfAnother {
        /// The directory of the log or the archive.
        path: Box<Path>,
        /// The database that it belongs to.
        owner: Box<Path>,
        /// The link that leads there.
        link: Box<Path>,
    },
    /// The directory is not empty, so no database can be created there. Open it, or choose an empty
    /// directory.
    #[error("{path} is not empty; open the database that is there, or choose a new \
        directory", path = .path.display())]
    Occupied {
        /// The requested directory.
        path: PathBuf,
    },
    /// The directory has the log of another database, or of one that was not completed because its
    /// process was killed. Choose an empty directory.
    #[error("{path} is not empty: it has the log of {owner}; choose another directory for the log",
        path = .path.display(), owner = .owner.display())]
    OccupiedLog {
        /// The requested directory.
        path: PathBuf,
        /// The database.
        owner: PathBuf,
    },
    /// The path cannot be given to a new database. Choose another one.
    #[error("a new database cannot take the place of {path}, which is {kind}; {remedy}", path = .path.display())]
    FixedPlace {
        /// The requested directory.
        path: PathBuf,
        /// The object that is there.
        kind: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// The path names something else than a database. Correct the path.
    #[error("{path} is not a database: {reason}", path = .path.display())]
    NotADatabase {
        /// The requested path.
        path: PathBuf,
        /// The content found there, and the remedy.
        reason: String,
    },
    /// The creation of the database was interrupted, so it holds no data. Create it again.
    #[error(
        "the creation of the database was interrupted, so it holds no data; create it again, which replaces its files ({files})"
    )]
    Incomplete {
        /// The files that are there.
        files: String,
    },
    /// Partitions are there without the descriptor, which describes them: it was lost, or the
    /// creation of the database was interrupted. Put the descriptor back, repair the database, or
    /// restore it from a backup; keep the files until then.
    #[error(
        "the descriptor `indelible.db` is missing, but files of the database are there ({files}) and may hold data: keep them, \
         and put the descriptor back, rebuild it with `indelible repair`, or restore the database from a backup"
    )]
    NoDescriptor {
        /// The files that are there.
        files: String,
    },
    /// The database was written by a newer version. Use that version.
    #[error(
        "the database has format version {found}, this program reads up to \
            {supported}; use a newer program"
    )]
    NewerVersion {
        /// Version in the descriptor.
        found: u32,
        /// Newest version that this build reads.
        supported: u32,
    },
    /// The database was written on a machine with another byte order. Dump it there and load it
    /// here.
    #[error(
        "the database was written on a big-endian machine and this one is little-endian; \
         dump it there and load the dump here"
    )]
    OtherEndian,
    /// The descriptor is damaged. Repair the database, or restore it from a backup.
    #[error(
        "the descriptor `indelible.db` is damaged: {detail}; rebuild it with `indelible repair`, or restore the database from a backup"
    )]
    DamagedDescriptor {
        /// Expected and found.
        detail: String,
    },
    /// The missing or damaged files cannot be derived from the others. Nothing was changed.
    #[error("the database cannot be repaired, and nothing was changed: {reason}")]
    Irreparable {
        /// The obstacle, and the information or file that is needed.
        reason: String,
    },
    /// The file is not a backup of a database. Give one that `backup` wrote.
    #[error("this is not a backup of a database; give a file that `backup` wrote")]
    NotABackup,
    /// The backup was written by a newer version. Use that version. Nothing was restored.
    #[error(
        "the backup has format version {found}, this program reads up to {supported}; use a newer program"
    )]
    NewerBackup {
        /// Version in the file.
        found: u32,
        /// Newest version that this build reads.
        supported: u32,
    },
    /// The backup is damaged or was cut off. Use another one. Nothing was restored.
    #[error("the backup is damaged: {detail}; nothing was restored, use another backup")]
    DamagedBackup {
        /// The damage found.
        detail: String,
    },
    /// The file is not a trace of a database. Give one that `record_trace` or `bench --record`
    /// wrote.
    #[error(
        "this is not a trace of a database; give a file that `bench --record` or `record_trace` wrote"
    )]
    NotATrace,
    /// The trace was written by a newer version. Use that version.
    #[error(
        "the trace has format version {found}, this program reads up to {supported}; use a newer program"
    )]
    NewerTrace {
        /// Version in the file.
        found: u32,
        /// Newest version that this build reads.
        supported: u32,
    },
    /// The trace is damaged, was cut off, or its recording did not end. Record it again.
    #[error("the trace is damaged: {detail}; record it again")]
    DamagedTrace {
        /// The damage found.
        detail: String,
    },
    /// Rows of the database are damaged, and a copy would have other values without a word. Nothing
    /// was copied. Restore a backup; rows that are whole can still be read.
    #[error(
        "the database is damaged: {detail}{}; nothing was copied: `indelible verify` lists the damage; \
         restore a backup",
        if *more == 0 { String::new() } else { format!(", and {more} more") }
    )]
    Damaged {
        /// Expected and found, of the first damage.
        detail: String,
        /// Further damage.
        more: usize,
    },
    /// A copy of a database was read back and differs from its source. It was removed; look for a
    /// failing medium.
    #[error(
        "the copy differs from its source: {detail}; it was removed, look for a failing medium"
    )]
    CopyDiffers {
        /// Expected and found.
        detail: String,
    },
    /// Another opener, in this process or another, has the database: a writer, or readers if it was
    /// to be opened for writing. Retry after they have closed it.
    #[error("the database at {path} is in use{by}; close it there first", path = .path.display(),
        by = .holder.as_ref().map_or_else(|| " by another process".to_owned(), |holder| format!(" by {holder}")))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that has it open, if that can be found out.
        holder: Option<Box<Holder>>,
    },
    /// An option has a value that cannot be used. Change the call.
    #[error("option `{option}`: {problem}; {remedy}")]
    Option {
        /// The option's name.
        option: &'static str,
        /// The fault of its value.
        problem: Box<str>,
        /// A valid choice.
        remedy: Box<str>,
    },
    /// The operating system allows this process less than the database takes. Raise the limit, or
    /// make the database with fewer partitions.
    #[error(
        "{partitions} partitions take about {needed} {what} and this process may have {allowed}, by the limit that `{command}` shows; {remedy}",
        what = .limit.unit().1, command = .limit.command()
    )]
    Limit {
        /// Partitions of the database.
        partitions: u32,
        /// The need of all of them, estimated from those that could be made.
        needed: u64,
        /// The limit of the process.
        allowed: u64,
        /// The limit that is met.
        limit: ProcessLimit,
        /// The remedy, with numbers.
        remedy: String,
    },
    /// The operating system refused. Correct the path or the permission, or replace the device.
    #[error("cannot {action} {path}: {source}", path = .path.display())]
    Io {
        /// The failed action, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// No table has that name. Create it, or correct the name.
    #[error("there is no table `{table}`; correct the name, or create the table first")]
    NoSuchTable {
        /// The requested name.
        table: String,
    },
    /// A table of that name exists. Use it, or choose another name.
    #[error("table `{table}` exists already; use it, or choose another name")]
    TableExists {
        /// The requested name.
        table: String,
    },
    /// The handle's table was dropped. Resolve the name again.
    #[error("table `{table}` was dropped since its handle was made; look it up again by its name")]
    TableDropped {
        /// The table's name when the handle was made.
        table: String,
    },
    /// SQL keeps the constraints of the table, which a typed write would pass by. Write through
    /// SQL.
    #[error(
        "SQL keeps the constraints of table `{table}`; write to it through SQL, or set the option \
         `unchecked` of the transaction and keep them yourself"
    )]
    Managed {
        /// The table.
        table: String,
    },
    /// The handle comes from another database. Resolve the name in this one.
    #[error("the handle of table `{table}` belongs to another database; look it up in this one")]
    ForeignTable {
        /// The table's name.
        table: String,
    },
    /// No secondary index of the table has that name. Create it, or correct the name.
    #[error("table `{table}` has no index `{index}`; create it first, or correct the name")]
    NoSuchIndex {
        /// The table.
        table: String,
        /// The name asked for.
        index: String,
    },
    /// A secondary index of that name exists. Use it, or choose another name.
    #[error("table `{table}` has an index `{index}` already; use it, or choose another name")]
    IndexExists {
        /// The table.
        table: String,
        /// The requested name.
        index: String,
    },
    /// No column of the table has that name. Correct the name.
    #[error("table `{table}` has no column `{column}`")]
    NoSuchColumn {
        /// The table.
        table: String,
        /// The name asked for.
        column: String,
    },
    /// A table or index definition contradicts itself. Change the definition.
    #[error("the definition of `{name}` cannot be used: {problem}")]
    Definition {
        /// The table or index.
        name: String,
        /// The fault, and the remedy.
        problem: String,
    },
    /// A row with this key is there already. The statement had no effect; the transaction may go
    /// on.
    #[error(
        "duplicate key in index `{}` of table `{}`: {}; update that row, or use another key",
        .0.index, .0.table, .0.key
    )]
    DuplicateKey(Box<DuplicateKey>),
    /// A value or row does not fit its table. The statement had no effect; the transaction may go
    /// on.
    #[error(transparent)]
    Record(Box<RecordError>),
    /// A table definition cannot be used. Change it.
    #[error(transparent)]
    Schema(Box<SchemaError>),
    /// This thread has a transaction open on this database, and a second one could wait for it for
    /// ever. End the first.
    #[error(
        "this thread has a transaction open on this database already; \
         end it first, or do the work inside it"
    )]
    TransactionOpen,
    /// The connection has a transaction open. Commit or abort it first.
    #[error("the connection has a transaction open; commit or abort it first")]
    TransactionBegun,
    /// The connection has no transaction open, or not the one that the scan belongs to. Begin one.
    #[error("the connection has no such transaction open; begin one, and its scans, first")]
    NoTransaction,
    /// Another transaction has committed changes that this one's isolation forbids it to miss.
    /// Abort the transaction and run it again.
    #[error("could not serialize access: {reason}; abort the transaction and run it again")]
    Serialization {
        /// The changes that were found.
        reason: &'static str,
    },
    /// Rows as they were for the transaction's snapshot took too much memory, so the snapshot has
    /// ended. Abort the transaction and run it again.
    #[error(
        "the snapshot is too old: rows that changed since took more than `snapshot_memory_max` ({limit_bytes} bytes); abort \
         the transaction and run it again, make it shorter, or raise the limit"
    )]
    SnapshotTooOld {
        /// The limit.
        limit_bytes: u64,
    },
    /// Connections hold as many locks as they may. The statement had no effect; the transaction may
    /// go on.
    #[error(
        "connections hold {locks_max} locks, which is all that `locks_max` allows; end transactions, lock whole tables, or \
         raise the limit"
    )]
    TooManyLocks {
        /// The limit.
        locks_max: usize,
    },
    /// As many connections are open as may be. Close one, or raise the limit.
    #[error(
        "{connections_max} connections are open, which is all that `connections_max` allows; close one, or raise the limit"
    )]
    TooManyConnections {
        /// The limit.
        connections_max: u32,
    },
    /// As many transactions are prepared as may be. End one, or raise the limit.
    #[error(
        "{prepared_max} transactions are prepared, which is all that `prepared_max` allows; end one, or raise the limit"
    )]
    TooManyPrepared {
        /// The limit.
        prepared_max: u32,
    },
    /// The name of a prepared transaction is taken. Choose another one, or end that transaction.
    #[error("a transaction is prepared as `{name}` already; choose another name, or end it")]
    PreparedExists {
        /// The name.
        name: String,
    },
    /// No transaction is prepared under this name, or no longer.
    #[error("no transaction is prepared as `{name}`")]
    NoSuchPrepared {
        /// The name.
        name: String,
    },
    /// Somebody else is ending the prepared transaction, or preparing it.
    #[error("somebody else is busy with the prepared transaction `{name}`; look again later")]
    PreparedBusy {
        /// The name.
        name: String,
    },
    /// A prepared transaction cannot be committed. It can be undone.
    #[error("the prepared transaction `{name}` cannot be committed ({problem}); undo it")]
    PreparedUnusable {
        /// The name.
        name: String,
        /// The reason.
        problem: String,
    },
    /// A definition that a prepared transaction needs as it is. End the transaction first.
    #[error("the prepared transaction `{name}` uses table `{table}`; end it first")]
    PreparedInTheWay {
        /// The transaction.
        name: String,
        /// The table.
        table: String,
    },
    /// A transaction that cannot be prepared. It was undone.
    #[error("the transaction cannot be prepared: {reason}")]
    NotPreparable {
        /// The reason.
        reason: &'static str,
    },
    /// A connection has locked a row that a closure wants to change. The transaction was undone;
    /// retry it.
    #[error("a connection has locked a row of table `{table}`; retry the transaction")]
    RowLocked {
        /// The table.
        table: String,
    },
    /// A partition was not free within the wait limit. The transaction was undone; retry it.
    #[error(
        "partition {partition} was not free within {waited_ms} ms; retry the transaction, \
         declare its partitions, or raise the wait limit"
    )]
    Conflict {
        /// The partition that was waited for.
        partition: u32,
        /// Time waited, in milliseconds.
        waited_ms: u64,
    },
    /// The transaction holds more memory for its changes than it may. The statement had no effect;
    /// the transaction may commit its changes, or be aborted.
    #[error(
        "the transaction holds {used_bytes} bytes of memory for its changes, and `transaction_memory_max` is {limit_bytes}; \
         commit more often, or raise the limit"
    )]
    TransactionMemory {
        /// Bytes that it holds.
        used_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The medium or the log has no room. The statement had no effect; the transaction may go on.
    #[error("{source}; {remedy}")]
    OutOfSpace {
        /// The medium or log without room, and the bytes wanted.
        source: Box<StorageError>,
        /// The remedy.
        remedy: &'static str,
    },
    /// The log of a partition did not take a mark, up to which the archives of all partitions can
    /// be replayed. The commits are durable, and can be replayed once a later mark is there.
    #[error(
        "the log of partition {partition} took no mark ({cause}), so what was committed since the newest one cannot be replayed \
         from the archives yet; make room for it, and write a checkpoint or close the database again"
    )]
    Unmarked {
        /// The partition.
        partition: u32,
        /// The cause.
        cause: String,
    },
    /// An earlier error left the transaction half done. It was undone; retry it from its start.
    #[error(
        "an earlier error left the transaction half done, so it was undone; \
            fix its cause and retry from the start"
    )]
    Doomed,
    /// The savepoint belongs to another transaction, or to the part that was rolled back.
    #[error(
        "the transaction has no such savepoint: it is of another one, or it came after one that the transaction went back to; \
         go back to an earlier savepoint, or abort"
    )]
    NoSuchSavepoint,
    /// The database or the transaction is open for reading only. Open it for writing.
    #[error("the database is open for reading only; open it for writing")]
    ReadOnly,
    /// The method of the database has no snapshots. Read in a transaction, or convert the database
    /// to a method that has them.
    #[error(
        "a database of method `{method}` has no snapshots; {with} have: convert it, or read in \
            an ordinary transaction"
    )]
    NoSnapshots {
        /// The database's method.
        method: &'static str,
        /// The methods that have them.
        with: String,
    },
    /// A worker was asked for a partition that it does not own. Ask its owner.
    #[error(
        "partition {partition} does not belong to this worker; use a worker \
            that has it, or a transaction"
    )]
    NotOwned {
        /// The partition that the statement needs.
        partition: u32,
    },
    /// A change was interrupted by a panic inside the partition's storage. Close and reopen the
    /// database.
    #[error(
        "partition {partition} was stopped in the middle of a change; close \
            and reopen the database to recover it"
    )]
    Stopped {
        /// The partition.
        partition: u32,
    },
    /// The outcome of a commit over several partitions is not known to this process. Close and
    /// reopen the database: recovery finds it whole or not at all.
    #[error(
        "it is not known whether the transaction committed ({cause}); close \
            and reopen the database, then look"
    )]
    InDoubt {
        /// The failure.
        cause: String,
    },
    /// The storage of a partition failed.
    #[error(transparent)]
    Storage(StorageError),
    /// A file outside the partitions failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// This process was forked from the one that has opened the database, whose handles do not work
    /// here. Open the database in this process once the other one has closed it, or fork before it
    /// is opened.
    #[error(
        "this process was forked from the one that has opened the database, and its handles do not work here; open the \
         database again in this process when the other one has closed it, or fork before it is opened"
    )]
    Forked,
    /// The caller's own reason to undo a transaction; see [`Error::rejected`].
    #[error("{0}")]
    Rejected(Box<dyn std::error::Error + Send + Sync>),
}

/// The remedy for an [`Error`], by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// The same transaction may succeed later, unchanged.
    Retry,
    /// The call, its arguments or the surroundings have to change first.
    Change,
    /// Close the database and reopen it; if that fails, restore it from a backup.
    Stop,
}

const _: () = assert!(size_of::<Error>() <= 56);

impl Error {
    /// Undoes the transaction for a reason of the caller's own: return it from the closure.
    pub fn rejected(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Rejected(reason.into())
    }

    /// The kind of remedy.
    pub fn advice(&self) -> Advice {
        match self {
            Self::Conflict { .. }
            | Self::InUse { .. }
            | Self::Serialization { .. }
            | Self::SnapshotTooOld { .. }
            | Self::RowLocked { .. } => Advice::Retry,
            Self::Storage(StorageError::Deadlock { .. } | StorageError::LockTimeout { .. }) => {
                Advice::Retry
            }
            Self::Storage(StorageError::NeedsRecovery(_)) => Advice::Change,
            Self::Storage(error) if error.is_statement_error() => Advice::Change,
            Self::Record(error) if error.is_damage() => Advice::Stop,
            Self::Storage(_)
            | Self::Disk(DiskError::Poisoned { .. })
            | Self::Stopped { .. }
            | Self::InDoubt { .. }
            | Self::DamagedDescriptor { .. }
            | Self::Damaged { .. }
            | Self::NoDescriptor { .. } => Advice::Stop,
            _ => Advice::Change,
        }
    }

    /// Whether a database could not be opened for reading only because something has to be written
    /// first. An opening for writing does so: it finishes the work that a crash has left, or fills
    /// holes of a copied file.
    pub fn needs_writing(&self) -> bool {
        match self {
            Self::Storage(StorageError::NeedsRecovery(_)) => true,
            Self::Storage(StorageError::Memory(error)) => {
                matches!(**error, PmemError::Holes { .. })
            }
            _ => false,
        }
    }

    /// Whether the same transaction may succeed when it is run again, unchanged.
    pub fn should_retry(&self) -> bool {
        self.advice() == Advice::Retry
    }

    /// Whether there was no room for it; it has had no effect.
    pub fn is_out_of_space(&self) -> bool {
        match self {
            Self::OutOfSpace { .. } => true,
            Self::Storage(error) => error.is_out_of_space(),
            _ => false,
        }
    }

    pub(crate) fn option(
        option: &'static str,
        problem: impl Into<Box<str>>,
        remedy: impl Into<Box<str>>,
    ) -> Self {
        Self::Option {
            option,
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }

    /// As it is, with what else helps where a table has no room to be dropped.
    pub(crate) fn of_drop(self, method: Method) -> Self {
        let has_log_of_changes = method.is_paged() || method.has_log_images();
        let remedy = if method.is_durable() && !has_log_of_changes {
            "make room, or delete the rows of the table first, a few in each transaction"
        } else {
            // The log has to have room before anything is given back.
            "make room"
        };
        match self {
            Self::OutOfSpace { source, .. } => Self::OutOfSpace { source, remedy },
            other => other,
        }
    }

    /// The error of a mark that a log has no room for, or of a partition that is stopped. A mark
    /// that some logs lack is none.
    pub(crate) fn unmarked(partition: u32, error: StorageError) -> Self {
        if error.is_statement_error() {
            Self::Unmarked {
                partition,
                cause: error.to_string(),
            }
        } else {
            error.into()
        }
    }

    /// Whether the failed statement left no trace, so that its transaction may go on.
    pub(crate) fn is_statement_error(&self) -> bool {
        match self {
            Self::Storage(error) => error.is_statement_error(),
            Self::Conflict { .. }
            | Self::RowLocked { .. }
            | Self::Doomed
            | Self::Forked
            | Self::Stopped { .. }
            | Self::InDoubt { .. }
            | Self::Disk(_) => false,
            Self::Record(error) => !error.is_damage(),
            _ => true,
        }
    }
}

impl From<StorageError> for Error {
    #[cold]
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::DuplicateKey(duplicate) => Self::DuplicateKey(duplicate),
            StorageError::Record(error) => Self::Record(error),
            // It names a remedy of its own.
            StorageError::LogFull(_) => Self::Storage(error),
            source if source.is_out_of_space() => Self::OutOfSpace {
                source: source.into(),
                remedy: "make room, or change fewer rows in a transaction",
            },
            other => Self::Storage(other),
        }
    }
}

impl From<RecordError> for Error {
    #[cold]
    fn from(error: RecordError) -> Self {
        Self::Record(error.into())
    }
}

impl From<SchemaError> for Error {
    #[cold]
    fn from(error: SchemaError) -> Self {
        Self::Schema(error.into())
    }
}

impl From<PmemError> for Error {
    #[cold]
    fn from(error: PmemError) -> Self {
        match error {
            PmemError::InUse { path } => Self::InUse { path, holder: None },
            PmemError::Io {
                action,
                path,
                source,
            } => Self::Io {
                action,
                path,
                source,
            },
            other => StorageError::from(other).into(),
        }
    }
}
