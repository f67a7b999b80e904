//! Errors of files.
//!
//! The variants say whether to retry, abort or stop.

use std::path::PathBuf;

/// The result of a fallible operation of this room.
pub type Result<T, E = DiskError> = std::result::Result<T, E>;

/// An error of a file.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The operating system refused. Stop: the path, the permission or the device has to be fixed.
    #[error("{action} {path}: {source}", path = path.display())]
    Io {
        /// The action tried, as a verb.
        action: &'static str,
        /// The file it was tried on.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The filesystem is full. Abort the transaction; reads still work.
    #[error("no space left on the device for {bytes} bytes of {path}", path = path.display())]
    OutOfSpace {
        /// The file that was to grow.
        path: PathBuf,
        /// Bytes of the write.
        bytes: u64,
    },
    /// The directory was opened for reading only. Open the database for writing.
    #[error("{path} is open for reading only", path = path.display())]
    ReadOnly {
        /// The file or directory that was to change.
        path: PathBuf,
    },
    /// An earlier sync of this file failed, so the durable content is unknown. Reopen and recover.
    #[error("an earlier sync of {path} failed; reopen the database", path = path.display())]
    Poisoned {
        /// The file whose sync failed.
        path: PathBuf,
    },
}
