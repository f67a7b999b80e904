//! Values that a leaf has no room for: a chain of long pages.
//!
//! The parts are written from the last to the first, so that each page is made with the reference
//! to the next one. A long value is never changed; a new one takes its place. The chain's length
//! follows from the whole value's, so a damaged reference cannot make a ring.

use super::node::{Kind, LONG_HEADER_BYTES, damaged, other_meta};
use super::{PageStore, Pages};
use storage::Result;

/// Longest value, in bytes; lengths have 30 bits.
const BYTES_MAX: usize = (1 << 30) - 1;

/// Bytes of a value in one page.
fn part_bytes(page_bytes: usize) -> usize {
    page_bytes - LONG_HEADER_BYTES
}

/// Writes a value; gives the reference to its first page.
pub(super) fn write<S: PageStore>(pages: &mut Pages<S>, value: &[u8]) -> Result<u64> {
    if value.len() > BYTES_MAX {
        let text = format!("a row of {} bytes is too long", value.len());
        return Err(storage::StorageError::Unsupported(text));
    }
    let page_bytes = pages.page_bytes();
    let mut next = 0_u64;
    for part in value.chunks(part_bytes(page_bytes)).rev() {
        let mut image = vec![0; page_bytes];
        image[..8].copy_from_slice(&other_meta(Kind::Long).to_le_bytes());
        let sizes = part.len() as u64 | (value.len() as u64) << 32;
        image[16..24].copy_from_slice(&sizes.to_le_bytes());
        image[24..32].copy_from_slice(&next.to_le_bytes());
        image[LONG_HEADER_BYTES..LONG_HEADER_BYTES + part.len()].copy_from_slice(part);
        next = pages.create(&image)?;
    }
    Ok(next)
}

/// One page of a value.
struct ValuePage {
    bytes: usize,
    total: usize,
    next: u64,
}

fn part<S: PageStore>(pages: &mut Pages<S>, reference: u64) -> Result<ValuePage> {
    let room = part_bytes(pages.page_bytes());
    let view = pages.view(reference)?;
    let header = view.words(0, 4)?;
    let found = ValuePage {
        bytes: header[2] as u32 as usize,
        total: (header[2] >> 32) as usize,
        next: header[3],
    };
    if header[0] != other_meta(Kind::Long) || found.bytes > room || found.bytes == 0 {
        return Err(damaged(view.offset(), format!("its header is {header:x?}")));
    }
    Ok(found)
}

/// Called with the reference and the bytes of each page of a value.
type VisitPart<'v, S> = &'v mut dyn FnMut(&mut Pages<S>, u64, usize) -> Result<()>;

/// Calls `visit` for each page of a value, from the first on.
pub(super) fn for_each<S: PageStore>(
    pages: &mut Pages<S>,
    first: u64,
    visit: VisitPart<'_, S>,
) -> Result<()> {
    let (mut reference, mut done, mut total) = (first, 0, None);
    while reference != 0 {
        let found = part(pages, reference)?;
        let expected = *total.get_or_insert(found.total);
        done += found.bytes;
        if found.total != expected || done > expected {
            return Err(damaged(reference, "it is part of another value".to_owned()));
        }
        visit(pages, reference, found.bytes)?;
        reference = found.next;
    }
    if Some(done) == total {
        Ok(())
    } else {
        Err(damaged(first, "its value ends too early".to_owned()))
    }
}

/// Appends a value to `value`.
pub(super) fn read<S: PageStore>(
    pages: &mut Pages<S>,
    first: u64,
    value: &mut Vec<u8>,
) -> Result<()> {
    for_each(pages, first, &mut |pages, reference, bytes| {
        let view = pages.view(reference)?;
        value.extend_from_slice(view.bytes(LONG_HEADER_BYTES, bytes)?);
        Ok(())
    })
}

/// Takes the pages of a value out of the tree.
pub(super) fn discard<S: PageStore>(pages: &mut Pages<S>, first: u64) -> Result<()> {
    let mut references = Vec::new();
    for_each(pages, first, &mut |_, reference, _| {
        references.push(reference);
        Ok(())
    })?;
    references
        .into_iter()
        .try_for_each(|reference| pages.discard(reference))
}
