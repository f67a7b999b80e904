//! The log files of one session of a partition: a [`Wal`] whose records are numbered over the
//! series of all sessions.
//!
//! ```text
//! file    p0.log.3.000001: a segment of the write-ahead log, for session 3
//! record  number u64 | known u64 | payload, in a frame
//! gap     number u64 with bit 63 | known u64 | first unused number u64
//! end     number u64 with bit 62 | known u64 | numbers of each series' oldest and newest file u64
//! ```
//!
//! Invariants, proven by the crash tests:
//! 1. A durable record of one series may come after a record that another series has lost. It stays
//!    where it is, and its number is never used again: the first record of an opening that sees
//!    such numbers is a gap, which reaches from the first number that is missing to the last one
//!    that any series has. So nothing has to be cut off durably before records are appended, and an
//!    opening that fails half-way has changed nothing.
//! 2. A number is of one record only, for the life of the log. A file that is removed has only
//!    numbers before a checkpoint. So nothing that a crash brings back can be taken for something
//!    newer.
//! 3. Records that count are durable before they are used, as invariant 5 of the write-ahead log
//!    says: the unproven records of the last file, including those that do not count, are written
//!    once more, synced and marked.
//! 4. All records before a record's *known* were durable, in all series, when it was appended. So
//!    if any valid frame has a *known* past the records that are found, something is damaged; any
//!    other missing record was never acknowledged. An orderly end writes two *end* records, in two
//!    series, so that each file is named in another series.
//! 5. The tails of the partition know the newest file of each series, and up to which number files
//!    may have been removed. So a series whose files are missing is distinguished from one that
//!    needs none any more.
//! 6. A checkpoint begins a new file in each series, so a file has records on one side of it only.
//!    A file that a crash has brought back has only records that nobody needs, and proves nothing
//!    about later ones.
//!
//! A file is made under the lock of its series. Its session waits for that, and others only if they
//! need records of this session durable.

use super::numbered::{
    Found, FoundRecords, HEADER_BYTES as RECORD_HEADER_BYTES, Pending, RecordKind, Stamp, Stream,
};
use super::position::{LogIdentity, LogStart, Lsn, NUMBER_MAX};
use super::tails::{SharedTails, StreamTail, Tail, ends_early, lost};
use super::wal::Wal;
use super::wal_options::WalOptions;
use super::wal_read::{SegmentEnd, read_segment};
use super::wal_segment::{HEADER_BYTES, SegmentHeader, damage, frame_bytes, read_frame, read_u64};
use super::wal_sync::{EndedSync, PendingSync, prove};
use crate::error::{Result, StorageError};
use crate::sync::{Mutex, lock};
use disk::{Directory, File};
use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

/// Bytes before the payload in a frame.
const STAMP_BYTES: usize = 16;
/// In the number of a record that is none of the caller's.
const GAP: u64 = 1 << 63;
const END: u64 = 1 << 62;
/// The kind in the file names of all series of a partition.
const KIND: &str = "log";

/// The log files of one session.
pub struct Series<D: Directory> {
    directory: Arc<Mutex<D>>,
    identity: LogIdentity,
    kind: String,
    options: WalOptions,
    /// The first number that the opening needs; and none until what was found is settled.
    from: Lsn,
    wal: Option<Wal<D>>,
    /// The tail file, which shows whether files of the series are missing; none where records are
    /// only copied.
    tails: Option<SharedTails<D::File>>,
    session: u32,
    /// The files that the opening found, until they are settled; and the numbers of all files.
    segments: Vec<Segment>,
    numbers: Vec<u64>,
    /// The file that was read last.
    loaded: (u64, Vec<u8>),
    /// Starts of the newest checkpoints in the series.
    starts: VecDeque<(Lsn, LogStart)>,
}

/// A file as an opening has found it.
struct Segment {
    header: SegmentHeader,
    records: Vec<Record>,
    /// Ends of its records and of its frames, and the durable position.
    end: SegmentEnd,
}

/// A record and its range in the file.
struct Record {
    stamp: StampRead,
    payload: Range<usize>,
}

/// The record header before a frame's payload.
#[derive(Clone, Copy)]
struct StampRead {
    lsn: Lsn,
    /// The first number that the record stands for.
    from: Lsn,
    known: Lsn,
    kind: RecordKind,
}

