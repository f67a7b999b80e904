//! The write-ahead log: a sequence of records in files, appended in memory and made durable in
//! groups.
//!
//! The log is one sequence of bytes, addressed by [`Lsn`]; segments are pieces of it, one file each
//! (`p0.wal.000001`). A segment gets its whole length when it is made, so a full disk is an error
//! of [`Wal::append`], where the transaction can still be aborted, and not of [`Wal::flush`], where
//! others may wait.
//!
//! Invariants, proven by the crash tests:
//! 1. A file that has a segment's name has a durable header and its whole length.
//! 2. A segment gets its name only after everything before its first record is durable. So all
//!    segments but the last must be valid up to the first record of the next one; anything else is
//!    damage. A checkpoint begins a new segment, so that the log before it is whole files.
//! 3. Recovery never appends to the segment that it found last: it goes on in a new one. Otherwise
//!    a record that was lost, and is written again with the same bytes, would bring back its old
//!    successors. (A mark takes fewer bytes than any record, so no successor follows it.)
//! 4. After a failed write or sync nothing more is appended ([`StorageError::Poisoned`]), because
//!    nobody knows what was lost.
//! 5. Recovery makes records durable before it uses them. That a record can be read does not prove
//!    it durable, nor does a sync: after a failed sync a cache may show lost data as if it were
//!    clean. The proof is something written after a sync that succeeded: the `synced` of a later
//!    frame, a mark, or a newer segment. So recovery writes the unproven records of the last
//!    segment again, the same bytes to the same place, which cannot harm durable ones; then it
//!    syncs them and adds a mark. After an orderly end or an earlier recovery the mark is already
//!    there.
//! 6. A segment is noted in the tails of the partition (`tails`) when its name is durable, with the
//!    end of the log, which an orderly end notes as well. So a segment that is missing, or is an
//!    older copy, is distinguished from a log that went no further.
//!
//! Others may append while a sync runs (`wal_sync`), and while a segment is made (`wal_roll`).
//!
//! Invariant 5 costs at most one segment of writes and two syncs: usually the last group.
//!
//! States of a segment file: `p0.wal.tmp` → (`begin_segment`) current → (the next one) full →
//! (`remove_in_front`) gone, or a spare (`wal_spares`) → (`begin_segment`) current.

use super::numbered::InFront;
use super::position::{LogIdentity, LogStart, Lsn, NUMBER_MAX};
use super::tails::{StreamTail, Tail, Tails, ends_early, lost, missing};
use super::wal_options::WalOptions;
use super::wal_read::{Replayed, read_segment};
use super::wal_roll::{NextFile, Roll, Room};
use super::wal_segment::{
    FRAME_BYTES, HEADER_BYTES, KIND, SEGMENT_BYTES_MAX, SegmentHeader, damage, frame_bytes,
    push_frame, was_durable,
};
use super::wal_spares::{self, Spares};
use super::wal_sync::{EndedSync, PendingSync, SegmentFile, prove};
use crate::error::{Result, StorageError};
use crate::failure::Failure;
use crate::sync::{Mutex, lock};
use disk::{Directory, File};
use pmem::Access;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The record's part in a log that has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It needs room like any other.
    Change,
    /// It gives room back, or ends a transaction: the reserve is for it
    /// ([`WalOptions::reserve_bytes`]).
    Release,
}

/// How far the buffer outgrows its size before appends wait for the running sync.
const BUFFERS_MAX: usize = 16;

/// Whether the partition has a segment. Its first one comes after its first checkpoint is durable.
pub(super) fn exists<D: Directory>(directory: &D, identity: LogIdentity) -> Result<bool> {
    Ok(!identity.numbers(directory, KIND)?.is_empty())
}

/// Whether the partition has segments that are not needed after a checkpoint at `start`.
pub fn has_needless<D: Directory>(
    directory: &D,
    identity: LogIdentity,
    start: LogStart,
) -> Result<bool> {
    let numbers = identity.numbers(directory, KIND)?;
    Ok(numbers.iter().any(|&number| number < start.segment))
}

