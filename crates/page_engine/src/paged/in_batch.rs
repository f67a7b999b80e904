//! Changes of pages that become durable with their batch (*NVRAM Group Commit* of NVRAM-era).
//!
//! A change is made in copies of its pages; the log gets the undo of the row, and keeps it only as
//! long as the transaction is open. Nothing is durable, and nobody waits, before the batch is
//! closed (`buffer/batch_log.rs`).

use super::change::Touched;
use crate::buffer::{Pool, ResidentPages, UndoSpace};
use crate::page::{Head, Header, Misfit, PageId, Section};
use disk::Directory;
use storage::Result;
use storage::log::Lsn;

/// Logs a change of pages and makes it in their copies.
pub(super) fn change<D: Directory>(
    (pool, resident): (&Pool<D>, &ResidentPages),
    pages: &mut [Touched<'_>],
    (head, reserve): (&Head<'_>, UndoSpace),
    buffer: &mut Vec<u8>,
) -> Result<Lsn> {
    let count = pages.len();
    let apply = &mut |lsn: Lsn, changed: &mut Vec<PageId>| {
        for touched in pages.iter_mut().filter(|touched| !touched.ops.is_empty()) {
            let id = touched.guard.id();
            let (copy, is_first) = touched.guard.copy_mut(resident);
            if is_first {
                changed.push(id);
            }
            let applied = Section::new(id, &touched.ops).apply(copy, lsn);
            applied.map_err(|Misfit| {
                let text = "the page does not fit what it was to become";
                pool.file().damage(id, text)
            })?;
            debug_assert_eq!(
                Header(copy).lsn(),
                lsn,
                "a changed page does not name its record"
            );
        }
        Ok(())
    };
    let mut record = pool.log().begin_record(buffer);
    record.head(head);
    pool.log().append_applying(reserve, record, (count, apply))
}
