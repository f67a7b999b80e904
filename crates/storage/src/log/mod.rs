//! Logs, and the write set through which a transaction reaches them.
//!
//! Tables and indexes change published bytes only through a [`WriteSet`]. The persistent one
//! (`nv_write_set`) keeps changes in DRAM and commits them by one record with the new bytes; a long
//! transaction logs before images and changes in place. The volatile one (`volatile_undo`) changes
//! at once and keeps before images in DRAM. So the code above is written once for both.

pub mod archive;
pub mod checkpoint;
pub mod group_commit;
pub mod numbered;
mod nv_lines;
pub mod nv_master;
mod nv_record;
pub mod nv_ring;
mod nv_staged;
pub mod nv_write_set;
mod position;
pub mod redo;
pub mod series;
mod tails;
pub mod volatile_undo;
pub mod wal;
mod wal_options;
mod wal_read;
mod wal_roll;
mod wal_segment;
mod wal_spares;
mod wal_sync;

pub use archive::{ArchiveRange, ArchiveWatch};
pub use group_commit::{Due, GroupCommit, GroupCommitOptions};
pub use nv_ring::{NvRing, RingIdentity};
pub use nv_write_set::{NvWriteSet, Recovered, UndoSavepoint};
pub use position::{LogIdentity, LogStart, Lsn, NUMBER_MAX};
pub use tails::{SharedTails, Tails, name as tails_name};
pub use volatile_undo::{Keep, VolatileSavepoint, VolatileUndo};
pub use wal::has_needless;
pub use wal::{Purpose, Wal};
pub use wal_options::WalOptions;
pub use wal_read::{copy_segments, first_of};
pub use wal_roll::Room;
pub use wal_spares::{give_up, secure};

use crate::error::Result;
use pmem::{Arena, ClassId, Memory, Owner, PmemError, WordChange};

/// Bytes of a list that the next transaction gets from the one before.
const KEPT_BYTES: usize = 1 << 20;

/// Empties a list of what a transaction has done. If one long transaction has made it large its
/// memory goes back.
pub fn clear<T>(list: &mut Vec<T>) {
    list.clear();
    list.shrink_to(KEPT_BYTES / size_of::<T>());
}

/// Collects the changes of one transaction.
///
/// *Published* bytes are reachable from a root; recovery must be able to restore them.
/// *Unpublished* bytes (a reserved block, a free slot of a node) are not, so they may be stored at
/// once.
pub trait WriteSet<M: Memory>: Send {
    /// Reserves a block for the open transaction, as [`Arena::reserve`].
    fn reserve(
        &mut self,
        arena: &mut Arena<M>,
        bytes: usize,
        owner: Owner,
    ) -> Result<u64, PmemError> {
        arena.reserve(bytes, owner)
    }

    /// Reserves a block of a class, as [`Arena::reserve_class`].
    fn reserve_class(&mut self, arena: &mut Arena<M>, class: ClassId) -> Result<u64, PmemError> {
        arena.reserve_class(class)
    }

    /// Changes published bytes, at once or when the change becomes [visible](Self::visible). A
    /// structure that was written is read again only after `visible`, or word by word over
    /// [`pending_word`](Self::pending_word).
    fn write(&mut self, arena: &mut Arena<M>, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Changes bits of one published word. Several changes of one word in one transaction add up.
    fn change(&mut self, arena: &mut Arena<M>, change: WordChange) -> Result<()>;

    /// Notes that the next changes are of another structure: the paper syncs each by itself.
    fn begin_step(&mut self) {}

    /// Stores unpublished bytes. They are durable before any published change of this transaction.
    fn stage(&mut self, arena: &mut Arena<M>, offset: u64, bytes: &[u8]) -> Result<()>;

    /// As [`stage`](Self::stage), for bytes that change only by [`write`](Self::write) as long as
    /// they are published. A structure that others are staged into is not of that kind.
    fn stage_final(&mut self, arena: &mut Arena<M>, offset: u64, bytes: &[u8]) -> Result<()> {
        self.stage(arena, offset, bytes)
    }

    /// Whether it is cheaper to overwrite a published block of `bytes` bytes than to replace it by
    /// a new one, which changes two allocation words and a pointer.
    fn overwrites(&self, bytes: usize) -> bool;

    /// Notes that the structure at `offset` has writes that may not be visible yet. To be called
    /// after the last of them: a write may make all before it visible, which forgets what was
    /// touched.
    fn touch(&mut self, offset: u64);

    /// Whether the structure at `offset` is touched and not visible yet.
    fn is_touched(&self, _offset: u64) -> bool {
        false
    }

    /// The word at `offset` as a write that is not visible yet has left it; none if there is no
    /// such write.
    fn pending_word(&self, _offset: u64) -> Option<u64> {
        None
    }

    /// Makes all writes visible if the structure at `offset` is touched.
    fn visible(&mut self, arena: &mut Arena<M>, offset: u64) -> Result<()>;

    /// Makes all writes visible.
    fn visible_all(&mut self, arena: &mut Arena<M>) -> Result<()>;

    /// Notes that this transaction cleared `bits` of the slot bitmap at `word`: an undo needs the
    /// slots' content, so they are not used again before the transaction ends.
    fn retire(&mut self, word: u64, bits: u64);

    /// Bits of the slot bitmap at `word` that this transaction has retired.
    fn retired(&self, word: u64) -> u64;
}
