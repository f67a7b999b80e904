//! Records of the NV write set (`nv_write_set`) and its commit word: how they are sealed, and how
//! they are read back.
//!
//! A record counts only whole: its checksum covers header and payload, starts from the pool's salt
//! (so that what the memory held before never counts) and the header names the transaction. The
//! commit word carries check bits instead, because it changes by one 8-byte store.
//!
//! ```text
//! commit word  sequence (47 bits) | replay flag (1 bit), in formats 1 and 2 | check (16 bits)
//! link         the same with the offset of an undo entry, or 0, for the sequence
//! record       crc32c u32 | bytes u32 | sequence u64 | kind u64 | payload, padded to whole lines,
//!              in the entry of a list to words
//!   undo       { offset u64 | bytes u64 | before image, padded to 8 }*
//!   jump       offset u64 | bytes u64 of the block in which the next record lies
//!   prepared   global transaction number u64
//!   commit     { place | new bytes, padded to 8 }, or { place | crc32c u32 | 0 u32 } of bytes that
//!              were staged, any number of them
//!   old commit { offset u64 | bytes u64 | new bytes, padded to 8 }*; of pools of format 1
//! place        offset (47 bits) | 1 if the bytes were staged (1 bit) | bytes (16 bits); never 0
//! ```

use super::nv_staged::StagedRange;
use crate::error::Result;
use crate::vocabulary::GlobalTxnId;
use pmem::{Arena, Memory, PmemError};

pub(super) const LINE: usize = 64;
pub(super) const HEADER_BYTES: usize = 24;
/// Bytes of an undo record before each image.
const CHANGE_HEADER_BYTES: usize = 16;
/// Bytes of a commit record before each image.
pub(super) const PLACE_BYTES: usize = 8;
/// Bytes of a commit record for a range of staged bytes.
pub(super) const STAGED_BYTES: usize = 16;
const OFFSET_MASK: u64 = (1 << 47) - 1;
const IS_STAGED: u64 = 1 << 47;
const BYTES_SHIFT: u32 = 48;

/// Sequence numbers end here: a partition that runs a million transactions a second gets there
/// after four years.
pub(super) const SEQUENCE_MAX: u64 = (1 << 47) - 1;
const REPLAY: u64 = 1 << 47;
const CHECK_SHIFT: u32 = 48;

/// How readers find the entries of a record.
const IN_WORDS: &str = "each entry of a record begins at a word";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordKind {
    /// Before images of the open transaction.
    Undo = 1,
    Jump = 2,
    Prepared = 3,
    /// New bytes of a transaction that commits with this record, as programs of pool format 1
    /// write it.
    OldCommit = 4,
    /// New bytes of a transaction that commits with this record, and checksums of those that it has
    /// staged.
    Commit = 5,
}

/// Place of the next record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    pub(super) offset: u64,
    pub(super) room: usize,
}

/// The decoded commit word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CommitWord {
    /// A transaction that has ended: it committed, or it was undone. Everything up to there is in
    /// place.
    pub(super) sequence: u64,
    /// Whether the changes of this very transaction may not be in place. Pools of formats 1 and 2
    /// have such words.
    pub(super) replay: bool,
}

impl CommitWord {
    pub(super) fn seal(self, salt: u32) -> u64 {
        assert!(
            self.sequence <= SEQUENCE_MAX,
            "a transaction's number does not fit the commit word"
        );
        let word = self.sequence | if self.replay { REPLAY } else { 0 };
        let sealed = word | check_bits(word, salt) << CHECK_SHIFT;
        debug_assert_eq!(
            Self::unseal(sealed, salt),
            Some(self),
            "a commit word is read as it was written"
        );
        sealed
    }

    pub(super) fn unseal(word: u64, salt: u32) -> Option<Self> {
        let content = word & ((1 << CHECK_SHIFT) - 1);
        (content | check_bits(content, salt) << CHECK_SHIFT == word).then_some(Self {
            sequence: content & SEQUENCE_MAX,
            replay: content & REPLAY != 0,
        })
    }
}

fn check_bits(content: u64, salt: u32) -> u64 {
    let crc = crc32c::crc32c_append(salt, &content.to_le_bytes());
    u64::from(crc ^ crc >> 16) & 0xffff
}

/// A record as it was read back.
pub(super) struct Record {
    pub(super) kind: RecordKind,
    pub(super) bytes: usize,
    payload: Vec<u8>,
}

impl Record {
    pub(super) fn word(&self, index: usize) -> Option<u64> {
        read_word(&self.payload, index * 8)
    }

    pub(super) fn prepared(&self) -> Option<GlobalTxnId> {
        if self.kind == RecordKind::Prepared {
            self.word(0).map(GlobalTxnId)
        } else {
            None
        }
    }

