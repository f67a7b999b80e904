//! The write-ahead log: a sequence of records in files, appended in memory and made durable in
//! groups.
//!
//! The log is one line of bytes, addressed by [`Lsn`]; segments are pieces of it, one file each
//! (`p0.wal.000001`). A segment gets its whole length when it is made, so a full disk is met by
//! [`Wal::append`], where the transaction can still be aborted, and not by [`Wal::flush`], where
//! others may wait.
//!
//! Invariants, proven by the crash tests:
//! 1. A file that has a segment's name has a durable header and its whole length.
//! 2. A segment gets its name only after everything in front of its first record is durable. So all
//!    segments but the last must be valid up to the first record of the next one; anything else is
//!    damage.
//! 3. Recovery never appends behind what it found: it goes on in a new segment. Otherwise a record
//!    that was lost, and is written again with the same bytes, would bring back its old successors.
//! 4. After a failed write or sync nothing more is appended ([`StorageError::Poisoned`]): what was
//!    lost is unknown.
//!
//! States of a segment file: `p0.wal.tmp` → (`roll`) current → (the next `roll`) full →
//! (`remove_before`) gone.

use super::wal_segment::{
    FRAME_BYTES, HEADER_BYTES, SegmentHeader, damage, frame_bytes, push_frame, read_frame,
    was_durable,
};
use crate::error::{Result, StorageError};
use disk::{Directory, DiskError, File};
use pmem::site;

/// A position in the log: bytes of records since the log began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Where a new log begins. Not zero, so that a run of zeros is never a valid frame.
    pub const FIRST: Self = Self(8);
}

/// Whose log it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogIdentity {
    /// Identity of the database.
    pub database: u128,
    /// Number of the partition.
    pub partition: u32,
}

impl LogIdentity {
    /// The name of a file of this partition: `p0.wal.000001`.
    pub(crate) fn file_name(&self, kind: &str, number: u64) -> String {
        format!("p{}.{kind}.{number:06}", self.partition)
    }

    /// The numbers in the names of this partition's files of one kind, ascending. Other files are
    /// passed over.
    pub(super) fn numbers<D: Directory>(&self, directory: &D, kind: &str) -> Result<Vec<u64>> {
        let mut numbers: Vec<u64> = directory
            .list()?
            .iter()
            .filter_map(|name| name.strip_prefix(&format!("p{}.{kind}.", self.partition)))
            .filter(|digits| digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit()))
            .filter_map(|digits| digits.parse().ok())
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

/// Where replay starts: recorded by a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStart {
    /// Segments with smaller numbers are not needed any more.
    pub segment: u64,
    /// Position of the first record that is needed.
    pub lsn: Lsn,
}

impl LogStart {
    /// The start of a new log.
    pub const NEW: Self = Self {
        segment: 1,
        lsn: Lsn::FIRST,
    };
}

/// Sizes of the log.
#[derive(Clone, Copy, Debug)]
pub struct WalOptions {
    /// Bytes of a segment file. A record that is longer gets a segment of its own length.
    pub segment_bytes: u64,
    /// Appended bytes after which they are handed to the file without a sync.
    pub buffer_bytes_max: usize,
}

impl Default for WalOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 16 << 20,
            buffer_bytes_max: 1 << 20,
        }
    }
}

const KIND: &str = "wal";
/// Longest payload. A length on the medium has 32 bits; half of that keeps every sum of sizes in
/// range.
const PAYLOAD_BYTES_MAX: usize = 1 << 31;

/// Why there is a current segment: nothing is appended without one, and it goes only when
/// everything is synced.
const HAS_CURRENT: &str = "records that are not synced belong to the current segment";

/// The segment that is being written.
struct Current<F> {
    file: F,
    header: SegmentHeader,
    seed: u32,
    /// Offset in the file where `buffer` goes.
    written: u64,
}

