//! Rows in the order in which they came, read by their numbers, again and again.
//!
//! The first rows stay in memory, as far as there is room; those that follow go to a file. A reader
//! keeps the segment of it that it has read last, so reading in order is cheap in both directions.

use crate::Row;
use crate::budget::{Share, bytes_of};
use crate::chain::{Chain, Reader};
use sql_values::error::Result;

/// Rows that are read at once.
const SEGMENT_ROWS: u64 = 64;

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

/// A reader's last segment of a file.
#[derive(Debug, Default)]
pub struct SegmentCache {
    segment: u64,
    rows: Vec<Row>,
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
        // The last segment may have grown since.
        if place.segment != segment || place.rows.len() <= at {
            place.segment = segment;
            place.rows.clear();
            let Some(&start) = file.starts.get(segment as usize) else {
                return Ok(None);
            };
            let mut reader = Reader::from(start);
            while (place.rows.len() as u64) < SEGMENT_ROWS
                && let Some(row) = file.chain.read(&mut reader)?
            {
                place.rows.push(row);
            }
        }
        Ok(place.rows.get(at))
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
}
