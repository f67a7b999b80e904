//! The log of the NVM-aware engines: a write set whose changes are atomic in durable memory.
//!
//! Writes to published bytes are collected in DRAM first. A transaction whose writes stay there
//! until its end commits by *one* record with the new bytes of all of them, and with the checksums
//! of the bytes that it has staged: one fence, after which the changes are stored in place; the
//! next transaction's fence makes them durable. Bytes that can have no checksum (`nv_staged` says
//! which) and words that the heap has changed by itself take one or two fences before the record. A
//! transaction that must see or drop its writes earlier (it reads what it wrote, is prepared, or
//! grows long) *drains* them: an undo record with the before images, a fence, then the changes in
//! place; it commits by the commit word, three fences in all and one more for each further drain.
//!
//! Invariants, proven by the crash tests:
//! 1. A published byte changes only while a durable record holds its before image (undo record of
//!    the open transaction) or its new one (commit record).
//! 2. The lines that commits change in place are written back together, each once: those of 30
//!    transactions (two less than slots), or of fewer that change many lines or are followed by a
//!    drain. The commit word names a transaction (it committed, or it had drained and was undone)
//!    up to which everything is durable in place: a fence has come after that write-back, and then
//!    the word is stored.
//! 3. So recovery replays the records after the named transaction, at most 32, whose places are
//!    apart. A record after them proves that one which is not whole is damage, and is reported.
//! 4. Replay would overwrite bytes that were stored without a record where a replayable record
//!    names them: a freed block that is staged anew, a run that the heap made there. After a change
//!    of the heap's own the word durably names the last transaction before the next one commits,
//!    and already before an empty run is given back, which the open transaction may cut
//!    differently: its new bitmap is not in the log. The word does so too before a drained
//!    transaction is prepared or commits, before the log leaves its block, and before a record
//!    without checksums publishes what was staged over lines that replay would store. Replay leaves
//!    out what a later record has checksums of. No record names bytes of a block that its own
//!    transaction freed (a structure is read before it is freed, which drains the changes of it).
//! 5. Frees are bitmap changes under the same log, so a commit frees and keeps in one atomic step;
//!    freed blocks and retired index slots are not written before the transaction has ended.
//! 6. Recovery replays, then undoes, then moves the commit word; done twice it does the same. If no
//!    record counts it stores nothing. Stores that a dead process left in a cache count only once
//!    they are durable, so the commit word, the commit records and the staged bytes are flushed and
//!    fenced before the first store. (Undo records need not be: without their fence nothing was
//!    changed.)
//! 7. A transaction that a cut has lost gives its number to the next one, and may have left lines
//!    of a record. So the first transaction after an opening durably clears the space of its
//!    records: lines of two records must not combine into one that is whole.
//! 8. A record counts if the staged bytes that it has checksums of are in their places. Only the
//!    newest one can lack them, and only if no later record of any kind exists: that one comes
//!    after its fence. Bytes that were there stay so until the next fence has ended. A record that
//!    does not count uses up its number: the next transaction may stage the same bytes again, and
//!    must not make it count.
//!
//! States: *empty* → (`commit`) *empty*, one record; or *empty* → (`drain`) *active* → (`commit`,
//! `abort`, recovery) *empty*, or *active* → (`prepare`) *prepared* → (`commit`, `abort`, or
//! recovery after asking the commit table) *empty*.
//!
//! `region` has the places of words and records, `nv_record` their format; `changes` is what
//! structures write through.
//!
//! After SIGMOD 2015 (N-Store), section 4.1. Where we differ: the paper's log is a linked list of
//! entries that are synced one by one, for undo only, and frees come after the commit.
//! [`FenceOrder::Shared`] keeps the paper's undo and shares its fences among all changes of a
//! transaction; [`FenceOrder::Paper`] has the paper's list (`list`) and all of its syncs, for
//! measurement.

mod changes;
mod list;
mod recovery;
mod region;

