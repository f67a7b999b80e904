//! Sizes of a write-ahead log (`wal`): of its segments, its buffer, and the files that it keeps for
//! later.
//!
//! A segment has its length from its creation on, so these may change from one opening to the next.

/// Sizes of the log.
#[derive(Clone, Copy, Debug)]
pub struct WalOptions {
    /// Bytes of a segment file. A record that is longer gets a segment of its own length.
    pub segment_bytes: u64,
    /// Bytes of the segments after the first few since a checkpoint: each takes four syncs to make.
    /// If it is less than a usual segment, all have that length.
    pub long_segment_bytes: u64,
    /// Appended bytes after which they are handed to the file without a sync. While a sync runs
    /// there may be more, up to 16 times as many.
    pub buffer_bytes_max: usize,
    /// Most bytes of segment files that are kept as spares once they are not needed any more.
    pub spare_bytes_max: u64,
    /// Half the bytes of a file that is held in reserve for a full disk: one half is the segment of
    /// records that give room back, the other is for a checkpoint; 0 for none.
    pub reserve_bytes: u64,
}

impl WalOptions {
    /// The lengths of segments, the usual one first.
    pub(super) fn lengths(&self) -> [u64; 2] {
        let long = self.long_segment_bytes.max(self.segment_bytes);
        [self.segment_bytes, long]
    }
}

impl Default for WalOptions {
    fn default() -> Self {
        Self {
            segment_bytes: 16 << 20,
            long_segment_bytes: 0,
            buffer_bytes_max: 1 << 20,
            spare_bytes_max: 0,
            reserve_bytes: 0,
        }
    }
}