/// The log of one partition.
pub struct Wal<D: Directory> {
    identity: LogIdentity,
    options: WalOptions,
    start: LogStart,
    current: Option<Current<D::File>>,
    next_segment: u64,
    /// Numbers and lengths of the files on disk, ascending.
    segments: Vec<(u64, u64)>,
    buffer: Vec<u8>,
    end: Lsn,
    synced: Lsn,
    /// End of the log when the last marker was written.
    marked: Lsn,
    poisoned: bool,
}

impl<D: Directory> Wal<D> {
    /// Reads the log from `start` on, hands each record to `replay`, and makes the end ready for
    /// appending. Writes nothing but the removal of files that are not needed.
    pub fn open(
        directory: &D,
        identity: LogIdentity,
        options: WalOptions,
        start: LogStart,
        replay: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
    ) -> Result<Self> {
        let mut wal = Self {
            identity,
            options,
            start,
            current: None,
            next_segment: start.segment,
            segments: Vec::new(),
            buffer: Vec::new(),
            end: start.lsn,
            synced: start.lsn,
            marked: start.lsn,
            poisoned: false,
        };
        let (old, live): (Vec<u64>, Vec<u64>) = identity
            .numbers(directory, KIND)?
            .into_iter()
            .partition(|&number| number < start.segment);
        wal.replay_segments(directory, &live, replay)?;
        for number in old {
            directory.remove(&identity.file_name(KIND, number))?;
        }
        if directory.exists(&wal.unpublished_name())? {
            directory.remove(&wal.unpublished_name())?;
        }
        Ok(wal)
    }

    /// Adds a record. It is durable once [`Wal::synced`] has reached the position that this
    /// returns.
    ///
    /// If the disk is full (`DiskError::OutOfSpace`) the log is as it was, and later records may
    /// still fit.
    pub fn append(&mut self, directory: &D, payload: &[u8]) -> Result<Lsn> {
        if self.poisoned {
            return Err(StorageError::Poisoned);
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            let text = format!(
                "a transaction of {} bytes is too long for the log",
                payload.len()
            );
            return Err(StorageError::Unsupported(text));
        }
        let bytes = frame_bytes(payload.len()) as u64;
        if self.room() < bytes {
            self.roll(directory, bytes)?;
        }
        let seed = self.current().seed;
        push_frame(&mut self.buffer, seed, self.end, self.synced, payload);
        self.end = Lsn(self.end.0 + bytes);
        if self.buffer.len() >= self.options.buffer_bytes_max {
            self.write_buffer()?;
        }
        Ok(self.end)
    }

    /// Makes all appended records durable.
    pub fn flush(&mut self) -> Result<()> {
        if self.poisoned {
            return Err(StorageError::Poisoned);
        }
        if self.synced == self.end {
            return Ok(());
        }
        self.write_buffer()?;
        if let Err(error) = self.current().file.sync(site!("wal.flush")) {
            return Err(self.poison(error));
        }
        // commit point: replay takes every record in front of this position
        self.synced = self.end;
        Ok(())
    }

    /// Makes all records durable and marks the end, so that damage to the last record is told from
    /// a torn tail.
    pub fn close(&mut self, directory: &D) -> Result<()> {
        self.flush()?;
        if self.marked != self.end && self.room() >= FRAME_BYTES as u64 {
            self.append(directory, &[])?;
            self.flush()?;
            self.marked = self.end;
        }
        Ok(())
    }

    /// Reads what is durable once more, and says what is wrong with it.
    pub fn verify(&self, directory: &D) -> Result<()> {
        let mut data = Vec::new();
        let mut lsn = self.start.lsn;
        for &(number, _) in &self.segments {
            let (name, header, _) = self.read_segment(directory, number, &mut data)?;
            if header.first != lsn {
                return Err(broken_chain(&name, &header, lsn, None));
            }
            let end = replay_segment(&data, &header, &mut lsn, &mut |_, _| Ok(()))?;
            let is_last = self
                .segments
                .last()
                .is_some_and(|&(last, _)| last == number);
            if is_last && lsn < self.synced {
                return Err(damage(
                    &name,
                    end as u64,
                    "the record here is not valid any more",
                ));
            }
        }
        Ok(())
    }

