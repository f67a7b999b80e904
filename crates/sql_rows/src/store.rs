//! Rows in the order in which they came, read by their numbers, again and again.
//!
//! The first rows stay in memory, as far as there is room; those that follow go to a file. A reader
//! keeps the segments of it that it has read last, so reading in order is cheap in both directions,
//! also at several places by turns.

use crate::Row;
use crate::budget::{Share, bytes_of};
use crate::chain::{Chain, Reader};
use sql_values::error::Result;

/// Rows that are read at once.
const SEGMENT_ROWS: u64 = 64;

/// Segments that a reader keeps: about the places at which a window function looks by turns.
const SEGMENTS_KEPT: usize = 8;

/// Bytes of rows that a reader keeps beside those of its last segment.
const BYTES_KEPT: u64 = 1 << 20;

/// Rows with numbers from 0.
#[derive(Debug)]
pub struct Store {
    share: Share,
    rows: Vec<Row>,
    file: Option<Overflow>,
}

/// The rows that have found no room.
#[derive(Debug)]
struct Overflow {
    chain: Chain,
    /// The place of the first row of each segment.
    starts: Vec<u64>,
}

/// A reader's last segments of a file, the last one first.
#[derive(Debug, Default)]
pub struct SegmentCache(Vec<Segment>);

/// Rows of a file that were read at once.
#[derive(Debug)]
struct Segment {
    number: u64,
    rows: Vec<Row>,
    bytes: u64,
}

impl SegmentCache {
    /// A segment as the last one; without rows if it was not kept.
    fn front(&mut self, number: u64) -> &mut Segment {
        let kept = &mut self.0;
        let at = kept.iter().position(|one| one.number == number);
        let at = at.unwrap_or_else(|| {
            while is_full(kept) {
                kept.pop();
            }
            kept.push(Segment {
                number,
                rows: Vec::new(),
                bytes: 0,
            });
            kept.len() - 1
        });
        kept[..=at].rotate_right(1);
        &mut kept[0]
    }
}

/// Whether a segment is to go before another one is read.
fn is_full(kept: &[Segment]) -> bool {
    let bytes: u64 = kept.iter().map(|one| one.bytes).sum();
    kept.len() >= SEGMENTS_KEPT || bytes > BYTES_KEPT
}

impl Store {
    /// No rows.
    pub fn new(share: Share) -> Self {
        Self {
            share,
            rows: Vec::new(),
            file: None,
        }
    }

    /// The number of rows.
    pub fn len(&self) -> u64 {
        let in_file = self.file.as_ref().map_or(0, |file| file.chain.rows());
        self.rows.len() as u64 + in_file
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a row.
    pub fn push(&mut self, row: Row) -> Result<()> {
        if self.file.is_none() && self.share.try_take(bytes_of(&row)) {
            self.rows.push(row);
            return Ok(());
        }
        let file = self.file.get_or_insert_with(|| Overflow {
            chain: Chain::new(&self.share.blocks()),
            starts: Vec::new(),
        });
        if file.chain.rows().is_multiple_of(SEGMENT_ROWS) {
            file.starts.push(file.chain.bytes());
        }
        file.chain.push(&row)
    }

    /// The row with a number.
    pub fn get<'s>(&'s self, number: u64, place: &'s mut SegmentCache) -> Result<Option<&'s Row>> {
        let in_memory = self.rows.len() as u64;
        if number < in_memory {
            return Ok(self.rows.get(number as usize));
        }
        let number = number - in_memory;
        let Some(file) = &self.file else {
            return Ok(None);
        };
        let (segment, at) = (number / SEGMENT_ROWS, (number % SEGMENT_ROWS) as usize);
        let Some(&start) = file.starts.get(segment as usize) else {
            return Ok(None);
        };
        let segment = place.front(segment);
        // The last segment may have grown since.
        if segment.rows.len() <= at {
            segment.rows.clear();
            let mut reader = Reader::from(start);
            while (segment.rows.len() as u64) < SEGMENT_ROWS
                && let Some(row) = file.chain.read(&mut reader)?
            {
                segment.rows.push(row);
            }
            segment.bytes = segment.rows.iter().map(|row| bytes_of(row)).sum();
        }
        Ok(segment.rows.get(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;
    use sql_values::types::Datum;
    use std::sync::Arc;

    #[test]
    fn rows_are_read_by_their_numbers_while_others_come() {
        let mut memory = Memory::new(20_000, 1, Arc::default());
        let mut store = Store::new(memory.share());
        let (mut place, mut back) = (SegmentCache::default(), SegmentCache::default());
        for number in 0..3000_u64 {
            store.push(vec![Datum::Int8(number.cast_signed())]).unwrap();
            assert_eq!(store.len(), number + 1);
            let last = store.get(number, &mut place).unwrap();
            assert_eq!(last, Some(&vec![Datum::Int8(number.cast_signed())]));
            let other = number * 7919 % (number + 1);
            let row = store.get(other, &mut back).unwrap();
            assert_eq!(row, Some(&vec![Datum::Int8(other.cast_signed())]));
        }
        assert!(store.rows.len() < 1000, "most rows are in the file");
        assert_eq!(store.get(3000, &mut place).unwrap(), None);
    }

    #[test]
    fn readers_keep_several_segments_of_rows_that_are_not_long() {
        for (bytes, kept) in [(10, SEGMENTS_KEPT), (20_000, 1)] {
            let mut memory = Memory::new(1, 1, Arc::default());
            let mut store = Store::new(memory.share());
            let text = Datum::text("x".repeat(bytes));
            for number in 0..12 * SEGMENT_ROWS {
                let number = Datum::Int8(number.cast_signed());
                store.push(vec![number, text.clone()]).unwrap();
            }
            let mut place = SegmentCache::default();
            for number in [0, 700, 64, 65, 400, 128, 192, 256, 320, 384, 0] {
                let row = store.get(number, &mut place).unwrap().unwrap();
                assert_eq!(row[0], Datum::Int8(number.cast_signed()));
            }
            assert_eq!(place.0.len(), kept, "of rows of {bytes} bytes");
            assert_eq!(
                place.0[0].number, 0,
                "the last one that was read comes first"
            );
        }
    }
}
