//! Scans: ranges of an index in key order, over one partition or merged over all.
//!
//! A range that fixes the first primary key column is in one partition, also a range of an index
//! that begins with this column, and so is every range of a replicated table. Others are merged:
//! each partition is read in batches that continue after the last key seen, and the partition with
//! the least next key is served first. A batch starts small, so that a scan that ends early has
//! read little too much.
//!
//! Where an end of a range lies among contents that keys have only the beginning of, the keys of
//! the range are more than its rows, and each row is compared with that end (`Ends`).

use crate::error::Result;
use crate::key::IntoKeyRange;
use crate::session::Session;
use crate::table::{Index, Table, TableEntry};
use crate::trace::RowsSeen;
use std::collections::VecDeque;
use std::ops::{Bound, ControlFlow};
use storage::engine::{Direction, ScanRange};
use storage::record::{IndexId, KeyBuf, KeyEncoder, Placement, Row, Value, ValueRef};

/// Rows of the first and of the largest batch of a partition.
const BATCH_ROWS_MIN: usize = 16;
const BATCH_ROWS_MAX: usize = 256;

impl Session<'_> {
    /// Visits the rows of a range of the primary key.
    pub(crate) fn scan(
        &mut self,
        table: &Table,
        range: &impl IntoKeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        let entry = table.check(self.core.serial)?;
        range.lend_bounds(|low, high| {
            let encoder = &entry.shape.primary;
            let keys = key_range(entry, None, encoder, (low, high), direction)?;
            let Some((range, ends)) = keys else {
                return Ok(());
            };
            let only = self.only_partition(entry, low, high)?;
            self.scan_between(only, entry, encoder, (&range, &ends), visit)
        })
    }

    /// Visits the rows of a range of a secondary index.
    pub(crate) fn scan_index(
        &mut self,
        index: &Index,
        range: &impl IntoKeyRange,
        direction: Direction,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        let entry = index.table.check(self.core.serial)?;
        range.lend_bounds(|low, high| {
            let encoder = index.encoder();
            let bounds = (low, high);
            let keys = key_range(entry, Some(index.id), encoder, bounds, direction)?;
            let Some((range, ends)) = keys else {
                return Ok(());
            };
            let everywhere = !entry.replicated && self.core.partitions.len() > 1;
            let only = if everywhere && !index.decides_partition() {
                None
            } else {
                self.only_partition(entry, low, high)?
            };
            self.scan_between(only, entry, encoder, (&range, &ends), visit)
        })
    }

    /// Visits the rows of a range of keys that are between the ends.
    fn scan_between(
        &mut self,
        only: Option<u32>,
        entry: &TableEntry,
        encoder: &KeyEncoder,
        (range, ends): (&ScanRange, &Ends<'_>),
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        if ends.is_empty() {
            return self.scan_in(only, entry, encoder, range, visit);
        }
        self.scan_in(only, entry, encoder, range, &mut |row| {
            if ends.include(encoder, row) {
                visit(row)
            } else {
                ControlFlow::Continue(())
            }
        })
    }

    /// Scans the only partition that has rows of the range, or all partitions.
    fn scan_in(
        &mut self,
        only: Option<u32>,
        entry: &TableEntry,
        encoder: &KeyEncoder,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        if self.notes.is_some() {
            let mut seen = RowsSeen::default();
            let mut visit = |row: &Row| {
                seen.add(&entry.shape, row);
                visit(row)
            };
            let scanned = self.scan_partitions(only, entry, encoder, range, &mut visit);
            if scanned.is_ok() {
                self.note_scan(entry, &seen);
            }
            return scanned;
        }
        self.scan_partitions(only, entry, encoder, range, visit)
    }

    fn scan_partitions(
        &mut self,
        only: Option<u32>,
        entry: &TableEntry,
        encoder: &KeyEncoder,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        match only {
            Some(partition) => self.scan_one(partition, range, visit),
            None => self.scan_all(entry, encoder, range, visit),
        }
    }

    fn only_partition(
        &self,
        entry: &TableEntry,
        low: Bound<&[ValueRef<'_>]>,
        high: Bound<&[ValueRef<'_>]>,
    ) -> Result<Option<u32>> {
        let partitions = (self.core.descriptor.partitions, self.any_partition());
        only_partition(entry, partitions, low, high)
    }

    fn scan_one(
        &mut self,
        partition: u32,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        let scanned = self.engine(partition)?.scan(range, visit);
        scanned.map_err(|error| self.failed(error.into()))
    }

    fn scan_all(
        &mut self,
        entry: &TableEntry,
        encoder: &KeyEncoder,
        range: &ScanRange,
        visit: &mut dyn FnMut(&Row) -> ControlFlow<()>,
    ) -> Result<()> {
        debug_assert!(
            !entry.replicated,
            "one partition of a replicated table has all rows"
        );
        let mut streams: Vec<Stream> = Vec::with_capacity(self.core.partitions.len());
        for partition in 0..self.core.partitions.len() as u32 {
            let mut stream = Stream::new(partition, range.clone());
            self.refill(&mut stream, encoder)?;
            streams.push(stream);
        }
        loop {
            let heads = streams
                .iter()
                .enumerate()
                .filter_map(|(at, stream)| stream.rows.front().map(|(key, _)| (key, at)));
            let next = match range.direction {
                Direction::Forward => heads.min(),
                Direction::Backward => heads.max(),
            };
            let Some((_, at)) = next else { return Ok(()) };
            let Some((_, row)) = streams[at].rows.pop_front() else {
                return Ok(());
            };
            if visit(&row).is_break() {
                return Ok(());
            }
            if streams[at].rows.is_empty() {
                self.refill(&mut streams[at], encoder)?;
            }
        }
    }

    /// Reads the next batch of a partition.
    fn refill(&mut self, stream: &mut Stream, encoder: &KeyEncoder) -> Result<()> {
        if stream.finished {
            return Ok(());
        }
        let wanted = stream.batch_rows;
        stream.batch_rows = (wanted * 2).min(BATCH_ROWS_MAX);
        let mut failure = None;
        let rows = &mut stream.rows;
        let scanned = self
            .engine(stream.partition)?
            .scan(&stream.range, &mut |row| {
                let mut key = KeyBuf::new();
                if let Err(error) = encoder.encode_row(row, &mut key) {
                    failure = Some(error);
                    return ControlFlow::Break(());
                }
                rows.push_back((key, row.clone()));
                if rows.len() < wanted {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            });
        scanned.map_err(|error| self.failed(error.into()))?;
        if let Some(error) = failure {
            return Err(self.failed(error.into()));
        }
        stream.go_on(wanted);
        Ok(())
    }
}

/// The partition that holds a whole range of the primary key, if there is one. `partitions` are how
/// many there are, and the one to read if any will do.
pub(crate) fn only_partition(
    entry: &TableEntry,
    partitions: (u32, u32),
    low: Bound<&[ValueRef<'_>]>,
    high: Bound<&[ValueRef<'_>]>,
) -> Result<Option<u32>> {
    let (count, any) = partitions;
    if entry.replicated || count == 1 {
        return Ok(Some(any));
    }
    let first = |bound: Bound<&[ValueRef<'_>]>| match bound {
        Bound::Included(values) | Bound::Excluded(values) => values.first().map(|v| v.to_value()),
        Bound::Unbounded => None,
    };
    match (first(low), first(high)) {
        (Some(low), Some(high)) if low == high => match entry.place(low.as_ref())? {
            Placement::One(partition) => Ok(Some(partition)),
            Placement::All => Ok(Some(any)),
        },
        _ => Ok(None),
    }
}

/// The rest of a range in one partition.
struct Stream {
    partition: u32,
    range: ScanRange,
    rows: VecDeque<(KeyBuf, Row)>,
    batch_rows: usize,
    finished: bool,
}

impl Stream {
    fn new(partition: u32, range: ScanRange) -> Self {
        let rows = VecDeque::new();
        Self {
            partition,
            range,
            rows,
            batch_rows: BATCH_ROWS_MIN,
            finished: false,
        }
    }

    /// Lets the range continue after the batch that was read.
    fn go_on(&mut self, wanted: usize) {
        let last = self.rows.back().map(|(key, _)| key.clone());
        let next = match self.range.direction {
            Direction::Forward => last.as_ref().and_then(key_after),
            Direction::Backward => last.as_ref().and_then(key_before),
        };
        match next {
            Some(next) if self.rows.len() == wanted => match self.range.direction {
                Direction::Forward => self.range.low = next,
                Direction::Backward => self.range.high = next,
            },
            _ => self.finished = true,
        }
        self.finished |= self.range.low > self.range.high;
    }
}

/// All rows of a table, in the order of their keys.
pub(crate) fn whole_table(entry: &TableEntry) -> Result<ScanRange> {
    const NOTHING: &[ValueRef<'_>] = &[];
    let (mut low, mut high) = (KeyBuf::new(), KeyBuf::new());
    entry.shape.primary.lower_bound(NOTHING, &mut low)?;
    entry.shape.primary.upper_bound(NOTHING, &mut high)?;
    Ok(ScanRange {
        table: entry.id,
        index: None,
        low,
        high,
        direction: Direction::Forward,
    })
}

/// The values of a bound.
fn values_of<'v>(bound: Bound<&'v [ValueRef<'v>]>) -> &'v [ValueRef<'v>] {
    match bound {
        Bound::Included(values) | Bound::Excluded(values) => values,
        Bound::Unbounded => &[],
    }
}

/// The ends of a range whose keys are more than its rows.
#[derive(Default)]
pub(crate) struct Ends<'v> {
    low: Option<Bound<&'v [ValueRef<'v>]>>,
    high: Option<Bound<&'v [ValueRef<'v>]>>,
}

impl Ends<'_> {
    /// Whether there is none, so that all keys are of rows of the range.
    fn is_empty(&self) -> bool {
        self.low.is_none() && self.high.is_none()
    }

    /// The ends for longer than their values live; none if there is none.
    pub(crate) fn keep(&self) -> Option<KeptEnds> {
        let keep = |end: Bound<&[ValueRef<'_>]>| {
            end.map(|values| values.iter().map(|value| value.to_value()).collect())
        };
        (!self.is_empty()).then(|| KeptEnds {
            low: self.low.map(keep),
            high: self.high.map(keep),
        })
    }

    /// Whether a row is between them.
    fn include(&self, encoder: &KeyEncoder, row: &Row) -> bool {
        let is_above = self.low.is_none_or(|low| match low {
            Bound::Included(values) => encoder.compare_row(row, values).is_ge(),
            Bound::Excluded(values) => encoder.compare_row(row, values).is_gt(),
            Bound::Unbounded => true,
        });
        let is_below = self.high.is_none_or(|high| match high {
            Bound::Included(values) => encoder.compare_row(row, values).is_le(),
            Bound::Excluded(values) => encoder.compare_row(row, values).is_lt(),
            Bound::Unbounded => true,
        });
        is_above && is_below
    }
}

/// [`Ends`] with values of their own.
pub(crate) struct KeptEnds {
    low: Option<Bound<Vec<Value>>>,
    high: Option<Bound<Vec<Value>>>,
}

impl KeptEnds {
    /// Whether a row is between them.
    pub(crate) fn include(&self, encoder: &KeyEncoder, row: &Row) -> bool {
        type End = Option<Bound<Vec<Value>>>;
        fn lent(end: &End) -> Option<Bound<Vec<ValueRef<'_>>>> {
            let end = end.as_ref()?.as_ref();
            Some(end.map(|values| values.iter().map(Value::as_ref).collect()))
        }
        let (low, high) = (lent(&self.low), lent(&self.high));
        let ends = Ends {
            low: low.as_ref().map(|end| end.as_ref().map(Vec::as_slice)),
            high: high.as_ref().map(|end| end.as_ref().map(Vec::as_slice)),
        };
        ends.include(encoder, row)
    }
}

/// The range of keys between two bounds, and those of them that rows must be compared with; `None`
/// if there is nothing between them.
pub(crate) fn key_range<'v>(
    entry: &TableEntry,
    index: Option<IndexId>,
    encoder: &KeyEncoder,
    (low, high): (Bound<&'v [ValueRef<'v>]>, Bound<&'v [ValueRef<'v>]>),
    direction: Direction,
) -> Result<Option<(ScanRange, Ends<'v>)>> {
    const LEAST: u8 = 0;
    const GREATEST: u8 = u8::MAX;
    let (low_values, high_values) = (values_of(low), values_of(high));
    let pairs = low_values.iter().zip(high_values);
    let equal = pairs.take_while(|(low, high)| low == high).count();
    let mut ends = Ends::default();
    let mut key = KeyBuf::new();
    let low_key = if encoder.range_bound(low_values, equal, LEAST, &mut key)? {
        ends.low = Some(low);
        Some(key.clone())
    } else if let Bound::Excluded(values) = low {
        encoder.upper_bound(values, &mut key)?;
        key_after(&key)
    } else {
        Some(key.clone())
    };
    let high_key = if encoder.range_bound(high_values, equal, GREATEST, &mut key)? {
        ends.high = Some(high);
        Some(key)
    } else if let Bound::Excluded(values) = high {
        encoder.lower_bound(values, &mut key)?;
        key_before(&key)
    } else {
        Some(key)
    };
    Ok(match (low_key, high_key) {
        (Some(low), Some(high)) if low <= high => {
            let range = ScanRange {
                table: entry.id,
                index,
                low,
                high,
                direction,
            };
            Some((range, ends))
        }
        _ => None,
    })
}

/// The next greater key of the same length; `None` after the greatest.
pub(crate) fn key_after(key: &KeyBuf) -> Option<KeyBuf> {
    step(key, |word| word.overflowing_add(1))
}

/// The next smaller key of the same length; `None` before the least.
pub(crate) fn key_before(key: &KeyBuf) -> Option<KeyBuf> {
    step(key, |word| word.overflowing_sub(1))
}

/// Steps a key as one long number, most significant word first.
fn step(key: &KeyBuf, step_word: impl Fn(u64) -> (u64, bool)) -> Option<KeyBuf> {
    let mut key = key.clone();
    let count = key.len();
    for word in key.resized(count).iter_mut().rev() {
        let (next, carries) = step_word(*word);
        *word = next;
        if !carries {
            return Some(key);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_step_over_words() {
        let key = KeyBuf::from_words(&[1, u64::MAX]);
        assert_eq!(*key_after(&key).unwrap(), [2, 0]);
        assert_eq!(
            *key_before(&key_after(&key).unwrap()).unwrap(),
            [1, u64::MAX]
        );
        assert_eq!(key_after(&KeyBuf::from_words(&[u64::MAX; 3])), None);
        assert_eq!(key_before(&KeyBuf::from_words(&[0, 0])), None);
    }
}
