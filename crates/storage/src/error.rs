//! Errors of an engine.
//!
//! Each variant says whether the caller should retry the transaction, abort it, or stop using the
//! database.

use crate::record::{RecordError, SchemaError};
use disk::DiskError;
use pmem::PmemError;

/// The result of a fallible operation of this room.
pub type Result<T, E = StorageError> = std::result::Result<T, E>;

/// Why a file is refused whose creation was not finished. Partitions are made before the descriptor
/// of their database, so the other files may well hold data.
pub const UNFINISHED: &str = "its creation was not finished, though that of its database was: the right file was lost or \
     replaced; put it back, or restore the database from a backup";

/// Errors of an engine. A result carries one through every step of an operation, so a variant with
/// more than a text has its parts in a box.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// A row with this key is there already. The operation had no effect; the transaction may go
    /// on.
    #[error("duplicate key in index `{}` of table `{}`: {}", .0.index, .0.table, .0.key)]
    DuplicateKey(Box<DuplicateKey>),
    /// No table has this number in this partition. The catalogue above asked for a table that was
    /// dropped.
    #[error("there is no table number {0} in this partition")]
    NoSuchTable(u32),
    /// No index has this number in this table.
    #[error("table `{table}` has no index number {index}")]
    NoSuchIndex {
        /// The table.
        table: Box<str>,
        /// The number asked for.
        index: u32,
    },
    /// The schema or a value does not fit. The operation had no effect; the transaction may go on.
    #[error(transparent)]
    Record(Box<RecordError>),
    /// The definition of a table cannot be used. The operation had no effect.
    #[error(transparent)]
    Schema(Box<SchemaError>),
    /// The memory device failed, or is damaged or full. On `OutOfSpace` abort, otherwise stop.
    #[error(transparent)]
    Memory(Box<PmemError>),
    /// A file failed. Stop; reopen to recover.
    #[error(transparent)]
    Disk(Box<DiskError>),
    /// A log has no room. The operation had no effect; the transaction may go on.
    #[error("no space: {} more bytes wanted, {}; {}", .0.wanted_bytes, .0.limit, .0.remedy)]
    LogFull(Box<LogFull>),
    /// A log or checkpoint file is not what it must be. Stop and restore from a backup.
    #[error("{} at offset {} is damaged: {}", .0.file, .0.offset, .0.detail)]
    DamagedFile(Box<DamagedFile>),
    /// A file of the database directory belongs to something else, or to a version that this
    /// program cannot read. Stop.
    #[error("{} cannot be used: {}", .0.file, .0.problem)]
    ForeignFile(Box<WrongFile>),
    /// A file that must be there is missing, is cut short, or is an older copy of itself. Put it
    /// back, or restore a backup.
    #[error("{} {}; put it back, or restore a backup", .0.file, .0.problem)]
    LostFile(Box<WrongFile>),
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
        "deadlock: transactions waited for each other, found after {waited_ms} ms; abort the transaction and run it again"
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
        what: Box<str>,
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

/// The parts of [`StorageError::DuplicateKey`].
#[derive(Debug)]
pub struct DuplicateKey {
    /// The table.
    pub table: String,
    /// `primary` or the name of the secondary index.
    pub index: String,
    /// The key's column values.
    pub key: String,
}

/// The parts of [`StorageError::LogFull`].
#[derive(Debug)]
pub struct LogFull {
    /// Bytes that the operation asked for.
    pub wanted_bytes: u64,
    /// The limit that was reached.
    pub limit: String,
    /// How to make room.
    pub remedy: &'static str,
}

/// The parts of [`StorageError::DamagedFile`].
#[derive(Debug)]
pub struct DamagedFile {
    /// The file's name in the database directory.
    pub file: String,
    /// Where in the file.
    pub offset: u64,
    /// Expected and found.
    pub detail: String,
}

/// The parts of [`StorageError::ForeignFile`] and [`StorageError::LostFile`].
#[derive(Debug)]
pub struct WrongFile {
    /// The file's name in the database directory.
    pub file: String,
    /// Why it cannot be used, or the problem found.
    pub problem: String,
}

const _: () = assert!(size_of::<StorageError>() <= 32);

impl StorageError {
    /// A [`StorageError::DuplicateKey`].
    #[cold]
    pub fn duplicate_key(
        table: impl Into<String>,
        index: impl Into<String>,
        key: impl Into<String>,
    ) -> Self {
        Self::DuplicateKey(Box::new(DuplicateKey {
            table: table.into(),
            index: index.into(),
            key: key.into(),
        }))
    }

    /// A [`StorageError::LogFull`].
    #[cold]
    pub fn log_full(wanted_bytes: u64, limit: impl Into<String>, remedy: &'static str) -> Self {
        Self::LogFull(Box::new(LogFull {
            wanted_bytes,
            limit: limit.into(),
            remedy,
        }))
    }

    /// A [`StorageError::DamagedFile`].
    #[cold]
    pub fn damaged_file(file: impl Into<String>, offset: u64, detail: impl Into<String>) -> Self {
        Self::DamagedFile(Box::new(DamagedFile {
            file: file.into(),
            offset,
            detail: detail.into(),
        }))
    }

    /// A [`StorageError::ForeignFile`].
    #[cold]
    pub fn foreign_file(file: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::ForeignFile(Box::new(WrongFile {
            file: file.into(),
            problem: problem.into(),
        }))
    }

    /// A [`StorageError::LostFile`].
    #[cold]
    pub fn lost_file(file: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::LostFile(Box::new(WrongFile {
            file: file.into(),
            problem: problem.into(),
        }))
    }

    /// Bytes for which a medium or a log had no room, if that is the error.
    pub fn wanted_bytes(&self) -> Option<u64> {
        match self {
            Self::LogFull(full) => Some(full.wanted_bytes),
            Self::Memory(error) => match **error {
                PmemError::OutOfSpace { wanted_bytes, .. } => Some(wanted_bytes),
                _ => None,
            },
            Self::Disk(error) => match **error {
                DiskError::OutOfSpace { bytes, .. } => Some(bytes),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether a medium or a log had no room.
    pub fn is_out_of_space(&self) -> bool {
        self.wanted_bytes().is_some()
    }

    /// Whether the failed operation left no trace, so that its transaction may go on.
    pub fn is_statement_error(&self) -> bool {
        let is_refused = matches!(
            self,
            Self::DuplicateKey(_)
                | Self::NoSuchTable(_)
                | Self::NoSuchIndex { .. }
                | Self::Record(_)
                | Self::Schema(_)
                | Self::Unsupported(_)
                | Self::LocksExhausted { .. }
                | Self::Interrupted
        );
        is_refused || self.is_out_of_space()
    }
}

impl From<RecordError> for StorageError {
    #[cold]
    fn from(error: RecordError) -> Self {
        Self::Record(Box::new(error))
    }
}

impl From<SchemaError> for StorageError {
    #[cold]
    fn from(error: SchemaError) -> Self {
        Self::Schema(Box::new(error))
    }
}

impl From<PmemError> for StorageError {
    #[cold]
    fn from(error: PmemError) -> Self {
        Self::Memory(Box::new(error))
    }
}

impl From<DiskError> for StorageError {
    #[cold]
    fn from(error: DiskError) -> Self {
        Self::Disk(Box::new(error))
    }
}
