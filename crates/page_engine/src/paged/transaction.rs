//! A transaction of the page engine while it is open, and the owner of a logged change.
//!
//! The undo entries are kept in memory as well as in the log: a rollback reads no log, and recovery
//! collects them while it looks for transactions that have not ended.

use super::change::{Change, Touched, make};
use crate::buffer::{Pool, UndoSpace, WriteGuard};
use crate::page::{Head, PageId, PageOp, TxnId, Undo, UndoEntries};
use disk::Directory;
use std::borrow::Cow;
use storage::Result;

/// Log space that a rollback may take beyond its entries, in pages: the images of pages that it
/// touches first after a checkpoint, and splits that it makes.
const ROLLBACK_PAGES: u64 = 16;
/// Estimates of the most log space that records take.
#[derive(Clone, Copy, Debug)]
pub struct LogRoom {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Bytes that the record of an undo entry takes beyond the entry.
    pub entry_bytes: u64,
    /// Bytes that freeing one page takes: its number in the record of the transaction's end, and a
    /// record of its own.
    pub freed_bytes: u64,
}

impl LogRoom {
    /// That of records which repeat what was done.
    pub fn of_redo(page_bytes: usize) -> Self {
        Self {
            page_bytes,
            entry_bytes: 96,
            freed_bytes: 96,
        }
    }

    /// That of records which have the lines of pages as they were: up to ten or so of an entry, two
    /// of a page that is freed. Rings keep twice as much.
    pub fn of_lines(page_bytes: usize) -> Self {
        Self {
            page_bytes,
            entry_bytes: 384,
            freed_bytes: 128,
        }
    }
}

/// Bytes of buffers that are kept for the next transaction.
const KEPT_BYTES: usize = 1 << 20;

/// An open transaction.
#[derive(Debug)]
pub struct Transaction {
    /// Its number.
    pub id: TxnId,
    /// The session that it runs in.
    pub session: u32,
    /// The undo entries of its changes.
    pub undo: UndoEntries,
    /// Pages that are free when it commits.
    pub frees: Vec<PageId>,
    /// Pages that are free when it ends, because what they were taken for is undone.
    pub undone_pages: Vec<PageId>,
    /// Trees that are not needed when it ends, for the same reason.
    pub undone_trees: Vec<PageId>,
    /// Pages that it has taken and would have to free.
    pub taken: u64,
    /// Bytes that it has logged as a part of something that is undone as a whole.
    quiet_bytes: u64,
    /// Whether the log has anything of it.
    pub is_logged: bool,
    /// Whether it has asked for log space.
    pub has_claim: bool,
    /// Buffers.
    pub(super) entry: Vec<u8>,
    pub(super) record: Vec<u8>,
    pub(super) ops: Vec<u8>,
    pub(super) cell: Vec<u8>,
}

/// A savepoint where a statement began.
#[derive(Clone, Copy, Debug)]
pub struct Savepoint {
    pub(super) entries: usize,
    pub(super) frees: usize,
}

impl Transaction {
    /// A transaction that has done nothing.
    pub fn new(id: TxnId, session: u32) -> Self {
        Self {
            id,
            session,
            undo: UndoEntries::default(),
            frees: Vec::new(),
            undone_pages: Vec::new(),
            undone_trees: Vec::new(),
            taken: 0,
            quiet_bytes: 0,
            is_logged: false,
            has_claim: false,
            entry: Vec::new(),
            record: Vec::new(),
            ops: Vec::new(),
            cell: Vec::new(),
        }
    }

    /// Its buffers for the next one, when it has ended; none if it was so long that their memory
    /// has to go back.
    pub fn end(self) -> Option<Self> {
        (self.bytes() + self.record.capacity() <= KEPT_BYTES).then_some(self)
    }

    /// Another transaction of the session, in the buffers of this one, which has ended.
    #[must_use]
    pub fn renew(self, id: TxnId) -> Self {
        debug_assert!(id > self.id, "transactions are numbered in their order");
        let mut new = Self::new(id, self.session);
        new.undo = self.undo;
        new.undo.clear();
        // The others are emptied where they are used.
        (new.entry, new.record) = (self.entry, self.record);
        (new.ops, new.cell) = (self.ops, self.cell);
        new.entry.clear();
        new
    }

