//! The beginning of a segment, in steps of which the long ones need no log: others append while a
//! file is made, and while it gets its name.
//!
//! 1. [`Wal::prepare`] says which file is needed, [`Preparation::run`] makes it or opens a spare,
//!    and [`Wal::end_preparation`] keeps it. A full disk is met here, before anything counts on the
//!    file. It can be done ahead of need ([`Wal::wants_file`]).
//! 2. [`Wal::begin_segment`] makes the file the current segment, in memory only: records go to its
//!    buffer.
//! 3. [`Wal::begin_roll`] takes out what is to become durable. [`Roll::run`] makes it durable, in
//!    this order: the rest of the segment before, the header, the name, the note in the tails.
//!    [`Wal::end_roll`] says so to the log.
//!
//! A log of one owner takes all steps at once.
//!
//! Invariants:
//! 1. Nothing is written behind the header of a file that has no segment's name. After a crash such
//!    a spare may become the same segment once more, with the same header; old frames would be
//!    valid in it.
//! 2. Records of a segment are synced after its roll has ended, so none is acknowledged earlier.
//! 3. No segment begins before the roll of the one before has ended.

use super::position::LogStart;
use super::tails::{StreamTail, Tail};
use super::wal::{Current, END_IN_SEGMENT, Wal};
use super::wal_segment::{FRAME_BYTES, HEADER_BYTES, SEGMENT_BYTES_MAX, SegmentHeader};
use super::wal_spares;
use super::wal_sync::{EndedSync, PendingSync, SegmentFile};
use crate::error::{Result, StorageError};
use crate::sync::{Mutex, lock};
use disk::{Directory, DiskError, File};
use pmem::site;
use std::sync::Arc;

/// Segments that a checkpoint may leave before they become long.
pub(super) const SHORT_SEGMENTS: usize = 4;

/// Room that a segment is to have for frames.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Bytes without which it is useless.
    least: u64,
    /// Bytes that it gets if the disk has them.
    wanted: u64,
}

impl Room {
    /// Any segment will do.
    pub const ANY: Self = Self {
        least: 0,
        wanted: 0,
    };

    /// For so many bytes of frames.
    pub fn exactly(bytes: u64) -> Self {
        Self {
            least: bytes,
            wanted: bytes,
        }
    }

    /// For twice as many bytes of frames, because a caller that keeps room asks for a little more
    /// each time.
    pub fn generous(bytes: u64) -> Result<Self> {
        let most = SEGMENT_BYTES_MAX - (HEADER_BYTES + FRAME_BYTES) as u64;
        if bytes > most {
            let text = format!("a transaction that needs {bytes} bytes of log is too long");
            return Err(StorageError::Unsupported(text));
        }
        Ok(Self {
            least: bytes,
            wanted: (2 * bytes).min(most),
        })
    }
}

/// Bytes of the shortest segments.
const SHORTEST_BYTES: u64 = 1 << 20;

/// Bytes of a segment with room for so many bytes of frames.
fn with_room(frames: u64) -> u64 {
    (HEADER_BYTES + FRAME_BYTES) as u64 + frames
}

/// A file for the next segment, with its whole length.
pub(super) struct NextFile<F> {
    name: String,
    file: F,
    pub(super) bytes: u64,
    is_spare: bool,
}

/// A file that is to be made.
pub struct Preparation {
    name: String,
    /// Lengths to try, the best first, and a spare of the best one.
    lengths: Vec<u64>,
    spare: Option<String>,
    /// A file that was made ahead and is too short.
    outgrown: Option<String>,
    /// Files that a full disk can do without, and whether there may be more in a directory that is
    /// not synced.
    spares: Vec<String>,
    has_removed: bool,
}

/// Outcome of a [`Preparation`].
#[must_use = "the log has to know"]
pub struct Prepared<F> {
    file: Result<NextFile<F>, DiskError>,
    gave_up_spares: bool,
    has_removed: bool,
}

impl Preparation {
    /// Makes the file; its length is not durable yet.
    pub fn run<D: Directory>(mut self, directory: &D) -> Prepared<D::File> {
        let had_spares = !self.spares.is_empty();
        let file = self.file(directory);
        Prepared {
            file,
            gave_up_spares: had_spares && self.spares.is_empty(),
            has_removed: self.has_removed,
        }
    }

    fn file<D: Directory>(&mut self, directory: &D) -> Result<NextFile<D::File>, DiskError> {
        if let Some(name) = self.outgrown.take() {
            directory.remove(&name)?;
        }
        if let Some(name) = self.spare.take() {
            return Ok(NextFile {
                file: directory.open(&name)?,
                name,
                bytes: self.lengths[0],
                is_spare: true,
            });
        }
        let mut next = 0;
        loop {
            let bytes = self.lengths[next];
            match self.make(directory, bytes) {
                Err(error @ DiskError::OutOfSpace { .. }) => {
                    // The space that was taken in part goes back; if that fails too, the next
                    // attempt does it.
                    let _ = directory.remove(&self.name);
                    if self.free(directory)? {
                        continue;
                    }
                    next += 1;
                    if next == self.lengths.len() {
                        return Err(error);
                    }
                }
                made => return made,
            }
        }
    }