impl StampRead {
    fn of(payload: &[u8]) -> Option<Self> {
        let number = read_u64(payload, 0)?;
        let lsn = Lsn(number & !(GAP | END));
        let (kind, from) = match (number & GAP, number & END) {
            (0, 0) => (RecordKind::Ordinary, lsn),
            (0, _) => (RecordKind::End, lsn),
            _ => (RecordKind::Gap, Lsn(read_u64(payload, STAMP_BYTES)?)),
        };
        let known = Lsn(read_u64(payload, 8)?);
        (from <= lsn).then_some(Self {
            lsn,
            from,
            known,
            kind,
        })
    }
}

impl Segment {
    /// Walks over the frames of a file whose numbers are beyond `newest`, and notes their *known*.
    fn read(header: SegmentHeader, data: &[u8], mut newest: Lsn, known: &mut Lsn) -> Self {
        let seed = header.seed();
        let mut segment = Self {
            header,
            records: Vec::new(),
            end: SegmentEnd {
                records: HEADER_BYTES,
                frames: HEADER_BYTES,
                synced: header.first,
            },
        };
        let end = &mut segment.end;
        loop {
            let at = end.frames;
            let Some(frame) = read_frame(data, seed, at, header.position(at)) else {
                return segment;
            };
            end.frames += frame.bytes;
            if !frame.payload.is_empty() {
                let stamp = StampRead::of(&data[frame.payload.clone()]);
                // A frame that an earlier file had in the same place is out of date.
                let Some(stamp) = stamp.filter(|stamp| stamp.lsn > newest) else {
                    end.frames = at;
                    return segment;
                };
                newest = stamp.lsn;
                *known = stamp.known.max(*known);
                end.records = end.frames;
                segment.records.push(Record {
                    stamp,
                    payload: frame.payload,
                });
            }
            end.synced = end.synced.max(frame.synced);
        }
    }

    /// The greatest *known* of the frames that the sequential read does not reach.
    fn known_behind(&self, data: &[u8]) -> Lsn {
        let seed = self.header.seed();
        let offsets = (self.end.frames..data.len()).step_by(8);
        let frames = offsets.filter_map(|at| read_frame(data, seed, at, self.header.position(at)));
        let stamps = frames.filter_map(|frame| StampRead::of(&data[frame.payload]));
        stamps.map(|stamp| stamp.known).max().unwrap_or_default()
    }

    /// The newest number in it.
    fn newest(&self) -> Option<Lsn> {
        self.records.last().map(|record| record.stamp.lsn)
    }

    /// The position after the last record.
    fn records_end(&self) -> Lsn {
        self.header.position(self.end.records)
    }

    /// Whether the next file may begin at `first`.
    fn goes_on_at(&self, first: Lsn) -> bool {
        (self.records_end()..=self.header.position(self.end.frames)).contains(&first)
    }
}

impl<D: Directory> Series<D> {
    /// The series of a session as it is on the disk; it is not read yet.
    pub fn open(
        directory: &Arc<Mutex<D>>,
        identity: LogIdentity,
        session: u32,
        options: WalOptions,
        tails: Option<&SharedTails<D::File>>,
    ) -> Self {
        let place = u128::from(session + 1) << 64;
        Self {
            directory: Arc::clone(directory),
            // So that a file of another session is refused.
            identity: LogIdentity {
                database: identity.database ^ place,
                ..identity
            },
            kind: format!("{KIND}.{session}"),
            options,
            from: Lsn(0),
            wal: None,
            tails: tails.cloned(),
            session,
            segments: Vec::new(),
            numbers: Vec::new(),
            loaded: (0, Vec::new()),
            starts: VecDeque::new(),
        }
    }

    /// The session of a file of a partition, if its name is that of one.
    pub fn session_of(name: &str, partition: u32) -> Option<&str> {
        let rest = name.strip_prefix(&format!("p{partition}.{KIND}."))?;
        let (session, number) = rest.split_once('.')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        (is_number(session) && is_number(number)).then_some(session)
    }

    /// The first number that the files have, if they have any.
    pub fn first(&self) -> Result<Option<Lsn>> {
        let directory = lock(&self.directory);
        let mut data = Vec::new();
        for number in self.identity.numbers(&*directory, &self.kind)? {
            let (_, header, _) =
                read_segment(&*directory, self.identity, &self.kind, number, &mut data)?;
            let segment = Segment::read(header, &data, Lsn(0), &mut Lsn(0));
            if let Some(record) = segment.records.first() {
                return Ok(Some(record.stamp.lsn));
            }
        }
        Ok(None)
    }