/// Longest payload. A length on the medium has 32 bits; half of that keeps every sum of sizes in
/// range.
const PAYLOAD_BYTES_MAX: usize = 1 << 31;
const _: () = assert!(
    HEADER_BYTES + frame_bytes(PAYLOAD_BYTES_MAX) + FRAME_BYTES <= SEGMENT_BYTES_MAX as usize,
    "the longest record has a segment"
);

/// Segments whose room is not worth a checkpoint, though they have no records.
const SPARSE_SEGMENTS: u64 = 3;

/// Why there is a current segment: nothing is appended without one, and it goes only when
/// everything is synced.
const HAS_CURRENT: &str = "records that are not synced belong to the current segment";

/// Why an offset in the current segment follows from the end of the log, and the reverse.
pub(super) const END_IN_SEGMENT: &str = "the current segment ends where the log does";

/// The segment that is being written.
pub(super) struct Current<F> {
    pub(super) file: Arc<Mutex<SegmentFile<F>>>,
    pub(super) header: SegmentHeader,
    pub(super) seed: u32,
    /// Offset in the file where `buffer` goes.
    pub(super) written: u64,
    /// Whether its roll has ended. Nothing is written to it before.
    pub(super) is_named: bool,
}

/// The log of one partition.
pub struct Wal<D: Directory> {
    pub(super) identity: LogIdentity,
    /// The kind in the names of its files.
    pub(super) kind: String,
    pub(super) options: WalOptions,
    pub(super) start: LogStart,
    pub(super) current: Option<Current<D::File>>,
    /// The one before a checkpoint that has begun, as long as nothing is appended after it.
    pub(super) closed: Option<Current<D::File>>,
    /// A file for the segment after the current one.
    pub(super) next: Option<NextFile<D::File>>,
    /// Whether the disk had no room for that file.
    pub(super) is_refused: bool,
    /// Steps that have to be durable before the records of the current segment.
    pub(super) roll: Option<Roll<D::File>>,
    pub(super) next_segment: u64,
    /// Numbers and lengths of the files on disk, ascending.
    pub(super) segments: Vec<(u64, u64)>,
    /// Files that are used again.
    pub(super) spares: Spares,
    buffer: Vec<u8>,
    /// An empty one, to be the buffer while a sync has the other.
    spare: Vec<u8>,
    /// Syncs that have begun and not ended.
    running: u32,
    pub(super) end: Lsn,
    synced: Lsn,
    /// End of the log when the last marker was written.
    marked: Lsn,
    /// Whether files were removed that a crash may bring back.
    pub(super) has_removed: bool,
    /// The tail file, which shows whether files of the log are missing.
    pub(super) tail: StreamTail<D::File>,
    failure: Failure,
}

impl<D: Directory> Wal<D> {
    /// Reads the log from `start` on, hands each record to `replay`, and makes the end ready for
    /// appending. Writes nothing but the removal of files that are not needed, and what is not
    /// known to be durable (invariant 5).
    pub fn open(
        directory: &D,
        identity: LogIdentity,
        options: WalOptions,
        start: LogStart,
        replay: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
    ) -> Result<Self> {
        let manner = (Access::Write, InFront::GivenUp);
        Self::open_for(manner, directory, identity, options, start, replay)
    }

