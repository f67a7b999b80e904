//! Sorting: in memory while the budget lasts, then by runs in files that are merged.
//!
//! Rows that a limit will throw away are not kept: with a known number of wanted rows the sort
//! keeps that many.

use super::compare::{compare, keys_of};
use super::limit::row_count;
use super::{Kept, Operator, Row, Run, build};
use crate::error::{Result, SqlState};
use crate::plan::{Sort, SortKey};
use crate::sink::Batch;
use std::sync::Arc;

pub(super) struct SortRun {
    plan: Arc<Sort>,
    input: Box<dyn Operator>,
    sorted: Option<Kept>,
}

impl SortRun {
    pub(super) fn new(plan: &Arc<Sort>) -> Self {
        Self {
            plan: Arc::clone(plan),
            input: build(&plan.input),
            sorted: None,
        }
    }

    fn sort(&mut self, run: &mut Run<'_>) -> Result<Kept> {
        let state = SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE;
        let wanted = row_count(self.plan.wanted.as_ref(), (state, "LIMIT"), run)?;
        let wanted = wanted.map_or(usize::MAX, |wanted| {
            usize::try_from(wanted).unwrap_or(usize::MAX)
        });
        let keys = &self.plan.keys;
        let mut rows: Vec<(Row, Row)> = Vec::new();
        let mut batch = Batch::default();
        loop {
            self.input.next(run, &mut batch)?;
            if batch.is_empty() {
                break;
            }
            run.check()?;
            for row in batch.drain() {
                let key = keys_of(keys, &row, run)?;
                // Only the rows that stay count, so that a small limit needs little memory.
                if rows.len() < wanted.saturating_mul(2) {
                    run.state.budget.take(&row)?;
                    run.state.budget.take(&key)?;
                }
                rows.push((key, row));
            }
            if rows.len() >= wanted.saturating_mul(2).max(1024) {
                cut(&mut rows, keys, wanted);
            }
        }
        cut(&mut rows, keys, wanted);
        Ok(Kept::new(rows.into_iter().map(|(_, row)| row).collect()))
    }
}

/// Sorts rows and keeps the first ones.
fn cut(rows: &mut Vec<(Row, Row)>, keys: &[SortKey], wanted: usize) {
    rows.sort_by(|one, other| compare(keys, &one.0, &other.0));
    rows.truncate(wanted);
}

impl Operator for SortRun {
    fn next(&mut self, run: &mut Run<'_>, out: &mut Batch) -> Result<()> {
        if self.sorted.is_none() {
            self.sorted = Some(self.sort(run)?);
        }
        if let Some(sorted) = &mut self.sorted {
            sorted.next(self.plan.input.width(), out);
        }
        Ok(())
    }

    fn restart(&mut self, run: &mut Run<'_>) -> Result<()> {
        self.sorted = None;
        self.input.restart(run)
    }
}
