//! Transactions after a crash: which have not ended, and what becomes of them.
//!
//! Recovery reads the log twice (ARIES): *analysis* finds the transactions that have not ended,
//! with their undo entries, and the pages that ended ones still had to free; *redo* (`redo`)
//! repeats every change on every page that does not have it. Then uncommitted transactions are
//! undone like any rollback (`rollback`).

use super::space::Pages;
use super::transaction::Transaction;
use crate::page::{Head, PageId, TxnId, Undo};
use disk::Directory;
use std::collections::{BTreeMap, VecDeque};
use storage::Result;
use storage::engine::GlobalTxnId;
use storage::record::{DecodeError, Reader};

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
        debug_assert!(
            self.prepared.keys().all(|txn| self.open.contains_key(txn)),
            "a prepared transaction has ended"
        );
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
        debug_assert!(
            prepared.is_empty(),
            "a prepared transaction has neither been committed nor undone"
        );
        Ok((undone, later))
    }

    /// Reserves the log space that the rollback of a transaction takes which an opening has found,
    /// and keeps its records: a session of a number of its own undoes it from now on. False if the
    /// log cannot do that.
    pub fn claim(&self, txn: &mut Transaction) -> Result<bool> {
        debug_assert!(!txn.has_claim, "space for an undo is claimed twice");
        let is_page = |entry: &&[u8]| matches!(Undo::decode(entry), Ok(Undo::FreePage(_)));
        txn.taken = txn.undo.iter().filter(is_page).count() as u64;
        let bytes = txn.rollback_bytes(self.log_room());
        if let Some(session) = self.pool.log().claim(txn.session, bytes)? {
            txn.session = session;
            txn.has_claim = true;
        }
        Ok(txn.has_claim)
    }
}