    /// As [`Wal::open`], with what becomes of files that are not needed: those that are kept go
    /// with `remove_in_front`. With [`Access::Read`] nothing is written at all: files that are not
    /// needed stay, what a process has left in a cache is read and not made durable, and the log
    /// refuses what would be appended.
    pub fn open_for(
        (access, in_front): (Access, InFront),
        directory: &D,
        identity: LogIdentity,
        options: WalOptions,
        start: LogStart,
        replay: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
    ) -> Result<Self> {
        let (old, live): (Vec<u64>, Vec<u64>) = identity
            .numbers(directory, KIND)?
            .into_iter()
            .partition(|&number| number < start.segment);
        if let Some(&last) = live.last().filter(|&&last| last > NUMBER_MAX) {
            let name = identity.file_name(KIND, last);
            return Err(damage(&name, 0, "no log has so many segments"));
        }
        let tail = StreamTail::new(&Tails::open(directory, identity, 1, access)?, 0);
        let noted = tail.found().segment;
        let gap = missing(start.segment, &live, noted);
        let lost = |number: u64| lost(identity.file_name(KIND, number));
        if noted >= start.segment && live.last() < Some(&noted) {
            return Err(lost(gap.unwrap_or(noted)));
        }
        let mut kept = Vec::new();
        if in_front == InFront::Kept {
            for &number in &old {
                let file = directory.open(&identity.file_name(KIND, number))?;
                kept.push((number, file.bytes()?));
            }
        }
        let mut wal = Self::resume((identity, KIND), options, kept, start, tail);
        match (wal.replay_segments(access, directory, &live, replay), gap) {
            // A segment whose name was never durable had no record: then the others follow each
            // other without it.
            (Err(StorageError::DamagedFile { .. }), Some(number)) => return Err(lost(number)),
            (replayed, _) => replayed?,
        }
        if access == Access::Read {
            wal.refuse(&StorageError::Unsupported(
                "it is open for reading only".to_owned(),
            ));
            return Ok(wal);
        }
        if in_front == InFront::GivenUp {
            for number in old {
                directory.remove(&identity.file_name(KIND, number))?;
            }
        }
        if directory.exists(&wal.unpublished_name())? {
            directory.remove(&wal.unpublished_name())?;
        }
        wal.spares.find(directory)?;
        Ok(wal)
    }

    /// A log whose files are those of this kind with these numbers and lengths, ascending. All is
    /// durable, and it goes on in a new file at `start`.
    pub(super) fn resume(
        (identity, kind): (LogIdentity, &str),
        options: WalOptions,
        segments: Vec<(u64, u64)>,
        start: LogStart,
        tail: StreamTail<D::File>,
    ) -> Self {
        debug_assert!(segments.is_sorted(), "segments have ascending numbers");
        debug_assert!(
            segments
                .last()
                .is_none_or(|&(last, _)| last < start.segment),
            "a log goes on in a segment that it has"
        );
        Self {
            identity,
            kind: kind.to_owned(),
            options,
            start,
            current: None,
            closed: None,
            next: None,
            is_refused: false,
            roll: None,
            next_segment: start.segment,
            segments,
            spares: Spares::new(identity, kind, &options),
            buffer: Vec::new(),
            spare: Vec::new(),
            running: 0,
            end: start.lsn,
            synced: start.lsn,
            marked: start.lsn,
            // An earlier process may have removed some.
            has_removed: true,
            tail,
            failure: Failure::default(),
        }
    }

    /// Notes, if there are files that are no longer needed, that records with numbers below `gone`
    /// are going with them, and which file stays.
    pub(super) fn note_gone(&mut self, gone: Lsn) -> Result<()> {
        let is_needless = |&(number, _): &(u64, u64)| number < self.start.segment;
        if !self.segments.first().is_some_and(is_needless) {
            return Ok(());
        }
        let stay = self.segments.iter().filter(|one| !is_needless(one));
        let tail = Tail::of(stay.map(|&(number, _)| number), self.synced);
        let noted = self.tail.note_gone(tail, gone);
        noted.map_err(|error| self.poison(error))
    }

    /// Notes which files there are, and the end of what is durable.
    fn note_tail(&mut self) -> Result<()> {
        let numbers = self.segments.iter().map(|&(number, _)| number);
        let noted = self.tail.note(Tail::of(numbers, self.synced));
        noted.map_err(|error| self.poison(error))
    }

