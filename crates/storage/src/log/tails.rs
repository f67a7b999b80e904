//! The tails of a partition's log files: a small file that says which segments there were, and how
//! far each log was durable.
//!
//! A log ends at its first frame that is not valid, so the log itself cannot show that its newest
//! segment is missing, or is an older copy. This file does: a segment is noted here before anything
//! in it is acknowledged, and the log's end when a segment is made and when the log is closed. It
//! says nothing about single commits, which therefore cost nothing more, and an opening that
//! changes nothing notes nothing.
//!
//! ```text
//! file     head, 512 bytes | record 0 | record 1, each of whole sectors
//! head     magic 8 | version u32 | partition u32 | database u128 | streams u32, at most
//!          | zeros to 56 | crc32c u32 | zeros to 512, the stamp of the database among them
//!          (docs/formats.md)
//! record   crc32c u32 of the rest, from the head's | streams u32 | sequence u64 | gone u64
//!          | for each stream: first u64, segment u64, end u64
//! gone     in logs of several streams: records with lower numbers may have been removed with
//!          their files
//! first    number of the oldest file that the stream still has, or had when a newer one was noted
//! segment  number of the newest file that the stream has had; 0 if there is none, or if all of
//!          them were removed
//! end      position before which everything was durable when this was written
//! ```
//!
//! Invariants:
//! 1. The records take turns and the one with the higher sequence counts, so a torn one leaves the
//!    previous state, which claims less.
//! 2. A segment is noted after its name is durable and before a record in it is acknowledged. So a
//!    noted segment that a checkpoint still needs is there, or it was lost.
//! 3. The removal of files is noted before it happens, where the log alone could not tell it from a
//!    loss (`gone`, segment 0).
//! 4. The record that an opening has found may be in a cache only. So it is written once more, the
//!    same bytes to the same place, and synced, before the other one's turn and before anything is
//!    removed because of it.

use super::position::{LogIdentity, Lsn};
use super::wal_segment::{damage, read_u32, read_u64};
use crate::error::{Result, StorageError};
use crate::failure::Failure;
use crate::stamp;
use disk::{Directory, File, SECTOR_BYTES};
use pmem::{Access, site};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const MAGIC: [u8; 8] = *b"INDTAIL\n";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = SECTOR_BYTES as usize;
const CHECKSUM_AT: usize = 56;
const _: () =
    assert!(stamp::TAILS_AT >= CHECKSUM_AT + 4 && stamp::TAILS_AT + stamp::BYTES <= HEAD_BYTES);
const FIXED_BYTES: usize = 24;
const STREAM_BYTES: usize = 24;

/// Tail of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tail {
    /// The oldest segment that it has.
    pub(super) first: u64,
    /// The newest segment that it has had, or 0.
    pub(super) segment: u64,
    /// In front of this everything was durable.
    pub(super) end: Lsn,
}

impl Tail {
    /// That of a stream with these segments, ascending.
    pub(super) fn of(segments: impl IntoIterator<Item = u64>, end: Lsn) -> Self {
        let mut segments = segments.into_iter();
        let tail = segments.next().map_or_else(Self::default, |first| Self {
            first,
            segment: segments.last().unwrap_or(first),
            end,
        });
        debug_assert!(
            tail.first <= tail.segment,
            "segments have ascending numbers"
        );
        tail
    }
}

/// The tails of one partition, for its streams together.
pub struct Tails<F> {
    /// None where nothing may be written and there was none.
    file: Option<F>,
    /// Whether the newest record is durable for certain.
    is_durable: bool,
    failure: Failure,
    head: [u8; HEAD_BYTES],
    sequence: u64,
    streams: Vec<Tail>,
    gone: Lsn,
}

/// The tails as all streams of a partition share them.
pub type SharedTails<F> = Arc<Mutex<Tails<F>>>;

/// One stream's part of them.
pub(super) struct StreamTail<F> {
    tails: SharedTails<F>,
    stream: u32,
}

/// The file of a partition.
pub fn name(identity: LogIdentity) -> String {
    format!("p{}.tails", identity.partition)
}

impl<F: File> Tails<F> {
    /// Opens the file of a partition whose log has at most `streams_max` streams. One that is not
    /// there is made: databases of format 1 have none.
    pub fn open<D: Directory<File = F>>(
        directory: &D,
        identity: LogIdentity,
        streams_max: u32,
        access: Access,
    ) -> Result<SharedTails<F>> {
        let mut tails = Self {
            file: None,
            is_durable: false,
            failure: Failure::default(),
            head: head(identity, streams_max),
            sequence: 0,
            streams: Vec::new(),
            gone: Lsn(0),
        };
        let name = name(identity);
        if directory.exists(&name)? {
            tails.read(&name, directory.open(&name)?)?;
        } else if access == Access::Write {
            tails.create(directory, &name)?;
        }
        if access == Access::Read {
            tails.file = None;
        }
        Ok(Arc::new(Mutex::new(tails)))
    }

