//! Offsets of pages in their file: page `n` lies at `n` times the length of a page.
//!
//! The first pages would lie where the master records are, so their numbers are never used. Pages
//! in durable memory have the same numbers and offsets.

use super::master::HEAD_BYTES;
use crate::page::PageId;
use storage::StorageError;

/// Offsets of pages that lie one after the other in `bytes`, neighbours together.
pub(super) fn runs<'b>(ids: &[PageId], bytes: &'b [u8], page_bytes: usize) -> Vec<(u64, &'b [u8])> {
    debug_assert_eq!(
        bytes.len(),
        ids.len() * page_bytes,
        "each page of a run has its bytes"
    );
    let mut rest = bytes;
    let neighbours = ids.chunk_by(|one, next| one.0 + 1 == next.0);
    let writes = neighbours.map(|run| {
        let (now, later) = rest.split_at(run.len() * page_bytes);
        rest = later;
        (u64::from(run[0].0) * page_bytes as u64, now)
    });
    writes.collect()
}

/// The first page after the master records.
pub fn first_page(page_bytes: usize) -> PageId {
    PageId((HEAD_BYTES as u32).div_ceil(page_bytes as u32))
}

#[cold]
pub(super) fn page_damage(file: &str, offset: u64, detail: &str) -> StorageError {
    StorageError::damaged_file(file, offset, detail)
}
