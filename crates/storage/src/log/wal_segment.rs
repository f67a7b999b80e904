//! The bytes of a log segment: its header, and the frames of its records.
//!
//! A segment is one file of a length fixed at its creation. Its header is durable before the file
//! gets its name, so a file that is called a segment and has no valid header is damaged, never half
//! made. Records follow one after the other; the log ends at the first frame that is not valid.
//!
//! | header field | bytes | meaning |
//! |---|---|---|
//! | magic | 8 | `INDLWAL\n` |
//! | version | 4 | [`VERSION`] |
//! | partition | 4 | number of the partition |
//! | database | 16 | identity of the database |
//! | number | 8 | the number in the file's name |
//! | first | 8 | position of the first record |
//! | bytes | 8 | length of the file |
//! | checksum | 4 | crc32c of all fields before |
//! | byte order | 4 | [`BYTE_ORDER`]; 0 in files that were made before there was a mark |
//!
//! | frame field | bytes | meaning |
//! |---|---|---|
//! | checksum | 4 | crc32c of the other fields and the payload, from the header's checksum |
//! | length | 4 | bytes of the payload |
//! | position | 8 | where the frame begins in the log as a whole |
//! | synced | 8 | position up to which the log was durable when the frame was made |
//! | payload | length | padded with zeros to a multiple of 8 |
//!
//! The seed and the position keep old bytes, which a device may show after the tail, from being
//! taken for records. `synced` distinguishes damage from a torn tail: a frame that is not valid,
//! followed by a frame that says that the log was durable beyond the first, was valid once.
//!
//! A frame without payload is a *mark*: it only says that everything before it is durable. A mark
//! at the end of a segment is no part of the log: the next segment may begin at its position or
//! after it.

use super::position::{LogIdentity, Lsn};
use crate::error::{Result, StorageError};
use std::ops::{Range, RangeInclusive};

/// The kind in the names of segments, but for those of a series.
pub(super) const KIND: &str = "wal";
/// Bytes before the first record: one sector, so that no later write tears it.
pub(super) const HEADER_BYTES: usize = 512;
/// Bytes of a frame without its payload.
pub(super) const FRAME_BYTES: usize = 24;

const MAGIC: [u8; 8] = *b"INDLWAL\n";
const VERSION: u32 = 1;
const CHECKSUM_AT: usize = 56;
const BYTE_ORDER_AT: usize = 60;

/// Reads `04 03 02 01` where numbers are little-endian, as all numbers in our files are.
pub(super) const BYTE_ORDER: u32 = 0x0102_0304;
/// Longest segment: one record of the longest kind. No more than that is read into memory.
pub(super) const SEGMENT_BYTES_MAX: u64 = (1 << 31) + (1 << 20);

/// Header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub(super) identity: LogIdentity,
    pub(super) number: u64,
    pub(super) first: Lsn,
    pub(super) bytes: u64,
}

