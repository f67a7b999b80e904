//! Pages between a file and memory: the file with its masters, the guards of page writes, the log,
//! and the pool of frames.
//!
//! ```text
//! Pool ── latches, replaces, writes ──► PageFile ── through a Guard ──► file of pages
//!   ├──── reads, many at once ──► PageReaders ──────────────────────────────┘
//!   └──── before a page is written ──► PageLog: everything up to the page's last change is durable
//! ```
//!
//! Order of locks: latches of frames, then the pool's clock or the batch that is written because
//! frames are needed, then the file, then the log. A thread waits for a latch only while it holds
//! no lock of a later kind; a thread that holds the clock or the batch only tries for latches.

pub mod ahead;
pub mod batch_log;
pub mod batch_store;
mod buffered;
mod by_page;
pub mod central_log;
pub mod cleaner;
pub mod cold;
mod cold_segments;
pub mod fetcher;
pub mod file;
mod frame;
mod frames;
pub mod guard;
pub mod horizon;
#[cfg(test)]
#[cfg(not(feature = "schedules"))]
mod horizon_explore;
#[cfg(test)]
#[cfg(feature = "schedules")]
mod horizon_schedules;
pub mod images;
pub mod log;
pub mod master;
pub mod nv_log;
pub mod nv_pages;
pub mod offsets;
pub mod page_access;
pub mod page_latch;
pub mod pending_redo;
pub mod pool;
mod replacement;
mod reservations;
mod resident;
pub mod resident_pages;
pub mod session_files;
#[cfg(test)]
pub(crate) mod test_device;
pub mod write_back;

pub use batch_log::BatchLog;
pub use batch_store::BatchStore;
pub use central_log::CentralLog;
pub use cold::{ColdStore, open_store};
pub use cold_segments::ColdSegments;
pub use file::{PageFile, PageFileOptions, PageReaders};
pub use frames::Changes;
pub use guard::{DoubleWrite, NvSlots, Slots};
pub use horizon::{Content, HorizonOptions, PartitionedLog};
pub use images::Images;
pub use log::{CheckpointNeed, CheckpointStart, NewRecord, PageLog, RecordStart, UndoSpace};
pub use master::Master;
pub use nv_log::{NvLog, NvLogOptions, Rings};
pub use nv_pages::{Edit, NvPages, ResidentStore};
pub use page_access::PageAccess;
pub use page_latch::{NewLines, ReadGuard, WriteGuard};
pub use pending_redo::{NeededRedo, PendingRedo};
pub use pool::Pool;
pub use resident::store;
pub use resident_pages::ResidentPages;
pub use session_files::{FilesLog, SessionFilesOptions};
pub use write_back::BatchSync;