    /// Position behind the last appended record.
    pub fn end(&self) -> Lsn {
        self.end
    }

    /// Position in front of which everything is durable.
    pub fn synced(&self) -> Lsn {
        self.synced
    }

    /// Bytes of records since the last checkpoint.
    pub fn live_bytes(&self) -> u64 {
        self.end.0 - self.start.lsn.0
    }

    /// Bytes that the segment files take.
    pub fn file_bytes(&self) -> u64 {
        self.segments.iter().map(|&(_, bytes)| bytes).sum()
    }

    /// Whether an earlier write or sync failed.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Refuses everything from now on. For failures after which the log on disk and the state in
    /// memory may differ.
    pub fn refuse(&mut self) {
        self.poisoned = true;
    }

    /// Where replay will start if everything appended so far is in a checkpoint. All records are
    /// durable afterwards.
    pub fn next_start(&mut self) -> Result<LogStart> {
        self.flush()?;
        Ok(LogStart {
            segment: self.next_segment,
            lsn: self.end,
        })
    }

    /// Forgets what a durable checkpoint made needless. `start` comes from [`Wal::next_start`].
    ///
    /// # Panics
    /// If a record was appended since then: it would be lost.
    ///
    /// # Panics
    /// If a record was appended since, which would be lost.
    pub fn remove_before(&mut self, directory: &D, start: LogStart) -> Result<()> {
        assert_eq!(
            start.lsn, self.end,
            "a record that is not in the checkpoint would be lost"
        );
        self.start = start;
        self.current = None;
        self.marked = self.end;
        // A crash may keep any of these files; the checkpoint says that their numbers are out of
        // date.
        while let Some(&(number, _)) = self.segments.first() {
            directory.remove(&self.identity.file_name(KIND, number))?;
            self.segments.remove(0);
        }
        Ok(())
    }

    /// The segment that has, or will get, what is in the buffer or unsynced.
    fn current(&mut self) -> &mut Current<D::File> {
        self.current.as_mut().expect(HAS_CURRENT)
    }

