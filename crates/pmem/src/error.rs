//! Errors of a pool and its device.
//!
//! Each variant carries the values a person needs to find and fix the cause, and says whether to
//! retry, abort or stop.

use std::path::PathBuf;

/// The result of a fallible operation of this room.
pub type Result<T, E = PmemError> = std::result::Result<T, E>;

/// An error of a pool or its device.
#[derive(Debug, thiserror::Error)]
pub enum PmemError {
    /// The operating system refused. Stop: the path or the permission has to be fixed.
    #[error("{action} {path}: {source}", path = path.display())]
    Io {
        /// The action tried, as a verb: `open`, `map`, `allocate`.
        action: &'static str,
        /// The file it was tried on.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The pool is open elsewhere: by a writer, or by readers where it was to be opened for
    /// writing. Retry after it has closed.
    #[error("{path} is in use by another process; close it there first", path = path.display())]
    InUse {
        /// The locked file.
        path: PathBuf,
    },
    /// The filesystem or the pool's limit is reached. Abort the transaction; reads and deletes
    /// still work.
    #[error("no space: {wanted_bytes} more bytes wanted, {limit}")]
    OutOfSpace {
        /// Bytes that the operation asked for.
        wanted_bytes: u64,
        /// Which limit was reached.
        limit: String,
    },
    /// A file in shared memory has holes. The system would fill them even for readers, and kill a
    /// reader when memory runs out. Open the file once for writing: that fills them, or fails with
    /// an error.
    #[error("{path} has holes, which take memory when they are read; open the database once for writing", path = path.display())]
    Holes {
        /// The file.
        path: PathBuf,
    },
    /// Bytes on the medium are invalid. Stop and restore from a backup.
    #[error("{what} at offset {offset} is damaged: {detail}")]
    Corrupted {
        /// The structure, in a word or two.
        what: &'static str,
        /// Where it lies in the pool.
        offset: u64,
        /// Expected and found.
        detail: String,
    },
    /// The file is not a pool, or one that this build cannot read. Stop.
    #[error("{path}: {reason}", path = path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The reason and the remedy.
        reason: String,
    },
    /// The caller asked for something the medium cannot give. Change the option.
    #[error("{0}")]
    Unsupported(String),
    /// An earlier durable step failed, so nothing more is written through this handle. Reopen the
    /// pool.
    #[error("an earlier durable step on this pool failed; reopen it")]
    Poisoned,
    /// A write was tried through a handle that was opened for reading only. Open for writing.
    #[error("the pool is open for reading only")]
    ReadOnly,
}

impl PmemError {
    /// A [`PmemError::Corrupted`], built in one line where it is found.
    #[cold]
    pub fn corrupted(what: &'static str, offset: u64, detail: impl Into<String>) -> Self {
        Self::Corrupted {
            what,
            offset,
            detail: detail.into(),
        }
    }
}
