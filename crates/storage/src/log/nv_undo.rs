//! The undo log of the NVM-aware in-place engine: a write set whose before images lie in durable memory.
//!
//! Writes to published bytes are collected in DRAM first. A *drain* makes them visible: it writes one
//! checksummed record with the before images of all of them, fences, and only then changes the bytes in place.
//! So a transaction of one operation takes three fences whatever the number of words that it changes.
//!
//! Invariants, proven by the crash tests:
//! 1. A published byte changes only while a durable record of the open transaction holds its before image.
//! 2. The commit word names the last transaction whose changes stay. It is stored after all changes of that transaction
//!    have been fenced, and fenced before the commit is acknowledged. Moving it also empties the log: records
//!    carry their transaction's sequence number, and only those of *commit word + 1* count.
//! 3. Frees are bitmap changes under the same log, so a commit frees and keeps in one atomic step; freed blocks and
//!    retired index slots are not written before the transaction has ended.
//! 4. Recovery writes before images back and moves the commit word; done twice it does the same. If no
//!    record counts it stores nothing.
//!
//! States: *empty* → (`drain`) *active* → (`commit`, `abort`, recovery) *empty*, or *active* → (`prepare`)
//! *prepared* → (`commit`, `abort`, or recovery after asking the commit table) *empty*.
//!
//! ```text
//! log block   [commit word, alone in its line][slot 0][slot 1][slot 2][slot 3]
//! commit word sequence (48 bits) | check (16 bits)
//! slot        records of the transactions whose sequence % 4 is the slot's number
//! record      crc32c u32 | bytes u32 | sequence u64 | kind u64 | payload, padded to whole lines
//!   changes   { offset u64 | bytes u64 | before image, padded to 8 }*
//!   jump      offset u64 | bytes u64 of the block in which the next record lies
//!   prepared  global transaction number u64
//! ```
//!
//! After SIGMOD 2015 (N-Store), section 4.1. Where we differ: the paper's log is a linked list of entries that are synced
//! one by one; ours shares one record and one fence among all changes of an operation, and frees within the transaction
//! instead of after it. [`FenceOrder::Paper`] brings the paper's syncs back for measurement.

use super::WriteSet;
use crate::engine::{FenceOrder, GlobalTxnId};
use crate::error::{Result, StorageError};
use pmem::{Arena, Memory, Owner, Part, PmemError, WordChange, site};
use std::collections::HashMap;

/// Bytes of the block that holds the commit word and the slots.
pub const LOG_BYTES: usize = 16 << 10;

const LINE: usize = 64;
const SLOTS: u64 = 4;
const SLOT_BYTES: usize = (LOG_BYTES - LINE) / SLOTS as usize / LINE * LINE;
const HEADER_BYTES: usize = 24;
const CHANGE_HEADER_BYTES: usize = 16;
/// A jump takes one line, which every record leaves free behind itself.
const JUMP_BYTES: usize = LINE;
/// Bytes of a block in which a long transaction's log goes on.
pub const OVERFLOW_BYTES: usize = 64 << 10;
/// Pending bytes after which a drain is made, so that a record always fits into one block of the log.
const DRAIN_BYTES: usize = 16 << 10;
const DRAIN_CHANGES: usize = 128;
/// Before images of a transaction, so that their places fit 32 bits.
const UNDO_BYTES_MAX: usize = u32::MAX as usize;
/// Bytes of one change; longer writes are cut.
const CHANGE_BYTES_MAX: usize = 4 << 10;

const SEQUENCE_BITS: u32 = 48;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordKind {
    Changes = 1,
    Jump = 2,
    Prepared = 3,
}

/// One change of published bytes. Its new bytes are in `pending_bytes` until it is applied, its before image is in
/// `before_bytes` afterwards.
#[derive(Clone, Copy, Debug)]
struct Change {
    offset: u64,
    bytes: u32,
    data: u32,
}

impl Change {
    fn range(&self) -> std::ops::Range<usize> {
        self.data as usize..self.data as usize + self.bytes as usize
    }
}

/// Where the next record goes.
#[derive(Clone, Copy, Debug)]
struct Tail {
    offset: u64,
    room: usize,
}

/// How far a transaction had come, for the rollback of one statement.
#[derive(Clone, Copy, Debug)]
pub struct UndoMark {
    changes: usize,
}

