//! Recovery of the NVM-aware log: the newest records are stored again, the open one is undone.
//!
//! Invariants 2, 3, 4, 6 and 8 of [`super`] say which records these are, and why doing it twice
//! does the same.

use super::list::UndoList;
use super::region::Region;
use super::{NvWriteSet, store};
use crate::error::Result;
use crate::log::nv_lines::push_lines;
use crate::log::nv_record::{LINE, Record, RecordKind, Tail, read_record};
use crate::log::nv_staged::StagedRange;
use crate::vocabulary::FenceOrder;
use pmem::{Arena, Memory, PmemError, site};

impl NvWriteSet {
    /// Reads the commit word. Programs of pool formats 1 and 2 named the newest transaction, with a
    /// flag if its record may not be in place.
    pub(super) fn read_word<M: Memory>(&mut self, arena: &Arena<M>) -> Result<()> {
        let (word, number) = self.region.read_word(arena, self.salt)?;
        self.named = word.sequence.saturating_sub(u64::from(word.replay));
        self.committed = word.sequence;
        self.word_number = number;
        Ok(())
    }

    /// Stores the changes of the newest commit records again, in their order, and names the last of
    /// them. It does not compare with the old content: a recovery that depends on less state has
    /// fewer cases to handle. Word, records and the bytes that they publish are durable before
    /// that.
    pub(super) fn replay_commits<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        let records = self.read_commits(arena)?;
        self.lines.clear();
        push_lines(&mut self.lines, self.region.word(self.word_number), 8);
        self.word_number += 1;
        if let Some(list) = &self.list {
            push_lines(&mut self.lines, list.head(), 8);
        }
        for (record, age) in records.iter().rev().zip(0..) {
            let slot = self.region.slot(self.committed - age).offset;
            push_lines(&mut self.lines, slot, record.bytes);
            for range in record.staged()? {
                push_lines(&mut self.lines, range.offset, range.bytes);
            }
        }
        for &line in &self.lines {
            arena.flush(line, LINE, site!("undo.found"))?;
        }
        arena.fence(site!("undo.found-fence"))?;
        if !records.is_empty() {
            self.replay_records(arena, &records)?;
            self.end_replay(arena)?;
        }
        self.written_back = self.committed;
        self.reset();
        Ok(())
    }

    /// Stores changes again, but for what a later record has staged in their place: a block may
    /// have been freed and taken again in between.
    fn replay_records<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        records: &[Record],
    ) -> Result<()> {
        self.lines.clear();
        for (index, record) in records.iter().enumerate() {
            let mut staged = Vec::new();
            for later in &records[index + 1..] {
                staged.extend(later.staged()?);
            }
            for (offset, new) in record.changes()? {
                for (offset, new) in outside((offset, new), &staged) {
                    store(arena, offset, new)?;
                    push_lines(&mut self.lines, offset, new.len());
                }
            }
        }
        for &line in &self.lines {
            arena.flush(line, LINE, site!("undo.replay"))?;
        }
        Ok(())
    }

    /// The commit records that may not be in place yet, oldest first. The newest is the last
    /// transaction that has committed.
    ///
    /// A record does not count whose staged bytes are not there: a power cut came before the fence
    /// that makes both durable. That fence came before there is any record of the next transaction.
    /// So it is the newest, and [`NvWriteSet::read_records`] finds it: its transaction ends like
    /// any other that has not committed, and uses up its number.
    pub(super) fn read_commits<M: Memory>(&mut self, arena: &Arena<M>) -> Result<Vec<Record>> {
        let is_flagged = self.named < self.committed;
        let first = self.named + 1;
        let after = first + self.region.slots();
        let record = |sequence| read_record(arena, self.region.slot(sequence), sequence, self.salt);
        let mut records: Vec<Record> = (first..after)
            .map_while(|sequence| record(sequence).filter(Record::is_commit))
            .collect();
        let end = first + records.len() as u64;
        let is_damaged = is_flagged && records.is_empty();
        if is_damaged || (end + 1..after).any(|sequence| record(sequence).is_some()) {
            let detail = "the record of a transaction that has committed is damaged";
            return Err(
                PmemError::corrupted("log record", self.region.slot(end).offset, detail).into(),
            );
        }
        let may_lack_bytes = records.len() > usize::from(is_flagged) && record(end).is_none();
        if let Some(newest) = records.last().filter(|_| may_lack_bytes)
            && !are_there(arena, &newest.staged()?)
        {
            records.pop();
        }
        self.committed = self.named + records.len() as u64;
        Ok(records)
    }

    /// Goes on in another block, of `bytes` at `base`, with the numbers of this one, which recovery
    /// must not need any more ([`NvWriteSet::close`]). Durable when it returns.
    pub fn move_to<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        (base, bytes): (u64, usize),
    ) -> Result<()> {
        assert!(
            self.named == self.committed,
            "a log moves whose old block recovery needs"
        );
        self.region = Region::new(base, bytes);
        self.format(arena)?;
        arena.fence(site!("undo.moved-fence"))?;
        self.reset();
        Ok(())
    }

    /// Goes on with a linked list, in a log of slots whose transactions have ended. Durable when it
    /// returns.
    pub fn begin_list<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        assert!(
            self.named == self.committed && !self.logged,
            "a list begins while a slot has a record that recovery needs"
        );
        let mut list = UndoList::new(self.region.head());
        list.empty(arena, self.salt)?;
        arena.fence(site!("undo.list-begun-fence"))?;
        self.order = FenceOrder::Paper;
        self.list = Some(list);
        Ok(())
    }

    /// Copies the open transaction's valid records out of the log, oldest first.
    pub(super) fn read_records<M: Memory>(&self, arena: &Arena<M>) -> Result<Vec<Record>> {
        if let Some(list) = &self.list {
            return list.read(arena, self.salt);
        }
        let mut records = Vec::new();
        let mut tail = self.region.slot(self.committed + 1);
        // No log is longer than the pool: jumps that a forger made into a ring come to an end.
        let mut budget = arena.pool_bytes();
        while let Some(record) = read_record(arena, tail, self.committed + 1, self.salt)
            && record.bytes as u64 <= budget
        {
            budget -= record.bytes as u64;
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
        Ok(records)
    }

    pub(super) fn undo_records<M: Memory>(
        &mut self,
        arena: &mut Arena<M>,
        records: &[Record],
    ) -> Result<()> {
        self.lines.clear();
        for record in records
            .iter()
            .rev()
            .filter(|record| record.kind == RecordKind::Undo)
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

/// Whether the changes of all commit records are in place, except those that a later one overwrites
/// or stages over.
pub(super) fn all_in_place<M: Memory>(arena: &Arena<M>, records: &[Record]) -> Result<bool> {
    let mut newer: Vec<StagedRange> = Vec::new();
    for record in records.iter().rev() {
        let changes = record.changes()?;
        for &change in changes.iter().rev() {
            for (offset, new) in outside(change, &newer) {
                if arena.bytes(offset, new.len())? != new {
                    return Ok(false);
                }
            }
            let (offset, bytes) = (change.0, change.1.len());
            newer.push(StagedRange {
                offset,
                bytes,
                crc: 0,
            });
        }
        newer.extend(record.staged()?);
    }
    Ok(true)
}

/// Whether the bytes of staged ranges are in their places.
fn are_there<M: Memory>(arena: &Arena<M>, staged: &[StagedRange]) -> bool {
    staged.iter().all(|range| {
        let bytes = arena.bytes(range.offset, range.bytes);
        bytes.is_ok_and(|bytes| crc32c::crc32c(bytes) == range.crc)
    })
}

/// The parts of a change that lie outside of staged ranges.
fn outside<'b>(change: (u64, &'b [u8]), staged: &[StagedRange]) -> Vec<(u64, &'b [u8])> {
    let mut parts = vec![change];
    for range in staged {
        let end = range.offset + range.bytes as u64;
        let mut rest = Vec::with_capacity(parts.len() + 1);
        for (offset, bytes) in parts {
            let before = range.offset.saturating_sub(offset).min(bytes.len() as u64) as usize;
            let inside = end.saturating_sub(offset).min(bytes.len() as u64) as usize;
            let after = inside.max(before);
            rest.push((offset, &bytes[..before]));
            rest.push((offset + after as u64, &bytes[after..]));
        }
        rest.retain(|(_, bytes)| !bytes.is_empty());
        parts = rest;
    }
    parts
}
