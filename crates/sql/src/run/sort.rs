//! Sorting: in memory while there is room, then by runs in files that are merged.
//!
//! Rows that a limit will throw away are not kept: with a known number of wanted rows the sort
//! keeps that many.

use super::compare::{add_computed, order_of};
use super::limit::row_count;
use super::{Operator, Run, build};
use crate::error::{Result, SqlState};
use crate::plan::{Report, Sort};
use crate::sink::Batch;
use sql_rows::{Sorted, Sorter};
use std::sync::Arc;

pub(super) struct SortRun {
    plan: Arc<Sort>,
    input: Box<dyn Operator>,
    sorted: Option<Sorted>,
}

impl SortRun {
    pub(super) fn new(plan: &Arc<Sort>) -> Self {
        Self {
            plan: Arc::clone(plan),
            input: build(&plan.input),
            sorted: None,
        }
    }

    fn sort(&mut self, run: &mut Run<'_>) -> Result<Sorted> {
        let wanted = wanted_rows(&self.plan, run)?;
        let order = order_of(&self.plan.keys, self.plan.input.width());
        let mut sorter = Sorter::new(order, run.state.memory.share()).first(wanted);
        let mut batch = Batch::default();
        loop {
            self.input.next(run, &mut batch)?;
            if batch.is_empty() {
                return sorter.finish(&mut || run.check());
            }
            run.check()?;
            for mut row in batch.drain() {
                add_computed(&self.plan.keys, &mut row, run)?;
                sorter.push(row)?;
            }
        }
    }
}

/// The number of rows after which no more are wanted.
pub(super) fn wanted_rows(plan: &Sort, run: &mut Run<'_>) -> Result<usize> {
    let Some(wanted) = &plan.wanted else {
        return Ok(usize::MAX);
    };
    let state = SqlState::INVALID_ROW_COUNT_IN_RESULT_OFFSET_CLAUSE;
    let skipped = row_count(wanted.skipped.as_ref(), (state, "OFFSET"), run)?;
    let state = SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE;
    let count = row_count(Some(&wanted.count), (state, "LIMIT"), run)?;
    let rows = count.map_or(u64::MAX, |count| count.saturating_add(skipped.unwrap_or(0)));
    Ok(usize::try_from(rows).unwrap_or(usize::MAX))
}

impl Operator for SortRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        let mut sorted = match self.sorted.take() {
            Some(sorted) => sorted,
            None => self.sort(run)?,
        };
        let width = self.plan.input.width();
        out.reset(width);
        while !out.is_full()
            && let Some(row) = sorted.next_row()?
        {
            out.push(row.into_iter().take(width));
        }
        self.sorted = Some(sorted);
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.sorted = None;
        self.input.restart(run)
    }

    fn report(&self) -> Option<Report> {
        let sorted = self.sorted.as_ref();
        sorted.map(|sorted| Report::Sort(sorted.usage()))
    }
}