/// What recovery found in the log.
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
pub struct UndoLog {
    base: u64,
    salt: u32,
    order: FenceOrder,
    committed: u64,
    changes: Vec<Change>,
    applied: usize,
    pending_bytes: Vec<u8>,
    before_bytes: Vec<u8>,
    tail: Tail,
    /// An allocated block in which the log goes on first, so that deletions work on a full pool; 0 if the pool has none.
    spare: u64,
    spare_is_used: bool,
    touched: Vec<u64>,
    retired: HashMap<u64, u64>,
    record: Vec<u8>,
    lines: Vec<u64>,
    prepared: bool,
    /// Whether the open transaction has a record in the log. Then its number must not be used again, even if all of its
    /// statements were rolled back: a later record chain could run into the old one.
    logged: bool,
}

impl UndoLog {
    /// Formats the log block at `base`. `salt` tells this pool's records from those that the memory held before. Durable after
    /// the next fence, which publishing the block needs anyway.
    pub fn create<M: Memory>(
        arena: &mut Arena<M>,
        base: u64,
        salt: u32,
        order: FenceOrder,
    ) -> Result<Self> {
        arena.enter(Part::Log);
        arena.store_word(base, seal(0, salt))?;
        arena.flush(base, 8, site!("undo.format"))?;
        Ok(Self::at(base, salt, order, 0))
    }

    /// Opens the log block at `base` and ends the transaction that was open, if there is one.
    pub fn recover<M: Memory>(
        arena: &mut Arena<M>,
        base: u64,
        salt: u32,
        order: FenceOrder,
        decide: &dyn Fn(GlobalTxnId) -> bool,
    ) -> Result<(Self, Recovered)> {
        arena.enter(Part::Log);
        let committed = unseal(arena.word(base)?, salt)
            .ok_or_else(|| PmemError::corrupted("commit word", base, "its check bits are wrong"))?;
        let mut log = Self::at(base, salt, order, committed);
        let records = log.read_records(arena);
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

    /// Gives the log an allocated block of [`OVERFLOW_BYTES`] to go on in before it reserves one; 0 for none.
    pub fn set_spare(&mut self, block: u64) {
        self.spare = block;
    }

    /// Whether the open transaction has changed anything.
    pub fn is_clean(&self) -> bool {
        self.changes.is_empty()
    }

    /// Where the transaction stands, for [`UndoLog::rollback_to`].
    pub fn mark(&self) -> UndoMark {
        UndoMark {
            changes: self.changes.len(),
        }
    }

    /// Undoes what was written since `mark`. The transaction goes on.
    pub fn rollback_to<M: Memory>(&mut self, arena: &mut Arena<M>, mark: UndoMark) -> Result<()> {
        if mark.changes < self.applied {
            self.restore(arena, mark.changes)?;
            self.before_bytes
                .truncate(self.changes[mark.changes].data as usize);
            self.applied = mark.changes;
            self.pending_bytes.clear();
        } else if let Some(first) = self.changes.get(mark.changes) {
            self.pending_bytes.truncate(first.data as usize);
        }
        self.changes.truncate(mark.changes);
        Ok(())
    }

    /// Ends an operation. In the paper's order everything that it did is synced now.
    pub fn end_operation<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        if self.order == FenceOrder::Paper && self.changes.len() > self.applied {
            self.drain(arena)?;
            arena.fence(site!("undo.paper-operation-fence"))?;
        }
        Ok(())
    }

