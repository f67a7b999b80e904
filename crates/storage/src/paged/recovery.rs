//! Undoing, ending and recovering transactions.
//!
//! Recovery reads the log twice (ARIES): *analysis* finds the transactions that have not ended,
//! with their undo entries, and the pages that ended ones still had to free; *redo* (`redo`)
//! repeats every change on every page that does not have it. Then uncommitted transactions are
//! undone like any rollback, with compensation records in the log, so that a crash meanwhile loses
//! no progress.

use super::change::Change;
use super::search_path::SearchPath;
use super::space::Pages;
use super::transaction::{Entry, Transaction, TransactionMark};
use super::tree::{Stored, Tree};
use crate::buffer::{PageAccess, Reserve};
use crate::error::{Result, StorageError};
use crate::log::Lsn;
use crate::page::{Head, Header, KeyOf, PageId, TxnId, Undo};
use crate::record::{DecodeError, KeyBuf, Reader};
use crate::vocabulary::GlobalTxnId;
use disk::Directory;
use std::collections::{BTreeMap, VecDeque};

/// Room for the record of a transaction's end, with what the log puts around it.
const HEAD_RECORD_BYTES: usize = 128;
/// Maps that freeing may have to log whole.
const FREED_MAPS: u64 = 4;
/// Result of the analysis.
#[derive(Debug, Default)]
pub struct Analysis {
    /// Transactions that have not ended.
    pub open: BTreeMap<TxnId, Transaction>,
    /// Those of them whose fate is in the commit table, with the pages that a commit frees.
    pub prepared: BTreeMap<TxnId, (GlobalTxnId, Vec<PageId>)>,
    /// Pages that transactions which have ended had not freed yet, with their sessions.
    pub frees: BTreeMap<TxnId, (u32, VecDeque<PageId>)>,
    /// Records, including those that do not count.
    pub records: u64,
    /// Commits.
    pub commits: u64,
    /// No transaction has this number or a higher one.
    pub next_txn: u64,
}

impl Analysis {
    /// Takes the next record, and in which session's part of the log it was.
    pub fn record(&mut self, session: u32, bytes: &[u8]) -> Result<(), DecodeError> {
        let head = Head::decode(&mut Reader::new(bytes))?;
        self.records += 1;
        let txn = match &head {
            Head::Change | Head::Mark(..) => return Ok(()),
            Head::Forward(txn, _)
            | Head::Compensation(txn, _)
            | Head::Commit(txn, ..)
            | Head::Abort(txn, _)
            | Head::Prepare(txn, ..)
            | Head::Freed(txn) => *txn,
        };
        self.next_txn = self.next_txn.max(txn.0 + 1);
        match head {
            Head::Change | Head::Mark(..) => {}
            Head::Forward(_, undo) => self.open(txn, session).undo.push(undo),
            Head::Compensation(_, left) => {
                let open = self.open(txn, session);
                while open.undo.len() > left as usize {
                    let entry = open.undo.last().map(Undo::decode).transpose()?;
                    match entry {
                        Some(Undo::FreePage(page)) => open.undone_pages.push(page),
                        Some(Undo::FreeTree(root)) => open.undone_trees.push(root),
                        _ => {}
                    }
                    open.undo.pop();
                }
            }
            Head::Commit(.., pages) => {
                self.commits += 1;
                self.end(txn, session, pages);
            }
            Head::Abort(_, pages) => self.end(txn, session, pages),
            Head::Prepare(_, global, pages) => {
                self.open(txn, session);
                self.prepared.insert(txn, (global, pages));
            }
            Head::Freed(_) => {
                if let Some((_, pages)) = self.frees.get_mut(&txn) {
                    pages.pop_front();
                    if pages.is_empty() {
                        self.frees.remove(&txn);
                    }
                }
            }
        }
        Ok(())
    }

    fn open(&mut self, txn: TxnId, session: u32) -> &mut Transaction {
        let open = self.open.entry(txn);
        let open = open.or_insert_with(|| Transaction::new(txn, session));
        open.is_logged = true;
        open
    }

    fn end(&mut self, txn: TxnId, session: u32, pages: Vec<PageId>) {
        self.open.remove(&txn);
        self.prepared.remove(&txn);
        if !pages.is_empty() {
            self.frees.insert(txn, (session, pages.into()));
        }
    }
}