use super::clear;
use super::nv_lines::{LineSet, PendingLines, push_lines};
use super::nv_record::{
    CommitWord, HEADER_BYTES, LINE, PLACE_BYTES, Record, RecordKind, SEQUENCE_MAX, STAGED_BYTES,
    Tail, push_before_image, push_new_bytes, push_staged, seal_record,
};
use super::nv_staged::Staged;
use crate::error::{Result, StorageError};
use crate::vocabulary::{FenceOrder, GlobalTxnId};
use list::UndoList;
use pmem::{Arena, Memory, Owner, Part, PmemError, site};
use recovery::all_in_place;
pub use region::{LOG_BYTES_MAX, LOG_BYTES_MIN, log_bytes};
use region::{Region, SLOT_BYTES};
use std::collections::{BTreeMap, HashSet};

/// A jump takes one line, which every record leaves free after itself.
const JUMP_BYTES: usize = LINE;
/// Bytes of a block that continues a long transaction's log.
pub const OVERFLOW_BYTES: usize = 64 << 10;
/// Most pending bytes before a drain, so that a record always fits into one block of the log.
const DRAIN_BYTES: usize = 16 << 10;
const DRAIN_CHANGES: usize = 128;
/// Bytes of a slot that overwritten fields leave to changes for which no new block can be made.
const OVERWRITE_ROOM_BYTES: usize = 1 << 10;
/// Most bytes of before images of a transaction, so that their offsets fit 32 bits.
const UNDO_BYTES_MAX: usize = u32::MAX as usize;
/// Estimate of the most bytes that an entry of the map of retired slots takes.
const RETIRED_BYTES: usize = 32;
/// The same of the set of words with a before image.
const LOGGED_BYTES: usize = 18;
/// Bytes of one change; longer writes are cut.
const CHANGE_BYTES_MAX: usize = 4 << 10;

/// Why neither a change nor a rollback of a statement comes after the vote of a transaction.
const PREPARED: &str = "a prepared transaction changes nothing";
/// Why the changes from number `applied` on are those that have their bytes in DRAM.
const APPLIED_FIRST: &str = "changes go in place in their order";
/// Invariant 1.
const RECORD_FIRST: &str = "a record has what was there before a change goes in place";

/// One change of published bytes. Its new bytes are in `pending_bytes` until it is applied, its
/// before image is in `before_bytes` afterwards.
#[derive(Clone, Copy, Debug)]
struct Change {
    offset: u64,
    bytes: u32,
    data: u32,
}

impl Change {
    /// From where to where it reaches.
    fn ends(&self) -> (u64, u64) {
        (self.offset, self.offset + u64::from(self.bytes))
    }

    fn range(&self) -> std::ops::Range<usize> {
        self.data as usize..self.data as usize + self.bytes as usize
    }
}

/// A savepoint, for the rollback of one statement.
#[derive(Clone, Copy, Debug)]
pub struct UndoSavepoint {
    changes: usize,
    staged: usize,
}

/// State of the log that recovery found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// No transaction was open.
    Clean,
    /// The open transaction was undone.
    Undone,
    /// The open transaction was prepared, and the commit table says that it committed.
    Committed,
}