impl SegmentHeader {
    /// The header in the format of the file.
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut fields = Vec::with_capacity(HEADER_BYTES);
        fields.extend_from_slice(&MAGIC);
        fields.extend_from_slice(&VERSION.to_le_bytes());
        fields.extend_from_slice(&self.identity.partition.to_le_bytes());
        fields.extend_from_slice(&self.identity.database.to_le_bytes());
        fields.extend_from_slice(&self.number.to_le_bytes());
        fields.extend_from_slice(&self.first.0.to_le_bytes());
        fields.extend_from_slice(&self.bytes.to_le_bytes());
        debug_assert_eq!(
            fields.len(),
            CHECKSUM_AT,
            "the header's fields end at its checksum"
        );
        fields.extend_from_slice(&crc32c::crc32c(&fields).to_le_bytes());
        let mut header = [0; HEADER_BYTES];
        header[..fields.len()].copy_from_slice(&fields);
        header[BYTE_ORDER_AT..BYTE_ORDER_AT + 4].copy_from_slice(&BYTE_ORDER.to_le_bytes());
        header
    }

    /// Reads a header from the first bytes of a file, and checks that the file is the segment that
    /// its name and its database say, and as long as it must be.
    pub(super) fn decode(
        file: &str,
        identity: LogIdentity,
        number: u64,
        data: &[u8],
        file_bytes: u64,
    ) -> Result<Self> {
        let foreign = |reason: String| StorageError::foreign_file(file, reason);
        let damaged = |offset: u64, detail: String| damage(file, offset, detail);
        if data.get(..8) != Some(&MAGIC) {
            return Err(foreign(
                "it does not begin as a log segment does".to_owned(),
            ));
        }
        let short = || damaged(data.len() as u64, "the file ends in its header".to_owned());
        let version = read_u32(data, 8).ok_or_else(short)?;
        if let Some(reason) = other_byte_order(version, 1..=VERSION) {
            return Err(foreign(reason.to_owned()));
        }
        let sum = read_u32(data, CHECKSUM_AT).ok_or_else(short)?;
        let fields = data.get(..CHECKSUM_AT).ok_or_else(short)?;
        if crc32c::crc32c(fields) != sum {
            return Err(damaged(0, "the checksum of the header is wrong".to_owned()));
        }
        if version != VERSION {
            return Err(foreign(format!(
                "it has version {version}; this program reads {VERSION}"
            )));
        }
        if !matches!(read_u32(data, BYTE_ORDER_AT), Some(0 | BYTE_ORDER)) {
            return Err(damaged(
                BYTE_ORDER_AT as u64,
                "the mark of the byte order is wrong".to_owned(),
            ));
        }
        let header = Self {
            identity: LogIdentity {
                partition: read_u32(data, 12).ok_or_else(short)?,
                database: fields
                    .get(16..32)
                    .and_then(|bytes| bytes.try_into().ok())
                    .map(u128::from_le_bytes)
                    .ok_or_else(short)?,
            },
            number: read_u64(data, 32).ok_or_else(short)?,
            first: Lsn(read_u64(data, 40).ok_or_else(short)?),
            bytes: read_u64(data, 48).ok_or_else(short)?,
        };
        if header.identity != identity {
            return Err(foreign(
                "it belongs to another database or partition".to_owned(),
            ));
        }
        if header.number != number {
            return Err(foreign(format!(
                "it is segment {} under another name",
                header.number
            )));
        }
        if header.bytes != file_bytes {
            let detail = format!(
                "the file has {file_bytes} bytes instead of {}",
                header.bytes
            );
            return Err(damaged(file_bytes, detail));
        }
        if file_bytes > SEGMENT_BYTES_MAX {
            let detail = format!("no segment has {file_bytes} bytes");
            return Err(damaged(0, detail));
        }
        Ok(header)
    }

    /// Position in the log of the byte at `offset` of the file.
    pub(super) fn position(&self, offset: usize) -> Lsn {
        debug_assert!(
            offset >= HEADER_BYTES,
            "the header has no position in the log"
        );
        Lsn(self.first.0 + (offset - HEADER_BYTES) as u64)
    }

    /// Seed of the checksums of this segment's frames.
    pub(super) fn seed(&self) -> u32 {
        crc32c::crc32c(&self.encode()[..CHECKSUM_AT])
    }
}

/// Bytes of a frame with a payload of `payload` bytes.
pub(super) const fn frame_bytes(payload: usize) -> usize {
    (FRAME_BYTES + payload).next_multiple_of(8)
}

/// Adds a frame to `buffer`.
pub(super) fn push_frame(buffer: &mut Vec<u8>, seed: u32, at: Lsn, synced: Lsn, payload: &[u8]) {
    assert!(
        u32::try_from(payload.len()).is_ok(),
        "a record is longer than its frame can say"
    );
    debug_assert!(synced <= at, "a frame says that later ones are durable");
    let start = buffer.len();
    buffer.extend_from_slice(&[0; 4]);
    buffer.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    buffer.extend_from_slice(&at.0.to_le_bytes());
    buffer.extend_from_slice(&synced.0.to_le_bytes());
    buffer.extend_from_slice(payload);
    let checksum = crc32c::crc32c_append(seed, &buffer[start + 4..]);
    buffer[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
    buffer.resize(start + frame_bytes(payload.len()), 0);
}

/// A valid frame.
pub(super) struct Frame {
    pub(super) payload: Range<usize>,
    pub(super) synced: Lsn,
    /// Bytes of the whole frame.
    pub(super) bytes: usize,
}

/// The frame at byte `offset` of a segment, if it is valid and begins at position `at` of the log.
pub(super) fn read_frame(segment: &[u8], seed: u32, offset: usize, at: Lsn) -> Option<Frame> {
    if read_u64(segment, offset + 8)? != at.0 {
        return None;
    }
    let length = read_u32(segment, offset + 4)? as usize;
    let payload = offset + FRAME_BYTES..offset + FRAME_BYTES + length;
    let bytes = frame_bytes(length);
    segment.get(offset..offset + bytes)?;
    let covered = segment.get(offset + 4..payload.end)?;
    if crc32c::crc32c_append(seed, covered) != read_u32(segment, offset)? {
        return None;
    }
    let synced = Lsn(read_u64(segment, offset + 16)?);
    Some(Frame {
        payload,
        synced,
        bytes,
    })
}

/// Whether a frame after byte `offset` shows that the log was once durable beyond it.
pub(super) fn was_durable(segment: &[u8], header: &SegmentHeader, offset: usize) -> bool {
    debug_assert!(offset.is_multiple_of(8), "frames begin at words");
    let seed = header.seed();
    let end = header.position(offset);
    (offset + 8..segment.len().saturating_sub(FRAME_BYTES - 1))
        .step_by(8)
        .any(|offset| {
            read_frame(segment, seed, offset, header.position(offset))
                .is_some_and(|frame| frame.synced > end)
        })
}

/// Why a file cannot be read if its version number makes sense only with its bytes swapped.
pub(super) fn other_byte_order(version: u32, known: RangeInclusive<u32>) -> Option<&'static str> {
    known.contains(&version.swap_bytes()).then_some(
        "it was written with big-endian numbers, and this program reads little-endian ones",
    )
}