    /// The name of one of its files.
    pub fn name(&self, number: u64) -> String {
        self.identity.file_name(&self.kind, number)
    }

    /// Reads all files. Files before a gap are out of date if they have nothing from `from` on;
    /// else a file is missing.
    fn read(&self, from: Lsn) -> Result<(Vec<u64>, Vec<Segment>, Lsn)> {
        let directory = lock(&self.directory);
        let numbers = self.identity.numbers(&*directory, &self.kind)?;
        if let Some(&last) = numbers.last().filter(|&&last| last > NUMBER_MAX) {
            return Err(damage(&self.name(last), 0, "no log has so many segments"));
        }
        let (mut segments, mut known) = (Vec::<Segment>::new(), Lsn(0));
        let mut data = Vec::new();
        for &number in &numbers {
            let (name, header, _) =
                read_segment(&*directory, self.identity, &self.kind, number, &mut data)?;
            let newest = segments.iter().rev().find_map(Segment::newest);
            let newest = newest.unwrap_or_default();
            if let Some(last) = segments
                .last()
                .filter(|last| !last.goes_on_at(header.first))
            {
                if newest >= from {
                    let detail = format!(
                        "its records end at {}, but {name} goes on at {}; a file is missing or damaged",
                        last.records_end().0,
                        header.first.0
                    );
                    let earlier = self.name(last.header.number);
                    return Err(damage(&earlier, last.end.frames as u64, detail));
                }
                segments.clear();
            }
            segments.push(Segment::read(header, &data, newest, &mut known));
        }
        if let Some(last) = segments.last() {
            known = known.max(last.known_behind(&data));
        }
        Ok((numbers, segments, known))
    }

    /// Its part of the tails.
    fn tail(&self) -> Option<StreamTail<D::File>> {
        let tails = self.tails.as_ref()?;
        Some(StreamTail::new(tails, self.session))
    }

    /// Fails if files that an opening needs for the records from `from` on are missing, or end too
    /// early.
    fn check_tail(&self, from: Lsn, numbers: &[u64], segments: &[Segment]) -> Result<()> {
        let Some(tail) = self.tail() else {
            return Ok(());
        };
        let Tail {
            first,
            segment,
            end,
        } = tail.found();
        if from < tail.gone() {
            return Err(StorageError::lost_file(
                format!("p{}.pages", self.identity.partition),
                format!(
                    "is an older copy of itself: its checkpoint needs the log from record {} on, and those up to {} were removed when a newer one \
                     had made them needless",
                    from.0,
                    tail.gone().0
                ),
            ));
        }
        // Between them there may be a file whose name was never durable, without records.
        let mut ends = [first, segment].into_iter().filter(|_| segment > 0);
        if let Some(number) = ends.find(|number| !numbers.contains(number)) {
            return Err(lost(self.name(number)));
        }
        let last = segments.last().filter(|_| segment > 0);
        if let Some(last) = last.filter(|last| last.records_end() < end) {
            let file = self.name(last.header.number);
            return Err(ends_early(file, last.records_end(), end));
        }
        Ok(())
    }

    /// Makes the records of the last file durable where nothing proves that they are, and adds the
    /// proof.
    fn confirm(&self) -> Result<()> {
        let Some(last) = self.segments.last() else {
            return Ok(());
        };
        let (directory, mut data) = (lock(&self.directory), Vec::new());
        let number = last.header.number;
        let (_, header, mut file) =
            read_segment(&*directory, self.identity, &self.kind, number, &mut data)?;
        Ok(prove(&mut file, &header, &data, &last.end)?)
    }

