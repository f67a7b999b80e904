//! A sync of the log as a step of its own: it takes the records out of the log first, so that
//! others append while the device is busy.
//!
//! A sync has three steps. [`Wal::begin_sync`](super::Wal::begin_sync) takes the records out of the
//! log's buffer, with their place in the segment; [`PendingSync::run`] writes and syncs them, which
//! takes long and needs no log; [`Wal::end_sync`](super::Wal::end_sync) notes what is durable then.
//! A log of one owner takes all three at once ([`Wal::flush`](super::Wal::flush)).
//!
//! Invariants:
//! 1. A sync has the lock of its segment's file before the log can be used again. So a thread that
//!    needs everything durable meanwhile, to begin a new segment or a checkpoint, waits for it
//!    there, and no record is taken for durable because a later one is.
//! 2. A file with a failed write or sync takes no further one: its content on the medium is
//!    unknown.
//!
//! Order of locks: the log, then a segment's file. A sync that runs has the file only.

use super::position::Lsn;
use super::wal_read::SegmentEnd;
use super::wal_segment::{FRAME_BYTES, HEADER_BYTES, SegmentHeader, push_frame};
use crate::error::Result;
use crate::failure::Failure;
use crate::sync::{Mutex, lock};
use disk::{DiskError, File};
use pmem::site;
use std::sync::Arc;

/// The file of the segment that is being written.
pub(super) struct SegmentFile<F> {
    file: F,
    failure: Failure,
}

impl<F: File> SegmentFile<F> {
    pub(super) fn new(file: F) -> Self {
        Self {
            file,
            failure: Failure::default(),
        }
    }

    /// Writes records; they are not durable yet.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        assert!(
            offset >= HEADER_BYTES as u64,
            "records are written over the header of their segment"
        );
        self.step(|file| file.write_at(offset, bytes))
    }

    /// Makes the length and the header durable, of a new file or of a spare.
    pub(super) fn begin(&mut self, header: &SegmentHeader, is_spare: bool) -> Result<()> {
        self.step(|file| {
            file.write_at(0, &header.encode())?;
            if is_spare {
                file.sync(site!("wal.spare-header"))
            } else {
                file.sync(site!("wal.segment-header"))
            }
        })
    }

    /// Makes durable what was written.
    fn sync(&mut self) -> Result<()> {
        self.step(|file| file.sync(site!("wal.flush")))
    }

    fn step(&mut self, step: impl FnOnce(&mut F) -> Result<(), DiskError>) -> Result<()> {
        self.failure.require_none()?;
        step(&mut self.file).map_err(|error| self.failure.note(error.into()))
    }
}

/// Records that are to become durable, with all earlier ones.
pub struct PendingSync<F> {
    pub(super) file: Arc<Mutex<SegmentFile<F>>>,
    /// Offset in the file where `bytes` go.
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
    /// Behind the last record.
    pub(super) end: Lsn,
}

impl<F: File> PendingSync<F> {
    /// Writes and syncs the records. `give_back` gives the log back to others, which must not
    /// happen before this has the file.
    pub fn run(self, give_back: impl FnOnce()) -> EndedSync {
        let mut file = lock(&self.file);
        give_back();
        let result = if self.bytes.is_empty() {
            Ok(())
        } else {
            file.write(self.offset, &self.bytes)
        };
        // commit point: replay takes every record before `end` once this sync has ended
        let result = result.and_then(|()| file.sync());
        EndedSync {
            result,
            bytes: self.bytes,
            end: self.end,
        }
    }
}

/// Outcome of a [`PendingSync`].
#[must_use = "the log has to know"]
pub struct EndedSync {
    pub(super) result: Result<()>,
    /// The buffer, to be used again.
    pub(super) bytes: Vec<u8>,
    pub(super) end: Lsn,
}

/// Makes the records of the last segment durable where nothing proves that they are, and adds the
/// proof.
pub(super) fn prove<F: File>(
    file: &mut F,
    header: &SegmentHeader,
    data: &[u8],
    found: &SegmentEnd,
) -> Result<(), DiskError> {
    debug_assert!(
        header.first <= found.synced && found.records <= found.frames,
        "the end of a segment lies in it"
    );
    let end = header.position(found.records);
    if end <= found.synced {
        return Ok(());
    }
    let mut write = |offset: usize, bytes: &[u8]| {
        file.write_at(offset as u64, bytes)?;
        file.sync(site!("wal.replayed"))
    };
    let from = HEADER_BYTES + (found.synced.0 - header.first.0) as usize;
    write(from, &data[from..found.records])?;
    let mut mark = Vec::with_capacity(FRAME_BYTES);
    push_frame(&mut mark, header.seed(), end, end, &[]);
    // A segment of an earlier version may be full; then the next recovery does the same again.
    if found.records + mark.len() <= data.len() {
        write(found.records, &mark)?;
    }
    Ok(())
}
