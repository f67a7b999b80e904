//! Sorting rows that come in the order of an index: all but those whose long contents share what
//! the index orders them by are handed over as they come.
//!
//! A *group* is a longest run of rows each of which may belong before the one that it follows. The
//! rows of a group share the beginning of a content, so no row outside of it lies between them.

use super::compare::{add_computed, order_of};
use super::sort::wanted_rows;
use super::{Operator, Row, Run, build};
use crate::error::Result;
use crate::plan::Sort;
use crate::sink::Batch;
use crate::types::Datum;
use sql_rows::{Order, Sorted, Sorter};
use std::sync::Arc;

pub(super) struct IncrementalRun {
    plan: Arc<Sort>,
    input: Box<dyn Operator>,
    order: Arc<[Order]>,
    /// Rows of the input, the next one at the end.
    rows: Vec<Row>,
    batch: Batch,
    is_over: bool,
    /// The first row of the next group.
    first: Option<Row>,
    /// The rest of a group of several rows.
    sorted: Option<Sorted>,
}

impl IncrementalRun {
    pub(super) fn new(plan: &Arc<Sort>) -> Self {
        Self {
            plan: Arc::clone(plan),
            input: build(&plan.input),
            order: order_of(&plan.keys, plan.input.width()),
            rows: Vec::new(),
            batch: Batch::default(),
            is_over: false,
            first: None,
            sorted: None,
        }
    }

    /// The next row of the input, with the keys that are computed.
    fn read(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        if self.rows.is_empty() && !self.is_over {
            self.input.next(run, &mut self.batch)?;
            run.check()?;
            self.is_over = self.batch.is_empty();
            self.rows.extend(self.batch.drain());
            self.rows.reverse();
        }
        let Some(mut row) = self.rows.pop() else {
            return Ok(None);
        };
        add_computed(&self.plan.keys, &mut row, run)?;
        Ok(Some(row))
    }

    /// The next group if it is one row; otherwise it is sorted, and none if there is no row.
    fn group(&mut self, run: &mut Run<'_>) -> Result<Option<Row>> {
        let first = match self.first.take() {
            Some(first) => Some(first),
            None => self.read(run)?,
        };
        let Some(mut last) = first else {
            return Ok(None);
        };
        let mut sorter = None;
        while let Some(row) = self.read(run)? {
            if !self.may_tie(&last, &row) {
                self.first = Some(row);
                break;
            }
            let sorter = match &mut sorter {
                Some(sorter) => sorter,
                None => sorter.insert(self.sorter(run)?),
            };
            sorter.push(std::mem::replace(&mut last, row))?;
        }
        let Some(mut sorter) = sorter else {
            return Ok(Some(last));
        };
        sorter.push(last)?;
        self.sorted = Some(sorter.finish(&mut || run.check())?);
        Ok(None)
    }

    fn sorter(&self, run: &mut Run<'_>) -> Result<Sorter> {
        let wanted = wanted_rows(&self.plan, run)?;
        Ok(Sorter::new(Arc::clone(&self.order), run.state.memory.share()).first(wanted))
    }

    /// Whether the index may have two neighbours in another order than that of their values.
    fn may_tie(&self, one: &[Datum], other: &[Datum]) -> bool {
        let kept = self.plan.presorted.iter().flatten();
        for (order, kept) in self.order.iter().zip(kept) {
            let (one, other) = (&one[order.column], &other[order.column]);
            // All rows with the same keys before it.
            if *kept == Some(0) {
                return true;
            }
            if let (Some(kept), Some(one), Some(other)) = (*kept, content(one), content(other))
                && one.len().min(other.len()) > kept
                && one[..kept] == other[..kept]
            {
                return true;
            }
            if order.compare(one, other).is_ne() {
                break;
            }
        }
        false
    }
}

/// The bytes of a value whose length varies.
fn content(value: &Datum) -> Option<&[u8]> {
    match value {
        Datum::Text(text) => Some(text.as_bytes()),
        Datum::Bytea(bytes) => Some(bytes),
        _ => None,
    }
}

impl Operator for IncrementalRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        let width = self.plan.input.width();
        out.reset(width);
        // The row behind a group ends it.
        self.batch.want(out.room() + 1);
        while !out.is_full() {
            if let Some(sorted) = &mut self.sorted {
                match sorted.next_row()? {
                    Some(row) => out.push(row.into_iter().take(width)),
                    None => self.sorted = None,
                }
                continue;
            }
            let has_to_read = self.rows.is_empty() && !self.is_over;
            if has_to_read && !out.is_empty() {
                // A reader of what is there may want no more.
                break;
            }
            match self.group(run)? {
                Some(row) => out.push(row.into_iter().take(width)),
                None if self.sorted.is_some() => {}
                None => break,
            }
        }
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.rows.clear();
        (self.is_over, self.first, self.sorted) = (false, None, None);
        self.input.restart(run)
    }
}
