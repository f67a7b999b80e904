//! Reading the write-ahead log (`wal`): segments one after the other.
//!
//! A segment is read as a whole, and its records end at the first frame that is not valid.
//! Invariant of reading: each segment begins where the one before it ended, and no record is handed
//! out twice. Nothing is stored here.

use super::position::{LogIdentity, Lsn};
use super::wal_segment::{HEADER_BYTES, KIND, SegmentHeader, damage, read_frame};
use crate::error::{Result, StorageError};
use disk::{Directory, File};

/// Position of the first record of a partition's segment.
pub fn first_of<D: Directory>(directory: &D, identity: LogIdentity, number: u64) -> Result<Lsn> {
    let (_, header, _) = open_segment(directory, identity, KIND, number)?;
    Ok(header.first)
}

/// Hands the records of segments, which follow each other and have all up to `end`, to `visit`.
pub fn copy_segments<D: Directory>(
    directory: &D,
    identity: LogIdentity,
    numbers: &[u64],
    (first, end): (Lsn, Lsn),
    visit: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
) -> Result<()> {
    let (mut data, mut log) = (Vec::new(), Replayed::new(first));
    for &number in numbers {
        let (name, header, _) = read_segment(directory, identity, KIND, number, &mut data)?;
        let found = log.segment(&name, &header, &data, visit)?;
        let is_last = numbers.last() == Some(&number);
        if is_last && !(log.records..=log.frames).contains(&end) {
            let detail = "the record here is not valid any more";
            return Err(damage(&name, found.frames as u64, detail));
        }
    }
    Ok(())
}

/// A segment's name, header and file.
fn open_segment<D: Directory>(
    directory: &D,
    identity: LogIdentity,
    kind: &str,
    number: u64,
) -> Result<(String, SegmentHeader, D::File)> {
    let name = identity.file_name(kind, number);
    let mut file = directory.open(&name)?;
    let bytes = file.bytes()?;
    let mut head = [0; HEADER_BYTES];
    let head_bytes = bytes.min(HEADER_BYTES as u64) as usize;
    file.read_at(0, &mut head[..head_bytes])?;
    let header = SegmentHeader::decode(&name, identity, number, &head[..head_bytes], bytes)?;
    Ok((name, header, file))
}

/// As [`open_segment`], with the content in `data`.
pub(super) fn read_segment<D: Directory>(
    directory: &D,
    identity: LogIdentity,
    kind: &str,
    number: u64,
    data: &mut Vec<u8>,
) -> Result<(String, SegmentHeader, D::File)> {
    let (name, header, mut file) = open_segment(directory, identity, kind, number)?;
    // The length is believed, and memory taken, only after the header was.
    data.resize(header.bytes as usize, 0);
    file.read_at(0, data)?;
    Ok((name, header, file))
}

/// Position in the log while its segments are read.
pub(super) struct Replayed {
    /// Position after the last record.
    pub(super) records: Lsn,
    /// Position after the last frame, which may be a mark.
    pub(super) frames: Lsn,
    /// The last segment that was read, and the offset of its end in the file.
    last: Option<(String, u64)>,
}

/// Ends of the valid content of one segment, as offsets in the file.
pub(super) struct SegmentEnd {
    /// After the last record.
    pub(super) records: usize,
    /// After the last frame.
    pub(super) frames: usize,
    /// Position up to which the log surely became durable, proven by a frame or by the existence of
    /// the segment.
    pub(super) synced: Lsn,
}

impl Replayed {
    pub(super) fn new(start: Lsn) -> Self {
        Self {
            records: start,
            frames: start,
            last: None,
        }
    }

    /// Hands the valid records of the next segment to `replay`.
    pub(super) fn segment(
        &mut self,
        name: &str,
        header: &SegmentHeader,
        data: &[u8],
        replay: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>,
    ) -> Result<SegmentEnd> {
        if !(self.records..=self.frames).contains(&header.first) {
            return Err(broken_chain(name, header, self.frames, self.last.take()));
        }
        let seed = header.seed();
        let mut found = SegmentEnd {
            records: HEADER_BYTES,
            frames: HEADER_BYTES,
            synced: header.first,
        };
        while let Some(frame) = read_frame(data, seed, found.frames, header.position(found.frames))
        {
            let at = header.position(found.frames);
            found.frames += frame.bytes;
            found.synced = found.synced.max(frame.synced);
            if !frame.payload.is_empty() {
                replay(at, &data[frame.payload])?;
                found.records = found.frames;
            }
        }
        self.records = header.position(found.records);
        self.frames = header.position(found.frames);
        self.last = Some((name.to_owned(), found.frames as u64));
        Ok(found)
    }
}

/// The error for a segment that does not begin where the log ended.
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