    fn room(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| {
            current.header.bytes - current.written - self.buffer.len() as u64
        })
    }

    /// Ends the current segment and makes the next one, with room for at least `record_bytes`.
    fn roll(&mut self, directory: &D, record_bytes: u64) -> Result<()> {
        let bytes = self
            .options
            .segment_bytes
            .max(HEADER_BYTES as u64 + record_bytes);
        let header = SegmentHeader {
            identity: self.identity,
            number: self.next_segment,
            first: self.end,
            bytes,
        };
        let file = match self.prepare_segment(directory, &header) {
            Ok(file) => file,
            Err(error @ DiskError::OutOfSpace { .. }) => {
                // The space that was taken in part goes back; if that fails too, the next attempt
                // does it.
                let _ = directory.remove(&self.unpublished_name());
                return Err(error.into());
            }
            Err(error) => return Err(self.poison(error)),
        };
        self.flush()?;
        let name = self.identity.file_name(KIND, header.number);
        let published = directory
            .rename(&self.unpublished_name(), &name)
            .and_then(|()| directory.sync(site!("wal.publish-segment")));
        if let Err(error) = published {
            return Err(self.poison(error));
        }
        let seed = header.seed();
        self.current = Some(Current {
            file,
            header,
            seed,
            written: HEADER_BYTES as u64,
        });
        self.segments.push((header.number, bytes));
        self.next_segment += 1;
        Ok(())
    }

    /// Makes a segment file with its header and its whole length, durable but for its name.
    fn prepare_segment(&self, directory: &D, header: &SegmentHeader) -> Result<D::File, DiskError> {
        let name = self.unpublished_name();
        if directory.exists(&name)? {
            directory.remove(&name)?;
        }
        let mut file = directory.create(&name)?;
        file.set_bytes(header.bytes)?;
        file.write_at(0, &header.encode())?;
        file.sync(site!("wal.segment-header"))?;
        Ok(file)
    }

    fn unpublished_name(&self) -> String {
        format!("p{}.{KIND}.tmp", self.identity.partition)
    }

    fn write_buffer(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let current = self.current.as_mut().expect(HAS_CURRENT);
        if let Err(error) = current.file.write_at(current.written, &self.buffer) {
            return Err(self.poison(error));
        }
        current.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Notes that the state on disk is unknown. A full disk is no statement error here: others wait
    /// for the same sync.
    fn poison(&mut self, error: DiskError) -> StorageError {
        self.poisoned = true;
        match error {
            DiskError::OutOfSpace { .. } => StorageError::Poisoned,
            error => error.into(),
        }
    }

    fn read_segment(
        &self,
        directory: &D,
        number: u64,
        data: &mut Vec<u8>,
    ) -> Result<(String, SegmentHeader, D::File)> {
        let name = self.identity.file_name(KIND, number);
        let mut file = directory.open(&name)?;
        let bytes = file.bytes()?;
        data.resize(bytes as usize, 0);
        file.read_at(0, data)?;
        let header = SegmentHeader::decode(&name, self.identity, number, data)?;
        Ok((name, header, file))
    }

    fn replay_segments(
        &mut self,
        directory: &D,
        numbers: &[u64],
        replay: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut data = Vec::new();
        // A torn tail may only be in the last segment: the end of each earlier one is checked when
        // the next is read.
        let mut end_of_earlier: Option<(String, u64)> = None;
        for (index, &number) in numbers.iter().enumerate() {
            let (name, header, mut file) = self.read_segment(directory, number, &mut data)?;
            if header.first != self.end {
                return Err(broken_chain(&name, &header, self.end, end_of_earlier));
            }
            let end = replay_segment(&data, &header, &mut self.end, replay)?;
            let is_last = index + 1 == numbers.len();
            if is_last && was_durable(&data, &header, end) {
                let detail = "the record here is not valid, but was durable once";
                return Err(damage(&name, end as u64, detail));
            }
            if is_last && end > HEADER_BYTES {
                // Only a power cut makes sure that what is readable is durable; after the death of
                // the process alone it may still be in a cache, and what is replayed now may be
                // read and acknowledged before the next flush.
                file.sync(site!("wal.replayed"))?;
            }
            end_of_earlier = Some((name, end as u64));
            self.segments.push((number, header.bytes));
            self.next_segment = number + 1;
        }
        self.synced = self.end;
        self.marked = self.end;
        Ok(())
    }
}

/// Hands the valid records of a segment to `replay`, moves `lsn` behind them, and returns the
/// offset where they end.
fn replay_segment(
    data: &[u8],
    header: &SegmentHeader,
    lsn: &mut Lsn,
    replay: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
) -> Result<usize> {
    let seed = header.seed();
    let mut offset = HEADER_BYTES;
    while let Some(frame) = read_frame(data, seed, offset, *lsn) {
        if !frame.payload.is_empty() {
            replay(*lsn, &data[frame.payload])?;
        }
        offset += frame.bytes;
        *lsn = Lsn(lsn.0 + frame.bytes as u64);
    }
    Ok(offset)
}

/// What is wrong if a segment does not begin where the log ended.
#[cold]
fn broken_chain(
    name: &str,
    header: &SegmentHeader,
    end: Lsn,
    end_of_earlier: Option<(String, u64)>,
) -> StorageError {
    let first = header.first.0;
    match end_of_earlier {
        Some((earlier, offset)) if end < header.first => {
            let detail = format!(
                "its records end at {}, but {name} goes on at {first}",
                end.0
            );
            damage(&earlier, offset, detail)
        }
        _ => {
            let detail = format!(
                "it begins at {first} instead of {}; a file is missing",
                end.0
            );
            damage(name, 0, detail)
        }
    }
}

#[cfg(test)]
#[path = "wal_tests.rs"]
mod tests;