    /// Adds a record. It is durable once [`Wal::synced`] has reached the position that this
    /// returns.
    ///
    /// If the disk is full (`DiskError::OutOfSpace`) the log is as it was, and later records may
    /// still fit.
    pub fn append(&mut self, directory: &D, payload: &[u8]) -> Result<Lsn> {
        self.append_for(directory, payload, Purpose::Change)
    }

    /// As [`Wal::append`], of a record for which there may be a reserve.
    pub fn append_for(&mut self, directory: &D, payload: &[u8], purpose: Purpose) -> Result<Lsn> {
        self.failure.require_none()?;
        if payload.len() > PAYLOAD_BYTES_MAX {
            let text = format!(
                "a transaction of {} bytes is too long for the log",
                payload.len()
            );
            return Err(StorageError::Unsupported(text));
        }
        let bytes = frame_bytes(payload.len()) as u64;
        // A record leaves the last bytes of its segment to a mark.
        let mark_bytes = if payload.is_empty() { 0 } else { FRAME_BYTES };
        if self.room() < bytes + mark_bytes as u64 {
            match self.roll(directory, Room::exactly(bytes)) {
                Err(error)
                    if error.is_out_of_space()
                        && purpose == Purpose::Release
                        && self.spares.has_reserve(bytes) =>
                {
                    self.roll_to_reserve(directory)?;
                }
                rolled => rolled?,
            }
        }
        self.append_fitting(payload)?;
        Ok(self.end)
    }

    /// Adds a record for which the current segment has room.
    pub fn append_fitting(&mut self, payload: &[u8]) -> Result<()> {
        self.failure.require_none()?;
        let buffered = (self.buffer.len() + frame_bytes(payload.len())) as u64;
        let current = self.current();
        assert!(
            current.written + buffered <= current.header.bytes,
            "a record leaves its segment"
        );
        let seed = current.seed;
        push_frame(&mut self.buffer, seed, self.end, self.synced, payload);
        self.end = Lsn(self.end.0 + frame_bytes(payload.len()) as u64);
        debug_assert!(self.ends_in_current(), "{END_IN_SEGMENT}");
        let buffers = if self.running == 0 { 1 } else { BUFFERS_MAX };
        if self.is_named() && self.buffer.len() >= buffers * self.options.buffer_bytes_max {
            self.write_buffer()?;
        }
        Ok(())
    }

    /// Whether the current segment has room for a record.
    pub fn has_room_for(&self, payload: &[u8]) -> bool {
        self.has_room(frame_bytes(payload.len()) as u64)
    }