/// The undo log of one partition.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about the log or the open transaction"
)]
pub struct NvWriteSet {
    region: Region,
    salt: u32,
    order: FenceOrder,
    /// The last transaction that has ended.
    committed: u64,
    /// The transaction that the newest commit word names, and the number of the next word.
    named: u64,
    word_number: u64,
    /// The last transaction whose lines in place are being written back, with all before.
    written_back: u64,
    /// Lines of the transactions after that.
    unwritten: LineSet,
    /// Lines of the other ones after the named transaction.
    leaving: LineSet,
    /// Whether the open transaction has staged bytes in a line of either.
    staged_over: bool,
    /// Lines of records in the slots, and commit words, since the log was opened.
    record_lines: u64,
    words_stored: u64,
    /// The heap's own changes when the newest commit record was written.
    heap_changes: u64,
    /// In checked builds, the ranges that the newest commit record names: a replay would store them
    /// again.
    replayable: Vec<(u64, u64)>,
    /// In checked builds, the ranges that the newest commit record has checksums of.
    checked: Vec<(u64, u64)>,
    staged: Staged,
    /// Whether published bytes were flushed in place and no fence has waited for them yet.
    unawaited: bool,
    changes: Vec<Change>,
    applied: usize,
    pending_bytes: Vec<u8>,
    pending_lines: PendingLines,
    before_bytes: Vec<u8>,
    tail: Tail,
    /// An allocated block into which the log overflows first, so that deletions work on a full
    /// pool; 0 if the pool has none.
    spare: u64,
    spare_is_used: bool,
    /// Where records go instead of into slots, with [`FenceOrder::Paper`].
    list: Option<UndoList>,
    /// Numbers of the changes that begin a step of the paper, each synced by itself; only with a
    /// list.
    steps: Vec<usize>,
    touched: Vec<u64>,
    retired: BTreeMap<u64, u64>,
    record: Vec<u8>,
    lines: Vec<u64>,
    prepared: bool,
    /// Words whose before image a record of the open transaction has; they need no other one.
    logged_words: HashSet<u64>,
    /// Whether the space of the next record may have lines of an old one: no transaction has
    /// written a record since the log was opened.
    may_be_torn: bool,
    /// Whether the open transaction has a record in the log. Then its number must not be used
    /// again, even if all of its statements were rolled back: a later record chain could run into
    /// the old one.
    logged: bool,
}

impl NvWriteSet {
    /// Formats the log block of `bytes` at `base`. `salt` tells this pool's records from those that
    /// the memory held before. Durable after the next fence, which publishing the block needs
    /// anyway.
    pub fn create<M: Memory>(
        arena: &mut Arena<M>,
        (base, bytes): (u64, usize),
        salt: u32,
        order: FenceOrder,
    ) -> Result<Self> {
        let mut log = Self::at(Region::new(base, bytes), salt, order);
        log.format(arena)?;
        Ok(log)
    }

    /// Opens the log block of `bytes` at `base`: finishes what has committed and ends the
    /// transaction that was open, if there is one.
    pub fn recover<M: Memory>(
        arena: &mut Arena<M>,
        (base, bytes): (u64, usize),
        salt: u32,
        order: FenceOrder,
        decide: &dyn Fn(GlobalTxnId) -> bool,
    ) -> Result<(Self, Recovered)> {
        arena.enter(Part::Log);
        let mut log = Self::at(Region::new(base, bytes), salt, order);
        log.read_word(arena)?;
        log.replay_commits(arena)?;
        log.may_be_torn = true;
        let records = log.read_records(arena)?;
        if records.is_empty() {
            return Ok((log, Recovered::Clean));
        }
        let prepared = records.last().and_then(Record::prepared);
        let outcome = if prepared.is_some_and(decide) {
            Recovered::Committed
        } else {
            log.undo_records(arena, &records)?;
            Recovered::Undone
        };
        log.end_transaction(arena)?;
        Ok((log, outcome))
    }

    /// Opens the log block of `bytes` at `base` and stores nothing; `None` if
    /// [`NvWriteSet::recover`] would change what is read. Stores that a dead process has left in a
    /// cache count.
    pub fn open_read_only<M: Memory>(
        arena: &Arena<M>,
        (base, bytes): (u64, usize),
        salt: u32,
        order: FenceOrder,
    ) -> Result<Option<Self>> {
        let mut log = Self::at(Region::new(base, bytes), salt, order);
        log.read_word(arena)?;
        let records = log.read_commits(arena)?;
        let is_whole = all_in_place(arena, &records)? && log.read_records(arena)?.is_empty();
        Ok(is_whole.then_some(log))
    }

    /// Gives the log an allocated block of [`OVERFLOW_BYTES`] to go on in before it reserves one; 0
    /// for none.
    pub fn set_spare(&mut self, block: u64) {
        self.spare = block;
    }

    /// Whether the open transaction has changed anything.
    pub fn is_clean(&self) -> bool {
        self.changes.is_empty()
    }

    /// The current savepoint, for [`NvWriteSet::rollback_to`].
    pub fn savepoint(&self) -> UndoSavepoint {
        UndoSavepoint {
            changes: self.changes.len(),
            staged: self.staged.savepoint(),
        }
    }