    fn make<D: Directory>(
        &self,
        directory: &D,
        bytes: u64,
    ) -> Result<NextFile<D::File>, DiskError> {
        if directory.exists(&self.name)? {
            directory.remove(&self.name)?;
        }
        let mut file = directory.create(&self.name)?;
        file.set_bytes(bytes)?;
        Ok(NextFile {
            name: self.name.clone(),
            file,
            bytes,
            is_spare: false,
        })
    }

    /// Gives space back to a full disk; returns whether there was any: a file that a crash may
    /// bring back still takes its space.
    fn free<D: Directory>(&mut self, directory: &D) -> Result<bool, DiskError> {
        if !self.spares.is_empty() {
            let spares = std::mem::take(&mut self.spares);
            return wal_spares::give_up(directory, &spares);
        }
        if std::mem::take(&mut self.has_removed) {
            directory.sync(site!("wal.removed"))?;
            return Ok(true);
        }
        Ok(false)
    }
}

/// A segment that is to get its name.
pub struct Roll<F> {
    /// The part of the segment before that is not durable.
    rest: Option<PendingSync<F>>,
    file: Arc<Mutex<SegmentFile<F>>>,
    header: SegmentHeader,
    is_spare: bool,
    /// Its name so far, and its own.
    unpublished: String,
    name: String,
    tail: StreamTail<F>,
    oldest: u64,
}

/// Outcome of a [`Roll`].
#[must_use = "the log has to know"]
pub struct EndedRoll {
    rest: Option<EndedSync>,
    named: Result<()>,
    segment: (u64, u64),
}

impl<F: File> Roll<F> {
    /// Makes the segment a part of the log.
    pub fn run<D: Directory<File = F>>(mut self, directory: &D) -> EndedRoll {
        let rest = self.rest.take().map(|rest| rest.run(|| ()));
        let has_failed = rest.as_ref().is_some_and(|rest| rest.result.is_err());
        EndedRoll {
            named: if has_failed {
                Ok(())
            } else {
                self.name(directory)
            },
            rest,
            segment: (self.header.number, self.header.bytes),
        }
    }

    fn name<D: Directory<File = F>>(&self, directory: &D) -> Result<()> {
        lock(&self.file).begin(&self.header, self.is_spare)?;
        directory.rename(&self.unpublished, &self.name)?;
        // commit point: a segment with a durable name is part of the log
        directory.sync(site!("wal.publish-segment"))?;
        self.tail.note(Tail {
            first: self.oldest,
            segment: self.header.number,
            end: self.header.first,
        })
    }
}

impl<D: Directory> Wal<D> {
    /// Whether a file should be made for the next segment, so that it is there when the current one
    /// is full.
    pub fn wants_file(&self) -> bool {
        let is_half_full = |current: &Current<_>| self.room() < current.header.bytes / 2;
        let current = self.current.as_ref().filter(|current| current.is_named);
        self.next.is_none() && !self.is_refused && current.is_some_and(is_half_full)
    }

    /// Whether the next segment can begin now, with that room.
    pub fn can_begin_segment(&self, room: Room) -> bool {
        let has_room = |next: &NextFile<_>| next.bytes >= with_room(room.least);
        self.is_named() && self.next.as_ref().is_some_and(has_room)
    }

    /// Whether the current segment has its name durably.
    pub fn is_named(&self) -> bool {
        self.current.as_ref().is_none_or(|current| current.is_named)
    }

    /// The file that the next segment needs. Until [`Wal::end_preparation`] nothing else may use
    /// spares or remove files.
    pub fn prepare(&mut self, room: Room) -> Preparation {
        assert!(self.is_named(), "the current segment does not use the name");
        let is_needed = |&&(number, _): &&(u64, u64)| number >= self.start.segment;
        let needed = self.segments.iter().rev().take_while(is_needed).count();
        let [usual, long] = self.options.lengths();
        let best = if needed < SHORT_SEGMENTS { usual } else { long };
        let wanted = with_room(room.wanted);
        let mut lengths = vec![
            best.max(wanted),
            usual.max(wanted),
            usual.max(with_room(room.least)),
            // Where a disk is nearly full, any room for the next change is better than none.
            usual.min(SHORTEST_BYTES).max(with_room(room.least)),
        ];
        debug_assert!(
            lengths.is_sorted_by(|better, worse| better >= worse),
            "the best length is tried first"
        );
        lengths.dedup();
        Preparation {
            name: self.unpublished_name(),
            spare: self.spares.pop(lengths[0]),
            lengths,
            outgrown: self.next.take().map(|next| next.name),
            spares: self.spares.names(),
            has_removed: self.has_removed,
        }
    }

