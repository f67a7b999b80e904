//! Where the medium wears: how often each region and each line was written.
//!
//! A region of 64 KiB gets a row of counters at its first write, one a line, so the map costs a
//! sixteenth of the written space and nothing for the rest. Only writes that reach the medium
//! count: write-backs, evictions, streamed lines.

use super::cache::LineName;
use std::collections::BTreeMap;

/// Bytes of a region.
pub const WEAR_REGION_BYTES: u64 = 64 << 10;

/// How often the medium was written, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wear {
    /// Every region that was written, by memory and offset.
    pub regions: Vec<RegionWear>,
}

/// Writes of one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionWear {
    /// The memory, numbered in the order of opening ([`super::Region::number`]).
    pub memory: u32,
    /// Where the region starts in its memory.
    pub offset: u64,
    /// Lines written, each time counted.
    pub writes: u64,
    /// The line that was written most; the first of them if there are several.
    pub hottest_offset: u64,
    /// How often it was written.
    pub hottest_writes: u32,
}

impl Wear {
    /// The region that holds the most written line.
    pub fn hottest_line(&self) -> Option<RegionWear> {
        // `max_by_key` takes the last of equals; the first is wanted, as within a region.
        self.regions
            .iter()
            .rev()
            .max_by_key(|region| region.hottest_writes)
            .copied()
    }
}

/// The map while it is being filled.
#[derive(Debug)]
pub(super) struct WearTally {
    line_bytes: u64,
    /// Counters of the lines of a region, by memory and region number.
    rows: BTreeMap<(u32, u64), Box<[u32]>>,
}

impl WearTally {
    pub(super) fn new(line_bytes: u64) -> Self {
        Self {
            line_bytes,
            rows: BTreeMap::new(),
        }
    }

    /// Notes one write of a line.
    pub(super) fn note(&mut self, name: LineName) {
        let lines = WEAR_REGION_BYTES / self.line_bytes;
        let (region, line) = (name.line() / lines, name.line() % lines);
        let row = self
            .rows
            .entry((name.memory(), region))
            .or_insert_with(|| vec![0; lines as usize].into_boxed_slice());
        let count = &mut row[line as usize];
        *count = count.saturating_add(1);
    }

    /// The counts so far.
    pub(super) fn report(&self) -> Wear {
        let regions = self.rows.iter().map(|(&(memory, region), row)| {
            let offset = region * WEAR_REGION_BYTES;
            let hottest_writes = row.iter().copied().max().unwrap_or(0);
            let line = row
                .iter()
                .position(|&count| count == hottest_writes)
                .unwrap_or(0);
            RegionWear {
                memory,
                offset,
                writes: row.iter().map(|&count| u64::from(count)).sum(),
                hottest_offset: offset + line as u64 * self.line_bytes,
                hottest_writes,
            }
        });
        Wear {
            regions: regions.collect(),
        }
    }
}
