//! Scans in batches: each reads on after the last key seen, and holds a session slot for one batch.
//!
//! A batch and its before images are one moment: with one slot a partition they are taken under one
//! hold of it, with many the engine's rows come first, and the images of whatever had changed
//! before that were there already. All batches of a scan see the snapshot and the own changes from
//! when it began, so a statement that changes rows as it scans does not meet them again.
//!
//! A range that lies in several partitions is read from all, and merged by the least next key.

use super::client::Connection;
use super::clock::View;
use super::interval::Interval;
use super::merge::Batch;
use super::writes::StatementSavepoint;
use crate::error::{Error, Result};
use crate::key::{IntoKey, IntoKeyRange, Prefix};
use crate::scan::{KeptEnds, key_after, key_before, key_range, only_partition};
use crate::table::{Index, Table};
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::engine::{Direction, ScanRange};
use storage::record::{KeyBuf, Row};

/// Rows of the first and of the largest batch of a partition.
const BATCH_ROWS_MIN: usize = 16;
const BATCH_ROWS_MAX: usize = 256;

/// A range of rows that is being read, in batches. Holds no lock and no partition, so it may be
/// left at any time and gone on with later in its transaction, also after changes.
pub struct Scan {
    transaction: u64,
    table: Table,
    index: Option<Index>,
    direction: Direction,
    view: Arc<View>,
    /// The newest of the transaction's own changes that it sees.
    number: u64,
    parts: Vec<PartitionScan>,
    /// Ends that rows are compared with, where keys do not tell.
    ends: Option<KeptEnds>,
    /// The transaction's note of what the scan has read.
    note: Option<usize>,
    /// Rows that were handed over and came back: their memory is used again.
    spare: Vec<Row>,
}

/// The rest of the range in one partition.
struct PartitionScan {
    partition: u32,
    range: ScanRange,
    rows: VecDeque<(KeyBuf, Row)>,
    batch_rows: usize,
    is_finished: bool,
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "ranges are written at the call, so `&` would be noise"
)]
impl Connection {
    /// A scan of a range of the primary key.
    pub fn scan(
        &mut self,
        table: &Table,
        range: impl IntoKeyRange,
        direction: Direction,
    ) -> Result<Scan> {
        self.begin_scan(table, None, &range, direction)
    }

    /// A scan of a range of a secondary index. Rows of equal index columns come in the order of
    /// their primary keys.
    pub fn scan_index(
        &mut self,
        index: &Index,
        range: impl IntoKeyRange,
        direction: Direction,
    ) -> Result<Scan> {
        self.begin_scan(index.table(), Some(index), &range, direction)
    }

    fn begin_scan(
        &mut self,
        table: &Table,
        index: Option<&Index>,
        range: &impl IntoKeyRange,
        direction: Direction,
    ) -> Result<Scan> {
        self.begin_statement()?;
        let core = self.core();
        let entry = table.check(core.serial)?;
        let count = core.descriptor.partitions;
        let encoder = index.map_or(&entry.shape.primary, Index::encoder);
        let (range, only) = range.lend_bounds(|low, high| {
            let id = index.map(|index| index.id);
            let range = key_range(entry, id, encoder, (low, high), direction)?
                .map(|(range, ends)| (range, ends.keep()));
            let is_everywhere = index.is_some_and(|index| !index.decides_partition())
                && !entry.replicated
                && count > 1;
            let only = if is_everywhere {
                None
            } else {
                only_partition(entry, (count, 0), low, high)?
            };
            Ok::<_, Error>((range, only))
        })?;
        let (parts, ends) = match range {
            None => (Vec::new(), None),
            Some((range, ends)) => {
                let partitions = only.map_or(0..count, |only| only..only + 1);
                let parts =
                    partitions.map(|partition| PartitionScan::new(partition, range.clone()));
                (parts.collect(), ends)
            }
        };
        Ok(Scan {
            transaction: self.transaction(),
            view: self.view()?,
            number: self.open()?.writes.number(),
            table: table.clone(),
            index: index.cloned(),
            direction,
            parts,
            ends,
            note: None,
            spare: Vec::new(),
        })
    }