    /// Removes the files without a record that is needed, and whatever an unfinished step has left.
    /// Records that do not count stay: their numbers must stay visible until a checkpoint comes
    /// after them.
    fn tidy(&mut self, tail: &StreamTail<D::File>, end: Lsn) -> Result<()> {
        let is_needed = |segment: &Segment| segment.newest() >= Some(self.from);
        let needless = self.segments.iter().position(is_needed);
        let needless = needless.unwrap_or(self.segments.len());
        self.segments.drain(..needless);
        if self.segments.len() < self.numbers.len() {
            // One that was not noted may have its name in a cache only.
            let noted = tail.found().segment;
            let left = self.segments.iter().map(|segment| segment.header.number);
            tail.note_gone(
                Tail::of(left.filter(|&number| number <= noted), end),
                self.from,
            )?;
        }
        let is_live = |number: &u64| {
            let mut live = self.segments.iter();
            live.any(|segment| segment.header.number == *number)
        };
        let directory = lock(&self.directory);
        for number in self.numbers.iter().filter(|number| !is_live(number)) {
            let name = self.name(*number);
            if directory.exists(&name)? {
                directory.remove(&name)?;
            }
        }
        let unpublished = format!("p{}.{}.tmp", self.identity.partition, self.kind);
        if directory.exists(&unpublished)? {
            directory.remove(&unpublished)?;
        }
        Ok(())
    }

    /// The log, which an opening that may not write never has.
    fn log(&mut self) -> Result<&mut Wal<D>> {
        self.wal.as_mut().ok_or(StorageError::Poisoned)
    }

    /// Bytes of a file, all of which is read.
    fn bytes_of(&mut self, number: u64, range: Range<usize>) -> Result<&[u8]> {
        if self.loaded.0 != number {
            let mut data = std::mem::take(&mut self.loaded.1);
            let directory = lock(&self.directory);
            read_segment(&*directory, self.identity, &self.kind, number, &mut data)?;
            self.loaded = (number, data);
        }
        let at = range.start as u64;
        let bytes = self.loaded.1.get(range);
        bytes.ok_or_else(|| damage(&self.name(number), at, "it has changed"))
    }

    /// Ends an opening that has found nothing in a new series.
    pub fn begin(&mut self) -> Result<()> {
        self.settle(&[], Lsn(0), Lsn(0))
    }
}

impl<F: File> Pending for PendingSync<F> {
    type Ended = EndedSync;

    fn run(self, give_back: impl FnOnce()) -> EndedSync {
        self.run(give_back)
    }
}

impl<D: Directory> Stream for Series<D> {
    type Pending = PendingSync<D::File>;

    fn records(&mut self, from: Lsn) -> Result<FoundRecords> {
        let (numbers, segments, known) = self.read(from)?;
        if self.wal.is_none() {
            self.check_tail(from, &numbers, &segments)?;
        }
        // It may have grown.
        self.loaded.0 = 0;
        let (mut found, mut newest_end) = (Vec::new(), None);
        for segment in &segments {
            let records = segment.records.iter();
            for record in records.filter(|record| record.stamp.lsn >= from) {
                let is_ordinary = record.stamp.kind == RecordKind::Ordinary;
                if record.stamp.kind == RecordKind::End {
                    newest_end = Some((segment.header.number, record));
                }
                found.push(Found {
                    lsn: record.stamp.lsn,
                    from: record.stamp.from,
                    is_given_up: false,
                    life: 0,
                    slot: segment.header.number,
                    position: record.payload.start as u64,
                    payload_bytes: if is_ordinary {
                        record.payload.len()
                    } else {
                        STAMP_BYTES
                    },
                });
            }
        }
        let end = match newest_end {
            Some((number, record)) => {
                let bytes = self.bytes_of(number, record.payload.clone())?;
                let files = bytes.get(STAMP_BYTES..).unwrap_or_default();
                let ranges = files.chunks_exact(16);
                let ranges =
                    ranges.filter_map(|range| Some(read_u64(range, 0)?..=read_u64(range, 8)?));
                (record.stamp.lsn, ranges.collect())
            }
            None => FoundRecords::default().end,
        };
        let taken = found.iter().map(|found: &Found| found.lsn).max();
        if self.wal.is_none() {
            (self.from, self.numbers, self.segments) = (from, numbers, segments);
        }
        Ok(FoundRecords {
            found,
            known,
            taken: taken.map_or(Lsn(0), |newest| Lsn(newest.0 + 1)),
            end,
        })
    }

    fn payload(&mut self, found: &Found) -> Result<&[u8]> {
        let at = found.position as usize;
        let record = self.bytes_of(found.slot, at..at + found.payload_bytes)?;
        Ok(record.get(STAMP_BYTES..).unwrap_or_default())
    }