    /// Makes the transaction's changes stay. The caller settles the heap afterwards.
    pub fn commit<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        if self.changes.is_empty() && !self.logged {
            self.reset();
            return Ok(());
        }
        arena.enter(Part::Log);
        if !self.prepared {
            self.drain(arena)?;
            arena.fence(site!("undo.applied-fence"))?;
        }
        // commit point: recovery keeps the changes of every transaction up to this word
        self.end_transaction(arena)
    }

    /// Makes the transaction survive a crash without deciding it. Nothing to do if it changed nothing.
    pub fn prepare<M: Memory>(&mut self, arena: &mut Arena<M>, global: GlobalTxnId) -> Result<()> {
        if self.changes.is_empty() {
            return Ok(());
        }
        self.drain(arena)?;
        // The record may become durable before the changes: nobody decides for it before the fence behind both.
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
        self.reset();
        Ok(())
    }

    fn at(base: u64, salt: u32, order: FenceOrder, committed: u64) -> Self {
        let mut log = Self {
            base,
            salt,
            order,
            committed,
            changes: Vec::new(),
            applied: 0,
            pending_bytes: Vec::new(),
            before_bytes: Vec::new(),
            tail: Tail { offset: 0, room: 0 },
            spare: 0,
            spare_is_used: false,
            touched: Vec::new(),
            retired: HashMap::new(),
            record: Vec::new(),
            lines: Vec::new(),
            prepared: false,
            logged: false,
        };
        log.reset();
        log
    }

    fn reset(&mut self) {
        self.changes.clear();
        self.applied = 0;
        self.pending_bytes.clear();
        self.before_bytes.clear();
        self.touched.clear();
        if !self.retired.is_empty() {
            self.retired.clear();
        }
        self.prepared = false;
        self.logged = false;
        self.spare_is_used = false;
        self.tail = self.first_tail();
    }

    /// Where the open transaction's first record lies.
    fn first_tail(&self) -> Tail {
        let slot = (self.committed + 1) % SLOTS;
        let offset = self.base + LINE as u64 + slot * SLOT_BYTES as u64;
        Tail {
            offset,
            room: SLOT_BYTES,
        }
    }

    /// Moves the commit word over the open transaction, which also makes its records worthless.
    fn end_transaction<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        arena.store_word(self.base, seal(self.committed + 1, self.salt))?;
        arena.flush(self.base, 8, site!("undo.commit-word"))?;
        arena.fence(site!("undo.commit-fence"))?;
        self.committed += 1;
        self.reset();
        Ok(())
    }

    /// Logs the before images of all pending writes, then applies them.
    fn drain<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        if self.changes.len() == self.applied {
            return Ok(());
        }
        arena.enter(Part::Log);
        self.begin_record();
        for change in &self.changes[self.applied..] {
            let before = arena.bytes(change.offset, change.bytes as usize)?;
            self.record.extend_from_slice(&change.offset.to_le_bytes());
            self.record
                .extend_from_slice(&u64::from(change.bytes).to_le_bytes());
            self.record.extend_from_slice(before);
            self.record.resize(self.record.len().next_multiple_of(8), 0);
        }
        self.write_record(arena, RecordKind::Changes)?;
        arena.fence(site!("undo.record-fence"))?;
        self.apply_pending(arena)
    }

    /// Stores the pending writes in place and starts the write-back of their lines, each line once: flushing a line whose
    /// write-back is under way costs more than a fence.
    fn apply_pending<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        self.lines.clear();
        for change in &mut self.changes[self.applied..] {
            let new = &self.pending_bytes[change.range()];
            let data = self.before_bytes.len() as u32;
            self.before_bytes
                .extend_from_slice(arena.bytes(change.offset, new.len())?);
            store(arena, change.offset, new)?;
            push_lines(&mut self.lines, change.offset, new.len());
            change.data = data;
        }
        self.applied = self.changes.len();
        self.pending_bytes.clear();
        self.touched.clear();
        for &line in &self.lines {
            arena.flush(line, LINE, site!("undo.apply"))?;
        }
        Ok(())
    }

    /// Writes before images back, newest first, for all applied changes from number `first` on.
    fn restore<M: Memory>(&mut self, arena: &mut Arena<M>, first: usize) -> Result<()> {
        self.lines.clear();
        for change in self.changes[first..self.applied].iter().rev() {
            store(arena, change.offset, &self.before_bytes[change.range()])?;
            push_lines(&mut self.lines, change.offset, change.bytes as usize);
        }
        for &line in &self.lines {
            arena.flush(line, LINE, site!("undo.restore"))?;
        }
        Ok(())
    }

    fn begin_record(&mut self) {
        self.record.clear();
        self.record.resize(HEADER_BYTES, 0);
    }

    /// Seals `self.record` and writes it at the tail; not fenced.
    fn write_record<M: Memory>(&mut self, arena: &mut Arena<M>, kind: RecordKind) -> Result<()> {
        let bytes = self.record.len().next_multiple_of(LINE);
        if bytes + JUMP_BYTES > self.tail.room {
            self.jump(arena, bytes)?;
        }
        self.record.resize(bytes, 0);
        seal_record(&mut self.record, self.committed + 1, kind, self.salt);
        arena.write_through(self.tail.offset, &self.record, site!("undo.record"))?;
        self.tail.offset += bytes as u64;
        self.tail.room -= bytes;
        self.logged = true;
        Ok(())
    }

    /// Continues the log in the spare block, or else in one that is only reserved: it lives no longer than the transaction, so no crash leaks it, and
    /// recovery reads it before anything is allocated.
    fn jump<M: Memory>(&mut self, arena: &mut Arena<M>, record_bytes: usize) -> Result<()> {
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
        arena.write_through(self.tail.offset, &record, site!("undo.jump"))?;
        self.tail = Tail { offset, room };
        self.spare_is_used |= spare_fits;
        Ok(())
    }

    /// Copies the open transaction's valid records out of the log, oldest first.
    fn read_records<M: Memory>(&self, arena: &Arena<M>) -> Vec<Record> {
        let mut records = Vec::new();
        let mut tail = self.first_tail();
        // No log has more records than the pool has lines: jumps that a forger made into a ring come to an end.
        for _ in 0..arena.pool_bytes() / LINE as u64 {
            let Some(record) = read_record(arena, tail, self.committed + 1, self.salt) else {
                break;
            };
            tail.offset += record.bytes as u64;
            tail.room -= record.bytes;
            if record.kind != RecordKind::Jump {
                records.push(record);
            } else if let (Some(offset), Some(room)) = (record.word(0), record.word(1)) {
                tail = Tail {
                    offset,
                    room: room as usize,
                };
            }
        }
        records
    }

    fn undo_records<M: Memory>(&mut self, arena: &mut Arena<M>, records: &[Record]) -> Result<()> {
        self.lines.clear();
        for record in records
            .iter()
            .rev()
            .filter(|record| record.kind == RecordKind::Changes)
        {
            let changes = record.changes()?;
            for (offset, before) in changes.into_iter().rev() {
                store(arena, offset, before)?;
                push_lines(&mut self.lines, offset, before.len());
            }
        }
        for &line in &self.lines {
            arena.flush(line, LINE, site!("undo.recover"))?;
        }
        arena.fence(site!("undo.recover-fence"))?;
        Ok(())
    }
}

