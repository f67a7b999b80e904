//! The devices of one database: where its memories and its files come from.
//!
//! Engines are generic over a [`Platform`]; the choice between native, emulated and simulated is
//! made once, where the database is opened. A platform that is used from many programs and tests is
//! an [`EngineSource`] as well (a line each), so that its engines are compiled once, in the
//! platform's crate, and not again in each of them.

use crate::engine::{Decide, Engine, EngineOptions, Method};
use crate::error::Result;
use disk::Directory;
use pmem::MemorySource;

/// A memory of a platform.
pub type DeviceOf<P> = <<P as Platform>::Memories as MemorySource>::Memory;

/// The devices of one database.
pub trait Platform: Sized + Send + Sync + 'static {
    /// Memories: pools and volatile arenas.
    type Memories: MemorySource + Send + Sync;
    /// Files: logs and checkpoints.
    type Files: Directory;

    /// Source of the memories of partition `partition`. Emulated devices keep one modelled cache a
    /// partition.
    fn memories(&self, partition: u32) -> Self::Memories;

    /// Directory of the files of partition `partition`.
    fn files(&self, partition: u32) -> disk::Result<Self::Files>;

    /// Directory of the files of its log, if they have one of their own. Then its memories are
    /// there as well, in methods that have them for their log.
    fn log_files(&self, _partition: u32) -> disk::Result<Option<Self::Files>> {
        Ok(None)
    }

    /// Directory to which a log moves records that recovery no longer needs, if it is not to
    /// discard them. The page engine does so, with pages in files.
    fn archive_files(&self, _partition: u32) -> disk::Result<Option<Self::Files>> {
        Ok(None)
    }
}

/// A platform that makes the engines of its partitions.
pub trait EngineSource: Platform {
    /// Creates a partition's storage.
    fn create_engine(&self, method: Method, options: &EngineOptions) -> Result<Box<dyn Engine>>;

    /// Opens a partition's storage and recovers it. Opening what recovery has left changes nothing.
    ///
    /// With [`Access::Read`](pmem::Access::Read) nothing is changed in any case, and every change
    /// is refused afterwards. Where recovery would have to write, the error is
    /// [`StorageError::NeedsRecovery`](crate::StorageError::NeedsRecovery).
    fn open_engine(
        &self,
        method: Method,
        options: &EngineOptions,
        decide: Decide<'_>,
    ) -> Result<Box<dyn Engine>>;
}