    /// Undoes what was written since `savepoint`. The transaction goes on.
    pub fn rollback_to<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        savepoint: UndoSavepoint,
    ) -> Result<()> {
        assert!(
            savepoint.changes <= self.changes.len(),
            "a savepoint is of another transaction"
        );
        debug_assert!(!self.prepared, "{PREPARED}");
        if savepoint.changes < self.applied {
            self.restore(arena, savepoint.changes)?;
            if self.list.is_some() {
                self.paper_sync(arena)?;
            }
            self.before_bytes
                .truncate(self.changes[savepoint.changes].data as usize);
            self.applied = savepoint.changes;
            self.pending_bytes.clear();
        } else if let Some(first) = self.changes.get(savepoint.changes) {
            self.pending_bytes.truncate(first.data as usize);
        }
        self.changes.truncate(savepoint.changes);
        self.steps.retain(|step| *step <= savepoint.changes);
        self.staged.rollback_to(savepoint.staged);
        debug_assert!(self.applied <= self.changes.len(), "{APPLIED_FIRST}");
        Ok(())
    }

    /// Ends an operation. In the paper's order everything that it did is synced now.
    pub fn end_operation<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        if self.list.is_some() {
            self.drain(arena)?;
        }
        Ok(())
    }

    /// The sync that the paper has after each step. The commit need not wait again for the stores
    /// that this fence covers.
    fn paper_sync<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        arena.fence(site!("undo.paper-fence"))?;
        self.unawaited = false;
        Ok(())
    }

    /// Makes the transaction's changes stay. The caller settles the heap afterwards.
    pub fn commit<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        if self.changes.is_empty() && !self.logged {
            self.reset();
            return Ok(());
        }
        arena.enter(Part::Log);
        if self.order == FenceOrder::Single && !self.logged && self.fits_one_record() {
            return self.commit_by_record(arena);
        }
        if !self.prepared {
            self.drain(arena)?;
            if self.unawaited {
                arena.fence(site!("undo.applied-fence"))?;
            }
        }
        self.end_transaction(arena)
    }

    /// Makes sure that opening finds nothing to do. Not inside a transaction.
    pub fn close<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        arena.enter(Part::Log);
        Ok(self.end_replay(arena)?)
    }

    /// Makes the transaction survive a crash without deciding it. Nothing to do if it changed
    /// nothing.
    pub fn prepare<M: Memory>(&mut self, arena: &mut Arena<M>, global: GlobalTxnId) -> Result<()> {
        debug_assert!(!self.prepared, "a transaction is prepared twice");
        if self.changes.is_empty() {
            return Ok(());
        }
        self.drain(arena)?;
        // The record may become durable before the changes: no decision for it is made before the
        // fence after both.
        arena.enter(Part::Log);
        self.begin_record();
        self.record.extend_from_slice(&global.0.to_le_bytes());
        self.write_record(arena, RecordKind::Prepared)?;
        arena.fence(site!("undo.prepare-record-fence"))?;
        self.prepared = true;
        Ok(())
    }

    /// Undoes the transaction. The caller settles the heap afterwards.
    pub fn abort<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        if self.logged {
            self.restore(arena, 0)?;
            arena.enter(Part::Log);
            arena.fence(site!("undo.restored-fence"))?;
            self.end_transaction(arena)?;
        }
        assert!(self.logged || self.applied == 0, "{RECORD_FIRST}");
        self.reset();
        Ok(())
    }

    fn at(region: Region, salt: u32, order: FenceOrder) -> Self {
        let mut log = Self {
            region,
            salt,
            order,
            committed: 0,
            named: 0,
            word_number: 1,
            written_back: 0,
            unwritten: LineSet::default(),
            leaving: LineSet::default(),
            staged_over: false,
            record_lines: 0,
            words_stored: 0,
            heap_changes: 0,
            replayable: Vec::new(),
            checked: Vec::new(),
            staged: Staged::default(),
            unawaited: false,
            changes: Vec::new(),
            applied: 0,
            pending_bytes: Vec::new(),
            pending_lines: PendingLines::default(),
            before_bytes: Vec::new(),
            tail: Tail { offset: 0, room: 0 },
            spare: 0,
            spare_is_used: false,
            list: (order == FenceOrder::Paper).then(|| UndoList::new(region.head())),
            steps: Vec::new(),
            touched: Vec::new(),
            retired: BTreeMap::new(),
            record: Vec::new(),
            lines: Vec::new(),
            prepared: false,
            logged_words: HashSet::new(),
            may_be_torn: false,
            logged: false,
        };
        log.reset();
        log
    }

    /// Bytes of DRAM that the open transaction holds.
    pub fn bytes(&self) -> usize {
        self.changes.len() * size_of::<Change>()
            + self.pending_bytes.len()
            + self.before_bytes.len()
            + self.touched.len() * size_of::<u64>()
            + self.retired.len() * RETIRED_BYTES
            + self.logged_words.len() * LOGGED_BYTES
    }

    fn reset(&mut self) {
        clear(&mut self.changes);
        self.steps.clear();
        self.applied = 0;
        self.pending_bytes.clear();
        self.pending_lines.clear();
        clear(&mut self.before_bytes);
        clear(&mut self.touched);
        if !self.retired.is_empty() {
            self.retired.clear();
        }
        self.prepared = false;
        if !self.logged_words.is_empty() {
            self.logged_words = HashSet::new();
        }
        self.may_be_torn &= !self.logged;
        self.logged = false;
        self.staged.clear();
        self.staged_over = false;
        self.unawaited = false;
        self.spare_is_used = false;
        self.tail = self.region.slot(self.committed + 1);
    }

    /// Moves the commit word over the open transaction, which also makes its records worthless.
    fn end_transaction<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        debug_assert!(
            self.named == self.committed,
            "a transaction ends by its word while older records may be replayed"
        );
        self.committed += 1;
        if let Some(list) = &mut self.list {
            list.empty(arena, self.salt)?;
            self.named = self.committed;
        } else {
            let word = self.store_commit_word(arena, self.committed)?;
            arena.flush(word, 8, site!("undo.commit-word"))?;
        }
        // commit point: recovery undoes nothing of a transaction up to this word, or of no list
        arena.fence(site!("undo.commit-fence"))?;
        self.reset();
        Ok(())
    }

    /// Stores a word that names transaction `sequence`; returns its place. Everything up to there
    /// is durable in place.
    fn store_commit_word<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        sequence: u64,
    ) -> Result<u64, PmemError> {
        let at = self.region.word(self.word_number);
        let word = CommitWord {
            sequence,
            replay: false,
        };
        arena.store_word(at, word.seal(self.salt))?;
        self.word_number += 1;
        self.words_stored += 1;
        self.named = sequence;
        self.written_back = self.written_back.max(sequence);
        self.leaving.clear();
        if sequence == self.committed {
            self.replayable.clear();
            self.checked.clear();
        }
        Ok(at)
    }

    /// Starts the write-back of all lines that commits have changed in place, each once.
    fn write_back<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<(), PmemError> {
        for &line in self.unwritten.lines() {
            arena.flush(line, LINE, site!("undo.commit-apply"))?;
        }
        if self.written_back < self.committed {
            std::mem::swap(&mut self.unwritten, &mut self.leaving);
            self.unwritten.clear();
            self.written_back = self.committed;
        }
        Ok(())
    }

    /// Whether a record of all pending writes has room in the transaction's slot.
    fn fits_one_record(&self) -> bool {
        self.record_bytes_max() <= SLOT_BYTES
    }

    /// Most bytes of a slot that the record of all changes takes, with the space after it.
    fn record_bytes_max(&self) -> usize {
        let changes = self.pending_bytes.len() + self.changes.len() * (PLACE_BYTES + 7);
        let staged = self.staged.ranges().len() * STAGED_BYTES;
        HEADER_BYTES + changes + staged + LINE + JUMP_BYTES
    }

    /// Commits by one record with the new bytes, then stores them in place.
    fn commit_by_record<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        debug_assert!(
            self.applied == 0 && !self.prepared,
            "a transaction commits by one record that has changed something in place"
        );
        assert_eq!(
            self.tail.offset,
            self.region.slot(self.committed + 1).offset,
            "a commit record is the first of its slot, where recovery reads it"
        );
        // A record may become durable before its fence. The bytes that it publishes are durable
        // before it is written, or it has their checksums.
        let heap_has_changed = self.heap_changes != arena.heap_changes();
        let changes = self.changes.iter().map(Change::ends);
        let is_checked = !heap_has_changed && self.staged.needs_no_fence(changes);
        let is_replayable = self.named < self.committed;
        if is_replayable && (heap_has_changed || self.staged_over && !is_checked) {
            self.end_replay(arena)?;
        } else if !is_checked {
            arena.fence(site!("undo.staged-fence"))?;
        }
        self.heap_changes = arena.heap_changes();
        self.begin_record();
        if is_checked {
            for range in self.staged.ranges() {
                push_staged(&mut self.record, range);
            }
        }
        for change in &self.changes {
            let new = &self.pending_bytes[change.range()];
            push_new_bytes(&mut self.record, change.offset, new);
        }
        assert!(
            self.record.len().next_multiple_of(LINE) + JUMP_BYTES <= self.tail.room,
            "a commit record has room in its slot"
        );
        self.write_record(arena, RecordKind::Commit)?;
        // commit point: the record is durable, and recovery finishes what it says
        arena.fence(site!("undo.commit-record-fence"))?;
        let in_place = self.written_back;
        self.committed += 1;
        for change in &self.changes {
            store(arena, change.offset, &self.pending_bytes[change.range()])?;
            self.unwritten.add(change.offset, change.bytes as usize);
        }
        if cfg!(debug_assertions) {
            self.note_newest(is_checked);
        }
        if in_place > self.named {
            let word = self.store_commit_word(arena, in_place)?;
            arena.flush(word, 8, site!("undo.word"))?;
        }
        if self.committed - in_place >= self.region.batch() || self.unwritten.is_long() {
            self.write_back(arena)?;
        }
        self.reset();
        Ok(())
    }

    /// Notes the ranges of the commit record that was just written.
    fn note_newest(&mut self, is_checked: bool) {
        self.replayable.clear();
        self.replayable
            .extend(self.changes.iter().map(Change::ends));
        self.checked.clear();
        if is_checked {
            let ranges = self.staged.ranges().iter();
            let ends = ranges.map(|range| (range.offset, range.offset + range.bytes as u64));
            self.checked.extend(ends);
        }
    }

    /// Whether the newest commit record stands in the way of staging here: its replay would store
    /// into this range once the open transaction has committed, or it would not count any more.
    /// Where the heap has changed, as it has where an extent became a run, the flag goes first.
    fn is_in_the_way<M: Memory>(&self, arena: &Arena<M>, offset: u64, bytes: usize) -> bool {
        let end = offset + bytes as u64;
        let meets = |ranges: &[(u64, u64)]| {
            let mut ranges = ranges.iter();
            ranges.any(|&(from, to)| offset < to && from < end)
        };
        let is_replayed = self.heap_changes == arena.heap_changes();
        meets(&self.checked) || is_replayed && meets(&self.replayable)
    }

    /// Waits until everything is in place, and names the last transaction, so that no record is
    /// replayed. Durable when it returns.
    fn end_replay<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<(), PmemError> {
        if self.named < self.committed {
            self.write_back(arena)?;
            arena.fence(site!("undo.in-place-fence"))?;
            let word = self.store_commit_word(arena, self.committed)?;
            arena.flush(word, 8, site!("undo.in-place-word"))?;
            arena.fence(site!("undo.in-place-word-fence"))?;
        }
        Ok(())
    }

    /// Logs the before images of all pending writes, then applies them.
    fn drain<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        if self.changes.len() == self.applied {
            // An update that changes nothing touches its row too.
            self.touched.clear();
            return Ok(());
        }
        if self.named < self.committed {
            self.write_back(arena)?;
        }
        if let Err(error) = self.log_before_images(arena) {
            // No record has the before images of this attempt.
            self.logged_words.clear();
            return Err(error);
        }
        if self.named < self.committed {
            // That fence came after the write-back. The word is durable before this transaction is
            // prepared or commits.
            let word = self.store_commit_word(arena, self.committed)?;
            arena.flush(word, 8, site!("undo.drain-word"))?;
        }
        self.apply_pending(arena)?;
        debug_assert_eq!(self.applied, self.changes.len(), "a change is not in place");
        Ok(())
    }

    /// Writes the record with the before images of all pending writes; durable when it returns. A
    /// word whose before image an earlier record of the transaction has needs none: a long
    /// transaction that frees block after block changes the same bitmap words again and again. For
    /// a short one the search takes longer than a record.
    fn log_before_images<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        arena.enter(Part::Log);
        self.begin_record();
        let is_long = self.changes.len() > DRAIN_CHANGES;
        for change in &self.changes[self.applied..] {
            let is_word = is_long && change.bytes == 8;
            if is_word && !self.logged_words.insert(change.offset) {
                continue;
            }
            let before = arena.bytes(change.offset, change.bytes as usize)?;
            push_before_image(&mut self.record, change.offset, before);
        }
        if self.record.len() > HEADER_BYTES {
            self.write_record(arena, RecordKind::Undo)?;
            arena.fence(site!("undo.record-fence"))?;
        }
        Ok(())
    }

    /// Stores the pending writes in place and starts the write-back of their lines, each line once:
    /// flushing a line whose write-back is under way costs more than a fence. The paper syncs what
    /// belongs to one structure by itself.
    fn apply_pending<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        assert!(self.logged, "{RECORD_FIRST}");
        for index in 0..=self.steps.len() {
            let end = self.steps.get(index).copied();
            self.apply_until(arena, end.unwrap_or(self.changes.len()))?;
        }
        self.steps.clear();
        self.pending_bytes.clear();
        self.pending_lines.clear();
        self.touched.clear();
        Ok(())
    }

    /// Stores the pending writes before number `end` in place, as one step.
    fn apply_until<M: Memory>(&mut self, arena: &mut Arena<M>, end: usize) -> Result<()> {
        if end <= self.applied {
            return Ok(());
        }
        self.lines.clear();
        for change in &mut self.changes[self.applied..end] {
            let new = &self.pending_bytes[change.range()];
            let data = self.before_bytes.len() as u32;
            self.before_bytes
                .extend_from_slice(arena.bytes(change.offset, new.len())?);
            store(arena, change.offset, new)?;
            push_lines(&mut self.lines, change.offset, new.len());
            change.data = data;
        }
        self.applied = end;
        for &line in &self.lines {
            arena.flush(line, LINE, site!("undo.apply"))?;
        }
        self.unawaited = true;
        if self.list.is_some() {
            self.paper_sync(arena)?;
        }
        Ok(())
    }

    /// Writes before images back, newest first, for all applied changes from number `first` on.
    fn restore<M: Memory>(&mut self, arena: &mut Arena<M>, first: usize) -> Result<()> {
        debug_assert!(self.applied <= self.changes.len(), "{APPLIED_FIRST}");
        self.lines.clear();
        for change in self.changes[first..self.applied].iter().rev() {
            store(arena, change.offset, &self.before_bytes[change.range()])?;
            push_lines(&mut self.lines, change.offset, change.bytes as usize);
        }
        for &line in &self.lines {
            arena.flush(line, LINE, site!("undo.restore"))?;
        }
        self.unawaited = true;
        Ok(())
    }

    fn store_staged<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        debug_assert!(
            !self.is_in_the_way(arena, offset, bytes.len()),
            "invariants 4 and 8: no record names bytes that the next transaction may stage over"
        );
        self.staged_over |=
            self.unwritten.meets(offset, bytes.len()) || self.leaving.meets(offset, bytes.len());
        arena.write_through(offset, bytes, site!("undo.stage"))?;
        if self.list.is_some() {
            self.paper_sync(arena)?;
        }
        Ok(())
    }

    fn begin_record(&mut self) {
        self.record.clear();
        self.record.resize(HEADER_BYTES, 0);
    }

    /// Seals `self.record` and writes it at the tail, or appends it to the list; durable after the
    /// next fence.
    fn write_record<M: Memory>(&mut self, arena: &mut Arena<M>, kind: RecordKind) -> Result<()> {
        if self.committed >= SEQUENCE_MAX {
            let text = "the partition has used up its transaction numbers; dump and load it";
            return Err(StorageError::Unsupported(text.to_owned()));
        }
        debug_assert!(!self.prepared, "{PREPARED}");
        if let Some(list) = &mut self.list {
            seal_record(&mut self.record, self.committed + 1, kind, self.salt);
            let spare = (self.spare, OVERFLOW_BYTES);
            list.append(arena, &mut self.record, spare, self.salt)?;
            self.logged = true;
            return Ok(());
        }
        let bytes = self.record.len().next_multiple_of(LINE);
        if bytes + JUMP_BYTES > self.tail.room {
            self.jump(arena, bytes)?;
        }
        assert!(
            bytes + JUMP_BYTES <= self.tail.room,
            "a record is longer than the space where the log goes on"
        );
        self.record.resize(bytes, 0);
        seal_record(&mut self.record, self.committed + 1, kind, self.salt);
        self.take_out_torn(arena)?;
        arena.write_through(self.tail.offset, &self.record, site!("undo.record"))?;
        self.tail.offset += bytes as u64;
        self.tail.room -= bytes;
        self.record_lines += (bytes / LINE) as u64;
        self.logged = true;
        Ok(())
    }

    /// Clears the checksum of a torn record that may be at the tail. Durable when it returns.
    fn take_out_torn<M: Memory>(&self, arena: &mut Arena<M>) -> Result<()> {
        let at = self.tail.offset;
        if self.may_be_torn && arena.word(at)? != 0 {
            arena.store_word(at, 0)?;
            arena.flush(at, 8, site!("undo.torn"))?;
            arena.fence(site!("undo.torn-fence"))?;
        }
        Ok(())
    }

    /// Continues the log in the spare block, or else in one that is only reserved: it lives no
    /// longer than the transaction, so no crash leaks it, and recovery reads it before anything is
    /// allocated.
    fn jump<M: Memory>(&mut self, arena: &mut Arena<M>, record_bytes: usize) -> Result<()> {
        assert!(
            self.tail.room >= JUMP_BYTES,
            "each space has room for a jump"
        );
        self.end_replay(arena)?;
        let room = OVERFLOW_BYTES.max(record_bytes + JUMP_BYTES);
        let spare_fits = self.spare != 0 && !self.spare_is_used && room == OVERFLOW_BYTES;
        let offset = if spare_fits {
            self.spare
        } else {
            let owner = Owner {
                part: Part::Log,
                tag: 0,
            };
            arena.reserve(room, owner)?
        };
        let mut record = [0_u8; JUMP_BYTES];
        record[HEADER_BYTES..HEADER_BYTES + 8].copy_from_slice(&offset.to_le_bytes());
        record[HEADER_BYTES + 8..HEADER_BYTES + 16].copy_from_slice(&(room as u64).to_le_bytes());
        seal_record(&mut record, self.committed + 1, RecordKind::Jump, self.salt);
        self.take_out_torn(arena)?;
        arena.write_through(self.tail.offset, &record, site!("undo.jump"))?;
        self.tail = Tail { offset, room };
        self.spare_is_used |= spare_fits;
        Ok(())
    }
}

/// Stores a change; an aligned word goes in one failure-atomic store, so that a bitmap is never
/// half old.
fn store<M: Memory>(arena: &mut Arena<M>, offset: u64, bytes: &[u8]) -> Result<()> {
    match bytes.try_into().map(u64::from_le_bytes) {
        Ok(word) if offset.is_multiple_of(8) => arena.store_word(offset, word)?,
        _ => arena.store(offset, bytes)?,
    }
    Ok(())
}