    pub(super) fn is_commit(&self) -> bool {
        matches!(self.kind, RecordKind::OldCommit | RecordKind::Commit)
    }

    /// Offsets and images, oldest first. The checksum has been checked, so a misshapen list is a
    /// bug or an attack.
    pub(super) fn changes(&self) -> Result<Vec<(u64, &[u8])>> {
        let mut changes = Vec::new();
        if self.kind == RecordKind::Commit {
            self.read_entries(|offset, image| changes.push((offset, image)), |_| {})?;
            return Ok(changes);
        }
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
                .ok_or_else(|| PmemError::corrupted("log record", offset, "a change leaves it"))?;
            changes.push((offset, before));
            at = start + before.len().next_multiple_of(8);
        }
        Ok(changes)
    }

    /// The ranges that were staged.
    pub(super) fn staged(&self) -> Result<Vec<StagedRange>> {
        let mut ranges = Vec::new();
        if self.kind == RecordKind::Commit {
            self.read_entries(|_, _| {}, |range| ranges.push(range))?;
        }
        Ok(ranges)
    }

    fn read_entries<'r>(
        &'r self,
        mut change: impl FnMut(u64, &'r [u8]),
        mut staged: impl FnMut(StagedRange),
    ) -> Result<()> {
        let mut at = 0;
        while let Some(place) = read_word(&self.payload, at).filter(|&place| place != 0) {
            at += PLACE_BYTES;
            let (offset, bytes) = (place & OFFSET_MASK, (place >> BYTES_SHIFT) as usize);
            let leaves = || PmemError::corrupted("log record", offset, "an entry leaves it");
            if place & IS_STAGED == 0 {
                let image = self.payload.get(at..at + bytes).ok_or_else(leaves)?;
                change(offset, image);
                at += bytes.next_multiple_of(8);
            } else {
                let crc = read_word(&self.payload, at).ok_or_else(leaves)? as u32;
                staged(StagedRange { offset, bytes, crc });
                at += 8;
            }
        }
        Ok(())
    }
}

/// Adds a change to an undo record: where, how long, and the bytes of its before image.
pub(super) fn push_before_image(record: &mut Vec<u8>, offset: u64, image: &[u8]) {
    assert!(
        !image.is_empty(),
        "a change without bytes ends the list of a record"
    );
    debug_assert!(record.len().is_multiple_of(8), "{IN_WORDS}");
    record.extend_from_slice(&offset.to_le_bytes());
    record.extend_from_slice(&(image.len() as u64).to_le_bytes());
    record.extend_from_slice(image);
    record.resize(record.len().next_multiple_of(8), 0);
}

/// Adds a change to a commit record.
pub(super) fn push_new_bytes(record: &mut Vec<u8>, offset: u64, new: &[u8]) {
    debug_assert!(record.len().is_multiple_of(8), "{IN_WORDS}");
    record.extend_from_slice(&place(offset, new.len()).to_le_bytes());
    record.extend_from_slice(new);
    record.resize(record.len().next_multiple_of(8), 0);
}

/// Adds the checksum of staged bytes to a commit record.
pub(super) fn push_staged(record: &mut Vec<u8>, range: &StagedRange) {
    debug_assert!(record.len().is_multiple_of(8), "{IN_WORDS}");
    let place = place(range.offset, range.bytes) | IS_STAGED;
    record.extend_from_slice(&place.to_le_bytes());
    record.extend_from_slice(&u64::from(range.crc).to_le_bytes());
}

/// The word before an image in a commit record.
fn place(offset: u64, bytes: usize) -> u64 {
    assert!(
        offset <= OFFSET_MASK && (1..1 << 16).contains(&bytes),
        "a range of a pool does not fit the word that names it"
    );
    offset | (bytes as u64) << BYTES_SHIFT
}

fn read_word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..at + 8)?
        .try_into()
        .ok()
        .map(u64::from_le_bytes)
}