    /// Makes the file under another name first, so that it is whole when it has its own.
    fn create<D: Directory<File = F>>(&mut self, directory: &D, name: &str) -> Result<()> {
        let unpublished = format!("{name}.tmp");
        if directory.exists(&unpublished)? {
            directory.remove(&unpublished)?;
        }
        let mut file = directory.create(&unpublished)?;
        file.set_bytes(self.bytes())?;
        file.write_at(0, &self.head)?;
        for sequence in 0..2 {
            self.sequence = sequence;
            file.write_at(self.record_at(), &self.record())?;
        }
        file.sync(site!("tails.create"))?;
        directory.rename(&unpublished, name)?;
        directory.sync(site!("tails.name"))?;
        self.file = Some(file);
        Ok(())
    }

    fn read(&mut self, name: &str, mut file: F) -> Result<()> {
        let bytes = file.bytes()?;
        let mut found = [0; HEAD_BYTES];
        let there = bytes.min(HEAD_BYTES as u64) as usize;
        file.read_at(0, &mut found[..there])?;
        if found[..8] != MAGIC {
            return Err(foreign(name, "it does not begin as the tails of a log do"));
        }
        if crc32c::crc32c(&found[..CHECKSUM_AT]).to_le_bytes()
            != found[CHECKSUM_AT..CHECKSUM_AT + 4]
        {
            return Err(damage(name, 0, "the checksum of the head is wrong"));
        }
        if found[..CHECKSUM_AT] != self.head[..CHECKSUM_AT] {
            return Err(foreign(
                name,
                "it belongs to another database, partition or version",
            ));
        }
        if bytes < self.bytes() {
            let detail = format!("the file has {bytes} bytes instead of {}", self.bytes());
            return Err(damage(name, bytes, detail));
        }
        let mut newest: Option<(u64, Vec<Tail>, Lsn)> = None;
        let mut record = vec![0; self.record_bytes()];
        for place in 0..2 {
            file.read_at((HEAD_BYTES + place * record.len()) as u64, &mut record)?;
            if let Some(read) = self.decode(&record)
                && newest.as_ref().is_none_or(|newest| newest.0 < read.0)
            {
                newest = Some(read);
            }
        }
        let Some((sequence, streams, gone)) = newest else {
            let detail = "neither of its records is as it was written";
            return Err(damage(name, HEAD_BYTES as u64, detail));
        };
        (self.sequence, self.streams, self.gone) = (sequence, streams, gone);
        self.file = Some(file);
        Ok(())
    }

    fn streams_max(&self) -> usize {
        read_u32(&self.head, 32).unwrap_or_default() as usize
    }

    /// Bytes of a record with all its streams, whole sectors.
    fn record_bytes(&self) -> usize {
        (FIXED_BYTES + self.streams_max() * STREAM_BYTES).next_multiple_of(SECTOR_BYTES as usize)
    }

    /// Bytes of the file.
    fn bytes(&self) -> u64 {
        (HEAD_BYTES + 2 * self.record_bytes()) as u64
    }

    fn record_at(&self) -> u64 {
        let place = (self.sequence % 2) as usize;
        (HEAD_BYTES + place * self.record_bytes()) as u64
    }

