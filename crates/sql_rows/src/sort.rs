//! Sorting: in memory while there is room, then by sorted runs in a file, which are merged.
//!
//! Equal rows keep their order. Where only the first rows are wanted, no others are kept: a row
//! that comes after all of them in the order is dropped at once.

use crate::Row;
use crate::budget::{Share, bytes_of};
use crate::chain::{Chain, Reader};
use crate::files::{BLOCK_BYTES, Blocks};
use sql_values::error::Result;
use sql_values::types::Datum;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// A column that rows are sorted by.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Its position.
    pub column: usize,
    /// Whether greater values come first.
    pub descends: bool,
    /// Whether NULL comes first.
    pub nulls_first: bool,
}

impl Order {
    /// From the least value to the greatest, and then NULL.
    pub fn ascending(column: usize) -> Self {
        Self {
            column,
            descends: false,
            nulls_first: false,
        }
    }

    /// The order of two values.
    pub fn compare(self, one: &Datum, other: &Datum) -> Ordering {
        match (one.is_null(), other.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if self.nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if self.nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if self.descends => other.cmp(one),
            (false, false) => one.cmp(other),
        }
    }
}

fn compare(order: &[Order], one: &[Datum], other: &[Datum]) -> Ordering {
    let mut orders = order
        .iter()
        .map(|by| by.compare(&one[by.column], &other[by.column]));
    orders
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// The way in which rows were sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// All at once, in memory.
    Memory,
    /// In memory, which had only those that were wanted.
    First,
    /// By runs in a file.
    Merge,
}

/// The cost of a sort.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// The way.
    pub method: Method,
    /// The most bytes of memory, or those of the file.
    pub bytes: u64,
}

/// Rows that are being sorted.
#[derive(Debug)]
pub struct Sorter {
    order: Arc<[Order]>,
    /// The number of rows that are wanted.
    wanted: usize,
    share: Share,
    rows: Vec<Row>,
    /// The last of the rows that were kept, when others were dropped.
    bound: Option<Row>,
    blocks: Option<Blocks>,
    runs: Vec<Chain>,
}

/// Rows are cut down to the wanted ones only when there are many.
const CUT_ROWS_MIN: usize = 1024;
/// Rows that are merged between two looks at whether the statement is to end.
const CHECK_ROWS: u64 = 1024;

impl Sorter {
    /// No rows yet.
    pub fn new(order: Arc<[Order]>, share: Share) -> Self {
        Self {
            order,
            wanted: usize::MAX,
            share,
            rows: Vec::new(),
            bound: None,
            blocks: None,
            runs: Vec::new(),
        }
    }

    /// Keeps only as many rows, the first ones.
    #[must_use]
    pub fn first(self, wanted: usize) -> Self {
        Self { wanted, ..self }
    }

    /// Adds a row.
    pub fn push(&mut self, row: Row) -> Result<()> {
        if let Some(bound) = &self.bound
            && compare(&self.order, &row, bound).is_ge()
        {
            return Ok(());
        }
        let bytes = bytes_of(&row);
        if !self.share.try_take(bytes) {
            if self.rows.len() >= self.wanted.saturating_mul(2) {
                self.cut();
            } else if !self.rows.is_empty() {
                self.spill()?;
            }
            self.share.force(bytes);
        }
        self.rows.push(row);
        if self.rows.len() >= self.wanted.saturating_mul(2).max(CUT_ROWS_MIN) {
            self.cut();
        }
        Ok(())
    }

    /// Sorts the rows in memory, and keeps the first ones.
    fn cut(&mut self) {
        let order = &self.order;
        self.rows.sort_by(|one, other| compare(order, one, other));
        if self.rows.len() > self.wanted {
            let bytes = self.rows.drain(self.wanted..).map(|row| bytes_of(&row));
            let bytes = bytes.sum();
            self.share.release(bytes);
            self.bound = self.rows.last().cloned();
        }
    }

    /// Writes the rows in memory to a run.
    fn spill(&mut self) -> Result<()> {
        self.cut();
        let share = &self.share;
        let blocks = self.blocks.get_or_insert_with(|| share.blocks());
        let mut run = Chain::new(blocks);
        for row in self.rows.drain(..) {
            run.push(&row)?;
        }
        run.seal()?;
        self.runs.push(run);
        self.share.clear();
        Ok(())
    }

    /// The rows in their order. Merging may take long: `check` says meanwhile if it is to end.
    pub fn finish(mut self, check: &mut dyn FnMut() -> Result<()>) -> Result<Sorted> {
        if self.runs.is_empty() {
            self.cut();
            let method = match self.wanted {
                usize::MAX => Method::Memory,
                _ => Method::First,
            };
            let usage = Usage {
                method,
                bytes: self.share.peak_bytes(),
            };
            let rows = Source::Memory(self.rows.into_iter());
            return Ok(Sorted {
                source: rows,
                left: self.wanted,
                usage,
                share: self.share,
            });
        }
        self.spill()?;
        let fan = self.share.fan();
        self.share.force((fan * BLOCK_BYTES) as u64);
        while self.runs.len() > fan {
            self.runs = self.merge_some(fan, check)?;
        }
        let bytes = self.blocks.as_ref().map_or(0, Blocks::bytes);
        Ok(Sorted {
            source: Source::Merge(Merge::new(self.order, self.runs)?),
            left: self.wanted,
            usage: Usage {
                method: Method::Merge,
                bytes,
            },
            share: self.share,
        })
    }