impl<M: Memory> WriteSet<M> for UndoLog {
    fn write(&mut self, arena: &mut Arena<M>, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.before_bytes.len() + self.pending_bytes.len() + bytes.len() > UNDO_BYTES_MAX {
            let text = "the transaction changes more than 4 GiB; split it".to_owned();
            return Err(StorageError::Unsupported(text));
        }
        for (index, piece) in bytes.chunks(CHANGE_BYTES_MAX).enumerate() {
            let data = self.pending_bytes.len() as u32;
            let offset = offset + (index * CHANGE_BYTES_MAX) as u64;
            self.pending_bytes.extend_from_slice(piece);
            self.changes.push(Change {
                offset,
                bytes: piece.len() as u32,
                data,
            });
        }
        if self.pending_bytes.len() > DRAIN_BYTES
            || self.changes.len() - self.applied > DRAIN_CHANGES
        {
            // Forgets what was touched. Whoever changes a structure touches it after its last write.
            self.drain(arena)?;
        }
        Ok(())
    }

    fn change(&mut self, arena: &mut Arena<M>, change: WordChange) -> Result<()> {
        let pending = self.changes[self.applied..]
            .iter()
            .rev()
            .find(|pending| pending.offset == change.offset && pending.bytes == 8)
            .and_then(|pending| self.pending_bytes.get(pending.range()))
            .and_then(|bytes| bytes.try_into().ok())
            .map(u64::from_le_bytes);
        let old = match pending {
            Some(word) => word,
            None => arena.word(change.offset)?,
        };
        let new = old & !change.clear | change.set;
        self.write(arena, change.offset, &new.to_le_bytes())
    }

    fn stage(&mut self, arena: &mut Arena<M>, offset: u64, bytes: &[u8]) -> Result<()> {
        arena.write_through(offset, bytes, site!("undo.stage"))?;
        if self.order == FenceOrder::Paper {
            arena.fence(site!("undo.paper-stage-fence"))?;
        }
        Ok(())
    }

    fn touch(&mut self, offset: u64) {
        self.touched.push(offset);
    }

    fn visible(&mut self, arena: &mut Arena<M>, offset: u64) -> Result<()> {
        if self.touched.contains(&offset) {
            self.drain(arena)
        } else {
            Ok(())
        }
    }

    fn visible_all(&mut self, arena: &mut Arena<M>) -> Result<()> {
        self.drain(arena)
    }

    fn retire(&mut self, word: u64, bits: u64) {
        *self.retired.entry(word).or_default() |= bits;
    }

    fn retired(&self, word: u64) -> u64 {
        if self.retired.is_empty() {
            0
        } else {
            self.retired.get(&word).copied().unwrap_or(0)
        }
    }
}

/// A record as it was read back.
struct Record {
    kind: RecordKind,
    bytes: usize,
    payload: Vec<u8>,
}

impl Record {
    fn word(&self, index: usize) -> Option<u64> {
        read_word(&self.payload, index * 8)
    }

    fn prepared(&self) -> Option<GlobalTxnId> {
        if self.kind == RecordKind::Prepared {
            self.word(0).map(GlobalTxnId)
        } else {
            None
        }
    }

