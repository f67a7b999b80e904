//! The copy-on-write B+tree: pages that are never changed once a group of transactions has written
//! them.
//!
//! A group copies a page when it first changes it (*dirty*), changes the copy in place from then
//! on, and writes all of its copies at once. The pages that the last group wrote (the *current
//! directory*) and those that this one is about to write (the *dirty directory*) share every page
//! that did not change. The roots of all trees are in one tree, the directory, whose root is in the
//! master record; so one change of the master publishes the changes of many transactions in many
//! tables.
//!
//! | file | job |
//! |---|---|
//! | `node` | the bytes of a page: header, entries, contents |
//! | `frames` | volatile memory for dirty and cached pages |
//! | `cache` | which pages lie in frames |
//! | `pages` | dirty pages, their undo, the roots of the trees |
//! | `tree` | lookups, scans, and where a change goes |
//! | `change` | insertion, split, removal, merge |
//! | `long` | values longer than a page has room for |
//! | `inspect` | checks and removal of a whole tree |
//! | `pool` | pages in durable memory, with their blocks and the master record |
//! | `file` | pages in a file with a cache; its master record and free list in `file_space` |
//! | `snapshot` | pages as a snapshot sees them |
//! | `limbo` | places that a snapshot shows and that must not be used again yet |
//!
//! A *reference* is a word that points to a page: for a committed page the offset of its place, for
//! a dirty page the number of its slot and the mark `DIRTY`, so following one needs no search.
//! References become offsets when the page that holds them is written.

mod cache;
mod change;
pub mod file;
mod file_space;
mod frames;
mod inspect;
pub(in crate::index) mod limbo;
mod long;
mod node;
mod pages;
pub mod pool;
pub mod snapshot;
mod tree;
mod trees;

pub use file_space::SpaceSavepoint;
pub use frames::Frames;
pub use inspect::TreeReport;
pub use node::{PageView, Shape};
pub use pages::{Pages, PagesSavepoint};
pub use tree::{CowTree, Found, TOGETHER, Value, Visit};

use pmem::Memory;
use storage::Result;
use storage::engine::GlobalTxnId;

/// Marks a reference to a dirty page: `slot << 2 | DIRTY`.
pub(crate) const DIRTY: u64 = 1;
/// Marks a value word whose content lies in the leaf: `byte offset << 32 | bytes << 2 | INLINE`.
const INLINE: u64 = 2;

/// Pages up to this size are prefetched as a whole where they lie in memory.
const SMALL_PAGE_BYTES: usize = 1024;

/// Reason to reserve a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The tree grows.
    Growth,
    /// The copy of a page for a statement that adds something. It leaves a small reserve to
    /// deletions.
    CopyToAdd,
    /// The copy of a page whose own place becomes free with the group. It may use the reserve, so
    /// that deletions and changes in place work on a full device.
    Copy,
}

/// Result of [`PageStore::lend`].
#[derive(Clone, Copy, Debug)]
pub struct Lent {
    /// The frame.
    pub frame: u64,
    /// Whether the page was cached in it.
    pub was_cached: bool,
}

/// The storage of pages, which makes a group of them durable.
///
/// The life of a page: reserved (a place is known, only DRAM knows of it) → written → published by
/// `commit` → retired, and reserved again once no crash can need its content. It is made in a
/// *frame*: of volatile memory, unless the store has a better one, as its place itself.
pub trait PageStore: Send {
    /// The memory of pages and frames.
    type Memory: Memory;
    /// A savepoint of a transaction.
    type Savepoint: Copy + Send;

    /// Bytes of a page, a multiple of 8.
    fn page_bytes(&self) -> usize;

    /// Number of the group that is open: one more than that of the last one that is durable.
    fn group(&self) -> u64;

