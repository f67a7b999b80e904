//! Read-only pages of a snapshot: those that the master pointed to when it was taken.
//!
//! A snapshot has a cache of its own, in ordinary memory, and fills it from where the partition has
//! its pages: the file, or a view of the pool. So its reader shares nothing with the partition's
//! owner except the bytes of pages that nobody stores to while the `Lease` lives (`limbo`). Each
//! page is checked as it is copied: a page that is reused too early is an error and not a wrong
//! answer.

use super::cache::PageCache;
use super::limbo::Lease;
use super::node::{PageView, checksum, damaged, word_of};
use super::{Frames, Lent, PageStore, Purpose};
use disk::File;
use pmem::{NativeMemory, View};
use storage::engine::GlobalTxnId;
use storage::{Result, StorageError};

/// Bytes of a snapshot's cache.
const CACHE_BYTES: usize = 32 << 20;

/// Source of the pages that a snapshot copies, used as a trait object: much code is compiled for
/// each type of snapshot, and a page is loaded only once.
pub trait PageLoader: Send + 'static {
    /// Fills `page` with the page at `at`, which nothing has checked.
    fn load(&mut self, at: u64, page: &mut [u8]) -> Result<()>;

    /// The pool, where pages are in one.
    fn pool(&self) -> Option<&View> {
        None
    }
}

/// Pages of a pool.
pub struct PoolPages(pub View);

impl PageLoader for PoolPages {
    fn load(&mut self, at: u64, page: &mut [u8]) -> Result<()> {
        Ok(self.0.read(at, page)?)
    }

    fn pool(&self) -> Option<&View> {
        Some(&self.0)
    }
}

/// Pages of a file, through a handle of its own.
pub struct FilePages<F: File> {
    pub(super) file: F,
    /// Offset after the last page.
    pub(super) end: u64,
}

impl<F: File> PageLoader for FilePages<F> {
    fn load(&mut self, at: u64, page: &mut [u8]) -> Result<()> {
        if at.saturating_add(page.len() as u64) > self.end {
            return Err(damaged(at, "no page lies there".to_owned()));
        }
        Ok(self.file.read_at(at, page)?)
    }
}

/// The pages of a snapshot of one partition.
pub struct SnapshotStore {
    /// Source of the pages.
    pub loader: Box<dyn PageLoader>,
    page_bytes: usize,
    cache: PageCache,
    scratch: Vec<u8>,
    /// Last, so that nothing is read once it is gone.
    _lease: Lease,
}

impl SnapshotStore {
    pub(super) fn new(loader: impl PageLoader, page_bytes: usize, lease: Lease) -> Self {
        Self {
            loader: Box::new(loader),
            page_bytes,
            cache: PageCache::new(CACHE_BYTES, page_bytes),
            scratch: vec![0; page_bytes],
            _lease: lease,
        }
    }

    #[cold]
    fn load(&mut self, frames: &mut Frames<NativeMemory>, at: u64) -> Result<u64> {
        self.loader.load(at, &mut self.scratch)?;
        if checksum(&self.scratch) != word_of(&self.scratch, 1) {
            return Err(damaged(at, "wrong checksum".to_owned()));
        }
        let frame = self.cache.frame(frames)?;
        frames.store(frame, 0, &self.scratch)?;
        self.cache.insert(at, frame);
        Ok(frame)
    }
}

/// The error of every attempt to change a snapshot.
pub fn unchangeable<T>() -> Result<T> {
    let text = "a snapshot cannot be changed; run a transaction on the database".to_owned();
    Err(StorageError::Unsupported(text))
}

impl PageStore for SnapshotStore {
    type Memory = NativeMemory;
    type Savepoint = ();

    fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    fn group(&self) -> u64 {
        0
    }

    #[inline]
    fn view<'a>(
        &'a mut self,
        frames: &'a mut Frames<NativeMemory>,
        at: u64,
    ) -> Result<PageView<'a, NativeMemory>> {
        let frame = match self.cache.get(at) {
            Some(frame) => frame,
            None => self.load(frames, at)?,
        };
        Ok(frames.view(frame))
    }

    fn prefetch(&self, frames: &Frames<NativeMemory>, at: u64, byte: usize) {
        if let Some(frame) = self.cache.peek(at) {
            frames.prefetch(frame, byte);
        }
    }

    fn lend(&mut self, _frames: &mut Frames<NativeMemory>, _from: u64, _to: u64) -> Result<Lent> {
        unchangeable()
    }

    fn reserve(&mut self, _purpose: Purpose) -> Result<u64> {
        unchangeable()
    }

    fn retire(&mut self, _at: u64) -> Result<()> {
        unchangeable()
    }

    fn end_operation(&mut self) -> Result<()> {
        unchangeable()
    }

    fn savepoint(&self) {}

    fn rollback(&mut self, _mark: ()) {}

    fn held_bytes(&self, _dirty_pages: usize) -> usize {
        0
    }

    fn reclaim(&mut self) {}

    fn write(
        &mut self,
        _frames: &Frames<NativeMemory>,
        _frame: u64,
        _at: u64,
        _next: u64,
    ) -> Result<()> {
        unchangeable()
    }

    fn commit(&mut self, _frames: &mut Frames<NativeMemory>, _directory: u64) -> Result<()> {
        unchangeable()
    }

    fn prepare(&mut self, _directory: u64, _global: GlobalTxnId) -> Result<()> {
        unchangeable()
    }

    fn resolve(&mut self, _commit: bool) -> Result<()> {
        unchangeable()
    }

    fn adopt(&mut self, frames: &mut Frames<NativeMemory>, _at: u64, frame: u64) {
        frames.give(frame);
    }
}
