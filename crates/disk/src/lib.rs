//! Files for logs and checkpoints, as a device with three variants.
//!
//! *native* is the operating system's files, *emulated* adds latency and bandwidth and counts,
//! *simulated* keeps written and synced bytes apart, so that a crash may lose, reorder or tear
//! unsynced writes. Engines are written once against [`Directory`] and [`File`].
//!
//! The promise of a file (docs/medium.md): bytes written before a successful [`File::sync`] survive
//! a power cut, provided that the file's name was made durable by [`Directory::sync`]. Unsynced
//! writes may survive wholly, in part (torn at 512-byte sectors) or not at all, in any order. A
//! failed sync loses an unknown part of the unsynced bytes for ever: the handle refuses further
//! writes.
//!
//! | module | job |
//! |---|---|
//! | `native`, `emulated`, [`simulated`] | the three variants |
//! | `blocks`, `io_threads` | direct transfers of whole blocks; threads for parallel writes |
//! | `profile`, `arm` | models of disks: latency, bandwidth, the way of the arm |
//! | `output` | a file that a command makes, under its name only when it is whole |
//! | `either` | one of two directories, as one type |

mod arm;
mod blocks;
mod either;
mod emulated;
mod error;
mod io_threads;
mod native;
mod output;
mod pending;
mod profile;
mod rename;
pub mod simulated;

pub use arm::Arm;
pub use emulated::{
    ChargeSink, Delays, EmulatedDirectory, EmulatedFile, EmulatorCharges, FileCharges,
};
pub use error::{DiskError, Result};
pub use native::{IoMode, NativeDirectory, NativeFile};
pub use output::{Existing, OutputFile};
pub use pending::{Pending, undo_pending};
use pmem::Site;
pub use profile::{FileProfile, Waits};
use std::ops::AddAssign;

/// Bytes of a sector: the unit in which unsynced writes tear.
pub const SECTOR_BYTES: u64 = 512;

/// A directory of files, all on one device.
pub trait Directory: Send + 'static {
    /// The files in it.
    type File: File;

    /// Creates an empty file; fails if the name exists.
    fn create(&self, name: &str) -> Result<Self::File>;

    /// Opens an existing file for reading and writing.
    fn open(&self, name: &str) -> Result<Self::File>;

    /// Names of all files, sorted.
    fn list(&self) -> Result<Vec<String>>;

    /// Whether a file of that name exists.
    fn exists(&self, name: &str) -> Result<bool>;

    /// Removes a file; durable after [`Directory::sync`].
    fn remove(&self, name: &str) -> Result<()>;

    /// Renames a file over another, atomically; durable after [`Directory::sync`].
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// As [`Directory::rename`], but fails if there is a file of the new name. On devices that one
    /// process alone has, a check is enough.
    fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        if self.exists(to)? {
            return Err(DiskError::Io {
                action: "rename to a new name",
                path: to.into(),
                source: std::io::ErrorKind::AlreadyExists.into(),
            });
        }
        self.rename(from, to)
    }

    /// Makes creations, removals and renames durable.
    fn sync(&self, site: &'static Site) -> Result<()>;

    /// Counts since the directory was opened, over all its files.
    fn counters(&self) -> DiskCounters;
}

/// An open file.
pub trait File: Send + Sized + 'static {
    /// Another handle of the same file, for reading while this one is in use elsewhere. It cannot
    /// change the file.
    fn reader(&self) -> Result<Self>;

    /// Length in bytes, unsynced growth included.
    fn bytes(&self) -> Result<u64>;

    /// Fills `out` from `offset`; an error if the file ends before.
    fn read_at(&mut self, offset: u64, out: &mut [u8]) -> Result<()>;

    /// Announces that a range is going to be read soon, so that a device which can begins now.
    /// Promises nothing and reports nothing.
    fn will_read(&self, _offset: u64, _bytes: u64) {}

    /// Writes all of `data` at `offset`, growing the file where it must.
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<()>;

    /// Writes several ranges that do not overlap, in any order, and in parallel where the device
    /// can.
    fn write_each(&mut self, writes: &[(u64, &[u8])]) -> Result<()> {
        writes
            .iter()
            .try_for_each(|(offset, data)| self.write_at(*offset, data))
    }

    /// Whether transfers go past the operating system's cache, so that nothing is read ahead, and
    /// [`File::will_read`] does nothing.
    fn is_direct(&self) -> bool {
        false
    }

    /// Cuts or extends (with zeros) to `bytes`.
    fn set_bytes(&mut self, bytes: u64) -> Result<()>;

    /// Makes content and length durable. After an error this handle refuses every write.
    fn sync(&mut self, site: &'static Site) -> Result<()>;
}

/// Counts of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    /// Read calls.
    pub reads: u64,
    /// Write calls.
    pub writes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Syncs of files and of the directory.
    pub syncs: u64,
}

impl AddAssign for DiskCounters {
    fn add_assign(&mut self, other: Self) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.syncs += other.syncs;
    }
}
