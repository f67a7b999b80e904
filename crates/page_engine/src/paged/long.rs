//! Values that are too long for a leaf, in a chain of pages.
//!
//! The cell has the value's length (u32) and the first page (u32). A chain is written from its end,
//! a page a log record, before the cell that names it, and by each record its page is free again if
//! the transaction is undone; so a crash in the middle leaks nothing. A chain is never changed: a
//! new value gets a new one, and the old one's pages are freed when the transaction has ended.

use super::change::Change;
use super::space::Pages;
use super::transaction::{Entry, Transaction};
use super::tree::Stored;
use crate::buffer::PageAccess;
use crate::page::slotted::capacity;
use crate::page::{Header, PageId, PageKind, PageOp, Undo};
use disk::Directory;
use storage::Result;

/// Bytes that a cell has of a long value.
pub const STUB_BYTES: usize = 8;

/// Writes a value and returns what its cell has.
pub fn write<D: Directory>(
    pages: &Pages<D>,
    value: &[u8],
    txn: &mut Transaction,
) -> Result<[u8; STUB_BYTES]> {
    assert!(
        u32::try_from(value.len()).is_ok(),
        "a value is longer than its cell can say"
    );
    let mut next = PageId(0);
    for piece in value.chunks(capacity(pages.page_bytes())).rev() {
        let mut change = Change::new();
        let id = pages.allocate(&mut change)?;
        let page = change.add_new(pages.pool.blank(id)?);
        change.push(
            page,
            PageOp::Format {
                kind: PageKind::Long,
                level: 0,
                key_words: 0,
                link: next,
            },
        );
        change.push(page, PageOp::Content { bytes: piece });
        let undo = Undo::FreePage(id);
        Entry::Undoable(txn).log(&pages.pool, pages.log_room(), &undo, change)?;
        txn.taken += 1;
        next = id;
    }
    assert_ne!(next, PageId(0), "a long value has a first page");
    Ok(stub_of(value.len() as u32, next))
}

/// Appends a value, from its cell or from pages of its own.
pub fn read<D: Directory>(pages: &Pages<D>, stored: Stored<'_>, value: &mut Vec<u8>) -> Result<()> {
    if !stored.is_long {
        value.extend_from_slice(stored.bytes);
        return Ok(());
    }
    walk(pages, stored.bytes, &mut |_, piece| {
        value.extend_from_slice(piece);
    })
}

/// Calls `visit` with the number and the content of each page of a value; with none if it lies in
/// its leaf.
pub fn walk<D: Directory>(
    pages: &Pages<D>,
    stub: &[u8],
    visit: &mut dyn FnMut(PageId, &[u8]),
) -> Result<()> {
    walk_some(pages, stub, usize::MAX, visit).map(|_| ())
}

/// As [`walk`], for so many pages at most: returns the first of the others, and a stub for what is
/// left from it on.
pub fn walk_some<D: Directory>(
    pages: &Pages<D>,
    stub: &[u8],
    most_pages: usize,
    visit: &mut dyn FnMut(PageId, &[u8]),
) -> Result<Option<(PageId, [u8; STUB_BYTES])>> {
    let number = |at: usize| {
        let bytes = stub.get(at..at + 4).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |&bytes| u32::from_le_bytes(bytes))
    };
    let (mut left, mut id) = (number(0) as usize, PageId(number(4)));
    let most = pages.pool.readers().pages() as usize * capacity(pages.page_bytes());
    if left > most {
        let detail = "a cell names a long value that is longer than the file";
        return Err(super::change::wrong_page(&pages.pool, id, detail));
    }
    let mut room = most_pages;
    while left > 0 {
        if room == 0 {
            return Ok(Some((id, stub_of(left as u32, id))));
        }
        room -= 1;
        let page = pages.pool.read(id)?;
        let header = Header(page.bytes());
        let bytes = header.slots();
        page.record_access(PageAccess::Content(bytes));
        // All pieces are full but the last, so no chain is longer than its value.
        let is_piece = header.kind() == Some(PageKind::Long)
            && bytes == left.min(capacity(pages.page_bytes()));
        if !is_piece {
            let detail = "the page is not the piece of a long value that another one says it is";
            return Err(super::change::wrong_page(&pages.pool, id, detail));
        }
        let from = crate::page::header::HEADER_BYTES;
        visit(id, &page.bytes()[from..from + bytes]);
        left -= bytes;
        id = header.link();
    }
    Ok(None)
}

fn stub_of(value_bytes: u32, first: PageId) -> [u8; STUB_BYTES] {
    let mut stub = [0; STUB_BYTES];
    stub[..4].copy_from_slice(&value_bytes.to_le_bytes());
    stub[4..].copy_from_slice(&first.0.to_le_bytes());
    stub
}

/// Notes that the pages of a value are free when the transaction ends.
pub fn give_up<D: Directory>(
    pages: &Pages<D>,
    stored: Stored<'_>,
    entry: &mut Entry<'_>,
) -> Result<()> {
    if !stored.is_long || !entry.frees() {
        return Ok(());
    }
    let frees = &mut entry.transaction().frees;
    walk(pages, stored.bytes, &mut |id, _| frees.push(id))
}
