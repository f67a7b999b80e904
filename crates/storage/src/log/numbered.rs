//! Records that are numbered over several streams, and the operations of such a stream: a ring in
//! durable memory (`nv_ring`) or a series of files (`series`).
//!
//! The numbers of all streams of a partition have no gaps, so a reader of all of them can put the
//! records in order and see which one is missing. A stream keeps records in the order of their
//! numbers. If one of its records is whole, each earlier one is whole too, or is not needed, or the
//! stream reports damage.

use super::position::Lsn;
use crate::error::{Result, StorageError};
use pmem::Counters;
use std::ops::RangeInclusive;

/// Free bytes before the payload of a record that is handed to a stream.
pub const HEADER_BYTES: usize = 32;

/// Number and properties of a record, stored with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Its number.
    pub lsn: Lsn,
    /// All records with lower numbers are durable.
    pub known: Lsn,
    /// The life of the log.
    pub life: u64,
    /// Kind of the record.
    pub kind: RecordKind,
}

/// The fate of records that recovery no longer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFront {
    /// Their space is used again.
    GivenUp,
    /// They stay until they are archived.
    Kept,
}

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// One of the caller's.
    Ordinary,
    /// Declares the numbers from the one in its payload up to its own unused.
    Gap,
    /// The last one of an orderly end: its payload has the numbers of each stream's files, if
    /// streams have files.
    End,
}

/// A record that an opening has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its number.
    pub lsn: Lsn,
    /// The first number that it stands for: its own, but for a [`RecordKind::Gap`].
    pub from: Lsn,
    /// An opening has undone its changes. Its number is not used again.
    pub is_given_up: bool,
    /// In which life of the log it was made; 0 where there are none.
    pub life: u64,
    /// Its slot in the index, or its segment.
    pub(super) slot: u64,
    /// Position of the record.
    pub(super) position: u64,
    pub(super) payload_bytes: usize,
}

impl Found {
    /// The bytes that it takes, about.
    pub fn bytes(&self) -> u64 {
        (HEADER_BYTES + self.payload_bytes) as u64
    }
}

/// The records and proofs that an opening has found in a stream.
#[derive(Debug, Default)]
pub struct FoundRecords {
    /// The records.
    pub found: Vec<Found>,
    /// All records with lower numbers were durable once: some record says so.
    pub known: Lsn,
    /// Records that do not count keep their numbers for ever; those are below this. None where such
    /// records are erased.
    pub taken: Lsn,
    /// The files of each stream at the newest orderly end, and the number of the record that says
    /// so.
    pub end: (Lsn, Vec<RangeInclusive<u64>>),
}

/// A step that makes records durable and needs no stream, so that others can append meanwhile.
pub trait Pending: Sized {
    /// The result of the step, which goes back to the stream.
    type Ended;

    /// Takes the step. `give_back` gives the stream back to others.
    fn run(self, give_back: impl FnOnce()) -> Self::Ended;
}

/// The storage of the records of one session, or of a few.
pub trait Stream: Send {
    /// The step that makes its records durable, if it is long.
    type Pending: Pending;

    /// All whole records from `from` on, in no order, and what everything that is whole proves to
    /// have been durable.
    fn records(&mut self, from: Lsn) -> Result<FoundRecords>;

    /// A record's payload.
    fn payload(&mut self, found: &Found) -> Result<&[u8]>;

    /// Ends an opening: `kept` are the stream's records that count, in their order. Every other one
    /// from `from` on never counts again, or its number is [taken](FoundRecords::taken). Kept
    /// records that are given up stay so for ever. Records below `known` are durable; the others
    /// are made durable, because they may be in a cache only, which looks clean after a failed
    /// sync.
    fn settle(&mut self, kept: &[Found], known: Lsn, from: Lsn) -> Result<()>;

    /// Makes room for a record with a payload of this length, and for `more` bytes of short records
    /// after it. A failure changes nothing.
    fn make_room(&mut self, payload: usize, more: u64) -> Result<()>;

    /// Adds a record, which is durable after the next [`Stream::persist`]. `record` has
    /// [`HEADER_BYTES`] free bytes before the payload, and is changed. The caller has made room.
    fn append(&mut self, stamp: Stamp, record: &mut Vec<u8>) -> Result<()>;

    /// Makes all records durable.
    fn persist(&mut self) -> Result<()>;

    /// Makes all records durable, or begins to: the step that remains is given back to
    /// [`Stream::end_persist`]. There is one at a time.
    fn begin_persist(&mut self) -> Result<Option<Self::Pending>> {
        self.persist()?;
        Ok(None)
    }

    /// Begins to make all records durable while others append, with a handle of its own; none if
    /// such steps have begun for all records, or there is no such handle. The step goes back like
    /// that of [`Stream::begin_persist`].
    fn begin_ahead(&mut self) -> Result<Option<Self::Pending>> {
        Ok(None)
    }

    /// Records whose step has not begun, where they are counted.
    fn waiting(&self) -> u64 {
        0
    }

    /// Notes what has become of a step.
    fn end_persist(&mut self, ended: <Self::Pending as Pending>::Ended) -> Result<()>;

    /// Notes that a checkpoint begins at the number `redo`: all records so far have lower numbers
    /// and are durable. Open transactions may need `more` bytes after it.
    fn begin_checkpoint(&mut self, redo: Lsn, more: u64) -> Result<()>;

    /// Forgets the records before `lsn`: nobody needs them any more.
    fn forget(&mut self, lsn: Lsn) -> Result<()>;

    /// Hands out the records from `cursor` on, which begins at 0, that come before `until`, where
    /// they can be archived. They are durable.
    fn copy(
        &mut self,
        _cursor: &mut u64,
        _until: Lsn,
        _visit: &mut dyn FnMut(Lsn, &[u8]),
    ) -> Result<()> {
        Ok(())
    }

    /// Position of the next record, in bytes from the first one ever.
    fn tail(&self) -> u64;

    /// Bytes of records after which sessions wait for a checkpoint.
    fn urgent_bytes(&self) -> u64;

    /// The numbers of its files, if it has files; none of them is missing in between.
    fn files(&self) -> Option<RangeInclusive<u64>> {
        None
    }

    /// Bytes that it takes.
    fn bytes(&self) -> u64;

    /// Counters of its memory.
    fn counters(&self) -> Counters {
        Counters::default()
    }

    /// The error for a stream that is not what it must be.
    fn damaged(&self, detail: &str) -> StorageError;

    /// The newest life of the log, and its first number: the first stream knows. Streams whose lost
    /// records cannot come back need no lives.
    fn life(&self) -> Result<(u64, Lsn)> {
        Ok((0, Lsn(0)))
    }

    /// Durably begins another life of the log with the record `cut`, and returns its number.
    fn begin_life(&mut self, _cut: Lsn) -> Result<u64> {
        Ok(1)
    }

    /// Notes durably in the first stream how many there are, if nothing else shows it.
    fn set_count(&mut self, _count: u64) -> Result<()> {
        Ok(())
    }

    /// Notes durably in the first stream that recovery needs no record before `start` any more, if
    /// nothing else shows it, and the fate of those records.
    fn set_start(&mut self, _start: Lsn, _in_front: InFront) -> Result<()> {
        Ok(())
    }

    /// Notes durably in the first stream that records before `lsn` were archived, and that their
    /// space is used again.
    fn set_archived(&mut self, _lsn: Lsn) -> Result<()> {
        Ok(())
    }

    /// In front of this records were archived; the first stream knows.
    fn archived(&self) -> Result<Lsn> {
        Ok(Lsn(0))
    }
}