    /// Keeps the file that was made. If the disk is full (`DiskError::OutOfSpace`) the log is as it
    /// was.
    pub fn end_preparation(&mut self, prepared: Prepared<D::File>) -> Result<()> {
        if prepared.gave_up_spares {
            self.spares.forget();
        }
        self.has_removed = prepared.has_removed;
        match prepared.file {
            Ok(next) => {
                let before = self.next.replace(next);
                debug_assert!(before.is_none(), "there is one file for the next segment");
                Ok(())
            }
            Err(error @ DiskError::OutOfSpace { .. }) => {
                self.is_refused = true;
                Err(error.into())
            }
            Err(error) => Err(self.poison(error.into())),
        }
    }

    /// Makes the file that was prepared the current segment, and returns its start. It has no name
    /// before the roll has ended.
    pub fn begin_segment(&mut self) -> Result<LogStart> {
        assert!(self.is_named(), "the roll before has ended");
        let rest = self.begin_sync()?;
        let next = self.next.take().expect("a file was prepared");
        assert!(
            next.bytes <= SEGMENT_BYTES_MAX,
            "a segment is longer than its readers believe"
        );
        assert!(self.ends_in_current(), "{END_IN_SEGMENT}");
        let header = SegmentHeader {
            identity: self.identity,
            number: self.next_segment,
            first: self.end,
            bytes: next.bytes,
        };
        let file = Arc::new(Mutex::new(SegmentFile::new(next.file)));
        let oldest = self.segments.first().map(|&(number, _)| number);
        self.roll = Some(Roll {
            rest,
            file: Arc::clone(&file),
            is_spare: next.is_spare,
            unpublished: next.name,
            name: self.identity.file_name(&self.kind, header.number),
            tail: self.tail.clone(),
            oldest: oldest.unwrap_or(header.number),
            header,
        });
        let start = LogStart {
            segment: header.number,
            lsn: header.first,
        };
        self.closed = None;
        self.is_refused = false;
        self.next_segment += 1;
        self.current = Some(Current {
            file,
            seed: header.seed(),
            header,
            written: HEADER_BYTES as u64,
            is_named: false,
        });
        Ok(start)
    }

    /// Steps that have to be durable before a record of the current segment; none if nothing has
    /// to, or it is under way.
    pub fn begin_roll(&mut self) -> Option<Roll<D::File>> {
        self.roll.take()
    }

    /// Notes what has become of a roll.
    pub fn end_roll(&mut self, ended: EndedRoll) -> Result<()> {
        if let Some(rest) = ended.rest {
            self.end_sync(rest)?;
        }
        ended.named.map_err(|error| self.poison(error))?;
        self.has_removed = false;
        debug_assert!(
            self.segments.last() < Some(&ended.segment),
            "segments get their names in their order"
        );
        self.segments.push(ended.segment);
        let current = self.current();
        debug_assert_eq!(
            current.header.number, ended.segment.0,
            "no segment begins before the roll of the one before has ended"
        );
        current.is_named = true;
        Ok(())
    }

    /// Ends the current segment and begins the next one, with that room.
    pub(super) fn roll(&mut self, directory: &D, room: Room) -> Result<()> {
        let prepared = self.prepare(room).run(directory);
        self.end_preparation(prepared)?;
        self.begin_segment()?;
        self.settle(directory)?;
        self.keep_reserve(directory)?;
        Ok(())
    }

    /// As [`Wal::roll`], with the reserve file.
    pub(super) fn roll_to_reserve(&mut self, directory: &D) -> Result<()> {
        let taken = self.spares.take_reserve(directory);
        let opened = taken.and_then(|name| Ok((directory.open(&name)?, name)));
        let (file, name) = opened.map_err(|error| self.poison(error))?;
        self.next = Some(NextFile {
            name,
            file,
            bytes: self.options.reserve_bytes,
            is_spare: true,
        });
        self.begin_segment()?;
        self.settle(directory)?;
        self.spares.keep_rest(directory)
    }

    /// Ends the roll that has begun, if one has.
    pub(super) fn settle(&mut self, directory: &D) -> Result<()> {
        match self.begin_roll() {
            Some(roll) => self.end_roll(roll.run(directory)),
            None => Ok(()),
        }
    }

    /// Removes a file that was made ahead of need; a spare stays one.
    pub(super) fn remove_next(&mut self, directory: &D) -> Result<()> {
        match self.next.take().filter(|next| !next.is_spare) {
            Some(next) => Ok(directory.remove(&next.name)?),
            None => Ok(()),
        }
    }

    /// The names of all files that a full disk can do without, which the log does not use any more.
    /// A log without a segment keeps a file for one: the records of a change that gives room back
    /// need it.
    pub fn take_spares(&mut self) -> Vec<String> {
        if self.current.is_some() {
            let mut names = self.spares.take_names(None);
            names.extend(self.next.take().map(|next| next.name));
            return names;
        }
        let kept = self.next.is_none().then_some(self.options.segment_bytes);
        self.spares.take_names(kept)
    }

    pub(super) fn unpublished_name(&self) -> String {
        format!("p{}.{}.tmp", self.identity.partition, self.kind)
    }
}