    /// The rows of a range of the primary key, smallest key first.
    pub fn collect(&mut self, table: &Table, range: impl IntoKeyRange) -> Result<Vec<Row>> {
        let scan = self.scan(table, range, Direction::Forward)?;
        scan.collect(self)
    }

    /// The rows whose index columns have these values, or begin with them.
    pub fn find(&mut self, index: &Index, key: impl IntoKey) -> Result<Vec<Row>> {
        let scan = self.scan_index(index, Prefix(key), Direction::Forward)?;
        scan.collect(self)
    }
}

impl Scan {
    /// The scan without those of the transaction's own changes that were made after a mark. All
    /// reads of one statement can so see the rows as they were when it began.
    ///
    /// # Errors
    ///
    /// [`Error::NoTransaction`] if the mark is of another transaction.
    pub fn seeing(mut self, mark: StatementSavepoint) -> Result<Self> {
        if mark.transaction != self.transaction {
            return Err(Error::NoTransaction);
        }
        self.number = mark.number;
        Ok(self)
    }

    /// The scan of committed rows only, without the transaction's own changes.
    #[must_use]
    pub fn committed(mut self) -> Self {
        self.number = 0;
        self
    }

    /// Replaces `rows` by the next ones, 256 at most; false if there are no more. Rows that it has
    /// filled before are filled again, without an allocation.
    ///
    /// # Errors
    ///
    /// [`Error::NoTransaction`] if the scan's transaction is not the connection's open one;
    /// [`Error::SnapshotTooOld`]; `Interrupted`. The scan can be tried again then.
    pub fn next_batch(&mut self, connection: &mut Connection, rows: &mut Vec<Row>) -> Result<bool> {
        self.spare.append(rows);
        connection.begin_statement()?;
        if connection.transaction() != self.transaction {
            return Err(Error::NoTransaction);
        }
        self.table.check(connection.core().serial)?;
        while rows.len() < BATCH_ROWS_MAX {
            for at in 0..self.parts.len() {
                // Rows are handed over whole: an error must not lose those that were taken.
                while self.parts[at].needs_rows() && rows.is_empty() {
                    connection.check_interrupt()?;
                    self.refill(at, connection)?;
                }
            }
            if self.parts.iter().any(PartitionScan::needs_rows) {
                break;
            }
            if let [part] = &mut self.parts[..] {
                let wanted = part.rows.len().min(BATCH_ROWS_MAX - rows.len());
                rows.extend(part.rows.drain(..wanted).map(|(_, row)| row));
                if wanted == 0 {
                    break;
                }
                continue;
            }
            let heads = self.parts.iter().enumerate();
            let heads = heads.filter_map(|(at, part)| Some((part.rows.front()?, at)));
            let order = |one: &(&(KeyBuf, Row), usize), other: &(&(KeyBuf, Row), usize)| {
                compare(&self.table, one.0, other.0)
            };
            let next = match self.direction {
                Direction::Forward => heads.min_by(order),
                Direction::Backward => heads.max_by(order),
            };
            let next = next.map(|(_, at)| at);
            let Some((_, row)) = next.and_then(|at| self.parts[at].rows.pop_front()) else {
                break;
            };
            rows.push(row);
        }
        Ok(!rows.is_empty())
    }

    /// All rows that are left.
    pub(super) fn collect(mut self, connection: &mut Connection) -> Result<Vec<Row>> {
        let (mut rows, mut batch) = (Vec::new(), Vec::new());
        while self.next_batch(connection, &mut batch)? {
            rows.append(&mut batch);
        }
        Ok(rows)
    }

