//! The interface between the page engine and its log.
//!
//! A record has changes of pages and is built and appended while they are latched. It includes
//! pages as whole images that have not changed since the newest checkpoint began. If another
//! checkpoint begins before the record is appended, the log refuses it, and it is built again.
//!
//! Space for undoing is reserved: a transaction says how many bytes its rollback may take, and the
//! log makes sure that there is room for all open transactions together. So a full log stops a
//! change, where the statement can fail, and not a rollback.

use crate::page::{Head, Header, PageId, Section};
use disk::DiskCounters;
use pmem::Counters;
use std::sync::Arc;
use storage::engine::Persisted;
use storage::log::{ArchiveRange, ArchiveWatch, LogStart, Lsn};
use storage::{Result, StorageError, probe};

/// Change of the log space that is reserved for the transaction of a record. The number is that of
/// the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoSpace {
    /// Nothing: it is a part of what the space was reserved for.
    Keep(u32),
    /// Bytes that the transaction needs for its undo, or to free the pages that it has given up.
    Bytes(u32, u64),
    /// The transaction needs nothing any more.
    End(u32),
}

impl UndoSpace {
    /// The number of the session.
    pub fn session(self) -> u32 {
        let (Self::Keep(session) | Self::Bytes(session, _) | Self::End(session)) = self;
        session
    }
}

/// How much a log needs a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointNeed {
    /// Not at all.
    None,
    /// It is time for one: there is still room for what is appended while it is written.
    Due,
    /// So much has been appended since the newest one that ended that sessions should wait for the
    /// next, where they can.
    Urgent,
}

/// The start of a checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointStart {
    /// Every earlier change has to be in the pages.
    pub redo: Lsn,
    /// The log before it is not needed any more: no open transaction has a record there.
    pub log: LogStart,
}

/// State of a log that a record is built for.
#[derive(Clone, Copy, Debug)]
pub struct RecordStart {
    /// Pages that have not changed since here are logged whole; 0 if none are.
    pub image_from: Lsn,
    /// Bytes that the log puts before the payload.
    pub header_bytes: usize,
}

/// A record that is being built, in a buffer that has it afterwards, perhaps with more around it.
pub struct NewRecord<'b> {
    pub(super) bytes: &'b mut Vec<u8>,
    start: RecordStart,
    /// Whether pages may have to be logged whole that are not.
    may_need_images: bool,
    image_bytes: usize,
    /// The time of an insertion includes that of building the record.
    _insert: probe::ActivitySpan,
}

impl<'b> NewRecord<'b> {
    /// A record with nothing in it, in this buffer.
    pub fn new(start: RecordStart, bytes: &'b mut Vec<u8>) -> Self {
        let insert = probe::begin_insert();
        bytes.clear();
        bytes.resize(start.header_bytes, 0);
        Self {
            bytes,
            start,
            may_need_images: false,
            image_bytes: 0,
            _insert: insert,
        }
    }

    /// Adds the head.
    pub fn head(&mut self, head: &Head<'_>) {
        debug_assert!(
            self.payload().is_empty(),
            "the head of a record comes first"
        );
        head.encode(self.bytes);
    }

    /// Adds operations on a page.
    pub fn section(&mut self, page: PageId, ops: &[u8]) {
        debug_assert!(!self.payload().is_empty(), "a section comes after a head");
        Section::encode(page, None, ops, self.bytes);
    }

    /// Adds operations on a page with this content, and the content itself if it has not changed
    /// since the newest checkpoint began.
    pub fn section_of(&mut self, page: PageId, content: &[u8], ops: &[u8]) {
        self.may_need_images = true;
        if Header(content).lsn() >= self.start.image_from {
            return self.section(page, ops);
        }
        let start = self.bytes.len();
        Section::encode(page, Some(content), ops, self.bytes);
        self.image_bytes += self.bytes.len() - start - ops.len();
    }

    /// Adds bytes of any meaning.
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes of pages that it has whole.
    pub fn image_bytes(&self) -> usize {
        self.image_bytes
    }