/// A [`StorageError::DamagedFile`], built where it is found.
#[cold]
pub(super) fn damage(file: &str, offset: u64, detail: impl Into<String>) -> StorageError {
    StorageError::damaged_file(file, offset, detail.into())
}

pub(super) fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..at.checked_add(4)?)?
        .try_into()
        .ok()
        .map(u32::from_le_bytes)
}

pub(super) fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..at.checked_add(8)?)?
        .try_into()
        .ok()
        .map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        let identity = LogIdentity {
            database: 77,
            partition: 3,
        };
        SegmentHeader {
            identity,
            number: 5,
            first: Lsn(4096),
            bytes: 2048,
        }
    }

    fn file() -> Vec<u8> {
        let mut data = header().encode().to_vec();
        data.resize(2048, 0);
        data
    }

    #[test]
    fn a_header_survives_encoding_and_notices_each_flipped_bit() {
        let data = file();
        let read =
            |data: &[u8]| SegmentHeader::decode("f", header().identity, 5, data, data.len() as u64);
        assert_eq!(read(&data).unwrap(), header());
        for bit in 0..(BYTE_ORDER_AT + 4) * 8 {
            let mut flipped = data.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&flipped).is_err(), "bit {bit}");
        }
        for length in [0, 7, 8, 30, 59, 511, 512, 2047] {
            assert!(read(&data[..length]).is_err(), "length {length}");
        }
    }

    #[test]
    fn a_header_of_another_database_number_or_version_is_foreign() {
        let data = file();
        let other = LogIdentity {
            database: 78,
            partition: 3,
        };
        for read in [
            SegmentHeader::decode("f", other, 5, &data, 2048),
            SegmentHeader::decode("f", header().identity, 6, &data, 2048),
        ] {
            assert!(
                matches!(read, Err(StorageError::ForeignFile { .. })),
                "{read:?}"
            );
        }
    }

    #[test]
    fn a_segment_without_a_mark_opens_and_one_of_the_other_byte_order_does_not() {
        let mut data = file();
        let read =
            |data: &[u8]| SegmentHeader::decode("f", header().identity, 5, data, data.len() as u64);
        data[BYTE_ORDER_AT..BYTE_ORDER_AT + 4].fill(0);
        assert_eq!(read(&data).unwrap(), header());
        data[8..12].copy_from_slice(&VERSION.to_be_bytes());
        let message = read(&data).unwrap_err().to_string();
        assert!(message.contains("big-endian") && message.contains("little-endian"));
    }

    #[test]
    fn a_frame_is_valid_only_at_its_place_in_its_segment() {
        let seed = header().seed();
        let mut frames = Vec::new();
        push_frame(&mut frames, seed, Lsn(64), Lsn(0), b"payload");
        let frame = read_frame(&frames, seed, 0, Lsn(64)).unwrap();
        assert_eq!(&frames[frame.payload], b"payload");
        assert_eq!(frame.bytes, frames.len());
        assert!(read_frame(&frames, seed, 0, Lsn(72)).is_none());
        assert!(read_frame(&frames, seed ^ 1, 0, Lsn(64)).is_none());
        for bit in 0..(FRAME_BYTES + 7) * 8 {
            let mut flipped = frames.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(
                read_frame(&flipped, seed, 0, Lsn(64)).is_none(),
                "bit {bit}"
            );
        }
    }
}
