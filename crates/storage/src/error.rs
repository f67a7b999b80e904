//! Errors of an engine.
//!
//! Each variant says whether the caller should retry the transaction, abort it, or stop using the
//! database.

use disk::DiskError;
use pmem::PmemError;

/// The result of a fallible operation of this room.
pub type Result<T, E = StorageError> = std::result::Result<T, E>;

/// Why a file is refused whose creation was not finished. Partitions are made before the descriptor
/// of their database, so the other files may well hold data.
pub(crate) const UNFINISHED: &str = "its creation was not finished, though that of its database was: the right file was lost or \
     replaced; put it back, or restore the database from a backup";

/// Errors of an engine.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// A row with this key is there already. The operation had no effect; the transaction may go
    /// on.
    #[error("duplicate key in index `{index}` of table `{table}`: {key}")]
    DuplicateKey {
        /// The table.
        table: String,
        /// `primary` or the name of the secondary index.
        index: String,
        /// The key's column values.
        key: String,
    },
    /// No table has this number in this partition. The catalogue above asked for a table that was
    /// dropped.
    #[error("there is no table number {0} in this partition")]
    NoSuchTable(u32),
    /// No index has this number in this table.
    #[error("table `{table}` has no index number {index}")]
    NoSuchIndex {
        /// The table.
        table: String,
        /// The number asked for.
        index: u32,
    },
    /// The schema or a value does not fit. The operation had no effect; the transaction may go on.
    #[error(transparent)]
    Record(#[from] crate::record::RecordError),
    /// The definition of a table cannot be used. The operation had no effect.
    #[error(transparent)]
    Schema(#[from] crate::record::SchemaError),
    /// The memory device failed, or is damaged or full. On `OutOfSpace` abort, otherwise stop.
    #[error(transparent)]
    Memory(#[from] PmemError),
    /// A file failed. Stop; reopen to recover.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A log has no room. The operation had no effect; the transaction may go on.
    #[error("no space: {wanted_bytes} more bytes wanted, {limit}; {remedy}")]
    LogFull {
        /// Bytes that the operation asked for.
        wanted_bytes: u64,
        /// The limit that was reached.
        limit: String,
        /// How to make room.
        remedy: &'static str,
    },
    /// A log or checkpoint file is not what it must be. Stop and restore from a backup.
    #[error("{file} at offset {offset} is damaged: {detail}")]
    DamagedFile {
        /// The file's name in the database directory.
        file: String,
        /// Where in the file.
        offset: u64,
        /// Expected and found.
        detail: String,
    },
    /// A file of the database directory belongs to something else, or to a version that this
    /// program cannot read. Stop.
    #[error("{file} cannot be used: {reason}")]
    ForeignFile {
        /// The file's name in the database directory.
        file: String,
        /// Why not.
        reason: String,
    },
    /// A file that must be there is missing, is cut short, or is an older copy of itself. Put it
    /// back, or restore a backup.
    #[error("{file} {problem}; put it back, or restore a backup")]
    LostFile {
        /// The file's name in the database directory.
        file: String,
        /// The problem found.
        problem: String,
    },
    /// The engine cannot do this. Choose another method or option.
    #[error("{0}")]
    Unsupported(String),
    /// A crash has left something to finish, and the partition is open for reading only. Open it
    /// once for writing.
    #[error(
        "{0} holds what a crash has left unfinished, and finishing it takes writing; open the database once for writing"
    )]
    NeedsRecovery(String),
    /// A deadlock: this request closed a cycle of transactions that wait for each other. Abort the
    /// transaction and run it again.
    #[error(
        "transactions waited for each other in a circle, found after {waited_ms} ms; abort the transaction and run it again"
    )]
    Deadlock {
        /// How long the request had waited.
        waited_ms: u64,
    },
    /// A lock did not become free in time. Abort the transaction and run it again.
    #[error(
        "waited {waited_ms} ms for the lock of {what}, which others hold; abort the transaction and run it again, or raise the limit of waits"
    )]
    LockTimeout {
        /// The thing to be locked.
        what: String,
        /// How long the request had waited.
        waited_ms: u64,
    },
    /// The session was interrupted while it waited. The operation had no effect; the transaction
    /// may go on.
    #[error("the wait was interrupted")]
    Interrupted,
    /// All locks of the partition are taken. The operation had no effect; the transaction may go
    /// on.
    #[error(
        "all {locks_max} locks of this partition are taken; end transactions, lock whole tables, or raise the limit of locks"
    )]
    LocksExhausted {
        /// How many there are.
        locks_max: usize,
    },
    /// An earlier durable step failed; nothing more is written. Reopen the database.
    #[error("an earlier durable step of this partition failed; reopen the database")]
    Poisoned,
    /// A durable step of another session, or of a thread of the partition, failed; nothing more is
    /// written. Reopen the database.
    #[error("this partition is stopped because of an earlier error ({cause}); reopen the database")]
    Stopped {
        /// The error of the step.
        cause: String,
    },
}

impl StorageError {
    /// Whether a medium or a log had no room.
    pub fn is_out_of_space(&self) -> bool {
        matches!(
            self,
            Self::LogFull { .. }
                | Self::Memory(PmemError::OutOfSpace { .. })
                | Self::Disk(DiskError::OutOfSpace { .. })
        )
    }

    /// Whether the failed operation left no trace, so that its transaction may go on.
    pub fn is_statement_error(&self) -> bool {
        matches!(
            self,
            Self::DuplicateKey { .. }
                | Self::NoSuchTable(_)
                | Self::NoSuchIndex { .. }
                | Self::Record(_)
                | Self::Schema(_)
                | Self::Unsupported(_)
                | Self::LocksExhausted { .. }
                | Self::Interrupted
                | Self::LogFull { .. }
                | Self::Memory(PmemError::OutOfSpace { .. })
                | Self::Disk(DiskError::OutOfSpace { .. })
        )
    }
}