    /// Whether the current segment has room for `bytes` of frames.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.room() >= bytes + FRAME_BYTES as u64
    }

    /// Makes the current segment have room for `bytes` of frames, so that appending them meets no
    /// full disk.
    pub fn make_room(&mut self, directory: &D, bytes: u64) -> Result<()> {
        self.failure.require_none()?;
        if !self.has_room(bytes) {
            self.roll(directory, Room::generous(bytes)?)?;
        }
        Ok(())
    }

    /// Hands every record that is needed and durable to `replay`, from the files.
    pub fn replay(
        &self,
        directory: &D,
        replay: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut data = Vec::new();
        let mut log = Replayed::new(self.start.lsn);
        let needed = |number: u64| number >= self.start.segment;
        for &(number, _) in self.segments.iter().filter(|&&(number, _)| needed(number)) {
            let (name, header, _) =
                read_segment(directory, self.identity, &self.kind, number, &mut data)?;
            log.segment(&name, &header, &data, replay)?;
        }
        Ok(())
    }

    /// Makes all appended records durable.
    pub fn flush(&mut self) -> Result<()> {
        match self.begin_sync()? {
            Some(pending) => {
                let ended = pending.run(|| ());
                self.end_sync(ended)
            }
            None => Ok(()),
        }
    }

    /// Begins to make all appended records durable; none if they are. Records may be appended
    /// meanwhile, and what has to know goes back with [`Wal::end_sync`].
    pub fn begin_sync(&mut self) -> Result<Option<PendingSync<D::File>>> {
        self.failure.require_none()?;
        if self.synced == self.end {
            return Ok(None);
        }
        assert!(
            self.is_named(),
            "a roll ends before the records behind it are synced"
        );
        assert!(self.ends_in_current(), "{END_IN_SEGMENT}");
        let spare = std::mem::take(&mut self.spare);
        let bytes = std::mem::replace(&mut self.buffer, spare);
        let current = self.current.as_mut().expect(HAS_CURRENT);
        let pending = PendingSync {
            file: Arc::clone(&current.file),
            offset: current.written,
            end: self.end,
            bytes,
        };
        current.written += pending.bytes.len() as u64;
        self.running += 1;
        Ok(Some(pending))
    }

    /// Notes what has become of a sync.
    pub fn end_sync(&mut self, ended: EndedSync) -> Result<()> {
        self.running -= 1;
        self.spare = ended.bytes;
        self.spare.clear();
        assert!(
            ended.end <= self.end,
            "records are durable that the log does not have"
        );
        if let Err(error) = ended.result {
            return Err(self.poison(error));
        }
        // A later sync may have ended before.
        self.synced = self.synced.max(ended.end);
        Ok(())
    }

    /// Makes all records durable and marks the end, so that damage to the last record is
    /// distinguished from a torn tail, and the next recovery knows which records are durable.
    pub fn close(&mut self, directory: &D) -> Result<()> {
        self.remove_next(directory)?;
        self.flush()?;
        if self.marked != self.end {
            // A mark is no part of the log, so recovery is to find the end before it.
            self.note_tail()?;
        }
        if self.marked != self.end && self.room() >= FRAME_BYTES as u64 {
            self.append(directory, &[])?;
            self.flush()?;
            self.marked = self.end;
        }
        debug_assert_eq!(self.synced, self.end, "a closed log has all of its records");
        Ok(())
    }

    /// Reads the durable log again; the error says what is wrong with it.
    pub fn verify(&self, directory: &D) -> Result<()> {
        let mut data = Vec::new();
        let mut log = Replayed::new(self.start.lsn);
        let needless = |number: u64| number < self.start.segment;
        for &(number, _) in self
            .segments
            .iter()
            .filter(|(number, _)| !needless(*number))
        {
            let (name, header, _) =
                read_segment(directory, self.identity, &self.kind, number, &mut data)?;
            let found = log.segment(&name, &header, &data, &mut |_, _| Ok(()))?;
            let is_last = self
                .segments
                .last()
                .is_some_and(|&(last, _)| last == number);
            if is_last && log.frames < self.synced {
                let detail = "the record here is not valid any more";
                return Err(damage(&name, found.frames as u64, detail));
            }
        }
        Ok(())
    }

    /// Position after the last appended record.
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// Position before which everything is durable.
    pub fn synced(&self) -> Lsn {
        self.synced
    }

    /// Bytes of records since the last checkpoint.
    pub fn live_bytes(&self) -> u64 {
        self.end.0 - self.start.lsn.0
    }

    /// Whether the segments that recovery needs have room of several segments without records. Each
    /// opening that appends begins a segment (invariant 3), so that many of them leave many.
    pub fn is_sparse(&self) -> bool {
        let needed = |&&(number, _): &&(u64, u64)| number >= self.start.segment;
        let bytes = self.segments.iter().filter(needed).map(|&(_, bytes)| bytes);
        let idle_bytes = bytes.sum::<u64>().saturating_sub(self.live_bytes());
        idle_bytes >= SPARSE_SEGMENTS * self.options.segment_bytes
    }

    /// The numbers of the segment files.
    pub(super) fn numbers(&self) -> RangeInclusive<u64> {
        let number = |segment: Option<&(u64, u64)>| segment.map(|&(number, _)| number);
        let first = number(self.segments.first()).unwrap_or(self.next_segment);
        first..=number(self.segments.last()).unwrap_or(first - 1)
    }

    /// Bytes that the segment files take, spares among them.
    pub fn file_bytes(&self) -> u64 {
        let segments = self.segments.iter().map(|&(_, bytes)| bytes);
        let nameless = self.current.iter().filter(|current| !current.is_named);
        let nameless = nameless.map(|current| current.header.bytes);
        let next = self.next.iter().map(|next| next.bytes);
        segments.chain(nameless).chain(next).sum::<u64>() + self.spares.bytes()
    }

    /// Whether an earlier write or sync failed.
    pub fn is_poisoned(&self) -> bool {
        self.failure.is_noted()
    }

    /// Fails if an earlier write or sync failed.
    pub fn require_sound(&self) -> Result<()> {
        self.failure.require_none()
    }

    /// Refuses everything from now on. For failures after which the log on disk and the state in
    /// memory may differ.
    pub fn refuse(&mut self, error: &StorageError) {
        self.failure.note_of(error);
    }

    /// Start of replay once everything appended so far is in a checkpoint. All of it is durable
    /// afterwards, and what comes later goes to a new segment.
    pub fn begin_checkpoint(&mut self) -> Result<LogStart> {
        self.flush()?;
        debug_assert!(self.buffer.is_empty(), "a durable record is in the buffer");
        if let Some(current) = self.current.take() {
            self.closed = Some(current);
        }
        Ok(LogStart {
            segment: self.next_segment,
            lsn: self.end,
        })
    }

    /// Takes back what [`Wal::begin_checkpoint`] has done for a checkpoint that is given up: the
    /// segment is continued if nothing was appended since, so that a full disk need not have room
    /// for another one.
    pub fn cancel_checkpoint(&mut self) {
        if self.current.is_none() {
            self.current = self.closed.take();
        }
        assert!(self.ends_in_current(), "{END_IN_SEGMENT}");
    }

    /// As [`Wal::begin_checkpoint`], while some may have to append `bytes` without meeting a full
    /// disk: the new segment is made now, with room for them. If the disk is full the log is as it
    /// was.
    pub fn begin_checkpoint_with_room(&mut self, directory: &D, bytes: u64) -> Result<LogStart> {
        if bytes == 0 {
            return self.begin_checkpoint();
        }
        self.roll(directory, Room::exactly(bytes + FRAME_BYTES as u64))?;
        Ok(LogStart {
            segment: self.next_segment - 1,
            lsn: self.end,
        })
    }

    /// Notes that the log before `start`, which comes from [`Wal::begin_checkpoint`], is not needed
    /// any more, thanks to a durable checkpoint. The files go with [`Wal::remove_needless`].
    pub fn end_checkpoint(&mut self, start: LogStart) {
        assert!(
            start.lsn <= self.synced && start.segment <= self.next_segment,
            "a checkpoint begins at a durable position of the log"
        );
        self.start = start;
        self.closed = None;
        if start.lsn == self.end {
            self.marked = self.end;
        }
    }

    /// Removes one file that is not needed after a checkpoint, or makes it a spare; false if there
    /// is none. A crash may keep any of them, or bring them back: the checkpoint says that their
    /// numbers are out of date.
    pub fn remove_needless(&mut self, directory: &D) -> Result<bool> {
        let was_one = self.remove_in_front(directory, self.start.segment)?;
        if !was_one && self.has_new_spares() {
            wal_spares::secure(directory)?;
            self.note_secured();
        }
        Ok(was_one)
    }

    /// As [`Wal::remove_needless`], of the files before a segment only; spares cannot be used
    /// before they are secured.
    pub fn remove_in_front(&mut self, directory: &D, segment: u64) -> Result<bool> {
        assert!(
            segment <= self.start.segment,
            "a segment is removed that recovery needs"
        );
        match self.segments.first() {
            Some(&(number, bytes)) if number < segment => {
                let name = self.identity.file_name(&self.kind, number);
                let numbered = (number, bytes);
                self.spares.take_or_remove(directory, &name, numbered)?;
                self.segments.remove(0);
                self.has_removed = true;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Whether there are spares whose old names a crash may bring back.
    pub fn has_new_spares(&self) -> bool {
        self.spares.has_new()
    }

    /// Notes that [`wal_spares::secure`] has run since they were renamed.
    pub fn note_secured(&mut self) {
        self.spares.note_secured();
    }

    /// The numbers of the files that are not needed after the newest durable checkpoint, and where
    /// that begins.
    pub fn needless(&self) -> (Vec<u64>, LogStart) {
        let numbers = self.segments.iter().map(|&(number, _)| number);
        let needless = numbers.take_while(|&number| number < self.start.segment);
        (needless.collect(), self.start)
    }

    /// Makes the reserve file for records that free space, unless it is there; a full disk
    /// postpones that. Says whether there is one.
    pub fn keep_reserve(&mut self, directory: &D) -> Result<bool> {
        self.spares.keep_reserve(directory)
    }

    /// Frees the space of that file; returns whether there was one.
    pub fn give_up_reserve(&mut self, directory: &D) -> Result<bool> {
        self.spares.give_up_reserve(directory)
    }

    /// The segment that has, or will get, what is in the buffer or unsynced.
    pub(super) fn current(&mut self) -> &mut Current<D::File> {
        self.current.as_mut().expect(HAS_CURRENT)
    }

    /// Whether the current segment, with the buffer after it, reaches to the end of the log.
    pub(super) fn ends_in_current(&self) -> bool {
        self.current.as_ref().is_none_or(|current| {
            let offset = current.written + self.buffer.len() as u64;
            current.header.position(offset as usize) == self.end
        })
    }

    /// Bytes of the current segment after the buffer; none for a nameless one whose buffer is full.
    pub(super) fn room(&self) -> u64 {
        let buffer_bytes_max = BUFFERS_MAX * self.options.buffer_bytes_max;
        let takes =
            |current: &&Current<_>| current.is_named || self.buffer.len() < buffer_bytes_max;
        self.current.as_ref().filter(takes).map_or(0, |current| {
            current.header.bytes - current.written - self.buffer.len() as u64
        })
    }

    fn write_buffer(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let current = self.current.as_mut().expect(HAS_CURRENT);
        let written = lock(&current.file).write(current.written, &self.buffer);
        if let Err(error) = written {
            return Err(self.poison(error));
        }
        current.written += self.buffer.len() as u64;
        self.buffer.clear();
        debug_assert!(self.ends_in_current(), "{END_IN_SEGMENT}");
        Ok(())
    }

    /// Notes that the state on disk is unknown. A full disk is no statement error here: others wait
    /// for the same sync.
    pub(super) fn poison(&mut self, error: StorageError) -> StorageError {
        match self.failure.note(error) {
            error if error.is_out_of_space() => self.failure.refusal(),
            error => error,
        }
    }

    fn replay_segments(
        &mut self,
        access: Access,
        directory: &D,
        numbers: &[u64],
        replay: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut data = Vec::new();
        // A torn tail may only be in the last segment: the end of each earlier one is checked when
        // the next is read.
        let mut log = Replayed::new(self.end);
        for (index, &number) in numbers.iter().enumerate() {
            let (name, header, mut file) =
                read_segment(directory, self.identity, &self.kind, number, &mut data)?;
            let found = log.segment(&name, &header, &data, replay)?;
            if index + 1 == numbers.len() {
                if was_durable(&data, &header, found.frames) {
                    let detail = "the record here is not valid, but was durable once";
                    return Err(damage(&name, found.frames as u64, detail));
                }
                let noted = self.tail.found().end;
                if log.records < noted {
                    return Err(ends_early(name, log.records, noted));
                }
                if access == Access::Write {
                    prove(&mut file, &header, &data, &found)?;
                }
            }
            self.segments.push((number, header.bytes));
            self.next_segment = number + 1;
        }
        self.end = log.records;
        self.synced = self.end;
        self.marked = self.end;
        Ok(())
    }
}

#[cfg(test)]
#[path = "wal_tests.rs"]
mod tests;