    /// The page at `at`, which an earlier group has written.
    fn view<'a>(
        &'a mut self,
        frames: &'a mut Frames<Self::Memory>,
        at: u64,
    ) -> Result<PageView<'a, Self::Memory>>;

    /// Asks for the line with a byte of a page ahead of its use.
    fn prefetch(&self, frames: &Frames<Self::Memory>, at: u64, byte: usize);

    /// Asks for a block that a value points to ahead of its use, where values point anywhere.
    fn prefetch_block(&self, _at: u64, _bytes: usize) {}

    /// Asks for the page at `at` ahead of a search in it.
    fn prefetch_page(&self, frames: &Frames<Self::Memory>, at: u64) {
        self.prefetch(frames, at, 0);
    }

    /// A frame that holds the page at `from`, to be changed and written at `to`. If the page was
    /// cached, the cache lends its own frame: [`PageStore::adopt`] returns it, unchanged.
    fn lend(&mut self, frames: &mut Frames<Self::Memory>, from: u64, to: u64) -> Result<Lent>;

    /// A frame of arbitrary content for a page that will be written at `to`.
    fn frame(&mut self, frames: &mut Frames<Self::Memory>, _to: u64) -> Result<u64> {
        frames.take()
    }

    /// Gives a frame back.
    fn give(&mut self, frames: &mut Frames<Self::Memory>, frame: u64) {
        frames.give(frame);
    }

    /// The content of a frame.
    fn dirty<'a>(
        &'a self,
        frames: &'a Frames<Self::Memory>,
        frame: u64,
    ) -> PageView<'a, Self::Memory> {
        frames.view(frame)
    }

    /// Asks for the line with a byte of a frame ahead of its use.
    fn prefetch_dirty(&self, frames: &Frames<Self::Memory>, frame: u64, byte: usize) {
        frames.prefetch(frame, byte);
    }

    /// Changes bytes of a frame.
    fn store(
        &mut self,
        frames: &mut Frames<Self::Memory>,
        frame: u64,
        offset: usize,
        bytes: &[u8],
    ) -> Result<()> {
        frames.store(frame, offset, bytes)
    }

    /// Reserves a place for a page.
    fn reserve(&mut self, purpose: Purpose) -> Result<u64>;

    /// Gives up a page or a reserved place. It is not used again before the group is durable.
    fn retire(&mut self, at: u64) -> Result<()>;

    /// Makes sure that the group can be committed with all that it has reserved and retired so far.
    fn end_operation(&mut self) -> Result<()>;

    /// The current savepoint of the open transaction.
    fn savepoint(&self) -> Self::Savepoint;

    /// Takes back what was reserved and retired since `savepoint`.
    fn rollback(&mut self, savepoint: Self::Savepoint);

    /// Bytes of DRAM that a group of `dirty_pages` dirty pages holds, besides its undo list.
    fn held_bytes(&self, dirty_pages: usize) -> usize;

    /// Lets places be used again that snapshots have shown which are gone now. Not between
    /// `prepare` and `resolve`.
    fn reclaim(&mut self);

    /// Writes the page in a frame at the place that was reserved for it; durable after `commit` or
    /// `prepare`. `next` is where the next one will lie, or 0. Cheapest in the order of places.
    fn write(
        &mut self,
        frames: &Frames<Self::Memory>,
        frame: u64,
        at: u64,
        next: u64,
    ) -> Result<()>;

    /// Makes all writes durable and switches the master to the directory whose root is at
    /// `directory`.
    fn commit(&mut self, frames: &mut Frames<Self::Memory>, directory: u64) -> Result<()>;

    /// Makes all writes durable without a decision whether the master is switched.
    fn prepare(&mut self, directory: u64, global: GlobalTxnId) -> Result<()>;

    /// Ends what `prepare` began. After an abort the caller rolls back.
    fn resolve(&mut self, commit: bool) -> Result<()>;

    /// Takes over the frame of a page that was written and committed, or lent.
    fn adopt(&mut self, frames: &mut Frames<Self::Memory>, at: u64, frame: u64);
}