    /// The before images, oldest first. The checksum has been checked, so a misshapen list is a bug or an attack.
    fn changes(&self) -> Result<Vec<(u64, &[u8])>> {
        let mut changes = Vec::new();
        let mut at = 0;
        while let (Some(offset), Some(bytes)) = (
            read_word(&self.payload, at),
            read_word(&self.payload, at + 8),
        ) {
            if bytes == 0 {
                break;
            }
            let start = at + CHANGE_HEADER_BYTES;
            let before = usize::try_from(bytes)
                .ok()
                .and_then(|bytes| self.payload.get(start..start.checked_add(bytes)?))
                .ok_or_else(|| PmemError::corrupted("undo record", offset, "a change leaves it"))?;
            changes.push((offset, before));
            at = start + before.len().next_multiple_of(8);
        }
        Ok(changes)
    }
}

fn read_word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..at + 8)?
        .try_into()
        .ok()
        .map(u64::from_le_bytes)
}

/// Reads the record at `tail`; none if what lies there is not a whole record of transaction `sequence`.
fn read_record<M: Memory>(
    arena: &Arena<M>,
    tail: Tail,
    sequence: u64,
    salt: u32,
) -> Option<Record> {
    if tail.room < LINE {
        return None;
    }
    // The header first: what lies behind it is read only if it is this transaction's.
    let header = arena.slice::<u64>(tail.offset, HEADER_BYTES / 8).ok()?;
    let (crc, bytes) = (header[0] as u32, (header[0] >> 32) as usize);
    let kind = match header[2] {
        1 => RecordKind::Changes,
        2 => RecordKind::Jump,
        3 => RecordKind::Prepared,
        _ => return None,
    };
    if header[1] != sequence || bytes < LINE || bytes > tail.room || !bytes.is_multiple_of(LINE) {
        return None;
    }
    let record = arena.bytes(tail.offset, bytes).ok()?;
    if crc32c::crc32c_append(salt, &record[4..]) != crc {
        return None;
    }
    Some(Record {
        kind,
        bytes,
        payload: record[HEADER_BYTES..].to_vec(),
    })
}

fn seal_record(record: &mut [u8], sequence: u64, kind: RecordKind, salt: u32) {
    let bytes = record.len() as u32;
    record[4..8].copy_from_slice(&bytes.to_le_bytes());
    record[8..16].copy_from_slice(&sequence.to_le_bytes());
    record[16..24].copy_from_slice(&(kind as u64).to_le_bytes());
    let crc = crc32c::crc32c_append(salt, &record[4..]);
    record[..4].copy_from_slice(&crc.to_le_bytes());
}

/// Stores a change; an aligned word goes in one failure-atomic store, so that a bitmap is never half old.
fn store<M: Memory>(arena: &mut Arena<M>, offset: u64, bytes: &[u8]) -> Result<()> {
    match bytes.try_into().map(u64::from_le_bytes) {
        Ok(word) if offset.is_multiple_of(8) => arena.store_word(offset, word)?,
        _ => arena.store(offset, bytes)?,
    }
    Ok(())
}

/// Adds the lines of a range to `lines` unless they are there.
fn push_lines(lines: &mut Vec<u64>, offset: u64, bytes: usize) {
    let mut line = offset & !(LINE as u64 - 1);
    while line < offset + bytes as u64 {
        // The lists are short (a drain has at most a few hundred lines), and the newest lines are the likeliest twins.
        if !lines.iter().rev().take(16).any(|&known| known == line) {
            lines.push(line);
        }
        line += LINE as u64;
    }
}

fn check_bits(sequence: u64, salt: u32) -> u64 {
    let crc = crc32c::crc32c_append(salt, &sequence.to_le_bytes());
    u64::from(crc ^ crc >> 16) & 0xffff
}

fn seal(sequence: u64, salt: u32) -> u64 {
    sequence | check_bits(sequence, salt) << SEQUENCE_BITS
}

fn unseal(word: u64, salt: u32) -> Option<u64> {
    let sequence = word & ((1 << SEQUENCE_BITS) - 1);
    (seal(sequence, salt) == word).then_some(sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_of_the_commit_word_is_noticed() {
        for sequence in [0, 1, 2, 0x1234, 0xffff_ffff, (1 << 48) - 1] {
            let word = seal(sequence, 7);
            assert_eq!(unseal(word, 7), Some(sequence));
            for bit in 0..64 {
                assert_eq!(
                    unseal(word ^ 1 << bit, 7),
                    None,
                    "sequence {sequence} bit {bit}"
                );
            }
        }
    }
}
