//! Places of commit words and records in the block of the log of an NV write set.
//!
//! A medium wears out line by line, and each commit stores a record. So words and records move on
//! through the block, and come back to a line only after all others have had their turn: the longer
//! the block, the longer lasts its most written line. A place follows from the number of the
//! transaction alone, so recovery finds it without a search.
//!
//! ```text
//! block     [word 0][word 1]..., each alone in its line | [slot 0][slot 1]...[slot n - 1]
//! word      the next place for each new commit word; the one with the highest sequence counts
//! slot      transactions whose sequence % n is the slot's number. Each starts a line after the
//!           transaction n before, until the slot ends, and then at its beginning
//! ```
//!
//! With a list of undo entries (`list`) neither moves: its head has the first line of slot 0.
//!
//! There are 32 slots, or fewer in a short block. Pools of formats 1 and 2 have one word and four
//! slots, whose starts never move.

use super::NvWriteSet;
use crate::error::Result;
use crate::log::nv_record::{CommitWord, LINE, Tail};
use pmem::{Arena, Memory, Part, PmemError, site};

/// Bytes that a record and the jump after it may take.
pub(super) const SLOT_BYTES: usize = 4032;
/// Fewest bytes of a block of the log, which has seven slots.
pub const LOG_BYTES_MIN: usize = 32 << 10;
/// Most bytes of one.
pub const LOG_BYTES_MAX: usize = 1 << 30;
/// Bytes of the block in pools of formats 1 and 2.
const FIXED_BYTES: usize = 16 << 10;
const SLOTS_MAX: usize = 32;
/// One line of so many has a commit word.
const WORD_SHARE: usize = 32;
/// Lengths of a block are multiples of this, which the heap knows.
const GRANULE: usize = 16 << 10;

/// Length of the block that takes the place of one of `budget` bytes.
pub fn log_bytes(budget: u64) -> usize {
    let bytes = budget.clamp(LOG_BYTES_MIN as u64, LOG_BYTES_MAX as u64) as usize;
    bytes / GRANULE * GRANULE
}

/// The block of a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    base: u64,
    words: u64,
    slots: u64,
    /// From one slot to the next.
    slot_stride: u64,
    /// Places in a slot at which a transaction may start.
    starts: u64,
}

impl Region {
    /// The block of `bytes` at `base`; a short one is that of an older format.
    pub(super) fn new(base: u64, bytes: usize) -> Self {
        let (bytes, words) = if bytes < LOG_BYTES_MIN {
            (FIXED_BYTES, 1)
        } else {
            (bytes, bytes / LINE / WORD_SHARE)
        };
        let room = bytes - words * LINE;
        let slots = (room / SLOT_BYTES).min(SLOTS_MAX);
        let lines = room / LINE / slots;
        Self {
            base,
            words: words as u64,
            slots: slots as u64,
            slot_stride: (lines * LINE) as u64,
            starts: (lines - SLOT_BYTES / LINE + 1) as u64,
        }
    }

    /// Most records that a recovery stores again.
    pub(super) fn slots(&self) -> u64 {
        self.slots
    }

    /// Places at which a transaction may start.
    pub(super) fn starts(&self) -> u64 {
        self.slots * self.starts
    }

    /// Commits whose lines are written back together. Two more records may be whole before the
    /// commit word names the last of them durably.
    pub(super) fn batch(&self) -> u64 {
        self.slots - 2
    }

    pub(super) fn words(&self) -> u64 {
        self.words
    }

    /// Place of a commit word: each new one has the next number.
    pub(super) fn word(&self, number: u64) -> u64 {
        self.base + number % self.words * LINE as u64
    }

    /// Place of the first record of a transaction.
    pub(super) fn slot(&self, sequence: u64) -> Tail {
        let slot = sequence % self.slots * self.slot_stride;
        let start = sequence / self.slots % self.starts * LINE as u64;
        Tail {
            offset: self.base + self.words * LINE as u64 + slot + start,
            room: SLOT_BYTES,
        }
    }

    /// Where a list of undo entries has its head: no transaction has a slot then.
    pub(super) fn head(&self) -> u64 {
        self.slot(0).offset
    }