    /// Merges neighbours, so that equal rows keep their order.
    fn merge_some(
        &mut self,
        fan: usize,
        check: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<Chain>> {
        let (mut longer, mut runs) = (Vec::new(), std::mem::take(&mut self.runs));
        while !runs.is_empty() {
            let rest = runs.split_off(runs.len().min(fan));
            let mut merge = Merge::new(Arc::clone(&self.order), runs)?;
            let share = &self.share;
            let mut run = Chain::new(self.blocks.get_or_insert_with(|| share.blocks()));
            while let Some(row) = merge.next_row()? {
                run.push(&row)?;
                if run.rows().is_multiple_of(CHECK_ROWS) {
                    check()?;
                }
            }
            run.seal()?;
            longer.push(run);
            runs = rest;
        }
        Ok(longer)
    }
}

/// Rows in their order.
#[derive(Debug)]
pub struct Sorted {
    source: Source,
    /// Rows that are wanted still.
    left: usize,
    usage: Usage,
    /// The memory of the rows, until they are gone.
    share: Share,
}

#[derive(Debug)]
enum Source {
    Memory(std::vec::IntoIter<Row>),
    Merge(Merge),
}

impl Sorted {
    /// The cost so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The next row.
    pub fn next_row(&mut self) -> Result<Option<Row>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        match &mut self.source {
            Source::Memory(rows) => {
                let row = rows.next();
                let bytes = row.as_ref().map_or(0, |row| bytes_of(row));
                self.share.release(bytes);
                Ok(row)
            }
            Source::Merge(merge) => merge.next_row(),
        }
    }
}

/// Sorted runs, and the next row of each.
#[derive(Debug)]
struct Merge {
    order: Arc<[Order]>,
    runs: Vec<(Chain, Reader)>,
    heads: BinaryHeap<Head>,
}

/// The next row of a run. The first one in the order is the greatest, as the heap wants it.
#[derive(Debug)]
struct Head {
    order: Arc<[Order]>,
    row: Row,
    run: usize,
}

impl Merge {
    fn new(order: Arc<[Order]>, runs: Vec<Chain>) -> Result<Self> {
        let runs = runs.into_iter().map(|run| (run, Reader::default()));
        let mut merge = Self {
            order,
            runs: runs.collect(),
            heads: BinaryHeap::new(),
        };
        for run in 0..merge.runs.len() {
            merge.refill(run)?;
        }
        Ok(merge)
    }

    fn refill(&mut self, run: usize) -> Result<()> {
        let (chain, reader) = &mut self.runs[run];
        if let Some(row) = chain.take(reader)? {
            let order = Arc::clone(&self.order);
            self.heads.push(Head { order, row, run });
        }
        Ok(())
    }

    fn next_row(&mut self) -> Result<Option<Row>> {
        let Some(head) = self.heads.pop() else {
            return Ok(None);
        };
        self.refill(head.run)?;
        Ok(Some(head.row))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = compare(&self.order, &other.row, &self.row);
        // Of equal rows that of the earlier run comes first.
        order.then_with(|| other.run.cmp(&self.run))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Files, Memory};
    use sql_values::error::SqlError;

    /// Sorts numbers by their remainder, in so much memory.
    fn sorted(count: i64, wanted: usize, limit_bytes: u64) -> (Vec<i64>, Method) {
        let files = Arc::new(Files::default());
        let mut memory = Memory::new(limit_bytes, 1, Arc::clone(&files));
        let order = [Order {
            descends: true,
            ..Order::ascending(1)
        }];
        let mut sorter = Sorter::new(order.into(), memory.share()).first(wanted);
        for number in 0..count {
            let key = match number % 10 {
                0 => Datum::Null,
                key => Datum::Int8(key),
            };
            sorter.push(vec![Datum::Int8(number), key]).unwrap();
        }
        let mut rows = sorter.finish(&mut || Ok(())).unwrap();
        let mut numbers = Vec::new();
        while let Some(row) = rows.next_row().unwrap() {
            numbers.push(row[0].int().unwrap());
        }
        let method = rows.usage().method;
        drop(rows);
        assert_eq!(files.used_bytes(), 0);
        (numbers, method)
    }

    fn expected(count: i64) -> Vec<i64> {
        let mut numbers: Vec<i64> = (0..count).collect();
        numbers.sort_by_key(|number| (number % 10 == 0, -(number % 10)));
        numbers
    }

    #[test]
    fn runs_are_merged_and_equal_rows_keep_their_order() {
        for (count, limit) in [
            (0, 1000),
            (1, 1),
            (5000, 1 << 20),
            (5000, 50_000),
            (3000, 1),
        ] {
            let (numbers, method) = sorted(count, usize::MAX, limit);
            assert_eq!(numbers, expected(count), "{count} rows in {limit} bytes");
            assert_eq!(method == Method::Merge, count > 1 && limit < 1 << 20);
        }
    }

    #[test]
    fn merging_ends_when_it_is_told_to() {
        let mut memory = Memory::new(1, 1, Arc::default());
        let mut sorter = Sorter::new([Order::ascending(0)].into(), memory.share());
        for number in 0..3000 {
            sorter.push(vec![Datum::Int4(number)]).unwrap();
        }
        let ended = sorter.finish(&mut || Err(SqlError::internal("told to")));
        assert_eq!(ended.unwrap_err().message, "told to");
    }

    #[test]
    fn only_wanted_rows_are_kept() {
        for (wanted, limit) in [(0, 1 << 20), (10, 1 << 20), (3000, 20_000), (6000, 20_000)] {
            let (numbers, method) = sorted(5000, wanted, limit);
            let mut expected = expected(5000);
            expected.truncate(wanted);
            assert_eq!(numbers, expected, "{wanted} rows in {limit} bytes");
            assert_eq!(method == Method::Merge, limit < 1 << 20);
        }
    }
}