    fn settle(&mut self, _kept: &[Found], _known: Lsn, _from: Lsn) -> Result<()> {
        debug_assert!(self.wal.is_none(), "an opening ends once");
        self.confirm()?;
        let last = self.segments.last();
        let end = last.map_or(Lsn::FIRST, Segment::records_end);
        let Some(tail) = self.tail() else {
            return Err(StorageError::Poisoned);
        };
        self.tidy(&tail, end)?;
        let live = self.segments.iter();
        let live = live.map(|segment| (segment.header.number, segment.header.bytes));
        let next = self.numbers.last().map_or(1, |number| number + 1);
        self.wal = Some(Wal::resume(
            (self.identity, &self.kind),
            self.options,
            live.collect(),
            LogStart {
                segment: next,
                lsn: end,
            },
            tail,
        ));
        self.segments = Vec::new();
        self.loaded = (0, Vec::new());
        Ok(())
    }

    fn make_room(&mut self, payload: usize, more: u64) -> Result<()> {
        // Short records have stamps and frames.
        let bytes = frame_bytes(STAMP_BYTES + payload) as u64 + 2 * more;
        if self.log()?.has_room(bytes) {
            return Ok(());
        }
        let directory = Arc::clone(&self.directory);
        self.log()?.make_room(&*lock(&directory), bytes)
    }

    fn append(&mut self, stamp: Stamp, record: &mut Vec<u8>) -> Result<()> {
        debug_assert!(
            record.len() >= RECORD_HEADER_BYTES,
            "a record has room for its header"
        );
        let from = RECORD_HEADER_BYTES - STAMP_BYTES;
        let number = match stamp.kind {
            RecordKind::Ordinary => stamp.lsn.0,
            RecordKind::Gap => stamp.lsn.0 | GAP,
            RecordKind::End => stamp.lsn.0 | END,
        };
        assert!(
            stamp.lsn.0 & (GAP | END) == 0,
            "the number of a record runs into the bits of its kind"
        );
        debug_assert!(
            stamp.known <= stamp.lsn,
            "a record says that later ones are durable"
        );
        record[from..from + 8].copy_from_slice(&number.to_le_bytes());
        record[from + 8..from + 16].copy_from_slice(&stamp.known.0.to_le_bytes());
        self.log()?.append_fitting(&record[from..])
    }

    fn persist(&mut self) -> Result<()> {
        self.log()?.flush()
    }

    fn begin_persist(&mut self) -> Result<Option<Self::Pending>> {
        self.log()?.begin_sync()
    }

    fn end_persist(&mut self, ended: EndedSync) -> Result<()> {
        // commit point: recovery takes every record in front of the first number that no series has
        self.log()?.end_sync(ended)
    }

    fn begin_checkpoint(&mut self, redo: Lsn, more: u64) -> Result<()> {
        let directory = Arc::clone(&self.directory);
        let start = self
            .log()?
            .begin_checkpoint_with_room(&*lock(&directory), 2 * more)?;
        debug_assert!(
            self.starts.back().is_none_or(|(newest, _)| *newest <= redo),
            "a checkpoint begins before an earlier one"
        );
        self.starts.push_back((redo, start));
        Ok(())
    }

    fn forget(&mut self, lsn: Lsn) -> Result<()> {
        while self.starts.get(1).is_some_and(|(redo, _)| *redo <= lsn) {
            self.starts.pop_front();
        }
        let Some(&(_, start)) = self.starts.front().filter(|(redo, _)| *redo <= lsn) else {
            return Ok(());
        };
        let directory = Arc::clone(&self.directory);
        let directory = lock(&directory);
        self.log()?.end_checkpoint(start);
        self.log()?.note_gone(lsn)?;
        while self.log()?.remove_needless(&*directory)? {}
        Ok(())
    }

    fn tail(&self) -> u64 {
        self.wal.as_ref().map_or(0, |wal| wal.end().0)
    }

    fn urgent_bytes(&self) -> u64 {
        u64::MAX
    }

    fn files(&self) -> Option<RangeInclusive<u64>> {
        self.wal.as_ref().map(Wal::numbers)
    }

    fn bytes(&self) -> u64 {
        self.wal.as_ref().map_or(0, Wal::file_bytes)
    }

    fn damaged(&self, detail: &str) -> StorageError {
        damage(
            &format!("p{}.{}.*", self.identity.partition, self.kind),
            0,
            detail,
        )
    }
}