/// Reads the record at `tail`; none if there is no whole record of transaction `sequence`.
pub(super) fn read_record<M: Memory>(
    arena: &Arena<M>,
    tail: Tail,
    sequence: u64,
    salt: u32,
) -> Option<Record> {
    if tail.room < HEADER_BYTES {
        return None;
    }
    // The header first: the rest is read only if the header is this transaction's.
    let header = arena.slice::<u64>(tail.offset, HEADER_BYTES / 8).ok()?;
    let (crc, bytes) = (header[0] as u32, (header[0] >> 32) as usize);
    let kind = match header[2] {
        1 => RecordKind::Undo,
        2 => RecordKind::Jump,
        3 => RecordKind::Prepared,
        4 => RecordKind::OldCommit,
        5 => RecordKind::Commit,
        _ => return None,
    };
    let is_inside = (HEADER_BYTES..=tail.room).contains(&bytes) && bytes.is_multiple_of(8);
    if header[1] != sequence || !is_inside {
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

/// A word that leads to an undo entry at `offset`, or to none if that is 0. It has the check bits
/// of a commit word: a flipped bit must not lead to the entry of an older transaction.
pub(super) fn seal_link(offset: u64, salt: u32) -> u64 {
    let link = CommitWord {
        sequence: offset,
        replay: false,
    };
    link.seal(salt)
}

/// Where the link at `at` leads; none if to no entry.
pub(super) fn read_link<M: Memory>(arena: &Arena<M>, at: u64, salt: u32) -> Result<Option<u64>> {
    let link = CommitWord::unseal(arena.word(at)?, salt).ok_or_else(|| {
        PmemError::corrupted("link of an undo entry", at, "its check bits are wrong")
    })?;
    Ok(Some(link.sequence).filter(|&offset| offset != 0))
}

/// The number of the transaction that a record names, whole or not.
pub(super) fn sequence_at<M: Memory>(arena: &Arena<M>, offset: u64) -> Result<u64> {
    Ok(arena.slice::<u64>(offset, HEADER_BYTES / 8)?[1])
}

pub(super) fn seal_record(record: &mut [u8], sequence: u64, kind: RecordKind, salt: u32) {
    debug_assert!(
        record.len() >= HEADER_BYTES && record.len().is_multiple_of(8),
        "a record consists of whole words"
    );
    debug_assert!(
        (1..=SEQUENCE_MAX).contains(&sequence),
        "a record has the number of a transaction"
    );
    let bytes = record.len() as u32;
    record[4..8].copy_from_slice(&bytes.to_le_bytes());
    record[8..16].copy_from_slice(&sequence.to_le_bytes());
    record[16..24].copy_from_slice(&(kind as u64).to_le_bytes());
    let crc = crc32c::crc32c_append(salt, &record[4..]);
    record[..4].copy_from_slice(&crc.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: RecordKind, payload: Vec<u8>) -> Record {
        Record {
            kind,
            bytes: HEADER_BYTES + payload.len(),
            payload,
        }
    }

    #[test]
    fn entries_are_read_back() {
        let range = StagedRange {
            offset: 1 << 40,
            bytes: 4096,
            crc: u32::MAX,
        };
        let mut payload = Vec::new();
        push_new_bytes(&mut payload, 8, &[1, 2, 3]);
        push_staged(&mut payload, &range);
        push_new_bytes(&mut payload, OFFSET_MASK, &[4; 8]);
        payload.resize(payload.len() + 24, 0);
        let commit = record(RecordKind::Commit, payload);
        let changes: [(u64, &[u8]); 2] = [(8, &[1, 2, 3]), (OFFSET_MASK, &[4; 8])];
        assert_eq!(commit.changes().unwrap(), changes);
        assert_eq!(commit.staged().unwrap(), [range]);
    }

    #[test]
    fn a_record_of_a_pool_of_format_1_is_read() {
        let mut payload = Vec::new();
        push_before_image(&mut payload, 8, &[1, 2, 3]);
        push_before_image(&mut payload, 1 << 50, &[4; 8]);
        payload.resize(payload.len() + 24, 0);
        let commit = record(RecordKind::OldCommit, payload);
        let changes: [(u64, &[u8]); 2] = [(8, &[1, 2, 3]), (1 << 50, &[4; 8])];
        assert!(commit.is_commit());
        assert_eq!(commit.changes().unwrap(), changes);
        assert_eq!(commit.staged().unwrap(), []);
    }

    #[test]
    fn an_entry_that_leaves_its_record_is_damage() {
        for bytes in [8, 16] {
            let mut payload = Vec::new();
            push_new_bytes(&mut payload, 8, &[1; 16]);
            payload.truncate(bytes);
            let commit = record(RecordKind::Commit, payload);
            assert!(commit.changes().is_err(), "{bytes}");
        }
    }

    #[test]
    fn every_flipped_bit_of_the_commit_word_is_noticed() {
        for sequence in [0, 1, 2, 0x1234, 0xffff_ffff, SEQUENCE_MAX] {
            for replay in [false, true] {
                let commit = CommitWord { sequence, replay };
                let word = commit.seal(7);
                assert_eq!(CommitWord::unseal(word, 7), Some(commit));
                for bit in 0..64 {
                    assert_eq!(
                        CommitWord::unseal(word ^ 1 << bit, 7),
                        None,
                        "{commit:?} bit {bit}"
                    );
                }
            }
        }
    }
}