    /// The bytes that were added so far.
    pub(super) fn payload(&self) -> &[u8] {
        &self.bytes[self.start.header_bytes..]
    }

    /// Whether it may lack pages that have to be logged whole by now. The caller keeps checkpoints
    /// from beginning.
    pub(super) fn is_outdated(&self, image_from: Lsn) -> bool {
        debug_assert!(
            image_from >= self.start.image_from,
            "the start of the newest checkpoint has gone back"
        );
        self.may_need_images && image_from != self.start.image_from
    }
}

/// Makes the changes of a record in copies of their pages, and adds those to the list that have no
/// change of their batch yet.
pub type ApplyRecord<'a> = dyn FnMut(Lsn, &mut Vec<PageId>) -> Result<()> + 'a;

/// The log of one partition, for many threads.
pub trait PageLog: Send + Sync {
    /// Sees to it that a session can append.
    fn add_session(&self, _session: u32) -> Result<()> {
        Ok(())
    }

    /// Hands every record that the opening has found to `redo`, once.
    fn replay(&self, redo: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>) -> Result<()>;

    /// Lets pages that have not changed since `lsn` be logged whole.
    fn set_image_from(&self, lsn: Lsn);

    /// The state that a record is built for which begins now.
    fn record_start(&self) -> RecordStart;