    /// The commit word that counts, and its number. Each word was stored whole, so any that is not
    /// is damage: it may have been the newest.
    pub(super) fn read_word<M: Memory>(
        &self,
        arena: &Arena<M>,
        salt: u32,
    ) -> Result<(CommitWord, u64)> {
        let mut newest: Option<(CommitWord, u64)> = None;
        for number in 0..self.words {
            let at = self.word(number);
            let word = CommitWord::unseal(arena.word(at)?, salt).ok_or_else(|| {
                PmemError::corrupted("commit word", at, "its check bits are wrong")
            })?;
            if newest.is_none_or(|(known, _)| known.sequence < word.sequence) {
                newest = Some((word, number));
            }
        }
        Ok(newest.expect("a block of the log has a commit word"))
    }
}

impl NvWriteSet {
    /// Makes each commit word name the last transaction, and a list empty.
    pub(super) fn format<M: Memory>(&mut self, arena: &mut Arena<M>) -> Result<()> {
        arena.enter(Part::Log);
        let word = CommitWord {
            sequence: self.committed,
            replay: false,
        };
        for number in 0..self.region.words() {
            let at = self.region.word(number);
            arena.store_word(at, word.seal(self.salt))?;
            arena.flush(at, 8, site!("undo.format"))?;
        }
        if let Some(list) = &mut self.list {
            list.empty(arena, self.salt)?;
        }
        Ok(())
    }

    /// Writes of the most written line of the log since it was opened, if records and words have
    /// come around often.
    pub fn line_writes(&self) -> f64 {
        if let Some(list) = &self.list {
            return list.head_stores() as f64;
        }
        let of_records = self.record_lines as f64 / self.region.starts() as f64;
        of_records.max(self.words_stored as f64 / self.region.words() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First and last line of the places that a transaction may use.
    fn lines(region: &Region, sequence: u64) -> (u64, u64) {
        let Tail { offset, room } = region.slot(sequence);
        (offset, offset + room as u64 - LINE as u64)
    }

    #[test]
    fn records_that_recovery_may_read_lie_apart_and_inside() {
        for bytes in [FIXED_BYTES, LOG_BYTES_MIN, 128 << 10, 144 << 10, 4 << 20] {
            let region = Region::new(1 << 20, bytes);
            for first in (0..200_000).step_by(997) {
                let places: Vec<_> = (first..first + region.slots())
                    .map(|sequence| lines(&region, sequence))
                    .collect();
                for (index, &(from, to)) in places.iter().enumerate() {
                    assert!(from > region.word(region.words() - 1), "{bytes} {first}");
                    assert!(to < (1 << 20) + bytes as u64, "{bytes} {first}");
                    let others = &places[index + 1..];
                    assert!(others.iter().all(|&(start, end)| end < from || to < start));
                }
            }
        }
    }

    #[test]
    fn the_block_of_an_older_pool_has_its_four_slots() {
        let region = Region::new(0, FIXED_BYTES);
        let slots = (0..5).map(|sequence| region.slot(sequence).offset);
        assert_eq!(slots.collect::<Vec<_>>(), [64, 4096, 8128, 12160, 64]);
        assert_eq!((region.word(0), region.word(1)), (0, 0));
    }

    #[test]
    fn starts_come_back_after_all_others() {
        let region = Region::new(0, 4 << 20);
        let all = region.starts();
        let mut starts: Vec<_> = (0..all).map(|at| region.slot(at).offset).collect();
        starts.sort_unstable();
        starts.dedup();
        assert_eq!(starts.len() as u64, all);
        assert!(all > 60_000, "{all}");
        assert_eq!(region.slot(all).offset, region.slot(0).offset);
    }

    #[test]
    fn a_block_has_the_length_of_its_budget_within_limits() {
        assert_eq!(log_bytes(0), LOG_BYTES_MIN);
        assert_eq!(log_bytes((1 << 20) + 5), 1 << 20);
        assert_eq!(log_bytes(u64::MAX), LOG_BYTES_MAX);
    }
}