    /// Reads the next batch of a partition.
    fn refill(&mut self, at: usize, connection: &mut Connection) -> Result<()> {
        let part = &self.parts[at];
        let wanted = part.batch_rows;
        let encoder = match &self.index {
            Some(index) => index.encoder(),
            None => &self.table.entry.shape.primary,
        };
        let mut batch = Batch {
            table: &self.table,
            partition: part.partition,
            encoder,
            index: self.index.as_ref().map(|index| index.id),
            low: part.range.low.clone(),
            high: part.range.high.clone(),
            rows: Vec::with_capacity(wanted),
        };
        let (view, spare) = (&self.view, &mut self.spare);
        connection.read_in(part.partition, |engine| {
            let mut failure = Ok(());
            engine.scan(&part.range, &mut |row| {
                let mut key = KeyBuf::new();
                failure = encoder.encode_row(row, &mut key);
                let kept = match spare.pop() {
                    Some(mut kept) => {
                        kept.clone_from(row);
                        kept
                    }
                    None => row.clone(),
                };
                batch.rows.push((key, kept));
                if failure.is_ok() && batch.rows.len() < wanted {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            failure?;
            if batch.rows.len() == wanted
                && let Some((last, _)) = batch.rows.last()
            {
                match part.range.direction {
                    Direction::Forward => batch.high = last.clone(),
                    Direction::Backward => batch.low = last.clone(),
                }
            }
            view.with_images(batch.table.id(), |images| batch.cover(&images))?
        })?;
        let open = connection.open()?;
        batch.cover_with(&mut open.writes, self.index.as_ref(), self.number)?;
        let Batch {
            low,
            high,
            rows: mut read,
            ..
        } = batch;
        if let Some(ends) = &self.ends {
            read.retain(|(_, row)| ends.include(encoder, row));
        }
        read.sort_unstable_by(|one, other| compare(&self.table, one, other));
        if self.direction == Direction::Backward {
            read.reverse();
        }
        self.note(connection, &low, &high)?;
        let part = &mut self.parts[at];
        part.go_on(&low, &high);
        part.rows.extend(read);
        Ok(())
    }

    /// Extends the note of what the scan has read.
    fn note(&mut self, connection: &mut Connection, low: &KeyBuf, high: &KeyBuf) -> Result<()> {
        let Some(note) = self.note else {
            self.note = connection.note_read(|| Interval {
                table: self.table.clone(),
                index: self.index.clone(),
                low: low.clone(),
                high: high.clone(),
            })?;
            return Ok(());
        };
        let interval = &mut connection.open()?.reads[note];
        if *low < interval.low {
            interval.low.clone_from(low);
        }
        if *high > interval.high {
            interval.high.clone_from(high);
        }
        Ok(())
    }
}

/// The order of two rows by their keys in the scanned index. In a unique index a row of the
/// snapshot may have the key of a row that the transaction has written since.
fn compare(table: &Table, one: &(KeyBuf, Row), other: &(KeyBuf, Row)) -> Ordering {
    let columns = &table.entry.shape.def.primary_key;
    one.0.cmp(&other.0).then_with(|| {
        let values = columns.iter().map(|&at| one.1.get(at));
        values.cmp(columns.iter().map(|&at| other.1.get(at)))
    })
}

impl PartitionScan {
    fn new(partition: u32, range: ScanRange) -> Self {
        Self {
            partition,
            range,
            rows: VecDeque::new(),
            batch_rows: BATCH_ROWS_MIN,
            is_finished: false,
        }
    }

    fn needs_rows(&self) -> bool {
        self.rows.is_empty() && !self.is_finished
    }

    /// Lets the range continue after an interval that was read.
    fn go_on(&mut self, low: &KeyBuf, high: &KeyBuf) {
        self.batch_rows = (self.batch_rows * 2).min(BATCH_ROWS_MAX);
        let range = &mut self.range;
        let next = match range.direction {
            Direction::Forward => key_after(high).map(|next| range.low = next),
            Direction::Backward => key_before(low).map(|next| range.high = next),
        };
        self.is_finished = next.is_none() || range.low > range.high;
    }
}