    /// Its current savepoint.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint {
            entries: self.undo.len(),
            frees: self.frees.len(),
        }
    }

    /// Bytes that it holds: how it is undone, and what is freed at its end.
    pub fn bytes(&self) -> usize {
        let pages = self.frees.len() + self.undone_pages.len() + self.undone_trees.len();
        self.undo.bytes() + self.undo.len() * size_of::<usize>() + pages * size_of::<PageId>()
    }

    /// Claims the log space that its rollback takes.
    pub fn reserve(&mut self, room: LogRoom) -> UndoSpace {
        self.has_claim = true;
        UndoSpace::Bytes(self.session, self.rollback_bytes(room))
    }

    /// The log space that its rollback takes.
    pub(super) fn rollback_bytes(&self, room: LogRoom) -> u64 {
        debug_assert!(room.page_bytes > 0, "pages have a length");
        let entries = self.undo.len() as u64 + 1;
        let bytes = (self.undo.bytes() + self.entry.len()) as u64;
        // Pages of a tree are at least about half full.
        let quiet = 3 * self.quiet_bytes / room.page_bytes as u64;
        let frees = quiet + self.taken + (self.frees.len() + self.undone_pages.len()) as u64;
        let pages = ROLLBACK_PAGES * room.page_bytes as u64;
        bytes + entries * room.entry_bytes + frees * room.freed_bytes + pages
    }
}

/// The owner of a logged change of a leaf.
pub enum Entry<'t> {
    /// The transaction's own, to be undone if it aborts.
    Undoable(&'t mut Transaction),
    /// Part of something that is undone as a whole, like the building of an index.
    Quiet(&'t mut Transaction),
    /// The undoing of the transaction's newest entry.
    Compensation(&'t mut Transaction),
}

impl Entry<'_> {
    /// The transaction.
    pub fn transaction(&mut self) -> &mut Transaction {
        match self {
            Self::Undoable(txn) | Self::Quiet(txn) | Self::Compensation(txn) => txn,
        }
    }

    /// Log space to keep while changes of structure are made on the way.
    pub fn reserve(&mut self, room: LogRoom) -> UndoSpace {
        match self {
            Self::Undoable(txn) | Self::Quiet(txn) => txn.reserve(room),
            Self::Compensation(txn) => UndoSpace::Keep(txn.session),
        }
    }

    /// Whether pages that the change no longer needs are noted to be freed: an undo restores the
    /// state before, in which they were needed or are freed by an entry of their own.
    pub fn frees(&self) -> bool {
        !matches!(self, Self::Compensation(_))
    }

    /// Takes down a change of one page, and how it is undone, for [`Entry::log_noted`].
    #[inline]
    pub(super) fn note(&mut self, op: &PageOp<'_>, undo: &Undo<'_>) {
        let txn = self.note_undo(undo);
        txn.ops.clear();
        op.encode(&mut txn.ops);
    }

    #[inline]
    fn note_undo(&mut self, undo: &Undo<'_>) -> &mut Transaction {
        let is_undoable = matches!(self, Self::Undoable(_));
        let txn = self.transaction();
        txn.entry.clear();
        if is_undoable {
            undo.encode(&mut txn.entry);
        }
        txn
    }

    /// Logs a change of pages that `undo` undoes, and makes it.
    pub fn log<D: Directory>(
        &mut self,
        pool: &Pool<D>,
        room: LogRoom,
        undo: &Undo<'_>,
        mut change: Change<'_>,
    ) -> Result<()> {
        self.note_undo(undo);
        self.log_pages(pool, room, &mut change.pages)
    }

    /// Logs the change of one page that was taken down, and makes it.
    #[inline]
    pub(super) fn log_noted<D: Directory>(
        &mut self,
        pool: &Pool<D>,
        room: LogRoom,
        page: WriteGuard<'_>,
    ) -> Result<()> {
        let ops = std::mem::take(&mut self.transaction().ops);
        let touched = Touched {
            guard: page,
            ops: Cow::Borrowed(&ops),
            is_new: false,
        };
        let logged = self.log_pages(pool, room, &mut [touched]);
        self.transaction().ops = ops;
        logged
    }

    #[inline]
    fn log_pages<D: Directory>(
        &mut self,
        pool: &Pool<D>,
        room: LogRoom,
        pages: &mut [Touched<'_>],
    ) -> Result<()> {
        let is_undoable = matches!(self, Self::Undoable(_));
        let is_compensation = matches!(self, Self::Compensation(_));
        let reserve = self.reserve(room);
        let txn = self.transaction();
        debug_assert_eq!(
            is_undoable,
            !txn.entry.is_empty(),
            "a change has an undo entry exactly if it is undone by itself"
        );
        debug_assert!(
            !is_compensation || !txn.undo.is_empty(),
            "something is undone that has no undo entry"
        );
        let mut record = std::mem::take(&mut txn.record);
        let head = if is_undoable {
            Head::Forward(txn.id, &txn.entry)
        } else if is_compensation {
            Head::Compensation(txn.id, txn.undo.len().saturating_sub(1) as u32)
        } else {
            Head::Change
        };
        let logged = make(pool, pages, (&head, reserve), &mut record);
        let logged_bytes = record.len() as u64;
        txn.record = record;
        logged?;
        if is_undoable {
            txn.undo.push(&txn.entry);
            txn.is_logged = true;
        } else if is_compensation {
            txn.undo.pop();
        } else {
            txn.quiet_bytes += logged_bytes;
        }
        txn.entry.clear();
        Ok(())
    }
}
