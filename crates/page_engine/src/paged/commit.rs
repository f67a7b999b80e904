//! The end of a transaction: its commit record, and the pages that are free then.
//!
//! A commit is one record, with the pages that the transaction gives up. The transaction has
//! committed if the record is durable (`engine/group.rs` says when that is); then the pages
//! are freed one by one, a record each, and a recovery that finds the commit frees the rest. A
//! transaction over several partitions is prepared first, with the same pages.

use super::change::Change;
use super::space::Pages;
use super::transaction::Transaction;
use super::tree::Tree;
use crate::buffer::{PageAccess, UndoSpace};
use crate::page::{Head, Header, PageId, TxnId};
use disk::Directory;
use storage::Result;
use storage::engine::GlobalTxnId;
use storage::log::Lsn;

/// Room for the record of a transaction's end, with what the log puts around it.
const HEAD_RECORD_BYTES: usize = 128;
/// Maps that freeing may have to log whole.
const FREED_MAPS: u64 = 4;

impl<D: Directory> Pages<D> {
    /// Logs that a transaction is committed; returns the record's LSN, and the pages that are to be
    /// freed then. Nothing is durable yet. If it fails the transaction can be undone.
    pub fn commit(&self, txn: &Transaction) -> Result<(Lsn, Vec<PageId>)> {
        assert!(
            txn.is_logged,
            "a transaction is committed that has no record"
        );
        let frees = self.given_up(txn, true)?;
        self.commit_freeing(txn.id, txn.session, frees)
    }

    pub(super) fn commit_freeing(
        &self,
        txn: TxnId,
        session: u32,
        frees: Vec<PageId>,
    ) -> Result<(Lsn, Vec<PageId>)> {
        debug_assert!(
            !frees.contains(&PageId(0)),
            "a commit frees the page of the master records"
        );
        let reserve = self.reserve_for_freeing(session, frees.len());
        let head = Head::Commit(txn, self.clock.now(), frees);
        let lsn = self.log_head(&head, reserve)?;
        match head {
            Head::Commit(.., frees) => Ok((lsn, frees)),
            _ => Ok((lsn, Vec::new())),
        }
    }

    /// All pages that a transaction gives up as it ends, those of trees included.
    pub(super) fn given_up(&self, txn: &Transaction, is_committed: bool) -> Result<Vec<PageId>> {
        let mut frees = txn.undone_pages.clone();
        if is_committed {
            frees.extend_from_slice(&txn.frees);
        }
        for &root in &txn.undone_trees {
            let page = self.pool.read(root)?;
            page.record_access(PageAccess::Header);
            let key_words = Header(page.bytes()).key_words();
            drop(page);
            let tree = Tree { root, key_words };
            tree.pages(self, &mut |id, _| frees.push(id))?;
        }
        Ok(frees)
    }

    /// Logs a mark, for which there has to be as much room as for a change. It needs none of it
    /// later.
    pub fn mark(&self, session: u32, number: GlobalTxnId) -> Result<Lsn> {
        let head = Head::Mark(number, self.clock.now());
        let logged = self.log_head(&head, UndoSpace::Bytes(session, 0));
        self.pool.log().end(session);
        logged
    }

    /// Logs that a transaction is prepared, with the pages that its commit frees; returns the
    /// record's LSN.
    pub fn prepare(&self, txn: &Transaction, global: GlobalTxnId) -> Result<Lsn> {
        assert!(
            txn.is_logged,
            "a transaction is prepared that has no record"
        );
        let frees = self.given_up(txn, true)?;
        let bytes = txn.rollback_bytes(self.log_room()) + self.freed_bytes(frees.len());
        let reserve = UndoSpace::Bytes(txn.session, bytes);
        self.log_head(&Head::Prepare(txn.id, global, frees), reserve)
    }

    pub(super) fn log_head(&self, head: &Head<'_>, reserve: UndoSpace) -> Result<Lsn> {
        let buffer = &mut Vec::with_capacity(HEAD_RECORD_BYTES);
        let mut record = self.pool.log().begin_record(buffer);
        record.head(head);
        self.pool.log().insert(reserve, record)
    }

    /// Ends a transaction of which the log has nothing that recovery needs.
    pub fn forget(&self, txn: &mut Transaction) {
        debug_assert!(
            txn.undo.is_empty(),
            "a transaction is forgotten that has something to undo"
        );
        txn.is_logged = false;
        if std::mem::take(&mut txn.has_claim) {
            self.pool.log().end(txn.session);
        }
    }

    /// The log space that a session's transaction needs once it has ended.
    pub(super) fn reserve_for_freeing(&self, session: u32, pages: usize) -> UndoSpace {
        if pages == 0 {
            UndoSpace::End(session)
        } else {
            UndoSpace::Bytes(session, self.freed_bytes(pages))
        }
    }

    fn freed_bytes(&self, pages: usize) -> u64 {
        if pages == 0 {
            return 0;
        }
        pages as u64 * self.log_room().freed_bytes + FREED_MAPS * self.page_bytes() as u64
    }

    /// Frees pages that the end of a transaction names, in their order.
    pub fn free(&self, txn: TxnId, session: u32, pages: &[PageId]) -> Result<()> {
        if pages.is_empty() {
            return Ok(());
        }
        let mut record = Vec::new();
        for &id in pages {
            self.pool.log().make_way()?;
            let mut change = Change::new();
            self.release(&mut change, id)?;
            let reserve = UndoSpace::Keep(session);
            change.finish(&self.pool, &Head::Freed(txn), reserve, &mut record)?;
        }
        self.pool.log().end(session);
        Ok(())
    }
}
