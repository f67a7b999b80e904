//! The devices of one database: where its memories and its files come from.
//!
//! Engines are generic over a [`Platform`]; the choice between native, emulated and simulated is made once, where the
//! database is opened.

use disk::Directory;
use pmem::MemorySource;

/// The devices of one database.
pub trait Platform: Send + Sync + 'static {
    /// Memories: pools and volatile arenas.
    type Memories: MemorySource + Send + Sync;
    /// Files: logs and checkpoints.
    type Files: Directory;

    /// Where partition `partition` gets its memories. Emulated devices keep one modelled cache a partition.
    fn memories(&self, partition: u32) -> Self::Memories;

    /// Where partition `partition` keeps its files.
    fn files(&self, partition: u32) -> Result<Self::Files, disk::DiskError>;
}
