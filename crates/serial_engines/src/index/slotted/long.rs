//! Values that a page has no room for: chains of long pages.
//!
//! ```text
//! word 0  crc32c of all that follows u32 | bytes of the part u32
//! word 1  next page, or 0
//! bytes   part of the value
//! ```
//!
//! The last part lies in a smaller block where half a page is enough for it. A chain is written
//! whole, in blocks that nothing pointed to, and never changed; its cell has its begin and its
//! length.

use super::cell::Cell;
use super::header::damaged;
use super::pages::SlottedPages;
use pmem::Memory;
use storage::Result;

pub(super) const HEAD_BYTES: usize = 16;

/// Writes a chain; gives its first page.
pub(super) fn write<M: Memory>(pages: &mut SlottedPages<M>, value: &[u8]) -> Result<u64> {
    let room = pages.geometry.page_bytes - HEAD_BYTES;
    let mut next = 0;
    let mut image = std::mem::take(&mut pages.part);
    // From the end, so that every part knows its next one.
    for part in value.chunks(room).rev() {
        let page = pages.allocate_part(HEAD_BYTES + part.len())?;
        image.clear();
        image.extend_from_slice(&[0; 4]);
        image.extend_from_slice(&(part.len() as u32).to_le_bytes());
        image.extend_from_slice(&u64::to_le_bytes(next));
        image.extend_from_slice(part);
        let sum = crc32c::crc32c(&image[4..]);
        image[..4].copy_from_slice(&sum.to_le_bytes());
        let base = pages.base(page)?;
        pages.write_part(base, &mut image)?;
        next = page;
    }
    pages.part = image;
    Ok(next)
}

/// Calls `visit` with each page of a chain and its bytes, head and part.
pub(super) fn for_each<M: Memory>(
    pages: &mut SlottedPages<M>,
    cell: Cell,
    mut visit: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let (mut page, mut left) = cell.long(&pages.arena)?;
    if left > pages.bytes_max() {
        return Err(damaged(cell.at, "a long value is longer than all pages"));
    }
    while left > 0 {
        let wrong = || damaged(page, "a part of a long value has a wrong length");
        let base = pages.base(page)?;
        let head = pages.arena.word(base)?;
        let bytes = (head >> 32) as usize;
        if bytes == 0 || bytes > pages.geometry.page_bytes - HEAD_BYTES {
            return Err(wrong());
        }
        left = left.checked_sub(bytes as u64).ok_or_else(wrong)?;
        let next = pages.arena.word(base + 8)?;
        visit(page, pages.arena.bytes(base, HEAD_BYTES + bytes)?)?;
        page = next;
    }
    Ok(())
}

/// Whether the checksum of a page fits.
pub(super) fn is_sound(page: &[u8]) -> bool {
    let (sum, rest) = page.split_at(4);
    crc32c::crc32c(rest).to_le_bytes() == *sum
}

/// Appends a long value to `buffer`.
pub(super) fn read<M: Memory>(
    pages: &mut SlottedPages<M>,
    cell: Cell,
    buffer: &mut Vec<u8>,
) -> Result<()> {
    for_each(pages, cell, |_, page| {
        buffer.extend_from_slice(&page[HEAD_BYTES..]);
        Ok(())
    })
}

/// Gives the pages of a chain up.
pub(super) fn discard<M: Memory>(pages: &mut SlottedPages<M>, cell: Cell) -> Result<()> {
    let mut chain = Vec::new();
    for_each(pages, cell, |page, _| {
        chain.push(page);
        Ok(())
    })?;
    for page in chain {
        pages.free(page)?;
    }
    Ok(())
}
