//! A change of one or more pages that a crash leaves whole or not at all.
//!
//! The pages are latched and the operations collected; then one record is built of all of them and
//! appended to the log, and its operations are applied to the pages. Nothing is changed before the
//! record is in the log, so a change that finds the log's disk full has no effect.

use super::{in_batch, in_place};
use crate::buffer::{Changes, PageAccess, Pool, UndoSpace, WriteGuard};
use crate::page::{Head, Header, Misfit, PageId, PageOp, Section};
use disk::Directory;
use std::borrow::Cow;
use storage::log::Lsn;
use storage::{Result, StorageError};

/// One change in the making.
#[derive(Default)]
pub struct Change<'p> {
    pub(super) pages: Vec<Touched<'p>>,
}

/// A page that a change touches.
pub(super) struct Touched<'p> {
    pub(super) guard: WriteGuard<'p>,
    /// Operations on it.
    pub(super) ops: Cow<'p, [u8]>,
    /// Its content need not be in the log: the page was free before.
    pub(super) is_new: bool,
}

impl<'p> Change<'p> {
    /// A change of nothing yet.
    pub fn new() -> Self {
        Self {
            pages: Vec::with_capacity(4),
        }
    }

    /// Adds a page; returns its number in this change.
    pub fn add(&mut self, guard: WriteGuard<'p>) -> usize {
        debug_assert!(self.find(guard.id()).is_none(), "a change has a page twice");
        self.pages.push(Touched {
            guard,
            ops: Cow::default(),
            is_new: false,
        });
        self.pages.len() - 1
    }

    /// Adds a page that was free, to be formatted by the first operation.
    pub fn add_new(&mut self, guard: WriteGuard<'p>) -> usize {
        let number = self.add(guard);
        self.pages[number].is_new = true;
        number
    }

    /// The number of a page that is here.
    pub fn find(&self, id: PageId) -> Option<usize> {
        self.pages.iter().position(|page| page.guard.id() == id)
    }

    /// A page as it was before the change.
    pub fn bytes(&self, number: usize) -> &[u8] {
        self.pages[number].guard.bytes()
    }

    /// Accounts for what has been read of a page.
    pub fn record_access(&self, number: usize, access: PageAccess<'_>) {
        self.pages[number].guard.record_access(access);
    }

    /// The id of a page.
    pub fn id(&self, number: usize) -> PageId {
        self.pages[number].guard.id()
    }

    /// Adds an operation on a page.
    pub fn push(&mut self, number: usize, op: PageOp<'_>) {
        op.encode(self.pages[number].ops.to_mut());
    }

    /// Bits of a map that the change is going to set or clear, oldest first.
    pub fn pending_bits(&self, number: usize) -> Vec<(u32, bool)> {
        let mut reader = storage::record::Reader::new(&self.pages[number].ops);
        let mut bits = Vec::new();
        while let Ok(op) = PageOp::decode(&mut reader) {
            if let PageOp::Bit { index, is_used } = op {
                bits.push((index, is_used));
            }
        }
        bits
    }

    /// Logs the change under `head` and makes it.
    pub fn finish<D: Directory>(
        mut self,
        pool: &Pool<D>,
        head: &Head<'_>,
        reserve: UndoSpace,
        buffer: &mut Vec<u8>,
    ) -> Result<Lsn> {
        make(pool, &mut self.pages, (head, reserve), buffer)
    }
}

/// Logs a change of pages and makes it, in the pages or in copies of them.
#[inline]
pub(super) fn make<D: Directory>(
    pool: &Pool<D>,
    pages: &mut [Touched<'_>],
    head: (&Head<'_>, UndoSpace),
    buffer: &mut Vec<u8>,
) -> Result<Lsn> {
    match pool.changes() {
        Changes::InBuffers => make_in_buffers(pool, pages, head, buffer),
        Changes::InPlace(resident) => in_place::change((pool, resident), pages, head, buffer),
        Changes::InCopies(resident) => in_batch::change((pool, resident), pages, head, buffer),
    }
}

fn make_in_buffers<D: Directory>(
    pool: &Pool<D>,
    pages: &mut [Touched<'_>],
    (head, reserve): (&Head<'_>, UndoSpace),
    buffer: &mut Vec<u8>,
) -> Result<Lsn> {
    let log = pool.log();
    let lsn = loop {
        let mut record = log.begin_record(buffer);
        record.head(head);
        for Touched { guard, ops, is_new } in pages.iter().filter(|page| !page.ops.is_empty()) {
            if *is_new {
                debug_assert!(
                    Section::new(guard.id(), ops).is_whole(),
                    "a page that was free is not formatted first"
                );
                record.section(guard.id(), ops);
            } else {
                record.section_of(guard.id(), guard.bytes(), ops);
            }
        }
        let image_bytes = record.image_bytes();
        if let Some(lsn) = log.append(reserve, record)? {
            pool.images().add(image_bytes);
            break lsn;
        }
        // A checkpoint has begun, after which the pages are logged whole.
    };
    for Touched { guard, ops, .. } in pages.iter_mut().filter(|page| !page.ops.is_empty()) {
        apply(pool, guard, ops, lsn)?;
    }
    Ok(lsn)
}

fn apply<D: Directory>(
    pool: &Pool<D>,
    guard: &mut WriteGuard<'_>,
    ops: &[u8],
    lsn: Lsn,
) -> Result<()> {
    let id = guard.id();
    let section = Section::new(id, ops);
    section.apply(guard.bytes_mut(), lsn).map_err(|Misfit| {
        let error = pool
            .file()
            .damage(id, "the page does not fit what it was to become");
        pool.log().refuse(&error);
        error
    })?;
    debug_assert_eq!(
        Header(guard.bytes()).lsn(),
        lsn,
        "a changed page does not name its record"
    );
    Ok(())
}

/// The error for a page of a tree that does not match its parent.
#[cold]
pub(super) fn wrong_page<D: Directory>(pool: &Pool<D>, id: PageId, detail: &str) -> StorageError {
    pool.file().damage(id, detail)
}
