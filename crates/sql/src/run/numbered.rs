//! Windows whose functions number the rows: `row_number`, `rank` and `dense_rank`.
//!
//! A number depends on the rows before it only, so each row is handed over as it comes, and nothing
//! is kept. Rows after the last one that is wanted of a partition are left out.

use super::compare::compare;
use super::window_rows::WindowRows;
use super::{Operator, Row, Run, evaluate};
use crate::error::Result;
use crate::plan::{OverWindow, Window};
use crate::sink::Batch;
use crate::types::Datum;
use crate::types::window::WindowFunction;
use std::sync::Arc;

pub(super) struct NumberedRun {
    plan: Arc<Window>,
    rows: WindowRows,
    /// The greatest number that is wanted.
    last_wanted: Option<i64>,
    /// The keys of the row before, which tell the partition and the peers.
    before: Option<Row>,
    count: i64,
    rank: i64,
    dense_rank: i64,
}

impl NumberedRun {
    pub(super) fn new(plan: &Arc<Window>) -> Self {
        Self {
            plan: Arc::clone(plan),
            rows: WindowRows::new(plan),
            last_wanted: None,
            before: None,
            count: 0,
            rank: 0,
            dense_rank: 0,
        }
    }

    fn last_wanted(&mut self, run: &mut Run<'_>) -> Result<i64> {
        if let Some(last) = self.last_wanted {
            return Ok(last);
        }
        let last = match &self.plan.stop {
            None => i64::MAX,
            Some(stop) => match evaluate(&stop.last, &[], run)? {
                Datum::Null => 0,
                last => last.int()?,
            },
        };
        self.last_wanted = Some(last);
        if self.number_is_count() && self.plan.partition.is_empty() {
            self.rows.want(usize::try_from(last).unwrap_or(0).max(1));
        }
        Ok(last)
    }

    /// Whether the number that ends a partition is that of the rows.
    fn number_is_count(&self) -> bool {
        let call = self.plan.stop.as_ref().map(|stop| stop.call);
        call.is_some_and(|call| self.number(call) == WindowFunction::RowNumber)
    }

    fn number(&self, call: usize) -> WindowFunction {
        match &self.plan.calls[call].function {
            OverWindow::Function(function) => *function,
            OverWindow::Aggregate(_) => WindowFunction::RowNumber,
        }
    }

    fn value(&self, call: usize) -> i64 {
        match self.number(call) {
            WindowFunction::Rank => self.rank,
            WindowFunction::DenseRank => self.dense_rank,
            _ => self.count,
        }
    }

    /// Takes the keys of the next row in.
    fn step(&mut self, keys: Row) {
        let partition = self.plan.partition.len();
        let before = self.before.as_ref();
        if before.is_none_or(|before| before[..partition] != keys[..partition]) {
            (self.count, self.rank, self.dense_rank) = (1, 1, 1);
        } else {
            self.count += 1;
            let is_peer = before.is_some_and(|before| {
                compare(&self.plan.order, &before[partition..], &keys[partition..]).is_eq()
            });
            if !is_peer {
                self.rank = self.count;
                self.dense_rank += 1;
            }
        }
        self.before = Some(keys);
    }
}

impl Operator for NumberedRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        let width = self.plan.input.width();
        let last = self.last_wanted(run)?;
        out.reset(width + self.plan.calls.len());
        let mut read = 0_u32;
        while !out.is_full() {
            // A reader of the rows that are there may want no more.
            if !out.is_empty() && self.rows.has_to_read() {
                break;
            }
            let Some(mut row) = self.rows.next_row(run)? else {
                break;
            };
            read += 1;
            if read.is_multiple_of(1024) {
                run.check()?;
            }
            let keys = row.split_off(width);
            self.step(keys);
            let stop = self.plan.stop.as_ref().map(|stop| stop.call);
            if stop.is_some_and(|call| self.value(call) > last) {
                if self.plan.partition.is_empty() {
                    self.rows.end();
                }
                continue;
            }
            row.extend((0..self.plan.calls.len()).map(|call| Datum::Int8(self.value(call))));
            out.push(row);
        }
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.last_wanted = None;
        self.before = None;
        self.rows.restart(run)
    }
}
