//! A change of one or more pages that a crash leaves whole or not at all.
//!
//! The pages are latched and the operations collected; then the log gets one record with all of
//! them, and its operations are applied to the pages. Nothing is changed before the record is in
//! the log, so a change that finds the log's disk full has no effect.

use super::{in_batch, in_place};
use crate::buffer::{Home, PageAccess, Pool, Reserve, WriteGuard};
use crate::error::{Result, StorageError};
use crate::log::Lsn;
use crate::page::{Head, Header, Misfit, PageId, PageOp, Section};
use disk::Directory;
use std::borrow::Cow;

/// One change in the making.
#[derive(Default)]
pub struct Change<'p> {
    pages: Vec<Touched<'p>>,
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
    pub fn account(&self, number: usize, look: PageAccess<'_>) {
        self.pages[number].guard.account(look);
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
        let mut reader = crate::record::Reader::new(&self.pages[number].ops);
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
        reserve: Reserve,
        record: &mut Vec<u8>,
    ) -> Result<Lsn> {
        if let Some(home) = pool.home() {
            return change_in_memory(pool, home, &mut self.pages, (head, reserve), record);
        }
        let mut images = 0;
        let encode = &mut |image_from, record: &mut Vec<u8>| {
            images = self.encode(head, image_from, record);
        };
        let lsn = pool.log().insert(reserve, encode, record)?;
        pool.images().add(images);
        for mut page in self.pages {
            if !page.ops.is_empty() {
                apply(pool, &mut page.guard, &page.ops, lsn)?;
            }
        }
        Ok(lsn)
    }

    /// Says how many bytes of the record are images.
    fn encode(&self, head: &Head<'_>, image_from: Lsn, record: &mut Vec<u8>) -> usize {
        head.encode(record);
        let changed = self.pages.iter().filter(|page| !page.ops.is_empty());
        let images = changed.map(|page| {
            let image_from = if page.is_new { Lsn(0) } else { image_from };
            encode_section(&page.guard, image_from, &page.ops, record)
        });
        images.sum()
    }
}

/// Logs a change of pages in durable memory and makes it.
fn change_in_memory<D: Directory>(
    pool: &Pool<D>,
    home: &Home,
    pages: &mut [Touched<'_>],
    head: (&Head<'_>, Reserve),
    record: &mut Vec<u8>,
) -> Result<Lsn> {
    if home.has_copies() {
        in_batch::change((pool, home), pages, head, record)
    } else {
        in_place::change(pool, pages, head, record)
    }
}

/// Logs a change of one page under `head` and makes it: what a [`Change`] does, without a list of
/// pages.
#[inline]
pub(super) fn change_one<D: Directory>(
    pool: &Pool<D>,
    mut guard: WriteGuard<'_>,
    ops: &[u8],
    (head, reserve): (&Head<'_>, Reserve),
    record: &mut Vec<u8>,
) -> Result<Lsn> {
    if let Some(home) = pool.home() {
        let touched = Touched {
            guard,
            ops: Cow::Borrowed(ops),
            is_new: false,
        };
        return change_in_memory(pool, home, &mut [touched], (head, reserve), record);
    }
    let mut image = 0;
    let encode = &mut |image_from, record: &mut Vec<u8>| {
        head.encode(record);
        image = encode_section(&guard, image_from, ops, record);
    };
    let lsn = pool.log().insert(reserve, encode, record)?;
    pool.images().add(image);
    apply(pool, &mut guard, ops, lsn)?;
    Ok(lsn)
}

/// The operations on a page, with the page itself if it has not changed since `image_from`: returns
/// the number of bytes that it takes.
fn encode_section(
    guard: &WriteGuard<'_>,
    image_from: Lsn,
    ops: &[u8],
    record: &mut Vec<u8>,
) -> usize {
    let bytes = guard.bytes();
    let before = (Header(bytes).lsn() < image_from).then_some(bytes);
    let start = record.len();
    Section::encode(guard.id(), before, ops, record);
    if before.is_some() {
        record.len() - start - ops.len()
    } else {
        0
    }
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
    })
}

/// The error for a page of a tree that does not match its parent.
#[cold]
pub(super) fn wrong_page<D: Directory>(pool: &Pool<D>, id: PageId, detail: &str) -> StorageError {
    pool.file().damage(id, detail)
}