    /// Appends a record; none, with which nothing has happened, if a checkpoint has begun since the
    /// record was begun and it may lack images of pages. Records without [`NewRecord::section_of`]
    /// never do.
    fn append(&self, reserve: UndoSpace, record: NewRecord<'_>) -> Result<Option<Lsn>>;

    /// Appends a record and makes its changes, of at most the given number of pages, before any of
    /// it can become durable. Only a log of batches does.
    fn append_applying(
        &self,
        _reserve: UndoSpace,
        _record: NewRecord<'_>,
        _change: (usize, &mut ApplyRecord<'_>),
    ) -> Result<Lsn> {
        unreachable!("pages change in copies only where a log of batches keeps them")
    }

    /// Notes that a session begins a transaction, perhaps after a wait for others to become
    /// durable.
    fn enter(&self, _session: u32) -> Result<()> {
        Ok(())
    }

    /// Notes that a session has ended its transaction.
    fn leave(&self, _session: u32) {}

    /// Notes that a session's transaction needs nothing any more.
    fn end(&self, session: u32);

    /// Makes the record at `lsn` durable, with all earlier ones.
    fn flush_to(&self, lsn: Lsn) -> Result<()>;

    /// Makes the records of one session up to `lsn` durable, if a commit is told to wait for no
    /// others, and says whether it is.
    fn flush_alone(&self, _session: u32, _lsn: Lsn) -> Result<bool> {
        Ok(false)
    }

    /// Makes all records durable that are in the log now.
    fn flush(&self) -> Result<()>;

    /// Whether an idle thread can make records durable ahead of their commits.
    fn persists_ahead(&self) -> bool {
        false
    }

    /// Makes records durable that nobody waits for yet; returns whether there were any.
    fn persist_ahead(&self) -> Result<bool> {
        Ok(false)
    }

    /// Does so again and again, as a thread of its own, until [`PageLog::end_ahead`] or an error.
    fn run_ahead(&self) {}

    /// Lets the threads of the log end.
    fn end_ahead(&self) {}

    /// How its archive fares, if it has one.
    fn archive_watch(&self) -> Option<Arc<ArchiveWatch>> {
        None
    }

    /// Moves records that recovery no longer needs to the archive, if there is one; returns whether
    /// there were any. If it cannot take them they stay, and an append that finds no room says why.
    fn move_cold(&self) -> Result<bool> {
        Ok(false)
    }

    /// Does so whenever a checkpoint has ended, as a thread of its own, until
    /// [`PageLog::end_ahead`].
    fn run_cold(&self) {}

    /// Content of the archive, if there is one. Reads all of it.
    fn archive(&self) -> Result<Option<ArchiveRange>> {
        Ok(None)
    }

    /// Records made durable by the daemon and by sessions, where that is counted.
    fn persisted(&self) -> Persisted {
        Persisted::default()
    }

    /// Whether it pays to make several commits durable together.
    fn groups_commits(&self) -> bool {
        true
    }

    /// Whether the next commit is to be made durable at once, to make room.
    fn is_full(&self) -> bool {
        false
    }

    /// All records below this are durable, by [`PageLog::flush_to`] or a checkpoint. It never
    /// decreases.
    fn synced(&self) -> Lsn;

    /// Begins a checkpoint: pages are logged whole at their first change since, if at all. Log
    /// space that open transactions may need is available after it.
    fn begin_checkpoint(&self) -> Result<CheckpointStart>;

    /// Ends a checkpoint that is durable: the log before `start` is not needed any more.
    fn end_checkpoint(&self, start: LogStart) -> Result<()>;

    /// Reserves log space for a transaction that an opening has found unfinished in a session's
    /// part of the log, before the first checkpoint, and keeps all records from where the log
    /// begins now until the claim ends. Returns the number of the session that undoes it; none if
    /// there is no room, or the log makes no such reservations.
    fn claim(&self, _session: u32, _bytes: u64) -> Result<Option<u32>> {
        Ok(None)
    }

    /// The number of the first session that may begin. Lower numbers may belong to transactions for
    /// whose undo an opening has reserved space.
    fn first_session(&self) -> u32 {
        0
    }

    /// Makes room for a change that has space reserved, by a thread that has no page latched: if
    /// images of pages are kept until a batch ends, and there is no room for more, the batch ends
    /// now.
    fn make_way(&self) -> Result<()> {
        Ok(())
    }

    /// Frees the space of spare files; returns whether there were any.
    fn give_up_spares(&self) -> Result<bool> {
        Ok(false)
    }

    /// Whether a checkpoint is due: there are `due` bytes of records since the newest has begun, or
    /// the log may become full. It is urgent where there are `urgent` bytes since the newest that
    /// has ended, or the log is nearly full of them.
    fn checkpoint_need(&self, due: u64, urgent: u64) -> CheckpointNeed;

    /// Most bytes of records over which a due checkpoint may be spread before it is urgent, where
    /// the room of the log limits them.
    fn checkpoint_span(&self) -> u64 {
        u64::MAX
    }

    /// Makes everything durable and marks the end, so that damage to the last record is
    /// distinguished from its absence.
    fn close(&self) -> Result<()>;

    /// Reads the log again; the error says what is wrong with it.
    fn verify(&self) -> Result<()>;

    /// Bytes that the log takes.
    fn bytes(&self) -> u64;

    /// Counters of the directory of its files.
    fn disk(&self) -> DiskCounters;

    /// Counters of its memories.
    fn memory(&self) -> Counters {
        Counters::default()
    }

    /// Fails if an earlier durable step failed, and says why.
    fn require_sound(&self) -> Result<()>;

    /// Whether an earlier durable step failed.
    fn is_poisoned(&self) -> bool {
        self.require_sound().is_err()
    }

    /// Refuses everything from now on, because of `error`.
    fn refuse(&self, error: &StorageError);
}

impl dyn PageLog + '_ {
    /// Begins a record in a buffer.
    #[inline]
    pub fn begin_record<'b>(&self, buffer: &'b mut Vec<u8>) -> NewRecord<'b> {
        NewRecord::new(self.record_start(), buffer)
    }

    /// Appends a record without images of pages.
    #[inline]
    pub fn insert(&self, reserve: UndoSpace, record: NewRecord<'_>) -> Result<Lsn> {
        let lsn = self.append(reserve, record)?;
        Ok(lsn.expect("a record without images of pages is never outdated"))
    }
}

/// Appends a record with these bytes.
#[cfg(test)]
pub(crate) fn append_bytes(log: &dyn PageLog, reserve: UndoSpace, bytes: &[u8]) -> Result<Lsn> {
    let buffer = &mut Vec::new();
    let mut record = log.begin_record(buffer);
    record.raw(bytes);
    log.insert(reserve, record)
}
