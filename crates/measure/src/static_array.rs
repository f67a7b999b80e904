//! An array of rows in durable memory: the address of a row follows from its key.
//!
//! An update has the durable steps of `nvm-inp`, and nothing else: a sealed record with the new
//! columns, streamed into the next slot, and a fence; then the columns in place. The lines of 30
//! updates are flushed together, each once; the fence of the next update awaits them, and then the
//! commit word is stored and flushed. So this is the floor of the medium for one row at a time, and
//! a database that is as fast costs nothing.
//!
//! ```text
//! pool    rows | commit word, alone in its line | slot 0 | slot 1 | ...
//! record  crc32c, 8 bytes | sequence u64 | { offset, bytes << 48 | new bytes, padded to 8 }*
//! ```

use crate::static_rows::{Design, OWNER};
use pmem::{Arena, NativeMemory, PmemError, site};
use workload::ycsb::{COLUMN_BYTES, COLUMNS, Change};

/// Updates whose lines are flushed together.
const BATCH: u64 = 30;
const LINE_BYTES: u64 = 64;
const HEADER_BYTES: usize = 16;
const CHANGE_BYTES: usize = 8 + COLUMN_BYTES.next_multiple_of(8);
/// A slot has room for all columns of a row.
const SLOT_BYTES: usize = (HEADER_BYTES + COLUMNS * CHANGE_BYTES).next_multiple_of(64);

/// Slots in as much space as `nvm-inp` uses by default.
const SLOTS: u64 = (4 << 20) / SLOT_BYTES as u64;

/// The array of one partition.
pub(crate) struct Array {
    /// The first key, and the distance from one to the next.
    first: u64,
    step: u64,
    rows: u64,
    /// Offset of the commit word.
    log: u64,
    commits: u64,
    record: Vec<u8>,
    /// Lines of the updates since the last flush.
    lines: Vec<u64>,
}

impl Design for Array {
    fn new(arena: &mut Arena<NativeMemory>, keys: Vec<u64>) -> Result<Self, PmemError> {
        let first = keys.first().copied().unwrap_or(0);
        let step = keys.get(1).map_or(1, |second| second - first);
        assert!(
            keys.windows(2).all(|pair| pair[1] - pair[0] == step),
            "the keys of a partition are evenly spaced"
        );
        Ok(Self {
            first,
            step,
            rows: keys.len() as u64,
            log: arena.reserve(64 + SLOTS as usize * SLOT_BYTES, OWNER)?,
            commits: 0,
            record: Vec::with_capacity(SLOT_BYTES),
            lines: Vec::new(),
        })
    }

    #[inline]
    fn find(&self, key: u64) -> Option<usize> {
        let distance = key.checked_sub(self.first)?;
        let number = distance / self.step;
        (number * self.step == distance && number < self.rows).then_some(number as usize)
    }

    #[inline]
    fn update(
        &mut self,
        arena: &mut Arena<NativeMemory>,
        row: u64,
        change: Change<'_>,
    ) -> Result<(), PmemError> {
        self.commits += 1;
        self.record.clear();
        self.record.resize(HEADER_BYTES, 0);
        self.record[8..16].copy_from_slice(&self.commits.to_le_bytes());
        for (column, value) in change.columns() {
            let at = row + (column * COLUMN_BYTES) as u64;
            let place = at | (COLUMN_BYTES as u64) << 48;
            self.record.extend_from_slice(&place.to_le_bytes());
            self.record.extend_from_slice(value.as_bytes());
            self.record.resize(self.record.len().next_multiple_of(8), 0);
        }
        self.record
            .resize(self.record.len().next_multiple_of(64), 0);
        let sum = u64::from(crc32c::crc32c(&self.record[8..]));
        self.record[..8].copy_from_slice(&sum.to_le_bytes());
        let slot = self.log + 64 + self.commits % SLOTS * SLOT_BYTES as u64;
        arena.write_through(slot, &self.record, site!("static-array.record"))?;
        arena.fence(site!("static-array.record-fence"))?;
        for (column, value) in change.columns() {
            let at = row + (column * COLUMN_BYTES) as u64;
            arena.store(at, value.as_bytes())?;
            let lines = at / LINE_BYTES..(at + COLUMN_BYTES as u64).div_ceil(LINE_BYTES);
            self.lines.extend(lines);
        }
        match self.commits % BATCH {
            0 => self.write_back(arena),
            1 => {
                arena.store_word(self.log, self.commits - 1)?;
                arena.flush(self.log, 8, site!("static-array.commit"))
            }
            _ => Ok(()),
        }
    }
}

impl Array {
    /// Flushes the lines of a batch, each once.
    fn write_back(&mut self, arena: &mut Arena<NativeMemory>) -> Result<(), PmemError> {
        self.lines.sort_unstable();
        self.lines.dedup();
        for line in self.lines.drain(..) {
            let at = line * LINE_BYTES;
            arena.flush(at, LINE_BYTES as usize, site!("static-array.columns"))?;
        }
        Ok(())
    }
}