impl<D: Directory> Pages<D> {
    /// Undoes a transaction back to where it stood.
    pub fn rollback(&self, txn: &mut Transaction, mark: TransactionMark) -> Result<()> {
        txn.frees.truncate(mark.frees);
        txn.trees.truncate(mark.trees);
        while txn.undo.len() > mark.entries {
            self.undo_newest(txn)?;
        }
        Ok(())
    }

    fn undo_newest(&self, txn: &mut Transaction) -> Result<()> {
        let Some(entry) = txn.undo.last().map(<[u8]>::to_vec) else {
            return Ok(());
        };
        let wrong = |text: String| StorageError::Unsupported(text);
        let undo = Undo::decode(&entry).map_err(|error| wrong(error.to_string()))?;
        let mut key = KeyBuf::new();
        let mut tree_of = |at: &KeyOf<'_>| {
            super::values::assign(&mut key, at.key.len() / 8, at.key);
            Tree {
                root: at.root,
                key_words: at.key.len() / 8,
            }
        };
        let stored = |is_long: bool, bytes| Stored { bytes, is_long };
        let entry = |txn| Entry::Compensation(txn);
        let entries = txn.undo.len();
        let search_path = &mut SearchPath::default();
        let is_done = match undo {
            Undo::FreePage(page) => {
                txn.undone_pages.push(page);
                return self.compensate(txn);
            }
            Undo::FreeTree(root) => {
                txn.undone_trees.push(root);
                return self.compensate(txn);
            }
            Undo::Remove(at) => {
                let tree = tree_of(&at);
                tree.remove(self, (&key, search_path), &mut entry(txn), |_, _| Ok(()))?
            }
            Undo::Insert(at, is_long, value) => {
                let tree = tree_of(&at);
                tree.insert(
                    self,
                    (&key, search_path),
                    stored(is_long, value),
                    &mut entry(txn),
                )?
            }
            Undo::Replace(at, is_long, value) => {
                let tree = tree_of(&at);
                let value = stored(is_long, value);
                tree.replace(self, (&key, search_path), value, &mut entry(txn), |_, _| {
                    Ok(())
                })?
            }
            Undo::Patch(at, offset, bytes) => {
                let tree = tree_of(&at);
                tree.patch(self, &key, offset, bytes, &mut entry(txn))?
            }
        };
        if is_done && txn.undo.len() < entries {
            return Ok(());
        }
        Err(wrong(format!(
            "what a transaction changed is not there to be undone: key {:x?}",
            &*key
        )))
    }

    /// Notes that the newest entry is undone, which changed no page.
    fn compensate(&self, txn: &mut Transaction) -> Result<()> {
        let head = Head::Compensation(txn.id, txn.undo.len().saturating_sub(1) as u32);
        self.log_head(&head, Reserve::Keep(txn.session))?;
        txn.undo.pop();
        Ok(())
    }

    fn log_head(&self, head: &Head<'_>, reserve: Reserve) -> Result<Lsn> {
        let buffer = &mut Vec::with_capacity(HEAD_RECORD_BYTES);
        let mut record = self.pool.log().begin_record(buffer);
        record.head(head);
        self.pool.log().insert(reserve, record)
    }

    /// All pages that a transaction gives up as it ends, those of trees included.
    fn given_up(&self, txn: &Transaction, is_committed: bool) -> Result<Vec<PageId>> {
        let mut frees = txn.undone_pages.clone();
        let mut trees = txn.undone_trees.clone();
        if is_committed {
            frees.extend_from_slice(&txn.frees);
            trees.extend_from_slice(&txn.trees);
        }
        for root in trees {
            let page = self.pool.read(root)?;
            page.account(PageAccess::Header);
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
        let logged = self.log_head(&head, Reserve::Bytes(session, 0));
        self.pool.log().end(session);
        logged
    }

    /// Logs that a transaction is prepared, with the pages that its commit frees; returns the
    /// record's LSN.
    pub fn prepare(&self, txn: &Transaction, global: GlobalTxnId) -> Result<Lsn> {
        let frees = self.given_up(txn, true)?;
        let bytes = txn.rollback_bytes(self.log_room()) + self.freed_bytes(frees.len());
        let reserve = Reserve::Bytes(txn.session, bytes);
        self.log_head(&Head::Prepare(txn.id, global, frees), reserve)
    }

    /// Logs that a transaction is committed; returns the record's LSN, and the pages that are to be
    /// freed then. Nothing is durable yet. If it fails the transaction can be undone.
    pub fn commit(&self, txn: &Transaction) -> Result<(Lsn, Vec<PageId>)> {
        let frees = self.given_up(txn, true)?;
        self.commit_freeing(txn.id, txn.session, frees)
    }

    fn commit_freeing(
        &self,
        txn: TxnId,
        session: u32,
        frees: Vec<PageId>,
    ) -> Result<(Lsn, Vec<PageId>)> {
        let reserve = self.reserve_for_freeing(session, frees.len());
        let head = Head::Commit(txn, self.clock.now(), frees);
        let lsn = self.log_head(&head, reserve)?;
        match head {
            Head::Commit(.., frees) => Ok((lsn, frees)),
            _ => Ok((lsn, Vec::new())),
        }
    }

    /// Undoes what an opening has found unfinished, commits what was prepared and decided, and
    /// frees what was to be freed. Returns how many transactions were undone, and those that are
    /// not to be undone yet by `is_for_later`.
    pub fn finish(
        &self,
        analysis: Analysis,
        decide: &dyn Fn(GlobalTxnId) -> bool,
        is_for_later: &dyn Fn(&Transaction) -> bool,
    ) -> Result<(u64, Vec<Transaction>)> {
        let (mut undone, mut later) = (0, Vec::new());
        for (txn, (session, frees)) in analysis.frees {
            self.free(txn, session, &Vec::from(frees))?;
        }
        let mut prepared = analysis.prepared;
        for (id, mut txn) in analysis.open {
            match prepared.remove(&id) {
                None if is_for_later(&txn) => later.push(txn),
                Some((global, frees)) if decide(global) => {
                    let (_, frees) = self.commit_freeing(id, txn.session, frees)?;
                    self.free(id, txn.session, &frees)?;
                }
                _ => {
                    undone += 1;
                    self.undo(&mut txn)?;
                }
            }
        }
        Ok((undone, later))
    }

    /// Reserves the log space that the rollback of a transaction takes which an opening has found,
    /// and keeps its records: a session of a number of its own undoes it from now on. False if the
    /// log cannot do that.
    pub fn claim(&self, txn: &mut Transaction) -> Result<bool> {
        let is_page = |entry: &&[u8]| matches!(Undo::decode(entry), Ok(Undo::FreePage(_)));
        txn.taken = txn.undo.iter().filter(is_page).count() as u64;
        let bytes = txn.rollback_bytes(self.log_room());
        if let Some(session) = self.pool.log().claim(txn.session, bytes)? {
            txn.session = session;
            txn.has_claim = true;
        }
        Ok(txn.has_claim)
    }

    /// Undoes a transaction, logs that it is, and frees what it had taken.
    pub fn undo(&self, txn: &mut Transaction) -> Result<()> {
        while !self.undo_step(txn)? {}
        Ok(())
    }

    /// Undoes the newest change of a transaction; where there is none left, logs that it is undone
    /// and frees what it had taken. Says whether it was that.
    pub fn undo_step(&self, txn: &mut Transaction) -> Result<bool> {
        if !txn.is_logged {
            self.forget(txn);
            return Ok(true);
        }
        if !txn.undo.is_empty() {
            self.pool.log().make_way()?;
            self.undo_newest(txn)?;
            return Ok(false);
        }
        let frees = self.given_up(txn, false)?;
        let head = Head::Abort(txn.id, frees.clone());
        self.log_head(&head, self.reserve_for_freeing(txn.session, frees.len()))?;
        self.free(txn.id, txn.session, &frees)?;
        Ok(true)
    }

    /// Ends a transaction of which the log has nothing that recovery needs.
    pub fn forget(&self, txn: &mut Transaction) {
        txn.is_logged = false;
        if std::mem::take(&mut txn.has_claim) {
            self.pool.log().end(txn.session);
        }
    }

    /// The log space that a session's transaction needs once it has ended.
    fn reserve_for_freeing(&self, session: u32, pages: usize) -> Reserve {
        if pages == 0 {
            Reserve::End(session)
        } else {
            Reserve::Bytes(session, self.freed_bytes(pages))
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
            let reserve = Reserve::Keep(session);
            change.finish(&self.pool, &Head::Freed(txn), reserve, &mut record)?;
        }
        self.pool.log().end(session);
        Ok(())
    }
}