    fn record(&self) -> Vec<u8> {
        assert!(
            self.streams.len() <= self.streams_max(),
            "a log has more streams than its file has room for"
        );
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&(self.streams.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.gone.0.to_le_bytes());
        for tail in &self.streams {
            bytes.extend_from_slice(&tail.first.to_le_bytes());
            bytes.extend_from_slice(&tail.segment.to_le_bytes());
            bytes.extend_from_slice(&tail.end.0.to_le_bytes());
        }
        let checksum = crc32c::crc32c_append(self.salt(), &bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(&self, record: &[u8]) -> Option<(u64, Vec<Tail>, Lsn)> {
        let count = read_u32(record, 4)? as usize;
        let end = count
            .checked_mul(STREAM_BYTES)
            .and_then(|bytes| bytes.checked_add(FIXED_BYTES))?;
        let covered = record.get(4..end)?;
        if crc32c::crc32c_append(self.salt(), covered) != read_u32(record, 0)? {
            return None;
        }
        let stream = |number: usize| {
            let at = FIXED_BYTES + number * STREAM_BYTES;
            Some(Tail {
                first: read_u64(record, at)?,
                segment: read_u64(record, at + 8)?,
                end: Lsn(read_u64(record, at + 16)?),
            })
        };
        let streams = (0..count).map(stream).collect::<Option<_>>()?;
        Some((read_u64(record, 8)?, streams, Lsn(read_u64(record, 16)?)))
    }

    /// Checksums of records start from the head's, so that a record of another file is none.
    fn salt(&self) -> u32 {
        read_u32(&self.head, CHECKSUM_AT).unwrap_or_default()
    }

    /// Streams that have, or have had, a file.
    pub fn count(&self) -> u32 {
        self.streams.len() as u32
    }

    fn tail(&self, stream: u32) -> Tail {
        self.streams
            .get(stream as usize)
            .copied()
            .unwrap_or_default()
    }

    /// Makes what is known durable, if it is news or was found.
    fn note(&mut self, stream: u32, tail: Tail, gone: Lsn) -> Result<()> {
        self.failure.require_none()?;
        if !self.is_durable {
            self.write()?;
            self.is_durable = true;
        }
        let gone = gone.max(self.gone);
        if self.tail(stream) == tail && self.gone == gone {
            return Ok(());
        }
        let streams = (stream as usize + 1).max(self.streams.len());
        self.streams.resize(streams, Tail::default());
        self.streams[stream as usize] = tail;
        self.gone = gone;
        self.sequence += 1;
        self.write()
    }

    /// Writes the record whose turn it is, durably.
    fn write(&mut self) -> Result<()> {
        let (at, record) = (self.record_at(), self.record());
        let file = self.file.as_mut().ok_or(StorageError::Poisoned)?;
        let written = file.write_at(at, &record);
        // commit point: a segment that is noted here is missed when it is gone
        let synced = written.and_then(|()| file.sync(site!("tails.note")));
        synced.map_err(|error| self.failure.note(error.into()))
    }
}

impl<F> Clone for StreamTail<F> {
    fn clone(&self) -> Self {
        Self {
            tails: Arc::clone(&self.tails),
            stream: self.stream,
        }
    }
}

impl<F: File> StreamTail<F> {
    pub(super) fn new(tails: &SharedTails<F>, stream: u32) -> Self {
        Self {
            tails: Arc::clone(tails),
            stream,
        }
    }

    /// A leaf among locks: its holder takes no other.
    fn tails(&self) -> MutexGuard<'_, Tails<F>> {
        self.tails.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tail that was noted last.
    pub(super) fn found(&self) -> Tail {
        self.tails().tail(self.stream)
    }

    /// Records with lower numbers may have been removed.
    pub(super) fn gone(&self) -> Lsn {
        self.tails().gone
    }

    /// Notes durably how far the stream goes.
    pub(super) fn note(&self, tail: Tail) -> Result<()> {
        self.tails().note(self.stream, tail, Lsn(0))
    }

    /// Notes durably that records before `gone` are going to be removed; the stream has `tail`
    /// afterwards.
    pub(super) fn note_gone(&self, tail: Tail, gone: Lsn) -> Result<()> {
        self.tails().note(self.stream, tail, gone)
    }
}

/// The file that is missing, if the files from `first` on up to the newest are not all among
/// `live`. `noted` is the newest one that was noted.
pub(super) fn missing(first: u64, live: &[u64], noted: u64) -> Option<u64> {
    debug_assert!(live.is_sorted(), "segments are found in their order");
    let newest = live.last().copied().unwrap_or(0).max(noted);
    let gap = (first..)
        .zip(live)
        .find(|(expected, found)| expected != *found);
    let next = first + live.len() as u64;
    gap.map(|(expected, _)| expected)
        .or((next <= newest).then_some(next))
}

/// The error for a segment that is missing.
#[cold]
pub(super) fn lost(file: String) -> StorageError {
    StorageError::lost_file(
        file,
        "is missing, and recovery from the newest checkpoint that is there needs it",
    )
}

/// The error for a log that ends too early.
#[cold]
pub(super) fn ends_early(file: String, found: Lsn, noted: Lsn) -> StorageError {
    StorageError::lost_file(
        file,
        format!(
            "ends at {}, and the log was durable up to {}: it is an older copy of itself, or damaged",
            found.0, noted.0
        ),
    )
}

fn head(identity: LogIdentity, streams_max: u32) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head[12..16].copy_from_slice(&identity.partition.to_le_bytes());
    head[16..32].copy_from_slice(&identity.database.to_le_bytes());
    head[32..36].copy_from_slice(&streams_max.to_le_bytes());
    debug_assert!(streams_max > 0, "a log has at least one stream");
    let checksum = crc32c::crc32c(&head[..CHECKSUM_AT]);
    head[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&checksum.to_le_bytes());
    head
}

fn foreign(name: &str, reason: &str) -> StorageError {
    StorageError::foreign_file(name, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_segment_is_found_wherever_it_was() {
        assert_eq!(missing(3, &[3, 4, 5], 5), None);
        assert_eq!(missing(3, &[4, 5], 5), Some(3));
        assert_eq!(missing(3, &[3, 5], 5), Some(4));
        assert_eq!(missing(3, &[3, 4], 5), Some(5));
        assert_eq!(missing(3, &[], 3), Some(3));
        // A checkpoint needs none of those that were noted, and one that was not noted is no loss.
        assert_eq!(missing(3, &[], 2), None);
        assert_eq!(missing(3, &[3], 2), None);
    }
}
