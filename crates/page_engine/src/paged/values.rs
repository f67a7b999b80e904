//! Values of any length in a tree, and rows as values.
//!
//! A value lies in its cell where it fits, else in pages of its own that a stub in the cell names.
//! Callers that change a value have locked its key.

use super::long;
use super::search_path::SearchPath;
use super::space::Pages;
use super::transaction::{Entry, Transaction};
use super::tree::{Stored, Tree};
use crate::page::PageId;
use disk::Directory;
use std::ops::ControlFlow;
use storage::Result;
use storage::engine::Direction;
use storage::record::{KeyBuf, Row};

/// Adds a value of any length; false, and no effect, if its key is there.
pub(super) fn put_value<D: Directory>(
    pages: &Pages<D>,
    (tree, search_path): (Tree, &mut SearchPath),
    key: &[u64],
    value: &[u8],
    txn: &mut Transaction,
) -> Result<bool> {
    let fits = value.len() <= tree.value_bytes_max(pages.page_bytes());
    if !fits && tree.get(pages, key, |_| ())?.is_some() {
        return Ok(false);
    }
    let mut stub = [0; long::STUB_BYTES];
    let stored = store(pages, tree, value, &mut stub, txn)?;
    let is_new = tree.insert(pages, (key, search_path), stored, &mut Entry::Undoable(txn))?;
    debug_assert!(is_new || fits, "a locked key has come meanwhile");
    Ok(is_new)
}

/// Gives a key that is there a value of any length.
pub(super) fn replace_value<D: Directory>(
    pages: &Pages<D>,
    (tree, search_path): (Tree, &mut SearchPath),
    key: &[u64],
    value: &[u8],
    txn: &mut Transaction,
) -> Result<bool> {
    let mut stub = [0; long::STUB_BYTES];
    let stored = store(pages, tree, value, &mut stub, txn)?;
    let give_up = |old: Stored<'_>, entry: &mut Entry<'_>| long::give_up(pages, old, entry);
    let entry = &mut Entry::Undoable(txn);
    tree.replace(pages, (key, search_path), stored, entry, give_up)
}

/// Content of a cell for a value: all of it, or a stub that names pages of its own.
fn store<'v, D: Directory>(
    pages: &Pages<D>,
    tree: Tree,
    value: &'v [u8],
    stub: &'v mut [u8; long::STUB_BYTES],
    txn: &mut Transaction,
) -> Result<Stored<'v>> {
    let is_long = value.len() > tree.value_bytes_max(pages.page_bytes());
    let bytes = if is_long {
        *stub = long::write(pages, value, txn)?;
        &stub[..]
    } else {
        value
    };
    Ok(Stored { bytes, is_long })
}

pub(super) fn remove_value<D: Directory>(
    pages: &Pages<D>,
    (tree, search_path): (Tree, &mut SearchPath),
    key: &[u64],
    txn: &mut Transaction,
) -> Result<bool> {
    let give_up = |old: Stored<'_>, entry: &mut Entry<'_>| long::give_up(pages, old, entry);
    tree.remove(
        pages,
        (key, search_path),
        &mut Entry::Undoable(txn),
        give_up,
    )
}

/// Pages of all long values of a tree.
pub(super) fn long_pages<D: Directory>(
    pages: &Pages<D>,
    tree: Tree,
    found: &mut Vec<PageId>,
) -> Result<()> {
    let (low, high) = (vec![0; tree.key_words], vec![u64::MAX; tree.key_words]);
    let visit = &mut |_: &[u8], stored: Stored<'_>| {
        if stored.is_long {
            long::walk(pages, stored.bytes, &mut |id, _| found.push(id))?;
        }
        Ok(ControlFlow::Continue(()))
    };
    tree.scan(pages, (&low, &high), Direction::Forward, visit)
}

/// Copies the row of a key into `row`; `value` is a buffer for one that does not lie in its cell.
#[inline]
pub(super) fn get_row<D: Directory>(
    pages: &Pages<D>,
    (tree, search_path): (Tree, &mut SearchPath),
    key: &[u64],
    value: &mut Vec<u8>,
    row: &mut Row,
) -> Result<bool> {
    let found = tree.get_again(pages, key, search_path, |stored| {
        // A stub is never read as a row, however long it is.
        !stored.is_long && row.read_image(stored.bytes)
    })?;
    match found {
        None => Ok(false),
        Some(true) => Ok(true),
        // It is long, or too short for a row.
        Some(false) => {
            let is_there = get_value(pages, (tree, search_path), key, value)?;
            read_row(pages, tree, value, row).map(|()| is_there)
        }
    }
}

/// Copies the value of a key, of any length, into `value`; false if there is none.
pub(super) fn get_value<D: Directory>(
    pages: &Pages<D>,
    (tree, search_path): (Tree, &mut SearchPath),
    key: &[u64],
    value: &mut Vec<u8>,
) -> Result<bool> {
    value.clear();
    let found = tree.get_again(pages, key, search_path, |stored| {
        value.extend_from_slice(stored.bytes);
        stored.is_long
    })?;
    if found == Some(true) {
        let stub = std::mem::take(value);
        let stored = Stored {
            bytes: &stub,
            is_long: true,
        };
        long::read(pages, stored, value)?;
    }
    Ok(found.is_some())
}

pub(super) fn read_stored<D: Directory>(
    pages: &Pages<D>,
    tree: Tree,
    stored: Stored<'_>,
    value: &mut Vec<u8>,
    row: &mut Row,
) -> Result<()> {
    if !stored.is_long {
        return read_row(pages, tree, stored.bytes, row);
    }
    value.clear();
    long::read(pages, stored, value)?;
    read_row(pages, tree, value, row)
}

/// Lets `row` be the row of an image.
#[inline]
pub(super) fn read_row<D: Directory>(
    pages: &Pages<D>,
    tree: Tree,
    image: &[u8],
    row: &mut Row,
) -> Result<()> {
    if row.read_image(image) {
        return Ok(());
    }
    let text = format!("a row of {} bytes is too short for its table", image.len());
    Err(pages.pool.file().damage(tree.root, &text))
}

/// Lets `key` have the words of a key on a page, or zeros for those that are missing.
pub fn assign(key: &mut KeyBuf, words: usize, bytes: &[u8]) {
    let on_page = crate::page::slotted::key_words(bytes);
    let key = key.resized(words);
    key.fill(0);
    key.iter_mut()
        .zip(on_page)
        .for_each(|(to, from)| *to = from);
}
