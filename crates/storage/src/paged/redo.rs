//! Redo: what the log says is repeated on every page that does not have it.
//!
//! Changes are collected from the log, as many as there is room for, and repeated page by page in the order of the file: a page is read and written
//! once for all of its changes among these, however small the buffer pool is. The changes of a page depend on no other page, so several threads repeat
//! them where the engine may have threads, and reads of a disk overlap.
//!
//! Invariants:
//! 1. A page that redo looks at is written again, even if it had the change: another process may have written it without knowing
//!    that it is durable, and the checkpoint that follows says that it is.
//! 2. A page is not read if its first change brings it back whole: what it has beyond that, the log has too.
//! 3. The changes of a page are repeated by one thread, in the order of the log.

use super::space::Pages;
use crate::error::{Result, StorageError};
use crate::log::Lsn;
use crate::page::{Head, Header, Misfit, PageId, Section};
use crate::record::{DecodeError, Reader};
use disk::Directory;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, ScopedJoinHandle, scope};

/// Most threads: more than there are cores, since they wait for reads.
const THREADS_MAX: usize = 8;
/// Pages that a thread takes at once, and that make a thread worth while.
const PAGES_AT_ONCE: usize = 16;
const PAGES_A_THREAD: usize = 64;
/// Room for changes: this share of the buffer pool's, between these bytes.
const POOL_SHARE: u64 = 2;
const ROOM_MIN: u64 = 1 << 20;
const ROOM_MAX: u64 = 64 << 20;

/// Changes of pages that are to be repeated.
pub struct Redo<'p, D: Directory> {
    pages: &'p Pages<D>,
    /// Where redo begins.
    from: Lsn,
    has_threads: bool,
    room: usize,
    /// Sections of records, one after the other.
    bytes: Vec<u8>,
    changes: Vec<Repeated>,
}

/// A change that is to be repeated.
struct Repeated {
    page: PageId,
    lsn: Lsn,
    /// Where its section is.
    bytes: Range<usize>,
}

impl<'p, D: Directory> Redo<'p, D> {
    /// Redo from a place of the log on, over a buffer pool of so many bytes.
    pub fn new(pages: &'p Pages<D>, from: Lsn, buffer_bytes: u64, has_threads: bool) -> Self {
        let room = (buffer_bytes / POOL_SHARE).clamp(ROOM_MIN, ROOM_MAX) as usize;
        Self {
            pages,
            from,
            has_threads,
            room,
            bytes: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Takes the next record.
    pub fn record(&mut self, lsn: Lsn, record: &[u8]) -> Result<()> {
        if lsn < self.from {
            return Ok(());
        }
        let log_damage = |error| log_damage(lsn, &error);
        let mut reader = Reader::new(record);
        Head::decode(&mut reader).map_err(log_damage)?;
        while reader.remaining() > 0 {
            let from = record.len() - reader.remaining();
            let section = Section::decode(&mut reader).map_err(log_damage)?;
            let begin = self.bytes.len();
            let to = record.len() - reader.remaining();
            self.bytes.extend_from_slice(&record[from..to]);
            self.changes.push(Repeated {
                page: section.page,
                lsn,
                bytes: begin..self.bytes.len(),
            });
        }
        if self.bytes.len() + size_of_val(&*self.changes) < self.room {
            return Ok(());
        }
        self.repeat()
    }

    /// Repeats all changes that were taken.
    pub fn repeat(&mut self) -> Result<()> {
        // Those of a page stay in their order.
        self.changes.sort_by_key(|change| change.page);
        let Some(last) = self.changes.last() else {
            return Ok(());
        };
        self.pages.pool.grow(last.page.0 + 1)?;
        let of_pages = self
            .changes
            .chunk_by(|change, next| change.page == next.page);
        let of_pages: Vec<_> = of_pages.collect();
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let from = next.fetch_add(PAGES_AT_ONCE, Ordering::Relaxed);
                if from >= of_pages.len() {
                    return Ok(());
                }
                for changes in of_pages.iter().skip(from).take(PAGES_AT_ONCE) {
                    let repeated = self.repeat_on_page(changes);
                    // The others are to end as well.
                    repeated.inspect_err(|_| next.store(of_pages.len(), Ordering::Relaxed))?;
                }
            }
        };
        let threads = THREADS_MAX.min(of_pages.len() / PAGES_A_THREAD);
        if self.has_threads && threads > 1 {
            scope(|scope| {
                let others: Vec<_> = (1..threads)
                    // Where no thread is to be had, the others do its part.
                    .filter_map(|_| Builder::new().spawn_scoped(scope, work).ok())
                    .collect();
                let own = work();
                let ended = others.into_iter().map(ScopedJoinHandle::join);
                let ended = ended.map(|done| done.unwrap_or(Err(StorageError::Poisoned)));
                ended.fold(own, Result::and)
            })?;
        } else {
            work()?;
        }
        drop(of_pages);
        self.changes.clear();
        self.bytes.clear();
        Ok(())
    }

    fn repeat_on_page(&self, changes: &[Repeated]) -> Result<()> {
        let mut found = None;
        for change in changes {
            let section = Section::decode(&mut Reader::new(&self.bytes[change.bytes.clone()]));
            let section = section.map_err(|error| log_damage(change.lsn, &error))?;
            let pool = &self.pages.pool;
            let (page, is_intact) = match &mut found {
                Some(found) => found,
                None => found.insert(pool.recover(section.page, section.is_whole())?),
            };
            if !*is_intact && !section.is_whole() {
                let text =
                    "the page was torn by a power cut, and neither the log nor a copy has it whole";
                return Err(pool.file().damage(section.page, text));
            }
            // It counts as changed in any case (invariant 1).
            let bytes = page.bytes_mut();
            if *is_intact && Header(bytes).lsn() >= change.lsn {
                continue;
            }
            let repeated = section
                .restore(bytes)
                .and_then(|()| section.apply(bytes, change.lsn));
            repeated.map_err(|Misfit| {
                let text = format!("the log record at {} does not fit the page", change.lsn.0);
                pool.file().damage(section.page, &text)
            })?;
            *is_intact = true;
        }
        Ok(())
    }
}

fn log_damage(lsn: Lsn, error: &DecodeError) -> StorageError {
    let text = format!("the log record at {} cannot be read: {error}", lsn.0);
    StorageError::Unsupported(text)
}
